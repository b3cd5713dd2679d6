/* --max-memory and "memory" of a document: the cheapest of a list of settings whose plan fits. Rows of chunks and what
 * is made again change no number but by rounding; means over microbatches depend on their size, so other ones are only
 * chosen where the document lets them, else proposed: none by which something is shown to be scaled, a mean of sums. */
#include "frontend/cli/cli.h"
#include "frontend/fe.h"
#include "ir/plan.h"

#include <stdio.h>
#include <string.h>

/* Rows of chunks (0: by size) and levels of remat, from what costs least on. */
static const struct {
    int64_t chunk_rows;
    int remat;
} settings[] = {{0, 0},   {256, 0}, {0, 1}, {256, 1}, {0, 2}, {256, 2}, {0, 3},
                {256, 3}, {64, 3},  {0, 4}, {64, 4},  {0, 6}, {64, 6}};
enum { SETTINGS = sizeof settings / sizeof *settings, SHOWN = 3 };

/* With all of them microbatches are made one by one. */
static const struct cli_setting one_by_one = {.together = 1};

struct search {
    struct cli *cli;
    cli_planner *planner;
    void *user;
    const struct plan_module *plans; /* the last ones that fit */
    uint64_t most, least;            /* allowed; the least that was found */
    struct cli_setting at, best;     /* the last one tried, that of the least */
    const char *alive;               /* at the peak of the least */
    const char *why;                 /* microbatches may not be others; NULL: they may */
};

static const char *size_text(struct arena *arena, uint64_t bytes)
{
    double size = (double)bytes;
    unsigned unit = 0;
    for (; size >= 1024 && unit < 4; unit++) size /= 1024;
    return arena_format(arena, unit ? "%.4g %ciB" : "%.0f B", size, " KMGT"[unit]);
}

/* ---------------------------------------------------------------- the peak */

static bool lives(const struct plan_buffer *b, uint32_t command)
{
    return b->space == PLAN_ARENA && b->first <= command && command <= b->last;
}

/* The temporaries that live at the peak of the entry that needs most, the largest ones first. */
static void add_alive(struct str *out, const struct plan_module *pm)
{
    const struct plan *p = pm->plans.items[0];
    for (size_t i = 1; i < pm->plans.count; i++)
        if (pm->plans.items[i]->arena_bytes > p->arena_bytes) p = pm->plans.items[i];
    uint64_t most = 0;
    uint32_t at = 0;
    for (uint32_t c = 0; c < p->commands.count; c++) {
        uint64_t now = 0;
        for (size_t i = 0; i < p->buffers.count; i++)
            now += lives(&p->buffers.items[i], c) ? p->buffers.items[i].bytes : 0;
        if (now > most) most = now, at = c;
    }
    str_addf(out, "at the peak, command %u of \"%s\", %s of temporaries live:", at, p->func->name,
             size_text(out->arena, most));
    bool *said = arena_new_array(out->arena, bool, p->buffers.count + 1);
    for (uint32_t shown = 0; shown < SHOWN; shown++) {
        size_t next = p->buffers.count;
        for (size_t i = 0; i < p->buffers.count; i++)
            if (lives(&p->buffers.items[i], at) && !said[i] &&
                (next == p->buffers.count || p->buffers.items[i].bytes > p->buffers.items[next].bytes))
                next = i;
        if (next == p->buffers.count) break;
        said[next] = true;
        const struct plan_buffer *b = &p->buffers.items[next];
        const struct ir_node *n = ir_get(b->func, b->value);
        const char *place = b->func->module->places.items[n->place].pointer;
        str_addf(out, "%s %s %s %s%s%s", shown ? "," : "", size_text(out->arena, b->bytes),
                 n->op == OP_param && !b->func->entry ? "loop-carried" : ir_ops[n->op].name,
                 ir_type_text(out->arena, &n->type), place ? " at " : "", place ? place : "");
    }
}

static void add_setting(struct str *out, struct cli_setting at)
{
    if (at.chunk_rows) str_addf(out, " --chunk-rows %lld", (long long)at.chunk_rows);
    if (at.remat) str_addf(out, " --remat %d", at.remat);
    if (at.chunk_rows || at.remat || at.why) return;
    if (at.together == 1) str_add(out, " microbatches that are made one by one");
    if (at.together > 1) str_addf(out, " microbatches that are made %lld at a time", (long long)at.together);
}

/* Plans live until the next ones are tried: what is said of them is said now. */
static void note_least(struct search *s, const struct plan_module *plans, uint64_t peak, struct cli_setting setting)
{
    struct str alive = STR(s->cli->arena);
    s->least = peak, s->best = setting;
    if (setting.chunk_rows || setting.remat)
        str_add(&alive, "with"), add_setting(&alive, setting), str_add(&alive, " ");
    add_alive(&alive, plans);
    s->alive = str_text(&alive);
}

static bool fits(struct search *s, const char *text, size_t length, struct cli_setting setting)
{
    const struct plan_module *plans = s->planner(s->user, text, length, setting);
    uint64_t peak = plans ? ir_report_totals(plans).peak : UINT64_MAX;
    s->at = setting;
    if (peak < s->least) note_least(s, plans, peak, setting);
    if (peak <= s->most) s->plans = plans;
    return peak <= s->most;
}

/* ---------------------------------------------------------------- microbatches */

/* The rows of a batch, or of a microbatch that there is already. */
static int64_t rows_of(struct cli *cli, const struct ir_module *m, const char *text, size_t length)
{
    int64_t rows = cli_microbatch_size(cli, text, length);
    for (size_t i = 0; i < m->slots.count && !rows; i++)
        for (uint32_t d = 0; d < m->slots.items[i].type.rank; d++)
            if (m->slots.items[i].batch_dims >> d & 1) rows = m->slots.items[i].type.dim[d];
    return rows;
}

/* Halves microbatches until it fits. Returns their size, 0: it does not. */
static int64_t try_microbatches(struct search *s, int64_t rows, const char *text, size_t length)
{
    struct cli_setting best = s->best, usual = one_by_one;
    best.why = usual.why = &s->why;
    while (rows > 1 && rows % 2 == 0 && !s->why) {
        const char *other = cli_with_microbatches(s->cli, text, length, rows /= 2);
        if (other && (fits(s, other, strlen(other), usual) || fits(s, other, strlen(other), best))) return rows;
    }
    return 0;
}

/* ---------------------------------------------------------------- what is said */

static void note(const struct search *s, uint64_t before, double flops, int64_t rows)
{
    struct arena *a = s->cli->arena;
    if (s->cli->quiet || strcmp(cli_text(s->cli, "diagnostics", "text"), "json") == 0) return;
    struct str how = STR(a);
    add_setting(&how, s->at);
    if (rows) str_addf(&how, " \"accumulate\": {\"microbatch_size\": %lld}", (long long)rows);
    fprintf(stderr, "stepc: note: %s instead of %s on one device by%s; a step computes %.3g times as much\n",
            size_text(a, ir_report_totals(s->plans).peak), size_text(a, before), str_text(&how),
            flops > 0 ? ir_report_totals(s->plans).flops / flops : 1);
}

int cli_fit_memory(struct cli *cli, const struct plan_module *plans, const char *text, size_t length, bool ir,
                   cli_planner *planner, void *user, struct diags *diags, bool *takes)
{
    const char *given = cli_text(cli, "max-memory", NULL);
    struct ir_memory asked = plans->module->memory;
    if (given && !fe_amount(given, true, &asked.most))
        return cli_usage(cli, "--max-memory: expected a whole number of bytes, or as 6GiB, got \"%s\"", given);
    uint64_t before = ir_report_totals(plans).peak;
    struct search s = {.cli = cli, .planner = planner, .user = user, .most = asked.most};
    if (!asked.most || before <= asked.most) return 0;
    double flops = ir_report_totals(plans).flops;
    note_least(&s, plans, before, one_by_one);
    *takes = true;
    int64_t together = plans->module->together;
    for (int64_t times = together / 2; times > 1; times /= 2)
        if (fits(&s, text, length, (struct cli_setting){.together = times})) return note(&s, before, flops, 0), 0;
    for (size_t i = together ? 0 : 1; i < SETTINGS; i++) {
        struct cli_setting setting = one_by_one;
        setting.chunk_rows = settings[i].chunk_rows, setting.remat = settings[i].remat;
        if (fits(&s, text, length, setting)) return note(&s, before, flops, 0), 0;
    }
    uint64_t least = s.least;
    const char *alive = s.alive;
    int64_t rows = ir ? 0 : try_microbatches(&s, rows_of(cli, plans->module, text, length), text, length);
    if (rows && asked.microbatches) return note(&s, before, flops, rows), 0;
    *takes = false;
    const struct ir_place *place = &plans->module->places.items[given ? 0 : asked.place];
    struct diag *d = diag_error(diags, place->span, "E0501", "a step needs %s on one device, %s are allowed; %s",
                                size_text(cli->arena, least), size_text(cli->arena, asked.most), alive);
    d->pointer = place->pointer ? arena_string(cli->arena, place->pointer) : NULL;
    d->hint = arena_format(
        cli->arena, "%s of it are state: %s", size_text(cli->arena, plans->state_bytes),
        plans->state_bytes >= asked.most
            ? "a mesh that splits it, or an optimizer with less of it, need less"
            : "fewer rows, a mesh that splits the tensors, or an optimizer with less state need less");
    if (s.why) d->hint = arena_format(cli->arena, "smaller microbatches would change what is trained: %s", s.why);
    if (rows)
        d->hint = arena_format(
            cli->arena,
            "\"accumulate\": {\"microbatch_size\": %lld} would need %s; \"memory\": {\"microbatches\": "
            "true} lets it be chosen",
            (long long)rows, size_text(cli->arena, ir_report_totals(s.plans).peak));
    return EXIT_WRONG;
}
