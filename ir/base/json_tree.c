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
    if (x == 0 && signbit(x)) str_add(&text, ".0"); /* readers take -0 for an integer, which has no sign there */
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

/* Text that was parsed, so it is JSON; `at` is behind the numbers that were met. */
struct parsed {
    const char *at, *end;
};

/* Whether the next number is spelled as a float. */
static bool next_is_float(struct parsed *p)
{
    bool is = false;
    for (bool quoted = false; p->at < p->end && (quoted || !strchr("-0123456789", *p->at) || !*p->at); p->at++)
        if (*p->at == '"') quoted = !quoted;
        else if (quoted && *p->at == '\\') p->at++;
    for (; p->at < p->end && *p->at && strchr("+-.0123456789eE", *p->at); p->at++) is = is || strchr(".eE", *p->at);
    return is;
}

/* `text`: what it was parsed from, whose numbers come in this order. NULL: to be printed, numbers as texts, since
 * cJSON prints some of them in too few digits; 30.0 stays a float, which strict readers ask for. */
static struct json_tree copy(struct arena *arena, const struct cJSON *from, struct parsed *text)
{
    if (!text && cJSON_IsNumber(from)) {
        struct json_tree t = number(arena, from->valuedouble, false);
        bool whole = from->valuestring && cJSON_IsRaw(t.item) && !strpbrk(t.item->valuestring, ".eE");
        return whole ? json_raw(arena, arena_format(arena, "%s.0", t.item->valuestring)) : t;
    }
    const char *string = from->valuestring;
    if (text && cJSON_IsNumber(from)) string = next_is_float(text) ? "" : NULL; /* numbers have no other use for it */
    struct json_tree t = value(arena, from->type & 0xff, string);
    t.item->valuedouble = from->valuedouble;
    for (const struct cJSON *child = from->child; child; child = child->next)
        json_add(t, child->string, copy(arena, child, text));
    return t;
}

struct json_tree json_copy(struct arena *arena, const struct cJSON *from) { return copy(arena, from, NULL); }

const struct cJSON *json_read(struct arena *arena, const char *text, size_t length)
{
    const char *end = text;
    struct cJSON *parsed = cJSON_ParseWithLengthOpts(text, length, &end, false);
    while (parsed && end < text + length && *end && strchr(" \t\r\n", *end)) end++;
    if (parsed && end < text + length) cJSON_Delete(parsed), parsed = NULL; /* and something behind it */
    const struct cJSON *kept = parsed ? copy(arena, parsed, &(struct parsed){text, text + length}).item : NULL;
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
