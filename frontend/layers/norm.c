/* layer_norm, rms_norm as flax.nnx.nn.normalization: statistics in float32 at least, the variance as E[x^2] - E[x]^2
 * clipped at 0 (fast) or E[(x - mean)^2]. */
#include "frontend/model.h"

static bool read_axes(struct fe_block *block, const struct fe_value *v, uint32_t rank, uint32_t *axes, uint32_t *count)
{
    struct fe_site at = block->site;
    int64_t list[IR_MAX_RANK] = {-1};
    *count = 1;
    if (v->given) {
        at.where.json = v->json;
        struct fe_val parsed = fe_literal(&at, v->json, NULL, false);
        if (parsed.bad || !fe_get_ints(&at, &parsed, list, IR_MAX_RANK, count, "axes")) return false;
    }
    for (uint32_t i = 0; i < *count; i++)
        if (!fe_get_axis(&at, list[i], rank, &axes[i])) return false;
    return true;
}

/* A parameter over the feature axes, with extent 1 elsewhere. */
static struct fe_val feature_param(struct fe_block *block, const char *name, const char *preset,
                                   const struct fe_value *init, const struct ir_type *t, const uint32_t *axes,
                                   uint32_t count)
{
    int64_t shape[IR_MAX_RANK], wide[IR_MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++) wide[i] = 1;
    for (uint32_t i = 0; i < count; i++) shape[i] = wide[axes[i]] = t->dim[axes[i]];
    struct fe_param p = {
        .type = ir_type_of(IR_F32, count, shape), .init = init->given ? init->json : NULL, .init_preset = preset};
    return fe_reshape_val(&block->site, fe_val_tensor(fe_block_param(block, name, p)), t->rank, wide);
}

enum { EPSILON, REDUCTION, FEATURE, USE_SCALE, SCALE_INIT, MASK, FAST, USE_BIAS, BIAS_INIT };

static struct fe_val normalise(struct fe_block *block, const struct fe_value *a, bool centred)
{
    struct fe_site *s = &block->site;
    uint32_t reduction[IR_MAX_RANK], feature[IR_MAX_RANK], reduction_count, feature_count;
    if (!fe_block_float_input(block, 0)) return fe_bad();
    struct fe_val x = block->in[0];
    struct ir_type t = fe_type_at(s, &x);
    if (!read_axes(block, &a[REDUCTION], t.rank, reduction, &reduction_count) ||
        !read_axes(block, &a[FEATURE], t.rank, feature, &feature_count))
        return fe_bad();
    struct fe_val scale = fe_none(), bias = fe_none(), mask = fe_none();
    if (a[USE_SCALE].boolean) scale = feature_param(block, "scale", "ones", &a[SCALE_INIT], &t, feature, feature_count);
    if (centred && a[USE_BIAS].boolean)
        bias = feature_param(block, "bias", "zeros", &a[BIAS_INIT], &t, feature, feature_count);
    if (a[MASK].given && !a[MASK].null) mask = fe_expr(s->fe, s->trace, a[MASK].json, block->env);
    if (scale.bad || bias.bad || mask.bad) return fe_bad();
    struct fe_reduce_options keep = {.keepdims = true, .where = &mask};
    struct fe_val wide = t.dtype == IR_F32 || t.dtype == IR_F64 ? x : fe_cast(s, x, IR_F32), mean = fe_none(), variance,
                  y = wide;
    struct fe_val square = fe_reduce(s, FE_RED_MEAN, fe_mul(s, wide, wide), reduction, reduction_count, &keep);
    if (!centred) variance = square;
    else {
        mean = fe_reduce(s, FE_RED_MEAN, wide, reduction, reduction_count, &keep);
        y = fe_sub(s, wide, mean);
        if (a[FAST].boolean) variance = fe_op2(s, OP_max, fe_float(0), fe_sub(s, square, fe_mul(s, mean, mean)));
        else variance = fe_reduce(s, FE_RED_MEAN, fe_mul(s, y, y), reduction, reduction_count, &keep);
    }
    struct fe_val factor = fe_op1(s, OP_rsqrt, fe_add(s, variance, fe_float(a[EPSILON].number)));
    if (!fe_is_none(&scale)) factor = fe_mul(s, factor, scale);
    y = fe_mul(s, y, factor);
    if (!fe_is_none(&bias)) y = fe_add(s, y, bias);
    if (y.bad) return y;
    /* The result has the common dtype of input and parameters. */
    struct fe_kind_of k = {(enum ir_dtype)t.dtype, false};
    if (!fe_is_none(&scale)) k = fe_promote(k, fe_kind(s, &scale));
    if (!fe_is_none(&bias)) k = fe_promote(k, fe_kind(s, &bias));
    return fe_cast(s, y, k.dtype);
}

static struct fe_val apply_layer_norm(struct fe_block *block, const struct fe_value *a)
{
    return normalise(block, a, true);
}
static struct fe_val apply_rms_norm(struct fe_block *block, const struct fe_value *a)
{
    return normalise(block, a, false);
}

#define COMMON                                                                                                         \
    {"epsilon", FE_NUMBER, FE_NOT_NEGATIVE, "1e-6", NULL}, {"reduction_axes", FE_ANY, 0, "-1", NULL},                  \
        {"feature_axes", FE_ANY, 0, "-1", NULL}, {"use_scale", FE_BOOL, 0, "true", NULL},                              \
        {"scale_init", FE_OBJECT, 0, "{\"type\": \"ones\"}", NULL}, {"mask", FE_EXPR, FE_NULLABLE, "null", NULL},      \
    {                                                                                                                  \
        "use_fast_variance", FE_BOOL, 0, "true", NULL                                                                  \
    }
static const struct fe_arg layer_args[] = {
    COMMON, {"use_bias", FE_BOOL, 0, "true", NULL}, {"bias_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL}};
static const struct fe_arg rms_args[] = {COMMON};
const struct fe_layer fe_layer_layer_norm = {"layer_norm", layer_args, sizeof layer_args / sizeof *layer_args, 1,
                                             apply_layer_norm};
const struct fe_layer fe_layer_rms_norm = {"rms_norm", rms_args, sizeof rms_args / sizeof *rms_args, 1, apply_rms_norm};
