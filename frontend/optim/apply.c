/* Carrying out transformations: the row that an object names, with its arguments, and aliases, which are chains. */
#include "frontend/optim/optim.h"
#include <stdlib.h>
#include <string.h>

/* Where a transformation stands inside inject_hyperparams, any of its numbers may be a schedule. NULL: it is none. */
static const struct optim_hyper *hyper_of(const struct fe_optim_state *o, fe_json json, const char *name)
{
    for (size_t i = 0; i < o->hypers.count; i++) {
        const struct optim_hyper *h = &o->hypers.items[i];
        if (h->json == json && strcmp(h->argument, name) == 0) return h->value ? h : NULL;
    }
    return NULL;
}

static void run(struct optim_transform *t)
{
    if (t->row->rule) t->row->rule(t);
    else optim_chain(t, t->row->chain, 0);
}

void optim_apply(struct fe_optim_state *o, fe_json json, const char *path, ir_value *u, const ir_value *p)
{
    struct fe_value args[OPTIM_MOST_ARGS] = {0};
    ir_value injected[OPTIM_MOST_ARGS] = {0};
    bool hyper[OPTIM_MOST_ARGS] = {0};
    fe_json type = fe_member(o->fe, json, "type");
    const struct optim_row *row = type && type->kind == JSON_STRING ? optim_row_find(o->fe, type->string) : NULL;
    for (uint32_t i = 0; row && i < row->count; i++) hyper[i] = hyper_of(o, json, row->args[i].name) != NULL;
    row = optim_read(o, json, args, hyper);
    if (!row) return;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct optim_hyper *h = hyper[i] ? hyper_of(o, json, row->args[i].name) : NULL;
        if (h) injected[i] = h->value, args[i].number = h->begin;
        else if (!args[i].null) injected[i] = optim_rate(o, json, &row->args[i], &args[i]);
    }
    struct optim_transform t = {.o = o,
                                .fe = o->fe,
                                .b = o->b,
                                .row = row,
                                .json = json,
                                .path = path,
                                .args = args,
                                .injected = injected,
                                .count = o->count,
                                .u = u,
                                .p = p};
    run(&t);
}

/* ---------------------------------------------------------------- aliases */

/* A default or a constant of a chain text as a value: number, true, false, null or "string". */
static struct fe_value literal(struct fe *fe, const struct fe_arg *row, const char *text)
{
    struct fe_value v = {0};
    if (!text || strcmp(text, "null") == 0) v.null = true;
    else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) v.boolean = text[0] == 't';
    else if (text[0] == '"') v.string = arena_string_n(fe->arena, text + 1, strlen(text) - 2);
    else v.number = strtod(text, NULL), v.integer = fe_whole(v.number);
    if (row->kind == FE_DTYPE && v.string) v.dtype = ir_dtype_find(v.string);
    return v;
}

/* The argument of the alias that `text` names, the first of "a|b" that is not null; -1: it has none of that name. */
static int32_t argument_of(const struct optim_transform *t, const char *text, size_t length)
{
    const char *other = memchr(text, '|', length);
    size_t first = other ? (size_t)(other - text) : length;
    int32_t i = optim_arg_find(t->row, text, first);
    return other && t->args[i].null ? argument_of(t, other + 1, length - first - 1) : i;
}

/* One part of a chain: "name(argument=value,..)?condition", where a value is an argument of the alias or a literal.
 * What is not given there comes from the alias's argument of the same name, else from the part's default. With `@mask`
 * behind it the part runs for the leaves of that argument. */
static void run_part(struct optim_transform *t, const char *text, uint32_t index)
{
    size_t name_length = strcspn(text, "(?@ ");
    const char *mask = strchr(text, '@');
    const char *open = text[name_length] == '(' ? text + name_length + 1 : "";
    const struct optim_row *row = optim_row_find(t->fe, arena_string_n(t->fe->arena, text, name_length));
    if (!row) BUG("unknown part of a chain: %s", text);
    struct fe_value args[OPTIM_MOST_ARGS];
    ir_value injected[OPTIM_MOST_ARGS] = {0};
    for (uint32_t i = 0; i < row->count; i++) {
        const char *name = row->args[i].name, *value = NULL;
        size_t value_length = 0;
        for (const char *at = open; *at && *at != ')'; at += strcspn(at, ",)"), at += *at == ',') {
            size_t n = strcspn(at, "=");
            if (n != strlen(name) || strncmp(at, name, n)) continue;
            value = at + n + 1, value_length = strcspn(value, ",)");
        }
        int32_t from = value ? argument_of(t, value, value_length) : optim_arg_find(t->row, name, strlen(name));
        if (from >= 0) args[i] = t->args[from], injected[i] = t->injected[from];
        else
            args[i] = literal(t->fe, &row->args[i],
                              value ? arena_string_n(t->fe->arena, value, value_length) : row->args[i].preset);
    }
    struct optim_transform inner = *t;
    inner.row = row, inner.args = args, inner.injected = injected;
    if (index != OPTIM_HERE) inner.path = arena_format(t->fe->arena, "%s.%u", t->path, index);
    bool *in = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (mask && !optim_mask(t, mask + 1, in)) return;
    if (mask) inner.u = optim_new_tree(t);
    for (uint32_t i = 0; mask && i < t->count; i++) inner.u[i] = in[i] ? t->u[i] : 0;
    run(&inner);
    for (uint32_t i = 0; mask && i < t->count; i++)
        if (in[i]) t->u[i] = inner.u[i];
}

/* Whether an argument is neither null nor false; of "not x": whether x is. */
static bool is_given(const struct optim_transform *t, const char *text)
{
    bool not = strncmp(text, "not ", 4) == 0;
    uint32_t i = optim_arg_index(t, text + (not ? 4 : 0));
    return (!t->args[i].null && (t->args[i].boolean || t->row->args[i].kind != FE_BOOL)) != not ;
}

void optim_chain(struct optim_transform *t, const char *chain, uint32_t first)
{
    uint32_t index = first;
    while (*chain) {
        const char *end = strstr(chain, " -> ");
        size_t length = end ? (size_t)(end - chain) : strlen(chain);
        const char *part = arena_string_n(t->fe->arena, chain, length);
        const char *stands = strchr(part, '?'), *comes = strstr(part, " if ");
        bool wanted = (!stands || is_given(t, stands + 1)) && (!comes || is_given(t, comes + strlen(" if ")));
        if (wanted) run_part(t, part, index);
        index += wanted || !comes; /* without such a part the others move up; else it stands there as identity */
        chain += length + (end ? strlen(" -> ") : 0);
    }
}

void optim_apply_without_value(struct fe_optim_state *o, fe_json json, const char *wrapper, const char *path,
                               ir_value *u, const ir_value *p)
{
    const char *outer = o->no_value;
    if (!outer) o->no_value = wrapper;
    optim_apply(o, json, path, u, p);
    o->no_value = outer;
}

/* ---------------------------------------------------------------- formulas */

static const struct optim_calls calls = {at_count, optim_chain};

void optim_formula_run(struct optim_transform *t) { optim_formula_entry(t, "transform", t->row->name, NULL, &calls); }

void optim_formula_given(struct optim_transform *t, const char *part, const struct optim_given *given)
{
    optim_formula_entry(t, "part", part, given, &calls);
}
