/* JSON by cJSON (json_tree.h). Its nodes are made here, in the arena, so that nothing of a tree is freed alone; it
 * links, parses and prints them. Integers and floats are raw texts: cJSON knows doubles only. */
#include "ir/base/json_tree.h"
#include "ir/base/str.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

static struct json_tree value(struct arena *arena, int type, const char *text)
{
    struct json_tree t = {arena, arena_new(arena, struct cJSON)};
    t.item->type = type;
    t.item->valuestring = text ? arena_string(arena, text) : NULL;
    return t;
}

struct json_tree json_object(struct arena *arena) { return value(arena, cJSON_Object, NULL); }
struct json_tree json_array(struct arena *arena) { return value(arena, cJSON_Array, NULL); }
struct json_tree json_raw(struct arena *arena, const char *text) { return value(arena, cJSON_Raw, text); }

struct json_tree json_text(struct arena *arena, const char *text)
{
    struct str clean = STR(arena);
    if (!text) return value(arena, cJSON_NULL, NULL);
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        n = str_utf8((const unsigned char *)text, left);
        str_add_n(&clean, n ? text : "\xef\xbf\xbd", n ? n : 3);
        n += !n;
    }
    return value(arena, cJSON_String, str_text(&clean));
}

static struct json_tree number(struct arena *arena, double x, bool single)
{
    struct str text = STR(arena);
    str_add_number(&text, x, single);
    return value(arena, isfinite(x) ? cJSON_Raw : cJSON_String, str_text(&text));
}

void json_add(struct json_tree to, const char *key, struct json_tree t)
{
    if (key && !cJSON_IsArray(to.item)) cJSON_AddItemToObjectCS(to.item, arena_string(to.arena, key), t.item);
    else cJSON_AddItemToArray(to.item, t.item);
}

struct json_tree json_add_object(struct json_tree to, const char *key)
{
    struct json_tree t = json_object(to.arena);
    json_add(to, key, t);
    return t;
}

struct json_tree json_add_array(struct json_tree to, const char *key)
{
    struct json_tree t = json_array(to.arena);
    json_add(to, key, t);
    return t;
}

void json_add_text(struct json_tree to, const char *key, const char *text)
{
    json_add(to, key, json_text(to.arena, text));
}

void json_add_bool(struct json_tree to, const char *key, bool x)
{
    json_add(to, key, value(to.arena, x ? cJSON_True : cJSON_False, NULL));
}

void json_add_integer(struct json_tree to, const char *key, int64_t x)
{
    json_add(to, key, json_raw(to.arena, arena_format(to.arena, "%lld", (long long)x)));
}

void json_add_number(struct json_tree to, const char *key, double x, bool single)
{
    json_add(to, key, number(to.arena, x, single));
}

/* `printed`: numbers as texts, since cJSON prints some of them in too few digits. */
static struct json_tree copy(struct arena *arena, const struct cJSON *from, bool printed)
{
    if (printed && cJSON_IsNumber(from)) return number(arena, from->valuedouble, false);
    struct json_tree t = value(arena, from->type & 0xff, from->valuestring);
    t.item->valuedouble = from->valuedouble;
    for (const struct cJSON *child = from->child; child; child = child->next)
        json_add(t, child->string, copy(arena, child, printed));
    return t;
}

struct json_tree json_copy(struct arena *arena, const struct cJSON *from) { return copy(arena, from, true); }

const struct cJSON *json_read(struct arena *arena, const char *text, size_t length)
{
    struct cJSON *parsed = cJSON_ParseWithLength(text, length);
    const struct cJSON *kept = parsed ? copy(arena, parsed, false).item : NULL;
    cJSON_Delete(parsed);
    return kept;
}

static const char *print(struct json_tree t, bool lines)
{
    char *text = lines ? cJSON_Print(t.item) : cJSON_PrintUnformatted(t.item);
    if (!text) arena_alloc(t.arena, SIZE_MAX); /* says that memory is out */
    const char *copy = arena_format(t.arena, "%s%s", text, lines ? "\n" : "");
    cJSON_free(text);
    return copy;
}

const char *json_print(struct json_tree t) { return print(t, false); }
const char *json_print_lines(struct json_tree t) { return print(t, true); }
