/* Folding: an equal simpler value for a node about to be made. Every rule states its equation and holds for every
 * input bit for bit (NaN is NaN, whatever its bits): in floating point, x + 0 is not x when x is -0, 0 * x is not 0 and
 * x - x is not 0. Sums are not reordered. This file: element-wise algebra and reductions. */
#include "ir/fold.h"

#include <math.h>
#include <string.h>

static bool is_float(const struct ir_node *node) { return ir_dtype_is_float((enum ir_dtype)node->type.dtype); }

/* All bits set: true, -1, or the largest unsigned number. */
static bool is_ones(const struct ir_node *node)
{
    if (node->op != OP_constant || !node->splat || is_float(node)) return false;
    if (node->type.dtype == IR_BOOL) return fold_is(node, 1);
    const unsigned char *data = node->data;
    for (size_t i = 0; i < ir_dtype_bytes((enum ir_dtype)node->type.dtype); i++)
        if (data[i] != 0xff) return false;
    return true;
}

static ir_value number(struct ir_builder *b, const struct ir_node *node, double value)
{
    return ir_number(b, node->type, value);
}

/* ---------------------------------------------------------------- arithmetic */

/* The operand of a negation, 0 if it is none. */
static ir_value negated(const struct ir_node *node) { return node->op == OP_neg ? node->args[0] : 0; }

ir_value fold_add(struct ir_builder *b, const struct ir_node *node)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct ir_node *x = fold_arg(b, node, i);
        /* x + -0 = x; integers: x + 0 = x */
        if (fold_is(x, is_float(x) ? -0.0 : 0.0)) return node->args[1 - i];
    }
    for (uint32_t i = 0; i < 2; i++) {
        /* x + -y = x - y */
        ir_value y = negated(fold_arg(b, node, 1 - i));
        if (y) return ir_binary(b, OP_sub, node->args[i], y);
    }
    return 0;
}

ir_value fold_sub(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0), *y = fold_arg(b, node, 1);
    if (fold_is(y, 0.0)) return node->args[0];                                           /* x - 0 = x */
    if (fold_is(x, is_float(x) ? -0.0 : 0.0)) return ir_unary(b, OP_neg, node->args[1]); /* -0 - x = -x */
    if (!is_float(x) && node->args[0] == node->args[1]) return number(b, node, 0);       /* integers: x - x = 0 */
    if (negated(y)) return ir_binary(b, OP_add, node->args[0], negated(y));              /* x - -y = x + y */
    return 0;
}

ir_value fold_mul(struct ir_builder *b, const struct ir_node *node)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct ir_node *x = fold_arg(b, node, i);
        if (fold_is(x, 1)) return node->args[1 - i];                       /* x * 1 = x */
        if (fold_is(x, -1)) return ir_unary(b, OP_neg, node->args[1 - i]); /* x * -1 = -x */
        if (!is_float(x) && fold_is(x, 0)) return node->args[i];           /* integers: x * 0 = 0 */
    }
    ir_value x = negated(fold_arg(b, node, 0)), y = negated(fold_arg(b, node, 1));
    return x && y ? ir_binary(b, OP_mul, x, y) : 0; /* -x * -y = x * y */
}

/* The reciprocal of a power of two, if both are normal numbers of the dtype. */
static bool exact_reciprocal(const struct ir_node *node, double *reciprocal)
{
    static const int least[IR_DTYPE_COUNT] = {[IR_F16] = -14, [IR_BF16] = -126, [IR_F32] = -126, [IR_F64] = -1022};
    double v;
    int exponent;
    if (!is_float(node) || !fold_number(node, &v) || fabs(frexp(v, &exponent)) != 0.5) return false;
    int low = least[node->type.dtype];
    *reciprocal = 1 / v;
    return exponent - 1 >= low && -(exponent - 1) >= low;
}

ir_value fold_div(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *y = fold_arg(b, node, 1);
    double reciprocal;
    if (fold_is(y, 1)) return node->args[0];                                      /* x / 1 = x */
    if (is_float(y) && fold_is(y, -1)) return ir_unary(b, OP_neg, node->args[0]); /* x / -1 = -x */
    if (exact_reciprocal(y, &reciprocal))                                         /* x / 2**k = x * 2**-k */
        return ir_binary(b, OP_mul, node->args[0], number(b, node, reciprocal));
    ir_value top = negated(fold_arg(b, node, 0));
    if (is_float(y) && top && negated(y)) return ir_binary(b, OP_div, top, negated(y)); /* -x / -y = x / y */
    return 0;
}

ir_value fold_pow(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *y = fold_arg(b, node, 1);
    if (fold_is(y, 0)) return number(b, node, 1); /* x ** 0 = 1 */
    if (fold_is(y, 1)) return node->args[0];      /* x ** 1 = x */
    if (fold_is(y, 2) && y->type.dtype != IR_F64) /* x ** 2 = x * x; a double's pow may err */
        return ir_binary(b, OP_mul, node->args[0], node->args[0]);
    return 0;
}

ir_value fold_neg(struct ir_builder *b, const struct ir_node *node)
{
    return negated(fold_arg(b, node, 0)); /* -(-x) = x */
}

ir_value fold_abs(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    if (x->op == OP_abs || x->type.dtype == IR_BOOL) return node->args[0]; /* ||x|| = |x| */
    if (ir_dtype_is_integer((enum ir_dtype)x->type.dtype) && !ir_dtype_is_signed((enum ir_dtype)x->type.dtype))
        return node->args[0];                                /* unsigned: |x| = x */
    return negated(x) ? ir_unary(b, OP_abs, negated(x)) : 0; /* |-x| = |x| */
}

/* floor(floor(x)) = floor(x), and any two of floor, ceil, round: an integer stays */
ir_value fold_round(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    return x->op == OP_floor || x->op == OP_ceil || x->op == OP_round ? node->args[0] : 0;
}

bool fold_numbers(const struct ir_node *n, int64_t *count)
{
    if (n->op != OP_iota || ir_dtype_is_float((enum ir_dtype)n->type.dtype)) return false;
    *count = n->type.dim[n->attr[0].v[0]];
    return ir_dtype_bytes((enum ir_dtype)n->type.dtype) >= 4 && *count <= INT32_MAX;
}

ir_value fold_extremum(struct ir_builder *b, const struct ir_node *node)
{
    double neutral = node->op == OP_max ? -(double)INFINITY : (double)INFINITY, number;
    int64_t count;
    for (uint32_t i = 0; i < 2; i++) /* a clamp of indices that are in range */
        if (fold_numbers(fold_arg(b, node, i), &count) && fold_number(fold_arg(b, node, 1 - i), &number) &&
            (node->op == OP_max ? number <= 0 : number >= (double)(count - 1)))
            return node->args[i];
    if (node->args[0] == node->args[1]) return node->args[0]; /* max(x, x) = x */
    for (uint32_t i = 0; i < 2; i++)                          /* max(x, -inf) = x, min(x, inf) = x; also NaN */
        if (is_float(fold_arg(b, node, i)) && fold_is(fold_arg(b, node, i), neutral)) return node->args[1 - i];
    return 0;
}

/* x << 0 = x, x >> 0 = x */
ir_value fold_shift(struct ir_builder *b, const struct ir_node *node)
{
    return fold_is(fold_arg(b, node, 1), 0) ? node->args[0] : 0;
}

/* ---------------------------------------------------------------- logic and choice */

ir_value fold_not(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    return x->op == OP_not ? x->args[0] : 0; /* not not x = x */
}

ir_value fold_and(struct ir_builder *b, const struct ir_node *node)
{
    if (node->args[0] == node->args[1]) return node->args[0]; /* x & x = x */
    for (uint32_t i = 0; i < 2; i++) {
        if (is_ones(fold_arg(b, node, i))) return node->args[1 - i]; /* x & ~0 = x */
        if (fold_is(fold_arg(b, node, i), 0)) return node->args[i];  /* x & 0 = 0 */
    }
    return 0;
}

ir_value fold_or(struct ir_builder *b, const struct ir_node *node)
{
    if (node->args[0] == node->args[1]) return node->args[0]; /* x | x = x */
    for (uint32_t i = 0; i < 2; i++) {
        if (is_ones(fold_arg(b, node, i))) return node->args[i];        /* x | ~0 = ~0 */
        if (fold_is(fold_arg(b, node, i), 0)) return node->args[1 - i]; /* x | 0 = x */
    }
    return 0;
}

ir_value fold_xor(struct ir_builder *b, const struct ir_node *node)
{
    if (node->args[0] == node->args[1]) return number(b, node, 0); /* x ^ x = 0 */
    for (uint32_t i = 0; i < 2; i++) {
        if (is_ones(fold_arg(b, node, i))) return ir_unary(b, OP_not, node->args[1 - i]); /* x ^ ~0 = not x */
        if (fold_is(fold_arg(b, node, i), 0)) return node->args[1 - i];                   /* x ^ 0 = x */
    }
    return 0;
}

ir_value fold_equal(struct ir_builder *b, const struct ir_node *node)
{
    bool wants_equal = node->op == OP_eq;
    const struct ir_node *x = fold_arg(b, node, 0);
    if (!is_float(x) && node->args[0] == node->args[1]) return number(b, node, wants_equal); /* not floats: x == x */
    for (uint32_t i = 0; x->type.dtype == IR_BOOL && i < 2; i++) {
        double v;
        if (!fold_number(fold_arg(b, node, i), &v)) continue;
        if ((v != 0) == wants_equal) return node->args[1 - i]; /* p == true is p, p != false is p */
        return ir_unary(b, OP_not, node->args[1 - i]);         /* p == false is not p */
    }
    return 0;
}

ir_value fold_less(struct ir_builder *b, const struct ir_node *node)
{
    if (node->args[0] != node->args[1]) return 0;
    if (node->op == OP_lt) return number(b, node, 0);               /* x < x is false, also for NaN */
    return is_float(fold_arg(b, node, 0)) ? 0 : number(b, node, 1); /* not floats: x <= x */
}

ir_value fold_select(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *p = fold_arg(b, node, 0), *x = fold_arg(b, node, 1), *y = fold_arg(b, node, 2);
    double v;
    if (node->args[1] == node->args[2]) return node->args[1];                           /* p ? x : x = x */
    if (fold_number(p, &v)) return node->args[v != 0 ? 1 : 2];                          /* true ? x : y = x */
    if (p->op == OP_not) return ir_select(b, p->args[0], node->args[2], node->args[1]); /* not p ? x : y = p ? y : x */
    if (x->type.dtype == IR_BOOL && fold_is(x, 1) && fold_is(y, 0)) return node->args[0]; /* p ? true : false = p */
    if (x->op == OP_select && x->args[0] == node->args[0]) /* p ? (p ? x : z) : y = p ? x : y */
        return ir_select(b, node->args[0], x->args[1], node->args[2]);
    if (y->op == OP_select && y->args[0] == node->args[0]) /* p ? x : (p ? z : y) = p ? x : y */
        return ir_select(b, node->args[0], node->args[1], y->args[2]);
    return 0;
}

/* ---------------------------------------------------------------- conversions */

/* Every value of `from` is one of `to`. */
static bool is_lossless(enum ir_dtype from, enum ir_dtype to)
{
    static const uint8_t digits[IR_DTYPE_COUNT] = {[IR_F16] = 11, [IR_BF16] = 8, [IR_F32] = 24, [IR_F64] = 53};
    bool is_signed = ir_dtype_is_signed(from);
    if (from == to || from == IR_BOOL) return true;
    if (to == IR_BOOL) return false;
    if (ir_dtype_is_float(from))
        return ir_dtype_is_float(to) && digits[to] > digits[from] && !(from == IR_BF16 && to == IR_F16);
    size_t bits = 8 * ir_dtype_bytes(from) - (is_signed ? 1 : 0);
    if (ir_dtype_is_float(to)) return bits <= digits[to] && !(to == IR_F16 && bits > 15);
    if (is_signed && !ir_dtype_is_signed(to)) return false;
    return bits <= 8 * ir_dtype_bytes(to) - (ir_dtype_is_signed(to) ? 1 : 0);
}

ir_value fold_cast(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    if (x->type.dtype == node->type.dtype) return node->args[0]; /* cast to its own type */
    if (x->op != OP_cast) return 0;
    enum ir_dtype from = (enum ir_dtype)b->f->nodes[x->args[0]].type.dtype;
    enum ir_dtype through = (enum ir_dtype)x->type.dtype, to = (enum ir_dtype)node->type.dtype;
    /* cast(cast(x)) = cast(x) if the first loses nothing. Not integer to float to integer: floats saturate, integers
     * wrap around. */
    bool wraps = !ir_dtype_is_float(from) && ir_dtype_is_float(through) && ir_dtype_is_integer(to);
    return is_lossless(from, through) && !wraps ? ir_cast(b, x->args[0], to) : 0;
}

ir_value fold_bitcast(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    if (x->type.dtype == node->type.dtype) return node->args[0]; /* to its own type */
    if (x->op == OP_bitcast)
        return ir_bitcast(b, x->args[0], (enum ir_dtype)node->type.dtype); /* bits(bits(x)) = bits(x) */
    return 0;
}

/* stop(stop(x)) = stop(x); a constant has no gradient to stop */
ir_value fold_stop_gradient(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    return x->op == OP_stop_gradient || x->op == OP_constant || x->op == OP_iota ? node->args[0] : 0;
}

/* ---------------------------------------------------------------- reductions */

ir_value fold_reduce(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    struct ir_ints dims = node->attr[0];
    int64_t terms = 1;
    for (uint32_t i = 0; i < dims.n; i++)
        if (x->type.dim[dims.v[i]] != 1) terms = x->type.dim[dims.v[i]] == 0 || terms == 0 ? 0 : 2;
    if (terms == 1) { /* over no dimensions, or of one element each: x; a sum starts at 0, and 0 + -0 = 0 */
        bool adds_zero = node->op == OP_reduce_sum && is_float(x);
        ir_value moved = ir_reshape(b, node->args[0], node->type.rank, node->type.dim);
        return adds_zero ? ir_binary(b, OP_add, moved, number(b, node, 0)) : moved;
    }
    double v;
    bool extremum = node->op == OP_reduce_max || node->op == OP_reduce_min;
    if (terms && extremum && fold_number(x, &v)) return number(b, node, v); /* max(c, c, ..) = c */
    return 0;
}

/* A product without elements: no nest has panels for it. */
ir_value fold_dot(struct ir_builder *b, const struct ir_node *node)
{
    return ir_type_elements(&node->type) ? 0 : number(b, node, 0);
}

/* ---------------------------------------------------------------- table */

static fold_rule *const rules[IR_OP_COUNT] = {
#define FOLD(op, rule, equations) [OP_##op] = fold_##rule,
#include "ir/fold.def"
#undef FOLD
};

ir_value ir_fold(struct ir_builder *b, const struct ir_node *node)
{
    ir_value value = 0;
    if (!(ir_ops[node->op].flags & IR_PURE) || node->arg_count == 0) return 0;
    if (rules[node->op]) value = rules[node->op](b, node);
    if (!value) value = fold_moved_number(b, node);
    if (!value) value = fold_constants(b, node);
    return value;
}
