/* Private to ir/eval*.c: what the rules of the interpreter see, and the helpers that they share. */
#ifndef IR_EVAL_H
#define IR_EVAL_H
#include "ir/ir.h"

/* Storage of tensors with free lists by size (powers of two), so that a whole model needs about what is live. */
struct eval_pool {
    struct arena arena;
    void *free[48];
};

struct eval {
    enum ir_precision precision;
    struct eval_pool pool;
    ir_eval_see *see; /* NULL: nobody wants to know of NaN and infinities */
    void *user;
};

/* A value of a running function: one tensor, or several for a tuple. */
struct eval_cell {
    struct ir_tensor *t;
    uint32_t count, uses;
    bool owned;
};

/* One node being evaluated. `out` is allocated by the caller unless the node's type is a tuple. */
struct eval_call {
    struct eval *e;
    const struct ir_func *f;
    const struct ir_node *n;
    struct eval_cell *cells; /* of the function's values */
    const struct ir_tensor *params;
    struct eval_cell *out;
};
typedef void eval_rule(struct eval_call *);

#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) eval_rule eval_##eval;
#include "ir/ops.def"
#undef X

static inline const struct ir_tensor *eval_arg(const struct eval_call *c, uint32_t i)
{
    return &c->cells[c->n->args[i]].t[0];
}

/* An empty tensor may have no storage at all. */
static inline void eval_move(double *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
}

/* eval.c: runs `f` and copies its results to `out`, whose storage exists. */
void eval_run(struct eval *, const struct ir_func *f, const struct ir_tensor *params, struct ir_tensor *out);

/* eval_storage.c */
double *eval_new(struct eval *, int64_t count);
void eval_drop(struct eval *, double *v, int64_t count);
/* Makes the cell hold `count` tensors of the given types. */
void eval_cell_new(struct eval *, struct eval_cell *, const struct ir_type *types, uint32_t count);
void eval_cell_drop(struct eval *, struct eval_cell *);

/* eval_number.c: rounds in place to the dtype (integers wrap; floats stay as they are in f64 mode). */
void eval_to_dtype(enum ir_precision, enum ir_dtype, double *v, int64_t count);
double eval_integer(enum ir_dtype, uint64_t bits); /* the number that the low bits are */
double eval_integer_multiply_add(enum ir_dtype, double x, double y, double z);
double eval_convert(enum ir_dtype from, enum ir_dtype to, double); /* as XLA: float to integer saturates, NaN is 0 */

/* eval_shape.c: reads x[offset + sum(index[i] * stride[i])] for all indices in C order; the copy is dense. */
void eval_gather(double *out, uint32_t rank, const int64_t *extent, const double *x, const int64_t *stride);
void eval_strides(const struct ir_type *, int64_t *stride); /* of C order */
#endif
