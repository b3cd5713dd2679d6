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
    if (window_taps(w) > 4096)
        return fe_block_wrong(block, a[KERNEL].json, "E0103", "a kernel of more than 4096 taps is not supported yet");
    return window_per_axis(block, &a[STRIDES], 1, w->rank, w->stride) &&
           window_per_axis(block, &a[KERNEL_DILATION], 1, w->rank, w->dilation);
}

/* Every channel `each` times. Beside each other rather than broadcast: the gradient is a sum of slices, which reads
 * what the taps give where that is stored, instead of a sum over rows of few elements. */
static struct fe_val repeat_channels(struct fe_site *s, struct fe_val x, int64_t each)
{
    struct ir_type t = fe_type_at(s, &x);
    struct fe_val *copies = arena_new_array(s->fe->arena, struct fe_val, each);
    for (int64_t i = 0; i < each; i++) copies[i] = x;
    x = FE_APPLY(s, "stack", fe_tuple(s, copies, (uint32_t)each), fe_int(-1));
    t.dim[t.rank - 1] *= each;
    return x.bad ? x : fe_reshape_val(s, x, t.rank, t.dim);
}

/* One input channel for each output channel: products element by element, summed over the taps. */
static struct fe_val sum_of_channels(struct fe_site *s, const struct fe_val *part, int64_t taps, struct fe_val kernel,
                                     int64_t out)
{
    struct fe_val sum = fe_bad();
    kernel = fe_reshape_val(s, kernel, 2, (int64_t[]){taps, out});
    for (int64_t i = 0; i < taps && !kernel.bad; i++) {
        ir_value w = ir_slice(s->b, kernel.tensor, (int64_t[]){i, 0}, (int64_t[]){i + 1, out}, (int64_t[]){1, 1});
        struct fe_val x = fe_mul(s, part[i], fe_reshape_val(s, fe_tensor_val(w, kernel.weak), 1, &out));
        sum = i ? fe_add(s, sum, x) : x;
        if (sum.bad) break;
    }
    return sum;
}

/* Kernel [spatial.., in / groups, out] over a placed input. */
static struct fe_val sum_of_taps(struct fe_block *block, struct fe_window *w, struct fe_val x, struct fe_val kernel,
                                 int64_t groups)
{
    struct fe_site *s = &block->site;
    struct ir_type tk = fe_type_at(s, &kernel);
    int64_t taps = window_taps(w), in = tk.dim[tk.rank - 2], out = tk.dim[tk.rank - 1];
    bool alone = groups > 1 && in == 1 && taps * (out / groups) <= 256;
    if (alone && out > groups) x = repeat_channels(s, x, out / groups);
    if (!x.bad) x = window_place(block, w, x, fe_float(0));
    if (x.bad) return x;
    struct fe_val *parts = arena_new_array(s->fe->arena, struct fe_val, taps);
    for (int64_t i = 0; i < taps; i++) {
        struct fe_val part = window_tap(block, w, x, i);
        if (part.bad) return part;
        struct ir_type t = fe_type_at(s, &part);
        uint32_t at = t.rank - 1u;
        parts[i] = part;
        if (groups == 1 || alone) continue;
        if (at + 3 > IR_MAX_RANK) return fe_block_fail(block, NULL, "E0202", "more than %d dimensions", IR_MAX_RANK);
        t.dim[at] = 1;
        t.dim[at + 1] = groups;
        t.dim[at + 2] = in;
        parts[i] = fe_reshape_val(s, part, at + 3, t.dim);
    }
    if (alone) return sum_of_channels(s, parts, taps, kernel, out);
    struct fe_val all = FE_APPLY(s, "concatenate", fe_tuple(s, parts, (uint32_t)taps), fe_int(groups > 1 ? -3 : -1));
    if (groups == 1) {
        struct fe_val pair[] = {all, fe_reshape_val(s, kernel, 2, (int64_t[]){taps * in, out})};
        return pair[0].bad ? all : fe_einsum(s, "...i,io->...o", pair, 2);
    }
    struct fe_val pair[] = {all, fe_reshape_val(s, kernel, 4, (int64_t[]){taps, in, groups, out / groups})};
    struct fe_val y = pair[0].bad ? all : fe_einsum(s, "...tgi,tigo->...go", pair, 2);
    if (y.bad) return y;
    struct ir_type t = fe_type_at(s, &y);
    t.dim[t.rank - 2] = out;
    return fe_reshape_val(s, y, t.rank - 1u, t.dim);
}

/* Does nothing but a distance between the inputs part them, which are some? */
static bool is_spread(const struct fe_window *w, const struct ir_type *t, int64_t groups)
{
    bool any = false, plain = groups == 1 && !strcmp(w->mode, "constant");
    for (uint32_t i = 0; i < w->rank; i++) {
        any |= w->input_dilation[i] > 1;
        plain &= w->stride[i] == 1 && t->dim[w->first + i] > 0;
    }
    return any && plain;
}

/* Inputs that are apart: rather than to multiply the zeros between them, each tap of each input is put where it counts
 * and these are added up, as in the gradient of a strided convolution. */
static struct fe_val sum_of_inputs(struct fe_block *block, struct fe_window *w, struct fe_val x, struct fe_val kernel)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &x), tk = fe_type_at(s, &kernel);
    int64_t taps = window_taps(w), in = tk.dim[tk.rank - 2], out = tk.dim[tk.rank - 1], padded[IR_MAX_RANK];
    int64_t before[IR_MAX_RANK] = {0}, full[IR_MAX_RANK] = {0}, crop[2][IR_MAX_RANK] = {{0}}, none[IR_MAX_RANK] = {0};
    for (uint32_t i = 0; i < w->rank; i++)
        padded[i] = w->low[i] + (t.dim[w->first + i] - 1) * w->input_dilation[i] + 1 + w->high[i];
    if (!window_fits(block, w, padded)) return fe_bad();
    for (uint32_t i = 0; i < w->rank; i++) { /* the sum begins so far before the result */
        int64_t reach = (w->size[i] - 1) * w->dilation[i], last = padded[i] - w->high[i];
        before[i] = reach > w->low[i] ? reach - w->low[i] : 0;
        full[i] = before[i] + (last > w->out[i] ? last : w->out[i]);
        crop[0][w->first + i] = -before[i], crop[1][w->first + i] = before[i] + w->out[i] - full[i];
    }
    kernel = FE_APPLY(s, "swapaxes", kernel, fe_int(-1), fe_int(-2));
    struct fe_val pair[] = {x, kernel.bad ? kernel : fe_reshape_val(s, kernel, 2, (int64_t[]){taps * out, in})};
    struct fe_val all = pair[1].bad ? pair[1] : fe_einsum(s, "...i,oi->...o", pair, 2), y = all;
    if (all.bad) return all;
    ir_value zero = ir_scalar(s->b, (enum ir_dtype)fe_type_at(s, &all).dtype, 0), sum = 0;
    for (int64_t k = 0; k < taps; k++) {
        int64_t start[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], one[IR_MAX_RANK], rest = k;
        int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, interior[IR_MAX_RANK] = {0};
        for (uint32_t i = 0; i < t.rank; i++) limit[i] = t.dim[i], one[i] = 1;
        start[t.rank - 1] = k * out, limit[t.rank - 1] = (k + 1) * out;
        for (uint32_t i = w->rank; i-- > 0; rest /= w->size[i]) {
            uint32_t axis = w->first + i;
            low[axis] = before[i] + w->low[i] - rest % w->size[i] * w->dilation[i];
            interior[axis] = w->input_dilation[i] - 1;
            high[axis] = full[i] - low[axis] - (t.dim[axis] - 1) * w->input_dilation[i] - 1;
        }
        ir_value tap = ir_pad(s->b, ir_slice(s->b, all.tensor, start, limit, one), zero, low, high, interior);
        sum = sum ? ir_binary(s->b, OP_add, sum, tap) : tap;
    }
    y.tensor = ir_pad(s->b, sum, zero, crop[0], crop[1], none);
    return y;
}

/* With 16-bit types all sums, those of the gradient over the taps too, are float32 and rounded once, at the end. */
static struct fe_val convolve(struct fe_block *block, struct fe_window *w, struct fe_val x, struct fe_val kernel,
                              int64_t groups)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &x);
    enum ir_dtype dtype = (enum ir_dtype)t.dtype;
    if (ir_dtype_bytes(dtype) > 2)
        return is_spread(w, &t, groups) ? sum_of_inputs(block, w, x, kernel) : sum_of_taps(block, w, x, kernel, groups);
    struct fe_val y = convolve(block, w, fe_cast(s, x, IR_F32), fe_cast(s, kernel, IR_F32), groups);
    return y.bad ? y : fe_cast(s, y, dtype);
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
    struct fe_window w = {0};
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
    struct fe_val y = convolve(block, &w, v[0], v[1], groups);
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
    struct fe_window w = {0};
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
    struct fe_val y = convolve(block, &w, v[0], v[1], 1);
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
