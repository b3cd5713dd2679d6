/* inject_hyperparams: the numeric arguments of the transformations inside become hyper-parameters, float32 slots that
 * the host may set between steps. One that is a schedule keeps a counter; its slot starts as NaN, which means that
 * nobody set it and the schedule holds. */
#include "frontend/optim/optim.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An argument found inside `opt`. */
struct found {
    fe_json json;
    const struct fe_arg *row;
    fe_json value;
    const char *path;
};
struct search {
    struct transform *t;
    VEC(struct found) list;
    fe_json static_args;
};

static bool is_static(const struct search *s, const char *name)
{
    for (fe_json a = s->static_args ? fe_first(s->t->fe, s->static_args) : NULL; a; a = fe_next(s->t->fe, a))
        if (a->kind == JSON_STRING && strcmp(a->string, name) == 0) return true;
    return false;
}

static void search_object(struct search *s, fe_json json, const char *path);

/* Transformations among the values of an argument: an object, a list or a map of them. */
static void search_inside(struct search *s, fe_json value, const char *path)
{
    uint32_t i = 0;
    if (value->kind == JSON_OBJECT && fe_member(s->t->fe, value, "type")) {
        search_object(s, value, path);
        return;
    }
    for (fe_json v = fe_first(s->t->fe, value); v; v = fe_next(s->t->fe, v), i++)
        if (v->kind == JSON_OBJECT)
            search_object(s, v,
                          value->kind == JSON_ARRAY ? arena_format(s->t->fe->arena, "%s.%u", path, i)
                                                    : arena_format(s->t->fe->arena, "%s.%s", path, v->key));
}

static void search_object(struct search *s, fe_json json, const char *path)
{
    struct arena *arena = s->t->fe->arena;
    fe_json type = fe_member(s->t->fe, json, "type");
    const struct optim_row *row = type && type->kind == JSON_STRING ? optim_row_find(type->string) : NULL;
    if (!row) return; /* reported when it is run */
    for (uint32_t i = 0; i < row->count; i++) {
        const struct fe_arg *a = &row->args[i];
        fe_json value = fe_member(s->t->fe, json, a->name);
        const char *own = *path ? arena_format(arena, "%s.%s", path, a->name) : a->name;
        bool numeric = a->kind == FE_NUMBER || a->kind == FE_SCHEDULE;
        bool null = value ? value->kind == JSON_NULL : !a->preset || strcmp(a->preset, "null") == 0;
        if (numeric && !null && !is_static(s, a->name))
            vec_push(arena, &s->list, ((struct found){json, a, value, own}));
        else if (value && (a->kind == FE_OBJECT || a->kind == FE_LIST || a->kind == FE_MAP))
            search_inside(s, value, own);
    }
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

/* Declares the slot and reads the value that holds in this step. */
static bool inject(struct search *s, const struct found *f)
{
    struct transform *t = s->t;
    struct ir_builder *b = t->b;
    struct fe_value value = {.given = true, .json = f->value};
    bool schedule = f->value && f->value->kind == JSON_OBJECT;
    const char *name = name_of(s, f);
    if (f->value && !schedule && !fe_number(t->fe, f->value, &value.number)) return false;
    if (!f->value) value.number = strtod(f->row->preset, NULL);
    for (size_t i = 0; i < t->o->hypers.count; i++)
        if (strcmp(t->o->hypers.items[i].name, name) == 0) {
            fe_error(t->fe, f->value ? f->value : f->json, "E0450",
                     "the name \"%s\" of a hyper-parameter is taken already", name);
            return false;
        }
    struct ir_slot slot = {.name = name,
                           .role = IR_ROLE_HYPER,
                           .type = ir_type_scalar(IR_F32),
                           .place = fe_place(t->fe, f->value ? f->value : f->json),
                           .initial = schedule ? (double)NAN : value.number};
    uint32_t index = ir_slot_new(t->fe->module, slot);
    struct term now = term_tensor(ir_param_new(b, name, slot.type, (int32_t)index));
    if (schedule) {
        const char *path = arena_format(t->fe->arena, "hyperparams_states.%s.count", name);
        struct term count = counter(t, path), own = term_tensor(fe_schedule(t->fe, b, &value, count.v));
        now = term_where(b, term_is_nan(b, now), own, now);
        optim_state_set(t, path, optim_increment(b, count));
    }
    vec_push(t->fe->arena, &t->o->hypers, ((struct hyper){f->json, f->row->name, name, now.v}));
    return true;
}

void transform_inject_hyperparams(struct transform *t)
{
    struct search s = {.t = t, .static_args = arg(t, "static_args")->json};
    fe_json opt = arg(t, "opt")->json;
    bool good = true;
    search_object(&s, opt, "");
    for (size_t i = 0; i < s.list.count; i++) good &= inject(&s, &s.list.items[i]);
    struct term count = counter(t, "count");
    optim_state_set(t, "count", optim_increment(t->b, count));
    if (good) optim_apply(t->o, opt, optim_path(t, "inner_state"), t->u, t->p);
}
