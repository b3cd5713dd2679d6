/* layer_norm, rms_norm, group_norm, instance_norm, batch_norm as flax.nnx.nn.normalization: statistics in float32 at
 * least, the variance as E[x^2] - E[x]^2 clipped at 0 (fast) or E[(x - mean)^2]; then (x - mean) * (rsqrt(variance +
 * epsilon) * scale) + bias. */
#include "frontend/model/block.h"
#include <string.h>

/* Arguments that all have, in this order; then those of each, which begin with the bias where there can be one. */
enum {
    EPSILON,
    USE_SCALE,
    SCALE_INIT,
    MASK,
    FAST,
    AXIS_NAME,
    AXIS_GROUPS,
    FEATURES,
    UNBIASED_OWN,
    USE_BIAS = UNBIASED_OWN,
    BIAS_INIT,
    OWN
};
#define COMMON(epsilon) \
    {"epsilon", FE_NUMBER, FE_NOT_NEGATIVE, epsilon, NULL}, {"use_scale", FE_BOOL, 0, "true", NULL}, \
        {"scale_init", FE_OBJECT, 0, "{\"type\": \"ones\"}", NULL}, {"mask", FE_EXPR, FE_NULLABLE, "null", NULL}, \
        {"use_fast_variance", FE_BOOL, 0, "true", NULL}, {"axis_name", FE_STRING, FE_NULLABLE, "null", NULL}, \
        {"axis_index_groups", FE_LIST, FE_NULLABLE, "null", NULL}, \
    { \
        "num_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL \
    }
#define BIAS \
    {"use_bias", FE_BOOL, 0, "true", NULL}, { "bias_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL }
#define AXES \
    {"reduction_axes", FE_ANY, 0, "-1", NULL}, { "feature_axes", FE_ANY, 0, "-1", NULL }

struct axes {
    uint32_t at[IR_MAX_RANK], count;
};

/* What a normalisation works on: the input, in float32 at least, and how its statistics are taken. */
struct norm {
    struct fe_block *block;
    const struct fe_value *args;
    struct fe_val x, wide, mask;
    struct ir_type type;
    struct axes reduced, features;
};

static bool has(const struct axes *a, uint32_t axis)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->at[i] == axis) return true;
    return false;
}

static bool read_axes(struct fe_block *block, const struct fe_value *v, uint32_t rank, struct axes *axes)
{
    struct fe_site at = block->site;
    int64_t list[IR_MAX_RANK] = {-1};
    axes->count = 1;
    if (v->given) {
        at.where.json = v->json;
        struct fe_val parsed = fe_literal(&at, v->json, NULL, false);
        if (parsed.bad || !fe_get_ints(&at, &parsed, list, IR_MAX_RANK, &axes->count, "axes")) return false;
    }
    for (uint32_t i = 0; i < axes->count; i++)
        if (!fe_get_axis(&at, list[i], rank, &axes->at[i])) return false;
    return true;
}

/* All axes from `first` on that are no features. */
static void reduce_others(struct norm *n, uint32_t first)
{
    n->reduced.count = 0;
    for (uint32_t i = first; i < n->type.rank; i++)
        if (!has(&n->features, i)) n->reduced.at[n->reduced.count++] = i;
}

static bool begin(struct norm *n, struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    *n = (struct norm){.block = block, .args = a, .mask = fe_none()};
    if (!fe_block_float_input(block, 0)) return false;
    n->x = block->in[0];
    n->type = fe_type_at(s, &n->x);
    if (a[AXIS_NAME].given && !a[AXIS_NAME].null &&
        strcmp(block->type, "batch_norm")) /* its statistics are those of all devices anyway */
        return fe_block_wrong(block, a[AXIS_NAME].json, "E0111", "\"axis_name\" of %s is not supported yet",
                              block->type);
    if (a[AXIS_GROUPS].given && !a[AXIS_GROUPS].null)
        return fe_block_wrong(block, a[AXIS_GROUPS].json, "E0111", "\"axis_index_groups\" is not supported yet");
    if (!n->type.rank)
        return fe_block_wrong(block, NULL, "E0212", "layer \"%s\" needs an input of rank 1 or more, found a scalar",
                              block->type);
    if (a[MASK].given && !a[MASK].null) n->mask = fe_expr(s->fe, s->trace, a[MASK].json, block->env);
    return !n->mask.bad;
}

/* Mean (centred) and variance over `axes` of x, with kept dimensions. */
static bool statistics(struct norm *n, struct fe_val x, const struct axes *axes, bool centred, struct fe_val *mean,
                       struct fe_val *variance)
{
    struct fe_site *s = &n->block->site;
    struct fe_reduce_options keep = {.keepdims = true, .where = &n->mask};
    bool fast = n->args[FAST].boolean;
    *mean = centred ? fe_reduce(s, FE_RED_MEAN, x, axes->at, axes->count, &keep) : fe_none();
    struct fe_val from = centred && !fast ? fe_sub(s, x, *mean) : x;
    *variance = fe_reduce(s, FE_RED_MEAN, fe_mul(s, from, from), axes->at, axes->count, &keep);
    if (centred && fast) *variance = fe_op2(s, OP_max, fe_float(0), fe_sub(s, *variance, fe_mul(s, *mean, *mean)));
    return !variance->bad && !mean->bad;
}

/* A parameter or statistic over the feature axes; *value has extent 1 elsewhere. */
static bool feature_param(struct norm *n, const char *name, const char *preset, const struct fe_value *init,
                          bool statistic, struct fe_val *value)
{
    int64_t shape[IR_MAX_RANK], wide[IR_MAX_RANK];
    for (uint32_t i = 0; i < n->type.rank; i++) wide[i] = 1;
    for (uint32_t i = 0; i < n->features.count; i++)
        shape[i] = wide[n->features.at[i]] = n->type.dim[n->features.at[i]];
    struct fe_param p = {.type = ir_type_of(IR_F32, n->features.count, shape),
                         .init = init && init->given ? init->json : NULL,
                         .init_preset = preset,
                         .statistic = statistic};
    const struct fe_value *given = &n->args[FEATURES];
    if (given->given && !given->null && given->integer != ir_type_elements(&p.type))
        return fe_block_wrong(n->block, given->json, "E0212", "%s expects %lld features, found %lld in %s",
                              n->block->type, (long long)given->integer, (long long)ir_type_elements(&p.type),
                              fe_describe(&n->block->site, &n->block->in[0]));
    *value = fe_reshape_val(&n->block->site, fe_val_tensor(fe_block_param(n->block, name, p)), n->type.rank, wide);
    return !value->bad;
}

static bool scale_and_bias(struct norm *n, bool with_bias, struct fe_val *scale, struct fe_val *bias)
{
    const struct fe_value *a = n->args; /* with a bias, if it has its arguments */
    *scale = *bias = fe_none();
    if (a[USE_SCALE].boolean && !feature_param(n, "scale", "ones", &a[SCALE_INIT], false, scale)) return false;
    return !with_bias || !a[USE_BIAS].boolean || feature_param(n, "bias", "zeros", &a[BIAS_INIT], false, bias);
}

/* Input, scale and bias, and running mean and variance if there are any, in the layer's dtype; for the statistics the
 * input is float32 at least. */
static bool promote(struct norm *n, struct fe_val *scale, struct fe_val *bias, struct fe_val *mean,
                    struct fe_val *variance)
{
    struct fe_val all[] = {n->x, *scale, *bias, mean ? *mean : fe_none(), variance ? *variance : fe_none()};
    fe_block_promote(n->block, all, 5);
    n->x = n->wide = all[0];
    *scale = all[1], *bias = all[2];
    if (mean) *mean = all[3], *variance = all[4];
    enum ir_dtype dtype = (enum ir_dtype)fe_type_at(&n->block->site, &n->x).dtype;
    if (ir_dtype_bytes(dtype) < 4) n->wide = fe_cast(&n->block->site, n->x, IR_F32);
    return !n->x.bad && !n->wide.bad;
}

static struct fe_val finish(struct norm *n, struct fe_val mean, struct fe_val variance, struct fe_val scale,
                            struct fe_val bias)
{
    struct fe_site *s = &n->block->site;
    struct fe_val factor = fe_op1(s, OP_rsqrt, fe_add(s, variance, fe_float(n->args[EPSILON].number)));
    struct fe_val y = fe_is_none(&mean) ? n->wide : fe_sub(s, n->wide, mean);
    if (!fe_is_none(&scale)) factor = fe_mul(s, factor, scale);
    y = fe_mul(s, y, factor);
    if (!fe_is_none(&bias)) y = fe_add(s, y, bias);
    return y.bad ? y : fe_cast(s, y, (enum ir_dtype)fe_type_at(s, &n->x).dtype);
}

/* ---------------------------------------------------------------- the layers */

/* `axes`: the arguments of the axes. */
static struct fe_val over_axes(struct fe_block *block, const struct fe_value *a, const struct fe_value *axes,
                               bool centred)
{
    struct norm n;
    struct fe_val scale, bias, mean, variance;
    if (!begin(&n, block, a) || !read_axes(block, &axes[0], n.type.rank, &n.reduced) ||
        !read_axes(block, &axes[1], n.type.rank, &n.features) || !scale_and_bias(&n, centred, &scale, &bias) ||
        !promote(&n, &scale, &bias, NULL, NULL) || !statistics(&n, n.wide, &n.reduced, centred, &mean, &variance))
        return fe_bad();
    return finish(&n, mean, variance, scale, bias);
}

static struct fe_val apply_layer_norm(struct fe_block *block, const struct fe_value *a)
{
    return over_axes(block, a, a + OWN, true);
}
static struct fe_val apply_rms_norm(struct fe_block *block, const struct fe_value *a)
{
    return over_axes(block, a, a + UNBIASED_OWN, false);
}

static struct fe_val apply_instance_norm(struct fe_block *block, const struct fe_value *a)
{
    struct norm n;
    struct fe_val scale, bias, mean, variance;
    if (!begin(&n, block, a) || !read_axes(block, &a[OWN], n.type.rank, &n.features)) return fe_bad();
    if (has(&n.features, 0))
        return fe_block_fail(block, a[OWN].json, "E0212", "the first axis is the batch and cannot hold features");
    reduce_others(&n, 1);
    if (!scale_and_bias(&n, true, &scale, &bias) || !promote(&n, &scale, &bias, NULL, NULL) ||
        !statistics(&n, n.wide, &n.reduced, true, &mean, &variance))
        return fe_bad();
    return finish(&n, mean, variance, scale, bias);
}

/* Statistics of groups [.., groups, 1] for every feature. NNX repeats along the second of the axes that are left, which
 * is that of the groups unless `reduction_axes` leave more: then features get other groups' statistics, here as there.
 */
static struct fe_val spread_groups(struct norm *n, struct fe_val v, const struct ir_type *spread,
                                   const struct ir_type *kept)
{
    struct fe_site *s = &n->block->site;
    uint32_t rank = n->type.rank, left = 0;
    int64_t shape[IR_MAX_RANK];
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (!has(&n->reduced, i)) shape[left++] = n->type.dim[i];
    shape[left++] = spread->dim[rank - 1];
    if (left <= 2) return fe_reshape_val(s, fe_broadcast_val(s, v, rank + 1, spread->dim), rank, kept->dim);
    struct fe_val all = FE_APPLY(s, "repeat", fe_reshape_val(s, v, left, shape), fe_int((double)spread->dim[rank]),
                                 fe_int(1));
    return all.bad ? all : fe_reshape_val(s, all, rank, kept->dim);
}

/* The last axis is split into groups; statistics over a group and the axes between batch and features. */
static struct fe_val apply_group_norm(struct fe_block *block, const struct fe_value *a)
{
    enum { GROUPS = OWN, SIZE, REDUCED };
    struct norm n;
    struct fe_site *s = &block->site;
    struct fe_val scale, bias, mean, variance;
    if (!begin(&n, block, a)) return fe_bad();
    uint32_t rank = n.type.rank;
    int64_t features = n.type.dim[rank - 1], size = a[SIZE].null ? 0 : a[SIZE].integer;
    int64_t groups = size ? (features % size ? 0 : features / size) : a[GROUPS].null ? 0 : a[GROUPS].integer;
    if (size && !a[GROUPS].null && a[GROUPS].given)
        return fe_block_fail(block, NULL, "E0103", "group_norm has \"num_groups\" or \"group_size\", not both");
    if (groups < 1 || features % groups)
        return fe_block_fail(block, NULL, "E0212", "group_norm: %lld features cannot be divided into %s%lld",
                             (long long)features,
                             size ? "groups of " : "groups: ", (long long)(size ? size : a[GROUPS].integer));
    if (rank == IR_MAX_RANK)
        return fe_block_fail(block, NULL, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
    n.features = (struct axes){{rank - 1}, 1};
    reduce_others(&n, 1);
    if (a[REDUCED].given && !a[REDUCED].null && !read_axes(block, &a[REDUCED], rank, &n.reduced)) return fe_bad();
    struct axes grouped = {.count = 0};
    for (uint32_t i = 0; i < n.reduced.count; i++)
        if (n.reduced.at[i] + 1 < rank) grouped.at[grouped.count++] = n.reduced.at[i];
    grouped.at[grouped.count++] = rank;
    struct ir_type t = n.type;
    t.dim[rank - 1] = groups;
    t.dim[rank] = features / groups;
    if (!fe_is_none(&n.mask)) {
        n.mask = fe_reshape_val(s, fe_broadcast_val(s, n.mask, n.type.rank, n.type.dim), rank + 1, t.dim);
    }
    if (!scale_and_bias(&n, true, &scale, &bias) || !promote(&n, &scale, &bias, NULL, NULL)) return fe_bad();
    if (!statistics(&n, fe_reshape_val(s, n.wide, rank + 1, t.dim), &grouped, true, &mean, &variance)) return fe_bad();
    /* [.., groups, 1] -> [.., features] */
    struct ir_type kept = fe_type_at(s, &mean), spread = kept;
    spread.dim[rank] = features / groups;
    kept.dim[rank - 1] = features;
    mean = spread_groups(&n, mean, &spread, &kept);
    variance = spread_groups(&n, variance, &spread, &kept);
    return finish(&n, mean, variance, scale, bias);
}

/* A running statistic: momentum * old + (1 - momentum) * batch, without a gradient. */
static void update_running(struct norm *n, const char *name, struct fe_val batch, double momentum)
{
    struct fe_site *s = &n->block->site;
    uint32_t index = map_get(&s->fe->state->by_path, fe_path_join(s->fe->arena, n->block->path, name));
    if (!s->trace->statistics || index == MAP_NONE) return;
    struct fe_val old = fe_val_tensor(s->trace->statistics[index] ? s->trace->statistics[index]
                                                                  : fe_trace_param(s->fe, s->trace, index));
    struct ir_type t = fe_type_at(s, &old);
    batch = fe_reshape_val(s, batch, t.rank, t.dim);
    struct fe_val next = fe_add(s, fe_mul(s, fe_float(momentum), old), fe_mul(s, fe_float(1 - momentum), batch));
    if (!next.bad) s->trace->statistics[index] = fe_stop(s, next).tensor;
}

static struct fe_val apply_batch_norm(struct fe_block *block, const struct fe_value *a)
{
    enum { RUNNING = OWN, AXIS, MOMENTUM };
    struct norm n;
    struct fe_val scale, bias, mean, variance, batch_mean, batch_variance;
    if (!begin(&n, block, a) || !read_axes(block, &a[AXIS], n.type.rank, &n.features)) return fe_bad();
    reduce_others(&n, 0);
    if (!feature_param(&n, "mean", "zeros", NULL, true, &mean) ||
        !feature_param(&n, "var", "ones", NULL, true, &variance))
        return fe_bad();
    if (!scale_and_bias(&n, true, &scale, &bias) || !promote(&n, &scale, &bias, &mean, &variance)) return fe_bad();
    if (a[RUNNING].boolean || !block->site.trace->train) return finish(&n, mean, variance, scale, bias);
    if (!statistics(&n, n.wide, &n.reduced, true, &batch_mean, &batch_variance)) return fe_bad();
    update_running(&n, "mean", batch_mean, a[MOMENTUM].number);
    update_running(&n, "var", batch_variance, a[MOMENTUM].number);
    return finish(&n, batch_mean, batch_variance, scale, bias);
}

static struct fe_val apply_prelu(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct fe_param p = {
        .type = ir_type_scalar(IR_F32), .init_preset = "constant", .init_value = a[0].number, .stream = FE_NO_DRAW};
    struct fe_val slope = fe_val_tensor(fe_block_param(block, "negative_slope", p)), x = block->in[0];
    if (slope.bad) return slope;
    struct fe_val both[] = {x, slope};
    if (block->compute != IR_TUPLE) fe_block_promote(block, both, 2);
    x = both[0];
    slope = fe_cast(s, both[1], (enum ir_dtype)fe_type_at(s, &x).dtype);
    return fe_where3(s, fe_binary(s, EXPR_OP_GE, x, fe_float(0)), x, fe_mul(s, slope, x));
}

static const struct fe_arg layer_args[] = {COMMON("1e-6"), BIAS, AXES, FE_DTYPE_ROWS};
static const struct fe_arg rms_args[] = {COMMON("1e-6"), AXES, FE_DTYPE_ROWS};
static const struct fe_arg instance_args[] = {
    COMMON("1e-6"), BIAS, {"feature_axes", FE_ANY, 0, "-1", NULL}, FE_DTYPE_ROWS};
static const struct fe_arg group_args[] = {COMMON("1e-6"),
                                           BIAS,
                                           {"num_groups", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "32", NULL},
                                           {"group_size", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
                                           {"reduction_axes", FE_ANY, FE_NULLABLE, "null", NULL},
                                           FE_DTYPE_ROWS};
static const struct fe_arg batch_args[] = {COMMON("1e-5"),
                                           BIAS,
                                           {"use_running_average", FE_BOOL, 0, "false", NULL},
                                           {"axis", FE_ANY, 0, "-1", NULL},
                                           {"momentum", FE_NUMBER, FE_UNIT_CLOSED, "0.99", NULL},
                                           FE_DTYPE_ROWS};
static const struct fe_arg prelu_args[] = {{"negative_slope_init", FE_NUMBER, 0, "0.01", NULL}, FE_DTYPE_ROWS};
#define LAYER(name, rows) \
    const struct fe_layer fe_layer_##name = {#name, rows, sizeof rows / sizeof *rows, 1, apply_##name}
LAYER(layer_norm, layer_args);
LAYER(rms_norm, rms_args);
LAYER(instance_norm, instance_args);
LAYER(group_norm, group_args);
LAYER(batch_norm, batch_args);
LAYER(prelu, prelu_args);
