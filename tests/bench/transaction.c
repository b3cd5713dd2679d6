/* What transaction.py measures: n steps in one go, each a call, or a call that computes and one that commits. Returns
 * the seconds of the calling thread or of the clock, or -1 where a call fails.
 * gcc -O2 -shared -fPIC -Iruntime/include transaction.c -o transaction.so */
#include <stepc/step.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int transaction_accept(void *user, const struct step_result *result) { return user && result; }

typedef step_status step_fn(struct step_instance *, const struct step_batch *, struct step_result *);
typedef step_status commit_fn(struct step_instance *, int accept);

double transaction_run(step_fn *step, commit_fn *commit, struct step_instance *t, const struct step_batch *batch, int n,
                       int cpu_time)
{
    clockid_t clock = cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double begin = seconds(clock);
    for (int i = 0; i < n; i++)
        if (step(t, batch, NULL) || (batch->flags & STEP_COMPUTE && commit(t, 1))) return -1;
    return seconds(clock) - begin;
}
