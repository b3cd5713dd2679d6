/* All parameters as one vector. */
#include "frontend/optim/optim.h"

static struct ir_func *no_loss(struct fe_optim_state *o, const ir_value **captured, uint32_t *count)
{
    *captured = NULL, *count = 0;
    fe_error(
        o->fe, fe_member(o->fe, fe_root(o->fe), "optimizer"), "E0428",
        "\"flatten\" makes one vector, and the loss takes parameters: nothing inside of it can take the loss again");
    return NULL;
}

/* The leaves of a tree behind each other, in the order of their paths. */
static ir_value joined(struct optim_transform *t, const ir_value *tree, enum ir_dtype dtype)
{
    ir_value *parts = arena_new_array(t->fe->arena, ir_value, t->count + 1);
    uint32_t n = 0;
    EACH_LEAF(t, i) {
        int64_t size = ir_type_elements(ir_type(t->b->f, tree[i]));
        parts[optim_rank(t, i)] = ir_cast(t->b, ir_reshape(t->b, tree[i], 1, &size), dtype);
        n++;
    }
    return ir_concat(t->b, parts, n, 0);
}

/* Runs the inner transformation for one parameter, which stands for all. */
void transform_flatten(struct optim_transform *t)
{
    struct fe_optim_state *o = t->o;
    int64_t total = 0;
    enum ir_dtype dtype = IR_TUPLE;
    EACH_LEAF(t, i) {
        const struct ir_type *type = ir_type(t->b->f, t->u[i]);
        total += ir_type_elements(type);
        dtype = dtype == IR_TUPLE || dtype == (enum ir_dtype)type->dtype ? (enum ir_dtype)type->dtype : IR_F32;
    }
    if (!total) return;
    struct fe_param one = {.path = "", .type = ir_type_of(dtype, 1, &total), .slot = UINT32_MAX};
    ir_value u[2] = {joined(t, t->u, dtype)}, p[2] = {joined(t, t->p, dtype)},
             before[2] = {joined(t, optim_initial(t), dtype)};
    struct fe_optim_state outer = *o;
    o->count = 1, o->params = &one, o->grads = u, o->trained = p, o->before = before, o->value_and_grad = no_loss;
    if (!o->outside) o->outside = t, o->outside_params = outer.params;
    optim_apply(o, arg(t, "inner")->json, t->path, u, p);
    o->count = outer.count, o->params = outer.params, o->grads = outer.grads, o->trained = outer.trained;
    o->before = outer.before, o->outside = outer.outside, o->outside_params = outer.outside_params,
    o->value_and_grad = outer.value_and_grad;
    optim_split(t, u[0], t->u);
}
