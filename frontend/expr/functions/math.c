/* Element-wise functions of expressions that are ops, operators and conversions; what is made of them stands in
 * library/math.step and library/special.step. */
#include "frontend/expr/makers.h"
#include <math.h>

static struct fe_val op1(struct fe_call *c, enum ir_op op, struct fe_val v) { return fe_op1(c->site, op, v); }

struct fe_val make_unary(struct fe_call *c) { return op1(c, (enum ir_op)c->data, ARG(0)); }
struct fe_val make_abs(struct fe_call *c)
{ /* of a bool: itself */
    if (!fe_as_tensor(c->site, &ARG(0))) return fe_bad();
    return fe_type_at(c->site, &ARG(0)).dtype == IR_BOOL ? ARG(0) : op1(c, OP_abs, ARG(0));
}
/* floor, ceil: integers are what they are. */
static bool is_whole(struct fe_call *c)
{
    return fe_as_tensor(c->site, &ARG(0)) && !ir_dtype_is_float((enum ir_dtype)fe_type_at(c->site, &ARG(0)).dtype);
}
struct fe_val make_rounded(struct fe_call *c) { return is_whole(c) ? ARG(0) : op1(c, (enum ir_op)c->data, ARG(0)); }
struct fe_val make_unary_float(struct fe_call *c) { return fe_op1_float(c->site, (enum ir_op)c->data, ARG(0)); }
struct fe_val make_binary(struct fe_call *c) { return fe_op2(c->site, (enum ir_op)c->data, ARG(0), ARG(1)); }
struct fe_val make_rem(struct fe_call *c)
{
    SITE;
    if (!ARG(0).bad && !ARG(1).bad && fe_promote(fe_kind(s, &ARG(0)), fe_kind(s, &ARG(1))).dtype == IR_BOOL)
        ARG(0) = fe_cast(s, ARG(0), IR_I32), ARG(1) = fe_cast(s, ARG(1), IR_I32);
    return fe_op2(s, OP_rem, ARG(0), ARG(1));
}
struct fe_val make_binary_float(struct fe_call *c)
{
    return fe_op2_float(c->site, (enum ir_op)c->data, ARG(0), ARG(1));
}
struct fe_val make_operator(struct fe_call *c)
{
    return fe_binary(c->site, (enum expr_operator)c->data, ARG(0), ARG(1));
}
struct fe_val make_positive(struct fe_call *c) { return fe_as_tensor(c->site, &ARG(0)) ? ARG(0) : fe_bad(); }

struct fe_val make_where(struct fe_call *c)
{
    if (!c->given[1] && !c->given[2] && !fe_is_none(&ARG(3)))
        return FE_APPLY(c->site, "nonzero", ARG(0), ARG(3), ARG(4));
    if (!c->given[1] || !c->given[2])
        return fe_fail(
            c->site, "E0312",
            "where needs three arguments, or size= for the indices: the shape of a result may not depend on values");
    if (!fe_is_none(&ARG(3)) || !fe_is_none(&ARG(4)))
        return fe_fail(c->site, "E0312", "where with three arguments takes no size and no fill_value");
    return fe_where3(c->site, ARG(0), ARG(1), ARG(2));
}
struct fe_val make_astype(struct fe_call *c)
{
    enum ir_dtype dtype;
    return fe_get_dtype(c, 1, &dtype) ? fe_cast(c->site, ARG(0), dtype) : fe_bad();
}
struct fe_val make_whole(struct fe_call *c)
{ /* an integer, if it is one */
    double n = ARG(0).number;
    return fe_val_number(n, n == floor(n) && fabs(n) <= 9007199254740991.0);
}
struct fe_val make_rounded_number(struct fe_call *c)
{ /* to float32 */
    return fe_float((double)(float)ARG(0).number);
}
struct fe_val make_log_of_number(struct fe_call *c) { return fe_float(log(ARG(0).number)); }
struct fe_val make_dtype(struct fe_call *c) { return fe_cast(c->site, ARG(0), (enum ir_dtype)c->data); }

/* y, whose derivative by x is not known: to ask for it is an error, as in JAX. A loop of no rounds gives x and has
 * none. */
struct fe_val make_without_slope(struct fe_call *c)
{
    SITE;
    struct fe_val y = ARG(0), x = ARG(1);
    struct fe_loop l;
    struct fe_val same;
    if (y.bad || x.kind != FE_VAL_TENSOR || ir_get(s->b->f, x.tensor)->op == OP_constant) return y;
    fe_loop_open(&l, s, "no_slope");
    l.unstopped = true;
    struct fe_val next = fe_loop_carry(&l, x);
    if (!fe_loop_close(&l, 0, false, &next, &same)) return fe_bad();
    struct fe_val none = fe_sub(s, same, fe_stop(s, same)), zero = fe_float(0);
    return fe_add(s, y, fe_where3(s, fe_op1(s, OP_is_finite, fe_stop(s, same)), none, zero));
}
