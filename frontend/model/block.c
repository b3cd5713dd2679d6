/* Tracing of blocks: names, inputs, dispatch to structures, layers, definitions and activations. Paths are those of
 * nnx.state: the model's own block adds no segment, a child of `sequential` or `residual` is `layers.<i>`, a copy of
 * `repeat` is `<i>`, a node of `graph` its name; a `name` replaces that segment and may hold dots, an empty one adds
 * none. Blocks contain blocks: structures and definitions trace their children by fe_block_child. */
#include "frontend/model/block.h"
#include <string.h>

/* ---------------------------------------------------------------- inputs of a block */

static bool read_inputs(struct fe_block *block, const struct fe_env *env)
{
    struct fe *fe = block->site.fe;
    fe_json one = fe_member(fe, block->json, "input"), many = fe_member(fe, block->json, "inputs");
    if (one && many) return fe_wrong_key(fe, many, "E0103", "a block has \"input\" or \"inputs\", not both");
    if (one) {
        block->in[0] = fe_expr(fe, block->site.trace, one, env);
        block->in_count = 1;
    }
    if (many && many->kind != JSON_ARRAY)
        return fe_wrong(fe, many, "E0101", "\"inputs\" must be a list of expressions, found %s", fe_kind_name(many));
    if (many) {
        block->in_count = 0;
        for (fe_json c = fe_first(fe, many); c; c = fe_next(fe, c)) {
            if (block->in_count == FE_MAX_INPUTS) return fe_wrong(fe, c, "E0103", "more than %d inputs", FE_MAX_INPUTS);
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
    if (name && name->kind != JSON_STRING)
        return fe_wrong(fe, name, "E0101", "\"name\" must be a string, found %s", fe_kind_name(name));
    block->path = fe_path_join(fe->arena, path, name ? name->string : segment);
    if (!name || !*name->string || block->sharing) return true;
    if (map_get(&own->names, block->path) == MAP_NONE) {
        map_set(&own->names, block->path, 1);
        return true;
    }
    return fe_wrong(fe, name, "E0110", "two blocks have the name \"%s\" (path \"%s\")", name->string, block->path);
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
    for (uint32_t i = 0; i < fe->layers->count; i++) vec_push(fe->arena, &names, fe->layers->rows[i]->name);
    for (size_t i = 0; i < count; i++) vec_push(fe->arena, &names, activations[i]);
    fe_json defines = fe_member(fe, fe_root(fe), "define");
    for (fe_json d = defines ? fe_first(fe, defines) : NULL; d; d = fe_next(fe, d)) vec_push(fe->arena, &names, d->key);
    fe_suggest(fe, fe_error(fe, type, "E0105", "unknown block type \"%s\"", block->type), block->type, names.items,
               names.count);
    return fe_bad();
}

struct fe_val fe_needs_input(struct fe_block *block)
{
    struct fe_trace_own *own = block->site.trace->own;
    if (!fe_member(block->site.fe, own->model, "input")) {
        fe_json inputs = fe_member(block->site.fe, fe_root(block->site.fe), "inputs"),
                first = inputs ? fe_first(block->site.fe, inputs) : NULL;
        return fe_block_fail(block, own->model, "E0113",
                             "the model has no \"input\", but its block \"%s\" needs one: \"input\": \"%s\"",
                             block->type, first ? first->key : "x");
    }
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
    if (layer->inputs_max && !(layer->inputs_max & FE_NO_INPUT_TOO) && !block->in_count) return fe_needs_input(block);
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

static struct fe_val apply_define(struct fe_block *block, fe_json define);

static struct fe_val dispatch(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    struct fe_val v;
    fe_json defines = fe_member(fe, fe_root(fe), "define"),
            define = defines ? fe_member(fe, defines, block->type) : NULL;
    const struct fe_layer *layer = NULL;
    for (uint32_t i = 0; i < fe->layers->count && !layer; i++)
        if (!strcmp(fe->layers->rows[i]->name, block->type)) layer = fe->layers->rows[i];
    if (fe_structure(block, &v)) return v;
    if (layer) return apply_layer(block, layer);
    if (define) return apply_define(block, define);
    if (fe_is_activation(fe, block->type)) {
        if (!block->in_count) return fe_needs_input(block);
        if (block->in_count > 1)
            return fe_block_fail(block, NULL, "E0113", "activation \"%s\" takes at most 1 inputs, found %u",
                                 block->type, (unsigned)block->in_count);
        if (!fe_as_tensor(&block->site, &block->in[0])) return fe_bad();
        const struct fe_env *outer = block->site.trace->env;
        block->site.trace->env = block->env;
        v = fe_activation(fe, block->site.trace, block->json, block->in[0], true);
        block->site.trace->env = outer;
        return v;
    }
    return unknown_type(block);
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
    fe_spend(fe, json);
    block.type = fe_type_of(fe, json);
    if (!block.type || !read_name(&block, parent->path, segment)) return fe_bad();
    if (in_count) env = fe_bind(fe->arena, env, "x", in[0]);
    struct fe_known_block known = {block.path, json, env, fe->constants, true};
    size_t number = trace->own->blocks.count;
    if (!block.sharing) vec_push(fe->arena, &trace->own->blocks, known);
    struct fe_val v = fe_bad();
    if (read_inputs(&block, env)) {
        block.env = block.in_count ? fe_bind(fe->arena, env, "x", block.in[0]) : env;
        struct fe_hook hook = fe_hook_set(&block.site);
        uint32_t begun = fe_outline_begin(&block);
        v = dispatch(&block);
        fe_outline_end(&block, begun, &v);
        fe_hook_reset(&block.site, hook);
    }
    if (!block.sharing) trace->own->blocks.items[number].open = false;
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
    block.env = shared->in_count ? fe_bind(fe->arena, known->env, "x", shared->in[0]) : known->env;
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
        *env = fe_bind_own(fe->arena, *env, p->key, fe_val_number(value, integer));
    }
    fe->constants = good ? inside : caller;
    return good;
}

static bool define_inputs(struct fe_block *block, fe_json inputs, const struct fe_env **env, uint32_t *in_count)
{
    struct fe *fe = block->site.fe;
    if (!inputs) {
        if (block->in_count > 1)
            return fe_block_wrong(block, NULL, "E0113", "block \"%s\" takes one input, found %u", block->type,
                                  (unsigned)block->in_count);
        *in_count = block->in_count;
        return true;
    }
    uint32_t n = 0;
    for (fe_json c = fe_first(fe, inputs); c; c = fe_next(fe, c), n++) {
        if (c->kind != JSON_STRING)
            return fe_wrong(fe, c, "E0101", "the name of an input is a string, found %s", fe_kind_name(c));
        if (n < block->in_count) *env = fe_bind_own(fe->arena, *env, c->string, block->in[n]);
    }
    if (n != block->in_count)
        return fe_block_wrong(block, NULL, "E0113", "block \"%s\" takes %u inputs, found %u", block->type, (unsigned)n,
                              (unsigned)block->in_count);
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
    fe_copy(fe, block->json, define);
    uint64_t left = fe->budget.left;
    struct fe_val v = fe_block_child(&body_parent, body, "", env, block->in, inputs ? 0 : in_count);
    fe_copied(fe, define, left);
    own->open_defines.count--;
    fe->constants = outer;
    return v;
}
