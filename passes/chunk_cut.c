/* Rows that are cut off behind a wide product (`model[:, :-1]`: the last token has no label) are not computed at all,
 * so that what is left is row by row: the cut moves from the result through what is element-wise to the operands of
 * the product. Of the gradient, products and sums that read what is padded with zeros in turn read what is inside. A
 * row that is cut off then gives no NaN to a gradient, which 0 times infinity did. */
#include "passes/chunk.h"
#include <string.h>

struct cut {
    struct pass *pass;
    const struct ir_func *f;
    const uint32_t *uses; /* of its live values */
    uint64_t least;       /* bytes of a product that is worth it */
};

/* A box of a value: everything but along dimensions that are cut. */
struct box {
    int64_t start[IR_MAX_RANK], limit[IR_MAX_RANK];
};

static bool is_cut(const struct ir_type *t, const struct box *box, uint32_t d)
{
    return box->start[d] != 0 || box->limit[d] != t->dim[d];
}

static ir_value cut_off(struct ir_builder *b, ir_value v, const struct box *box)
{
    int64_t one[IR_MAX_RANK];
    bool any = false;
    for (uint32_t d = 0; d < ir_type(b->f, v)->rank; d++) one[d] = 1, any |= is_cut(ir_type(b->f, v), box, d);
    return any ? ir_slice(b, v, box->start, box->limit, one) : v;
}

/* The boxes of a product's operands that give a box of its result. */
static void operands_of(const struct ir_func *f, const struct ir_node *dot, const struct box *box, struct box of[2])
{
    uint32_t at = dot->attr[0].n;
    for (uint32_t side = 0; side < 2; side++) {
        const struct ir_type *t = ir_type(f, dot->args[side]);
        struct pass_dims rows = pass_free_dims(t, dot->attr[side], dot->attr[2 + side]);
        for (uint32_t d = 0; d < t->rank; d++) of[side].start[d] = 0, of[side].limit[d] = t->dim[d];
        for (uint32_t i = 0; i < dot->attr[0].n + rows.n; i++) {
            bool batch = i < dot->attr[0].n;
            int64_t d = batch ? dot->attr[side].v[i] : rows.v[i - dot->attr[0].n];
            of[side].start[d] = box->start[batch ? i : at], of[side].limit[d] = box->limit[batch ? i : at];
            at += !batch;
        }
    }
}

/* A large product that something element-wise alone leads to `v`: what is cut off it is worth it. */
static bool leads_from_product(const struct cut *c, ir_value v)
{
    const struct ir_node *n = ir_get(c->f, v);
    if (c->uses[v] != 1) return false;
    if (n->op == OP_dot) return chunk_bytes(c->f, v) >= c->least && !n->attr[4].n && !n->attr[5].n;
    for (uint32_t i = 0; ir_ops[n->op].flags & IR_EWISE && i < n->arg_count; i++)
        if (leads_from_product(c, n->args[i])) return true;
    return false;
}

/* What is repeated is repeated less often. */
static ir_value part_of_repeated(struct ir_builder *b, const struct ir_node *n, ir_value of, const struct box *box)
{
    const struct ir_type *t = ir_type(b->f, of);
    struct box small;
    int64_t shape[IR_MAX_RANK];
    for (uint32_t d = 0; d < t->rank; d++) {
        bool once = t->dim[d] == n->type.dim[n->attr[0].v[d]];
        small.start[d] = once ? box->start[n->attr[0].v[d]] : 0;
        small.limit[d] = once ? box->limit[n->attr[0].v[d]] : t->dim[d];
    }
    for (uint32_t d = 0; d < n->type.rank; d++) shape[d] = box->limit[d] - box->start[d];
    return ir_broadcast(b, cut_off(b, of, &small), n->type.rank, shape, n->attr[0].v);
}

/* The box of a value, of what is there already or made for it alone. */
static ir_value part_of(struct cut *c, struct ir_builder *b, ir_value v, const struct box *box, const ir_value *map)
{
    const struct ir_node *n = ir_get(c->f, v);
    ir_value args[4];
    if (n->op == OP_broadcast) return part_of_repeated(b, n, map[n->args[0]], box);
    if (!leads_from_product(c, v) || n->arg_count > 4) return cut_off(b, map[v], box);
    struct box of[2] = {*box, *box};
    if (n->op == OP_dot) operands_of(c->f, n, box, of);
    for (uint32_t i = 0; i < n->arg_count; i++)
        args[i] = n->op == OP_dot ? cut_off(b, map[n->args[i]], &of[i]) : part_of(c, b, n->args[i], box, map);
    struct ir_node part = *n;
    for (uint32_t d = 0; d < n->type.rank; d++) part.type.dim[d] = box->limit[d] - box->start[d];
    return ir_remake(b, &part, args);
}

/* What is inside of zeros, and where; false: it is nothing like that. */
static bool inside_zeros(const struct cut *c, ir_value v, ir_value *inner, struct box *box)
{
    const struct ir_node *n = ir_get(c->f, v);
    double fill;
    if (n->op != OP_pad || chunk_bytes(c->f, v) < c->least || !pass_number(c->f, n->args[1], &fill) || fill != 0)
        return false;
    for (uint32_t d = 0; d < n->type.rank; d++) {
        if (n->attr[0].v[d] < 0 || n->attr[1].v[d] < 0 || n->attr[2].v[d]) return false;
        box->start[d] = n->attr[0].v[d], box->limit[d] = n->type.dim[d] - n->attr[1].v[d];
    }
    *inner = n->args[0];
    return true;
}

static ir_value put_around(struct ir_builder *b, ir_value v, const struct ir_type *type, const struct box *box)
{
    int64_t high[IR_MAX_RANK], none[IR_MAX_RANK] = {0};
    bool any = false;
    for (uint32_t d = 0; d < type->rank; d++) high[d] = type->dim[d] - box->limit[d], any |= is_cut(type, box, d);
    return any ? ir_pad(b, v, ir_scalar(b, (enum ir_dtype)type->dtype, 0), box->start, high, none) : v;
}

/* The product of what is inside, with zeros around it where its rows were cut. */
static ir_value inner_product(struct cut *c, struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    for (uint32_t side = 0; side < 2 && !n->attr[4].n && !n->attr[5].n; side++) {
        struct box box, other, around;
        ir_value inner, args[2];
        if (!inside_zeros(c, n->args[side], &inner, &box)) continue;
        const struct ir_type *t = ir_type(c->f, n->args[side]), *o = ir_type(c->f, n->args[1 - side]);
        for (uint32_t d = 0; d < o->rank; d++) other.start[d] = 0, other.limit[d] = o->dim[d];
        for (uint32_t d = 0; d < n->type.rank; d++) around.start[d] = 0, around.limit[d] = n->type.dim[d];
        for (uint32_t list = 0; list < 4; list += 2)
            for (uint32_t i = 0; i < n->attr[list + side].n; i++) {
                int64_t d = n->attr[list + side].v[i], to = n->attr[list + 1 - side].v[i];
                other.start[to] = box.start[d], other.limit[to] = box.limit[d];
                if (!list) around.start[i] = box.start[d], around.limit[i] = box.limit[d];
            }
        struct pass_dims rows = pass_free_dims(t, n->attr[side], n->attr[2 + side]);
        uint32_t at = side ? n->type.rank - rows.n : n->attr[0].n;
        for (uint32_t i = 0; i < rows.n; i++)
            around.start[at + i] = box.start[rows.v[i]], around.limit[at + i] = box.limit[rows.v[i]];
        args[side] = map[inner];
        args[1 - side] = cut_off(b, map[n->args[1 - side]], &other);
        struct ir_node part = *n;
        for (uint32_t d = 0; d < n->type.rank; d++) part.type.dim[d] = around.limit[d] - around.start[d];
        return put_around(b, ir_remake(b, &part, args), &n->type, &around);
    }
    return 0;
}

static ir_value inner_sum(struct cut *c, struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    struct box box, around;
    ir_value inner;
    uint32_t at = 0;
    if (n->op != OP_reduce_sum || n->attr[1].n || !inside_zeros(c, n->args[0], &inner, &box)) return 0;
    for (uint32_t d = 0; d < ir_type(c->f, n->args[0])->rank; d++)
        if (!pass_has(n->attr[0], d)) around.start[at] = box.start[d], around.limit[at++] = box.limit[d];
    struct ir_node part = *n;
    for (uint32_t d = 0; d < n->type.rank; d++) part.type.dim[d] = around.limit[d] - around.start[d];
    return put_around(b, ir_remake(b, &part, &map[inner]), &n->type, &around);
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct cut *c = user;
    const struct ir_node *n = ir_get(from, old);
    struct arena *a = &c->pass->scratch;
    ir_value made = 0;
    if (c->f != from)
        c->uses = pass_live_uses(c->f = from, ir_live(from, a), a), c->least = chunk_least_bytes(c->pass, from);
    if (n->op == OP_slice && leads_from_product(c, n->args[0])) {
        struct box box;
        bool whole = true;
        for (uint32_t d = 0; d < n->type.rank; d++) {
            box.start[d] = n->attr[0].v[d], box.limit[d] = n->attr[1].v[d];
            whole &= n->attr[2].v[d] == 1;
        }
        if (whole) return part_of(c, b, n->args[0], &box, map);
    }
    if (n->op == OP_dot) made = inner_product(c, b, n, map);
    if (n->op == OP_reduce_sum) made = inner_sum(c, b, n, map);
    return made ? made : pass_remake(c->pass, b, n, map);
}

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    return (n->op == OP_slice || n->op == OP_pad) && ir_type(f, n->args[0])->rank > 1;
}

struct ir_module *chunk_cut(struct pass *p, struct ir_module *m)
{
    struct cut c = {.pass = p};
    return pass_keeps(p, m, rewrites) ? m : pass_rebuild(p, m, rewrite, &c);
}
