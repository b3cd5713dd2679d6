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
    else return fe_wrong(t->fe, json, "E0103", "\"eta_fn\" gives one number per parameter");
    return true;
}

static bool eta_of(struct optim_transform *t, uint32_t leaf, struct fe_term *out)
{
    struct fe *fe = t->fe;
    const struct fe_param *p = &t->o->params[leaf];
    fe_json map = arg(t, "eta_fn")->json, e = fe_pattern_first(t->fe, map, p->path);
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
    fe_json list = absent(t, "shape_fn") ? NULL : fe_pattern_first(t->fe, arg(t, "shape_fn")->json, p->path);
    uint32_t n = list ? fe_count(fe, list) : 0, i = 0;
    *out = p->type;
    out->dtype = IR_F32;
    if (!list) return true;
    if (list->kind != JSON_ARRAY || (n && n != p->type.rank))
        return fe_wrong(fe, list, "E0427",
                        "\"shape_fn\" gives [] or one entry (1 or null) per dimension of parameter \"%s\", "
                        "which is %s, found %s",
                        p->path, ir_type_text(fe->arena, &p->type),
                        list->kind == JSON_ARRAY ? arena_format(fe->arena, "%u entries", n) : fe_found(fe, list));
    if (!n) *out = ir_type_scalar(IR_F32);
    for (fe_json e = fe_first(fe, list); e; e = fe_next(fe, e), i++) {
        int64_t extent = p->type.dim[i];
        if (e->kind != JSON_NULL && !fe_integer(fe, e, &extent)) return false;
        if (extent != 1 && extent != p->type.dim[i])
            return fe_wrong(fe, e, "E0103", "1 averages over a dimension and null keeps it (%lld), found %s",
                            (long long)p->type.dim[i], fe_found(fe, e));
        out->dim[i] = extent;
    }
    return true;
}

/* ---------------------------------------------------------------- the step */

void transform_scale_by_amos(struct optim_transform *t)
{
    struct fe_term *eta = arena_new_array(t->fe->arena, struct fe_term, t->count + 1);
    struct ir_type *slots = arena_new_array(t->fe->arena, struct ir_type, t->count + 1);
    bool good = optim_patterns_match(t, arg(t, "eta_fn")->json);
    good &= absent(t, "shape_fn") || optim_patterns_match(t, arg(t, "shape_fn")->json);
    EACH_LEAF(t, i) good = good && eta_of(t, i, &eta[i]) && slot_type(t, i, &slots[i]);
    if (!good) return;
    (void)counter(t, "count");
    EACH_LEAF(t, i) {
        (void)optim_leaf(t, "v", i, slots[i], zero);
        (void)optim_leaf(t, "b", i, slots[i], zero);
    }
    optim_formula_given(t, "amos", (const struct optim_given[]){{"eta", eta, true}, {0}});
}
