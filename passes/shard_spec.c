/* The document's sharding specs, resolved to mesh axes per dimension of every slot. An extent that its axes do not
 * divide stays whole: the result is the same, only not spread. */
#include "ir/base/json_scan.h"
#include "passes/shard_int.h"

#include <string.h>

struct spec {
    struct ir_module *m;
    struct arena *arena;
    struct json rules; /* the "sharding" object: rules, resolver */
    bool first_fit;
};

static const struct json_value *child(const struct json *j, const struct json_value *v, uint32_t n)
{
    uint32_t at = v->first;
    while (at && n--) at = j->values[at].next;
    return at ? &j->values[at] : NULL;
}

static int axis_of(const struct ir_mesh *mesh, const char *name)
{
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        if (strcmp(mesh->name[a], name) == 0) return (int)a;
    return -1;
}

/* Mask of the axes that a rule's right side names: a name, a list of names, or null. */
static uint32_t rule_axes(const struct spec *s, const struct json *j, const struct json_value *v)
{
    if (v->kind == JSON_STRING) return axis_of(&s->m->mesh, v->string) >= 0 ? 1u << axis_of(&s->m->mesh, v->string) : 0;
    uint32_t mask = 0;
    if (v->kind == JSON_ARRAY)
        for (uint32_t at = v->first; at; at = j->values[at].next) mask |= rule_axes(s, j, &j->values[at]);
    return mask;
}

/* A name is a mesh axis, or a logical name. "first_fit" takes the first rule of that name whose axes are free in this
 * spec (T5X, Linen), "map" the last one (a dictionary, as in NNX). */
static uint32_t name_axes(const struct spec *s, const char *name, uint32_t used)
{
    int axis = axis_of(&s->m->mesh, name);
    if (axis >= 0) return 1u << axis;
    const struct json_value *rules = s->rules.count ? json_get(&s->rules, &s->rules.values[0], "rules") : NULL;
    uint32_t found = 0;
    for (uint32_t at = rules ? rules->first : 0; at; at = s->rules.values[at].next) {
        const struct json_value *left = child(&s->rules, &s->rules.values[at], 0),
                                *right = child(&s->rules, &s->rules.values[at], 1);
        if (!left || !right || left->kind != JSON_STRING || strcmp(left->string, name) != 0) continue;
        uint32_t mask = rule_axes(s, &s->rules, right);
        if (!s->first_fit) found = mask;
        else if (!(mask & used)) return mask;
    }
    return found;
}

static uint32_t entry_axes(const struct spec *s, const struct json *j, const struct json_value *v, uint32_t used)
{
    if (v->kind == JSON_STRING) return name_axes(s, v->string, used);
    uint32_t mask = 0;
    if (v->kind == JSON_ARRAY)
        for (uint32_t at = v->first; at; at = j->values[at].next) mask |= entry_axes(s, j, &j->values[at], used | mask);
    return mask;
}

static struct ir_sharding resolve(const struct spec *s, const struct ir_slot *slot)
{
    struct ir_sharding out = {{0}, 0};
    struct json j;
    struct json_error error;
    if (!slot->sharding_spec ||
        !json_scan(s->arena, slot->sharding_spec, strlen(slot->sharding_spec), NULL, &j, &error))
        return out;
    if (j.values[0].kind != JSON_ARRAY) return out;
    uint32_t used = 0, d = 0;
    for (uint32_t at = j.values[0].first; at && d < slot->type.rank; at = j.values[at].next, d++) {
        uint32_t mask = entry_axes(s, &j, &j.values[at], used) & ~used, axes = shard_axes_of_mask(mask);
        if (slot->type.dim[d] % shard_axes_size(&s->m->mesh, axes) != 0) continue;
        out.dim[d] = axes;
        used |= mask;
    }
    return out;
}

void shard_resolve_slots(struct ir_module *m, struct arena *arena)
{
    struct spec s = {.m = m, .arena = arena, .first_fit = true};
    struct json_error error;
    if (m->sharding_rules && json_scan(arena, m->sharding_rules, strlen(m->sharding_rules), NULL, &s.rules, &error)) {
        const struct json_value *resolver = json_get(&s.rules, &s.rules.values[0], "resolver");
        s.first_fit = !resolver || resolver->kind != JSON_STRING || strcmp(resolver->string, "map") != 0;
    }
    for (size_t i = 0; i < m->slots.count; i++) m->slots.items[i].sharding = resolve(&s, &m->slots.items[i]);
    for (size_t i = 0; i < m->slots.count; i++) {
        struct ir_slot *slot = &m->slots.items[i];
        /* What belongs to a parameter is split as it is along the dimensions that both have, unless the document says
         * otherwise. */
        if (slot->sharding_spec || !slot->param) continue;
        const struct ir_slot *of = &m->slots.items[slot->param - 1];
        for (uint32_t d = 0; d < slot->type.rank; d++) {
            uint32_t along = slot->param_dims >> 4 * d & 15;
            if (along) slot->sharding.dim[d] = of->sharding.dim[along - 1];
        }
        if (!slot->param_dims && of->type.rank == slot->type.rank &&
            memcmp(of->type.dim, slot->type.dim, sizeof of->type.dim) == 0)
            slot->sharding = of->sharding;
    }
}
