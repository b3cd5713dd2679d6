/* XXH3 with 128 bits and without a seed (Collet, the xxHash specification 0.8): as `xxhsum -H2` prints it. Bytes come
 * in pieces: a block of 1024 of them is taken when more follow, since the last 64 bytes of all are taken last. */
#include <stdio.h>
#include <string.h>

/* Two lanes at a time, as every x86-64 has them; xxh3_avx2.c takes four. */
#define LANES_BYTES 16
#define LANES_TARGET __attribute__((weak))
#define LANES_TAKE st_hash_stripes
#define LANES_END
#define LANES_SWAP(a) __builtin_shufflevector(a, a, 1, 0)
#if defined(__SSE2__)
#include <emmintrin.h>
#define LANES_HIGH(a) ((lanes)_mm_shuffle_epi32((__m128i)(a), 0xf5))
#define LANES_PRODUCT(a, b) ((lanes)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#else
#define LANES_HIGH(a) ((a) >> 32)
#define LANES_PRODUCT(a, b) (((a)&UINT32_MAX) * ((b)&UINT32_MAX))
#endif
#include "runtime/xxh3_blocks.h"

static const uint64_t secret[24] = {0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
                                    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
                                    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
                                    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
                                    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
                                    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};
#define P32_1 0x9e3779b1u
#define P32_2 0x85ebca77u
#define P32_3 0xc2b2ae3du
#define P1 0x9e3779b185ebca87
#define P2 0xc2b2ae3d27d4eb4f
#define P3 0x165667b19e3779f9
#define P4 0x85ebca77c2b2ae63
#define P5 0x27d4eb2f165667c5

__extension__ typedef unsigned __int128 u128;

static uint32_t read32(const void *at)
{
    uint32_t n;
    memcpy(&n, at, 4);
    return n;
}

static uint64_t read64(const void *at)
{
    uint64_t n;
    memcpy(&n, at, 8);
    return n;
}

static const char *key(uint32_t offset) { return (const char *)secret + offset; }
static uint64_t both(uint32_t offset) { return read64(key(offset)) ^ read64(key(offset + 8)); }

static uint64_t fold(uint64_t a, uint64_t b)
{
    u128 product = (u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * 0x165667919e3779f9;
    return h ^ h >> 32;
}

static uint64_t avalanche_short(uint64_t h)
{
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

/* out[0]: the low half. */
static void hash_to_16(const unsigned char *at, uint64_t n, uint64_t out[2])
{
    if (n > 8) {
        uint64_t low = read64(at), high = read64(at + n - 8);
        u128 m = (u128)(low ^ high ^ both(32)) * P1;
        high ^= both(48);
        uint64_t upper = (uint64_t)(m >> 64) + high + (uint64_t)(uint32_t)high * (P32_2 - 1);
        m = (u128)(((uint64_t)m + ((n - 1) << 54)) ^ __builtin_bswap64(upper)) * P2;
        out[0] = avalanche((uint64_t)m);
        out[1] = avalanche((uint64_t)(m >> 64) + upper * P2);
    } else if (n > 3) {
        uint64_t input = read32(at) + ((uint64_t)read32(at + n - 4) << 32);
        u128 m = (u128)(input ^ both(16)) * (P1 + (n << 2));
        uint64_t low = (uint64_t)m, high = (uint64_t)(m >> 64) + (low << 1);
        low ^= high >> 3;
        low = (low ^ low >> 35) * 0x9fb21c651e98df25;
        out[0] = low ^ low >> 28;
        out[1] = avalanche(high);
    } else if (n) {
        uint32_t low = (uint32_t)at[0] << 16 | (uint32_t)at[n >> 1] << 24 | at[n - 1] | (uint32_t)n << 8;
        uint32_t high = __builtin_bswap32(low);
        high = high << 13 | high >> 19;
        out[0] = avalanche_short(low ^ (uint64_t)(read32(key(0)) ^ read32(key(4))));
        out[1] = avalanche_short(high ^ (uint64_t)(read32(key(8)) ^ read32(key(12))));
    } else {
        out[0] = avalanche_short(both(64));
        out[1] = avalanche_short(both(80));
    }
}

static uint64_t mix(const unsigned char *at, uint32_t offset)
{
    return fold(read64(at) ^ read64(key(offset)), read64(at + 8) ^ read64(key(offset + 8)));
}

static void mix_two(uint64_t sum[2], const unsigned char *a, const unsigned char *b, uint32_t offset)
{
    sum[0] = (sum[0] + mix(a, offset)) ^ (read64(b) + read64(b + 8));
    sum[1] = (sum[1] + mix(b, offset + 16)) ^ (read64(a) + read64(a + 8));
}

static void hash_to_240(const unsigned char *at, uint64_t n, uint64_t out[2])
{
    uint64_t sum[2] = {n * P1, 0};
    if (n <= 128)
        for (uint32_t k = (uint32_t)(n - 1) / 32 + 1; k-- > 0;)
            mix_two(sum, at + 16 * k, at + n - 16 * (k + 1), 32 * k);
    for (uint32_t i = 32; n > 128 && i <= n; i += 32) {
        mix_two(sum, at + i - 32, at + i - 16, i < 160 ? i - 32 : i - 157);
        if (i == 128) sum[0] = avalanche(sum[0]), sum[1] = avalanche(sum[1]);
    }
    if (n > 128) mix_two(sum, at + n - 16, at + n - 32, 103);
    out[0] = avalanche(sum[0] + sum[1]);
    out[1] = 0 - avalanche(sum[0] * P1 + sum[1] * P4 + n * P2);
}

static void take(struct st_hash *h, const unsigned char *at, const unsigned char *end, uint32_t offset)
{
#if !defined(STEPC_IN_OBJECT) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) st_hash_stripes_avx2(h->sums, at, end, key(offset));
    else
#endif
        st_hash_stripes(h->sums, at, end, key(offset));
}

/* Whole blocks, behind which there is more. */
static void take_blocks(struct st_hash *h, const unsigned char *at, uint64_t bytes)
{
    take(h, at, at + bytes, 0);
    memcpy(h->held, at + bytes - STRIPE, STRIPE);
}

static uint64_t merge(const uint64_t sums[8], uint32_t offset, uint64_t sum)
{
    for (uint32_t i = 0; i < 4; i++)
        sum += fold(sums[2 * i] ^ read64(key(offset + 16 * i)), sums[2 * i + 1] ^ read64(key(offset + 16 * i + 8)));
    return avalanche(sum);
}

void st_hash_begin(struct st_hash *h)
{
    static const uint64_t first[8] = {P32_3, P1, P2, P3, P4, P32_2, P5, P32_1};
    memcpy(h->sums, first, sizeof first);
    h->bytes = h->pending = 0;
}

void st_hash_add(struct st_hash *h, const void *data, uint64_t bytes)
{
    const unsigned char *at = data;
    h->bytes += bytes;
    while (bytes) {
        uint64_t n = (bytes - 1) / BLOCK * BLOCK;
        if (h->pending == BLOCK) take_blocks(h, h->held + STRIPE, BLOCK), h->pending = 0;
        if (!h->pending && n) take_blocks(h, at, n), at += n, bytes -= n;
        n = BLOCK - h->pending < bytes ? BLOCK - h->pending : bytes;
        memcpy(h->held + STRIPE + h->pending, at, n);
        h->pending += (uint32_t)n;
        at += n;
        bytes -= n;
    }
}

void st_hash_end(struct st_hash *h, char text[ST_HASH])
{
    const unsigned char *at = h->held + STRIPE;
    uint64_t out[2];
    if (h->bytes <= 16) hash_to_16(at, h->bytes, out);
    else if (h->bytes <= 240) hash_to_240(at, h->bytes, out);
    else {
        const unsigned char *last = at + h->pending - STRIPE;
        take(h, at, last, 0);
        take(h, last, last + STRIPE, 121);
        out[0] = merge(h->sums, 11, h->bytes * P1);
        out[1] = merge(h->sums, 117, ~(h->bytes * P2));
    }
    snprintf(text, ST_HASH, "%016llx%016llx", (unsigned long long)out[1], (unsigned long long)out[0]);
}
