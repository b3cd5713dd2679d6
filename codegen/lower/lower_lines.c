/* Lines along one dimension, side by side (lower_lines.h). */
#include "codegen/lower/lower_lines.h"

enum { LEAST_LINES = 4 };

static int64_t extent_of(const struct lower_lines *c, uint32_t axis, uint32_t part)
{
    return c->l->axes[axis].part[part];
}

int64_t lower_lines_step(const struct lower_lines *c, uint32_t axis, uint32_t part)
{
    return lower_axis_stride(&c->l->axes[axis], part) * c->stride[axis];
}

struct nest_index lower_lines_number(struct lower *l, int64_t offset, nest_var var, int64_t scale)
{
    struct lower_pos at = lower_pos_constant(offset);
    lower_pos_add_term(l, &at, var, scale);
    return lower_pos_index(l, &at);
}

/* Which lines go side by side: those behind the dimension, or, where there are none, those of the part before it of
 * which the fewest lanes stay empty. */
void lower_lines_choose(struct lower_lines *c, struct lower *l, int64_t most)
{
    int64_t shape[3], lanes = l->lanes;
    *c = (struct lower_lines){.l = l, .node = ir_get(l->f, l->group->root)};
    lower_around(&c->node->type, c->node->attr[0].v[0], shape);
    c->extent = shape[LINES_ALONG];
    c->stride[LINES_OUTER] = shape[1] * shape[2], c->stride[LINES_ALONG] = shape[2], c->stride[LINES_INNER] = 1;
    for (uint32_t a = 0; a < 3 && l->axis_count < 3; a++)
        l->axes[a] = (struct lower_axis){.extent = shape[a], .parts = 1, .part = {shape[a]}};
    l->axis_count = 3;
    c->axis = shape[LINES_INNER] > 1 ? LINES_INNER : LINES_OUTER;
    c->part = l->axes[c->axis].parts - 1;
    for (uint32_t p = 0; c->axis == LINES_OUTER && p < l->axes[LINES_OUTER].parts; p++) {
        int64_t best = extent_of(c, LINES_OUTER, c->part), here = extent_of(c, LINES_OUTER, p);
        int64_t now = (best + lanes - 1) / lanes * lanes, then = (here + lanes - 1) / lanes * lanes;
        if (here * now > best * then) c->part = p;
    }
    int64_t all = extent_of(c, c->axis, c->part);
    c->turned = c->axis == LINES_OUTER && !l->target->cuda && all >= LEAST_LINES && c->extent >= LEAST_LINES;
    c->vectors = c->axis == LINES_INNER;
    c->lines = !c->turned && !c->vectors ? 1 : all < lanes ? all : lanes;
    c->copies = 1;
    int64_t vectors = (all + c->lines - 1) / c->lines;
    for (int64_t n = most; n > 1 && c->vectors && c->copies == 1; n--)
        if (vectors % n == 0) c->copies = n;
    c->sticks_out = all % (c->lines * c->copies) != 0;
}

/* One of the loops in parallel: over pieces of the chosen part, or over another part. */
struct lower_pos lower_lines_open(struct lower_lines *c)
{
    struct lower *l = c->l;
    struct lower_pos at = lower_pos_constant(0);
    static const uint32_t axes[] = {LINES_OUTER, LINES_INNER};
    uint32_t axis = c->axis, part = c->part;
    int64_t side_by_side = c->lines * c->copies, pieces = (extent_of(c, axis, part) + side_by_side - 1) / side_by_side,
            largest = pieces;
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t p = 0; p < l->axes[axes[a]].parts; p++) {
            bool chosen = axes[a] == c->axis && p == c->part;
            if (chosen || extent_of(c, axes[a], p) <= largest) continue;
            axis = axes[a], part = p, largest = extent_of(c, axes[a], p);
        }
    for (uint32_t turn = 0; turn < 2; turn++) /* the parallel one first */
        for (uint32_t a = 0; a < 2; a++)
            for (uint32_t p = 0; p < l->axes[axes[a]].parts; p++) {
                bool chosen = axes[a] == c->axis && p == c->part, parallel = axes[a] == axis && p == part;
                int64_t unit = chosen ? side_by_side : 1;
                if (parallel != (turn == 0)) continue;
                nest_var var = lower_open_piece(l, parallel ? NEST_PARALLEL : NEST_SERIAL, axes[a], p,
                                                chosen ? pieces : extent_of(c, axes[a], p), unit);
                lower_pos_add_term(l, &at, var, unit * lower_lines_step(c, axes[a], p));
            }
    l->b.nest->parallel_extent = largest;
    return at;
}

static nest_value mask_of(struct lower_lines *c, const struct lower_pos *at)
{
    return c->sticks_out ? lower_mask_tile(c->l, at, c->axis, c->part, 0, extent_of(c, c->axis, c->part)) : 0;
}

nest_var lower_lines_vectors(struct lower_lines *c, struct lower_pos *at, nest_value *mask)
{
    struct lower *l = c->l;
    nest_var copy = lower_open_piece(l, NEST_UNROLL, c->axis, c->part, c->copies, c->lines);
    lower_pos_add_term(l, at, copy, c->lines * lower_lines_step(c, c->axis, c->part));
    if (c->vectors) {
        nest_var lane = lower_open_piece(l, NEST_VECTOR, c->axis, c->part, c->lines, 1);
        lower_pos_add_term(l, at, lane, lower_lines_step(c, c->axis, c->part));
    }
    *mask = mask_of(c, at);
    return copy;
}

static nest_var lower_lines_tile(struct lower_lines *c, struct lower_pos *at, int64_t count, nest_value *mask)
{
    struct lower *l = c->l;
    uint32_t last = l->axes[LINES_ALONG].parts - 1;
    nest_var line = lower_open_piece(l, NEST_UNROLL, c->axis, c->part, c->lines, 1);
    lower_pos_add_term(l, at, line, lower_lines_step(c, c->axis, c->part));
    *mask = mask_of(c, at);
    nest_var lane = lower_open_piece(l, NEST_VECTOR, LINES_ALONG, last, count, 1);
    lower_pos_add_term(l, at, lane, lower_lines_step(c, LINES_ALONG, last));
    return line;
}

nest_value lower_lines_operand(struct lower_lines *c, uint32_t which, const struct lower_pos *at, enum ir_dtype dtype)
{
    return lower_cast(c->l, lower_value(c->l, c->node->args[which], at), dtype);
}

uint32_t lower_lines_load(struct lower_lines *c, const struct lower_pos *from, int64_t count, uint32_t which,
                          enum ir_dtype dtype)
{
    struct lower *l = c->l;
    uint32_t depth = l->b.depth, tile = nest_reg(&l->b, dtype, l->lanes, true, 0);
    nest_value mask;
    struct lower_pos at = *from;
    nest_var line = lower_lines_tile(c, &at, count, &mask);
    nest_set(&l->b, tile, lower_lines_number(l, 0, line, 1), lower_lines_operand(c, which, &at, dtype));
    l->tile_mask = 0;
    nest_close_to(&l->b, depth);
    nest_turn(&l->b, tile, l->lanes);
    return tile;
}

void lower_lines_store(struct lower_lines *c, nest_value is, const struct lower_pos *at, nest_value mask)
{
    struct lower *l = c->l;
    l->from[l->group->root] = (struct lower_override){.source = FROM_VALUE,
                                                      .value = lower_cast(l, is, (enum ir_dtype)c->node->type.dtype)};
    lower_store_outputs(l, lower_outputs(l, LOWER_ALL_LEVELS, at), at, mask);
    l->tile_mask = 0;
}

void lower_lines_store_tile(struct lower_lines *c, uint32_t tile, const struct lower_pos *from, int64_t count)
{
    struct lower *l = c->l;
    uint32_t depth = l->b.depth;
    nest_value mask;
    struct lower_pos at = *from;
    nest_turn(&l->b, tile, l->lanes);
    nest_var line = lower_lines_tile(c, &at, count, &mask);
    lower_lines_store(c, nest_get(&l->b, tile, lower_lines_number(l, 0, line, 1)), &at, mask);
    nest_close_to(&l->b, depth);
}
