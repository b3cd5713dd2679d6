#include "ir/base/parallel.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_THREADS = 64 };

struct work {
    void (*one)(void *, size_t);
    void *context;
    size_t count;
    atomic_size_t next;
};

static void *some(void *of)
{
    struct work *w = of;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->count;) w->one(w->context, i);
    return NULL;
}

void parallel_each(size_t count, size_t stack, void (*one)(void *context, size_t number), void *context)
{
    struct work w = {.one = one, .context = context, .count = count};
    pthread_t threads[MOST_THREADS];
    pthread_attr_t attributes;
    cpu_set_t set;
    sigset_t all, old;
    size_t cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1, started = 0;
    size_t most = cores < count ? cores : count;
    if (most > 1 && pthread_attr_init(&attributes) == 0) {
        bool room = !stack || pthread_attr_setstacksize(&attributes, stack) == 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        while (room && started + 1 < most && started < MOST_THREADS &&
               !pthread_create(&threads[started], &attributes, some, &w))
            started++;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attributes);
    }
    some(&w);
    while (started) pthread_join(threads[--started], NULL);
}
