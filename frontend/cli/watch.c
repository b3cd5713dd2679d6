/* stepc check --watch: checks again whenever a file of the command line is another one than before, until a signal ends
 * it. Every check is a process of its own: what takes too long or too much memory ends that one. */
#include "frontend/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MS = 100 };

/* A number that changes with the files: which they are, their sizes and times. */
static uint64_t state_of(const struct cli *cli)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i <= cli->given.count; i++) {
        const struct cli_given *g = i ? &cli->given.items[i - 1] : NULL;
        const char *path = g ? g->value : cli->operands.items[0], *equals = g ? strchr(path ? path : "", '=') : NULL;
        struct stat s;
        if (g && g->option->kind != CLI_INPUT && g->option->kind != CLI_FILES) continue;
        if (stat(path, &s) && (!equals || stat(equals + 1, &s))) memset(&s, 0, sizeof s);
        const uint64_t parts[] = {(uint64_t)s.st_dev, (uint64_t)s.st_ino, (uint64_t)s.st_size,
                                  (uint64_t)s.st_mtim.tv_sec, (uint64_t)s.st_mtim.tv_nsec};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) hash = (hash ^ parts[k]) * 1099511628211u;
    }
    return hash;
}

int cli_watch(struct cli *cli, int (*check)(struct cli *))
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    const char *path = cli->operands.items[0];
    if (strcmp(path, "-") == 0) return cli_usage(cli, "--watch needs a file");
    for (;;) {
        uint64_t seen = state_of(cli);
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child < 0) return cli_failed(cli, EXIT_ENVIRONMENT, "--watch: %s", strerror(errno));
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            int code = check(cli);
            exit(fflush(stdout) ? EXIT_ENVIRONMENT : code);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE) return EXIT_USAGE;
        if (!cli->quiet) fprintf(stderr, "stepc: note: waiting for another %s; Ctrl-C ends it\n", path);
        while (state_of(cli) == seen) nanosleep(&pause, NULL);
        nanosleep(&pause, NULL); /* an editor may write in several steps */
        if (cli->progress) fputs("\033[H\033[2J", stderr);
    }
}
