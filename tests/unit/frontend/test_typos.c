/* One typo in a valid document: of 3,000 such mutants none crashes, and what is said of them points at the line with
 * the typo. The documents are those of tests/parity, which have one value per line; here a shape is one value too. Some
 * mutants have a second typo: they only must not crash.
 *
 * STEPC_FUZZ_ROUNDS and STEPC_FUZZ_SEED ask for more and for others, STEPC_FUZZ_DOCUMENTS for other documents (a
 * pattern of files, one value per line); STEPC_FUZZ_SHOW=1 prints every diagnostic that points elsewhere,
 * STEPC_FUZZ_SLOW=2 what takes more seconds than that; STEPC_FUZZ_KEEP is a file for the mutant that is being read,
 * what is left after a crash. */
#include "tests/unit/file.h"
#include "tests/unit/frontend/fe_test.h"

#include <ctype.h>
#include <glob.h>
#include <time.h>

enum typo { KEY, TYPE, PATTERN, NAME, KIND, DROP, NUMBER, EXPRESSION, DTYPE, EXTREME, TYPOS };
static const char *const typo_names[TYPOS] = {"key",    "type",       "pattern", "name in a string", "kind", "left out",
                                              "number", "expression", "dtype",   "extreme"};

static uint32_t state = 20250101;
static uint32_t below(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return n ? (state >> 8) % n : 0;
}

/* ---------------------------------------------------------------- typos */

struct mutant {
    const char *text;
    uint32_t line, seen;
}; /* the line of the typo, and that of the object it is in */

static uint32_t line_of(const char *text, uint32_t offset)
{
    uint32_t line = 1;
    for (uint32_t i = 0; i < offset; i++) line += text[i] == '\n';
    return line;
}

static void replace(struct arena *arena, const char *text, uint32_t from, uint32_t to, const char *with,
                    struct mutant *m)
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

/* Replaces an operator, a parenthesis, a number or a name of an expression, or puts something more into it. */
static void change_expression(struct arena *arena, const char *text, uint32_t from, uint32_t to, struct mutant *m)
{
    static const char *const pieces[] = {"+",
                                         "-",
                                         "*",
                                         "/",
                                         "//",
                                         "%",
                                         "**",
                                         "@",
                                         "<",
                                         ">=",
                                         "==",
                                         "!=",
                                         "&",
                                         "|",
                                         "^",
                                         "~",
                                         "<<",
                                         ">>",
                                         "(",
                                         ")",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         ".",
                                         "=",
                                         "'",
                                         "...",
                                         "None",
                                         "True",
                                         "0",
                                         "1",
                                         "-1",
                                         "2",
                                         "3",
                                         "7",
                                         "0.5",
                                         "1e400",
                                         "1e-320",
                                         "2147483648",
                                         "1e12",
                                         "nan",
                                         "inf",
                                         "pi",
                                         "x",
                                         "model",
                                         "loss",
                                         "params",
                                         "y",
                                         "axis=0",
                                         "axis=-1",
                                         "axis=1",
                                         "axis=(0, 1)",
                                         "axis=None",
                                         "keepdims=True",
                                         "dtype='int8'",
                                         "dtype='bool'",
                                         ".astype('bool')",
                                         ".astype('uint8')",
                                         ".astype('int32')",
                                         ".astype('bfloat16')",
                                         ".T",
                                         "[None]",
                                         "[0]",
                                         "[:, 0]",
                                         "[...]",
                                         "[:0]",
                                         "[::-1]",
                                         "> 0",
                                         "x > 0",
                                         "sum(x)",
                                         "mean(x)",
                                         "zeros((0, 3))",
                                         "ones(3)",
                                         "arange(5)",
                                         "(1, 2)",
                                         "[]",
                                         "()",
                                         "{}",
                                         "reshape(x, (-1,))",
                                         "x.at[0].set(1)",
                                         "lambda a: a",
                                         "einsum('ij,jk->ik', x, x)",
                                         "x[0](1)",
                                         "and",
                                         "not",
                                         "if",
                                         "is",
                                         "in"};
    static const char *const separators = "+-*/()[],.:=<>&|^~%@ ";
    uint32_t at = from + below(to - from + 1), end = at, kind = below(3);
    const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
    if (kind && at < to) {
        bool word = !strchr(separators, text[at]);
        if (!word) end = at + 1;
        while (word && at > from && !strchr(separators, text[at - 1])) at--;
        while (word && end < to && !strchr(separators, text[end])) end++;
    }
    replace(arena, text, at, end, kind == 2 ? "" : piece, m);
}

/* A value that is at the end of what is possible, or beyond. */
static const char *extreme(struct arena *arena)
{
    static const char *const values[] = {"0",
                                         "-0",
                                         "-0.0",
                                         "1e400",
                                         "-1e400",
                                         "2147483647",
                                         "2147483648",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "1e-320",
                                         "1e308",
                                         "1e18",
                                         "65536",
                                         "1000000",
                                         "\"NaN\"",
                                         "\"nan\"",
                                         "\"Infinity\"",
                                         "\"\"",
                                         "\" \"",
                                         "\"$\"",
                                         "\"$1/0\"",
                                         "\"$0\"",
                                         "\"$2**70\"",
                                         "\"\\u0000\"",
                                         "\"\\ud83d\\ude00\"",
                                         "\"**\"",
                                         "\"*\"",
                                         "\"{a,b}\"",
                                         "\".\"",
                                         "null",
                                         "[[]]",
                                         "[null]",
                                         "{\"type\": null}",
                                         "{\"type\": \"\"}",
                                         "{\"\": 0}",
                                         "[0]",
                                         "[1, 1, 1, 1, 1, 1, 1, 1, 1]"};
    uint32_t kind = below(12);
    struct str out = STR(arena);
    if (kind > 1) return values[below(sizeof values / sizeof *values)];
    if (kind == 0) { /* deep */
        static const char *const open[] = {"[", "{\"type\": ", "\"((((", "{\"type\": \"sequential\", \"layers\": ["},
                                 *const close[] = {"]", "}", "\"", "]}"};
        uint32_t form = below(4), depth = form == 2 ? 1 : 10u << below(8);
        for (uint32_t i = 0; i < depth; i++) str_add(&out, open[form]);
        for (uint32_t i = 0; i < depth; i++) str_add(&out, close[form]);
    } else { /* long */
        static const char *const parts[] = {"a", "(", "-", "x+", "[", "~", "a.", "1**", "{", "*"};
        const char *part = parts[below(10)];
        uint32_t times = 10u << below(11);
        str_add(&out, "\"");
        for (uint32_t i = 0; i < times; i++) str_add(&out, part);
        str_add(&out, "\"");
    }
    return str_text(&out);
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
        int kind = *value == '"'   ? JSON_STRING
                   : *value == '7' ? JSON_NUMBER
                   : *value == 't' ? JSON_TRUE
                   : *value == '[' ? JSON_ARRAY
                                   : JSON_OBJECT;
        if (kind != v->kind && !(kind == JSON_TRUE && v->kind == JSON_FALSE)) return value;
    }
}

/* Members of these objects are names that the document gives, and so none is required. */
static bool gives_names(const struct json *json, const struct json_value *v)
{
    static const char *const keys[] = {"inputs",  "constants",  "define", "params",
                                       "metrics", "transforms", "labels", "axes"};
    const char *key = json->values[v->parent].key;
    for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

/* Leaves out a member, with the comma before or after it. */
static void drop(struct arena *arena, const char *text, const struct json *json, const struct json_value *v,
                 struct mutant *m)
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
    if (!json_scan(arena, text, strlen(text), NULL, &json, &error)) return false;
    for (int tries = 0; tries < 200; tries++) {
        const struct json_value *v = &json.values[1 + below(json.count - 1)];
        bool type = v->key && strcmp(v->key, "type") == 0, string = v->kind == JSON_STRING,
             pattern = is_pattern(&json, v);
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
            const char *values[] = {"0",
                                    "-1",
                                    "2.5",
                                    "1e12",
                                    arena_format(arena, "-%.*s", (int)v->length, text + from),
                                    arena_format(arena, "%.*s0", (int)v->length, text + from)};
            replace(arena, text, from, to, values[below(6)], m);
            return true;
        }
        case EXPRESSION:
            if (!string || type || pattern || !v->length) break;
            change_expression(arena, text, from + 1, to - 1, m);
            return true;
        case DTYPE: {
            static const char *const dtypes[] = {"bool",    "int8",   "int16",   "int32",     "uint8",
                                                 "uint16",  "uint32", "float16", "bfloat16",  "float32",
                                                 "float64", "int64",  "int4",    "complex64", "float8_e4m3fn"};
            if (!string || ir_dtype_find(v->string) == IR_TUPLE) break;
            replace(arena, text, from + 1, to - 1, dtypes[below(15)], m);
            return true;
        }
        case EXTREME: replace(arena, text, from, to, extreme(arena), m); return true;
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

static void show(const char *path, enum typo typo, const struct mutant *m, const struct diags *diags)
{
    const char *at = m->text;
    for (uint32_t line = 1; line < m->line; line++) at = strchr(at, '\n') + 1;
    fprintf(stderr, "== %s: %s, line %u: %.*s\n", path, typo_names[typo], m->line, (int)strcspn(at, "\n"), at);
    diags_print(diags, stderr, false, false);
}

/* What the driver was asked for. */
struct fuzz {
    uint32_t rounds;
    const char *keep;
    bool shows;
    double slow;
    glob_t paths;
};

static struct fuzz asked(void)
{
    const char *rounds = getenv("STEPC_FUZZ_ROUNDS"), *seed = getenv("STEPC_FUZZ_SEED"),
               *slow = getenv("STEPC_FUZZ_SLOW");
    const char *documents = getenv("STEPC_FUZZ_DOCUMENTS");
    struct fuzz f = {.rounds = rounds ? (uint32_t)atoi(rounds) : 3000,
                     .keep = getenv("STEPC_FUZZ_KEEP"),
                     .shows = getenv("STEPC_FUZZ_SHOW") != NULL,
                     .slow = slow ? atof(slow) : 0};
    if (seed) state = (uint32_t)strtoul(seed, NULL, 10);
    ck_assert_int_eq(glob(documents ? documents : "tests/parity/cases/*/*.json", GLOB_BRACE, NULL, &f.paths), 0);
    return f;
}

static struct ir_module *compile(const struct fuzz *f, const char *path, const char *text, struct diags *diags)
{
    struct fe_options options = {0};
    clock_t start = clock();
    if (f->keep) {
        FILE *file = fopen(f->keep, "w");
        ck_assert_msg(file != NULL, "%s", f->keep);
        fputs(text, file);
        fclose(file);
    }
    struct ir_module *module = fe_compile("typo.json", text, strlen(text), &options, diags);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (f->slow > 0 && seconds > f->slow) fprintf(stderr, "== %s: %.1f s\n%s\n", path, seconds, text);
    ck_assert_msg((module != NULL) == (diags->errors == 0), "%s: %s", path, text);
    return module;
}

/* One mutant; whether it was refused, and with a diagnostic at the line of its typo. */
static void try_typo(const struct fuzz *f, const char *path, enum typo typo, bool *is_refused, bool *is_good)
{
    struct arena arena = {0};
    struct mutant m;
    struct diags diags = {.arena = &arena};
    char *text = document_text(&arena, path);
    join_numbers(text);
    *is_refused = *is_good = false;
    if (mutate(&arena, text, typo, &m)) {
        bool twice = below(8) == 0; /* a second one, which may hide the first */
        if (twice) {
            struct json json;
            struct json_error error;
            struct mutant second;
            if (json_scan(&arena, m.text, strlen(m.text), NULL, &json, &error) &&
                mutate(&arena, m.text, (enum typo)below(TYPOS), &second))
                m = second;
        }
        struct ir_module *module = compile(f, path, m.text, &diags);
        *is_refused = !module && !twice;
        *is_good = *is_refused && found(&diags, &m);
        if (*is_refused && !*is_good && f->shows) show(path, typo, &m, &diags);
        if (module) ir_module_free(module);
    }
    arena_free(&arena);
}

START_TEST(typos)
{
    uint32_t refused[TYPOS] = {0}, good[TYPOS] = {0}, all = 0, right = 0;
    struct fuzz f = asked();
    for (uint32_t round = 0; round < f.rounds; round++) {
        const char *path = f.paths.gl_pathv[below((uint32_t)f.paths.gl_pathc)];
        enum typo typo = (enum typo)(round % TYPOS);
        bool is_refused, is_good;
        try_typo(&f, path, typo, &is_refused, &is_good);
        refused[typo] += is_refused;
        good[typo] += is_good;
    }
    globfree(&f.paths);
    for (int t = 0; t < TYPOS; t++) {
        printf("%-18s %4u refused, %4u with a diagnostic at the line\n", typo_names[t], refused[t], good[t]);
        all += refused[t];
        right += good[t];
    }
    fflush(stdout);
    ck_assert_uint_gt(all, f.rounds / 3);
    ck_assert_msg(right * 100 >= all * 95, "%u of %u diagnostics point at the line", right, all);
}
END_TEST

int main(void) { return run_case("typos", CASE_OF(240, typos)); }
