/* Growing text, numbers in their shortest form, distances between names, globs. Nothing here depends on the
 * locale: the runtime links this file into programs that may have set one. */
#include "ir/base/str.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- text */

static char *str_room(struct str *s, size_t more)
{
    if (s->capacity - s->length <= more) {
        size_t capacity = s->capacity ? s->capacity * 2 : 64;
        while (capacity - s->length <= more) capacity *= 2;
        char *text = arena_alloc(s->arena, capacity);
        if (s->length) memcpy(text, s->text, s->length);
        s->text = text;
        s->capacity = capacity;
    }
    return s->text + s->length;
}

void str_add_n(struct str *s, const char *text, size_t n)
{
    char *at = str_room(s, n);
    if (n) memcpy(at, text, n);
    s->length += n;
    s->text[s->length] = 0;
}

void str_add(struct str *s, const char *text) { str_add_n(s, text, strlen(text)); }

void str_addf(struct str *s, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n > 0) {
        vsnprintf(str_room(s, (size_t)n), (size_t)n + 1, format, again);
        s->length += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

const char *str_text(struct str *s) { return s->length ? s->text : ""; }

size_t str_utf8(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (left < n) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0; /* overlong */
    if (p[0] == 0xed && p[1] > 0x9f) return 0; /* surrogates */
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return n;
}

void str_add_xml(struct str *s, const char *text)
{
    static const struct {
        char sign;
        const char *name;
    } names[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        size_t i = 0, count = sizeof names / sizeof *names;
        while (i < count && names[i].sign != *text) i++;
        n = str_utf8((const unsigned char *)text, left);
        if (i < count) str_add(s, names[i].name);
        else if (!n || ((unsigned char)*text < 0x20 && !strchr("\t\n\r", *text))) /* XML has no such character */
            n = 1, str_add(s, "\xef\xbf\xbd");
        else str_add_n(s, text, n);
    }
}

void str_add_json(struct str *s, const char *text)
{
    str_add_n(s, "\"", 1);
    size_t left = strlen(text), n = 1;
    for (const char *p = text; *p; p += n, left -= n) {
        unsigned char c = (unsigned char)*p;
        n = 1;
        if (c == '"' || c == '\\') str_addf(s, "\\%c", c);
        else if (c == '\n') str_add(s, "\\n");
        else if (c == '\t') str_add(s, "\\t");
        else if (c == '\r') str_add(s, "\\r");
        else if (c < 0x20 || c == 0x7f) str_addf(s, "\\u%04x", c);
        else if (!(n = str_utf8((const unsigned char *)p, left)))
            n = 1, str_add(s, "\xef\xbf\xbd"); /* of what is wrong in a document */
        else str_add_n(s, p, n);
    }
    str_add_n(s, "\"", 1);
}

/* ---------------------------------------------------------------- numbers */

/* The digits of x with `precision` of them, and the decimal exponent of the first one. */
static int decimal_digits(double x, int precision, char digits[32])
{
    char text[48];
    snprintf(text, sizeof text, "%.*e", precision - 1, x);
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9' && n < 31) digits[n++] = *p; /* steps over the locale's separator */
    digits[n] = 0;
    return *p ? atoi(p + 1) : 0;
}

static bool reads_back(double x, const char *digits, int exponent, bool single)
{
    char text[64]; /* no separator, so no locale */
    snprintf(text, sizeof text, "%se%d", digits, exponent - (int)strlen(digits) + 1);
    return single ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x;
}

void str_add_number(struct str *s, double x, bool single)
{
    if (isnan(x)) {
        str_add(s, "NaN");
        return;
    }
    if (signbit(x)) str_add(s, isinf(x) ? "-Infinity" : "-");
    else if (isinf(x)) str_add(s, "Infinity");
    if (isinf(x)) return;
    if (single) x = (double)(float)x;
    x = fabs(x);
    char digits[32];
    int exponent = 0;
    for (int precision = 1; precision <= 17; precision++) {
        exponent = decimal_digits(x, precision, digits);
        if (reads_back(x, digits, exponent, single)) break;
    }
    int n = (int)strlen(digits);
    while (n > 1 && digits[n - 1] == '0') digits[--n] = 0;
    if (exponent < -5 || exponent > 16) {
        str_add_n(s, digits, 1);
        if (n > 1) str_addf(s, ".%s", digits + 1);
        str_addf(s, "e%+03d", exponent);
    } else if (exponent < 0) {
        str_addf(s, "0.%.*s%s", -exponent - 1, "00000", digits);
    } else if (exponent >= n - 1) {
        str_addf(s, "%s%.*s", digits, exponent - (n - 1), "0000000000000000");
    } else {
        str_addf(s, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
}

/* ---------------------------------------------------------------- did you mean */

size_t str_choices(struct arena *arena, const char *choices, const char **names, size_t room)
{
    size_t count = 0;
    for (const char *p = choices; p && *p && count < room;) {
        size_t n = strcspn(p, "|");
        names[count++] = arena_string_n(arena, p, n);
        p += n + (p[n] == '|');
    }
    return count;
}

enum { NAME_LIMIT = 128 }; /* longer names have no neighbours */

size_t str_distance(const char *a, const char *b)
{ /* restricted Damerau-Levenshtein: three rows of the table */
    size_t n = strlen(a), m = strlen(b);
    if (n > NAME_LIMIT || m > NAME_LIMIT) return strcmp(a, b) ? (n > m ? n : m) : 0;
    uint8_t rows[3][NAME_LIMIT + 1];
    uint8_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) last[j] = (uint8_t)j;
    memset(before, 0, sizeof rows[0]);
    for (size_t i = 1; i <= n; i++) {
        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = (uint8_t)best;
        }
        uint8_t *free_row = before;
        before = last, last = row, row = free_row;
    }
    return last[m];
}

/* Whether a lacks only letters of b. */
static bool is_within(const char *a, const char *b)
{
    for (; *a && *b; b++) a += *a == *b;
    return !*a;
}

/* Without case and separators: LayerNorm and layer_norm are one name. Longer ones than NAME_LIMIT stay as they are. */
static const char *folded(const char *name, char *room)
{
    size_t n = 0;
    if (strlen(name) > NAME_LIMIT) return name;
    for (; *name; name++)
        if (*name != '_' && *name != '-' && *name != ' ')
            room[n++] = (char)(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
    room[n] = 0;
    return room;
}

bool str_same_name(const char *a, const char *b)
{
    char rooms[2][NAME_LIMIT + 1];
    return strcmp(folded(a, rooms[0]), folded(b, rooms[1])) == 0;
}

/* What has another number is another thing: b1 and b2, float16 and float32, log2 and log10. */
static bool same_digits(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    for (;; a++, b++) {
        a += strcspn(a, digits), b += strcspn(b, digits);
        if (*a != *b || !*a) return *a == *b;
    }
}

/* What begins otherwise, or has something behind it, or ends otherwise and is short, is another thing: sgd and asgd,
 * adam and adamw, sam and sac. A letter may be missing at the end, and an s be too much. */
static bool is_another(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (*a != *b || !n) return true;
    if (n > m && strncmp(a, b, m) == 0) return n > m + 1 || a[m] != 's';
    return a[n - 1] != b[m - 1] && (strncmp(a, b, n) == 0 ? a[n - 1] >= '0' && a[n - 1] <= '9' : n < 8);
}

static bool same_end(const char *a, const char *b) { return *a && *b && a[strlen(a) - 1] == b[strlen(b) - 1]; }

/* Letters exchanged with their neighbours, or doubled, or no longer doubled: what a hand does, not who gives a name. */
static bool is_slip(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    if (a[0] && b[0] && a[0] == b[1] && a[1] == b[0]) return strcmp(a + 2, b + 2) == 0;
    return (*a && strcmp(a + 1, b) == 0 && a[0] == a[-1]) || (*b && strcmp(b + 1, a) == 0 && b[0] == b[-1]);
}

/* Of names equally near, the one with a letter too many or too few comes before one with another letter. It is sure if
 * only case and separators differ, or one slip of the hand in a word of five letters or more, or one letter of a long
 * name, and no other is as near. */
const char *str_nearest_sure(const char *name, const char *const *names, size_t count, bool *sure)
{
    char rooms[2][NAME_LIMIT + 2]; /* is_slip looks at the letter before the first */
    const char *best = NULL, *found = folded(name, rooms[0] + 1);
    size_t best_distance = 0;
    bool unused, strict = sure != NULL;
    if (!sure) sure = &unused;
    rooms[0][0] = rooms[1][0] = *sure = 0;
    for (size_t i = 0; i < count; i++) {
        const char *other = folded(names[i], rooms[1] + 1);
        size_t longer = strlen(found) > strlen(other) ? strlen(found) : strlen(other);
        size_t distance = str_distance(found, other);
        bool slip = is_slip(found, other), near = distance == 0 || (slip && longer >= 5);
        if (distance > (longer < 2 ? 0 : longer < 8 ? 1 : longer < 14 ? 2 : 3)) continue;
        if (!slip && !same_digits(found, other)) continue;
        near |= distance == 1 && longer >= 8 && same_end(found, other);
        if (strict && !slip && distance && is_another(found, other)) continue;
        distance = 2 * distance + (distance && !is_within(found, other) && !is_within(other, found));
        if (best && distance / 2 == best_distance / 2 && distance && strcmp(best, names[i])) *sure = false;
        if (best && distance >= best_distance) continue;
        *sure = near && !(best && best_distance / 2 == distance / 2);
        best = names[i];
        best_distance = distance;
    }
    return best;
}

const char *str_nearest(const char *name, const char *const *names, size_t count)
{
    return str_nearest_sure(name, names, count, NULL);
}

/* ---------------------------------------------------------------- globs
 * The positions of the pattern are the states of a small automaton, kept as a set, so that no pattern can
 * make the match slower than its length times the path's. Moves that read nothing only go forward. */

enum { GLOB_LIMIT = 1024 }; /* bytes of a pattern; longer ones match nothing */
struct glob_set {
    bool has[GLOB_LIMIT + 4]; /* bytes: bits take three times as much code, in every object */
};
struct glob {
    const char *pattern;
    size_t length;
    uint16_t close[GLOB_LIMIT + 1]; /* of '{', ',' and '}' of a group: where it closes; 0 = an ordinary character */
    uint16_t next[GLOB_LIMIT + 1];  /* of '{' and ',': the next ',' of the group; 0 = none */
    struct glob_set now;
};

static void glob_add(struct glob_set *set, size_t at) { set->has[at] = true; }
static bool glob_has(const struct glob_set *set, size_t at) { return set->has[at]; }

/* Finds the groups of braces, from the right: a brace that is not closed is an ordinary character. */
static void glob_braces(struct glob *g)
{
    uint16_t stack[GLOB_LIMIT], comma[GLOB_LIMIT]; /* per open group: its '}', its leftmost ',' so far */
    size_t depth = 0, opened = 0;
    for (size_t i = 0; i < g->length; i++) opened += g->pattern[i] == '{';
    for (size_t i = g->length; i-- > 0;) {
        char c = g->pattern[i];
        if (c == '}' && depth < opened) {
            comma[depth] = 0;
            stack[depth++] = (uint16_t)i;
        } else if (c == '{') {
            opened--;
            if (!depth) continue;
            depth--;
            g->close[i] = g->close[stack[depth]] = stack[depth];
            g->next[i] = comma[depth];
            for (size_t j = comma[depth]; j; j = g->next[j]) g->close[j] = stack[depth];
        } else if (c == ',' && depth) {
            g->next[i] = comma[depth - 1];
            comma[depth - 1] = (uint16_t)i;
        }
    }
}

/* `**` that stands for whole segments. */
static bool glob_segments(const struct glob *g, size_t at)
{
    const char *p = g->pattern;
    if (p[at] != '*' || p[at + 1] != '*') return false;
    bool starts = at == 0 || p[at - 1] == '.' || p[at - 1] == '{' || p[at - 1] == ',';
    char after = p[at + 2];
    return starts && (after == 0 || after == '.' || after == '}' || after == ',');
}

/* Adds what can be reached without reading. `start`, `end`: whether the path is at the start or end of a segment. */
static void glob_spread(struct glob *g, bool start, bool end, bool finished)
{
    for (size_t at = 0; at < g->length; at++) {
        if (!glob_has(&g->now, at)) continue;
        const char *p = g->pattern + at;
        if (glob_segments(g, at)) {
            if (start && p[2] == '.') glob_add(&g->now, at + 3);
            if (end) glob_add(&g->now, at + 2);
        } else if (*p == '*') {
            glob_add(&g->now, at + 1);
        } else if (*p == '.' && finished && glob_segments(g, at + 1)) {
            glob_add(&g->now, at + 3); /* `a.**` matches `a` */
        } else if (*p == '{' && g->close[at]) {
            glob_add(&g->now, at + 1);
            for (size_t comma = g->next[at]; comma; comma = g->next[comma]) glob_add(&g->now, comma + 1);
        } else if ((*p == ',' || *p == '}') && g->close[at]) {
            glob_add(&g->now, g->close[at] + 1u);
        }
    }
}

static void glob_read(struct glob *g, char c)
{
    struct glob_set next = {{0}};
    for (size_t at = 0; at < g->length; at++) {
        if (!glob_has(&g->now, at) || g->close[at]) continue;
        char p = g->pattern[at];
        if (glob_segments(g, at)) glob_add(&next, at);
        else if (p == '*') {
            if (c != '.') glob_add(&next, at);
        } else if (p == c) {
            glob_add(&next, at + 1);
        }
    }
    g->now = next;
}

bool glob_match(const char *pattern, const char *path)
{
#ifndef STEPC_IN_OBJECT /* of many patterns most differ from a path in a letter before anything that is special */
    size_t same = 0;
    while (pattern[same] == path[same] && path[same] && pattern[same] != '*' && pattern[same] != '{') same++;
    if (pattern[same] != path[same] && !strchr("*{.", pattern[same])) return false; /* `a.**` matches `a` */
#endif
    struct glob g = {.pattern = pattern, .length = strlen(pattern)};
    if (g.length > GLOB_LIMIT) return false;
    glob_braces(&g);
    glob_add(&g.now, 0);
    for (size_t i = 0;; i++) {
        bool finished = path[i] == 0;
        glob_spread(&g, i == 0 || path[i - 1] == '.', finished || path[i] == '.', finished);
        if (finished) return glob_has(&g.now, g.length);
        glob_read(&g, path[i]);
    }
}
