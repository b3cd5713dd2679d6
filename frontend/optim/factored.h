/* Second moments by rows and columns (factored.c), for Adafactor as Optax and as T5X has it. */
#ifndef FRONTEND_OPTIM_FACTORED_H
#define FRONTEND_OPTIM_FACTORED_H
#include "frontend/optim/optim.h"

/* Sets of dimensions of a parameter, as bits. */
struct optim_factors {
    bool factored;
    uint32_t row, column, averaged; /* averaged: those that a root mean square is taken over */
};
/* g over the root of its second moment: of means over rows and columns, or of all elements. State is in slots v_row,
 * v_col and v of a dtype (what a parameter does not use is a slot of one zero); with `skip_nan` a slot keeps its value
 * where the next one is not a number. */
struct fe_term optim_factored(struct optim_transform *, uint32_t leaf, const struct optim_factors *, enum ir_dtype,
                              struct fe_term g, struct fe_term eps, struct fe_term decay, bool skip_nan);
/* The mean over a set of dimensions, which go; x, which lacks a set of dimensions of the shape, repeated along them. */
struct fe_term optim_mean_over(struct ir_builder *, struct fe_term x, uint32_t set);
struct fe_term optim_along(struct ir_builder *, struct fe_term x, const struct ir_type *, uint32_t set);
#endif
