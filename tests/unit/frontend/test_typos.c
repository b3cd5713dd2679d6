/* One typo in a valid document: of 2,000 such mutants none crashes, and what is said of them points at the line with the
 * typo. The documents are those of tests/parity, which have one value per line; here a shape is one value too.
 *
 * STEPC_FUZZ_ROUNDS and STEPC_FUZZ_SEED ask for more and for others; STEPC_FUZZ_SHOW=1 prints every diagnostic that points
 * elsewhere. */
#include "tests/unit/frontend/fe_test.h"

#include <ctype.h>
#include <glob.h>

enum typo { KEY, TYPE, PATTERN, NAME, KIND, DROP, NUMBER, TYPOS };
static const char *const typo_names[TYPOS] = {"key", "type", "pattern", "name in a string", "kind", "left out", "number"};

static uint32_t state = 20250101;
static uint32_t below(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return n ? (state >> 8) % n : 0;
}

/* ---------------------------------------------------------------- typos */

struct mutant { const char *text; uint32_t line, seen; }; /* the line of the typo, and that of the object it is in */

static uint32_t line_of(const char *text, uint32_t offset)
{
    uint32_t line = 1;
    for (uint32_t i = 0; i < offset; i++) line += text[i] == '\n';
    return line;
}

static void replace(struct arena *arena, const char *text, uint32_t from, uint32_t to, const char *with, struct mutant *m)
{
    struct str out = STR(arena);
    str_add_n(&out, text, from);
    str_add(&out, with);
    str_add(&out, text + to);
    m->text = str_text(&out);
    m->line = line_of(text, from);
}

/* Deletes, doubles or swaps a letter of a word in the text from..to; false: there is none. */
static bool misspell(struct arena *arena, const char *text, uint32_t from, uint32_t to, struct mutant *m)
{
    for (int tries = 0; tries < 20; tries++) {
        uint32_t at = from + below(to - from);
        if (at >= to || !isalpha((unsigned char)text[at])) continue;
        char two[3] = {text[at], text[at], 0};
        uint32_t kind = below(3);
        if (kind == 1) replace(arena, text, at, at + 1, two, m);
        else if (kind == 2 && at + 1 < to && isalpha((unsigned char)text[at + 1]) && text[at] != text[at + 1]) {
            two[0] = text[at + 1];
            replace(arena, text, at, at + 2, two, m);
        } else if (kind == 0 && to - from > 1) replace(arena, text, at, at + 1, "", m);
        else continue;
        return true;
    }
    return false;
}

static bool is_pattern(const struct json *json, const struct json_value *v)
{
    static const char *const keys[] = {"trainable", "mask", "match", "only", "weight_decay_mask", "freeze_mask"};
    if (v->kind != JSON_STRING) return false;
    const char *key = v->key ? v->key : json->values[v->parent].key;
    for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

static const char *other_kind(const struct json_value *v)
{
    static const char *const values[] = {"\"many\"", "7", "true", "[]", "{}"};
    for (;;) {
        const char *value = values[below(5)];
        int kind = *value == '"' ? JSON_STRING : *value == '7' ? JSON_NUMBER : *value == 't' ? JSON_TRUE : *value == '[' ? JSON_ARRAY : JSON_OBJECT;
        if (kind != v->kind && !(kind == JSON_TRUE && v->kind == JSON_FALSE)) return value;
    }
}

/* Members of these objects are names that the document gives, and so none is required. */
static bool gives_names(const struct json *json, const struct json_value *v)
{
    static const char *const keys[] = {"inputs", "constants", "define", "params", "metrics", "transforms", "labels", "axes"};
    const char *key = json->values[v->parent].key;
    for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

/* Leaves out a member, with the comma before or after it. */
static void drop(struct arena *arena, const char *text, const struct json *json, const struct json_value *v, struct mutant *m)
{
    uint32_t from = v->key_offset, to = v->offset + v->length;
    if (text[to] == ',') to++;
    else
        while (from > 0 && isspace((unsigned char)text[from - 1])) from--;
    if (text[from - 1] == ',' && text[to - 1] != ',') from--;
    replace(arena, text, from, to, "", m);
    m->seen = line_of(text, json->values[v->parent].offset);
}

static bool mutate(struct arena *arena, const char *text, enum typo typo, struct mutant *m)
{
    struct json json;
    struct json_error error;
    ck_assert(json_scan(arena, text, strlen(text), NULL, &json, &error));
    for (int tries = 0; tries < 200; tries++) {
        const struct json_value *v = &json.values[1 + below(json.count - 1)];
        bool type = v->key && strcmp(v->key, "type") == 0, string = v->kind == JSON_STRING, pattern = is_pattern(&json, v);
        uint32_t from = v->offset, to = v->offset + v->length;
        *m = (struct mutant){0};
        switch (typo) {
        case KEY:
            if (v->key && misspell(arena, text, v->key_offset + 1, v->key_offset + v->key_length - 1, m)) return true;
            break;
        case TYPE:
            if (type && misspell(arena, text, from + 1, to - 1, m)) return true;
            break;
        case PATTERN:
            if (pattern && misspell(arena, text, from + 1, to - 1, m)) return true;
            break;
        case NAME:
            if (string && !type && !pattern && misspell(arena, text, from + 1, to - 1, m)) return true;
            break;
        case KIND: replace(arena, text, from, to, other_kind(v), m); return true;
        case DROP:
            if (!v->key || gives_names(&json, v)) break;
            drop(arena, text, &json, v, m);
            return true;
        case NUMBER: {
            if (v->kind != JSON_NUMBER) break;
            const char *values[] = {"0", "-1", "2.5", "1e12", arena_format(arena, "-%.*s", (int)v->length, text + from),
                                    arena_format(arena, "%.*s0", (int)v->length, text + from)};
            replace(arena, text, from, to, values[below(6)], m);
            return true;
        }
        case TYPOS: break;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- what is said */

static bool points_at(const struct diags *diags, struct diag_span span, const struct mutant *m)
{
    uint32_t line, column;
    diag_line_column(&diags->source, span.offset, &line, &column);
    return line == m->line || (m->seen && line == m->seen);
}

/* Whether an error of the first few, or a note of one, is at the line of the typo. */
static bool found(const struct diags *diags, const struct mutant *m)
{
    for (size_t i = 0; i < diags->list.count && i < 3; i++) {
        const struct diag *d = &diags->list.items[i];
        if (points_at(diags, d->span, m)) return true;
        for (size_t k = 0; k < d->notes.count; k++)
            if (d->notes.items[k].span.length && points_at(diags, d->notes.items[k].span, m)) return true;
    }
    return false;
}

/* Puts a list of numbers on one line. */
static void join_numbers(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        size_t n = *from == '[' ? 1 + strspn(from + 1, " \n\t,.+-0123456789eE") : 0;
        if (n && from[n] == ']') {
            for (; n; n--, from++)
                if (!isspace((unsigned char)*from)) *to++ = *from;
        } else *to++ = *from++;
    }
    *to = 0;
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(n + 1);
    ck_assert_uint_eq(fread(text, 1, n, f), n);
    text[n] = 0;
    fclose(f);
    join_numbers(text);
    return text;
}

static void show(const char *path, enum typo typo, const struct mutant *m, const struct diags *diags)
{
    const char *at = m->text;
    for (uint32_t line = 1; line < m->line; line++) at = strchr(at, '\n') + 1;
    fprintf(stderr, "== %s: %s, line %u: %.*s\n", path, typo_names[typo], m->line, (int)strcspn(at, "\n"), at);
    diags_print(diags, stderr, false, false);
}

START_TEST(typos)
{
    const char *more = getenv("STEPC_FUZZ_ROUNDS"), *start = getenv("STEPC_FUZZ_SEED");
    uint32_t rounds = more ? (uint32_t)atoi(more) : 2000, refused[TYPOS] = {0}, good[TYPOS] = {0}, all = 0, right = 0;
    bool shows = getenv("STEPC_FUZZ_SHOW") != NULL;
    glob_t paths;
    if (start) state = (uint32_t)strtoul(start, NULL, 10);
    ck_assert_int_eq(glob("tests/parity/cases/*/model.json", 0, NULL, &paths), 0);
    for (uint32_t round = 0; round < rounds; round++) {
        const char *path = paths.gl_pathv[below((uint32_t)paths.gl_pathc)];
        enum typo typo = (enum typo)(round % TYPOS);
        char *text = read_file(path);
        struct arena arena = {0};
        struct mutant m;
        struct diags diags = {.arena = &arena};
        struct fe_options options = {0};
        if (mutate(&arena, text, typo, &m)) {
            struct ir_module *module = fe_compile("typo.json", m.text, strlen(m.text), &options, &diags);
            ck_assert_msg((module != NULL) == (diags.errors == 0), "%s: %s", path, m.text);
            if (!module) {
                bool is_good = found(&diags, &m);
                refused[typo]++;
                good[typo] += is_good;
                if (!is_good && shows) show(path, typo, &m, &diags);
            } else ir_module_free(module);
        }
        free(text);
        arena_free(&arena);
    }
    globfree(&paths);
    for (int t = 0; t < TYPOS; t++) {
        printf("%-18s %4u refused, %4u with a diagnostic at the line\n", typo_names[t], refused[t], good[t]);
        all += refused[t];
        right += good[t];
    }
    fflush(stdout);
    ck_assert_uint_gt(all, rounds / 2);
    ck_assert_msg(right * 100 >= all * 95, "%u of %u diagnostics point at the line", right, all);
}
END_TEST

int main(void)
{
    return run_case("typos", CASE_OF(240, typos));
}
