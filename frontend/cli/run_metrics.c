/* What a run says of each of its steps for programs: one row of numbers, which goes to every sink that an option names:
 * --metrics (JSON lines), --csv (a column per number) and --tensorboard (event files, run_events.c). */
#include "frontend/cli/run.h"
#include "ir/ir.h"
#include <stepc/step_tools.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_CSV_COLUMNS = 4096 };

struct sink_row {
    uint64_t step;
    bool made;               /* a step, whose metrics stand in `values` */
    double *values;          /* all elements of all metrics, one metric after the other, in C order */
    const double *evaluated; /* of those of rank 0, in order; NULL: nothing was evaluated */
};

struct run_sink {
    const struct sink_kind *kind; /* NULL: the option was not given */
    struct st_output file;
    struct run_events *events;
};

struct sink_kind {
    const char *option;
    int (*open)(struct run *, struct run_sink *, const char *path);
    bool (*row)(struct run *, struct run_sink *, const struct sink_row *, char error[ST_TEXT]);
    bool (*close)(struct run_sink *, bool keep, char error[ST_TEXT]);
};

enum { SINKS = 3 };
struct run_sinks {
    struct run_sink of[SINKS];
    struct sink_row row;
    void *array; /* room for the largest metric */
    struct arena line;
};

static int failed(struct run *r, const char *option, const char *error)
{
    run_end_progress_line(r);
    return cli_failed(r->cli, EXIT_ENVIRONMENT, "--%s: %s", option, error);
}

static double element(const void *data, uint32_t dtype, int64_t i)
{
    enum ir_dtype known = ir_dtype_of_abi(dtype);
    return known == IR_TUPLE ? (double)NAN : ir_element_get(known, data, (size_t)i);
}

static int64_t elements(const struct step_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

static bool is_single(double x, uint32_t dtype) /* integers are exact */
{
    return isfinite(x) && dtype >= STEP_F16 && dtype < STEP_F64;
}

/* ---------------------------------------------------------------- files of lines */

/* A run that continues keeps the lines of the steps behind it; those that were done after the checkpoint come again. A
 * step that was skipped has a line, too, of the number that the next one tried again: where the file begins with step 1
 * it has a line for each batch, and one for an evaluation that a signal kept the run before from. */
enum row { NO_ROW, OF_STEP, OF_EVALUATION };
static bool keep_lines(struct run *r, struct st_output *to, const char *path, const char *head,
                       enum row (*row_of)(const char *line, unsigned long long *step), char error[ST_TEXT])
{
    FILE *old = to->direct ? NULL : fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    bool good = old || to->direct || errno == ENOENT, from_one = false;
    uint64_t kept = 0, batches = 0, number = 0;
    if (!good) snprintf(error, ST_TEXT, "%s: what is there cannot be read: %s", path, strerror(errno));
    for (ssize_t n; good && old && (n = getline(&line, &room, old)) > 0 && line[n - 1] == '\n';) {
        unsigned long long step;
        number++;
        if (head && *head) { /* as many lines as its names have breaks, and one */
            good = strncmp(line, head, (size_t)n) == 0;
            if (good) head += n;
            else snprintf(error, ST_TEXT, "%s: its columns are not those of this run, which continues it", path);
            continue;
        }
        if (strspn(line, " \r\n") == (size_t)n) continue;
        enum row row = row_of(line, &step);
        if (row == NO_ROW) {
            good = snprintf(error, ST_TEXT, "%s: line %llu is no row of a run, which continues the file", path,
                            (unsigned long long)number) < 0;
            break;
        }
        if (step > r->checkpoint.step + 1) break;
        if (!kept) from_one = step == 1;
        if (step > r->checkpoint.step && !(from_one && batches < r->first_step)) break;
        good = st_output_write(to, line, (size_t)n, error);
        kept++, batches += row == OF_STEP;
    }
    if (good && old && ferror(old))
        good = snprintf(error, ST_TEXT, "%s: what is there cannot be read: %s", path, strerror(errno)) < 0;
    if (good && kept && !st_sync(to->fd)) /* it takes the place of the old one with the first row */
        good = snprintf(error, ST_TEXT, "%s: fsync: %s", path, strerror(errno)) < 0;
    free(line);
    if (old) fclose(old);
    return good;
}

static bool open_lines(struct run *r, struct run_sink *s, const char *path, char error[ST_TEXT])
{
    bool out = strcmp(path, "-") == 0 && !r->place.rank; /* of several ranks the first one writes */
    if (out) s->file = (struct st_output){.fd = 1, .direct = true, .path = "standard output"};
    else return st_output_open(&s->file, run_output_path(r, path), error);
    return true;
}

static bool add_line(struct run_sink *s, const char *line, char error[ST_TEXT])
{
    return st_output_write(&s->file, line, strlen(line), error) && st_output_publish(&s->file, error);
}

static bool close_lines(struct run_sink *s, bool keep, char error[ST_TEXT])
{
    if (s->file.fd == 1) return true;
    struct stat at;
    const char *path = s->file.path;
    bool gone = s->file.published && fstat(s->file.fd, &at) == 0 && !at.st_nlink; /* two runs, one file */
    /* Without a single line the file that was there stays. */
    if (!st_output_close(&s->file, keep || s->file.direct || s->file.published, error)) return false;
    if (gone) snprintf(error, ST_TEXT, "%s was replaced or removed by another process: these lines are lost", path);
    return !gone;
}

/* What could not be begun: nothing of it stays. */
static void drop_lines(struct run_sink *s)
{
    char ignored[ST_TEXT];
    close_lines(s, false, ignored);
}

/* ---------------------------------------------------------------- --metrics */

static enum row json_row_of(const char *line, unsigned long long *step)
{
    char key[6] = "";
    int read = sscanf(line, " { \"step\" : %llu , \"%5[^\"]", step, key);
    return read < 1 ? NO_ROW : strcmp(key, "eval_") == 0 ? OF_EVALUATION : OF_STEP;
}

static int open_json(struct run *r, struct run_sink *s, const char *path)
{
    char error[ST_TEXT];
    if (!open_lines(r, s, path, error)) return failed(r, "metrics", error);
    if (!r->checkpoint.resumed || keep_lines(r, &s->file, path, NULL, json_row_of, error)) return 0;
    drop_lines(s);
    return failed(r, "metrics", error);
}

static void add_array(struct json_tree to, const char *key, const struct step_tensor *t, const double **values,
                      int32_t dim)
{
    if (dim == t->rank) {
        double x = *(*values)++;
        json_add_number(to, key, x, is_single(x, t->dtype));
        return;
    }
    struct json_tree list = json_add_array(to, key);
    for (int64_t i = 0; i < t->shape[dim]; i++) add_array(list, NULL, t, values, dim + 1);
}

static bool json_row(struct run *r, struct run_sink *s, const struct sink_row *row, char error[ST_TEXT])
{
    struct arena *a = &r->sinks->line;
    struct json_tree line = json_object(a);
    const double *values = row->values;
    json_add_integer(line, "step", (int64_t)row->step);
    for (size_t i = 0; row->made && i < r->metric_count; i++)
        add_array(line, r->metrics[i].name, &r->metrics[i], &values, 0);
    for (size_t i = 0, k = 0; row->evaluated && i < r->metric_count; i++) {
        double value = r->metrics[i].rank ? 0 : row->evaluated[k++];
        if (run_is_evaluated(&r->metrics[i]))
            json_add_number(line, arena_format(a, "eval_%s", r->metrics[i].name), value, false);
    }
    return add_line(s, arena_format(a, "%s\n", json_print(line)), error);
}

/* ---------------------------------------------------------------- --csv: RFC 4180, but for the ends of lines */

static void add_word(struct str *out, const char *word)
{
    str_add(out, ",");
    if (!strpbrk(word, ",\"\n\r")) {
        str_add(out, word);
        return;
    }
    str_add(out, "\"");
    for (; *word; word++) str_addf(out, *word == '"' ? "\"\"" : "%c", *word);
    str_add(out, "\"");
}

static const char *csv_head(struct run *r, struct arena *a)
{
    struct str out = STR(a);
    str_add(&out, "step");
    for (size_t i = 0; i < r->metric_count; i++) {
        const struct step_tensor *t = &r->metrics[i];
        for (int64_t k = 0, n = elements(t); k < n; k++) {
            struct str name = STR(a);
            int64_t stride = n, at = k;
            str_add(&name, t->name);
            for (int32_t d = 0; d < t->rank; d++) {
                stride /= t->shape[d];
                str_addf(&name, "%s%lld%s", d ? "," : "[", (long long)(at / stride), d == t->rank - 1 ? "]" : "");
                at %= stride;
            }
            add_word(&out, str_text(&name));
        }
    }
    for (size_t i = 0; cli_count(r->cli, "eval-data") && i < r->metric_count; i++)
        if (run_is_evaluated(&r->metrics[i])) add_word(&out, arena_format(a, "eval_%s", r->metrics[i].name));
    str_add(&out, "\n");
    return str_text(&out);
}

static enum row csv_row_of(const char *line, unsigned long long *step)
{
    char next = 0;
    int read = sscanf(line, "%llu,%c", step, &next); /* the loss, or nothing before the comma behind it */
    return read < 1 ? NO_ROW : next == ',' ? OF_EVALUATION : OF_STEP;
}

static int open_csv(struct run *r, struct run_sink *s, const char *path)
{
    char error[ST_TEXT];
    int64_t columns = 0;
    for (size_t i = 0; i < r->metric_count; i++) columns += elements(&r->metrics[i]);
    if (columns > MOST_CSV_COLUMNS)
        return cli_failed(r->cli, EXIT_WRONG,
                          "--csv: the metrics of a step are %lld numbers, and a line has %d columns at most; --metrics "
                          "writes arrays",
                          (long long)columns, MOST_CSV_COLUMNS);
    const char *head = csv_head(r, r->cli->arena);
    if (!open_lines(r, s, path, error)) return failed(r, "csv", error);
    if (st_output_write(&s->file, head, strlen(head), error) &&
        (!r->checkpoint.resumed || keep_lines(r, &s->file, path, head, csv_row_of, error)))
        return 0;
    drop_lines(s);
    return failed(r, "csv", error);
}

static void add_cell(struct str *line, double x, bool single)
{
    str_add_number(line, x, single);
    if (x == 0 && signbit(x)) str_add(line, ".0"); /* as in lines of JSON */
}

static bool csv_row(struct run *r, struct run_sink *s, const struct sink_row *row, char error[ST_TEXT])
{
    struct str line = STR(&r->sinks->line);
    const double *value = row->values;
    str_addf(&line, "%llu", (unsigned long long)row->step);
    for (size_t i = 0; i < r->metric_count; i++)
        for (int64_t k = elements(&r->metrics[i]); k > 0; k--, value++) {
            str_add(&line, ",");
            if (row->made) add_cell(&line, *value, is_single(*value, r->metrics[i].dtype));
        }
    for (size_t i = 0, k = 0; cli_count(r->cli, "eval-data") && i < r->metric_count; i++) {
        double x = row->evaluated && !r->metrics[i].rank ? row->evaluated[k++] : 0;
        if (!run_is_evaluated(&r->metrics[i])) continue;
        str_add(&line, ",");
        if (row->evaluated) add_cell(&line, x, false);
    }
    str_add(&line, "\n");
    return add_line(s, str_text(&line), error);
}

/* ---------------------------------------------------------------- --tensorboard */

static int open_events(struct run *r, struct run_sink *s, const char *path)
{
    char error[ST_TEXT];
    for (size_t i = 0; i < r->metric_count && !r->cli->quiet; i++)
        if (r->metrics[i].rank)
            cli_show(arena_format(r->cli->arena,
                                  "stepc: note: --tensorboard shows numbers; \"%s\" is an array, which --metrics and "
                                  "--csv write\n",
                                  r->metrics[i].name));
    if (r->place.rank) return 0; /* of several ranks the first one writes */
    s->events = run_events_open(r->cli->arena, path, r->checkpoint.step, error);
    return s->events ? 0 : failed(r, "tensorboard", error);
}

static bool events_row(struct run *r, struct run_sink *s, const struct sink_row *row, char error[ST_TEXT])
{
    struct arena *a = &r->sinks->line;
    struct run_scalar *scalars = arena_new_array(a, struct run_scalar, 2 * r->metric_count + 1);
    const double *value = row->values;
    uint32_t n = 0;
    for (size_t i = 0; i < r->metric_count; value += elements(&r->metrics[i++]))
        if (row->made && !r->metrics[i].rank) scalars[n++] = (struct run_scalar){r->metrics[i].name, *value};
    for (size_t i = 0, k = 0; row->evaluated && i < r->metric_count; i++) {
        double x = r->metrics[i].rank ? 0 : row->evaluated[k++];
        if (run_is_evaluated(&r->metrics[i]))
            scalars[n++] = (struct run_scalar){arena_format(a, "eval_%s", r->metrics[i].name), x};
    }
    return !s->events || run_events_add(s->events, a, row->step, scalars, n, error);
}

static bool close_events(struct run_sink *s, bool keep, char error[ST_TEXT])
{
    (void)keep; /* it has a name of its own, and others may have read it */
    return !s->events || run_events_close(s->events, error);
}

/* ---------------------------------------------------------------- all of them */

static const struct sink_kind kinds[SINKS] = {
    {"metrics", open_json, json_row, close_lines},
    {"csv", open_csv, csv_row, close_lines},
    {"tensorboard", open_events, events_row, close_events},
};

int run_metrics_open(struct run *r)
{
    int code = 0;
    for (size_t i = 0; i < SINKS && !code; i++) {
        const char *path = cli_text(r->cli, kinds[i].option, NULL);
        if (!path) continue;
        if (!r->sinks) r->sinks = arena_new(r->cli->arena, struct run_sinks);
        struct run_sink *s = &r->sinks->of[i];
        code = kinds[i].open(r, s, path);
        if (!code) s->kind = &kinds[i];
    }
    if (!r->sinks) return code;
    int64_t all = 0;
    uint64_t largest = 8;
    for (size_t i = 0; i < r->metric_count; i++) {
        all += elements(&r->metrics[i]);
        if (r->metrics[i].bytes_global > largest) largest = r->metrics[i].bytes_global;
    }
    r->sinks->row.values = arena_new_array(r->cli->arena, double, (size_t)all + 1);
    r->sinks->array = arena_alloc(r->cli->arena, largest);
    return code;
}

int run_metrics_begin(struct run *r, const struct step_result *result)
{
    if (!r->sinks) return 0;
    struct sink_row *row = &r->sinks->row;
    double *to = row->values;
    row->step = result ? result->step : r->checkpoint.step;
    row->made = result != NULL;
    for (size_t i = 0, scalar = 0; result && i < r->metric_count; i++) {
        const struct step_tensor *t = &r->metrics[i];
        if (t->rank == 0) {
            *to++ = r->scalars[scalar++];
            continue;
        }
        struct step_array a = {.size = sizeof a,
                               .name = t->name,
                               .data = r->sinks->array,
                               .dtype = t->dtype,
                               .rank = t->rank,
                               .shape = t->shape};
        step_status status = r->api->read(r->instance, &a);
        if (status) return run_status(r, status, t->name);
        for (int64_t k = 0, n = elements(t); k < n; k++) *to++ = element(r->sinks->array, t->dtype, k);
    }
    return 0;
}

int run_metrics_end(struct run *r, const double *evaluated)
{
    char error[ST_TEXT];
    int code = 0;
    if (!r->sinks) return 0;
    r->sinks->row.evaluated = evaluated;
    for (size_t i = 0; i < SINKS && !code; i++) {
        struct run_sink *s = &r->sinks->of[i];
        if (s->kind && !s->kind->row(r, s, &r->sinks->row, error)) code = failed(r, s->kind->option, error);
        arena_free(&r->sinks->line);
    }
    return code;
}

int run_metrics_close(struct run *r, bool keep)
{
    char error[ST_TEXT];
    int code = 0;
    for (size_t i = 0; r->sinks && i < SINKS; i++) {
        struct run_sink *s = &r->sinks->of[i];
        if (s->kind && !s->kind->close(s, keep, error) && !code) code = failed(r, s->kind->option, error);
        s->kind = NULL;
    }
    return code;
}
