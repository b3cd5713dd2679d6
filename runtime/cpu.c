/* What the CPU can do and how its floating point unit is set. CPUID is asked directly: the compiler's own helper
 * brings a constructor, and an object has none. */
#include "runtime/rt.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

#if defined(__x86_64__)
/* leaf 1 and 7 (subleaf 0, 1) and 0x80000001; register a b c d = 0..3; state: what the system must save, 0 none,
 * 1 YMM, 2 ZMM, 3 tiles */
static const struct { char name[20]; uint8_t leaf, reg, bit, state; } features[] = {
    {"sse3", 1, 2, 0, 0}, {"ssse3", 1, 2, 9, 0}, {"fma", 1, 2, 12, 1}, {"sse4.1", 1, 2, 19, 0},
    {"sse4.2", 1, 2, 20, 0}, {"movbe", 1, 2, 22, 0}, {"popcnt", 1, 2, 23, 0}, {"avx", 1, 2, 28, 1},
    {"f16c", 1, 2, 29, 1}, {"bmi", 7, 1, 3, 0}, {"avx2", 7, 1, 5, 1}, {"bmi2", 7, 1, 8, 0},
    {"avx512f", 7, 1, 16, 2}, {"avx512dq", 7, 1, 17, 2}, {"avx512ifma", 7, 1, 21, 2}, {"avx512cd", 7, 1, 28, 2},
    {"avx512bw", 7, 1, 30, 2}, {"avx512vl", 7, 1, 31, 2}, {"avx512vbmi", 7, 2, 1, 2}, {"avx512vbmi2", 7, 2, 6, 2},
    {"avx512vnni", 7, 2, 11, 2}, {"avx512bitalg", 7, 2, 12, 2}, {"avx512vpopcntdq", 7, 2, 14, 2},
    {"amx-bf16", 7, 3, 22, 3}, {"avx512fp16", 7, 3, 23, 2}, {"amx-tile", 7, 3, 24, 3}, {"amx-int8", 7, 3, 25, 3},
    {"avxvnni", 8, 0, 4, 1}, {"avx512bf16", 8, 0, 5, 2}, {"lzcnt", 9, 2, 5, 0},
};

static bool feature_there(size_t i)
{
    unsigned r[4] = {0, 0, 0, 0}, one[4];
    unsigned leaf = features[i].leaf == 9 ? 0x80000001u : features[i].leaf == 1 ? 1 : 7;
    if (!__get_cpuid_count(leaf, features[i].leaf == 8, &r[0], &r[1], &r[2], &r[3])) return false;
    if (!(r[features[i].reg] >> features[i].bit & 1)) return false;
    if (!features[i].state) return true;
    if (!__get_cpuid(1, &one[0], &one[1], &one[2], &one[3]) || !(one[2] >> 27 & 1)) return false;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    unsigned wanted = features[i].state == 1 ? 0x6 : features[i].state == 2 ? 0xe6 : 0x60006;
    return (low & wanted) == wanted;
}
#endif

const char *rt_missing_feature(const char *list, char *name, size_t bytes)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        size_t kept = n < bytes ? n : bytes - 1;
        memcpy(name, list, kept);
        name[kept] = 0;
#if defined(__x86_64__)
        for (size_t i = 0; i < sizeof features / sizeof *features; i++)
            if (strcmp(features[i].name, name) == 0 && !feature_there(i)) return name;
#endif
        list += n + (list[n] == ',');
    }
    return NULL;
}

#if defined(__x86_64__)
enum { RT_MXCSR = 0x9fc0 }; /* all exceptions masked, nearest, FTZ (bit 15), DAZ (bit 6) */

struct rt_fp rt_fp_enter(void)
{
    struct rt_fp old = {_mm_getcsr()};
    if (old.control != RT_MXCSR) _mm_setcsr(RT_MXCSR);
    return old;
}

void rt_fp_leave(struct rt_fp old) { _mm_setcsr(old.control); }
#else
struct rt_fp rt_fp_enter(void)
{
    struct rt_fp old = {(uint32_t)fegetround()};
    fesetround(FE_TONEAREST);
    return old;
}

void rt_fp_leave(struct rt_fp old) { fesetround((int)old.control); }
#endif
