/* Folding: an equal simpler value for a node about to be made. */
#include "ir/ir.h"
ir_value ir_fold(struct ir_builder *b, const struct ir_node *node) { (void)b; (void)node; return 0; }
