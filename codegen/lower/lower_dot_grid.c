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
 * Wider than WIDE, these come by panels of shared memory, which hold several blocks of k (NEST_PANELS): operands that
 * stand in memory as they are wanted are copied there by nobody's registers (NEST_COPY), two blocks ahead, others wait
 * in registers as above; a block has one barrier. So do products of warpgroups (NEST_WARPGROUP), whose panels have two
 * halves, and which go on while the block behind is fetched. Before sm_80, where nothing is copied so, and for few
 * columns, threads read what the matrix unit wants one by one (NEST_MATRIX).
 *
 * Where tiles stick out, what is outside is neither read nor written. A result with few rows or few columns has narrow
 * tiles, whose columns they are. The taps of a convolution are read where they stand in the image: their places are
 * divided into digits. */
#include "codegen/lower/lower_dot_grid.h"

enum {
    THREADS = 128,
    WARP = 32,
    ACROSS = 8, /* threads along the columns of a tile, at most; the others go along its rows */
    GROUP = GRID_GROUP,
    STEPS = 16, /* of k that are in shared memory at a time */
    UNIT_AT_ONCE = 2 * NEST_UNIT_STEPS,
    PADDING = 4,      /* between the rows of shared memory: other banks */
    UNIT_PADDING = 8, /* of 16 bits */
    STAGES = 3, /* blocks of k in shared memory, where they are copied: one is multiplied, the others are under way */
    MANY_SUMS = 64,    /* of a thread */
    TOGETHER = 16,     /* tiles of rows, at most, that follow each other */
    LEAST_WORK = 2048, /* products; of fewer a tile would be mostly empty */
    FEW_PARTS = 8      /* of a concatenation, each of which an element asks whether it is its own */
};

/* Tiles by their columns, the largest first: operands are read the less often. Narrow ones are for at most that many
 * rows or columns. By copies: where registers hold sums and nothing that is on its way. */
enum way { BY_ALL, BY_PANELS, BY_COPIES, BY_WARPGROUPS };
static const struct tile {
    int64_t rows, columns, threads;
    enum way way;
} tiles[] = {{128, 128, 2 * THREADS, BY_WARPGROUPS},
             {128, 256, 2 * THREADS, BY_COPIES},
             {128, 128, THREADS, BY_PANELS},
             {128, 64, THREADS, BY_ALL},
             {64, 64, THREADS, BY_ALL},
             {64, 32, THREADS, BY_ALL},
             {128, 16, THREADS, BY_ALL},
             {64, 16, THREADS, BY_ALL},
             {32, 16, THREADS, BY_ALL},
             {128, 8, THREADS, BY_ALL},
             {64, 8, THREADS, BY_ALL}};
enum { WIDE = 32 };

/* What a multiprocessor does in a cycle: multiply-adds of 16 bits, bytes from and to its shared memory, bytes that come
 * from the second cache (published of sm_80; measured of sm_80 and sm_90 by others). */
enum { HALF = 2, UNIT_RATE = 1024, SHARED_RATE = 128, FAR_RATE = 28, ENOUGH_WARPS = 8 };
#define ALONE 1.33

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

/* Neighbours of a thread together, so that each of their loads and stores may be one access. Of many sums those of the
 * matrix unit's rows go by in a loop, whose code is there once, as much of it as there was for smaller tiles: registers
 * have no addresses, so the sums move to where the loop has them. */
static void finish(struct lower_dot_grid *g)
{
    struct lower_dot_place before = dot_place(g->p);
    bool loops = g->panels && !g->warpgroups && g->rows.size * g->columns.size / g->threads >= MANY_SUMS;
    int64_t places = g->rows.loop[0].number;
    if (loops) g->rows.loop[0].number = 0;
    bool down = g->rows.axis == AXIS_N && g->rows.loop[1].place == 1;
    struct lower_dot_side *along = down ? &g->rows : &g->columns, single_rows = g->rows, single_columns = g->columns;
    struct lower_dot_end end[GROUP];
    (down ? &single_rows : &single_columns)->loop[1].extent = 1;
    nest_var outer = lower_open(g->p->l, loops ? NEST_SERIAL : NEST_UNROLL, single_rows.loop[0].extent);
    struct lower_dot_place inside = dot_place(g->p);
    struct piece row = {outer, lower_open(g->p->l, NEST_UNROLL, single_rows.loop[1].extent)},
                 column = open_piece(g, &single_columns);
    g->thread = lower_open(g->p->l, NEST_VECTOR, g->threads);
    for (int64_t i = 0; i < along->loop[1].extent; i++) end[i] = end_of(g, row, column, along, i);
    for (int64_t i = 0; i < along->loop[1].extent; i++) dot_store(g->p, &end[i]);
    dot_return(g->p, &inside);
    if (loops) move_up(g, places);
    dot_return(g->p, &before);
}

/* ---------------------------------------------------------------- the shape */

/* What a value was before it was made wider. */
static ir_value narrow(const struct lower *l, ir_value v)
{
    const struct ir_node *n = ir_get(l->f, v);
    return !l->argument[v] && n->op == OP_cast && n->type.dtype == IR_F32 ? n->args[0] : v;
}

/* Both operands have the same 16 bits, whatever has become of them: their products are summed in float32. */
static bool find_unit(struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    ir_value x = narrow(l, p->x.value), y = narrow(l, p->y.value);
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, x)->dtype;
    if (p->sum != IR_F32 || (dtype != IR_BF16 && dtype != IR_F16) || ir_type(l->f, y)->dtype != dtype) return false;
    p->x.value = x, p->y.value = y, p->factor = dtype;
    return true;
}

static struct lower_dot_side side_of(struct lower_dot_product *p, uint32_t axis, int64_t size)
{
    const struct lower_dot_operand *o = axis == AXIS_M ? &p->x : &p->y;
    uint32_t k = o->count[AXIS_K];
    return (struct lower_dot_side){.operand = o,
                                   .axis = axis,
                                   .extent = p->l->axes[axis].extent,
                                   .size = size,
                                   .steps_first = k && o->run[AXIS_K][k - 1].stride == 1};
}

/* Where words lie in shared memory. Panels are as NEST_WARPGROUP has them. */
static void place_side(const struct lower_dot_grid *g, struct lower_dot_side *s)
{
    bool turned = g->panels && !s->steps_first;
    s->word_steps = g->unit && !turned ? 2 : 1, s->word_along = turned ? 2 : 1;
    s->part = turned && s->size > NEST_PANEL ? NEST_PANEL : s->size;
    s->along_apart = 1, s->step_apart = s->size + (g->unit ? UNIT_PADDING : PADDING);
    if (g->unit && s->steps_first) s->along_apart = g->steps / 2 + (g->panels ? 0 : PADDING), s->step_apart = 1;
    if (turned) s->step_apart = s->part / 2, s->part_apart = g->steps * s->part / 2;
}

/* Warps side by side across a tile, where they read the less from shared memory so: of so many rows and columns each.
 */
static int64_t warps_across(int64_t rows, int64_t columns, int64_t warps)
{
    int64_t best = 1, least = INT64_MAX;
    for (int64_t across = 1; across <= warps; across *= 2) {
        int64_t down = warps / across, read = rows / down + columns / across;
        if (rows % (down * NEST_UNIT_ROWS) || columns % (across * NEST_UNIT_COLUMNS) || read >= least) continue;
        best = across, least = read;
    }
    return best;
}

/* What each thread has of a tile. */
static void shape_of(struct lower_dot_grid *g, uint32_t row_axis, const struct tile *tile)
{
    int64_t rows = tile->rows, columns = tile->columns;
    g->threads = tile->threads, g->warpgroups = tile->way == BY_WARPGROUPS;
    g->panels = g->unit && (g->warpgroups || (g->p->l->target->copies && columns >= WIDE));
    struct lower_dot_side r = side_of(g->p, row_axis, rows),
                          c = side_of(g->p, row_axis == AXIS_M ? AXIS_N : AXIS_M, columns);
    struct lower_dot_side *sides[] = {&r, &c};
    if (g->unit) {
        int64_t warps = g->threads / WARP, beside = g->warpgroups ? 1 : warps_across(rows, columns, warps),
                high = rows / (warps / beside), wide = columns / beside, across = wide / NEST_UNIT_COLUMNS;
        g->across = beside;
        r.loop[0].extent = high / NEST_UNIT_ROWS, r.loop[0].place = NEST_UNIT_ROWS, r.loop[0].number = 4 * across;
        r.loop[1].extent = 2, r.loop[1].place = NEST_UNIT_ROWS / 2, r.loop[1].number = 2;
        r.digit[0].by = WARP * beside, r.digit[0].count = warps / beside, r.digit[0].place = high;
        r.digit[1].by = 4, r.digit[1].count = 8, r.digit[1].place = 1;
        c.loop[0].extent = across, c.loop[0].place = NEST_UNIT_COLUMNS, c.loop[0].number = 4;
        c.loop[1].extent = 2, c.loop[1].place = 1, c.loop[1].number = 1;
        c.digit[0].by = 1, c.digit[0].count = 4, c.digit[0].place = 2;
        if (beside > 1) c.digit[1].by = WARP, c.digit[1].count = beside, c.digit[1].place = wide;
    } else {
        int64_t across = columns < ACROSS * GROUP ? columns / GROUP : ACROSS, down = g->threads / across;
        int64_t group = rows < down * GROUP ? rows / down : GROUP, own = columns / across;
        r.loop[0].extent = rows / (down * group), r.loop[0].place = down * group, r.loop[0].number = group * own;
        r.loop[1].extent = group, r.loop[1].place = 1, r.loop[1].number = own;
        r.digit[0].by = across, r.digit[0].count = down, r.digit[0].place = group;
        c.loop[0].extent = own / GROUP, c.loop[0].place = across * GROUP, c.loop[0].number = GROUP;
        c.loop[1].extent = GROUP, c.loop[1].place = 1, c.loop[1].number = 1;
        c.digit[0].by = 1, c.digit[0].count = across, c.digit[0].place = GROUP;
    }
    for (int i = 0; i < 2; i++) {
        place_side(g, sides[i]);
        sides[i]->copied = g->panels && !g->warpgroups && grid_may_copy(g, sides[i]);
    }
    g->rows = r, g->columns = c;
}

static int64_t tiles_of(const struct lower_dot_side *s) { return (s->extent + s->size - 1) / s->size; }

static int64_t count_tiles(const struct lower_dot_grid *g)
{
    return tiles_of(&g->rows) * tiles_of(&g->columns) * g->p->l->axes[AXIS_B].extent;
}

/* Does a tile suit the narrower extent of the result, where warpgroups are wanted for `groups` blocks or more, or not
 * (0)? What the matrix unit takes of the rows is the least that a warp has. */
static bool suits(const struct lower_dot_grid *g, const struct tile *t, int64_t narrow, int64_t groups)
{
    bool group = t->way == BY_WARPGROUPS, panels = t->way == BY_PANELS || t->way == BY_COPIES;
    int64_t width = narrow <= 8 ? 8 : narrow <= 16 ? 16 : WIDE;
    if (g->unit ? t->rows < NEST_UNIT_ROWS * t->threads / WARP || (group && !groups) : group || panels) return false;
    if (panels && !g->p->l->target->copies) return false;
    return width < WIDE ? t->columns == width || (group && groups == 1) : t->columns >= WIDE;
}

/* What the busiest multiprocessor needs for its tiles, in cycles for a step of k: its matrix unit, its shared memory,
 * or the second cache. One tile alone with few warps leaves it waiting at barriers and for what is loaded. */
static double cost_of(const struct lower_dot_grid *g)
{
    int64_t rows = g->rows.size, columns = g->columns.size, warps = g->threads / WARP;
    int64_t each = (count_tiles(g) + CG_CUDA_MULTIPROCESSORS - 1) / CG_CUDA_MULTIPROCESSORS;
    double read = (double)(HALF * (warps / g->across * columns + g->across * rows)),
           came = (double)(HALF * (rows + columns));
    double unit = (double)(rows * columns) / UNIT_RATE, shared = (read + came) / SHARED_RATE, far = came / FAR_RATE;
    double most = unit > shared ? unit : shared;
    return (double)each * (most > far ? most : far) * (each * warps < ENOUGH_WARPS ? ALONE : 1);
}

/* Of the matrix unit the tiles that cost least. Others: the largest ones of which there are enough, else the smallest:
 * also where sums take two registers. Those of warpgroups, which two blocks of threads make, count twice. */
static void choose_shape(struct lower_dot_grid *g)
{
    struct lower_dot_product *p = g->p;
    const struct lower_axis *axes = p->l->axes;
    int64_t m = axes[AXIS_M].extent, n = axes[AXIS_N].extent, narrow = m < n ? m : n;
    bool wide = ir_dtype_bytes(p->sum) > 4;
    double least = 0;
    g->unit = find_unit(p);
    g->steps = g->unit ? UNIT_AT_ONCE : STEPS;
    int64_t groups = g->unit ? p->l->target->warpgroups : 0;
    uint32_t row_axis = narrow <= WIDE / 2 && m < n ? AXIS_N : AXIS_M;
    const struct tile *best = NULL;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const struct tile *t = &tiles[i];
        if (!suits(g, t, narrow, groups)) continue;
        shape_of(g, row_axis, t);
        if (t->way == BY_COPIES && !(g->rows.copied && g->columns.copied)) continue;
        bool by_cost = g->unit && !g->warpgroups;
        double cost = by_cost ? cost_of(g) : 0;
        if (!by_cost && !wide && count_tiles(g) * t->threads / THREADS >= (g->warpgroups ? groups : CG_CUDA_BLOCKS)) {
            best = t;
            break;
        }
        if (g->warpgroups || (best && by_cost && cost >= least)) continue;
        best = t, least = cost;
    }
    shape_of(g, row_axis, best);
}

static void declare(struct lower_dot_grid *g, struct lower_dot_side *s)
{
    struct lower_dot_product *p = g->p;
    struct nest_builder *b = &p->l->b;
    int64_t pairs = s->loop[0].extent * (s == &g->rows ? 4 : 2);
    if (!s->copied) s->staged = nest_reg(b, g->unit ? IR_U32 : p->factor, (uint32_t)grid_staged(g, s), true, 0);
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
    int64_t rows = tiles_of(&g->rows), together = rows_together(rows);
    int64_t shape[] = {l->axes[AXIS_B].extent, rows / together, tiles_of(&g->columns), together};
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

/* By warps, or by warpgroups, which go on meanwhile. */
static void multiply_panels(struct lower_dot_grid *g, const struct lower_pos *at)
{
    struct nest_builder *b = &g->p->l->b;
    struct nest_index from[] = {lower_pos_index(g->p->l, &at[0]), lower_pos_index(g->p->l, &at[1])};
    int64_t down = g->threads / WARP / g->across;
    struct nest_panels panels = {.rows = (uint32_t)(g->rows.size / down),
                                 .columns = (uint32_t)(g->columns.size / g->across),
                                 .across = (uint32_t)g->across,
                                 .from = {g->rows.local, g->columns.local},
                                 .steps = g->steps,
                                 .steps_first = {g->rows.steps_first, g->columns.steps_first},
                                 .at = {from[0], from[1]}};
    (g->warpgroups ? nest_warpgroup : nest_multiply_panels)(b, g->p->factor, g->sum, &panels);
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
    if (g->blocks == 1 || (g->rows.copied && g->columns.copied)) return;
    struct lower_pos from = lower_next_block(l, block, g->blocks, g->steps);
    fetch_block(g, &from);
    nest_close_to(&l->b, depth);
}

/* Block number `number` to its stage. */
static void copy_block(struct lower_dot_grid *g, const struct lower_pos *number)
{
    struct lower *l = g->p->l;
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    struct lower_pos from = lower_pos_constant(0), stage = from;
    lower_pos_add(l, &from, number, g->steps);
    if (number->scaled_count) lower_pos_add_scaled(l, &stage, lower_pos_rest(l, number, g->stages), 1, g->stages - 1);
    else stage.offset = number->offset % g->stages;
    for (int i = 0; i < 2; i++) {
        struct lower_pos to = lower_pos_constant(0);
        lower_pos_add(l, &to, &stage, grid_words(g, sides[i]));
        if (sides[i]->copied) grid_copy(g, sides[i], &from, &to);
    }
}

static void copy_ahead(struct lower_dot_grid *g, nest_var block)
{
    struct lower *l = g->p->l;
    uint32_t depth = l->b.depth;
    if (!g->rows.copied && !g->columns.copied) return;
    if (g->blocks >= g->stages) {
        struct lower_pos number = lower_block_ahead(l, block, g->blocks, g->stages - 1);
        copy_block(g, &number);
        nest_close_to(&l->b, depth);
    }
    nest_copies(&l->b); /* a group for every block, of nothing for the last ones */
}

/* Blocks of k through the stages of shared memory, with one barrier each: behind it this block is there for all
 * threads, and all are done with the one before, whose stage is free then. */
static void by_panels(struct lower_dot_grid *g)
{
    struct lower *l = g->p->l;
    struct lower_dot_side *sides[] = {&g->rows, &g->columns};
    struct lower_pos zero = lower_pos_constant(0), to[] = {zero, zero};
    bool copied = g->rows.copied || g->columns.copied;
    if (!g->warpgroups) nest_arrived(&l->b, 0); /* those of the tile before are done, too */
    for (int64_t i = 0; i + 1 < g->stages && copied; i++) {
        struct lower_pos number = lower_pos_constant(i);
        if (i < g->blocks) copy_block(g, &number);
        nest_copies(&l->b);
    }
    fetch_block(g, &zero);
    struct lower_dot_place before = dot_place(g->p);
    nest_var block = lower_open(l, NEST_SERIAL, g->blocks);
    for (int i = 0; i < 2; i++) {
        lower_pos_add_digit(l, &to[i], block, g->blocks, 1, g->stages, grid_words(g, sides[i]));
        if (!sides[i]->copied) grid_put(g, sides[i], &to[i]);
    }
    if (g->warpgroups) nest_warpgroup_wait(&l->b, g->sum);
    else nest_arrived(&l->b, g->stages - 2);
    if (g->warpgroups) multiply_panels(g, to);
    copy_ahead(g, block);
    fetch_next(g, block);
    if (!g->warpgroups) multiply_panels(g, to);
    dot_return(g->p, &before);
    if (g->warpgroups) nest_warpgroup_wait(&l->b, g->sum);
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
    choose_shape(&g);
    l->b.nest->lanes = (uint32_t)g.threads;
    g.blocks = (l->axes[AXIS_K].extent + g.steps - 1) / g.steps;
    g.stages = g.rows.copied || g.columns.copied ? STAGES : 2;
    for (int i = 0; i < 2; i++) {
        grid_choose_patch(&g, sides[i]);
        sides[i]->local = local_of(&g, sides[i]);
    }
    open_tiles(&g);
    g.sum = nest_reg(&l->b, p->sum, (uint32_t)(g.rows.size * g.columns.size / g.threads), true, 0);
    for (int i = 0; i < 2; i++) declare(&g, sides[i]);
    (g.panels ? by_panels : by_words)(&g);
    finish(&g);
    nest_close_to(&l->b, 0);
}
