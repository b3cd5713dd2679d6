/* avg_pool, max_pool, min_pool as flax.nnx over [batch.., spatial.., features]; strides are 1 unless given. */
#include "frontend/model/layers/window.h"
#include <math.h>

enum { SHAPE, STRIDES, PADDING, COUNT_PADDING };
enum kind { AVERAGE, LARGEST, SMALLEST };

/* What pads: 0, or the least or the largest number of the dtype, which integers have, too. */
static struct fe_val around(enum kind kind, enum ir_dtype d)
{
    double sign = kind == LARGEST ? -1 : 1, bits = d == IR_BOOL ? 1 : fmin(8 * (double)ir_dtype_bytes(d), 32);
    if (kind == AVERAGE) return fe_int(0);
    if (ir_dtype_is_float(d)) return fe_float(sign * INFINITY);
    double half = ir_dtype_is_signed(d) ? ldexp(1, (int)bits - 1) : 0, most = half ? half - 1 : ldexp(1, (int)bits) - 1;
    return fe_int(kind == LARGEST ? -half : most);
}

/* Sum or extremum over the taps; of equal extrema the first one counts, also for the gradient. */
static struct fe_val slide(struct fe_block *block, struct fe_window *w, struct fe_val x, enum kind kind)
{
    struct fe_site *s = &block->site;
    x = fe_window_place(s, w, x, around(kind, (enum ir_dtype)fe_type_at(s, &x).dtype));
    struct fe_val y = fe_none();
    for (int64_t i = 0; i < fe_window_taps(w) && !x.bad && !y.bad; i++) {
        struct fe_val part = fe_window_tap(s, w, x, i);
        if (!i) y = part;
        else if (kind == AVERAGE) y = fe_add(s, y, part);
        else { /* NaN stays, wherever it stands */
            struct fe_val beyond = fe_binary(s, kind == LARGEST ? EXPR_OP_GT : EXPR_OP_LT, part, y);
            struct fe_val none_is = fe_binary(s, EXPR_OP_NE, part, part);
            y = fe_where3(s, fe_op2(s, OP_or, beyond, none_is), part, y);
        }
    }
    return x.bad ? x : y;
}

static struct fe_val pool(struct fe_block *block, const struct fe_value *a, enum kind kind)
{
    struct fe_site *s = &block->site;
    struct fe_window w = {.what = block->type};
    struct fe_val x = block->in[0]; /* of integers: their sums and extrema are integers */
    if (kind == AVERAGE && fe_type_at(s, &x).dtype == IR_BOOL) x = fe_cast(s, x, IR_F32);
    if (x.bad) return x;
    x.weak = false;
    struct ir_type t = fe_type_at(s, &x);
    if (!window_ints(block, &a[SHAPE], 1, 1, w.size, &w.rank)) return fe_bad();
    if (!w.rank) w.rank = 1;
    if (t.rank < w.rank + 1u)
        return fe_block_fail(block, NULL, "E0212", "%s needs an input of rank %u or more, found %s", block->type,
                             (unsigned)w.rank + 1, fe_describe(s, &x));
    w.first = t.rank - w.rank - 1u;
    if (fe_window_taps(&w) > 4096)
        return fe_block_fail(block, a[SHAPE].json, "E0103", "a window of more than 4096 elements is not supported yet");
    for (uint32_t i = 0; i < w.rank; i++) w.dilation[i] = w.input_dilation[i] = 1;
    if (!window_per_axis(block, &a[STRIDES], 1, w.rank, w.stride) ||
        !window_padding(block, &a[PADDING], "VALID", &w, &t))
        return fe_bad();
    struct fe_val y = slide(block, &w, x, kind);
    if (kind != AVERAGE || y.bad) return y;
    if (a[COUNT_PADDING].boolean) return fe_div(s, y, fe_float((double)fe_window_taps(&w)));
    t.dtype = IR_F32; /* as Flax counts, whatever is averaged */
    return fe_div(s, y, slide(block, &w, fe_full(s, t, 1), AVERAGE));
}

static struct fe_val apply_avg(struct fe_block *block, const struct fe_value *a) { return pool(block, a, AVERAGE); }
static struct fe_val apply_max(struct fe_block *block, const struct fe_value *a) { return pool(block, a, LARGEST); }
static struct fe_val apply_min(struct fe_block *block, const struct fe_value *a) { return pool(block, a, SMALLEST); }

static const struct fe_arg args[] = {{"window_shape", FE_ANY, FE_REQUIRED, NULL, NULL},
                                     {"strides", FE_ANY, FE_NULLABLE, "null", NULL},
                                     {"padding", FE_ANY, 0, "\"VALID\"", NULL},
                                     {"count_include_pad", FE_BOOL, 0, "true", NULL}};
const struct fe_layer fe_layer_avg_pool = {"avg_pool", args, 4, 1, apply_avg};
const struct fe_layer fe_layer_max_pool = {"max_pool", args, 3, 1, apply_max};
const struct fe_layer fe_layer_min_pool = {"min_pool", args, 3, 1, apply_min};
