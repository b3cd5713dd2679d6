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

enum {
    DOWN = 16,  /* threads along the lanes */
    ACROSS = 8, /* and along steps, or what is made */
    GROUP = 4,  /* neighbours of a thread at most: a load of 16 bytes */
    PADDING = 4 /* between the rows of shared memory: other banks */,
    UNIT_ACROSS = 4,
    PIECES = 3, /* of 8 bits: those of float32 */
    ROUNDED_PIECES = 2,
    REGISTERS = 128, /* for scores and sums; the rest is for what is on its way */
    UNIT_REGISTERS = 160
};

/* Lanes and steps of a tile, the largest first: operands are read the less often. */
static const struct {
    int64_t lanes, steps;
} tiles[] = {{64, 64}, {64, 32}, {32, 64}, {32, 32}};

static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

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
    struct lower_pos p[GROUP];
    nest_value sum[GROUP], cond[GROUP];
    for (int64_t k = 0; k < together; k++) sum[k] = end_of(g, i, r, c, k, &p[k]), cond[k] = l->cond, l->cond = 0;
    for (int64_t k = 0; k < together; k++) {
        l->cond = cond[k];
        attention_store(g->a, s->stored, &p[k], sum[k]);
    }
    attention_leave(g, depth);
}

/* ---------------------------------------------------------------- the shape */

/* What a value was before it was made wider. */
static ir_value narrow(const struct lower *l, ir_value v)
{
    const struct ir_node *n = ir_get(l->f, v);
    return !l->argument[v] && n->op == OP_cast && n->type.dtype == IR_F32 ? n->args[0] : v;
}

/* Have all operands the same 16 bits, and weights these or, of bfloat16, those of float32? What is read is narrow then.
 */
static bool find_unit(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    const struct lower *l = a->l;
    enum ir_dtype kind = (enum ir_dtype)ir_type(l->f, narrow(l, a->source[0].lanes.value))->dtype;
    bool same = l->target->unit && (kind == IR_BF16 || kind == IR_F16) && a->sum == IR_F32;
    for (int turn = 0; same && turn < 2; turn++) {
        ir_value *of[MOST_SOURCES + MOST_BLOCKS + MOST_SINKS];
        uint32_t count = 0, operands;
        for (uint32_t i = 0; i < a->sources; i++) of[count++] = &a->source[i].lanes.value;
        for (uint32_t i = 0; i < a->block_count; i++) of[count++] = &a->block[i].side.value;
        operands = count;
        for (uint32_t i = 0; i < a->sinks; i++) of[count++] = &a->sink[i].from;
        for (uint32_t i = 0; i < count; i++) {
            enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, narrow(l, *of[i]))->dtype;
            if (turn) *of[i] = dtype == kind ? narrow(l, *of[i]) : *of[i];
            else same = same && (dtype == kind || (i >= operands && kind == IR_BF16 && dtype == IR_F32));
        }
    }
    g->kind = same ? kind : a->sum;
    return same;
}

/* Of `size` numbers, by ACROSS threads: wide groups, but first of all few numbers that are none. */
static struct lower_attention_part across(const struct lower_attention_grid *g, int64_t size)
{
    struct lower_attention_part best = {.by = 1, .count = ACROSS, .group = GROUP};
    if (g->unit)
        return (struct lower_attention_part){.by = 1,
                                             .count = UNIT_ACROSS,
                                             .groups = round_up(size, NEST_UNIT_STEPS) / NEST_UNIT_COLUMNS,
                                             .group = 2,
                                             .apart = NEST_UNIT_COLUMNS};
    for (int64_t group = GROUP, least = INT64_MAX; group > 0; group /= 2)
        if (round_up(size, ACROSS * group) < least) {
            least = round_up(size, ACROSS * group);
            best.groups = least / (ACROSS * group), best.group = group, best.apart = ACROSS * group;
        }
    return best;
}

/* Tiles that different sinks read; one at least where scores wait for their maximum, if it is all that is wanted. */
static uint32_t weights_of(struct lower_attention *a)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->sinks; i++) {
        a->sink[i].tile = count;
        for (uint32_t k = 0; k < i; k++)
            if (a->sink[k].from == a->sink[i].from) a->sink[i].tile = a->sink[k].tile;
        count += a->sink[i].tile == count;
    }
    return a->max && !count ? 1 : count;
}

/* Do its sums fit the registers of a thread, its locals the shared memory, and are there tiles for most of a GPU? */
static bool fits(struct lower_attention_grid *g, uint32_t weights)
{
    const struct lower_attention *a = g->a;
    int64_t bytes = (int64_t)ir_dtype_bytes(a->sum), sums = a->sources * a->steps;
    for (uint32_t i = 0; i < a->sinks; i++) sums += attention_size(&g->made[i]);
    int64_t shared = 4 * 4 * a->width;
    if (sums * a->width * bytes > (g->unit ? UNIT_REGISTERS : REGISTERS) * ATTENTION_THREADS * 4) return false;
    if (g->unit) return attention_choose_panels(g, shared * bytes);
    shared += attention_shared_numbers(g, true) + attention_shared_numbers(g, false) + weights * a->steps * g->row;
    return shared * bytes <= CG_CUDA_SHARED && a->s.batch * a->blocks >= CG_CUDA_BLOCKS;
}

/* The largest tile that fits, else the last one. */
static bool choose_tile(struct lower_attention_grid *g, uint32_t weights)
{
    struct lower_attention *a = g->a;
    for (uint32_t i = 0; i < a->sinks; i++) g->made[i] = across(g, a->block[a->sink[i].block].side.length);
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        bool by_unit = tiles[i].lanes == NEST_UNIT_ROWS * ATTENTION_THREADS / 32;
        if (g->unit && !by_unit) continue;
        a->width = tiles[i].lanes, a->steps = tiles[i].steps;
        a->blocks = (a->extent + a->width - 1) / a->width;
        g->row = a->width + PADDING;
        g->lanes = (struct lower_attention_part){
            .by = ACROSS, .count = DOWN, .groups = 1, .group = a->width / DOWN, .apart = a->width};
        g->own = (struct lower_attention_part){.by = 1, .count = a->width, .groups = 1, .group = 1, .apart = a->width};
        if (g->unit)
            g->own = g->lanes = (struct lower_attention_part){.by = UNIT_ACROSS,
                                                              .count = NEST_UNIT_ROWS / 2,
                                                              .groups = 2,
                                                              .group = 1,
                                                              .apart = NEST_UNIT_ROWS / 2,
                                                              .warp_apart = NEST_UNIT_ROWS};
        g->steps = across(g, a->steps);
        g->parts = g->unit ? UNIT_ACROSS : ATTENTION_THREADS / a->width, g->part_by = g->unit ? 1 : a->width;
        if (fits(g, weights)) return true;
    }
    return false;
}

static void choose(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    g->unit = find_unit(g);
    uint32_t weights = weights_of(a);
    if (!choose_tile(g, weights) && g->unit) {
        g->unit = false, g->kind = a->sum;
        choose_tile(g, weights);
    }
    if (g->unit) {
        attention_declare_panels(g);
    } else {
        for (uint32_t i = 0; i < weights; i++) a->tile[i] = nest_local(b, a->sum, (a->steps - 1) * g->row + a->width);
        for (uint32_t i = 0; i < a->sinks; i++) a->sink[i].tile = a->tile[a->sink[i].tile];
        for (int i = 0; i < 2; i++) g->local[i] = nest_local(b, a->sum, attention_shared_numbers(g, i == 0));
    }
    if (!a->max) return;
    int64_t places = g->parts * a->width;
    a->max_local = nest_local(b, (enum ir_dtype)ir_type(a->l->f, a->max)->dtype, places);
    a->safe_local = nest_local(b, a->sum, places);
    a->scale_local = nest_local(b, a->sum, places);
    a->sum_local = nest_local(b, a->sum, a->width);
}

static uint32_t operand_register(const struct lower_attention_grid *g, const struct lower_attention_part *p)
{
    uint32_t pairs = (uint32_t)(p == &g->lanes ? 4 : 2 * p->groups);
    return nest_reg(&g->a->l->b, g->unit ? IR_U32 : g->a->sum, g->unit ? pairs : (uint32_t)attention_own(p), true, 0);
}

/* Of how many numbers of 16 bits a tile's weights are the sum. What is made of them and rounded to 16 bits shows none
 * of what two leave out: 2^-16 of it. */
static uint32_t pieces_of(const struct lower_attention_grid *g, uint32_t tile)
{
    const struct lower_attention *a = g->a;
    uint32_t most = 1;
    for (uint32_t i = 0; i < a->sinks; i++) {
        if (a->sink[i].tile != tile || ir_type(a->l->f, a->sink[i].from)->dtype == g->kind) continue;
        bool rounded = ir_dtype_bytes((enum ir_dtype)ir_type(a->l->f, a->sink[i].stored)->dtype) == 2;
        uint32_t pieces = !rounded ? PIECES : a->l->target->fast ? 1 : ROUNDED_PIECES;
        if (pieces > most) most = pieces;
    }
    return most;
}

/* Do weights become 16 bits, and what is made of them too? Nothing shows more than that of their exponentials. Sums of
 * them that are made alone may be for others. */
static bool is_rough(const struct lower_attention_grid *g)
{
    const struct lower_attention *a = g->a;
    bool all = g->unit && a->sinks;
    for (uint32_t i = 0; i < a->sinks; i++) all = all && g->pieces[a->sink[i].tile] < PIECES;
    return all;
}

static void declare(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    uint32_t own = (uint32_t)g->own.groups, tiles_made = 0;
    g->lanes.reg = operand_register(g, &g->lanes);
    g->steps.reg = operand_register(g, &g->steps);
    for (uint32_t i = 0; i < a->sinks; i++) {
        g->made[i].reg = operand_register(g, &g->made[i]);
        g->sums[i] = nest_reg(b, a->sum, (uint32_t)(attention_own(&g->lanes) * attention_own(&g->made[i])), true, 0);
        if (!g->unit || a->sink[i].tile != tiles_made) continue;
        g->pieces[tiles_made] = pieces_of(g, tiles_made);
        uint32_t pairs = g->pieces[tiles_made] * (uint32_t)(2 * g->steps.groups);
        g->weights[tiles_made++] = nest_reg(b, IR_U32, pairs, true, 0);
    }
    a->l->rough = is_rough(g);
    if (!a->max) return;
    g->most = nest_reg(b, (enum ir_dtype)ir_type(a->l->f, a->max)->dtype, own, true, -INFINITY);
    g->total = nest_reg(b, a->sum, own, true, 0);
    if (g->unit) g->scale = nest_reg(b, a->sum, own, true, 0);
}

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
    choose(&g);
    open_blocks(a);
    declare(&g);
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
