/* Numbers of the interpreter: every dtype is held in doubles and rounded or wrapped to its own set of values
 * after each operation; and the way between tensors and their bytes. 64-bit integers are exact below 2^53. */
#include "ir/eval.h"
#include <math.h>
#include <string.h>

struct dtype_range {
    double least, greatest;
    uint8_t bits;
    bool is_signed;
};

static struct dtype_range integer_range(enum ir_dtype dtype)
{
    unsigned bits = (unsigned)ir_dtype_bytes(dtype) * 8;
    struct dtype_range r = {0, 0, (uint8_t)bits, ir_dtype_is_signed(dtype)};
    if (dtype == IR_BOOL) return (struct dtype_range){0, 1, 1, false};
    r.least = r.is_signed ? -ldexp(1, (int)bits - 1) : 0;
    r.greatest = ldexp(1, (int)bits - (r.is_signed ? 1 : 0)) - 1;
    return r;
}

double ir_dtype_least(enum ir_dtype dtype) { return ir_dtype_is_float(dtype) ? -INFINITY : integer_range(dtype).least; }
double ir_dtype_greatest(enum ir_dtype dtype)
{
    return ir_dtype_is_float(dtype) ? INFINITY : integer_range(dtype).greatest;
}

/* The number that the low bits are. */
static double number_of_bits(struct dtype_range r, uint64_t bits)
{
    if (r.bits < 64) bits &= (UINT64_C(1) << r.bits) - 1;
    if (!r.is_signed) return (double)bits;
    if (r.bits < 64 && bits >> (r.bits - 1)) return (double)bits - ldexp(1, r.bits);
    return (double)(int64_t)bits;
}

double eval_integer(enum ir_dtype dtype, uint64_t bits) { return number_of_bits(integer_range(dtype), bits); }

static double wrap(struct dtype_range r, double x)
{
    if (x >= r.least && x <= r.greatest) return x + 0.0; /* no negative zero among the integers */
    if (!(fabs(x) < 9e18)) return x < 0 ? r.least : r.greatest;
    return number_of_bits(r, (uint64_t)(int64_t)x);
}

/* The low bits of x * y + z, as integers of this dtype have them: a double does not hold all of them. */
double eval_integer_multiply_add(enum ir_dtype dtype, double x, double y, double z)
{
    struct dtype_range r = integer_range(dtype);
    return number_of_bits(r, r.is_signed ? (uint64_t)(int64_t)x * (uint64_t)(int64_t)y + (uint64_t)(int64_t)z
                                         : (uint64_t)x * (uint64_t)y + (uint64_t)z);
}

void eval_to_dtype(enum ir_precision precision, enum ir_dtype dtype, double *v, int64_t count)
{
    if (ir_dtype_is_float(dtype)) {
        if (precision == IR_EVAL_F64 || dtype == IR_F64) return;
        for (int64_t i = 0; i < count; i++)
            v[i] = dtype == IR_F32 ? (double)(float)v[i] : ir_element_round(dtype, v[i]);
        return;
    }
    struct dtype_range r = integer_range(dtype);
    for (int64_t i = 0; i < count; i++) v[i] = wrap(r, v[i]);
}

double eval_convert(enum ir_dtype from, enum ir_dtype to, double x)
{
    if (to == IR_BOOL) return x != 0;
    if (ir_dtype_is_float(to)) return x;
    struct dtype_range r = integer_range(to);
    if (!ir_dtype_is_float(from)) return wrap(r, x);
    if (isnan(x)) return 0;
    x = trunc(x) + 0.0; /* no negative zero among the integers */
    return x < r.least ? r.least : x > r.greatest ? r.greatest : x;
}

/* ---------------------------------------------------------------- bytes */

void ir_tensor_from_bytes(struct ir_tensor *t, const void *bytes, struct arena *arena)
{
    int64_t count = ir_type_elements(&t->type);
    t->v = arena_new_array(arena, double, count);
    for (int64_t i = 0; i < count; i++) t->v[i] = ir_element_get((enum ir_dtype)t->type.dtype, bytes, (size_t)i);
}

void ir_tensor_to_bytes(const struct ir_tensor *t, void *bytes)
{
    int64_t count = ir_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++) ir_element_set((enum ir_dtype)t->type.dtype, bytes, (size_t)i, t->v[i]);
}
