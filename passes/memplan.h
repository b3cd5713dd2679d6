/* Private to memplan*.c. */
#ifndef PASSES_MEMPLAN_H
#define PASSES_MEMPLAN_H
#include "passes/common.h"

enum { NO_BUFFER = UINT32_MAX };

struct memplan {
    struct pass *pass;
    struct plan_module *plans;
    struct plan *plan;
    struct arena *arena, *keep;   /* scratch, lasting */
    uint32_t **buffer_of;         /* [function index][value]: its buffer, NO_BUFFER = lives only inside a group */
    struct map constants;         /* hash of data -> buffer of this plan */
    struct map along;             /* group << 16 | output -> buffer: inputs that are also stored as results */
    struct map laid;              /* buffers of this plan that lie end to end with others */
    struct map placed;            /* hash of data -> constant block's offset / 8, of all plans */
    VEC(struct plan_command) out; /* the commands with copies */
    uint32_t flying;              /* of them, the collective that waits for its end */
};

/* memplan_buffers.c. Under reshapes: the value whose buffer it shares. */
ir_value memplan_base(const struct ir_func *, ir_value);
/* Where something begins that is laid down at `at` or behind it: `close` to what stands before it, or on a line of the
 * cache. A large one that fills its lines gets lines of its own. */
uint64_t memplan_begin(uint64_t at, uint64_t bytes, bool close);
uint64_t memplan_bytes(const struct ir_type *);
uint32_t memplan_new_buffer(struct memplan *, enum plan_space, const struct ir_func *, ir_value);
/* By value of a function; the buffer of one that must have it by now, or is a constant or a position on the mesh. */
uint32_t *memplan_buffers(struct memplan *, const struct ir_func *);
uint32_t memplan_buffer_of(struct memplan *, const struct ir_func *, ir_value);
/* memplan_order.c: the members of a kernel command by a number of each, those of one number by the size of their
 * tensors (pass_turn). */
uint32_t *memplan_by_place(const struct plan *, const struct plan_command *, const uint64_t *place, struct arena *);
/* The members of a kernel command in the order in which their tensors lie in memory, as far as they
 * have their places. */
uint32_t *memplan_order(const struct plan *, const struct plan_command *, struct arena *);
/* memplan_assign.c: values to buffers, copies where an update in place is not proven. */
void memplan_assign(struct memplan *);
/* memplan_place.c: lifetimes, sharing, offsets, barriers, the summary. */
void memplan_place(struct memplan *);
void memplan_barriers(struct plan *, struct arena *scratch);
#endif
