/* Sophia (Liu et al. 2023): momentum divided by an estimate of the Hessian's diagonal, clipped; and Hutchinson's
 * estimate of that diagonal. The formulas are those of optax.contrib.
 *
 * A product of the Hessian with a vector r is the derivative of <gradient, r>. Every op that a backward pass consists
 * of can be differentiated, so this is one more reverse pass over the value-and-gradient function of the step. */
#include "frontend/model/init.h"
#include "frontend/optim/optim.h"

/* The function (trained parameters.., one vector per leaf of the transformation.., captured..) -> products per trained
 * parameter. NULL: errors were recorded. */
static struct ir_func *hessian_product_function(struct optim_transform *t, uint32_t captured_count,
                                                struct ir_func *gradient)
{
    struct fe_optim_state *o = t->o;
    const char *name = "hessian_product";
    for (int i = 1; ir_func_find(t->fe->module, name); i++) name = arena_format(t->fe->arena, "hessian_product_%d", i);
    struct ir_builder b = {.f = ir_func_new(t->fe->module, name, false), .place = t->b->place};
    ir_value *args = arena_new_array(t->fe->arena, ir_value, o->count + captured_count + 1),
             *direction = optim_new_tree(t), *wrt = arena_new_array(t->fe->arena, ir_value, o->count + 1);
    uint32_t n = 0, trained = 0;
    for (uint32_t i = 0; i < o->count; i++)
        if (o->grads[i]) wrt[trained++] = args[n++] = ir_param_new(&b, o->params[i].path, o->params[i].type, -1);
    EACH_LEAF(t, i)
        direction[i] = ir_param_new(&b, arena_format(t->fe->arena, "direction.%s", o->params[i].path),
                                    o->params[i].type, -1);
    for (uint32_t i = 0; i < captured_count; i++) {
        const struct ir_param *p = &gradient->params.items[n];
        args[n++] = ir_param_new(&b, p->name, p->type, -1);
    }
    ir_value tuple = ir_call(&b, gradient, args, n), *grads = optim_new_tree(t);
    for (uint32_t i = 0, result = 1; i < o->count; i++)
        if (o->grads[i]) grads[i] = ir_proj(&b, tuple, result++);
    struct fe_term along = optim_dot(&b, o->count, grads, direction);
    ir_value products = ir_grad(&b, along.v, wrt, trained);
    for (uint32_t i = 0, result = 0; i < o->count; i++)
        if (o->grads[i]) ir_result_add(&b, o->params[i].path, ir_proj(&b, products, result++), -1);
    return b.f;
}

/* A loop that f runs, whose results are tensors with first derivatives only (expr_loop.c); NULL: none. */
static const struct ir_node *find_loop(struct optim_transform *t, const struct ir_func *f)
{
    const bool *live = ir_live(f, t->fe->arena);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v), *inside;
        if (!live[v] || !ir_has_body((enum ir_op)n->op)) continue;
        const struct ir_func *body = f->module->funcs.items[n->func];
        for (size_t i = 0; n->op == OP_loop && i < body->results.count; i++)
            if (ir_dtype_is_float((enum ir_dtype)ir_type(body, body->results.items[i].value)->dtype)) return n;
        if ((inside = find_loop(t, body))) return inside;
    }
    return NULL;
}

/* False: the gradient cannot be differentiated, and an error says so. */
static bool has_derivative(struct optim_transform *t, const struct ir_func *gradient)
{
    const struct ir_node *loop = find_loop(t, gradient);
    if (!loop) return true;
    const char *pointer = loop->place ? t->fe->module->places.items[loop->place].pointer : "the loss";
    fe_error(t->fe, t->json, "E0111",
             "the derivative of the gradient through a loop is not supported yet; there is one in %s", pointer);
    return false;
}

/* H r for the leaves of the transformation; the other trained parameters stay where they are. */
static bool hessian_product(struct optim_transform *t, const ir_value *r, ir_value *products)
{
    struct fe_optim_state *o = t->o;
    const ir_value *captured;
    uint32_t count, n = 0;
    struct ir_func *gradient = o->value_and_grad(o, &captured, &count);
    if (!gradient || !has_derivative(t, gradient)) return false;
    struct ir_func *f = hessian_product_function(t, count, gradient);
    ir_value *args = arena_new_array(t->fe->arena, ir_value, 2 * o->count + count + 1);
    for (uint32_t i = 0; i < o->count; i++)
        if (o->grads[i]) args[n++] = o->trained[i];
    EACH_LEAF(t, i) args[n++] = r[i];
    for (uint32_t i = 0; i < count; i++) args[n++] = captured[i];
    ir_value tuple = ir_call(t->b, f, args, n);
    for (uint32_t i = 0, result = 0; i < o->count; i++)
        if (o->grads[i]) products[i] = ir_proj(t->b, tuple, result++);
    return true;
}

/* r * (H r) with random signs r: its mean is the diagonal (Hutchinson 1989). */
static void hutchinson(struct optim_transform *t, int64_t seed)
{
    ir_value *r = optim_new_tree(t), *products = optim_new_tree(t);
    struct optim_key sample = optim_next_key(t, "key", seed);
    EACH_LEAF(t, i) {
        const struct ir_type *type = &t->o->params[i].type;
        struct optim_key own = optim_leaf_key(t, sample, i);
        r[i] = ir_cast(t->b, fe_rademacher(t->b, own.word[0], own.word[1], type), (enum ir_dtype)type->dtype);
    }
    if (!hessian_product(t, r, products)) return;
    EACH_LEAF(t, i) t->u[i] = term_mul(t->b, T(products[i]), T(r[i])).v;
}

void transform_hutchinson_estimator_diag_hessian(struct optim_transform *t)
{
    hutchinson(t, absent(t, "random_seed") ? 0 : arg(t, "random_seed")->integer);
}

/* A new estimate of the diagonal, in the steps that want one; what stands there in others is never read. */
static void estimate_diagonal(struct optim_transform *t, struct fe_term when, ir_value *h)
{
    fe_json own = arg(t, "hessian_diagonal_fn")->json;
    const char *path = optim_path(t, "hessian_fn_state");
    ir_value *before = optim_snapshot(t->o), *values = optim_new_tree(t), *zeros = optim_new_tree(t);
    uint32_t from = t->b->f->count, n = 0;
    EACH_LEAF(t, i) h[i] = t->u[i];
    if (own && own->kind == JSON_OBJECT) {
        optim_apply(t->o, own, path, h, t->p);
    } else {
        struct optim_transform inner = *t;
        inner.path = path, inner.u = h;
        hutchinson(&inner, 0);
    }
    EACH_LEAF(t, i) values[n] = h[i], zeros[n++] = ir_number_like(t->b, h[i], 0);
    optim_branch_state(t, before, from, when, values, zeros, n);
    n = 0;
    EACH_LEAF(t, i) h[i] = values[n++];
}

/* The average of the diagonal takes a new estimate, every `update_interval` steps only. It has a branch of its own,
 * after the parameters have moved by what it was before: so it can be updated where it lies. */
static void update_diagonal(struct optim_transform *t, struct fe_term count, ir_value *nu)
{
    struct ir_builder *b = t->b;
    struct fe_term when = term_eq(b, term_rem(b, count, term_integer(arg(t, "update_interval")->integer)),
                                  term_integer(0));
    ir_value *h = optim_new_tree(t), *next = optim_new_tree(t), *old = optim_new_tree(t);
    uint32_t from, n = 0;
    estimate_diagonal(t, when, h);
    from = b->f->count;
    EACH_LEAF(t, i) old[n] = nu[i], next[n++] = moment(b, T(h[i]), T(nu[i]), number(t, "b2")).v;
    if (n) optim_branch(t, from, when, next, old, n);
    n = 0;
    EACH_LEAF(t, i) nu[i] = next[n++];
}

static void scale_by_sophia(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = counter(t, "count"), after = optim_increment(b, count), b1 = number(t, "b1"),
                   limit = number(t, "clip_threshold"), c = correction(b, b1, after);
    ir_value *mu = optim_tree(t, "mu", dtype_or(t, "mu_dtype"), zero), *nu = optim_tree(t, "nu", IR_TUPLE, zero),
             *u = optim_new_tree(t);
    EACH_LEAF(t, i) {
        mu[i] = moment(b, T(t->u[i]), T(mu[i]), b1).v;
        struct fe_term curvature = term_max(b, term_mul(b, number(t, "gamma"), T(nu[i])), number(t, "eps"));
        struct fe_term step = term_div(b, corrected(b, T(mu[i]), c), curvature);
        if (!absent(t, "clip_threshold")) step = term_min(b, term_max(b, step, term_neg(b, limit)), limit);
        u[i] = step.v;
    }
    update_diagonal(t, count, nu);
    EACH_LEAF(t, i) t->u[i] = u[i];
    optim_tree_set(t, "mu", mu);
    optim_tree_set(t, "nu", nu);
    optim_state_set(t, "count", after);
}

void transform_sophia(struct optim_transform *t)
{
    struct optim_transform first = *t;
    first.path = optim_path(t, "0");
    scale_by_sophia(&first);
    optim_chain(t, "add_decayed_weights(mask=weight_decay_mask) -> scale_by_learning_rate", 1);
}
