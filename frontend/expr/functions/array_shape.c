/* Functions of expressions that give shapes: reshape, transpose, join, split; and those that tell them. */
#include "frontend/expr/makers.h"
#include <string.h>

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
    if (!order_arg(c, 2, &by_columns) || !fe_get_tensor(c, 0, &t) ||
        !fe_get_ints(s, &ARG(1), shape, IR_MAX_RANK, &rank, "shape"))
        return fe_bad();
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
    if (!fe_get_tensor(c, 0, &t) || !order_arg(c, 1, &by_columns)) return fe_bad();
    int64_t n = ir_type_elements(&t);
    return by_columns ? columns_first(c->site, ARG(0), 1, &n) : fe_reshape_val(c->site, ARG(0), 1, &n);
}

struct fe_val make_transpose(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axes[IR_MAX_RANK], n;
    if (!fe_get_tensor(c, 0, &t)) return fe_bad();
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
    if (!fe_get_tensor(c, 0, &t) || !fe_get_axis_arg(c, 1, t.rank, &a) || !fe_get_axis_arg(c, 2, t.rank, &b))
        return fe_bad();
    for (uint32_t i = 0; i < t.rank; i++) perm[i] = i == a ? b : i == b ? a : i;
    return fe_transpose_val(c->site, ARG(0), perm);
}

struct fe_val make_moveaxis(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t from[IR_MAX_RANK], to[IR_MAX_RANK], n, m, perm[IR_MAX_RANK], next = 0;
    bool taken[IR_MAX_RANK] = {0}, moved[IR_MAX_RANK] = {0};
    if (!fe_get_tensor(c, 0, &t) || !fe_get_axes(c, 1, t.rank, from, &n) || !fe_get_axes(c, 2, t.rank, to, &m))
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
    if (!fe_get_tensor(c, 0, &t)) return fe_bad();
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
    if (!fe_get_tensor(c, 0, &t) || !fe_get_axes(c, 1, t.rank, axes, &n)) return fe_bad();
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
        if (!n) fe_fail(s, "E0310", "%s needs a list of tensors, found %s", c->function, fe_describe(s, &v));
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
    if (!items || !fe_get_axis_arg(c, 1, fe_rank(c->site, &items[0]), &axis)) return fe_bad();
    return fe_as_dtype(c, 2, fe_join(c->site, items, n, axis));
}

struct fe_val make_stack(struct fe_call *c)
{
    SITE;
    uint32_t n, axis;
    struct fe_val *items = list_arg(c, 0, &n);
    if (!items || !fe_get_axis_arg(c, 1, fe_rank(s, &items[0]) + 1, &axis)) return fe_bad();
    return fe_as_dtype(c, 2, fe_stack(s, items, n, axis));
}

struct fe_val make_split(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t axis, n;
    if (!fe_get_tensor(c, 0, &t) || !fe_get_axis_arg(c, 2, t.rank, &axis)) return fe_bad();
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
        fe_room(s->fe, s->where.json, sections > 0 ? (uint64_t)sections : 0, 1);
        if (c->data && sections > 0) { /* parts that differ by one: the longer ones first */
            for (int64_t i = 1, at = 0; i < sections; i++)
                vec_push(s->fe->arena, &cuts, at += extent / sections + (i <= extent % sections));
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

/* ---------------------------------------------------------------- static facts */

struct fe_val make_shape(struct fe_call *c)
{
    struct ir_type t;
    struct fe_val dims[IR_MAX_RANK];
    if (!fe_get_tensor(c, 0, &t)) return fe_bad();
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = fe_int((double)t.dim[i]);
    return fe_tuple(c->site, dims, t.rank);
}
struct fe_val make_size(struct fe_call *c)
{
    struct ir_type t;
    uint32_t axes[IR_MAX_RANK], count;
    double n = 1;
    if (!fe_get_tensor(c, 0, &t) || !fe_get_axes(c, 1, t.rank, axes, &count)) return fe_bad();
    for (uint32_t i = 0; i < count; i++) n *= (double)t.dim[axes[i]];
    return fe_int(n);
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
    return fe_get_tensor(c, 0, &t) ? fe_int(t.rank) : fe_bad();
}
struct fe_val make_len(struct fe_call *c)
{
    struct ir_type t;
    if (ARG(0).kind == FE_VAL_TUPLE) return fe_int(ARG(0).count);
    if (!fe_get_tensor(c, 0, &t)) return fe_bad();
    return t.rank ? fe_int((double)t.dim[0]) : fe_fail(c->site, "E0212", "a scalar has no length");
}
