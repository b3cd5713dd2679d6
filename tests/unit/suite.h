/* The end of every unit test: which tests there are, and running them. Each program is one suite. */
#ifndef UNIT_SUITE_H
#define UNIT_SUITE_H
#include <check.h>
#include <stddef.h>

/* Check writes a message to a file for every assertion that holds, and moves all that are left down for each that it
 * reads back, so that a million of them, one for each element, were a quarter of a test's time. */
#undef ck_assert_msg
#define ck_assert_msg(expr, ...) \
    ((expr) ? (void)0 : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", ##__VA_ARGS__))

/* A case of the named tests, each of which may take `seconds` (0: as long as it likes). Fixtures and loops can be
 * added. */
#define CASE_OF(seconds, ...) \
    case_of(seconds, (const TTest *const[]){__VA_ARGS__}, sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *))

static inline TCase *case_of(double seconds, const TTest *const *tests, size_t count)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, seconds);
    for (size_t i = 0; i < count; i++) tcase_add_test(all, tests[i]);
    return all;
}

/* Both give the status that main returns. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

static inline int run_case(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
#endif
