/* Gradients of running results. Of y[i] = f(y[i - 1], x[i]) the cotangents of all y[i], from all that follows from
 * them, are running results from the other end: t[i] = g[i] + t[i + 1] * f'(y[i + 1] by y[i]), a linear one; x[i] gets
 * t[i] * f'(y[i] by x[i]). */
#include "passes/vjp.h"
#include <math.h>

static bool is_reverse(const struct vjp *c) { return c->node.attr[2].v[0] != 0; }
static uint32_t along(const struct vjp *c) { return (uint32_t)c->node.attr[0].v[0]; }

/* Each element's neighbour: the one before it, or (`next`) the one behind it, in the order of the op; `edge` where
 * there is none. */
static ir_value neighbour(struct vjp *c, ir_value x, bool next, double edge)
{
    const struct ir_type type = *ir_type(c->b->f, x);
    int64_t zero[IR_MAX_RANK] = {0}, before[IR_MAX_RANK] = {0}, after[IR_MAX_RANK] = {0};
    int64_t up = next == is_reverse(c) ? 1 : -1; /* elements move towards the end, or the start */
    before[along(c)] = up, after[along(c)] = -up;
    return ir_pad(c->b, x, ir_scalar(c->b, (enum ir_dtype)type.dtype, edge), before, after, zero);
}

/* t, of what y[i] is by y[i - 1]. */
static ir_value all_that_follows(struct vjp *c, ir_value by_before)
{
    ir_value args[2] = {c->ct, neighbour(c, by_before, true, 0)};
    return ir_cumulate(c->b, IR_CUMULATE_LINEAR, args, along(c), !is_reverse(c));
}

/* The winner takes all, and of a tie with what came before half; behind a NaN there is no gradient (jax.lax.cummax). */
static void give_extremum(struct vjp *c, bool largest)
{
    double least = largest ? -INFINITY : INFINITY;
    ir_value x = vjp_arg(c, 0), before = neighbour(c, c->value, false, least);
    ir_value one = vjp_like(c, x, 1), zero = vjp_like(c, x, 0), half = vjp_like(c, x, 0.5);
    ir_value wins = largest ? vjp_op2(c, OP_lt, before, x) : vjp_op2(c, OP_lt, x, before);
    ir_value by_x = ir_select(c->b, wins, one, ir_select(c->b, vjp_op2(c, OP_eq, before, x), half, zero));
    by_x = vjp_op2(c, OP_max, by_x, neighbour(c, zero, false, 1)); /* nothing comes before the first */
    ir_value by_before = ir_select(c->b, vjp_op2(c, OP_eq, c->value, c->value), vjp_op2(c, OP_sub, one, by_x), zero);
    vjp_give(c, 0, vjp_op2(c, OP_mul, all_that_follows(c, by_before), by_x));
}

/* e**(x - y): the part of x in y; all of it where both are the same infinity. */
static ir_value part(struct vjp *c, ir_value x)
{
    ir_value same = vjp_op2(c, OP_eq, x, c->value);
    return vjp_op1(c, OP_exp, ir_select(c->b, same, vjp_like(c, x, 0), vjp_op2(c, OP_sub, x, c->value)));
}

void vjp_cumulate(struct vjp *c)
{
    ir_value x = vjp_arg(c, 0), t;
    switch ((enum ir_cumulate)c->node.attr[1].v[0]) {
    case IR_CUMULATE_SUM: vjp_give(c, 0, ir_cumulate(c->b, IR_CUMULATE_SUM, &c->ct, along(c), !is_reverse(c))); return;
    case IR_CUMULATE_PROD:
        vjp_give(c, 0, vjp_op2(c, OP_mul, all_that_follows(c, x), neighbour(c, c->value, false, 1)));
        return;
    case IR_CUMULATE_MAX:
    case IR_CUMULATE_MIN: give_extremum(c, c->node.attr[1].v[0] == IR_CUMULATE_MAX); return;
    case IR_CUMULATE_LOGSUMEXP:
        t = all_that_follows(c, part(c, neighbour(c, c->value, false, -INFINITY)));
        vjp_give(c, 0, vjp_op2(c, OP_mul, t, part(c, x)));
        return;
    default:
        t = all_that_follows(c, vjp_arg(c, 1));
        vjp_give(c, 0, t);
        if (vjp_wants(c, 1)) vjp_give(c, 1, vjp_op2(c, OP_mul, t, neighbour(c, c->value, false, 0)));
    }
}
