/* Element-wise functions of expressions; each follows the formula of jax.numpy or jax.scipy.special. */
#include "frontend/expr/makers.h"
#include <math.h>

static struct fe_val op1(struct fe_call *c, enum ir_op op, struct fe_val v) { return fe_op1(c->site, op, v); }

struct fe_val make_unary(struct fe_call *c) { return op1(c, (enum ir_op)c->data, ARG(0)); }
struct fe_val make_abs(struct fe_call *c)
{ /* of a bool: itself */
    if (!fe_as_tensor(c->site, &ARG(0))) return fe_bad();
    return fe_type_at(c->site, &ARG(0)).dtype == IR_BOOL ? ARG(0) : op1(c, OP_abs, ARG(0));
}
/* floor, ceil: integers are what they are. */
static bool is_whole(struct fe_call *c)
{
    return fe_as_tensor(c->site, &ARG(0)) && !ir_dtype_is_float((enum ir_dtype)fe_type_at(c->site, &ARG(0)).dtype);
}
struct fe_val make_rounded(struct fe_call *c) { return is_whole(c) ? ARG(0) : op1(c, (enum ir_op)c->data, ARG(0)); }
struct fe_val make_unary_float(struct fe_call *c) { return fe_op1_float(c->site, (enum ir_op)c->data, ARG(0)); }
struct fe_val make_binary(struct fe_call *c) { return fe_op2(c->site, (enum ir_op)c->data, ARG(0), ARG(1)); }
struct fe_val make_fmod(struct fe_call *c)
{
    SITE;
    if (!ARG(0).bad && !ARG(1).bad && fe_promote(fe_kind(s, &ARG(0)), fe_kind(s, &ARG(1))).dtype == IR_BOOL)
        ARG(0) = fe_cast(s, ARG(0), IR_I32), ARG(1) = fe_cast(s, ARG(1), IR_I32);
    return fe_op2(s, OP_rem, ARG(0), ARG(1));
}
struct fe_val make_binary_float(struct fe_call *c)
{
    return fe_op2_float(c->site, (enum ir_op)c->data, ARG(0), ARG(1));
}
struct fe_val make_operator(struct fe_call *c)
{
    return fe_binary(c->site, (enum expr_operator)c->data, ARG(0), ARG(1));
}
struct fe_val make_positive(struct fe_call *c) { return fe_as_tensor(c->site, &ARG(0)) ? ARG(0) : fe_bad(); }

struct fe_val make_round(struct fe_call *c)
{
    SITE;
    int64_t decimals;
    if (!fe_get_int(c, 1, &decimals)) return fe_bad();
    if (decimals >= 0 && is_whole(c)) return ARG(0);
    struct fe_val x = fe_inexact(s, ARG(0));
    if (!decimals) return fe_op1(s, OP_round, x);
    struct fe_val factor = fe_float(pow(10, (double)decimals));
    return fe_div(s, fe_op1(s, OP_round, fe_mul(s, x, factor)), factor);
}

struct fe_val make_trunc(struct fe_call *c)
{
    SITE;
    if (is_whole(c)) return ARG(0);
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_where3(s, fe_binary(s, EXPR_OP_LT, x, fe_float(0)), fe_op1(s, OP_ceil, x), fe_op1(s, OP_floor, x));
}

struct fe_val make_exp2(struct fe_call *c)
{
    SITE;
    return fe_op2_float(s, OP_pow, fe_float(2), fe_inexact(s, ARG(0)));
}
struct fe_val make_log_base(struct fe_call *c)
{
    SITE;
    return fe_div(s, fe_op1_float(s, OP_log, ARG(0)), fe_float(log(c->data)));
}
struct fe_val make_square(struct fe_call *c)
{
    if (!fe_as_tensor(c->site, &ARG(0))) return fe_bad();
    if (fe_type_at(c->site, &ARG(0)).dtype == IR_BOOL) return fe_cast(c->site, ARG(0), IR_I32);
    return fe_mul(c->site, ARG(0), ARG(0));
}
struct fe_val make_reciprocal(struct fe_call *c) { return fe_div(c->site, fe_float(1), fe_inexact(c->site, ARG(0))); }

/* ---------------------------------------------------------------- trigonometry */

struct fe_val make_tan(struct fe_call *c)
{
    SITE;
    return fe_div(s, fe_op1_float(s, OP_sin, ARG(0)), fe_op1_float(s, OP_cos, ARG(0)));
}
/* sqrt(sign (1 - x^2)), without cancelling near 1; at 1 itself its gradient is infinite, not 0 times infinity. */
static struct fe_val root_of(struct fe_site *s, struct fe_val x, double sign)
{
    struct fe_val one = fe_float(1), end = fe_binary(s, EXPR_OP_EQ, fe_op1(s, OP_abs, x), one);
    struct fe_val parts = fe_mul(s, sign > 0 ? fe_sub(s, one, x) : fe_sub(s, x, one), fe_add(s, one, x)),
                  square = fe_mul(s, x, x);
    struct fe_val whole = sign > 0 ? fe_sub(s, one, square) : fe_sub(s, square, one);
    return fe_op1(s, OP_sqrt, fe_where3(s, end, whole, parts));
}
static struct fe_val cosine_of(struct fe_site *s, struct fe_val x) { return root_of(s, x, 1); }
struct fe_val make_arcsin(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_op2(s, OP_atan2, x, cosine_of(s, x));
}
struct fe_val make_arccos(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_op2(s, OP_atan2, cosine_of(s, x), x);
}
struct fe_val make_arctan(struct fe_call *c)
{
    return fe_op2(c->site, OP_atan2, fe_inexact(c->site, ARG(0)), fe_float(1));
}
/* exp(x) / 2 and exp(-x) / 2, which overflow no earlier than their sum. */
static void halved_exponentials(struct fe_site *s, struct fe_val x, struct fe_val out[2])
{
    struct fe_val shift = fe_float(log(0.5));
    out[0] = fe_op1(s, OP_exp, fe_add(s, x, shift));
    out[1] = fe_op1(s, OP_exp, fe_sub(s, shift, x));
}
struct fe_val make_sinh(struct fe_call *c)
{ /* from expm1, exact near 0 */
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), small = fe_binary(s, EXPR_OP_LT, fe_op1(s, OP_abs, x), fe_float(1)), e,
                  far[2];
    e = fe_op1(s, OP_expm1, fe_where3(s, small, x, fe_float(0)));
    halved_exponentials(s, x, far);
    return fe_where3(s, small, fe_mul(s, fe_float(0.5), fe_add(s, e, fe_div(s, e, fe_add(s, e, fe_float(1))))),
                     fe_sub(s, far[0], far[1]));
}
struct fe_val make_cosh(struct fe_call *c)
{
    SITE;
    struct fe_val half[2];
    halved_exponentials(s, fe_inexact(s, ARG(0)), half);
    return fe_add(s, half[0], half[1]);
}
struct fe_val make_arcsinh(struct fe_call *c)
{ /* sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))) */
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), square = fe_mul(s, x, x);
    struct fe_val root = fe_op1(s, OP_sqrt, fe_add(s, square, fe_float(1)));
    struct fe_val a = fe_where3(s, fe_binary(s, EXPR_OP_LT, x, fe_float(0)), op1(c, OP_neg, x), x);
    struct fe_val y = fe_op1(s, OP_log1p, fe_add(s, a, fe_div(s, square, fe_add(s, root, fe_float(1)))));
    return fe_where3(s, fe_binary(s, EXPR_OP_LT, x, fe_float(0)), op1(c, OP_neg, y), y);
}
struct fe_val make_arccosh(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_op1(s, OP_log, fe_add(s, x, root_of(s, x, -1)));
}
struct fe_val make_arctanh(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_mul(s, fe_float(0.5), fe_sub(s, fe_op1(s, OP_log1p, x), fe_op1(s, OP_log1p, op1(c, OP_neg, x))));
}
struct fe_val make_sinc(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), zero = fe_binary(s, EXPR_OP_EQ, x, fe_float(0));
    struct fe_val safe = fe_mul(s, fe_float(3.14159265358979323846), fe_where3(s, zero, fe_float(1), x));
    return fe_where3(s, zero, fe_float(1), fe_div(s, fe_op1(s, OP_sin, safe), safe));
}

/* ---------------------------------------------------------------- special functions */

struct fe_val make_logit(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), one = fe_float(1);
    struct fe_val end = fe_op2(s, OP_or, fe_binary(s, EXPR_OP_EQ, x, fe_float(0)), fe_binary(s, EXPR_OP_EQ, x, one));
    struct fe_val inner = fe_where3(s, end, fe_float(0.5), x), outer = fe_where3(s, end, x, fe_float(0.5));
    return fe_where3(s, end, fe_sub(s, fe_op1(s, OP_log, outer), fe_op1(s, OP_log1p, neg(s, outer))),
                     fe_op1(s, OP_log, fe_div(s, inner, fe_sub(s, one, inner))));
}
struct fe_val make_entr(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), positive = fe_binary(s, EXPR_OP_GT, x, fe_float(0));
    struct fe_val safe = fe_where3(s, positive, x, fe_float(1));
    struct fe_val y = op1(c, OP_neg, fe_mul(s, safe, fe_op1(s, OP_log, safe)));
    struct fe_val zero = fe_binary(s, EXPR_OP_EQ, x, fe_float(0));
    struct fe_val at_zero = fe_op1(s, OP_sqrt, fe_where3(s, zero, x, fe_float(1))); /* 0 with an infinite gradient */
    return fe_where3(s, positive, y, fe_where3(s, zero, at_zero, fe_float(-INFINITY)));
}
struct fe_val make_xlogy(struct fe_call *c)
{ /* x log y, 0 where x is 0 */
    SITE;
    enum ir_op op = c->data ? OP_log1p : OP_log;
    struct fe_val x = fe_inexact(s, ARG(0)), y = fe_inexact(s, ARG(1)), zero = fe_binary(s, EXPR_OP_EQ, x, fe_float(0));
    /* where the logarithm is finite, its multiple has the gradient by x at 0, too */
    zero = fe_op2(s, OP_and, zero, fe_op1(s, OP_not, fe_op1(s, OP_is_finite, fe_op1(s, op, y))));
    struct fe_val safe = fe_where3(s, zero, fe_float(1), y);
    return fe_where3(s, zero, fe_float(0), fe_mul(s, x, fe_op1(s, op, safe)));
}
struct fe_val make_isnan(struct fe_call *c)
{
    return fe_binary(c->site, EXPR_OP_NE, fe_inexact(c->site, ARG(0)), fe_inexact(c->site, ARG(0)));
}
struct fe_val make_isfinite(struct fe_call *c) { return fe_op1_float(c->site, OP_is_finite, ARG(0)); }
struct fe_val make_isinf(struct fe_call *c)
{
    return fe_binary(c->site, EXPR_OP_EQ, fe_op1_float(c->site, OP_abs, ARG(0)), fe_float(INFINITY));
}
struct fe_val make_nan_to_num(struct fe_call *c)
{
    SITE;
    if (is_whole(c)) return ARG(0);
    struct fe_val x = fe_inexact(s, ARG(0));
    struct fe_val high = fe_is_none(&ARG(2)) ? fe_float(3.4028234663852886e38) : ARG(2);
    struct fe_val low = fe_is_none(&ARG(3)) ? fe_float(-3.4028234663852886e38) : ARG(3);
    x = fe_where3(s, fe_binary(s, EXPR_OP_NE, x, x), ARG(1), x);
    x = fe_where3(s, fe_binary(s, EXPR_OP_EQ, x, fe_float(INFINITY)), high, x);
    return fe_where3(s, fe_binary(s, EXPR_OP_EQ, x, fe_float(-INFINITY)), low, x);
}

/* ---------------------------------------------------------------- two and more arguments */

struct fe_val make_divmod(struct fe_call *c)
{
    struct fe_val both[] = {fe_binary(c->site, EXPR_OP_FLOORDIV, ARG(0), ARG(1)),
                            fe_binary(c->site, EXPR_OP_MOD, ARG(0), ARG(1))};
    return fe_tuple(c->site, both, 2);
}
struct fe_val make_float_power(struct fe_call *c)
{
    return fe_binary(c->site, EXPR_OP_POW, fe_inexact(c->site, ARG(0)), ARG(1));
}
struct fe_val make_logical(struct fe_call *c)
{
    return fe_op2(c->site, (enum ir_op)c->data, fe_boolean(c->site, ARG(0)), fe_boolean(c->site, ARG(1)));
}
struct fe_val make_logical_not(struct fe_call *c) { return op1(c, OP_not, fe_boolean(c->site, ARG(0))); }
/* Both in the float dtype that they promote to. */
static void both_inexact(struct fe_site *s, struct fe_val *x, struct fe_val *y)
{
    struct fe_kind_of k = fe_promote(fe_kind(s, x), fe_kind(s, y));
    if (ir_dtype_is_float(k.dtype) && !k.weak) *x = fe_cast(s, *x, k.dtype), *y = fe_cast(s, *y, k.dtype);
    else *x = fe_inexact(s, *x), *y = fe_inexact(s, *y);
}

struct fe_val make_hypot(struct fe_call *c)
{
    SITE;
    struct fe_val x = ARG(0), y = ARG(1);
    both_inexact(s, &x, &y);
    struct fe_val a = fe_op1(s, OP_abs, x), b = fe_op1(s, OP_abs, y), most = fe_op2(s, OP_max, a, b),
                  least = fe_op2(s, OP_min, a, b);
    struct fe_val zero = fe_binary(s, EXPR_OP_EQ, most, fe_float(0)),
                  ratio = fe_div(s, least, fe_where3(s, zero, fe_float(1), most));
    /* no square overflows, and 0 has a gradient */
    return fe_where3(s, zero, most,
                     fe_mul(s, most, fe_op1(s, OP_sqrt, fe_add(s, fe_float(1), fe_mul(s, ratio, ratio)))));
}
struct fe_val make_copysign(struct fe_call *c)
{ /* the sign bit of a zero counts: 1 / -0 is negative */
    SITE;
    struct fe_val x = fe_op1_float(s, OP_abs, ARG(0)), y = fe_inexact(s, ARG(1));
    x.weak &= fe_kind(s, &ARG(1)).weak;
    struct fe_val inverse = fe_div(s, fe_float(1), y);
    struct fe_val negative = fe_op2(s, OP_or, fe_binary(s, EXPR_OP_LT, y, fe_float(0)),
                                    fe_binary(s, EXPR_OP_EQ, inverse, fe_float(-INFINITY)));
    return fe_where3(s, negative, op1(c, OP_neg, x), x);
}
struct fe_val make_heaviside(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    if (x.bad) return x;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    struct fe_val above = fe_where3(s, fe_binary(s, EXPR_OP_GT, x, fe_float(0)), fe_cast(s, fe_float(1), d), ARG(1));
    return fe_where3(s, fe_binary(s, EXPR_OP_LT, x, fe_float(0)), fe_cast(s, fe_float(0), d), above);
}
struct fe_val make_logaddexp(struct fe_call *c)
{ /* max + log1p(exp(min - max)): at x = y both have half the gradient */
    SITE;
    struct fe_val x = ARG(0), y = ARG(1);
    both_inexact(s, &x, &y);
    struct fe_val delta = fe_sub(s, x, y);
    struct fe_val most = fe_op2(s, OP_max, x, y), least = fe_op2(s, OP_min, x, y);
    struct fe_val tail = fe_op1(s, OP_log1p, fe_op1(s, OP_exp, fe_sub(s, least, most)));
    return fe_where3(s, fe_binary(s, EXPR_OP_NE, delta, delta), fe_add(s, x, y), fe_add(s, most, tail));
}
struct fe_val make_logaddexp2(struct fe_call *c)
{
    SITE;
    struct fe_val ln2 = fe_float(log(2));
    struct fe_val both = FE_APPLY(s, "logaddexp", fe_mul(s, ARG(0), ln2), fe_mul(s, ARG(1), ln2));
    return fe_div(s, both, ln2);
}
struct fe_val make_clip(struct fe_call *c)
{
    SITE;
    struct fe_val x = ARG(0);
    for (int i = 1; i < 3; i++) /* the older names */
        if (!fe_is_none(&ARG(i + 2))) ARG(i) = ARG(i + 2);
    if (!fe_is_none(&ARG(1))) x = fe_op2(s, OP_max, ARG(1), x);
    return fe_is_none(&ARG(2)) ? x : fe_op2(s, OP_min, ARG(2), x);
}
struct fe_val make_where(struct fe_call *c)
{
    if (!c->given[1] && !c->given[2] && !fe_is_none(&ARG(3)))
        return FE_APPLY(c->site, "nonzero", ARG(0), ARG(3), ARG(4));
    if (!c->given[1] || !c->given[2])
        return fe_fail(
            c->site, "E0312",
            "where needs three arguments, or size= for the indices: the shape of a result may not depend on values");
    return fe_where3(c->site, ARG(0), ARG(1), ARG(2));
}
struct fe_val make_select(struct fe_call *c)
{
    SITE;
    if (ARG(0).kind != FE_VAL_TUPLE || ARG(1).kind != FE_VAL_TUPLE || ARG(0).count != ARG(1).count)
        return fe_fail(s, "E0312", "select needs two lists of the same length");
    struct fe_val v = ARG(2);
    for (uint32_t i = ARG(0).count; i-- > 0;) v = fe_where3(s, ARG(0).items[i], ARG(1).items[i], v);
    return v;
}
struct fe_val make_astype(struct fe_call *c)
{
    enum ir_dtype dtype;
    return fe_get_dtype(c, 1, &dtype) ? fe_cast(c->site, ARG(0), dtype) : fe_bad();
}
/* x itself, with a gradient `scale` times as large. */
struct fe_val make_scale_gradient(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), still = fe_stop(s, x);
    struct fe_val part = fe_mul(s, ARG(1), fe_sub(s, x, still));
    return fe_add(s, still, fe_where3(s, fe_op1(s, OP_is_finite, still), part, fe_float(0)));
}
struct fe_val make_dtype(struct fe_call *c) { return fe_cast(c->site, ARG(0), (enum ir_dtype)c->data); }
