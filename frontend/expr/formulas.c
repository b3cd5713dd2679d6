/* Functions whose rows are formulas in the language itself (formulas.def). A formula sees nothing but the arguments,
 * those of a signature that ends in "*" as the tuple `rest`, and what its own first parts name: "n = shape(x)[0];
 * sum(x) / n". What is wrong in it is said about the call. */
#include "frontend/expr/makers.h"
#include <string.h>

static const struct {
    const char *name, *text;
} formulas[] = {
#define X(name, text) {#name, text},
#include "frontend/expr/formulas.def"
#undef X
};

static void blame_call(struct expr_node *n, const struct fe_where *w)
{
    n->at = w->at, n->length = w->length;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->items[i]) blame_call(n->items[i], w);
}

static const struct fe_env *bind(struct fe_site *s, const struct fe_env *outer, const char *name, struct fe_val value)
{
    struct fe_env *e = arena_new(s->fe->arena, struct fe_env);
    *e = (struct fe_env){outer, name, value};
    return e;
}

static struct fe_val part(struct fe_site *s, const char *text, const struct fe_where *where, const struct fe_env *env)
{
    struct expr_fault fault;
    struct expr_node *tree = expr_parse(s->fe->arena, text, &fault);
    if (!tree) BUG("the formula \"%s\": %s", text, fault.message);
    blame_call(tree, where);
    struct fe_val v = fe_eval(s, tree, env);
    s->where = *where;
    return v;
}

struct fe_val make_formula(struct fe_call *c)
{
    SITE;
    const char *text = NULL, *end;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (!strcmp(formulas[i].name, c->function)) text = formulas[i].text;
    if (!text) BUG("%s has no formula", c->function);
    struct fe_where where = s->where;
    const struct fe_function *row = fe_function_find(c->function);
    const char *const *names = fe_signature_names(s->fe->arena, row);
    const struct fe_env *env = strchr(row->signature, '*') ? bind(s, NULL, "rest", fe_tuple(s, c->rest, c->rest_count))
                                                           : NULL;
    for (uint32_t i = 0; names[i]; i++) env = bind(s, env, names[i], c->arg[i]);
    for (; (end = strstr(text, "; ")); text = end + 2) {
        const char *sign = strstr(text, " = ");
        const char *name = arena_string_n(s->fe->arena, text, (size_t)(sign - text));
        struct fe_val v = part(s, arena_string_n(s->fe->arena, sign + 3, (size_t)(end - sign - 3)), &where, env);
        if (v.bad) return v;
        env = bind(s, env, name, v);
    }
    return part(s, text, &where, env);
}
