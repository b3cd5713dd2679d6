/* --stop-when and --keep-best: what is done when a metric gets better, or does not any more. The best value and how
 * often it was missed stand in the checkpoints, so that a run that continues decides like one that nobody stopped. */
#include "frontend/cli/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int wrong(const struct run *r, const struct run_watch *w, const char *why)
{
    return cli_usage(r->cli, "--%s %s: %s; as in --%s eval_loss:min%s", w->option, w->text, why, w->option,
                     w->stops ? ":patience=5:delta=0.001" : "");
}

/* Names of metrics may hold colons: the direction is the first part after one. */
static int read_rule(struct run *r, struct run_watch *w)
{
    const char *at = strstr(w->text, ":min"), *max = strstr(w->text, ":max");
    char *end;
    if (!at || (max && max < at)) at = max;
    if (!at || at == w->text || (at[4] && at[4] != ':')) return wrong(r, w, "expected METRIC:min or METRIC:max");
    w->metric = arena_string_n(r->cli->arena, w->text, (size_t)(at - w->text));
    w->key = arena_format(r->cli->arena, ",\"%s:%s\":", w->option,
                          arena_string_n(r->cli->arena, w->text, (size_t)(at + 4 - w->text)));
    w->largest = at[2] == 'a';
    w->patience = 1;
    for (at += 4; *at; at = end) {
        bool patience = w->stops && strncmp(at, ":patience=", 10) == 0,
             delta = w->stops && strncmp(at, ":delta=", 7) == 0;
        if (!patience && !delta) return wrong(r, w, "unknown part");
        const char *number = at + (patience ? 10 : 7);
        if (patience) w->patience = strtoull(number, &end, 10);
        else w->delta = strtod(number, &end);
        if (*number < '0' || *number > '9' || end == number || (*end && *end != ':') || (patience && !w->patience) ||
            !isfinite(w->delta))
            return wrong(r, w, patience ? "patience is a number from 1 on" : "delta is a number from 0 on");
    }
    return 0;
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
}

int run_watch_open(struct run *r, const char *item)
{
    static const char *const options[RUN_WATCHES] = {"stop-when", "keep-best"};
    struct run_checkpoint *c = &r->checkpoint;
    for (int i = 0; i < RUN_WATCHES; i++) {
        struct run_watch *w = &r->watches[i];
        *w = (struct run_watch){.option = options[i], .stops = i == 0, .text = cli_text(r->cli, options[i], NULL)};
        if (!w->text) continue;
        int code = !w->stops && !c->folder ? cli_usage(r->cli, "--keep-best needs --save-dir DIR") : read_rule(r, w);
        if (!code) code = find_metric(r, w);
        if (code) return code;
        restore(w, item);
        if (!w->stops)
            c->keep = arena_format(r->cli->arena, "%s,best=%s:%s:1", c->keep ? c->keep : "latest=1", w->metric,
                                   w->largest ? "max" : "min");
    }
    size_t length;
    const char *metric, *rules = cli_text(r->cli, "keep", "");
    for (uint32_t i = 0; (metric = st_rules_metric(rules, i, &length)); i++) { /* none would be the best */
        metric = arena_string_n(r->cli->arena, metric, length);
        int code = find_metric(r, &(struct run_watch){.option = "keep", .text = metric, .metric = metric});
        if (code) return code;
    }
    char error[ST_TEXT];
    if (r->watches[1].text && !st_rules_check(c->keep, error)) return cli_usage(r->cli, "--keep-best: %s", error);
    return 0;
}

/* NaN is never better. */
void run_watch_step(struct run *r, bool evaluated)
{
    for (int i = 0; i < RUN_WATCHES; i++) {
        struct run_watch *w = &r->watches[i];
        w->better = false;
        if (!w->text || (w->evaluated && !evaluated)) continue;
        double value = w->evaluated ? r->eval_sums[w->number] : r->scalars[w->number];
        w->better = isfinite(value) &&
                    (!w->seen || (w->largest ? value > w->best + w->delta : value < w->best - w->delta));
        w->missed = w->better ? 0 : w->missed + 1;
        if (w->better) w->best = value, w->seen = true, w->step = r->checkpoint.step;
    }
}

bool run_watch_better(const struct run *r) { return r->watches[1].better; }

bool run_watch_over(const struct run *r)
{
    const struct run_watch *w = &r->watches[0];
    return w->text && w->missed >= w->patience;
}

void run_watch_say(struct run *r)
{
    const struct run_watch *w = &r->watches[0];
    if (!run_watch_over(r) || r->cli->quiet) return;
    run_end_progress_line(r);
    fprintf(stderr, "stepc: note: --stop-when %s: stopped after step %" PRIu64, w->text, r->checkpoint.step);
    if (w->seen) fprintf(stderr, "; best was %g after step %" PRIu64 "\n", w->best, w->step);
    else fprintf(stderr, "; it was never finite\n");
}

const char *run_watch_text(const struct run *r)
{
    struct str s = STR(r->cli->arena);
    for (int i = 0; i < RUN_WATCHES; i++)
        if (r->watches[i].seen)
            str_addf(&s, "%s[%.17g,%" PRIu64 ",%" PRIu64 "]", r->watches[i].key, r->watches[i].best,
                     r->watches[i].missed, r->watches[i].step);
    return str_text(&s);
}
