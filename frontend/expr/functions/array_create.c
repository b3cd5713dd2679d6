/* Functions of expressions that make tensors: filled ones and ranges. */
#include "frontend/expr/makers.h"
#include <math.h>

static bool shape_arg(struct fe_call *c, uint32_t arg, struct ir_type *t)
{
    int64_t shape[IR_MAX_RANK];
    uint32_t rank;
    struct fe_site at = *c->site;
    at.where = c->where[arg];
    if (!fe_get_ints(&at, &c->arg[arg], shape, IR_MAX_RANK, &rank, "shape")) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] < 0)
            return fe_wrong_here(&at, "E0212", "a shape may not hold the negative number %lld", (long long)shape[i]);
    *t = ir_type_of(IR_F32, rank, shape);
    if (ir_type_elements(t) < 0) return fe_wrong_here(&at, "E0212", "the shape is too large");
    return true;
}

struct fe_val make_filled(struct fe_call *c)
{
    struct ir_type t;
    enum ir_dtype d;
    if (!shape_arg(c, 0, &t) || !fe_get_dtype(c, 1, &d)) return fe_bad();
    t.dtype = (uint8_t)d;
    return fe_full(c->site, t, c->data);
}

static struct fe_val filled(struct fe_call *c, struct ir_type t, struct fe_val value, uint32_t dtype_arg)
{
    SITE;
    enum ir_dtype d = (enum ir_dtype)t.dtype;
    if (!fe_is_none(&ARG(dtype_arg)) && !fe_get_dtype(c, dtype_arg, &d)) return fe_bad();
    t.dtype = (uint8_t)d;
    if (value.kind == FE_VAL_NUMBER) return fe_val_tensor(fe_number_as(s, &value, t));
    return fe_broadcast_val(s, fe_cast(s, value, d), t.rank, t.dim);
}

struct fe_val make_full(struct fe_call *c)
{
    struct ir_type t;
    if (!shape_arg(c, 0, &t)) return fe_bad();
    struct fe_kind_of k = fe_kind(c->site, &ARG(1));
    t.dtype = (uint8_t)k.dtype;
    struct fe_val v = filled(c, t, ARG(1), 2);
    v.weak = k.weak && fe_is_none(&ARG(2));
    return v;
}

/* The type of a tensor, or that with another shape. */
static bool like_arg(struct fe_call *c, uint32_t shape, struct ir_type *t)
{
    struct ir_type other;
    if (!fe_as_tensor(c->site, &ARG(0))) return false;
    *t = fe_type_at(c->site, &ARG(0));
    if (fe_is_none(&ARG(shape))) return true;
    if (!shape_arg(c, shape, &other)) return false;
    other.dtype = t->dtype;
    *t = other;
    return true;
}

/* Weak as what it is like. */
static struct fe_val filled_like(struct fe_call *c, struct fe_val value, uint32_t dtype, uint32_t shape)
{
    struct ir_type t;
    if (!like_arg(c, shape, &t)) return fe_bad();
    struct fe_val v = filled(c, t, value, dtype);
    v.weak = !v.bad && ARG(0).weak && fe_is_none(&ARG(dtype));
    return v;
}

struct fe_val make_filled_like(struct fe_call *c) { return filled_like(c, fe_int(c->data), 1, 2); }
struct fe_val make_full_like(struct fe_call *c) { return filled_like(c, ARG(1), 2, 3); }

struct fe_val make_arange(struct fe_call *c)
{
    SITE;
    double start = 0, stop, step = 1;
    bool integer = true;
    for (int i = 0; i < 3; i++) {
        if (fe_is_none(&ARG(i))) continue;
        if (ARG(i).kind != FE_VAL_NUMBER)
            return fe_fail(s, "E0310", "arange needs numbers, found %s", fe_describe(s, &ARG(i)));
        integer &= ARG(i).python != FE_PY_FLOAT;
    }
    stop = ARG(0).number;
    if (!fe_is_none(&ARG(1))) {
        start = ARG(0).number;
        stop = ARG(1).number;
    }
    if (!fe_is_none(&ARG(2))) step = ARG(2).number;
    if (step == 0) return fe_fail(s, "E0212", "the step of arange may not be 0");
    double n = ceil((stop - start) / step);
    if (isnan(n)) return fe_fail(s, "E0212", "the length of the range is not a number");
    if (!(n > 0)) n = 0;
    if (n > 1e12) return fe_fail(s, "E0212", "the range is too long");
    enum ir_dtype d = integer ? IR_I32 : IR_F32;
    if (!fe_is_none(&ARG(3)) && !fe_get_dtype(c, 3, &d)) return fe_bad();
    struct fe_val v = fe_iota(s, ir_type_of(d, 1, (int64_t[]){(int64_t)n}), 0);
    if (step != 1) v = fe_mul(s, v, fe_val_number(step, integer));
    return start != 0 ? fe_add(s, v, fe_val_number(start, integer)) : v;
}

struct fe_val make_array(struct fe_call *c)
{
    int64_t least = 0;
    bool weak = ARG(0).kind == FE_VAL_NUMBER ? ARG(0).python != FE_PY_BOOL
                                             : ARG(0).kind == FE_VAL_TENSOR && ARG(0).weak;
    if (!fe_as_tensor(c->site, &ARG(0)) || (c->data && !fe_get_int(c, 2, &least))) return fe_bad();
    struct fe_val v = fe_is_none(&ARG(1)) ? fe_tensor_val(ARG(0).tensor, weak) : fe_as_dtype(c, 1, ARG(0));
    while (!v.bad && fe_rank(c->site, &v) < least) v = fe_expand(c->site, v, 0);
    return v;
}
