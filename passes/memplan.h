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
    struct map constants;         /* hash of data -> buffer of this plan */
    struct map along;             /* group << 16 | output -> buffer: inputs that are also stored as results */
    struct map laid;              /* buffers of this plan that lie end to end with others */
    struct map placed;            /* hash of data -> constant block's offset / 8, of all plans */
    VEC(struct plan_command) out; /* the commands with copies */
};

/* memplan.c */
ir_value memplan_base(const struct ir_func *, ir_value); /* under reshapes: the value whose buffer it shares */
uint64_t memplan_begin(uint64_t at, uint64_t bytes, bool close);
uint32_t memplan_new_buffer(struct memplan *, enum plan_space, const struct ir_func *, ir_value);
/* memplan_assign.c: values to buffers, copies where an update in place is not proven. */
void memplan_assign(struct memplan *);
/* memplan_place.c: lifetimes, sharing, offsets, barriers, the summary. */
void memplan_place(struct memplan *);
void memplan_barriers(struct plan *, struct arena *scratch);
#endif
