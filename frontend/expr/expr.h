/* Inside the frontend: what expr*.c, loss_object.c, model.c and layers/ share.
 *
 * An expression becomes a tree (expr_parse.c), the tree becomes values (expr_eval.c). Functions are rows of
 * functions.def and losses.def: a signature ("x axis=-1 where=None") and a maker. A maker gets its arguments
 * bound to the signature and works on `struct fe_val` with the helpers below, which promote and broadcast as
 * JAX does (64-bit types off). A bad value (an error was recorded) passes through every helper silently. */
#ifndef FRONTEND_EXPR_H
#define FRONTEND_EXPR_H
#include "frontend/fe.h"

/* ---------------------------------------------------------------- syntax (expr_parse.c) */

enum expr_kind {
    EXPR_NUMBER,
    EXPR_STRING,
    EXPR_NAME,
    EXPR_CONSTANT /* True, False, None */,
    EXPR_ELLIPSIS,
    EXPR_TUPLE,
    EXPR_UNARY,
    EXPR_BINARY,
    EXPR_CALL,
    EXPR_INDEX,
    EXPR_SLICE,
    EXPR_IF /* a if c else b: items are c, a, b */,
    EXPR_PART /* (a).name */,
    EXPR_METHOD /* (a).name(arguments): items are a, then the arguments */
};
enum expr_operator {
    EXPR_OP_NONE,
    EXPR_OP_OR,
    EXPR_OP_XOR,
    EXPR_OP_AND,
    EXPR_OP_SHL,
    EXPR_OP_SHR,
    EXPR_OP_ADD,
    EXPR_OP_SUB,
    EXPR_OP_MUL,
    EXPR_OP_DIV,
    EXPR_OP_FLOORDIV,
    EXPR_OP_MOD,
    EXPR_OP_MATMUL,
    EXPR_OP_POW,
    EXPR_OP_NEG,
    EXPR_OP_POS,
    EXPR_OP_NOT,
    EXPR_OP_EQ,
    EXPR_OP_NE,
    EXPR_OP_LT,
    EXPR_OP_LE,
    EXPR_OP_GT,
    EXPR_OP_GE
};
struct expr_node {
    enum expr_kind kind;
    enum expr_operator op;
    uint32_t at, length; /* bytes of the text */
    uint32_t depth;      /* of the tree under it */
    const char *text;    /* NAME (dotted), STRING, CALL: the function, PART and METHOD: the name, which may be dotted */
    double number;       /* NUMBER; CONSTANT: 0, 1, or -1 for None */
    bool integer;
    bool list; /* TUPLE: in brackets */
    struct expr_node *
        *items; /* TUPLE, UNARY, BINARY, CALL's arguments, INDEX: base then items, SLICE: three, NULL if absent */
    const char **names; /* CALL, METHOD: keyword per argument, NULL for positional ones */
    uint32_t count;
};
enum { EXPR_MAX_DEPTH = 128, EXPR_MAX_CHAIN = 2000 };
struct expr_fault {
    uint32_t at, length;
    const char *message;
};
/* NULL: *fault says what and where. */
struct expr_node *expr_parse(struct arena *, const char *text, struct expr_fault *fault);

/* ---------------------------------------------------------------- places of errors */

/* A value of the document, or a part of a string of it. */
struct fe_where {
    fe_json json;
    uint32_t at, length;
    bool part;
};

/* What every helper needs: where nodes go and whom errors blame. */
struct fe_site {
    struct fe *fe;
    struct fe_trace *trace;
    struct ir_builder *b;
    struct fe_where where;
};

/* The builder's reject hook and place, set to the site for a while. */
struct fe_hook {
    void (*reject)(void *, const char *);
    void *user;
    uint32_t place;
};
struct fe_hook fe_hook_set(struct fe_site *);
void fe_hook_reset(struct fe_site *, struct fe_hook);

struct diag *fe_fail_at(const struct fe_site *, const struct fe_where *, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct fe_val fe_fail(const struct fe_site *, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---------------------------------------------------------------- functions */

/* A function that an environment knows: it gets its arguments as they are written and evaluates them itself. */
struct fe_form {
    struct fe_val (*apply)(const struct fe_form *, struct fe_site *, const struct expr_node *call,
                           const struct fe_env *);
    void *user;
};
/* Expressions that are evaluated more than once: the tree of a string (NULL: an error was recorded; a value that is no
 * string has none), and its value. */
struct expr_node *fe_expr_tree(struct fe *, fe_json);
struct fe_val fe_expr_of(struct fe *, struct fe_trace *, fe_json, const struct expr_node *, const struct fe_env *);
struct fe_val fe_eval(struct fe_site *, const struct expr_node *, const struct fe_env *);

enum { FE_MAX_ARGS = 12 };
struct fe_call {
    struct fe_site *site;
    const char *function;
    struct fe_val arg[FE_MAX_ARGS]; /* in the order of the signature; defaults filled in */
    bool given[FE_MAX_ARGS];
    struct fe_where where[FE_MAX_ARGS]; /* of each argument */
    const struct fe_val *rest;          /* a signature that ends in "*" */
    uint32_t rest_count;
    int data; /* of the row */
};
typedef struct fe_val fe_maker(struct fe_call *);
enum {
    FE_ACTIVATION = 1 /* may be a block and an activation object */,
    FE_LOSS = 2 /* may be a loss object */,
    FE_OWN_WEIGHTS = 4 /* a loss whose `weights` argument is its own */,
    FE_OWN_REDUCTION = 8 /* ... `reduction` */,
    FE_HIDDEN = 16 /* for formulas alone: no suggestion, not in the reference */
};
struct fe_function {
    const char *name, *signature;
    fe_maker *make;
    int data;
    unsigned flags;
};
const struct fe_function *fe_function_find(const char *name);
const char *fe_function_later(const char *name); /* known to the field, without a row: why ("": no reason); else NULL */
/* All names with one of `flags` (0: all), for suggestions. */
const char *const *fe_function_names(struct arena *, unsigned flags, size_t *count);
/* The names of a signature; NULL-terminated. */
const char *const *fe_signature_names(struct arena *, const struct fe_function *);
const char *fe_signature_text(struct arena *, const struct fe_function *); /* "x, axis=-1": what makers see of it */
/* Whether an argument is a word ('mean') rather than a value: its default is one. */
bool fe_takes_word(const struct fe_function *, const char *argument);
/* Calls with positional and keyword arguments (names[i] NULL: positional). `wheres` may be NULL. */
struct fe_val fe_call_function(struct fe_site *, const struct fe_function *, const struct fe_val *args,
                               const char *const *names, const struct fe_where *wheres, uint32_t count);
struct fe_val fe_apply_at(struct fe_site *, const char *function, const struct fe_val *args, uint32_t n);
#define FE_APPLY(site, function, ...) \
    fe_apply_at((site), (function), (const struct fe_val[]){__VA_ARGS__}, \
                (uint32_t)(sizeof((const struct fe_val[]){__VA_ARGS__}) / sizeof(struct fe_val)))

/* A JSON literal as a value: a string is itself, a list a tuple. `expression`: a string is an expression. */
struct fe_val fe_literal(struct fe_site *, fe_json, const struct fe_env *, bool expression);
struct fe_val fe_lookup(struct fe_site *, const char *dotted, const struct fe_env *);

/* ---------------------------------------------------------------- values (expr_ops.c) */

struct fe_val fe_bad(void);
struct fe_val fe_none(void);
struct fe_val fe_int(double);
struct fe_val fe_float(double);
struct fe_val fe_tensor_val(ir_value, bool weak);
bool fe_is_none(const struct fe_val *);
bool fe_truth(const struct fe_val *);
struct ir_type fe_type_at(const struct fe_site *, const struct fe_val *); /* of a tensor or number */
uint32_t fe_rank(const struct fe_site *, const struct fe_val *);
const char *fe_describe(const struct fe_site *, const struct fe_val *); /* "float32[2, 3]", "a string" */
/* As a tensor of its own type; false: not a tensor or number, an error was recorded. */
bool fe_as_tensor(const struct fe_site *, struct fe_val *);
ir_value fe_value_as(const struct fe_site *, const struct fe_val *, enum ir_dtype);
/* JAX's promotion of dtypes with weak types. */
struct fe_kind_of {
    enum ir_dtype dtype;
    bool weak;
};
struct fe_kind_of fe_promote(struct fe_kind_of, struct fe_kind_of);
struct fe_kind_of fe_kind(const struct fe_site *, const struct fe_val *);
/* Of what two operands make. */
struct fe_kind_of fe_kind_of_both(const struct fe_site *, const struct fe_val *, const struct fe_val *);
bool fe_broadcast_shapes(const struct ir_type *, const struct ir_type *, struct ir_type *out);

struct fe_val fe_op1(struct fe_site *, enum ir_op, struct fe_val);       /* keeps the dtype */
struct fe_val fe_op1_float(struct fe_site *, enum ir_op, struct fe_val); /* integers become float32 */
struct fe_val fe_op2(struct fe_site *, enum ir_op, struct fe_val, struct fe_val);
struct fe_val fe_op2_float(struct fe_site *, enum ir_op, struct fe_val, struct fe_val);
struct fe_val fe_binary(struct fe_site *, enum expr_operator, struct fe_val, struct fe_val);
struct fe_val fe_where3(struct fe_site *, struct fe_val p, struct fe_val x, struct fe_val y);
struct fe_val fe_cast(struct fe_site *, struct fe_val, enum ir_dtype);
struct fe_val fe_on_time(const struct fe_site *, struct fe_val); /* a learning rate of the host as float32 */
struct fe_val fe_inexact(struct fe_site *, struct fe_val);
struct fe_val fe_boolean(struct fe_site *, struct fe_val); /* x != 0 */
struct fe_val fe_stop(struct fe_site *, struct fe_val);
struct fe_val fe_broadcast_val(struct fe_site *, struct fe_val, uint32_t rank, const int64_t *shape);
struct fe_val fe_reshape_val(struct fe_site *, struct fe_val, uint32_t rank, const int64_t *shape);
struct fe_val fe_full(struct fe_site *, struct ir_type, double);
struct fe_val fe_tuple(struct fe_site *, const struct fe_val *, uint32_t count);
/* A tuple whose parts have names, too: svd(x)[1] is svd(x).S. */
struct fe_val fe_named_tuple(struct fe_site *, const struct fe_val *, uint32_t count, const char *const *names);

static inline struct fe_val fe_add(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    return fe_binary(s, EXPR_OP_ADD, a, b);
}
static inline struct fe_val fe_sub(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    return fe_binary(s, EXPR_OP_SUB, a, b);
}
static inline struct fe_val fe_mul(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    return fe_binary(s, EXPR_OP_MUL, a, b);
}
static inline struct fe_val fe_div(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    return fe_binary(s, EXPR_OP_DIV, a, b);
}

/* Arguments (expr_arguments.c); false: an error was recorded. */
bool fe_get_int(struct fe_call *, uint32_t arg, int64_t *out);
bool fe_get_ints(struct fe_site *, const struct fe_val *, int64_t *out, uint32_t limit, uint32_t *count,
                 const char *what);
bool fe_get_axis(const struct fe_site *, int64_t axis, uint32_t rank, uint32_t *out);
bool fe_get_axis_arg(struct fe_call *, uint32_t arg, uint32_t rank, uint32_t *out);
bool fe_get_axes(struct fe_call *, uint32_t arg, uint32_t rank, uint32_t *axes, uint32_t *count); /* None: all */
bool fe_get_dtype(struct fe_call *, uint32_t arg, enum ir_dtype *out);
bool fe_get_tensor(struct fe_call *, uint32_t arg, struct ir_type *); /* as a tensor, and its type */
struct fe_val fe_as_dtype(struct fe_call *, uint32_t arg,
                          struct fe_val); /* cast to the dtype of an argument; None: as it is */

/* ---------------------------------------------------------------- loops (expr_loop.c) */

/* A loop inside an expression, of which nothing is differentiated. Opened, then all that it carries, then what it sees
 * of outside; `in` is where its body is made. */
struct fe_loop {
    struct fe_site *outer, in;
    struct ir_builder body;
    struct fe_val number; /* int32 scalar: of the round, from 0 */
    bool unstopped;       /* a gradient may ask for it: an error then. Else it takes its operands as given */
    VEC(ir_value) carried;
    VEC(ir_value) captured;
};
void fe_loop_open(struct fe_loop *, struct fe_site *, const char *name);
struct fe_val fe_loop_carry(struct fe_loop *, struct fe_val initial); /* what it is inside */
struct fe_val fe_loop_see(struct fe_loop *, struct fe_val outer);
/* One value for each that is carried, of its type, after `rounds`, or, if the first one is a bool scalar `go`, as soon
 * as that is false. False: an error was recorded. */
bool fe_loop_close(struct fe_loop *, int64_t rounds, bool go, const struct fe_val *next, struct fe_val *after);

/* ---------------------------------------------------------------- reductions, shapes (reduce.c, array_shape.c,
 * ...) */

enum fe_reduction { FE_RED_SUM, FE_RED_MEAN, FE_RED_MAX, FE_RED_MIN, FE_RED_PROD, FE_RED_ANY, FE_RED_ALL };
struct fe_reduce_options {
    bool keepdims;
    const struct fe_val *where, *initial;
};
struct fe_val fe_reduce(struct fe_site *, enum fe_reduction, struct fe_val, const uint32_t *axes, uint32_t count,
                        const struct fe_reduce_options *);
struct fe_val fe_reduce_last(struct fe_site *, enum fe_reduction, struct fe_val, bool keepdims);
struct fe_val fe_reduce_all(struct fe_site *, enum fe_reduction, struct fe_val);
struct fe_val fe_transpose_val(struct fe_site *, struct fe_val, const uint32_t *perm);
struct fe_val fe_slice_axis(struct fe_site *, struct fe_val, uint32_t axis, int64_t start, int64_t limit);
struct fe_val fe_join(struct fe_site *, const struct fe_val *, uint32_t count, uint32_t axis); /* end to end */
struct fe_val fe_expand(struct fe_site *, struct fe_val, uint32_t axis);
struct fe_val fe_iota(struct fe_site *, struct ir_type, uint32_t axis);
struct fe_val fe_einsum(struct fe_site *, const char *formula, const struct fe_val *operands, uint32_t count);
struct fe_val fe_index(struct fe_site *, struct fe_val base, const struct fe_val *items, const struct fe_where *wheres,
                       uint32_t count);
/* x.at[...]: set, add, multiply, ... (place: kind FE_VAL_AT, the tensor and its index) */
struct fe_val fe_update(struct fe_site *, const struct fe_val *place, const char *how, const char *mode,
                        struct fe_val with);
struct fe_val fe_get(struct fe_site *, const struct fe_val *place, const char *mode,
                     const struct fe_val *fill); /* x.at[...].get() */
struct fe_val fe_take(struct fe_site *, struct fe_val x, struct fe_val indices, uint32_t axis, bool wrap);
/* Complex values (math_complex.c): pairs `real`, `imag`. */
bool fe_is_complex(const struct fe_val *);
struct fe_val fe_complex_binary(struct fe_site *, enum expr_operator, struct fe_val, struct fe_val);
struct fe_val fe_complex_index(struct fe_site *, const struct fe_val *z, const struct fe_val *items,
                               const struct fe_where *wheres, uint32_t count);
bool fe_complex_call(struct fe_call *, const struct fe_function *,
                     struct fe_val *result); /* the first argument is complex */
/* One-hot of integer `labels` over a new axis at `axis`, as a bool tensor. */
struct fe_val fe_one_hot_mask(struct fe_site *, struct fe_val labels, int64_t classes, uint32_t axis);
struct fe_val fe_softmax_parts(struct fe_site *, struct fe_val x, const uint32_t *axes, uint32_t count,
                               const struct fe_val *where, struct fe_val *log_sum);
#endif
