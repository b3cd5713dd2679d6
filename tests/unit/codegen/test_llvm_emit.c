/* The nests of nest_samples.h compiled, run and compared with the nest interpreter. The same bytes from two
 * compilations, the same bits at -O0 and -O2. */
#include "nest_samples.h"
#include "tests/unit/suite.h"
#include <stepc/step_abi.h>

/* c[16, n] = a[16, 2k] b[k, n, 2] in bfloat16 pairs: b's are copied first, a's last ones made of single numbers. */
static void pair_product(int64_t n, int64_t k, double tolerance)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_BF16, false, "a"), y = nest_argument(&b, IR_BF16, false, "b");
    uint32_t copy = nest_argument(&b, IR_BF16, true, "copy"), z = nest_argument(&b, IR_F32, true, "c");
    b.nest->parallel_extent = 16;
    nest_var row = nest_open(&b, NEST_PARALLEL, 16);
    uint32_t sum = nest_reg(&b, IR_F32, 1, true, 0.5);
    nest_var p = nest_open(&b, NEST_SERIAL, k), q = nest_open(&b, NEST_VECTOR, n);
    nest_value right = nest_load_pair(&b, y, AT(&arena, 0, {p, 2 * n}, {q, 2}), 0);
    nest_store(&b, copy, AT(&arena, 0, {row, 2 * n * k}, {p, 2 * n}, {q, 2}), right, 0);
    nest_value left = nest_load_pair(&b, x, AT(&arena, 0, {row, 2 * k}, {p, 2}), 0), half[2];
    nest_value one = nest_fma(&b, IR_F32, left, right, nest_get(&b, sum, AT(&arena, 0, {row, 0})));
    for (int i = 0; i < 2; i++) {
        half[i] = nest_load(&b, x, AT(&arena, i, {row, 2 * k}, {p, 2}), 0);
        half[i] = nest_op(&b, OP_bitcast, IR_U16, &half[i], 1);
        half[i] = nest_op(&b, OP_cast, IR_U32, &half[i], 1);
    }
    nest_value shift[] = {half[1], nest_number(&b, IR_U32, 16)},
               both[] = {half[0], nest_op(&b, OP_shl, IR_U32, shift, 2)};
    nest_set(&b, sum, AT(&arena, 0, {row, 0}), nest_fma(&b, IR_F32, right, nest_op(&b, OP_or, IR_U32, both, 2), one));
    nest_close_to(&b, 1);
    q = nest_open(&b, NEST_VECTOR, n);
    nest_store(&b, z, AT(&arena, 0, {row, n}, {q, 1}), nest_get(&b, sum, AT(&arena, 0, {row, 0})), 0);
    nest_close_to(&b, 0);
    ADD(&b, "product of pairs", 0, 16, (size_t)(64 * k), (size_t)(4 * n * k), (size_t)(64 * n * k), (size_t)(64 * n))
        ->tolerance = tolerance;
}

/* b[n, 16 blocks of n] = the blocks of a, turned. */
static void turned(int64_t n)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_F32, false, "a"), y = nest_argument(&b, IR_F32, true, "b");
    b.nest->parallel_extent = 16;
    nest_var block = nest_open(&b, NEST_PARALLEL, 16);
    uint32_t reg = nest_reg(&b, IR_F32, (uint32_t)n, true, 0);
    nest_var row = nest_open(&b, NEST_UNROLL, n), lane = nest_open(&b, NEST_VECTOR, n);
    nest_set(&b, reg, AT(&arena, 0, {row, 1}), nest_load(&b, x, AT(&arena, 0, {block, n * n}, {row, n}, {lane, 1}), 0));
    nest_close_to(&b, 1);
    nest_turn(&b, reg, (uint32_t)n);
    row = nest_open(&b, NEST_UNROLL, n);
    nest_prefetch(&b, x, AT(&arena, 0, {block, n * n}), 1 << 20);
    lane = nest_open(&b, NEST_VECTOR, n);
    nest_store(&b, y, AT(&arena, 0, {block, n}, {row, 16 * n}, {lane, 1}), nest_get(&b, reg, AT(&arena, 0, {row, 1})),
               0);
    nest_close_to(&b, 0);
    ADD(&b, "turned", 0, 16, (size_t)(64 * n * n), (size_t)(64 * n * n));
}

/* b[16, n] = the difference of two rows of a, each of whose lanes from `first` on, `apart` from one another, stands in
 * `each` lanes. */
static void spread(int64_t n, int64_t each, int64_t apart, int64_t first)
{
    struct nest_builder b = begin();
    int64_t read = first + (n - 1) / each * apart + 1;
    uint32_t x = nest_argument(&b, IR_F32, false, "a"), y = nest_argument(&b, IR_F32, true, "b");
    b.nest->parallel_extent = 16;
    nest_var block = nest_open(&b, NEST_PARALLEL, 16);
    uint32_t from = nest_reg(&b, IR_F32, 2, true, 0), to = nest_reg(&b, IR_F32, 2, true, 0);
    nest_var row = nest_open(&b, NEST_UNROLL, 2), lane = nest_open(&b, NEST_VECTOR, read);
    nest_set(&b, from, AT(&arena, 0, {row, 1}),
             nest_load(&b, x, AT(&arena, 0, {block, 2 * read}, {row, read}, {lane, 1}), 0));
    nest_close_to(&b, 1);
    nest_spread(&b, to, from, (struct nest_index){.offset = first}, each, apart);
    lane = nest_open(&b, NEST_VECTOR, n);
    nest_value rows[] = {nest_get(&b, to, (struct nest_index){0}), nest_get(&b, to, (struct nest_index){.offset = 1})};
    nest_store(&b, y, AT(&arena, 0, {block, n}, {lane, 1}), nest_op(&b, OP_sub, IR_F32, rows, 2), 0);
    nest_close_to(&b, 0);
    ADD(&b, "spread", 0, 16, (size_t)(16 * 2 * read * 4), (size_t)(16 * n * 4));
}

static void build_pairs(void)
{
    if (sample_count) return;
    build_all();
    for (int64_t n = 1; n <= 16; n++) pair_product(n, 9, 0);
    for (int64_t n = 2; n <= 16; n += 2 + n / 3) turned(n);
    static const int64_t spreads[][4] = {{16, 4, 4, 1}, {16, 4, 4, 3}, {15, 3, 3, 2}, {16, 8, 8, 7}, {8, 1, 2, 1},
                                         {16, 4, 2, 0}, {4, 1, 4, 3},  {3, 3, 5, 4},  {16, 1, 1, 0}};
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++)
        spread(spreads[i][0], spreads[i][1], spreads[i][2], spreads[i][3]);
}

static size_t compare_all(const struct harness *h)
{
    size_t failures = 0;
    for (size_t n = 0; n < sample_count; n++) {
        const struct sample *s = &samples[n];
        struct memory got = make_memory(s), want = make_memory(s);
        h->kernels[n](got.buffers, s->lo, s->hi, got.scratch);
        if (!nest_eval(s->nest, want.buffers, s->bytes, s->lo, s->hi, &arena)) {
            printf("%s: the interpreter found an index out of bounds\n", s->name);
            failures++;
        }
        for (size_t i = 0; i < s->count; i++)
            if (!close_enough(s, i, got.buffers[i], want.buffers[i])) {
                failures++;
                break;
            }
        free_memory(&got, s);
        free_memory(&want, s);
    }
    return failures;
}

static struct harness compile_all(const char *cpu, int level)
{
    struct cg_target target = harness_target(&arena, cpu, level);
    struct nest *nests[MAX_NESTS];
    build_pairs();
    for (size_t i = 0; i < sample_count; i++) nests[i] = samples[i].nest;
    return harness_open(&arena, &target, nests, sample_count);
}

START_TEST(native_agrees)
{
    struct harness h = compile_all("native", 2);
    ck_assert_uint_eq(compare_all(&h), 0);
    struct harness again = compile_all("native", 2);
    ck_assert_uint_eq(h.object.size, again.object.size);
    ck_assert(memcmp(h.object.data, again.object.data, h.object.size) == 0);
}
END_TEST

START_TEST(narrow_agrees)
{
    struct harness h = compile_all("x86-64-v2", 2);
    ck_assert_uint_eq(compare_all(&h), 0);
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")) {
        h = compile_all("x86-64-v3", 1);
        ck_assert_uint_eq(compare_all(&h), 0);
    }
}
END_TEST

/* All bits but those of NaNs, which no level promises. */
static bool same_bits(const struct sample *s, size_t i, void *x, void *y)
{
    enum ir_dtype dtype = s->nest->buffers.items[i].dtype;
    size_t size = ir_dtype_bytes(dtype);
    int64_t count = (int64_t)(s->bytes[i] / size);
    struct ir_tensor a = {.type = ir_type_of(dtype, 1, &count)}, b = a;
    ir_tensor_from_bytes(&a, x, &arena);
    ir_tensor_from_bytes(&b, y, &arena);
    for (int64_t k = 0; k < count; k++)
        if (memcmp((char *)x + size * (size_t)k, (char *)y + size * (size_t)k, size) != 0 &&
            !(isnan(a.v[k]) && isnan(b.v[k])))
            return false;
    return true;
}

/* Without fast-math the optimiser may not change a bit. */
START_TEST(levels_agree)
{
    struct harness slow = compile_all("native", 0), fast = compile_all("native", 2);
    for (size_t n = 0; n < sample_count; n++) {
        const struct sample *s = &samples[n];
        struct memory a = make_memory(s), b = make_memory(s);
        slow.kernels[n](a.buffers, s->lo, s->hi, a.scratch);
        fast.kernels[n](b.buffers, s->lo, s->hi, b.scratch);
        for (size_t i = 0; i < s->count; i++)
            ck_assert_msg(same_bits(s, i, a.buffers[i], b.buffers[i]), "%s differs between -O0 and -O2", s->name);
        free_memory(&a, s);
        free_memory(&b, s);
    }
}
END_TEST

/* b = a, of which one number is looked at. */
static uint32_t flag_of(const struct harness *h, size_t kernel, float number)
{
    _Alignas(64) float a[16], b[16]; /* all below the close bound; their squares are not, together */
    for (int i = 0; i < 16; i++) a[i] = i & 1 ? -16383 : 16383;
    _Alignas(64) char memory[2 * STEPC_FLAG_BEFORE] = {0};
    a[11] = number;
    h->kernels[kernel]((void *[]){a, b}, 0, 16, memory + STEPC_FLAG_BEFORE);
    ck_assert(memcmp(a, b, sizeof a) == 0);
    uint32_t flag;
    memcpy(&flag, memory, sizeof flag);
    return flag;
}

START_TEST(flags)
{ /* what is stored and is not as it is to be raises them */
    static const struct {
        float number;
        uint32_t flag[NEST_CLOSE + 1];
    } cases[] = {{16383, {0, 0, 0, 0}},
                 {0x1p14F, {0, 0, 0, STEPC_FLAG_LARGE}},
                 {-0x1p29F, {0, 0, 0, STEPC_FLAG_LARGE}},
                 {-0x1p30F, {0, 0, STEPC_FLAG_LARGE, STEPC_FLAG_LARGE}},
                 {INFINITY,
                  {0, STEPC_FLAG_NOT_FINITE, STEPC_FLAG_LARGE | STEPC_FLAG_NOT_FINITE,
                   STEPC_FLAG_LARGE | STEPC_FLAG_NOT_FINITE}}};
    struct cg_target target = harness_target(&arena, "native", 2);
    struct nest *nests[NEST_CLOSE + 1];
    for (uint8_t kind = 0; kind <= NEST_CLOSE; kind++) {
        struct nest_builder b = begin();
        uint32_t x = nest_argument(&b, IR_F32, false, "a"), y = nest_argument(&b, IR_F32, true, "b");
        b.nest->parallel_extent = 16;
        nest_var i = nest_open(&b, NEST_PARALLEL, 16);
        nest_store(&b, y, AT(&arena, 0, {i, 1}), nest_load(&b, x, AT(&arena, 0, {i, 1}), 0), 0);
        nest_close_to(&b, 0);
        nests[kind] = b.nest;
        nests[kind]->buffers.items[y].checked = kind;
    }
    struct harness h = harness_open(&arena, &target, nests, NEST_CLOSE + 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t kind = 0; kind <= NEST_CLOSE; kind++)
            ck_assert_uint_eq(flag_of(&h, kind, cases[c].number), cases[c].flag[kind]);
}
END_TEST

/* c[4 * rows, columns] = a b, then += them again; rows of a are 2 * steps + 6 apart, and the second b is copied to a
 * local. */
static void tile_product(uint32_t rows, uint32_t columns, int64_t steps)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_BF16, false, "a"), y = nest_argument(&b, IR_BF16, false, "b");
    uint32_t z = nest_argument(&b, IR_F32, true, "c"), local = nest_local(&b, IR_U32, steps * columns);
    b.nest->parallel_extent = 4;
    nest_var i = nest_open(&b, NEST_PARALLEL, 4), k = nest_open(&b, NEST_SERIAL, steps);
    nest_var n = nest_open(&b, NEST_VECTOR, columns);
    nest_value right = nest_load_pair(&b, y, AT(&arena, 0, {k, 2 * columns}, {n, 2}), 0);
    nest_store(&b, local, AT(&arena, 0, {k, columns}, {n, 1}), right, 0);
    nest_close_to(&b, 1);
    int64_t apart = 2 * steps + 6;
    for (int again = 0; again < 2; again++) {
        struct nest_tiles t = {
            rows, columns, {x, again ? local : y}, steps, columns, {apart, again ? columns : 2 * columns}, {{0}, {0}}};
        t.at[0] = AT(&arena, 0, {i, rows * apart});
        nest_tiles(&b, z, AT(&arena, 0, {i, (int64_t)rows * columns}), &t, again);
    }
    nest_close_to(&b, 0);
    ADD(&b, "tiles", 0, 4, (size_t)(8 * rows * apart), (size_t)(4 * steps * columns), (size_t)(16 * rows * columns))
        ->tolerance = 1e-5;
}

static size_t count_of(struct cg_bytes object, const char *code, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i + size <= object.size; i++) count += memcmp((const char *)object.data + i, code, size) == 0;
    return count;
}

/* Code for tiles is made anywhere: every kernel configures them and gives them back. It runs where there are some. */
START_TEST(tiles)
{
    static const int64_t shapes[][3] = {{32, 32, 64}, {32, 32, 5},  {7, 16, 40},
                                        {16, 32, 16}, {17, 32, 33}, {32, 16, 100}};
    struct nest *nests[sizeof shapes / sizeof *shapes];
    size_t count = sizeof shapes / sizeof *shapes;
    sample_count = 0;
    for (size_t i = 0; i < count; i++) {
        tile_product((uint32_t)shapes[i][0], (uint32_t)shapes[i][1], shapes[i][2]);
        nests[i] = samples[i].nest;
    }
    struct cg_target target = {.level = 2}, native = harness_target(&arena, "native", 2);
    const char *why = NULL;
    ck_assert(cg_target_init(&target, "sapphirerapids", &why, &arena) && target.tiles && target.pairs);
    ck_assert_ptr_nonnull(strstr(cg_target_needs(&target, true, true), "amx-bf16"));
    ck_assert_ptr_null(strstr(cg_target_needs(&target, true, false), "amx"));
    struct cg_bytes object = harness_object(&arena, &target, nests, count);
    ck_assert_uint_eq(count_of(object, "\xc4\xe2\x78\x49\xc0", 5), count); /* tilerelease */
    if (!native.tiles) {
        printf("tiles: not run, this CPU or system has none\n");
        return;
    }
    struct harness h = harness_open(&arena, &target, nests, count);
    ck_assert_uint_eq(compare_all(&h), 0);
}
END_TEST

/* Ways from an input to what is rounded. */
static nest_value read_again(struct nest_builder *b, struct nest_index where, nest_value v)
{
    uint32_t local = nest_local(b, IR_F32, 16);
    nest_store(b, local, where, v, 0);
    return nest_load(b, local, where, 0);
}
static nest_value from_register(struct nest_builder *b, struct nest_index where, nest_value v)
{
    (void)where;
    uint32_t reg = nest_reg(b, IR_F32, 1, true, 0);
    struct nest_index none = {0};
    nest_set(b, reg, none, v);
    return nest_get(b, reg, none);
}
static nest_value cast_to_float(struct nest_builder *b, struct nest_index where, nest_value v)
{
    (void)where;
    return nest_op(b, OP_cast, IR_F32, &v, 1);
}
static nest_value bits_of_float(struct nest_builder *b, struct nest_index where, nest_value v)
{
    (void)where;
    return nest_op(b, OP_bitcast, IR_F32, &v, 1);
}
static nest_value larger(struct nest_builder *b, struct nest_index where, nest_value v)
{
    (void)where;
    nest_value args[] = {v, nest_number(b, IR_F32, 1)};
    return nest_op(b, OP_max, IR_F32, args, 2);
}
static nest_value multiplied(struct nest_builder *b, struct nest_index where, nest_value v)
{
    (void)where;
    return nest_fma(b, IR_F32, nest_number(b, IR_F32, 2), nest_number(b, IR_F32, 3), v);
}

/* A NaN whose lower bits are set stays one when it is rounded, wherever it comes from. */
START_TEST(nan_of_any_bits)
{
    static const uint32_t patterns[] = {0x7fffffff, 0xffffffff, 0x7fc08000, 0xffc0ffff};
    static const struct {
        nest_value (*way)(struct nest_builder *, struct nest_index, nest_value);
        enum ir_dtype dtype;
    } cases[] = {{read_again, IR_F32},    {from_register, IR_F32}, {cast_to_float, IR_F64}, {cast_to_float, IR_F16},
                 {bits_of_float, IR_U32}, {larger, IR_F32},        {multiplied, IR_F32}};
    enum { CASES = sizeof cases / sizeof *cases };
    struct nest *nests[CASES];
    for (size_t i = 0; i < CASES; i++) {
        struct nest_builder b = begin();
        uint32_t x = nest_argument(&b, cases[i].dtype, false, "a"), y = nest_argument(&b, IR_BF16, true, "b");
        nest_var lane = nest_open(&b, NEST_VECTOR, 16);
        struct nest_index where = AT(&arena, 0, {lane, 1});
        nest_value v = cases[i].way(&b, where, nest_load(&b, x, where, 0));
        nest_value rounded = nest_op(&b, OP_cast, IR_BF16, &v, 1), args[] = {rounded, rounded};
        nest_store(&b, y, where, nest_op(&b, OP_mul, IR_BF16, args, 2), 0);
        nest_close_to(&b, 0);
        b.nest->parallel_extent = 1;
        nests[i] = b.nest;
    }
    struct cg_target target = harness_target(&arena, "native", 2);
    struct harness h = harness_open(&arena, &target, nests, CASES);
    for (size_t i = 0; i < CASES; i++)
        for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
            _Alignas(64) unsigned char a[16 * 8], memory[2 * STEPC_FLAG_BEFORE + 4096] = {0};
            _Alignas(64) uint16_t b[16];
            size_t size = ir_dtype_bytes(cases[i].dtype);
            uint64_t all = (uint64_t)(patterns[p] | 0x7fff0000) << 32 | patterns[p]; /* as a double it is NaN, too */
            uint16_t half = (uint16_t)(patterns[p] >> 16 | 0x3ff);
            for (size_t k = 0; k < 16; k++) memcpy(a + k * size, size == 2 ? (void *)&half : &all, size);
            h.kernels[i]((void *[]){a, b}, 0, 1, memory + STEPC_FLAG_BEFORE);
            for (size_t k = 0; k < 16; k++)
                ck_assert_msg((b[k] & 0x7fff) > 0x7f80, "%zu: %x becomes %x at %zu", i, patterns[p], b[k], k);
        }
}
END_TEST

/* A loop of very many instructions is printed once: more of them make less code. */
START_TEST(lengthy_loops)
{
    struct cg_target target = harness_target(&arena, "x86-64-v3", 2);
    size_t size[2];
    for (size_t i = 0; i < 2; i++) {
        sample_count = 0;
        flat_map(100, i ? 400 : 350);
        size[i] = harness_object(&arena, &target, &samples[0].nest, 1).size;
    }
    ck_assert_uint_lt(size[1], size[0]);
}
END_TEST

/* A variable of a loop is not taken for the value of its number, nor that for another offset. */
START_TEST(places_told_apart)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_I32, false, "a");
    nest_var i = nest_open(&b, NEST_SERIAL, 4);
    enum { PLACES = 64 };
    nest_value loaded[3 * PLACES], number = nest_number(&b, IR_I32, 0);
    while (number <= PLACES) number = nest_number(&b, IR_I32, number);
    for (uint32_t k = 0; k < PLACES; k++) {
        struct nest_scaled scaled = {.value = k + 1, .scale = 1}, other = {.value = 1, .scale = k + 1};
        loaded[3 * k] = nest_load(&b, x, AT(&arena, 0, {i, k + 1}), 0);
        loaded[3 * k + 1] = nest_load(&b, x, (struct nest_index){.scaled_count = 1, .scaled = &scaled}, 0);
        loaded[3 * k + 2] = k ? nest_load(&b, x, (struct nest_index){.scaled_count = 1, .scaled = &other}, 0) : 0;
    }
    for (uint32_t k = 0; k < 3 * PLACES; k++)
        for (uint32_t j = 0; j < k; j++) ck_assert_msg(loaded[j] != loaded[k], "%u and %u are one", j, k);
}
END_TEST

int main(void)
{
    return run_case("llvm_emit", CASE_OF(120, native_agrees, narrow_agrees, levels_agree, flags, tiles, nan_of_any_bits,
                                         lengthy_loops, places_told_apart));
}
