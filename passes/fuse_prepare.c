/* Rewrites before fusion: what has no template of its own becomes ops that have one. argmax and argmin become an
 * extremum and a smallest index; a full reduction of a large tensor goes by rows first, so that workers can share it;
 * sums of very many scalars become sums of a tensor, or trees. */
#include "passes/fuse.h"

static ir_value rewrite_argreduce(struct ir_builder *b, const struct ir_node *node, ir_value x)
{
    struct ir_type from = *ir_type(b->f, x), index = from;
    int64_t dim = node->attr[0].v[0], dims[IR_MAX_RANK];
    for (uint32_t i = 0, n = 0; i < from.rank; i++)
        if (i != dim) dims[n++] = i;
    ir_value best = ir_reduce(b, node->op == OP_argmax ? OP_reduce_max : OP_reduce_min, x, &dim, 1);
    best = ir_broadcast(b, best, from.rank, from.dim, dims);
    ir_value hit = ir_binary(b, OP_eq, x, best);
    if (ir_dtype_is_float((enum ir_dtype)from.dtype))
        hit = ir_binary(b, OP_or, hit, ir_binary(b, OP_ne, x, x)); /* NaN wins */
    index.dtype = IR_I32;
    ir_value at = ir_select(b, hit, ir_iota(b, index, (uint32_t)dim), ir_number(b, index, (double)(from.dim[dim] - 1)));
    return ir_reduce(b, OP_reduce_min, at, &dim, 1);
}

/* The last dimensions first, as many as leave at least 16 rows; then the rest. */
static ir_value rewrite_full(struct ir_builder *b, const struct ir_node *node, ir_value x)
{
    struct ir_type from = *ir_type(b->f, x);
    int64_t elements = ir_type_elements(&from), shape[2] = {1, 1}, last = 1, all[2] = {0, 1};
    for (int64_t rows = 256; rows >= 16; rows /= 2)
        if (elements % rows == 0) {
            shape[0] = rows;
            shape[1] = elements / rows;
            x = ir_reshape(b, x, 2, shape);
            return ir_reduce_plain(b, (enum ir_op)node->op, ir_reduce_plain(b, (enum ir_op)node->op, x, &last, 1), all,
                                   1);
        }
    return 0;
}

struct preparing {
    struct pass *pass;
    struct fuse_sums sums;
};

static bool is_large_reduction(const struct ir_func *f, const struct ir_node *n)
{
    bool reduce = n->op == OP_reduce_sum || n->op == OP_reduce_max || n->op == OP_reduce_min;
    return reduce && n->type.rank == 0 && ir_type_elements(ir_type(f, n->args[0])) >= 65536;
}

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    return n->op == OP_argmax || n->op == OP_argmin || is_large_reduction(f, n);
}

static bool has_sums(const struct ir_module *m)
{
    bool any = false;
    for (size_t i = 0; i < m->funcs.count; i++) {
        uint32_t terms = 1;
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++)
            terms += fuse_is_scalar_sum(ir_get(m->funcs.items[i], v));
        any |= terms >= FUSE_MANY_TERMS;
    }
    return any;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct preparing *p = user;
    const struct ir_node *node = ir_get(from, old);
    ir_value sum = fuse_sum(&p->sums, b, from, old, map);
    if (sum) return sum;
    if (node->op == OP_argmax || node->op == OP_argmin) return rewrite_argreduce(b, node, map[node->args[0]]);
    if (is_large_reduction(from, node)) {
        ir_value r = rewrite_full(b, node, map[node->args[0]]);
        if (r) return r;
    }
    return pass_remake(p->pass, b, node, map);
}

struct ir_module *fuse_prepare(struct pass *p, struct ir_module *m)
{
    if (!has_sums(m) && pass_keeps(p, m, rewrites)) return m;
    struct preparing user = {p, {.arena = &p->scratch, .join = !p->options->one_by_one}};
    return pass_rebuild(p, m, rewrite, &user);
}
