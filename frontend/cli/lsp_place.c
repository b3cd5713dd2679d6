/* What stands at the cursor of a document that is being written, and what the schema (schema.c, from the tables of the
 * compiler) says of it. The text need not be JSON yet: missing quotes, commas and brackets are expected. */
#include "frontend/cli/doc.h"
#include "frontend/cli/lsp.h"
#include "frontend/expr/expr.h"
#include "frontend/losses/losses.h"

#include <string.h>

enum { DEEPEST = 128 };

/* ---------------------------------------------------------------- the text */

enum state { KEY, COLON, VALUE, DONE };
struct span {
    size_t at, length;
};
/* An object or an array: where it stands, its type, the member that is read. */
struct frame {
    int parent, parent_key; /* of the member of the parent, -1: none */
    bool array;
    enum state state;
    int key;
    struct span type;
};
struct member {
    int frame;
    struct span key; /* without quotes */
};
struct scan {
    const struct lsp_at *at;
    VEC(struct frame) frames;
    VEC(struct member) members;
    int top, depth;
    /* At the cursor. */
    bool seen, is_key;
    int frame, key;
    struct span token; /* length 0: between tokens */
};

/* NULL: outside, or too deep. */
static struct frame *top_of(struct scan *s)
{
    return s->top < 0 || s->depth > DEEPEST ? NULL : &s->frames.items[s->top];
}

static bool keys_next(const struct frame *f) { return f && !f->array && f->state != VALUE; }

/* The cursor is before `end`, at this token or before it. */
static void meet(struct scan *s, struct span token, bool inside)
{
    const struct frame *f = top_of(s);
    if (s->seen || s->at->offset > token.at + (inside ? token.length : 0)) return;
    s->seen = true;
    s->frame = f ? s->top : -1;
    s->is_key = keys_next(f);
    s->key = f ? f->key : -1;
    if (inside && s->at->offset >= token.at) s->token = token;
}

static bool same(const struct scan *s, struct span x, const char *text)
{
    return strlen(text) == x.length && !memcmp(s->at->text + x.at, text, x.length);
}

/* A string, or a word without quotes. */
static void take_word(struct scan *s, struct span word, struct span inside)
{
    meet(s, word, true);
    struct frame *f = top_of(s);
    if (!f || f->array) return;
    if (f->state != VALUE) {
        f->key = (int)s->members.count;
        f->state = COLON;
        vec_push(s->at->arena, &s->members, ((struct member){s->top, inside}));
        return;
    }
    f->state = DONE;
    if (f->key >= 0 && same(s, s->members.items[f->key].key, "type")) f->type = inside;
}

static void open_frame(struct scan *s, bool array)
{
    struct frame *f = top_of(s);
    struct frame made = {.parent = s->top, .parent_key = f ? f->key : -1, .array = array, .key = -1};
    if (f) f->state = DONE;
    if (++s->depth > DEEPEST) return;
    vec_push(s->at->arena, &s->frames, made);
    s->top = (int)s->frames.count - 1;
}

static void close_frame(struct scan *s, bool array)
{
    if (s->depth > DEEPEST) {
        s->depth--;
        return;
    }
    int up = s->top, levels = 1;
    for (; up >= 0 && s->frames.items[up].array != array; levels++) up = s->frames.items[up].parent;
    if (up < 0) return; /* closes nothing */
    s->top = s->frames.items[up].parent;
    s->depth -= levels;
}

static void take_mark(struct scan *s, size_t at, char c)
{
    meet(s, (struct span){at, 1}, false);
    struct frame *f = top_of(s);
    if (c == '{' || c == '[') open_frame(s, c == '[');
    else if (c == '}' || c == ']') close_frame(s, c == ']');
    else if (c == ':' && f && f->state == COLON) f->state = VALUE;
    else if (c == ',' && f) f->state = KEY, f->key = -1;
}

static struct scan scan(const struct lsp_at *at)
{
    struct scan s = {.at = at, .top = -1, .frame = -1, .key = -1};
    const char *text = at->text;
    for (size_t i = 0; i < at->length;) {
        size_t begin = i;
        if (strchr(" \t\r\n", text[i])) {
            i++;
        } else if (text[i] == '"') {
            for (i++; i < at->length && text[i] != '"' && text[i] != '\n' && text[i] != '\r'; i++)
                i += text[i] == '\\' && i + 1 < at->length && text[i + 1] != '\n';
            if (i > at->length) i = at->length;
            size_t end = i;
            i += i < at->length && text[i] == '"';
            take_word(&s, (struct span){begin, i - begin}, (struct span){begin + 1, end - begin - 1});
        } else if (strchr("{}[]:,", text[i])) {
            take_mark(&s, i++, text[begin]);
        } else {
            while (i < at->length && !strchr(" \t\r\n\"{}[]:,", text[i])) i++;
            take_word(&s, (struct span){begin, i - begin}, (struct span){begin, i - begin});
        }
    }
    meet(&s, (struct span){at->length, 0}, false);
    return s;
}

static const char *text_of(const struct scan *s, struct span x)
{
    return arena_string_n(s->at->arena, s->at->text + x.at, x.length);
}

/* ---------------------------------------------------------------- the schema */

typedef const struct cJSON *node;
struct schemas {
    VEC(node) list;
};

static node get(node object, const char *key) { return cJSON_GetObjectItemCaseSensitive(object, key); }
static const char *string(node object, const char *key) { return cJSON_GetStringValue(get(object, key)); }

static node definition(const struct lsp_at *at, node schema)
{
    const char *name = string(schema, "$ref"), *start = "#/$defs/";
    return name && !strncmp(name, start, strlen(start)) ? get(get(at->schema, "$defs"), name + strlen(start)) : NULL;
}

/* The type that a condition asks for; NULL: it asks for something else. */
static const char *asked_type(node choice)
{
    return string(get(get(get(choice, "if"), "properties"), "type"), "const");
}

/* All schemas that a value of this type may have to meet. */
static void collect(const struct lsp_at *at, struct schemas *out, node schema, const char *type)
{
    if (!cJSON_IsObject(schema)) return;
    for (size_t i = 0; i < out->list.count; i++)
        if (out->list.items[i] == schema) return;
    vec_push(at->arena, &out->list, schema);
    node each;
    const char *asked = asked_type(schema);
    collect(at, out, definition(at, schema), type);
    cJSON_ArrayForEach(each, get(schema, "anyOf")) collect(at, out, each, type);
    cJSON_ArrayForEach(each, get(schema, "allOf")) collect(at, out, each, type);
    if (!asked || (type && !strcmp(asked, type))) collect(at, out, get(schema, "then"), type);
    if (!asked || !type || strcmp(asked, type) != 0) collect(at, out, get(schema, "else"), type);
}

static void collect_member(const struct lsp_at *at, struct schemas *out, const struct schemas *of, const char *key,
                           const char *type)
{
    for (size_t i = 0; i < of->list.count; i++) {
        node s = of->list.items[i], own = key ? get(get(s, "properties"), key) : get(s, "items");
        collect(at, out, own ? own : key ? get(s, "additionalProperties") : NULL, type);
    }
}

static struct schemas schemas_of(const struct scan *s, int frame)
{
    struct schemas out = {0};
    const struct frame *f = &s->frames.items[frame];
    const char *type = f->type.at ? text_of(s, f->type) : NULL;
    if (f->parent < 0) {
        if (frame == 0) collect(s->at, &out, s->at->schema, type);
        return out;
    }
    struct schemas around = schemas_of(s, f->parent);
    bool array = s->frames.items[f->parent].array;
    if (!array && f->parent_key < 0) return out;
    collect_member(s->at, &out, &around, array ? NULL : text_of(s, s->members.items[f->parent_key].key), type);
    return out;
}

/* What may stand at the cursor as a value. */
static struct schemas values_at(const struct scan *s, const struct schemas *of)
{
    struct schemas out = {0};
    bool array = s->frames.items[s->frame].array;
    if (array || s->key >= 0)
        collect_member(s->at, &out, of, array ? NULL : text_of(s, s->members.items[s->key].key), NULL);
    return out;
}

static const char *described(const struct lsp_at *at, const struct schemas *list)
{
    for (size_t i = 0; i < list->list.count; i++) {
        node schema = list->list.items[i], preset = get(schema, "default");
        const char *text = string(schema, "description");
        if (!text) continue;
        return preset ? arena_format(at->arena, "%s\n\ndefault: %s", text, json_print(json_copy(at->arena, preset)))
                      : text;
    }
    return NULL;
}

/* What objects of a type are, by the conditions of a schema. */
static const char *type_described(const struct lsp_at *at, const struct schemas *list, const char *type)
{
    for (size_t i = 0; i < list->list.count; i++) {
        node each;
        cJSON_ArrayForEach(each, get(list->list.items[i], "allOf"))
        {
            const char *asked = asked_type(each);
            if (asked && !strcmp(asked, type)) return string(definition(at, get(each, "then")), "description");
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- hover */

/* The function of expressions whose name stands at the cursor, with its sentence. */
static const char *function_at(const struct lsp_at *at, struct span inside)
{
    size_t begin = at->offset, end = at->offset, last = inside.at + inside.length;
    while (begin > inside.at && fe_name_length((char[]){at->text[begin - 1], 0})) begin--;
    if (end < last) end += fe_name_length(arena_string_n(at->arena, at->text + end, last - end < 64 ? last - end : 64));
    const struct fe_function *f = NULL;
    if (begin < end)
        f = fe_function_find(fe_library_open(at->arena, &fe_losses),
                             arena_string_n(at->arena, at->text + begin, end - begin));
    const char *text = f ? doc_function(at->arena, f) : NULL;
    return f ? arena_format(at->arena, "%s(%s)%s%s", f->name, fe_signature_text(at->arena, f), text ? ": " : "",
                            text ? text : "")
             : NULL;
}

const char *lsp_hover(const struct lsp_at *at, size_t *begin, size_t *end)
{
    struct scan s = scan(at);
    if (!s.token.length || s.frame < 0) return NULL;
    *begin = s.token.at, *end = s.token.at + s.token.length;
    struct schemas around = schemas_of(&s, s.frame), of = {0};
    size_t quote = at->text[s.token.at] == '"', close = quote && s.token.length > 1 && at->text[*end - 1] == '"';
    struct span inside = {s.token.at + quote, s.token.length - quote - close};
    if (s.is_key) {
        collect_member(at, &of, &around, text_of(&s, inside), NULL);
        return described(at, &of);
    }
    const char *said = NULL;
    if (s.key >= 0 && same(&s, s.members.items[s.key].key, "type"))
        said = type_described(at, &around, text_of(&s, inside));
    if (!said && quote) said = function_at(at, inside);
    if (said) return said;
    of = values_at(&s, &around);
    return described(at, &of);
}

/* ---------------------------------------------------------------- completion */

enum { KIND_PROPERTY = 10, KIND_VALUE = 12 };
struct items {
    const struct scan *s;
    struct json_tree list;
    struct lsp_spot spot;
    VEC(const char *) labels;
};

static void add_item(struct items *o, const char *label, bool quoted, bool key, const char *doc)
{
    const struct scan *s = o->s;
    struct arena *a = s->at->arena;
    for (size_t i = 0; i < o->labels.count; i++)
        if (!strcmp(o->labels.items[i], label)) return;
    vec_push(a, &o->labels, label);
    size_t begin = s->token.length ? s->token.at : s->at->offset, end = begin + s->token.length, next = end;
    while (next < s->at->length && strchr(" \t\r\n", s->at->text[next])) next++;
    bool colon = next < s->at->length && s->at->text[next] == ':';
    const char *text = quoted ? arena_format(a, "\"%s\"", label) : label;
    struct json_tree t = json_add_object(o->list, NULL);
    json_add_text(t, "label", label);
    json_add_integer(t, "kind", key ? KIND_PROPERTY : KIND_VALUE);
    if (doc) json_add_text(t, "documentation", doc);
    json_add_text(t, "filterText", text);
    struct json_tree edit = json_add_object(t, "textEdit");
    lsp_add_range(edit, &o->spot, begin, end);
    json_add_text(edit, "newText", key && !colon ? arena_format(a, "%s: ", text) : text);
}

static bool has_key(const struct scan *s, const char *key)
{
    for (size_t i = 0; i < s->members.count; i++) {
        const struct member *m = &s->members.items[i];
        bool here = s->token.length && m->key.at >= s->token.at && m->key.at <= s->token.at + s->token.length;
        if (m->frame == s->frame && !here && same(s, m->key, key)) return true;
    }
    return false;
}

static void add_keys(struct items *o, const struct schemas *around)
{
    for (size_t i = 0; i < around->list.count; i++) {
        node each;
        cJSON_ArrayForEach(each, get(around->list.items[i], "properties"))
        {
            struct schemas of = {0};
            if (!strcmp(each->string, "//") || has_key(o->s, each->string)) continue;
            collect(o->s->at, &of, each, NULL);
            add_item(o, each->string, true, true, described(o->s->at, &of));
        }
    }
}

/* Blocks may be of the document's own types, too. */
static void add_definitions(struct items *o, const struct schemas *around)
{
    const struct scan *s = o->s;
    bool block = false;
    node blocks = get(get(s->at->schema, "$defs"), "block");
    for (size_t i = 0; i < around->list.count; i++) block |= around->list.items[i] == blocks;
    for (size_t i = 0; block && i < s->members.count; i++) {
        const struct frame *f = &s->frames.items[s->members.items[i].frame];
        if (f->parent == 0 && f->parent_key >= 0 && same(s, s->members.items[f->parent_key].key, "define"))
            add_item(o, text_of(s, s->members.items[i].key), true, false, "defined in this document");
    }
}

static void add_values(struct items *o, const struct schemas *around)
{
    const struct scan *s = o->s;
    struct schemas values = values_at(s, around);
    bool type = s->key >= 0 && same(s, s->members.items[s->key].key, "type");
    for (size_t i = 0; i < values.list.count; i++) {
        node each, schema = values.list.items[i];
        const char *kind = string(schema, "type");
        cJSON_ArrayForEach(each, get(schema, "enum"))
        {
            const char *name = cJSON_GetStringValue(each);
            if (name) add_item(o, name, true, false, type ? type_described(s->at, around, name) : NULL);
        }
        if (kind && !strcmp(kind, "boolean"))
            add_item(o, "true", false, false, NULL), add_item(o, "false", false, false, NULL);
        if (kind && !strcmp(kind, "null")) add_item(o, "null", false, false, NULL);
    }
    if (type) add_definitions(o, around);
}

struct json_tree lsp_completion(const struct lsp_at *at)
{
    struct scan s = scan(at);
    struct items o = {.s = &s, .list = json_array(at->arena), .spot = {.text = at->text, .length = at->length}};
    if (s.frame < 0) return o.list;
    struct schemas around = schemas_of(&s, s.frame);
    if (s.is_key) add_keys(&o, &around);
    else add_values(&o, &around);
    return o.list;
}
