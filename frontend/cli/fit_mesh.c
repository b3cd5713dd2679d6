/* stepc explain MODEL --fit 16GiB --devices 8: which meshes of so many devices hold the step, and what each device then
 * needs, computes and sends. Tried are all sizes of the axes that the document names (without any: "data" alone, which
 * splits the batch); where the first one has all devices also with the optimizer's state split along it, if the
 * document does not say how that lies. Every trial is a compilation up to the memory plan, in a process of its own. */
#include "frontend/cli/explain.h"
#include "frontend/fe.h"
#include "ir/ir.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TRIALS = 256, FLOP_PER_BYTE = 20 /* sent: of cores of 500 GFLOP/s behind a link of 25 GB/s */ };

struct found { /* by a trial, through a pipe */
    double peak, flops, sent;
    bool planned, fits, searched; /* searched: only with what --max-memory chose */
};
struct trial {
    const char *mesh; /* data=4,model=2 */
    bool splits_state;
    struct found found;
};
struct fitting {
    struct cli *cli;
    const char *path, *size;
    node document;
    VEC(const char *) axes;
    VEC(struct trial) trials;
    bool adds_rules, knows_state;
    uint64_t most, devices;
};

/* ---------------------------------------------------------------- what is tried */

static void add_axis(struct fitting *f, const char *name)
{
    for (size_t i = 0; i < f->axes.count; i++)
        if (strcmp(f->axes.items[i], name) == 0) return;
    if (f->axes.count < IR_MAX_AXES) vec_push(f->cli->arena, &f->axes, name);
}

static void add_axes(struct fitting *f, node of)
{
    if (cJSON_IsString(of)) add_axis(f, of->valuestring);
    for (node n = cJSON_IsArray(of) ? first(of) : NULL; n; n = next(n)) add_axes(f, n);
}

/* Of the mesh, else those that rules name. */
static void find_axes(struct fitting *f)
{
    node sharding = at(f->document, "sharding");
    for (node a = first(at(at(f->document, "mesh"), "axes")); a; a = next(a)) add_axis(f, a->string);
    for (node rule = first(at(sharding, "rules")); !at(f->document, "mesh") && rule; rule = next(rule))
        add_axes(f, first(rule) ? next(first(rule)) : NULL);
    if (!f->axes.count) add_axis(f, "data");
    f->adds_rules = !sharding;
    f->knows_state = at(sharding, "optimizer_state") != NULL;
}

static bool first_has_all(const struct fitting *f, const char *mesh)
{
    return strtoull(mesh + strlen(f->axes.items[0]) + 1, NULL, 10) == f->devices;
}

/* All ways to write `left` as a product of sizes of the axes from i on. */
static void add_trials(struct fitting *f, size_t i, uint64_t left, const char *mesh)
{
    bool last = i + 1 == f->axes.count;
    for (uint64_t size = 1; size <= left && f->trials.count < MOST_TRIALS; size++) {
        if (left % size || (last && size != left)) continue;
        const char *so = arena_format(f->cli->arena, "%s%s%s=%llu", mesh, i ? "," : "", f->axes.items[i],
                                      (unsigned long long)size);
        if (!last) add_trials(f, i + 1, left / size, so);
        bool splits = last && !f->knows_state && f->devices > 1 && first_has_all(f, so);
        if (last) vec_push(f->cli->arena, &f->trials, ((struct trial){.mesh = so}));
        if (splits) vec_push(f->cli->arena, &f->trials, ((struct trial){.mesh = so, .splits_state = true}));
    }
}

/* The document with the sharding that a trial adds. */
static struct json_tree sharding_of(struct fitting *f, const struct trial *t)
{
    struct arena *a = f->cli->arena;
    struct json_tree out = json_object(a);
    for (node n = first(at(f->document, "sharding")); n; n = next(n)) json_add(out, n->string, json_copy(a, n));
    if (f->adds_rules) {
        struct json_tree rule = json_add_array(json_add_array(out, "rules"), NULL);
        json_add_text(rule, NULL, "batch");
        json_add_text(rule, NULL, f->axes.items[0]);
    }
    if (t->splits_state)
        json_add_text(json_add_array(json_add_object(out, "optimizer_state"), "**"), NULL, f->axes.items[0]);
    return out;
}

static const char *text_of(struct fitting *f, const struct trial *t)
{
    struct json_tree out = json_object(f->cli->arena);
    for (node n = first(f->document); n; n = next(n))
        if (strcmp(n->string, "sharding") != 0) json_add(out, n->string, json_copy(f->cli->arena, n));
    json_add(out, "sharding", sharding_of(f, t));
    return json_print(out);
}

/* ---------------------------------------------------------------- a trial */

/* As if the command line had said so. */
static void say(struct cli *cli, const char *name, const char *value)
{
    struct cli_option *o = arena_new(cli->arena, struct cli_option);
    for (size_t i = 0; cli_option_at(i, o) && strcmp(o->name, name) != 0;) i++;
    vec_push(cli->arena, &cli->given, ((struct cli_given){o, value}));
}

static struct found plan(struct fitting *f, const struct trial *t, const char *text, bool search)
{
    struct cli own = *f->cli;
    struct diags diags = {.arena = own.arena};
    struct found found = {.searched = search};
    const char *report = NULL;
    own.given.capacity = own.given.count; /* what is added is this trial's */
    own.quiet = true;
    say(&own, "mesh", t->mesh);
    if (search) say(&own, "max-memory", f->size);
    if (own.examine(&own, f->path, text, strlen(text), &diags, &report) || diags.errors || !report) return found;
    struct cli_view v = {.cli = &own, .root = json_read(own.arena, report, strlen(report))};
    node step = entry(&v, "step");
    found.planned = true;
    found.peak = cli_peak_bytes(&v, step), found.flops = number_at(step, "flops");
    found.fits = found.peak <= (double)f->most;
    for (node c = first(at(step, "collectives")); c; c = next(c))
        found.sent += number_at(c, "ring") * number_at(c, "times");
    return found;
}

static int try_one(struct fitting *f, struct trial *t)
{
    const char *text = text_of(f, t);
    int ends[2], status = 0;
    if (pipe(ends)) return cli_failed(f->cli, EXIT_ENVIRONMENT, "--fit: %s", strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int null = dup2(ends[1], STDOUT_FILENO); /* nothing else is written there */
        struct found found = plan(f, t, text, false);
        if (found.planned && !found.fits) {
            struct found other = plan(f, t, text, true);
            if (other.fits) found = other;
        }
        _exit(null < 0 || write(ends[1], &found, sizeof found) != sizeof found);
    }
    close(ends[1]);
    ssize_t n = child < 0 ? -1 : read(ends[0], &t->found, sizeof t->found);
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (child < 0) return cli_failed(f->cli, EXIT_ENVIRONMENT, "--fit: %s", strerror(errno));
    if (n != sizeof t->found) t->found = (struct found){0};
    return 0;
}

/* ---------------------------------------------------------------- what is said */

static double cost(const struct found *f) { return f->flops + FLOP_PER_BYTE * f->sent; }

/* What fits first, then what costs least; the others by what they need. */
static int by_cost(const void *x, const void *y)
{
    const struct found *a = &((const struct trial *)x)->found, *b = &((const struct trial *)y)->found;
    if (a->planned != b->planned || a->fits != b->fits) return a->planned + a->fits > b->planned + b->fits ? -1 : 1;
    double p = a->fits ? cost(a) : a->peak, q = b->fits ? cost(b) : b->peak;
    return p < q ? -1 : p > q;
}

static struct json_tree edit_of(struct fitting *f, const struct trial *t)
{
    struct json_tree edit = json_object(f->cli->arena), axes = json_add_object(json_add_object(edit, "mesh"), "axes");
    const char *at = t->mesh;
    for (size_t i = 0; i < f->axes.count; i++) {
        at += strlen(f->axes.items[i]) + 1;
        json_add_integer(axes, f->axes.items[i], strtoll(at, (char **)(uintptr_t)&at, 10));
        at += *at == ',';
    }
    if (f->adds_rules || t->splits_state) json_add(edit, "sharding", sharding_of(f, t));
    return edit;
}

static int print_json(struct fitting *f)
{
    struct json_tree out = json_object(f->cli->arena), list;
    json_add_integer(out, "schema", 1);
    json_add_integer(out, "devices", (int64_t)f->devices);
    json_add_integer(out, "bytes", (int64_t)f->most);
    list = json_add_array(out, "meshes");
    for (size_t i = 0; i < f->trials.count; i++) {
        const struct trial *t = &f->trials.items[i];
        struct json_tree row = json_add_object(list, NULL);
        json_add_text(row, "mesh", t->mesh);
        json_add_bool(row, "fits", t->found.fits);
        json_add_bool(row, "max_memory", t->found.fits && t->found.searched);
        json_add_number(row, "peak", t->found.peak, false);
        json_add_number(row, "flops", t->found.flops, false);
        json_add_number(row, "sent", t->found.sent, false);
        json_add(row, "document", edit_of(f, t));
    }
    const char *text = json_print_lines(out);
    return cli_print(f->cli, text, strlen(text));
}

static int print(struct fitting *f)
{
    struct arena *a = f->cli->arena;
    struct str out = STR(a);
    str_addf(&out, "fit      %llu devices of %s; per device:\n", (unsigned long long)f->devices, f->size);
    str_addf(&out, "         %-28s %18s %20s %18s\n", "mesh", "memory, B", "FLOP", "sends, B");
    for (size_t i = 0; i < f->trials.count; i++) {
        const struct trial *t = &f->trials.items[i];
        const char *mesh = arena_format(a, "%s%s", t->mesh, t->splits_state ? " + state" : "");
        if (t->found.planned)
            str_addf(&out, "         %-28s %18s %20s %18s  %s\n", mesh, cli_grouped(a, t->found.peak),
                     cli_grouped(a, t->found.flops), cli_grouped(a, t->found.sent),
                     !t->found.fits      ? "too large"
                     : t->found.searched ? arena_format(a, "with --max-memory %s", f->size)
                                         : "fits");
        else str_addf(&out, "         %-28s %18s\n", mesh, "cannot be planned");
    }
    const struct trial *best = f->trials.items;
    if (best->found.fits) {
        const char *edit = json_print(edit_of(f, best));
        str_addf(&out, "best     %.*s%s\n", (int)strlen(edit) - 2, edit + 1,
                 best->found.searched ? arena_format(a, ", and --max-memory %s", f->size) : "");
    } else str_addf(&out, "best     none fits\n");
    return cli_print(f->cli, str_text(&out), out.length);
}

int cli_fit_mesh(struct cli *cli, const char *path, const char *text, size_t length)
{
    struct fitting f = {.cli = cli, .path = path, .size = cli_text(cli, "fit", NULL)};
    f.document = json_read(cli->arena, text, length);
    f.devices = (uint64_t)cli_integer(cli, "devices", 1);
    if (!fe_amount(f.size, true, &f.most) || !f.most)
        return cli_usage(cli, "--fit: expected a whole number of bytes, or as 16GiB, got \"%s\"", f.size);
    if (f.devices < 1 || f.devices > 4096) return cli_usage(cli, "--devices: expected 1 to 4096");
    if (cli_count(cli, "mesh")) return cli_usage(cli, "--fit tries meshes; --mesh says which one");
    find_axes(&f);
    add_trials(&f, 0, f.devices, "");
    if (f.trials.count == MOST_TRIALS) return cli_usage(cli, "--fit: more than %d meshes to try", MOST_TRIALS - 1);
    for (size_t i = 0; i < f.trials.count; i++) {
        if (cli->progress) fprintf(stderr, "\r%zu of %zu meshes", i + 1, f.trials.count);
        int code = try_one(&f, &f.trials.items[i]);
        if (code) return code;
    }
    if (cli->progress) fputs("\r\033[K", stderr), fflush(stderr);
    qsort(f.trials.items, f.trials.count, sizeof *f.trials.items, by_cost);
    int code = cli_count(cli, "json") ? print_json(&f) : print(&f);
    return code ? code : f.trials.items[0].found.fits ? 0 : EXIT_WRONG;
}
