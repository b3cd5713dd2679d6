/* Values of expressions as makers, layers, losses and optimizers compute with them: operations that promote dtypes and
 * broadcast shapes as JAX does (64-bit types off), reductions, shapes, loops. A bad value (an error was recorded)
 * passes through every one of them silently. */
#ifndef FRONTEND_EXPR_VALUES_H
#define FRONTEND_EXPR_VALUES_H
#include "frontend/expr/expr.h"

/* ---------------------------------------------------------------- values (expr_value.c, expr_ops.c) */

struct fe_val fe_bad(void); /* expr_site.c: an error was recorded */
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
bool fe_is_operand(struct fe_site *, struct fe_val *); /* a number, or as a tensor */
const char *fe_type_text(const struct fe_site *, const struct ir_type *);
/* A number as a tensor of one type. A whole one fits into it, or is an int32, of which shorter integers keep the low
 * bits; another one is an error, as in JAX: E0310, 0. */
ir_value fe_number_as(const struct fe_site *, const struct fe_val *, struct ir_type);
ir_value fe_value_as(const struct fe_site *, const struct fe_val *, enum ir_dtype);
/* JAX's promotion of dtypes with weak types. */
struct fe_kind_of {
    enum ir_dtype dtype;
    bool weak;
};
int fe_dtype_class(enum ir_dtype); /* 0 bool, 1 integers, 2 floats */
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

/* An axis of a tensor of that rank, counted from its end if it is negative; false: an error was recorded. */
bool fe_get_axis(const struct fe_site *, int64_t axis, uint32_t rank, uint32_t *out);
/* Integers, one or a tuple of them, `what` for messages. */
bool fe_get_ints(struct fe_site *, const struct fe_val *, int64_t *out, uint32_t limit, uint32_t *count,
                 const char *what);

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

/* ---------------------------------------------------------------- reductions, shapes (expr_shape.c), indices
 * (expr_index.c) */

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
struct fe_val fe_join(struct fe_site *, const struct fe_val *, uint32_t count, uint32_t axis);  /* end to end */
struct fe_val fe_stack(struct fe_site *, const struct fe_val *, uint32_t count, uint32_t axis); /* along a new axis */
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
/* Notes that values of `index` have to lie in [least, limit). */
struct fe_index_note *fe_note_index(struct fe_site *, const struct fe_where *, const struct fe_val *index,
                                    int64_t least, int64_t limit); /* NULL: nobody asks */
/* Is it computed, and of floats? Such a tensor is gone through anyway, and so is its gradient. */
bool fe_is_made(const struct fe_site *, const struct fe_val *);
/* One element of each row along `axis`, at place: int32 of x's rank, as a sum over all of which the others are left
 * out: a loop over the rows does it beside what makes them (logarithms of probabilities, say, which need not be
 * stored), and its gradient is no scatter. */
struct fe_val fe_picked(struct fe_site *, struct fe_val x, struct fe_val place, uint32_t axis, bool keepdims);
bool fe_is_index(struct fe_site *, const struct fe_val *); /* a tensor of integers; false: an error was recorded */
/* x where `inside`, elsewhere `fill`; None: what jax.numpy fills with. */
struct fe_val fe_fill_outside(struct fe_site *, struct fe_val inside, struct fe_val x, const struct fe_val *fill);
/* Complex values: pairs `real`, `imag`. */
bool fe_is_complex(const struct fe_val *);
struct fe_val fe_real(struct fe_site *, const struct fe_val *); /* its real part, or itself */
struct fe_val fe_imag(struct fe_site *, const struct fe_val *); /* its imaginary part, or zeros */
/* The function that carries out an operator with a complex operand; NULL: fe_binary does. b: the second operand. */
const char *fe_complex_operator(enum expr_operator, const struct fe_val *b);
struct fe_val fe_complex(struct fe_site *, struct fe_val real, struct fe_val imag);
/* One-hot of integer `labels` over a new axis at `axis`, as a bool tensor. */
struct fe_val fe_one_hot_mask(struct fe_site *, struct fe_val labels, int64_t classes, uint32_t axis);
#endif
