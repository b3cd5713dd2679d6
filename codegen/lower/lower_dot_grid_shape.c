/* The tiles of contractions on a GPU (lower_dot_grid.c): how large they are, what each thread has of one, and where
 * words of operands lie in shared memory. */
#include "codegen/lower/lower_dot_grid.h"

enum {
    THREADS = 128,
    WARP = 32,
    ACROSS = 8, /* threads along the columns of a tile, at most; the others go along its rows */
    GROUP = GRID_GROUP,
    STEPS = 16, /* of k that are in shared memory at a time */
    UNIT_AT_ONCE = 2 * NEST_UNIT_STEPS,
    STAGES = 3,      /* blocks of k there, where they are copied: one is multiplied, the others are under way */
    PADDING = 4,     /* between the rows of shared memory: other banks */
    UNIT_PADDING = 8 /* of 16 bits */
};

/* Tiles by their columns, the largest first: operands are read the less often. Narrow ones are for at most that many
 * rows or columns. By copies: where registers hold sums and nothing that is on its way. */
enum way { BY_ALL, BY_PANELS, BY_COPIES, BY_WARPGROUPS };
static const struct tile {
    int64_t rows, columns, threads;
    enum way way;
} tiles[] = {{128, 256, 2 * THREADS, BY_WARPGROUPS},
             {128, 192, 2 * THREADS, BY_WARPGROUPS},
             {128, 128, 2 * THREADS, BY_WARPGROUPS},
             {128, 256, 2 * THREADS, BY_COPIES},
             {128, 192, 2 * THREADS, BY_COPIES},
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

/* What a multiprocessor does in a cycle: multiply-adds of 16 bits (twice as many by warpgroups), bytes from and to its
 * shared memory, bytes that come from the second cache (published of sm_80; measured of sm_80 and sm_90 by others). */
enum { HALF = 2, UNIT_RATE = 1024, SHARED_RATE = 128, FAR_RATE = 28, ENOUGH_WARPS = 8, GROUP_WARPS = 4 };
#define ALONE 1.33

/* Both operands have the same 16 bits, whatever has become of them: their products are summed in float32. */
static bool find_unit(struct lower_dot_product *p)
{
    const struct lower *l = p->l;
    ir_value x = lower_narrow(l, p->x.value), y = lower_narrow(l, p->y.value);
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, x)->dtype;
    if (!l->target->unit) return false;
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
    g->threads = tile->threads, g->warpgroups = tile->way == BY_WARPGROUPS, g->alone = tile->way == BY_COPIES;
    g->panels = g->unit && (g->warpgroups || columns >= WIDE);
    struct lower_dot_side r = side_of(g->p, row_axis, rows),
                          c = side_of(g->p, row_axis == AXIS_M ? AXIS_N : AXIS_M, columns);
    struct lower_dot_side *sides[] = {&r, &c};
    if (g->unit) {
        int64_t warps = g->threads / WARP, beside = g->warpgroups ? 1 : warps_across(rows, columns, warps),
                high = rows / (warps / beside), wide = columns / beside, across = wide / NEST_UNIT_COLUMNS;
        g->across = beside, g->warp_rows = high, g->warp_columns = wide;
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
        sides[i]->copied = g->panels && grid_may_copy(g, sides[i]);
    }
    g->rows = r, g->columns = c;
}

int64_t grid_tiles(const struct lower_dot_side *s) { return (s->extent + s->size - 1) / s->size; }

static int64_t count_tiles(const struct lower_dot_grid *g)
{
    return grid_tiles(&g->rows) * grid_tiles(&g->columns) * g->p->l->axes[AXIS_B].extent;
}

/* Does a tile suit the narrower extent of the result? What the matrix unit takes of the rows is the least that a warp
 * has. */
static bool suits(const struct lower_dot_grid *g, const struct tile *t, int64_t narrow)
{
    const struct cg_target *target = g->p->l->target;
    bool group = t->way == BY_WARPGROUPS, wants = group ? target->warpgroups : !target->warpgroups_always;
    int64_t width = narrow <= 8 ? 8 : narrow <= 16 ? 16 : WIDE;
    if (!g->unit) return t->way == BY_ALL && (width < WIDE ? t->columns == width : t->columns >= WIDE);
    if (t->rows < NEST_UNIT_ROWS * t->threads / WARP || !wants) return false;
    return width < WIDE ? t->columns == width || (group && target->warpgroups_always) : t->columns >= WIDE;
}

/* What the busiest multiprocessor needs for its tiles, in cycles for a step of k: its matrix unit, its shared memory,
 * or the second cache. One tile alone with few warps leaves it waiting at barriers and for what is loaded. */
static double cost_of(const struct lower_dot_grid *g)
{
    int64_t rows = g->rows.size, columns = g->columns.size, warps = g->threads / WARP;
    int64_t each = (count_tiles(g) + CG_CUDA_MULTIPROCESSORS - 1) / CG_CUDA_MULTIPROCESSORS;
    int64_t high = g->warpgroups ? warps / GROUP_WARPS : warps / g->across,
            rate = g->warpgroups ? 2 * UNIT_RATE : UNIT_RATE;
    double read = (double)(HALF * (high * columns + g->across * rows)), came = (double)(HALF * (rows + columns));
    double unit = (double)(rows * columns) / (double)rate, shared = (read + came) / SHARED_RATE, far = came / FAR_RATE;
    double most = unit > shared ? unit : shared;
    return (double)each * (most > far ? most : far) * (each * warps < ENOUGH_WARPS ? ALONE : 1);
}

/* Of the matrix unit the tiles that cost least; where warpgroups are always wanted the widest that the result fills, so
 * that small ones show all. Others: the largest ones of which there are enough, else the smallest: also where sums take
 * two registers. */
void grid_choose_shape(struct lower_dot_grid *g)
{
    struct lower_dot_product *p = g->p;
    const struct lower_axis *axes = p->l->axes;
    int64_t m = axes[AXIS_M].extent, n = axes[AXIS_N].extent, narrow = m < n ? m : n;
    bool wide = ir_dtype_bytes(p->sum) > 4;
    double least = 0;
    g->unit = find_unit(p);
    g->steps = g->unit ? UNIT_AT_ONCE : STEPS;
    uint32_t row_axis = narrow <= WIDE / 2 && m < n ? AXIS_N : AXIS_M;
    const struct tile *best = NULL;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        const struct tile *t = &tiles[i];
        if (!suits(g, t, narrow)) continue;
        shape_of(g, row_axis, t);
        if (t->way == BY_COPIES && !(g->rows.copied && g->columns.copied)) continue;
        double cost = g->unit ? cost_of(g) : 0;
        bool enough = g->unit ? p->l->target->warpgroups_always && g->columns.size <= g->columns.extent
                              : !wide && count_tiles(g) >= CG_CUDA_BLOCKS;
        if (enough) {
            best = t;
            break;
        }
        if (best && g->unit && cost >= least) continue;
        best = t, least = cost;
    }
    shape_of(g, row_axis, best);
    g->blocks = (axes[AXIS_K].extent + g->steps - 1) / g->steps;
    g->stages = (g->rows.copied || g->columns.copied ? STAGES : 2) + g->warpgroups;
}
