/* Reading a recorded file (*_cases.json): what another implementation gave for the same cases. */
#ifndef FE_RECORDED_H
#define FE_RECORDED_H
#include "ir/base/diag.h"
#include "ir/base/json_scan.h"
#include "tests/unit/file.h"

static struct arena arena;
static struct json recorded;
static const char *recorded_path;

static inline const struct json_value *get(const struct json_value *v, const char *key)
{
    const struct json_value *m = json_get(&recorded, v, key);
    if (!m) BUG("%s has no %s", recorded_path, key);
    return m;
}
static inline const struct json_value *child(const struct json_value *v)
{
    return v->first ? &recorded.values[v->first] : NULL;
}
static inline const struct json_value *sibling(const struct json_value *v)
{
    return v->next ? &recorded.values[v->next] : NULL;
}
static inline const char *text_of(const struct json_value *v)
{
    return arena_string_n(&arena, recorded.text + v->offset, v->length);
}

static inline void load(const char *path)
{
    recorded_path = path;
    size_t n = 0;
    const char *text = file_bytes(&arena, path, &n);
    if (!text) BUG("no %s: run this from the top of the source tree", path);
    struct json_error error;
    if (!json_scan(&arena, text, n, NULL, &recorded, &error)) BUG("%s at %u: %s", path, error.offset, error.message);
}
#endif
