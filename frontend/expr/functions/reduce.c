/* Reductions and running sums of expressions. Sums of 16-bit floats run in float32, as in JAX. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

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
        struct fe_val fill = extremum                                   ? *o->initial
                             : kind == FE_RED_ANY || kind == FE_RED_ALL ? fe_cast(s, fe_int(neutral(kind)), IR_BOOL)
                                                                        : fe_int(neutral(kind));
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
    struct fe_val r = fe_tensor_val(n ? ir_reduce(s->b, ops[kind], v.tensor, dims, n) : v.tensor,
                                    x.weak && kind != FE_RED_ANY && kind != FE_RED_ALL);
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

struct fe_val make_reduction(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_axes(c, 1, fe_rank(s, &ARG(0)), axes, &n)) return fe_bad();
    if (ARG(0).bad || (ARG(0) = fe_as_dtype(c, 2, ARG(0))).bad) return fe_bad();
    struct fe_reduce_options o = {fe_truth(&ARG(3)), &ARG(5), &ARG(4)};
    return fe_reduce(s, (enum fe_reduction)c->data, ARG(0), axes, n, &o);
}

struct fe_val make_argreduce(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0;
    int64_t given;
    if (!fe_as_tensor(s, &ARG(0))) return fe_bad();
    struct ir_type t = fe_type_at(s, &ARG(0));
    struct fe_val x = ARG(0);
    if (fe_is_none(&ARG(1))) x = fe_reshape_val(s, x, 1, (int64_t[]){ir_type_elements(&t)});
    else if (!fe_get_int(c, 1, &given) || !fe_get_axis(s, given, t.rank, &axis)) return fe_bad();
    struct fe_val v = fe_val_tensor(ir_argreduce(s->b, (enum ir_op)c->data, x.tensor, axis));
    if (!fe_truth(&ARG(2)) || v.bad) return v;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i == axis || fe_is_none(&ARG(1))) t.dim[i] = 1;
    return fe_reshape_val(s, v, t.rank, t.dim);
}

/* ---------------------------------------------------------------- running sums, differences */

static struct fe_val combine(struct fe_site *s, int kind, struct fe_val a, struct fe_val b)
{
    switch (kind) {
    case 0: return fe_add(s, a, b);
    case 1: return fe_mul(s, a, b);
    case 2: return fe_op2(s, OP_max, a, b);
    case 3: return fe_op2(s, OP_min, a, b);
    default: return FE_APPLY(s, "logaddexp", a, b);
    }
}

/* Doubling: after the step of width k every element holds the result over the last 2k ones. */
struct fe_val make_scan(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0;
    int64_t given;
    struct fe_val x = ARG(0);
    if (!fe_as_tensor(s, &x) || (x = c->data < 2 ? fe_as_dtype(c, 2, x) : x).bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    if (t.dtype == IR_BOOL) x = fe_cast(s, x, IR_I32);
    if (c->data == 4) x = fe_inexact(s, x);
    if (fe_is_none(&ARG(1))) {
        if (c->data < 2) x = fe_reshape_val(s, x, 1, (int64_t[]){ir_type_elements(&t)});
    } else if (!fe_get_int(c, 1, &given) || !fe_get_axis(s, given, t.rank, &axis)) return fe_bad();
    if (x.bad || !fe_rank(s, &x)) return x;
    int64_t n = fe_type_at(s, &x).dim[axis];
    bool reverse = fe_truth(&ARG(c->data < 2 ? 3 : 2));
    for (int64_t k = 1; k < n && !x.bad; k *= 2) {
        struct fe_val head = fe_slice_axis(s, x, axis, 0, reverse ? n - k : k),
                      tail = fe_slice_axis(s, x, axis, reverse ? n - k : k, n);
        struct fe_val moved = combine(s, c->data, reverse ? head : tail,
                                      fe_slice_axis(s, x, axis, reverse ? k : 0, reverse ? n : n - k));
        struct fe_val parts[] = {reverse ? moved : head, reverse ? tail : moved};
        if (parts[0].bad || parts[1].bad) return fe_bad();
        ir_value both[] = {parts[0].tensor, parts[1].tensor};
        x = fe_tensor_val(ir_concat(s->b, both, 2, axis), x.weak);
    }
    return x;
}

struct fe_val make_diff(struct fe_call *c)
{
    SITE;
    int64_t n, given;
    uint32_t axis;
    struct fe_val x = ARG(0);
    if (!fe_as_tensor(s, &x) || !fe_get_int(c, 1, &n) || !fe_get_int(c, 2, &given) ||
        !fe_get_axis(s, given, fe_rank(s, &x), &axis))
        return fe_bad();
    for (uint32_t i = 3; i < 5 && n && !x.bad; i++) { /* what stands before and behind */
        struct fe_val more = ARG(i);
        if (fe_is_none(&more)) continue;
        if (!fe_as_tensor(s, &more)) return fe_bad();
        struct ir_type t = fe_type_at(s, &x);
        t.dim[axis] = fe_rank(s, &more) ? fe_type_at(s, &more).dim[axis] : 1;
        if (!fe_rank(s, &more)) more = fe_broadcast_val(s, more, t.rank, t.dim);
        struct fe_val both[] = {i == 3 ? more : x, i == 3 ? x : more};
        x = more.bad ? more : FE_APPLY(s, "concatenate", fe_tuple(s, both, 2), fe_int(axis));
    }
    for (int64_t i = 0; i < n && !x.bad; i++) {
        int64_t extent_now = fe_type_at(s, &x).dim[axis];
        if (extent_now < 1) return fe_fail(s, "E0212", "diff of an axis without elements");
        enum expr_operator op = fe_type_at(s, &x).dtype == IR_BOOL ? EXPR_OP_NE : EXPR_OP_SUB;
        x = fe_binary(s, op, fe_slice_axis(s, x, axis, 1, extent_now), fe_slice_axis(s, x, axis, 0, extent_now - 1));
    }
    return x;
}
