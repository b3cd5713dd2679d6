/* What a plug-in that moves bytes between processes offers to objects: libstepc_mpi.so, compiled from comm_mpi.c
 * against the MPI of the machine, because MPI implementations share no binary interface. Objects open it only when the
 * transport is "mpi" (comm_ranks.c) and do everything else themselves: groups, sums, deadlines.
 *
 * All calls of one world come from one thread at a time. No call but `open` and `close` waits for another rank. */
#ifndef RUNTIME_COMM_PLUGIN_H
#define RUNTIME_COMM_PLUGIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of these tables; an object and a plug-in of different versions refuse each other. */
enum { STEPC_PLUGIN = 1 };
#define STEPC_PLUGIN_QUERY "stepc_plugin"

/* Messages of one tag between two ranks arrive in the order in which they were started; a receive takes one of its own
 * size, any other is a failure. */
struct stepc_message {
    void *data;
    uint64_t bytes; /* any number */
    uint32_t peer;
    bool receive;
};
enum { STEPC_TAGS = 32768 };
enum { STEPC_HERE, STEPC_GONE, STEPC_LEAVING };

/* What ranks tell each other beside their messages, when one has waited too long. */
struct stepc_notice {
    uint32_t rank;
    uint32_t state;  /* STEPC_HERE: it answers, and gives up too; GONE: it gives up first; LEAVING: it has done all */
    uint64_t number; /* collectives that it has begun */
    char text[240];  /* where it is */
};

struct stepc_plugin {
    uint32_t version;
    char library[60]; /* "Open MPI v4.1.4" */
    /* Joins the ranks of a communicator (NULL: of all that the launcher started), waiting `timeout_ns` at most for them
     * (0: for ever). NULL: `why` says why not. */
    void *(*open)(const void *communicator, int64_t timeout_ns, uint32_t *rank, uint32_t *ranks, char *why,
                  size_t size);
    /* Starts a number of messages beside those under way. False: as `poll`. */
    bool (*start)(void *world, const struct stepc_message *, uint32_t count, uint32_t tag);
    /* 1: all have ended; 0: not yet; -1: the library says that something failed: `why`. */
    int (*poll)(void *world);
    bool (*waits_for)(void *world, uint32_t rank); /* a message of that rank has not ended */
    const char *(*why)(void *world);
    void (*tell)(void *world, const struct stepc_notice *); /* all other ranks */
    bool (*heard)(void *world, struct stepc_notice *);      /* false: nothing new */
    void (*abort)(void *world, int code);                   /* ends all ranks */
    /* `clean`: every rank does the same, and nothing is under way. Else nothing of the library is touched any more. */
    void (*close)(void *world, bool clean);
};
typedef const struct stepc_plugin *stepc_plugin_fn(void);
#endif
