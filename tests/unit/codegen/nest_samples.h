/* Nests built by hand that cover every statement: maps, reductions with every tail, tiles, gathers, scatters,
 * conditions, locals, every op on every dtype; with memory to run them on. For one program per printer. */
#ifndef NEST_SAMPLES_H
#define NEST_SAMPLES_H
#include "emit_harness.h"
#include <math.h>
#include <stdio.h>

enum { MAX_NESTS = 800, MAX_BUFFERS = 6 };
struct sample {
    struct nest *nest;
    size_t count;
    size_t bytes[MAX_BUFFERS];
    int64_t lo, hi;
    const char *name;
    double tolerance;
};
static struct arena arena;
static struct sample samples[MAX_NESTS];
static size_t sample_count;

static struct nest_builder begin(void)
{
    struct nest_builder b;
    struct nest *nest = nest_new(&arena);
    nest_builder_init(&b, nest);
    nest->lanes = 16;
    return b;
}

/* `bytes` of the buffers end with 0 */
static struct sample *add(struct nest_builder *b, const char *name, int64_t lo, int64_t hi, const size_t *bytes)
{
    struct sample *s = &samples[sample_count++];
    ck_assert(sample_count < MAX_NESTS);
    *s = (struct sample){.nest = b->nest, .lo = lo, .hi = hi, .name = arena_string(&arena, name)};
    for (; bytes[s->count]; s->count++) s->bytes[s->count] = bytes[s->count];
    return s;
}
#define ADD(b, name, lo, hi, ...) add((b), (name), (lo), (hi), (const size_t[]){__VA_ARGS__, 0})

/* y = x * x + 3 over [lo, hi), and as many times more half of that and 3 */
static void flat_map(int64_t n, int64_t times)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_F32, false, "x"), y = nest_argument(&b, IR_F32, true, "y");
    b.nest->flat = true;
    b.nest->parallel_extent = n;
    nest_var i = nest_open(&b, NEST_VECTOR, -1);
    nest_value v = nest_load(&b, x, AT(&arena, 0, {i, 1}), 0);
    nest_value args[] = {v, v};
    nest_value two[] = {nest_op(&b, OP_mul, IR_F32, args, 2), nest_number(&b, IR_F32, 3)};
    for (; times > 0; times--) {
        nest_value half[] = {nest_op(&b, OP_add, IR_F32, two, 2), nest_number(&b, IR_F32, 0.5)};
        two[0] = nest_op(&b, OP_mul, IR_F32, half, 2);
    }
    nest_store(&b, y, AT(&arena, 0, {i, 1}), nest_op(&b, OP_add, IR_F32, two, 2), 0);
    nest_close(&b);
    ADD(&b, "flat map", n / 3, n, 4 * (size_t)n + 4, 4 * (size_t)n + 4);
}

/* Rows: the largest, the sum of exp, all of it stored back normalised. */
static void softmax(int64_t rows, int64_t n)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_F32, false, "x"), y = nest_argument(&b, IR_F32, true, "y");
    uint32_t tmp = nest_local(&b, IR_F32, n);
    b.nest->parallel_extent = rows;
    nest_var r = nest_open(&b, NEST_PARALLEL, rows);
    uint32_t top = nest_reg(&b, IR_F32, 1, true, -INFINITY), sum = nest_reg(&b, IR_F32, 1, true, 0);
    nest_var i = nest_open(&b, NEST_VECTOR, n);
    nest_reduce(&b, OP_max, top, AT(&arena, 0, {r, 0}), nest_load(&b, x, AT(&arena, 0, {r, n}, {i, 1}), 0));
    nest_close(&b);
    nest_value m = nest_fold(&b, OP_max, top, AT(&arena, 0, {r, 0}));
    i = nest_open(&b, NEST_VECTOR, n);
    nest_value diff[] = {nest_load(&b, x, AT(&arena, 0, {r, n}, {i, 1}), 0), m};
    nest_value d = nest_op(&b, OP_sub, IR_F32, diff, 2);
    nest_value e = nest_op(&b, OP_exp, IR_F32, &d, 1);
    nest_store(&b, tmp, AT(&arena, 0, {i, 1}), e, 0);
    nest_reduce(&b, OP_add, sum, AT(&arena, 0, {r, 0}), e);
    nest_close(&b);
    nest_value s = nest_fold(&b, OP_add, sum, AT(&arena, 0, {r, 0}));
    i = nest_open(&b, NEST_VECTOR, n);
    nest_value quotient[] = {nest_load(&b, tmp, AT(&arena, 0, {i, 1}), 0), s};
    nest_store(&b, y, AT(&arena, 0, {r, n}, {i, 1}), nest_op(&b, OP_div, IR_F32, quotient, 2), 0);
    nest_close(&b);
    nest_close(&b);
    ADD(&b, "softmax", 0, rows, (size_t)(4 * rows * n), (size_t)(4 * rows * n))->tolerance = 1e-5;
}

/* One sum and one product-free maximum of n integers: exact whatever the order. */
static void integer_reduce(int64_t n, enum ir_op op)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_I32, false, "x"), y = nest_argument(&b, IR_I32, true, "y");
    uint32_t reg = nest_reg(&b, IR_I32, 1, true,
                            op == OP_max   ? INT32_MIN
                            : op == OP_min ? INT32_MAX
                            : op == OP_and ? -1
                                           : 0);
    nest_var i = nest_open(&b, NEST_VECTOR, n);
    nest_reduce(&b, op, reg, at(&arena, 0, 0, NULL), nest_load(&b, x, AT(&arena, 0, {i, 1}), 0));
    nest_close(&b);
    nest_store(&b, y, at(&arena, 0, 0, NULL), nest_fold(&b, op, reg, at(&arena, 0, 0, NULL)), 0);
    ADD(&b, "integer reduction", 0, 1, 4 * (size_t)n, 4);
}

/* c[m, n] = a[m, k] b[k, n], rows in tiles of 4, columns in tiles of `width`. */
static void matrix_product(int64_t m, int64_t n, int64_t k, int64_t width)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_F32, false, "a"), y = nest_argument(&b, IR_F32, false, "b");
    uint32_t z = nest_argument(&b, IR_F32, true, "c");
    b.nest->parallel_extent = m / 4;
    nest_var row = nest_open(&b, NEST_PARALLEL, m / 4), column = nest_open(&b, NEST_SERIAL, n / width);
    uint32_t tile = nest_reg(&b, IR_F32, 4, true, 0);
    nest_var p = nest_open(&b, NEST_SERIAL, k), q = nest_open(&b, NEST_VECTOR, width);
    (void)q;
    nest_value right = nest_load(&b, y, AT(&arena, 0, {p, n}, {column, width}, {q, 1}), 0);
    for (int64_t r = 0; r < 4; r++) {
        nest_value left = nest_load(&b, x, AT(&arena, r * k, {row, 4 * k}, {p, 1}), 0);
        nest_set(&b, tile, AT(&arena, r, {row, 0}),
                 nest_fma(&b, IR_F32, left, right, nest_get(&b, tile, AT(&arena, r, {row, 0}))));
    }
    nest_close(&b);
    nest_close(&b);
    nest_var u = nest_open(&b, NEST_UNROLL, 4);
    q = nest_open(&b, NEST_VECTOR, width);
    nest_store(&b, z, AT(&arena, 0, {row, 4 * n}, {u, n}, {column, width}, {q, 1}),
               nest_get(&b, tile, AT(&arena, 0, {u, 1})), 0);
    nest_close(&b);
    nest_close(&b);
    nest_close(&b);
    nest_close(&b);
    ADD(&b, "matrix product", 0, m / 4, (size_t)(4 * m * k), (size_t)(4 * k * n), (size_t)(4 * m * n))->tolerance =
        1e-5;
}

/* Sums of products of 16-bit numbers, by the matrix unit: `left` and `right` tiles of every warp of x and y, added up
 * twice. */
static inline void matrix_unit(enum ir_dtype dtype, uint32_t left, uint32_t right)
{
    struct nest_builder b = begin();
    uint32_t of[] = {nest_argument(&b, dtype, false, "x"), nest_argument(&b, dtype, false, "y")},
             z = nest_argument(&b, IR_F32, true, "z"), counts[] = {4 * left, 2 * right}, sums = 4 * left * right;
    nest_var i = nest_open(&b, NEST_PARALLEL, 3);
    uint32_t sum = nest_reg(&b, IR_F32, sums, true, 1);
    uint32_t factor[] = {nest_reg(&b, IR_U32, counts[0], true, 0), nest_reg(&b, IR_U32, counts[1], true, 0)};
    for (int which = 0; which < 2; which++) {
        nest_var k = nest_open(&b, NEST_UNROLL, counts[which]), lane = nest_open(&b, NEST_VECTOR, 128);
        int64_t all = 256 * counts[which], each = 2 * counts[which];
        nest_value pair = nest_load_pair(&b, of[which], AT(&arena, 0, {i, all}, {lane, each}, {k, 2}), 0);
        nest_set(&b, factor[which], AT(&arena, 0, {k, 1}), pair);
        nest_close_to(&b, 1);
    }
    nest_matrix(&b, dtype, sum, factor[0], factor[1]);
    nest_matrix(&b, dtype, sum, factor[0], factor[1]);
    nest_var k = nest_open(&b, NEST_UNROLL, sums), lane = nest_open(&b, NEST_VECTOR, 128);
    nest_store(&b, z, AT(&arena, 0, {i, 128 * sums}, {lane, sums}, {k, 1}), nest_get(&b, sum, AT(&arena, 0, {k, 1})),
               0);
    nest_close_to(&b, 0);
    b.nest->parallel_extent = 3, b.nest->lanes = 128;
    ADD(&b, "matrix unit", 0, 3, 3 * 512 * counts[0], 3 * 512 * counts[1], 3 * 512 * sums)->tolerance = 1e-6;
}

/* Sums of products of 16-bit numbers in panels, by warpgroups: of so many threads, twice. */
static inline void warpgroups(enum ir_dtype dtype, uint32_t columns, int64_t steps, bool left, bool right,
                              uint32_t threads)
{
    struct nest_builder b = begin();
    uint32_t of[] = {nest_argument(&b, dtype, false, "x"), nest_argument(&b, dtype, false, "y")},
             z = nest_argument(&b, IR_F32, true, "z"), sums = columns / 2;
    struct nest_panels panels = {.columns = columns, .steps = steps, .steps_first = {left, right}};
    int64_t words[] = {threads / 2 * steps / 2, columns * steps / 2};
    for (int i = 0; i < 2; i++)
        panels.from[i] = nest_panel(&b, 2 * words[i], panels.steps_first[i] ? steps : NEST_PANEL);
    nest_var i = nest_open(&b, NEST_PARALLEL, 3);
    uint32_t sum = nest_reg(&b, IR_F32, sums, true, 1);
    nest_warpgroup_wait(&b, sum, 0);
    nest_arrived(&b, 0);
    nest_var block = nest_open(&b, NEST_SERIAL, 2);
    for (int which = 0; which < 2; which++) {
        nest_var k = nest_open(&b, NEST_UNROLL, words[which] / threads), lane = nest_open(&b, NEST_VECTOR, threads);
        struct nest_index from = AT(&arena, 0, {i, 4 * words[which]}, {block, 2 * words[which]}, {k, 2 * threads},
                                    {lane, 2});
        struct nest_index to = AT(&arena, 0, {block, words[which]}, {k, threads}, {lane, 1});
        nest_store(&b, panels.from[which], to, nest_load_pair(&b, of[which], from, 0), 0);
        nest_close_to(&b, 2);
        panels.at[which] = AT(&arena, 0, {block, words[which]});
    }
    nest_warpgroup_wait(&b, sum, 1);
    nest_arrived(&b, 0);
    nest_warpgroup(&b, dtype, sum, &panels);
    nest_close_to(&b, 1);
    nest_warpgroup_wait(&b, sum, 0);
    nest_var k = nest_open(&b, NEST_UNROLL, sums), lane = nest_open(&b, NEST_VECTOR, threads);
    nest_store(&b, z, AT(&arena, 0, {i, threads * sums}, {lane, sums}, {k, 1}),
               nest_get(&b, sum, AT(&arena, 0, {k, 1})), 0);
    nest_close_to(&b, 0);
    b.nest->parallel_extent = 3, b.nest->lanes = threads;
    ADD(&b, "warpgroups", 0, 3, (size_t)(24 * words[0]), (size_t)(24 * words[1]), (size_t)(12 * threads * sums))
        ->tolerance = 1e-5;
}

/* The same by warps of so many rows and columns, `across` side by side, of panels that are copied, as one of two
 * stages; of the last block's neighbours some are zeros. `beside`: rows that lie side by side; 0: steps do. */
static inline void panels(enum ir_dtype dtype, int64_t rows, int64_t columns, int64_t across, int64_t steps,
                          const int64_t beside[2], uint32_t threads)
{
    enum { BLOCKS = 3, EACH = 4 /* words */ };
    struct nest_builder b = begin();
    uint32_t of[] = {nest_argument(&b, dtype, false, "x"), nest_argument(&b, dtype, false, "y")},
             z = nest_argument(&b, IR_F32, true, "z"), sums = (uint32_t)(rows * columns / 32), local[2], part[2];
    int64_t down = threads / 32 / across, size[] = {rows, columns},
            words[] = {down * rows * steps / 2, across * columns * steps / 2};
    for (int i = 0; i < 2; i++) local[i] = nest_panel(&b, 2 * words[i], beside[i] ? beside[i] : steps);
    nest_var i = nest_open(&b, NEST_PARALLEL, 3);
    uint32_t sum = nest_reg(&b, IR_F32, sums, true, 1);
    for (int which = 0; which < 2; which++) part[which] = nest_reg(&b, IR_U32, (uint32_t)size[which] / 4, true, 0);
    nest_arrived(&b, 0);
    nest_var block = nest_open(&b, NEST_SERIAL, BLOCKS);
    nest_value args[] = {nest_position(&b, IR_I32, AT(&arena, 0, {block, 1})), nest_number(&b, IR_I32, 2)};
    nest_value number = nest_op(&b, OP_rem, IR_I32, args, 2);
    struct nest_scaled *stage = arena_copy(&arena, (struct nest_scaled[]){{number, words[0]}, {number, words[1]}},
                                           2 * sizeof *stage);
    for (int which = 0; which < 2; which++) {
        nest_var k = nest_open(&b, NEST_UNROLL, words[which] / EACH / threads),
                 lane = nest_open(&b, NEST_VECTOR, threads);
        struct nest_index to = AT(&arena, 0, {k, EACH * threads}, {lane, EACH});
        to.scaled_count = 1, to.scaled = &stage[which];
        nest_value below[] = {nest_position(&b, IR_I32, AT(&arena, 0, {block, 20}, {lane, 1})),
                              nest_number(&b, IR_I32, 20 * BLOCKS + 60)};
        nest_copy(&b, local[which], to, of[which],
                  AT(&arena, 0, {i, 2 * BLOCKS * words[which]}, {block, 2 * words[which]}, {k, 2 * EACH * threads},
                     {lane, 2 * EACH}),
                  nest_op(&b, OP_lt, IR_BOOL, below, 2));
        nest_close_to(&b, 2);
    }
    nest_copies(&b);
    nest_arrived(&b, 0);
    for (int64_t step = 0; step < steps; step += 16) {
        for (int which = 0; which < 2; which++) {
            struct nest_take take = {.left = which == 0,
                                     .steps_first = !beside[which],
                                     .from = local[which],
                                     .size = size[which],
                                     .by = which ? 1 : across,
                                     .count = which ? across : down,
                                     .steps = steps,
                                     .step = step,
                                     .at = {.scaled_count = 1, .scaled = &stage[which]}};
            nest_take(&b, part[which], &take);
        }
        nest_matrix(&b, dtype, sum, part[0], part[1]);
    }
    nest_close_to(&b, 1);
    nest_var k = nest_open(&b, NEST_UNROLL, sums), lane = nest_open(&b, NEST_VECTOR, threads);
    nest_store(&b, z, AT(&arena, 0, {i, threads * sums}, {lane, sums}, {k, 1}),
               nest_get(&b, sum, AT(&arena, 0, {k, 1})), 0);
    nest_close_to(&b, 0);
    b.nest->parallel_extent = 3, b.nest->lanes = threads;
    ADD(&b, "panels", 0, 3, (size_t)(12 * BLOCKS * words[0]), (size_t)(12 * BLOCKS * words[1]),
        (size_t)(12 * threads * sums))
        ->tolerance = 1e-5;
}

/* y[i] = x[stride * i + 1], then gathered again through an index, then added to by index. */
static void gather_scatter(int64_t n, int64_t stride)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_F32, false, "x"), index = nest_argument(&b, IR_I32, false, "index");
    uint32_t y = nest_argument(&b, IR_F32, true, "y"), z = nest_argument(&b, IR_F32, true, "z");
    nest_var i = nest_open(&b, NEST_VECTOR, n);
    int64_t first = stride < 0 ? -stride * (n - 1) : 1;
    nest_value v = nest_load(&b, x, AT(&arena, first, {i, stride}), 0);
    nest_value limit[] = {nest_load(&b, index, AT(&arena, 0, {i, 1}), 0), nest_number(&b, IR_I32, (double)n)};
    nest_value j = nest_op(&b, OP_rem, IR_I32, limit, 2);
    nest_value positive = nest_op(&b, OP_abs, IR_I32, &j, 1);
    struct nest_scaled scaled = {positive, 1}, tripled = {positive, 3};
    struct nest_index by = {.scaled_count = 1, .scaled = &scaled},
                      by_three = {.offset = 1, .scaled_count = 1, .scaled = &tripled};
    nest_value w = nest_load(&b, x, by, 0), t = nest_load(&b, x, by_three, 0);
    nest_value pair[] = {v, w}, pair2[] = {nest_op(&b, OP_add, IR_F32, pair, 2), t};
    nest_store(&b, y, AT(&arena, first, {i, stride}), nest_op(&b, OP_add, IR_F32, pair2, 2), 0);
    nest_add_to(&b, z, by, v);
    nest_close(&b);
    size_t size = (size_t)(4 * (4 * n + 8));
    ADD(&b, "gather and scatter", 0, 1, size, 4 * (size_t)n, size, size);
}

/* Conditions: a guard per lane (padding), a guard for all, a branch. */
static void conditions(enum ir_dtype dtype, int64_t n)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, dtype, false, "x"), y = nest_argument(&b, dtype, true, "y");
    uint32_t z = nest_argument(&b, dtype, true, "z");
    b.nest->parallel_extent = 5;
    nest_var r = nest_open(&b, NEST_PARALLEL, 5);
    nest_value row = nest_position(&b, IR_I32, AT(&arena, 0, {r, 1})), two = nest_number(&b, IR_I32, 2);
    nest_value row_args[] = {row, two};
    nest_value low = nest_op(&b, OP_lt, IR_BOOL, row_args, 2);
    nest_var i = nest_open(&b, NEST_VECTOR, n);
    nest_value position[] = {nest_position(&b, IR_I32, AT(&arena, -3, {i, 1})), nest_number(&b, IR_I32, 0)};
    nest_value args[] = {position[1], position[0]};
    nest_value inside = nest_op(&b, OP_le, IR_BOOL, args, 2);
    nest_value v = nest_load(&b, x, AT(&arena, -3, {i, 1}), inside), w = nest_load(&b, x, AT(&arena, 0, {i, 1}), low);
    nest_value u = nest_load(&b, x, AT(&arena, 1, {r, 1}), low);
    nest_value pair[] = {v, w}, pair2[] = {nest_op(&b, OP_add, dtype, pair, 2), u};
    nest_store(&b, y, AT(&arena, 0, {r, n}, {i, 1}), nest_op(&b, OP_add, dtype, pair2, 2), inside);
    nest_close(&b);
    nest_open_if(&b, low);
    i = nest_open(&b, NEST_VECTOR, n);
    nest_store(&b, z, AT(&arena, 0, {r, n}, {i, 1}), nest_load(&b, x, AT(&arena, 0, {i, 1}), 0), 0);
    nest_close(&b);
    nest_close(&b);
    nest_close(&b);
    size_t size = ir_dtype_bytes(dtype) * (size_t)(5 * n);
    ADD(&b, "conditions", 1, 5, size + 80, size, size);
}

/* Scratch that one lane writes and another reads, in a loop that uses it again; scalars in memory, written, read and
 * added to; registers without lanes. */
static void exchange(int64_t n)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, IR_F32, false, "x"), y = nest_argument(&b, IR_F32, true, "y");
    uint32_t z = nest_argument(&b, IR_F32, true, "z"), tmp = nest_local(&b, IR_F32, n), one = nest_local(&b, IR_F32, 2);
    b.nest->parallel_extent = 3;
    nest_var r = nest_open(&b, NEST_PARALLEL, 3);
    uint32_t sums = nest_reg(&b, IR_F32, 2, false, 1);
    nest_var k = nest_open(&b, NEST_SERIAL, 4), i = nest_open(&b, NEST_VECTOR, n);
    nest_value place = nest_position(&b, IR_I32, AT(&arena, 0, {k, 1}, {i, 1}));
    nest_value two[] = {nest_load(&b, x, AT(&arena, 0, {r, n}, {i, 1}), 0), nest_op(&b, OP_cast, IR_F32, &place, 1)};
    nest_store(&b, tmp, AT(&arena, 0, {i, 1}), nest_op(&b, OP_add, IR_F32, two, 2), 0);
    nest_close(&b);
    nest_value last = nest_load(&b, tmp, AT(&arena, n - 1, {r, 0}), 0);
    nest_store(&b, one, AT(&arena, 1, {r, 0}), last, 0);
    i = nest_open(&b, NEST_VECTOR, n);
    nest_value turned[] = {nest_load(&b, tmp, AT(&arena, n - 1, {i, -1}), 0), last};
    nest_store(&b, y, AT(&arena, 0, {r, 4 * n}, {k, n}, {i, 1}), nest_op(&b, OP_sub, IR_F32, turned, 2), 0);
    nest_close(&b);
    nest_value again = nest_load(&b, one, AT(&arena, 1, {r, 0}), 0);
    nest_reduce(&b, OP_max, sums, AT(&arena, 0, {r, 0}), again);
    nest_value grown[] = {nest_get(&b, sums, AT(&arena, 1, {r, 0})), again};
    nest_set(&b, sums, AT(&arena, 1, {r, 0}), nest_op(&b, OP_add, IR_F32, grown, 2));
    nest_store(&b, tmp, AT(&arena, 0, {r, 0}), again, 0); /* the next round writes over it */
    nest_add_to(&b, z, AT(&arena, 0, {r, 2}), nest_load(&b, tmp, AT(&arena, 0, {r, 0}), 0));
    nest_close(&b);
    nest_value both[] = {nest_fold(&b, OP_max, sums, AT(&arena, 0, {r, 0})), nest_get(&b, sums, AT(&arena, 1, {r, 0}))};
    nest_store(&b, z, AT(&arena, 1, {r, 2}), nest_op(&b, OP_mul, IR_F32, both, 2), 0);
    nest_close(&b);
    ADD(&b, "soft exchange", 0, 3, (size_t)(12 * n), (size_t)(48 * n), 24)->tolerance = 1e-5;
}

/* Every element-wise op on one dtype, over enough elements for a tail. */
static void one_op(enum ir_op op, enum ir_dtype dtype, double tolerance)
{
    struct nest_builder b = begin();
    const struct ir_op_info *info = &ir_ops[op];
    bool predicate = op == OP_eq || op == OP_ne || op == OP_lt || op == OP_le;
    enum ir_dtype result = predicate ? IR_BOOL : dtype;
    uint32_t in[4];
    nest_value v[4];
    for (int k = 0; k < info->args; k++)
        in[k] = nest_argument(&b, op == OP_select && k == 0 ? IR_BOOL : dtype, false, "x");
    uint32_t y = nest_argument(&b, result, true, "y");
    nest_var i = nest_open(&b, NEST_VECTOR, 53);
    for (int k = 0; k < info->args; k++) v[k] = nest_load(&b, in[k], AT(&arena, 0, {i, 1}), 0);
    nest_value out = op == OP_threefry ? nest_threefry(&b, v, 1) : nest_op(&b, op, result, v, (uint32_t)info->args);
    nest_store(&b, y, AT(&arena, 0, {i, 1}), out, 0);
    nest_close(&b);
    struct sample *s = add(&b, arena_format(&arena, "%s of %s", info->name, ir_dtype_name(dtype)), 0, 1,
                           (const size_t[]){0});
    for (s->count = 0; s->count < (size_t)info->args; s->count++)
        s->bytes[s->count] = 53 * ir_dtype_bytes(op == OP_select && s->count == 0 ? IR_BOOL : dtype);
    s->bytes[s->count++] = 53 * ir_dtype_bytes(result);
    s->tolerance = tolerance;
}

static void one_cast(enum ir_dtype from, enum ir_dtype to)
{
    struct nest_builder b = begin();
    uint32_t x = nest_argument(&b, from, false, "x"), y = nest_argument(&b, to, true, "y");
    nest_var i = nest_open(&b, NEST_VECTOR, 53);
    nest_value v = nest_load(&b, x, AT(&arena, 0, {i, 1}), 0);
    nest_store(&b, y, AT(&arena, 0, {i, 1}), nest_op(&b, OP_cast, to, &v, 1), 0);
    nest_close(&b);
    ADD(&b, arena_format(&arena, "cast %s to %s", ir_dtype_name(from), ir_dtype_name(to)), 0, 1,
        53 * ir_dtype_bytes(from), 53 * ir_dtype_bytes(to));
}

static void refuse(void *user, const char *message)
{
    (void)message;
    *(bool *)user = false;
}

/* As inference has it. Integer powers are made through doubles, which the interpreter does not do. */
static bool applies(enum ir_op op, enum ir_dtype dtype)
{
    bool takes = true;
    int64_t word = 1;
    ir_value args[4];
    struct ir_module *m = ir_module_new("op");
    struct ir_builder b = {.f = ir_func_new(m, "f", false), .reject = refuse, .user = &takes};
    for (int k = 0; k < ir_ops[op].args; k++)
        args[k] = ir_param_new(&b, arena_format(&arena, "x%d", k),
                               ir_type_scalar(op == OP_select && k == 0 ? IR_BOOL : dtype), -1);
    ir_make(&b, (struct ir_node){.op = (uint16_t)op,
                                 .arg_count = (uint32_t)ir_ops[op].args,
                                 .args = args,
                                 .type = ir_type_scalar(dtype),
                                 .attr = {{&word, 1}}});
    ir_module_free(m);
    return takes && op != OP_cast && op != OP_bitcast && !(op == OP_pow && !ir_dtype_is_float(dtype));
}

static void all_ops(void)
{
    static const enum ir_dtype dtypes[] = {IR_BOOL, IR_I8,   IR_U8,  IR_I16, IR_I32, IR_U32, IR_F32,
                                           IR_F64,  IR_BF16, IR_F16, IR_U16, IR_I64, IR_U64};
    for (int op = 1; op < IR_OP_COUNT; op++) {
        if (ir_ops[op].emit != EMIT_ewise) continue;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            enum ir_dtype dtype = dtypes[d];
            bool math = ir_dtype_is_float(dtype) && (ir_ops[op].cost >= 12 || op == OP_rsqrt);
            double tolerance = !math              ? 0
                               : dtype == IR_BF16 ? 0.01
                               : dtype == IR_F16  ? 2e-3
                               : dtype == IR_F32  ? 1e-6
                                                  : 1e-12;
            if (applies((enum ir_op)op, dtype)) one_op((enum ir_op)op, dtype, tolerance);
        }
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) one_cast(dtypes[i], dtypes[k]);
}

static void build_all(void)
{
    if (sample_count) return;
    static const int64_t sizes[] = {1, 15, 16, 17, 100, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) flat_map(sizes[i], 0);
    flat_map(37, 400);
    for (int64_t n = 1; n <= 70; n++)
        integer_reduce(n, n % 4 == 0 ? OP_max : n % 4 == 1 ? OP_add : n % 4 == 2 ? OP_min : OP_and);
    integer_reduce(1000, OP_add);
    integer_reduce(555, OP_max);
    for (int64_t n = 1; n <= 70; n += 7) softmax(3, n);
    softmax(2, 257);
    matrix_product(8, 32, 5, 16);
    matrix_product(4, 10, 7, 10);
    matrix_product(12, 8, 3, 8);
    gather_scatter(37, 2);
    gather_scatter(16, 3);
    gather_scatter(50, -1);
    conditions(IR_F64, 2); /* few lanes before many: what they share is as wide as these need it */
    conditions(IR_F64, 40);
    conditions(IR_F32, 6);
    conditions(IR_F32, 40);
    exchange(1);
    exchange(20);
    exchange(300);
    all_ops();
}

/* ---------------------------------------------------------------- running */

static uint32_t next_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Small and special numbers in the dtype's own form. */
static void fill(void *data, size_t bytes, enum ir_dtype dtype, uint32_t seed)
{
    size_t size = ir_dtype_bytes(dtype), count = bytes / size;
    struct ir_tensor t = {.type = ir_type_of(dtype, 1, &(int64_t){(int64_t)count}),
                          .v = arena_new_array(&arena, double, count)};
    static const double special[] = {0,   -0.0, 1,     -1,  0.5, 2,    INFINITY, -INFINITY,
                                     NAN, 1e10, -1e10, 3e9, 100, -100, 0.25,     7};
    for (size_t i = 0; i < count; i++) {
        double x = (double)(next_random(&seed) >> 8) / 65536.0 - 128.0;
        if (dtype == IR_BOOL) t.v[i] = x > 0;
        else if (ir_dtype_is_float(dtype))
            t.v[i] = seed % 5 == 0 ? special[seed / 5 % 16] : seed % 3 == 0 ? x / 100 : x / 8;
        else t.v[i] = seed % 5 == 0 ? 0 : trunc(ir_dtype_is_signed(dtype) ? x : fabs(x));
    }
    ir_tensor_to_bytes(&t, data);
}

struct memory {
    void *buffers[MAX_BUFFERS];
    void *scratch;
};

static struct memory make_memory(const struct sample *s)
{
    struct memory m;
    for (size_t i = 0; i < s->count; i++) {
        /* no special values where sums are compared with a tolerance */
        enum ir_dtype dtype = s->nest->buffers.items[i].dtype;
        m.buffers[i] = aligned_alloc(64, (s->bytes[i] + 127) / 64 * 64);
        memset(m.buffers[i], 0x5a, (s->bytes[i] + 127) / 64 * 64);
        if (strchr(s->name, ' ') && (strncmp(s->name, "soft", 4) == 0 || strncmp(s->name, "matrix", 6) == 0))
            for (size_t k = 0; k < s->bytes[i] / 4; k++)
                ((float *)m.buffers[i])[k] = (float)((k * 37 + i * 11) % 61) / 8 - 3;
        else fill(m.buffers[i], s->bytes[i], dtype, (uint32_t)i * 77 + 5);
    }
    m.scratch = aligned_alloc(64, (size_t)s->nest->scratch_bytes + 64);
    return m;
}

static void free_memory(struct memory *m, const struct sample *s)
{
    for (size_t i = 0; i < s->count; i++) free(m->buffers[i]);
    free(m->scratch);
}

static bool close_enough(const struct sample *s, size_t i, const void *got, const void *want)
{
    enum ir_dtype dtype = s->nest->buffers.items[i].dtype;
    size_t count = s->bytes[i] / ir_dtype_bytes(dtype);
    struct ir_tensor a = {.type = ir_type_of(dtype, 1, &(int64_t){(int64_t)count})}, b = a;
    ir_tensor_from_bytes(&a, got, &arena);
    ir_tensor_from_bytes(&b, want, &arena);
    for (size_t k = 0; k < count; k++) {
        bool same = a.v[k] == b.v[k] || (isnan(a.v[k]) && isnan(b.v[k]));
        if (!same && !(fabs(a.v[k] - b.v[k]) <= s->tolerance * fmax(1, fabs(b.v[k])))) {
            printf("%s: element %zu of buffer %zu: %.9g, the interpreter says %.9g\n", s->name, k, i, a.v[k], b.v[k]);
            return false;
        }
    }
    return true;
}
#endif
