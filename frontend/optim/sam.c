/* Two sets of parameters: sharpness-aware minimization steps from the worst point nearby (Foret et al. 2021), lookahead
 * from slow parameters that follow (Zhang et al. 2019). Formulas are those of optax. */
#include "frontend/optim/optim.h"

/* Runs an inner optimizer: gradients and parameters alone are handed on. */
static void run_inner(struct optim_transform *t, const char *argument, const char *state, ir_value *u,
                      const ir_value *p)
{
    optim_apply_without_value(t->o, arg(t, argument)->json, t->row->name, optim_path(t, state), u, p);
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
    (void)counter(t, "steps_since_sync");              /* which Optax has and leaves at 0 */
    ir_value *u = optim_new_tree(t), *p = optim_new_tree(t), *before = optim_snapshot(t->o);
    int64_t period = arg(t, "sync_period")->integer;
    copy_tree(t, u, t->u);
    copy_tree(t, p, t->p);
    if (period == 1) { /* the adversary has a state, and takes no step */
        run_inner(t, "adv_optimizer", "adv_state", u, p);
        optim_select(t->o, adv, T(ir_scalar(b, IR_BOOL, 0)), before, false);
        copy_tree(t, u, t->u);
    }
    for (int64_t k = 1; k < period; k++) {
        run_inner(t, "adv_optimizer", "adv_state", u, p);
        ir_value *up = negated(t, u);
        EACH_LEAF(t, i) p[i] = term_cast_like(b, term_add(b, T(p[i]), T(up[i])), T(p[i])).v;
        ir_value *grads = optim_new_tree(t);
        if (!optim_gradient_at(t, p, grads)) return;
        copy_tree(t, u, grads);
    }
    if (flag(t, "reset_state")) optim_reset(t->o, adv, T(ir_scalar(b, IR_BOOL, 1)), false);
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
    bool passes = flag(t, "nan_passes");
    optim_select(t->o, opt, last, before, passes);
    if (flag(t, "reset_state")) optim_reset(t->o, adv, last, passes);
    else optim_select(t->o, adv, term_not(b, last), before, passes);
    EACH_LEAF(t, i) {
        struct fe_term back = term_add(b, term_sub(b, T(old[i]), T(t->p[i])), T(down[i]));
        cache[i] = picked(b, passes, begin, T(t->p[i]), T(old[i])).v;
        t->u[i] = picked(b, passes, last, back, T(up[i])).v;
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
    if (flag(t, "reset_state")) optim_reset(t->o, optim_path(t, "fast_state"), sync, flag(t, "nan_passes"));
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), diff = term_sub(b, term_add(b, T(t->p[i]), u), T(slow[i]));
        diff = sent_or_zero(t, sync, diff);
        slow[i] = term_add(b, T(slow[i]), term_mul(b, part, diff)).v;
        t->u[i] = term_sub(b, u, term_mul(b, term_sub(b, one, part), diff)).v;
    }
    optim_copies_set(t, "slow", slow);
    optim_state_set(t, "steps_since_sync", term_rem(b, term_add(b, steps, one), period));
}
