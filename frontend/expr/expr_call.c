/* Calls of functions: arguments are bound to the signature and become of the kinds that it says. */
#include "frontend/expr/makers.h"
#include <stdlib.h>
#include <string.h>

/* Names of jax.numpy, jax.nn and Optax that have no row yet. */
static const struct {
    const char *name, *why;
} not_yet[] = {
#define X(name, why) {#name, why},
#include "frontend/expr/functions_later.def"
#undef X
};

const char *fe_function_later(const char *name)
{
    for (size_t i = 0; i < sizeof not_yet / sizeof *not_yet; i++)
        if (!strcmp(not_yet[i].name, name)) return not_yet[i].why;
    return NULL;
}

/* ---------------------------------------------------------------- signatures */

static enum fe_argument_kind kind_of(const char *word, size_t length)
{
    static const char *const kinds[] = {"any", "tensor", "float", "common", "floating", "int", "integer", "number"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i]) == length && !memcmp(kinds[i], word, length)) return (enum fe_argument_kind)i;
    BUG("\"%.*s\" is no kind of argument", (int)length, word);
}

const char *fe_parameter_next(const char *s, struct fe_parameter *p)
{
    s += strspn(s, ", \n");
    if (!*s) return NULL;
    *p = (struct fe_parameter){.name = s};
    if (*s == '*') {
        p->rest = true;
        return s + 1;
    }
    p->silent = *s == '~', p->fixed = *s == '!';
    if (p->silent || p->fixed) p->name = ++s;
    p->length = strcspn(s, ":, =\n");
    s += p->length;
    if (*s == ':') {
        s += 1 + strspn(s + 1, " ");
        size_t length = strcspn(s, ", =");
        p->kind = kind_of(s, length);
        s += length;
    }
    if (*s == '=') {
        p->preset = ++s;
        p->preset_length = strcspn(s, ", ");
        s += p->preset_length;
    }
    return s;
}

const char *const *fe_signature_names(struct arena *arena, const struct fe_function *f)
{
    const char **names = arena_new_array(arena, const char *, FE_MAX_ARGS + 1);
    struct fe_parameter p;
    uint32_t n = 0;
    for (const char *s = f->signature; (s = fe_parameter_next(s, &p));)
        if (!p.rest && !p.silent && !p.fixed) names[n++] = arena_string_n(arena, p.name, p.length);
    return names;
}

const char *fe_signature_text(struct arena *arena, const struct fe_function *f)
{
    struct str out = STR(arena);
    struct fe_parameter p;
    for (const char *s = f->signature; (s = fe_parameter_next(s, &p));) {
        if (p.silent || p.fixed) continue;
        str_addf(&out, "%s%.*s", out.length ? ", " : "", p.rest ? 1 : (int)p.length, p.name);
        if (p.preset) str_addf(&out, "=%.*s", (int)p.preset_length, p.preset);
    }
    return str_text(&out);
}

bool fe_takes_word(const struct fe_function *f, const char *argument)
{
    struct fe_parameter p;
    for (const char *s = f->signature; (s = fe_parameter_next(s, &p));)
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
static bool is_preset(struct fe_site *s, const struct fe_parameter *p, const struct fe_val *v)
{
    struct fe_val preset = preset_value(s->fe->arena, p->preset);
    if (fe_is_none(v)) return true;
    if (v->kind != preset.kind) return false;
    return v->kind == FE_VAL_STRING ? !strcmp(v->string, preset.string)
                                    : v->kind == FE_VAL_NUMBER && v->number == preset.number;
}

static struct fe_val only_default(struct fe_site *s, const struct fe_function *f, const struct fe_parameter *p,
                                  const struct fe_where *where)
{
    int preset = (int)p->preset_length;
    fe_fail_at(s, where, "E0312", "%s with another \"%.*s\" than %.*s is not supported yet", f->name, (int)p->length,
               p->name, preset, p->preset);
    return fe_bad();
}

/* What may be said by arguments that change nothing of the result: words here, else flags and numbers. */
static const struct {
    const char *argument, *function; /* NULL: of every function that has the argument */
    const char *words[9];
    bool flags; /* so are these */
} silent_words[] = {
    {"precision",
     NULL,
     {"default", "high", "highest", "fastest", "float32", "bfloat16", "bfloat16_3x", "tensorfloat32"},
     0},
    {"order", NULL, {"K", "A", "C", "F"}, false},
    {"kind", NULL, {"quicksort", "mergesort", "heapsort", "stable"}, false},
    {"optimize", NULL, {"optimal", "greedy", "auto"}, true},
    {"assume_a", NULL, {"gen", "sym", "her", "pos"}, false},
    {"method", "slogdet", {"lu", "qr"}, false},
    {"method", "isin", {"auto", "compare_all", "binary_search", "sort"}, false},
    {"method", NULL, {"scan", "scan_unrolled", "sort", "compare_all"}, false},
};

static bool known_silent(struct fe_site *s, const struct fe_function *f, const struct fe_parameter *p,
                         const struct fe_val *v, const struct fe_where *where)
{
    enum { ROWS = sizeof silent_words / sizeof *silent_words };
    uint32_t row = 0, words = 0;
    while (row < ROWS && (strlen(silent_words[row].argument) != p->length ||
                          strncmp(p->name, silent_words[row].argument, p->length) != 0 ||
                          (silent_words[row].function && strcmp(silent_words[row].function, f->name) != 0)))
        row++;
    if (v->kind == FE_VAL_NUMBER && (row == ROWS || silent_words[row].flags)) return true;
    if (fe_is_none(v) || p->kind == FE_ARG_TENSOR) return true;
    struct str text = STR(s->fe->arena);
    for (; row < ROWS && silent_words[row].words[words]; words++) {
        if (v->kind == FE_VAL_STRING && !strcmp(v->string, silent_words[row].words[words])) return true;
        str_addf(&text, "%s'%s'", words ? ", " : "", silent_words[row].words[words]);
    }
    bool pair = words && v->kind == FE_VAL_TUPLE && v->count == 2 && *p->name == 'p'; /* of the two operands */
    if (pair) return known_silent(s, f, p, &v->items[0], where) && known_silent(s, f, p, &v->items[1], where);
    struct diag *d = fe_fail_at(s, where, "E0310", "%s: \"%.*s\" is one of %s, found %s", f->name, (int)p->length,
                                p->name, words ? str_text(&text) : "True, False and numbers", fe_describe(s, v));
    return words && v->kind == FE_VAL_STRING &&
           (fe_suggest(s->fe, d, v->string, silent_words[row].words, words), false);
}

/* One argument as its kind says; false: an error was recorded. */
static bool convert_one(struct fe_call *c, uint32_t i, enum fe_argument_kind kind)
{
    struct fe_val *v = &c->arg[i];
    int64_t integer;
    if (kind == FE_ARG_ANY || kind == FE_ARG_COMMON) return true;
    if (kind == FE_ARG_INTEGER) return fe_get_int(c, i, &integer);
    if (kind == FE_ARG_FLOAT) return !(*v = fe_inexact(c->site, *v)).bad;
    if (kind == FE_ARG_NUMBER) {
        if (v->kind == FE_VAL_NUMBER) return true;
        return fe_wrong_at(c->site, &c->where[i], "E0310", "%s: a number expected, found %s", c->function,
                           fe_describe(c->site, v));
    }
    if (!fe_as_tensor(c->site, v)) return false;
    enum ir_dtype d = (enum ir_dtype)fe_type_at(c->site, v).dtype;
    if (kind == FE_ARG_TENSOR || (kind == FE_ARG_INT ? ir_dtype_is_integer(d) : ir_dtype_is_float(d))) return true;
    return fe_wrong_at(c->site, &c->where[i], "E0213",
                       kind == FE_ARG_INT ? "%s needs labels of an integer dtype such as int32, found %s"
                                          : "%s needs floating point values such as float32, found %s",
                       c->function, fe_describe(c->site, v));
}

/* Of what is 16 bits wide in float32, the result rounded once. */
static struct fe_val make_wide(struct fe_call *c, uint32_t n)
{
    struct fe_kind_of all = {IR_BOOL, true};
    for (uint32_t i = 0; i < n; i++)
        if (c->kind[i] == FE_ARG_FLOAT || c->kind[i] == FE_ARG_COMMON)
            all = fe_promote(all, fe_kind(c->site, &c->arg[i]));
    bool narrow = ir_dtype_bytes(all.dtype) < 4;
    for (uint32_t i = 0; narrow && i < n; i++)
        if (c->kind[i] == FE_ARG_FLOAT || c->kind[i] == FE_ARG_COMMON) c->arg[i] = fe_cast(c->site, c->arg[i], IR_F32);
    struct fe_val v = c->row->make(c);
    return narrow && !v.bad ? fe_cast(c->site, v, all.dtype) : v;
}

static bool convert(struct fe_call *c, uint32_t n)
{
    struct fe_kind_of common = {IR_BOOL, true};
    bool any = false, ok = true;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = convert_one(c, i, (enum fe_argument_kind)c->kind[i]);
        if (c->kind[i] != FE_ARG_COMMON || !ok) continue;
        common = any ? fe_promote(common, fe_kind(c->site, &c->arg[i])) : fe_kind(c->site, &c->arg[i]);
        any = true;
    }
    for (uint32_t i = 0; i < n && ok; i++)
        if (c->kind[i] == FE_ARG_COMMON) {
            bool strong = ir_dtype_is_float(common.dtype) && !common.weak;
            c->arg[i] = strong ? fe_cast(c->site, c->arg[i], common.dtype) : fe_inexact(c->site, c->arg[i]);
            ok = !c->arg[i].bad;
        }
    return ok;
}

struct fe_val fe_call_made(struct fe_call *c, uint32_t n)
{
    if (!convert(c, n)) return fe_bad();
    return c->row->flags & FE_WIDE ? make_wide(c, n) : c->row->make(c);
}

/* The indices that a function of the document notes are those of its result; what a loss gets may be labels. */
static void note_made(struct fe_site *s, const struct fe_function *f, const struct fe_call *call, uint32_t n,
                      size_t first, const struct fe_val *result)
{
    struct fe_index_notes *notes = s->trace->notes;
    if (result->kind == FE_VAL_TUPLE && result->count) result = &result->items[0];
    for (size_t i = first; i < notes->list.count; i++)
        if (!notes->list.items[i].made && result->kind == FE_VAL_TENSOR) notes->list.items[i].made = result->tensor;
    for (uint32_t i = 0; f->flags & FE_LOSS && i < n; i++)
        if (call->arg[i].kind == FE_VAL_TENSOR) vec_push(s->fe->arena, &notes->labels, call->arg[i].tensor);
}

struct fe_val fe_call_function(struct fe_site *s, const struct fe_function *f, const struct fe_val *args,
                               const char *const *names, const struct fe_where *wheres, uint32_t count)
{
    if (!f->make) return fe_fail(s, "E0302", "%s is not supported yet", f->name);
    struct fe_call call = {.site = s, .row = f, .function = s->frame ? s->frame->function : f->name, .data = f->data};
    uint32_t positional = 0, n = 0, place = 0; /* n: arguments that the maker sees; place: of the next positional one */
    while (positional < count && (!names || !names[positional])) positional++;
    for (uint32_t i = 0; i < count; i++)
        if (args[i].bad) return fe_bad();
    bool *used = arena_new_array(s->fe->arena, bool, count + 1);
    struct fe_parameter p;
    bool rest = false;
    for (const char *at = f->signature; (at = fe_parameter_next(at, &p));) {
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
            if (p.silent && !known_silent(s, f, &p, &args[found], wheres ? &wheres[found] : &s->where)) return fe_bad();
            continue;
        }
        call.where[n] = s->where;
        if (found != UINT32_MAX) {
            call.arg[n] = args[found];
            call.given[n] = used[found] = true;
            if (wheres) call.where[n] = wheres[found];
        } else if (p.preset) call.arg[n] = preset_value(s->fe->arena, p.preset);
        else return fe_fail(s, "E0312", "%s needs its argument \"%.*s\"", f->name, (int)p.length, p.name);
        call.kind[n] = (uint8_t)(fe_is_none(&call.arg[n]) && p.preset ? FE_ARG_ANY : p.kind);
        n++;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!used[i]) {
            if (names && names[i]) return unknown_keyword(s, f, names[i], wheres ? &wheres[i] : NULL);
            return too_many(s, f);
        }
    struct fe_val result;
    if (fe_complex_call(&call, n, &result)) return result;
    size_t notes = s->trace->notes ? s->trace->notes->list.count : 0;
    result = fe_call_made(&call, n);
    if (s->trace->notes && !s->frame) note_made(s, f, &call, n, notes, &result);
    return result;
}

struct fe_val fe_apply_at(struct fe_site *s, const char *function, const struct fe_val *args, uint32_t n)
{
    const struct fe_function *f = fe_function_find(fe_library(s->fe), function);
    if (!f) BUG("no function %s", function);
    return fe_call_function(s, f, args, NULL, NULL, n);
}
