/* Every pass keeps what the interpreter computes; microbatch loops equal their marker; the manager's options; what
 * passes tell the user. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pass_run.h"
#include "tests/unit/file.h"

/* ---------------------------------------------------------------- equality */

/* Results of "main" at fixed parameters; element `at` of parameter `param` is moved by `step`. */
static struct ir_tensor *evaluate_moved(const struct ir_module *m, size_t param, int64_t at, double step)
{
    const struct ir_func *f = ir_func_find(m, "main");
    struct ir_tensor *params = arena_new_array(&arena, struct ir_tensor, f->params.count + 1);
    struct ir_tensor *results = arena_new_array(&arena, struct ir_tensor, f->results.count + 1);
    for (size_t i = 0; i < f->params.count; i++) {
        params[i].type = f->params.items[i].type;
        int64_t n = ir_type_elements(&params[i].type);
        params[i].v = arena_new_array(&arena, double, n);
        for (int64_t k = 0; k < n; k++)
            params[i].v[k] = params[i].type.dtype == IR_I32 ? 2 : sin(1.3 * (double)k + (double)i + 0.4);
    }
    if (step != 0) params[param].v[at] += step;
    ir_eval(f, IR_EVAL_F64, params, results, &arena);
    return results;
}

static struct ir_tensor *evaluate(const struct ir_module *m) { return evaluate_moved(m, 0, 0, 0); }

static void expect_equal(const struct ir_module *before, const struct ir_module *after, const char *what, int seed)
{
    const struct ir_func *f = ir_func_find(before, "main"), *g = ir_func_find(after, "main");
    ck_assert_int_eq((int)f->results.count, (int)g->results.count);
    struct ir_tensor *a = evaluate(before), *b = evaluate(after);
    for (size_t i = 0; i < f->results.count; i++) {
        ck_assert(ir_type_equal(&a[i].type, &b[i].type));
        for (int64_t k = 0; k < ir_type_elements(&a[i].type); k++) {
            double x = a[i].v[k], y = b[i].v[k];
            bool same = fabs(x - y) <= 1e-5 * (1 + fabs(x)) || x == y || (isnan(x) && isnan(y));
            ck_assert_msg(same, "%s, seed %d, %s[%d]: %.9g became %.9g", what, seed, f->results.items[i].name, (int)k,
                          x, y);
        }
    }
}

START_TEST(passes_keep_meaning)
{
    static const char *const each[] = {"inline", "simplify", "shard", "decompose"};
    struct ir_module *m = run("autodiff", random_module((uint64_t)_i, 24, RANDOM_GRAD));
    ck_assert_int_eq((int)diags.errors, 0);
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        struct ir_module *next = run(each[i], m);
        ck_assert(next != m || strcmp(each[i], "inline") == 0); /* which may have nothing to do */
        expect_equal(m, next, each[i], _i);
        m = next;
    }
    ck_assert_int_eq((int)m->stage, IR_AT_KERNEL);
}
END_TEST

/* ---------------------------------------------------------------- scans */

enum { SCAN_ROWS = 3, SCAN_WIDTH = 4, SCAN_TIMES = 5, SCAN_WEIGHTS = 5 };

static ir_value scan_product(struct ir_builder *b, ir_value x, ir_value w)
{
    static const int64_t last = 1, first = 0;
    const struct ir_ints none = {NULL, 0};
    int64_t dim = (int64_t)ir_type(b->f, x)->rank - last;
    return ir_dot(b, x, w, none, none, (struct ir_ints){&dim, 1}, (struct ir_ints){&first, 1});
}

/* The work of one time on [rows, width]: products with weights, biases, what depends on neither carry nor row. */
static ir_value scan_node(struct random_ir *r, struct ir_builder *b, const ir_value *rows, uint32_t count,
                          const ir_value *w, ir_value bias)
{
    ir_value x = rows[random_next(r, count)], y = rows[random_next(r, count)];
    const struct ir_type type = *ir_type(b->f, x);
    static const int64_t along = 1;
    switch (random_next(r, 8)) {
    case 0: return ir_unary(b, OP_tanh, x);
    case 1: return ir_binary(b, OP_mul, x, y);
    case 2: return ir_binary(b, OP_add, x, ir_broadcast(b, bias, 2, type.dim, &along));
    case 3: return ir_binary(b, OP_add, x, y);
    case 4: return scan_product(b, x, ir_unary(b, OP_tanh, scan_product(b, w[0], w[random_next(r, SCAN_WEIGHTS)])));
    default: return scan_product(b, x, w[random_next(r, SCAN_WEIGHTS)]);
    }
}

/* A gated cell over products of one input, and whatever else comes to mind; its gradients. */
static struct ir_module *random_scan(uint64_t seed)
{
    struct random_ir r = {seed * 77 + 5};
    struct ir_module *m = own(ir_module_new("scans"));
    struct ir_builder b = {.f = ir_func_new(m, "main", true)}, c = {.f = ir_func_new(m, "time", false)};
    struct ir_type row = ir_type_of(IR_F32, 2, (int64_t[]){SCAN_ROWS, SCAN_WIDTH}),
                   all = ir_type_of(IR_F32, 3, (int64_t[]){SCAN_TIMES, SCAN_ROWS, SCAN_WIDTH}),
                   weight = ir_type_of(IR_F32, 2, (int64_t[]){SCAN_WIDTH, SCAN_WIDTH}),
                   one = ir_type_of(IR_F32, 1, (int64_t[]){SCAN_WIDTH});
    ir_value args[2 + 4 + 2 * SCAN_WEIGHTS] = {0}, in[2 + 4 + 2 * SCAN_WEIGHTS] = {0}, rows[40],
                              wrt[3 + 3 * SCAN_WEIGHTS];
    uint32_t carried = 1 + random_next(&r, 2), gates = 2 + random_next(&r, 3), n = 0, count = 0, made = 0;
    ir_value x = ir_param_new(&b, "x", all, -1), h[2];
    for (uint32_t i = 0; i < carried; i++) wrt[made++] = args[n++] = h[i] = ir_param_new(&b, "h", row, -1);
    for (uint32_t i = 0; i < gates; i++) {
        ir_value w = ir_param_new(&b, "wx", weight, -1);
        wrt[made++] = w;
        args[n++] = random_next(&r, 4) ? scan_product(&b, x, w) : x;
    }
    for (uint32_t i = 0; i < SCAN_WEIGHTS; i++) wrt[made++] = args[n++] = ir_param_new(&b, "w", weight, -1);
    for (uint32_t i = 0; i < SCAN_WEIGHTS; i++) wrt[made++] = args[n++] = ir_param_new(&b, "b", one, -1);
    for (uint32_t i = 0; i < n; i++)
        in[i] = ir_param_new(&c, "p", i < carried + gates ? row : *ir_type(b.f, args[i]), -1);
    const ir_value *w = in + carried + gates, *bias = w + SCAN_WEIGHTS;
    for (uint32_t i = 0; i < carried + gates; i++) rows[count++] = in[i];
    for (uint32_t i = 0; i < gates; i++) {
        static const int64_t along = 1;
        ir_value y = scan_product(&c, in[0], w[i]);
        if (random_next(&r, 4)) y = ir_binary(&c, OP_add, y, ir_broadcast(&c, bias[i], 2, row.dim, &along));
        if (random_next(&r, 4)) y = ir_binary(&c, OP_add, in[carried + i], y);
        rows[count++] = ir_unary(&c, i % 2 ? OP_logistic : OP_tanh, y);
    }
    for (uint32_t i = random_next(&r, 12); i-- > 0;)
        rows[count] = scan_node(&r, &c, rows, count, w, bias[random_next(&r, SCAN_WEIGHTS)]), count++;
    ir_value next = ir_binary(&c, OP_mul, rows[count - 1], rows[count - 2]);
    for (uint32_t i = 0; i < carried; i++)
        ir_result_add(&c, "h", ir_unary(&c, OP_tanh, ir_binary(&c, OP_add, next, rows[random_next(&r, count)])), -1);
    for (uint32_t i = 0; i < 2; i++) ir_result_add(&c, "y", rows[random_next(&r, count)], -1);
    ir_value tuple = ir_scan(&b, c.f, SCAN_TIMES, random_next(&r, 2), args, carried, gates, 2 * SCAN_WEIGHTS), loss = 0;
    for (uint32_t i = 0; i < carried + 2; i++) {
        ir_value y = ir_proj(&b, tuple, i);
        static const int64_t dims[] = {0, 1, 2};
        ir_value sum = ir_reduce(&b, OP_reduce_sum, ir_unary(&b, OP_sin, y), dims, ir_type(b.f, y)->rank);
        loss = loss ? ir_binary(&b, OP_add, loss, sum) : sum;
        ir_result_add(&b, "y", y, -1);
    }
    ir_value gradients = ir_grad(&b, loss, wrt, made);
    for (uint32_t i = 0; i < made; i++) ir_result_add(&b, "gradient", ir_proj(&b, gradients, i), -1);
    return m;
}

START_TEST(scans_keep_meaning)
{
    struct ir_module *m = random_scan((uint64_t)_i);
    struct ir_module *plain = run("autodiff,accumulate,inline", m);
    struct ir_module *merged = run("merge,hoist,autodiff,accumulate,inline,simplify", m);
    ck_assert_int_eq((int)diags.errors, 0);
    expect_equal(plain, merged, "merge and hoist", _i);
    uint32_t products[2] = {0};
    for (int k = 0; k < 2; k++) {
        const struct ir_module *of = k ? merged : plain;
        for (size_t i = 0; i < of->funcs.count; i++)
            for (ir_value v = 1; v < of->funcs.items[i]->count; v++)
                products[k] += ir_get(of->funcs.items[i], v)->op == OP_dot;
    }
    ck_assert_msg(products[1] <= products[0], "seed %d: %u products, %u before", _i, products[1], products[0]);
}
END_TEST

/* A gradient's gradient exists and is that of differences in the direction (1, 1, ...). */
START_TEST(gradients_of_gradients)
{
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_builder b = {.f = ir_func_new(m, "main", true)};
    ir_value x = ir_param_new(&b, "x", ir_type_of(IR_F64, 1, (int64_t[]){3}), -1);
    ir_value cube = ir_binary(&b, OP_mul, x, ir_binary(&b, OP_mul, x, x));
    ir_value g = ir_proj(&b, ir_grad(&b, ir_reduce(&b, OP_reduce_sum, cube, (int64_t[]){0}, 1), &x, 1), 0);
    ir_value h = ir_proj(&b, ir_grad(&b, ir_reduce(&b, OP_reduce_sum, g, (int64_t[]){0}, 1), &x, 1), 0);
    ir_result_add(&b, "h", h, -1);
    ir_result_add(&b, "six x", ir_binary(&b, OP_mul, x, ir_number_like(&b, x, 6)), -1);
    struct ir_tensor *r = evaluate(run("autodiff", m));
    for (int i = 0; i < 3; i++) ck_assert_double_eq_tol(r[0].v[i], r[1].v[i], 1e-12);
}
END_TEST

/* The loss of a random function, or the squared norm of its gradient, at a moved parameter. */
static double value_at(const struct ir_module *m, size_t loss, bool norm, size_t param, int64_t at, double step)
{
    struct ir_tensor *r = evaluate_moved(m, param, at, step);
    double sum = 0;
    for (size_t i = loss + 1; i <= loss + 3; i++)
        for (int64_t k = 0; k < ir_type_elements(&r[i].type); k++) sum += r[i].v[k] * r[i].v[k];
    return norm ? sum : r[loss].v[0];
}

/* Whole programs, differentiated once and twice, against differences. */
START_TEST(gradients_are_slopes)
{
    struct ir_module *m = run("autodiff", random_module((uint64_t)_i, 16, RANDOM_GRAD_UNSTOPPED));
    const struct ir_func *f = ir_func_find(m, "main");
    size_t loss = f->results.count - 7; /* then the gradients g0..g2, then those of their norm, h0..h2 */
    ck_assert_str_eq(f->results.items[loss].name, "loss");
    struct ir_tensor *r = evaluate(m);
    if (!isfinite(r[loss].v[0])) return; /* out of the domain of some function */
    for (size_t order = 0; order < 2; order++)
        for (size_t i = 0; i < 3; i++)
            for (int64_t k = 0; k < ir_type_elements(&f->params.items[i].type); k++) {
                double step = 1e-5, got = r[loss + 1 + 3 * order + i].v[k];
                double slope = (value_at(m, loss, order, i, k, step) - value_at(m, loss, order, i, k, -step)) /
                               (2 * step);
                ck_assert_msg(fabs(got - slope) <= 1e-4 * (1 + fabs(slope)),
                              "seed %d, order %d, %s[%d]: %.9g, slope %.9g", _i, (int)order + 1,
                              f->params.items[i].name, (int)k, got, slope);
            }
}
END_TEST

/* ---------------------------------------------------------------- microbatches */

/* Body: (part [rows, 2], w [2]) -> mean loss of the part, its gradient, the rows' losses. */
static struct ir_func *microbatch(struct ir_module *m, int64_t rows)
{
    struct ir_func *f = ir_func_new(m, "micro", false);
    struct ir_builder b = {.f = f};
    ir_value part = ir_param_new(&b, "part", ir_type_of(IR_F32, 2, (int64_t[]){rows, 2}), -1);
    ir_value w = ir_param_new(&b, "w", ir_type_of(IR_F32, 1, (int64_t[]){2}), -1);
    ir_value y = ir_dot(&b, part, w, (struct ir_ints){0}, (struct ir_ints){0}, (struct ir_ints){(int64_t[]){1}, 1},
                        (struct ir_ints){(int64_t[]){0}, 1});
    ir_value losses = ir_binary(&b, OP_mul, y, y);
    ir_value loss = ir_reduce(&b, OP_reduce_sum, losses, (int64_t[]){0}, 1);
    ir_result_add(&b, "loss", loss, -1);
    ir_result_add(&b, "grad", ir_proj(&b, ir_grad(&b, loss, &w, 1), 0), -1);
    ir_result_add(&b, "losses", losses, -1);
    return f;
}

static struct ir_module *accumulating(int64_t count, int64_t split, int64_t kind, bool limited)
{
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_func *body = microbatch(m, 12 / count);
    struct ir_builder b = {.f = ir_func_new(m, "main", true)};
    ir_value x = ir_param_new(&b, "x", ir_type_of(IR_F32, 2, (int64_t[]){12, 2}), -1);
    ir_value w = ir_param_new(&b, "w", ir_type_of(IR_F32, 1, (int64_t[]){2}), -1);
    ir_value limit = ir_param_new(&b, "limit", ir_type_scalar(IR_I32), -1);
    if (!limited) limit = ir_scalar(&b, IR_I32, (double)count);
    int64_t batched = 1, kinds[3] = {kind, kind, 3};
    ir_value t = ir_make(&b, (struct ir_node){.op = OP_accumulate,
                                              .arg_count = 3,
                                              .args = (ir_value[]){limit, x, w},
                                              .func = ir_func_index(body),
                                              .attr = {{&batched, 1}, {&count, 1}, {&split, 1}, {kinds, 3}}});
    for (uint32_t i = 0; i < 3; i++) ir_result_add(&b, body->results.items[i].name, ir_proj(&b, t, i), -1);
    return m;
}

START_TEST(loops_equal_markers)
{
    static const int64_t counts[] = {1, 3, 4, 12};
    int64_t count = counts[_i % 4], split = _i / 4 % 2, kind = _i / 8 % 3;
    struct ir_module *m = run("autodiff", accumulating(count, split, kind, _i / 24));
    struct ir_module *loops = run("accumulate", m);
    ck_assert_ptr_ne(m, loops);
    expect_equal(m, loops, "accumulate", _i);
    struct ir_module *flat = run("inline,simplify,shard,decompose", loops);
    expect_equal(m, flat, "inline", _i);
    for (size_t i = 0; i < flat->funcs.count; i++)
        for (ir_value v = 1; v < flat->funcs.items[i]->count; v++)
            ck_assert_int_ne(ir_get(flat->funcs.items[i], v)->op, OP_call);
    /* both at once give the same */
    expect_equal(m, run("autodiff,accumulate", accumulating(count, split, kind, _i / 24)), "autodiff", _i);
}
END_TEST

START_TEST(every_loop_has_its_body)
{
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_func *body = ir_func_new(m, "body", false);
    struct ir_builder c = {.f = body}, b = {.f = ir_func_new(m, "main", true)};
    (void)ir_param_new(&c, "i", ir_type_scalar(IR_I32), -1);
    ir_value y = ir_param_new(&c, "y", ir_type_scalar(IR_F32), -1);
    ir_result_add(&c, "y", ir_unary(&c, OP_sin, y), -1);
    ir_value x = ir_param_new(&b, "x", ir_type_scalar(IR_F32), -1),
             n = ir_param_new(&b, "n", ir_type_scalar(IR_I32), -1);
    ir_value one = ir_proj(&b, ir_loop(&b, body, n, &x, 1, false, NULL, 0), 0);
    ir_result_add(&b, "y", ir_proj(&b, ir_loop(&b, body, n, &one, 1, false, NULL, 0), 0), -1);
    struct ir_module *done = run("inline", m);
    expect_equal(m, done, "inline", 0);
    ck_assert_int_eq((int)done->funcs.count, 3);
}
END_TEST

/* ---------------------------------------------------------------- mistakes of the user */

START_TEST(gradient_through_argmax)
{
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_builder b = {.f = ir_func_new(m, "main", true)};
    uint32_t place = ir_place_new(m, (struct diag_span){4, 7}, "/loss");
    ir_value x = ir_param_new(&b, "x", ir_type_of(IR_F32, 1, (int64_t[]){3}), -1);
    b.place = place;
    ir_value loss = ir_cast(&b, ir_argreduce(&b, OP_argmax, x, 0), IR_F32);
    ir_result_add(&b, "g", ir_proj(&b, ir_grad(&b, loss, &x, 1), 0), -1);
    diags.source = (struct diag_source){"model.json", "{\"loss\": \"x\"}", 13};
    ck_assert_ptr_eq(run("autodiff", m), m);
    ck_assert_int_eq((int)diags.errors, 1);
    ck_assert_str_eq(diags.list.items[0].pointer, "/loss");
    ck_assert_ptr_nonnull(strstr(diags.list.items[0].message, "any gradient"));
}
END_TEST

START_TEST(argmax_beside_a_gradient)
{ /* JAX takes an index for a constant; so do we as long as anything is left */
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_builder b = {.f = ir_func_new(m, "main", true)};
    ir_value x = ir_param_new(&b, "x", ir_type_of(IR_F32, 1, (int64_t[]){3}), -1);
    ir_value best = ir_argreduce(&b, OP_argmax, x, 0), loss = ir_reshape(&b, ir_take(&b, x, best, 0), 0, NULL);
    ir_result_add(&b, "g", ir_proj(&b, ir_grad(&b, loss, &x, 1), 0), -1);
    struct ir_tensor *r = evaluate(run("autodiff", m)); /* x = sin(0.4), sin(1.7), sin(3) */
    ck_assert(r[0].v[0] == 0 && r[0].v[1] == 1 && r[0].v[2] == 0);
}
END_TEST

START_TEST(gradient_through_loop)
{
    struct ir_module *m = own(ir_module_new("test"));
    struct ir_func *body = ir_func_new(m, "body", false);
    struct ir_builder c = {.f = body}, b = {.f = ir_func_new(m, "main", true)};
    (void)ir_param_new(&c, "i", ir_type_scalar(IR_I32), -1);
    ir_result_add(&c, "y", ir_unary(&c, OP_sin, ir_param_new(&c, "y", ir_type_scalar(IR_F32), -1)), -1);
    ir_value x = ir_param_new(&b, "x", ir_type_scalar(IR_F32), -1);
    ir_value y = ir_proj(&b, ir_loop(&b, body, ir_scalar(&b, IR_I32, 3), &x, 1, false, NULL, 0), 0);
    ir_result_add(&b, "g", ir_proj(&b, ir_grad(&b, y, &x, 1), 0), -1);
    run("autodiff", m);
    ck_assert_int_eq((int)diags.errors, 1);
    ck_assert_ptr_nonnull(strstr(diags.list.items[0].message, "loop"));
}
END_TEST

/* ---------------------------------------------------------------- the manager */

START_TEST(options)
{
    struct pass pass;
    struct ir_module *m = random_module(3, 10, RANDOM_PLAIN);
    run_with((struct pass_options){.stop_after = "simplfy"}, m, &pass);
    ck_assert_int_eq((int)diags.errors, 1);
    ck_assert_ptr_nonnull(strstr(diags.list.items[0].hint, "simplify"));
    setup();
    run_with((struct pass_options){.disable = "shard"}, m, &pass);
    ck_assert_int_eq((int)diags.errors, 1);
    setup();
    struct ir_module *last = run_with((struct pass_options){.disable = "simplify", .stop_after = "shard"}, m, &pass);
    ck_assert_int_eq((int)diags.errors, 0);
    ck_assert_int_eq((int)last->stage, IR_AT_SPMD);
    /* explicit, rows, outline, merge, hoist, autodiff, widen, together, accumulate, inline, ghost, hoist_casts,
     * invariant, shard */
    ck_assert_int_eq((int)pass.times.count, 14);
    ck_assert(!pass.times.items[0].changed);
}
END_TEST

START_TEST(dumps)
{
    char dir[] = "/tmp/stepc-dump-XXXXXX";
    struct pass pass;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    struct ir_module *m = random_module(5, 10, RANDOM_GRAD);
    struct ir_module *last = run_with(
        (struct pass_options){.dump = "autodiff", .dump_dir = dir, .stop_after = "simplify"}, m, &pass);
    ck_assert_ptr_ne(last, m);
    const char *path = arena_format(&arena, "%s/06-autodiff.sir", dir);
    ck_assert_int_eq(access(path, R_OK), 0);
    size_t n = 0;
    const char *text = file_bytes(&arena, path, &n);
    struct ir_module *again = own(ir_parse(text, n, &diags));
    ck_assert_ptr_nonnull(again);
    expect_equal(run("autodiff", m), again, "dump", 0);
    unlink(path);
    run_with((struct pass_options){.dump = "", .dump_dir = "/nonexistent"}, m, &pass);
    ck_assert_int_eq((int)diags.errors, 1);
    rmdir(dir);
}
END_TEST

/* Constants of an object take fewer than 4 GiB: of more the data are not even looked at. */
START_TEST(too_many_constants)
{
    static const char text[] =
        "module \"m\" stage kernel\nplace 1 7+5 \"/loss\"\nslot 0 \"i\" input int32[]\nslot 1 \"y\" metric float32[]\n"
        "func \"step\" entry {\n%1 = param index=0 \"i\" slot=0 : int32[]\n%2 = constant [1, 2, 3] : float32[3] @1\n"
        "%3 = take(%2, %1) dim=0 : float32[]\nresult \"y\" %3 slot=1\n}\n";
    struct pass_options only = {.only = "memplan"};
    struct pass pass = {.options = &only, .diags = &diags, .keep = &arena};
    struct ir_module *m = run("schedule", run("fuse", own(ir_parse(text, strlen(text), &diags)))), *last;
    ck_assert_int_eq((int)diags.errors, 0);
    struct ir_func *f = m->funcs.items[0];
    for (ir_value v = 1; v < f->count; v++) {
        struct ir_type *type = (struct ir_type *)(uintptr_t)ir_type(f, v);
        if (ir_get(f, v)->op == OP_constant && type->rank) type->dim[0] = 1 << 30;
    }
    pass_run(&pass, m, &last);
    ck_assert_int_eq((int)diags.errors, 1);
    ck_assert_str_eq(diags.list.items[0].code, "E0501");
    ck_assert_str_eq(diags.list.items[0].pointer, "/loss");
}
END_TEST

/* A process in `folder` whose pass is given what is unsound; how it ended. */
static int defect(const char *folder, const char *reproducer_dir)
{
    struct pass pass;
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct ir_module *m = random_module(1, 5, RANDOM_PLAIN);
        ir_value args[2] = {1, 2}; /* an addition of different types */
        struct ir_node bad = {.op = OP_add, .arg_count = 2, .args = args, .type = *ir_type(m->funcs.items[0], 1)};
        struct ir_builder b = {.f = m->funcs.items[0]};
        ir_result_add(&b, "bad", ir_append_raw(b.f, &bad), -1);
        if (chdir(folder) || !freopen("/dev/null", "w", stderr)) _exit(9);
        run_with((struct pass_options){.only = "autodiff", .reproducer_dir = reproducer_dir}, m, &pass);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A defect ends with code 4 and leaves the input of the pass, which replays it; in "" it leaves nothing. */
START_TEST(defects)
{
    char dir[] = "/tmp/stepc-defect-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    const char *path = arena_format(&arena, "%s/repro-autodiff.sir", dir);
    ck_assert_int_eq(defect(dir, ""), 4);
    ck_assert_int_eq(access(path, R_OK), -1);
    ck_assert_int_eq(defect("/", dir), 4);
    ck_assert_int_eq(access(path, R_OK), 0);
    unlink(path);
    rmdir(dir);
}
END_TEST

int main(void)
{
    TCase *tests = CASE_OF(120, too_many_constants, gradients_of_gradients, every_loop_has_its_body,
                           gradient_through_argmax, argmax_beside_a_gradient, gradient_through_loop, options, dumps,
                           defects);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, passes_keep_meaning, 0, 60);
    tcase_add_loop_test(tests, scans_keep_meaning, 0, 60);
    tcase_add_loop_test(tests, gradients_are_slopes, 0, 40);
    tcase_add_loop_test(tests, loops_equal_markers, 0, 48);
    return run_case("passes", tests);
}
