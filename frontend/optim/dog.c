/* Distance over gradients: the step size is how far the parameters have come, over the root of the sum of squared
 * gradients (Ivgi et al. 2023; Khaled et al. 2023). Initial parameters are those of the first step. */
#include "frontend/optim/optim.h"
#include <string.h>

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
    char kind;
    double number_given;
    if (!read_init_step(t, &kind, &number_given)) return;
    struct fe_term initial = term_number(number_given), by_norm = term_number(kind == 'h'),
                   is_rate = term_number(kind == 'l');
    optim_formula_given(
        t, "dog",
        (const struct optim_given[]){
            {"initial", &initial, false}, {"by_norm", &by_norm, false}, {"is_rate", &is_rate, false}, {0}});
}

/* The same per parameter. */
void transform_scale_by_distance_over_gradients(struct optim_transform *t)
{
    static const int64_t one[1] = {1};
    struct ir_builder *b = t->b;
    struct fe_term first = optim_first(t);
    enum ir_dtype kept = dtype_of(t, "param_dtype");
    ir_value *init = optim_first_params(t, "init_params", kept), *initial = kept == IR_F32 ? init : optim_initial(t);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), exact = T(initial[i]);
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
