/* What is added up over microbatches and examples, and of which types: bools are counted or joined as in jax.numpy,
 * means are of floats, and numbers of rows have a limit. */
#include "tests/unit/frontend/fe_test.h"

#define INPUT(rows) "\"inputs\": {\"x\": {\"shape\": [" rows ", 4], \"axes\": [\"batch\", null]}}, "
#define LINEAR "\"model\": {\"type\": \"linear\", \"features\": 3, \"input\": \"x\"}, \"loss\": \"mean(model**2)\", "
#define MAPPED(kind, expr) \
    "\"model\": {\"type\": \"sequential\", \"input\": \"x\", \"layers\": [{\"type\": \"linear\", \"features\": 3}, " \
    "{\"type\": " \
    "\"micro_vmap\", \"microbatch_size\": 2, \"accumulator\": \"" kind \
    "\", \"block\": {\"type\": \"expr\", \"expr\": \"" expr \
    "\"}}]}, \"loss\": \"mean(model.astype('float32')) + mean(params.layers.0.bias)\", \"metrics\": {\"m\": " \
    "\"model\"}, "
#define METRIC(expr) "\"metrics\": {\"m\": \"" expr "\"}, "
#define PARTS(kind) "\"accumulate\": {\"microbatch_size\": 2, \"accumulator\": \"" kind "\"}, "
#define EXAMPLES(kind) "\"per_example\": {\"microbatch_size\": 2, \"accumulator\": \"" kind "\"}, "
#define EXAMPLE(kind, expr) \
    "\"per_example\": {\"microbatch_size\": 2, \"metrics\": {\"m\": {\"expr\": \"" expr "\", \"accumulator\": \"" kind \
    "\"}}}, "
#define TRANSFORM(kind, expr) \
    "\"per_example\": {\"microbatch_size\": 2, \"accumulator\": \"" kind "\", \"transform\": [\"" expr "\"]}, "

/* The type of metric "m"; or of the error, its pointer and a part of it. */
static const struct {
    const char *document, *type, *pointer, *message;
} cases[] = {
    /* Rows of a metric are those of the batch: an extent that is a microbatch's by chance is none. */
    {INPUT("6") LINEAR METRIC("model[:, :2]") PARTS("mean"), "float32[6, 2]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("mean(model, axis=0)[:2]") PARTS("mean"), "float32[2]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("params.bias[1:] * mean(model)") PARTS("sum"), "float32[2]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("params.bias[:1]") EXAMPLES("mean"), "float32[1]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("model[:, 0]") EXAMPLES("mean"), "float32[6]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("mean(model) > 0") PARTS("sum"), "bool[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("mean(model) > 0") PARTS("mean"), NULL, "/metrics/m",
     "bool[], which mean cannot accumulate"},
    {INPUT("6") LINEAR METRIC("int32(mean(model))") PARTS("sum"), "int32[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("int32(mean(model))") PARTS("running_mean"), NULL, "/metrics/m",
     "running_mean cannot accumulate"},
    {INPUT("6") LINEAR METRIC("mean(model) > 0") EXAMPLES("sum"), "int32[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("mean(model) > 0") EXAMPLES("mean"), NULL, "/metrics/m", "mean cannot accumulate"},
    {INPUT("6") LINEAR METRIC("mean(model).astype('uint8')") EXAMPLES("sum"), "uint32[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("mean(model) > 0") EXAMPLES("sum") PARTS("sum"), "int32[]", NULL, NULL},
    {INPUT("6") LINEAR EXAMPLE("sum", "loss > 0"), "int32[]", NULL, NULL},
    {INPUT("6") LINEAR EXAMPLE("concat", "loss > 0"), "bool[6]", NULL, NULL},
    {INPUT("6") LINEAR EXAMPLE("mean", "loss > 0"), NULL, "/per_example/metrics/m/expr", "mean cannot accumulate"},
    {INPUT("6") LINEAR METRIC("loss") TRANSFORM("sum", "update > 0"), "float32[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("global_norm(grads)") TRANSFORM("sum", "7"), "float32[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("x[:, 0] @ (x > 0)") "", "float32[4]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("(x[0] > 0) @ (x[1] > 0)") "", "bool[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("hypot(x[0].astype('float16'), (x[1] > 0).astype('uint8'))") "", "float16[4]", NULL,
     NULL},
    {INPUT("6") LINEAR METRIC("top_k((x * 9).astype('int8'), 2)[0]") "", "int8[6, 2]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("convolve(int32(x[0]), int32(x[1]))") "", "float32[7]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("loss")
         TRANSFORM("mean", "update > 0\", {\"type\": \"clip_by_global_norm\", \"max_norm\": 1}, \"update"),
     "float32[]", NULL, NULL},
    {INPUT("6") LINEAR METRIC("loss") TRANSFORM("mean", "update > 0"), NULL, "/per_example/transform", "becomes bool"},
    {INPUT("6") MAPPED("sum", "x > 0"), "int32[3]", NULL, NULL},
    {INPUT("6") MAPPED("concat", "x > 0"), "bool[6, 3]", NULL, NULL},
    {INPUT("6") MAPPED("mean", "x > 0"), NULL, "/model/layers/1/block", "mean cannot accumulate"},
    {"\"inputs\": {\"x\": {\"shape\": [6, 4], \"dtype\": \"float64\", \"axes\": [\"batch\", null]}}, " LINEAR METRIC(
         "x[0]") PARTS("mean"),
     "float32[4]", NULL, NULL},
    {INPUT("1000000000000") LINEAR PARTS("sum"), NULL, "/inputs/x/shape", "at most 2147483646 can be split"},
    {INPUT("1000000000000") LINEAR EXAMPLES("sum"), NULL, "/inputs/x/shape", "at most 2147483646 can be split"},
    {INPUT("1000000000000") MAPPED("sum", "x"), NULL, "/model/layers/1", "at most 2147483646 can be split"},
};

START_TEST(accumulated)
{
    struct arena arena = {0};
    struct diags diags = {.arena = &arena};
    struct fe_options options = {0};
    const char *text = arena_format(
        &arena, "{\"stepc\": 1, %s\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1}}", cases[_i].document);
    struct ir_module *m = fe_compile("accumulated.json", text, strlen(text), &options, &diags);
    struct fixture f = {.diags = diags};
    char *said = fixture_said(&f);
    ck_assert_msg((m != NULL) == (cases[_i].type != NULL), "%s\n%s", text, said);
    if (m) {
        int64_t slot = ir_slot_find(m, "m");
        ck_assert_msg(slot >= 0, "%s", text);
        ck_assert_str_eq(ir_type_text(&arena, &m->slots.items[slot].type), cases[_i].type);
        ir_module_free(m);
    } else {
        ck_assert_msg(diags.errors == 1, "%s\n%s", text, said);
        ck_assert_str_eq(diags.list.items[0].pointer, cases[_i].pointer);
        ck_assert_msg(strstr(diags.list.items[0].message, cases[_i].message) != NULL, "%s", said);
    }
    free(said);
    arena_free(&arena);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, accumulated, 0, (int)(sizeof cases / sizeof *cases));
    return run_case("accumulated", tests);
}
