/* Optimizers that are chains with a choice that a row of text cannot say, and the decay of weights, which they share.
 */
#include "frontend/optim/optim.h"
#include <string.h>

/* The decay of the leaves in the mask. A mask wraps the decay, so that its counter is an inner state. */
void transform_add_decayed_weights(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct optim_transform inner = *t;
    bool *in = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (!optim_mask(t, "mask", in)) return;
    if (!absent(t, "mask")) inner.path = optim_path(t, "inner_state");
    struct fe_term decay = number(t, "weight_decay");
    if (optim_scheduled(t, "weight_decay")) {
        struct fe_term count = counter(&inner, "count");
        decay = at_count(t, "weight_decay", count);
        optim_state_set(&inner, "count", optim_increment(b, count));
    }
    if (!decay.v && decay.number == 0) return;
    EACH_LEAF(t, i)
        if (in[i]) t->u[i] = term_add(b, T(t->u[i]), term_mul(b, decay, T(t->p[i]))).v;
}

void transform_adadelta(struct optim_transform *t)
{
    if (absent(t, "learning_rate") && strcmp(t->path, "opt_state") == 0) {
        struct diag *d = fe_warning(t->fe, t->json, "W0429", "adadelta without a learning rate ascends, as in Optax");
        d->hint = "\"learning_rate\": 1.0 descends";
    }
    optim_chain(t, "add_decayed_weights(mask=weight_decay_mask) -> scale_by_adadelta -> scale_by_learning_rate", 0);
}

void transform_adabelief(struct optim_transform *t)
{
    const char *name = optim_either(t, "mask", "weight_decay_mask");
    if (!name) return;
    optim_chain(t, "scale_by_belief", 0);
    bool decays = !absent(t, "weight_decay");
    if (decays) optim_chain(t, arena_format(t->fe->arena, "add_decayed_weights(mask=%s)", name), 1);
    optim_chain(t, "scale_by_learning_rate", decays ? 2 : 1);
}

void transform_rmsprop(struct optim_transform *t)
{
    optim_chain(t, flag(t, "centered") ? "scale_by_stddev" : "scale_by_rms", 0);
    optim_chain(t, "scale_by_learning_rate -> trace(decay=momentum)?momentum", 1);
}

void transform_optimistic_adam(struct optim_transform *t)
{
    optim_chain(t, "scale_by_adam", 0);
    optim_chain(t,
                absent(t, "optimism") ? "scale_by_optimistic_gradient(alpha=learning_rate,beta=learning_rate)"
                                      : "scale_by_optimistic_gradient(alpha=learning_rate,beta=optimism)",
                1);
    optim_chain(t, "scale_by_learning_rate(learning_rate=1.0)", 2);
}

void transform_adafactor(struct optim_transform *t)
{
    uint32_t n = 0;
    optim_chain(t, "scale_by_factored_rms(step_offset=decay_offset,epsilon=eps)", n++);
    if (!absent(t, "clipping_threshold")) optim_chain(t, "clip_by_block_rms(threshold=clipping_threshold)", n++);
    if (!absent(t, "learning_rate")) optim_chain(t, "scale_by_learning_rate(flip_sign=false)", n++);
    if (flag(t, "multiply_by_parameter_scale")) optim_chain(t, "scale_by_param_block_rms", n++);
    if (!absent(t, "momentum"))
        optim_chain(t, "ema(decay=momentum,debias=false,accumulator_dtype=dtype_momentum)", n++);
    if (!absent(t, "weight_decay_rate"))
        optim_chain(t, "add_decayed_weights(weight_decay=weight_decay_rate,mask=weight_decay_mask)", n++);
    optim_chain(t, "scale(step_size=-1.0)", n);
}

void transform_lars(struct optim_transform *t)
{
    bool *in = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (!optim_mask(t, "trust_ratio_mask", in)) return;
    optim_chain(t, "add_decayed_weights(mask=weight_decay_mask)", 0);
    struct optim_transform inner = *t;
    inner.u = optim_new_tree(t);
    EACH_LEAF(t, i) inner.u[i] = in[i] ? t->u[i] : 0;
    optim_chain(&inner, "scale_by_trust_ratio(min_norm=0.0)", 1);
    EACH_LEAF(t, i)
        if (in[i]) t->u[i] = inner.u[i];
    optim_chain(t, "scale_by_learning_rate -> trace(decay=momentum,accumulator_dtype=null)", 2);
}

/* ---------------------------------------------------------------- fromage */

/* The rate of a part, at the part's own counter. */
static struct fe_term own_rate(struct optim_transform *t, uint32_t part)
{
    struct optim_transform inner = *t;
    if (!optim_scheduled(t, "learning_rate")) return number(t, "learning_rate");
    inner.path = arena_format(t->fe->arena, "%s.%u", t->path, part);
    struct fe_term count = counter(&inner, "count"), rate = at_count(t, "learning_rate", count);
    optim_state_set(&inner, "count", optim_increment(t->b, count));
    return rate;
}

/* 1 / sqrt(1 + rate**2) */
static struct fe_term shrink(struct ir_builder *b, struct fe_term rate)
{
    struct fe_term one = term_integer(1);
    return term_div(b, one, term_sqrt(b, term_add(b, one, term_square(b, rate))));
}

/* A relative step, then the parameters shrink back to their norm (Bernstein et al. 2020). */
void transform_fromage(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    optim_chain(t, "scale_by_trust_ratio(eps=0.0)", 0);
    struct fe_term rate = own_rate(t, 1), decay = own_rate(t, 2);
    rate = term_neg(b, term_mul(b, shrink(b, rate), rate));
    decay = term_sub(b, shrink(b, decay), term_integer(1));
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]);
        t->u[i] = term_add(b, term_mul(b, term_cast_like(b, rate, u), u), term_mul(b, decay, T(t->p[i]))).v;
    }
}
