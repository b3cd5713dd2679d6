/* Optimizers around optimizers: sharpness-aware minimization and Mechanic. Formulas are those of optax.contrib. */
#include "frontend/optim/optim.h"
#include <math.h>

/* ---------------------------------------------------------------- SAM (Foret et al. 2021) */

/* Runs an inner optimizer. SAM and lookahead hand on gradients and parameters alone. */
static void run_inner(struct optim_transform *t, const char *argument, const char *state, ir_value *u,
                      const ir_value *p)
{
    fe_json inner = arg(t, argument)->json;
    const char *path = optim_path(t, state);
    if (t->row->rule == transform_mechanize) optim_apply(t->o, inner, path, u, p);
    else optim_apply_without_value(t->o, inner, t->row->name, path, u, p);
}

static ir_value *negated(struct optim_transform *t, const ir_value *x)
{
    ir_value *y = optim_new_tree(t);
    EACH_LEAF(t, i) y[i] = term_neg(t->b, T(x[i])).v;
    return y;
}

static void copy_tree(struct optim_transform *t, ir_value *to, const ir_value *from)
{
    for (uint32_t i = 0; i < t->count; i++) to[i] = t->u[i] ? from[i] : 0;
}

/* All in one step: uphill by the adversary, then the optimizer's update for the gradient found there. */
static void sam_opaque(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    const char *adv = optim_path(t, "adv_state");
    if (!optim_at_most(t, "sync_period", 100)) return; /* its steps are unrolled */
    ir_value *u = optim_new_tree(t), *p = optim_new_tree(t);
    copy_tree(t, u, t->u);
    copy_tree(t, p, t->p);
    for (int64_t k = 1; k < arg(t, "sync_period")->integer; k++) {
        run_inner(t, "adv_optimizer", "adv_state", u, p);
        ir_value *up = negated(t, u);
        EACH_LEAF(t, i) p[i] = term_cast_like(b, term_add(b, T(p[i]), T(up[i])), T(p[i])).v;
        ir_value *grads = optim_new_tree(t);
        if (!optim_gradient_at(t, p, grads)) return;
        copy_tree(t, u, grads);
    }
    if (flag(t, "reset_state")) optim_reset(t->o, adv, T(ir_scalar(b, IR_BOOL, 1)));
    run_inner(t, "optimizer", "opt_state", u, t->p);
    copy_tree(t, t->u, u);
}

/* Over sync_period steps: the parameters move uphill; the last step jumps back and takes the optimizer's update. */
static void sam_transparent(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    const char *adv = optim_path(t, "adv_state"), *opt = optim_path(t, "opt_state");
    struct fe_term steps = counter(t, "steps_since_sync"), period = term_integer(arg(t, "sync_period")->integer),
                   one = term_integer(1);
    struct fe_term begin = term_eq(b, steps, term_integer(0)), last = term_eq(b, steps, term_sub(b, period, one));
    ir_value *old = optim_first_params(t, "cache", IR_TUPLE), *cache = optim_new_tree(t),
             *before = optim_snapshot(t->o);
    ir_value *up = optim_new_tree(t), *down = optim_new_tree(t);
    copy_tree(t, up, t->u);
    copy_tree(t, down, t->u);
    run_inner(t, "adv_optimizer", "adv_state", up, t->p);
    run_inner(t, "optimizer", "opt_state", down, old);
    up = negated(t, up);
    optim_select(t->o, opt, last, before);
    if (flag(t, "reset_state")) optim_reset(t->o, adv, last);
    else optim_select(t->o, adv, term_not(b, last), before);
    EACH_LEAF(t, i) {
        struct fe_term back = term_add(b, term_sub(b, T(old[i]), T(t->p[i])), T(down[i]));
        cache[i] = picked(t, begin, T(t->p[i]), T(old[i])).v;
        t->u[i] = picked(t, last, back, T(up[i])).v;
    }
    optim_tree_set(t, "cache", cache);
    optim_state_set(t, "steps_since_sync", term_rem(b, term_add(b, steps, one), period));
}

void transform_sam(struct optim_transform *t)
{
    if (flag(t, "opaque_mode")) sam_opaque(t);
    else sam_transparent(t);
}

/* ---------------------------------------------------------------- lookahead (Zhang et al. 2019) */

/* The parameters are the fast ones; every sync_period steps the slow ones follow them a part of the way, and the fast
 * ones go there. */
void transform_lookahead(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term steps = counter(t, "steps_since_sync"), period = term_integer(arg(t, "sync_period")->integer),
                   one = term_integer(1);
    struct fe_term sync = term_eq(b, steps, term_sub(b, period, one)), part = number(t, "slow_step_size");
    ir_value *slow = optim_copies(t, "slow");
    run_inner(t, "fast_optimizer", "fast_state", t->u, t->p);
    if (flag(t, "reset_state")) optim_reset(t->o, optim_path(t, "fast_state"), sync);
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), diff = term_sub(b, term_add(b, T(t->p[i]), u), T(slow[i]));
        diff = sent_or_zero(t, sync, diff);
        slow[i] = term_add(b, T(slow[i]), term_mul(b, part, diff)).v;
        t->u[i] = term_sub(b, u, term_mul(b, term_sub(b, one, part), diff)).v;
    }
    optim_copies_set(t, "slow", slow);
    optim_state_set(t, "steps_since_sync", term_rem(b, term_add(b, steps, one), period));
}

/* ---------------------------------------------------------------- Mechanic (Cutkosky et al. 2023) */

void transform_mechanize(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    int64_t n = arg(t, "num_betas")->integer;
    if (!optim_at_most(t, "num_betas", 1000)) return;
    const struct ir_type exact = ir_type_of(IR_F32, 1, &n), vector = ir_type_of(optim_lowest(t), 1, &n);
    struct fe_term eps = number(t, "eps"), s_init = number(t, "s_init"), count = counter(t, "count"),
                   none = term_number(0);
    float *list = arena_new_array(t->fe->arena, float, n);
    for (int64_t i = 0; i < n; i++) list[i] = (float)(1 - pow(0.1, (double)(i + 1)));
    struct fe_term betas = T(ir_cast(b, ir_constant(b, exact, list), optim_lowest(t))),
                   m = optim_state(t, "m", vector, zero), v = optim_state(t, "v", vector, zero);
    struct fe_term r = optim_state(t, "r", vector, zero),
                   s = optim_state(t, "s", vector, (struct optim_start){.number = arg(t, "s_init")->number});
    ir_value *x0 = optim_tree(t, "x0", IR_TUPLE, zero);
    EACH_LEAF(t, i) x0[i] = term_where(b, term_eq(b, count, term_integer(0)), T(t->p[i]), T(x0[i])).v;
    optim_tree_set(t, "x0", x0);

    struct fe_term sum = term_sum(b, s), grad_norm = term_sqrt(b, optim_square_sum(t, t->u)),
                   param_norm = term_sqrt(b, optim_square_sum(t, t->p));
    struct fe_term decay = term_mul(b, term_mul(b, number(t, "weight_decay"), sum), grad_norm);
    decay = term_div(b, decay, term_add(b, param_norm, eps));
    ir_value *g = optim_new_tree(t), *previous = optim_new_tree(t), *delta = optim_new_tree(t);
    EACH_LEAF(t, i) {
        g[i] = term_add(b, T(t->u[i]), term_mul(b, decay, T(t->p[i]))).v;
        previous[i] = term_div(b, term_sub(b, T(x0[i]), T(t->p[i])), term_add(b, sum, eps)).v;
    }
    run_inner(t, "base_optimizer", "base_optimizer_state", t->u, t->p);
    EACH_LEAF(t, i) delta[i] = term_sub(b, T(previous[i]), T(t->u[i])).v;

    struct fe_term h = optim_dot(b, t->count, g, previous), clipped = term_min(b, term_max(b, h, term_neg(b, m)), m);
    m = term_max(b, term_mul(b, betas, m), term_add(b, term_abs(b, h), eps));
    v = term_add(b, term_mul(b, term_square(b, betas), v), term_square(b, h));
    r = term_add(b, term_mul(b, betas, r), term_mul(b, clipped, s));
    struct fe_term wealth = term_add(b, term_mul(b, term_div(b, s_init, term_integer(n)), m), term_max(b, none, r));
    s = term_div(b, wealth, term_add(b, term_sqrt(b, v), eps));
    optim_state_set(t, "m", m);
    optim_state_set(t, "v", v);
    optim_state_set(t, "r", r);
    optim_state_set(t, "s", s);
    optim_state_set(t, "count", optim_increment(b, count));
    struct fe_term rate = term_sum(b, s);
    EACH_LEAF(t, i) {
        struct fe_term x = term_sub(b, T(x0[i]), term_mul(b, rate, T(delta[i])));
        t->u[i] = term_sub(b, x, T(t->p[i])).v;
    }
}

/* ---------------------------------------------------------------- all parameters as one vector */

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

void optim_split(struct optim_transform *t, ir_value whole, ir_value *leaves)
{
    static const int64_t step = 1;
    uint32_t *order = arena_new_array(t->fe->arena, uint32_t, t->count + 1), n = 0;
    int64_t at = 0;
    EACH_LEAF(t, i) order[optim_rank(t, i)] = i, n++;
    for (uint32_t k = 0; k < n; k++) {
        const struct ir_type type = *ir_type(t->b->f, t->u[order[k]]);
        int64_t end = at + ir_type_elements(&type);
        leaves[order[k]] = ir_reshape(t->b, ir_slice(t->b, whole, &at, &end, &step), type.rank,
                                      type.dim); /* of the vector's dtype */
        at = end;
    }
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
    ir_value u[2] = {joined(t, t->u, dtype)}, p[2] = {joined(t, t->p, dtype)};
    struct fe_optim_state outer = *o;
    o->count = 1, o->params = &one, o->grads = u, o->trained = p, o->value_and_grad = no_loss;
    if (!o->outside) o->outside = t, o->outside_params = outer.params;
    optim_apply(o, arg(t, "inner")->json, t->path, u, p);
    o->count = outer.count, o->params = outer.params, o->grads = outer.grads, o->trained = outer.trained;
    o->outside = outer.outside, o->outside_params = outer.outside_params, o->value_and_grad = outer.value_and_grad;
    optim_split(t, u[0], t->u);
}
