/* Tracing of the model: its inputs by name, and its block. */
#include "frontend/model/block.h"
#include <string.h>

/* Each name means one thing in the body: a number that a use may give, or an input ("x" where none is named). */
static bool check_names_of(struct fe *fe, fe_json define)
{
    fe_json params = fe_member(fe, define, "params"), inputs = fe_member(fe, define, "inputs");
    struct map seen = MAP(fe->arena);
    bool good = true;
    if (params && params->kind != JSON_OBJECT) params = NULL; /* said where it is read */
    for (fe_json p = fe_first(fe, params); p && !inputs; p = fe_next(fe, p))
        if (!strcmp(p->key, "x"))
            good = fe_wrong_key(fe, p, "E0110",
                                "\"x\" is the block's input in this definition already; \"inputs\" may name that");
    for (fe_json c = fe_first(fe, inputs); c; c = fe_next(fe, c)) {
        if (c->kind != JSON_STRING) continue;
        if (!map_set(&seen, c->string, 1))
            good = fe_wrong(fe, c, "E0110", "\"%s\" names two inputs of this definition", c->string);
        else if (fe_member(fe, params, c->string))
            good = fe_wrong(fe, c, "E0110", "\"%s\" is a parameter of this definition already", c->string);
    }
    return good;
}

bool fe_check_definitions(struct fe *fe)
{
    fe_json defines = fe_member(fe, fe_root(fe), "define");
    bool good = true;
    if (!defines || defines->kind != JSON_OBJECT) return true;
    for (fe_json define = fe_first(fe, defines); define; define = fe_next(fe, define)) {
        struct fe_row row;
        bool taken = false;
        for (uint32_t i = 0; fe_structure_row(i, &row); i++) taken |= !strcmp(row.name, define->key);
        for (uint32_t i = 0; i < fe->layers->count; i++) taken |= !strcmp(fe->layers->rows[i]->name, define->key);
        if (taken)
            fe_error_key(fe, define, "E0110",
                         "\"%s\" is a block of the language already: a use of this definition would mean that",
                         define->key);
        good &= !taken;
        if (define->kind == JSON_OBJECT) good &= check_names_of(fe, define);
    }
    return good;
}

/* The inputs by name. One that a function does not have is one that its result does not need: zeros stand for it, as
 * many rows of them as the function sees. */
static const struct fe_env *input_env(struct fe *fe, struct fe_trace *trace)
{
    const uint32_t *slots;
    uint32_t n = fe_inputs(fe, &slots);
    const struct fe_env *env = NULL;
    for (uint32_t i = n; i-- > 0;) {
        const struct ir_slot *slot = &fe->module->slots.items[slots[i]];
        struct ir_type type = slot->type;
        if (trace->rows && fe_input_batched(fe, i)) type.dim[0] = trace->rows->count;
        ir_value v = trace->inputs[i] ? trace->inputs[i] : ir_number(trace->b, type, 0);
        env = fe_bind_own(fe->arena, env, slot->name, fe_input_value(trace->b, v));
    }
    return env;
}

bool fe_trace_model(struct fe *fe, struct fe_trace *trace)
{
    struct fe_state *state = fe_state(fe);
    struct fe_trace_own *own = fe_trace_own(fe, trace);
    fe_json json = fe_member(fe, fe_root(fe), "model");
    own->model = json;
    own->inputs = input_env(fe, trace);
    own->constants = fe->constants;
    trace->env = own->inputs;
    struct fe_block root = {.site = {.fe = fe, .trace = trace, .b = trace->b, .where = {.json = json}},
                            .json = json,
                            .path = "",
                            .type = "model"};
    trace->model = fe_block_child(&root, json, "", own->inputs, NULL, 0);
    if (trace->model.kind == FE_VAL_NUMBER || (trace->model.kind == FE_VAL_TUPLE && !trace->model.names)) {
        struct fe_site site = root.site;
        if (trace->model.kind == FE_VAL_NUMBER && !fe_as_tensor(&site, &trace->model)) trace->model = fe_bad();
    }
    if (trace->model.bad) return false;
    if (!state->declared && !fe_adapters(fe, trace)) return false;
    state->declared = true;
    trace->env = fe_bind(fe->arena, own->inputs, "model", trace->model);
    return true;
}
