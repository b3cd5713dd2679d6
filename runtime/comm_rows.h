/* What the rows of transports (comm.h) share. */
#ifndef RUNTIME_COMM_ROWS_H
#define RUNTIME_COMM_ROWS_H
#include "runtime/rt.h"

#pragma GCC visibility push(hidden)

extern const struct rt_comm_ops rt_comm_thread, rt_comm_staged, rt_comm_peers, rt_comm_mpi, rt_comm_nccl;
/* comm_progress.c: a worker enters a collective; it waits too long for those of its group in this process. */
void rt_comm_enter(struct rt_worker *, const struct stepc_command *);
/* Runs a collective, or one of its ends; between these (NULL) goes on with the one that is under way. False: the call
 * failed. */
bool rt_comm_go_on(struct rt_worker *, const struct stepc_command *);
void rt_comm_late(const struct rt_worker *, const struct stepc_command *, const uint32_t *members, uint32_t count);
const char *rt_comm_kind(const struct stepc_command *);

/* comm_thread.c: groups of all collectives; the part of a worker in one within this process, between two meetings. */
bool rt_groups_make(struct step_instance *);
struct rt_group *rt_group_of(const struct rt_device *, uint32_t axes);
void rt_groups_reset(struct step_instance *);
void rt_comm_local(struct rt_worker *, const struct stepc_command *, struct rt_group *);
/* Those that a collective joins, each as a collective. */
uint32_t rt_regions(const struct stepc_command *);
const struct stepc_command *rt_region(const struct stepc_command *, uint32_t i);
/* Operand (0) or result (1) of a member of a group in the collective that `w` is in; the member is one of this process.
 */
void *rt_comm_operand(const struct rt_worker *w, const struct stepc_command *, const struct rt_group *, uint32_t member,
                      uint32_t which);
/* [lo, hi) of n elements for piece i of `pieces`, cut at multiples of 16 (a cache line of f32). */
void rt_share(int64_t n, uint32_t i, uint32_t pieces, int64_t *lo, int64_t *hi);

/* comm_move.c: which piece of a member's operand goes to which other member, and where it lies there. */
struct rt_spread { /* element e of a piece is element (e / inner * parts + index) * inner + e % inner of a tensor */
    int64_t inner;
    uint32_t parts, index;
};
int64_t rt_piece_count(const struct stepc_command *, uint32_t members);                        /* elements */
struct rt_spread rt_piece_from(const struct stepc_command *, uint32_t members, uint32_t to);   /* in the operand */
struct rt_spread rt_piece_into(const struct stepc_command *, uint32_t members, uint32_t from); /* in the result */
bool rt_piece_goes(const struct stepc_command *, uint32_t members, uint32_t from, uint32_t to);
bool rt_piece_same(const struct stepc_command *); /* for all members that it goes to */
/* Elements from e on that lie side by side, `most` or fewer; *at: the first one's place. */
int64_t rt_spread_run(struct rt_spread, int64_t e, int64_t most, int64_t *at);
/* Elements [lo, hi) of a piece between two tensors. */
void rt_piece_copy(char *to, struct rt_spread into, const char *from, struct rt_spread out, int64_t lo, int64_t hi,
                   uint32_t item);

/* comm_reduce.c: sums over members of a group in an order that does not depend on who holds them: neighbours by two,
 * the sums of two by four, and so on. So sums over `count` members from a multiple of `count` on, a power of two, may
 * be computed anywhere. */
struct rt_part {
    const void *data; /* of the element asked for */
    uint32_t first, count;
    bool summed; /* elements are as rt_sum_bytes says; else those of one member, as in the tensor */
};
typedef struct rt_part rt_part_fn(const void *context, uint32_t k, int64_t at);
/* n elements from `at` on of `parts` parts, in the order of members, into `out`. */
void rt_reduce(const struct stepc_command *, rt_part_fn *, const void *context, uint32_t parts, int64_t at, int64_t n,
               void *out, bool summed);
uint32_t rt_sum_bytes(uint32_t dtype);
uint32_t rt_block(uint32_t first, uint32_t end); /* members from `first` on whose sum may be computed on its own */

#pragma GCC visibility pop
#endif
