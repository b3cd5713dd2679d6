/* Reading ahead: while a step computes, a thread puts the next batch together where that is work (rows in another
 * order, files that are read as they are needed). Two sets of buffers take turns: one is the step's, one the thread's.
 * What cannot be read is told when its step comes, by who asks for it. */
#include "frontend/cli/run.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct run_ahead {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct run_data *data;
    struct run_slot *slot; /* that is filled; NULL: nothing is to be done */
    uint64_t k;
    bool stop, filled; /* filled: what was asked for last is there */
};

static void *work(void *user)
{
    struct run_ahead *a = user;
    char error[ST_TEXT];
    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        if (!a->slot) {
            pthread_cond_wait(&a->change, &a->lock);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        bool filled = a->data->fill(a->data, a->slot, a->k, error) == 0;
        pthread_mutex_lock(&a->lock);
        a->filled = filled;
        a->slot = NULL;
        pthread_cond_broadcast(&a->change);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* NULL: there is no thread to be had, and nothing is read ahead. */
static struct run_ahead *begin(struct run_data *d)
{
    struct run_ahead *a = calloc(1, sizeof *a);
    sigset_t all, old;
    if (!a) return NULL;
    a->data = d;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->change, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old); /* signals are the run's */
    bool made = pthread_create(&a->thread, NULL, work, a) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (made) return a;
    free(a);
    return NULL;
}

void run_ahead_wait(struct run_data *d)
{
    struct run_ahead *a = d->ahead;
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    while (a->slot) pthread_cond_wait(&a->change, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

bool run_ahead_take(struct run_data *d, uint64_t k, struct run_slot **slot)
{
    run_ahead_wait(d);
    *slot = &d->slots[k % 2];
    return d->ahead && d->ahead->filled && d->ahead->k == k;
}

void run_ahead_ask(struct run_data *d, uint64_t k)
{
    if (!d->ahead && !(d->ahead = begin(d))) return;
    pthread_mutex_lock(&d->ahead->lock);
    d->ahead->filled = false;
    d->ahead->k = k;
    d->ahead->slot = &d->slots[k % 2];
    pthread_cond_broadcast(&d->ahead->change);
    pthread_mutex_unlock(&d->ahead->lock);
}

void run_ahead_end(struct run_data *d)
{
    struct run_ahead *a = d->ahead;
    if (!a) return;
    run_ahead_wait(d);
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->change);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->change);
    free(a);
    d->ahead = NULL;
}
