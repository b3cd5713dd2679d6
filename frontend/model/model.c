/* Tracing of the model: paths, names, inputs of blocks, declaration of parameters, dispatch to structures, layers,
 * activations and defines. Paths are those of nnx.state: the model's own block adds no segment, a child of `sequential`
 * or `residual` is `layers.<i>`, a copy of `repeat` is `<i>`, a node of `graph` its name; a `name` replaces that
 * segment and may hold dots, an empty one adds none. */
#include "frontend/model/block.h"
#include <string.h>

static const char *parameter_path(const struct fe *fe, uint32_t index, bool *statistic)
{
    *statistic = fe->state->params.items[index].statistic;
    return fe->state->params.items[index].path;
}

static uint32_t parameter_count(const struct fe *fe) { return (uint32_t)fe->state->params.count; }

static const struct fe_parameters parameters = {parameter_count, parameter_path, fe_trace_param};

static struct fe_state *state_of(struct fe *fe)
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

static struct fe_trace_own *own_of(struct fe *fe, struct fe_trace *trace)
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
    struct fe_state *state = state_of(fe);
    struct fe_trace_own *own = own_of(fe, trace);
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
    if (!statistic && !ir_dtype_is_float((enum ir_dtype)t->dtype)) {
        fe_block_fail(block, NULL, "E0213", "parameter \"%s\" cannot be %s: parameters are floating point", path,
                      ir_dtype_name((enum ir_dtype)t->dtype));
        return false;
    }
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

ir_value fe_block_param(struct fe_block *block, const char *name, struct fe_param like)
{
    struct fe *fe = block->site.fe;
    struct fe_state *state = state_of(fe);
    struct fe_trace_own *own = block->site.trace->own;
    const char *path = like.path ? like.path : fe_path_join(fe->arena, block->path, name);
    uint32_t index = map_get(&state->by_path, path);
    if (like.type.dtype == IR_F32 && !like.statistic) like.type.dtype = block->param_dtype;
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
    ir_value value = fe_trace_param(fe, block->site.trace, index);
    if (!block->weights || !state->declared || like.statistic) return value;
    return use_weights(block->weights, block, index, value);
}

/* "@lora" stands for the parameters of all LoRA layers and adapters. */
static bool matches(const char *pattern, const char *path)
{
    if (!strcmp(pattern, "@lora")) pattern = "**.lora_{a,b}";
    return glob_match(pattern, path);
}

bool fe_patterns(struct fe *fe, fe_json list, bool *out)
{
    uint32_t count;
    const struct fe_param *params = fe_params(fe, &count);
    bool good = true;
    memset(out, 0, count * sizeof *out);
    for (fe_json p = list->kind == JSON_ARRAY ? fe_first(fe, list) : list; p;
         p = list->kind == JSON_ARRAY ? fe_next(fe, p) : NULL) {
        if (p->kind != JSON_STRING) {
            fe_error(fe, p, "E0101", "a pattern is a string, found %s", fe_kind_name(p));
            good = false;
            continue;
        }
        bool any = false;
        for (uint32_t i = 0; i < count; i++)
            if (matches(p->string, params[i].path)) out[i] = any = true;
        if (any) continue;
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

/* ---------------------------------------------------------------- inputs of a block */

static const struct fe_env *bind(struct arena *arena, const struct fe_env *outer, const char *name, struct fe_val value)
{
    struct fe_env *e = arena_new(arena, struct fe_env);
    *e = (struct fe_env){outer, name, value};
    return e;
}

static bool read_inputs(struct fe_block *block, const struct fe_env *env)
{
    struct fe *fe = block->site.fe;
    fe_json one = fe_member(fe, block->json, "input"), many = fe_member(fe, block->json, "inputs");
    if (one && many) {
        fe_error_key(fe, many, "E0103", "a block has \"input\" or \"inputs\", not both");
        return false;
    }
    if (one) {
        block->in[0] = fe_expr(fe, block->site.trace, one, env);
        block->in_count = 1;
    }
    if (many && many->kind != JSON_ARRAY) {
        fe_error(fe, many, "E0101", "\"inputs\" must be a list of expressions, found %s", fe_kind_name(many));
        return false;
    }
    if (many) {
        block->in_count = 0;
        for (fe_json c = fe_first(fe, many); c; c = fe_next(fe, c)) {
            if (block->in_count == FE_MAX_INPUTS) {
                fe_error(fe, c, "E0103", "more than %d inputs", FE_MAX_INPUTS);
                return false;
            }
            block->in[block->in_count++] = fe_expr(fe, block->site.trace, c, env);
        }
    }
    for (uint32_t i = 0; i < block->in_count; i++)
        if (block->in[i].bad) return false;
    return true;
}

static bool read_name(struct fe_block *block, const char *path, const char *segment)
{
    struct fe *fe = block->site.fe;
    struct fe_trace_own *own = block->site.trace->own;
    fe_json name = fe_member(fe, block->json, "name");
    if (name && name->kind != JSON_STRING) {
        fe_error(fe, name, "E0101", "\"name\" must be a string, found %s", fe_kind_name(name));
        return false;
    }
    block->path = fe_path_join(fe->arena, path, name ? name->string : segment);
    if (!name || !*name->string || block->sharing) return true;
    if (map_get(&own->names, block->path) == MAP_NONE) {
        map_set(&own->names, block->path, 1);
        return true;
    }
    fe_error(fe, name, "E0110", "two blocks have the name \"%s\" (path \"%s\")", name->string, block->path);
    return false;
}

/* ---------------------------------------------------------------- one block */

static struct fe_val unknown_type(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    fe_json type = fe_member(fe, block->json, "type");
    if (!strcmp(block->type, "pool"))
        return fe_block_fail(block, type, "E0111",
                             "layer \"pool\" is not supported yet; there are avg_pool, max_pool and min_pool");
    VEC(const char *) names = {0};
    size_t count;
    const char *const *activations = fe_function_names(fe_library(fe), FE_ACTIVATION, &count);
    struct fe_row row;
    for (uint32_t i = 0; fe_structure_row(i, &row); i++) vec_push(fe->arena, &names, row.name);
    for (uint32_t i = 0; fe_layer_row(i, &row); i++) vec_push(fe->arena, &names, row.name);
    for (size_t i = 0; i < count; i++) vec_push(fe->arena, &names, activations[i]);
    fe_json defines = fe_member(fe, fe_root(fe), "define");
    for (fe_json d = defines ? fe_first(fe, defines) : NULL; d; d = fe_next(fe, d)) vec_push(fe->arena, &names, d->key);
    fe_suggest(fe, fe_error(fe, type, "E0105", "unknown block type \"%s\"", block->type), block->type, names.items,
               names.count);
    return fe_bad();
}

static struct fe_val needs_input(struct fe_block *block)
{
    struct fe_trace_own *own = block->site.trace->own;
    if (!fe_member(block->site.fe, own->model, "input"))
        return fe_block_fail(block, own->model, "E0113", "the model has no \"input\", but its block \"%s\" needs one",
                             block->type);
    return fe_block_fail(block, NULL, "E0113", "block \"%s\" has no input; give it an \"input\"", block->type);
}

static struct fe_val apply_layer(struct fe_block *block, const struct fe_layer *layer)
{
    static const char *const also[] = {"name", "input", "inputs", NULL};
    struct fe *fe = block->site.fe;
    struct fe_value *args = arena_new_array(fe->arena, struct fe_value, layer->count + 1);
    if (!fe_args(fe, block->json, arena_format(fe->arena, "layer \"%s\"", layer->name), layer->args, layer->count, also,
                 args))
        return fe_bad();
    for (uint32_t i = 0; i < layer->count; i++) { /* also those of parameters that are not there */
        const char *name = layer->args[i].name, *end = strstr(name, "_init");
        bool initializer = layer->args[i].kind == FE_OBJECT && end &&
                           (!strcmp(end, "_init") || !strcmp(end, "_initializer"));
        if (initializer && args[i].json && !args[i].null && !fe_check_initializer(fe, args[i].json)) return fe_bad();
    }
    if (layer->inputs_max && !(layer->inputs_max & FE_NO_INPUT_TOO) && !block->in_count) return needs_input(block);
    bool tuples = layer->inputs_max & FE_TUPLE_INPUTS;
    uint32_t most = layer->inputs_max & (FE_TUPLE_INPUTS - 1);
    if (block->in_count > most && most)
        return fe_block_fail(block, NULL, "E0113", "layer \"%s\" takes at most %u inputs, found %u", layer->name,
                             (unsigned)most, (unsigned)block->in_count);
    for (uint32_t i = 0; i < block->in_count; i++)
        if (!(tuples && block->in[i].kind == FE_VAL_TUPLE) && !fe_as_tensor(&block->site, &block->in[i]))
            return fe_bad();
    return fe_block_dtypes(block, layer->args, layer->count, args) ? layer->apply(block, args) : fe_bad();
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
        for (uint32_t i = 0; fe_layer_row(i, &row); i++) taken |= !strcmp(row.name, define->key);
        if (taken)
            fe_error_key(fe, define, "E0110",
                         "\"%s\" is a block of the language already: a use of this definition would mean that",
                         define->key);
        good &= !taken;
    }
    return good;
}

static struct fe_val apply_define(struct fe_block *block, fe_json define);

static struct fe_val dispatch(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    struct fe_val v;
    fe_json defines = fe_member(fe, fe_root(fe), "define"),
            define = defines ? fe_member(fe, defines, block->type) : NULL;
    const struct fe_layer *layer = fe_layer_find(block->type);
    if (fe_structure(block, &v)) return v;
    if (layer) return apply_layer(block, layer);
    if (define) return apply_define(block, define);
    if (fe_is_activation(fe, block->type)) {
        if (!block->in_count) return needs_input(block);
        if (!fe_as_tensor(&block->site, &block->in[0])) return fe_bad();
        const struct fe_env *outer = block->site.trace->env;
        block->site.trace->env = block->env;
        v = fe_activation(fe, block->site.trace, block->json, block->in[0], true);
        block->site.trace->env = outer;
        return v;
    }
    return unknown_type(block);
}

void fe_block_own_dtypes(struct fe_block *block)
{
    const struct fe_precision *p = &block->site.fe->precision;
    block->compute = p->compute ? p->compute : IR_TUPLE;
    block->param_dtype = p->params ? p->params : IR_F32;
}

struct fe_val fe_block_child(struct fe_block *parent, fe_json json, const char *segment, const struct fe_env *env,
                             const struct fe_val *in, uint32_t in_count)
{
    struct fe *fe = parent->site.fe;
    struct fe_trace *trace = parent->site.trace;
    struct fe_block block = {.site = parent->site,
                             .json = json,
                             .in_count = in_count,
                             .depth = parent->depth + 1,
                             .sharing = parent->sharing,
                             .weights = parent->weights,
                             .parent_path = parent->path};
    for (uint32_t i = 0; i < in_count; i++) {
        block.in[i] = in[i];
        if (in[i].bad) return fe_bad();
    }
    block.site.where = (struct fe_where){.json = json};
    fe_block_own_dtypes(&block);
    if (block.depth > FE_MAX_BLOCK_DEPTH)
        return fe_block_fail(&block, NULL, "E0103", "blocks are nested more than %d levels deep", FE_MAX_BLOCK_DEPTH);
    block.type = fe_type_of(fe, json);
    if (!block.type || !read_name(&block, parent->path, segment)) return fe_bad();
    if (in_count) env = bind(fe->arena, env, "x", in[0]);
    struct fe_known_block known = {block.path, json, env, fe->constants};
    if (!block.sharing) vec_push(fe->arena, &trace->own->blocks, known);
    if (!read_inputs(&block, env)) return fe_bad();
    block.env = block.in_count ? bind(fe->arena, env, "x", block.in[0]) : env;
    struct fe_hook hook = fe_hook_set(&block.site);
    struct fe_val v = dispatch(&block);
    fe_hook_reset(&block.site, hook);
    return v;
}

struct fe_val fe_block_again(struct fe_block *shared, const struct fe_known_block *known)
{
    struct fe *fe = shared->site.fe;
    const struct fe_scope *outer = fe->constants;
    struct fe_block block = *shared;
    block.json = known->json;
    block.path = known->path;
    block.type = fe_type_of(fe, known->json);
    block.env = shared->in_count ? bind(fe->arena, known->env, "x", shared->in[0]) : known->env;
    block.sharing = true;
    block.depth++;
    if (block.depth > FE_MAX_BLOCK_DEPTH)
        return fe_block_fail(&block, NULL, "E0103", "blocks are nested more than %d levels deep", FE_MAX_BLOCK_DEPTH);
    fe->constants = known->constants;
    struct fe_val v = dispatch(&block);
    fe->constants = outer;
    return v;
}

/* ---------------------------------------------------------------- define */

/* Parameters of a use: arguments in the caller's scope, defaults in that of the definition. */
static bool define_params(struct fe_block *block, fe_json params, const struct fe_env **env)
{
    struct fe *fe = block->site.fe;
    static const char *const own[] = {"type", "name", "input", "inputs"};
    const struct fe_scope *caller = fe->constants;
    bool good = true;
    for (fe_json m = fe_first(fe, block->json); m; m = fe_next(fe, m)) {
        bool known = params && fe_member(fe, params, m->key);
        for (size_t i = 0; i < 4; i++) known |= !strcmp(m->key, own[i]);
        if (known) continue;
        VEC(const char *) names = {0};
        for (fe_json p = params ? fe_first(fe, params) : NULL; p; p = fe_next(fe, p))
            vec_push(fe->arena, &names, p->key);
        fe_suggest(fe, fe_error_key(fe, m, "E0107", "block \"%s\" has no parameter \"%s\"", block->type, m->key),
                   m->key, names.items, names.count);
        good = false;
    }
    const struct fe_scope *inside = block->site.trace->own->constants;
    for (fe_json p = params ? fe_first(fe, params) : NULL; p; p = fe_next(fe, p)) {
        fe_json given = fe_member(fe, block->json, p->key);
        double value;
        bool integer;
        fe->constants = given ? caller : inside;
        if (!fe_number_kind(fe, given ? given : p, &value, &integer)) {
            good = false;
            continue;
        }
        fe->constants = inside;
        fe_constant_push(fe, p->key, value, integer);
        inside = fe->constants;
        *env = bind(fe->arena, *env, p->key, fe_val_number(value, integer));
    }
    fe->constants = good ? inside : caller;
    return good;
}

static bool define_inputs(struct fe_block *block, fe_json inputs, const struct fe_env **env, uint32_t *in_count)
{
    struct fe *fe = block->site.fe;
    if (!inputs) {
        if (block->in_count > 1) {
            fe_block_fail(block, NULL, "E0113", "block \"%s\" takes one input, found %u", block->type,
                          (unsigned)block->in_count);
            return false;
        }
        *in_count = block->in_count;
        return true;
    }
    uint32_t n = 0;
    for (fe_json c = fe_first(fe, inputs); c; c = fe_next(fe, c), n++) {
        if (c->kind != JSON_STRING) {
            fe_error(fe, c, "E0101", "the name of an input is a string, found %s", fe_kind_name(c));
            return false;
        }
        if (n < block->in_count) *env = bind(fe->arena, *env, c->string, block->in[n]);
    }
    if (n != block->in_count) {
        fe_block_fail(block, NULL, "E0113", "block \"%s\" takes %u inputs, found %u", block->type, (unsigned)n,
                      (unsigned)block->in_count);
        return false;
    }
    *in_count = block->in_count;
    return true;
}

static struct fe_val apply_define(struct fe_block *block, fe_json define)
{
    struct fe *fe = block->site.fe;
    struct fe_trace_own *own = block->site.trace->own;
    const struct fe_scope *outer = fe->constants;
    const struct fe_env *env = own->inputs;
    uint32_t in_count;
    for (size_t i = 0; i < own->open_defines.count; i++)
        if (!strcmp(own->open_defines.items[i], block->type))
            return fe_block_fail(block, NULL, "E0114", "the block \"%s\" is recursive: it contains itself",
                                 block->type);
    fe_json params = define->kind == JSON_OBJECT ? fe_member(fe, define, "params") : NULL;
    fe_json inputs = define->kind == JSON_OBJECT ? fe_member(fe, define, "inputs") : NULL;
    fe_json body = define->kind == JSON_OBJECT ? fe_member(fe, define, "body") : NULL;
    for (fe_json m = define->kind == JSON_OBJECT ? fe_first(fe, define) : NULL; m; m = fe_next(fe, m)) {
        static const char *const keys[] = {"params", "inputs", "body"};
        bool known = false;
        for (size_t i = 0; i < 3; i++) known |= !strcmp(keys[i], m->key);
        if (known) continue;
        fe_suggest(fe, fe_error_key(fe, m, "E0107", "unknown key \"%s\" in define \"%s\"", m->key, define->key), m->key,
                   keys, 3);
        return fe_bad();
    }
    if (!body || body->kind != JSON_OBJECT)
        return fe_block_fail(block, define, "E0102", "define \"%s\" needs a \"body\", a block", define->key);
    if (!define_params(block, params, &env) || !define_inputs(block, inputs, &env, &in_count)) {
        fe->constants = outer;
        return fe_bad();
    }
    vec_push(fe->arena, &own->open_defines, block->type);
    struct fe_block body_parent = *block;
    struct fe_val v = fe_block_child(&body_parent, body, "", env, block->in, inputs ? 0 : in_count);
    own->open_defines.count--;
    fe->constants = outer;
    return v;
}

/* ---------------------------------------------------------------- the model */

/* The inputs by name. One that a function does not have is one that its result does not need: zeros stand for it. */
static const struct fe_env *input_env(struct fe *fe, struct fe_trace *trace)
{
    const uint32_t *slots;
    uint32_t n = fe_inputs(fe, &slots);
    const struct fe_env *env = NULL;
    for (uint32_t i = n; i-- > 0;) {
        const struct ir_slot *slot = &fe->module->slots.items[slots[i]];
        ir_value v = trace->inputs[i] ? trace->inputs[i] : ir_number(trace->b, slot->type, 0);
        env = bind(fe->arena, env, slot->name, fe_input_value(trace->b, v));
    }
    return env;
}

bool fe_trace_model(struct fe *fe, struct fe_trace *trace)
{
    struct fe_state *state = state_of(fe);
    struct fe_trace_own *own = own_of(fe, trace);
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
    trace->env = bind(fe->arena, own->inputs, "model", trace->model);
    return true;
}
