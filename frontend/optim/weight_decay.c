/* The decay of weights, which many chains share (Loshchilov, Hutter 2019). */
#include "frontend/optim/optim.h"

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
