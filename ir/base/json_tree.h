/* All JSON of the compiler but documents: trees of cJSON in an arena, parsed and printed by cJSON. Documents are read
 * by json_scan.h instead, which keeps the places of values and is strict. Keys and texts are copied. */
#ifndef BASE_JSON_TREE_H
#define BASE_JSON_TREE_H
#include "ir/base/arena.h"
#include <stdbool.h>

struct cJSON;
struct json_tree { /* an object or array that may be added to, or another value */
    struct arena *arena;
    struct cJSON *item;
};
struct json_tree json_object(struct arena *);
struct json_tree json_array(struct arena *);
struct json_tree json_text(struct arena *, const char *); /* NULL: null; bytes that are not UTF-8 become U+FFFD */
struct json_tree json_raw(struct arena *, const char *);  /* a text that is JSON itself */

/* Into an object under a key, or at the end of an array (key NULL). A value stands in one place. */
void json_add(struct json_tree to, const char *key, struct json_tree value);
struct json_tree json_add_object(struct json_tree to, const char *key);
struct json_tree json_add_array(struct json_tree to, const char *key);
void json_add_text(struct json_tree to, const char *key, const char *text);
void json_add_bool(struct json_tree to, const char *key, bool);
void json_add_integer(struct json_tree to, const char *key, int64_t);
/* The shortest text that reads back as this double or, `single`, float; NaN and infinities as strings. */
void json_add_number(struct json_tree to, const char *key, double, bool single);

/* For reading; NULL: the text is no JSON, or more than one. Who looks into it includes cJSON.h. A copy is to be
 * printed. */
const struct cJSON *json_read(struct arena *, const char *text, size_t length);
struct json_tree json_copy(struct arena *, const struct cJSON *);

const char *json_print(struct json_tree);       /* on one line */
const char *json_print_lines(struct json_tree); /* the last one ends, too */
#endif
