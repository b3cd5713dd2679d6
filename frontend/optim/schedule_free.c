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

/* max_lr**power as a part of the sum of all of them; 0 before there was a rate. */
static struct fe_term part_of_average(struct optim_transform *t, bool warms_up, struct fe_term *count)
{
    struct ir_builder *b = t->b;
    const struct ir_type scalar = ir_type_scalar(optim_lowest(t));
    *count = optim_state(t, "step_count", ir_type_scalar(IR_I32), (struct optim_start){.number = 1});
    struct fe_term most = optim_state(t, "max_lr", scalar, zero), sum = optim_state(t, "weight_sum", scalar, zero);
    most = term_max(b, most, term_cast(b, rate_at(t, *count, warms_up), (enum ir_dtype)scalar.dtype));
    struct fe_term weight = term_pow(b, most, number(t, "weight_lr_power"));
    sum = term_add(b, sum, weight);
    struct fe_term part = term_div(b, weight, sum), known = term_not(b, term_is_nan(b, sum));
    part = term_where(b, term_and(b, term_is_nan(b, part), known), term_number(0), part);
    optim_state_set(t, "max_lr", most);
    optim_state_set(t, "weight_sum", sum);
    optim_state_set(t, "step_count", optim_increment(b, *count));
    return part;
}

/* From the updates of the base optimizer, which are t->u, to those of the parameters. */
static void average(struct optim_transform *t, bool warms_up)
{
    struct ir_builder *b = t->b;
    struct fe_term count, part = part_of_average(t, warms_up, &count), one = term_integer(1), b1 = number(t, "b1");
    struct fe_term rest = term_sub(b, term_number(1), b1);
    ir_value *z = optim_first_params(t, "z", dtype_or(t, "state_dtype")), *x = optim_new_tree(t);
    EACH_LEAF(t, i) {
        struct fe_term p = T(t->p[i]), old = T(z[i]), new = term_cast_like(b, term_add(b, old, T(t->u[i])), old);
        struct fe_term before = term_div(b, term_sub(b, p, term_mul(b, rest, old)), b1);
        struct fe_term mean = term_add(b, term_mul(b, term_sub(b, one, part), before), term_mul(b, part, new));
        struct fe_term next = term_add(b, term_mul(b, b1, mean), term_mul(b, rest, new));
        z[i] = new.v;
        x[i] = mean.v;
        t->u[i] = term_sub(b, next, p).v;
    }
    optim_tree_set(t, "z", z);
    optim_copies_set(t, "eval", x);
}

void transform_schedule_free(struct optim_transform *t)
{
    optim_apply(t->o, arg(t, "base_optimizer")->json, optim_path(t, "base_optimizer_state"), t->u, t->p);
    average(t, false);
}

/* A chain of parts, then the learning rate with its warm-up. */
static void base(struct optim_transform *t, const char *chain, uint32_t rate_index)
{
    struct ir_builder *b = t->b;
    struct optim_transform inner = *t;
    inner.path = optim_path(t, "base_optimizer_state");
    optim_chain(&inner, chain, 0);
    if (absent(t, "warmup_steps")) {
        optim_chain(&inner, "scale_by_learning_rate", rate_index);
        return;
    }
    inner.path = arena_format(t->fe->arena, "%s.%u", inner.path, rate_index);
    struct fe_term count = counter(&inner, "count"), rate = term_neg(b, rate_at(t, count, true));
    EACH_LEAF(t, i) t->u[i] = term_mul(b, term_cast_like(b, rate, T(t->u[i])), T(t->u[i])).v;
    optim_state_set(&inner, "count", optim_increment(b, count));
}

void transform_schedule_free_sgd(struct optim_transform *t)
{
    base(t, "add_decayed_weights(mask=null)?weight_decay", 1);
    average(t, true);
}

void transform_schedule_free_adamw(struct optim_transform *t)
{
    base(t, "scale_by_rms(decay=b2,eps_in_sqrt=false,bias_correction=true) -> add_decayed_weights(mask=null)", 2);
    average(t, true);
}
