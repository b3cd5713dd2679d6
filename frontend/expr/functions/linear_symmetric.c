/* Eigenvectors of symmetric matrices [batch, n, n] of float32. Reflections make them tridiagonal, a panel of columns at
 * a time (Dongarra, Hammarling, Sorensen 1989); a tridiagonal matrix is halved by a change of rank one, down to single
 * numbers, and what the halves give is put together: the roots of a secular equation, all of them at once by bisection
 * of their bits, and the vectors of a problem nearby that has exactly these (Cuppen 1981; Gu, Eisenstat 1995). What a
 * change hardly reaches keeps its value, and equal values are moved apart by units of the last place. */
#include "frontend/expr/functions/linear.h"
#include <math.h>
#include <string.h>

static const double last_place = 0x1p-23;

static struct fe_val sum_of(struct fe_site *s, struct fe_val x, uint32_t axis)
{
    return fe_reduce(s, FE_RED_SUM, x, &axis, 1, &(struct fe_reduce_options){.keepdims = true});
}

static struct fe_val shaped(struct fe_site *s, struct fe_val x, int64_t a, int64_t b, int64_t c)
{
    return x.bad ? x : fe_reshape_val(s, x, 3, (int64_t[]){a, b, c});
}

/* ---------------------------------------------------------------- tridiagonal */

struct tridiagonal {
    struct fe_val diagonal, beside; /* [batch, n, 1], [batch, n, 1]: below element i */
    struct fe_reflections reflections;
};

/* The first k columns of x [batch, m, m]: what is left of the trailing rows and columns, and a panel more. */
static struct fe_val panel_of(struct fe_site *s, struct fe_val x, int64_t k, struct tridiagonal *t,
                              struct fe_val parts[2])
{
    struct ir_type type = fe_type_at(s, &x), panel = type, row = type;
    int64_t m = type.dim[1];
    struct fe_val after[4], left;
    struct fe_loop l;
    fe_loop_open(&l, s, "tridiagonal");
    struct fe_site *in = &l.in;
    panel.dim[2] = k, row.dim[1] = k, row.dim[2] = 1;
    struct fe_val us = fe_loop_carry(&l, fe_full(s, panel, 0)), ws = fe_loop_carry(&l, fe_full(s, panel, 0)),
                  d = fe_loop_carry(&l, fe_full(s, row, 0)), e = fe_loop_carry(&l, fe_full(s, row, 0)),
                  a = fe_loop_see(&l, x);
    if (us.bad || ws.bad || d.bad || e.bad || a.bad) return fe_bad();
    /* column i less what the reflections before it change: u w' + w u' */
    struct fe_val i = l.number, u_row = fe_turned(in, fe_piece(in, us, 1, i, 1)),
                  w_row = fe_turned(in, fe_piece(in, ws, 1, i, 1));
    struct fe_val column = fe_sub(in, fe_sub(in, fe_piece(in, a, 2, i, 1), fe_product(in, us, w_row)),
                                  fe_product(in, ws, u_row));
    struct fe_val u = fe_reflection(in, column, fe_add(in, i, fe_int(1)), &left);
    struct fe_val w = fe_sub(in, fe_product(in, a, u), fe_product(in, us, fe_product(in, fe_turned(in, ws), u)));
    w = fe_sub(in, w, fe_product(in, ws, fe_product(in, fe_turned(in, us), u)));
    w = fe_sub(in, w, fe_mul(in, u, fe_mul(in, fe_float(0.5), sum_of(in, fe_mul(in, u, w), 1))));
    struct fe_val is_i = fe_binary(in, EXPR_OP_EQ, fe_row_numbers(in, d), i);
    struct fe_val next[] = {fe_column_written(in, us, u, i), fe_column_written(in, ws, w, i),
                            fe_where3(in, is_i, fe_piece(in, column, 1, i, 1), d), fe_where3(in, is_i, left, e)};
    if (!fe_loop_close(&l, k, false, next, after)) return fe_bad();
    us = after[0], ws = after[1];
    parts[0] = after[2], parts[1] = after[3];
    if (!fe_reflections_add(s, &t->reflections, us)) return fe_bad();
    if (k == m) return x;
    struct fe_val low[] = {fe_slice_axis(s, us, 1, k, m), fe_slice_axis(s, ws, 1, k, m)}, turned[] = {low[1], low[0]};
    if (low[0].bad || low[1].bad) return fe_bad();
    return fe_sub(s, fe_block(s, x, k, k, m - k, m - k),
                  fe_product(s, fe_join(s, low, 2, 2), fe_turned(s, fe_join(s, turned, 2, 2))));
}

static bool tridiagonal_of(struct fe_site *s, struct fe_val x, struct tridiagonal *t)
{
    struct fe_val parts[FE_PANELS][2], d[FE_PANELS], e[FE_PANELS];
    int64_t n = fe_type_at(s, &x).dim[1], most = fe_panel_columns(n);
    *t = (struct tridiagonal){.reflections.count = 0};
    for (int64_t m = n; m > 0 && !x.bad; m -= most) {
        uint32_t at = t->reflections.count;
        x = panel_of(s, x, m < most ? m : most, t, parts[at]);
        if (x.bad) return false;
        d[at] = parts[at][0], e[at] = parts[at][1];
    }
    t->diagonal = t->reflections.count > 1 ? fe_join(s, d, t->reflections.count, 1) : d[0];
    t->beside = t->reflections.count > 1 ? fe_join(s, e, t->reflections.count, 1) : e[0];
    return !x.bad && !t->diagonal.bad && !t->beside.bad;
}

/* ---------------------------------------------------------------- halves */

struct spectrum {
    int64_t batch, n;
    struct fe_val values, rows; /* [batch, n]; the eigenvectors [batch, n, n] */
};

static struct fe_val picked(struct fe_site *s, struct fe_val x, struct fe_val order)
{
    return x.bad || order.bad ? fe_bad() : FE_APPLY(s, "take_along_axis", x, order, fe_int(-1));
}

static struct fe_val bits_of(struct fe_site *s, struct fe_val x, enum ir_dtype dtype)
{
    return x.bad ? x : fe_val_tensor(ir_bitcast(s->b, x.tensor, dtype));
}

static struct fe_val running(struct fe_site *s, enum ir_cumulate kind, struct fe_val x, bool reverse)
{
    return x.bad ? x : fe_val_tensor(ir_cumulate(s->b, kind, &x.tensor, 1, reverse));
}

/* m > 0 with 1 + sum of z / (delta - side m) = 0 [batch, n], where delta, z [batch, n, n], [batch, 1, n], m <= most. */
static struct fe_val bisected(struct fe_site *s, struct fe_val delta, struct fe_val z, struct fe_val side,
                              struct fe_val most)
{
    const float least = 0x1p-120F;
    int32_t bits;
    struct fe_val after[2];
    struct fe_loop l;
    memcpy(&bits, &least, sizeof bits);
    fe_loop_open(&l, s, "secular");
    struct fe_site *in = &l.in;
    struct fe_val high = fe_loop_carry(&l, bits_of(s, most, IR_I32));
    struct ir_type type = high.bad ? (struct ir_type){0} : fe_type_at(in, &high);
    struct fe_val low = fe_loop_carry(&l, fe_full(s, type, bits));
    struct fe_val d = fe_loop_see(&l, delta), weights = fe_loop_see(&l, z), sides = fe_loop_see(&l, side);
    if (low.bad || high.bad || d.bad || weights.bad || sides.bad) return fe_bad();
    struct fe_val half = fe_op2(in, OP_shr, fe_sub(in, high, low), fe_int(1)), middle = fe_add(in, low, half),
                  m = bits_of(in, middle, IR_F32);
    struct fe_val from = fe_sub(in, d, fe_expand(in, fe_mul(in, sides, m), 2)),
                  f = fe_add(in, fe_float(1), fe_reduce_last(in, FE_RED_SUM, fe_div(in, weights, from), false));
    struct fe_val beyond = fe_binary(in, EXPR_OP_LT, fe_mul(in, f, sides), fe_float(0));
    struct fe_val next[] = {fe_where3(in, beyond, high, middle), fe_where3(in, beyond, middle, low)};
    return fe_loop_close(&l, 30, false, next, after) ? bits_of(s, after[0], IR_F32) : fe_bad();
}

/* diag(d) + rho z z': its eigenvalues and eigenvectors as rows; d, z [batch, n], rho [batch, 1] >= 0. */
static bool changed_diagonal(struct fe_site *s, struct fe_val d, struct fe_val z, struct fe_val rho,
                             struct spectrum *out)
{
    struct fe_val order = FE_APPLY(s, "argsort", d), inverse = order.bad ? order : FE_APPLY(s, "argsort", order),
                  zero = fe_float(0), one = fe_float(1), far = fe_float((double)INFINITY);
    int64_t batch = out->batch, n = out->n;
    d = picked(s, d, order), z = picked(s, z, order);
    if (inverse.bad || d.bad || z.bad) return false;
    uint32_t along = 1;
    struct fe_reduce_options keep = {.keepdims = true};
    struct fe_val largest = fe_reduce(s, FE_RED_MAX, fe_op1(s, OP_abs, d), &along, 1, &keep),
                  unit = fe_mul(s, fe_op2(s, OP_max, largest, rho), fe_float(4 * last_place)), old = d;
    struct fe_val weight = fe_mul(s, rho, fe_mul(s, z, z)),
                  moves = fe_binary(s, EXPR_OP_GT, fe_mul(s, rho, fe_op1(s, OP_abs, z)),
                                    fe_mul(s, unit, fe_float(0.5)));
    /* those that move are apart */
    struct fe_val step = fe_mul(s, unit, running(s, IR_CUMULATE_SUM, fe_cast(s, moves, IR_F32), false));
    struct fe_val apart = running(s, IR_CUMULATE_MAX,
                                  fe_where3(s, moves, fe_sub(s, d, step), fe_float((double)-INFINITY)), false);
    d = fe_where3(s, moves, fe_add(s, apart, step), d);
    /* the next one that moves, behind the last what the change can reach */
    struct fe_val end = fe_add(
        s, fe_reduce(s, FE_RED_MAX, fe_where3(s, moves, d, fe_float((double)-INFINITY)), &along, 1, &keep),
        fe_add(s, fe_mul(s, fe_float(1 + 64 * last_place), sum_of(s, fe_where3(s, moves, weight, zero), 1)), unit));
    struct fe_val behind = running(s, IR_CUMULATE_MIN, fe_where3(s, moves, d, far), true);
    struct fe_val shifted[] = {fe_slice_axis(s, behind, 1, 1, n),
                               fe_full(s, ir_type_of(IR_F32, 2, (int64_t[]){batch, 1}), (double)INFINITY)};
    if (shifted[0].bad || shifted[1].bad) return false;
    struct fe_val next = fe_op2(s, OP_min, fe_join(s, shifted, 2, 1), end),
                  gap = fe_where3(s, moves, fe_sub(s, next, d), one);
    /* elements i are those given, roots j in order */
    struct fe_val at = picked(s, fe_where3(s, moves, d, far), inverse),
                  w = picked(s, fe_where3(s, moves, weight, zero), inverse);
    struct fe_val ds = fe_expand(s, at, 1), ws = fe_expand(s, w, 1), half = fe_mul(s, gap, fe_float(0.5));
    struct fe_val middle = fe_sub(s, fe_sub(s, ds, fe_expand(s, d, 2)), fe_expand(s, half, 2));
    struct fe_val f = fe_add(s, one, fe_reduce_last(s, FE_RED_SUM, fe_div(s, ws, middle), false));
    struct fe_val left = fe_binary(s, EXPR_OP_GE, f, zero), side = fe_where3(s, left, one, fe_float(-1)),
                  origin = fe_where3(s, left, d, next);
    struct fe_val delta = fe_sub(s, ds, fe_expand(s, origin, 2)), m = bisected(s, delta, ws, side, half),
                  root = fe_mul(s, side, m);
    struct fe_val from = fe_sub(s, delta, fe_expand(s, root, 2)); /* d_i - root j */
    out->values = fe_where3(s, moves, fe_add(s, origin, root), old);
    if (out->values.bad || from.bad) return false;
    struct fe_val own = fe_binary(s, EXPR_OP_EQ, fe_expand(s, order, 2),
                                  fe_iota(s, ir_type_of(IR_I32, 3, (int64_t[]){batch, n, n}), 2));
    struct fe_val counts = fe_op2(s, OP_and, fe_expand(s, moves, 2), fe_binary(s, EXPR_OP_LT, ds, far));
    struct fe_val ratio = fe_where3(s, own, neg(s, from),
                                    fe_div(s, from, fe_where3(s, own, one, fe_sub(s, ds, fe_expand(s, d, 2)))));
    struct fe_val square = fe_reduce(s, FE_RED_PROD, fe_where3(s, counts, ratio, one), &along, 1, &keep);
    struct fe_val size = fe_op1(s, OP_sqrt, fe_op1(s, OP_abs, square)),
                  sign = fe_expand(
                      s, picked(s, fe_where3(s, fe_binary(s, EXPR_OP_LT, z, zero), fe_float(-1), one), inverse), 1);
    struct fe_val rows = fe_where3(s, counts, fe_div(s, fe_mul(s, size, sign), from), zero);
    rows = fe_mul(s, rows,
                  fe_op1(s, OP_rsqrt, fe_where3(s, fe_expand(s, moves, 2), sum_of(s, fe_mul(s, rows, rows), 2), one)));
    out->rows = fe_where3(s, fe_expand(s, moves, 2), rows, fe_cast(s, own, IR_F32));
    return !out->rows.bad;
}

/* Of two halves whose ends are tied by `tie` [batch, 1], which has been taken off both. */
static bool together(struct fe_site *s, const struct spectrum *first, const struct spectrum *last, struct fe_val tie,
                     struct spectrum *out)
{
    int64_t batch = first->batch, p = first->n, n = p + last->n;
    struct fe_val sign = fe_where3(s, fe_binary(s, EXPR_OP_LT, tie, fe_float(0)), fe_float(-1), fe_float(1));
    struct fe_val down = fe_slice_axis(s, first->rows, 2, p - 1, p), up = fe_slice_axis(s, last->rows, 2, 0, 1);
    if (down.bad || up.bad) return false;
    struct fe_val z[] = {fe_reshape_val(s, down, 2, (int64_t[]){batch, p}),
                         fe_mul(s, sign, fe_reshape_val(s, up, 2, (int64_t[]){batch, n - p}))},
                  d[] = {first->values, last->values};
    if (z[0].bad || z[1].bad) return false;
    *out = (struct spectrum){batch, n, {0}, {0}};
    if (!changed_diagonal(s, fe_join(s, d, 2, 1), fe_join(s, z, 2, 1), fe_op1(s, OP_abs, tie), out)) return false;
    struct fe_val rows[] = {fe_product(s, fe_slice_axis(s, out->rows, 2, 0, p), first->rows),
                            fe_product(s, fe_slice_axis(s, out->rows, 2, p, n), last->rows)};
    out->rows = rows[0].bad || rows[1].bad ? fe_bad() : fe_join(s, rows, 2, 2);
    return !out->rows.bad;
}

/* Of tridiagonal matrices d, e [batch, n], from whose d the ties of all halves have been taken. */
static bool halved(struct fe_site *s, struct fe_val d, struct fe_val e, struct spectrum *out)
{
    if (d.bad || e.bad) return false;
    struct ir_type t = fe_type_at(s, &d);
    int64_t batch = t.dim[0], n = t.dim[1], p = (n + 1) / 2;
    struct spectrum half[2];
    *out = (struct spectrum){batch, n, d, {0}};
    if (n == 1) return out->rows = fe_full(s, ir_type_of(IR_F32, 3, (int64_t[]){batch, 1, 1}), 1), !out->rows.bad;
    if (n % 2) {
        if (!halved(s, fe_slice_axis(s, d, 1, 0, p), fe_slice_axis(s, e, 1, 0, p), &half[0])) return false;
        if (!halved(s, fe_slice_axis(s, d, 1, p, n), fe_slice_axis(s, e, 1, p, n), &half[1])) return false;
    } else { /* both at once */
        struct spectrum both;
        const int64_t split[] = {2 * batch, p};
        if (!halved(s, fe_reshape_val(s, d, 2, split), fe_reshape_val(s, e, 2, split), &both)) return false;
        for (int i = 0; i < 2; i++) {
            struct fe_val rows = fe_reshape_val(s, both.rows, 4, (int64_t[]){batch, 2, p, p}),
                          values = shaped(s, both.values, batch, 2, p);
            rows = fe_slice_axis(s, rows, 1, i, i + 1), values = fe_slice_axis(s, values, 1, i, i + 1);
            if (rows.bad || values.bad) return false;
            half[i] = (struct spectrum){batch, p, fe_reshape_val(s, values, 2, (int64_t[]){batch, p}),
                                        shaped(s, rows, batch, p, p)};
        }
    }
    return together(s, &half[0], &half[1], fe_slice_axis(s, e, 1, p - 1, p), out);
}

/* Sizes that halve evenly until they are small. */
static int64_t even_size(int64_t n)
{
    int64_t times = 1;
    while ((n + times - 1) / times > 8) times *= 2;
    return (n + times - 1) / times * times;
}

bool fe_tridiagonal(struct fe_site *s, struct fe_val d, struct fe_val e, int64_t count, struct fe_val *values,
                    struct fe_val *rows)
{
    if (d.bad || e.bad) return false;
    struct ir_type t = fe_type_at(s, &d);
    int64_t batch = t.dim[0], n = t.dim[1], wide = even_size(n);
    struct fe_val places = fe_iota(s, ir_type_of(IR_I32, 2, (int64_t[]){batch, n}), 1);
    e = fe_where3(s, fe_binary(s, EXPR_OP_LT, places, fe_int((double)n - 1)), e, fe_float(0));
    struct fe_val off = fe_op1(s, OP_abs, e), none = fe_full(s, ir_type_of(IR_F32, 2, (int64_t[]){batch, 1}), 0);
    if (off.bad || none.bad) return false;
    /* what each tie takes off both of its ends; behind the matrix stands what is larger than all of it */
    struct fe_val moved[] = {none, fe_slice_axis(s, off, 1, 0, n - 1)};
    struct fe_val ties = fe_add(s, off, n > 1 ? fe_join(s, moved, 2, 1) : none),
                  along = fe_add(s, fe_op1(s, OP_abs, d), ties);
    uint32_t last = 1;
    struct fe_val bound = fe_reduce(s, FE_RED_MAX, along, &last, 1,
                                    &(struct fe_reduce_options){.keepdims = true}); /* Gershgorin's */
    d = fe_sub(s, d, ties);
    if (wide > n) {
        struct fe_val ds[] = {d,
                              fe_broadcast_val(s, fe_mul(s, bound, fe_float(1.01)), 2, (int64_t[]){batch, wide - n})},
                      es[] = {e, fe_full(s, ir_type_of(IR_F32, 2, (int64_t[]){batch, wide - n}), 0)};
        d = fe_join(s, ds, 2, 1), e = fe_join(s, es, 2, 1);
    }
    struct spectrum found;
    if (!halved(s, d, e, &found)) return false;
    struct fe_val order = FE_APPLY(s, "argsort", found.values);
    order = order.bad ? order : fe_slice_axis(s, order, 1, n - count, n);
    *values = picked(s, found.values, order);
    *rows = order.bad ? order : FE_APPLY(s, "take_along_axis", found.rows, fe_expand(s, order, 2), fe_int(1));
    *rows = rows->bad ? *rows : fe_slice_axis(s, *rows, 2, 0, n);
    return !values->bad && !rows->bad;
}

struct fe_val fe_magnitude(struct fe_site *s, struct fe_val x)
{
    uint32_t axes[] = {1, 2};
    struct fe_val size = fe_reduce(s, FE_RED_MAX, fe_op1(s, OP_abs, x), axes, 2,
                                   &(struct fe_reduce_options){.keepdims = true});
    return fe_where3(s, fe_binary(s, EXPR_OP_EQ, size, fe_float(0)), fe_float(1), size);
}

bool fe_eigenvectors(struct fe_site *s, struct fe_val x, struct fe_val *values, struct fe_val *columns)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t batch = t.dim[0], n = t.dim[1];
    struct fe_val size = fe_magnitude(s, x), rows;
    struct tridiagonal *all = arena_new(s->fe->arena, struct tridiagonal);
    if (!tridiagonal_of(s, fe_div(s, x, size), all)) return false;
    struct fe_val d = fe_reshape_val(s, all->diagonal, 2, (int64_t[]){batch, n}),
                  e = fe_reshape_val(s, all->beside, 2, (int64_t[]){batch, n});
    if (!fe_tridiagonal(s, d, e, n, values, &rows)) return false;
    *values = fe_mul(s, *values, fe_reshape_val(s, size, 2, (int64_t[]){batch, 1}));
    *columns = fe_reflected(s, &all->reflections, fe_turned(s, rows));
    return !values->bad && !columns->bad;
}
