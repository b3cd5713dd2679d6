/* The inlined elementary functions against libm in double precision: the largest error in units in the last place over
 * floats of the whole range. Every 1021st float by default; STEPC_TEST_FLOAT_STRIDE=1 takes every one (minutes). */
#include "emit_harness.h"
#include "tests/unit/suite.h"
#include <math.h>
#include <stdio.h>
#include <xmmintrin.h>

static struct arena arena;

static double one_over_sqrt(double x) { return 1 / sqrt(x); }
static double sigmoid(double x) { return x < -700 ? 0 : 1 / (1 + exp(-x)); }

static const struct function {
    enum ir_op op;
    double (*exact)(double);
    double ulps, ulps_without_fma;
} functions[] = {
    {OP_exp, exp, 0.9, 1.2},          {OP_expm1, expm1, 1.6, 2.1}, {OP_log, log, 0.9, 1.5},
    {OP_log1p, log1p, 1.5, 2.0},      {OP_log2, log2, 0.6, 0.6},   {OP_tanh, tanh, 1.4, 1.4},
    {OP_logistic, sigmoid, 2.5, 2.5}, {OP_erf, erf, 1.05, 1.5},    {OP_sin, sin, 1.6, 1.6},
    {OP_cos, cos, 1.6, 1.6},          {OP_sqrt, sqrt, 0.5, 0.5},   {OP_rsqrt, one_over_sqrt, 1.5, 1.5},
};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions, BLOCK = 1 << 12 };

static struct nest *map(enum ir_op op, uint32_t args)
{
    struct nest_builder b;
    struct nest *nest = nest_new(&arena);
    nest_builder_init(&b, nest);
    nest->flat = true;
    nest_value v[2];
    uint32_t in[2];
    for (uint32_t i = 0; i < args; i++) in[i] = nest_argument(&b, IR_F32, false, "x");
    uint32_t y = nest_argument(&b, IR_F32, true, "y");
    nest_var i = nest_open(&b, NEST_VECTOR, -1);
    for (uint32_t k = 0; k < args; k++) v[k] = nest_load(&b, in[k], AT(&arena, 0, {i, 1}), 0);
    nest_store(&b, y, AT(&arena, 0, {i, 1}), nest_op(&b, op, IR_F32, v, args), 0);
    nest_close(&b);
    return nest;
}

/* Distance in units in the last place of the float nearest to `want`; results below the normal range may be zero, as
 * they are where denormals are flushed. */
static double ulps(float got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    float near = (float)want;
    if (isnan(got)) return INFINITY;
    if (isinf(near) || isinf(got))
        return near == got ? 0 : fabs(want) > 0x1.fffffep127 && fabsf(got) > 0x1.fffffcp127f ? 1 : INFINITY;
    if (got == 0 && fabs(want) < 0x1p-126) return 0;
    int exponent;
    frexp(want, &exponent);
    double last = ldexp(1, exponent < -125 ? -149 : exponent - 24);
    return fabs((double)got - want) / last;
}

static double worst(kernel_fn *kernel, const struct function *f, uint32_t stride)
{
    static float x[BLOCK], y[BLOCK];
    double largest = 0;
    float at = 0;
    uint32_t count = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += stride) {
        uint32_t b = (uint32_t)bits;
        memcpy(&x[count++], &b, 4);
        if (count < BLOCK && bits + stride <= UINT32_MAX) continue;
        kernel((void *[]){x, y}, 0, count, NULL);
        for (uint32_t i = 0; i < count; i++) {
            double error = ulps(y[i], f->exact((double)x[i]));
            if (error > largest) {
                largest = error;
                at = x[i];
            }
        }
        count = 0;
    }
    printf("%-9s %.3f ulp at %.9g (%a)\n", ir_ops[f->op].name, largest, (double)at, (double)at);
    return largest;
}

static void check_all(const char *cpu, bool fma)
{
    struct cg_target target = harness_target(&arena, cpu, 2);
    struct nest *nests[FUNCTION_COUNT];
    for (size_t i = 0; i < FUNCTION_COUNT; i++) nests[i] = map(functions[i].op, 1);
    struct harness h = harness_open(&arena, &target, nests, FUNCTION_COUNT);
    const char *stride = getenv("STEPC_TEST_FLOAT_STRIDE");
    bool failed = false;
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        failed |= !(worst(h.kernels[i], &functions[i], stride ? (uint32_t)atoi(stride) : 1021) <=
                    (fma ? functions[i].ulps : functions[i].ulps_without_fma));
    ck_assert(!failed);
}

START_TEST(native_errors) { check_all("native", __builtin_cpu_supports("fma")); }
END_TEST

START_TEST(narrow_errors) { check_all("x86-64-v2", false); }
END_TEST

START_TEST(every_function_has_a_bound)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        bool found = ir_ops[op].emit != EMIT_ewise || ir_ops[op].cost < 12 || ir_ops[op].args != 1;
        for (size_t i = 0; i < FUNCTION_COUNT; i++) found |= functions[i].op == (enum ir_op)op;
        ck_assert_msg(found, "op %s has no largest error in this file", ir_ops[op].name);
    }
}
END_TEST

START_TEST(powers_of_two)
{
    static float x[277], y[277];
    struct nest *nest = map(OP_log2, 1);
    struct cg_target target = harness_target(&arena, "native", 2);
    struct harness h = harness_open(&arena, &target, &nest, 1);
    for (int i = 0; i < 277; i++) x[i] = ldexpf(1, i - 149);
    h.kernels[0]((void *[]){x, y}, 0, 277, NULL);
    for (int i = 0; i < 277; i++) ck_assert_double_eq((double)y[i], i - 149);
}
END_TEST

/* Of numbers that a step takes for zeros, too: a zero of their sign, not the number. */
START_TEST(signs)
{
    static const float x[] = {1e-40f, -1e-40f, 0.0f, -0.0f, 3e-38f, -2, INFINITY, -INFINITY, NAN, -1e-45f},
                       want[] = {0.0f, -0.0f, 0.0f, -0.0f, 1, -1, 1, -1, NAN, -0.0f};
    enum { N = sizeof x / sizeof *x };
    static const char *const cpus[] = {"native", "x86-64-v2"};
    struct nest *nest = map(OP_sign, 1);
    for (int cpu = 0; cpu < 2; cpu++) {
        struct cg_target target = harness_target(&arena, cpus[cpu], 2);
        struct harness h = harness_open(&arena, &target, &nest, 1);
        static float y[N];
        unsigned before = _mm_getcsr();
        _mm_setcsr(before | 0x8040); /* as the runtime has it: denormals are zeros, and become zeros */
        h.kernels[0]((void *[]){(void *)(uintptr_t)x, y}, 0, N, NULL);
        _mm_setcsr(before);
        for (int i = 0; i < N; i++)
            ck_assert_msg(isnan(want[i]) ? isnan(y[i]) : memcmp(&y[i], &want[i], sizeof *y) == 0,
                          "sign of %a is %a, expected %a", (double)x[i], (double)y[i], (double)want[i]);
    }
}
END_TEST

/* By a divisor that stays, in every bit: of all sizes, of what is no number, of zeros with their signs. Below 2^-101
 * the last bit may differ. */
static void check_steady(const char *cpu)
{
    enum { N = 640, DIVISORS = 3000 };
    static const float ends[] = {0.0f,      -0.0f,      INFINITY,        -INFINITY, NAN,
                                 0x1p126f,  0x1.8p126f, 0x1.fffffep126f, -0x1p127f, 0x1.fffffep127f,
                                 0x1p-126f, -0x1p-125f, 1e-40f,          1};
    enum { ENDS = sizeof ends / sizeof *ends };
    static float x[N], y[N], want[N], divisor;
    struct nest_builder b;
    struct nest *nest = nest_new(&arena);
    nest_builder_init(&b, nest);
    nest->flat = true;
    uint32_t in = nest_argument(&b, IR_F32, false, "x"), by = nest_argument(&b, IR_F32, false, "divisor");
    uint32_t out = nest_argument(&b, IR_F32, true, "y");
    nest_value v[2] = {0, nest_load(&b, by, (struct nest_index){0}, 0)};
    nest_var i = nest_open(&b, NEST_VECTOR, -1);
    v[0] = nest_load(&b, in, AT(&arena, 0, {i, 1}), 0);
    nest_store(&b, out, AT(&arena, 0, {i, 1}), nest_op(&b, OP_div, IR_F32, v, 2), 0);
    nest_close(&b);
    struct cg_target target = harness_target(&arena, cpu, 2);
    struct harness h = harness_open(&arena, &target, &nest, 1);
    uint32_t bits = 1;
    for (int k = 0; k < DIVISORS; k++) {
        for (int j = 0; j < N; j++) {
            bits = bits * 1664525u + 1013904223u;
            if (j < ENDS) x[j] = ends[j];
            else memcpy(&x[j], &bits, sizeof bits);
        }
        memcpy(&divisor, &bits, sizeof bits);
        if (k < ENDS) divisor = ends[k];
        unsigned before = _mm_getcsr();
        _mm_setcsr(before | 0x8040);
        for (int j = 0; j < N; j++) want[j] = *(volatile float *)&x[j] / divisor;
        h.kernels[0]((void *[]){x, &divisor, y}, 0, N, NULL);
        _mm_setcsr(before);
        for (int j = 0; j < N; j++) {
            bool same = isnan(want[j]) ? isnan(y[j]) : memcmp(&y[j], &want[j], sizeof *y) == 0;
            if (!same && fabsf(x[j]) < 0x1p-101f) same = fabsf(y[j] - want[j]) <= fabsf(want[j]) * 0x1p-23f;
            ck_assert_msg(same, "%a / %a is %a, expected %a", (double)x[j], (double)divisor, (double)y[j],
                          (double)want[j]);
        }
    }
}

START_TEST(steady_divisors)
{
    if (__builtin_cpu_supports("fma")) check_steady("x86-64-v3");
    check_steady("native");
    check_steady("x86-64-v2");
}
END_TEST

/* The ends: infinities, NaN, zeros and their signs, odd and even powers, all octants; and pairs of any size. */
static void check_pairs(const char *cpu, enum ir_op op, double (*exact)(double, double), double bound)
{
    static const float numbers[] = {0.0f, -0.0f,      1,           -1,    2,      -2,       3,         -3,
                                    0.5f, -0.5f,      1.5f,        -1.5f, 1e10f,  -1e10f,   1e-10f,    0.1f,
                                    0.9f, 0.999f,     100,         -100,  1e30f,  INFINITY, -INFINITY, NAN,
                                    7,    0.3333333f, 16777217.0f, 33,    127.5f, -126};
    enum { N = sizeof numbers / sizeof *numbers, MORE = 100000, ALL = N * N + MORE };
    static float x[ALL], y[ALL], z[ALL];
    struct nest *nest = map(op, 2);
    struct cg_target target = harness_target(&arena, cpu, 2);
    struct harness h = harness_open(&arena, &target, &nest, 1);
    uint64_t state = 1;
    for (size_t i = 0; i < ALL; i++)
        if (i < N * N) x[i] = numbers[i / N], y[i] = numbers[i % N];
        else {
            state = state * 6364136223846793005u + 1442695040888963407u;
            x[i] = ldexpf((float)(int16_t)(state >> 48) / 32768, (int)(state >> 40 & 15) - 8);
            y[i] = (float)(int16_t)(state >> 24 & 0xffff) / 8192;
        }
    h.kernels[0]((void *[]){x, y, z}, 0, ALL, NULL);
    for (size_t i = 0; i < ALL; i++) {
        double want = exact((double)x[i], (double)y[i]);
        ck_assert_msg(ulps(z[i], want) <= bound, "%s(%g, %g) = %.9g, want %.9g", ir_ops[op].name, (double)x[i],
                      (double)y[i], (double)z[i], want);
        ck_assert_msg(isnan(want) || !signbit(z[i]) == !signbit(want), "sign of %s(%g, %g)", ir_ops[op].name,
                      (double)x[i], (double)y[i]);
    }
}

START_TEST(powers) { check_pairs("native", OP_pow, pow, 0.6); }
END_TEST

START_TEST(angles)
{
    check_pairs("native", OP_atan2, atan2, __builtin_cpu_supports("fma") ? 1.7 : 2.7);
    check_pairs("x86-64-v2", OP_atan2, atan2, 2.7);
}
END_TEST

int main(void)
{
    __builtin_cpu_init();
    return run_case("math", CASE_OF(0, native_errors, narrow_errors, every_function_has_a_bound, powers_of_two, signs,
                                    steady_divisors, powers, angles));
}
