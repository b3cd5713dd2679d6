/* What updates may not be: NaN, and larger than their parameters allow. */
#include "frontend/optim/optim.h"

void transform_zero_nans(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]), nan = term_is_nan(b, u);
        (void)optim_leaf(t, "found_nan", i, ir_type_scalar(IR_BOOL), zero);
        static const int64_t dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
        uint32_t rank = ir_type(b->f, nan.v)->rank;
        optim_leaf_set(t, "found_nan", i, rank ? T(ir_reduce(b, OP_reduce_max, nan.v, dims, rank)) : nan);
        t->u[i] = term_where(b, nan, term_number(0), u).v;
    }
}

/* ---------------------------------------------------------------- clipping by unit (Brock et al. 2021) */

/* The dimensions over which a unit's norm is taken; false: an error was recorded. */
static bool unit_dims(struct optim_transform *t, const struct ir_type *type, int64_t *dims, uint32_t *n)
{
    const struct fe_value *axis = arg(t, "axis");
    uint32_t wide = 0;
    *n = 0;
    for (uint32_t i = 0; i < type->rank; i++) wide += type->dim[i] != 1;
    for (uint32_t i = 0; !axis->null && i < axis->rank; i++) {
        int64_t d = axis->shape[i] < 0 ? axis->shape[i] + type->rank : axis->shape[i];
        if (d < 0 || d >= type->rank)
            return fe_wrong(t->fe, axis->json, "E0202", "axis %lld is outside of the shape %s",
                            (long long)axis->shape[i], ir_type_text(t->fe->arena, type));
        dims[(*n)++] = d;
    }
    if (!axis->null) return true;
    if (wide > 1 && type->rank > 5)
        return fe_wrong(t->fe, t->json, "E0202", "shape %s needs an \"axis\"", ir_type_text(t->fe->arena, type));
    uint32_t count = wide <= 1 ? type->rank : type->rank < 4 ? 1 : type->rank - 1u;
    for (; *n < count; ++*n) dims[*n] = *n;
    return true;
}

/* The norm of every unit, repeated over it. */
static struct fe_term unit_norm(struct ir_builder *b, struct fe_term x, const int64_t *dims, uint32_t n)
{
    const struct ir_type type = *ir_type(b->f, x.v);
    int64_t kept[IR_MAX_RANK];
    uint32_t k = 0;
    if (!type.rank) return term_sqrt(b, term_square(b, x));
    for (uint32_t i = 0; i < type.rank; i++) {
        bool in = false;
        for (uint32_t j = 0; j < n; j++) in |= dims[j] == i;
        if (!in) kept[k++] = i;
    }
    struct fe_term sum = T(ir_reduce(b, OP_reduce_sum, term_square(b, x).v, dims, n));
    return T(ir_broadcast(b, term_sqrt(b, sum).v, type.rank, type.dim, kept));
}

void transform_adaptive_grad_clip(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    EACH_LEAF(t, i) {
        int64_t dims[IR_MAX_RANK];
        uint32_t n;
        if (!unit_dims(t, ir_type(b->f, t->u[i]), dims, &n)) return;
        struct fe_term g = T(t->u[i]), norm = unit_norm(b, g, dims, n), own = unit_norm(b, T(t->p[i]), dims, n);
        struct fe_term limit = term_mul(b, number(t, "clipping"), term_max(b, own, number(t, "eps")));
        struct fe_term clipped = term_mul(b, g, term_div(b, limit, term_max(b, norm, term_number(1e-6))));
        t->u[i] = term_where(b, term_lt(b, norm, limit), g, clipped).v;
    }
}
