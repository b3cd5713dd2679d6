/* stepc, started once: every command runs in a child that is forked when the libraries are loaded and relocated, which
 * is a fifth of the time of a command for a small document. Nothing else differs: the same main, a process for each.
 *
 * A request on standard input is a line with the count of arguments, then these, each ended by a NUL byte; the first
 * two name files for standard output and standard error. The answer is a line with the exit code, or with that of the
 * signal, negative. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int stepc_main(int argc, char **argv);
#define main stepc_main
#include "frontend/main.c"
#undef main

enum { MOST = 256, LONGEST = 1 << 16 };

static void open_as(int fd, const char *path, int flags)
{
    int made = open(path, flags, 0600);
    if (made < 0 || dup2(made, fd) != fd) _exit(126);
    close(made);
}

int main(int argc, char **argv)
{
    static char text[LONGEST];
    char *arguments[MOST + 1];
    int count;
    struct arena arena = {0};
    if (argc > 1) return stepc_main(argc, argv); /* a command that starts its own program: /proc/self/exe */
    if (cg_llvm_open(&arena)) return 3;          /* once for all that compile */
    while (scanf("%d", &count) == 1 && getchar() == '\n') {
        char *at = text;
        for (int i = 0; i < count && i < MOST; i++) {
            arguments[i] = at;
            for (int c; (c = getchar()) != EOF && at < text + LONGEST - 1 && (*at++ = (char)c);) {}
        }
        if (count < 3 || count > MOST || feof(stdin) || at >= text + LONGEST - 1) return 2;
        arguments[count] = NULL;
        pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            open_as(0, "/dev/null", O_RDONLY);
            open_as(1, arguments[0], O_WRONLY | O_CREAT | O_TRUNC);
            open_as(2, arguments[1], O_WRONLY | O_CREAT | O_TRUNC);
            exit(stepc_main(count - 2, arguments + 2));
        }
        int status = 0;
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        printf("%d\n", child < 0 ? 127 : WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        fflush(stdout);
    }
    return 0;
}
