/* What incomplete gamma and beta functions and exponential integrals (library/special.step) are made of: series and
 * continued fractions (Cephes; Lentz), whose terms are added in a loop until no element changes. The loop is not
 * differentiated: its value gets the known derivatives. */
#include "frontend/expr/makers.h"
#include <math.h>

enum { MOST_TERMS = 2000 };
static const double epsilon = 0x1p-24;

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
/* ---------------------------------------------------------------- incomplete gamma */

/* Sum of x**n / ((a + 1) .. (a + n)), and its derivative by a. */
struct fe_val make_gamma_series(struct fe_call *c)
{
    SITE;
    struct fe_val a = ARG(0), x = ARG(1);
    struct fe_loop l;
    struct fe_val after[5];
    fe_loop_open(&l, s, "gamma_series");
    struct fe_site *in = &l.in;
    (void)fe_loop_carry(&l, go(s));
    struct fe_val term = fe_loop_carry(&l, like(s, x, 1)), total = fe_loop_carry(&l, like(s, x, 1)),
                  d = fe_loop_carry(&l, like(s, x, 0)), all = fe_loop_carry(&l, like(s, x, 0));
    a = fe_loop_see(&l, a), x = fe_loop_see(&l, x);
    if (term.bad || total.bad || d.bad || all.bad || a.bad || x.bad) return fe_bad();
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
    if (!fe_loop_close(&l, MOST_TERMS, true, next, after)) return fe_bad();
    return fe_tuple(s, (const struct fe_val[]){after[2], after[4]}, 2);
}

/* The continued fraction of the upper function, and its derivative by a. */
struct fe_val make_gamma_fraction(struct fe_call *c)
{
    enum { GO, ACTIVE, P2, Q2, P1, Q1, DP2, DQ2, DP1, DQ1, ANS, DANS, COUNT };
    SITE;
    struct fe_val a = ARG(0), x = ARG(1);
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
        if (v[i].bad) return fe_bad();
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
    if (!fe_loop_close(&l, MOST_TERMS, true, next, after)) return fe_bad();
    return fe_tuple(s, (const struct fe_val[]){after[ANS], after[DANS]}, 2);
}

/* ---------------------------------------------------------------- incomplete beta */

/* Lentz: the next value of 1 / (1 + numerator / (1 + ..)), where d and c are its parts. */
static struct fe_val kept_away(struct fe_site *s, struct fe_val x)
{
    return fe_where3(s, is(s, EXPR_OP_LT, fe_op1(s, OP_abs, x), 1e-30), fe_float(1e-30), x);
}

struct fe_val make_beta_fraction(struct fe_call *c)
{
    SITE;
    struct fe_val a = ARG(0), b = ARG(1), x = ARG(2);
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
    if (cc.bad || d.bad || h.bad || active.bad || a.bad || b.bad || x.bad) return fe_bad();
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
    if (!fe_loop_close(&l, 600, true, next, after)) return fe_bad();
    return after[3];
}

/* y, whose derivative by x is not known: to ask for it is an error, as in JAX. A loop of no rounds gives x and has
 * none. */
struct fe_val make_without_slope(struct fe_call *c)
{
    SITE;
    struct fe_val y = ARG(0), x = ARG(1);
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

/* ---------------------------------------------------------------- exponential integrals */

/* The sum of x**k / (k k!), k = 1, 2, .. */
struct fe_val make_integral_series(struct fe_call *c)
{
    SITE;
    struct fe_val x = ARG(0);
    struct fe_loop l;
    struct fe_val after[3];
    fe_loop_open(&l, s, "exponential_series");
    struct fe_site *in = &l.in;
    (void)fe_loop_carry(&l, go(s));
    struct fe_val power = fe_loop_carry(&l, like(s, x, 1)), total = fe_loop_carry(&l, like(s, x, 0));
    x = fe_loop_see(&l, x);
    if (power.bad || total.bad || x.bad) return fe_bad();
    struct fe_val k = fe_add(in, fe_cast(in, l.number, (enum ir_dtype)fe_type_at(in, &x).dtype), fe_float(1));
    struct fe_val next_power = fe_div(in, fe_mul(in, power, x), k), term = fe_div(in, next_power, k),
                  next_total = fe_add(in, total, term);
    struct fe_val moves = fe_binary(in, EXPR_OP_GT, fe_op1(in, OP_abs, term),
                                    fe_mul(in, fe_op1(in, OP_abs, next_total), fe_float(epsilon)));
    struct fe_val next[] = {fe_reduce_all(in, FE_RED_ANY, moves), next_power, next_total};
    if (!fe_loop_close(&l, 400, true, next, after)) return fe_bad();
    return after[2];
}

/* exp(x) E_n(x) by its continued fraction, for x of 1 and more. */
struct fe_val make_integral_fraction(struct fe_call *c)
{
    SITE;
    struct fe_val n = ARG(0), x = ARG(1);
    struct fe_loop l;
    struct fe_val after[6], one = fe_float(1), b0 = fe_add(s, x, n);
    fe_loop_open(&l, s, "exponential_fraction");
    struct fe_site *in = &l.in;
    (void)fe_loop_carry(&l, go(s));
    struct fe_val first = fe_div(s, one, b0);
    struct fe_val b = fe_loop_carry(&l, b0), cc = fe_loop_carry(&l, like(s, x, 1e30)), d = fe_loop_carry(&l, first),
                  h = fe_loop_carry(&l, first), active = fe_loop_carry(&l, everywhere(s, x));
    n = fe_loop_see(&l, n);
    if (b.bad || cc.bad || d.bad || h.bad || active.bad || n.bad) return fe_bad();
    struct fe_val k = fe_add(in, fe_cast(in, l.number, (enum ir_dtype)fe_type_at(in, &b).dtype), one);
    struct fe_val a = neg(in, fe_mul(in, k, fe_add(in, fe_sub(in, n, one), k)));
    b = fe_add(in, b, fe_float(2));
    d = fe_div(in, one, fe_add(in, fe_mul(in, a, d), b));
    cc = fe_add(in, b, fe_div(in, a, cc));
    struct fe_val ratio = fe_mul(in, cc, d);
    h = fe_where3(in, active, fe_mul(in, h, ratio), h);
    active = both(in, active, is(in, EXPR_OP_GT, fe_op1(in, OP_abs, fe_sub(in, ratio, one)), 2 * epsilon));
    struct fe_val next[] = {fe_reduce_all(in, FE_RED_ANY, active), b, cc, d, h, active};
    if (!fe_loop_close(&l, 400, true, next, after)) return fe_bad();
    return after[4];
}
