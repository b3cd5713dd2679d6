/* jax.nn: activations, softmax and its relatives, masks, attention. Where the formula of jax.nn stops a gradient or
 * chooses a branch (relu at 0), so do these. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

static struct fe_val compare(struct fe_site *s, enum expr_operator op, struct fe_val x, double y)
{
    return fe_binary(s, op, x, fe_float(y));
}

/* ---------------------------------------------------------------- element-wise */

struct fe_val make_relu(struct fe_call *c)
{ /* gradient 0 at 0; NaN stays */
    SITE;
    if (!fe_as_tensor(s, &ARG(0))) return fe_bad();
    struct fe_val zero = fe_int(0);
    return fe_where3(s, fe_binary(s, EXPR_OP_LE, ARG(0), zero), zero, ARG(0));
}
static struct fe_val relu6(struct fe_site *s, struct fe_val x)
{ /* gradient only inside (0, 6) */
    return fe_where3(s, compare(s, EXPR_OP_LE, x, 0), fe_int(0),
                     fe_where3(s, compare(s, EXPR_OP_GE, x, 6), fe_int(6), x));
}
struct fe_val make_relu6(struct fe_call *c) { return relu6(c->site, fe_inexact(c->site, ARG(0))); }
struct fe_val make_softplus(struct fe_call *c)
{
    return FE_APPLY(c->site, "logaddexp", fe_inexact(c->site, ARG(0)), fe_float(0));
}
struct fe_val make_silu(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_mul(s, x, fe_op1(s, OP_logistic, x));
}
struct fe_val make_gelu(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), half = fe_float(0.5), one = fe_float(1);
    if (!fe_truth(&ARG(1))) {
        struct fe_val e = fe_op1(s, OP_erf, fe_mul(s, x, fe_float(sqrt(0.5))));
        return fe_mul(s, fe_mul(s, half, x), fe_add(s, one, e));
    }
    struct fe_val cube = fe_mul(s, fe_mul(s, x, x), x);
    struct fe_val inside = fe_mul(s, fe_float(sqrt(2 / 3.14159265358979323846)),
                                  fe_add(s, x, fe_mul(s, fe_float(0.044715), cube)));
    return fe_mul(s, x, fe_mul(s, half, fe_add(s, one, fe_op1(s, OP_tanh, inside))));
}
static struct fe_val elu(struct fe_site *s, struct fe_val x, struct fe_val alpha)
{
    struct fe_val positive = compare(s, EXPR_OP_GT, x, 0);
    struct fe_val safe = fe_where3(s, positive, fe_float(0), x);
    return fe_where3(s, positive, x, fe_mul(s, alpha, fe_op1(s, OP_expm1, safe)));
}
struct fe_val make_elu(struct fe_call *c) { return elu(c->site, fe_inexact(c->site, ARG(0)), ARG(1)); }
struct fe_val make_selu(struct fe_call *c)
{
    SITE;
    return fe_mul(s, fe_float(1.0507009873554804934), elu(s, fe_inexact(s, ARG(0)), fe_float(1.6732632423543772848)));
}
struct fe_val make_celu(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), zero = fe_float(0);
    struct fe_val low = fe_op1(s, OP_expm1, fe_div(s, fe_op2(s, OP_min, x, zero), ARG(1)));
    return fe_add(s, fe_op2(s, OP_max, x, zero), fe_mul(s, ARG(1), low));
}
struct fe_val make_leaky_relu(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_where3(s, compare(s, EXPR_OP_GE, x, 0), x, fe_mul(s, ARG(1), x));
}
static struct fe_val hard_sigmoid(struct fe_site *s, struct fe_val x)
{
    return fe_div(s, relu6(s, fe_add(s, x, fe_float(3))), fe_float(6));
}
struct fe_val make_hard_sigmoid(struct fe_call *c) { return hard_sigmoid(c->site, fe_inexact(c->site, ARG(0))); }
struct fe_val make_hard_silu(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_mul(s, x, hard_sigmoid(s, x));
}
struct fe_val make_hard_tanh(struct fe_call *c)
{
    SITE;
    struct fe_val x = ARG(0);
    if (!fe_as_tensor(s, &x)) return fe_bad();
    return fe_where3(s, compare(s, EXPR_OP_GT, x, 1), fe_int(1),
                     fe_where3(s, compare(s, EXPR_OP_LT, x, -1), fe_int(-1), x));
}
struct fe_val make_log_sigmoid(struct fe_call *c)
{
    SITE;
    return neg(s, FE_APPLY(s, "softplus", neg(s, fe_inexact(s, ARG(0)))));
}
struct fe_val make_soft_sign(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_div(s, x, fe_add(s, fe_op1(s, OP_abs, x), fe_float(1)));
}
struct fe_val make_mish(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_mul(s, x, fe_op1(s, OP_tanh, FE_APPLY(s, "softplus", x)));
}
struct fe_val make_squareplus(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0));
    return fe_mul(s, fe_float(0.5), fe_add(s, x, fe_op1(s, OP_sqrt, fe_add(s, fe_mul(s, x, x), ARG(1)))));
}
struct fe_val make_sparse_plus(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), y = fe_add(s, x, fe_float(1));
    struct fe_val middle = fe_div(s, fe_mul(s, y, y), fe_float(4));
    return fe_where3(s, compare(s, EXPR_OP_LE, x, -1), fe_float(0),
                     fe_where3(s, compare(s, EXPR_OP_GE, x, 1), x, middle));
}
struct fe_val make_sparse_sigmoid(struct fe_call *c)
{
    SITE;
    struct fe_val y = fe_add(s, fe_inexact(s, ARG(0)), fe_float(1));
    return fe_mul(s, fe_float(0.5), FE_APPLY(s, "clip", y, fe_float(0), fe_float(2)));
}
struct fe_val make_log1mexp(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), is_near = compare(s, EXPR_OP_LT, x, log(2)), one = fe_float(1);
    struct fe_val near = fe_op1(s, OP_log, neg(s, fe_op1(s, OP_expm1, neg(s, fe_where3(s, is_near, x, one))))),
                  far = fe_op1(s, OP_log1p, neg(s, fe_op1(s, OP_exp, neg(s, fe_where3(s, is_near, one, x)))));
    return fe_where3(s, is_near, near, far);
}
struct fe_val make_glu(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), parts = FE_APPLY(s, "split", x, fe_int(2), ARG(1));
    return parts.bad ? parts : fe_mul(s, parts.items[0], fe_op1(s, OP_logistic, parts.items[1]));
}

/* ---------------------------------------------------------------- softmax and relatives */

/* exp(x - max) and the log of its sum, both with kept dimensions; masked elements count as nothing. */
struct fe_val fe_softmax_parts(struct fe_site *s, struct fe_val x, const uint32_t *axes, uint32_t count,
                               const struct fe_val *where, struct fe_val *log_sum)
{
    bool masked = where && !fe_is_none(where);
    struct fe_val least = fe_float(-INFINITY);
    struct fe_reduce_options keep = {.keepdims = true, .where = where, .initial = masked ? &least : NULL},
                             sum = {.keepdims = true, .where = where};
    struct fe_val top = fe_stop(s, fe_reduce(s, FE_RED_MAX, x, axes, count, &keep));
    struct fe_val safe = masked ? fe_where3(s, *where, x, least) : x;
    struct fe_val shifted = fe_sub(s, safe, top), e = fe_op1(s, OP_exp, shifted);
    if (log_sum) *log_sum = fe_op1(s, OP_log, fe_reduce(s, FE_RED_SUM, e, axes, count, &sum));
    return log_sum ? shifted : fe_div(s, e, fe_reduce(s, FE_RED_SUM, e, axes, count, &sum));
}

static bool softmax_args(struct fe_call *c, uint32_t *axes, uint32_t *n)
{
    ARG(0) = fe_inexact(c->site, ARG(0));
    return !ARG(0).bad && fe_get_axes(c, 1, fe_rank(c->site, &ARG(0)), axes, n);
}
struct fe_val make_softmax(struct fe_call *c)
{
    uint32_t axes[IR_MAX_RANK], n;
    if (!softmax_args(c, axes, &n)) return fe_bad();
    struct fe_val p = fe_softmax_parts(c->site, ARG(0), axes, n, &ARG(2), NULL);
    return fe_is_none(&ARG(2)) ? p : fe_where3(c->site, ARG(2), p, fe_float(0));
}
struct fe_val make_log_softmax(struct fe_call *c)
{
    uint32_t axes[IR_MAX_RANK], n;
    struct fe_val log_sum;
    if (!softmax_args(c, axes, &n)) return fe_bad();
    struct fe_val shifted = fe_softmax_parts(c->site, ARG(0), axes, n, &ARG(2), &log_sum);
    struct fe_val y = fe_sub(c->site, shifted, log_sum);
    return fe_is_none(&ARG(2)) ? y : fe_where3(c->site, ARG(2), y, fe_float(-INFINITY));
}

/* log(sum(b exp(x))): the largest finite element is taken out first. */
struct fe_val make_logsumexp(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    bool whole = ARG(0).kind == FE_VAL_TENSOR && !ir_dtype_is_float((enum ir_dtype)fe_type_at(s, &ARG(0)).dtype);
    if (!softmax_args(c, axes, &n)) return fe_bad();
    struct fe_val x = ARG(0), least = fe_float(-INFINITY), weights = ARG(2);
    if (whole && !fe_is_none(&weights) && fe_as_tensor(s, &weights))
        x = fe_cast(s, x, (enum ir_dtype)fe_type_at(s, (weights = fe_inexact(s, weights), &weights)).dtype);
    if (!fe_is_none(&weights)) x = fe_where3(s, fe_binary(s, EXPR_OP_NE, weights, fe_int(0)), x, least);
    struct fe_reduce_options keep = {.keepdims = true, .where = &ARG(4), .initial = &least};
    struct fe_val top = fe_stop(s, fe_reduce(s, FE_RED_MAX, x, axes, n, &keep));
    top = fe_where3(s, fe_op1(s, OP_is_finite, top), top, fe_float(0));
    struct fe_val e = fe_op1(s, OP_exp, fe_sub(s, x, top));
    if (!fe_is_none(&weights)) e = fe_mul(s, e, weights);
    struct fe_reduce_options sum = {.keepdims = true, .where = &ARG(4)};
    struct fe_val total = fe_reduce(s, FE_RED_SUM, e, axes, n, &sum), sign = fe_none(), both[2];
    if (fe_truth(&ARG(5))) sign = fe_op1(s, OP_sign, total), total = fe_op1(s, OP_abs, total);
    struct fe_val y = fe_add(s, fe_op1(s, OP_log, total), top);
    if (y.bad || sign.bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &y);
    int64_t shape[IR_MAX_RANK];
    uint32_t rank = fe_truth(&ARG(3)) ? t.rank : 0;
    for (uint32_t i = 0; i < rank; i++) shape[i] = t.dim[i];
    for (uint32_t i = 0; i < t.rank; i++) {
        bool gone = false;
        for (uint32_t j = 0; j < n; j++) gone |= axes[j] == i;
        if (!gone && !fe_truth(&ARG(3))) shape[rank++] = t.dim[i];
    }
    both[0] = fe_reshape_val(s, y, rank, shape);
    if (fe_is_none(&sign)) return both[0];
    both[1] = fe_reshape_val(s, sign, rank, shape);
    return fe_tuple(s, both, 2);
}

struct fe_val make_logmeanexp(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!softmax_args(c, axes, &n)) return fe_bad();
    struct fe_val x = ARG(0), sum = FE_APPLY(s, "logsumexp", x, ARG(1), fe_none(), ARG(3), ARG(2));
    struct ir_type t = fe_type_at(s, &x);
    double count = 1;
    for (uint32_t i = 0; i < n; i++) count *= (double)t.dim[axes[i]];
    if (fe_is_none(&ARG(2))) return fe_sub(s, sum, fe_float(log(count)));
    struct fe_val mask = fe_broadcast_val(s, fe_boolean(s, ARG(2)), t.rank, t.dim);
    struct fe_reduce_options o = {.keepdims = fe_truth(&ARG(3))};
    struct fe_val real = fe_reduce(s, FE_RED_SUM, fe_cast(s, mask, (enum ir_dtype)t.dtype), axes, n, &o);
    return fe_sub(s, sum, fe_op1(s, OP_log, real));
}

struct fe_val make_standardize(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!softmax_args(c, axes, &n)) return fe_bad();
    struct fe_val x = ARG(0), mean = ARG(2), variance = ARG(3);
    struct fe_reduce_options keep = {.keepdims = true, .where = &ARG(5)};
    if (fe_is_none(&mean)) mean = fe_reduce(s, FE_RED_MEAN, x, axes, n, &keep);
    if (fe_is_none(&variance))
        variance = fe_sub(s, fe_reduce(s, FE_RED_MEAN, fe_mul(s, x, x), axes, n, &keep), fe_mul(s, mean, mean));
    return fe_mul(s, fe_sub(s, x, mean), fe_op1_float(s, OP_rsqrt, fe_add(s, variance, ARG(4))));
}

/* ---------------------------------------------------------------- one-hot, masks, attention */

struct fe_val fe_one_hot_mask(struct fe_site *s, struct fe_val labels, int64_t classes, uint32_t axis)
{
    struct fe_val wide = fe_expand(s, labels, axis);
    if (wide.bad) return wide;
    struct ir_type t = fe_type_at(s, &wide);
    t.dim[axis] = classes;
    t.dtype = IR_I32;
    return fe_binary(s, EXPR_OP_EQ, fe_iota(s, t, axis), wide);
}

struct fe_val make_one_hot(struct fe_call *c)
{
    SITE;
    int64_t classes, axis;
    uint32_t at;
    enum ir_dtype d;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_int(c, 1, &classes) || !fe_get_dtype(c, 2, &d) ||
        !fe_get_int(c, 3, &axis) || !fe_get_axis(s, axis, fe_rank(s, &ARG(0)) + 1, &at))
        return fe_bad();
    if (classes < 0) return fe_fail(s, "E0212", "one_hot: a negative number of classes");
    return fe_cast(s, fe_one_hot_mask(s, ARG(0), classes, at), d);
}

static struct fe_val leading_ones(struct fe_call *c, struct fe_val v, uint32_t arg)
{
    int64_t extra;
    if (!fe_get_int(c, arg, &extra)) return fe_bad();
    for (int64_t i = 0; i < extra && !v.bad; i++) v = fe_expand(c->site, v, 0);
    return v;
}

/* [.., q] and [.., k] -> [.., 1, q, k] */
static struct fe_val attention_mask(struct fe_site *s, enum expr_operator op, struct fe_val q, struct fe_val k)
{
    if (!fe_as_tensor(s, &q) || !fe_as_tensor(s, &k)) return fe_bad();
    if (!fe_rank(s, &q) || !fe_rank(s, &k)) return fe_fail(s, "E0212", "a mask needs tensors of rank 1 or more");
    q = fe_expand(s, q, fe_rank(s, &q));
    k = fe_expand(s, k, fe_rank(s, &k) - 1);
    struct fe_val m = fe_binary(s, op, q, k);
    return m.bad ? m : fe_expand(s, m, fe_rank(s, &m) - 2);
}

struct fe_val make_causal_mask_of(struct fe_call *c)
{
    SITE;
    enum ir_dtype d;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_dtype(c, 2, &d)) return fe_bad();
    struct ir_type t = fe_type_at(s, &ARG(0));
    if (!t.rank) return fe_fail(s, "E0212", "a causal mask needs a tensor of rank 1 or more");
    t.dtype = IR_I32;
    struct fe_val positions = fe_iota(s, t, t.rank - 1u);
    return leading_ones(c, fe_cast(s, attention_mask(s, EXPR_OP_GE, positions, positions), d), 1);
}

struct fe_val make_attention_mask_of(struct fe_call *c)
{
    enum ir_dtype d;
    if (!fe_get_dtype(c, 3, &d)) return fe_bad();
    return leading_ones(c, fe_cast(c->site, attention_mask(c->site, EXPR_OP_MUL, ARG(0), ARG(1)), d), 2);
}

struct fe_val make_combined_masks(struct fe_call *c)
{
    SITE;
    enum ir_dtype d;
    struct fe_val all = fe_none();
    for (uint32_t i = 0; i < c->rest_count; i++)
        if (!fe_is_none(&c->rest[i])) all = fe_is_none(&all) ? c->rest[i] : FE_APPLY(s, "logical_and", all, c->rest[i]);
    if (fe_is_none(&all) || all.bad) return all;
    return fe_get_dtype(c, 0, &d) ? fe_cast(s, fe_boolean(s, all), d) : fe_bad();
}

enum { QUERY, KEY, VALUE, BIAS, MASK, SCALE, CAUSAL, QUERY_LENGTHS, KEY_LENGTHS, WINDOW, IMPLEMENTATION };

static struct fe_val both(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    return fe_is_none(&a) ? b : fe_op2(s, OP_and, a, b);
}

/* positions along `axis` of int32[nq, nk] below lengths[batch], as bool[batch, 1, nq, nk] */
static struct fe_val below_length(struct fe_site *s, struct fe_val lengths, struct fe_val positions)
{
    if (!fe_as_tensor(s, &lengths)) return fe_bad();
    struct ir_type t = fe_type_at(s, &lengths);
    if (t.rank != 1)
        return fe_fail(s, "E0212", "attention: lengths must have one dimension, found %s", fe_describe(s, &lengths));
    return fe_binary(s, EXPR_OP_LT, positions, fe_reshape_val(s, lengths, 4, (int64_t[]){t.dim[0], 1, 1, 1}));
}

/* Which scores count. None: all. */
static struct fe_val attention_keep(struct fe_call *c, int64_t nq, int64_t nk)
{
    SITE;
    struct ir_type t = ir_type_of(IR_I32, 2, (int64_t[]){nq, nk});
    struct fe_val q = fe_iota(s, t, 0), k = fe_iota(s, t, 1);
    struct fe_val keep = fe_is_none(&ARG(MASK)) ? fe_none() : fe_boolean(s, ARG(MASK));
    if (fe_truth(&ARG(CAUSAL))) keep = both(s, keep, fe_binary(s, EXPR_OP_GE, q, k));
    if (!fe_is_none(&ARG(QUERY_LENGTHS))) keep = both(s, keep, below_length(s, ARG(QUERY_LENGTHS), q));
    if (!fe_is_none(&ARG(KEY_LENGTHS))) keep = both(s, keep, below_length(s, ARG(KEY_LENGTHS), k));
    if (keep.bad || fe_is_none(&ARG(WINDOW))) return keep;
    int64_t window[2];
    uint32_t n;
    if (!fe_get_ints(s, &ARG(WINDOW), window, 2, &n, "local_window_size")) return fe_bad();
    if (n == 1) window[1] = window[0];
    keep = both(s, keep, fe_binary(s, EXPR_OP_LE, q, fe_add(s, k, fe_int((double)window[0]))));
    return both(s, keep, fe_binary(s, EXPR_OP_GE, q, fe_sub(s, k, fe_int((double)window[1]))));
}

static bool attention_fits(struct fe_site *s, const struct fe_val *q, const struct fe_val *k, const struct fe_val *v)
{
    struct ir_type tq = fe_type_at(s, q), tk = fe_type_at(s, k), tv = fe_type_at(s, v);
    uint32_t r = tq.rank;
    bool fits = r >= 3 && tk.rank == r && tv.rank == r;
    for (uint32_t i = 0; fits && i + 3 < r; i++) fits = tq.dim[i] == tk.dim[i] && tk.dim[i] == tv.dim[i];
    if (fits && tk.dim[r - 3] == tv.dim[r - 3] && tk.dim[r - 2] == tv.dim[r - 2] && tq.dim[r - 1] == tk.dim[r - 1] &&
        tk.dim[r - 2] > 0 && tq.dim[r - 2] % tk.dim[r - 2] == 0)
        return true;
    fe_fail(s, "E0210", "attention: query %s, key %s and value %s do not fit; expected [.., length, heads, depth]",
            fe_describe(s, q), fe_describe(s, k), fe_describe(s, v));
    return false;
}

/* softmax(q k^T / sqrt(d)) v over [.., length, heads, depth], weights in float32; fewer key heads are shared by
 * groups of query heads; masked scores are -0.7 of the largest float32. */
struct fe_val make_attention(struct fe_call *c)
{
    SITE;
    struct fe_val q = ARG(QUERY), k = ARG(KEY), v = ARG(VALUE), scale = ARG(SCALE), kind = ARG(IMPLEMENTATION);
    if (!fe_is_none(&kind) &&
        (kind.kind != FE_VAL_STRING || strcmp(kind.string, "xla") != 0)) /* one of them, or any: it is stepc's */
        return fe_fail(s, "E0312", "dot_product_attention has the implementation 'xla' or None");
    if (!fe_as_tensor(s, &q) || !fe_as_tensor(s, &k) || !fe_as_tensor(s, &v) || !attention_fits(s, &q, &k, &v))
        return fe_bad();
    struct ir_type tq = fe_type_at(s, &q), tk = fe_type_at(s, &k);
    uint32_t r = tq.rank;
    int64_t groups = tq.dim[r - 2] / tk.dim[r - 2], nq = tq.dim[r - 3];
    if (groups > 1) {
        k = FE_APPLY(s, "repeat", k, fe_int((double)groups), fe_int(-2));
        v = FE_APPLY(s, "repeat", v, fe_int((double)groups), fe_int(-2));
    }
    struct fe_val pair_qk[] = {fe_cast(s, q, IR_F32), fe_cast(s, k, IR_F32)};
    struct fe_val scores = fe_einsum(s, "...qhd,...khd->...hqk", pair_qk, 2);
    scores = fe_mul(s, scores, fe_is_none(&scale) ? fe_float(1 / sqrt((double)tq.dim[r - 1])) : scale);
    if (!fe_is_none(&ARG(BIAS))) scores = fe_add(s, scores, ARG(BIAS));
    struct fe_val keep = attention_keep(c, nq, tk.dim[r - 3]);
    if (!fe_is_none(&keep)) scores = fe_where3(s, keep, scores, fe_float(-0.7 * 3.4028234663852886e38));
    if (scores.bad) return scores;
    uint32_t last = fe_rank(s, &scores) - 1;
    struct fe_val weights = fe_softmax_parts(s, scores, &last, 1, NULL, NULL);
    struct fe_val pair_wv[] = {fe_cast(s, weights, (enum ir_dtype)tq.dtype), v};
    struct fe_val y = fe_einsum(s, "...hqk,...khd->...qhd", pair_wv, 2);
    if (fe_is_none(&ARG(QUERY_LENGTHS)) || y.bad) return y;
    /* Rows behind a query's length are zero. */
    struct ir_type t = fe_type_at(s, &y);
    t.dtype = IR_I32;
    struct fe_val real = below_length(s, ARG(QUERY_LENGTHS), fe_iota(s, t, r - 3));
    return fe_mul(s, y, fe_cast(s, real, (enum ir_dtype)tq.dtype));
}

struct fe_val fe_activation(struct fe *fe, struct fe_trace *trace, fe_json object, struct fe_val x, bool is_block)
{
    struct fe_site s = {.fe = fe, .trace = trace, .b = trace->b, .where = {.json = object}};
    const char *name = object->kind == JSON_STRING ? object->string : fe_type_of(fe, object);
    if (!name) return fe_bad();
    const struct fe_function *f = fe_function_find(fe_library(fe), name);
    fe_json type = object->kind == JSON_STRING ? object : fe_member(fe, object, "type");
    if (!f || !(f->flags & FE_ACTIVATION)) {
        size_t count;
        const char *const *names = fe_function_names(fe_library(fe), FE_ACTIVATION, &count);
        fe_suggest(fe, fe_error(fe, type, "E0105", "unknown activation \"%s\"", name), name, names, count);
        return fe_bad();
    }
    struct fe_val args[FE_MAX_ARGS + 1] = {x};
    const char *names[FE_MAX_ARGS + 1] = {NULL};
    struct fe_where wheres[FE_MAX_ARGS + 1] = {s.where};
    const char *const *known = fe_signature_names(fe->arena, f);
    uint32_t n = 1;
    size_t known_count = 0;
    bool bad = x.bad;
    while (known[known_count]) known_count++;
    for (fe_json m = object->kind == JSON_OBJECT ? fe_first(fe, object) : NULL; m; m = fe_next(fe, m)) {
        static const char *const block_keys[] = {"type", "name", "input", "inputs"};
        bool own = false, found = false;
        for (size_t i = 0; i < (is_block ? 4 : 1); i++) own |= !strcmp(m->key, block_keys[i]);
        if (own) continue;
        for (size_t i = 1; i < known_count; i++) found |= !strcmp(m->key, known[i]);
        if (!found) {
            fe_suggest(fe, fe_error_key(fe, m, "E0107", "unknown key \"%s\" in activation \"%s\"", m->key, name),
                       m->key, known + 1, known_count - 1);
            bad = true;
            continue;
        }
        args[n] = fe_literal(&s, m, trace->env, true);
        names[n] = m->key;
        wheres[n] = (struct fe_where){.json = m};
        bad |= args[n++].bad;
    }
    if (bad) return fe_bad();
    struct fe_hook hook = fe_hook_set(&s);
    struct fe_val v = fe_call_function(&s, f, args, names, wheres, n);
    fe_hook_reset(&s, hook);
    return v;
}
