/* Lowered groups compute what the interpreter of the IR computes: small functions of every kind of group. */
#include "lower_harness.h"
#include "tests/unit/file.h"
#include "tests/unit/suite.h"

START_TEST(map_flat)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(5, 7)), b = input(&x, F32(5, 7));
    output(&x, ir_unary(&x.b, OP_tanh, ir_binary(&x.b, OP_mul, a, b)));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

START_TEST(map_broadcast)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(4, 3, 5)), row = input(&x, F32(5)), middle = input(&x, F32(3)),
             one = input(&x, ir_type_scalar(IR_F32));
    int64_t last = 2, mid = 1;
    ir_value r = ir_broadcast(&x.b, row, DIMS(4, 3, 5), &last), m = ir_broadcast(&x.b, middle, DIMS(4, 3, 5), &mid);
    ir_value s = ir_broadcast(&x.b, one, DIMS(4, 3, 5), NULL);
    ir_value sum = ir_binary(&x.b, OP_add, ir_binary(&x.b, OP_mul, a, r), ir_binary(&x.b, OP_mul, m, s));
    output(&x, ir_unary(&x.b, OP_exp, sum));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

START_TEST(map_views)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(4, 6, 5));
    int64_t perm[] = {2, 0, 1}, start[] = {1, 0, 2}, limit[] = {5, 4, 6}, stride[] = {2, 1, 2}, axis[] = {0, 2};
    ir_value t = ir_transpose(&x.b, a, perm);
    output(&x, t);
    ir_value s = ir_slice(&x.b, t, start, limit, stride);
    output(&x, s);
    output(&x, ir_reverse(&x.b, s, axis, 2));
    output(&x, ir_reshape(&x.b, ir_transpose(&x.b, ir_reshape(&x.b, a, DIMS(2, 2, 30)), perm), DIMS(30, 4)));
    output(&x, ir_reshape(&x.b, t, DIMS(8, 15)));
    CHECK_BOTH(x, 0, 0);
}
END_TEST

START_TEST(map_pad_concat)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(3, 5)), b = input(&x, F32(3, 2)), fill = input(&x, ir_type_scalar(IR_F32));
    int64_t low[] = {1, -1}, high[] = {0, 2}, inner[] = {2, 0}, none[] = {0, 0};
    output(&x, ir_pad(&x.b, a, fill, low, high, inner));
    output(&x, ir_pad(&x.b, ir_unary(&x.b, OP_exp, a), fill, low, high, none));
    ir_value list[] = {a, b, a};
    ir_value c = ir_concat(&x.b, list, 3, 1);
    output(&x, ir_unary(&x.b, OP_sin, c));
    ir_value rows[] = {a, a};
    output(&x, ir_concat(&x.b, rows, 2, 0));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

/* What is put between zeros in steps that divide a dimension, or not, from either end of it, cut off, alone and added
 * up, and sums of it. */
START_TEST(map_phases)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(2, 3, 4, 3)), zero = input(&x, ir_type_scalar(IR_F32));
    for (int64_t step = 2; step < 6; step += step - 1) /* 2, 3, 5 */
        for (int64_t low = -1; low < 2; low++) {
            int64_t rest = step - 1 - low, before[] = {0, low, rest, 0}, behind[] = {0, rest, low, 0},
                    inner[] = {0, step - 1, step - 1, 0}, uneven[] = {0, rest, low + 1, 1};
            ir_value p = ir_pad(&x.b, a, zero, before, behind, inner);
            ir_value q = ir_pad(&x.b, ir_unary(&x.b, OP_neg, a), zero, behind, before, inner);
            ir_value sum = ir_binary(&x.b, OP_add, p, q);
            output(&x, ir_unary(&x.b, OP_exp, sum));
            output(&x, ir_reduce(&x.b, OP_reduce_sum, ir_unary(&x.b, OP_cos, sum), (int64_t[]){0, 1, 2}, 3));
            output(&x, ir_reverse(&x.b, p, (int64_t[]){1, 2}, 2));
            output(&x, ir_pad(&x.b, a, zero, before, uneven, (int64_t[]){0, step - 1, step - 1, 1}));
        }
    CHECK_BOTH(x, 1e-5, 0);
}
END_TEST

/* Large transpositions go by blocks: of whole vectors, with rest of rows or columns or both, shared out by columns or
 * by another dimension; of 16 bits and 64; of what is computed. */
START_TEST(map_turned)
{
    static const struct {
        int64_t dim[3], order[3];
        enum ir_dtype dtype;
    } cases[] = {
        {{1, 520, 512}, {0, 2, 1}, IR_F32},  {{1, 300, 300}, {0, 2, 1}, IR_F32}, {{1, 521, 193}, {0, 2, 1}, IR_F32},
        {{1, 135, 640}, {2, 0, 1}, IR_BF16}, {{9, 83, 197}, {0, 2, 1}, IR_F32},  {{9, 90, 100}, {2, 1, 0}, IR_F32},
        {{3, 200, 130}, {1, 2, 0}, IR_F32},  {{2, 576, 70}, {0, 2, 1}, IR_F64},  {{1, 640, 128}, {0, 2, 1}, IR_I32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x = fixture_new();
        ir_value a = input(&x, ir_type_of(cases[i].dtype, 3, cases[i].dim));
        output(&x, ir_transpose(&x.b, ir_unary(&x.b, OP_neg, a), cases[i].order));
        CHECK_BOTH(x, 0, 0);
    }
}
END_TEST

/* Operands side by side in whole vectors, two to four of them, of one size or of several; more, or smaller ones, and
 * without anything before them. */
START_TEST(map_joined)
{
    static const int64_t sizes[][5] = {{32, 32}, {64, 32, 32}, {32, 32, 32, 32}, {32, 32, 32, 32, 32},
                                       {24, 40}, {9, 7}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t rows = 1; rows < 7; rows += 5) {
            struct fixture x = fixture_new();
            ir_value list[5], inner[5], sum;
            uint32_t count = 0;
            for (; count < 5 && sizes[i][count]; count++) {
                list[count] = ir_unary(&x.b, OP_exp, input(&x, F32(rows, sizes[i][count])));
                inner[count] = input(&x, type_of(IR_BF16, DIMS(rows, sizes[i][count], 3)));
            }
            sum = ir_concat(&x.b, list, count, 1);
            output(&x, ir_binary(&x.b, OP_mul, sum, input(&x, *ir_type(x.b.f, sum))));
            output(&x, ir_reduce_plain(&x.b, OP_reduce_sum, sum, (int64_t[]){1}, 1));
            output(&x, ir_concat(&x.b, inner, count, 1));
            CHECK_BOTH(x, 1e-5, 0);
        }
}
END_TEST

START_TEST(map_taps)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(2, 7, 9, 4)), b = input(&x, F32(6, 9));
    output(&x, taps_of(&x, a, 3, 3, 1, 1, 1));
    output(&x, taps_of(&x, a, 3, 2, 2, 1, 1));
    output(&x, taps_of(&x, a, 2, 3, 1, 2, 1));
    output(&x, taps_of(&x, a, 1, 4, 1, 1, 2));
    output(&x, ir_unary(&x.b, OP_exp, taps_of(&x, a, 4, 1, 2, 1, 2)));
    ir_value list[5];
    for (uint32_t i = 0; i < 5; i++) {
        int64_t start[] = {i == 4 ? 0 : i / 2, i % 2}, limit[] = {start[0] + 2, 7 + start[1]};
        list[i] = ir_slice(&x.b, b, start, limit, (int64_t[]){1, 1});
    }
    output(&x, ir_concat(&x.b, list, 4, 0)); /* runs that are no whole rows */
    output(&x, ir_concat(&x.b, list, 5, 1));
    output(&x, ir_concat(&x.b, (ir_value[]){list[0], list[0], list[3], list[1]}, 4, 1));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

START_TEST(map_dynamic)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(6, 5)), i = input(&x, ir_type_scalar(IR_I32)), j = input(&x, ir_type_scalar(IR_I32)),
             u = input(&x, F32(2, 3));
    ir_value starts[] = {i, j}, table = input(&x, F32(9, 4)), index = input(&x, I32(3, 2));
    int64_t sizes[] = {4, 2};
    output(&x, ir_dynamic_slice(&x.b, a, starts, sizes));
    output(&x, ir_dynamic_update(&x.b, a, u, starts));
    output(&x, ir_take(&x.b, table, index, 0));
    output(&x, ir_take(&x.b, table, index, 1));
    CHECK_BOTH(x, 0, 7);
}
END_TEST

START_TEST(map_types)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, I32(4, 6)), b = input(&x, F32(4, 6));
    ir_value i = ir_iota(&x.b, I32(4, 6), 1);
    ir_value hit = ir_binary(&x.b, OP_eq, a, i);
    output(&x, ir_select(&x.b, hit, b, ir_unary(&x.b, OP_neg, b)));
    output(&x, ir_cast(&x.b, b, IR_I32));
    output(&x, hit);
    output(&x, ir_binary(&x.b, OP_rem, a, ir_binary(&x.b, OP_add, i, ir_number_like(&x.b, i, 1))));
    output(&x, ir_iota(&x.b, F32(3, 7), 0));
    CHECK_BOTH(x, 0, 6);
}
END_TEST

/* m = b m + (1 - b) g; p = p - lr m / (sqrt(m m) + eps): everything in place, one pass. */
START_TEST(map_update_in_place)
{
    struct fixture x = fixture_new();
    ir_value p = parameter(&x, F32(8, 9)), m = fixture_param(&x, IR_ROLE_OPT_STATE, F32(8, 9)),
             g = input(&x, F32(8, 9));
    ir_value m1 = ir_binary(&x.b, OP_add, ir_binary(&x.b, OP_mul, m, number_like(&x, m, 0.9)),
                            ir_binary(&x.b, OP_mul, g, number_like(&x, g, 0.1)));
    ir_value root = ir_unary(&x.b, OP_sqrt, ir_binary(&x.b, OP_mul, m1, m1));
    ir_value step = ir_binary(&x.b, OP_div, m1, ir_binary(&x.b, OP_add, root, number_like(&x, root, 1e-3)));
    ir_value p1 = ir_binary(&x.b, OP_sub, p, ir_binary(&x.b, OP_mul, step, number_like(&x, step, 0.01)));
    update(&x, p, p1);
    update(&x, m, m1);
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

/* Slots that change places cannot be updated in place. */
START_TEST(map_swap)
{
    struct fixture x = fixture_new();
    ir_value p = parameter(&x, F32(4, 4)), q = parameter(&x, F32(4, 4)), r = parameter(&x, F32(4, 4));
    int64_t perm[] = {1, 0};
    update(&x, p, q);
    update(&x, q, p);
    update(&x, r, ir_transpose(&x.b, r, perm));
    CHECK_BOTH(x, 0, 0);
}
END_TEST

START_TEST(map_constants)
{
    struct fixture x = fixture_new();
    float data[6] = {1, 2, 3, 4, 5, 6};
    ir_value c = ir_constant(&x.b, F32(2, 3), data), a = input(&x, F32(2, 3)), s = input(&x, ir_type_scalar(IR_F32));
    output(&x, ir_binary(&x.b, OP_mul, a, c));
    output(&x, ir_number(&x.b, F32(3, 3), 0.25));
    output(&x, a);
    output(&x, c);
    output(&x, ir_reshape(&x.b, a, DIMS(6)));
    output(&x, ir_unary(&x.b, OP_exp, s));
    CHECK_BOTH(x, 0, 0);
}
END_TEST

#include "test_lower_cases.h"

/* The nests of a function as text, behind the reason of each. */
static const char *lowered(struct fixture *x, struct arena *a)
{
    struct planned p;
    struct str text = STR(a);
    struct cg_target target = test_target(64);
    plan_module(&p, x->m, (struct pass_options){0});
    const struct plan *plan = p.plans->plans.items[0];
    struct cg_kernel *kernels = arena_new_array(a, struct cg_kernel, plan->groups.count);
    ck_assert(cg_lower(p.plans, plan, &target, a, &p.diags, kernels));
    for (size_t i = 0; i < plan->groups.count; i++) {
        str_addf(&text, "# %s\n", plan->groups.items[i].reason);
        nest_print(kernels[i].nest, &text);
    }
    drop_plans(&p);
    ir_module_free(x->m);
    return str_text(&text);
}

/* What strides of four leave in between, along three dimensions: what is lowered apart does not multiply without end.
 */
START_TEST(phases_are_bounded)
{
    struct fixture x = fixture_new();
    struct arena a = {0};
    ir_value v = input(&x, F32(16, 4, 4, 4, 16)), zero = ir_number(&x.b, ir_type_scalar(IR_F32), 0);
    v = ir_unary(&x.b, OP_neg, v);
    output(&x,
           ir_pad(&x.b, v, zero, (int64_t[]){0, 0, 0, 0, 0}, (int64_t[]){0, 3, 3, 3, 0}, (int64_t[]){0, 3, 3, 3, 0}));
    uint32_t stores = 0;
    for (const char *at = lowered(&x, &a); (at = strstr(at, " store ")); at++) stores++;
    ck_assert_uint_ge(stores, 4);
    ck_assert_uint_le(stores, 32);
    arena_free(&a);
}
END_TEST

/* The nests of a function as text equal the recorded ones; STEPC_GOLDEN_UPDATE=1 records them anew. */
static void check_golden(struct fixture *x, const char *name)
{
    struct arena a = {0};
    const char *path = arena_format(&a, "tests/golden/lower/%s.nest", name);
    golden_text(&a, path, lowered(x, &a));
    arena_free(&a);
}

START_TEST(golden)
{
    struct fixture x = fixture_new();
    output(&x, softmax(&x, input(&x, F32(64, 100))));
    check_golden(&x, "softmax");
    x = fixture_new();
    ir_value a = input(&x, F32(32, 2)), w = parameter(&x, F32(2, 8)), b = parameter(&x, F32(8));
    int64_t one = 1, first = 0;
    ir_value h = ir_binary(&x.b, OP_add, product(&x, a, w, 1, 0), ir_broadcast(&x.b, b, DIMS(32, 8), &one));
    output(&x, ir_unary(&x.b, OP_tanh, h));
    check_golden(&x, "layer");
    x = fixture_new();
    ir_value g = input(&x, F32(64, 200)), p = parameter(&x, F32(200));
    ir_value sum = ir_reduce(&x.b, OP_reduce_sum, g, &first, 1);
    update(&x, p, ir_binary(&x.b, OP_sub, p, ir_binary(&x.b, OP_mul, sum, number_like(&x, sum, 0.1))));
    check_golden(&x, "bias_gradient");
    x = fixture_new();
    ir_value q = parameter(&x, F32(30, 40)), dq = input(&x, F32(30, 40));
    update(&x, q, ir_binary(&x.b, OP_sub, q, ir_binary(&x.b, OP_mul, dq, number_like(&x, dq, 0.1))));
    check_golden(&x, "update");
    x = fixture_new();
    ir_value pooled = input(&x, F32(4, 8, 8, 16)), zero = ir_number(&x.b, ir_type_scalar(IR_F32), 0), spread = 0;
    for (int64_t i = 0; i < 2; i++) {
        ir_value at = ir_pad(&x.b, ir_binary(&x.b, OP_mul, pooled, number_like(&x, pooled, (double)i + 2)), zero,
                             (int64_t[]){0, i, i, 0}, (int64_t[]){0, 1 - i, 2 - i, 0}, (int64_t[]){0, 1, 1, 0});
        spread = i ? ir_binary(&x.b, OP_add, spread, at) : at;
    }
    output(&x, spread);
    check_golden(&x, "phases");
    x = fixture_new();
    ir_value row = input(&x, F32(1, 512)), lines = input(&x, F32(100, 512));
    output(&x, ir_unary(&x.b, OP_tanh, product(&x, row, lines, 1, 1)));
    check_golden(&x, "product_of_one_row");
    x = fixture_new();
    int64_t outer[] = {0, 1, 2};
    output(&x, ir_reduce(&x.b, OP_reduce_sum, input(&x, F32(8, 32, 64, 256)), outer, 3));
    check_golden(&x, "tall_sum");
    x = fixture_new();
    ir_value gates[3];
    for (int i = 0; i < 3; i++)
        gates[i] = ir_binary(&x.b, OP_mul, input(&x, F32(16, 64)), input(&x, type_of(IR_F32, DIMS(16, 64))));
    output(&x, ir_concat(&x.b, gates, 3, 1));
    check_golden(&x, "joined");
}
END_TEST

/* A nest that names a register which it does not have is refused, whether or not anybody asks why. */
START_TEST(wrong_nest)
{
    struct arena own = {0};
    struct nest_builder b;
    struct nest *nest = nest_new(&own);
    struct str faults = STR(&own);
    nest_builder_init(&b, nest);
    nest->lanes = 8;
    ck_assert(nest_verify(nest, &faults));
    struct nest_stmt *get = arena_new(&own, struct nest_stmt);
    *get = (struct nest_stmt){.kind = NEST_GET, .result = 1, .reg = 3};
    nest->value_count = 2;
    vec_push(&own, &nest->body, get);
    ck_assert(!nest_verify(nest, NULL));
    ck_assert(!nest_verify(nest, &faults));
    ck_assert(faults.length > 0);
    *get = (struct nest_stmt){.kind = NEST_STORE, .buffer = 3};
    ck_assert(!nest_verify(nest, NULL));
    arena_free(&own);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lower");
    suite_add_tcase(suite, CASE_OF(30, map_flat, map_broadcast, map_views, map_pad_concat, map_phases, map_turned,
                                   map_joined, map_taps, map_dynamic, map_types, map_update_in_place, map_swap,
                                   map_constants, wrong_nest, golden, phases_are_bounded));
    add_cases(suite);
    return run_suite(suite);
}
