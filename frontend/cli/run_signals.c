/* Signals that stop `stepc run` after the step that it is in, so that what was asked for is still written; SIGUSR1 has
 * the state saved there, and the run goes on. */
#include "frontend/cli/run.h"

/* A handler has no argument: these are the mutable globals of the command. */
static volatile sig_atomic_t caught, save_wanted;

static void on_signal(int number)
{
    if (number == SIGUSR1) {
        save_wanted = 1;
        return;
    }
    if (caught) { /* the second time at once */
        signal(number, SIG_DFL);
        raise(number);
    }
    caught = number;
}

static const int signals[RUN_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

void run_signals_catch(struct sigaction old[RUN_SIGNALS])
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    caught = save_wanted = 0;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < RUN_SIGNALS; i++) {
        sigaction(signals[i], NULL, &old[i]);
        if (old[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL); /* nohup stays nohup */
    }
}

static int restore(const struct sigaction old[RUN_SIGNALS])
{
    for (size_t i = 0; i < RUN_SIGNALS; i++) sigaction(signals[i], &old[i], NULL);
    int number = caught;
    caught = 0;
    return number;
}

void run_signals_restore(struct run *r, const struct sigaction old[RUN_SIGNALS])
{
    int number = restore(old);
    if (number && r->place.ranks < 2) raise(number); /* so that the parent sees what happened */
    if (!r->stopped) r->stopped = number;            /* as a rank ends: run_stop_code */
}

step_status run_stoppable(char error[ST_TEXT])
{
    if (!caught) return STEP_OK;
    snprintf(error, ST_TEXT, "stopped by a signal");
    return STEP_ECANCELLED;
}

void run_stoppable_end(const struct sigaction old[RUN_SIGNALS])
{
    int number = restore(old);
    if (number) raise(number);
}

/* Launchers of ranks take one that a signal has ended for lost, and mpirun of MPICH makes 0 of SIGHUP: ranks leave each
 * other, and all end as a shell tells of the signal. */
int run_stop_code(const struct run *r) { return r->place.ranks > 1 && r->stopped ? RUN_STOPPED + r->stopped : 0; }

int run_stopped(const struct run *r) { return r->place.ranks > 1 ? r->stopped : caught; }

/* A signal that comes after the look is not lost: it is for the next one. */
static bool take_save_wanted(void)
{
    if (!save_wanted) return false;
    save_wanted = 0;
    return true;
}

bool run_save_wanted(struct run *r)
{
    bool wanted = r->place.ranks > 1 ? r->save_wanted : take_save_wanted();
    r->save_wanted = false;
    return wanted;
}

uint64_t run_signals_seen(void)
{
    bool save = take_save_wanted();
    return (uint64_t)caught << 1 | save;
}

void run_signals_interrupt(void)
{
    struct sigaction action;
    for (size_t i = 0; i < RUN_SIGNALS; i++)
        if (signals[i] != SIGUSR1 && sigaction(signals[i], NULL, &action) == 0 && action.sa_handler == on_signal) {
            action.sa_flags &= ~SA_RESTART;
            sigaction(signals[i], &action, NULL);
        }
}
