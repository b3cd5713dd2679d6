/* Incomplete gamma and beta functions, exponential integrals, the modified Bessel function of order 1: series and
 * continued fractions (Cephes; Lentz), whose terms are added in a loop until no element changes. The loop is not
 * differentiated: its value gets the known derivatives. */
#include "frontend/expr/makers.h"
#include <math.h>

enum { MOST_TERMS = 2000 };
static const double epsilon = 0x1p-24;

/* value + slope * (x - x0) at x0 = x: the value with this derivative. */
static struct fe_val with_slope(struct fe_site *s, struct fe_val value, struct fe_val x, struct fe_val slope)
{
    struct fe_val still = fe_stop(s, x), known = fe_stop(s, slope), zero = fe_float(0),
                  fine = fe_op1(s, OP_is_finite, known), moved = fe_sub(s, x, still);
    struct fe_val infinite = fe_binary(s, EXPR_OP_EQ, fe_op1(s, OP_abs, known), fe_float((double)INFINITY)),
                  there = fe_op1(s, OP_is_finite, still);
    struct fe_val part = fe_mul(s, fe_where3(s, fine, slope, zero), fe_where3(s, there, moved, zero));
    /* an infinite one is that of the square root at 0 */
    struct fe_val steep = fe_mul(s, fe_op1(s, OP_sign, known),
                                 fe_op1(s, OP_sqrt, fe_where3(s, infinite, moved, fe_float(1))));
    return fe_add(s, value, fe_add(s, part, fe_where3(s, infinite, steep, zero)));
}

/* Arguments of a common float type and shape, in float32 at least; false: an error was recorded. */
static bool common(struct fe_call *c, struct fe_val *v, uint32_t n, enum ir_dtype *result)
{
    SITE;
    struct fe_val all = fe_float(0);
    for (uint32_t i = 0; i < n; i++) {
        v[i] = fe_inexact(s, ARG(i));
        all = i ? fe_add(s, all, v[i]) : v[i];
    }
    if (all.bad) return false;
    struct ir_type t = fe_type_at(s, &all);
    *result = (enum ir_dtype)t.dtype;
    for (uint32_t i = 0; i < n; i++) {
        v[i] = fe_broadcast_val(s, fe_cast(s, v[i], ir_dtype_bytes(*result) < 4 ? IR_F32 : *result), t.rank, t.dim);
        if (v[i].bad) return false;
    }
    return true;
}

static struct fe_val safe(struct fe_site *s, struct fe_val fine, struct fe_val x, double instead)
{
    return fe_where3(s, fine, x, fe_float(instead));
}
static struct fe_val is(struct fe_site *s, enum expr_operator op, struct fe_val x, double y)
{
    return fe_binary(s, op, x, fe_float(y));
}
static struct fe_val both(struct fe_site *s, struct fe_val a, struct fe_val b) { return fe_op2(s, OP_and, a, b); }
static struct fe_val go(struct fe_site *s) { return fe_full(s, ir_type_scalar(IR_BOOL), 1); }
static struct fe_val like(struct fe_site *s, struct fe_val x, double v) { return fe_full(s, fe_type_at(s, &x), v); }
static struct fe_val everywhere(struct fe_site *s, struct fe_val x)
{ /* elements that still change; what is found is kept, as further rounding would spoil it */
    struct ir_type t = fe_type_at(s, &x);
    t.dtype = IR_BOOL;
    return fe_full(s, t, 1);
}
static struct fe_val exp_of(struct fe_site *s, struct fe_val x) { return fe_op1(s, OP_exp, x); }
static struct fe_val log_of(struct fe_site *s, struct fe_val x) { return fe_op1(s, OP_log, x); }

/* ---------------------------------------------------------------- incomplete gamma */

/* Sum of x**n / ((a + 1) .. (a + n)), and its derivative by a. */
static bool gamma_series(struct fe_site *s, struct fe_val a, struct fe_val x, struct fe_val *sum, struct fe_val *slope)
{
    struct fe_loop l;
    struct fe_val after[5];
    fe_loop_open(&l, s, "gamma_series");
    struct fe_site *in = &l.in;
    (void)fe_loop_carry(&l, go(s));
    struct fe_val term = fe_loop_carry(&l, like(s, x, 1)), total = fe_loop_carry(&l, like(s, x, 1)),
                  d = fe_loop_carry(&l, like(s, x, 0)), all = fe_loop_carry(&l, like(s, x, 0));
    a = fe_loop_see(&l, a), x = fe_loop_see(&l, x);
    if (term.bad || total.bad || d.bad || all.bad || a.bad || x.bad) return false;
    struct fe_val below = fe_add(
        in, a, fe_add(in, fe_cast(in, l.number, (enum ir_dtype)fe_type_at(in, &a).dtype), fe_float(1)));
    struct fe_val ratio = fe_div(in, x, below), next_d = fe_mul(in, fe_sub(in, d, fe_div(in, term, below)), ratio);
    struct fe_val next_term = fe_mul(in, term, ratio), next_total = fe_add(in, total, next_term),
                  next_all = fe_add(in, all, next_d);
    struct fe_val moves = fe_op2(in, OP_or,
                                 fe_binary(in, EXPR_OP_GT, next_term, fe_mul(in, next_total, fe_float(epsilon))),
                                 fe_binary(in, EXPR_OP_GT, fe_op1(in, OP_abs, next_d),
                                           fe_mul(in, fe_op1(in, OP_abs, next_all), fe_float(epsilon))));
    struct fe_val next[] = {fe_reduce_all(in, FE_RED_ANY, moves), next_term, next_total, next_d, next_all};
    if (!fe_loop_close(&l, MOST_TERMS, true, next, after)) return false;
    *sum = after[2], *slope = after[4];
    return true;
}

/* The continued fraction of the upper function, and its derivative by a. */
static bool gamma_fraction(struct fe_site *s, struct fe_val a, struct fe_val x, struct fe_val *value,
                           struct fe_val *slope)
{
    enum { GO, ACTIVE, P2, Q2, P1, Q1, DP2, DQ2, DP1, DQ1, ANS, DANS, COUNT };
    struct fe_loop l;
    struct fe_val v[COUNT], next[COUNT], after[COUNT], one = fe_float(1);
    struct fe_val z0 = fe_sub(s, fe_add(s, x, fe_float(2)), a), first[COUNT];
    first[GO] = go(s), first[ACTIVE] = everywhere(s, x), first[P2] = like(s, x, 1), first[Q2] = x,
    first[P1] = fe_add(s, x, one), first[Q1] = fe_mul(s, z0, x);
    first[DP2] = first[DQ2] = first[DP1] = like(s, x, 0), first[DQ1] = neg(s, x);
    first[ANS] = fe_div(s, first[P1], first[Q1]);
    first[DANS] = fe_div(s, neg(s, fe_mul(s, first[ANS], first[DQ1])), first[Q1]);
    fe_loop_open(&l, s, "gamma_fraction");
    struct fe_site *in = &l.in;
    for (int i = 0; i < COUNT; i++) {
        v[i] = fe_loop_carry(&l, first[i]);
        if (v[i].bad) return false;
    }
    a = fe_loop_see(&l, a), x = fe_loop_see(&l, x);
    struct fe_val k = fe_add(in, fe_cast(in, l.number, (enum ir_dtype)fe_type_at(in, &a).dtype), one);
    struct fe_val y = fe_add(in, fe_sub(in, one, a), k), z = fe_add(in, fe_add(in, x, y), fe_add(in, k, one)),
                  yc = fe_mul(in, y, k);
    struct fe_val p = fe_sub(in, fe_mul(in, v[P1], z), fe_mul(in, v[P2], yc)),
                  q = fe_sub(in, fe_mul(in, v[Q1], z), fe_mul(in, v[Q2], yc));
    struct fe_val dp = fe_add(in, fe_sub(in, fe_sub(in, fe_mul(in, v[DP1], z), v[P1]), fe_mul(in, v[DP2], yc)),
                              fe_mul(in, v[P2], k));
    struct fe_val dq = fe_add(in, fe_sub(in, fe_sub(in, fe_mul(in, v[DQ1], z), v[Q1]), fe_mul(in, v[DQ2], yc)),
                              fe_mul(in, v[Q2], k));
    struct fe_val fine = is(in, EXPR_OP_NE, q, 0), below = safe(in, fine, q, 1);
    fine = both(in, fine, v[ACTIVE]);
    next[ANS] = fe_where3(in, fine, fe_div(in, p, below), v[ANS]);
    next[DANS] = fe_where3(in, fine, fe_div(in, fe_sub(in, dp, fe_mul(in, next[ANS], dq)), below), v[DANS]);
    struct fe_val moved = fe_op1(in, OP_abs, fe_sub(in, next[ANS], v[ANS])),
                  turned = fe_op1(in, OP_abs, fe_sub(in, next[DANS], v[DANS]));
    struct fe_val more = fe_op2(
        in, OP_or, fe_binary(in, EXPR_OP_GT, moved, fe_mul(in, fe_op1(in, OP_abs, next[ANS]), fe_float(epsilon))),
        fe_binary(in, EXPR_OP_GT, turned, fe_mul(in, fe_op1(in, OP_abs, next[DANS]), fe_float(16 * epsilon))));
    next[ACTIVE] = both(in, v[ACTIVE], fe_op2(in, OP_or, more, fe_op1(in, OP_not, is(in, EXPR_OP_NE, q, 0))));
    next[GO] = fe_reduce_all(in, FE_RED_ANY, next[ACTIVE]);
    struct fe_val large = is(in, EXPR_OP_GT, fe_op1(in, OP_abs, p), 1 / epsilon),
                  scale = fe_where3(in, large, fe_float(epsilon), one);
    const struct fe_val fresh[] = {v[P1], v[Q1], p, q, v[DP1], v[DQ1], dp, dq};
    for (int i = P2; i <= DQ1; i++) next[i] = fe_mul(in, fresh[i - P2], scale);
    if (!fe_loop_close(&l, MOST_TERMS, true, next, after)) return false;
    *value = after[ANS], *slope = after[DANS];
    return true;
}

struct fe_val make_gammainc(struct fe_call *c)
{ /* data 1: the upper one, which is 1 less the lower one */
    SITE;
    struct fe_val v[2], series, series_slope, fraction, fraction_slope, one = fe_float(1), zero = fe_float(0);
    enum ir_dtype d;
    if (!common(c, v, 2, &d)) return fe_bad();
    struct fe_val a = fe_stop(s, v[0]), x = fe_stop(s, v[1]), nan = fe_float((double)NAN);
    struct fe_val fine = both(s, both(s, is(s, EXPR_OP_GT, a, 0), is(s, EXPR_OP_GT, x, 0)),
                              both(s, fe_op1(s, OP_is_finite, a), fe_op1(s, OP_is_finite, x)));
    struct fe_val sa = safe(s, fine, a, 1), sx = safe(s, fine, x, 1);
    struct fe_val by_series = fe_op2(s, OP_or, is(s, EXPR_OP_LE, sx, 1), fe_binary(s, EXPR_OP_LE, sx, sa));
    if (sa.bad || sx.bad || by_series.bad) return fe_bad();
    if (!gamma_series(s, safe(s, by_series, sa, 1), safe(s, by_series, sx, 1), &series, &series_slope)) return fe_bad();
    struct fe_val far_a = fe_where3(s, by_series, fe_float(1), sa), far_x = fe_where3(s, by_series, fe_float(2), sx);
    if (!gamma_fraction(s, far_a, far_x, &fraction, &fraction_slope)) return fe_bad();
    /* x**a exp(-x) / gamma(a), and / gamma(a + 1) before the series */
    struct fe_val log_x = log_of(s, sx),
                  log_front = fe_sub(s, fe_sub(s, fe_mul(s, sa, log_x), sx), FE_APPLY(s, "gammaln", sa)),
                  front = exp_of(s, log_front);
    struct fe_val digamma = FE_APPLY(s, "digamma", sa), drift = fe_sub(s, log_x, digamma);
    struct fe_val lower = fe_div(s, fe_mul(s, front, series), sa), upper = fe_mul(s, front, fraction);
    struct fe_val lower_slope = fe_add(s, fe_mul(s, lower, fe_sub(s, drift, fe_div(s, one, sa))),
                                       fe_div(s, fe_mul(s, front, series_slope), sa));
    struct fe_val upper_slope = fe_mul(s, front, fe_add(s, fraction_slope, fe_mul(s, fraction, drift)));
    struct fe_val y = c->data ? fe_where3(s, by_series, fe_sub(s, one, lower), upper)
                              : fe_where3(s, by_series, lower, fe_sub(s, one, upper));
    struct fe_val by_a = c->data ? fe_where3(s, by_series, neg(s, lower_slope), upper_slope)
                                 : fe_where3(s, by_series, lower_slope, neg(s, upper_slope));
    struct fe_val by_x = fe_div(s, front, sx);
    if (c->data) by_x = neg(s, by_x);
    /* the ends: nothing below 0, everything below infinity */
    struct fe_val none = c->data ? one : zero, whole = c->data ? zero : one,
                  endless = is(s, EXPR_OP_EQ, x, (double)INFINITY);
    struct fe_val edge = fe_where3(s, endless, fe_where3(s, is(s, EXPR_OP_EQ, a, (double)INFINITY), nan, whole),
                                   fe_where3(s, is(s, EXPR_OP_EQ, x, 0), none, nan));
    edge = fe_where3(s, both(s, is(s, EXPR_OP_EQ, a, (double)INFINITY), fe_op1(s, OP_is_finite, x)), none, edge);
    edge = fe_where3(s, both(s, is(s, EXPR_OP_EQ, a, 0), is(s, EXPR_OP_GT, x, 0)), whole, edge);
    edge = fe_where3(s, fe_op2(s, OP_or, is(s, EXPR_OP_LT, a, 0), is(s, EXPR_OP_LT, x, 0)), nan, edge);
    edge = fe_where3(s, fe_op2(s, OP_or, fe_binary(s, EXPR_OP_NE, a, a), fe_binary(s, EXPR_OP_NE, x, x)), nan, edge);
    y = fe_where3(s, fine, fe_stop(s, y), edge);
    y = with_slope(s, y, v[0], fe_stop(s, fe_where3(s, fine, by_a, zero)));
    y = with_slope(s, y, v[1], fe_stop(s, fe_where3(s, fine, by_x, zero)));
    return y.bad ? y : fe_cast(s, y, d);
}

/* ---------------------------------------------------------------- incomplete beta */

/* Lentz: the next value of 1 / (1 + numerator / (1 + ..)), where d and c are its parts. */
static struct fe_val kept_away(struct fe_site *s, struct fe_val x)
{
    return fe_where3(s, is(s, EXPR_OP_LT, fe_op1(s, OP_abs, x), 1e-30), fe_float(1e-30), x);
}

static bool beta_fraction(struct fe_site *s, struct fe_val a, struct fe_val b, struct fe_val x, struct fe_val *value)
{
    struct fe_loop l;
    struct fe_val after[5], one = fe_float(1);
    struct fe_val first = fe_div(
        s, one, kept_away(s, fe_sub(s, one, fe_div(s, fe_mul(s, fe_add(s, a, b), x), fe_add(s, a, one)))));
    fe_loop_open(&l, s, "beta_fraction");
    struct fe_site *in = &l.in;
    (void)fe_loop_carry(&l, go(s));
    struct fe_val cc = fe_loop_carry(&l, like(s, x, 1)), d = fe_loop_carry(&l, first), h = fe_loop_carry(&l, first),
                  active = fe_loop_carry(&l, everywhere(s, x));
    a = fe_loop_see(&l, a), b = fe_loop_see(&l, b), x = fe_loop_see(&l, x);
    if (cc.bad || d.bad || h.bad || active.bad || a.bad || b.bad || x.bad) return false;
    struct fe_val m = fe_add(in, fe_cast(in, l.number, (enum ir_dtype)fe_type_at(in, &a).dtype), one),
                  twice = fe_add(in, m, m), at = fe_add(in, a, twice);
    struct fe_val even = fe_div(in, fe_mul(in, fe_mul(in, m, fe_sub(in, b, m)), x),
                                fe_mul(in, fe_sub(in, at, one), at));
    struct fe_val odd = neg(in, fe_div(in, fe_mul(in, fe_mul(in, fe_add(in, a, m), fe_add(in, fe_add(in, a, b), m)), x),
                                       fe_mul(in, at, fe_add(in, at, one))));
    struct fe_val ratio = one;
    for (int i = 0; i < 2; i++) {
        struct fe_val term = i ? odd : even;
        d = fe_div(in, one, kept_away(in, fe_add(in, one, fe_mul(in, term, d))));
        cc = kept_away(in, fe_add(in, one, fe_div(in, term, cc)));
        ratio = fe_mul(in, d, cc);
        h = fe_where3(in, active, fe_mul(in, h, ratio), h);
    }
    active = both(in, active, is(in, EXPR_OP_GT, fe_op1(in, OP_abs, fe_sub(in, ratio, one)), 2 * epsilon));
    struct fe_val next[] = {fe_reduce_all(in, FE_RED_ANY, active), cc, d, h, active};
    if (!fe_loop_close(&l, 600, true, next, after)) return false;
    *value = after[3];
    return true;
}

/* By x alone it has a derivative, as in JAX. */
/* y, whose derivative by x is not known: to ask for it is an error, as in JAX. A loop of no rounds gives x and has
 * none. */
static struct fe_val without_slope(struct fe_site *s, struct fe_val y, struct fe_val x)
{
    struct fe_loop l;
    struct fe_val same;
    if (y.bad || x.kind != FE_VAL_TENSOR || ir_get(s->b->f, x.tensor)->op == OP_constant) return y;
    fe_loop_open(&l, s, "no_slope");
    l.unstopped = true;
    struct fe_val next = fe_loop_carry(&l, x);
    if (!fe_loop_close(&l, 0, false, &next, &same)) return fe_bad();
    struct fe_val none = fe_sub(s, same, fe_stop(s, same)), zero = fe_float(0);
    return fe_add(s, y, fe_where3(s, fe_op1(s, OP_is_finite, fe_stop(s, same)), none, zero));
}

struct fe_val make_betainc(struct fe_call *c)
{
    SITE;
    struct fe_val v[3], fraction, one = fe_float(1), zero = fe_float(0);
    enum ir_dtype dtype;
    if (!common(c, v, 3, &dtype)) return fe_bad();
    struct fe_val a = fe_stop(s, v[0]), b = fe_stop(s, v[1]), x = fe_stop(s, v[2]);
    struct fe_val inside = both(s, is(s, EXPR_OP_GT, x, 0), is(s, EXPR_OP_LT, x, 1)),
                  right = both(s, is(s, EXPR_OP_GT, a, 0), is(s, EXPR_OP_GT, b, 0));
    struct fe_val fine = both(s, inside,
                              both(s, right, both(s, fe_op1(s, OP_is_finite, a), fe_op1(s, OP_is_finite, b))));
    a = safe(s, fine, a, 1), b = safe(s, fine, b, 1);
    struct fe_val sx = safe(s, fine, x, 0.5);
    /* the fraction converges fast below the mean; above it, 1 less the mirror image */
    struct fe_val mirror = fe_binary(s, EXPR_OP_GT, sx,
                                     fe_div(s, fe_add(s, a, one), fe_add(s, fe_add(s, a, b), fe_float(2))));
    struct fe_val p = fe_where3(s, mirror, b, a), q = fe_where3(s, mirror, a, b),
                  at = fe_where3(s, mirror, fe_sub(s, one, sx), sx);
    if (p.bad || q.bad || at.bad || !beta_fraction(s, p, q, at, &fraction)) return fe_bad();
    struct fe_val logs = fe_add(s, fe_mul(s, a, log_of(s, sx)), fe_mul(s, b, fe_op1(s, OP_log1p, neg(s, sx))));
    struct fe_val front = exp_of(s, fe_sub(s, logs, FE_APPLY(s, "betaln", a, b))),
                  part = fe_div(s, fe_mul(s, front, fraction), p);
    struct fe_val y = fe_where3(s, mirror, fe_sub(s, one, part), part);
    struct fe_val slope = fe_div(s, front, fe_mul(s, sx, fe_sub(s, one, sx)));
    struct fe_val edge = fe_where3(s, both(s, right, is(s, EXPR_OP_EQ, x, 0)), zero,
                                   fe_where3(s, both(s, right, is(s, EXPR_OP_EQ, x, 1)), one, fe_float((double)NAN)));
    y = with_slope(s, fe_where3(s, fine, fe_stop(s, y), edge), v[2], fe_stop(s, fe_where3(s, fine, slope, zero)));
    y = without_slope(s, without_slope(s, y, v[0]), v[1]);
    return y.bad ? y : fe_cast(s, y, dtype);
}

/* ---------------------------------------------------------------- exponential integrals */

static const double euler = 0.57721566490153286061;

/* The sum of x**k / (k k!), k = 1, 2, .. */
static bool integral_series(struct fe_site *s, struct fe_val x, struct fe_val *sum)
{
    struct fe_loop l;
    struct fe_val after[3];
    fe_loop_open(&l, s, "exponential_series");
    struct fe_site *in = &l.in;
    (void)fe_loop_carry(&l, go(s));
    struct fe_val power = fe_loop_carry(&l, like(s, x, 1)), total = fe_loop_carry(&l, like(s, x, 0));
    x = fe_loop_see(&l, x);
    if (power.bad || total.bad || x.bad) return false;
    struct fe_val k = fe_add(in, fe_cast(in, l.number, (enum ir_dtype)fe_type_at(in, &x).dtype), fe_float(1));
    struct fe_val next_power = fe_div(in, fe_mul(in, power, x), k), term = fe_div(in, next_power, k),
                  next_total = fe_add(in, total, term);
    struct fe_val moves = fe_binary(in, EXPR_OP_GT, fe_op1(in, OP_abs, term),
                                    fe_mul(in, fe_op1(in, OP_abs, next_total), fe_float(epsilon)));
    struct fe_val next[] = {fe_reduce_all(in, FE_RED_ANY, moves), next_power, next_total};
    if (!fe_loop_close(&l, 400, true, next, after)) return false;
    *sum = after[2];
    return true;
}

/* exp(x) E_n(x) by its continued fraction, for x of 1 and more. */
static bool integral_fraction(struct fe_site *s, struct fe_val n, struct fe_val x, struct fe_val *value)
{
    struct fe_loop l;
    struct fe_val after[6], one = fe_float(1), b0 = fe_add(s, x, n);
    fe_loop_open(&l, s, "exponential_fraction");
    struct fe_site *in = &l.in;
    (void)fe_loop_carry(&l, go(s));
    struct fe_val first = fe_div(s, one, b0);
    struct fe_val b = fe_loop_carry(&l, b0), cc = fe_loop_carry(&l, like(s, x, 1e30)), d = fe_loop_carry(&l, first),
                  h = fe_loop_carry(&l, first), active = fe_loop_carry(&l, everywhere(s, x));
    n = fe_loop_see(&l, n);
    if (b.bad || cc.bad || d.bad || h.bad || active.bad || n.bad) return false;
    struct fe_val k = fe_add(in, fe_cast(in, l.number, (enum ir_dtype)fe_type_at(in, &b).dtype), one);
    struct fe_val a = neg(in, fe_mul(in, k, fe_add(in, fe_sub(in, n, one), k)));
    b = fe_add(in, b, fe_float(2));
    d = fe_div(in, one, fe_add(in, fe_mul(in, a, d), b));
    cc = fe_add(in, b, fe_div(in, a, cc));
    struct fe_val ratio = fe_mul(in, cc, d);
    h = fe_where3(in, active, fe_mul(in, h, ratio), h);
    active = both(in, active, is(in, EXPR_OP_GT, fe_op1(in, OP_abs, fe_sub(in, ratio, one)), 2 * epsilon));
    struct fe_val next[] = {fe_reduce_all(in, FE_RED_ANY, active), b, cc, d, h, active};
    if (!fe_loop_close(&l, 400, true, next, after)) return false;
    *value = after[4];
    return true;
}

/* E_1 and, from it upwards or by the fraction, E_n for one whole n. */
static struct fe_val exponential(struct fe_site *s, int64_t n, struct fe_val x)
{
    struct fe_val sum, fraction, still = fe_stop(s, x);
    if (x.bad) return x;
    if (n == 0) return fe_div(s, exp_of(s, neg(s, x)), x);
    struct fe_val fine = both(s, is(s, EXPR_OP_GT, still, 0), is(s, EXPR_OP_LT, still, 1e4)),
                  sx = safe(s, fine, still, 1), small = is(s, EXPR_OP_LE, sx, 1);
    struct fe_val near = safe(s, small, sx, 1), far = fe_where3(s, small, fe_float(2), sx);
    if (near.bad || far.bad || !integral_series(s, neg(s, near), &sum) ||
        !integral_fraction(s, like(s, far, (double)n), far, &fraction))
        return fe_bad();
    struct fe_val e = neg(s, fe_add(s, fe_add(s, fe_float(euler), log_of(s, near)), sum)),
                  minus = exp_of(s, neg(s, near));
    for (int64_t k = 1; k < n; k++) e = fe_div(s, fe_sub(s, minus, fe_mul(s, near, e)), fe_float((double)k));
    struct fe_val y = fe_where3(s, small, e, fe_mul(s, exp_of(s, neg(s, far)), fraction));
    struct fe_val at_zero = fe_float(n > 1 ? 1 / (double)(n - 1) : (double)INFINITY);
    struct fe_val edge = fe_where3(s, is(s, EXPR_OP_EQ, still, 0), at_zero,
                                   fe_where3(s, is(s, EXPR_OP_GE, still, 1e4), fe_float(0), fe_float((double)NAN)));
    y = fe_where3(s, fine, fe_stop(s, y), edge);
    struct fe_val slope = neg(s, n == 1 ? fe_div(s, exp_of(s, neg(s, still)), still)
                                        : fe_stop(s, exponential(s, n - 1, still)));
    return with_slope(s, y, x, slope);
}

struct fe_val make_expint(struct fe_call *c)
{ /* data 1: of the order that is the first argument */
    SITE;
    int64_t n = 1;
    if (c->data && !fe_get_int(c, 0, &n)) return fe_bad();
    if (n < 0 || n > 64) return fe_fail(s, "E0212", "%s: the order is a whole number from 0 to 64", c->function);
    struct fe_val x = fe_inexact(s, ARG(c->data));
    if (x.bad) return x;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    struct fe_val y = exponential(s, n, fe_cast(s, x, ir_dtype_bytes(d) < 4 ? IR_F32 : d));
    return y.bad ? y : fe_cast(s, y, d);
}

/* Ei(x): the series up to 40, beyond it 1 + 1/x + 2/x**2 + .. (of which no more terms than get smaller). */
struct fe_val make_expi(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), sum, one = fe_float(1);
    if (x.bad) return x;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    x = fe_cast(s, x, ir_dtype_bytes(d) < 4 ? IR_F32 : d);
    struct fe_val still = fe_stop(s, x), below = is(s, EXPR_OP_LT, still, 0), beyond = is(s, EXPR_OP_GT, still, 40);
    struct fe_val minus = neg(s, exponential(s, 1, safe(s, below, neg(s, still), 1)));
    struct fe_val middle = fe_where3(s, fe_op2(s, OP_or, below, beyond), one, still), far = safe(s, beyond, still, 50),
                  tail = one;
    middle = fe_where3(s, is(s, EXPR_OP_EQ, middle, 0), one, middle);
    if (middle.bad || !integral_series(s, middle, &sum)) return fe_bad();
    for (int k = 20; k > 0; k--) tail = fe_add(s, one, fe_mul(s, tail, fe_div(s, fe_float(k), far)));
    struct fe_val plus = fe_add(s, fe_add(s, fe_float(euler), log_of(s, middle)), sum),
                  large = fe_mul(s, fe_div(s, exp_of(s, far), far), tail);
    struct fe_val y = fe_where3(s, below, minus, fe_where3(s, beyond, large, plus));
    y = fe_where3(s, is(s, EXPR_OP_EQ, still, 0), fe_float(-(double)INFINITY),
                  fe_where3(s, is(s, EXPR_OP_EQ, still, (double)INFINITY), fe_float((double)INFINITY), y));
    y = with_slope(s, fe_stop(s, fe_where3(s, fe_binary(s, EXPR_OP_NE, still, still), still, y)), x,
                   fe_div(s, exp_of(s, still), still));
    return y.bad ? y : fe_cast(s, y, d);
}
