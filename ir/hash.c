/* Structural hashes: equal for functions that compute the same from the same text, whatever their names, their places
 * and the numbers of their values. Only live nodes count, in order; a body counts by its own hash. */
#include "ir/ir.h"

/* ORDER: the numbers of ops, which are those of the rows of ops.def, are part of every hash. */
_Static_assert(OP_param == 1 && OP_select == 46 && OP_device_index == 77 && OP_log2 == 78 && OP_permute == 80,
               "new ops go last");

uint64_t ir_hash_type(uint64_t h, const struct ir_type *type)
{
    h = hash_u64(h, (uint64_t)type->dtype << 8 | type->rank);
    for (uint32_t i = 0; i < type->rank && i < IR_MAX_RANK; i++) h = hash_u64(h, (uint64_t)type->dim[i]);
    return h;
}

static uint64_t hash_node(const struct ir_node *node, const uint32_t *number, const uint64_t *bodies)
{
    uint64_t h = ir_hash_type(hash_u64(node->op, node->arg_count), &node->type);
    for (uint32_t i = 0; i < node->arg_count; i++) h = hash_u64(h, number[node->args[i]]);
    for (uint32_t i = 0; i < ir_ops[node->op].attr_count; i++) {
        if (!node->attr[i].n && ir_attr_may_lack((enum ir_op)node->op, i)) continue; /* as if there were none */
        h = hash_u64(h, node->attr[i].n);
        for (uint32_t k = 0; k < node->attr[i].n; k++) h = hash_u64(h, (uint64_t)node->attr[i].v[k]);
    }
    if (node->op == OP_constant) {
        size_t size = ir_dtype_bytes((enum ir_dtype)node->type.dtype);
        if (!node->splat) size *= (size_t)ir_type_elements(&node->type);
        h = hash_bytes(hash_u64(h, node->splat), node->data, size);
    }
    if (ir_has_body((enum ir_op)node->op)) h = hash_u64(h, bodies[node->func]);
    for (uint32_t i = 0; i < IR_MAX_RANK; i++) h = hash_u64(h, node->sharding.dim[i]);
    return hash_u64(h, node->sharding.partial);
}

static uint64_t hash_func(const struct ir_func *f, const uint64_t *bodies, struct arena *arena)
{
    uint32_t *number = arena_new_array(arena, uint32_t, f->count), next = 0;
    bool *live = ir_live(f, arena);
    uint64_t h = hash_u64(f->params.count, f->results.count);
    for (size_t i = 0; i < f->params.count; i++) {
        number[f->params.items[i].value] = ++next;
        h = hash_u64(ir_hash_type(h, &f->params.items[i].type), (uint64_t)(int64_t)f->params.items[i].slot);
    }
    for (ir_value v = 1; v < f->count; v++) {
        if (!live[v] || f->nodes[v].op == OP_param) continue;
        number[v] = ++next;
        h = hash_u64(h, hash_node(&f->nodes[v], number, bodies));
    }
    for (size_t i = 0; i < f->results.count; i++)
        h = hash_u64(hash_u64(h, number[f->results.items[i].value]), (uint64_t)(int64_t)f->results.items[i].slot);
    return h;
}

/* Hashes of all functions, bodies first. */
static uint64_t *hash_all(const struct ir_module *m, struct arena *arena)
{
    uint64_t *hashes = arena_new_array(arena, uint64_t, m->funcs.count);
    uint32_t *order = ir_func_order(m, arena);
    for (size_t i = 0; i < m->funcs.count; i++) hashes[order[i]] = hash_func(m->funcs.items[order[i]], hashes, arena);
    return hashes;
}

uint64_t ir_hash_func(const struct ir_func *f)
{
    struct arena scratch = {0};
    uint64_t h = hash_all(f->module, &scratch)[ir_func_index(f)];
    arena_free(&scratch);
    return h;
}

uint64_t ir_hash_module(const struct ir_module *m)
{
    struct arena scratch = {0};
    uint64_t h = hash_u64((uint64_t)m->stage, m->slots.count);
    for (size_t i = 0; i < m->slots.count; i++) {
        const struct ir_slot *s = &m->slots.items[i];
        h = ir_hash_type(hash_u64(h, (uint64_t)s->role << 2 | (uint64_t)s->frozen << 1 | (uint64_t)s->computed),
                         &s->type);
        h = hash_u64(hash_u64(h, (uint64_t)s->index_limit), (uint64_t)s->param_dims << 32 | s->param);
        h = hash_bytes(h, &s->initial, sizeof s->initial);
        for (uint32_t k = 0; k < IR_MAX_RANK; k++) h = hash_u64(h, s->sharding.dim[k]);
    }
    for (uint32_t i = 0; i < m->mesh.axis_count; i++) h = hash_u64(h, (uint64_t)m->mesh.size[i]);
    const uint64_t *hashes = hash_all(m, &scratch);
    for (size_t i = 0; i < m->funcs.count; i++) h = hash_u64(hash_u64(h, m->funcs.items[i]->entry), hashes[i]);
    arena_free(&scratch);
    return h;
}
