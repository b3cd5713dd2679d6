/* Maps: every output has the same number of elements, and element i of all of them is computed together. With no
 * broadcast in the way the domain stays one flat range and the vector loop runs over all of it. */
#include "codegen/lower/lower.h"

/* The part whose loop is shared out among workers: the largest one that is not the vector loop. */
static uint32_t choose_parallel(const struct lower_axis *axis)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < axis->parts; i++)
        if (axis->part[i] > axis->part[best]) best = i;
    return best;
}

static void store_all(struct lower *l, const struct lower_pos *p)
{
    lower_store_outputs(l, lower_outputs(l, LOWER_ALL_LEVELS, p), p, 0);
}

/* What is called for many tensors, or copies one of many: single elements have the code of the larger tensors. */
static bool one_of_many(const struct plan_group *g) { return g->alike && (!g->func->entry || g->kind == GROUP_COPY); }

void lower_map(struct lower *l)
{
    struct lower_axis *axis = &l->axes[0];
    struct nest *nest = l->b.nest;
    int64_t extent = ir_type_elements(lower_output_type(l, l->group->outputs.items[0]));
    if (l->axis_count == 0) {
        l->axis_count = 1;
        *axis = (struct lower_axis){.extent = extent, .parts = 1, .part = {extent}};
    }
    struct lower_pos p = lower_pos_constant(0);
    uint32_t last = axis->parts - 1;
    if (axis->parts == 1 && (extent > 1 || one_of_many(l->group))) {
        nest->flat = true;
        nest->parallel_extent = extent;
        nest->grain = 256;
        nest_var var = nest_open(&l->b, NEST_VECTOR, -1);
        struct lower_var_info info = {
            .extent = extent > 1 ? extent : 2 /* a variable, not 0 */, .unit = 1, .splits = extent > 1};
        vec_push(l->arena, &l->vars, info);
        lower_pos_add_term(l, &p, var, 1);
        store_all(l, &p);
        nest_close(&l->b);
    } else {
        uint32_t parallel = choose_parallel(axis);
        if (axis->parts > 1) { /* even of extent 1: the other loops are its body */
            nest_var var = lower_open_part(l, NEST_PARALLEL, 0, parallel);
            lower_pos_add_term(l, &p, var, lower_axis_stride(axis, parallel));
            nest->parallel_extent = axis->part[parallel];
        }
        for (uint32_t i = 0; i < axis->parts; i++) {
            if ((i == parallel && axis->parts > 1) || axis->part[i] == 1) continue;
            nest_var var = lower_open_part(l, i == last ? NEST_VECTOR : NEST_SERIAL, 0, i);
            lower_pos_add_term(l, &p, var, lower_axis_stride(axis, i));
        }
        store_all(l, &p);
        nest_close_to(&l->b, 0);
    }
    nest->work = LOWER_WORK_OF_COST * (l->cost + 2.0 * (double)(l->group->outputs.count + l->group->inputs.count)) *
                 (double)extent;
}
