/* Amos (Tian, Parikh 2022): decay and step size from the scale `eta` that a parameter is expected to have when it is
 * trained. Its second moments may be averaged over dimensions (`shape_fn`). */
#include "frontend/expr/values.h"
#include "frontend/optim/optim.h"
#include <string.h>

/* ---------------------------------------------------------------- eta_fn */

/* Arithmetic over SHAPE, a tuple of the parameter's extents. */
static bool eta_of_shape(struct optim_transform *t, const struct ir_type *type, fe_json json, struct fe_term *out)
{
    struct fe_val items[IR_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) items[i] = fe_val_number((double)type->dim[i], true);
    struct fe_env env = {.name = "SHAPE", .value = {.kind = FE_VAL_TUPLE, .items = items, .count = type->rank}};
    struct fe_val v = fe_expr(t->fe, t->o->trace, json, &env);
    if (v.bad) return false;
    if (v.kind == FE_VAL_NUMBER) *out = term_number(v.number);
    else if (v.kind == FE_VAL_TENSOR && ir_type(t->b->f, v.tensor)->rank == 0)
        *out = term_cast(t->b, T(v.tensor), IR_F32);
    else {
        fe_error(t->fe, json, "E0103", "\"eta_fn\" gives one number per parameter");
        return false;
    }
    return true;
}

static bool eta_of(struct optim_transform *t, uint32_t leaf, struct fe_term *out)
{
    struct fe *fe = t->fe;
    const struct fe_param *p = &t->o->params[leaf];
    fe_json map = arg(t, "eta_fn")->json, e = optim_match(t, map, p->path);
    double value;
    if (!e) {
        struct diag *d = fe_error(fe, map, "E0422",
                                  "\"eta_fn\" has no entry for parameter \"%s\": no pattern matches it", p->path);
        d->hint = "a last pattern \"**\" is for the rest";
        return false;
    }
    if (e->kind == JSON_STRING && e->string[0] != '$') return eta_of_shape(t, &p->type, e, out);
    if (!fe_number(fe, e, &value)) return false;
    *out = term_number(value);
    if (value > 0) return true;
    fe_error(fe, e, "E0103", "\"eta_fn\" gives the expected scale of a parameter, which is above 0, found %s",
             fe_found(fe, e));
    return false;
}

/* ---------------------------------------------------------------- shape_fn */

/* The shape of a parameter's second moments: [] is a scalar, 1 averages over a dimension, null keeps it. */
static bool slot_type(struct optim_transform *t, uint32_t leaf, struct ir_type *out)
{
    struct fe *fe = t->fe;
    const struct fe_param *p = &t->o->params[leaf];
    fe_json list = absent(t, "shape_fn") ? NULL : optim_match(t, arg(t, "shape_fn")->json, p->path);
    uint32_t n = list ? fe_count(fe, list) : 0, i = 0;
    *out = p->type;
    out->dtype = IR_F32;
    if (!list) return true;
    if (list->kind != JSON_ARRAY || (n && n != p->type.rank)) {
        fe_error(fe, list, "E0427",
                 "\"shape_fn\" gives [] or one entry (1 or null) per dimension of parameter \"%s\", "
                 "which is %s, found %s",
                 p->path, ir_type_text(fe->arena, &p->type),
                 list->kind == JSON_ARRAY ? arena_format(fe->arena, "%u entries", n) : fe_found(fe, list));
        return false;
    }
    if (!n) *out = ir_type_scalar(IR_F32);
    for (fe_json e = fe_first(fe, list); e; e = fe_next(fe, e), i++) {
        int64_t extent = p->type.dim[i];
        if (e->kind != JSON_NULL && !fe_integer(fe, e, &extent)) return false;
        if (extent != 1 && extent != p->type.dim[i]) {
            fe_error(fe, e, "E0103", "1 averages over a dimension and null keeps it (%lld), found %s",
                     (long long)p->type.dim[i], fe_found(fe, e));
            return false;
        }
        out->dim[i] = extent;
    }
    return true;
}

/* The mean of x over the dimensions that the slot lacks or has as 1. */
static struct fe_term reduced(struct ir_builder *b, struct fe_term x, const struct ir_type *slot)
{
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0;
    const struct ir_type type = *ir_type(b->f, x.v);
    for (uint32_t i = 0; i < type.rank; i++)
        if (!slot->rank || slot->dim[i] != type.dim[i]) dims[n++] = i;
    return n ? T(ir_reshape(b, term_mean_over(b, x, dims, n).v, slot->rank, slot->dim)) : x;
}

/* ---------------------------------------------------------------- the step */

/* What all leaves share: the rate at the step counted from 1, 1 - beta**t. */
struct step_of {
    struct fe_term rate, correction;
};

static void update_leaf(struct optim_transform *t, const struct step_of *s, uint32_t leaf, struct fe_term eta,
                        const struct ir_type *slot)
{
    struct ir_builder *b = t->b;
    struct fe_term one = term_number(1), g = term_cast(b, T(t->u[leaf]), IR_F32),
                   p = term_cast(b, T(t->p[leaf]), IR_F32);
    struct fe_term v = optim_leaf(t, "v", leaf, *slot, zero), decay = optim_leaf(t, "b", leaf, *slot, zero);
    struct fe_term sq = reduced(b, term_square(b, g), slot);
    v = moment(b, sq, v, number(t, "beta"));
    struct fe_term inverse = term_div(b, s->correction, term_max(b, v, number(t, "epsilon")));
    struct fe_term root = term_add(b, one, term_mul(b, term_mul(b, number(t, "c_coef"), term_sqrt(b, s->rate)), decay));
    struct fe_term gamma = term_mul(b, term_mul(b, term_square(b, s->rate), inverse), sq);
    gamma = term_div(b, gamma, term_sqrt(b, root));
    struct fe_term shrink = term_sub(b, term_mul(b, term_number(-0.5), gamma), number(t, "extra_l2"));
    struct fe_term step = term_mul(b, term_mul(b, term_mul(b, s->rate, eta), term_sqrt(b, inverse)), g);
    struct fe_term slower = term_mul(b, number(t, "d_coef"), term_sqrt(b, term_mul(b, s->rate, eta)));
    slower = term_add(b, one, term_mul(b, slower, decay));
    struct fe_term u = term_div(b, term_sub(b, term_mul(b, shrink, p), step), slower);
    optim_leaf_set(t, "v", leaf, v);
    optim_leaf_set(t, "b", leaf, term_add(b, decay, term_mul(b, gamma, term_add(b, one, decay))));
    t->u[leaf] = term_cast_like(b, u, T(t->u[leaf])).v;
}

void transform_scale_by_amos(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term *eta = arena_new_array(t->fe->arena, struct fe_term, t->count + 1);
    struct ir_type *slots = arena_new_array(t->fe->arena, struct ir_type, t->count + 1);
    bool good = optim_patterns_match(t, arg(t, "eta_fn")->json);
    good &= absent(t, "shape_fn") || optim_patterns_match(t, arg(t, "shape_fn")->json);
    EACH_LEAF(t, i) good = good && eta_of(t, i, &eta[i]) && slot_type(t, i, &slots[i]);
    if (!good) return;
    struct fe_term count = optim_increment(b, counter(t, "count"));
    optim_state_set(t, "count", count);
    struct step_of s = {.rate = at_count(t, "learning_rate", count),
                        .correction = correction(b, number(t, "beta"), count)};
    EACH_LEAF(t, i) update_leaf(t, &s, i, eta[i], &slots[i]);
}
