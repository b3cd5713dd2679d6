/* Checkpoint directories of `stepc run`: when they are saved, what is told of it, and what a run that continues begins
 * with. Beside the state a checkpoint has an item that says how many batches were taken and of how many: steps that
 * were skipped took one, too. */
#include "frontend/cli/run.h"
#include "ir/base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_ITEM "stepc_run" /* its text: RUN_FORM */
#define RUN_FORM "{\"batches\":%" PRIu64 ",\"step\":%" PRIu64 ",\"data\":%" PRIu64 "%s%s}"
#define RUN_DUE ",\"evaluate\":true" /* a signal ended the evaluation after that step */
#define RUN_SCAN "{\"batches\":%" SCNu64 ",\"step\":%" SCNu64 ",\"data\":%" SCNu64

uint32_t run_save_flags(const struct cli *cli)
{
    if (!cli_count(cli, "compress")) return 0;
    return strcmp(cli_text(cli, "compress", ""), "all") == 0 ? STEP_SAVE_COMPRESS_ALL : STEP_SAVE_COMPRESS;
}

int run_checkpoint_options(struct run *r)
{
    static const char *const needing[] = {"save-every", "save-seconds", "keep", "compress", "on-save-error"};
    struct run_checkpoint *c = &r->checkpoint;
    c->folder = cli_text(r->cli, "save-dir", NULL);
    c->resume = cli_text(r->cli, "resume", NULL);
    for (size_t i = 0; i < sizeof needing / sizeof *needing; i++)
        if (!c->folder && cli_count(r->cli, needing[i]))
            return cli_usage(r->cli, "--%s needs --save-dir DIR", needing[i]);
    if (c->folder && st_is_file_name(c->folder)) /* where a host saves there it gets one file */
        return cli_usage(r->cli, "--save-dir %s: a name that ends in .safetensors is one of a file, not of a folder",
                         c->folder);
    if (c->folder && strlen(c->folder) > ST_FOLDER)
        return cli_failed(r->cli, EXIT_ENVIRONMENT,
                          "--save-dir: a path of %zu characters: of files in a folder whose path has more than %d some "
                          "could not be opened",
                          strlen(c->folder), ST_FOLDER);
    c->keep = cli_joined(r->cli, "keep", NULL);
    char error[ST_TEXT];
    if (c->keep && !st_rules_check(c->keep, error)) return cli_usage(r->cli, "--keep %s", error);
    int64_t pause = cli_integer(r->cli, "save-seconds", 0);
    if (pause > 1000000000) return cli_usage(r->cli, "--save-seconds: at most 1000000000 seconds");
    c->every = (uint64_t)cli_integer(r->cli, "save-every", 0);
    c->pause_ns = (uint64_t)pause * 1000000000u;
    c->flags = run_save_flags(r->cli);
    c->go_on = strcmp(cli_text(r->cli, "on-save-error", "stop"), "warn") == 0;
    if (!c->resume) return 0;
    bool number = *c->resume && strspn(c->resume, "0123456789") == strlen(c->resume);
    if (!c->folder && (number || strcmp(c->resume, "auto") == 0))
        return cli_usage(r->cli, "--resume %s needs --save-dir DIR; --resume PATH names a checkpoint", c->resume);
    if (strcmp(c->resume, "auto") != 0 && cli_count(r->cli, "init"))
        return cli_usage(r->cli,
                         "--resume %s and --init exclude each other; --resume auto takes --init where there is no "
                         "checkpoint yet",
                         c->resume);
    if (number) c->resume = arena_format(r->cli->arena, "%s/step-%s", c->folder, c->resume);
    return 0;
}

/* ---------------------------------------------------------------- what a run begins with */

bool run_is_whole(const char *path)
{
    char error[ST_TEXT];
    struct st_checkpoint c;
    step_status status = st_checkpoint_open(&c, path, true, error);
    if (status) return false;
    for (uint32_t i = 0; !status && i < c.member_count; i++) status = st_checkpoint_verify(&c, &c.members[i], error);
    st_checkpoint_close(&c);
    return !status;
}

/* Steps that lie in the folder behind the one that the run begins with would be in its way. Those that --resume auto
 * did not take are damaged: they get another name. */
static int clear_way(struct run *r, bool damaged)
{
    struct run_checkpoint *c = &r->checkpoint;
    char error[ST_TEXT];
    uint64_t *steps;
    uint32_t count;
    int code = 0;
    if (st_steps(c->folder, &steps, &count, error)) return 0; /* there is none yet, or saving will say why not */
    for (uint32_t i = 0; !code && i < count && (steps[i] > c->step || !c->resumed); i++) {
        const char *from = arena_format(r->cli->arena, "%s/step-%" PRIu64, c->folder, steps[i]);
        const char *to = arena_format(r->cli->arena, "%s.damaged", from);
        if (damaged && run_is_whole(from))
            code = cli_failed(r->cli, EXIT_WRONG,
                              "--save-dir %s: step-%" PRIu64 " was saved meanwhile: another run saves there", c->folder,
                              steps[i]);
        else if (!damaged)
            code = cli_failed(r->cli, EXIT_WRONG,
                              "--save-dir %s holds step-%" PRIu64
                              " already%s; --resume auto goes on from the newest one, "
                              "another folder keeps both",
                              c->folder, steps[i], c->resumed ? ", behind the one that is resumed" : "");
        else if (rename(from, to))
            code = cli_failed(r->cli, EXIT_ENVIRONMENT, "%s is damaged and cannot be renamed: %s", from,
                              strerror(errno));
        else fprintf(stderr, "stepc: warning: %s is damaged: it is %s now\n", from, to);
    }
    free(steps);
    return code;
}

/* Among the ranks of a mesh: whether one of them says so. */
static int any(struct run *r, bool mine, bool *one)
{
    uint64_t most = mine;
    step_status status = r->place.ranks > 1 ? r->api->agree(r->instance, mine, &most) : STEP_OK;
    *one = most != 0;
    return status ? run_status(r, status, NULL) : 0;
}

static bool any_there(const struct run *r)
{
    char error[ST_TEXT];
    uint64_t *steps;
    uint32_t count = 0;
    bool some = st_steps(r->checkpoint.folder, &steps, &count, error)
                    ? access(r->checkpoint.folder, F_OK) == 0 /* loading will say why it cannot be listed */
                    : count > 0;
    free(steps);
    return some;
}

int run_checkpoint_begin(struct run *r)
{
    struct run_checkpoint *c = &r->checkpoint;
    bool automatic = c->resume && strcmp(c->resume, "auto") == 0;
    bool some = false; /* before the first rank makes the folder */
    int code = automatic ? any(r, any_there(r), &some) : 0;
    if (code) return code;
    if (automatic && !some) {
        if (!r->cli->quiet) fprintf(stderr, "stepc: note: %s holds no checkpoint; the run begins anew\n", c->folder);
    } else if (c->resume) {
        const char *path = automatic ? c->folder : c->resume;
        struct step_load load = {
            .size = sizeof load, .path = path, .flags = cli_count(r->cli, "cast") ? STEP_LOAD_CAST : 0};
        if (!automatic && (code = run_map(r->cli, &load.map))) return code;
        if (r->place.ranks < 2 && (code = run_path_missing(r->cli, "--resume: ", path))) return code;
        step_status status = r->api->load(r->instance, &load);
        if (status) return run_status(r, status, "--resume");
        c->resumed = true;
    }
    return 0;
}

const char *run_checkpoint_item(const struct run *r)
{
    return r->checkpoint.resumed ? r->api->item(r->instance, RUN_ITEM) : NULL;
}

/* How training takes its rows, as the item says it: "" where data count steps. */
static const char *order_text(const struct run *r)
{
    const struct run_data *d = &r->data;
    if (!d->rows) return "";
    return d->order ? arena_format(r->cli->arena, ",\"batch\":%" PRIu64 ",\"shuffle\":%" PRIu64, d->batch, d->seed)
                    : arena_format(r->cli->arena, ",\"batch\":%" PRIu64, d->batch);
}

/* Rows that are taken in another order would be taken twice or not at all. */
static int check_order(struct run *r, const char *text)
{
    const char *was = strstr(text, ",\"batch\":"), *is = order_text(r);
    size_t length = was ? strcspn(was, "}") : 0;
    if (!r->steps || (length == strlen(is) && memcmp(was ? was : "", is, length) == 0)) return 0;
    const char *seed = was ? strstr(was, "\"shuffle\":") : NULL;
    const char *before = !was   ? "without --shuffle, from batches"
                         : seed ? arena_format(r->cli->arena, "with --shuffle=%.*s",
                                               (int)strspn(seed + 10, "0123456789"), seed + 10)
                                : "without --shuffle, from rows";
    uint64_t batch = was ? strtoull(was + 9, NULL, 10) : 0;
    if (batch) before = arena_format(r->cli->arena, "%s, in batches of %" PRIu64, before, batch);
    return cli_failed(r->cli, EXIT_WRONG,
                      "--resume: that run took its data %s; to go on from another order, or with other batches, begin "
                      "with --init",
                      before);
}

/* What the object was compiled without, or is not installed, is told before the first step, not after the last one:
 * `save` says it before it refuses an item that has no name, and writes nothing for that. */
static int can_save(struct run *r)
{
    const struct run_checkpoint *c = &r->checkpoint;
    struct step_item none = {.size = sizeof none, .name = "", .json = ""};
    struct step_save asked = {.size = sizeof asked,
                              .directory = c->folder,
                              .items = &none,
                              .item_count = 1,
                              .keep = c->keep,
                              .flags = c->flags};
    struct step_job *job = NULL;
    step_status status = r->api->save(r->instance, &asked, &job);
    bool lacks = status == STEP_EUNSUPPORTED || status == STEP_EDEVICE;
    return lacks ? run_status(r, status, "--save-dir") : 0;
}

int run_checkpoint_metrics(struct run *r)
{
    size_t metrics = 0;
    for (size_t i = 0; i < r->metric_count; i++) {
        if (r->metrics[i].rank) continue;
        metrics += cli_count(r->cli, "eval-data") && run_is_evaluated(&r->metrics[i]) ? 2 : 1;
    }
    if (!r->checkpoint.folder || metrics <= ST_METRICS) return 0;
    return cli_failed(r->cli, EXIT_WRONG,
                      "--save-dir: a checkpoint holds at most %d metrics of one number, this run has %zu with those of "
                      "evaluations",
                      ST_METRICS, metrics);
}

/* After the counter of the state was read: how far that run was in its data. */
int run_checkpoint_position(struct run *r)
{
    struct run_checkpoint *c = &r->checkpoint;
    const char *text = run_checkpoint_item(r);
    uint64_t batches, step, data;
    c->step = r->first_step;
    if (text && sscanf(text, RUN_SCAN, &batches, &step, &data) == 3) {
        int differs = check_order(r, text);
        if (differs) return differs;
        r->first_step = batches;
        c->step = step;
        c->due = strstr(text, RUN_DUE) != NULL;
        if (data != r->data.steps && r->steps)
            fprintf(stderr,
                    "stepc: warning: --resume: that run had data for %" PRIu64 " steps, this one for %" PRIu64 "\n",
                    data, r->data.steps);
    }
    c->evaluated = UINT64_MAX;
    c->saved = c->resumed ? c->step : UINT64_MAX;
    if (c->resumed) r->steps = r->steps > r->first_step ? r->steps - r->first_step : 0;
    if (c->resumed && !r->cli->quiet)
        fprintf(stderr, "resume   step %" PRIu64 "%s\n", c->step, r->steps ? "" : ": nothing is left to do");
    if (!c->folder) return 0;
    int code = can_save(r);
    if (!code && !r->place.rank) code = clear_way(r, c->resume && strcmp(c->resume, "auto") == 0);
    if (!code && !r->place.rank) code = run_save_folder(r, c->folder);
    bool one;
    int lost = any(r, code != 0, &one);
    return code ? code : lost ? lost : one ? EXIT_ENVIRONMENT : 0;
}

/* ---------------------------------------------------------------- saving */

static int save_failed(struct run *r, step_status status)
{
    struct run_checkpoint *c = &r->checkpoint;
    c->failed = true;
    if (!c->go_on) return run_status(r, status, "--save-dir");
    fprintf(stderr, "%sstepc: warning: --save-dir: %s; training goes on\n", r->line_open ? "\n" : "",
            run_message(r->api->last_error(r->instance)));
    r->line_open = false;
    return 0;
}

/* What became of the save that runs; `wait`: until it has ended. Among ranks a failure counts where all of them ask. */
static int collect(struct run *r, bool wait)
{
    struct run_checkpoint *c = &r->checkpoint;
    if (!c->job) return 0;
    step_status status = r->api->job_wait(c->job, wait ? -1 : 0);
    if (status == STEP_ETIMEOUT || (status && !wait && r->place.ranks > 1)) return 0;
    int code = status ? save_failed(r, status) : 0;
    r->api->job_free(c->job);
    c->job = NULL;
    if (status) return code;
    c->failed = false;
    if (!r->cli->quiet)
        fprintf(stderr, "%ssaved step %" PRIu64 " in %s, the step waited %s\n", r->line_open ? "\n" : "", c->saved,
                run_seconds(r->cli->arena, (double)(clock_ns() - c->begin_ns) * 1e-9),
                run_seconds(r->cli->arena, (double)c->waited_ns * 1e-9));
    r->line_open = false;
    return 0;
}

/* The same for a save that all ranks take part in, until all have written: one that is not ready, or that removes old
 * checkpoints, says so, and may take as long as it wants. */
static int collect_all(struct run *r)
{
    struct run_checkpoint *c = &r->checkpoint;
    bool some = r->place.ranks > 1 && !r->lost;
    while (some) {
        int lost = any(r, c->job && r->api->job_wait(c->job, RUN_PAUSE_MS) == STEP_ETIMEOUT, &some);
        if (lost) return lost;
    }
    return collect(r, true);
}

static void add_metric(struct run *r, struct step_hyper *to, const char *prefix, const char *name, double value)
{
    *to = (struct step_hyper){
        .size = sizeof *to, .name = arena_format(r->cli->arena, "%s%s", prefix, name), .value = value};
}

static int save(struct run *r)
{
    struct run_checkpoint *c = &r->checkpoint;
    bool one;
    int code = collect_all(r), lost = any(r, code != 0, &one);
    if (!code) code = lost;
    if (!code && one)
        code = cli_failed(r->cli, EXIT_ENVIRONMENT, "--save-dir: another rank could not save step %" PRIu64, c->saved);
    if (code) return code;
    const char *watched = arena_format(r->cli->arena, "%s%s", run_watch_text(r), c->due ? RUN_DUE : "");
    const char *text = arena_format(r->cli->arena, RUN_FORM, r->first_step + r->done, c->step, r->data.steps, watched,
                                    order_text(r));
    struct step_item item = {.size = sizeof item, .name = RUN_ITEM, .json = text};
    struct step_hyper *metrics = arena_new_array(r->cli->arena, struct step_hyper, 2 * (size_t)r->scalar_count + 1);
    size_t count = 0;
    for (size_t i = 0, k = 0; r->done && i < r->metric_count; i++) {
        if (r->metrics[i].rank) continue;
        add_metric(r, &metrics[count++], "", r->metrics[i].name, r->scalars[k]);
        if (c->evaluated == c->step && run_is_evaluated(&r->metrics[i]))
            add_metric(r, &metrics[count++], "eval_", r->metrics[i].name, r->eval_sums[k]);
        k++;
    }
    struct step_save options = {.size = sizeof options,
                                .directory = c->folder,
                                .items = &item,
                                .item_count = 1,
                                .metrics = metrics,
                                .metric_count = count,
                                .keep = c->keep,
                                .flags = c->flags};
    c->begin_ns = clock_ns();
    step_status status = r->api->save(r->instance, &options, &c->job);
    c->waited_ns = clock_ns() - c->begin_ns;
    c->saved = c->step;
    return status ? save_failed(r, status) : 0;
}

/* Weights that are lost do not take the place of good ones. */
static bool is_lost(struct run *r)
{
    if (!run_weights_lost(r)) return false;
    if (!r->checkpoint.told && !r->cli->quiet)
        fprintf(stderr,
                "%sstepc: warning: the weights are NaN or infinite since step %" PRIu64
                ": no checkpoint is saved of them (--on-nonfinite continue saves them)\n",
                r->line_open ? "\n" : "", r->nonfinite);
    r->checkpoint.told = true;
    r->line_open = false;
    return true;
}

/* Where ranks ask one another all of them do, whatever has gone wrong on one: it says so before they save. */
static int save_due(struct run *r, bool now, int code)
{
    struct run_checkpoint *c = &r->checkpoint;
    int collected = collect(r, false);
    c->over = collected != 0;
    if (!code) code = collected;
    if (c->step == c->saved) return code;
    bool due = now || (c->every && c->step % c->every == 0);
    if (c->pause_ns && !due) {
        int lost = any(r, clock_ns() - (c->begin_ns ? c->begin_ns : r->begin_ns) >= c->pause_ns, &due);
        if (lost) return code ? code : lost;
    }
    if (due) code = run_agree(r, code);
    if (code || !due || is_lost(r)) return code;
    code = save(r);
    c->over = code != 0;
    return code;
}

int run_checkpoint_step(struct run *r, bool now, int code)
{
    return r->checkpoint.folder ? save_due(r, now, code) : code;
}

int run_checkpoint_end(struct run *r)
{
    struct run_checkpoint *c = &r->checkpoint;
    if (!c->folder) return 0;
    int code = c->step != c->saved && r->done && !c->over && !is_lost(r) ? save(r) : 0;
    int ended = collect_all(r);
    if (!code) code = ended;
    return code || !c->failed ? code : EXIT_ENVIRONMENT;
}
