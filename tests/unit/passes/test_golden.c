/* Golden text of the passes: tests/golden/<pass>/<case>.sir goes through that pass and must print as <case>.out. With
 * STEPC_GOLDEN_UPDATE=1 the .out files are written instead: look at the difference before committing it. The input and
 * the result also compute the same. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "passes/common.h"
#include "tests/unit/file.h"
#include "tests/unit/suite.h"

enum { MOST_CASES = 400 };
static struct golden {
    char pass[32], name[96];
} cases[MOST_CASES];
static int case_count;

static int by_name(const void *a, const void *b) { return memcmp(a, b, sizeof(struct golden)); }

static void find_cases(void)
{
    size_t count;
    const char *const *passes = pass_names(&count);
    for (size_t i = 0; i <= count; i++) {
        char path[128];
        const char *pass = i < count ? passes[i] : "fold"; /* which the builder does in all of them */
        snprintf(path, sizeof path, "tests/golden/%s", pass);
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
            size_t n = strlen(e->d_name);
            if (n < 5 || n >= sizeof cases[0].name || strcmp(e->d_name + n - 4, ".sir") != 0) continue;
            if (case_count == MOST_CASES) fprintf(stderr, "more than %d texts\n", MOST_CASES), exit(1);
            snprintf(cases[case_count].pass, sizeof cases[0].pass, "%s", pass);
            snprintf(cases[case_count++].name, sizeof cases[0].name, "%.*s", (int)n - 4, e->d_name);
        }
        if (dir) closedir(dir);
    }
    qsort(cases, (size_t)case_count, sizeof cases[0], by_name);
}

static bool is_evaluable(const struct ir_module *m, const struct ir_func *f)
{
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_grad || n->op == OP_device_index || ir_ops[n->op].emit == EMIT_comm ||
            (ir_has_body((enum ir_op)n->op) && !is_evaluable(m, m->funcs.items[n->func])))
            return false;
    }
    return true;
}

static bool same_parameters(const struct ir_func *f, const struct ir_func *g)
{
    bool same = f->params.count == g->params.count;
    for (size_t i = 0; same && i < f->params.count; i++)
        same = ir_type_equal(&f->params.items[i].type, &g->params.items[i].type);
    return same;
}

static void expect_same_values(const struct ir_module *before, const struct ir_module *after, double tolerance,
                               struct arena *arena)
{
    for (size_t k = 0; k < before->funcs.count; k++) {
        const struct ir_func *f = before->funcs.items[k], *g = ir_func_find(after, f->name);
        if (!f->entry || !is_evaluable(before, f) || !is_evaluable(after, g) || !same_parameters(f, g))
            continue; /* collectives need their peers; parts are not all that there is */
        struct ir_tensor *params = arena_new_array(arena, struct ir_tensor, f->params.count + 1);
        struct ir_tensor *a = arena_new_array(arena, struct ir_tensor, f->results.count + 1);
        struct ir_tensor *b = arena_new_array(arena, struct ir_tensor, f->results.count + 1);
        for (size_t i = 0; i < f->params.count; i++) {
            params[i].type = f->params.items[i].type;
            int64_t n = ir_type_elements(&params[i].type);
            enum ir_dtype dtype = (enum ir_dtype)params[i].type.dtype;
            params[i].v = arena_new_array(arena, double, n);
            for (int64_t j = 0; j < n; j++)
                params[i].v[j] = ir_dtype_is_float(dtype) ? ir_element_round(dtype, 0.9 * sin(1.1 * (double)(j + 1)))
                                 : dtype == IR_BOOL       ? (double)(j % 2)
                                                          : 2;
        }
        ir_eval(f, IR_EVAL_EXACT_DTYPES, params, a, arena);
        ir_eval(g, IR_EVAL_EXACT_DTYPES, params, b, arena);
        for (size_t i = 0; i < f->results.count; i++)
            for (int64_t j = 0; j < ir_type_elements(&a[i].type); j++)
                ck_assert_double_eq_tol(a[i].v[j], b[i].v[j], tolerance * (1 + fabs(a[i].v[j])));
    }
}

START_TEST(golden)
{
    const struct golden *c = &cases[_i];
    struct arena arena = {0};
    size_t n = 0;
    const char *path = arena_format(&arena, "tests/golden/%s/%s.sir", c->pass, c->name);
    const char *out = arena_format(&arena, "tests/golden/%s/%s.out", c->pass, c->name);
    const char *text = file_bytes(&arena, path, &n);
    struct diags diags = {.arena = &arena, .source = {path, text, n}};
    bool fast = strncmp(c->name, "fast_", 5) == 0; /* points of a kernel are rounded */
    struct pass_options options = {.verify_each = true,
                                   .only = c->pass,
                                   .blocks = strncmp(c->name, "launches_", 9) == 0 ? 264 : 0,
                                   .fast = fast,
                                   .panel_columns = fast ? 8 : 0,
                                   .invariant = strcmp(c->pass, "invariant") == 0 || strcmp(c->pass, "widen") == 0,
                                   .chunk_rows = strcmp(c->pass, "chunk") == 0 ? 2 : 0,
                                   .remat = strcmp(c->pass, "remat") == 0 && strncmp(c->name, "few_", 4) != 0 ? 2 : 0};
    struct pass pass = {.options = &options, .diags = &diags, .keep = &arena};
    struct ir_module *m = ir_parse(text, n, &diags), *last = NULL;
    if (m && strcmp(c->pass, "fold") == 0) last = pass_rebuild(&pass, m, NULL, NULL);
    else if (m) pass_run(&pass, m, &last);
    if (diags.errors) diags_print(&diags, stderr, false, false);
    ck_assert_msg(diags.errors == 0, "%s", path);
    struct str printed = STR(&arena);
    ir_print(last, &printed);
    golden_text(&arena, out, str_text(&printed));
    expect_same_values(m, last, fast ? 5e-6 : 1e-6, &arena);
    if (last != m) ir_module_free(last);
    ir_module_free(m);
    arena_free(&pass.scratch);
    arena_free(&arena);
}
END_TEST

/* Every rule of a table of rules has a text of its name. */
static const struct golden rules[] = {
#define RULE(name, of, equation) {"simplify", #name},
#include "passes/simplify.def"
#undef RULE
#define FOLD(op, rule, equations) {"fold", #rule},
#include "ir/fold.def"
#undef FOLD
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) {"shard", #shard},
#include "ir/ops.def"
#undef X
    {"fold", "moved_number"},
    {"fold", "constants"},
};

START_TEST(rules_have_texts)
{
    const struct golden *rule = &rules[_i];
    bool found = strcmp(rule->name, "none") == 0; /* of ops that are gone by then */
    for (int i = 0; i < case_count; i++)
        found |= strcmp(cases[i].pass, rule->pass) == 0 && strcmp(cases[i].name, rule->name) == 0;
    ck_assert_msg(found, "rule %s of %s has no tests/golden/%s/%s.sir", rule->name, rule->pass, rule->pass, rule->name);
}
END_TEST

START_TEST(passes_have_texts)
{
    size_t count;
    const char *const *passes = pass_names(&count);
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        for (int k = 0; k < case_count; k++) found |= strcmp(cases[k].pass, passes[i]) == 0;
        ck_assert_msg(found, "pass %s has no text in tests/golden/%s", passes[i], passes[i]);
    }
}
END_TEST

int main(void)
{
    find_cases();
    TCase *tests = tcase_create("text");
    tcase_add_test(tests, passes_have_texts);
    tcase_add_loop_test(tests, rules_have_texts, 0, sizeof rules / sizeof *rules);
    tcase_add_loop_test(tests, golden, 0, case_count);
    return case_count == 0 || run_case("golden", tests);
}
