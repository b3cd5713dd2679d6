/* Expressions against values that JAX gave (expr_cases.json, recorded by record_expr.py), and where a wrong one is
 * blamed. Every expression is a metric of one document and evaluated by the interpreter. */
#include "tests/unit/frontend/recorded.h"
#include "tests/unit/frontend/traced.h"

#include <math.h>

static double number_of(const struct json_value *v)
{
    return v->kind == JSON_STRING ? strtod(v->string, NULL) : v->number;
}

static struct ir_tensor tensor_of(const struct json_value *v)
{
    struct ir_tensor t = {0};
    int64_t dim[IR_MAX_RANK];
    uint32_t rank = 0;
    for (const struct json_value *d = child(get(v, "shape")); d; d = sibling(d)) dim[rank++] = (int64_t)d->number;
    t.type = ir_type_of(ir_dtype_find(get(v, "dtype")->string), rank, dim);
    t.v = arena_new_array(&arena, double, ir_type_elements(&t.type) + 1);
    size_t i = 0;
    for (const struct json_value *x = child(get(v, "values")); x; x = sibling(x)) t.v[i++] = number_of(x);
    return t;
}

/* A document with the recorded inputs, one bare parameter and these metrics (a JSON object). */
static const char *document(const char *metrics)
{
    struct str s = STR(&arena);
    str_add(&s, "{\"stepc\": 1, \"constants\": {\"four\": 4}, \"inputs\": {");
    for (const struct json_value *v = child(get(recorded.values, "inputs")); v; v = sibling(v))
        str_addf(&s, "%s\"%s\": {\"shape\": %s, \"dtype\": %s}", v == child(get(recorded.values, "inputs")) ? "" : ", ",
                 v->key, text_of(get(v, "shape")), text_of(get(v, "dtype")));
    str_addf(&s,
             "}, \"model\": {\"type\": \"param\", \"name\": \"w\", \"shape\": [2, 2]}, \"loss\": \"sum(params.w)\", "
             "\"metrics\": %s, "
             "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 1}}",
             metrics);
    return str_text(&s);
}

static void compare(const struct json_value *c, const struct ir_tensor *got)
{
    struct ir_tensor want = tensor_of(c);
    const char *text = get(c, "expr")->string;
    ck_assert_msg(ir_type_equal(&want.type, &got->type), "%s: %s expected, found %s", text,
                  ir_type_text(&arena, &want.type), ir_type_text(&arena, &got->type));
    for (int64_t i = 0; i < ir_type_elements(&want.type); i++) {
        double x = got->v[i], y = want.v[i];
        if ((isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 2e-5 * (1 + fabs(y))) continue;
        ck_abort_msg("%s: element %lld is %.9g, %.9g expected", text, (long long)i, x, y);
    }
}

START_TEST(values)
{
    const struct json_value *cases = get(recorded.values, "cases");
    struct str metrics = STR(&arena);
    uint32_t count = 0;
    for (const struct json_value *c = child(cases); c; c = sibling(c), count++)
        str_addf(&metrics, "%s\"m%u\": %s", count ? ", " : "{", count, text_of(get(c, "expr")));
    str_add(&metrics, "}");
    struct traced *t = arena_new(&arena, struct traced);
    ck_assert(trace_document(t, document(str_text(&metrics))));
    fe_json json = fe_member(&t->f.fe, fe_root(&t->f.fe), "metrics");
    for (fe_json m = fe_first(&t->f.fe, json); m; m = fe_next(&t->f.fe, m)) {
        struct fe_val v = fe_expr(&t->f.fe, &t->trace, m, t->trace.env);
        ir_value x = v.bad ? 0 : fe_tensor(&t->f.fe, &t->trace, &v, m);
        if (!x) ck_abort_msg("%s: %s", m->string, fixture_said(&t->f));
        ir_result_add(&t->b, m->key, x, -1);
    }
    struct ir_tensor *params = arena_new_array(&arena, struct ir_tensor, t->b.f->params.count);
    struct ir_tensor *results = arena_new_array(&arena, struct ir_tensor, count);
    for (size_t i = 0; i < t->b.f->params.count; i++) {
        const struct json_value *input = json_get(&recorded, get(recorded.values, "inputs"),
                                                  t->b.f->params.items[i].name);
        if (input) params[i] = tensor_of(input);
        else params[i] = (struct ir_tensor){t->b.f->params.items[i].type, arena_new_array(&arena, double, 4)};
    }
    ir_eval(t->b.f, IR_EVAL_EXACT_DTYPES, params, results, &arena);
    uint32_t i = 0;
    for (const struct json_value *c = child(cases); c; c = sibling(c)) compare(c, &results[i++]);
    fixture_free(&t->f);
}
END_TEST

/* A wrong expression: the byte where the underline starts, and words of the message. */
static const struct {
    const char *text;
    int at;
    const char *says;
} wrong[] = {
    {"", 0, "empty"},
    {"   ", 0, "empty"},
    {"mean((x - y)**2", 14, "')' expected"},
    {"mean((x - y) ? 2)", 13, "unexpected character '?'"},
    {"mean(x y)", 7, "')' expected, found 'y'"},
    {"x +", 2, "a value expected"},
    {"x[1", 2, "']' expected"},
    {"'abc", 0, "not closed"},
    {"a < b < c", 6, "chained"},
    {"x if b else y", 5, "where()"},
    {"x if 1 > 0 else x @ x", 0, ""},
    {"x @ x if shape(x)[0] == 4 else sum(x if ndim(x) == 1 else v)", 0, ""},
    {"x if 1 > 0", 9, "\"else\" expected"},
    {"sum(x if b", 9, "\"else\" expected"},
    {"x if 1 else yy if 0 else yy", 0, ""},
    {"x or y", 2, "use & and |"},
    {"meen(x)", 0, "did you mean \"mean\""},
    {"mean(xx) + 1", 5, "unknown name \"xx\""},
    {"sum(params.u)", 4, "params has no \"u\""},
    {"sum(grads.w)", 4, "only metrics"},
    {"eig(x)", 0, "not supported yet"},
    {"x + t[:, :, :3]", 0, "do not fit"},
    {"sum(x, axis=2)", 12, "axis 2 is outside"},
    {"sum(x, axes=1)", 12, "no argument \"axes\""},
    {"sum(x, 0, axis=1)", 0, "twice"},
    {"sum()", 0, "needs its argument"},
    {"x[:, 7]", 5, "index 7 is outside axis 1"},
    {"x[:, :, 0]", 0, "3 indices"},
    {"x[::0]", 2, "step"},
    {"x[x]", 2, "integer dtype"},
    {"reshape(x, (5, 5))", 0, "12 elements, the new shape 25"},
    {"x @ y", 0, "inner sizes are 4 and 3"},
    {"einsum('ij,jk->ik', x, y)", 0, "'j' stands for 4 and 3"},
    {"einsum('ij->k', x)", 0, "in no operand"},
    {"concatenate([x, v[None]], axis=1)", 0, "cannot be joined"},
    {"x & 1", 0, "bit operations"},
    {"i // 3000000000", 0, "does not fit into int32"},
    {"where(i < -2147483649, 1, 0)", 6, "does not fit into int32"},
    {"array([1, 2147483648])", 0, "does not fit into int32"},
    {"x * 2147483648 + i * 2147483647 + i.astype('uint32') * 4294967295", 0, ""},
    {"b - b", 0, "bool tensors cannot be subtracted"},
    {"-b", 0, "no sign"},
    {"max(x, where=b)", 0, "initial"},
    {"x ** i", 0, ""},
    {"i ** -2000", 0, "negative power"},
    {"(x if 1 > 0 else y).sum()", 0, ""},
    {"sum(x, axis\n\t= 0)", 0, ""},
    {"1 / 0", 0, "division by zero"},
    {"x * (2**60 + 1 - 2**60)", 5, "beyond 2^53-1"},
    {"x * (3**40 % 7)", 5, "beyond 2^53-1"},
    {"x if 3**40 < 3**41 else x", 5, "beyond 2^53-1"},
    {"x * 3**40 / 2**60 if size(x) < 2**60 else x", 0, ""},
    {"x * 0 ** -1", 4, "zero to a negative power"},
    {"x * (-8) ** 0.5", 5, "to a fractional power"},
    {"softmax_cross_entropy_with_integer_labels(x, v)", 45, "integer dtype"},
    {"huber_loss(i)", 11, "floating point"},
    {"astype(x, 'flota32')", 10, "dtype"},
    {"jnp.mean(x)", 0, "unknown function"},
    {"sin", 0, "is a function"},
    {"x.y", 0, "no part \"y\""},
};

START_TEST(blame)
{
    struct traced *t = arena_new(&arena, struct traced);
    struct str metric = STR(&arena);
    str_add(&metric, "{\"m\": ");
    str_add_json(&metric, wrong[_i].text);
    str_add(&metric, "}");
    const char *text = document(str_text(&metric));
    ck_assert(trace_document(t, text));
    fe_json m = fe_first(&t->f.fe, fe_member(&t->f.fe, fe_root(&t->f.fe), "metrics"));
    struct fe_val v = fe_expr(&t->f.fe, &t->trace, m, t->trace.env);
    if (!*wrong[_i].says) { /* this one is right */
        ck_assert_msg(!v.bad, "%s: %s", wrong[_i].text, fixture_said(&t->f));
        return;
    }
    char *said = fixture_said(&t->f);
    ck_assert_msg(v.bad && t->f.diags.errors == 1, "%s: %s", wrong[_i].text, said);
    ck_assert_msg(strstr(said, wrong[_i].says) != NULL, "%s: \"%s\" expected in\n%s", wrong[_i].text, wrong[_i].says,
                  said);
    int at = (int)t->f.diags.list.items[0].span.offset - (int)m->offset - 1;
    ck_assert_msg(at == wrong[_i].at, "%s: place %d expected, found %d\n%s", wrong[_i].text, wrong[_i].at, at, said);
    free(said);
    fixture_free(&t->f);
}
END_TEST

START_TEST(depth)
{
    struct str s = STR(&arena);
    str_add(&s, "{\"deep\": \"");
    for (int i = 0; i < 200; i++) str_add(&s, "(");
    str_add(&s, "x\", \"long\": \"x");
    for (int i = 0; i < 5000; i++) str_add(&s, "+x");
    str_add(&s, "\", \"fine\": \"");
    for (int i = 0; i < 100; i++) str_add(&s, "(");
    str_add(&s, "x");
    for (int i = 0; i < 100; i++) str_add(&s, ")");
    for (int i = 0; i < 1000; i++) str_add(&s, "+x");
    str_add(&s, "\"}");
    struct traced *t = arena_new(&arena, struct traced);
    ck_assert(trace_document(t, document(str_text(&s))));
    fe_json metrics = fe_member(&t->f.fe, fe_root(&t->f.fe), "metrics");
    ck_assert(fe_expr(&t->f.fe, &t->trace, fe_member(&t->f.fe, metrics, "deep"), t->trace.env).bad);
    ck_assert(fe_expr(&t->f.fe, &t->trace, fe_member(&t->f.fe, metrics, "long"), t->trace.env).bad);
    ck_assert(!fe_expr(&t->f.fe, &t->trace, fe_member(&t->f.fe, metrics, "fine"), t->trace.env).bad);
    fixture_free(&t->f);
}
END_TEST

int main(void)
{
    load("tests/unit/frontend/expr_cases.json");
    TCase *tests = CASE_OF(30, values, depth);
    tcase_add_loop_test(tests, blame, 0, (int)(sizeof wrong / sizeof *wrong));
    return run_case("expr", tests);
}
