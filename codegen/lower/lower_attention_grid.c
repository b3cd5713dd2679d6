/* Attention on a GPU: every block makes the rows of one tile of lanes (lower_attention.c), its threads a piece of each
 * product.
 *
 *   parallel   a batch, and a block of lanes
 *     serial   blocks of the other side, its steps
 *       scores: both operands go through shared memory by a few numbers of what is contracted, the next ones are on
 *               their way meanwhile; a thread keeps its piece of the tile [steps][lanes] in registers
 *       what is element-wise with them by the same thread; the weights go to shared memory
 *       softmax: a lane is the work of a few threads, which own every so many-th stretch of its steps
 *       sums [lanes][made], in registers, += weights x the other operand, which goes through shared memory likewise
 *     division by the softmax's sum, and the stores
 *
 * What is outside of the operands is neither read nor written; scores there weigh nothing. */
#include "codegen/lower/lower_attention.h"
#include <math.h>

enum {
    THREADS = 128,
    DOWN = 16,  /* threads along the lanes */
    ACROSS = 8, /* and along steps, or what is made */
    GROUP = 4,  /* neighbours of a thread at most: a load of 16 bytes */
    PADDING = 4 /* between the rows of shared memory: other banks */,
    CHUNK = 16,       /* of what is contracted that is in shared memory at a time */
    REGISTERS = 128,  /* for scores and sums; the rest is for what is on its way */
    SHARED = 47 << 10 /* bytes of a block, beside what folds need */
};

/* Lanes and steps of a tile, the largest first: operands are read the less often. */
static const struct {
    int64_t lanes, steps;
} tiles[] = {{64, 64}, {32, 64}, {32, 32}};

/* A thread's part of one side of a tile: groups of neighbours, `groups` of them. */
struct part {
    int64_t by, count; /* digit of the thread's number */
    int64_t groups, group;
};
struct piece {
    nest_var outer, inner;
};

/* Numbers of an operand on their way to shared memory: [contracted][kept], `kept` of them side by side. */
struct stage {
    const struct lower_attention_side *side;
    struct lower_pos first; /* of its rows */
    int64_t rows;           /* that it has */
    bool rows_kept;         /* its rows are kept, what is inside is contracted; or the other way round */
    int64_t kept, chunk, row;
    uint32_t local, staged;
};

struct grid {
    struct lower_attention *a;
    nest_var thread;
    struct part lanes, steps, made[MOST_SINKS];
    int64_t row;                                                  /* numbers of a row of a tile */
    int64_t parts;                                                /* threads that share a lane */
    uint32_t local[2];                                            /* what is staged, of lanes and of the others */
    uint32_t scores[MOST_SOURCES], sums[MOST_SINKS], left, right; /* registers */
    uint32_t most, total;                                         /* so far, of a thread's lane */
};

static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }
static int64_t size_of(const struct part *p) { return p->count * p->groups * p->group; }
static int64_t own(const struct part *p) { return p->groups * p->group; }

/* ---------------------------------------------------------------- positions */

static void add_digit(struct grid *g, struct lower_pos *at, int64_t by, int64_t count, int64_t scale)
{
    lower_pos_add_digit(g->a->l, at, g->thread, THREADS, by, count, scale);
}

static struct piece open_piece(struct grid *g, const struct part *p)
{
    struct piece piece = {lower_open(g->a->l, NEST_UNROLL, p->groups), 0};
    piece.inner = lower_open(g->a->l, NEST_UNROLL, p->group);
    return piece;
}

static void open_threads(struct grid *g) { g->thread = lower_open(g->a->l, NEST_VECTOR, THREADS); }

static struct lower_pos place_of(struct grid *g, const struct part *p, struct piece piece)
{
    struct lower_pos at = attention_zero();
    add_digit(g, &at, p->by, p->count, p->group);
    lower_pos_add_term(g->a->l, &at, piece.outer, p->count * p->group);
    lower_pos_add_term(g->a->l, &at, piece.inner, 1);
    return at;
}

/* Which of a thread's numbers it is, times `scale`. */
static void add_number(struct grid *g, struct lower_pos *at, const struct part *p, struct piece piece, int64_t scale)
{
    lower_pos_add_term(g->a->l, at, piece.outer, p->group * scale);
    lower_pos_add_term(g->a->l, at, piece.inner, scale);
}

/* A step and a lane of the tile among the scores; loads of what is outside are masked from here on. */
static struct lower_pos score_at(struct grid *g, const struct lower_pos *step, const struct lower_pos *lane)
{
    struct lower_attention *a = g->a;
    struct lower_pos s = attention_plus(a->l, &a->step, step, 1), r = attention_plus(a->l, &a->first, lane, 1);
    a->l->cond = lower_and(a->l, a->l->cond, lower_pos_inside(a->l, &s, a->walked));
    a->l->cond = lower_and(a->l, a->l->cond, lower_pos_inside(a->l, &r, a->extent));
    return attention_among_scores(a, &s, &r);
}

/* The value where the mask of loads holds, else `otherwise`. */
static nest_value masked(struct grid *g, nest_value value, double otherwise)
{
    struct lower *l = g->a->l;
    enum ir_dtype dtype = nest_dtype(&l->b, value);
    nest_value args[] = {l->cond, value, 0};
    if (!l->cond) return value;
    args[2] = nest_number(&l->b, dtype, otherwise);
    return nest_op(&l->b, OP_select, dtype, args, 3);
}

static void leave(struct grid *g, uint32_t depth)
{
    g->a->l->cond = 0;
    nest_close_to(&g->a->l->b, depth);
}

/* ---------------------------------------------------------------- staging */

/* Neighbouring threads take what is neighbouring in memory: so many of them, then the next stretch of the other side.
 */
struct turn {
    nest_var fast, slow;
    struct lower_pos kept, contracted, number;
};

static struct turn open_turn(struct grid *g, const struct stage *s)
{
    struct lower *l = g->a->l;
    const struct lower_attention_run *inner = &s->side->inner;
    bool inner_fast = !inner->count || inner->stride[inner->count - 1] == 1, fast_kept = inner_fast != s->rows_kept;
    int64_t extent = fast_kept ? s->kept : s->chunk, other = fast_kept ? s->chunk : s->kept;
    int64_t together = lower_common_factor(extent, THREADS), apart = THREADS / together;
    struct lower_pos fast = attention_zero(), slow = fast;
    struct turn t = {0, lower_open(l, NEST_UNROLL, other / apart), fast, fast, fast};
    t.fast = lower_open(l, NEST_UNROLL, extent / together);
    open_threads(g);
    add_digit(g, &fast, 1, together, 1);
    add_digit(g, &slow, together, apart, 1);
    lower_pos_add_term(l, &fast, t.fast, together);
    lower_pos_add_term(l, &slow, t.slow, apart);
    t.kept = fast_kept ? fast : slow, t.contracted = fast_kept ? slow : fast;
    lower_pos_add_term(l, &t.number, t.slow, extent / together);
    lower_pos_add_term(l, &t.number, t.fast, 1);
    return t;
}

/* From memory to registers, what is contracted from `from` on. */
static void fetch(struct grid *g, const struct stage *s, const struct lower_pos *from)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct turn t = open_turn(g, s);
    lower_pos_add(l, &t.contracted, from, 1);
    struct lower_pos along = attention_plus(l, s->rows_kept ? &t.kept : &t.contracted, &s->first, 1),
                     inner = s->rows_kept ? t.contracted : t.kept;
    l->cond = lower_and(l, lower_pos_inside(l, &along, s->rows), lower_pos_inside(l, &inner, s->side->length));
    nest_value value = masked(g, attention_operand(g->a, s->side, &along, &inner), 0);
    nest_set(&l->b, s->staged, lower_pos_index(l, &t.number), value);
    leave(g, depth);
}

/* From registers to shared memory. */
static void put(struct grid *g, const struct stage *s)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct turn t = open_turn(g, s);
    nest_value value = nest_get(&l->b, s->staged, lower_pos_index(l, &t.number));
    nest_store(&l->b, s->local, attention_in_rows(l, &t.contracted, s->row, &t.kept), value, 0);
    nest_close_to(&l->b, depth);
}

static struct stage stage_of(struct grid *g, const struct lower_attention_side *side, const struct lower_pos *first,
                             int64_t rows, bool rows_kept, int64_t kept, int64_t chunk, uint32_t local)
{
    uint32_t numbers = (uint32_t)(kept * chunk / THREADS);
    return (struct stage){side,           *first, rows,
                          rows_kept,      kept,   chunk,
                          kept + PADDING, local,  nest_reg(&g->a->l->b, g->a->sum, numbers, true, 0)};
}

/* ---------------------------------------------------------------- products */

/* A row of shared memory to a thread's registers. */
static void take(struct grid *g, const struct part *p, uint32_t reg, uint32_t local, const struct lower_pos *row,
                 int64_t length)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct piece piece = open_piece(g, p);
    open_threads(g);
    struct lower_pos place = place_of(g, p, piece), number = attention_zero();
    add_number(g, &number, p, piece, 1);
    nest_set(&l->b, reg, lower_pos_index(l, &number),
             nest_load(&l->b, local, attention_in_rows(l, row, length, &place), 0));
    nest_close_to(&l->b, depth);
}

/* sums[lane][other] += what was taken of both. */
static void add_products(struct grid *g, const struct part *other, uint32_t sums)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct piece lane = open_piece(g, &g->lanes), column = open_piece(g, other);
    open_threads(g);
    struct lower_pos left = attention_zero(), right = left, sum = left;
    add_number(g, &left, &g->lanes, lane, 1);
    add_number(g, &right, other, column, 1);
    add_number(g, &sum, &g->lanes, lane, own(other));
    add_number(g, &sum, other, column, 1);
    struct nest_index at = lower_pos_index(l, &sum);
    nest_value x = nest_get(&l->b, g->left, lower_pos_index(l, &left)),
               y = nest_get(&l->b, g->right, lower_pos_index(l, &right));
    nest_set(&l->b, sums, at, nest_fma(&l->b, g->a->sum, x, y, nest_get(&l->b, sums, at)));
    nest_close_to(&l->b, depth);
}

/* sums += the staged operand x another one, or a tile (`left_local`, whose rows are steps). */
static void multiply(struct grid *g, const struct stage *right, const struct stage *left, uint32_t left_local,
                     int64_t length, const struct part *other, uint32_t sums)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    int64_t chunk = right->chunk, chunks = (length + chunk - 1) / chunk;
    struct lower_pos from = attention_zero();
    if (left) fetch(g, left, &from);
    fetch(g, right, &from);
    nest_var var = lower_open(l, NEST_SERIAL, chunks);
    if (left) put(g, left);
    put(g, right);
    from = attention_var(l, var, chunk);
    if (chunks > 1) {
        uint32_t inside = l->b.depth;
        struct lower_pos next = lower_next_block(l, var, chunks, chunk);
        if (left) fetch(g, left, &next);
        fetch(g, right, &next);
        nest_close_to(&l->b, inside);
    }
    struct lower_pos k = attention_var(l, lower_open(l, NEST_UNROLL, chunk), 1),
                     row = left ? k : attention_plus(l, &from, &k, 1);
    take(g, &g->lanes, g->left, left ? left->local : left_local, &row, g->row);
    take(g, other, g->right, right->local, &k, right->row);
    add_products(g, other, sums);
    nest_close_to(&l->b, depth);
}

static void make_scores(struct grid *g, uint32_t i)
{
    struct lower_attention *a = g->a;
    const struct lower_attention_source *s = &a->source[i];
    const struct lower_attention_side *steps = &a->block[s->block].side;
    int64_t chunk = steps->length % CHUNK && steps->length % (CHUNK / 2) == 0 ? CHUNK / 2 : CHUNK;
    struct stage left = stage_of(g, &s->lanes, &a->first, a->extent, true, a->width, chunk, g->local[0]);
    struct stage right = stage_of(g, steps, &a->step, a->walked, true, a->steps, chunk, g->local[1]);
    g->scores[i] = nest_reg(&a->l->b, a->sum, (uint32_t)(own(&g->lanes) * own(&g->steps)), true, 0);
    multiply(g, &right, &left, 0, steps->length, &g->steps, g->scores[i]);
}

static void add_sums(struct grid *g, uint32_t i)
{
    struct lower_attention *a = g->a;
    const struct lower_attention_sink *s = &a->sink[i];
    struct stage right = stage_of(g, &a->block[s->block].side, &a->step, a->walked, false, size_of(&g->made[i]), CHUNK,
                                  g->local[1]);
    multiply(g, &right, NULL, s->tile, a->steps, &g->made[i], g->sums[i]);
}

/* ---------------------------------------------------------------- element-wise work */

/* Opens the loops over a thread's scores: its products are known there. */
static struct lower_pos open_scores(struct grid *g, struct lower_pos *step, struct lower_pos *lane)
{
    struct lower_attention *a = g->a;
    struct piece s = open_piece(g, &g->steps), r = open_piece(g, &g->lanes);
    open_threads(g);
    struct lower_pos number = attention_zero();
    *step = place_of(g, &g->steps, s), *lane = place_of(g, &g->lanes, r);
    add_number(g, &number, &g->lanes, r, own(&g->steps));
    add_number(g, &number, &g->steps, s, 1);
    for (uint32_t i = 0; i < a->sources; i++)
        attention_give(a, a->source[i].product, nest_get(&a->l->b, g->scores[i], lower_pos_index(a->l, &number)));
    return score_at(g, step, lane);
}

static void forget_products(struct lower_attention *a)
{
    for (uint32_t i = 0; i < a->sources; i++) a->l->from[a->source[i].product] = (struct lower_override){0};
}

static void store_weights(struct grid *g, const struct lower_pos *p, struct nest_index at)
{
    struct lower_attention *a = g->a;
    nest_value x[MOST_SINKS];
    for (uint32_t i = 0; i < a->sinks; i++)
        x[i] = masked(g, lower_cast(a->l, lower_value(a->l, a->sink[i].from, p), a->sum), 0);
    for (uint32_t i = 0; i < a->sinks; i++) nest_store(&a->l->b, a->sink[i].tile, at, x[i], 0);
}

static void weigh(struct grid *g)
{
    uint32_t depth = g->a->l->b.depth;
    struct lower_pos step, lane, p = open_scores(g, &step, &lane);
    store_weights(g, &p, attention_in_rows(g->a->l, &step, g->row, &lane));
    forget_products(g->a);
    leave(g, depth);
}

/* The lane that is a thread's, and which of its threads it is. */
static struct lower_pos own_lane(struct grid *g)
{
    struct lower_pos lane = attention_zero();
    add_digit(g, &lane, 1, g->a->width, 1);
    return lane;
}

static struct nest_index own_place(struct grid *g)
{
    struct lower_pos at = attention_zero();
    add_digit(g, &at, 1, THREADS, 1);
    return lower_pos_index(g->a->l, &at);
}

/* A step of a thread's stretch of its lane's; the loops over them are opened. */
static struct lower_pos open_steps(struct grid *g)
{
    int64_t stretch = g->a->steps / g->parts;
    struct lower_pos step = attention_var(g->a->l, lower_open(g->a->l, NEST_UNROLL, stretch), 1);
    open_threads(g);
    add_digit(g, &step, g->a->width, g->parts, stretch);
    return step;
}

/* The maximum of a lane with what its threads found. Where all scores so far are -infinity, the exponentials are those
 * without a maximum: 0. */
static void raise_max(struct grid *g, uint32_t safe)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    struct nest_index zero = {0};
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, a->max)->dtype;
    open_threads(g);
    struct lower_pos lane = own_lane(g);
    nest_value before = lower_cast(l, nest_get(b, g->most, zero), a->sum), now = before;
    for (int64_t i = 0; i < g->parts; i++) {
        struct lower_pos at = lane;
        at.offset = i * a->width;
        now = lower_binary(l, OP_max, a->sum, now, nest_load(b, a->safe_local, lower_pos_index(l, &at), 0));
    }
    nest_value less = lower_binary(l, OP_sub, a->sum, before, now), one = nest_number(b, a->sum, 1);
    nest_value same = lower_binary(l, OP_eq, IR_BOOL, before, now);
    nest_value scale[] = {same, one, nest_op(b, OP_exp, a->sum, &less, 1)};
    nest_value factor = nest_op(b, OP_select, a->sum, scale, 3);
    nest_value none = lower_binary(l, OP_eq, IR_BOOL, now, nest_number(b, a->sum, -INFINITY));
    nest_value finite[] = {none, nest_number(b, a->sum, 0), now};
    nest_set(b, safe, zero, lower_cast(l, nest_op(b, OP_select, a->sum, finite, 3), dtype));
    nest_set(b, g->most, zero, lower_cast(l, now, dtype));
    nest_set(b, g->total, zero, lower_binary(l, OP_mul, a->sum, nest_get(b, g->total, zero), factor));
    nest_store(b, a->max_local, own_place(g), lower_cast(l, now, dtype), 0);
    nest_store(b, a->scale_local, own_place(g), factor, 0);
    nest_close_to(b, depth);
}

/* sums[lane] *= what they were summed with too small a maximum by. */
static void scale_sums(struct grid *g, uint32_t i)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct piece lane = open_piece(g, &g->lanes), column = open_piece(g, &g->made[i]);
    open_threads(g);
    struct lower_pos number = attention_zero(), place = place_of(g, &g->lanes, lane);
    add_number(g, &number, &g->lanes, lane, own(&g->made[i]));
    add_number(g, &number, &g->made[i], column, 1);
    struct nest_index at = lower_pos_index(l, &number);
    nest_value factor = nest_load(&l->b, a->scale_local, lower_pos_index(l, &place), 0);
    nest_set(&l->b, g->sums[i], at, lower_binary(l, OP_mul, a->sum, nest_get(&l->b, g->sums[i], at), factor));
    nest_close_to(&l->b, depth);
}

static void softmax(struct grid *g)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    struct nest_index zero = {0};
    struct lower_pos step, lane, p = open_scores(g, &step, &lane);
    ir_value of_max = ir_get(l->f, a->max)->args[0];
    nest_value z = masked(g, lower_cast(l, lower_value(l, a->score, &p), a->sum), -INFINITY);
    nest_store(b, a->tile[0], attention_in_rows(l, &step, g->row, &lane), z, 0);
    forget_products(a);
    leave(g, depth);

    uint32_t most = nest_reg(b, a->sum, 1, true, -INFINITY);
    uint32_t safe = nest_reg(b, (enum ir_dtype)ir_type(l->f, a->max)->dtype, 1, true, 0);
    for (int turn = 0; turn < 2; turn++) {
        step = open_steps(g), lane = own_lane(g), p = score_at(g, &step, &lane);
        struct nest_index at = attention_in_rows(l, &step, g->row, &lane);
        attention_give(a, a->score, nest_load(b, a->tile[0], at, 0));
        if (turn) {
            attention_give(a, a->max, nest_get(b, safe, zero));
            attention_give(a, a->total, nest_number(b, a->sum, 1));
            nest_value e = lower_cast(l, lower_value(l, ir_get(l->f, a->total)->args[0], &p), a->sum);
            nest_set(b, g->total, zero, lower_binary(l, OP_add, a->sum, nest_get(b, g->total, zero), masked(g, e, 0)));
            store_weights(g, &p, at);
        } else {
            nest_value y = masked(g, lower_cast(l, lower_value(l, of_max, &p), a->sum), -INFINITY);
            nest_set(b, most, zero, lower_binary(l, OP_max, a->sum, nest_get(b, most, zero), y));
        }
        l->from[a->score] = l->from[a->max] = l->from[a->total] = (struct lower_override){0};
        leave(g, depth);
        if (turn) break;
        open_threads(g);
        nest_store(b, a->safe_local, own_place(g), nest_get(b, most, zero), 0);
        nest_close_to(b, depth);
        raise_max(g, safe);
    }
    for (uint32_t i = 0; i < a->sinks; i++) scale_sums(g, i);
}

/* ---------------------------------------------------------------- the end */

/* Maximum and sum of the lanes. */
static void finish_stats(struct grid *g)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    open_threads(g);
    nest_store(b, a->scale_local, own_place(g), nest_get(b, g->total, (struct nest_index){0}), 0);
    nest_close_to(b, depth);
    struct lower_pos lane = attention_var(l, lower_open(l, NEST_VECTOR, a->width), 1);
    nest_value total = nest_number(b, a->sum, 0), most = nest_load(b, a->max_local, lower_pos_index(l, &lane), 0);
    for (int64_t i = 0; i < g->parts; i++) {
        struct lower_pos at = lane;
        at.offset = i * a->width;
        total = lower_binary(l, OP_add, a->sum, total, nest_load(b, a->scale_local, lower_pos_index(l, &at), 0));
    }
    nest_store(b, a->sum_local, lower_pos_index(l, &lane), total, 0);
    struct lower_pos row = attention_plus(l, &a->first, &lane, 1), p = attention_zero();
    l->cond = lower_pos_inside(l, &row, a->extent);
    lower_pos_add(l, &p, &a->batch, a->extent);
    lower_pos_add(l, &p, &row, 1);
    attention_store(a, a->max, &p, most);
    attention_store(a, a->total, &p, total);
    leave(g, depth);
}

/* A sum, `beside` numbers behind the ones of its loops, and where it goes. */
static nest_value end_of(struct grid *g, uint32_t i, struct piece r, struct piece c, int64_t beside,
                         struct lower_pos *p)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    const struct lower_attention_sink *s = &a->sink[i];
    int64_t made = a->block[s->block].side.length;
    struct lower_pos lane = place_of(g, &g->lanes, r), inner = place_of(g, &g->made[i], c), number = attention_zero();
    (s->left ? &inner : &lane)->offset += beside;
    number.offset = beside * (s->left ? 1 : own(&g->made[i]));
    add_number(g, &number, &g->lanes, r, own(&g->made[i]));
    add_number(g, &number, &g->made[i], c, 1);
    struct lower_pos row = attention_plus(l, &a->first, &lane, 1);
    nest_value sum = nest_get(&l->b, g->sums[i], lower_pos_index(l, &number));
    if (a->max)
        sum = lower_binary(l, OP_div, a->sum, sum, nest_load(&l->b, a->sum_local, lower_pos_index(l, &lane), 0));
    l->cond = lower_and(l, lower_pos_inside(l, &row, a->extent), lower_pos_inside(l, &inner, made));
    *p = attention_zero();
    lower_pos_add(l, p, &a->batch, a->extent * made);
    lower_pos_add(l, p, &row, s->left ? made : 1);
    lower_pos_add(l, p, &inner, s->left ? 1 : a->extent);
    return sum;
}

/* Neighbours in memory together, so that their stores may be one access. */
static void finish_sums(struct grid *g, uint32_t i)
{
    struct lower *l = g->a->l;
    const struct lower_attention_sink *s = &g->a->sink[i];
    uint32_t depth = l->b.depth;
    struct part lanes = g->lanes, made = g->made[i];
    int64_t together = s->left ? made.group : lanes.group;
    struct piece r = {lower_open(l, NEST_UNROLL, lanes.groups), 0}, c;
    r.inner = lower_open(l, NEST_UNROLL, s->left ? lanes.group : 1);
    c.outer = lower_open(l, NEST_UNROLL, made.groups);
    c.inner = lower_open(l, NEST_UNROLL, s->left ? 1 : made.group);
    open_threads(g);
    struct lower_pos p[GROUP];
    nest_value sum[GROUP], cond[GROUP];
    for (int64_t k = 0; k < together; k++) sum[k] = end_of(g, i, r, c, k, &p[k]), cond[k] = l->cond, l->cond = 0;
    for (int64_t k = 0; k < together; k++) {
        l->cond = cond[k];
        attention_store(g->a, s->product, &p[k], sum[k]);
    }
    leave(g, depth);
}

/* ---------------------------------------------------------------- the shape */

/* Of `size` numbers, by ACROSS threads: wide groups, but first of all few numbers that are none. */
static struct part across(int64_t size)
{
    struct part best = {1, ACROSS, 0, GROUP};
    for (int64_t group = GROUP, least = INT64_MAX; group > 0; group /= 2)
        if (round_up(size, ACROSS * group) < least) {
            least = round_up(size, ACROSS * group);
            best.groups = least / (ACROSS * group), best.group = group;
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

static int64_t widest_made(const struct grid *g)
{
    int64_t widest = g->a->steps;
    for (uint32_t i = 0; i < g->a->sinks; i++) widest = size_of(&g->made[i]) > widest ? size_of(&g->made[i]) : widest;
    return widest;
}

/* Do its sums fit the registers of a thread, its locals the shared memory, and are there tiles for most of a GPU? */
static bool fits(const struct grid *g, uint32_t weights)
{
    const struct lower_attention *a = g->a;
    int64_t bytes = (int64_t)ir_dtype_bytes(a->sum), sums = a->sources * a->steps;
    for (uint32_t i = 0; i < a->sinks; i++) sums += size_of(&g->made[i]);
    int64_t shared = weights * a->steps * g->row + CHUNK * (g->row + widest_made(g) + PADDING) + 4 * THREADS;
    return sums * a->width * bytes <= REGISTERS * THREADS * 4 && shared * bytes <= SHARED &&
           a->s.batch * a->blocks >= CG_CUDA_BLOCKS;
}

static void choose(struct grid *g)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    uint32_t weights = weights_of(a);
    for (uint32_t i = 0; i < a->sinks; i++) g->made[i] = across(a->block[a->sink[i].block].side.length);
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        a->width = tiles[i].lanes, a->steps = tiles[i].steps;
        a->blocks = (a->extent + a->width - 1) / a->width;
        g->row = a->width + PADDING;
        g->lanes = (struct part){ACROSS, DOWN, 1, a->width / DOWN};
        g->steps = across(a->steps);
        if (fits(g, weights)) break;
    }
    g->parts = THREADS / a->width;
    int64_t rows = CHUNK - 1;
    for (uint32_t i = 0; i < weights; i++) a->tile[i] = nest_local(b, a->sum, (a->steps - 1) * g->row + a->width);
    g->local[0] = nest_local(b, a->sum, rows * g->row + a->width);
    g->local[1] = nest_local(b, a->sum, rows * (widest_made(g) + PADDING) + widest_made(g));
    for (uint32_t i = 0; i < a->sinks; i++) a->sink[i].tile = a->tile[a->sink[i].tile];
    if (!a->max) return;
    enum ir_dtype dtype = (enum ir_dtype)ir_type(a->l->f, a->max)->dtype;
    a->max_local = nest_local(b, dtype, THREADS);
    a->safe_local = nest_local(b, a->sum, THREADS);
    a->scale_local = nest_local(b, a->sum, THREADS);
    a->sum_local = nest_local(b, a->sum, a->width);
}

static void declare(struct grid *g)
{
    struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    int64_t widest = own(&g->steps);
    for (uint32_t i = 0; i < a->sinks; i++) {
        int64_t columns = own(&g->made[i]);
        widest = columns > widest ? columns : widest;
        g->sums[i] = nest_reg(b, a->sum, (uint32_t)(own(&g->lanes) * columns), true, 0);
    }
    g->left = nest_reg(b, a->sum, (uint32_t)own(&g->lanes), true, 0);
    g->right = nest_reg(b, a->sum, (uint32_t)widest, true, 0);
    if (!a->max) return;
    g->most = nest_reg(b, (enum ir_dtype)ir_type(a->l->f, a->max)->dtype, 1, true, -INFINITY);
    g->total = nest_reg(b, a->sum, 1, true, 0);
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

void attention_grid(struct lower_attention *a)
{
    struct lower *l = a->l;
    struct grid g = {.a = a};
    if (a->across) BUG("contractions over rows and over columns in one group, for a GPU");
    choose(&g);
    open_blocks(a);
    declare(&g);
    if (a->max) { /* lanes of a block whose every tile is left out */
        uint32_t depth = l->b.depth;
        open_threads(&g);
        nest_store(&l->b, a->max_local, own_place(&g), nest_get(&l->b, g.most, (struct nest_index){0}), 0);
        nest_close_to(&l->b, depth);
    }
    attention_find_dead(a);
    if (a->dead.conditions && a->rows && !a->max) a->least = attention_least_max(a, &a->first, a->width);
    uint32_t depth = l->b.depth;
    a->step = attention_var(l, lower_open(l, NEST_SERIAL, (a->walked + a->steps - 1) / a->steps), a->steps);
    nest_value live = attention_is_live(a, a->steps);
    if (live) nest_open_if(&l->b, live);
    for (uint32_t i = 0; i < a->sources; i++) make_scores(&g, i);
    if (a->max) softmax(&g);
    else weigh(&g);
    for (uint32_t i = 0; i < a->sinks; i++) add_sums(&g, i);
    nest_close_to(&l->b, depth);
    if (a->max) finish_stats(&g);
    for (uint32_t i = 0; i < a->sinks; i++) finish_sums(&g, i);
    nest_close_to(&l->b, 0);
}
