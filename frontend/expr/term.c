/* Terms of formulas: promotion and broadcasting around the builder's element-wise operations (formula.h). */
#include "frontend/expr/term.h"
#include <math.h>
#include <string.h>

struct fe_term term_number(double number) { return (struct fe_term){.number = number}; }
struct fe_term term_integer(int64_t number) { return (struct fe_term){.number = (double)number, .integer = true}; }
struct fe_term term_tensor(ir_value v) { return (struct fe_term){.v = v}; }

enum category { BOOLEAN, INTEGER, FLOAT };
static enum category category_of(enum ir_dtype d)
{
    return d == IR_BOOL ? BOOLEAN : ir_dtype_is_float(d) ? FLOAT : INTEGER;
}

/* Two different strong dtypes of one category: the wider one; bfloat16 and float16 meet in float32. */
static enum ir_dtype wider(enum ir_dtype a, enum ir_dtype b)
{
    if ((a == IR_F16 && b == IR_BF16) || (a == IR_BF16 && b == IR_F16)) return IR_F32;
    return a > b ? a : b;
}

/* A number that the host may set: see formula.h. */
static bool is_late(struct ir_builder *b, struct fe_term x)
{
    return x.v && x.weak && ir_type(b->f, x.v)->dtype == IR_F64;
}

/* The dtype that a term brings along where it meets a tensor. */
static enum ir_dtype dtype_of(struct ir_builder *b, struct fe_term x)
{
    if (is_late(b, x)) return IR_F32;
    return x.v ? (enum ir_dtype)ir_type(b->f, x.v)->dtype : x.integer ? IR_I32 : IR_F32;
}

static enum ir_dtype join(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    bool soft_x = !x.v || x.weak, soft_y = !y.v || y.weak, late_x = is_late(b, x), late_y = is_late(b, y);
    if ((late_x || late_y) && (late_x || !x.v) && (late_y || !y.v)) return IR_F64;
    enum ir_dtype dx = dtype_of(b, x), dy = dtype_of(b, y);
    if (dx == dy) return dx;
    enum category cx = category_of(dx), cy = category_of(dy);
    if (cx != cy) return cx > cy ? dx : dy;
    if (soft_x != soft_y) return soft_x ? dy : dx;
    return wider(dx, dy);
}

/* Whether a result gives way to what it meets next: both terms do, or the one of the higher category does, as in
 * `count**0.5` and `0.9**count`. */
static bool is_soft(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    bool soft_x = !x.v || x.weak, soft_y = !y.v || y.weak;
    enum category cx = category_of(dtype_of(b, x)), cy = category_of(dtype_of(b, y));
    return cx == cy ? soft_x && soft_y : cx > cy ? soft_x : soft_y;
}

static ir_value shaped(struct ir_builder *b, struct fe_term x, enum ir_dtype dtype, uint32_t rank, const int64_t *dim)
{
    if (!x.v) return ir_number(b, ir_type_of(dtype, rank, dim), x.number);
    return ir_broadcast_to(b, ir_cast(b, x.v, dtype), rank, dim);
}

/* The common shape of two terms, aligned right as in NumPy. */
static uint32_t common_shape(struct ir_builder *b, struct fe_term x, struct fe_term y, int64_t *dim)
{
    const struct ir_type none = {0}, *tx = x.v ? ir_type(b->f, x.v) : &none, *ty = y.v ? ir_type(b->f, y.v) : &none;
    uint32_t rank = tx->rank > ty->rank ? tx->rank : ty->rank;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t dx = i + tx->rank >= rank ? tx->dim[i + tx->rank - rank] : 1;
        int64_t dy = i + ty->rank >= rank ? ty->dim[i + ty->rank - rank] : 1;
        dim[i] = dx == 1 ? dy : dx;
    }
    return rank;
}

static struct fe_term binary_as(struct ir_builder *b, enum ir_op op, struct fe_term x, struct fe_term y,
                                enum ir_dtype dtype)
{
    int64_t dim[IR_MAX_RANK];
    uint32_t rank = common_shape(b, x, y, dim);
    ir_value vx = shaped(b, x, dtype, rank, dim), vy = shaped(b, y, dtype, rank, dim);
    return (struct fe_term){.v = ir_binary(b, op, vx, vy), .weak = is_soft(b, x, y)};
}

static struct fe_term binary(struct ir_builder *b, enum ir_op op, struct fe_term x, struct fe_term y)
{
    return binary_as(b, op, x, y, join(b, x, y));
}

static bool is_number(struct fe_term x, double number) { return !x.v && x.number == number; }

/* A tensor is left as it is by `+ 0` and `* 1` if its dtype would not change. */
static bool keeps(struct ir_builder *b, struct fe_term x, struct fe_term number)
{
    return x.v && join(b, x, number) == ir_type(b->f, x.v)->dtype;
}

struct fe_term term_add(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return (struct fe_term){.number = x.number + y.number, .integer = x.integer && y.integer};
    if (is_number(y, 0) && keeps(b, x, y)) return x;
    if (is_number(x, 0) && keeps(b, y, x)) return y;
    return binary(b, OP_add, x, y);
}

struct fe_term term_sub(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return (struct fe_term){.number = x.number - y.number, .integer = x.integer && y.integer};
    if (is_number(y, 0) && keeps(b, x, y)) return x;
    return binary(b, OP_sub, x, y);
}

struct fe_term term_mul(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return (struct fe_term){.number = x.number * y.number, .integer = x.integer && y.integer};
    if (is_number(y, 1) && keeps(b, x, y)) return x;
    if (is_number(x, 1) && keeps(b, y, x)) return y;
    return binary(b, OP_mul, x, y);
}

struct fe_term term_div(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return term_number(x.number / y.number);
    if (is_number(y, 1) && keeps(b, x, term_number(1))) return x;
    enum ir_dtype dtype = join(b, x, y);
    return binary_as(b, OP_div, x, y, ir_dtype_is_float(dtype) ? dtype : IR_F32);
}

struct fe_term term_rem(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return (struct fe_term){.number = fmod(x.number, y.number), .integer = x.integer && y.integer};
    return binary(b, OP_rem, x, y);
}

struct fe_term term_pow(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    if (!x.v && !y.v) return term_number(pow(x.number, y.number));
    if (!is_late(b, x) && !y.v && y.integer && y.number >= 1 && y.number <= 64) { /* square and multiply */
        uint32_t n = (uint32_t)y.number;
        struct fe_term power = x, result = x;
        bool first = true;
        for (; n; n >>= 1) {
            if (n & 1) result = first ? power : term_mul(b, result, power), first = false;
            if (n > 1) power = term_mul(b, power, power);
        }
        return result;
    }
    if (is_number(y, 1) && keeps(b, x, y)) return x;
    enum ir_dtype dtype = join(b, x, y);
    return binary_as(b, OP_pow, x, y, ir_dtype_is_float(dtype) ? dtype : IR_F32);
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
    ir_value v = x.v ? x.v : ir_scalar(b, x.integer ? IR_I32 : IR_F32, x.number);
    return (struct fe_term){.v = ir_unary(b, op, v), .weak = !x.v || x.weak};
}

struct fe_term term_neg(struct ir_builder *b, struct fe_term x)
{
    return x.v ? unary(b, OP_neg, x) : term_mul(b, term_integer(-1), x);
}
struct fe_term term_abs(struct ir_builder *b, struct fe_term x)
{
    return x.v ? unary(b, OP_abs, x) : (struct fe_term){.number = fabs(x.number), .integer = x.integer};
}
struct fe_term term_sign(struct ir_builder *b, struct fe_term x) { return unary(b, OP_sign, x); }
struct fe_term term_sqrt(struct ir_builder *b, struct fe_term x)
{
    return x.v ? unary(b, OP_sqrt, x) : term_number(sqrt(x.number));
}
struct fe_term term_rsqrt(struct ir_builder *b, struct fe_term x)
{
    return x.v ? unary(b, OP_rsqrt, x) : term_number(1 / sqrt(x.number));
}
struct fe_term term_tanh(struct ir_builder *b, struct fe_term x)
{
    return x.v ? unary(b, OP_tanh, x) : term_number(tanh(x.number));
}
struct fe_term term_cos(struct ir_builder *b, struct fe_term x)
{
    return x.v ? unary(b, OP_cos, x) : term_number(cos(x.number));
}
struct fe_term term_floor(struct ir_builder *b, struct fe_term x)
{
    return x.v ? unary(b, OP_floor, x) : term_number(floor(x.number));
}
struct fe_term term_square(struct ir_builder *b, struct fe_term x) { return term_mul(b, x, x); }

static struct fe_term strong(struct fe_term x)
{
    x.weak = false;
    return x;
}
struct fe_term term_lt(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    return strong(binary(b, OP_lt, x, y));
}
struct fe_term term_le(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    return strong(binary(b, OP_le, x, y));
}
struct fe_term term_eq(struct ir_builder *b, struct fe_term x, struct fe_term y)
{
    return strong(binary(b, OP_eq, x, y));
}
struct fe_term term_and(struct ir_builder *b, struct fe_term x, struct fe_term y) { return binary(b, OP_and, x, y); }
struct fe_term term_or(struct ir_builder *b, struct fe_term x, struct fe_term y) { return binary(b, OP_or, x, y); }
struct fe_term term_not(struct ir_builder *b, struct fe_term x) { return strong(unary(b, OP_not, x)); }
struct fe_term term_is_nan(struct ir_builder *b, struct fe_term x) { return strong(binary(b, OP_ne, x, x)); }

struct fe_term term_where(struct ir_builder *b, struct fe_term p, struct fe_term x, struct fe_term y)
{
    enum ir_dtype dtype = join(b, x, y);
    int64_t dim[IR_MAX_RANK], all[IR_MAX_RANK];
    uint32_t rank = common_shape(b, x, y, dim);
    struct fe_term shape = {.v = rank ? ir_number(b, ir_type_of(dtype, rank, dim), 0) : 0};
    rank = common_shape(b, shape, p, all);
    ir_value v = ir_select(b, shaped(b, p, IR_BOOL, rank, all), shaped(b, x, dtype, rank, all),
                           shaped(b, y, dtype, rank, all));
    return (struct fe_term){.v = v, .weak = is_soft(b, x, y)};
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
