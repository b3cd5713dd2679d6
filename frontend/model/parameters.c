/* What all files of the model stand on: its state, the notes of a trace, errors at a block, and parameters: their
 * paths, declaration by the first trace, values in the later ones, and patterns over their paths. */
#include "frontend/model/block.h"
#include <string.h>

static const char *parameter_path(const struct fe *fe, uint32_t index, bool *statistic)
{
    *statistic = fe->state->params.items[index].statistic;
    return fe->state->params.items[index].path;
}

static uint32_t parameter_count(const struct fe *fe) { return (uint32_t)fe->state->params.count; }

static const struct fe_parameters parameters = {parameter_count, parameter_path, fe_trace_param};

struct fe_state *fe_state(struct fe *fe)
{
    if (!fe->state) {
        fe->state = arena_new(fe->arena, struct fe_state);
        fe->state->by_path = MAP(fe->arena);
        fe->parameters = &parameters;
    }
    return fe->state;
}

struct fe_val fe_block_fail(struct fe_block *block, fe_json where, const char *code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = arena_vformat(block->site.fe->arena, format, list);
    va_end(list);
    fe_error(block->site.fe, where ? where : block->json, code, "%s", text);
    return fe_bad();
}

const char *fe_path_join(struct arena *arena, const char *path, const char *segment)
{
    if (!*segment) return path;
    return *path ? arena_format(arena, "%s.%s", path, segment) : segment;
}

/* ---------------------------------------------------------------- parameters */

const struct fe_param *fe_params(const struct fe *fe, uint32_t *count)
{
    *count = fe->state ? (uint32_t)fe->state->params.count : 0;
    return fe->state ? fe->state->params.items : NULL;
}

struct fe_trace_own *fe_trace_own(struct fe *fe, struct fe_trace *trace)
{
    if (!trace->own) {
        trace->own = arena_new(fe->arena, struct fe_trace_own);
        trace->own->claimed = MAP(fe->arena);
        trace->own->names = MAP(fe->arena);
    }
    return trace->own;
}

ir_value fe_trace_param(struct fe *fe, struct fe_trace *trace, uint32_t index)
{
    struct fe_state *state = fe_state(fe);
    struct fe_trace_own *own = fe_trace_own(fe, trace);
    if (trace->params) return trace->params[index];
    if (index >= own->capacity) {
        uint32_t capacity = (uint32_t)state->params.count * 2 + 16;
        ir_value *values = arena_new_array(fe->arena, ir_value, capacity);
        if (own->capacity) memcpy(values, own->values, own->capacity * sizeof *values);
        own->values = values;
        own->capacity = capacity;
    }
    if (!own->values[index]) {
        const struct fe_param *p = &state->params.items[index];
        own->values[index] = ir_param_new(trace->b, p->path, p->type, (int32_t)p->slot);
    }
    return own->values[index];
}

static bool check_type(struct fe_block *block, const char *path, bool statistic, struct ir_type *t)
{
    if (!statistic && !ir_dtype_is_float((enum ir_dtype)t->dtype))
        return fe_block_wrong(block, NULL, "E0213", "parameter \"%s\" cannot be %s: parameters are floating point",
                              path, ir_dtype_name((enum ir_dtype)t->dtype));
    return fe_type(block->site.fe, block->json, t->dim, t->rank, (enum ir_dtype)t->dtype, t);
}

static ir_value use_weights(const struct fe_weights *w, struct fe_block *block, uint32_t param, ir_value value)
{
    if (w->outer) value = use_weights(w->outer, block, param, value);
    if (!value) return 0;
    struct fe_val used = w->use(w, block, param, fe_val_tensor(value));
    return used.bad ? 0 : used.tensor;
}

const char *fe_weights_inside(const struct fe_weights *w, const char *path)
{
    size_t length = strlen(w->inside);
    if (!length || strncmp(path, w->inside, length) != 0 || path[length] != '.')
        return path; /* shared from elsewhere */
    return path + length + 1;
}

/* What the wrappers make of the parameter's dtype, the outer one first; whether they change the parameter at all. */
static bool stored_as(const struct fe_weights *w, const char *path, struct ir_type *type)
{
    if (!w) return false;
    bool outer = stored_as(w->outer, path, type);
    enum ir_dtype dtype = (enum ir_dtype)type->dtype;
    bool own = w->changes(w, fe_weights_inside(w, path), type->rank, &dtype);
    type->dtype = dtype;
    return own || outer;
}

bool fe_block_as_it_is(struct fe_block *block, uint32_t index)
{
    const struct fe_param *p = &block->site.fe->state->params.items[index];
    return !p->rewritten ||
           fe_block_wrong(block, block->site.where.json, "E0111",
                          "\"%s\" is normalised by the block around it: to use it outside of that is not supported yet",
                          p->path);
}

ir_value fe_block_param(struct fe_block *block, const char *name, struct fe_param like)
{
    struct fe *fe = block->site.fe;
    struct fe_state *state = fe_state(fe);
    struct fe_trace_own *own = block->site.trace->own;
    const char *path = like.path ? like.path : fe_path_join(fe->arena, block->path, name);
    uint32_t index = map_get(&state->by_path, path);
    if (like.type.dtype == IR_F32 && !like.statistic && !like.fixed) like.type.dtype = block->param_dtype;
    if (!like.statistic && block->weights) {
        like.drawn = (enum ir_dtype)like.type.dtype;
        like.rewritten = stored_as(block->weights, path, &like.type);
    }
    if (!block->sharing && map_get(&own->claimed, path) != MAP_NONE) {
        fe_block_fail(block, NULL, "E0110",
                      "two parameters have the path \"%s\"; give one of the blocks another \"name\"", path);
        return 0;
    }
    map_set(&own->claimed, path, 1);
    if (index == MAP_NONE) {
        if (state->declared) BUG("parameter %s appeared after the first trace", path);
        if (block->sharing) {
            fe_block_fail(block, NULL, "E0110", "the shared block has no parameter \"%s\"", path);
            return 0;
        }
        if (!check_type(block, path, like.statistic, &like.type) || (like.init && !fe_check_initializer(fe, like.init)))
            return 0;
        if (!*path) {
            fe_block_fail(block, NULL, "E0110", "this parameter has no name: give the block a \"name\"");
            return 0;
        }
        if (fe_is_no_tensor(path)) {
            fe_block_fail(block, NULL, "E0110",
                          "\"%s\" has a meaning in safetensors files: give the block another \"name\"", path);
            return 0;
        }
        like.path = path;
        like.compute = block->compute;
        if (!like.statistic && like.stream != FE_NO_DRAW) fe_draw(fe, "params", &like.stream, &like.draw);
        struct ir_slot slot = {.name = path,
                               .role = like.statistic ? IR_ROLE_STATE : IR_ROLE_PARAM,
                               .type = like.type,
                               .place = fe_place(fe, block->json)};
        like.slot = ir_slot_new(fe->module, slot);
        index = (uint32_t)state->params.count;
        vec_push(fe->arena, &state->params, like);
        map_set(&state->by_path, path, index);
    } else if (!ir_type_equal(&state->params.items[index].type, &like.type)) {
        struct ir_type have = state->params.items[index].type;
        fe_block_fail(block, NULL, "E0212", "parameter \"%s\" is %s, but %s is needed here", path,
                      ir_type_text(fe->arena, &have), ir_type_text(fe->arena, &like.type));
        return 0;
    }
    if (!like.rewritten && !fe_block_as_it_is(block, index)) return 0;
    ir_value value = fe_trace_param(fe, block->site.trace, index);
    if (!block->weights || !state->declared || like.statistic) return value;
    return use_weights(block->weights, block, index, value);
}

/* The pattern in a string; in[i] becomes true for the parameters that it matches. "@lora" stands for the parameters of
 * all LoRA layers and adapters. */
static bool matches(struct fe *fe, fe_json p, const char *const *paths, bool *in)
{
    uint32_t count;
    const struct fe_param *params = fe_params(fe, &count);
    bool lora = strcmp(p->string, "@lora") == 0, any = false, frozen = false, changes = false;
    if (!lora && !fe_pattern(fe, p, false, paths, count)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (glob_match(lora ? "**.lora_{a,b}" : p->string, paths[i])) {
            in[i] = any = true;
            bool still = fe->module->slots.items[params[i].slot].frozen;
            frozen |= still;
            changes |= !still && !params[i].statistic && !params[i].fixed;
        }
    if (any && !changes)
        fe_warning(fe, p, "W0405", "pattern \"%s\" matches nothing that is trained: %s alone", p->string,
                   frozen ? "frozen parameters" : "running statistics");
    return any;
}

bool fe_patterns(struct fe *fe, fe_json list, bool *out)
{
    uint32_t count;
    const struct fe_param *params = fe_params(fe, &count);
    bool good = true;
    const char **paths = arena_new_array(fe->arena, const char *, count + 1);
    for (uint32_t i = 0; i < count; i++) paths[i] = params[i].path;
    memset(out, 0, count * sizeof *out);
    for (fe_json p = list->kind == JSON_ARRAY ? fe_first(fe, list) : list; p;
         p = list->kind == JSON_ARRAY ? fe_next(fe, p) : NULL) {
        if (p->kind != JSON_STRING) {
            fe_error(fe, p, "E0101", "a pattern is a string, found %s", fe_kind_name(p));
            good = false;
            continue;
        }
        if (matches(fe, p, paths, out)) continue;
        const char **names = arena_new_array(fe->arena, const char *, 2 * count + 1);
        for (uint32_t i = 0; i < count; i++) { /* paths, and their last segments behind the pattern's own wildcard */
            const char *last = strrchr(params[i].path, '.');
            names[2 * i] = params[i].path;
            names[2 * i + 1] = arena_format(fe->arena, "**.%s", last ? last + 1 : params[i].path);
        }
        fe_suggest(fe, fe_error(fe, p, "E0405", "pattern \"%s\" matches no parameter", p->string), p->string, names,
                   2 * count);
        good = false;
    }
    return good;
}
