/* What an object asks of the CPU, against a CPUID that the test makes up: each feature is missing exactly if its own
 * bit is. The bits' names are those of the compiler's header, their registers those of Intel's manual (volume 2, CPUID)
 * and AMD's (volume 3, appendix E). */
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>

static unsigned answers[3][2][4]; /* of leaf 1, leaf 7, leaf 0x80000001; subleaf; register a b c d */

static unsigned *answer(unsigned leaf, unsigned subleaf)
{
    ck_assert(leaf == 1 || leaf == 7 || leaf == 0x80000001u);
    return answers[leaf == 1 ? 0 : leaf == 7 ? 1 : 2][subleaf];
}

static int asked(unsigned leaf, unsigned subleaf, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    const unsigned *r = answer(leaf, subleaf);
    *a = r[0], *b = r[1], *c = r[2], *d = r[3];
    return 1;
}

#define __get_cpuid_count(leaf, subleaf, a, b, c, d) asked(leaf, subleaf, a, b, c, d)
#define __get_cpuid(leaf, a, b, c, d) asked(leaf, 0, a, b, c, d)
#include "runtime/cpu.c"

static long refused; /* by the system, where it is asked for AMX's registers */

bool tile_feature(const char *);
#define rt_other_feature tile_feature
#define syscall(...) refused
#include "runtime/cpu_tiles.c"
#undef rt_other_feature

enum { A, B, C, D };
static const struct {
    const char *name;
    unsigned leaf, subleaf, reg, bit;
} expected[] = {
    {"ssse3", 1, 0, C, bit_SSSE3},       {"fma", 1, 0, C, bit_FMA},           {"sse4.1", 1, 0, C, bit_SSE4_1},
    {"sse4.2", 1, 0, C, bit_SSE4_2},     {"movbe", 1, 0, C, bit_MOVBE},       {"popcnt", 1, 0, C, bit_POPCNT},
    {"avx", 1, 0, C, bit_AVX},           {"f16c", 1, 0, C, bit_F16C},         {"bmi", 7, 0, B, bit_BMI},
    {"avx2", 7, 0, B, bit_AVX2},         {"bmi2", 7, 0, B, bit_BMI2},         {"avx512f", 7, 0, B, bit_AVX512F},
    {"avx512dq", 7, 0, B, bit_AVX512DQ}, {"avx512cd", 7, 0, B, bit_AVX512CD}, {"avx512bw", 7, 0, B, bit_AVX512BW},
    {"avx512vl", 7, 0, B, bit_AVX512VL}, {"avx512bf16", 7, 1, A, 1 << 5},     {"lzcnt", 0x80000001u, 0, C, bit_LZCNT},
};
enum { COUNT = sizeof expected / sizeof *expected };

START_TEST(own_bit)
{
    char name[32];
    ck_assert_uint_eq(sizeof features / sizeof *features, COUNT);
    memset(answers, 0xff, sizeof answers);
    for (int i = 0; i < COUNT; i++) {
        unsigned *r = answer(expected[i].leaf, expected[i].subleaf) + expected[i].reg;
        /* What needs registers that this system does not save is missing whatever CPUID says. */
        const char *other = rt_missing_feature(expected[i].name, name, sizeof name);
        ck_assert_msg(!other || strncmp(other, "a", 1) == 0, "%s", expected[i].name);
        *r &= ~expected[i].bit;
        const char *missing = rt_missing_feature(expected[i].name, name, sizeof name);
        ck_assert_msg(missing && strcmp(missing, expected[i].name) == 0, "%s is there without its bit",
                      expected[i].name);
        for (int k = 0; k < COUNT; k++)
            if (k != i && !other && strncmp(expected[k].name, "a", 1) != 0)
                ck_assert_msg(!rt_missing_feature(expected[k].name, name, sizeof name), "%s misses a bit of %s",
                              expected[k].name, expected[i].name);
        *r |= expected[i].bit;
    }
}
END_TEST

/* The first of a list that is missing is told; what nobody knows is missing; without the system's saving
 * of registers nothing that needs them is there. */
START_TEST(lists)
{
    char name[32];
    memset(answers, 0xff, sizeof answers);
    ck_assert_ptr_null(rt_missing_feature("ssse3,popcnt", name, sizeof name));
    ck_assert_ptr_null(rt_missing_feature("", name, sizeof name));
    ck_assert_str_eq(rt_missing_feature("ssse3,no-such-feature", name, sizeof name), "no-such-feature");
    answers[0][0][C] &= ~(unsigned)(bit_POPCNT | bit_MOVBE);
    ck_assert_str_eq(rt_missing_feature("ssse3,popcnt,movbe", name, sizeof name), "popcnt");
    ck_assert_str_eq(rt_missing_feature("ssse3,movbe\",\"and\":1", name, sizeof name), "movbe");
    answers[0][0][C] = ~(unsigned)bit_OSXSAVE;
    for (int i = 0; i < COUNT; i++) {
        bool saved = strncmp(expected[i].name, "avx", 3) == 0 || strcmp(expected[i].name, "fma") == 0 ||
                     strcmp(expected[i].name, "f16c") == 0;
        ck_assert_msg(!rt_missing_feature(expected[i].name, name, sizeof name) == !saved, "%s", expected[i].name);
    }
}
END_TEST

/* AMX is there where CPUID and the system say so; objects that do not need it cannot answer. */
START_TEST(tiles)
{
    static const struct {
        const char *name;
        unsigned bit;
    } parts[] = {{"amx-bf16", 1 << 22}, {"amx-tile", 1 << 24}};
    char name[32];
    for (int i = 0; i < 2; i++) {
        memset(answers, 0, sizeof answers);
        answer(7, 0)[D] = parts[i].bit, refused = 0;
        ck_assert(tile_feature(parts[i].name) && !tile_feature(parts[!i].name) && !tile_feature("amx-int8"));
        refused = -1;
        ck_assert(!tile_feature(parts[i].name));
        memset(answers, 0xff, sizeof answers);
        refused = 0, answer(7, 0)[D] &= ~parts[i].bit;
        ck_assert(!tile_feature(parts[i].name) && tile_feature(parts[!i].name));
        ck_assert_str_eq(rt_missing_feature(parts[!i].name, name, sizeof name), parts[!i].name);
    }
}
END_TEST

int main(void) { return run_case("cpu", CASE_OF(60, own_bit, lists, tiles)); }
#else
int main(void) { return 0; }
#endif
