/* Which commands of a step may wait until it is decided that the step counts. A step that may be refused then runs in
 * two parts: what makes the gradients, the loss and the metrics; and, if nobody refuses, the update of the state, in
 * place. Without this it would write the new state beside the old one, and move twice as much through the caches.
 *
 * This needs a proof that the update makes nothing infinite or NaN, given that what the first part has made for it and
 * the state are below a bound, which kernels see while they store (NEST_BOUNDED). Where the bound does not hold, and
 * where nothing can be proved, the runtime goes the other way. */
#ifndef CODEGEN_LATE_LATE_H
#define CODEGEN_LATE_LATE_H
#include "codegen/codegen.h"

/* late_bounds.c: what is known of all elements of a value: each is NaN, if it may be that, or between the two. */
struct cg_bounds {
    double low, high;
    bool nan;
};
/* What the runtime sees before a step counts, by slot: of inputs that they are below the bound, of hyper-parameters
 * that they are what they were at first, of single numbers of an optimizer that they are below the bound, integers not
 * negative, and floats, if they are to be APART from 0, not below 1 / STEPC_BOUND. */
enum { CG_NOT_EXPECTED, CG_EXPECTED, CG_EXPECTED_APART };
/* What no element of a slot is below: not below 0; not below 1 / STEPC_BOUND. */
enum { CG_ANY, CG_POSITIVE, CG_APART };
/* What is known of a step before it runs. */
struct cg_known {
    const bool *seen;        /* by value: it is stored and seen to be below the bound, or finite, if of 16 bits */
    uint8_t *least;          /* by slot: CG_ANY.. */
    const uint8_t *expected; /* by slot */
    double bound;            /* of floats that kernels look at, and inputs: STEPC_BOUND, STEPC_BOUND_CLOSE */
};
/* Of the values of a step, its parameters and inputs being what the runtime sees to: that, and hyper-parameters below
 * STEPC_BOUND_HYPER. Slots of which a step may make less than is known of them (`least`) lose that. */
struct cg_bounds *cg_bounds_find(const struct ir_func *step, const struct cg_known *, struct arena *);
bool cg_bounds_finite(const struct ir_type *, struct cg_bounds);
/* A single number of an optimizer, at which kernels do not look. */
bool cg_is_number(enum ir_role, const struct ir_type *);
/* Floats of the state that kernels look at when a step stores them. The others are single numbers of optimizers, which
 * may be infinite (the best loss before there is one). */
bool cg_is_watched(enum ir_role, const struct ir_type *);

/* late_find.c */
enum { CG_NOT_HELD = UINT32_MAX };
struct cg_late {
    bool *late;        /* by command */
    uint32_t *held;    /* by buffer of the arena that late commands read: its place among these; CG_NOT_HELD: none */
    bool *early;       /* by buffer of the next state: an early command writes it */
    bool **seen;       /* by command, then by what it writes: it is seen to be below the bound; NULL: none of it */
    uint8_t *least;    /* by slot: CG_ANY.. */
    uint8_t *expected; /* by slot: CG_EXPECTED.. */
    bool close;        /* it is STEPC_BOUND_CLOSE that things are seen to be below */
};
/* NULL: no command may wait, or it would not pay; `always`: that is not asked. */
const struct cg_late *cg_late_find(const struct plan *step, bool always, struct arena *);
/* Kernels see whether what they store is below the bound, where that has to be known. */
void cg_late_watch(const struct plan *step, const struct cg_late *, struct cg_kernel *);
#endif
