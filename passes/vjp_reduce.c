/* Gradients of reductions and contractions. */
#include "passes/vjp.h"
#include <math.h>

/* A reduced value, once per element that went into it. */
static ir_value spread(struct vjp *c, ir_value reduced)
{
    const struct ir_type from = *vjp_type(c, 0);
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0, next = 0;
    for (uint32_t i = 0; i < from.rank; i++) {
        if (next < c->node.attr[0].n && c->node.attr[0].v[next] == i) next++;
        else dims[n++] = i;
    }
    return ir_broadcast(c->b, reduced, from.rank, from.dim, dims);
}

static ir_value reduce(struct vjp *c, enum ir_op op, ir_value x)
{
    return ir_reduce(c->b, op, x, c->node.attr[0].v, c->node.attr[0].n);
}

void vjp_reduce_sum(struct vjp *c) { vjp_give(c, 0, spread(c, c->ct)); }

/* Ties share evenly. Of NaN no element is the source, and all gradients are NaN, as JAX's quotient by their number. */
void vjp_reduce_extremum(struct vjp *c)
{
    struct ir_builder *b = c->b;
    ir_value x = vjp_arg(c, 0), y = c->value;
    ir_value none = ir_select(b, ir_binary(b, OP_eq, y, y), vjp_like(c, y, 0), vjp_like(c, y, (double)NAN));
    ir_value chosen = ir_binary(b, OP_eq, x, spread(c, c->value));
    ir_value count = reduce(c, OP_reduce_sum, ir_cast(b, chosen, (enum ir_dtype)c->node.type.dtype));
    vjp_give(c, 0, ir_select(b, chosen, spread(c, ir_binary(b, OP_div, c->ct, count)), spread(c, none)));
}

/* The product of the other elements: y / x without zeros; with one zero only that element has a slope, the product
 * of the rest; with more there is none. */
void vjp_reduce_prod(struct vjp *c)
{
    struct ir_builder *b = c->b;
    ir_value x = vjp_arg(c, 0), zero = vjp_like(c, x, 0);
    ir_value is_zero = ir_binary(b, OP_eq, x, zero);
    ir_value zeros = reduce(c, OP_reduce_sum, ir_cast(b, is_zero, (enum ir_dtype)c->node.type.dtype));
    ir_value safe = ir_select(b, is_zero, vjp_like(c, x, 1), x);
    ir_value rest = ir_binary(b, OP_mul, c->ct, reduce(c, OP_reduce_prod, safe));
    ir_value none = vjp_like(c, rest, 0);
    ir_value if_none = ir_select(b, ir_binary(b, OP_eq, zeros, none), rest, none);
    ir_value if_one = ir_select(b, ir_binary(b, OP_eq, zeros, vjp_like(c, rest, 1)), rest, none);
    vjp_give(c, 0, ir_select(b, is_zero, spread(c, if_one), ir_binary(b, OP_div, spread(c, if_none), safe)));
}

/* ---------------------------------------------------------------- dot */

/* One side of the contraction that gives a gradient, with, for each of its batch and free dimensions, the dimension
 * of the operand differentiated by. */
struct side {
    ir_value x;
    struct pass_dims batch, contract;
    int64_t target[IR_MAX_RANK];
};

/* Where the dimensions of dot(left, right) stand in the operand. Returns how many trailing ones are in place: all of
 * them, if no transposition is needed. */
static uint32_t dot_targets(struct ir_builder *b, const struct side *left, const struct side *right,
                            struct pass_dims *target)
{
    target->n = 0;
    for (uint32_t i = 0; i < left->batch.n; i++) pass_dims_add(target, left->target[left->batch.v[i]]);
    for (int s = 0; s < 2; s++) {
        const struct side *side = s ? right : left;
        struct pass_dims dims = pass_free_dims(ir_type(b->f, side->x), pass_ints(&side->batch),
                                               pass_ints(&side->contract));
        for (uint32_t i = 0; i < dims.n; i++) pass_dims_add(target, side->target[dims.v[i]]);
    }
    uint32_t in_place = 0;
    while (in_place < target->n && target->v[target->n - 1 - in_place] == target->n - 1 - in_place) in_place++;
    return in_place;
}

/* The order of the sides is free: the one that needs no transposition is taken if there is one, else the one whose
 * transposition moves longer runs. */
static ir_value gradient(struct ir_builder *b, const struct side *left, const struct side *right)
{
    struct pass_dims target, other;
    uint32_t in_place = dot_targets(b, left, right, &target);
    if (in_place < dot_targets(b, right, left, &other)) return gradient(b, right, left);
    ir_value product = ir_dot(b, left->x, right->x, pass_ints(&left->batch), pass_ints(&right->batch),
                              pass_ints(&left->contract), pass_ints(&right->contract));
    int64_t perm[IR_MAX_RANK];
    for (uint32_t i = 0; i < target.n; i++) perm[target.v[i]] = i;
    return in_place == target.n ? product : ir_transpose(b, product, perm);
}

/* Gradient by operand `of` (0: x, 1: y): the cotangent, contracted with the other operand over its free dimensions. */
static ir_value dot_gradient(struct vjp *c, uint32_t of)
{
    const struct ir_ints *attr = c->node.attr;
    const struct ir_ints *batch = &attr[of], *contract = &attr[2 + of];
    const struct ir_ints *other_batch = &attr[1 - of], *other_contract = &attr[3 - of];
    struct pass_dims mine = pass_free_dims(vjp_type(c, of), *batch, *contract);
    struct pass_dims others = pass_free_dims(vjp_type(c, 1 - of), *other_batch, *other_contract);
    struct side ct = {.x = c->ct}, other = {.x = vjp_arg(c, 1 - of)};
    /* The result of the dot is [batch, free of x, free of y]. */
    uint32_t my_first = batch->n + (of ? others.n : 0), other_first = batch->n + (of ? 0 : mine.n);
    for (uint32_t i = 0; i < batch->n; i++) {
        pass_dims_add(&ct.batch, i);
        pass_dims_add(&other.batch, other_batch->v[i]);
        ct.target[i] = other.target[other_batch->v[i]] = batch->v[i];
    }
    for (uint32_t i = 0; i < mine.n; i++) ct.target[my_first + i] = mine.v[i];
    for (uint32_t i = 0; i < others.n; i++) {
        pass_dims_add(&ct.contract, other_first + i);
        pass_dims_add(&other.contract, others.v[i]);
    }
    for (uint32_t i = 0; i < contract->n; i++) other.target[other_contract->v[i]] = contract->v[i];
    return of ? gradient(c->b, &other, &ct) : gradient(c->b, &ct, &other);
}

void vjp_dot(struct vjp *c)
{
    for (uint32_t of = 0; of < 2; of++)
        if (vjp_wants(c, of)) vjp_give(c, of, dot_gradient(c, of));
}
