/* A strict RFC 8259 pass over a text: it accepts what the standard accepts and nothing else (no comments, no
 * duplicate keys, no raw control characters, no lone surrogates, valid UTF-8, no trailing text, bounded depth and
 * count) and records where every value stands. The runtime, which has no arena, reads with runtime/header_scan.h
 * instead. */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H
#include "ir/base/arena.h"
#include <stdbool.h>

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* Values in pre-order. Children of an array or object are linked by `next`. */
struct json_value {
    uint8_t kind;
    uint32_t offset, length;         /* span in the text, quotes and brackets included */
    uint32_t key_offset, key_length; /* span of the key with its quotes, if the parent is an object */
    const char *key;                 /* unescaped; NULL outside objects */
    const char *string;              /* unescaped, for JSON_STRING (a \u0000 is refused) */
    double number;
    uint32_t first, next, count, parent; /* indices; 0 = none (the root is never a child) */
};

struct json_limits {
    size_t bytes;
    uint32_t depth, values;
};
struct json_error {
    const char *code, *message; /* "E0003", ready to print */
    uint32_t offset, length;
    uint32_t other_offset, other_length; /* the first of two equal keys, the comma too many; length 0: none */
    uint32_t value;                      /* index of the value that was being read (0 too if there is none yet) */
};
struct json {
    const char *text;
    size_t length;
    struct json_value *values; /* [0] is the root */
    uint32_t count;
};

/* False: *error says what and where, and *out holds the values up to there. A zero limit means the default (64 MiB,
 * depth 128, 1,000,000 values). */
bool json_scan(struct arena *, const char *text, size_t length, const struct json_limits *, struct json *out,
               struct json_error *error);
/* The member of an object, NULL if it has none of that name. */
const struct json_value *json_get(const struct json *, const struct json_value *object, const char *key);
#endif
