/* Functions whose rows are formulas in the language itself (formulas.def). A formula sees nothing but the arguments; what is
 * wrong in it is said about the call. */
#include "frontend/expr_makers.h"
#include <string.h>

static const struct { const char *name, *text; } formulas[] = {
#define X(name, text) {#name, text},
#include "frontend/formulas.def"
#undef X
};

static void blame_call(struct expr_node *n, const struct fe_where *w)
{
    n->at = w->at, n->length = w->length;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->items[i]) blame_call(n->items[i], w);
}

struct fe_val make_formula(struct fe_call *c)
{
    SITE;
    const char *text = NULL;
    struct expr_fault fault;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (!strcmp(formulas[i].name, c->function)) text = formulas[i].text;
    struct expr_node *tree = text ? expr_parse(s->fe->arena, text, &fault) : NULL;
    if (!tree) BUG("the formula of %s: %s", c->function, text ? fault.message : "there is none");
    struct fe_where where = s->where;
    blame_call(tree, &where);
    const char *const *names = fe_signature_names(s->fe->arena, fe_function_find(c->function));
    const struct fe_env *env = NULL;
    for (uint32_t i = 0; names[i]; i++) {
        struct fe_env *e = arena_new(s->fe->arena, struct fe_env);
        *e = (struct fe_env){env, names[i], c->arg[i]};
        env = e;
    }
    struct fe_val v = fe_eval(s, tree, env);
    s->where = where;
    return v;
}
