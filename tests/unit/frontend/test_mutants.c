/* Documents with mistakes put in by chance: each is accepted or gets a diagnostic, none crashes, hangs or ends in a
 * defect. Values are exchanged for other values, so that most mutants get past the JSON reader. */
#include "tests/unit/frontend/fe_test.h"

static const char seed[] =
    "{\"stepc\": 1, \"name\": \"m\", \"constants\": {\"hidden\": 6, \"heads\": \"$hidden//3\"},"
    "\"inputs\": {\"x\": {\"shape\": [8, 4], \"dtype\": \"float32\", \"axes\": [\"batch\", null]}, \"y\": {\"shape\": "
    "[8], \"dtype\": \"int32\", \"axes\": [\"batch\"]}},"
    "\"define\": {\"mlp\": {\"params\": {\"width\": 5}, \"body\": {\"type\": \"residual\", \"layers\": [{\"type\": "
    "\"layer_norm\"}, {\"type\": \"linear\", \"features\": \"$width\"}, "
    "{\"type\": \"gelu\"}, {\"type\": \"linear\", \"features\": \"$hidden\"}]}}},"
    "\"model\": {\"type\": \"graph\", \"nodes\": [{\"type\": \"linear\", \"name\": \"a\", \"input\": \"x\", "
    "\"features\": \"$hidden\", \"kernel_init\": {\"type\": \"zeros\"}}, "
    "{\"type\": \"repeat\", \"name\": \"r\", \"input\": \"a\", \"count\": 2, \"block\": {\"type\": \"mlp\", \"width\": "
    "7}}, "
    "{\"type\": \"expr\", \"name\": \"e\", \"input\": \"r\", \"expr\": \"where(x > 0, x, 0.1 * x)[:, ::1]\"}], "
    "\"output\": \"e + a\"},"
    "\"loss\": {\"type\": \"softmax_cross_entropy_with_integer_labels\", \"logits\": \"model\", \"labels\": \"y\", "
    "\"reduction\": \"mean\"},"
    "\"metrics\": {\"accuracy\": \"mean(argmax(model, axis=-1) == y)\", \"norm\": \"global_norm(grads)\"},"
    "\"optimizer\": {\"type\": \"chain\", \"transforms\": [{\"type\": \"clip_by_global_norm\", \"max_norm\": 1.0}, "
    "{\"type\": \"adamw\", \"learning_rate\": "
    "{\"type\": \"warmup_cosine_decay_schedule\", \"init_value\": 0, \"peak_value\": 0.1, \"warmup_steps\": 3, "
    "\"decay_steps\": 9}, \"mask\": [\"**.kernel\"]}]},"
    "\"trainable\": [\"**\"], \"ema\": {\"decay\": 0.9, \"only\": [\"**\"]}, \"accumulate\": {\"microbatch_size\": 4, "
    "\"accumulator\": \"mean\"},"
    "\"mesh\": {\"axes\": {\"data\": 2}}, \"sharding\": {\"rules\": [[\"batch\", \"data\"]], \"params\": {\"**\": "
    "[]}}, \"seed\": 7}";

static const char *const values[] = {"null",
                                     "true",
                                     "false",
                                     "0",
                                     "1",
                                     "-1",
                                     "2.5",
                                     "1e300",
                                     "1000000000000",
                                     "4294967296",
                                     "\"\"",
                                     "\"x\"",
                                     "\"y\"",
                                     "\"$\"",
                                     "\"$hidden\"",
                                     "\"$1/0\"",
                                     "\"$nope\"",
                                     "[]",
                                     "{}",
                                     "[[]]",
                                     "[1, 2]",
                                     "[null]",
                                     "{\"type\": \"linear\"}",
                                     "{\"type\": \"linear\", \"features\": 3}",
                                     "{\"type\": \"tanh\"}",
                                     "{\"type\": 1}",
                                     "{\"type\": \"mlp\"}",
                                     "{\"type\": \"adam\", \"learning_rate\": 1}",
                                     "\"mean(model)\"",
                                     "\"model[\"",
                                     "\"x +\"",
                                     "\"x @ x\"",
                                     "\"x[9]\"",
                                     "\"sum(x, axis=5)\"",
                                     "\"reshape(x, (3, 5))\"",
                                     "\"model\"",
                                     "\"params\"",
                                     "\"grads\"",
                                     "\"params.a.kernel\"",
                                     "\"((((((x))))))\"",
                                     "\"x if\"",
                                     "\"1 // 0\"",
                                     "\"x ** x\"",
                                     "\"einsum('ij,jk->ik', x, x)\"",
                                     "\"linear\"",
                                     "\"mlp\"",
                                     "\"sequential\"",
                                     "\"dropout\"",
                                     "\"multi_head_attention\"",
                                     "\"embed\"",
                                     "\"conv\"",
                                     "\"sgd\"",
                                     "\"lion\"",
                                     "\"chain\"",
                                     "\"multi_steps\"",
                                     "\"partition\"",
                                     "\"cosine_decay_schedule\"",
                                     "\"int32\"",
                                     "\"bfloat16\"",
                                     "\"**\"",
                                     "\"{a,b\"",
                                     "\"\\ud83d\\ude00\""};
enum { VALUES = sizeof values / sizeof *values };

static uint32_t state = 12345;
static uint32_t next_random(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* `text` with one value exchanged, one member or element left out, or one key renamed; in the arena. */
static const char *mutate(struct arena *arena, const char *text)
{
    struct json json;
    struct json_error error;
    struct str out = STR(arena);
    if (!json_scan(arena, text, strlen(text), NULL, &json, &error) || json.count < 2) return text;
    const struct json_value *v = &json.values[1 + next_random() % (json.count - 1)];
    uint32_t from = v->offset, to = v->offset + v->length;
    const char *with = values[next_random() % VALUES];
    uint32_t kind = next_random() % 8;
    if (kind == 0) { /* another value of the same document */
        const struct json_value *other = &json.values[next_random() % json.count];
        with = arena_string_n(arena, text + other->offset, other->length);
    } else if (kind == 1 && v->key) {
        from = v->key_offset, to = from + v->key_length;
        with = next_random() % 2 ? "\"oops\"" : "\"type\"";
    } else if (kind == 2 && text[to] == ',') {
        from = v->key ? v->key_offset : from;
        to++;
        with = "";
    }
    str_add_n(&out, text, from);
    str_add(&out, with);
    str_add(&out, text + to);
    return str_text(&out);
}

START_TEST(mutants)
{
    const char *more = getenv("STEPC_FUZZ_ROUNDS"), *start = getenv("STEPC_FUZZ_SEED");
    int accepted = 0, refused = 0, rounds = more ? atoi(more) : 1500;
    if (start) state = (uint32_t)strtoul(start, NULL, 10);
    for (int round = 0; round < rounds; round++) {
        struct arena arena = {0};
        const char *text = seed;
        for (uint32_t edits = round ? 1 + next_random() % 2 : 0; edits; edits--) text = mutate(&arena, text);
        struct diags diags = {.arena = &arena};
        struct fe_options options = {0};
        char *exact = malloc(strlen(text)); /* so that reading one byte too far is seen */
        memcpy(exact, text, strlen(text));
        struct ir_module *m = fe_compile("mutant.json", exact, strlen(text), &options, &diags);
        ck_assert_msg((m != NULL) == (diags.errors == 0), "%s", text);
        FILE *nowhere = fopen("/dev/null", "w");
        diags_print(&diags, nowhere, round % 2, false);
        fclose(nowhere);
        accepted += m != NULL;
        refused += m == NULL;
        if (round == 0) ck_assert_msg(m != NULL, "the seed itself: %s", diags.list.items[0].message);
        if (m) ir_module_free(m);
        free(exact);
        arena_free(&arena);
    }
    ck_assert_int_gt(accepted, rounds / 100);
    ck_assert_int_gt(refused, rounds / 3);
}
END_TEST

int main(void) { return run_case("mutants", CASE_OF(240, mutants)); }
