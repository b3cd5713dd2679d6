/* How many kernels well-known pieces become, and that their plans are sound. */
#include "fuse_run.h"

START_TEST(softmax_is_one_kernel)
{
    struct fixture x;
    start(&x);
    ir_value a = param(&x, IR_ROLE_INPUT, F32(64, 100));
    ir_value e = ir_unary(&x.b, OP_exp, ir_binary(&x.b, OP_sub, a, rows(&x, row_sum(&x, OP_reduce_max, a), a)));
    output(&x, ir_binary(&x.b, OP_div, e, rows(&x, row_sum(&x, OP_reduce_sum, e), a)));
    const struct plan *p = finish(&x);
    ck_assert_uint_eq(p->groups.count, 1);
    ck_assert_uint_eq(kinds(p, GROUP_ROW), 1);
    ck_assert_uint_eq(p->arena_bytes, 0);
    drop(&x);
}
END_TEST

/* Forward and backward of layer norm: one kernel by rows, one by columns for the two parameter gradients. */
START_TEST(layer_norm_is_two_kernels)
{
    struct fixture x;
    start(&x);
    ir_value a = param(&x, IR_ROLE_INPUT, F32(512, 100)), g = param(&x, IR_ROLE_INPUT, F32(512, 100));
    int64_t first = 0;
    ir_value mean = scaled(&x, row_sum(&x, OP_reduce_sum, a), 0.01), c = ir_binary(&x.b, OP_sub, a, rows(&x, mean, a));
    ir_value var = scaled(&x, row_sum(&x, OP_reduce_sum, ir_binary(&x.b, OP_mul, c, c)), 0.01);
    ir_value r = ir_unary(&x.b, OP_rsqrt, add(&x, var, ir_number_like(&x.b, var, 1e-6)));
    ir_value hat = ir_binary(&x.b, OP_mul, c, rows(&x, r, a)), weighted = ir_binary(&x.b, OP_mul, g, hat);
    ir_value m1 = scaled(&x, row_sum(&x, OP_reduce_sum, g), 0.01),
             m2 = scaled(&x, row_sum(&x, OP_reduce_sum, weighted), 0.01);
    ir_value d = ir_binary(&x.b, OP_sub, ir_binary(&x.b, OP_sub, g, rows(&x, m1, a)),
                           ir_binary(&x.b, OP_mul, hat, rows(&x, m2, a)));
    output(&x, hat);
    output(&x, ir_binary(&x.b, OP_mul, d, rows(&x, r, a)));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, weighted, &first, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, g, &first, 1));
    const struct plan *p = finish(&x);
    ck_assert_uint_eq(kinds(p, GROUP_ROW), 1);
    ck_assert_uint_eq(kinds(p, GROUP_COLUMN), 1);
    ck_assert_uint_eq(p->groups.count, 2);
    drop(&x);
}
END_TEST

/* The update of a parameter with two moments: one pass over memory, nothing but the slots. */
START_TEST(adam_is_one_kernel)
{
    struct fixture x;
    start(&x);
    ir_value p = param(&x, IR_ROLE_PARAM, F32(300, 40)), m = param(&x, IR_ROLE_OPT_STATE, F32(300, 40));
    ir_value v = param(&x, IR_ROLE_OPT_STATE, F32(300, 40)), e = param(&x, IR_ROLE_EMA, F32(300, 40)),
             g = param(&x, IR_ROLE_INPUT, F32(300, 40));
    ir_value m1 = add(&x, scaled(&x, m, 0.9), scaled(&x, g, 0.1));
    ir_value v1 = add(&x, scaled(&x, v, 0.99), scaled(&x, ir_binary(&x.b, OP_mul, g, g), 0.01));
    ir_value root = ir_unary(&x.b, OP_sqrt, v1);
    ir_value step = ir_binary(&x.b, OP_div, m1, add(&x, root, ir_number_like(&x.b, root, 1e-8)));
    ir_value p1 = ir_binary(&x.b, OP_sub, p, scaled(&x, step, 1e-3));
    update(&x, p, p1);
    update(&x, m, m1);
    update(&x, v, v1);
    update(&x, e, add(&x, scaled(&x, e, 0.9), scaled(&x, p1, 0.1)));
    const struct plan *plan = finish(&x);
    ck_assert_uint_eq(plan->groups.count, 1);
    ck_assert_uint_eq(plan->groups.items[0].outputs.count, 4);
    ck_assert_uint_eq(plan->arena_bytes, 0);
    for (size_t i = 0; i < plan->commands.items[0].writes.count; i++)
        ck_assert_int_eq(plan->buffers.items[plan->commands.items[0].writes.items[i]].space, PLAN_NEXT);
    drop(&x);
}
END_TEST

/* A layer with bias and activation is one kernel; its backward reads the weight before the update overwrites it. */
START_TEST(layers_and_memory)
{
    struct fixture x;
    start(&x);
    ir_value a = param(&x, IR_ROLE_INPUT, F32(64, 32)), h = a, w[6], pre[6], in[6];
    int64_t one = 1;
    for (uint32_t i = 0; i < 6; i++) {
        w[i] = param(&x, IR_ROLE_PARAM, F32(32, 32));
        ir_value bias = param(&x, IR_ROLE_PARAM, F32(32));
        in[i] = h;
        pre[i] = add(&x, product(&x, h, w[i], 1, 0), ir_broadcast(&x.b, bias, DIMS(64, 32), &one));
        h = ir_unary(&x.b, OP_tanh, pre[i]);
    }
    ir_value g = h;
    for (uint32_t i = 6; i-- > 0;) {
        ir_value t = ir_unary(&x.b, OP_tanh, pre[i]);
        g = ir_binary(&x.b, OP_mul, g,
                      ir_binary(&x.b, OP_sub, ir_number_like(&x.b, t, 1), ir_binary(&x.b, OP_mul, t, t)));
        update(&x, w[i], ir_binary(&x.b, OP_sub, w[i], scaled(&x, product(&x, in[i], g, 0, 0), 0.1)));
        g = product(&x, g, w[i], 1, 1);
    }
    const struct plan *p = finish(&x);
    ck_assert_uint_le(p->groups.count, 19);
    ck_assert_uint_eq(kinds(p, GROUP_COPY), 0);
    ck_assert_uint_le(p->arena_bytes, 9 * 64 * 32 * 4);
    drop(&x);
}
END_TEST

/* Sums over tensors laid end to end: slots and temporaries are laid so, and what is in two places is copied. */
START_TEST(tensors_end_to_end)
{
    enum { MANY = 20 };
    struct fixture x;
    start(&x);
    ir_value w[MANY], g[MANY], twice[MANY], sums[3];
    int64_t dim = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        w[i] = param(&x, IR_ROLE_PARAM, F32(200 + 17 * i));
        ir_value a = param(&x, IR_ROLE_INPUT, F32(200 + 17 * i, 7));
        g[i] = row_sum(&x, OP_reduce_sum, a);
        twice[i] = i % 2 ? g[i - 1] : g[i];
    }
    const ir_value *lists[] = {w, g, twice};
    for (uint32_t k = 0; k < 3; k++) {
        ir_value all = ir_concat(&x.b, lists[k], MANY, 0);
        sums[k] = ir_reduce(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, all, all), &dim, 1);
    }
    for (uint32_t i = 0; i < MANY; i++) update(&x, w[i], ir_binary(&x.b, OP_sub, w[i], g[i]));
    for (uint32_t k = 0; k < 3; k++) output(&x, sums[k]);
    const struct plan *p = finish(&x);
    uint32_t in_state = 0, laid = 0;
    for (size_t i = 0; i < p->buffers.count; i++) {
        const struct plan_buffer *b = &p->buffers.items[i];
        in_state += b->parts.count && b->space == PLAN_SLOT;
        laid += b->parts.count && b->space == PLAN_ARENA;
        for (uint32_t k = 1; k < b->parts.count; k++)
            ck_assert_uint_eq(p->buffers.items[b->parts.items[k]].offset,
                              p->buffers.items[b->parts.items[k - 1]].offset +
                                  p->buffers.items[b->parts.items[k - 1]].bytes);
    }
    ck_assert(in_state == 1 && laid == 2);
    ck_assert_uint_eq(kinds(p, GROUP_COPY), MANY); /* of the third */
    drop(&x);
}
END_TEST

/* The sum of many small reductions of 16 bits, which are added in their order: what 16 more give is stored each time,
 * so that a kernel waits for 16 terms and the reductions are all alike. */
START_TEST(crowds_of_small_tensors)
{
    enum { MANY = 128 };
    struct fixture x;
    start(&x);
    ir_value sum = 0;
    int64_t dim = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        ir_value a = param(&x, IR_ROLE_INPUT, ir_type_of(IR_F16, DIMS(32)));
        ir_value square = ir_reduce(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, a, a), &dim, 1);
        sum = sum ? add(&x, sum, square) : square;
    }
    output(&x, sum);
    const struct plan *p = finish(&x);
    uint32_t alike = 0, stored = 0;
    for (size_t i = 0; i < p->groups.count; i++) {
        const struct plan_group *g = &p->groups.items[i];
        alike += g->alike && g->alike == p->groups.items[0].alike;
        stored += (uint32_t)g->outputs.count;
    }
    ck_assert_uint_eq(p->groups.count, MANY + MANY / 16);
    ck_assert_uint_eq(alike, MANY);
    ck_assert_uint_eq(stored, MANY + MANY / 16);
    ck_assert_uint_eq(p->commands.count, 2 * MANY / 16); /* 16 reductions, what adds them to the sum, and so on */
    drop(&x);
}
END_TEST

/* A convolution whose taps are slices of the image: they stay in it, whatever the width and the number of channels;
 * where more than the contraction reads them, a kernel lays them out. */
START_TEST(taps_stay_or_are_laid_out)
{
    static const struct {
        int64_t taps, width, channels, stride;
        enum { ALONE, RESHAPED, RESULT, READ_RESHAPED } use;
        size_t groups;
    } rows[] = {
        {3, 6, 4, 1, ALONE, 1},         {3, 8, 4, 1, ALONE, 1},  {3, 5, 4, 1, ALONE, 1},    {3, 7, 4, 1, ALONE, 1},
        {3, 6, 6, 1, ALONE, 1},         {3, 6, 7, 1, ALONE, 1},  {2, 6, 7, 1, ALONE, 1},    {2, 6, 11, 1, ALONE, 1},
        {2, 6, 8, 2, ALONE, 1},         {2, 6, 13, 2, ALONE, 1}, {3, 6, 4, 1, RESHAPED, 1}, {3, 6, 4, 1, RESULT, 2},
        {3, 6, 4, 1, READ_RESHAPED, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t k = rows[i].taps, w = rows[i].width, c = rows[i].channels, by = rows[i].stride;
        int64_t size = (w - 1) * by + k, two[2] = {2 * w * w, k * k * c}, step[4] = {1, by, by, 1};
        struct fixture x;
        start(&x);
        ir_value a = param(&x, IR_ROLE_INPUT, F32(2, size, size, c)), tap[9];
        for (int64_t t = 0; t < k * k; t++) {
            int64_t from[4] = {0, t / k, t % k, 0}, to[4] = {2, size - k + t / k + 1, size - k + t % k + 1, c};
            tap[t] = ir_slice(&x.b, a, from, to, step);
        }
        ir_value all = ir_concat(&x.b, tap, (uint32_t)(k * k), 3), flat = ir_reshape(&x.b, all, 2, two);
        bool reshaped = rows[i].use == RESHAPED || rows[i].use == READ_RESHAPED;
        output(&x,
               product(&x, reshaped ? flat : all, param(&x, IR_ROLE_PARAM, F32(k * k * c, 4)), reshaped ? 1 : 3, 0));
        if (rows[i].use == RESULT) output(&x, all);
        if (rows[i].use == READ_RESHAPED) output(&x, ir_unary(&x.b, OP_exp, flat));
        ck_assert_msg(finish(&x)->groups.count == rows[i].groups, "row %zu: %zu groups", i,
                      x.planned->plans->plans.items[0]->groups.count);
        drop(&x);
    }
}
END_TEST

/* The gradient of a convolution of every channel by itself reads the padded cotangent, of which there is one. */
START_TEST(taps_of_channels_are_read)
{
    struct fixture x;
    start(&x);
    int64_t c = 16, none[4] = {0}, cut[4] = {0, -1, -1, 0};
    ir_value y = param(&x, IR_ROLE_INPUT, F32(2, 8, 8, c)), w = param(&x, IR_ROLE_PARAM, F32(9, c)), sum = 0;
    ir_value zero = ir_scalar(&x.b, IR_F32, 0);
    for (int64_t t = 0; t < 9; t++) {
        int64_t low[4] = {0, t / 3, t % 3, 0}, high[4] = {0, 2 - t / 3, 2 - t % 3, 0}, one[2] = {1, 1};
        ir_value weight = ir_slice(&x.b, w, (int64_t[]){t, 0}, (int64_t[]){t + 1, c}, one);
        weight = ir_broadcast_to(&x.b, ir_reshape(&x.b, weight, 1, &c), DIMS(2, 8, 8, c));
        ir_value part = ir_pad(&x.b, ir_binary(&x.b, OP_mul, y, weight), zero, low, high, none);
        sum = sum ? ir_binary(&x.b, OP_add, sum, part) : part;
    }
    output(&x, ir_pad(&x.b, sum, zero, cut, cut, none));
    const struct plan *p = finish(&x);
    uint32_t pads = 0;
    for (size_t g = 0; g < p->groups.count; g++)
        for (size_t i = 0; i < p->groups.items[g].nodes.count; i++)
            pads += ir_get(p->func, p->groups.items[g].nodes.items[i])->op == OP_pad;
    ck_assert_uint_eq(pads, 1);
    ck_assert_uint_eq(p->groups.count, 2);
    drop(&x);
}
END_TEST

/* What is repeated often, but lies apart, is brought together first. */
START_TEST(repeated_slices_are_stored)
{
    for (int64_t apart = 0; apart < 2; apart++) {
        struct fixture x;
        start(&x);
        int64_t c = 32, to[2] = {apart ? c : 1, apart ? 1 : c}, one[2] = {1, 1};
        ir_value a = param(&x, IR_ROLE_INPUT, F32(64, c));
        ir_value w = param(&x, IR_ROLE_PARAM, apart ? F32(c, 3) : F32(3, c));
        ir_value slice = ir_slice(&x.b, w, (int64_t[]){0, 0}, to, one);
        slice = ir_broadcast_to(&x.b, ir_reshape(&x.b, slice, 1, &c), DIMS(64, c));
        output(&x, ir_binary(&x.b, OP_mul, a, slice));
        ck_assert_uint_eq(finish(&x)->groups.count, 1 + (size_t)apart);
        drop(&x);
    }
}
END_TEST

int main(void)
{
    return run_case("fuse", CASE_OF(30, softmax_is_one_kernel, layer_norm_is_two_kernels, adam_is_one_kernel,
                                    layers_and_memory, tensors_end_to_end, crowds_of_small_tensors,
                                    taps_stay_or_are_laid_out, taps_of_channels_are_read, repeated_slices_are_stored));
}
