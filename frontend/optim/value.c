/* Transformations that look at the loss, at the parameters' norms or at the whole tree. */
#include "frontend/optim/optim.h"
#include <math.h>
#include <string.h>

/* The step that would bring the loss to its least value if it were linear (Polyak 1964; Loizou et al. 2021). */
void transform_scale_by_polyak(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term squares = optim_square_sum(t, t->u), norm = term_add(b, squares, number(t, "eps"));
    struct fe_term gap = term_cast_like(b, term_sub(b, T(t->o->value), number(t, "f_min")), squares);
    if (strcmp(arg(t, "variant")->string, "sps+") == 0) gap = term_max(b, gap, term_number(0));
    struct fe_term step = term_min(b, term_div(b, gap, norm), number(t, "max_learning_rate"));
    step = term_where(b, term_le(b, norm, term_number(0x1p-52)), term_number(0), step);
    EACH_LEAF(t, i) t->u[i] = term_mul(b, step, T(t->u[i])).v;
}

/* Makes the updates smaller when the loss, averaged over some steps, does not improve any more. */
void transform_reduce_on_plateau(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    const struct ir_type scalar = ir_type_scalar(optim_highest(t));
    struct fe_term none = term_integer(0), one = term_integer(1), patience = term_integer(arg(t, "patience")->integer);
    struct fe_term scale = optim_state(t, "scale", ir_type_scalar(optim_lowest(t)), (struct optim_start){.number = 1});
    struct fe_term best = optim_state(t, "best_value", scalar, (struct optim_start){.number = (double)INFINITY});
    struct fe_term plateau = counter(t, "plateau_count"), cooldown = counter(t, "cooldown_count"),
                   before = counter(t, "count");
    struct fe_term count = optim_increment(b, before), average = optim_state(t, "avg_value", scalar, zero);
    average = term_div(b, term_add(b, term_mul(b, before, average), term_cast_like(b, T(t->o->value), average)), count);

    struct fe_term due = term_eq(b, count, term_integer(arg(t, "accumulation_size")->integer));
    struct fe_term limit = term_mul(b, term_sub(b, one, number(t, "rtol")), best);
    struct fe_term improved = term_lt(b, average, term_sub(b, limit, number(t, "atol")));
    struct fe_term stalled = term_where(b, improved, none, optim_increment(b, plateau)),
                   cooling = term_lt(b, none, cooldown);
    struct fe_term reached = term_eq(b, stalled, patience);
    struct fe_term reduced = term_where(b, reached, term_mul(b, scale, number(t, "factor")), scale);
    reduced = term_where(b, cooling, scale, term_max(b, reduced, number(t, "min_scale")));
    struct fe_term wait = term_where(b, reached, term_integer(arg(t, "cooldown")->integer), none);
    wait = term_where(b, cooling, term_sub(b, cooldown, one), wait);
    stalled = term_where(b, term_or(b, cooling, reached), none, stalled);

    scale = term_where(b, due, reduced, scale);
    optim_state_set(t, "scale", scale);
    optim_state_set(t, "best_value", term_where(b, term_and(b, due, improved), average, best));
    optim_state_set(t, "plateau_count", term_where(b, due, stalled, plateau));
    optim_state_set(t, "cooldown_count", term_where(b, due, wait, cooldown));
    optim_state_set(t, "count", term_where(b, due, none, count));
    optim_state_set(t, "avg_value", term_where(b, due, term_number(0), average));
    EACH_LEAF(t, i) t->u[i] = term_mul(b, scale, T(t->u[i])).v;
}

void transform_normalize(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term norm = term_sqrt(b, optim_square_sum(t, t->u));
    EACH_LEAF(t, i) t->u[i] = term_div(b, T(t->u[i]), norm).v;
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
        if (d < 0 || d >= type->rank) {
            fe_error(t->fe, axis->json, "E0202", "axis %lld is outside of the shape %s", (long long)axis->shape[i],
                     ir_type_text(t->fe->arena, type));
            return false;
        }
        dims[(*n)++] = d;
    }
    if (!axis->null) return true;
    if (wide > 1 && type->rank > 5) {
        fe_error(t->fe, t->json, "E0202", "shape %s needs an \"axis\"", ir_type_text(t->fe->arena, type));
        return false;
    }
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

/* ---------------------------------------------------------------- fromage */

/* The rate of a part, at the part's own counter. */
static struct fe_term own_rate(struct optim_transform *t, uint32_t part)
{
    struct optim_transform inner = *t;
    if (!optim_scheduled(t, "learning_rate")) return number(t, "learning_rate");
    inner.path = arena_format(t->fe->arena, "%s.%u", t->path, part);
    struct fe_term count = counter(&inner, "count"), rate = at_count(t, "learning_rate", count);
    optim_state_set(&inner, "count", optim_increment(t->b, count));
    return rate;
}

/* 1 / sqrt(1 + rate**2) */
static struct fe_term shrink(struct ir_builder *b, struct fe_term rate)
{
    struct fe_term one = term_integer(1);
    return term_div(b, one, term_sqrt(b, term_add(b, one, term_square(b, rate))));
}

/* A relative step, then the parameters shrink back to their norm (Bernstein et al. 2020). */
void transform_fromage(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    optim_chain(t, "scale_by_trust_ratio(eps=0.0)", 0);
    struct fe_term rate = own_rate(t, 1), decay = own_rate(t, 2);
    rate = term_neg(b, term_mul(b, shrink(b, rate), rate));
    decay = term_sub(b, shrink(b, decay), term_integer(1));
    EACH_LEAF(t, i) {
        struct fe_term u = T(t->u[i]);
        t->u[i] = term_add(b, term_mul(b, term_cast_like(b, rate, u), u), term_mul(b, decay, T(t->p[i]))).v;
    }
}
