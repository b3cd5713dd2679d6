/* The rules of arrays that a host gives and gets, each with a test: names and shapes, ranges, alignment, strides and
 * how far they may reach, numbers of every dtype, and memory. */
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static struct toy toy;
static struct toy_data data;

static struct step_instance *ready(int64_t devices, uint32_t threads)
{
    struct step_instance *t = toy_ready(&toy, &data, devices, threads);
    ck_assert_msg(t != NULL, "%s", rt_last_error(NULL));
    return t;
}

/* ---------------------------------------------------------------- names, shapes, ranges */

static void refused(struct step_instance *t, size_t count, struct step_array *in, step_status want, const char *text)
{
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = count};
    step_status got = rt_step(t, &batch, NULL);
    ck_assert_msg(got == want && strstr(rt_last_error(t), text), "%s (wanted %s, %s)", rt_last_error(t),
                  rt_status_name(want), text);
}

START_TEST(inputs)
{
    struct step_instance *t = ready(1, 1);
    const int64_t wrong[] = {8, 2}, rank9[9] = {1};
    struct step_array in[4];
    memcpy(in, data.arrays, sizeof data.arrays);
    refused(t, 2, in, STEP_ENOTFOUND, "input \"label\" is missing; expected int32[8]");
    in[3] = in[0];
    refused(t, 4, in, STEP_EINVAL, "input \"x\" is given twice");
    in[0].name = "z";
    refused(t, 3, in, STEP_ENOTFOUND, "there is no input \"z\"");
    in[0] = data.arrays[0], in[0].shape = wrong;
    refused(t, 3, in, STEP_ESHAPE, "input \"x\": expected float32[8, 3], found float32[8, 2]");
    in[0] = data.arrays[0], in[0].dtype = STEP_F64;
    refused(t, 3, in, STEP_ESHAPE, "found float64[8, 3]");
    in[0] = data.arrays[0], in[0].dtype = 77;
    refused(t, 3, in, STEP_ESHAPE, "unknown dtype");
    in[0] = data.arrays[0], in[0].rank = 9, in[0].shape = rank9;
    refused(t, 3, in, STEP_ESHAPE, "expected float32[8, 3]");
    in[0] = data.arrays[0], in[0].rank = -1;
    refused(t, 3, in, STEP_ESHAPE, "expected float32[8, 3]");
    in[0] = data.arrays[0], in[0].shape = NULL;
    refused(t, 3, in, STEP_ESHAPE, "expected float32[8, 3]");
    in[0] = data.arrays[0], in[0].data = NULL;
    refused(t, 3, in, STEP_EINVAL, "data is NULL");
    in[0] = data.arrays[0], in[0].device_type = 2;
    refused(t, 3, in, STEP_EUNSUPPORTED, "expected memory of the host");
    in[0] = data.arrays[0];
    refused(t, 3, NULL, STEP_EINVAL, "inputs is NULL");
    refused(t, 0, NULL, STEP_ENOTFOUND, "is missing");
    data.label[5] = 5;
    refused(t, 3, in, STEP_ERANGE, "input \"label\"[5] is 5; expected 0 <= value < 5");
    data.label[5] = -1;
    refused(t, 3, in, STEP_ERANGE, "[5] is -1");
    data.label[5] = 4;
    struct step_array a = {
        .size = sizeof a, .name = "w", .data = data.x, .dtype = STEP_F32, .rank = 1, .shape = toy_shape_row};
    ck_assert_int_eq(rt_write(t, &a), STEP_ESHAPE);
    float room[17] = {0};
    struct step_array three = {
        .size = sizeof three, .name = "w", .data = room + 8, .dtype = STEP_F32, .rank = 1, .shape = (int64_t[]){3}};
    for (int64_t step = -4; step <= 4; step++) { /* read into elements that are one; written from them */
        three.strides = &step;
        ck_assert_int_eq(rt_read(t, &three), step ? STEP_OK : STEP_EINVAL);
        ck_assert_int_eq(rt_write(t, &three), STEP_OK);
    }
    a.name = "nope";
    ck_assert_int_eq(rt_write(t, &a), STEP_ENOTFOUND);
    a.name = "x";
    ck_assert_int_eq(rt_read(t, &a), STEP_EINVAL);
    a.name = "loss", a.rank = 0;
    ck_assert_int_eq(rt_write(t, &a), STEP_EINVAL);
    ck_assert_int_eq(rt_read(t, &a), STEP_OK);
    ck_assert_float_eq(data.x[0], 0); /* there was no step */
    struct step_batch batch = data.batch;
    batch.microbatches = 2;
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EUNSUPPORTED);
    batch.microbatches = 0, batch.flags = 17;
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
    struct step_result r = {.size = sizeof r};
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_OK);
    ck_assert_uint_eq(r.step, 1); /* none of the refused ones counted */
    ck_assert_int_eq(rt_read(t, &a), STEP_OK);
    ck_assert_float_eq(data.x[0], (float)r.loss);
    rt_destroy(t);
}
END_TEST

START_TEST(unaligned_and_strided)
{
    struct step_instance *t = ready(1, 1), *u = ready(1, 1);
    _Alignas(16) char bytes[sizeof data.x + 1];
    float spread[8], w[2][3];
    const int64_t none[] = {0};
    memcpy(bytes + 1, data.x, sizeof data.x);
    for (int i = 0; i < 8; i++) data.y[i] = 0.75f;
    spread[0] = 0.75f;
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    data.arrays[0].data = bytes + 1;
    data.arrays[1].data = spread, data.arrays[1].strides = none; /* broadcast */
    ck_assert_msg(rt_step(u, &data.batch, NULL) == STEP_OK, "%s", rt_last_error(u));
    toy_read(t, "w", w[0], 3), toy_read(u, "w", w[1], 3);
    ck_assert_mem_eq(w[0], w[1], sizeof w[0]);
    rt_destroy(t), rt_destroy(u);
}
END_TEST

START_TEST(write_and_read)
{ /* writing a parameter does not touch its average or optimizer state; strides both ways */
    struct step_instance *t = ready(4, 1);
    float w[6] = {9, 1, 9, 2, 9, 3}, got[3], ema[3];
    const int64_t stride[] = {-2};
    struct step_array a = {.size = sizeof a,
                           .name = "w",
                           .data = w + 5,
                           .dtype = STEP_F32,
                           .rank = 1,
                           .shape = toy_shape_w,
                           .strides = stride};
    ck_assert_int_eq(rt_write(t, &a), STEP_OK);
    toy_read(t, "w", got, 3), toy_read(t, "ema.w", ema, 3);
    ck_assert(got[0] == 3 && got[1] == 2 && got[2] == 1);
    ck_assert(ema[0] == 0.1f);
    memset(w, 0, sizeof w);
    ck_assert_int_eq(rt_read(t, &a), STEP_OK);
    ck_assert(w[5] == 3 && w[3] == 2 && w[1] == 1 && w[0] == 0);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK); /* all devices have it */
    rt_destroy(t);
}
END_TEST

START_TEST(wild_strides)
{ /* products that leave what can be addressed are refused before anything follows them */
    struct step_instance *t = ready(1, 1);
    float w[3] = {1, 2, 3}, was[3];
    static const int64_t wild[] = {INT64_MAX,           INT64_MIN,        INT64_MAX / 4,
                                   INT64_MIN / 4,       (int64_t)1 << 62, (int64_t)1 << 60,
                                   -((int64_t)1 << 60), (int64_t)1 << 55, ((int64_t)1 << 57) / 4 / 3 + 1};
    int64_t stride = 0, strides[2] = {3, 1};
    struct step_array a = {.size = sizeof a,
                           .name = "w",
                           .data = w,
                           .dtype = STEP_F32,
                           .rank = 1,
                           .shape = (int64_t[]){3},
                           .strides = &stride};
    struct step_array input[3];
    struct step_batch batch = data.batch;
    ck_assert_int_eq(toy_read(t, "w", was, 3), STEP_OK);
    memcpy(input, data.arrays, sizeof input);
    input[0].strides = strides, batch.inputs = input;
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        stride = strides[0] = wild[i];
        ck_assert_int_eq(rt_write(t, &a), STEP_EINVAL);
        ck_assert_msg(strstr(rt_last_error(t), "\"w\": strides") != NULL, "%s", rt_last_error(t));
        ck_assert_int_eq(rt_read(t, &a), STEP_EINVAL);
        ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
        ck_assert_msg(strstr(rt_last_error(t), "strides") != NULL, "%s", rt_last_error(t));
    }
    toy_read(t, "w", w, 3);
    ck_assert_mem_eq(w, was, sizeof w);
    rt_destroy(t);
}
END_TEST

/* A number of every dtype that holds it is read as it was written; what is not zero is true. */
START_TEST(numbers)
{
    static const double values[] = {0, 1, 2, 100, 0.5, -1, -100};
    for (uint32_t dtype = 0; dtype < 64; dtype++) {
        bool real = dtype == STEP_F16 || dtype == STEP_BF16 || dtype == STEP_F32 || dtype == STEP_F64;
        bool sign = real || dtype == STEP_I8 || dtype == STEP_I16 || dtype == STEP_I32 || dtype == STEP_I64;
        for (size_t i = 0; rt_dtype_bytes(dtype) && dtype != STEP_F8E4M3 && dtype != STEP_F8E5M2 &&
                           i < sizeof values / sizeof *values;
             i++) {
            if ((values[i] < 0 && !sign) || (values[i] != floor(values[i]) && !real && dtype != STEP_BOOL)) continue;
            uint64_t at[3] = {0};
            rt_number_put(at, dtype, 1, values[i]);
            double want = dtype == STEP_BOOL ? values[i] != 0 : values[i];
            ck_assert_double_eq(rt_number_at(at, dtype, 1), want);
            ck_assert_double_eq(rt_number_at(at, dtype, 0), 0);
            ck_assert_double_eq(rt_number_at(at, dtype, 2), 0);
        }
    }
}
END_TEST

START_TEST(dense)
{ /* strides in bytes; those of extent 1 do not matter */
    static const struct {
        int64_t shape[3], stride[3];
        bool dense;
    } rows[] = {{{2, 3, 4}, {48, 16, 4}, true},   {{2, 3, 4}, {48, 16, 8}, false}, {{2, 3, 4}, {4, 8, 24}, false},
                {{2, 1, 4}, {16, 999, 4}, true},  {{1, 1, 1}, {0, 0, 0}, true},    {{2, 3, 4}, {96, 16, 4}, false},
                {{2, 3, 4}, {-48, 16, 4}, false}, {{2, 3, 1}, {12, 4, 0}, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(rt_dense(rows[i].stride, rows[i].shape, 3, 4) == rows[i].dense, "row %zu", i);
}
END_TEST

START_TEST(memory)
{ /* small and large blocks are zero, and can be written from end to end */
    struct step_instance *t = ready(1, 1);
    for (size_t bytes = 64; bytes <= (size_t)4 << 20; bytes *= 4) {
        unsigned char *block = rt_host_get(t, bytes);
        ck_assert_msg(block != NULL, "no %zu bytes", bytes);
        for (size_t i = 0; i < bytes; i++) ck_assert(!block[i]);
        memset(block, 0xff, bytes);
        rt_host_put(t, block, bytes);
    }
    rt_destroy(t);
}
END_TEST

int main(void)
{
    return run_case("arrays",
                    CASE_OF(120, inputs, unaligned_and_strided, write_and_read, wild_strides, numbers, dense, memory));
}
