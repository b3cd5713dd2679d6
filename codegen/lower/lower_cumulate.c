/* Running results along one dimension. Several lines along it are walked side by side, a line in each lane, with what
 * has come before in registers. Where lines lie beside each other in memory, lanes load them as they are; lines that
 * lie one behind the other are loaded as tiles of lines by elements, turned in registers, walked, and turned back. Too
 * few lines for a tile are walked one by one.
 *
 * Sums, products and extrema go by pieces of 16 elements, whatever the vectors: each is combined from its first element
 * on, and the result before the piece with each of these. So pieces do not wait for one another, errors of rounding
 * grow with their number, and the order is the same for all three ways of walking and on all machines. */
#include "codegen/lower/lower.h"
#include <math.h>

enum { PIECE = 16, LEAST_LINES = 4, MOST_VECTORS = 4 };

/* Lines are numbered by axes 0 (before the dimension) and 2 (behind it); axis 1 is the dimension itself. */
enum { OUTER, ALONG, INNER };

struct cumulate {
    struct lower *l;
    const struct ir_node *node;
    enum ir_cumulate kind;
    enum ir_dtype dtype; /* in which it is computed */
    bool reverse, turned, vectors;
    int64_t stride[3];
    uint32_t axis, part;   /* of the lines that are walked side by side */
    int64_t lines, copies; /* of one vector; vectors of them */
    bool sticks_out;
    uint32_t carry, run; /* registers: the result before the piece, and within it */
};

static int64_t extent_of(const struct cumulate *c, uint32_t axis, uint32_t part) { return c->l->axes[axis].part[part]; }
static int64_t step_of(const struct cumulate *c, uint32_t axis, uint32_t part)
{
    return lower_axis_stride(&c->l->axes[axis], part) * c->stride[axis];
}
static bool by_pieces(const struct cumulate *c) { return c->kind < IR_CUMULATE_LOGSUMEXP; }

static struct nest_index element(struct lower *l, int64_t offset, nest_var var, int64_t scale)
{
    struct lower_pos at = lower_pos_constant(offset);
    lower_pos_add_term(l, &at, var, scale);
    return lower_pos_index(l, &at);
}

/* ---------------------------------------------------------------- one step */

static enum ir_op op_of(const struct cumulate *c)
{
    static const enum ir_op ops[] = {OP_add, OP_mul, OP_max, OP_min};
    return ops[c->kind];
}

static double first_of(const struct cumulate *c)
{
    switch (c->kind) {
    case IR_CUMULATE_PROD: return 1;
    case IR_CUMULATE_MAX: return ir_dtype_least(c->dtype);
    case IR_CUMULATE_MIN: return ir_dtype_greatest(c->dtype);
    case IR_CUMULATE_LOGSUMEXP: return -INFINITY;
    default: return 0;
    }
}

/* most + log1p(e**(least - most)), but for infinities of one sign and NaN. */
static nest_value log_of_sum(struct lower *l, enum ir_dtype dtype, nest_value x, nest_value y)
{
    nest_value apart = lower_binary(l, OP_sub, dtype, x, y), most = lower_binary(l, OP_max, dtype, x, y);
    nest_value less = lower_binary(l, OP_sub, dtype, lower_binary(l, OP_min, dtype, x, y), most);
    nest_value sum = nest_op(&l->b, OP_exp, dtype, &less, 1);
    sum = lower_binary(l, OP_add, dtype, most, nest_op(&l->b, OP_log1p, dtype, &sum, 1));
    nest_value choice[] = {lower_binary(l, OP_ne, IR_BOOL, apart, apart), lower_binary(l, OP_add, dtype, x, y), sum};
    return nest_op(&l->b, OP_select, dtype, choice, 3);
}

/* The result at the next element of the lines in these registers. */
static nest_value step(struct cumulate *c, struct nest_index at, nest_value x, nest_value y)
{
    struct lower *l = c->l;
    uint32_t to = by_pieces(c) ? c->run : c->carry;
    nest_value before = nest_get(&l->b, to, at), now;
    if (by_pieces(c)) now = lower_binary(l, op_of(c), c->dtype, before, x);
    else if (c->kind == IR_CUMULATE_LOGSUMEXP) now = log_of_sum(l, c->dtype, before, x);
    else now = nest_fma(&l->b, c->dtype, before, y, x);
    nest_set(&l->b, to, at, now);
    return by_pieces(c) ? lower_binary(l, op_of(c), c->dtype, nest_get(&l->b, c->carry, at), now) : now;
}

static nest_value operand(struct cumulate *c, uint32_t i, const struct lower_pos *at)
{
    return lower_cast(c->l, lower_value(c->l, c->node->args[i], at), c->dtype);
}

static void store(struct cumulate *c, nest_value is, const struct lower_pos *at, nest_value mask)
{
    struct lower *l = c->l;
    l->from[l->group->root] = (struct lower_override){.source = FROM_VALUE,
                                                      .value = lower_cast(l, is, (enum ir_dtype)c->node->type.dtype)};
    lower_store_outputs(l, lower_outputs(l, LOWER_ALL_LEVELS, at), at, mask);
}

/* ---------------------------------------------------------------- lines side by side */

/* Opens the vectors of lines, and their lanes. */
static nest_var open_copies(struct cumulate *c, struct lower_pos *at)
{
    struct lower *l = c->l;
    nest_var copy = lower_open_piece(l, NEST_UNROLL, c->axis, c->part, c->copies, c->lines);
    lower_pos_add_term(l, at, copy, c->lines * step_of(c, c->axis, c->part));
    if (c->vectors) {
        nest_var lane = lower_open_piece(l, NEST_VECTOR, c->axis, c->part, c->lines, 1);
        lower_pos_add_term(l, at, lane, step_of(c, c->axis, c->part));
    }
    return copy;
}

static void walk(struct cumulate *c, const struct lower_pos *from, int64_t count)
{
    struct lower *l = c->l;
    uint32_t depth = l->b.depth, part = l->axes[ALONG].parts - 1;
    nest_var var = lower_open_piece(l, NEST_SERIAL, ALONG, part, count, 1);
    struct lower_pos at = *from;
    at.offset += c->reverse ? (count - 1) * step_of(c, ALONG, part) : 0;
    lower_pos_add_term(l, &at, var, c->reverse ? -step_of(c, ALONG, part) : step_of(c, ALONG, part));
    struct nest_index copy = element(l, 0, open_copies(c, &at), 1);
    nest_value mask = c->sticks_out ? lower_mask_tile(l, &at, c->axis, c->part, 0, extent_of(c, c->axis, c->part)) : 0;
    nest_value x = operand(c, 0, &at), y = c->kind == IR_CUMULATE_LINEAR ? operand(c, 1, &at) : 0;
    store(c, step(c, copy, x, y), &at, mask);
    l->tile_mask = 0;
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- tiles that are turned */

/* Opens the lines of a tile and the elements of each. */
static nest_var open_lines(struct cumulate *c, struct lower_pos *at, int64_t count, nest_value *mask)
{
    struct lower *l = c->l;
    uint32_t last = l->axes[ALONG].parts - 1;
    nest_var line = lower_open_piece(l, NEST_UNROLL, c->axis, c->part, c->lines, 1);
    lower_pos_add_term(l, at, line, step_of(c, c->axis, c->part));
    *mask = c->sticks_out ? lower_mask_tile(l, at, c->axis, c->part, 0, extent_of(c, c->axis, c->part)) : 0;
    nest_var lane = lower_open_piece(l, NEST_VECTOR, ALONG, last, count, 1);
    lower_pos_add_term(l, at, lane, step_of(c, ALONG, last));
    return line;
}

static uint32_t load_tile(struct cumulate *c, const struct lower_pos *from, int64_t count, uint32_t which)
{
    struct lower *l = c->l;
    uint32_t depth = l->b.depth, tile = nest_reg(&l->b, c->dtype, l->lanes, true, 0);
    nest_value mask;
    struct lower_pos at = *from;
    nest_var line = open_lines(c, &at, count, &mask);
    nest_set(&l->b, tile, element(l, 0, line, 1), operand(c, which, &at));
    l->tile_mask = 0;
    nest_close_to(&l->b, depth);
    nest_turn(&l->b, tile, l->lanes);
    return tile;
}

static void turn_tile(struct cumulate *c, const struct lower_pos *from, int64_t count)
{
    struct lower *l = c->l;
    bool linear = c->kind == IR_CUMULATE_LINEAR;
    uint32_t depth = l->b.depth, tile = load_tile(c, from, count, 0),
             factors = linear ? load_tile(c, from, count, 1) : 0;
    nest_var var = lower_open(l, NEST_UNROLL, count);
    lower_open(l, NEST_VECTOR, c->lines);
    struct nest_index at = element(l, c->reverse ? count - 1 : 0, var, c->reverse ? -1 : 1), one = {0};
    nest_value y = linear ? nest_get(&l->b, factors, at) : 0;
    nest_set(&l->b, tile, at, step(c, one, nest_get(&l->b, tile, at), y));
    nest_close_to(&l->b, depth);
    nest_turn(&l->b, tile, l->lanes);
    nest_value mask;
    struct lower_pos to = *from;
    nest_var line = open_lines(c, &to, count, &mask);
    store(c, nest_get(&l->b, tile, element(l, 0, line, 1)), &to, mask);
    l->tile_mask = 0;
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- all of it */

/* What the piece has come to is what the next one goes on from. */
static void carry_on(struct cumulate *c)
{
    struct lower *l = c->l;
    uint32_t depth = l->b.depth;
    struct nest_index at = element(l, 0, lower_open(l, NEST_UNROLL, c->copies), 1);
    if (c->vectors || c->turned) lower_open(l, NEST_VECTOR, c->lines);
    nest_value before = nest_get(&l->b, c->carry, at), all = nest_get(&l->b, c->run, at);
    nest_set(&l->b, c->carry, at, lower_binary(l, op_of(c), c->dtype, before, all));
    nest_close_to(&l->b, depth);
}

static void walk_piece(struct cumulate *c, const struct lower_pos *from, int64_t count)
{
    struct lower *l = c->l;
    int64_t lanes = l->lanes, size = c->turned ? lanes : count, by = step_of(c, ALONG, l->axes[ALONG].parts - 1);
    if (by_pieces(c)) c->run = nest_reg(&l->b, c->dtype, (uint32_t)c->copies, c->vectors || c->turned, first_of(c));
    for (int64_t done = 0; done < count; done += size) {
        int64_t here = count - done < size ? count - done : size;
        struct lower_pos at = *from;
        at.offset += (c->reverse ? count - done - here : done) * by;
        if (c->turned) turn_tile(c, &at, here);
        else walk(c, &at, here);
    }
    if (by_pieces(c)) carry_on(c);
}

/* Pieces from the first element on, or from the last one back; then what is left. */
static void walk_lines(struct cumulate *c, struct lower_pos at)
{
    struct lower *l = c->l;
    const struct lower_axis *axis = &l->axes[ALONG];
    uint32_t last = axis->parts - 1, depth = l->b.depth;
    int64_t count = PIECE, pieces = axis->part[last] / count, rest = axis->part[last] % count;
    c->carry = nest_reg(&l->b, c->dtype, (uint32_t)c->copies, c->vectors || c->turned, first_of(c));
    for (uint32_t p = 0; p < last; p++) {
        nest_var var = lower_open_part(l, NEST_SERIAL, ALONG, p);
        int64_t by = step_of(c, ALONG, p);
        at.offset += c->reverse ? (axis->part[p] - 1) * by : 0;
        lower_pos_add_term(l, &at, var, c->reverse ? -by : by);
    }
    struct lower_pos piece = at;
    uint32_t inside = l->b.depth;
    if (pieces) {
        nest_var var = lower_open_piece(l, NEST_SERIAL, ALONG, last, pieces, count);
        int64_t by = count * step_of(c, ALONG, last);
        piece.offset += c->reverse ? (axis->part[last] - count) * step_of(c, ALONG, last) : 0;
        lower_pos_add_term(l, &piece, var, c->reverse ? -by : by);
        walk_piece(c, &piece, count);
        nest_close_to(&l->b, inside);
    }
    piece = at;
    piece.offset += c->reverse ? 0 : pieces * count * step_of(c, ALONG, last);
    if (rest) walk_piece(c, &piece, rest);
    nest_close_to(&l->b, depth);
}

/* Which lines go side by side: those behind the dimension, or, where there are none, those of the part before it of
 * which the fewest lanes stay empty. */
static void choose_lines(struct cumulate *c)
{
    const struct lower *l = c->l;
    int64_t lanes = l->lanes, all, inner = l->axes[INNER].extent;
    c->axis = inner > 1 ? INNER : OUTER;
    c->part = l->axes[c->axis].parts - 1;
    for (uint32_t p = 0; inner == 1 && p < l->axes[OUTER].parts; p++) {
        int64_t most = extent_of(c, OUTER, c->part), here = extent_of(c, OUTER, p);
        int64_t now = (most + lanes - 1) / lanes * lanes, then = (here + lanes - 1) / lanes * lanes;
        if (here * now > most * then) c->part = p;
    }
    all = extent_of(c, c->axis, c->part);
    c->turned = inner == 1 && !l->target->cuda && all >= LEAST_LINES && l->axes[ALONG].extent >= LEAST_LINES;
    c->vectors = inner > 1;
    c->lines = !c->turned && !c->vectors ? 1 : all < lanes ? all : lanes;
    c->copies = 1;
    int64_t vectors = (all + c->lines - 1) / c->lines;
    for (int64_t n = MOST_VECTORS; n > 1 && c->vectors && c->copies == 1; n--)
        if (vectors % n == 0) c->copies = n;
    c->sticks_out = all % (c->lines * c->copies) != 0;
}

/* The loops over all lines, one of them in parallel: pieces of the chosen part, and the other parts. */
static void open_lines_of_all(struct cumulate *c, struct lower_pos *at)
{
    struct lower *l = c->l;
    static const uint32_t axes[] = {OUTER, INNER};
    uint32_t axis = c->axis, part = c->part;
    int64_t side_by_side = c->lines * c->copies, pieces = (extent_of(c, axis, part) + side_by_side - 1) / side_by_side,
            largest = pieces;
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t p = 0; p < l->axes[axes[a]].parts; p++) {
            bool chosen = axes[a] == c->axis && p == c->part;
            if (chosen || l->axes[axes[a]].part[p] <= largest) continue;
            axis = axes[a], part = p, largest = l->axes[axes[a]].part[p];
        }
    for (uint32_t turn = 0; turn < 2; turn++) /* the parallel one first */
        for (uint32_t a = 0; a < 2; a++)
            for (uint32_t p = 0; p < l->axes[axes[a]].parts; p++) {
                bool chosen = axes[a] == c->axis && p == c->part, parallel = axes[a] == axis && p == part;
                int64_t unit = chosen ? side_by_side : 1;
                if (parallel != (turn == 0)) continue;
                nest_var var = lower_open_piece(l, parallel ? NEST_PARALLEL : NEST_SERIAL, axes[a], p,
                                                chosen ? pieces : l->axes[axes[a]].part[p], unit);
                lower_pos_add_term(l, at, var, unit * step_of(c, axes[a], p));
            }
    l->b.nest->parallel_extent = largest;
}

void lower_cumulate(struct lower *l)
{
    struct cumulate c = {.l = l, .node = ir_get(l->f, l->group->root)};
    enum ir_dtype dtype = (enum ir_dtype)c.node->type.dtype;
    int64_t shape[3];
    c.kind = (enum ir_cumulate)c.node->attr[1].v[0];
    c.reverse = c.node->attr[2].v[0] != 0;
    c.dtype = dtype == IR_BF16 || dtype == IR_F16 ? IR_F32 : dtype;
    lower_around(&c.node->type, c.node->attr[0].v[0], shape);
    c.stride[OUTER] = shape[1] * shape[2], c.stride[ALONG] = shape[2], c.stride[INNER] = 1;
    for (uint32_t a = 0; a < 3 && l->axis_count < 3; a++)
        l->axes[a] = (struct lower_axis){.extent = shape[a], .parts = 1, .part = {shape[a]}};
    l->axis_count = 3;
    choose_lines(&c);
    struct lower_pos at = lower_pos_constant(0);
    open_lines_of_all(&c, &at);
    walk_lines(&c, at);
    nest_close_to(&l->b, 0);
    l->b.nest->work = LOWER_WORK_OF_COST *
                      (l->cost + 2.0 * (double)(l->group->outputs.count + l->group->inputs.count)) *
                      (double)(shape[0] * shape[1] * shape[2]);
}
