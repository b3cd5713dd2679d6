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
    if (l->target->cuda) {
        lower_scatter_rows(l, in_place(l, node->args[0]));
        return;
    }
    int64_t shape[3];
    lower_around(&node->type, node->attr[0].v[0], shape);
    int64_t outer = shape[0], extent = shape[1], inner = shape[2];
    int64_t count = ir_type_elements(ir_type(l->f, node->args[1]));
    int64_t block = block_of(l, inner), blocks = block ? inner / block : 0;
    int64_t groups = blocks == 1 ? lower_scatter_groups(l, node) : 1; /* workers share these where they can */
    uint32_t out = lower_argument_of_output(l, 0);
    struct nest_builder *b = &l->b;

    nest_var var = lower_open(l, NEST_PARALLEL, groups > 1 ? groups : blocks);
    b->nest->parallel_extent = groups > 1 ? groups : blocks;
    struct lower_pos column = lower_pos_constant(0), row_at = column, at = column, from = column;
    if (groups == 1) lower_pos_add_term(l, &column, var, block);
    else {
        lower_pos_add_term(l, &row_at, var, extent / groups * inner);
        lower_pos_add_term(l, &at, var, count / groups);
        lower_pos_add_term(l, &from, var, count / groups * inner);
    }
    if (!in_place(l, node->args[0])) {
        int64_t rows = groups == 1 ? outer * extent : extent / groups;
        if (groups > 1) {
            nest_var o = lower_open(l, NEST_SERIAL, outer);
            lower_pos_add_term(l, &row_at, o, extent * inner);
        }
        nest_var row = lower_open(l, NEST_SERIAL, rows), lane = lower_open(l, NEST_VECTOR, block);
        struct lower_pos to = column;
        lower_pos_add(l, &to, &row_at, 1);
        lower_pos_add_term(l, &to, row, inner);
        lower_pos_add_term(l, &to, lane, 1);
        nest_store(b, out, lower_pos_index(l, &to), lower_value(l, node->args[0], &to), 0);
        nest_close_to(b, 1);
    }
    nest_var o = lower_open(l, NEST_SERIAL, outer), i = lower_open(l, NEST_SERIAL, count / groups);
    lower_pos_add_term(l, &at, i, 1);
    nest_value index = lower_cast(l, lower_value(l, node->args[1], &at), IR_I32);
    nest_value zero = lower_number(l, 0), end = lower_number(l, extent);
    nest_value below = lower_binary(l, OP_lt, IR_BOOL, index, end);
    nest_open_if(b, lower_and(l, lower_binary(l, OP_le, IR_BOOL, zero, index), below));
    nest_var lane = lower_open(l, NEST_VECTOR, block);
    struct lower_pos to = column;
    lower_pos_add(l, &from, &column, 1);
    lower_pos_add_term(l, &to, lane, 1);
    lower_pos_add_term(l, &to, o, extent * inner);
    lower_pos_add_scaled(l, &to, index, inner, extent - 1);
    lower_pos_add_term(l, &from, lane, 1);
    lower_pos_add_term(l, &from, o, count * inner);
    lower_pos_add_term(l, &from, i, inner);
    nest_value x = lower_value(l, node->args[2], &from);
    nest_add_to(b, out, lower_pos_index(l, &to), x);
    nest_close_to(b, 0);
    b->nest->work = (double)inner * (double)outer * (double)(count + extent);
}
