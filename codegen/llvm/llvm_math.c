/* Elementary functions in f32 as inlined polynomials, the same code for a scalar and for a vector; f64 calls libm lane
 * by lane. Largest errors over all floats against a correctly rounded result, measured by
 * tests/unit/codegen/test_math.c, in units in the last place, with FMA (without: about half an ulp more):
 *   exp 0.9  expm1 1.6  log 0.9  log1p 1.5  tanh 1.4  erf 1.05  logistic 2.5  sin, cos 1.6  rsqrt 1.5  log2, pow 0.6
 *   atan2 1.7
 * Denormal arguments and results are right where the caller's floating-point mode keeps them, but logistic below -88.7
 * is 0. Sources: S. Moshier's
 * Cephes library (expm1, log, tanh, sin, cos), N. Juffa's erff, fdlibm's log1p. */
#include "codegen/llvm/llvm_emit.h"

struct math {
    struct emit *e;
    LLVMTypeRef f, i;
};

/* clang-format off */
#define PIECE(name, y_type, expression) \
    static LLVMValueRef name(const struct math *m, LLVMValueRef x, y_type y) { return expression; }
/* clang-format on */
static LLVMValueRef real(const struct math *m, double c) { return emit_real(m->f, c); }
static LLVMValueRef whole(const struct math *m, int64_t c) { return emit_int(m->i, (uint64_t)c); }
static LLVMValueRef absolute(const struct math *m, LLVMValueRef x) { return emit_call1(m->e, "llvm.fabs", x); }
PIECE(add, LLVMValueRef, LLVMBuildFAdd(m->e->b, x, y, ""))
PIECE(sub, LLVMValueRef, LLVMBuildFSub(m->e->b, x, y, ""))
PIECE(mul, LLVMValueRef, LLVMBuildFMul(m->e->b, x, y, ""))
PIECE(divide, LLVMValueRef, LLVMBuildFDiv(m->e->b, x, y, ""))
PIECE(iadd, LLVMValueRef, LLVMBuildAdd(m->e->b, x, y, ""))
PIECE(isub, LLVMValueRef, LLVMBuildSub(m->e->b, x, y, ""))
PIECE(shl, int64_t, LLVMBuildShl(m->e->b, x, whole(m, y), ""))
PIECE(sar, int64_t, LLVMBuildAShr(m->e->b, x, whole(m, y), ""))
PIECE(both, LLVMValueRef, LLVMBuildAnd(m->e->b, x, y, ""))
PIECE(with_sign, LLVMValueRef, emit_call2(m->e, "llvm.copysign", x, y))

static LLVMValueRef fma3(const struct math *m, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z)
{
    return emit_fma(m->e, x, y, z);
}
static LLVMValueRef pick(const struct math *m, LLVMValueRef p, LLVMValueRef x, LLVMValueRef y)
{
    return emit_pick(m->e, p, x, y);
}
static LLVMValueRef test(const struct math *m, LLVMRealPredicate p, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildFCmp(m->e->b, p, x, y, "");
}

/* Highest power first. */
static LLVMValueRef polynomial(const struct math *m, LLVMValueRef x, const double *c, size_t count)
{
    LLVMValueRef r = real(m, c[0]);
    for (size_t i = 1; i < count; i++) r = fma3(m, r, x, real(m, c[i]));
    return r;
}
#define POLYNOMIAL(m, x, ...) \
    polynomial((m), (x), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* NaN passes. */
static LLVMValueRef at_least(const struct math *m, LLVMValueRef x, double low)
{
    return pick(m, test(m, LLVMRealOGT, real(m, low), x), real(m, low), x);
}
static LLVMValueRef at_most(const struct math *m, LLVMValueRef x, double high)
{
    return pick(m, test(m, LLVMRealOLT, real(m, high), x), real(m, high), x);
}
static LLVMValueRef clamp(const struct math *m, LLVMValueRef x, double low, double high)
{
    return at_most(m, at_least(m, x, low), high);
}

static struct math math_of(struct emit *e, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    return (struct math){e, type, emit_shaped(type, e->i32)};
}

static struct math wide_of(const struct math *m)
{
    return (struct math){m->e, emit_shaped(m->f, m->e->f64), emit_shaped(m->f, m->e->i64)};
}

/* ---------------------------------------------------------------- exponentials */

/* x rounded to a whole number n of ln2. Adding 1.5 * 2^23 rounds to an integer that then stands in the low bits, plus
 * `bias`, which shall be even; unlike a conversion it is defined for NaN. Shifted to where exponents are, nothing is
 * left of the rest. */
static LLVMValueRef whole_ln2(const struct math *m, LLVMValueRef x, double bias, LLVMValueRef *bits)
{
    LLVMValueRef magic = real(m, 12582912.0 + bias), t = fma3(m, x, real(m, 1.44269504088896341), magic);
    *bits = emit_bits(m->e, t);
    return sub(m, t, magic);
}

/* x - n ln2, at most ln2/2, with ln2 in two parts: the product with the first one is exact. */
static LLVMValueRef rest_of_ln2(const struct math *m, LLVMValueRef x, LLVMValueRef n)
{
    return fma3(m, n, real(m, 2.12194440e-4), fma3(m, n, real(m, -0.693359375), x));
}

/* e^r for |r| <= ln2/2, to 3e-9: a minimax polynomial whose first two coefficients are 1. */
static LLVMValueRef exp_of_rest(const struct math *m, LLVMValueRef r)
{
    return POLYNOMIAL(m, r, 1.38144673e-3, 8.36878084e-3, 4.16683927e-2, 1.66665196e-1, 4.99999940e-1, 1.0, 1.0);
}

static LLVMValueRef math_exp(const struct math *m, LLVMValueRef x)
{
    LLVMValueRef bits;
    x = clamp(m, x, -104.0, 89.0);
    LLVMValueRef n = whole_ln2(m, x, 254.0, &bits), y = exp_of_rest(m, rest_of_ln2(m, x, n));
    if (emit_has_scale(m->e, m->f)) return emit_scale(m->e, y, n);
    /* In two steps, so that neither factor leaves the range while the product may become denormal or infinite. The bias
     * is that of two exponents. */
    LLVMValueRef half = shl(m, LLVMBuildLShr(m->e->b, bits, whole(m, 1), ""), 23);
    y = mul(m, y, emit_from_bits(m->e, half));
    return mul(m, y, emit_from_bits(m->e, isub(m, shl(m, bits, 23), half)));
}

/* Of -87 <= x <= 88, where 2^n may be added to the exponent; its relative error grows by n * 2e-9. NaN gives anything.
 */
static LLVMValueRef exp_within_range(const struct math *m, LLVMValueRef x)
{
    LLVMValueRef bits, n = whole_ln2(m, x, 0.0, &bits);
    LLVMValueRef y = exp_of_rest(m, fma3(m, n, real(m, -0.69314718055994530942), x));
    return emit_from_bits(m->e, iadd(m, emit_bits(m->e, y), shl(m, bits, 23)));
}

static LLVMValueRef math_expm1(const struct math *m, LLVMValueRef x)
{
    LLVMValueRef bits, limited = clamp(m, x, -25.0, 89.0);
    LLVMValueRef n = whole_ln2(m, limited, 126.0, &bits), r = rest_of_ln2(m, limited, n);
    /* (e^r - 1 - r) / r^2 */
    LLVMValueRef p = POLYNOMIAL(m, r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                                1.6666665459e-1, 5.0000001201e-1);
    p = fma3(m, p, mul(m, r, r), r);
    /* 2^n p + (2^n - 1), all halved because 2^128 is out of range. */
    LLVMValueRef scale = emit_from_bits(m->e, shl(m, bits, 23));
    LLVMValueRef y = fma3(m, scale, p, sub(m, scale, real(m, 0.5)));
    y = add(m, y, y);
    return pick(m, test(m, LLVMRealOLT, absolute(m, x), real(m, 1e-5)), fma3(m, mul(m, x, x), real(m, 0.5), x), y);
}

static LLVMValueRef math_tanh(const struct math *m, LLVMValueRef x)
{
    LLVMValueRef a = absolute(m, x), z = mul(m, x, x), one = real(m, 1.0);
    LLVMValueRef p = POLYNOMIAL(m, z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
                                -3.33332819422e-1);
    LLVMValueRef small = fma3(m, mul(m, p, z), x, x);
    LLVMValueRef b = at_most(m, a, 9.1), e = exp_within_range(m, add(m, b, b)); /* from there on it is 1 */
    LLVMValueRef large = sub(m, one, divide(m, real(m, 2.0), add(m, e, one)));
    return pick(m, test(m, LLVMRealOGE, a, real(m, 0.625)), with_sign(m, large, x), small); /* NaN is small */
}

/* ---------------------------------------------------------------- logarithms */

/* bits of x > 0 = m * 2^k, m in [sqrt(1/2), sqrt(2)) */
static LLVMValueRef split(const struct math *m, LLVMValueRef x, LLVMValueRef *k)
{
    LLVMValueRef bits = emit_bits(m->e, x);
    *k = sar(m, isub(m, bits, whole(m, 0x3f3504f3)), 23);
    return emit_from_bits(m->e, isub(m, bits, shl(m, *k, 23)));
}

/* log(1 + f) + k ln2 + c for f in [sqrt(1/2) - 1, sqrt(2) - 1] */
static LLVMValueRef log_sum(const struct math *m, LLVMValueRef f, LLVMValueRef k, LLVMValueRef c)
{
    LLVMValueRef z = mul(m, f, f);
    LLVMValueRef y = POLYNOMIAL(m, f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
                                1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1);
    y = mul(m, mul(m, y, f), z);
    y = fma3(m, k, real(m, -2.12194440e-4), y);
    y = fma3(m, z, real(m, -0.5), y);
    if (c) y = add(m, y, c);
    return fma3(m, k, real(m, 0.693359375), add(m, f, y));
}

/* `y` for 0 < x < infinity; the ends otherwise. */
static LLVMValueRef log_ends(const struct math *m, LLVMValueRef x, LLVMValueRef y)
{
    double infinity = __builtin_inf();
    LLVMValueRef zero = real(m, 0.0), below = pick(m, test(m, LLVMRealOLT, x, zero), real(m, __builtin_nan("")), x);
    below = pick(m, test(m, LLVMRealOEQ, x, zero), real(m, -infinity), below);
    LLVMValueRef inside = both(m, test(m, LLVMRealOGT, x, zero), test(m, LLVMRealOLT, x, real(m, infinity)));
    return pick(m, inside, y, below);
}

static LLVMValueRef math_log(const struct math *m, LLVMValueRef x)
{
    LLVMValueRef tiny = test(m, LLVMRealOLT, x, real(m, 0x1p-126)), k;
    LLVMValueRef f = split(m, pick(m, tiny, mul(m, x, real(m, 0x1p23)), x), &k);
    LLVMValueRef k_real = LLVMBuildSIToFP(m->e->b, k, m->f, "");
    k_real = sub(m, k_real, pick(m, tiny, real(m, 23.0), real(m, 0.0)));
    return log_ends(m, x, log_sum(m, sub(m, f, real(m, 1.0)), k_real, NULL));
}

static LLVMValueRef math_log1p(const struct math *m, LLVMValueRef x)
{
    LLVMValueRef one = real(m, 1.0), u = add(m, x, one), k;
    LLVMValueRef f = sub(m, split(m, u, &k), one);
    LLVMValueRef k_real = LLVMBuildSIToFP(m->e->b, k, m->f, "");
    /* what rounding 1 + x lost */
    LLVMValueRef lost = pick(m, test(m, LLVMRealOGE, k_real, real(m, 2.0)), sub(m, one, sub(m, u, x)),
                             sub(m, x, sub(m, u, one)));
    LLVMValueRef y = log_ends(m, u, log_sum(m, f, k_real, divide(m, lost, u)));
    return pick(m, test(m, LLVMRealOLT, absolute(m, x), real(m, 1e-5)), fma3(m, mul(m, x, x), real(m, -0.5), x), y);
}

/* ---------------------------------------------------------------- error function */

static LLVMValueRef math_erf(const struct math *m, LLVMValueRef x)
{
    LLVMValueRef t = absolute(m, x), s = mul(m, x, x);
    LLVMValueRef r = fma3(m, real(m, -1.72853470e-5), t, real(m, 3.83197126e-4));
    LLVMValueRef u = fma3(m, real(m, -3.88396438e-3), t, real(m, 2.42546219e-2));
    r = fma3(m, r, s, u);
    r = fma3(m, r, t, real(m, -1.06777877e-1));
    r = fma3(m, r, t, real(m, -6.34846687e-1));
    r = fma3(m, r, t, real(m, -1.28717512e-1));
    r = fma3(m, r, t, LLVMBuildFNeg(m->e->b, t, ""));
    r = exp_within_range(m, at_least(m, r, -87.0));
    LLVMValueRef large = with_sign(m, sub(m, real(m, 1.0), r), x);
    LLVMValueRef p = POLYNOMIAL(m, s, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
                                1.28379166e-1);
    return pick(m, test(m, LLVMRealOGT, t, real(m, 0.927734375)), large, fma3(m, p, x, x));
}

/* ---------------------------------------------------------------- sine and cosine */

static LLVMValueRef any(const struct math *m, LLVMValueRef p)
{
    LLVMTypeRef type = LLVMTypeOf(p);
    return emit_lane_count(type) ? emit_intrinsic(m->e, "llvm.vector.reduce.or", &type, 1, &p, 1) : p;
}

/* The quadrant and the rest by f64 arithmetic, with pi/2 in three parts; good to 2^20 quadrants. */
static LLVMValueRef quadrant(const struct math *m, LLVMValueRef x, LLVMValueRef *n)
{
    struct math w = wide_of(m);
    LLVMValueRef wide = LLVMBuildFPExt(m->e->b, x, w.f, ""), magic = real(&w, 6755399441055744.0);
    LLVMValueRef t = add(&w, mul(&w, wide, real(&w, 0.63661977236758134308)), magic);
    *n = LLVMBuildTrunc(m->e->b, emit_bits(m->e, t), m->i, "");
    t = sub(&w, t, magic);
    LLVMValueRef r = fma3(&w, t, real(&w, -1.57079632673412561417e+00), wide);
    r = fma3(&w, t, real(&w, -6.07710050630396597660e-11), r);
    r = fma3(&w, t, real(&w, -2.02226624879595063154e-21), r);
    return LLVMBuildFPTrunc(m->e->b, r, m->f, "");
}

static LLVMValueRef sine_cosine(const struct math *m, LLVMValueRef x, bool cosine)
{
    LLVMBuilderRef b = m->e->b;
    LLVMValueRef n, r = quadrant(m, x, &n), z = mul(m, r, r);
    LLVMValueRef s = POLYNOMIAL(m, z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1);
    s = fma3(m, mul(m, s, z), r, r);
    LLVMValueRef c = POLYNOMIAL(m, z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2);
    c = fma3(m, mul(m, c, z), z, fma3(m, z, real(m, -0.5), real(m, 1.0)));
    if (cosine) n = iadd(m, n, whole(m, 1));
    LLVMValueRef odd = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, n, whole(m, 1), ""), whole(m, 0), "");
    LLVMValueRef y = pick(m, odd, c, s);
    LLVMValueRef flip = shl(m, LLVMBuildAnd(b, n, whole(m, 2), ""), 30);
    y = emit_from_bits(m->e, LLVMBuildXor(b, emit_bits(m->e, y), flip, ""));
    /* Huge arguments need pi to hundreds of bits: libm has them. */
    LLVMValueRef size = absolute(m, x), infinity = real(m, __builtin_inf());
    LLVMValueRef huge = any(m, both(m, test(m, LLVMRealOGT, size, real(m, 1e6)), test(m, LLVMRealOLT, size, infinity)));
    struct emit_branch branch = emit_if(m->e, huge);
    return emit_endif_pick(m->e, branch, emit_libm(m->e, cosine ? "cosf" : "sinf", &x, 1), y);
}

/* ---------------------------------------------------------------- powers, through f64 */

/* log2 of x > 0 to about 2^-42: the series of atanh((m - 1) / (m + 1)). Integers travel in the low bits of doubles
 * because few instruction sets convert 64-bit ones. */
static LLVMValueRef wide_log2(const struct math *w, LLVMValueRef x)
{
    LLVMBuilderRef b = w->e->b;
    LLVMValueRef bits = emit_bits(w->e, x);
    LLVMValueRef k = LLVMBuildLShr(b, iadd(w, bits, whole(w, 0x3ff0000000000000 - 0x3fe6a09e667f3bcd)), whole(w, 52),
                                   "");
    LLVMValueRef mantissa = emit_from_bits(w->e, isub(w, bits, shl(w, isub(w, k, whole(w, 1023)), 52)));
    LLVMValueRef k_real = sub(w, emit_from_bits(w->e, LLVMBuildOr(b, k, whole(w, 0x4330000000000000), "")),
                              real(w, 4503599627370496.0 + 1023.0));
    LLVMValueRef one = real(w, 1.0), s = divide(w, sub(w, mantissa, one), add(w, mantissa, one)), z = mul(w, s, s);
    LLVMValueRef p = POLYNOMIAL(w, z, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0);
    return fma3(w, mul(w, p, s), real(w, 2.88539008177792681472), k_real);
}

/* 2^x as f32 would hold it, ends included. */
static LLVMValueRef wide_exp2(const struct math *w, LLVMValueRef x)
{
    LLVMValueRef magic = real(w, 6755399441055744.0), limited = clamp(w, x, -200.0, 200.0);
    LLVMValueRef t = add(w, limited, magic);
    LLVMValueRef r = mul(w, sub(w, limited, sub(w, t, magic)), real(w, 0.69314718055994530942));
    LLVMValueRef p = POLYNOMIAL(w, r, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                                1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
    return emit_from_bits(w->e, iadd(w, emit_bits(w->e, p), shl(w, emit_bits(w->e, t), 52)));
}

/* log2 |x| with its ends. */
static LLVMValueRef wide_log2_of(const struct math *m, const struct math *w, LLVMValueRef x)
{
    LLVMValueRef a = LLVMBuildFPExt(m->e->b, absolute(m, x), w->f, ""), infinity = real(w, __builtin_inf());
    LLVMValueRef l = wide_log2(w, a);
    l = pick(w, test(w, LLVMRealOEQ, a, real(w, 0.0)), real(w, -__builtin_inf()), l);
    return pick(w, test(w, LLVMRealULT, a, infinity), l, a);
}

static LLVMValueRef math_log2(const struct math *m, LLVMValueRef x)
{
    struct math w = wide_of(m);
    LLVMValueRef y = LLVMBuildFPTrunc(m->e->b, wide_log2(&w, LLVMBuildFPExt(m->e->b, x, w.f, "")), m->f, "");
    return log_ends(m, x, y);
}

/* C's pow, special cases included. */
static LLVMValueRef math_pow(const struct math *m, LLVMValueRef x, LLVMValueRef y)
{
    struct math w = wide_of(m);
    LLVMBuilderRef b = m->e->b;
    LLVMValueRef zero = real(m, 0.0), one = real(m, 1.0), nan = real(m, __builtin_nan(""));
    LLVMValueRef l = wide_log2_of(m, &w, x), wide_y = LLVMBuildFPExt(b, y, w.f, "");
    LLVMValueRef t = mul(&w, l, wide_y);
    t = pick(&w, test(&w, LLVMRealOEQ, l, real(&w, 0.0)), real(&w, 0.0), t);
    LLVMValueRef r = LLVMBuildFPTrunc(b, wide_exp2(&w, t), m->f, "");
    LLVMValueRef half = mul(m, y, real(m, 0.5));
    LLVMValueRef fraction = test(m, LLVMRealUNE, emit_call1(m->e, "llvm.floor", y), y);
    LLVMValueRef odd = both(m, test(m, LLVMRealUNE, emit_call1(m->e, "llvm.floor", half), half),
                            LLVMBuildNot(b, fraction, ""));
    r = pick(m, odd, with_sign(m, r, x), r);
    LLVMValueRef negative = both(m, test(m, LLVMRealOLT, x, zero), test(m, LLVMRealOGT, x, real(m, -__builtin_inf())));
    r = pick(m, both(m, negative, fraction), nan, r);
    r = pick(m, test(m, LLVMRealUNO, x, y), nan, r);
    LLVMValueRef unit = LLVMBuildOr(b, test(m, LLVMRealOEQ, x, one), test(m, LLVMRealOEQ, y, zero), "");
    return pick(m, unit, one, r);
}

/* Integer powers through double: exact while the result has at most 53 bits. */
static LLVMValueRef integer_power(const struct emit_scalar *c)
{
    struct emit *e = c->e;
    LLVMTypeRef wide = emit_shaped(LLVMTypeOf(c->x[0]), e->f64), types[] = {LLVMTypeOf(c->x[0]), wide};
    bool is_signed = ir_dtype_is_signed(c->operand);
    LLVMValueRef args[2];
    for (int i = 0; i < 2; i++)
        args[i] = is_signed ? LLVMBuildSIToFP(e->b, c->x[i], wide, "") : LLVMBuildUIToFP(e->b, c->x[i], wide, "");
    LLVMValueRef r = emit_libm(e, "pow", args, 2);
    return emit_intrinsic(e, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2, &r, 1);
}

/* ---------------------------------------------------------------- angles */

/* The angle of (x, y), that of the smaller side over the larger one, 0 to pi/4, turned into its octant; the polynomial
 * is the best of degree 8 in the quotient's square by relative error, 2.6e-9. Of equal sides the quotient is 1, as of
 * infinite ones, of none 0. */
static LLVMValueRef math_atan2(const struct math *m, LLVMValueRef y, LLVMValueRef x)
{
    LLVMValueRef ax = absolute(m, x), ay = absolute(m, y), zero = real(m, 0.0);
    LLVMValueRef steep = test(m, LLVMRealOGT, ay, ax);
    LLVMValueRef side = pick(m, steep, ax, ay), long_side = pick(m, steep, ay, ax);
    LLVMValueRef q = divide(m, side, long_side);
    q = pick(m, test(m, LLVMRealOEQ, ax, ay), real(m, 1.0), q);
    q = pick(m, test(m, LLVMRealOEQ, side, zero), zero, q);
    LLVMValueRef z = mul(m, q, q);
    LLVMValueRef p = POLYNOMIAL(m, z, -0.0017936197109520435, 0.010914597660303116, -0.031177831813693047,
                                0.05795758217573166, -0.0840344950556755, 0.10952185839414597, -0.14264242351055145,
                                0.19998548924922943, -0.33333298563957214);
    LLVMValueRef r = fma3(m, mul(m, p, z), q, q);
    r = pick(m, steep, add(m, sub(m, real(m, 1.57079637050628662), r), real(m, -4.37113882867379e-8)), r);
    LLVMValueRef back = LLVMBuildICmp(m->e->b, LLVMIntSLT, emit_bits(m->e, x), whole(m, 0), "");
    r = pick(m, back, add(m, sub(m, real(m, 3.14159274101257324), r), real(m, -8.74227765734759e-8)), r);
    return pick(m, test(m, LLVMRealUNO, x, y), real(m, __builtin_nan("")), with_sign(m, r, y));
}

/* ---------------------------------------------------------------- rules */

static bool is_wide(const struct emit_scalar *c) { return c->operand == IR_F64; }

/* libm's function of the same name in f64. */
#define FUNCTION(name, narrow) \
    LLVMValueRef emit_##name(const struct emit_scalar *c) \
    { \
        const LLVMValueRef *x = c->x; \
        struct math of = math_of(c->e, x[0]), *m = &of; \
        return is_wide(c) ? emit_libm(c->e, #name, x, (uint32_t)ir_ops[c->op].args) : narrow; \
    }

FUNCTION(exp, math_exp(m, x[0]))
FUNCTION(expm1, math_expm1(m, x[0]))
FUNCTION(log, math_log(m, x[0]))
FUNCTION(log1p, math_log1p(m, x[0]))
FUNCTION(log2, math_log2(m, x[0]))
FUNCTION(tanh, math_tanh(m, x[0]))
FUNCTION(sin, sine_cosine(m, x[0], false))
FUNCTION(cos, sine_cosine(m, x[0], true))
FUNCTION(erf, math_erf(m, x[0]))
FUNCTION(atan2, math_atan2(m, x[0], x[1]))
FUNCTION(pow, ir_dtype_is_float(c->operand) ? math_pow(m, x[0], x[1]) : integer_power(c))

LLVMValueRef emit_logistic(const struct emit_scalar *c)
{
    struct math m = math_of(c->e, c->x[0]);
    LLVMValueRef minus = LLVMBuildFNeg(c->e->b, c->x[0], ""), one = real(&m, 1.0);
    return divide(&m, one, add(&m, one, is_wide(c) ? emit_libm(c->e, "exp", &minus, 1) : math_exp(&m, minus)));
}

bool emit_can_divide_steady(const struct emit_scalar *c)
{
    uint32_t lanes = emit_lane_count(LLVMTypeOf(c->x[0]));
    LLVMTypeRef type = LLVMTypeOf(c->x[0]);
    return c->e->has_fma && lanes >= 4 && LLVMGetElementType(type) == c->e->f32;
}

/* x / y as x times the reciprocal r of y, which LLVM makes before the loop in which y does not change, and one step
 * that rounds it as a division is (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000
 * processor", 1990). The last bit may be another one below 2^-101, where the rest of x is no normal number. Of y above
 * 2^126, whose reciprocal is none, a fourth is taken, and of x. Where a factor is not finite, or the quotient a zero, x
 * * r is it. */
LLVMValueRef emit_divide_steady(const struct emit_scalar *c)
{
    struct math m = math_of(c->e, c->x[0]);
    LLVMValueRef y = c->x[1];
    LLVMValueRef part = pick(&m, test(&m, LLVMRealOGT, absolute(&m, y), real(&m, 0x1p126)), real(&m, 0.25),
                             real(&m, 1.0));
    y = mul(&m, y, part);
    LLVMValueRef r = divide(&m, real(&m, 1.0), y), x = mul(&m, c->x[0], part), q = mul(&m, x, r);
    LLVMValueRef rest = fma3(&m, q, y, LLVMBuildFNeg(m.e->b, x, ""));
    LLVMValueRef better = fma3(&m, LLVMBuildFNeg(m.e->b, rest, ""), r, q);
    return pick(&m, test(&m, LLVMRealONE, better, real(&m, 0.0)), better, q);
}

LLVMValueRef emit_sqrt(const struct emit_scalar *c) { return emit_call1(c->e, "llvm.sqrt", c->x[0]); }

LLVMValueRef emit_rsqrt(const struct emit_scalar *c)
{
    struct math m = math_of(c->e, c->x[0]);
    return divide(&m, real(&m, 1.0), emit_sqrt(c));
}
