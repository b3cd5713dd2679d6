/* Singular vectors of square matrices [batch, n, n] of float32. Reflections from both sides make them bidiagonal, a
 * panel at a time (Dongarra, Hammarling, Sorensen 1989); its numbers, in turns beside a diagonal of zeros, are a
 * symmetric matrix whose positive eigenvalues are the singular values, and whose eigenvectors hold those of both sides
 * in turns (Golub, Kahan 1965). These are made orthogonal again, the largest first: that moves vectors of small values
 * alone, by no more than what an error of the matrix's last place would. */
#include "frontend/expr/functions/linear.h"
#include <math.h>

struct bidiagonal {
    struct fe_val numbers[FE_PANELS]; /* [batch, k, 2]: on the diagonal and behind it */
    struct fe_reflections left, right;
};

/* x less the products of columns with rows y' of the same panel. */
static struct fe_val less(struct fe_site *s, struct fe_val x, struct fe_val columns, struct fe_val y)
{
    return fe_sub(s, x, fe_product(s, columns, y));
}

static struct fe_val row_of(struct fe_site *s, struct fe_val x, struct fe_val i)
{
    return fe_turned(s, fe_piece(s, x, 1, i, 1));
}

/* The first k rows and columns of x [batch, n, n]; what is left of the others. */
static struct fe_val panel_of(struct fe_site *s, struct fe_val x, int64_t k, struct bidiagonal *out)
{
    struct ir_type panel = fe_type_at(s, &x), two = panel;
    int64_t n = panel.dim[1];
    struct fe_val of[4], after[5], d, e;
    struct fe_loop l;
    fe_loop_open(&l, s, "bidiagonal");
    struct fe_site *in = &l.in;
    panel.dim[2] = k, two.dim[1] = k, two.dim[2] = 2;
    for (int i = 0; i < 4; i++) {
        of[i] = fe_loop_carry(&l, fe_full(s, panel, 0));
        if (of[i].bad) return of[i];
    }
    struct fe_val numbers = fe_loop_carry(&l, fe_full(s, two, 0)), a = fe_loop_see(&l, x);
    if (numbers.bad || a.bad) return fe_bad();
    /* x - us ys' - xs vs' is what the reflections so far make of it */
    struct fe_val us = of[0], ys = of[1], xs = of[2], vs = of[3], i = l.number, one = fe_int(1);
    struct fe_val column = less(in, less(in, fe_piece(in, a, 2, i, 1), us, row_of(in, ys, i)), xs, row_of(in, vs, i));
    struct fe_val u = fe_reflection(in, column, i, &d);
    struct fe_val y = fe_product(in, fe_turned(in, a), u);
    y = less(in, y, ys, fe_product(in, fe_turned(in, us), u)),
    y = less(in, y, vs, fe_product(in, fe_turned(in, xs), u));
    struct fe_val row = less(in, less(in, row_of(in, a, i), ys, row_of(in, us, i)), vs, row_of(in, xs, i));
    row = fe_sub(in, row, fe_mul(in, y, fe_piece(in, u, 1, i, 1)));
    struct fe_val v = fe_reflection(in, row, fe_add(in, i, one), &e), v_turned = fe_turned(in, v);
    struct fe_val w = fe_product(in, a, v);
    w = less(in, w, us, fe_product(in, fe_turned(in, ys), v)),
    w = less(in, w, xs, fe_product(in, fe_turned(in, vs), v));
    w = fe_sub(in, w, fe_mul(in, u, fe_product(in, v_turned, y)));
    struct fe_val both[] = {d, e}, here = fe_binary(in, EXPR_OP_EQ, fe_row_numbers(in, numbers), i);
    if (d.bad || e.bad) return fe_bad();
    struct fe_val next[] = {fe_column_written(in, us, u, i), fe_column_written(in, ys, y, i),
                            fe_column_written(in, xs, w, i), fe_column_written(in, vs, v, i),
                            fe_where3(in, here, fe_join(in, both, 2, 2), numbers)};
    if (!fe_loop_close(&l, k, false, next, after)) return fe_bad();
    out->numbers[out->left.count] = after[4];
    if (!fe_reflections_add(s, &out->left, after[0]) || !fe_reflections_add(s, &out->right, after[3])) return fe_bad();
    if (k == n) return x;
    struct fe_val low[4];
    for (int j = 0; j < 4; j++) {
        low[j] = fe_slice_axis(s, after[j], 1, k, n);
        if (low[j].bad) return fe_bad();
    }
    struct fe_val columns[] = {low[0], low[2]}, rows[] = {low[1], low[3]};
    return less(s, fe_block(s, x, k, k, n - k, n - k), fe_join(s, columns, 2, 2), fe_turned(s, fe_join(s, rows, 2, 2)));
}

/* Orthonormal columns that are those of x as far as these are. */
static struct fe_val orthonormal(struct fe_site *s, struct fe_val x)
{
    struct fe_reflections *all = arena_new(s->fe->arena, struct fe_reflections);
    struct fe_val upper;
    if (x.bad || !fe_qr(s, x, all, &upper)) return fe_bad();
    struct fe_val d = FE_APPLY(s, "diagonal", upper, fe_int(0), fe_int(1), fe_int(2));
    struct fe_val sign = fe_where3(s, fe_binary(s, EXPR_OP_LT, d, fe_float(0)), fe_float(-1), fe_float(1));
    return fe_mul(s, fe_reflections_columns(s, all, fe_type_at(s, &x).dim[2]), fe_expand(s, sign, 1));
}

bool fe_singular_vectors(struct fe_site *s, struct fe_val x, struct fe_val *u, struct fe_val *values, struct fe_val *v)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t batch = t.dim[0], n = t.dim[1], most = fe_panel_columns(n);
    struct fe_val size = fe_magnitude(s, x);
    x = fe_div(s, x, size);
    struct bidiagonal *b = arena_new(s->fe->arena, struct bidiagonal);
    *b = (struct bidiagonal){.left.count = 0};
    for (int64_t m = n; m > 0 && !x.bad; m -= most) x = panel_of(s, x, m < most ? m : most, b);
    if (x.bad) return false;
    struct fe_val e = b->left.count > 1 ? fe_join(s, b->numbers, b->left.count, 1) : b->numbers[0], rows;
    e = e.bad ? e : fe_reshape_val(s, e, 2, (int64_t[]){batch, 2 * n});
    struct fe_val d = fe_full(s, ir_type_of(IR_F32, 2, (int64_t[]){batch, 2 * n}), 0);
    if (e.bad || d.bad || !fe_tridiagonal(s, d, e, n, values, &rows)) return false;
    struct fe_val down = fe_int(1);
    *values = fe_op2(s, OP_max, FE_APPLY(s, "flip", *values, down), fe_float(0));
    *values = fe_mul(s, *values, fe_reshape_val(s, size, 2, (int64_t[]){batch, 1}));
    rows = rows.bad ? rows : fe_reshape_val(s, FE_APPLY(s, "flip", rows, down), 4, (int64_t[]){batch, n, n, 2});
    struct fe_val side[2];
    for (int i = 0; i < 2; i++) {
        struct fe_val part = rows.bad ? rows : fe_slice_axis(s, rows, 3, i, i + 1);
        part = part.bad ? part : fe_reshape_val(s, part, 3, (int64_t[]){batch, n, n});
        side[i] = orthonormal(s, fe_turned(s, part));
    }
    *v = fe_reflected(s, &b->right, side[0]), *u = fe_reflected(s, &b->left, side[1]);
    return !values->bad && !u->bad && !v->bad;
}
