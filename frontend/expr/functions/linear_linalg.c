/* Linear algebra: solve, slogdet, cholesky by elimination. For a few rows it is unrolled, a step per row, and so has
 * the gradient of its steps; for more it is a loop, which is not differentiated: what it gives gets its first
 * derivatives from the inverse. Batches stand in front. */
#include "frontend/expr/makers.h"
#include <math.h>

enum { LARGEST = 512, FEW = 8 };

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

/* The indices of the rows, as a column for each matrix. */
static struct fe_val row_numbers(struct fe_site *s, struct fe_val x)
{
    struct ir_type t = fe_type_at(s, &x);
    t.dtype = IR_I32, t.dim[t.rank - 1] = 1;
    return fe_iota(s, t, t.rank - 2u);
}

struct elimination {
    struct fe_val pivot[FEW], swapped[FEW]; /* [.., 1, 1] */
};

/* Gauss and Jordan with row pivots: the first n columns of x become the identity. */
static struct fe_val eliminate(struct fe_site *s, struct fe_val x, int64_t n, struct elimination *e)
{
    uint32_t column = fe_rank(s, &x) - 1, row = column - 1;
    struct fe_reduce_options keep = {.keepdims = true};
    struct fe_val rows = row_numbers(s, x);
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

static struct fe_val turn(struct fe_site *s, struct fe_val x) { return FE_APPLY(s, "matrix_transpose", x); }
static struct fe_val product(struct fe_site *s, struct fe_val x, struct fe_val y)
{
    return FE_APPLY(s, "matmul", x, y);
}

/* What changes of a value that is not differentiated: 0, with the gradient of x. */
static struct fe_val change(struct fe_site *s, struct fe_val x) { return fe_sub(s, x, fe_stop(s, x)); }

static struct fe_val column_numbers(struct fe_site *s, struct fe_val x)
{
    struct ir_type t = fe_type_at(s, &x);
    t.dtype = IR_I32, t.dim[t.rank - 2] = 1;
    return fe_iota(s, t, t.rank - 1u);
}

/* Column or row k of matrices, k being known in the loop. */
static struct fe_val picked(struct fe_site *s, struct fe_val x, struct fe_val is_k, uint32_t axis)
{
    return fe_reduce(s, FE_RED_SUM, fe_where3(s, is_k, x, fe_float(0)), &axis, 1,
                     &(struct fe_reduce_options){.keepdims = true});
}

/* The same as a loop: the inverse applied to what stands behind the first n columns, and the determinant's sign and
 * logarithm
 * [.., 1, 1]. */
static bool eliminate_in_loop(struct fe_site *s, struct fe_val x, int64_t n, struct fe_val after[3])
{
    struct ir_type t = fe_type_at(s, &x), one = t;
    uint32_t column = t.rank - 1u, row = column - 1;
    struct fe_loop l;
    fe_loop_open(&l, s, "eliminate");
    struct fe_site *in = &l.in;
    one.dim[row] = one.dim[column] = 1;
    struct fe_val a = fe_loop_carry(&l, x), sign = fe_loop_carry(&l, fe_full(s, one, 1)),
                  size = fe_loop_carry(&l, fe_full(s, one, 0));
    if (a.bad || sign.bad || size.bad) return false;
    struct fe_val rows = row_numbers(in, a), columns = column_numbers(in, a), k = l.number;
    struct fe_val is_k = fe_binary(in, EXPR_OP_EQ, rows, k),
                  of_k = picked(in, a, fe_binary(in, EXPR_OP_EQ, columns, k), column);
    struct fe_val height = fe_where3(in, fe_binary(in, EXPR_OP_GE, rows, k), fe_op1(in, OP_abs, of_k), fe_float(-1));
    if (height.bad) return false;
    struct fe_val p = fe_expand(in, fe_val_tensor(ir_argreduce(in->b, OP_argmax, height.tensor, row)), row),
                  hit = fe_binary(in, EXPR_OP_EQ, rows, p);
    struct fe_val chosen = picked(in, a, hit, row), old = picked(in, a, is_k, row), pivot = picked(in, of_k, hit, row);
    a = fe_where3(in, is_k, chosen, fe_where3(in, hit, old, a));
    struct fe_val normal = fe_div(in, chosen, pivot),
                  factor = fe_where3(in, is_k, fe_float(0),
                                     picked(in, a, fe_binary(in, EXPR_OP_EQ, columns, k), column));
    struct fe_val turned = fe_where3(in, fe_binary(in, EXPR_OP_NE, p, k), fe_op1(in, OP_neg, pivot), pivot);
    struct fe_val next[] = {fe_where3(in, is_k, normal, fe_sub(in, a, fe_mul(in, factor, normal))),
                            fe_mul(in, sign, fe_op1(in, OP_sign, turned)),
                            fe_add(in, size, fe_op1(in, OP_log, fe_op1(in, OP_abs, turned)))};
    if (!fe_loop_close(&l, n, false, next, after)) return false;
    after[0] = fe_slice_axis(s, after[0], column, n, t.dim[column]);
    return !after[0].bad;
}

/* x with the identity behind it, and what stands between. */
static struct fe_val beside_identity(struct fe_site *s, struct fe_val x, const struct fe_val *between)
{
    struct fe_val rows = row_numbers(s, x), parts[3] = {x};
    uint32_t n = 1;
    if (between) parts[n++] = *between;
    parts[n] = fe_cast(s, fe_binary(s, EXPR_OP_EQ, rows, column_numbers(s, x)), (enum ir_dtype)fe_type_at(s, &x).dtype);
    struct ir_type t = fe_type_at(s, &x);
    parts[n] = fe_broadcast_val(s, parts[n], t.rank, t.dim);
    struct fe_val all = fe_tuple(s, parts, n + 1);
    return all.bad ? all : FE_APPLY(s, "concatenate", all, fe_int(-1));
}

static struct fe_val solved_in_loop(struct fe_site *s, struct fe_val a, struct fe_val b, int64_t n, int64_t m)
{
    struct fe_val known = fe_stop(s, b), both = beside_identity(s, fe_stop(s, a), &known), after[3];
    if (both.bad || !eliminate_in_loop(s, both, n, after)) return fe_bad();
    uint32_t column = fe_rank(s, &a) - 1;
    struct fe_val x = fe_slice_axis(s, after[0], column, 0, m), inverse = fe_slice_axis(s, after[0], column, m, m + n);
    return fe_add(s, x, product(s, inverse, fe_sub(s, change(s, b), product(s, change(s, a), x))));
}

struct fe_val make_solve(struct fe_call *c)
{
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
    if (n > FEW) x = solved_in_loop(s, both[0], both[1], n, m);
    else {
        struct elimination *e = arena_new(s->fe->arena, struct elimination);
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
        struct fe_val after[3], both = beside_identity(s, fe_stop(s, x), NULL);
        if (both.bad || !eliminate_in_loop(s, both, n, after)) return fe_bad();
        uint32_t axes[] = {t.rank - 2u, t.rank - 1u};
        struct fe_val trace = fe_reduce(s, FE_RED_SUM, fe_mul(s, turn(s, after[0]), change(s, x)), axes, 2,
                                        &(struct fe_reduce_options){.keepdims = true});
        struct fe_val whole = fe_mul(s, after[1], fe_op1(s, OP_exp, after[2]));
        parts[0] = after[1], parts[1] = fe_add(s, after[2], trace),
        parts[2] = fe_add(s, whole, fe_mul(s, whole, trace));
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

/* The factor by a loop; its change is that times the lower triangle, the diagonal halved, of what the matrix changes
 * between the inverses. */
static struct fe_val cholesky_in_loop(struct fe_site *s, struct fe_val x, int64_t n)
{
    uint32_t column = fe_rank(s, &x) - 1, row = column - 1;
    struct fe_loop l;
    struct fe_val after[3], inverse[3], zero = fe_float(0);
    fe_loop_open(&l, s, "cholesky");
    struct fe_site *in = &l.in;
    struct fe_val a = fe_loop_carry(&l, x), lower = fe_loop_carry(&l, fe_full(s, fe_type_at(s, &x), 0));
    if (a.bad || lower.bad) return fe_bad();
    struct fe_val rows = row_numbers(in, a), is_k = fe_binary(in, EXPR_OP_EQ, column_numbers(in, a), l.number),
                  part = picked(in, a, is_k, column);
    struct fe_val root = fe_op1(in, OP_sqrt, picked(in, part, fe_binary(in, EXPR_OP_EQ, rows, l.number), row));
    struct fe_val fresh = fe_where3(in, fe_binary(in, EXPR_OP_GE, rows, l.number), fe_div(in, part, root), zero);
    struct fe_val next[] = {fe_sub(in, a, fe_mul(in, fresh, turn(in, fresh))), fe_where3(in, is_k, fresh, lower)};
    if (!fe_loop_close(&l, n, false, next, after)) return fe_bad();
    struct fe_val both = beside_identity(s, after[1], NULL);
    if (both.bad || !eliminate_in_loop(s, both, n, inverse)) return fe_bad();
    struct fe_val inner = product(s, product(s, inverse[0], change(s, x)), turn(s, inverse[0]));
    struct fe_val half = fe_where3(s, fe_binary(s, EXPR_OP_EQ, row_numbers(s, x), column_numbers(s, x)), fe_float(0.5),
                                   fe_float(1));
    inner = inner.bad ? inner : fe_mul(s, FE_APPLY(s, "tril", inner), half);
    return fe_add(s, after[1], product(s, after[1], inner));
}

/* The lower factor of (a + a') / 2, column by column. */
struct fe_val make_cholesky(struct fe_call *c)
{
    SITE;
    struct fe_val x, columns[FEW], lower;
    int64_t n;
    if (!square(c, &x, &n)) return fe_bad();
    struct fe_val turned = FE_APPLY(s, "swapaxes", x, fe_int(-1), fe_int(-2));
    x = fe_mul(s, fe_float(0.5), fe_add(s, x, turned));
    uint32_t column = fe_rank(s, &x) - 1, row = column - 1;
    struct fe_val rows = row_numbers(s, x);
    if (n > FEW) lower = x.bad ? x : cholesky_in_loop(s, x, n);
    for (int64_t k = 0; k < n && n <= FEW && !x.bad; k++) {
        struct fe_val part = fe_slice_axis(s, x, column, k, k + 1),
                      root = fe_op1(s, OP_sqrt, fe_slice_axis(s, part, row, k, k + 1));
        columns[k] = fe_where3(s, fe_binary(s, EXPR_OP_GE, rows, fe_int((double)k)), fe_div(s, part, root),
                               fe_float(0));
        if (columns[k].bad) return columns[k];
        x = fe_sub(s, x, fe_mul(s, columns[k], FE_APPLY(s, "swapaxes", columns[k], fe_int(-1), fe_int(-2))));
    }
    if (n <= FEW) lower = x.bad ? x : FE_APPLY(s, "concatenate", fe_tuple(s, columns, (uint32_t)n), fe_int(-1));
    if (lower.bad) return lower;
    /* of a matrix that is not positive definite, everything in the triangle is NaN */
    struct fe_val last = fe_slice_axis(s, fe_slice_axis(s, fe_stop(s, lower), row, n - 1, n), column, n - 1, n),
                  none = fe_binary(s, EXPR_OP_NE, last, last);
    lower = fe_where3(
        s, fe_op2(s, OP_and, none, fe_binary(s, EXPR_OP_LE, column_numbers(s, lower), row_numbers(s, lower))),
        fe_float((double)NAN), lower);
    return lower.bad || !fe_get_flag(c, 1) ? lower : FE_APPLY(s, "matrix_transpose", lower);
}
