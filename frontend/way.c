/* A document becomes a module, a module plans, and if need be others that fit the memory: what all commands that look
 * at a document do first. */
#include "frontend/way.h"
#include "codegen/codegen.h"
#include "ir/base/clock.h"
#include "ir/base/json_tree.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void way_free(struct way *w)
{
    if (w->last && w->last != w->first) ir_module_free(w->last);
    if (w->first) ir_module_free(w->first);
    arena_free(&w->pass.scratch);
}

void way_spent(struct way *w, const char *name, double begin)
{
    vec_push(w->cli->arena, &w->times,
             ((struct pass_time){.name = name, .begin = begin, .seconds = clock_seconds() - begin}));
}

/* Prints what was recorded; the exit code. */
int way_finish(struct way *w, int code)
{
    int wrong = cli_warnings(w->cli, &w->diags);
    if (wrong) return wrong;
    bool json = strcmp(cli_text(w->cli, "diagnostics", "text"), "json") == 0;
    diags_print(&w->diags, stderr, json, w->cli->color);
    if (!w->diags.errors) return code;
    bool environment = true, usage = true; /* E08xx: files, devices, libraries; E0109: the command line, by itself */
    for (size_t i = 0; i < w->diags.list.count; i++) {
        const struct diag *d = &w->diags.list.items[i];
        if (d->severity != DIAG_ERROR) continue;
        environment &= strncmp(d->code, "E08", 3) == 0;
        usage &= strcmp(d->code, "E0109") == 0;
    }
    return environment ? EXIT_ENVIRONMENT : usage ? EXIT_USAGE : EXIT_WRONG;
}

/* ---------------------------------------------------------------- document to module */

/* Reads a document; from here on its limits hold. */
int way_read_document(struct way *w, const char *path, char **text, size_t *length)
{
    int code = cli_limits(w->cli, &w->limits);
    if (!code) cli_limits_begin(w->cli, &w->limits);
    return code ? code : cli_read(w->cli, path, w->limits.document, text, length);
}

static bool is_fast(struct cli *cli)
{
    return cli_takes(cli, "numerics") && strcmp(cli_text(cli, "numerics", ""), "fast") == 0;
}

/* --numerics invariant or mesh-invariant: bits depend on no mesh. */
static bool is_mesh_invariant(struct cli *cli) { return strstr(cli_text(cli, "numerics", ""), "invariant") != NULL; }

/* Nor on how many microbatches there are. */
static bool is_invariant(struct cli *cli) { return strcmp(cli_text(cli, "numerics", ""), "invariant") == 0; }

int way_read_options(const struct way *w, struct fe_options *options)
{
    struct cli *cli = w->cli;
    const char *const *values;
    size_t n = cli_values(cli, "define", &values);
    struct fe_define *defines = arena_new_array(cli->arena, struct fe_define, n + 1);
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(values[i], '=');
        if (!equals || equals == values[i]) return cli_usage(cli, "-D %s: expected NAME=VALUE", values[i]);
        defines[i] = (struct fe_define){arena_string_n(cli->arena, values[i], (size_t)(equals - values[i])),
                                        equals + 1};
        for (size_t k = 0; k < i; k++)
            if (strcmp(defines[k].name, defines[i].name) == 0)
                return cli_usage(cli, "-D %s is given twice: %s and %s", defines[i].name, defines[k].value, equals + 1);
    }
    options->defines = defines;
    options->define_count = n;
    options->mesh = cli_text(cli, "mesh", NULL);
    options->text.bytes = w->limits.document;
    options->text.values = w->limits.json < UINT32_MAX ? (uint32_t)w->limits.json : UINT32_MAX;
    options->values = w->limits.values;
    options->invariant = is_invariant(cli);
    options->regrouped = w->regrouped;
    return 0;
}

/* A text in the IR's own form: by name, or by what it starts with. */
bool way_is_ir_text(const char *path, const char *text)
{
    size_t n = strlen(path);
    if (n > 4 && strcmp(path + n - 4, ".sir") == 0) return true;
    while (*text == ' ' || *text == '\n' || *text == '\t' || *text == '\r') text++;
    return strncmp(text, "module", 6) == 0 || *text == ';';
}

static const char *numerics(struct cli *cli) { return is_mesh_invariant(cli) ? cli_text(cli, "numerics", NULL) : NULL; }

/* Bits are kept from the document on: behind what is made without an order of its own nothing gives it one. */
static int check_numerics(struct way *w, const char *path)
{
    struct ir_module *m = w->first;
    const char *asked = numerics(w->cli), *made = m->numerics;
    bool free = !m->after && !(m->document && is_invariant(w->cli)); /* that is the document's matter, too */
    if (!made && free) made = m->numerics = asked;
    if (!cli_takes(w->cli, "numerics") || made == asked || (made && asked && strcmp(made, asked) == 0)) return 0;
    if (made) return cli_usage(w->cli, "%s was made with --numerics %s, which has to be given here, too", path, made);
    return cli_usage(w->cli, "--numerics %s: %s was made without it%s%s", asked, path, m->after ? ", up to pass " : "",
                     m->after ? m->after : "");
}

static size_t number_of(const char *pass)
{
    size_t count, i = 0;
    const char *const *passes = pass_names(&count);
    while (i < count && strcmp(passes[i], pass) != 0) i++;
    return i;
}

/* What a text is the result of has been done as was asked for then; that it is asked for as well now may be, or not. */
static void warn_behind(struct way *w)
{
    const struct ir_module *m = w->first;
    const char *disabled = cli_takes(w->cli, "disable") ? cli_joined(w->cli, "disable", NULL) : NULL;
    const char *asked[][2] = {{"chunk-rows", "chunk"},
                              {"remat", "remat"},
                              {"numerics", is_fast(w->cli) ? "fuse" : ""}, /* others are checked */
                              {"check-finite", m->mesh.axis_count ? "shard" : "memplan"},
                              {"disable", NULL}};
    for (size_t i = 0; m->after && i < sizeof asked / sizeof *asked; i++) {
        const char *pass = asked[i][1], *at = pass ? pass : disabled;
        if (!cli_takes(w->cli, asked[i][0]) || !cli_count(w->cli, asked[i][0])) continue;
        for (; at && *at; at = pass ? NULL : at + strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
            const char *name = arena_string_n(w->cli->arena, at, strcspn(at, ","));
            if (number_of(name) > number_of(m->after)) continue;
            diag_error(&w->diags, (struct diag_span){0}, "W0109",
                       "--%s%s%s: pass \"%s\" has run already, the text is the result of \"%s\"", asked[i][0],
                       pass ? "" : " ", pass ? "" : name, name, m->after)
                ->severity = DIAG_WARNING;
            w->diags.errors--;
        }
    }
}

int way_to_module(struct way *w, const char *path, const char *text, size_t length)
{
    struct fe_options options = {0};
    double begin = clock_seconds();
    int code = way_read_options(w, &options);
    if (code) return code;
    w->diags.source = (struct diag_source){path, text, length};
    if (memchr(text, 0, length))
        return cli_failed(w->cli, EXIT_WRONG,
                          "%s holds binary data: it is neither a document (JSON) nor an object (ELF)", path);
    if (way_is_ir_text(path, text)) {
        if (options.define_count || options.mesh)
            return cli_usage(w->cli, "-D and --mesh need a document, not a .sir text");
        w->first = ir_parse(text, length, &w->diags);
        if (w->first && !w->diags.errors && (code = check_numerics(w, path))) return code;
        if (w->first && !w->diags.errors) warn_behind(w);
    } else if ((w->first = fe_compile(path, text, length, &options, &w->diags))) w->first->numerics = numerics(w->cli);
    w->last = w->first;
    way_spent(w, "document", begin);
    if (!w->first && !w->diags.errors) BUG("a module is missing without a diagnostic");
    return w->first && !w->diags.errors ? 0 : EXIT_WRONG;
}

/* ---------------------------------------------------------------- module to plans */

/* A list of names between commas: all of them known. */
static int check_names(struct cli *cli, const char *option, const char *what, const char *const *names, size_t count)
{
    const char *list = cli_joined(cli, option, NULL);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        const char *name = arena_string_n(cli->arena, at, strcspn(at, ","));
        size_t i = 0;
        while (i < count && strcmp(names[i], name) != 0) i++;
        if (i < count) continue;
        const char *nearest = str_nearest(name, names, count);
        if (nearest)
            return cli_usage(cli, "--%s: unknown %s \"%s\"; did you mean \"%s\"?", option, what, name, nearest);
        return cli_usage(cli, "--%s: unknown %s \"%s\"", option, what, name);
    }
    return 0;
}

/* --chunk-rows: auto, off, or a number. */
static int chunk_rows(struct cli *cli, int64_t *rows)
{
    const char *text = cli_text(cli, "chunk-rows", "auto");
    char *end;
    *rows = strcmp(text, "off") == 0 ? -1 : 0;
    if (*rows || strcmp(text, "auto") == 0) return 0;
    errno = 0;
    *rows = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || *rows < 1)
        return cli_usage(cli, "--chunk-rows: expected auto, off or a number of rows, got \"%s\"", text);
    return 0;
}

/* A variable of the environment: 1, or 0 as if it were not set. */
int way_switched_on(struct cli *cli, const char *name, bool *on)
{
    const char *value = getenv(name);
    *on = value && strcmp(value, "1") == 0;
    return !value || !*value || *on || strcmp(value, "0") == 0 ? 0
                                                               : cli_usage(cli, "%s=%s: expected 1 or 0", name, value);
}

/* kernels/kernels.def: the number of a row, and whether one of its devices is compiled for. */
static int product_row(const char *name)
{
#define X(row, number, device, rule, doc) \
    if (strcmp(name, #row) == 0) return number;
#include "kernels/kernels.def"
#undef X
    return PLAN_PRODUCT_AUTO;
}

static bool product_is_of(const char *name, const char *target)
{
    enum { CPU = 1, GPU = 2, ANY = CPU | GPU };
    int targets = strcmp(target, "cpu") == 0 ? CPU : strcmp(target, "cuda") == 0 ? GPU : ANY;
#define X(row, number, device, rule, doc) \
    if (strcmp(name, #row) == 0) return (device)&targets;
#include "kernels/kernels.def"
#undef X
    return true;
}

int way_settings(struct way *w)
{
    static const char *const with_names[] = {"dump", "stop-after", "disable", "passes"};
    struct cli *cli = w->cli;
    bool verify;
    size_t count;
    const char *const *passes = pass_names(&count);
    int code = check_names(cli, "without", "part", cg_part_names, CG_PART_COUNT);
    for (int i = 0; i < 4 && !code; i++) code = check_names(cli, with_names[i], "pass", passes, count);
    if (!code) code = way_switched_on(cli, "STEPC_VERIFY_EACH", &verify);
    if (code) return code;
    const char *blas = cli_text(cli, "blas", "auto"), *device = cli_text(cli, "target", "cpu");
    if (!product_is_of(blas, device)) return cli_usage(cli, "--blas %s: not with --target %s", blas, device);
    w->options = (struct pass_options){
        .dump = w->second ? NULL : cli_text(cli, "dump", cli_count(cli, "dump-changed") ? "" : NULL),
        .dump_dir = cli_text(cli, "dump-dir", NULL),
        .stop_after = cli_text(cli, "stop-after", NULL),
        .disable = cli_joined(cli, "disable", NULL),
        .only = cli_text(cli, "passes", NULL),
        .reproducer_dir = cli_text(cli, "reproducer", NULL),
        .dump_changed = !w->second && cli_count(cli, "dump-changed") > 0,
        .verify_each = cli_count(cli, "verify-each") > 0 || verify,
        .time_passes = cli_count(cli, "time-passes") > 0,
        .check_finite = cli_count(cli, "check-finite") > 0,
        .invariant = is_mesh_invariant(cli),
        .fast = is_fast(cli),
        .microbatches = is_invariant(cli),
        .blas = product_row(blas),
    };
    int64_t level = cli_integer(cli, "remat", 0);
    if (level > INT_MAX) return cli_usage(cli, "--remat %lld: a level is at most %d", (long long)level, INT_MAX);
    w->options.remat = (int)level;
    if (cli_count(cli, "remat") && !w->options.remat) w->options.remat = -1;
    if ((code = chunk_rows(cli, &w->options.chunk_rows))) return code;
    struct cg_target target = {0};
    const char *why = NULL;
    bool own = !w->cuda && w->options.blas != PLAN_PRODUCT_OPENBLAS;
    if (own && cg_target_init(&target, cli_text(cli, "cpu", "native"), &why, cli->arena)) {
        w->options.panel_columns = cg_panel_columns(&target);
        w->options.panel_rows = cg_panel_rows(&target);
    }
    if (w->cuda) w->options.blocks = CG_CUDA_BLOCKS;
    w->options.panel_pairs = own && target.pairs && !w->options.invariant;
    w->options.tap_pairs = w->options.panel_pairs && !target.tiles; /* where there are tiles pairs alone are slow */
    if (!w->options.invariant) return 0;
    if (w->cuda || w->options.blas == PLAN_PRODUCT_OPENBLAS)
        return cli_usage(cli,
                         "--numerics %s: only with --target cpu and --blas own; others sum in an order of their own",
                         cli_text(cli, "numerics", NULL));
    w->options.blas = PLAN_PRODUCT_OWN;
    return 0;
}

static void print_times(const struct way *w)
{
    double all = 0;
    for (size_t i = 0; i < w->pass.times.count; i++) all += w->pass.times.items[i].seconds;
    for (size_t i = 0; i < w->pass.times.count; i++) {
        const struct pass_time *t = &w->pass.times.items[i];
        fprintf(stderr, "%-12s %9.3f ms %5.1f %% %8u nodes\n", t->name, t->seconds * 1e3,
                all > 0 ? t->seconds / all * 100 : 0, t->nodes);
    }
}

/* --time-trace: the same and what comes before and behind, as Chrome's trace events, which Perfetto opens. */
int way_write_times(const struct way *w, const char *path)
{
    struct arena *a = w->cli->arena;
    struct json_tree all = json_object(a), events = json_add_array(all, "traceEvents");
    double first = w->times.count ? w->times.items[0].begin : 0;
    for (size_t i = 0; i < w->times.count + w->pass.times.count; i++) {
        const struct pass_time *t = i < w->times.count ? &w->times.items[i] : &w->pass.times.items[i - w->times.count];
        struct json_tree e = json_add_object(events, NULL);
        json_add_text(e, "name", t->name);
        json_add_text(e, "ph", "X");
        json_add_number(e, "ts", (t->begin - first) * 1e6, false);
        json_add_number(e, "dur", t->seconds * 1e6, false);
        json_add_integer(e, "pid", 1);
        json_add_integer(e, "tid", 1);
        if (t->nodes) json_add_integer(json_add_object(e, "args"), "nodes", t->nodes);
    }
    const char *text = json_print_lines(all);
    return cli_write(w->cli, path, text, strlen(text));
}

/* More than any device has is a mistake in a size; finding it here saves the host a confusing failure. */
int way_check_memory(struct way *w)
{
    static const uint64_t limit = (uint64_t)1 << 44; /* 16 TiB */
    for (size_t i = 0; i < w->plans->plans.count; i++) {
        const struct plan *p = w->plans->plans.items[i];
        if (p->memory.peak <= limit) continue;
        const struct plan_buffer *largest = NULL; /* of those with a place in the document */
        for (size_t b = 0; b < p->buffers.count; b++) {
            const struct plan_buffer *is = &p->buffers.items[b];
            if (is->value && ir_get(is->func, is->value)->place && (!largest || is->bytes > largest->bytes))
                largest = is;
        }
        const struct ir_place *place =
            largest ? &largest->func->module->places.items[ir_get(largest->func, largest->value)->place] : NULL;
        struct diag *d = diag_error(&w->diags, place ? place->span : (struct diag_span){0}, "E0501",
                                    "entry \"%s\" needs %.1f TiB on one device, the limit is 16 TiB", p->func->name,
                                    (double)p->memory.peak / (double)((uint64_t)1 << 40));
        d->hint = "stepc explain --memory shows what is large";
        d->pointer = place ? place->pointer : NULL;
        return EXIT_WRONG;
    }
    return 0;
}

/* Work that is split meets again in the loss: along an axis without a collective each device does all of it. That is no
 * mistake, but seldom meant. */
static void note_idle_mesh(const struct way *w)
{
    const struct ir_mesh *mesh = &w->plans->module->mesh;
    uint64_t used = 0;
    if (w->cli->quiet || strcmp(cli_text(w->cli, "diagnostics", "text"), "json") == 0) return;
    for (size_t i = 0; i < w->plans->plans.count; i++) {
        const struct plan *p = w->plans->plans.items[i];
        for (size_t k = 0; k < p->commands.count; k++) {
            const struct plan_command *c = &p->commands.items[k];
            for (size_t j = 0; c->kind == PLAN_COLLECTIVE && j < plan_joined(c); j++)
                used |= (uint64_t)ir_get(c->func, plan_joined_node(c, j))->attr[0].v[0];
        }
    }
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        if (mesh->size[i] < 2 || used >> i & 1) continue;
        fprintf(
            stderr,
            "stepc: note: nothing is split over the %lld devices of the mesh along \"%s\", each does the whole work;\n"
            "  \"sharding\": {\"rules\": [[\"batch\", \"%s\"]]} splits the batch\n",
            (long long)mesh->size[i], mesh->name[i], mesh->name[i]);
    }
}

/* Module and plans of a text, with what its "memory" says where the command line says nothing. */
int way_plan_text(struct way *w, const char *path, const char *text, size_t length)
{
    int code = way_to_module(w, path, text, length);
    if (code) return code;
    struct ir_memory *m = &w->first->memory;
    if (!cli_count(w->cli, "chunk-rows") && !w->options.chunk_rows) w->options.chunk_rows = m->chunk_rows;
    if (!cli_count(w->cli, "remat") && !w->options.remat) w->options.remat = m->remat;
    w->pass = (struct pass){.options = &w->options, .diags = &w->diags, .keep = w->cli->arena};
    w->options.consumes = true;
    w->plans = pass_run(&w->pass, w->first, &w->last);
    if (w->last != w->first) w->first = NULL;
    return w->diags.errors ? EXIT_WRONG : 0;
}

/* ---------------------------------------------------------------- as much memory as is allowed */

struct trial {
    struct way *w, t;
    const char *path;
};

/* Plans a text with other settings, instead of those before. */
static const struct plan_module *try_plans(void *user, const char *text, size_t length, struct cli_setting setting)
{
    struct trial *trial = user;
    struct way *w = trial->w, *t = &trial->t;
    way_free(t);
    *t = (struct way){.cli = w->cli,
                      .cuda = w->cuda,
                      .second = w->second,
                      .regrouped = setting.why != NULL,
                      .limits = w->limits,
                      .diags = {.arena = w->cli->arena},
                      .options = w->options};
    t->options.together = setting.together;
    if (!cli_count(w->cli, "chunk-rows")) t->options.chunk_rows = setting.chunk_rows;
    if (!cli_count(w->cli, "remat")) t->options.remat = setting.remat;
    if (!way_plan_text(t, trial->path, text, length)) return t->plans;
    const struct diag *first = t->diags.list.count ? &t->diags.list.items[0] : NULL;
    if (setting.why && first && strcmp(first->code, "E0434") == 0) *setting.why = first->message;
    return NULL;
}

/* What was tried last, instead of the plans before. */
static void take(struct trial *trial)
{
    struct way *w = trial->w;
    struct diags diags = w->diags;
    way_free(w);
    *w = trial->t;
    w->diags = diags;
    w->pass.options = &w->options, w->pass.diags = &w->diags;
    trial->t = (struct way){0};
}

/* Microbatches that are made together (passes/together.c) take no more than this, or a quarter more than those that
 * are not. */
static const uint64_t freely = (uint64_t)8 << 30;

static void fit_together(struct trial *trial, const char *text, size_t length)
{
    struct way *w = trial->w;
    int64_t times = w->plans->module->together;
    uint64_t peak = ir_report_totals(w->plans).peak;
    if (times < 2 || peak <= freely) return;
    const struct pass_options said = w->options;
    w->options.dump = NULL, w->options.dump_changed = false; /* these plans are for comparison */
    const struct plan_module *apart = try_plans(trial, text, length, (struct cli_setting){.together = 1});
    w->options = said;
    if (!apart) return;
    uint64_t most = ir_report_totals(apart).peak / 4 * 5;
    if (most < freely) most = freely;
    if (peak <= most) return;
    for (times /= 2; times; times /= 2) {
        const struct plan_module *plans = try_plans(trial, text, length, (struct cli_setting){.together = times});
        if (!plans || ir_report_totals(plans).peak > most) continue;
        take(trial);
        return;
    }
}

int way_fit_memory(struct way *w, const char *path, const char *text, size_t length)
{
    struct trial trial = {.w = w, .path = path};
    bool takes = false;
    fit_together(&trial, text, length);
    int code = cli_fit_memory(w->cli, w->plans, text, length, way_is_ir_text(path, text), try_plans, &trial, &w->diags,
                              &takes);
    if (takes) take(&trial);
    else way_free(&trial.t);
    return code;
}

/* The whole way to the plans, or to --stop-after (then plans stay NULL). 0, or the exit code. */
int way_to_plans(struct way *w, const char *path)
{
    char *text;
    size_t length;
    int code = way_settings(w);
    if (!code) code = way_read_document(w, path, &text, &length);
    if (!code) code = way_plan_text(w, path, text, length);
    if (w->options.time_passes) print_times(w);
    if (code || !w->plans || (code = way_fit_memory(w, path, text, length)) || (code = way_check_memory(w)))
        return code;
    if (w->cuda != w->plans->launches)
        return cli_failed(w->cli, EXIT_WRONG, "%s has plans for --target=%s", path, w->cuda ? "cpu" : "cuda");
    if (!w->second) note_idle_mesh(w);
    return 0;
}
