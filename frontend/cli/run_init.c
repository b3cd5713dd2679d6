/* --init of `stepc run`, and what may be different in what it names: --params-only, --init-partial, --cast. What lacks
 * and what is not read is told here, where the names of both sides are known, so that an object carries as little of it
 * as possible. */
#include "frontend/cli/run.h"

#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADAPTER "*.lora_?" /* a base has none of them */
enum { NAMED = 10 };

void run_listed_add(struct run_listed *n, const char *name)
{
    if (n->count++ < NAMED) str_addf(&n->text, "%s\"%s\"", n->count > 1 ? ", " : "", name);
}

const char *run_listed(struct run_listed *n)
{
    if (n->count > NAMED) str_addf(&n->text, " and %u more", n->count - NAMED);
    return str_text(&n->text);
}

int run_init_options(struct run *r)
{
    static const char *const changes[] = {"cast", "map", "params-only", "init-partial"};
    const char *resume = r->checkpoint.resume;
    if (resume && strcmp(resume, "auto") == 0 && cli_count(r->cli, "map") && !cli_count(r->cli, "init"))
        return cli_usage(r->cli, "--map needs --init PATH or --resume PATH: what --resume auto finds is of this step");
    for (size_t i = 0; i < 4 && !cli_count(r->cli, "init"); i++)
        if (cli_count(r->cli, changes[i]) && (i > 1 || !resume))
            return cli_usage(r->cli, "--%s needs --init PATH%s", changes[i],
                             resume ? ": who resumes takes all of the state" : "");
    if (!cli_count(r->cli, "peft") && (cli_count(r->cli, "hf") || cli_count(r->cli, "names")))
        return cli_usage(r->cli, "--hf and --names go with --peft DIR: they say which layers its adapters are for");
    if (resume && strcmp(resume, "auto") != 0 && cli_count(r->cli, "peft"))
        return cli_usage(r->cli, "--peft and --resume PATH: who resumes takes all of the state");
    /* Also where --resume auto takes another one: a name that is wrong is so in the first run and in the last. */
    const char *begins[] = {"init", "peft"};
    for (size_t i = 0; i < 2 && r->place.ranks < 2; i++) { /* of several the first looks */
        const char *path = cli_text(r->cli, begins[i], NULL);
        int code = path ? run_path_missing(r->cli, i ? "--peft: " : "--init: ", path) : 0;
        if (code) return code;
    }
    return 0;
}

bool run_is_statistic(const char *name, int32_t rank)
{
    return st_is_statistic(name, rank) && (rank || strncmp(name, "hyperparameters.", 16) != 0);
}

/* By its item in a checkpoint; in a file by what that says. */
static bool is_parameter(struct run *r, const struct st_checkpoint *c, const struct st_tensor *t)
{
    const char *role = run_role_of(r->cli, c, t);
    return *role ? strcmp(role, "params") == 0 : st_role_of(&c->all, t) == STEP_PARAM;
}

static void note(const struct run *r, struct run_listed *n, const char *path, const char *verb, const char *then)
{
    if (n->count && !r->cli->quiet)
        cli_show(
            arena_format(r->cli->arena, "stepc: note: --init %s %s %s, which %s\n", path, verb, run_listed(n), then));
}

/* Which tensors of the object the source lacks, and which of the source the object does not know. */
static int compare(struct run *r, const struct st_checkpoint *c, bool *whole)
{
    bool only = cli_count(r->cli, "params-only") > 0, partial = cli_count(r->cli, "init-partial") > 0, adapts = false;
    struct run_listed lacking = {STR(r->cli->arena), 0}, adapters = lacking, unknown = lacking, left = lacking;
    struct step_tensor t;
    for (uint32_t i = 0; i < c->all.count; i++) {
        const char *name = c->all.tensors[i].name;
        t = (struct step_tensor){.size = sizeof t};
        bool known = r->api->tensor_find(r->instance, name, &t) == STEP_OK && t.role <= STEP_STATE;
        adapts |= known && !fnmatch(ADAPTER, name, 0);
        *whole |= known && !only &&
                  (t.role == STEP_OPT_STATE || (t.role == STEP_STATE && !run_is_statistic(name, t.rank)));
        if (!known && (!only || is_parameter(r, c, &c->all.tensors[i]))) run_listed_add(&unknown, name);
    }
    for (uint32_t role = STEP_PARAM; role <= STEP_STATE; role++)
        for (size_t i = 0; i < r->api->tensor_count(r->instance, role); i++) {
            t = (struct step_tensor){.size = sizeof t};
            if (r->api->tensor_at(r->instance, role, i, &t)) continue;
            bool statistic = role == STEP_STATE && run_is_statistic(t.name, t.rank),
                 begins = role == STEP_PARAM || statistic;
            if (only && statistic) run_listed_add(&left, t.name);
            else if ((!begins && !*whole) || (role == STEP_EMA && strncmp(t.name, "eval.", 5) == 0)) continue;
            else if (!st_find(&c->all, t.name))
                run_listed_add(!fnmatch(ADAPTER, t.name, 0) && !adapts ? &adapters : &lacking, t.name);
        }
    const char *path = c->all.path;
    if (!partial && lacking.count + unknown.count)
        return cli_failed(
            r->cli, EXIT_WRONG, "--init %s %s %s; --init-partial takes what fits", path,
            lacking.count ? "lacks" : "holds what this step has not:", run_listed(lacking.count ? &lacking : &unknown));
    note(r, &lacking, path, "lacks", "begin anew");
    note(r, &adapters, path, "lacks adapters:", "begin anew");
    note(r, &left, path, "gives no running statistics (--params-only):", "begin anew");
    note(r, &unknown, path, "holds", "this step has not: they are not read");
    return 0;
}

/* Says whether what is to be loaded is damaged. */
static int compare_any(struct run *r, const char *path, bool *whole, bool *is_damaged)
{
    struct st_checkpoint c = {0};
    struct stat about;
    char error[ST_TEXT];
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    step_status status = folder ? st_checkpoint_open(&c, path, true, error) : st_open(&c.all, path, error);
    *is_damaged = status == STEP_ECORRUPT;
    if (*is_damaged) return cli_failed(r->cli, EXIT_WRONG, "--init: %s", error);
    if (status) return cli_failed(r->cli, EXIT_ENVIRONMENT, "--init: %s", error);
    int code = compare(r, &c, whole);
    st_checkpoint_close(&c);
    return code;
}

/* Parameters may have another float dtype than the step keeps them in; a state goes on only as what it was. */
static bool is_whole_state(const char *path)
{
    struct st_file f;
    char ignored[ST_TEXT];
    if (st_open(&f, path, ignored)) return true; /* the runtime says why */
    bool whole = st_find(&f, "step") != NULL;
    st_close(&f);
    return whole;
}

/* What a map renames the runtime compares. */
static int init_one(struct run *r, const char *path, const char *map, bool *is_damaged)
{
    uint32_t flags = (cli_count(r->cli, "params-only") ? STEP_LOAD_PARAMS_ONLY | (map ? 0 : STEP_LOAD_PARTIAL) : 0) |
                     (cli_count(r->cli, "init-partial") ? STEP_LOAD_PARTIAL : 0);
    bool whole = !flags && is_whole_state(path);
    if (flags && !map) {
        int code = compare_any(r, path, &whole, is_damaged);
        if (code) return code;
    }
    if (!whole || cli_count(r->cli, "cast")) flags |= STEP_LOAD_CAST;
    struct step_load load = {.size = sizeof load, .path = path, .map = map, .flags = flags};
    step_status status = r->api->load(r->instance, &load);
    *is_damaged = status == STEP_ECORRUPT;
    if (!status) return 0;
    int code = run_status(r, status, "--init");
    if (status == STEP_ESHAPE && strstr(r->api->last_error(r->instance), "\"opt_state."))
        fprintf(stderr, "stepc: note: a file with optimizer state must hold all state of this step and nothing else; "
                        "--params-only takes its parameters alone, which fit any optimizer\n");
    return code;
}

/* Of a run directory the newest that is not damaged. */
int run_init(struct run *r, const char *path)
{
    const char *map, *newest;
    uint64_t below = UINT64_MAX;
    int code = run_map(r->cli, &map);
    if (code) return code;
    if (!access(arena_format(r->cli->arena, "%s/adapter_config.json", path), F_OK))
        return cli_failed(r->cli, EXIT_WRONG,
                          "--init %s: adapters of PEFT stand beside a model: --init BASE --peft %s --hf gpt2", path,
                          path);
    for (bool some = false; (newest = run_newest(r->cli, path, &below)); some = true) {
        bool is_damaged = false;
        if (some) fprintf(stderr, "stepc: note: --init: the one before it is taken, %s\n", newest);
        code = init_one(r, newest, map, &is_damaged);
        if (!is_damaged || newest == path) return code;
    }
    return code ? code : cli_failed(r->cli, EXIT_WRONG, "--init: %s holds no whole checkpoint", path);
}
