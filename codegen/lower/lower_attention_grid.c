/* Attention on a GPU: every block makes the rows of one tile of lanes (lower_attention.c), its threads a piece of each
 * product.
 *
 *   parallel   a batch, and a block of lanes
 *     serial   blocks of the other side, its steps
 *       scores: operands go through shared memory; a thread keeps its piece of the tile [steps][lanes] in registers
 *       what is element-wise with them by the same thread
 *       softmax: a lane is the work of a few threads, which own every so many-th stretch of its steps
 *       sums [lanes][made], in registers, += weights x the other operand, from shared memory likewise
 *     times the reciprocal of the softmax's sum, and the stores
 *
 * Operands come by a few numbers of what is contracted (lower_attention_stage.c), and weights go to shared memory, and
 * come back for the softmax. With the matrix unit, which is for operands and weights of 16 bits, a tile of the operands
 * is there while the one behind it is on its way (lower_attention_panel.c); weights stay in the registers of the thread
 * that has their scores, and so does the softmax, whose maximum four threads find together.
 *
 * What is outside of the operands is neither read nor written; scores there weigh nothing. */
#include "codegen/lower/lower_attention_grid.h"
#include <math.h>

/* ---------------------------------------------------------------- element-wise work */

/* A step and a lane of the tile among the scores; loads of what is outside are masked from here on. */
static struct lower_pos score_at(struct lower_attention_grid *g, const struct lower_pos *step,
                                 const struct lower_pos *lane)
{
    struct lower_attention *a = g->a;
    struct lower_pos s = attention_plus(a->l, &a->step, step, 1), r = attention_plus(a->l, &a->first, lane, 1);
    a->l->cond = lower_and(a->l, a->l->cond, lower_pos_inside(a->l, &s, a->walked));
    a->l->cond = lower_and(a->l, a->l->cond, lower_pos_inside(a->l, &r, a->extent));
    return attention_among_scores(a, &s, &r);
}

/* Some of a thread's scores: one, or with the matrix unit two neighbours of a lane, a pair of weights. */
struct score {
    struct lower_attention_piece step, lane;
};

/* Opens the loops over them. */
static struct score open_scores(struct lower_attention_grid *g)
{
    struct score s;
    s.step.outer = lower_open(g->a->l, NEST_UNROLL, g->steps.groups);
    s.step.inner = lower_open(g->a->l, NEST_UNROLL, g->unit ? 1 : g->steps.group);
    s.lane = attention_open_piece(g, &g->lanes);
    attention_open_threads(g);
    return s;
}

static uint32_t neighbours(const struct lower_attention_grid *g) { return g->unit ? 2 : 1; }

static struct nest_index score_number(struct lower_attention_grid *g, const struct score *s, uint32_t neighbour)
{
    struct nest_index at = attention_sum(g, s->lane, &g->steps, s->step);
    at.offset += neighbour;
    return at;
}

/* Where one is among the scores; loads of what is outside are masked from here on. */
static struct lower_pos score_place(struct lower_attention_grid *g, const struct score *s, uint32_t neighbour,
                                    struct lower_pos *step, struct lower_pos *lane)
{
    *step = attention_place(g, &g->steps, s->step), *lane = attention_place(g, &g->lanes, s->lane);
    step->offset += neighbour;
    return score_at(g, step, lane);
}

static void give_products(struct lower_attention_grid *g, struct nest_index number)
{
    struct lower_attention *a = g->a;
    for (uint32_t i = 0; i < a->sources; i++)
        attention_give(a, a->source[i].product, nest_get(&a->l->b, g->scores[i], number));
}

static void forget(struct lower_attention *a)
{
    for (uint32_t i = 0; i < a->sources; i++) a->l->from[a->source[i].product] = (struct lower_override){0};
    a->l->from[a->score] = a->l->from[a->max] = a->l->from[a->total] = (struct lower_override){0};
    a->l->cond = 0;
}

struct weights {
    nest_value of[MOST_SINKS];
};

static struct weights weights_at(struct lower_attention_grid *g, const struct lower_pos *p)
{
    struct lower_attention *a = g->a;
    struct weights w;
    for (uint32_t i = 0; i < a->sinks; i++) {
        bool whole = g->unit && g->pieces[a->sink[i].tile] == 1;
        w.of[i] = attention_masked(g, lower_cast(a->l, lower_value(a->l, a->sink[i].from, p), whole ? g->kind : a->sum),
                                   0);
    }
    return w;
}

static void store_weights(struct lower_attention_grid *g, const struct weights *w, struct nest_index at)
{
    struct lower_attention *a = g->a;
    for (uint32_t i = 0; i < a->sinks; i++) nest_store(&a->l->b, a->sink[i].tile, at, w->of[i], 0);
}

/* The upper 16 bits of a float32, a bfloat16; what is left of it becomes the number: nothing of an infinite one. It is
 * not rounded, as the largest numbers would become infinite. */
static nest_value cut(struct lower_attention_grid *g, nest_value *number)
{
    struct lower *l = g->a->l;
    nest_value bits = nest_op(&l->b, OP_bitcast, IR_U32, number, 1);
    bits = lower_cast(l, lower_binary(l, OP_shr, IR_U32, bits, nest_number(&l->b, IR_U32, 16)), IR_U16);
    nest_value head = nest_op(&l->b, OP_bitcast, g->kind, &bits, 1), wide = lower_cast(l, head, g->a->sum);
    nest_value args[] = {lower_binary(l, OP_eq, IR_BOOL, wide, *number), nest_number(&l->b, g->a->sum, 0),
                         lower_binary(l, OP_sub, g->a->sum, *number, wide)};
    *number = nest_op(&l->b, OP_select, g->a->sum, args, 3);
    return head;
}

/* As a left operand of the matrix unit: its tiles have two of steps and two of lanes, lanes first. */
static void keep_weights(struct lower_attention_grid *g, struct weights *w, const struct score *s)
{
    struct lower_attention *a = g->a;
    for (uint32_t i = 0; i < a->sinks; i++) {
        uint32_t tile = a->sink[i].tile, pieces = g->pieces[tile];
        for (uint32_t piece = 0; piece < pieces; piece++) {
            struct lower_pos at = lower_pos_constant(piece * 2 * g->steps.groups);
            nest_value pair[2];
            for (int n = 0; n < 2; n++) pair[n] = pieces == 1 ? w[n].of[i] : cut(g, &w[n].of[i]);
            lower_pos_add_term(a->l, &at, s->step.outer, 2);
            lower_pos_add_term(a->l, &at, s->lane.outer, 1);
            nest_set(&a->l->b, g->weights[tile], lower_pos_index(a->l, &at), lower_halves(a->l, pair[0], pair[1]));
        }
    }
}

static void weigh(struct lower_attention_grid *g)
{
    attention_invert(g);
    uint32_t depth = g->a->l->b.depth;
    struct score s = open_scores(g);
    struct weights w[2];
    struct lower_pos step, lane;
    for (uint32_t i = 0; i < neighbours(g); i++) {
        give_products(g, score_number(g, &s, i));
        struct lower_pos p = score_place(g, &s, i, &step, &lane);
        w[i] = weights_at(g, &p);
        forget(g->a);
    }
    if (g->unit) keep_weights(g, w, &s);
    else store_weights(g, w, attention_in_rows(g->a->l, &step, g->row, &lane));
    attention_leave(g, depth);
    if (g->a->l->inverted) g->a->l->from[g->a->l->inverted] = (struct lower_override){0};
    g->a->l->inverted = 0;
}

/* ---------------------------------------------------------------- softmax */

/* The lanes whose softmax is a thread's, which of its registers are theirs, and its place beside the other threads of
 * a lane. The loop over them is opened. */
struct owned {
    struct lower_pos lane;
    struct nest_index number, place;
};

static struct owned open_owned(struct lower_attention_grid *g)
{
    struct lower *l = g->a->l;
    struct lower_attention_piece piece = attention_open_piece(g, &g->own);
    attention_open_threads(g);
    struct owned o = {.lane = attention_place(g, &g->own, piece)};
    struct lower_pos number = attention_zero(), place = o.lane;
    attention_add_number(g, &number, &g->own, piece, 1);
    attention_digit(g, &place, g->part_by, g->parts, g->a->width);
    o.number = lower_pos_index(l, &number), o.place = lower_pos_index(l, &place);
    return o;
}

/* One register of each lane, for the other threads of the lane. */
static void show(struct lower_attention_grid *g, uint32_t local, uint32_t reg)
{
    uint32_t depth = g->a->l->b.depth;
    struct owned o = open_owned(g);
    nest_store(&g->a->l->b, local, o.place, nest_get(&g->a->l->b, reg, o.number), 0);
    nest_close_to(&g->a->l->b, depth);
}

/* The maximum of a lane with what its threads found. Where all scores so far are -infinity, the exponentials are those
 * without a maximum: 0. */
static void raise_max(struct lower_attention_grid *g, uint32_t safe)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, a->max)->dtype;
    struct owned o = open_owned(g);
    nest_value before = lower_cast(l, nest_get(b, g->most, o.number), a->sum), now = before;
    for (int64_t i = 0; i < g->parts; i++) {
        struct lower_pos at = o.lane;
        at.offset = i * a->width;
        now = lower_binary(l, OP_max, a->sum, now, nest_load(b, a->safe_local, lower_pos_index(l, &at), 0));
    }
    nest_value less = lower_binary(l, OP_sub, a->sum, before, now), one = nest_number(b, a->sum, 1);
    nest_value same = lower_binary(l, OP_eq, IR_BOOL, before, now);
    nest_value scale[] = {same, one, nest_op(b, OP_exp, a->sum, &less, 1)};
    nest_value factor = nest_op(b, OP_select, a->sum, scale, 3);
    nest_value none = lower_binary(l, OP_eq, IR_BOOL, now, nest_number(b, a->sum, -INFINITY));
    nest_value finite[] = {none, nest_number(b, a->sum, 0), now};
    nest_set(b, safe, o.number, lower_cast(l, nest_op(b, OP_select, a->sum, finite, 3), dtype));
    nest_set(b, g->most, o.number, lower_cast(l, now, dtype));
    nest_set(b, g->total, o.number, lower_binary(l, OP_mul, a->sum, nest_get(b, g->total, o.number), factor));
    nest_store(b, a->max_local, o.place, lower_cast(l, now, dtype), 0);
    if (g->unit) nest_set(b, g->scale, o.number, factor);
    else nest_store(b, a->scale_local, o.place, factor, 0);
    nest_close_to(b, depth);
}

/* sums[lane] *= what they were summed with too small a maximum by. */
static void scale_sums(struct lower_attention_grid *g, uint32_t i)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_attention_piece lane = attention_open_piece(g, &g->lanes),
                                 column = attention_open_piece(g, &g->made[i]);
    attention_open_threads(g);
    struct lower_pos number = attention_zero(), place = attention_place(g, &g->lanes, lane);
    attention_add_number(g, &number, &g->lanes, lane, 1);
    struct nest_index at = attention_sum(g, lane, &g->made[i], column);
    nest_value factor = g->unit ? nest_get(&l->b, g->scale, lower_pos_index(l, &number))
                                : nest_load(&l->b, a->scale_local, lower_pos_index(l, &place), 0);
    nest_set(&l->b, g->sums[i], at, lower_binary(l, OP_mul, a->sum, nest_get(&l->b, g->sums[i], at), factor));
    nest_close_to(&l->b, depth);
}

/* The scores of the document, as the maximum is of them, where products are known: masked. */
static nest_value score_value(struct lower_attention_grid *g, const struct lower_pos *p)
{
    return attention_masked(g, lower_cast(g->a->l, lower_value(g->a->l, g->a->score, p), g->a->sum), -INFINITY);
}

/* Raises a register of maxima by what the maximum is of, where the score is z. */
static void find_max(struct lower_attention_grid *g, const struct lower_pos *p, nest_value z, uint32_t most,
                     struct nest_index at)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    attention_give(a, a->score, z);
    ir_value of_max = ir_get(l->f, a->max)->args[0];
    nest_value y = attention_masked(g, lower_cast(l, lower_value(l, of_max, p), a->sum), -INFINITY);
    nest_set(&l->b, most, at, lower_binary(l, OP_max, a->sum, nest_get(&l->b, most, at), y));
}

/* Adds to the total what it sums, where the score is z and the maximum safe; gives the weights. */
static struct weights exponentials(struct lower_attention_grid *g, const struct lower_pos *p, nest_value z,
                                   uint32_t safe, struct nest_index at)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    attention_give(a, a->score, z);
    attention_give(a, a->max, nest_get(b, safe, at));
    attention_give(a, a->total, nest_number(b, a->sum, 1));
    nest_value e = lower_cast(l, lower_value(l, ir_get(l->f, a->total)->args[0], p), a->sum);
    nest_set(b, g->total, at, lower_binary(l, OP_add, a->sum, nest_get(b, g->total, at), attention_masked(g, e, 0)));
    return weights_at(g, p);
}

static uint32_t maxima(struct lower_attention_grid *g)
{
    return nest_reg(&g->a->l->b, g->a->sum, (uint32_t)g->own.groups, true, -INFINITY);
}

static uint32_t safe_maxima(struct lower_attention_grid *g)
{
    enum ir_dtype dtype = (enum ir_dtype)ir_type(g->a->l->f, g->a->max)->dtype;
    return nest_reg(&g->a->l->b, dtype, (uint32_t)g->own.groups, true, 0);
}

/* With the matrix unit: a thread's scores are of lanes that it owns with its three neighbours. */
static void softmax_in_registers(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    uint32_t depth = b->depth, most = maxima(g), safe = safe_maxima(g);
    for (int turn = 0; turn < 2; turn++) {
        struct score s = open_scores(g);
        struct weights w[2];
        struct lower_pos step, lane, own = attention_zero();
        attention_add_number(g, &own, &g->own, s.lane, 1);
        struct nest_index at = lower_pos_index(a->l, &own);
        for (uint32_t i = 0; i < neighbours(g); i++) {
            struct nest_index number = score_number(g, &s, i);
            struct lower_pos p = score_place(g, &s, i, &step, &lane);
            if (turn) {
                w[i] = exponentials(g, &p, nest_get(b, g->scores[0], number), safe, at);
            } else {
                give_products(g, number);
                nest_value z = score_value(g, &p);
                nest_set(b, g->scores[0], number, z);
                find_max(g, &p, z, most, at);
            }
            forget(a);
        }
        if (turn) keep_weights(g, w, &s);
        attention_leave(g, depth);
        if (turn) break;
        show(g, a->safe_local, most);
        raise_max(g, safe);
    }
}

/* A step of a thread's stretch of its lane's; the loops over them are opened. */
static struct lower_pos open_stretch(struct lower_attention_grid *g, struct lower_pos *lane)
{
    int64_t stretch = g->a->steps / g->parts;
    struct lower_pos step = attention_var(g->a->l, lower_open(g->a->l, NEST_UNROLL, stretch), 1);
    attention_open_threads(g);
    attention_digit(g, &step, g->part_by, g->parts, stretch);
    *lane = attention_zero();
    attention_digit(g, lane, g->own.by, g->own.count, 1);
    return step;
}

/* Through the tile in shared memory. */
static void softmax_in_tile(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    struct score s = open_scores(g);
    struct lower_pos step, lane;
    give_products(g, score_number(g, &s, 0));
    struct lower_pos p = score_place(g, &s, 0, &step, &lane);
    nest_store(b, a->tile[0], attention_in_rows(l, &step, g->row, &lane), score_value(g, &p), 0);
    forget(a);
    attention_leave(g, depth);

    uint32_t most = maxima(g), safe = safe_maxima(g);
    for (int turn = 0; turn < 2; turn++) {
        step = open_stretch(g, &lane), p = score_at(g, &step, &lane);
        struct nest_index at = attention_in_rows(l, &step, g->row, &lane), zero = {0};
        nest_value z = nest_load(b, a->tile[0], at, 0);
        if (turn) {
            struct weights w = exponentials(g, &p, z, safe, zero);
            store_weights(g, &w, at);
        } else {
            find_max(g, &p, z, most, zero);
        }
        forget(a);
        attention_leave(g, depth);
        if (turn) break;
        show(g, a->safe_local, most);
        raise_max(g, safe);
    }
}

/* ---------------------------------------------------------------- the end */

/* Maximum and sum of the lanes; the reciprocals of these in shared memory, for what is divided by them. */
static void finish_stats(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    show(g, a->scale_local, g->total);
    struct lower_pos lane = attention_var(l, lower_open(l, NEST_VECTOR, a->width), 1);
    nest_value total = nest_number(b, a->sum, 0), most = nest_load(b, a->max_local, lower_pos_index(l, &lane), 0);
    for (int64_t i = 0; i < g->parts; i++) {
        struct lower_pos at = lane;
        at.offset = i * a->width;
        total = lower_binary(l, OP_add, a->sum, total, nest_load(b, a->scale_local, lower_pos_index(l, &at), 0));
    }
    nest_value inverse = lower_binary(l, OP_div, a->sum, nest_number(b, a->sum, 1), total);
    nest_store(b, a->sum_local, lower_pos_index(l, &lane), inverse, 0);
    struct lower_pos row = attention_plus(l, &a->first, &lane, 1), p = attention_zero();
    l->cond = lower_pos_inside(l, &row, a->extent);
    lower_pos_add(l, &p, &a->batch, a->extent);
    lower_pos_add(l, &p, &row, 1);
    attention_store(a, a->max, &p, most);
    attention_store(a, a->total, &p, total);
    attention_leave(g, depth);
}

/* A sum, `beside` numbers behind the one of its loops, and where it goes. */
static nest_value end_of(struct lower_attention_grid *g, uint32_t i, struct lower_attention_piece r,
                         struct lower_attention_piece c, int64_t beside, struct lower_pos *p)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    const struct lower_attention_sink *s = &a->sink[i];
    int64_t made = a->block[s->block].side.length;
    struct lower_pos lane = attention_place(g, &g->lanes, r), inner = attention_place(g, &g->made[i], c);
    struct nest_index number = attention_sum(g, r, &g->made[i], c);
    (s->left ? &inner : &lane)->offset += beside;
    number.offset += beside * (s->left ? 1 : attention_lane_number(g, &g->made[i]));
    struct lower_pos row = attention_plus(l, &a->first, &lane, 1);
    nest_value sum = nest_get(&l->b, g->sums[i], number);
    if (a->max)
        sum = lower_binary(l, OP_mul, a->sum, sum, nest_load(&l->b, a->sum_local, lower_pos_index(l, &lane), 0));
    l->cond = lower_and(l, lower_pos_inside(l, &row, a->extent), lower_pos_inside(l, &inner, made));
    *p = attention_zero();
    lower_pos_add(l, p, &a->batch, a->extent * made);
    lower_pos_add(l, p, &row, s->left ? made : 1);
    lower_pos_add(l, p, &inner, s->left ? 1 : a->extent);
    return sum;
}

/* Neighbours in memory together, so that their stores may be one access. */
static void finish_sums(struct lower_attention_grid *g, uint32_t i)
{
    struct lower *l = g->a->l;
    const struct lower_attention_sink *s = &g->a->sink[i];
    uint32_t depth = l->b.depth;
    struct lower_attention_part lanes = g->lanes, made = g->made[i];
    int64_t together = s->left ? made.group : lanes.group;
    struct lower_attention_piece r = {lower_open(l, NEST_UNROLL, lanes.groups), 0}, c;
    r.inner = lower_open(l, NEST_UNROLL, s->left ? lanes.group : 1);
    c.outer = lower_open(l, NEST_UNROLL, made.groups);
    c.inner = lower_open(l, NEST_UNROLL, s->left ? 1 : made.group);
    attention_open_threads(g);
    struct lower_pos p[ATTENTION_GROUP];
    nest_value sum[ATTENTION_GROUP], cond[ATTENTION_GROUP];
    for (int64_t k = 0; k < together; k++) sum[k] = end_of(g, i, r, c, k, &p[k]), cond[k] = l->cond, l->cond = 0;
    for (int64_t k = 0; k < together; k++) {
        l->cond = cond[k];
        attention_store(g->a, s->stored, &p[k], sum[k]);
    }
    attention_leave(g, depth);
}

/* ---------------------------------------------------------------- the steps */

/* The blocks of a batch one after the other: what they share is still in the second cache. */
static void open_blocks(struct lower_attention *a)
{
    struct lower *l = a->l;
    int64_t shape[] = {a->s.batch, a->blocks};
    struct lower_pos at[2];
    l->b.nest->parallel_extent = a->s.batch * a->blocks;
    struct lower_pos number = attention_var(l, lower_open(l, NEST_PARALLEL, l->b.nest->parallel_extent), 1);
    lower_pos_split(l, &number, 2, shape, at);
    a->batch = at[0], a->first = attention_zero();
    lower_pos_add(l, &a->first, &at[1], a->width);
}

static int64_t tiles_of(const struct lower_attention *a) { return (a->walked + a->steps - 1) / a->steps; }

static void walk_stages(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    a->step = attention_var(l, lower_open(l, NEST_SERIAL, tiles_of(a)), a->steps);
    nest_value live = attention_is_live(a, a->steps);
    if (live) nest_open_if(&l->b, live);
    for (uint32_t i = 0; i < a->sources; i++) attention_make_scores(g, i);
    if (a->max) softmax_in_tile(g);
    else weigh(g);
    for (uint32_t i = 0; i < a->sinks && a->max; i++) scale_sums(g, i);
    for (uint32_t i = 0; i < a->sinks; i++) attention_add_sums(g, i);
}

/* Whether a tile is made is known before it is on its way, and kept in a register (0: it always is). The copies of a
 * tile are a group, also of one that is left out. */
static void begin_tile(struct lower_attention_grid *g, const struct lower_pos *tile, uint32_t live)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    struct nest_index zero = {0};
    a->step = attention_zero();
    lower_pos_add(a->l, &a->step, tile, a->steps);
    if (live) {
        nest_value is = attention_is_live(a, a->steps);
        nest_set(b, live, zero, is);
        nest_open_if(b, is);
    }
    attention_move_steps(g, tile);
}

/* The tile behind tile `var` on its way, if there is one. */
static void begin_next(struct lower_attention_grid *g, nest_var var, uint32_t live)
{
    struct lower_attention *a = g->a;
    uint32_t depth = a->l->b.depth;
    if (tiles_of(a) > 1) {
        struct lower_pos next = lower_block_ahead(a->l, var, tiles_of(a), 1);
        begin_tile(g, &next, live);
        nest_close_to(&a->l->b, depth);
    }
    nest_copies(&a->l->b);
    a->step = attention_var(a->l, var, a->steps);
}

/* A softmax first finds the maxima, which say whether the tile behind is made. */
static void walk_panels(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    struct nest_index none = {0};
    struct lower_pos zero = attention_zero();
    uint32_t live = a->dead.conditions ? nest_reg(b, IR_BOOL, 1, false, 0) : 0, depth = b->depth;
    attention_move_lanes(g);
    begin_tile(g, &zero, live);
    nest_close_to(b, depth);
    nest_copies(b);
    attention_keep_lanes(g);
    nest_var var = lower_open(l, NEST_SERIAL, tiles_of(a));
    struct lower_pos tile = attention_var(l, var, 1);
    a->step = attention_var(l, var, a->steps);
    uint32_t inside = b->depth;
    nest_value now = live ? nest_get(b, live, none) : 0;
    nest_arrived(b, 0); /* all are done with the tile before, too */
    if (!a->max && g->stages > 1) begin_next(g, var, live);
    if (live) nest_open_if(b, now);
    for (uint32_t i = 0; i < a->sources; i++) attention_multiply_rows(g, i, &tile);
    if (a->max) softmax_in_registers(g);
    else weigh(g);
    for (uint32_t i = 0; i < a->sinks && a->max; i++) scale_sums(g, i);
    if (a->max && g->stages > 1) {
        nest_close_to(b, inside);
        begin_next(g, var, live);
        if (live) nest_open_if(b, now);
    }
    for (uint32_t i = 0; i < a->sinks; i++) attention_add_columns(g, i, &tile);
    if (g->stages > 1) return;
    nest_close_to(b, inside);
    nest_arrived(b, 0);
    begin_next(g, var, live);
}

void attention_grid(struct lower_attention *a)
{
    struct lower *l = a->l;
    struct lower_attention_grid g = {.a = a};
    if (a->across) BUG("contractions over rows and over columns in one group, for a GPU");
    attention_choose_shape(&g);
    open_blocks(a);
    attention_declare(&g);
    if (a->max) show(&g, a->max_local, g.most); /* lanes of a block whose every tile is left out */
    attention_find_dead(a);
    if (a->dead.conditions && a->rows && !a->max) a->least = attention_least_max(a, &a->first, a->width);
    uint32_t depth = l->b.depth;
    (g.unit ? walk_panels : walk_stages)(&g);
    nest_close_to(&l->b, depth);
    if (a->max) finish_stats(&g);
    for (uint32_t i = 0; i < a->sinks; i++) finish_sums(&g, i);
    nest_close_to(&l->b, 0);
}
