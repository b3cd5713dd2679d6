/* Optimizers that find their own step size: from the distance to where they began, from bets, or from the loss.
 * Formulas and order of operations are those of optax.contrib. Initial parameters are those of the first step. */
#include "frontend/optim/optim.h"
#include <math.h>
#include <string.h>

enum { ROUNDING_EXPONENT = -52 }; /* jnp.finfo(float).eps = 2**-52 */

static struct fe_term scalar_state(struct optim_transform *t, const char *name, double initial)
{
    return optim_state(t, name, ir_type_scalar(optim_lowest(t)), (struct optim_start){.number = initial});
}

static ir_value *differences(struct optim_transform *t, const ir_value *x, const ir_value *y)
{
    ir_value *d = optim_new_tree(t);
    EACH_LEAF(t, i) d[i] = term_sub(t->b, T(x[i]), T(y[i])).v;
    return d;
}

static void scale_all(struct optim_transform *t, struct fe_term rate)
{
    EACH_LEAF(t, i) t->u[i] = term_mul(t->b, rate, T(t->u[i])).v;
}

/* decay * m + (1 - decay) * g * g, in this order: 16-bit parameters notice it */
static struct fe_term square_moment(struct ir_builder *b, struct fe_term g, struct fe_term m, struct fe_term decay)
{
    return term_add(b, term_mul(b, decay, m), term_mul(b, term_mul(b, term_sub(b, term_integer(1), decay), g), g));
}

static struct fe_term sum_of_abs(struct optim_transform *t, const ir_value *tree)
{
    struct fe_term sum = term_integer(0);
    EACH_LEAF(t, i) sum = term_add(t->b, sum, term_sum(t->b, term_abs(t->b, T(tree[i]))));
    return sum;
}

/* ---------------------------------------------------------------- distance over gradients (Ivgi et al. 2023) */

/* ["heuristic" | "distance" | "learning_rate", number] */
static bool read_init_step(struct optim_transform *t, char *kind, double *value)
{
    static const char *const kinds[] = {"heuristic", "distance", "learning_rate"};
    fe_json list = arg(t, "init_step")->json, name = list ? fe_first(t->fe, list) : NULL,
            second = name ? fe_next(t->fe, name) : NULL;
    *kind = 'h';
    *value = 1e-6;
    if (!list) return true;
    bool pair = second && !fe_next(t->fe, second) && name->kind == JSON_STRING;
    for (int i = 0; pair && i < 3; i++)
        if (strcmp(name->string, kinds[i]) == 0) {
            *kind = kinds[i][0];
            return fe_number(t->fe, second, value);
        }
    struct diag *d = fe_error(t->fe, pair ? name : list, "E0103",
                              "\"init_step\" is [\"heuristic\", \"distance\" or \"learning_rate\", number], found %s",
                              fe_found(t->fe, pair ? name : list));
    if (pair) fe_suggest(t->fe, d, name->string, kinds, 3);
    return false;
}

void transform_dog(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    char kind;
    double initial;
    if (!read_init_step(t, &kind, &initial)) return;
    optim_chain(t, "add_decayed_weights?weight_decay", 0);
    struct optim_transform inner = *t;
    inner.path = optim_path(t, "1");
    struct fe_term first = optim_state(&inner, "is_init_step", ir_type_scalar(IR_BOOL),
                                       (struct optim_start){.number = 1}),
                   start = term_number(kind == 'l' ? 0 : initial);
    optim_state_set(&inner, "is_init_step", T(ir_scalar(b, IR_BOOL, 0)));
    ir_value *init = optim_first_params(&inner, "init_params", IR_TUPLE);
    if (kind == 'h') {
        struct fe_term norm = term_sqrt(b, optim_square_sum(t, init));
        start = term_mul(b, term_number(initial), term_add(b, term_integer(1), norm));
    }
    struct fe_term most = scalar_state(&inner, "max_dist", 0), sum = scalar_state(&inner, "sum_sq_norm_grads", 0);
    most = term_where(b, first, term_cast_like(b, start, most), most);
    most = term_max(b, most, term_sqrt(b, optim_square_sum(t, differences(t, init, t->p))));
    sum = term_add(b, sum, optim_square_sum(t, t->u));
    optim_state_set(&inner, "max_dist", most);
    optim_state_set(&inner, "sum_sq_norm_grads", sum);
    struct fe_term rate = term_div(b, most, term_sqrt(b, term_add(b, sum, number(t, "eps"))));
    scale_all(t, kind == 'l' ? term_where(b, first, term_number(initial), rate) : rate);
    optim_chain(t, "scale_by_learning_rate", 2);
}

void transform_dowg(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    optim_chain(t, "add_decayed_weights?weight_decay", 0);
    struct optim_transform inner = *t;
    inner.path = optim_path(t, "1");
    ir_value *init = optim_first_params(&inner, "init_params", IR_TUPLE);
    double initial = absent(t, "init_estim_sq_dist") ? arg(t, "eps")->number : arg(t, "init_estim_sq_dist")->number;
    struct fe_term distance = scalar_state(&inner, "estim_sq_dist", initial),
                   sum = scalar_state(&inner, "weighted_sq_norm_grads", 0);
    distance = term_max(b, distance, optim_square_sum(t, differences(t, init, t->p)));
    sum = term_add(b, term_mul(b, distance, optim_square_sum(t, t->u)), sum);
    optim_state_set(&inner, "estim_sq_dist", distance);
    optim_state_set(&inner, "weighted_sq_norm_grads", sum);
    scale_all(t, term_div(b, distance, term_add(b, term_sqrt(b, sum), number(t, "eps"))));
    optim_chain(t, "scale_by_learning_rate", 2);
}

/* The same per parameter. */
void transform_scale_by_distance_over_gradients(struct optim_transform *t)
{
    static const int64_t one[1] = {1};
    struct ir_builder *b = t->b;
    struct fe_term first = optim_first(t);
    enum ir_dtype kept = dtype_of(t, "param_dtype");
    ir_value *init = optim_first_params(t, "init_params", kept);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), exact = T(kept == IR_F32 ? init[i] : t->p[i]);
        struct fe_term norm = term_sqrt(b, term_sum(b, term_square(b, exact)));
        struct fe_term start = term_mul(b, number(t, "reps_rel"), term_add(b, term_integer(1), norm));
        struct fe_term far = term_sqrt(b, term_sum(b, term_square(b, term_sub(b, T(t->p[i]), T(init[i])))));
        struct fe_term most = optim_leaf(t, "max_dist", i, ir_type_scalar(IR_F32), zero);
        most = term_max(b, term_where(b, first, start, most), far);
        struct fe_term sum = optim_leaf(t, "grad_sum_of_squares", i, ir_type_of(IR_F32, 1, one), zero);
        sum = term_add(b, sum, term_sum(b, term_square(b, g)));
        optim_leaf_set(t, "max_dist", i, most);
        optim_leaf_set(t, "grad_sum_of_squares", i, sum);
        struct fe_term flat = T(ir_reshape(b, sum.v, 0, NULL));
        struct fe_term rate = term_div(b, most, term_sqrt(b, term_add(b, flat, number(t, "eps"))));
        t->u[i] = term_mul(b, term_mul(b, number(t, "global_scale"), rate), g).v;
    }
}

/* ---------------------------------------------------------------- D-adaptation and Prodigy */

static bool read_betas(struct optim_transform *t, struct fe_term *beta1, struct fe_term *beta2)
{
    const struct fe_value *betas = arg(t, "betas");
    if (betas->rank != 2) {
        fe_error(t->fe, betas->json, "E0103", "\"betas\" are two numbers, found %u", betas->rank);
        return false;
    }
    *beta1 = term_number(betas->numbers[0]), *beta2 = term_number(betas->numbers[1]);
    return true;
}

/* sqrt(1 - beta2**t) / (1 - beta1**t) */
static struct fe_term bias(struct ir_builder *b, struct fe_term beta1, struct fe_term beta2, struct fe_term count)
{
    return term_div(b, term_sqrt(b, correction(b, beta2, count)), correction(b, beta1, count));
}

/* d * learning_rate * bias, in the dtype that d is kept in */
static struct fe_term rate_of_estimate(struct optim_transform *t, struct fe_term estimate, struct fe_term count,
                                       struct fe_term correction_of_both)
{
    struct ir_builder *b = t->b;
    struct fe_term rate = term_mul(b, term_mul(b, estimate, at_count(t, "learning_rate", count)), correction_of_both);
    return term_cast_like(b, rate, estimate);
}

/* (Defazio, Mishchenko 2023) */
void transform_dadapt_adamw(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term beta1, beta2, one = term_integer(1), eps = number(t, "eps");
    if (!read_betas(t, &beta1, &beta2)) return;
    struct fe_term root = term_sqrt(b, beta2), rest = term_sub(b, one, root), before = counter(t, "count"),
                   count = optim_increment(b, before);
    struct fe_term estimate = scalar_state(t, "estim_lr", arg(t, "estim_lr0")->number),
                   weighted = scalar_state(t, "numerator_weighted", 0);
    struct fe_term rate = rate_of_estimate(t, estimate, before, bias(b, beta1, beta2, count));
    ir_value *avg = optim_tree(t, "exp_avg", IR_TUPLE, zero), *sq = optim_tree(t, "exp_avg_sq", IR_TUPLE, zero);
    ir_value *sum = optim_tree(t, "grad_sum", IR_TUPLE, zero), *scaled = optim_new_tree(t);
    EACH_LEAF(t, i) scaled[i] = term_div(b, T(sum[i]), term_add(b, term_sqrt(b, T(sq[i])), eps)).v;
    struct fe_term product = optim_dot(b, t->count, t->u, scaled);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]);
        avg[i] =
            term_add(b, term_mul(b, beta1, T(avg[i])), term_mul(b, term_mul(b, term_sub(b, one, beta1), rate), g)).v;
        sq[i] = square_moment(b, g, T(sq[i]), beta2).v;
        sum[i] = term_add(b, term_mul(b, root, T(sum[i])), term_mul(b, term_mul(b, rest, rate), g)).v;
        struct fe_term u = term_div(b, T(avg[i]), term_add(b, term_sqrt(b, T(sq[i])), eps));
        struct fe_term decay = term_mul(b, term_neg(b, term_mul(b, number(t, "weight_decay"), rate)), T(t->p[i]));
        t->u[i] = term_sub(b, decay, u).v;
    }
    weighted = term_add(b, term_mul(b, root, weighted), term_mul(b, term_mul(b, rest, rate), product));
    struct fe_term found = term_div(b, weighted, term_mul(b, rest, sum_of_abs(t, sum)));
    optim_state_set(t, "estim_lr", term_max(b, estimate, found));
    optim_state_set(t, "numerator_weighted", weighted);
    optim_state_set(t, "count", count);
    optim_tree_set(t, "exp_avg", avg);
    optim_tree_set(t, "exp_avg_sq", sq);
    optim_tree_set(t, "grad_sum", sum);
}

/* (Mishchenko, Defazio 2023) */
void transform_prodigy(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term beta1, beta2, estim_lr0 = number(t, "estim_lr0");
    const char *mask = optim_either(t, "mask", "weight_decay_mask");
    bool *decays = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (!read_betas(t, &beta1, &beta2) || !mask || !optim_mask(t, mask, decays)) return;
    struct fe_term beta3 = absent(t, "beta3") ? term_sqrt(b, beta2) : number(t, "beta3");
    struct fe_term before = counter(t, "count"), count = optim_increment(b, before);
    struct fe_term estimate = scalar_state(t, "estim_lr", arg(t, "estim_lr0")->number),
                   weighted = scalar_state(t, "numerator_weighted", 0);
    struct fe_term rate = rate_of_estimate(t, estimate, before, bias(b, beta1, beta2, count));
    ir_value *init = optim_first_params(t, "params0", IR_TUPLE);
    struct fe_term product = optim_dot(b, t->count, t->u, differences(t, init, t->p));
    ir_value *avg = optim_tree(t, "exp_avg", IR_TUPLE, zero), *sq = optim_tree(t, "exp_avg_sq", IR_TUPLE, zero);
    ir_value *sum = optim_tree(t, "grad_sum", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = term_mul(b, estimate, T(t->u[i])), factor = flag(t, "safeguard_warmup") ? estimate : rate;
        avg[i] = moment(b, g, T(avg[i]), beta1).v;
        sq[i] = square_moment(b, g, T(sq[i]), beta2).v;
        sum[i] = term_add(b, term_mul(b, beta3, T(sum[i])), term_div(b, term_mul(b, factor, g), estim_lr0)).v;
    }
    struct fe_term share = term_mul(b, term_mul(b, term_div(b, estimate, estim_lr0), rate), product);
    weighted = term_add(b, term_mul(b, beta3, weighted), share);
    struct fe_term found = term_div(b, term_mul(b, number(t, "estim_lr_coef"), weighted), sum_of_abs(t, sum));
    estimate = term_max(b, estimate, found);
    EACH_LEAF(t, i) {
        struct fe_term root = term_add(b, term_sqrt(b, T(sq[i])), term_mul(b, estimate, number(t, "eps")));
        struct fe_term decay = term_mul(b, term_neg(b, term_mul(b, number(t, "weight_decay"), rate)), T(t->p[i]));
        if (!decays[i]) decay = term_number(0);
        t->u[i] = term_sub(b, decay, term_div(b, term_mul(b, rate, T(avg[i])), root)).v;
    }
    optim_state_set(t, "estim_lr", estimate);
    optim_state_set(t, "numerator_weighted", weighted);
    optim_state_set(t, "count", count);
    optim_tree_set(t, "exp_avg", avg);
    optim_tree_set(t, "exp_avg_sq", sq);
    optim_tree_set(t, "grad_sum", sum);
}

/* ---------------------------------------------------------------- coin betting, dual averaging */

/* (Orabona, Tommasi 2017) */
void transform_scale_by_cocob(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    ir_value *init = optim_first_params(t, "init_particles", IR_TUPLE);
    ir_value *sum = optim_tree(t, "cumulative_gradients", IR_TUPLE, zero),
             *total = optim_tree(t, "subgradients", IR_TUPLE, zero);
    ir_value *scale = optim_tree(t, "scale", IR_TUPLE, (struct optim_start){.number = arg(t, "eps")->number});
    ir_value *reward = optim_tree(t, "reward", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term c = T(t->u[i]), p = T(t->p[i]), p0 = T(init[i]);
        struct fe_term L = term_max(b, T(scale[i]), term_abs(b, c)), G = term_add(b, T(total[i]), term_abs(b, c));
        struct fe_term R = term_max(b, term_sub(b, T(reward[i]), term_mul(b, c, term_sub(b, p, p0))), term_number(0));
        struct fe_term C = term_sub(b, T(sum[i]), c);
        struct fe_term bound = term_mul(b, L, term_max(b, term_add(b, G, L), term_mul(b, number(t, "alpha"), L)));
        struct fe_term bet = term_mul(b, term_div(b, C, bound), term_add(b, L, R));
        t->u[i] = term_add(b, term_neg(b, p), term_add(b, p0, bet)).v;
        scale[i] = L.v, total[i] = G.v, reward[i] = R.v, sum[i] = C.v;
    }
    optim_tree_set(t, "cumulative_gradients", sum);
    optim_tree_set(t, "subgradients", total);
    optim_tree_set(t, "scale", scale);
    optim_tree_set(t, "reward", reward);
}

/* (Defazio, Jelassi 2021) */
void transform_scale_by_madgrad(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = counter(t, "count"), eps = number(t, "eps"), momentum = number(t, "momentum");
    struct fe_term steps = term_cast(b, term_add(b, count, term_integer(1)), IR_F32);
    struct fe_term lambda = term_mul(b, term_add(b, at_count(t, "learning_rate", count), eps), term_sqrt(b, steps));
    ir_value *init = optim_first_params(t, "x0", IR_TUPLE);
    ir_value *sq = optim_tree(t, "grad_sum_sq", IR_TUPLE, zero), *sum = optim_tree(t, "s", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), p = T(t->p[i]);
        sq[i] = term_add(b, T(sq[i]), term_cast_like(b, term_mul(b, lambda, term_square(b, g)), g)).v;
        sum[i] = term_add(b, T(sum[i]), term_cast_like(b, term_mul(b, lambda, g), g)).v;
        struct fe_term sigma = term_add(b, T(ir_unary(b, OP_cbrt, sq[i])), eps),
                       z = term_sub(b, T(init[i]), term_div(b, T(sum[i]), sigma));
        t->u[i] = term_sub(b, moment(b, z, p, momentum), p).v;
    }
    optim_tree_set(t, "grad_sum_sq", sq);
    optim_tree_set(t, "s", sum);
    optim_state_set(t, "count", optim_increment(b, count));
}

/* ---------------------------------------------------------------- model-based momentum (Schaipp et al. 2024) */

/* momo, and momo_adam with a preconditioner and bias corrections. */
static void momo_like(struct optim_transform *t, bool adam)
{
    struct ir_builder *b = t->b;
    struct fe_term before = counter(t, "count"), count = optim_increment(b, before), one = term_integer(1),
                   bound = number(t, "lower_bound");
    struct fe_term beta = adam ? number(t, "b1")
                               : term_where(b, term_eq(b, before, term_integer(0)), term_number(0), number(t, "beta"));
    struct fe_term c1 = adam ? correction(b, beta, count) : one,
                   c2 = adam ? correction(b, number(t, "b2"), count) : one;
    struct fe_term mean = scalar_state(t, "barf", 0);
    if (adam) c1 = term_cast_like(b, c1, mean), c2 = term_cast_like(b, c2, mean);
    mean = moment(b, term_cast_like(b, T(t->o->value), mean), mean, beta);
    struct fe_term gamma = moment(b, optim_dot(b, t->count, t->u, t->p), scalar_state(t, "gamma", 0), beta);
    struct fe_term least = scalar_state(t, "lb", arg(t, "lower_bound")->number),
                   alpha = at_count(t, "learning_rate", before);
    ir_value *avg = optim_tree(t, "exp_avg", IR_TUPLE, zero),
             *sq = adam ? optim_tree(t, "exp_avg_sq", IR_TUPLE, zero) : NULL;
    ir_value *weighted = optim_new_tree(t), *root = optim_new_tree(t);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]);
        avg[i] = weighted[i] = moment(b, g, T(avg[i]), beta).v;
        if (!adam) continue;
        sq[i] = square_moment(b, g, T(sq[i]), number(t, "b2")).v;
        root[i] = term_add(b, number(t, "eps"), term_sqrt(b, term_div(b, T(sq[i]), c2))).v;
        weighted[i] = term_div(b, T(avg[i]), T(root[i])).v;
    }
    struct fe_term norm = optim_dot(b, t->count, avg, weighted), inner = optim_dot(b, t->count, avg, t->p);
    struct fe_term decay = term_mul(b, alpha, number(t, "weight_decay")), grow = term_add(b, one, decay), used = least;
    if (flag(t, "adapt_lower_bound")) {
        struct fe_term cap = term_add(b, term_mul(b, grow, term_sub(b, mean, gamma)), inner);
        struct fe_term lower = term_max(b, term_div(b, cap, term_mul(b, term_mul(b, term_integer(2), c1), grow)),
                                        bound);
        used = term_where(b, term_lt(b, cap, term_mul(b, term_mul(b, grow, c1), least)), lower, least);
    }
    struct fe_term gap = term_sub(b, term_sub(b, mean, term_mul(b, c1, used)), gamma);
    struct fe_term step = term_div(b, term_max(b, term_add(b, term_mul(b, grow, gap), inner), term_number(0)), norm);
    step = term_where(b, term_le(b, norm, term_number(ldexp(1, ROUNDING_EXPONENT))), term_number(0), step);
    struct fe_term tau = term_min(b, term_div(b, alpha, c1), step), shrink = term_neg(b, term_div(b, decay, grow));
    if (flag(t, "adapt_lower_bound")) {
        struct fe_term next = term_sub(b, term_sub(b, term_add(b, mean, inner), gamma),
                                       term_mul(b, term_mul(b, term_number(0.5), tau), norm));
        least = term_max(b, term_div(b, next, c1), bound);
    }
    EACH_LEAF(t, i) {
        struct fe_term move = term_mul(b, tau, T(avg[i]));
        t->u[i] = term_sub(b, term_mul(b, shrink, T(t->p[i])), adam ? term_div(b, move, T(root[i])) : move).v;
    }
    optim_tree_set(t, "exp_avg", avg);
    if (adam) optim_tree_set(t, "exp_avg_sq", sq);
    optim_state_set(t, "barf", mean);
    optim_state_set(t, "gamma", gamma);
    optim_state_set(t, "lb", least);
    optim_state_set(t, "count", count);
}

void transform_momo(struct optim_transform *t) { momo_like(t, false); }
void transform_momo_adam(struct optim_transform *t) { momo_like(t, true); }
