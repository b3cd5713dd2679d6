/* --stop-when, --keep-best and --reduce-on-plateau: what is done when a metric gets better, or does not any more. The
 * best value and how often it was missed stand in the checkpoints, so that a run that continues decides like one that
 * nobody stopped. */
#include "frontend/cli/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const options[RUN_WATCHES] = {"stop-when", "keep-best", "reduce-on-plateau"};
static const char *const examples[RUN_WATCHES] = {":patience=5:delta=0.001", "", ":factor=0.1:patience=10:least=1e-6"};

/* What may stand behind the direction, and of which options. */
static const struct {
    const char *name;
    double least, most;
    uint32_t of;
    const char *what;
} parts[] = {{"patience", 1, 1e15, 1u << RUN_STOP | 1u << RUN_REDUCE, "is a number from 1 on"},
             {"delta", 0, 1e300, 1u << RUN_STOP | 1u << RUN_REDUCE, "is a number from 0 on"},
             {"factor", 1e-300, 1 - 1e-15, 1u << RUN_REDUCE, "is a number between 0 and 1"},
             {"least", 0, 1e300, 1u << RUN_REDUCE, "is a number from 0 on"},
             {"of", 0, 0, 1u << RUN_REDUCE, "names a hyper-parameter"}};
enum { PATIENCE, DELTA, FACTOR, LEAST, OF, PARTS };

static int wrong(const struct run *r, const struct run_watch *w, const char *part, const char *why)
{
    const char *shown = examples[0];
    for (int i = 0; i < RUN_WATCHES; i++)
        if (strcmp(options[i], w->option) == 0) shown = examples[i];
    return cli_usage(r->cli, "--%s %s: %s%s; as in --%s eval_loss:min%s", w->option, w->text, part, why, w->option,
                     shown);
}

static int read_part(struct run *r, struct run_watch *w, int option, const char *at, const char *end, uint32_t *given)
{
    int i = 0;
    size_t n = strcspn(at, "=:");
    while (i < PARTS && (strlen(parts[i].name) != n || strncmp(parts[i].name, at, n) != 0)) i++;
    if (i == PARTS || !(parts[i].of >> option & 1) || at[n] != '=') return wrong(r, w, "", "unknown part");
    if (*given >> i & 1) return wrong(r, w, arena_format(r->cli->arena, "%s ", parts[i].name), "is given twice");
    *given |= 1u << i;
    at += n + 1;
    if (i == OF)
        return *(w->hyper = arena_string_n(r->cli->arena, at, (size_t)(end - at))) ? 0
                                                                                   : wrong(r, w, "of ", parts[i].what);
    char *stop;
    double value = strtod(at, &stop);
    if (*at < '0' || *at > '9' || stop != end || !(value >= parts[i].least && value <= parts[i].most) ||
        (i == PATIENCE && value != floor(value)))
        return wrong(r, w, arena_format(r->cli->arena, "%s ", parts[i].name), parts[i].what);
    if (i == PATIENCE) w->patience = (uint64_t)value;
    else *(i == DELTA ? &w->delta : i == FACTOR ? &w->factor : &w->least) = value;
    return 0;
}

/* Names of metrics may hold colons: the direction is the last part that is one, as parts behind it have a value. */
static int read_rule(struct run *r, struct run_watch *w, int option)
{
    const char *at = NULL;
    for (const char *c = w->text; (c = strchr(c, ':')); c++)
        if ((!strncmp(c, ":min", 4) || !strncmp(c, ":max", 4)) && (!c[4] || c[4] == ':') && c > w->text) at = c;
    if (!at) return wrong(r, w, "", "expected METRIC:min or METRIC:max");
    w->metric = arena_string_n(r->cli->arena, w->text, (size_t)(at - w->text));
    struct str key = STR(r->cli->arena); /* in the JSON of the item */
    str_add(&key, ",");
    str_add_json(&key, arena_format(r->cli->arena, "%s:%.*s", w->option, (int)(at + 4 - w->text), w->text));
    str_add(&key, ":");
    w->key = str_text(&key);
    w->largest = at[2] == 'a';
    w->patience = option == RUN_REDUCE ? 10 : 1; /* as reduce_on_plateau has them */
    w->factor = 0.1, w->hyper = "learning_rate";
    int code = 0;
    uint32_t given = 0;
    for (at += 4; *at && !code;) {
        const char *end = at + 1 + strcspn(at + 1, ":");
        code = read_part(r, w, option, at + 1, end, &given);
        at = end;
    }
    return code;
}

/* The hyper-parameter has to be one that can be set. */
static int find_hyper(struct run *r, const struct run_watch *w)
{
    double value;
    if (!w->text || !r->api->hyper_get(r->instance, w->hyper, &value)) return 0;
    return cli_failed(r->cli, EXIT_WRONG, "--%s: %s", w->option, run_message(r->api->last_error(NULL)));
}

/* The number of the metric among those of one number. */
static int find_metric(struct run *r, struct run_watch *w)
{
    struct arena *a = r->cli->arena;
    const char **names = arena_new_array(a, const char *, 2 * r->metric_count + 1);
    uint32_t n = 0, k = 0;
    bool found = false;
    for (size_t i = 0; i < r->metric_count; i++) {
        if (r->metrics[i].rank) continue;
        bool evaluated = r->eval_every && run_is_evaluated(&r->metrics[i]);
        names[n++] = r->metrics[i].name;
        if (strcmp(names[n - 1], w->metric) == 0) w->number = k, w->evaluated = false, found = true;
        if (evaluated) names[n++] = arena_format(a, "eval_%s", r->metrics[i].name);
        if (evaluated && strcmp(names[n - 1], w->metric) == 0) w->number = k, w->evaluated = true, found = true;
        k++;
    }
    if (found) return 0;
    if (!r->eval_every && strncmp(w->metric, "eval_", 5) == 0)
        return cli_usage(r->cli, "--%s %s needs --eval-data FILE and --eval-every N", w->option, w->text);
    return cli_failed(r->cli, EXIT_WRONG, "--%s: no metric \"%s\" of one number%s", w->option, w->metric,
                      cli_meant(r->cli, w->metric, names, n));
}

static void restore(struct run_watch *w, const char *text)
{
    const char *at = text ? strstr(text, w->key) : NULL;
    if (at && sscanf(at + strlen(w->key), "[%lf,%" SCNu64 ",%" SCNu64 "]", &w->best, &w->missed, &w->step) == 3)
        w->seen = true;
    else if (at) sscanf(at + strlen(w->key), "[%" SCNu64 "]", &w->missed); /* none was finite yet */
}

int run_watch_open(struct run *r, const char *item)
{
    struct run_checkpoint *c = &r->checkpoint;
    for (int i = 0; i < RUN_WATCHES; i++) {
        struct run_watch *w = &r->watches[i];
        *w = (struct run_watch){.option = options[i], .text = cli_text(r->cli, options[i], NULL)};
        if (!w->text) continue;
        int code = i == RUN_KEEP && !c->folder ? cli_usage(r->cli, "--keep-best needs --save-dir DIR")
                                               : read_rule(r, w, i);
        if (!code) code = find_metric(r, w);
        if (!code && i == RUN_REDUCE) code = find_hyper(r, w);
        if (code) return code;
        restore(w, item);
        if (i == RUN_KEEP)
            c->keep = arena_format(r->cli->arena, "%s,best=%s:%s:1", c->keep ? c->keep : "latest=1", w->metric,
                                   w->largest ? "max" : "min");
    }
    size_t length;
    const char *metric, *rules = cli_joined(r->cli, "keep", "");
    for (uint32_t i = 0; (metric = st_rules_metric(rules, i, &length)); i++) { /* none would be the best */
        metric = arena_string_n(r->cli->arena, metric, length);
        int code = find_metric(r, &(struct run_watch){.option = "keep", .text = metric, .metric = metric});
        if (code) return code;
    }
    char error[ST_TEXT];
    if (r->watches[RUN_KEEP].text && !st_rules_check(c->keep, error))
        return cli_usage(r->cli, "--keep-best: %s", error);
    return 0;
}

static int reduce(struct run *r, struct run_watch *w)
{
    double old = 0, now;
    step_status status = r->api->hyper_get(r->instance, w->hyper, &old);
    now = fmax(old * w->factor, w->least);
    w->missed = 0;
    if (!status && now < old) status = r->api->hyper_set(r->instance, w->hyper, now);
    if (status) return run_status(r, status, "--reduce-on-plateau");
    if (r->cli->quiet || now >= old) return 0;
    run_end_progress_line(r);
    fprintf(stderr, "stepc: note: --reduce-on-plateau %s: %s is %g after step %" PRIu64 ", it was %g\n", w->metric,
            w->hyper, now, r->checkpoint.step, old);
    return 0;
}

/* NaN is never better. */
int run_watch_step(struct run *r, bool stepped, bool evaluated)
{
    int code = 0;
    for (int i = 0; i < RUN_WATCHES; i++) {
        struct run_watch *w = &r->watches[i];
        w->better = false;
        if (!w->text || !(w->evaluated ? evaluated : stepped)) continue;
        double value = w->evaluated ? r->eval_sums[w->number] : r->scalars[w->number];
        w->better = isfinite(value) &&
                    (!w->seen || (w->largest ? value > w->best + w->delta : value < w->best - w->delta));
        w->missed = w->better ? 0 : w->missed + 1;
        if (w->better) w->best = value, w->seen = true, w->step = r->checkpoint.step;
        if (i == RUN_REDUCE && !code && w->missed >= w->patience) code = reduce(r, w);
    }
    return code;
}

bool run_watch_better(const struct run *r) { return r->watches[RUN_KEEP].better; }

bool run_watch_over(const struct run *r)
{
    const struct run_watch *w = &r->watches[RUN_STOP];
    return w->text && w->missed >= w->patience;
}

void run_watch_say(struct run *r)
{
    const struct run_watch *w = &r->watches[RUN_STOP];
    if (!run_watch_over(r) || r->cli->quiet) return;
    run_end_progress_line(r);
    fprintf(stderr, "stepc: note: --stop-when %s: stopped after step %" PRIu64, w->text, r->checkpoint.step);
    if (w->seen) fprintf(stderr, "; best was %g after step %" PRIu64 "\n", w->best, w->step);
    else fprintf(stderr, "; it was never finite\n");
}

const char *run_watch_text(const struct run *r)
{
    struct str s = STR(r->cli->arena);
    for (int i = 0; i < RUN_WATCHES; i++) {
        const struct run_watch *w = &r->watches[i];
        if (w->seen) str_addf(&s, "%s[%.17g,%" PRIu64 ",%" PRIu64 "]", w->key, w->best, w->missed, w->step);
        else if (w->missed) str_addf(&s, "%s[%" PRIu64 "]", w->key, w->missed);
    }
    return str_text(&s);
}
