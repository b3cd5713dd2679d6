/* Adapters: low-rank products beside the linear layers of a model, as flax.nnx.LoRA around them: x a b is added to what
 * the layer gives. With `alpha` it is added alpha / rank times, as PEFT has it (`rslora`: alpha / sqrt(rank)), and how
 * often stands as `lora_s` beside the matrices, so that files of them say what they mean. The layer keeps its path and
 * its parameters, so a checkpoint of the base loads unchanged; `lora_a` and `lora_b` stand beside its kernel. Layers
 * are met while the model is traced the first time, and which adapter each gets is decided when all are known: the
 * parameters of adapters are declared, and drawn, after those of the whole model, layer by layer, a before b.
 *
 * A pattern stands for the linear layers that it matches (what nnx calls Linear: linear, lora_linear, the products
 * inside of cells); one that matches none of these stands for the general products (linear_general, einsum, the
 * projections of attention). */
#include "frontend/model/block.h"
#include <math.h>
#include <string.h>

enum { TYPE_LORA };
enum { RANK, MATCH, A_INITIALIZER, B_INITIALIZER, ALPHA, RSLORA, DROPOUT, ARGS };
static const struct fe_arg rows[ARGS] = {
    [RANK] = {"rank", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
    [MATCH] = {"match", FE_PATTERNS, FE_REQUIRED, NULL, NULL},
    [A_INITIALIZER] = {"a_initializer", FE_OBJECT, 0, "{\"type\": \"he_uniform\"}", NULL},
    [B_INITIALIZER] = {"b_initializer", FE_OBJECT, 0, "{\"type\": \"zeros\"}", NULL},
    [ALPHA] = {"alpha", FE_NUMBER, FE_NULLABLE | FE_POSITIVE, "null", NULL},
    [RSLORA] = {"rslora", FE_BOOL, 0, "false", NULL},
    [DROPOUT] = {"dropout", FE_NUMBER, FE_UNIT, "0", NULL}};

bool fe_adapter_row(uint32_t index, struct fe_row *out)
{
    if (index) return false;
    *out = (struct fe_row){
        "lora", rows, ARGS,
        "Two matrices of low rank beside the linear layers that match, of which only they are trained "
        "if `trainable` says `@lora` (Hu et al. 2021)."};
    return true;
}

/* A layer that an adapter may stand beside. Its product is that of an einsum: each dimension of the kernel is one that
 * is summed over, one of the result, or a batch dimension that both operands and the result have. */
struct fe_adaptable {
    struct fe_block block; /* its path and place */
    const char *path;      /* of the product: the block's, or one below it */
    bool general;
    const char *product;
    struct ir_type kernel;
    const struct fe_value *adapter; /* arguments of the adapter that stands beside it; NULL: none */
};

/* ---------------------------------------------------------------- the product */

struct parts { /* labels of an einsum "input,kernel->output" */
    const char *input, *kernel, *output;
    size_t input_length, kernel_length;
};

static struct parts split(const char *product)
{
    const char *comma = strchr(product, ','), *arrow = strstr(product, "->");
    return (struct parts){product, comma + 1, arrow + 2, (size_t)(comma - product), (size_t)(arrow - comma - 1)};
}

static bool in_output(const struct parts *p, char label) { return strchr(p->output, label) != NULL; }
static bool in_input(const struct parts *p, char label) { return memchr(p->input, label, p->input_length) != NULL; }

/* A label that the product does not use, for the rank. */
static char free_label(const char *product)
{
    char label = 'Z';
    while (strchr(product, label)) label--;
    return label;
}

/* What x a b needs: a has the kernel's dimensions that the input has and the rank, b the kernel's batch dimensions, the
 * rank and the others. `drawn` flattens to two dimensions, as linear_general's kernel is drawn. */
struct low_rank {
    const char *first, *second; /* formulas of x a, (x a) b */
    struct fe_param a, b, s;    /* s: how often it is added */
};

static void add_dimension(struct fe_param *p, int64_t size, int8_t kernel_axis)
{
    p->spec_axis[p->type.rank] = kernel_axis;
    p->type.dim[p->type.rank++] = size;
}

static void flatten(struct fe_param *p, uint32_t leading)
{
    if (p->type.rank <= 2) return;
    p->init_shape[0] = p->init_shape[1] = 1;
    p->init_rank = 2;
    for (uint32_t i = 0; i < p->type.rank; i++) p->init_shape[i >= leading] *= p->type.dim[i];
}

static struct low_rank low_rank_of(struct arena *arena, const struct fe_adaptable *layer, int64_t rank)
{
    struct low_rank out = {0};
    struct parts p = split(layer->product);
    char r = free_label(layer->product);
    struct str a = STR(arena), b = STR(arena), mid = STR(arena);
    out.a.type.dtype = out.b.type.dtype = layer->kernel.dtype;
    for (uint32_t i = 0; i < p.kernel_length; i++) {
        char label = p.kernel[i];
        if (!in_input(&p, label)) continue;
        str_addf(&a, "%c", label);
        add_dimension(&out.a, layer->kernel.dim[i], (int8_t)i);
        if (!in_output(&p, label)) continue;
        str_addf(&b, "%c", label);
        add_dimension(&out.b, layer->kernel.dim[i], (int8_t)i);
    }
    uint32_t inputs = out.a.type.rank, batch = out.b.type.rank + 1;
    str_addf(&a, "%c", r);
    str_addf(&b, "%c", r);
    add_dimension(&out.a, rank, -1);
    add_dimension(&out.b, rank, -1);
    for (uint32_t i = 0; i < p.kernel_length; i++)
        if (!in_input(&p, p.kernel[i])) {
            str_addf(&b, "%c", p.kernel[i]);
            add_dimension(&out.b, layer->kernel.dim[i], (int8_t)i);
        }
    flatten(&out.a, inputs);
    flatten(&out.b, batch);
    for (size_t i = 0; i < p.input_length; i++)
        if (p.input[i] == '.' || in_output(&p, p.input[i])) str_addf(&mid, "%c", p.input[i]);
    str_addf(&mid, "%c", r);
    out.first = arena_format(arena, "%.*s,%s->%s", (int)p.input_length, p.input, str_text(&a), str_text(&mid));
    out.second = arena_format(arena, "%s,%s->%s", str_text(&mid), str_text(&b), p.output);
    return out;
}

/* Declares or finds the two parameters; false: an error was recorded. */
static bool parameters(struct fe_block *block, const struct fe_adaptable *layer, struct low_rank *l,
                       struct fe_val out[3])
{
    struct arena *arena = block->site.fe->arena;
    const struct fe_value *args = layer->adapter;
    l->a.path = fe_path_join(arena, layer->path, "lora_a");
    l->b.path = fe_path_join(arena, layer->path, "lora_b");
    l->a.spec_like = l->b.spec_like = fe_path_join(arena, layer->path, "kernel");
    l->a.init = args[A_INITIALIZER].json;
    l->b.init = args[B_INITIALIZER].json;
    l->a.init_preset = "he_uniform";
    l->b.init_preset = "zeros";
    out[0] = fe_val_tensor(fe_block_param(block, "", l->a));
    out[1] = out[0].bad ? out[0] : fe_val_tensor(fe_block_param(block, "", l->b));
    out[2] = fe_none();
    if (out[1].bad || !args[ALPHA].given || args[ALPHA].null) return !out[1].bad;
    double rank = (double)args[RANK].integer;
    l->s = (struct fe_param){.path = fe_path_join(arena, layer->path, "lora_s"),
                             .type = ir_type_scalar(IR_F32),
                             .fixed = true,
                             .init_preset = "constant",
                             .init_value = args[ALPHA].number / (args[RSLORA].boolean ? sqrt(rank) : rank),
                             .stream = FE_NO_DRAW};
    out[2] = fe_val_tensor(fe_block_param(block, "", l->s));
    return !out[2].bad;
}

/* The layer's input with zeros at the rate given, in training: a layer of its own by its path. */
static struct fe_val dropped(struct fe_block *block, const struct fe_adaptable *layer, struct fe_val x)
{
    struct fe_site *s = &block->site;
    double rate = layer->adapter[DROPOUT].number;
    struct fe_block own = *block;
    own.path = fe_path_join(s->fe->arena, layer->path, "lora_dropout");
    struct ir_type type = fe_type_at(s, &x);
    if (rate <= 0 || !s->trace->train) return x;
    struct fe_val keep = fe_block_mask(&own, "dropout", &type, &x, rate);
    return keep.bad ? keep : fe_where3(s, keep, fe_div(s, x, fe_float(1 - rate)), fe_float(0));
}

/* ---------------------------------------------------------------- in a trace */

static struct fe_adaptable *find(struct fe_state *state, const char *path)
{
    uint32_t index = map_get(&state->adaptable_by_path, path);
    return index == MAP_NONE ? NULL : &state->adaptable.items[index];
}

static void meet(struct fe_block *block, const char *path, bool general, const char *product, struct fe_val kernel)
{
    struct fe *fe = block->site.fe;
    struct fe_state *state = fe->state;
    if (!state->adaptable_by_path.arena) state->adaptable_by_path = MAP(fe->arena);
    if (find(state, path)) return;
    map_set(&state->adaptable_by_path, path, (uint32_t)state->adaptable.count);
    struct fe_adaptable layer = {.block = *block,
                                 .path = path,
                                 .general = general,
                                 .product = product,
                                 .kernel = fe_type_at(&block->site, &kernel)};
    layer.kernel.dtype = IR_F32;
    layer.block.weights = NULL; /* what normalises the layer's weights leaves the adapter's alone */
    vec_push(fe->arena, &state->adaptable, layer);
}

struct fe_val fe_block_adapt(struct fe_block *block, const char *below, bool general, const char *product,
                             struct fe_val x, struct fe_val kernel, struct fe_val y)
{
    struct fe_site *s = &block->site;
    struct fe *fe = s->fe;
    fe_json adapters = fe_member(fe, fe_root(fe), "adapters");
    if (y.bad || !adapters || !fe_first(fe, adapters)) return y;
    const char *path = fe_path_join(fe->arena, block->path, below);
    if (!fe->state->declared) {
        meet(block, path, general, product, kernel);
        return y;
    }
    struct fe_adaptable *layer = find(fe->state, path);
    if (!layer || !layer->adapter) return y;
    struct low_rank l = low_rank_of(fe->arena, layer, layer->adapter[RANK].integer);
    struct fe_val v[4] = {x};
    struct fe_block sharing = *block; /* a cell asks once per time */
    sharing.sharing = true;
    sharing.weights = NULL;
    if (!parameters(&sharing, layer, &l, v + 1)) return fe_bad();
    fe_block_promote(block, v, fe_is_none(&v[3]) ? 3 : 4);
    v[0] = dropped(&sharing, layer, v[0]);
    struct fe_val between[2] = {v[0].bad ? v[0] : fe_einsum(s, l.first, v, 2), v[2]};
    if (!between[0].bad && !fe_is_none(&v[3])) between[0] = fe_mul(s, between[0], v[3]);
    return between[0].bad ? between[0] : fe_add(s, fe_einsum(s, l.second, between, 2), y);
}

/* ---------------------------------------------------------------- which layers */

/* Nothing is matched: says what the pattern does match, or which layers there are. */
static void no_match(struct fe *fe, struct fe_trace *trace, fe_json pattern)
{
    struct fe_state *state = fe->state;
    struct diag *d = fe_error(fe, pattern, "E0407", "pattern \"%s\" matches no linear layer", pattern->string);
    for (size_t i = 0; i < trace->own->blocks.count; i++) {
        struct fe_known_block known = trace->own->blocks.items[i];
        fe_json type = fe_member(fe, known.json, "type");
        if (!*known.path || !type || type->kind != JSON_STRING || !glob_match(pattern->string, known.path)) continue;
        d->label = arena_format(fe->arena, "\"%s\" is a %s", known.path, type->string);
        return;
    }
    const char **names = arena_new_array(fe->arena, const char *, state->adaptable.count + 1);
    for (size_t i = 0; i < state->adaptable.count; i++) {
        names[i] = state->adaptable.items[i].path;
        if (!glob_match(pattern->string, fe_path_join(fe->arena, names[i], "kernel"))) continue;
        d->label = arena_format(fe->arena, "an adapter stands beside a layer: \"%s\"", names[i]);
        return;
    }
    fe_suggest(fe, d, pattern->string, names, state->adaptable.count);
}

/* Gives `adapter` to the layers that `pattern` matches; false: an error was recorded. */
static bool match(struct fe *fe, struct fe_trace *trace, fe_json pattern, const struct fe_value *adapter)
{
    struct fe_state *state = fe->state;
    bool any = false;
    for (int general = 0; general < 2 && !any; general++) {
        const char **paths = arena_new_array(fe->arena, const char *, state->adaptable.count + 1);
        size_t count = 0;
        for (size_t i = 0; i < state->adaptable.count; i++)
            if (state->adaptable.items[i].general == (bool)general) paths[count++] = state->adaptable.items[i].path;
        any = fe_pattern(fe, pattern, false, paths, count);
        for (size_t i = 0; i < state->adaptable.count; i++) {
            struct fe_adaptable *layer = &state->adaptable.items[i];
            if (layer->general != (bool)general || !glob_match(pattern->string, layer->path)) continue;
            struct parts labels = split(layer->product);
            if (memchr(labels.kernel, '.', labels.kernel_length))
                return fe_wrong(fe, pattern, "E0111",
                                "an adapter beside \"%s\" is not supported yet: its kernel has dimensions \"...\"",
                                layer->path);
            if (layer->adapter && layer->adapter != adapter) {
                struct diag *d = fe_error(fe, pattern, "E0408", "layer \"%s\" has an adapter already", layer->path);
                diag_note(fe->diags, d, (struct diag_span){0}, "the other is %s",
                          fe_pointer(fe, layer->adapter[MATCH].json));
                return false;
            }
            layer->adapter = adapter;
        }
    }
    if (!any) no_match(fe, trace, pattern);
    return any;
}

static bool read_adapter(struct fe *fe, struct fe_trace *trace, fe_json json)
{
    static const char *const types[] = {"lora"};
    struct fe_value *args = arena_new_array(fe->arena, struct fe_value, ARGS);
    if (json->kind != JSON_OBJECT)
        return fe_wrong(fe, json, "E0101", "an adapter is an object, found %s", fe_found(fe, json));
    const char *type = fe_type_of(fe, json);
    if (!type) return false;
    if (strcmp(type, types[TYPE_LORA]) != 0) {
        fe_json where = fe_member(fe, json, "type");
        fe_suggest(fe, fe_error(fe, where, "E0105", "unknown adapter type \"%s\"", type), type, types, 1);
        return false;
    }
    if (!fe_args(fe, json, "adapter \"lora\"", rows, ARGS, NULL, args)) return false;
    if (args[RSLORA].boolean && (!args[ALPHA].given || args[ALPHA].null))
        return fe_wrong(fe, args[RSLORA].json, "E0103",
                        "\"rslora\" divides \"alpha\" by the root of the rank: it is missing");
    fe_json patterns = args[MATCH].json;
    bool good = true, list = patterns->kind == JSON_ARRAY;
    if (list && !fe_first(fe, patterns))
        return fe_wrong(fe, patterns, "E0407", "an adapter needs a pattern in \"match\"");
    for (fe_json p = list ? fe_first(fe, patterns) : patterns; p; p = list ? fe_next(fe, p) : NULL)
        good &= match(fe, trace, p, args);
    return good;
}

bool fe_adapters(struct fe *fe, struct fe_trace *trace)
{
    struct fe_state *state = fe->state;
    fe_json adapters = fe_member(fe, fe_root(fe), "adapters");
    bool good = true;
    for (fe_json json = adapters ? fe_first(fe, adapters) : NULL; json; json = fe_next(fe, json))
        good &= read_adapter(fe, trace, json);
    for (size_t i = 0; good && i < state->adaptable.count; i++) {
        struct fe_adaptable *layer = &state->adaptable.items[i];
        if (!layer->adapter) continue;
        struct low_rank l = low_rank_of(fe->arena, layer, layer->adapter[RANK].integer);
        struct fe_val unused[3];
        good = parameters(&layer->block, layer, &l, unused);
        struct fe_block own = layer->block;
        own.path = fe_path_join(fe->arena, layer->path, "lora_dropout");
        if (good && layer->adapter[DROPOUT].number > 0) fe_block_fork(&own, "dropout", true);
    }
    return good;
}
