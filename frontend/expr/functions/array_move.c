/* Functions of expressions that move and repeat elements: broadcast, flip, pad, and what formulas move
 * with. */
#include "frontend/expr/makers.h"
#include <string.h>

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
    if (!fe_get_tensor(c, 0, &t) || !fe_get_axes(c, 1, t.rank, axes, &n)) return fe_bad();
    uint32_t m = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        for (uint32_t j = 0; j < n; j++)
            if (axes[j] == i) dims[m++] = i;
    return m ? fe_tensor_val(ir_reverse(s->b, ARG(0).tensor, dims, m), ARG(0).weak) : ARG(0);
}

/* One side of an axis, taken from the tensor itself: edge, reflect, symmetric, wrap. */
static struct fe_val pad_from_self(struct fe_site *s, struct fe_val x, uint32_t axis, int64_t low, int64_t high,
                                   const char *mode)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t n = t.dim[axis], before[IR_MAX_RANK] = {0}, behind[IR_MAX_RANK] = {0};
    static const char *const kinds[] = {[IR_EXTEND_WRAP] = "wrap",
                                        [IR_EXTEND_REFLECT] = "reflect",
                                        [IR_EXTEND_SYMMETRIC] = "symmetric",
                                        [IR_EXTEND_EDGE] = "edge"};
    int kind = 0;
    while (strcmp(kinds[kind], mode) != 0) kind++;
    int64_t most = kind == IR_EXTEND_EDGE && n ? INT64_MAX : n - (kind == IR_EXTEND_REFLECT);
    if (low <= most && high <= most) {
        before[axis] = low, behind[axis] = high;
        return fe_tensor_val(ir_extend(s->b, x.tensor, before, behind, kind), x.weak);
    }
    struct fe_val *parts = arena_new_array(s->fe->arena, struct fe_val, low + high + 1);
    uint32_t count = 0;
    for (int64_t i = -low; i < n + high; i++) {
        int64_t at = i, period;
        if (i == 0) {
            parts[count++] = x;
            i = n - 1;
            continue;
        }
        if (kind == IR_EXTEND_EDGE) at = i < 0 ? 0 : n - 1;
        else if (kind == IR_EXTEND_WRAP) at = ((i % n) + n) % n;
        else {
            bool symmetric = kind == IR_EXTEND_SYMMETRIC;
            period = symmetric ? 2 * n : n > 1 ? 2 * n - 2 : 1;
            at = ((i % period) + period) % period;
            if (at >= n) at = symmetric ? 2 * n - 1 - at : 2 * n - 2 - at;
        }
        parts[count++] = fe_slice_axis(s, x, axis, at, at + 1);
    }
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].bad) return fe_bad();
    return fe_join(s, parts, count, axis);
}

static bool pad_widths(struct fe_call *c, uint32_t rank, int64_t *low, int64_t *high)
{
    SITE;
    const struct fe_val *w = &ARG(1);
    enum { MOST = 1 << 20 };
    bool nested = w->kind == FE_VAL_TUPLE && w->count && w->items[0].kind == FE_VAL_TUPLE;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t pair[2];
        uint32_t n;
        const struct fe_val *v = nested ? &w->items[w->count == 1 ? 0 : i] : w;
        if (nested && w->count != 1 && w->count != rank)
            return fe_wrong_here(s, "E0212", "pad: %u pairs of widths for a tensor of rank %u", (unsigned)w->count,
                                 (unsigned)rank);
        if (!fe_get_ints(s, v, pair, 2, &n, "pad_width")) return false;
        low[i] = pair[0];
        high[i] = n == 2 ? pair[1] : pair[0];
        if (low[i] < 0 || high[i] < 0 || low[i] > MOST || high[i] > MOST)
            return fe_wrong_here(s, "E0212", "pad: widths of 0 to %d expected, found %lld and %lld", MOST,
                                 (long long)low[i], (long long)high[i]);
    }
    return true;
}

/* x, (x,), (before, after), ((before, after),) or a pair for every axis. */
static struct fe_val side_of(const struct fe_val *v, uint32_t axis, int side)
{
    if (v->kind != FE_VAL_TUPLE || !v->count) return *v;
    if (v->items[0].kind == FE_VAL_TUPLE)
        return side_of(&v->items[v->count == 1 || axis >= v->count ? 0 : axis], axis, side);
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
static struct fe_val statistic(struct fe_site *s, struct fe_val x, uint32_t axis, const char *mode,
                               const struct fe_val *count, int side)
{
    static const struct fe_val yes = {.kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = 1};
    struct ir_type t = fe_type_at(s, &x);
    struct fe_reduce_options keep = {.keepdims = true};
    int64_t n = t.dim[axis], some = n;
    if (!fe_is_none(count)) {
        if (count->kind != FE_VAL_NUMBER || count->number < 1 || count->number != (double)(int64_t)count->number)
            return fe_fail(s, "E0310", "pad: stat_length is a positive integer");
        some = (int64_t)count->number < n ? (int64_t)count->number : n;
    }
    x = fe_slice_axis(s, x, axis, side ? n - some : 0, side ? n : some);
    enum fe_reduction kind = !strcmp(mode, "maximum")   ? FE_RED_MAX
                             : !strcmp(mode, "minimum") ? FE_RED_MIN
                                                        : FE_RED_MEAN;
    x = !strcmp(mode, "median") ? FE_APPLY(s, "median", x, fe_int(axis), fe_none(), fe_none(), yes)
                                : fe_reduce(s, kind, x, &axis, 1, &keep);
    /* a mean of bools is no integer to JAX: it is true where it is not 0 */
    if (!ir_dtype_is_float((enum ir_dtype)t.dtype) && t.dtype != IR_BOOL && !x.bad) x = FE_APPLY(s, "round", x);
    return fe_cast(s, x, (enum ir_dtype)t.dtype);
}

/* Both sides filled with what stands for the axis, or with a ramp from an end to the edge. */
static struct fe_val pad_beside(struct fe_call *c, struct fe_val x, uint32_t axis, int64_t low, int64_t high,
                                const char *mode)
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
            struct fe_val at = fe_slice_axis(s, x, axis, edge, edge + 1),
                          place = fe_iota(s, (wide.dtype = IR_F32, wide), axis);
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
    return fe_join(s, parts, n, axis);
}

struct fe_val make_pad(struct fe_call *c)
{
    SITE;
    static const char *const modes[] = {"edge",    "reflect", "symmetric", "wrap",       "maximum",
                                        "minimum", "mean",    "median",    "linear_ramp"};
    enum { FROM_SELF = 4, MODES = sizeof modes / sizeof *modes };
    struct ir_type t;
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK], interior[IR_MAX_RANK] = {0};
    if (!fe_get_tensor(c, 0, &t) || !pad_widths(c, t.rank, low, high)) return fe_bad();
    const char *mode = ARG(2).kind == FE_VAL_STRING ? ARG(2).string : "";
    static const char *const only[] = {"constant", "linear_ramp", "maximum, minimum, mean, median"};
    for (uint32_t i = 0; i < 3; i++) /* constant_values, end_values, stat_length */
        if (c->given[3 + i] && !fe_is_none(&ARG(3 + i)) && !strstr(only[i], mode))
            return (void)fe_fail_at(s, &c->where[3 + i], "E0310",
                                    "pad: mode '%s' does not read this argument; it is of %s", mode, only[i]),
                   fe_bad();
    if (!strcmp(mode, "empty")) mode = "constant", ARG(3) = fe_int(0);
    if (!strcmp(mode, "constant") && ARG(3).kind == FE_VAL_TUPLE) return pad_constants(c, &t, low, high);
    if (!strcmp(mode, "constant")) {
        ir_value fill = fe_value_as(s, &ARG(3), (enum ir_dtype)t.dtype);
        return fe_tensor_val(ir_pad(s->b, ARG(0).tensor, fill, low, high, interior), ARG(0).weak);
    }
    uint32_t known = 0;
    while (known < MODES && strcmp(mode, modes[known])) known++;
    if (known == MODES)
        return fe_fail(s, "E0310",
                       "pad: mode '%s' is not one of constant, empty, edge, reflect, symmetric, wrap, maximum, "
                       "minimum, mean, median, linear_ramp",
                       mode);
    struct fe_val x = ARG(0);
    for (uint32_t i = 0; i < t.rank && !x.bad; i++)
        if (low[i] || high[i])
            x = t.dim[i] ? known < FROM_SELF ? pad_from_self(s, x, i, low[i], high[i], mode)
                                             : pad_beside(c, x, i, low[i], high[i], mode)
                         : fe_fail(s, "E0212", "pad: axis %u is empty", (unsigned)i);
    return x;
}

/* Elements start to stop of an axis. */
struct fe_val make_part(struct fe_call *c)
{
    return fe_slice_axis(c->site, ARG(0), (uint32_t)ARG(1).number, (int64_t)ARG(2).number, (int64_t)ARG(3).number);
}

/* By indices that are known to lie inside. */
struct fe_val make_taken(struct fe_call *c) { return fe_take(c->site, ARG(0), ARG(1), (uint32_t)ARG(2).number, false); }

/* Rows added to those that indices name; indices outside name none. */
struct fe_val make_scatter_add(struct fe_call *c)
{
    return fe_val_tensor(ir_scatter_add(c->site->b, ARG(0).tensor, ARG(1).tensor, ARG(2).tensor, 0));
}
