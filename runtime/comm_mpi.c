/* libstepc_mpi.so: the only file that includes the header of MPI. Bytes go between ranks as non-blocking messages that
 * the caller polls, so no wait is left to the library: MPI has none that ends when a peer is stopped or gone. A message
 * has at most 2^30 bytes, because counts of MPI 3 are int.
 *
 * MPI is initialised if the host has not done it, and then ended when the process ends; the communicator of the host is
 * only duplicated. */
#include "runtime/comm_plugin.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef STEPC_MPI_MOST
#define STEPC_MPI_MOST (1 << 30) /* bytes of a message */
#endif

struct world {
    MPI_Comm data, notices;
    int rank, ranks;
    MPI_Request *requests;
    struct stepc_message *messages; /* by request */
    int count, room, ended;         /* those before `ended` have */
    MPI_Request hearing;
    struct stepc_notice heard, told;
    char why[MPI_MAX_ERROR_STRING + 64];
};

static bool failed;          /* from then on nothing of the library waits for anybody */
static pid_t owner;          /* the process that began MPI here */
static uint64_t patience_ns; /* the longest time-out of those that opened it */

static bool right(struct world *w, int code, const char *call)
{
    int length = 0;
    if (code == MPI_SUCCESS) return true;
    int n = snprintf(w->why, sizeof w->why, "%s: ", call);
    MPI_Error_string(code, w->why + n, &length);
    failed = true;
    return false;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---------------------------------------------------------------- messages */

static bool room_for(struct world *w, int more)
{
    if (w->count + more <= w->room) return true;
    int room = 2 * (w->count + more);
    MPI_Request *requests = realloc(w->requests, (size_t)room * sizeof *requests);
    if (requests) w->requests = requests;
    struct stepc_message *messages = realloc(w->messages, (size_t)room * sizeof *messages);
    if (messages) w->messages = messages;
    if (requests && messages) w->room = room;
    else snprintf(w->why, sizeof w->why, "out of memory");
    return requests && messages;
}

static bool start(void *world, const struct stepc_message *messages, uint32_t count, uint32_t tag)
{
    struct world *w = world;
    for (const struct stepc_message *m = messages; m < messages + count; m++)
        for (uint64_t at = 0; at < m->bytes; at += STEPC_MPI_MOST) {
            int bytes = (int)(m->bytes - at < STEPC_MPI_MOST ? m->bytes - at : STEPC_MPI_MOST), code;
            char *data = (char *)m->data + at;
            if (!room_for(w, 1)) return false;
            MPI_Request *request = &w->requests[w->count];
            if (m->receive) code = MPI_Irecv(data, bytes, MPI_BYTE, (int)m->peer, (int)tag, w->data, request);
            else code = MPI_Isend(data, bytes, MPI_BYTE, (int)m->peer, (int)tag, w->data, request);
            if (!right(w, code, m->receive ? "MPI_Irecv" : "MPI_Isend")) return false;
            w->messages[w->count] = *m;
            w->messages[w->count++].bytes = (uint64_t)bytes;
        }
    return true;
}

static int poll(void *world)
{
    struct world *w = world;
    for (; w->ended < w->count; w->ended++) { /* whichever is asked, MPI goes on with all */
        const struct stepc_message *m = &w->messages[w->ended];
        MPI_Status status;
        int done = 0, bytes = 0;
        if (!right(w, MPI_Test(&w->requests[w->ended], &done, &status), "MPI_Test")) return -1;
        if (!done) return 0;
        if (!m->receive || (MPI_Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && (uint64_t)bytes == m->bytes))
            continue;
        snprintf(w->why, sizeof w->why, "rank %u sent %d bytes where %llu belong", m->peer, bytes,
                 (unsigned long long)m->bytes);
        return -1;
    }
    w->count = w->ended = 0;
    return 1;
}

static bool waits_for(void *world, uint32_t rank)
{
    struct world *w = world;
    for (int i = w->ended; i < w->count; i++) {
        int done = 0;
        if (w->messages[i].peer != rank) continue;
        if (MPI_Request_get_status(w->requests[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) return true;
    }
    return false;
}

static const char *why(void *world) { return ((struct world *)world)->why; }

/* ---------------------------------------------------------------- notices */

static bool listen(struct world *w)
{
    int code = MPI_Irecv(&w->heard, (int)sizeof w->heard, MPI_BYTE, MPI_ANY_SOURCE, 0, w->notices, &w->hearing);
    return right(w, code, "MPI_Irecv");
}

/* Nobody waits until it has arrived: who does not listen any more is what it is about. */
static void tell(void *world, const struct stepc_notice *notice)
{
    struct world *w = world;
    w->told = *notice;
    for (int r = 0; r < w->ranks; r++) {
        MPI_Request request;
        if (r != w->rank &&
            MPI_Isend(&w->told, (int)sizeof w->told, MPI_BYTE, r, 0, w->notices, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

static bool heard(void *world, struct stepc_notice *notice)
{
    struct world *w = world;
    int done = 0;
    if (w->hearing == MPI_REQUEST_NULL || MPI_Test(&w->hearing, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
        return false;
    *notice = w->heard;
    listen(w);
    return true;
}

/* ---------------------------------------------------------------- begin and end */

/* MPICH 4.0 over UCX waits for ever in MPI_Finalize where ranks are of several hosts. */
static void *end_all_the_same(void *status)
{
    static const char text[] = "stepc: MPI_Finalize does not return: the process ends without it\n";
    sleep(5);
    ssize_t written = write(2, text, sizeof text - 1);
    (void)written;
    _exit((int)(intptr_t)status);
}

/* All ranks come here before MPI is ended: one may have something to write when the others are done, and mpirun would
 * end it with the first that goes without. Who does not come within the longest time-out keeps nobody, and one that
 * fails waits for a second. */
static void end(int status, void *unused)
{
    static const char text[] = "stepc: the other ranks do not end: the process ends without MPI_Finalize\n";
    (void)unused;
    pthread_t watch;
    int over = 0, done = 0;
    MPI_Request request;
    if (failed || getpid() != owner || MPI_Finalized(&over) != MPI_SUCCESS || over) return;
    uint64_t begun = now(), most = status ? 1000000000u : patience_ns;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return;
    while (!done && now() - begun < most) {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
        if (now() - begun < 10000000u) sched_yield();
        else usleep(1000);
    }
    if (!done) {
        ssize_t written = status ? 0 : write(2, text, sizeof text - 1);
        (void)written;
        return;
    }
    fflush(NULL);
    if (pthread_create(&watch, NULL, end_all_the_same, (void *)(intptr_t)status) == 0) pthread_detach(watch);
    MPI_Finalize();
}

static bool begin(char *text, size_t size)
{
    int there = 0, over = 0, level = 0, mine = 0;
    MPI_Finalized(&over);
    MPI_Initialized(&there);
    if (over) snprintf(text, size, "MPI was finalised already: it cannot begin again in one process");
    else if (!there && MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        snprintf(text, size, "MPI_Init failed");
    else if (there && (MPI_Query_thread(&level) != MPI_SUCCESS || MPI_Is_thread_main(&mine) != MPI_SUCCESS ||
                       (level < MPI_THREAD_SERIALIZED && !mine)))
        snprintf(text, size, "the host initialised MPI for its main thread only, and this is another one");
    else {
        if (!there) owner = getpid(), on_exit(end, NULL); /* no child of it ends MPI */
        return true;
    }
    return false;
}

/* A communicator of our own, so that nobody's messages mix. */
static bool duplicate(struct world *w, MPI_Comm from, MPI_Comm *to, int64_t timeout_ns, char *text, size_t size)
{
    int done = 0;
    MPI_Request request;
    uint64_t until = now() + (uint64_t)timeout_ns;
    if (!right(w, MPI_Comm_idup(from, to, &request), "MPI_Comm_idup")) return false;
    while (!done) {
        if (!right(w, MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test")) return false;
        if (timeout_ns && now() > until) {
            failed = true;
            snprintf(text, size, "not all %d ranks have come within %lld ms", w->ranks,
                     (long long)timeout_ns / 1000000);
            return false;
        }
        if (!done) sched_yield();
    }
    return right(w, MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

static void *world_open(const void *communicator, int64_t timeout_ns, uint32_t *rank, uint32_t *ranks, char *text,
                        size_t size)
{
    struct world *w;
    int between = 0;
    if (!begin(text, size)) return NULL;
    uint64_t longest = timeout_ns ? (uint64_t)timeout_ns : UINT64_MAX;
    if (longest > patience_ns) patience_ns = longest;
    MPI_Comm from = communicator ? *(const MPI_Comm *)communicator : MPI_COMM_WORLD;
    snprintf(text, size, "out of memory");
    if (!(w = calloc(1, sizeof *w))) return NULL;
    *text = 0;
    w->hearing = MPI_REQUEST_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* also what a bad communicator is told by */
    bool ok = from != MPI_COMM_NULL && right(w, MPI_Comm_test_inter(from, &between), "MPI_Comm_test_inter") &&
              !between && right(w, MPI_Comm_rank(from, &w->rank), "MPI_Comm_rank") &&
              right(w, MPI_Comm_size(from, &w->ranks), "MPI_Comm_size") &&
              duplicate(w, from, &w->data, timeout_ns, text, size) &&
              duplicate(w, from, &w->notices, timeout_ns, text, size) && listen(w);
    if (!ok && from == MPI_COMM_NULL) snprintf(text, size, "the communicator is MPI_COMM_NULL");
    else if (!ok && between) snprintf(text, size, "the communicator is one between two groups");
    else if (!ok && !*text) snprintf(text, size, "%.200s", w->why);
    if (!ok) {
        free(w);
        return NULL;
    }
    *rank = (uint32_t)w->rank;
    *ranks = (uint32_t)w->ranks;
    return w;
}

static void world_abort(void *world, int code)
{
    failed = true;
    MPI_Abort(((struct world *)world)->data, code);
}

static void world_close(void *world, bool clean)
{
    struct world *w = world;
    int over = 0;
    if (!clean) failed = true;
    if (MPI_Finalized(&over) != MPI_SUCCESS || over) clean = false;
    if (clean) {
        MPI_Cancel(&w->hearing);
        MPI_Wait(&w->hearing, MPI_STATUS_IGNORE);
        MPI_Comm_free(&w->notices);
        MPI_Comm_free(&w->data);
        free(w->requests);
        free(w->messages);
        free(w);
    }
}

__attribute__((visibility("default"))) const struct stepc_plugin *stepc_plugin(void);
const struct stepc_plugin *stepc_plugin(void)
{
    static struct stepc_plugin table = {.version = STEPC_PLUGIN,
                                        .open = world_open,
                                        .start = start,
                                        .poll = poll,
                                        .waits_for = waits_for,
                                        .why = why,
                                        .tell = tell,
                                        .heard = heard,
                                        .abort = world_abort,
                                        .close = world_close};
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (!*table.library && MPI_Get_library_version(text, &length) == MPI_SUCCESS) {
        size_t n = strcspn(text, ",\n"); /* of a text of many lines */
        for (size_t i = 0; i < n && i < sizeof table.library - 1; i++)
            table.library[i] = text[i] == '\t' ? ' ' : text[i];
    }
    return &table;
}
