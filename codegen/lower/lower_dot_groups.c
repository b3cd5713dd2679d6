/* Many narrow products side by side, on a CPU: the groups of a convolution, or the blocks of a diagonal. A group has
 * fewer columns than half of a vector has lanes, so a vector has those of several groups, each lane with a row of its
 * own group: what groups read lies side by side, too, and is spread over the lanes in registers. One input of a group
 * after the other, and for each of them all of the last taps, which meet the same neighbours in the image: of a tile
 * of 8 pixels and 3 taps 10 vectors are spread for 24 multiply-adds.
 *
 *   inputs that are contracted                 inputs that are rows: the gradient of a kernel
 *   parallel lines, or row blocks, vectors     parallel parts of the sum, leading taps, or vectors
 *     row blocks                                 vectors of groups
 *       vectors of groups                          pieces of the last taps, inputs, as many as registers hold
 *         leading taps, pieces of the last ones      lines, blocks of steps
 *           multiply: inputs, last taps, rows          multiply: inputs, last taps, steps
 *         the store                                  the store
 */
#include "codegen/lower/lower_dot.h"

enum { LEAST_GROUPS = 2 /* of a vector */, MOST_CODE = 400 /* multiply-adds of a tile */ };

struct groups {
    struct lower_dot_product *p;
    uint32_t inner, other; /* axes: of which a group's inputs are the last part; of which a tile has `rows` */
    int64_t inputs, columns;
    int64_t count;               /* groups of a vector */
    int64_t rows, at_once, taps; /* of a tile, at most: rows, or steps; inputs; last taps */
    bool sums;                   /* the other axis is summed over */
};

/* ---------------------------------------------------------------- recognition */

static const struct lower_dot_run *last_run(const struct lower_dot_operand *o, uint32_t class)
{
    return o->count[class] ? &o->run[class][o->count[class] - 1] : NULL;
}

/* The axis of which a group's inputs are the last run; AXIS_B: none. */
static uint32_t inner_axis(const struct lower_dot_operand *x, int64_t inputs)
{
    for (uint32_t axis = AXIS_K; inputs > 1 && axis != AXIS_B; axis = axis == AXIS_K ? AXIS_M : AXIS_B) {
        const struct lower_dot_run *run = last_run(x, axis);
        if (run && run->stride == 1 && run->extent == inputs) return axis;
    }
    return inputs == 1 ? AXIS_K : AXIS_B;
}

static bool find(struct lower_dot_product *p, struct groups *g)
{
    const struct lower *l = p->l;
    const struct lower_dot_run *x = last_run(&p->x, AXIS_B), *y = last_run(&p->y, AXIS_B), *n = last_run(&p->y, AXIS_N);
    if (l->target->cuda || !p->rows_first || ir_get(l->f, p->root)->attr[4].n) return false; /* or in a fixed order */
    if (p->columns || p->shared_rows || !x || !y || x->extent != y->extent) return false;
    *g = (struct groups){.p = p, .inputs = x->stride, .columns = y->stride};
    int64_t widest = g->inputs > g->columns ? g->inputs : g->columns;
    g->count = widest > 0 ? (int64_t)l->lanes / widest : 0;
    g->inner = inner_axis(&p->x, g->inputs);
    g->other = g->inner == AXIS_K ? AXIS_M : AXIS_K;
    g->sums = g->other == AXIS_K;
    bool neighbours = g->columns == 1 ? !n : p->y.count[AXIS_N] == 1 && n->stride == 1 && n->extent == g->columns;
    return g->inner != AXIS_B && neighbours && g->count >= LEAST_GROUPS && x->extent >= LEAST_GROUPS;
}

int64_t dot_group_count(struct lower_dot_product *p)
{
    struct groups g;
    return find(p, &g) ? last_run(&p->x, AXIS_B)->extent : 1;
}

/* The parts that an axis has where a group's inputs, and with a view of taps these, are its last ones. */
uint32_t dot_group_parts(struct lower_dot_product *p, int64_t *part, uint32_t *axis)
{
    struct groups g;
    uint32_t count = 0;
    if (!find(p, &g)) return 0;
    const struct plan_taps *t = lower_taps_of(p->l, p->x.value);
    int64_t rest = p->l->axes[g.inner].extent / g.inputs;
    *axis = g.inner;
    for (uint32_t i = t ? (uint32_t)t->radix.count : 0; i-- > 0;) part[count++] = t->radix.items[i];
    if (!t) part[count++] = rest;
    part[count++] = g.inputs;
    return count;
}

static bool has_parts(const struct lower *l, const struct groups *g)
{
    const struct lower_axis *inner = &l->axes[g->inner], *b = &l->axes[AXIS_B], *n = &l->axes[AXIS_N];
    for (uint32_t axis = AXIS_B; axis <= AXIS_K; axis++)
        if (!l->axes[axis].extent) return false;
    return inner->parts > 1 && inner->part[inner->parts - 1] == g->inputs && n->parts == 1 &&
           last_run(&g->p->x, AXIS_B)->extent % b->part[b->parts - 1] == 0;
}

/* ---------------------------------------------------------------- the tile */

static nest_var open_last(struct groups *g, uint32_t axis, enum nest_loop loop, int64_t extent, int64_t unit)
{
    return dot_open(g->p, loop, axis, dot_last_index(g->p->l, axis), extent, unit, NULL);
}

/* What the lanes of a vector read of an operand: they go on in the next group, which is no step of an axis. */
static nest_value lanes_of(struct groups *g, const struct lower_dot_operand *o, int64_t lanes)
{
    struct lower *l = g->p->l;
    nest_var lane = lower_open(l, NEST_VECTOR, lanes);
    struct lower_pos at = dot_operand_pos(g->p, o);
    lower_pos_add_term(l, &at, lane, 1);
    return lower_cast(l, lower_value(l, o->value, &at), g->p->factor);
}

static struct nest_index at_var(struct lower *l, nest_var a, int64_t by, nest_var b)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, a, by);
    if (b != UINT32_MAX) lower_pos_add_term(l, &at, b, 1);
    return lower_pos_index(l, &at);
}

/* The inputs of a tile, and for each of them the last taps. */
struct inner {
    nest_var input, tap;
};

/* What is open: of groups, rows or steps, last taps and inputs so many, of these from `first` on. */
struct tile {
    int64_t count, rows, taps, inputs, first;
    uint32_t sums;
};

static struct inner open_inner(struct groups *g, const struct tile *t)
{
    struct inner i = {.input = lower_open(g->p->l, NEST_UNROLL, t->inputs)};
    i.tap = dot_open(g->p, NEST_UNROLL, g->inner, dot_last_index(g->p->l, g->inner) - 1, t->taps, 1, NULL);
    return i;
}

static void take_input(struct groups *g, const struct tile *t, struct inner i)
{
    g->p->at[g->inner].offset += t->first;
    lower_pos_add_term(g->p->l, &g->p->at[g->inner], i.input, 1);
}

static void multiply(struct groups *g, const struct tile *t)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    int64_t rows = t->rows;
    struct lower_dot_place before = dot_place(p);
    uint32_t read = nest_reg(&l->b, p->factor, (uint32_t)rows, true, 0),
             spread = nest_reg(&l->b, p->factor, (uint32_t)rows, true, 0);
    struct inner i = open_inner(g, t);
    struct lower_dot_place here = dot_place(p);
    nest_var row = open_last(g, g->other, NEST_UNROLL, rows, 1);
    struct lower_pos first = lower_pos_constant(t->first);
    nest_set(&l->b, read, at_var(l, row, 1, UINT32_MAX), lanes_of(g, &p->x, t->count * g->inputs));
    dot_return(p, &here);
    lower_pos_add_term(l, &first, i.input, 1);
    nest_spread(&l->b, spread, read, lower_pos_index(l, &first), g->columns, g->inputs);
    take_input(g, t, i);
    row = open_last(g, g->other, NEST_UNROLL, rows, 1);
    nest_value y = lanes_of(g, &p->y, t->count * g->columns),
               x = nest_get(&l->b, spread, at_var(l, row, 1, UINT32_MAX));
    struct nest_index sum = g->sums ? at_var(l, i.tap, t->inputs, i.input) : at_var(l, row, 1, UINT32_MAX);
    nest_set(&l->b, t->sums, sum, dot_multiply_add(p, x, y, nest_get(&l->b, t->sums, sum)));
    dot_return(p, &before);
}

/* What becomes of the sums. */
static void finish(struct groups *g, const struct tile *t)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    struct nest_index sum;
    if (g->sums) {
        struct inner i = open_inner(g, t);
        take_input(g, t, i);
        sum = at_var(l, i.tap, t->inputs, i.input);
    } else sum = at_var(l, open_last(g, g->other, NEST_UNROLL, t->rows, 1), 1, UINT32_MAX);
    lower_pos_add_term(l, &p->at[AXIS_N], lower_open(l, NEST_VECTOR, t->count * g->columns), 1);
    dot_finish(p, nest_get(&l->b, t->sums, sum));
    dot_return(p, &before);
}

/* ---------------------------------------------------------------- loops */

/* Whose steps workers share out: the last part of an axis, by pieces, or all before it together; AXES: none. */
struct share {
    uint32_t axis;
    bool pieces;
    int64_t extent;
};
enum { AXES = 4 };

/* The loops from outside in. */
enum stage { OUTER, VECTORS, ROWS, TILE };

struct loops {
    struct groups *g;
    const enum stage *stage;
    struct share share;
    struct tile tile;
};
typedef void piece_body(struct loops *, int64_t size);

/* All pieces of a part of an axis; the last one may be shorter. What is known of the variable in each of two branches
 * keeps positions exact. */
static void each_piece(struct loops *o, uint32_t axis, uint32_t part, int64_t size, piece_body *body)
{
    struct lower_dot_product *p = o->g->p;
    struct lower *l = p->l;
    struct lower_dot_place before = dot_place(p);
    int64_t extent = l->axes[axis].part[part], whole = extent / size, rest = extent % size;
    bool shared = o->share.axis == axis && o->share.pieces && part == dot_last_index(l, axis);
    if (!shared) {
        if (whole > 1) dot_open(p, NEST_SERIAL, axis, part, whole, size, NULL);
        if (whole) body(o, size);
        dot_return(p, &before);
        p->at[axis].offset += whole * size * lower_axis_stride(&l->axes[axis], part);
        if (rest) body(o, rest);
        dot_return(p, &before);
        return;
    }
    nest_var var = dot_open(p, NEST_PARALLEL, axis, part, whole + (rest > 0), size, NULL);
    struct lower_dot_place open = dot_place(p);
    if (whole && rest) nest_open_if(&l->b, lower_compare(l, OP_lt, var, whole));
    if (whole) l->vars.items[var].extent = whole, body(o, size);
    dot_return(p, &open);
    l->vars.items[var].extent = whole + (rest > 0);
    if (whole && rest) nest_open_if(&l->b, lower_compare(l, OP_eq, var, whole));
    lower_pos_add_term(l, &p->at[axis], var, -size);
    p->at[axis].offset += whole * size;
    if (rest) body(o, rest);
    dot_return(p, &before);
}

/* All parts of an axis but the last `inside` ones, unless they are shared out. */
static void open_parts(struct loops *o, uint32_t axis, uint32_t inside)
{
    const struct lower_axis *a = &o->g->p->l->axes[axis];
    if (o->share.axis == axis && !o->share.pieces) return;
    for (uint32_t i = 0; i + inside < a->parts; i++)
        if (a->part[i] > 1) dot_open(o->g->p, NEST_SERIAL, axis, i, a->part[i], 1, NULL);
}

/* What so many rows or steps of the next line will read of an operand that comes from further than the second cache. */
static void prefetch(struct groups *g, uint32_t buffer, const struct lower_pos *at, int64_t ahead, ir_value whole)
{
    struct lower *l = g->p->l;
    int64_t bytes = (int64_t)ir_dtype_bytes((enum ir_dtype)ir_type(l->f, whole)->dtype);
    if (ir_type_elements(ir_type(l->f, whole)) * bytes > 2 * l->target->l2_bytes)
        nest_prefetch(&l->b, buffer, lower_pos_index(l, at), ahead);
}

static void prefetch_line(struct groups *g, int64_t rows)
{
    struct lower_dot_product *p = g->p;
    struct lower *l = p->l;
    const struct plan_taps *t = lower_taps_of(l, p->x.value);
    if (!t || t->radix.count < 2) return;
    struct lower_dot_place before = dot_place(p);
    open_last(g, g->other, NEST_UNROLL, rows, 1);
    struct lower_pos at = dot_operand_pos(p, &p->x), from;
    uint32_t buffer = lower_taps_place(l, t, &at, &from);
    size_t last = t->radix.count - 1;
    int64_t lines = g->sums ? 1 : t->radix.items[last]; /* behind all that is read now */
    if (buffer != UINT32_MAX) prefetch(g, buffer, &from, lines * t->steps.items[last], t->base);
    ir_value y = p->y.value;
    while (!l->argument[y] && ir_get(l->f, y)->op == OP_reshape) y = ir_get(l->f, y)->args[0];
    const struct lower_dot_run *steps = last_run(&p->y, AXIS_K);
    if (g->sums && steps && l->argument[y]) {
        const struct lower_axis *k = &l->axes[AXIS_K];
        at = dot_operand_pos(p, &p->y);
        prefetch(g, l->argument[y] - 1, &at, k->part[k->parts - 1] * steps->stride, y);
    }
    dot_return(p, &before);
}

static void multiply_steps(struct loops *o, int64_t steps)
{
    o->tile.rows = steps;
    prefetch_line(o->g, steps);
    multiply(o->g, &o->tile);
}

static void multiply_taps(struct loops *o, int64_t taps)
{
    o->tile.taps = taps;
    multiply(o->g, &o->tile);
}

static void sum_taps(struct loops *o, int64_t taps)
{
    struct groups *g = o->g;
    struct lower_dot_product *p = g->p;
    struct lower_dot_place before = dot_place(p);
    for (int64_t first = 0, inputs; first < g->inputs; first += inputs) {
        inputs = g->inputs - first < g->at_once ? g->inputs - first : g->at_once;
        o->tile = (struct tile){.count = o->tile.count, .taps = taps, .inputs = inputs, .first = first};
        o->tile.sums = nest_reg(&p->l->b, p->sum, (uint32_t)(taps * inputs), true, 0);
        struct lower_dot_place empty = dot_place(p);
        open_parts(o, AXIS_K, 1);
        each_piece(o, AXIS_K, dot_last_index(p->l, AXIS_K), g->rows, multiply_steps);
        dot_return(p, &empty);
        finish(g, &o->tile);
        dot_return(p, &before);
    }
}

static void tile(struct loops *o)
{
    struct groups *g = o->g;
    struct lower_dot_product *p = g->p;
    uint32_t taps = dot_last_index(p->l, g->inner) - 1;
    if (g->sums) {
        each_piece(o, AXIS_M, taps, g->taps, sum_taps);
        return;
    }
    struct lower_dot_place before = dot_place(p);
    o->tile.inputs = g->inputs;
    o->tile.sums = nest_reg(&p->l->b, p->sum, (uint32_t)o->tile.rows, true, 0);
    p->panel_columns = o->tile.count * g->columns;
    dot_prefetch_end(p, (uint32_t)o->tile.rows);
    prefetch_line(g, o->tile.rows);
    open_parts(o, AXIS_K, 2);
    each_piece(o, AXIS_K, taps, g->taps, multiply_taps);
    dot_return(p, &before);
    finish(g, &o->tile);
    dot_return(p, &before);
}

static void next_stage(struct loops *);

static void with_vector(struct loops *o, int64_t count)
{
    o->tile.count = count;
    next_stage(o);
}

static void with_rows(struct loops *o, int64_t rows)
{
    o->tile.rows = rows;
    next_stage(o);
}

static void next_stage(struct loops *o)
{
    struct groups *g = o->g;
    switch (*o->stage++) {
    case OUTER:
        open_parts(o, AXIS_B, 1);
        open_parts(o, AXIS_M, g->sums ? 2 : 1);
        next_stage(o);
        break;
    case VECTORS: each_piece(o, AXIS_B, dot_last_index(g->p->l, AXIS_B), g->count, with_vector); break;
    case ROWS: each_piece(o, AXIS_M, dot_last_index(g->p->l, AXIS_M), g->rows, with_rows); break;
    case TILE: tile(o); break;
    }
    o->stage--;
}

/* ---------------------------------------------------------------- the shape */

/* Blocks as even as they can be. */
static int64_t even(int64_t extent, int64_t most)
{
    int64_t pieces = (extent + most - 1) / most;
    return (extent + pieces - 1) / pieces;
}

/* A tile's registers hold its sums, what is read of the image and that spread, and an element of the kernel or of the
 * cotangent. Of the gradient of a kernel its sums are most of them: those of all last taps and of some inputs. */
static void choose_tile(struct groups *g)
{
    enum { MOST_ROWS = 8, FEW_ROWS = 4, MOST_STEPS = 4, FEW_STEPS = 2 };
    const struct lower *l = g->p->l;
    const struct lower_axis *inner = &l->axes[g->inner], *other = &l->axes[g->other];
    bool many = l->target->vector_registers >= 32;
    int64_t sums = l->target->vector_registers / 4 * 3, most = g->sums ? (many ? MOST_STEPS : FEW_STEPS)
                                                               : many  ? MOST_ROWS
                                                                       : FEW_ROWS;
    int64_t taps = inner->part[inner->parts - 2];
    g->rows = even(other->part[other->parts - 1], most);
    g->taps = even(taps, g->sums ? sums : MOST_CODE / (g->inputs * g->rows));
    g->at_once = g->sums ? even(g->inputs, sums / g->taps) : g->inputs;
}

static void consider(struct share *best, uint32_t axis, bool pieces, int64_t extent)
{
    enum { ENOUGH = 16 };
    if (best->extent < ENOUGH && extent > best->extent) *best = (struct share){axis, pieces, extent};
}

/* Lines, or parts of sums, rather than vectors, of which each reads a part of every line, or blocks of rows. */
static struct share choose_share(const struct groups *g)
{
    const struct lower_axis *b = &g->p->l->axes[AXIS_B], *m = &g->p->l->axes[AXIS_M];
    int64_t groups = b->part[b->parts - 1], row = m->part[m->parts - 1];
    struct share best = {.axis = AXES, .extent = 1};
    consider(&best, AXIS_B, false, b->extent / groups);
    consider(&best, AXIS_M, false, m->extent / (g->sums ? row * m->part[m->parts - 2] : row));
    if (!g->sums) consider(&best, AXIS_M, true, (row + g->rows - 1) / g->rows);
    consider(&best, AXIS_B, true, (groups + g->count - 1) / g->count);
    return best;
}

/* Parts that are shared out together: neighbours in memory are a worker's, and what it has is found by division. */
static void open_shared(struct loops *o, uint32_t axis, int64_t inside)
{
    struct lower_dot_product *p = o->g->p;
    nest_var var = lower_open(p->l, NEST_PARALLEL, o->share.extent);
    lower_pos_add_term(p->l, &p->at[axis], var, inside);
}

bool dot_by_groups(struct lower_dot_product *p)
{
    static const enum stage plain[] = {OUTER, ROWS, VECTORS, TILE}, vectors[] = {VECTORS, OUTER, ROWS, TILE},
                            rows[] = {ROWS, OUTER, VECTORS, TILE}, sums[] = {OUTER, VECTORS, TILE},
                            vectors_of_sums[] = {VECTORS, OUTER, TILE};
    struct lower *l = p->l;
    struct groups g;
    if (!find(p, &g) || !has_parts(l, &g)) return false;
    choose_tile(&g);
    struct loops o = {.g = &g, .share = choose_share(&g)};
    if (o.share.pieces && o.share.axis == AXIS_B) o.stage = g.sums ? vectors_of_sums : vectors;
    else o.stage = o.share.pieces ? rows : g.sums ? sums : plain;
    l->b.nest->parallel_extent = o.share.extent;
    if (o.share.axis < AXES && !o.share.pieces)
        open_shared(&o, o.share.axis, l->axes[o.share.axis].extent / o.share.extent);
    next_stage(&o);
    nest_close_to(&l->b, 0);
    return true;
}
