/* x[...]: numbers, slices, None, `...` and integer tensors, as in NumPy; take and take_along_axis. Indices that are
 * tensors count from the end when negative and are clamped. */
#include "frontend/expr_makers.h"

static bool is_index_tensor(struct fe_site *s, const struct fe_val *v)
{
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, v).dtype;
    if (ir_dtype_is_integer(d)) return true;
    fe_fail(s, "E0211", "an index must be of an integer dtype such as int32, found %s", fe_describe(s, v));
    return false;
}

struct fe_val fe_take(struct fe_site *s, struct fe_val x, struct fe_val indices, uint32_t axis, bool wrap)
{
    if (!fe_as_tensor(s, &x) || !fe_as_tensor(s, &indices) || !is_index_tensor(s, &indices)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x), ti = fe_type_at(s, &indices);
    if (t.dim[axis] == 0 && ir_type_elements(&ti) == 0 && t.rank - 1u + ti.rank <= IR_MAX_RANK) { /* nothing of nothing */
        struct ir_type out = ir_type_of((enum ir_dtype)t.dtype, 0, NULL);
        for (uint32_t i = 0; i < t.rank; i++)
            for (uint32_t j = 0; j < (i == axis ? ti.rank : 1u); j++) out.dim[out.rank++] = i == axis ? ti.dim[j] : t.dim[i];
        return fe_full(s, out, 0);
    }
    if (t.dim[axis] == 0)
        return fe_fail(s, "E0212", "nothing can be taken from axis %u of %s", (unsigned)axis,
                       ir_type_text(s->fe->arena, &t));
    if ((uint32_t)(t.rank - 1 + ti.rank) > IR_MAX_RANK)
        return fe_fail(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    if (ti.dtype != IR_I32) indices = fe_val_tensor(ir_cast(s->b, indices.tensor, IR_I32));
    if (wrap && ir_dtype_is_signed((enum ir_dtype)ti.dtype))
        indices = fe_where3(s, fe_binary(s, EXPR_OP_LT, indices, fe_int(0)),
                            fe_add(s, indices, fe_int((double)t.dim[axis])), indices);
    return indices.bad ? indices : fe_tensor_val(ir_take(s->b, x.tensor, indices.tensor, axis), x.weak);
}

/* start, stop, step of a slice for an axis of n elements, as Python's slice.indices. */
static bool slice_bounds(struct fe_site *s, const struct fe_val *slice, int64_t n, int64_t *start, int64_t *stop,
                         int64_t *step)
{
    int64_t v[3];
    for (int i = 0; i < 3; i++) {
        const struct fe_val *part = &slice->items[i];
        if (!fe_is_none(part) && (part->kind != FE_VAL_NUMBER || part->python == FE_PY_FLOAT)) {
            fe_fail(s, "E0310", "the parts of a slice must be integers, found %s",
                    part->kind == FE_VAL_NUMBER ? "a fraction" : fe_describe(s, part));
            return false;
        }
        v[i] = fe_is_none(part) ? (i == 2) : (int64_t)part->number;
    }
    *step = v[2];
    if (*step == 0) {
        fe_fail(s, "E0212", "the step of a slice may not be 0");
        return false;
    }
    int64_t low = *step > 0 ? 0 : -1, high = *step > 0 ? n : n - 1;
    for (int i = 0; i < 2; i++) {
        if (fe_is_none(&slice->items[i])) v[i] = (i == 0) == (*step > 0) ? low : high;
        else {
            if (v[i] < 0) v[i] += n;
            v[i] = v[i] < low ? low : v[i] > high ? high : v[i];
        }
    }
    *start = v[0];
    *stop = v[1];
    return true;
}

static struct fe_val slice_tuple(struct fe_site *s, const struct fe_val *base, const struct fe_val *index)
{
    struct fe_val *items = arena_new_array(s->fe->arena, struct fe_val, base->count + 1), out = *base;
    int64_t start, stop, step;
    if (!slice_bounds(s, index, base->count, &start, &stop, &step)) return fe_bad();
    out.count = 0, out.items = items, out.names = NULL;
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) items[out.count++] = base->items[i];
    return out;
}

static struct fe_val index_tuple(struct fe_site *s, const struct fe_val *base, const struct fe_val *index)
{
    if (index->kind == FE_VAL_SLICE) return slice_tuple(s, base, index);
    if (index->kind != FE_VAL_NUMBER || index->python == FE_PY_FLOAT)
        return fe_fail(s, "E0310", "a tuple is indexed by an integer or a slice");
    int64_t i = (int64_t)index->number, n = base->count;
    if (i < -n || i >= n)
        return fe_fail(s, "E0212", "index %lld is outside a tuple of %lld", (long long)i, (long long)n);
    return base->items[i < 0 ? i + n : i];
}

struct indexing {
    int64_t start[IR_MAX_RANK], limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    int64_t reversed[IR_MAX_RANK];
    uint32_t reversed_count;
    uint32_t axis;                  /* of x, next to be used */
    int64_t shape[2 * IR_MAX_RANK]; /* after dropping and adding dimensions */
    uint32_t rank;
    struct fe_val tensor[IR_MAX_RANK]; /* integer tensors and the axis of the new shape that each replaces */
    uint32_t tensor_axis[IR_MAX_RANK], tensor_count;
};

static bool add_whole(struct indexing *x, const struct ir_type *t)
{
    x->start[x->axis] = 0;
    x->limit[x->axis] = t->dim[x->axis];
    x->stride[x->axis] = 1;
    x->shape[x->rank++] = t->dim[x->axis++];
    return true;
}

static bool add_number(struct fe_site *s, struct indexing *x, const struct ir_type *t, const struct fe_val *item)
{
    int64_t i = (int64_t)item->number, n = t->dim[x->axis];
    if (item->python == FE_PY_FLOAT) {
        fe_fail(s, "E0310", "an index must be an integer");
        return false;
    }
    if (i < -n || i >= n) {
        fe_fail(s, "E0212", "index %lld is outside axis %u of %s, which has %lld elements", (long long)i,
                (unsigned)x->axis, ir_type_text(s->fe->arena, t), (long long)n);
        return false;
    }
    if (i < 0) i += n;
    x->start[x->axis] = i;
    x->limit[x->axis] = i + 1;
    x->stride[x->axis++] = 1;
    return true;
}

static bool add_slice(struct fe_site *s, struct indexing *x, const struct ir_type *t, const struct fe_val *item)
{
    int64_t start, stop, step;
    if (!slice_bounds(s, item, t->dim[x->axis], &start, &stop, &step)) return false;
    int64_t count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
    if (count < 0) count = 0;
    if (step < 0) { /* the same elements in ascending order, then reversed */
        start = start + (count - 1) * step;
        step = -step;
        if (count) x->reversed[x->reversed_count++] = x->axis;
    }
    if (!count) start = 0;
    x->start[x->axis] = start;
    x->limit[x->axis] = count ? start + (count - 1) * step + 1 : start;
    x->stride[x->axis++] = step;
    x->shape[x->rank++] = count;
    return true;
}

static bool add_item(struct fe_site *s, struct indexing *x, const struct ir_type *t, const struct fe_val *item)
{
    struct fe_val v = *item;
    switch (v.kind) {
    case FE_VAL_NONE: x->shape[x->rank++] = 1; return true;
    case FE_VAL_NUMBER: return add_number(s, x, t, &v);
    case FE_VAL_SLICE: return add_slice(s, x, t, &v);
    case FE_VAL_TUPLE:
    case FE_VAL_TENSOR:
        if (!fe_as_tensor(s, &v)) return false;
        if (fe_type_at(s, &v).dtype == IR_BOOL) {
            fe_fail(s, "E0310", "a bool index would give a shape that depends on values; use where()");
            return false;
        }
        if (!is_index_tensor(s, &v)) return false;
        x->tensor[x->tensor_count] = v;
        x->tensor_axis[x->tensor_count++] = x->rank;
        return add_whole(x, t);
    default: fe_fail(s, "E0310", "%s is no index", fe_describe(s, &v)); return false;
    }
}

/* Several index tensors: they are broadcast together and become one index into the merged axes, which stand first
 * if a slice stood between them. */
static struct fe_val take_tensors(struct fe_site *s, struct fe_val v, struct indexing *x)
{
    uint32_t n = x->tensor_count;
    if (n == 0 || v.bad) return v;
    if (n == 1) return fe_take(s, v, x->tensor[0], x->tensor_axis[0], true);
    struct ir_type t = fe_type_at(s, &v);
    bool adjacent = x->tensor_axis[n - 1] == x->tensor_axis[0] + n - 1;
    uint32_t perm[IR_MAX_RANK], at = 0, first = adjacent ? x->tensor_axis[0] : 0;
    for (uint32_t i = 0; i < first; i++) perm[at++] = i;
    for (uint32_t i = 0; i < n; i++) perm[at++] = x->tensor_axis[i];
    for (uint32_t i = first; i < t.rank; i++) {
        bool used = false;
        for (uint32_t j = 0; j < n; j++) used |= x->tensor_axis[j] == i;
        if (!used) perm[at++] = i;
    }
    struct fe_val flat = fe_int(0);
    int64_t shape[IR_MAX_RANK], merged = 1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t extent = t.dim[x->tensor_axis[i]];
        struct fe_val index = fe_cast(s, x->tensor[i], IR_I32);
        index = fe_where3(s, fe_binary(s, EXPR_OP_LT, index, fe_int(0)), fe_add(s, index, fe_int((double)extent)),
                          index);
        index = fe_op2(s, OP_min, fe_op2(s, OP_max, index, fe_int(0)), fe_int((double)extent - 1));
        flat = i ? fe_add(s, fe_mul(s, flat, fe_int((double)extent)), index) : index;
        merged *= extent;
    }
    v = fe_transpose_val(s, v, perm);
    if (v.bad || flat.bad) return fe_bad();
    t = fe_type_at(s, &v);
    at = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i < first || i >= first + n) shape[at++] = t.dim[i];
        else if (i == first) shape[at++] = merged;
    return fe_take(s, fe_reshape_val(s, v, at, shape), flat, first, false);
}

struct fe_val fe_index(struct fe_site *s, struct fe_val base, const struct fe_val *items, const struct fe_where *wheres,
                       uint32_t count)
{
    if (base.kind == FE_VAL_TUPLE && !base.names && count == 1) return index_tuple(s, &base, &items[0]);
    if (!fe_as_tensor(s, &base)) return fe_bad();
    struct ir_type t = fe_type_at(s, &base);
    struct indexing x = {0};
    struct fe_where whole = s->where;
    uint32_t used = 0, none = 0;
    bool ellipsis = false;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].kind == FE_VAL_ELLIPSIS && ellipsis) return fe_fail(s, "E0310", "an index may hold one \"...\"");
        if (items[i].kind == FE_VAL_ELLIPSIS) ellipsis = true;
        else if (fe_is_none(&items[i])) none++;
        else used++;
    }
    if (used > t.rank)
        return fe_fail(s, "E0212", "%u indices for %s, which has rank %u", (unsigned)used,
                       ir_type_text(s->fe->arena, &t), (unsigned)t.rank);
    if (t.rank + none > IR_MAX_RANK) return fe_fail(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    for (uint32_t i = 0; i < count; i++) {
        if (wheres) s->where = wheres[i];
        if (items[i].kind == FE_VAL_ELLIPSIS) {
            for (uint32_t j = used; j < t.rank; j++) add_whole(&x, &t);
        } else if (!add_item(s, &x, &t, &items[i])) return fe_bad();
    }
    s->where = whole;
    while (x.axis < t.rank) add_whole(&x, &t);
    bool all = true;
    for (uint32_t i = 0; i < t.rank; i++) all &= x.start[i] == 0 && x.limit[i] == t.dim[i] && x.stride[i] == 1;
    ir_value v = all ? base.tensor : ir_slice(s->b, base.tensor, x.start, x.limit, x.stride);
    if (x.reversed_count) v = ir_reverse(s->b, v, x.reversed, x.reversed_count);
    return take_tensors(s, fe_reshape_val(s, fe_tensor_val(v, base.weak), x.rank, x.shape), &x);
}

struct fe_val make_take(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0;
    int64_t given;
    struct fe_val x = ARG(0);
    if (!fe_as_tensor(s, &x)) return fe_bad();
    if (fe_is_none(&ARG(2))) x = FE_APPLY(s, "ravel", x);
    else if (!fe_get_int(c, 2, &given) || !fe_get_axis(s, given, fe_rank(s, &x), &axis)) return fe_bad();
    return x.bad ? x : fe_take(s, x, ARG(1), axis, true);
}

/* The axis moves to the end; then every row is taken from the flattened tensor. */
struct fe_val make_take_along_axis(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0, perm[IR_MAX_RANK];
    int64_t given, rows = 1;
    struct fe_val x = ARG(0), i = ARG(1);
    if (!fe_as_tensor(s, &x) || !fe_as_tensor(s, &i) || !is_index_tensor(s, &i)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x), ti = fe_type_at(s, &i);
    if (!fe_get_int(c, 2, &given) || !fe_get_axis(s, given, t.rank, &axis)) return fe_bad();
    if (t.rank != ti.rank)
        return fe_fail(s, "E0210", "take_along_axis: ranks of %s and %s differ", fe_describe(s, &x),
                       fe_describe(s, &i));
    for (uint32_t d = 0; d < t.rank; d++) {
        if (d == axis) continue;
        if (t.dim[d] != ti.dim[d] && ti.dim[d] != 1 && t.dim[d] != 1)
            return fe_fail(s, "E0210", "take_along_axis: %s and %s do not fit", fe_describe(s, &x), fe_describe(s, &i));
        t.dim[d] = ti.dim[d] = t.dim[d] == 1 ? ti.dim[d] : t.dim[d];
        rows *= t.dim[d];
    }
    x = fe_broadcast_val(s, x, t.rank, t.dim);
    i = fe_broadcast_val(s, fe_cast(s, i, IR_I32), ti.rank, ti.dim);
    int64_t n = t.dim[axis], k = ti.dim[axis];
    i = fe_where3(s, fe_binary(s, EXPR_OP_LT, i, fe_int(0)), fe_add(s, i, fe_int((double)n)), i);
    i = fe_op2(s, OP_min, fe_op2(s, OP_max, i, fe_int(0)), fe_int((double)n - 1));
    for (uint32_t d = 0; d < t.rank; d++) perm[d] = d + 1 == t.rank ? axis : d < axis ? d : d + 1;
    x = fe_transpose_val(s, x, perm);
    i = fe_transpose_val(s, i, perm);
    if (x.bad || i.bad) return fe_bad();
    struct ir_type out = fe_type_at(s, &i), matrix = ir_type_of(IR_I32, 2, (int64_t[]){rows, k});
    struct fe_val row = fe_mul(s, fe_iota(s, matrix, 0), fe_int((double)n));
    struct fe_val flat = fe_add(s, row, fe_reshape_val(s, i, 2, matrix.dim));
    struct fe_val taken = fe_take(s, fe_reshape_val(s, x, 1, (int64_t[]){rows * n}), flat, 0, false);
    taken = fe_reshape_val(s, taken, out.rank, out.dim);
    for (uint32_t d = 0; d < t.rank; d++) perm[d] = d == axis ? t.rank - 1u : d < axis ? d : d - 1;
    return fe_transpose_val(s, taken, perm);
}
