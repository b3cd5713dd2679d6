/* Every op of the table: an example that inference accepts and one that it refuses by name, the way through the text
 * form and back, the builder's agreement, and hashes that do not see names. */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "op_examples.h"
#include "tests/unit/suite.h"

static struct arena arena;
static struct diags diags;

static void setup(void) { arena = (struct arena){0}; }
static void teardown(void) { arena_free(&arena); }

static struct ir_module *parse(const char *text)
{
    diags = (struct diags){.arena = &arena, .source = {"test", text, strlen(text)}};
    return ir_parse(text, strlen(text), &diags);
}

static const struct op_example *example_of(enum ir_op op)
{
    for (size_t i = 0; i < sizeof op_examples / sizeof *op_examples; i++)
        if (strcmp(op_examples[i].op, ir_ops[op].name) == 0) return &op_examples[i];
    ck_abort_msg("op %s has no example in op_examples.h", ir_ops[op].name);
}

/* A module with the body as function `name`; collectives stand in stage spmd, what only groups hold in stage kernel. */
static const char *module_text(enum ir_op op, const char *name, const char *body)
{
    uint32_t stages = ir_ops[op].stages;
    return arena_format(
        &arena,
        "module \"m\" stage %s\nmesh \"data\"=2, \"model\"=4\nplace 1 10+4 \"/model/0\"\n%sfunc \"%s\" {\n%s\n}\n",
        stages & IR_STAGE_TENSOR ? "tensor"
        : stages & IR_STAGE_SPMD ? "spmd"
                                 : "kernel",
        op_preamble, name, body);
}

static const char *print(const struct ir_module *m)
{
    struct str s = STR(&arena);
    ir_print(m, &s);
    return str_text(&s);
}

static struct ir_module *need(enum ir_op op, const char *name)
{
    struct ir_module *m = parse(module_text(op, name, example_of(op)->accept));
    if (!m) ck_abort_msg("%s: %s", ir_ops[op].name, diags.list.items[0].message);
    return m;
}

START_TEST(attribute_counts)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        uint32_t words = 0;
        for (const char *s = ir_ops[op].attributes; *s; s++)
            words += *s != ' ' && (s == ir_ops[op].attributes || s[-1] == ' ');
        ck_assert_msg(words == ir_ops[op].attr_count && words <= IR_MAX_ATTR, "%s: %d attributes counted, %u named",
                      ir_ops[op].name, ir_ops[op].attr_count, words);
    }
}
END_TEST

START_TEST(examples_are_ops)
{
    for (size_t i = 0; i < sizeof op_examples / sizeof *op_examples; i++)
        ck_assert_msg(ir_op_find(op_examples[i].op) != IR_NONE, "no op %s", op_examples[i].op);
}
END_TEST

START_TEST(accepts)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        struct ir_module *m = need((enum ir_op)op, "f");
        const struct ir_func *f = ir_func_find(m, "f");
        bool there = false;
        for (ir_value v = 1; v < f->count; v++) there |= f->nodes[v].op == op;
        ck_assert_msg(there, "the example of %s does not hold it", ir_ops[op].name);
        ir_module_free(m);
    }
}
END_TEST

START_TEST(rejects)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        struct ir_module *m = parse(module_text((enum ir_op)op, "f", example_of((enum ir_op)op)->reject));
        ck_assert_msg(!m, "%s: the bad example was accepted", ir_ops[op].name);
        ck_assert_uint_eq(diags.errors, 1);
        ck_assert_msg(strstr(diags.list.items[0].message, "expected") ||
                          strstr(diags.list.items[0].message, "not one of") ||
                          strstr(diags.list.items[0].message, "cannot") || strstr(diags.list.items[0].message, "twice"),
                      "%s: %s", ir_ops[op].name, diags.list.items[0].message);
    }
}
END_TEST

START_TEST(prints_what_it_read)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        struct ir_module *m = need((enum ir_op)op, "f");
        const char *first = print(m);
        struct ir_module *again = parse(first);
        if (!again) ck_abort_msg("%s: %s\n%s", ir_ops[op].name, diags.list.items[0].message, first);
        ck_assert_str_eq(first, print(again));
        ck_assert_uint_eq(ir_hash_module(m), ir_hash_module(again));
        ir_module_free(m);
        ir_module_free(again);
    }
}
END_TEST

START_TEST(builder_agrees)
{ /* a rebuild goes through the builder; the examples have nothing to fold */
    for (int op = 1; op < IR_OP_COUNT; op++) {
        struct ir_module *m = need((enum ir_op)op, "f"), *copy = ir_module_like(m);
        const uint32_t *order = ir_func_order(m, &arena);
        for (size_t i = 0; i < m->funcs.count; i++)
            ir_rebuild(m->funcs.items[order[i]], copy->funcs.items[order[i]], NULL, NULL, &arena);
        struct str faults = STR(&arena);
        ck_assert_msg(ir_verify(copy, &faults), "%s: %s", ir_ops[op].name, str_text(&faults));
        ck_assert_str_eq(print(m), print(copy));
        ir_module_free(m);
        ir_module_free(copy);
    }
}
END_TEST

START_TEST(hash_sees_no_names)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        struct ir_module *m = need((enum ir_op)op, "f"), *other = need((enum ir_op)op, "g");
        struct ir_func *f = ir_func_find(m, "f"), *g = ir_func_find(other, "g");
        for (size_t i = 0; i < g->params.count; i++) g->params.items[i].name = "renamed";
        for (ir_value v = 1; v < g->count; v++) g->nodes[v].place = 1;
        ck_assert_uint_eq(ir_hash_func(f), ir_hash_func(g));
        ck_assert_uint_ne(ir_hash_func(f), ir_hash_func(ir_func_find(m, "turn")));
        ir_module_free(m);
        ir_module_free(other);
    }
}
END_TEST

/* A list of an attribute that is one number shorter or longer means another type, or is refused. */
START_TEST(other_lengths)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        struct ir_module *m = need((enum ir_op)op, "f");
        struct ir_func *f = ir_func_find(m, "f");
        for (ir_value v = 1; v < f->count; v++)
            for (uint32_t i = 0; f->nodes[v].op == op && i < ir_ops[op].attr_count; i++) {
                struct ir_ints *attr = &f->nodes[v].attr[i], was = *attr;
                int64_t *longer = arena_new_array(&arena, int64_t, was.n + 1);
                if (was.n) memcpy(longer, was.v, was.n * sizeof *longer);
                for (uint32_t n = was.n ? was.n - 1 : 1; n <= was.n + 1; n += 2) {
                    if (op == OP_reverse && n < was.n) continue; /* as many dimensions as one likes */
                    struct str faults = STR(&arena);
                    *attr = (struct ir_ints){longer, n};
                    ck_assert_msg(!ir_verify(m, &faults), "%s: %u numbers of %s, not %u", ir_ops[op].name, n,
                                  ir_ops[op].attributes, was.n);
                }
                *attr = was;
            }
        ir_module_free(m);
    }
}
END_TEST

int main(void)
{
    TCase *tests = CASE_OF(30, attribute_counts, examples_are_ops, accepts, rejects, prints_what_it_read,
                           builder_agrees, hash_sees_no_names, other_lengths);
    tcase_add_checked_fixture(tests, setup, teardown);
    return run_case("ops", tests);
}
