/* One function per reader of what comes from outside: any bytes may be given to it, and it may neither crash, end the
 * process, read beside its memory nor leak. READER names the one to call.
 *
 * With READERS_CONTROL it has the negative control alone, which needs no more than arenas: seconds to build.
 *
 * Compiled for libFuzzer or AFL++ (cmake --preset fuzz, readers.py) it has their entry; otherwise it replays the files
 * that are named on its command line, which is what CTest does with the corpus. */
#include "codegen/codegen.h"
#include "frontend/cli/cli.h"
#include "frontend/cli/run.h"
#include "frontend/fe.h"
#include "ir/base/json_scan.h"
#include "passes/pass.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct given {
    struct arena *arena;
    struct cli cli;
    struct diags diags;
    const char *text; /* terminated */
    size_t length;
};

static _Noreturn void defect(const char *what)
{
    fprintf(stderr, "DEFECT: %s\n", what);
    abort();
}

/* BUG ends the process without a word to those that wait for a crash. */
_Noreturn void _exit(int code)
{
    if (code == EXIT_DEFECT) abort();
    for (;;) syscall(SYS_exit_group, code);
}

#ifndef READERS_CONTROL
static void read_json(struct given *g)
{
    struct json json;
    struct json_error error;
    bool good = json_scan(g->arena, g->text, g->length, NULL, &json, &error);
    if (!good && (error.offset > g->length || error.length > g->length + 1 - error.offset))
        defect("a place outside of the text");
}

/* The frontend's module, as sound as the verifier wants it. */
static void compile(struct given *g, const char *text, size_t length, const struct fe_define *define)
{
    struct fe_options options = {.defines = define, .define_count = define != NULL};
    g->diags.source = (struct diag_source){"document.json", text, length};
    struct ir_module *m = fe_compile("document.json", text, length, &options, &g->diags);
    struct str faults = STR(g->arena);
    if (!m && !g->diags.errors) defect("refused without a diagnostic");
    if (m && !g->diags.errors && !ir_verify(m, &faults)) defect(str_text(&faults));
    diags_print(&g->diags, stderr, true, false);
    if (m) ir_module_free(m);
}

static void read_document(struct given *g) { compile(g, g->text, g->length, NULL); }

static void read_expression(struct given *g)
{
    struct str text = STR(g->arena);
    str_add(&text, "{\"stepc\": 1, \"inputs\": {\"x\": {\"shape\": [4, 3], \"dtype\": \"float32\"}, "
                   "\"n\": {\"shape\": [4], \"dtype\": \"int32\"}}, \"model\": {\"type\": \"linear\", \"features\": 2, "
                   "\"input\": \"x\"}, \"loss\": ");
    str_add_json(&text, g->text);
    str_add(&text, ", \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.1}}");
    compile(g, str_text(&text), text.length, NULL);
}

static void read_define(struct given *g)
{
    static const char text[] =
        "{\"stepc\": 1, \"constants\": {\"a\": 2}, \"inputs\": {\"x\": {\"shape\": [\"$a\", 3], "
        "\"dtype\": \"float32\"}}, \"model\": {\"type\": \"linear\", \"features\": \"$2 * a\", \"input\": "
        "\"x\"}, \"loss\": \"mean(model)\", \"optimizer\": {\"type\": \"sgd\", \"learning_rate\": \"$1 / a\"}}";
    compile(g, text, sizeof text - 1, &(struct fe_define){"a", g->text});
}

/* The text form: what was read and is printed reads as the same. */
static void read_ir(struct given *g)
{
    g->diags.source = (struct diag_source){"m.sir", g->text, g->length};
    struct ir_module *m = ir_parse(g->text, g->length, &g->diags);
    diags_print(&g->diags, stderr, true, false);
    if (!m && !g->diags.errors) defect("refused without a diagnostic");
    if (!m) return;
    struct str first = STR(g->arena), again = STR(g->arena);
    ir_print(m, &first);
    struct ir_module *same = ir_parse(str_text(&first), first.length, &g->diags);
    if (!same) defect("what was printed is refused");
    ir_print(same, &again);
    if (strcmp(str_text(&first), str_text(&again)) != 0) defect("what was printed reads as something else");
    ir_module_free(same);
    ir_module_free(m);
}

/* On to plans and nests, wherever the text stands. */
static void read_plans(struct given *g)
{
    struct pass_options options = {.verify_each = true, .reproducer_dir = "/dev/null", .consumes = true};
    struct pass pass = {.options = &options, .diags = &g->diags, .keep = g->arena};
    struct ir_module *last = NULL;
    struct cg_target target = {0};
    const char *why;
    g->diags.source = (struct diag_source){"m.sir", g->text, g->length};
    struct ir_module *m = ir_parse(g->text, g->length, &g->diags);
    struct plan_module *plans = m && !g->diags.errors ? pass_run(&pass, m, &last) : NULL;
    if (plans) {
        ir_report(plans, g->arena, NULL, NULL);
        if (!cg_target_init(&target, "x86-64-v3", &why, g->arena)) defect(why);
        for (size_t i = 0; i < plans->plans.count; i++) {
            const struct plan *p = plans->plans.items[i];
            struct cg_kernel *kernels = arena_new_array(g->arena, struct cg_kernel, p->groups.count + 1);
            if (!cg_lower(plans, p, &target, g->arena, &g->diags, kernels) && !g->diags.errors)
                defect("not lowered without a diagnostic");
        }
    }
    diags_print(&g->diags, stderr, true, false);
    if (last) ir_module_free(last);
    else if (m) ir_module_free(m);
    arena_free(&pass.scratch);
}

/* A file with these bytes. */
static const char *file_of(struct given *g, int *fd)
{
    *fd = memfd_create("given", MFD_CLOEXEC);
    if (*fd < 0 || write(*fd, g->text, g->length) != (ssize_t)g->length) defect(strerror(errno));
    return arena_format(g->arena, "/proc/self/fd/%d", *fd);
}

static void read_tensors(struct given *g, struct st_file *f)
{
    char error[ST_TEXT];
    for (uint32_t i = 0; i < f->count; i++) {
        const struct st_tensor *t = &f->tensors[i];
        if (t->bytes > g->length) defect("a tensor is larger than its file");
        char *memory = malloc(t->bytes + 1);
        if (memory && st_read(f, t, 0, memory, t->bytes, error)) defect("a tensor that the header has cannot be read");
        free(memory);
    }
    st_close(f);
}

static void read_safetensors(struct given *g)
{
    struct st_file f;
    char error[ST_TEXT];
    int fd;
    if (st_open(&f, file_of(g, &fd), error) == STEP_OK) read_tensors(g, &f);
    close(fd);
}

static void read_npy(struct given *g)
{
    struct st_file f;
    int fd;
    const char *path = file_of(g, &fd);
    if (run_npy_open(&g->cli, &f, "x", path) == 0) read_tensors(g, &f);
    close(fd);
}

static void read_note(struct given *g)
{
    const char *report;
    size_t length;
    if (cli_read_note(&g->cli, "step.so", g->text, g->length, &report, &length) == 0 && report)
        cli_explain_report(&g->cli, report, length);
}

static void read_report(struct given *g) { cli_explain_report(&g->cli, g->text, g->length); }

static void read_glob(struct given *g)
{
    const char *path = memchr(g->text, '\n', g->length);
    if (!path) return;
    glob_match(arena_string_n(g->arena, g->text, (size_t)(path - g->text)), path + 1);
}

#endif

/* The negative control: a defect that a fuzzer must find. */
static void read_control(struct given *g)
{
    if (g->text[0] == 'f' && g->text[1] == 'u' && g->text[2] == 'z' && g->text[3] == 'z') defect("planted");
}

static const struct reader {
    const char *name;
    void (*read)(struct given *);
} readers[] = {
#ifndef READERS_CONTROL
    {"json", read_json},
    {"document", read_document},
    {"expression", read_expression},
    {"define", read_define},
    {"ir", read_ir},
    {"plans", read_plans},
    {"safetensors", read_safetensors},
    {"npy", read_npy},
    {"note", read_note},
    {"report", read_report},
    {"glob", read_glob},
#endif
    {"control", read_control}};

static const struct reader *wanted(void)
{
    const char *name = getenv("READER");
    for (size_t i = 0; name && i < sizeof readers / sizeof *readers; i++)
        if (strcmp(readers[i].name, name) == 0) return &readers[i];
    fprintf(stderr, "READER is none of");
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) fprintf(stderr, " %s", readers[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct arena arena = {0};
    char *text = malloc(length + 1); /* of its own, so that a byte too far shows */
    if (!text) return 0;
    memcpy(text, data, length);
    text[length] = 0;
    struct given g = {.arena = &arena,
                      .cli = {.arena = &arena, .quiet = true},
                      .diags = {.arena = &arena},
                      .text = text,
                      .length = length};
    wanted()->read(&g);
    arena_free(&arena);
    free(text);
    return 0;
}

#ifndef STEPC_FUZZER
static const char *at; /* the file at hand */

static void tell(void)
{
    if (at && write(STDERR_FILENO, at, strlen(at)) > 0 && write(STDERR_FILENO, ": ended the process\n", 20) < 0)
        _exit(4);
}

int main(int argc, char **argv)
{
    wanted();
    atexit(tell);
    if (!freopen("/dev/null", "w", stdout)) return 3;
    FILE *quiet = getenv("LOUD") ? NULL : fopen("/dev/null", "w");
    if (quiet) stderr = quiet;
    for (int i = 1; i < argc; i++) {
        static uint8_t data[1 << 20];
        at = argv[i];
        int fd = open(at, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data);
        if (n < 0) return 3;
        close(fd);
        LLVMFuzzerTestOneInput(data, (size_t)n);
    }
    at = NULL;
    return 0;
}
#endif
