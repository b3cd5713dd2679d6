/* Losses over sets, lists and masks: segmentation (dice), ranking, embeddings (ntxent, triplet), sparsemax, and T5X's
 * weighted cross-entropy. Formulas: optax.losses and t5x.losses. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

static struct fe_val floats_of(struct fe_call *c, uint32_t arg) { return fe_inexact(c->site, ARG(arg)); }

static bool matrix(struct fe_call *c, struct fe_val v, uint32_t least, const char *what)
{
    if (v.bad) return false;
    if (fe_rank(c->site, &v) >= least) return true;
    fe_fail(c->site, "E0212", "%s: %s must have %u dimensions or more, found %s", c->function, what, (unsigned)least,
            fe_describe(c->site, &v));
    return false;
}

/* ---------------------------------------------------------------- dice */

struct dice {
    struct fe_val class_weights, smooth, alpha, beta;
    bool probabilities, ignore_background;
};

/* Per class, the leading axis being the batch and the last one the classes. */
static struct fe_val dice_per_class(struct fe_site *s, struct fe_val x, struct fe_val y, const struct dice *d,
                                    const uint32_t *axes, uint32_t n)
{
    if (x.bad || y.bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    int64_t classes = t.dim[t.rank - 1];
    if (!d->probabilities) x = classes == 1 ? fe_op1(s, OP_logistic, x) : FE_APPLY(s, "softmax", x);
    struct fe_val hit = fe_reduce(s, FE_RED_SUM, fe_mul(s, x, y), axes, n, NULL);
    struct fe_val miss = fe_sub(s, fe_reduce(s, FE_RED_SUM, x, axes, n, NULL), hit);
    struct fe_val lost = fe_sub(s, fe_reduce(s, FE_RED_SUM, y, axes, n, NULL), hit);
    struct fe_val below = fe_add(s, fe_add(s, hit, fe_mul(s, d->alpha, miss)), fe_mul(s, d->beta, lost));
    struct fe_val loss = one_minus(s, fe_div(s, fe_add(s, hit, d->smooth), fe_add(s, below, d->smooth)));
    if (!fe_is_none(&d->class_weights)) loss = fe_mul(s, loss, d->class_weights);
    if (!d->ignore_background || classes == 1 || loss.bad) return loss;
    return fe_slice_axis(s, loss, fe_rank(s, &loss) - 1, 1, classes);
}

/* Predictions and targets as [batch, .., classes]; the axes between are summed. */
static bool dice_inputs(struct fe_call *c, struct fe_val *x, struct fe_val *y, uint32_t *axes, uint32_t *n)
{
    SITE;
    *x = floats_of(c, 0);
    *y = floats_of(c, 1);
    if (x->bad || y->bad) return false;
    if (fe_rank(s, x) + 1 == fe_rank(s, y)) *x = fe_expand(s, *x, fe_rank(s, x));
    else if (fe_rank(s, y) + 1 == fe_rank(s, x)) *y = fe_expand(s, *y, fe_rank(s, y));
    struct ir_type tx = fe_type_at(s, x), ty = fe_type_at(s, y);
    if (tx.rank < 2 || tx.rank != ty.rank || memcmp(tx.dim, ty.dim, sizeof tx.dim)) {
        fe_fail(s, "E0210", "%s: predictions %s and targets %s must have the same shape [batch, .., classes]",
                c->function, fe_describe(s, x), fe_describe(s, y));
        return false;
    }
    *n = 0;
    for (uint32_t i = 1; i + 1 < tx.rank; i++) axes[(*n)++] = i;
    return true;
}

struct fe_val loss_dice(struct fe_call *c)
{
    SITE;
    struct fe_val x, y;
    uint32_t axes[IR_MAX_RANK], n;
    if (!dice_inputs(c, &x, &y, axes, &n)) return fe_bad();
    if (!fe_is_none(&ARG(9)) && !fe_get_axes(c, 9, fe_rank(s, &x), axes, &n)) return fe_bad();
    struct dice d = {ARG(2), ARG(3), ARG(4), ARG(5), !fe_truth(&ARG(6)), fe_truth(&ARG(8))};
    struct fe_val loss = dice_per_class(s, x, y, &d, axes, n);
    const char *reduction = ARG(7).kind == FE_VAL_STRING ? ARG(7).string : "none";
    if (!strcmp(reduction, "none")) return loss;
    return fe_reduce_last(s, !strcmp(reduction, "sum") ? FE_RED_SUM : FE_RED_MEAN, loss, false);
}

struct fe_val loss_binary_dice(struct fe_call *c)
{
    SITE;
    struct fe_val x, y;
    uint32_t axes[IR_MAX_RANK], n;
    if (!dice_inputs(c, &x, &y, axes, &n)) return fe_bad();
    if (fe_type_at(s, &x).dim[fe_rank(s, &x) - 1] != 1) {
        x = fe_expand(s, x, fe_rank(s, &x));
        y = fe_expand(s, y, fe_rank(s, &y));
        axes[n] = n + 1;
        n++;
    }
    struct dice d = {fe_none(), ARG(2), fe_float(0.5), fe_float(0.5), !fe_truth(&ARG(3)), false};
    return fe_reduce_last(s, FE_RED_MEAN, dice_per_class(s, x, y, &d, axes, n), false);
}

struct fe_val loss_generalized_dice(struct fe_call *c)
{
    SITE;
    struct fe_val x, y;
    uint32_t axes[IR_MAX_RANK], n, rows[IR_MAX_RANK];
    if (!dice_inputs(c, &x, &y, axes, &n)) return fe_bad();
    for (uint32_t i = 0; i < IR_MAX_RANK; i++) rows[i] = i;
    struct ir_type t = fe_type_at(s, &y);
    struct fe_val frequency = fe_reduce(s, FE_RED_SUM, y, rows, t.rank - 1u, NULL);
    struct fe_val w = fe_div(s, fe_float(1), fe_add(s, fe_mul(s, frequency, frequency), fe_float(1e-7)));
    w = fe_mul(s, fe_div(s, w, fe_reduce_all(s, FE_RED_SUM, w)), fe_float((double)t.dim[t.rank - 1]));
    struct dice d = {w, ARG(2), fe_float(0.5), fe_float(0.5), !fe_truth(&ARG(3)), fe_truth(&ARG(4))};
    return fe_reduce_all(s, FE_RED_MEAN, dice_per_class(s, x, y, &d, axes, n));
}

/* ---------------------------------------------------------------- ranking, embeddings */

struct fe_val loss_ranking_softmax(struct fe_call *c)
{
    SITE;
    struct fe_val x = floats_of(c, 0), where = ARG(2);
    if (!matrix(c, x, 1, "logits")) return fe_bad();
    struct fe_val y = fe_cast(s, ARG(1), (enum ir_dtype)fe_type_at(s, &x).dtype);
    uint32_t last = fe_rank(s, &x) - 1;
    bool masked = !fe_is_none(&where);
    if (masked) {
        y = fe_where3(s, where, y, fe_float(0));
        x = fe_where3(s, where, x, fe_float(-INFINITY));
    }
    if (!fe_is_none(&ARG(3))) y = fe_mul(s, y, ARG(3));
    struct fe_val terms = fe_mul(s, y, FE_APPLY(s, "log_softmax", x));
    if (masked) terms = fe_where3(s, where, terms, fe_float(0));
    struct fe_val loss = neg(s, fe_reduce(s, FE_RED_SUM, terms, &last, 1, NULL));
    struct fe_val any = masked ? fe_reduce(s, FE_RED_ANY, fe_boolean(s, where), &last, 1, NULL) : fe_none();
    if (fe_is_none(&ARG(4))) return masked ? fe_where3(s, any, loss, fe_float(0)) : loss;
    if (masked) loss = fe_where3(s, any, loss, fe_float(0));
    struct fe_val sum = fe_reduce_all(s, FE_RED_SUM, loss);
    if (ARG(4).kind == FE_VAL_STRING && !strcmp(ARG(4).string, "sum")) return sum;
    if (!masked) return fe_reduce_all(s, FE_RED_MEAN, loss);
    struct fe_val count = fe_reduce_all(s, FE_RED_SUM, any); /* no list at all: 0 */
    return fe_div(s, sum, fe_op2(s, OP_max, count, fe_int(1)));
}

struct fe_val loss_ntxent(struct fe_call *c)
{
    SITE;
    struct fe_val x = floats_of(c, 0), y = ARG(1);
    if (!matrix(c, x, 2, "embeddings") || !fe_as_tensor(s, &y)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x), ty = fe_type_at(s, &y);
    if (t.rank != 2 || ty.rank != 1 || ty.dim[0] != t.dim[0])
        return fe_fail(s, "E0210", "ntxent: embeddings %s and labels %s do not fit", fe_describe(s, &x),
                       fe_describe(s, &y));
    struct fe_val near = FE_APPLY(s, "cosine_similarity", fe_expand(s, x, 0), fe_expand(s, x, 1),
                                  fe_float(1.1920928955078125e-7));
    near = fe_div(s, near, ARG(2));
    struct ir_type square = ir_type_of(IR_I32, 2, (int64_t[]){t.dim[0], t.dim[0]});
    struct fe_val same = fe_binary(s, EXPR_OP_EQ, fe_expand(s, y, 1), fe_expand(s, y, 0)),
                  other = fe_op1(s, OP_not, same);
    struct fe_val off = fe_binary(s, EXPR_OP_NE, fe_iota(s, square, 0), fe_iota(s, square, 1));
    struct fe_val match = fe_op2(s, OP_and, same, off), used = fe_op2(s, OP_or, match, other),
                  least = fe_float(-INFINITY);
    struct fe_val top = fe_stop(s, fe_reduce_last(s, FE_RED_MAX, fe_where3(s, used, near, least), true));
    struct fe_val shifted = fe_sub(s, near, top);
    struct fe_val negatives = fe_reduce_last(s, FE_RED_SUM,
                                             fe_where3(s, other, fe_op1(s, OP_exp, shifted), fe_float(0)), true);
    struct fe_val positive = fe_where3(s, match, shifted, fe_float(0)); /* what is not used stays finite */
    struct fe_val log_p = fe_sub(s, positive, fe_op1(s, OP_log, fe_add(s, negatives, fe_op1(s, OP_exp, positive))));
    struct fe_val sum = fe_reduce_all(s, FE_RED_SUM, fe_where3(s, match, log_p, fe_float(0)));
    return neg(s, fe_div(s, sum, fe_reduce_all(s, FE_RED_SUM, match)));
}

static struct fe_val triplet_distance(struct fe_call *c, struct fe_val other)
{
    SITE;
    struct fe_val d = fe_binary(s, EXPR_OP_POW, fe_sub(s, ARG(0), other), ARG(4));
    if (ARG(4).kind != FE_VAL_NUMBER || ARG(4).number == 0)
        return fe_fail(s, "E0310", "norm_degree must be a number other than 0");
    d = fe_add(s, FE_APPLY(s, "sum", d, ARG(3)), ARG(6));
    return fe_binary(s, EXPR_OP_POW, d, fe_float(1 / ARG(4).number));
}

struct fe_val loss_triplet_margin(struct fe_call *c)
{
    SITE;
    struct fe_val gap = fe_sub(s, triplet_distance(c, ARG(1)), triplet_distance(c, ARG(2)));
    return fe_op2(s, OP_max, fe_add(s, gap, ARG(5)), fe_float(0));
}

/* ---------------------------------------------------------------- sparsemax */

struct fe_val loss_sparsemax(struct fe_call *c)
{
    SITE;
    struct fe_val x = floats_of(c, 0);
    return FE_APPLY(s, "sparse_plus", fe_where3(s, fe_boolean(s, ARG(1)), neg(s, x), x));
}

/* Projection of the last axis on the simplex without sorting: element j is in the support if 1 + k x_j exceeds the
 * sum of the k elements that are at least x_j. */
static struct fe_val simplex(struct fe_site *s, struct fe_val x)
{
    uint32_t rank = fe_rank(s, &x);
    struct fe_val still = fe_stop(s, x), row = fe_expand(s, still, rank), column = fe_expand(s, still, rank - 1);
    struct fe_val above = fe_binary(s, EXPR_OP_GE, column, row); /* [.., j, i]: x_i >= x_j */
    struct fe_val count = fe_reduce_last(s, FE_RED_SUM, fe_cast(s, above, IR_F32), false);
    struct fe_val sum = fe_reduce_last(s, FE_RED_SUM, fe_where3(s, above, column, fe_float(0)), false);
    struct fe_val in = fe_binary(s, EXPR_OP_GT, fe_add(s, fe_float(1), fe_mul(s, count, still)), sum);
    struct fe_val size = fe_reduce_last(s, FE_RED_SUM, fe_cast(s, in, IR_F32), true);
    struct fe_val inside = fe_reduce_last(s, FE_RED_SUM, fe_where3(s, in, x, fe_float(0)), true);
    struct fe_val threshold = fe_div(s, fe_sub(s, inside, fe_float(1)), size);
    return fe_where3(s, in, fe_sub(s, x, threshold), fe_float(0));
}

struct fe_val loss_multiclass_sparsemax(struct fe_call *c)
{
    SITE;
    struct fe_val x = floats_of(c, 0), y = ARG(1);
    if (!matrix(c, x, 1, "scores") || !fe_as_tensor(s, &y)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    if (fe_rank(s, &y) + 1 != t.rank)
        return fe_fail(s, "E0210", "%s: labels %s do not fit scores %s", c->function, fe_describe(s, &y),
                       fe_describe(s, &x));
    struct fe_val hit = fe_one_hot_mask(s, y, t.dim[t.rank - 1], t.rank - 1u), p = simplex(s, x);
    struct fe_val own = fe_reduce_last(s, FE_RED_SUM, fe_where3(s, hit, x, fe_float(0)), true);
    struct fe_val dot = fe_reduce_last(s, FE_RED_SUM, fe_mul(s, p, fe_sub(s, x, own)), false);
    struct fe_val rest = one_minus(s, fe_reduce_last(s, FE_RED_SUM, fe_mul(s, p, p), false));
    return fe_add(s, dot, fe_mul(s, fe_float(0.5), rest));
}

/* ---------------------------------------------------------------- T5X */

enum { LOGITS, TARGETS, WEIGHTS, SMOOTHING, Z_LOSS, FACTOR, SEGMENTS, POSITIONS };

/* Every token's weight divided by those of its sequence (of its segment, if rows are packed). */
static struct fe_val per_sequence(struct fe_call *c, struct fe_val w)
{
    SITE;
    struct fe_val sum;
    if (fe_is_none(&ARG(SEGMENTS))) sum = fe_reduce_last(s, FE_RED_SUM, w, true);
    else {
        struct fe_val id = ARG(SEGMENTS);
        if (!fe_as_tensor(s, &id)) return fe_bad();
        struct ir_type ti = fe_type_at(s, &id), ty = fe_type_at(s, &ARG(TARGETS));
        uint32_t rank = ti.rank;
        bool fits = rank == ty.rank;
        for (uint32_t i = 0; fits && i < rank; i++) fits = ti.dim[i] == ty.dim[i];
        if (!fits)
            return fe_fail_at(s, &c->where[SEGMENTS], "E0210", "%s: segment ids %s do not fit targets %s", c->function,
                              fe_describe(s, &id), fe_describe(s, &ARG(TARGETS))),
                   fe_bad();
        struct fe_val same = fe_binary(s, EXPR_OP_EQ, fe_expand(s, id, rank), fe_expand(s, id, rank - 1));
        sum = fe_reduce_last(s, FE_RED_SUM, fe_where3(s, same, fe_expand(s, w, rank - 1), fe_float(0)), false);
    }
    struct fe_val empty = fe_binary(s, EXPR_OP_EQ, sum, fe_float(0));
    return fe_where3(s, empty, fe_float(0), fe_div(s, w, fe_where3(s, empty, fe_float(1), sum)));
}

struct fe_val loss_weighted_cross_entropy(struct fe_call *c)
{
    SITE;
    struct fe_val x = floats_of(c, LOGITS), y = ARG(TARGETS), none = fe_none(), log_sum;
    if (!matrix(c, x, 2, "logits") || !fe_as_tensor(s, &y)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x), ty = fe_type_at(s, &y);
    uint32_t last = t.rank - 1u;
    bool fits = ty.rank == last && ir_dtype_is_integer((enum ir_dtype)ty.dtype);
    for (uint32_t i = 0; fits && i < last; i++) fits = ty.dim[i] == t.dim[i];
    if (!fits)
        return fe_fail(s, "E0210", "%s: targets %s do not fit logits %s", c->function, fe_describe(s, &y),
                       fe_describe(s, &x));
    if (ARG(SMOOTHING).kind != FE_VAL_NUMBER) return fe_fail(s, "E0310", "label_smoothing must be a number");
    double classes = (double)t.dim[last], sure = 1 - ARG(SMOOTHING).number,
           low = classes > 1 ? ARG(SMOOTHING).number / (classes - 1) : 0;
    double entropy = -((sure > 0 ? sure * log(sure) : 0) + (classes - 1) * low * log(low + 1e-20));
    struct fe_val shifted = fe_softmax_parts(s, x, &last, 1, &none, &log_sum);
    struct fe_val soft = fe_where3(s, fe_one_hot_mask(s, y, t.dim[last], last), fe_float(sure), fe_float(low));
    struct fe_val loss = neg(s, fe_reduce_last(s, FE_RED_SUM, fe_mul(s, soft, fe_sub(s, shifted, log_sum)), false));
    struct fe_val log_z = FE_APPLY(s, "logsumexp", x, fe_int(-1));
    if (!(ARG(Z_LOSS).kind == FE_VAL_NUMBER && ARG(Z_LOSS).number == 0))
        loss = fe_add(s, loss, fe_mul(s, ARG(Z_LOSS), fe_mul(s, log_z, log_z)));
    if (entropy != 0) loss = fe_sub(s, loss, fe_float(entropy));
    const char *factor = ARG(FACTOR).kind == FE_VAL_STRING ? ARG(FACTOR).string : "";
    ty.dtype = IR_F32;
    struct fe_val w = ARG(WEIGHTS);
    if (!fe_is_none(&w)) w = fe_broadcast_val(s, w, ty.rank, ty.dim);
    else
        w = *factor ? fe_cast(s, fe_binary(s, EXPR_OP_GT, y, fe_int(0)), IR_F32) : fe_full(s, ty, 1); /* 0 is padding */
    struct fe_val by = ARG(FACTOR).kind == FE_VAL_STRING ? fe_none() : ARG(FACTOR);
    if (!strcmp(factor, "AVERAGE_PER_SEQUENCE")) w = per_sequence(c, w);
    if (!strcmp(factor, "NUM_REAL_TARGET_TOKENS") || !strcmp(factor, "AVERAGE_PER_SEQUENCE"))
        by = fe_reduce_all(s, FE_RED_SUM, w);
    else if (!strcmp(factor, "NUM_TOTAL_TARGET_TOKENS")) by = fe_float((double)ir_type_elements(&ty));
    else if (*factor)
        return fe_fail_at(s, &c->where[FACTOR], "E0103",
                          "loss_normalizing_factor is a number, NUM_REAL_TARGET_TOKENS, NUM_TOTAL_TARGET_TOKENS or "
                          "AVERAGE_PER_SEQUENCE, found \"%s\"",
                          factor),
               fe_bad();
    struct fe_val sum = fe_reduce_all(s, FE_RED_SUM, fe_mul(s, loss, w));
    return fe_is_none(&by) ? sum : fe_div(s, sum, by);
}
