/* What a dtype of the interface is called, how large it is, and single numbers of it. */
#include "runtime/rt.h"

#include "kernels/num.h"
#include <math.h>
#include <stdio.h>

/* By ABI code; the 8-bit floats have no row in dtypes.def. */
static const struct {
    char name[9];
    uint8_t bytes;
} dtypes[] = {
    [STEP_F8E4M3] = {"f8e4m3", 1},
    [STEP_F8E5M2] = {"f8e5m2", 1},
#define X(NAME, text, st, bytes, cls, abi) [abi] = {text, bytes},
#include "kernels/dtypes.def"
#undef X
};

const char *rt_dtype_name(uint32_t dtype)
{
    return dtype >= 1 && dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].name : "unknown dtype";
}

uint32_t rt_dtype_bytes(uint32_t dtype)
{
    return dtype >= 1 && dtype < sizeof dtypes / sizeof *dtypes ? dtypes[dtype].bytes : 0;
}

const char *rt_type_text(char *out, size_t bytes, uint32_t dtype, int32_t rank, const int64_t *shape)
{
    int at = snprintf(out, bytes, "%s[", rt_dtype_name(dtype));
    for (int32_t i = 0; i < rank && i < RT_MAX_RANK && at > 0 && (size_t)at < bytes; i++)
        at += snprintf(out + at, bytes - (size_t)at, i ? ", %lld" : "%lld", (long long)shape[i]);
    if (at > 0 && (size_t)at < bytes) snprintf(out + at, bytes - (size_t)at, "]");
    return out;
}

bool rt_dtype_float(uint32_t dtype) { return dtype >= STEP_F16 && dtype <= STEP_F64; }

double rt_number_at(const void *data, uint32_t dtype, int64_t i)
{
    switch (dtype) {
    case STEP_BOOL:
    case STEP_U8: return ((const uint8_t *)data)[i];
    case STEP_I8: return ((const int8_t *)data)[i];
    case STEP_U16: return ((const uint16_t *)data)[i];
    case STEP_I16: return ((const int16_t *)data)[i];
    case STEP_U32: return ((const uint32_t *)data)[i];
    case STEP_I32: return ((const int32_t *)data)[i];
    case STEP_U64: return (double)((const uint64_t *)data)[i];
    case STEP_I64: return (double)((const int64_t *)data)[i];
    case STEP_F16: return (double)k_float_of_f16(((const uint16_t *)data)[i]);
    case STEP_BF16: return (double)k_float_of_bf16(((const uint16_t *)data)[i]);
    case STEP_F32: return (double)((const float *)data)[i];
    case STEP_F64: return ((const double *)data)[i];
    default: return 0;
    }
}

void rt_number_put(void *data, uint32_t dtype, int64_t i, double x)
{
    switch (dtype) {
    case STEP_BOOL: ((uint8_t *)data)[i] = x != 0; break;
    case STEP_U8: ((uint8_t *)data)[i] = (uint8_t)x; break;
    case STEP_I8: ((int8_t *)data)[i] = (int8_t)x; break;
    case STEP_U16: ((uint16_t *)data)[i] = (uint16_t)x; break;
    case STEP_I16: ((int16_t *)data)[i] = (int16_t)x; break;
    case STEP_U32: ((uint32_t *)data)[i] = (uint32_t)x; break;
    case STEP_I32: ((int32_t *)data)[i] = (int32_t)x; break;
    case STEP_U64: ((uint64_t *)data)[i] = (uint64_t)x; break;
    case STEP_I64: ((int64_t *)data)[i] = (int64_t)x; break;
    case STEP_F16: ((uint16_t *)data)[i] = k_f16_of_float(k_float_to_odd(x)); break;
    case STEP_BF16: ((uint16_t *)data)[i] = k_bf16_of_float(k_float_to_odd(x)); break;
    case STEP_F32: ((float *)data)[i] = (float)x; break;
    case STEP_F64: ((double *)data)[i] = x; break;
    default: break;
    }
}

int64_t rt_lost(const void *now, uint32_t dtype, const void *before, uint32_t dtype_before, int64_t count)
{
    while (count-- > 0)
        if (!isfinite(rt_number_at(now, dtype, count)) &&
            (!before || isfinite(rt_number_at(before, dtype_before, count))))
            return count;
    return -1;
}
