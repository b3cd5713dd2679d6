/* Factorisations of matrices: qr by Householder's reflections, unrolled for a few columns; eigh; svd. What makes them
 * (linear_reflections.c, linear_symmetric.c, linear_singular.c) is not differentiated: the vectors, taken as given, are
 * multiplied with the matrix, and what comes out has the first derivatives of the factors (Giles 2008). Batches stand
 * in front. expm by Pade and squaring (Higham 2005), powers and chains of products. */
#include "frontend/expr/functions/linear.h"
#include <math.h>
#include <string.h>

enum { FEW = 8, MOST_COLUMNS = 64, MOST_ROWS = 1024 };

/* The argument as a batch of matrices [batch, m, n] of float32 or wider. */
static bool matrices(struct fe_call *c, bool square, struct fe_val *x, struct ir_type *given)
{
    SITE;
    *x = fe_inexact(s, ARG(0));
    if (x->bad) return false;
    *given = fe_type_at(s, x);
    uint32_t r = given->rank;
    if (r < 2 || (square && given->dim[r - 1] != given->dim[r - 2]) || given->dim[r - 1] < 1 || given->dim[r - 2] < 1)
        return (void)fe_fail(s, "E0212", "%s needs %s, found %s", c->function, square ? "square matrices" : "matrices",
                             fe_describe(s, x)),
               false;
    if (given->dim[r - 1] > MOST_ROWS && given->dim[r - 2] > MOST_ROWS)
        return (void)fe_fail(s, "E0302", "%s of matrices of more than %d rows and columns is not supported yet",
                             c->function, MOST_ROWS),
               false;
    int64_t batch = 1;
    for (uint32_t i = 0; i + 2 < r; i++) batch *= given->dim[i];
    *x = fe_reshape_val(s, *x, 3, (int64_t[]){batch, given->dim[r - 2], given->dim[r - 1]});
    return !x->bad;
}

/* Back to the batch that was given: the last `kept` dimensions stay. */
static struct fe_val unbatched(struct fe_site *s, struct fe_val x, const struct ir_type *given, uint32_t kept)
{
    if (x.bad) return x;
    struct ir_type t = fe_type_at(s, &x), out = *given;
    out.rank = (uint8_t)(given->rank - 2 + kept);
    for (uint32_t i = 0; i < kept; i++) out.dim[given->rank - 2u + i] = t.dim[t.rank - kept + i];
    return fe_reshape_val(s, x, out.rank, out.dim);
}

static struct fe_val identity(struct fe_site *s, const struct ir_type *t, int64_t n)
{
    struct ir_type whole = ir_type_of(IR_I32, 3, (int64_t[]){t->dim[0], n, n});
    return fe_cast(s, fe_binary(s, EXPR_OP_EQ, fe_iota(s, whole, 1), fe_iota(s, whole, 2)), (enum ir_dtype)t->dtype);
}

/* ---------------------------------------------------------------- qr */

/* r becomes triangular and q, if given, the product of the reflections: those of the first k columns of [batch, m, n].
 */
static struct fe_val reflect(struct fe_site *s, struct fe_val r, int64_t k, struct fe_val *q)
{
    struct ir_type t = fe_type_at(s, &r);
    int64_t m = t.dim[1];
    struct ir_type column = ir_type_of(IR_I32, 3, (int64_t[]){t.dim[0], m, 1});
    struct fe_val rows = fe_iota(s, column, 1), zero = fe_float(0), one = fe_float(1);
    uint32_t down = 1;
    struct fe_reduce_options keep = {.keepdims = true};
    for (int64_t j = 0; j < k && j + 1 < m && !r.bad; j++) {
        struct fe_val x = fe_slice_axis(s, r, 2, j, j + 1), alpha = fe_slice_axis(s, x, 1, j, j + 1);
        struct fe_val tail = fe_where3(s, fe_binary(s, EXPR_OP_GT, rows, fe_int((double)j)), x, zero);
        struct fe_val square = fe_reduce(s, FE_RED_SUM, fe_mul(s, tail, tail), &down, 1, &keep),
                      plain = fe_binary(s, EXPR_OP_EQ, square, zero);
        struct fe_val norm = fe_op1(s, OP_sqrt, fe_where3(s, plain, one, fe_add(s, square, fe_mul(s, alpha, alpha))));
        struct fe_val beta = fe_where3(s, fe_binary(s, EXPR_OP_LT, alpha, zero), norm, neg(s, norm)),
                      below = fe_sub(s, alpha, beta);
        struct fe_val tau = fe_where3(s, plain, zero, fe_div(s, neg(s, below), fe_where3(s, plain, one, beta)));
        struct fe_val v = fe_where3(s, fe_binary(s, EXPR_OP_EQ, rows, fe_int((double)j)), one,
                                    fe_div(s, tail, fe_where3(s, plain, one, below)));
        v = fe_where3(s, fe_binary(s, EXPR_OP_LT, rows, fe_int((double)j)), zero, v);
        struct fe_val scaled = fe_mul(s, tau, v);
        r = fe_sub(s, r, fe_mul(s, scaled, fe_reduce(s, FE_RED_SUM, fe_mul(s, v, r), &down, 1, &keep)));
        if (q) *q = fe_sub(s, *q, fe_product(s, fe_product(s, *q, scaled), fe_turned(s, v)));
    }
    return r;
}

/* q and r of matrices with no more columns than rows, with the derivatives of JAX. */
static bool qr_by_panels(struct fe_site *s, struct fe_val x, struct fe_val both[2])
{
    struct fe_reflections *all = arena_new(s->fe->arena, struct fe_reflections);
    struct fe_val r;
    if (!fe_qr(s, fe_stop(s, x), all, &r)) return false;
    struct fe_val q = fe_reflections_columns(s, all, fe_type_at(s, &x).dim[2]);
    struct fe_triangle *t = fe_triangle_of(s, fe_turned(s, r));
    if (q.bad || !t) return false;
    struct fe_val moved = fe_triangle_solve_behind(s, t, x), inner = fe_product(s, fe_turned(s, q), moved);
    struct fe_val low = inner.bad ? inner : FE_APPLY(s, "tril", inner, fe_int(-1)),
                  skew = low.bad ? low : fe_sub(s, low, fe_turned(s, low));
    both[0] = fe_op2(s, OP_surrogate, q, fe_add(s, fe_product(s, q, fe_sub(s, skew, inner)), moved));
    both[1] = fe_op2(s, OP_surrogate, r, fe_product(s, fe_sub(s, inner, skew), r));
    return !both[0].bad && !both[1].bad;
}

struct fe_val make_qr(struct fe_call *c)
{ /* the signs of LAPACK */
    SITE;
    struct fe_val x, both[2];
    struct ir_type given;
    const char *mode = ARG(1).kind == FE_VAL_STRING ? ARG(1).string : "";
    if (strcmp(mode, "reduced") && strcmp(mode, "complete") && strcmp(mode, "r"))
        return (void)fe_fail_at(s, &c->where[1], "E0310", "qr: the mode is 'reduced', 'complete' or 'r'"), fe_bad();
    if (!matrices(c, false, &x, &given)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    int64_t m = t.dim[1], n = t.dim[2], k = m < n ? m : n;
    bool tall = m >= n && strcmp(mode, "complete");
    if (k > MOST_COLUMNS && !tall)
        return fe_fail(s, "E0302", "qr of matrices of more than %d rows and columns is not supported yet",
                       MOST_COLUMNS);
    if (tall && k > FEW) {
        if (!qr_by_panels(s, x, both)) return fe_bad();
    } else {
        both[0] = identity(s, &t, m);
        both[1] = FE_APPLY(s, "triu", reflect(s, x, k, &both[0]));
    }
    if (both[0].bad || both[1].bad) return fe_bad();
    if (strcmp(mode, "complete"))
        both[0] = fe_slice_axis(s, both[0], 2, 0, k), both[1] = fe_slice_axis(s, both[1], 1, 0, k);
    for (int i = 0; i < 2; i++) both[i] = unbatched(s, both[i], &given, 2);
    static const char *const names[] = {"Q", "R"};
    return *mode == 'r' && !mode[1] ? both[1] : fe_named_tuple(s, both, 2, names);
}

/* ---------------------------------------------------------------- eigh */

/* 1 / (w_j - w_i), 0 where that is none. */
static struct fe_val gaps(struct fe_site *s, struct fe_val w)
{
    struct fe_val gap = fe_sub(s, fe_expand(s, w, 1), fe_expand(s, w, 2)),
                  none = fe_binary(s, EXPR_OP_EQ, gap, fe_float(0));
    return fe_where3(s, none, fe_float(0), fe_div(s, fe_float(1), fe_where3(s, none, fe_float(1), gap)));
}

static struct fe_val symmetric(struct fe_site *s, struct fe_val x)
{
    return fe_mul(s, fe_float(0.5), fe_add(s, x, fe_turned(s, x)));
}

struct fe_val make_eigh(struct fe_call *c)
{ /* data 1: the values alone */
    SITE;
    struct fe_val x, both[2];
    struct ir_type given;
    if (!matrices(c, true, &x, &given)) return fe_bad();
    x = symmetric(s, x);
    enum ir_dtype dtype = (enum ir_dtype)(x.bad ? 0 : fe_type_at(s, &x).dtype);
    struct fe_val values, columns, rows;
    if (x.bad || !fe_eigenvectors(s, fe_cast(s, fe_stop(s, x), IR_F32), &values, &columns)) return fe_bad();
    values = fe_cast(s, values, dtype), columns = fe_cast(s, columns, dtype), rows = fe_turned(s, columns);
    struct fe_val moved = fe_product(s, rows, x), mixed = fe_mul(s, gaps(s, values), fe_product(s, moved, columns));
    both[0] = fe_op2(s, OP_surrogate, values, fe_reduce_last(s, FE_RED_SUM, fe_mul(s, rows, moved), false));
    both[1] = unbatched(s, fe_op2(s, OP_surrogate, columns, fe_product(s, columns, mixed)), &given, 2);
    both[0] = unbatched(s, both[0], &given, 1);
    static const char *const names[] = {"eigenvalues", "eigenvectors"};
    return c->data ? both[0] : fe_named_tuple(s, both, 2, names);
}

/* ---------------------------------------------------------------- svd */

struct svd {
    struct fe_val u, s, v; /* [batch, m, n], [batch, n], [batch, n, n] for x [batch, m, n] with m >= n */
};

/* Of a tall matrix that is not differentiated; columns: of u. */
static bool tall_factors(struct fe_site *s, struct fe_val x, int64_t columns, struct svd *out)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t m = t.dim[1], n = t.dim[2];
    if (m == n) return fe_singular_vectors(s, x, &out->u, &out->s, &out->v);
    struct fe_reflections *all = arena_new(s->fe->arena, struct fe_reflections);
    struct fe_val r, u;
    if (!fe_qr(s, x, all, &r) || !fe_singular_vectors(s, r, &u, &out->s, &out->v)) return false;
    /* [u 0; 0 1] in the columns of the reflections */
    struct fe_val q = fe_reflections_columns(s, all, columns);
    struct fe_val parts[] = {fe_product(s, fe_slice_axis(s, q, 2, 0, n), u), fe_slice_axis(s, q, 2, n, columns)};
    if (parts[0].bad || parts[1].bad) return false;
    out->u = columns > n ? fe_join(s, parts, 2, 2) : parts[0];
    return !out->u.bad;
}

/* Of a tall matrix; vectors: with those, which are differentiable, too. */
static bool tall_svd(struct fe_site *s, struct fe_val x, bool vectors, bool full, struct svd *out)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t m = t.dim[1], n = t.dim[2];
    enum ir_dtype dtype = (enum ir_dtype)t.dtype;
    struct fe_val zero = fe_float(0), one = fe_float(1);
    if (!tall_factors(s, fe_cast(s, fe_stop(s, x), IR_F32), full ? m : n, out)) return false;
    struct fe_val all = fe_cast(s, out->u, dtype), u = fe_slice_axis(s, all, 2, 0, n), v = fe_cast(s, out->v, dtype),
                  values = fe_cast(s, out->s, dtype);
    struct fe_val moves = fe_product(s, x, v);
    out->s = fe_op2(s, OP_surrogate, values,
                    fe_reduce(s, FE_RED_SUM, fe_mul(s, u, moves), (uint32_t[]){1}, 1, &(struct fe_reduce_options){0}));
    if (!vectors) return !out->s.bad;
    struct fe_val wide = fe_expand(s, values, 1), tall = fe_expand(s, values, 2),
                  d = fe_product(s, fe_turned(s, u), moves), dt = fe_turned(s, d);
    struct fe_val tiny = fe_mul(s, fe_slice_axis(s, values, 1, 0, 1), fe_float(0x1p-23 * (double)n)),
                  there = fe_binary(s, EXPR_OP_GT, values, tiny);
    struct fe_val f = gaps(s, fe_mul(s, values, values)),
                  inverse = fe_where3(s, there, fe_div(s, one, fe_where3(s, there, values, one)), zero);
    struct fe_val of_u = fe_mul(s, f, fe_add(s, fe_mul(s, d, wide), fe_mul(s, tall, dt)));
    struct fe_val of_v = fe_mul(s, f, fe_add(s, fe_mul(s, tall, d), fe_mul(s, dt, wide)));
    struct fe_val moved = fe_product(s, u, of_u);
    if (m > n) { /* out of the space of u */
        struct fe_val beyond = fe_sub(s, moves, fe_product(s, u, d));
        moved = fe_add(s, moved, fe_mul(s, beyond, fe_expand(s, inverse, 1)));
    }
    struct fe_val parts[] = {fe_op2(s, OP_surrogate, u, moved), fe_slice_axis(s, all, 2, n, full ? m : n)};
    if (full && m > n) { /* what stays orthogonal to u; which vectors these are of their space has no derivative */
        struct fe_val into = fe_mul(s, fe_product(s, fe_turned(s, parts[1]), moves), fe_expand(s, inverse, 1));
        parts[1] = fe_op2(s, OP_surrogate, parts[1], neg(s, fe_product(s, u, fe_turned(s, into))));
    }
    out->v = fe_op2(s, OP_surrogate, v, fe_product(s, v, of_v));
    if (parts[0].bad || parts[1].bad || out->v.bad || out->s.bad) return false;
    out->u = full && m > n ? fe_join(s, parts, 2, 2) : parts[0];
    return !out->u.bad;
}

struct fe_val make_svd(struct fe_call *c)
{ /* data 1: the values alone */
    SITE;
    struct fe_val x;
    struct ir_type given;
    struct svd d = {0};
    bool full = !c->data && fe_get_flag(c, 1), vectors = !c->data && fe_get_flag(c, 2);
    if (!matrices(c, false, &x, &given)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    bool wide = t.dim[1] < t.dim[2];
    if (!tall_svd(s, wide ? fe_turned(s, x) : x, vectors, full, &d)) return fe_bad();
    struct fe_val values = unbatched(s, d.s, &given, 1);
    if (!vectors) return values;
    struct fe_val all[] = {unbatched(s, wide ? d.v : d.u, &given, 2), values,
                           unbatched(s, fe_turned(s, wide ? d.u : d.v), &given, 2)};
    static const char *const names[] = {"U", "S", "Vh"};
    return fe_named_tuple(s, all, 3, names);
}

/* ---------------------------------------------------------------- products */

/* The diagonal approximation of degree 7 to exp(x / 2**k), squared k times. */
struct fe_val make_expm(struct fe_call *c)
{
    static const double b[] = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
    enum { MOST = 16 };
    SITE;
    struct fe_val x;
    struct ir_type given;
    if (!matrices(c, true, &x, &given)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    uint32_t axes[] = {1, 2};
    struct fe_reduce_options keep = {.keepdims = true};
    struct fe_val norm = fe_reduce(
        s, FE_RED_MAX, fe_reduce(s, FE_RED_SUM, fe_op1(s, OP_abs, fe_stop(s, x)), axes, 1, &keep), axes, 2, &keep);
    struct fe_val ratio = fe_div(s, norm, fe_float(3.925724783138660)),
                  none = fe_binary(s, EXPR_OP_LE, ratio, fe_float(1));
    struct fe_val times = fe_op1(
        s, OP_floor, fe_div(s, fe_op1(s, OP_log, fe_where3(s, none, fe_float(1), ratio)), fe_float(log(2))));
    times = fe_where3(s, none, fe_float(0), fe_add(s, times, fe_float(1)));
    struct fe_val a = fe_mul(s, x, FE_APPLY(s, "exp2", fe_op1(s, OP_neg, times))), one = identity(s, &t, t.dim[1]);
    struct fe_val power[] = {one, fe_product(s, a, a), fe_none(), fe_none()}, odd = fe_float(0), even = fe_float(0);
    power[2] = fe_product(s, power[1], power[1]), power[3] = fe_product(s, power[2], power[1]);
    for (int i = 0; i < 4; i++) {
        odd = fe_add(s, odd, fe_mul(s, power[i], fe_float(b[2 * i + 1])));
        even = fe_add(s, even, fe_mul(s, power[i], fe_float(b[2 * i])));
    }
    struct fe_val u = fe_product(s, a, odd),
                  y = u.bad || even.bad ? fe_bad() : FE_APPLY(s, "solve", fe_sub(s, even, u), fe_add(s, even, u));
    for (int i = 0; i < MOST && !y.bad; i++)
        y = fe_where3(s, fe_binary(s, EXPR_OP_GT, times, fe_float(i)), fe_product(s, y, y), y);
    return unbatched(s, y, &given, 2);
}
