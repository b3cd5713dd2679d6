/* Examples of `stepc doc`: the entry with the arguments that are required, made from its own row; examples.def has
 * those of entries that need more. Every one is compiled by a test (tests/cli/doc.py). */
#include "frontend/cli/doc.h"
#include "frontend/expr/library.h"
#include "ir/base/json_tree.h"

#include <string.h>

#define INNER "{\"type\": \"trace\", \"decay\": 0.5}"
/* Arguments whose kind alone does not tell what they take; `row` NULL: of any row. */
/* clang-format off */
static const struct { const char *row, *name, *value; } samples[] = {
    {"chain", "transforms", "[" INNER "]"},
    {NULL, "transforms", "{\"label\": " INNER "}"},
    {NULL, "labels", "{\"**\": \"label\"}"},
    {NULL, "optimizers", "[{\"match\": [\"**\"], \"opt\": " INNER "}]"},
    {NULL, "eta_fn", "{\"**\": 1}"},
    {NULL, "measures", "{\"name\": \"global_norm(updates)\"}"},
    {NULL, "measure", "\"global_norm(updates)\""},
    {NULL, "f", "\"update\""},
    {NULL, "should_transform_fn", "\"step < 2\""},
    {NULL, "should_update_fn", "\"step < 2\""},
    {NULL, "every_k_schedule", "2"},
    {NULL, "learning_rate", "0.001"},
    {NULL, "decay_steps", "1000"},
    {NULL, "transition_steps", "100"},
    {NULL, "warmup_steps", "10"},
    {NULL, "init_value", "0.1"},
    {NULL, "end_value", "0.001"},
    {NULL, "peak_value", "0.1"},
    {NULL, "adv_optimizer", "{\"type\": \"sgd\", \"learning_rate\": 0.1}"},
    {"custom", "update", "{\"slot\": \"g\", \"g\": \"slot\"}"},
    {"custom", "slots", "{\"slot\": {}}"},
};
/* clang-format on */

const char *doc_sample(const char *row, const struct fe_arg *a)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if ((!samples[i].row || strcmp(samples[i].row, row) == 0) && strcmp(samples[i].name, a->name) == 0)
            return samples[i].value;
    switch (a->kind) {
    case FE_NUMBER:
    case FE_SCHEDULE: return "0.5";
    case FE_INTEGER: return "2";
    case FE_STRING: return "\"name\"";
    case FE_PATTERNS: return "[\"**\"]";
    case FE_OBJECT: return a->flags & FE_REQUIRED ? INNER : NULL;
    case FE_DTYPE: return "\"bfloat16\"";
    default: return NULL;
    }
}

const char *doc_minimal(struct arena *arena, const struct fe_row *row, const char *argument, const char *value)
{
    struct json_tree t = json_object(arena);
    json_add_text(t, "type", row->name);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct fe_arg *a = &row->args[i];
        bool slots = !strcmp(row->name, "custom") && !strcmp(a->name, "slots");
        const char *v = argument && !strcmp(argument, a->name) ? value
                        : a->flags & FE_REQUIRED || slots      ? doc_sample(row->name, a)
                                                               : NULL;
        if (v) json_add(t, a->name, json_raw(arena, v));
    }
    return json_print(t);
}

static const struct {
    const char *topic, *entry, *text;
} rows[] = {
#define EXAMPLE(topic, entry, text) {topic, entry, text},
#define ARGUMENT(name, text)
#include "frontend/cli/examples.def"
#undef EXAMPLE
#undef ARGUMENT
};

static const struct {
    const char *name, *text;
} arguments[] = {
#define ARGUMENT(name, text) {name, text},
#define EXAMPLE(topic, entry, text)
#include "frontend/cli/examples.def"
#undef ARGUMENT
#undef EXAMPLE
};

static const char *argument_text(const char *name)
{
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        if (!strcmp(arguments[i].name, name)) return arguments[i].text;
    return "x";
}

/* A call with the arguments that have no default. */
static const char *call(struct doc *d, const struct fe_function *f)
{
    struct str s = STR(d->arena);
    str_addf(&s, "%s(", f->name);
    const char *comma = "", *const *names = fe_signature_names(d->arena, f);
    const char *text = fe_signature_text(d->arena, f);
    for (; *names; names++) { /* "a, axis=None, *, dtype=None" */
        const char *at = text;
        size_t n = strlen(*names);
        while (at && (strncmp(at, *names, n) || (at[n] && at[n] != ',' && at[n] != '=')))
            at = strstr(at, ", "), at = at ? at + 2 : NULL;
        if (!at || at[n] == '=') continue;
        str_addf(&s, "%s%s", comma, argument_text(*names)), comma = ", ";
    }
    str_add(&s, ")");
    return str_text(&s);
}

const char *doc_example(struct doc *d, const struct doc_topic *t, uint32_t i)
{
    const char *name = t->entry_name(d, i);
    struct fe_row row;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].topic, t->name) && !strcmp(rows[k].entry, name)) return rows[k].text;
    const struct fe_function *f = t->row ? NULL : fe_function_find(d->library, name);
    if (f && (!strcmp(t->name, "losses") || !strcmp(t->name, "expressions"))) return call(d, f);
    bool typed = strcmp(t->name, "settings") != 0; /* which have no "type" */
    return typed && t->row && t->row(d, i, &row) ? doc_minimal(d->arena, &row, NULL, NULL) : NULL;
}
