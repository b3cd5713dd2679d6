/* Preloaded into a rank: on SIGUSR2 it ends as if all were well, and tells no one. */
#include <signal.h>
#include <unistd.h>

static void end(int number)
{
    (void)number;
    _exit(0);
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGUSR2, &action, NULL);
}
