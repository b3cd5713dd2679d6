/* Element types and tensor types: tables from kernels/dtypes.def, checked sizes, texts for people, and single
 * elements read and written as doubles with one correct rounding. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

enum dtype_class { CLASS_NONE, CLASS_B, CLASS_U, CLASS_S, CLASS_F };

static const struct { const char *name; uint8_t bytes; uint8_t class; } dtypes[IR_DTYPE_COUNT] = {
    [IR_TUPLE] = {"tuple", 0, CLASS_NONE},
#define X(NAME, text, st, size, cls, abi) [IR_##NAME] = {text, size, CLASS_##cls},
#include "kernels/dtypes.def"
#undef X
};

size_t ir_dtype_bytes(enum ir_dtype dtype) { return dtype < IR_DTYPE_COUNT ? dtypes[dtype].bytes : 0; }
const char *ir_dtype_name(enum ir_dtype dtype) { return dtype < IR_DTYPE_COUNT ? dtypes[dtype].name : "?"; }
bool ir_dtype_is_float(enum ir_dtype dtype) { return dtype < IR_DTYPE_COUNT && dtypes[dtype].class == CLASS_F; }

bool ir_dtype_is_integer(enum ir_dtype dtype)
{
    return dtype < IR_DTYPE_COUNT && (dtypes[dtype].class == CLASS_U || dtypes[dtype].class == CLASS_S);
}

bool ir_dtype_is_signed(enum ir_dtype dtype)
{
    return dtype < IR_DTYPE_COUNT && (dtypes[dtype].class == CLASS_S || dtypes[dtype].class == CLASS_F);
}

enum ir_dtype ir_dtype_find(const char *name)
{
    for (int i = IR_TUPLE + 1; i < IR_DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0) return (enum ir_dtype)i;
    return IR_TUPLE;
}

struct ir_type ir_type_scalar(enum ir_dtype dtype) { return (struct ir_type){.dtype = (uint8_t)dtype}; }

struct ir_type ir_type_of(enum ir_dtype dtype, uint32_t rank, const int64_t *dim)
{
    ASSERT(rank <= IR_MAX_RANK);
    struct ir_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    for (uint32_t i = 0; i < rank; i++) type.dim[i] = dim[i];
    return type;
}

bool ir_type_equal(const struct ir_type *a, const struct ir_type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->rank > IR_MAX_RANK) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

bool ir_size_multiply(int64_t a, int64_t b, int64_t *product)
{
    if (a < 0 || b < 0 || a > IR_MAX_ELEMENTS || b > IR_MAX_ELEMENTS) return false;
    if (a && b > IR_MAX_ELEMENTS / a) return false;
    *product = a * b;
    return true;
}

int64_t ir_type_elements(const struct ir_type *type)
{
    /* Extents without the zeros must fit too: strides are computed from them. */
    int64_t product = 1;
    bool empty = false;
    if (type->rank > IR_MAX_RANK) return -1;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dim[i] == 0) empty = true;
        else if (!ir_size_multiply(product, type->dim[i], &product)) return -1;
    }
    return empty ? 0 : product;
}

const char *ir_type_text(struct arena *arena, const struct ir_type *type)
{
    struct str s = STR(arena);
    str_add(&s, ir_dtype_name((enum ir_dtype)type->dtype));
    if (type->dtype == IR_TUPLE) return str_text(&s);
    str_add(&s, "[");
    for (uint32_t i = 0; i < type->rank && i < IR_MAX_RANK; i++)
        str_addf(&s, i ? ", %lld" : "%lld", (long long)type->dim[i]);
    str_add(&s, "]");
    return str_text(&s);
}

/* ---------------------------------------------------------------- elements */

/* Round to nearest, ties to even, to `bits` fraction bits with least exponent `low` and greatest exponent `high`. */
static double round_float(double v, int bits, int low, int high)
{
    if (v == 0 || !isfinite(v)) return v;
    int exponent = ilogb(v);
    if (exponent < low) exponent = low;
    double rounded = ldexp(rint(ldexp(v, bits - exponent)), exponent - bits);
    return fabs(rounded) >= ldexp(1, high + 1) ? copysign(INFINITY, v) : rounded;
}

/* Toward zero, into the range; NaN is 0: as XLA converts. */
static double round_integer(double v, int bits, bool is_signed)
{
    double least = is_signed ? -ldexp(1, bits - 1) : 0, limit = ldexp(1, is_signed ? bits - 1 : bits);
    if (isnan(v)) return 0;
    v = trunc(v);
    if (v <= least) return least;
    if (v >= limit) return bits > 53 ? nextafter(limit, 0) : limit - 1;
    return v == 0 ? 0 : v; /* no -0 */
}

double ir_element_round(enum ir_dtype dtype, double v)
{
    switch (dtype) {
    case IR_BOOL: return v != 0;
    case IR_F16: return round_float(v, 10, -14, 15);
    case IR_BF16: return round_float(v, 7, -126, 127);
    case IR_F32: return (double)(float)v;
    case IR_F64: return v;
    default: return round_integer(v, 8 * (int)ir_dtype_bytes(dtype), ir_dtype_is_signed(dtype));
    }
}

static double half_to_double(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double v = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return half >> 15 ? -v : v;
}

/* `v` is a value of the type already. */
static uint16_t half_from_double(double v)
{
    uint16_t sign = signbit(v) ? 0x8000u : 0;
    if (isnan(v)) return sign | 0x7e00u;
    if (isinf(v)) return sign | 0x7c00u;
    if (v == 0) return sign;
    int exponent = ilogb(v);
    if (exponent < -14) return (uint16_t)(sign | (uint16_t)ldexp(fabs(v), 24));
    return (uint16_t)(sign | (uint16_t)((exponent + 15) << 10) | ((uint16_t)ldexp(fabs(v), 10 - exponent) & 1023u));
}

/* Memory of a dense constant may lie at any address: elements are copied, not dereferenced. */
#define LOAD(T) ((void)memcpy(&x_##T, at, sizeof x_##T), (double)x_##T)
double ir_element_get(enum ir_dtype dtype, const void *data, size_t index)
{
    const char *at = (const char *)data + index * ir_dtype_bytes(dtype);
    uint8_t x_uint8_t; uint16_t x_uint16_t; uint32_t x_uint32_t; uint64_t x_uint64_t;
    int8_t x_int8_t; int16_t x_int16_t; int32_t x_int32_t; int64_t x_int64_t;
    float x_float; double x_double;
    switch (dtype) {
    case IR_BOOL: return LOAD(uint8_t) != 0;
    case IR_U8: return LOAD(uint8_t);
    case IR_U16: return LOAD(uint16_t);
    case IR_U32: return LOAD(uint32_t);
    case IR_U64: return LOAD(uint64_t);
    case IR_I8: return LOAD(int8_t);
    case IR_I16: return LOAD(int16_t);
    case IR_I32: return LOAD(int32_t);
    case IR_I64: return LOAD(int64_t);
    case IR_F32: return LOAD(float);
    case IR_F64: return LOAD(double);
    case IR_F16:
        memcpy(&x_uint16_t, at, sizeof x_uint16_t);
        return half_to_double(x_uint16_t);
    case IR_BF16:
        memcpy(&x_uint16_t, at, sizeof x_uint16_t);
        x_uint32_t = (uint32_t)x_uint16_t << 16;
        memcpy(&x_float, &x_uint32_t, sizeof x_float);
        return (double)x_float;
    default: BUG("element of a tuple");
    }
}

#define STORE(T) do { T x = (T)v; memcpy(at, &x, sizeof x); } while (0)
void ir_element_set(enum ir_dtype dtype, void *data, size_t index, double v)
{
    char *at = (char *)data + index * ir_dtype_bytes(dtype);
    v = ir_element_round(dtype, v);
    switch (dtype) {
    case IR_BOOL: case IR_U8: STORE(uint8_t); break;
    case IR_U16: STORE(uint16_t); break;
    case IR_U32: STORE(uint32_t); break;
    case IR_U64: STORE(uint64_t); break;
    case IR_I8: STORE(int8_t); break;
    case IR_I16: STORE(int16_t); break;
    case IR_I32: STORE(int32_t); break;
    case IR_I64: STORE(int64_t); break;
    case IR_F32: STORE(float); break;
    case IR_F64: STORE(double); break;
    case IR_F16: {
        uint16_t half = half_from_double(v);
        memcpy(at, &half, sizeof half);
        break;
    }
    case IR_BF16: {
        float single = (float)v;
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        uint16_t high = isnan(v) ? (uint16_t)(bits >> 16 | 0x40u) : (uint16_t)(bits >> 16);
        memcpy(at, &high, sizeof high);
        break;
    }
    default: BUG("element of a tuple");
    }
}
