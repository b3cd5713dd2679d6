/* Private to passes/decompose*.c. */
#ifndef PASSES_DECOMPOSE_H
#define PASSES_DECOMPOSE_H
#include "passes/common.h"

/* decompose_lines.c: of what lines along a dimension give, what the code generator does not walk as it stands. */
ir_value decompose_lines(struct pass *, struct ir_builder *, const struct ir_node *, const ir_value *map);
#endif
