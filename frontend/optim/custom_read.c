/* Reading of `custom`: names, expressions and what each of them mentions. */
#include "frontend/optim/custom.h"
#include <string.h>

const struct custom_form_row custom_forms[FORMS] = {{"tree_sum", TREE_SUM, 1},
                                                    {"tree_vdot", TREE_VDOT, 2},
                                                    {"tree_norm", TREE_NORM, 1},
                                                    {"global_norm", TREE_NORM, 1},
                                                    {"tree_max", TREE_MAX, 1}};

int custom_form(const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(custom_forms[i].name, name) == 0) return i;
    return -1;
}

/* ---------------------------------------------------------------- names */

struct custom_name *custom_name(struct custom *c, const char *text, size_t length)
{
    for (size_t i = 0; i < c->names.count; i++) {
        struct custom_name *n = &c->names.items[i];
        if (strncmp(n->name, text, length) == 0 && !n->name[length]) return n;
    }
    return NULL;
}

static struct custom_name *name_add(struct custom *c, const char *name, enum custom_name_kind kind, fe_json json,
                                    bool leaf)
{
    struct custom_name new = {.name = name, .kind = kind, .json = json, .leaf = leaf};
    vec_push(c->fe->arena, &c->names, new);
    return &c->names.items[c->names.count - 1];
}

/* A name that the document gives; NULL: an error was recorded. */
static struct custom_name *name_given(struct custom *c, fe_json member, enum custom_name_kind kind, bool leaf)
{
    static const char *const kept[] = {"count", "first"}; /* slots of the mechanism */
    static const char *const kinds[] = {"name of the mechanism", "hyper-parameter", "slot", "name of \"let\""};
    const char *key = member->key;
    if (!fe_is_name(key)) {
        fe_error_key(c->fe, member, "E0110", "\"%s\" is no name: letters, digits and '_', no digit first", key);
        return NULL;
    }
    const struct custom_name *other = custom_name(c, key, strlen(key));
    bool reserved = (other && other->kind == BUILTIN) || custom_form(key) >= 0;
    for (size_t i = 0; kind == SLOT && i < 2; i++) reserved |= strcmp(kept[i], key) == 0;
    if (!other && !reserved) return name_add(c, key, kind, member, leaf);
    if (reserved) fe_error_key(c->fe, member, "E0110", "\"%s\" has a meaning already; take another name", key);
    else fe_error_key(c->fe, member, "E0110", "\"%s\" is the name of a %s already", key, kinds[other->kind]);
    return NULL;
}

/* ---------------------------------------------------------------- reading */

static struct custom_text text_of(struct custom *c, fe_json json)
{
    return (struct custom_text){json, json ? fe_expr_tree(c->fe, json) : NULL};
}

/* The name of `custom` that an expression itself stands for or calls a method of: m, m.sum(). NULL: none. */
static struct custom_name *name_of(struct custom *c, const struct expr_node *n)
{
    size_t length = n->text ? strcspn(n->text, ".") : 0;
    bool method = n->kind == EXPR_CALL && n->text[length] && !fe_function_find(fe_library(c->fe), n->text);
    return method || n->kind == EXPR_NAME ? custom_name(c, n->text, length) : NULL;
}

/* Notes what an expression uses; true: it has a value per parameter. Inside a form names stand for whole trees. */
bool custom_walk(struct custom *c, fe_json json, const struct expr_node *n, bool inside, size_t limit)
{
    bool leaf = false;
    if (!n) return false;
    struct custom_name *name = name_of(c, n);
    if (name) {
        name->used = true;
        if (strcmp(name->name, "step") == 0 || strcmp(name->name, "count_inc") == 0) c->counted = true;
        if (c->t->o->no_value && strcmp(name->name, "value") == 0)
            fe_error_in(c->fe, json, n->at, n->length, "E0429", "\"value\" is the loss, which \"%s\" does not hand on",
                        c->t->o->no_value);
        if ((size_t)(name - c->names.items) >= limit)
            fe_error_in(c->fe, json, n->at, n->length, "E0301", "\"%s\" has no value yet: %s", name->name,
                        name->kind == LET ? "\"let\" is read from top to bottom" : "slots are not known here");
        leaf = name->leaf && !inside;
    }
    if (n->kind == EXPR_CALL && custom_form(n->text) >= 0) inside = true;
    for (uint32_t i = 0; i < n->count; i++) leaf |= custom_walk(c, json, n->items[i], inside, limit);
    return leaf;
}
bool custom_walk_text(struct custom *c, const struct custom_text *text, size_t limit)
{
    return custom_walk(c, text->json, text->tree, false, limit);
}

/* A number, a flag or a schedule; inside inject_hyperparams the value that the host may set. */
static void read_hyper(struct custom *c, fe_json map, fe_json member)
{
    struct optim_transform *t = c->t;
    struct custom_name *n = name_given(c, member, HYPER, false);
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
        if (fe_is_schedule(member)) c->counted = true; /* valued when the counter is there */
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
                                         {"init", FE_EXPR, 0, "0", NULL},
                                         {"axes", FE_ANY, FE_NULLABLE, "null", NULL}};
    struct fe_value v[6] = {0};
    struct custom_name *n = name_given(c, member, SLOT, true);
    if (!n || !fe_settings(c->fe, member, arena_format(c->fe->arena, "slot \"%s\"", member->key), rows, 6, NULL, v))
        return;
    n->leaf = strcmp(v[0].string, "tree") != 0;
    n->reduced = !v[2].null;
    if (!v[1].null && !v[2].null)
        fe_error_key(c->fe, v[2].json, "E0452", "slot \"%s\" has a \"shape\" already", n->name);
    if (!v[1].null || !v[2].null) n->shape = text_of(c, v[n->reduced ? 2 : 1].json);
    if (!n->leaf && n->shape.json)
        fe_error_key(c->fe, n->shape.json, "E0452", "slot \"%s\": one value for the whole tree is a scalar", n->name);
    if (!v[5].null && (n->reduced || !n->shape.json))
        fe_error_key(c->fe, v[5].json, "E0452", "slot \"%s\": \"axes\" are those of a \"shape\"", n->name);
    else if (!v[5].null) n->axes = text_of(c, v[5].json);
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
    } builtins[] = {{"g", true},          {"p", true},      {"rank", true},     {"step", false},
                    {"count_inc", false}, {"value", false}, {"updates", false}, {"params", false}};
    struct optim_transform *t = c->t;
    fe_json hyper = arg(t, "hyperparams")->json, slots = arg(t, "slots")->json, let = arg(t, "let")->json;
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        name_add(c, builtins[i].name, BUILTIN, NULL, builtins[i].leaf);
    for (fe_json m = hyper ? fe_first(c->fe, hyper) : NULL; m; m = fe_next(c->fe, m)) read_hyper(c, hyper, m);
    size_t early = c->names.count; /* what shapes and initial values may use */
    for (fe_json m = slots ? fe_first(c->fe, slots) : NULL; m; m = fe_next(c->fe, m)) read_slot(c, m);
    for (size_t i = early; i < c->names.count; i++) {
        struct custom_name *n = &c->names.items[i];
        (void)custom_walk_text(c, &n->shape, early);
        if (!custom_walk_text(c, &n->start, early) || n->leaf) continue;
        fe_error(c->fe, n->start.json, "E0452",
                 "slot \"%s\" is one value for the whole tree, this has one per parameter; tree_sum and tree_norm take "
                 "them together",
                 n->name);
    }
    size_t late = c->names.count;
    for (fe_json m = let ? fe_first(c->fe, let) : NULL; m; m = fe_next(c->fe, m)) {
        struct custom_name *n = name_given(c, m, LET, false);
        if (n) n->text = text_of(c, m);
    }
    for (size_t i = late; i < c->names.count; i++)
        c->names.items[i].leaf = custom_walk_text(c, &c->names.items[i].text, i);
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
        struct custom_text text = text_of(c, m);
        bool leaf = custom_walk_text(c, &text, c->names.count);
        struct custom_name *n = custom_name(c, m->key, strlen(m->key));
        if (strcmp(m->key, "g") == 0) c->update = text;
        else if (n && n->kind == SLOT) {
            n->next = text;
            if (!n->leaf && leaf)
                fe_error(
                    c->fe, m, "E0452",
                    "slot \"%s\" is one value for the whole tree, this has one per parameter; tree_sum and tree_norm "
                    "take them together",
                    n->name);
        } else if (!arg(c->t, "slots")->json || !fe_member(c->fe, arg(c->t, "slots")->json, m->key)) {
            struct diag *d = fe_error_key(c->fe, m, "E0107", "\"update\" has no use for \"%s\": it is no slot%s",
                                          m->key, n ? "" : ", and not g");
            fe_suggest(c->fe, d, m->key, known.items, known.count);
        }
    }
    for (size_t i = 0; i < c->names.count && c->fe->diags->errors == errors; i++) {
        const struct custom_name *n = &c->names.items[i];
        if (n->kind == SLOT && !n->next.json)
            fe_error_key(c->fe, n->json, "E0451", "slot \"%s\" never gets a new value: add \"%s\" to \"update\"",
                         n->name, n->name);
    }
    if (!c->update.json)
        fe_error(c->fe, update, "E0102",
                 "\"update\" needs \"g\", the update that goes on (\"g\": \"g\" leaves it as it is)");
}

/* Nothing is ignored: what is given has to be used. A misspelt use is reported where it stands, so this comes last. */
void custom_check_use(struct custom *c)
{
    for (size_t i = 0; i < c->names.count; i++)
        if (c->names.items[i].kind != BUILTIN && !c->names.items[i].used)
            fe_error_key(c->fe, c->names.items[i].json, "E0451", "\"%s\" is used nowhere", c->names.items[i].name);
}

void optim_custom_check(struct fe *fe, fe_json json)
{
    static const char *const keys[] = {"let", "update", "slots"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        fe_json map = fe_member(fe, json, keys[i]);
        for (fe_json m = map && map->kind == JSON_OBJECT ? fe_first(fe, map) : NULL; m; m = fe_next(fe, m)) {
            (void)fe_expr_tree(fe, m);
            for (fe_json part = m->kind == JSON_OBJECT ? fe_first(fe, m) : NULL; part; part = fe_next(fe, part))
                if (strcmp(part->key, "per") && strcmp(part->key, "dtype")) (void)fe_expr_tree(fe, part);
        }
    }
}

void custom_read(struct custom *c)
{
    read_names(c);
    read_update(c);
}
