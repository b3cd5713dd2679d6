/* What a run says: the head, the progress line and the summary. */
#include "frontend/cli/run.h"
#include "ir/ir.h"
#include "ir/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH_WITH_CURVE = 80 };

void run_end_progress_line(struct run *r)
{
    if (r->line_open) fputc('\n', stderr);
    r->line_open = false;
}

const char *run_message(const char *text)
{
    const char *rest = strncmp(text, "STEP_", 5) == 0 ? strstr(text, ": ") : NULL;
    return rest ? rest + 2 : text;
}

int run_status(struct run *r, step_status status, const char *doing)
{
    /* clang-format off */
    static const uint8_t codes[] = {
        [STEP_EINVAL] = EXIT_WRONG, [STEP_ENOTFOUND] = EXIT_WRONG, [STEP_ESHAPE] = EXIT_WRONG, [STEP_ERANGE] = EXIT_WRONG,
        [STEP_ENOMEM] = EXIT_ENVIRONMENT, [STEP_EIO] = EXIT_ENVIRONMENT, [STEP_ECORRUPT] = EXIT_WRONG, [STEP_EVERSION] = EXIT_WRONG,
        [STEP_EDEVICE] = EXIT_ENVIRONMENT, [STEP_EPEER] = EXIT_ENVIRONMENT, [STEP_ETIMEOUT] = EXIT_ENVIRONMENT, [STEP_ENONFINITE] = EXIT_WRONG,
        [STEP_ECANCELLED] = EXIT_ENVIRONMENT, [STEP_EBUSY] = EXIT_DEFECT, [STEP_EUNSUPPORTED] = EXIT_WRONG, [STEP_EPOISONED] = EXIT_ENVIRONMENT,
        [STEP_EINTERNAL] = EXIT_DEFECT};
    /* clang-format on */
    const char *text = run_message(r->api->last_error(r->instance));
    if (!*text) text = status == STEP_ENOMEM ? "out of memory" : r->api->status_name(status); /* none for the text */
    run_end_progress_line(r);
    if (doing && strncmp(text, "load: ", 6) == 0) text += 6; /* the option says it */
    r->lost |= status == STEP_EPEER || status == STEP_ETIMEOUT || status == STEP_EPOISONED;
    int code = status > 0 && (size_t)status < sizeof codes ? codes[status] : EXIT_DEFECT;
    return doing ? cli_failed(r->cli, code, "%s: %s", doing, text) : cli_failed(r->cli, code, "%s", text);
}

const char *run_output_path(const struct run *r, const char *path) { return r->place.rank ? "/dev/null" : path; }

/* ---------------------------------------------------------------- messages */

static const char *bytes_text(struct arena *a, uint64_t bytes)
{
    if (bytes < 10000) return arena_format(a, "%llu B", (unsigned long long)bytes);
    if (bytes < 1000000) return arena_format(a, "%.1f kB", (double)bytes * 1e-3);
    return arena_format(a, bytes < 10000000 ? "%.2f MB" : "%.1f MB", (double)bytes * 1e-6);
}

const char *run_seconds(struct arena *a, double s)
{
    if (s < 0.9995e-3) return arena_format(a, "%.3g us", s * 1e6);
    if (s < 0.9995) return arena_format(a, "%.3g ms", s * 1e3);
    if (s < 60) return arena_format(a, "%.1f s", s);
    if (s < 3600) return arena_format(a, "%d:%02d", (int)s / 60, (int)s % 60);
    return arena_format(a, "%d:%02d:%02d", (int)(s / 3600), (int)s / 60 % 60, (int)s % 60);
}

void run_head(struct run *r)
{
    struct arena *a = r->cli->arena;
    struct step_memory m = {.size = sizeof m};
    uint64_t parameters = 0;
    const char *comma = "";
    size_t tensors = r->api->tensor_count(r->instance, STEP_PARAM);
    if (r->cli->quiet) return;
    for (size_t i = 0; i < tensors; i++) {
        struct step_tensor t = {.size = sizeof t};
        uint64_t n = 1;
        r->api->tensor_at(r->instance, STEP_PARAM, i, &t);
        for (int32_t k = 0; k < t.rank; k++) n *= (uint64_t)t.shape[k];
        parameters += n;
    }
    r->api->memory(r->instance, 0, &m);
    const char *line = r->manifest ? cli_headline(r->cli, r->manifest, strlen(r->manifest)) : NULL;
    if (!line)
        line = arena_format(a, "%s: %s parameters in %zu tensor%s, interpreted\n", r->name,
                            cli_grouped(a, (double)parameters), tensors, tensors == 1 ? "" : "s");
    cli_show(line);
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"parameters", m.parameters},
                 {"averages", m.averages},
                 {"optimizer state", m.optimizer_state},
                 {"gradients", m.gradients},
                 {"activations", m.activations}};
    if (r->manifest) fprintf(stderr, "memory   peak %s: ", bytes_text(a, m.planned_peak));
    for (size_t i = 0; r->manifest && i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes)
            fprintf(stderr, "%s%s %s", comma, parts[i].name, bytes_text(a, parts[i].bytes)), comma = ", ";
    if (r->manifest) fputc('\n', stderr);
    fprintf(stderr, "run      %s step%s", cli_grouped(a, (double)r->steps), r->steps == 1 ? "" : "s");
    if (r->first_step) fprintf(stderr, " after step %s", cli_grouped(a, (double)r->first_step));
    if (r->data.rows)
        fprintf(stderr, ", %s rows in batches of %s%s", cli_grouped(a, (double)r->data.rows),
                cli_grouped(a, (double)r->data.batch), r->data.order ? ", shuffled" : "");
    else if (r->data.steps)
        fprintf(stderr, ", data for %s%s", cli_grouped(a, (double)r->data.steps),
                r->data.steps < r->steps ? " (used again from the start)" : "");
    fputc('\n', stderr);
}

bool run_is_evaluated(const struct step_tensor *metric)
{
    return metric->rank == 0 && !(metric->flags & STEP_NOT_EVALUATED);
}

void run_show_evaluated(struct run *r, uint64_t step)
{
    run_end_progress_line(r);
    for (size_t i = 0, k = 0; !r->cli->quiet && i < r->metric_count; i++) {
        double value = r->metrics[i].rank ? 0 : r->eval_sums[k++];
        if (!run_is_evaluated(&r->metrics[i])) continue;
        fprintf(stderr, "step %llu  eval_", (unsigned long long)step);
        cli_show(r->metrics[i].name);
        fprintf(stderr, " %.6g\n", value);
    }
}

static void add_to_curve(struct run_curve *c, double loss)
{
    if (!c->stride) c->stride = 1;
    if (c->count == 2 * RUN_CURVE) {
        for (uint32_t i = 0; i < RUN_CURVE; i++) c->sums[i] = c->sums[2 * i] + c->sums[2 * i + 1];
        c->count /= 2, c->stride *= 2;
    }
    if (!c->in_last++) c->sums[c->count] = 0;
    c->sums[c->count] += loss;
    if (c->in_last == c->stride) c->count++, c->in_last = 0;
}

/* The losses so far in eight heights; of one that is not finite a blank. */
static const char *curve_text(struct arena *a, const struct run_curve *c)
{
    static const char *const heights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    struct str out = STR(a);
    double low = INFINITY, high = -INFINITY, each[2 * RUN_CURVE];
    uint32_t columns = c->count > RUN_CURVE ? c->count / 2 : c->count, width = c->count > RUN_CURVE ? 2 : 1;
    for (uint32_t i = 0; i < columns; i++) {
        each[i] = width == 2 ? c->sums[2 * i] + c->sums[2 * i + 1] : c->sums[i];
        if (!isfinite(each[i])) continue;
        low = fmin(low, each[i]), high = fmax(high, each[i]);
    }
    for (uint32_t i = 0; i < columns; i++)
        str_add(&out,
                !isfinite(each[i]) ? " " : heights[high > low ? (int)((each[i] - low) / (high - low) * 7.999) : 0]);
    return str_text(&out);
}

/* On a terminal at most ten times a second, over itself; otherwise one line every ten seconds. */
void run_progress(struct run *r, const struct step_result *result, bool last)
{
    uint64_t now, pause = r->cli->progress ? 100000000u : 10000000000u;
    if (r->cli->quiet) return;
    add_to_curve(&r->curve, result->loss);
    now = clock_ns();
    if (now - r->shown_ns < pause && !(last && r->line_open)) return;
    double seconds = (double)(now - r->shown_ns) * 1e-9,
           rate = seconds > 0 ? (double)(r->done - r->shown_done) / seconds : 0;
    if (last && r->shown_rate > 0) rate = r->shown_rate;
    char text[32];
    double left = rate > 0 ? (double)(r->steps - r->done) / rate : 0;
    struct arena scratch = {0};
    snprintf(text, sizeof text, rate < 10 ? "%.2f" : "%.0f", rate);
    const char *curve = r->cli->progress && cli_utf8() && cli_columns(2, 0) >= WIDTH_WITH_CURVE
                            ? arena_format(&scratch, "%s  ", curve_text(&scratch, &r->curve))
                            : "";
    const char *line = arena_format(&scratch, "step %llu/%llu  loss %.4f  %s%s steps/s  ETA %s",
                                    (unsigned long long)r->done, (unsigned long long)r->steps, result->loss, curve,
                                    text, run_seconds(&scratch, left));
    /* what is wider than the terminal would go on in its next line, and stay there; a curve only stands where all fits
     */
    size_t width = r->cli->progress ? cli_columns(2, 0) : 0, room = width > 1 && !*curve ? width - 1 : strlen(line);
    fprintf(stderr, "%s%.*s%s", r->cli->progress ? "\r" : "", (int)room, line, r->cli->progress ? "\033[K" : "\n");
    arena_free(&scratch);
    fflush(stderr);
    r->line_open = r->cli->progress;
    r->shown_ns = now;
    r->shown_done = r->done;
    r->shown_rate = rate;
}

void run_summary(struct run *r)
{
    struct arena *a = r->cli->arena;
    struct step_memory m = {.size = sizeof m};
    double seconds = (double)(clock_ns() - r->begin_ns) * 1e-9;
    run_end_progress_line(r);
    if (r->cli->quiet) return;
    r->api->memory(r->instance, 0, &m);
    fprintf(stderr, "%s step%s", cli_grouped(a, (double)r->done), r->done == 1 ? "" : "s");
    if (r->done)
        fprintf(stderr, " in %s, mean %s, best %s per step, loss %.6g", run_seconds(a, seconds),
                run_seconds(a, seconds / (double)r->done), run_seconds(a, (double)r->best_ns * 1e-9), r->last_loss);
    if (r->manifest)
        fprintf(stderr, "; peak memory %s predicted, %s measured", bytes_text(a, m.planned_peak),
                bytes_text(a, m.measured_peak));
    if (r->skipped)
        fprintf(stderr,
                "; %llu of them skipped and not counted: a run that continues takes their number of batches again",
                (unsigned long long)r->skipped);
    fputc('\n', stderr);
}
