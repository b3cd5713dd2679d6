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
    float *list = arena_new_array(t->fe->arena, float, n);
    for (int64_t i = 0; i < n; i++) list[i] = (float)(1 - pow(0.1, (double)(i + 1)));
    (void)counter(t, "count");
    struct fe_term betas = T(ir_cast(b, ir_constant(b, exact, list), optim_lowest(t)));
    (void)optim_state(t, "m", vector, zero);
    (void)optim_state(t, "v", vector, zero);
    (void)optim_state(t, "r", vector, zero);
    (void)optim_state(t, "s", vector, (struct optim_start){.number = arg(t, "s_init")->number});
    const struct optim_given given[] = {{"betas", &betas, false},
                                        {"decayed", arena_new_array(t->fe->arena, struct fe_term, t->count + 1), true},
                                        {"previous", arena_new_array(t->fe->arena, struct fe_term, t->count + 1), true},
                                        {0}};
    optim_formula_given(t, "mechanize", given);
    optim_apply(t->o, arg(t, "base_optimizer")->json, optim_path(t, "base_optimizer_state"), t->u, t->p);
    optim_formula_given(t, "mechanized", given);
}
