/* The strict JSON reader. One loop over the text with an explicit stack of open arrays and objects, so depth costs no
 * C stack; every byte is looked at once, except that keys are compared through a hash map when an object closes.
 * Follows RFC 8259 and RFC 3629 (UTF-8). Numbers are read without the locale. */
#include "ir/base/json_scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/map.h"
#include "ir/base/str.h"

enum { NUMBER_LIMIT = 63, SMALL_OBJECT = 12 };
static const struct json_limits default_limits = {64u << 20, 128, 1000000};

struct open {
    uint32_t value, last;
}; /* last: newest child, 0 = none yet */
struct scan {
    struct arena *arena;
    const char *text;
    size_t length, at;
    struct json_limits limits;
    struct json *out;
    struct json_error *error;
    size_t capacity;
    VEC(struct open) stack;
    const char *key; /* of the member about to be read */
    uint32_t key_offset, key_length;
    uint32_t current; /* the value being read, for the place of an error */
};

static bool fail(struct scan *s, size_t at, size_t length, const char *code, const char *message)
{
    *s->error = (struct json_error){.code = code,
                                    .message = message,
                                    .offset = (uint32_t)at,
                                    .length = (uint32_t)(length ? length : 1),
                                    .value = s->current};
    return false;
}

/* ---------------------------------------------------------------- characters */

static size_t utf8_put(char *to, uint32_t c)
{
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(first[n] | c);
    return n;
}

static bool hex4(const struct scan *s, size_t at, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = at + i < s->length ? s->text[at + i] : 0;
        uint32_t digit;
        if (c >= '0' && c <= '9') digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A' + 10);
        else return false;
        *out = *out << 4 | digit;
    }
    return true;
}

/* The character at `at` as it is named in messages. */
static const char *found(struct scan *s, size_t at)
{
    if (at >= s->length) return "the end of the text";
    unsigned char c = (unsigned char)s->text[at];
    if (c == '\n') return "the end of the line";
    if (c < 0x20 || c == 0x7f) return arena_format(s->arena, "the control character 0x%02x", c);
    size_t n = str_utf8((const unsigned char *)s->text + at, s->length - at);
    if (!n) return arena_format(s->arena, "the byte 0x%02x, which is not UTF-8", c);
    return arena_format(s->arena, "'%.*s'", (int)n, s->text + at);
}

static bool expected(struct scan *s, const char *what)
{
    size_t at = s->at;
    if (at >= s->length)
        return fail(s, at, 1, "E0002", arena_format(s->arena, "the text ends where %s was expected", what));
    if (s->text[at] == '/')
        return fail(s, at, 2, "E0009", "JSON has no comments; a key \"//\" holding a string is allowed anywhere");
    if (s->text[at] == '\'') return fail(s, at, 1, "E0009", "JSON strings and keys are written in double quotes");
    size_t n = str_utf8((const unsigned char *)s->text + at, s->length - at);
    const char *code = n ? "E0001" : "E0007";
    return fail(s, at, n, code, arena_format(s->arena, "expected %s, found %s", what, found(s, at)));
}

static void skip_space(struct scan *s)
{
    while (s->at < s->length) {
        char c = s->text[s->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
        s->at++;
    }
}

/* ---------------------------------------------------------------- strings */

/* An escape at s->at (the backslash): appends its character to `to`, returns the bytes written, 0 on an error. */
static size_t scan_escape(struct scan *s, char *to)
{
    static const char plain[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    size_t at = s->at;
    char c = at + 1 < s->length ? s->text[at + 1] : 0;
    const char *hit = c ? strchr(plain, c) : NULL;
    if (hit) {
        *to = meaning[hit - plain];
        s->at += 2;
        return 1;
    }
    uint32_t high, low = 0;
    if (c != 'u' || !hex4(s, at + 2, &high)) {
        fail(s, at, 2, "E0005", "not an escape of JSON; they are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
        return 0;
    }
    s->at += 6;
    if (high == 0) {
        fail(s, at, 6, "E0008", "\\u0000 is not allowed in strings here");
        return 0;
    }
    if (high < 0xd800 || high > 0xdfff) return utf8_put(to, high);
    bool pair = s->at + 1 < s->length && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u' &&
                hex4(s, s->at + 2, &low) && low >= 0xdc00 && low <= 0xdfff;
    if (high >= 0xdc00 || !pair) {
        fail(s, at, 6, "E0006", "half of a surrogate pair: \\uD800 to \\uDFFF are characters only in pairs");
        return 0;
    }
    s->at += 6;
    return utf8_put(to, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
}

/* The string whose opening quote is at s->at. */
static const char *scan_string(struct scan *s)
{
    size_t start = s->at++, end = s->at;
    while (end < s->length && s->text[end] != '"') end += s->text[end] == '\\' ? 2u : 1u;
    if (end > s->length) end = s->length;
    char *to = arena_alloc(s->arena, end - start + 1), *p = to;
    for (;;) {
        if (s->at >= s->length) {
            s->at = s->length;
            fail(s, start, 1, "E0002", "this string is not closed");
            return NULL;
        }
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"') break;
        size_t n;
        if (c == '\\') {
            if (!(n = scan_escape(s, p))) return NULL;
            p += n;
            continue;
        }
        if (c < 0x20) {
            bool line = c == '\n' || c == '\r';
            if (line) fail(s, start, s->at - start, "E0002", "this string is not closed on its line");
            else
                fail(s, s->at, 1, "E0004",
                     arena_format(s->arena, "the control character 0x%02x must be written as \\u%04x in a string", c,
                                  c));
            return NULL;
        }
        if (!(n = str_utf8((const unsigned char *)s->text + s->at, s->length - s->at))) {
            fail(s, s->at, 1, "E0007", arena_format(s->arena, "the byte 0x%02x is not valid UTF-8 here", c));
            return NULL;
        }
        memcpy(p, s->text + s->at, n);
        p += n;
        s->at += n;
    }
    s->at++;
    *p = 0;
    return to;
}

/* ---------------------------------------------------------------- numbers */

static size_t skip_digits(const struct scan *s, size_t at)
{
    while (at < s->length && s->text[at] >= '0' && s->text[at] <= '9') at++;
    return at;
}

/* Writes the number as digits and an exponent without a separator: strtod then needs no locale. */
static double read_decimal(const char *text, size_t length)
{
    char digits[NUMBER_LIMIT + 24];
    size_t n = 0, i = 0;
    long exponent = 0;
    bool fraction = false;
    for (; i < length && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') fraction = true;
        else {
            digits[n++] = text[i];
            exponent -= fraction;
        }
    }
    if (i < length) {
        char tail[NUMBER_LIMIT + 1];
        memcpy(tail, text + i + 1, length - i - 1);
        tail[length - i - 1] = 0;
        long given = strtol(tail, NULL, 10); /* saturates */
        if (given > 100000) given = 100000;
        if (given < -100000) given = -100000;
        exponent += given;
    }
    snprintf(digits + n, sizeof digits - n, "e%ld", exponent);
    return strtod(digits, NULL);
}

static bool scan_number(struct scan *s, struct json_value *v)
{
    size_t start = s->at, at = start;
    const char *text = s->text;
    if (text[at] == '-') at++;
    size_t whole = at;
    at = skip_digits(s, at);
    if (at == whole) {
        s->at = at;
        return expected(s, "a digit");
    }
    if (text[whole] == '0' && at > whole + 1)
        return fail(s, start, at - start, "E0010", "a number does not start with 0 followed by digits");
    bool integer = true;
    if (at < s->length && text[at] == '.') {
        integer = false;
        size_t end = skip_digits(s, at + 1);
        if (end == at + 1) return fail(s, start, end - start, "E0010", "a digit must follow the decimal point");
        at = end;
    }
    if (at < s->length && (text[at] == 'e' || text[at] == 'E')) {
        integer = false;
        size_t digits = at + 1;
        if (digits < s->length && (text[digits] == '+' || text[digits] == '-')) digits++;
        size_t end = skip_digits(s, digits);
        if (end == digits) return fail(s, start, end - start, "E0010", "the exponent has no digits");
        at = end;
    }
    size_t length = at - start;
    if (length > NUMBER_LIMIT)
        return fail(s, start, length, "E0011",
                    arena_format(s->arena, "a number of %zu characters; at most %d are read", length, NUMBER_LIMIT));
    v->number = read_decimal(text + start, length);
    if (isinf(v->number))
        return fail(s, start, length, "E0013",
                    arena_format(s->arena, "%.*s is too large for a number; the largest is about 1.8e308", (int)length,
                                 text + start));
    if (integer && fabs(v->number) > 9007199254740991.0)
        return fail(s, start, length, "E0012",
                    arena_format(s->arena, "%.*s has no exact value; integers lie within \xc2\xb1(2^53-1)", (int)length,
                                 text + start));
    s->at = at;
    return true;
}

/* ---------------------------------------------------------------- values */

static bool scan_word(struct scan *s, struct json_value *v)
{
    static const struct {
        const char *word;
        uint8_t kind;
    } words[] = {{"null", JSON_NULL}, {"true", JSON_TRUE}, {"false", JSON_FALSE}};
    size_t end = s->at;
    while (end < s->length && ((s->text[end] | 32) >= 'a' && (s->text[end] | 32) <= 'z')) end++;
    size_t n = end - s->at;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != n || memcmp(words[i].word, s->text + s->at, n) != 0) continue;
        v->kind = words[i].kind;
        s->at = end;
        return true;
    }
    return fail(s, s->at, n, "E0009",
                arena_format(s->arena, "%.*s is not a JSON value; words are only null, true and false",
                             (int)(n > 40 ? 40 : n), s->text + s->at));
}

/* A new value at s->at, linked to its parent. */
static struct json_value *new_value(struct scan *s)
{
    struct json *out = s->out;
    if (out->count >= s->limits.values) {
        fail(s, s->at, 1, "E0016", arena_format(s->arena, "more than %u values", s->limits.values));
        return NULL;
    }
    out->values = arena_grow(s->arena, out->values, out->count, &s->capacity, sizeof *out->values);
    uint32_t index = out->count++;
    struct json_value *v = &out->values[index];
    *v = (struct json_value){.offset = (uint32_t)s->at, .length = 1};
    if (s->stack.count) {
        struct open *o = &s->stack.items[s->stack.count - 1];
        struct json_value *parent = &out->values[o->value];
        v->parent = o->value;
        v->key = s->key;
        v->key_offset = s->key_offset;
        v->key_length = s->key_length;
        if (o->last) out->values[o->last].next = index;
        else parent->first = index;
        o->last = index;
        parent->count++;
    }
    s->key = NULL;
    s->current = index;
    return v;
}

static bool twice(struct scan *s, const struct json_value *first, uint32_t second)
{
    const struct json_value *v = &s->out->values[second];
    s->current = second;
    fail(s, v->key_offset, v->key_length, "E0014", arena_format(s->arena, "duplicate key \"%s\"", v->key));
    s->error->other_offset = first->key_offset;
    s->error->other_length = first->key_length;
    return false;
}

static bool check_duplicates(struct scan *s, const struct json_value *object)
{
    const struct json_value *values = s->out->values;
    if (object->count <= SMALL_OBJECT) {
        for (uint32_t i = object->first; i; i = values[i].next)
            for (uint32_t j = object->first; j != i; j = values[j].next)
                if (strcmp(values[i].key, values[j].key) == 0) return twice(s, &values[j], i);
        return true;
    }
    struct map seen = MAP(s->arena);
    for (uint32_t i = object->first; i; i = values[i].next)
        if (!map_set(&seen, values[i].key, i)) {
            uint32_t j = object->first;
            while (strcmp(values[j].key, values[i].key) != 0) j = values[j].next;
            return twice(s, &values[j], i);
        }
    return true;
}

static bool scan_key(struct scan *s)
{
    s->key_offset = (uint32_t)s->at;
    if (!(s->key = scan_string(s))) return false;
    s->key_length = (uint32_t)s->at - s->key_offset;
    skip_space(s);
    if (s->at >= s->length || s->text[s->at] != ':') return expected(s, "':' after the key");
    s->at++;
    skip_space(s);
    return true;
}

static bool open_value(struct scan *s, uint8_t kind)
{
    s->out->values[s->current].kind = kind;
    if (s->stack.count >= s->limits.depth)
        return fail(s, s->at, 1, "E0015", arena_format(s->arena, "nested deeper than %u levels", s->limits.depth));
    vec_push(s->arena, &s->stack, ((struct open){s->current, 0}));
    s->at++;
    skip_space(s);
    return true;
}

/* Reads one value; of an array or object only the opening bracket. */
static bool scan_value(struct scan *s)
{
    if (s->at >= s->length) return expected(s, "a value");
    struct json_value *v = new_value(s);
    if (!v) return false;
    char c = s->text[s->at];
    size_t start = s->at;
    bool good;
    if (c == '{') return open_value(s, JSON_OBJECT);
    if (c == '[') return open_value(s, JSON_ARRAY);
    if (c == '"') {
        v->kind = JSON_STRING;
        v->string = scan_string(s);
        good = v->string != NULL;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        v->kind = JSON_NUMBER;
        good = scan_number(s, v);
    } else if ((c | 32) >= 'a' && (c | 32) <= 'z') {
        good = scan_word(s, v);
    } else if (c == '+' || c == '.') {
        good = fail(s, s->at, 1, "E0010", "a number starts with a digit or '-'");
    } else {
        good = expected(s, "a value");
    }
    v->length = (uint32_t)(good ? s->at - start : s->error->length);
    return good;
}

/* After a value or an opening bracket: closes what closes here. *more: another value follows. */
static bool scan_after(struct scan *s, bool opened, bool *more)
{
    *more = false;
    for (; s->stack.count; opened = false) {
        struct open *o = &s->stack.items[s->stack.count - 1];
        struct json_value *v = &s->out->values[o->value];
        bool object = v->kind == JSON_OBJECT;
        char close = object ? '}' : ']';
        s->current = o->value;
        skip_space(s);
        char c = s->at < s->length ? s->text[s->at] : 0;
        if (c == close) {
            s->at++;
            v->length = (uint32_t)s->at - v->offset;
            if (object && !check_duplicates(s, v)) return false;
            s->stack.count--;
            continue;
        }
        if (!opened) {
            if (c != ',') return expected(s, object ? "',' or '}'" : "',' or ']'");
            size_t comma = s->at++;
            skip_space(s);
            c = s->at < s->length ? s->text[s->at] : 0;
            if (c == close) {
                fail(s, s->at, 1, "E0001", arena_format(s->arena, "no comma may stand before '%c'", close));
                s->error->other_offset = (uint32_t)comma;
                s->error->other_length = 1;
                return false;
            }
        }
        *more = true;
        if (!object) return true;
        if (c != '"') return expected(s, opened ? "a key in double quotes or '}'" : "a key in double quotes");
        return scan_key(s);
    }
    return true;
}

bool json_scan(struct arena *arena, const char *text, size_t length, const struct json_limits *limits, struct json *out,
               struct json_error *error)
{
    struct scan s = {
        .arena = arena, .text = text, .length = length, .limits = default_limits, .out = out, .error = error};
    if (limits && limits->bytes) s.limits.bytes = limits->bytes;
    if (limits && limits->depth) s.limits.depth = limits->depth;
    if (limits && limits->values) s.limits.values = limits->values;
    *out = (struct json){.text = text, .length = length};
    if (length > s.limits.bytes || length > UINT32_MAX - 2)
        return fail(&s, 0, 1, "E0017",
                    arena_format(arena, "a text of %zu bytes; at most %zu are read", length, s.limits.bytes));
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return fail(&s, 0, 3, "E0018", "the text starts with a byte order mark, which JSON does not have");
    skip_space(&s);
    if (s.at == length) return fail(&s, length, 1, "E0002", "the text is empty; a JSON value was expected");
    for (bool more = true; more;) {
        size_t open = s.stack.count;
        if (!scan_value(&s) || !scan_after(&s, s.stack.count > open, &more)) return false;
    }
    skip_space(&s);
    s.current = 0;
    if (s.at < length) return fail(&s, s.at, 1, "E0003", "text follows the end of the JSON value");
    return true;
}

const struct json_value *json_get(const struct json *json, const struct json_value *object, const char *key)
{
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (uint32_t i = object->first; i; i = json->values[i].next)
        if (strcmp(json->values[i].key, key) == 0) return &json->values[i];
    return NULL;
}
