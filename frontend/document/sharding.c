/* The "sharding" object: rules, resolver, and specs by pattern for parameters, optimizer state and inputs. Names are
 * checked here, where their place is known, and resolved to mesh axes. Which parameters and states a pattern means is
 * known when all are declared (step/sharding_specs.c). */
#include "frontend/document/document.h"

#include <string.h>

enum { SH_rules, SH_resolver, SH_mode, SH_params, SH_optimizer_state, SH_inputs, SH_COUNT };

/* ---------------------------------------------------------------- names */

/* Mask of a mesh axis; 0: there is none of that name. */
static uint32_t axis_mask(const struct fe *fe, const char *name)
{
    for (uint32_t i = 0; i < fe->module->mesh.axis_count; i++)
        if (strcmp(fe->module->mesh.name[i], name) == 0) return 1u << i;
    return 0;
}

static bool is_axis(const struct fe *fe, const char *name) { return axis_mask(fe, name) != 0; }

static bool is_logical(struct fe *fe, fe_json rules, const char *name)
{
    for (fe_json rule = fe_first(fe, rules); rule; rule = fe_next(fe, rule)) {
        fe_json left = fe_first(fe, rule);
        if (left && left->kind == JSON_STRING && strcmp(left->string, name) == 0) return true;
    }
    return false;
}

typedef VEC(const char *) axis_names;

static void list_names(struct fe *fe, fe_json rules, axis_names *names)
{
    for (uint32_t i = 0; i < fe->module->mesh.axis_count; i++) vec_push(fe->arena, names, fe->module->mesh.name[i]);
    for (fe_json rule = fe_first(fe, rules); rule; rule = fe_next(fe, rule)) {
        fe_json left = fe_first(fe, rule);
        if (left && left->kind == JSON_STRING) vec_push(fe->arena, names, left->string);
    }
}

bool fe_sharding_knows(struct fe *fe, const char *name)
{
    return is_axis(fe, name) || is_logical(fe, fe_member(fe, fe_member(fe, fe_root(fe), "sharding"), "rules"), name);
}

void fe_sharding_suggest(struct fe *fe, struct diag *d, const char *name)
{
    axis_names names = {0};
    list_names(fe, fe_member(fe, fe_member(fe, fe_root(fe), "sharding"), "rules"), &names);
    fe_suggest(fe, d, name, names.items, names.count);
}

/* Error for a name that is no mesh axis and, where logical names are allowed, none of these either. */
static bool unknown_axis(struct fe *fe, fe_json name, bool logical, fe_json rules)
{
    axis_names names = {0};
    list_names(fe, rules, &names);
    struct diag *d = fe_error(fe, name, "E0406",
                              logical ? "%s is neither a mesh axis nor a name of the rules"
                                      : "%s is not an axis of the mesh",
                              fe_found(fe, name));
    fe_suggest(fe, d, name->string, names.items, names.count);
    if (!fe->module->mesh.axis_count) d->hint = "the document has no \"mesh\"";
    return false;
}

static void warn_of_slip(struct fe *fe, fe_json name, const char *what, const axis_names *known)
{
    if (!str_nearest(name->string, known->items, known->count)) return;
    struct diag *d = fe_warning(fe, name, "W0403", "%s an axis \"%s\"", what, name->string);
    fe_suggest(fe, d, name->string, known->items, known->count);
}

static bool is_among(const char *name, const axis_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0) return true;
    return false;
}

/* An axis of an input may have any name; one of which nothing is said, and nearly one of which something is, is a slip.
 * So is a rule for nearly "batch" where none is for "batch". */
void fe_sharding_slips(struct fe *fe)
{
    fe_json rules = fe_member(fe, fe_member(fe, fe_root(fe), "sharding"), "rules");
    axis_names names = {0}, own = {0}, batch = {0};
    list_names(fe, rules, &names);
    bool ruled = is_among("batch", &names);
    vec_push(fe->arena, &names, "batch");
    vec_push(fe->arena, &batch, "batch");
    for (fe_json input = fe_first(fe, fe_member(fe, fe_root(fe), "inputs")); input; input = fe_next(fe, input))
        for (fe_json axis = fe_first(fe, fe_member(fe, input, "axes")); axis; axis = fe_next(fe, axis)) {
            if (!axis->string) continue;
            vec_push(fe->arena, &own, axis->string);
            if (!is_among(axis->string, &names)) warn_of_slip(fe, axis, "nothing is said of", &names);
        }
    for (fe_json rule = fe_first(fe, rules); rule && !ruled && is_among("batch", &own); rule = fe_next(fe, rule)) {
        fe_json left = fe_first(fe, rule);
        if (left && left->string && !is_among(left->string, &own)) warn_of_slip(fe, left, "no input has", &batch);
    }
}

/* ---------------------------------------------------------------- rules */

static bool check_rule(struct fe *fe, fe_json rule)
{
    fe_json left = fe_first(fe, rule), right = left ? fe_next(fe, left) : NULL;
    bool pair = rule->kind == JSON_ARRAY && right && !fe_next(fe, right) && left->kind == JSON_STRING;
    bool axes = pair && (right->kind == JSON_STRING || right->kind == JSON_NULL || right->kind == JSON_ARRAY);
    if (!axes)
        return fe_wrong(fe, rule, "E0406",
                        "a rule is [\"logical name\", mesh axis, list of mesh axes or null], found %s",
                        fe_found(fe, rule));
    bool good = true;
    for (fe_json a = right->kind == JSON_ARRAY ? fe_first(fe, right) : right; a;
         a = right->kind == JSON_ARRAY ? fe_next(fe, a) : NULL) {
        if (a->kind == JSON_NULL && a == right) continue;
        if (a->kind != JSON_STRING)
            good = fe_wrong(fe, a, "E0406", "a mesh axis is a string, found %s", fe_found(fe, a));
        else if (!is_axis(fe, a->string) && fe->module->mesh.axis_count) { /* without a mesh rules mean nothing */
            good = unknown_axis(fe, a, false, NULL);
        }
    }
    return good;
}

/* ---------------------------------------------------------------- specs */

struct spec {
    fe_json rules;
    bool map; /* the resolver */
    const char *used[IR_MAX_RANK * IR_MAX_AXES];
    uint32_t used_count;
    uint32_t axes; /* mask of those that names stand for */
};

static bool check_entry(struct fe *fe, fe_json entry, struct spec *spec)
{
    if (entry->kind == JSON_NULL) return true;
    if (entry->kind != JSON_STRING)
        return fe_wrong(fe, entry, "E0406",
                        "an entry of a spec is a mesh axis, a name of the rules, a list of them or null, found %s",
                        fe_found(fe, entry));
    bool axis = is_axis(fe, entry->string), logical = !axis && is_logical(fe, spec->rules, entry->string);
    if (!axis && !logical && fe->module->mesh.axis_count) return unknown_axis(fe, entry, true, spec->rules);
    for (uint32_t i = 0; i < spec->used_count; i++)
        if (strcmp(spec->used[i], entry->string) == 0)
            return fe_wrong(fe, entry, "E0406",
                            axis ? "mesh axis \"%s\" splits two dimensions of one tensor"
                                 : "\"%s\" names two dimensions of one tensor",
                            entry->string);
    if (spec->used_count < sizeof spec->used / sizeof *spec->used) spec->used[spec->used_count++] = entry->string;
    /* first_fit takes the next rule or none where an axis is used, as T5X does; NNX refuses. */
    uint32_t axes = axis || (logical && spec->map) ? fe_sharding_name(fe, entry->string, 0) : 0;
    if (axes & spec->axes)
        return fe_wrong(fe, entry, "E0406", "\"%s\" splits by a mesh axis that another entry of the spec splits by",
                        entry->string);
    spec->axes |= axes;
    return true;
}

static bool check_spec(struct fe *fe, fe_json list, fe_json rules, bool map)
{
    struct spec spec = {.rules = rules, .map = map};
    bool good = true;
    if (list->kind != JSON_ARRAY)
        return fe_wrong(fe, list, "E0406", "a spec is an array with one entry per dimension, found %s",
                        fe_found(fe, list));
    for (fe_json entry = fe_first(fe, list); entry; entry = fe_next(fe, entry)) {
        if (entry->kind != JSON_ARRAY) good &= check_entry(fe, entry, &spec);
        else
            for (fe_json one = fe_first(fe, entry); one; one = fe_next(fe, one)) good &= check_entry(fe, one, &spec);
    }
    return good;
}

bool fe_sharding_length(struct fe *fe, fe_json spec, const char *what, const char *name, const struct ir_type *type)
{
    uint32_t entries = fe_count(fe, spec);
    if (entries <= type->rank) return true;
    return fe_wrong(fe, spec, "E0406", "a spec of %u entries for %s \"%s\", which has %u dimensions: %s", entries, what,
                    name, type->rank, ir_type_text(fe->arena, type));
}

static bool input_specs(struct fe *fe, fe_json map)
{
    bool good = true;
    const char **names = arena_new_array(fe->arena, const char *, fe->input_count + 1);
    for (uint32_t i = 0; i < fe->input_count; i++) names[i] = fe->module->slots.items[fe->inputs[i]].name;
    for (fe_json spec = fe_first(fe, map); spec; spec = fe_next(fe, spec)) {
        uint32_t i = 0;
        while (i < fe->input_count && strcmp(names[i], spec->key) != 0) i++;
        if (i == fe->input_count) {
            fe_suggest(fe, fe_error_key(fe, spec, "E0405", "the document has no input \"%s\"", spec->key), spec->key,
                       names, i);
            good = false;
            continue;
        }
        struct ir_slot *slot = &fe->module->slots.items[fe->inputs[i]];
        good &= fe_sharding_length(fe, spec, "input", slot->name, &slot->type);
    }
    return good;
}

/* Names of dimensions mean something without a mesh, too: to optimizers that go by them. */
static bool is_for_names(const struct fe *fe)
{
    for (uint32_t i = 1; i < fe->json.count; i++) {
        fe_json v = &fe->json.values[i];
        if (v->key && strcmp(v->key, "logical_factor_rules") == 0 && v->kind != JSON_NULL) return true;
    }
    return false;
}

void fe_sharding_idle(struct fe *fe, fe_json place, const char *what)
{
    fe_json mesh = fe_member(fe, fe->json.values, "mesh");
    if (mesh && !(mesh->kind == JSON_OBJECT && fe_member(fe, mesh, "axes")))
        return; /* it is wrong, and was said to be */
    fe_warning(fe, place, "W0406", "%s without a \"mesh\" splits nothing", what)->hint =
        "add \"mesh\": {\"axes\": {\"data\": 2}}, or --mesh data=2; of size 1 for one device";
}

bool fe_sharding_form(struct fe *fe, fe_json sharding)
{
    struct fe_value v[SH_COUNT];
    if (!fe_setting(fe, FE_SETTING_sharding, sharding, "\"sharding\"", v)) return false;
    bool good = true;
    fe_json rules = v[SH_rules].json;
    if (!fe->module->mesh.axis_count && sharding->count && !is_for_names(fe))
        fe_sharding_idle(fe, sharding, "\"sharding\"");
    for (fe_json rule = fe_first(fe, rules); rule; rule = fe_next(fe, rule)) good &= check_rule(fe, rule);
    for (int map = SH_params; good && map <= SH_inputs; map++)
        for (fe_json spec = fe_first(fe, v[map].json); spec; spec = fe_next(fe, spec))
            good &= check_spec(fe, spec, rules, v[SH_resolver].integer == 1);
    fe->module->mesh.explicit_layouts = v[SH_mode].integer == 1;
    return good && input_specs(fe, v[SH_inputs].json);
}

/* ---------------------------------------------------------------- axes of specs */

/* The axes that a rule's right side names: a name, a list of names, or null. */
static uint32_t rule_axes(struct fe *fe, fe_json v)
{
    uint32_t mask = v->kind == JSON_STRING ? axis_mask(fe, v->string) : 0;
    for (fe_json a = v->kind == JSON_ARRAY ? fe_first(fe, v) : NULL; a; a = fe_next(fe, a)) mask |= rule_axes(fe, a);
    return mask;
}

/* A name is a mesh axis, or a logical name. "first_fit" takes the first rule of that name whose axes are free in this
 * spec (T5X, Linen), "map" the last one (a dictionary, as in NNX). */
uint32_t fe_sharding_name(struct fe *fe, const char *name, uint32_t used)
{
    fe_json sharding = fe_member(fe, fe_root(fe), "sharding"), resolver = fe_member(fe, sharding, "resolver");
    bool first_fit = !resolver || resolver->kind != JSON_STRING || strcmp(resolver->string, "map") != 0;
    uint32_t found = axis_mask(fe, name);
    if (found) return found;
    for (fe_json rule = fe_first(fe, fe_member(fe, sharding, "rules")); rule; rule = fe_next(fe, rule)) {
        fe_json left = fe_first(fe, rule), right = left ? fe_next(fe, left) : NULL;
        if (!right || left->kind != JSON_STRING || strcmp(left->string, name) != 0) continue;
        uint32_t mask = rule_axes(fe, right);
        if (!first_fit) found = mask;
        else if (!(mask & used)) return mask;
    }
    return found;
}

static uint32_t entry_axes(struct fe *fe, fe_json v, uint32_t used)
{
    if (!v) return 0;
    if (v->kind == JSON_STRING) return fe_sharding_name(fe, v->string, used);
    uint32_t mask = 0;
    for (fe_json e = v->kind == JSON_ARRAY ? fe_first(fe, v) : NULL; e; e = fe_next(fe, e))
        mask |= entry_axes(fe, e, used | mask);
    return mask;
}

void fe_sharding_give(struct fe *fe, const fe_json *entries, struct ir_slot *slot)
{
    const struct ir_mesh *mesh = &fe->module->mesh;
    uint32_t used = 0;
    slot->sharding_given = mesh->axis_count > 0;
    for (uint32_t d = 0; d < slot->type.rank; d++) {
        uint32_t mask = entry_axes(fe, entries[d], used) & ~used;
        slot->sharding.dim[d] = ir_axes_of_mask(mask);
        used |= mask;
    }
}

void fe_sharding_entries(struct fe *fe, fe_json spec, fe_json *entries)
{
    uint32_t n = 0;
    for (fe_json e = fe_first(fe, spec); e && n < IR_MAX_RANK; e = fe_next(fe, e)) entries[n++] = e;
}

void fe_sharding_inputs(struct fe *fe)
{
    fe_json inputs = fe_member(fe, fe_root(fe), "inputs"),
            specs = fe_member(fe, fe_member(fe, fe_root(fe), "sharding"), "inputs");
    for (uint32_t i = 0; i < fe->input_count; i++) {
        struct ir_slot *slot = &fe->module->slots.items[fe->inputs[i]];
        fe_json spec = fe_member(fe, specs, slot->name), entries[IR_MAX_RANK] = {NULL};
        if (!spec) spec = fe_member(fe, fe_member(fe, inputs, slot->name), "axes");
        fe_sharding_entries(fe, spec, entries);
        if (spec) fe_sharding_give(fe, entries, slot);
    }
}
