/* What takes most of the time of a checksum: xxh3.c and xxh3_avx2.c each include it once, with the width of their
 * vectors and their words for what lanes do. The sums stay in registers from the first block to the last: stored and
 * loaded again in another width between two blocks, they would take as long as all products. */
#include <stepc/step_tools.h>

enum { STRIPE = 64, BLOCK = ST_HASH_BLOCK, BLOCK_KEYS = BLOCK / STRIPE * 8 };
typedef uint64_t lanes __attribute__((vector_size(LANES_BYTES), aligned(1), may_alias));

/* Stripes from `at` to `end`; behind each 16 of them, a block, the sums are stirred. */
LANES_TARGET void LANES_TAKE(uint64_t sums[8], const unsigned char *at, const unsigned char *end, const char *keys)
{
    lanes *all = (lanes *)(void *)sums, data, keyed, a = all[0], b = all[1];
    const lanes prime = (lanes){0} + 0x9e3779b1u, *from, *with;
#if LANES_BYTES == 32
#define EACH(DO) DO(a, 0), DO(b, 1)
#else
    lanes c = all[2], d = all[3];
#define EACH(DO) DO(a, 0), DO(b, 1), DO(c, 2), DO(d, 3)
#endif
#define TAKE(sum, i) \
    data = from[i], keyed = data ^ with[i], sum += LANES_SWAP(data) + LANES_PRODUCT(keyed, LANES_HIGH(keyed))
#define STIR(sum, i) \
    keyed = sum ^ sum >> 47 ^ with[i], \
    sum = LANES_PRODUCT(keyed, prime) + (LANES_PRODUCT(LANES_HIGH(keyed), prime) << 32)
    for (const char *key = keys; at < end; at += STRIPE) {
        from = (const lanes *)(const void *)at, with = (const lanes *)(const void *)key;
        EACH(TAKE);
        if ((key += 8) < keys + BLOCK_KEYS) continue;
        with = (const lanes *)(const void *)key;
        EACH(STIR);
        key = keys;
    }
#define STORE(sum, i) all[i] = sum
    EACH(STORE);
    LANES_END;
}
