/* Collectives between devices of one process: kinds, reductions, dtypes, groups along one or several mesh axes, and
 * splits over several workers; each against a plain loop over the devices. */
#include "tests/unit/runtime/toy.h"

#include "kernels/num.h"
#include "tests/unit/suite.h"
#include <stdlib.h>

/* One program: each device fills its operand with f(device, element), one collective, nothing else. */
enum { MOST = 3000 * 8 };
static int64_t axes[3];
static const char *const names[] = {"a", "b", "c"};
static uint32_t devices, dtype, row;

/* Small whole numbers, different everywhere: exact in every dtype. */
static double value(uint32_t device, int64_t i)
{
    return (double)((device * 3 + (uint32_t)i * 5) % 7) + (i % 4 == 0 ? (double)device : 0);
}

static void fill(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    uint32_t device = (uint32_t) * (const int32_t *)b[1];
    int64_t n = *(const int32_t *)b[2];
    (void)lo, (void)hi, (void)scratch;
    for (int64_t i = 0; i < n; i++) rt_number_put(b[0], dtype, i, value(device, i));
}

/* Keeps the team at full size: the work is said to be large. */
static void nothing(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    (void)b, (void)lo, (void)hi, (void)scratch;
}

static const uint32_t fill_args[] = {0, 2, 3}, comm_args[] = {0, 1}, same_args[] = {0, 0};

/* `apart`: it begins, other commands run, it ends. */
static void run_one(uint8_t kind, uint8_t reduction, uint32_t mask, int64_t parts, int64_t outer, int64_t inner,
                    uint32_t threads, bool in_place, bool apart)
{
    uint32_t item = rt_dtype_bytes(dtype), axis_count = 0;
    devices = 1;
    while (axis_count < 3 && axes[axis_count]) devices *= (uint32_t)axes[axis_count++];
    bool cut = kind == STEPC_REDUCE_SCATTER || kind == STEPC_ALL_TO_ALL;
    int64_t part = outer * inner, count = cut ? part * parts : part;
    int64_t results = kind == STEPC_ALL_GATHER ? part * parts : kind == STEPC_REDUCE_SCATTER ? part : count;
    uint64_t stride = (uint64_t)MOST * 8;
    ck_assert(results <= MOST && count <= MOST);
    const struct stepc_buffer buffers[] = {{.space = STEPC_AT_ARENA},
                                           {.space = STEPC_AT_ARENA, .offset = stride},
                                           {.space = STEPC_AT_DEVICE, .offset = 4 * ((1u << axis_count) - 1)},
                                           {.space = STEPC_AT_CONSTANT}};
    const struct stepc_command commands[] = {
        {.kind = STEPC_KERNEL,
         .kernel = fill,
         .buffers = fill_args,
         .buffer_count = 3,
         .extent = 1,
         .grain = 1,
         .flag = UINT32_MAX},
        {.kind = STEPC_KERNEL, .kernel = nothing, .extent = 1000, .grain = 1, .work = 1e9, .flag = UINT32_MAX},
        {.kind = STEPC_COLLECTIVE,
         .barrier = 1,
         .half = apart ? STEPC_STARTS : 0,
         .collective = kind,
         .reduction = reduction,
         .dtype = (uint8_t)dtype,
         .buffers = in_place ? same_args : comm_args,
         .buffer_count = 2,
         .axes = mask,
         .count = (uint64_t)count,
         .inner = (uint64_t)(kind >= STEPC_PERMUTE ? 1 : inner),
         .into = (uint64_t)(kind == STEPC_PERMUTE ? row : outer), /* of all_to_all: extents change places */
         .place = "/test",
         .flag = UINT32_MAX},
        {.kind = STEPC_KERNEL, .kernel = nothing, .extent = 1000, .grain = 1, .work = 1e9, .flag = UINT32_MAX},
        {.kind = STEPC_KERNEL, .barrier = 1, .kernel = nothing, .extent = 1, .grain = 1, .flag = UINT32_MAX},
        {.kind = STEPC_COLLECTIVE, .barrier = 1, .half = STEPC_WAITS, .other = 2, .flag = UINT32_MAX}};
    const struct stepc_entry entry = {.name = "init",
                                      .buffers = buffers,
                                      .buffer_count = 4,
                                      .commands = commands,
                                      .command_count = apart ? 6 : 3,
                                      .arena_bytes = 2 * stride,
                                      .scratch_bytes = 1,
                                      .work = 1e9};
    const int32_t n[16] = {(int32_t)count};
    struct stepc_mesh placed;
    struct stepc_program p = {.version = STEPC_TABLES,
                              .name = "collective",
                              .features = "",
                              .entries = &entry,
                              .entry_count = 1,
                              .constants = (const unsigned char *)n,
                              .constant_bytes = 64,
                              .axis_count = axis_count,
                              .axis_names = names,
                              .axis_sizes = axes,
                              .team = &stepc_part_team,
                              .mesh = &stepc_part_mesh};
    if (toy_far()) test_place(&p, &placed, true);
    struct step_instance *t = toy_create(&p, threads);
    ck_assert_msg(t != NULL, "%s", rt_last_error(NULL));
    ck_assert_uint_eq(t->threads, threads);
    ck_assert_msg(rt_init(t) == STEP_OK, "%s", rt_last_error(t));
    for (uint32_t d = 0; d < devices; d++) {
        uint32_t group[64], size = 0, rank = 0;
        for (uint32_t k = 0; k < devices; k++) {
            if (rt_mesh_index(t, k, ~mask) != rt_mesh_index(t, d, ~mask)) continue;
            if (k == d) rank = size;
            group[size++] = k;
        }
        ck_assert_int_eq((int64_t)size, parts);
        static char buffer[MOST * 8];
        const char *got = rt_view(&t->devices[d], t->devices[d].arena + (in_place ? 0 : stride), buffer, sizeof buffer);
        for (int64_t i = 0; i < results; i++) {
            double want = 0;
            if (kind == STEPC_ALL_GATHER) {
                int64_t slice = i / inner;
                want = value(group[slice % parts], slice / parts * inner + i % inner);
            } else if (kind == STEPC_ALL_TO_ALL) { /* piece rank of the member from which this came */
                int64_t slice = i / outer, e = slice / parts * outer + i % outer;
                want = value(group[slice % parts], (e / inner * parts + rank) * inner + e % inner);
            } else if (kind >= STEPC_PERMUTE) {
                uint32_t from = row ? rank % (size / row) * row + rank / (size / row) : (rank + size - 1) % size;
                want = value(group[kind == STEPC_BROADCAST ? 1 : from], i);
            } else {
                int64_t at = kind == STEPC_ALL_REDUCE ? i : (i / inner * parts + rank) * inner + i % inner;
                for (uint32_t k = 0; k < size; k++) {
                    double v = value(group[k], at);
                    want = k == 0                                   ? v
                           : reduction == STEPC_SUM                 ? want + v
                           : (reduction == STEPC_MAX) == (v > want) ? v
                                                                    : want;
                }
            }
            double found = rt_number_at(got, dtype, i);
            ck_assert_msg(
                found == want,
                "kind %u reduction %u dtype %u mask %u device %u element %lld: %g, expected %g (%u bytes each)", kind,
                reduction, dtype, mask, d, (long long)i, found, want, item);
        }
    }
    rt_destroy(t);
}

static void run(uint8_t kind, uint8_t reduction, uint32_t mask, int64_t parts, int64_t outer, int64_t inner,
                uint32_t threads, bool in_place)
{
    for (int apart = 0; apart < 2; apart++)
        run_one(kind, reduction, mask, parts, outer, inner, threads, in_place, apart);
}

static void mesh(int64_t a, int64_t b, int64_t c) { axes[0] = a, axes[1] = b, axes[2] = c; }

START_TEST(every_dtype)
{
    static const uint32_t dtypes[] = {STEP_U8,  STEP_I8,  STEP_U16, STEP_I16,  STEP_U32, STEP_I32,
                                      STEP_U64, STEP_I64, STEP_F16, STEP_BF16, STEP_F32, STEP_F64};
    mesh(4, 0, 0);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (uint8_t r = STEPC_SUM; r <= STEPC_MIN; r++) {
            dtype = dtypes[i];
            run(STEPC_ALL_REDUCE, r, 1, 4, 1, 37, 1, false);
            run(STEPC_REDUCE_SCATTER, r, 1, 4, 3, 5, 1, false);
        }
}
END_TEST

START_TEST(moves)
{
    mesh(2, 4, 0);
    for (uint32_t threads = 1; threads < 3; threads++)
        for (uint8_t kind = STEPC_ALL_TO_ALL; kind <= STEPC_BROADCAST; kind++) {
            dtype = threads == 1 ? STEP_F32 : STEP_U8;
            run(kind, STEPC_SUM, 2, 4, 6, 5, threads, false);
            run(kind, STEPC_SUM, 1, 2, 1, 700, threads, false);
            run(kind, STEPC_SUM, 3, 8, 30, 50, threads, false);
            row = kind == STEPC_PERMUTE ? 4 : 0;
            run(kind, STEPC_SUM, 3, 8, 30, 50, threads, false);
            row = 0;
        }
}
END_TEST

START_TEST(groups)
{
    dtype = STEP_F32;
    mesh(2, 2, 2);
    for (uint32_t mask = 1; mask < 8; mask++) {
        int64_t parts = 1;
        for (int a = 0; a < 3; a++) parts *= mask >> a & 1 ? 2 : 1;
        run(STEPC_ALL_REDUCE, STEPC_SUM, mask, parts, 1, 100, 1, true);
        run(STEPC_ALL_GATHER, STEPC_SUM, mask, parts, 3, 7, 1, false);
        run(STEPC_REDUCE_SCATTER, STEPC_SUM, mask, parts, 3, 7, 1, false);
    }
    mesh(3, 2, 0);
    run(STEPC_ALL_REDUCE, STEPC_SUM, 1, 3, 1, 11, 1, false);
    run(STEPC_ALL_REDUCE, STEPC_MAX, 2, 2, 1, 11, 1, false);
    run(STEPC_ALL_GATHER, STEPC_SUM, 3, 6, 2, 5, 1, false);
}
END_TEST

START_TEST(teams)
{
    dtype = STEP_F32;
    mesh(2, 0, 0);
    run(STEPC_ALL_REDUCE, STEPC_SUM, 1, 2, 1, 9000, 3, false);
    run(STEPC_ALL_REDUCE, STEPC_SUM, 1, 2, 1, 9001, 3, true);
    run(STEPC_ALL_GATHER, STEPC_SUM, 1, 2, 11, 803, 3, false);
    run(STEPC_REDUCE_SCATTER, STEPC_SUM, 1, 2, 11, 803, 3, false);
    run(STEPC_REDUCE_SCATTER, STEPC_MIN, 1, 2, 1, 1, 3, false);
}
END_TEST

START_TEST(conversions)
{ /* 16-bit floats: all values there and back; rounding to nearest even on the way */
    for (uint32_t h = 0; h < 65536; h++) {
        float f = k_float_of_f16((uint16_t)h), b = k_float_of_bf16((uint16_t)h);
        if (f == f) ck_assert_uint_eq(k_f16_of_float(f), h);
        if (b == b) ck_assert_uint_eq(k_bf16_of_float(b), h);
        uint16_t nan = k_f16_of_float(f);
        if (f != f) ck_assert(k_float_of_f16(nan) != k_float_of_f16(nan));
        if ((h & 0x7c00) < 0x7800 &&
            !(h & 0x8000)) { /* halfway to the next one: to the even one; a little beside: to the nearer one */
            double low = (double)f, high = (double)k_float_of_f16((uint16_t)(h + 1)), half = (low + high) / 2;
            ck_assert_uint_eq(k_f16_of_float((float)half), h + (h & 1));
            uint16_t up = 0, down = 0;
            rt_number_put(&up, STEP_F16, 0, half * (1 + 1e-12) + 1e-30);
            rt_number_put(&down, STEP_F16, 0, half * (1 - 1e-12));
            ck_assert_uint_eq(up, h + 1);
            ck_assert_uint_eq(down, h);
        }
    }
    ck_assert_uint_eq(k_f16_of_float(65519.0f), 0x7bff);
    ck_assert_uint_eq(k_f16_of_float(65520.0f), 0x7c00);
    ck_assert_uint_eq(k_f16_of_float(-1e-9f), 0x8000);
    ck_assert_uint_eq(k_bf16_of_float(3.4028235e38f), 0x7f80);
}
END_TEST

int main(void) { return run_case("collectives", CASE_OF(120, every_dtype, moves, groups, teams, conversions)); }
