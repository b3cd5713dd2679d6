/* How much of an input a device has. Propagation takes inputs for whole, of which any part may be had; here each is cut
 * down to what all that read it can take their parts from: the split of the document, or as many of its axes as the
 * readers leave. So nothing is sent for an input, whether a rank's host gives all of it or the rank's part alone. */
#include "passes/shard_int.h"

struct input {
    struct shard *s;
    struct ir_type type;
    struct ir_sharding lies;
    bool changed, settled; /* settled: bodies of loops are told */
};
struct chain { /* of nodes that are made again for those that read them, which name the layout */
    const struct chain *before;
    const struct shard_use *use;
};

static void leave(struct input *k, const struct shard_func *f, struct ir_sharding wanted, const struct chain *chain)
{
    struct ir_sharding of[SHARD_MAX_REMADE];
    for (; chain; chain = chain->before) {
        shard_operands_for(f, chain->use->node, &wanted, of);
        wanted = of[chain->use->operand];
    }
    for (uint32_t d = 0; d < k->type.rank; d++) {
        uint32_t had = k->lies.dim[d];
        uint32_t axes = wanted.step[d] ? 0 : wanted.dim[d]; /* rims of windows are the neighbours' */
        k->lies.dim[d] = shard_common_axes(&k->s->module->mesh, k->type.dim[d], had, axes);
        k->changed |= k->lies.dim[d] != had;
    }
}

static void follow(struct input *k, struct shard_func *f, ir_value v, const struct chain *before)
{
    if (k->settled && !before) f->made[v] = f->value[v] = k->lies;
    for (uint32_t i = f->use_begin[v]; i < f->use_begin[v + 1]; i++) {
        const struct shard_use *u = &f->use[i];
        const struct ir_node *n = ir_get(f->func, u->node);
        const struct chain chain = {before, u};
        const struct ir_result *r = u->node ? NULL : &f->func->results.items[u->operand];
        if (r && r->slot >= 0) leave(k, f, k->s->module->slots.items[r->slot].sharding, before);
        else if (r && f->result) leave(k, f, f->result[u->operand], before);
        else if (r) leave(k, f, f->value[v], before);
        else if (f->free[u->node]) follow(k, f, u->node, &chain);
        else if (n->op == OP_loop && u->operand > (uint32_t)n->attr[0].v[0] && !before) {
            struct shard_func *body = &k->s->funcs[n->func];
            if (k->settled) f->wanted[u->node][u->operand] = k->lies;
            follow(k, body, body->func->params.items[u->operand].value, NULL);
        } else leave(k, f, f->wanted[u->node][u->operand], before);
    }
}

static void follow_all(struct input *k, int32_t slot)
{
    for (size_t i = 0; i < k->s->module->funcs.count; i++) {
        struct shard_func *f = &k->s->funcs[i];
        for (size_t j = 0; f->func->entry && j < f->func->params.count; j++)
            if (f->func->params.items[j].slot == slot) follow(k, f, f->func->params.items[j].value, NULL);
    }
}

void shard_inputs(struct shard *s)
{
    s->cut_short = arena_new_array(s->arena, bool, s->module->slots.count);
    for (size_t i = 0; i < s->module->slots.count; i++) {
        struct ir_slot *slot = &s->module->slots.items[i];
        if (slot->role != IR_ROLE_INPUT) continue;
        struct input k = {.s = s, .type = slot->type, .lies = slot->sharding, .changed = true};
        while (k.changed) {
            k.changed = false;
            follow_all(&k, (int32_t)i);
        }
        k.settled = true;
        follow_all(&k, (int32_t)i);
        s->cut_short[i] = !shard_equal(&slot->sharding, &k.lies);
        slot->sharding = k.lies;
    }
}
