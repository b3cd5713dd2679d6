/* The document as a tree with places: errors at a value, a key or inside a string; JSON pointers; members and
 * children. A "//" member holding a string (and "$schema" at the top) means nothing and is stepped over here, so nobody
 * else sees it. */
#include "frontend/document/document.h"

#include <string.h>

static const char *const no_key = "//", *const schema_key = "$schema"; /* of the document: for editors */

fe_json fe_root(const struct fe *fe) { return fe->json.values; }

static bool is_comment(const struct json_value *v)
{
    if (!v->key || v->kind != JSON_STRING) return false;
    return !strcmp(v->key, no_key) || (!v->parent && !strcmp(v->key, schema_key));
}

/* ---------------------------------------------------------------- the tree */

static fe_json value_at(const struct fe *fe, uint32_t index) { return index ? &fe->json.values[index] : NULL; }

static fe_json skip_comments(const struct fe *fe, fe_json v)
{
    while (v && is_comment(v)) v = value_at(fe, v->next);
    return v;
}

fe_json fe_member(struct fe *fe, fe_json object, const char *key)
{
    fe_json v = json_get(&fe->json, object, key);
    return v && !is_comment(v) ? v : NULL;
}

fe_json fe_first(struct fe *fe, fe_json list)
{
    if (!list || (list->kind != JSON_ARRAY && list->kind != JSON_OBJECT)) return NULL;
    return skip_comments(fe, value_at(fe, list->first));
}

fe_json fe_next(struct fe *fe, fe_json child) { return skip_comments(fe, value_at(fe, child->next)); }

uint32_t fe_count(struct fe *fe, fe_json list)
{
    uint32_t n = 0;
    for (fe_json v = fe_first(fe, list); v; v = fe_next(fe, v)) n++;
    return n;
}

const char *fe_kind_name(fe_json v)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",       [JSON_FALSE] = "false",    [JSON_TRUE] = "true",       [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object"};
    return v ? names[v->kind] : "nothing";
}

/* The value as it stands in the document, shortened, for "found ...". */
const char *fe_found(struct fe *fe, fe_json v)
{
    enum { LONGEST = 40 };
    if (!v) return "nothing";
    const char *text = fe->json.text + v->offset;
    uint32_t shown = v->length;
    if (v->kind == JSON_STRING || v->kind == JSON_NUMBER) {
        if (shown <= LONGEST) return arena_format(fe->arena, "%.*s", (int)shown, text);
        shown = LONGEST;
        while (shown && ((unsigned char)text[shown] & 0xc0) == 0x80) shown--;
        return arena_format(fe->arena, "%.*s...", (int)shown, text);
    }
    return fe_kind_name(v);
}

/* ---------------------------------------------------------------- pointers */

static void add_segment(struct str *s, const char *key)
{
    str_add(s, "/");
    for (const char *p = key; *p; p++) {
        if (*p == '~') str_add(s, "~0");
        else if (*p == '/') str_add(s, "~1");
        else str_add_n(s, p, 1);
    }
}

/* Counts all elements of an array when one is asked for: there may be many, and all are. */
static uint32_t position_of(struct fe *fe, fe_json at, fe_json parent)
{
    if (!fe->positions) fe->positions = arena_new_array(fe->arena, uint32_t, fe->json.count);
    uint32_t *position = &fe->positions[at - fe->json.values], count = 0;
    if (!*position)
        for (fe_json child = value_at(fe, parent->first); child; child = value_at(fe, child->next))
            fe->positions[child - fe->json.values] = ++count;
    return *position ? *position - 1 : count; /* 0 while the array is being read */
}

const char *fe_pointer(struct fe *fe, fe_json v)
{
    struct str out = STR(fe->arena);
    VEC(fe_json) chain = {0};
    if (!v) return "";
    for (; v != fe->json.values; v = &fe->json.values[v->parent]) vec_push(fe->arena, &chain, v);
    for (size_t i = chain.count; i-- > 0;) {
        fe_json at = chain.items[i], parent = &fe->json.values[at->parent];
        if (at->key) {
            add_segment(&out, at->key);
            continue;
        }
        str_addf(&out, "/%u", position_of(fe, at, parent));
    }
    return str_text(&out);
}

uint32_t fe_place(struct fe *fe, fe_json v)
{
    if (!v || !fe->module || v < fe->json.values || v >= fe->json.values + fe->json.count) return 0;
    if (!fe->places) fe->places = arena_new_array(fe->arena, uint32_t, fe->json.count);
    uint32_t known = fe->places[v - fe->json.values];
    uint64_t key = (uint64_t)fe->again << 32 | (uint64_t)(v - fe->json.values);
    if (!fe->places_again.arena) fe->places_again = MAP(fe->arena);
    if (fe->again) known = map_get_number(&fe->places_again, key);
    if (known && known != MAP_NONE) return known;
    uint32_t place = ir_place_new(fe->module, (struct diag_span){v->offset, v->length}, fe_pointer(fe, v));
    fe->module->places.items[place].again = fe->again;
    if (fe->again) map_set_number(&fe->places_again, key, place);
    else fe->places[v - fe->json.values] = place;
    return place;
}

/* ---------------------------------------------------------------- errors */

static struct diag *error_at(struct fe *fe, struct diag_span span, fe_json v, const char *code, const char *message)
{
    struct diag *d = diag_error(fe->diags, span, code, "%s", message);
    if (v && fe->diags->errors <= DIAG_RECORDED) d->pointer = fe_pointer(fe, v);
    return d;
}

#define FORMATTED(fe, format, out) \
    va_list args; \
    va_start(args, format); \
    const char *out = arena_vformat((fe)->arena, format, args); \
    va_end(args)

struct diag *fe_error(struct fe *fe, fe_json v, const char *code, const char *format, ...)
{
    FORMATTED(fe, format, message);
    struct diag_span span = v ? (struct diag_span){v->offset, v->length} : (struct diag_span){0, 0};
    return error_at(fe, span, v, code, message);
}

struct diag *fe_error_key(struct fe *fe, fe_json member, const char *code, const char *format, ...)
{
    FORMATTED(fe, format, message);
    struct diag_span span = {member->offset, member->length};
    if (member->key) span = (struct diag_span){member->key_offset, member->key_length};
    return error_at(fe, span, member, code, message);
}

/* Leaves room for the errors. */
static struct diag *warning_at(struct fe *fe, struct diag_span span, fe_json v, const char *code, const char *message)
{
    size_t errors = fe->diags->errors;
    if (fe->diags->list.count >= DIAG_RECORDED / 2)
        return arena_copy(fe->diags->arena, &(struct diag){.code = code}, sizeof(struct diag));
    struct diag *d = error_at(fe, span, v, code, message);
    if (fe->diags->errors > errors) d->severity = DIAG_WARNING, fe->diags->errors--;
    return d;
}

struct diag *fe_warning(struct fe *fe, fe_json v, const char *code, const char *format, ...)
{
    FORMATTED(fe, format, message);
    return warning_at(fe, (struct diag_span){v->offset, v->length}, v, code, message);
}

struct diag *fe_warning_key(struct fe *fe, fe_json member, const char *code, const char *format, ...)
{
    FORMATTED(fe, format, message);
    return warning_at(fe, (struct diag_span){member->key_offset, member->key_length}, member, code, message);
}

/* How many bytes of text the character or escape at `p` of a scanned string takes, and how many it stands for. */
static uint32_t raw_step(const char *p, uint32_t *meant)
{
    *meant = 1;
    if (*p != '\\') return 1;
    if (p[1] != 'u') return 2;
    uint32_t c = 0;
    for (int i = 2; i < 6; i++) {
        uint32_t digit = p[i] <= '9' ? (uint32_t)(p[i] - '0') : (uint32_t)((p[i] | 32) - 'a') + 10;
        c = c << 4 | digit;
    }
    bool pair = c >= 0xd800 && c <= 0xdfff;
    *meant = pair ? 4 : c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
    return pair ? 12 : 6;
}

/* The place of a part of a string, whose bytes are counted as unescaped. */
static struct diag_span part_of(const struct fe *fe, struct diag_span string, uint32_t at, uint32_t length)
{
    uint32_t end = string.offset + string.length - 1, raw = string.offset + 1, from, meant, i = 0;
    for (; i < at && raw < end; i += meant) raw += raw_step(fe->json.text + raw, &meant);
    for (from = raw; i < at + length && raw < end; i += meant) raw += raw_step(fe->json.text + raw, &meant);
    return (struct diag_span){from, raw > from ? raw - from : 1};
}

struct diag *fe_error_in(struct fe *fe, fe_json string, uint32_t at, uint32_t length, const char *code,
                         const char *format, ...)
{
    FORMATTED(fe, format, message);
    if (string->kind != JSON_STRING) return fe_error(fe, string, code, "%s", message);
    struct diag_span all = {string->offset, string->length};
    return error_at(fe, part_of(fe, all, at, length), string, code, message);
}

struct diag *fe_warning_in(struct fe *fe, fe_json v, bool key, uint32_t at, uint32_t length, const char *code,
                           const char *format, ...)
{
    FORMATTED(fe, format, message);
    struct diag_span all = key ? (struct diag_span){v->key_offset, v->key_length}
                               : (struct diag_span){v->offset, v->length};
    return warning_at(fe, part_of(fe, all, at, length), v, code, message);
}

/* A name that the document itself gives (an input, a node, a constant) may be what is misspelled: says where it stands.
 */
static void note_declared(struct fe *fe, struct diag *d, const char *name)
{
    for (uint32_t i = 1; i < fe->json.count; i++) {
        fe_json v = &fe->json.values[i];
        bool key = v->key == name, string = v->kind == JSON_STRING && v->string == name;
        if (!key && !string) continue;
        struct diag_span span = key ? (struct diag_span){v->key_offset, v->key_length}
                                    : (struct diag_span){v->offset, v->length};
        if (span.offset != d->span.offset) diag_note(fe->diags, d, span, "\"%s\" stands here", name);
        return;
    }
    fe_json inputs = fe_member(fe, fe_root(fe), "inputs"), input = inputs ? fe_member(fe, inputs, name) : NULL;
    if (input && d->code && strcmp(d->code, "E0301") == 0) /* their names are copies */
        diag_note(fe->diags, d, (struct diag_span){input->key_offset, input->key_length}, "\"%s\" stands here", name);
}

size_t fe_name_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* Whether the key at a place, called `name`, would be in its object twice: one is called so, or is to be. */
static bool is_taken(struct fe *fe, struct diag_span span, const char *name)
{
    uint32_t i = 1, n = fe->json.count;
    while (i < n && (!fe->json.values[i].key || fe->json.values[i].key_offset != span.offset)) i++;
    fe_json own = i < n ? &fe->json.values[i] : NULL, object = own ? &fe->json.values[own->parent] : NULL;
    for (fe_json m = own ? fe_first(fe, object) : NULL; m; m = fe_next(fe, m)) {
        if (m == own) continue;
        if (strcmp(m->key, name) == 0) return true;
        for (size_t k = 0; k < fe->diags->list.count; k++) {
            const struct diag *d = &fe->diags->list.items[k];
            if (d->replacement && d->span.offset == m->key_offset &&
                strncmp(d->replacement + 1, name, strlen(name)) == 0 && d->replacement[1 + strlen(name)] == '"')
                return true;
        }
    }
    return false;
}

/* The name as it stands at a place that is a name and nothing else, with quotes where there are some; NULL: it is more
 * than that, or a key that would be there twice. */
static const char *replacement(struct fe *fe, struct diag_span span, const char *name)
{
    const struct diag_source *source = &fe->diags->source;
    if (!span.length || span.offset > source->length || span.length > source->length - span.offset) return NULL;
    const char *text = source->text + span.offset;
    uint32_t quotes = span.length > 2 && text[0] == '"' && text[span.length - 1] == '"';
    if (fe_name_length(text + quotes) < span.length - 2 * quotes || is_taken(fe, span, name)) return NULL;
    const char *quote = quotes ? "\"" : "";
    return arena_format(fe->arena, "%s%s%s", quote, name,
                        quote); /* names of a module are gone when diagnostics are shown */
}

/* Names of the field that are near to others and mean something else, or that mean the same and are not near. */
static const struct {
    const char *name, *same;
} field_names[] = {
#define X(name, same) {name, same},
#include "frontend/document/field_names.def"
#undef X
};

/* The name that is meant; sure: nothing else can be. NULL: none of these. */
static const char *meant(const char *found, const char *const *names, size_t count, bool *sure)
{
    const char *nearest = str_nearest_sure(found, names, count, sure), *dot = strrchr(found, '.');
    if (nearest && str_same_name(found, nearest)) return nearest;
    bool paths = false;
    for (size_t i = 0; dot && i < count; i++) paths |= strchr(names[i], '.') != NULL;
    if (dot && dot[1] && !paths) { /* torch.nn.Linear */
        nearest = meant(dot + 1, names, count, sure);
        *sure = false;
        return nearest;
    }
    for (size_t i = 0; i < sizeof field_names / sizeof *field_names; i++) {
        if (!str_same_name(found, field_names[i].name)) continue;
        *sure = false;
        for (size_t k = 0; k < count; k++)
            if (!strcmp(names[k], field_names[i].same)) return names[k];
        return NULL;
    }
    return nearest;
}

/* An unknown type, optimizer, name or method. */
static bool is_of_names(const struct diag *d)
{
    static const char *const codes[] = {"E0105", "E0301", "E0302", "E0400", "E0410"};
    for (size_t i = 0; d && i < sizeof codes / sizeof *codes; i++)
        if (!strcmp(d->code, codes[i])) return true;
    return false;
}

void fe_suggest(struct fe *fe, struct diag *d, const char *found, const char *const *names, size_t count)
{
    bool sure = false;
    const char *nearest = fe->diags->errors <= DIAG_RECORDED ? meant(found, names, count, &sure) : NULL;
    if (nearest) {
        d->label = arena_format(fe->arena, "did you mean \"%s\"?", nearest);
        d->replacement = sure ? replacement(fe, d->span, nearest) : NULL;
        note_declared(fe, d, nearest);
        return;
    }
    const char *foreign = is_of_names(d)                   ? fe_foreign("name", found)
                          : d && !strcmp(d->code, "E0312") ? fe_foreign("argument", found)
                                                           : NULL;
    if (foreign) {
        d->hint = foreign;
        return;
    }
    enum { LISTED = 24 };
    if (count == 0 || count > LISTED || fe->diags->errors > DIAG_RECORDED) return;
    struct str list = STR(fe->arena);
    for (size_t i = 0; i < count; i++) {
        size_t before = 0;
        while (before < i && strcmp(names[before], names[i]) != 0) before++;
        if (before == i) str_addf(&list, "%s%s", i ? ", " : "expected one of: ", names[i]);
    }
    d->hint = str_text(&list);
}

void fe_misses(struct fe *fe, fe_json object, const char *what, const char *key)
{
    fe_json member = fe_first(fe, object);
    while (member && (strlen(member->key) < 3 || !str_nearest(key, (const char *const[]){member->key}, 1)))
        member = fe_next(fe, member);
    if (!member) fe_error(fe, object, "E0102", "%s \"%s\"", what, key);
    else
        fe_suggest(fe, fe_error_key(fe, member, "E0102", "%s \"%s\", but \"%s\"", what, key, member->key), key, &key,
                   1);
}

const char *fe_type_of(struct fe *fe, fe_json object)
{
    if (object && object->kind != JSON_OBJECT) {
        struct diag *d = fe_error(fe, object, "E0101", "expected an object with a \"type\", found %s",
                                  fe_found(fe, object));
        if (object->kind == JSON_STRING) d->hint = arena_format(fe->arena, "{\"type\": \"%s\"}", object->string);
        return NULL;
    }
    fe_json type = fe_member(fe, object, "type");
    if (!type) {
        fe_json name = fe_member(fe, object, "name");
        size_t before = fe->diags->list.count;
        fe_misses(fe, object, "this object has no", "type");
        struct diag *d = fe->diags->list.count > before ? &fe->diags->list.items[before] : NULL;
        if (d && !d->hint && name && name->kind == JSON_STRING)
            d->hint = arena_format(fe->arena, "what it is is its \"type\": {\"type\": \"%s\"}", name->string);
        return NULL;
    }
    if (type->kind != JSON_STRING) {
        fe_error(fe, type, "E0101", "\"type\" is a string, found %s", fe_found(fe, type));
        return NULL;
    }
    return type->string;
}

/* ---------------------------------------------------------------- reading */

bool fe_scan(struct fe *fe, const char *text, size_t length)
{
    struct json_error error;
    if (json_scan(fe->arena, text, length, fe->options ? &fe->options->text : NULL, &fe->json, &error)) return true;
    struct diag *d = diag_error(fe->diags, (struct diag_span){error.offset, error.length}, error.code, "%s",
                                error.message);
    d->pointer = fe->json.count ? fe_pointer(fe, &fe->json.values[error.value]) : "";
    if (error.other_length)
        diag_note(fe->diags, d, (struct diag_span){error.other_offset, error.other_length},
                  strcmp(error.code, "E0014") == 0 ? "the first one is here" : "the comma is here");
    return false;
}
