/* What the files of transport "mpi" share: comm_ranks.c (waiting, host data, agreement), comm_cross.c (collectives over
 * ranks), comm_join.c (who is there; the row). */
#ifndef RUNTIME_COMM_RANKS_H
#define RUNTIME_COMM_RANKS_H
#include "runtime/comm_plugin.h"
#include "runtime/comm_rows.h"
#include <sched.h>
#include <stepc/step_tools.h>

/* What ranks tell each other before anything else. */
struct rt_rank {
    char host[64];
    int32_t pid;
    uint32_t object, tables; /* checksum of the tables, and their version */
    uint32_t devices;
    char name[64]; /* of the step */
    char mesh[64];
    cpu_set_t cores[RT_CPU_SETS];
};

struct rt_script;

struct rt_ranks {
    const struct stepc_plugin *plugin;
    void *world;
    uint32_t rank, ranks;
    struct rt_rank *about;                  /* by rank */
    uint64_t number;                        /* of the collective, or agreement, that is under way */
    const struct stepc_command *_Atomic at; /* NULL: host data */
    uint32_t what;                          /* they are; 0: an agreement */
    const char *doing;                      /* something else than these; NULL: no */
    struct rt_barrier all;                  /* workers of this process */
    bool crosses[1 << RT_MAX_AXES];         /* by set of axes: a group of mine has members on other ranks */
    bool broken;                            /* somebody was waited for in vain, or told so */
    bool leaving;                           /* this rank, by destroy */
    struct stepc_notice left;               /* of the last rank that said so, and when */
    uint64_t left_ns;
    uint32_t left_count;
    struct rt_script *script;
    void *gpus; /* of comm_nccl.c; NULL: another row */
};

const char *rt_rank_text(const struct rt_ranks *, uint32_t rank, char *text,
                         size_t size);                                        /* "rank 2 (host b, pid 4711)" */
void rt_ranks_tell(struct step_instance *, uint32_t state, const char *text); /* all others, STEPC_GONE .. */
/* As in comm.h. */
step_status rt_ranks_gather(struct step_instance *, uint32_t what, const void *mine, size_t bytes, void *all);
step_status rt_ranks_scatter(struct step_instance *, uint32_t what, const void *all, size_t bytes, void *mine);
step_status rt_ranks_meet(struct step_instance *, step_status, uint64_t call);
/* Messages of one thread, the first worker's, of which one set is under way at a time. 1: they have ended, 0: not yet
 * (never with `wait`), -1: rt_give_up was called. `sent`: whether they are under way, false at first. */
int rt_ranks_exchange(struct step_instance *, const struct stepc_message *, uint32_t count, bool *sent, bool wait);

/* Whether whoever waits for so long goes on: false: rt_give_up was called, and the others were told. */
bool rt_ranks_look(struct step_instance *, uint64_t waited_ns);
bool rt_ranks_linked(struct step_instance *); /* while no message is under way: false: likewise */
/* Once messages go: who takes part, which has to run the same object. */
step_status rt_ranks_join(struct step_instance *, uint32_t *rank, uint32_t *ranks);
/* comm_socket.c: messages between processes that meet through a file, and where they go; NULL: why. */
const struct stepc_plugin *rt_socket_open(const char *path, uint32_t rank, uint32_t ranks, int64_t timeout_ns,
                                          void **world, char *why, size_t size);

bool rt_cross_plan(struct step_instance *); /* false: rt_fail was called */
int rt_cross_advance(struct rt_worker *, const struct stepc_command *, bool wait);
void rt_cross_close(struct rt_ranks *);
#endif
