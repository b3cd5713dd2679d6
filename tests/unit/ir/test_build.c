/* Building: sharing of equal nodes, refusals in the user's terms, types and elements, rebuilding, walks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "tests/unit/suite.h"

static struct arena arena;
static struct ir_module *m;
static struct ir_func *f;
static struct ir_builder b;
static const char *refused;

static void refuse(void *user, const char *message)
{
    (void)user;
    refused = message;
}

static struct ir_type matrix(int64_t rows, int64_t columns)
{
    return ir_type_of(IR_F32, 2, (int64_t[]){rows, columns});
}

static void setup(void)
{
    arena = (struct arena){0};
    m = ir_module_new("m");
    f = ir_func_new(m, "f", true);
    b = (struct ir_builder){.f = f, .reject = refuse};
    refused = NULL;
}

static void teardown(void)
{
    ir_module_free(m);
    arena_free(&arena);
}

#define LIST(...) ((struct ir_ints){(int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})

START_TEST(equal_nodes_are_one)
{
    ir_value x = ir_param_new(&b, "x", matrix(2, 3), -1), y = ir_param_new(&b, "y", matrix(2, 3), -1);
    ck_assert_uint_eq(ir_binary(&b, OP_add, x, y), ir_binary(&b, OP_add, y, x));
    ck_assert_uint_ne(ir_binary(&b, OP_sub, x, y), ir_binary(&b, OP_sub, y, x));
    ck_assert_uint_eq(ir_number_like(&b, x, 0.1), ir_number(&b, matrix(2, 3), (double)0.1f));
    ck_assert_uint_ne(ir_number_like(&b, x, 0), ir_number_like(&b, x, -0.0));
    ck_assert_uint_eq(ir_constant(&b, matrix(1, 2), (float[]){2, 2}), ir_number(&b, matrix(1, 2), 2));
    ck_assert_uint_eq(ir_reduce(&b, OP_reduce_sum, x, (int64_t[]){1, 0}, 2),
                      ir_reduce(&b, OP_reduce_sum, x, (int64_t[]){0, 1}, 2));
    ir_value iota = ir_iota(&b, ir_type_of(IR_I32, 2, (int64_t[]){2, 2}), 0);
    ck_assert_uint_ne(iota, ir_iota(&b, ir_type_of(IR_I32, 2, (int64_t[]){2, 2}), 1));
    ir_value t1 = ir_call(&b, ir_func_new(m, "g", false), NULL, 0), t2 = ir_call(&b, ir_func_find(m, "g"), NULL, 0);
    ck_assert_uint_ne(t1, t2); /* a call is not pure */
}
END_TEST

START_TEST(equal_nodes_are_two_on_both_sides_of_a_turn)
{
    ir_value x = ir_param_new(&b, "x", matrix(2, 3), -1);
    m->copies = true;
    ir_value kept = ir_unary(&b, OP_exp, x);
    ck_assert_uint_eq(ir_unary(&b, OP_exp, x), kept);
    f->turn = f->count;
    ir_value again = ir_unary(&b, OP_exp, x);
    ck_assert_uint_ne(again, kept);
    ck_assert_uint_eq(ir_unary(&b, OP_exp, x), again);
    ir_value negative = ir_unary(&b, OP_neg, kept);
    ck_assert_uint_eq(ir_unary(&b, OP_neg, kept), negative);
    ck_assert_uint_ne(ir_unary(&b, OP_neg, again), negative);
}
END_TEST

START_TEST(refusals_say_what_was_found)
{
    ir_value x = ir_param_new(&b, "x", matrix(2, 3), -1), y = ir_param_new(&b, "y", matrix(4, 5), -1);
    uint32_t count = f->count;
    ck_assert_uint_eq(ir_binary(&b, OP_add, x, y), 0);
    ck_assert_str_eq(refused, "add: expected operands of one type, found float32[2, 3] and float32[4, 5]");
    ir_dot(&b, x, y, (struct ir_ints){0}, (struct ir_ints){0}, LIST(1), LIST(0));
    ck_assert_str_eq(refused,
                     "dot: expected equal extents of the contracted dimensions, found 3 (dimension 1 of float32[2, 3]) "
                     "and 4 (dimension 0 of float32[4, 5])");
    ir_broadcast_to(&b, x, 2, (int64_t[]){4, 3});
    ck_assert_str_eq(
        refused,
        "broadcast: cannot broadcast float32[2, 3] to float32[4, 3]: dimension 0 has extent 2, expected 1 or 4");
    ir_reshape(&b, x, 1, (int64_t[]){7});
    ck_assert_str_eq(refused, "reshape: cannot reshape float32[2, 3] to float32[7]: expected 6 elements, found 7");
    ir_broadcast_to(&b, ir_scalar(&b, IR_F32, 1), 3, (int64_t[]){1 << 20, 1 << 20, 1 << 20});
    ck_assert_ptr_nonnull(strstr(refused, "too large"));
    ir_broadcast_to(&b, x, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 2, 3});
    ck_assert_str_eq(refused, "broadcast: expected at most 8 dimensions, found 9");
    refused = NULL;
    ck_assert_uint_eq(ir_binary(&b, OP_mul, x, 0), 0); /* 0 is passed on in silence */
    ck_assert_uint_eq(ir_cast(&b, 0, IR_I32), 0);
    ck_assert_uint_eq(ir_dynamic_slice(&b, 0, NULL, NULL), 0);
    ck_assert_ptr_null(refused);
    ck_assert_uint_eq(f->count, count + 1); /* the scalar; no bad node was made */
}
END_TEST

START_TEST(sizes_do_not_overflow)
{
    int64_t product;
    ck_assert(ir_size_multiply(1 << 24, (1 << 24) - 1, &product));
    ck_assert(!ir_size_multiply(1 << 24, 1 << 24, &product));
    ck_assert(!ir_size_multiply(INT64_MAX, INT64_MAX, &product));
    ck_assert(!ir_size_multiply(-1, 1, &product));
    struct ir_type huge = ir_type_of(IR_F32, 3, (int64_t[]){INT64_MAX, 0, INT64_MAX});
    ck_assert_int_eq(ir_type_elements(&huge), -1);
    ir_value x = ir_param_new(&b, "x", matrix(2, 3), -1), zero = ir_scalar(&b, IR_F32, 0);
    int64_t most[] = {INT64_MAX, INT64_MAX}, none[] = {0, 0};
    ck_assert_uint_eq(ir_pad(&b, x, zero, most, most, most), 0);
    ck_assert_uint_eq(ir_pad(&b, x, zero, none, none, most), 0);
}
END_TEST

/* Every 16-bit pattern is read and written back, and every double between two of them goes to the nearer one. */
START_TEST(half_precision_rounds_to_nearest)
{
    static const enum ir_dtype kinds[] = {IR_F16, IR_BF16};
    for (int k = 0; k < 2; k++) {
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            uint16_t in = (uint16_t)bits, out, up = (uint16_t)(bits + 1);
            double v = ir_element_get(kinds[k], &in, 0), w = ir_element_get(kinds[k], &up, 0);
            ir_element_set(kinds[k], &out, 0, v);
            ck_assert(isnan(v) || in == out);
            if (!isfinite(v) || !isfinite(w) || (in & 0x7fff) == 0x7fff) continue;
            double middle = (v + w) / 2, even = bits & 1 ? w : v;
            ck_assert_double_eq(ir_element_round(kinds[k], middle), even);
            ck_assert_double_eq(ir_element_round(kinds[k], middle + (w - v) * 1e-3), w);
            ck_assert_double_eq(ir_element_round(kinds[k], middle - (w - v) * 1e-3), v);
        }
    }
    ck_assert_double_eq(ir_element_round(IR_F16, 65519.99), 65504);
    ck_assert(isinf(ir_element_round(IR_F16, 65520)));
    ck_assert_double_eq(ir_element_round(IR_I8, 300), 127);
    ck_assert_double_eq(ir_element_round(IR_U8, -1), 0);
    ck_assert_double_eq(ir_element_round(IR_I32, (double)NAN), 0);
}
END_TEST

static ir_value minus_for_plus(void *user, struct ir_builder *to, const struct ir_func *from, ir_value old,
                               const ir_value *map)
{
    const struct ir_node *node = &from->nodes[old];
    ir_value args[4];
    (void)user;
    for (uint32_t i = 0; i < node->arg_count; i++) args[i] = map[node->args[i]];
    return node->op == OP_add ? ir_binary(to, OP_sub, args[0], args[1]) : ir_remake(to, node, args);
}

START_TEST(rebuilding)
{
    ir_value x = ir_param_new(&b, "x", matrix(2, 3), -1), y = ir_param_new(&b, "y", matrix(2, 3), -1);
    b.place = ir_place_new(m, (struct diag_span){5, 6}, "/loss");
    ir_unary(&b, OP_exp, y); /* dead */
    ir_result_add(&b, "r", ir_unary(&b, OP_tanh, ir_binary(&b, OP_add, x, y)), -1);
    struct ir_module *copy = ir_module_like(m);
    ir_value *map = ir_rebuild(f, copy->funcs.items[0], minus_for_plus, NULL, &arena);
    const struct ir_func *g = copy->funcs.items[0];
    ck_assert_uint_eq(g->count, 5); /* two parameters, sub, tanh */
    ck_assert_uint_eq(g->nodes[map[f->results.items[0].value]].op, OP_tanh);
    ck_assert_uint_eq(g->nodes[3].op, OP_sub);
    ck_assert_str_eq(copy->places.items[g->nodes[4].place].pointer, "/loss");
    ck_assert(ir_verify(copy, NULL));
    ck_assert_uint_ne(ir_hash_module(m), ir_hash_module(copy));
    uint32_t *uses = ir_use_counts(g, &arena);
    ck_assert_uint_eq(uses[3], 1);
    ck_assert_uint_eq(uses[4], 1);
    ir_module_free(copy);
}
END_TEST

START_TEST(bodies_come_first)
{ /* f calls g and h, g calls h */
    struct ir_func *g = ir_func_new(m, "g", false), *h = ir_func_new(m, "h", false);
    struct ir_builder to_g = {.f = g, .reject = refuse};
    ir_call(&b, g, NULL, 0);
    ir_call(&b, h, NULL, 0);
    ir_call(&to_g, h, NULL, 0);
    uint32_t *order = ir_func_order(m, &arena);
    ck_assert(order[0] == 2 && order[1] == 1 && order[2] == 0);
}
END_TEST

int main(void)
{
    TCase *tests = CASE_OF(30, equal_nodes_are_one, equal_nodes_are_two_on_both_sides_of_a_turn,
                           refusals_say_what_was_found, sizes_do_not_overflow, half_precision_rounds_to_nearest,
                           rebuilding, bodies_come_first);
    tcase_add_checked_fixture(tests, setup, teardown);
    return run_case("build", tests);
}
