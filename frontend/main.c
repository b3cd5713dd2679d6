/* stepc: the program. With way.c the one place that sees all folders: it leads a document through frontend, passes and
 * codegen. Commands that need less stand in frontend/cli. */
#include "codegen/codegen.h"
#include "frontend/way.h"
#include "ir/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- compile */

/* `gpus`: the same document on its way to GPUs, for an object that has both; NULL: none. */
static int to_object(struct way *w, const struct way *gpus, const char *output, struct cg_bytes *object)
{
    struct cli *cli = w->cli;
    struct cg_options options = {.output = output, .linker = cli_text(cli, "linker", NULL)};
    bool warpgroups = false;
    int code = way_switched_on(cli, "STEPC_LATE_ALWAYS", &options.late_always);
    if (!code) code = way_switched_on(cli, "STEPC_WARPGROUPS_ALWAYS", &warpgroups);
    if (code) return code;
    const char *why = NULL, *cpu = cli_text(cli, "cpu", "native"), *temps = cli_text(cli, "save-temps", NULL);
    options.save_temps = temps && !*temps ? "." : temps;
    if (!cg_target_init(&options.target, cpu, &why, cli->arena))
        return cli_usage(cli, "--cpu %s: %s", cpu, why ? why : "unknown processor");
    options.target.level = (int)cli_integer(cli, "optimize", 2);
    options.target.blas = w->options.blas;
    options.target.invariant = w->options.invariant;
    options.target.fast = w->options.fast;
    options.target.cuda = w->cuda;
    options.cuda = gpus ? gpus->plans : NULL;
    options.target.cuda_arch = cli_text(cli, "cuda-arch", "sm_80,sm_90");
    options.target.warpgroups_always = warpgroups;
    options.target.views = cli_count(cli, "views") > 0;
    options.target.without = cli_joined(cli, "without", "");
    bool ir = way_is_ir_text(w->diags.source.name, w->diags.source.text); /* its places are in another text */
    struct cg_sites sites = {.source = ir ? NULL : &w->diags.source};
    if (cli_count(cli, "check-finite")) options.target.sites = &sites;
    if (options.target.sites && (w->cuda || gpus))
        return cli_usage(cli, "--check-finite: only with --target cpu; objects for cuda do not check values");
    double begin = clock_seconds();
    code = cg_compile(w->plans, &options, cli->arena, &w->diags, object, &why);
    if (code && !w->diags.errors) return cli_failed(cli, code, "%s", why ? why : "the object could not be made");
    if (code) return code;
    char *bytes = arena_copy(cli->arena, object->data, object->size);
    object->data = bytes;
    way_spent(w, "machine code, linking", begin);
    begin = clock_seconds();
    code = cli_seal_object(cli, bytes, object->size);
    way_spent(w, "first steps", begin);
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

/* Of what says how something is done that is not done here nothing is lost without a word. */
static int check_idle(struct cli *cli)
{
    if (cli_count(cli, "cuda-arch") && !strstr(cli_text(cli, "target", "cpu"), "cuda"))
        return cli_usage(cli, "--cuda-arch needs --target cuda");
    if (cli_count(cli, "dump-dir") && !cli_count(cli, "dump") && !cli_count(cli, "dump-changed"))
        return cli_usage(cli, "--dump-dir needs --dump or --dump-changed");
    return 0;
}

static int check_beside(struct cli *cli, bool partly)
{
    const char *const *emits;
    size_t n = cli_values(cli, "emit", &emits);
    for (size_t i = 0; i < n; i++)
        if (strncmp(emits[i], "header=", 7) != 0 || !emits[i][7])
            return cli_usage(cli, "--emit %s: expected header=FILE", emits[i]);
    if (cli_count(cli, "depfile") &&
        (strchr(cli->operands.items[0], '\n') || strchr(cli_text(cli, "output", ""), '\n')))
        return cli_usage(cli, "-MF: a name with the end of a line in it cannot stand in a rule of make");
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
    static const char *const folders[] = {"save-temps", "reproducer"};
    for (int i = 0; i < 2; i++) {
        const char *folder = cli_text(cli, folders[i], "");
        if (*folder && (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode)))
            return cli_failed(cli, EXIT_ENVIRONMENT, "--%s %s: there is no such folder", folders[i], folder);
    }
    int code = check_beside(cli, partly);
    if (!code) code = check_idle(cli);
    if (code) return code;
    const char *target = cli_text(cli, "target", "cpu");
    struct way w = {.cli = cli, .cuda = strcmp(target, "cuda") == 0, .diags = {.arena = cli->arena}};
    struct way gpus = {.cli = cli, .cuda = true, .second = true, .diags = {.arena = cli->arena}};
    code = way_to_plans(&w, cli->operands.items[0]);
    bool object = w.plans && output && !cli_text(cli, "stop-after", NULL), both = strcmp(target, "cpu,cuda") == 0;
    struct cg_bytes made;
    if (!code && object && both && (code = way_to_plans(&gpus, cli->operands.items[0]))) code = way_finish(&gpus, code);
    if (!code) code = object ? to_object(&w, both ? &gpus : NULL, output, &made) : write_ir(&w, output);
    code = way_finish(&w, code);
    /* The object is last: where it stands all is well. */
    if (!code && cli_count(cli, "time-trace")) code = way_write_times(&w, cli_text(cli, "time-trace", NULL));
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
    int code = way_read_document(&w, path, &text, &length);
    const char *plain = code ? NULL : cli_gradient_document(cli, text, length);
    if (!code && !plain) return cli_usage(cli, "--grad needs a document, not a .sir text");
    struct fe_options options = {0};
    if (!code) code = way_read_options(&w, &options);
    options.mesh = NULL;
    if (!code) w.first = w.last = fe_compile(path, plain, strlen(plain), &options, &w.diags);
    if (!code && !w.first) code = EXIT_WRONG;
    w.options.stop_after = "autodiff";
    w.pass = (struct pass){.options = &w.options, .diags = &w.diags, .keep = cli->arena};
    if (!code) pass_run(&w.pass, w.first, &w.last);
    code = way_finish(&w, code);
    if (!code) code = cli_check_gradient(cli, w.last);
    way_free(&w);
    return code;
}

/* What the kernels of a plan are made for, as far as options that do not change the document say. */
static struct cg_target target_of(const struct way *w)
{
    struct cg_target target = {0};
    const char *why = NULL;
    if (!cg_target_init(&target, "native", &why, w->cli->arena)) BUG("native is no processor: %s", why ? why : "");
    target.blas = w->options.blas;
    target.invariant = w->options.invariant;
    target.fast = w->options.fast;
    target.cuda = w->cuda;
    return target;
}

/* What `compile` would refuse for want of code; to lower takes less time than to plan. */
static int check_code(struct way *w)
{
    if (!w->plans) return 0;
    struct cg_target target = target_of(w);
    return cg_has_code(w->plans, &target, w->cli->arena, &w->diags) ? 0 : EXIT_WRONG;
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
        int code = way_to_plans(&w, path);
        size_t count = w.diags.errors ? cli_fix(&w.diags, cli->quiet, &text) : 0;
        way_free(&w);
        if (!count) {
            if (total && !cli->quiet)
                fprintf(stderr, "stepc: note: %s: %zu name%s replaced by the nearest\n", path, total,
                        total == 1 ? "" : "s");
            return code && code != EXIT_WRONG && !w.diags.errors ? code : 0;
        }
        if ((code = cli_rewrite(cli, path, str_text(&text), text.length))) return code;
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
    int code = way_to_plans(&w, cli->operands.items[0]);
    if (!code) code = check_code(&w);
    code = way_finish(&w, code);
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
        code = way_finish(
            w, way_to_module(w, arena_format(w->cli->arena, "the document in %s", what), document, strlen(document)));
        if (!code) layers = ir_report_layers(w->first, w->cli->arena);
    }
    if (!code) code = explain(w->cli, report, length, layers);
    way_free(w);
    return code;
}

/* A report and how its kernels are run; NULL: diagnostics say why not. */
static const char *with_kernels(struct way *w, const char *report)
{
    struct cg_target target = target_of(w);
    const char *kernels = cg_kernels(w->plans, &target, w->cli->arena, &w->diags);
    return kernels ? arena_format(w->cli->arena, "%.*s,%s", (int)strlen(report) - 1, report, kernels + 1) : NULL;
}

static int explain_code(struct cli *cli, const char *code)
{
    for (size_t i = 0; i < cli->given.count; i++) {
        const char *name = cli->given.items[i].option->name;
        if (strcmp(name, "quiet") != 0 && strcmp(name, "color") != 0)
            return cli_usage(cli, "--%s is for documents and objects; %s is a diagnostic", name, code);
    }
    return cli_explain_code(cli, code);
}

int cli_explain(struct cli *cli)
{
    static const char *const of_documents[] = {"remat", "chunk-rows", "max-memory", "blas", "warnings"};
    const char *what = cli->operands.items[0], *report = NULL;
    char *text;
    size_t length, report_length = 0;
    if (strchr("EW", what[0]) && strlen(what) == 5 && strspn(what + 1, "0123456789") == 4)
        return explain_code(cli, what);
    struct way w = {.cli = cli, .diags = {.arena = cli->arena}};
    int code = cli_limits(cli, &w.limits);
    if (!code) code = cli_read_either(cli, what, w.limits.document, (size_t)1 << 31, &text, &length);
    if (!code) code = cli_read_note(cli, what, text, length, &report, &report_length);
    if (code) return code;
    if (report && (cli_count(cli, "define") || cli_count(cli, "mesh") || cli_count(cli, "numerics")))
        return cli_usage(cli, "-D, --mesh and --numerics change a document; %s is compiled already", what);
    for (size_t i = 0; report && i < sizeof of_documents / sizeof *of_documents; i++)
        if (cli_count(cli, of_documents[i]))
            return cli_usage(cli, "--%s is for documents; %s is compiled already", of_documents[i], what);
    if (cli_count(cli, "bench") && !cli_count(cli, "html")) return cli_usage(cli, "--bench needs --html FILE");
    bool fit = cli_count(cli, "fit") > 0;
    if (fit && report) return cli_usage(cli, "--fit tries meshes of a document; %s is compiled already", what);
    if (!fit && cli_count(cli, "devices")) return cli_usage(cli, "--devices needs --fit SIZE");
    const char *target = cli_text(cli, "target", "cpu");
    w.cuda = strcmp(target, "cuda") == 0;
    if (!w.cuda && strcmp(target, "cpu") != 0) return cli_usage(cli, "--target %s: explain one of the two", target);
    if (report && cli_count(cli, "target")) return cli_usage(cli, "--target: %s is compiled already", what);
    if (report) return explain_object(&w, what, report, report_length);
    if ((code = way_settings(&w))) return code;
    cli_limits_begin(cli, &w.limits);
    code = way_plan_text(&w, what, text, length);
    if (!code && w.plans) code = way_fit_memory(&w, what, text, length);
    if (!code && fit && way_is_ir_text(what, text)) code = cli_usage(cli, "--fit needs a document, not a .sir text");
    if (!code && fit) {
        way_free(&w);
        return cli_fit_mesh(cli, what, text, length);
    }
    if (!code) code = check_code(&w);
    code = way_finish(&w, code);
    if (!code && w.plans) {
        report = ir_report(w.plans, cli->arena, NULL, NULL);
        if (cli_count(cli, "kernels") && !(report = with_kernels(&w, report))) code = way_finish(&w, EXIT_WRONG);
    }
    if (!code && w.plans) { code = explain(cli, report, strlen(report), NULL); }
    way_free(&w);
    return code;
}

static int examine(struct cli *cli, const char *name, const char *text, size_t length, struct diags *diags,
                   const char **report)
{
    bool cuda = cli_takes(cli, "target") && strcmp(cli_text(cli, "target", "cpu"), "cuda") == 0;
    struct way w = {.cli = cli, .diags = {.arena = cli->arena}, .cuda = cuda};
    int code = cli_limits(cli, &w.limits);
    if (!code) code = way_settings(&w);
    if (code) return code;
    w.options.reproducer_dir = ""; /* an editor's folder is nobody's for files of ours */
    cli_limits_begin(cli, &w.limits);
    if (!(code = way_plan_text(&w, name, text, length)) && !(code = way_fit_memory(&w, name, text, length)))
        code = way_check_memory(&w);
    if (!code) code = check_code(&w);
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
    int code = way_read_document(&w, path, &text, &length);
    if (!code) code = way_to_module(&w, path, text, length);
    w.options.stop_after = "autodiff";
    w.pass = (struct pass){.options = &w.options, .diags = &w.diags, .keep = cli->arena};
    if (!code) pass_run(&w.pass, w.first, &w.last);
    code = way_finish(&w, code);
    *out = code ? NULL : w.last;
    if (!code && !way_is_ir_text(path, text)) *source = w.diags.source;
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
    if (fflush(stdout) != 0 && code <= 0) /* as in cli_print */
        code = errno == EPIPE ? EXIT_ENVIRONMENT
                              : cli_failed(&cli, EXIT_ENVIRONMENT, "cannot write standard output: %s", strerror(errno));
    arena_free(&arena);
    return code < 0 ? EXIT_DONE : code;
}

int main(int argc, char **argv)
{
    for (int fd = 0; fd < 3; fd++) /* what is closed fails when it is used, and no file takes its place */
        if (fcntl(fd, F_GETFD) < 0) open(fd ? "/" : "/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    /* A line is one write: of ranks whose messages share a terminal or a pipe, each stays whole. The C library's own
     * buffer holds 1 to 4 KiB, whatever size it is asked for; this one is there until exit() has written what it holds.
     */
    char line[1 << 14];
    setvbuf(stderr, line, _IOLBF, sizeof line);
    keep_memory();
    exit(cli_with_stack(work, argc, argv));
}
