/* Structural blocks: sequential, residual, repeat, graph, shared, expr, param, remat, micro_vmap (micro_vmap.c),
 * sharding_constraint. */
#include "frontend/model/block.h"
#include <string.h>

static const char *const block_keys[] = {"name", "input", "inputs", NULL};

/* Arguments of each, besides block_keys. */
#define REQUIRED(name, kind) \
    { \
        name, kind, FE_REQUIRED, NULL, NULL \
    }
static const struct fe_arg chain_args[] = {REQUIRED("layers", FE_LIST)};
static const struct fe_arg repeat_args[] = {{"count", FE_INTEGER, FE_REQUIRED | FE_NOT_NEGATIVE, NULL, NULL},
                                            REQUIRED("block", FE_OBJECT)};
static const struct fe_arg graph_args[] = {REQUIRED("nodes", FE_LIST), REQUIRED("output", FE_ANY)};
static const struct fe_arg shared_args[] = {REQUIRED("block", FE_STRING)};
static const struct fe_arg expr_args[] = {REQUIRED("expr", FE_EXPR)};
static const struct fe_arg param_args[] = {{"shape", FE_SHAPE, FE_REQUIRED | FE_NOT_NEGATIVE, NULL, NULL},
                                           {"init", FE_OBJECT, FE_NULLABLE, "null", NULL},
                                           {"dtype", FE_DTYPE, FE_NULLABLE, "null", NULL}};
static const struct fe_arg remat_args[] = {REQUIRED("block", FE_OBJECT),
                                           {"policy", FE_ANY, FE_NULLABLE, "null", NULL},
                                           {"prevent_cse", FE_BOOL, 0, "true", NULL}};
static const struct fe_arg constraint_args[] = {REQUIRED("spec", FE_LIST)};

static bool read_args(struct fe_block *block, const struct fe_arg *rows, uint32_t count, struct fe_value *out)
{
    memset(out, 0, count * sizeof *out);
    return fe_args(block->site.fe, block->json, arena_format(block->site.fe->arena, "block \"%s\"", block->type), rows,
                   count, block_keys, out);
}
#define READ_ARGS(block, rows, out) read_args(block, rows, sizeof(rows) / sizeof *(rows), out)

/* ---------------------------------------------------------------- sequential, residual, repeat */

/* What a block gives becomes the first arguments of the next one: several results, if it has several without names. */
static uint32_t hand_on(struct fe_val v, struct fe_val *in)
{
    if (v.kind != FE_VAL_TUPLE || v.names || v.count > FE_MAX_INPUTS) {
        in[0] = v;
        return 1;
    }
    for (uint32_t i = 0; i < v.count; i++) in[i] = v.items[i];
    return v.count;
}

static bool chain(struct fe_block *block, fe_json layers, struct fe_val *in, uint32_t *in_count)
{
    struct fe *fe = block->site.fe;
    uint32_t index = 0;
    if (layers->kind != JSON_ARRAY)
        return fe_wrong(fe, layers, "E0101", "\"layers\" must be a list of blocks, found %s", fe_kind_name(layers));
    for (fe_json c = fe_first(fe, layers); c; c = fe_next(fe, c), index++) {
        struct fe_val v = fe_block_child(block, c, arena_format(fe->arena, "layers.%u", (unsigned)index), block->env,
                                         in, *in_count);
        if (v.bad) return false;
        *in_count = hand_on(v, in);
    }
    return true;
}

static struct fe_val results(struct fe_block *block, const struct fe_val *in, uint32_t in_count)
{
    if (in_count == 1) return in[0];
    if (!in_count) return fe_block_fail(block, NULL, "E0113", "block \"%s\" is empty and has no input", block->type);
    return fe_tuple(&block->site, in, in_count);
}

static struct fe_val block_sequential(struct fe_block *block)
{
    struct fe_value args[1];
    struct fe_val in[FE_MAX_INPUTS];
    uint32_t n = block->in_count;
    memcpy(in, block->in, sizeof in);
    if (!READ_ARGS(block, chain_args, args) || !chain(block, args[0].json, in, &n)) return fe_bad();
    return results(block, in, n);
}

static struct fe_val block_residual(struct fe_block *block)
{
    struct fe_value args[1];
    struct fe_val in[FE_MAX_INPUTS];
    uint32_t n = block->in_count;
    memcpy(in, block->in, sizeof in);
    if (!READ_ARGS(block, chain_args, args)) return fe_bad();
    if (!n) return fe_needs_input(block);
    if (!chain(block, args[0].json, in, &n)) return fe_bad();
    struct fe_val y = results(block, in, n), x = block->in[0];
    if (!fe_as_tensor(&block->site, &x) || !fe_as_tensor(&block->site, &y)) return fe_bad();
    struct ir_type tx = fe_type_at(&block->site, &x), ty = fe_type_at(&block->site, &y), both;
    if (!fe_broadcast_shapes(&tx, &ty, &both))
        return fe_block_fail(block, NULL, "E0210",
                             "residual: the input is %s, what its layers compute is %s; they cannot be added",
                             fe_describe(&block->site, &x), fe_describe(&block->site, &y));
    return fe_add(&block->site, x, y);
}

static struct fe_val block_repeat(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    struct fe_value args[2];
    struct fe_val in[FE_MAX_INPUTS], v = fe_none();
    uint32_t n = block->in_count;
    memcpy(in, block->in, sizeof in);
    if (!READ_ARGS(block, repeat_args, args)) return fe_bad();
    if (args[0].integer > 4096)
        return fe_block_fail(block, args[0].json, "E0103", "%lld copies; at most 4096 are supported",
                             (long long)args[0].integer);
    for (int64_t i = 0; i < args[0].integer; i++) {
        uint64_t left = fe->budget.left;
        v = fe_block_child(block, args[1].json, arena_format(fe->arena, "%lld", (long long)i), block->env, in, n);
        if (v.bad) return v;
        uint32_t given = hand_on(v, in); /* the other arguments go to every copy */
        if (given > n) n = given;
        if (i) fe_room(fe, args[0].json, (uint64_t)(args[0].integer - i - 1), left - fe->budget.left);
    }
    return args[0].integer ? v : n ? in[0] : results(block, in, n);
}

/* Of several inputs only the first has a name, `x`. */
static struct fe_val unseen(struct fe_block *block)
{
    return fe_block_fail(block, NULL, "E0113", "block \"%s\" gets %u inputs and sees the first one alone, `x`",
                         block->type, (unsigned)block->in_count);
}

/* ---------------------------------------------------------------- graph */

static const struct fe_env *bind(struct fe *fe, struct fe_names *names, const struct fe_env *outer, const char *name,
                                 struct fe_val value)
{
    struct fe_env *e = arena_new(fe->arena, struct fe_env);
    *e = (struct fe_env){outer, name, value, true};
    struct fe_graph_env at = {names, (uint32_t)names->list.count};
    if (!fe->graph_env.arena) fe->graph_env = MAP(fe->arena);
    map_set_number(&fe->graph_env, (uint64_t)(uintptr_t)e, (uint32_t)fe->graph_envs.count);
    vec_push(fe->arena, &fe->graph_envs, at);
    map_set(&names->position, name, at.position);
    vec_push(fe->arena, &names->list, e);
    return e;
}

static struct fe_val graph_output(struct fe_block *block, fe_json output, const struct fe_env *env)
{
    struct fe *fe = block->site.fe;
    if (output->kind != JSON_OBJECT) return fe_expr(fe, block->site.trace, output, env);
    VEC(struct fe_val) items = {0};
    VEC(const char *) names = {0};
    for (fe_json c = fe_first(fe, output); c; c = fe_next(fe, c)) {
        struct fe_val v = fe_expr(fe, block->site.trace, c, env);
        if (v.bad) return v;
        if (v.kind != FE_VAL_TUPLE && !fe_as_tensor(&block->site, &v)) return fe_bad();
        vec_push(fe->arena, &items, v);
        vec_push(fe->arena, &names, c->key);
    }
    struct fe_val v = fe_tuple(&block->site, items.items, (uint32_t)items.count);
    v.names = names.items;
    return items.count ? v : fe_block_fail(block, output, "E0102", "\"output\" is empty");
}

static struct fe_val block_graph(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    struct fe_value args[2];
    if (!READ_ARGS(block, graph_args, args)) return fe_bad();
    bool handed = block->in_count < 2; /* to a node that asks for nothing */
    for (fe_json c = fe_first(fe, args[0].json); c; c = fe_next(fe, c))
        handed |= c->kind != JSON_OBJECT || (!fe_member(fe, c, "input") && !fe_member(fe, c, "inputs"));
    if (!handed) return unseen(block);
    const struct fe_env *env = block->env;
    struct fe_names *names = arena_new(fe->arena, struct fe_names);
    *names = (struct fe_names){.position = MAP(fe->arena), .outer = env};
    for (fe_json c = fe_first(fe, args[0].json); c; c = fe_next(fe, c)) {
        fe_json name = c->kind == JSON_OBJECT ? fe_member(fe, c, "name") : NULL;
        if (!name) {
            if (c->kind == JSON_OBJECT) fe_misses(fe, c, "a node of a graph needs a", "name");
            else fe_block_fail(block, c, "E0102", "a node of a graph needs a \"name\"");
            return fe_bad();
        }
        struct fe_val v = fe_block_child(block, c, "", env, block->in, block->in_count);
        if (v.bad) return v;
        if (name->kind == JSON_STRING && *name->string) env = bind(fe, names, env, name->string, v);
    }
    return graph_output(block, args[1].json, env);
}

/* ---------------------------------------------------------------- the others */

/* Diagnostics from a number on say what block they are about. */
static void note_block(struct fe_block *block, size_t from, const char *words)
{
    struct fe *fe = block->site.fe;
    uint32_t line, column;
    if (from == fe->diags->list.count) return; /* a line is found by counting from the first one */
    diag_line_column(&fe->diags->source, block->json->offset, &line, &column);
    for (size_t i = from; i < fe->diags->list.count; i++)
        diag_note(fe->diags, &fe->diags->list.items[i], (struct diag_span){0}, "%s %s, line %u", words,
                  fe_pointer(fe, block->json), (unsigned)line);
}

static struct fe_val block_shared(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    struct fe_trace_own *own = block->site.trace->own;
    struct fe_value args[1];
    if (!READ_ARGS(block, shared_args, args)) return fe_bad();
    const char *near = fe_path_join(fe->arena, block->parent_path, args[0].string);
    VEC(const char *) names = {0};
    size_t errors = fe->diags->list.count;
    bool around = false;
    for (int round = 0; round < 2; round++)
        for (size_t i = own->blocks.count; i-- > 0;) {
            struct fe_known_block known = own->blocks.items[i];
            bool named = known.json != block->json && !strcmp(known.path, round ? args[0].string : near);
            if (named && !known.open) {
                struct fe_val v = fe_block_again(block, &known);
                note_block(block, errors, "used again by");
                return v;
            }
            around |= named;
            if (!round && !known.open) vec_push(fe->arena, &names, known.path);
        }
    fe_suggest(fe,
               fe_error(fe, args[0].json, "E0108",
                        around ? "\"%s\" is around this block, and not complete" : "\"%s\" names no earlier block",
                        args[0].string),
               args[0].string, names.items, names.count);
    return fe_bad();
}

static struct fe_val block_expr(struct fe_block *block)
{
    struct fe_value args[1];
    if (!READ_ARGS(block, expr_args, args)) return fe_bad();
    if (block->in_count > 1) return unseen(block);
    struct fe *fe = block->site.fe;
    size_t errors = fe->diags->list.count;
    struct fe_val v = fe_expr(fe, block->site.trace, args[0].json, block->env);
    note_block(block, errors, "in the block");
    return v;
}

static struct fe_val block_param(struct fe_block *block)
{
    struct fe_value args[3];
    if (!READ_ARGS(block, param_args, args)) return fe_bad();
    if (args[2].given && !args[2].null) block->param_dtype = args[2].dtype;
    struct fe_param p = {.type = ir_type_of(block->param_dtype, args[0].rank, args[0].shape),
                         .init = args[1].null ? NULL : args[1].json,
                         .init_preset = "zeros"};
    return fe_val_tensor(fe_block_param(block, "", p));
}

static struct fe_val block_remat(struct fe_block *block)
{
    struct fe_value args[3];
    struct fe *fe = block->site.fe;
    if (!READ_ARGS(block, remat_args, args)) return fe_bad();
    if (args[1].given && !args[1].null)
        return fe_block_fail(block, args[1].json, "E0111", "\"policy\" is not supported yet");
    uint32_t around = fe->again;
    fe->again = ++fe->blocks_again;
    struct fe_val out = fe_block_child(block, args[0].json, "", block->env, block->in, block->in_count);
    fe->again = around;
    return out;
}

static struct fe_val block_micro_vmap(struct fe_block *block)
{
    struct fe_value args[FE_MICRO_VMAP_ARGS];
    if (!read_args(block, fe_micro_vmap_args, FE_MICRO_VMAP_ARGS, args)) return fe_bad();
    return fe_micro_vmap(block, args);
}

/* Mesh axes of one entry of a spec, as a bit mask: an axis, a logical name that the rules resolve, a list, null. */
static bool spec_axes(struct fe_block *block, fe_json entry, int64_t *mask, int64_t used)
{
    struct fe *fe = block->site.fe;
    const struct ir_mesh *mesh = &fe->module->mesh;
    if (entry->kind == JSON_NULL) return true;
    if (entry->kind == JSON_ARRAY) {
        for (fe_json c = fe_first(fe, entry); c; c = fe_next(fe, c))
            if (!spec_axes(block, c, mask, used)) return false;
        return true;
    }
    if (entry->kind != JSON_STRING)
        return fe_wrong(fe, entry, "E0101", "a mesh axis, a logical name, a list of them or null expected, found %s",
                        fe_kind_name(entry));
    if (fe_sharding_knows(fe, entry->string)) {
        *mask |= fe_sharding_name(fe, entry->string, (uint32_t)(used | *mask));
        return true;
    }
    if (!mesh->axis_count) return true;
    fe_sharding_suggest(
        fe,
        fe_error(fe, entry, "E0403", "\"%s\" is neither a mesh axis nor a logical name of \"rules\"", entry->string),
        entry->string);
    return false;
}

static struct fe_val block_sharding_constraint(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    struct fe_value args[1];
    int64_t axes[IR_MAX_RANK] = {0}, used = 0;
    uint32_t n = 0;
    if (!READ_ARGS(block, constraint_args, args)) return fe_bad();
    if (!block->in_count) return fe_needs_input(block);
    if (!fe_as_tensor(&block->site, &block->in[0])) return fe_bad();
    struct ir_type t = fe_type_at(&block->site, &block->in[0]);
    bool named = false;
    for (fe_json c = fe_first(fe, args[0].json); c; c = fe_next(fe, c), n++) {
        named |= c->kind != JSON_NULL;
        if (n >= t.rank)
            return fe_block_fail(block, args[0].json, "E0404", "the spec has %u entries or more for %s",
                                 (unsigned)n + 1, fe_describe(&block->site, &block->in[0]));
        if (!spec_axes(block, c, &axes[n], used)) return fe_bad();
        if (axes[n] > 0 && axes[n] & used)
            return fe_block_fail(block, c, "E0406", "two entries of the spec split by one mesh axis");
        used |= axes[n] > 0 ? axes[n] : 0;
    }
    if (!fe->module->mesh.axis_count) {
        if (named) fe_sharding_idle(fe, block->json, "\"sharding_constraint\"");
        return block->in[0];
    }
    struct ir_node node = {.op = OP_sharding_constraint,
                           .arg_count = 1,
                           .args = &block->in[0].tensor,
                           .type = t,
                           .attr = {{axes, t.rank}}};
    return fe_tensor_val(ir_make(block->site.b, node), block->in[0].weak);
}

static const struct fe_arg flatten_args[] = {{"start_dim", FE_INTEGER, 0, "1", NULL},
                                             {"end_dim", FE_INTEGER, 0, "-1", NULL}};

/* torch.nn.Flatten, in row-major order. */
static struct fe_val block_flatten(struct fe_block *block)
{
    struct fe_value args[2];
    uint32_t ends[2];
    if (!READ_ARGS(block, flatten_args, args)) return fe_bad();
    if (!block->in_count) return fe_needs_input(block);
    if (!fe_as_tensor(&block->site, &block->in[0])) return fe_bad();
    struct ir_type t = fe_type_at(&block->site, &block->in[0]);
    for (int i = 0; i < 2; i++) {
        int64_t at = args[i].integer < 0 ? args[i].integer + t.rank : args[i].integer;
        if (at < 0 || at >= t.rank || (i && at < ends[0]))
            return fe_block_fail(block, args[i].json, "E0212", "no dimensions %lld to %lld of %s to flatten",
                                 (long long)args[0].integer, (long long)args[1].integer,
                                 fe_describe(&block->site, &block->in[0]));
        ends[i] = (uint32_t)at;
    }
    int64_t dims[IR_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < t.rank; d++)
        if (d > ends[0] && d <= ends[1]) dims[rank - 1] *= t.dim[d];
        else dims[rank++] = t.dim[d];
    return fe_reshape_val(&block->site, block->in[0], rank, dims);
}

static const struct structure {
    struct fe_row row;
    struct fe_val (*apply)(struct fe_block *);
} structures[] = {
#define ROW(name, args, doc) \
    { \
        {#name, args, sizeof(args) / sizeof *(args), doc}, block_##name \
    }
    ROW(sequential, chain_args, "One block after another; several results of one are the inputs of the next."),
    ROW(residual, chain_args, "Its input plus what its layers compute of it."),
    ROW(repeat, repeat_args,
        "Copies of a block one after another, each with parameters of its own, under `0`, `1`, ..."),
    ROW(graph, graph_args,
        "Blocks with names: the `input` of each is an expression over inputs and earlier nodes, and so is `output`, or "
        "a map of them."),
    ROW(shared, shared_args, "An earlier block, named by its path, used again with the same parameters."),
    ROW(expr, expr_args, "The value of an expression, in which x is the input."),
    ROW(flatten, flatten_args,
        "Its input with dimensions `start_dim` to `end_dim` as one; by default all behind the batch."),
    ROW(param, param_args, "A parameter by itself: its value is the block's output."),
    ROW(remat, remat_args,
        "The block inside. For its gradient it is computed again from its input, instead of kept, if it is part of "
        "what "
        "crosses the instant at which most is alive (stepc explain --memory); --remat 0 keeps all. Numbers stay."),
    ROW(micro_vmap, fe_micro_vmap_args,
        "The block inside as a function of one row, mapped over the batch a few rows at a time."),
    ROW(sharding_constraint, constraint_args, "Its input, split over the mesh as the spec says."),
#undef ROW
};

bool fe_structure_row(uint32_t index, struct fe_row *out)
{
    if (index >= sizeof structures / sizeof *structures) return false;
    *out = structures[index].row;
    return true;
}

bool fe_structure(struct fe_block *block, struct fe_val *out)
{
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
        if (!strcmp(structures[i].row.name, block->type)) {
            *out = structures[i].apply(block);
            return true;
        }
    return false;
}
