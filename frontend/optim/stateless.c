/* Transformations written as one expression over the update and the parameter. */
#include "frontend/optim/optim.h"
#include <string.h>

struct fe_val optim_tree_value(struct optim_transform *t, const ir_value *values)
{
    struct fe_tree *tree = arena_new(t->fe->arena, struct fe_tree);
    const char **paths = arena_new_array(t->fe->arena, const char *, t->count + 1);
    ir_value *present = arena_new_array(t->fe->arena, ir_value, t->count + 1);
    EACH_LEAF(t, i) paths[tree->count] = t->o->params[i].path, present[tree->count++] = values[i];
    tree->paths = paths;
    tree->values = present;
    return (struct fe_val){.kind = FE_VAL_TREE, .tree = tree};
}

ir_value optim_evaluate(struct optim_transform *t, fe_json text, const struct fe_env *env)
{
    struct fe_val v = fe_expr(t->fe, t->o->trace, text, env);
    return v.bad ? 0 : fe_tensor(t->fe, t->o->trace, &v, text);
}

/* f(update, param) per parameter; `trees`: it sees `updates` and `params` too. */
static void per_leaf(struct optim_transform *t, bool trees)
{
    fe_json f = arg(t, "f")->json;
    ir_value *given = optim_new_tree(t);
    EACH_LEAF(t, i) given[i] = t->u[i];
    struct fe_env params = {t->o->trace->env, "params", optim_tree_value(t, t->p), false},
                  updates = {&params, "updates", optim_tree_value(t, given), false};
    EACH_LEAF(t, i) {
        struct fe_env param = {trees ? &updates : t->o->trace->env, "param", fe_val_tensor(t->p[i]), false};
        struct fe_env update = {&param, "update", fe_val_tensor(given[i]), false};
        ir_value value = optim_evaluate(t, f, &update);
        if (!value) return;
        const struct ir_type *type = ir_type(t->b->f, value), *want = &t->o->params[i].type;
        if (type->rank && (type->rank != want->rank || memcmp(type->dim, want->dim, want->rank * sizeof *want->dim))) {
            fe_error(t->fe, f, "E0423", "gives shape %s for parameter \"%s\" of shape %s",
                     ir_type_text(t->fe->arena, type), t->o->params[i].path, ir_type_text(t->fe->arena, want));
            return;
        }
        /* what comes next computes with floats; of examples the sum decides */
        if (!t->o->example && !ir_dtype_is_float((enum ir_dtype)type->dtype))
            value = ir_cast(t->b, value, (enum ir_dtype)ir_type(t->b->f, given[i])->dtype);
        t->u[i] = ir_broadcast_to(t->b, value, want->rank, want->dim);
    }
}

void transform_stateless(struct optim_transform *t) { per_leaf(t, true); }
void transform_stateless_with_tree_map(struct optim_transform *t) { per_leaf(t, false); }

void optim_map(struct fe_optim_state *o, fe_json expression, ir_value *u, const ir_value *p)
{
    struct fe_value f = {.given = true, .json = expression};
    struct optim_transform t = {
        .o = o, .fe = o->fe, .b = o->b, .json = expression, .args = &f, .count = o->count, .u = u, .p = p};
    t.row = optim_row_find(o->fe, "stateless");
    transform_stateless(&t);
}
