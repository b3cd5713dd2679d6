/* How operands of products lie in memory, and what products and their sums become. */
#include "fuse_run.h"

/* The right operand of a large product is packed once, for both products that read it; a small one stays as it is. */
START_TEST(large_operands_lie_in_panels)
{
    struct fixture x;
    start(&x);
    x.options.panel_columns = 32;
    ir_value w = param(&x, IR_ROLE_PARAM, F32(400, 333)), small = param(&x, IR_ROLE_PARAM, F32(400, 39));
    ir_value a = param(&x, IR_ROLE_INPUT, F32(600, 400)), b = param(&x, IR_ROLE_INPUT, F32(700, 400));
    output(&x, ir_unary(&x.b, OP_neg, product(&x, a, w, 1, 0)));
    output(&x, product(&x, b, w, 1, 0));
    output(&x, product(&x, b, small, 1, 0));
    const struct plan *p = finish(&x);
    ck_assert_uint_eq(kinds(p, GROUP_DOT), 3);
    ck_assert_uint_eq(kinds(p, GROUP_MAP), 1);
    ck_assert_uint_eq(p->groups.count, 4);
    ck_assert_uint_eq(p->arena_bytes, 11 * 400 * 32 * 4);
    drop(&x);
}
END_TEST

/* From how many elements on panels pay goes by their width and by whether columns are rows in memory. Operands of less
 * than two panels have none, nor have small ones of few steps, unless columns are rows in memory. */
START_TEST(small_panels)
{
    static const struct {
        int64_t k, n;
        uint32_t columns; /* of a panel */
        bool turned, packed;
    } cases[] = {{128, 100, 16, false, true}, {128, 100, 32, false, false}, {128, 128, 32, false, true},
                 {128, 256, 16, true, false}, {128, 100, 32, true, true},   {30, 64, 32, true, false},
                 {128, 30, 16, false, false}, {128, 60, 32, true, false},   {64, 400, 16, false, false},
                 {64, 400, 32, false, false}, {64, 400, 32, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = cases[i].columns;
        int64_t k = cases[i].k, n = cases[i].n;
        ir_value w = param(&x, IR_ROLE_PARAM, cases[i].turned ? F32(n, k) : F32(k, n));
        output(&x, product(&x, param(&x, IR_ROLE_INPUT, F32(600, k)), w, 1, cases[i].turned));
        uint32_t packed = kinds(finish(&x), GROUP_MAP);
        ck_assert_msg(packed == cases[i].packed, "%zu: %u", i, packed);
        drop(&x);
    }
}
END_TEST

/* Of a product with more columns than rows the left operand is, if its rows are neighbours: once for both of these. */
START_TEST(shared_rows_lie_in_panels)
{
    struct fixture x;
    start(&x);
    x.options.panel_columns = 32, x.options.panel_rows = 14;
    ir_value a = param(&x, IR_ROLE_INPUT, F32(300, 100)), turned = param(&x, IR_ROLE_INPUT, F32(100, 300));
    ir_value b = param(&x, IR_ROLE_INPUT, F32(300, 333)), c = param(&x, IR_ROLE_INPUT, F32(300, 500));
    output(&x, ir_unary(&x.b, OP_neg, product(&x, a, b, 0, 0)));
    output(&x, product(&x, a, c, 0, 0));
    output(&x, product(&x, turned, c, 1, 0));
    const struct plan *p = finish(&x);
    ck_assert_uint_eq(kinds(p, GROUP_DOT), 3);
    ck_assert_uint_eq(kinds(p, GROUP_MAP), 1);
    ck_assert_uint_eq(p->arena_bytes, (8 * 300 * 13 * 4 + 63) / 64 * 64);
    drop(&x);
}
END_TEST

/* Every second pixel, whose rows lie in runs that no tile divides, is copied once for products of many columns; not for
 * few, where runs have a tile, and where there is none to divide them. */
START_TEST(rows_in_ragged_runs_are_copied)
{
    static const struct {
        int64_t size, columns;
        uint32_t rows, copies;
    } cases[] = {{28, 128, 6, 1}, {28, 64, 6, 0}, {24, 128, 6, 0}, {28, 128, 14, 0}, {34, 128, 14, 1}, {28, 128, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_rows = cases[i].rows;
        int64_t size = cases[i].size, half = size / 2, zero[4] = {0}, limit[] = {2, size, size, 32},
                by[] = {1, 2, 2, 1};
        ir_value image = param(&x, IR_ROLE_INPUT, F32(2, size, size, 32));
        ir_value pixels = ir_reshape(&x.b, ir_slice(&x.b, image, zero, limit, by), 2, (int64_t[]){2 * half * half, 32});
        output(&x, product(&x, pixels, param(&x, IR_ROLE_PARAM, F32(32, cases[i].columns)), 1, 0));
        const struct plan *p = finish(&x);
        ck_assert_uint_eq(kinds(p, GROUP_DOT), 1);
        ck_assert_msg(kinds(p, GROUP_MAP) == cases[i].copies, "%zu: %u copies", i, kinds(p, GROUP_MAP));
        drop(&x);
    }
}
END_TEST

/* Of bfloat16, two steps of the contraction lie side by side, where the CPU multiplies them so; else it is widened. An
 * odd number of steps gets one more. */
START_TEST(panels_of_pairs)
{
    static const int64_t extents[] = {400, 400, 399};
    static const uint64_t bytes[] = {11 * 400 * 32 * 4, 11 * 400 * 32 * 2, (11 * 400 * 32 + 600 * 400) * 2};
    for (int i = 0; i < 3; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = 32, x.options.panel_pairs = i > 0;
        int64_t k = extents[i], a[] = {600, k}, w[] = {k, 333};
        output(&x, product(&x, param(&x, IR_ROLE_INPUT, ir_type_of(IR_BF16, 2, a)),
                           param(&x, IR_ROLE_PARAM, ir_type_of(IR_BF16, 2, w)), 1, 0));
        const struct plan *p = finish(&x);
        ck_assert_uint_eq(kinds(p, GROUP_DOT), 1);
        ck_assert_uint_eq(kinds(p, GROUP_MAP), i < 2 ? 1 : 2);
        ck_assert_uint_eq(p->arena_bytes, bytes[i]);
        drop(&x);
    }
}
END_TEST

/* A product of bfloat16 is one of float32 where a CPU has no other: small operands are widened in memory, large ones by
 * the product, but for rows that lie side by side and few columns. What it is rounded to is stored alone. */
START_TEST(products_of_halves)
{
    static const struct {
        int64_t m, k, n;
        bool by_steps, pairs;
        uint32_t maps;
    } cases[] = {{64, 128, 96, false, false, 2},
                 {64, 128, 96, false, true, 0},
                 {600, 200, 96, false, false, 1},
                 {600, 200, 40, true, false, 2},
                 {600, 200, 96, true, false, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = 16, x.options.panel_pairs = cases[i].pairs;
        int64_t m = cases[i].m, k = cases[i].k, n = cases[i].n, a[] = {m, k}, t[] = {k, m}, w[] = {k, n};
        bool by_steps = cases[i].by_steps;
        ir_value y = product(&x, param(&x, IR_ROLE_INPUT, ir_type_of(IR_BF16, 2, by_steps ? t : a)),
                             param(&x, IR_ROLE_PARAM, ir_type_of(IR_BF16, 2, w)), !by_steps, 0);
        output(&x, ir_unary(&x.b, OP_neg, y));
        output(&x, ir_reduce_plain(&x.b, OP_reduce_max, y, (int64_t[]){0, 1}, 2));
        const struct plan *p = finish(&x);
        uint64_t bytes = (uint64_t)(m * n) * 2;
        ck_assert_uint_eq(kinds(p, GROUP_DOT), 1);
        ck_assert_msg(kinds(p, GROUP_MAP) == cases[i].maps, "%zu: %u are widened", i, kinds(p, GROUP_MAP));
        for (size_t g = 0; g < p->groups.count; g++)
            for (size_t o = 0; p->groups.items[g].kind == GROUP_DOT && o < p->groups.items[g].outputs.count; o++)
                ck_assert_int_eq(ir_type(p->groups.items[g].func, p->groups.items[g].outputs.items[o])->dtype, IR_BF16);
        ck_assert(p->arena_bytes < 2 * bytes + (uint64_t)(m * k + k * n) * 4 + 4096);
        drop(&x);
    }
}
END_TEST

/* Heads that lie one behind the other, each with all rows: what a row sums is in several runs, which no tile packs. */
START_TEST(halves_in_runs)
{
    for (int runs = 0; runs < 2; runs++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = 16;
        struct ir_ints none = {NULL, 0}, of_x = {(int64_t[]){runs ? 0 : 1, 2}, 2}, of_w = {(int64_t[]){0, 1}, 2};
        ir_value a = param(&x, IR_ROLE_INPUT, ir_type_of(IR_BF16, 3, (int64_t[]){runs ? 8 : 600, runs ? 600 : 8, 25})),
                 w = param(&x, IR_ROLE_PARAM, ir_type_of(IR_BF16, 3, (int64_t[]){8, 25, 96}));
        output(&x, ir_dot(&x.b, a, w, none, none, of_x, of_w));
        const struct plan *p = finish(&x);
        ck_assert_uint_eq(kinds(p, GROUP_MAP), runs ? 2 : 1);
        drop(&x);
    }
}
END_TEST

/* A large transposition is a kernel of its own, under reshapes, too, and what it reads is stored where it is made of
 * several tensors; not a small one, one of lines that stay lines, or one that a product reads. */
START_TEST(large_transpositions_are_stored)
{
    static const struct {
        int64_t m, n, inner;
        int reader; /* 0: arithmetic, 1: a sum, 2: a product */
        bool made, reshaped;
        uint32_t groups;
    } cases[] = {{512, 256, 1, 0, false, false, 2}, {512, 256, 1, 1, false, true, 2},
                 {512, 256, 1, 0, true, false, 3},  {64, 64, 1, 0, false, false, 1},
                 {512, 4, 64, 0, false, false, 1},  {512, 256, 1, 2, false, false, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        int64_t m = cases[i].m, n = cases[i].n, inner = cases[i].inner, order[] = {1, 0, 2}, last = 1;
        ir_value a = param(&x, IR_ROLE_INPUT, F32(m, n, inner)), b = param(&x, IR_ROLE_INPUT, F32(m, n, inner));
        ir_value t = ir_transpose(&x.b, cases[i].made ? ir_binary(&x.b, OP_mul, a, b) : a, order);
        if (cases[i].reshaped || cases[i].reader) t = ir_reshape(&x.b, t, 2, (int64_t[]){n, m * inner});
        if (cases[i].reader == 0) output(&x, ir_unary(&x.b, OP_tanh, t));
        else if (cases[i].reader == 1)
            output(&x, ir_reduce_plain(&x.b, OP_reduce_max, ir_unary(&x.b, OP_tanh, t), &last, 1));
        else output(&x, product(&x, t, param(&x, IR_ROLE_INPUT, F32(m * inner, 8)), 1, 0));
        const struct plan *p = finish(&x);
        ck_assert_msg(p->groups.count == cases[i].groups, "%zu: %zu groups", i, p->groups.count);
        drop(&x);
    }
}
END_TEST

static int64_t rows_of_product(const struct plan *p)
{
    for (size_t g = 0; g < p->groups.count; g++)
        for (size_t i = 0; i < p->groups.items[g].nodes.count; i++) {
            const struct ir_node *n = ir_get(p->groups.items[g].func, p->groups.items[g].nodes.items[i]);
            if (n->op == OP_dot) return n->type.dim[0];
        }
    return 0;
}

/* A gradient of weights over many rows is summed by parts, which the first dimension of the product counts: not
 * where rows lie side by side, no number of parts divides them, all results would take too much room, or few rows have
 * many columns or few steps. Up to half as
 * many more of them make their number even. */
START_TEST(long_sums_have_parts)
{
    static const struct {
        int64_t m, n, k, first;
        uint32_t panel;
        bool by_steps;
    } cases[] = {{128, 100, 8192, 16, 16, true}, {128, 100, 8192, 16, 32, true}, {128, 100, 8192, 128, 16, false},
                 {512, 512, 3000, 6, 32, true},  {128, 100, 2625, 5, 32, true},  {128, 100, 1000, 4, 16, true},
                 {128, 96, 1009, 128, 16, true}, {128, 96, 700, 128, 16, true},  {1024, 1024, 4096, 1024, 16, true},
                 {512, 512, 8192, 8, 16, true},  {30, 100, 8192, 16, 16, true},  {30, 300, 8192, 30, 16, true},
                 {30, 100, 3000, 30, 16, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = cases[i].panel;
        int64_t m = cases[i].m, n = cases[i].n, k = cases[i].k;
        bool by_steps = cases[i].by_steps;
        ir_value a = param(&x, IR_ROLE_INPUT, by_steps ? F32(k, m) : F32(m, k));
        output(&x, product(&x, a, param(&x, IR_ROLE_INPUT, F32(k, n)), !by_steps, 0));
        int64_t first = rows_of_product(finish(&x));
        ck_assert_msg(first == cases[i].first, "%zu: %lld", i, (long long)first);
        drop(&x);
    }
}
END_TEST

/* So is one of bfloat16, in parts of whole pairs, not of 625 steps, where the CPU multiplies pairs. */
START_TEST(sums_of_pairs_have_parts)
{
    for (uint32_t pairs = 0; pairs < 2; pairs++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = 32, x.options.panel_pairs = pairs;
        int64_t dim[] = {5000, 50};
        struct ir_type type = ir_type_of(IR_BF16, 2, dim);
        output(&x, product(&x, param(&x, IR_ROLE_INPUT, type), param(&x, IR_ROLE_INPUT, type), 0, 0));
        ck_assert_int_eq(rows_of_product(finish(&x)), pairs ? 10 : 8);
        drop(&x);
    }
}
END_TEST

/* A convolution's groups have parts, too, also where the result stands between its rows; not where groups are many and
 * of many columns. */
START_TEST(sums_of_groups_have_parts)
{
    static const int64_t groups[] = {4, 32, 32}, columns[] = {32, 32, 8}, first[] = {12, 64, 12};
    for (size_t i = 0; i < 3; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = 32;
        ir_value a = param(&x, IR_ROLE_INPUT, F32(6144, groups[i], 64));
        ir_value b = param(&x, IR_ROLE_INPUT, F32(6144, groups[i], columns[i]));
        static const int64_t group[] = {1}, step[] = {0}, order[] = {1, 0, 2};
        struct ir_ints batch = {group, 1}, contract = {step, 1};
        output(&x, ir_transpose(&x.b, ir_dot(&x.b, a, b, batch, batch, contract, contract), order));
        int64_t dim = rows_of_product(finish(&x));
        ck_assert_msg(dim == first[i], "%zu: %lld", i, (long long)dim);
        drop(&x);
    }
}
END_TEST

/* Few columns become rows, where rows lie side by side: not where there are as few of these, or they do not. So
 * do those of several tensors side by side. */
START_TEST(few_columns_become_rows)
{
    static const struct {
        int64_t m, n, rows;
        bool by_steps, joined;
    } cases[] = {{512, 10, 10, true, false}, {512, 32, 512, true, false}, {512, 10, 512, false, false},
                 {16, 10, 16, true, false},  {40, 1, 1, true, false},     {512, 10, 10, true, true},
                 {512, 10, 512, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = 16;
        int64_t m = cases[i].m, n = cases[i].n;
        bool by_steps = cases[i].by_steps;
        int64_t half = cases[i].joined ? m / 2 : m;
        ir_value a = param(&x, IR_ROLE_INPUT, by_steps ? F32(256, half) : F32(half, 256));
        if (cases[i].joined) a = ir_concat(&x.b, (ir_value[]){a, ir_unary(&x.b, OP_neg, a)}, 2, by_steps);
        output(&x, product(&x, a, param(&x, IR_ROLE_INPUT, F32(256, n)), !by_steps, 0));
        ck_assert_int_eq(rows_of_product(finish(&x)), cases[i].rows);
        drop(&x);
    }
}
END_TEST

/* So do columns that leave more of their last panel empty than rows would: of many steps, and no large result. */
START_TEST(ragged_columns_become_rows)
{
    static const struct {
        int64_t m, n, k, rows;
    } cases[] = {{64, 100, 300, 100},   {100, 64, 300, 100},  {64, 100, 200, 64}, {32, 200, 300, 32},
                 {300, 50, 300, 50},    {50, 300, 300, 50},   {256, 72, 300, 72}, {96, 128, 300, 96},
                 {2048, 72, 300, 2048}, {100, 100, 300, 100}, {128, 40, 300, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = 32;
        int64_t m = cases[i].m, n = cases[i].n, k = cases[i].k;
        output(&x, product(&x, param(&x, IR_ROLE_INPUT, F32(k, m)), param(&x, IR_ROLE_INPUT, F32(k, n)), 0, 0));
        int64_t rows = rows_of_product(finish(&x));
        ck_assert_msg(rows == cases[i].rows, "%zu: %lld", i, (long long)rows);
        drop(&x);
    }
}
END_TEST

/* A convolution of few features: its taps stay in the image with a single one, too (nothing else reads them), and the
 * rows of its kernel's gradient are what fills vectors, if columns leave some of one empty. */
START_TEST(few_features)
{
    static const struct {
        int64_t features, rows;
        uint32_t panel;
    } cases[] = {{1, 1, 32}, {3, 3, 32}, {12, 12, 32}, {13, 40, 32}, {6, 6, 16}, {7, 40, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture x;
        start(&x);
        x.options.panel_columns = cases[i].panel;
        int64_t n = cases[i].features, limit[] = {6, 9, 9, 20}, from[4] = {0}, by[] = {1, 1, 1, 1};
        ir_value image = param(&x, IR_ROLE_INPUT, F32(6, 9, 9, 20)), part[2];
        for (int64_t k = 0; k < 2; k++) {
            from[2] = k, limit[2] = 8 + k;
            part[k] = ir_slice(&x.b, image, from, limit, by);
        }
        ir_value taps = ir_concat(&x.b, part, 2, 3);
        struct ir_ints none = {NULL, 0}, pixels = {(int64_t[]){0, 1, 2}, 3};
        output(&x, ir_dot(&x.b, taps, param(&x, IR_ROLE_INPUT, F32(6, 9, 8, n)), none, none, pixels, pixels));
        output(&x, product(&x, taps, param(&x, IR_ROLE_PARAM, F32(40, n)), 3, 0));
        const struct plan *p = finish(&x);
        ck_assert_uint_eq(kinds(p, GROUP_DOT), 2);
        for (size_t g = 0; g < p->groups.count; g++)
            for (size_t k = 0; k < p->groups.items[g].nodes.count && p->groups.items[g].kind != GROUP_DOT; k++)
                ck_assert(ir_get(p->groups.items[g].func, p->groups.items[g].nodes.items[k])->op != OP_slice);
        ck_assert_msg(rows_of_product(p) == cases[i].rows, "%zu: %lld", i, (long long)rows_of_product(p));
        drop(&x);
    }
}
END_TEST

/* Taps of bfloat16 are read in bfloat16, where the CPU multiplies pairs: two channels, and of the kernel's gradient two
 * images, in a copy. Else they are widened first. */
START_TEST(taps_of_pairs)
{
    for (int i = 0; i < 2; i++) {
        struct fixture x;
        start(&x);
        x.options.tap_pairs = i > 0;
        int64_t image[] = {6, 9, 9, 15}, limit[] = {6, 9, 9, 15}, from[4] = {0}, by[] = {1, 1, 1, 1},
                kernel[] = {30, 8};
        ir_value wide = ir_cast(&x.b, param(&x, IR_ROLE_INPUT, ir_type_of(IR_BF16, 4, image)), IR_F32), part[2];
        for (int64_t k = 0; k < 2; k++) {
            from[2] = k, limit[2] = 8 + k;
            part[k] = ir_slice(&x.b, wide, from, limit, by);
        }
        ir_value taps = ir_concat(&x.b, part, 2, 3);
        ir_value w = ir_cast(&x.b, param(&x, IR_ROLE_PARAM, ir_type_of(IR_BF16, 2, kernel)), IR_F32);
        ir_value given = ir_cast(&x.b, param(&x, IR_ROLE_INPUT, ir_type_of(IR_BF16, DIMS(6, 9, 8, 8))), IR_F32);
        struct ir_ints none = {NULL, 0}, pixels = {(int64_t[]){0, 1, 2}, 3};
        output(&x, product(&x, taps, w, 3, 0));
        output(&x, ir_dot(&x.b, taps, given, none, none, pixels, pixels));
        const struct plan *p = finish(&x);
        ck_assert_uint_eq(kinds(p, GROUP_DOT), 2);
        ck_assert_uint_eq(kinds(p, GROUP_MAP), i ? 3 : 0); /* 16 channels, of the kernel too; images side by side */
        for (size_t g = 0; g < p->groups.count && i; g++) {
            const struct plan_group *group = &p->groups.items[g];
            for (size_t k = 0; k < group->inputs.count && group->kind == GROUP_DOT; k++)
                ck_assert_uint_eq(ir_type(p->func, group->inputs.items[k])->dtype, IR_BF16);
        }
        drop(&x);
    }
}
END_TEST

/* For a GPU what has 16 bits is padded as it is, and widened where it is multiplied; not what something else reads. */
START_TEST(padding_of_a_gpu)
{
    for (int i = 0; i < 2; i++) {
        struct fixture x;
        start(&x);
        x.options.blocks = 264;
        ir_value image = param(&x, IR_ROLE_INPUT, ir_type_of(IR_BF16, DIMS(6, 8, 9, 16)));
        ir_value wide = ir_cast(&x.b, image, IR_F32), part[2];
        int64_t edge[] = {0, 1, 1, 0}, limit[] = {6, 10, 10, 16}, from[4] = {0}, by[] = {1, 1, 1, 1};
        ir_value padded = ir_pad(&x.b, wide, ir_scalar(&x.b, IR_F32, 0), edge, edge, from);
        for (int64_t k = 0; k < 2; k++) {
            from[2] = k, limit[2] = 10 + k;
            part[k] = ir_slice(&x.b, padded, from, limit, by);
        }
        ir_value w = ir_cast(&x.b, param(&x, IR_ROLE_PARAM, ir_type_of(IR_BF16, DIMS(32, 24))), IR_F32);
        output(&x, product(&x, ir_concat(&x.b, part, 2, 3), w, 3, 0));
        if (i) output(&x, padded);
        const struct plan *p = finish(&x);
        ck_assert_uint_eq(kinds(p, GROUP_DOT), 1);
        for (size_t g = 0; g < p->groups.count; g++) {
            const struct plan_group *group = &p->groups.items[g];
            for (size_t k = 0; k < group->outputs.count && group->kind == GROUP_MAP; k++)
                ck_assert_uint_eq(ir_type(p->func, group->outputs.items[k])->dtype, i ? IR_F32 : IR_BF16);
        }
        drop(&x);
    }
}
END_TEST

/* What a product in a loop reads in every round is packed before it, once for two products; of 16 bits it is widened
 * there, too. */
static void panels_of_a_loop(enum ir_dtype dtype)
{
    int64_t rows[] = {16, 80}, weights[] = {80, 80};
    struct ir_type of_rows = ir_type_of(dtype, 2, rows), of_weights = ir_type_of(dtype, 2, weights);
    struct fixture x;
    start(&x);
    x.options.panel_columns = 32;
    struct ir_builder outer = x.b, c = {.f = ir_func_new(x.m, "time", false)};
    ir_param_new(&c, "i", ir_type_scalar(IR_I32), -1);
    ir_value h = ir_param_new(&c, "h", of_rows, -1), w = ir_param_new(&c, "w", of_weights, -1);
    x.b = c;
    ir_value once = ir_unary(&c, OP_tanh, product(&x, h, w, 1, 0));
    ir_result_add(&c, "h", ir_unary(&c, OP_tanh, product(&x, once, w, 1, 0)), -1);
    x.b = outer;
    ir_value args[] = {param(&x, IR_ROLE_INPUT, of_rows), param(&x, IR_ROLE_PARAM, of_weights)};
    ir_value loop = ir_loop(&x.b, c.f, ir_scalar(&x.b, IR_I32, 20), args, 1, false, args + 1, 1);
    output(&x, ir_proj(&x.b, loop, 0));
    const struct plan *p = finish(&x);
    const struct plan_command *body = NULL;
    uint32_t packs = 0, products = 0;
    for (size_t i = 0; i < p->commands.count; i++) {
        const struct plan_command *k = &p->commands.items[i];
        if (k->kind != PLAN_KERNEL) body = k->kind == PLAN_LOOP_BEGIN ? k : NULL;
        for (uint32_t m = 0; k->kind == PLAN_KERNEL && m < plan_members(k); m++) {
            const struct plan_group *g = &p->groups.items[plan_member(k, m)];
            packs += !body && g->kind == GROUP_MAP;
            products += body && g->kind == GROUP_DOT;
            ck_assert(!body || g->kind == GROUP_DOT ||
                      ir_type_elements(ir_type(g->func, g->outputs.items[0])) == 16 * 80);
        }
    }
    ck_assert_uint_eq(packs, 1);
    ck_assert_uint_eq(products, 2);
    drop(&x);
}

START_TEST(operands_of_loops_lie_in_panels)
{
    panels_of_a_loop(IR_F32);
    panels_of_a_loop(IR_BF16);
}
END_TEST

int main(void)
{
    return run_case("fuse_products",
                    CASE_OF(30, large_operands_lie_in_panels, small_panels, shared_rows_lie_in_panels,
                            rows_in_ragged_runs_are_copied, panels_of_pairs, products_of_halves, halves_in_runs,
                            few_columns_become_rows, ragged_columns_become_rows, long_sums_have_parts,
                            sums_of_pairs_have_parts, sums_of_groups_have_parts, large_transpositions_are_stored,
                            few_features, taps_of_pairs, padding_of_a_gpu, operands_of_loops_lie_in_panels));
}
