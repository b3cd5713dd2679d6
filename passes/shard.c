/* Sharding: from the tensor stage, global shapes, to the program of one device. Slots lie as the
 * document says, every value gets a layout (shard_propagate.c by the rules of shard_rules.c), and the module
 * is rebuilt with local shapes and collectives (spmd.c). A mesh of one device needs no more than that constraints and
 * stop_gradient, which have done their work, go. */
#include "passes/shard_int.h"
#include <string.h>

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    return n->op == OP_sharding_constraint || n->op == OP_stop_gradient || n->op == OP_extend;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    const struct ir_node *n = ir_get(from, old);
    struct pass *p = user;
    if (n->op == OP_extend) return pass_extend(b, map[n->args[0]], n, ~0u);
    if (rewrites(from, n)) return map[n->args[0]];
    return pass_remake(p, b, n, map);
}

/* What belongs to a parameter is split as it is along the dimensions that both have, unless the document says
 * otherwise.
 */
static void follow_parameters(struct ir_module *m)
{
    for (size_t i = 0; i < m->slots.count; i++) {
        struct ir_slot *slot = &m->slots.items[i];
        if (slot->sharding_given || !slot->param) continue;
        const struct ir_slot *of = &m->slots.items[slot->param - 1];
        for (uint32_t d = 0; d < slot->type.rank; d++) {
            uint32_t along = slot->param_dims >> 4 * d & 15;
            if (along) slot->sharding.dim[d] = of->sharding.dim[along - 1];
        }
        if (!slot->param_dims && of->type.rank == slot->type.rank &&
            memcmp(of->type.dim, slot->type.dim, sizeof of->type.dim) == 0)
            slot->sharding = of->sharding;
    }
}

/* The axes along which the batch lies: those of the first dimension of the first batched input that is split. */
uint32_t shard_batch_axes(const struct ir_module *m)
{
    for (size_t i = 0; i < m->slots.count; i++) {
        const struct ir_slot *slot = &m->slots.items[i];
        if (slot->role == IR_ROLE_INPUT && slot->type.rank && slot->sharding.dim[0])
            return shard_axes_mask(slot->sharding.dim[0]);
    }
    return 0;
}

struct ir_module *pass_shard(struct pass *p, struct ir_module *m)
{
    int64_t devices = 1;
    for (uint32_t i = 0; i < m->mesh.axis_count; i++) devices *= m->mesh.size[i];
    if (devices == 1) {
        struct ir_module *to = pass_keeps(p, m, rewrites) ? m : pass_rebuild(p, m, rewrite, p);
        for (size_t i = 0; i < to->slots.count; i++) to->slots.items[i].sharding = (struct ir_sharding){.partial = 0};
        to->stage = IR_AT_SPMD;
        return to;
    }
    follow_parameters(m);
    struct shard s = {.module = m,
                      .arena = &p->scratch,
                      .batch_axes = shard_batch_axes(m),
                      .check_finite = p->options->check_finite,
                      .invariant = p->options->invariant};
    s.known = arena_new_array(&p->scratch, struct shard_known, SHARD_KNOWN);
    s.funcs = arena_new_array(&p->scratch, struct shard_func, m->funcs.count);
    for (size_t i = 0; i < m->funcs.count; i++) {
        struct shard_func *f = &s.funcs[i];
        const struct ir_func *func = f->func = m->funcs.items[i];
        f->made = arena_new_array(&p->scratch, struct ir_sharding, func->count);
        f->value = arena_new_array(&p->scratch, struct ir_sharding, func->count);
        f->pinned = arena_new_array(&p->scratch, const struct ir_sharding *, func->count);
        f->dear = arena_new_array(&p->scratch, bool, func->count);
        f->wanted = arena_new_array(&p->scratch, struct ir_sharding *, func->count);
        f->choice = arena_new_array(&p->scratch, struct shard_choice *, func->count);
        f->rule = arena_new_array(&p->scratch, const struct shard_rule *, func->count);
        f->tuple = arena_new_array(&p->scratch, struct ir_sharding *, func->count);
    }
    shard_propagate(&s);
    shard_search(&s);
    return shard_partition(&s);
}
