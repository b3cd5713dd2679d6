/* `stepc bench --by`: what a trace says of kernels, also where something else interrupts a step, or the trace is not
 * whole. */
#include "frontend/cli/bench.h"
#include "tests/unit/suite.h"

#include <string.h>

static const char manifest[] =
    "{\"entries\":[{\"name\":\"step\",\"groups\":[[0,0,0,0,0,0,0,100,8,1],[1,0,0,0,0,0,0,50,4,3]]}]}";

/* A step of two workers: each has 6 us of command 0 and 3 of command 1, which `held` us were taken from, and waits 1
 * us. */
static void add_step(struct str *to, int step, int held)
{
    for (int worker = 0; worker < 2; worker++) {
        int more = worker ? 0 : held;
        str_addf(
            to,
            ",{\"name\":\"step\",\"cat\":\"call\",\"dur\":%d,\"tid\":%d,\"args\":{\"entry\":\"step\",\"step\":%d}}"
            ",{\"name\":\"a\",\"cat\":\"kernel\",\"dur\":6,\"args\":{\"entry\":\"step\",\"step\":%d,\"command\":0,"
            "\"place\":\"/a\"}}"
            ",{\"name\":\"b\",\"cat\":\"kernel\",\"dur\":%d,\"args\":{\"entry\":\"step\",\"step\":%d,\"command\":1,"
            "\"place\":\"/b\"}}"
            ",{\"name\":\"wait\",\"cat\":\"wait\",\"dur\":1,\"args\":{\"entry\":\"step\",\"step\":%d,\"command\":1}}",
            10 + more, worker, step, step, 3 + more, step, step);
    }
}

static const char *parts(struct arena *a, const int *held, int steps, int lost, struct run_parts *by)
{
    struct str text = STR(a);
    str_add(&text, "{\"traceEvents\":[{\"name\":\"thread_name\"},{\"name\":\"thread_name\"}");
    for (int i = 0; i < steps; i++) add_step(&text, 1000 + i, held[i]);
    str_addf(&text, "],\"otherData\":{\"lost\":%d}}", lost);
    *by = (struct run_parts){0};
    return bench_parts(a, manifest, str_text(&text), strlen(str_text(&text)), (uint64_t)steps, by);
}

static void adds_up(const struct run_parts *by)
{
    ck_assert_uint_eq(by->workers, 2);
    ck_assert_uint_eq(by->rows.count, 2);
    ck_assert_double_eq_tol(by->seconds, 10e-6, 1e-12);
    ck_assert_double_eq_tol(by->waiting, 1e-6, 1e-12);
    ck_assert_double_eq_tol(by->rows.items[0].seconds, 6e-6, 1e-12);
    ck_assert_double_eq_tol(by->rows.items[1].seconds, 3e-6, 1e-12);
    ck_assert_double_eq(by->rows.items[0].flops, 100);
    ck_assert_double_eq(by->rows.items[1].flops, 150);
}

START_TEST(interrupted)
{
    struct arena arena = {0}, *a = &arena;
    struct run_parts by;
    ck_assert_ptr_null(parts(a, (const int[]){0, 0, 0}, 3, 0, &by));
    adds_up(&by);
    ck_assert_ptr_null(parts(a, (const int[]){0, 4000, 0}, 3, 0, &by));
    adds_up(&by);
    ck_assert_ptr_null(parts(a, (const int[]){9, 0, 0, 700, 0, 0, 0, 5000}, 8, 0, &by));
    adds_up(&by);
    arena_free(a);
}
END_TEST

START_TEST(not_whole)
{
    struct arena arena = {0}, *a = &arena;
    struct run_parts by = {0};
    ck_assert_ptr_nonnull(strstr(parts(a, (const int[]){0, 0, 0}, 3, 7, &by), "no room"));
    ck_assert_ptr_nonnull(strstr(bench_parts(a, manifest, "{", 1, 3, &by), "no JSON"));
    arena_free(a);
}
END_TEST

int main(void) { return run_case("bench", CASE_OF(0, interrupted, not_whole)); }
