/* Checks of what an object compiled with --check-finite computes. Arithmetic is checked where it is done; sums,
 * contractions and scatters, what a library, another device or the host gives where it is read, which is before
 * anything is made of it. So the first check that fails names what made the first value that is not finite. A check
 * is a statement that changes no other one: the arithmetic stays what it is without. */
#include "codegen/lower/lower.h"

uint32_t lower_site(struct lower *l, ir_value v)
{
    for (size_t i = l->first_site; i < l->sites->list.count; i++)
        if (l->sites->list.items[i].value == v) return (uint32_t)(i - l->first_site + l->sites_as);
    struct cg_site site = {l->f, v, l->alike};
    vec_push(l->arena, &l->sites->list, site);
    return (uint32_t)(l->sites->list.count - 1 - l->first_site + l->sites_as);
}

/* Single numbers of the state are replaced before they count: the best loss, a rate that a rule gives. */
static enum nest_given given_of(const struct ir_func *f, ir_value v)
{
    for (size_t i = 0; i < f->params.count && ir_get(f, v)->op == OP_param; i++)
        if (f->params.items[i].value == v && f->params.items[i].slot >= 0) {
            const struct ir_slot *slot = &f->module->slots.items[f->params.items[i].slot];
            bool number = !slot->type.rank && slot->role != IR_ROLE_PARAM && slot->role != IR_ROLE_INPUT;
            return number ? NEST_PLACEHOLDER : NEST_GIVEN;
        }
    return NEST_MADE;
}

void lower_check(struct lower *l, ir_value v, nest_value is, const struct lower_pos *p, const nest_value *operands,
                 uint32_t count)
{
    nest_value args[4] = {is};
    uint32_t n = 1;
    if (!l->sites || !ir_dtype_is_float(nest_dtype(&l->b, is)) || !ir_dtype_is_float(ir_type(l->f, v)->dtype)) return;
    for (uint32_t i = 0; i < count; i++)
        if (ir_dtype_is_float(nest_dtype(&l->b, operands[i]))) args[n++] = operands[i];
    bool moved;
    v = ir_made_by(l->f, v, &moved);
    if (moved) args[n < 4 ? n++ : 3] = is; /* what moves makes none, -inf to pad with */
    nest_check(&l->b, lower_site(l, v), lower_pos_index(l, p), args, n, l->cond, l->tile_mask, given_of(l->f, v));
}
