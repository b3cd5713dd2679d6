/* embed: rows of a table by integer index; attend: the product with that table, transposed. */
#include "frontend/model/block.h"
#include <string.h>

/* Whether it is known that all indices are from 0 to `limit` - 1: numbers that are counted, or an input of the document
 * as it is (or a part of it), whose values are checked where they come in. */
static bool is_inside(struct fe_block *block, ir_value v, int64_t limit)
{
    const struct ir_func *f = block->site.b->f;
    const struct fe *fe = block->site.fe;
    for (;;) {
        for (uint32_t i = 0; i < fe->input_count; i++) {
            if (block->site.trace->inputs[i] != v) continue;
            struct ir_slot *slot = &fe->module->slots.items[fe->inputs[i]];
            if (!slot->index_limit || limit < slot->index_limit) slot->index_limit = limit;
            if (slot->initial < 0) slot->initial = 0;
            return true;
        }
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_iota) return n->type.dim[n->attr[0].v[0]] <= limit;
        if (n->op == OP_argmax) return ir_type(f, n->args[0])->dim[n->attr[0].v[0]] <= limit;
        bool narrowed = n->op == OP_cast && n->type.dtype == IR_I32 &&
                        ir_dtype_is_integer((enum ir_dtype)ir_type(f, n->args[0])->dtype);
        if (!narrowed && n->op != OP_slice && n->op != OP_reshape && n->op != OP_transpose && n->op != OP_broadcast)
            return false;
        v = n->args[0];
    }
}

static struct fe_val apply_embed(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &block->in[0]);
    if (!ir_dtype_is_integer((enum ir_dtype)t.dtype))
        return fe_block_fail(block, NULL, "E0213",
                             "layer \"embed\" needs an input of an integer dtype such as int32, found %s",
                             fe_describe(s, &block->in[0]));
    struct fe_param p = {.type = ir_type_of(IR_F32, 2, (int64_t[]){a[0].integer, a[1].integer}),
                         .init = a[2].given ? a[2].json : NULL,
                         .init_preset = "embed"};
    struct fe_val table = fe_val_tensor(fe_block_param(block, "embedding", p));
    if (table.bad) return table;
    if (a[0].integer == 1) {
        if (t.rank == IR_MAX_RANK)
            return fe_block_fail(block, NULL, "E0212", "a tensor has at most %d dimensions", IR_MAX_RANK);
        t.dim[t.rank++] = a[1].integer;
        return fe_broadcast_val(s, fe_cast(s, table, fe_block_dtype(block, &table, 1)), t.rank, t.dim);
    }
    /* Cast behind the gather: the same numbers, and the gradients of a row are summed before they are rounded. */
    bool checked = is_inside(block, block->in[0].tensor, a[0].integer);
    struct fe_val rows = checked ? fe_take(s, table, block->in[0], 0, false)
                                 : FE_APPLY(s, "take", table, block->in[0], fe_int(0));
    return rows.bad ? rows : fe_cast(s, rows, fe_block_dtype(block, &table, 1));
}

static struct fe_val apply_attend(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct fe *fe = s->fe;
    const char *path = a[0].string;
    if (!strncmp(path, "params.", 7)) path += 7;
    uint32_t count, found = UINT32_MAX;
    const struct fe_param *params = fe_params(fe, &count);
    const char **names = arena_new_array(fe->arena, const char *, count + 1);
    const char *const tries[] = {
        fe_path_join(fe->arena, block->parent_path, fe_path_join(fe->arena, path, "embedding")),
        fe_path_join(fe->arena, path, "embedding"), path};
    for (uint32_t i = 0; i < count; i++) names[i] = params[i].path;
    for (int j = 0; j < 3 && found == UINT32_MAX; j++) /* the nearest of those before: later traces know all */
        if (map_get(&s->trace->own->claimed, tries[j]) != MAP_NONE) found = map_get(&fe->state->by_path, tries[j]);
    if (found == UINT32_MAX) {
        fe_suggest(fe, fe_error(fe, a[0].json, "E0108", "\"%s\" is no earlier embedding", a[0].string), path, names,
                   count);
        return fe_bad();
    }
    if (!fe_block_as_it_is(block, found)) return fe_bad();
    struct fe_val v[] = {block->in[0], fe_val_tensor(fe_trace_param(fe, s->trace, found))};
    if (!a[1].given || a[1].null) block->compute = params[found].compute; /* nnx: that of the embed, or of its table */
    enum ir_dtype dtype = fe_block_dtype(block, v + 1, 1);
    for (int i = 0; i < 2; i++) v[i] = fe_cast(s, v[i], dtype);
    return fe_einsum(s, "...d,vd->...v", v, 2);
}

static const struct fe_arg embed_args[] = {{"num_embeddings", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
                                           {"features", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
                                           {"embedding_init", FE_OBJECT, 0,
                                            "{\"type\": \"variance_scaling\", \"scale\": 1, \"mode\": \"fan_in\", "
                                            "\"distribution\": \"normal\", \"out_axis\": 0}",
                                            NULL},
                                           FE_DTYPE_ROWS};
static const struct fe_arg attend_args[] = {{"embedding", FE_STRING, FE_REQUIRED, NULL, NULL}, FE_DTYPE_ROW};
const struct fe_layer fe_layer_embed = {"embed", embed_args, sizeof embed_args / sizeof *embed_args, 1, apply_embed};
const struct fe_layer fe_layer_attend = {"attend", attend_args, sizeof attend_args / sizeof *attend_args, 1,
                                         apply_attend};
