/* Clips of the gradients of single examples, and the private mean of them (Abadi et al. 2016). */
#include "frontend/model/init.h"
#include "frontend/optim/optim.h"
#include <math.h>
#include <string.h>

/* g * min(1, limit / norm) for leaves; a norm of 0 under a limit of 0 changes nothing. */
void optim_clip_example(struct ir_builder *b, uint32_t count, const bool *leaves, struct fe_term limit, ir_value *u)
{
    struct fe_term one = term_number(1), sum = term_number(0);
    for (uint32_t i = 0; i < count; i++)
        if (u[i] && leaves[i]) sum = term_add(b, sum, term_dot(b, T(u[i]), T(u[i])));
    if (!sum.v) return;
    struct fe_term keep = term_min(b, term_div(b, limit, term_sqrt(b, sum)), one);
    keep = term_where(b, term_is_nan(b, keep), one, keep);
    for (uint32_t i = 0; i < count; i++)
        if (u[i] && leaves[i]) u[i] = term_mul(b, term_cast_like(b, keep, T(u[i])), T(u[i])).v;
}

static bool is_example(struct optim_transform *t)
{
    if (t->o->example) return true;
    fe_error(t->fe, t->json, "E0433",
             "\"%s\" clips the gradients of single examples: it stands in the \"transform\" of \"per_example\"",
             t->row->name);
    return false;
}

void transform_per_example_global_norm_clip(struct optim_transform *t)
{
    bool *leaves = arena_new_array(t->fe->arena, bool, t->count + 1);
    memset(leaves, true, t->count);
    if (is_example(t)) optim_clip_example(t->b, t->count, leaves, number(t, "l2_norm_clip"), t->u);
}

/* Every parameter by itself, to limits whose squares add up to the square of the whole limit (McMahan et al. 2017). */
void transform_per_example_layer_norm_clip(struct optim_transform *t)
{
    double layers = 0, elements = 0;
    bool *leaves = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (!is_example(t)) return;
    EACH_LEAF(t, i) layers++, elements += (double)ir_type_elements(&t->o->params[i].type);
    EACH_LEAF(t, i) {
        double share = flag(t, "uniform") ? 1 / layers : (double)ir_type_elements(&t->o->params[i].type) / elements;
        struct fe_term limit = term_mul(t->b, number(t, "global_l2_norm_clip"), term_number(sqrt(share)));
        leaves[i] = true;
        optim_clip_example(t->b, t->count, leaves, limit, t->u);
        leaves[i] = false;
    }
}

/* (sum of clipped gradients + clip * multiplier * N(0, 1)) / examples. The clipping happens where the gradients of the
 * examples are, so the updates must still be the gradients. */
void transform_differentially_private_aggregate(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    const struct fe_value *key = arg(t, "key"), *seed = arg(t, "seed");
    bool *leaves = arena_new_array(t->fe->arena, bool, t->count + 1), raw = t->o->clipped_sum && !t->o->outside;
    int64_t rows = 0;
    EACH_LEAF(t, i) leaves[i] = true, raw = raw && t->u[i] == t->o->grads[i];
    if (!key->null && !seed->null) {
        fe_error(t->fe, seed->json, "E0103", "\"key\" or \"seed\", not both");
        return;
    }
    if (!raw) {
        fe_error(t->fe, t->json, "E0433",
                 "\"%s\" clips the gradients of single examples: it must come first, outside of what changes or "
                 "collects gradients",
                 t->row->name);
        return;
    }
    struct fe_term clip = number(t, "l2_norm_clip"), scale = term_mul(b, clip, number(t, "noise_multiplier"));
    struct optim_clipped clipped = {clip, leaves};
    if (!t->o->clipped_sum(t->o, &clipped, t->u, &rows)) return;
    struct optim_key now = optim_carried_key(t, "rng_key", key->null ? seed->integer : key->integer);
    EACH_LEAF(t, i) {
        struct optim_key own = optim_leaf_key_from(t, now, i, 1);
        struct fe_term sum = T(t->u[i]), noise = T(fe_normal(b, own.word[0], own.word[1], &t->o->params[i].type));
        noise = term_mul(b, scale, term_cast_like(b, noise, sum));
        if (scale.v || scale.number != 0) sum = term_add(b, sum, noise);
        t->u[i] = term_div(b, sum, term_integer(rows)).v;
    }
}
