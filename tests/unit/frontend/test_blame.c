/* Mistakes in optimizers and adapters that no single argument shows: what is said, and where. */
#include "tests/unit/frontend/fe_test.h"

#define SGD "{\"type\": \"sgd\", \"learning_rate\": 0.1}"
#define LABELS(map) "{\"type\": \"partition\", \"transforms\": {\"a\": " SGD ", \"b\": " SGD "}, \"labels\": " map "}"
#define RATE(schedule) "{\"type\": \"sgd\", \"learning_rate\": " schedule "}"

static char *document(const char *optimizer, const char *more)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [4, 6]}}, \"model\": {\"type\": \"sequential\", "
             "\"input\": \"x\", \"layers\": ["
             "{\"type\": \"linear\", \"name\": \"first\", \"features\": 5}, {\"type\": \"tanh\", \"name\": \"act\"}, "
             "{\"type\": \"linear_general\", \"name\": \"second\", \"features\": [2, 3]}]}, \"loss\": "
             "\"mean(model**2)\", %s\"optimizer\": %s}",
             more, optimizer);
    return text;
}

/* Every error is one of "pointer: part of the message". */
static const struct {
    const char *optimizer, *more, *errors[4];
} cases[] = {
    {LABELS("{\"**.kernel\": \"a\", \"**.bias\": \"c\"}"),
     "",
     {"/optimizer/labels/**.bias: label \"c\" has no transformation"}},
    {LABELS("{\"**.kernel\": \"a\", \"first.**\": \"b\"}"), "", {"/optimizer/labels: \"second.bias\" has no label"}},
    {LABELS("{\"**\": \"a\", \"frist.**\": \"b\"}"), "", {"/optimizer/labels/frist.**: matches no parameter"}},
    {LABELS("{\"**\": 1, \"first.**\": \"b\"}"), "", {"/optimizer/labels/**: a label must be a string"}},
    {"{\"type\": \"partition\", \"transforms\": {\"a\": " SGD "}, \"labels\": {\"**\": \"A\"}}",
     "",
     {"/optimizer/labels/**: label \"A\""}},
    {"{\"type\": \"multi_optimizer\", \"optimizers\": [{\"match\": [\"first.**\"], \"opt\": " SGD
     "}, {\"match\": [\"**.bias\"], \"opt\": " SGD "}]}",
     "",
     {"/optimizer/optimizers: \"first.bias\" is matched by two"}},
    {"{\"type\": \"multi_optimizer\", \"optimizers\": [{\"match\": [\"third\"], \"opt\": " SGD "}]}",
     "",
     {"/optimizer/optimizers/0/match/0: matches no parameter"}},
    {"{\"type\": \"multi_optimizer\", \"optimizers\": [{\"match\": [\"**\"], \"opts\": " SGD "}]}",
     "",
     {"/optimizer/optimizers/0/opts: unknown key"}},
    {"{\"type\": \"adamw\", \"learning_rate\": 1, \"b1\": 1, \"b2\": -0.1, \"eps\": -1}",
     "",
     {"/optimizer/b1: at least 0 and less than 1", "/optimizer/b2: at least 0 and less than 1",
      "/optimizer/eps: at least 0"}},
    {"{\"type\": \"adamw\", \"learning_rate\": 0.1, \"maks\": [\"**\"]}", "", {"/optimizer/maks: unknown key"}},
    {"{\"type\": \"lookahead\", \"fast_optimizer\": {\"type\": \"momo\"}, \"sync_period\": 2, \"slow_step_size\": 0.5}",
     "",
     {"/optimizer/fast_optimizer: needs the value of the loss"}},
    {"{\"type\": \"sam\", \"optimizer\": " SGD
     ", \"adv_optimizer\": {\"type\": \"chain\", \"transforms\": [{\"type\": \"reduce_on_plateau\"}]}}",
     "",
     {"/optimizer/adv_optimizer/transforms/0: which \"sam\" does not hand on"}},
    {"{\"type\": \"split_real_and_imaginary\", \"inner\": {\"type\": \"lbfgs\"}}",
     "",
     {"/optimizer/inner: needs the value"}},
    {"{\"type\": \"reduce_on_plateau\", \"rtol\": 0}", "", {"/optimizer/rtol: must be more than 0"}},
    {"{\"type\": \"prodigy\", \"betas\": [0.9]}", "", {"/optimizer/betas: two numbers"}},
    {"{\"type\": \"rprop\", \"learning_rate\": 0.1, \"min_step_size\": 1, \"max_step_size\": 0.5}",
     "",
     {"/optimizer/min_step_size: larger than"}},
    {"{\"type\": \"inject_hyperparams\", \"opt\": " SGD ", \"static_args\": [\"lerning_rate\"]}",
     "",
     {"/optimizer/static_args/0: names arguments"}},
    {"{\"type\": \"multi_steps\", \"every_k_schedule\": 0, \"opt\": {\"type\": \"masked\", \"mask\": [\"x\"], "
     "\"inner\": {\"type\": \"adam\"}}}",
     "",
     {"/optimizer/every_k_schedule: at least 1", "/optimizer/opt/inner: needs \"learning_rate\""}},
    {RATE("{\"type\": \"join_schedules\", \"schedules\": [{\"type\": \"constant_schedule\", \"value\": 1}, {\"type\": "
          "\"constant_schedule\", \"value\": 1}, "
          "{\"type\": \"constant_schedule\", \"value\": 1}], \"boundaries\": [5, 3]}"),
     "",
     {"/optimizer/learning_rate/boundaries/1: ascending"}},
    {RATE("{\"type\": \"piecewise_constant_schedule\", \"init_value\": 1, \"boundaries_and_scales\": {\"-1\": 0.5, "
          "\"x\": 1, \"3\": -1}}"),
     "",
     {"/optimizer/learning_rate/boundaries_and_scales/-1: negative",
      "/optimizer/learning_rate/boundaries_and_scales/x: step number",
      "/optimizer/learning_rate/boundaries_and_scales/3: negative"}},
    {RATE("{\"type\": \"linear_onecycle_schedule\", \"transition_steps\": 9, \"peak_value\": 1, \"pct_start\": 0.9}"),
     "",
     {"/optimizer/learning_rate/pct_start: pct_final"}},
    {RATE("{\"type\": \"warmup_cosine_decay_schedule\", \"init_value\": 0, \"peak_value\": 1, \"warmup_steps\": 9, "
          "\"decay_steps\": 9}"),
     "",
     {"/optimizer/learning_rate/decay_steps: greater than warmup_steps"}},
    {RATE("{\"type\": \"sgdr_schedule\", \"cosine_kwargs\": [{\"init_value\": 0, \"peek_value\": 1, \"warmup_steps\": "
          "1, \"decay_steps\": 3}]}"),
     "",
     {"/optimizer/learning_rate/cosine_kwargs/0/peek_value: unknown key"}},
    {SGD,
     "\"ema\": {\"decay\": -1}, \"trainable\": [\"frist.*\"], ",
     {"/ema/decay: between 0 and 1", "/trainable/0: matches no parameter"}},
    /* adapters */
    {SGD,
     "\"adapters\": [{\"type\": \"lora\", \"rank\": 0, \"match\": [\"**\"]}], ",
     {"/adapters/0/rank: more than 0"}},
    {SGD, "\"adapters\": [{\"type\": \"lora\", \"match\": [\"**\"]}], ", {"/adapters/0: needs \"rank\""}},
    {SGD, "\"adapters\": [{\"type\": \"lora\", \"rank\": 2}], ", {"/adapters/0: needs \"match\""}},
    {SGD, "\"adapters\": [{\"type\": \"lora\", \"rank\": 2, \"match\": []}], ", {"/adapters/0/match: needs a pattern"}},
    {SGD,
     "\"adapters\": [{\"type\": \"lora\", \"rank\": 2, \"match\": [\"**\"], \"beta\": 1}], ",
     {"/adapters/0/beta: unknown key"}},
    {SGD,
     "\"adapters\": [{\"type\": \"lara\", \"rank\": 2, \"match\": [\"**\"]}], ",
     {"/adapters/0/type: unknown adapter type"}},
    {SGD, "\"adapters\": [7], ", {"/adapters/0: an adapter is an object"}},
    {SGD, "\"adapters\": {\"type\": \"lora\"}, ", {"/adapters: must be an array"}},
    {SGD,
     "\"adapters\": [{\"type\": \"lora\", \"rank\": 2, \"match\": [\"act\", \"frist\", \"first.kernel\", 3]}], ",
     {"/adapters/0/match/3: a pattern"}},
    {SGD,
     "\"adapters\": [{\"type\": \"lora\", \"rank\": 2, \"match\": [\"act\", \"frist\", \"first.kernel\"]}], ",
     {"/adapters/0/match/0: matches no linear layer", "/adapters/0/match/1: matches no linear layer",
      "/adapters/0/match/2: matches no linear layer"}},
    {SGD,
     "\"adapters\": [{\"type\": \"lora\", \"rank\": 2, \"match\": [\"first\"]}, {\"type\": \"lora\", \"rank\": 1, "
     "\"match\": [\"second\", \"**\"]}], ",
     {"/adapters/1/match/1: \"first\" has an adapter already"}},
    {SGD,
     "\"adapters\": [{\"type\": \"lora\", \"rank\": 2, \"match\": [\"**\"], \"a_initializer\": {\"type\": "
     "\"he_unifrom\"}}], ",
     {"/adapters/0/a_initializer/type: he_unifrom"}},
    {SGD, "\"trainable\": [\"@lora\"], ", {"/trainable/0: matches no parameter"}},
};

START_TEST(blame)
{
    struct arena arena = {0};
    struct diags diags = {.arena = &arena};
    struct fe_options options = {0};
    const char *text = document(cases[_i].optimizer, cases[_i].more);
    struct ir_module *m = fe_compile("blame.json", text, strlen(text), &options, &diags);
    size_t wanted = 0;
    ck_assert_msg(m == NULL, "accepted: %s", text);
    struct fixture f = {.diags = diags};
    char *said = fixture_said(&f);
    while (wanted < 4 && cases[_i].errors[wanted]) {
        const char *want = cases[_i].errors[wanted], *colon = strstr(want, ": ");
        bool found = false;
        for (size_t i = 0; i < diags.list.count; i++) {
            const struct diag *d = &diags.list.items[i];
            found |= d->pointer && strlen(d->pointer) == (size_t)(colon - want) &&
                     !strncmp(d->pointer, want, (size_t)(colon - want)) && strstr(d->message, colon + 2);
        }
        ck_assert_msg(found, "\"%s\" expected: %s\n%s", want, text, said);
        wanted++;
    }
    ck_assert_msg(diags.errors == wanted, "%zu errors expected: %s\n%s", wanted, text, said);
    free(said);
    arena_free(&arena);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, blame, 0, (int)(sizeof cases / sizeof *cases));
    return run_case("blame", tests);
}
