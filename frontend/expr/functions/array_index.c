/* take and take_along_axis. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

/* What an index outside means: nan (or fill_value), the nearest element, or one counted on. */
enum outside { FILL, CLIP, WRAP };

/* As jax.numpy does, nan if nothing is said. */
static bool get_mode(struct fe_call *c, uint32_t arg, enum outside *mode)
{
    const char *name = ARG(arg).kind == FE_VAL_STRING ? ARG(arg).string : fe_is_none(&ARG(arg)) ? "fill" : "";
    *mode = !strcmp(name, "wrap") ? WRAP : !strcmp(name, "clip") ? CLIP : FILL;
    if (*mode != FILL || !strcmp(name, "fill")) return true;
    fe_fail_at(c->site, &c->where[arg], "E0310", "%s: the mode is 'fill', 'clip' or 'wrap'", c->function);
    return false;
}

/* Indices in 0..n-1, and where they were inside. */
static struct fe_val bounded(struct fe_site *s, struct fe_val i, int64_t n, enum outside mode, struct fe_val *inside)
{
    struct fe_val extent = fe_int((double)n), zero = fe_int(0);
    i = fe_cast(s, i, IR_I32);
    *inside = fe_none();
    if (mode == WRAP) return fe_binary(s, EXPR_OP_MOD, i, extent);
    if (mode == FILL) i = fe_where3(s, fe_binary(s, EXPR_OP_LT, i, zero), fe_add(s, i, extent), i);
    struct fe_val near = fe_op2(s, OP_min, fe_op2(s, OP_max, i, zero), fe_sub(s, extent, fe_int(1)));
    if (mode == FILL) *inside = fe_binary(s, EXPR_OP_EQ, near, i);
    return near;
}

/* Indices that are written down and fit need no check. */
static bool all_inside(const struct fe_val *i, int64_t n)
{
    if (i->kind == FE_VAL_NUMBER) return i->number >= -n && i->number < n;
    bool all = i->kind == FE_VAL_TUPLE;
    for (uint32_t k = 0; all && k < i->count; k++) all = all_inside(&i->items[k], n);
    return all;
}

struct fe_val make_take(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0;
    int64_t given;
    enum outside mode;
    struct fe_val x = ARG(0), i = ARG(1), inside;
    if (!get_mode(c, 3, &mode) || !fe_as_tensor(s, &x)) return fe_bad();
    if (fe_is_none(&ARG(2))) x = FE_APPLY(s, "ravel", x);
    else if (!fe_get_int(c, 2, &given) || !fe_get_axis(s, given, fe_rank(s, &x), &axis)) return fe_bad();
    if (x.bad) return x;
    struct ir_type t = fe_type_at(s, &x), ti;
    if (mode == FILL && all_inside(&i, t.dim[axis])) return fe_take(s, x, i, axis, true);
    if (!fe_as_tensor(s, &i) || !fe_is_index(s, &i)) return fe_bad();
    ti = fe_type_at(s, &i);
    if (t.dim[axis] == 0 || t.rank - 1u + ti.rank > IR_MAX_RANK) return fe_take(s, x, i, axis, true);
    i = bounded(s, i, t.dim[axis], mode, &inside);
    struct fe_val v = fe_take(s, x, i, axis, false);
    if (v.bad || fe_is_none(&inside)) return v;
    int64_t shape[IR_MAX_RANK];
    struct ir_type tv = fe_type_at(s, &v);
    for (uint32_t d = 0; d < tv.rank; d++) shape[d] = d >= axis && d < axis + ti.rank ? ti.dim[d - axis] : 1;
    return fe_fill_outside(s, fe_reshape_val(s, inside, tv.rank, shape), v, &ARG(4));
}

/* The axis moves to the end; then every row is taken from the flattened tensor. */
struct fe_val make_take_along_axis(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0, perm[IR_MAX_RANK];
    int64_t given, rows = 1;
    struct fe_val x = ARG(0), i = ARG(1), inside;
    enum outside mode;
    if (!get_mode(c, 3, &mode) || !fe_as_tensor(s, &x) || !fe_as_tensor(s, &i) || !fe_is_index(s, &i)) return fe_bad();
    struct ir_type t, ti;
    if (fe_is_none(&ARG(2))) x = FE_APPLY(s, "ravel", x), t = fe_type_at(s, &x);
    else {
        t = fe_type_at(s, &x);
        if (!fe_get_int(c, 2, &given) || !fe_get_axis(s, given, t.rank, &axis)) return fe_bad();
    }
    ti = fe_type_at(s, &i);
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
    if (mode == CLIP) i = fe_where3(s, fe_binary(s, EXPR_OP_LT, i, fe_int(0)), fe_add(s, i, fe_int((double)n)), i);
    i = bounded(s, i, n, mode, &inside);
    if (k == 1 && n > 1 && fe_is_made(s, &x))
        return fe_fill_outside(s, inside, fe_picked(s, x, i, axis, true), &ARG(4));
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
    return fe_fill_outside(s, inside, fe_transpose_val(s, taken, perm), &ARG(4));
}
