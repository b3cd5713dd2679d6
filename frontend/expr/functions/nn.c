/* Activation objects and blocks (the functions are library/nn.step), and one-hot masks. */
#include "frontend/expr/makers.h"
#include <string.h>

struct fe_val fe_one_hot_mask(struct fe_site *s, struct fe_val labels, int64_t classes, uint32_t axis)
{
    struct fe_val wide = fe_expand(s, labels, axis);
    if (wide.bad) return wide;
    struct ir_type t = fe_type_at(s, &wide);
    t.dim[axis] = classes;
    t.dtype = IR_I32;
    return fe_binary(s, EXPR_OP_EQ, fe_iota(s, t, axis), wide);
}

struct fe_val make_classes_of(struct fe_call *c)
{ /* the labels as they are; noted: each of those that count is a class. With the axis that the classes get, it is if a
     loss gets the one-hot mask */
    int64_t classes, axis;
    uint32_t at = 0;
    bool mask = c->given[4];
    if (!fe_get_int(c, 1, &classes) || !fe_get_int(c, 4, &axis)) return fe_bad();
    if (mask && !fe_get_axis(c->site, axis, fe_rank(c->site, &ARG(0)) + 1, &at)) return fe_bad();
    struct fe_index_note *note = fe_get_flag(c, 3) ? fe_note_index(c->site, &c->where[0], &ARG(0), 0, classes) : NULL;
    if (note) note->of_labels = mask, note->other = mask ? 1u << at : 0;
    if (note && ARG(2).kind == FE_VAL_TENSOR) note->counted = ARG(2).tensor;
    return ARG(0);
}

struct fe_val make_class_mask(struct fe_call *c)
{ /* labels, classes, the axis of these */
    int64_t classes, axis;
    uint32_t at;
    if (!fe_get_int(c, 1, &classes) || !fe_get_int(c, 2, &axis) ||
        !fe_get_axis(c->site, axis, fe_rank(c->site, &ARG(0)) + 1, &at))
        return fe_bad();
    return fe_one_hot_mask(c->site, ARG(0), classes, at);
}

struct fe_val fe_activation(struct fe *fe, struct fe_trace *trace, fe_json object, struct fe_val x, bool is_block)
{
    struct fe_site s = {.fe = fe, .trace = trace, .b = trace->b, .where = {.json = object}};
    const char *name = object->kind == JSON_STRING ? object->string : fe_type_of(fe, object);
    if (!name) return fe_bad();
    const struct fe_function *f = fe_function_find(fe_library(fe), name);
    fe_json type = object->kind == JSON_STRING ? object : fe_member(fe, object, "type");
    if (!f || !(f->flags & FE_ACTIVATION)) {
        size_t count;
        const char *const *names = fe_function_names(fe_library(fe), FE_ACTIVATION, &count);
        fe_suggest(fe, fe_error(fe, type, "E0105", "unknown activation \"%s\"", name), name, names, count);
        return fe_bad();
    }
    struct fe_val args[FE_MAX_ARGS + 1] = {x};
    const char *names[FE_MAX_ARGS + 1] = {NULL};
    struct fe_where wheres[FE_MAX_ARGS + 1] = {s.where};
    const char *const *known = fe_signature_names(fe->arena, f);
    uint32_t n = 1;
    size_t known_count = 0;
    bool bad = x.bad;
    while (known[known_count]) known_count++;
    for (fe_json m = object->kind == JSON_OBJECT ? fe_first(fe, object) : NULL; m; m = fe_next(fe, m)) {
        static const char *const block_keys[] = {"type", "name", "input", "inputs"};
        bool own = false, found = false;
        for (size_t i = 0; i < (is_block ? 4 : 1); i++) own |= !strcmp(m->key, block_keys[i]);
        if (own) continue;
        for (size_t i = 1; i < known_count; i++) found |= !strcmp(m->key, known[i]);
        if (!found) {
            const char *what = arena_format(fe->arena, "activation \"%s\"", name);
            struct diag *d = fe_error_key(fe, m, "E0107", "unknown key \"%s\" in %s", m->key, what);
            fe_suggest(fe, d, m->key, known + 1, known_count - 1);
            fe_note_meaning(fe, d, what, "()", m->key, known + 1, known_count - 1);
            bad = true;
            continue;
        }
        args[n] = fe_literal(&s, m, trace->env, true);
        names[n] = m->key;
        wheres[n] = (struct fe_where){.json = m};
        bad |= args[n++].bad;
    }
    if (bad) return fe_bad();
    struct fe_hook hook = fe_hook_set(&s);
    struct fe_val v = fe_call_function(&s, f, args, names, wheres, n);
    fe_hook_reset(&s, hook);
    return v;
}
