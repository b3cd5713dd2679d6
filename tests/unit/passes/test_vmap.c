/* A function applied to all rows at once equals one row after the other, as the interpreter's vmap does it: for every
 * op and every choice of what differs between rows, for random functions with and without gradients, for loops; and the
 * gradient of an accumulation is that of differences. */
#include <math.h>
#include <string.h>
#include "pass_run.h"
#include "tests/unit/ir/op_examples.h"

enum { ROWS = 3 };

/* Element k of parameter i: small integers on both sides of what an index may be, and numbers away from jumps. */
static double sample(const struct ir_type *type, size_t i, int64_t k)
{
    if (type->dtype == IR_BOOL) return (double)((k * 5 + (int64_t)i) % 3 == 0);
    if (ir_dtype_is_integer((enum ir_dtype)type->dtype)) {
        int64_t low = ir_dtype_is_signed((enum ir_dtype)type->dtype) ? -1 : 0;
        return (double)(low + (k * 7 + (int64_t)i) % 5);
    }
    return sin(1.3 * (double)k + (double)i + 0.4);
}

/* Element `at` of parameter `param` is moved by `step`. */
static struct ir_tensor *evaluate(const struct ir_module *m, const char *name, size_t param, int64_t at, double step)
{
    const struct ir_func *f = ir_func_find(m, name);
    struct ir_tensor *params = arena_new_array(&arena, struct ir_tensor, f->params.count + 1);
    struct ir_tensor *results = arena_new_array(&arena, struct ir_tensor, f->results.count + 1);
    for (size_t i = 0; i < f->params.count; i++) {
        params[i].type = f->params.items[i].type;
        int64_t n = ir_type_elements(&params[i].type);
        params[i].v = arena_new_array(&arena, double, n);
        for (int64_t k = 0; k < n; k++) params[i].v[k] = sample(&params[i].type, i, k);
    }
    if (step != 0) params[param].v[at] += step;
    ir_eval(f, IR_EVAL_F64, params, results, &arena);
    return results;
}

/* Their "top" compute the same. */
static void expect_equal(const struct ir_module *before, const struct ir_module *after, const char *what)
{
    const struct ir_func *f = ir_func_find(before, "top");
    struct ir_tensor *a = evaluate(before, "top", 0, 0, 0), *b = evaluate(after, "top", 0, 0, 0);
    for (size_t i = 0; i < f->results.count; i++) {
        ck_assert(ir_type_equal(&a[i].type, &b[i].type));
        for (int64_t k = 0; k < ir_type_elements(&a[i].type); k++) {
            double x = a[i].v[k], y = b[i].v[k];
            bool same = fabs(x - y) <= 1e-9 * (1 + fabs(x)) || x == y || (isnan(x) && isnan(y));
            ck_assert_msg(same, "%s, result %d [%d]: %.9g became %.9g", what, (int)i, (int)k, x, y);
        }
    }
}

static struct ir_type rows_of(struct ir_type one)
{
    for (uint32_t i = one.rank++; i > 0; i--) one.dim[i] = one.dim[i - 1];
    one.dim[0] = ROWS;
    return one;
}

/* "top": the function `row` for ROWS rows, where parameter i differs between rows if bit i of `mapped` is set. */
static void apply_to_rows(struct ir_module *m, struct ir_func *row, uint32_t mapped)
{
    struct ir_func *inner = ir_func_new(m, "in.order", false);
    struct ir_builder c = {.f = inner}, b = {.f = ir_func_new(m, "top", true)};
    ir_value in[16] = {0}, out[16], args[16];
    int64_t batched = 0;
    uint32_t n = 0, count = (uint32_t)row->params.count;
    ck_assert_uint_lt(count, 16);
    for (uint32_t i = 0; i < count; i++)
        out[i] = ir_param_new(&b, row->params.items[i].name,
                              mapped >> i & 1 ? rows_of(row->params.items[i].type) : row->params.items[i].type, -1);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < count; i++) {
            if ((mapped >> i & 1) == turn) continue;
            in[i] = ir_param_new(&c, row->params.items[i].name, row->params.items[i].type, -1);
            args[n++] = out[i];
            batched += !turn;
        }
    ir_value tuple = ir_call(&c, row, in, count);
    for (uint32_t i = 0; i < row->results.count; i++)
        ir_result_add(&c, row->results.items[i].name, ir_proj(&c, tuple, i), -1);
    tuple = ir_make(
        &b,
        (struct ir_node){
            .op = OP_vmap, .arg_count = count, .args = args, .func = ir_func_index(inner), .attr = {{&batched, 1}}});
    for (uint32_t i = 0; i < row->results.count; i++)
        ir_result_add(&b, row->results.items[i].name, ir_proj(&b, tuple, i), -1);
}

static void expect_no_markers(const struct ir_module *m)
{
    for (size_t i = 0; i < m->funcs.count; i++)
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++)
            ck_assert_int_ne(ir_get(m->funcs.items[i], v)->op, OP_vmap);
}

/* ---------------------------------------------------------------- every op */

static const struct op_example *example_of(enum ir_op op)
{
    for (size_t i = 0; i < sizeof op_examples / sizeof *op_examples; i++)
        if (strcmp(op_examples[i].op, ir_ops[op].name) == 0) return &op_examples[i];
    ck_abort_msg("op %s has no example in op_examples.h", ir_ops[op].name);
}

START_TEST(every_op)
{
    enum ir_op op = (enum ir_op)_i;
    if (!(ir_ops[op].stages & IR_STAGE_TENSOR) || op == OP_constant || op == OP_iota || op == OP_grad) return;
    const char *text = arena_format(&arena,
                                    "module \"m\" stage tensor\nmesh \"data\"=2, \"model\"=4\n"
                                    "place 1 10+4 \"/model/0\"\n%sfunc \"row\" {\n%s\n}\n",
                                    op_preamble, example_of(op)->accept);
    bool counted = op == OP_loop || op == OP_accumulate;
    for (uint32_t mapped = 1; mapped < 16; mapped++) {
        struct ir_module *m = ir_parse(text, strlen(text), &diags);
        ck_assert_ptr_nonnull(m);
        own(m);
        struct ir_func *row = ir_func_find(m, "row");
        if (mapped >> row->params.count) break;
        apply_to_rows(m, row, mapped);
        struct ir_module *flat = run("autodiff,accumulate,inline", m);
        if (counted && mapped & 1) { /* rows that end at different times */
            ck_assert_int_eq((int)diags.errors, 1);
            ck_assert_ptr_nonnull(strstr(diags.list.items[0].message, "not supported yet"));
            setup();
            continue;
        }
        ck_assert_int_eq((int)diags.errors, 0);
        expect_no_markers(flat);
        expect_equal(m, flat, arena_format(&arena, "%s, operands %u", ir_ops[op].name, (unsigned)mapped));
    }
}
END_TEST

/* ---------------------------------------------------------------- functions */

/* The entry "main" of a random module as a function that others may name. */
static struct ir_func *as_row(struct ir_module *m)
{
    struct ir_func *row = ir_func_new(m, "row", false);
    ir_rebuild(ir_func_find(m, "main"), row, NULL, NULL, &arena);
    return row;
}

/* Gradients are taken before the rows are put together or with them: the same. */
START_TEST(random_functions)
{
    int grad = _i % 2 ? RANDOM_GRAD : RANDOM_PLAIN;
    struct ir_module *plain = random_module((uint64_t)_i, 24, grad), *m = random_module((uint64_t)_i, 24, grad);
    plain = run("autodiff", plain);
    struct ir_func *row = as_row(own(m));
    uint32_t all = (1u << row->params.count) - 1, mapped = (uint32_t)(_i / 2) % all + 1;
    apply_to_rows(m, row, mapped);
    apply_to_rows(plain, as_row(plain), mapped);
    struct ir_module *flat = run("autodiff,accumulate,inline,simplify", m);
    ck_assert_int_eq((int)diags.errors, 0);
    expect_equal(plain, flat, arena_format(&arena, "seed %d", _i));
}
END_TEST

/* Counts up while a sum is below the row's bound: rows end in different rounds. */
START_TEST(conditions_of_rows)
{
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_builder c = {.f = ir_func_new(m, "body", false)}, b = {.f = ir_func_new(m, "row", false)};
    struct ir_type scalar = ir_type_scalar(IR_F32);
    (void)ir_param_new(&c, "i", ir_type_scalar(IR_I32), -1);
    (void)ir_param_new(&c, "go", ir_type_scalar(IR_BOOL), -1);
    ir_value sum = ir_param_new(&c, "sum", scalar, -1), rounds = ir_param_new(&c, "rounds", scalar, -1);
    ir_value bound = ir_param_new(&c, "bound", scalar, -1);
    sum = ir_binary(&c, OP_add, sum, ir_scalar(&c, IR_F32, 0.3));
    ir_result_add(&c, "go", ir_binary(&c, OP_lt, sum, bound), -1);
    ir_result_add(&c, "sum", sum, -1);
    ir_result_add(&c, "rounds", ir_binary(&c, OP_add, rounds, ir_scalar(&c, IR_F32, 1)), -1);
    ir_value x = ir_param_new(&b, "x", scalar, -1), y = ir_param_new(&b, "y", scalar, -1);
    ir_value carried[] = {ir_binary(&b, OP_lt, y, x), y, ir_scalar(&b, IR_F32, 0)};
    ir_value tuple = ir_loop(&b, c.f, ir_scalar(&b, IR_I32, 4), carried, 3, true, &x, 1);
    for (uint32_t i = 1; i < 3; i++) ir_result_add(&b, "r", ir_proj(&b, tuple, i), -1);
    apply_to_rows(m, b.f, (uint32_t)_i);
    struct ir_module *flat = run("autodiff,accumulate,inline", m);
    ck_assert_int_eq((int)diags.errors, 0);
    expect_no_markers(flat);
    expect_equal(m, flat, "loop");
}
END_TEST

/* ---------------------------------------------------------------- gradients of accumulations */

/* loss = sum(r**2) + sum(rows**3) of an accumulation over the products of rows with w; with its gradients by all. */
static struct ir_module *differentiated(int64_t count, int64_t split, int64_t kind, bool mapped)
{
    const int64_t all[] = {0, 1};
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_builder p = {.f = ir_func_new(m, "part", false)}, r = {.f = ir_func_new(m, "row", false)};
    struct ir_type row = ir_type_of(IR_F64, 1, (int64_t[]){2});
    ir_value x = ir_param_new(&r, "x", row, -1), w = ir_param_new(&r, "w", row, -1);
    ir_result_add(&r, "y", ir_binary(&r, OP_mul, ir_unary(&r, OP_sin, x), w), -1);
    x = ir_param_new(&p, "x", ir_type_of(IR_F64, 2, (int64_t[]){12 / count, 2}), -1);
    w = ir_param_new(&p, "w", row, -1);
    int64_t batched = 1, kinds[2] = {kind, 3};
    ir_value rows = mapped ? ir_proj(&p,
                                     ir_make(&p, (struct ir_node){.op = OP_vmap,
                                                                  .arg_count = 2,
                                                                  .args = (ir_value[]){x, w},
                                                                  .func = ir_func_index(r.f),
                                                                  .attr = {{&batched, 1}}}),
                                     0)
                           : ir_binary(&p, OP_mul, ir_unary(&p, OP_sin, x),
                                       ir_broadcast_to(&p, w, 2, (int64_t[]){12 / count, 2}));
    ir_result_add(&p, "sum", ir_reduce(&p, OP_reduce_sum, ir_binary(&p, OP_mul, rows, rows), all, 1), -1);
    ir_result_add(&p, "rows", rows, -1);

    struct ir_builder b = {.f = ir_func_new(m, "top", true)};
    x = ir_param_new(&b, "x", ir_type_of(IR_F64, 2, (int64_t[]){12, 2}), -1);
    w = ir_param_new(&b, "w", row, -1);
    ir_value limit = ir_scalar(&b, IR_I32, (double)(count > 2 ? count - 1 : count));
    ir_value t = ir_make(&b, (struct ir_node){.op = OP_accumulate,
                                              .arg_count = 3,
                                              .args = (ir_value[]){limit, x, w},
                                              .func = ir_func_index(p.f),
                                              .attr = {{&batched, 1}, {&count, 1}, {&split, 1}, {kinds, 2}}});
    ir_value sum = ir_proj(&b, t, 0), concat = ir_proj(&b, t, 1);
    ir_value cube = ir_binary(&b, OP_mul, concat, ir_binary(&b, OP_mul, concat, concat));
    ir_value loss = ir_binary(&b, OP_add, ir_reduce(&b, OP_reduce_sum, ir_binary(&b, OP_mul, sum, sum), all, 1),
                              ir_reduce(&b, OP_reduce_sum, cube, all, 2));
    ir_value g = ir_grad(&b, loss, (ir_value[]){x, w}, 2);
    ir_result_add(&b, "dx", ir_proj(&b, g, 0), -1);
    ir_result_add(&b, "dw", ir_proj(&b, g, 1), -1);
    ir_result_add(&b, "loss", loss, -1);
    return m;
}

START_TEST(gradients_of_accumulations)
{
    static const int64_t counts[] = {1, 3, 4, 12};
    struct ir_module *m = run("autodiff,accumulate,inline,simplify",
                              differentiated(counts[_i % 4], _i / 4 % 2, _i / 8 % 3, _i / 24));
    ck_assert_int_eq((int)diags.errors, 0);
    struct ir_tensor *at = evaluate(m, "top", 0, 0, 0);
    for (size_t p = 0; p < 2; p++)
        for (int64_t k = 0; k < ir_type_elements(&at[p].type); k++) {
            double high = evaluate(m, "top", p, k, 1e-5)[2].v[0], low = evaluate(m, "top", p, k, -1e-5)[2].v[0];
            double slope = (high - low) / 2e-5;
            ck_assert_msg(fabs(slope - at[p].v[k]) <= 1e-6 * (1 + fabs(slope)), "case %d, gradient %d[%d]: %g, not %g",
                          _i, (int)p, (int)k, at[p].v[k], slope);
        }
}
END_TEST

/* ---------------------------------------------------------------- norms without gradients */

/* Products of 3 examples over some positions: their norms, the sum weighted by these and the sum. */
START_TEST(norms_and_sums_of_examples)
{
    static const struct {
        int64_t positions, rows, columns;
        bool pays;
    } sizes[] = {{1, 3, 4, true}, {1, 1, 5, false}, {2, 20, 18, true}, {4, 3, 4, false}, {0, 3, 4, false}};
    const int64_t all[] = {1, 2}, first[] = {0}, batch[] = {0};
    int64_t t = sizes[_i / 2].positions, rows = sizes[_i / 2].rows, columns = sizes[_i / 2].columns;
    bool last = _i % 2, found = false, exact = false; /* where the positions stand in y */
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_builder b = {.f = ir_func_new(m, "top", true)};
    int64_t tx = 1, ty = last ? 2 : 1, whole[] = {ROWS, rows, columns};
    ir_value x = ir_param_new(&b, "x", ir_type_of(IR_F32, 3, (int64_t[]){ROWS, t, rows}), -1);
    ir_value y = ir_param_new(
        &b, "y", ir_type_of(IR_F32, 3, last ? (int64_t[]){ROWS, columns, t} : (int64_t[]){ROWS, t, columns}), -1);
    ir_value d = ir_dot(&b, x, y, (struct ir_ints){batch, 1}, (struct ir_ints){batch, 1}, (struct ir_ints){&tx, 1},
                        (struct ir_ints){&ty, 1});
    ir_value norm = ir_reduce(&b, OP_reduce_sum, ir_binary(&b, OP_mul, d, d), all, 2);
    ir_value weight = ir_broadcast(&b, ir_unary(&b, OP_cos, norm), 3, whole, first);
    ir_result_add(&b, "norm", norm, -1);
    ir_result_add(&b, "weighted", ir_reduce(&b, OP_reduce_sum, ir_binary(&b, OP_mul, weight, d), first, 1), -1);
    ir_result_add(&b, "sum", ir_reduce(&b, OP_reduce_sum, d, first, 1), -1);
    struct ir_module *done = run("ghost", m), *clean = run("simplify", done);
    expect_equal(m, done, "ghost");
    const struct ir_func *f = ir_func_find(clean, "top");
    bool *live = ir_live(f, &arena);
    for (ir_value v = 1; v < f->count; v++) {
        found |= live[v] && ir_type(f, v)->rank == 3 && ir_type(f, v)->dim[1] == rows &&
                 ir_type(f, v)->dim[2] == columns;
        exact |= live[v] && ir_get(f, v)->op == OP_dot && ir_type(f, v)->dtype == IR_F64;
    }
    ck_assert_int_eq(found, !sizes[_i / 2].pays);
    ck_assert_int_eq(exact, sizes[_i / 2].pays && t > 1); /* positions may cancel */
}
END_TEST

int main(void)
{
    TCase *all = CASE_OF(0, gradients_of_accumulations);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_loop_test(all, every_op, 1, IR_OP_COUNT);
    tcase_add_loop_test(all, random_functions, 0, 200);
    tcase_add_loop_test(all, conditions_of_rows, 1, 4);
    tcase_add_loop_test(all, gradients_of_accumulations, 1, 48);
    tcase_add_loop_test(all, norms_and_sums_of_examples, 0, 10);
    return run_case("vmap", all);
}
