/* In which order einsum contracts: that of opt_einsum's `optimal` path, whose numbers these are; of more operands than
 * are searched a whole order, and from left to right where an intermediate result would have too many dimensions. */
#include "frontend/expr/functions/linear.h"
#include "tests/unit/suite.h"
#include <string.h>

static const struct {
    const char *operands[6], *result;
    double extent[12]; /* of a, b, .. */
    struct fe_contraction path[5];
} tests[] = {
    {{"aijk", "ib", "bjc", "ck"},
     "a",
     {256, 16, 16, 0, 0, 0, 0, 0, 8, 8, 8}, /* i, j, k */
     {{1, 2}, {3, 4}, {0, 5}}},
    {{"abc", "ade", "ba"}, "be", {8, 512, 256, 256, 128}, {{0, 2}, {1, 3}}},
    {{"ab", "bc", "cd"}, "ad", {2, 100, 3, 50}, {{0, 1}, {2, 3}}},
    {{"ab", "bc", "cd"}, "ad", {100, 2, 50, 3}, {{1, 2}, {0, 3}}},
    {{"ab", "bc", "cd"}, "ad", {5, 5, 5, 5}, {{0, 1}, {2, 3}}}, /* as much either way: the first */
    {{"ab", "bc", "cd", "de", "ef"}, "af", {10, 2, 30, 3, 40, 1}, {{3, 4}, {2, 5}, {1, 6}, {0, 7}}},
    {{"abcde", "fghij", "ab"},
     "cdefghij",
     {2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
     {{0, 2}, {1, 3}}}, /* both long ones at once would have 10 dimensions */
    {{"abcde", "fghij"}, "abcdefghij", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, {{0, 1}}},
};

static uint64_t bits_of(const char *labels)
{
    uint64_t bits = 0;
    for (; *labels; labels++) bits |= UINT64_C(1) << (*labels - 'a');
    return bits;
}

START_TEST(order)
{
    uint64_t labels[6] = {0};
    struct fe_contraction path[FE_MAX_ARGS];
    uint32_t count = 0;
    double extent[64] = {0};
    memcpy(extent, tests[_i].extent, sizeof tests[_i].extent);
    for (; count < 6 && tests[_i].operands[count]; count++) labels[count] = bits_of(tests[_i].operands[count]);
    fe_contraction_path(labels, count, bits_of(tests[_i].result), extent, path);
    for (uint32_t i = 0; i + 1 < count; i++) {
        ck_assert_uint_eq(path[i].first, tests[_i].path[i].first);
        ck_assert_uint_eq(path[i].second, tests[_i].path[i].second);
    }
}
END_TEST

/* A chain of matrices that become ever smaller to the right is contracted from the right, whatever its length. */
START_TEST(chain)
{
    uint32_t count = (uint32_t)_i, used = 0;
    uint64_t labels[FE_MAX_ARGS] = {0};
    struct fe_contraction path[FE_MAX_ARGS];
    double extent[64] = {0}, size = 1 << 13;
    for (uint32_t i = 0; i <= count; i++, size /= 2) extent[i] = size;
    for (uint32_t i = 0; i < count; i++) labels[i] = UINT64_C(3) << i;
    fe_contraction_path(labels, count, 1 | UINT64_C(1) << count, extent, path);
    for (uint32_t i = 0; i + 1 < count; i++) {
        ck_assert_uint_eq(path[i].first, count - 2 - i);
        ck_assert_uint_eq(path[i].second, i ? count + i - 1 : count - 1);
        used |= 1u << path[i].first | 1u << path[i].second;
    }
    ck_assert_uint_eq(used, (1u << (2 * count - 2)) - 1);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, order, 0, sizeof tests / sizeof *tests);
    tcase_add_loop_test(all, chain, 2, FE_MAX_ARGS + 1);
    return run_case("einsum", all);
}
