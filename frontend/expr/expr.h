/* The expression language. An expression becomes a tree (document/expr_parse.c), the tree becomes values (expr_eval.c)
 * in a trace: tensors of the function that is being built, numbers, tuples. The names that it sees are an environment.
 * Functions are formulas of the library (library.h) or rows of functions.def and losses.def: a signature ("x axis=-1
 * where=None") and a maker in C (makers.h). */
#ifndef FRONTEND_EXPR_H
#define FRONTEND_EXPR_H
#include "frontend/document/document.h"
#include "frontend/document/expr_parse.h"

/* ---------------------------------------------------------------- values, environments, traces */

enum fe_val_kind {
    FE_VAL_NONE, /* Python's None, or an error already recorded when `bad` */
    FE_VAL_NUMBER,
    FE_VAL_TENSOR,
    FE_VAL_TUPLE,
    FE_VAL_STRING,
    FE_VAL_TREE,
    FE_VAL_SLICE,
    FE_VAL_ELLIPSIS,
    FE_VAL_FORM /* a function of an environment */,
    FE_VAL_AT /* x.at, x.at[..]: items are the tensor, then its index */
};
struct fe_tree {
    const char *const *paths;
    const ir_value *values;
    uint32_t count;
}; /* params, grads, updates */
struct fe_val {
    enum fe_val_kind kind;
    bool bad;                                           /* an error was recorded while computing it */
    bool weak;                                          /* tensor of weak type, as in JAX's promotion */
    enum { FE_PY_BOOL, FE_PY_INT, FE_PY_FLOAT } python; /* of a NUMBER */
    double number;
    ir_value tensor;
    const struct fe_val *items;
    uint32_t count;       /* TUPLE (lists too); a model with parts has `names` */
    struct fe_room *room; /* where tuples that begin like this one stand; NULL: there is none for more */
    const char *const *names;
    bool list; /* TUPLE: written in brackets; one with names: indexed by numbers, too */
    const char *string;
    const struct fe_tree *tree;
    const struct fe_form *form;
};

/* Names that an expression sees, innermost first. */
struct fe_env {
    const struct fe_env *outer;
    const char *name;
    struct fe_val value;
    bool own; /* not of the language: the document calls so what it has here, or a formula that it does not see */
};
/* The nodes of one graph, of which there may be thousands: found by name instead of one after another. */
struct fe_names {
    struct map position;
    VEC(const struct fe_env *) list;
    const struct fe_env *outer; /* of the first */
};
const struct fe_env *fe_bind(struct arena *, const struct fe_env *outer, const char *name, struct fe_val);
const struct fe_env *fe_bind_own(struct arena *, const struct fe_env *outer, const char *name, struct fe_val);
const struct fe_env *fe_env_find(const struct fe *, const struct fe_env *, const char *name); /* NULL: there is none */
/* A name of a graph and which one it is. */
struct fe_graph_env {
    const struct fe_names *names;
    uint32_t position;
};
struct fe_val fe_val_tensor(ir_value);
struct fe_val fe_val_number(double, bool integer);
struct fe_val fe_input_value(struct ir_builder *, ir_value); /* an input of the document, in 32 bits at most */

/* Rows of the batch that a trace sees. */
struct fe_rows {
    ir_value
        numbers; /* int32: per row its number in the batch; a scalar: one row without its dimension; 0: not asked for */
    int64_t count;
    bool apart;     /* rows of something else in a part of the batch: which ones of the whole they are is not known */
    int64_t mapped; /* rows of the outermost micro_vmap; 0: there is none */
};

/* Integers that index, noted while a trace is made: step/index_checks.c sees to it that those which come from the batch
 * are where they must be before a step runs. */
struct fe_index_note {
    const char *text; /* as the document has it */
    ir_value index;
    int64_t least, limit;
    ir_value counted; /* of its shape: those that are not 0 matter; 0: all */
    ir_value made;    /* of them, the dimensions of `other` aside in their shape; 0: nothing of that kind */
    uint32_t other;   /* bit mask */
    bool of_labels;   /* matters only where a loss gets what is made as an argument */
};
struct fe_index_notes {
    VEC(struct fe_index_note) list;
    VEC(ir_value) labels; /* arguments of losses */
};

/* One tracing of model and loss into a function. Before: `b` stands in the function, inputs and params are its
 * values. The first trace of a document declares the parameters (params may then be NULL: an ir_param bound to the
 * parameter's slot is made for each). */
struct fe_trace {
    struct ir_builder *b;
    bool train;                   /* dropout and batch statistics */
    bool notes_random;            /* the shapes of random tensors are written down: those of the whole batch */
    const struct fe_rows *rows;   /* which rows of the batch the trace sees; NULL: all of them */
    const ir_value *inputs;       /* per declared input, in document order; 0 = not available (infer) */
    const ir_value *params;       /* per parameter; NULL: entry function, made on demand */
    ir_value *statistics;         /* per parameter: new value of a running statistic; 0 = unchanged */
    ir_value scale;               /* by which the loss is multiplied for its gradient, if that changes; 0 = none */
    struct fe_val model;          /* set by fe_trace_model */
    struct fe_val loss;           /* set by fe_trace_loss: float32 scalar */
    const struct fe_env *env;     /* inputs, model, loss, params as expressions see them */
    struct fe_trace_own *own;     /* model.c's notes of this trace; starts as NULL */
    struct fe_index_notes *notes; /* NULL: nobody asks */
};

/* The parameters of the model as expressions see them: values when they are asked for. */
struct fe_parameters {
    uint32_t (*count)(const struct fe *);
    /* `statistic`: a running statistic, which has to be asked for by its path. */
    const char *(*path)(const struct fe *, uint32_t index, bool *statistic);
    ir_value (*value)(struct fe *, struct fe_trace *, uint32_t index);
};

/* ---------------------------------------------------------------- places of errors */

/* A value of the document, or a part of a string of it. */
struct fe_where {
    fe_json json;
    uint32_t at, length;
    bool part;
};

/* A formula of the library that is carried out: errors in it blame the call, or the arguments that it hands on. */
struct fe_formula;
struct fe_frame {
    const struct fe_formula *formula;
    const char *function; /* that the document calls */
    struct fe_where where;
    const char *const *names; /* of the arguments; NULL-terminated */
    const struct fe_where *wheres;
};

/* What every helper needs: where nodes go and whom errors blame. */
struct fe_site {
    struct fe *fe;
    struct fe_trace *trace;
    struct ir_builder *b;
    struct fe_where where;
    const struct fe_frame *frame; /* NULL: an expression of the document */
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
/* The same, and false. */
#define fe_wrong_at(...) (fe_fail_at(__VA_ARGS__), false)
#define fe_wrong_here(...) (fe_fail(__VA_ARGS__), false)

/* ---------------------------------------------------------------- evaluation (expr_eval.c) */

/* Evaluates the expression string at `string` (a number or bool is taken as such) into the trace's function. */
struct fe_val fe_expr(struct fe *, struct fe_trace *, fe_json string, const struct fe_env *);
/* The value as one tensor (numbers become weak scalars); 0 and an error if it is none. */
ir_value fe_tensor(struct fe *, struct fe_trace *, const struct fe_val *, fe_json where);
/* Expressions that are evaluated more than once: the tree of a string (NULL: an error was recorded; a value that is no
 * string has none), and its value. */
struct expr_node *fe_expr_tree(struct fe *, fe_json);
struct fe_val fe_expr_of(struct fe *, struct fe_trace *, fe_json, const struct expr_node *, const struct fe_env *);
struct fe_val fe_eval(struct fe_site *, const struct expr_node *, const struct fe_env *);
/* Whom an error of an argument blames: what stands there; in a formula the argument of the call that is handed on. */
struct fe_where fe_where_argument(const struct fe_site *, const struct expr_node *);
/* A JSON literal as a value: a string is itself, a list a tuple. `expression`: a string is an expression. */
struct fe_val fe_literal(struct fe_site *, fe_json, const struct fe_env *, bool expression);
/* A function that an environment knows: it gets its arguments as they are written and evaluates them itself. */
struct fe_form {
    struct fe_val (*apply)(const struct fe_form *, struct fe_site *, const struct expr_node *call,
                           const struct fe_env *);
    void *user;
};

/* ---------------------------------------------------------------- functions by name (expr_call.c) */

struct fe_call; /* makers.h */
typedef struct fe_val fe_maker(struct fe_call *);
enum {
    FE_ACTIVATION = 1 /* may be a block and an activation object */,
    FE_LOSS = 2 /* may be a loss object */,
    FE_OWN_WEIGHTS = 4 /* a loss whose `weights` argument is its own */,
    FE_OWN_REDUCTION = 8 /* ... `reduction` */,
    FE_HIDDEN = 16 /* for formulas alone: no suggestion, not in the reference */,
    FE_WIDE = 32 /* 16-bit floats are computed in float32, and the result is rounded once */
};
struct fe_function {
    const char *name, *signature;
    fe_maker *make;
    int data;
    unsigned flags;
    struct fe_formula *formula; /* NULL: a maker in C */
    const char *same_as;        /* of which it is another name; NULL: of none */
    const char *doc;            /* what it gives, in a sentence; of a formula: the comment above it */
};
/* All functions by name: rows with makers and the formulas of the library. One is opened for each compilation. */
struct fe_library;
/* Functions in C. The tables of later folders reach the language through the context. */
struct fe_function_table {
    const struct fe_function *rows;
    uint32_t count;
    const struct fe_function_table *earlier; /* that is read before; NULL: none */
};
extern const struct fe_function_table fe_functions; /* functions/ */
const struct fe_library *fe_library_open(struct arena *, const struct fe_function_table *);
const struct fe_library *fe_library(struct fe *);
const struct fe_function *fe_function_find(const struct fe_library *, const char *name);
const char *fe_function_later(const char *name); /* known to the field, without a row: why ("": no reason); else NULL */
/* All names with one of `flags` (0: all), for suggestions. */
const char *const *fe_function_names(const struct fe_library *, unsigned flags, size_t *count);
/* What an argument becomes before the function sees it, and what is refused. */
enum fe_argument_kind {
    FE_ARG_ANY,
    FE_ARG_TENSOR,   /* tensor: a number or list becomes one */
    FE_ARG_FLOAT,    /* float: integers become float32 */
    FE_ARG_COMMON,   /* common: all that are so marked get the float dtype that they promote to */
    FE_ARG_FLOATING, /* floating: other dtypes are refused */
    FE_ARG_INT,      /* int: a tensor of another dtype is refused */
    FE_ARG_INTEGER,  /* integer: known while compiling */
    FE_ARG_NUMBER    /* number: known while compiling */
};
/* An argument of a signature: `name`, `name: kind`, `name=default`. */
struct fe_parameter {
    const char *name;
    size_t length;
    const char *preset; /* the text of its default; NULL: none */
    size_t preset_length;
    enum fe_argument_kind kind;
    bool rest;   /* "*": any number of positional ones */
    bool silent; /* ~name: it changes nothing of the result (precision, overwrite_a): looked at and forgotten */
    bool fixed;  /* !name=default: nothing but the default is supported. The maker sees neither of the two */
};
/* The next one; returns the text behind it, NULL at the end. */
const char *fe_parameter_next(const char *signature, struct fe_parameter *);
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
/* Applies an activation by its jax.nn name: object {"type": "gelu", ...}, which has the keys of every block if it is
 * one. */
struct fe_val fe_activation(struct fe *, struct fe_trace *, fe_json object, struct fe_val x, bool is_block);
bool fe_is_activation(struct fe *, const char *name);
#endif
