/* weight_norm and spectral_norm as flax.nnx: around a layer, whose weights are normalised before it uses them.
 *
 * In NNX the wrapper writes the normalised weights back into the layer. So a training step leaves them there: the
 * optimizer sees them as the parameters and adds its update to them, while the gradient is taken with respect to what
 * the weights were before. Outside of training nothing is written. */
#include "frontend/model/block.h"
#include <string.h>

/* What the parameter is in this trace: what an earlier use has left, or the parameter itself. */
static struct fe_val current(struct fe_block *block, uint32_t param, struct fe_val value)
{
    ir_value left = block->site.trace->statistics ? block->site.trace->statistics[param] : 0;
    return left ? fe_val_tensor(left) : value;
}

static void leave(struct fe_block *block, uint32_t param, struct fe_val value)
{
    if (block->site.trace->statistics && !value.bad) block->site.trace->statistics[param] = value.tensor;
}

static const char *path_of(const struct fe_block *block, uint32_t param)
{
    return block->site.fe->state->params.items[param].path;
}

/* x / sqrt(sum(x**2) + epsilon), summed over `axes` */
static struct fe_val unit(struct fe_site *s, struct fe_val x, const uint32_t *axes, uint32_t count, double epsilon)
{
    struct fe_val sum = fe_reduce(s, FE_RED_SUM, fe_mul(s, x, x), axes, count,
                                  &(struct fe_reduce_options){.keepdims = true});
    return sum.bad ? sum : fe_mul(s, x, fe_op1(s, OP_rsqrt, fe_add(s, sum, fe_float(epsilon))));
}

/* The wrapper's part of fe_weights: the layer inside is led through it. */
static struct fe_weights weights_of(struct fe_block *block, const struct fe_value *args, fe_json layer)
{
    struct fe *fe = block->site.fe;
    fe_json name = fe_member(fe, layer, "name");
    const char *segment = name && name->kind == JSON_STRING ? name->string : "layer_instance";
    return (struct fe_weights){.wrapper = block,
                               .args = args,
                               .outer = block->weights,
                               .inside = fe_path_join(fe->arena, block->path, segment)};
}

static struct fe_val wrap(struct fe_block *block, fe_json layer, const struct fe_weights *weights)
{
    struct fe_block parent = *block;
    parent.weights = weights;
    return fe_block_child(&parent, layer, "layer_instance", block->env, block->in, block->in_count);
}

/* IR_TUPLE: not given. */
static enum ir_dtype dtype_of(const struct fe_value *v) { return !v->given || v->null ? IR_TUPLE : v->dtype; }

static bool check_dtypes(struct fe_block *block, const struct fe_value *v, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (dtype_of(&v[i]) != IR_TUPLE && !ir_dtype_is_float(v[i].dtype))
            return fe_block_wrong(block, v[i].json, "E0213", "%s cannot be %s: weights are floating point", block->type,
                                  ir_dtype_name(v[i].dtype));
    return true;
}

/* ---------------------------------------------------------------- weight_norm (Salimans, Kingma 2016) */

enum { WN_LAYER, WN_AXES, WN_USE_SCALE, WN_SCALE_INIT, WN_EPSILON, WN_FILTER, WN_DTYPE, WN_PARAM_DTYPE, WN_ARGS };
static const struct fe_arg weight_norm_args[WN_ARGS] = {
    [WN_LAYER] = {"layer_instance", FE_OBJECT, FE_REQUIRED, NULL, NULL},
    [WN_AXES] = {"feature_axes", FE_NUMBERS, FE_NULLABLE, "-1", NULL},
    [WN_USE_SCALE] = {"use_scale", FE_BOOL, 0, "true", NULL},
    [WN_SCALE_INIT] = {"scale_init", FE_OBJECT, 0, "{\"type\": \"ones\"}", NULL},
    [WN_EPSILON] = {"epsilon", FE_NUMBER, FE_NOT_NEGATIVE, "1e-12", NULL},
    [WN_FILTER] = {"variable_filter", FE_PATTERNS, FE_NULLABLE, "null", NULL}, /* over the paths in the layer inside */
    [WN_DTYPE] = FE_DTYPE_ROW,
    [WN_PARAM_DTYPE] = FE_PARAM_DTYPE_ROW};

static bool has_segment(const char *path, const char *segment)
{
    size_t length = strlen(segment);
    for (; path; path = strchr(path, '.') ? strchr(path, '.') + 1 : NULL)
        if (!strncmp(path, segment, length) && (!path[length] || path[length] == '.')) return true;
    return false;
}

/* The weights that are normalised: those that the patterns match, or whose path has a segment "kernel". In NNX they
 * have the dtype of the wrapper from the first step on, or what promotes with the scale, which is float32. */
static bool weight_norm_changes(const struct fe_weights *w, const char *path, uint32_t rank, enum ir_dtype *stored)
{
    struct fe *fe = w->wrapper->site.fe;
    const struct fe_value *filter = &w->args[WN_FILTER];
    bool found = false;
    (void)rank;
    if (!filter->given || filter->null) found = has_segment(path, "kernel");
    else if (filter->json->kind != JSON_ARRAY) found = glob_match(filter->json->string, path);
    else
        for (fe_json p = fe_first(fe, filter->json); p && !found; p = fe_next(fe, p))
            found = glob_match(p->string, path);
    if (!found) return false;
    if (dtype_of(&w->args[WN_DTYPE]) != IR_TUPLE) *stored = dtype_of(&w->args[WN_DTYPE]);
    else if (w->args[WN_USE_SCALE].boolean) *stored = IR_F32;
    return true;
}

/* Kernels to length 1 (or the scale) over all axes but the feature axes (null: over all). */
static struct fe_val use_weight_norm(const struct fe_weights *w, struct fe_block *inside, uint32_t param,
                                     struct fe_val value)
{
    struct fe_site *s = &inside->site;
    const struct fe_value *feature = &w->args[WN_AXES];
    enum ir_dtype stored = (enum ir_dtype)fe_type_at(s, &value).dtype;
    if (!weight_norm_changes(w, fe_weights_inside(w, path_of(inside, param)), fe_rank(s, &value), &stored))
        return value;
    value = current(inside, param, value);
    uint32_t rank = fe_rank(s, &value), axes[IR_MAX_RANK], count = 0;
    bool kept[IR_MAX_RANK] = {0};
    for (uint32_t i = 0; !feature->null && i < (feature->json ? feature->rank : 1); i++) {
        double given = feature->json ? feature->numbers[i] : -1, axis = given < 0 ? given + rank : given;
        if (axis < 0 || axis >= rank || axis != (double)(uint32_t)axis)
            return fe_block_fail(w->wrapper, feature->json, "E0212",
                                 "axis %g is outside of the kernel, which has rank %u", given, (unsigned)rank);
        kept[(uint32_t)axis] = true;
    }
    for (uint32_t i = 0; i < rank; i++)
        if (!kept[i]) axes[count++] = i;
    value = unit(s, value, axes, count, w->args[WN_EPSILON].number);
    double scale = 1;
    if (w->args[WN_USE_SCALE].boolean && w->args[WN_SCALE_INIT].json)
        fe_initializer_constant(s->fe, w->args[WN_SCALE_INIT].json, &scale);
    if (scale != 1) value = value.bad ? value : fe_mul(s, value, fe_float(scale));
    if (!value.bad) value = fe_cast(s, value, stored);
    leave(inside, param, value);
    return value;
}

/* After the first trace: whether every pattern is of use. */
static bool patterns_match(struct fe_block *block, const struct fe_weights *w, uint32_t first)
{
    struct fe *fe = block->site.fe;
    fe_json list = w->args[WN_FILTER].json;
    if (!list || w->args[WN_FILTER].null) return true;
    for (fe_json p = list->kind == JSON_ARRAY ? fe_first(fe, list) : list; p;
         p = list->kind == JSON_ARRAY ? fe_next(fe, p) : NULL) {
        size_t count = fe->state->params.count, n = 0;
        const char **names = arena_new_array(fe->arena, const char *, count - first + 1);
        for (size_t i = first; i < count; i++)
            if (!fe->state->params.items[i].statistic)
                names[n++] = fe_weights_inside(w, fe->state->params.items[i].path);
        if (fe_pattern(fe, p, false, names, n)) continue;
        fe_suggest(fe, fe_error(fe, p, "E0405", "pattern \"%s\" matches no parameter of the layer inside", p->string),
                   p->string, names, n);
        return false;
    }
    return true;
}

static struct fe_val apply_weight_norm(struct fe_block *block, const struct fe_value *a)
{
    double scale;
    struct fe_state *state = block->site.fe->state;
    uint32_t first = (uint32_t)state->params.count;
    if (!check_dtypes(block, &a[WN_DTYPE], 2)) return fe_bad();
    fe_json init = a[WN_SCALE_INIT].json; /* NNX's scales are no parameters, and have no key to be drawn with */
    if (a[WN_USE_SCALE].boolean && init && !fe_initializer_constant(block->site.fe, init, &scale))
        return fe_block_fail(
            block, init, "E0103",
            "\"scale_init\" of weight_norm must be \"ones\", \"zeros\" or \"constant\": Flax NNX draws no scales");
    struct fe_weights weights = weights_of(block, a, a[WN_LAYER].json);
    weights.use = use_weight_norm;
    weights.changes = weight_norm_changes;
    struct fe_val y = wrap(block, a[WN_LAYER].json, &weights);
    return y.bad || state->declared || block->sharing || patterns_match(block, &weights, first) ? y : fe_bad();
}

/* ---------------------------------------------------------------- spectral_norm (Miyato et al. 2018) */

enum { SN_LAYER, SN_STEPS, SN_EPSILON, SN_UPDATE, SN_STRICT, SN_DTYPE, SN_PARAM_DTYPE, SN_ARGS };
static const struct fe_arg spectral_norm_args[SN_ARGS] = {
    [SN_LAYER] = {"layer_instance", FE_OBJECT, FE_REQUIRED, NULL, NULL},
    [SN_STEPS] = {"n_steps", FE_INTEGER, FE_NOT_NEGATIVE, "1", NULL},
    [SN_EPSILON] = {"epsilon", FE_NUMBER, FE_NOT_NEGATIVE, "1e-12", NULL},
    [SN_UPDATE] = {"update_stats", FE_BOOL, 0, "true", NULL},
    [SN_STRICT] = {"error_on_non_matrix", FE_BOOL, 0, "false", NULL},
    [SN_DTYPE] = FE_DTYPE_ROW,
    [SN_PARAM_DTYPE] = FE_PARAM_DTYPE_ROW};

/* The running value `name` of a parameter inside: batch_stats.<its path there>.<name>. */
static const char *running_path(const struct fe_weights *w, uint32_t param, const char *name)
{
    struct arena *arena = w->wrapper->site.fe->arena;
    const char *inside = fe_weights_inside(w, path_of(w->wrapper, param));
    return fe_path_join(arena, w->wrapper->path, arena_format(arena, "batch_stats.%s.%s", inside, name));
}

static uint32_t running(const struct fe_weights *w, uint32_t param, const char *name)
{
    return map_get(&w->wrapper->site.fe->state->by_path, running_path(w, param, name));
}

/* The weights keep their dtype; that of the wrapper is what they are rounded to. */
static bool spectral_norm_changes(const struct fe_weights *w, const char *path, uint32_t rank, enum ir_dtype *stored)
{
    (void)path, (void)stored;
    return rank > 1 && w->args[SN_STEPS].integer;
}

/* A matrix (what has more dimensions is reshaped to one of as many columns as the last has) over its largest singular
 * value, which a power iteration follows from step to step. */
static struct fe_val use_spectral_norm(const struct fe_weights *w, struct fe_block *inside, uint32_t param,
                                       struct fe_val value)
{
    struct fe_site *s = &inside->site;
    struct ir_type shape = fe_type_at(s, &value);
    if (shape.rank < 2 || !w->args[SN_STEPS].integer) return value;
    value = current(inside, param, value);
    uint32_t ui = running(w, param, "u"), si = running(w, param, "sigma");
    if (ui == MAP_NONE || si == MAP_NONE)
        return fe_block_fail(w->wrapper, NULL, "E0111",
                             "spectral_norm around a block that is shared from elsewhere is not supported yet (\"%s\")",
                             path_of(inside, param));
    double epsilon = w->args[SN_EPSILON].number;
    int64_t columns = shape.dim[shape.rank - 1], rows = columns ? ir_type_elements(&shape) / columns : 0;
    const uint32_t both[] = {0, 1}, swap[] = {1, 0};
    struct fe_val m = fe_reshape_val(s, value, 2, (int64_t[]){rows, columns}), sigma;
    struct fe_val u = current(inside, ui, fe_val_tensor(fe_trace_param(s->fe, s->trace, ui))), v = fe_none();
    for (int64_t i = 0; i < w->args[SN_STEPS].integer && !m.bad; i++) {
        v = unit(s, FE_APPLY(s, "matmul", u, fe_transpose_val(s, m, swap)), both, 2, epsilon);
        u = unit(s, FE_APPLY(s, "matmul", v, m), both, 2, epsilon);
    }
    if (m.bad || u.bad || v.bad) return fe_bad();
    u = fe_op1(s, OP_stop_gradient, u);
    v = fe_op1(s, OP_stop_gradient, v);
    sigma = FE_APPLY(s, "matmul", FE_APPLY(s, "matmul", v, m), fe_transpose_val(s, u, swap));
    sigma = fe_reshape_val(s, sigma, 0, NULL);
    if (sigma.bad) return sigma;
    enum ir_dtype kept = dtype_of(&w->args[SN_PARAM_DTYPE]), rounded = dtype_of(&w->args[SN_DTYPE]);
    if (w->args[SN_UPDATE].boolean) {
        leave(inside, ui, fe_cast(s, u, kept == IR_TUPLE ? IR_F32 : kept));
        leave(inside, si, fe_cast(s, sigma, kept == IR_TUPLE ? IR_F32 : kept));
    }
    struct fe_val divisor = fe_where3(s, fe_binary(s, EXPR_OP_NE, sigma, fe_float(0)), sigma, fe_float(1));
    value = fe_div(s, value, divisor);
    if (!value.bad && rounded != IR_TUPLE) value = fe_cast(s, value, rounded);
    if (!value.bad) value = fe_cast(s, value, (enum ir_dtype)shape.dtype);
    leave(inside, param, value);
    return value;
}

/* Whether path a comes before b: segment by segment, by their characters. */
static bool segments_before(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return (*a == '.' ? 1 : *a) < (*b == '.' ? 1 : *b);
}

/* After the first trace of the layer inside: the running values of its matrices, u with one more draw. */
static bool declare_running(struct fe_block *block, const struct fe_weights *w, uint32_t first)
{
    const struct fe_value *a = w->args;
    struct fe *fe = block->site.fe;
    uint32_t last = (uint32_t)fe->state->params.count, *order = arena_new_array(fe->arena, uint32_t, last - first + 1);
    if (!a[SN_STEPS].integer) return true;
    for (uint32_t i = first; i < last; i++) { /* NNX draws in the order of the paths */
        uint32_t at = i - first;
        for (; at && segments_before(path_of(block, i), path_of(block, order[at - 1])); at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t n = 0; n < last - first; n++) {
        uint32_t i = order[n];
        struct fe_param p = fe->state->params.items[i]; /* a copy: the vector grows */
        if (p.statistic || p.type.rank < 2) continue;
        if (p.type.rank > 2 && a[SN_STRICT].boolean)
            return fe_block_wrong(block, a[SN_STRICT].json, "E0202", "\"%s\" has rank %u and is no matrix", p.path,
                                  (unsigned)p.type.rank);
        enum ir_dtype dtype = dtype_of(&a[SN_PARAM_DTYPE]) == IR_TUPLE ? IR_F32 : dtype_of(&a[SN_PARAM_DTYPE]);
        struct fe_param u = {.path = running_path(w, i, "u"),
                             .type = ir_type_of(dtype, 2, (int64_t[]){1, p.type.dim[p.type.rank - 1]}),
                             .statistic = true,
                             .init_preset = "normal",
                             .init_value = 0.01};
        struct fe_param sigma = {.path = running_path(w, i, "sigma"),
                                 .type = ir_type_scalar(dtype),
                                 .statistic = true,
                                 .init_preset = "ones"};
        fe_draw(fe, "params", &u.stream, &u.draw);
        if (!fe_block_param(block, "", u) || !fe_block_param(block, "", sigma)) return false;
    }
    return true;
}

static struct fe_val apply_spectral_norm(struct fe_block *block, const struct fe_value *a)
{
    struct fe_state *state = block->site.fe->state;
    uint32_t first = (uint32_t)state->params.count;
    if (!check_dtypes(block, &a[SN_DTYPE], 2)) return fe_bad();
    if (a[SN_STEPS].integer > 100) /* they are unrolled */
        return fe_block_fail(block, a[SN_STEPS].json, "E0103", "\"n_steps\" must be at most 100, found %lld",
                             (long long)a[SN_STEPS].integer);
    struct fe_weights weights = weights_of(block, a, a[SN_LAYER].json);
    weights.use = use_spectral_norm;
    weights.changes = spectral_norm_changes;
    struct fe_val y = wrap(block, a[SN_LAYER].json, &weights);
    if (y.bad || state->declared || block->sharing) return y;
    return declare_running(block, &weights, first) ? y : fe_bad();
}

const struct fe_layer fe_layer_weight_norm = {"weight_norm", weight_norm_args, WN_ARGS, FE_MAX_INPUTS,
                                              apply_weight_norm};
const struct fe_layer fe_layer_spectral_norm = {"spectral_norm", spectral_norm_args, SN_ARGS, FE_MAX_INPUTS,
                                                apply_spectral_norm};
