/* --timeout: an alarm. Compiling leaves nothing behind that another compilation would take for its own. */
#include "frontend/cli/cli.h"

#include <signal.h>
#include <unistd.h>

static void over(int number)
{
    static const char text[] = "stepc: error: --timeout: the time is over\n";
    (void)number;
    if (write(2, text, sizeof text - 1) < 0) _exit(EXIT_ENVIRONMENT);
    _exit(EXIT_ENVIRONMENT);
}

void cli_timeout(const struct cli *cli)
{
    int64_t seconds = cli_integer(cli, "timeout", 0);
    if (!seconds) return;
    signal(SIGALRM, over);
    alarm(seconds < 1000000 ? (unsigned)seconds : 1000000);
}
