/* Windows that slide over the spatial axes of [batch.., spatial.., features], and convolutions: what layers and
 * conv_general_dilated have in common. What stands under each tap of a kernel is laid side by side, so that the
 * convolution is one matrix product. */
#include "frontend/expr/sliding_window.h"
#include "frontend/expr/makers.h"
#include <string.h>

static struct fe_val pad_by_itself(struct fe_site *s, const struct fe_window *w, struct fe_val x, uint32_t rank)
{
    struct fe_val widths[IR_MAX_RANK], pair[2], mode = {.kind = FE_VAL_STRING, .string = w->mode};
    for (uint32_t i = 0; i < rank; i++) {
        bool spatial = i >= w->first && i < w->first + w->rank;
        pair[0] = fe_int(spatial ? (double)w->low[i - w->first] : 0);
        pair[1] = fe_int(spatial ? (double)w->high[i - w->first] : 0);
        widths[i] = fe_tuple(s, pair, 2);
    }
    return FE_APPLY(s, "pad", x, fe_tuple(s, widths, rank), mode);
}

void fe_window_same(struct fe_window *w, uint32_t i, int64_t in, bool lower)
{
    int64_t reach = (w->size[i] - 1) * w->dilation[i] + 1;
    int64_t total = ((in + w->stride[i] - 1) / w->stride[i] - 1) * w->stride[i] + reach - in;
    if (total < 0) total = 0;
    w->low[i] = lower ? total - total / 2 : total / 2;
    w->high[i] = total - w->low[i];
}

static bool fits(struct fe_site *s, struct fe_window *w, const int64_t *padded)
{
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t reach = (w->size[i] - 1) * w->dilation[i] + 1, room = padded[i] - reach;
        if (room < 0) {
            fe_fail(s, "E0212", "%s: a window of %lld does not fit into %lld elements", w->what, (long long)reach,
                    (long long)padded[i]);
            return false;
        }
        w->out[i] = room / w->stride[i] + 1;
    }
    return true;
}

struct fe_val fe_window_place(struct fe_site *s, struct fe_window *w, struct fe_val x, struct fe_val fill)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, interior[IR_MAX_RANK] = {0};
    bool any = false, constant = !strcmp(w->mode, "constant");
    if (!constant) x = pad_by_itself(s, w, x, t.rank);
    for (uint32_t i = 0; i < w->rank; i++) {
        low[w->first + i] = constant ? w->low[i] : 0;
        high[w->first + i] = constant ? w->high[i] : 0;
        interior[w->first + i] = w->input_dilation[i] - 1;
        any |= low[w->first + i] || high[w->first + i] || interior[w->first + i];
    }
    if (x.bad) return x;
    if (any)
        x = fe_tensor_val(ir_pad(s->b, x.tensor, fe_value_as(s, &fill, (enum ir_dtype)t.dtype), low, high, interior),
                          x.weak);
    if (x.bad) return x;
    t = fe_type_at(s, &x);
    return fits(s, w, &t.dim[w->first]) ? x : fe_bad();
}

int64_t fe_window_taps(const struct fe_window *w)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < w->rank; i++) n *= w->size[i];
    return n;
}

struct fe_val fe_window_tap(struct fe_site *s, const struct fe_window *w, struct fe_val x, int64_t tap)
{
    struct ir_type t = fe_type_at(s, &x);
    int64_t start[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        limit[i] = t.dim[i];
        stride[i] = 1;
    }
    for (uint32_t i = w->rank; i-- > 0; tap /= w->size[i]) {
        uint32_t axis = w->first + i;
        start[axis] = tap % w->size[i] * w->dilation[i];
        stride[axis] = w->stride[i];
        limit[axis] = start[axis] + (w->out[i] - 1) * w->stride[i] + 1;
    }
    return fe_tensor_val(ir_slice(s->b, x.tensor, start, limit, stride), x.weak);
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
static struct fe_val sum_of_taps(struct fe_site *s, struct fe_window *w, struct fe_val x, struct fe_val kernel,
                                 int64_t groups)
{
    struct ir_type tk = fe_type_at(s, &kernel);
    int64_t taps = fe_window_taps(w), in = tk.dim[tk.rank - 2], out = tk.dim[tk.rank - 1];
    bool alone = groups > 1 && in == 1 && taps * (out / groups) <= 256;
    if (alone && out > groups) x = repeat_channels(s, x, out / groups);
    if (!x.bad) x = fe_window_place(s, w, x, fe_float(0));
    if (x.bad) return x;
    struct fe_val *parts = arena_new_array(s->fe->arena, struct fe_val, taps);
    for (int64_t i = 0; i < taps; i++) {
        struct fe_val part = fe_window_tap(s, w, x, i);
        if (part.bad) return part;
        struct ir_type t = fe_type_at(s, &part);
        uint32_t at = t.rank - 1u;
        parts[i] = part;
        if (groups == 1 || alone) continue;
        if (at + 3 > IR_MAX_RANK) return fe_fail(s, "E0202", "more than %d dimensions", IR_MAX_RANK);
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
static struct fe_val sum_of_inputs(struct fe_site *s, struct fe_window *w, struct fe_val x, struct fe_val kernel)
{
    struct ir_type t = fe_type_at(s, &x), tk = fe_type_at(s, &kernel);
    int64_t taps = fe_window_taps(w), in = tk.dim[tk.rank - 2], out = tk.dim[tk.rank - 1], padded[IR_MAX_RANK];
    int64_t before[IR_MAX_RANK] = {0}, full[IR_MAX_RANK] = {0}, crop[2][IR_MAX_RANK] = {{0}}, none[IR_MAX_RANK] = {0};
    for (uint32_t i = 0; i < w->rank; i++)
        padded[i] = w->low[i] + (t.dim[w->first + i] - 1) * w->input_dilation[i] + 1 + w->high[i];
    if (!fits(s, w, padded)) return fe_bad();
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
struct fe_val fe_convolve(struct fe_site *s, struct fe_window *w, struct fe_val x, struct fe_val kernel, int64_t groups)
{
    struct ir_type t = fe_type_at(s, &x);
    enum ir_dtype dtype = (enum ir_dtype)t.dtype;
    if (ir_dtype_bytes(dtype) > 2)
        return is_spread(w, &t, groups) ? sum_of_inputs(s, w, x, kernel) : sum_of_taps(s, w, x, kernel, groups);
    struct fe_val y = fe_convolve(s, w, fe_cast(s, x, IR_F32), fe_cast(s, kernel, IR_F32), groups);
    return y.bad ? y : fe_cast(s, y, dtype);
}

/* ---------------------------------------------------------------- jax.lax.conv_general_dilated */

enum { STRIDES = 2, PADDING, INPUT_DILATION, DILATION, NUMBERS, GROUPS };

/* Where the two named dimensions of a specification such as "NHWC" stand, and the spatial ones in the order of the
 * kernel's. False: it does not name each of `rank` dimensions once. */
static bool read_spec(const char *spec, const char *kernel, const char named[2], uint32_t rank, uint32_t *at)
{
    uint32_t n = 1;
    if (strlen(spec) != rank || !strchr(spec, named[0]) || !strchr(spec, named[1])) return false;
    at[0] = (uint32_t)(strchr(spec, named[0]) - spec), at[rank - 1] = (uint32_t)(strchr(spec, named[1]) - spec);
    for (uint32_t i = 0; i < rank; i++) {
        if (kernel[i] == 'O' || kernel[i] == 'I') continue;
        if (strchr(spec, kernel[i]) != strrchr(spec, kernel[i]) || !strchr(spec, kernel[i])) return false;
        at[n++] = (uint32_t)(strchr(spec, kernel[i]) - spec);
    }
    return n == rank - 1;
}

/* Of input, kernel and result; at[i][k]: the dimension that stands k-th here, [batch, spatial.., features]. */
static bool read_numbers(struct fe_call *c, uint32_t rank, uint32_t at[3][IR_MAX_RANK])
{
    static const char names[3][2] = {{'N', 'C'}, {'I', 'O'}, {'N', 'C'}};
    const struct fe_val *v = &ARG(NUMBERS);
    char preset[2][IR_MAX_RANK + 1] = {"NC", "OI"};
    const char *spec[3] = {preset[0], preset[1], preset[0]};
    for (uint32_t k = 0; k < 2 && fe_is_none(v); k++)
        for (uint32_t i = 2; i < rank; i++) preset[k][i] = (char)('0' + i), preset[k][i + 1] = 0;
    bool good = fe_is_none(v) || (v->kind == FE_VAL_TUPLE && v->count == 3);
    for (uint32_t i = 0; i < 3 && good && !fe_is_none(v); i++) {
        good = v->items[i].kind == FE_VAL_STRING;
        if (good) spec[i] = v->items[i].string;
    }
    good = good && strlen(spec[1]) == rank;
    for (uint32_t i = 0; i < 3 && good; i++) good = read_spec(spec[i], spec[1], names[i], rank, at[i]);
    if (good) return true;
    fe_fail_at(
        c->site, &c->where[NUMBERS], "E0310",
        "%s: dimension_numbers names each of %u dimensions of input, kernel and result, as ('NHWC', 'HWIO', 'NHWC')",
        c->function, (unsigned)rank);
    return false;
}

static bool read_padding(struct fe_call *c, struct fe_window *w, const struct ir_type *t)
{
    SITE;
    const struct fe_val *v = &ARG(PADDING);
    const char *word = v->kind == FE_VAL_STRING ? v->string : "";
    bool lower = !strcmp(word, "SAME_LOWER"), same = lower || !strcmp(word, "SAME"), spread = false;
    for (uint32_t i = 0; i < w->rank; i++) spread |= w->input_dilation[i] > 1;
    if (*word && (spread || (!same && strcmp(word, "VALID"))))
        return fe_wrong_at(s, &c->where[PADDING], "E0310",
                           spread
                               ? "%s: with lhs_dilation padding is a list of pairs, found \"%s\""
                               : "%s: padding is \"SAME\", \"SAME_LOWER\", \"VALID\" or a list of pairs, found \"%s\"",
                           c->function, word);
    for (uint32_t i = 0; same && i < w->rank; i++) fe_window_same(w, i, t->dim[1 + i], lower);
    if (*word) return true;
    bool good = v->kind == FE_VAL_TUPLE && v->count == w->rank;
    for (uint32_t i = 0; good && i < w->rank; i++) {
        int64_t pair[2];
        uint32_t n;
        good = v->items[i].kind == FE_VAL_TUPLE && v->items[i].count == 2 &&
               fe_get_ints(s, &v->items[i], pair, 2, &n, "padding");
        if (good) w->low[i] = pair[0], w->high[i] = pair[1];
    }
    return good || fe_wrong_at(s, &c->where[PADDING], "E0310", "%s: padding has a pair (low, high) for each of %u axes",
                               c->function, (unsigned)w->rank);
}

/* Whole numbers from 1 on, one per spatial axis; None: 1. */
static bool read_steps(struct fe_call *c, uint32_t arg, uint32_t rank, int64_t *out)
{
    SITE;
    uint32_t n = rank;
    bool good = true;
    for (uint32_t i = 0; i < rank; i++) out[i] = 1;
    if (!fe_is_none(&ARG(arg))) good = fe_get_ints(s, &ARG(arg), out, IR_MAX_RANK, &n, "steps");
    for (uint32_t i = 0; good && i < n; i++) good = out[i] >= 1;
    return (good && n == rank) ||
           fe_wrong_at(s, &c->where[arg], "E0310",
                       "%s: strides and dilations are whole numbers from 1 on, one for each of %u axes", c->function,
                       (unsigned)rank);
}

struct fe_val make_conv(struct fe_call *c)
{
    SITE;
    struct fe_window w = {.what = c->function, .mode = "constant", .first = 1};
    struct ir_type t, tk;
    uint32_t at[3][IR_MAX_RANK], back[IR_MAX_RANK];
    int64_t groups;
    if (!fe_get_tensor(c, 0, &t) || !fe_get_tensor(c, 1, &tk) || !fe_get_int(c, GROUPS, &groups)) return fe_bad();
    if (t.rank != tk.rank || t.rank < 2)
        return fe_fail(s, "E0212", "%s: input and kernel have the same rank from 2 on, found %s and %s", c->function,
                       fe_describe(s, &ARG(0)), fe_describe(s, &ARG(1)));
    w.rank = t.rank - 2;
    if (!read_numbers(c, t.rank, at) || !read_steps(c, STRIDES, w.rank, w.stride) ||
        !read_steps(c, INPUT_DILATION, w.rank, w.input_dilation) || !read_steps(c, DILATION, w.rank, w.dilation))
        return fe_bad();
    /* the kernel's order here is [spatial.., in, out]: its first dimension comes last but one */
    uint32_t in = at[1][0];
    memmove(&at[1][0], &at[1][1], w.rank * sizeof in);
    at[1][w.rank] = in;
    struct fe_kind_of kind = fe_kind_of_both(s, &ARG(0), &ARG(1));
    struct fe_val x = fe_transpose_val(s, fe_cast(s, ARG(0), kind.dtype), at[0]);
    struct fe_val kernel = fe_transpose_val(s, fe_cast(s, ARG(1), kind.dtype), at[1]);
    if (x.bad || kernel.bad) return fe_bad();
    t = fe_type_at(s, &x), tk = fe_type_at(s, &kernel);
    for (uint32_t i = 0; i < w.rank; i++) w.size[i] = tk.dim[i];
    if (groups < 1 || t.dim[t.rank - 1] % groups || t.dim[t.rank - 1] / groups != tk.dim[w.rank] ||
        tk.dim[w.rank + 1] % groups)
        return fe_fail(s, "E0212",
                       "%s: %lld features in %lld groups do not fit a kernel of %lld inputs and %lld outputs",
                       c->function, (long long)t.dim[t.rank - 1], (long long)groups, (long long)tk.dim[w.rank],
                       (long long)tk.dim[w.rank + 1]);
    if (fe_window_taps(&w) < 1 || fe_window_taps(&w) > 4096)
        return fe_fail(s, "E0103", "%s: a kernel of %lld taps is not supported yet", c->function,
                       (long long)fe_window_taps(&w));
    if (!read_padding(c, &w, &t)) return fe_bad();
    struct fe_val y = fe_convolve(s, &w, x, kernel, groups);
    for (uint32_t k = 0; k < t.rank; k++) back[at[2][k]] = k;
    return y.bad ? y : fe_transpose_val(s, y, back);
}
