/* Evaluates expression trees into IR: names, calls, methods, operators, indexing. The names an expression sees are an
 * environment, then the document's constants, then `params`, then pi and the like. */
#include "frontend/expr/values.h"
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- names */

/* What stands behind the dot of a tensor, and the function that gives it. */
static const char *const facts[][2] = {
    {"T", "transpose"}, {"mT", "matrix_transpose"}, {"shape", "shape"}, {"ndim", "ndim"},
    {"size", "size"},   {"dtype", "dtype"},         {"real", "real"},   {"imag", "imag"}};
enum { FACTS = sizeof facts / sizeof *facts };

static struct fe_val member(struct fe_site *, const struct fe_val *base, const char *root, const char *rest);

/* What comes behind the path of a tensor that `path` begins with: "T" of "a.kernel.T"; NULL if it does not. */
static const char *behind(const char *tensor, const char *path)
{
    size_t n = strlen(tensor);
    return !strncmp(tensor, path, n) && path[n] == '.' ? path + n + 1 : NULL;
}

static struct fe_val tree_member(struct fe_site *s, const struct fe_tree *tree, const char *root, const char *path)
{
    size_t n = strlen(path);
    VEC(const char *) paths = {0};
    VEC(ir_value) values = {0};
    for (uint32_t i = 0; i < tree->count; i++) {
        if (!strcmp(tree->paths[i], path)) return fe_val_tensor(tree->values[i]);
        if (!strncmp(tree->paths[i], path, n) && tree->paths[i][n] == '.') { /* a subtree */
            vec_push(s->fe->arena, &paths, tree->paths[i] + n + 1);
            vec_push(s->fe->arena, &values, tree->values[i]);
        }
    }
    if (paths.count) {
        struct fe_tree *sub = arena_new(s->fe->arena, struct fe_tree);
        *sub = (struct fe_tree){paths.items, values.items, (uint32_t)paths.count};
        return (struct fe_val){.kind = FE_VAL_TREE, .tree = sub};
    }
    for (uint32_t i = 0; i < tree->count; i++) {
        struct fe_val tensor = fe_val_tensor(tree->values[i]);
        if (behind(tree->paths[i], path))
            return member(s, &tensor, arena_format(s->fe->arena, "%s.%s", root, tree->paths[i]),
                          behind(tree->paths[i], path));
    }
    struct diag *d = fe_fail_at(s, &s->where, "E0304", "%s has no \"%s\"", root, path);
    fe_suggest(s->fe, d, path, tree->paths, tree->count);
    return fe_bad();
}

static struct fe_val member(struct fe_site *s, const struct fe_val *base, const char *root, const char *rest)
{
    if (base->bad) return *base;
    if (base->kind == FE_VAL_TREE) return tree_member(s, base->tree, root, rest);
    bool number = base->kind == FE_VAL_NUMBER || base->kind == FE_VAL_TENSOR, complex = fe_is_complex(base);
    if (base->kind == FE_VAL_TUPLE && base->names && !complex) {
        for (uint32_t i = 0; i < base->count; i++) {
            size_t n = strlen(base->names[i]);
            if (!strcmp(base->names[i], rest)) return base->items[i];
            if (!strncmp(base->names[i], rest, n) && rest[n] == '.')
                return member(s, &base->items[i], base->names[i], rest + n + 1);
        }
        struct diag *d = fe_fail_at(s, &s->where, "E0304", "\"%s\" has no part \"%s\"", root, rest);
        fe_suggest(s->fe, d, rest, base->names, base->count);
        return fe_bad();
    }
    for (size_t i = 0; (number || complex) && i < FACTS; i++)
        if (!strcmp(rest, facts[i][0])) return FE_APPLY(s, facts[i][1], *base);
    if ((number || complex) && !strcmp(rest, "at")) {
        struct fe_val place = fe_tuple(s, base, 1);
        place.kind = FE_VAL_AT;
        return place;
    }
    const char *dot = strrchr(rest, '.'); /* x.T.shape */
    if (dot && (number || complex)) {
        struct fe_val before = member(s, base, root, arena_string_n(s->fe->arena, rest, (size_t)(dot - rest)));
        return member(s, &before, root, dot + 1);
    }
    return fe_fail(s, "E0304", "\"%s\" is %s and has no part \"%s\"", root, fe_describe(s, base), rest);
}

static uint32_t param_count(const struct fe_site *s) { return s->fe->parameters ? s->fe->parameters->count(s->fe) : 0; }

static ir_value param_value(struct fe_site *s, uint32_t i) { return s->fe->parameters->value(s->fe, s->trace, i); }

static struct fe_val all_params(struct fe_site *s)
{
    uint32_t n = param_count(s), count = 0;
    const char **paths = arena_new_array(s->fe->arena, const char *, n + 1);
    ir_value *values = arena_new_array(s->fe->arena, ir_value, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        bool statistic;
        paths[count] = s->fe->parameters->path(s->fe, i, &statistic);
        if (!statistic) values[count++] = param_value(s, i);
    }
    struct fe_tree *tree = arena_new(s->fe->arena, struct fe_tree);
    *tree = (struct fe_tree){paths, values, count};
    return (struct fe_val){.kind = FE_VAL_TREE, .tree = tree};
}

/* `params` or `params.<path>`; only the parameter that is asked for becomes a value. */
static struct fe_val param_by_path(struct fe_site *s, const char *path)
{
    uint32_t n = param_count(s);
    const char **paths = arena_new_array(s->fe->arena, const char *, n + 1);
    bool statistic;
    for (uint32_t i = 0; i < n; i++) paths[i] = s->fe->parameters->path(s->fe, i, &statistic);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(paths[i], path)) return fe_val_tensor(param_value(s, i));
    for (uint32_t i = 0; i < n; i++) {
        const char *rest = behind(paths[i], path);
        bool subtree = false;
        for (uint32_t k = 0; rest && k < n; k++) subtree |= behind(path, paths[k]) != NULL;
        if (!rest || subtree) continue;
        struct fe_val tensor = fe_val_tensor(param_value(s, i));
        return member(s, &tensor, arena_format(s->fe->arena, "params.%s", paths[i]), rest);
    }
    struct fe_val tree = all_params(s);
    return tree_member(s, tree.tree, "params", path);
}

static bool builtin(const char *name, struct fe_val *v)
{
    static const struct {
        const char *name;
        double value;
    } numbers[] = {{"pi", 3.14159265358979323846},
                   {"e", 2.71828182845904523536},
                   {"inf", INFINITY},
                   {"nan", NAN},
                   {"euler_gamma", 0.57721566490153286061}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(numbers[i].name, name)) {
            *v = fe_float(numbers[i].value);
            return true;
        }
    if (!strcmp(name, "newaxis")) {
        *v = fe_none();
        return true;
    }
    if (ir_dtype_find(name) != IR_TUPLE || !strcmp(name, "int") || !strcmp(name, "float")) {
        *v = (struct fe_val){.kind = FE_VAL_STRING, .string = name};
        return true;
    }
    return false;
}

static struct fe_val unknown_name(struct fe_site *s, const char *name, const struct fe_env *env)
{
    static const char *const elsewhere[] = {"grads", "updates", "hyperparams", "loss_scale", "loss", "model"};
    static const char *const known[] = {"params", "pi", "inf", "nan"};
    VEC(const char *) names = {0};
    const char *dot = strchr(name, '.');
    const char *root = dot ? arena_string_n(s->fe->arena, name, (size_t)(dot - name)) : name;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(root, elsewhere[i]))
            return fe_fail(s, "E0301",
                           i < 4 ? "\"%s\" is not known here: only metrics can use it"
                                 : "\"%s\" is not known here: it has no value yet",
                           root);
    if (fe_function_find(fe_library(s->fe), root))
        return fe_fail(s, "E0301", "\"%s\" is a function; call it: %s(...)", root, root);
    for (const struct fe_env *e = env; e; e = e->outer) vec_push(s->fe->arena, &names, e->name);
    for (const struct fe_scope *c = s->fe->constants; c; c = c->outer) vec_push(s->fe->arena, &names, c->name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) vec_push(s->fe->arena, &names, known[i]);
    bool metric = false; /* the loss has a name where metrics are computed, which may use the gradients too */
    for (const struct fe_env *e = env; e; e = e->outer) metric |= strcmp(e->name, "loss") == 0;
    for (size_t i = 0; metric && i < 3; i++) vec_push(s->fe->arena, &names, elsewhere[i]);
    bool input = !strcmp(root, "x") && !dot;
    struct diag *d = fe_fail_at(s, &s->where, "E0301",
                                input ? "\"%s\" is not known here: the block has no input" : "unknown name \"%s\"",
                                root);
    fe_suggest(s->fe, d, root, names.items, names.count);
    return fe_bad();
}

const struct fe_env *fe_bind(struct arena *arena, const struct fe_env *outer, const char *name, struct fe_val value)
{
    struct fe_env *e = arena_new(arena, struct fe_env);
    *e = (struct fe_env){outer, name, value, false};
    return e;
}

const struct fe_env *fe_bind_own(struct arena *arena, const struct fe_env *outer, const char *name, struct fe_val value)
{
    struct fe_env *e = arena_new(arena, struct fe_env);
    *e = (struct fe_env){outer, name, value, true};
    return e;
}

static uint32_t graph_of(const struct fe *fe, const struct fe_env *e)
{
    return fe->graph_env.count ? map_get_number(&fe->graph_env, (uint64_t)(uintptr_t)e) : MAP_NONE;
}

const struct fe_env *fe_env_find(const struct fe *fe, const struct fe_env *e, const char *name)
{
    while (e && strcmp(e->name, name)) {
        uint32_t known = graph_of(fe, e);
        e = e->outer;
        if (known == MAP_NONE) continue;
        struct fe_graph_env graph = fe->graph_envs.items[known];
        uint32_t at = map_get(&graph.names->position, name);
        if (at == MAP_NONE) e = graph.names->outer;
        else if (at < graph.position) return graph.names->list.items[at]; /* else a later node of the same name */
    }
    return e;
}

/* A node of a graph whose name is that of an input, of x or of a definition's parameter: which one is meant? */
static bool is_ambiguous(struct fe_site *s, const struct fe_env *e)
{
    struct fe *fe = s->fe;
    uint32_t known = graph_of(fe, e);
    const struct fe_env *outer = known == MAP_NONE ? NULL
                                                   : fe_env_find(fe, fe->graph_envs.items[known].names->outer, e->name);
    if (!outer || graph_of(fe, outer) != MAP_NONE) return false;
    struct diag *d = fe_fail_at(s, &s->where, "E0110",
                                "\"%s\" is a node of the graph and an input; give the node another name", e->name);
    fe_json inputs = fe_member(fe, fe_root(fe), "inputs"), input = inputs ? fe_member(fe, inputs, e->name) : NULL;
    if (input)
        diag_note(fe->diags, d, (struct diag_span){input->key_offset, input->key_length}, "\"%s\" is an input here",
                  e->name);
    return true;
}

/* A constant has the name of something else that the expression sees: which of them is meant? */
static void warn_of_constant(struct fe_site *s, const char *name, const char *other, bool hidden)
{
    const struct fe_where *w = &s->where;
    struct fe *fe = s->fe;
    const char *text = arena_format(fe->arena,
                                    hidden ? "\"%s\" is %s here, and not the constant of that name"
                                           : "\"%s\" is the constant here, and not %s",
                                    name, other);
    struct diag *d = w->part ? fe_warning_in(fe, w->json, false, w->at, w->length, "W0110", "%s", text)
                             : fe_warning(fe, w->json, "W0110", "%s", text);
    fe_json own = fe_member(fe, fe_member(fe, fe_root(fe), "constants"), name);
    if (own && !d->notes.count)
        diag_note(fe->diags, d, (struct diag_span){own->key_offset, own->key_length}, "the constant stands here");
}

/* A parameter of a definition is both, and the same. */
static bool is_number(const struct fe_val *v, const struct fe_scope *c)
{
    return v->kind == FE_VAL_NUMBER && (v->number == c->value || isnan(c->value));
}

static struct fe_val fe_lookup(struct fe_site *s, const char *dotted, const struct fe_env *env)
{
    size_t length = strlen(dotted);
    for (size_t n = length; n > 0; n--) {
        if (n < length && dotted[n] != '.') continue;
        const char *rest = n < length ? dotted + n + 1 : NULL;
        const char *name = rest ? arena_string_n(s->fe->arena, dotted, n) : dotted;
        const struct fe_env *e = fe_env_find(s->fe, env, name);
        if (e && is_ambiguous(s, e)) return fe_bad();
        const struct fe_scope *c = s->frame ? NULL : fe_constant(s->fe, name);
        if (e && c && !e->own && !is_number(&e->value, c)) warn_of_constant(s, name, fe_describe(s, &e->value), true);
        if (e) return rest ? member(s, &e->value, e->name, rest) : e->value;
        bool params = !s->frame && !strcmp(name, "params");
        struct fe_val v;
        bool known = !rest && builtin(name, &v);
        if (c && params) warn_of_constant(s, name, "the model's parameters", rest);
        if (c && known && !is_number(&v, c)) warn_of_constant(s, name, "what it is elsewhere", false);
        if (c && !rest) return fe_val_number(c->value, c->integer);
        if (params) return rest ? param_by_path(s, rest) : all_params(s);
        if (known) return v;
    }
    return unknown_name(s, dotted, env);
}

/* ---------------------------------------------------------------- trees to values */

static struct fe_val eval(struct fe_site *s, const struct expr_node *n, const struct fe_env *env);

static struct fe_where where_of(const struct fe_site *s, const struct expr_node *n)
{
    return s->frame ? s->frame->where : (struct fe_where){s->where.json, n->at, n->length, true};
}

struct fe_where fe_where_argument(const struct fe_site *s, const struct expr_node *n)
{
    for (uint32_t i = 0; s->frame && n->kind == EXPR_NAME && s->frame->names[i]; i++)
        if (!strcmp(s->frame->names[i], n->text)) return s->frame->wheres[i];
    return where_of(s, n);
}

/* What stands behind a dot is a function of what stands before it: x.sum(axis=0) is sum(x, axis=0). */
static const char *const methods[] = {
    "sum",       "mean",      "max",     "min",     "prod",         "any",     "all",          "var",
    "std",       "ptp",       "argmax",  "argmin",  "argsort",      "sort",    "argpartition", "partition",
    "cumsum",    "cumprod",   "clip",    "round",   "astype",       "reshape", "ravel",        "flatten",
    "transpose", "swapaxes",  "squeeze", "repeat",  "take",         "dot",     "diagonal",     "trace",
    "conj",      "conjugate", "copy",    "nonzero", "searchsorted", "choose",  "compress",
};

static const struct fe_function *method(struct fe_site *s, const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i], name))
            return fe_function_find(fe_library(s->fe), !strcmp(name, "flatten") ? "ravel" : name);
    return NULL;
}

static struct fe_val unknown_function(struct fe_site *s, const char *name, const struct fe_env *env)
{
    const char *last = strrchr(name, '.');
    static const char *const modules[] = {"jnp",   "np",    "jax",   "nn",     "nnx",    "lax",
                                          "optax", "numpy", "scipy", "linalg", "special"};
    bool module = !last || !method(s, last + 1);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        size_t length = strlen(modules[i]);
        module |= !strncmp(name, modules[i], length) && name[length] == '.';
    }
    if (!module) return unknown_name(s, arena_string_n(s->fe->arena, name, (size_t)(last - name)), env);
    const char *why = fe_function_later(last ? last + 1 : name);
    if (why) return fe_fail(s, "E0302", *why ? "%s is not supported yet: %s" : "%s is not supported yet", name, why);
    size_t count;
    const char *const *names = fe_function_names(fe_library(s->fe), 0, &count);
    struct diag *d = fe_fail_at(s, &s->where, "E0302", "unknown function \"%s\"", name);
    fe_suggest(s->fe, d, last ? last + 1 : name, names, count);
    return fe_bad();
}

static struct fe_val unknown_method(struct fe_site *s, const struct fe_val *base, const char *name)
{
    struct diag *d = fe_fail_at(s, &s->where, "E0302", "%s has no method \"%s\"", fe_describe(s, base), name);
    fe_suggest(s->fe, d, name, methods, sizeof methods / sizeof *methods);
    return fe_bad();
}

/* x.reshape(2, 3) and x.transpose(1, 0): several numbers are one tuple. */
static uint32_t pack_numbers(struct fe_site *s, const char *name, struct fe_val *args, const char **names,
                             uint32_t count)
{
    uint32_t n = 1;
    if ((strcmp(name, "reshape") && strcmp(name, "transpose")) || count < 3) return count;
    while (n < count && !names[n] && args[n].kind == FE_VAL_NUMBER) n++;
    if (n < 3) return count;
    args[1] = fe_tuple(s, args + 1, n - 1);
    for (uint32_t i = n; i < count; i++) args[i - n + 2] = args[i], names[i - n + 2] = names[i];
    return count - n + 2;
}

/* x.at[index].set(value), with what is to happen outside the tensor as mode=, and hints that change nothing. */
static struct fe_val eval_at(struct fe_site *s, const struct fe_val *base, const char *name, const struct fe_val *args,
                             const char *const *names, uint32_t count)
{
    struct fe_val fill = fe_none();
    const char *mode = NULL;
    bool get = !strcmp(name, "get");
    uint32_t positional = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!names[i]) positional++;
        else if (!strcmp(names[i], "mode") && (args[i].kind == FE_VAL_STRING || fe_is_none(&args[i])))
            mode = args[i].string;
        else if (!strcmp(names[i], "fill_value") && get) fill = args[i];
        else if (strcmp(names[i], "unique_indices") && strcmp(names[i], "indices_are_sorted"))
            return fe_fail(s, "E0312", "x.at[index].%s has no argument \"%s\"", name, names[i]);
    }
    if (base->count < 2 || positional != !get)
        return fe_fail(s, "E0312", get ? "an element is x.at[index].get()" : "an update is x.at[index].%s(value)",
                       name);
    return get ? fe_get(s, base, mode, &fill) : fe_update(s, base, name, mode, args[0]);
}

/* name(args), with the first argument before the dot where it is a method. */
static struct fe_val eval_method(struct fe_site *s, const struct expr_node *n, const char *name,
                                 const struct fe_val *base, const struct expr_node *const *items,
                                 const char *const *keywords, uint32_t count, const struct fe_env *env)
{
    struct fe_where here = where_of(s, n);
    struct fe_val *args = arena_new_array(s->fe->arena, struct fe_val, count + 1);
    const char **names = arena_new_array(s->fe->arena, const char *, count + 1);
    struct fe_where *wheres = arena_new_array(s->fe->arena, struct fe_where, count + 1);
    bool bad = base->bad;
    args[0] = *base, wheres[0] = here;
    for (uint32_t i = 0; i < count; i++) {
        args[i + 1] = fe_on_time(s, eval(s, items[i], env));
        names[i + 1] = keywords ? keywords[i] : NULL;
        wheres[i + 1] = fe_where_argument(s, items[i]);
        bad |= args[i + 1].bad;
    }
    s->where = here;
    if (bad) return fe_bad();
    if (base->kind == FE_VAL_AT) return eval_at(s, base, name, args + 1, names + 1, count);
    const struct fe_function *f = method(s, name);
    if (!f) return unknown_method(s, base, name);
    if (!strcmp(name, "compress") && count && !names[1]) { /* the tensor is the second argument of the function */
        struct fe_val condition = args[1];
        args[1] = args[0], args[0] = condition;
    }
    return fe_call_function(s, f, args, names, wheres, pack_numbers(s, name, args, names, count + 1));
}

/* Whether the name before the last dot stands for a value, which is then *base. */
static bool base_of(struct fe_site *s, const char *name, const char *dot, const struct fe_env *env, struct fe_val *base)
{
    const char *before = arena_string_n(s->fe->arena, name, (size_t)(dot - name));
    const char *first = strchr(before, '.'),
               *root = first ? arena_string_n(s->fe->arena, before, (size_t)(first - before)) : before;
    if (!fe_env_find(s->fe, env, root) && strcmp(root, "params") && !fe_constant(s->fe, root)) return false;
    *base = fe_lookup(s, before, env);
    return true;
}

/* reduce_fn=mean: the name of a function where a word is expected. */
static bool is_word_of(struct fe_site *s, const struct fe_function *f, const char *keyword, const struct expr_node *n,
                       const struct fe_env *env)
{
    return keyword && n->kind == EXPR_NAME && fe_takes_word(f, keyword) &&
           fe_function_find(fe_library(s->fe), n->text) && !fe_env_find(s->fe, env, n->text);
}

static struct fe_val eval_call(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    struct fe_where here = where_of(s, n);
    const struct fe_env *form = fe_env_find(s->fe, env, n->text);
    while (form && form->value.kind != FE_VAL_FORM)
        form = fe_env_find(s->fe, form->outer, n->text); /* a value is no function */
    if (form) return form->value.form->apply(form->value.form, s, n, env);
    const struct fe_function *f = fe_function_find(fe_library(s->fe), n->text);
    if (!s->frame) s->where = (struct fe_where){here.json, n->at, (uint32_t)strlen(n->text), true};
    const char *dot = strrchr(n->text, '.');
    struct fe_val base;
    if (!f && dot && base_of(s, n->text, dot, env, &base))
        return eval_method(s, n, dot + 1, &base, (const struct expr_node *const *)n->items, n->names, n->count, env);
    if (!f) return unknown_function(s, n->text, env);
    struct fe_val *args = arena_new_array(s->fe->arena, struct fe_val, n->count + 1);
    struct fe_where *wheres = arena_new_array(s->fe->arena, struct fe_where, n->count + 1);
    bool bad = false;
    for (uint32_t i = 0; i < n->count; i++) {
        args[i] = is_word_of(s, f, n->names[i], n->items[i], env)
                      ? (struct fe_val){.kind = FE_VAL_STRING, .string = n->items[i]->text}
                      : fe_on_time(s, eval(s, n->items[i], env));
        wheres[i] = fe_where_argument(s, n->items[i]);
        bad |= args[i].bad;
    }
    if (bad) return fe_bad();
    s->where = here;
    return fe_call_function(s, f, args, n->names, wheres, n->count);
}

/* (a).name */
static struct fe_val eval_part(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    struct fe_val base = eval(s, n->items[0], env);
    s->where = where_of(s, n);
    return base.bad ? base : member(s, &base, "the value", n->text);
}

static struct fe_val eval_unary(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    struct fe_val v = eval(s, n->items[0], env);
    s->where = where_of(s, n);
    if (v.bad) return v;
    if (fe_is_complex(&v) && n->op == EXPR_OP_NEG) return FE_APPLY(s, "negative", v);
    if (v.kind == FE_VAL_NUMBER) {
        if (n->op == EXPR_OP_NEG) v.number = -v.number;
        else if (n->op == EXPR_OP_NOT && v.python == FE_PY_BOOL) v.number = v.number == 0;
        else if (n->op == EXPR_OP_NOT) v.number = -v.number - 1;
        if (n->op != EXPR_OP_NOT && v.python == FE_PY_BOOL) v.python = FE_PY_INT;
        return v;
    }
    if (!fe_as_tensor(s, &v)) return fe_bad();
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &v).dtype;
    if (n->op == EXPR_OP_NOT && ir_dtype_is_float(d))
        return fe_fail(s, "E0310", "~ needs bool or integers, found %s", fe_describe(s, &v));
    if (n->op == EXPR_OP_NEG && d == IR_BOOL) return fe_fail(s, "E0310", "bool tensors have no sign; use ~");
    return n->op == EXPR_OP_POS ? v : fe_op1(s, n->op == EXPR_OP_NEG ? OP_neg : OP_not, v);
}

/* `@` of what is no two numbers is a function, and so are ==, != and most powers of complex values; the other operators
 * are arithmetic. */
static struct fe_val apply_operator(struct fe_site *s, enum expr_operator op, struct fe_val a, struct fe_val b)
{
    bool numbers = a.kind == FE_VAL_NUMBER && b.kind == FE_VAL_NUMBER;
    if (a.bad || b.bad) return fe_bad();
    if (fe_is_complex(&a) || fe_is_complex(&b)) {
        const char *function = fe_complex_operator(op, &b);
        return function ? FE_APPLY(s, function, a, b) : fe_binary(s, op, a, b);
    }
    if (op != EXPR_OP_MATMUL || numbers) return fe_binary(s, op, a, b);
    if (!fe_is_operand(s, &a) || !fe_is_operand(s, &b)) return fe_bad();
    return FE_APPLY(s, "matmul", fe_on_time(s, a), fe_on_time(s, b));
}

/* a + b + c + ... is a left-leaning tree: walked by a loop, not by recursion. */
static struct fe_val eval_binary(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    uint32_t length = 1;
    for (const struct expr_node *m = n; m->items[0]->kind == EXPR_BINARY; m = m->items[0]) length++;
    const struct expr_node **chain = arena_new_array(s->fe->arena, const struct expr_node *, length);
    for (uint32_t i = length; i-- > 0; n = n->items[0]) chain[i] = n;
    struct fe_val v = eval(s, chain[0]->items[0], env);
    for (uint32_t i = 0; i < length; i++) {
        struct fe_val right = eval(s, chain[i]->items[1], env);
        s->where = where_of(s, chain[i]);
        v = apply_operator(s, chain[i]->op, v, right);
    }
    return v;
}

static struct fe_val eval_items(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    struct fe_val *items = arena_new_array(s->fe->arena, struct fe_val, n->count + 1);
    for (uint32_t i = 0; i < n->count; i++) items[i] = n->items[i] ? eval(s, n->items[i], env) : fe_none();
    struct fe_val v = fe_tuple(s, items, n->count);
    v.list = n->list;
    if (n->kind == EXPR_SLICE && !v.bad) v.kind = FE_VAL_SLICE;
    return v;
}

static struct fe_val eval_index(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    struct fe_val *items = arena_new_array(s->fe->arena, struct fe_val, n->count);
    struct fe_where *wheres = arena_new_array(s->fe->arena, struct fe_where, n->count);
    bool bad = false;
    for (uint32_t i = 0; i < n->count; i++) {
        items[i] = eval(s, n->items[i], env);
        wheres[i] = where_of(s, n->items[i]);
        bad |= items[i].bad;
    }
    s->where = where_of(s, n);
    uint32_t count = n->count;
    if (!bad && count == 2 && items[1].kind == FE_VAL_TUPLE && !items[1].list &&
        !items[1].names) { /* x[(0, 1)] is x[0, 1] */
        const struct fe_val *parts = items[1].items;
        struct fe_val base = items[0];
        struct fe_where where = wheres[1];
        count = items[1].count + 1;
        items = arena_new_array(s->fe->arena, struct fe_val, count);
        wheres = arena_new_array(s->fe->arena, struct fe_where, count);
        items[0] = base;
        for (uint32_t i = 1; i < count; i++) items[i] = parts[i - 1], wheres[i] = where;
    }
    if (!bad && items[0].kind == FE_VAL_AT && items[0].count == 1) {
        struct fe_val place = items[0];
        items[0] = place.items[0];
        place.items = items, place.count = count;
        return place;
    }
    return bad ? fe_bad() : fe_index(s, items[0], items + 1, wheres + 1, count - 1);
}

/* Only the branch that is taken is evaluated, so the other one may not even fit. */
static struct fe_val eval_if(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    struct fe_val c = eval(s, n->items[0], env);
    s->where = where_of(s, n->items[0]);
    if (s->frame && fe_is_none(&c)) return eval(s, n->items[2], env);
    if (c.bad || c.kind == FE_VAL_NUMBER) return c.bad ? c : eval(s, n->items[c.number != 0 ? 1 : 2], env);
    return fe_fail(s, "E0310", "\"if\" chooses while compiling, by numbers, shapes and ranks; use where() for %s",
                   fe_describe(s, &c));
}

static struct fe_val eval(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    struct fe_val v = fe_none();
    s->where = where_of(s, n);
    switch (n->kind) {
    case EXPR_NUMBER: return fe_val_number(n->number, n->integer);
    case EXPR_STRING: return (struct fe_val){.kind = FE_VAL_STRING, .string = n->text};
    case EXPR_ELLIPSIS: return (struct fe_val){.kind = FE_VAL_ELLIPSIS};
    case EXPR_CONSTANT:
        if (n->number >= 0) v = (struct fe_val){.kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = n->number};
        return v;
    case EXPR_NAME: return fe_lookup(s, n->text, env);
    case EXPR_TUPLE:
    case EXPR_SLICE: return eval_items(s, n, env);
    case EXPR_UNARY: return eval_unary(s, n, env);
    case EXPR_BINARY: return eval_binary(s, n, env);
    case EXPR_CALL: return eval_call(s, n, env);
    case EXPR_INDEX: return eval_index(s, n, env);
    case EXPR_IF: return eval_if(s, n, env);
    case EXPR_PART: return eval_part(s, n, env);
    case EXPR_METHOD: {
        struct fe_val base = eval(s, n->items[0], env);
        return eval_method(s, n, n->text, &base, (const struct expr_node *const *)n->items + 1, n->names + 1,
                           n->count - 1, env);
    }
    }
    BUG("expression node of kind %d", (int)n->kind);
}

/* ---------------------------------------------------------------- entries */

static struct fe_val literal_list(struct fe_site *s, fe_json json, const struct fe_env *env, bool expression)
{
    VEC(struct fe_val) items = {0};
    for (fe_json c = fe_first(s->fe, json); c; c = fe_next(s->fe, c))
        vec_push(s->fe->arena, &items, fe_literal(s, c, env, expression));
    return fe_tuple(s, items.items, (uint32_t)items.count);
}

struct fe_val fe_literal(struct fe_site *s, fe_json json, const struct fe_env *env, bool expression)
{
    double number;
    bool integer;
    switch (json->kind) {
    case JSON_NULL: return fe_none();
    case JSON_FALSE:
    case JSON_TRUE:
        return (struct fe_val){.kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = json->kind == JSON_TRUE};
    case JSON_NUMBER: return fe_number_kind(s->fe, json, &number, &integer) ? fe_val_number(number, integer) : fe_bad();
    case JSON_STRING:
        if (json->string[0] == '$')
            return fe_number_kind(s->fe, json, &number, &integer) ? fe_val_number(number, integer) : fe_bad();
        if (expression) return fe_expr(s->fe, s->trace, json, env);
        return (struct fe_val){.kind = FE_VAL_STRING, .string = json->string};
    case JSON_ARRAY: return literal_list(s, json, env, expression);
    default: fe_error(s->fe, json, "E0101", "an expression expected, found %s", fe_kind_name(json)); return fe_bad();
    }
}

static bool is_expression(fe_json json) { return json->kind == JSON_STRING && json->string[0] != '$'; }

struct expr_node *fe_expr_tree(struct fe *fe, fe_json json)
{
    struct expr_fault fault;
    if (!is_expression(json)) return NULL;
    struct expr_node *n = expr_parse(fe->arena, json->string, &fault);
    if (!n) fe_error_in(fe, json, fault.at, fault.length, "E0305", "%s", fault.message);
    return n;
}

struct fe_val fe_eval(struct fe_site *s, const struct expr_node *n, const struct fe_env *env)
{
    return eval(s, n, env);
}

struct fe_val fe_expr_of(struct fe *fe, struct fe_trace *trace, fe_json json, const struct expr_node *n,
                         const struct fe_env *env)
{
    struct fe_site s = {.fe = fe, .trace = trace, .b = trace->b, .where = {.json = json}};
    if (!env) env = trace->env;
    if (!is_expression(json)) return fe_literal(&s, json, env, true);
    if (!n) return fe_bad();
    struct fe_hook hook = fe_hook_set(&s);
    struct fe_val v = eval(&s, n, env);
    fe_hook_reset(&s, hook);
    return v;
}

struct fe_val fe_expr(struct fe *fe, struct fe_trace *trace, fe_json json, const struct fe_env *env)
{
    return fe_expr_of(fe, trace, json, fe_expr_tree(fe, json), env);
}

ir_value fe_tensor(struct fe *fe, struct fe_trace *trace, const struct fe_val *v, fe_json where)
{
    struct fe_site s = {.fe = fe, .trace = trace, .b = trace->b, .where = {.json = where}};
    struct fe_val t = *v;
    return fe_as_tensor(&s, &t) ? t.tensor : 0;
}
