/* Householder's reflections of matrices [batch, m, n] by panels of columns: what a panel does to all others is a
 * product (Schreiber, Van Loan 1989; the factor between by Puglisi 1992). */
#include "frontend/expr/functions/linear.h"

enum { PANEL = 16 };

static struct fe_val sum_down(struct fe_site *s, struct fe_val x)
{
    uint32_t down = 1;
    return fe_reduce(s, FE_RED_SUM, x, &down, 1, &(struct fe_reduce_options){.keepdims = true});
}

struct fe_val fe_reflection(struct fe_site *s, struct fe_val column, struct fe_val to, struct fe_val *left)
{
    struct fe_val rows = fe_row_numbers(s, column), here = fe_binary(s, EXPR_OP_EQ, rows, to), zero = fe_float(0),
                  one = fe_float(1);
    struct fe_val alpha = sum_down(s, fe_where3(s, here, column, zero)),
                  tail = fe_where3(s, fe_binary(s, EXPR_OP_GT, rows, to), column, zero),
                  square = sum_down(s, fe_mul(s, tail, tail));
    struct fe_val none = fe_binary(s, EXPR_OP_LT, square,
                                   fe_float(0x1p-100)); /* beside 1, which the largest element is */
    struct fe_val norm = fe_op1(s, OP_sqrt, fe_where3(s, none, one, fe_add(s, square, fe_mul(s, alpha, alpha)))),
                  other = fe_where3(s, fe_binary(s, EXPR_OP_LT, alpha, zero), norm, neg(s, norm));
    struct fe_val scale = fe_op1(s, OP_rsqrt, fe_mul(s, norm, fe_add(s, norm, fe_op1(s, OP_abs, alpha))));
    *left = fe_where3(s, none, alpha, other);
    return fe_mul(s, fe_where3(s, here, fe_sub(s, alpha, other), tail), fe_where3(s, none, zero, scale));
}

struct fe_val fe_column_written(struct fe_site *s, struct fe_val x, struct fe_val column, struct fe_val at)
{
    if (x.bad || column.bad || at.bad) return fe_bad();
    ir_value zero = ir_scalar(s->b, IR_I32, 0), starts[] = {zero, zero, at.tensor};
    return fe_val_tensor(ir_dynamic_update(s->b, x.tensor, column.tensor, starts));
}

int64_t fe_panel_columns(int64_t n)
{
    int64_t most = (n + FE_PANELS - 1) / FE_PANELS;
    return most < PANEL ? PANEL : most;
}

bool fe_reflections_add(struct fe_site *s, struct fe_reflections *all, struct fe_val u)
{
    struct fe_val common = fe_product(s, fe_turned(s, u), u);
    struct fe_triangle *t = common.bad ? NULL : fe_triangle_of(s, fe_unit_lower(s, common));
    if (!t) return false;
    all->of[all->count] = u, all->factor[all->count] = fe_turned(s, fe_triangle_inverse(s, t));
    return !all->factor[all->count++].bad;
}

/* x less u f u' x, f turned for what undoes it. */
static struct fe_val turned_by(struct fe_site *s, struct fe_val u, struct fe_val f, struct fe_val x)
{
    return fe_sub(s, x, fe_product(s, u, fe_product(s, f, fe_product(s, fe_turned(s, u), x))));
}

struct fe_val fe_reflected(struct fe_site *s, const struct fe_reflections *all, struct fe_val x)
{
    for (uint32_t i = all->count; i-- && !x.bad;) {
        struct fe_val u = all->of[i];
        int64_t n = fe_type_at(s, &x).dim[1], m = fe_type_at(s, &u).dim[1];
        struct fe_val both[] = {fe_slice_axis(s, x, 1, 0, n - m),
                                turned_by(s, u, all->factor[i], fe_slice_axis(s, x, 1, n - m, n))};
        if (both[0].bad || both[1].bad) return fe_bad();
        x = m == n ? both[1] : fe_join(s, both, 2, 1);
    }
    return x;
}

/* x [batch, m, n] behind `rows` rows and `columns` columns, on whose diagonal stands 1. */
static struct fe_val behind_identity(struct fe_site *s, struct fe_val x, int64_t k)
{
    const int64_t low[] = {0, k, k}, none[3] = {0};
    if (x.bad) return x;
    x = fe_val_tensor(
        ir_pad(s->b, x.tensor, ir_scalar(s->b, (enum ir_dtype)fe_type_at(s, &x).dtype, 0), low, none, none));
    struct fe_val rows = fe_row_numbers(s, x), own = fe_binary(s, EXPR_OP_EQ, rows, fe_column_numbers(s, x));
    return fe_where3(s, fe_op2(s, OP_and, own, fe_binary(s, EXPR_OP_LT, rows, fe_int((double)k))), fe_float(1), x);
}

struct fe_val fe_reflections_columns(struct fe_site *s, const struct fe_reflections *all, int64_t n)
{
    struct fe_val x = {0};
    for (uint32_t i = all->count; i-- && !x.bad;) {
        struct fe_val u = all->of[i];
        struct ir_type t = fe_type_at(s, &u);
        int64_t k = t.dim[2];
        if (i + 1 < all->count) x = behind_identity(s, x, k);
        else {
            int64_t before = fe_type_at(s, &all->of[0]).dim[1] - t.dim[1];
            t.dim[2] = n - before;
            x = fe_full(s, t, 0);
            x = x.bad ? x
                      : fe_where3(s, fe_binary(s, EXPR_OP_EQ, fe_row_numbers(s, x), fe_column_numbers(s, x)),
                                  fe_float(1), x);
        }
        x = turned_by(s, u, all->factor[i], x);
    }
    return x;
}

/* The reflections of the k columns of x; *left: what they make of these. */
static struct fe_val panel(struct fe_site *s, struct fe_val x, int64_t k, struct fe_val *left)
{
    struct fe_val after[2], diagonal;
    struct fe_loop l;
    fe_loop_open(&l, s, "reflect");
    struct fe_site *in = &l.in;
    struct fe_val us = fe_loop_carry(&l, fe_full(s, fe_type_at(s, &x), 0)), r = fe_loop_carry(&l, x);
    if (us.bad || r.bad) return fe_bad();
    struct fe_val u = fe_reflection(in, fe_piece(in, r, 2, l.number, 1), l.number, &diagonal);
    struct fe_val next[] = {fe_column_written(in, us, u, l.number),
                            fe_sub(in, r, fe_mul(in, u, fe_product(in, fe_turned(in, u), r)))};
    if (!fe_loop_close(&l, k, false, next, after)) return fe_bad();
    *left = after[1];
    return after[0];
}

bool fe_qr(struct fe_site *s, struct fe_val x, struct fe_reflections *all, struct fe_val *upper)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t n = t.dim[2], most = fe_panel_columns(n);
    uint32_t down = 1;
    struct fe_val size = fe_reduce(s, FE_RED_MAX, fe_op1(s, OP_abs, x), &down, 1,
                                   &(struct fe_reduce_options){.keepdims = true}),
                  rows[FE_PANELS];
    size = fe_where3(s, fe_binary(s, EXPR_OP_GT, size, fe_float(0)), size, fe_float(1));
    x = fe_div(s, x, size);
    *all = (struct fe_reflections){.count = 0};
    for (int64_t done = 0; done < n && !x.bad; done += most) {
        int64_t m = t.dim[1] - done, k = n - done < most ? n - done : most;
        struct fe_val left, u = panel(s, fe_slice_axis(s, x, 2, 0, k), k, &left);
        if (u.bad || !fe_reflections_add(s, all, u)) return false;
        struct fe_val rest = fe_slice_axis(s, x, 2, k, n - done);
        if (n - done > k) rest = turned_by(s, u, fe_turned(s, all->factor[all->count - 1]), rest);
        struct ir_type none = ir_type_of((enum ir_dtype)t.dtype, 3, (int64_t[]){t.dim[0], k, done});
        struct fe_val parts[] = {fe_full(s, none, 0), fe_slice_axis(s, left, 1, 0, k), fe_slice_axis(s, rest, 1, 0, k)};
        if (parts[0].bad || parts[1].bad || parts[2].bad) return false;
        rows[all->count - 1] = fe_join(s, parts, 3, 2);
        x = fe_slice_axis(s, rest, 1, k, m);
    }
    *upper = all->count > 1 ? fe_join(s, rows, all->count, 1) : rows[0];
    *upper = upper->bad ? *upper : fe_mul(s, FE_APPLY(s, "triu", *upper), size);
    return !upper->bad;
}
