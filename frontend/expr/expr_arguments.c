/* Arguments of functions in expressions that are known while compiling: numbers, axes, dtypes; and tensors with their
 * type. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

bool fe_get_int(struct fe_call *c, uint32_t arg, int64_t *out)
{
    const struct fe_val *v = &c->arg[arg];
    if (v->kind != FE_VAL_NUMBER || v->python == FE_PY_FLOAT || !(fabs(v->number) <= 9007199254740991.0)) {
        if (!v->bad)
            fe_fail_at(c->site, &c->where[arg], "E0310", "%s: an integer expected, found %s", c->function,
                       v->kind == FE_VAL_NUMBER ? "a fraction" : fe_describe(c->site, v));
        return false;
    }
    *out = (int64_t)v->number;
    return true;
}

bool fe_get_ints(struct fe_site *s, const struct fe_val *v, int64_t *out, uint32_t limit, uint32_t *count,
                 const char *what)
{
    const struct fe_val *items = v->kind == FE_VAL_TUPLE ? v->items : v;
    uint32_t n = v->kind == FE_VAL_TUPLE ? v->count : 1;
    if (n > limit)
        return fe_wrong_here(s, "E0310", "%s: at most %u integers expected, found %u", what, (unsigned)limit,
                             (unsigned)n);
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].kind != FE_VAL_NUMBER || items[i].number != floor(items[i].number) ||
            fabs(items[i].number) > 0x1p53) {
            if (!items[i].bad) fe_fail(s, "E0310", "%s: integers expected, found %s", what, fe_describe(s, &items[i]));
            return false;
        }
        out[i] = (int64_t)items[i].number;
    }
    *count = n;
    return true;
}

bool fe_get_axis(const struct fe_site *s, int64_t axis, uint32_t rank, uint32_t *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return fe_wrong_here(s, "E0212", "axis %lld is outside a tensor of rank %u", (long long)axis, (unsigned)rank);
    *out = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return true;
}

bool fe_get_axes(struct fe_call *c, uint32_t arg, uint32_t rank, uint32_t *axes, uint32_t *count)
{
    const struct fe_val *v = &c->arg[arg];
    int64_t list[IR_MAX_RANK];
    struct fe_site at = *c->site;
    if (fe_is_none(v)) {
        for (uint32_t i = 0; i < rank; i++) axes[i] = i;
        *count = rank;
        return true;
    }
    at.where = c->where[arg];
    if (!fe_get_ints(&at, v, list, IR_MAX_RANK, count, "axis")) return false;
    bool seen[IR_MAX_RANK] = {0};
    for (uint32_t i = 0; i < *count; i++) {
        if (!fe_get_axis(&at, list[i], rank, &axes[i])) return false;
        if (seen[axes[i]]) return fe_wrong_here(&at, "E0212", "axis %lld is named twice", (long long)list[i]);
        seen[axes[i]] = true;
    }
    return true;
}

struct fe_val fe_as_dtype(struct fe_call *c, uint32_t arg, struct fe_val v)
{
    enum ir_dtype d;
    if (fe_is_none(&c->arg[arg]) || v.bad) return v;
    return fe_get_dtype(c, arg, &d) ? fe_cast(c->site, v, d) : fe_bad();
}

bool fe_get_dtype(struct fe_call *c, uint32_t arg, enum ir_dtype *out)
{
    const struct fe_val *v = &c->arg[arg];
    const char *name = v->kind == FE_VAL_STRING ? v->string : NULL;
    if (name && !strcmp(name, "float")) name = "float32";
    if (name && !strcmp(name, "int")) name = "int32";
    if (name && !strcmp(name, "bool_")) name = "bool";
    *out = name ? ir_dtype_find(name) : IR_TUPLE;
    if (*out == IR_TUPLE)
        return fe_wrong_at(c->site, &c->where[arg], "E0310", "a dtype such as 'float32' expected, found %s",
                           name ? name : fe_describe(c->site, v));
    *out = fe_dtype_narrow(*out);
    return true;
}

bool fe_get_flag(struct fe_call *c, uint32_t i)
{
    const struct fe_val *v = &c->arg[i];
    if (v->kind != FE_VAL_NUMBER && !fe_is_none(v) && !v->bad)
        fe_fail_at(c->site, &c->where[i], "E0310", "True or False expected, found %s", fe_describe(c->site, v));
    return fe_truth(v);
}

bool fe_get_tensor(struct fe_call *c, uint32_t i, struct ir_type *t)
{
    if (!fe_as_tensor(c->site, &c->arg[i])) return false;
    *t = fe_type_at(c->site, &c->arg[i]);
    return true;
}

bool fe_get_axis_arg(struct fe_call *c, uint32_t i, uint32_t rank, uint32_t *axis)
{
    int64_t v;
    struct fe_site at = *c->site;
    at.where = c->where[i];
    return fe_get_int(c, i, &v) && fe_get_axis(&at, v, rank, axis);
}
