/* The library of functions that are formulas: every entry parses, names only what it has, and calls only what there is;
 * and the reader of such texts. */
#include "frontend/expr/library.h"
#include "frontend/losses/losses.h"
#include "tests/unit/suite.h"
#include <string.h>

struct names {
    const struct fe_library *library;
    const struct fe_formula *formula;
    const char *list[64];
    uint32_t count;
};

static bool is_known(const struct names *n, const char *name)
{
    static const char *const constants[] = {"pi",    "e",       "inf",   "nan",    "euler_gamma",
                                            "round", "float32", "int32", "uint32", "rest"};
    for (uint32_t i = 0; i < n->count; i++)
        if (!strcmp(n->list[i], name)) return true;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (!strcmp(constants[i], name)) return true;
    return false;
}

static void check(const struct names *n, const struct expr_node *tree)
{
    unsigned line = (unsigned)n->formula->entry.line;
    if (tree->kind == EXPR_NAME)
        ck_assert_msg(is_known(n, tree->text), "%s:%u: %s", n->formula->file, line, tree->text);
    if (tree->kind == EXPR_CALL) {
        const struct fe_function *f = fe_function_find(n->library, tree->text);
        ck_assert_msg(f != NULL, "%s:%u: no function %s", n->formula->file, line, tree->text);
        for (uint32_t i = 0; i < tree->count; i++) {
            struct fe_parameter p;
            bool found = !tree->names[i];
            for (const char *at = f->signature; (at = fe_parameter_next(at, &p));)
                found |= tree->names[i] && strlen(tree->names[i]) == p.length &&
                         !memcmp(tree->names[i], p.name, p.length);
            ck_assert_msg(found, "%s:%u: %s has no argument %s", n->formula->file, line, tree->text, tree->names[i]);
        }
    }
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->items[i]) check(n, tree->items[i]);
}

static void check_statements(struct names *n, const struct fe_statement *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct fe_statement *t = &list[i];
        check(n, t->tree);
        if (t->kind == FE_PART || t->kind == FE_FOR) {
            ck_assert_uint_lt(n->count, 64);
            n->list[n->count++] = t->name;
        }
        check_statements(n, t->inner, t->count * (t->kind == FE_FOR || t->kind == FE_REPEAT));
    }
}

START_TEST(every_formula_is_whole)
{
    struct arena arena = {0};
    const struct fe_library *library = fe_library_open(&arena, &fe_losses);
    uint32_t formulas = 0;
    for (unsigned hidden = 0; hidden < 2; hidden++) {
        size_t count;
        const char *const *names = fe_function_names(library, hidden ? FE_HIDDEN : 0, &count);
        for (size_t i = 0; i < count; i++) {
            const struct fe_function *f = fe_function_find(library, names[i]);
            if (!f->formula) continue;
            uint32_t statements;
            struct names n = {library, f->formula, {0}, 0};
            const char *const *arguments = fe_signature_names(&arena, f);
            while (arguments[n.count]) n.list[n.count] = arguments[n.count], n.count++;
            const struct fe_statement *list = fe_formula_statements(&arena, f->formula, &statements);
            check_statements(&n, list, statements);
            formulas++;
        }
    }
    ck_assert_uint_ge(formulas, 160);
    arena_free(&arena);
}
END_TEST

START_TEST(entries_and_statements)
{
    static const char text[] =
        "# A title\n\n# What it is (somebody 2016)\n# and more\nloss own two(x: float, k=1.0)\n"
        "    y = x *\n        k\n\n    y + f(x, k=2)\nfunction one(x) = x +\n    1\n\nalias uno = one\n";
    struct fe_reader r = {.file = "test", .at = text}, body;
    struct fe_entry e;
    struct fe_span s, name, rest;
    ck_assert(fe_entry_next(&r, &e));
    ck_assert(fe_span_is(e.doc, "# What it is (somebody 2016)\n# and more"));
    ck_assert(fe_span_is(e.words, "loss own") && fe_span_is(e.name, "two") &&
              fe_span_is(e.signature, "x: float, k=1.0"));
    ck_assert_uint_eq(e.line, 5);
    body = (struct fe_reader){.file = "test", .at = e.body.text, .line = e.body_line - 1};
    ck_assert(fe_statement_next(&body, e.body, &s) && fe_statement_name(s, &name, &rest));
    ck_assert(fe_span_is(name, "y") && fe_span_is(rest, "x *\n        k"));
    ck_assert(fe_statement_next(&body, e.body, &s) && !fe_statement_name(s, &name, &rest));
    ck_assert(fe_span_is(s, "y + f(x, k=2)"));
    ck_assert(!fe_statement_next(&body, e.body, &s));
    ck_assert(fe_entry_next(&r, &e) && fe_span_is(e.name, "one") &&
              fe_span_is(e.doc, "# What it is (somebody 2016)\n# and more"));
    body = (struct fe_reader){.file = "test", .at = e.body.text, .line = e.body_line - 1};
    ck_assert(fe_statement_next(&body, e.body, &s) && fe_span_is(s, "x +\n    1") &&
              !fe_statement_next(&body, e.body, &s));
    ck_assert(fe_entry_next(&r, &e) && !e.called && !e.doc.text && fe_span_is(e.name, "uno") &&
              fe_span_is(e.body, "one"));
    ck_assert(!fe_entry_next(&r, &e));
}
END_TEST

int main(void) { return run_case("library", CASE_OF(60, every_formula_is_whole, entries_and_statements)); }
