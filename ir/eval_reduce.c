/* Reductions and contractions of the interpreter: operands are put in order densely, then summed in double and
 * rounded once; sums and products of 16-bit floats are rounded at every step. */
#include "ir/eval.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ordered {
    double *v;
    int64_t count;
};

/* x with its dimensions in `order` (n of them: all), dense. */
static struct ordered reorder(struct eval *e, const struct ir_tensor *x, const uint32_t *order)
{
    int64_t of_x[IR_MAX_RANK], extent[IR_MAX_RANK], stride[IR_MAX_RANK];
    struct ordered out = {NULL, ir_type_elements(&x->type)};
    out.v = eval_new(e, out.count);
    eval_strides(&x->type, of_x);
    for (uint32_t i = 0; i < x->type.rank; i++) {
        extent[i] = x->type.dim[order[i]];
        stride[i] = of_x[order[i]];
    }
    eval_gather(out.v, x->type.rank, extent, x->v, stride);
    return out;
}

static bool contains(const struct ir_ints *list, uint32_t dim)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->v[i] == dim) return true;
    return false;
}

/* Kept dimensions first, then the reduced ones; *inner is the number of elements in one reduction. */
static struct ordered rows(struct eval_call *c, int64_t *inner)
{
    const struct ir_tensor *x = eval_arg(c, 0);
    uint32_t order[IR_MAX_RANK], n = 0;
    *inner = 1;
    for (uint32_t i = 0; i < x->type.rank; i++)
        if (!contains(&c->n->attr[0], i)) order[n++] = i;
    for (uint32_t i = 0; i < x->type.rank; i++)
        if (contains(&c->n->attr[0], i)) {
            order[n++] = i;
            *inner *= x->type.dim[i];
        }
    return reorder(c->e, x, order);
}

/* Products of integers wrap at every step: a double cannot hold them to the end. */
static double product(enum ir_dtype dtype, double x, double y)
{
    return ir_dtype_is_float(dtype) ? x * y : eval_integer_multiply_add(dtype, x, y, 0);
}

#define REDUCE(name, initial, step) \
    void eval_##name(struct eval_call *c) \
    { \
        enum ir_dtype dtype = (enum ir_dtype)c->n->type.dtype; \
        int64_t inner, outer = ir_type_elements(&c->n->type); \
        struct ordered x = rows(c, &inner); \
        double first = initial; \
        bool narrow = dtype == IR_BF16 || dtype == IR_F16; /* rounds at every step */ \
        for (int64_t o = 0; o < outer; o++) { \
            double a = first; \
            for (int64_t i = 0; i < inner; i++) { \
                double b = x.v[o * inner + i]; \
                a = step; \
                if (narrow) eval_to_dtype(c->e->precision, dtype, &a, 1); \
            } \
            c->out->t->v[o] = a; \
        } \
        eval_to_dtype(c->e->precision, dtype, c->out->t->v, outer); \
        eval_drop(c->e, x.v, x.count); \
    }

REDUCE(reduce_sum, 0, a + b)
REDUCE(reduce_max, ir_dtype_least(dtype), isnan(a) ? a : b > a || isnan(b) ? b : a)
REDUCE(reduce_min, ir_dtype_greatest(dtype), isnan(a) ? a : b < a || isnan(b) ? b : a)
REDUCE(reduce_prod, 1, product(dtype, a, b))

/* ---------------------------------------------------------------- running results */

static double combined(enum ir_cumulate kind, enum ir_dtype dtype, double before, double x, double y)
{
    double most = before > x ? before : x, least = before > x ? x : before;
    switch (kind) {
    case IR_CUMULATE_SUM: return before + x;
    case IR_CUMULATE_PROD: return product(dtype, before, x);
    case IR_CUMULATE_MAX: return isnan(before) || isnan(x) ? NAN : most;
    case IR_CUMULATE_MIN: return isnan(before) || isnan(x) ? NAN : least;
    case IR_CUMULATE_LOGSUMEXP: return isnan(before - x) ? before + x : most + log1p(exp(least - most));
    default: return ir_dtype_is_float(dtype) ? before * y + x : eval_integer_multiply_add(dtype, before, y, x);
    }
}

/* In double, and floats are rounded once. */
void eval_cumulate(struct eval_call *c)
{
    const struct ir_type *type = &c->n->type;
    const double *x = eval_arg(c, 0)->v, *y = c->n->arg_count > 1 ? eval_arg(c, 1)->v : NULL;
    enum ir_cumulate kind = (enum ir_cumulate)c->n->attr[1].v[0];
    enum ir_dtype dtype = (enum ir_dtype)type->dtype;
    double *out = c->out->t->v;
    int64_t stride[IR_MAX_RANK], dim = c->n->attr[0].v[0], count = ir_type_elements(type);
    eval_strides(type, stride);
    for (int64_t i = 0; i < count; i++) { /* each run from its first element */
        if (i / stride[dim] % type->dim[dim]) continue;
        double before = kind == IR_CUMULATE_PROD        ? 1
                        : kind == IR_CUMULATE_MAX       ? ir_dtype_least(dtype)
                        : kind == IR_CUMULATE_MIN       ? ir_dtype_greatest(dtype)
                        : kind == IR_CUMULATE_LOGSUMEXP ? -INFINITY
                                                        : 0;
        for (int64_t k = 0; k < type->dim[dim]; k++) {
            int64_t at = i + (c->n->attr[2].v[0] ? type->dim[dim] - 1 - k : k) * stride[dim];
            before = combined(kind, dtype, before, x[at], y ? y[at] : 0);
            if (!ir_dtype_is_float(dtype)) eval_to_dtype(c->e->precision, dtype, &before, 1);
            out[at] = before;
        }
    }
    eval_to_dtype(c->e->precision, dtype, out, count);
}

/* ---------------------------------------------------------------- order */

struct placed {
    double key;
    int64_t place;
};

static int by_key(const void *x, const void *y)
{
    const struct placed *a = x, *b = y;
    return a->key < b->key ? -1 : a->key > b->key ? 1 : a->place < b->place ? -1 : a->place > b->place;
}

void eval_order(struct eval_call *c)
{
    const struct ir_type *type = &c->n->type;
    int64_t stride[IR_MAX_RANK], dim = c->n->attr[0].v[0], extent = type->dim[dim], count = ir_type_elements(type);
    struct arena arena = {0};
    struct placed *line = arena_new_array(&arena, struct placed, extent + 1);
    eval_strides(type, stride);
    for (int64_t i = 0; i < count; i++) { /* each line from its first element */
        if (i / stride[dim] % extent) continue;
        for (int64_t k = 0; k < extent; k++) line[k] = (struct placed){eval_arg(c, 0)->v[i + k * stride[dim]], k};
        qsort(line, (size_t)extent, sizeof *line, by_key);
        for (int64_t k = 0; k < extent; k++) c->out->t->v[i + k * stride[dim]] = (double)line[k].place;
    }
    arena_free(&arena);
}

/* ---------------------------------------------------------------- arg */

static void argreduce(struct eval_call *c, double sign)
{
    int64_t inner, outer = ir_type_elements(&c->n->type);
    struct ordered x = rows(c, &inner);
    for (int64_t o = 0; o < outer; o++) {
        const double *v = x.v + o * inner;
        int64_t best = 0;
        for (int64_t i = 1; i < inner && !isnan(v[best]); i++)
            if (isnan(v[i]) || sign * v[i] > sign * v[best]) best = i;
        c->out->t->v[o] = (double)best;
    }
    eval_drop(c->e, x.v, x.count);
}

void eval_argmax(struct eval_call *c) { argreduce(c, 1); }
void eval_argmin(struct eval_call *c) { argreduce(c, -1); }

/* ---------------------------------------------------------------- dot */

enum { GROUP_BATCH, GROUP_FREE, GROUP_CONTRACT };

/* An operand of a contraction: dimensions in the order of three groups, and the elements of each. */
struct dot_side {
    struct ordered x;
    int64_t size[3];
};

static struct dot_side dot_side(struct eval *e, const struct ir_tensor *x, const struct ir_ints *batch,
                                const struct ir_ints *contract, bool contract_last)
{
    struct dot_side side = {.size = {1, 1, 1}};
    static const uint8_t orders[2][3] = {{GROUP_BATCH, GROUP_CONTRACT, GROUP_FREE},
                                         {GROUP_BATCH, GROUP_FREE, GROUP_CONTRACT}};
    uint32_t order[IR_MAX_RANK], n = 0;
    int64_t rest[IR_MAX_RANK];
    struct ir_ints unnamed = {rest, 0};
    for (uint32_t i = 0; i < x->type.rank; i++)
        if (!contains(batch, i) && !contains(contract, i)) rest[unnamed.n++] = i;
    const struct ir_ints *dims[] = {[GROUP_BATCH] = batch, [GROUP_FREE] = &unnamed, [GROUP_CONTRACT] = contract};
    for (int k = 0; k < 3; k++) {
        int group = orders[contract_last][k];
        for (uint32_t i = 0; i < dims[group]->n; i++) {
            order[n++] = (uint32_t)dims[group]->v[i];
            side.size[group] *= x->type.dim[dims[group]->v[i]];
        }
    }
    side.x = reorder(e, x, order);
    return side;
}

/* [batch, m, k] times [batch, k, n]; the sum over k runs in order, in double, or wraps at every step. */
void eval_dot(struct eval_call *c)
{
    const struct ir_ints *attr = c->n->attr;
    struct dot_side a = dot_side(c->e, eval_arg(c, 0), &attr[0], &attr[2], true);
    struct dot_side b = dot_side(c->e, eval_arg(c, 1), &attr[1], &attr[3], false);
    int64_t rows = a.size[GROUP_FREE], row = b.size[GROUP_FREE], k = a.size[GROUP_CONTRACT];
    int64_t n = attr[5].n && attr[5].v[0] ? attr[5].v[0] : row, m = attr[5].n > 1 && attr[5].v[1] ? attr[5].v[1] : rows;
    int64_t count = ir_type_elements(&c->n->type), batches = a.size[GROUP_BATCH];
    enum ir_dtype dtype = (enum ir_dtype)c->n->type.dtype;
    memset(c->out->t->v, 0, (size_t)count * sizeof(double));
    for (int64_t batch = 0; batch < batches; batch++)
        for (int64_t i = 0; i < m; i++) {
            double *out = c->out->t->v + (attr[6].n ? i * batches + batch : batch * m + i) * n;
            for (int64_t p = 0; p < k; p++) {
                double x = a.x.v[(batch * rows + i) * k + p];
                const double *y = b.x.v + (batch * k + p) * row;
                if (ir_dtype_is_float(dtype))
                    for (int64_t j = 0; j < n; j++) out[j] += x * y[j];
                else
                    for (int64_t j = 0; j < n; j++) out[j] = eval_integer_multiply_add(dtype, x, y[j], out[j]);
            }
        }
    eval_to_dtype(c->e->precision, dtype, c->out->t->v, count);
    eval_drop(c->e, a.x.v, a.x.count);
    eval_drop(c->e, b.x.v, b.x.count);
}
