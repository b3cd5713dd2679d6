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
#include "codegen/lower/lower_attention.h"
#include <math.h>
#include <string.h>

enum {
    WIDTH = 64,
    STEPS = 64,
    MOST_LANES = 32,
    FAR = 512 /* elements between rows */,
    UNROLLED = 8,
    TURNED_ELEMENTS = 1 << 18
};

/* ---------------------------------------------------------------- operands */

static void add_run(struct lower_attention_run *r, int64_t extent, int64_t stride)
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

static struct lower_attention_side side_of(const struct ir_func *f, ir_value v, struct ir_ints batch,
                                           struct ir_ints along, bool inner)
{
    const struct ir_type *type = ir_type(f, v);
    struct lower_attention_side o;
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

/* ---------------------------------------------------------------- what the group is */

/* Rows without gaps inside, of the dtype of the sums. Where vectors are read again and again (`often`), rows must not
 * lie so that they would fight for few sets of the cache. */
static bool is_direct(const struct lower_attention *a, const struct lower_attention_side *side, bool often)
{
    const struct lower_attention_run *inner = &side->inner, *along = &side->along;
    bool plain = a->l->argument[side->value] && ir_type(a->l->f, side->value)->dtype == a->sum && inner->count == 1 &&
                 inner->stride[0] == 1 && along->count == 1;
    return plain && (!often || (along->stride[0] % FAR && side->length == attention_padded(a, side->length)));
}

static uint32_t add_block(struct lower_attention *a, struct lower_attention_side side, bool lanes, bool often)
{
    bool direct = is_direct(a, &side, often);
    for (uint32_t i = 0; i < a->block_count; i++)
        if (a->block[i].lanes == lanes && !memcmp(&a->block[i].side, &side, sizeof side)) {
            a->block[i].direct = a->block[i].direct && direct;
            return i;
        }
    a->block[a->block_count] = (struct lower_attention_block){
        .side = side, .lanes = lanes, .direct = direct, .columns = attention_padded(a, side.length)};
    return a->block_count++;
}

static void add_source(struct lower_attention *a, ir_value v)
{
    const struct ir_node *n = ir_get(a->l->f, v);
    struct lower_attention_source *s = &a->source[a->sources++];
    uint32_t lanes = a->rows ? 0 : 1;
    s->product = v;
    s->lanes = side_of(a->l->f, n->args[lanes], n->attr[lanes], n->attr[2 + lanes], true);
    s->block = add_block(a, side_of(a->l->f, n->args[!lanes], n->attr[!lanes], n->attr[2 + !lanes], true), false,
                         false);
}

/* Scores, and what is element-wise with them, have a mark: lower_reduced.keep. */
static bool over_columns(const struct lower_attention *a, const struct ir_node *sink)
{
    uint32_t side = a->l->reduced[sink->args[0]].keep ? 0 : 1;
    return sink->attr[2 + side].v[0] == a->s.batches + a->s.row_dims;
}

/* What is stored of a value: it, or what a product is cast to. 0: nothing, it is one of tiles. */
static ir_value stored_of(const struct lower *l, ir_value v)
{
    for (size_t i = 0; i < l->group->outputs.count; i++) {
        ir_value o = l->group->outputs.items[i];
        if (o == v || (ir_get(l->f, o)->op == OP_cast && ir_get(l->f, o)->args[0] == v)) return o;
    }
    return 0;
}

static void add_sink(struct lower_attention *a, ir_value v)
{
    const struct ir_node *n = ir_get(a->l->f, v);
    struct lower_attention_sink *s = &a->sink[a->sinks];
    s->product = v;
    s->stored = stored_of(a->l, v);
    s->left = a->l->reduced[n->args[0]].keep;
    uint32_t other = s->left ? 1 : 0;
    s->from = n->args[!other];
    s->across = !a->rows && over_columns(a, n);
    s->block = add_block(a, side_of(a->l->f, n->args[other], n->attr[other], n->attr[2 + other], false), s->across,
                         true);
    a->across |= s->across;
    s->tile = a->sinks++;
}

/* Which nodes are products of tiles, the softmax, and what is made from them. */
static bool find(struct lower_attention *a)
{
    struct lower *l = a->l;
    const struct plan_group *g = l->group;
    a->rows = true;
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        const struct ir_node *n = ir_get(l->f, v);
        bool product = n->op == OP_dot && !stored_of(l, v);
        if (product && !plan_scores_of(l->f, v, &a->s)) return false;
        bool made = product;
        for (uint32_t k = 0; k < n->arg_count && ir_is_ewise((enum ir_op)n->op); k++)
            made |= l->reduced[n->args[k]].keep;
        l->reduced[v].keep = made;
        if (n->op == OP_dot && !product) a->rows = a->rows && over_columns(a, n);
        if (n->op == OP_reduce_max && l->reduced[n->args[0]].keep) a->max = v;
        if (n->op == OP_reduce_sum && l->reduced[n->args[0]].keep) a->total = v;
        if (product) a->sum = n->type.dtype == IR_F64 ? IR_F64 : IR_F32;
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        if (ir_get(l->f, v)->op != OP_dot) continue;
        bool sink = stored_of(l, v) != 0;
        if (sink ? a->sinks == MOST_SINKS : a->sources == MOST_SOURCES) return false;
        if (sink) add_sink(a, v);
        else add_source(a, v);
    }
    if (a->max) a->score = attention_without_casts(l->f, ir_get(l->f, a->max)->args[0]);
    return a->sources > 0 && (a->max != 0) == (a->total != 0);
}

/* Rows of a block: whole vectors, few of them computed twice. */
static int64_t choose_width(const struct lower_attention *a)
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

static void choose(struct lower_attention *a)
{
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    a->width = choose_width(a);
    a->blocks = (a->extent + a->width - 1) / a->width;
    a->steps = choose_steps(a->walked);
    bool apart = a->across &&
                 a->extent % a->width; /* what lies in two blocks counts once, but in each for its own rows */
    a->tiles = a->sources > a->sinks ? a->sources : a->sinks;
    for (uint32_t i = 0; i < a->tiles; i++) a->tile[i] = nest_local(b, a->sum, a->steps * a->width);
    for (uint32_t i = 0; i < a->sources; i++) {
        a->source[i].tile = a->tile[i];
        a->source[i].packed = nest_local(b, a->sum, a->source[i].lanes.length * a->width);
    }
    for (uint32_t i = 0; i < a->block_count; i++)
        if (!a->block[i].direct)
            a->block[i].local = nest_local(b, a->sum, (a->block[i].lanes ? a->width : a->steps) * a->block[i].columns);
    for (uint32_t i = 0; i < a->sinks; i++) {
        struct lower_attention_sink *s = &a->sink[i];
        for (uint32_t k = i; k-- > 0 && !apart;) /* the same weights are one tile */
            if (a->sink[k].from == s->from) s->tile = k;
        s->tile = s->tile < i ? a->sink[s->tile].tile : a->tile[s->tile];
        s->sums = nest_local(b, a->sum, (s->across ? a->walked : a->width) * a->block[s->block].columns);
    }
    if (!a->max) return;
    enum ir_dtype dtype = (enum ir_dtype)ir_type(l->f, a->max)->dtype;
    a->max_local = nest_local(b, dtype, a->width);
    a->safe_local = nest_local(b, dtype, a->width);
    a->sum_local = nest_local(b, a->sum, a->width);
    a->scale_local = nest_local(b, a->sum, a->width);
}

/* ---------------------------------------------------------------- loops */

static void fill(struct lower_attention *a, uint32_t local, enum ir_dtype dtype, int64_t extent, double number)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos at = attention_var(l, lower_open(l, NEST_VECTOR, extent), 1);
    nest_store(&l->b, local, lower_pos_index(l, &at), nest_number(&l->b, dtype, number), 0);
    nest_close_to(&l->b, depth);
}

/* All rows of a sink that each block of lanes adds to. */
static void clear_across(struct lower_attention *a)
{
    for (uint32_t i = 0; i < a->sinks; i++)
        if (a->sink[i].across) fill(a, a->sink[i].sums, a->sum, a->walked * a->block[a->sink[i].block].columns, 0);
}

/* Batch and first row of a block, from its number. */
static void open_blocks(struct lower_attention *a)
{
    struct lower *l = a->l;
    int64_t all = a->s.batch * a->blocks, last = a->extent - a->width;
    if (a->across) {
        a->batch = attention_var(l, lower_open(l, NEST_PARALLEL, a->s.batch), 1);
        l->b.nest->parallel_extent = a->s.batch;
        a->first = attention_zero();
        clear_across(a);
        if (a->blocks == 1) return;
        struct lower_pos at = attention_var(l, lower_open(l, NEST_SERIAL, a->blocks), a->width);
        if (a->extent % a->width == 0) a->first = at;
        else
            lower_pos_add_scaled(
                l, &a->first, lower_binary(l, OP_min, IR_I32, lower_pos_value(l, &at), lower_number(l, last)), 1, last);
        return;
    }
    nest_var var = lower_open(l, NEST_PARALLEL, all);
    struct lower_pos number = attention_var(l, var, 1);
    l->b.nest->parallel_extent = all;
    a->batch = a->first = attention_zero();
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

static struct lower_pos open_from(struct lower *l, enum nest_loop loop, int64_t extent, const struct lower_pos *from)
{
    struct lower_pos at = *from;
    lower_pos_add_term(l, &at, lower_open(l, loop, extent), 1);
    return at;
}

/* Pays for its code: whole vectors both ways, of rows that are many in all. */
static bool may_turn(const struct lower_attention *a, const struct lower_attention_side *o)
{
    const struct lower_attention_run *inner = &o->inner;
    return a->sum == IR_F32 && !a->l->target->cuda && a->width % a->lanes == 0 && o->length % a->lanes == 0 &&
           inner->count && inner->stride[inner->count - 1] == 1 &&
           a->s.batch * a->extent * o->length >= TURNED_ELEMENTS;
}

/* As many rows by as many elements as a vector has lanes, turned in registers. */
static void turn_lanes(struct lower_attention *a, const struct lower_attention_source *s)
{
    struct lower *l = a->l;
    struct nest_builder *b = &l->b;
    uint32_t depth = b->depth, lanes = (uint32_t)a->lanes;
    struct lower_pos lane = attention_var(l, lower_open(l, NEST_SERIAL, a->width / lanes), lanes),
                     inner = attention_var(l, lower_open(l, NEST_SERIAL, s->lanes.length / lanes), lanes);
    uint32_t reg = nest_reg(b, a->sum, lanes, true, 0), inside = b->depth;
    struct lower_pos row = attention_zero(), zero = row;
    for (int turn = 0; turn < 2; turn++) {
        row = open_from(l, NEST_UNROLL, lanes, &zero);
        struct lower_pos at = open_from(l, NEST_VECTOR, lanes, turn ? &lane : &inner),
                         other = attention_plus(l, turn ? &inner : &lane, &row, 1);
        struct nest_index in = lower_pos_index(l, &row);
        if (turn) {
            nest_store(b, s->packed, attention_in_rows(l, &other, a->width, &at), nest_get(b, reg, in), 0);
        } else {
            other = attention_plus(l, &a->first, &other, 1);
            nest_set(b, reg, in, attention_operand(a, &s->lanes, &other, &at, a->sum));
        }
        nest_close_to(b, turn ? depth : inside);
        if (!turn) nest_turn(b, reg, lanes);
    }
}

/* The lanes' side of a product: [depth][width]. */
static void pack_lanes(struct lower_attention *a, const struct lower_attention_source *s)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    struct lower_pos lane, inner;
    if (may_turn(a, &s->lanes)) {
        turn_lanes(a, s);
        return;
    }
    bool one = l->lanes <= 16 && s->lanes.length % UNROLLED == 0; /* by one faster than by gathers */
    if (one) {
        lane = attention_var(l, lower_open(l, NEST_SERIAL, a->width), 1);
        inner = attention_var(l, lower_open(l, NEST_SERIAL, s->lanes.length / UNROLLED), UNROLLED);
        lower_pos_add_term(l, &inner, lower_open(l, NEST_UNROLL, UNROLLED), 1);
    } else {
        inner = attention_var(l, lower_open(l, NEST_SERIAL, s->lanes.length), 1);
        lane = attention_var(l, lower_open(l, NEST_VECTOR, a->width), 1);
    }
    struct lower_pos along = attention_plus(l, &a->first, &lane, 1);
    nest_store(&l->b, s->packed, attention_in_rows(l, &inner, a->width, &lane),
               attention_operand(a, &s->lanes, &along, &inner, a->sum), 0);
    nest_close_to(&l->b, depth);
}

static void pack_block(struct lower_attention *a, const struct lower_attention_block *k, int64_t steps)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    if (k->direct) return;
    struct lower_pos row = attention_var(l, lower_open(l, NEST_SERIAL, k->lanes ? a->width : steps), 1),
                     along = attention_plus(l, k->lanes ? &a->first : &a->step, &row, 1);
    struct lower_pos inner = attention_var(l, lower_open(l, NEST_VECTOR, k->side.length), 1);
    nest_store(&l->b, k->local, attention_in_rows(l, &row, k->columns, &inner),
               attention_operand(a, &k->side, &along, &inner, a->sum), 0);
    nest_close_to(&l->b, depth);
}

/* ---------------------------------------------------------------- one block of steps, and the end */

static void walk(struct lower_attention *a, int64_t steps)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    nest_value live = attention_is_live(a, steps);
    if (live) nest_open_if(&l->b, live);
    for (uint32_t i = 0; i < a->block_count; i++)
        if (!a->block[i].lanes) pack_block(a, &a->block[i], steps);
    for (uint32_t i = 0; i < a->sources; i++) {
        const struct lower_attention_source *s = &a->source[i];
        const struct lower_attention_block *k = &a->block[s->block];
        attention_multiply(a, &(struct lower_attention_product){.left = k->local,
                                                                .left_block = k->direct ? k : NULL,
                                                                .right = s->packed,
                                                                .out = s->tile,
                                                                .rows = steps,
                                                                .columns = a->width,
                                                                .depth = s->lanes.length,
                                                                .width = a->width,
                                                                .left_row = k->columns,
                                                                .left_k = 1});
    }
    if (a->max) attention_softmax(a, steps);
    else attention_weigh(a, steps);
    for (uint32_t i = 0; i < a->sinks; i++) {
        const struct lower_attention_sink *s = &a->sink[i];
        const struct lower_attention_block *k = &a->block[s->block];
        int64_t columns = k->columns;
        attention_multiply(a, &(struct lower_attention_product){.left = s->tile,
                                                                .right = k->local,
                                                                .right_block = k->direct ? k : NULL,
                                                                .out = s->sums,
                                                                .rows = s->across ? steps : a->width,
                                                                .columns = columns,
                                                                .depth = s->across ? a->width : steps,
                                                                .width = columns,
                                                                .left_row = s->across ? a->width : 1,
                                                                .left_k = s->across ? 1 : a->width,
                                                                .adds = true,
                                                                .out_row = s->across ? a->step : attention_zero(),
                                                                .scale = a->max ? a->scale_local : 0});
    }
    nest_close_to(&l->b, depth);
}

static void store_sums(struct lower_attention *a, const struct lower_attention_sink *s)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    const struct lower_attention_block *k = &a->block[s->block];
    int64_t rows = s->across ? a->walked : a->extent;
    struct lower_pos lane = attention_var(l, lower_open(l, NEST_SERIAL, s->across ? rows : a->width), 1), row = lane;
    if (!s->across) row = attention_plus(l, &a->first, &lane, 1);
    nest_value total = a->max ? nest_load(&l->b, a->sum_local, lower_pos_index(l, &lane), 0) : 0;
    struct lower_pos inner = attention_var(l, lower_open(l, NEST_VECTOR, k->side.length), 1), p = attention_zero();
    lower_pos_add(l, &p, &a->batch, rows * k->side.length);
    lower_pos_add(l, &p, &row, s->left ? k->side.length : 1);
    lower_pos_add(l, &p, &inner, s->left ? 1 : rows);
    nest_value sum = nest_load(&l->b, s->sums, attention_in_rows(l, &lane, k->columns, &inner), 0);
    attention_store(a, s->stored, &p, total ? lower_binary(l, OP_div, a->sum, sum, total) : sum);
    nest_close_to(&l->b, depth);
}

static void store_stat(struct lower_attention *a, ir_value v, uint32_t local)
{
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    if (stored_of(l, v) != v) return;
    struct lower_pos lane = attention_var(l, lower_open(l, NEST_VECTOR, a->width), 1),
                     p = attention_plus(l, &a->first, &lane, 1);
    lower_pos_add(l, &p, &a->batch, a->extent);
    attention_store(a, v, &p, nest_load(&l->b, local, lower_pos_index(l, &lane), 0));
    nest_close_to(&l->b, depth);
}

/* On a CPU. */
static void by_vectors(struct lower_attention *a)
{
    struct lower *l = a->l;
    choose(a);
    open_blocks(a);
    for (uint32_t i = 0; i < a->sources; i++) pack_lanes(a, &a->source[i]);
    for (uint32_t i = 0; i < a->block_count; i++)
        if (a->block[i].lanes) pack_block(a, &a->block[i], 0);
    for (uint32_t i = 0; i < a->sinks; i++)
        if (!a->sink[i].across) fill(a, a->sink[i].sums, a->sum, a->width * a->block[a->sink[i].block].columns, 0);
    if (a->max) {
        fill(a, a->max_local, (enum ir_dtype)ir_type(l->f, a->max)->dtype, a->width, -INFINITY);
        fill(a, a->sum_local, a->sum, a->width, 0);
    }
    attention_find_dead(a);
    if (a->dead.conditions && a->rows && !a->max) a->least = attention_least_max(a, &a->first, a->width);
    int64_t whole = a->walked / a->steps, tail = a->walked % a->steps;
    uint32_t depth = l->b.depth;
    a->step = attention_zero();
    if (whole > 1) a->step = attention_var(l, lower_open(l, NEST_SERIAL, whole), a->steps);
    walk(a, a->steps);
    nest_close_to(&l->b, depth);
    a->step = lower_pos_constant(whole * a->steps);
    if (tail) walk(a, tail);
    for (uint32_t i = 0; i < a->sinks; i++)
        if (!a->sink[i].across) store_sums(a, &a->sink[i]);
    if (a->max) {
        store_stat(a, a->max, a->max_local);
        store_stat(a, a->total, a->sum_local);
    }
    nest_close_to(&l->b, 1);
    for (uint32_t i = 0; i < a->sinks; i++)
        if (a->sink[i].across) store_sums(a, &a->sink[i]);
    nest_close_to(&l->b, 0);
}

void lower_attention(struct lower *l)
{
    struct lower_attention *a = arena_new(l->arena, struct lower_attention);
    a->l = l;
    a->lanes = l->lanes < MOST_LANES ? l->lanes : MOST_LANES; /* a block of rows is whole vectors */
    if (!find(a)) {
        lower_fail(l, l->group->nodes.items[0], "attention by tiles of this form");
        return;
    }
    a->extent = a->rows ? a->s.rows : a->s.columns;
    a->walked = a->rows ? a->s.columns : a->s.rows;
    if (l->target->cuda) attention_grid(a);
    else by_vectors(a);
    double scores = (double)a->s.batch * (double)a->s.rows * (double)a->s.columns;
    for (uint32_t i = 0; i < a->sources; i++) l->b.nest->work += scores * (double)a->source[i].lanes.length;
    for (uint32_t i = 0; i < a->sinks; i++) l->b.nest->work += scores * (double)a->block[a->sink[i].block].side.length;
}
