/* stepc run -n R: starts mpirun with R times this command, and ends as the ranks do. What it has to know is said by
 * variables that another MPI than Open MPI does not look at: a rank that is told to stop has half a minute to save,
 * ranks may be more than cores, and cores are dealt out by the ranks themselves. mpirun stands in a process group of
 * its own, so that a terminal's Ctrl-C reaches it once, through here. */
#include "frontend/cli/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The command line again, but for what made it this one. */
static char **arguments(struct cli *cli)
{
    VEC(char *) to = {0};
    static const char *const first[] = {"mpirun", "-n"}, *const next[] = {"/proc/self/exe", "run"};
    char *self = arena_alloc(cli->arena, 4096);
    ssize_t n = readlink("/proc/self/exe", self, 4095);
    self[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < 2; i++) vec_push(cli->arena, &to, (char *)(uintptr_t)first[i]);
    vec_push(cli->arena, &to, (char *)(uintptr_t)cli_text(cli, "ranks", ""));
    vec_push(cli->arena, &to, n > 0 ? self : (char *)(uintptr_t)next[0]);
    vec_push(cli->arena, &to, (char *)(uintptr_t)next[1]);
    vec_push(cli->arena, &to,
             (char *)(uintptr_t)arena_format(cli->arena, "--transport=%s", cli_text(cli, "transport", "mpi")));
    for (size_t i = 0; i < cli->given.count; i++) {
        const struct cli_given *g = &cli->given.items[i];
        if (strcmp(g->option->name, "ranks") == 0 || strcmp(g->option->name, "transport") == 0) continue;
        vec_push(cli->arena, &to,
                 (char *)(uintptr_t)(g->value ? arena_format(cli->arena, "--%s=%s", g->option->name, g->value)
                                              : arena_format(cli->arena, "--%s", g->option->name)));
    }
    vec_push(cli->arena, &to, (char *)(uintptr_t) "--");
    for (size_t i = 0; i < cli->operands.count; i++)
        vec_push(cli->arena, &to, (char *)(uintptr_t)cli->operands.items[i]);
    vec_push(cli->arena, &to, NULL);
    return to.items;
}

static int start(char **command, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    setenv("OMPI_MCA_odls_base_sigkill_timeout", "30", 0);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    setenv("OMPI_MCA_plm_rsh_agent", "ssh : rsh : false", 0); /* Open MPI wants one there though it starts none here */
    if (posix_spawn_file_actions_init(&files)) return ENOMEM;
    if (posix_spawnattr_init(&how)) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawnp(pid, command[0], &files, &how, command, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* What ranks of this host leave for who started them, a line each: mpirun of MPICH may end with 0 where a rank does, or
 * where it was told to stop itself (SIGTERM, of `sleep`, too), though nobody had trained to the end, and that of Open
 * MPI may hold back what ranks print when one is lost. It is memory of the one who started, so that nothing stays of
 * one that was killed, and its name tells it from what else may have that number on another host or later. */
static const char mark[] = "STEPC_RUN_MARK", begun[] = "begun ", ended[] = "ended ", refused[] = "refused ",
                  shared[] = "stepc-run";

static void leave_line(const char *line)
{
    const char *path = getenv(mark);
    char is[256] = "", wanted[64];
    if (!path || readlink(path, is, sizeof is - 1) < 0) return;
    snprintf(wanted, sizeof wanted, "/memfd:%s", shared);
    int fd = strncmp(is, wanted, strlen(wanted)) == 0 ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0) return;
    st_put(fd, line, strlen(line));
    close(fd);
}

void run_mark_begin(struct cli *cli) { leave_line(arena_format(cli->arena, "%s%ld\n", begun, (long)getpid())); }

void run_mark_end(const struct run *r, int code)
{
    if (!code || !r->lost)
        leave_line(arena_format(r->cli->arena, "%s%d\n", code ? refused : ended, code ? code : r->stopped));
}

void run_mark_lost(const struct run *r)
{
    leave_line(arena_format(r->cli->arena, "rank %u: %s\n", r->place.rank, r->api->last_error(r->instance)));
}

static int make_mark(struct cli *cli)
{
    int fd = memfd_create(shared, MFD_CLOEXEC);
    if (fd >= 0) setenv(mark, arena_format(cli->arena, "/proc/%ld/fd/%d", (long)getpid(), fd), 1);
    return fd;
}

struct told {
    uint32_t begun, ended; /* ranks of this host */
    int stopped;           /* the signal that they ended after, 0: none */
    int code;              /* of the first one that ended with another than 0 and has said why */
    const char *lost;      /* why the first one gave up, NULL: none did */
    pid_t pids[1024];
    char text[1 << 16];
};

static void hear(int fd, struct told *t)
{
    ssize_t n = fd >= 0 ? pread(fd, t->text, sizeof t->text - 1, 0) : 0;
    t->text[n > 0 ? n : 0] = 0;
    t->begun = t->ended = 0;
    t->code = 0;
    t->lost = strstr(t->text, "rank ");
    for (const char *at = t->text; at && *at; at = strchr(at, '\n'), at += at != NULL) {
        if (strncmp(at, begun, sizeof begun - 1) == 0 && t->begun++ < sizeof t->pids / sizeof *t->pids)
            t->pids[t->begun - 1] = (pid_t)strtol(at + sizeof begun - 1, NULL, 10);
        if (strncmp(at, refused, sizeof refused - 1) == 0 && !t->code) t->code = atoi(at + sizeof refused - 1);
        if (strncmp(at, ended, sizeof ended - 1) != 0) continue;
        t->ended++;
        if (!t->stopped) t->stopped = atoi(at + sizeof ended - 1);
    }
}

static bool has_ended(const struct told *t) { return t->begun && t->ended == t->begun; }

/* To the ranks themselves: an mpirun of Open MPI that is told to stop tells them so only after the half minute that
 * they may take to save. To mpirun where there is none here, or the second time. */
static void pass(const struct told *t, pid_t mpirun, int number, bool again)
{
    uint32_t n = has_ended(t) ? 0 : t->begun;
    for (uint32_t i = 0; i < n && i < sizeof t->pids / sizeof *t->pids; i++) kill(t->pids[i], number);
    if (!n || again) kill(mpirun, number);
}

static bool is_gone(long pid)
{
    char text[512] = "";
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) close(fd);
    const char *state = n > 0 ? strrchr(text, ')') : NULL; /* after the name: its state */
    return !state || state[1] != ' ' || state[2] == 'Z' || state[2] == 'X';
}

/* Whether all children of a process have ended, which it may have seen or not; `some`: it had one. */
static bool is_bereft(pid_t pid, bool some)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *threads = opendir(path);
    for (struct dirent *d; threads && (d = readdir(threads));) {
        if (*d->d_name == '.') continue;
        snprintf(path, sizeof path, "/proc/%ld/task/%.20s/children", (long)pid, d->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        if (fd >= 0) close(fd);
        text[n > 0 ? n : 0] = 0;
        for (char *at = text, *end; *at; at = end) {
            long child = strtol(at, &end, 10);
            if (end == at) break;
            some = true;
            if (is_gone(child)) continue;
            closedir(threads);
            return false;
        }
    }
    if (threads) closedir(threads);
    return some;
}

int run_launch(struct cli *cli)
{
    sigset_t signals, old;
    enum { MOST_ALONE = 3 }; /* seconds */
    int status = 0, number = 0, stopped = 0, alone = 0;
    struct told *told = arena_new(cli->arena, struct told);
    pid_t pid;
    if (cli_integer(cli, "ranks", 0) < 1) return cli_usage(cli, "-n: at least one rank");
    if (strcmp(cli_text(cli, "transport", "mpi"), "thread") == 0)
        return cli_usage(cli, "-n starts ranks of --transport mpi or nccl");
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE"))
        return cli_usage(cli,
                         "-n starts mpirun, and mpirun started this: --transport mpi alone says that it is a rank");
    if (access(cli->operands.items[0], R_OK))
        return cli_failed(cli, EXIT_ENVIRONMENT, "cannot read %s: %s", cli->operands.items[0], strerror(errno));
    sigemptyset(&signals);
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) sigaddset(&signals, passed[i]);
    sigprocmask(SIG_BLOCK, &signals, &old);
    int marked = make_mark(cli), error = start(arguments(cli), &pid);
    if (error) {
        if (marked >= 0) close(marked);
        sigprocmask(SIG_SETMASK, &old, NULL);
        return cli_failed(cli, EXIT_ENVIRONMENT, "-n needs mpirun (Debian: openmpi-bin or mpich): %s", strerror(error));
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        number = sigtimedwait(&signals, NULL, &(struct timespec){.tv_sec = 1});
        if (number < 0) {
            /* Open MPI may wait for a minute or more for ranks that it has not seen end, or before it kills ranks that
             * have ended, and ranks that were stopped for as long in MPI_Finalize for an mpirun that sleeps. */
            hear(marked, told);
            alone = is_bereft(pid, told->begun > 0) || (told->stopped && has_ended(told)) ? alone + 1 : 0;
            if (alone >= MOST_ALONE) kill(pid, SIGKILL);
            continue;
        }
        if (number == SIGCHLD) continue;
        hear(marked, told);
        pass(told, pid, number, stopped && number != SIGUSR1);
        if (number != SIGUSR1) stopped = number;
    }
    hear(marked, told);
    if (marked >= 0) close(marked);
    const char *why = told->lost;
    sigprocmask(SIG_SETMASK, &old, NULL);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (!stopped) stopped = told->stopped;
    if (stopped) { /* so that the parent sees what happened */
        signal(stopped, SIG_DFL);
        raise(stopped);
    }
    if (alone >= MOST_ALONE && has_ended(told)) return 0;
    if (alone >= MOST_ALONE && told->code && !why) return told->code;
    if (alone >= MOST_ALONE)
        return cli_failed(cli, EXIT_ENVIRONMENT,
                          "a rank was lost, and all have ended; mpirun did not, and was stopped%s%s", why ? "\n" : "",
                          why ? why : "");
    if (code == 0 && told->ended < told->begun)
        return cli_failed(cli, EXIT_ENVIRONMENT, "a rank ended too early, and the others with it%s%s", why ? "\n" : "",
                          why ? why : "");
    if (code == EXIT_WRONG && marked >= 0 && !told->begun) /* it is of mpirun, which has said why */
        return cli_failed(cli, EXIT_ENVIRONMENT, "mpirun ended with %d before a rank began here", code);
    if (code >= 0 && code <= EXIT_DEFECT) return code;
    return code < 0 ? cli_failed(cli, EXIT_ENVIRONMENT, "mpirun was stopped by signal %d", WTERMSIG(status))
                    : cli_failed(cli, EXIT_ENVIRONMENT, "a rank was lost: mpirun ended with %d", code);
}
