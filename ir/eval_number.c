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

double eval_least(enum ir_dtype dtype) { return ir_dtype_is_float(dtype) ? -INFINITY : integer_range(dtype).least; }
double eval_greatest(enum ir_dtype dtype)
{
    return ir_dtype_is_float(dtype) ? INFINITY : integer_range(dtype).greatest;
}

/* To the nearest number with `digits` bits after the leading one, ties to even; `least` is the exponent of the
 * smallest normal number, `greatest` the largest number. */
static double round_to(double x, int digits, int least, double greatest)
{
    if (!isfinite(x) || x == 0) return x;
    double magnitude = fabs(x), rounded;
    if (magnitude >= ldexp(1, least)) {
        uint64_t bits, drop = 52 - (uint64_t)digits;
        memcpy(&bits, &magnitude, sizeof bits);
        bits += ((UINT64_C(1) << (drop - 1)) - 1) + ((bits >> drop) & 1);
        bits &= ~((UINT64_C(1) << drop) - 1);
        memcpy(&rounded, &bits, sizeof bits);
    } else {
        double quantum = ldexp(1, least - digits);
        rounded = nearbyint(magnitude / quantum) * quantum;
    }
    return copysign(rounded > greatest ? INFINITY : rounded, x);
}

static double wrap(struct dtype_range r, double x)
{
    if (x >= r.least && x <= r.greatest) return x + 0.0; /* no negative zero among the integers */
    if (!(fabs(x) < 9e18)) return x < 0 ? r.least : r.greatest;
    uint64_t bits = (uint64_t)(int64_t)x;
    if (r.bits < 64) bits &= (UINT64_C(1) << r.bits) - 1;
    if (!r.is_signed) return (double)bits;
    if (r.bits < 64 && bits >> (r.bits - 1)) return (double)bits - ldexp(1, r.bits);
    return (double)(int64_t)bits;
}

void eval_to_dtype(enum ir_precision precision, enum ir_dtype dtype, double *v, int64_t count)
{
    if (ir_dtype_is_float(dtype)) {
        if (precision == IR_EVAL_F64 || dtype == IR_F64) return;
        if (dtype == IR_F32)
            for (int64_t i = 0; i < count; i++) v[i] = (double)(float)v[i];
        else if (dtype == IR_BF16)
            for (int64_t i = 0; i < count; i++) v[i] = round_to(v[i], 7, -126, 0x1.fep127);
        else
            for (int64_t i = 0; i < count; i++) v[i] = round_to(v[i], 10, -14, 65504);
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

static double f16_value(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023;
    double x = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(fraction + 1024, exponent - 25);
    return h >> 15 ? -x : x;
}

static uint16_t f16_bits(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return (uint16_t)(sign | 0x7e00);
    x = fabs(round_to(x, 10, -14, 65504));
    if (isinf(x)) return (uint16_t)(sign | 0x7c00);
    if (x < ldexp(1, -14)) return (uint16_t)(sign | (uint16_t)ldexp(x, 24));
    int exponent;
    double fraction = frexp(x, &exponent); /* in [0.5, 1) */
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((uint16_t)ldexp(fraction, 11) & 1023));
}

static double bf16_value(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static uint16_t bf16_bits(double x)
{
    float y = (float)round_to(x, 7, -126, 0x1.fep127);
    uint32_t bits;
    memcpy(&bits, &y, sizeof bits);
    return (uint16_t)(isnan(x) ? (bits >> 16 | 0x40) : bits >> 16);
}

/* The C type that holds a dtype, for the dtypes that have one. */
/* clang-format off */
#define EACH_C_TYPE(DO)                                                                                                \
    DO(IR_U8, uint8_t)                                                                                                 \
    DO(IR_U16, uint16_t) DO(IR_U32, uint32_t) DO(IR_U64, uint64_t) DO(IR_I8, int8_t) DO(IR_I16, int16_t)               \
        DO(IR_I32, int32_t) DO(IR_I64, int64_t) DO(IR_F32, float) DO(IR_F64, double)
/* clang-format on */

void ir_tensor_from_bytes(struct ir_tensor *t, const void *bytes, struct arena *arena)
{
    int64_t count = ir_type_elements(&t->type);
    t->v = arena_new_array(arena, double, count);
    const uint16_t *half = bytes;
    switch ((enum ir_dtype)t->type.dtype) {
#define READ(DTYPE, C) \
    case DTYPE: \
        for (int64_t i = 0; i < count; i++) t->v[i] = (double)((const C *)bytes)[i]; \
        break;
        EACH_C_TYPE(READ)
    case IR_BOOL:
        for (int64_t i = 0; i < count; i++) t->v[i] = ((const uint8_t *)bytes)[i] != 0;
        break;
    case IR_BF16:
        for (int64_t i = 0; i < count; i++) t->v[i] = bf16_value(half[i]);
        break;
    case IR_F16:
        for (int64_t i = 0; i < count; i++) t->v[i] = f16_value(half[i]);
        break;
    default: BUG("tensor of dtype %d", t->type.dtype);
    }
}

void ir_tensor_to_bytes(const struct ir_tensor *t, void *bytes)
{
    int64_t count = ir_type_elements(&t->type);
    uint16_t *half = bytes;
    switch ((enum ir_dtype)t->type.dtype) {
#define WRITE(DTYPE, C) \
    case DTYPE: \
        for (int64_t i = 0; i < count; i++) ((C *)bytes)[i] = (C)t->v[i]; \
        break;
        EACH_C_TYPE(WRITE)
    case IR_BOOL:
        for (int64_t i = 0; i < count; i++) ((uint8_t *)bytes)[i] = t->v[i] != 0;
        break;
    case IR_BF16:
        for (int64_t i = 0; i < count; i++) half[i] = bf16_bits(t->v[i]);
        break;
    case IR_F16:
        for (int64_t i = 0; i < count; i++) half[i] = f16_bits(t->v[i]);
        break;
    default: BUG("tensor of dtype %d", t->type.dtype);
    }
}
