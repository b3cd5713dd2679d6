/* "precision" and the dtypes of layers: what is refused, which dtypes slots get, and what a skipped step leaves. */
#include "tests/unit/frontend/fe_test.h"

static char *document(const char *layer, const char *more)
{
    static char text[4096];
    snprintf(
        text, sizeof text,
        "{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [4, 6], \"axes\": [\"batch\", null]}}, \"model\": {\"type\": "
        "\"sequential\", "
        "\"input\": \"x\", \"layers\": [{\"type\": \"linear\", \"name\": \"first\", \"features\": 5%s}, {\"type\": "
        "\"batch_norm\", \"name\": \"norm\"}]}, "
        "\"loss\": \"mean(model**2)\", \"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.1}, %s\"seed\": 1}",
        layer, more);
    return text;
}

#define PRECISION(members) "\"precision\": {" members "}, "
#define SCALE(members) PRECISION("\"loss_scale\": {\"type\": \"dynamic_scale\", " members "}")
static const struct {
    const char *layer, *more, *error;
} mistakes[] = {
    {"", PRECISION("\"compute\": \"int32\""), "/precision/compute: must be a floating-point dtype"},
    {"", PRECISION("\"params\": \"bool\""), "/precision/params: must be a floating-point dtype"},
    {"", PRECISION("\"gradients\": \"uint8\""), "/precision/gradients: must be a floating-point dtype"},
    {"", PRECISION("\"compute\": \"bf16\""), "/precision/compute: unknown dtype"},
    {"", PRECISION("\"params\": null"), "/precision/params: null"},
    {"", PRECISION("\"computes\": \"bfloat16\""), "/precision/computes: unknown key"},
    {"", PRECISION("\"loss_scale\": 2"), "/precision/loss_scale: object"},
    {"", PRECISION("\"loss_scale\": {\"scale\": 2}"), "/precision/loss_scale: \"type\""},
    {"", PRECISION("\"loss_scale\": {\"type\": \"dynamic\"}"), "/precision/loss_scale/type: unknown loss scale"},
    {"", PRECISION("\"loss_scale\": {\"type\": \"static\"}"), "/precision/loss_scale: needs \"scale\""},
    {"", PRECISION("\"loss_scale\": {\"type\": \"static\", \"scale\": 0}"), "/precision/loss_scale/scale: more than 0"},
    {"", PRECISION("\"loss_scale\": {\"type\": \"static\", \"scale\": 1e39}"),
     "/precision/loss_scale/scale: normal float32"},
    {"", PRECISION("\"loss_scale\": {\"type\": \"static\", \"scale\": 8, \"growth_factor\": 2}"),
     "/precision/loss_scale/growth_factor: unknown key"},
    {"", SCALE("\"growth_factor\": 0.5"), "/precision/loss_scale/growth_factor: at least 1"},
    {"", SCALE("\"backoff_factor\": 2"), "/precision/loss_scale/backoff_factor: at most 1"},
    {"", SCALE("\"growth_interval\": 0"), "/precision/loss_scale/growth_interval: more than 0"},
    {"", SCALE("\"growth_interval\": 3000000000"), "/precision/loss_scale/growth_interval: 32 bits"},
    {"", SCALE("\"minimum_scale\": -1"), "/precision/loss_scale/minimum_scale: more than 0"},
    {", \"dtype\": \"int8\"", "", "/model/layers/0/dtype: must be a floating-point dtype"},
    {", \"param_dtype\": \"float17\"", "", "/model/layers/0/param_dtype: unknown dtype"},
    {"", "\"metrics\": {\"s\": \"loss_scale\"}, ", "/metrics/s: loss_scale"},
};

START_TEST(refused)
{
    struct arena arena = {0};
    struct diags diags = {.arena = &arena};
    struct fe_options options = {0};
    const char *text = document(mistakes[_i].layer, mistakes[_i].more), *want = mistakes[_i].error,
               *colon = strstr(want, ": ");
    struct ir_module *m = fe_compile("precision.json", text, strlen(text), &options, &diags);
    struct fixture f = {.diags = diags};
    char *said = fixture_said(&f);
    ck_assert_msg(m == NULL && diags.errors == 1, "one error expected: %s\n%s", text, said);
    const struct diag *d = &diags.list.items[0];
    ck_assert_msg(d->pointer && strlen(d->pointer) == (size_t)(colon - want) &&
                      !strncmp(d->pointer, want, (size_t)(colon - want)) && strstr(d->message, colon + 2),
                  "expected %s\n%s", want, said);
    free(said);
    arena_free(&arena);
}
END_TEST

/* Parameters and the moments of the optimizer are stored as the document says, running statistics in float32. */
START_TEST(stored)
{
    static const struct {
        const char *layer, *more, *name;
        enum ir_dtype dtype;
    } slots[] = {
        {"", PRECISION("\"params\": \"bfloat16\""), "first.kernel", IR_BF16},
        {"", PRECISION("\"params\": \"bfloat16\""), "opt_state.0.nu.first.kernel", IR_BF16},
        {"", PRECISION("\"params\": \"bfloat16\""), "norm.scale", IR_BF16},
        {"", PRECISION("\"params\": \"bfloat16\""), "norm.mean", IR_F32},
        {"", PRECISION("\"compute\": \"bfloat16\""), "first.kernel", IR_F32},
        {", \"param_dtype\": \"float16\"", "", "first.bias", IR_F16},
        {", \"param_dtype\": \"float16\"", "", "norm.bias", IR_F32},
        {", \"param_dtype\": \"float32\"", PRECISION("\"params\": \"float16\""), "first.bias", IR_F32},
        {"", SCALE("\"scale\": 2"), "loss_scale.scale", IR_F32},
        {"", SCALE("\"scale\": 2"), "loss_scale.fin_steps", IR_I32},
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        struct arena arena = {0};
        struct diags diags = {.arena = &arena};
        struct fe_options options = {0};
        const char *text = document(slots[i].layer, slots[i].more);
        struct ir_module *m = fe_compile("precision.json", text, strlen(text), &options, &diags);
        ck_assert_msg(m != NULL, "refused: %s", text);
        int32_t at = ir_slot_find(m, slots[i].name);
        ck_assert_msg(at >= 0 && m->slots.items[at].type.dtype == slots[i].dtype, "%s", slots[i].name);
        ir_module_free(m);
        arena_free(&arena);
    }
}
END_TEST

/* What is weak, or an integer, takes the dtype of the parameters; a float32 input does not (nnx: result_type). */
START_TEST(weak_inputs)
{
    static const struct {
        const char *type, *input, *layer;
        enum ir_dtype dtype;
    } rows[] = {
        {"int32", "x / 255.0", "{\"type\": \"linear\", \"features\": 5}", IR_BF16},
        {"int32", "x * 1.0", "{\"type\": \"linear\", \"features\": 5}", IR_BF16},
        {"int32", "where(x > 0, 0.5, -0.5)", "{\"type\": \"linear\", \"features\": 5}", IR_BF16},
        {"int32", "x", "{\"type\": \"layer_norm\"}", IR_BF16},
        {"int32", "x > 0", "{\"type\": \"rms_norm\"}", IR_BF16},
        {"float32", "x", "{\"type\": \"linear\", \"features\": 5}", IR_F32},
        {"float32", "astype(x, 'bfloat16')", "{\"type\": \"linear\", \"features\": 5}", IR_BF16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena arena = {0};
        struct diags diags = {.arena = &arena};
        struct fe_options options = {0};
        const char *text = arena_format(
            &arena,
            "{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [4, 6], \"dtype\": \"%s\"}}, \"model\": {\"type\": "
            "\"sequential\", \"input\": \"x\", \"layers\": [{\"type\": \"expr\", \"expr\": \"%s\"}, %s]}, \"loss\": "
            "\"mean(model**2)\", \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1}, %s\"seed\": 1}",
            rows[i].type, rows[i].input, rows[i].layer, PRECISION("\"params\": \"bfloat16\""));
        struct ir_module *m = fe_compile("weak.json", text, strlen(text), &options, &diags);
        ck_assert_msg(m != NULL, "refused: %s", text);
        int32_t at = ir_slot_find(m, "model");
        ck_assert_msg(at >= 0 && m->slots.items[at].type.dtype == rows[i].dtype, "%s of %s: %s", rows[i].layer,
                      rows[i].input, ir_dtype_name((enum ir_dtype)m->slots.items[at].type.dtype));
        ir_module_free(m);
        arena_free(&arena);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, refused, 0, (int)(sizeof mistakes / sizeof *mistakes));
    tcase_add_test(tests, stored);
    tcase_add_test(tests, weak_inputs);
    return run_case("precision", tests);
}
