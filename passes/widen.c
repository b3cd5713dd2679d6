/* --numerics invariant: sums and products of bfloat16 are taken in float32 and rounded once, behind it. So what cuts
 * sums (invariant.c, accumulate_rows.c, shard.c) sees the sum that may be cut, and not what it is rounded to. float16
 * stays: what it sums vanishes where another number of microbatches scales it. */
#include "passes/common.h"

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    return (n->op == OP_reduce_sum || n->op == OP_dot) && n->type.dtype == IR_BF16;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    const struct ir_node *n = ir_get(from, old);
    ir_value args[2];
    if (!rewrites(from, n)) return pass_remake(user, b, n, map);
    for (uint32_t i = 0; i < n->arg_count; i++) args[i] = ir_cast(b, map[n->args[i]], IR_F32);
    return ir_cast(b, ir_remake(b, n, args), IR_BF16);
}

struct ir_module *pass_widen(struct pass *p, struct ir_module *m)
{
    if (!p->options->invariant || pass_keeps(p, m, rewrites)) return m;
    return pass_rebuild(p, m, rewrite, p);
}
