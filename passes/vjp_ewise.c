/* Gradients of element-wise ops. The formulas are JAX's (jax/_src/lax/lax.py), so that rounding and the behaviour at
 * the edges (0, infinities, ties) are the same. g is the cotangent, y the result. */
#include "passes/vjp.h"

#define G c->ct
#define Y c->value
#define ARG(i) vjp_arg(c, i)
#define NUMBER(number) vjp_like(c, c->ct, number)
#define MUL(left, right) vjp_op2(c, OP_mul, left, right)
#define DIV(left, right) vjp_op2(c, OP_div, left, right)
#define ADD(left, right) vjp_op2(c, OP_add, left, right)
#define SUB(left, right) vjp_op2(c, OP_sub, left, right)
#define NEG(x) vjp_op1(c, OP_neg, x)
#define WHERE(condition, yes, no) ir_select(c->b, condition, yes, no)
#define IS(op, left, right) vjp_op2(c, OP_##op, left, right)

#define UNARY(name, expression) \
    void vjp_##name(struct vjp *c) { vjp_give(c, 0, expression); }

UNARY(neg, NEG(G))
UNARY(abs, WHERE(IS(le, NUMBER(0), ARG(0)), G, NEG(G))) /* 1 at zero */
UNARY(exp, MUL(G, Y))
UNARY(expm1, MUL(G, ADD(Y, NUMBER(1))))
UNARY(log, DIV(G, ARG(0)))
UNARY(log1p, DIV(G, ADD(ARG(0), NUMBER(1))))
UNARY(log2, DIV(G, MUL(ARG(0), NUMBER(0.69314718055994530942))))
UNARY(sqrt, MUL(G, DIV(NUMBER(0.5), Y)))
UNARY(rsqrt, MUL(G, MUL(NUMBER(-0.5), DIV(Y, ARG(0)))))
UNARY(cbrt, MUL(G, DIV(NUMBER(1.0 / 3), MUL(Y, Y))))
UNARY(logistic, MUL(G, MUL(Y, SUB(NUMBER(1), Y))))
UNARY(sin, MUL(G, vjp_op1(c, OP_cos, ARG(0))))
UNARY(cos, NEG(MUL(G, vjp_op1(c, OP_sin, ARG(0)))))
UNARY(erf, MUL(MUL(G, NUMBER(1.1283791670955126)), vjp_op1(c, OP_exp, NEG(MUL(ARG(0), ARG(0))))))
UNARY(erf_inv, MUL(MUL(G, NUMBER(0.88622692545275801)), vjp_op1(c, OP_exp, MUL(Y, Y))))

/* (g + g * y) * (1 - y), transposed: the order decides what overflows in 16 bits. */
void vjp_tanh(struct vjp *c)
{
    ir_value g = MUL(G, SUB(NUMBER(1), Y));
    vjp_give(c, 0, ADD(g, MUL(g, Y)));
}

/* To another dtype and back; integers have no gradient. */
void vjp_cast(struct vjp *c)
{
    enum ir_dtype dtype = (enum ir_dtype)vjp_type(c, 0)->dtype;
    if (ir_dtype_is_float(dtype)) vjp_give(c, 0, ir_cast(c->b, G, dtype));
}

void vjp_add(struct vjp *c)
{
    vjp_give(c, 0, G);
    vjp_give(c, 1, G);
}

void vjp_surrogate(struct vjp *c) { vjp_give(c, 1, G); }
void vjp_sloped(struct vjp *c) { vjp_give(c, 0, MUL(G, ARG(1))); }

void vjp_sub(struct vjp *c)
{
    vjp_give(c, 0, G);
    if (vjp_wants(c, 1)) vjp_give(c, 1, NEG(G));
}

void vjp_mul(struct vjp *c)
{
    if (vjp_wants(c, 0)) vjp_give(c, 0, MUL(G, ARG(1)));
    if (vjp_wants(c, 1)) vjp_give(c, 1, MUL(G, ARG(0)));
}

/* g / b, and -(g / b) * (a / b): one division more than the forward pass has. In 16 bits, where it may overflow or
 * vanish, in JAX's order: -(g * (1 / (b * b)) * a). */
void vjp_div(struct vjp *c)
{
    ir_value of_a = DIV(G, ARG(1));
    vjp_give(c, 0, of_a);
    if (!vjp_wants(c, 1)) return;
    bool narrow = ir_dtype_bytes((enum ir_dtype)c->node.type.dtype) == 2;
    vjp_give(c, 1, narrow ? NEG(MUL(MUL(G, DIV(NUMBER(1), MUL(ARG(1), ARG(1)))), ARG(0))) : NEG(MUL(of_a, Y)));
}

/* a - trunc(a / b) * b */
void vjp_rem(struct vjp *c)
{
    vjp_give(c, 0, G);
    if (!vjp_wants(c, 1)) return;
    ir_value ratio = DIV(ARG(0), ARG(1)), whole = vjp_op1(c, OP_floor, vjp_op1(c, OP_abs, ratio));
    vjp_give(c, 1, MUL(NEG(G), MUL(vjp_op1(c, OP_sign, ratio), whole)));
}

/* By the base: g * b * a**(b - 1), nothing if b is the constant 0. By the exponent: g * log(a) * a**b, with log(1) at
 * a = 0. */
void vjp_pow(struct vjp *c)
{
    double exponent;
    bool is_constant = pass_number(c->b->f, ARG(1), &exponent);
    if (vjp_wants(c, 0) && !(is_constant && exponent == 0))
        vjp_give(c, 0, MUL(G, MUL(ARG(1), vjp_op2(c, OP_pow, ARG(0), SUB(ARG(1), NUMBER(1))))));
    if (vjp_wants(c, 1)) {
        ir_value base = WHERE(IS(eq, ARG(0), NUMBER(0)), NUMBER(1), ARG(0));
        vjp_give(c, 1, MUL(G, MUL(vjp_op1(c, OP_log, base), Y)));
    }
}

void vjp_atan2(struct vjp *c)
{
    ir_value square = ADD(MUL(ARG(0), ARG(0)), MUL(ARG(1), ARG(1)));
    if (vjp_wants(c, 0)) vjp_give(c, 0, MUL(G, DIV(ARG(1), square)));
    if (vjp_wants(c, 1)) vjp_give(c, 1, MUL(G, DIV(NEG(ARG(0)), square)));
}

/* The winner takes all, a tie is halved; to who loses NaN and infinity come as NaN, as by JAX's product with 0.
 * `first`: operand 0 wins where this holds. */
static void extremum(struct vjp *c, ir_value first, ir_value second)
{
    ir_value tie = MUL(G, WHERE(IS(eq, ARG(0), ARG(1)), NUMBER(0.5), NUMBER(0)));
    if (vjp_wants(c, 0)) vjp_give(c, 0, WHERE(first, G, tie));
    if (vjp_wants(c, 1)) vjp_give(c, 1, WHERE(second, G, tie));
}

void vjp_max(struct vjp *c) { extremum(c, IS(lt, ARG(1), ARG(0)), IS(lt, ARG(0), ARG(1))); }
void vjp_min(struct vjp *c) { extremum(c, IS(lt, ARG(0), ARG(1)), IS(lt, ARG(1), ARG(0))); }

/* What was not chosen gets an exact 0, whatever the cotangent is: where(x > 0, log(x), 0) is safe outside, though
 * not inside, the branch that was taken. */
void vjp_select(struct vjp *c)
{
    if (vjp_wants(c, 1)) vjp_give(c, 1, WHERE(ARG(0), G, NUMBER(0)));
    if (vjp_wants(c, 2)) vjp_give(c, 2, WHERE(ARG(0), NUMBER(0), G));
}
