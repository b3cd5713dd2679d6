/* Signals that stop `stepc run` after the step that it is in, so that what was asked for is still written. */
#include "frontend/cli/run.h"

/* A handler has no argument: this is the one mutable global of the command. */
static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    if (caught) { /* the second time at once */
        signal(number, SIG_DFL);
        raise(number);
    }
    caught = number;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

void run_signals_catch(struct sigaction old[RUN_SIGNALS])
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    caught = 0;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < RUN_SIGNALS; i++) {
        sigaction(signals[i], NULL, &old[i]);
        if (old[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL); /* nohup stays nohup */
    }
}

void run_signals_restore(const struct sigaction old[RUN_SIGNALS])
{
    for (size_t i = 0; i < RUN_SIGNALS; i++) sigaction(signals[i], &old[i], NULL);
    if (caught) { /* so that the parent sees what happened */
        int number = caught;
        caught = 0;
        raise(number);
    }
}

int run_stopped(void) { return caught; }
