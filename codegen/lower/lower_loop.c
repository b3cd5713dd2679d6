/* Loops over axes and their parts, the arguments of a nest, and giving up. */
#include "codegen/lower/lower.h"

nest_var lower_open(struct lower *l, enum nest_loop loop, int64_t extent)
{
    nest_var var = nest_open(&l->b, loop, extent);
    struct lower_var_info info = {.extent = extent, .loop = (uint8_t)loop};
    vec_push(l->arena, &l->vars, info);
    ASSERT(l->vars.count == var + 1u); /* a loop opened elsewhere would shift what is known of all later ones */
    return var;
}

nest_var lower_open_piece(struct lower *l, enum nest_loop loop, uint32_t axis, uint32_t part, int64_t extent,
                          int64_t unit)
{
    nest_var var = lower_open(l, loop, extent);
    struct lower_var_info *info = &l->vars.items[var];
    info->axis = (uint8_t)axis, info->part = (uint8_t)part, info->splits = true;
    info->unit = unit;
    return var;
}

nest_var lower_open_part(struct lower *l, enum nest_loop loop, uint32_t axis, uint32_t part)
{
    return lower_open_piece(l, loop, axis, part, l->axes[axis].part[part], 1);
}

nest_value lower_compare(struct lower *l, enum ir_op op, nest_var var, int64_t with)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, var, 1);
    return lower_binary(l, op, IR_BOOL, lower_pos_value(l, &at), lower_number(l, with));
}

struct lower_pos lower_block_ahead(struct lower *l, nest_var block, int64_t blocks, int64_t ahead)
{
    struct lower_pos next = lower_pos_constant(ahead), at = lower_pos_constant(0);
    nest_open_if(&l->b, lower_compare(l, OP_lt, block, blocks - ahead));
    lower_pos_add_term(l, &next, block, 1);
    lower_pos_add_scaled(l, &at, lower_pos_value(l, &next), 1, blocks - 1);
    return at;
}

struct lower_pos lower_next_block(struct lower *l, nest_var block, int64_t blocks, int64_t steps)
{
    struct lower_pos next = lower_block_ahead(l, block, blocks, 1), at = lower_pos_constant(0);
    lower_pos_add(l, &at, &next, steps);
    return at;
}

nest_value lower_mask_tile(struct lower *l, const struct lower_pos *p, uint32_t axis, uint32_t part, int64_t offset,
                           int64_t extent)
{
    struct lower_pos at = lower_pos_constant(offset);
    for (uint32_t i = 0; i < p->term_count; i++) {
        const struct lower_var_info *info = &l->vars.items[p->term[i].var];
        if (info->splits && info->axis == axis && info->part == part)
            lower_pos_add_term(l, &at, p->term[i].var, info->unit);
    }
    l->tile_axis = axis, l->tile_part = part, l->tile_most = extent - 1 - offset;
    nest_value x = lower_pos_value(l, &at);
    return l->tile_mask = lower_binary(l, OP_lt, IR_BOOL, x, lower_number(l, extent));
}

uint32_t lower_stretches(const struct lower *l, uint32_t axis, uint32_t part, struct lower_stretch stretch[2])
{
    int64_t extent = l->axes[axis].part[part], phases = l->axes[axis].phase[part];
    if (!phases) phases = 1;
    uint32_t count = 0;
    if (extent / phases || !extent) stretch[count++] = (struct lower_stretch){0, extent / phases, phases};
    if (extent % phases) stretch[count++] = (struct lower_stretch){extent / phases * phases, 1, extent % phases};
    return count;
}

struct lower_pos lower_open_stretch(struct lower *l, uint32_t axis, uint32_t part, const struct lower_stretch *of)
{
    struct lower_pos at = lower_pos_constant(of->first);
    if (of->count != 1) /* of none, too */
        lower_pos_add_term(l, &at, lower_open_piece(l, NEST_SERIAL, axis, part, of->count, of->steps), of->steps);
    return at;
}

bool lower_shares_better(int64_t inner, int64_t outer)
{
    enum { ENOUGH = 16 };
    return outer < ENOUGH && inner > outer;
}

int64_t lower_axis_stride(const struct lower_axis *axis, uint32_t part)
{
    int64_t stride = 1;
    for (uint32_t i = part + 1; i < axis->parts; i++) stride *= axis->part[i];
    return stride;
}

uint32_t lower_argument_of_output(const struct lower *l, size_t output)
{
    return (uint32_t)(l->group->inputs.count + output);
}
