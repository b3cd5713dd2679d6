/* Every argument of every optimizer, schedule and layer, from their tables: left out, misspelt, of each wrong kind, out
 * of its range, and huge. A document with one such mistake is refused at the place of the mistake, by the name of what
 * was meant; one with a strange but legal value may be accepted, and nothing crashes. */
#include "frontend/losses/losses.h"
#include "frontend/optim/optim.h"
#include "tests/unit/suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands around the object under test, and where. */
struct subject {
    const char *what;    /* for messages */
    const char *pointer; /* of the object */
    const char *before, *after;
    const char *type;
    const struct fe_arg *args;
    uint32_t count;
    const char *more; /* further members, each with a comma before it */
};

#define HEAD \
    "{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [4, 6, 6]}, \"t\": {\"shape\": [4, 6], \"dtype\": \"int32\"}}, "
#define PLAIN_MODEL \
    "\"model\": {\"type\": \"linear\", \"features\": 3, \"use_bias\": false, \"input\": \"x\"}, \"loss\": " \
    "\"mean(model**2)\", "
#define SGD "{\"type\": \"sgd\", \"learning_rate\": 0.1}"

/* A valid value where the kind alone does not tell one. */
static const struct {
    const char *type, *name, *value;
} special[] = {
    {NULL, "transforms", "[" SGD "]"},
    {"named_chain", "transforms", "{\"a\": " SGD "}"},
    {"partition", "transforms", "{\"a\": " SGD "}"},
    {"multi_transform", "transforms", "{\"a\": " SGD "}"},
    {NULL, "labels", "{\"**\": \"a\"}"},
    {"multi_optimizer", "optimizers", "[{\"match\": [\"**\"], \"opt\": " SGD "}]"},
    {NULL, "eta_fn", "{\"**\": 1}"},
    {NULL, "every_k_schedule", "2"},
    {NULL, "measures", "{\"m\": \"global_norm(updates)\"}"},
    {"custom", "update", "{\"g\": \"-0.1 * g\"}"},
    {"stateless", "f", "\"update\""},
    {"stateless_with_tree_map", "f", "\"update\""},
    {"snapshot", "measure", "\"global_norm(updates)\""},
    {"snapshot", "measure_name", "\"m\""},
    {NULL, "should_transform_fn", "\"step < 2\""},
    {NULL, "should_update_fn", "\"step < 2\""},
    {NULL, "mask", "[\"kernel\"]"},
    {NULL, "freeze_mask", "[\"kernel\"]"},
    {NULL, "schedules", "[{\"type\": \"constant_schedule\", \"value\": 1}]"},
    {NULL, "boundaries", "[]"},
    {NULL, "decay_steps", "9"},
    {NULL, "cosine_kwargs", "[{\"init_value\": 0, \"peak_value\": 1, \"warmup_steps\": 1, \"decay_steps\": 3}]"},
    {NULL, "einsum_str", "\"abc,cd->abd\""},
    {NULL, "kernel_shape", "[6, 2]"},
    {NULL, "cell", "{\"type\": \"lstm_cell\", \"hidden_features\": 2}"},
    {NULL, "forward_rnn", "{\"type\": \"rnn\", \"cell\": {\"type\": \"gru_cell\", \"hidden_features\": 2}}"},
    {NULL, "backward_rnn", "{\"type\": \"rnn\", \"cell\": {\"type\": \"gru_cell\", \"hidden_features\": 2}}"},
    {"linear_general", "features", "2"},
    {NULL, "kernel_size", "[3]"},
    {NULL, "embedding", "\"layers.0\""},
    {NULL, "window_shape", "[2]"},
    {NULL, "num_groups", "3"},
    {NULL, "num_embeddings", "7"},
    {NULL, "base_module", "{\"type\": \"linear\", \"features\": 2}"},
    {NULL, "layer_instance", "{\"type\": \"linear\", \"features\": 2}"},
    {"conv", "features", "2"},
    {"conv_transpose", "features", "2"}};

/* Required, or only valid with a value that fits the input. */
static bool needed(const struct subject *s, const struct fe_arg *a)
{
    return a->flags & FE_REQUIRED || (!strcmp(s->type, "lora") && !strcmp(a->name, "features")) ||
           (!strcmp(s->type, "group_norm") && !strcmp(a->name, "num_groups"));
}

static const char *valid_value(const struct subject *s, const struct fe_arg *a)
{
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (!strcmp(special[i].name, a->name) && special[i].type && !strcmp(special[i].type, s->type))
            return special[i].value;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (!strcmp(special[i].name, a->name) && !special[i].type) return special[i].value;
    switch (a->kind) {
    case FE_NUMBER:
    case FE_SCHEDULE: return "0.5";
    case FE_INTEGER: return "2";
    case FE_OBJECT: return SGD;
    case FE_EXPR: return "\"x\"";
    case FE_PATTERNS: return "[\"**\"]";
    case FE_ENUM: return NULL;
    default: return "{}";
    }
}

/* The object with its required arguments, but for number `without`, and `extra` at the end. */
static const char *object(struct arena *arena, const struct subject *s, uint32_t without, const char *extra)
{
    struct str out = STR(arena);
    str_addf(&out, "%s{\"type\": \"%s\"%s", s->before, s->type, s->more);
    for (uint32_t i = 0; i < s->count; i++) {
        if (i == without || !needed(s, &s->args[i])) continue;
        const char *value = valid_value(s, &s->args[i]);
        if (value) str_addf(&out, ", \"%s\": %s", s->args[i].name, value);
        else
            str_addf(&out, ", \"%s\": \"%.*s\"", s->args[i].name, (int)strcspn(s->args[i].choices, "|"),
                     s->args[i].choices);
    }
    str_addf(&out, "%s}%s", extra, s->after);
    return str_text(&out);
}

static const char *said(const struct diags *diags)
{
    char *text = NULL;
    const char *kept;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    diags_print(diags, file, false, false);
    fclose(file);
    kept = arena_string(diags->arena, text);
    free(text);
    return kept;
}

static void run(const char *text, struct arena *arena, struct diags *diags)
{
    struct fe_options options = {0};
    *diags = (struct diags){.arena = arena};
    struct ir_module *m = fe_compile("arguments.json", text, strlen(text), &options, diags);
    ck_assert_msg((m != NULL) == (diags->errors == 0), "%s", text);
    if (m) ir_module_free(m);
}

static int failures; /* all are told, not only the first */

__attribute__((format(printf, 2, 3))) static void expect(bool condition, const char *format, ...)
{
    va_list list;
    if (condition) return;
    failures++;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
}

/* The document is refused: an error at or below `pointer` that names `names`. */
static void refused(const char *text, struct arena *arena, const char *pointer, const char *names)
{
    struct diags diags;
    run(text, arena, &diags);
    const char *all = said(&diags);
    expect(diags.errors > 0, "accepted: %s", text);
    expect(diags.errors < 4, "one mistake, %zu errors: %s\n%s", diags.errors, text, all);
    bool found = false;
    for (size_t i = 0; i < diags.list.count; i++) {
        const struct diag *d = &diags.list.items[i];
        found |= d->pointer && !strncmp(d->pointer, pointer, strlen(pointer)) && d->span.length &&
                 (strstr(d->message, names) || (d->label && strstr(d->label, names)));
    }
    expect(found || !diags.errors, "\"%s\" at %s expected: %s\n%s", names, pointer, text, all);
    arena_free(arena);
}

/* Whatever is said, nothing breaks. */
static void survives(const char *text, struct arena *arena)
{
    struct diags diags;
    run(text, arena, &diags);
    said(&diags);
    arena_free(arena);
}

/* ---------------------------------------------------------------- mistakes */

static void leave_out(const struct subject *s)
{
    struct arena arena = {0};
    for (uint32_t i = 0; i < s->count; i++)
        if (s->args[i].flags & FE_REQUIRED) refused(object(&arena, s, i, ""), &arena, s->pointer, s->args[i].name);
}

/* One letter twice. */
static void misspell(const struct subject *s)
{
    struct arena arena = {0};
    for (uint32_t i = 0; i < s->count; i++) {
        const char *name = s->args[i].name;
        const char *slip = arena_format(&arena, "%s%c", name, name[strlen(name) - 1]);
        const char *pointer = arena_format(&arena, "%s/%s", s->pointer, slip);
        const char *value = valid_value(s, &s->args[i]);
        char label[128];
        snprintf(label, sizeof label, "\"%s\"", name);
        refused(object(&arena, s, i, arena_format(&arena, ", \"%s\": %s", slip, value ? value : "1")), &arena, pointer,
                label);
    }
}

enum {
    A_NULL = 1,
    A_BOOL = 2,
    A_INTEGER = 4,
    A_FRACTION = 8,
    A_STRING = 16,
    A_ARRAY = 32,
    A_OBJECT = 64,
    A_DOLLAR = 128
};
static const struct {
    uint32_t kind;
    const char *value;
} kinds[] = {{A_NULL, "null"},
             {A_BOOL, "true"},
             {A_INTEGER, "1"},
             {A_FRACTION, "0.25"},
             {A_STRING, "\"none such\""},
             {A_ARRAY, "[[]]"},
             {A_OBJECT, "{\"no\": 1}"},
             {A_DOLLAR, "\"$2*\""}};

/* The kinds of JSON that an argument may take, whatever the value. */
static uint32_t taken(const struct fe_arg *a)
{
    static const uint32_t by_kind[] = {[FE_NUMBER] = A_INTEGER | A_FRACTION,
                                       [FE_INTEGER] = A_INTEGER,
                                       [FE_BOOL] = A_BOOL,
                                       [FE_STRING] = A_STRING | A_DOLLAR,
                                       [FE_ENUM] = 0,
                                       [FE_SCHEDULE] = A_INTEGER | A_FRACTION,
                                       [FE_EXPR] = A_BOOL | A_INTEGER | A_FRACTION,
                                       [FE_DTYPE] = 0,
                                       [FE_SHAPE] = A_INTEGER,
                                       [FE_NUMBERS] = A_INTEGER | A_FRACTION,
                                       [FE_OBJECT] = 0,
                                       [FE_LIST] = 0,
                                       [FE_PATTERNS] = 0,
                                       [FE_MAP] = 0,
                                       [FE_ANY] = UINT32_MAX};
    bool free = !strcmp(a->name, "measures"); /* any name, and a number is an expression */
    return by_kind[a->kind] | (a->flags & FE_NULLABLE ? A_NULL : 0) | (free ? A_OBJECT : 0);
}

static void wrong_kinds(const struct subject *s)
{
    struct arena arena = {0};
    for (uint32_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const char *text = object(&arena, s, i,
                                      arena_format(&arena, ", \"%s\": %s", s->args[i].name, kinds[k].value));
            const char *pointer = arena_format(&arena, "%s/%s", s->pointer, s->args[i].name);
            if (taken(&s->args[i]) & kinds[k].kind) survives(text, &arena);
            else refused(text, &arena, pointer, "");
        }
}

static void ranges(const struct subject *s)
{
    static const double values[] = {-1, -1e-3, 0, 1, 1.5, 2};
    struct arena arena = {0};
    for (uint32_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            uint32_t flags = s->args[i].flags;
            double x = values[k];
            bool integer = s->args[i].kind == FE_INTEGER || s->args[i].kind == FE_SHAPE;
            bool in = !(flags & FE_POSITIVE && x <= 0) && !(flags & FE_NOT_NEGATIVE && x < 0) &&
                      !(flags & FE_UNIT && (x < 0 || x >= 1)) && !(flags & FE_UNIT_CLOSED && (x < 0 || x > 1));
            if (in || (integer && x != (double)(int64_t)x)) continue;
            const char *value = arena_format(&arena, s->args[i].kind == FE_NUMBERS ? "[0.5, %g]" : "%g", x);
            const char *pointer = arena_format(&arena, "%s/%s", s->pointer, s->args[i].name);
            refused(object(&arena, s, i, arena_format(&arena, ", \"%s\": %s", s->args[i].name, value)), &arena, pointer,
                    s->args[i].name);
        }
}

static void extremes(const struct subject *s)
{
    static const char *const values[] = {"1e300",
                                         "-1e300",
                                         "1e-300",
                                         "9007199254740991",
                                         "-9007199254740991",
                                         "4294967296",
                                         "0",
                                         "-1",
                                         "\"$1/0\"",
                                         "\"\"",
                                         "[]",
                                         "{}",
                                         "[0]",
                                         "[-1]",
                                         "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
                                         "\"x\"",
                                         "{\"type\": \"constant_schedule\", \"value\": 1}"};
    struct arena arena = {0};
    for (uint32_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            survives(object(&arena, s, i, arena_format(&arena, ", \"%s\": %s", s->args[i].name, values[k])), &arena);
}

static void all_mistakes(const struct subject *s)
{
    struct arena arena = {0};
    struct diags diags;
    run(object(&arena, s, UINT32_MAX, ""), &arena, &diags);
    expect(diags.errors == 0, "%s: %s", s->what, said(&diags));
    arena_free(&arena);
    leave_out(s);
    misspell(s);
    wrong_kinds(s);
    ranges(s);
    extremes(s);
}

/* ---------------------------------------------------------------- subjects */

START_TEST(optimizers)
{
    uint32_t count;
    const struct optim_row *rows = optim_rows(&count);
    for (uint32_t i = 0; i < count; i++) {
        struct subject s = {.what = rows[i].name,
                            .pointer = "/optimizer",
                            .before = HEAD PLAIN_MODEL "\"optimizer\": ",
                            .after = "}",
                            .type = rows[i].name,
                            .args = rows[i].args,
                            .count = rows[i].count,
                            .more = ""};
        if (!strncmp(s.type, "per_example_", strlen("per_example_"))) {
            s.pointer = "/per_example/transform/0";
            s.before = HEAD PLAIN_MODEL "\"optimizer\": " SGD ", \"per_example\": {\"transform\": [";
            s.after = "]}}";
        }
        all_mistakes(&s);
    }
    ck_assert_int_eq(failures, 0);
}
END_TEST

START_TEST(schedules)
{
    struct fe_row row;
    for (uint32_t i = 0; fe_schedule_row(i, &row); i++) {
        struct subject s = {.what = row.name,
                            .pointer = "/optimizer/learning_rate",
                            .before = HEAD PLAIN_MODEL "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": ",
                            .after = "}}",
                            .type = row.name,
                            .args = row.args,
                            .count = row.count,
                            .more = ""};
        all_mistakes(&s);
    }
    ck_assert_int_eq(failures, 0);
}
END_TEST

START_TEST(layers)
{
    struct fe_row row;
    for (uint32_t i = 0; fe_layer_row(i, &row); i++) {
        bool embed = !strcmp(row.name, "embed"), attend = !strcmp(row.name, "attend");
        struct subject s = {.what = row.name,
                            .pointer = "/model/layers/1",
                            .before = HEAD "\"model\": {\"type\": \"sequential\", \"layers\": [{\"type\": \"linear\", "
                                           "\"features\": 6, \"input\": \"x\"}, ",
                            .after = "]}, \"loss\": \"mean(model**2)\", \"optimizer\": " SGD "}",
                            .type = row.name,
                            .args = row.args,
                            .count = row.count,
                            .more = embed ? ", \"input\": \"t\"" : ""};
        if (strstr(row.name, "_cell"))
            s.after = "]}, \"loss\": \"mean(model[1]**2)\", \"optimizer\": " SGD "}"; /* (carry, output) */
        if (!strcmp(row.name, "noise"))                                               /* which hands on no gradient */
            s.after = "]}, \"loss\": \"mean(model) + mean(params.layers.0.kernel)\", \"optimizer\": " SGD "}";
        if (attend)
            s.before = HEAD "\"model\": {\"type\": \"sequential\", \"layers\": [{\"type\": \"embed\", "
                            "\"num_embeddings\": 5, \"features\": 6, \"input\": \"t\"}, ";
        all_mistakes(&s);
    }
    ck_assert_int_eq(failures, 0);
}
END_TEST

START_TEST(initializers)
{
    struct arena arena = {0};
    struct fe_row row;
    for (uint32_t i = 0; fe_initializer_row(&arena, i, &row); i++) {
        struct subject s = {.what = row.name,
                            .pointer = "/model/kernel_init",
                            .before = HEAD "\"model\": {\"type\": \"conv\", \"kernel_size\": [3], \"features\": 8, "
                                           "\"input\": \"x\", \"kernel_init\": ",
                            .after = "}, \"loss\": \"mean(model**2)\", \"optimizer\": " SGD "}",
                            .type = row.name,
                            .args = row.args,
                            .count = row.count,
                            .more = ""};
        all_mistakes(&s);
    }
    ck_assert_int_eq(failures, 0);
    arena_free(&arena);
}
END_TEST

/* ---------------------------------------------------------------- losses: each argument is an expression */

/* A loss object whose required arguments are all `value`, but for number `without`, and `extra` at the end. */
static const char *loss_object(struct arena *arena, const char *type, const char *signature, uint32_t without,
                               const char *value, const char *extra)
{
    struct str out = STR(arena);
    uint32_t i = 0;
    str_addf(&out,
             HEAD "\"model\": {\"type\": \"linear\", \"features\": 3, \"input\": \"x\"}, \"optimizer\": " SGD
                  ", \"loss\": {\"type\": \"%s\"",
             type);
    struct fe_parameter p;
    for (const char *at = signature; (at = fe_parameter_next(at, &p)); i++)
        if (i != without && !p.preset) str_addf(&out, ", \"%.*s\": %s", (int)p.length, p.name, value);
    str_addf(&out, "%s}}", extra);
    return str_text(&out);
}

START_TEST(losses)
{
    static const char *const values[] = {"null",       "true",        "[]",          "{}",    "{\"type\": \"x\"}",
                                         "1e300",      "\"\"",        "\"x[9, 9]\"", "\"t\"", "\"model\"",
                                         "\"params\"", "\"nothing\"", "-1"};
    struct arena arena = {0}, kept = {0};
    const struct fe_library *library = fe_library_open(&kept, &fe_losses);
    size_t count;
    const char *const *names = fe_function_names(library, FE_LOSS, &count);
    ck_assert_uint_ge(count, 30);
    for (size_t r = 0; r < count; r++) {
        const char *signature = fe_function_find(library, names[r])->signature;
        struct fe_parameter p;
        uint32_t i = 0;
        for (const char *at = signature; (at = fe_parameter_next(at, &p)); i++) {
            char name[64], quoted[70];
            snprintf(name, sizeof name, "%.*s", (int)p.length, p.name);
            snprintf(quoted, sizeof quoted, "\"%s\"", name);
            const char *slip = arena_format(&arena, "%s%c", name, name[strlen(name) - 1]),
                       *pointer = arena_format(&arena, "/loss/%s", slip);
            refused(loss_object(&arena, names[r], signature, i, "\"model\"", arena_format(&arena, ", \"%s\": 1", slip)),
                    &arena, pointer, quoted);
            if (!p.preset) refused(loss_object(&arena, names[r], signature, i, "\"model\"", ""), &arena, "/loss", name);
            for (size_t v = 0; v < sizeof values / sizeof *values; v++)
                survives(loss_object(&arena, names[r], signature, i, "\"model\"",
                                     arena_format(&arena, ", \"%s\": %s", name, values[v])),
                         &arena);
        }
    }
    ck_assert_int_eq(failures, 0);
    arena_free(&kept);
}
END_TEST

int main(void) { return run_case("arguments", CASE_OF(240, optimizers, schedules, layers, initializers, losses)); }
