/* Functions of jax.scipy.special that are formulas: log gamma and its derivative by Lanczos' approximation (g = 7, nine
 * coefficients, as XLA), the modified Bessel function of order 0 by the Chebyshev series of Cephes in single precision.
 */
#include "frontend/expr/makers.h"
#include <math.h>

static const double lanczos_base = 0.99999999999980993227684700473478;
static const double lanczos[] = {676.520368121885098567009190444019, -1259.13921672240287047156078755283,
                                 771.3234287776530788486528258894,   -176.61502916214059906584551354,
                                 12.507343278686904814458936853,     -0.13857109526572011689554707,
                                 9.984369578019570859563e-6,         1.50563273514931155834e-7};
enum { LANCZOS = sizeof lanczos / sizeof *lanczos };
static const double g = 7;

static struct fe_val below_half(struct fe_site *s, struct fe_val x)
{
    return fe_binary(s, EXPR_OP_LT, x, fe_float(0.5));
}

/* -x where x < 0.5, else x - 1 */
static struct fe_val reflected(struct fe_site *s, struct fe_val x, struct fe_val low)
{
    return fe_where3(s, low, neg(s, x), fe_sub(s, x, fe_float(1)));
}

/* The series at z, and minus its derivative. */
static void series(struct fe_site *s, struct fe_val z, struct fe_val *sum, struct fe_val *slope)
{
    *sum = fe_float(lanczos_base);
    *slope = fe_float(0);
    for (int i = 0; i < LANCZOS; i++) {
        struct fe_val below = fe_add(s, z, fe_float(i + 1)), term = fe_div(s, fe_float(lanczos[i]), below);
        *sum = fe_add(s, *sum, term);
        *slope = fe_add(s, *slope, fe_div(s, term, below));
    }
}

static struct fe_val log_base(struct fe_site *s, struct fe_val z)
{
    return fe_add(s, fe_float(log(g + 0.5)), fe_op1(s, OP_log1p, fe_div(s, z, fe_float(g + 0.5))));
}

static bool is_narrow(struct fe_site *s, const struct fe_val *x)
{
    return !x->bad && ir_dtype_bytes((enum ir_dtype)fe_type_at(s, x).dtype) < 4;
}

/* A function of one argument that is a 16-bit float: computed in float32 and rounded once. */
static struct fe_val by_float32(struct fe_call *c)
{
    SITE;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &ARG(0)).dtype;
    struct fe_val y = fe_apply_at(s, c->row->name, (const struct fe_val[]){fe_cast(s, ARG(0), IR_F32)}, 1);
    return y.bad ? y : fe_cast(s, y, d);
}

struct fe_val make_gammaln(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), sum, slope;
    if (x.bad) return x;
    if (is_narrow(s, &x)) return by_float32(c);
    struct fe_val low = below_half(s, x), z = reflected(s, x, low), base = fe_add(s, z, fe_float(g + 0.5)),
                  log_t = log_base(s, z);
    series(s, z, &sum, &slope);
    struct fe_val y = fe_add(s, fe_mul(s, fe_sub(s, fe_add(s, z, fe_float(0.5)), fe_div(s, base, log_t)), log_t),
                             fe_add(s, fe_float(0.5 * log(2 * acos(-1.0))), fe_op1(s, OP_log, sum)));
    /* log(pi / |sin(pi x)|) - y below 0.5; a harmless argument elsewhere, so that no gradient is NaN */
    struct fe_val safe = fe_where3(s, low, x, fe_float(0.25));
    struct fe_val part = fe_op1(s, OP_abs, fe_sub(s, safe, fe_op1(s, OP_floor, safe)));
    struct fe_val wave = fe_op1(s, OP_sin, fe_mul(s, fe_float(acos(-1.0)), part));
    struct fe_val mirror = fe_sub(s, fe_sub(s, fe_float(log(acos(-1.0))), fe_op1(s, OP_log, wave)), y);
    struct fe_val infinite = fe_binary(s, EXPR_OP_EQ, fe_op1(s, OP_abs, x), fe_float((double)INFINITY));
    return fe_where3(s, infinite, fe_float((double)INFINITY), fe_where3(s, low, mirror, y));
}

struct fe_val make_digamma(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), sum, slope;
    if (x.bad) return x;
    if (is_narrow(s, &x)) return by_float32(c);
    struct fe_val pole = fe_op2(s, OP_and, fe_binary(s, EXPR_OP_LE, x, fe_float(0)),
                                fe_binary(s, EXPR_OP_EQ, x, fe_op1(s, OP_floor, x)));
    /* at a pole NaN, with an infinite gradient: log(0) + infinity */
    struct fe_val none = fe_where3(s, pole, fe_sub(s, x, fe_stop(s, x)), fe_float(1)),
                  at_pole = fe_add(s, fe_op1(s, OP_log, none), fe_float((double)INFINITY));
    x = fe_where3(s, pole, fe_float(0.25), x);
    struct fe_val low = below_half(s, x), z = reflected(s, x, low), base = fe_add(s, z, fe_float(g + 0.5));
    series(s, z, &sum, &slope);
    struct fe_val y = fe_sub(s, fe_sub(s, log_base(s, z), fe_div(s, slope, sum)), fe_div(s, fe_float(g), base));
    struct fe_val safe = fe_where3(s, low, x, fe_float(0.25));
    struct fe_val angle = fe_mul(s, fe_float(acos(-1.0)),
                                 fe_add(s, safe, fe_op1(s, OP_floor, fe_sub(s, fe_float(0.5), safe))));
    struct fe_val cotangent = fe_div(s, fe_op1(s, OP_cos, angle), fe_op1(s, OP_sin, angle));
    struct fe_val mirror = fe_sub(s, y, fe_mul(s, fe_float(acos(-1.0)), cotangent));
    return fe_where3(s, pole, at_pole, fe_where3(s, low, mirror, y));
}

struct fe_val make_betaln(struct fe_call *c)
{
    SITE;
    struct fe_val a = fe_inexact(s, ARG(0)), b = fe_inexact(s, ARG(1)), sum = fe_add(s, a, b);
    if (sum.bad) return sum;
    enum ir_dtype common = (enum ir_dtype)fe_type_at(s, &sum).dtype;
    a = FE_APPLY(s, "gammaln", fe_cast(s, a, common)), b = FE_APPLY(s, "gammaln", fe_cast(s, b, common));
    return fe_sub(s, fe_add(s, a, b), FE_APPLY(s, "gammaln", sum));
}

/* ---------------------------------------------------------------- Bessel */

static const double near_zero[] = {-1.30002500998624804212e-8, 6.04699502254191894932e-8,  -2.67079385394061173391e-7,
                                   1.11738753912010371815e-6,  -4.41673835845875056359e-6, 1.64484480707288970893e-5,
                                   -5.75419501008210370398e-5, 1.88502885095841655729e-4,  -5.76375574538582365885e-4,
                                   1.63947561694133579842e-3,  -4.32430999505057594430e-3, 1.05464603945949983183e-2,
                                   -2.37374148058994688156e-2, 4.93052842396707084878e-2,  -9.49010970480476444210e-2,
                                   1.71620901522208775349e-1,  -3.04682672343198398683e-1, 6.76795274409476084995e-1};
static const double far_out[] = {3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7,
                                 2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
                                 8.04490411014108831608e-1};

static struct fe_val chebyshev(struct fe_site *s, struct fe_val x, const double *coefficients, int count)
{
    struct fe_val b0 = fe_float(0), b1 = fe_float(0), b2 = fe_float(0);
    for (int i = 0; i < count; i++) {
        b2 = b1;
        b1 = b0;
        b0 = fe_add(s, fe_sub(s, fe_mul(s, x, b1), b2), fe_float(coefficients[i]));
    }
    return fe_mul(s, fe_float(0.5), fe_sub(s, b0, b2));
}

struct coefficients {
    const double *near, *far;
    int near_count, far_count;
};

/* Of |x|, times exp(-|x|): Chebyshev's series up to 8 and beyond. `odd`: the function is, x being its argument. */
static struct fe_val bessel(struct fe_call *c, const struct coefficients *k, bool odd)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), eight = fe_float(8), two = fe_float(2);
    if (x.bad) return x;
    if (is_narrow(s, &x)) return by_float32(c);
    struct fe_val a = fe_op1(s, OP_abs, x), close = fe_binary(s, EXPR_OP_LE, a, eight);
    struct fe_val inner = fe_where3(s, close, a, eight), outer = fe_where3(s, close, eight, a);
    struct fe_val low = chebyshev(s, fe_sub(s, fe_div(s, inner, two), two), k->near, k->near_count);
    struct fe_val high = chebyshev(s, fe_sub(s, fe_div(s, fe_float(32), outer), two), k->far, k->far_count);
    if (odd) low = fe_mul(s, inner, low);
    struct fe_val scaled = fe_where3(s, close, low, fe_div(s, high, fe_op1(s, OP_sqrt, outer)));
    if (odd) scaled = fe_where3(s, fe_binary(s, EXPR_OP_LT, x, fe_float(0)), neg(s, scaled), scaled);
    return c->data || scaled.bad ? scaled : fe_mul(s, fe_op1(s, OP_exp, a), scaled); /* data 1: scaled by exp(-|x|) */
}

#define COEFFICIENTS(near, far) \
    { \
        near, far, (int)(sizeof(near) / sizeof *(near)), (int)(sizeof(far) / sizeof *(far)) \
    }
struct fe_val make_i0(struct fe_call *c)
{
    static const struct coefficients k = COEFFICIENTS(near_zero, far_out);
    return bessel(c, &k, false);
}

static const double order_1_near[] = {
    9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7, -8.56872026469545474066e-7,
    3.47025130813767847674e-6, -1.32731636560394358279e-5, 4.78156510755005422638e-5, -1.61760815825896745588e-4,
    5.12285956168575772895e-4, -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
    2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1, -1.76416518357834055153e-1,
    2.52587186443633654823e-1};
static const double order_1_far[] = {-3.83538038596423702205e-9, -2.63146884688951950684e-8, -2.51223623787020892529e-7,
                                     -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
                                     7.78576235018280120474e-1};

struct fe_val make_i1(struct fe_call *c)
{
    static const struct coefficients k = COEFFICIENTS(order_1_near, order_1_far);
    return bessel(c, &k, true);
}

/* ---------------------------------------------------------------- the normal distribution, angles */

static struct fe_val polynomial(struct fe_site *s, struct fe_val x, const double *coefficients, size_t count)
{
    struct fe_val y = fe_float(coefficients[0]);
    for (size_t i = 1; i < count; i++) y = fe_add(s, fe_mul(s, y, x), fe_float(coefficients[i]));
    return y;
}
#define POLYNOMIAL(s, x, coefficients) polynomial(s, x, coefficients, sizeof coefficients / sizeof *coefficients)

/* Beyond 1 erfc is exp(-x^2) / x times a polynomial of 1 / x^2 (Cephes, single precision): 1 - erf would cancel. */
static const double erfc_near[] = {2.326819970068386e-2,  -1.387039388740657e-1, 3.687424674597105e-1,
                                   -5.824733027278666e-1, 6.210004621745983e-1,  -4.944515323274145e-1,
                                   3.404879937665872e-1,  -2.741127028184656e-1, 5.638259427386472e-1};
static const double erfc_far[] = {-1.047766399936249e+1, 1.297719955372516e+1,  -7.495518717768503e+0,
                                  2.921019019210786e+0,  -1.015265279202700e+0, 4.218463358204948e-1,
                                  -2.820767439740514e-1, 5.641895067754075e-1};

static struct fe_val erfc_of(struct fe_site *s, struct fe_val x)
{
    struct fe_val size = fe_op1(s, OP_abs, x), inside = fe_binary(s, EXPR_OP_LE, size, fe_float(1));
    struct fe_val a = fe_op2(s, OP_min, fe_where3(s, inside, fe_float(1), size), fe_float(20)),
                  q = fe_div(s, fe_float(1), a), y = fe_mul(s, q, q);
    struct fe_val p = fe_where3(s, fe_binary(s, EXPR_OP_LT, a, fe_float(2)), POLYNOMIAL(s, y, erfc_near),
                                POLYNOMIAL(s, y, erfc_far));
    struct fe_val tail = fe_mul(s, fe_mul(s, fe_op1(s, OP_exp, neg(s, fe_mul(s, a, a))), q), p);
    tail = fe_where3(s, fe_binary(s, EXPR_OP_LT, x, fe_float(0)), fe_sub(s, fe_float(2), tail), tail);
    return fe_where3(s, inside, one_minus(s, fe_op1(s, OP_erf, x)),
                     fe_where3(s, fe_binary(s, EXPR_OP_NE, x, x), x, tail));
}

struct fe_val make_erfc(struct fe_call *c)
{ /* 16-bit floats by float32 */
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    if (x.bad) return x;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    return ir_dtype_bytes(d) < 4 ? fe_cast(s, erfc_of(s, fe_cast(s, x, IR_F32)), d) : erfc_of(s, x);
}

struct fe_val make_ndtr(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return x.bad ? x : fe_mul(s, fe_float(0.5), FE_APPLY(s, "erfc", fe_mul(s, x, fe_float(-sqrt(0.5)))));
}

static const double ndtri_p0[] = {-5.99633501014107895267E1, 9.80010754185999661536E1, -5.66762857469070293439E1,
                                  1.39312609387279679503E1, -1.23916583867381258016E0};
static const double ndtri_q0[] = {1.0,
                                  1.95448858338141759834E0,
                                  4.67627912898881538453E0,
                                  8.63602421390890590575E1,
                                  -2.25462687854119370527E2,
                                  2.00260212380060660359E2,
                                  -8.20372256168333339912E1,
                                  1.59056225126211695515E1,
                                  -1.18331621121330003142E0};
static const double ndtri_p1[] = {4.05544892305962419923E0,   3.15251094599893866154E1,   5.71628192246421288162E1,
                                  4.40805073893200834700E1,   1.46849561928858024014E1,   2.18663306850790267539E0,
                                  -1.40256079171354495875E-1, -3.50424626827848203418E-2, -8.57456785154685413611E-4};
static const double ndtri_q1[] = {1.0,
                                  1.57799883256466749731E1,
                                  4.53907635128879210584E1,
                                  4.13172038254672030440E1,
                                  1.50425385692907503408E1,
                                  2.50464946208309415979E0,
                                  -1.42182922854787788574E-1,
                                  -3.80806407691578277194E-2,
                                  -9.33259480895457427372E-4};
static const double ndtri_p2[] = {3.23774891776946035970E0,  6.91522889068984211695E0,  3.93881025292474443415E0,
                                  1.33303460815807542389E0,  2.01485389549179081538E-1, 1.23716634817820021358E-2,
                                  3.01581553508235416007E-4, 2.65806974686737550832E-6, 6.23974539184983293730E-9};
static const double ndtri_q2[] = {1.0,
                                  6.02427039364742014255E0,
                                  3.67983563856160859403E0,
                                  1.37702099489081330271E0,
                                  2.16236993594496635890E-1,
                                  1.34204006088543189037E-2,
                                  3.28014464682127739104E-4,
                                  2.89247864745380683936E-6,
                                  6.79019408009981274425E-9};

/* Where the logarithm of p, or of 1 - p, is below -2 by a series in 1 / sqrt(-2 log p), in the middle by one in p -
 * 1/2. */
struct fe_val make_ndtri(struct fe_call *c)
{
    SITE;
    struct fe_val p = fe_inexact(s, ARG(0));
    if (p.bad) return p;
    struct fe_val upper = fe_binary(s, EXPR_OP_GT, p, fe_float(-expm1(-2.0))),
                  q = fe_where3(s, upper, one_minus(s, p), p);
    q = fe_where3(s, fe_binary(s, EXPR_OP_EQ, q, fe_float(0)), fe_float(0.5), q);
    struct fe_val middle = fe_binary(s, EXPR_OP_GT, q, fe_float(exp(-2.0)));
    struct fe_val w = fe_sub(s, q, fe_float(0.5)), ww = fe_mul(s, w, w);
    struct fe_val big = fe_add(
        s, w, fe_mul(s, fe_mul(s, w, ww), fe_div(s, POLYNOMIAL(s, ww, ndtri_p0), POLYNOMIAL(s, ww, ndtri_q0))));
    big = fe_mul(s, big, fe_float(-sqrt(4 * acos(0.0))));
    struct fe_val z = fe_op1(s, OP_sqrt,
                             fe_mul(s, fe_float(-2), fe_op1(s, OP_log, fe_where3(s, middle, fe_float(0.1), q)))),
                  inverse = fe_div(s, fe_float(1), z);
    struct fe_val least = fe_div(s, POLYNOMIAL(s, inverse, ndtri_p2), POLYNOMIAL(s, inverse, ndtri_q2));
    struct fe_val small = fe_div(s, POLYNOMIAL(s, inverse, ndtri_p1), POLYNOMIAL(s, inverse, ndtri_q1));
    struct fe_val second = fe_where3(s, fe_binary(s, EXPR_OP_GE, z, fe_float(8)), least, small);
    struct fe_val outer = fe_sub(s, fe_sub(s, z, fe_div(s, fe_op1(s, OP_log, z), z)), fe_div(s, second, z));
    struct fe_val x = fe_where3(s, middle, big, outer);
    x = fe_where3(s, upper, x, neg(s, x));
    x = fe_where3(s, fe_binary(s, EXPR_OP_EQ, p, fe_float(0)), fe_float(-(double)INFINITY), x);
    return fe_where3(s, fe_binary(s, EXPR_OP_EQ, p, fe_float(1)), fe_float((double)INFINITY), x);
}

/* The sum of (q + k)**-x by Euler and Maclaurin: nine terms, then twelve of the remainder (Cephes). */
struct fe_val make_zeta(struct fe_call *c)
{
    static const double divisor[] = {12.0,
                                     -720.0,
                                     30240.0,
                                     -1209600.0,
                                     47900160.0,
                                     -1.8924375803183791606e9,
                                     7.47242496e10,
                                     -2.950130727918164224e12,
                                     1.1646782814350067249e14,
                                     -4.5979787224074726105e15,
                                     1.8152105401943546773e17,
                                     -7.1661652561756670113e18};
    SITE;
    struct fe_val given[] = {fe_inexact(s, ARG(0)), fe_inexact(s, ARG(1))}, common = fe_add(s, given[0], given[1]);
    if (common.bad) return common;
    if (is_narrow(s, &common)) { /* by float32 */
        struct fe_val y = FE_APPLY(s, "zeta", fe_cast(s, given[0], IR_F32), fe_cast(s, given[1], IR_F32));
        return y.bad ? y : fe_cast(s, y, (enum ir_dtype)fe_type_at(s, &common).dtype);
    }
    struct fe_val x = given[0], q = given[1], minus = neg(s, x), sum = fe_float(0), a = fe_float(1), b = q;
    for (int k = 0; k < 9; k++) sum = fe_add(s, sum, fe_binary(s, EXPR_OP_POW, fe_add(s, q, fe_float(k)), minus));
    struct fe_val w = fe_add(s, q, fe_float(9));
    b = fe_binary(s, EXPR_OP_POW, w, minus);
    sum = fe_add(s, sum, fe_div(s, fe_mul(s, b, w), fe_sub(s, x, fe_float(1))));
    sum = fe_add(s, sum, fe_mul(s, fe_float(0.5), b));
    for (int i = 0; i < 12; i++) {
        a = fe_mul(s, a, fe_add(s, x, fe_float(2 * i)));
        b = fe_div(s, b, w);
        sum = fe_add(s, sum, fe_div(s, fe_mul(s, a, b), fe_float(divisor[i])));
        a = fe_mul(s, a, fe_add(s, x, fe_float(2 * i + 1)));
        b = fe_div(s, b, w);
    }
    sum = fe_where3(s, fe_binary(s, EXPR_OP_LT, x, fe_float(1)), fe_float((double)NAN), sum);
    return fe_where3(s, fe_binary(s, EXPR_OP_EQ, x, fe_float(1)), fe_float((double)INFINITY), sum);
}

struct fe_val make_angle(struct fe_call *c)
{ /* data 0: degrees to radians, 1: back */
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    double factor = acos(-1.0) / 180;
    return x.bad ? x : fe_mul(s, x, fe_float(c->data ? 1 / factor : factor));
}

/* The dilogarithm of 1 - x (Cephes). */
struct fe_val make_spence(struct fe_call *c)
{
    static const double above[] = {4.65128586073990045278e-5, 7.31589045238094711071e-3, 1.33847639578309018650e-1,
                                   8.79691311754530315341e-1, 2.71149851196553469920e0,  4.25697156008121755724e0,
                                   3.29771340985225106936e0,  1.00000000000000000126e0};
    static const double below[] = {6.90990488912553276999e-4, 2.54043763932544379113e-2, 2.82974860602568089943e-1,
                                   1.41172597751831069617e0,  3.63800533345137075418e0,  5.03278880143316990390e0,
                                   3.54771340985225096217e0,  9.99999999999999998740e-1};
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), one = fe_float(1), sixth = fe_float(acos(-1.0) * acos(-1.0) / 6);
    if (x.bad) return x;
    if (is_narrow(s, &x)) return by_float32(c);
    struct fe_val positive = fe_binary(s, EXPR_OP_GT, x, fe_float(0)), p = fe_where3(s, positive, x, one);
    struct fe_val turned = fe_binary(s, EXPR_OP_GT, p, fe_float(1.5)),
                  v = fe_where3(s, fe_binary(s, EXPR_OP_GT, p, fe_float(2)), fe_div(s, one, p), p);
    struct fe_val high = fe_binary(s, EXPR_OP_GT, v, fe_float(1.5)), low = fe_binary(s, EXPR_OP_LT, v, fe_float(0.5));
    struct fe_val w = fe_where3(s, high, fe_sub(s, fe_div(s, one, v), one),
                                fe_where3(s, low, neg(s, v), fe_sub(s, v, one)));
    struct fe_val y = fe_div(s, neg(s, fe_mul(s, w, POLYNOMIAL(s, w, above))), POLYNOMIAL(s, w, below));
    struct fe_val part = fe_where3(s, low, v, fe_float(0.25));
    y = fe_where3(s, low,
                  fe_sub(s, fe_sub(s, sixth, fe_mul(s, fe_op1(s, OP_log, part), fe_op1(s, OP_log1p, neg(s, part)))), y),
                  y);
    struct fe_val z = fe_op1(s, OP_log, p);
    y = fe_where3(s, turned, fe_sub(s, fe_mul(s, fe_float(-0.5), fe_mul(s, z, z)), y), y);
    return fe_where3(s, positive, y,
                     fe_where3(s, fe_binary(s, EXPR_OP_EQ, x, fe_float(0)), sixth, fe_float((double)NAN)));
}
