/* `stepc run`: trains a compiled step, or a document through the interpreter, on data from files. */
#include "frontend/cli/run.h"
#include "ir/base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- options */

static int read_set(struct run *r, const char *text)
{
    const char *equals = strchr(text, '='), *at = equals ? strchr(equals, '@') : NULL;
    char *end;
    double ignored;
    if (!equals || equals == text) return cli_usage(r->cli, "--set %s: expected NAME=VALUE or NAME=VALUE@STEP", text);
    struct run_set set = {
        .name = arena_string_n(r->cli->arena, text, (size_t)(equals - text))}; /* step 0: the first of this run */
    set.value = strtod(equals + 1, &end);
    if (end == equals + 1 || (*end && end != at)) return cli_usage(r->cli, "--set %s: the value is not a number", text);
    if (isinf((float)set.value)) return cli_usage(r->cli, "--set %s: the value is not finite in float32", text);
    if (at) {
        errno = 0;
        unsigned long long step = strtoull(at + 1, &end, 10);
        if (at[1] < '0' || at[1] > '9' || *end || errno || !step)
            return cli_usage(r->cli, "--set %s: expected a step from 1 on after @", text);
        set.step = step;
    }
    step_status status = r->api->hyper_get(r->instance, set.name, &ignored);
    if (status) {
        size_t n = r->api->hyper_count(r->instance);
        const char **names = arena_new_array(r->cli->arena, const char *, n + 1);
        for (size_t i = 0; i < n; i++) {
            struct step_hyper h = {.size = sizeof h};
            r->api->hyper_at(r->instance, i, &h);
            names[i] = h.name;
        }
        struct str why = STR(r->cli->arena);
        str_add(&why, run_message(r->api->last_error(NULL)));
        if (status == STEP_ENOTFOUND) str_add(&why, cli_meant(r->cli, set.name, names, n));
        if (status == STEP_ENOTFOUND) str_add(&why, n ? "; there" : "; none can be set");
        for (size_t i = 0; status == STEP_ENOTFOUND && i < n; i++)
            str_addf(&why, "%s %s", i ? "," : n == 1 ? " is" : " are", names[i]);
        return cli_failed(r->cli, EXIT_WRONG, "--set %s: %s", text, str_text(&why));
    }
    for (size_t i = 0; i < r->sets.count; i++)
        if (r->sets.items[i].step == set.step && strcmp(r->sets.items[i].name, set.name) == 0)
            return cli_usage(r->cli, "--set %s: it is given for that step already: %g", text, r->sets.items[i].value);
    vec_push(r->cli->arena, &r->sets, set);
    return 0;
}

static int read_options(struct run *r)
{
    static const char *const policies[] = {"continue", "stop", "skip"};
    const char *const *sets, *policy = cli_text(r->cli, "on-nonfinite", "continue");
    size_t n = cli_values(r->cli, "set", &sets);
    int code = 0;
    if (cli_count(r->cli, "all-state") && !cli_count(r->cli, "save"))
        return cli_usage(r->cli, "--all-state needs --save FILE");
    for (size_t i = 0; !code && i < n; i++) code = read_set(r, sets[i]);
    while (strcmp(policies[r->policy], policy) != 0) r->policy++;
    return code;
}

/* --eval-weights is looked up before the first step, not when hours later something is to be evaluated. */
static int read_weights(struct run *r)
{
    const char *weights = r->eval_weights = cli_text(r->cli, "eval-weights", NULL);
    if (weights && !cli_count(r->cli, "eval-data") && !cli_count(r->cli, "infer"))
        return cli_usage(r->cli, "--eval-weights needs --eval-data or --infer FILE");
    bool there = !weights || strcmp(weights, "params") == 0;
    struct step_tensor t = {.size = sizeof t};
    for (uint32_t role = STEP_PARAM + 1; role <= STEP_STATE; role++)
        for (size_t i = 0; !there && r->api->tensor_at(r->instance, role, i, &t) == STEP_OK; i++) {
            size_t n = strlen(weights);
            there = strncmp(t.name, weights, n) == 0 && t.name[n] == '.';
        }
    return there ? 0 : cli_failed(r->cli, EXIT_WRONG, "--eval-weights: there are no weights \"%s\"", weights);
}

static bool asks_steps(const struct run *r) { return cli_count(r->cli, "steps") || cli_count(r->cli, "epochs"); }

static int read_steps(struct run *r)
{
    bool steps = cli_count(r->cli, "steps") > 0, epochs = cli_count(r->cli, "epochs") > 0;
    bool infer = cli_count(r->cli, "infer") > 0;
    bool evaluates = cli_count(r->cli, "eval-data") > 0;
    r->eval_every = (uint64_t)cli_integer(r->cli, "eval-every", 0);
    if (r->eval_every && !evaluates) return cli_usage(r->cli, "--eval-every needs --eval-data");
    r->eval_last = evaluates && !r->eval_every;
    if ((infer || evaluates) && !steps && !epochs) return 0; /* no step at all */
    if (steps == epochs)
        return cli_usage(r->cli,
                         steps ? "--steps and --epochs exclude each other" : "--steps N or --epochs N is missing");
    r->steps = (uint64_t)cli_integer(r->cli, steps ? "steps" : "epochs", 0);
    if (epochs && !r->data.steps) return cli_usage(r->cli, "--epochs needs --data");
    uint64_t one = r->data.rows && !r->data.partial ? r->data.rows : r->data.steps;
    if (epochs && (__builtin_mul_overflow(r->steps, one, &r->steps) || r->steps > INT64_MAX))
        return cli_usage(r->cli, "--epochs: too many steps");
    if (epochs && r->data.rows && !r->data.partial) r->steps = (r->steps + r->data.batch - 1) / r->data.batch;
    return 0;
}

/* ---------------------------------------------------------------- running */

/* What is evaluated is called as the metric, behind eval_; arrays are not. */
static int check_names(const struct run *r)
{
    for (size_t i = 0; cli_count(r->cli, "eval-data") && i < r->metric_count; i++) {
        const char *own = r->metrics[i].name;
        if (r->metrics[i].rank && !(r->metrics[i].flags & STEP_NOT_EVALUATED) && !r->cli->quiet && !r->place.rank)
            cli_show(
                arena_format(r->cli->arena, "stepc: note: --eval-data reports numbers, not the array \"%s\"\n", own));
        for (size_t k = 0; k < r->metric_count; k++) {
            const char *name = r->metrics[k].name;
            if (!run_is_evaluated(&r->metrics[i]) || strncmp(name, "eval_", 5) || strcmp(name + 5, own)) continue;
            return cli_failed(r->cli, EXIT_WRONG,
                              "--eval-data: \"%s\" is what an evaluation gives of \"%s\"; the document's metric of "
                              "that name needs another one",
                              name, own);
        }
    }
    return 0;
}

static int prepare_metrics(struct run *r)
{
    r->metric_count = r->api->tensor_count(r->instance, STEP_METRIC);
    r->metrics = arena_new_array(r->cli->arena, struct step_tensor, r->metric_count + 1);
    for (size_t i = 0; i < r->metric_count; i++) {
        r->metrics[i].size = sizeof r->metrics[i];
        r->api->tensor_at(r->instance, STEP_METRIC, i, &r->metrics[i]);
        if (r->metrics[i].rank == 0) r->scalar_count++;
    }
    r->scalars = arena_new_array(r->cli->arena, double, r->scalar_count + 1);
    r->eval_sums = arena_new_array(r->cli->arena, double, 2 * (size_t)r->scalar_count + 2);
    int code = check_names(r);
    if (!code) code = run_checkpoint_metrics(r);
    return code ? code : run_metrics_open(r);
}

enum { EVALUATION_STOPPED = -1 }; /* by a signal: what it has so far is no result */

/* Whether a scalar metric, by its number among these, is a sum over the rows that count. */
static bool is_summed(const struct run *r, uint32_t number)
{
    size_t i = 0;
    for (uint32_t k = 0; r->metrics[i].rank || k++ < number;) i++;
    return r->eval_data.partial && r->metrics[i].flags & STEP_SUMMED;
}

/* Scalar metrics without update: the mean over the batches of --eval-data, in which a batch counts for what the metric
 * --eval-count says; that one itself is summed. A batch that is not full counts for the rows that it has. */
static int evaluate(struct run *r)
{
    double *one = r->eval_sums + r->scalar_count + 1, all = 0;
    for (uint32_t i = 0; i < r->scalar_count; i++) r->eval_sums[i] = 0;
    uint64_t batches = r->eval_data.steps ? r->eval_data.steps : 1;
    for (uint64_t k = 0; k < batches; k++) {
        struct step_batch batch;
        struct step_result result = {.size = sizeof result, .metrics = one, .metric_capacity = r->scalar_count};
        int code = run_agree(r, run_data_batch(r, &r->eval_data, k, &batch));
        if (code) return code;
        if (run_stopped(r)) return EVALUATION_STOPPED;
        step_status status = r->api->eval(r->instance, &batch, r->eval_weights, &result);
        if (status) return run_status(r, status, "--eval-data");
        double rows = r->eval_data.rows ? (double)run_rows_counted(&r->eval_data, k) / (double)r->eval_data.batch : 1;
        double weight = r->eval_count >= 0 ? one[r->eval_count] : r->eval_data.partial ? rows : 1;
        all += weight;
        for (uint32_t i = 0; i < r->scalar_count; i++) /* what counts for nothing may be 0/0 */
            if (weight != 0) r->eval_sums[i] += one[i] * (is_summed(r, i) ? weight / rows : weight);
    }
    for (uint32_t i = 0; i < r->scalar_count; i++) r->eval_sums[i] /= all;
    if (r->eval_count >= 0) r->eval_sums[r->eval_count] = all;
    return 0;
}

/* The scalar metric of --eval-count. Rows that do not fill the last batch need one: without it the zeros there would
 * count. */
static int read_eval_count(struct run *r)
{
    const char *name = cli_text(r->cli, "eval-count", NULL);
    const char **names = arena_new_array(r->cli->arena, const char *, r->metric_count + 1);
    uint32_t n = 0, k = 0;
    r->eval_count = -1;
    for (size_t i = 0; i < r->metric_count; i++) {
        if (r->metrics[i].rank) continue;
        if (run_is_evaluated(&r->metrics[i])) {
            if (name && strcmp(r->metrics[i].name, name) == 0) r->eval_count = (int32_t)k;
            names[n++] = r->metrics[i].name;
        }
        k++;
    }
    if (name && !cli_count(r->cli, "eval-data")) return cli_usage(r->cli, "--eval-count needs --eval-data");
    if (name && r->eval_count < 0)
        return cli_failed(r->cli, EXIT_WRONG,
                          "--eval-count: no metric \"%s\" of one number that an evaluation computes%s", name,
                          cli_meant(r->cli, name, names, n));
    const struct run_data *d = &r->eval_data;
    if (!d->rows || d->rows % d->batch == 0 || name || d->partial) return 0;
    return cli_failed(
        r->cli, EXIT_WRONG,
        "--eval-data: %llu rows do not fill batches of %llu; \"partial_batches\": true in the document lets "
        "the last one be smaller, or a metric that says what a batch counts for, such as \"sum(mask)\", "
        "is named by --eval-count (stepc doc inference)",
        (unsigned long long)d->rows, (unsigned long long)d->batch);
}

static int apply_sets(struct run *r, uint64_t step)
{
    for (size_t i = 0; i < r->sets.count; i++)
        if (r->sets.items[i].step == step || (!r->sets.items[i].step && step == r->first_step + 1)) {
            step_status status = r->api->hyper_set(r->instance, r->sets.items[i].name, r->sets.items[i].value);
            if (status) return run_status(r, status, "--set");
        }
    return 0;
}

/* Steps are counted from the beginning of the training, not of this run: a run that continues takes up the data, the
 * evaluations and what is still to be set where the one before it ended. */
static int one_step(struct run *r, uint64_t k)
{
    struct step_batch batch;
    struct step_result result = {.size = sizeof result, .metrics = r->scalars, .metric_capacity = r->scalar_count};
    int code = apply_sets(r, k + 1);
    if (!code) code = run_data_batch(r, &r->data, k, &batch);
    code = run_agree(r, code);
    if (code || run_stopped(r)) return code;
    batch.flags = r->policy; /* of a step alone */
    step_status status = r->api->step(r->instance, &batch, &result);
    if (status) return run_status(r, status, run_rows_text(r, &r->data, k));
    if (r->done == 0 || result.ns_total < r->best_ns) r->best_ns = result.ns_total;
    r->done++;
    r->last_loss = result.loss;
    run_nonfinite(r, &result);
    r->checkpoint.step = result.step;
    if (result.flags & STEP_SKIPPED) result.step++; /* what metrics say is of the step that was tried */
    bool evaluated = (r->eval_every && (k + 1) % r->eval_every == 0) || (r->eval_last && r->done == r->steps);
    code = run_metrics_begin(r, &result);
    if (!code && evaluated) code = evaluate(r);
    r->checkpoint.due = code == EVALUATION_STOPPED;
    if (r->checkpoint.due) code = 0, evaluated = false;
    if (!code && evaluated) r->checkpoint.evaluated = r->checkpoint.step;
    if (!code) code = run_watch_step(r, true, evaluated);
    if (!code && evaluated && !r->sinks) run_show_evaluated(r, result.step);
    if (!code) code = run_metrics_end(r, evaluated ? r->eval_sums : NULL);
    run_progress(r, &result, r->done == r->steps);
    return code;
}

/* Without a step: what was loaded is evaluated. */
static int evaluate_alone(struct run *r)
{
    int code = evaluate(r);
    if (code) return code == EVALUATION_STOPPED ? 0 : code;
    r->checkpoint.due = false;
    if (!r->sinks) run_show_evaluated(r, r->checkpoint.step);
    else if (!(code = run_metrics_begin(r, NULL))) code = run_metrics_end(r, r->eval_sums);
    return code;
}

/* What a signal kept the run before from: its row follows that of the step. */
static int evaluate_due(struct run *r)
{
    if (!r->checkpoint.due || !r->eval_every) return 0;
    int code = evaluate_alone(r);
    return code || r->checkpoint.due ? code : run_watch_step(r, false, true);
}

/* SIGUSR1. */
static int save_now(struct run *r, const char *save)
{
    if (r->checkpoint.folder) return 0; /* a checkpoint does it */
    bool lost = save && run_weights_lost(r);
    int code = save && !lost ? run_save(r, save, cli_count(r->cli, "all-state") > 0) : 0;
    if (!code && !r->cli->quiet)
        fprintf(stderr, "%sstepc: note: SIGUSR1: %s step %llu\n", r->line_open ? "\n" : "",
                lost   ? "the weights are NaN or infinite, nothing is saved after"
                : save ? "saved the state after"
                       : "without --save FILE nothing is saved after",
                (unsigned long long)(r->first_step + r->done));
    r->line_open = false;
    return code;
}

/* begin: what follows is traced; else the file is written. Every rank has one of its own. */
static int trace(struct run *r, bool begin)
{
    const char *path = cli_output(r->cli, "trace");
    if (!path) return 0;
    if (r->place.rank) path = arena_format(r->cli->arena, "%s.%u", path, r->place.rank);
    step_status status = r->api->trace(r->instance, begin ? path : NULL);
    if (status == STEP_EUNSUPPORTED)
        return cli_failed(r->cli, EXIT_WRONG,
                          "--trace: this object was compiled --without trace, or is so small that a step is one "
                          "function, whose kernels nobody tells apart");
    return status ? run_status(r, status, "--trace") : 0;
}

static int train(struct run *r)
{
    struct sigaction old[RUN_SIGNALS];
    const char *save = cli_output(r->cli, "save");
    run_signals_catch(old);
    r->begin_ns = r->shown_ns = clock_ns();
    int code = run_agree(r, trace(r, true));
    if (!code) code = evaluate_due(r);
    for (uint64_t k = 0; !code && !run_stopped(r) && !run_watch_over(r) && k < r->steps; k++) {
        code = one_step(r, r->first_step + k);
        bool wanted = run_save_wanted(r);
        if (wanted && !r->checkpoint.folder) code = run_agree(r, code);
        if (wanted && !code) code = save_now(r, save);
        code = run_checkpoint_step(r, wanted || run_watch_better(r), code);
    }
    if (!r->lost) {
        int traced = trace(r, false);
        if (!code) code = traced;
    }
    code = run_agree(r, code);
    run_signals_interrupt();
    uint64_t end = clock_ns();
    bool over = r->checkpoint.resumed && r->eval_every && asks_steps(r); /* and so are its evaluations */
    if (!code && !run_stopped(r) && !r->steps && cli_count(r->cli, "eval-data") && !over) code = evaluate_alone(r);
    if (!code && !run_stopped(r) && r->steps) run_watch_say(r);
    int closed = run_metrics_close(r, !code);
    if (!code) code = closed;
    if (run_stopped(r) && !code && !r->cli->quiet)
        fprintf(stderr, "%sstepc: note: stopped by %s after step %llu of %llu%s\n", r->line_open ? "\n" : "",
                run_stopped(r) == SIGINT ? "Ctrl-C" : "a signal", (unsigned long long)(r->first_step + r->done),
                (unsigned long long)(r->first_step + r->steps),
                save || r->checkpoint.folder ? "; its state is saved" : "; without --save FILE its state is lost");
    if (run_stopped(r)) r->line_open = false;
    if (!code || (save && r->done && !r->lost)) { /* what ended the run early must not cost the steps that are done */
        int saved = run_save_finite(r, save);
        if (code && !saved)
            fprintf(stderr, "stepc: note: --save %s: the state after step %llu\n", save,
                    (unsigned long long)(r->first_step + r->done));
        if (!code) code = saved;
    }
    int checkpointed = run_checkpoint_end(r);
    if (!code) code = checkpointed;
    const char *infer = cli_output(r->cli, "infer");
    if (infer && !code && !run_stopped(r)) code = run_infer(r, infer);
    if (infer && !code && run_stopped(r) && !r->cli->quiet)
        fprintf(stderr, "stepc: note: --infer %s: stopped before it was written\n", infer);
    r->begin_ns += clock_ns() - end; /* the summary is about steps, not about writing files */
    run_summary(r);
    run_signals_restore(r, old);
    return code;
}

/* The steps that the state has behind it, and what of --set lies there too. */
static int read_step_counter(struct run *r)
{
    int32_t steps = 0;
    struct step_array a = {.size = sizeof a, .name = "step", .data = &steps, .dtype = STEP_I32};
    struct step_tensor t = {.size = sizeof t};
    bool counted = r->api->tensor_find(r->instance, a.name, &t) == STEP_OK && t.role == STEP_STATE;
    step_status status = counted ? r->api->read(r->instance, &a) : STEP_OK;
    if (status) return run_status(r, status, "--init");
    r->first_step = steps > 0 ? (uint64_t)steps : 0;
    int code = run_checkpoint_position(r);
    if (code) return code;
    uint64_t end = r->first_step + r->steps;
    if (r->eval_every && r->steps && end / r->eval_every == r->first_step / r->eval_every && !r->checkpoint.due &&
        !r->cli->quiet)
        fprintf(stderr,
                "stepc: warning: --eval-every %" PRIu64 ": the run ends with step %" PRIu64 "; nothing is evaluated\n",
                r->eval_every, end);
    for (size_t i = 0; i < r->sets.count && !r->cli->quiet; i++) {
        uint64_t step = r->sets.items[i].step;
        if (!step || (step > r->first_step && step <= end)) continue;
        fprintf(stderr,
                step > end
                    ? "stepc: warning: --set %s=%g@%llu: the run ends with step %llu; nothing is set\n"
                    : "stepc: warning: --set %s=%g@%llu: step %llu is done already; the value that was saved holds\n",
                r->sets.items[i].name, r->sets.items[i].value, (unsigned long long)step,
                (unsigned long long)(step > end ? end : r->first_step));
    }
    return 0;
}

/* A state brings its hyper-parameters with it. Who has written another one into the document is told. */
static const double *hypers(struct run *r)
{
    size_t n = r->api->hyper_count(r->instance);
    double *values = arena_new_array(r->cli->arena, double, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct step_hyper h = {.size = sizeof h};
        r->api->hyper_at(r->instance, i, &h);
        values[i] = h.value;
    }
    return values;
}

static void say_restored(struct run *r, const double *written)
{
    const double *now = hypers(r);
    for (size_t i = r->cli->quiet ? SIZE_MAX : 0; i < r->api->hyper_count(r->instance); i++) {
        struct step_hyper h = {.size = sizeof h};
        bool set = false;
        r->api->hyper_at(r->instance, i, &h);
        for (size_t k = 0; k < r->sets.count; k++)
            set |= !r->sets.items[k].step && !strcmp(r->sets.items[k].name, h.name);
        if (!set && (float)now[i] != (float)written[i] && !isnan(written[i]))
            cli_show(arena_format(r->cli->arena,
                                  "stepc: note: %s is %g, as it was saved; the document has %g (--set %s=%g)\n", h.name,
                                  now[i], written[i], h.name, written[i]));
    }
}

static int start(struct run *r)
{
    const char *infer = cli_output(r->cli, "infer");
    bool evaluates = cli_count(r->cli, "eval-data") > 0, infers_data = infer && !cli_count(r->cli, "infer-data");
    bool trains = asks_steps(r) || infers_data || (!infer && !evaluates);
    if (!infer && cli_count(r->cli, "infer-data")) return cli_usage(r->cli, "--infer-data needs --infer FILE");
    r->infer_data.some = r->infer_data.once = r->eval_data.once = true;
    r->data.once = infers_data && !asks_steps(r);
    int code = trains ? run_data_open(r, &r->data, "--data") : 0;
    if (!code) code = read_options(r);
    if (!code) code = read_steps(r);
    if (!code) code = read_weights(r);
    if (!code) code = run_checkpoint_options(r);
    if (!code) code = run_init_options(r);
    if (!code && cli_count(r->cli, "infer-data")) code = run_data_open(r, &r->infer_data, "--infer-data");
    if (!code && cli_count(r->cli, "eval-data")) code = run_data_open(r, &r->eval_data, "--eval-data");
    if (code) return code;
    const double *written = hypers(r);
    if ((code = run_checkpoint_begin(r))) return code;
    step_status status = r->checkpoint.resumed ? STEP_OK : r->api->init(r->instance);
    if (status == STEP_EUNSUPPORTED && cli_count(r->cli, "init")) status = STEP_OK;
    if (status) return run_status(r, status, r->path);
    const char *init = r->checkpoint.resumed ? NULL : cli_text(r->cli, "init", NULL);
    if (init && (code = run_init(r, init))) return code;
    const char *peft = r->checkpoint.resumed ? NULL : cli_text(r->cli, "peft", NULL);
    if (peft && (code = run_peft(r, peft))) return code;
    if ((code = read_step_counter(r))) return code;
    if (trains) say_restored(r, written);
    const char *save = cli_output(r->cli, "save");
    if (save && (code = run_save_possible(r, "--save", run_output_path(r, save)))) return code;
    if (infer && (code = run_save_possible(r, "--infer", run_output_path(r, infer)))) return code;
    r->was_finite = run_weights_finite(r);
    code = prepare_metrics(r);
    if (!code) code = run_watch_open(r, run_checkpoint_item(r));
    return code ? code : read_eval_count(r);
}

int cli_run(struct cli *cli)
{
    struct run r = {.cli = cli, .path = cli->operands.items[0]};
    if (cli_count(cli, "ranks")) return run_launch(cli);
    run_mark_begin(cli);
    int code = run_open(&r);
    if (!code) code = start(&r);
    if (!code) {
        run_head(&r);
        code = train(&r);
    } else {
        run_metrics_close(&r, false);
        run_save_folder_undo(&r);
    }
    run_data_close(&r.data);
    run_data_close(&r.eval_data);
    run_data_close(&r.infer_data);
    run_mark_end(&r, code);
    if (r.api) run_close(&r);
    return code ? code : run_stop_code(&r);
}
