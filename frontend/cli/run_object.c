/* Opens what is to be run: an object, whose checksum is compared before it is loaded (stepc/step_open.h). Anything that
 * is no ELF file is taken for a document and interpreted. */
#include "frontend/cli/run.h"
#include "ir/base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stepc/step_open.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int load_object(struct run *r, int fd)
{
    char error[1024];
    struct stat s;
    if (fstat(fd, &s) == 0 && (s.st_mode & S_IWOTH) && !r->cli->quiet)
        fprintf(stderr, "stepc: warning: %s can be changed by anyone; it is native code\n", r->path);
    step_status status = step_open(r->path, &r->api, error, sizeof error);
    if (status) return cli_failed(r->cli, status == STEP_EIO ? EXIT_ENVIRONMENT : EXIT_WRONG, "%s", error);
    r->manifest = r->api->describe();
    return 0;
}

/* Where the plug-in of a transport is looked for: also beside this program and where it is installed. */
static void plugin_path(struct run *r)
{
    const char *given = getenv("STEPC_PLUGIN_PATH");
    struct own_folders own = own_folders(r->cli->arena);
    if (!own.path[0]) return;
    setenv("STEPC_PLUGIN_PATH",
           arena_format(r->cli->arena, "%s%s%s:%s", given ? given : "", given ? ":" : "", own.path[0], own.path[1]), 1);
}

static int create(struct run *r)
{
    plugin_path(r);
    int64_t seconds = cli_integer(r->cli, "timeout", 0), threads = cli_integer(r->cli, "threads", 0);
    struct step_options options = {
        .size = sizeof options, .threads = (uint32_t)threads, .transport = cli_text(r->cli, "transport", NULL)};
    if (threads > 4096) return cli_usage(r->cli, "--threads: at most 4096");
    if (seconds > 1000000000) return cli_usage(r->cli, "--timeout: at most 1000000000 seconds");
    if (cli_count(r->cli, "timeout")) options.timeout_ms = seconds ? seconds * 1000 : -1;
    step_status status = r->api->create(&options, &r->instance);
    if (status) return run_status(r, status, r->path);
    r->place.size = sizeof r->place;
    if (r->api->abi_minor >= 2) r->api->place(r->instance, &r->place);
    if (r->place.rank) r->cli->quiet = true; /* the first one speaks for all, but for what goes wrong */
    return 0;
}

/* A signal reaches ranks at different times, and all have to stop after the same step; also where one cannot go on. */
int run_agree(struct run *r, int code)
{
    uint64_t all = 0;
    if (r->place.ranks < 2 || r->over || r->lost) return code;
    step_status status = r->api->agree(r->instance, (uint64_t)code << 16 | run_signals_seen(), &all);
    if (status) return code ? code : run_status(r, status, NULL);
    r->over = all >> 16 > 0;
    if (!r->stopped) r->stopped = (int)(all >> 1 & 127);
    r->save_wanted |= all & 1;
    if (!code && r->over)
        return cli_failed(r->cli, (int)(all >> 16), "rank %u: another rank cannot go on; its message says why",
                          r->place.rank);
    return code;
}

int run_open(struct run *r)
{
    char magic[4] = "";
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cli_failed(r->cli, EXIT_ENVIRONMENT, "cannot read %s: %s", r->path, strerror(errno));
    ssize_t n = pread(fd, magic, sizeof magic, 0);
    int code;
    if (n < 0) code = cli_failed(r->cli, EXIT_ENVIRONMENT, "cannot read %s: %s", r->path, strerror(errno));
    else if (n == 4 && memcmp(magic, "\177ELF", 4) == 0) {
        bool fixed = !r->fits && (cli_count(r->cli, "define") || cli_count(r->cli, "mesh"));
        bool strict = cli_count(r->cli, "limit") || cli_count(r->cli, "warnings");
        code = cli_count(r->cli, "check-finite")
                   ? cli_usage(
                         r->cli,
                         "--check-finite: an object checks if it was compiled so: stepc compile MODEL --check-finite")
               : fixed  ? cli_usage(r->cli, "-D and --mesh change a document; %s is compiled already", r->path)
               : strict ? cli_usage(r->cli, "--limit and -W are for a document; %s is compiled already", r->path)
                        : load_object(r, fd);
        if (!code) code = create(r);
    } else if (cli_count(r->cli, "transport") || cli_count(r->cli, "trace"))
        code = cli_usage(r->cli, "--%s is for objects: stepc compile %s -o step.so",
                         cli_count(r->cli, "trace") ? "trace" : "transport", r->path);
    else code = cli_interpret(r->cli, r->path, &r->api, &r->instance, &r->name);
    close(fd);
    if (code || !r->manifest) return code;
    const char *name = cli_report_name(r->cli, r->manifest);
    r->name = *name ? name : "step";
    return 0;
}

static void leave(int number)
{
    (void)number;
    _exit(EXIT_ENVIRONMENT);
}

/* After a rank was lost nobody can go on. The others have a moment to say what they know; whatever the launcher makes
 * of the end, this process does not outlast it. */
static void give_up(struct run *r)
{
    struct sigaction action = {.sa_handler = leave};
    struct timespec moment = {.tv_nsec = 200000000};
    struct itimerval last = {.it_value = {.tv_usec = 700000}};
    run_mark_lost(r);
    fflush(NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &last, NULL);
    nanosleep(&moment, NULL);
    r->api->abort_peers(r->instance);
    _exit(EXIT_ENVIRONMENT);
}

void run_close(struct run *r)
{
    if (r->instance && r->lost && r->place.ranks > 1) give_up(r);
    if (r->instance) r->api->destroy(r->instance);
    r->instance = NULL;
}
