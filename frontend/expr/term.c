/* Terms of formulas: the arithmetic of expressions (expr_ops.c) without a place in a document, and numbers that stay
 * double until they meet a tensor (term.h). */
#include "frontend/expr/term.h"
#include "frontend/expr/values.h"
#include <math.h>

struct fe_term term_number(double number) { return (struct fe_term){.number = number}; }
struct fe_term term_integer(int64_t number) { return (struct fe_term){.number = (double)number, .integer = true}; }
struct fe_term term_tensor(ir_value v) { return (struct fe_term){.v = v}; }

/* Promotion, weak types and broadcasting are those of the values of expressions. */
static struct fe_val value_of(struct fe_term x)
{
    return x.v ? fe_tensor_val(x.v, x.weak) : fe_val_number(x.number, x.integer);
}

static struct fe_term term_of(struct fe_val v) { return (struct fe_term){.v = v.tensor, .weak = v.weak}; }

/* Terms come from tables of the compiler, not from a place in a document: that they do not fit is a defect. */
static struct fe_site site_of(struct ir_builder *b) { return (struct fe_site){.b = b}; }

static struct fe_term binary(struct ir_builder *b, enum ir_op op, struct fe_term x, struct fe_term y)
{
    struct fe_site s = site_of(b);
    return term_of(fe_op2(&s, op, value_of(x), value_of(y)));
}

static bool is_number(struct fe_term x, double number) { return !x.v && x.number == number; }

/* A tensor is left as it is by `+ 0` and `* 1` if its dtype would not change. */
static bool keeps(struct ir_builder *b, struct fe_term x, struct fe_term number)
{
    struct fe_site s = site_of(b);
    struct fe_val tensor = value_of(x), other = value_of(number);
    return x.v && fe_kind_of_both(&s, &tensor, &other).dtype == ir_type(b->f, x.v)->dtype;
}

static struct fe_term arithmetic(struct ir_builder *b, enum expr_operator op, struct fe_term x, struct fe_term y)
{
    enum { NONE, RIGHT, BOTH };
    static const struct {
        enum ir_op op;
        uint8_t side; /* on which a number changes nothing */
        uint8_t neutral;
        bool real; /* of integers, too */
    } rows[] = {[EXPR_OP_ADD] = {OP_add, BOTH, 0, false}, [EXPR_OP_SUB] = {OP_sub, RIGHT, 0, false},
                [EXPR_OP_MUL] = {OP_mul, BOTH, 1, false}, [EXPR_OP_DIV] = {OP_div, RIGHT, 1, true},
                [EXPR_OP_MOD] = {OP_rem, NONE, 0, false}, [EXPR_OP_POW] = {OP_pow, RIGHT, 1, true}};
    struct fe_site s = site_of(b);
    double neutral = rows[op].neutral;
    bool real = rows[op].real;
    if (!x.v && !y.v)
        return (struct fe_term){.number = fe_python_number(op, x.number, y.number),
                                .integer = x.integer && y.integer && !real};
    if (rows[op].side && is_number(y, neutral) && keeps(b, x, real ? term_number(neutral) : y)) return x;
    if (rows[op].side == BOTH && is_number(x, neutral) && keeps(b, y, x)) return y;
    return term_of((real ? fe_op2_float : fe_op2)(&s, rows[op].op, value_of(x), value_of(y)));
}

#define ARITHMETIC(name, op) \
    struct fe_term term_##name(struct ir_builder *b, struct fe_term x, struct fe_term y) \
    { \
        return arithmetic(b, op, x, y); \
    }
ARITHMETIC(add, EXPR_OP_ADD)
ARITHMETIC(sub, EXPR_OP_SUB)
ARITHMETIC(mul, EXPR_OP_MUL)
ARITHMETIC(div, EXPR_OP_DIV)
ARITHMETIC(rem, EXPR_OP_MOD)

struct fe_term term_pow(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    bool late = x.v && x.weak && ir_type(b->f, x.v)->dtype == IR_F64; /* a number that the host may set: see term.h */
    if (!x.v || late || y.v || !y.integer || y.number < 1 || y.number > 64) return arithmetic(b, EXPR_OP_POW, x, y);
    struct fe_term power = x, result = x;
    bool first = true;
    for (uint32_t n = (uint32_t)y.number; n; n >>= 1) { /* square and multiply */
        if (n & 1) result = first ? power : term_mul(b, result, power), first = false;
        if (n > 1) power = term_mul(b, power, power);
    }
    return result;
}

struct fe_term term_max(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return x.number > y.number ? x : y;
    return binary(b, OP_max, x, y);
}

struct fe_term term_min(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return x.number < y.number ? x : y;
    return binary(b, OP_min, x, y);
}

static struct fe_term unary(struct ir_builder *b, enum ir_op op, struct fe_term x)
{
    struct fe_site s = site_of(b);
    return term_of(fe_op1(&s, op, value_of(x)));
}

#define UNARY(name, of_number) \
    struct fe_term term_##name(struct ir_builder *b, struct fe_term x) \
    { \
        return x.v ? unary(b, OP_##name, x) : (of_number); \
    }
UNARY(neg, term_mul(b, term_integer(-1), x))
UNARY(abs, ((struct fe_term){.number = fabs(x.number), .integer = x.integer}))
UNARY(sign, unary(b, OP_sign, x))
UNARY(sqrt, term_number(sqrt(x.number)))
UNARY(rsqrt, term_number(1 / sqrt(x.number)))
UNARY(tanh, term_number(tanh(x.number)))
UNARY(cos, term_number(cos(x.number)))
UNARY(floor, term_number(floor(x.number)))
UNARY(not, unary(b, OP_not, x))
struct fe_term term_square(struct ir_builder *b, struct fe_term x) { return term_mul(b, x, x); }

#define PREDICATE(name, op) \
    struct fe_term term_##name(struct ir_builder *b, struct fe_term x, struct fe_term y) { return binary(b, op, x, y); }
PREDICATE(lt, OP_lt)
PREDICATE(le, OP_le)
PREDICATE(eq, OP_eq)
PREDICATE(and, OP_and)
PREDICATE(or, OP_or)
struct fe_term term_is_nan(struct ir_builder *b, struct fe_term x) { return binary(b, OP_ne, x, x); }

struct fe_term term_where(struct ir_builder *b, struct fe_term p, struct fe_term x, struct fe_term y)
{
    struct fe_site s = site_of(b);
    struct fe_val vx = value_of(x), vy = value_of(y);
    struct ir_type tx = fe_type_at(&s, &vx), ty = fe_type_at(&s, &vy), both;
    /* Nobody reads this zero, but the zeros of its shape that follow become one with it, and kernels keep their order.
     */
    if (fe_broadcast_shapes(&tx, &ty, &both) && both.rank) {
        both.dtype = (uint8_t)fe_kind_of_both(&s, &vx, &vy).dtype;
        (void)ir_number(b, both, 0);
    }
    return term_of(fe_where3(&s, value_of(p), vx, vy));
}

struct fe_term term_cast(struct ir_builder *b, struct fe_term x, enum ir_dtype dtype)
{
    return term_tensor(x.v ? ir_cast(b, x.v, dtype) : ir_scalar(b, dtype, x.number));
}

struct fe_term term_cast_like(struct ir_builder *b, struct fe_term x, struct fe_term like)
{
    return like.v ? term_cast(b, x, ir_type(b->f, like.v)->dtype) : x;
}

struct fe_term term_sum(struct ir_builder *b, struct fe_term x)
{
    static const int64_t dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t rank = ir_type(b->f, x.v)->rank;
    return rank ? (struct fe_term){.v = ir_reduce(b, OP_reduce_sum, x.v, dims, rank), .weak = x.weak} : x;
}

/* 16-bit numbers are added, and the sum divided, in float32. */
struct fe_term term_mean_over(struct ir_builder *b, struct fe_term x, const int64_t *dims, uint32_t count)
{
    const struct ir_type type = *ir_type(b->f, x.v);
    bool narrow = type.dtype == IR_F16 || type.dtype == IR_BF16;
    int64_t size = 1;
    for (uint32_t i = 0; i < count; i++) size *= type.dim[dims[i]];
    if (!count) return x;
    struct fe_term wide = narrow ? term_cast(b, x, IR_F32) : x;
    wide = term_div(b, (struct fe_term){.v = ir_reduce(b, OP_reduce_sum, wide.v, dims, count), .weak = wide.weak},
                    term_integer(size));
    return narrow ? term_cast(b, wide, (enum ir_dtype)type.dtype) : wide;
}

struct fe_term term_mean(struct ir_builder *b, struct fe_term x)
{
    static const int64_t dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    return term_mean_over(b, x, dims, ir_type(b->f, x.v)->rank);
}

static ir_value sum_rows(struct ir_builder *b, ir_value x)
{
    static const int64_t rows[] = {0};
    return ir_reduce(b, OP_reduce_sum, x, rows, 1);
}

ir_value term_sum_rows(struct ir_builder *b, ir_value x)
{
    enum ir_dtype dtype = (enum ir_dtype)ir_type(b->f, x)->dtype;
    bool narrow = !ir_dtype_is_float(dtype) && ir_dtype_bytes(dtype) < 4;
    return sum_rows(b, narrow ? ir_cast(b, x, dtype == IR_U8 || dtype == IR_U16 ? IR_U32 : IR_I32) : x);
}

ir_value term_mean_rows(struct ir_builder *b, ir_value x)
{
    enum ir_dtype dtype = (enum ir_dtype)ir_type(b->f, x)->dtype;
    double count = (double)ir_type(b->f, x)->dim[0];
    ir_value sum = sum_rows(b, dtype == IR_BF16 || dtype == IR_F16 ? ir_cast(b, x, IR_F32) : x);
    return ir_cast(b, ir_binary(b, OP_div, sum, ir_number_like(b, sum, count)), dtype);
}

struct fe_term term_dot(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    return term_sum(b, term_mul(b, x, y));
}

ir_value term_value(struct ir_builder *b, struct fe_term x, enum ir_dtype dtype)
{
    return x.v ? ir_cast(b, x.v, dtype) : ir_scalar(b, dtype, x.number);
}
