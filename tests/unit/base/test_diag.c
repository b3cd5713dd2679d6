/* The printed forms of diagnostics, to the letter. */
#include "ir/base/diag.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct arena arena;

static char *print(const struct diags *d, bool json)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    diags_print(d, f, json, false);
    fclose(f);
    return text;
}

static struct diags make(const char *text)
{
    return (struct diags){.arena = &arena, .source = {"model.json", text, strlen(text)}};
}

static struct diag_span span_of(const struct diags *d, const char *part)
{
    return (struct diag_span){(uint32_t)(strstr(d->source.text, part) - d->source.text), (uint32_t)strlen(part)};
}

START_TEST(text_form)
{
    struct diags d = make("{\n  \"\xc3\xa9\": {\"lerning_rate\": 3e-4}\n}\n");
    struct diag *e = diag_error(&d, span_of(&d, "\"lerning_rate\""), "E0107", "unknown key \"%s\"", "lerning_rate");
    e->label = "did you mean \"learning_rate\"?";
    e->pointer = "/\xc3\xa9/lerning_rate";
    e->hint = "read the manual";
    diag_note(&d, e, span_of(&d, "3e-4"), "its value");
    diag_note(&d, e, (struct diag_span){0, 0}, "no place");
    char *text = print(&d, false);
    ck_assert_str_eq(text, "model.json:2:9: error[E0107]: unknown key \"lerning_rate\"\n"
                           "    2 |   \"\xc3\xa9\": {\"lerning_rate\": 3e-4}\n"
                           "      |         ^^^^^^^^^^^^^^ did you mean \"learning_rate\"?\n"
                           "    2 |   \"\xc3\xa9\": {\"lerning_rate\": 3e-4}\n"
                           "      |                         ---- its value\n"
                           "   note: no place\n"
                           "   at /\xc3\xa9/lerning_rate\n"
                           "   hint: read the manual\n");
    free(text);
    arena_free(&arena);
}
END_TEST

START_TEST(json_form)
{
    struct diags d = make("[1,\n oops]");
    struct diag *e = diag_error(&d, span_of(&d, "oops"), "E0009", "no \"word\"");
    e->pointer = "/1";
    char *text = print(&d, true);
    ck_assert_str_eq(
        text, "{\"level\":\"error\",\"code\":\"E0009\",\"message\":\"no \\\"word\\\"\",\"pointer\":\"/1\",\"spans\":"
              "[{\"file\":\"model.json\",\"byte_start\":5,\"byte_end\":9,\"line\":2,\"column\":2,\"primary\":true}],"
              "\"retry\":false,\"rendered\":\"model.json:2:2: error[E0009]: no \\\"word\\\"\\n    2 |  oops]\\n      | "
              " ^^^^\\n"
              "   at /1\\n\"}\n");
    free(text);
    arena_free(&arena);
}
END_TEST

START_TEST(order_and_count)
{
    char source[4001];
    memset(source, 'x', 4000);
    source[4000] = 0;
    for (int i = 39; i < 4000; i += 40) source[i] = '\n';
    struct diags d = make(source);
    for (uint32_t i = 100; i-- > 0;) diag_error(&d, (struct diag_span){i * 40, 3}, "E0001", "number %u", i);
    diag_error(&d, (struct diag_span){0, 3}, "E0001", "again"); /* same code, same place: the same mistake */
    ck_assert_uint_eq(d.errors, 100);
    char *text = print(&d, false);
    ck_assert_ptr_nonnull(strstr(text, "number 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "number 19\n"));
    ck_assert_ptr_null(strstr(text, "number 20\n"));
    ck_assert_ptr_nonnull(strstr(text, "80 more not shown\n"));
    ck_assert(strstr(text, "number 3\n") < strstr(text, "number 4\n"));
    free(text);
    arena_free(&arena);
}
END_TEST

START_TEST(odd_places)
{
    static const char bytes[] = "a\x1b[31m\xff\tb";
    struct diags d = {.arena = &arena, .source = {"f", bytes, sizeof bytes - 1}};
    diag_error(&d, (struct diag_span){100, 5}, "E0002", "beyond the end");
    diag_error(&d, (struct diag_span){0, 0}, "E0109", "no place");
    diag_error(&d, (struct diag_span){1, 400}, "E0001", "a span that is too long, \x1b[0m");
    char *text = print(&d, false);
    ck_assert_ptr_null(strchr(text, '\x1b'));
    ck_assert_ptr_nonnull(strstr(text, "f: error[E0109]: no place\n"));
    free(text);
    char wide[20001];
    memset(wide, 'y', 20000);
    wide[20000] = 0;
    struct diags w = make(wide);
    diag_error(&w, (struct diag_span){10000, 15000}, "E0001", "a long line");
    text = print(&w, false);
    ck_assert_uint_lt(strlen(text), 600);
    ck_assert_ptr_nonnull(strstr(text, "model.json:1:10001: "));
    free(text);
    struct diags empty = make("");
    diag_error(&empty, (struct diag_span){0, 1}, "E0002", "empty");
    text = print(&empty, false);
    ck_assert_ptr_nonnull(strstr(text, "model.json:1:1: "));
    free(text);
    arena_free(&arena);
}
END_TEST

static void hook(void *user, FILE *f) { fprintf(f, "%s", (const char *)user); }

START_TEST(defect)
{
    int pipes[2];
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        static char words[] = "replay it\n";
        bug_set_hook(hook, words);
        BUG("value %d", 7);
    }
    close(pipes[1]);
    char text[1024] = {0};
    for (ssize_t n = 0, more; (more = read(pipes[0], text + n, sizeof text - 1 - (size_t)n)) > 0;) n += more;
    int status;
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    ck_assert_ptr_nonnull(strstr(text, "value 7\n"));
    ck_assert_ptr_nonnull(strstr(text, "replay it\n"));
}
END_TEST

int main(void) { return run_case("diag", CASE_OF(30, text_form, json_form, order_and_count, odd_places, defect)); }
