/* Sums that are trees over leaves (ir/ops.def, dot): neighbours by two, these sums by two, and so on, whatever kernel
 * it is and however many lanes there are. A sum that has to wait for its neighbour waits in a local, one per level, as
 * in a binary counter; terms of a row that lie in a local are added there, level by level. */
#include "codegen/lower/lower.h"

enum { LONG_LEAF = 16 };

uint32_t lower_tree_levels(int64_t leaves)
{
    uint32_t levels = 0;
    while ((int64_t)1 << levels < leaves) levels++;
    return levels;
}

/* ---------------------------------------------------------------- a row */

static nest_value term(struct lower *l, uint32_t local, nest_var var, int64_t scale, int64_t offset)
{
    struct lower_pos at = lower_pos_constant(offset);
    lower_pos_add_term(l, &at, var, scale);
    return nest_load(&l->b, local, lower_pos_index(l, &at), 0);
}

static void put(struct lower *l, uint32_t local, nest_var var, nest_value x)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, var, 1);
    nest_store(&l->b, local, lower_pos_index(l, &at), x, 0);
}

/* Leaf i becomes element i: what is written has been read by then. */
static void add_leaves(struct lower *l, enum ir_dtype dtype, uint32_t local, int64_t leaf, int64_t leaves)
{
    struct nest_index zero = {0};
    nest_var var = lower_open(l, leaf <= LONG_LEAF ? NEST_VECTOR : NEST_SERIAL, leaves);
    if (leaf <= LONG_LEAF) {
        nest_value sum = nest_number(&l->b, dtype, 0);
        for (int64_t i = 0; i < leaf; i++) sum = lower_binary(l, OP_add, dtype, sum, term(l, local, var, leaf, i));
        put(l, local, var, sum);
    } else {
        uint32_t reg = nest_reg(&l->b, dtype, 1, false, 0);
        nest_var step = lower_open(l, NEST_SERIAL, leaf);
        struct lower_pos at = lower_pos_constant(0);
        lower_pos_add_term(l, &at, var, leaf);
        lower_pos_add_term(l, &at, step, 1);
        nest_reduce(&l->b, OP_add, reg, zero, nest_load(&l->b, local, lower_pos_index(l, &at), 0));
        nest_close(&l->b);
        put(l, local, var, nest_get(&l->b, reg, zero));
    }
    nest_close(&l->b);
}

void lower_tree_row(struct lower *l, enum ir_dtype dtype, uint32_t local, int64_t leaf, int64_t leaves)
{
    add_leaves(l, dtype, local, leaf, leaves);
    for (int64_t half = leaves / 2; half > 0; half /= 2) {
        nest_var var = lower_open(l, NEST_VECTOR, half);
        put(l, local, var, lower_binary(l, OP_add, dtype, term(l, local, var, 2, 0), term(l, local, var, 2, 1)));
        nest_close(&l->b);
    }
}

/* ---------------------------------------------------------------- tiles */

void lower_tree_join(struct lower *l, const struct lower_pos *leaf, uint32_t levels, lower_tree_move *move, void *user)
{
    uint32_t depth = l->b.depth;
    for (uint32_t level = 0; level < levels; level++) {
        nest_value bit = lower_binary(l, OP_and, IR_I32, lower_pos_value(l, leaf),
                                      lower_number(l, (int64_t)1 << level));
        nest_value zero = lower_number(l, 0);
        nest_open_if(&l->b, lower_binary(l, OP_eq, IR_BOOL, bit, zero));
        move(user, level, false);
        nest_close(&l->b);
        nest_open_if(&l->b, lower_binary(l, OP_ne, IR_BOOL, bit, zero));
        move(user, level, true);
    }
    move(user, levels, false);
    nest_close_to(&l->b, depth);
}
