/* stepc doc optimizers. The state is that of the real thing: a small document with the optimizer is compiled and its
 * slots are listed; then each optional argument is changed in turn, to see what it does to the slots. */
#include "frontend/cli/doc.h"
#include "frontend/optim/optim.h"
#include "ir/base/json_tree.h"

#include <string.h>

/* clang-format off */
const char doc_optimizer_intro[] =
    "In formulas g is the update that comes in (the gradient at first), p the parameter, u the update that goes on; parameters\n"
    "become p + u. t counts updates from 1. Products and quotients are element by element. Where an argument is \"a number or a\n"
    "schedule\", an object of `stepc doc schedules` may stand; inside of `inject_hyperparams` any number may be one. Patterns\n"
    "choose the parameters that a mask is true for.\n\n"
    "Lines in a frame are the formula that runs. `slots` are state: one like each parameter, one number for each (`scalar`) or one\n"
    "for all (`once`), in the parameter's dtype, the one that is named, that of an argument (null: the parameter's), the\n"
    "`narrowest` or `widest` of all parameters, or what `zeros` of an argument's dtype become beside them. They begin as 0, as the\n"
    "number behind `=`, or as the parameter p; the path is another name after `as`. `chain` runs other transformations, with the\n"
    "arguments of this one and their states from a number on. `name = ...` names a value, `slot <- ...` gives\n"
    "a slot its next value and `g <- ...` is the update that goes on; all lines see g and the slots as they were before the step.\n"
    "What mentions g, p, rank (the number of dimensions) or a slot of each parameter has a value per parameter, anything else one\n"
    "for all; `tree_sum(x)` and `tree_dot(x, y)` add all elements of all parameters. `value` is the loss. Arithmetic among numbers\n"
    "is done in double and rounded where it meets a tensor; adding the number 0 and multiplying by 1 do nothing. A schedule is\n"
    "called with a count. `a if c else b` chooses while compiling, by flags, words and None ('schedule': the argument is one);\n"
    "`where(c, a, b)` chooses by values. `like(x, y)` is x in the dtype of y, `increment(n)` is n + 1 as long as that is an int32.\n\n"
    "State has the path `opt_state.<slot>`; `<path>` is that of the parameter. Shapes are those for a matrix of shape [n, m] and\n"
    "a vector of shape [m]; slots without `<path>` are there once. `inner`, `opt` and the like are a `trace` here, to show where\n"
    "their state is.\n";
/* clang-format on */

const char *doc_optimizer_name(struct doc *d, uint32_t i)
{
    uint32_t count;
    const struct optim_row *rows = optim_rows(&count);
    (void)d;
    return i < count ? rows[i].name : NULL;
}

bool doc_optimizer_row(struct doc *d, uint32_t i, struct fe_row *row)
{
    uint32_t count;
    const struct optim_row *r = optim_rows(&count);
    (void)d;
    if (i < count) *row = (struct fe_row){r[i].name, r[i].args, r[i].count, r[i].doc};
    return i < count;
}

/* ---------------------------------------------------------------- probes */

/* Where a row is tried: with a matrix and a vector; some refuse vectors; some are for the gradients of single examples.
 */
enum trial { USUAL, NO_VECTOR, PER_EXAMPLE, TRIALS };

/* The document of a probe: a linear layer and the optimizer with its required arguments and one more (NULL: none). */
static const char *probe_text(struct arena *arena, const struct optim_row *row, const char *argument, const char *value,
                              enum trial trial)
{
    static const char document[] =
        "{\"stepc\": 1, \"name\": \"probe\", \"inputs\": {\"x\": {\"shape\": [4, 256], \"axes\": [\"batch\", null]}}, "
        "\"model\": {\"type\": \"linear\", \"input\": \"x\", \"features\": 384, \"use_bias\": %s}, "
        "\"loss\": \"mean(model**2)\", %s%s%s}";
    const struct fe_row plain = {row->name, row->args, row->count, row->doc};
    const char *minimal = doc_minimal(arena, &plain, argument, value);
    bool single = trial == PER_EXAMPLE;
    return arena_format(arena, document, trial == NO_VECTOR ? "false" : "true",
                        single ? "\"optimizer\": {\"type\": \"identity\"}, \"per_example\": {\"transform\": ["
                               : "\"optimizer\": ",
                        minimal, single ? "]}" : "");
}

/* ---------------------------------------------------------------- slots */

enum { ROWS = 256, COLUMNS = 384 };
enum place { ONCE, MATRIX, VECTOR, PLACES };
struct line {
    const char *stem; /* the path with <path> for the parameter's */
    const char *dtype, *shape[PLACES];
};
struct slots {
    bool good;
    VEC(struct line) lines;
};

static const char *shape_text(struct arena *arena, const struct ir_type *type)
{
    static const struct {
        int64_t extent;
        const char *text;
    } known[] = {{ROWS, "n"}, {COLUMNS, "m"}, {ROWS * COLUMNS, "n m"}, {ROWS * COLUMNS + COLUMNS, "all elements"}};
    struct str s = STR(arena);
    if (!type->rank) return "scalar";
    for (uint32_t i = 0; i < type->rank; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (known[k].extent == type->dim[i]) text = known[k].text;
        if (!text) text = arena_format(arena, "%lld", (long long)type->dim[i]);
        str_addf(&s, "%s%s", i ? ", " : "[", text);
    }
    str_add(&s, "]");
    return str_text(&s);
}

static void add_slot(struct arena *arena, struct slots *out, const struct ir_slot *slot)
{
    static const char *const ends[PLACES] = {"", ".kernel", ".bias"};
    const char *name = strncmp(slot->name, "opt_state.", 10) == 0 ? slot->name + 10 : slot->name;
    size_t n = strlen(name);
    enum place place = ONCE;
    for (enum place k = MATRIX; k < PLACES; k++)
        if (n > strlen(ends[k]) && strcmp(name + n - strlen(ends[k]), ends[k]) == 0) place = k;
    const char *stem = place ? arena_format(arena, "%.*s.<path>", (int)(n - strlen(ends[place])), name) : name;
    struct line *line = NULL;
    for (size_t i = 0; i < out->lines.count; i++)
        if (strcmp(out->lines.items[i].stem, stem) == 0) line = &out->lines.items[i];
    if (!line) {
        struct line new = {.stem = arena_string(arena, stem), .dtype = ir_dtype_name((enum ir_dtype)slot->type.dtype)};
        vec_push(arena, &out->lines, new);
        line = &out->lines.items[out->lines.count - 1];
    }
    line->shape[place] = shape_text(arena, &slot->type);
}

static struct slots compile(struct arena *arena, const char *text)
{
    static const struct fe_options options;
    struct diags diags = {.arena = arena};
    struct slots out = {0};
    struct ir_module *m = fe_compile("probe", text, strlen(text), &options, &diags);
    for (size_t i = 0; m && i < m->slots.count; i++)
        if (m->slots.items[i].role == IR_ROLE_OPT_STATE || m->slots.items[i].role == IR_ROLE_EMA)
            add_slot(arena, &out, &m->slots.items[i]);
    out.good = m != NULL;
    if (m) ir_module_free(m);
    return out;
}

static struct slots probe(struct arena *arena, const struct optim_row *row, const char *argument, const char *value)
{
    struct slots s = {0};
    for (enum trial k = USUAL; k < TRIALS && !s.good; k++)
        s = compile(arena, probe_text(arena, row, argument, value, k));
    return s;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool same_line(const struct line *a, const struct line *b)
{
    bool same = strcmp(a->stem, b->stem) == 0 && strcmp(a->dtype, b->dtype) == 0;
    for (int i = 0; i < PLACES; i++) same = same && same_text(a->shape[i], b->shape[i]);
    return same;
}

static bool has_line(const struct slots *s, const struct line *line)
{
    for (size_t i = 0; i < s->lines.count; i++)
        if (same_line(&s->lines.items[i], line)) return true;
    return false;
}

/* ---------------------------------------------------------------- the text */

static const char *or_none(const char *text) { return text ? text : "-"; }

static void add_lines(struct doc *d, const struct slots *s)
{
    if (!s->good) {
        str_add(&d->out, "State: depends on the arguments.\n\n");
        return;
    }
    if (!s->lines.count) {
        str_add(&d->out, "No state.\n\n");
        return;
    }
    str_add(&d->out, "| slot | dtype | once | of a matrix [n, m] | of a vector [m] |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < s->lines.count; i++) {
        const struct line *l = &s->lines.items[i];
        str_addf(&d->out, "| `%s` | %s | %s | %s | %s |\n", l->stem, l->dtype, or_none(l->shape[ONCE]),
                 or_none(l->shape[MATRIX]), or_none(l->shape[VECTOR]));
    }
    str_add(&d->out, "\n");
}

/* What an argument changes: slots that come or are of another type, and slots that go. */
static void add_change(struct doc *d, const char *argument, const char *value, const struct slots *before,
                       const struct slots *after)
{
    struct str s = STR(d->arena);
    for (size_t i = 0; i < after->lines.count; i++) {
        const struct line *l = &after->lines.items[i];
        if (has_line(before, l)) continue;
        str_addf(&s, "%s`%s` %s", s.length ? ", " : " ", l->stem, l->dtype);
        for (int k = 0; k < PLACES; k++)
            if (l->shape[k]) str_addf(&s, " %s", l->shape[k]);
    }
    bool gone = false;
    for (size_t i = 0; i < before->lines.count; i++) {
        bool kept = false;
        for (size_t k = 0; k < after->lines.count; k++)
            kept |= strcmp(before->lines.items[i].stem, after->lines.items[k].stem) == 0;
        if (!kept)
            str_addf(&s, "%s`%s`",
                     gone       ? ", "
                     : s.length ? "; without "
                                : " without ",
                     before->lines.items[i].stem),
                gone = true;
    }
    if (s.length) str_addf(&d->out, "With `\"%s\": %s`:%s.\n\n", argument, value, str_text(&s));
}

#define SCHEDULE "{\"type\": \"constant_schedule\", \"value\": 0.5}"
/* Other values of an optional argument that may change the state, at most `room`. */
static uint32_t others(struct arena *arena, const struct optim_row *row, const struct fe_arg *a, const char **out,
                       uint32_t room)
{
    uint32_t n = 0;
    if (a->kind == FE_BOOL) out[n++] = strcmp(a->preset, "true") == 0 ? "false" : "true";
    else if (a->kind == FE_SCHEDULE) out[n++] = SCHEDULE;
    else if (a->kind == FE_ENUM) {
        n = (uint32_t)str_choices(arena, a->choices, out, room);
        for (uint32_t i = 0; i < n; i++) out[i] = arena_format(arena, "\"%s\"", out[i]);
    } else if (a->flags & FE_NULLABLE || a->kind == FE_DTYPE) {
        out[n] = doc_sample(row->name, a);
        n += out[n] != NULL;
    }
    return n;
}

static void add_state(struct doc *d, const struct optim_row *row)
{
    enum { MOST = 8 };
    struct slots usual = probe(d->arena, row, NULL, NULL);
    add_lines(d, &usual);
    for (uint32_t i = 0; i < row->count && usual.good; i++) {
        const char *values[MOST];
        uint32_t n = others(d->arena, row, &row->args[i], values, MOST);
        for (uint32_t k = 0; k < n; k++) {
            struct slots with = probe(d->arena, row, row->args[i].name, values[k]);
            if (with.good) add_change(d, row->args[i].name, values[k], &usual, &with);
        }
    }
}

void doc_optimizer_entry(struct doc *d, uint32_t i)
{
    uint32_t count;
    const struct optim_row *row = &optim_rows(&count)[i];
    str_addf(&d->out, "%s\n\n", row->doc);
    const char *formula = optim_formula(d->arena, "transform", row->name);
    if (row->chain) str_addf(&d->out, "A chain: `%s`.\n\n", row->chain);
    if (formula) str_addf(&d->out, "```\n%s```\n\n", formula);
    doc_arguments(d, &(struct fe_row){row->name, row->args, row->count, row->doc});
    if (!d->brief) add_state(d, row);
}
