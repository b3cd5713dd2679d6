/* The outline of a model: its blocks with what they give and what they read, for reports. It is noted in the trace that
 * declares the parameters, the first one. */
#include "frontend/model/block.h"

enum { MOST_WALKED = 256 };

static const struct fe_val *first_tensor(const struct fe_val *v)
{
    while (v->kind == FE_VAL_TUPLE && v->count) v = &v->items[0];
    return v->kind == FE_VAL_TENSOR ? v : NULL;
}

static uint32_t tensors(const struct fe_val *v)
{
    uint32_t n = 0;
    if (v->kind != FE_VAL_TUPLE) return v->kind == FE_VAL_TENSOR;
    for (uint32_t i = 0; i < v->count; i++) n += tensors(&v->items[i]);
    return n;
}

static struct ir_layer *layer_of(const struct fe_block *block, uint32_t number)
{
    return &block->site.fe->module->layers.items[number - 1];
}

/* ---------------------------------------------------------------- what a block reads */

struct walk {
    const struct fe_block *block;
    const struct ir_func *func;
    struct ir_layer *layer;
    ir_value seen[MOST_WALKED];
    uint32_t count;
};

static void add_source(struct walk *w, int32_t source)
{
    for (size_t i = 0; i < w->layer->from.count; i++)
        if (w->layer->from.items[i] == source) return;
    vec_push(&w->func->module->arena, &w->layer->from, source);
}

/* From a value back to the blocks and inputs that it is computed from. */
static void walk_from(struct walk *w, ir_value v)
{
    const struct fe_trace_own *own = w->block->site.trace->own;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->seen[i] == v) return;
    if (w->count == MOST_WALKED) {
        w->layer->more = true;
        return;
    }
    w->seen[w->count++] = v;
    if (v < own->outline.maker.count && own->outline.maker.items[v]) {
        add_source(w, (int32_t)own->outline.maker.items[v] - 1);
        return;
    }
    const struct ir_node *n = ir_get(w->func, v);
    for (size_t i = 0; n->op == OP_param && i < w->func->params.count; i++) {
        const struct ir_param *p = &w->func->params.items[i];
        if (p->value == v && p->slot >= 0 && w->func->module->slots.items[p->slot].role == IR_ROLE_INPUT)
            add_source(w, ~p->slot);
    }
    for (uint32_t i = 0; i < n->arg_count; i++) walk_from(w, n->args[i]);
}

static void walk_value(struct walk *w, const struct fe_val *v)
{
    if (v->kind == FE_VAL_TENSOR) walk_from(w, v->tensor);
    for (uint32_t i = 0; v->kind == FE_VAL_TUPLE && i < v->count; i++) walk_value(w, &v->items[i]);
}

/* ---------------------------------------------------------------- blocks */

uint32_t fe_outline_begin(struct fe_block *block)
{
    struct fe *fe = block->site.fe;
    struct fe_trace_own *own = block->site.trace->own;
    if (fe_state(fe)->declared) return 0;
    if (!own->outline.func) own->outline.func = block->site.b->f;
    struct ir_layer layer = {.path = arena_string(&fe->module->arena, block->path),
                             .type = arena_string(&fe->module->arena, block->type),
                             .place = fe_place(fe, block->json),
                             .parent = own->outline.open};
    vec_push(&fe->module->arena, &fe->module->layers, layer);
    return own->outline.open = (uint32_t)fe->module->layers.count;
}

static void note_maker(struct fe *fe, struct fe_trace_own *own, const struct fe_val *v, uint32_t begun)
{
    for (uint32_t i = 0; v->kind == FE_VAL_TUPLE && i < v->count; i++) note_maker(fe, own, &v->items[i], begun);
    if (v->kind != FE_VAL_TENSOR) return;
    while (own->outline.maker.count <= v->tensor) vec_push(fe->arena, &own->outline.maker, 0);
    own->outline.maker.items[v->tensor] = begun;
}

void fe_outline_end(struct fe_block *block, uint32_t begun, const struct fe_val *made)
{
    struct fe *fe = block->site.fe;
    struct fe_trace_own *own = block->site.trace->own;
    if (!begun) return;
    struct ir_layer *layer = layer_of(block, begun);
    own->outline.open = layer->parent;
    const struct fe_val *t = made->bad ? NULL : first_tensor(made);
    if (!t) return;
    layer->outputs = tensors(made);
    layer->output = ir_get(block->site.b->f, t->tensor)->type;
    bool inside = begun < fe->module->layers.count; /* it has blocks inside, which are noted behind it */
    if (block->site.b->f != own->outline.func) return;
    if (inside && t->tensor < own->outline.maker.count && own->outline.maker.items[t->tensor]) return; /* theirs */
    struct walk w = {.block = block, .func = own->outline.func, .layer = layer};
    if (inside) walk_value(&w, made); /* what it does with their outputs: the sum of a residual */
    else
        for (uint32_t i = 0; i < block->in_count; i++) walk_value(&w, &block->in[i]);
    note_maker(fe, own, made, begun);
}
