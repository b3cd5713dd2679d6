/* Schedules (schedules.c): numbers that depend on the step. */
#ifndef FRONTEND_SCHEDULES_H
#define FRONTEND_SCHEDULES_H
#include "frontend/document/document.h"
#include "frontend/expr/term.h"

/* The value of a number or schedule at an int32 scalar step: float32 scalar. `json` NULL: `preset`. */
ir_value fe_schedule(struct fe *, struct ir_builder *, const struct fe_value *, ir_value step);
/* The same, weak where JAX computes it from the step and Python's numbers without fixing a dtype. */
struct fe_term fe_schedule_term(struct fe *, struct ir_builder *, const struct fe_value *, ir_value step);
bool fe_schedule_row(uint32_t index, struct fe_row *); /* for the reference; false: there is no row of that number */
#endif
