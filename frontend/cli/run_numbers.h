/* Numbers of one dtype that become those of another one (run_numbers.c). */
#ifndef FRONTEND_CLI_RUN_NUMBERS_H
#define FRONTEND_CLI_RUN_NUMBERS_H
#include "frontend/cli/run.h"
#include "ir/ir.h"

/* A number into a tensor of that dtype; STEP_ERANGE: a finite one would be infinite there. */
step_status run_number_set(enum ir_dtype, void *to, uint64_t i, double, const char *name, char error[ST_TEXT]);
#endif
