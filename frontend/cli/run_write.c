/* Saved tensors. The first of several ranks writes for all, and a disk or a pipe may take longer than the others wait
 * in a collective: there a thread writes, while all tell one another twice a second that they are there; what the file
 * needs of all of them is fetched between. */
#include "frontend/cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

/* ---------------------------------------------------------------- saving */

struct save {
    struct run *r;
    struct st_tensor *tensors;
    uint32_t count;
};

static void add_tensor(struct save *s, const struct step_tensor *t)
{
    struct st_tensor *to = &s->tensors[s->count++];
    *to = (struct st_tensor){
        .name = t->name, .dtype = t->dtype, .rank = t->rank, .bytes = t->bytes_global, .role = t->role};
    for (int32_t i = 0; i < t->rank; i++) to->shape[i] = t->shape[i];
}

static step_status read_tensor(void *user, uint32_t index, void *to)
{
    struct save *s = user;
    const struct st_tensor *t = &s->tensors[index];
    struct step_array a = {
        .size = sizeof a, .name = t->name, .data = to, .dtype = t->dtype, .rank = t->rank, .shape = t->shape};
    return s->r->api->read(s->r->instance, &a);
}

/* Hours of training should not end with the news that the folder does not exist. */
int run_save_possible(struct run *r, const char *option, const char *path)
{
    struct stat s;
    struct st_output o;
    char error[ST_TEXT], ignored[ST_TEXT];
    const char *end = strrchr(path, '.'); /* by these --data and others take a file for another one */
    if (end && (strcmp(end, ".npy") == 0 || strcmp(end, ".npz") == 0 || strcmp(end, ".csv") == 0))
        return cli_usage(r->cli, "%s %s: it gets safetensors, which nobody looks for in %s", option, path, end);
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode))
        return cli_failed(r->cli, EXIT_ENVIRONMENT, "%s: %s: Is a directory", option, path);
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) return 0; /* a device or a pipe */
    /* A file that has no name while it is written tells nothing of the one that it will get. */
    if (*path && stat(path, &s) != 0 && errno != ENOENT)
        return cli_failed(r->cli, EXIT_ENVIRONMENT, "%s: %s: %s", option, path, strerror(errno));
    if (!st_output_open(&o, path, error)) return cli_failed(r->cli, EXIT_ENVIRONMENT, "%s: %s", option, error);
    st_output_close(&o, false, ignored);
    return 0;
}

static bool folder_make(struct run *r, const char *path)
{
    bool made = mkdir(path, 0777) == 0;
    if (made && !r->checkpoint.made) r->checkpoint.made = arena_string_n(r->cli->arena, path, strlen(path));
    return made;
}

/* Of a run that is refused before it begins no empty folder stays. */
void run_save_folder_undo(const struct run *r)
{
    const char *path = r->checkpoint.folder, *made = r->checkpoint.made;
    char *parts = made ? arena_string_n(r->cli->arena, path, strlen(path)) : NULL;
    while (parts && (!rmdir(parts) || errno == ENOENT) && strcmp(parts, made) != 0) {
        char *slash = strrchr(parts, '/');
        if (!slash) return;
        *slash = 0;
    }
}

int run_save_folder(struct run *r, const char *path)
{
    char *parts = arena_string_n(r->cli->arena, path, strlen(path)), error[ST_TEXT];
    struct st_output o;
    for (char *at = parts; *at; at++) {
        if (*at != '/' || at == parts) continue;
        *at = 0;
        folder_make(r, parts); /* what cannot be made is told below */
        *at = '/';
    }
    if (!folder_make(r, path) && errno != EEXIST)
        return cli_failed(r->cli, EXIT_ENVIRONMENT, "--save-dir: %s: %s", path, strerror(errno));
    /* The name is none of a checkpoint's, which may be there. */
    const char *probe = arena_format(r->cli->arena, "%s/.tmp-step", path);
    if (!st_output_open(&o, probe, error)) return cli_failed(r->cli, EXIT_ENVIRONMENT, "--save-dir: %s", error);
    st_output_close(&o, false, error);
    return 0;
}

/* The pipe at `path`, if somebody reads it: who was told to stop does not wait for one to come. -1: no pipe; -2:
 * nobody. */
static int open_pipe(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISFIFO(s.st_mode)) return -1;
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 && errno == ENXIO ? -2 : fd;
}

int run_save(struct run *r, const char *path, bool all_state)
{
    static const uint32_t roles[] = {STEP_PARAM, STEP_EMA, STEP_STATE, STEP_OPT_STATE};
    char error[ST_TEXT];
    struct save s = {.r = r};
    struct step_result now = {.size = sizeof now};
    size_t most = 0;
    for (size_t k = 0; k < 4; k++) most += r->api->tensor_count(r->instance, roles[k]);
    s.tensors = arena_new_array(r->cli->arena, struct st_tensor, most + 1);
    for (size_t k = 0; k < (all_state ? 4u : 3u); k++)
        for (size_t i = 0, n = r->api->tensor_count(r->instance, roles[k]); i < n; i++) {
            struct step_tensor t = {.size = sizeof t};
            if (r->api->tensor_at(r->instance, roles[k], i, &t)) continue;
            if (all_state || t.role != STEP_STATE || run_is_statistic(t.name, t.rank)) add_tensor(&s, &t);
        }
    if (s.count) qsort(s.tensors, s.count, sizeof *s.tensors, st_by_name);
    /* Open until it is written: a reader would see an end. */
    int pipe = run_stopped(r) && !r->place.rank ? open_pipe(path) : -1;
    if (pipe == -2) snprintf(error, sizeof error, "%s: nobody reads this pipe", path), path = NULL;
    step_status status = run_write(r, path, s.tensors, s.count, read_tensor, &s, error);
    if (pipe >= 0) close(pipe);
    if (!status) return 0;
    run_end_progress_line(r);
    return cli_failed(r->cli, status == STEP_EINTERNAL ? EXIT_DEFECT : EXIT_ENVIRONMENT, "--save: %s", error);
}
