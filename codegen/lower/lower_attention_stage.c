/* Products of attention on a GPU without its matrix unit: operands on their way to shared memory by a few numbers of
 * what is contracted, and what a thread takes of them. */
#include "codegen/lower/lower_attention_grid.h"

enum {
    CHUNK = 16, /* of what is contracted that is in shared memory at a time */
    PADDING = 4 /* between the rows of shared memory: other banks */
};

int64_t attention_size(const struct lower_attention_part *p) { return p->count * p->groups * p->group; }
int64_t attention_own(const struct lower_attention_part *p) { return p->groups * p->group; }

/* ---------------------------------------------------------------- positions */

void attention_digit(struct lower_attention_grid *g, struct lower_pos *at, int64_t by, int64_t count, int64_t scale)
{
    lower_pos_add_digit(g->a->l, at, g->thread, ATTENTION_THREADS, by, count, scale);
}

struct lower_attention_piece attention_open_piece(struct lower_attention_grid *g, const struct lower_attention_part *p)
{
    struct lower_attention_piece piece = {lower_open(g->a->l, NEST_UNROLL, p->groups), 0};
    piece.inner = lower_open(g->a->l, NEST_UNROLL, p->group);
    return piece;
}

void attention_open_threads(struct lower_attention_grid *g)
{
    g->thread = lower_open(g->a->l, NEST_VECTOR, ATTENTION_THREADS);
}

struct lower_pos attention_place(struct lower_attention_grid *g, const struct lower_attention_part *p,
                                 struct lower_attention_piece piece)
{
    struct lower_pos at = attention_zero();
    attention_digit(g, &at, p->by, p->count, p->group);
    if (p->warp_apart) attention_digit(g, &at, 32, ATTENTION_THREADS / 32, p->warp_apart);
    lower_pos_add_term(g->a->l, &at, piece.outer, p->apart);
    lower_pos_add_term(g->a->l, &at, piece.inner, 1);
    return at;
}

void attention_add_number(struct lower_attention_grid *g, struct lower_pos *at, const struct lower_attention_part *p,
                          struct lower_attention_piece piece, int64_t scale)
{
    lower_pos_add_term(g->a->l, at, piece.outer, p->group * scale);
    lower_pos_add_term(g->a->l, at, piece.inner, scale);
}

int64_t attention_lane_number(const struct lower_attention_grid *g, const struct lower_attention_part *p)
{
    return g->unit ? 2 : attention_own(p);
}

struct nest_index attention_sum(struct lower_attention_grid *g, struct lower_attention_piece lane,
                                const struct lower_attention_part *p, struct lower_attention_piece other)
{
    struct lower_pos at = attention_zero();
    attention_add_number(g, &at, &g->lanes, lane, attention_lane_number(g, p));
    if (g->unit) lower_pos_add_term(g->a->l, &at, other.outer, 4);
    else lower_pos_add_term(g->a->l, &at, other.outer, p->group);
    lower_pos_add_term(g->a->l, &at, other.inner, 1);
    return lower_pos_index(g->a->l, &at);
}

nest_value attention_masked(struct lower_attention_grid *g, nest_value value, double otherwise)
{
    struct lower *l = g->a->l;
    enum ir_dtype dtype = nest_dtype(&l->b, value);
    nest_value args[] = {l->cond, value, 0};
    if (!l->cond) return value;
    args[2] = nest_number(&l->b, dtype, otherwise);
    return nest_op(&l->b, OP_select, dtype, args, 3);
}

void attention_leave(struct lower_attention_grid *g, uint32_t depth)
{
    g->a->l->cond = 0;
    nest_close_to(&g->a->l->b, depth);
}

/* ---------------------------------------------------------------- to shared memory */

static struct lower_attention_stage stage_of(struct lower_attention_grid *g, const struct lower_attention_side *side,
                                             const struct lower_pos *first, int64_t rows, bool rows_kept, int64_t kept,
                                             int64_t chunk, uint32_t local)
{
    const struct lower_attention_run *inner = &side->inner;
    bool inner_fast = !inner->count || inner->stride[inner->count - 1] == 1;
    struct lower_attention_stage s = {.side = side,
                                      .first = *first,
                                      .rows = rows,
                                      .rows_kept = rows_kept,
                                      .fast_kept = inner_fast != rows_kept,
                                      .kept = kept,
                                      .chunk = chunk,
                                      .apart = kept + PADDING,
                                      .local = local};
    s.staged = nest_reg(&g->a->l->b, g->kind, (uint32_t)(kept * chunk / ATTENTION_THREADS), true, 0);
    return s;
}

/* Neighbouring threads take what is neighbouring in memory: so many of them, then the next stretch of the other side.
 */
struct turn {
    struct lower_pos kept, contracted, number;
};

static struct turn open_turn(struct lower_attention_grid *g, const struct lower_attention_stage *s)
{
    struct lower *l = g->a->l;
    int64_t extent = s->fast_kept ? s->kept : s->chunk, other = s->fast_kept ? s->chunk : s->kept;
    int64_t together = lower_common_factor(extent, ATTENTION_THREADS), apart = ATTENTION_THREADS / together;
    struct lower_pos fast = attention_zero(), slow = fast;
    struct turn t = {fast, fast, fast};
    nest_var outer = lower_open(l, NEST_UNROLL, other / apart), inner = lower_open(l, NEST_UNROLL, extent / together);
    attention_open_threads(g);
    attention_digit(g, &fast, 1, together, 1);
    attention_digit(g, &slow, together, apart, 1);
    lower_pos_add_term(l, &fast, inner, together);
    lower_pos_add_term(l, &slow, outer, apart);
    t.kept = s->fast_kept ? fast : slow, t.contracted = s->fast_kept ? slow : fast;
    lower_pos_add_term(l, &t.number, outer, extent / together);
    lower_pos_add_term(l, &t.number, inner, 1);
    return t;
}

static nest_value number_at(struct lower_attention_grid *g, const struct lower_attention_stage *s,
                            const struct lower_pos *kept, const struct lower_pos *contracted)
{
    struct lower *l = g->a->l;
    struct lower_pos along = attention_plus(l, s->rows_kept ? kept : contracted, &s->first, 1),
                     inner = s->rows_kept ? *contracted : *kept;
    l->cond = lower_and(l, lower_pos_inside(l, &along, s->rows), lower_pos_inside(l, &inner, s->side->length));
    nest_value value = attention_operand(g->a, s->side, &along, &inner, g->kind);
    if (!lower_is_loaded(l, value)) value = attention_masked(g, value, 0);
    l->cond = 0;
    return value;
}

/* From memory to registers, what is contracted from `from` on. */
static void fetch(struct lower_attention_grid *g, const struct lower_attention_stage *s, const struct lower_pos *from)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct turn t = open_turn(g, s);
    struct lower_pos contracted = attention_plus(l, from, &t.contracted, 1);
    nest_set(&l->b, s->staged, lower_pos_index(l, &t.number), number_at(g, s, &t.kept, &contracted));
    attention_leave(g, depth);
}

/* From registers to shared memory. */
static void put(struct lower_attention_grid *g, const struct lower_attention_stage *s)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct turn t = open_turn(g, s);
    nest_store(&l->b, s->local, attention_in_rows(l, &t.contracted, s->apart, &t.kept),
               nest_get(&l->b, s->staged, lower_pos_index(l, &t.number)), 0);
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- a thread's numbers of both sides */

/* A row of shared memory: a stage's, or a tile's. */
static void take(struct lower_attention_grid *g, const struct lower_attention_part *p, uint32_t local,
                 const struct lower_pos *row, int64_t length)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct lower_attention_piece piece = attention_open_piece(g, p);
    attention_open_threads(g);
    struct lower_pos place = attention_place(g, p, piece), number = attention_zero();
    attention_add_number(g, &number, p, piece, 1);
    nest_set(&l->b, p->reg, lower_pos_index(l, &number),
             nest_load(&l->b, local, attention_in_rows(l, row, length, &place), 0));
    nest_close_to(&l->b, depth);
}

/* A left operand: what goes through shared memory in chunks, or (NULL) a tile there whose rows are steps. */
struct left {
    const struct lower_attention_stage *stage;
    uint32_t tile;
};

/* sums[lane][other] += what was taken of both. */
static void add_products(struct lower_attention_grid *g, const struct lower_attention_part *other, uint32_t sums)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct lower_attention_piece lane = attention_open_piece(g, &g->lanes), column = attention_open_piece(g, other);
    attention_open_threads(g);
    struct lower_pos left = attention_zero(), right = left;
    attention_add_number(g, &left, &g->lanes, lane, 1);
    attention_add_number(g, &right, other, column, 1);
    struct nest_index at = attention_sum(g, lane, other, column);
    nest_value x = nest_get(&l->b, g->lanes.reg, lower_pos_index(l, &left)),
               y = nest_get(&l->b, other->reg, lower_pos_index(l, &right));
    nest_set(&l->b, sums, at, nest_fma(&l->b, g->a->sum, x, y, nest_get(&l->b, sums, at)));
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- products */

/* What is in shared memory of both, of the steps of a tile from `from` on. */
static void multiply(struct lower_attention_grid *g, const struct lower_attention_stage *right, const struct left *left,
                     const struct lower_pos *from, const struct lower_attention_part *other, uint32_t sums)
{
    struct lower *l = g->a->l;
    struct lower_pos k = attention_var(l, lower_open(l, NEST_UNROLL, right->chunk), 1),
                     row = left->stage ? k : attention_plus(l, from, &k, 1);
    take(g, &g->lanes, left->stage ? left->stage->local : left->tile, &row, g->row);
    take(g, other, right->local, &k, right->apart);
    add_products(g, other, sums);
}

static void multiply_all(struct lower_attention_grid *g, const struct lower_attention_stage *right,
                         const struct left *left, int64_t length, const struct lower_attention_part *other,
                         uint32_t sums)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    int64_t chunk = right->chunk, chunks = (length + chunk - 1) / chunk;
    struct lower_pos from = attention_zero();
    if (left->stage) fetch(g, left->stage, &from);
    fetch(g, right, &from);
    nest_var var = lower_open(l, NEST_SERIAL, chunks);
    if (left->stage) put(g, left->stage);
    put(g, right);
    from = attention_var(l, var, chunk);
    if (chunks > 1) {
        uint32_t inside = l->b.depth;
        struct lower_pos next = lower_next_block(l, var, chunks, chunk);
        if (left->stage) fetch(g, left->stage, &next);
        fetch(g, right, &next);
        nest_close_to(&l->b, inside);
    }
    multiply(g, right, left, &from, other, sums);
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- scores */

/* Of so many numbers that are contracted. */
static int64_t chunk_of(int64_t length) { return length % CHUNK && length % (CHUNK / 2) == 0 ? CHUNK / 2 : CHUNK; }

int64_t attention_shared_numbers(const struct lower_attention_grid *g, bool lanes)
{
    const struct lower_attention *a = g->a;
    int64_t most = 0;
    for (uint32_t i = 0; i < a->sources; i++) {
        int64_t numbers = chunk_of(a->source[i].lanes.length) * ((lanes ? a->width : a->steps) + PADDING);
        most = numbers > most ? numbers : most;
    }
    for (uint32_t i = 0; i < a->sinks && !lanes; i++) {
        int64_t numbers = CHUNK * (attention_size(&g->made[i]) + PADDING);
        most = numbers > most ? numbers : most;
    }
    return most;
}

void attention_make_scores(struct lower_attention_grid *g, uint32_t source)
{
    struct lower_attention *a = g->a;
    const struct lower_attention_source *s = &a->source[source];
    const struct lower_attention_side *steps = &a->block[s->block].side;
    int64_t chunk = chunk_of(steps->length);
    struct lower_attention_stage lanes = stage_of(g, &s->lanes, &a->first, a->extent, true, a->width, chunk,
                                                  g->local[0]),
                                 right = stage_of(g, steps, &a->step, a->walked, true, a->steps, chunk, g->local[1]);
    struct left left = {.stage = &lanes};
    g->scores[source] = nest_reg(&a->l->b, a->sum, (uint32_t)(attention_own(&g->lanes) * attention_own(&g->steps)),
                                 true, 0);
    multiply_all(g, &right, &left, steps->length, &g->steps, g->scores[source]);
}

/* ---------------------------------------------------------------- sums */

void attention_add_sums(struct lower_attention_grid *g, uint32_t sink)
{
    struct lower_attention *a = g->a;
    struct lower_attention_stage right = stage_of(g, &a->block[a->sink[sink].block].side, &a->step, a->walked, false,
                                                  attention_size(&g->made[sink]), CHUNK, g->local[1]);
    struct left left = {.tile = a->sink[sink].tile};
    multiply_all(g, &right, &left, a->steps, &g->made[sink], g->sums[sink]);
}
