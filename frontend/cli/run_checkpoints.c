/* `stepc checkpoint`: what runs have saved, listed, shown, verified, compared, removed by rules. Nothing here needs the
 * object. */
#include "frontend/cli/run.h"
#include "ir/ir.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *step_path(struct cli *cli, const char *folder, uint64_t step)
{
    return arena_format(cli->arena, "%s/step-%" PRIu64, folder, step);
}

static uint64_t bytes_of(const struct st_checkpoint *c)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->member_count; i++) bytes += c->members[i].bytes;
    return bytes;
}

static const char *time_text(struct cli *cli, uint64_t seconds)
{
    struct tm tm;
    time_t at = (time_t)seconds;
    char text[32];
    gmtime_r(&at, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return arena_string_n(cli->arena, text, strlen(text));
}

static const char *type_text(struct cli *cli, const struct st_tensor *t)
{
    struct str s = STR(cli->arena);
    enum ir_dtype known = ir_dtype_of_abi(t->dtype);
    str_addf(&s, "%s[", known ? ir_dtype_name(known) : t->dtype == STEP_F8E4M3 ? "float8_e4m3fn" : "float8_e5m2");
    for (int32_t i = 0; i < t->rank; i++) str_addf(&s, i ? ",%lld" : "%lld", (long long)t->shape[i]);
    str_add(&s, "]");
    return str_text(&s);
}

static int print(struct cli *cli, const char *text) { return cli_print(cli, text, strlen(text)); }

static void add_metrics(struct json_tree to, const struct st_checkpoint *c)
{
    struct json_tree metrics = json_add_object(to, "metrics");
    for (uint32_t i = 0; i < c->metric_count; i++)
        json_add_number(metrics, c->metrics[i].name, c->metrics[i].value, false);
}

/* What stays by rules. A metric that none of them has would make the newest ones the best. */
static int kept(struct cli *cli, const char *folder, const char *rules, struct st_kept **all, uint32_t *count)
{
    char error[ST_TEXT];
    size_t length;
    const char *metric;
    if (st_is_checkpoint(folder))
        return cli_failed(cli, EXIT_WRONG, "%s is one checkpoint; ls and prune take the folder that it lies in",
                          folder);
    step_status status = st_kept_list(folder, rules, all, count, error);
    if (status) return run_file_failed(cli, status, error);
    for (uint32_t k = 0; rules && *count && (metric = st_rules_metric(rules, k, &length)); k++) {
        VEC(const char *) names = {0};
        bool found = false;
        metric = arena_string_n(cli->arena, metric, length);
        for (uint32_t i = 0; i < *count && !found; i++) {
            struct st_checkpoint c;
            if (st_checkpoint_open(&c, step_path(cli, folder, (*all)[i].step), false, error)) continue;
            for (uint32_t m = 0; m < c.metric_count; m++) {
                const char *name = arena_string_n(cli->arena, c.metrics[m].name, strlen(c.metrics[m].name));
                vec_push(cli->arena, &names, name);
                found |= strcmp(name, metric) == 0;
            }
            st_checkpoint_close(&c);
        }
        if (found) continue;
        free(*all);
        return cli_failed(cli, EXIT_WRONG, "--keep: no checkpoint of %s has a metric \"%s\"%s", folder, metric,
                          cli_meant(cli, metric, names.items, names.count));
    }
    return 0;
}

/* ---------------------------------------------------------------- ls, show */

static int list(struct cli *cli, const char *folder)
{
    char error[ST_TEXT];
    const char *rules = cli_joined(cli, "keep", NULL);
    struct st_kept *all;
    uint32_t count;
    struct str out = STR(cli->arena);
    struct json_tree report = json_object(cli->arena), steps = {0};
    int code = kept(cli, folder, rules, &all, &count);
    if (code) return code;
    json_add_integer(report, "schema", 1);
    steps = json_add_array(report, "checkpoints");
    for (uint32_t i = count; i-- > 0;) {
        struct st_checkpoint c;
        struct json_tree row = json_add_object(steps, NULL);
        json_add_integer(row, "step", (int64_t)all[i].step);
        step_status status = st_checkpoint_open(&c, step_path(cli, folder, all[i].step), true, error);
        json_add_bool(row, "complete", !status);
        json_add_bool(row, "keep", all[i].keep);
        str_addf(&out, "step %-9" PRIu64, all[i].step);
        if (status) {
            json_add_text(row, "fault", error);
            str_addf(&out, "  %s: %s\n", status == STEP_ECORRUPT ? "damaged" : "cannot be read", error);
            continue;
        }
        json_add_text(row, "created", time_text(cli, c.created));
        json_add_integer(row, "bytes", (int64_t)bytes_of(&c));
        add_metrics(row, &c);
        str_addf(&out, "  %s  %12s B%s", time_text(cli, c.created), cli_grouped(cli->arena, (double)bytes_of(&c)),
                 !rules        ? ""
                 : all[i].keep ? "  stays"
                               : "  goes");
        for (uint32_t k = 0; k < c.metric_count; k++)
            str_addf(&out, "  %s %.6g", c.metrics[k].name, c.metrics[k].value);
        uint64_t is = strtoull(c.all.step, NULL, 10);
        if (is != all[i].step) { /* somebody gave it another name */
            json_add_integer(row, "state_step", (int64_t)is);
            str_addf(&out, "  its state is of step %" PRIu64, is);
        }
        str_add(&out, "\n");
        st_checkpoint_close(&c);
    }
    free(all);
    if (!count && !cli_count(cli, "json")) return cli_failed(cli, EXIT_WRONG, "%s holds no checkpoint", folder);
    return print(cli, cli_count(cli, "json") ? json_print_lines(report) : str_text(&out));
}

static int show(struct cli *cli, const char *path)
{
    char error[ST_TEXT];
    struct st_checkpoint c;
    struct str out = STR(cli->arena);
    int code = run_open_any(cli, &c, path);
    if (code) return code;
    struct json_tree report = json_object(cli->arena);
    json_add_integer(report, "schema", 1);
    json_add_integer(report, "step", (int64_t)c.step);
    json_add_text(report, "created", time_text(cli, c.created));
    add_metrics(report, &c);
    str_addf(&out, "%s: step %" PRIu64 ", saved %s, %s bytes\n", c.all.path, c.step, time_text(cli, c.created),
             cli_grouped(cli->arena, (double)bytes_of(&c)));
    for (uint32_t i = 0; i < c.metric_count; i++)
        str_addf(&out, "metric   %s = %.9g\n", c.metrics[i].name, c.metrics[i].value);
    struct json_tree files = json_add_object(report, "files"), items = json_add_object(report, "items");
    for (uint32_t i = 0; i < c.member_count && !code; i++) {
        const struct st_member *m = &c.members[i];
        struct json_tree file = json_add_object(files, m->name);
        json_add_integer(file, "bytes", (int64_t)m->bytes);
        json_add_text(file, "xxh3_128", m->hash);
        str_addf(&out, "file     %s  %s B  %s\n", m->name, cli_grouped(cli->arena, (double)m->bytes), m->hash);
        if (strncmp(m->name, "items/", 6) != 0) continue;
        step_status status;
        char *text = st_checkpoint_item(&c, m, &status, error);
        if (!text) code = run_file_failed(cli, status, error);
        else {
            json_add_text(items, m->name + 6, text);
            str_addf(&out, "item     %s  %.200s\n", m->name + 6, text);
        }
        free(text);
    }
    struct json_tree slots = json_add_array(report, "slots");
    for (uint32_t i = 0; i < c.all.count; i++) {
        const struct st_tensor *t = &c.all.tensors[i];
        struct json_tree slot = json_add_object(slots, NULL);
        json_add_text(slot, "name", t->name);
        json_add_text(slot, "item", run_role_of(cli, &c, t));
        json_add_text(slot, "type", type_text(cli, t));
        str_addf(&out, "%-8s %s  %s", run_role_of(cli, &c, t), t->name, type_text(cli, t));
        uint64_t stored = 0;
        bool compressed = false;
        for (uint64_t k = t->offset; k < c.piece_count && c.pieces[k].tensor == i; k++) {
            compressed |= c.pieces[k].stored > 0;
            stored += c.pieces[k].stored ? c.pieces[k].stored : c.pieces[k].bytes;
        }
        if (compressed) {
            json_add_integer(slot, "stored", (int64_t)stored);
            str_addf(&out, "  compressed, %s B of %s", cli_grouped(cli->arena, (double)stored),
                     cli_grouped(cli->arena, (double)t->bytes));
        }
        str_add(&out, "\n");
    }
    st_checkpoint_close(&c);
    return code ? code : print(cli, cli_count(cli, "json") ? json_print_lines(report) : str_text(&out));
}

/* ---------------------------------------------------------------- verify */

/* What is wrong is said at once, and in the report too. */
static int faulty(struct cli *cli, struct json_tree faults, step_status status, const char *error)
{
    const char *why = status == STEP_ENOMEM ? "out of memory" : error;
    json_add_text(faults, NULL, why);
    return run_file_failed(cli, status, why);
}

/* An item, by whose bytes nothing is wrong, is what a host gave, who may have had no JSON. */
static int verify_item(struct cli *cli, const struct st_checkpoint *c, const struct st_member *m,
                       struct json_tree faults)
{
    char error[ST_TEXT];
    step_status status = STEP_OK;
    if (strncmp(m->name, "items/", 6) != 0) return 0;
    char *text = st_checkpoint_item(c, m, &status, error);
    if (text && !json_read(cli->arena, text, strlen(text))) {
        status = STEP_ECORRUPT;
        snprintf(error, sizeof error, "%s: %s: an item that is no JSON", c->all.path, m->name);
    }
    free(text);
    return status ? faulty(cli, faults, status, error) : 0;
}

static int verify_one(struct cli *cli, const char *path, struct json_tree report)
{
    char error[ST_TEXT], other[ST_TEXT];
    struct st_checkpoint c;
    int code = 0;
    struct json_tree row = json_add_object(report, NULL), faults;
    json_add_text(row, "path", path);
    faults = json_add_array(row, "faults");
    step_status opened = st_checkpoint_open(&c, path, true, error), status = opened;
    if (opened) code = faulty(cli, faults, opened, error);
    if (opened) status = st_checkpoint_open(&c, path, false, other); /* the other files may have faults too */
    json_add_integer(row, "step", (int64_t)c.step);
    json_add_integer(row, "tensors", c.all.count);
    json_add_integer(row, "files", c.member_count);
    json_add_integer(row, "bytes", (int64_t)bytes_of(&c));
    for (uint32_t i = 0; i < c.member_count; i++)
        if (!opened || !strstr(error, c.members[i].name)) {
            status = st_checkpoint_verify(&c, &c.members[i], other);
            int wrong = status ? faulty(cli, faults, status, other) : verify_item(cli, &c, &c.members[i], faults);
            if (wrong) code = wrong;
        }
    for (uint32_t i = 0; i < c.piece_count && !opened; i++)
        if ((status = st_checkpoint_piece(&c, &c.pieces[i], NULL, true, other)))
            code = faulty(cli, faults, status, other);
    json_add_bool(row, "complete", !code);
    if (!code && !cli->quiet && !cli_count(cli, "json"))
        code = print(cli,
                     arena_format(cli->arena, "%s: step %" PRIu64 " is whole: %u tensors in %u files, %s bytes\n", path,
                                  c.step, c.all.count, c.member_count, cli_grouped(cli->arena, (double)bytes_of(&c))));
    st_checkpoint_close(&c);
    return code;
}

static int verify(struct cli *cli, const char *path)
{
    char error[ST_TEXT];
    uint64_t *steps = NULL;
    uint32_t count = 0;
    bool one = st_is_checkpoint(path);
    struct json_tree report = json_object(cli->arena), rows;
    json_add_integer(report, "schema", 1);
    rows = json_add_array(report, "checkpoints");
    int code = one ? verify_one(cli, path, rows) : 0;
    step_status status = one ? STEP_OK : st_steps(path, &steps, &count, error);
    if (status) return run_file_failed(cli, status, error);
    for (uint32_t i = count; i-- > 0;) {
        int other = verify_one(cli, step_path(cli, path, steps[i]), rows);
        if (!code) code = other;
    }
    free(steps);
    if (cli_count(cli, "json") && print(cli, json_print_lines(report))) return EXIT_ENVIRONMENT;
    return one || count ? code : cli_failed(cli, EXIT_WRONG, "%s holds no checkpoint", path);
}

/* ---------------------------------------------------------------- diff */

struct difference {
    double absolute, relative;
    uint64_t elements, differ, beyond; /* other bits; outside of the tolerances */
};

/* Of a float8, which no document has: e5m2 is the upper half of a float16, e4m3fn has 8 bits of it in other places. */
static double number_of(enum ir_dtype known, bool e5m2, const char *data)
{
    uint8_t bits = (uint8_t)*data;
    uint16_t half = (uint16_t)(e5m2 ? bits << 8 : (bits & 0x80) << 8 | (bits & 0x7f) << 7);
    if (known) return ir_element_get(known, data, 0);
    return !e5m2 && (bits & 0x7f) == 0x7f ? NAN : ir_element_get(IR_F16, &half, 0) * (e5m2 ? 1 : 256);
}

/* Of integers of 64 bits, of which a double has not all digits. */
static double distance(bool negative, const char *a, const char *b)
{
    uint64_t p, q;
    memcpy(&p, a, sizeof p);
    memcpy(&q, b, sizeof q);
    return (double)((negative ? (int64_t)p < (int64_t)q : p < q) ? q - p : p - q);
}

static void compare(const struct st_tensor *t, const char *a, const char *b, double rtol, double atol,
                    struct difference *d)
{
    enum ir_dtype known = ir_dtype_of_abi(t->dtype);
    bool long_integer = known == IR_I64 || known == IR_U64, e5m2 = t->dtype == STEP_F8E5M2;
    size_t item = known ? ir_dtype_bytes(known) : 1;
    d->elements = t->bytes / item;
    for (uint64_t i = 0; i < d->elements; i++, a += item, b += item) {
        if (memcmp(a, b, item) == 0) continue;
        double x = number_of(known, e5m2, a), y = number_of(known, e5m2, b), most = fmax(fabs(x), fabs(y)),
               by = long_integer ? distance(known == IR_I64, a, b) : fabs(x - y);
        if (isnan(by)) by = isnan(x) && isnan(y) ? 0 : INFINITY;
        d->differ++;
        d->beyond += isinf(by) || !(by <= atol + rtol * most) || (atol == 0 && rtol == 0);
        if (by > d->absolute) d->absolute = by;
        if (isinf(by)) d->relative = INFINITY; /* of an infinity there is no part */
        else if (most > 0 && by / most > d->relative) d->relative = by / most;
    }
}

struct comparison {
    struct st_checkpoint a, b;
    double rtol, atol;
    bool differs;
    struct str text;
    struct json_tree rows;
};

static struct json_tree differing(struct comparison *d, const char *name)
{
    struct json_tree row = json_add_object(d->rows, NULL);
    json_add_text(row, "name", name);
    d->differs = true;
    return row;
}

static int diff_tensor(struct cli *cli, struct comparison *both, const struct st_tensor *x, const struct st_tensor *y)
{
    char error[ST_TEXT];
    struct difference d = {0};
    bool same = x->dtype == y->dtype && x->rank == y->rank;
    for (int32_t i = 0; same && i < x->rank; i++) same = x->shape[i] == y->shape[i];
    if (!same) {
        str_addf(&both->text, "%s: %s and %s\n", x->name, type_text(cli, x), type_text(cli, y));
        struct json_tree row = differing(both, x->name), types = json_add_array(row, "types");
        json_add_text(types, NULL, type_text(cli, x));
        json_add_text(types, NULL, type_text(cli, y));
        return 0;
    }
    char *p = malloc(x->bytes + 1), *q = malloc(x->bytes + 1);
    step_status status = p && q ? st_checkpoint_read(&both->a, x, p, true, error) : STEP_ENOMEM;
    if (!status) status = st_checkpoint_read(&both->b, y, q, true, error);
    if (!status) compare(x, p, q, both->rtol, both->atol, &d);
    free(p);
    free(q);
    if (status) return run_file_failed(cli, status, status == STEP_ENOMEM ? "out of memory" : error);
    if (!d.differ) return 0;
    bool before = both->differs;
    struct json_tree row = differing(both, x->name);
    json_add_integer(row, "elements", (int64_t)d.elements);
    json_add_integer(row, "differ", (int64_t)d.differ);
    json_add_integer(row, "beyond_tolerances", (int64_t)d.beyond);
    json_add_number(row, "absolute", d.absolute, false);
    json_add_number(row, "relative", d.relative, false);
    str_addf(&both->text, "%s: %" PRIu64 " of %" PRIu64 " differ, at most by %.3g, relative %.3g%s\n", x->name,
             d.differ, d.elements, d.absolute, d.relative, d.beyond ? "" : " (within the tolerances)");
    both->differs = before || d.beyond;
    return 0;
}

static void only_in(struct comparison *d, const struct st_tensor *t, const struct st_file *file)
{
    json_add_text(differing(d, t->name), "only_in", file->path);
    str_addf(&d->text, "%s: only in %s\n", t->name, file->path);
}

static int diff(struct cli *cli, const char *first, const char *second)
{
    struct comparison d = {.text = STR(cli->arena)};
    struct json_tree report = json_object(cli->arena), paths;
    int code = cli_tolerance(cli, "rtol", "0", &d.rtol);
    if (!code) code = cli_tolerance(cli, "atol", "0", &d.atol);
    if (!code) code = run_open_any(cli, &d.a, first);
    if (code) return code;
    if ((code = run_open_any(cli, &d.b, second))) {
        st_checkpoint_close(&d.a);
        return code;
    }
    json_add_integer(report, "schema", 1);
    paths = json_add_array(report, "checkpoints");
    json_add_text(paths, NULL, d.a.all.path);
    json_add_text(paths, NULL, d.b.all.path);
    d.rows = json_add_array(report, "tensors");
    for (uint32_t i = 0; i < d.a.all.count && !code; i++) {
        const struct st_tensor *t = &d.a.all.tensors[i], *other = st_find(&d.b.all, t->name);
        if (other) code = diff_tensor(cli, &d, t, other);
        else only_in(&d, t, &d.a.all);
    }
    for (uint32_t i = 0; i < d.b.all.count; i++)
        if (!st_find(&d.a.all, d.b.all.tensors[i].name)) only_in(&d, &d.b.all.tensors[i], &d.b.all);
    json_add_bool(report, "equal", !d.differs);
    st_checkpoint_close(&d.a);
    st_checkpoint_close(&d.b);
    if (!code) code = print(cli, cli_count(cli, "json") ? json_print_lines(report) : str_text(&d.text));
    return code ? code : d.differs ? EXIT_WRONG : 0;
}

/* ---------------------------------------------------------------- prune */

static int prune(struct cli *cli, const char *folder)
{
    char error[ST_TEXT];
    const char *rules = cli_joined(cli, "keep", NULL);
    bool dry = cli_count(cli, "dry-run") > 0;
    struct st_kept *all;
    uint32_t count;
    if (!rules) return cli_usage(cli, "checkpoint prune: --keep RULES is missing");
    int code = kept(cli, folder, rules, &all, &count);
    if (code) return code;
    bool removes = false;
    for (uint32_t i = 0; i < count; i++) removes |= !all[i].keep;
    for (uint32_t i = 0; i < count && removes && !dry; i++) { /* the others may be all that is left */
        if (!all[i].keep || !all[i].complete) continue;
        if (!run_is_whole(step_path(cli, folder, all[i].step)))
            code = cli_failed(cli, EXIT_WRONG, "%s is damaged, as stepc checkpoint verify shows: nothing is removed",
                              step_path(cli, folder, all[i].step));
        break;
    }
    if (code) return free(all), code;
    int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0) code = cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", folder, strerror(errno));
    for (uint32_t i = count; i-- > 0 && parent >= 0;) {
        if (all[i].keep) continue;
        if (!dry && !st_remove_step(parent, all[i].step, error))
            code = cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", folder, error);
        else if (!cli->quiet && print(cli, arena_format(cli->arena, "%s step %" PRIu64 "\n",
                                                        dry ? "would remove" : "removed", all[i].step)))
            code = EXIT_ENVIRONMENT;
    }
    if (parent >= 0 && !dry) st_remove_forsaken(parent);
    if (parent >= 0) close(parent);
    free(all);
    return code;
}

/* What can be done, and the options of each. */
static const struct verb {
    const char *name;
    int (*run)(struct cli *, const char *path); /* NULL: of two paths */
    const char *options;
} verbs[] = {{"ls", list, " keep json "},
             {"show", show, " json "},
             {"verify", verify, " json "},
             {"diff", NULL, " rtol atol json "},
             {"prune", prune, " keep dry-run "},
             {"export", run_export, " output ema map dtype hf names peft config shard-size "},
             {"convert", run_convert, " output map dtype compress "},
             {"import", run_import, " output map dtype hf names like define compress "}};
enum { VERBS = sizeof verbs / sizeof *verbs };

static bool takes(const struct verb *v, const char *option)
{
    size_t n = strlen(option);
    for (const char *at = v->options; (at = strstr(at, option)); at++)
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

/* An option that this verb does not read would be lost without a word. */
static int check_options(struct cli *cli, const struct verb *v)
{
    for (size_t i = 0; i < cli->given.count; i++) {
        const struct cli_option *o = cli->given.items[i].option;
        struct str whose = STR(cli->arena);
        if (takes(v, o->name)) continue;
        for (size_t k = 0; k < VERBS; k++)
            if (takes(&verbs[k], o->name)) str_addf(&whose, "%s%s", whose.length ? ", " : "", verbs[k].name);
        if (whose.length) return cli_usage(cli, "checkpoint %s: --%s is for %s", v->name, o->name, str_text(&whose));
    }
    return 0;
}

int cli_checkpoint(struct cli *cli)
{
    const char *what = cli->operands.items[0], *path = cli->operands.items[1], *names[VERBS];
    char error[ST_TEXT];
    const struct verb *v = NULL;
    for (size_t i = 0; i < VERBS; i++) {
        names[i] = verbs[i].name;
        if (strcmp(names[i], what) == 0) v = &verbs[i];
    }
    if (!v)
        return cli_usage(cli, "checkpoint %s: expected ls, show, verify, diff, prune, export, convert or import%s",
                         what, cli_meant(cli, what, names, VERBS));
    if ((cli->operands.count == 3) != (v->run == NULL))
        return cli_usage(cli, v->run ? "checkpoint %s takes one path" : "checkpoint %s takes two paths", what);
    int code = check_options(cli, v);
    if (code) return code;
    struct stat at;
    for (size_t i = 1; i < cli->operands.count && v->run != run_import; i++)
        if (stat(cli->operands.items[i], &at) == 0 && !S_ISDIR(at.st_mode))
            return cli_failed(cli, EXIT_WRONG, "%s is a file; checkpoint import makes a checkpoint of it",
                              cli->operands.items[i]);
    if (cli_count(cli, "keep") && !st_rules_check(cli_joined(cli, "keep", ""), error))
        return cli_usage(cli, "--keep %s", error);
    return v->run ? v->run(cli, path) : diff(cli, path, cli->operands.items[2]);
}
