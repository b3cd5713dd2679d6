/* What a document declares and nothing in it mentions: constants, inputs, definitions, their parameters and inputs,
 * nodes of graphs. A name counts as mentioned where it stands in any text that may be arithmetic, an expression or a
 * list of names, so that what is read in few cases only (or by nobody, as a default that another replaces) is not
 * reported. */
#include "frontend/document/document.h"

#include <string.h>

struct fe_mentions {
    struct map names, types;
};

static const char ALL_PARAMS[] = "params, with no path"; /* `params` as a tree: whatever is in it is used */

static struct fe_mentions *mentions_new(struct fe *fe)
{
    struct fe_mentions *m = arena_new(fe->arena, struct fe_mentions);
    m->names = m->types = MAP(fe->arena);
    return m;
}

static void add_text(struct fe *fe, struct fe_mentions *m, const char *text)
{
    while (*text) {
        size_t n = fe_name_length(text);
        if (n) map_set(&m->names, arena_string_n(fe->arena, text, n), 1);
        if (n == 6 && !memcmp(text, "params", n) && text[n] != '.') map_set(&m->names, ALL_PARAMS, 1);
        text += n ? n : 1;
    }
}

/* Words that are names of other things. */
static bool is_aside(fe_json v)
{
    static const char *const keys[] = {"type", "name", "dtype", "axes"};
    for (size_t i = 0; v->key && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(v->key, keys[i]) == 0) return true;
    return false;
}

static void add(struct fe *fe, struct fe_mentions *m, fe_json v, bool aside)
{
    bool number = v->kind == JSON_STRING && v->string[0] == '$';
    aside |= is_aside(v);
    if (v->kind == JSON_STRING && v->key && strcmp(v->key, "type") == 0) map_set(&m->types, v->string, 1);
    if (v->kind == JSON_STRING && (number || !aside)) add_text(fe, m, v->string);
    for (fe_json child = fe_first(fe, v); child; child = fe_next(fe, child)) add(fe, m, child, aside);
}

static bool has(const struct map *map, const char *name) { return map_get(map, name) != MAP_NONE; }

static const struct fe_mentions *mentions(struct fe *fe)
{
    if (!fe->mentions) {
        struct fe_mentions *m = mentions_new(fe);
        for (fe_json top = fe_first(fe, fe_root(fe)); top; top = fe_next(fe, top))
            add(fe, m, top, strcmp(top->key, "sharding") == 0);
        fe->mentions = m;
    }
    return fe->mentions;
}

/* Expressions reach a node by its name, and parameters also by params.a.b, or as all of them. */
static bool is_read(struct fe *fe, const char *name)
{
    const struct map *names = &mentions(fe)->names;
    bool all = has(names, ALL_PARAMS);
    while (!all && *name) {
        size_t n = strcspn(name, ".");
        if (!has(names, arena_string_n(fe->arena, name, n))) return false;
        name += n + (name[n] == '.');
    }
    return true;
}

/* Members of a map, or strings of an array: those that are not in `map`. */
static void warn(struct fe *fe, fe_json list, const struct map *map, const char *what, const char *of)
{
    for (fe_json e = fe_first(fe, list); e; e = fe_next(fe, e)) {
        const char *name = e->key ? e->key : e->kind == JSON_STRING ? e->string : NULL;
        if (!name || has(map, name)) continue;
        struct diag *d = fe_warning(fe, e, "W0117", "nothing mentions %s \"%s\"%s", what, name, of);
        if (e->key) d->span = (struct diag_span){e->key_offset, e->key_length};
    }
}

static void warn_of_nodes(struct fe *fe, fe_json graph)
{
    fe_json type = fe_member(fe, graph, "type"), nodes = fe_member(fe, graph, "nodes");
    if (!type || type->kind != JSON_STRING || strcmp(type->string, "graph") != 0) return;
    for (fe_json node = fe_first(fe, nodes); node; node = fe_next(fe, node)) {
        fe_json name = fe_member(fe, node, "name");
        if (name && name->kind == JSON_STRING && !is_read(fe, name->string))
            fe_warning(fe, name, "W0117", "nothing mentions node \"%s\" of the graph", name->string);
    }
}

void fe_check_mentions(struct fe *fe)
{
    fe_json root = fe_root(fe), defines = fe_member(fe, root, "define"), inputs = fe_member(fe, root, "inputs");
    const struct fe_mentions *all = mentions(fe);
    bool any = false; /* what learns from nothing has an input that only gives a batch its size */
    for (fe_json e = fe_first(fe, inputs); e; e = fe_next(fe, e)) any |= has(&all->names, e->key);
    warn(fe, fe_member(fe, root, "constants"), &all->names, "constant", "");
    if (any) warn(fe, inputs, &all->names, "input", "");
    warn(fe, defines, &all->types, "definition", "");
    for (uint32_t i = 0; i < fe->json.count; i++)
        if (fe->json.values[i].kind == JSON_OBJECT) warn_of_nodes(fe, &fe->json.values[i]);
    for (fe_json define = fe_first(fe, defines); define; define = fe_next(fe, define)) {
        struct fe_mentions *own = mentions_new(fe);
        fe_json params = fe_member(fe, define, "params"), body = fe_member(fe, define, "body");
        const char *of = arena_format(fe->arena, " in the definition \"%.80s\"", define->key);
        if (params) add(fe, own, params, false);
        if (body) add(fe, own, body, false);
        warn(fe, params, &own->names, "parameter", of);
        warn(fe, fe_member(fe, define, "inputs"), &own->names, "input", of);
    }
}
