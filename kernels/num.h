/* Conversions between storage types and double or float, shared by the runtime and by tests. Round to nearest, ties
 * to even; NaN stays NaN (quiet), values beyond the range become infinite. The 8-bit floats are not here. */
#ifndef KERNELS_NUM_H
#define KERNELS_NUM_H
#include <stdint.h>
#include <string.h>

static inline uint32_t k_bits_of_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float k_float_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float k_float_of_bf16(uint16_t h) { return k_float_of_bits((uint32_t)h << 16); }

static inline uint16_t k_bf16_of_float(float x)
{
    uint32_t u = k_bits_of_float(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float k_float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 31) return k_float_of_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent) return k_float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = (float)mantissa * 0x1p-24f; /* subnormal: exact */
    return sign ? -tiny : tiny;
}

static inline uint16_t k_f16_of_float(float x)
{
    uint32_t u = k_bits_of_float(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above */
    if (a < 0x38800000u) { /* subnormal results: units of 2^-24; the addition rounds */
        uint32_t shift = 126 - (a >> 23);
        if (shift > 24) return (uint16_t)sign;
        uint32_t m = (a & 0x7fffffu) | 0x800000u, half = 1u << (shift - 1), rest = m & ((1u << shift) - 1);
        uint32_t q = m >> shift;
        if (rest > half || (rest == half && (q & 1))) q++;
        return (uint16_t)(sign | q);
    }
    uint32_t r = a - (112u << 23);
    return (uint16_t)(sign | ((r + 0xfffu + ((r >> 13) & 1u)) >> 13));
}

/* double to a 16-bit float with a single rounding: to float by rounding to odd first. */
static inline float k_float_to_odd(double x)
{
    float f = (float)x;
    if ((double)f == x || x != x || f > 3.4e38f || f < -3.4e38f) return f;
    uint32_t u = k_bits_of_float(f);
    if (u & 1u) return f; /* already odd: no 16-bit tie falls on it */
    double d = (double)f;
    int away = x >= 0 ? x > d : x < d; /* the exact value is farther from zero than f */
    return k_float_of_bits(away ? u | 1u : (u ? u - 1u : u));
}
#endif
