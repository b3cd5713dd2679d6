/* Reductions along neighbours: each row is given to one iteration, whose lanes walk its columns. */
#include "codegen/lower/lower_reduce.h"

enum { LOCAL_COLUMNS = 1 << 16 };

/* Marks the expensive values that pass `pass` needs at the index of `v` but an earlier pass could compute. */
static void mark_kept(struct lower_reduction *r, ir_value v, uint32_t pass)
{
    struct lower *l = r->l;
    const struct ir_node *node = ir_get(l->f, v);
    if (!l->member[v] || l->argument[v] || reduction_is(node) || r->of[v].keep || r->of[v].marked > pass) return;
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
static bool has_one_run(const struct lower_reduction *r)
{
    uint32_t reduced_runs = 0;
    for (uint32_t i = 0; i < r->runs; i++) reduced_runs += r->reduced[i];
    return r->by_rows && reduced_runs == 1 && r->columns <= LOCAL_COLUMNS;
}

static void find_kept(struct lower_reduction *r)
{
    const struct plan_group *g = r->l->group;
    if (!has_one_run(r)) return;
    for (size_t i = 0; i < r->sums.count; i++)
        mark_kept(r, ir_get(r->l->f, r->sums.items[i])->args[0], r->of[r->sums.items[i]].stage - 1);
    for (size_t i = 0; i < g->outputs.count; i++)
        if (g->output_level.items[i] == 1) mark_kept(r, g->outputs.items[i], r->passes - 1);
}

/* The sum of terms that lie in a local row. */
static void sum_row(struct lower_reduction *r, ir_value v)
{
    struct lower *l = r->l;
    const struct ir_node *node = ir_get(l->f, v);
    struct nest_index zero = {0};
    int64_t leaf = reduction_leaf(node), leaves = leaf ? r->columns / leaf : 1;
    if (leaves > 1) lower_tree_row(l, (enum ir_dtype)node->type.dtype, r->of[v].local, leaf, leaves);
    nest_var var = lower_open(l, NEST_SERIAL, leaves > 1 ? 1 : r->columns);
    struct nest_term term = {var, 1};
    nest_value x = nest_load(&l->b, r->of[v].local, (struct nest_index){.term_count = 1, .terms = &term}, 0);
    nest_reduce(&l->b, reduction_combines(node), r->of[v].reg, zero, x);
    nest_close(&l->b);
}

/* Opens the rows that are walked together, if there are some; their register. */
static struct nest_index open_rows(struct lower_reduction *r)
{
    struct lower *l = r->l;
    if (r->vectors == 1) return (struct nest_index){0};
    struct lower_kept last = reduction_last_kept(r);
    nest_var unroll = lower_open_piece(l, NEST_UNROLL, last.axis, last.part, r->vectors, 1);
    reduction_add_part(r, last.axis, unroll, 1);
    return reduction_tile_index(l, unroll);
}

static void inside_row(struct lower_reduction *r, uint32_t pass)
{
    uint32_t depth = r->l->b.depth;
    struct lower_pos full = r->full, row = r->row;
    reduction_body(r, pass, open_rows(r));
    nest_close_to(&r->l->b, depth);
    r->full = full, r->row = row;
}

static struct nest_index waiting_index(struct lower_reduction *r, const struct nest_index *reg)
{
    struct lower_pos at = r->waiting;
    for (uint32_t i = 0; i < reg->term_count; i++) lower_pos_add_term(r->l, &at, reg->terms[i].var, 1);
    return lower_pos_index(r->l, &at);
}

static void fold_rows(struct lower_reduction *r, uint32_t pass, struct nest_index reg)
{
    struct lower *l = r->l;
    for (size_t i = 0; i < r->sums.count; i++) {
        ir_value v = r->sums.items[i];
        const struct ir_node *node = ir_get(l->f, v);
        if (r->of[v].stage != pass + 1) continue;
        if (r->laid_out && reduction_is_stepwise(node)) sum_row(r, v);
        nest_value x = reduction_in_order(r, node) ? nest_get(&l->b, r->of[v].reg, reg)
                                                   : nest_fold(&l->b, reduction_combines(node), r->of[v].reg, reg);
        x = lower_cast(l, x, (enum ir_dtype)node->type.dtype);
        if (r->batch) nest_store(&l->b, r->of[v].local, waiting_index(r, &reg), x, 0);
        else l->from[v] = (struct lower_override){.source = FROM_VALUE, .value = x};
    }
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        if (r->of[v].keep && r->of[v].stage == pass) l->from[v].source = FROM_BUFFER;
    }
}

/* Whether rows share an input, or come from memory. */
static bool is_better_together(const struct lower_reduction *r)
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
static uint32_t choose_rows(const struct lower_reduction *r)
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
    struct lower_kept last = reduction_last_kept(r);
    int64_t extent = l->axes[last.axis].part[last.part];
    for (uint32_t n = MOST; n > 1; n--)
        if (extent % n == 0 && extent > n) return n;
    return 1;
}

/* What is computed of a row's sums takes a lane's worth of many: rows wait for it, as many as a vector has lanes or, if
 * they do not come out even, a divisor. */
static int64_t choose_batch(const struct lower_reduction *r)
{
    enum { LEAST_COST = 8, LEAST_SHARED = 16 };
    const struct lower *l = r->l;
    uint32_t cost = 0;
    if (l->target->cuda || r->passes > 1 || r->in_order || r->leaf || r->runs < 2) return 0;
    for (size_t i = 0; i < l->group->outputs.count; i++)
        if (l->group->output_level.items[i] == 1) return 0;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        const struct ir_node *node = ir_get(l->f, l->group->nodes.items[i]);
        if (ir_type_elements(&node->type) <= r->rows && !reduction_is(node)) cost += ir_ops[node->op].cost;
    }
    struct lower_kept last = reduction_last_kept(r);
    int64_t extent = l->axes[last.axis].part[last.part];
    for (int64_t n = l->lanes; n > l->lanes / 2 && cost >= LEAST_COST; n--)
        if (extent % n == 0 && n % r->vectors == 0 && r->rows / n >= LEAST_SHARED) return n;
    return 0;
}

/* Those of one batch that are walked next. */
static void open_batch(struct lower_reduction *r)
{
    struct lower *l = r->l;
    struct lower_kept last = reduction_last_kept(r);
    r->waiting = lower_pos_constant(0);
    if (r->batch <= r->vectors) return;
    nest_var var = lower_open_piece(l, NEST_SERIAL, last.axis, last.part, r->batch / r->vectors, r->vectors);
    reduction_add_part(r, last.axis, var, r->vectors);
    lower_pos_add_term(l, &r->waiting, var, r->vectors);
}

static void open_waiting(struct lower_reduction *r)
{
    struct lower *l = r->l;
    struct lower_kept last = reduction_last_kept(r);
    nest_var lane = lower_open_piece(l, NEST_VECTOR, last.axis, last.part, r->batch, 1);
    struct lower_pos at = lower_pos_constant(0);
    reduction_add_part(r, last.axis, lane, 1);
    lower_pos_add_term(l, &at, lane, 1);
    for (size_t i = 0; i < r->sums.count; i++) {
        nest_value x = nest_load(&l->b, r->of[r->sums.items[i]].local, lower_pos_index(l, &at), 0);
        l->from[r->sums.items[i]] = (struct lower_override){.source = FROM_VALUE, .value = x};
    }
}

void reduction_by_rows(struct lower_reduction *r)
{
    struct lower *l = r->l;
    find_kept(r);
    r->vectors = choose_rows(r);
    r->batch = choose_batch(r);
    r->width = r->batch ? r->batch / r->vectors : 1;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        if (r->of[v].keep) r->of[v].local = nest_local(&l->b, (enum ir_dtype)ir_type(l->f, v)->dtype, r->columns);
    }
    r->laid_out = r->in_order && has_one_run(r);
    if (r->leaf && r->leaf != r->columns && !r->laid_out)
        lower_fail(l, l->group->outputs.items[0], "a sum in a fixed order over that many elements");
    for (size_t i = 0; i < r->sums.count && r->laid_out; i++) {
        const struct ir_node *node = ir_get(l->f, r->sums.items[i]);
        if (reduction_is_stepwise(node))
            r->of[r->sums.items[i]].local = nest_local(&l->b, (enum ir_dtype)node->type.dtype, r->columns);
    }
    for (size_t i = 0; i < r->sums.count && r->batch; i++) {
        ir_value v = r->sums.items[i];
        r->of[v].local = nest_local(&l->b, (enum ir_dtype)ir_type(l->f, v)->dtype, r->batch);
    }
    if (r->vectors * r->width > 1) {
        struct lower_kept last = reduction_last_kept(r);
        reduction_open_kept(r, &last, l->axes[last.axis].part[last.part] / (r->vectors * r->width));
    } else {
        reduction_open_kept(r, NULL, 0);
    }
    struct lower_pos full = r->full, row = r->row;
    uint32_t depth = l->b.depth;
    if (r->batch) open_batch(r);
    r->first = r->full;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        if (r->of[v].keep) l->from[v] = (struct lower_override){.buffer = r->of[v].local, .base = r->full};
    }
    for (uint32_t pass = 0; pass < r->passes; pass++) {
        reduction_declare(r, pass, false);
        reduction_walk(r, 0, 0, 0, inside_row, pass);
        fold_rows(r, pass, open_rows(r));
    }
    if (r->batch) {
        nest_close_to(&l->b, depth);
        r->full = full, r->row = row;
        open_waiting(r);
    }
    reduction_store_rows(r);
    nest_close_to(&l->b, 0);
}

/* Short rows cost more than their elements: what is made of each row has no neighbour for the lanes, and a sum is
 * folded across them. So many rows at once have a lane each instead, whose elements lie apart. In instructions,
 * roughly, by what was measured with AVX-512 and AVX2: rows that are a vector, or half of one, need no mask, and where
 * registers are few each pass loads again. */
bool reduction_has_short_rows(const struct lower_reduction *r)
{
    enum { LEAST_LANES = 8, MOST_COLUMNS = 16, PASS = 5 /* that waits for the one before */, GATHER = 2, SCATTER = 3 };
    static const double whole = 0.7;
    const struct lower *l = r->l;
    if (l->target->cuda || r->in_order || r->leaf || r->runs < 2 || r->columns > MOST_COLUMNS || l->lanes < LEAST_LANES)
        return false;
    struct lower_kept last = reduction_last_kept(r);
    bool few = l->target->vector_registers < 32;
    double element = 0, apart = 0, row = (double)r->sums.count * (few ? 7 : 10) + PASS * (r->passes - 1.0);
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        const struct ir_node *node = ir_get(l->f, l->group->nodes.items[i]);
        *(ir_type_elements(&node->type) > r->rows ? &element : &row) += ir_ops[node->op].cost;
    }
    for (size_t i = 0; i < l->group->inputs.count; i++)
        if (ir_type_elements(ir_type(l->f, l->group->inputs.items[i])) > r->rows)
            apart += few ? GATHER * r->passes : GATHER;
    for (size_t i = 0; i < l->group->outputs.count; i++) apart += l->group->output_level.items[i] == 1 ? SCATTER : 0;
    row += element * (double)((r->columns + l->lanes - 1) / l->lanes);
    if (r->columns % (l->lanes / 2) == 0) row *= whole;
    return l->axes[last.axis].part[last.part] >= l->lanes && (double)r->columns * (apart + element / l->lanes) < row;
}
