/* Reductions, contractions, scatters and loops; included by test_lower.c. */

static ir_value bcast(struct fixture *x, ir_value v, ir_value like, int64_t dim0)
{
    const struct ir_type *t = ir_type(x->b.f, like);
    int64_t dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++)
        dims[i] = i + dim0;
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
    check_lowering(&x, 32, 1e-5, 0);
}
END_TEST

static void add_cases(Suite *suite)
{
    TCase *reductions = tcase_create("reduction");
    tcase_add_test(reductions, row_softmax);
    tcase_add_test(reductions, row_masked_softmax);
    tcase_add_test(reductions, row_layer_norm);
    tcase_add_test(reductions, row_cross_entropy);
    tcase_add_test(reductions, reduce_any_dims);
    tcase_add_test(reductions, reduce_types);
    tcase_add_test(reductions, column_with_epilogue);
    tcase_add_test(reductions, reduce_large);
    suite_add_tcase(suite, reductions);
}
