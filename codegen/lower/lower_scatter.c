/* scatter_add: the operand is copied (unless the result stands in its memory), then updates are added one index after
 * the other, so the result does not depend on the number of workers: these share the elements inside an index. */
#include "codegen/lower/lower.h"
#include <string.h>

/* Does the group's only command find its first operand where it stores the result? */
static bool in_place(const struct lower *l, ir_value operand)
{
    uint32_t group = (uint32_t)(l->group - l->plan->groups.items);
    if (!l->argument[operand]) return false;
    for (size_t i = 0; i < l->plan->commands.count; i++) {
        const struct plan_command *c = &l->plan->commands.items[i];
        if (c->kind == PLAN_KERNEL && c->group == group && c->writes.count == 1)
            return c->reads.items[l->argument[operand] - 1] == c->writes.items[0];
    }
    return false;
}

/* Elements of the innermost dimensions that one iteration of the parallel loop works on. */
static int64_t block_of(const struct lower *l, int64_t inner)
{
    if (inner % (4 * (int64_t)l->lanes) == 0 && inner > 8 * (int64_t)l->lanes) return 4 * l->lanes;
    return inner % l->lanes == 0 ? (int64_t)l->lanes : inner;
}

void lower_scatter(struct lower *l)
{
    const struct ir_node *node = ir_get(l->f, l->group->root);
    const struct ir_type *type = &node->type;
    int64_t dim = node->attr[0].v[0], outer = 1, inner = 1, extent = type->dim[dim];
    int64_t count = ir_type_elements(ir_type(l->f, node->args[1]));
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != dim) *(i < dim ? &outer : &inner) *= type->dim[i];
    int64_t block = block_of(l, inner), blocks = block ? inner / block : 0;
    uint32_t out = lower_argument_of_output(l, 0);
    struct nest_builder *b = &l->b;

    nest_var var = lower_open(l, NEST_PARALLEL, blocks);
    b->nest->parallel_extent = blocks;
    struct lower_pos column = lower_pos_constant(0);
    lower_pos_add_term(l, &column, var, block);
    if (!in_place(l, node->args[0])) {
        nest_var row = lower_open(l, NEST_SERIAL, outer * extent), lane = lower_open(l, NEST_VECTOR, block);
        struct lower_pos at = column;
        lower_pos_add_term(l, &at, row, inner);
        lower_pos_add_term(l, &at, lane, 1);
        nest_store(b, out, lower_pos_index(l, &at), lower_value(l, node->args[0], &at), 0);
        nest_close(b);
        nest_close(b);
    }
    nest_var o = lower_open(l, NEST_SERIAL, outer), i = lower_open(l, NEST_SERIAL, count);
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, i, 1);
    nest_value index = lower_value(l, node->args[1], &at);
    if (nest_dtype(b, index) != IR_I32) index = nest_op(b, OP_cast, IR_I32, &index, 1);
    nest_value low[2] = {nest_number(b, IR_I32, 0), index}, high[2] = {index, nest_number(b, IR_I32, (double)extent)};
    nest_open_if(b, lower_and(l, nest_op(b, OP_le, IR_BOOL, low, 2), nest_op(b, OP_lt, IR_BOOL, high, 2)));
    nest_var lane = lower_open(l, NEST_VECTOR, block);
    struct lower_pos to = column, from = column;
    lower_pos_add_term(l, &to, lane, 1);
    lower_pos_add_term(l, &to, o, extent * inner);
    lower_pos_add_scaled(l, &to, index, inner, extent - 1);
    lower_pos_add_term(l, &from, lane, 1);
    lower_pos_add_term(l, &from, o, count * inner);
    lower_pos_add_term(l, &from, i, inner);
    nest_value x = lower_value(l, node->args[2], &from);
    nest_add_to(b, out, lower_pos_index(l, &to), x);
    for (uint32_t n = 0; n < 5; n++) nest_close(b);
    b->nest->work = (double)inner * (double)outer * (double)(count + extent);
}
