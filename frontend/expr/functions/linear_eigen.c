/* Factorisations of matrices: qr by Householder's reflections, a step per column, unrolled for a few; svd by Jacobi's
 * rotations, disjoint pairs of rows at once (the circle method of a tournament), in a loop; eigh by halves
 * (linear_symmetric.c). None of that is differentiated: the vectors, taken as given, are multiplied with the matrix,
 * and what comes out has the first derivatives of the factors (Giles 2008). Batches stand in front. expm by Pade and
 * squaring (Higham 2005), powers and chains of products. */
#include "frontend/expr/functions/linear.h"
#include <math.h>
#include <string.h>

enum { FEW = 8, MOST_COLUMNS = 64, MOST_ROWS = 1024, SWEEPS = 14 };

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

static struct fe_val take_places(struct fe_site *s, struct fe_val x, struct fe_val places, uint32_t dim)
{
    return x.bad || places.bad ? fe_bad() : fe_val_tensor(ir_take(s->b, x.tensor, places.tensor, dim));
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

/* The same in a loop, of which nothing is differentiated. */
static bool reflect_in_loop(struct fe_site *s, struct fe_val x, int64_t k, struct fe_val after[2])
{
    struct ir_type t = fe_type_at(s, &x);
    uint32_t down = 1, along = 2;
    struct fe_reduce_options keep = {.keepdims = true};
    struct fe_loop l;
    fe_loop_open(&l, s, "reflect");
    struct fe_site *in = &l.in;
    struct fe_val r = fe_loop_carry(&l, x), q = fe_loop_carry(&l, identity(s, &t, t.dim[1])), zero = fe_float(0),
                  one = fe_float(1);
    if (r.bad || q.bad) return false;
    struct fe_val rows = fe_iota(in, ir_type_of(IR_I32, 3, (int64_t[]){t.dim[0], t.dim[1], 1}), 1);
    struct fe_val columns = fe_iota(in, ir_type_of(IR_I32, 3, (int64_t[]){t.dim[0], 1, t.dim[2]}), 2),
                  here = fe_binary(in, EXPR_OP_EQ, rows, l.number);
    struct fe_val column = fe_reduce(
        in, FE_RED_SUM, fe_where3(in, fe_binary(in, EXPR_OP_EQ, columns, l.number), r, zero), &along, 1, &keep);
    struct fe_val alpha = fe_reduce(in, FE_RED_SUM, fe_where3(in, here, column, zero), &down, 1, &keep);
    struct fe_val tail = fe_where3(in, fe_binary(in, EXPR_OP_GT, rows, l.number), column, zero);
    struct fe_val square = fe_reduce(in, FE_RED_SUM, fe_mul(in, tail, tail), &down, 1, &keep),
                  plain = fe_binary(in, EXPR_OP_EQ, square, zero);
    struct fe_val norm = fe_op1(in, OP_sqrt, fe_add(in, square, fe_mul(in, alpha, alpha)));
    struct fe_val beta = fe_where3(in, fe_binary(in, EXPR_OP_LT, alpha, zero), norm, neg(in, norm)),
                  below = fe_sub(in, alpha, beta);
    struct fe_val tau = fe_where3(in, plain, zero, fe_div(in, neg(in, below), fe_where3(in, plain, one, beta)));
    struct fe_val v = fe_where3(in, here, one, fe_div(in, tail, fe_where3(in, plain, one, below))),
                  scaled = fe_mul(in, tau, v);
    struct fe_val next[] = {
        fe_sub(in, r, fe_mul(in, scaled, fe_reduce(in, FE_RED_SUM, fe_mul(in, v, r), &down, 1, &keep))),
        fe_sub(in, q, fe_product(in, fe_product(in, q, scaled), fe_turned(in, v)))};
    return fe_loop_close(&l, k, false, next, after);
}

/* q and r of matrices with no more columns than rows, with the derivatives of JAX. */
static bool qr_in_loop(struct fe_site *s, struct fe_val x, struct fe_val both[2])
{
    struct fe_val after[2];
    int64_t n = fe_type_at(s, &x).dim[2];
    if (!reflect_in_loop(s, fe_stop(s, x), n, after)) return false;
    struct fe_val q = fe_slice_axis(s, after[1], 2, 0, n), r = fe_slice_axis(s, after[0], 1, 0, n);
    r = r.bad ? r : FE_APPLY(s, "triu", r);
    struct fe_val inverse = r.bad ? r : FE_APPLY(s, "inv", r), moved = fe_product(s, fe_change(s, x), inverse),
                  inner = fe_product(s, fe_turned(s, q), moved);
    struct fe_val low = inner.bad ? inner : FE_APPLY(s, "tril", inner, fe_int(-1)),
                  skew = low.bad ? low : fe_sub(s, low, fe_turned(s, low));
    both[0] = fe_add(s, q, fe_add(s, fe_product(s, q, fe_sub(s, skew, inner)), moved));
    both[1] = fe_add(s, r, fe_product(s, fe_sub(s, inner, skew), r));
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
        if (!qr_in_loop(s, x, both)) return fe_bad();
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

/* ---------------------------------------------------------------- Jacobi */

/* Where each place of a round comes from: places i and i + pairs meet, the first stays, the others move on by one. */
static struct fe_val next_places(struct fe_site *s, int64_t players)
{
    int32_t *from = arena_new_array(s->fe->arena, int32_t, players);
    int64_t pairs = players / 2;
    for (int64_t i = 0; i < pairs; i++) {
        from[i] = (int32_t)(i == 0 ? 0 : i == 1 ? pairs : i - 1);
        from[pairs + i] = (int32_t)(pairs == 1 ? 1 : i + 1 < pairs ? pairs + i + 1 : i);
    }
    return fe_val_tensor(ir_constant(s->b, ir_type_of(IR_I32, 1, &players), from));
}

/* Cosine and sine that make two rows with these products orthogonal: [batch, pairs, 1]. */
static void rotation(struct fe_site *s, struct fe_val xx, struct fe_val yy, struct fe_val xy, struct fe_val *cosine,
                     struct fe_val *sine)
{
    struct fe_val zero = fe_float(0), one = fe_float(1), none = fe_binary(s, EXPR_OP_EQ, xy, zero);
    struct fe_val zeta = fe_div(s, fe_sub(s, yy, xx), fe_mul(s, fe_float(2), fe_where3(s, none, one, xy)));
    struct fe_val sign = fe_where3(s, fe_binary(s, EXPR_OP_LT, zeta, zero), fe_float(-1), one),
                  size = fe_op1(s, OP_abs, zeta);
    struct fe_val root = FE_APPLY(s, "hypot", one, size),
                  tangent = fe_where3(s, none, zero, fe_div(s, sign, fe_add(s, size, root)));
    *cosine = fe_op1(s, OP_rsqrt, fe_add(s, one, fe_mul(s, tangent, tangent)));
    *sine = fe_mul(s, *cosine, tangent);
}

/* The rows of x [batch, n, m]: the first half c x - s y, the second s x + c y. */
static struct fe_val rotated(struct fe_site *s, struct fe_val x, struct fe_val c, struct fe_val sn)
{
    int64_t n = x.bad ? 0 : fe_type_at(s, &x).dim[1];
    struct fe_val a = fe_slice_axis(s, x, 1, 0, n / 2), b = fe_slice_axis(s, x, 1, n / 2, n);
    struct fe_val both[] = {fe_sub(s, fe_mul(s, c, a), fe_mul(s, sn, b)), fe_add(s, fe_mul(s, sn, a), fe_mul(s, c, b))};
    if (both[0].bad || both[1].bad) return fe_bad();
    return FE_APPLY(s, "concatenate", fe_tuple(s, both, 2), fe_int(1));
}

static struct fe_val padded(struct fe_site *s, struct fe_val x, int64_t rows, int64_t columns)
{
    const int64_t none[3] = {0}, more[3] = {0, rows, columns};
    if (x.bad || (!rows && !columns)) return x;
    return fe_val_tensor(
        ir_pad(s->b, x.tensor, ir_scalar(s->b, (enum ir_dtype)fe_type_at(s, &x).dtype, 0), none, more, none));
}

/* Rotates the rows of x [batch, n, m] until they are orthogonal; *turns: what did that. */
static struct fe_val orthogonal_rows(struct fe_site *s, struct fe_val x, struct fe_val *turns)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t n = t.dim[1], odd = n % 2, wide = n + odd;
    struct fe_val after[2], cosine, sine;
    *turns = identity(s, &t, n);
    if (n == 1) return x;
    struct fe_loop l;
    fe_loop_open(&l, s, "jacobi_rows");
    struct fe_site *in = &l.in;
    struct fe_val a = fe_loop_carry(&l, padded(s, x, odd, 0)), v = fe_loop_carry(&l, identity(s, &t, wide)),
                  places = next_places(in, wide);
    if (a.bad || v.bad) return fe_bad();
    struct fe_val p = fe_slice_axis(in, a, 1, 0, wide / 2), q = fe_slice_axis(in, a, 1, wide / 2, wide);
    rotation(in, fe_reduce_last(in, FE_RED_SUM, fe_mul(in, p, p), true),
             fe_reduce_last(in, FE_RED_SUM, fe_mul(in, q, q), true),
             fe_reduce_last(in, FE_RED_SUM, fe_mul(in, p, q), true), &cosine, &sine);
    struct fe_val next[] = {take_places(in, rotated(in, a, cosine, sine), places, 1),
                            take_places(in, rotated(in, v, cosine, sine), places, 1)};
    if (!fe_loop_close(&l, SWEEPS * (wide - 1), false, next, after)) return fe_bad();
    *turns = fe_slice_axis(s, fe_slice_axis(s, after[1], 1, 0, n), 2, 0, n);
    return fe_slice_axis(s, after[0], 1, 0, n);
}

/* Rows [batch, n, m] in the order of indices [batch, n]. */
static struct fe_val ordered(struct fe_site *s, struct fe_val rows, struct fe_val order)
{
    return order.bad || rows.bad ? fe_bad() : FE_APPLY(s, "take_along_axis", rows, fe_expand(s, order, 2), fe_int(1));
}

static struct fe_val diagonal(struct fe_site *s, struct fe_val x)
{
    return FE_APPLY(s, "diagonal", x, fe_int(0), fe_int(1), fe_int(2));
}

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

/* Columns that are no unit vectors, and more columns, from the reflections of the others. */
static struct fe_val completed(struct fe_site *s, struct fe_val u, struct fe_val there, int64_t columns)
{
    struct ir_type t = fe_type_at(s, &u);
    int64_t m = t.dim[1], n = t.dim[2];
    struct fe_val after[2], q;
    if (!reflect_in_loop(s, u, n, after)) return fe_bad();
    q = after[1];
    struct fe_val parts[] = {fe_where3(s, fe_expand(s, there, 1), u, fe_slice_axis(s, q, 2, 0, n)),
                             fe_slice_axis(s, q, 2, n, m)};
    if (columns == n) return parts[0];
    return parts[0].bad || parts[1].bad ? fe_bad() : FE_APPLY(s, "concatenate", fe_tuple(s, parts, 2), fe_int(2));
}

/* Of a tall matrix; vectors: with those, which are differentiable, too. */
static bool tall_svd(struct fe_site *s, struct fe_val x, bool vectors, bool full, struct svd *out)
{
    struct fe_val turns, still = fe_stop(s, x), rows = orthogonal_rows(s, fe_turned(s, still), &turns),
                         zero = fe_float(0), one = fe_float(1);
    if (rows.bad || turns.bad) return false;
    struct ir_type t = fe_type_at(s, &x);
    int64_t m = t.dim[1], n = t.dim[2];
    struct fe_val length = fe_op1(s, OP_sqrt, fe_reduce_last(s, FE_RED_SUM, fe_mul(s, rows, rows), false));
    struct fe_val order = length.bad ? length : FE_APPLY(s, "argsort", neg(s, length));
    rows = ordered(s, rows, order), turns = ordered(s, turns, order);
    length = length.bad ? length : FE_APPLY(s, "take_along_axis", length, order, fe_int(-1));
    struct fe_val tiny = fe_mul(s, fe_slice_axis(s, length, 1, 0, 1), fe_float(0x1p-23 * (double)n)),
                  there = fe_binary(s, EXPR_OP_GT, length, tiny);
    struct fe_val unit = fe_turned(
        s, fe_div(s, rows, fe_expand(s, fe_where3(s, fe_binary(s, EXPR_OP_GT, length, zero), length, one), 2)));
    if (unit.bad || there.bad) return false;
    struct fe_val u = fe_stop(s, vectors ? completed(s, fe_where3(s, fe_expand(s, there, 1), unit, zero), there, n)
                                         : unit),
                  v = fe_stop(s, fe_turned(s, turns));
    struct fe_val inner = fe_product(s, fe_product(s, fe_turned(s, u), x), v), d = fe_change(s, inner);
    out->s = fe_add(s, fe_stop(s, length), diagonal(s, d));
    if (!vectors) return !out->s.bad;
    struct fe_val values = fe_stop(s, length), wide = fe_expand(s, values, 1), tall = fe_expand(s, values, 2),
                  dt = fe_turned(s, d);
    struct fe_val f = gaps(s, fe_mul(s, values, values)),
                  inverse = fe_where3(s, there, fe_div(s, one, fe_where3(s, there, values, one)), zero);
    struct fe_val of_u = fe_mul(s, f, fe_add(s, fe_mul(s, d, wide), fe_mul(s, tall, dt)));
    struct fe_val of_v = fe_mul(s, f, fe_add(s, fe_mul(s, tall, d), fe_mul(s, dt, wide)));
    struct fe_val moved = fe_product(s, u, of_u);
    if (m > n) { /* out of the space of u */
        struct fe_val beyond = fe_product(s, fe_change(s, x), v);
        beyond = fe_sub(s, beyond, fe_product(s, u, fe_product(s, fe_turned(s, u), beyond)));
        moved = fe_add(s, moved, fe_mul(s, beyond, fe_expand(s, inverse, 1)));
    }
    out->u = fe_add(s, u, moved);
    out->v = fe_add(s, v, fe_product(s, v, of_v));
    if (full && m > n) {
        struct fe_val all = completed(
            s, u, fe_full(s, (struct ir_type){.dtype = IR_BOOL, .rank = 2, .dim = {t.dim[0], n}}, 1), m);
        struct fe_val parts[] = {out->u, all.bad ? all : fe_slice_axis(s, all, 2, n, m)};
        out->u = parts[0].bad || parts[1].bad ? fe_bad() : FE_APPLY(s, "concatenate", fe_tuple(s, parts, 2), fe_int(2));
    }
    return !out->u.bad && !out->v.bad && !out->s.bad;
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
