/* `custom`: a transformation that the document writes itself, as expressions (CUSTOM.md).
 *
 * Every name of its expressions has one value for the whole tree (step, value, hyper-parameters, slots with
 * "per": "tree", what is computed from these alone) or one per parameter (g, p, rank, the other slots, what is computed
 * with them). Which it is follows from the names that an expression mentions. tree_sum and its like evaluate their
 * argument at every parameter and give one value for the tree. Expressions are parsed once, evaluated name by name over
 * all parameters, so that a later one may look at the whole tree of an earlier one. */
#include "frontend/optim/optim.h"
#include "frontend/expr.h"
#include <string.h>

enum name_kind { BUILTIN, HYPER, SLOT, LET };

/* An expression of the document. */
struct text {
    fe_json json;
    struct expr_node *tree; /* NULL: a literal, or an error that was reported */
};

struct name {
    const char *name;
    enum name_kind kind;
    fe_json json;
    bool leaf; /* a value per parameter */
    bool used;
    struct text text;      /* LET: its expression */
    struct fe_val *values; /* per parameter, or one */
    /* SLOT */
    struct text shape, start, next;
    bool reduced; /* `shape` says which axes of the parameter's shape are left out */
    bool has_dtype;
    enum ir_dtype dtype;
    struct ir_type *types; /* per parameter, or one */
    bool *there;           /* per parameter: whether the slot exists for it */
    uint32_t *without;     /* per parameter: the axes that are left out, as bits */
};

/* A call of a form, evaluated once. */
struct folded {
    const struct expr_node *call;
    struct fe_val value;
};

struct custom {
    struct transform *t;
    struct fe *fe;
    VEC(struct name) names;
    size_t ready; /* names from here on have no value yet */
    const struct fe_env *base;
    struct fe_env *scope; /* one entry per name */
    VEC(struct folded) folded;
    struct text update; /* of g */
    bool counted;       /* something asks for the step */
    struct term first;  /* set when a slot begins with what the first step computes */
};

/* ---------------------------------------------------------------- forms: whole trees */

enum form_kind { TREE_SUM, TREE_VDOT, TREE_NORM, TREE_MAX };
static const struct {
    const char *name;
    enum form_kind kind;
    uint32_t arguments;
} form_rows[] = {{"tree_sum", TREE_SUM, 1},
                 {"tree_vdot", TREE_VDOT, 2},
                 {"tree_norm", TREE_NORM, 1},
                 {"global_norm", TREE_NORM, 1},
                 {"tree_max", TREE_MAX, 1}};
enum { FORMS = sizeof form_rows / sizeof *form_rows };

static int form_find(const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(form_rows[i].name, name) == 0) return i;
    return -1;
}

/* ---------------------------------------------------------------- names */

static struct name *name_find(struct custom *c, const char *text, size_t length)
{
    for (size_t i = 0; i < c->names.count; i++) {
        struct name *n = &c->names.items[i];
        if (strncmp(n->name, text, length) == 0 && !n->name[length]) return n;
    }
    return NULL;
}

static struct name *name_add(struct custom *c, const char *name, enum name_kind kind, fe_json json, bool leaf)
{
    struct name new = {.name = name, .kind = kind, .json = json, .leaf = leaf};
    vec_push(c->fe->arena, &c->names, new);
    return &c->names.items[c->names.count - 1];
}

/* A name that the document gives; NULL: an error was recorded. */
static struct name *name_given(struct custom *c, fe_json member, enum name_kind kind, bool leaf)
{
    static const char *const kept[] = {"count", "first"}; /* slots of the mechanism */
    static const char *const kinds[] = {"name of the mechanism", "hyper-parameter", "slot", "name of \"let\""};
    const char *key = member->key;
    if (!fe_is_name(key)) {
        fe_error_key(c->fe, member, "E0110", "\"%s\" is no name: letters, digits and '_', no digit first", key);
        return NULL;
    }
    const struct name *other = name_find(c, key, strlen(key));
    bool reserved = (other && other->kind == BUILTIN) || form_find(key) >= 0;
    for (size_t i = 0; kind == SLOT && i < 2; i++) reserved |= strcmp(kept[i], key) == 0;
    if (!other && !reserved) return name_add(c, key, kind, member, leaf);
    if (reserved) fe_error_key(c->fe, member, "E0110", "\"%s\" has a meaning already; take another name", key);
    else fe_error_key(c->fe, member, "E0110", "\"%s\" is the name of a %s already", key, kinds[other->kind]);
    return NULL;
}

/* ---------------------------------------------------------------- reading */

static struct text text_of(struct custom *c, fe_json json)
{
    return (struct text){json, json ? fe_expr_tree(c->fe, json) : NULL};
}

/* Notes what an expression uses; true: it has a value per parameter. Inside a form names stand for whole trees. */
static bool walk(struct custom *c, fe_json json, const struct expr_node *n, bool inside, size_t limit)
{
    bool leaf = false;
    if (!n) return false;
    if (n->kind == EXPR_NAME) {
        struct name *name = name_find(c, n->text, strcspn(n->text, "."));
        if (!name) return false;
        name->used = true;
        if (strcmp(name->name, "step") == 0 || strcmp(name->name, "count_inc") == 0) c->counted = true;
        if ((size_t)(name - c->names.items) >= limit)
            fe_error_in(c->fe, json, n->at, n->length, "E0301", "\"%s\" has no value yet: %s", name->name,
                        name->kind == LET ? "\"let\" is read from top to bottom" : "slots are not known here");
        return name->leaf && !inside;
    }
    if (n->kind == EXPR_CALL && form_find(n->text) >= 0) inside = true;
    for (uint32_t i = 0; i < n->count; i++) leaf |= walk(c, json, n->items[i], inside, limit);
    return leaf;
}
static bool walk_text(struct custom *c, const struct text *text, size_t limit)
{
    return walk(c, text->json, text->tree, false, limit);
}

/* A number, a flag or a schedule; inside inject_hyperparams the value that the host may set. */
static void read_hyper(struct custom *c, fe_json map, fe_json member)
{
    struct transform *t = c->t;
    struct name *n = name_given(c, member, HYPER, false);
    struct fe_val v = fe_none();
    double number;
    bool integer;
    if (!n) return;
    for (size_t i = 0; i < t->o->hypers.count; i++)
        if (t->o->hypers.items[i].json == map && strcmp(t->o->hypers.items[i].argument, member->key) == 0)
            v = fe_tensor_val(t->o->hypers.items[i].value, false);
    if (fe_is_none(&v)) {
        struct fe_value value = {.given = true, .json = member};
        struct fe_arg row = {.name = member->key, .kind = FE_SCHEDULE};
        if (member->kind == JSON_OBJECT) c->counted = true; /* valued when the counter is there */
        else if (member->kind == JSON_TRUE || member->kind == JSON_FALSE) {
            v = fe_int(member->kind == JSON_TRUE);
            v.python = FE_PY_BOOL;
        } else if (fe_number_kind(c->fe, member, &number, &integer)) v = fe_val_number(value.number = number, integer);
        else return;
        ir_value late = v.kind == FE_VAL_NUMBER && v.python == FE_PY_BOOL ? 0 : optim_rate(t->o, map, &row, &value);
        if (late) v = fe_tensor_val(late, true); /* a learning rate that the host may set remains a number */
    }
    n->values = arena_copy(c->fe->arena, &v, sizeof v);
}

static void read_slot(struct custom *c, fe_json member)
{
    static const struct fe_arg rows[] = {{"per", FE_ENUM, 0, "\"param\"", "param|tree"},
                                         {"shape", FE_ANY, FE_NULLABLE, "null", NULL},
                                         {"reduction_axis", FE_ANY, FE_NULLABLE, "null", NULL},
                                         {"dtype", FE_DTYPE, FE_NULLABLE, "null", NULL},
                                         {"init", FE_EXPR, 0, "0", NULL}};
    struct fe_value v[5] = {0};
    struct name *n = name_given(c, member, SLOT, true);
    if (!n || !fe_settings(c->fe, member, arena_format(c->fe->arena, "slot \"%s\"", member->key), rows, 5, NULL, v)) return;
    n->leaf = strcmp(v[0].string, "tree") != 0;
    n->reduced = !v[2].null;
    if (!v[1].null && !v[2].null)
        fe_error_key(c->fe, v[2].json, "E0452", "slot \"%s\" has a \"shape\" already", n->name);
    if (!v[1].null || !v[2].null) n->shape = text_of(c, v[n->reduced ? 2 : 1].json);
    if (!n->leaf && n->shape.json)
        fe_error_key(c->fe, n->shape.json, "E0452", "slot \"%s\": one value for the whole tree is a scalar", n->name);
    n->has_dtype = !v[3].null;
    n->dtype = v[3].dtype;
    if (v[4].json) n->start = text_of(c, v[4].json);
}

/* Every name, in the order in which they get their values. */
static void read_names(struct custom *c)
{
    static const struct {
        const char *name;
        bool leaf;
    } builtins[] = {{"g", true},           {"p", true},      {"rank", true},     {"step", false},
                    {"count_inc", false}, {"value", false}, {"updates", false}, {"params", false}};
    struct transform *t = c->t;
    fe_json hyper = arg(t, "hyperparams")->json, slots = arg(t, "slots")->json, let = arg(t, "let")->json;
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        name_add(c, builtins[i].name, BUILTIN, NULL, builtins[i].leaf);
    for (fe_json m = hyper ? fe_first(c->fe, hyper) : NULL; m; m = fe_next(c->fe, m)) read_hyper(c, hyper, m);
    size_t early = c->names.count; /* what shapes and initial values may use */
    for (fe_json m = slots ? fe_first(c->fe, slots) : NULL; m; m = fe_next(c->fe, m)) read_slot(c, m);
    for (size_t i = early; i < c->names.count; i++) {
        struct name *n = &c->names.items[i];
        (void)walk_text(c, &n->shape, early);
        if (!walk_text(c, &n->start, early) || n->leaf) continue;
        fe_error(c->fe, n->start.json, "E0452",
                 "slot \"%s\" is one value for the whole tree, this has one per parameter; tree_sum and tree_norm take them together",
                 n->name);
    }
    size_t late = c->names.count;
    for (fe_json m = let ? fe_first(c->fe, let) : NULL; m; m = fe_next(c->fe, m)) {
        struct name *n = name_given(c, m, LET, false);
        if (n) n->text = text_of(c, m);
    }
    for (size_t i = late; i < c->names.count; i++) c->names.items[i].leaf = walk_text(c, &c->names.items[i].text, i);
}

/* "update": the next value of every slot, and g. */
static void read_update(struct custom *c)
{
    fe_json update = arg(c->t, "update")->json;
    size_t errors = c->fe->diags->errors;
    VEC(const char *) known = {0};
    vec_push(c->fe->arena, &known, "g");
    for (size_t i = 0; i < c->names.count; i++)
        if (c->names.items[i].kind == SLOT) vec_push(c->fe->arena, &known, c->names.items[i].name);
    for (fe_json m = fe_first(c->fe, update); m; m = fe_next(c->fe, m)) {
        struct text text = text_of(c, m);
        bool leaf = walk_text(c, &text, c->names.count);
        struct name *n = name_find(c, m->key, strlen(m->key));
        if (strcmp(m->key, "g") == 0) c->update = text;
        else if (n && n->kind == SLOT) {
            n->next = text;
            if (!n->leaf && leaf)
                fe_error(c->fe, m, "E0452",
                         "slot \"%s\" is one value for the whole tree, this has one per parameter; tree_sum and tree_norm "
                         "take them together",
                         n->name);
        } else if (!arg(c->t, "slots")->json || !fe_member(c->fe, arg(c->t, "slots")->json, m->key)) {
            struct diag *d = fe_error_key(c->fe, m, "E0107", "\"update\" has no use for \"%s\": it is no slot%s", m->key,
                                          n ? "" : ", and not g");
            fe_suggest(c->fe, d, m->key, known.items, known.count);
        }
    }
    for (size_t i = 0; i < c->names.count && c->fe->diags->errors == errors; i++) {
        const struct name *n = &c->names.items[i];
        if (n->kind == SLOT && !n->next.json)
            fe_error_key(c->fe, n->json, "E0451", "slot \"%s\" never gets a new value: add \"%s\" to \"update\"", n->name,
                         n->name);
    }
    if (!c->update.json)
        fe_error(c->fe, update, "E0102", "\"update\" needs \"g\", the update that goes on (\"g\": \"g\" leaves it as it is)");
}

/* Nothing is ignored: what is given has to be used. A misspelt use is reported where it stands, so this comes last. */
static void check_use(struct custom *c)
{
    for (size_t i = 0; i < c->names.count; i++)
        if (c->names.items[i].kind != BUILTIN && !c->names.items[i].used)
            fe_error_key(c->fe, c->names.items[i].json, "E0451", "\"%s\" is used nowhere", c->names.items[i].name);
}

/* ---------------------------------------------------------------- evaluation */

/* What the expressions of parameter `leaf` see. */
static const struct fe_env *scope_of(struct custom *c, struct fe_env *scope, uint32_t leaf)
{
    const struct fe_env *outer = c->base;
    for (size_t i = 0; i < c->ready; i++) {
        const struct name *n = &c->names.items[i];
        if (!n->values) continue;
        scope[i] = (struct fe_env){outer, n->name, n->values[n->leaf ? leaf : 0]};
        outer = &scope[i];
    }
    return outer;
}

static struct fe_env *scope_new(struct custom *c) { return arena_new_array(c->fe->arena, struct fe_env, c->names.count + 1); }

/* The errors since `before` belong to a parameter. */
static void blame(struct custom *c, size_t before, uint32_t leaf)
{
    const struct fe_param *p = &c->t->o->params[leaf];
    if (c->fe->diags->list.count <= before) return;
    struct diag *d = &c->fe->diags->list.items[c->fe->diags->list.count - 1];
    if (!d->hint)
        d->hint = arena_format(c->fe->arena, "at parameter \"%s\" of shape %s", p->path, ir_type_text(c->fe->arena, &p->type));
}

static struct fe_val evaluate(struct custom *c, const struct text *text, uint32_t leaf)
{
    return fe_expr_of(c->fe, c->t->o->trace, text->json, text->tree, scope_of(c, c->scope, leaf));
}

/* One value per parameter, or one. False: errors were recorded. */
static bool evaluate_all(struct custom *c, const struct text *text, bool leaf, const bool *there, struct fe_val *out)
{
    struct transform *t = c->t;
    if (!leaf) {
        uint32_t any = 0;
        while (any < t->count && !t->u[any]) any++;
        out[0] = evaluate(c, text, any < t->count ? any : 0);
        return !out[0].bad;
    }
    EACH_LEAF(t, i)
    {
        size_t before = c->fe->diags->list.count;
        if (there && !there[i]) continue;
        out[i] = evaluate(c, text, i);
        if (!out[i].bad) continue;
        blame(c, before, i);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- forms */

/* The argument at every parameter, or the leaves of a tree. False: an error was recorded. */
static bool form_argument(struct custom *c, struct fe_site *s, const struct expr_node *n, const struct fe_env *env,
                          struct fe_val **out, uint32_t *count)
{
    struct transform *t = c->t;
    struct fe_val *values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    *out = values, *count = 0;
    if (walk(c, s->where.json, n, false, c->ready)) {
        struct fe_env *scope = scope_new(c);
        EACH_LEAF(t, i)
        {
            size_t before = c->fe->diags->list.count;
            struct fe_val v = fe_eval(s, n, scope_of(c, scope, i));
            if (!v.bad && fe_as_tensor(s, &v)) {
                values[(*count)++] = v;
                continue;
            }
            blame(c, before, i);
            return false;
        }
        return true;
    }
    struct fe_val v = fe_eval(s, n, env);
    if (v.bad) return false;
    if (v.kind != FE_VAL_TREE) {
        fe_fail(s, "E0310", "a value per parameter expected (with g, p or a slot), or updates or params; found %s",
                fe_describe(s, &v));
        return false;
    }
    for (uint32_t i = 0; i < v.tree->count; i++) values[(*count)++] = fe_val_tensor(v.tree->values[i]);
    return true;
}

/* Sums are taken parameter by parameter, in the order of the document, in float32. */
static struct fe_val form_value(struct fe_site *s, enum form_kind kind, const struct fe_val *x, const struct fe_val *y,
                                uint32_t count)
{
    struct fe_val all = fe_float(0);
    for (uint32_t i = 0; i < count; i++) {
        struct fe_val v = fe_inexact(s, x[i]);
        if (kind == TREE_NORM) v = fe_mul(s, v, v);
        if (kind == TREE_VDOT) v = fe_mul(s, v, y[i]);
        v = fe_reduce_all(s, kind == TREE_MAX ? FE_RED_MAX : FE_RED_SUM, v);
        if (i == 0) all = v;
        else all = kind == TREE_MAX ? fe_op2(s, OP_max, all, v) : fe_add(s, all, v);
    }
    all = fe_cast(s, all, IR_F32);
    return kind == TREE_NORM ? fe_op1(s, OP_sqrt, all) : all;
}

static struct fe_val form_apply(const struct fe_form *form, struct fe_site *s, const struct expr_node *call,
                                const struct fe_env *env)
{
    struct custom *c = form->user;
    const struct fe_where here = {s->where.json, call->at, call->length, true};
    int row = form_find(call->text);
    struct fe_val *x[2] = {0};
    uint32_t count[2] = {0};
    for (size_t i = 0; i < c->folded.count; i++)
        if (c->folded.items[i].call == call) return c->folded.items[i].value;
    struct folded new = {call, fe_bad()};
    bool good = call->count == form_rows[row].arguments;
    for (uint32_t i = 0; i < call->count; i++) good = good && !call->names[i];
    s->where = here;
    if (!good)
        fe_fail(s, "E0312", "%s takes %s", call->text, form_rows[row].arguments == 1 ? "one argument" : "two arguments: tree_vdot(x, y)");
    for (uint32_t i = 0; good && i < call->count; i++) {
        good = form_argument(c, s, call->items[i], env, &x[i], &count[i]);
        s->where = here;
    }
    if (good && x[1] && count[1] != count[0]) good = false, fe_fail(s, "E0210", "the two trees differ");
    if (good) new.value = form_value(s, form_rows[row].kind, x[0], x[1], count[0]);
    vec_push(c->fe->arena, &c->folded, new);
    return new.value;
}

/* ---------------------------------------------------------------- slots */

/* The shape of a slot at a parameter; false: the slot is not there, or an error was recorded. */
static bool slot_type(struct custom *c, struct name *n, uint32_t leaf, struct ir_type *out)
{
    const struct ir_type *like = &c->t->o->params[leaf].type;
    int64_t dim[IR_MAX_RANK];
    uint32_t rank, axis, left = 0;
    struct fe_site s = {.fe = c->fe, .trace = c->t->o->trace, .b = c->t->b, .where = {.json = n->shape.json}};
    *out = *like;
    n->without[leaf] = 0;
    if (n->has_dtype) out->dtype = (uint8_t)n->dtype;
    if (!n->shape.json) return true;
    size_t before = c->fe->diags->list.count;
    struct fe_val v = evaluate(c, &n->shape, leaf);
    if (fe_is_none(&v)) return false;
    bool good = !v.bad && fe_get_ints(&s, &v, dim, IR_MAX_RANK, &rank, n->reduced ? "the axes" : "the shape of a slot");
    for (uint32_t i = 0; good && n->reduced && i < rank; i++) {
        good = fe_get_axis(&s, dim[i], like->rank, &axis);
        if (good) n->without[leaf] |= 1u << axis;
    }
    for (uint32_t i = 0; good && n->reduced && i < like->rank; i++)
        if (!(n->without[leaf] >> i & 1)) dim[left++] = like->dim[i];
    if (n->reduced) rank = left;
    good = good && fe_type(c->fe, n->shape.json, dim, rank, (enum ir_dtype)out->dtype, out);
    if (!good) blame(c, before, leaf);
    return good;
}

/* The value that a slot begins with: a number, or what the first step computes. */
static ir_value slot_begin(struct custom *c, struct name *n, uint32_t leaf, struct start *start)
{
    struct fe_site s = {.fe = c->fe, .trace = c->t->o->trace, .b = c->t->b, .where = {.json = n->start.json}};
    const struct ir_type *type = &n->types[n->leaf ? leaf : 0];
    struct ir_type both;
    *start = zero;
    if (!n->start.json) return 0;
    struct fe_val v = evaluate(c, &n->start, leaf);
    if (v.bad) return 0;
    if (v.kind == FE_VAL_NUMBER) {
        start->number = v.number;
        return 0;
    }
    if (!fe_as_tensor(&s, &v)) return 0;
    struct ir_type have = fe_type_at(&s, &v);
    if (!fe_broadcast_shapes(&have, type, &both) || both.rank != type->rank || memcmp(both.dim, type->dim, sizeof *type->dim * type->rank)) {
        fe_error(c->fe, n->start.json, "E0452", "slot \"%s\" is %s and cannot begin with %s", n->name,
                 ir_type_text(c->fe->arena, type), ir_type_text(c->fe->arena, &have));
        return 0;
    }
    return ir_broadcast_to(c->t->b, ir_cast(c->t->b, v.tensor, (enum ir_dtype)type->dtype), type->rank, type->dim);
}

/* Declares a slot at a parameter, or for the tree, and gives its value in this step. */
static struct fe_val slot_value(struct custom *c, struct name *n, uint32_t leaf)
{
    struct transform *t = c->t;
    struct ir_type type = n->types[n->leaf ? leaf : 0];
    struct start start;
    ir_value begin = slot_begin(c, n, leaf, &start);
    struct term now = n->leaf ? optim_leaf(t, n->name, leaf, type, start) : optim_state(t, n->name, type, start);
    if (n->leaf && n->reduced) optim_leaf_along(t, n->name, leaf, 0, n->without[leaf]);
    if (begin && !c->first.v) c->first = optim_first(t);
    if (begin) now = term_where(t->b, c->first, T(begin), now);
    return fe_val_tensor(now.v);
}

static void declare(struct custom *c, struct name *n)
{
    struct transform *t = c->t;
    uint32_t count = n->leaf ? t->count + 1 : 1;
    n->values = arena_new_array(c->fe->arena, struct fe_val, count);
    n->types = arena_new_array(c->fe->arena, struct ir_type, count);
    n->there = arena_new_array(c->fe->arena, bool, count);
    n->without = arena_new_array(c->fe->arena, uint32_t, count);
    if (!n->leaf) {
        n->types[0] = ir_type_scalar(n->has_dtype ? n->dtype : IR_F32);
        n->values[0] = slot_value(c, n, 0);
        return;
    }
    EACH_LEAF(t, i)
    {
        size_t before = c->fe->diags->list.count;
        n->there[i] = slot_type(c, n, i, &n->types[i]);
        if (n->there[i]) n->values[i] = slot_value(c, n, i);
        if (c->fe->diags->list.count == before) continue;
        blame(c, before, i);
        return;
    }
}

/* ---------------------------------------------------------------- new values */

/* Whether a value of `have` may become one of `want`: bool to integer to float, never back. */
static int class_of(enum ir_dtype d) { return ir_dtype_is_float(d) ? 2 : d == IR_BOOL ? 0 : 1; }

/* A value brought to a type: numbers and scalars fill it. 0: an error was recorded. */
static ir_value fitted(struct custom *c, const struct fe_val *value, fe_json where, const struct ir_type *want,
                       const char *what)
{
    struct fe_site s = {.fe = c->fe, .trace = c->t->o->trace, .b = c->t->b, .where = {.json = where}};
    struct fe_val v = *value;
    if (v.kind == FE_VAL_NUMBER && ir_dtype_is_float((enum ir_dtype)want->dtype)) return ir_number(c->t->b, *want, v.number);
    if (!fe_as_tensor(&s, &v)) return 0;
    struct ir_type have = fe_type_at(&s, &v);
    bool same = have.rank == want->rank && !memcmp(have.dim, want->dim, have.rank * sizeof *have.dim);
    bool kind = class_of((enum ir_dtype)have.dtype) <= class_of((enum ir_dtype)want->dtype);
    if (!kind || (have.rank && !same)) {
        fe_error(c->fe, where, "E0452", "%s is %s, this is %s%s", what, ir_type_text(c->fe->arena, want),
                 ir_type_text(c->fe->arena, &have), kind ? "" : "; astype() converts");
        return 0;
    }
    return ir_broadcast_to(c->t->b, ir_cast(c->t->b, v.tensor, (enum ir_dtype)want->dtype), want->rank, want->dim);
}

/* The next values of a slot, which are set when all are known. */
static bool next_values(struct custom *c, struct name *n, ir_value *out)
{
    struct transform *t = c->t;
    struct fe_val *values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    bool leaf = walk_text(c, &n->next, c->names.count);
    const char *what = arena_format(c->fe->arena, "slot \"%s\"", n->name);
    if (!evaluate_all(c, &n->next, leaf, n->leaf ? n->there : NULL, values)) return false;
    if (!n->leaf) return (out[0] = fitted(c, &values[0], n->next.json, &n->types[0], what)) != 0;
    EACH_LEAF(t, i)
    {
        size_t before = c->fe->diags->list.count;
        if (!n->there[i]) continue;
        out[i] = fitted(c, &values[leaf ? i : 0], n->next.json, &n->types[i], what);
        if (out[i]) continue;
        blame(c, before, i);
        return false;
    }
    return true;
}

/* The updates that go on: in the dtype that they have; numbers and integers in that of g. */
static bool next_updates(struct custom *c, ir_value *out)
{
    struct transform *t = c->t;
    struct fe_val *values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    bool leaf = walk_text(c, &c->update, c->names.count);
    if (!evaluate_all(c, &c->update, leaf, NULL, values)) return false;
    EACH_LEAF(t, i)
    {
        const struct fe_val *v = &values[leaf ? i : 0];
        struct ir_type want = *ir_type(t->b->f, t->u[i]);
        size_t before = c->fe->diags->list.count;
        if (v->kind == FE_VAL_TENSOR && !v->weak && ir_dtype_is_float((enum ir_dtype)ir_type(t->b->f, v->tensor)->dtype))
            want.dtype = ir_type(t->b->f, v->tensor)->dtype;
        out[i] = fitted(c, v, c->update.json, &want, "the update");
        if (out[i]) continue;
        blame(c, before, i);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- the transformation */

static void set_values(struct custom *c, const char *name, struct fe_val value)
{
    name_find(c, name, strlen(name))->values = arena_copy(c->fe->arena, &value, sizeof value);
}

/* What every expression knows. */
static void builtin_values(struct custom *c, struct term count)
{
    struct transform *t = c->t;
    struct fe_val *g = arena_new_array(c->fe->arena, struct fe_val, t->count + 1),
                  *p = arena_new_array(c->fe->arena, struct fe_val, t->count + 1),
                  *rank = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
    EACH_LEAF(t, i)
    {
        g[i] = fe_val_tensor(t->u[i]);
        p[i] = fe_val_tensor(t->p[i]);
        rank[i] = fe_int((double)t->o->params[i].type.rank);
    }
    c->names.items[0].values = g, c->names.items[1].values = p, c->names.items[2].values = rank;
    if (count.v) set_values(c, "step", fe_val_tensor(count.v));
    if (count.v) set_values(c, "count_inc", fe_val_tensor(optim_increment(t->b, count).v));
    if (t->o->value) set_values(c, "value", fe_val_tensor(t->o->value));
    set_values(c, "updates", optim_tree_value(t, t->u));
    set_values(c, "params", optim_tree_value(t, t->p));
    for (size_t i = 0; i < c->names.count; i++) {
        struct name *n = &c->names.items[i];
        if (n->kind != HYPER || n->json->kind != JSON_OBJECT || !fe_is_none(&n->values[0])) continue;
        struct fe_value schedule = {.given = true, .json = n->json};
        n->values[0] = fe_tensor_val(fe_schedule(c->fe, t->b, &schedule, count.v), true);
    }
}

static bool compute(struct custom *c, ir_value *u, ir_value **next)
{
    struct transform *t = c->t;
    size_t errors = c->fe->diags->errors;
    for (size_t i = 0; i < c->names.count; i++, c->ready = i) {
        struct name *n = &c->names.items[i];
        if (n->kind == SLOT) declare(c, n);
        if (c->fe->diags->errors > errors) return false;
        if (n->kind != LET) continue;
        n->values = arena_new_array(c->fe->arena, struct fe_val, t->count + 1);
        if (!evaluate_all(c, &n->text, n->leaf, NULL, n->values)) return false;
    }
    for (size_t i = 0; i < c->names.count; i++) {
        if (c->names.items[i].kind != SLOT) continue;
        next[i] = optim_new_tree(t);
        if (!next_values(c, &c->names.items[i], next[i])) return false;
    }
    return next_updates(c, u);
}

void transform_custom(struct transform *t)
{
    struct custom c = {.t = t, .fe = t->fe, .base = t->o->trace->env};
    size_t errors = t->fe->diags->errors;
    struct term count = {0};
    struct fe_form form = {form_apply, &c};
    struct fe_env forms[FORMS];
    read_names(&c);
    read_update(&c);
    if (t->fe->diags->errors > errors) return;

    for (int i = 0; i < FORMS; i++) {
        forms[i] = (struct fe_env){c.base, form_rows[i].name, {.kind = FE_VAL_FORM, .form = &form}};
        c.base = &forms[i];
    }
    c.scope = scope_new(&c);
    if (c.counted) count = counter(t, "count");
    builtin_values(&c, count);
    ir_value *u = optim_new_tree(t), **next = arena_new_array(t->fe->arena, ir_value *, c.names.count + 1);
    if (t->fe->diags->errors > errors || !compute(&c, u, next)) return;
    check_use(&c);
    for (size_t i = 0; i < c.names.count; i++) {
        struct name *n = &c.names.items[i];
        if (n->kind != SLOT) continue;
        if (!n->leaf) optim_state_set(t, n->name, T(next[i][0]));
        EACH_LEAF(t, k)
        if (n->leaf && n->there[k]) optim_leaf_set(t, n->name, k, T(next[i][k]));
    }
    if (c.counted) optim_state_set(t, "count", optim_increment(t->b, count));
    EACH_LEAF(t, i) t->u[i] = u[i];
}
