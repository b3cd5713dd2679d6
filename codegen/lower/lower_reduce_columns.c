/* Reductions across lines: a block of kept elements is given to one iteration, each element a lane, and the reduced
 * ones are walked; also short rows, many at once (reduction_has_short_rows). */
#include "codegen/lower/lower_reduce.h"

/* Opens the tile's loops: its registers one after the other, each lane an element of the last kept part. */
static void open_tile(struct lower_reduction *r, int64_t extent, bool masked, nest_var *unroll)
{
    struct lower *l = r->l;
    uint32_t axis = r->tile_axis, part = l->axes[axis].parts - 1;
    *unroll = lower_open_piece(l, NEST_UNROLL, axis, part, r->vectors, r->width);
    reduction_add_part(r, axis, *unroll, r->width);
    nest_var lane = lower_open_piece(l, NEST_VECTOR, axis, part, r->width, 1);
    reduction_add_part(r, axis, lane, 1);
    if (masked) r->mask = lower_mask_tile(l, &r->full, axis, part, 0, extent);
}

static void close_tile(struct lower_reduction *r, uint32_t depth)
{
    r->mask = r->l->tile_mask = 0;
    nest_close_to(&r->l->b, depth);
}

/* Makes the finished reductions visible in a tile's body. */
static void read_sums(struct lower_reduction *r, uint32_t pass, struct nest_index reg)
{
    struct lower *l = r->l;
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        if (r->of[v].stage > pass) continue;
        nest_value x = lower_cast(l, nest_get(&l->b, r->of[v].reg, reg), (enum ir_dtype)ir_type(l->f, v)->dtype);
        l->from[v] = (struct lower_override){.source = FROM_VALUE, .value = x};
    }
}

static void choose_tile(struct lower_reduction *r, int64_t extent)
{
    int64_t lanes = r->l->lanes, whole = (extent + lanes - 1) / lanes;
    r->width = extent < 1 ? 1 : extent < lanes ? extent : lanes; /* a tensor without elements has no tile */
    /* the sums of a tile stay in half of the registers, or two of each in three quarters: lines of memory come in pairs
     */
    uint32_t sums = r->sums.count ? (uint32_t)r->sums.count : 1, registers = r->l->target->vector_registers;
    uint32_t most = 2 * sums > registers / 2 && 2 * sums <= registers / 4 * 3 ? 2 : registers / 2 / sums;
    bool one = r->l->target->cuda || reduction_of_lanes(r); /* a GPU has more blocks than a tile has vectors */
    most = most < 1 || one ? 1 : most < 4 ? most : 4;
    r->vectors = whole < 1 ? 1 : whole < most ? (uint32_t)whole : most;
    for (uint32_t n = most; n > 1 && extent % lanes == 0; n--)
        if (whole % n == 0 && n < whole) {
            r->vectors = n;
            break;
        }
}

/* What a leaf of a tree has come to goes on (lower_tree.c); its registers and local are those of the tile. */
struct tile_tree {
    struct lower_reduction *r;
    ir_value v;
};

static void move_tile(void *user, uint32_t level, bool add)
{
    struct tile_tree *t = user;
    struct lower *l = t->r->l;
    const struct lower_reduced *of = &t->r->of[t->v];
    nest_var unroll = lower_open(l, NEST_UNROLL, t->r->vectors), lane = lower_open(l, NEST_VECTOR, t->r->width);
    struct lower_pos at = lower_pos_constant((int64_t)level * t->r->vectors * t->r->width);
    struct nest_index reg = reduction_tile_index(l, unroll), index;
    lower_pos_add_term(l, &at, unroll, t->r->width);
    lower_pos_add_term(l, &at, lane, 1);
    index = lower_pos_index(l, &at);
    if (add) {
        nest_value sum = nest_load(&l->b, of->local, index, 0);
        sum = lower_binary(l, OP_add, nest_dtype(&l->b, sum), sum, nest_get(&l->b, of->reg, reg));
        nest_set(&l->b, of->reg, reg, sum);
    } else {
        nest_store(&l->b, of->local, index, nest_get(&l->b, of->reg, reg), 0);
    }
    nest_close(&l->b);
    nest_close(&l->b);
}

/* The loops over leaves, if this pass has trees; where in its axis what is inside of a leaf begins. */
static uint32_t open_leaves(struct lower_reduction *r, uint32_t pass, struct lower_pos *leaf)
{
    struct lower *l = r->l;
    bool any = false;
    for (size_t i = 0; i < r->sums.count; i++)
        any |= r->of[r->sums.items[i]].stage == pass + 1 && reduction_is_tree(r, ir_get(l->f, r->sums.items[i]));
    for (uint32_t a = 0; a < r->runs && any; a++) {
        if (!r->reduced[a]) continue;
        uint32_t p = 0;
        for (; p < l->axes[a].parts && lower_axis_stride(&l->axes[a], p) >= r->leaf; p++) {
            int64_t stride = lower_axis_stride(&l->axes[a], p);
            nest_var var = lower_open_part(l, NEST_SERIAL, a, p);
            reduction_add_part(r, a, var, stride);
            lower_pos_add_term(l, leaf, var, stride / r->leaf);
        }
        return p;
    }
    return 0;
}

static void close_leaves(struct lower_reduction *r, uint32_t pass, const struct lower_pos *leaf)
{
    uint32_t levels = lower_tree_levels(r->columns / r->leaf);
    if (levels > LOWER_TREE_LEVELS)
        lower_fail(r->l, r->l->group->outputs.items[0], "a sum in a fixed order over that many elements");
    for (size_t i = 0; i < r->sums.count; i++) {
        struct tile_tree t = {r, r->sums.items[i]};
        if (r->of[t.v].stage == pass + 1 && reduction_is_tree(r, ir_get(r->l->f, t.v)))
            lower_tree_join(r->l, leaf, levels, move_tile, &t);
    }
}

/* The whole sums, from where the last leaf has left them. */
static void take_sums(struct lower_reduction *r, uint32_t pass)
{
    struct lower *l = r->l;
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        const struct ir_node *node = ir_get(l->f, v);
        if (r->of[v].stage != pass + 1 || !reduction_is_tree(r, node)) continue;
        r->of[v].reg = nest_reg(&l->b, (enum ir_dtype)node->type.dtype, r->vectors, true, 0);
        nest_var unroll = lower_open(l, NEST_UNROLL, r->vectors), lane = lower_open(l, NEST_VECTOR, r->width);
        int64_t last = lower_tree_levels(r->columns / r->leaf);
        struct lower_pos at = lower_pos_constant(last * r->vectors * r->width);
        lower_pos_add_term(l, &at, unroll, r->width);
        lower_pos_add_term(l, &at, lane, 1);
        nest_set(&l->b, r->of[v].reg, reduction_tile_index(l, unroll),
                 nest_load(&l->b, r->of[v].local, lower_pos_index(l, &at), 0));
        nest_close(&l->b);
        nest_close(&l->b);
    }
}

static void declare_waiting(struct lower_reduction *r)
{
    for (size_t i = 0; i < r->sums.count; i++) {
        const struct ir_node *node = ir_get(r->l->f, r->sums.items[i]);
        if (!reduction_is_tree(r, node)) continue;
        int64_t planes = lower_tree_levels(r->columns / r->leaf) + 1;
        r->of[r->sums.items[i]].local = nest_local(&r->l->b, (enum ir_dtype)node->type.dtype,
                                                   planes * r->vectors * r->width);
    }
}

/* Of the last kept part. */
static int64_t tile_extent(const struct lower_reduction *r)
{
    const struct lower_axis *axis = &r->l->axes[r->tile_axis];
    return axis->part[axis->parts - 1];
}

static void inside_columns(struct lower_reduction *r, uint32_t pass)
{
    struct lower *l = r->l;
    uint32_t depth = l->b.depth;
    int64_t extent = tile_extent(r);
    nest_var unroll;
    open_tile(r, extent, extent % (r->vectors * r->width) != 0, &unroll);
    struct nest_index reg = reduction_tile_index(l, unroll);
    read_sums(r, pass, reg);
    reduction_body(r, pass, reg);
    close_tile(r, depth);
}

void reduction_by_columns(struct lower_reduction *r)
{
    struct lower *l = r->l;
    struct lower_kept columns = {r->tile_axis, l->axes[r->tile_axis].parts - 1};
    int64_t extent = tile_extent(r);
    choose_tile(r, extent);
    int64_t tile = r->vectors * r->width, blocks = (extent + tile - 1) / tile;
    nest_var unroll;
    declare_waiting(r);
    reduction_open_kept(r, &columns, blocks);
    uint32_t depth = l->b.depth;
    struct lower_pos full = r->full, row = r->row;
    for (uint32_t pass = 0; pass < r->passes; pass++) {
        struct lower_pos leaf = lower_pos_constant(0);
        reduction_declare(r, pass, false);
        uint32_t inner = open_leaves(r, pass, &leaf), leaf_depth = l->b.depth;
        reduction_declare(r, pass, true);
        reduction_walk(r, 0, inner, inner, inside_columns, pass);
        if (leaf_depth > depth) close_leaves(r, pass, &leaf);
        nest_close_to(&l->b, depth);
        take_sums(r, pass);
        r->full = full, r->row = row;
    }
    open_tile(r, extent, extent % tile != 0, &unroll);
    read_sums(r, r->passes, reduction_tile_index(l, unroll));
    reduction_store_rows(r);
    close_tile(r, 0);
}
