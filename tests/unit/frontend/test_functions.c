/* Every function that expressions know, against what JAX gave (function_cases.json, written by
 * tests/fuzz/expressions.py
 * --record): its value, the gradient of a weighted sum of it, and that gradient against differences in float64. A row
 * of functions.def or losses.def, or an entry of the library, without a case fails by name. */
#include "passes/pass.h"
#include "tests/unit/frontend/recorded.h"
#include "tests/unit/frontend/traced.h"

#include <math.h>

static double number_of(const struct json_value *v)
{
    return v->kind == JSON_STRING ? strtod(v->string, NULL) : v->number;
}

static struct ir_type type_of(const struct json_value *v)
{
    int64_t dim[IR_MAX_RANK];
    uint32_t rank = 0;
    for (const struct json_value *d = child(get(v, "shape")); d; d = sibling(d)) dim[rank++] = (int64_t)d->number;
    return ir_type_of(ir_dtype_find(get(v, "dtype")->string), rank, dim);
}

static struct ir_tensor tensor_of(const struct json_value *v)
{
    struct ir_tensor t = {.type = type_of(v)};
    t.v = arena_new_array(&arena, double, ir_type_elements(&t.type) + 1);
    size_t i = 0;
    for (const struct json_value *x = child(get(v, "values")); x; x = sibling(x))
        t.v[i++] = ir_element_round((enum ir_dtype)t.type.dtype, number_of(x));
    return t;
}

static const char *document(const struct json_value *c)
{
    struct str s = STR(&arena);
    str_add(&s, "{\"stepc\": 1, \"inputs\": {\"unused\": {\"shape\": [1], \"dtype\": \"float32\"}");
    for (const struct json_value *v = child(get(c, "inputs")); v; v = sibling(v))
        str_addf(&s, ", \"%s\": {\"shape\": %s, \"dtype\": \"%s\"}", v->key, text_of(get(v, "shape")),
                 get(v, "dtype")->string);
    str_addf(&s,
             "}, \"model\": {\"type\": \"param\", \"name\": \"w\", \"shape\": [1]}, \"loss\": \"sum(params.w)\", "
             "\"metrics\": {\"m\": %s}, "
             "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 1}}",
             text_of(get(c, "expr")));
    return str_text(&s);
}

/* The expression over its inputs, which are the parameters of a function. */
static void trace(struct traced *t, const struct json_value *c)
{
    const char *text = get(c, "expr")->string;
    if (!trace_document(t, document(c))) ck_abort_msg("%s: %s", text, fixture_said(&t->f));
    fe_json m = fe_first(&t->f.fe, fe_member(&t->f.fe, fe_root(&t->f.fe), "metrics"));
    struct fe_val v = fe_expr(&t->f.fe, &t->trace, m, t->trace.env);
    t->value = v.bad ? 0 : fe_tensor(&t->f.fe, &t->trace, &v, m);
    if (!t->value) ck_abort_msg("%s: %s", text, fixture_said(&t->f));
}

static double weight(int64_t i) { return (double)(float)cos((double)i + 1); }

/* Where JAX's gradient is 0 everywhere it may be an error here that there is none. */
static bool no_gradient(const struct json_value *c)
{
    for (const struct json_value *g = child(get(c, "grads")); g; g = sibling(g))
        for (const struct json_value *x = child(get(g, "values")); x; x = sibling(x))
            if (number_of(x) != 0) return false;
    return true;
}

/* The value, the sum of its elements with their weights, and after autodiff the derivatives of that. */
static struct ir_func *differentiated(struct traced *t, const struct json_value *c)
{
    struct ir_builder *b = &t->b;
    ir_value wrt[32], y = t->value;
    uint32_t n = 0;
    ir_result_add(b, "value", y, -1);
    struct ir_type type = *ir_type(b->f, y);
    int64_t count = ir_type_elements(&type), dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (const struct json_value *g = child(get(c, "grads")); g; g = sibling(g))
        for (size_t i = 0; i < b->f->params.count; i++)
            if (!strcmp(b->f->params.items[i].name, g->key)) wrt[n++] = b->f->params.items[i].value;
    if (n) {
        float *w = arena_new_array(&arena, float, count + 1);
        for (int64_t i = 0; i < count; i++) w[i] = (float)weight(i);
        struct ir_type weights = type;
        weights.dtype = IR_F32;
        ir_value loss = ir_binary(b, OP_mul, ir_cast(b, y, IR_F32), ir_constant(b, weights, w));
        if (type.rank) loss = ir_reduce(b, OP_reduce_sum, loss, dims, type.rank);
        ir_result_add(b, "loss", loss, -1);
        ir_value grads = ir_grad(b, loss, wrt, n);
        for (uint32_t i = 0; i < n; i++) ir_result_add(b, arena_format(&arena, "g%u", i), ir_proj(b, grads, i), -1);
    }
    struct pass_options options = {0};
    struct pass pass = {.options = &options, .diags = &t->f.diags, .keep = &arena};
    struct ir_module *m = pass_autodiff(&pass, t->f.fe.module);
    if (!m && !no_gradient(c)) ck_abort_msg("%s: %s", get(c, "expr")->string, fixture_said(&t->f));
    arena_free(&pass.scratch);
    return m ? ir_func_find(m, "test") : NULL;
}

static void evaluate(const struct ir_func *f, const struct json_value *c, enum ir_precision precision,
                     const char *moved, int64_t at, double by, struct ir_tensor *results)
{
    struct ir_tensor *params = arena_new_array(&arena, struct ir_tensor, f->params.count);
    for (size_t i = 0; i < f->params.count; i++) {
        const struct json_value *input = json_get(&recorded, get(c, "inputs"), f->params.items[i].name);
        params[i] = input ? tensor_of(input)
                          : (struct ir_tensor){f->params.items[i].type, arena_new_array(&arena, double, 1)};
        if (moved && !strcmp(f->params.items[i].name, moved)) params[i].v[at] += by;
    }
    ir_eval(f, precision, params, results, &arena);
}

static void compare(const char *text, const char *what, const struct ir_tensor *got,
                    const struct json_value *recorded_value, bool typed)
{
    struct ir_tensor want = tensor_of(recorded_value);
    bool narrow = strstr(text, "float16") != NULL;
    double relative = strstr(text, "bfloat16") ? 3e-2 : narrow ? 4e-3 : 1e-4, most = 0;
    ck_assert_msg(!typed || ir_type_equal(&want.type, &got->type), "%s: %s is %s, %s expected", text, what,
                  ir_type_text(&arena, &got->type), ir_type_text(&arena, &want.type));
    for (int64_t i = 0; i < ir_type_elements(&want.type); i++)
        if (isfinite(want.v[i]) && fabs(want.v[i]) > most) most = fabs(want.v[i]);
    for (int64_t i = 0; i < ir_type_elements(&want.type); i++) {
        double x = got->v[i], y = want.v[i];
        if ((isnan(x) && isnan(y)) || x == y ||
            fabs(x - y) <= relative * (fabs(y) + 0.1 * most) + (relative > 1e-2 ? 1e-2
                                                                : narrow        ? 2e-3
                                                                                : 2e-6))
            continue;
        if (isnan(y) && !typed) continue; /* a gradient that is 0 times infinity there */
        ck_abort_msg("%s: element %lld of %s is %.9g, %.9g expected", text, (long long)i, what, x, y);
    }
}

/* Central differences of the weighted sum in float64. */
static void differences(const struct ir_func *f, const struct json_value *c, const char *text)
{
    struct ir_tensor base[40], low[40], high[40];
    uint32_t k = 2;
    evaluate(f, c, IR_EVAL_F64, NULL, 0, 0, base);
    for (const struct json_value *g = child(get(c, "grads")); g; g = sibling(g), k++) {
        int64_t n = ir_type_elements(&base[k].type);
        double most = 0;
        for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(base[k].v[i]));
        for (int64_t i = 0; i < n; i++) {
            double step = 1e-4;
            evaluate(f, c, IR_EVAL_F64, g->key, i, -step, low);
            evaluate(f, c, IR_EVAL_F64, g->key, i, step, high);
            double slope = (high[1].v[0] - low[1].v[0]) / (2 * step), found = base[k].v[i];
            if (!isfinite(slope) || !isfinite(found) || fabs(slope - found) <= 2e-3 * (1 + most)) continue;
            ck_abort_msg("%s: the derivative by element %lld of %s is %.9g, differences give %.9g", text, (long long)i,
                         g->key, found, slope);
        }
    }
}

static const struct json_value *cases[2048];
static int case_count;

START_TEST(one)
{
    const struct json_value *c = cases[_i];
    const char *text = get(c, "expr")->string;
    struct traced *t = arena_new(&arena, struct traced);
    trace(t, c);
    const struct ir_func *f = differentiated(t, c);
    if (!f) return;
    struct ir_tensor results[40];
    ck_assert(f->results.count <= 40);
    evaluate(f, c, IR_EVAL_EXACT_DTYPES, NULL, 0, 0, results);
    compare(text, "the value", &results[0], get(c, "value"), true);
    uint32_t k = 2;
    for (const struct json_value *g = child(get(c, "grads")); g; g = sibling(g))
        compare(text, g->key, &results[k++], g, false);
    if (k > 2 && get(c, "rough")->kind == JSON_FALSE) differences(f, c, text);
    if (f->module != t->f.fe.module) ir_module_free((struct ir_module *)f->module);
    fixture_free(&t->f);
}
END_TEST

/* Functions that take or give what is no tensor, and losses that a document gives a function: tested elsewhere. */
static const char *const elsewhere[] = {"make_fenchel_young_loss", "compute_weighted_cross_entropy"};

START_TEST(every_function_has_a_case)
{
    size_t count;
    const char *const *names = fe_function_names(fe_library_open(&arena, &fe_losses), 0, &count);
    struct str missing = STR(&arena);
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        for (int k = 0; k < case_count && !found; k++) found = !strcmp(get(cases[k], "function")->string, names[i]);
        for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++) found |= !strcmp(elsewhere[k], names[i]);
        if (!found && missing.length < 1000) str_addf(&missing, " %s", names[i]);
    }
    ck_assert_msg(missing.length == 0, "functions without a case in function_cases.json:%s", str_text(&missing));
}
END_TEST

int main(void)
{
    load("tests/unit/frontend/function_cases.json");
    for (const struct json_value *c = child(get(recorded.values, "cases")); c; c = sibling(c)) {
        ASSERT(case_count < 2048);
        cases[case_count++] = c;
    }
    TCase *tests = CASE_OF(60, every_function_has_a_case);
    tcase_add_loop_test(tests, one, 0, case_count);
    return run_case("functions", tests);
}
