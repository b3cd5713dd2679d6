/* Convolutions by minimal filtering (ir/winograd.h), on a CPU. Tiles are gone through by blocks that a worker's caches
 * hold: their points are put into a local, point by point, and are multiplied by register tiles.
 *
 *   parallel images, or rows of tiles          parts, or channels, of a kernel's gradient
 *     points of a block of tiles                 points of a block of tiles, and of its cotangent
 *     for each point and panel of columns        for each point and panel of columns
 *       tiles x channels x columns                 += channels x tiles x columns
 *     what is made of the points, and the store  when all blocks are done, the store
 */
#include "codegen/lower/lower.h"
#include "ir/winograd.h"
#include <string.h>

/* Images: those that are shared out, one after the other, of a block; rows of tiles the same; tiles along the second
 * dimension; columns of the result. */
enum { IMAGE, IMAGE_NEXT, IMAGE_BLOCK, ROW, ROW_NEXT, ROW_BLOCK, SIDE, COLUMN, AXES };
/* Tiles of a block, which are rows of a product, or its steps. */
enum { LEAST_ROWS = 16, MOST_ROWS = 56, STEPS = 112, PIECES = 8 /* for the workers */, LINE = 16 };

struct winograd {
    struct lower *l;
    const struct ir_node *node;
    uint32_t dims, points, rows, vectors;            /* of a register tile */
    int64_t tiles[WINOGRAD_DIMS];                    /* along each dimension */
    int64_t block;                                   /* tiles */
    int64_t channels, columns, panel, panels, width; /* width: columns of a vector */
    struct lower_pos at[AXES];
};

/* Points of a block in a local: one after the other, each so many rows. Their distance is an odd number of cache
 * lines, so that they are in different sets. */
struct points {
    uint32_t local;
    int64_t row, point;
};

static struct points new_points(struct winograd *w, int64_t rows, int64_t columns)
{
    struct points p = {.row = (columns + LINE - 1) / LINE * LINE};
    int64_t lines = rows * (p.row / LINE);
    p.point = (lines + (lines % 2 == 0)) * LINE;
    p.local = nest_local(&w->l->b, IR_F32, w->points * p.point);
    return p;
}

/* ---------------------------------------------------------------- loops */

static void open_axis(struct winograd *w, uint32_t axis, enum nest_loop innermost)
{
    struct lower *l = w->l;
    for (uint32_t i = 0; i < l->axes[axis].parts; i++) {
        enum nest_loop loop = i + 1 == l->axes[axis].parts ? innermost : NEST_SERIAL;
        if (l->axes[axis].part[i] == 1 && loop == NEST_SERIAL) continue;
        lower_pos_add_term(l, &w->at[axis], lower_open_part(l, loop, axis, i), lower_axis_stride(&l->axes[axis], i));
    }
}

static void open_tiles(struct winograd *w)
{
    open_axis(w, IMAGE_BLOCK, NEST_SERIAL);
    open_axis(w, ROW_BLOCK, NEST_SERIAL);
    open_axis(w, SIDE, NEST_SERIAL);
}

struct place {
    struct lower_pos at[AXES];
    uint32_t depth;
};

static struct place here(const struct winograd *w)
{
    struct place p = {.depth = w->l->b.depth};
    memcpy(p.at, w->at, sizeof p.at);
    return p;
}

static void back(struct winograd *w, const struct place *p)
{
    nest_close_to(&w->l->b, p->depth);
    memcpy(w->at, p->at, sizeof p->at);
}

/* The parts of the shared axes: the one of most steps, or `other` steps that are no part of one, in parallel, the
 * others one after the other. */
static nest_var open_shared(struct winograd *w, int64_t other)
{
    struct lower *l = w->l;
    static const uint32_t shared[] = {IMAGE, ROW};
    uint32_t axis = AXES, part = 0;
    int64_t most = other;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < l->axes[shared[i]].parts; k++)
            if (l->axes[shared[i]].part[k] > most) most = l->axes[axis = shared[i]].part[part = k];
    l->b.nest->parallel_extent = most;
    nest_var var = UINT32_MAX;
    if (axis < AXES)
        lower_pos_add_term(l, &w->at[axis], lower_open_part(l, NEST_PARALLEL, axis, part),
                           lower_axis_stride(&l->axes[axis], part));
    else if (other > 1) var = lower_open(l, NEST_PARALLEL, other);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < l->axes[shared[i]].parts; k++)
            if (l->axes[shared[i]].part[k] > 1 && !(shared[i] == axis && k == part))
                lower_pos_add_term(l, &w->at[shared[i]], lower_open_part(l, NEST_SERIAL, shared[i], k),
                                   lower_axis_stride(&l->axes[shared[i]], k));
    if (other > 1 && var == UINT32_MAX) var = lower_open(l, NEST_SERIAL, other);
    return var;
}

/* ---------------------------------------------------------------- positions */

static int64_t steps(const struct winograd *w, uint32_t axis) { return w->l->axes[axis].extent; }

/* Where the open loops stand on three axes as if these were one. */
static struct lower_pos joined(struct winograd *w, uint32_t outer, uint32_t middle, uint32_t inner)
{
    struct lower_pos p = lower_pos_constant(0);
    lower_pos_add(w->l, &p, &w->at[outer], steps(w, middle) * steps(w, inner));
    lower_pos_add(w->l, &p, &w->at[middle], steps(w, inner));
    lower_pos_add(w->l, &p, &w->at[inner], 1);
    return p;
}

/* An element of a tile of an image: number `k` of `size` along each dimension. `inside`: that it is an element, where
 * the last tiles stick out; 0: always. */
static struct lower_pos element(struct winograd *w, const struct ir_type *type, const struct lower_pos *column,
                                uint32_t k, uint32_t size, nest_value *inside)
{
    struct lower *l = w->l;
    struct lower_pos p = joined(w, IMAGE, IMAGE_NEXT, IMAGE_BLOCK);
    if (inside) *inside = 0;
    for (uint32_t i = 0; i < w->dims; i++) {
        struct lower_pos tile = i ? w->at[SIDE] : joined(w, ROW, ROW_NEXT, ROW_BLOCK), at = lower_pos_constant(0), all;
        int64_t extent = type->dim[i + 1];
        at.offset = i + 1 < w->dims ? k / size : k % size;
        lower_pos_add(l, &at, &tile, WINOGRAD_MADE);
        if (inside && w->tiles[i] * WINOGRAD_MADE > extent && at.offset)
            *inside = lower_and(l, *inside, lower_pos_inside(l, &at, extent));
        all = lower_pos_constant(0);
        lower_pos_add(l, &all, &p, extent);
        lower_pos_add(l, &all, &at, 1);
        p = all;
    }
    struct lower_pos all = lower_pos_constant(0);
    lower_pos_add(l, &all, &p, type->dim[w->dims + 1]);
    lower_pos_add(l, &all, column, 1);
    return all;
}

static struct lower_pos of_column(struct lower *l, nest_var lane, int64_t first)
{
    struct lower_pos p = lower_pos_constant(first);
    lower_pos_add_term(l, &p, lane, 1);
    return p;
}

/* ---------------------------------------------------------------- points */

static nest_value sum_of(struct lower *l, const struct ir_winograd *m, uint32_t row, const nest_value *v, uint32_t step)
{
    nest_value sum = 0;
    for (uint32_t k = 0; k < m->columns; k++) {
        double by = winograd_number(m, row, k);
        nest_value term = v[k * step], size = nest_number(&l->b, IR_F32, by < 0 ? -by : by);
        if (by == 0) continue;
        if (by != 1 && by != -1) term = lower_binary(l, OP_mul, IR_F32, term, size);
        if (sum) sum = lower_binary(l, by < 0 ? OP_sub : OP_add, IR_F32, sum, term);
        else sum = by < 0 ? nest_op(&l->b, OP_neg, IR_F32, &term, 1) : term;
    }
    return sum;
}

/* Of `columns` values along each dimension it makes `rows`. */
static void apply(struct lower *l, const struct ir_winograd *m, uint32_t dims, nest_value *v)
{
    nest_value half[WINOGRAD_MOST];
    uint32_t outer = dims > 1 ? m->columns : 1, inner = dims > 1 ? m->rows : 1;
    if (dims == 1) memcpy(half, v, sizeof half);
    for (uint32_t i = 0; dims > 1 && i < outer; i++)
        for (uint32_t r = 0; r < m->rows; r++) half[i * m->rows + r] = sum_of(l, m, r, v + i * m->columns, 1);
    for (uint32_t r = 0; r < m->rows; r++)
        for (uint32_t i = 0; i < inner; i++) v[r * inner + i] = sum_of(l, m, r, half + i, inner);
}

static struct nest_index point_index(struct lower *l, const struct points *p, uint32_t point,
                                     const struct lower_pos *row, const struct lower_pos *column)
{
    struct lower_pos at = lower_pos_constant(point * p->point);
    lower_pos_add(l, &at, row, p->row);
    lower_pos_add(l, &at, column, 1);
    return lower_pos_index(l, &at);
}

/* The points of all tiles of a block, of `count` columns from `first` on. Lanes that no column has are 0. */
static void put_points(struct winograd *w, ir_value v, const struct ir_winograd *m, const struct lower_pos *first,
                       int64_t count, const struct points *to)
{
    struct lower *l = w->l;
    struct place before = here(w);
    nest_value part[WINOGRAD_MOST];
    open_tiles(w);
    struct place tile = here(w);
    struct lower_pos number = joined(w, IMAGE_BLOCK, ROW_BLOCK, SIDE),
                     lane = of_column(l, lower_open(l, NEST_VECTOR, count), 0), column = *first;
    lower_pos_add(l, &column, &lane, 1);
    for (uint32_t k = 0; k < winograd_power(m->columns, w->dims); k++) {
        struct lower_pos at = element(w, ir_type(l->f, v), &column, k, m->columns, NULL);
        part[k] = lower_value(l, v, &at);
    }
    apply(l, m, w->dims, part);
    for (uint32_t k = 0; k < w->points; k++)
        nest_store(&l->b, to->local, point_index(l, to, k, &number, &lane), part[k], 0);
    back(w, &tile);
    if (to->row > count) {
        lane = of_column(l, lower_open(l, NEST_VECTOR, to->row - count), count);
        for (uint32_t k = 0; k < w->points; k++)
            nest_store(&l->b, to->local, point_index(l, to, k, &number, &lane), nest_number(&l->b, IR_F32, 0), 0);
    }
    back(w, &before);
}

/* ---------------------------------------------------------------- products */

/* A matrix in memory, from `at` on. */
struct matrix {
    uint32_t buffer;
    struct lower_pos at;
    int64_t row, step; /* of the left one and the sums; of both operands */
};

static struct nest_index register_index(struct lower *l, nest_var row, nest_var vector, int64_t vectors)
{
    struct lower_pos at = lower_pos_constant(0);
    if (row != UINT32_MAX) lower_pos_add_term(l, &at, row, vectors);
    lower_pos_add_term(l, &at, vector, 1);
    return lower_pos_index(l, &at);
}

/* The columns of a panel in memory, by vectors: what they are gone through by. */
static struct lower_pos open_columns(struct winograd *w, nest_var *vector)
{
    struct lower *l = w->l;
    struct lower_pos at = lower_pos_constant(0);
    *vector = lower_open(l, NEST_UNROLL, w->vectors);
    lower_pos_add_term(l, &at, *vector, w->width);
    lower_pos_add_term(l, &at, lower_open(l, NEST_VECTOR, w->width), 1);
    return at;
}

static struct nest_index index_of(struct lower *l, const struct matrix *m, nest_var row, nest_var step,
                                  const struct lower_pos *column)
{
    struct lower_pos at = m->at;
    if (row != UINT32_MAX) lower_pos_add_term(l, &at, row, m->row);
    if (step != UINT32_MAX) lower_pos_add_term(l, &at, step, m->step);
    if (column) lower_pos_add(l, &at, column, 1);
    return lower_pos_index(l, &at);
}

/* The registers to or from memory. */
static void move_sums(struct winograd *w, const struct matrix *sums, uint32_t acc, uint32_t rows, bool out)
{
    struct lower *l = w->l;
    uint32_t depth = l->b.depth;
    nest_var row = lower_open(l, NEST_UNROLL, rows), vector;
    struct lower_pos column = open_columns(w, &vector);
    struct nest_index at = index_of(l, sums, row, UINT32_MAX, &column),
                      reg = register_index(l, row, vector, w->vectors);
    if (out) nest_store(&l->b, sums->buffer, at, nest_get(&l->b, acc, reg), 0);
    else nest_set(&l->b, acc, reg, nest_load(&l->b, sums->buffer, at, 0));
    nest_close_to(&l->b, depth);
}

/* So many rows of left times a panel of right; `add`: to the sums. */
static void register_tile(struct winograd *w, const struct matrix *left, const struct matrix *right,
                          const struct matrix *sums, uint32_t rows, int64_t extent, bool add)
{
    struct lower *l = w->l;
    uint32_t depth = l->b.depth, acc = nest_reg(&l->b, IR_F32, rows * w->vectors, true, 0);
    if (add) move_sums(w, sums, acc, rows, false);
    uint32_t panel = nest_reg(&l->b, IR_F32, w->vectors, true, 0);
    nest_var step = lower_open(l, NEST_SERIAL, extent), vector;
    uint32_t inside = l->b.depth;
    struct lower_pos column = open_columns(w, &vector);
    nest_set(&l->b, panel, register_index(l, UINT32_MAX, vector, 0),
             nest_load(&l->b, right->buffer, index_of(l, right, UINT32_MAX, step, &column), 0));
    nest_close_to(&l->b, inside);
    nest_var row = lower_open(l, NEST_UNROLL, rows);
    nest_value x = nest_load(&l->b, left->buffer, index_of(l, left, row, step, NULL), 0);
    open_columns(w, &vector);
    struct nest_index reg = register_index(l, row, vector, w->vectors);
    nest_value y = nest_get(&l->b, panel, register_index(l, UINT32_MAX, vector, 0));
    nest_set(&l->b, acc, reg, nest_fma(&l->b, IR_F32, x, y, nest_get(&l->b, acc, reg)));
    nest_close_to(&l->b, depth);
    move_sums(w, sums, acc, rows, true);
}

static void along(struct lower *l, struct matrix *m, nest_var var, int64_t step)
{
    lower_pos_add_term(l, &m->at, var, step);
}

/* All rows by one panel. */
static void multiply_panel(struct winograd *w, struct matrix left, const struct matrix *right, struct matrix sums,
                           int64_t rows, int64_t extent, bool add)
{
    struct lower *l = w->l;
    uint32_t depth = l->b.depth;
    int64_t count = (rows + w->rows - 1) / w->rows, block = (rows + count - 1) / count, whole = rows / block;
    struct matrix from = left, to = sums;
    if (whole > 1) {
        nest_var var = lower_open(l, NEST_SERIAL, whole);
        along(l, &from, var, block * left.row), along(l, &to, var, block * sums.row);
    }
    register_tile(w, &from, right, &to, (uint32_t)block, extent, add);
    nest_close_to(&l->b, depth);
    left.at.offset += whole * block * left.row, sums.at.offset += whole * block * sums.row;
    if (rows % block) register_tile(w, &left, right, &sums, (uint32_t)(rows % block), extent, add);
}

/* For each point, whose matrices are so far apart: all panels, of which the last may have fewer vectors. */
static void multiply(struct winograd *w, struct matrix left, struct matrix right, struct matrix sums,
                     const int64_t *point, int64_t panel_apart, int64_t rows, int64_t extent, bool add)
{
    struct lower *l = w->l;
    uint32_t depth = l->b.depth, vectors = w->vectors;
    int64_t whole = w->columns / w->panel, rest = w->columns % w->panel;
    nest_var var = lower_open(l, NEST_SERIAL, w->points);
    along(l, &left, var, point[0]), along(l, &right, var, point[1]), along(l, &sums, var, point[2]);
    uint32_t inside = l->b.depth;
    struct matrix from = right, to = sums;
    if (whole > 1) {
        var = lower_open(l, NEST_SERIAL, whole);
        along(l, &from, var, panel_apart), along(l, &to, var, w->panel);
    }
    if (whole) multiply_panel(w, left, &from, to, rows, extent, add);
    nest_close_to(&l->b, inside);
    right.at.offset += whole * panel_apart, sums.at.offset += whole * w->panel;
    w->vectors = (uint32_t)((rest + w->width - 1) / w->width);
    if (rest) multiply_panel(w, left, &right, sums, rows, extent, add);
    w->vectors = vectors;
    nest_close_to(&l->b, depth);
}

static struct matrix of_local(const struct points *p, int64_t row, int64_t step)
{
    return (struct matrix){p->local, lower_pos_constant(0), row, step};
}

/* ---------------------------------------------------------------- the shape */

/* The most of `all` that divides it and is no more than wanted, and not less than one. */
static int64_t divisor(int64_t all, int64_t wanted)
{
    int64_t n = wanted < all ? wanted : all;
    while (n > 1 && all % n) n--;
    return n > 1 ? n : 1;
}

static void begin(struct winograd *w, struct lower *l)
{
    memset(w, 0, sizeof *w);
    w->l = l;
    w->node = ir_get(l->f, l->group->root);
    const struct ir_type *x = ir_type(l->f, w->node->args[0]);
    w->dims = x->rank - 2u;
    w->points = winograd_power(WINOGRAD_POINTS, w->dims);
    w->channels = x->dim[w->dims + 1];
    for (uint32_t i = 0; i < WINOGRAD_DIMS; i++)
        w->tiles[i] = i < w->dims ? ((int64_t)x->dim[i + 1] - WINOGRAD_BORDER) / WINOGRAD_MADE : 1;
    w->rows = cg_panel_rows(l->target);
    for (uint32_t i = 0; i < AXES; i++) w->at[i] = lower_pos_constant(0);
}

/* A panel is made for vectors of the target; what comes as text may be for those of another one. */
static void set_panel(struct winograd *w, int64_t panel, int64_t columns)
{
    w->panel = panel, w->columns = columns;
    w->panels = (columns + panel - 1) / panel;
    w->width = w->l->lanes < panel ? w->l->lanes : panel;
    w->vectors = (uint32_t)(panel / w->width);
}

/* Blocks of whole rows of tiles, or of images, of about so many tiles as the second cache has room for. `parts`: of
 * images and of rows of tiles, which are shared out; NULL: each block is. */
static void choose_blocks(struct winograd *w, const int64_t *parts, int64_t elements_of_tile)
{
    struct lower *l = w->l;
    int64_t most = l->target->l2_bytes * 3 / 4 / (w->points * elements_of_tile * (int64_t)sizeof(float));
    most = parts ? STEPS : most < LEAST_ROWS ? LEAST_ROWS : most > MOST_ROWS ? MOST_ROWS : most;
    int64_t images = ir_type(l->f, w->node->args[0])->dim[0], rows = w->tiles[0], row = w->tiles[1], several = 1;
    if (parts) images /= parts[0], rows /= parts[1];
    if (!parts && most > images * rows * row / PIECES) most = images * rows * row / PIECES;
    int64_t block = divisor(rows, most / row);
    if (block == w->tiles[0]) several = divisor(images, most / (block * row));
    w->block = several * block * row;
    if (l->axis_count) return;
    int64_t extent[AXES] = {0};
    extent[IMAGE] = parts ? parts[0] : images / several, extent[IMAGE_NEXT] = parts ? images / several : 1;
    extent[ROW] = parts ? parts[1] : rows / block, extent[ROW_NEXT] = parts ? rows / block : 1;
    extent[IMAGE_BLOCK] = several, extent[ROW_BLOCK] = block, extent[SIDE] = row, extent[COLUMN] = w->columns;
    for (uint32_t i = 0; i < AXES; i++)
        l->axes[i] = (struct lower_axis){.extent = extent[i], .parts = 1, .part = {extent[i]}};
    l->axis_count = AXES;
}

/* ---------------------------------------------------------------- the templates */

/* An element of what the template makes, with what follows it. */
static void store(struct lower *l, nest_value is, const struct lower_pos *at, nest_value cond)
{
    l->from[l->group->root] = (struct lower_override){.source = FROM_VALUE, .value = is};
    l->cond = cond;
    lower_store_outputs(l, lower_outputs(l, LOWER_ALL_LEVELS, at), at, cond);
    l->cond = 0;
}

/* What is made of the sums of a block, with what follows it, and the stores. */
static void finish_block(struct winograd *w, const struct points *from)
{
    struct lower *l = w->l;
    struct place before = here(w);
    nest_value part[WINOGRAD_MOST];
    open_tiles(w);
    struct lower_pos number = joined(w, IMAGE_BLOCK, ROW_BLOCK, SIDE);
    open_axis(w, COLUMN, NEST_VECTOR);
    for (uint32_t k = 0; k < w->points; k++)
        part[k] = nest_load(&l->b, from->local, point_index(l, from, k, &number, &w->at[COLUMN]), 0);
    apply(l, &winograd_made, w->dims, part);
    for (uint32_t k = 0; k < winograd_power(WINOGRAD_MADE, w->dims); k++) {
        nest_value inside;
        struct lower_pos at = element(w, &w->node->type, &w->at[COLUMN], k, WINOGRAD_MADE, &inside);
        store(l, part[k], &at, inside);
    }
    back(w, &before);
}

static void lower_forward(struct lower *l)
{
    struct winograd w;
    begin(&w, l);
    ir_value u = w.node->args[1];
    set_panel(&w, ir_type(l->f, u)->dim[3], w.node->type.dim[w.dims + 1]);
    while (ir_get(l->f, u)->op == OP_reshape && !l->argument[u]) u = ir_get(l->f, u)->args[0];
    choose_blocks(&w, NULL, w.channels + w.panels * w.panel);
    struct points x = new_points(&w, w.block, w.channels), sums = new_points(&w, w.block, w.panels * w.panel);
    struct lower_pos none = lower_pos_constant(0);
    open_shared(&w, 1);
    put_points(&w, w.node->args[0], &winograd_input, &none, w.channels, &x);
    struct matrix kernel = {l->argument[u] - 1, none, 0, w.panel};
    int64_t panel_apart = w.channels * w.panel, point[] = {x.point, w.panels * panel_apart, sums.point};
    multiply(&w, of_local(&x, x.row, 1), kernel, of_local(&sums, sums.row, 0), point, panel_apart, w.block, w.channels,
             false);
    finish_block(&w, &sums);
    nest_close_to(&l->b, 0);
}

/* A part's gradient of the taps of some channels. */
static void finish_part(struct winograd *w, const struct points *from, const struct lower_pos *channel, int64_t count)
{
    struct lower *l = w->l;
    struct place before = here(w);
    nest_value v[WINOGRAD_MOST];
    uint32_t taps = winograd_power(WINOGRAD_TAPS, w->dims);
    int64_t one = w->channels * w->columns;
    struct lower_pos row = lower_pos_constant(0), part = row;
    lower_pos_add_term(l, &row, lower_open(l, NEST_SERIAL, count), 1);
    open_axis(w, COLUMN, NEST_VECTOR);
    for (uint32_t k = 0; k < w->points; k++)
        v[k] = nest_load(&l->b, from->local, point_index(l, from, k, &row, &w->at[COLUMN]), 0);
    apply(l, &winograd_kernel_turned, w->dims, v);
    lower_pos_add(l, &part, &w->at[IMAGE], steps(w, ROW));
    lower_pos_add(l, &part, &w->at[ROW], 1);
    for (uint32_t k = 0; k < taps; k++) {
        struct lower_pos at = lower_pos_constant(k * one);
        lower_pos_add(l, &at, &part, taps * one);
        lower_pos_add(l, &at, channel, w->columns);
        lower_pos_add(l, &at, &row, w->columns);
        lower_pos_add(l, &at, &w->at[COLUMN], 1);
        store(l, v[w->node->attr[1].v[k]], &at, 0);
    }
    back(w, &before);
}

static void set_zero(struct winograd *w, const struct points *p)
{
    struct lower *l = w->l;
    uint32_t depth = l->b.depth;
    struct lower_pos at = of_column(l, lower_open(l, NEST_VECTOR, w->points * p->point), 0);
    nest_store(&l->b, p->local, lower_pos_index(l, &at), nest_number(&l->b, IR_F32, 0), 0);
    nest_close_to(&l->b, depth);
}

static void lower_gradient(struct lower *l)
{
    struct winograd w;
    begin(&w, l);
    struct ir_ints parts = w.node->attr[0];
    set_panel(&w, cg_panel_columns(l->target), w.node->type.dim[3]);
    int64_t channels = parts.v[2], blocks = w.channels / channels;
    choose_blocks(&w, parts.v, channels + w.panels * w.panel);
    struct points x = new_points(&w, w.block, channels), y = new_points(&w, w.block, w.panels * w.panel),
                  sums = new_points(&w, channels, w.panels * w.panel);
    struct lower_pos none = lower_pos_constant(0), channel = none;
    nest_var block = open_shared(&w, blocks);
    if (block != UINT32_MAX) lower_pos_add_term(l, &channel, block, channels);
    struct place before = here(&w);
    set_zero(&w, &sums);
    open_axis(&w, IMAGE_NEXT, NEST_SERIAL);
    open_axis(&w, ROW_NEXT, NEST_SERIAL);
    put_points(&w, w.node->args[0], &winograd_input, &channel, channels, &x);
    put_points(&w, w.node->args[1], &winograd_made_turned, &none, w.columns, &y);
    int64_t point[] = {x.point, y.point, sums.point};
    multiply(&w, of_local(&x, 1, x.row), of_local(&y, 0, y.row), of_local(&sums, sums.row, 0), point, w.panel, channels,
             w.block, true);
    back(&w, &before);
    finish_part(&w, &sums, &channel, channels);
    nest_close_to(&l->b, 0);
}

/* The points of a kernel: its channels are shared out. */
static void lower_points(struct lower *l)
{
    const struct ir_node *node = ir_get(l->f, l->group->root);
    const struct ir_type *kernel = ir_type(l->f, node->args[0]);
    uint32_t taps = (uint32_t)kernel->dim[0], dims = taps == WINOGRAD_TAPS ? 1 : 2;
    int64_t panels = node->type.dim[1], channels = node->type.dim[2], panel = node->type.dim[3],
            columns = kernel->dim[2];
    nest_value v[WINOGRAD_MOST];
    struct lower_pos channel = lower_pos_constant(0), number = channel, lane = channel, column = channel;
    l->b.nest->parallel_extent = channels;
    lower_pos_add_term(l, &channel, lower_open(l, NEST_PARALLEL, channels), 1);
    lower_pos_add_term(l, &number, lower_open(l, NEST_SERIAL, panels), 1);
    lower_pos_add_term(l, &lane, lower_open(l, NEST_VECTOR, panel), 1);
    lower_pos_add(l, &column, &number, panel);
    lower_pos_add(l, &column, &lane, 1);
    if (columns % panel) l->cond = lower_pos_inside(l, &column, columns);
    for (uint32_t k = 0; k < taps; k++) {
        struct lower_pos at = lower_pos_constant(k * channels * columns);
        lower_pos_add(l, &at, &channel, columns);
        lower_pos_add(l, &at, &column, 1);
        v[node->attr[1].v[k]] = lower_value(l, node->args[0], &at);
    }
    apply(l, &winograd_kernel, dims, v);
    for (uint32_t k = 0; k < (uint32_t)node->type.dim[0]; k++) {
        struct lower_pos at = lower_pos_constant(k * panels * channels * panel);
        lower_pos_add(l, &at, &number, channels * panel);
        lower_pos_add(l, &at, &channel, panel);
        lower_pos_add(l, &at, &lane, 1);
        store(l, v[k], &at, 0);
    }
    nest_close_to(&l->b, 0);
    l->b.nest->work = (double)ir_type_elements(&node->type);
}

void lower_winograd(struct lower *l)
{
    const struct ir_node *node = ir_get(l->f, l->group->root);
    if (node->op == OP_winograd_points) {
        lower_points(l);
        return;
    }
    bool gradient = node->op == OP_winograd_sum;
    (gradient ? lower_gradient : lower_forward)(l);
    const struct ir_type *result = gradient ? ir_type(l->f, node->args[1]) : &node->type;
    l->b.nest->work = winograd_products(ir_type(l->f, node->args[0]), result) / 2;
}
