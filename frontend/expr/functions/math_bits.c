/* Functions of expressions that look at bits or divide integers: frexp, nextafter, the greatest common divisor. */
#include "frontend/expr/makers.h"
#include <math.h>

static enum ir_dtype integer_like(enum ir_dtype d, bool is_signed)
{
    size_t bytes = ir_dtype_bytes(d);
    return bytes == 1   ? (is_signed ? IR_I8 : IR_U8)
           : bytes == 2 ? (is_signed ? IR_I16 : IR_U16)
           : is_signed  ? IR_I32
                        : IR_U32;
}

static struct fe_val bits(struct fe_site *s, struct fe_val x, enum ir_dtype d)
{
    return x.bad ? x : fe_val_tensor(ir_bitcast(s->b, x.tensor, d));
}

/* An integer as uint32 of the same bits. */
struct fe_val make_bits_of(struct fe_call *c)
{
    SITE;
    struct fe_val x = ARG(0);
    if (!fe_as_tensor(s, &x)) return fe_bad();
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    if (!ir_dtype_is_integer(d)) return fe_fail(s, "E0211", "integers expected, found %s", fe_describe(s, &x));
    return fe_cast(s, bits(s, x, integer_like(d, false)), IR_U32);
}

/* x as mantissa * 2 ** exponent with the mantissa in [0.5, 1). */
struct fe_val make_frexp(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), wide = fe_cast(s, x, IR_F32), both[2];
    if (wide.bad) return wide;
    struct fe_val tiny = fe_binary(s, EXPR_OP_LT, fe_op1(s, OP_abs, wide), fe_float(0x1p-126));
    struct fe_val normal = fe_where3(s, tiny, fe_mul(s, wide, fe_float(0x1p25)), wide), v = bits(s, normal, IR_I32);
    struct fe_val exponent = fe_sub(s, fe_op2(s, OP_and, fe_op2(s, OP_shr, v, fe_int(23)), fe_int(255)), fe_int(126));
    exponent = fe_sub(s, exponent, fe_where3(s, tiny, fe_int(25), fe_int(0)));
    struct fe_val mantissa = bits(s, fe_op2(s, OP_or, fe_op2(s, OP_and, v, fe_int(-2139095041.0)), fe_int(1056964608)),
                                  IR_F32);
    struct fe_val plain = fe_op2(s, OP_or, fe_op1(s, OP_not, fe_op1(s, OP_is_finite, wide)),
                                 fe_binary(s, EXPR_OP_EQ, wide, fe_float(0)));
    both[0] = fe_where3(s, plain, wide, mantissa);
    both[1] = fe_where3(s, plain, fe_int(0), exponent);
    if (both[0].bad || both[1].bad) return fe_bad();
    both[0] = fe_cast(s, both[0], (enum ir_dtype)fe_type_at(s, &x).dtype);
    return fe_tuple(s, both, 2);
}

/* The next representable number after x1 on the way to x2: one step of its bits. */
struct fe_val make_nextafter(struct fe_call *c)
{
    SITE;
    struct fe_val x = fe_inexact(s, ARG(0)), y = fe_inexact(s, ARG(1)), zero = fe_int(0), one = fe_int(1);
    struct fe_val common = fe_add(s, x, y);
    if (common.bad) return common;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &common).dtype, whole = integer_like(d, true);
    struct ir_type t = fe_type_at(s, &common);
    x = fe_broadcast_val(s, fe_cast(s, x, d), t.rank, t.dim), y = fe_broadcast_val(s, fe_cast(s, y, d), t.rank, t.dim);
    double least = ir_dtype_bytes(d) == 2 ? -32768.0 : -2147483648.0;
    struct fe_val v = bits(s, x, whole), w = bits(s, y, whole), sign = fe_full(s, ir_type_scalar(whole), least);
    struct fe_val size = fe_op2(s, OP_and, v, fe_op1(s, OP_not, sign)),
                  other = fe_op2(s, OP_and, w, fe_op1(s, OP_not, sign));
    struct fe_val signs = fe_op2(s, OP_ne, fe_binary(s, EXPR_OP_LT, v, zero), fe_binary(s, EXPR_OP_LT, w, zero));
    struct fe_val down = fe_op2(s, OP_or, signs, fe_binary(s, EXPR_OP_GT, size, other));
    struct fe_val next = fe_add(s, v, fe_where3(s, down, fe_int(-1), one));
    struct fe_val first = fe_op2(s, OP_or, fe_op2(s, OP_and, w, sign), one); /* the least number with y's sign */
    next = fe_where3(s, fe_binary(s, EXPR_OP_EQ, size, zero), first, next);
    next = fe_where3(s, fe_op2(s, OP_and, fe_binary(s, EXPR_OP_EQ, size, zero), fe_binary(s, EXPR_OP_EQ, other, zero)),
                     w, next);
    next = fe_where3(s, fe_binary(s, EXPR_OP_EQ, v, w), w, next);
    struct fe_val nan = fe_op2(s, OP_or, fe_binary(s, EXPR_OP_NE, x, x), fe_binary(s, EXPR_OP_NE, y, y));
    return fe_where3(s, nan, fe_float((double)NAN), bits(s, fe_cast(s, next, whole), d));
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
