/* The table of functions, and calls: arguments are bound to the signature of a row. */
#include "frontend/expr/makers.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- tables */

static const struct fe_function functions[] = {
#define X(name, signature, make, data, flags) {#name, signature, make, data, flags},
#include "frontend/expr/functions.def"
#include "frontend/losses/losses.def"
#undef X
};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions };

/* Names of jax.numpy, jax.nn and Optax that have no row yet. */
static const struct {
    const char *name, *why;
} not_yet[] = {
#define X(name, why) {#name, why},
#include "frontend/expr/functions_later.def"
#undef X
};

const struct fe_function *fe_function_find(const char *name)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (!strcmp(functions[i].name, name)) return &functions[i];
    return NULL;
}

const char *fe_function_later(const char *name)
{
    for (size_t i = 0; i < sizeof not_yet / sizeof *not_yet; i++)
        if (!strcmp(not_yet[i].name, name)) return not_yet[i].why;
    return NULL;
}

const char *const *fe_function_names(struct arena *arena, unsigned flags, size_t *count)
{
    const char **names = arena_new_array(arena, const char *, FUNCTION_COUNT);
    *count = 0;
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (!(functions[i].flags & FE_HIDDEN) && (!flags || (functions[i].flags & flags)))
            names[(*count)++] = functions[i].name;
    return names;
}

bool fe_is_activation(const char *name)
{
    const struct fe_function *f = fe_function_find(name);
    return f && (f->flags & FE_ACTIVATION);
}

/* ---------------------------------------------------------------- signatures */

/* `silent`: ~name, which changes nothing of the result (precision, overwrite_a): taken and forgotten. `fixed`:
 * !name=default, of which nothing but the default is supported. The maker sees neither. */
struct parameter {
    const char *name;
    size_t length;
    const char *preset;
    bool rest, silent, fixed;
};

/* The next parameter of a signature; returns the text behind it, NULL at the end. */
static const char *next_parameter(const char *s, struct parameter *p)
{
    while (*s == ' ') s++;
    if (!*s) return NULL;
    *p = (struct parameter){.name = s};
    if (*s == '*') {
        p->rest = true;
        return s + 1;
    }
    p->silent = *s == '~', p->fixed = *s == '!';
    if (p->silent || p->fixed) p->name = ++s;
    while (*s && *s != ' ' && *s != '=') s++;
    p->length = (size_t)(s - p->name);
    if (*s == '=') {
        p->preset = ++s;
        while (*s && *s != ' ') s++;
    }
    return s;
}

const char *const *fe_signature_names(struct arena *arena, const struct fe_function *f)
{
    const char **names = arena_new_array(arena, const char *, FE_MAX_ARGS + 1);
    struct parameter p;
    uint32_t n = 0;
    for (const char *s = f->signature; (s = next_parameter(s, &p));)
        if (!p.rest && !p.silent && !p.fixed) names[n++] = arena_string_n(arena, p.name, p.length);
    return names;
}

const char *fe_signature_text(struct arena *arena, const struct fe_function *f)
{
    struct str out = STR(arena);
    struct parameter p;
    for (const char *s = f->signature, *from = s; (s = next_parameter(s, &p)); from = s) {
        while (*from == ' ') from++;
        if (p.silent || p.fixed) continue;
        if (out.length) str_add(&out, ", ");
        str_add_n(&out, from, (size_t)(s - from));
    }
    return str_text(&out);
}

bool fe_takes_word(const struct fe_function *f, const char *argument)
{
    struct parameter p;
    for (const char *s = f->signature; (s = next_parameter(s, &p));)
        if (strlen(argument) == p.length && !memcmp(argument, p.name, p.length)) return p.preset && *p.preset == '\'';
    return false;
}

static struct fe_val preset_value(struct arena *arena, const char *text)
{
    if (!strncmp(text, "None", 4)) return fe_none();
    if (!strncmp(text, "True", 4) || !strncmp(text, "False", 5))
        return (struct fe_val){.kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = *text == 'T'};
    if (*text == '\'') {
        const char *end = strchr(text + 1, '\'');
        return (struct fe_val){.kind = FE_VAL_STRING,
                               .string = arena_string_n(arena, text + 1, (size_t)(end - text - 1))};
    }
    char *end;
    double x = strtod(text, &end);
    bool integer = true;
    for (const char *c = text; c < end; c++)
        if (*c == '.' || *c == 'e') integer = false;
    return fe_val_number(x, integer);
}

static struct fe_val too_many(struct fe_site *s, const struct fe_function *f)
{
    return fe_fail(s, "E0312", "%s takes fewer arguments: %s(%s)", f->name, f->name,
                   fe_signature_text(s->fe->arena, f));
}

static struct fe_val unknown_keyword(struct fe_site *s, const struct fe_function *f, const char *name,
                                     const struct fe_where *where)
{
    const char *const *names = fe_signature_names(s->fe->arena, f);
    size_t n = 0;
    while (names[n]) n++;
    struct diag *d = fe_fail_at(s, where ? where : &s->where, "E0312", "%s has no argument \"%s\"", f->name, name);
    fe_suggest(s->fe, d, name, names, n);
    return fe_bad();
}

/* Whether a value is the default of its parameter, or None. */
static bool is_preset(struct fe_site *s, const struct parameter *p, const struct fe_val *v)
{
    struct fe_val preset = preset_value(s->fe->arena, p->preset);
    if (fe_is_none(v)) return true;
    if (v->kind != preset.kind) return false;
    return v->kind == FE_VAL_STRING ? !strcmp(v->string, preset.string)
                                    : v->kind == FE_VAL_NUMBER && v->number == preset.number;
}

static struct fe_val only_default(struct fe_site *s, const struct fe_function *f, const struct parameter *p,
                                  const struct fe_where *where)
{
    int preset = (int)strcspn(p->preset, " ");
    fe_fail_at(s, where, "E0312", "%s with another \"%.*s\" than %.*s is not supported yet", f->name, (int)p->length,
               p->name, preset, p->preset);
    return fe_bad();
}

struct fe_val fe_call_function(struct fe_site *s, const struct fe_function *f, const struct fe_val *args,
                               const char *const *names, const struct fe_where *wheres, uint32_t count)
{
    if (!f->make) return fe_fail(s, "E0302", "%s is not supported yet", f->name);
    struct fe_call call = {.site = s, .function = f->name, .data = f->data};
    uint32_t positional = 0, n = 0, place = 0; /* n: arguments that the maker sees; place: of the next positional one */
    while (positional < count && (!names || !names[positional])) positional++;
    for (uint32_t i = 0; i < count; i++)
        if (args[i].bad) return fe_bad();
    bool *used = arena_new_array(s->fe->arena, bool, count + 1);
    struct parameter p;
    bool rest = false;
    for (const char *at = f->signature; (at = next_parameter(at, &p));) {
        if (p.rest) {
            rest = true;
            call.rest = args + (place < positional ? place : positional);
            call.rest_count = place < positional ? positional - place : 0;
            for (uint32_t i = place; i < positional; i++) used[i] = true;
            positional = place < positional ? place : positional; /* what follows is by keyword only */
            continue;
        }
        uint32_t found = place < positional && !rest ? place : UINT32_MAX;
        place++;
        for (uint32_t i = 0; i < count && names; i++)
            if (names[i] && strlen(names[i]) == p.length && !memcmp(names[i], p.name, p.length)) {
                if (found != UINT32_MAX)
                    return fe_fail(s, "E0312", "%s gets its argument \"%s\" twice", f->name, names[i]);
                found = i;
            }
        if (p.silent || p.fixed) {
            if (found == UINT32_MAX) continue;
            used[found] = true;
            if (p.fixed && !is_preset(s, &p, &args[found]))
                return only_default(s, f, &p, wheres ? &wheres[found] : &s->where);
            continue;
        }
        call.where[n] = s->where;
        if (found != UINT32_MAX) {
            call.arg[n] = args[found];
            call.given[n] = used[found] = true;
            if (wheres) call.where[n] = wheres[found];
        } else if (p.preset) call.arg[n] = preset_value(s->fe->arena, p.preset);
        else return fe_fail(s, "E0312", "%s needs its argument \"%.*s\"", f->name, (int)p.length, p.name);
        n++;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!used[i]) {
            if (names && names[i]) return unknown_keyword(s, f, names[i], wheres ? &wheres[i] : NULL);
            return too_many(s, f);
        }
    struct fe_val result;
    if (n && fe_is_complex(&call.arg[0]) && fe_complex_call(&call, f, &result)) return result;
    return f->make(&call);
}

struct fe_val fe_apply_at(struct fe_site *s, const char *function, const struct fe_val *args, uint32_t n)
{
    const struct fe_function *f = fe_function_find(function);
    if (!f) BUG("no function %s", function);
    return fe_call_function(s, f, args, NULL, NULL, n);
}
