/* Building blocks that keep state per parameter: moments, sums of squares, traces. Formulas and order of operations are
 * those of optax.transforms and optax._src.transform; shapes are those of the parameters throughout. */
#include "frontend/optim/optim.h"
#include <string.h>

/* The first moment's part of an Adam-like update: bias-corrected, or Dozat's look ahead. */
struct first {
    struct fe_term b1, now, next;
    bool nesterov;
};

static struct first first_of(struct optim_transform *t, struct fe_term count, bool nesterov)
{
    struct first f = {.b1 = number(t, "b1"), .nesterov = nesterov};
    f.now = correction(t->b, f.b1, count);
    if (nesterov) f.next = correction(t->b, f.b1, optim_increment(t->b, count));
    return f;
}

static struct fe_term first_hat(struct ir_builder *b, const struct first *f, struct fe_term m, struct fe_term g)
{
    if (!f->nesterov) return corrected(b, m, f->now);
    struct fe_term left = term_mul(b, f->b1, corrected(b, m, f->next));
    return term_add(b, left, term_mul(b, term_sub(b, term_integer(1), f->b1), corrected(b, g, f->now)));
}

/* The rules of one family differ in the second moment and in what is divided by what. */
enum family { ADAM, AMSGRAD, BELIEF, YOGI };

static struct fe_term second(struct ir_builder *b, enum family family, struct fe_term g, struct fe_term m,
                             struct fe_term v, struct fe_term b2, struct fe_term eps_root)
{
    if (family == BELIEF) return term_add(b, moment(b, term_square(b, term_sub(b, g, m)), v, b2), eps_root);
    struct fe_term sq = term_square(b, g);
    if (family != YOGI) return moment(b, sq, v, b2);
    struct fe_term sign = term_sign(b, term_sub(b, v, sq)), rest = term_sub(b, term_integer(1), b2);
    return term_sub(b, v, term_mul(b, term_mul(b, rest, sign), sq));
}

static void adam_like(struct optim_transform *t, enum family family, enum ir_dtype mu_dtype, bool nesterov,
                      bool correct_mu, bool correct_nu, struct optim_start start)
{
    struct ir_builder *b = t->b;
    struct fe_term count = optim_increment(b, counter(t, "count"));
    struct fe_term b1 = number(t, "b1"), b2 = number(t, "b2"), eps = number(t, "eps"), eps_root = number(t, "eps_root");
    struct first first = first_of(t, count, nesterov);
    struct fe_term second_correction = correction(b, b2, count);
    ir_value *mu = optim_tree(t, "mu", mu_dtype, start), *nu = optim_tree(t, "nu", IR_TUPLE, start);
    ir_value *nu_max = family == AMSGRAD ? optim_tree(t, "nu_max", IR_TUPLE, zero) : NULL;
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), m = moment(b, g, T(mu[i]), b1),
                       v = second(b, family, g, m, T(nu[i]), b2, eps_root);
        struct fe_term m_hat = correct_mu ? first_hat(b, &first, m, g) : m;
        struct fe_term v_hat = correct_nu ? corrected(b, v, second_correction) : v;
        if (nu_max) v_hat = term_max(b, T(nu_max[i]), v_hat), nu_max[i] = v_hat.v;
        t->u[i] = term_div(b, m_hat, root_plus(b, v_hat, family == BELIEF ? term_integer(0) : eps_root, eps)).v;
        mu[i] = m.v, nu[i] = v.v;
    }
    optim_tree_set(t, "mu", mu);
    optim_tree_set(t, "nu", nu);
    if (nu_max) optim_tree_set(t, "nu_max", nu_max);
    optim_state_set(t, "count", count);
}

void transform_scale_by_adam(struct optim_transform *t)
{
    adam_like(t, ADAM, dtype_or(t, "mu_dtype"), flag(t, "nesterov"), true, true, zero);
}

void transform_scale_by_amsgrad(struct optim_transform *t)
{
    adam_like(t, AMSGRAD, dtype_or(t, "mu_dtype"), false, flag(t, "bias_correction_mu"), flag(t, "bias_correction_nu"),
              zero);
}

void transform_scale_by_belief(struct optim_transform *t)
{
    adam_like(t, BELIEF, IR_TUPLE, flag(t, "nesterov"), true, true, zero);
}

void transform_scale_by_yogi(struct optim_transform *t)
{
    struct optim_start start = {.number = arg(t, "initial_accumulator_value")->number};
    adam_like(t, YOGI, IR_TUPLE, false, true, true, start);
}

void transform_scale_by_adamax(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = optim_increment(b, counter(t, "count")), b1 = number(t, "b1"), b2 = number(t, "b2"),
                   eps = number(t, "eps");
    struct fe_term c = correction(b, b1, count);
    ir_value *mu = optim_tree(t, "mu", IR_TUPLE, zero), *nu = optim_tree(t, "nu", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), m = moment(b, g, T(mu[i]), b1);
        struct fe_term v = term_max(b, term_add(b, term_abs(b, g), eps), term_mul(b, b2, T(nu[i])));
        t->u[i] = term_div(b, corrected(b, m, c), v).v;
        mu[i] = m.v, nu[i] = v.v;
    }
    optim_tree_set(t, "mu", mu);
    optim_tree_set(t, "nu", nu);
    optim_state_set(t, "count", count);
}

void transform_scale_by_lion(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    const char *mode = arg(t, "mode")->string;
    struct fe_term b1 = number(t, "b1"), b2 = number(t, "b2"), count = counter(t, "count");
    ir_value *mu = optim_tree(t, "mu", dtype_or(t, "mu_dtype"), zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), m = T(mu[i]), x = moment(b, g, m, b1), sign = term_sign(b, x);
        if (strcmp(mode, "hard") == 0) x = sign;
        else if (strcmp(mode, "smooth") == 0) x = term_tanh(b, term_mul(b, number(t, "smooth_beta"), x));
        else x = term_where(b, term_lt(b, term_abs(b, x), term_number(1)), x, sign);
        mu[i] = moment(b, g, m, b2).v;
        t->u[i] = x.v;
    }
    optim_tree_set(t, "mu", mu);
    optim_state_set(t, "count", optim_increment(b, count));
}

/* g over the root of v (minus the squared mean, if there is one), with eps inside the root or outside. */
static struct fe_term over_root(struct optim_transform *t, struct fe_term g, struct fe_term v, struct fe_term eps)
{
    struct ir_builder *b = t->b;
    if (flag(t, "eps_in_sqrt")) return term_mul(b, term_rsqrt(b, term_add(b, v, eps)), g);
    return term_mul(b, term_div(b, term_integer(1), term_add(b, term_sqrt(b, v), eps)), g);
}

static void rms_like(struct optim_transform *t, bool centered)
{
    struct ir_builder *b = t->b;
    struct fe_term decay = number(t, "decay"), eps = number(t, "eps"), count = term_integer(0), c = term_integer(1);
    if (flag(t, "bias_correction")) {
        count = optim_increment(b, counter(t, "count"));
        c = correction(b, decay, count);
        optim_state_set(t, "count", count);
    }
    ir_value *mu = centered ? optim_tree(t, "mu", IR_TUPLE, zero) : NULL;
    ir_value *nu = optim_tree(t, "nu", IR_TUPLE, (struct optim_start){.number = arg(t, "initial_scale")->number});
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), v = moment(b, term_square(b, g), T(nu[i]), decay), spread = corrected(b, v, c);
        if (centered) {
            struct fe_term m = moment(b, g, T(mu[i]), decay);
            spread = term_sub(b, spread, term_square(b, corrected(b, m, c)));
            mu[i] = m.v;
        }
        nu[i] = v.v;
        t->u[i] = over_root(t, g, spread, eps).v;
    }
    if (centered) optim_tree_set(t, "mu", mu);
    optim_tree_set(t, "nu", nu);
}

void transform_scale_by_rms(struct optim_transform *t) { rms_like(t, false); }
void transform_scale_by_stddev(struct optim_transform *t) { rms_like(t, true); }

void transform_scale_by_rss(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    ir_value *sum = optim_tree(t, "sum_of_squares", IR_TUPLE,
                               (struct optim_start){.number = arg(t, "initial_accumulator_value")->number});
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), a = term_add(b, term_square(b, g), T(sum[i]));
        struct fe_term scale = term_rsqrt(b, term_add(b, a, number(t, "eps")));
        scale = term_where(b, term_lt(b, term_number(0), a), scale, term_number(0));
        t->u[i] = term_mul(b, scale, g).v;
        sum[i] = a.v;
    }
    optim_tree_set(t, "sum_of_squares", sum);
}

void transform_scale_by_adadelta(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term rho = number(t, "rho"), eps = number(t, "eps");
    ir_value *e_g = optim_tree(t, "e_g", IR_TUPLE, zero), *e_x = optim_tree(t, "e_x", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), eg = moment(b, term_square(b, g), T(e_g[i]), rho);
        struct fe_term ratio = term_div(b, term_sqrt(b, term_add(b, T(e_x[i]), eps)),
                                        term_sqrt(b, term_add(b, eg, eps)));
        struct fe_term u = term_mul(b, ratio, g);
        e_x[i] = moment(b, term_square(b, u), T(e_x[i]), rho).v;
        e_g[i] = eg.v;
        t->u[i] = u.v;
    }
    optim_tree_set(t, "e_g", e_g);
    optim_tree_set(t, "e_x", e_x);
}

void transform_adadelta(struct optim_transform *t)
{
    if (absent(t, "learning_rate") && strcmp(t->path, "opt_state") == 0) {
        struct diag *d = fe_warning(t->fe, t->json, "W0429", "adadelta without a learning rate ascends, as in Optax");
        d->hint = "\"learning_rate\": 1.0 descends";
    }
    optim_chain(t, "add_decayed_weights(mask=weight_decay_mask) -> scale_by_adadelta -> scale_by_learning_rate", 0);
}

void transform_adabelief(struct optim_transform *t)
{
    const char *name = optim_either(t, "mask", "weight_decay_mask");
    if (!name) return;
    optim_chain(t, "scale_by_belief", 0);
    bool decays = !absent(t, "weight_decay");
    if (decays) optim_chain(t, arena_format(t->fe->arena, "add_decayed_weights(mask=%s)", name), 1);
    optim_chain(t, "scale_by_learning_rate", decays ? 2 : 1);
}

/* t = g + decay * t; the state is rounded to the accumulator's dtype, this step's update is not. */
void transform_trace(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term decay = number(t, "decay");
    bool nesterov = flag(t, "nesterov");
    ir_value *trace = optim_tree(t, "trace", dtype_or(t, "accumulator_dtype"), zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), new = term_add(b, g, term_mul(b, decay, T(trace[i])));
        t->u[i] = (nesterov ? term_add(b, g, term_mul(b, decay, new)) : new).v;
        trace[i] = new.v;
    }
    optim_tree_set(t, "trace", trace);
}

void transform_ema(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term decay = number(t, "decay"), count = optim_increment(b, counter(t, "count"));
    bool debias = flag(t, "debias");
    struct fe_term c = debias ? correction(b, decay, count) : term_integer(1);
    ir_value *ema = optim_tree(t, "ema", dtype_or(t, "accumulator_dtype"), zero);
    EACH_LEAF(t, i) {
        struct fe_term new = moment(b, T(t->u[i]), T(ema[i]), decay);
        t->u[i] = debias ? corrected(b, new, c).v : new.v;
        ema[i] = new.v;
    }
    optim_tree_set(t, "ema", ema);
    optim_state_set(t, "count", count);
}

void transform_rmsprop(struct optim_transform *t)
{
    optim_chain(t, flag(t, "centered") ? "scale_by_stddev" : "scale_by_rms", 0);
    optim_chain(t, "scale_by_learning_rate -> trace(decay=momentum)?momentum", 1);
}
