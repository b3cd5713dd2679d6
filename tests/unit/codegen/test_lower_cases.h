/* Reductions, contractions, scatters and loops; included by test_lower.c. */

static ir_value bcast(struct fixture *x, ir_value v, ir_value like, int64_t dim0)
{
    const struct ir_type *t = ir_type(x->b.f, like);
    int64_t dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++) dims[i] = i + dim0;
    return ir_broadcast(&x->b, v, t->rank, t->dim, dims);
}

static ir_value softmax(struct fixture *x, ir_value v)
{
    int64_t last = ir_type(x->b.f, v)->rank - 1;
    ir_value m = ir_reduce(&x->b, OP_reduce_max, v, &last, 1);
    ir_value e = ir_unary(&x->b, OP_exp, ir_binary(&x->b, OP_sub, v, bcast(x, m, v, 0)));
    ir_value s = ir_reduce(&x->b, OP_reduce_sum, e, &last, 1);
    return ir_binary(&x->b, OP_div, e, bcast(x, s, v, 0));
}

static ir_value mean_last(struct fixture *x, ir_value v)
{
    int64_t last = ir_type(x->b.f, v)->rank - 1;
    ir_value s = ir_reduce(&x->b, OP_reduce_sum, v, &last, 1);
    return ir_binary(&x->b, OP_mul, s, number_like(x, s, 1.0 / (double)ir_type(x->b.f, v)->dim[last]));
}

START_TEST(row_softmax)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(3, 4, 37));
    output(&x, softmax(&x, a));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

START_TEST(row_masked_softmax)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(2, 3, 5, 5)), i = ir_iota(&x.b, I32(5, 5), 0), j = ir_iota(&x.b, I32(5, 5), 1);
    int64_t dims[] = {2, 3};
    ir_value mask = ir_broadcast(&x.b, ir_binary(&x.b, OP_le, j, i), DIMS(2, 3, 5, 5), dims);
    output(&x, softmax(&x, ir_select(&x.b, mask, a, number_like(&x, a, -1e9))));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

/* Rows of few columns, many at once: a lane has one. Whole vectors of rows, and some that stick out. */
START_TEST(short_rows)
{
    static const int64_t columns[] = {1, 2, 3, 6, 8, 10, 16};
    for (uint32_t i = 0; i < 2 * sizeof columns / sizeof *columns; i++) {
        struct fixture x = fixture_new();
        int64_t rows = i % 2 ? 35 : 48, last = 1;
        ir_value a = input(&x, F32(rows, columns[i / 2])), bias = input(&x, F32(columns[i / 2]));
        ir_value y = ir_binary(&x.b, OP_add, a, bcast(&x, bias, a, 1)), p = softmax(&x, y);
        ir_value sum = ir_reduce(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, p, y), &last, 1);
        output(&x, p);
        output(&x, ir_unary(&x.b, OP_exp, sum));
        CHECK_BOTH(x, 2e-6, 0);
    }
}
END_TEST

/* What is made of the sums of rows waits until a vector has enough of them: rows that share an operand and are walked
 * by fours, others, and as many as no vector divides. */
START_TEST(rows_wait)
{
    static const int64_t size[][3] = {{24, 48, 70}, {7, 96, 33}, {20, 12, 65}, {3, 257, 64}};
    for (uint32_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct fixture x = fixture_new();
        const int64_t *n = size[i], first[] = {0, 2}, second[] = {1, 2}, last = 2;
        ir_value a = ir_broadcast(&x.b, input(&x, F32(n[0], n[2])), DIMS(n[0], n[1], n[2]), first);
        ir_value b = ir_broadcast(&x.b, input(&x, F32(n[1], n[2])), DIMS(n[0], n[1], n[2]), second);
        ir_value apart = ir_binary(&x.b, OP_sub, a, b), more = input(&x, F32(n[0], n[1]));
        ir_value sum = ir_reduce(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, apart, apart), &last, 1);
        output(&x, ir_binary(&x.b, OP_mul, more,
                             ir_unary(&x.b, OP_exp, ir_binary(&x.b, OP_mul, sum, number_like(&x, sum, -0.01)))));
        CHECK_BOTH(x, 2e-6, 0);
    }
}
END_TEST

/* Layer norm forward and what its backward reduces. */
START_TEST(row_layer_norm)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(6, 20)), scale = input(&x, F32(20)), g = input(&x, F32(6, 20));
    int64_t last = 1, first = 0;
    ir_value mean = mean_last(&x, a), centred = ir_binary(&x.b, OP_sub, a, bcast(&x, mean, a, 0));
    ir_value var = mean_last(&x, ir_binary(&x.b, OP_mul, centred, centred));
    ir_value r = ir_unary(&x.b, OP_rsqrt, ir_binary(&x.b, OP_add, var, number_like(&x, var, 1e-5)));
    ir_value hat = ir_binary(&x.b, OP_mul, centred, bcast(&x, r, a, 0));
    ir_value s = ir_broadcast(&x.b, scale, DIMS(6, 20), &last);
    output(&x, ir_binary(&x.b, OP_mul, hat, s));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, g, hat), &first, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, g, &first, 1));
    ir_value gs = ir_binary(&x.b, OP_mul, g, s);
    ir_value m1 = mean_last(&x, gs), m2 = mean_last(&x, ir_binary(&x.b, OP_mul, gs, hat));
    ir_value dx = ir_binary(&x.b, OP_sub, gs, bcast(&x, m1, a, 0));
    dx = ir_binary(&x.b, OP_sub, dx, ir_binary(&x.b, OP_mul, hat, bcast(&x, m2, a, 0)));
    output(&x, ir_binary(&x.b, OP_mul, dx, bcast(&x, r, a, 0)));
    CHECK_BOTH(x, 2e-6, 0);
}
END_TEST

START_TEST(row_cross_entropy)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(7, 11)), labels = input(&x, I32(7));
    int64_t last = 1, zero = 0;
    ir_value m = ir_reduce(&x.b, OP_reduce_max, a, &last, 1), c = ir_binary(&x.b, OP_sub, a, bcast(&x, m, a, 0));
    ir_value e = ir_unary(&x.b, OP_exp, c), s = ir_reduce(&x.b, OP_reduce_sum, e, &last, 1);
    ir_value hot = ir_binary(&x.b, OP_eq, ir_iota(&x.b, I32(7, 11), 1), ir_broadcast(&x.b, labels, DIMS(7, 11), &zero));
    ir_value picked = ir_reduce(&x.b, OP_reduce_sum, ir_select(&x.b, hot, c, number_like(&x, c, 0)), &last, 1);
    ir_value loss = ir_binary(&x.b, OP_sub, ir_unary(&x.b, OP_log, s), picked);
    ir_value total = ir_reduce(&x.b, OP_reduce_sum, loss, &zero, 1);
    output(&x, ir_binary(&x.b, OP_mul, total, number_like(&x, total, 1.0 / 7)));
    ir_value p = ir_binary(&x.b, OP_div, e, bcast(&x, s, a, 0));
    ir_value d = ir_binary(&x.b, OP_sub, p, ir_cast(&x.b, hot, IR_F32));
    output(&x, ir_binary(&x.b, OP_mul, d, number_like(&x, d, 1.0 / 7)));
    output(&x, ir_argreduce(&x.b, OP_argmax, a, 1));
    CHECK_BOTH(x, 1e-6, 11);
}
END_TEST

START_TEST(reduce_any_dims)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(3, 4, 5, 6)), e = ir_unary(&x.b, OP_exp, a);
    int64_t cases[][4] = {{0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {1, 3}, {0, 3}, {0, 1, 2}, {0, 2, 3}, {0, 1, 2, 3}};
    uint32_t counts[] = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4};
    for (uint32_t i = 0; i < 11; i++)
        output(&x, ir_reduce(&x.b, i & 1 ? OP_reduce_sum : OP_reduce_max, i & 2 ? a : e, cases[i], counts[i]));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

/* What is kept, or reduced, may have no elements: then nothing is read or stored but sums of none. */
START_TEST(reduce_of_none)
{
    struct fixture x = fixture_new();
    ir_value kept = input(&x, F32(3, 4, 0, 5, 6)), none = input(&x, F32(9, 0, 4)), rows = input(&x, F32(3, 0, 70));
    int64_t first = 0, last = 4, outer[] = {0, 3}, middle = 1, end = 2;
    output(&x, ir_reduce(&x.b, OP_reduce_sum, kept, &first, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, kept, &last, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_max, kept, outer, 2));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, none, &middle, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, rows, &end, 1));
    CHECK_BOTH(x, 0, 0);
}
END_TEST

START_TEST(reduce_types)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, I32(9, 70)), b = input(&x, type_of(IR_BOOL, DIMS(9, 70)));
    int64_t first = 0, last = 1, both[] = {0, 1};
    output(&x, ir_reduce(&x.b, OP_reduce_sum, a, &first, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_min, a, &last, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_max, b, &last, 1));
    output(&x, ir_reduce(&x.b, OP_reduce_min, b, both, 2));
    output(&x, ir_argreduce(&x.b, OP_argmin, a, 0));
    CHECK_BOTH(x, 0, 50);
}
END_TEST

/* Sums of 16-bit rows are formed one element after the other, by a loop of their own; those that follow in the group
 * read at other variables, and the parts of a concatenation where these say. */
START_TEST(row_sum_in_order)
{
    struct fixture x = fixture_new();
    struct ir_type left = type_of(IR_BF16, DIMS(6, 7)), right = type_of(IR_BF16, DIMS(6, 13));
    ir_value list[] = {input(&x, left), input(&x, right)}, other[] = {input(&x, right), input(&x, left)};
    int64_t last = 1;
    ir_value c = ir_concat(&x.b, list, 2, 1), d = ir_concat(&x.b, other, 2, 1);
    ir_value sum = ir_reduce_plain(&x.b, OP_reduce_sum, c, &last, 1);
    ir_value centred = ir_binary(&x.b, OP_sub, d, bcast(&x, sum, d, 0));
    ir_value again = ir_reduce_plain(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, centred, c), &last, 1);
    output(&x, ir_binary(&x.b, OP_mul, ir_binary(&x.b, OP_add, d, c), bcast(&x, again, d, 0)));
    CHECK_BOTH(x, 0.05, 0);
}
END_TEST

START_TEST(column_with_epilogue)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(13, 75)), p = parameter(&x, F32(75));
    int64_t first = 0;
    ir_value g = ir_reduce(&x.b, OP_reduce_sum, ir_unary(&x.b, OP_tanh, a), &first, 1);
    update(&x, p, ir_binary(&x.b, OP_sub, p, ir_binary(&x.b, OP_mul, g, number_like(&x, g, 0.1))));
    ir_value mean = ir_binary(&x.b, OP_mul, g, number_like(&x, g, 1.0 / 13));
    int64_t one = 1;
    ir_value centred = ir_binary(&x.b, OP_sub, a, ir_broadcast(&x.b, mean, DIMS(13, 75), &one));
    output(&x, ir_reduce(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, centred, centred), &first, 1));
    CHECK_BOTH(x, 1e-6, 0);
}
END_TEST

START_TEST(reduce_large)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(300, 400));
    int64_t both[] = {0, 1};
    output(&x, ir_reduce(&x.b, OP_reduce_sum, ir_binary(&x.b, OP_mul, a, a), both, 2));
    CHECK_32(x, 1e-5, 0);
}
END_TEST

static ir_value product(struct fixture *x, ir_value a, ir_value b, int64_t ka, int64_t kb)
{
    struct ir_ints none = {NULL, 0}, lhs = {&ka, 1}, rhs = {&kb, 1};
    return ir_dot(&x->b, a, b, none, none, lhs, rhs);
}

/* Every way the two operands may lie, in shapes with and without tails. */
START_TEST(dot_layouts)
{
    static const int64_t shapes[][3] = {{32, 2, 8}, {32, 8, 8},   {5, 7, 3},     {1, 9, 4},
                                        {9, 4, 1},  {30, 40, 70}, {17, 33, 100}, {64, 16, 48}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t layout = 0; layout < 4; layout++) {
            int64_t m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
            struct fixture x = fixture_new();
            ir_value a = layout & 1 ? input(&x, F32(k, m)) : input(&x, F32(m, k));
            ir_value b = layout & 2 ? input(&x, F32(n, k)) : input(&x, F32(k, n));
            output(&x, product(&x, a, b, layout & 1 ? 0 : 1, layout & 2 ? 1 : 0));
            CHECK_BOTH(x, 2e-6, 0);
        }
}
END_TEST

/* Tiles of a GPU, through shared memory and by the matrix unit: whole ones, ragged ones, many blocks of k. Both the
 * product and the sum with the bias are rounded, to a neighbour where the order of a sum decides. */
START_TEST(dot_grid)
{
    static const int64_t shapes[][3] = {{64, 32, 32}, {17, 9, 18}, {130, 33, 67}, {1300, 40, 420}};
    static const enum ir_dtype dtypes[] = {IR_F32, IR_BF16, IR_F16, IR_F64, IR_I32};
    for (uint32_t i = 0; i < 4 * 4 * 5; i++) {
        const int64_t *s = shapes[i / 20], layout = i % 4, m = s[0], k = s[1], n = s[2], one = 1;
        enum ir_dtype dtype = dtypes[i / 4 % 5];
        if (m * k * n > MOST_WORK || (m > 1000 && (layout || (dtype != IR_F32 && dtype != IR_BF16)))) continue;
        struct fixture x = fixture_new();
        ir_value a = input(&x, layout & 1 ? type_of(dtype, DIMS(k, m)) : type_of(dtype, DIMS(m, k)));
        ir_value b = input(&x, layout & 2 ? type_of(dtype, DIMS(n, k)) : type_of(dtype, DIMS(k, n)));
        ir_value bias = input(&x, type_of(dtype, DIMS(n)));
        ir_value sum = product(&x, a, b, layout & 1 ? 0 : 1, layout & 2 ? 1 : 0);
        output(&x, ir_binary(&x.b, OP_add, sum, ir_broadcast(&x.b, bias, DIMS(m, n), &one)));
        check_lowering(&x, TEST_GPU,
                       dtype == IR_BF16  ? 0x1p-6
                       : dtype == IR_F16 ? 0x1p-9
                                         : 2e-6,
                       dtype == IR_I32 ? 9 : 0);
        ir_module_free(x.m);
    }
}
END_TEST

/* Tiles of a CPU's matrix unit, of numbers that are bfloat16 or were; one batch or three, inputs and (packed once)
 * parameters. */
START_TEST(dot_tiles)
{
    static const int64_t shapes[][3] = {{64, 64, 64},   {33, 34, 47},   {9, 16, 16},   {7, 100, 33},
                                        {40, 70, 100},  {17, 15, 200},  {65, 600, 40}, {140, 530, 20},
                                        {65, 2100, 34}, {17, 290, 520}, {0, 32, 32}};
    uint32_t before = with_tiles;
    for (uint32_t i = 0; i < 16 * sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i / 16], layout = i % 4, m = s[0], k = s[1], n = s[2];
        bool narrow = i & 4, apart = i & 8;
        if ((apart && k > 100) || m * k * n > MOST_WORK) continue;
        struct fixture x = fixture_new();
        int64_t batch = apart ? 3 : 1, b0 = 0, ka = layout & 1 ? 1 : 2, kb = layout & 2 ? 2 : 1;
        ir_value a = input(&x, type_of(IR_BF16, DIMS(batch, layout & 1 ? k : m, layout & 1 ? m : k)));
        ir_value b = parameter(&x, type_of(IR_BF16, DIMS(batch, layout & 2 ? n : k, layout & 2 ? k : n)));
        update(&x, b, b);
        if (!narrow) a = ir_cast(&x.b, a, IR_F32), b = ir_cast(&x.b, b, IR_F32);
        struct ir_ints one = {&b0, 1}, lhs = {&ka, 1}, rhs = {&kb, 1};
        if (batch == 1) {
            a = ir_reshape(&x.b, a, DIMS(layout & 1 ? k : m, layout & 1 ? m : k));
            b = ir_reshape(&x.b, b, DIMS(layout & 2 ? n : k, layout & 2 ? k : n));
            ka--, kb--, one.n = 0;
        }
        ir_value y = ir_dot(&x.b, a, b, one, one, lhs, rhs);
        output(&x, layout == 3 ? ir_unary(&x.b, OP_tanh, y) : y);
        check_lowering(&x, TEST_TILES, narrow ? 0x1p-7 : 2e-6, 0);
        ir_module_free(x.m);
    }
    ck_assert_uint_ge(with_tiles - before, MOST_WORK < INT64_MAX ? 60 : 80);
}
END_TEST

/* The same of heads: their elements lie apart where they are summed, and so do rows of time. */
START_TEST(dot_tiles_of_heads)
{
    static const int64_t shapes[][5] = {{2, 8, 96, 64, 200}, {2, 4, 128, 48, 400}};
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t *s = shapes[i], axes[] = {1, 3, 0, 2, 0, 1};
        struct fixture x = fixture_new();
        struct ir_ints none = {NULL, 0}, inner = {axes + 2 * i, 2}, first = {axes + 4, 2};
        ir_value a = input(&x, type_of(IR_BF16, DIMS(s[0], s[1], s[2], s[3])));
        ir_value b = input(&x, type_of(IR_BF16, DIMS(s[inner.v[0]], s[inner.v[1]], s[4])));
        uint32_t before = with_tiles;
        output(&x, ir_dot(&x.b, ir_cast(&x.b, a, IR_F32), ir_cast(&x.b, b, IR_F32), none, none, inner, first));
        check_lowering(&x, TEST_TILES, 2e-6, 0);
        ck_assert_uint_eq(with_tiles - before, 1);
        ir_module_free(x.m);
    }
}
END_TEST

/* A convolution and its gradients by kernel and image, of widths and channels that no tile divides. */
static struct fixture convolution(const int64_t *s, enum ir_dtype dtype)
{
    struct fixture x = fixture_new();
    int64_t batch = s[0], size = s[1], in = s[2], out = s[3], window = s[4], by = s[5];
    int64_t n = (size - window) / by + 1, taps = window * window, ones[] = {1, 1, 1, 1}, none[4] = {0};
    ir_value image = ir_cast(&x.b, input(&x, type_of(dtype, DIMS(batch, size, size, in))), IR_F32),
             w = ir_cast(&x.b, input(&x, type_of(dtype, DIMS(taps * in, out))), IR_F32),
             given = ir_cast(&x.b, input(&x, type_of(dtype, DIMS(batch, n, n, out))), IR_F32),
             tap = taps_of(&x, image, window, window, by, 1, 1), sum = 0;
    struct ir_ints no = {NULL, 0}, pixels = {(int64_t[]){0, 1, 2}, 3};
    output(&x, ir_unary(&x.b, OP_tanh, product(&x, tap, w, 3, 0)));
    output(&x, ir_dot(&x.b, tap, given, no, no, pixels, pixels));
    ir_value each = product(&x, given, w, 3, 1), zero = ir_scalar(&x.b, IR_F32, 0);
    for (int64_t t = 0; t < taps; t++) {
        int64_t low[] = {0, t / window, t % window, 0}, inside[] = {0, by - 1, by - 1, 0}, high[4] = {0};
        for (int i = 1; i < 3; i++) high[i] = size - low[i] - (n - 1) * by - 1;
        ir_value part = ir_slice(&x.b, each, (int64_t[]){0, 0, 0, t * in}, (int64_t[]){batch, n, n, (t + 1) * in},
                                 ones);
        part = ir_pad(&x.b, part, zero, low, high, inside);
        sum = t ? ir_binary(&x.b, OP_add, part, sum) : part;
    }
    int64_t cut[] = {0, -1, 0, 0};
    output(&x, ir_pad(&x.b, sum, zero, cut, none, none));
    return x;
}

START_TEST(dot_taps)
{
    static const int64_t shapes[][6] = {
        {2, 9, 9, 20, 3, 1}, {2, 10, 11, 17, 3, 2}, {1, 7, 8, 300, 3, 1}, {20, 4, 40, 9, 2, 1}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture x = convolution(shapes[i], IR_F32);
        CHECK_BOTH(x, 3e-5, 0);
    }
}
END_TEST

/* The same with fewer multiplications, of tiles that stick out, and of channels and columns that no vector divides. */
START_TEST(dot_taps_by_points)
{
    static const int64_t shapes[][6] = {
        {3, 10, 32, 32, 3, 1}, {2, 17, 40, 60, 3, 1}, {1, 25, 48, 64, 3, 1}, {20, 8, 33, 64, 3, 1}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (i && MOST_WORK < INT64_MAX) break;
        struct fixture x = convolution(shapes[i], IR_F32);
        uint32_t before = with_points;
        x.fast = true;
        check_lowering(&x, i % 2 ? 64 : 32, 3e-5, 0);
        ck_assert_msg(with_points - before >= 2, "%u: %u", i, with_points - before);
        ir_module_free(x.m);
    }
}
END_TEST

/* Along one dimension, with what follows the convolution, and with its kernel the other way round. */
START_TEST(dot_lines_by_points)
{
    for (int64_t rows = 70; rows < 72; rows++) {
        struct fixture x = fixture_new();
        int64_t in = 96, out = 64, behind = 2;
        ir_value line = input(&x, F32(3, rows + 2, in)), w = input(&x, F32(3 * in, out)),
                 given = input(&x, F32(3, rows, out)), bias = input(&x, F32(out)), tap[2][3] = {{0}};
        for (int64_t k = 0; k < 3; k++)
            tap[0][k] = tap[1][2 - k] = ir_slice(&x.b, line, (int64_t[]){0, k, 0}, (int64_t[]){3, rows + k, in},
                                                 (int64_t[]){1, 1, 1});
        uint32_t before = with_points;
        struct ir_ints no = {NULL, 0}, steps = {(int64_t[]){0, 1}, 2};
        for (uint32_t way = 0; way < 2; way++) {
            ir_value taps = ir_concat(&x.b, tap[way], 3, 2), y = product(&x, taps, w, 2, 0);
            output(&x, ir_unary(&x.b, OP_tanh,
                                ir_binary(&x.b, OP_add, y, ir_broadcast(&x.b, bias, DIMS(3, rows, out), &behind))));
            output(&x, ir_dot(&x.b, taps, given, no, no, steps, steps));
        }
        x.fast = true;
        check_lowering(&x, 64, 3e-5, 0);
        ck_assert_uint_eq(with_points - before, 4);
        CHECK_BOTH(x, 3e-5, 0);
    }
}
END_TEST

/* Every channel by itself: what its taps give, summed, and the gradient by the image, of which the border is not made.
 */
START_TEST(taps_of_channels)
{
    static const int64_t shapes[][4] = {{9, 20, 3, 1}, {10, 33, 3, 2}, {8, 16, 5, 1}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture x = fixture_new();
        int64_t size = shapes[i][0], in = shapes[i][1], window = shapes[i][2], by = shapes[i][3];
        int64_t n = (size - window) / by + 1, none[4] = {0}, cut[] = {0, -1, -1, 0};
        ir_value image = input(&x, F32(2, size, size, in)), w = input(&x, F32(window * window, in)),
                 given = input(&x, F32(2, n, n, in)), zero = ir_scalar(&x.b, IR_F32, 0), forward = 0, back = 0;
        for (int64_t t = 0; t < window * window; t++) {
            int64_t r = t / window, c = t % window, low[] = {0, r, c, 0}, inside[] = {0, by - 1, by - 1, 0},
                    high[] = {0, size - r - (n - 1) * by - 1, size - c - (n - 1) * by - 1, 0};
            ir_value tap = ir_slice(&x.b, image, low, (int64_t[]){2, size - high[1], size - high[2], in},
                                    (int64_t[]){1, by, by, 1});
            ir_value weight = ir_reshape(
                &x.b, ir_slice(&x.b, w, (int64_t[]){t, 0}, (int64_t[]){t + 1, in}, (int64_t[]){1, 1}), 1, &in);
            weight = ir_broadcast_to(&x.b, weight, DIMS(2, n, n, in));
            ir_value one = ir_binary(&x.b, OP_mul, tap, weight);
            ir_value part = ir_pad(&x.b, ir_binary(&x.b, OP_mul, given, weight), zero, low, high, inside);
            forward = t ? ir_binary(&x.b, OP_add, forward, one) : one;
            back = t ? ir_binary(&x.b, OP_add, back, part) : part;
        }
        output(&x, forward);
        output(&x, ir_pad(&x.b, back, zero, cut, cut, none));
        uint32_t before = with_neighbours;
        check_lowering(&x, 64, 1e-6, 0);
        ck_assert_uint_gt(with_neighbours, before);
        CHECK_BOTH(x, 1e-6, 0);
    }
}
END_TEST

/* Convolutions in pairs of bfloat16: of channels, and, of the kernel's gradient, of images; odd ones get one more of
 * zeros. */
START_TEST(dot_taps_in_pairs)
{
    static const int64_t shapes[][6] = {
        {2, 9, 8, 20, 3, 1}, {3, 10, 11, 17, 3, 2}, {1, 7, 8, 300, 3, 1}, {20, 4, 40, 9, 2, 1}, {5, 8, 1, 16, 3, 1}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture x = convolution(shapes[i], IR_BF16);
        uint32_t before = with_pairs;
        check_lowering(&x, TEST_PAIRS, 3e-5, 0);
        ck_assert_uint_ge(with_pairs - before, shapes[i][0] == 1 || shapes[i][2] == 1 ? 2 : 3);
        ir_module_free(x.m);
    }
}
END_TEST

START_TEST(dot_long_k)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(19, 1300)), b = input(&x, F32(1300, 21)), c = input(&x, F32(4, 2048)),
             d = input(&x, F32(6, 2048));
    output(&x, ir_unary(&x.b, OP_exp,
                        ir_binary(&x.b, OP_mul, product(&x, a, b, 1, 0), ir_number(&x.b, F32(19, 21), 1e-3))));
    output(&x, product(&x, c, d, 1, 1));
    CHECK_BOTH(x, 3e-5, 0);
}
END_TEST

START_TEST(dot_epilogue)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(33, 20)), w = parameter(&x, F32(20, 50)), bias = input(&x, F32(50)),
             r = input(&x, F32(33, 50));
    int64_t one = 1;
    ir_value pre = ir_binary(&x.b, OP_add, product(&x, a, w, 1, 0), ir_broadcast(&x.b, bias, DIMS(33, 50), &one));
    ir_value act = ir_unary(&x.b, OP_tanh, pre);
    output(&x, pre);
    output(&x, act);
    output(&x, ir_binary(&x.b, OP_add, r, act));
    CHECK_BOTH(x, 2e-6, 0);
}
END_TEST

/* Attention: scores, softmax, values, with heads inside the rows, and the projection back. */
START_TEST(dot_attention)
{
    struct fixture x = fixture_new();
    ir_value q = input(&x, F32(2, 10, 3, 8)), k = input(&x, F32(2, 10, 3, 8)), v = input(&x, F32(2, 10, 3, 8));
    ir_value w = input(&x, F32(3, 8, 24));
    int64_t heads[] = {0, 2}, depth = 3, scores_batch[] = {0, 1}, last = 3, seq = 1, perm[] = {0, 2, 1, 3};
    struct ir_ints hb = {heads, 2}, kd = {&depth, 1}, sb = {scores_batch, 2}, kl = {&last, 1}, ks = {&seq, 1};
    ir_value s = ir_dot(&x.b, q, k, hb, hb, kd, kd);
    s = ir_binary(&x.b, OP_mul, s, number_like(&x, s, 0.35));
    ir_value o = ir_dot(&x.b, softmax(&x, s), v, sb, hb, kl, ks);
    o = ir_transpose(&x.b, o, perm);
    int64_t wc[] = {0, 1}, oc[] = {2, 3};
    struct ir_ints none = {NULL, 0}, lhs = {oc, 2}, rhs = {wc, 2};
    output(&x, ir_dot(&x.b, o, w, none, none, lhs, rhs));
    output(&x, ir_reshape(&x.b, o, DIMS(20, 24)));
    CHECK_BOTH(x, 3e-6, 0);
}
END_TEST

/* Columns that are apart in memory, and whole vectors neither here nor there: nothing beyond the last is read. */
START_TEST(dot_columns_apart)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, F32(2, 20, 32)), b = input(&x, F32(2, 4, 20, 40));
    int64_t lhs[] = {0, 1}, rhs[] = {0, 2};
    struct ir_ints none = {NULL, 0}, first = {lhs, 2}, second = {rhs, 2};
    output(&x, ir_dot(&x.b, a, b, none, none, first, second));
    CHECK_BOTH(x, 1e-5, 0);
}
END_TEST

/* Scores that are never stored: causal, rows and columns of odd numbers, and the gradient as passes make it. */
START_TEST(dot_attention_by_tiles)
{
    struct fixture x = fixture_new();
    struct ir_builder *b = &x.b;
    enum { HEADS = 14, ROWS = 74, COLUMNS = 66 };
    ir_value q = input(&x, F32(ROWS, HEADS, 3)), k = input(&x, F32(HEADS, COLUMNS, 3)),
             g = input(&x, F32(HEADS, ROWS, 5));
    ir_value v = input(&x, F32(HEADS, COLUMNS, 5)), i = ir_iota(b, I32(ROWS, COLUMNS), 0);
    ir_value j = ir_iota(b, I32(ROWS, COLUMNS), 1);
    int64_t d0 = 0, d1 = 1, d2 = 2, last[] = {1, 2};
    struct ir_ints first = {&d0, 1}, second = {&d1, 1}, third = {&d2, 1};
    ir_value mask = ir_broadcast(b, ir_binary(b, OP_le, j, i), DIMS(HEADS, ROWS, COLUMNS), last);
    ir_value s = ir_dot(b, q, k, second, first, third, third), z = ir_select(b, mask, s, number_like(&x, s, -1e9));
    ir_value m = ir_reduce(b, OP_reduce_max, z, &d2, 1);
    ir_value e = ir_unary(b, OP_exp, ir_binary(b, OP_sub, z, bcast(&x, m, z, 0)));
    ir_value l = bcast(&x, ir_reduce(b, OP_reduce_sum, e, &d2, 1), e, 0), p = ir_binary(b, OP_div, e, l);
    output(&x, ir_dot(b, p, v, first, first, third, second));
    ir_value dp = ir_binary(b, OP_div, ir_dot(b, g, v, first, first, third, third), l);
    ir_value sum = ir_reduce(b, OP_reduce_sum, ir_unary(b, OP_neg, ir_binary(b, OP_mul, dp, p)), &d2, 1);
    ir_value ds = ir_binary(b, OP_mul, ir_binary(b, OP_add, dp, bcast(&x, sum, dp, 0)), e);
    ds = ir_select(b, mask, ds, number_like(&x, ds, 0));
    output(&x, ir_dot(b, ds, k, first, first, third, second));
    output(&x, ir_dot(b, ds, q, first, second, second, first));
    output(&x, ir_dot(b, p, g, first, first, second, second));
    check_lowering(&x, TEST_GPU, 2e-5, 0);
    CHECK_BOTH(x, 2e-5, 0);
}
END_TEST

START_TEST(dot_integers_and_views)
{
    struct fixture x = fixture_new();
    ir_value a = input(&x, I32(6, 5)), b = input(&x, I32(5, 20)), c = input(&x, F32(12, 9)), row = input(&x, F32(9));
    int64_t start[] = {2, 1}, limit[] = {10, 9}, stride[] = {2, 1}, one = 1;
    output(&x, product(&x, a, b, 1, 0));
    ir_value part = ir_slice(&x.b, c, start, limit, stride);
    output(&x, product(&x, part, part, 0, 0));
    output(&x, product(&x, c, ir_broadcast(&x.b, row, DIMS(4, 9), &one), 1, 1));
    CHECK_BOTH(x, 2e-6, 9);
}
END_TEST

START_TEST(scatter)
{
    struct fixture x = fixture_new();
    ir_value table = parameter(&x, F32(9, 32)), index = input(&x, I32(3, 4)), u = input(&x, F32(3, 4, 32));
    ir_value zero = ir_number(&x.b, F32(9, 32), 0), small = input(&x, F32(2, 8, 3)), v = input(&x, F32(2, 3, 4, 3));
    output(&x, ir_scatter_add(&x.b, zero, index, ir_unary(&x.b, OP_neg, u), 0));
    output(&x, ir_scatter_add(&x.b, small, index, v, 1));
    update(&x, table, ir_scatter_add(&x.b, table, index, u, 0));
    /* what is added to is what is added, too, as where the gradient of a sort meets that of what it sorts */
    ir_value rows = ir_unary(&x.b, OP_sin, input(&x, F32(5, 16))), turn = input(&x, I32(5)),
             state = parameter(&x, F32(5, 16));
    output(&x, ir_unary(&x.b, OP_neg, ir_scatter_add(&x.b, rows, turn, rows, 0)));
    update(&x, state, ir_scatter_add(&x.b, state, turn, ir_reshape(&x.b, state, DIMS(5, 16)), 0));
    CHECK_BOTH(x, 1e-6, 12);
}
END_TEST

/* Every kind both ways: lines that lie beside each other, tiles that are turned (whole ones, rest of lines and of
 * elements), single lines; with what is made before and behind, and operands that lie otherwise. */
static void add_running(struct fixture *x, struct ir_type type, uint32_t dim)
{
    ir_value a = input(x, type), f = input(x, type);
    for (int kind = 0; kind < IR_CUMULATE_COUNT; kind++)
        for (int reverse = 0; reverse < 2; reverse++) {
            ir_value args[2] = {ir_unary(&x->b, OP_tanh, a), ir_unary(&x->b, OP_sin, f)};
            ir_value r = ir_cumulate(&x->b, (enum ir_cumulate)kind, args, dim, reverse);
            output(x, kind == IR_CUMULATE_LINEAR ? r : ir_binary(&x->b, OP_mul, r, f));
        }
}

/* Indices of a row that stay among its own elements, as those that sort it; with bounds that they keep, and with one
 * that they do not. */
START_TEST(scatter_in_groups)
{
    struct fixture x = fixture_new();
    struct ir_builder *b = &x.b;
    for (int i = 0; i < 6; i++) {
        int64_t n = 9, width = i % 3 ? 1 : 32, most = i == 4 ? 20 : 6 * n - 1;
        struct ir_type type = I32(6, 4);
        ir_value within = ir_binary(b, OP_max, input(&x, type), ir_number(b, type, 0));
        within = ir_binary(b, OP_min, within, ir_number(b, type, i == 5 ? (double)n : (double)n - 1));
        ir_value index = ir_binary(b, OP_mul, ir_iota(b, type, 0), ir_number(b, type, (double)n));
        index = i % 2 ? ir_binary(b, OP_add, index, within) : ir_binary(b, OP_add, within, index);
        index = ir_binary(b, OP_max, index, ir_number(b, type, 0));
        index = ir_binary(b, OP_min, index, ir_number(b, type, (double)most));
        ir_value to = i % 2 ? input(&x, F32(2, 6 * n, width)) : ir_number(b, F32(2, 6 * n, width), 0);
        ir_value sum = ir_scatter_add(b, to, index, input(&x, F32(2, 6, 4, width)), 1);
        output(&x, i < 3 ? sum : ir_unary(b, OP_neg, sum));
    }
    CHECK_BOTH(x, 1e-6, 12);
}
END_TEST

START_TEST(running)
{
    struct fixture x = fixture_new();
    add_running(&x, F32(3, 37, 21), 1);
    add_running(&x, F32(37, 53), 1);
    CHECK_BOTH(x, 3e-5, 0);
    x = fixture_new();
    add_running(&x, F32(2, 5, 7), 2);
    add_running(&x, F32(2, 45), 1);
    ir_value row = input(&x, F32(21)), wide = ir_broadcast(&x.b, row, DIMS(6, 4, 21), (int64_t[]){2});
    output(&x, ir_cumulate(&x.b, IR_CUMULATE_SUM, &wide, 2, false));
    output(&x, ir_cumulate(&x.b, IR_CUMULATE_SUM, &wide, 1, true));
    ir_value apart = input(&x, F32(5, 4, 19)), turned = ir_transpose(&x.b, apart, (int64_t[]){2, 0, 1});
    output(&x, ir_cumulate(&x.b, IR_CUMULATE_MAX, &turned, 0, false));
    ir_value flat = ir_reshape(&x.b, turned, DIMS(19, 20));
    output(&x, ir_cumulate(&x.b, IR_CUMULATE_SUM, &flat, 1, false));
    ir_value whole = input(&x, I32(6, 40));
    output(&x, ir_cumulate(&x.b, IR_CUMULATE_SUM, &whole, 1, true));
    CHECK_BOTH(x, 3e-5, 0);
}
END_TEST

/* The order of lines: tiles that are turned, lanes as they lie, single ones; of every number of elements, where blocks
 * of the network have a rest; many ties. */
static void add_order(struct fixture *x, struct ir_type type, uint32_t dim)
{
    ir_value a = input(x, type), key = ir_cast(&x->b, ir_binary(&x->b, OP_mul, a, number_like(x, a, 9)), IR_I32);
    output(x, ir_binary(&x->b, OP_mul, ir_order(&x->b, key, dim), key));
    output(x, ir_order(&x->b, key, dim));
}

START_TEST(order)
{
    struct fixture x = fixture_new();
    for (int64_t n = 2; n < 12; n++) add_order(&x, F32(5, n), 1);
    CHECK_BOTH(x, 0, 0);
    x = fixture_new();
    add_order(&x, F32(37, 53), 1);
    add_order(&x, F32(2, 45, 21), 1);
    add_order(&x, F32(2, 3, 19), 2);
    add_order(&x, F32(4, 64), 1);
    CHECK_BOTH(x, 0, 0);
}
END_TEST

/* Microbatches: a loop that slices its input, accumulates in place and counts in another carried value. */
START_TEST(loop)
{
    struct fixture x = fixture_new();
    ir_value batch = input(&x, F32(4, 6, 5)), w = parameter(&x, F32(5, 7)), limit = ir_scalar(&x.b, IR_I32, 4);
    struct ir_func *body = ir_func_new(x.m, "body", false);
    struct ir_builder b = {.f = body};
    ir_value i = ir_param_new(&b, "i", ir_type_scalar(IR_I32), -1), acc = ir_param_new(&b, "acc", F32(5, 7), -1);
    ir_value sum = ir_param_new(&b, "sum", ir_type_scalar(IR_F32), -1);
    ir_param_new(&b, "shift", ir_type_scalar(IR_F32), -1);
    ir_value all = ir_param_new(&b, "all", F32(4, 6, 5), -1), kernel = ir_param_new(&b, "w", F32(5, 7), -1);
    ir_value zero = ir_scalar(&b, IR_I32, 0), starts[] = {i, zero, zero};
    int64_t sizes[] = {1, 6, 5}, both[] = {0, 1};
    ir_value part = ir_reshape(&b, ir_dynamic_slice(&b, all, starts, sizes), DIMS(6, 5));
    int64_t k0 = 0, k1 = 1;
    struct ir_ints none = {NULL, 0}, c0 = {&k0, 1}, c1 = {&k1, 1};
    ir_value y = ir_unary(&b, OP_tanh, ir_dot(&b, part, kernel, none, none, c1, c0));
    ir_value grad = ir_dot(&b, part, y, none, none, c0, c0);
    ir_result_add(&b, "acc", ir_binary(&b, OP_add, acc, grad), -1);
    ir_result_add(&b, "sum", ir_binary(&b, OP_add, sum, ir_reduce(&b, OP_reduce_sum, y, both, 2)), -1);
    ir_result_add(&b, "shift", sum, -1);
    ir_value carried[] = {ir_number(&x.b, F32(5, 7), 0), ir_scalar(&x.b, IR_F32, 0), ir_scalar(&x.b, IR_F32, 5)};
    ir_value captured[] = {batch, w};
    ir_value t = ir_loop(&x.b, body, limit, carried, 3, false, captured, 2);
    ir_value g = ir_proj(&x.b, t, 0);
    update(&x, w, ir_binary(&x.b, OP_sub, w, ir_binary(&x.b, OP_mul, g, number_like(&x, g, 0.1))));
    output(&x, ir_proj(&x.b, t, 1));
    output(&x, ir_proj(&x.b, t, 2));
    CHECK_BOTH(x, 2e-6, 0);
}
END_TEST

/* Rows that a loop writes into buffers which it carries: all of them, forwards and backwards; some, around which the
 * rest stays; columns and blocks, which are no run of elements; with what the same buffer holds at the row, and at
 * another one, so that it cannot be written in place; made by a reduction and by a product. */
START_TEST(rows)
{
    enum { BUFFERS = 9, TIMES = 4 };
    struct fixture x = fixture_new();
    ir_value batch = input(&x, F32(TIMES, 6)), w = input(&x, F32(6, 6)), carried[BUFFERS], p[BUFFERS], row[BUFFERS];
    struct ir_func *body = ir_func_new(x.m, "body", false);
    struct ir_builder b = {.f = body};
    ir_value i = ir_param_new(&b, "i", ir_type_scalar(IR_I32), -1), zero = ir_scalar(&b, IR_I32, 0),
             one = ir_scalar(&b, IR_I32, 1);
    for (int k = 0; k < BUFFERS; k++) {
        carried[k] = k < 2 ? ir_number(&x.b, F32(TIMES, 6), 7) : input(&x, F32(TIMES, 6));
        p[k] = ir_param_new(&b, "p", F32(TIMES, 6), -1);
    }
    ir_value all = ir_param_new(&b, "all", F32(TIMES, 6), -1), v = ir_param_new(&b, "w", F32(6, 6), -1);
    const int64_t size[] = {1, 6}, column[] = {4, 1}, block[] = {2, 2}, sum[] = {1};
    ir_value now[] = {i, zero}, back[] = {ir_binary(&b, OP_sub, ir_scalar(&b, IR_I32, TIMES - 1), i), zero};
    ir_value next[] = {ir_binary(&b, OP_add, i, one), zero}, aside[] = {zero, i},
             away[] = {i, ir_scalar(&b, IR_I32, 9)};
    ir_value at = ir_dynamic_slice(&b, all, now, size), first = ir_dynamic_slice(&b, all, aside, column);
    ir_value y = ir_unary(&b, OP_tanh, at), total = ir_reduce(&b, OP_reduce_sum, y, sum, 1);
    int64_t k0 = 0, k1 = 1;
    row[0] = ir_dynamic_update(&b, p[0], y, now);
    row[1] = ir_dynamic_update(&b, p[1], ir_binary(&b, OP_mul, y, y), back);
    row[2] = ir_dynamic_update(&b, p[2], y, next); /* not the first, the last twice */
    row[3] = ir_dynamic_update(&b, p[3], first, aside);
    row[4] = ir_dynamic_update(&b, p[4], ir_dynamic_slice(&b, all, away, block), away);
    row[5] = ir_dynamic_update(&b, p[5], ir_binary(&b, OP_add, ir_dynamic_slice(&b, p[5], now, size), y), now);
    row[6] = ir_dynamic_update(&b, p[6], ir_binary(&b, OP_add, ir_dynamic_slice(&b, p[6], next, size), y), now);
    row[7] = ir_dynamic_update(&b, p[7], ir_binary(&b, OP_div, y, ir_broadcast(&b, total, 2, size, (int64_t[]){0})),
                               now);
    row[8] = ir_dynamic_update(&b, p[8],
                               ir_dot(&b, y, v, (struct ir_ints){NULL, 0}, (struct ir_ints){NULL, 0},
                                      (struct ir_ints){&k1, 1}, (struct ir_ints){&k0, 1}),
                               now);
    for (int k = 0; k < BUFFERS; k++) ir_result_add(&b, "p", row[k], -1);
    ir_value t = ir_loop(&x.b, body, ir_scalar(&x.b, IR_I32, TIMES), carried, BUFFERS, false, (ir_value[]){batch, w},
                         2);
    for (uint32_t k = 0; k < BUFFERS; k++) output(&x, ir_proj(&x.b, t, k));
    CHECK_BOTH(x, 2e-6, 0);
}
END_TEST

static void add_cases(Suite *suite)
{
    TCase *others = tcase_create("others");
    tcase_add_test(others, scatter);
    tcase_add_test(others, scatter_in_groups);
    tcase_add_test(others, running);
    tcase_add_test(others, order);
    tcase_add_test(others, loop);
    tcase_add_test(others, rows);
    suite_add_tcase(suite, others);
    TCase *dots = tcase_create("dot");
    tcase_set_timeout(dots, 60);
    tcase_add_test(dots, dot_layouts);
    tcase_add_test(dots, dot_grid);
    tcase_add_test(dots, dot_tiles);
    tcase_add_test(dots, dot_tiles_of_heads);
    tcase_add_test(dots, dot_long_k);
    tcase_add_test(dots, dot_epilogue);
    tcase_add_test(dots, dot_taps);
    tcase_add_test(dots, dot_taps_in_pairs);
    tcase_add_test(dots, dot_taps_by_points);
    tcase_add_test(dots, dot_lines_by_points);
    tcase_add_test(dots, taps_of_channels);
    tcase_add_test(dots, dot_attention);
    tcase_add_test(dots, dot_attention_by_tiles);
    tcase_add_test(dots, dot_columns_apart);
    tcase_add_test(dots, dot_integers_and_views);
    suite_add_tcase(suite, dots);
    TCase *reductions = tcase_create("reduction");
    tcase_add_test(reductions, row_softmax);
    tcase_add_test(reductions, row_masked_softmax);
    tcase_add_test(reductions, short_rows);
    tcase_add_test(reductions, rows_wait);
    tcase_add_test(reductions, row_layer_norm);
    tcase_add_test(reductions, row_cross_entropy);
    tcase_add_test(reductions, reduce_any_dims);
    tcase_add_test(reductions, reduce_of_none);
    tcase_add_test(reductions, reduce_types);
    tcase_add_test(reductions, row_sum_in_order);
    tcase_add_test(reductions, column_with_epilogue);
    tcase_add_test(reductions, reduce_large);
    suite_add_tcase(suite, reductions);
}
