/* The order of the passes (passes.def) follows from their stages and the reasons of order.def, and from nothing else.
 */
#include "passes/pass.h"
#include "tests/unit/suite.h"
#include <stdbool.h>

enum {
#define X(name, required, stage_in, stage_out, doc) AT_##name,
#include "passes/passes.def"
#undef X
    COUNT
};

static const struct {
    const char *name;
    int in, out;
} passes[COUNT] = {
#define X(name, required, stage_in, stage_out, doc) {#name, PASS_##stage_in, PASS_##stage_out},
#include "passes/passes.def"
#undef X
};

struct reason {
    int a, b;
    const char *text;
};
#define BEFORE(a, b, reason) {AT_##a, AT_##b, reason},
#define FREE(a, b, reason)
static const struct reason before[] = {
#include "passes/order.def"
};
#undef BEFORE
#undef FREE
#define BEFORE(a, b, reason)
#define FREE(a, b, reason) {AT_##a, AT_##b, reason},
static const struct reason unordered[] = {
#include "passes/order.def"
    {COUNT, COUNT, ""} /* there may be none */
};
enum { BEFORE_COUNT = sizeof before / sizeof before[0], FREE_COUNT = sizeof unordered / sizeof unordered[0] - 1 };

/* Could `a` not run once `b` has? */
static bool by_stage(int a, int b) { return passes[b].out > passes[a].in || passes[b].in > passes[a].in; }

START_TEST(reasons_hold)
{
    for (int i = 0; i < BEFORE_COUNT; i++) {
        const struct reason *r = &before[i];
        ck_assert_msg(r->a < r->b, "%s is not before %s", passes[r->a].name, passes[r->b].name);
        ck_assert_msg(r->text[0] != 0, "%s before %s has no reason", passes[r->a].name, passes[r->b].name);
    }
}
END_TEST

START_TEST(neighbours_are_ordered_or_free)
{
    bool forced[COUNT][COUNT] = {{false}};
    for (int i = 0; i < BEFORE_COUNT; i++) forced[before[i].a][before[i].b] = true;
    for (int a = 0; a < COUNT; a++)
        for (int b = a + 1; b < COUNT; b++) forced[a][b] |= by_stage(a, b);
    for (int k = 0; k < COUNT; k++)
        for (int a = 0; a < COUNT; a++)
            for (int b = 0; b < COUNT; b++) forced[a][b] |= forced[a][k] && forced[k][b];
    for (int a = 0; a + 1 < COUNT; a++) {
        bool is_free = false;
        for (int i = 0; i < FREE_COUNT; i++) is_free |= unordered[i].a == a && unordered[i].b == a + 1;
        ck_assert_msg(forced[a][a + 1] != is_free, "%s and %s: %s", passes[a].name, passes[a + 1].name,
                      is_free ? "free, but a reason orders them"
                              : "no reason orders them, and they are not declared free");
        ck_assert_msg(!forced[a + 1][a], "%s must be before itself", passes[a].name);
    }
}
END_TEST

int main(void) { return run_case("order", CASE_OF(30, reasons_hold, neighbours_are_ordered_or_free)); }
