/* The interpreter against values worked out by hand or taken from XLA: dtypes, edges, control. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ir/ir.h"
#include "tests/unit/suite.h"

static struct ir_module *module;
static struct ir_builder b;
static struct arena arena;

static void setup(void)
{
    module = ir_module_new("test");
    b = (struct ir_builder){.f = ir_func_new(module, "main", true)};
}

static void teardown(void)
{
    ir_module_free(module);
    arena_free(&arena);
}

static ir_value vector(enum ir_dtype dtype, int64_t n, const double *v)
{
    struct ir_type type = ir_type_of(dtype, 1, &n);
    char data[256] = {0};
    for (int64_t i = 0; i < n; i++) ir_element_set(dtype, data, (size_t)i, v[i]);
    return ir_constant(&b, type, data);
}

/* An operand that the builder cannot fold. */
static double given[16][64];
static ir_value input(enum ir_dtype dtype, uint32_t rank, const int64_t *shape, const double *v)
{
    struct ir_type type = ir_type_of(dtype, rank, shape);
    size_t at = b.f->params.count;
    memcpy(given[at], v, (size_t)ir_type_elements(&type) * sizeof(double));
    return ir_param_new(&b, "x", type, -1);
}
#define INPUT(dtype, ...) \
    input(dtype, 1, (int64_t[]){sizeof((double[]){__VA_ARGS__}) / sizeof(double)}, (double[]){__VA_ARGS__})

static double *result_of(ir_value v, enum ir_precision precision)
{
    struct ir_tensor params[16], *results = arena_new_array(&arena, struct ir_tensor, b.f->results.count + 1);
    ir_result_add(&b, "y", v, -1);
    for (size_t i = 0; i < b.f->params.count; i++) params[i] = (struct ir_tensor){b.f->params.items[i].type, given[i]};
    ir_eval(b.f, precision, params, results, &arena);
    return results[b.f->results.count - 1].v;
}

static void expect(ir_value v, const double *expected, size_t n)
{
    double *found = result_of(v, IR_EVAL_EXACT_DTYPES);
    ck_assert_int_eq(ir_type_elements(ir_type(b.f, v)), (int64_t)n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(found[i] == expected[i] || (isnan(found[i]) && isnan(expected[i])),
                      "element %zu: %.17g, expected %.17g", i, found[i], expected[i]);
}
#define EXPECT(v, ...) expect(v, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

START_TEST(rounding)
{
    ir_value x = INPUT(IR_F32, 1, 0.1f, 16777216), y = INPUT(IR_F32, 3, 0.2f, 1);
    EXPECT(ir_binary(&b, OP_div, x, y), (double)(1.0f / 3), (double)(0.1f / 0.2f), 16777216);
    EXPECT(ir_binary(&b, OP_add, x, y), 4, (double)(0.1f + 0.2f), 16777216);
    ck_assert_double_eq(result_of(ir_binary(&b, OP_add, x, y), IR_EVAL_F64)[2], 16777217);
    ir_value h = INPUT(IR_F32, 1.00390625, 1.01171875, 65504 + 15, 65520, 1e-8, 3.0e-8, 1e39, 0x1p-134, NAN);
    EXPECT(ir_cast(&b, h, IR_BF16), 1, 1.015625, 65536, 65536, 0x1.58p-27, 0x1.02p-25, INFINITY, 0, NAN);
    EXPECT(ir_cast(&b, h, IR_F16), 1.00390625, 1.0117187500, 65504, INFINITY, 0, 0x1p-24, INFINITY, 0, NAN);
}
END_TEST

START_TEST(integers_wrap)
{
    ir_value x = INPUT(IR_I32, 7, -7, -2147483648.0, 2147483647), y = INPUT(IR_I32, 0, 2, -1, 2);
    EXPECT(ir_binary(&b, OP_div, x, y), -1, -3, -2147483648.0, 1073741823);
    EXPECT(ir_binary(&b, OP_rem, x, y), 7, -1, 0, 1);
    EXPECT(ir_binary(&b, OP_add, x, y), 7, -5, 2147483647, -2147483647);
    EXPECT(ir_binary(&b, OP_mul, x, y), 0, -14, -2147483648.0, -2);
    ir_value u = INPUT(IR_U32, 7, 4294967295.0, 0), v = INPUT(IR_U32, 0, 4294967295.0, 1);
    EXPECT(ir_binary(&b, OP_div, u, v), 4294967295.0, 1, 0);
    EXPECT(ir_binary(&b, OP_mul, u, v), 0, 1, 0);
    EXPECT(ir_binary(&b, OP_sub, u, v), 7, 0, 4294967295.0);
    EXPECT(ir_unary(&b, OP_neg, u), 4294967289.0, 1, 0);
    EXPECT(ir_unary(&b, OP_not, u), 4294967288.0, 0, 4294967295.0);
    EXPECT(ir_unary(&b, OP_not, x), -8, 6, 2147483647, -2147483648.0);
}
END_TEST

START_TEST(shifts)
{
    ir_value x = INPUT(IR_I32, 7, -7, -2147483648.0, 5), y = INPUT(IR_I32, 31, 32, 33, -1);
    EXPECT(ir_binary(&b, OP_shl, x, y), -2147483648.0, 0, 0, 0);
    EXPECT(ir_binary(&b, OP_shr, x, y), 0, -1, -1, 0);
    ir_value u = INPUT(IR_U32, 4294967295.0, 8, 8, 1), k = INPUT(IR_U32, 31, 1, 32, 31);
    EXPECT(ir_binary(&b, OP_shr, u, k), 1, 4, 0, 0);
    EXPECT(ir_binary(&b, OP_shl, u, k), 2147483648.0, 16, 0, 2147483648.0);
}
END_TEST

START_TEST(conversions)
{
    ir_value x = INPUT(IR_F32, -1.5, 300.7f, NAN, INFINITY, -INFINITY, 3e9f, 2.5);
    EXPECT(ir_cast(&b, x, IR_I32), -1, 300, 0, 2147483647, -2147483648.0, 2147483647, 2);
    EXPECT(ir_cast(&b, x, IR_U32), 0, 300, 0, 4294967295.0, 0, 3e9, 2);
    EXPECT(ir_cast(&b, x, IR_I8), -1, 127, 0, 127, -128, 127, 2);
    EXPECT(ir_cast(&b, x, IR_BOOL), 1, 1, 1, 1, 1, 1, 1);
    ir_value i = INPUT(IR_I32, -1, 256, 0);
    EXPECT(ir_cast(&b, i, IR_U8), 255, 0, 0);
    EXPECT(ir_cast(&b, i, IR_BOOL), 1, 1, 0);
    ir_value f = INPUT(IR_F32, 1, -0.0, INFINITY);
    EXPECT(ir_bitcast(&b, f, IR_U32), 0x3f800000, 2147483648.0, 0x7f800000);
    EXPECT(ir_bitcast(&b, ir_bitcast(&b, f, IR_I32), IR_F32), 1, -0.0, INFINITY);
}
END_TEST

START_TEST(edges)
{
    ir_value x = INPUT(IR_F32, -0.0, 0.0, NAN, 1), y = INPUT(IR_F32, 0.0, -0.0, 1, NAN);
    ck_assert(!signbit(result_of(ir_binary(&b, OP_max, x, y), IR_EVAL_EXACT_DTYPES)[0]));
    ck_assert(signbit(result_of(ir_binary(&b, OP_min, x, y), IR_EVAL_EXACT_DTYPES)[1]));
    EXPECT(ir_binary(&b, OP_max, x, y), 0, 0, NAN, NAN);
    EXPECT(ir_unary(&b, OP_sign, x), 0, 0, NAN, 1);
    EXPECT(ir_unary(&b, OP_is_finite, x), 1, 1, 0, 1);
    ir_value r = INPUT(IR_F32, 0.5, 1.5, 2.5, -0.5, -1.5);
    EXPECT(ir_unary(&b, OP_round, r), 0, 2, 2, 0, -2);
    EXPECT(ir_unary(&b, OP_floor, r), 0, 1, 2, -1, -2);
    EXPECT(ir_unary(&b, OP_ceil, r), 1, 2, 3, 0, -1);
    ir_value e = INPUT(IR_F32, 0, 1, -1, 1.5, 0.5);
    double *inverse = result_of(ir_unary(&b, OP_erf_inv, e), IR_EVAL_EXACT_DTYPES);
    ck_assert(inverse[0] == 0 && inverse[1] == INFINITY && inverse[2] == -INFINITY && isnan(inverse[3]));
    ck_assert_double_eq_tol(inverse[4], 0.4769362762044699, 1e-7);
    inverse = result_of(ir_unary(&b, OP_erf_inv, e), IR_EVAL_F64);
    ck_assert_double_eq_tol(inverse[4], 0.4769362762044699, 1e-15);
}
END_TEST

START_TEST(random_words)
{ /* The published test vectors of Threefry-2x32, 20 rounds. */
    static const uint32_t cases[3][6] = {{0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
                                         {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
                                         {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0}};
    ir_value k[4];
    for (int i = 0; i < 4; i++) k[i] = INPUT(IR_U32, cases[0][i], cases[1][i], cases[2][i]);
    for (uint32_t word = 0; word < 2; word++)
        EXPECT(ir_threefry(&b, k[0], k[1], k[2], k[3], word), cases[0][4 + word], cases[1][4 + word],
               cases[2][4 + word]);
}
END_TEST

START_TEST(shapes)
{
    double v[6] = {1, 2, 3, 4, 5, 6};
    ir_value x = input(IR_F32, 2, (int64_t[]){2, 3}, v), row = INPUT(IR_F32, 7, 8, 9), s = ir_scalar(&b, IR_F32, 0);
    EXPECT(ir_transpose(&b, x, (int64_t[]){1, 0}), 1, 4, 2, 5, 3, 6);
    EXPECT(ir_broadcast_to(&b, row, 2, (int64_t[]){2, 3}), 7, 8, 9, 7, 8, 9);
    EXPECT(ir_broadcast(&b, row, 2, (int64_t[]){3, 2}, (int64_t[]){0}), 7, 7, 8, 8, 9, 9);
    EXPECT(ir_slice(&b, x, (int64_t[]){0, 0}, (int64_t[]){2, 3}, (int64_t[]){1, 2}), 1, 3, 4, 6);
    EXPECT(ir_reverse(&b, x, (int64_t[]){0, 1}, 2), 6, 5, 4, 3, 2, 1);
    EXPECT(ir_pad(&b, row, s, (int64_t[]){1}, (int64_t[]){0}, (int64_t[]){1}), 0, 7, 0, 8, 0, 9);
    EXPECT(ir_pad(&b, row, s, (int64_t[]){-1}, (int64_t[]){-2}, (int64_t[]){1}), 0, 8);
    EXPECT(ir_pad(&b, row, s, (int64_t[]){-2}, (int64_t[]){1}, (int64_t[]){0}), 9, 0);
    EXPECT(ir_concat(&b, (ir_value[]){x, x}, 2, 1), 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6);
    EXPECT(ir_iota(&b, ir_type_of(IR_I32, 2, (int64_t[]){2, 2}), 0), 0, 0, 1, 1);
    double at[2] = {5, -5};
    ir_value far = input(IR_I32, 0, NULL, at), near = input(IR_I32, 0, NULL, at + 1);
    EXPECT(ir_dynamic_slice(&b, x, (ir_value[]){near, far}, (int64_t[]){1, 2}), 2, 3);
    ir_value one = ir_reshape(&b, ir_slice(&b, row, (int64_t[]){0}, (int64_t[]){1}, (int64_t[]){1}), 2,
                              (int64_t[]){1, 1});
    EXPECT(ir_dynamic_update(&b, x, one, (ir_value[]){far, near}), 1, 2, 3, 7, 5, 6);
}
END_TEST

START_TEST(gather_and_scatter)
{
    double v[6] = {1, 2, 3, 4, 5, 6};
    ir_value x = input(IR_F32, 2, (int64_t[]){2, 3}, v), i = INPUT(IR_I32, 2, -1, 7, 2);
    EXPECT(ir_take(&b, x, i, 1), 3, 1, 3, 3, 6, 4, 6, 6);
    ir_value updates = input(IR_F32, 2, (int64_t[]){2, 4}, (double[]){1, 10, 100, 1000, 2, 20, 200, 2000});
    EXPECT(ir_scatter_add(&b, x, i, updates, 1), 1, 2, 1004, 4, 5, 2008);
}
END_TEST

START_TEST(reductions)
{
    double v[6] = {1, 7, 3, 4, NAN, 6};
    ir_value x = input(IR_F32, 2, (int64_t[]){2, 3}, v), none = input(IR_F32, 2, (int64_t[]){2, 0}, v);
    EXPECT(ir_reduce(&b, OP_reduce_sum, x, (int64_t[]){0}, 1), 5, NAN, 9);
    EXPECT(ir_reduce(&b, OP_reduce_prod, x, (int64_t[]){1}, 1), 21, NAN);
    EXPECT(ir_reduce(&b, OP_reduce_max, x, (int64_t[]){1}, 1), 7, NAN);
    EXPECT(ir_reduce(&b, OP_reduce_max, none, (int64_t[]){1}, 1), -INFINITY, -INFINITY);
    EXPECT(ir_reduce(&b, OP_reduce_sum, none, (int64_t[]){1}, 1), 0, 0);
    EXPECT(ir_argreduce(&b, OP_argmax, x, 1), 1, 1);
    EXPECT(ir_argreduce(&b, OP_argmin, x, 0), 0, 1, 0);
    ir_value i = INPUT(IR_I32, 65536, 65536, 3);
    EXPECT(ir_reduce(&b, OP_reduce_prod, i, (int64_t[]){0}, 1), 0);
    EXPECT(ir_reduce(&b, OP_reduce_min, ir_binary(&b, OP_eq, i, i), (int64_t[]){0}, 1), 1);
    /* 16-bit sums: as jax.numpy's, and as the op itself, which rounds at every step */
    ir_value h = INPUT(IR_F16, 60000, 10000, -20000), s = INPUT(IR_BF16, 256, 1, 1, 1, 1);
    EXPECT(ir_reduce(&b, OP_reduce_sum, h, (int64_t[]){0}, 1), 49984);
    EXPECT(ir_reduce_plain(&b, OP_reduce_sum, h, (int64_t[]){0}, 1), INFINITY);
    EXPECT(ir_reduce(&b, OP_reduce_sum, s, (int64_t[]){0}, 1), 260);
    EXPECT(ir_reduce_plain(&b, OP_reduce_sum, s, (int64_t[]){0}, 1), 256);
}
END_TEST

START_TEST(contraction)
{
    double v[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    ir_value x = input(IR_F32, 2, (int64_t[]){2, 3}, v), y = input(IR_F32, 2, (int64_t[]){3, 2}, v);
    struct ir_ints no = {NULL, 0}, zero = {(int64_t[]){0}, 1}, one = {(int64_t[]){1}, 1};
    EXPECT(ir_dot(&b, x, y, no, no, one, zero), 22, 28, 49, 64);
    EXPECT(ir_dot(&b, x, y, no, no, zero, one), 9, 19, 29, 12, 26, 40, 15, 33, 51);
    ir_value p = input(IR_F32, 3, (int64_t[]){2, 2, 3}, v);
    EXPECT(ir_dot(&b, p, p, zero, zero, (struct ir_ints){(int64_t[]){2}, 1}, (struct ir_ints){(int64_t[]){2}, 1}), 14,
           32, 32, 77, 194, 266, 266, 365);
}
END_TEST

/* Body of a loop: (i, x) -> (x * 2 + i), as float32. */
static struct ir_func *doubling(void)
{
    struct ir_func *f = ir_func_new(module, "body", false);
    struct ir_builder c = {.f = f};
    ir_value i = ir_param_new(&c, "i", ir_type_scalar(IR_I32), -1),
             x = ir_param_new(&c, "x", ir_type_scalar(IR_F32), -1);
    ir_result_add(
        &c, "x", ir_binary(&c, OP_add, ir_binary(&c, OP_mul, x, ir_scalar(&c, IR_F32, 2)), ir_cast(&c, i, IR_F32)), -1);
    return f;
}

START_TEST(control)
{
    struct ir_func *body = doubling();
    ir_value n = input(IR_I32, 0, NULL, (double[]){4}), x = input(IR_F32, 0, NULL, (double[]){1});
    EXPECT(ir_proj(&b, ir_loop(&b, body, n, &x, 1, false, NULL, 0), 0), 27); /* 2, 5, 12, 27 */
    EXPECT(ir_proj(&b, ir_call(&b, body, (ir_value[]){n, x}, 2), 0), 6);
}
END_TEST

START_TEST(control_while)
{
    struct ir_func *f = ir_func_new(module, "body", false);
    struct ir_builder c = {.f = f};
    ir_value i = ir_param_new(&c, "i", ir_type_scalar(IR_I32), -1);
    (void)ir_param_new(&c, "go", ir_type_scalar(IR_BOOL), -1);
    ir_result_add(&c, "go", ir_binary(&c, OP_lt, i, ir_scalar(&c, IR_I32, 2)), -1);
    ir_value x = ir_param_new(&c, "x", ir_type_scalar(IR_I32), -1);
    ir_result_add(&c, "x", ir_binary(&c, OP_add, x, ir_scalar(&c, IR_I32, 1)), -1);
    ir_value n = input(IR_I32, 0, NULL, (double[]){9}), zero = input(IR_I32, 0, NULL, (double[]){0});
    ir_value loop = ir_loop(&b, f, n, (ir_value[]){ir_scalar(&b, IR_BOOL, 1), zero}, 2, true, NULL, 0);
    EXPECT(ir_proj(&b, loop, 1), 3);
}
END_TEST

/* Rows 0..5 in microbatches of 2: per kind the result over (sum of the part's rows, the rows). */
static ir_value accumulated(double run, int64_t split, int64_t kind)
{
    struct ir_func *f = ir_func_new(module, "micro", false);
    struct ir_builder c = {.f = f};
    ir_value part = ir_param_new(&c, "part", ir_type_of(IR_F32, 1, (int64_t[]){2}), -1);
    ir_result_add(&c, "y", kind == 3 ? part : ir_reduce(&c, OP_reduce_sum, part, (int64_t[]){0}, 1), -1);
    ir_value x = INPUT(IR_F32, 1, 2, 3, 4, 5, 6), n = input(IR_I32, 0, NULL, &run);
    int64_t attrs[4] = {1, 3, split, kind};
    ir_value tuple = ir_make(
        &b, (struct ir_node){.op = OP_accumulate,
                             .arg_count = 2,
                             .args = (ir_value[]){n, x},
                             .func = ir_func_index(f),
                             .attr = {{&attrs[0], 1}, {&attrs[1], 1}, {&attrs[2], 1}, {&attrs[3], 1}}});
    return ir_proj(&b, tuple, 0);
}

START_TEST(microbatches)
{
    EXPECT(accumulated(3, 0, 0), 21);
    EXPECT(accumulated(2, 0, 0), 12); /* rows 0, 3 and 1, 4 */
    EXPECT(accumulated(2, 1, 0), 10); /* rows 0..3 */
    EXPECT(accumulated(2, 1, 1), (double)(10.0f / 3));
    EXPECT(accumulated(2, 1, 2), 5);
    EXPECT(accumulated(2, 0, 3), 1, 2, 0, 4, 5, 0);
    EXPECT(accumulated(2, 1, 3), 1, 2, 3, 4, 0, 0);
}
END_TEST

START_TEST(constants)
{
    EXPECT(vector(IR_BF16, 2, (double[]){1, -2.5}), 1, -2.5);
    EXPECT(vector(IR_BOOL, 2, (double[]){1, 0}), 1, 0);
    EXPECT(ir_number(&b, ir_type_of(IR_I8, 1, (int64_t[]){3}), -3), -3, -3, -3);
}
END_TEST

int main(void)
{
    TCase *tests = CASE_OF(30, rounding, integers_wrap, shifts, conversions, edges, random_words, shapes,
                           gather_and_scatter, reductions, contraction, control, control_while, microbatches,
                           constants);
    tcase_add_checked_fixture(tests, setup, teardown);
    return run_case("eval", tests);
}
