/* Private to passes/decompose*.c. */
#ifndef PASSES_DECOMPOSE_H
#define PASSES_DECOMPOSE_H
#include "passes/common.h"

/* decompose_lines.c. Does the code generator walk the lines of an `order`? */
ir_value decompose_cumulate(struct ir_builder *, const struct ir_node *, const ir_value *map);
bool decompose_keeps_order(const struct pass *, const struct ir_node *);
ir_value decompose_order(struct pass *, struct ir_builder *, const struct ir_node *, ir_value key);
#endif
