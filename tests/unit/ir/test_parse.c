/* The text form: complete, stable, and read without trust: errors have a place, and no edit of a valid text crashes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "op_examples.h"
#include "tests/unit/file.h"
#include "tests/unit/file.h"
#include "tests/unit/suite.h"

static struct arena arena;
static struct diags diags;

static void setup(void) { arena = (struct arena){0}; }
static void teardown(void) { arena_free(&arena); }

static struct ir_module *parse_n(const char *text, size_t n)
{
    diags = (struct diags){.arena = &arena, .source = {"test", text, n}};
    return ir_parse(text, n, &diags);
}

static const char *print(const struct ir_module *m)
{
    struct str s = STR(&arena);
    ir_print(m, &s);
    return str_text(&s);
}

/* Everything that the form can say, as the printer writes it. */
static const char whole[] = "module \"a \\\"name\\\"\" stage spmd\n"
                            "document \"{\\\"stepc\\\": 1}\"\n"
                            "mesh \"data\"=2, \"model axis\"=4\n"
                            "place 1 120+5 \"/model/layers/0\"\n"
                            "place 2 0+0\n"
                            "slot 0 \"kernel\" param float32[8, 3] <\"data\" \"model axis\", -> frozen @1\n"
                            "slot 1 \"ema.kernel\" ema float32[8, 3] of=0 along=33\n"
                            "slot 2 \"eval.kernel\" param float32[8, 3] computed of=0\n"
                            "slot 3 \"x\" input int32[2, 3] index_limit=7 batch_dims=1\n"
                            "slot 4 \"loss\" metric float32[]\n"
                            "slot 5 \"learning_rate\" hyper float64[] initial=0.1\n"
                            "slot 6 \"seed\" state uint32[2]\n"
                            "\n"
                            "func \"body\" {\n"
                            "  %1 = param index=0 \"i\" : int32[]\n"
                            "  %2 = param index=1 \"c\" : bool[]\n"
                            "  %3 = constant false : bool[]\n"
                            "  result \"c\" %3\n"
                            "}\n"
                            "\n"
                            "func \"step\" entry {\n"
                            "  %1 = param index=0 \"kernel\" slot=0 : float32[1, 3] <\"data\" \"model axis\", -> @1\n"
                            "  %2 = constant [1.5, -0, 3.4028235e+38, NaN, -Infinity, 0x7fc00123] : float32[2, 3]\n"
                            "  %3 = constant 18446744073709551615 : uint64[2]\n"
                            "  %4 = constant [-128, 127] : int8[2]\n"
                            "  %5 = constant [0.099975586, 65504, 5.9604645e-08] : float16[3]\n"
                            "  %6 = constant 0 : float32[0, 3]\n"
                            "  %7 = constant 4 : int32[]\n"
                            "  %8 = constant true : bool[]\n"
                            "  %9 = loop(%7, %8) carried=1 while=1 func=\"body\" : tuple\n"
                            "  %10 = proj(%9) index=0 : bool[]\n"
                            "  %11 = reduce_sum(%1) dims=[0, 1] : float32[] < | \"data\" \"model axis\"> @2\n"
                            "  %12 = all_reduce(%11) axes=3 kind=0 : float32[]\n"
                            "  result \"loss\" %12 slot=4\n"
                            "  result \"more\" %10\n"
                            "}\n";

START_TEST(says_everything)
{
    struct ir_module *m = parse_n(whole, sizeof whole - 1);
    if (!m) ck_abort_msg("%u: %s", diags.list.items[0].span.offset, diags.list.items[0].message);
    ck_assert_str_eq(print(m), whole);
    ck_assert_double_eq(m->slots.items[5].initial, 0.1);
    ck_assert_uint_eq(m->places.items[1].span.offset, 120);
    ck_assert_uint_eq(m->slots.items[0].sharding.dim[0], 0x21);
    ck_assert_uint_eq(ir_func_find(m, "step")->nodes[11].sharding.partial, 3);
    ir_module_free(m);
}
END_TEST

START_TEST(numbers_may_have_gaps)
{
    static const char text[] = "module \"m\" stage tensor // a comment\nfunc \"f\" {\n%7=param index=0 "
                               "\"x\":float32[2]\n%3=neg(%7):float32[2]\nresult \"y\" %3\n}";
    struct ir_module *m = parse_n(text, sizeof text - 1);
    ck_assert_ptr_nonnull(m);
    ck_assert_ptr_nonnull(strstr(print(m), "%2 = neg(%1) : float32[2]"));
    ir_module_free(m);
}
END_TEST

static const struct {
    const char *text, *message;
    uint32_t line, column;
} errors[] = {
#define START "module \"m\" stage tensor\nfunc \"f\" {\n%1 = param index=0 \"x\" : float32[2]\n"
    {"", "expected `module`, found `the end`", 1, 1},
    {"module \"m\" stage nowhere", "expected stage tensor, spmd or kernel", 1, 18},
    {"module \"m\" stage tensor\nfrog", "expected mesh, place, slot, func or plan, found `frog`", 2, 1},
    {"module \"m\" stage spmd\nslot 0 \"x\" input float32[4] <15>", "expected an integer in 0..14, found `15`", 2, 30},
    {START "%2 = nag(%1) : float32[2]\n}", "there is no op `nag`", 4, 6},
    {START "%2 = neg(%3) : float32[2]\n}", "%3 is not defined before this line", 4, 10},
    {START "%2 = neg(%1) : float32[3]\n}", "expected the type float32[2], found float32[3]", 4, 6},
    {START "%2 = neg(%1) : float31[3]\n}", "there is no type `float31`", 4, 16},
    {START "%2 = neg(%1, %1) : float32[2]\n}", "neg: expected 1 operand, found 2", 4, 6},
    {START "%2 = reduce_sum(%1) dims=5 : float32[]\n}", "reduce_sum: dimension 5 is not one of float32[2]", 4, 6},
    {START "%2 = reduce_sum(%1) dim=0 : float32[]\n}", "reduce_sum has no (other) attribute `dim`", 4, 21},
    {START "%2 = call(%1) func=\"g\" : tuple\n}", "there is no function \"g\"", 4, 6},
    {START "%2 = call(%1) func=\"f\" : tuple\n}", "call: function f may not call itself", 4, 6},
    {START "%1 = neg(%1) : float32[2]\n}", "this value is defined twice", 4, 1},
    {START "%2 = constant [1, 2, 3] : float32[2]\n}", "expected 2 numbers, found 3", 4, 23},
    {START "%2 = constant 300 : int8[2]\n}", "`300` is no int8", 4, 15},
    {START "%2 = constant \"x\" : int8[2]\n}", "expected a number, found `\"x\"`", 4, 15},
    {START "%2 = iota dim=0 : int32[99999999, 99999999]\n}",
     "the type is too large (expected fewer than 2^48 elements)", 4, 19},
    {START "result \"y\" %1 slot=0\n}", "expected an integer in 0..-1, found `0`", 4, 20},
    {START "result \"y", "this is no word, number, string or sign of the text form", 4, 8},
    {START, "expected a value, `result` or `}`, found `the end`", 4, 1},
#define PLAN \
    "module \"m\" stage kernel\nslot 0 \"y\" output float32[2]\nfunc \"f\" entry {\n%1 = constant 1 : float32[2]\n" \
    "%2 = neg(%1) : float32[2]\nresult \"y\" %2 slot=0\n}\n"
    {PLAN "plan \"f\" {\n}", "expected `plans` and how far they are before the first `plan`", 8, 6},
    {PLAN "plans soon", "expected groups, commands or memory, found `soon`", 8, 7},
    {PLAN "plans groups", "entry f has no plan, or not in the order of the entries", 8, 7},
    {PLAN "plans groups\nplan \"g\" {\n}", "there is no function \"g\" before the plans", 9, 6},
    {PLAN "plans groups\nplan \"f\" {\n  group 1 map \"f\"\n}", "expected an integer in 0..0, found `1`", 10, 9},
    {PLAN "plans groups\nplan \"f\" {\n  group 0 heap \"f\"\n}", "expected the kind of the line, found `heap`", 10, 11},
    {PLAN "plans groups\nplan \"f\" {\n  group 0 map \"f\" nodes=[%3]\n}", "%3 is not defined before this line", 10,
     26},
    {PLAN "plans groups\nplan \"f\" {\n  group 0 map \"f\" root=%2 root=%2\n}", "`root` stands here twice", 10, 27},
    {PLAN "plans groups\nplan \"f\" {\n  group 0 map \"f\" nodes=[%2] outputs=[%2]\n}",
     "plan f: group 0: has 1 outputs and 0 levels for them", 10, 9},
    {PLAN "plans commands\nplan \"f\" {\n  group 0 map \"f\" nodes=[%2] outputs=[%2] output_levels=[1]\n}",
     "plan f: reads %2 (neg), which nothing before it makes", 9, 6},
    {PLAN "plans commands\nplan \"f\" {\n  command 0 kernel \"f\" computes=0\n}",
     "plan f: command 0: group 0 does not exist", 10, 11},
};

START_TEST(errors_have_a_place)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        uint32_t line, column;
        struct ir_module *m = parse_n(errors[i].text, strlen(errors[i].text));
        ck_assert_msg(!m && diags.errors == 1, "%s", errors[i].text);
        const struct diag *d = &diags.list.items[0];
        diag_line_column(&diags.source, d->span.offset, &line, &column);
        ck_assert_str_eq(d->message, errors[i].message);
        ck_assert_msg(line == errors[i].line && column == errors[i].column, "%s: at %u:%u", d->message, line, column);
    }
}
END_TEST

/* What a collective that is under way needs is not touched. */
START_TEST(nothing_is_touched_under_way)
{
    static const struct {
        const char *from, *to, *message;
    } edits[] = {
        {"reads=[8, 9] writes=[8]", "reads=[8, 9] writes=[10]", "touches buffer 10 while it is under way"},
        {"reads=[8] writes=[8]", "reads=[10] writes=[8]", "touches buffer 10 while it is under way"},
        {"reads=[10] writes=[15]", "reads=[15] writes=[10]", "touches buffer 10 while it is under way"},
        {"writes=[10] other=6", "writes=[10] other=7", "its other end is not command 7"},
        {"writes=[10] other=3", "writes=[10] other=0", "its other end is not command 6"},
        {"node=%7 reads=[2] writes=[10] other=3", "node=%7 reads=[2] writes=[9] other=3", "waits for other buffers"},
        {"computes=3 reads=[10, 8]", "computes=3 reads=[9, 8]", NULL},
    };
    struct arena own = {0};
    const char *text = file_bytes(&own, "tests/golden/memplan/under_way.out", NULL);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const char *at = strstr(text, edits[i].from);
        ck_assert_msg(at != NULL, "%s", edits[i].from);
        const char *edited = arena_format(&own, "%.*s%s%s", (int)(at - text), text, edits[i].to,
                                          at + strlen(edits[i].from));
        struct ir_module *m = parse_n(edited, strlen(edited));
        ck_assert_msg(!m && diags.errors, "%s", edits[i].to);
        const char *said = diags.list.items[0].message;
        ck_assert_msg(!edits[i].message || strstr(said, edits[i].message), "%s: %s", edits[i].to, said);
    }
    arena_free(&own);
}
END_TEST

START_TEST(reference_example)
{ /* the first block of ir/LANG.md, from the root of the sources */
    struct arena kept = {0};
    char *page = file_bytes(&kept, "ir/LANG.md", NULL);
    ck_assert_msg(page != NULL, "run from the root of the sources");
    char *start = strstr(page, "```\n") + 4, *end = strstr(start, "```");
    *end = 0;
    struct ir_module *m = parse_n(start, strlen(start));
    if (!m) ck_abort_msg("%s", diags.list.items[0].message);
    ck_assert_str_eq(print(m), start);
    ir_module_free(m);
    arena_free(&kept);
}
END_TEST

/* ---------------------------------------------------------------- mutations */

static uint64_t draw(uint64_t *state, uint64_t n) { return (*state = hash_u64(*state, 11)) % n; }

/* A few random edits: bytes replaced, removed, doubled, and pieces moved. Returns the new length. */
static size_t mutate(char *text, size_t n, size_t capacity, uint64_t *s)
{
    static const char likely[] = "{}()[]<>=,:|@+-%\"\\ \n0123456789axe.";
    for (uint64_t edits = 1 + draw(s, 4); edits && n > 2; edits--) {
        size_t at = draw(s, n), length = 1 + draw(s, 12), from = draw(s, n);
        if (at + length > n) length = n - at;
        switch (draw(s, 5)) {
        case 0: text[at] = (char)draw(s, 256); break;
        case 1: text[at] = likely[draw(s, sizeof likely - 1)]; break;
        case 2: memmove(text + at, text + at + length, n - at - length), n -= length; break;
        case 3:
            if (from + length > n || n + length > capacity) break;
            char piece[16];
            memcpy(piece, text + from, length);
            memmove(text + at + length, text + at, n - at);
            memcpy(text + at, piece, length);
            n += length;
            break;
        default:
            if (text[at] >= '0' && text[at] <= '9') text[at] = (char)('0' + draw(s, 10));
            break;
        }
    }
    return n;
}

static void survives(const char *text, size_t n)
{
    struct ir_module *m = parse_n(text, n);
    ck_assert((m != NULL) == (diags.errors == 0));
    if (!m) return;
    const char *first = print(m); /* what was accepted is sound: it prints, is read, and prints the same */
    struct ir_module *again = parse_n(first, strlen(first));
    if (!again) ck_abort_msg("%s\n%s", diags.list.items[0].message, first);
    ck_assert_str_eq(first, print(again));
    ir_module_free(m);
    ir_module_free(again);
}

/* What stands before `from` stays as it is. */
static void mutate_from(const char *text, size_t from, uint64_t seed, int rounds)
{
    size_t n = strlen(text), capacity = n + 100;
    for (int i = 0; i < rounds; i++) {
        char *copy = calloc(1, capacity), *exact;
        uint64_t s = seed + (uint64_t)i * 1000003;
        memcpy(copy, text, n);
        size_t length = from + mutate(copy + from, n - from, capacity - from, &s);
        exact = malloc(length ? length : 1); /* not terminated: a read beyond the end is seen by the sanitizer */
        memcpy(exact, copy, length);
        survives(exact, length);
        free(copy);
        free(exact);
        arena_free(&arena);
    }
}

static void mutate_and_parse(const char *text, uint64_t seed, int rounds) { mutate_from(text, 0, seed, rounds); }

START_TEST(mutated_texts) { mutate_and_parse(whole, 1, 6000); }
END_TEST

START_TEST(mutated_examples)
{
    for (size_t i = 0; i < sizeof op_examples / sizeof *op_examples; i++) {
        bool tensor = ir_ops[ir_op_find(op_examples[i].op)].stages & IR_STAGE_TENSOR;
        struct arena own = {0};
        const char *text = arena_format(&own,
                                        "module \"m\" stage %s\nmesh \"data\"=2, \"model\"=4\n%sfunc \"f\" {\n%s\n}\n",
                                        tensor ? "tensor" : "spmd", op_preamble, op_examples[i].accept);
        mutate_and_parse(text, i, 100);
        arena_free(&own);
    }
}
END_TEST

/* Plans whose lines were edited are read, or refused with a place, and never looked at beyond what was verified. */
START_TEST(mutated_plans)
{
    static const char *const files[] = {
        "fuse/taps_stay_in_the_tensor",  "fuse/rows_of_a_loop",        "schedule/joins_in_order",
        "memplan/loop_carries_in_place", "memplan/tensors_end_to_end", "memplan/swap_through_a_copy",
        "memplan/memory_taken_over",     "memplan/update_in_place",    "memplan/under_way"};
    struct arena own = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *text = file_bytes(&own, arena_format(&own, "tests/golden/%s.out", files[i]), NULL);
        ck_assert_ptr_nonnull(text);
        mutate_from(text, (size_t)(strstr(text, "\nplans ") - text), i, 1500);
    }
    arena_free(&own);
}
END_TEST

/* Lists of numbers in plans: what counts or names something is not negative. */
START_TEST(negative_numbers)
{
    static const char *const words[] = {"input_levels=[", "reads=[", "writes=["};
    struct arena own = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *text = file_bytes(&own, "tests/golden/memplan/loop_carries_in_place.out", NULL);
        ck_assert_ptr_nonnull(text);
        char *at = strstr(text, words[i]);
        ck_assert_ptr_nonnull(at);
        size_t n = (size_t)(at - text) + strlen(words[i]);
        const char *edited = arena_format(&own, "%.*s-1, %s", (int)n, text, text + n);
        struct diags found = {.arena = &own, .source = {"plan", edited, strlen(edited)}};
        ck_assert_ptr_null(ir_parse(edited, strlen(edited), &found));
        ck_assert_msg(strstr(found.list.items[0].message, "-1") != NULL, "%s", found.list.items[0].message);
    }
    arena_free(&own);
}
END_TEST

int main(void)
{
    TCase *tests = CASE_OF(120, says_everything, numbers_may_have_gaps, errors_have_a_place,
                           nothing_is_touched_under_way, reference_example, mutated_texts, mutated_examples,
                           mutated_plans, negative_numbers);
    tcase_add_checked_fixture(tests, setup, teardown);
    return run_case("parse", tests);
}
