/* Mechanic: learns the scale of another optimizer's steps (Cutkosky et al. 2023). Formulas are those of optax.contrib.
 */
#include "frontend/optim/optim.h"
#include <math.h>

void transform_mechanize(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    int64_t n = arg(t, "num_betas")->integer;
    if (!optim_at_most(t, "num_betas", 1000)) return;
    const struct ir_type exact = ir_type_of(IR_F32, 1, &n), vector = ir_type_of(optim_lowest(t), 1, &n);
    struct fe_term eps = number(t, "eps"), s_init = number(t, "s_init"), count = counter(t, "count"),
                   none = term_number(0);
    float *list = arena_new_array(t->fe->arena, float, n);
    for (int64_t i = 0; i < n; i++) list[i] = (float)(1 - pow(0.1, (double)(i + 1)));
    struct fe_term betas = T(ir_cast(b, ir_constant(b, exact, list), optim_lowest(t))),
                   m = optim_state(t, "m", vector, zero), v = optim_state(t, "v", vector, zero);
    struct fe_term r = optim_state(t, "r", vector, zero),
                   s = optim_state(t, "s", vector, (struct optim_start){.number = arg(t, "s_init")->number});
    ir_value *x0 = optim_tree(t, "x0", IR_TUPLE, zero);
    EACH_LEAF(t, i) x0[i] = term_where(b, term_eq(b, count, term_integer(0)), T(t->p[i]), T(x0[i])).v;
    optim_tree_set(t, "x0", x0);

    struct fe_term sum = term_sum(b, s), grad_norm = term_sqrt(b, optim_square_sum(t, t->u)),
                   param_norm = term_sqrt(b, optim_square_sum(t, t->p));
    struct fe_term decay = term_mul(b, term_mul(b, number(t, "weight_decay"), sum), grad_norm);
    decay = term_div(b, decay, term_add(b, param_norm, eps));
    ir_value *g = optim_new_tree(t), *previous = optim_new_tree(t), *delta = optim_new_tree(t);
    EACH_LEAF(t, i) {
        g[i] = term_add(b, T(t->u[i]), term_mul(b, decay, T(t->p[i]))).v;
        previous[i] = term_div(b, term_sub(b, T(x0[i]), T(t->p[i])), term_add(b, sum, eps)).v;
    }
    optim_apply(t->o, arg(t, "base_optimizer")->json, optim_path(t, "base_optimizer_state"), t->u, t->p);
    EACH_LEAF(t, i) delta[i] = term_sub(b, T(previous[i]), T(t->u[i])).v;

    struct fe_term h = optim_dot(b, t->count, g, previous), clipped = term_min(b, term_max(b, h, term_neg(b, m)), m);
    m = term_max(b, term_mul(b, betas, m), term_add(b, term_abs(b, h), eps));
    v = term_add(b, term_mul(b, term_square(b, betas), v), term_square(b, h));
    r = term_add(b, term_mul(b, betas, r), term_mul(b, clipped, s));
    struct fe_term wealth = term_add(b, term_mul(b, term_div(b, s_init, term_integer(n)), m), term_max(b, none, r));
    s = term_div(b, wealth, term_add(b, term_sqrt(b, v), eps));
    optim_state_set(t, "m", m);
    optim_state_set(t, "v", v);
    optim_state_set(t, "r", r);
    optim_state_set(t, "s", s);
    optim_state_set(t, "count", optim_increment(b, count));
    struct fe_term rate = term_sum(b, s);
    EACH_LEAF(t, i) {
        struct fe_term x = term_sub(b, T(x0[i]), term_mul(b, rate, T(delta[i])));
        t->u[i] = term_sub(b, x, T(t->p[i])).v;
    }
}
