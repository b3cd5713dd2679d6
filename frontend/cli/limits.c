/* What one compilation may use: a table of limits that --limit raises and doctor lists, --timeout, and a stack of its
 * own, so that how deep it may go does not depend on the shell it was started from. */
#include "frontend/cli/cli.h"
#include "frontend/fe.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct limit {
    const char *name;
    uint64_t standard;
    const char *unit, *doc;
} limits[] = {
    {"document", 64 << 20, "B", "bytes of a document's text"},
    {"json", 1000000, "", "values of its JSON"},
    {"values", 1 << 20, "", "values of the IR that it unfolds to"},
    {"memory", (uint64_t)4 << 30, "B", "memory of a compilation"},
};
enum { LIMITS = sizeof limits / sizeof *limits, TIME = 600, EDITED_TIME = 10 };

static int read_limit(const struct cli *cli, const char *given, uint64_t *most)
{
    const char *names[LIMITS], *equals = strchr(given, '=');
    for (size_t i = 0; i < LIMITS; i++) {
        size_t n = strlen(names[i] = limits[i].name);
        if (!equals || (size_t)(equals - given) != n || strncmp(given, names[i], n) != 0) continue;
        if (fe_amount(equals + 1, *limits[i].unit, &most[i])) return 0;
        return cli_usage(cli, "--limit %s: expected a whole number%s after \"%s=\"", given,
                         *limits[i].unit ? " of bytes, or as 16GiB," : "", names[i]);
    }
    if (!equals) return cli_usage(cli, "--limit %s: expected NAME=NUMBER", given);
    const char *name = arena_string_n(cli->arena, given, (size_t)(equals - given));
    return cli_usage(cli, "--limit: unknown limit \"%s\"%s", name, cli_meant(cli, name, names, LIMITS));
}

int cli_limits(const struct cli *cli, struct cli_limits *out)
{
    uint64_t most[LIMITS];
    const char *const *given;
    size_t n = cli_values(cli, "limit", &given);
    int code = 0;
    for (size_t i = 0; i < LIMITS; i++) most[i] = limits[i].standard;
    for (size_t i = 0; i < n && !code; i++) code = read_limit(cli, given[i], most);
    *out = (struct cli_limits){most[0], most[1], most[2], most[3]};
    return code;
}

void cli_limits_list(struct str *out, struct json_tree json)
{
    for (size_t i = 0; i < LIMITS; i++) {
        bool mebi = *limits[i].unit;
        str_addf(out, "limit %-12s %" PRIu64 "%s (%s; --limit %s=)\n", limits[i].name,
                 limits[i].standard >> (mebi ? 20 : 0), mebi ? " MiB" : "", limits[i].doc, limits[i].name);
        json_add_integer(json, limits[i].name, (int64_t)limits[i].standard);
    }
    str_addf(out, "limit %-12s %d s (of a compilation; --timeout)\n", "time", TIME);
    json_add_integer(json, "time", TIME);
}

/* ---------------------------------------------------------------- time and memory */

static _Noreturn void give_up(const char *text)
{
    if (write(2, text, strlen(text)) < 0) _exit(EXIT_ENVIRONMENT);
    _exit(EXIT_ENVIRONMENT);
}

static void over_time(int number)
{
    (void)number;
    give_up("stepc: error: --timeout: the time is over\n");
}

static void over_standard_time(int number)
{
    (void)number;
    give_up("stepc: error: more than 600 seconds, which is the limit; --timeout SECONDS allows more\n");
}

/* LLVM, in C++, aborts where there is no memory: where not even half of what is allowed can be had, that was it. */
static void over_memory(int number)
{
    struct rlimit now;
    (void)number;
    if (getrlimit(RLIMIT_DATA, &now) == 0 && now.rlim_cur != RLIM_INFINITY &&
        mmap(NULL, (size_t)now.rlim_cur / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0) == MAP_FAILED)
        give_up("stepc: error: out of memory, more is needed than --limit memory= allows (4 GiB where it is not "
                "given)\n");
    signal(SIGABRT, SIG_DFL); /* abort goes on */
}

void cli_limits_begin(const struct cli *cli, const struct cli_limits *most)
{
    struct rlimit now;
    bool edited = cli->command == CLI_lsp;
    int64_t seconds = cli_integer(cli, "timeout", edited ? EDITED_TIME : TIME);
    signal(SIGALRM, edited || cli_count(cli, "timeout") ? over_time : over_standard_time);
    alarm(seconds < 1000000 ? (unsigned)seconds : 1000000);
#ifndef __SANITIZE_ADDRESS__ /* its shadow is memory, too */
    if (getrlimit(RLIMIT_DATA, &now) != 0) return;
    uint64_t all = most->memory + CLI_STACK;
    if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur > all) now.rlim_cur = all;
    signal(SIGABRT, over_memory);
    setrlimit(RLIMIT_DATA, &now);
#else
    (void)most, (void)now, (void)over_memory;
#endif
}

void cli_limits_end(void)
{
    struct rlimit now;
    alarm(0);
    if (getrlimit(RLIMIT_DATA, &now) != 0) return;
    now.rlim_cur = now.rlim_max;
    setrlimit(RLIMIT_DATA, &now);
    signal(SIGABRT, SIG_DFL);
}

/* ---------------------------------------------------------------- a stack */

struct work {
    int (*run)(int, char **);
    int argc;
    char **argv;
    sigset_t signals;
    int code;
};

static void *work(void *of)
{
    struct work *w = of;
    pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
    w->code = w->run(w->argc, w->argv);
    return NULL;
}

/* Signals come to the thread that works: here all are held. Where there is no room for the stack, this one has to do.
 */
int cli_with_stack(int (*run)(int, char **), int argc, char **argv)
{
    struct work w = {.run = run, .argc = argc, .argv = argv};
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &w.signals);
    bool made = pthread_attr_init(&attributes) == 0;
    made = made && pthread_attr_setstacksize(&attributes, CLI_STACK) == 0;
    made = made && pthread_create(&thread, &attributes, work, &w) == 0;
    if (made) pthread_join(thread, NULL);
    else work(&w);
    return w.code;
}
