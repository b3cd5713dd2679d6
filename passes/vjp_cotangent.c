/* Cotangents, as gradient rules give them, and the rules of ops that have none. */
#include "passes/vjp.h"

bool vjp_wants(const struct vjp *c, uint32_t operand) { return c->wanted[c->node.args[operand]]; }

void vjp_give(struct vjp *c, uint32_t operand, ir_value ct)
{
    ir_value *sum = &c->sums[c->node.args[operand]];
    if (!ct || !vjp_wants(c, operand)) return;
    *sum = *sum ? ir_binary(c->b, OP_add, *sum, ct) : ct;
}

void vjp_zero(struct vjp *c) { (void)c; }

/* A tuple on the way is that of a loop: calls were put in place. */
void vjp_none(struct vjp *c)
{
    const struct ir_func *f = c->b->f;
    const struct ir_node *n = c->node.op == OP_proj ? ir_get(f, c->node.args[0]) : &c->node;
    struct diag *d = pass_error(c->pass, f->module, n->place, "E0310",
                                "the loss depends on %s, which cannot be differentiated",
                                n->op == OP_loop ? "a loop" : ir_ops[n->op].name);
    d->hint = "stop_gradient(...) keeps the value and leaves out its gradient";
}

void vjp_call(struct vjp *c) { BUG("%s: a call is still on the way to the loss", c->b->f->name); }
