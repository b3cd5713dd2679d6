/* Attention by tiles: contractions of scores that are never stored (passes/fuse_attention.c says which).
 *
 *   parallel   a batch, and a block of `width` rows of what is made: they are the lanes. The last block begins where
 *              it ends with the last row, so blocks may overlap; a row is the same whichever makes it
 *     that side of every product, once, its rows along the lanes
 *     serial   blocks of `steps` of the other side: its rows as they are, without gaps
 *       products: tiles [steps][width], then the element-wise work on them
 *       softmax: maximum and sum so far; what was summed with a smaller maximum is scaled (Milakov and Gimelshein)
 *       sums [width][made] += tile x the other operand's block
 *     division by the softmax's sum, and the stores
 *
 * So the scores take memory for one tile, and all that is done to them is lower_value's, at the tile's positions. */
#include "codegen/lower/lower.h"
#include <math.h>
#include <string.h>

enum { WIDTH = 64, STEPS = 64, MOST_SOURCES = 8, MOST_SINKS = 4, MOST_BLOCKS = 2 * MOST_SOURCES };

struct run {
    uint32_t count;
    int64_t extent[IR_MAX_RANK], stride[IR_MAX_RANK];
};
/* An operand: its batch, its rows, and what is contracted with another one's or, of a sink, what is made. */
struct side {
    ir_value value;
    struct run batch, along, inner;
    int64_t length; /* of inner */
};
struct block { /* of an operand, in a local: [rows][columns], padded to whole vectors */
    struct side side;
    uint32_t local;
    int64_t columns;
};
struct source {
    ir_value product;
    struct side lanes;
    uint32_t block, packed, tile; /* packed: the lanes' side, [depth][width] */
};
struct sink {
    ir_value product, from;
    bool left; /* the tile is the first operand */
    uint32_t block, tile, sums;
};

struct attention {
    struct lower *l;
    struct plan_scores s;
    bool rows; /* lanes are rows of scores, steps columns; or the other way round */
    enum ir_dtype sum;
    int64_t width, blocks, steps, lanes, extent, walked; /* extents of the two sides */
    struct source source[MOST_SOURCES];
    struct sink sink[MOST_SINKS];
    struct block block[MOST_BLOCKS];
    uint32_t sources, sinks, block_count, tiles, tile[MOST_SOURCES + MOST_SINKS];
    ir_value max, total; /* of the softmax that is made here; 0: none */
    ir_value score;      /* what its maximum is of */
    uint32_t max_local, safe_local, sum_local, scale_local;
    struct lower_pos batch, first, step; /* where the open loops stand: batch, first lane, first step */
};

/* ---------------------------------------------------------------- operands */

static void add_run(struct run *r, int64_t extent, int64_t stride)
{
    if (extent == 1) return;
    uint32_t n = r->count;
    if (n && r->stride[n - 1] == extent * stride) {
        r->extent[n - 1] *= extent;
        r->stride[n - 1] = stride;
        return;
    }
    r->extent[n] = extent, r->stride[n] = stride;
    r->count++;
}

static struct side side_of(const struct ir_func *f, ir_value v, struct ir_ints batch, struct ir_ints along, bool inner)
{
    const struct ir_type *type = ir_type(f, v);
    struct side o;
    int64_t stride[IR_MAX_RANK];
    bool used[IR_MAX_RANK] = {false};
    memset(&o, 0, sizeof o);
    o.value = v;
    o.length = 1;
    lower_strides(type, stride);
    for (uint32_t i = 0; i < batch.n; i++) {
        add_run(&o.batch, type->dim[batch.v[i]], stride[batch.v[i]]);
        used[batch.v[i]] = true;
    }
    for (uint32_t i = 0; i < along.n; i++) { /* contracted: of a source the inner side, of a sink the rows */
        add_run(inner ? &o.inner : &o.along, type->dim[along.v[i]], stride[along.v[i]]);
        used[along.v[i]] = true;
        if (inner) o.length *= type->dim[along.v[i]];
    }
    for (uint32_t i = 0; i < type->rank; i++) {
        if (used[i]) continue;
        add_run(inner ? &o.along : &o.inner, type->dim[i], stride[i]);
        if (!inner) o.length *= type->dim[i];
    }
    return o;
}

static void add_runs(struct lower *l, struct lower_pos *sum, const struct run *r, const struct lower_pos *at)
{
    struct lower_pos part[IR_MAX_RANK];
    lower_pos_split(l, at, r->count, r->extent, part);
    for (uint32_t i = 0; i < r->count; i++) lower_pos_add(l, sum, &part[i], r->stride[i]);
}

static nest_value operand(struct attention *a, const struct side *o, const struct lower_pos *along,
                          const struct lower_pos *inner)
{
    struct lower_pos at = lower_pos_constant(0);
    add_runs(a->l, &at, &o->batch, &a->batch);
    add_runs(a->l, &at, &o->along, along);
    add_runs(a->l, &at, &o->inner, inner);
    return lower_cast(a->l, lower_value(a->l, o->value, &at), a->sum);
}

/* ---------------------------------------------------------------- what the group is */

static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

/* Vectors and rows of a register tile for so many vectors in all: most products for what is loaded, least padding. */
struct shape {
    uint32_t vectors, rows;
};
static struct shape shape_of(const struct attention *a, int64_t vectors)
{
    static const uint32_t many[] = {0, 14, 14, 9, 6, 5}, few[] = {0, 10, 6, 4};
    bool wide = a->l->target->vector_registers >= 32;
    struct shape best = {1, 1};
    double most = 0;
    for (uint32_t v = 1; v <= (wide ? 5 : 3); v++) {
        uint32_t r = wide ? many[v] : few[v];
        double score = (double)(v * r) / (v + r) * (double)vectors / (double)round_up(vectors, v);
        if (score > most) most = score, best = (struct shape){v, r};
    }
    return best;
}

static int64_t padded(const struct attention *a, int64_t columns)
{
    int64_t vectors = (columns + a->lanes - 1) / a->lanes;
    return round_up(vectors, shape_of(a, vectors).vectors) * a->lanes;
}

static uint32_t add_block(struct attention *a, struct side side)
{
    for (uint32_t i = 0; i < a->block_count; i++)
        if (!memcmp(&a->block[i].side, &side, sizeof side)) return i;
    a->block[a->block_count] = (struct block){.side = side, .columns = padded(a, side.length)};
    return a->block_count++;
}

static void add_source(struct attention *a, ir_value v)
{
    const struct ir_node *n = ir_get(a->l->f, v);
    struct source *s = &a->source[a->sources++];
    uint32_t lanes = a->rows ? 0 : 1;
    s->product = v;
    s->lanes = side_of(a->l->f, n->args[lanes], n->attr[lanes], n->attr[2 + lanes], true);
    s->block = add_block(a, side_of(a->l->f, n->args[!lanes], n->attr[!lanes], n->attr[2 + !lanes], true));
}

/* Scores, and what is element-wise with them, have a mark: lower_reduced.keep. */
static void add_sink(struct attention *a, ir_value v)
{
    const struct ir_node *n = ir_get(a->l->f, v);
    struct sink *s = &a->sink[a->sinks];
    s->product = v;
    s->left = a->l->reduced[n->args[0]].keep;
    uint32_t other = s->left ? 1 : 0;
    s->from = n->args[!other];
    s->block = add_block(a, side_of(a->l->f, n->args[other], n->attr[other], n->attr[2 + other], false));
    s->tile = a->sinks++;
}

static bool is_output(const struct lower *l, ir_value v)
{
    for (size_t i = 0; i < l->group->outputs.count; i++)
        if (l->group->outputs.items[i] == v) return true;
    return false;
}

static ir_value without_casts(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_cast) v = ir_get(f, v)->args[0];
    return v;
}

/* Which nodes are products of tiles, the softmax, and what is made from them. */
static bool find(struct attention *a)
{
    struct lower *l = a->l;
    const struct plan_group *g = l->group;
    a->rows = true;
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        const struct ir_node *n = ir_get(l->f, v);
        bool product = n->op == OP_dot && !is_output(l, v);
        if (product && !plan_scores_of(l->f, v, &a->s)) return false;
        bool made = product;
        for (uint32_t k = 0; k < n->arg_count && ir_is_ewise((enum ir_op)n->op); k++)
            made |= l->reduced[n->args[k]].keep;
        l->reduced[v].keep = made;
        if (n->op == OP_dot && !product) {
            uint32_t side = l->reduced[n->args[0]].keep ? 0 : 1;
            a->rows = n->attr[2 + side].v[0] == a->s.batches + a->s.row_dims;
        }
        if (n->op == OP_reduce_max && l->reduced[n->args[0]].keep) a->max = v;
        if (n->op == OP_reduce_sum && l->reduced[n->args[0]].keep) a->total = v;
        if (product) a->sum = n->type.dtype == IR_F64 ? IR_F64 : IR_F32;
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        if (ir_get(l->f, v)->op != OP_dot) continue;
        if (is_output(l, v) ? a->sinks == MOST_SINKS : a->sources == MOST_SOURCES) return false;
        if (is_output(l, v)) add_sink(a, v);
        else add_source(a, v);
    }
    if (a->max) a->score = without_casts(l->f, ir_get(l->f, a->max)->args[0]);
    return a->sources > 0 && (a->max != 0) == (a->total != 0);
}

/* Rows of a block: whole vectors, few of them computed twice. */
static int64_t choose_width(const struct attention *a)
{
    int64_t best = WIDTH, least = INT64_MAX;
    for (int64_t w = WIDTH + WIDTH / 2; w >= WIDTH / 2; w -= a->lanes < 8 ? 8 : a->lanes) {
        if (w > a->extent) continue;
        int64_t made = (a->extent + w - 1) / w * w, off = w > WIDTH ? w - WIDTH : WIDTH - w;
        int64_t cost = made * (8 * WIDTH + off); /* a block twice as narrow: an eighth more */
        if (cost < least) least = cost, best = w;
    }
    return best;
}

static int64_t choose_steps(int64_t walked)
{
    for (int64_t off = 0; off <= STEPS / 2; off += 4)
        for (int turn = 0; turn < 2; turn++) {
            int64_t c = STEPS + (turn ? -off : off);
            if (walked % c == 0) return c;
        }
    return walked < STEPS ? walked : STEPS;
}

static void choose(struct attention *a)
{
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    a->extent = a->rows ? a->s.rows : a->s.columns;
    a->walked = a->rows ? a->s.columns : a->s.rows;
    a->width = choose_width(a);
    a->blocks = (a->extent + a->width - 1) / a->width;
    a->steps = choose_steps(a->walked);
    a->tiles = a->sources > a->sinks ? a->sources : a->sinks;
    for (uint32_t i = 0; i < a->tiles; i++) a->tile[i] = nest_local(b, a->sum, a->steps * a->width);
    for (uint32_t i = 0; i < a->sources; i++) {
        a->source[i].tile = a->tile[i];
        a->source[i].packed = nest_local(b, a->sum, a->source[i].lanes.length * a->width);
    }
    for (uint32_t i = 0; i < a->block_count; i++)
        a->block[i].local = nest_local(b, a->sum, a->steps * a->block[i].columns);
    for (uint32_t i = 0; i < a->sinks; i++) {
        a->sink[i].tile = a->tile[a->sink[i].tile];
        a->sink[i].sums = nest_local(b, a->sum, a->width * a->block[a->sink[i].block].columns);
    }
    if (!a->max) return;
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, a->max)->dtype;
    a->max_local = nest_local(b, dtype, a->width);
    a->safe_local = nest_local(b, dtype, a->width);
    a->sum_local = nest_local(b, a->sum, a->width);
    a->scale_local = nest_local(b, a->sum, a->width);
}

/* ---------------------------------------------------------------- loops */

static struct lower_pos at_zero(void) { return lower_pos_constant(0); }

static struct lower_pos var_pos(struct lower *l, nest_var v, int64_t scale)
{
    struct lower_pos p = at_zero();
    lower_pos_add_term(l, &p, v, scale);
    return p;
}

static struct lower_pos plus(struct lower *l, const struct lower_pos *x, const struct lower_pos *y, int64_t scale)
{
    struct lower_pos p = *x;
    lower_pos_add(l, &p, y, scale);
    return p;
}

/* Two coordinates in a local of rows of `columns`. */
static struct nest_index in_rows(struct lower *l, const struct lower_pos *row, int64_t columns,
                                 const struct lower_pos *column)
{
    struct lower_pos p = plus(l, column, row, columns);
    return lower_pos_index(l, &p);
}

static void fill(struct attention *a, uint32_t local, enum ir_dtype dtype, int64_t extent, double number)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos at = var_pos(l, lower_open(l, NEST_VECTOR, extent), 1);
    nest_store(&l->b, local, lower_pos_index(l, &at), nest_number(&l->b, dtype, number), 0);
    nest_close_to(&l->b, depth);
}

/* Batch and first row of a block, from its number. */
static void open_blocks(struct attention *a)
{
    struct lower *l = a->l;
    int64_t all = a->s.batch * a->blocks, last = a->extent - a->width;
    nest_var var = lower_open(l, NEST_PARALLEL, all);
    struct lower_pos number = var_pos(l, var, 1);
    l->b.nest->parallel_extent = all;
    a->batch = a->first = at_zero();
    nest_value n = lower_pos_value(l, &number), by = lower_number(l, a->blocks);
    if (a->blocks == 1) {
        a->batch = number;
        return;
    }
    lower_pos_add_scaled(l, &a->batch, lower_binary(l, OP_div, IR_I32, n, by), 1, a->s.batch - 1);
    nest_value block = a->s.batch == 1 ? n : lower_binary(l, OP_rem, IR_I32, n, by);
    nest_value first = lower_binary(l, OP_mul, IR_I32, block, lower_number(l, a->width));
    if (a->extent % a->width) first = lower_binary(l, OP_min, IR_I32, first, lower_number(l, last));
    lower_pos_add_scaled(l, &a->first, first, 1, last);
}

/* The lanes' side of a product: [depth][width]. */
static void pack_lanes(struct attention *a, const struct source *s)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos lane, inner = var_pos(l, lower_open(l, NEST_SERIAL, s->lanes.length), 1);
    lane = var_pos(l, lower_open(l, NEST_VECTOR, a->width), 1);
    struct lower_pos along = plus(l, &a->first, &lane, 1);
    nest_store(&l->b, s->packed, in_rows(l, &inner, a->width, &lane), operand(a, &s->lanes, &along, &inner), 0);
    nest_close_to(&l->b, depth);
}

static void pack_block(struct attention *a, const struct block *k, int64_t steps)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos row = var_pos(l, lower_open(l, NEST_SERIAL, steps), 1), along = plus(l, &a->step, &row, 1);
    struct lower_pos inner = var_pos(l, lower_open(l, NEST_VECTOR, k->side.length), 1);
    nest_store(&l->b, k->local, in_rows(l, &row, k->columns, &inner), operand(a, &k->side, &along, &inner), 0);
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- products of locals */

/* out[row][column] (+)= left x right[k][column] over k; left lies by rows, or by k. */
struct product {
    uint32_t left, right, out;
    int64_t rows, columns, depth, left_row, left_k, width; /* width: row length of right and out */
    bool adds;
    uint32_t scale; /* adds to what is there times scale[row]; 0: as it is */
};

static struct nest_index reg_at(struct lower *l, nest_var row, uint32_t vectors, nest_var vector)
{
    struct lower_pos at = at_zero();
    if (row != UINT32_MAX) lower_pos_add_term(l, &at, row, vectors);
    lower_pos_add_term(l, &at, vector, 1);
    return lower_pos_index(l, &at);
}

/* The loops over one vector of a tile's row; returns its column. */
static struct lower_pos open_vector(struct attention *a, const struct lower_pos *column, uint32_t vectors, nest_var *v)
{
    struct lower *l = a->l;
    *v = lower_open(l, NEST_UNROLL, vectors);
    struct lower_pos at = *column;
    lower_pos_add_term(l, &at, *v, a->lanes);
    lower_pos_add_term(l, &at, lower_open(l, NEST_VECTOR, a->lanes), 1);
    return at;
}

static void register_tile(struct attention *a, const struct product *p, struct shape tile, const struct lower_pos *row,
                          const struct lower_pos *column)
{
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t acc = nest_reg(b, a->sum, tile.rows * tile.vectors, true, 0), depth = b->depth;
    uint32_t right = nest_reg(b, a->sum, tile.vectors, true, 0);
    nest_var r, v;
    struct lower_pos at, here;
    if (p->adds) {
        r = lower_open(l, NEST_UNROLL, tile.rows);
        here = *row;
        lower_pos_add_term(l, &here, r, 1);
        nest_value scale = p->scale ? nest_load(b, p->scale, lower_pos_index(l, &here), 0) : 0;
        at = open_vector(a, column, tile.vectors, &v);
        nest_value sum = nest_load(b, p->out, in_rows(l, &here, p->width, &at), 0);
        nest_set(b, acc, reg_at(l, r, tile.vectors, v), scale ? lower_binary(l, OP_mul, a->sum, sum, scale) : sum);
        nest_close_to(b, depth);
    }
    struct lower_pos k = var_pos(l, lower_open(l, NEST_SERIAL, p->depth), 1);
    uint32_t inside = b->depth;
    at = open_vector(a, column, tile.vectors, &v);
    nest_set(b, right, reg_at(l, UINT32_MAX, 0, v), nest_load(b, p->right, in_rows(l, &k, p->width, &at), 0));
    nest_close_to(b, inside);
    r = lower_open(l, NEST_UNROLL, tile.rows);
    here = at_zero();
    lower_pos_add(l, &here, row, p->left_row);
    lower_pos_add_term(l, &here, r, p->left_row);
    lower_pos_add(l, &here, &k, p->left_k);
    nest_value x = nest_load(b, p->left, lower_pos_index(l, &here), 0);
    open_vector(a, column, tile.vectors, &v);
    struct nest_index index = reg_at(l, r, tile.vectors, v);
    nest_value y = nest_get(b, right, reg_at(l, UINT32_MAX, 0, v));
    nest_set(b, acc, index, nest_fma(b, a->sum, x, y, nest_get(b, acc, index)));
    nest_close_to(b, depth);
    r = lower_open(l, NEST_UNROLL, tile.rows);
    here = *row;
    lower_pos_add_term(l, &here, r, 1);
    at = open_vector(a, column, tile.vectors, &v);
    nest_store(b, p->out, in_rows(l, &here, p->width, &at), nest_get(b, acc, reg_at(l, r, tile.vectors, v)), 0);
    nest_close_to(b, depth);
}

static void multiply(struct attention *a, const struct product *p)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct shape tile = shape_of(a, p->columns / a->lanes);
    if (tile.rows > p->rows) tile.rows = (uint32_t)p->rows;
    int64_t groups = p->columns / a->lanes / tile.vectors, blocks = p->rows / tile.rows, tail = p->rows % tile.rows;
    struct lower_pos column = at_zero(), row = at_zero();
    if (groups > 1)
        lower_pos_add_term(l, &column, lower_open(l, NEST_SERIAL, groups), tile.vectors * (int64_t)a->lanes);
    uint32_t inside = l->b.depth;
    if (blocks > 1) lower_pos_add_term(l, &row, lower_open(l, NEST_SERIAL, blocks), tile.rows);
    register_tile(a, p, tile, &row, &column);
    nest_close_to(&l->b, inside);
    row = lower_pos_constant(blocks * tile.rows);
    tile.rows = (uint32_t)tail;
    if (tail) register_tile(a, p, tile, &row, &column);
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- element-wise work */

/* Where a step and a lane are among the scores. */
static struct lower_pos score_at(struct attention *a, const struct lower_pos *step, const struct lower_pos *lane)
{
    struct lower *l = a->l;
    struct lower_pos p = at_zero(), s = plus(l, &a->step, step, 1), r = plus(l, &a->first, lane, 1);
    lower_pos_add(l, &p, &a->batch, a->s.rows * a->s.columns);
    lower_pos_add(l, &p, a->rows ? &r : &s, a->s.columns);
    lower_pos_add(l, &p, a->rows ? &s : &r, 1);
    return p;
}

static void give(struct attention *a, ir_value v, nest_value is)
{
    enum ir_dtype dtype = (enum ir_dtype)ir_type(a->l->f, v)->dtype;
    a->l->from[v] = (struct lower_override){.source = FROM_VALUE, .value = lower_cast(a->l, is, dtype)};
}

static void give_products(struct attention *a, struct nest_index at)
{
    for (uint32_t i = 0; i < a->sources; i++)
        give(a, a->source[i].product, nest_load(&a->l->b, a->source[i].tile, at, 0));
}

static void store_weights(struct attention *a, const struct lower_pos *p, struct nest_index at)
{
    struct lower *l = a->l;
    nest_value x[MOST_SINKS];
    for (uint32_t i = 0; i < a->sinks; i++) x[i] = lower_cast(l, lower_value(l, a->sink[i].from, p), a->sum);
    for (uint32_t i = 0; i < a->sinks; i++) nest_store(&l->b, a->sink[i].tile, at, x[i], 0);
}

static void weigh(struct attention *a, int64_t steps)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos step = var_pos(l, lower_open(l, NEST_SERIAL, steps), 1);
    struct lower_pos lane = var_pos(l, lower_open(l, NEST_VECTOR, a->width), 1), p = score_at(a, &step, &lane);
    struct nest_index at = in_rows(l, &step, a->width, &lane);
    give_products(a, at);
    store_weights(a, &p, at);
    nest_close_to(&l->b, depth);
}

static nest_value select(struct lower *l, nest_value cond, nest_value x, nest_value y)
{
    return nest_op(&l->b, OP_select, nest_dtype(&l->b, x), (nest_value[]){cond, x, y}, 3);
}

/* The maximum of a vector of rows with the tile's; by what the sums so far are to be scaled. Where all scores so far
 * are -infinity, the exponentials are those without a maximum: 0. */
static void raise_max(struct attention *a, const struct lower_pos *group, uint32_t most)
{
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    struct lower_pos lane = *group;
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, a->max)->dtype;
    struct nest_index zero = {0};
    lower_pos_add_term(l, &lane, lower_open(l, NEST_VECTOR, a->lanes), 1);
    struct nest_index at = lower_pos_index(l, &lane);
    nest_value before = lower_cast(l, nest_load(b, a->max_local, at, 0), a->sum);
    nest_value now = lower_binary(l, OP_max, a->sum, before, nest_get(b, most, zero));
    nest_value less = lower_binary(l, OP_sub, a->sum, before, now), one = nest_number(b, a->sum, 1);
    nest_value scale = nest_op(b, OP_exp, a->sum, &less, 1);
    scale = select(l, lower_binary(l, OP_eq, IR_BOOL, before, now), one, scale);
    nest_value none = lower_binary(l, OP_eq, IR_BOOL, now, nest_number(b, a->sum, -INFINITY));
    nest_value safe = select(l, none, nest_number(b, a->sum, 0), now);
    nest_value sum = nest_load(b, a->sum_local, at, 0);
    nest_store(b, a->max_local, at, lower_cast(l, now, dtype), 0);
    nest_store(b, a->safe_local, at, lower_cast(l, safe, dtype), 0);
    nest_store(b, a->scale_local, at, scale, 0);
    nest_store(b, a->sum_local, at, lower_binary(l, OP_mul, a->sum, sum, scale), 0);
    nest_close_to(b, depth);
}

static void softmax(struct attention *a, int64_t steps)
{
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    struct nest_index zero = {0};
    struct lower_pos group = at_zero();
    if (a->width > a->lanes) group = var_pos(l, lower_open(l, NEST_SERIAL, a->width / a->lanes), a->lanes);
    uint32_t most = nest_reg(b, a->sum, 1, true, -INFINITY), sum = nest_reg(b, a->sum, 1, true, 0), inside = b->depth;
    for (int turn = 0; turn < 2; turn++) {
        struct lower_pos step = var_pos(l, lower_open(l, NEST_SERIAL, steps), 1), lane = group;
        lower_pos_add_term(l, &lane, lower_open(l, NEST_VECTOR, a->lanes), 1);
        struct lower_pos p = score_at(a, &step, &lane);
        struct nest_index at = in_rows(l, &step, a->width, &lane);
        if (!turn) {
            give_products(a, at);
            nest_value z = lower_value(l, a->score, &p);
            give(a, a->score, z);
            nest_value y = lower_cast(l, lower_value(l, ir_get(l->f, a->max)->args[0], &p), a->sum);
            nest_store(b, a->tile[0], at, lower_cast(l, z, a->sum), 0);
            nest_set(b, most, zero, lower_binary(l, OP_max, a->sum, nest_get(b, most, zero), y));
            nest_close_to(b, inside);
            l->from[a->score] = (struct lower_override){0};
            for (uint32_t i = 0; i < a->sources; i++) l->from[a->source[i].product] = (struct lower_override){0};
            raise_max(a, &group, most);
            struct lower_pos base = a->first;
            lower_pos_add(l, &base, &a->batch, a->s.rows);
            l->from[a->max] = (struct lower_override){.source = FROM_BUFFER, .buffer = a->safe_local, .base = base};
            continue;
        }
        give(a, a->score, nest_load(b, a->tile[0], at, 0));
        give(a, a->total, nest_number(b, a->sum, 1));
        nest_value e = lower_cast(l, lower_value(l, ir_get(l->f, a->total)->args[0], &p), a->sum);
        nest_set(b, sum, zero, lower_binary(l, OP_add, a->sum, nest_get(b, sum, zero), e));
        store_weights(a, &p, at);
        nest_close_to(b, inside);
        l->from[a->score] = l->from[a->max] = l->from[a->total] = (struct lower_override){0};
    }
    struct lower_pos lane = group;
    lower_pos_add_term(l, &lane, lower_open(l, NEST_VECTOR, a->lanes), 1);
    struct nest_index at = lower_pos_index(l, &lane);
    nest_value all = lower_binary(l, OP_add, a->sum, nest_load(b, a->sum_local, at, 0), nest_get(b, sum, zero));
    nest_store(b, a->sum_local, at, all, 0);
    nest_close_to(b, depth);
}

/* ---------------------------------------------------------------- one block of steps, and the end */

static void walk(struct attention *a, int64_t steps)
{
    for (uint32_t i = 0; i < a->block_count; i++) pack_block(a, &a->block[i], steps);
    for (uint32_t i = 0; i < a->sources; i++) {
        const struct source *s = &a->source[i];
        int64_t depth = s->lanes.length;
        multiply(a, &(struct product){.left = a->block[s->block].local,
                                      .right = s->packed,
                                      .out = s->tile,
                                      .rows = steps,
                                      .columns = a->width,
                                      .depth = depth,
                                      .width = a->width,
                                      .left_row = a->block[s->block].columns,
                                      .left_k = 1});
    }
    if (a->max) softmax(a, steps);
    else weigh(a, steps);
    for (uint32_t i = 0; i < a->sinks; i++) {
        const struct sink *s = &a->sink[i];
        int64_t columns = a->block[s->block].columns;
        multiply(a, &(struct product){.left = s->tile,
                                      .right = a->block[s->block].local,
                                      .out = s->sums,
                                      .rows = a->width,
                                      .columns = columns,
                                      .depth = steps,
                                      .width = columns,
                                      .left_row = 1,
                                      .left_k = a->width,
                                      .adds = true,
                                      .scale = a->max ? a->scale_local : 0});
    }
}

static void store_output(struct attention *a, ir_value v, const struct lower_pos *p, nest_value is)
{
    struct lower *l = a->l;
    is = lower_cast(l, is, (enum ir_dtype)ir_type(l->f, v)->dtype);
    lower_check(l, v, is, p, NULL, 0);
    for (size_t i = 0; i < l->group->outputs.count; i++)
        if (l->group->outputs.items[i] == v)
            nest_store(&l->b, lower_argument_of_output(l, i), lower_pos_index(l, p), is, 0);
}

static void store_sums(struct attention *a, const struct sink *s)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    const struct block *k = &a->block[s->block];
    struct lower_pos lane = var_pos(l, lower_open(l, NEST_SERIAL, a->width), 1), row = plus(l, &a->first, &lane, 1);
    nest_value total = a->max ? nest_load(&l->b, a->sum_local, lower_pos_index(l, &lane), 0) : 0;
    struct lower_pos inner = var_pos(l, lower_open(l, NEST_VECTOR, k->side.length), 1), p = at_zero();
    lower_pos_add(l, &p, &a->batch, a->extent * k->side.length);
    lower_pos_add(l, &p, &row, s->left ? k->side.length : 1);
    lower_pos_add(l, &p, &inner, s->left ? 1 : a->extent);
    nest_value sum = nest_load(&l->b, s->sums, in_rows(l, &lane, k->columns, &inner), 0);
    store_output(a, s->product, &p, total ? lower_binary(l, OP_div, a->sum, sum, total) : sum);
    nest_close_to(&l->b, depth);
}

static void store_stat(struct attention *a, ir_value v, uint32_t local)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    if (!is_output(l, v)) return;
    struct lower_pos lane = var_pos(l, lower_open(l, NEST_VECTOR, a->width), 1), p = plus(l, &a->first, &lane, 1);
    lower_pos_add(l, &p, &a->batch, a->extent);
    store_output(a, v, &p, nest_load(&l->b, local, lower_pos_index(l, &lane), 0));
    nest_close_to(&l->b, depth);
}

void lower_attention(struct lower *l)
{
    struct attention *a = arena_new(l->arena, struct attention);
    a->l = l;
    a->lanes = l->lanes;
    if (!find(a)) {
        lower_fail(l, l->group->nodes.items[0], "attention by tiles of this form");
        return;
    }
    choose(a);
    open_blocks(a);
    for (uint32_t i = 0; i < a->sources; i++) pack_lanes(a, &a->source[i]);
    for (uint32_t i = 0; i < a->sinks; i++)
        fill(a, a->sink[i].sums, a->sum, a->width * a->block[a->sink[i].block].columns, 0);
    if (a->max) {
        fill(a, a->max_local, (enum ir_dtype)ir_type(l->f, a->max)->dtype, a->width, -INFINITY);
        fill(a, a->sum_local, a->sum, a->width, 0);
    }
    int64_t whole = a->walked / a->steps, tail = a->walked % a->steps;
    uint32_t depth = l->b.depth;
    a->step = at_zero();
    if (whole > 1) a->step = var_pos(l, lower_open(l, NEST_SERIAL, whole), a->steps);
    walk(a, a->steps);
    nest_close_to(&l->b, depth);
    a->step = lower_pos_constant(whole * a->steps);
    if (tail) walk(a, tail);
    for (uint32_t i = 0; i < a->sinks; i++) store_sums(a, &a->sink[i]);
    if (a->max) {
        store_stat(a, a->max, a->max_local);
        store_stat(a, a->total, a->sum_local);
    }
    nest_close_to(&l->b, 0);
    double scores = (double)a->s.batch * (double)a->s.rows * (double)a->s.columns;
    for (uint32_t i = 0; i < a->sources; i++) l->b.nest->work += scores * (double)a->source[i].lanes.length;
    for (uint32_t i = 0; i < a->sinks; i++) l->b.nest->work += scores * (double)a->block[a->sink[i].block].side.length;
}
