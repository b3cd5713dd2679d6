/* scatter_add for GPUs: every row of the result is a block's own, which looks through the indices for those that name
 * it and adds their updates in order. So nothing is added atomically, the sums are those of one update after the other,
 * and no two blocks write one element. Indices are looked at by as many lanes as a block has, many at a time, as most
 * rows of a vocabulary are named by few; the few parts of them that name the row are walked one by one. Where parts of
 * the indices stay among rows of their own (groups) only these are looked at. Where there are rows enough for a card,
 * a block has all columns of one, so that indices are looked at once for all of them.
 *
 *   parallel group, parallel row, parallel outer, parallel columns
 *     vector   the operand's, unless the result stands there
 *     serial   many of the indices
 *       vector   does one name the row?
 *       if so, serial   parts of them
 *         vector   does one name the row?
 *         if so, serial  columns
 *           the row's to registers, updates added one by one, and back
 */
#include "codegen/lower/lower.h"

enum {
    PART = 128,  /* indices that are walked together, */
    MANY = 2048, /* and that are looked at together */
    MOST_COLUMNS = 256,
    ROWS = 8 * CG_CUDA_BLOCKS /* enough for all columns of one to be a block's */
};

struct scatter {
    struct lower *l;
    const struct ir_node *node;
    int64_t outer, extent, inner, groups, count, block; /* count: indices of a group; block: columns */
    int64_t blocks;                                     /* of columns that are one block's of the card */
    int64_t checked;                                    /* parts of so many indices may go beyond the last one */
    struct lower_pos column, row, to, first;            /* to: of the block in the result; first: index of the group */
    nest_var before;                                    /* which of the outer ones */
    uint32_t out;
};

static int64_t block_of(int64_t inner)
{
    int64_t block = inner < MOST_COLUMNS ? inner : MOST_COLUMNS;
    while (block > 1 && inner % block) block--;
    return block;
}

/* `in`: which of the group's indices. */
static nest_value names_row(struct scatter *s, const struct lower_pos *in)
{
    struct lower *l = s->l;
    struct lower_pos at = *in;
    lower_pos_add(l, &at, &s->first, 1);
    if (s->count % s->checked) {
        nest_value position = lower_pos_value(l, in);
        l->cond = lower_binary(l, OP_lt, IR_BOOL, position, lower_number(l, s->count));
    }
    nest_value index = lower_cast(l, lower_value(l, s->node->args[1], &at), IR_I32);
    nest_value same = lower_and(l, l->cond, lower_binary(l, OP_eq, IR_BOOL, index, lower_pos_value(l, &s->row)));
    l->cond = 0;
    return same;
}

static struct nest_index lane_index(struct scatter *s, const struct lower_pos *block, nest_var lane)
{
    struct lower_pos at = *block;
    lower_pos_add_term(s->l, &at, lane, 1);
    return lower_pos_index(s->l, &at);
}

/* The updates of one part of the indices that name the row, which begins at `part`. */
static void add_part(struct scatter *s, const struct lower_pos *part)
{
    struct lower *l = s->l;
    struct nest_builder *b = &l->b;
    struct nest_index zero = {0};
    enum ir_dtype dtype = (enum ir_dtype)s->node->type.dtype;
    struct lower_pos to = s->to, from = s->column, at = *part;
    if (s->blocks > 1) {
        nest_var column = lower_open(l, NEST_SERIAL, s->blocks);
        lower_pos_add_term(l, &to, column, s->block);
        lower_pos_add_term(l, &from, column, s->block);
    }
    uint32_t sum = nest_reg(b, dtype, 1, true, 0), depth = b->depth;
    nest_var lane = lower_open(l, NEST_VECTOR, s->block);
    nest_set(b, sum, zero, nest_load(b, s->out, lane_index(s, &to, lane), 0));
    nest_close(b);
    nest_var i = lower_open(l, NEST_SERIAL, s->count < PART ? s->count : PART);
    lower_pos_add_term(l, &at, i, 1);
    nest_open_if(b, names_row(s, &at));
    lane = lower_open(l, NEST_VECTOR, s->block);
    lower_pos_add(l, &from, &at, s->inner);
    lower_pos_add(l, &from, &s->first, s->inner);
    lower_pos_add_term(l, &from, s->before, s->groups * s->count * s->inner);
    lower_pos_add_term(l, &from, lane, 1);
    nest_value x = lower_value(l, s->node->args[2], &from);
    nest_set(b, sum, zero, lower_binary(l, OP_add, dtype, nest_get(b, sum, zero), x));
    nest_close_to(b, depth);
    lane = lower_open(l, NEST_VECTOR, s->block);
    nest_store(b, s->out, lane_index(s, &to, lane), nest_get(b, sum, zero), 0);
    nest_close(b);
    if (s->blocks > 1) nest_close(b);
}

/* Opens a branch that is gone into if one of so many indices from `first` on names the row. */
static void open_if_named(struct scatter *s, const struct lower_pos *first, int64_t count)
{
    struct lower *l = s->l;
    struct nest_builder *b = &l->b;
    struct nest_index zero = {0};
    uint32_t named = nest_reg(b, IR_BOOL, 1, true, 0);
    nest_var lane = lower_open(l, NEST_VECTOR, s->count < count ? s->count : count);
    struct lower_pos at = *first;
    lower_pos_add_term(l, &at, lane, 1);
    nest_reduce(b, OP_or, named, zero, names_row(s, &at));
    nest_close(b);
    nest_open_if(b, nest_fold(b, OP_or, named, zero));
}

static void look_through(struct scatter *s)
{
    struct lower *l = s->l;
    uint32_t depth = l->b.depth;
    struct lower_pos at = lower_pos_constant(0);
    s->checked = s->count > MANY ? MANY : PART;
    if (s->count > PART) {
        nest_var many = lower_open(l, NEST_SERIAL, (s->count + MANY - 1) / MANY);
        lower_pos_add_term(l, &at, many, MANY);
        open_if_named(s, &at, MANY);
    }
    int64_t together = s->count < MANY ? s->count : MANY;
    nest_var part = lower_open(l, NEST_SERIAL, (together + PART - 1) / PART);
    lower_pos_add_term(l, &at, part, PART);
    open_if_named(s, &at, PART);
    add_part(s, &at);
    nest_close_to(&l->b, depth);
}

void lower_scatter_rows(struct lower *l, bool in_place)
{
    struct scatter s = {.l = l, .node = ir_get(l->f, l->group->root), .out = lower_argument_of_output(l, 0)};
    int64_t shape[3];
    lower_around(&s.node->type, s.node->attr[0].v[0], shape);
    s.outer = shape[0], s.extent = shape[1], s.inner = shape[2];
    s.groups = lower_scatter_groups(l, s.node);
    s.count = ir_type_elements(ir_type(l->f, s.node->args[1])) / s.groups;
    s.block = block_of(s.inner);
    int64_t blocks = s.block ? s.inner / s.block : 0, rows = s.extent / s.groups;
    s.blocks = blocks > 1 && s.extent * s.outer >= ROWS ? blocks : 1;
    blocks /= s.blocks;
    s.row = s.column = s.first = lower_pos_constant(0);
    if (s.groups > 1) {
        nest_var group = lower_open(l, NEST_PARALLEL, s.groups);
        lower_pos_add_term(l, &s.row, group, rows);
        lower_pos_add_term(l, &s.first, group, s.count);
    }
    nest_var row = lower_open(l, NEST_PARALLEL, rows);
    s.before = lower_open(l, NEST_PARALLEL, s.outer);
    nest_var block = lower_open(l, NEST_PARALLEL, blocks);
    l->b.nest->parallel_extent = s.extent * s.outer * blocks;
    lower_pos_add_term(l, &s.row, row, 1);
    lower_pos_add_term(l, &s.column, block, s.block);
    s.to = s.column;
    lower_pos_add(l, &s.to, &s.row, s.inner);
    lower_pos_add_term(l, &s.to, s.before, s.extent * s.inner);
    if (!in_place) {
        nest_var lane = lower_open(l, NEST_VECTOR, s.blocks * s.block);
        struct lower_pos at = s.to;
        lower_pos_add_term(l, &at, lane, 1);
        nest_store(&l->b, s.out, lower_pos_index(l, &at), lower_value(l, s.node->args[0], &at), 0);
        nest_close(&l->b);
    }
    if (s.count) look_through(&s);
    nest_close_to(&l->b, 0);
    l->b.nest->work = (double)s.inner * (double)s.outer * (double)(s.groups * s.count + s.extent);
}
