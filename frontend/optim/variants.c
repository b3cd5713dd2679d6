/* More building blocks with state: relatives of Adam, of sign descent and of second moments in fewer numbers. Formulas
 * and order of operations are those of optax._src.transform, factorized and optax.contrib. */
#include "frontend/optim/optim.h"
#include <string.h>

/* ---------------------------------------------------------------- relatives of Adam */

/* The variance is rectified once enough steps make it tractable; before, the update is the momentum. */
void transform_scale_by_radam(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = optim_increment(b, counter(t, "count")), one = term_integer(1), two = term_number(2);
    struct fe_term four = term_number(4), b1 = number(t, "b1"), b2 = number(t, "b2");
    struct fe_term limit = term_sub(b, term_div(b, two, term_sub(b, one, b2)), one), power = term_pow(b, b2, count);
    struct fe_term ro = term_mul(b, term_mul(b, term_integer(2), count), power);
    ro = term_sub(b, limit, term_div(b, ro, term_sub(b, one, power)));
    struct fe_term above = term_mul(b, term_mul(b, term_sub(b, ro, four), term_sub(b, ro, two)), limit);
    struct fe_term below = term_mul(b, term_mul(b, term_sub(b, limit, four), term_sub(b, limit, two)), ro);
    struct fe_term r = term_sqrt(b, term_div(b, above, below)), enough = term_le(b, number(t, "threshold"), ro);
    struct fe_term c1 = correction(b, b1, count), c2 = correction(b, b2, count);
    struct fe_term next = correction(b, b1, optim_increment(b, count));
    ir_value *mu = optim_tree(t, "mu", IR_TUPLE, zero), *nu = optim_tree(t, "nu", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), m = moment(b, g, T(mu[i]), b1), v = moment(b, term_square(b, g), T(nu[i]), b2);
        struct fe_term m_hat = corrected(b, m, c1),
                       root = root_plus(b, corrected(b, v, c2), number(t, "eps_root"), number(t, "eps"));
        if (flag(t, "nesterov"))
            m_hat = term_add(b, term_mul(b, b1, corrected(b, m, next)),
                             term_mul(b, term_sub(b, one, b1), corrected(b, g, c1)));
        struct fe_term rectified = term_div(b, term_mul(b, term_cast_like(b, r, m_hat), m_hat), root);
        t->u[i] = term_where(b, enough, rectified, m_hat).v;
        mu[i] = m.v, nu[i] = v.v;
    }
    optim_tree_set(t, "mu", mu);
    optim_tree_set(t, "nu", nu);
    optim_state_set(t, "count", count);
}

void transform_scale_by_adan(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term before = counter(t, "t"), count = optim_increment(b, before),
                   first = term_eq(b, before, term_integer(0));
    struct fe_term b1 = number(t, "b1"), b2 = number(t, "b2"), b3 = number(t, "b3"),
                   rest = term_sub(b, term_integer(1), b2);
    struct fe_term c1 = correction(b, b1, count), c2 = correction(b, b2, count), c3 = correction(b, b3, count);
    ir_value *m = optim_tree(t, "m", IR_TUPLE, zero), *v = optim_tree(t, "v", IR_TUPLE, zero);
    ir_value *n = optim_tree(t, "n", IR_TUPLE, zero), *g = optim_tree(t, "g", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), diff = term_where(b, first, term_number(0), term_sub(b, u, T(g[i])));
        struct fe_term sum = term_add(b, u, term_mul(b, rest, diff));
        struct fe_term new_m = moment(b, u, T(m[i]), b1), new_v = moment(b, diff, T(v[i]), b2);
        struct fe_term new_n = moment(b, term_square(b, sum), T(n[i]), b3);
        struct fe_term top = term_add(b, corrected(b, new_m, c1), term_mul(b, rest, corrected(b, new_v, c2)));
        struct fe_term root = root_plus(b, corrected(b, new_n, c3), number(t, "eps_root"), number(t, "eps"));
        m[i] = new_m.v, v[i] = new_v.v, n[i] = new_n.v, g[i] = u.v;
        t->u[i] = term_div(b, top, root).v;
    }
    optim_tree_set(t, "m", m);
    optim_tree_set(t, "v", v);
    optim_tree_set(t, "n", n);
    optim_tree_set(t, "g", g);
    optim_state_set(t, "t", count);
}

/* The second moment is one number per parameter: a mean of squared norms. */
void transform_scale_by_novograd(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = optim_increment(b, counter(t, "count")), first = term_eq(b, count, term_integer(1));
    ir_value *mu = optim_tree(t, "mu", dtype_or(t, "mu_dtype"), zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), norm = term_square(b, term_sqrt(b, term_sum(b, term_square(b, g))));
        struct ir_type scalar = ir_type_scalar((enum ir_dtype)t->o->params[i].type.dtype);
        struct fe_term nu = optim_leaf(t, "nu", i, scalar, zero);
        nu = term_where(b, first, norm, moment(b, norm, nu, number(t, "b2")));
        optim_leaf_set(t, "nu", i, nu);
        struct fe_term u = term_div(b, g, root_plus(b, nu, number(t, "eps_root"), number(t, "eps")));
        u = term_add(b, u, term_mul(b, number(t, "weight_decay"), T(t->p[i])));
        u = term_where(b, first, u, term_add(b, term_mul(b, number(t, "b1"), T(mu[i])), u));
        mu[i] = term_cast_like(b, u, T(mu[i])).v;
        t->u[i] = mu[i];
    }
    optim_tree_set(t, "mu", mu);
    optim_state_set(t, "count", count);
}

/* Divides by the second moment of the step before. */
void transform_scale_by_acprop(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term before = counter(t, "count"), count = optim_increment(b, before), b2 = number(t, "b2");
    struct fe_term first = term_eq(b, before, term_integer(0)),
                   c = correction(b, b2, term_where(b, first, count, before));
    ir_value *mu = optim_tree(t, "mu", IR_TUPLE, zero), *nu = optim_tree(t, "nu", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), error = term_square(b, term_sub(b, g, T(mu[i])));
        struct fe_term old = term_where(b, first, term_number(1), corrected(b, T(nu[i]), c));
        nu[i] = term_add(b, moment(b, error, T(nu[i]), b2), number(t, "eps_root")).v;
        mu[i] = moment(b, g, T(mu[i]), number(t, "b1")).v;
        t->u[i] = term_div(b, g, term_add(b, term_sqrt(b, old), number(t, "eps"))).v;
    }
    optim_tree_set(t, "mu", mu);
    optim_tree_set(t, "nu", nu);
    optim_state_set(t, "count", count);
}

/* The dtype of sums that begin with zeros of another dtype than the parameters'. */
static enum ir_dtype beginning_with(struct optim_transform *t, enum ir_dtype dtype)
{
    bool differs = dtype == IR_F32;
    EACH_LEAF(t, i)
        differs |= dtype != IR_TUPLE && t->o->params[i].type.dtype != IR_F32 && t->o->params[i].type.dtype != dtype;
    return differs ? IR_F32 : IR_TUPLE;
}

void transform_scale_by_ademamix(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = optim_increment(b, counter(t, "count")), count_m2 = counter(t, "count_m2");
    struct fe_term b1 = number(t, "b1"), b2 = number(t, "b2");
    struct fe_term b3 = at_count(t, "b3", count_m2), alpha = at_count(t, "alpha", count_m2);
    struct fe_term c1 = correction(b, b1, count), c2 = correction(b, b2, count);
    enum ir_dtype dtype = beginning_with(t, dtype_or(t, "mu_dtype"));
    ir_value *m1 = optim_tree(t, "m1", dtype, zero), *m2 = optim_tree(t, "m2", dtype, zero),
             *nu = optim_tree(t, "nu", dtype, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), fast = moment(b, g, T(m1[i]), b1), slow = moment(b, g, T(m2[i]), b3);
        struct fe_term v = moment(b, term_square(b, g), T(nu[i]), b2);
        struct fe_term root = root_plus(b, corrected(b, v, c2), number(t, "eps_root"), number(t, "eps"));
        t->u[i] = term_div(b, term_add(b, corrected(b, fast, c1), term_mul(b, alpha, slow)), root).v;
        m1[i] = fast.v, m2[i] = slow.v, nu[i] = v.v;
    }
    optim_tree_set(t, "m1", m1);
    optim_tree_set(t, "m2", m2);
    optim_tree_set(t, "nu", nu);
    optim_state_set(t, "count", count);
    optim_state_set(t, "count_m2", optim_increment(b, count_m2));
}

void transform_scale_by_simplified_ademamix(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term before = counter(t, "t"), count = optim_increment(b, before), alpha = at_count(t, "alpha", before);
    struct fe_term b2 = number(t, "b2"), c = correction(b, b2, count);
    ir_value *m = optim_tree(t, "m", IR_TUPLE, zero), *n = optim_tree(t, "n", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), sq = term_square(b, g),
                       new_m = term_add(b, g, term_mul(b, number(t, "b1"), T(m[i])));
        struct fe_term new_n = term_add(b, sq, term_mul(b, b2, term_sub(b, T(n[i]), sq)));
        struct fe_term root = root_plus(b, corrected(b, new_n, c), number(t, "eps_root"), number(t, "eps"));
        t->u[i] = term_div(b, term_add(b, new_m, term_mul(b, alpha, g)), root).v;
        m[i] = new_m.v, n[i] = new_n.v;
    }
    optim_tree_set(t, "m", m);
    optim_tree_set(t, "n", n);
    optim_state_set(t, "t", count);
}

/* The gradient over the second moment before it, clipped by a function of the step, then momentum. */
void transform_scale_by_adopt(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term count = counter(t, "count"), later = term_lt(b, term_integer(0), count), limit = {0};
    struct fe_term b1 = term_where(b, later, number(t, "b1"), term_number(1));
    struct fe_term b2 = term_where(b, later, number(t, "b2"), term_number(0));
    fe_json rule = arg(t, "clip_value_fn")->json;
    if (rule && flag(t, "use_clipping")) {
        if (!optim_of_counter(t, rule, "x", count, &limit)) return;
        if (ir_type(b->f, limit.v)->dtype == IR_BOOL) limit = term_cast(b, limit, IR_F32);
    } else {
        limit = term_pow(b, count, term_number(0.25));
    }
    ir_value *mu = optim_tree(t, "mu", dtype_or(t, "mu_dtype"), zero), *nu = optim_tree(t, "nu", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), u = term_div(b, g, term_max(b, term_sqrt(b, T(nu[i])), number(t, "eps")));
        if (flag(t, "use_clipping")) u = term_min(b, term_max(b, u, term_neg(b, limit)), limit);
        struct fe_term m = moment(b, u, T(mu[i]), b1);
        nu[i] = moment(b, term_square(b, g), T(nu[i]), b2).v;
        t->u[i] = (flag(t, "nesterov") ? moment(b, u, m, b1) : m).v;
        mu[i] = m.v;
    }
    optim_tree_set(t, "mu", mu);
    optim_tree_set(t, "nu", nu);
    optim_state_set(t, "count", optim_increment(b, count));
}

/* ---------------------------------------------------------------- signs and the step before */

/* A step size per element grows while the sign holds. The update that is sent is that of the step before. */
void transform_scale_by_rprop(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term none = term_number(0);
    struct optim_start rate = {.number = arg(t, "learning_rate")->number};
    ir_value *sizes = optim_tree(t, "step_sizes", IR_TUPLE, rate),
             *prev = optim_tree(t, "prev_updates", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), size = T(sizes[i]), sign = term_mul(b, g, T(prev[i]));
        struct fe_term factor = term_where(b, term_lt(b, none, sign), number(t, "eta_plus"), number(t, "eta_minus"));
        struct fe_term moved = term_max(b, term_mul(b, size, factor), number(t, "min_step_size"));
        moved = term_min(b, moved, number(t, "max_step_size"));
        size = term_where(b, term_eq(b, sign, none), size, moved);
        struct fe_term turned = term_lt(b, sign, none);
        t->u[i] = term_where(b, turned, none, T(prev[i])).v;
        prev[i] = term_where(b, turned, none, term_mul(b, size, term_sign(b, g))).v;
        sizes[i] = size.v;
    }
    optim_tree_set(t, "step_sizes", sizes);
    optim_tree_set(t, "prev_updates", prev);
}

void transform_scale_by_optimistic_gradient(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term alpha = number(t, "alpha"), beta = number(t, "beta");
    struct fe_term first = optim_state(t, "is_initial_step", ir_type_scalar(IR_BOOL),
                                       (struct optim_start){.number = 1});
    ir_value *previous = optim_tree(t, "previous_gradient", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), old = term_where(b, first, g, T(previous[i]));
        previous[i] = g.v;
        t->u[i] = term_sub(b, term_mul(b, term_add(b, alpha, beta), g), term_mul(b, beta, old)).v;
    }
    optim_tree_set(t, "previous_gradient", previous);
    optim_state_set(t, "is_initial_step", T(ir_scalar(b, IR_BOOL, 0)));
}

void transform_optimistic_adam(struct optim_transform *t)
{
    optim_chain(t, "scale_by_adam", 0);
    optim_chain(t,
                absent(t, "optimism") ? "scale_by_optimistic_gradient(alpha=learning_rate,beta=learning_rate)"
                                      : "scale_by_optimistic_gradient(alpha=learning_rate,beta=optimism)",
                1);
    optim_chain(t, "scale_by_learning_rate(learning_rate=1.0)", 2);
}

/* ---------------------------------------------------------------- second moments in fewer numbers */

/* Sum or largest over all dimensions but `kept`. */
static struct fe_term over_others(struct ir_builder *b, enum ir_op op, struct fe_term x, uint32_t kept)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0, rank = ir_type(b->f, x.v)->rank;
    for (uint32_t i = 0; i < rank; i++)
        if (i != kept) dims[n++] = i;
    return n ? T(ir_reduce(b, op, x.v, dims, n)) : x;
}

/* A cover of the squares: one vector per dimension (Anil et al. 2019). */
void transform_scale_by_sm3(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term b2 = number(t, "b2"), none = term_number(0);
    struct fe_term share = !b2.v && b2.number == 1 ? term_number(1) : term_sub(b, term_number(1), b2);
    ir_value *nu = optim_tree(t, "nu", IR_TUPLE, zero);
    EACH_LEAF(t, i) {
        const struct ir_type type = t->o->params[i].type;
        struct fe_term g = T(t->u[i]), least = {0};
        uint32_t vectors = type.rank > 1 ? type.rank : 1;
        const char *names[IR_MAX_RANK];
        for (uint32_t k = 0; k < vectors; k++) {
            int64_t dim = k;
            struct ir_type own = ir_type_of((enum ir_dtype)type.dtype, type.rank ? 1 : 0, &type.dim[k]);
            names[k] = arena_format(t->fe->arena, t->o->outside ? "mu%s.%u" : "mu.%s.%u", t->o->params[i].path, k);
            struct fe_term v = optim_state(t, names[k], own, zero);
            optim_state_along(t, names[k], i, 0, ~(1u << k));
            if (type.rank > 1) v = T(ir_broadcast(b, v.v, type.rank, type.dim, &dim));
            least = k ? term_min(b, least, v) : v;
        }
        struct fe_term a = term_add(b, term_mul(b, share, term_square(b, g)), term_mul(b, b2, least));
        struct fe_term scale = term_where(b, term_lt(b, none, a), term_rsqrt(b, term_add(b, a, number(t, "eps"))),
                                          none);
        t->u[i] = nu[i] = moment(b, term_mul(b, g, scale), T(nu[i]), number(t, "b1")).v;
        for (uint32_t k = 0; k < vectors; k++) optim_state_set(t, names[k], over_others(b, OP_reduce_max, a, k));
    }
    optim_tree_set(t, "nu", nu);
}

/* The two largest dimensions of a shape by a stable sort: d0 the largest, d1 the second. False: not factored. */
static bool factored_dims(const struct ir_type *type, bool factored, int64_t least, uint32_t *d1, uint32_t *d0)
{
    if (!factored || type->rank < 2) return false;
    *d0 = 0;
    for (uint32_t i = 1; i < type->rank; i++)
        if (type->dim[i] >= type->dim[*d0]) *d0 = i;
    *d1 = *d0 ? 0 : 1;
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != *d0 && type->dim[i] >= type->dim[*d1]) *d1 = i;
    return type->dim[*d1] >= least;
}

static struct ir_type without(const struct ir_type *type, uint32_t dim)
{
    int64_t rest[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != dim) rest[n++] = type->dim[i];
    return ir_type_of((enum ir_dtype)type->dtype, n, rest);
}

static struct fe_term mean_over(struct ir_builder *b, struct fe_term x, uint32_t dim)
{
    int64_t d = dim;
    return term_mean_over(b, x, &d, 1);
}

/* x, which lacks dimension `dim` of the type, repeated along it. */
static struct fe_term along(struct ir_builder *b, struct fe_term x, const struct ir_type *type, uint32_t dim)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != dim) dims[n++] = i;
    return T(ir_broadcast(b, x.v, type->rank, type->dim, dims));
}

/* The decay of this step as the document writes it: an expression over `step` and `decay_rate`. */
static bool decay_by(struct optim_transform *t, struct fe_term step, struct fe_term *decay)
{
    struct fe_term rate = number(t, "decay_rate");
    struct fe_env env = {t->o->trace->env, "decay_rate",
                         rate.v ? fe_val_tensor(rate.v) : fe_val_number(rate.number, false)};
    const struct fe_env *before = t->o->trace->env;
    t->o->trace->env = &env;
    bool good = optim_of_counter(t, arg(t, "decay_rate_fn")->json, "step", step, decay);
    t->o->trace->env = before;
    if (good && !(decay->weak && ir_dtype_is_float(ir_type(t->b->f, decay->v)->dtype)))
        *decay = term_cast(t->b, *decay, IR_F32);
    return good;
}

/* Means of squares by rows and columns instead of per element (Shazeer, Stern 2018). What a parameter does not use is a
 * slot of one zero. */
void transform_scale_by_factored_rms(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    static const int64_t one[1] = {1};
    struct fe_term count = counter(t, "count"), eps = number(t, "epsilon");
    struct fe_term steps = term_add(b, term_sub(b, count, term_integer(arg(t, "step_offset")->integer)),
                                    term_integer(1));
    struct fe_term decay = term_pow(b, term_cast(b, steps, IR_F32), term_neg(b, number(t, "decay_rate")));
    decay = term_sub(b, term_number(1), decay);
    if (arg(t, "decay_rate_fn")->json && !decay_by(t, term_sub(b, steps, term_integer(1)), &decay)) return;
    EACH_LEAF(t, i) {
        const struct ir_type type = t->o->params[i].type, none = ir_type_of((enum ir_dtype)type.dtype, 1, one);
        uint32_t d1, d0;
        bool factored = factored_dims(&type, flag(t, "factored"), arg(t, "min_dim_size_to_factor")->integer, &d1, &d0);
        struct fe_term g = T(t->u[i]), sq = term_add(b, term_square(b, g), eps);
        struct fe_term row = optim_leaf(t, "v_row", i, factored ? without(&type, d0) : none, zero);
        struct fe_term col = optim_leaf(t, "v_col", i, factored ? without(&type, d1) : none, zero);
        struct fe_term v = optim_leaf(t, "v", i, factored ? none : type, zero);
        if (factored) {
            optim_leaf_along(t, "v_row", i, 0, 1u << d0);
            optim_leaf_along(t, "v_col", i, 0, 1u << d1);
        } else {
            v = term_cast_like(b, moment(b, sq, v, decay), v);
            optim_leaf_set(t, "v", i, v);
            t->u[i] = term_mul(b, g, term_rsqrt(b, v)).v;
            continue;
        }
        row = term_cast_like(b, moment(b, mean_over(b, sq, d0), row, decay), row);
        col = term_cast_like(b, moment(b, mean_over(b, sq, d1), col, decay), col);
        optim_leaf_set(t, "v_row", i, row);
        optim_leaf_set(t, "v_col", i, col);
        const struct ir_type row_type = *ir_type(b->f, row.v);
        uint32_t reduced = d1 > d0 ? d1 - 1 : d1;
        struct fe_term mean = along(b, mean_over(b, row, reduced), &row_type, reduced);
        struct fe_term by_row = along(b, term_rsqrt(b, term_div(b, row, mean)), &type, d0);
        t->u[i] = term_mul(b, term_mul(b, g, by_row), along(b, term_rsqrt(b, col), &type, d1)).v;
    }
    optim_state_set(t, "count", optim_increment(b, count));
}

void transform_adafactor(struct optim_transform *t)
{
    uint32_t n = 0;
    optim_chain(t, "scale_by_factored_rms(step_offset=decay_offset,epsilon=eps)", n++);
    if (!absent(t, "clipping_threshold")) optim_chain(t, "clip_by_block_rms(threshold=clipping_threshold)", n++);
    if (!absent(t, "learning_rate")) optim_chain(t, "scale_by_learning_rate(flip_sign=false)", n++);
    if (flag(t, "multiply_by_parameter_scale")) optim_chain(t, "scale_by_param_block_rms", n++);
    if (!absent(t, "momentum"))
        optim_chain(t, "ema(decay=momentum,debias=false,accumulator_dtype=dtype_momentum)", n++);
    if (!absent(t, "weight_decay_rate"))
        optim_chain(t, "add_decayed_weights(weight_decay=weight_decay_rate,mask=weight_decay_mask)", n++);
    optim_chain(t, "scale(step_size=-1.0)", n);
}
