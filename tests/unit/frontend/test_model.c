/* Blocks against Flax NNX (model_cases.json, recorded by record_model.py): paths, initial values from a seed, outputs.
 * Then the rules of paths and names, and what is said about wrong models. */
#include "tests/unit/frontend/recorded.h"
#include "frontend/model/init.h"
#include "tests/unit/frontend/traced.h"

#include <math.h>

static void numbers(const struct json_value *list, double *to)
{
    for (const struct json_value *x = child(list); x; x = sibling(x)) *to++ = x->number;
}

/* A document around a model. `more` are further top-level keys, each with a comma behind it. */
static const char *document(const char *model, const char *more)
{
    struct str s = STR(&arena);
    const struct json_value *inputs = get(recorded.values, "inputs");
    str_add(&s, "{\"stepc\": 1, \"inputs\": {");
    for (const struct json_value *v = child(inputs); v; v = sibling(v))
        str_addf(&s, "%s\"%s\": {\"shape\": %s, \"dtype\": %s}", v == child(inputs) ? "" : ", ", v->key,
                 text_of(get(v, "shape")), text_of(get(v, "dtype")));
    str_addf(
        &s,
        "}, %s \"model\": %s, \"loss\": \"mean(model**2)\", \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 1}}",
        more, model);
    return str_text(&s);
}

static struct traced *traced(const char *text)
{
    struct traced *t = arena_new(&arena, struct traced);
    trace_document(t, text);
    return t;
}

static void compare(const char *what, const struct ir_tensor *got, const struct json_value *want)
{
    ck_assert_msg(ir_type_elements(&got->type) == (int64_t)want->count, "%s: %u elements expected, found %s", what,
                  want->count, ir_type_text(&arena, &got->type));
    double *v = arena_new_array(&arena, double, want->count + 1);
    numbers(want, v);
    for (uint32_t i = 0; i < want->count; i++)
        ck_assert_msg(fabs(got->v[i] - v[i]) <= 1e-5 * (1 + fabs(v[i])), "%s: element %u is %.9g, %.9g expected", what,
                      i, got->v[i], v[i]);
}

/* Initial values of all parameters, by the interpreter. */
static struct ir_tensor *initial_values(struct traced *t, const struct json_value *want, const char *name)
{
    uint32_t n;
    const struct fe_param *params = fe_params(&t->f.fe, &n);
    struct ir_tensor *values = arena_new_array(&arena, struct ir_tensor, n + 1);
    struct ir_builder b = {.f = ir_func_new(t->f.fe.module, "init", true)};
    ck_assert_msg(n == want->count, "%s: %u parameters expected, found %u", name, want->count, n);
    for (uint32_t i = 0; i < n; i++) ir_result_add(&b, params[i].path, fe_initial(&t->f.fe, &b, &params[i]), -1);
    ir_eval(b.f, IR_EVAL_EXACT_DTYPES, NULL, values, &arena);
    for (uint32_t i = 0; i < n; i++)
        compare(arena_format(&arena, "%s: %s", name, params[i].path), &values[i], get(want, params[i].path));
    return values;
}

static void check_case(const struct json_value *c)
{
    const char *name = get(c, "name")->string;
    struct traced *t = traced(
        document(text_of(get(c, "model")), arena_format(&arena, "\"seed\": %s,", text_of(get(c, "seed")))));
    ck_assert_msg(t->good, "%s: %s", name, fixture_said(&t->f));
    struct ir_tensor *values = initial_values(t, get(c, "params"), name), result;
    struct ir_func *f = t->b.f;
    struct ir_tensor *in = arena_new_array(&arena, struct ir_tensor, f->params.count + 1);
    ir_result_add(&t->b, "model", t->trace.model.tensor, -1);
    for (size_t i = 0; i < f->params.count; i++) {
        const struct json_value *input = json_get(&recorded, get(recorded.values, "inputs"), f->params.items[i].name);
        in[i] = (struct ir_tensor){f->params.items[i].type,
                                   arena_new_array(&arena, double, ir_type_elements(&f->params.items[i].type) + 1)};
        if (input) numbers(get(input, "values"), in[i].v);
        uint32_t n;
        const struct fe_param *params = fe_params(&t->f.fe, &n);
        for (uint32_t p = 0; p < n && !input; p++)
            if ((int32_t)params[p].slot == f->params.items[i].slot) in[i] = values[p];
    }
    ir_eval(f, IR_EVAL_EXACT_DTYPES, in, &result, &arena);
    compare(arena_format(&arena, "%s: output", name), &result, get(c, "output"));
    fixture_free(&t->f);
}

START_TEST(flax)
{
    for (const struct json_value *c = child(get(recorded.values, "cases")); c; c = sibling(c)) check_case(c);
}
END_TEST

/* An element of a tensor of more than 2^32 draws by both words of its index, as a part of it and by the number of its
 * row. */
START_TEST(many_draws)
{
    const int64_t rows = (int64_t)1 << 31, columns = 3, row = rows - 5;
    struct fe_part part = {.whole = ir_type_of(IR_F32, 2, (int64_t[]){rows, columns})};
    for (int alone = 0; alone < 2; alone++) {
        struct arena own = {0};
        struct ir_module *module = ir_module_new("test");
        struct ir_builder b = {.f = ir_func_new(module, "main", true)};
        struct ir_type type = ir_type_of(IR_F32, alone ? 1 : 2, (int64_t[]){alone ? columns : 1, columns});
        int64_t one = 1;
        part.at = ir_number(&b, ir_type_of(IR_U32, alone ? 0 : 1, &one), (double)row);
        struct ir_type scalar = ir_type_scalar(IR_U32);
        ir_value key[] = {ir_number(&b, scalar, 11), ir_number(&b, scalar, 7)};
        ir_result_add(&b, "bits", fe_random(&b, key, &type, FE_DRAW_BITS, 0, 1, &part), -1);
        struct ir_tensor result = {.v = NULL};
        ir_eval(b.f, IR_EVAL_EXACT_DTYPES, NULL, &result, &own);
        for (int64_t i = 0; i < columns; i++) {
            uint64_t index = (uint64_t)(row * columns + i);
            uint32_t words[2];
            fe_threefry((uint32_t[]){11, 7}, (uint32_t)(index >> 32), (uint32_t)index, words);
            ck_assert_double_eq(result.v[i], words[0] ^ words[1]);
        }
        ir_module_free(module);
        arena_free(&own);
    }
}
END_TEST

/* JAX keeps 32 bits of a seed. */
START_TEST(seeds)
{
    static const char *const same[] = {"\"seed\": 5,", "\"seed\": 4294967301,", "\"seed\": -4294967291,"};
    uint32_t first[2] = {0};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct traced *t = traced(document("{\"type\": \"linear\", \"features\": 2, \"input\": \"x\"}", same[i]));
        uint32_t n, key[2];
        ck_assert(t->good && fe_params(&t->f.fe, &n) && n == 2);
        fe_fork_key(&t->f.fe, fe_params(&t->f.fe, &n)[0].stream, 0, key);
        if (!i) memcpy(first, key, sizeof first);
        ck_assert(first[0] == key[0] && first[1] == key[1]);
        fixture_free(&t->f);
    }
}
END_TEST

/* Paths of the parameters of a model, in order. */
#define LINEAR "{\"type\": \"linear\", \"features\": 4, \"use_bias\": false}"
#define NAMED(name) "{\"type\": \"linear\", \"features\": 4, \"use_bias\": false, \"name\": \"" name "\"}"
static const struct {
    const char *model, *more, *paths;
} paths[] = {
    {"{\"type\": \"linear\", \"features\": 2, \"input\": \"x\"}", "", "kernel bias"},
    {"{\"type\": \"linear\", \"features\": 2, \"input\": \"x\", \"name\": \"net\"}", "", "net.kernel net.bias"},
    {"{\"type\": \"sequential\", \"input\": \"x\", \"layers\": [" LINEAR
     ", {\"type\": \"relu\"}, " NAMED("head.out") "]}",
     "", "layers.0.kernel head.out.kernel"},
    {"{\"type\": \"repeat\", \"name\": \"h\", \"count\": 2, \"input\": \"x\", \"block\": {\"type\": \"residual\", "
     "\"layers\": [" LINEAR "]}}",
     "", "h.0.layers.0.kernel h.1.layers.0.kernel"},
    {"{\"type\": \"residual\", \"name\": \"\", \"input\": \"x\", \"layers\": [" NAMED("up") "]}", "", "up.kernel"},
    {"{\"type\": \"sequential\", \"input\": \"x\", \"layers\": [{\"type\": \"remat\", \"block\": " LINEAR
     "}, {\"type\": \"wide\", \"n\": 4}]}",
     "\"define\": {\"wide\": {\"params\": {\"n\": 8}, \"body\": {\"type\": \"linear\", \"features\": \"$n\", "
     "\"use_bias\": false}}},",
     "layers.0.kernel layers.1.kernel"},
    {"{\"type\": \"graph\", \"nodes\": ["
     "{\"type\": \"linear\", \"features\": 4, \"name\": \"a\", \"input\": \"x\"}, {\"type\": \"shared\", \"name\": "
     "\"b\", \"block\": \"a\", \"input\": \"a + x\"}"
     ", {\"type\": \"param\", \"name\": \"c.w\", \"shape\": [4]}], \"output\": {\"one\": \"b\", \"two\": "
     "\"params.c.w\"}}",
     "", "a.kernel a.bias c.w"},
    {"{\"type\": \"multi_head_attention\", \"num_heads\": 2, \"normalize_qk\": true, \"use_bias\": false, \"input\": "
     "\"x\"}",
     "", "query.kernel key.kernel value.kernel query_ln.scale key_ln.scale out.kernel"},
};

START_TEST(path_rules)
{
    struct traced *t = traced(document(paths[_i].model, paths[_i].more));
    ck_assert_msg(t->good, "%s", fixture_said(&t->f));
    struct str s = STR(&arena);
    uint32_t n;
    const struct fe_param *params = fe_params(&t->f.fe, &n);
    for (uint32_t i = 0; i < n; i++) str_addf(&s, "%s%s", i ? " " : "", params[i].path);
    ck_assert_str_eq(str_text(&s), paths[_i].paths);
    fixture_free(&t->f);
}
END_TEST

static const struct {
    const char *model, *more, *pointer, *says;
} wrong[] = {
    {"{\"type\": \"liner\", \"features\": 2, \"input\": \"x\"}", "", "/model/type", "did you mean \"linear\""},
    {"{\"type\": \"linear\", \"features\": 2}", "", "/model", "no \"input\""},
    {"{\"type\": \"linear\", \"input\": \"x\"}", "", "/model", "features"},
    {"{\"type\": \"linear\", \"features\": 2, \"in_features\": 7, \"input\": \"x\"}", "", "/model/in_features",
     "expects 7 inputs, found 4"},
    {"{\"type\": \"linear\", \"features\": 2, \"input\": \"x\", \"use_bais\": false}", "", "/model/use_bais",
     "use_bias"},
    {"{\"type\": \"embed\", \"num_embeddings\": 2, \"features\": 2, \"input\": \"x\"}", "", "/model", "integer dtype"},
    {"{\"type\": \"gelu\", \"aproximate\": false, \"input\": \"x\"}", "", "/model/aproximate", "approximate"},
    {"{\"type\": \"pool\", \"input\": \"x\"}", "", "/model/type", "not supported yet"},
    {"{\"type\": \"multi_head_attention\", \"num_heads\": 3, \"input\": \"x\"}", "", "/model",
     "4 features cannot be divided among 3 heads"},
    {"{\"type\": \"residual\", \"input\": \"x\", \"layers\": [{\"type\": \"linear\", \"features\": 5}]}", "", "/model",
     "cannot be added"},
    {"{\"type\": \"sequential\", \"input\": \"x\", \"layers\": [" NAMED("a") ", " NAMED("a") "]}", "",
     "/model/layers/1/name", "two blocks have the name"},
    {"{\"type\": \"graph\", \"nodes\": [" NAMED("a") "], \"output\": \"a\"}", "", "/model", "input"},
    {"{\"type\": \"graph\", \"nodes\": [{\"type\": \"expr\", \"expr\": \"b\", \"name\": \"a\"}], \"output\": \"a\"}",
     "", "/model/nodes/0/expr", "unknown name \"b\""},
    {"{\"type\": \"shared\", \"block\": \"nothing\", \"input\": \"x\"}", "", "/model/block", "no earlier block"},
    {"{\"type\": \"sequential\", \"input\": \"x\", \"layers\": [" NAMED(
         "a") ", {\"type\": \"shared\", \"block\": \"layers.1\"}]}",
     "", "/model/layers/1/block", "expected one of: a\n"},
    {"{\"type\": \"sequential\", \"input\": \"x\", \"layers\": [" NAMED(
         "a") ", {\"type\": \"shared\", \"block\": \"a\", \"input\": \"x[..., :2]\"}]}",
     "", "/model/layers/0", "used again by /model/layers/1, line"},
    {"{\"type\": \"residual\", \"name\": \"all\", \"input\": \"x\", \"layers\": [{\"type\": \"shared\", \"block\": "
     "\"all\"}]}",
     "", "/model/layers/0/block", "is around this block"},
    {"{\"type\": \"a\", \"input\": \"x\"}", "\"define\": {\"a\": {\"body\": {\"type\": \"a\"}}},", "/define/a/body",
     "contains itself"},
    {"{\"type\": \"a\", \"m\": 1, \"input\": \"x\"}",
     "\"define\": {\"a\": {\"params\": {\"n\": 1}, \"body\": {\"type\": \"relu\"}}},", "/model/m",
     "no parameter \"m\""},
    {"{\"type\": \"a\", \"inputs\": [\"x\", \"x\"]}",
     "\"define\": {\"a\": {\"inputs\": [\"q\"], \"body\": {\"type\": \"expr\", \"expr\": \"q\"}}},", "/model",
     "takes 1 inputs, found 2"},
    {"{\"type\": \"param\", \"shape\": [2], \"dtype\": \"int32\"}", "", "/model", "floating point"},
    {"{\"type\": \"param\", \"shape\": [2], \"init\": {\"type\": \"norml\"}}", "", "/model/init/type",
     "did you mean \"normal\""},
    {"{\"type\": \"sequential\", \"input\": \"x\", \"layers\": {\"0\": 1}}", "", "/model/layers", "array"},
    {"{\"type\": \"linear\", \"features\": 2, \"input\": \"x\", \"dot_general\": \"f\"}", "", "/model/dot_general",
     "no functions of Python"},
    {"{\"type\": \"linear\", \"features\": 2, \"input\": \"x\", \"kernel_metadata\": {}}", "", "/model/kernel_metadata",
     "stands in \"sharding\""},
    {"{\"type\": \"linear\", \"features\": 2, \"input\": \"x\", \"preferred_element_type\": \"bfloat16\"}", "",
     "/model/preferred_element_type", "a product of float32 is that or float32"},
    {"{\"type\": \"layer_norm\", \"input\": \"x\", \"num_features\": 3}", "", "/model/num_features",
     "expects 3 features, found 4"},
    {"{\"type\": \"lstm_cell\", \"hidden_features\": 2, \"carry_init\": {\"type\": \"normal\"}, \"input\": \"x\"}", "",
     "/model/carry_init", "keep_rngs"},
    {"{\"type\": \"simple_cell\", \"hidden_features\": 2, \"activation_fn\": {\"type\": \"relu\", \"input\": \"2*x\"}, "
     "\"input\": \"x\"}",
     "", "/model/activation_fn/input", "unknown key \"input\" in activation"},
    {"{\"type\": \"weight_norm\", \"input\": \"x\", \"layer_instance\": {\"type\": \"linear\", \"features\": 2}, "
     "\"variable_filter\": [\"**.krnel\"]}",
     "", "/model/variable_filter/0", "matches no parameter of the layer inside"},
    {"{\"type\": \"sequential\", \"input\": \"x\", \"layers\": [{\"type\": \"weight_norm\", \"name\": \"w\", "
     "\"layer_instance\": "
     "{\"type\": \"linear\", \"features\": 4, \"name\": \"l\"}}, {\"type\": \"shared\", \"block\": \"w.l\"}]}",
     "", "/model/layers/1", "\"w.l.kernel\" is normalised by the block around it"},
    {"{\"type\": \"linear_general\", \"input\": \"x\", \"features\": 2, \"axis\": [-1, 2]}", "", "/model/axis",
     "axis 2 stands twice"},
    {"{\"type\": \"bidirectional\", \"input\": \"x\", \"forward_rnn\": {\"type\": \"rnn\", \"seq_lengths\": \"ones(2, "
     "'int32')\", "
     "\"cell\": {\"type\": \"gru_cell\", \"hidden_features\": 2}}, \"backward_rnn\": {\"type\": \"rnn\", \"cell\": "
     "{\"type\": "
     "\"gru_cell\", \"hidden_features\": 2}}}",
     "", "/model/forward_rnn/seq_lengths", "holds for both ways"},
    {"{\"type\": \"dropout\", \"input\": \"x\", \"rate\": 0, \"broadcast_dims\": [9]}", "", "/model/broadcast_dims",
     "9"},
    {"{\"type\": \"einsum\", \"input\": \"x\", \"einsum_str\": \"abc,...cd->...abd\", \"kernel_shape\": [2, 4, 3]}",
     "\"adapters\": [{\"type\": \"lora\", \"rank\": 1, \"match\": \"**\"}],", "/adapters/0/match",
     "dimensions \"...\""},
};

START_TEST(blame)
{
    struct traced *t = traced(document(wrong[_i].model, wrong[_i].more));
    char *said = fixture_said(&t->f);
    ck_assert_msg(!t->good && t->f.diags.errors == 1, "%s: %s", wrong[_i].model, said);
    ck_assert_msg(strstr(said, wrong[_i].says) != NULL, "\"%s\" expected in\n%s", wrong[_i].says, said);
    ck_assert_str_eq(t->f.diags.list.items[0].pointer, wrong[_i].pointer);
    free(said);
    fixture_free(&t->f);
}
END_TEST

int main(void)
{
    load("tests/unit/frontend/model_cases.json");
    TCase *tests = CASE_OF(30, flax, many_draws, seeds);
    tcase_add_loop_test(tests, path_rules, 0, (int)(sizeof paths / sizeof *paths));
    tcase_add_loop_test(tests, blame, 0, (int)(sizeof wrong / sizeof *wrong));
    return run_case("model", tests);
}
