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
