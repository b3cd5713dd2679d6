#include "runtime/header_scan.h"
#include "ir/base/str.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static bool fail(struct rt_scan *s, const char *fault)
{
    if (!s->fault) s->fault = fault;
    return false;
}

static char skip(struct rt_scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) s->at++;
    return s->at < s->end ? *s->at : 0;
}

bool scan_open(struct rt_scan *s, char bracket)
{
    if (skip(s) != bracket) return fail(s, bracket == '{' ? "expected '{'" : "expected '['");
    s->at++;
    s->first = true;
    return true;
}

bool scan_more(struct rt_scan *s, char bracket)
{
    if (s->fault) return false;
    char c = skip(s);
    if (c == bracket) {
        s->at++;
        s->first = false; /* the one around it has a member: this one */
        return false;
    }
    if (!s->first) {
        if (c != ',') return fail(s, "expected ',' or the end of the object or list");
        s->at++;
    }
    s->first = false;
    return true;
}

bool scan_end(struct rt_scan *s)
{
    skip(s);
    return s->at == s->end || fail(s, "text after the end");
}

bool scan_whole(struct rt_scan *s, uint64_t *out)
{
    skip(s);
    const char *begin = s->at;
    uint64_t n = 0;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9' && n < (uint64_t)1 << 53)
        n = n * 10 + (uint64_t)(*s->at++ - '0');
    if (s->at == begin || n >> 53 || (*begin == '0' && s->at - begin > 1) ||
        (s->at < s->end && (*s->at == '.' || *s->at == 'e' || *s->at == 'E')))
        return fail(s, "expected a whole number below 2^53");
    *out = n;
    return true;
}

/* Four hexadecimal digits at s->at. */
static int32_t hex4(struct rt_scan *s)
{
    int32_t n = 0;
    if (s->end - s->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = *s->at++;
        int32_t d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0) return -1;
        n = n * 16 + d;
    }
    return n;
}

/* After a backslash: writes what it stands for; NULL: fault. */
static char *escape(struct rt_scan *s, char *to)
{
    static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = s->at < s->end ? *s->at++ : 0;
    for (int i = 0; i < 8; i++)
        if (from[i] == c) {
            *to++ = meant[i];
            return to;
        }
    int32_t u = c == 'u' ? hex4(s) : -1;
    if (u >= 0xd800 && u < 0xdc00) { /* a pair */
        int32_t low = s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u' ? (s->at += 2, hex4(s)) : -1;
        u = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00) : -1;
    } else if (u >= 0xdc00 && u < 0xe000) u = -1;
    if (u <= 0) return NULL;
    int more = u < 0x80 ? 0 : u < 0x800 ? 1 : u < 0x10000 ? 2 : 3;
    *to++ = (char)(more ? (0xff << (7 - more)) | u >> 6 * more : u);
    while (more--) *to++ = (char)(0x80 | (u >> 6 * more & 0x3f));
    return to;
}

char *scan_string(struct rt_scan *s)
{
    if (skip(s) != '"') return fail(s, "expected a string"), NULL;
    char *begin = ++s->at, *to = begin;
    while (s->at < s->end && *s->at != '"') {
        if (*s->at == '\\') {
            s->at++;
            to = escape(s, to);
            if (!to) return fail(s, "not an escape of JSON"), NULL;
            continue;
        }
        size_t n = (unsigned char)*s->at < 0x20 ? 0 : str_utf8((const unsigned char *)s->at, (size_t)(s->end - s->at));
        if (!n) return fail(s, "a control character or invalid UTF-8 in a string"), NULL;
        while (n--) *to++ = *s->at++;
    }
    if (s->at == s->end) return fail(s, "a string without its end"), NULL;
    s->at++;
    *to = 0;
    return begin;
}

char *scan_key(struct rt_scan *s)
{
    char *key = scan_string(s);
    if (!key) return NULL;
    if (skip(s) != ':') return fail(s, "expected ':'"), NULL;
    s->at++;
    return key;
}

bool scan_number(struct rt_scan *s, double *out)
{
    if (skip(s) == '"') {
        const char *text = scan_string(s);
        bool infinite = text && strcmp(text + (*text == '-'), "Infinity") == 0;
        *out = infinite ? *text == '-' ? -INFINITY : INFINITY : NAN;
        return text && (infinite || strcmp(text, "NaN") == 0 || fail(s, "expected a number"));
    }
    long double x = 0, power = 1, base = 10; /* wide enough that 17 digits give the double that they were made of */
    double sign = 1;
    int scale = 0, places = 0, exponent = 0;
    const char *begin = s->at;
    if (s->at < s->end && *s->at == '-') sign = -1, begin = ++s->at;
    for (; s->at < s->end && ((*s->at >= '0' && *s->at <= '9') || (*s->at == '.' && !places && s->at > begin));
         s->at++) {
        if (*s->at == '.') places = 1;
        else x = x * 10 + (*s->at - '0'), scale -= places;
    }
    if (s->at == begin) return fail(s, "expected a number");
    if (s->at < s->end && (*s->at | 32) == 'e') {
        int up = 1;
        if (++s->at < s->end && (*s->at == '-' || *s->at == '+')) up = *s->at++ == '-' ? -1 : 1;
        while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
            exponent = exponent * 10 + (*s->at++ - '0');
            if (exponent > 4000) exponent = 4000;
        }
        scale += up * exponent;
    }
    for (int n = scale < 0 ? -scale : scale; n; n /= 2, base *= base)
        if (n & 1) power *= base;
    *out = sign * (double)(scale < 0 ? x / power : x * power);
    return true;
}

bool scan_skip(struct rt_scan *s, int depth)
{
    char c = skip(s);
    if (c == '"') return scan_string(s) != NULL;
    if (c == '{' || c == '[') {
        char close = c == '{' ? '}' : ']';
        if (!depth) return fail(s, "too many brackets");
        scan_open(s, c);
        while (scan_more(s, close))
            if ((c == '{' && !scan_key(s)) || !scan_skip(s, depth - 1)) break;
        return !s->fault;
    }
    static const char words[3][6] = {"true", "false", "null"};
    double ignored;
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= n && strncmp(s->at, words[i], n) == 0) return s->at += n, true;
    }
    return scan_number(s, &ignored);
}
