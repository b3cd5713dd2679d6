/* Gives parameters and the state of optimizers their specs by the patterns of "sharding", whose form is known to be
 * right (document/sharding.c). Those of inputs were given there. */
#include "frontend/step/assemble.h"
#include <string.h>

static bool is_parameter(const struct ir_slot *slot) { return slot->role == IR_ROLE_PARAM; }

static void check_patterns(struct fe *fe, fe_json map)
{
    const struct ir_module *m = fe->module;
    VEC(const char *) paths = {0};
    for (size_t i = 0; i < m->slots.count; i++)
        if (is_parameter(&m->slots.items[i])) vec_push(fe->arena, &paths, m->slots.items[i].name);
    fe_pattern_map(fe, map, "E0405", paths.items, paths.count);
}

/* A parameter's spec: that of the first pattern that matches. An adapter's follows the kernel that it stands beside, by
 * axis, unless a pattern matches it and not the kernel. */
static void give_parameter(struct fe *fe, fe_json params, const struct fe_param *p, struct ir_slot *slot)
{
    fe_json spec = fe_pattern_first(fe, params, p->path), like = NULL;
    if (p->spec_like) like = fe_pattern_first(fe, params, p->spec_like);
    fe_json entry[IR_MAX_RANK] = {NULL}, own[IR_MAX_RANK] = {NULL};
    if (!p->spec_like || (spec && !glob_match(spec->key, p->spec_like))) {
        fe_sharding_entries(fe, spec, entry);
        if (spec && fe_sharding_length(fe, spec, "parameter", p->path, &p->type)) fe_sharding_give(fe, entry, slot);
    } else if (like) {
        fe_sharding_entries(fe, like, entry);
        for (uint32_t i = 0; i < p->type.rank; i++) own[i] = p->spec_axis[i] < 0 ? NULL : entry[p->spec_axis[i]];
        fe_sharding_give(fe, own, slot);
    }
}

/* A slot derived from a parameter keeps the entries of the dimensions that it has. */
static void give_state(struct fe *fe, fe_json spec, struct ir_slot *slot)
{
    const struct ir_type *param = &fe->module->slots.items[slot->param - 1].type;
    bool same = param->rank == slot->type.rank && memcmp(param->dim, slot->type.dim, sizeof param->dim) == 0;
    fe_json entry[IR_MAX_RANK] = {NULL}, own[IR_MAX_RANK] = {NULL};
    fe_sharding_entries(fe, spec, entry);
    if (!slot->param_dims && !same) return;
    for (uint32_t d = 0; d < slot->type.rank; d++) {
        uint32_t along = slot->param_dims ? slot->param_dims >> 4 * d & 15 : d + 1;
        own[d] = along ? entry[along - 1] : NULL;
    }
    fe_sharding_give(fe, own, slot);
}

bool fe_sharding(struct fe *fe)
{
    fe_json sharding = fe_member(fe, fe_root(fe), "sharding");
    fe_json params = fe_member(fe, sharding, "params"), state = fe_member(fe, sharding, "optimizer_state");
    struct ir_module *m = fe->module;
    size_t errors = fe->diags->errors;
    check_patterns(fe, params);
    check_patterns(fe, state);
    uint32_t count;
    const struct fe_param *parameters = fe_params(fe, &count);
    for (uint32_t i = 0; i < count; i++) {
        struct ir_slot *slot = &m->slots.items[parameters[i].slot];
        if (is_parameter(slot)) give_parameter(fe, params, &parameters[i], slot);
    }
    for (size_t i = 0; i < m->slots.count; i++) {
        struct ir_slot *slot = &m->slots.items[i];
        if (slot->role != IR_ROLE_OPT_STATE || !slot->param) continue;
        const struct ir_slot *param = &m->slots.items[slot->param - 1];
        fe_json spec = fe_pattern_first(fe, state, param->name);
        if (spec && !param->type.rank && strchr(spec->key, '*')) continue; /* a number among others: no slip */
        if (spec && fe_sharding_length(fe, spec, "parameter", param->name, &param->type)) give_state(fe, spec, slot);
    }
    return fe->diags->errors == errors;
}
