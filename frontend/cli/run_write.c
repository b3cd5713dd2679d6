/* Files that the first of several ranks writes for all. A disk or a pipe may take longer than the others wait in a
 * collective: there a thread writes, while all tell one another twice a second that they are there; what the file needs
 * of all of them is fetched between. */
#include "frontend/cli/run.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the ranks agree on: nothing new, a tensor is wanted, the file is written. */
enum { WRITES, WANTS, OVER, WORDS };

struct writing {
    const char *path;
    const struct st_tensor *tensors;
    uint32_t count;
    uint64_t step;
    char *error;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t word, index; /* of the tensor that is wanted */
    void *to;
    step_status fetched, status;
};

static void say(struct writing *w, uint32_t word)
{
    pthread_mutex_lock(&w->lock);
    w->word = word;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* st_fetch of the thread that writes: the run's own one answers. */
static step_status want(void *user, uint32_t index, void *to)
{
    struct writing *w = user;
    w->index = index, w->to = to;
    say(w, WANTS);
    pthread_mutex_lock(&w->lock);
    while (w->word == WANTS) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return w->fetched;
}

static void *work(void *user)
{
    struct writing *w = user;
    w->status = st_write(w->path, w->tensors, w->count, w->step, want, w, w->error);
    say(w, OVER);
    return NULL;
}

/* Signals are for the thread that writes: they end what waits for the other end of a pipe. */
static bool begin(struct writing *w, pthread_t *thread, sigset_t *old)
{
    sigset_t all;
    int why = w->path ? pthread_create(thread, NULL, work, w) : 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, old);
    if (w->path && !why) return true;
    if (why) snprintf(w->error, ST_TEXT, "%s: no thread to write it: %s", w->path, strerror(why));
    w->word = OVER, w->status = STEP_EIO;
    return false;
}

/* WRITES after a while. */
static uint64_t heard(struct writing *w)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += RUN_PAUSE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    while (w->word == WRITES && !pthread_cond_timedwait(&w->changed, &w->lock, &until)) continue;
    uint64_t word = w->word + (uint64_t)w->index * WORDS;
    pthread_mutex_unlock(&w->lock);
    return word;
}

/* A rank that does not write: what the first one wants of it, until it is done. */
static step_status take_part(struct run *r, const struct st_tensor *tensors, st_fetch *fetch, void *user)
{
    for (;;) {
        uint64_t word;
        step_status status = r->api->agree(r->instance, 0, &word);
        if (status || word % WORDS == OVER) return status;
        if (word % WORDS != WANTS) continue;
        uint32_t index = (uint32_t)(word / WORDS);
        void *to = malloc(tensors[index].bytes + 1);
        status = to ? fetch(user, index, to) : STEP_ENOMEM;
        free(to);
        if (status) return status;
    }
}

static step_status write_beside(struct run *r, struct writing *w, st_fetch *fetch, void *user)
{
    pthread_t thread;
    sigset_t old;
    step_status lost = STEP_OK;
    bool made = begin(w, &thread, &old);
    for (uint64_t word = WRITES; word % WORDS != OVER;) {
        uint64_t mine = heard(w);
        if (!lost) lost = r->api->agree(r->instance, mine, &word);
        word = mine;
        if (word % WORDS != WANTS) continue;
        w->fetched = lost ? lost : fetch(user, w->index, w->to);
        say(w, WRITES);
    }
    if (made) pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return lost;
}

step_status run_write(struct run *r, const char *path, const struct st_tensor *tensors, uint32_t count, st_fetch *fetch,
                      void *user, char error[ST_TEXT])
{
    uint64_t step = r->first_step + r->done;
    struct writing w = {.path = path,
                        .tensors = tensors,
                        .count = count,
                        .step = step,
                        .error = error,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER};
    if (path) *error = 0;
    if (r->place.ranks < 2) return path ? st_write(path, tensors, count, step, fetch, user, error) : STEP_EIO;
    step_status lost = r->place.rank ? take_part(r, tensors, fetch, user) : write_beside(r, &w, fetch, user);
    if (lost && !*error) snprintf(error, ST_TEXT, "%s", run_message(r->api->last_error(r->instance)));
    r->lost |= lost != STEP_OK;
    return w.status ? w.status : lost;
}
