/* Shapes of values, and reductions. Sums of 16-bit floats run in float32, as in JAX. */
#include "frontend/expr/values.h"

#include <math.h>

struct fe_val fe_iota(struct fe_site *s, struct ir_type type, uint32_t axis)
{
    return fe_val_tensor(ir_iota(s->b, type, axis));
}

struct fe_val fe_transpose_val(struct fe_site *s, struct fe_val v, const uint32_t *perm)
{
    int64_t p[IR_MAX_RANK];
    if (!fe_as_tensor(s, &v)) return fe_bad();
    uint32_t rank = fe_rank(s, &v);
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) {
        p[i] = perm[i];
        same &= perm[i] == i;
    }
    return same ? v : fe_tensor_val(ir_transpose(s->b, v.tensor, p), v.weak);
}

struct fe_val fe_slice_axis(struct fe_site *s, struct fe_val v, uint32_t axis, int64_t start, int64_t limit)
{
    int64_t from[IR_MAX_RANK] = {0}, to[IR_MAX_RANK], stride[IR_MAX_RANK];
    if (!fe_as_tensor(s, &v)) return fe_bad();
    struct ir_type t = fe_type_at(s, &v);
    if (start == 0 && limit == t.dim[axis]) return v;
    for (uint32_t i = 0; i < t.rank; i++) {
        to[i] = t.dim[i];
        stride[i] = 1;
    }
    from[axis] = start;
    to[axis] = limit;
    return fe_tensor_val(ir_slice(s->b, v.tensor, from, to, stride), v.weak);
}

/* ---------------------------------------------------------------- reductions */

static int64_t extent(const struct ir_type *t, const uint32_t *axes, uint32_t count)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < count; i++) n *= t->dim[axes[i]];
    return n;
}

static struct fe_val keep_dims(struct fe_site *s, struct fe_val v, struct ir_type t, const uint32_t *axes,
                               uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) t.dim[axes[i]] = 1;
    return v.bad ? v : fe_reshape_val(s, v, t.rank, t.dim);
}

/* The dtype a reduction works in: bool counts as int32, means are floats, 16-bit floats are summed in float32. */
static struct fe_val prepare(struct fe_site *s, enum fe_reduction kind, struct fe_val x)
{
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    if (kind == FE_RED_ANY || kind == FE_RED_ALL) return fe_boolean(s, x);
    if (kind == FE_RED_MEAN) x = fe_inexact(s, x);
    else if ((kind == FE_RED_SUM || kind == FE_RED_PROD) && !ir_dtype_is_float(d) && ir_dtype_bytes(d) < 4)
        x = fe_cast(s, x, d == IR_U8 || d == IR_U16 ? IR_U32 : IR_I32);
    if ((kind == FE_RED_SUM || kind == FE_RED_MEAN || kind == FE_RED_PROD) && (d == IR_BF16 || d == IR_F16))
        x = fe_cast(s, x, IR_F32);
    return x;
}

static double neutral(enum fe_reduction kind) { return kind == FE_RED_PROD || kind == FE_RED_ALL ? 1 : 0; }

/* Of floats, that no element ties with: it has a gradient of its own. */
static double farthest(enum fe_reduction kind) { return kind == FE_RED_MAX ? -(double)INFINITY : (double)INFINITY; }

static struct fe_val apply_initial(struct fe_site *s, enum fe_reduction kind, struct fe_val v,
                                   const struct fe_val *initial)
{
    static const enum ir_op ops[] = {OP_add, OP_add, OP_max, OP_min, OP_mul, OP_or, OP_and};
    if (!initial || fe_is_none(initial) || v.bad) return v;
    return fe_op2(s, ops[kind], v, fe_cast(s, *initial, (enum ir_dtype)fe_type_at(s, &v).dtype));
}

struct fe_val fe_reduce(struct fe_site *s, enum fe_reduction kind, struct fe_val x, const uint32_t *axes,
                        uint32_t count, const struct fe_reduce_options *o)
{
    static const enum ir_op ops[] = {OP_reduce_sum,  OP_reduce_sum, OP_reduce_max, OP_reduce_min,
                                     OP_reduce_prod, OP_reduce_max, OP_reduce_min};
    static const struct fe_reduce_options none = {0};
    if (!o) o = &none;
    if (!fe_as_tensor(s, &x)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    bool masked = o->where && !fe_is_none(o->where), extremum = kind == FE_RED_MAX || kind == FE_RED_MIN;
    bool initial = o->initial && !fe_is_none(o->initial);
    if (extremum && masked && !initial)
        return fe_fail(s, "E0312", "a maximum or minimum with \"where\" needs \"initial\"");
    if (extremum && !initial && extent(&t, axes, count) == 0)
        return fe_fail(s, "E0212", "an empty tensor has no maximum or minimum");
    struct fe_val v = prepare(s, kind, x);
    if (masked) {
        enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &v).dtype;
        struct fe_val fill = !extremum              ? fe_int(neutral(kind))
                             : ir_dtype_is_float(d) ? fe_float(farthest(kind))
                                                    : *o->initial;
        if (extremum || kind == FE_RED_ANY || kind == FE_RED_ALL) fill = fe_cast(s, fill, d);
        v = fe_where3(s, *o->where, v, fill);
        if (v.bad) return v;
        t = fe_type_at(s, &v);
    }
    if (v.bad) return v;
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t.rank; i++) /* ascending */
        for (uint32_t j = 0; j < count; j++)
            if (axes[j] == i) dims[n++] = i;
    struct fe_val r = fe_val_tensor(n ? ir_reduce(s->b, ops[kind], v.tensor, dims, n) : v.tensor); /* never weak */
    if (kind == FE_RED_MEAN && masked) {
        struct fe_val mask = fe_broadcast_val(s, fe_boolean(s, *o->where), t.rank, t.dim);
        r = fe_div(
            s, r,
            fe_reduce(s, FE_RED_SUM, fe_cast(s, mask, (enum ir_dtype)fe_type_at(s, &v).dtype), axes, count, NULL));
    } else if (kind == FE_RED_MEAN) r = fe_div(s, r, fe_float((double)extent(&t, axes, count)));
    r = apply_initial(s, kind, r, o->initial);
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    if (!r.bad && (d == IR_BF16 || d == IR_F16) && !extremum && kind != FE_RED_ANY && kind != FE_RED_ALL)
        r = fe_cast(s, r, d);
    return o->keepdims ? keep_dims(s, r, t, axes, count) : r;
}

struct fe_val fe_reduce_last(struct fe_site *s, enum fe_reduction kind, struct fe_val x, bool keepdims)
{
    if (!fe_as_tensor(s, &x)) return fe_bad();
    uint32_t rank = fe_rank(s, &x), axis = rank - 1;
    if (!rank) return fe_fail(s, "E0212", "a scalar has no last axis");
    return fe_reduce(s, kind, x, &axis, 1, &(struct fe_reduce_options){.keepdims = keepdims});
}

struct fe_val fe_reduce_all(struct fe_site *s, enum fe_reduction kind, struct fe_val x)
{
    uint32_t axes[IR_MAX_RANK];
    if (!fe_as_tensor(s, &x)) return fe_bad();
    for (uint32_t i = 0; i < IR_MAX_RANK; i++) axes[i] = i;
    return fe_reduce(s, kind, x, axes, fe_rank(s, &x), NULL);
}
