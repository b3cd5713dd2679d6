/* conv and conv_transpose as flax.nnx: [batch.., spatial.., in] with a kernel [spatial.., in / groups, out]. What
 * stands under each tap of the kernel is laid side by side, so that the convolution is one matrix product. */
#include "frontend/model/layers/window.h"
#include <string.h>

enum {
    FEATURES,
    IN,
    KERNEL,
    STRIDES,
    PADDING,
    KERNEL_DILATION,
    USE_BIAS,
    MASK,
    KERNEL_INIT,
    BIAS_INIT,
    PRECISION,
    PREFERRED,
    FIRST_OWN
};
#define COMMON \
    {"features", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL}, \
        {"in_features", FE_INTEGER, FE_NULLABLE | FE_POSITIVE, "null", NULL}, \
        {"kernel_size", FE_ANY, FE_REQUIRED, NULL, NULL}, {"strides", FE_ANY, FE_NULLABLE, "1", NULL}, \
        {"padding", FE_ANY, 0, "\"SAME\"", NULL}, {"kernel_dilation", FE_ANY, FE_NULLABLE, "1", NULL}, \
        {"use_bias", FE_BOOL, 0, "true", NULL}, {"mask", FE_EXPR, FE_NULLABLE, "null", NULL}, \
        {"kernel_init", FE_OBJECT, 0, "{\"type\": \"lecun_normal\"}", NULL}, \
        {"bias_init", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL}, FE_PRODUCT_ROWS

/* Kernel (times its mask) and bias, promoted with the input: v[0] input, v[1] kernel, v[2] bias or None. */
static bool parameters(struct fe_block *block, const struct fe_value *a, struct ir_type kernel_type, struct fe_val v[3])
{
    struct fe_site *s = &block->site;
    struct fe_param kernel = {
        .type = kernel_type, .init = a[KERNEL_INIT].given ? a[KERNEL_INIT].json : NULL, .init_preset = "lecun_normal"};
    struct fe_param bias = {.type = ir_type_of(IR_F32, 1, &a[FEATURES].integer),
                            .init = a[BIAS_INIT].given ? a[BIAS_INIT].json : NULL,
                            .init_preset = "zeros"};
    v[0] = block->in[0];
    v[1] = fe_val_tensor(fe_block_param(block, "kernel", kernel));
    v[2] = a[USE_BIAS].boolean && !v[1].bad ? fe_val_tensor(fe_block_param(block, "bias", bias)) : fe_none();
    if (v[1].bad || v[2].bad) return false;
    if (a[MASK].given && !a[MASK].null) {
        struct fe_val mask = fe_expr(s->fe, s->trace, a[MASK].json, block->env);
        struct ir_type tm = fe_type_at(s, &mask);
        if (mask.bad) return false;
        if (tm.rank != kernel_type.rank || memcmp(tm.dim, kernel_type.dim, sizeof tm.dim))
            return fe_block_wrong(block, a[MASK].json, "E0212", "the mask is %s, the kernel %s", fe_describe(s, &mask),
                                  fe_describe(s, &v[1]));
        v[1] = fe_mul(s, v[1], mask);
    }
    fe_block_promote(block, v, 3);
    return !v[0].bad && !v[1].bad && fe_block_wide_product(block, &a[PREFERRED], &v[0], &v[1]);
}

static bool begin(struct fe_block *block, const struct fe_value *a, struct fe_window *w, struct ir_type *t)
{
    struct fe_site *s = &block->site;
    *t = fe_type_at(s, &block->in[0]);
    if (!window_ints(block, &a[KERNEL], 1, 1, w->size, &w->rank)) return false;
    if (!w->rank) w->rank = 1;
    if (t->rank < w->rank + 1u)
        return fe_block_wrong(block, NULL, "E0212",
                              "%s with %u spatial axes needs an input of rank %u or more, found %s", block->type,
                              (unsigned)w->rank, (unsigned)w->rank + 1, fe_describe(s, &block->in[0]));
    w->first = t->rank - w->rank - 1u;
    int64_t in = t->dim[t->rank - 1];
    if (!a[IN].null && a[IN].integer != in)
        return fe_block_wrong(block, a[IN].json, "E0212", "%s expects %lld inputs, found %lld in %s", block->type,
                              (long long)a[IN].integer, (long long)in, fe_describe(s, &block->in[0]));
    if (fe_window_taps(w) > 4096)
        return fe_block_wrong(block, a[KERNEL].json, "E0103", "a kernel of more than 4096 taps is not supported yet");
    return window_per_axis(block, &a[STRIDES], 1, w->rank, w->stride) &&
           window_per_axis(block, &a[KERNEL_DILATION], 1, w->rank, w->dilation);
}

/* [32, 3, 224, 224]: as PyTorch has images. Said once, in the trace that declares the parameters. */
static void warn_of_channels(const struct fe_block *block, const struct fe_window *w, const struct ir_type *t)
{
    enum { MOST_CHANNELS = 4 };
    struct fe *fe = block->site.fe;
    bool first = w->rank > 1 && t->rank == w->rank + 2 && t->dim[1] <= MOST_CHANNELS && t->dim[2] > MOST_CHANNELS;
    for (uint32_t d = 3; d < t->rank; d++) first &= t->dim[d] == t->dim[2];
    if (!first || fe_state(fe)->declared) return;
    struct diag *d = fe_warning(fe, block->json, "W0211", "%s looks as if channels came first; here they are last",
                                ir_type_text(fe->arena, t));
    d->hint = w->rank == 2
                  ? "{\"type\": \"expr\", \"expr\": \"transpose(x, [0, 2, 3, 1])\"} before it, or images that lie so"
                  : "a transpose before it, or images that lie so";
}

static struct fe_val apply_conv(struct fe_block *block, const struct fe_value *a)
{
    enum { INPUT_DILATION = FIRST_OWN, GROUPS };
    struct fe_window w = {.what = block->type};
    struct ir_type t;
    struct fe_site *s = &block->site;
    struct fe_val v[3];
    if (!begin(block, a, &w, &t) || !window_per_axis(block, &a[INPUT_DILATION], 1, w.rank, w.input_dilation) ||
        !window_padding(block, &a[PADDING], "SAME", &w, &t))
        return fe_bad();
    warn_of_channels(block, &w, &t);
    int64_t in = t.dim[t.rank - 1], groups = a[GROUPS].integer, shape[IR_MAX_RANK];
    if (in % groups || a[FEATURES].integer % groups)
        return fe_block_fail(block, a[GROUPS].json, "E0212",
                             "%lld inputs and %lld features cannot be divided into %lld groups", (long long)in,
                             (long long)a[FEATURES].integer, (long long)groups);
    memcpy(shape, w.size, sizeof shape);
    shape[w.rank] = in / groups;
    shape[w.rank + 1] = a[FEATURES].integer;
    if (!parameters(block, a, ir_type_of(IR_F32, w.rank + 2, shape), v)) return fe_bad();
    struct fe_val y = fe_convolve(s, &w, v[0], v[1], groups);
    return fe_is_none(&v[2]) ? y : fe_add(s, y, v[2]);
}

/* lax.conv_transpose: the input is dilated by the strides; paddings are those of the forward convolution turned round.
 */
static bool transpose_padding(struct fe_block *block, const struct fe_value *v, struct fe_window *w,
                              const struct ir_type *t)
{
    bool named = !v->given || v->json->kind == JSON_STRING;
    const char *name = !v->given ? "SAME" : named ? v->json->string : "";
    if (!strcmp(name, "CIRCULAR")) name = "VALID", w->mode = "constant"; /* wrapped afterwards */
    else if (!window_padding(block, v, "SAME", w, t)) return false;
    if (named && strcmp(name, "SAME") && strcmp(name, "VALID"))
        return fe_block_wrong(block, v->json, "E0103",
                              "conv_transpose: padding is \"SAME\", \"VALID\", \"CIRCULAR\" or numbers, found \"%s\"",
                              name);
    for (uint32_t i = 0; named && i < w->rank; i++) {
        int64_t k = (w->size[i] - 1) * w->dilation[i] + 1, stride = w->input_dilation[i];
        bool same = !strcmp(name, "SAME");
        int64_t total = same ? k + stride - 2 : k + stride - 2 + (k > stride ? k - stride : 0);
        w->low[i] = !same || stride > k - 1 ? k - 1 : (total + 1) / 2;
        w->high[i] = total - w->low[i];
    }
    return true;
}

/* As NNX: what reaches over the period, the input's size times the stride, is added at the other end. Zeros fill up to
 * two periods, of an odd number one more on the left (a transposed kernel: on the right). */
static struct fe_val wrap_around(struct fe_block *block, const struct fe_window *w, const struct ir_type *in,
                                 struct fe_val y, bool transposed)
{
    struct fe_site *s = &block->site;
    for (uint32_t i = 0; i < w->rank && !y.bad; i++) {
        struct ir_type t = fe_type_at(s, &y);
        uint32_t axis = t.rank - 1u - w->rank + i;
        int64_t period = in->dim[in->rank - 1u - w->rank + i] * w->input_dilation[i], none[IR_MAX_RANK] = {0},
                low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0};
        if (period < 1 || t.rank == IR_MAX_RANK)
            return fe_block_fail(block, NULL, "E0212", "nothing to wrap around in %s", fe_describe(s, &y));
        int64_t missing = (2 * period - (t.dim[axis] - period) % (2 * period)) % (2 * period);
        low[axis] = transposed ? missing / 2 : (missing + 1) / 2;
        high[axis] = missing - low[axis];
        y = fe_val_tensor(ir_pad(s->b, y.tensor, ir_scalar(s->b, (enum ir_dtype)t.dtype, 0), low, high, none));
        int64_t total = t.dim[axis] + missing;
        memmove(&t.dim[axis + 2], &t.dim[axis + 1], (t.rank - 1u - axis) * sizeof *t.dim);
        t.dim[axis] = total / period;
        t.dim[axis + 1] = period;
        y = fe_reshape_val(s, y, t.rank + 1u, t.dim);
        y = y.bad ? y : fe_reduce(s, FE_RED_SUM, y, &axis, 1, NULL);
    }
    return y;
}

static struct fe_val apply_conv_transpose(struct fe_block *block, const struct fe_value *a)
{
    struct fe_window w = {.what = block->type};
    struct ir_type t;
    struct fe_site *s = &block->site;
    struct fe_val v[3];
    bool transposed = a[FIRST_OWN].boolean;
    if (!begin(block, a, &w, &t)) return fe_bad();
    memcpy(w.input_dilation, w.stride, sizeof w.stride);
    for (uint32_t i = 0; i < w.rank; i++) w.stride[i] = 1;
    if (!transpose_padding(block, &a[PADDING], &w, &t)) return fe_bad();
    int64_t shape[IR_MAX_RANK], in = t.dim[t.rank - 1], reversed[IR_MAX_RANK];
    memcpy(shape, w.size, sizeof shape);
    shape[w.rank] = transposed ? a[FEATURES].integer : in;
    shape[w.rank + 1] = transposed ? in : a[FEATURES].integer;
    if (!parameters(block, a, ir_type_of(IR_F32, w.rank + 2, shape), v)) return fe_bad();
    if (transposed) { /* the kernel of the convolution whose gradient this is */
        for (uint32_t i = 0; i < w.rank; i++) reversed[i] = i;
        v[1] = fe_tensor_val(ir_reverse(s->b, v[1].tensor, reversed, w.rank), false);
        v[1] = FE_APPLY(s, "swapaxes", v[1], fe_int(-1), fe_int(-2));
    }
    struct fe_val y = fe_convolve(s, &w, v[0], v[1], 1);
    const struct fe_value *padding = &a[PADDING];
    if (padding->given && padding->json->kind == JSON_STRING && !strcmp(padding->json->string, "CIRCULAR"))
        y = wrap_around(block, &w, &t, y, transposed);
    return fe_is_none(&v[2]) ? y : fe_add(s, y, v[2]);
}

static const struct fe_arg conv_args[] = {COMMON,
                                          {"input_dilation", FE_ANY, FE_NULLABLE, "1", NULL},
                                          {"feature_group_count", FE_INTEGER, FE_POSITIVE, "1", NULL},
                                          FE_DTYPE_ROWS};
static const struct fe_arg transpose_args[] = {COMMON, {"transpose_kernel", FE_BOOL, 0, "false", NULL}, FE_DTYPE_ROWS};
const struct fe_layer fe_layer_conv = {"conv", conv_args, sizeof conv_args / sizeof *conv_args, 1, apply_conv};
const struct fe_layer fe_layer_conv_transpose = {
    "conv_transpose", transpose_args, sizeof transpose_args / sizeof *transpose_args, 1, apply_conv_transpose};
