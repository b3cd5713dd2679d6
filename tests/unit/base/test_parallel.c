/* Work on all processors. */
#include "ir/base/parallel.h"
#include "tests/unit/suite.h"
#include <stdatomic.h>

enum { MOST = 1000 };

static void add(void *context, size_t i)
{
    atomic_uint *calls = context;
    atomic_fetch_add(&calls[i], i < MOST ? 1 : 2);
}

/* Every number is called once, whether there are stacks for other threads or not. */
START_TEST(once)
{
    static const size_t counts[] = {0, 1, 2, 7, MOST}, stacks[] = {0, 1 << 20, 1 /* too small */, (size_t)1 << 60};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t s = 0; s < sizeof stacks / sizeof *stacks; s++) {
            atomic_uint calls[MOST + 1] = {0};
            parallel_each(counts[c], stacks[s], add, calls);
            for (size_t i = 0; i <= MOST; i++) ck_assert_uint_eq(calls[i], i < counts[c]);
        }
}
END_TEST

int main(void) { return run_case("parallel", CASE_OF(30, once)); }
