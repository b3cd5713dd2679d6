/* Threads beside the workers of a step: the writer of a checkpoint, and helpers that copy or read tensors for as long
 * as one call takes. Signals are for the threads of the host; the writer has one of its own also where the host waits:
 * no limit for files ends the process (SIGXFSZ). */
#include "runtime/directory.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HELPERS = 7, WORTH = 8 << 20 }; /* bytes for which a thread is worth starting */

bool rt_start_thread(pthread_t *thread, void *(*work)(void *), void *user)
{
    uint64_t all = ~((uint64_t)3 << 31), old; /* 32 and 33 are the C library's */
    st_call(rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof all);
    bool good = pthread_create(thread, NULL, work, user) == 0;
    st_call(rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof all);
    return good;
}

struct shared {
    void (*work)(void *user, uint32_t index);
    void *user;
    uint32_t count;
    _Atomic uint32_t next;
};

static void *take_some(void *user)
{
    struct shared *s = user;
    for (uint32_t i; (i = atomic_fetch_add(&s->next, 1)) < s->count;) s->work(s->user, i);
    return NULL;
}

void rt_each(const struct step_instance *t, uint64_t bytes, uint32_t count, void (*work)(void *, uint32_t), void *user)
{
    struct shared s = {work, user, count, 0};
    pthread_t threads[HELPERS];
    uint32_t n = 0,
             most = t && t->worker_count > 2 ? t->worker_count - 1 : 1; /* of one worker: the writer's core is free */
    if (most > HELPERS) most = HELPERS;
    while (n < most && bytes / WORTH > n && rt_start_thread(&threads[n], take_some, &s)) n++;
    take_some(&s);
    while (n) pthread_join(threads[--n], NULL);
}
