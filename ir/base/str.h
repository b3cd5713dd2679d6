/* Growing text in an arena, and distances between names for "did you mean". */
#ifndef BASE_STR_H
#define BASE_STR_H
#include "ir/base/arena.h"
#include <stdbool.h>

struct str {
    struct arena *arena;
    char *text; /* always terminated once something was added */
    size_t length, capacity;
};

#define STR(arena_pointer) ((struct str){.arena = (arena_pointer)})
void str_add(struct str *, const char *text);
void str_add_n(struct str *, const char *text, size_t n);
void str_addf(struct str *, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *str_text(struct str *); /* "" if empty */
/* The shortest decimal form that reads back as exactly this double; NaN and infinities as "NaN", "Infinity",
 * "-Infinity" without quotes. `single`: as exactly this float. */
void str_add_number(struct str *, double, bool single);
/* The text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void str_add_json(struct str *, const char *text);
void str_add_xml(struct str *, const char *text); /* as content or attribute of XML and HTML */
/* Bytes of the UTF-8 sequence at p, 0 if it is not valid. */
size_t str_utf8(const unsigned char *p, size_t left);

size_t str_distance(const char *, const char *); /* restricted Damerau-Levenshtein */
bool str_same_name(const char *, const char *);  /* but for case and separators */
size_t str_choices(struct arena *, const char *choices, const char **names, size_t room); /* of "a|b|c" */
/* The nearest of `count` names, by a letter in eight and with the same digits; NULL: none is near. The second one
 * leaves out those that are likely to mean something else. Sure: only this one can be meant. */
const char *str_nearest(const char *name, const char *const *names, size_t count);
const char *str_nearest_sure(const char *name, const char *const *names, size_t count, bool *sure);

/* Globs over dotted paths (language, rule 5): `*` within a segment, `**` any number of segments, `{a,b}`. */
bool glob_match(const char *pattern, const char *path);
#endif
