/* `stepc bench`: how long a step takes, and what that is of what the machine can do. Rounds of a few milliseconds:
 * every object in turn (the order changes from round to round), then the machine's own peaks, so that all have the same
 * noise; what is said are medians over the rounds, and of two objects the median of the ratios within a round. */
#include "frontend/cli/bench.h"
#include "frontend/cli/draw.h"
#include "frontend/cli/run.h"
#include "ir/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { LEAST_ROUNDS = 7, MOST_ROUNDS = 1000, MOST_OBJECTS = 2 };
static const double slice = 0.03, warm_most = 3; /* seconds of an object in a round; of warming up */

struct object {
    const char *given; /* the path on the command line */
    struct run run;
    struct step_array *inputs;
    size_t input_count;
    uint64_t steps, per_round; /* done; of a round */
    double rows, tokens, flops, bytes;
    struct step_memory memory;
    double *seconds; /* of a step, per round */
    double loss;
    struct run_parts by;
};
struct bench {
    struct cli *cli;
    struct object objects[MOST_OBJECTS];
    uint32_t count, rounds, threads;
    void *memory;
    double *probes[2]; /* operations and bytes per second, per round */
    struct run_earlier earlier;
};

/* ---------------------------------------------------------------- opening */

static bool is_object(const char *path)
{
    char magic[4] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is = fd >= 0 && pread(fd, magic, sizeof magic, 0) == 4 && memcmp(magic, "\177ELF", 4) == 0;
    if (fd >= 0) close(fd);
    return is;
}

/* What only a document can be given; `passed` ends with what else compiling is told. */
enum { OF_DOCUMENTS = 9 };
static const char *const passed[] = {"define",   "mesh",        "cpu",   "optimize",   "blas",
                                     "numerics", "chunk-rows",  "remat", "max-memory", "limit",
                                     "timeout",  "diagnostics", "color"};

/* A document becomes an object as `stepc compile` makes it, in a process of its own. */
static int compile(struct bench *b, const char *from, const char *to)
{
    VEC(char *) line = {0};
    struct cli *cli = b->cli;
    const char *first[] = {"/proc/self/exe", "compile", "--quiet", "-o", to};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) vec_push(cli->arena, &line, (char *)(uintptr_t)first[i]);
    for (size_t i = 0; i < cli->given.count; i++)
        for (size_t k = 0; k < sizeof passed / sizeof *passed; k++)
            if (strcmp(cli->given.items[i].option->name, passed[k]) == 0)
                vec_push(cli->arena, &line, arena_format(cli->arena, "--%s=%s", passed[k], cli->given.items[i].value));
    vec_push(cli->arena, &line, (char *)(uintptr_t) "--");
    vec_push(cli->arena, &line, (char *)(uintptr_t)from);
    vec_push(cli->arena, &line, NULL);
    pid_t pid;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    int status = 0, error = posix_spawnattr_init(&how);
    if (!error) {
        posix_spawnattr_setsigmask(&how, &none);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
        error = posix_spawn(&pid, line.items[0], NULL, &how, line.items, environ);
        posix_spawnattr_destroy(&how);
    }
    if (error) return cli_failed(cli, EXIT_ENVIRONMENT, "cannot start the compiler: %s", strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_ENVIRONMENT;
}

/* The folder is gone before anything runs; a signal that comes before has to wait until then. */
static int open_document(struct bench *b, struct object *o)
{
    const char *where = getenv("TMPDIR");
    char *folder = arena_format(b->cli->arena, "%s/stepc-bench-XXXXXX", where && *where ? where : "/tmp");
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    int code = mkdtemp(folder) ? 0
                               : cli_failed(b->cli, EXIT_ENVIRONMENT, "cannot make %s: %s", folder, strerror(errno));
    const char *path = arena_format(b->cli->arena, "%s/step.so", folder);
    if (!code) {
        code = compile(b, o->given, path);
        o->run.path = path;
        if (!code) code = run_open(&o->run);
        unlink(path);
        rmdir(folder);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return code;
}

/* What a step is given, and how much of it. */
static int prepare(struct bench *b, struct object *o)
{
    const struct step_api *api = o->run.api;
    double devices = cli_report_number(b->cli, o->run.manifest, NULL, "devices");
    o->flops = cli_report_number(b->cli, o->run.manifest, "step", "flops") * devices;
    o->bytes = cli_report_number(b->cli, o->run.manifest, "step", "bytes") * devices;
    struct cli_draw draw = {b->cli->arena, api, o->run.instance, b->cli, o->run.manifest, false};
    step_status status = cli_draw_state(&draw);
    if (status) return run_status(&o->run, status, o->given);
    if (cli_count(b->cli, "data")) return run_data_open(&o->run, &o->run.data, "--data");
    o->inputs = cli_draw(&draw, STEP_INPUT, &o->input_count);
    for (int zeros = 0; zeros < 2; zeros++) { /* labels whose range no manifest tells */
        struct step_batch batch = {.size = sizeof batch, .inputs = o->inputs, .input_count = o->input_count};
        status = api->step(o->run.instance, &batch, NULL);
        if (status != STEP_ERANGE) break;
        draw.zeros = true;
        o->inputs = cli_draw(&draw, STEP_INPUT, &o->input_count);
    }
    return status ? run_status(&o->run, status, o->given) : 0;
}

/* Rows are the first extent of the inputs that have one, tokens the extents of the first integers of two dimensions. */
static void count_rows(struct object *o)
{
    size_t n = o->run.api->tensor_count(o->run.instance, STEP_INPUT);
    for (size_t i = 0; i < n; i++) {
        struct step_tensor t = {.size = sizeof t};
        o->run.api->tensor_at(o->run.instance, STEP_INPUT, i, &t);
        if (t.rank > 0 && (double)t.shape[0] > o->rows) o->rows = (double)t.shape[0];
        if (t.rank == 2 && t.dtype < STEP_F8E4M3 && t.dtype != STEP_BOOL && !o->tokens)
            o->tokens = (double)t.shape[0] * (double)t.shape[1];
    }
}

/* Of what is for documents nothing is lost without a word. */
static int check_documents(struct cli *cli)
{
    for (size_t i = 0; i < cli->operands.count; i++)
        if (!is_object(cli->operands.items[i])) return 0;
    for (size_t i = 0; i < OF_DOCUMENTS; i++)
        if (cli_count(cli, passed[i]))
            return cli_usage(cli, "--%s is for documents; %s is compiled already", passed[i], cli->operands.items[0]);
    return 0;
}

static int open_one(struct bench *b, struct object *o, const char *given)
{
    o->given = given;
    o->run.cli = b->cli;
    o->run.path = given;
    o->run.fits = true; /* check_documents has seen to it */
    if (access(given, R_OK)) return cli_failed(b->cli, EXIT_ENVIRONMENT, "cannot read %s: %s", given, strerror(errno));
    int code = is_object(given) ? run_open(&o->run) : open_document(b, o);
    if (!code) code = prepare(b, o);
    if (!code) count_rows(o);
    return code;
}

/* ---------------------------------------------------------------- measuring */

/* Seconds of one of `n` steps. */
static int some_steps(struct object *o, uint64_t n, double *seconds)
{
    struct step_batch batch = {.size = sizeof batch, .inputs = o->inputs, .input_count = o->input_count};
    struct step_result result = {.size = sizeof result};
    double taken = 0;
    for (uint64_t k = 0; k < n; k++, o->steps++) {
        int code = cli_count(o->run.cli, "data") ? run_data_batch(&o->run, &o->run.data, o->steps, &batch) : 0;
        if (code) return code;
        double begin = k && !cli_count(o->run.cli, "data") ? 0 : clock_seconds();
        if (begin != 0) taken -= begin;
        step_status status = o->run.api->step(o->run.instance, &batch, &result);
        if (status) return run_status(&o->run, status, o->given);
        if (k + 1 == n || cli_count(o->run.cli, "data")) taken += clock_seconds();
    }
    o->loss = result.loss;
    *seconds = taken / (double)n;
    return 0;
}

/* Until three rounds in a row are within 5 % of the best one, for three seconds at most; then it is known how many
 * steps make a round. */
static int warm_up(struct object *o)
{
    double seconds = 0, best = INFINITY, begin = clock_seconds();
    int code = some_steps(o, 1, &seconds);
    for (int good = 0; !code && good < 3 && clock_seconds() - begin < warm_most;) {
        uint64_t n = seconds < slice ? (uint64_t)(slice / 3 / fmax(seconds, 1e-8)) + 1 : 1;
        code = some_steps(o, n, &seconds);
        good = seconds < 1.05 * best ? good + 1 : 0;
        best = fmin(best, seconds);
    }
    o->per_round = best < slice ? (uint64_t)(slice / fmax(best, 1e-8)) + 1 : 1;
    return code;
}

static int measure(struct bench *b)
{
    double seconds = (double)cli_integer(b->cli, "seconds", 5), begin;
    uint32_t wanted = (uint32_t)cli_integer(b->cli, "rounds", 0);
    int code = 0;
    for (uint32_t i = 0; i < b->count && !code; i++) code = warm_up(&b->objects[i]);
    begin = clock_seconds();
    while (!code && b->rounds < MOST_ROUNDS &&
           (wanted ? b->rounds < wanted : b->rounds < LEAST_ROUNDS || clock_seconds() - begin < seconds)) {
        for (uint32_t i = 0; i < b->count && !code; i++) {
            struct object *o = &b->objects[b->rounds % 2 ? b->count - 1 - i : i];
            code = some_steps(o, o->per_round, &o->seconds[b->rounds]);
        }
        b->probes[0][b->rounds] = bench_probe_flops(b->threads);
        b->probes[1][b->rounds] = bench_probe_bytes(b->threads, b->memory);
        b->rounds++;
    }
    for (uint32_t i = 0; i < b->count && !code; i++) {
        b->objects[i].memory.size = sizeof b->objects[i].memory;
        b->objects[i].run.api->memory(b->objects[i].run.instance, 0, &b->objects[i].memory);
    }
    return code;
}

static uint64_t traced_steps(const struct object *o)
{
    return o->per_round < 3 ? 3 : o->per_round > BENCH_TRACED_STEPS ? BENCH_TRACED_STEPS : o->per_round;
}

static int run_traced(void *object)
{
    double ignored;
    return some_steps(object, traced_steps(object), &ignored);
}

static int take_apart(struct bench *b)
{
    const char *by = cli_text(b->cli, "by", NULL);
    int code = 0;
    for (uint32_t i = 0; by && i < b->count && !code; i++) {
        struct object *o = &b->objects[i];
        code = run_take_apart(&o->run, strcmp(by, "layer") == 0, run_traced, o, traced_steps(o), &o->by);
    }
    return code;
}

/* ---------------------------------------------------------------- saying */

static double median(struct bench *b, const double *of)
{
    double *x = arena_new_array(b->cli->arena, double, b->rounds);
    memcpy(x, of, b->rounds * sizeof *x);
    return bench_quantile(x, b->rounds, 0.5);
}

/* Three digits and the unit of a thousand. */
static const char *scaled(struct bench *b, double x, const char *unit)
{
    static const char *const units[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    int u = 3;
    while (x >= 999.5 && u < 9) x /= 1000, u++;
    while (x > 0 && x < 0.9995 && u > 0) x *= 1000, u--;
    return arena_format(b->cli->arena, "%.*f %s%s", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, units[u], unit);
}

struct summary {
    double median, low, high, part5, part95, best; /* seconds */
    double shares[2];                              /* of the machine's peaks in the same round */
};

static struct summary summary_of(struct bench *b, struct object *o)
{
    double *x = arena_new_array(b->cli->arena, double, b->rounds), between[2];
    struct summary s;
    for (int probe = 0; probe < 2; probe++) {
        for (uint32_t r = 0; r < b->rounds; r++)
            x[r] = (probe ? o->bytes : o->flops) / o->seconds[r] / b->probes[probe][r];
        s.shares[probe] = bench_quantile(x, b->rounds, 0.5);
    }
    memcpy(x, o->seconds, b->rounds * sizeof *x);
    s.median = bench_quantile(x, b->rounds, 0.5);
    s.part5 = bench_quantile(x, b->rounds, 0.05), s.part95 = bench_quantile(x, b->rounds, 0.95), s.best = x[0];
    bench_confidence(x, b->rounds, between);
    s.low = between[0], s.high = between[1];
    return s;
}

/* Time of the second object over that of the first, and where that lies in truth. */
static void ratio_of(struct bench *b, double *middle, double between[2])
{
    double *x = arena_new_array(b->cli->arena, double, b->rounds);
    for (uint32_t r = 0; r < b->rounds; r++) x[r] = b->objects[1].seconds[r] / b->objects[0].seconds[r];
    *middle = bench_quantile(x, b->rounds, 0.5);
    bench_confidence(x, b->rounds, between);
}

/* Time of the first object in the file of --compare over its time now, as it was measured and, `even`, as if the
 * machine had had the same peak then: that of operations or of bytes, of which a step reaches the larger share. */
static double ratio_to_earlier(struct bench *b, double *even)
{
    struct summary s = summary_of(b, &b->objects[0]);
    int probe = s.shares[1] > s.shares[0];
    double ratio = b->earlier.seconds / s.median;
    *even = ratio * b->earlier.peaks[probe] / median(b, b->probes[probe]);
    return ratio;
}

static void say_object(struct bench *b, struct object *o, struct str *out)
{
    struct summary s = summary_of(b, o);
    const char *head = cli_headline(b->cli, o->run.manifest, strlen(o->run.manifest));
    str_addf(out, "%s: %s", o->given, head ? head : "\n");
    str_addf(out, "step      %s, 95 %% %s to %s; rounds: 5 %% %s, 95 %% %s, best %s\n", scaled(b, s.median, "s"),
             scaled(b, s.low, "s"), scaled(b, s.high, "s"), scaled(b, s.part5, "s"), scaled(b, s.part95, "s"),
             scaled(b, s.best, "s"));
    if (o->rows > 0) str_addf(out, "rate      %s", scaled(b, o->rows / s.median, "rows/s"));
    if (o->tokens > 0) str_addf(out, ", %s", scaled(b, o->tokens / s.median, "tokens/s"));
    if (o->rows > 0) str_add(out, "\n");
    str_addf(out, "work      %s, %.0f %% of the peak; %s, %s\n", scaled(b, o->flops / s.median, "FLOP/s"),
             s.shares[0] * 100, scaled(b, o->bytes / s.median, "B/s"),
             s.shares[1] > 1.05 ? "more than memory gives: from caches"
                                : arena_format(b->cli->arena, "%.0f %% of the peak", s.shares[1] * 100));
    str_addf(out, "memory    %s predicted, %s measured, per device\n", scaled(b, (double)o->memory.planned_peak, "B"),
             scaled(b, (double)o->memory.measured_peak, "B"));
    if (!isfinite(o->loss)) str_add(out, "loss      not finite on these inputs; --data gives others\n");
}

/* The part of its time that a kernel would need if it reached the nearer one of the machine's peaks. */
static double share_of_roof(struct bench *b, const struct run_row *row)
{
    double least = fmax(row->flops / median(b, b->probes[0]), row->bytes / median(b, b->probes[1]));
    return row->seconds > 0 ? least / row->seconds : 0;
}

static void say_rows(struct bench *b, struct object *o, struct str *out)
{
    const struct run_parts *by = &o->by;
    if (!by->rows.count) return;
    str_addf(out, "\n%s, traced: %s per step, workers wait %.1f %% of it for others\n", o->given,
             scaled(b, by->seconds, "s"), by->waiting / by->seconds * 100);
    str_addf(out, "  %6s  %8s  %11s  %9s  %7s  %s\n", "share", "time", "FLOP/s", "B/s", "of roof",
             by->rows.items[0].kernels ? "layer" : "kernel");
    for (size_t i = 0; i < by->rows.count; i++) {
        const struct run_row *row = &by->rows.items[i];
        double roof = share_of_roof(b, row) * 100;
        str_addf(out, "  %4.1f %%  %8s  %11s  %9s  %7s  ", row->seconds / by->seconds * 100,
                 scaled(b, row->seconds, "s"), row->flops > 0 ? scaled(b, row->flops / row->seconds, "") : "-",
                 row->bytes > 0 ? scaled(b, row->bytes / row->seconds, "") : "-",
                 roof <= 0 ? "-"
                 : roof <= 105 || row->flops / median(b, b->probes[0]) > row->seconds
                     ? arena_format(b->cli->arena, "%.0f %%", roof)
                     : "caches");
        if (row->kernels) str_addf(out, "%s (%u kernel%s)\n", row->place, row->kernels, row->kernels == 1 ? "" : "s");
        else str_addf(out, "%-10s %s  %s\n", row->kind, row->place, row->name);
    }
}

static const char *text_of(struct bench *b)
{
    struct str out = STR(b->cli->arena);
    double middle, between[2];
    for (uint32_t i = 0; i < b->count; i++) say_object(b, &b->objects[i], &out);
    str_addf(&out, "machine   peaks of %u thread%s in the same %u rounds: %s of float32, %s in place\n", b->threads,
             b->threads == 1 ? "" : "s", b->rounds, scaled(b, median(b, b->probes[0]), "FLOP/s"),
             scaled(b, median(b, b->probes[1]), "B/s"));
    for (uint32_t i = 0; i < b->count; i++) say_rows(b, &b->objects[i], &out);
    if (b->earlier.path) {
        double even, ratio = ratio_to_earlier(b, &even);
        str_addf(&out, "compare   %s: %s then, %.3fx %s now; %.3fx %s where the machine's peaks are made even\n",
                 b->earlier.path, scaled(b, b->earlier.seconds, "s"), ratio >= 1 ? ratio : 1 / ratio,
                 ratio >= 1 ? "faster" : "slower", even >= 1 ? even : 1 / even, even >= 1 ? "faster" : "slower");
    }
    if (b->count < 2) return str_text(&out);
    ratio_of(b, &middle, between);
    bool sure = between[0] > 1 || between[1] < 1, faster = middle >= 1;
    double low = faster ? between[0] : 1 / between[1], high = faster ? between[1] : 1 / between[0];
    str_addf(&out, "verdict   %s: %.3fx %s than %s, 95 %% %.3f to %.3f%s\n", b->objects[0].given,
             faster ? middle : 1 / middle, faster ? "faster" : "slower", b->objects[1].given, low, high,
             sure ? "" : ": no difference that these rounds show");
    return str_text(&out);
}

static void add(struct json_tree to, const char *key, double x) { json_add_number(to, key, x, false); }

static void add_row(struct bench *b, struct json_tree to, const struct run_row *row)
{
    json_add_text(to, "place", row->place);
    if (row->kernels) json_add_integer(to, "kernels", row->kernels);
    else {
        json_add_integer(to, "command", row->command);
        json_add_text(to, "kind", row->kind);
        json_add_text(to, "ops", row->name);
    }
    add(to, "seconds", row->seconds), add(to, "flops", row->flops), add(to, "bytes", row->bytes);
    add(to, "share_of_roof", share_of_roof(b, row));
}

static const char *json_of(struct bench *b)
{
    struct json_tree out = json_object(b->cli->arena);
    json_add_integer(out, "schema", 1);
    json_add_integer(out, "rounds", b->rounds);
    struct json_tree machine = json_add_object(out, "machine"), objects = json_add_array(out, "objects");
    json_add_integer(machine, "threads", b->threads);
    add(machine, "flops_per_second", median(b, b->probes[0]));
    add(machine, "bytes_per_second", median(b, b->probes[1]));
    for (uint32_t i = 0; i < b->count; i++) {
        struct object *o = &b->objects[i];
        struct summary s = summary_of(b, o);
        struct json_tree to = json_add_object(objects, NULL), seconds = {0};
        json_add_text(to, "path", o->given);
        json_add_text(to, "name", cli_report_name(b->cli, o->run.manifest));
        seconds = json_add_object(to, "seconds");
        add(seconds, "median", s.median), add(seconds, "low", s.low), add(seconds, "high", s.high);
        add(seconds, "p5", s.part5), add(seconds, "p95", s.part95), add(seconds, "best", s.best);
        if (o->rows > 0) add(to, "rows_per_second", o->rows / s.median);
        if (o->tokens > 0) add(to, "tokens_per_second", o->tokens / s.median);
        add(to, "flops_per_second", o->flops / s.median), add(to, "share_of_flops", s.shares[0]);
        add(to, "bytes_per_second", o->bytes / s.median), add(to, "share_of_bytes", s.shares[1]);
        json_add_integer(to, "memory_predicted", (int64_t)o->memory.planned_peak);
        json_add_integer(to, "memory_measured", (int64_t)o->memory.measured_peak);
        add(to, "loss", o->loss);
        if (!o->by.rows.count) continue;
        add(to, "seconds_traced", o->by.seconds), add(to, "seconds_waiting", o->by.waiting);
        struct json_tree rows = json_add_array(to, "by");
        for (size_t k = 0; k < o->by.rows.count; k++) add_row(b, json_add_object(rows, NULL), &o->by.rows.items[k]);
    }
    if (b->earlier.path) {
        double even, ratio = ratio_to_earlier(b, &even);
        struct json_tree compared = json_add_object(out, "compared");
        json_add_text(compared, "path", b->earlier.path);
        add(compared, "speedup", ratio), add(compared, "speedup_even", even);
    }
    if (b->count == 2) {
        double middle, between[2];
        ratio_of(b, &middle, between);
        struct json_tree ratio = json_add_object(out, "speedup");
        add(ratio, "median", middle), add(ratio, "low", between[0]), add(ratio, "high", between[1]);
    }
    return json_print_lines(out);
}

/* 1 where the first object takes more than so many times the time of the second, or of what it took earlier; 1.03 and
 * 3% are the same. */
static int judge(struct bench *b, double most)
{
    double middle, between[2];
    if (b->count == 2) ratio_of(b, &middle, between);
    else ratio_to_earlier(b, &middle);
    if (1 / middle <= most) return 0;
    return cli_failed(b->cli, EXIT_WRONG, "--fail-above %s: %s takes %.3f times as long as %s",
                      cli_text(b->cli, "fail-above", ""), b->objects[0].given, 1 / middle,
                      b->count == 2 ? b->objects[1].given : b->earlier.path);
}

static int read_most(struct bench *b, double *most)
{
    const char *text = cli_text(b->cli, "fail-above", NULL);
    char *end;
    if (!text) return 0;
    *most = strtod(text, &end);
    if (*end == '%') *most = 1 + *most / 100, end++;
    if (end == text || *end || !(*most > 0) || !isfinite(*most))
        return cli_usage(b->cli, "--fail-above %s: expected a ratio of times such as 1.03, or 3%%", text);
    return b->cli->operands.count == 2 || cli_count(b->cli, "compare")
               ? 0
               : cli_usage(b->cli, "--fail-above needs a second object to compare with, or --compare FILE");
}

int cli_bench(struct cli *cli)
{
    struct bench b = {.cli = cli};
    cpu_set_t set[RT_CPU_SETS];
    double most = 0;
    int64_t asked = cli_integer(cli, "threads", 0), rounds = cli_integer(cli, "rounds", 0);
    int code = read_most(&b, &most);
    if (!code) code = check_documents(cli);
    if (!code && cli_count(cli, "rounds") && (rounds < 1 || rounds > MOST_ROUNDS))
        code = cli_usage(cli, "--rounds: 1 to %d", MOST_ROUNDS);
    for (size_t i = 0; i < cli->operands.count && !code; i++)
        code = open_one(&b, &b.objects[b.count++], cli->operands.items[i]);
    if (!code && cli_count(cli, "compare"))
        code = bench_earlier(cli, cli_report_name(cli, b.objects[0].run.manifest), &b.earlier);
    uint32_t cores = sched_getaffinity(0, sizeof set, set) == 0 ? (uint32_t)CPU_COUNT_S(sizeof set, set) : 1,
             devices = 1;
    for (uint32_t i = 0; i < b.count && !code; i++) {
        uint32_t n = (uint32_t)cli_report_number(cli, b.objects[i].run.manifest, NULL, "devices");
        if (n > devices) devices = n;
        b.objects[i].seconds = arena_new_array(cli->arena, double, MOST_ROUNDS);
    }
    b.threads = asked && (uint64_t)asked * devices < cores ? (uint32_t)asked * devices : cores;
    for (int i = 0; i < 2; i++) b.probes[i] = arena_new_array(cli->arena, double, MOST_ROUNDS);
    if (!code) b.memory = bench_probe_memory(arena_alloc(cli->arena, bench_probe_room()));
    if (!code) code = measure(&b);
    if (!code) code = take_apart(&b);
    const char *text = code ? "" : cli_count(cli, "json") ? json_of(&b) : text_of(&b);
    if (!code) code = cli_print(cli, text, strlen(text));
    if (!code && most > 0) code = judge(&b, most);
    for (uint32_t i = 0; i < b.count; i++) {
        run_data_close(&b.objects[i].run.data);
        if (b.objects[i].run.api) run_close(&b.objects[i].run);
    }
    return code;
}
