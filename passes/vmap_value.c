/* Values with the rows in front, as rules of vectorisation use them. */
#include "passes/vmap.h"

ir_value vmap_none(struct vmap *c) { BUG("op %s cannot be applied to rows", ir_ops[c->n->op].name); }

struct ir_type vmap_type(const struct vmap *c, const struct ir_type *one)
{
    struct ir_type all = {.dtype = one->dtype, .rank = (uint8_t)(one->rank + 1), .dim[0] = c->rows};
    for (uint32_t i = 0; i < one->rank; i++) all.dim[i + 1] = one->dim[i];
    return all;
}

ir_value vmap_spread(struct vmap *c, struct vmap_value x)
{
    int64_t dims[IR_MAX_RANK];
    if (x.mapped) return x.v;
    struct ir_type one = *ir_type(c->b->f, x.v), all = vmap_type(c, &one);
    for (uint32_t i = 0; i < one.rank; i++) dims[i] = i + 1;
    return ir_broadcast(c->b, x.v, all.rank, all.dim, dims);
}

ir_value vmap_arg(struct vmap *c, uint32_t i) { return vmap_spread(c, c->map[c->n->args[i]]); }

ir_value vmap_fail(struct vmap *c, const char *what)
{
    pass_error(c->pass, c->b->f->module, c->n->place, "E0313", "for every row by itself, %s is not supported yet",
               what);
    return 0;
}
