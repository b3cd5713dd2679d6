/* Trees of JSON: what they print, and what is read back. */
#include "ir/base/json_tree.h"
#include "tests/unit/suite.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

static struct arena arena;

START_TEST(printed)
{
    struct json_tree t = json_object(&arena);
    json_add_text(t, "text", "a\"\\\n\x01\xc3\xa9\xff\xe2\x82");
    json_add_text(t, "none", NULL);
    json_add_integer(t, "whole", INT64_MIN);
    json_add_bool(t, "yes", true);
    struct json_tree list = json_add_array(t, "list"), inner = json_add_object(list, NULL);
    json_add_number(list, NULL, 0.1, false);
    json_add_number(list, NULL, (double)0.1f, true);
    json_add_number(list, NULL, 1e300, false);
    json_add_number(list, NULL, (double)NAN, false);
    json_add_number(list, NULL, -(double)INFINITY, true);
    json_add(inner, "raw", json_raw(&arena, "[1, 2.50]"));
    (void)json_add_array(inner, "empty");
    ck_assert_str_eq(json_print(t),
                     "{\"text\":\"a\\\"\\\\\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",\"none\":null,"
                     "\"whole\":-9223372036854775808,\"yes\":true,\"list\":[{\"raw\":[1, 2.50],\"empty\":[]},"
                     "0.1,0.1,1e+300,\"NaN\",\"-Infinity\"]}");
    ck_assert_ptr_nonnull(strchr(json_print_lines(t), '\n'));
    arena_free(&arena);
}
END_TEST

START_TEST(read_back)
{
    const char *text =
        "{\"a\":[0.1000000000000000055,12345678901234567,0.30000000000000004,true,null],\"b\":{\"c\":\"d\"}}";
    const struct cJSON *read = json_read(&arena, text, strlen(text));
    ck_assert(cJSON_IsObject(read));
    ck_assert_str_eq(read->child->next->child->valuestring, "d");
    ck_assert_double_eq(read->child->child->valuedouble, 0.1);
    ck_assert_str_eq(json_print(json_copy(&arena, read)),
                     "{\"a\":[0.1,12345678901234568,0.30000000000000004,true,null],\"b\":{\"c\":\"d\"}}");
    text = "{\"1.5\\\"2.5\":-3,\"b\":[30.0,-1e2,0.5,7,\"8.0\",{\"c\":1E+1}],\"d\":0}"; /* floats stay floats */
    ck_assert_str_eq(json_print(json_copy(&arena, json_read(&arena, text, strlen(text)))),
                     "{\"1.5\\\"2.5\":-3,\"b\":[30.0,-100.0,0.5,7,\"8.0\",{\"c\":10.0}],\"d\":0}");
    ck_assert_ptr_null(json_read(&arena, "{\"a\":", 5));
    ck_assert_ptr_null(json_read(&arena, "{} {}", 5));
    ck_assert_ptr_nonnull(json_read(&arena, " {}\r\n\t ", 7));
    arena_free(&arena);
}
END_TEST

int main(void) { return run_case("json_tree", CASE_OF(30, printed, read_back)); }
