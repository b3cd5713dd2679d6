/* Products of attention on a GPU: their operands on the way to shared memory, and what a thread takes of them. With the
 * matrix unit words are pairs of what is contracted, the threads of a warp hold what it wants (NEST_MATRIX), of lanes
 * those that are 32 apart as rows g and g + 8, and weights come from the registers in which they were made: the sums
 * of two tiles of columns are, as pairs, a tile of the left operand (Dao, "FlashAttention-2", 2023). Weights of
 * float32 are three numbers of 16 bits each, whose products are as exact. */
#include "codegen/lower/lower_attention_grid.h"

enum {
    CHUNK = 16,      /* of what is contracted that is in shared memory at a time */
    UNIT_CHUNK = 32, /* where it is more than fits the registers of a thread */
    MOST_KEPT = 64,
    UNIT_LEFT = 4, /* registers of its left operand */
    PADDING = 4,   /* between the rows of shared memory: other banks */
    UNIT_PADDING = 8
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
    lower_pos_add_term(g->a->l, &at, piece.outer, p->count * p->group);
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

static int64_t word_numbers(const struct lower_attention_grid *g) { return g->unit ? 2 : 1; }

/* So many neighbours as 16 bytes of words hold, if all threads have some then. */
static int64_t few_of(const struct lower_attention_grid *g, const struct lower_attention_stage *s)
{
    int64_t words = s->chunk / word_numbers(g), fast = s->fast_kept ? s->kept : words, slow = s->kept * words / fast;
    int64_t few = g->unit ? 4 : 1;
    while (few > 1 && (fast % few || lower_common_factor(fast / few, ATTENTION_THREADS) * slow < ATTENTION_THREADS))
        few /= 2;
    return few;
}

static struct lower_attention_stage stage_of(struct lower_attention_grid *g, const struct lower_attention_side *side,
                                             const struct lower_pos *first, int64_t rows, bool rows_kept, int64_t kept,
                                             int64_t chunk, uint32_t local)
{
    const struct lower_attention_run *inner = &side->inner;
    bool inner_fast = !inner->count || inner->stride[inner->count - 1] == 1;
    int64_t words = chunk / word_numbers(g);
    struct lower_attention_stage s = {.side = side,
                                      .first = *first,
                                      .rows = rows,
                                      .rows_kept = rows_kept,
                                      .fast_kept = inner_fast != rows_kept,
                                      .kept = kept,
                                      .chunk = chunk,
                                      .kept_apart = 1,
                                      .word_apart = kept + (g->unit ? UNIT_PADDING : PADDING),
                                      .local = local};
    if (g->unit && !s.fast_kept) s.kept_apart = words + PADDING, s.word_apart = 1;
    s.few = few_of(g, &s);
    s.staged = nest_reg(&g->a->l->b, g->unit ? IR_U32 : g->kind, (uint32_t)(kept * words / ATTENTION_THREADS), true, 0);
    return s;
}

static int64_t staged_words(const struct lower_attention_grid *g, int64_t kept, int64_t chunk)
{
    int64_t words = chunk / word_numbers(g), by_words = words * (kept + (g->unit ? UNIT_PADDING : PADDING));
    int64_t by_kept = kept * (words + PADDING);
    return g->unit && by_kept > by_words ? by_kept : by_words;
}

/* Neighbouring threads take what is neighbouring in memory: so many of them, then the next stretch of the other side.
 */
struct turn {
    nest_var fast, slow;
    struct lower_pos kept, word, number; /* of the first one of a few */
};

static struct turn open_turn(struct lower_attention_grid *g, const struct lower_attention_stage *s)
{
    struct lower *l = g->a->l;
    int64_t words = s->chunk / word_numbers(g), extent = (s->fast_kept ? s->kept : words) / s->few,
            other = s->fast_kept ? words : s->kept;
    int64_t together = lower_common_factor(extent, ATTENTION_THREADS), apart = ATTENTION_THREADS / together;
    struct lower_pos fast = attention_zero(), slow = fast;
    struct turn t = {0, lower_open(l, NEST_UNROLL, other / apart), fast, fast, fast};
    t.fast = lower_open(l, NEST_UNROLL, extent / together);
    attention_open_threads(g);
    attention_digit(g, &fast, 1, together, s->few);
    attention_digit(g, &slow, together, apart, 1);
    lower_pos_add_term(l, &fast, t.fast, together * s->few);
    lower_pos_add_term(l, &slow, t.slow, apart);
    t.kept = s->fast_kept ? fast : slow, t.word = s->fast_kept ? slow : fast;
    lower_pos_add_term(l, &t.number, t.slow, extent / together * s->few);
    lower_pos_add_term(l, &t.number, t.fast, s->few);
    return t;
}

static void step_on(const struct lower_attention_stage *s, struct turn *t)
{
    t->number.offset++;
    if (s->fast_kept) t->kept.offset++;
    else t->word.offset++;
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
    for (int64_t i = 0; i < s->few; i++, step_on(s, &t)) {
        struct lower_pos contracted = attention_plus(l, from, &t.word, word_numbers(g));
        nest_value value = number_at(g, s, &t.kept, &contracted);
        contracted.offset++;
        if (g->unit) value = lower_halves(l, value, number_at(g, s, &t.kept, &contracted));
        nest_set(&l->b, s->staged, lower_pos_index(l, &t.number), value);
    }
    attention_leave(g, depth);
}

static struct nest_index shared_at(struct lower_attention_grid *g, const struct lower_attention_stage *s,
                                   const struct lower_pos *kept, const struct lower_pos *word)
{
    struct lower_pos at = attention_zero();
    lower_pos_add(g->a->l, &at, kept, s->kept_apart);
    lower_pos_add(g->a->l, &at, word, s->word_apart);
    return lower_pos_index(g->a->l, &at);
}

/* From registers to shared memory. */
static void put(struct lower_attention_grid *g, const struct lower_attention_stage *s)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct turn t = open_turn(g, s);
    for (int64_t i = 0; i < s->few; i++, step_on(s, &t))
        nest_store(&l->b, s->local, shared_at(g, s, &t.kept, &t.word),
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

/* What the matrix unit takes at a time, from word `word` of what is contracted on, into registers from `first` on: of
 * lanes those 32 apart. */
static void take_unit(struct lower_attention_grid *g, const struct lower_attention_part *p,
                      const struct lower_attention_stage *s, const struct lower_pos *word, uint32_t reg,
                      const struct lower_pos *first)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    bool left = p == &g->lanes;
    int64_t apart = left ? p->count : NEST_UNIT_COLUMNS;
    nest_var tile = lower_open(l, NEST_UNROLL, p->groups), late = lower_open(l, NEST_UNROLL, 2);
    attention_open_threads(g);
    struct lower_pos place = attention_zero(), number = *first, of = *word;
    attention_digit(g, &of, 1, 4, 1);
    lower_pos_add_term(l, &of, late, NEST_UNIT_STEPS / 4);
    attention_digit(g, &place, 4, apart, 1);
    lower_pos_add_term(l, &place, tile, apart);
    lower_pos_add_term(l, &number, tile, left ? 1 : 2);
    lower_pos_add_term(l, &number, late, left ? 2 : 1);
    nest_set(&l->b, reg, lower_pos_index(l, &number), nest_load(&l->b, s->local, shared_at(g, s, &place, &of), 0));
    nest_close_to(&l->b, depth);
}

/* A left operand: what goes through shared memory in chunks (NULL: nothing), a tile there whose rows are steps, or
 * registers of all that is contracted, `pieces` of them. */
struct left {
    const struct lower_attention_stage *stage;
    uint32_t tile, kept, pieces, apart;
};

/* The same from registers, turn `turn` of a piece. */
static void take_kept(struct lower_attention_grid *g, const struct left *left, uint32_t piece, nest_var turn)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos number = attention_var(l, lower_open(l, NEST_UNROLL, UNIT_LEFT), 1), of = number;
    attention_open_threads(g);
    lower_pos_add_term(l, &of, turn, UNIT_LEFT);
    of.offset += piece * left->apart;
    nest_set(&l->b, g->lanes.reg, lower_pos_index(l, &number), nest_get(&l->b, left->kept, lower_pos_index(l, &of)));
    nest_close_to(&l->b, depth);
}

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
    int64_t at_once = g->unit ? NEST_UNIT_STEPS : 1;
    nest_var var = lower_open(l, NEST_UNROLL, right->chunk / at_once);
    struct lower_pos k = attention_var(l, var, g->unit ? NEST_UNIT_STEPS / 2 : 1), zero = attention_zero(),
                     row = left->stage ? k : attention_plus(l, from, &k, 1);
    if (g->unit) {
        take_unit(g, other, right, &k, other->reg, &zero);
        for (uint32_t piece = 0; piece < left->pieces; piece++) {
            if (left->stage) take_unit(g, &g->lanes, left->stage, &k, g->lanes.reg, &zero);
            else take_kept(g, left, piece, var);
            nest_matrix(&l->b, g->kind, sums, g->lanes.reg, other->reg);
        }
    } else {
        take(g, &g->lanes, left->stage ? left->stage->local : left->tile, &row, g->row);
        take(g, other, right->local, &k, right->word_apart);
        add_products(g, other, sums);
    }
}

static void multiply_all(struct lower_attention_grid *g, const struct lower_attention_stage *right, bool fetched,
                         const struct left *left, int64_t length, const struct lower_attention_part *other,
                         uint32_t sums)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    int64_t chunk = right->chunk, chunks = (length + chunk - 1) / chunk;
    struct lower_pos from = attention_zero();
    if (left->stage) fetch(g, left->stage, &from);
    if (!fetched) fetch(g, right, &from);
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
static int64_t chunk_of(const struct lower_attention_grid *g, int64_t length)
{
    if (g->unit && length > MOST_KEPT) return UNIT_CHUNK;
    if (g->unit) return (length + NEST_UNIT_STEPS - 1) / NEST_UNIT_STEPS * NEST_UNIT_STEPS;
    return length % CHUNK && length % (CHUNK / 2) == 0 ? CHUNK / 2 : CHUNK;
}

int64_t attention_shared_words(const struct lower_attention_grid *g, bool lanes)
{
    const struct lower_attention *a = g->a;
    int64_t most = 0;
    for (uint32_t i = 0; i < a->sources; i++) {
        int64_t words = staged_words(g, lanes ? a->width : a->steps, chunk_of(g, a->source[i].lanes.length));
        most = words > most ? words : most;
    }
    for (uint32_t i = 0; i < a->sinks && !lanes; i++) {
        int64_t words = staged_words(g, attention_size(&g->made[i]), g->unit ? a->steps : CHUNK);
        most = words > most ? words : most;
    }
    return most;
}

/* Few numbers of the lanes stay in registers while the steps go by. */
void attention_keep_lanes(struct lower_attention_grid *g, uint32_t source)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    const struct lower_attention_source *s = &a->source[source];
    int64_t chunk = chunk_of(g, s->lanes.length);
    struct lower_pos zero = attention_zero(), number = zero;
    if (!g->unit || s->lanes.length > MOST_KEPT) return;
    g->kept[source] = nest_reg(&l->b, IR_U32, (uint32_t)(UNIT_LEFT * chunk / NEST_UNIT_STEPS), true, 0);
    uint32_t depth = l->b.depth;
    struct lower_attention_stage stage = stage_of(g, &s->lanes, &a->first, a->extent, true, a->width, chunk,
                                                  g->local[0]);
    fetch(g, &stage, &zero);
    put(g, &stage);
    nest_var turn = lower_open(l, NEST_UNROLL, chunk / NEST_UNIT_STEPS);
    struct lower_pos word = attention_var(l, turn, NEST_UNIT_STEPS / 2);
    lower_pos_add_term(l, &number, turn, UNIT_LEFT);
    take_unit(g, &g->lanes, &stage, &word, g->kept[source], &number);
    nest_close_to(&l->b, depth);
}

void attention_make_scores(struct lower_attention_grid *g, uint32_t source)
{
    struct lower_attention *a = g->a;
    const struct lower_attention_source *s = &a->source[source];
    const struct lower_attention_side *steps = &a->block[s->block].side;
    bool kept = g->unit && s->lanes.length <= MOST_KEPT;
    int64_t chunk = chunk_of(g, steps->length);
    struct lower_attention_stage stage;
    struct left left = {.kept = g->kept[source], .pieces = 1};
    if (!kept) {
        stage = stage_of(g, &s->lanes, &a->first, a->extent, true, a->width, chunk, g->local[0]);
        left.stage = &stage;
    }
    struct lower_attention_stage right = stage_of(g, steps, &a->step, a->walked, true, a->steps, chunk, g->local[1]);
    g->scores[source] = nest_reg(&a->l->b, a->sum, (uint32_t)(attention_own(&g->lanes) * attention_own(&g->steps)),
                                 true, 0);
    multiply_all(g, &right, false, &left, steps->length, &g->steps, g->scores[source]);
}

/* ---------------------------------------------------------------- sums */

/* All steps at once where weights are in registers, which have no addresses. */
struct lower_attention_stage attention_begin_sums(struct lower_attention_grid *g, uint32_t sink)
{
    struct lower_attention *a = g->a;
    struct lower_pos zero = attention_zero();
    struct lower_attention_stage right = stage_of(g, &a->block[a->sink[sink].block].side, &a->step, a->walked, false,
                                                  attention_size(&g->made[sink]), g->unit ? a->steps : CHUNK,
                                                  g->local[1]);
    fetch(g, &right, &zero);
    return right;
}

void attention_add_sums(struct lower_attention_grid *g, uint32_t sink, const struct lower_attention_stage *right)
{
    uint32_t tile = g->a->sink[sink].tile;
    struct left left = {.tile = tile};
    if (g->unit) {
        left = (struct left){
            .kept = g->weights[tile], .pieces = g->pieces[tile], .apart = (uint32_t)(2 * g->steps.groups)};
    }
    multiply_all(g, right, true, &left, g->a->steps, &g->made[sink], g->sums[sink]);
}
