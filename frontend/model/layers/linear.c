/* linear, linear_general, einsum: products with a kernel, as flax.nnx.nn.linear. */
#include "frontend/model/block.h"
#include <string.h>

#define KERNEL_INITS \
    {"kernel_init", FE_OBJECT, 0, "{\"type\": \"lecun_normal\"}", NULL}, \
        {"bias_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL}, FE_PRODUCT_ROWS

static fe_json given(const struct fe_value *v) { return v->given && !v->null ? v->json : NULL; }

struct kernel {
    int64_t shape[IR_MAX_RANK];
    uint32_t rank;
    int64_t drawn[2];
};

/* Kernel, then bias (none if rank_bias is UINT32_MAX), promoted together with the input. */
static bool kernel_and_bias(struct fe_block *block, const struct kernel *k, const int64_t *bias_shape,
                            uint32_t bias_rank, const struct fe_value *inits, struct fe_val out[3])
{
    struct fe_param kernel = {
        .type = ir_type_of(IR_F32, k->rank, k->shape), .init = given(&inits[0]), .init_preset = "lecun_normal"};
    if (k->drawn[0]) {
        memcpy(kernel.init_shape, k->drawn, sizeof k->drawn);
        kernel.init_rank = 2;
    }
    out[0] = block->in[0];
    out[1] = fe_val_tensor(fe_block_param(block, "kernel", kernel));
    out[2] = fe_none();
    if (out[1].bad) return false;
    if (bias_shape) {
        struct fe_param bias = {
            .type = ir_type_of(IR_F32, bias_rank, bias_shape), .init = given(&inits[1]), .init_preset = "zeros"};
        out[2] = fe_val_tensor(fe_block_param(block, "bias", bias));
        if (out[2].bad) return false;
    }
    fe_block_promote(block, out, 3);
    return fe_block_wide_product(block, &inits[3], &out[0], &out[1]);
}

static struct fe_val apply_linear(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &block->in[0]);
    if (!t.rank)
        return fe_block_fail(block, NULL, "E0212", "layer \"linear\" needs an input of rank 1 or more, found a scalar");
    int64_t in = t.dim[t.rank - 1], features = a[0].integer;
    if (!a[1].null && a[1].integer != in)
        return fe_block_fail(block, a[1].json, "E0212", "linear expects %lld inputs, found %lld in %s",
                             (long long)a[1].integer, (long long)in, fe_describe(s, &block->in[0]));
    struct kernel k = {{in, features}, 2, {0}};
    struct fe_val v[3];
    if (!kernel_and_bias(block, &k, a[2].boolean ? &features : NULL, 1, a + 3, v)) return fe_bad();
    struct fe_val y = FE_APPLY(s, "matmul", v[0], v[1]);
    if (!fe_is_none(&v[2])) y = fe_add(s, y, v[2]);
    return fe_block_adapt(block, "", false, "...i,io->...o", v[0], v[1], y);
}

/* ---------------------------------------------------------------- linear_general */

static bool read_batch_axes(struct fe_block *block, fe_json map, uint32_t rank, uint32_t *axes, uint32_t *count,
                            const struct ir_type *t)
{
    struct fe *fe = block->site.fe;
    *count = 0;
    for (fe_json m = map ? fe_first(fe, map) : NULL; m; m = fe_next(fe, m)) {
        int64_t axis = 0, size;
        bool digits = *m->key != 0;
        for (const char *c = m->key + (*m->key == '-'); *c; c++) digits &= *c >= '0' && *c <= '9';
        if (digits && strlen(m->key) < 4)
            for (const char *c = m->key + (*m->key == '-'); *c; c++) axis = axis * 10 + (*c - '0');
        if (*m->key == '-') axis = -axis;
        if (!digits || axis < -(int64_t)rank || axis >= (int64_t)rank || *count == IR_MAX_RANK)
            return fe_wrong_key(fe, m, "E0212", "batch axis \"%s\" is outside a tensor of rank %u", m->key,
                                (unsigned)rank);
        if (!fe_integer(fe, m, &size)) return false;
        axes[*count] = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
        if (t->dim[axes[*count]] != size)
            return fe_wrong(fe, m, "E0212", "batch axis %s has %lld elements, found %lld", m->key, (long long)size,
                            (long long)t->dim[axes[*count]]);
        (*count)++;
    }
    return true;
}

/* An integer or a list of integers. */
static bool read_ints(struct fe_block *block, const struct fe_value *v, int64_t preset, int64_t *out, uint32_t *count)
{
    struct fe *fe = block->site.fe;
    *count = 0;
    if (!v->given) {
        out[(*count)++] = preset;
        return true;
    }
    if (v->json->kind != JSON_ARRAY) {
        *count = 1;
        return fe_integer(fe, v->json, out);
    }
    for (fe_json c = fe_first(fe, v->json); c; c = fe_next(fe, c)) {
        if (*count == IR_MAX_RANK) return fe_wrong(fe, v->json, "E0103", "at most %d integers expected", IR_MAX_RANK);
        if (!fe_integer(fe, c, &out[*count])) return false;
        (*count)++;
    }
    return true;
}

static bool contains(const uint32_t *list, uint32_t count, uint32_t x)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == x) return true;
    return false;
}

static struct fe_val apply_linear_general(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &block->in[0]);
    int64_t features[IR_MAX_RANK], given_axes[IR_MAX_RANK];
    uint32_t feature_count, axis_count, axes[IR_MAX_RANK], batch[IR_MAX_RANK], batch_count;
    if (!read_ints(block, &a[0], 0, features, &feature_count) || !read_ints(block, &a[1], -1, given_axes, &axis_count))
        return fe_bad();
    for (uint32_t i = 0; i < feature_count; i++)
        if (features[i] < 1)
            return fe_block_fail(block, a[0].json, "E0103", "\"features\" must be positive, found %lld",
                                 (long long)features[i]);
    for (uint32_t i = 0; i < axis_count; i++) {
        struct fe_site at = *s;
        if (a[1].json) at.where.json = a[1].json;
        if (!fe_get_axis(&at, given_axes[i], t.rank, &axes[i])) return fe_bad();
    }
    for (uint32_t i = 1; i < axis_count; i++) /* NNX: in the order of the input, whatever the order given */
        for (uint32_t j = i; j && axes[j - 1] > axes[j]; j--) {
            uint32_t swap = axes[j];
            axes[j] = axes[j - 1];
            axes[j - 1] = swap;
        }
    if (!read_batch_axes(block, a[2].null || !a[2].given ? NULL : a[2].json, t.rank, batch, &batch_count, &t))
        return fe_bad();
    for (uint32_t i = 0; i < axis_count; i++)
        if (contains(batch, batch_count, axes[i]) || contains(axes, i, axes[i]))
            return fe_block_fail(block, a[1].json, "E0212", "linear_general: axis %u stands twice", (unsigned)axes[i]);
    struct kernel k = {.rank = batch_count + axis_count + feature_count, .drawn = {1, 1}};
    if (k.rank > IR_MAX_RANK)
        return fe_block_fail(block, NULL, "E0103", "the kernel has more than %d dimensions", IR_MAX_RANK);
    int64_t bias[IR_MAX_RANK], rows = 1;
    for (uint32_t i = 0; i < batch_count; i++) {
        k.shape[i] = bias[i] = t.dim[batch[i]];
        rows *= k.shape[i];
    }
    for (uint32_t i = 0; i < axis_count; i++) k.drawn[0] *= k.shape[batch_count + i] = t.dim[axes[i]];
    for (uint32_t i = 0; i < feature_count; i++)
        k.drawn[1] *= k.shape[batch_count + axis_count + i] = bias[batch_count + i] = features[i];
    k.drawn[0] *= rows;
    struct fe_val v[3];
    if (!kernel_and_bias(block, &k, a[3].boolean ? bias : NULL, batch_count + feature_count, a + 4, v)) return fe_bad();
    /* Labels: a.. the input's dimensions, A.. the features. */
    struct str f = STR(s->fe->arena);
    for (uint32_t i = 0; i < t.rank; i++) str_addf(&f, "%c", 'a' + (int)i);
    str_add(&f, ",");
    for (uint32_t i = 0; i < batch_count; i++) str_addf(&f, "%c", 'a' + (int)batch[i]);
    for (uint32_t i = 0; i < axis_count; i++) str_addf(&f, "%c", 'a' + (int)axes[i]);
    for (uint32_t i = 0; i < feature_count; i++) str_addf(&f, "%c", 'A' + (int)i);
    str_add(&f, "->");
    uint32_t out_rank = 0, batch_at[IR_MAX_RANK];
    for (uint32_t i = 0; i < batch_count; i++) { /* NNX: batch dimensions lead */
        str_addf(&f, "%c", 'a' + (int)batch[i]);
        batch_at[i] = out_rank++;
    }
    for (uint32_t i = 0; i < t.rank; i++)
        if (!contains(batch, batch_count, i) && !contains(axes, axis_count, i)) {
            str_addf(&f, "%c", 'a' + (int)i);
            out_rank++;
        }
    for (uint32_t i = 0; i < feature_count; i++) str_addf(&f, "%c", 'A' + (int)i);
    out_rank += feature_count;
    const char *product = str_text(&f);
    struct fe_val y = fe_einsum(s, product, v, 2);
    if (fe_is_none(&v[2]) || y.bad) return fe_block_adapt(block, "", true, product, v[0], v[1], y);
    int64_t shape[IR_MAX_RANK];
    for (uint32_t i = 0; i < out_rank; i++) shape[i] = 1;
    for (uint32_t i = 0; i < batch_count; i++) shape[batch_at[i]] = bias[i];
    for (uint32_t i = 0; i < feature_count; i++) shape[out_rank - feature_count + i] = features[i];
    y = fe_add(s, y, fe_reshape_val(s, v[2], out_rank, shape));
    return fe_block_adapt(block, "", true, product, v[0], v[1], y);
}

/* ---------------------------------------------------------------- einsum */

/* The bias has the kernel's labels that reach the result, in the result's order. */
static struct fe_val einsum_bias(struct fe_block *block, struct fe_val y, struct fe_val bias, uint32_t kernel_rank,
                                 const char *formula)
{
    struct fe_site *s = &block->site;
    const char *comma = strchr(formula, ','), *arrow = strstr(formula, "->");
    struct ir_type t = fe_type_at(s, &y), tb = fe_type_at(s, &bias);
    const char *output = arrow + 2;
    uint32_t labels = 0, own = 0, next = 0, place = 0;
    int64_t shape[IR_MAX_RANK];
    for (const char *c = output; *c; c++) labels += *c >= 'A';
    for (const char *c = comma; c < arrow; c++) own += *c >= 'A';
    bool spread = memchr(comma, '.', (size_t)(arrow - comma)) && kernel_rank >= own;
    for (uint32_t i = 0; i < t.rank; i++) shape[i] = 1;
    for (const char *c = output; *c; c++) {
        bool dots = *c == '.';
        uint32_t wide = dots ? t.rank - labels : *c >= 'A', from = wide; /* an ellipsis stands for what has no label */
        if (dots) c += 2;
        if (dots && spread) from = wide - (kernel_rank - own < wide ? kernel_rank - own : wide);
        if (!dots && wide && memchr(comma, *c, (size_t)(arrow - comma))) from = 0;
        for (uint32_t i = from; i < wide; i++) {
            if (next == tb.rank || place + i >= t.rank || tb.dim[next] != t.dim[place + i])
                return fe_block_fail(block, NULL, "E0212", "einsum: bias %s does not fit the result %s",
                                     fe_describe(s, &bias), fe_describe(s, &y));
            shape[place + i] = tb.dim[next++];
        }
        place += wide;
    }
    if (next != tb.rank)
        return fe_block_fail(block, NULL, "E0212", "einsum: bias %s does not fit the result %s", fe_describe(s, &bias),
                             fe_describe(s, &y));
    return fe_add(s, y, fe_reshape_val(s, bias, t.rank, shape));
}

static struct fe_val apply_einsum(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    char *formula = arena_string(s->fe->arena, a[0].string), *to = formula;
    for (const char *c = a[0].string; *c; c++)
        if (*c != ' ') *to++ = *c;
    *to = 0;
    char *comma = strchr(formula, ','), *arrow = strstr(formula, "->");
    if (!comma || !arrow || comma > arrow || strchr(comma + 1, ','))
        return fe_block_fail(block, a[0].json, "E0103",
                             "\"einsum_str\" needs two operands and \"->\", such as \"ab,bc->ac\"");
    struct kernel k = {.rank = a[1].rank};
    memcpy(k.shape, a[1].shape, a[1].rank * sizeof k.shape[0]);
    struct fe_val v[3];
    bool bias = a[2].given && !a[2].null;
    if (!kernel_and_bias(block, &k, bias ? a[2].shape : NULL, a[2].rank, a + 3, v)) return fe_bad();
    struct fe_site at = *s;
    at.where.json = a[0].json;
    struct fe_val y = fe_einsum(&at, formula, v, 2);
    if (bias && !y.bad) y = einsum_bias(block, y, v[2], a[1].rank, formula);
    return fe_block_adapt(block, "", true, formula, v[0], v[1], y);
}

static const struct fe_arg linear_args[] = {{"features", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
                                            {"in_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
                                            {"use_bias", FE_BOOL, 0, "true", NULL},
                                            KERNEL_INITS,
                                            FE_DTYPE_ROWS};
static const struct fe_arg general_args[] = {{"features", FE_ANY, FE_REQUIRED, NULL, NULL},
                                             {"axis", FE_ANY, 0, "-1", NULL},
                                             {"batch_axis", FE_MAP, FE_NULLABLE, "null", NULL},
                                             {"use_bias", FE_BOOL, 0, "true", NULL},
                                             KERNEL_INITS,
                                             FE_DTYPE_ROWS};
static const struct fe_arg einsum_args[] = {{"einsum_str", FE_STRING, FE_REQUIRED, NULL, NULL},
                                            {"kernel_shape", FE_SHAPE, FE_REQUIRED, NULL, NULL},
                                            {"bias_shape", FE_SHAPE, FE_NULLABLE, "null", NULL},
                                            KERNEL_INITS,
                                            FE_DTYPE_ROWS};
#define COUNT(rows) (sizeof rows / sizeof *rows)
const struct fe_layer fe_layer_linear = {"linear", linear_args, COUNT(linear_args), 1, apply_linear};
const struct fe_layer fe_layer_linear_general = {"linear_general", general_args, COUNT(general_args), 1,
                                                 apply_linear_general};
const struct fe_layer fe_layer_einsum = {"einsum", einsum_args, COUNT(einsum_args), 1, apply_einsum};
