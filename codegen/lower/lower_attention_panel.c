/* Operands of attention for a GPU's matrix unit: panels of shared memory, which is where lanes' operands wait, and
 * those of the steps by a tile each. What stands in memory as it is wanted is copied by nobody's registers (NEST_COPY),
 * the tile behind while one is multiplied. A row of a panel is a row of the operand, so scores, which contract what is
 * inside of rows, and sums, which contract the rows themselves, read the same panel (NEST_TAKE), also where both are
 * made with one operand, as gradients are. Weights come from the registers in which they were made: the sums of two
 * tiles of columns are, as pairs, a tile of the left operand (Dao, "FlashAttention-2", 2023). Weights of float32 are
 * up to three numbers of 16 bits each, whose products are as exact. */
#include "codegen/lower/lower_attention_grid.h"

enum {
    MOST_KEPT = ATTENTION_KEPT * NEST_UNIT_STEPS, /* numbers of a lane that stay in registers while the steps go by */
    FEW = 4,                                      /* words of 16 bytes */
    UNIT_LEFT = 4,                                /* registers of a left operand */
    MOST_BYTES = 96 << 10                         /* of panels: what every GPU since sm_80 gives a block */
};

static int64_t words_of(const struct lower_attention_panel *p) { return p->parts * p->rows * p->part / 2; }

/* Neighbours of an operand as 16 bytes of memory, so that they may be copied. */
static bool may_copy(const struct lower_attention_grid *g, const struct lower_attention_side *side)
{
    const struct lower *l = g->a->l;
    const struct lower_attention_run *runs[] = {&side->inner, &side->batch, &side->along};
    const int64_t few = 2 * FEW;
    uint32_t last = side->inner.count - 1;
    if (!side->inner.count || side->inner.stride[last] != 1 || side->inner.extent[last] % few) return false;
    for (int r = 0; r < 3; r++)
        for (uint32_t i = 0; i < runs[r]->count; i++)
            if (runs[r]->stride[i] % few && (r || i != last)) return false;
    return lower_stands(l, side->value) && lower_side_by_side(l, side->value, few) &&
           ir_type(l->f, side->value)->dtype == g->kind;
}

static struct lower_attention_panel panel_of(const struct lower_attention_grid *g,
                                             const struct lower_attention_side *side, int64_t rows)
{
    int64_t columns = (side->length + NEST_UNIT_STEPS - 1) / NEST_UNIT_STEPS * NEST_UNIT_STEPS;
    struct lower_attention_panel p = {.side = side, .rows = rows, .part = NEST_PANEL};
    while (columns % p.part) p.part /= 2;
    p.parts = columns / p.part;
    p.copied = may_copy(g, side) && rows * p.part / 2 / FEW >= ATTENTION_THREADS;
    return p;
}

static bool is_kept(const struct lower_attention_source *s) { return s->lanes.length <= MOST_KEPT; }

bool attention_choose_panels(struct lower_attention_grid *g, int64_t others)
{
    const struct lower_attention *a = g->a;
    int64_t lanes = 0, steps = 0;
    for (uint32_t i = 0; i < a->sources; i++) {
        g->lanes_panel[i] = panel_of(g, &a->source[i].lanes, a->width);
        lanes += words_of(&g->lanes_panel[i]);
    }
    for (uint32_t i = 0; i < a->block_count; i++) {
        g->panel[i] = panel_of(g, &a->block[i].side, a->steps);
        steps += words_of(&g->panel[i]);
    }
    for (g->stages = 2; g->stages > 0; g->stages--)
        if (4 * (lanes + g->stages * steps) + others <= MOST_BYTES) return true;
    return false;
}

void attention_declare_panels(struct lower_attention_grid *g)
{
    const struct lower_attention *a = g->a;
    struct nest_builder *b = &a->l->b;
    for (uint32_t i = 0; i < a->sources; i++) {
        struct lower_attention_panel *p = &g->lanes_panel[i];
        p->local = nest_panel(b, words_of(p), p->part);
        for (int64_t k = 0; k < p->parts * p->part && is_kept(&a->source[i]); k += NEST_UNIT_STEPS)
            g->kept[i][k / NEST_UNIT_STEPS] = nest_reg(b, IR_U32, UNIT_LEFT, true, 0);
    }
    for (uint32_t i = 0; i < a->block_count; i++)
        g->panel[i].local = nest_panel(b, g->stages * words_of(&g->panel[i]), g->panel[i].part);
}

/* ---------------------------------------------------------------- to shared memory */

static nest_value number_at(struct lower_attention_grid *g, const struct lower_attention_panel *p,
                            const struct lower_pos *row, struct lower_pos column)
{
    struct lower *l = g->a->l;
    nest_value outside = l->cond;
    l->cond = lower_and(l, l->cond, lower_pos_inside(l, &column, p->side->length));
    nest_value value = attention_operand(g->a, p->side, row, &column, g->kind);
    if (!lower_is_loaded(l, value)) value = attention_masked(g, value, 0);
    l->cond = outside;
    return value;
}

/* Neighbouring threads have neighbours in memory: what is copied at a time, or a word, of a row each, then of the next
 * rows; or, where columns lie so, of a column. What is outside of the operand is 0. `first`: row 0 of the tile, of
 * `extent` rows; `to`: where the panel begins. */
static void move(struct lower_attention_grid *g, const struct lower_attention_panel *p, const struct lower_pos *first,
                 int64_t extent, const struct lower_pos *to)
{
    struct lower *l = g->a->l;
    const struct lower_attention_run *inner = &p->side->inner;
    bool by_rows = !inner->count || inner->stride[inner->count - 1] == 1;
    uint32_t depth = l->b.depth;
    int64_t words = p->copied ? FEW : 1, across = p->part / 2 / words, fast = by_rows ? across : p->rows,
            slow = by_rows ? p->rows : across;
    int64_t together = lower_common_factor(fast, ATTENTION_THREADS), apart = ATTENTION_THREADS / together;
    if (apart > slow) BUG("a panel that is too small for its threads");
    nest_var part = lower_open(l, NEST_UNROLL, p->parts), outer = lower_open(l, NEST_UNROLL, slow / apart),
             turn = lower_open(l, NEST_UNROLL, fast / together);
    attention_open_threads(g);
    struct lower_pos x = attention_zero(), y = x, *unit = by_rows ? &x : &y, *row = by_rows ? &y : &x;
    attention_digit(g, &x, 1, together, 1);
    attention_digit(g, &y, together, apart, 1);
    lower_pos_add_term(l, &x, turn, together);
    lower_pos_add_term(l, &y, outer, apart);
    struct lower_pos column = attention_zero(), place = *to, along = attention_plus(l, row, first, 1);
    lower_pos_add(l, &place, row, p->part / 2);
    lower_pos_add(l, &place, unit, words);
    lower_pos_add_term(l, &place, part, p->rows * p->part / 2);
    lower_pos_add(l, &column, unit, 2 * words);
    lower_pos_add_term(l, &column, part, p->part);
    l->cond = lower_pos_inside(l, &along, extent);
    nest_value number = number_at(g, p, &along, column);
    if (p->copied) {
        const struct lower_loaded *loaded = lower_loaded_of(l, number);
        if (!loaded) BUG("an operand that does not stand in memory");
        l->cond = lower_and(l, l->cond, lower_pos_inside(l, &column, p->side->length));
        nest_copy(&l->b, p->local, lower_pos_index(l, &place), loaded->buffer, lower_pos_index(l, &loaded->at),
                  l->cond);
    } else {
        column.offset++;
        number = lower_halves(l, number, number_at(g, p, &along, column));
        nest_store(&l->b, p->local, lower_pos_index(l, &place), number, 0);
    }
    attention_leave(g, depth);
}

/* Where tile number `tile` of the steps stands in a panel. */
static struct lower_pos stage_of(struct lower_attention_grid *g, const struct lower_attention_panel *p,
                                 const struct lower_pos *tile)
{
    struct lower_pos at = attention_zero();
    if (g->stages == 1 || !(tile->term_count || tile->scaled_count)) return at;
    lower_pos_add_scaled(g->a->l, &at, lower_pos_rest(g->a->l, tile, g->stages), words_of(p), g->stages - 1);
    return at;
}

void attention_move_lanes(struct lower_attention_grid *g)
{
    const struct lower_attention *a = g->a;
    struct lower_pos zero = attention_zero();
    nest_arrived(&a->l->b, 0); /* all are done with the lanes before */
    for (uint32_t i = 0; i < a->sources; i++) move(g, &g->lanes_panel[i], &a->first, a->extent, &zero);
    nest_copies(&a->l->b);
}

void attention_move_steps(struct lower_attention_grid *g, const struct lower_pos *tile)
{
    const struct lower_attention *a = g->a;
    struct lower_pos first = attention_zero();
    lower_pos_add(a->l, &first, tile, a->steps);
    for (uint32_t i = 0; i < a->block_count; i++) {
        struct lower_pos to = stage_of(g, &g->panel[i], tile);
        move(g, &g->panel[i], &first, a->walked, &to);
    }
}

/* ---------------------------------------------------------------- products */

/* So many rows of a panel, as what is contracted: columns `from` of it on. */
static void take_rows(struct lower_attention_grid *g, const struct lower_attention_panel *p, bool left, int64_t from,
                      struct lower_pos at, uint32_t reg)
{
    at.offset += from / p->part * p->rows * p->part / 2;
    struct nest_take take = {.left = left,
                             .steps_first = true,
                             .from = p->local,
                             .size = left ? NEST_UNIT_ROWS : p->rows,
                             .by = 1,
                             .count = left ? ATTENTION_THREADS / 32 : 1,
                             .steps = p->part,
                             .step = from % p->part,
                             .at = lower_pos_index(g->a->l, &at)};
    nest_take(&g->a->l->b, reg, &take);
}

/* All columns of a panel, of which rows `from` on are contracted. */
static void take_columns(struct lower_attention_grid *g, const struct lower_attention_panel *p, int64_t from,
                         const struct lower_pos *at, uint32_t reg)
{
    struct nest_take take = {.from = p->local,
                             .size = p->parts * p->part,
                             .by = 1,
                             .count = 1,
                             .steps = p->rows,
                             .step = from,
                             .at = lower_pos_index(g->a->l, at)};
    nest_take(&g->a->l->b, reg, &take);
}

void attention_keep_lanes(struct lower_attention_grid *g)
{
    const struct lower_attention *a = g->a;
    bool any = false;
    for (uint32_t i = 0; i < a->sources; i++) {
        const struct lower_attention_panel *p = &g->lanes_panel[i];
        if (!is_kept(&a->source[i])) continue;
        if (!any) nest_arrived(&a->l->b, 1); /* but for the first steps */
        any = true;
        for (int64_t k = 0; k < p->parts * p->part; k += NEST_UNIT_STEPS)
            take_rows(g, p, true, k, attention_zero(), g->kept[i][k / NEST_UNIT_STEPS]);
    }
}

void attention_multiply_rows(struct lower_attention_grid *g, uint32_t source, const struct lower_pos *tile)
{
    struct lower_attention *a = g->a;
    const struct lower_attention_source *s = &a->source[source];
    const struct lower_attention_panel *lanes = &g->lanes_panel[source], *p = &g->panel[s->block];
    struct lower_pos at = stage_of(g, p, tile);
    g->scores[source] = nest_reg(&a->l->b, a->sum, (uint32_t)(attention_own(&g->lanes) * attention_own(&g->steps)),
                                 true, 0);
    for (int64_t k = 0; k < p->parts * p->part; k += NEST_UNIT_STEPS) {
        uint32_t left = is_kept(s) ? g->kept[source][k / NEST_UNIT_STEPS] : g->lanes.reg;
        if (!is_kept(s)) take_rows(g, lanes, true, k, attention_zero(), left);
        take_rows(g, p, false, k, at, g->steps.reg);
        nest_matrix(&a->l->b, g->kind, g->scores[source], left, g->steps.reg);
    }
}

/* Weights of a piece, turn `turn` of what is contracted, to where a product takes them. */
static void take_weights(struct lower_attention_grid *g, uint32_t tile, uint32_t piece, int64_t turn)
{
    struct lower *l = g->a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos number = attention_var(l, lower_open(l, NEST_UNROLL, UNIT_LEFT), 1), of = number;
    attention_open_threads(g);
    of.offset += turn * UNIT_LEFT + piece * 2 * g->steps.groups;
    nest_set(&l->b, g->lanes.reg, lower_pos_index(l, &number),
             nest_get(&l->b, g->weights[tile], lower_pos_index(l, &of)));
    nest_close_to(&l->b, depth);
}

void attention_add_columns(struct lower_attention_grid *g, uint32_t sink, const struct lower_pos *tile)
{
    struct lower_attention *a = g->a;
    const struct lower_attention_sink *s = &a->sink[sink];
    const struct lower_attention_panel *p = &g->panel[s->block];
    struct lower_pos at = stage_of(g, p, tile);
    for (int64_t k = 0; k < a->steps; k += NEST_UNIT_STEPS) {
        take_columns(g, p, k, &at, g->made[sink].reg);
        for (uint32_t piece = 0; piece < g->pieces[s->tile]; piece++) {
            take_weights(g, s->tile, piece, k / NEST_UNIT_STEPS);
            nest_matrix(&a->l->b, g->kind, g->sums[sink], g->lanes.reg, g->made[sink].reg);
        }
    }
}
