/* The form of the "sharding" object: rules, resolver, and specs by pattern for parameters, optimizer state and inputs.
 * Names are checked here, where their place is known; what they resolve to is decided by the pass that shards. Which
 * parameters and states a pattern means is known when all are declared (step/sharding_specs.c). */
#include "frontend/document/document.h"

#include <string.h>

enum { SH_rules, SH_resolver, SH_mode, SH_params, SH_optimizer_state, SH_inputs, SH_COUNT };

/* ---------------------------------------------------------------- names */

static bool is_axis(const struct fe *fe, const char *name)
{
    for (uint32_t i = 0; i < fe->module->mesh.axis_count; i++)
        if (strcmp(fe->module->mesh.name[i], name) == 0) return true;
    return false;
}

static bool is_logical(struct fe *fe, fe_json rules, const char *name)
{
    for (fe_json rule = fe_first(fe, rules); rule; rule = fe_next(fe, rule)) {
        fe_json left = fe_first(fe, rule);
        if (left && left->kind == JSON_STRING && strcmp(left->string, name) == 0) return true;
    }
    return false;
}

/* Error for a name that is no mesh axis and, where logical names are allowed, none of these either. */
static bool unknown_axis(struct fe *fe, fe_json name, bool logical, fe_json rules)
{
    VEC(const char *) names = {0};
    for (uint32_t i = 0; i < fe->module->mesh.axis_count; i++) vec_push(fe->arena, &names, fe->module->mesh.name[i]);
    for (fe_json rule = fe_first(fe, rules); rule; rule = fe_next(fe, rule)) {
        fe_json left = fe_first(fe, rule);
        if (left && left->kind == JSON_STRING) vec_push(fe->arena, &names, left->string);
    }
    struct diag *d = fe_error(fe, name, "E0406",
                              logical ? "%s is neither a mesh axis nor a name of the rules"
                                      : "%s is not an axis of the mesh",
                              fe_found(fe, name));
    fe_suggest(fe, d, name->string, names.items, names.count);
    if (!fe->module->mesh.axis_count) d->hint = "the document has no \"mesh\"";
    return false;
}

/* ---------------------------------------------------------------- rules */

static bool check_rule(struct fe *fe, fe_json rule)
{
    fe_json left = fe_first(fe, rule), right = left ? fe_next(fe, left) : NULL;
    bool pair = rule->kind == JSON_ARRAY && right && !fe_next(fe, right) && left->kind == JSON_STRING;
    bool axes = pair && (right->kind == JSON_STRING || right->kind == JSON_NULL || right->kind == JSON_ARRAY);
    if (!axes) {
        fe_error(fe, rule, "E0406", "a rule is [\"logical name\", mesh axis, list of mesh axes or null], found %s",
                 fe_found(fe, rule));
        return false;
    }
    bool good = true;
    for (fe_json a = right->kind == JSON_ARRAY ? fe_first(fe, right) : right; a;
         a = right->kind == JSON_ARRAY ? fe_next(fe, a) : NULL) {
        if (a->kind == JSON_NULL && a == right) continue;
        if (a->kind != JSON_STRING) {
            fe_error(fe, a, "E0406", "a mesh axis is a string, found %s", fe_found(fe, a));
            good = false;
        } else if (!is_axis(fe, a->string) && fe->module->mesh.axis_count) { /* without a mesh rules mean nothing */
            good = unknown_axis(fe, a, false, NULL);
        }
    }
    return good;
}

/* ---------------------------------------------------------------- specs */

struct spec {
    fe_json rules;
    const char *used[IR_MAX_RANK * IR_MAX_AXES];
    uint32_t used_count;
};

static bool check_entry(struct fe *fe, fe_json entry, struct spec *spec)
{
    if (entry->kind == JSON_NULL) return true;
    if (entry->kind != JSON_STRING) {
        fe_error(fe, entry, "E0406",
                 "an entry of a spec is a mesh axis, a name of the rules, a list of them or null, found %s",
                 fe_found(fe, entry));
        return false;
    }
    bool axis = is_axis(fe, entry->string);
    if (!axis && is_logical(fe, spec->rules, entry->string)) return true;
    if (!axis) {
        if (!fe->module->mesh.axis_count) return true; /* one device: nothing to resolve */
        return unknown_axis(fe, entry, true, spec->rules);
    }
    for (uint32_t i = 0; i < spec->used_count; i++)
        if (strcmp(spec->used[i], entry->string) == 0) {
            fe_error(fe, entry, "E0406", "mesh axis \"%s\" splits two dimensions of one tensor", entry->string);
            return false;
        }
    if (spec->used_count < sizeof spec->used / sizeof *spec->used) spec->used[spec->used_count++] = entry->string;
    return true;
}

static bool check_spec(struct fe *fe, fe_json list, fe_json rules)
{
    struct spec spec = {.rules = rules};
    bool good = true;
    if (list->kind != JSON_ARRAY) {
        fe_error(fe, list, "E0406", "a spec is an array with one entry per dimension, found %s", fe_found(fe, list));
        return false;
    }
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
    fe_error(fe, spec, "E0406", "a spec of %u entries for %s \"%s\", which has %u dimensions: %s", entries, what, name,
             type->rank, ir_type_text(fe->arena, type));
    return false;
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
        slot->sharding_spec = arena_string(&fe->module->arena, fe_text(fe, spec));
    }
    return good;
}

bool fe_sharding_form(struct fe *fe, fe_json sharding)
{
    struct fe_value v[SH_COUNT];
    if (!fe_setting(fe, FE_SETTING_sharding, sharding, "\"sharding\"", v)) return false;
    bool good = true;
    fe_json rules = v[SH_rules].json;
    for (fe_json rule = fe_first(fe, rules); rule; rule = fe_next(fe, rule)) good &= check_rule(fe, rule);
    for (int map = SH_params; good && map <= SH_inputs; map++)
        for (fe_json spec = fe_first(fe, v[map].json); spec; spec = fe_next(fe, spec))
            good &= check_spec(fe, spec, rules);
    if (good && v[SH_mode].json && v[SH_mode].integer == 1) {
        fe_error(fe, v[SH_mode].json, "E0111", "sharding with \"mode\": \"explicit\" is not supported yet");
        good = false;
    }
    if (good) good = input_specs(fe, v[SH_inputs].json);
    if (!good) return false;
    struct str text = STR(fe->arena);
    str_addf(&text, "{\"resolver\":\"%s\"", v[SH_resolver].string);
    if (rules) str_addf(&text, ",\"rules\":%s", fe_text(fe, rules));
    str_add(&text, "}");
    fe->module->sharding_rules = arena_string(&fe->module->arena, str_text(&text));
    return true;
}
