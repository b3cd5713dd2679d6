/* Arithmetic of expressions: numbers and tensors with the promotion and broadcasting of JAX (64-bit types off).
 * A number of the text stays a Python number as long as only numbers meet; beside a tensor it is of weak type. */
#include "frontend/expr/values.h"
#include <math.h>
#include <string.h>

struct fe_val fe_cast(struct fe_site *s, struct fe_val v, enum ir_dtype dtype)
{
    if (v.bad) return v;
    if (dtype == IR_BOOL && v.kind == FE_VAL_TENSOR) return fe_boolean(s, v);
    return fe_val_tensor(fe_value_as(s, &v, dtype));
}

struct fe_val fe_inexact(struct fe_site *s, struct fe_val v)
{
    if (v.bad) return v;
    struct fe_kind_of k = fe_kind(s, &v);
    if (ir_dtype_is_float(k.dtype)) return fe_as_tensor(s, &v) ? v : fe_bad();
    return fe_tensor_val(fe_value_as(s, &v, IR_F32), k.weak);
}

struct fe_val fe_boolean(struct fe_site *s, struct fe_val v)
{
    if (!fe_as_tensor(s, &v)) return fe_bad();
    if (fe_type_at(s, &v).dtype == IR_BOOL) return v;
    return fe_op2(s, OP_ne, v, fe_int(0));
}

struct fe_val fe_stop(struct fe_site *s, struct fe_val v) { return fe_op1(s, OP_stop_gradient, v); }

/* ---------------------------------------------------------------- operations */

struct fe_val fe_op1(struct fe_site *s, enum ir_op op, struct fe_val v)
{
    if (!fe_as_tensor(s, &v)) return fe_bad();
    return fe_tensor_val(ir_unary(s->b, op, v.tensor), v.weak);
}

struct fe_val fe_op1_float(struct fe_site *s, enum ir_op op, struct fe_val v)
{
    return fe_op1(s, op, fe_inexact(s, v));
}

/* Brings an operand to the common type; a number becomes one constant of the full shape. */
static ir_value operand(struct fe_site *s, const struct fe_val *v, const struct ir_type *t)
{
    if (v->kind == FE_VAL_NUMBER) return fe_number_as(s, v, *t);
    ir_value x = t->dtype == IR_BOOL ? v->tensor : ir_cast(s->b, v->tensor, (enum ir_dtype)t->dtype);
    if (!x || ir_type_equal(ir_type(s->b->f, x), t)) return x;
    return ir_broadcast_to(s->b, x, t->rank, t->dim);
}

bool fe_is_operand(struct fe_site *s, struct fe_val *v) { return v->kind == FE_VAL_NUMBER || fe_as_tensor(s, v); }

/* A learning rate that the host sets is a weak float64 scalar: a Python number, only that it comes late. Arithmetic
 * keeps it; beside a tensor it is float32, as such a number is, and functions get it so. */
static bool is_late(const struct fe_site *s, const struct fe_val *v)
{
    return v->kind == FE_VAL_TENSOR && v->weak && fe_type_at(s, v).dtype == IR_F64;
}

static struct fe_kind_of kind_beside(const struct fe_site *s, const struct fe_val *v, const struct fe_val *other)
{
    struct fe_kind_of k = fe_kind(s, v);
    if (is_late(s, v) && other->kind == FE_VAL_TENSOR && !is_late(s, other)) k.dtype = IR_F32;
    return k;
}

struct fe_val fe_on_time(const struct fe_site *s, struct fe_val v)
{
    return is_late(s, &v) ? fe_tensor_val(ir_cast(s->b, v.tensor, IR_F32), true) : v;
}

struct fe_kind_of fe_kind_of_both(const struct fe_site *s, const struct fe_val *a, const struct fe_val *b)
{
    return fe_promote(kind_beside(s, a, b), kind_beside(s, b, a));
}

/* Common type of two operands; false: they do not fit. */
static bool common_type(struct fe_site *s, const struct fe_val *a, const struct fe_val *b, struct ir_type *t,
                        bool *weak)
{
    struct ir_type ta = fe_type_at(s, a), tb = fe_type_at(s, b);
    if (!fe_broadcast_shapes(&ta, &tb, t))
        return fe_wrong_here(s, "E0210", "shapes of %s and %s do not fit", fe_type_text(s, &ta), fe_type_text(s, &tb));
    struct fe_kind_of k = fe_kind_of_both(s, a, b);
    t->dtype = (uint8_t)k.dtype;
    *weak = k.weak;
    return true;
}

struct fe_val fe_op2(struct fe_site *s, enum ir_op op, struct fe_val a, struct fe_val b)
{
    struct ir_type t;
    bool weak;
    if (a.bad || b.bad || !fe_is_operand(s, &a) || !fe_is_operand(s, &b) || !common_type(s, &a, &b, &t, &weak))
        return fe_bad();
    bool compare = op == OP_eq || op == OP_ne || op == OP_lt || op == OP_le;
    ir_value x = operand(s, &a, &t), y = operand(s, &b, &t);
    return fe_tensor_val(ir_binary(s->b, op, x, y), weak && !compare);
}

struct fe_val fe_op2_float(struct fe_site *s, enum ir_op op, struct fe_val a, struct fe_val b)
{
    if (a.bad || b.bad || !fe_is_operand(s, &a) || !fe_is_operand(s, &b)) return fe_bad();
    struct fe_kind_of k = fe_promote(fe_kind(s, &a), fe_kind(s, &b));
    if (!ir_dtype_is_float(k.dtype)) { /* integers and bools: float32 */
        if (a.kind == FE_VAL_NUMBER) a.python = FE_PY_FLOAT;
        else a = fe_inexact(s, a);
        if (b.kind == FE_VAL_NUMBER) b.python = FE_PY_FLOAT;
        else b = fe_inexact(s, b);
    }
    struct fe_val v = fe_op2(s, op, a, b);
    v.weak = !v.bad && k.weak; /* bool beside an integer of Python is weak, too */
    return v;
}

/* The bool tensor of a shape that a factor is, as itself or as 0 and 1. */
static ir_value mask_of(const struct fe_site *s, const struct fe_val *v, const struct ir_type *t)
{
    if (v->kind != FE_VAL_TENSOR) return 0;
    const struct ir_node *node = ir_get(s->b->f, v->tensor);
    ir_value mask = node->op == OP_cast ? node->args[0] : v->tensor;
    struct ir_type want = *t;
    want.dtype = IR_BOOL;
    return ir_type_equal(ir_type(s->b->f, mask), &want) ? mask : 0;
}

/* A product with a mask is 0 outside it, whatever stands there (infinities, NaN): XLA makes a choice of it, too. */
static struct fe_val multiply(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    struct ir_type t;
    bool weak;
    if (!common_type(s, &a, &b, &t, &weak)) return fe_bad();
    for (int i = 0; i < 2 && ir_dtype_is_float((enum ir_dtype)t.dtype); i++) {
        ir_value mask = mask_of(s, i ? &b : &a, &t);
        if (mask) return fe_tensor_val(ir_select(s->b, mask, operand(s, i ? &a : &b, &t), ir_number(s->b, t, 0)), weak);
    }
    return fe_op2(s, OP_mul, a, b);
}

struct fe_val fe_where3(struct fe_site *s, struct fe_val p, struct fe_val x, struct fe_val y)
{
    struct ir_type t, tp, all;
    bool weak;
    p = fe_boolean(s, p);
    if (p.bad || x.bad || y.bad || !fe_is_operand(s, &x) || !fe_is_operand(s, &y) || !common_type(s, &x, &y, &t, &weak))
        return fe_bad();
    tp = fe_type_at(s, &p);
    if (!fe_broadcast_shapes(&t, &tp, &all))
        return fe_fail(s, "E0210", "the condition %s does not fit %s", fe_describe(s, &p), fe_type_text(s, &t));
    tp = all;
    tp.dtype = IR_BOOL;
    return fe_tensor_val(ir_select(s->b, operand(s, &p, &tp), operand(s, &x, &all), operand(s, &y, &all)), weak);
}

/* ---------------------------------------------------------------- operators */

/* Why two Python numbers have no result, or none that a double holds as Python's integers do; NULL: they have. */
static const char *no_result(enum expr_operator op, double x, double y, bool integer)
{
    const double most = 9007199254740991.0;
    bool first = integer && fabs(x) > most, second = integer && fabs(y) > most, compares = op >= EXPR_OP_EQ;
    if ((op == EXPR_OP_DIV || op == EXPR_OP_FLOORDIV || op == EXPR_OP_MOD) && y == 0) return "division by zero";
    if (op == EXPR_OP_POW && x == 0 && y < 0) return "zero to a negative power: division by zero";
    if (op == EXPR_OP_POW && x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
        return "a negative number to a fractional power";
    bool grows = op == EXPR_OP_POW || (op == EXPR_OP_MUL && integer); /* other products may be infinite */
    if (grows && isfinite(x) && isfinite(y) && isinf(fe_python_number(op, x, y)))
        return "the result is too large for a number (overflow)";
    if (op == EXPR_OP_MUL || op == EXPR_OP_DIV || op == EXPR_OP_POW ||
        (compares ? !first || !second : !first && !second))
        return NULL; /* right but for rounding, or by far */
    return "integers beyond 2^53-1 are rounded: no sums, remainders or comparisons of these";
}

/* Two Python numbers. */
static struct fe_val host_binary(struct fe_site *s, enum expr_operator op, const struct fe_val *a,
                                 const struct fe_val *b)
{
    double x = a->number, y = b->number;
    bool integer = a->python != FE_PY_FLOAT && b->python != FE_PY_FLOAT;
    bool flags = a->python == FE_PY_BOOL && b->python == FE_PY_BOOL;
    struct fe_val r;
    const char *why = no_result(op, x, y, integer);
    if (why) return fe_fail(s, "E0311", "%s", why);
    switch (op) {
    case EXPR_OP_ADD:
    case EXPR_OP_SUB:
    case EXPR_OP_MUL:
    case EXPR_OP_FLOORDIV:
    case EXPR_OP_MOD: return fe_val_number(fe_python_number(op, x, y), integer);
    case EXPR_OP_DIV: return fe_float(fe_python_number(op, x, y));
    case EXPR_OP_POW: return fe_val_number(fe_python_number(op, x, y), integer && y >= 0);
    case EXPR_OP_EQ: r = fe_int(x == y); break;
    case EXPR_OP_NE: r = fe_int(x != y); break;
    case EXPR_OP_LT: r = fe_int(x < y); break;
    case EXPR_OP_LE: r = fe_int(x <= y); break;
    case EXPR_OP_GT: r = fe_int(x > y); break;
    case EXPR_OP_GE: r = fe_int(x >= y); break;
    case EXPR_OP_AND:
    case EXPR_OP_OR:
    case EXPR_OP_XOR:
    case EXPR_OP_SHL:
    case EXPR_OP_SHR: {
        if (!integer) return fe_fail(s, "E0310", "bit operations need integers");
        int64_t i = fe_whole(x), j = fe_whole(y);
        if ((op == EXPR_OP_SHL || op == EXPR_OP_SHR) && (j < 0 || j > 31))
            return fe_fail(s, "E0311", "a shift by %lld is outside 0 to 31", (long long)j);
        r = fe_int((double)(op == EXPR_OP_AND   ? (i & j)
                            : op == EXPR_OP_OR  ? (i | j)
                            : op == EXPR_OP_XOR ? (i ^ j)
                            : op == EXPR_OP_SHL ? (int64_t)((uint64_t)i << j)
                                                : i >> j));
        if (flags && op != EXPR_OP_SHL && op != EXPR_OP_SHR) r.python = FE_PY_BOOL;
        return r;
    }
    default: return fe_fail(s, "E0310", "matrix products need tensors");
    }
    r.python = FE_PY_BOOL;
    return r;
}

static struct fe_val integer_power(struct fe_site *s, struct fe_val x, int64_t n)
{
    if (n == 0) return fe_add(s, fe_mul(s, x, fe_int(0)), fe_int(1));
    if (n < 0)
        return integer_power(s, fe_div(s, fe_float(1), x),
                             -n); /* at 0 its gradient is infinite, not 0 times infinity */
    struct fe_val result = fe_none();
    for (bool first = true; n; n >>= 1) {
        if (n & 1) {
            result = first ? x : fe_mul(s, result, x);
            first = false;
        }
        if (n > 1) x = fe_mul(s, x, x);
    }
    return result;
}

/* Integers to exponents that are known when the step runs: by the lowest six bits of the exponents, as in JAX. All
 * powers of 0 but the one to the 0 are 0, those to multiples of 64, too. */
static struct fe_val whole_power_of(struct fe_site *s, struct fe_val a, struct fe_val b, enum ir_dtype dtype)
{
    struct fe_val x = fe_cast(s, a, dtype), n = fe_cast(s, b, dtype);
    struct fe_val nothing = fe_op2(s, OP_and, fe_binary(s, EXPR_OP_EQ, x, fe_int(0)),
                                   fe_binary(s, EXPR_OP_NE, n, fe_int(0)));
    struct fe_val result = fe_where3(s, nothing, fe_cast(s, fe_int(0), dtype), fe_cast(s, fe_int(1), dtype));
    for (int bit = 0; bit < 6; bit++) {
        struct fe_val odd = fe_binary(s, EXPR_OP_NE, fe_op2(s, OP_and, n, fe_int(1)), fe_int(0));
        result = fe_where3(s, odd, fe_mul(s, result, x), result);
        x = fe_mul(s, x, x);
        n = fe_op2(s, OP_shr, n, fe_int(1));
    }
    return result;
}

static struct fe_val power(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    if (b.kind == FE_VAL_NUMBER && a.kind == FE_VAL_TENSOR) {
        double n = b.number;
        bool real = ir_dtype_is_float((enum ir_dtype)fe_type_at(s, &a).dtype);
        bool whole = n == floor(n) && fabs(n) <= (real ? 1024 : 0x1p53);
        if (b.python != FE_PY_FLOAT && whole && n == 0) {
            struct ir_type t = fe_type_at(s, &a);
            return fe_tensor_val(ir_number(s->b, t, 1), a.weak);
        }
        if (b.python != FE_PY_FLOAT && whole) {
            if (n < 0 && !real) return fe_fail(s, "E0310", "integers cannot be raised to a negative power");
            if (fe_type_at(s, &a).dtype == IR_BOOL) a = fe_cast(s, a, IR_I32);
            return integer_power(s, a, (int64_t)n);
        }
        if (n == 2 && real) return fe_mul(s, a, a);
    }
    struct fe_kind_of k = fe_promote(fe_kind(s, &a), fe_kind(s, &b));
    if (!ir_dtype_is_float(k.dtype)) return whole_power_of(s, a, b, k.dtype == IR_BOOL ? IR_I32 : k.dtype);
    bool integers = b.kind == FE_VAL_TENSOR && !ir_dtype_is_float(fe_kind(s, &b).dtype);
    struct fe_val zero = integers ? fe_op2(s, OP_eq, b, fe_int(0)) : fe_bad();
    struct fe_val v = fe_op2_float(s, OP_pow, a, integers ? fe_where3(s, zero, fe_int(1), b) : b);
    if (integers) v = fe_where3(s, zero, fe_float(1), v); /* flat; by the rule of pow 0 times infinity where a is 0 */
    if (!ir_dtype_is_float(fe_kind(s, &b).dtype)) v.weak = false;
    return v;
}

/* Remainder with the sign of the divisor. Integers: 0 if that is 0. */
static struct fe_val modulo(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    enum ir_dtype common = fe_promote(fe_kind(s, &a), fe_kind(s, &b)).dtype;
    if (common == IR_BOOL) a = fe_cast(s, a, IR_I32), b = fe_cast(s, b, IR_I32);
    if (!ir_dtype_is_float(common) && b.kind == FE_VAL_NUMBER && b.number == 0) b = fe_int(1);
    if (!ir_dtype_is_float(common) && b.kind == FE_VAL_TENSOR)
        b = fe_where3(s, fe_binary(s, EXPR_OP_EQ, b, fe_int(0)), fe_int(1), b);
    struct fe_val r = fe_op2(s, OP_rem, a, b);
    if (r.bad) return r;
    bool real = ir_dtype_is_float((enum ir_dtype)fe_type_at(s, &r).dtype);
    struct fe_val zero = real ? fe_float(0) : fe_int(0);
    struct fe_val signs = fe_op2(
        s, OP_ne, fe_op2(s, OP_lt, r, zero),
        fe_op2(s, OP_lt, b.kind == FE_VAL_NUMBER ? fe_cast(s, b, (enum ir_dtype)fe_type_at(s, &r).dtype) : b, zero));
    struct fe_val wrong = fe_op2(s, OP_and, signs, fe_op2(s, OP_ne, r, zero));
    return fe_where3(s, wrong, fe_add(s, r, b), r);
}

/* As jnp: what is divided by 0 is infinite, or NaN for 0; what is divided by an infinity, -1 or 0. */
static struct fe_val float_floor_divide(struct fe_site *s, struct fe_val a, struct fe_val b, struct fe_kind_of k)
{
    struct fe_val x = fe_tensor_val(fe_value_as(s, &a, k.dtype), k.weak),
                  y = fe_tensor_val(fe_value_as(s, &b, k.dtype), k.weak);
    struct fe_val zero = fe_float(0), rest = fe_op2(s, OP_rem, x, y);
    struct fe_val part = fe_where3(s, fe_op2(s, OP_eq, y, zero), x, fe_sub(s, x, rest));
    struct fe_val quotient = fe_div(s, part, y);
    struct fe_val opposite = fe_op2(s, OP_ne, fe_op2(s, OP_lt, rest, zero), fe_op2(s, OP_lt, y, zero));
    struct fe_val below = fe_op2(s, OP_and, opposite, fe_op2(s, OP_ne, rest, zero));
    return fe_op1(s, OP_round, fe_where3(s, below, fe_sub(s, quotient, fe_float(1)), quotient));
}

static struct fe_val floor_divide(struct fe_site *s, struct fe_val a, struct fe_val b)
{
    struct fe_kind_of k = fe_promote(fe_kind(s, &a), fe_kind(s, &b));
    if (ir_dtype_is_float(k.dtype)) return float_floor_divide(s, a, b, k);
    if (k.dtype == IR_BOOL) a = fe_cast(s, a, k.dtype = IR_I32), b = fe_cast(s, b, IR_I32);
    struct fe_val quotient = fe_op2(s, OP_div, a, b), rest = fe_op2(s, OP_rem, a, b);
    if (!ir_dtype_is_signed(k.dtype) || quotient.bad) return quotient;
    struct fe_val x = fe_tensor_val(fe_value_as(s, &a, k.dtype), a.weak),
                  y = fe_tensor_val(fe_value_as(s, &b, k.dtype), b.weak);
    struct fe_val opposite = fe_op2(s, OP_ne, fe_op1(s, OP_sign, x), fe_op1(s, OP_sign, y));
    struct fe_val below = fe_op2(s, OP_and, opposite, fe_op2(s, OP_ne, rest, fe_int(0)));
    return fe_where3(s, below, fe_sub(s, quotient, fe_int(1)), quotient);
}

static struct fe_val bitwise(struct fe_site *s, enum ir_op op, struct fe_val a, struct fe_val b)
{
    if (a.bad || b.bad || !fe_is_operand(s, &a) || !fe_is_operand(s, &b)) return fe_bad();
    struct fe_kind_of k = fe_promote(fe_kind(s, &a), fe_kind(s, &b));
    if (ir_dtype_is_float(k.dtype))
        return fe_fail(s, "E0310", "bit operations need bool or integer tensors, found %s and %s", fe_describe(s, &a),
                       fe_describe(s, &b));
    return fe_op2(s, op, a, b);
}

/* Words and None can be told apart, for the choices of `if`. */
static bool is_word(const struct fe_val *v) { return v->kind == FE_VAL_STRING || fe_is_none(v); }
static bool same_word(const struct fe_val *a, const struct fe_val *b)
{
    return a->kind == b->kind && (a->kind != FE_VAL_STRING || !strcmp(a->string, b->string));
}

/* Tuples that are made longer item by item, as loops do, are the beginnings of one list. */
struct fe_room {
    uint32_t used, capacity;
    struct fe_val *items;
};

static struct fe_val tuple_joined(struct fe_site *s, const struct fe_val *a, const struct fe_val *b)
{
    struct fe_val joined = {.kind = FE_VAL_TUPLE, .count = a->count + b->count};
    struct fe_room *room = a->room;
    if (!room || room->used != a->count || room->capacity < joined.count) {
        room = arena_new(s->fe->arena, struct fe_room);
        room->capacity = 2 * joined.count + 1;
        room->items = arena_new_array(s->fe->arena, struct fe_val, room->capacity);
        for (uint32_t i = 0; i < a->count; i++) room->items[i] = a->items[i];
    }
    for (uint32_t i = 0; i < b->count; i++) room->items[a->count + i] = b->items[i];
    room->used = joined.count;
    joined.room = room;
    joined.items = room->items;
    return joined;
}

/* Tuples as in Python: a + b joins them, a * 2 repeats, == compares numbers one by one. *done is false for others:
 * lists in the place of tensors. */
static struct fe_val tuple_binary(struct fe_site *s, enum expr_operator op, const struct fe_val *a,
                                  const struct fe_val *b, bool *done)
{
    bool both = a->kind == FE_VAL_TUPLE && b->kind == FE_VAL_TUPLE, equal = both && a->count == b->count;
    bool repeat = op == EXPR_OP_MUL && a->kind == FE_VAL_TUPLE && b->kind == FE_VAL_NUMBER && b->python == FE_PY_INT &&
                  b->number >= 0 && b->number < 4096;
    struct fe_val *items;
    *done = (both && (op == EXPR_OP_ADD || op == EXPR_OP_EQ || op == EXPR_OP_NE)) || repeat;
    if (op == EXPR_OP_ADD && both) return tuple_joined(s, a, b);
    if (repeat) {
        uint32_t n = a->count * (uint32_t)b->number;
        items = arena_new_array(s->fe->arena, struct fe_val, n + 1);
        for (uint32_t i = 0; i < n; i++) items[i] = a->items[i % a->count];
        return fe_tuple(s, items, n);
    }
    for (uint32_t i = 0; *done && i < a->count && equal; i++) {
        if (a->items[i].kind != FE_VAL_NUMBER || b->items[i].kind != FE_VAL_NUMBER) *done = false;
        else equal = a->items[i].number == b->items[i].number;
    }
    return (struct fe_val){.kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = equal == (op == EXPR_OP_EQ)};
}

/* ---------------------------------------------------------------- complex values */

struct fe_val fe_real(struct fe_site *s, const struct fe_val *v)
{
    return fe_is_complex(v) ? v->items[0] : fe_inexact(s, *v);
}

struct fe_val fe_imag(struct fe_site *s, const struct fe_val *v)
{
    struct fe_val x = fe_is_complex(v) ? v->items[1] : fe_inexact(s, *v);
    return fe_is_complex(v) || x.bad ? x : fe_full(s, fe_type_at(s, &x), 0);
}

static bool is_whole_power(enum expr_operator op, const struct fe_val *b)
{
    return op == EXPR_OP_POW && b->kind == FE_VAL_NUMBER && b->python == FE_PY_INT && b->number >= 1 && b->number <= 64;
}

const char *fe_complex_operator(enum expr_operator op, const struct fe_val *b)
{
    return op == EXPR_OP_MATMUL                          ? "matmul"
           : op == EXPR_OP_EQ                            ? "equal"
           : op == EXPR_OP_NE                            ? "not_equal"
           : op == EXPR_OP_POW && !is_whole_power(op, b) ? "power"
                                                         : NULL;
}

static struct fe_val complex_binary(struct fe_site *s, enum expr_operator op, struct fe_val a, struct fe_val b)
{
    if (is_whole_power(op, &b)) {
        struct fe_val y = a;
        for (int i = 1; i < (int)b.number && !y.bad; i++) y = complex_binary(s, EXPR_OP_MUL, y, a);
        return y;
    }
    bool scaled = !fe_is_complex(&b);
    struct fe_val ar = fe_real(s, &a), ai = fe_imag(s, &a), br = fe_real(s, &b), bi = fe_imag(s, &b);
    if (ar.bad || ai.bad || br.bad || bi.bad) return fe_bad();
    switch (op) {
    case EXPR_OP_ADD:
    case EXPR_OP_SUB: return fe_complex(s, fe_binary(s, op, ar, br), fe_binary(s, op, ai, bi));
    case EXPR_OP_MUL:
        if (scaled) return fe_complex(s, fe_mul(s, ar, br), fe_mul(s, ai, br));
        return fe_complex(s, fe_sub(s, fe_mul(s, ar, br), fe_mul(s, ai, bi)),
                          fe_add(s, fe_mul(s, ar, bi), fe_mul(s, ai, br)));
    case EXPR_OP_DIV: {
        if (scaled) return fe_complex(s, fe_div(s, ar, br), fe_div(s, ai, br));
        struct fe_val size = fe_add(s, fe_mul(s, br, br), fe_mul(s, bi, bi));
        return fe_complex(s, fe_div(s, fe_add(s, fe_mul(s, ar, br), fe_mul(s, ai, bi)), size),
                          fe_div(s, fe_sub(s, fe_mul(s, ai, br), fe_mul(s, ar, bi)), size));
    }
    default: return fe_fail(s, "E0310", "complex values know + - * / ** @ == and !=; take abs, real or imag");
    }
}

/* ---------------------------------------------------------------- all of them */

struct fe_val fe_binary(struct fe_site *s, enum expr_operator op, struct fe_val a, struct fe_val b)
{
    bool done;
    if (a.bad || b.bad) return fe_bad();
    if (fe_is_complex(&a) || fe_is_complex(&b)) return complex_binary(s, op, a, b);
    if (a.kind == FE_VAL_TUPLE && !a.names) {
        struct fe_val v = tuple_binary(s, op, &a, &b, &done);
        if (done) return v;
    }
    if ((op == EXPR_OP_EQ || op == EXPR_OP_NE) && (is_word(&a) || is_word(&b)))
        return (struct fe_val){
            .kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = same_word(&a, &b) == (op == EXPR_OP_EQ)};
    if (a.kind == FE_VAL_NUMBER && b.kind == FE_VAL_NUMBER) return host_binary(s, op, &a, &b);
    if (!fe_is_operand(s, &a) || !fe_is_operand(s, &b)) return fe_bad();
    bool whole_power = op == EXPR_OP_POW && b.kind == FE_VAL_NUMBER && b.python != FE_PY_FLOAT;
    if (op != EXPR_OP_ADD && op != EXPR_OP_SUB && op != EXPR_OP_MUL && op != EXPR_OP_DIV && !whole_power)
        a = fe_on_time(s, a), b = fe_on_time(s, b);
    bool flags = fe_promote(fe_kind(s, &a), fe_kind(s, &b)).dtype == IR_BOOL;
    switch (op) {
    case EXPR_OP_ADD: return fe_op2(s, flags ? OP_or : OP_add, a, b);
    case EXPR_OP_SUB:
        if (flags) return fe_fail(s, "E0310", "bool tensors cannot be subtracted; use ^");
        return fe_op2(s, OP_sub, a, b);
    case EXPR_OP_MUL: return flags ? fe_op2(s, OP_and, a, b) : multiply(s, a, b);
    case EXPR_OP_DIV: return fe_op2_float(s, OP_div, a, b);
    case EXPR_OP_FLOORDIV: return floor_divide(s, a, b);
    case EXPR_OP_MOD: return modulo(s, a, b);
    case EXPR_OP_POW: return power(s, a, b);
    case EXPR_OP_EQ: return fe_op2(s, OP_eq, a, b);
    case EXPR_OP_NE: return fe_op2(s, OP_ne, a, b);
    case EXPR_OP_LT: return fe_op2(s, OP_lt, a, b);
    case EXPR_OP_LE: return fe_op2(s, OP_le, a, b);
    case EXPR_OP_GT: return fe_op2(s, OP_lt, b, a);
    case EXPR_OP_GE: return fe_op2(s, OP_le, b, a);
    case EXPR_OP_AND: return bitwise(s, OP_and, a, b);
    case EXPR_OP_OR: return bitwise(s, OP_or, a, b);
    case EXPR_OP_XOR: return bitwise(s, OP_xor, a, b);
    case EXPR_OP_SHL: return bitwise(s, OP_shl, a, b);
    case EXPR_OP_SHR: return bitwise(s, OP_shr, a, b);
    default: BUG("operator %d has no rule", (int)op);
    }
}
