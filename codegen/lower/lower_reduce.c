/* Reductions with the element-wise work around them. The domain is cut into runs of dimensions that are kept (rows) or
 * reduced (columns). A row kernel gives each row to one iteration and walks its columns with the lanes; a column kernel
 * gives a block of kept elements to one iteration, each element a lane, and walks the reduced ones.
 *
 * A reduction that needs another one's result comes a pass later over the same columns. What a later pass needs again
 * is computed again, but for expensive operations: those are kept in a local row. Outputs are stored in the last pass,
 * so that an output may take the place of an input.
 *
 * A sum with leaves (ir/ops.def, dot) is a tree: in a row over terms that are laid out, in a column of sums that wait
 * for their neighbour (lower_tree.c). */
#include "codegen/lower/lower.h"
#include <string.h>

enum { LOCAL_COLUMNS = 1 << 16 };

struct reduction {
    struct lower *l;
    uint32_t runs;
    bool reduced[IR_MAX_RANK + 1];
    int64_t full_stride[IR_MAX_RANK + 1], row_stride[IR_MAX_RANK + 1];
    int64_t columns, rows;
    bool by_rows;  /* the last run is reduced */
    bool in_order; /* by rows: one element after the other, as there are 16-bit sums, which are rounded at every step */
    bool laid_out; /* ... whose terms are computed by the lanes and laid out in a local row first */
    int64_t leaf;  /* of sums that are trees; 0: there are none */
    uint32_t passes;
    int64_t kept;               /* bytes of locals for values */
    VEC(ir_value) sums;         /* the reductions */
    struct lower_reduced *of;   /* by value */
    struct lower_pos full, row; /* of the loops open now */
    struct lower_pos first;     /* of a row */
    /* columns: the tile */
    uint32_t vectors; /* registers of one block */
    int64_t width;    /* lanes used of each */
    nest_value mask;  /* of a block that sticks out */
};

/* ---------------------------------------------------------------- what is computed when */

static bool is_reduce(const struct ir_node *node) { return ir_ops[node->op].emit == EMIT_reduce; }
static int64_t leaf_of(const struct ir_node *node)
{
    bool sum = node->op == OP_reduce_sum || node->op == OP_reduce_prod;
    return sum && node->attr[1].n ? node->attr[1].v[0] : 0;
}
static bool is_stepwise(const struct ir_node *node)
{
    bool sum = node->op == OP_reduce_sum || node->op == OP_reduce_prod;
    return leaf_of(node) || (sum && (node->type.dtype == IR_BF16 || node->type.dtype == IR_F16));
}
static bool in_order(const struct reduction *r, const struct ir_node *node)
{
    return r->in_order && (!r->laid_out || is_stepwise(node));
}

static void find_runs(struct reduction *r, const struct ir_node *node)
{
    const struct ir_type *from = ir_type(r->l->f, node->args[0]);
    bool reduced[IR_MAX_RANK] = {false}, any = false;
    int64_t extent[IR_MAX_RANK + 1];
    for (uint32_t i = 0; i < node->attr[0].n; i++) reduced[node->attr[0].v[i]] = true;
    for (uint32_t i = 0; i < from->rank; i++) {
        if (from->dim[i] == 1) continue;
        any |= reduced[i];
        if (r->runs && r->reduced[r->runs - 1] == reduced[i]) {
            extent[r->runs - 1] *= from->dim[i];
        } else {
            r->reduced[r->runs] = reduced[i];
            extent[r->runs++] = from->dim[i];
        }
    }
    if (!any) {
        r->reduced[r->runs] = true;
        extent[r->runs++] = 1;
    }
    int64_t full = 1, row = 1;
    r->columns = r->rows = 1;
    for (uint32_t i = r->runs; i-- > 0;) {
        r->full_stride[i] = full;
        r->row_stride[i] = r->reduced[i] ? 0 : row;
        full *= extent[i];
        row *= r->reduced[i] ? 1 : extent[i];
        *(r->reduced[i] ? &r->columns : &r->rows) *= extent[i];
    }
    r->by_rows = r->reduced[r->runs - 1];
    if (r->l->axis_count) return;
    r->l->axis_count = r->runs;
    for (uint32_t i = 0; i < r->runs; i++) {
        struct lower_axis *axis = &r->l->axes[i];
        *axis = (struct lower_axis){.extent = extent[i], .parts = 1, .part = {extent[i]}};
        if (r->by_rows || !r->reduced[i] || r->leaf < 2 || r->leaf == extent[i]) continue;
        axis->parts = 2;
        axis->part[0] = extent[i] / r->leaf, axis->part[1] = r->leaf;
    }
}

static void find_stages(struct reduction *r)
{
    struct lower *l = r->l;
    const struct plan_group *g = l->group;
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        const struct ir_node *node = ir_get(l->f, v);
        for (uint32_t j = 0; j < node->arg_count; j++)
            if (l->member[node->args[j]] && r->of[node->args[j]].stage > r->of[v].stage)
                r->of[v].stage = r->of[node->args[j]].stage;
        if (!is_reduce(node)) continue;
        vec_push(l->arena, &r->sums, v);
        r->in_order |= is_stepwise(node);
        int64_t leaf = node->op == OP_reduce_sum ? leaf_of(node) : 0;
        if (leaf && r->leaf && leaf != r->leaf) lower_fail(l, v, "sums with other leaves in one kernel");
        if (leaf) r->leaf = leaf;
        r->of[v].stage++; /* reduced in pass stage - 1 */
        r->passes = r->of[v].stage > r->passes ? r->of[v].stage : r->passes;
    }
    for (size_t i = 0; i < g->outputs.count; i++)
        if (g->output_level.items[i] == 1 && r->of[g->outputs.items[i]].stage + 1 > r->passes)
            r->passes = r->of[g->outputs.items[i]].stage + 1;
}

/* Marks the expensive values that pass `pass` needs at the index of `v` but an earlier pass could compute. */
static void mark_kept(struct reduction *r, ir_value v, uint32_t pass)
{
    struct lower *l = r->l;
    const struct ir_node *node = ir_get(l->f, v);
    if (!l->member[v] || l->argument[v] || is_reduce(node) || r->of[v].keep || r->of[v].marked > pass) return;
    r->of[v].marked = pass + 1; /* what an earlier pass needs and could keep, this one does too */
    bool pointwise = ir_ops[node->op].emit == EMIT_ewise;
    int64_t bytes = r->columns * (int64_t)ir_dtype_bytes((enum ir_dtype)node->type.dtype);
    bool has_room = !l->target->cuda || r->kept + bytes <= CG_CUDA_SHARED; /* its other memory takes longer */
    if (pointwise && ir_ops[node->op].cost >= 8 && r->of[v].stage < pass && has_room) {
        r->of[v].keep = true;
        r->kept += bytes;
        return;
    }
    for (uint32_t i = 0; i < node->arg_count && (pointwise || node->op == OP_reshape); i++)
        mark_kept(r, node->args[i], pass);
}

/* Whether a row lies in one piece and fits a local. */
static bool has_one_run(const struct reduction *r)
{
    uint32_t reduced_runs = 0;
    for (uint32_t i = 0; i < r->runs; i++) reduced_runs += r->reduced[i];
    return r->by_rows && reduced_runs == 1 && r->columns <= LOCAL_COLUMNS;
}

static void find_kept(struct reduction *r)
{
    const struct plan_group *g = r->l->group;
    if (!has_one_run(r)) return;
    for (size_t i = 0; i < r->sums.count; i++)
        mark_kept(r, ir_get(r->l->f, r->sums.items[i])->args[0], r->of[r->sums.items[i]].stage - 1);
    for (size_t i = 0; i < g->outputs.count; i++)
        if (g->output_level.items[i] == 1) mark_kept(r, g->outputs.items[i], r->passes - 1);
}

/* ---------------------------------------------------------------- loops */

static void add_part(struct reduction *r, uint32_t axis, nest_var var, int64_t stride)
{
    lower_pos_add_term(r->l, &r->full, var, stride * r->full_stride[axis]);
    lower_pos_add_term(r->l, &r->row, var, stride * r->row_stride[axis]);
}

static void count_shared(struct lower *l, enum nest_loop loop, int64_t extent)
{
    if (loop == NEST_PARALLEL) l->b.nest->parallel_extent *= extent;
}

static void open_part(struct reduction *r, enum nest_loop loop, uint32_t axis, uint32_t part)
{
    count_shared(r->l, loop, r->l->axes[axis].part[part]);
    nest_var var = lower_open_part(r->l, loop, axis, part);
    add_part(r, axis, var, lower_axis_stride(&r->l->axes[axis], part));
}

/* A kept part as the loops over it are opened: the blocks of a column kernel's columns, or of rows that are walked
 * together, are loops over one of them. */
struct kept {
    uint32_t axis, part;
};

static bool is_kept(const struct kept *k, uint32_t axis, uint32_t part) { return k->axis == axis && k->part == part; }

static void open_blocks(struct reduction *r, enum nest_loop loop, const struct kept *cut, int64_t blocks)
{
    int64_t tile = r->vectors * r->width;
    count_shared(r->l, loop, blocks);
    add_part(r, cut->axis, lower_open_piece(r->l, loop, cut->axis, cut->part, blocks, tile), tile);
}

/* The kept parts, one of them in parallel (lower_shares_better), on a GPU all of them. `cut` goes by `blocks`, which
 * may be the parallel loop itself where there is little else; else they come last, as neighbours read neighbouring
 * pieces of memory. NULL: no part is cut. */
static void open_kept(struct reduction *r, const struct kept *cut, int64_t blocks)
{
    enum { SHARED = 8 /* steps of the first part, which is shared out before others further inside */ };
    struct lower *l = r->l;
    bool cuda = l->target->cuda, cuts = cut && blocks != 1;
    struct kept shared = {UINT32_MAX, 0};
    int64_t largest = cuts ? blocks : 0;
    for (uint32_t a = 0; a < r->runs; a++)
        for (uint32_t p = 0; p < l->axes[a].parts && !r->reduced[a]; p++) {
            int64_t extent = l->axes[a].part[p];
            bool first = shared.axis == UINT32_MAX && extent >= SHARED && !cuda;
            if ((cut && is_kept(cut, a, p)) || !(first || lower_shares_better(extent, largest))) continue;
            largest = extent;
            shared = (struct kept){a, p};
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
typedef void inside_loops(struct reduction *, uint32_t pass);
static void walk_reduced(struct reduction *r, uint32_t a, uint32_t p, uint32_t first, inside_loops *inside,
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
        walk_reduced(r, a, p + 1, first, inside, pass);
    } else if (last && (!r->in_order || r->laid_out)) {
        open_part(r, NEST_VECTOR, a, p);
        walk_reduced(r, a, p + 1, first, inside, pass);
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
                walk_reduced(r, a, p + 1, first, inside, pass);
            }
            nest_close_to(&l->b, depth);
        }
    }
    nest_close_to(&l->b, depth);
    r->full = full, r->row = row;
}

/* ---------------------------------------------------------------- bodies */

/* Of the registers of a tile. */
static struct nest_index tile_index(struct lower *l, nest_var unroll)
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

static enum ir_op combine_op(const struct ir_node *node)
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
static bool is_tree(const struct reduction *r, const struct ir_node *node)
{
    return !r->by_rows && node->op == OP_reduce_sum && leaf_of(node) && leaf_of(node) < r->columns;
}

/* Registers of trees, or all others. */
static void declare_sums(struct reduction *r, uint32_t pass, bool trees)
{
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        const struct ir_node *node = ir_get(r->l->f, v);
        enum ir_dtype dtype = (enum ir_dtype)node->type.dtype;
        if (r->of[v].stage == pass + 1 && is_tree(r, node) == trees)
            r->of[v].reg = nest_reg(&r->l->b, dtype, r->vectors, !in_order(r, node),
                                    identity_of((enum ir_op)node->op, dtype));
    }
}

/* Where the element lies in its row. */
static struct nest_index row_index(struct reduction *r)
{
    struct lower_pos at = r->full;
    lower_pos_add(r->l, &at, &r->first, -1);
    return lower_pos_index(r->l, &at);
}

/* The work of one element in one pass; `reg` is the register of the tile. */
static void body(struct reduction *r, uint32_t pass, struct nest_index reg)
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
        if (r->laid_out && is_stepwise(node)) nest_store(&l->b, r->of[v].local, row_index(r), x, 0);
        else nest_reduce(&l->b, combine_op(node), r->of[v].reg, reg, x);
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

static void store_rows(struct reduction *r)
{
    lower_store_outputs(r->l, lower_outputs(r->l, 2, &r->row), &r->row, r->mask);
}

/* ---------------------------------------------------------------- row kernels */

/* The sum of terms that lie in a local row. */
static void sum_row(struct reduction *r, ir_value v)
{
    struct lower *l = r->l;
    const struct ir_node *node = ir_get(l->f, v);
    struct nest_index zero = {0};
    int64_t leaf = leaf_of(node), leaves = leaf ? r->columns / leaf : 1;
    if (leaves > 1) lower_tree_row(l, (enum ir_dtype)node->type.dtype, r->of[v].local, leaf, leaves);
    nest_var var = lower_open(l, NEST_SERIAL, leaves > 1 ? 1 : r->columns);
    struct nest_term term = {var, 1};
    nest_value x = nest_load(&l->b, r->of[v].local, (struct nest_index){.term_count = 1, .terms = &term}, 0);
    nest_reduce(&l->b, combine_op(node), r->of[v].reg, zero, x);
    nest_close(&l->b);
}

/* The last part of the last run that a row kernel keeps, which is the one before the columns. */
static struct kept last_kept(const struct reduction *r)
{
    return (struct kept){r->runs - 2, r->l->axes[r->runs - 2].parts - 1};
}

/* Opens the rows that are walked together, if there are some; their register. */
static struct nest_index open_rows(struct reduction *r)
{
    struct lower *l = r->l;
    if (r->vectors == 1) return (struct nest_index){0};
    struct kept last = last_kept(r);
    nest_var unroll = lower_open_piece(l, NEST_UNROLL, last.axis, last.part, r->vectors, 1);
    add_part(r, last.axis, unroll, 1);
    return tile_index(l, unroll);
}

static void inside_row(struct reduction *r, uint32_t pass)
{
    uint32_t depth = r->l->b.depth;
    struct lower_pos full = r->full, row = r->row;
    body(r, pass, open_rows(r));
    nest_close_to(&r->l->b, depth);
    r->full = full, r->row = row;
}

static void fold_rows(struct reduction *r, uint32_t pass, struct nest_index reg)
{
    struct lower *l = r->l;
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        const struct ir_node *node = ir_get(l->f, v);
        if (r->of[v].stage != pass + 1) continue;
        if (r->laid_out && is_stepwise(node)) sum_row(r, v);
        nest_value x = in_order(r, node) ? nest_get(&l->b, r->of[v].reg, reg)
                                         : nest_fold(&l->b, combine_op(node), r->of[v].reg, reg);
        l->from[v] = (struct lower_override){.source = FROM_VALUE,
                                             .value = lower_cast(l, x, (enum ir_dtype)node->type.dtype)};
    }
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        if (r->of[v].keep && r->of[v].stage == pass) l->from[v].source = FROM_BUFFER;
    }
}

/* Whether rows share an input, or come from memory. */
static bool is_better_together(const struct reduction *r)
{
    enum { LARGE = 1 << 22 };
    const struct lower *l = r->l;
    bool better = r->rows * r->columns >= LARGE;
    for (size_t i = 0; i < l->group->inputs.count; i++) {
        int64_t elements = ir_type_elements(ir_type(l->f, l->group->inputs.items[i]));
        better |= elements >= r->columns && elements < r->rows * r->columns;
    }
    return better;
}

/* Rows that are walked together, so that what they share is loaded once, and more of memory is on its way: of sums that
 * little is computed for. */
static uint32_t choose_rows(const struct reduction *r)
{
    enum { MOST_COST = 8, LEAST_COLUMNS = 64, LEAST_ROWS = 64, MOST = 4 };
    const struct lower *l = r->l;
    uint32_t cost = 0;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        const struct ir_node *node = ir_get(l->f, l->group->nodes.items[i]);
        if (ir_type_elements(&node->type) > r->rows) cost += ir_ops[node->op].cost;
    }
    if (l->target->cuda || r->passes > 1 || r->in_order || r->sums.count > 1 || cost > MOST_COST) return 1;
    if (r->runs < 2 || r->columns < LEAST_COLUMNS || r->rows < LEAST_ROWS || !is_better_together(r)) return 1;
    struct kept last = last_kept(r);
    int64_t extent = l->axes[last.axis].part[last.part];
    for (uint32_t n = MOST; n > 1; n--)
        if (extent % n == 0 && extent > n) return n;
    return 1;
}

static void row_kernel(struct reduction *r)
{
    struct lower *l = r->l;
    find_kept(r);
    r->vectors = choose_rows(r);
    r->width = 1;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        if (r->of[v].keep) r->of[v].local = nest_local(&l->b, (enum ir_dtype)ir_type(l->f, v)->dtype, r->columns);
    }
    r->laid_out = r->in_order && has_one_run(r);
    if (r->leaf && r->leaf != r->columns && !r->laid_out)
        lower_fail(l, l->group->outputs.items[0], "a sum in a fixed order over that many elements");
    for (size_t i = 0; i < r->sums.count && r->laid_out; i++) {
        const struct ir_node *node = ir_get(l->f, r->sums.items[i]);
        if (is_stepwise(node))
            r->of[r->sums.items[i]].local = nest_local(&l->b, (enum ir_dtype)node->type.dtype, r->columns);
    }
    if (r->vectors > 1) {
        struct kept last = last_kept(r);
        open_kept(r, &last, l->axes[last.axis].part[last.part] / r->vectors);
    } else {
        open_kept(r, NULL, 0);
    }
    r->first = r->full;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        if (r->of[v].keep) l->from[v] = (struct lower_override){.buffer = r->of[v].local, .base = r->full};
    }
    for (uint32_t pass = 0; pass < r->passes; pass++) {
        declare_sums(r, pass, false);
        walk_reduced(r, 0, 0, 0, inside_row, pass);
        fold_rows(r, pass, open_rows(r));
    }
    store_rows(r);
    nest_close_to(&l->b, 0);
}

/* ---------------------------------------------------------------- column kernels */

/* Opens the tile's loops: its registers one after the other, each lane an element of the last kept part. */
static void open_tile(struct reduction *r, int64_t extent, bool masked, nest_var *unroll)
{
    struct lower *l = r->l;
    uint32_t axis = r->runs - 1, part = l->axes[axis].parts - 1;
    *unroll = lower_open_piece(l, NEST_UNROLL, axis, part, r->vectors, r->width);
    add_part(r, axis, *unroll, r->width);
    nest_var lane = lower_open_piece(l, NEST_VECTOR, axis, part, r->width, 1);
    add_part(r, axis, lane, 1);
    if (masked) r->mask = lower_mask_tile(l, &r->full, axis, part, 0, extent);
}

static void close_tile(struct reduction *r, uint32_t depth)
{
    r->mask = r->l->tile_mask = 0;
    nest_close_to(&r->l->b, depth);
}

/* Makes the finished reductions visible in a tile's body. */
static void read_sums(struct reduction *r, uint32_t pass, struct nest_index reg)
{
    struct lower *l = r->l;
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        if (r->of[v].stage > pass) continue;
        nest_value x = lower_cast(l, nest_get(&l->b, r->of[v].reg, reg), (enum ir_dtype)ir_type(l->f, v)->dtype);
        l->from[v] = (struct lower_override){.source = FROM_VALUE, .value = x};
    }
}

static void choose_tile(struct reduction *r, int64_t extent)
{
    int64_t lanes = r->l->lanes, whole = (extent + lanes - 1) / lanes;
    r->width = extent < 1 ? 1 : extent < lanes ? extent : lanes; /* a tensor without elements has no tile */
    /* the sums of a tile stay in half of the registers, or two of each in three quarters: lines of memory come in pairs
     */
    uint32_t sums = r->sums.count ? (uint32_t)r->sums.count : 1, registers = r->l->target->vector_registers;
    uint32_t most = 2 * sums > registers / 2 && 2 * sums <= registers / 4 * 3 ? 2 : registers / 2 / sums;
    most = most < 1 || r->l->target->cuda ? 1 : most < 4 ? most : 4; /* a GPU has more blocks than a tile has vectors */
    r->vectors = whole < 1 ? 1 : whole < most ? (uint32_t)whole : most;
    for (uint32_t n = most; n > 1 && extent % lanes == 0; n--)
        if (whole % n == 0 && n < whole) {
            r->vectors = n;
            break;
        }
}

/* What a leaf of a tree has come to goes on (lower_tree.c); its registers and local are those of the tile. */
struct tile_tree {
    struct reduction *r;
    ir_value v;
};

static void move_tile(void *user, uint32_t level, bool add)
{
    struct tile_tree *t = user;
    struct lower *l = t->r->l;
    const struct lower_reduced *of = &t->r->of[t->v];
    nest_var unroll = lower_open(l, NEST_UNROLL, t->r->vectors), lane = lower_open(l, NEST_VECTOR, t->r->width);
    struct lower_pos at = lower_pos_constant((int64_t)level * t->r->vectors * t->r->width);
    struct nest_index reg = tile_index(l, unroll), index;
    lower_pos_add_term(l, &at, unroll, t->r->width);
    lower_pos_add_term(l, &at, lane, 1);
    index = lower_pos_index(l, &at);
    if (add) {
        nest_value sum = nest_load(&l->b, of->local, index, 0);
        sum = lower_binary(l, OP_add, nest_dtype(&l->b, sum), sum, nest_get(&l->b, of->reg, reg));
        nest_set(&l->b, of->reg, reg, sum);
    } else {
        nest_store(&l->b, of->local, index, nest_get(&l->b, of->reg, reg), 0);
    }
    nest_close(&l->b);
    nest_close(&l->b);
}

/* The loops over leaves, if this pass has trees; where in its axis what is inside of a leaf begins. */
static uint32_t open_leaves(struct reduction *r, uint32_t pass, struct lower_pos *leaf)
{
    struct lower *l = r->l;
    bool any = false;
    for (size_t i = 0; i < r->sums.count; i++)
        any |= r->of[r->sums.items[i]].stage == pass + 1 && is_tree(r, ir_get(l->f, r->sums.items[i]));
    for (uint32_t a = 0; a < r->runs && any; a++) {
        if (!r->reduced[a]) continue;
        uint32_t p = 0;
        for (; p < l->axes[a].parts && lower_axis_stride(&l->axes[a], p) >= r->leaf; p++) {
            int64_t stride = lower_axis_stride(&l->axes[a], p);
            nest_var var = lower_open_part(l, NEST_SERIAL, a, p);
            add_part(r, a, var, stride);
            lower_pos_add_term(l, leaf, var, stride / r->leaf);
        }
        return p;
    }
    return 0;
}

static void close_leaves(struct reduction *r, uint32_t pass, const struct lower_pos *leaf)
{
    uint32_t levels = lower_tree_levels(r->columns / r->leaf);
    if (levels > LOWER_TREE_LEVELS)
        lower_fail(r->l, r->l->group->outputs.items[0], "a sum in a fixed order over that many elements");
    for (size_t i = 0; i < r->sums.count; i++) {
        struct tile_tree t = {r, r->sums.items[i]};
        if (r->of[t.v].stage == pass + 1 && is_tree(r, ir_get(r->l->f, t.v)))
            lower_tree_join(r->l, leaf, levels, move_tile, &t);
    }
}

/* The whole sums, from where the last leaf has left them. */
static void take_sums(struct reduction *r, uint32_t pass)
{
    struct lower *l = r->l;
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        const struct ir_node *node = ir_get(l->f, v);
        if (r->of[v].stage != pass + 1 || !is_tree(r, node)) continue;
        r->of[v].reg = nest_reg(&l->b, (enum ir_dtype)node->type.dtype, r->vectors, true, 0);
        nest_var unroll = lower_open(l, NEST_UNROLL, r->vectors), lane = lower_open(l, NEST_VECTOR, r->width);
        int64_t last = lower_tree_levels(r->columns / r->leaf);
        struct lower_pos at = lower_pos_constant(last * r->vectors * r->width);
        lower_pos_add_term(l, &at, unroll, r->width);
        lower_pos_add_term(l, &at, lane, 1);
        nest_set(&l->b, r->of[v].reg, tile_index(l, unroll),
                 nest_load(&l->b, r->of[v].local, lower_pos_index(l, &at), 0));
        nest_close(&l->b);
        nest_close(&l->b);
    }
}

static void declare_waiting(struct reduction *r)
{
    for (size_t i = 0; i < r->sums.count; i++) {
        const struct ir_node *node = ir_get(r->l->f, r->sums.items[i]);
        if (!is_tree(r, node)) continue;
        int64_t planes = lower_tree_levels(r->columns / r->leaf) + 1;
        r->of[r->sums.items[i]].local = nest_local(&r->l->b, (enum ir_dtype)node->type.dtype,
                                                   planes * r->vectors * r->width);
    }
}

/* Of the last kept part. */
static int64_t tile_extent(const struct reduction *r)
{
    const struct lower_axis *axis = &r->l->axes[r->runs - 1];
    return axis->part[axis->parts - 1];
}

static void inside_columns(struct reduction *r, uint32_t pass)
{
    struct lower *l = r->l;
    uint32_t depth = l->b.depth;
    int64_t extent = tile_extent(r);
    nest_var unroll;
    open_tile(r, extent, extent % (r->vectors * r->width) != 0, &unroll);
    struct nest_index reg = tile_index(l, unroll);
    read_sums(r, pass, reg);
    body(r, pass, reg);
    close_tile(r, depth);
}

static void column_kernel(struct reduction *r)
{
    struct lower *l = r->l;
    struct kept columns = {r->runs - 1, l->axes[r->runs - 1].parts - 1};
    int64_t extent = tile_extent(r);
    choose_tile(r, extent);
    int64_t tile = r->vectors * r->width, blocks = (extent + tile - 1) / tile;
    nest_var unroll;
    declare_waiting(r);
    open_kept(r, &columns, blocks);
    uint32_t depth = l->b.depth;
    struct lower_pos full = r->full, row = r->row;
    for (uint32_t pass = 0; pass < r->passes; pass++) {
        struct lower_pos leaf = lower_pos_constant(0);
        declare_sums(r, pass, false);
        uint32_t inner = open_leaves(r, pass, &leaf), leaf_depth = l->b.depth;
        declare_sums(r, pass, true);
        walk_reduced(r, 0, inner, inner, inside_columns, pass);
        if (leaf_depth > depth) close_leaves(r, pass, &leaf);
        nest_close_to(&l->b, depth);
        take_sums(r, pass);
        r->full = full, r->row = row;
    }
    open_tile(r, extent, extent % tile != 0, &unroll);
    read_sums(r, r->passes, tile_index(l, unroll));
    store_rows(r);
    close_tile(r, 0);
}

void lower_reduction(struct lower *l)
{
    struct reduction r;
    memset(&r, 0, sizeof r);
    r.l = l;
    l->phases = !l->target->cuda;
    r.of = l->reduced;
    r.full = r.row = lower_pos_constant(0);
    find_stages(&r);
    if (r.sums.count == 0 || r.passes > PLAN_MAX_PASSES) {
        lower_fail(l, l->group->outputs.items[0], "this combination of reductions");
        return;
    }
    find_runs(&r, ir_get(l->f, r.sums.items[0]));
    r.in_order &= r.by_rows;
    if (r.by_rows) row_kernel(&r);
    else column_kernel(&r);
    l->b.nest->work = LOWER_WORK_OF_COST * (l->cost + 2.0 * (double)l->group->inputs.count) *
                      (double)(r.rows * r.columns);
}
