/* Taps (ir/plan.h): each element is read once, at an index that needs no condition; as a concatenation like any
 * other, every element would ask all slices whether it is theirs. */
#include "codegen/lower/lower.h"

static bool computed_here(const struct lower *l, ir_value v)
{
    return l->member[v] && !l->argument[v] && l->from[v].source == FROM_NODE;
}

static bool slices_are_views(const struct lower *l, const struct ir_node *concat)
{
    for (uint32_t k = 0; k < concat->arg_count; k++) {
        ir_value v = concat->args[k];
        while (computed_here(l, v) && ir_get(l->f, v)->op == OP_reshape) v = ir_get(l->f, v)->args[0];
        if (!computed_here(l, v)) return false;
    }
    return true;
}

/* The part of the position that is the same for all slices, in elements of the base. */
static void add_outer(struct lower *l, const struct plan_taps *t, const struct lower_pos *outer, struct lower_pos *sum)
{
    const struct ir_type *base = ir_type(l->f, t->base);
    int64_t scale[IR_MAX_RANK], by[IR_MAX_RANK], stride[IR_MAX_RANK + 1];
    struct lower_pos at[IR_MAX_RANK];
    stride[t->outer] = (int64_t)t->size;
    for (uint32_t i = t->outer; i-- > 0;) stride[i] = stride[i + 1] * base->dim[i];
    for (uint32_t i = 0; i < t->outer; i++) scale[i] = stride[i + 1] * t->outer_steps.items[i];
    uint32_t runs = lower_pos_runs(l, outer, t->outer, ir_type(l->f, t->slice)->dim, scale, NULL, at, by);
    for (uint32_t i = 0; i < runs; i++) lower_pos_add(l, sum, &at[i], by[i]);
}

const struct plan_taps *lower_taps_of(const struct lower *l, ir_value v)
{
    while (!l->argument[v] && ir_get(l->f, v)->op == OP_reshape) v = ir_get(l->f, v)->args[0];
    return l->argument[v] ? NULL : plan_taps_of(l->plan, l->f, v);
}

static struct lower_pos position(struct lower *l, const struct plan_taps *t, const struct lower_pos *outer,
                                 const struct lower_pos *inner)
{
    /* the innermost digit may go on where a run ends */
    int64_t shape[IR_MAX_RANK + 1], size = (int64_t)t->size;
    uint32_t digits = (uint32_t)t->radix.count, first = t->steps.items[0] == size ? 1 : 0, dims = 0;
    for (uint32_t i = digits; i-- > first;) shape[dims++] = t->radix.items[i];
    shape[dims] = first ? size * t->radix.items[0] : size;
    struct lower_pos digit[IR_MAX_RANK + 1], sum = lower_pos_constant((int64_t)t->start);
    lower_pos_split(l, inner, dims + 1, shape, digit);
    add_outer(l, t, outer, &sum);
    for (uint32_t i = 0; i < dims; i++) lower_pos_add(l, &sum, &digit[i], t->steps.items[digits - 1 - i]);
    lower_pos_add(l, &sum, &digit[dims], 1);
    return sum;
}

bool lower_taps(struct lower *l, ir_value concat, const struct lower_pos *outer, const struct lower_pos *inner,
                nest_value *result)
{
    const struct plan_taps *t = plan_taps_of(l->plan, l->f, concat);
    if (!t || !slices_are_views(l, ir_get(l->f, concat))) return false;
    struct lower_pos at = position(l, t, outer, inner);
    *result = lower_value(l, t->base, &at);
    return true;
}

uint32_t lower_taps_place(struct lower *l, const struct plan_taps *t, const struct lower_pos *p, struct lower_pos *at)
{
    const struct ir_node *concat = ir_get(l->f, t->concat);
    ir_value base = t->base;
    struct lower_pos part[2];
    int64_t around[3];
    while (!l->argument[base] && ir_get(l->f, base)->op == OP_reshape) base = ir_get(l->f, base)->args[0];
    if (!l->argument[base] || !slices_are_views(l, concat)) return UINT32_MAX;
    lower_around(&concat->type, concat->attr[0].v[0], around);
    lower_pos_split(l, p, 2, (int64_t[]){around[0], around[1] * around[2]}, part);
    *at = position(l, t, &part[0], &part[1]);
    return l->argument[base] - 1;
}
