/* Typed reading of objects, `$` arithmetic, pointers and errors inside strings. */
#include "tests/unit/frontend/fe_test.h"

#include <math.h>

enum { RATE, COUNT, FLAG, MODE, SHAPE, WHERE, ROWS };
static const struct fe_arg rows[ROWS] = {
    {"rate", FE_NUMBER, FE_REQUIRED | FE_UNIT, NULL, NULL}, {"count", FE_INTEGER, FE_POSITIVE, "3", NULL},
    {"flag", FE_BOOL, FE_NULLABLE, "true", NULL},           {"mode", FE_ENUM, 0, "\"slow\"", "slower|slow|fast"},
    {"shape", FE_SHAPE, FE_POSITIVE, "[1, 2]", NULL},       {"where", FE_PATTERNS, 0, NULL, NULL},
};
static struct fixture f;
static struct fe_value out[ROWS];

static bool read(const char *text)
{
    ck_assert(fixture_scan(&f, text));
    fe_constant_push(&f.fe, "hidden", 6, true);
    fe_constant_push(&f.fe, "half", 0.5, false);
    return fe_args(&f.fe, f.fe.json.values, "thing \"t\"", rows, ROWS, NULL, out);
}

START_TEST(values)
{
    ck_assert(read("{\"type\": \"t\", \"rate\": \"$half/2\", \"//\": \"words\", \"flag\": null, \"mode\": \"fast\", "
                   "\"shape\": [\"$2*hidden\", 4], \"where\": [\"**\"]}"));
    ck_assert_double_eq(out[RATE].number, 0.25);
    ck_assert(!out[COUNT].given && out[COUNT].integer == 3);
    ck_assert(out[FLAG].given && out[FLAG].null);
    ck_assert_str_eq(out[MODE].string, "fast");
    ck_assert(out[MODE].integer == 2 && out[SHAPE].rank == 2 && out[SHAPE].shape[0] == 12 && out[SHAPE].shape[1] == 4);
    fixture_free(&f);
    ck_assert(read("{\"rate\": 0}"));
    ck_assert(out[MODE].integer == 1 && out[FLAG].boolean && out[SHAPE].rank == 2 && out[SHAPE].shape[1] == 2);
    ck_assert(out[WHERE].null && !out[WHERE].json);
    fixture_free(&f);
}
END_TEST

START_TEST(mistakes)
{
    static const struct {
        const char *text, *says;
    } table[] = {
        {"{}", "E0102]: thing \"t\" needs \"rate\" (a number)"},
        {"{\"rat\": 0.5}", "did you mean \"rate\"?"},
        {"{\"rate\": 1}", "must be at least 0 and less than 1, found 1"},
        {"{\"rate\": true}", "\"rate\" must be a number, found true"},
        {"{\"rate\": \"0.5\"}", "must be a number, found \"0.5\""},
        {"{\"rate\": 0, \"count\": 0}", "\"count\" must be more than 0, found 0"},
        {"{\"rate\": 0, \"count\": 4294967299}", "an integer must fit into 32 bits, found 4294967299"},
        {"{\"rate\": 0, \"count\": 2.5}", "expected an integer, found 2.5"},
        {"{\"rate\": 0, \"count\": \"$hidden/4\"}", "expected an integer, but \"$hidden/4\" is 1.5"},
        {"{\"rate\": 0, \"flag\": 1}", "\"flag\" must be true or false or null, found 1"},
        {"{\"rate\": 0, \"mode\": \"fsat\"}", "did you mean \"fast\"?"},
        {"{\"rate\": 0, \"shape\": [1, -4]}", "found -4"},
        {"{\"rate\": 0, \"shape\": {}}", "must be an array of integers, found an object"},
        {"{\"rate\": 0, \"where\": [1]}", "is a string, found 1"},
        {"{\"rate\": 0, \"//\": 1}", "unknown key \"//\""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ck_assert_msg(!read(table[i].text), "%s was accepted", table[i].text);
        char *said = fixture_said(&f);
        ck_assert_msg(strstr(said, table[i].says) != NULL, "%s: %s", table[i].text, said);
        ck_assert_msg(f.diags.errors == 1, "%s: %s", table[i].text, said);
        free(said);
        fixture_free(&f);
    }
}
END_TEST

static bool sum(const char *text, double *value, bool *integer)
{
    fixture_free(&f);
    ck_assert(fixture_scan(&f, text));
    fe_constant_push(&f.fe, "hidden", 6, true);
    fe_constant_push(&f.fe, "half", 0.5, false);
    fe_constant_push(&f.fe, "broken", NAN, false);
    return fe_arithmetic(&f.fe, f.fe.json.values, value, integer);
}

START_TEST(arithmetic)
{ /* as Python computes it */
    static const struct {
        const char *text;
        double value;
        bool integer;
    } good[] = {{"\"$4*hidden\"", 24, true},    {"\"$ 1 + 2 * 3 \"", 7, true}, {"\"$(1+2)*3\"", 9, true},
                {"\"$7//2\"", 3, true},         {"\"$-7//2\"", -4, true},      {"\"$-7%3\"", 2, true},
                {"\"$7%-3\"", -2, true},        {"\"$6/2\"", 3, false},        {"\"$2**10\"", 1024, true},
                {"\"$2**-1\"", 0.5, false},     {"\"$-2**2\"", -4, true},      {"\"$2**3**2\"", 512, true},
                {"\"$half*2\"", 1, false},      {"\"$7.5//2\"", 3, false},     {"\"$1e3\"", 1000, false},
                {"\"$.5+1.\"", 1.5, false},     {"\"$--3\"", 3, true},         {"\"$10-2-3\"", 5, true},
                {"\"$\\u0068idden\"", 6, true}, {"\"$0**0\"", 1, true},        {"\"$5.5%2\"", 1.5, false}};
    double value;
    bool integer;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(sum(good[i].text, &value, &integer), "%s", good[i].text);
        ck_assert_msg(value == good[i].value && integer == good[i].integer, "%s is %g", good[i].text, value);
    }
    static const struct {
        const char *text, *says;
    } bad[] = {{"\"$\"", ":1:3: error[E0106]: in \"$\": it ends where"},
               {"\"$4*\"", ":1:5: error[E0106]"},
               {"\"$4 4\"", "an operator or the end was expected at character 4"},
               {"\"$(1+2\"", "')' expected"},
               {"\"$1/0\"", "division by zero"},
               {"\"$1//(hidden-6)\"", ":1:4: error[E0106]: in \"$1//(hidden-6)\": division by zero"},
               {"\"$1%0\"", "division by zero"},
               {"\"$0**-1\"", "division by zero"},
               {"\"$10**hidden**hidden\"", "overflow"},
               {"\"$9007199254740991+1\"", "2^53-1"},
               {"\"$9007199254740993-9007199254740990\"", "2^53-1"},
               {"\"$1e999\"", "too large"},
               {"\"$hiden+1\"", ":1:3: error[E0108]"},
               {"\"$2 * hiden\"", "did you mean \"hidden\"?"},
               {"\"$2x\"", "runs into a name"},
               {"\"$(-8)**0.5\"", "fractional power"},
               {"\"$2 ^ 3\"", "an operator or the end"},
               {"\"$\\u0032 @\"", ":1:10: error[E0106]"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!sum(bad[i].text, &value, &integer), "%s is %g", bad[i].text, value);
        char *said = fixture_said(&f);
        ck_assert_msg(strstr(said, bad[i].says) != NULL && f.diags.errors == 1, "%s: %s", bad[i].text, said);
        free(said);
    }
    ck_assert(!sum("\"$broken+1\"", &value, &integer));
    ck_assert_uint_eq(f.diags.errors, 0); /* reported where it was defined */
    char deep[1204];
    memset(deep, '(', 1200);
    memcpy(deep, "\"$", 2);
    memcpy(deep + 1200, "\"", 2);
    ck_assert(!sum(deep, &value, &integer));
    ck_assert_uint_eq(f.diags.errors, 1);
    fixture_free(&f);
}
END_TEST

START_TEST(places)
{
    const char *text = "{\"a/b\": [10, {\"~\": \"caf\\u00e9 \\ud83d\\ude00 x\"}]}";
    ck_assert(fixture_scan(&f, text));
    fe_json list = fe_member(&f.fe, f.fe.json.values, "a/b"),
            string = fe_first(&f.fe, fe_next(&f.fe, fe_first(&f.fe, list)));
    ck_assert_str_eq(fe_pointer(&f.fe, string), "/a~1b/1/~0");
    ck_assert_str_eq(string->string, "caf\xc3\xa9 \xf0\x9f\x98\x80 x");
    struct diag *d = fe_error_in(&f.fe, string, 11, 1, "E0301", "here");
    ck_assert_uint_eq(d->span.offset, (uint32_t)(strstr(text, "x\"") - text));
    d = fe_error_in(&f.fe, string, 3, 2, "E0302", "here");
    ck_assert_uint_eq(d->span.length, 6);
    d = fe_error_in(&f.fe, string, 12, 1, "E0303", "at the end");
    ck_assert_uint_eq(d->span.offset, (uint32_t)(strstr(text, "\"}]") - text));
    fixture_free(&f);
}
END_TEST

int main(void) { return run_case("args", CASE_OF(30, values, mistakes, arithmetic, places)); }
