/* Functions of expressions that move elements: reshape, transpose, join, split, pad, roll, repeat. */
#include "frontend/expr_makers.h"
#include <string.h>

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

struct fe_val fe_expand(struct fe_site *s, struct fe_val v, uint32_t axis)
{
    if (!fe_as_tensor(s, &v)) return fe_bad();
    struct ir_type t = fe_type_at(s, &v);
    if (t.rank == IR_MAX_RANK) return fe_fail(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    if (axis > t.rank) return fe_fail(s, "E0212", "a tensor of rank 1 or more expected, found %s", fe_describe(s, &v));
    memmove(&t.dim[axis + 1], &t.dim[axis], (t.rank - axis) * sizeof t.dim[0]);
    t.dim[axis] = 1;
    return fe_reshape_val(s, v, t.rank + 1u, t.dim);
}

static bool tensor_arg(struct fe_call *c, uint32_t i, struct ir_type *t)
{
    if (!fe_as_tensor(c->site, &c->arg[i])) return false;
    *t = fe_type_at(c->site, &c->arg[i]);
    return true;
}

static bool axis_arg(struct fe_call *c, uint32_t i, uint32_t rank, uint32_t *axis)
{
    int64_t v;
    struct fe_site at = *c->site;
    at.where = c->where[i];
    return fe_get_int(c, i, &v) && fe_get_axis(&at, v, rank, axis);
}

/* order='F': the first index runs fastest. */
static bool order_arg(struct fe_call *c, uint32_t i, bool *by_columns)
{
    const char *order = c->arg[i].kind == FE_VAL_STRING ? c->arg[i].string : "";
    *by_columns = !strcmp(order, "F");
    if (*by_columns || !strcmp(order, "C")) return true;
    fe_fail_at(c->site, &c->where[i], "E0310", "%s: the order is 'C' or 'F'", c->function);
    return false;
}

static struct fe_val columns_first(struct fe_site *s, struct fe_val x, uint32_t rank, const int64_t *shape)
{
    int64_t turned[IR_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) turned[i] = shape[rank - 1 - i];
    x = FE_APPLY(s, "transpose", x);
    x = x.bad ? x : fe_reshape_val(s, x, rank, turned);
    return x.bad ? x : FE_APPLY(s, "transpose", x);
}

struct fe_val make_reshape(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    int64_t shape[IR_MAX_RANK], known = 1, total;
    uint32_t rank, open = UINT32_MAX;
    bool by_columns;
    if (!order_arg(c, 2, &by_columns) || !tensor_arg(c, 0, &t) || !fe_get_ints(s, &ARG(1), shape, IR_MAX_RANK, &rank, "shape")) return fe_bad();
    total = ir_type_elements(&t);
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < -1 || (shape[i] == -1 && open != UINT32_MAX))
            return fe_fail(s, "E0212", "a shape may hold one -1 and no other negative number");
        if (shape[i] == -1) open = i;
        else if (__builtin_mul_overflow(known, shape[i], &known)) return fe_fail(s, "E0212", "the shape is too large");
    }
    if (open != UINT32_MAX && known > 0 && total % known == 0) {
        shape[open] = total / known;
        known = total;
    }
    if (known != total || (open != UINT32_MAX && shape[open] < 0))
        return fe_fail(s, "E0212", "%s has %lld elements, the new shape %lld", ir_type_text(s->fe->arena, &t),
                       (long long)total, (long long)known);
    return by_columns ? columns_first(s, ARG(0), rank, shape) : fe_reshape_val(s, ARG(0), rank, shape);
}

struct fe_val make_ravel(struct fe_call *c)
{
    struct ir_type t;
    bool by_columns;
    if (!tensor_arg(c, 0, &t) || !order_arg(c, 1, &by_columns)) return fe_bad();
    int64_t n = ir_type_elements(&t);
    return by_columns ? columns_first(c->site, ARG(0), 1, &n) : fe_reshape_val(c->site, ARG(0), 1, &n);
}

struct fe_val make_transpose(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axes[IR_MAX_RANK], n;
    if (!tensor_arg(c, 0, &t)) return fe_bad();
    if (fe_is_none(&ARG(1))) {
        for (uint32_t i = 0; i < t.rank; i++) axes[i] = t.rank - 1u - i;
        return fe_transpose_val(s, ARG(0), axes);
    }
    if (!fe_get_axes(c, 1, t.rank, axes, &n)) return fe_bad();
    if (n != t.rank)
        return fe_fail(s, "E0212", "transpose: %u axes for a tensor of rank %u", (unsigned)n, (unsigned)t.rank);
    return fe_transpose_val(s, ARG(0), axes);
}

struct fe_val make_swapaxes(struct fe_call *c)
{
    struct ir_type t;
    uint32_t a, b, perm[IR_MAX_RANK];
    if (!tensor_arg(c, 0, &t) || !axis_arg(c, 1, t.rank, &a) || !axis_arg(c, 2, t.rank, &b)) return fe_bad();
    for (uint32_t i = 0; i < t.rank; i++) perm[i] = i == a ? b : i == b ? a : i;
    return fe_transpose_val(c->site, ARG(0), perm);
}

struct fe_val make_moveaxis(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t from[IR_MAX_RANK], to[IR_MAX_RANK], n, m, perm[IR_MAX_RANK], next = 0;
    bool taken[IR_MAX_RANK] = {0}, moved[IR_MAX_RANK] = {0};
    if (!tensor_arg(c, 0, &t) || !fe_get_axes(c, 1, t.rank, from, &n) || !fe_get_axes(c, 2, t.rank, to, &m))
        return fe_bad();
    if (n != m) return fe_fail(s, "E0212", "moveaxis: %u sources and %u destinations", (unsigned)n, (unsigned)m);
    for (uint32_t i = 0; i < n; i++) {
        perm[to[i]] = from[i];
        taken[to[i]] = moved[from[i]] = true;
    }
    for (uint32_t i = 0; i < t.rank; i++) {
        if (moved[i]) continue;
        while (taken[next]) next++;
        perm[next++] = i;
    }
    return fe_transpose_val(s, ARG(0), perm);
}

struct fe_val make_expand_dims(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axes[IR_MAX_RANK], n = 1;
    if (!tensor_arg(c, 0, &t)) return fe_bad();
    n = ARG(1).kind == FE_VAL_TUPLE ? ARG(1).count : 1;
    if (t.rank + n > IR_MAX_RANK) return fe_fail(s, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    uint32_t rank = t.rank + n, next = 0;
    if (!fe_get_axes(c, 1, rank, axes, &n)) return fe_bad();
    int64_t shape[IR_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        bool fresh = false;
        for (uint32_t j = 0; j < n; j++) fresh |= axes[j] == i;
        shape[i] = fresh ? 1 : t.dim[next++];
    }
    return fe_reshape_val(s, ARG(0), rank, shape);
}

struct fe_val make_squeeze(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axes[IR_MAX_RANK], n = 0, rank = 0;
    int64_t shape[IR_MAX_RANK];
    if (!tensor_arg(c, 0, &t) || !fe_get_axes(c, 1, t.rank, axes, &n)) return fe_bad();
    for (uint32_t i = 0; i < t.rank; i++) {
        bool named = false;
        for (uint32_t j = 0; j < n; j++) named |= axes[j] == i;
        if (named && t.dim[i] != 1 && !fe_is_none(&ARG(1)))
            return fe_fail(s, "E0212", "squeeze: axis %u of %s is not 1", (unsigned)i, ir_type_text(s->fe->arena, &t));
        if (!named || t.dim[i] != 1) shape[rank++] = t.dim[i];
    }
    return fe_reshape_val(s, ARG(0), rank, shape);
}

/* ---------------------------------------------------------------- joining and splitting */

static struct fe_val join(struct fe_site *s, const struct fe_val *items, uint32_t count, uint32_t axis)
{
    ir_value *parts = arena_new_array(s->fe->arena, ir_value, count);
    struct fe_kind_of k = fe_kind(s, &items[0]);
    struct ir_type first = fe_type_at(s, &items[0]);
    for (uint32_t i = 1; i < count; i++) {
        struct ir_type t = fe_type_at(s, &items[i]);
        k = fe_promote(k, fe_kind(s, &items[i]));
        bool fits = t.rank == first.rank;
        for (uint32_t d = 0; fits && d < t.rank; d++) fits = d == axis || t.dim[d] == first.dim[d];
        if (!fits)
            return fe_fail(s, "E0210", "%s and %s cannot be joined along axis %u", ir_type_text(s->fe->arena, &first),
                           ir_type_text(s->fe->arena, &t), (unsigned)axis);
    }
    for (uint32_t i = 0; i < count; i++) parts[i] = fe_value_as(s, &items[i], k.dtype);
    return fe_tensor_val(count == 1 ? parts[0] : ir_concat(s->b, parts, count, axis), k.weak);
}

/* The items of a list as tensors; a single tensor is taken apart along its first axis. */
static struct fe_val *list_arg(struct fe_call *c, uint32_t arg, uint32_t *count)
{
    SITE;
    struct fe_val v = c->arg[arg];
    if (v.kind == FE_VAL_TENSOR && fe_rank(s, &v)) {
        int64_t n = fe_type_at(s, &v).dim[0];
        if (n > 4096) n = 0;
        struct fe_val *items = arena_new_array(s->fe->arena, struct fe_val, n + 1);
        struct fe_val index;
        for (int64_t i = 0; i < n; i++) {
            index = fe_int((double)i);
            items[i] = fe_index(s, v, &index, NULL, 1);
        }
        *count = (uint32_t)n;
        return n ? items : NULL;
    }
    if (v.kind != FE_VAL_TUPLE || !v.count) {
        fe_fail(s, "E0310", "%s needs a list of tensors, found %s", c->function,
                v.kind == FE_VAL_TUPLE ? "an empty one" : fe_describe(s, &v));
        return NULL;
    }
    struct fe_val *items = arena_copy(s->fe->arena, v.items, v.count * sizeof *items);
    for (uint32_t i = 0; i < v.count; i++)
        if (items[i].kind != FE_VAL_NUMBER && !fe_as_tensor(s, &items[i])) return NULL;
    *count = v.count;
    return items;
}

struct fe_val make_concatenate(struct fe_call *c)
{
    uint32_t n, axis;
    struct fe_val *items = list_arg(c, 0, &n);
    for (uint32_t i = 0; items && i < n && fe_is_none(&ARG(1)); i++) items[i] = FE_APPLY(c->site, "ravel", items[i]);
    if (fe_is_none(&ARG(1))) ARG(1) = fe_int(0);
    if (!items || !axis_arg(c, 1, fe_rank(c->site, &items[0]), &axis)) return fe_bad();
    return fe_as_dtype(c, 2, join(c->site, items, n, axis));
}

struct fe_val make_stack(struct fe_call *c)
{
    SITE;
    uint32_t n, axis;
    struct fe_val *items = list_arg(c, 0, &n);
    if (!items || !axis_arg(c, 1, fe_rank(s, &items[0]) + 1, &axis)) return fe_bad();
    for (uint32_t i = 0; i < n; i++) {
        struct fe_kind_of k = fe_kind(s, &items[i]);
        if (!fe_as_tensor(s, &items[i])) return fe_bad();
        items[i] = fe_expand(s, items[i], axis <= fe_rank(s, &items[i]) ? axis : 0);
        items[i].weak = k.weak;
        if (items[i].bad) return fe_bad();
    }
    return fe_as_dtype(c, 2, join(s, items, n, axis));
}

struct fe_val make_hstack(struct fe_call *c)
{ /* data: the axis for tensors of rank >= 2 */
    SITE;
    uint32_t n, want = c->data ? 1 : 2;
    struct fe_val *items = list_arg(c, 0, &n);
    for (uint32_t i = 0; items && i < n; i++) {
        if (!fe_as_tensor(s, &items[i])) return fe_bad();
        while (fe_rank(s, &items[i]) < want) items[i] = fe_expand(s, items[i], 0);
    }
    return items ? fe_as_dtype(c, 1, join(s, items, n, c->data && fe_rank(s, &items[0]) > 1 ? 1 : 0)) : fe_bad();
}

/* data 0: vectors become columns; 1: all get three dimensions and are joined along the third. */
struct fe_val make_column_stack(struct fe_call *c)
{
    SITE;
    uint32_t n;
    struct fe_val *items = list_arg(c, 0, &n);
    for (uint32_t i = 0; items && i < n; i++) {
        if (!fe_as_tensor(s, &items[i])) return fe_bad();
        if (c->data && fe_rank(s, &items[i]) < 2)
            while (fe_rank(s, &items[i]) < 2) items[i] = fe_expand(s, items[i], 0);
        while (fe_rank(s, &items[i]) < 2u + (uint32_t)c->data) items[i] = fe_expand(s, items[i], fe_rank(s, &items[i]));
    }
    struct fe_val v = items ? join(s, items, n, 1u + (uint32_t)c->data) : fe_bad();
    return c->data ? fe_as_dtype(c, 1, v) : v;
}

struct fe_val make_split(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axis, n;
    if (!tensor_arg(c, 0, &t) || !axis_arg(c, 2, t.rank, &axis)) return fe_bad();
    int64_t extent = t.dim[axis], sections;
    VEC(int64_t) cuts = {0};
    if (ARG(1).kind == FE_VAL_TUPLE) {
        int64_t *at = arena_new_array(s->fe->arena, int64_t, ARG(1).count + 1);
        if (!fe_get_ints(s, &ARG(1), at, ARG(1).count, &n, "indices")) return fe_bad();
        for (uint32_t i = 0; i < n; i++) {
            int64_t cut = at[i] < 0 ? at[i] + extent : at[i];
            cut = cut < 0 ? 0 : cut > extent ? extent : cut;
            vec_push(s->fe->arena, &cuts, cut);
        }
    } else {
        if (!fe_get_int(c, 1, &sections)) return fe_bad();
        if (c->data && sections > 0) { /* parts that differ by one: the longer ones first */
            for (int64_t i = 1, at = 0; i < sections; i++) vec_push(s->fe->arena, &cuts, at += extent / sections + (i <= extent % sections));
        } else if (sections < 1 || extent % sections)
            return fe_fail(s, "E0212", "%lld elements cannot be split into %lld equal parts", (long long)extent,
                           (long long)sections);
        for (int64_t i = 1; i < sections && !c->data; i++) vec_push(s->fe->arena, &cuts, i * (extent / sections));
    }
    vec_push(s->fe->arena, &cuts, extent);
    struct fe_val *parts = arena_new_array(s->fe->arena, struct fe_val, cuts.count);
    int64_t from = 0;
    for (size_t i = 0; i < cuts.count; i++) {
        parts[i] = fe_slice_axis(s, ARG(0), axis, from, cuts.items[i] < from ? from : cuts.items[i]);
        from = cuts.items[i];
    }
    return fe_tuple(s, parts, (uint32_t)cuts.count);
}

/* ---------------------------------------------------------------- moving and repeating */

struct fe_val make_broadcast_to(struct fe_call *c)
{
    int64_t shape[IR_MAX_RANK];
    uint32_t rank;
    if (!fe_get_ints(c->site, &ARG(1), shape, IR_MAX_RANK, &rank, "shape")) return fe_bad();
    return fe_broadcast_val(c->site, ARG(0), rank, shape);
}

struct fe_val make_flip(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axes[IR_MAX_RANK], n;
    int64_t dims[IR_MAX_RANK];
    if (!tensor_arg(c, 0, &t) || !fe_get_axes(c, 1, t.rank, axes, &n)) return fe_bad();
    uint32_t m = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        for (uint32_t j = 0; j < n; j++)
            if (axes[j] == i) dims[m++] = i;
    return m ? fe_tensor_val(ir_reverse(s->b, ARG(0).tensor, dims, m), ARG(0).weak) : ARG(0);
}

static struct fe_val roll_axis(struct fe_site *s, struct fe_val x, uint32_t axis, int64_t shift)
{
    if (x.bad) return x;
    int64_t n = fe_type_at(s, &x).dim[axis];
    shift = n ? ((shift % n) + n) % n : 0;
    if (!shift) return x;
    struct fe_val parts[] = {fe_slice_axis(s, x, axis, n - shift, n), fe_slice_axis(s, x, axis, 0, n - shift)};
    return parts[0].bad || parts[1].bad ? fe_bad() : join(s, parts, 2, axis);
}

/* By a number that is known when the step runs. */
static struct fe_val roll_late(struct fe_call *c, const struct ir_type *t)
{
    SITE;
    uint32_t axis = 0;
    bool flat = fe_is_none(&ARG(2));
    struct fe_val x = flat ? FE_APPLY(s, "ravel", ARG(0)) : ARG(0);
    if (x.bad || (!flat && !axis_arg(c, 2, t->rank, &axis))) return fe_bad();
    int64_t n = fe_type_at(s, &x).dim[axis];
    if (!n) return ARG(0);
    struct fe_val place = fe_sub(s, fe_iota(s, ir_type_of(IR_I32, 1, &n), 0), ARG(1));
    x = fe_take(s, x, fe_binary(s, EXPR_OP_MOD, place, fe_int((double)n)), axis, false);
    return flat && !x.bad ? fe_reshape_val(s, x, t->rank, t->dim) : x;
}

static struct fe_val roll_one_by_one(struct fe_call *c)
{
    struct fe_val x = ARG(0);
    if (ARG(2).kind != FE_VAL_TUPLE || ARG(1).count != ARG(2).count) return fe_fail(c->site, "E0212", "roll: one axis for every shift expected");
    for (uint32_t i = 0; i < ARG(1).count && !x.bad; i++) x = FE_APPLY(c->site, "roll", x, ARG(1).items[i], ARG(2).items[i]);
    return x;
}

struct fe_val make_roll(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axes[IR_MAX_RANK], n, m;
    int64_t shift[IR_MAX_RANK];
    if (!tensor_arg(c, 0, &t)) return fe_bad();
    if (ARG(1).kind == FE_VAL_TENSOR && fe_rank(s, &ARG(1)) == 1 && ARG(2).kind == FE_VAL_TUPLE) ARG(1) = FE_APPLY(s, "unstack", ARG(1));
    if (ARG(1).bad) return ARG(1);
    if (ARG(1).kind == FE_VAL_TUPLE && ARG(1).count && ARG(1).items[0].kind == FE_VAL_TENSOR) return roll_one_by_one(c);
    if (ARG(1).kind == FE_VAL_TENSOR && !fe_rank(s, &ARG(1))) return roll_late(c, &t);
    if (!fe_get_ints(s, &ARG(1), shift, IR_MAX_RANK, &m, "shift")) return fe_bad();
    if (fe_is_none(&ARG(2))) {
        for (uint32_t i = 1; i < m; i++) shift[0] += shift[i];
        struct fe_val flat = fe_reshape_val(s, ARG(0), 1, (int64_t[]){ir_type_elements(&t)});
        return fe_reshape_val(s, roll_axis(s, flat, 0, m ? shift[0] : 0), t.rank, t.dim);
    }
    if (!fe_get_axes(c, 2, t.rank, axes, &n)) return fe_bad();
    if (m != n && m != 1 && n != 1) return fe_fail(s, "E0212", "roll: %u shifts for %u axes", (unsigned)m, (unsigned)n);
    struct fe_val x = ARG(0);
    for (uint32_t i = 0; i < (m > n ? m : n); i++) x = roll_axis(s, x, axes[n == 1 ? 0 : i], shift[m == 1 ? 0 : i]);
    return x;
}

/* One side of an axis, taken from the tensor itself: edge, reflect, symmetric, wrap. */
static struct fe_val pad_from_self(struct fe_site *s, struct fe_val x, uint32_t axis, int64_t low, int64_t high,
                                   const char *mode)
{
    int64_t n = fe_type_at(s, &x).dim[axis];
    struct fe_val *parts = arena_new_array(s->fe->arena, struct fe_val, low + high + 1);
    uint32_t count = 0;
    for (int64_t i = -low; i < n + high; i++) {
        int64_t at = i, period;
        if (i == 0) {
            parts[count++] = x;
            i = n - 1;
            continue;
        }
        if (!strcmp(mode, "edge")) at = i < 0 ? 0 : n - 1;
        else if (!strcmp(mode, "wrap")) at = ((i % n) + n) % n;
        else {
            bool symmetric = !strcmp(mode, "symmetric");
            period = symmetric ? 2 * n : n > 1 ? 2 * n - 2 : 1;
            at = ((i % period) + period) % period;
            if (at >= n) at = symmetric ? 2 * n - 1 - at : 2 * n - 2 - at;
        }
        parts[count++] = fe_slice_axis(s, x, axis, at, at + 1);
    }
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].bad) return fe_bad();
    return join(s, parts, count, axis);
}

static bool pad_widths(struct fe_call *c, uint32_t rank, int64_t *low, int64_t *high)
{
    SITE;
    const struct fe_val *w = &ARG(1);
    bool nested = w->kind == FE_VAL_TUPLE && w->count && w->items[0].kind == FE_VAL_TUPLE;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t pair[2];
        uint32_t n;
        const struct fe_val *v = nested ? &w->items[w->count == 1 ? 0 : i] : w;
        if (nested && w->count != 1 && w->count != rank) {
            fe_fail(s, "E0212", "pad: %u pairs of widths for a tensor of rank %u", (unsigned)w->count, (unsigned)rank);
            return false;
        }
        if (!fe_get_ints(s, v, pair, 2, &n, "pad_width")) return false;
        low[i] = pair[0];
        high[i] = n == 2 ? pair[1] : pair[0];
        if (low[i] < 0 || high[i] < 0 || low[i] > 1 << 20 || high[i] > 1 << 20) {
            fe_fail(s, "E0212", "pad: widths may not be negative");
            return false;
        }
    }
    return true;
}

/* x, (x,), (before, after), ((before, after),) or a pair for every axis. */
static struct fe_val side_of(const struct fe_val *v, uint32_t axis, int side)
{
    if (v->kind != FE_VAL_TUPLE || !v->count) return *v;
    if (v->items[0].kind == FE_VAL_TUPLE) return side_of(&v->items[v->count == 1 || axis >= v->count ? 0 : axis], axis, side);
    return v->items[v->count == 1 ? 0 : side];
}

/* Every axis on its own: what is put later goes over the corners. */
static struct fe_val pad_constants(struct fe_call *c, const struct ir_type *t, const int64_t *low, const int64_t *high)
{
    SITE;
    int64_t none[IR_MAX_RANK] = {0};
    struct fe_val x = ARG(0);
    for (uint32_t i = 0; i < t->rank; i++)
        for (int side = 0; side < 2; side++) {
            int64_t one[IR_MAX_RANK] = {0};
            if (!(one[i] = side ? high[i] : low[i])) continue;
            struct fe_val with = side_of(&ARG(3), i, side);
            ir_value fill = fe_value_as(s, &with, (enum ir_dtype)t->dtype);
            x = fe_tensor_val(ir_pad(s->b, x.tensor, fill, side ? none : one, side ? one : none, none), x.weak);
            if (x.bad) return x;
        }
    return x;
}

/* The largest, smallest, mean or middle element of an axis, or of the first or last `count` ones. */
static struct fe_val statistic(struct fe_site *s, struct fe_val x, uint32_t axis, const char *mode, const struct fe_val *count, int side)
{
    static const struct fe_val yes = {.kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = 1};
    struct ir_type t = fe_type_at(s, &x);
    struct fe_reduce_options keep = {.keepdims = true};
    int64_t n = t.dim[axis], some = n;
    if (!fe_is_none(count)) {
        if (count->kind != FE_VAL_NUMBER || count->number < 1 || count->number != (double)(int64_t)count->number) return fe_fail(s, "E0310", "pad: stat_length is a positive integer");
        some = (int64_t)count->number < n ? (int64_t)count->number : n;
    }
    x = fe_slice_axis(s, x, axis, side ? n - some : 0, side ? n : some);
    enum fe_reduction kind = !strcmp(mode, "maximum") ? FE_RED_MAX : !strcmp(mode, "minimum") ? FE_RED_MIN : FE_RED_MEAN;
    x = !strcmp(mode, "median") ? FE_APPLY(s, "median", x, fe_int(axis), fe_none(), fe_none(), yes) : fe_reduce(s, kind, x, &axis, 1, &keep);
    if (!ir_dtype_is_float((enum ir_dtype)t.dtype) && !x.bad) x = FE_APPLY(s, "round", x);
    return fe_cast(s, x, (enum ir_dtype)t.dtype);
}

/* Both sides filled with what stands for the axis, or with a ramp from an end to the edge. */
static struct fe_val pad_beside(struct fe_call *c, struct fe_val x, uint32_t axis, int64_t low, int64_t high, const char *mode)
{
    SITE;
    struct ir_type t = fe_type_at(s, &x);
    struct fe_val parts[3];
    bool ramp = !strcmp(mode, "linear_ramp");
    uint32_t n = 0;
    for (int side = 0; side < 2; side++) {
        int64_t size = side ? high : low, edge = side ? t.dim[axis] - 1 : 0;
        struct ir_type wide = t;
        wide.dim[axis] = size;
        if (side) parts[n++] = x;
        if (!size) continue;
        struct fe_val fill, end = side_of(&ARG(4), axis, side), count = side_of(&ARG(5), axis, side);
        if (ramp) {
            struct fe_val at = fe_slice_axis(s, x, axis, edge, edge + 1), place = fe_iota(s, (wide.dtype = IR_F32, wide), axis);
            if (side) place = fe_sub(s, fe_int((double)size - 1), place);
            fill = fe_add(s, end, fe_mul(s, fe_div(s, place, fe_int((double)size)), fe_sub(s, at, end)));
            if (!ir_dtype_is_float((enum ir_dtype)t.dtype)) fill = FE_APPLY(s, "floor", fill);
            fill = fe_cast(s, fill, (enum ir_dtype)t.dtype);
        } else {
            fill = statistic(s, x, axis, mode, &count, side);
            fill = fill.bad ? fill : fe_broadcast_val(s, fill, wide.rank, wide.dim);
        }
        if (fill.bad) return fill;
        parts[n++] = fill;
    }
    return join(s, parts, n, axis);
}

struct fe_val make_pad(struct fe_call *c)
{
    SITE;
    static const char *const modes[] = {"edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "median", "linear_ramp"};
    enum { FROM_SELF = 4, MODES = sizeof modes / sizeof *modes };
    struct ir_type t;
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK], interior[IR_MAX_RANK] = {0};
    if (!tensor_arg(c, 0, &t) || !pad_widths(c, t.rank, low, high)) return fe_bad();
    const char *mode = ARG(2).kind == FE_VAL_STRING ? ARG(2).string : "";
    if (!strcmp(mode, "empty")) mode = "constant", ARG(3) = fe_int(0);
    if (!strcmp(mode, "constant") && ARG(3).kind == FE_VAL_TUPLE) return pad_constants(c, &t, low, high);
    if (!strcmp(mode, "constant")) {
        ir_value fill = fe_value_as(s, &ARG(3), (enum ir_dtype)t.dtype);
        return fe_tensor_val(ir_pad(s->b, ARG(0).tensor, fill, low, high, interior), ARG(0).weak);
    }
    uint32_t known = 0;
    while (known < MODES && strcmp(mode, modes[known])) known++;
    if (known == MODES)
        return fe_fail(s, "E0310", "pad: mode '%s' is not one of constant, empty, edge, reflect, symmetric, wrap, maximum, minimum, mean, median, linear_ramp", mode);
    struct fe_val x = ARG(0);
    for (uint32_t i = 0; i < t.rank && !x.bad; i++)
        if (low[i] || high[i])
            x = t.dim[i] ? known < FROM_SELF ? pad_from_self(s, x, i, low[i], high[i], mode) : pad_beside(c, x, i, low[i], high[i], mode)
                         : fe_fail(s, "E0212", "pad: axis %u is empty", (unsigned)i);
    return x;
}

/* A number of copies for every element: the place of copy i is that of the first running sum beyond i. */
static struct fe_val repeat_each(struct fe_call *c, struct fe_val x, uint32_t axis)
{
    SITE;
    int64_t total = 0, n = fe_type_at(s, &x).dim[axis], *copies = arena_new_array(s->fe->arena, int64_t, n + 1);
    struct fe_val counts = ARG(1);
    uint32_t count;
    if (!fe_is_none(&ARG(3))) {
        if (!fe_get_int(c, 3, &total)) return fe_bad();
    } else if (counts.kind == FE_VAL_TENSOR) return fe_fail(s, "E0312", "repeat by a tensor needs total_repeat_length=: the shape of a result may not depend on values");
    else {
        if (!fe_get_ints(s, &counts, copies, (uint32_t)n, &count, "repeats")) return fe_bad();
        for (uint32_t i = 0; i < count; i++) total += copies[i];
    }
    if (!fe_as_tensor(s, &counts)) return fe_bad();
    struct ir_type t = fe_type_at(s, &counts);
    if (t.rank != 1 || (t.dim[0] != n && t.dim[0] != 1) || total < 0) return fe_fail(s, "E0210", "repeat: %s counts for %lld elements", fe_describe(s, &counts), (long long)n);
    counts = FE_APPLY(s, "cumsum", fe_broadcast_val(s, counts, 1, &n));
    struct fe_val place = FE_APPLY(s, "searchsorted", counts, fe_iota(s, ir_type_of(IR_I32, 1, &total), 0), (struct fe_val){.kind = FE_VAL_STRING, .string = "right"});
    return place.bad ? place : fe_take(s, x, place, axis, false);
}

struct fe_val make_repeat(struct fe_call *c)
{ /* a new axis behind the repeated one, merged */
    SITE;
    struct ir_type t;
    int64_t n;
    uint32_t axis = 0;
    if (!tensor_arg(c, 0, &t)) return fe_bad();
    struct fe_val x = ARG(0);
    if (fe_is_none(&ARG(2))) {
        x = FE_APPLY(s, "ravel", x);
        t = fe_type_at(s, &x);
    } else if (!axis_arg(c, 2, t.rank, &axis)) return fe_bad();
    if (ARG(1).kind == FE_VAL_TUPLE || ARG(1).kind == FE_VAL_TENSOR) return repeat_each(c, x, axis);
    if (!fe_get_int(c, 1, &n)) return fe_bad();
    if (n < 0) return fe_fail(s, "E0212", "repeat: a negative number of copies");
    x = fe_expand(s, x, axis + 1);
    if (x.bad) return x;
    struct ir_type wide = fe_type_at(s, &x);
    wide.dim[axis + 1] = n;
    t.dim[axis] *= n;
    return fe_reshape_val(s, fe_broadcast_val(s, x, wide.rank, wide.dim), t.rank, t.dim);
}

struct fe_val make_tile(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    int64_t reps[IR_MAX_RANK];
    uint32_t n;
    if (!tensor_arg(c, 0, &t) || !fe_get_ints(s, &ARG(1), reps, IR_MAX_RANK, &n, "reps")) return fe_bad();
    struct fe_val x = ARG(0);
    while (!x.bad && fe_rank(s, &x) < n) x = fe_expand(s, x, 0);
    for (uint32_t i = 0; i < n && !x.bad; i++) {
        uint32_t axis = fe_rank(s, &x) - n + i;
        if (reps[i] < 0 || reps[i] > 4096)
            return fe_fail(s, "E0212", "tile: %lld copies are outside 0 to 4096", (long long)reps[i]);
        if (reps[i] == 0) x = fe_slice_axis(s, x, axis, 0, 0);
        if (reps[i] <= 1) continue;
        struct fe_val *copies = arena_new_array(s->fe->arena, struct fe_val, reps[i]);
        for (int64_t j = 0; j < reps[i]; j++) copies[j] = x;
        x = join(s, copies, (uint32_t)reps[i], axis);
    }
    return x;
}

/* ---------------------------------------------------------------- static facts */

struct fe_val make_shape(struct fe_call *c)
{
    struct ir_type t;
    struct fe_val dims[IR_MAX_RANK];
    if (!tensor_arg(c, 0, &t)) return fe_bad();
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = fe_int((double)t.dim[i]);
    return fe_tuple(c->site, dims, t.rank);
}
struct fe_val make_size(struct fe_call *c)
{
    struct ir_type t;
    uint32_t axis;
    if (!tensor_arg(c, 0, &t)) return fe_bad();
    if (fe_is_none(&ARG(1))) return fe_int((double)ir_type_elements(&t));
    return axis_arg(c, 1, t.rank, &axis) ? fe_int((double)t.dim[axis]) : fe_bad();
}
/* A number: how many elements a shape has. */
struct fe_val make_product_of(struct fe_call *c)
{
    int64_t shape[IR_MAX_RANK];
    uint32_t rank;
    double n = 1;
    if (!fe_get_ints(c->site, &ARG(0), shape, IR_MAX_RANK, &rank, "shape")) return fe_bad();
    for (uint32_t i = 0; i < rank; i++) n *= (double)shape[i];
    return fe_int(n);
}
struct fe_val make_ndim(struct fe_call *c)
{
    struct ir_type t;
    return tensor_arg(c, 0, &t) ? fe_int(t.rank) : fe_bad();
}
struct fe_val make_len(struct fe_call *c)
{
    struct ir_type t;
    if (ARG(0).kind == FE_VAL_TUPLE) return fe_int(ARG(0).count);
    if (!tensor_arg(c, 0, &t)) return fe_bad();
    return t.rank ? fe_int((double)t.dim[0]) : fe_fail(c->site, "E0212", "a scalar has no length");
}
