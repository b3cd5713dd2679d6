/* What late_bounds.c and late_order.c know of a function while they evaluate it. */
#ifndef CODEGEN_LATE_LATE_BOUNDS_H
#define CODEGEN_LATE_LATE_BOUNDS_H
#include "codegen/late/late.h"

struct cg_evaluation {
    const struct ir_func *f;
    struct cg_bounds *of;               /* by value */
    struct cg_evaluation **inner;       /* by value: of calls */
    const struct cg_bounds *operands;   /* of a function that is called, by parameter */
    const struct cg_evaluation *caller; /* and who calls it */
    const struct ir_node *call;
    const struct cg_known *known_before; /* of the step */
    struct arena *arena;
    /* in one branch of a select: a value and what is known of it there */
    ir_value refined;
    struct cg_bounds known, *there; /* by value: in that branch, where `there_turn` is its number */
    uint32_t turn, *there_turn;
};

/* late_order.c: of values that are not negative, or NaN, where that is said. INFINITY: nothing is known. */
double cg_order_least(const struct cg_evaluation *, ir_value); /* the least that it is if it is above 0 */
/* Of |x / y|, where y is not below `least`; 0: where it is not 0. */
double cg_order_quotient(const struct cg_evaluation *, ir_value x, ir_value y, double least);
double cg_order_product(const struct cg_evaluation *, ir_value x, ir_value y);  /* of |x * y|, where y is finite */
double cg_order_exponent(const struct cg_evaluation *, ir_value x, ir_value y); /* y is x to that; NAN: it is not */
bool cg_order_above(const struct cg_evaluation *, ir_value x, ir_value y);      /* x - y is not negative, if x is not */
#endif
