/* Schedule-free optimization (Defazio et al. 2024): the base optimizer moves z, x is the weighted average of z, and
 * the parameters, where gradients are taken, lie between both. The formulas are those of optax.contrib. */
#include "frontend/optim/optim.h"

/* The learning rate at a counter: with `warmup_steps` it rises linearly from 0 first. */
static struct fe_term rate_at(struct optim_transform *t, struct fe_term count, bool warms_up)
{
    struct ir_builder *b = t->b;
    if (!warms_up || absent(t, "warmup_steps")) return at_count(t, "learning_rate", count);
    int64_t steps = arg(t, "warmup_steps")->integer;
    struct fe_term peak = number(t, "learning_rate"), one = term_integer(1);
    if (steps <= 0) return term_number(0);
    struct fe_term done = term_div(b, term_min(b, count, term_integer(steps)), term_integer(steps));
    return term_add(b, term_mul(b, term_neg(b, peak), term_sub(b, one, done)), peak);
}

/* From the updates of the base optimizer, which are t->u, to those of the parameters. */
static void average(struct optim_transform *t, bool warms_up)
{
    struct fe_term *x = arena_new_array(t->fe->arena, struct fe_term, t->count + 1);
    const struct ir_type scalar = ir_type_scalar(optim_lowest(t));
    struct fe_term count = optim_state(t, "step_count", ir_type_scalar(IR_I32), (struct optim_start){.number = 1});
    (void)optim_state(t, "max_lr", scalar, zero);
    (void)optim_state(t, "weight_sum", scalar, zero);
    struct fe_term rate = rate_at(t, count, warms_up);
    ir_value *eval = optim_new_tree(t);
    optim_formula_given(t, "schedule_free", (const struct optim_given[]){{"rate", &rate, false}, {"x", x, true}, {0}});
    EACH_LEAF(t, i) eval[i] = x[i].v;
    optim_copies_set(t, "eval", eval);
}

void transform_schedule_free(struct optim_transform *t)
{
    optim_apply(t->o, arg(t, "base_optimizer")->json, optim_path(t, "base_optimizer_state"), t->u, t->p);
    average(t, false);
}

/* A chain of parts, then the learning rate with its warm-up, whose counter is at a place of Optax's chains. */
static void base(struct optim_transform *t, const char *chain, const char *rate_place)
{
    struct ir_builder *b = t->b;
    struct optim_transform inner = *t;
    inner.path = optim_path(t, "base_optimizer_state");
    optim_chain(&inner, chain, 0);
    if (absent(t, "warmup_steps")) {
        optim_chain(&inner, "scale_by_learning_rate", 0);
        return;
    }
    inner.path = arena_format(t->fe->arena, "%s.%s", inner.path, rate_place);
    struct fe_term count = counter(&inner, "count"), rate = term_neg(b, rate_at(t, count, true));
    EACH_LEAF(t, i) t->u[i] = term_mul(b, term_cast_like(b, rate, T(t->u[i])), T(t->u[i])).v;
    optim_state_set(&inner, "count", optim_increment(b, count));
}

void transform_schedule_free_sgd(struct optim_transform *t)
{
    base(t, "add_decayed_weights(mask=null)?weight_decay", absent(t, "weight_decay") ? "1" : "1.1");
    average(t, true);
}

void transform_schedule_free_adamw(struct optim_transform *t)
{
    base(t, "scale_by_rms(decay=b2,eps_in_sqrt=false,bias_correction=true) -> add_decayed_weights(mask=null)", "2");
    average(t, true);
}
