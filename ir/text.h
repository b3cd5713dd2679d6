/* Words of the text form that the printer and the parser share. */
#ifndef IR_TEXT_H
#define IR_TEXT_H
#include "ir/ir.h"

/* clang-format off */
#define IR_ROLES(X) \
    X(PARAM, "param") X(EMA, "ema") X(OPT_STATE, "opt_state") X(STATE, "state") X(INPUT, "input") \
    X(METRIC, "metric") X(OUTPUT, "output") X(HYPER, "hyper") X(INDEX, "index")
/* clang-format on */
#define IR_STAGES(X) X(TENSOR, "tensor") X(SPMD, "spmd") X(KERNEL, "kernel")

const char *ir_role_name(enum ir_role); /* "?" if it is none */
const char *ir_stage_name(int stage);
/* 0 if unknown. */
int ir_role_find(const char *name);
int ir_stage_find(const char *name);
#endif
