/* stepc: the program. The one file that sees all folders: it leads a document through frontend, passes and codegen.
 * Commands that need less stand in frontend/cli. */
#include "frontend/cli/cli.h"
#include "frontend/fe.h"
#include "ir/base/json_tree.h"
#include "passes/pass.h"
#include "codegen/codegen.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* One document on its way through the compiler. */
struct way {
    struct cli *cli;
    struct cli_limits limits;
    struct diags diags;
    struct ir_module *first, *last; /* from the frontend; as the passes left it */
    struct pass pass;
    struct pass_options options;
    struct plan_module *plans;
    bool cuda;                   /* for GPUs */
    bool second;                 /* of an object that has both: what is told of the first one is not told again */
    VEC(struct pass_time) times; /* of what is no pass */
};

static void way_free(struct way *w)
{
    if (w->last && w->last != w->first) ir_module_free(w->last);
    if (w->first) ir_module_free(w->first);
    arena_free(&w->pass.scratch);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void spent(struct way *w, const char *name, double begin)
{
    vec_push(w->cli->arena, &w->times,
             ((struct pass_time){.name = name, .begin = begin, .seconds = seconds() - begin}));
}

/* Prints what was recorded; the exit code. */
static int finish(struct way *w, int code)
{
    int wrong = cli_warnings(w->cli, &w->diags);
    if (wrong) return wrong;
    bool json = strcmp(cli_text(w->cli, "diagnostics", "text"), "json") == 0;
    diags_print(&w->diags, stderr, json, w->cli->color);
    if (!w->diags.errors) return code;
    bool environment = true; /* E08xx: files, devices, libraries */
    for (size_t i = 0; i < w->diags.list.count; i++) environment &= strncmp(w->diags.list.items[i].code, "E08", 3) == 0;
    return environment ? EXIT_ENVIRONMENT : EXIT_WRONG;
}

/* ---------------------------------------------------------------- document to module */

/* Reads a document; from here on its limits hold. */
static int read_document(struct way *w, const char *path, char **text, size_t *length)
{
    int code = cli_limits(w->cli, &w->limits);
    if (!code) cli_limits_begin(w->cli, &w->limits);
    return code ? code : cli_read(w->cli, path, w->limits.document, text, length);
}

static int read_options(const struct way *w, struct fe_options *options)
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
    }
    options->defines = defines;
    options->define_count = n;
    options->mesh = cli_text(cli, "mesh", NULL);
    options->text.bytes = w->limits.document;
    options->text.values = w->limits.json < UINT32_MAX ? (uint32_t)w->limits.json : UINT32_MAX;
    options->values = w->limits.values;
    return 0;
}

/* A text in the IR's own form: by name, or by what it starts with. */
static bool is_ir_text(const char *path, const char *text)
{
    size_t n = strlen(path);
    if (n > 4 && strcmp(path + n - 4, ".sir") == 0) return true;
    while (*text == ' ' || *text == '\n' || *text == '\t' || *text == '\r') text++;
    return strncmp(text, "module", 6) == 0 || *text == ';';
}

static int to_module(struct way *w, const char *path, const char *text, size_t length)
{
    struct fe_options options = {0};
    double begin = seconds();
    int code = read_options(w, &options);
    if (code) return code;
    w->diags.source = (struct diag_source){path, text, length};
    if (memchr(text, 0, length))
        return cli_failed(w->cli, EXIT_WRONG,
                          "%s holds binary data: it is neither a document (JSON) nor an object (ELF)", path);
    if (is_ir_text(path, text)) {
        if (options.define_count || options.mesh)
            return cli_usage(w->cli, "-D and --mesh need a document, not a .sir text");
        w->first = ir_parse(text, length, &w->diags);
    } else {
        w->first = fe_compile(path, text, length, &options, &w->diags);
    }
    w->last = w->first;
    spent(w, "document", begin);
    if (!w->first && !w->diags.errors) BUG("a module is missing without a diagnostic");
    return w->first && !w->diags.errors ? 0 : EXIT_WRONG;
}

/* ---------------------------------------------------------------- module to plans */

/* A list of names between commas: all of them known. */
static int check_names(struct cli *cli, const char *option, const char *what, const char *const *names, size_t count)
{
    const char *list = cli_text(cli, option, NULL);
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
static int switched_on(struct cli *cli, const char *name, bool *on)
{
    const char *value = getenv(name);
    *on = value && strcmp(value, "1") == 0;
    return !value || !*value || *on || strcmp(value, "0") == 0 ? 0
                                                               : cli_usage(cli, "%s=%s: expected 1 or 0", name, value);
}

static int pass_settings(struct way *w)
{
    static const char *const with_names[] = {"dump", "stop-after", "disable", "passes"};
    struct cli *cli = w->cli;
    bool verify;
    size_t count;
    const char *const *passes = pass_names(&count);
    int code = check_names(cli, "without", "part", cg_part_names, CG_PART_COUNT);
    for (int i = 0; i < 4 && !code; i++) code = check_names(cli, with_names[i], "pass", passes, count);
    if (!code) code = switched_on(cli, "STEPC_VERIFY_EACH", &verify);
    if (code) return code;
    const char *blas = cli_text(cli, "blas", "auto");
    w->options = (struct pass_options){
        .dump = w->second ? NULL : cli_text(cli, "dump", cli_count(cli, "dump-changed") ? "" : NULL),
        .dump_dir = cli_text(cli, "dump-dir", NULL),
        .stop_after = cli_text(cli, "stop-after", NULL),
        .disable = cli_text(cli, "disable", NULL),
        .only = cli_text(cli, "passes", NULL),
        .reproducer_dir = cli_text(cli, "reproducer", NULL),
        .dump_changed = !w->second && cli_count(cli, "dump-changed") > 0,
        .verify_each = cli_count(cli, "verify-each") > 0 || verify,
        .time_passes = cli_count(cli, "time-passes") > 0,
        .check_finite = cli_count(cli, "check-finite") > 0,
        .invariant = strcmp(cli_text(cli, "numerics", "reproducible"), "invariant") == 0,
        .blas = strcmp(blas, "own") == 0        ? 1
                : strcmp(blas, "openblas") == 0 ? 2
                                                : 0,
    };
    w->options.remat = (int)cli_integer(cli, "remat", 0);
    if (w->options.remat < 0) return cli_usage(cli, "--remat %d: a level is 0 or more", w->options.remat);
    if (cli_count(cli, "remat") && !w->options.remat) w->options.remat = -1;
    if ((code = chunk_rows(cli, &w->options.chunk_rows))) return code;
    struct cg_target target = {0};
    const char *why = NULL;
    bool own = !w->cuda && w->options.blas != 2;
    if (own && cg_target_init(&target, cli_text(cli, "cpu", "native"), &why, cli->arena)) {
        w->options.panel_columns = cg_panel_columns(&target);
        w->options.panel_rows = cg_panel_rows(&target);
    }
    if (w->cuda) w->options.blocks = CG_CUDA_BLOCKS;
    w->options.panel_pairs = own && target.pairs && !w->options.invariant;
    if (!w->options.invariant) return 0;
    if (w->cuda || w->options.blas == 2)
        return cli_usage(
            cli, "--numerics invariant: only with --target cpu and --blas own; others sum in an order of their own");
    w->options.blas = 1;
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
static int write_times(const struct way *w, const char *path)
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
static int check_memory(struct way *w)
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

/* Work that is split meets again in the loss: without a collective each device does all of it. That is no mistake, but
 * seldom meant. */
static void note_idle_mesh(const struct way *w)
{
    const struct ir_mesh *mesh = &w->plans->module->mesh;
    int64_t devices = 1;
    for (uint32_t i = 0; i < mesh->axis_count; i++) devices *= mesh->size[i];
    if (devices < 2 || w->cli->quiet || strcmp(cli_text(w->cli, "diagnostics", "text"), "json") == 0) return;
    for (size_t i = 0; i < w->plans->plans.count; i++) {
        const struct plan *p = w->plans->plans.items[i];
        for (size_t k = 0; k < p->commands.count; k++)
            if (p->commands.items[k].kind == PLAN_COLLECTIVE) return;
    }
    fprintf(stderr,
            "stepc: note: nothing is split over the %lld devices of the mesh, each does the whole work;\n"
            "  \"sharding\": {\"rules\": [[\"batch\", \"%s\"]]} splits the batch\n",
            (long long)devices, mesh->name[0]);
}

/* Module and plans of a text, with what its "memory" says where the command line says nothing. */
static int plan_text(struct way *w, const char *path, const char *text, size_t length)
{
    int code = to_module(w, path, text, length);
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
                      .limits = w->limits,
                      .diags = {.arena = w->cli->arena},
                      .options = w->options};
    if (!cli_count(w->cli, "chunk-rows")) t->options.chunk_rows = setting.chunk_rows;
    if (!cli_count(w->cli, "remat")) t->options.remat = setting.remat;
    return plan_text(t, trial->path, text, length) ? NULL : t->plans;
}

static int fit_memory(struct way *w, const char *path, const char *text, size_t length)
{
    struct trial trial = {.w = w, .path = path};
    bool takes = false;
    int code = cli_fit_memory(w->cli, w->plans, text, length, is_ir_text(path, text), try_plans, &trial, &w->diags,
                              &takes);
    if (takes) {
        struct diags diags = w->diags;
        way_free(w);
        *w = trial.t;
        w->diags = diags;
        w->pass.options = &w->options, w->pass.diags = &w->diags;
    } else way_free(&trial.t);
    return code;
}

/* The whole way to the plans, or to --stop-after (then plans stay NULL). 0, or the exit code. */
static int to_plans(struct way *w, const char *path)
{
    char *text;
    size_t length;
    int code = pass_settings(w);
    if (!code) code = read_document(w, path, &text, &length);
    if (!code) code = plan_text(w, path, text, length);
    if (w->options.time_passes) print_times(w);
    if (code || !w->plans || (code = fit_memory(w, path, text, length)) || (code = check_memory(w))) return code;
    if (w->cuda != w->plans->launches)
        return cli_failed(w->cli, EXIT_WRONG, "%s has plans for --target=%s", path, w->cuda ? "cpu" : "cuda");
    if (!w->second) note_idle_mesh(w);
    return 0;
}

/* ---------------------------------------------------------------- compile */

/* `gpus`: the same document on its way to GPUs, for an object that has both; NULL: none. */
static int to_object(struct way *w, const struct way *gpus, const char *output, struct cg_bytes *object)
{
    struct cli *cli = w->cli;
    struct cg_options options = {.output = output, .linker = cli_text(cli, "linker", NULL)};
    int code = switched_on(cli, "STEPC_LATE_ALWAYS", &options.late_always);
    if (code) return code;
    const char *why = NULL, *cpu = cli_text(cli, "cpu", "native"), *temps = cli_text(cli, "save-temps", NULL);
    options.save_temps = temps && !*temps ? "." : temps;
    if (!cg_target_init(&options.target, cpu, &why, cli->arena))
        return cli_usage(cli, "--cpu %s: %s", cpu, why ? why : "unknown processor");
    options.target.level = (int)cli_integer(cli, "optimize", 2);
    options.target.blas = w->options.blas;
    options.target.invariant = w->options.invariant;
    options.target.cuda = w->cuda;
    options.cuda = gpus ? gpus->plans : NULL;
    options.target.cuda_arch = cli_text(cli, "cuda-arch", "sm_80,sm_90");
    options.target.views = cli_count(cli, "views") > 0;
    options.target.without = cli_text(cli, "without", "");
    bool ir = is_ir_text(w->diags.source.name, w->diags.source.text); /* its places are in another text */
    struct cg_sites sites = {.source = ir ? NULL : &w->diags.source};
    if (cli_count(cli, "check-finite")) options.target.sites = &sites;
    if (options.target.sites && (w->cuda || gpus))
        return cli_usage(cli, "--check-finite: only with --target cpu; objects for cuda do not check values");
    double begin = seconds();
    code = cg_compile(w->plans, &options, cli->arena, &w->diags, object, &why);
    if (code && !w->diags.errors) return cli_failed(cli, code, "%s", why ? why : "the object could not be made");
    if (code) return code;
    char *bytes = arena_copy(cli->arena, object->data, object->size);
    object->data = bytes;
    spent(w, "machine code, linking", begin);
    begin = seconds();
    code = cli_seal_object(cli, bytes, object->size);
    spent(w, "first steps", begin);
    return code;
}

static int write_ir(struct way *w, const char *output)
{
    struct str text = STR(w->cli->arena);
    ir_print(w->last, &text);
    return cli_write(w->cli, output ? output : "-", str_text(&text), text.length);
}

/* What goes beside the object: a header, a dependency file. Only what an object was made for is written. */
static int write_beside(struct way *w, const char *output)
{
    struct cli *cli = w->cli;
    const char *const *emits, *depfile = cli_text(cli, "depfile", NULL);
    size_t n = cli_values(cli, "emit", &emits);
    int code = 0;
    for (size_t i = 0; i < n && !code; i++) code = cli_emit_header(cli, w->plans->module, emits[i] + strlen("header="));
    if (code || !depfile) return code;
    struct str text = STR(cli->arena);
    const char *names[] = {output, cli->operands.items[0]};
    for (int k = 0; k < 2; k++) {
        for (const char *p = names[k]; *p; p++)
            str_addf(&text, *p == ' ' || *p == '#' || *p == '\\' ? "\\%c" : *p == '$' ? "$%c" : "%c", *p);
        str_add(&text, k ? "\n" : ": ");
    }
    return cli_write(cli, depfile, str_text(&text), text.length);
}

static int check_beside(struct cli *cli, bool partly)
{
    const char *const *emits;
    size_t n = cli_values(cli, "emit", &emits);
    for (size_t i = 0; i < n; i++)
        if (strncmp(emits[i], "header=", 7) != 0 || !emits[i][7])
            return cli_usage(cli, "--emit %s: expected header=FILE", emits[i]);
    if (partly && (n || cli_count(cli, "depfile")))
        return cli_usage(cli, "--emit and -MF need an object: without --stop-after and --passes");
    return 0;
}

int cli_compile(struct cli *cli)
{
    const char *output = cli_text(cli, "output", NULL);
    bool partly = cli_text(cli, "stop-after", NULL) || cli_text(cli, "passes", NULL);
    struct stat status;
    if (!output && !partly) return cli_usage(cli, "stepc compile needs -o FILE");
    if (output && !partly && strcmp(output, "-") == 0) return cli_usage(cli, "-o -: an object is a file; name one");
    if (output && stat(output, &status) == 0 && S_ISDIR(status.st_mode))
        return cli_failed(cli, EXIT_ENVIRONMENT, "cannot write %s: %s", output, strerror(EISDIR));
    const char *temps = cli_text(cli, "save-temps", NULL);
    if (temps && *temps && (stat(temps, &status) != 0 || !S_ISDIR(status.st_mode)))
        return cli_failed(cli, EXIT_ENVIRONMENT, "--save-temps %s: there is no such folder", temps);
    int code = check_beside(cli, partly);
    if (code) return code;
    const char *target = cli_text(cli, "target", "cpu");
    struct way w = {.cli = cli, .cuda = strcmp(target, "cuda") == 0, .diags = {.arena = cli->arena}};
    struct way gpus = {.cli = cli, .cuda = true, .second = true, .diags = {.arena = cli->arena}};
    code = to_plans(&w, cli->operands.items[0]);
    bool object = w.plans && output && !cli_text(cli, "stop-after", NULL), both = strcmp(target, "cpu,cuda") == 0;
    struct cg_bytes made;
    if (!code && object && both && (code = to_plans(&gpus, cli->operands.items[0]))) code = finish(&gpus, code);
    if (!code) code = object ? to_object(&w, both ? &gpus : NULL, output, &made) : write_ir(&w, output);
    code = finish(&w, code);
    /* The object is last: where it stands all is well. */
    if (!code && cli_count(cli, "time-trace")) code = write_times(&w, cli_text(cli, "time-trace", NULL));
    if (!code && object) code = write_beside(&w, output);
    if (!code && object) code = cli_write_program(cli, output, made.data, made.size);
    way_free(&gpus);
    way_free(&w);
    return code;
}

/* ---------------------------------------------------------------- check, explain */

static int check_gradient(struct cli *cli)
{
    struct way w = {.cli = cli, .diags = {.arena = cli->arena}};
    const char *path = cli->operands.items[0];
    char *text;
    size_t length;
    int code = read_document(&w, path, &text, &length);
    const char *plain = code ? NULL : cli_gradient_document(cli, text, length);
    if (!code && !plain) return cli_usage(cli, "--grad needs a document, not a .sir text");
    struct fe_options options = {0};
    if (!code) code = read_options(&w, &options);
    options.mesh = NULL;
    if (!code) w.first = w.last = fe_compile(path, plain, strlen(plain), &options, &w.diags);
    if (!code && !w.first) code = EXIT_WRONG;
    w.options.stop_after = "autodiff";
    w.pass = (struct pass){.options = &w.options, .diags = &w.diags, .keep = cli->arena};
    if (!code) pass_run(&w.pass, w.first, &w.last);
    code = finish(&w, code);
    if (!code) code = cli_check_gradient(cli, w.last);
    way_free(&w);
    return code;
}

/* Names that are not known are replaced by the nearest ones, over and over: behind one mistake another may be hidden.
 */
static int fix(struct cli *cli, const char *path)
{
    size_t total = 0;
    if (strcmp(path, "-") == 0) return cli_usage(cli, "--fix needs a file");
    for (int round = 0; round < 20; round++) {
        struct way w = {.cli = cli, .diags = {.arena = cli->arena}};
        struct str text = STR(cli->arena);
        int code = to_plans(&w, path);
        size_t count = w.diags.errors ? cli_fix(&w.diags, cli->quiet, &text) : 0;
        way_free(&w);
        if (!count) {
            if (total && !cli->quiet)
                fprintf(stderr, "stepc: note: %s: %zu name%s replaced by the nearest\n", path, total,
                        total == 1 ? "" : "s");
            return code && code != EXIT_WRONG && !w.diags.errors ? code : 0;
        }
        if ((code = cli_write(cli, path, str_text(&text), text.length))) return code;
        total += count;
    }
    return 0;
}

/* The last bit of the narrowest floats that a document computes with, but for 8 bits, which are only stored. */
static double rounding_of(const struct ir_module *m)
{
    double last = 1.2e-7;
    for (size_t i = 0; i < m->funcs.count; i++)
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++) {
            uint8_t dtype = ir_get(m->funcs.items[i], v)->type.dtype;
            double bit = dtype == IR_BF16 ? 0.0078125 : dtype == IR_F16 ? 0.0009765625 : 0;
            if (bit > last) last = bit;
        }
    return last;
}

static int check(struct cli *cli)
{
    static const char *const with_against[] = {"steps", "rtol", "atol"};
    int fixed = cli_count(cli, "fix") ? fix(cli, cli->operands.items[0]) : 0;
    if (fixed) return fixed;
    const char *against = cli_text(cli, "against", NULL);
    double rounding = 0;
    if (cli_count(cli, "data") && !cli_count(cli, "grad") && !against)
        return cli_usage(cli, "--data needs --grad or --against");
    for (int i = 0; i < 3 && !against; i++)
        if (cli_count(cli, with_against[i])) return cli_usage(cli, "--%s needs --against STEP.SO", with_against[i]);
    struct way w = {.cli = cli, .diags = {.arena = cli->arena}};
    int code = finish(&w, to_plans(&w, cli->operands.items[0]));
    if (!code && w.plans && !cli->quiet) code = cli_summary(cli, w.plans);
    if (!code && w.plans && cli_count(cli, "weights"))
        code = cli_check_weights(cli, w.plans->module, cli_text(cli, "weights", NULL));
    if (w.plans) rounding = rounding_of(w.plans->module);
    way_free(&w);
    if (!code && against) code = cli_check_against(cli, cli->operands.items[0], against, rounding);
    return code || !cli_count(cli, "grad") ? code : check_gradient(cli);
}

int cli_check(struct cli *cli) { return cli_count(cli, "watch") ? cli_watch(cli, check) : check(cli); }

/* The report as the pictures and the lists that were asked for; where nothing was, as text. */
static int explain(struct cli *cli, const char *report, size_t length, const char *layers)
{
    bool pictures = cli_explain_pictures(cli);
    int code = pictures ? cli_explain_page(cli, report, length, layers) : 0;
    return code || (pictures && !cli_explain_lists(cli)) ? code : cli_explain_report(cli, report, length);
}

/* Of an object, whose report has no blocks: those of the document in it. */
static int explain_object(struct way *w, const char *what, const char *report, size_t length)
{
    const char *document = cli_report_document(w->cli, report, length), *layers = NULL;
    int code = 0;
    if (document && cli_explain_pictures(w->cli)) {
        code = finish(
            w, to_module(w, arena_format(w->cli->arena, "the document in %s", what), document, strlen(document)));
        if (!code) layers = ir_report_layers(w->first, w->cli->arena);
    }
    if (!code) code = explain(w->cli, report, length, layers);
    way_free(w);
    return code;
}

/* A report and how its kernels are run; NULL: diagnostics say why not. */
static const char *with_kernels(struct way *w, const char *report)
{
    struct cg_target target = {0};
    const char *why = NULL;
    if (!cg_target_init(&target, "native", &why, w->cli->arena)) BUG("native is no processor: %s", why ? why : "");
    target.blas = w->options.blas;
    target.invariant = w->options.invariant;
    target.cuda = w->cuda;
    const char *kernels = cg_kernels(w->plans, &target, w->cli->arena, &w->diags);
    return kernels ? arena_format(w->cli->arena, "%.*s,%s", (int)strlen(report) - 1, report, kernels + 1) : NULL;
}

int cli_explain(struct cli *cli)
{
    const char *what = cli->operands.items[0], *report = NULL;
    char *text;
    size_t length, report_length = 0;
    if (strchr("EW", what[0]) && strlen(what) == 5 && strspn(what + 1, "0123456789") == 4)
        return cli_explain_code(cli, what);
    struct way w = {.cli = cli, .diags = {.arena = cli->arena}};
    int code = cli_limits(cli, &w.limits);
    if (!code) code = cli_read(cli, what, (size_t)1 << 31, &text, &length);
    if (!code) code = cli_read_note(cli, what, text, length, &report, &report_length);
    if (code) return code;
    if (report && (cli_count(cli, "define") || cli_count(cli, "mesh") || cli_count(cli, "numerics")))
        return cli_usage(cli, "-D, --mesh and --numerics change a document; %s is compiled already", what);
    if (cli_count(cli, "bench") && !cli_count(cli, "html")) return cli_usage(cli, "--bench needs --html FILE");
    bool fit = cli_count(cli, "fit") > 0;
    if (fit && report) return cli_usage(cli, "--fit tries meshes of a document; %s is compiled already", what);
    if (!fit && cli_count(cli, "devices")) return cli_usage(cli, "--devices needs --fit SIZE");
    const char *target = cli_text(cli, "target", "cpu");
    w.cuda = strcmp(target, "cuda") == 0;
    if (!w.cuda && strcmp(target, "cpu") != 0) return cli_usage(cli, "--target %s: explain one of the two", target);
    if (report && cli_count(cli, "target")) return cli_usage(cli, "--target: %s is compiled already", what);
    if (report) return explain_object(&w, what, report, report_length);
    if ((code = pass_settings(&w))) return code;
    cli_limits_begin(cli, &w.limits);
    if (length > w.limits.document)
        code = cli_failed(cli, EXIT_WRONG, "%s has more than %llu bytes, which is the limit", what,
                          (unsigned long long)w.limits.document);
    else code = plan_text(&w, what, text, length);
    if (!code && w.plans) code = fit_memory(&w, what, text, length);
    if (!code && fit && is_ir_text(what, text)) code = cli_usage(cli, "--fit needs a document, not a .sir text");
    if (!code && fit) {
        way_free(&w);
        return cli_fit_mesh(cli, what, text, length);
    }
    code = finish(&w, code);
    if (!code && w.plans) {
        report = ir_report(w.plans, cli->arena, NULL, NULL);
        if (cli_count(cli, "kernels") && !(report = with_kernels(&w, report))) code = finish(&w, EXIT_WRONG);
    }
    if (!code && w.plans) { code = explain(cli, report, strlen(report), NULL); }
    way_free(&w);
    return code;
}

static int examine(struct cli *cli, const char *name, const char *text, size_t length, struct diags *diags,
                   const char **report)
{
    struct way w = {.cli = cli, .diags = {.arena = cli->arena}};
    int code = cli_limits(cli, &w.limits);
    if (!code) code = pass_settings(&w);
    if (code) return code;
    w.options.reproducer_dir = ""; /* an editor's folder is nobody's for files of ours */
    cli_limits_begin(cli, &w.limits);
    if (!(code = plan_text(&w, name, text, length)) && !(code = fit_memory(&w, name, text, length)))
        code = check_memory(&w);
    if (!code && w.plans) *report = ir_report(w.plans, cli->arena, NULL, NULL);
    *diags = w.diags;
    way_free(&w);
    return code;
}

/* ---------------------------------------------------------------- run without compiling */

static int interpretable(struct cli *cli, const char *path, struct ir_module **out, struct diag_source *source)
{
    struct way w = {.cli = cli, .diags = {.arena = cli->arena}};
    char *text;
    size_t length;
    int code = read_document(&w, path, &text, &length);
    if (!code) code = to_module(&w, path, text, length);
    w.options.stop_after = "autodiff";
    w.pass = (struct pass){.options = &w.options, .diags = &w.diags, .keep = cli->arena};
    if (!code) pass_run(&w.pass, w.first, &w.last);
    code = finish(&w, code);
    *out = code ? NULL : w.last;
    *source = is_ir_text(path, text) ? (struct diag_source){0} : w.diags.source;
    if (!code && w.last == w.first) w.first = NULL;
    if (!code) w.last = NULL; /* the caller's now */
    way_free(&w);
    cli_limits_end(); /* what is computed now is the document's */
    return code;
}

/* ---------------------------------------------------------------- main */

/* Every pass makes a module anew and frees the one before: its pages are wanted again at once. */
static void keep_memory(void)
{
#ifdef M_TRIM_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024);
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024 * 1024);
    mallopt(M_ARENA_MAX, 1);
#endif
}

static int work(int argc, char **argv)
{
    static int (*const commands[])(struct cli *) = {
#define COMMAND(name, operands, low, high, doc, examples) cli_##name,
#define OPTION(commands, name, letter, argument, kind, choices, doc)
#include "frontend/cli/options.def"
#undef COMMAND
#undef OPTION
    };
    struct arena arena = {0};
    struct cli cli = {.arena = &arena, .interpretable = interpretable, .examine = examine};
    signal(SIGPIPE, SIG_IGN); /* a closed pipe and a file size limit are errors with a message */
    signal(SIGXFSZ, SIG_IGN);
    int code = cli_parse(&cli, argc, argv);
    if (code == 0) code = cli_check_files(&cli);
    if (code == 0) code = commands[cli.command](&cli);
    if (fflush(stdout) != 0 && code <= 0)
        code = cli_failed(&cli, EXIT_ENVIRONMENT, "cannot write standard output: %s", strerror(errno));
    arena_free(&arena);
    return code < 0 ? EXIT_DONE : code;
}

int main(int argc, char **argv)
{
    keep_memory();
    return cli_with_stack(work, argc, argv);
}
