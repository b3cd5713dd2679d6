/* Functions of expressions that look at bits or divide integers. */
#include "frontend/expr/makers.h"
#include <math.h>

/* The same bits as another dtype of this width. */
struct fe_val make_bitcast(struct fe_call *c)
{
    enum ir_dtype d;
    return fe_get_dtype(c, 1, &d) ? fe_val_tensor(ir_bitcast(c->site->b, ARG(0).tensor, d)) : fe_bad();
}

/* Integers towards zero, floats as / does (jax.lax.div). */
struct fe_val make_div(struct fe_call *c)
{
    SITE;
    if (ARG(0).bad || ARG(1).bad) return fe_bad();
    bool floats = ir_dtype_is_float(fe_promote(fe_kind(s, &ARG(0)), fe_kind(s, &ARG(1))).dtype);
    return floats ? fe_div(s, ARG(0), ARG(1)) : fe_op2(s, OP_div, ARG(0), ARG(1));
}

/* Euclid: the slowest pair of int32, two Fibonacci numbers, takes 46 steps. */
struct fe_val make_gcd(struct fe_call *c)
{
    SITE;
    struct fe_val a = ARG(0), b = ARG(1), common, after[3];
    if (!fe_as_tensor(s, &a) || !fe_as_tensor(s, &b)) return fe_bad();
    if (!ir_dtype_is_integer(fe_promote(fe_kind(s, &a), fe_kind(s, &b)).dtype))
        return fe_fail(s, "E0211", "gcd needs integers, found %s and %s", fe_describe(s, &a), fe_describe(s, &b));
    common = fe_op2(s, OP_or, a, b);
    if (common.bad) return common;
    struct ir_type t = fe_type_at(s, &common);
    enum ir_dtype d = (enum ir_dtype)t.dtype;
    a = fe_op1(s, OP_abs, fe_broadcast_val(s, fe_cast(s, a, d), t.rank, t.dim));
    b = fe_op1(s, OP_abs, fe_broadcast_val(s, fe_cast(s, b, d), t.rank, t.dim));
    struct fe_loop l;
    fe_loop_open(&l, s, "gcd");
    (void)fe_loop_carry(&l, fe_full(s, ir_type_scalar(IR_BOOL), 1));
    struct fe_val x = fe_loop_carry(&l, a), y = fe_loop_carry(&l, b), zero = fe_int(0);
    if (x.bad || y.bad) return fe_bad();
    struct fe_val done = fe_binary(&l.in, EXPR_OP_EQ, y, zero);
    struct fe_val rest = fe_op2(&l.in, OP_rem, x, fe_where3(&l.in, done, fe_int(1), y));
    struct fe_val next[] = {fe_reduce_all(&l.in, FE_RED_ANY, fe_binary(&l.in, EXPR_OP_NE, y, zero)),
                            fe_where3(&l.in, done, x, y), fe_where3(&l.in, done, zero, rest)};
    return fe_loop_close(&l, 48, true, next, after) ? after[1] : fe_bad();
}
