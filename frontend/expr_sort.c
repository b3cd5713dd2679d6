/* sort, argsort, quantile, percentile, median, cross as jax.numpy. There is no sorting op: the place of an element is the
 * number of those that come before it, and the index of every place is found by comparing places. That takes n * n
 * comparisons for n elements, none of which is kept, and has the gradient of a gather. NaN comes last, equal elements keep
 * their order. */
#include "frontend/expr_makers.h"
#include <math.h>
#include <string.h>

static struct fe_val swap_last(struct fe_site *s, struct fe_val x, uint32_t axis)
{
    return axis + 1 == fe_rank(s, &x) ? x : FE_APPLY(s, "swapaxes", x, fe_int(axis), fe_int(-1));
}

static struct fe_val less(struct fe_site *s, struct fe_val a, struct fe_val b, bool floats)
{
    struct fe_val below = fe_binary(s, EXPR_OP_LT, a, b);
    if (!floats) return below;
    struct fe_val number = fe_op1(s, OP_not, FE_APPLY(s, "isnan", a)), nan = FE_APPLY(s, "isnan", b);
    return fe_op2(s, OP_or, below, fe_op2(s, OP_and, number, nan));
}

/* Indices that sort the last axis, of which there is one. */
static struct fe_val order(struct fe_site *s, struct fe_val x, bool descending)
{
    struct ir_type t = fe_type_at(s, &x);
    bool floats = ir_dtype_is_float((enum ir_dtype)t.dtype);
    uint32_t rank = t.rank, last = rank - 1, before_last = rank;
    int64_t n = t.dim[last];
    if (rank == IR_MAX_RANK) return fe_fail(s, "E0202", "sorting a tensor of %d dimensions is not supported yet", IR_MAX_RANK);
    if (ir_type_elements(&t) == 0) return fe_full(s, (t.dtype = IR_I32, t), 0);
    x = fe_stop(s, t.dtype == IR_BOOL ? fe_cast(s, x, IR_I32) : x);
    struct ir_type pairs = t;
    pairs.rank = (uint8_t)(rank + 1);
    pairs.dim[rank] = n;
    pairs.dtype = IR_I32;
    /* [.., i, j]: element j stands before element i */
    struct fe_val i = fe_expand(s, x, rank), j = fe_expand(s, x, last);
    struct fe_val first = descending ? less(s, i, j, floats) : less(s, j, i, floats);
    struct fe_val second = descending ? less(s, j, i, floats) : less(s, i, j, floats);
    struct fe_val row = fe_iota(s, pairs, last), column = fe_iota(s, pairs, rank);
    struct fe_val earlier = fe_op2(s, OP_and, fe_op1(s, OP_not, second), fe_binary(s, EXPR_OP_LT, column, row));
    struct fe_val before = fe_cast(s, fe_op2(s, OP_or, first, earlier), IR_I32);
    struct fe_val place = fe_reduce(s, FE_RED_SUM, before, &before_last, 1, NULL);
    /* [.., i, k]: element i has place k */
    struct fe_val hit = place.bad ? place : fe_binary(s, EXPR_OP_EQ, fe_expand(s, place, rank), column);
    return hit.bad ? hit : fe_cast(s, fe_reduce(s, FE_RED_SUM, fe_where3(s, hit, row, fe_int(0)), &last, 1, NULL), IR_I32);
}

static struct fe_val sorted(struct fe_site *s, struct fe_val x, bool descending)
{
    struct fe_val index = order(s, x, descending);
    return index.bad ? index : FE_APPLY(s, "take_along_axis", x, index, fe_int(-1));
}

/* data 0: the values, 1: their indices */
struct fe_val make_sort(struct fe_call *c)
{
    SITE;
    struct fe_val x = ARG(0);
    int64_t given = -1;
    uint32_t axis;
    if (!fe_as_tensor(s, &x)) return fe_bad();
    if (!fe_is_none(&ARG(3))) return (void)fe_fail_at(s, &c->where[3], "E0310", "%s: \"order\" must be None", c->function), fe_bad();
    if (fe_is_none(&ARG(1))) x = FE_APPLY(s, "ravel", x);
    else if (!fe_get_int(c, 1, &given)) return fe_bad();
    if (x.bad || !fe_get_axis(s, given, fe_rank(s, &x), &axis)) return fe_bad();
    x = swap_last(s, x, axis);
    if (x.bad) return x;
    struct fe_val y = c->data ? order(s, x, fe_truth(&ARG(5))) : sorted(s, x, fe_truth(&ARG(5)));
    return y.bad ? y : swap_last(s, y, axis);
}

/* ---------------------------------------------------------------- quantiles */

enum method { LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT };
static const char *const methods[] = {"linear", "lower", "higher", "nearest", "midpoint"};

/* One quantile of the sorted last axis. */
static struct fe_val between(struct fe_site *s, struct fe_val x, double q, enum method method)
{
    uint32_t last = fe_rank(s, &x) - 1;
    int64_t n = fe_type_at(s, &x).dim[last];
    float at = (float)q * (float)(n - 1), low = floorf(at), high = ceilf(at), weight = at - low;
    struct fe_val value[2];
    for (int k = 0; k < 2; k++) {
        int64_t index = (int64_t)(k ? high : low);
        value[k] = fe_slice_axis(s, x, last, index, index + 1);
        struct ir_type t = value[k].bad ? (struct ir_type){0} : fe_type_at(s, &value[k]);
        value[k] = value[k].bad ? value[k] : fe_reshape_val(s, value[k], last, t.dim);
    }
    switch (method) {
    case LOWER: return value[0];
    case HIGHER: return value[1];
    case NEAREST: return value[weight > 0.5f];
    case MIDPOINT: return fe_mul(s, fe_add(s, value[0], value[1]), fe_float(0.5));
    case LINEAR: break;
    }
    return fe_add(s, fe_mul(s, value[0], fe_float((double)(1.0f - weight))), fe_mul(s, value[1], fe_float((double)weight)));
}

/* The axes that are reduced, flattened behind the others. */
static struct fe_val gather_axes(struct fe_site *s, struct fe_val x, const uint32_t *axes, uint32_t count, struct ir_type *kept, struct ir_type *wide)
{
    struct ir_type t = fe_type_at(s, &x);
    uint32_t perm[IR_MAX_RANK], n = 0;
    bool reduced[IR_MAX_RANK] = {0};
    int64_t size = 1;
    *kept = *wide = t;
    for (uint32_t i = 0; i < count; i++) reduced[axes[i]] = true;
    for (uint32_t i = 0; i < t.rank; i++)
        if (!reduced[i]) kept->dim[n] = t.dim[i], perm[n++] = i;
    kept->rank = (uint8_t)n;
    for (uint32_t i = 0; i < t.rank; i++)
        if (reduced[i]) size *= t.dim[i], wide->dim[i] = 1, perm[n++] = i;
    struct ir_type flat = *kept;
    flat.dim[flat.rank++] = size;
    x = t.rank ? fe_transpose_val(s, x, perm) : x;
    return x.bad ? x : fe_reshape_val(s, x, flat.rank, flat.dim);
}

static struct fe_val quantile_at(struct fe_site *s, struct fe_val x, const uint32_t *axes, uint32_t count, double q, enum method method, bool keep)
{
    struct ir_type kept, wide;
    struct fe_val flat = gather_axes(s, x, axes, count, &kept, &wide);
    if (flat.bad) return flat;
    uint32_t last = fe_rank(s, &flat) - 1;
    if (fe_type_at(s, &flat).dim[last] < 1) return fe_fail(s, "E0212", "a quantile of no elements");
    struct fe_val nan = fe_reduce(s, FE_RED_ANY, FE_APPLY(s, "isnan", flat), &last, 1, NULL);
    struct fe_val value = between(s, sorted(s, flat, false), q, method);
    if (value.bad || nan.bad) return fe_bad();
    value = fe_where3(s, nan, fe_float((double)NAN), value);
    return value.bad || !keep ? value : fe_reshape_val(s, value, wide.rank, wide.dim);
}

static struct fe_val quantiles(struct fe_call *c, uint32_t axis_arg, const struct fe_val *q, double scale, enum method method, bool keep)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    struct fe_val x = fe_inexact(s, ARG(0)), parts[64];
    bool list = q->kind == FE_VAL_TUPLE;
    if (x.bad || !fe_get_axes(c, axis_arg, fe_rank(s, &x), axes, &n)) return fe_bad();
    if ((!list && q->kind != FE_VAL_NUMBER) || (list && (q->count < 1 || q->count > 64)))
        return (void)fe_fail_at(s, &c->where[1], "E0310", "%s: a number or a list of up to 64 numbers expected", c->function), fe_bad();
    for (uint32_t i = 0; i < (list ? q->count : 1); i++) {
        const struct fe_val *one = list ? &q->items[i] : q;
        double at = one->number / scale;
        if (one->kind != FE_VAL_NUMBER || !(at >= 0 && at <= 1))
            return (void)fe_fail_at(s, &c->where[1], "E0310", "%s: a number between 0 and %g expected", c->function, scale), fe_bad();
        parts[i] = quantile_at(s, x, axes, n, at, method, keep);
        if (parts[i].bad) return parts[i];
    }
    return list ? FE_APPLY(s, "stack", fe_tuple(s, parts, q->count), fe_int(0)) : parts[0];
}

struct fe_val make_quantile(struct fe_call *c)
{ /* data: what stands for all, 1 or 100 */
    SITE;
    uint32_t method = 0;
    const char *name = ARG(3).kind == FE_VAL_STRING ? ARG(3).string : "";
    while (method < 5 && strcmp(methods[method], name)) method++;
    if (method == 5) return (void)fe_fail_at(s, &c->where[3], "E0310", "%s: the method is linear, lower, higher, nearest or midpoint", c->function), fe_bad();
    return quantiles(c, 2, &ARG(1), c->data, (enum method)method, fe_truth(&ARG(4)));
}

struct fe_val make_median(struct fe_call *c)
{
    struct fe_val half = fe_float(0.5);
    return quantiles(c, 1, &half, 1, MIDPOINT, fe_truth(&ARG(2)));
}

/* ---------------------------------------------------------------- cross */

/* x[.., i] of the last axis; 0 if there is none. */
static struct fe_val component(struct fe_site *s, struct fe_val x, int64_t i)
{
    uint32_t last = fe_rank(s, &x) - 1;
    if (i >= fe_type_at(s, &x).dim[last]) return fe_float(0);
    struct fe_val part = fe_slice_axis(s, x, last, i, i + 1);
    if (part.bad) return part;
    struct ir_type t = fe_type_at(s, &part);
    return fe_reshape_val(s, part, last, t.dim);
}

struct fe_val make_cross(struct fe_call *c)
{
    SITE;
    struct fe_val v[2] = {ARG(0), ARG(1)}, part[3];
    int64_t size[2], axis;
    uint32_t one = fe_is_none(&ARG(5)) ? 0 : 5;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at;
        if (!fe_as_tensor(s, &v[i]) || !fe_get_int(c, one ? one : 2 + i, &axis) || !fe_get_axis(s, axis, fe_rank(s, &v[i]), &at)) return fe_bad();
        size[i] = fe_type_at(s, &v[i]).dim[at];
        if (size[i] != 2 && size[i] != 3) return fe_fail(s, "E0212", "cross: vectors have 2 or 3 components, found %lld", (long long)size[i]);
        v[i] = FE_APPLY(s, "moveaxis", v[i], fe_int(at), fe_int(-1));
        if (v[i].bad) return v[i];
    }
    for (int i = 0; i < 3; i++) {
        int64_t j = (i + 1) % 3, k = (i + 2) % 3;
        part[i] = fe_sub(s, fe_mul(s, component(s, v[0], j), component(s, v[1], k)), fe_mul(s, component(s, v[0], k), component(s, v[1], j)));
        if (part[i].bad) return part[i];
    }
    if (size[0] == 2 && size[1] == 2) return part[2];
    if (!fe_get_int(c, one ? one : 4, &axis)) return fe_bad();
    struct fe_val all = FE_APPLY(s, "stack", fe_tuple(s, part, 3), fe_int(-1));
    return all.bad ? all : FE_APPLY(s, "moveaxis", all, fe_int(-1), fe_int((double)axis));
}
