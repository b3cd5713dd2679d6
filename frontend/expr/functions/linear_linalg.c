/* Linear algebra: solve, slogdet, cholesky by elimination. For a few rows it is unrolled, a step per row, and so has
 * the gradient of its steps; for more it is a loop, which is not differentiated: what it gives gets its first
 * derivatives from the inverse. Batches stand in front. */
#include "frontend/expr/functions/linear.h"
#include <math.h>

enum { LARGEST = 1024, FEW = 8 };

/* The square matrices of an argument; false: an error was recorded. */
static bool square(struct fe_call *c, struct fe_val *x, int64_t *n)
{
    *x = fe_inexact(c->site, ARG(0));
    if (x->bad) return false;
    struct ir_type t = fe_type_at(c->site, x);
    *n = t.rank < 2 ? 0 : t.dim[t.rank - 1];
    if (t.rank < 2 || t.dim[t.rank - 2] != *n || *n < 1)
        fe_fail(c->site, "E0212", "%s needs square matrices, found %s", c->function, fe_describe(c->site, x));
    else if (*n > LARGEST)
        fe_fail(c->site, "E0302", "%s of matrices of more than %d rows is not supported yet", c->function, LARGEST);
    else return true;
    return false;
}

struct elimination {
    struct fe_val pivot[FEW], swapped[FEW]; /* [.., 1, 1] */
};

/* Gauss and Jordan with row pivots: the first n columns of x become the identity. */
static struct fe_val eliminate(struct fe_site *s, struct fe_val x, int64_t n, struct elimination *e)
{
    uint32_t column = fe_rank(s, &x) - 1, row = column - 1;
    struct fe_reduce_options keep = {.keepdims = true};
    struct fe_val rows = fe_row_numbers(s, x);
    for (int64_t k = 0; k < n && !x.bad; k++) {
        struct fe_val is_k = fe_binary(s, EXPR_OP_EQ, rows, fe_int((double)k));
        struct fe_val size = fe_op1(s, OP_abs, fe_stop(s, fe_slice_axis(s, x, column, k, k + 1)));
        size = fe_where3(s, fe_binary(s, EXPR_OP_GE, rows, fe_int((double)k)), size, fe_float(-1));
        if (size.bad) return size;
        struct fe_val p = fe_expand(s, fe_val_tensor(ir_argreduce(s->b, OP_argmax, size.tensor, row)), row);
        struct fe_val hit = fe_binary(s, EXPR_OP_EQ, rows, p);
        struct fe_val chosen = fe_reduce(s, FE_RED_SUM, fe_where3(s, hit, x, fe_float(0)), &row, 1, &keep);
        x = fe_where3(s, is_k, chosen, fe_where3(s, hit, fe_slice_axis(s, x, row, k, k + 1), x));
        if (x.bad) return x;
        e->pivot[k] = fe_slice_axis(s, chosen, column, k, k + 1);
        e->swapped[k] = fe_binary(s, EXPR_OP_NE, p, fe_int((double)k));
        struct fe_val normal = fe_div(s, chosen, e->pivot[k]);
        struct fe_val factor = fe_where3(s, is_k, fe_float(0), fe_slice_axis(s, x, column, k, k + 1));
        x = fe_where3(s, is_k, normal, fe_sub(s, x, fe_mul(s, factor, normal)));
    }
    return x;
}

static struct fe_val identity(struct fe_site *s, const struct ir_type *t)
{
    struct fe_val x = fe_full(s, *t, 0);
    return fe_where3(s, fe_binary(s, EXPR_OP_EQ, fe_row_numbers(s, x), fe_column_numbers(s, x)), fe_float(1), x);
}

/* The gradient is that of what a change of either asks for: the same factors solve for it. */
static struct fe_val solved_by_blocks(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    struct fe_lu f;
    if (!fe_lu(s, fe_stop(s, a), &f)) return fe_bad();
    struct fe_val x = fe_lu_solve(s, &f, fe_stop(s, b));
    return fe_op2(s, OP_surrogate, x, fe_lu_solve(s, &f, fe_sub(s, b, fe_product(s, a, x))));
}

/* Of the lower triangle of a, or of its transpose; what is above is 0. */
static struct fe_val solved_by_triangle(struct fe_site *s, struct fe_val a, struct fe_val b, bool turned)
{
    struct fe_triangle *t = fe_triangle_of(s, fe_stop(s, a));
    struct fe_val (*solve)(struct fe_site *, const struct fe_triangle *,
                           struct fe_val) = turned ? fe_triangle_solve_turned : fe_triangle_solve;
    if (!t) return fe_bad();
    struct fe_val x = solve(s, t, fe_stop(s, b));
    return fe_op2(s, OP_surrogate, x, solve(s, t, fe_sub(s, b, fe_product(s, turned ? fe_turned(s, a) : a, x))));
}

struct fe_val make_solve(struct fe_call *c)
{ /* data 1: of lower triangular matrices, 2: and their transposes */
    SITE;
    struct fe_val a, b = fe_inexact(s, ARG(1));
    int64_t n;
    if (b.bad || !square(c, &a, &n)) return fe_bad();
    struct ir_type ta = fe_type_at(s, &a), tb = fe_type_at(s, &b);
    bool vector = tb.rank == 1;
    if (vector) b = fe_expand(s, b, 1), tb = fe_type_at(s, &b);
    if (tb.rank < 2 || tb.dim[tb.rank - 2] != n)
        return fe_fail(s, "E0210", "solve: %s and %s do not fit", fe_describe(s, &a), fe_describe(s, &b));
    struct ir_type rows_a = ta, rows_b = tb, all;
    rows_a.dim[ta.rank - 1] = rows_b.dim[tb.rank - 1] = 1;
    if (!fe_broadcast_shapes(&rows_a, &rows_b, &all))
        return fe_fail(s, "E0210", "solve: %s and %s do not fit", fe_describe(s, &a), fe_describe(s, &b));
    all.dim[all.rank - 1] = n;
    a = fe_broadcast_val(s, a, all.rank, all.dim);
    int64_t m = all.dim[all.rank - 1] = tb.dim[tb.rank - 1];
    struct fe_val both[] = {a, fe_broadcast_val(s, b, all.rank, all.dim)};
    if (both[0].bad || both[1].bad) return fe_bad();
    struct fe_val x;
    if (n > FEW) {
        x = c->data ? solved_by_triangle(s, both[0], both[1], c->data == 2) : solved_by_blocks(s, both[0], both[1]);
    } else {
        struct elimination *e = arena_new(s->fe->arena, struct elimination);
        if (c->data == 2) both[0] = fe_turned(s, both[0]);
        x = FE_APPLY(s, "concatenate", fe_tuple(s, both, 2), fe_int(-1));
        x = x.bad ? x : eliminate(s, x, n, e);
        x = x.bad ? x : fe_slice_axis(s, x, all.rank - 1u, n, n + m);
    }
    return x.bad || !vector ? x : fe_reshape_val(s, x, all.rank - 1u, all.dim);
}

/* Sign, logarithm of the absolute value, and the determinant itself (data 1: that alone). */
struct fe_val make_slogdet(struct fe_call *c)
{
    SITE;
    struct fe_val x, parts[3] = {fe_float(1), fe_float(0), fe_float(1)};
    int64_t n;
    if (!square(c, &x, &n)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    struct elimination *e = arena_new(s->fe->arena, struct elimination);
    if (n > FEW) {
        struct fe_lu f;
        if (!fe_lu(s, fe_stop(s, x), &f)) return fe_bad();
        struct fe_val inverse = fe_lu_solve(s, &f, identity(s, &t));
        uint32_t axes[] = {t.rank - 2u, t.rank - 1u}, last = t.rank - 2u;
        struct fe_reduce_options keep = {.keepdims = true};
        struct fe_val trace = fe_reduce(s, FE_RED_SUM, fe_mul(s, fe_turned(s, inverse), x), axes, 2, &keep);
        struct fe_val diagonal = fe_expand(s, f.diagonal, last);
        parts[0] = fe_mul(s, f.sign, fe_reduce_last(s, FE_RED_PROD, fe_op1(s, OP_sign, diagonal), true));
        parts[1] = fe_reduce_last(s, FE_RED_SUM, fe_op1(s, OP_log, fe_op1(s, OP_abs, diagonal)), true);
        struct fe_val whole = fe_mul(s, f.sign, fe_reduce_last(s, FE_RED_PROD, diagonal, true));
        parts[1] = fe_op2(s, OP_surrogate, parts[1], trace);
        parts[2] = fe_op2(s, OP_surrogate, whole, fe_mul(s, whole, trace));
    } else if (eliminate(s, x, n, e).bad) return fe_bad();
    for (int64_t k = 0; k < n && n <= FEW; k++) {
        struct fe_val turned = fe_where3(s, e->swapped[k], fe_op1(s, OP_neg, e->pivot[k]), e->pivot[k]);
        parts[0] = fe_mul(s, parts[0], fe_op1(s, OP_sign, turned));
        parts[1] = fe_add(s, parts[1], fe_op1(s, OP_log, fe_op1(s, OP_abs, turned)));
        parts[2] = fe_mul(s, parts[2], turned);
    }
    for (int i = 0; i < 3; i++) parts[i] = parts[i].bad ? parts[i] : fe_reshape_val(s, parts[i], t.rank - 2u, t.dim);
    static const char *const names[] = {"sign", "logabsdet"};
    return parts[0].bad || parts[1].bad || parts[2].bad ? fe_bad()
           : c->data                                    ? parts[2]
                                                        : fe_named_tuple(s, parts, 2, names);
}

/* The factor of a symmetric matrix by blocks; its change is that times the lower triangle, the diagonal halved, of what
 * x changes between the inverses. */
static struct fe_val cholesky_by_blocks(struct fe_site *s, struct fe_val symmetric, struct fe_val x)
{
    struct fe_val lower;
    struct fe_triangle *t = fe_cholesky_by_blocks(s, fe_stop(s, symmetric), &lower);
    if (!t) return fe_bad();
    lower = FE_APPLY(s, "tril", lower);
    struct fe_val inverse = fe_triangle_inverse(s, t),
                  inner = fe_product(s, fe_product(s, inverse, x), fe_turned(s, inverse));
    struct fe_val half = fe_where3(s, fe_binary(s, EXPR_OP_EQ, fe_row_numbers(s, x), fe_column_numbers(s, x)),
                                   fe_float(0.5), fe_float(1));
    inner = inner.bad ? inner : fe_mul(s, FE_APPLY(s, "tril", inner), half);
    return fe_op2(s, OP_surrogate, lower, fe_product(s, lower, inner));
}

/* The lower factor of (a + a') / 2, column by column; or that of the lower triangle, whose changes are as JAX has them:
 * of the whole matrix, as if it were symmetric. */
struct fe_val make_cholesky(struct fe_call *c)
{
    SITE;
    struct fe_val x, columns[FEW], lower;
    int64_t n;
    if (!square(c, &x, &n)) return fe_bad();
    struct fe_val turned = FE_APPLY(s, "swapaxes", x, fe_int(-1), fe_int(-2)), symmetric = x;
    bool of_both = fe_get_flag(c, 2), unrolled = of_both && n <= FEW;
    if (of_both) x = symmetric = fe_mul(s, fe_float(0.5), fe_add(s, x, turned));
    else symmetric = fe_where3(s, fe_binary(s, EXPR_OP_GE, fe_row_numbers(s, x), fe_column_numbers(s, x)), x, turned);
    uint32_t column = fe_rank(s, &x) - 1, row = column - 1;
    struct fe_val rows = fe_row_numbers(s, x);
    if (!unrolled) lower = symmetric.bad ? symmetric : cholesky_by_blocks(s, symmetric, x);
    for (int64_t k = 0; k < n && unrolled && !x.bad; k++) {
        struct fe_val part = fe_slice_axis(s, x, column, k, k + 1),
                      root = fe_op1(s, OP_sqrt, fe_slice_axis(s, part, row, k, k + 1));
        columns[k] = fe_where3(s, fe_binary(s, EXPR_OP_GE, rows, fe_int((double)k)), fe_div(s, part, root),
                               fe_float(0));
        if (columns[k].bad) return columns[k];
        x = fe_sub(s, x, fe_mul(s, columns[k], FE_APPLY(s, "swapaxes", columns[k], fe_int(-1), fe_int(-2))));
    }
    if (unrolled) lower = x.bad ? x : FE_APPLY(s, "concatenate", fe_tuple(s, columns, (uint32_t)n), fe_int(-1));
    if (lower.bad) return lower;
    /* of a matrix that is not positive definite, everything in the triangle is NaN */
    struct fe_val last = fe_slice_axis(s, fe_slice_axis(s, fe_stop(s, lower), row, n - 1, n), column, n - 1, n),
                  none = fe_binary(s, EXPR_OP_NE, last, last);
    lower = fe_where3(
        s, fe_op2(s, OP_and, none, fe_binary(s, EXPR_OP_LE, fe_column_numbers(s, lower), fe_row_numbers(s, lower))),
        fe_float((double)NAN), lower);
    return lower.bad || !fe_get_flag(c, 1) ? lower : FE_APPLY(s, "matrix_transpose", lower);
}
