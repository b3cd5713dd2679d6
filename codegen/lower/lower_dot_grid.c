/* Contractions on a GPU: every block makes tiles of the output, its threads a piece of the tile each.
 *
 *   parallel   tiles: batch x columns x rows
 *     stage    the first steps of k of both operands on their way from memory, in registers
 *     serial   blocks of k
 *       store  what has come to shared memory; fetch the block behind it meanwhile
 *       unroll steps: what a thread needs of both to registers, all its products
 *     then the element-wise work on the thread's piece, and the store
 *
 * With float32, and what else has no matrix unit, a piece is groups of up to GROUP neighbours: a thread's columns are
 * so far apart that the threads of a warp read shared memory, and write their results, side by side. Of 16 bits a warp
 * has rows and columns of its own, whose sums its threads hold as the matrix unit makes them.
 *
 * Wider than WIDE, these come by panels of shared memory, which hold several blocks of k (NEST_TAKE): operands that
 * stand in memory as they are wanted are copied there by nobody's registers (NEST_COPY), two blocks ahead, others wait
 * in registers as above; a block has one barrier. So do products of warpgroups (NEST_WARPGROUP), of which two are under
 * way at a time, so that they have a stage more. For few columns, threads read what the matrix unit wants one by one
 * (NEST_MATRIX). Before sm_80 there is none, and 16 bits are multiplied as float32.
 *
 * Where tiles stick out, what is outside is neither read nor written. A result with few rows or few columns has narrow
 * tiles, whose columns they are. The taps of a convolution are read where they stand in the image: their places are
 * divided into digits. */
#include "codegen/lower/lower_dot_grid.h"

enum {
    GROUP = GRID_GROUP,
    MANY_SUMS = 64, /* of a thread */
    COLUMNS_AT_ONCE = 64,
    TOGETHER = 16,     /* tiles of rows, at most, that follow each other */
    LEAST_WORK = 2048, /* products; of fewer a tile would be mostly empty */
    FEW_PARTS = 8      /* of a concatenation, each of which an element asks whether it is its own */
};

/* Read where it stands, or made element by element, but not of many parts that lie anywhere. */
static bool plain(const struct lower *l, ir_value v)
{
    for (;; v = ir_get(l->f, v)->args[0]) {
        const struct ir_node *n = ir_get(l->f, v);
        if (l->argument[v] || ir_is_ewise((enum ir_op)n->op) || !n->arg_count) return true;
        if (n->op == OP_concat && n->arg_count > FEW_PARTS) return plan_taps_of(l->plan, l->f, v);
    }
}

bool dot_wants_grid(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    int64_t work = 1;
    for (int axis = AXIS_B; axis <= AXIS_K; axis++) work *= l->axes[axis].extent;
    return l->target->cuda && !p->leaf && !p->pairs && !p->columns && !p->shared_rows && plain(l, p->x.value) &&
           plain(l, p->y.value) && work >= LEAST_WORK;
}

/* ---------------------------------------------------------------- a thread's piece */

/* Its rows or columns. */
struct piece {
    nest_var outer, inner;
};

static struct piece open_piece(struct lower_dot_grid *g, const struct lower_dot_side *s)
{
    struct piece piece = {lower_open(g->p->l, NEST_UNROLL, s->loop[0].extent), 0};
    piece.inner = lower_open(g->p->l, NEST_UNROLL, s->loop[1].extent);
    return piece;
}

static struct lower_pos place_of(struct lower_dot_grid *g, const struct lower_dot_side *s, struct piece piece)
{
    struct lower *l = g->p->l;
    struct lower_pos at = lower_pos_constant(0);
    for (int i = 0; i < 2; i++)
        if (s->digit[i].count) grid_add_digit(g, &at, s->digit[i].by, s->digit[i].count, s->digit[i].place);
    lower_pos_add_term(l, &at, piece.outer, s->loop[0].place);
    lower_pos_add_term(l, &at, piece.inner, s->loop[1].place);
    return at;
}

static void add_number(struct lower *l, struct lower_pos *at, struct piece piece, int64_t outer, int64_t inner)
{
    lower_pos_add_term(l, at, piece.outer, outer);
    lower_pos_add_term(l, at, piece.inner, inner);
}

/* One step of k of a thread's rows or columns. */
static void take(struct lower_dot_grid *g, const struct lower_dot_side *s, const struct lower_pos *step)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    struct piece piece = open_piece(g, s);
    g->thread = lower_open(l, NEST_VECTOR, g->threads);
    struct lower_pos place = place_of(g, s, piece), number = lower_pos_constant(0),
                     at = grid_shared(g, s, &place, step);
    add_number(l, &number, piece, s->loop[1].extent, 1);
    nest_set(&l->b, s->reg, lower_pos_index(l, &number), nest_load(&l->b, s->local, lower_pos_index(l, &at), 0));
    dot_return(g->p, &before);
}

/* The steps of k that the matrix unit takes at a time: pairs, of left tiles for each of two rows. */
static void take_unit(struct lower_dot_grid *g, const struct lower_dot_side *s, const struct lower_pos *step)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    bool left = s == &g->rows;
    nest_var outer = lower_open(l, NEST_UNROLL, s->loop[0].extent), late = lower_open(l, NEST_UNROLL, 2),
             row = lower_open(l, NEST_UNROLL, left ? 2 : 1);
    g->thread = lower_open(l, NEST_VECTOR, g->threads);
    struct lower_pos place = lower_pos_constant(0), number = place, of = *step;
    const int warp = left ? 0 : 1;
    if (s->digit[warp].count) grid_add_digit(g, &place, s->digit[warp].by, s->digit[warp].count, s->digit[warp].place);
    grid_add_digit(g, &place, 4, 8, 1);
    grid_add_digit(g, &of, 1, 4, s->word_steps);
    lower_pos_add_term(l, &of, late, NEST_UNIT_STEPS / 2);
    lower_pos_add_term(l, &place, outer, s->loop[0].place);
    lower_pos_add_term(l, &place, row, 8);
    lower_pos_add_term(l, &number, outer, left ? 4 : 2);
    lower_pos_add_term(l, &number, late, left ? 2 : 1);
    lower_pos_add_term(l, &number, row, 1);
    struct lower_pos at = grid_shared(g, s, &place, &of);
    nest_set(&l->b, s->reg, lower_pos_index(l, &number), nest_load(&l->b, s->local, lower_pos_index(l, &at), 0));
    dot_return(g->p, &before);
}

/* Numbers of the thread's registers for a row and a column. */
static struct lower_pos number_of_sum(struct lower_dot_grid *g, struct piece row, struct piece column)
{
    struct lower_pos at = lower_pos_constant(0);
    add_number(g->p->l, &at, row, g->rows.loop[0].number, g->rows.loop[1].number);
    add_number(g->p->l, &at, column, g->columns.loop[0].number, g->columns.loop[1].number);
    return at;
}

/* All products of the thread's rows and columns. */
static void each_sum(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    struct lower_dot_side *r = &g->rows, *c = &g->columns;
    struct piece row = open_piece(g, r), column = open_piece(g, c);
    g->thread = lower_open(l, NEST_VECTOR, g->threads);
    struct lower_pos of_row = lower_pos_constant(0), of_column = of_row, of_sum = number_of_sum(g, row, column);
    add_number(l, &of_row, row, r->loop[1].extent, 1);
    add_number(l, &of_column, column, c->loop[1].extent, 1);
    struct nest_index index = lower_pos_index(l, &of_sum);
    nest_value sum = nest_get(&l->b, g->sum, index);
    nest_value x = nest_get(&l->b, r->reg, lower_pos_index(l, &of_row));
    nest_value y = nest_get(&l->b, c->reg, lower_pos_index(l, &of_column));
    nest_set(&l->b, g->sum, index, dot_multiply_add(g->p, x, y, sum));
    dot_return(g->p, &before);
}

/* What becomes of a sum, `beside` places behind the ones of its loops along a side. */
static struct lower_dot_end end_of(struct lower_dot_grid *g, struct piece row, struct piece column,
                                   const struct lower_dot_side *along, int64_t beside)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    struct lower_dot_side *r = &g->rows, *c = &g->columns;
    struct lower_pos down = place_of(g, r, row), across = place_of(g, c, column), of = number_of_sum(g, row, column);
    lower_pos_add(l, &down, &r->start, 1);
    lower_pos_add(l, &across, &c->start, 1);
    (along == r ? &down : &across)->offset += beside * along->loop[1].place;
    of.offset += beside * along->loop[1].number;
    p->at[r->axis] = grid_inside(l, &down, r->extent);
    p->at[c->axis] = grid_inside(l, &across, c->extent);
    struct lower_dot_end end = dot_end(p, nest_get(&l->b, g->sum, lower_pos_index(l, &of)));
    l->cond = 0;
    return end;
}

/* All sums by so many places, which those before them leave. */
static void move_up(struct lower_dot_grid *g, int64_t places)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    int64_t all = g->rows.size * g->columns.size / g->threads;
    nest_var number = lower_open(l, NEST_UNROLL, all - places);
    lower_open(l, NEST_VECTOR, g->threads);
    struct lower_pos to = lower_pos_constant(0), from = lower_pos_constant(places);
    lower_pos_add_term(l, &to, number, 1);
    lower_pos_add_term(l, &from, number, 1);
    nest_set(&l->b, g->sum, lower_pos_index(l, &to), nest_get(&l->b, g->sum, lower_pos_index(l, &from)));
    dot_return(g->p, &before);
}

/* Neighbours of a thread together, so that each of their loads and stores may be one access. Many sums go by in a loop,
 * whose code is there once, as much of it as there was for smaller tiles: of the matrix unit's rows one after the
 * other, of warpgroups, which have few of them, some columns. Registers have no addresses, so the sums move to where
 * the loop has them. */
static void finish(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    struct lower_dot_side *by = g->warpgroups ? &g->columns : &g->rows;
    int64_t all = by->loop[0].extent, each = g->warpgroups ? COLUMNS_AT_ONCE / NEST_UNIT_COLUMNS : 1;
    bool loops = g->panels && g->rows.size * g->columns.size / g->threads >= MANY_SUMS && each < all;
    if (loops) {
        by->loop[0].extent = each;
        lower_pos_add_term(l, &by->start, lower_open(l, NEST_SERIAL, all / each), each * by->loop[0].place);
    }
    bool down = g->rows.axis == AXIS_N && g->rows.loop[1].place == 1;
    struct lower_dot_side *along = down ? &g->rows : &g->columns, single_rows = g->rows, single_columns = g->columns;
    struct lower_dot_end end[GROUP];
    (down ? &single_rows : &single_columns)->loop[1].extent = 1;
    struct lower_dot_place inside = dot_place(g->p);
    struct piece row = open_piece(g, &single_rows), column = open_piece(g, &single_columns);
    g->thread = lower_open(l, NEST_VECTOR, g->threads);
    for (int64_t i = 0; i < along->loop[1].extent; i++) end[i] = end_of(g, row, column, along, i);
    for (int64_t i = 0; i < along->loop[1].extent; i++) dot_store(g->p, &end[i]);
    dot_return(g->p, &inside);
    if (loops) move_up(g, each * by->loop[0].number);
    dot_return(g->p, &before);
}

/* ---------------------------------------------------------------- blocks of k */

static void declare(struct lower_dot_grid *g, struct lower_dot_side *s)
{
    struct lower_dot_product *p = g->p;
    struct nest_builder *b = &p->l->b;
    int64_t pairs = s->loop[0].extent * (s == &g->rows ? 4 : 2);
    if (!s->copied) s->staged = nest_reg(b, g->unit ? IR_U32 : p->factor, (uint32_t)grid_staged(g, s), true, 0);
    for (int i = 0; i < 2 && g->panels && !g->warpgroups; i++)
        s->parts[i] = nest_reg(b, IR_U32, (uint32_t)((s == &g->rows ? g->warp_rows : g->warp_columns) / 4), true, 0);
    if (g->panels) return;
    s->reg = nest_reg(b, g->unit ? IR_U32 : p->sum, (uint32_t)(g->unit ? pairs : s->loop[0].extent * s->loop[1].extent),
                      true, 0);
}

/* Tiles of rows that go by together for a tile of columns: those that are multiplied at one time then are about as high
 * as they are wide, and read the least that the second cache does not hold. A divisor, so that all are whole. */
static int64_t rows_together(int64_t rows)
{
    int64_t best = 1;
    for (int64_t i = 2; i <= TOGETHER && i <= rows; i++)
        if (rows % i == 0) best = i;
    return 2 * best >= TOGETHER ? best : rows;
}

/* Number `tile` of all: the batch outermost, then some tiles of rows, all columns of these. */
static void open_tiles(struct lower_dot_grid *g)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    int64_t rows = grid_tiles(&g->rows), together = rows_together(rows);
    int64_t shape[] = {l->axes[AXIS_B].extent, rows / together, grid_tiles(&g->columns), together};
    struct lower_pos tile = lower_pos_constant(0), at[4];
    l->b.nest->parallel_extent = shape[0] * shape[1] * shape[2] * shape[3];
    lower_pos_add_term(l, &tile, lower_open(l, NEST_PARALLEL, l->b.nest->parallel_extent), 1);
    lower_pos_split(l, &tile, 4, shape, at);
    p->at[AXIS_B] = at[0];
    g->columns.start = g->rows.start = lower_pos_constant(0);
    lower_pos_add(l, &g->columns.start, &at[2], g->columns.size);
    lower_pos_add(l, &g->rows.start, &at[1], together * g->rows.size);
    lower_pos_add(l, &g->rows.start, &at[3], g->rows.size);
}

/* The products of what is in shared memory. */
static void multiply(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    struct lower_pos step = lower_pos_constant(0);
    int64_t at_once = g->unit ? NEST_UNIT_STEPS : 1, group = g->rows.step_group + g->columns.step_group ? GROUP : 1;
    lower_pos_add_term(l, &step, lower_open(l, NEST_UNROLL, g->steps / at_once / group), at_once * group);
    if (group > 1) lower_pos_add_term(l, &step, lower_open(l, NEST_UNROLL, group), 1);
    for (int i = 0; i < 2; i++) (g->unit ? take_unit : take)(g, sides[i], &step);
    if (g->unit) nest_matrix(&l->b, g->p->factor, g->sum, g->rows.reg, g->columns.reg);
    else each_sum(g);
}

static void fetch_block(struct lower_dot_grid *g, const struct lower_pos *from)
{
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    for (int i = 0; i < 2; i++)
        if (!sides[i]->copied) grid_fetch(g, sides[i], from);
}

static void fetch_next(struct lower_dot_grid *g, nest_var block)
{
    struct lower *l = g->p->l;
    uint32_t depth = l->b.depth;
    if (g->blocks == 1) return;
    struct lower_pos from = lower_next_block(l, block, g->blocks, g->steps);
    fetch_block(g, &from);
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- panels */

/* Where a block stands in the panels of a side. */
static struct lower_pos stage_of(struct lower_dot_grid *g, const struct lower_dot_side *s,
                                 const struct lower_pos *number)
{
    struct lower *l = g->p->l;
    struct lower_pos at = lower_pos_constant(0);
    int64_t words = grid_words(g, s);
    if (number->term_count || number->scaled_count)
        lower_pos_add_scaled(l, &at, lower_pos_rest(l, number, g->stages), words, g->stages - 1);
    else at.offset = number->offset % g->stages * words;
    return at;
}

/* How many blocks are on their way while one is multiplied: the stage of the one before is free, but where its product
 * may go on. */
static int64_t ahead(const struct lower_dot_grid *g) { return g->stages - (g->warpgroups ? 2 : 1); }

/* The copies of a block are a group. */
static void copy_block(struct lower_dot_grid *g, const struct lower_pos *number)
{
    struct lower *l = g->p->l;
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    struct lower_pos from = lower_pos_constant(0);
    lower_pos_add(l, &from, number, g->steps);
    for (int i = 0; i < 2; i++) {
        struct lower_pos to = stage_of(g, sides[i], number);
        if (sides[i]->copied) grid_copy(g, sides[i], &from, &to);
    }
}

static void copy_first(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    uint32_t depth = l->b.depth;
    int64_t all = ahead(g), there = g->blocks < all ? g->blocks : all;
    struct lower_pos number = lower_pos_constant(0);
    lower_pos_add_term(l, &number, lower_open(l, NEST_SERIAL, there), 1);
    copy_block(g, &number);
    nest_copies(&l->b);
    nest_close_to(&l->b, depth);
    for (int64_t i = there; i < all; i++) nest_copies(&l->b);
}

/* What is done while a block is multiplied: copies for the stage of the one before, of nothing for the last ones; of
 * others the next block goes to registers. */
static void begin_next(struct lower_dot_grid *g, nest_var block)
{
    struct lower *l = g->p->l;
    uint32_t depth = l->b.depth;
    bool copied = g->rows.copied || g->columns.copied;
    if (copied && g->blocks > ahead(g)) {
        struct lower_pos number = lower_block_ahead(l, block, g->blocks, ahead(g));
        copy_block(g, &number);
        nest_close_to(&l->b, depth);
    }
    if (copied) nest_copies(&l->b);
    if (!g->rows.copied || !g->columns.copied) fetch_next(g, block);
}

/* Waits for a block; all are done with the one before then. */
static void arrive(struct lower_dot_grid *g, const struct lower_pos *number)
{
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    for (int i = 0; i < 2; i++) {
        struct lower_pos to = stage_of(g, sides[i], number);
        if (!sides[i]->copied) grid_put(g, sides[i], &to);
    }
    if (g->warpgroups) nest_warpgroup_wait(&g->p->l->b, g->sum, 1);
    nest_arrived(&g->p->l->b, ahead(g) - 1);
}

/* What the matrix unit wants of both sides of a block, from `step` on. */
static void take_parts(struct lower_dot_grid *g, const struct lower_pos *number, int64_t step)
{
    struct lower *l = g->p->l;
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    for (int i = 0; i < 2; i++) {
        struct lower_pos at = stage_of(g, sides[i], number);
        struct nest_take take = {.left = i == 0,
                                 .steps_first = sides[i]->steps_first,
                                 .from = sides[i]->local,
                                 .size = i ? g->warp_columns : g->warp_rows,
                                 .by = i ? 1 : g->across,
                                 .count = i ? g->across : g->rows.size / g->warp_rows,
                                 .steps = g->steps,
                                 .step = step,
                                 .at = lower_pos_index(l, &at)};
        nest_take(&l->b, sides[i]->parts[step / NEST_UNIT_STEPS % 2], &take);
    }
}

static void multiply_parts(struct lower_dot_grid *g, int64_t step)
{
    int64_t of = step / NEST_UNIT_STEPS % 2;
    nest_matrix(&g->p->l->b, g->p->factor, g->sum, g->rows.parts[of], g->columns.parts[of]);
}

/* Blocks of k through the stages of shared memory, with one barrier each. Where no other block of threads is there to
 * multiply at a barrier, what comes behind some steps is on its way to registers before these are multiplied, also the
 * first steps of the next block, so that the matrix unit has work at once. Elsewhere that would only take longer to
 * compile. */
static void by_panels(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    struct lower_pos zero = lower_pos_constant(0), number = zero, next;
    nest_arrived(&l->b, 0); /* those of the tile before are done, too */
    if (g->rows.copied || g->columns.copied) copy_first(g);
    fetch_block(g, &zero);
    if (g->alone) {
        arrive(g, &zero);
        take_parts(g, &zero, 0);
    }
    struct lower_dot_place before = dot_place(g->p);
    nest_var block = lower_open(l, NEST_SERIAL, g->blocks);
    uint32_t inside = l->b.depth;
    lower_pos_add_term(l, &number, block, 1);
    if (!g->alone) arrive(g, &number);
    begin_next(g, block);
    for (int64_t step = 0; step < g->steps; step += NEST_UNIT_STEPS) {
        int64_t take = g->alone ? step + NEST_UNIT_STEPS : step;
        if (take < g->steps) {
            take_parts(g, &number, take);
        } else if (g->blocks > 1) {
            next = lower_block_ahead(l, block, g->blocks, 1);
            arrive(g, &next);
            take_parts(g, &next, 0);
        }
        nest_close_to(&l->b, inside);
        multiply_parts(g, step);
    }
    dot_return(g->p, &before);
}

/* The same by warpgroups, which take what they want themselves, and go on. */
static void by_warpgroups(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    struct lower_pos zero = lower_pos_constant(0), number = zero, at[2];
    nest_warpgroup_wait(&l->b, g->sum, 0); /* their zeros are in registers before the first product is begun */
    nest_arrived(&l->b, 0);
    if (g->rows.copied || g->columns.copied) copy_first(g);
    fetch_block(g, &zero);
    struct lower_dot_place before = dot_place(g->p);
    nest_var block = lower_open(l, NEST_SERIAL, g->blocks);
    lower_pos_add_term(l, &number, block, 1);
    arrive(g, &number);
    for (int i = 0; i < 2; i++) at[i] = stage_of(g, sides[i], &number);
    struct nest_panels panels = {.columns = (uint32_t)g->columns.size,
                                 .from = {g->rows.local, g->columns.local},
                                 .steps = g->steps,
                                 .steps_first = {g->rows.steps_first, g->columns.steps_first},
                                 .at = {lower_pos_index(l, &at[0]), lower_pos_index(l, &at[1])}};
    nest_warpgroup(&l->b, g->p->factor, g->sum, &panels);
    begin_next(g, block);
    dot_return(g->p, &before);
    nest_warpgroup_wait(&l->b, g->sum, 0);
}

/* What has come is stored, and the next block fetched while this one is multiplied. */
static void by_words(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    struct lower_pos zero = lower_pos_constant(0);
    fetch_block(g, &zero);
    struct lower_dot_place before = dot_place(g->p);
    nest_var block = lower_open(l, NEST_SERIAL, g->blocks);
    grid_put(g, &g->rows, &zero);
    grid_put(g, &g->columns, &zero);
    fetch_next(g, block);
    multiply(g);
    dot_return(g->p, &before);
}

static uint32_t local_of(struct lower_dot_grid *g, const struct lower_dot_side *s)
{
    struct nest_builder *b = &g->p->l->b;
    if (g->panels) return nest_panel(b, g->stages * grid_words(g, s), s->steps_first ? g->steps : s->part);
    return nest_local(b, g->unit ? IR_U32 : g->p->factor, grid_words(g, s));
}

void dot_grid(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    struct lower_dot_grid g = {.p = p};
    struct lower_dot_side *sides[] = {&g.rows, &g.columns};
    grid_choose_shape(&g);
    l->b.nest->lanes = (uint32_t)g.threads;
    for (int i = 0; i < 2; i++) {
        grid_choose_patch(&g, sides[i]);
        sides[i]->local = local_of(&g, sides[i]);
    }
    open_tiles(&g);
    g.sum = nest_reg(&l->b, p->sum, (uint32_t)(g.rows.size * g.columns.size / g.threads), true, 0);
    for (int i = 0; i < 2; i++) declare(&g, sides[i]);
    (g.warpgroups ? by_warpgroups : g.panels ? by_panels : by_words)(&g);
    finish(&g);
    nest_close_to(&l->b, 0);
}
