/* Running results along one dimension, of lines side by side (lower_lines.h), with what has come before in registers.
 *
 * Sums, products and extrema go by pieces of 16 elements, whatever the vectors: each is combined from its first element
 * on, and the result before the piece with each of these. So pieces do not wait for one another, errors of rounding
 * grow with their number, and the order is the same however lines are walked, and on all machines. */
#include "codegen/lower/lower_lines.h"
#include <math.h>

enum { PIECE = 16, MOST_VECTORS = 4 };

struct cumulate {
    struct lower_lines lines;
    enum ir_cumulate kind;
    enum ir_dtype dtype; /* in which it is computed */
    bool reverse;
    uint32_t carry, run; /* registers: the result before the piece, and within it */
};

static bool by_pieces(const struct cumulate *c) { return c->kind < IR_CUMULATE_LOGSUMEXP; }

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
    struct lower *l = c->lines.l;
    uint32_t to = by_pieces(c) ? c->run : c->carry;
    nest_value before = nest_get(&l->b, to, at), now;
    if (by_pieces(c)) now = lower_binary(l, op_of(c), c->dtype, before, x);
    else if (c->kind == IR_CUMULATE_LOGSUMEXP) now = log_of_sum(l, c->dtype, before, x);
    else now = nest_fma(&l->b, c->dtype, before, y, x);
    nest_set(&l->b, to, at, now);
    return by_pieces(c) ? lower_binary(l, op_of(c), c->dtype, nest_get(&l->b, c->carry, at), now) : now;
}

/* ---------------------------------------------------------------- pieces */

static void walk(struct cumulate *c, const struct lower_pos *from, int64_t count)
{
    struct lower *l = c->lines.l;
    uint32_t depth = l->b.depth, part = l->axes[LINES_ALONG].parts - 1;
    int64_t by = lower_lines_step(&c->lines, LINES_ALONG, part);
    nest_var var = lower_open_piece(l, NEST_SERIAL, LINES_ALONG, part, count, 1);
    nest_value mask;
    struct lower_pos at = *from;
    at.offset += c->reverse ? (count - 1) * by : 0;
    lower_pos_add_term(l, &at, var, c->reverse ? -by : by);
    struct nest_index copy = lower_lines_number(l, 0, lower_lines_vectors(&c->lines, &at, &mask), 1);
    nest_value x = lower_lines_operand(&c->lines, 0, &at, c->dtype);
    nest_value y = c->kind == IR_CUMULATE_LINEAR ? lower_lines_operand(&c->lines, 1, &at, c->dtype) : 0;
    lower_lines_store(&c->lines, step(c, copy, x, y), &at, mask);
    nest_close_to(&l->b, depth);
}

static void walk_turned(struct cumulate *c, const struct lower_pos *from, int64_t count)
{
    struct lower *l = c->lines.l;
    bool linear = c->kind == IR_CUMULATE_LINEAR;
    uint32_t depth = l->b.depth, tile = lower_lines_load(&c->lines, from, count, 0, c->dtype),
             factors = linear ? lower_lines_load(&c->lines, from, count, 1, c->dtype) : 0;
    nest_var var = lower_open(l, NEST_UNROLL, count);
    lower_open(l, NEST_VECTOR, c->lines.lines);
    struct nest_index at = lower_lines_number(l, c->reverse ? count - 1 : 0, var, c->reverse ? -1 : 1), one = {0};
    nest_value y = linear ? nest_get(&l->b, factors, at) : 0;
    nest_set(&l->b, tile, at, step(c, one, nest_get(&l->b, tile, at), y));
    nest_close_to(&l->b, depth);
    lower_lines_store_tile(&c->lines, tile, from, count);
}

/* What the piece has come to is what the next one goes on from. */
static void carry_on(struct cumulate *c)
{
    struct lower *l = c->lines.l;
    uint32_t depth = l->b.depth;
    struct nest_index at = lower_lines_number(l, 0, lower_open(l, NEST_UNROLL, c->lines.copies), 1);
    if (c->lines.vectors || c->lines.turned) lower_open(l, NEST_VECTOR, c->lines.lines);
    nest_value before = nest_get(&l->b, c->carry, at), all = nest_get(&l->b, c->run, at);
    nest_set(&l->b, c->carry, at, lower_binary(l, op_of(c), c->dtype, before, all));
    nest_close_to(&l->b, depth);
}

static uint32_t new_registers(struct cumulate *c)
{
    bool lanes = c->lines.vectors || c->lines.turned;
    return nest_reg(&c->lines.l->b, c->dtype, (uint32_t)c->lines.copies, lanes, first_of(c));
}

static void walk_piece(struct cumulate *c, const struct lower_pos *from, int64_t count)
{
    struct lower *l = c->lines.l;
    int64_t size = c->lines.turned ? (int64_t)l->lanes : count,
            by = lower_lines_step(&c->lines, LINES_ALONG, l->axes[LINES_ALONG].parts - 1);
    if (by_pieces(c)) c->run = new_registers(c);
    for (int64_t done = 0; done < count; done += size) {
        int64_t here = count - done < size ? count - done : size;
        struct lower_pos at = *from;
        at.offset += (c->reverse ? count - done - here : done) * by;
        if (c->lines.turned) walk_turned(c, &at, here);
        else walk(c, &at, here);
    }
    if (by_pieces(c)) carry_on(c);
}

/* Pieces from the first element on, or from the last one back; then what is left. */
static void walk_lines(struct cumulate *c, struct lower_pos at)
{
    struct lower *l = c->lines.l;
    const struct lower_axis *axis = &l->axes[LINES_ALONG];
    uint32_t last = axis->parts - 1;
    int64_t pieces = axis->part[last] / PIECE, rest = axis->part[last] % PIECE, by;
    c->carry = new_registers(c);
    for (uint32_t p = 0; p < last; p++) {
        nest_var var = lower_open_part(l, NEST_SERIAL, LINES_ALONG, p);
        by = lower_lines_step(&c->lines, LINES_ALONG, p);
        at.offset += c->reverse ? (axis->part[p] - 1) * by : 0;
        lower_pos_add_term(l, &at, var, c->reverse ? -by : by);
    }
    struct lower_pos piece = at;
    uint32_t inside = l->b.depth;
    by = lower_lines_step(&c->lines, LINES_ALONG, last);
    if (pieces) {
        nest_var var = lower_open_piece(l, NEST_SERIAL, LINES_ALONG, last, pieces, PIECE);
        piece.offset += c->reverse ? (axis->part[last] - PIECE) * by : 0;
        lower_pos_add_term(l, &piece, var, c->reverse ? -PIECE * by : PIECE * by);
        walk_piece(c, &piece, PIECE);
        nest_close_to(&l->b, inside);
    }
    piece = at;
    piece.offset += c->reverse ? 0 : pieces * PIECE * by;
    if (rest) walk_piece(c, &piece, rest);
    nest_close_to(&l->b, 0);
}

void lower_cumulate(struct lower *l)
{
    struct cumulate c;
    lower_lines_choose(&c.lines, l, MOST_VECTORS);
    enum ir_dtype dtype = (enum ir_dtype)c.lines.node->type.dtype;
    c.kind = (enum ir_cumulate)c.lines.node->attr[1].v[0];
    c.reverse = c.lines.node->attr[2].v[0] != 0;
    c.dtype = dtype == IR_BF16 || dtype == IR_F16 ? IR_F32 : dtype;
    walk_lines(&c, lower_lines_open(&c.lines));
    double tensors = (double)(l->group->outputs.count + l->group->inputs.count);
    l->b.nest->work = LOWER_WORK_OF_COST * (l->cost + 2 * tensors) * (double)ir_type_elements(&c.lines.node->type);
}
