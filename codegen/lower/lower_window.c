/* Rows of tensors: what a loop writes into one row of a buffer that it carries (plan_is_window) is stored there and
 * nothing else is touched, and a run of elements that is read from a larger tensor stays one run. */
#include "codegen/lower/lower.h"

nest_value lower_clamped(struct lower *l, nest_value x, int64_t most)
{
    nest_value last = lower_number(l, most < 0 ? 0 : most);
    x = lower_binary(l, OP_min, IR_I32, lower_cast(l, x, IR_I32), last);
    return lower_binary(l, OP_max, IR_I32, x, lower_number(l, 0));
}

bool lower_is_run(const struct ir_type *whole, const struct ir_type *part)
{
    bool begun = false;
    for (uint32_t i = 0; i < whole->rank; i++) {
        if (begun && part->dim[i] != whole->dim[i]) return false;
        begun |= part->dim[i] != 1;
    }
    return true;
}

void lower_add_start(struct lower *l, struct lower_pos *p, const struct ir_type *whole, const struct ir_type *part,
                     const ir_value *starts)
{
    struct lower_pos none = lower_pos_constant(0);
    int64_t stride = 1;
    for (uint32_t i = whole->rank; i-- > 0;) {
        int64_t room = whole->dim[i] - part->dim[i];
        if (room) lower_pos_add_scaled(l, p, lower_clamped(l, lower_value(l, starts[i], &none), room), stride, room);
        stride *= whole->dim[i];
    }
}

/* ---------------------------------------------------------------- outputs */

const struct ir_type *lower_output_type(const struct lower *l, ir_value v)
{
    return ir_type(l->f, plan_is_window(l->group, v) ? ir_get(l->f, v)->args[1] : v);
}

static struct nest_index lower_output_index(struct lower *l, ir_value v, const struct lower_pos *p)
{
    const struct ir_node *node = ir_get(l->f, v);
    struct lower_pos at[IR_MAX_RANK], to = *p;
    if (plan_is_window(l->group, v)) {
        const struct ir_type *part = ir_type(l->f, node->args[1]);
        if (!lower_is_run(&node->type, part)) {
            lower_pos_split(l, p, part->rank, part->dim, at);
            to = lower_pos_constant(0);
            int64_t stride = 1;
            for (uint32_t i = part->rank; i-- > 0; stride *= node->type.dim[i])
                if (part->dim[i] != 1) lower_pos_add(l, &to, &at[i], stride);
        }
        lower_add_start(l, &to, &node->type, part, node->args + 2);
    }
    return lower_pos_index(l, &to);
}

nest_value *lower_outputs(struct lower *l, uint8_t level, const struct lower_pos *p)
{
    const struct plan_group *g = l->group;
    nest_value *value = arena_new_array(l->arena, nest_value, g->outputs.count + 1);
    for (size_t i = 0; i < g->outputs.count; i++) {
        ir_value v = g->outputs.items[i];
        if (level != LOWER_ALL_LEVELS && g->output_level.items[i] != level) continue;
        value[i] = lower_value(l, plan_is_window(g, v) ? ir_get(l->f, v)->args[1] : v, p);
    }
    return value;
}

void lower_store_outputs(struct lower *l, const nest_value *value, const struct lower_pos *p, nest_value cond)
{
    for (size_t i = 0; i < l->group->outputs.count; i++)
        if (value[i])
            nest_store(&l->b, lower_argument_of_output(l, i), lower_output_index(l, l->group->outputs.items[i], p),
                       value[i], cond);
}
