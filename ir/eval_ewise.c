/* Element-wise rules of the interpreter. Each is one loop over doubles followed by rounding to the dtype: for
 * + - * / and sqrt of float32 that is the correctly rounded result (a double holds more than twice the digits). */
#include "ir/eval.h"
#include <math.h>
#include <string.h>

static int64_t elements(const struct eval_call *c) { return ir_type_elements(&c->out->t->type); }
static enum ir_dtype out_dtype(const struct eval_call *c) { return (enum ir_dtype)c->out->t->type.dtype; }
static enum ir_dtype arg_dtype(const struct eval_call *c) { return (enum ir_dtype)eval_arg(c, 0)->type.dtype; }
static void finish(struct eval_call *c) { eval_to_dtype(c->e->precision, out_dtype(c), c->out->t->v, elements(c)); }

/* ---------------------------------------------------------------- one operand */

#define UNARY(name, expression) \
    void eval_##name(struct eval_call *c) \
    { \
        const double *a = eval_arg(c, 0)->v; \
        double *out = c->out->t->v; \
        int64_t n = elements(c); \
        for (int64_t i = 0; i < n; i++) { \
            double x = a[i]; \
            out[i] = expression; \
        } \
        finish(c); \
    }

UNARY(neg, -x)
UNARY(abs, fabs(x))
UNARY(sign, isnan(x) || x == 0 ? x : x > 0 ? 1 : -1)
UNARY(exp, exp(x))
UNARY(expm1, expm1(x))
UNARY(log, log(x))
UNARY(log1p, log1p(x))
UNARY(log2, log2(x))
UNARY(sqrt, sqrt(x))
UNARY(rsqrt, 1 / sqrt(x))
UNARY(cbrt, cbrt(x))
UNARY(tanh, tanh(x))
UNARY(logistic, 1 / (1 + exp(-x)))
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(erf, erf(x))
UNARY(floor, floor(x))
UNARY(ceil, ceil(x))
UNARY(round, nearbyint(x))
UNARY(is_finite, isfinite(x) ? 1 : 0)
UNARY(copy, x)

/* Giles, Approximating the erfinv function, GPU Computing Gems 2 (2011): the single-precision polynomials, in
 * single precision as XLA has them. */
float ir_erf_inv(float x)
{
    static const float near[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                 -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
    static const float far[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
    float w = -log1pf(-x * x);
    if (fabsf(x) == 1) return x * INFINITY;
    const float *k = w < 5 ? near : far;
    w = w < 5 ? w - 2.5f : sqrtf(w) - 3;
    float p = k[0];
    for (int i = 1; i < 9; i++) p = k[i] + p * w;
    return p * x;
}

/* To the last digits of a double, by Newton's method from the single-precision start. */
static double erf_inv_double(double x)
{
    if (!(fabs(x) < 1)) return fabs(x) == 1 ? x * INFINITY : NAN;
    double y = (double)ir_erf_inv((float)x);
    if (!isfinite(y)) /* so near 1 that a float is 1 */
        y = copysign(sqrt(-log((1 - fabs(x)) * 1.7724538509055159)), x);
    for (int i = 0; i < 4; i++) {
        double tail = (1 - fabs(x)) - erfc(fabs(y)); /* keeps its digits where 1 - erf(y) has none */
        double error = fabs(x) < 0.5 ? erf(y) - x : x < 0 ? -tail : tail;
        y -= error * 0.88622692545275801 * exp(y * y);
    }
    return y;
}

static bool is_exact(const struct eval_call *c) { return c->e->precision == IR_EVAL_F64 || out_dtype(c) == IR_F64; }

UNARY(erf_inv, is_exact(c) ? erf_inv_double(x) : (double)ir_erf_inv((float)x))
UNARY(not, out_dtype(c) == IR_BOOL ? x == 0 : -1 - x)
UNARY(cast, eval_convert(arg_dtype(c), out_dtype(c), x))

void eval_bitcast(struct eval_call *c)
{
    const double *x = eval_arg(c, 0)->v;
    for (int64_t i = 0, n = elements(c); i < n; i++) {
        uint64_t bits = 0;
        ir_element_set(arg_dtype(c), &bits, 0, x[i]);
        c->out->t->v[i] = ir_element_get(out_dtype(c), &bits, 0);
    }
}

/* ---------------------------------------------------------------- two operands */

#define BINARY(name, expression) \
    void eval_##name(struct eval_call *c) \
    { \
        const double *a = eval_arg(c, 0)->v, *b = eval_arg(c, 1)->v; \
        double *out = c->out->t->v; \
        int64_t n = elements(c); \
        for (int64_t i = 0; i < n; i++) { \
            double x = a[i], y = b[i]; \
            out[i] = expression; \
        } \
        finish(c); \
    }

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(atan2, atan2(x, y))
BINARY(eq, x == y)
BINARY(ne, x != y)
BINARY(lt, x < y)
BINARY(le, x <= y)
BINARY(max, isnan(x) || isnan(y) ? (double)NAN : x > y || (x == y && !signbit(x)) ? x : y)
BINARY(min, isnan(x) || isnan(y) ? (double)NAN : x < y || (x == y && signbit(x)) ? x : y)

/* Integers need their own arithmetic where a double has too few bits. They meet as 64-bit patterns, sign-extended;
 * the result's low bits are what counts. */
typedef uint64_t integer_rule(int64_t x, int64_t y, unsigned bits, bool is_signed);

#define INTEGER(name, expression) \
    static uint64_t integer_##name(int64_t x, int64_t y, unsigned bits, bool is_signed) \
    { \
        uint64_t u = (uint64_t)x, v = (uint64_t)y; \
        bool outside = y < 0 || y >= (int64_t)bits; \
        (void)u, (void)v, (void)outside, (void)is_signed; \
        return expression; \
    }

static uint64_t integer_power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

INTEGER(mul, u *v)
INTEGER(div, !v ? UINT64_MAX : !is_signed ? u / v : y == -1 ? 0 - u : (uint64_t)(x / y))
INTEGER(rem, !v ? u : !is_signed ? u % v : y == -1 ? 0 : (uint64_t)(x % y))
INTEGER(pow, !is_signed || y >= 0 ? integer_power(u, v) : x == 1 ? 1 : x == -1 ? (y & 1 ? UINT64_MAX : 1) : 0)
INTEGER(and, u &v)
INTEGER(or, u | v)
INTEGER(xor, u ^ v)
INTEGER(shl, outside ? 0 : u << y)
INTEGER(shr, is_signed &&x < 0 ? (outside ? UINT64_MAX : ~(~u >> y)) : outside ? 0 : u >> y)

static int64_t integer_of(double x, bool is_signed) { return is_signed ? (int64_t)x : (int64_t)(uint64_t)x; }

static void integers(struct eval_call *c, integer_rule *rule)
{
    const double *a = eval_arg(c, 0)->v, *b = eval_arg(c, 1)->v;
    enum ir_dtype dtype = out_dtype(c);
    bool is_signed = ir_dtype_is_signed(dtype) && dtype != IR_BOOL;
    unsigned width = dtype == IR_BOOL ? 1 : 8 * (unsigned)ir_dtype_bytes(dtype);
    int64_t n = elements(c);
    for (int64_t i = 0; i < n; i++)
        c->out->t->v[i] = eval_integer(
            dtype, rule(integer_of(a[i], is_signed), integer_of(b[i], is_signed), width, is_signed));
}

#define MIXED(name, expression) \
    static BINARY(floats_##name, expression) void eval_##name(struct eval_call *c) \
    { \
        if (ir_dtype_is_float(out_dtype(c))) eval_floats_##name(c); \
        else integers(c, integer_##name); \
    }

MIXED(mul, x *y)
MIXED(div, x / y)
MIXED(rem, fmod(x, y))
MIXED(pow, pow(x, y))

void eval_and(struct eval_call *c) { integers(c, integer_and); }
void eval_or(struct eval_call *c) { integers(c, integer_or); }
void eval_xor(struct eval_call *c) { integers(c, integer_xor); }
void eval_shl(struct eval_call *c) { integers(c, integer_shl); }
void eval_shr(struct eval_call *c) { integers(c, integer_shr); }

/* ---------------------------------------------------------------- more operands */

void eval_select(struct eval_call *c)
{
    const double *p = eval_arg(c, 0)->v, *x = eval_arg(c, 1)->v, *y = eval_arg(c, 2)->v;
    int64_t n = elements(c);
    for (int64_t i = 0; i < n; i++) c->out->t->v[i] = p[i] != 0 ? x[i] : y[i];
}

/* Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3 (2011). */
static uint32_t threefry(uint32_t k0, uint32_t k1, uint32_t x0, uint32_t x1, int word)
{
    static const unsigned rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    uint32_t key[3] = {k0, k1, 0x1bd11bda ^ k0 ^ k1};
    x0 += key[0];
    x1 += key[1];
    for (unsigned round = 0; round < 20; round++) {
        unsigned r = rotations[round % 8];
        x0 += x1;
        x1 = (x1 << r | x1 >> (32 - r)) ^ x0;
        if (round % 4 == 3) {
            unsigned s = round / 4 + 1;
            x0 += key[s % 3];
            x1 += key[(s + 1) % 3] + s;
        }
    }
    return word ? x1 : x0;
}

void eval_threefry(struct eval_call *c)
{
    int64_t n = elements(c);
    int word = (int)c->n->attr[0].v[0];
    for (int64_t i = 0; i < n; i++)
        c->out->t->v[i] = threefry((uint32_t)eval_arg(c, 0)->v[i], (uint32_t)eval_arg(c, 1)->v[i],
                                   (uint32_t)eval_arg(c, 2)->v[i], (uint32_t)eval_arg(c, 3)->v[i], word);
}
