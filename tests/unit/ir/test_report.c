/* The report on a plan: a golden text, tests/golden/report/<case>.sir or another's, is read and both forms of its
 * report, that of `stepc explain` and the brief one of objects, must print as <case>.json and <case>.brief.json.
 * STEPC_GOLDEN_UPDATE=1 writes them. */
#include "ir/base/json_tree.h"
#include "ir/plan.h"
#include "tests/unit/file.h"
#include "tests/unit/suite.h"
#include <inttypes.h>

static const char *const cases[] = {"report/microbatches_on_a_mesh", "report/sharded_kernel",
                                    "emitted/attention_bfloat16"};
static struct arena arena;

/* What an object adds; and the version of the program, which is not the report's. */
static void more(void *user, struct json_tree to) { json_add_text(to, "target", user); }

static void expect(const struct ir_module *m, const char *file, bool brief)
{
    char *text = arena_format(&arena, "%s\n", ir_report(m->plans, &arena, brief ? more : NULL, "here"));
    char *version = strstr(text, "\"stepc\":\"" STEPC_VERSION "\",");
    ck_assert_ptr_nonnull(version);
    size_t bytes = strlen("\"stepc\":\"" STEPC_VERSION "\",");
    memmove(version, version + bytes, strlen(version + bytes) + 1);
    for (char *at = text; (at = strstr(at, ",{")); at++) *at = '\n'; /* a line per object, for people */
    golden_text(&arena, file, text);
}

/* What `check` says at the end is what the report says. */
static void expect_totals(const struct plan_module *pm)
{
    struct report_totals t = ir_report_totals(pm);
    const char *report = ir_report(pm, &arena, NULL, NULL);
    ck_assert_ptr_nonnull(strstr(report, arena_format(&arena, "\"parameters\":%" PRIu64 ",", t.parameters)));
    double flops = strtod(strstr(report, "\"flops\":") + 8, NULL), peak = strtod(strstr(report, "\"peak\":") + 7, NULL);
    ck_assert(t.flops > 0 && t.flops == flops);
    ck_assert(t.peak > 0 && (double)t.peak == peak); /* the step's: no other entry needs more here */
}

START_TEST(reports)
{
    const char *plan = arena_format(&arena, "tests/golden/%s.sir", cases[_i]);
    const char *path = arena_format(&arena, "tests/golden/report/%s", strchr(cases[_i], '/') + 1);
    size_t size;
    const char *text = file_bytes(&arena, plan, &size);
    ck_assert_ptr_nonnull(text);
    struct diags diags = {.arena = &arena, .source = {plan, text, size}};
    struct ir_module *m = ir_parse(text, size, &diags);
    ck_assert_msg(m && m->plans, "%s: %s", path, m ? "no plans" : diags.list.items[0].message);
    expect(m, arena_format(&arena, "%s.json", path), false);
    expect(m, arena_format(&arena, "%s.brief.json", path), true);
    expect_totals(m->plans);
    ir_module_free(m);
    arena_free(&arena);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, reports, 0, sizeof cases / sizeof *cases);
    return run_case("report", tests);
}
