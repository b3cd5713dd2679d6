/* Buffers: new ones, those of values that are there from the start, and where one may begin. */
#include "passes/memplan.h"

ir_value memplan_base(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_reshape) v = ir_get(f, v)->args[0];
    return v;
}

uint64_t memplan_begin(uint64_t at, uint64_t bytes, bool close)
{
    bool own = bytes % 256 == 0 && bytes >= 1024;
    return close && !own ? at : (at + 63) & ~(uint64_t)63;
}

uint64_t memplan_bytes(const struct ir_type *t)
{
    return (uint64_t)ir_type_elements(t) * ir_dtype_bytes((enum ir_dtype)t->dtype);
}

uint32_t memplan_new_buffer(struct memplan *mp, enum plan_space space, const struct ir_func *f, ir_value v)
{
    struct plan_buffer b = {.space = space, .func = f, .value = v, .slot = UINT32_MAX, .first = UINT32_MAX};
    b.bytes = memplan_bytes(ir_type(f, v));
    vec_push(mp->keep, &mp->plan->buffers, b);
    return (uint32_t)mp->plan->buffers.count - 1;
}

uint32_t *memplan_buffers(struct memplan *mp, const struct ir_func *f) { return mp->buffer_of[ir_func_index(f)]; }

/* What an object has room for (codegen/describe). */
static bool has_room(struct memplan *mp, const struct ir_func *f, const struct ir_node *node, uint64_t bytes)
{
    uint64_t all = mp->plans->constant_bytes + bytes;
    if (bytes <= UINT32_MAX && all <= UINT32_MAX) return true;
    struct diag *d = pass_error(mp->pass, f->module, node->place, "E0501",
                                "constants of %llu bytes or more; an object holds fewer than 4 GiB of them",
                                (unsigned long long)all);
    d->hint = "values that are known when the document is compiled stand in the object: make them inputs or parameters";
    return false;
}

static uint32_t constant_buffer(struct memplan *mp, const struct ir_func *f, ir_value v)
{
    const struct ir_node *node = ir_get(f, v);
    uint64_t n = (uint64_t)ir_type_elements(&node->type), size = ir_dtype_bytes((enum ir_dtype)node->type.dtype);
    if (!has_room(mp, f, node, n * size)) return memplan_new_buffer(mp, PLAN_CONSTANT, f, v);
    const void *data = plan_constant_data(node, mp->keep);
    uint64_t key = hash_bytes(size, data, n * size);
    uint32_t known = map_get_number(&mp->constants, key);
    if (known != MAP_NONE) return known;
    uint32_t b = memplan_new_buffer(mp, PLAN_CONSTANT, f, v);
    struct plan_buffer *buffer = &mp->plan->buffers.items[b];
    buffer->data = data;
    uint32_t at = map_get_number(&mp->placed, key); /* the block is common to all entries */
    if (at == MAP_NONE) { /* single numbers lie close together, because there may be many of them */
        uint64_t align = n == 1 ? 8 : 64;
        mp->plans->constant_bytes = (mp->plans->constant_bytes + align - 1) & ~(align - 1);
        at = (uint32_t)(mp->plans->constant_bytes / 8);
        mp->plans->constant_bytes += buffer->bytes;
        map_set_number(&mp->placed, key, at);
    }
    buffer->offset = (uint64_t)at * 8;
    map_set_number(&mp->constants, key, b);
    return b;
}

uint32_t memplan_buffer_of(struct memplan *mp, const struct ir_func *f, ir_value v)
{
    uint32_t *buffer = memplan_buffers(mp, f);
    ir_value base = memplan_base(f, v);
    const struct ir_node *node = ir_get(f, base);
    if (buffer[base] == NO_BUFFER && node->op == OP_constant) buffer[base] = constant_buffer(mp, f, base);
    if (buffer[base] == NO_BUFFER && node->op == OP_device_index) {
        buffer[base] = memplan_new_buffer(mp, PLAN_DEVICE, f, base);
        mp->plan->buffers.items[buffer[base]].offset = 4 * (uint64_t)node->attr[0].v[0];
    }
    if (buffer[base] == NO_BUFFER) BUG("value %u (%s) of %s has no buffer", base, ir_ops[node->op].name, f->name);
    buffer[v] = buffer[base];
    return buffer[base];
}
