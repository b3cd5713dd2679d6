/* Reductions with the element-wise work around them. The domain is cut into runs of dimensions that are kept (rows) or
 * reduced (columns). A row kernel gives each row to one iteration and walks its columns with the lanes; a column kernel
 * gives a block of kept elements to one iteration, each element a lane, and walks the reduced ones. So it does with
 * rows of few columns, each a lane.
 *
 * A reduction that needs another one's result comes a pass later over the same columns. What a later pass needs again
 * is computed again, but for expensive operations: those are kept in a local row. Outputs are stored in the last pass,
 * so that an output may take the place of an input.
 *
 * A sum with leaves (ir/ops.def, dot) is a tree: in a row over terms that are laid out, in a column of sums that wait
 * for their neighbour (lower_tree.c). */
#include "codegen/lower/lower_reduce.h"
#include <string.h>

static void find_runs(struct lower_reduction *r, const struct ir_node *node)
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

static void find_stages(struct lower_reduction *r)
{
    struct lower *l = r->l;
    const struct plan_group *g = l->group;
    for (size_t i = 0; i < g->nodes.count; i++) {
        ir_value v = g->nodes.items[i];
        const struct ir_node *node = ir_get(l->f, v);
        for (uint32_t j = 0; j < node->arg_count; j++)
            if (l->member[node->args[j]] && r->of[node->args[j]].stage > r->of[v].stage)
                r->of[v].stage = r->of[node->args[j]].stage;
        if (!reduction_is(node)) continue;
        vec_push(l->arena, &r->sums, v);
        r->in_order |= reduction_is_stepwise(node);
        int64_t leaf = node->op == OP_reduce_sum ? reduction_leaf(node) : 0;
        if (leaf && r->leaf && leaf != r->leaf) lower_fail(l, v, "sums with other leaves in one kernel");
        if (leaf) r->leaf = leaf;
        r->of[v].stage++; /* reduced in pass stage - 1 */
        r->passes = r->of[v].stage > r->passes ? r->of[v].stage : r->passes;
    }
    for (size_t i = 0; i < g->outputs.count; i++)
        if (g->output_level.items[i] == 1 && r->of[g->outputs.items[i]].stage + 1 > r->passes)
            r->passes = r->of[g->outputs.items[i]].stage + 1;
}

void lower_reduction(struct lower *l)
{
    struct lower_reduction r;
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
    r.tile_axis = r.runs - 1;
    if (r.by_rows && reduction_has_short_rows(&r)) r.by_rows = false, r.tile_axis = r.runs - 2;
    if (r.by_rows) reduction_by_rows(&r);
    else reduction_by_columns(&r);
    l->b.nest->work = LOWER_WORK_OF_COST * (l->cost + 2.0 * (double)l->group->inputs.count) *
                      (double)(r.rows * r.columns);
}
