/* `stepc bench --by kernel|layer`: some steps are traced as a host would do it, and what the trace says of the workers'
 * time is put together with what the manifest says of the kernels' work. */
#include "frontend/cli/bench.h"
#include "frontend/cli/run.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNEL_COLUMNS = 10, FLOPS_COLUMN = 7, BYTES_COLUMN = 8, TIMES_COLUMN = 9 };

static double number(const cJSON *o, const char *key)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(found) ? found->valuedouble : 0;
}

static const char *text(const cJSON *o, const char *key)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(found) ? found->valuestring : "";
}

/* Work of one run of the entry's kernels, by command; collectives compute little. */
static void read_work(struct run_parts *by, struct arena *a, const cJSON *manifest)
{
    const cJSON *e, *g;
    cJSON_ArrayForEach(e, cJSON_GetObjectItemCaseSensitive(manifest, "entries"))
    {
        if (strcmp(text(e, "name"), "step") != 0) continue;
        cJSON_ArrayForEach(g, cJSON_GetObjectItemCaseSensitive(e, "groups"))
        {
            double column[KERNEL_COLUMNS] = {0};
            for (int k = 0; k < KERNEL_COLUMNS && cJSON_GetArrayItem(g, k); k++)
                column[k] = cJSON_GetArrayItem(g, k)->valuedouble;
            struct run_row row = {.command = (uint32_t)column[0],
                                  .flops = column[FLOPS_COLUMN] * column[TIMES_COLUMN],
                                  .bytes = column[BYTES_COLUMN] * column[TIMES_COLUMN]};
            vec_push(a, &by->rows, row);
        }
    }
}

static struct run_row *row_of(struct run_parts *by, struct arena *a, uint32_t command)
{
    for (size_t i = 0; i < by->rows.count; i++)
        if (by->rows.items[i].command == command) return &by->rows.items[i];
    vec_push(a, &by->rows, (struct run_row){.command = command});
    return &by->rows.items[by->rows.count - 1];
}

/* Those that count are the steps whose calls, of all workers together, took no longer than the middle one: a step that
 * something else interrupted would give all of that to the kernel that ran then. What parts of whole steps take adds
 * up. */
struct steps {
    double seconds[BENCH_TRACED_STEPS]; /* of a step's calls */
    double longest;                     /* of one that counts */
    uint64_t first, count, counted;
};

static uint64_t step_at(const cJSON *event)
{
    return (uint64_t)number(cJSON_GetObjectItemCaseSensitive(event, "args"), "step");
}

static bool of_step(const cJSON *event)
{
    return strcmp(text(cJSON_GetObjectItemCaseSensitive(event, "args"), "entry"), "step") == 0;
}

static struct steps read_steps(const cJSON *trace, uint64_t count)
{
    struct steps s = {.first = UINT64_MAX, .count = count};
    const cJSON *e, *all = cJSON_GetObjectItemCaseSensitive(trace, "traceEvents");
    cJSON_ArrayForEach(e, all) if (of_step(e) && step_at(e) < s.first) s.first = step_at(e);
    cJSON_ArrayForEach(e, all)
    {
        if (of_step(e) && strcmp(text(e, "cat"), "call") == 0 && step_at(e) - s.first < s.count)
            s.seconds[step_at(e) - s.first] += number(e, "dur") * 1e-6;
    }
    double sorted[BENCH_TRACED_STEPS];
    memcpy(sorted, s.seconds, sizeof sorted);
    s.longest = bench_quantile(sorted, (uint32_t)s.count, 0.5);
    for (uint64_t i = 0; i < s.count; i++) s.counted += s.seconds[i] <= s.longest;
    return s;
}

static void read_events(struct run_parts *by, struct arena *a, const cJSON *trace, const struct steps *steps)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, cJSON_GetObjectItemCaseSensitive(trace, "traceEvents"))
    {
        const char *category = text(e, "cat");
        const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(e, "args");
        double seconds = number(e, "dur") * 1e-6;
        if (strcmp(text(e, "name"), "thread_name") == 0) by->workers++;
        if (!of_step(e) || step_at(e) - steps->first >= steps->count) continue;
        bool counts = steps->seconds[step_at(e) - steps->first] <= steps->longest;
        if (strcmp(category, "call") == 0 && counts) by->seconds += seconds;
        if (strcmp(category, "wait") == 0 && counts) by->waiting += seconds;
        if (strcmp(category, "kernel") != 0 && strcmp(category, "collective") != 0) continue;
        struct run_row *row = row_of(by, a, (uint32_t)number(arguments, "command"));
        if (counts) row->seconds += seconds;
        if (!row->name) {
            row->name = arena_string(a, text(e, "name"));
            row->place = arena_string(a, text(arguments, "place"));
            row->kind = strcmp(category, "kernel") == 0 ? arena_string(a, text(arguments, "kind")) : "collective";
        }
    }
}

/* The parts of a place that say which layer it is: /model/layers/3, /define/block/layers/1, /loss, /optimizer. */
static const char *layer_of(struct arena *a, const char *place)
{
    size_t n = 0;
    int parts = strncmp(place, "/define/", 8) == 0 ? 4 : strncmp(place, "/model/", 7) == 0 ? 3 : 1;
    for (int part = 0; part < parts && place[n] == '/'; part++) {
        n++;
        while (place[n] && place[n] != '/' && place[n] != ':') n++;
    }
    return n ? arena_string_n(a, place, n) : "elsewhere";
}

static void by_layer(struct run_parts *by, struct arena *a)
{
    size_t count = 0;
    for (size_t i = 0; i < by->rows.count; i++) {
        struct run_row *row = &by->rows.items[i], *to = NULL;
        const char *layer = layer_of(a, row->place ? row->place : "");
        for (size_t k = 0; k < count && !to; k++)
            if (strcmp(by->rows.items[k].place, layer) == 0) to = &by->rows.items[k];
        if (to) {
            to->seconds += row->seconds, to->flops += row->flops, to->bytes += row->bytes;
            to->kernels++;
            continue;
        }
        struct run_row first = {row->seconds, row->flops, row->bytes, "", layer, "", 0, 1};
        by->rows.items[count++] = first;
    }
    by->rows.count = count;
}

static int longer(const void *a, const void *b)
{
    double x = ((const struct run_row *)a)->seconds, y = ((const struct run_row *)b)->seconds;
    return (x < y) - (x > y);
}

const char *bench_parts(struct arena *a, const char *manifest, const char *trace, size_t length, uint64_t steps,
                        struct run_parts *by)
{
    const cJSON *events = json_read(a, trace, length), *work = json_read(a, manifest, strlen(manifest));
    if (!events || !work) return "it is no JSON";
    if (number(cJSON_GetObjectItemCaseSensitive(events, "otherData"), "lost") > 0)
        return "it has no room for all commands of its steps";
    struct steps s = read_steps(events, steps);
    read_work(by, a, work);
    read_events(by, a, events, &s);
    double parts = (double)by->workers * (double)s.counted;
    for (size_t i = 0; i < by->rows.count; i++) by->rows.items[i].seconds /= parts;
    by->seconds /= parts, by->waiting /= parts;
    return NULL;
}

/* The file is gone when this returns. */
static int read_trace(struct run *r, const char *path, uint64_t steps, struct run_parts *by)
{
    char *bytes;
    size_t length;
    int code = cli_read(r->cli, path, (size_t)1 << 31, &bytes, &length);
    unlink(path);
    if (code) return code;
    const char *why = bench_parts(r->cli->arena, r->manifest, bytes, length, steps, by);
    return why ? cli_failed(r->cli, EXIT_ENVIRONMENT, "--by: the trace of %s: %s", r->path, why) : 0;
}

int run_take_apart(struct run *r, bool layers, int (*some_steps)(void *), void *user, uint64_t steps,
                   struct run_parts *by)
{
    const char *where = getenv("TMPDIR");
    char *path = arena_format(r->cli->arena, "%s/stepc-trace-XXXXXX", where && *where ? where : "/tmp");
    double devices = cli_report_number(r->cli, r->manifest, NULL, "devices");
    int fd = mkstemp(path);
    if (fd < 0) return cli_failed(r->cli, EXIT_ENVIRONMENT, "cannot make %s: %s", path, strerror(errno));
    close(fd);
    unlink(path); /* so that nothing stays where this is stopped while steps run */
    step_status status = r->api->trace(r->instance, path);
    int code = status ? run_status(r, status, "--by") : some_steps(user);
    if (!status && r->api->trace(r->instance, NULL) && !code) code = run_status(r, STEP_EIO, "--by");
    if (code) unlink(path);
    else code = read_trace(r, path, steps, by);
    if (code) return code;
    for (size_t i = 0; i < by->rows.count; i++) by->rows.items[i].flops *= devices, by->rows.items[i].bytes *= devices;
    if (layers) by_layer(by, r->cli->arena);
    qsort(by->rows.items, by->rows.count, sizeof *by->rows.items, longer);
    return 0;
}

/* ---------------------------------------------------------------- what was measured before */

static const struct cJSON *member(const struct cJSON *of, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(of, key);
}

int bench_earlier(struct cli *cli, const char *name, struct run_earlier *out)
{
    char *text;
    size_t length;
    out->path = cli_text(cli, "compare", NULL);
    int code = cli_read(cli, out->path, (size_t)1 << 26, &text, &length);
    if (code) return code;
    const struct cJSON *all = json_read(cli->arena, text, length), *machine = member(all, "machine"),
                       *objects = member(all, "objects"), *is = objects ? objects->child : NULL;
    for (const struct cJSON *o = is; o; o = o->next) {
        const char *named = cJSON_GetStringValue(member(o, "name"));
        if (named && strcmp(named, name) == 0) is = o;
    }
    const struct cJSON *seconds = member(member(is, "seconds"), "median"),
                       *peaks[2] = {member(machine, "flops_per_second"), member(machine, "bytes_per_second")};
    if (!cJSON_IsNumber(seconds) || !cJSON_IsNumber(peaks[0]) || !cJSON_IsNumber(peaks[1]) ||
        !(seconds->valuedouble > 0))
        return cli_failed(cli, EXIT_WRONG, "--compare %s: it is not what `stepc bench --json` writes", out->path);
    out->seconds = seconds->valuedouble;
    for (int i = 0; i < 2; i++) out->peaks[i] = peaks[i]->valuedouble;
    return 0;
}
