/* Functions of jax.scipy.special that are formulas: log gamma and its derivative by Lanczos' approximation (g = 7, nine
 * coefficients, as XLA), the modified Bessel function of order 0 by the Chebyshev series of Cephes in single precision. */
#include "frontend/expr_makers.h"
#include <math.h>

static const double lanczos_base = 0.99999999999980993227684700473478;
static const double lanczos[] = {676.520368121885098567009190444019,     -1259.13921672240287047156078755283,   771.3234287776530788486528258894,
                                 -176.61502916214059906584551354,        12.507343278686904814458936853,        -0.13857109526572011689554707,
                                 9.984369578019570859563e-6,             1.50563273514931155834e-7};
enum { LANCZOS = sizeof lanczos / sizeof *lanczos };
static const double g = 7;

static struct fe_val below_half(struct fe_site *s, struct fe_val x) { return fe_binary(s, EXPR_OP_LT, x, fe_float(0.5)); }

/* -x where x < 0.5, else x - 1 */
static struct fe_val reflected(struct fe_site *s, struct fe_val x, struct fe_val low) { return fe_where3(s, low, neg(s, x), fe_sub(s, x, fe_float(1))); }

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

struct fe_val make_gammaln(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), sum, slope;
    if (x.bad) return x;
    struct fe_val low = below_half(s, x), z = reflected(s, x, low), base = fe_add(s, z, fe_float(g + 0.5)), log_t = log_base(s, z);
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
    struct fe_val low = below_half(s, x), z = reflected(s, x, low), base = fe_add(s, z, fe_float(g + 0.5));
    series(s, z, &sum, &slope);
    struct fe_val y = fe_sub(s, fe_sub(s, log_base(s, z), fe_div(s, slope, sum)), fe_div(s, fe_float(g), base));
    struct fe_val safe = fe_where3(s, low, x, fe_float(0.25));
    struct fe_val angle = fe_mul(s, fe_float(acos(-1.0)), fe_add(s, safe, fe_op1(s, OP_floor, fe_sub(s, fe_float(0.5), safe))));
    struct fe_val cotangent = fe_div(s, fe_op1(s, OP_cos, angle), fe_op1(s, OP_sin, angle));
    struct fe_val mirror = fe_sub(s, y, fe_mul(s, fe_float(acos(-1.0)), cotangent));
    struct fe_val pole = fe_op2(s, OP_and, fe_binary(s, EXPR_OP_LE, x, fe_float(0)), fe_binary(s, EXPR_OP_EQ, x, fe_op1(s, OP_floor, x)));
    return fe_where3(s, pole, fe_float((double)NAN), fe_where3(s, low, mirror, y));
}

struct fe_val make_betaln(struct fe_call *c)
{
    SITE;
    struct fe_val a = FE_APPLY(s, "gammaln", ARG(0)), b = FE_APPLY(s, "gammaln", ARG(1));
    return fe_sub(s, fe_add(s, a, b), FE_APPLY(s, "gammaln", fe_add(s, ARG(0), ARG(1))));
}

/* ---------------------------------------------------------------- Bessel */

static const double near_zero[] = {-1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7, 1.11738753912010371815e-6,
                                   -4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5, 1.88502885095841655729e-4,
                                   -5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
                                   -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1,
                                   -3.04682672343198398683e-1, 6.76795274409476084995e-1};
static const double far_out[] = {3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7, 2.89137052083475648297e-6,
                                 6.88975834691682398426e-5, 3.36911647825569408990e-3, 8.04490411014108831608e-1};

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

struct fe_val make_i0(struct fe_call *c)
{ /* data 1: scaled by exp(-|x|) */
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    if (x.bad) return x;
    struct fe_val a = fe_op1(s, OP_abs, x), close = fe_binary(s, EXPR_OP_LE, a, fe_float(8));
    struct fe_val inner = fe_where3(s, close, a, fe_float(8)), outer = fe_where3(s, close, fe_float(8), a);
    struct fe_val low = chebyshev(s, fe_sub(s, fe_div(s, inner, fe_float(2)), fe_float(2)), near_zero, sizeof near_zero / sizeof *near_zero);
    struct fe_val high = fe_div(s, chebyshev(s, fe_sub(s, fe_div(s, fe_float(32), outer), fe_float(2)), far_out, sizeof far_out / sizeof *far_out),
                                fe_op1(s, OP_sqrt, outer));
    struct fe_val scaled = fe_where3(s, close, low, high);
    return c->data || scaled.bad ? scaled : fe_mul(s, fe_op1(s, OP_exp, a), scaled);
}

/* ---------------------------------------------------------------- the normal distribution, angles */

struct fe_val make_ndtr(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return x.bad ? x : fe_mul(s, fe_float(0.5), FE_APPLY(s, "erfc", fe_mul(s, x, fe_float(-sqrt(0.5)))));
}

struct fe_val make_angle(struct fe_call *c)
{ /* data 0: degrees to radians, 1: back */
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    double factor = acos(-1.0) / 180;
    return x.bad ? x : fe_mul(s, x, fe_float(c->data ? 1 / factor : factor));
}
