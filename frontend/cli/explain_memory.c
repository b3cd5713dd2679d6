/* stepc explain --memory: what a step takes at its peak, what lives there, what is computed in chunks or made again. */
#include "frontend/cli/explain.h"

static double arena_of(node e) { return number_at(at(e, "memory") ? at(e, "memory") : e, "arena"); }

/* Temporaries of the entry that needs most: there is one block of them. */
static double largest_arena(const struct cli_view *v)
{
    double most = 0;
    for (node e = first(at(v->root, "entries")); e; e = next(e)) most = arena_of(e) > most ? arena_of(e) : most;
    return most;
}

/* The peak of a step, and what other entries need beyond it. */
double cli_peak_bytes(const struct cli_view *v, node step)
{
    return number_at(at(step, "memory"), "peak") - arena_of(step) + largest_arena(v);
}

/* An object leaves out what is 0, and the least arena where it is the arena (ir/report.c). */
const char *cli_step_memory(const struct cli_view *v, node step)
{
    static const char *const keys[] = {"peak",       "lower_bound", "arena",           "arena_lower_bound",
                                       "parameters", "averages",    "optimizer_state", "other_state",
                                       "gradients",  "activations", "workspace",       "constants"};
    struct json_tree out = json_object(v->cli->arena);
    node m = at(step, "memory");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool bound = strcmp(keys[i], "arena_lower_bound") == 0 && !at(m, keys[i]);
        json_add_integer(out, keys[i], (int64_t)number_at(m, bound ? "arena" : keys[i]));
    }
    return json_print(out);
}

static void memory(struct cli_view *v, node e, bool all)
{
    static const char *const classes[][2] = {
        {"parameters", "parameters"},   {"averages", "averages"},   {"optimizer_state", "optimizer state"},
        {"other_state", "other state"}, {"gradients", "gradients"}, {"activations", "activations"},
        {"workspace", "workspace"}};
    node m = at(e, "memory"), peak = at(e, "peak");
    head(v, "memory");
    str_addf(&v->out, "peak %s B on one device (lower bound %s):", grouped(v, cli_peak_bytes(v, e)),
             grouped(v, number_at(m, "lower_bound")));
    const char *comma = " ";
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        double bytes = number_at(m, classes[i][0]);
        if (bytes == 0) continue;
        str_addf(&v->out, "%s%s %s", comma, classes[i][1], grouped(v, bytes));
        comma = ", ";
    }
    str_add(&v->out, "\n");
    if (!peak) return;
    str_addf(&v->out, "         temporaries need %s B of it, most at kernel #%.0f", grouped(v, number_at(m, "arena")),
             number_at(peak, "command"));
    add_place(v, peak);
    str_add(&v->out, "\n");
    for (node b = all ? first(at(peak, "alive")) : NULL; b; b = next(b)) {
        const char *type = at(b, "dtype") ? type_text(v, b) : text_at(v, b, "type");
        str_addf(&v->out, "         alive there: %13s B  %-24s %s", grouped(v, number_at(b, "bytes")), type,
                 text_at(v, b, "op"));
        add_place(v, b);
        str_add(&v->out, "\n");
    }
}

/* Wide products whose rows are computed a run at a time, and those that exist whole. */
static void chunks(struct cli_view *v, bool all)
{
    const char *name = "chunks";
    for (node c = first(at(v->root, "chunks")); c; c = next(c)) {
        double rows = number_at(c, "rows"), size = number_at(c, "chunk");
        if (!size && !all) continue;
        head(v, name);
        name = "";
        if (size) str_addf(&v->out, "%.0f of %.0f rows: %.4g times less of ", rows / size, size, rows / size);
        else str_add(&v->out, "none of ");
        add_type(v, c);
        if (!size) str_addf(&v->out, ": %s", text_at(v, c, "why"));
        add_place(v, c);
        str_add(&v->out, "\n");
    }
}

/* State and temporaries are in an object once: its entries run one at a time. Of kernels those that are equal. */
void cli_explain_shared(struct cli_view *v)
{
    node root = v->root, code = at(root, "code");
    const char *comma = "";
    head(v, "shared");
    str_add(&v->out, "the state by all entries; temporaries of");
    for (node e = first(at(root, "entries")); e; e = next(e), comma = ",")
        str_addf(&v->out, "%s %s %s B", comma, text_at(v, e, "name"), grouped(v, arena_of(e)));
    str_addf(&v->out, ": one block of %s B\n", grouped(v, largest_arena(v)));
    if (!code) return;
    str_add(&v->out, "         kernels:");
    comma = "";
    for (node e = first(code); e; e = next(e), comma = ",") {
        node all = first(e), own = next(all);
        str_addf(&v->out, "%s %s ", comma, e->string);
        if (all->valuedouble == 0) str_add(&v->out, "in one function");
        else
            str_addf(&v->out, own->valuedouble == all->valuedouble ? "%.0f" : "%.0f, of its own %.0f", all->valuedouble,
                     own->valuedouble);
    }
    str_add(&v->out, "\n");
}

/* What of a step is made again for gradients instead of kept. */
static void again(struct cli_view *v)
{
    node a = at(v->root, "again");
    double level = number_at(a, "level"), blocks = number_at(a, "blocks");
    if (!a) return;
    head(v, "remat");
    str_add(&v->out, "made again: ");
    if (level == 0) str_add(&v->out, "what is element-wise of what is kept, where that is large or takes no time");
    if (level == 1) str_add(&v->out, "all but products (level 1)");
    if (level > 1) str_addf(&v->out, "whole blocks (level %.0f)", level);
    if (blocks) str_add(&v->out, "; "), add_count(v, blocks, "block"), str_add(&v->out, " of the document");
    str_add(&v->out, "\n");
}

static void together(struct cli_view *v)
{
    double times = number_at(v->root, "together");
    if (times < 2) return;
    head(v, "rounds");
    str_addf(&v->out, "microbatches are made up to %.0f at a time, as no row knows of another\n", times);
}

void cli_explain_memory(struct cli_view *v, node step, bool all)
{
    if (step) memory(v, step, all);
    together(v);
    again(v);
    chunks(v, all);
}
