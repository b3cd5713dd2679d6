/* Growing text, shortest numbers, name distances, globs. */
#include "ir/base/str.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;

static const char *number(double x, bool single)
{
    struct str s = STR(&arena);
    str_add_number(&s, x, single);
    return str_text(&s);
}

/* Texts of every length, at every place up to the end of a chunk and beyond it. */
START_TEST(formats)
{
    char want[200];
    memset(want, 'w', sizeof want);
    for (int i = 0; i < 20000; i++) {
        int length = i * 7 % 199;
        const char *got = arena_format(&arena, "%.*s", length, want);
        ck_assert_msg((int)strlen(got) == length && !memcmp(got, want, (size_t)length), "text %d of %d letters: \"%s\"",
                      i, length, got);
        const char *clear = arena_alloc(&arena, 24);
        for (int k = 0; k < 24; k++) ck_assert_int_eq(clear[k], 0);
    }
    arena_free(&arena);
}
END_TEST

START_TEST(text)
{
    struct str s = STR(&arena);
    ck_assert_str_eq(str_text(&s), "");
    for (int i = 0; i < 1000; i++) str_addf(&s, "%d,", i);
    str_add(&s, "end");
    ck_assert_uint_eq(s.length, strlen(s.text));
    ck_assert_str_eq(s.text + s.length - 7, "999,end");
    struct str j = STR(&arena);
    str_add_json(&j, "a\"\\\n\x01\xc3\xa9\xff\xe2\x82");
    ck_assert_str_eq(str_text(&j), "\"a\\\"\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    arena_free(&arena);
}
END_TEST

START_TEST(numbers)
{
    static const struct {
        double x;
        const char *text;
    } rows[] = {{0, "0"},
                {1, "1"},
                {-1.5, "-1.5"},
                {0.1, "0.1"},
                {1e-5, "0.00001"},
                {1e-6, "1e-06"},
                {1234567, "1234567"},
                {1e16, "10000000000000000"},
                {1e17, "1e+17"},
                {1.5e300, "1.5e+300"},
                {0.30000000000000004, "0.30000000000000004"},
                {123456.789, "123456.789"},
                {5e-324, "5e-324"},
                {100, "100"},
                {-0.0, "-0"},
                {INFINITY, "Infinity"},
                {-INFINITY, "-Infinity"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) ck_assert_str_eq(number(rows[i].x, false), rows[i].text);
    ck_assert_str_eq(number(NAN, false), "NaN");
    ck_assert_str_eq(number((double)0.1f, true), "0.1");
    ck_assert_str_eq(number((double)16777216.0f, true), "16777216");
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 5000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double x;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) continue;
        ck_assert_double_eq(strtod(number(x, false), NULL), x);
        float y;
        memcpy(&y, &bits, sizeof y);
        if (isfinite(y)) ck_assert_float_eq(strtof(number((double)y, true), NULL), y);
        if (i % 512 == 0) arena_free(&arena);
    }
    arena_free(&arena);
}
END_TEST

START_TEST(nearest_names)
{
    static const char *const names[] = {"learning_rate", "b1", "b2", "eps", "weight_decay", "mean", "model"};
    enum { COUNT = sizeof names / sizeof *names };
    ck_assert_uint_eq(str_distance("", "abc"), 3);
    ck_assert_uint_eq(str_distance("modle", "model"), 1);
    ck_assert_uint_eq(str_distance("kitten", "sitting"), 3);
    ck_assert_str_eq(str_nearest("lerning_rate", names, COUNT), "learning_rate");
    ck_assert_str_eq(str_nearest("maen", names, COUNT), "mean");
    ck_assert_str_eq(str_nearest("modle", names, COUNT), "model");
    ck_assert_ptr_null(str_nearest("b3", names, COUNT)); /* another number is another thing */
    static const char *const optimizers[] = {"adam", "adamw", "sgd", "amsgrad", "relu"};
    static const struct {
        const char *name, *nearest;
        bool sure;
    } rows[] = {{"AdamW", "adamw", true}, {"adam_w", "adamw", true},    {"adamww", "adamw", true},
                {"adma", "adam", false},  {"asgd", NULL, false},        {"sgdw", NULL, false},
                {"adamp", NULL, false},   {"amsgradw", NULL, false},    {"amsgrd", "amsgrad", false},
                {"adm", "adam", false},   {"amsgra", "amsgrad", false}, {"padam", NULL, false},
                {"lerning", NULL, false}, {"ams-grad", "amsgrad", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool sure;
        const char *nearest = str_nearest_sure(rows[i].name, optimizers, 5, &sure);
        ck_assert_msg(!nearest == !rows[i].nearest && (!nearest || !strcmp(nearest, rows[i].nearest)), "%s: %s",
                      rows[i].name, nearest);
        ck_assert_msg(!nearest || sure == rows[i].sure, "%s is %ssure", rows[i].name, sure ? "" : "not ");
    }
    ck_assert_ptr_null(str_nearest("momentum", names, COUNT));
    ck_assert_ptr_null(str_nearest("x", names, COUNT));
    ck_assert_ptr_null(str_nearest("", names, COUNT));
}
END_TEST

START_TEST(globs)
{
    static const struct {
        const char *pattern, *path;
        bool match;
    } rows[] = {{"a", "a", true},
                {"a", "b", false},
                {"a", "ab", false},
                {"*", "abc", true},
                {"*", "a.b", false},
                {"**", "a.b.c", true},
                {"**", "a", true},
                {"**.kernel", "kernel", true},
                {"**.kernel", "a.b.kernel", true},
                {"**.kernel", "a.xkernel", false},
                {"layers.*.bias", "layers.0.bias", true},
                {"layers.*.bias", "layers.0.1.bias", false},
                {"layers.**", "layers.0.1", true},
                {"layers.**", "layers", true},
                {"layers.**", "layersx.1", false},
                {"layers.{0,2}.**", "layers.2.kernel", true},
                {"layers.{0,2}.**", "layers.1.kernel", false},
                {"**.{query,key,value}.kernel", "b.3.attn.key.kernel", true},
                {"**.{query,key,value}.kernel", "b.3.attn.out.kernel", false},
                {"{a,b{c,d}}.x", "bd.x", true},
                {"{a,b{c,d}}.x", "bc.x", true},
                {"{a,b{c,d}}.x", "b.x", false},
                {"{a.b,c}.x", "a.b.x", true},
                {"fc*", "fc12", true},
                {"*a*b*", "xxayyb", true},
                {"a.**.z", "a.z", true},
                {"a.**.z", "a.b.c.z", true},
                {"a.**.z", "az", false},
                {"{,x}a", "xa", true},
                {"{,x}a", "a", true},
                {"a{b", "a{b", true},
                {"a}b", "a}b", true},
                {"a,b", "a,b", true},
                {"{a", "a", false},
                {"", "", true},
                {"", "a", false},
                {"**.2.bias", "layers.2.bias", true},
                {"**.**.x", "x", true},
                {"**.b.**", "a.b", true},
                {"{a,**}.k", "q.r.k", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(glob_match(rows[i].pattern, rows[i].path) == rows[i].match, "%s on %s", rows[i].pattern,
                      rows[i].path);
    char hard[1024 + 8], path[1025]; /* a backtracking matcher would not end */
    for (int i = 0; i < 1000; i++) hard[i] = "*a"[i % 2];
    strcpy(hard + 1000, "b");
    memset(path, 'a', 1024);
    path[1024] = 0;
    ck_assert(!glob_match(hard, path));
    memset(hard, '{', 1024);
    hard[1024] = 0;
    ck_assert(!glob_match(hard, path));
}
END_TEST

int main(void) { return run_case("str", CASE_OF(30, formats, text, numbers, nearest_names, globs)); }
