/* Hyper-parameters: scalar slots that the host may read and set between steps.
 *
 * inject_hyperparams makes one of every numeric argument of the transformations inside: a float32 array, as in Optax,
 * whose slot has the name that an NNX optimizer gives, <path>.hyperparams.<name>. Where the argument is a schedule,
 * that slot holds the value of the last step, and what the host sets is a slot of its own, NaN while nobody set it and
 * the schedule holds.
 *
 * A learning rate outside of it that is a plain number is one too, without an own name in Optax:
 * hyperparameters.<name>, a number in the sense of term.h, so that nothing but its place changes. One that is a
 * schedule is declared as frozen: who sets it is told why that cannot be. */
#include "frontend/optim/optim.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An argument found in a description. */
struct found {
    fe_json json;
    const struct fe_arg *row;
    fe_json value;
    const char *path;
    bool injected; /* inside of inject_hyperparams: here only so that names are told apart */
    fe_json root;  /* its `opt` */
};
struct search {
    struct fe *fe;
    VEC(struct found) list;
    fe_json static_args;
    VEC(const char *) names; /* of all arguments */
    bool rates;              /* learning rates only; else all numbers */
    bool injected;           /* now inside of inject_hyperparams */
    fe_json root;            /* whose `opt` this is */
};

static bool is_static(const struct search *s, const char *name)
{
    for (fe_json a = s->static_args ? fe_first(s->fe, s->static_args) : NULL; a; a = fe_next(s->fe, a))
        if (a->kind == JSON_STRING && strcmp(a->string, name) == 0) return true;
    return false;
}

bool optim_injects(const struct optim_row *row)
{
    return strcmp(row->name, "inject_hyperparams") == 0 || strcmp(row->name, "inject_stateful_hyperparams") == 0;
}

static bool is_rate(const char *name)
{
    return strcmp(name, "learning_rate") == 0 || strcmp(name, "adam_learning_rate") == 0;
}

static const char *below(const struct search *s, const char *path, const char *name)
{
    return *path ? arena_format(s->fe->arena, "%s.%s", path, name) : name;
}

static void search_object(struct search *s, fe_json json, const char *path);

/* Transformations among the values of an argument: an object, a list or a map of them, or of objects that have one. */
static void search_inside(struct search *s, fe_json value, const char *path)
{
    uint32_t i = 0;
    if (value->kind == JSON_OBJECT && fe_member(s->fe, value, "type")) {
        search_object(s, value, path);
        return;
    }
    for (fe_json v = fe_first(s->fe, value); v; v = fe_next(s->fe, v), i++)
        if (v->kind == JSON_OBJECT)
            search_inside(s, v,
                          below(s, path, value->kind == JSON_ARRAY ? arena_format(s->fe->arena, "%u", i) : v->key));
}

/* The hyper-parameters that a custom transformation names itself; their map stands for the object. */
static void search_own(struct search *s, fe_json map, const char *path)
{
    for (fe_json v = fe_first(s->fe, map); v; v = fe_next(s->fe, v)) {
        struct fe_arg *row = arena_new(s->fe->arena, struct fe_arg);
        bool numeric = v->kind == JSON_NUMBER || v->kind == JSON_OBJECT || v->kind == JSON_STRING;
        *row = (struct fe_arg){.name = v->key, .kind = FE_SCHEDULE};
        vec_push(s->fe->arena, &s->names, v->key);
        if (numeric && (s->rates ? is_rate(v->key) : !is_static(s, v->key)))
            vec_push(s->fe->arena, &s->list,
                     ((struct found){map, row, v, below(s, path, v->key), s->injected, s->root}));
    }
}

static void search_object(struct search *s, fe_json json, const char *path)
{
    fe_json type = fe_member(s->fe, json, "type");
    const struct optim_row *row = type && type->kind == JSON_STRING ? optim_row_find(s->fe, type->string) : NULL;
    bool outer = s->injected;
    fe_json root = s->root;
    if (!row) return; /* reported when it is run */
    if (optim_injects(row)) s->injected = true, s->root = fe_member(s->fe, json, "opt");
    for (uint32_t i = 0; i < row->count; i++) {
        const struct fe_arg *a = &row->args[i];
        fe_json value = fe_member(s->fe, json, a->name);
        const char *own = below(s, path, a->name);
        bool numeric = a->kind == FE_NUMBER || a->kind == FE_SCHEDULE;
        bool null = value ? value->kind == JSON_NULL : !a->preset || strcmp(a->preset, "null") == 0;
        vec_push(s->fe->arena, &s->names, a->name);
        bool wanted = s->rates ? is_rate(a->name) : !is_static(s, a->name);
        if (numeric && !null && wanted)
            vec_push(s->fe->arena, &s->list, ((struct found){json, a, value, own, s->injected, s->root}));
        else if (value && value->kind == JSON_OBJECT && strcmp(a->name, "hyperparams") == 0) search_own(s, value, path);
        else if (value && (a->kind == FE_OBJECT || a->kind == FE_LIST || a->kind == FE_MAP))
            search_inside(s, value, own);
    }
    s->injected = outer;
    s->root = root;
}

static struct optim_hyper *find(struct optim_hyper *list, size_t count, fe_json json, const char *argument)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].json == json && strcmp(list[i].argument, argument) == 0) return &list[i];
    return NULL;
}

/* The argument's name, or its path where two share the name. */
static const char *name_of(const struct search *s, const struct found *f)
{
    for (size_t i = 0; i < s->list.count; i++) {
        const struct found *other = &s->list.items[i];
        if (other != f && strcmp(other->row->name, f->row->name) == 0) return f->path;
    }
    return f->row->name;
}

/* Declares a hyper-parameter; 0: its name is taken. */
static ir_value declare(struct fe_optim_state *o, const struct found *f, const char *name, struct ir_slot slot)
{
    fe_json where = f->value ? f->value : f->json;
    for (size_t i = 0; i < o->hypers.count; i++)
        if (strcmp(o->hypers.items[i].name, name) == 0) {
            fe_error(o->fe, where, "E0450", "the name \"%s\" of a hyper-parameter is taken already", name);
            return 0;
        }
    slot.role = IR_ROLE_HYPER;
    slot.place = fe_place(o->fe, where);
    uint32_t index = ir_slot_new(o->fe->module, slot);
    ir_value value = slot.frozen ? 0 : ir_param_new(o->b, slot.name, slot.type, (int32_t)index);
    vec_push(o->fe->arena, &o->hypers,
             ((struct optim_hyper){f->json, f->row->name, name, NULL, value, value, slot.initial}));
    return value;
}

/* ---------------------------------------------------------------- inject_hyperparams */

/* What a schedule gives before the first step. */
static double at_zero(struct optim_transform *t, const struct fe_value *schedule)
{
    size_t funcs = t->fe->module->funcs.count;
    struct ir_builder b = {.f = ir_func_new(t->fe->module, "schedule_at_zero", false)};
    struct ir_tensor result = {0};
    ir_value value = fe_schedule(t->fe, &b, schedule, ir_scalar(&b, IR_I32, 0));
    if (value) {
        ir_result_add(&b, "value", ir_cast(&b, value, IR_F32), -1);
        ir_eval(b.f, IR_EVAL_EXACT_DTYPES, NULL, &result, t->fe->arena);
    }
    t->fe->module->funcs.count = funcs;
    return value ? result.v[0] : 0;
}

/* What numbers are kept in: by default the widest dtype among the parameters. */
static enum ir_dtype kept_dtype(struct optim_transform *t)
{
    enum ir_dtype dtype = dtype_or(t, "hyperparam_dtype"), widest = IR_TUPLE;
    for (uint32_t i = 0; i < t->count && dtype == IR_TUPLE; i++) {
        enum ir_dtype own = t->p[i] ? (enum ir_dtype)ir_type(t->b->f, t->p[i])->dtype : widest;
        widest = widest == IR_TUPLE || widest == own ? own : IR_F32;
    }
    return dtype != IR_TUPLE ? dtype : widest != IR_TUPLE ? widest : IR_F32;
}

/* Declares the slots and reads the value that holds in this step. */
static bool inject(struct search *s, struct optim_transform *t, const struct found *f)
{
    struct ir_builder *b = t->b;
    enum ir_dtype dtype = kept_dtype(t);
    struct optim_hyper *public = find(t->o->shared.items, t->o->shared.count, f->json, f->row->name),
                       *known = find(t->o->hypers.items, t->o->hypers.count, f->json,
                                     f->row->name); /* it runs twice in a step */
    struct fe_value value = {.given = true, .json = f->value};
    bool schedule = fe_is_schedule(f->value);
    const char *own_name = name_of(s, f), *name = public ? public->name : own_name;
    const char *state = arena_format(t->fe->arena, "hyperparams.%s", own_name);
    struct ir_slot slot = {.type = ir_type_scalar(IR_F32), .initial = (double)NAN};
    if (f->value && !schedule && !fe_number(t->fe, f->value, &value.number)) return false;
    if (!f->value) value.number = strtod(f->row->preset, NULL);
    /* What the host sets is not Optax's slot: its name or its dtype is another, or a schedule leads. */
    bool apart = schedule || public || dtype != IR_F32;
    slot.name = apart ? arena_format(t->fe->arena, "hyperparameters.%s", name) : optim_path(t, state);
    if (!schedule) slot.initial = value.number;
    struct fe_term now = term_tensor(known ? known->given : declare(t->o, f, name, slot));
    if (!now.v) return false;
    struct fe_term count = now, own;
    const char *path = arena_format(t->fe->arena, "hyperparams_states.%s.count", own_name);
    if (schedule) {
        count = counter(t, path), own = fe_schedule_term(t->fe, b, &value, count.v);
        if (!own.v) return false;
        if (!own.weak) dtype = IR_F32; /* an array, which stays what it is; others are rounded like a number */
        now = term_where(b, term_is_nan(b, now), own, now);
    }
    known = find(t->o->hypers.items, t->o->hypers.count, f->json, f->row->name);
    known->value = term_cast(b, now, dtype).v;
    known->begin = ir_element_round(dtype, schedule ? at_zero(t, &value) : value.number);
    if (!apart) return true;
    if (schedule) known->state = optim_path(t, state);
    (void)optim_state(t, state, ir_type_scalar(dtype), (struct optim_start){.number = known->begin});
    optim_state_set(t, state, term_tensor(known->value));
    if (schedule) optim_state_set(t, path, optim_increment(b, count));
    return true;
}

/* Names of static arguments are those of arguments inside; false: errors were recorded. */
static bool check_static(struct search *s)
{
    bool good = true;
    for (fe_json a = s->static_args ? fe_first(s->fe, s->static_args) : NULL; a; a = fe_next(s->fe, a)) {
        size_t i = 0;
        while (a->kind == JSON_STRING && i < s->names.count && strcmp(s->names.items[i], a->string) != 0) i++;
        if (a->kind == JSON_STRING && i < s->names.count) continue;
        struct diag *d = fe_error(s->fe, a, "E0450", "\"static_args\" names arguments of \"opt\", found %s",
                                  fe_found(s->fe, a));
        if (a->kind == JSON_STRING) fe_suggest(s->fe, d, a->string, s->names.items, s->names.count);
        good = false;
    }
    return good;
}

bool optim_inject(struct optim_transform *t)
{
    struct search s = {.fe = t->fe, .static_args = arg(t, "static_args")->json};
    bool good = true;
    search_object(&s, arg(t, "opt")->json, "");
    good &= check_static(&s);
    for (size_t i = 0; i < s.list.count; i++) good &= inject(&s, t, &s.list.items[i]);
    struct fe_term count = counter(t, "count");
    optim_state_set(t, "count", optim_increment(t->b, count));
    return good;
}

/* ---------------------------------------------------------------- learning rates */

/* Two inject_hyperparams may name arguments alike; then the path in the whole optimizer tells them apart. */
static void find_shared(struct fe_optim_state *o, fe_json optimizer)
{
    struct search s = {.fe = o->fe};
    search_object(&s, optimizer, "");
    for (size_t i = 0; i < s.list.count; i++) {
        const struct found *f = &s.list.items[i];
        bool shared = false;
        for (size_t k = 0; k < s.list.count; k++) {
            const struct found *other = &s.list.items[k];
            shared |= f->injected && other->injected && other->root != f->root &&
                      strcmp(other->row->name, f->row->name) == 0;
        }
        if (shared)
            vec_push(o->fe->arena, &o->shared,
                     ((struct optim_hyper){.json = f->json, .argument = f->row->name, .name = f->path}));
    }
}

void optim_rates(struct fe_optim_state *o, fe_json optimizer)
{
    struct search s = {.fe = o->fe, .rates = true};
    find_shared(o, optimizer);
    search_object(&s, optimizer, "");
    for (size_t i = 0; i < s.list.count; i++) {
        const struct found *f = &s.list.items[i];
        bool taken = false; /* by the short name of an injected one */
        for (size_t k = 0; k < s.list.count; k++)
            taken |= s.list.items[k].injected && strcmp(s.list.items[k].row->name, f->path) == 0;
        if (!f->injected && !taken)
            vec_push(o->fe->arena, &o->rates,
                     ((struct optim_hyper){.json = f->json, .argument = f->row->name, .name = name_of(&s, f)}));
    }
}

ir_value optim_rate(struct fe_optim_state *o, fe_json json, const struct fe_arg *row, const struct fe_value *value)
{
    for (size_t i = 0; i < o->rates.count; i++) {
        const struct optim_hyper *h = &o->rates.items[i];
        if (h->json != json || strcmp(h->argument, row->name) != 0 || row->flags & FE_BEGINNING) continue;
        const struct optim_hyper *known = find(o->hypers.items, o->hypers.count, json, row->name);
        if (known) return known->value; /* a wrapper runs it twice in a step */
        bool schedule = fe_is_schedule(value->json);
        struct found f = {.json = json, .row = row, .value = value->json};
        struct ir_slot slot = {.name = arena_format(o->fe->arena, "hyperparameters.%s", h->name),
                               .type = ir_type_scalar(IR_F64),
                               .initial = schedule ? 0 : value->number,
                               .frozen = schedule};
        return declare(o, &f, h->name, slot);
    }
    return 0;
}
