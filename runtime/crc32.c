/* CRC-32 (ISO-HDLC: zlib, PNG, gzip), small and fast: where the CPU multiplies without carries, 16 bytes at a time are
 * folded into 16 that have the same remainder (Gopal et al., "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ", Intel 2009); what is left goes bit by bit. */
#include <stepc/step_tools.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <wmmintrin.h>
#endif

static uint32_t by_bits(uint32_t crc, const unsigned char *at, uint64_t bytes)
{
    while (bytes--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("pclmul")))
#endif
uint32_t
st_crc32(uint32_t crc, const void *data, uint64_t bytes)
{
    const unsigned char *at = data;
    crc = ~crc;
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;
    if (bytes >= 32) __cpuid(1, a, b, c, d);
    if (c >> 1 & 1) {
        const __m128i by = _mm_set_epi64x(0xccaa009e, 0x1751997d0); /* x^(128 - 32), x^(128 + 32) */
        __m128i x = _mm_xor_si128(_mm_loadu_si128((const void *)at), _mm_cvtsi32_si128((int)crc));
        unsigned char folded[16];
        while (at += 16, (bytes -= 16) >= 16)
            x = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0), _mm_clmulepi64_si128(x, by, 0x11)),
                              _mm_loadu_si128((const void *)at));
        _mm_storeu_si128((void *)folded, x);
        crc = by_bits(0, folded, 16);
    }
#endif
    return ~by_bits(crc, at, bytes);
}
