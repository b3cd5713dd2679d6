/* Private to ir/fold*.c. */
#ifndef IR_FOLD_H
#define IR_FOLD_H
#include "ir/ir.h"

/* A rule returns an equal simpler value of the node's very type, 0 if it has none. */
typedef ir_value fold_rule(struct ir_builder *, const struct ir_node *);

#define FOLD(op, rule, equations) fold_rule fold_##rule;
#include "ir/fold.def"
#undef FOLD
fold_rule fold_moved_number; /* fold_shape.c */
fold_rule fold_constants;    /* fold_constant.c: all operands are constants */

static inline const struct ir_node *fold_arg(const struct ir_builder *b, const struct ir_node *node, uint32_t i)
{
    return &b->f->nodes[node->args[i]];
}

/* The one number of a constant that repeats it. 64-bit integers that a double cannot hold have none. */
bool fold_number(const struct ir_node *, double *number);
/* Numbers 0, 1, .. along a dimension, none of which is too large for the dtype; how many. */
bool fold_numbers(const struct ir_node *, int64_t *count);
bool fold_is(const struct ir_node *, double number); /* that number, -0 and 0 told apart */
#endif
