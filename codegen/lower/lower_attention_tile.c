/* The inner part of attention by tiles: products of what lies in locals, by register tiles, and the element-wise work.
 */
#include "codegen/lower/lower_attention.h"
#include <math.h>

/* ---------------------------------------------------------------- positions */

struct lower_pos attention_zero(void) { return lower_pos_constant(0); }

struct lower_pos attention_var(struct lower *l, nest_var v, int64_t scale)
{
    struct lower_pos p = attention_zero();
    lower_pos_add_term(l, &p, v, scale);
    return p;
}

struct lower_pos attention_plus(struct lower *l, const struct lower_pos *x, const struct lower_pos *y, int64_t scale)
{
    struct lower_pos p = *x;
    lower_pos_add(l, &p, y, scale);
    return p;
}

/* Two coordinates in a local of rows of `columns`. */
struct nest_index attention_in_rows(struct lower *l, const struct lower_pos *row, int64_t columns,
                                    const struct lower_pos *column)
{
    struct lower_pos p = attention_plus(l, column, row, columns);
    return lower_pos_index(l, &p);
}

static void add_runs(struct lower *l, struct lower_pos *sum, const struct lower_attention_run *r,
                     const struct lower_pos *at)
{
    struct lower_pos part[IR_MAX_RANK];
    lower_pos_split(l, at, r->count, r->extent, part);
    for (uint32_t i = 0; i < r->count; i++) lower_pos_add(l, sum, &part[i], r->stride[i]);
}

nest_value attention_operand(struct lower_attention *a, const struct lower_attention_side *o,
                             const struct lower_pos *along, const struct lower_pos *inner, enum ir_dtype dtype)
{
    struct lower_pos at = lower_pos_constant(0);
    add_runs(a->l, &at, &o->batch, &a->batch);
    add_runs(a->l, &at, &o->along, along);
    add_runs(a->l, &at, &o->inner, inner);
    return lower_cast(a->l, lower_value(a->l, o->value, &at), dtype);
}

/* ---------------------------------------------------------------- products of locals */

static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

static struct lower_attention_shape attention_shape_of(const struct lower_attention *a, int64_t vectors, bool whole)
{
    static const uint32_t many[] = {0, 14, 14, 9, 6, 5}, few[] = {0, 10, 6, 4};
    bool wide = a->l->target->vector_registers >= 32;
    struct lower_attention_shape best = {1, 1};
    double most = 0;
    for (uint32_t v = 1; v <= (wide ? 5 : 3); v++) {
        uint32_t r = wide ? many[v] : few[v];
        double score = (double)(v * r) / (v + r) * (double)vectors / (double)round_up(vectors, v);
        if (score > most && !(whole && vectors % v)) most = score, best = (struct lower_attention_shape){v, r};
    }
    return best;
}

int64_t attention_padded(const struct lower_attention *a, int64_t columns)
{
    int64_t vectors = (columns + a->lanes - 1) / a->lanes;
    return round_up(vectors, attention_shape_of(a, vectors, false).vectors) * a->lanes;
}

static struct nest_index reg_at(struct lower *l, nest_var row, uint32_t vectors, nest_var vector)
{
    struct lower_pos at = attention_zero();
    if (row != UINT32_MAX) lower_pos_add_term(l, &at, row, vectors);
    lower_pos_add_term(l, &at, vector, 1);
    return lower_pos_index(l, &at);
}

/* The loops over one vector of a tile's row; returns its column. */
static struct lower_pos open_vector(struct lower_attention *a, const struct lower_pos *column, uint32_t vectors,
                                    nest_var *v)
{
    struct lower *l = a->l;
    *v = lower_open(l, NEST_UNROLL, vectors);
    struct lower_pos at = *column;
    lower_pos_add_term(l, &at, *v, a->lanes);
    lower_pos_add_term(l, &at, lower_open(l, NEST_VECTOR, a->lanes), 1);
    return at;
}

/* What is read where it stands. */
static nest_value from_block(struct lower_attention *a, const struct lower_attention_block *k,
                             const struct lower_pos *row, const struct lower_pos *column)
{
    struct lower_pos along = attention_plus(a->l, k->lanes ? &a->first : &a->step, row, 1);
    return attention_operand(a, &k->side, &along, column, a->sum);
}

static void register_tile(struct lower_attention *a, const struct lower_attention_product *p,
                          struct lower_attention_shape tile, const struct lower_pos *row,
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
        here = attention_plus(l, &here, &p->out_row, 1);
        nest_value sum = nest_load(b, p->out, attention_in_rows(l, &here, p->width, &at), 0);
        nest_set(b, acc, reg_at(l, r, tile.vectors, v), scale ? lower_binary(l, OP_mul, a->sum, sum, scale) : sum);
        nest_close_to(b, depth);
    }
    struct lower_pos k = attention_var(l, lower_open(l, NEST_SERIAL, p->depth), 1);
    uint32_t inside = b->depth;
    at = open_vector(a, column, tile.vectors, &v);
    nest_value y = p->right_block ? from_block(a, p->right_block, &k, &at)
                                  : nest_load(b, p->right, attention_in_rows(l, &k, p->width, &at), 0);
    nest_set(b, right, reg_at(l, UINT32_MAX, 0, v), y);
    nest_close_to(b, inside);
    r = lower_open(l, NEST_UNROLL, tile.rows);
    here = *row;
    lower_pos_add_term(l, &here, r, 1);
    struct lower_pos from = attention_zero();
    lower_pos_add(l, &from, &here, p->left_row);
    lower_pos_add(l, &from, &k, p->left_k);
    nest_value x = p->left_block ? from_block(a, p->left_block, &here, &k)
                                 : nest_load(b, p->left, lower_pos_index(l, &from), 0);
    open_vector(a, column, tile.vectors, &v);
    struct nest_index index = reg_at(l, r, tile.vectors, v);
    y = nest_get(b, right, reg_at(l, UINT32_MAX, 0, v));
    nest_set(b, acc, index, nest_fma(b, a->sum, x, y, nest_get(b, acc, index)));
    nest_close_to(b, depth);
    r = lower_open(l, NEST_UNROLL, tile.rows);
    here = *row;
    lower_pos_add_term(l, &here, r, 1);
    here = attention_plus(l, &here, &p->out_row, 1);
    at = open_vector(a, column, tile.vectors, &v);
    nest_store(b, p->out, attention_in_rows(l, &here, p->width, &at), nest_get(b, acc, reg_at(l, r, tile.vectors, v)),
               0);
    nest_close_to(b, depth);
}

void attention_multiply(struct lower_attention *a, const struct lower_attention_product *p)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_attention_shape tile = attention_shape_of(a, p->columns / a->lanes, true);
    if (tile.rows > p->rows) tile.rows = (uint32_t)p->rows;
    int64_t groups = p->columns / a->lanes / tile.vectors, blocks = p->rows / tile.rows, tail = p->rows % tile.rows;
    struct lower_pos column = attention_zero(), row = attention_zero();
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
static struct lower_pos attention_score_at(struct lower_attention *a, const struct lower_pos *step,
                                           const struct lower_pos *lane)
{
    struct lower *l = a->l;
    struct lower_pos s = attention_plus(l, &a->step, step, 1), r = attention_plus(l, &a->first, lane, 1);
    return attention_among_scores(a, &s, &r);
}

struct lower_pos attention_among_scores(struct lower_attention *a, const struct lower_pos *step,
                                        const struct lower_pos *lane)
{
    struct lower_pos p = attention_zero();
    lower_pos_add(a->l, &p, &a->batch, a->s.rows * a->s.columns);
    lower_pos_add(a->l, &p, a->rows ? lane : step, a->s.columns);
    lower_pos_add(a->l, &p, a->rows ? step : lane, 1);
    return p;
}

void attention_give(struct lower_attention *a, ir_value v, nest_value is)
{
    enum ir_dtype dtype = (enum ir_dtype)ir_type(a->l->f, v)->dtype;
    a->l->from[v] = (struct lower_override){.source = FROM_VALUE, .value = lower_cast(a->l, is, dtype)};
}

static void give_products(struct lower_attention *a, struct nest_index at)
{
    for (uint32_t i = 0; i < a->sources; i++)
        attention_give(a, a->source[i].product, nest_load(&a->l->b, a->source[i].tile, at, 0));
}

static nest_value select(struct lower *l, nest_value cond, nest_value x, nest_value y)
{
    return nest_op(&l->b, OP_select, nest_dtype(&l->b, x), (nest_value[]){cond, x, y}, 3);
}

/* The last block of lanes begins where it ends with the last: is a lane in no block before it? */
static nest_value is_new(struct lower_attention *a, const struct lower_pos *lane)
{
    struct lower *l = a->l;
    if (!a->across || a->extent % a->width == 0) return 0;
    int64_t last = a->extent - a->width, before = (a->blocks - 1) * a->width;
    struct lower_pos at = attention_plus(l, &a->first, lane, 1);
    nest_value first = lower_binary(l, OP_lt, IR_BOOL, lower_pos_value(l, &a->first), lower_number(l, last));
    nest_value beyond = lower_binary(l, OP_le, IR_BOOL, lower_number(l, before), lower_pos_value(l, &at));
    return lower_binary(l, OP_or, IR_BOOL, first, beyond);
}

static void store_weights(struct lower_attention *a, const struct lower_pos *p, const struct lower_pos *lane,
                          struct nest_index at)
{
    struct lower *l = a->l;
    nest_value counted = is_new(a, lane);
    nest_value x[MOST_SINKS];
    for (uint32_t i = 0; i < a->sinks; i++) x[i] = lower_cast(l, lower_value(l, a->sink[i].from, p), a->sum);
    for (uint32_t i = 0; i < a->sinks; i++) {
        if (a->sink[i].across && a->extent % a->width) /* lanes that the block before had already */
            x[i] = select(l, counted, x[i], nest_number(&l->b, a->sum, 0));
        nest_store(&l->b, a->sink[i].tile, at, x[i], 0);
    }
}

void attention_weigh(struct lower_attention *a, int64_t steps)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos step = attention_var(l, lower_open(l, NEST_SERIAL, steps), 1);
    struct lower_pos lane = attention_var(l, lower_open(l, NEST_VECTOR, a->width), 1),
                     p = attention_score_at(a, &step, &lane);
    struct nest_index at = attention_in_rows(l, &step, a->width, &lane);
    give_products(a, at);
    store_weights(a, &p, &lane, at);
    nest_close_to(&l->b, depth);
}

/* The maximum of a vector of rows with the tile's; by what the sums so far are to be scaled. Where all scores so far
 * are -infinity, the exponentials are those without a maximum: 0. */
static void raise_max(struct lower_attention *a, const struct lower_pos *group, uint32_t most)
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

void attention_softmax(struct lower_attention *a, int64_t steps)
{
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth;
    struct nest_index zero = {0};
    struct lower_pos group = attention_zero();
    if (a->width > a->lanes) group = attention_var(l, lower_open(l, NEST_SERIAL, a->width / a->lanes), a->lanes);
    uint32_t most = nest_reg(b, a->sum, 1, true, -INFINITY), sum = nest_reg(b, a->sum, 1, true, 0), inside = b->depth;
    for (int turn = 0; turn < 2; turn++) {
        struct lower_pos step = attention_var(l, lower_open(l, NEST_SERIAL, steps), 1), lane = group;
        lower_pos_add_term(l, &lane, lower_open(l, NEST_VECTOR, a->lanes), 1);
        struct lower_pos p = attention_score_at(a, &step, &lane);
        struct nest_index at = attention_in_rows(l, &step, a->width, &lane);
        if (!turn) {
            give_products(a, at);
            nest_value z = lower_value(l, a->score, &p);
            attention_give(a, a->score, z);
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
        attention_give(a, a->score, nest_load(b, a->tile[0], at, 0));
        attention_give(a, a->total, nest_number(b, a->sum, 1));
        nest_value e = lower_cast(l, lower_value(l, ir_get(l->f, a->total)->args[0], &p), a->sum);
        nest_set(b, sum, zero, lower_binary(l, OP_add, a->sum, nest_get(b, sum, zero), e));
        store_weights(a, &p, &lane, at);
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

void attention_store(struct lower_attention *a, ir_value v, const struct lower_pos *p, nest_value is)
{
    struct lower *l = a->l;
    is = lower_cast(l, is, (enum ir_dtype)ir_type(l->f, v)->dtype);
    lower_check(l, v, is, p, NULL, 0);
    for (size_t i = 0; i < l->group->outputs.count; i++)
        if (l->group->outputs.items[i] == v)
            nest_store(&l->b, lower_argument_of_output(l, i), lower_pos_index(l, p), is, l->cond);
}
