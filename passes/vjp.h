/* Private to passes/autodiff.c and vjp_*.c: the gradient rule of an op. */
#ifndef PASSES_VJP_H
#define PASSES_VJP_H
#include "passes/common.h"

/* Given the cotangent of a node's result, a rule adds the cotangents of its operands. Cotangents have the type of
 * their value; 0 is a zero that is never stored. A rule may leave out operands that nobody wants. */
struct vjp {
    struct pass *pass;
    struct ir_builder *b;
    struct ir_node node; /* a copy: building moves the function's nodes */
    ir_value value;      /* the node's own value */
    ir_value ct;         /* its cotangent, never 0 */
    const bool *wanted;  /* per value of the function: on a path from what is differentiated by */
    ir_value *sums;      /* per value: cotangent so far */
    ir_value **parts;    /* per value that is a tuple: cotangents of its parts so far, NULL = none */
};
typedef void vjp_rule(struct vjp *);

#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) vjp_rule vjp_##vjp;
#include "ir/ops.def"
#undef X

/* vjp_cotangent.c */
bool vjp_wants(const struct vjp *, uint32_t operand);
void vjp_give(struct vjp *, uint32_t operand, ir_value ct); /* adds to the cotangent of an operand; 0 is nothing */

/* autodiff.c: puts `body`, at the operands `in`, into the builder's function, and behind it the derivatives of the
 * inner products of its results with their cotangents. ct: by result, 0 = none, y: the results; grad: by operand that
 * is `wanted`. Returns where the body's own nodes end; 0: no result has a cotangent. */
uint32_t vjp_body(struct pass *, struct ir_builder *, const struct ir_func *body, const ir_value *in,
                  const bool *wanted, const ir_value *ct, ir_value *y, ir_value *grad);

/* Short names for rules. */
static inline ir_value vjp_arg(const struct vjp *c, uint32_t i) { return c->node.args[i]; }
static inline const struct ir_type *vjp_type(const struct vjp *c, uint32_t i)
{
    return ir_type(c->b->f, c->node.args[i]);
}
static inline ir_value vjp_op1(struct vjp *c, enum ir_op op, ir_value x) { return ir_unary(c->b, op, x); }
static inline ir_value vjp_op2(struct vjp *c, enum ir_op op, ir_value x, ir_value y)
{
    return ir_binary(c->b, op, x, y);
}
static inline ir_value vjp_like(struct vjp *c, ir_value like, double number)
{
    return ir_number_like(c->b, like, number);
}
#endif
