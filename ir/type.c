/* Element types and tensor types: tables from kernels/dtypes.def, checked sizes, texts for people, and single
 * elements read and written as doubles with one correct rounding. */
#include "ir/ir.h"
#include "kernels/num.h"

#include <math.h>
#include <string.h>

enum dtype_class { CLASS_NONE, CLASS_B, CLASS_U, CLASS_S, CLASS_F };

static const struct {
    const char *name;
    uint8_t bytes;
    uint8_t class;
    uint8_t abi;
} dtypes[IR_DTYPE_COUNT] = {
    [IR_TUPLE] = {"tuple", 0, CLASS_NONE, 0},
#define X(NAME, text, st, size, cls, abi) [IR_##NAME] = {text, size, CLASS_##cls, abi},
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

uint32_t ir_dtype_abi(enum ir_dtype dtype) { return dtype < IR_DTYPE_COUNT ? dtypes[dtype].abi : 0; }

enum ir_dtype ir_dtype_of_abi(uint32_t code)
{
    enum ir_dtype dtype = IR_DTYPE_COUNT - 1;
    while (dtype != IR_TUPLE && dtypes[dtype].abi != code) dtype--;
    return dtype;
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

/* Toward zero, into the range; NaN is 0: as XLA converts. */
static double round_integer(double v, int bits, bool is_signed)
{
    double least = is_signed ? -ldexp(1, bits - 1) : 0, limit = ldexp(1, is_signed ? bits - 1 : bits);
    if (isnan(v)) return 0;
    v = trunc(v);
    if (v <= least) return least;
    if (v >= limit) return limit - 1; /* of 64 bits: 2^63 or 2^64, the double nearest to the greatest number */
    return v == 0 ? 0 : v;            /* no -0 */
}

double ir_element_round(enum ir_dtype dtype, double v)
{
    switch (dtype) {
    case IR_BOOL: return v != 0;
    case IR_F16: return (double)k_float_of_f16(k_f16_of_float(k_float_to_odd(v)));
    case IR_BF16: return (double)k_float_of_bf16(k_bf16_of_float(k_float_to_odd(v)));
    case IR_F32: return (double)(float)v;
    case IR_F64: return v;
    default: return round_integer(v, 8 * (int)ir_dtype_bytes(dtype), ir_dtype_is_signed(dtype));
    }
}

/* Memory of a dense constant may lie at any address: elements are copied, not dereferenced. */
#define LOAD(T) ((void)memcpy(&x_##T, at, sizeof x_##T), (double)x_##T)
double ir_element_get(enum ir_dtype dtype, const void *data, size_t index)
{
    const char *at = (const char *)data + index * ir_dtype_bytes(dtype);
    uint8_t x_uint8_t;
    uint16_t x_uint16_t;
    uint32_t x_uint32_t;
    uint64_t x_uint64_t;
    int8_t x_int8_t;
    int16_t x_int16_t;
    int32_t x_int32_t;
    int64_t x_int64_t;
    float x_float;
    double x_double;
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
    case IR_F16: (void)LOAD(uint16_t); return (double)k_float_of_f16(x_uint16_t);
    case IR_BF16: (void)LOAD(uint16_t); return (double)k_float_of_bf16(x_uint16_t);
    default: BUG("element of a tuple");
    }
}

#define STORE(T, value) \
    do { \
        T x = (T)(value); \
        memcpy(at, &x, sizeof x); \
    } while (0)
void ir_element_set(enum ir_dtype dtype, void *data, size_t index, double v)
{
    char *at = (char *)data + index * ir_dtype_bytes(dtype);
    v = ir_element_round(dtype, v);
    switch (dtype) {
    case IR_BOOL:
    case IR_U8: STORE(uint8_t, v); break;
    case IR_U16: STORE(uint16_t, v); break;
    case IR_U32: STORE(uint32_t, v); break;
    case IR_U64: STORE(uint64_t, v >= 0x1p64 ? UINT64_MAX : (uint64_t)v); break;
    case IR_I8: STORE(int8_t, v); break;
    case IR_I16: STORE(int16_t, v); break;
    case IR_I32: STORE(int32_t, v); break;
    case IR_I64: STORE(int64_t, v >= 0x1p63 ? INT64_MAX : (int64_t)v); break;
    case IR_F32: STORE(float, v); break;
    case IR_F64: STORE(double, v); break;
    case IR_F16: STORE(uint16_t, k_f16_of_float(k_float_to_odd(v))); break;
    case IR_BF16: STORE(uint16_t, k_bf16_of_float(k_float_to_odd(v))); break;
    default: BUG("element of a tuple");
    }
}
