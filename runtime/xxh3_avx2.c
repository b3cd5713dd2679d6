/* Checksums of 40 instead of 20 bytes per nanosecond, in objects for CPUs that have AVX2: the linker is asked for
 * stepc_avx2 then (codegen/link.c), and what is here takes the place of a weak function of xxh3.c. */
#if defined(__x86_64__)
#include <immintrin.h>
#define LANES_BYTES 32
#define LANES_TARGET __attribute__((target("avx2")))
#define LANES_SWAP(a) ((lanes)_mm256_shuffle_epi32((__m256i)(a), 0x4e))
#define LANES_HIGH(a) ((lanes)_mm256_shuffle_epi32((__m256i)(a), 0xf5))
#define LANES_PRODUCT(a, b) ((lanes)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define LANES_END _mm256_zeroupper() /* -Oz leaves it out */
#ifdef STEPC_IN_OBJECT
#define LANES_TAKE st_hash_stripes
#else
#define LANES_TAKE st_hash_stripes_avx2
#endif
#include "runtime/xxh3_blocks.h"

const char stepc_avx2 = 0;
#endif
