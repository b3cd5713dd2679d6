/* Patterns over paths: what they match, and what of them does nothing. A pattern that matches nothing is an error of
 * who reads it; here are the parts that nobody misses: an alternative in braces, a key of a map behind one that takes
 * all. */
#include "frontend/document/document.h"

#include <string.h>

struct pattern {
    struct fe *fe;
    fe_json at;
    bool key;                 /* it stands in the key, not in the value */
    const char *const *paths; /* that the whole pattern matches */
    size_t count;
    const char *const *all;
    size_t all_count;
};

static size_t matched(const struct pattern *p, const char *text)
{
    size_t i = 0;
    while (i < p->count && !glob_match(text, p->paths[i])) i++;
    return i;
}

/* Where the alternative that begins there ends: at a comma or the brace of its own group. */
static size_t end_of(const char *text, size_t at)
{
    for (int depth = 0; text[at]; at++) {
        if (!depth && (text[at] == ',' || text[at] == '}')) break;
        depth += (text[at] == '{') - (text[at] == '}');
    }
    return at;
}

/* A pattern whose braces do not belong together means them as characters, which no path has. */
static bool is_balanced(const char *text)
{
    int depth = 0;
    for (; *text && depth >= 0; text++) depth += (*text == '{') - (*text == '}');
    return depth == 0;
}

static void warn_of(const struct pattern *p, size_t at, const char *alternative)
{
    struct fe *fe = p->fe;
    VEC(const char *) names = {0};
    struct map seen = MAP(fe->arena);
    struct diag *d = fe_warning_in(fe, p->at, p->key, (uint32_t)at, (uint32_t)strlen(alternative), "W0405",
                                   "alternative \"%s\" of this pattern matches nothing", alternative);
    for (size_t i = 0; i < p->all_count; i++) /* segments of paths */
        for (const char *from = p->all[i]; *from; from += *from == '.') {
            size_t n = strcspn(from, ".");
            const char *name = arena_string_n(fe->arena, from, n);
            if (map_set(&seen, name, 1)) vec_push(fe->arena, &names, name);
            from += n;
        }
    if (str_nearest(alternative, names.items, names.count)) fe_suggest(fe, d, alternative, names.items, names.count);
}

/* Alternatives in text[from, to), which stands `moved` bytes further in the document's pattern. Of an alternative that
 * matches those inside of it are looked at, in a pattern that has it alone. */
static void alternatives(const struct pattern *p, const char *text, size_t from, size_t to, size_t moved)
{
    for (size_t open = from; open < to; open++) {
        if (text[open] != '{') continue;
        size_t close = open, begin = open + 1, end;
        while (text[close] != '}') close = end_of(text, close + 1);
        for (; begin <= close; begin = end + 1) {
            end = end_of(text, begin);
            const char *own = arena_string_n(p->fe->arena, text + begin, end - begin),
                       *alone = arena_format(p->fe->arena, "%.*s{%s%s", (int)open, text, own, text + close);
            if (matched(p, alone) == p->count) warn_of(p, begin + moved, own);
            else alternatives(p, alone, open + 1, open + 1 + strlen(own), moved + begin - open - 1);
        }
        open = close;
    }
}

bool fe_pattern(struct fe *fe, fe_json at, bool key, const char *const *paths, size_t count)
{
    const char *text = key ? at->key : at->string;
    bool any = false, braces = strchr(text, '{') && is_balanced(text);
    const char **found = braces ? arena_new_array(fe->arena, const char *, count + 1) : NULL;
    struct pattern p = {fe, at, key, found, 0, paths, count};
    for (size_t i = 0; i < count && (braces || !any); i++) {
        if (!glob_match(text, paths[i])) continue;
        any = true;
        if (braces) found[p.count++] = paths[i];
    }
    if (any && braces) alternatives(&p, text, 0, strlen(text), 0);
    return any;
}

/* ---------------------------------------------------------------- maps, of which the first that matches counts */

fe_json fe_pattern_first(struct fe *fe, fe_json map, const char *path)
{
    fe_json e = fe_first(fe, map);
    while (e && !glob_match(e->key, path)) e = fe_next(fe, e);
    return e;
}

bool fe_pattern_map(struct fe *fe, fe_json map, const char *code, const char *const *paths, size_t count)
{
    bool good = true;
    fe_json *first = arena_new_array(fe->arena, fe_json, count + 1);
    for (size_t i = 0; i < count; i++) first[i] = fe_pattern_first(fe, map, paths[i]);
    for (fe_json e = fe_first(fe, map); e; e = fe_next(fe, e)) {
        fe_json before = NULL; /* what takes the first path that this one matches, too */
        bool taken = false;
        for (size_t i = 0; i < count && !taken; i++) {
            if (!before && first[i] != e && glob_match(e->key, paths[i])) before = first[i];
            taken = first[i] == e;
        }
        if (!fe_pattern(fe, e, true, paths, count)) {
            if (strcmp(e->key, "**") == 0) continue;
            fe_suggest(fe, fe_error_key(fe, e, code, "pattern \"%s\" matches no parameter", e->key), e->key, paths,
                       count);
            good = false;
        } else if (!taken && strcmp(e->key, "**") != 0) {
            struct diag *d = fe_warning_key(
                fe, e, "W0405", "an earlier pattern takes whatever \"%s\" matches: the first one counts", e->key);
            diag_note(fe->diags, d, (struct diag_span){before->key_offset, before->key_length}, "\"%s\" stands here",
                      before->key);
        }
    }
    return good;
}
