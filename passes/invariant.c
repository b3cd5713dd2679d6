/* --numerics invariant: every sum of floats gets an order that does not depend on how the work is cut (Collange et al.
 * 2015 call such sums reproducible; the tree over aligned blocks is that of pairwise summation). The extent that is
 * summed is cut into leaves of a few steps, which are summed one after the other; sums of neighbouring leaves are
 * added, these sums again, and so on. Where devices, microbatches or kernels have whole, aligned runs of 2^k leaves
 * each, they compute whole subtrees, and the runtime's sums over devices, by neighbours too, are the rest of the tree:
 * not a bit differs.
 *
 * Leaves depend on the odd part of an extent only, so halves of it have the same ones. Contractions have their tree
 * over the first contracted dimension that can be halved; other reductions go dimension by dimension, the last one
 * first, and have single rows as leaves where it is the first of the tensor, that of the batch. Sums of 16-bit floats
 * and products are taken one after the other; what may not be cut then is kept whole (shard_keep_order). */
#include "passes/common.h"

int64_t pass_leaf(int64_t extent, int64_t rest)
{
    int64_t leaf = extent;
    while (leaf && leaf % 2 == 0) leaf /= 2;
    while (leaf && leaf * rest < PASS_LEAF && leaf < extent) leaf *= 2;
    return leaf;
}

static bool is_wide(enum ir_dtype dtype) { return dtype == IR_F32 || dtype == IR_F64; }

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    bool sum = n->op == OP_reduce_sum || n->op == OP_reduce_prod || n->op == OP_dot;
    return sum && is_wide((enum ir_dtype)n->type.dtype) && !n->attr[n->op == OP_dot ? 4 : 1].n;
}

static ir_value reduce(struct ir_builder *b, const struct ir_node *n, ir_value x)
{
    int64_t rest = 1; /* what was summed before */
    for (uint32_t i = n->attr[0].n; i-- > 0;) {
        int64_t dim = n->attr[0].v[i], extent = ir_type(b->f, x)->dim[dim];
        int64_t leaf = n->op == OP_reduce_sum ? pass_leaf(extent, dim == 0 ? PASS_LEAF : rest) : extent;
        rest *= extent > 0 ? extent : 1;
        x = ir_make(b,
                    (struct ir_node){.op = n->op, .arg_count = 1, .args = &x, .attr = {{&dim, 1}, {&leaf, leaf > 0}}});
    }
    return x;
}

static ir_value contract(struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    const struct ir_type *x = ir_type(b->f, map[n->args[0]]);
    struct ir_ints lhs = n->attr[2], rhs = n->attr[3];
    struct ir_node made = *n;
    ir_value args[] = {map[n->args[0]], map[n->args[1]]};
    int64_t first[2][IR_MAX_RANK], rest = 1, leaf = 0;
    uint32_t tree = 0;
    for (uint32_t i = lhs.n; i-- > 0;)
        if (x->dim[lhs.v[i]] % 2 == 0) tree = i;
    for (uint32_t i = 0; i < lhs.n; i++) {
        uint32_t from = i == 0 ? tree : i <= tree ? i - 1 : i;
        first[0][i] = lhs.v[from], first[1][i] = rhs.v[from];
        rest *= i ? x->dim[lhs.v[from]] : 1;
    }
    if (lhs.n && rest) leaf = pass_leaf(x->dim[first[0][0]], rest);
    made.args = args;
    made.attr[2].v = first[0], made.attr[3].v = first[1];
    made.attr[4] = (struct ir_ints){&leaf, leaf > 0};
    return ir_make(b, made);
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    const struct ir_node *n = ir_get(from, old);
    if (!rewrites(from, n)) return pass_remake(user, b, n, map);
    return n->op == OP_dot ? contract(b, n, map) : reduce(b, n, map[n->args[0]]);
}

struct ir_module *pass_invariant(struct pass *p, struct ir_module *m)
{
    return p->options->invariant && !pass_keeps(p, m, rewrites) ? pass_rebuild(p, m, rewrite, p) : m;
}
