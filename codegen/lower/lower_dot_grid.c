/* Contractions on a GPU: every block makes tiles of the output, its threads a piece of the tile each.
 *
 *   parallel   tiles: batch x rows x columns
 *     stage    the next `STEPS` of k of both operands on their way from memory, in registers
 *     serial   blocks of k
 *       store  what has come to shared memory; fetch the block behind it meanwhile
 *       unroll steps: a few rows and columns to registers, all their products
 *     then the element-wise work on the thread's piece, and the store
 *
 * A piece is groups of GROUP neighbours: a thread's columns are so far apart that the threads of a warp read shared
 * memory, and write their results, side by side. Where tiles stick out, what is outside is neither read nor written. */
#include "codegen/lower/lower_dot.h"
#include <string.h>

enum {
    THREADS = 128,
    DOWN = 16,       /* threads along the rows of a tile */
    ACROSS = 8,      /* and along its columns */
    GROUP = 4,       /* neighbours of a thread: a load of 16 bytes */
    STEPS = 16,      /* of k that are in shared memory at a time */
    PADDING = GROUP, /* between its rows: other banks */
    LEAST = 16,      /* rows and columns; below, tiles would be mostly empty */
    LEAST_STEPS = 8,
    FULL = 264 /* tiles that keep a large GPU busy */
};

/* Groups of a thread along rows and columns, the largest first: operands are read the less often. */
static const struct {
    uint32_t rows, columns;
} pieces[] = {{2, 2}, {1, 2}, {1, 1}};

struct side { /* of a tile: an operand's rows, or columns */
    const struct lower_dot_operand *operand;
    uint32_t axis, groups;
    int64_t extent; /* of the axis */
    int64_t size;   /* of the tile */
    int64_t apart;  /* from one group of a thread to the next */
    bool steps_first;
    uint32_t staged, local, reg;
    struct lower_pos start; /* of the tile */
};

struct grid {
    struct lower_dot_product *p;
    struct side rows, columns;
    uint32_t sum;
    nest_var thread;
};

/* Read where it stands, or made element by element: behind views, whose places digits tell. */
static bool plain(const struct lower *l, const struct lower_dot_operand *o)
{
    for (ir_value v = o->value;; v = ir_get(l->f, v)->args[0]) {
        enum ir_op op = (enum ir_op)ir_get(l->f, v)->op;
        if (l->argument[v] || ir_is_ewise(op)) return true;
        if (op != OP_reshape && op != OP_transpose && op != OP_broadcast && op != OP_slice) return false;
    }
}

bool dot_wants_grid(const struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    const struct lower_axis *axes = l->axes;
    return l->target->cuda && !p->leaf && !p->pairs && !p->columns && !p->shared_rows && plain(l, &p->x) &&
           plain(l, &p->y) && axes[AXIS_M].extent >= LEAST && axes[AXIS_N].extent >= LEAST &&
           axes[AXIS_K].extent >= LEAST_STEPS;
}

/* ---------------------------------------------------------------- positions */

/* A part of what a vector loop's variable counts. */
static void add_digit(struct grid *g, struct lower_pos *at, int64_t by, int64_t count, int64_t scale)
{
    struct lower *l = g->p->l;
    struct lower_pos thread = lower_pos_constant(0);
    lower_pos_add_term(l, &thread, g->thread, 1);
    if (by == 1 && count == THREADS) {
        lower_pos_add(l, at, &thread, scale);
        return;
    }
    nest_value digit = lower_pos_value(l, &thread);
    if (by > 1) digit = lower_binary(l, OP_div, IR_I32, digit, lower_number(l, by));
    if (by * count < THREADS) digit = lower_binary(l, OP_rem, IR_I32, digit, lower_number(l, count));
    lower_pos_add_scaled(l, at, digit, scale, count - 1);
}

/* A position that may be outside of its axis: then the condition is false, so that it may be taken to be inside. */
static struct lower_pos inside(struct lower *l, const struct lower_pos *p, int64_t extent)
{
    int64_t low, high;
    lower_pos_range(l, p, &low, &high);
    if (high < extent) return *p;
    nest_value at = lower_pos_value(l, p);
    struct lower_pos out = lower_pos_constant(0);
    l->cond = lower_and(l, l->cond, lower_binary(l, OP_lt, IR_BOOL, at, lower_number(l, extent)));
    lower_pos_add_scaled(l, &out, at, 1, extent - 1);
    return out;
}

/* ---------------------------------------------------------------- staging */

/* The element of the stretch of one side that this thread takes in turn `turn`: along the side, and of k. */
static void element(struct grid *g, const struct side *s, nest_var turn, struct lower_pos *along,
                    struct lower_pos *step)
{
    struct lower *l = g->p->l;
    int64_t fast = s->steps_first ? STEPS : s->size;
    struct lower_pos *first = s->steps_first ? step : along, *second = s->steps_first ? along : step;
    *along = *step = lower_pos_constant(0);
    add_digit(g, first, 1, fast, 1);
    if (fast < THREADS) add_digit(g, second, fast, THREADS / fast, 1);
    lower_pos_add_term(l, second, turn, THREADS / fast);
}

static struct nest_index turn_index(struct lower *l, nest_var turn)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, turn, 1);
    return lower_pos_index(l, &at);
}

static nest_var open_turn(struct grid *g, const struct side *s)
{
    nest_var turn = lower_open(g->p->l, NEST_UNROLL, s->size * STEPS / THREADS);
    g->thread = lower_open(g->p->l, NEST_VECTOR, THREADS);
    return turn;
}

/* From memory to registers, by the block of k that begins at `from`. */
static void fetch(struct grid *g, struct side *s, const struct lower_pos *from)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    nest_var turn = open_turn(g, s);
    struct lower_pos along, step;
    element(g, s, turn, &along, &step);
    lower_pos_add(l, &along, &s->start, 1);
    lower_pos_add(l, &step, from, 1);
    p->at[s->axis] = inside(l, &along, s->extent);
    p->at[AXIS_K] = inside(l, &step, l->axes[AXIS_K].extent);
    nest_value value = dot_operand_value(p, s->operand);
    if (l->cond) /* a prologue of what is not read may be anything */
        value = nest_op(&l->b, OP_select, p->sum, (nest_value[]){l->cond, value, nest_number(&l->b, p->sum, 0)}, 3);
    nest_set(&l->b, s->staged, turn_index(l, turn), value);
    l->cond = 0;
    dot_return(p, &before);
}

static struct lower_pos shared(struct grid *g, const struct side *s, const struct lower_pos *step)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add(g->p->l, &at, step, s->size + PADDING);
    return at;
}

/* From registers to shared memory. */
static void put(struct grid *g, const struct side *s)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    nest_var turn = open_turn(g, s);
    struct lower_pos along, step;
    element(g, s, turn, &along, &step);
    struct lower_pos at = shared(g, s, &step);
    lower_pos_add(l, &at, &along, 1);
    nest_store(&l->b, s->local, lower_pos_index(l, &at), nest_get(&l->b, s->staged, turn_index(l, turn)), 0);
    dot_return(g->p, &before);
}

/* ---------------------------------------------------------------- a thread's piece */

/* Its rows or columns: groups of neighbours. */
struct piece {
    nest_var group, neighbour;
};

static struct piece open_piece(struct grid *g, const struct side *s)
{
    struct lower *l = g->p->l;
    struct piece piece = {lower_open(l, NEST_UNROLL, s->groups), 0};
    piece.neighbour = lower_open(l, NEST_UNROLL, GROUP);
    return piece;
}

static struct lower_pos place_of(struct grid *g, const struct side *s, struct piece piece)
{
    struct lower *l = g->p->l;
    struct lower_pos at = lower_pos_constant(0);
    if (s == &g->rows) add_digit(g, &at, ACROSS, DOWN, GROUP);
    else add_digit(g, &at, 1, ACROSS, GROUP);
    lower_pos_add_term(l, &at, piece.group, s->apart);
    lower_pos_add_term(l, &at, piece.neighbour, 1);
    return at;
}

static void add_number(struct lower *l, struct lower_pos *at, struct piece piece, int64_t scale)
{
    lower_pos_add_term(l, at, piece.group, GROUP * scale);
    lower_pos_add_term(l, at, piece.neighbour, scale);
}

static void take(struct grid *g, const struct side *s, const struct lower_pos *step)
{
    struct lower *l = g->p->l;
    struct lower_dot_place before = dot_place(g->p);
    struct piece piece = open_piece(g, s);
    g->thread = lower_open(l, NEST_VECTOR, THREADS);
    struct lower_pos at = shared(g, s, step), place = place_of(g, s, piece), number = lower_pos_constant(0);
    lower_pos_add(l, &at, &place, 1);
    add_number(l, &number, piece, 1);
    nest_set(&l->b, s->reg, lower_pos_index(l, &number), nest_load(&l->b, s->local, lower_pos_index(l, &at), 0));
    dot_return(g->p, &before);
}

/* All products of the thread's rows and columns, or what becomes of their sums. */
static void each_sum(struct grid *g, bool finish)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct piece row = open_piece(g, &g->rows), column = open_piece(g, &g->columns);
    g->thread = lower_open(l, NEST_VECTOR, THREADS);
    struct lower_pos of_row = lower_pos_constant(0), of_column = of_row, of_sum;
    add_number(l, &of_row, row, 1);
    add_number(l, &of_column, column, 1);
    of_sum = of_column;
    lower_pos_add(l, &of_sum, &of_row, g->columns.groups * GROUP);
    struct nest_index index = lower_pos_index(l, &of_sum);
    nest_value sum = nest_get(&l->b, g->sum, index);
    if (finish) {
        struct lower_pos down = place_of(g, &g->rows, row), across = place_of(g, &g->columns, column);
        lower_pos_add(l, &down, &g->rows.start, 1);
        lower_pos_add(l, &across, &g->columns.start, 1);
        p->at[AXIS_M] = inside(l, &down, g->rows.extent);
        p->at[AXIS_N] = inside(l, &across, g->columns.extent);
        dot_finish(p, sum);
        l->cond = 0;
    } else {
        nest_value x = nest_get(&l->b, g->rows.reg, lower_pos_index(l, &of_row));
        nest_value y = nest_get(&l->b, g->columns.reg, lower_pos_index(l, &of_column));
        nest_set(&l->b, g->sum, index, dot_multiply_add(p, x, y, sum));
    }
    dot_return(p, &before);
}

/* ---------------------------------------------------------------- the whole */

static struct side side_of(struct lower_dot_product *p, const struct lower_dot_operand *o, uint32_t axis,
                           uint32_t groups)
{
    struct side s = {.operand = o, .axis = axis, .groups = groups, .extent = p->l->axes[axis].extent};
    uint32_t k = o->count[AXIS_K];
    s.apart = (axis == AXIS_M ? DOWN : ACROSS) * GROUP;
    s.size = s.apart * groups;
    s.steps_first = k && o->run[AXIS_K][k - 1].stride == 1; /* where it is read side by side */
    return s;
}

static int64_t tiles_of(const struct side *s) { return (s->extent + s->size - 1) / s->size; }

/* The largest pieces that make enough tiles, else the smallest: also where sums take two registers. */
static void choose_piece(struct grid *g)
{
    struct lower_dot_product *p = g->p;
    bool wide = ir_dtype_bytes(p->sum) > 4;
    for (size_t i = 0, last = sizeof pieces / sizeof *pieces - 1; i <= last; i++) {
        g->rows = side_of(p, &p->x, AXIS_M, pieces[i].rows);
        g->columns = side_of(p, &p->y, AXIS_N, pieces[i].columns);
        if (!wide && tiles_of(&g->rows) * tiles_of(&g->columns) * p->l->axes[AXIS_B].extent >= FULL) return;
    }
}

static void declare(struct grid *g, struct side *s)
{
    struct lower_dot_product *p = g->p;
    struct nest_builder *b = &p->l->b;
    s->staged = nest_reg(b, p->sum, (uint32_t)(s->size * STEPS / THREADS), true, 0);
    s->reg = nest_reg(b, p->sum, s->groups * GROUP, true, 0);
}

/* Number `tile` of all: the batch outermost, then columns; the tiles of a few rows follow each other, so that what
 * they share is still in the second cache. */
static void open_tiles(struct grid *g)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    int64_t shape[] = {l->axes[AXIS_B].extent, tiles_of(&g->columns), tiles_of(&g->rows)};
    struct lower_pos tile = lower_pos_constant(0), at[3];
    l->b.nest->parallel_extent = shape[0] * shape[1] * shape[2];
    lower_pos_add_term(l, &tile, lower_open(l, NEST_PARALLEL, l->b.nest->parallel_extent), 1);
    lower_pos_split(l, &tile, 3, shape, at);
    p->at[AXIS_B] = at[0];
    g->columns.start = g->rows.start = lower_pos_constant(0);
    lower_pos_add(l, &g->columns.start, &at[1], g->columns.size);
    lower_pos_add(l, &g->rows.start, &at[2], g->rows.size);
}

void dot_grid(struct lower_dot_product *p)
{
    struct lower *l = p->l;
    struct grid g = {.p = p};
    struct side *sides[] = {&g.rows, &g.columns};
    int64_t blocks = (l->axes[AXIS_K].extent + STEPS - 1) / STEPS;
    choose_piece(&g);
    for (int i = 0; i < 2; i++)
        sides[i]->local = nest_local(&l->b, p->sum, STEPS * (sides[i]->size + PADDING) - PADDING);
    open_tiles(&g);
    g.sum = nest_reg(&l->b, p->sum, g.rows.groups * g.columns.groups * GROUP * GROUP, true, 0);
    for (int i = 0; i < 2; i++) declare(&g, sides[i]);
    struct lower_pos from = lower_pos_constant(0);
    for (int i = 0; i < 2; i++) fetch(&g, sides[i], &from);
    struct lower_dot_place before = dot_place(p);
    nest_var block = lower_open(l, NEST_SERIAL, blocks);
    for (int i = 0; i < 2; i++) put(&g, sides[i]);
    from.offset = STEPS;
    lower_pos_add_term(l, &from, block, STEPS);
    for (int i = 0; i < 2 && blocks > 1; i++) fetch(&g, sides[i], &from);
    struct lower_pos step = lower_pos_constant(0);
    lower_pos_add_term(l, &step, lower_open(l, NEST_UNROLL, STEPS), 1);
    for (int i = 0; i < 2; i++) take(&g, sides[i], &step);
    each_sum(&g, false);
    dot_return(p, &before);
    each_sum(&g, true);
    nest_close_to(&l->b, 0);
}
