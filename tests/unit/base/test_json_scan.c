/* The JSON reader: what it accepts, what it refuses with which code at which place, and mutated documents, which may be
 * refused but never crash. */
#include "ir/base/json_scan.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;
static struct json json;
static struct json_error error;

static bool scan_n(const char *text, size_t n) { return json_scan(&arena, text, n, NULL, &json, &error); }
static bool scan(const char *text) { return scan_n(text, strlen(text)); }
static void done(void) { arena_free(&arena); }

START_TEST(accepts)
{
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "-1",
                                       "1.5",
                                       "1e5",
                                       "1E+5",
                                       "1e-5",
                                       "0.1e1",
                                       "9007199254740991",
                                       "-9007199254740991",
                                       "true",
                                       "false",
                                       "null",
                                       "\"\"",
                                       "\"a\"",
                                       "[]",
                                       "{}",
                                       " [ ] ",
                                       "\t\r\n{ }",
                                       "[1,2,3]",
                                       "{\"a\":1}",
                                       "[[[[]]]]",
                                       "{\"a\":{\"b\":[1,{\"c\":null}]}}",
                                       "\"\\u00e9\\uD83D\\uDE00\\n\\/\"",
                                       "\"\xc3\xa9\xf0\x9f\x98\x80\"",
                                       "1e-999",
                                       "1.7976931348623157e308",
                                       "123456789012345678901234567890e-20",
                                       "{\"\":1}",
                                       "\"\x7f\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(scan(good[i]), "%s: %s", good[i], error.message);
    done();
}
END_TEST

START_TEST(refuses)
{
    static const struct {
        const char *text, *code;
        uint32_t offset;
    } bad[] = {{"", "E0002", 0},
               {"  ", "E0002", 2},
               {"[1,2", "E0002", 4},
               {"{\"a\"", "E0002", 4},
               {"\"abc", "E0002", 0},
               {"[1,]", "E0001", 3},
               {"{\"a\":1,}", "E0001", 7},
               {"[,1]", "E0001", 1},
               {"[1 2]", "E0001", 3},
               {"{a:1}", "E0001", 1},
               {"{1:1}", "E0001", 1},
               {"{\"a\" 1}", "E0001", 5},
               {"]", "E0001", 0},
               {"[1}", "E0001", 2},
               {"1 2", "E0003", 2},
               {"{}{}", "E0003", 2},
               {"[]]", "E0003", 2},
               {"\"\t\"", "E0004", 1},
               {"\"a\nb\"", "E0002", 0},
               {"\"\\x\"", "E0005", 1},
               {"\"\\u12g4\"", "E0005", 1},
               {"\"\\u12\"", "E0005", 1},
               {"\"\\ud800\"", "E0006", 1},
               {"\"\\udc00\\ud800\"", "E0006", 1},
               {"\"\\ud800\\u0041\"", "E0006", 1},
               {"\"\xff\"", "E0007", 1},
               {"\"\xc0\xaf\"", "E0007", 1},
               {"\"\xed\xa0\x80\"", "E0007", 1},
               {"\"\xf4\x90\x80\x80\"", "E0007", 1},
               {"\"\xe2\x82\"", "E0007", 1},
               {"\xff", "E0007", 0},
               {"\"\\u0000\"", "E0008", 1},
               {"NaN", "E0009", 0},
               {"[Infinity]", "E0009", 1},
               {"-Infinity", "E0001", 1},
               {"True", "E0009", 0},
               {"nul", "E0009", 0},
               {"// x\n1", "E0009", 0},
               {"[1, /* x */ 2]", "E0009", 4},
               {"{'a':1}", "E0009", 1},
               {"01", "E0010", 0},
               {"-01", "E0010", 0},
               {"1.", "E0010", 0},
               {".5", "E0010", 0},
               {"+1", "E0010", 0},
               {"1e", "E0010", 0},
               {"1e+", "E0010", 0},
               {"-", "E0002", 1},
               {"1.e5", "E0010", 0},
               {"0x10", "E0003", 1},
               {"1234567890123456789012345678901234567890123456789012345678901234", "E0011", 0},
               {"9007199254740992", "E0012", 0},
               {"[9007199254740993]", "E0012", 1},
               {"1e999", "E0013", 0},
               {"-1e400", "E0013", 0},
               {"{\"a\":1,\"a\":2}", "E0014", 7},
               {"{\"a\":1,\"\\u0061\":2}", "E0014", 7},
               {"\xef\xbb\xbf{}", "E0018", 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!scan(bad[i].text), "%s was accepted", bad[i].text);
        ck_assert_msg(strcmp(error.code, bad[i].code) == 0, "%s: %s %s", bad[i].text, error.code, error.message);
        ck_assert_msg(error.offset == bad[i].offset, "%s: at %u", bad[i].text, error.offset);
        ck_assert_uint_ge(error.length, 1);
    }
    ck_assert(!scan_n("[1]\0", 4));
    done();
}
END_TEST

START_TEST(places)
{
    const char *text = "{\"a\": [10, \"x\\n\"], \"b\": {}}";
    ck_assert(scan(text));
    ck_assert_uint_eq(json.count, 5);
    const struct json_value *a = json_get(&json, &json.values[0], "a"), *b = json_get(&json, &json.values[0], "b");
    ck_assert(a && b && !json_get(&json, &json.values[0], "c"));
    ck_assert_int_eq(memcmp(text + a->offset, "[10, \"x\\n\"]", a->length), 0);
    ck_assert_int_eq(memcmp(text + a->key_offset, "\"a\"", a->key_length), 0);
    ck_assert_uint_eq(a->count, 2);
    const struct json_value *ten = &json.values[a->first], *x = &json.values[ten->next];
    ck_assert_double_eq(ten->number, 10);
    ck_assert_str_eq(x->string, "x\n");
    ck_assert_uint_eq(x->next, 0);
    ck_assert_uint_eq(b->count, 0);
    ck_assert(&json.values[a->next] == b && b->parent == 0);
    done();
}
END_TEST

START_TEST(exact_numbers)
{
    static const char *const texts[] = {"0.1",
                                        "1e23",
                                        "8.41e21",
                                        "2.2250738585072014e-308",
                                        "4.9e-324",
                                        "123456.789e-7",
                                        "0.30000000000000004",
                                        "1.7976931348623157E+308",
                                        "-0.0",
                                        "5e-1",
                                        "179769313486231570e291"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert(scan(texts[i]));
        double want = strtod(texts[i], NULL);
        ck_assert_msg(memcmp(&want, &json.values[0].number, 8) == 0, "%s read as %a", texts[i], json.values[0].number);
    }
    done();
}
END_TEST

static char *repeat(const char *piece, size_t n, const char *tail)
{
    size_t length = strlen(piece);
    char *text = arena_alloc(&arena, length * n + strlen(tail) + 1);
    for (size_t i = 0; i < n; i++) memcpy(text + i * length, piece, length);
    memcpy(text + length * n, tail, strlen(tail));
    return text;
}

START_TEST(limits)
{
    ck_assert(scan(repeat("[", 128, repeat("]", 128, ""))));
    ck_assert(!scan(repeat("[", 129, repeat("]", 129, ""))));
    ck_assert_str_eq(error.code, "E0015");
    ck_assert(!scan(repeat("[", 1000000, "")));
    ck_assert_str_eq(error.code, "E0015");
    struct json_limits small = {.values = 3, .bytes = 20};
    ck_assert(json_scan(&arena, "[1,2]", 5, &small, &json, &error));
    ck_assert(!json_scan(&arena, "[1,2,3]", 7, &small, &json, &error));
    ck_assert_str_eq(error.code, "E0016");
    ck_assert(!json_scan(&arena, "\"abcdefghijklmnopqrst\"", 22, &small, &json, &error));
    ck_assert_str_eq(error.code, "E0017");
    done();
}
END_TEST

START_TEST(large_objects)
{ /* duplicates are found without comparing every pair */
    enum { KEYS = 200000 };
    char *text = arena_alloc(&arena, KEYS * 16 + 32), *p = text;
    *p++ = '{';
    for (int i = 0; i < KEYS; i++) p += snprintf(p, 16, "\"k%06d\":%d,", i, i % 10);
    memcpy(p, "\"k000017\":0}", 13);
    ck_assert(!scan(text));
    ck_assert_str_eq(error.code, "E0014");
    ck_assert_int_eq(memcmp(text + error.other_offset, "\"k000017\"", 9), 0);
    ck_assert_uint_gt(error.offset, error.other_offset);
    p[-1] = '}';
    ck_assert(scan_n(text, (size_t)(p - text)));
    ck_assert_uint_eq(json.values[0].count, KEYS);
    done();
}
END_TEST

static uint32_t state = 1;
static uint32_t next_random(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Spans lie within the text and links within the values. */
static void check_tree(size_t length)
{
    for (uint32_t i = 0; i < json.count; i++) {
        const struct json_value *v = &json.values[i];
        ck_assert_uint_le((size_t)v->offset + v->length, length);
        ck_assert_uint_lt(v->next, json.count);
        ck_assert_uint_lt(v->first, json.count);
        ck_assert(!v->next || v->next > i);
    }
}

START_TEST(mutants)
{
    static const char seed[] =
        "{\"stepc\": 1, \"constants\": {\"hidden\": 6, \"r\": -1.5e-3}, \"x\": [true, false, null, "
        "\"a\\u00e9\\ud83d\\ude00\\n\", [[], {}]], \"model\": {\"type\": \"sequential\", \"layers\": "
        "[{\"type\": \"linear\", \"features\": \"$4*hidden\"}]}, \"\xc3\xa9\": \"\xf0\x9f\x98\x80\"}";
    static const char bytes[] = "{}[]\",:\\u0123456789eE+-. \n\ttruefalsn/*'\xff\xc3\x80";
    char *text = malloc(sizeof seed + 64);
    int accepted = 0;
    for (int round = 0; round < 20000; round++) {
        size_t n = sizeof seed - 1;
        memcpy(text, seed, n);
        for (uint32_t edits = next_random() % 3 + (round > 0); edits && n; edits--) {
            size_t at = next_random() % n;
            char c = bytes[next_random() % (sizeof bytes - 1)];
            switch (next_random() % 4) {
            case 0: text[at] = c; break;
            case 1: memmove(text + at, text + at + 1, --n - at); break;
            case 2: memmove(text + at + 1, text + at, n++ - at), text[at] = c; break;
            default: n = at + 1; break;
            }
        }
        char *exact = malloc(n); /* so that reading one byte too far is seen */
        memcpy(exact, text, n);
        bool good = scan_n(exact, n);
        accepted += good;
        check_tree(good ? n : n + 1);
        if (!good) ck_assert_uint_le(error.offset, n);
        free(exact);
        done();
    }
    free(text);
    ck_assert_int_gt(accepted, 10);
    ck_assert_int_lt(accepted, 19000);
}
END_TEST

int main(void)
{
    return run_case("json_scan", CASE_OF(60, accepts, refuses, places, exact_numbers, limits, large_objects, mutants));
}
