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
 * 1 YMM, 2 ZMM. All that a level of codegen/target.c needs, but for AMX: every object carries them. */
/* clang-format off */
#define FEATURES \
    F("ssse3", 1, 2, 9, 0) F("fma", 1, 2, 12, 1) F("sse4.1", 1, 2, 19, 0) F("sse4.2", 1, 2, 20, 0) \
    F("movbe", 1, 2, 22, 0) F("popcnt", 1, 2, 23, 0) F("avx", 1, 2, 28, 1) F("f16c", 1, 2, 29, 1) \
    F("bmi", 7, 1, 3, 0) F("avx2", 7, 1, 5, 1) F("bmi2", 7, 1, 8, 0) F("avx512f", 7, 1, 16, 2) \
    F("avx512dq", 7, 1, 17, 2) F("avx512cd", 7, 1, 28, 2) F("avx512bw", 7, 1, 30, 2) F("avx512vl", 7, 1, 31, 2) \
    F("avx512bf16", 8, 0, 5, 2) F("lzcnt", 9, 2, 5, 0)
/* clang-format on */
#define F(name, leaf, reg, bit, state) name "\0"
static const char feature_names[] = FEATURES; /* one after another: pointers would cost relocations */
#undef F
#define F(name, leaf, reg, bit, state) {leaf, reg, bit, state},
static const struct {
    uint8_t leaf, reg, bit, state;
} features[] = {FEATURES};
#undef F

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
    unsigned wanted = features[i].state == 1 ? 0x6 : 0xe6;
    return (low & wanted) == wanted;
}
#endif

/* One that is not here nobody can answer for, but a file that has it (cpu_tiles.c). */
__attribute__((weak)) bool rt_other_feature(const char *name)
{
    (void)name;
    return false;
}

const char *rt_missing_feature(const char *list, char *name, size_t bytes)
{
    while (list && *list) {
        size_t n = 0;
        while (list[n] && list[n] != ',' && list[n] != '"') n++; /* in an object it is part of the manifest */
        size_t kept = n < bytes ? n : bytes - 1;
        memcpy(name, list, kept);
        name[kept] = 0;
#if defined(__x86_64__)
        const char *known = feature_names;
        size_t i = 0;
        for (; *known && strcmp(known, name) != 0; known += strlen(known) + 1) i++;
        if (*known ? !feature_there(i) : !rt_other_feature(name)) return name;
#endif
        if (list[n] != ',') break;
        list += n + 1;
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
