/* Transformations without state per parameter: scaling, decay, clipping, norms. Formulas are those of
 * optax._src.transform and optax.transforms (clipping, adding, constraining). */
#include "frontend/optim/optim.h"

void transform_identity(struct optim_transform *t) { (void)t; }

void transform_set_to_zero(struct optim_transform *t)
{
    EACH_LEAF(t, i) t->u[i] = ir_number_like(t->b, t->u[i], 0);
}

void transform_scale(struct optim_transform *t)
{
    EACH_LEAF(t, i) t->u[i] = term_mul(t->b, number(t, "step_size"), T(t->u[i])).v;
}

/* Multiplies by sign * schedule(count), cast to the update's dtype. */
static void by_schedule(struct optim_transform *t, const char *name, int sign)
{
    struct ir_builder *b = t->b;
    struct fe_term count = counter(t, "count"), rate = T(fe_schedule(t->fe, b, arg(t, name), count.v));
    rate = term_mul(b, term_integer(sign), rate);
    EACH_LEAF(t, i) t->u[i] = term_mul(b, term_cast_like(b, rate, T(t->u[i])), T(t->u[i])).v;
    optim_state_set(t, "count", optim_increment(b, count));
}

void transform_scale_by_schedule(struct optim_transform *t) { by_schedule(t, "step_size_fn", 1); }

void transform_scale_by_learning_rate(struct optim_transform *t)
{
    int sign = flag(t, "flip_sign") ? -1 : 1;
    if (absent(t, "learning_rate")) return;
    if (optim_scheduled(t, "learning_rate")) {
        by_schedule(t, "learning_rate", sign);
        return;
    }
    struct fe_term rate = term_mul(t->b, term_integer(sign), number(t, "learning_rate"));
    EACH_LEAF(t, i) t->u[i] = term_mul(t->b, rate, T(t->u[i])).v;
}

void transform_scale_by_sign(struct optim_transform *t)
{
    EACH_LEAF(t, i) t->u[i] = ir_unary(t->b, OP_sign, t->u[i]);
}

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

/* ---------------------------------------------------------------- clipping */

void transform_clip(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term limit = number(t, "max_delta"), low = term_neg(b, limit);
    EACH_LEAF(t, i) t->u[i] = term_min(b, term_max(b, T(t->u[i]), low), limit).v;
}

void transform_clip_by_block_rms(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), rms = term_sqrt(b, term_mean(b, term_square(b, u)));
        t->u[i] = term_div(b, u, term_max(b, term_number(1), term_div(b, rms, number(t, "threshold")))).v;
    }
}

/* Below the limit the updates stay as they are; else divide first, then multiply. A NaN norm poisons everything. */
void transform_clip_by_global_norm(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term norm = term_sqrt(b, optim_square_sum(t, t->u)), limit = number(t, "max_norm"),
                   small = term_lt(b, norm, limit);
    if (t->o->example) { /* as one factor: then examples need not be there one by one (passes/ghost.c) */
        struct fe_term keep = term_where(b, small, term_number(1), term_div(b, limit, norm));
        EACH_LEAF(t, i) t->u[i] = term_mul(b, term_cast_like(b, keep, T(t->u[i])), T(t->u[i])).v;
        return;
    }
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), clipped = term_mul(b, term_div(b, u, term_cast_like(b, norm, u)), limit);
        t->u[i] = term_where(b, small, u, clipped).v;
    }
}

/* ---------------------------------------------------------------- norms */

static struct fe_term norm(struct ir_builder *b, struct fe_term x)
{
    return term_sqrt(b, term_sum(b, term_square(b, x)));
}
static struct fe_term rms(struct ir_builder *b, struct fe_term x)
{
    return term_sqrt(b, term_mean(b, term_square(b, x)));
}

/* max(n, least), where NaN stays */
static struct fe_term at_least(struct ir_builder *b, struct fe_term n, struct fe_term least)
{
    return term_where(b, term_le(b, n, least), term_cast_like(b, least, n), n);
}

void transform_scale_by_trust_ratio(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term least = number(t, "min_norm"), none = term_number(0);
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), pn = at_least(b, norm(b, T(t->p[i])), least),
                       un = at_least(b, norm(b, u), least);
        struct fe_term ratio = term_div(b, term_mul(b, number(t, "trust_coefficient"), pn),
                                        term_add(b, un, number(t, "eps")));
        struct fe_term either = term_or(b, term_eq(b, pn, none), term_eq(b, un, none));
        t->u[i] = term_mul(b, u, term_where(b, either, term_number(1), ratio)).v;
    }
}

void transform_scale_by_param_block_norm(struct optim_transform *t)
{
    EACH_LEAF(t, i)
        t->u[i] = term_mul(t->b, T(t->u[i]), at_least(t->b, norm(t->b, T(t->p[i])), number(t, "min_scale"))).v;
}

void transform_scale_by_param_block_rms(struct optim_transform *t)
{
    EACH_LEAF(t, i)
        t->u[i] = term_mul(t->b, T(t->u[i]), at_least(t->b, rms(t->b, T(t->p[i])), number(t, "min_scale"))).v;
}

void transform_normalize_by_update_norm(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term n = term_add(b, term_sqrt(b, optim_square_sum(t, t->u)), number(t, "eps"));
    n = term_div(b, n, number(t, "scale_factor"));
    EACH_LEAF(t, i) t->u[i] = term_div(b, T(t->u[i]), n).v;
}

/* ---------------------------------------------------------------- constraints */

void transform_centralize(struct optim_transform *t)
{
    static const int64_t rest[IR_MAX_RANK] = {1, 2, 3, 4, 5, 6, 7}, first[1] = {0};
    struct ir_builder *b = t->b;
    EACH_LEAF(t, i) {
        const struct ir_type type = *ir_type(b->f, t->u[i]);
        if (type.rank < 2) continue;
        ir_value mean = term_mean_over(b, T(t->u[i]), rest, type.rank - 1u).v;
        t->u[i] = ir_binary(b, OP_sub, t->u[i], ir_broadcast(b, mean, type.rank, type.dim, first));
    }
}

void transform_zero_nans(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), nan = term_is_nan(b, u);
        const char *path = arena_format(t->fe->arena, "found_nan.%s", t->o->params[i].path);
        (void)optim_state(t, path, ir_type_scalar(IR_BOOL), zero);
        static const int64_t dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
        uint32_t rank = ir_type(b->f, nan.v)->rank;
        optim_state_set(t, path, rank ? T(ir_reduce(b, OP_reduce_max, nan.v, dims, rank)) : nan);
        t->u[i] = term_where(b, nan, term_number(0), u).v;
    }
}

void transform_keep_params_nonnegative(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), p = T(t->p[i]);
        t->u[i] = term_where(b, term_lt(b, term_add(b, p, u), term_number(0)), term_neg(b, p), u).v;
    }
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
