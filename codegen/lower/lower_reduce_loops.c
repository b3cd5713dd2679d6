/* The loops of reductions, and what stands in them. */
#include "codegen/lower/lower_reduce.h"

bool reduction_is(const struct ir_node *node) { return ir_ops[node->op].emit == EMIT_reduce; }
int64_t reduction_leaf(const struct ir_node *node)
{
    bool sum = node->op == OP_reduce_sum || node->op == OP_reduce_prod;
    return sum && node->attr[1].n ? node->attr[1].v[0] : 0;
}
bool reduction_is_stepwise(const struct ir_node *node)
{
    bool sum = node->op == OP_reduce_sum || node->op == OP_reduce_prod;
    return reduction_leaf(node) || (sum && (node->type.dtype == IR_BF16 || node->type.dtype == IR_F16));
}
bool reduction_in_order(const struct lower_reduction *r, const struct ir_node *node)
{
    return r->in_order && (!r->laid_out || reduction_is_stepwise(node));
}

/* ---------------------------------------------------------------- loops */

/* Of a column kernel: lanes are rows, whose columns are the last run. */
bool reduction_of_lanes(const struct lower_reduction *r) { return r->tile_axis + 1 < r->runs; }

void reduction_add_part(struct lower_reduction *r, uint32_t axis, nest_var var, int64_t stride)
{
    lower_pos_add_term(r->l, &r->full, var, stride * r->full_stride[axis]);
    lower_pos_add_term(r->l, &r->row, var, stride * r->row_stride[axis]);
}

static void count_shared(struct lower *l, enum nest_loop loop, int64_t extent)
{
    if (loop == NEST_PARALLEL) l->b.nest->parallel_extent *= extent;
}

static void open_part(struct lower_reduction *r, enum nest_loop loop, uint32_t axis, uint32_t part)
{
    count_shared(r->l, loop, r->l->axes[axis].part[part]);
    nest_var var = lower_open_part(r->l, loop, axis, part);
    reduction_add_part(r, axis, var, lower_axis_stride(&r->l->axes[axis], part));
}

/* The last part of the last run that a row kernel keeps, which is the one before the columns. */
struct lower_kept reduction_last_kept(const struct lower_reduction *r)
{
    return (struct lower_kept){r->runs - 2, r->l->axes[r->runs - 2].parts - 1};
}

static bool is_kept(const struct lower_kept *k, uint32_t axis, uint32_t part)
{
    return k->axis == axis && k->part == part;
}

static void open_blocks(struct lower_reduction *r, enum nest_loop loop, const struct lower_kept *cut, int64_t blocks)
{
    int64_t tile = r->vectors * r->width;
    count_shared(r->l, loop, blocks);
    reduction_add_part(r, cut->axis, lower_open_piece(r->l, loop, cut->axis, cut->part, blocks, tile), tile);
}

/* The kept parts, one of them in parallel (lower_shares_better), on a GPU all of them. `cut` goes by `blocks`, which
 * may be the parallel loop itself where there is little else; else they come last, as neighbours read neighbouring
 * pieces of memory. NULL: no part is cut. */
void reduction_open_kept(struct lower_reduction *r, const struct lower_kept *cut, int64_t blocks)
{
    enum { SHARED = 8 /* steps of the first part, which is shared out before others further inside */ };
    struct lower *l = r->l;
    bool cuda = l->target->cuda, cuts = cut && blocks != 1;
    struct lower_kept shared = {UINT32_MAX, 0};
    int64_t largest = cuts ? blocks : 0;
    for (uint32_t a = 0; a < r->runs; a++)
        for (uint32_t p = 0; p < l->axes[a].parts && !r->reduced[a]; p++) {
            int64_t extent = l->axes[a].part[p];
            bool first = shared.axis == UINT32_MAX && extent >= SHARED && !cuda;
            if ((cut && is_kept(cut, a, p)) || !(first || lower_shares_better(extent, largest))) continue;
            largest = extent;
            shared = (struct lower_kept){a, p};
        }
    bool any = shared.axis != UINT32_MAX;
    enum nest_loop others = cuda ? NEST_PARALLEL : NEST_SERIAL, own = any || blocks == 0 ? others : NEST_PARALLEL;
    l->b.nest->parallel_extent = 1;
    if (any) open_part(r, NEST_PARALLEL, shared.axis, shared.part);
    bool last = any && !cuda;
    if (cuts && !last) open_blocks(r, own, cut, blocks);
    for (uint32_t a = 0; a < r->runs; a++)
        for (uint32_t p = 0; p < l->axes[a].parts && !r->reduced[a]; p++)
            if (!is_kept(&shared, a, p) && !(cut && is_kept(cut, a, p)) && l->axes[a].part[p] != 1)
                open_part(r, others, a, p);
    if (cuts && last) open_blocks(r, own, cut, blocks);
}

/* Walks the reduced parts, from this one of an axis on (on further axes from `first` on), and does `inside` in their
 * loops; in a row kernel the innermost one is the vector loop. */
void reduction_walk(struct lower_reduction *r, uint32_t a, uint32_t p, uint32_t first, lower_inside_loops *inside,
                    uint32_t pass)
{
    struct lower *l = r->l;
    while (a < r->runs && (!r->reduced[a] || p >= l->axes[a].parts)) a++, p = first;
    if (a == r->runs) {
        inside(r, pass);
        return;
    }
    struct lower_pos full = r->full, row = r->row;
    uint32_t depth = l->b.depth;
    bool last = r->by_rows && a + 1 == r->runs && p + 1 == l->axes[a].parts;
    if (l->axes[a].part[p] == 1 && !last) {
        reduction_walk(r, a, p + 1, first, inside, pass);
    } else if (last && (!r->in_order || r->laid_out)) {
        open_part(r, NEST_VECTOR, a, p);
        reduction_walk(r, a, p + 1, first, inside, pass);
    } else if (!r->by_rows && reduction_of_lanes(r)) { /* a pass may still have what the one before has loaded */
        open_part(r, NEST_UNROLL, a, p);
        reduction_walk(r, a, p + 1, first, inside, pass);
    } else {
        struct lower_stretch stretch[2];
        uint32_t count = lower_stretches(l, a, p, stretch);
        int64_t stride = lower_axis_stride(&l->axes[a], p);
        for (uint32_t i = 0; i < count; i++) {
            struct lower_pos at = lower_open_stretch(l, a, p, &stretch[i]);
            for (int64_t step = 0; step < stretch[i].steps; step++, at.offset++) {
                r->full = full, r->row = row;
                lower_pos_add(l, &r->full, &at, stride * r->full_stride[a]);
                lower_pos_add(l, &r->row, &at, stride * r->row_stride[a]);
                reduction_walk(r, a, p + 1, first, inside, pass);
            }
            nest_close_to(&l->b, depth);
        }
    }
    nest_close_to(&l->b, depth);
    r->full = full, r->row = row;
}

/* ---------------------------------------------------------------- bodies */

/* Of the registers of a tile. */
struct nest_index reduction_tile_index(struct lower *l, nest_var unroll)
{
    struct lower_pos at = lower_pos_constant(0);
    lower_pos_add_term(l, &at, unroll, 1);
    return lower_pos_index(l, &at);
}

static double identity_of(enum ir_op op, enum ir_dtype dtype)
{
    return op == OP_reduce_sum    ? 0
           : op == OP_reduce_prod ? 1
           : op == OP_reduce_max  ? ir_dtype_least(dtype)
                                  : ir_dtype_greatest(dtype);
}

enum ir_op reduction_combines(const struct ir_node *node)
{
    bool logical = node->type.dtype == IR_BOOL;
    switch ((enum ir_op)node->op) {
    case OP_reduce_sum: return logical ? OP_or : OP_add;
    case OP_reduce_prod: return logical ? OP_and : OP_mul;
    case OP_reduce_max: return logical ? OP_or : OP_max;
    default: return logical ? OP_and : OP_min;
    }
}

/* Of a column kernel: a sum that goes leaf by leaf. */
bool reduction_is_tree(const struct lower_reduction *r, const struct ir_node *node)
{
    return !r->by_rows && node->op == OP_reduce_sum && reduction_leaf(node) && reduction_leaf(node) < r->columns;
}

/* Registers of trees, or all others. */
void reduction_declare(struct lower_reduction *r, uint32_t pass, bool trees)
{
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        const struct ir_node *node = ir_get(r->l->f, v);
        enum ir_dtype dtype = (enum ir_dtype)node->type.dtype;
        if (r->of[v].stage == pass + 1 && reduction_is_tree(r, node) == trees)
            r->of[v].reg = nest_reg(&r->l->b, dtype, r->vectors, !reduction_in_order(r, node),
                                    identity_of((enum ir_op)node->op, dtype));
    }
}

/* Where the element lies in its row. */
static struct nest_index row_index(struct lower_reduction *r)
{
    struct lower_pos at = r->full;
    lower_pos_add(r->l, &at, &r->first, -1);
    return lower_pos_index(r->l, &at);
}

/* The work of one element in one pass; `reg` is the register of the tile. */
void reduction_body(struct lower_reduction *r, uint32_t pass, struct nest_index reg)
{
    struct lower *l = r->l;
    const struct plan_group *g = l->group;
    const nest_value *out = pass + 1 == r->passes ? lower_outputs(l, 1, &r->full) : NULL;
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        const struct ir_node *node = ir_get(l->f, v);
        if (r->of[v].stage != pass + 1) continue;
        nest_value x = lower_value(l, node->args[0], &r->full);
        x = lower_cast(l, x, (enum ir_dtype)node->type.dtype);
        if (r->laid_out && reduction_is_stepwise(node)) nest_store(&l->b, r->of[v].local, row_index(r), x, 0);
        else nest_reduce(&l->b, reduction_combines(node), r->of[v].reg, reg, x);
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        if (!r->of[v].keep || r->of[v].stage != pass) continue;
        struct lower_pos at = r->full;
        lower_pos_add(l, &at, &l->from[v].base, -1);
        nest_store(&l->b, r->of[v].local, lower_pos_index(l, &at), lower_value(l, v, &r->full), 0);
    }
    if (out) lower_store_outputs(l, out, &r->full, r->mask);
}

void reduction_store_rows(struct lower_reduction *r)
{
    lower_store_outputs(r->l, lower_outputs(r->l, 2, &r->row), &r->row, r->mask);
}
