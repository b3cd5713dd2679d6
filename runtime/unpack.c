/* The tables of slots and buffers, which an object carries as a stream of bytes (step_abi.h), as the arrays that the
 * rest of the runtime reads. They live as long as the instance; names stay in the object. */
#include "runtime/rt.h"

#include <string.h>

uint64_t rt_packed_number(const unsigned char **at)
{
    uint64_t v = 0;
    unsigned shift = 0;
    do v |= (uint64_t)(**at & 127) << shift, shift += 7;
    while (*(*at)++ & 128);
    return v;
}

static const char *text(const unsigned char **at)
{
    const char *s = (const char *)*at;
    *at += strlen(s) + 1;
    return s;
}

/* What a slot's pointers point at. */
struct extents {
    int64_t shape[RT_MAX_RANK], local[RT_MAX_RANK];
    uint32_t axes[RT_MAX_RANK];
    char sharding[RT_MAX_RANK * 5 + 3];
};

static void whole_sharding(char *out, int32_t rank)
{
    *out++ = '[';
    for (int32_t i = 0; i < rank; i++, out += 5) memcpy(out, i + 1 < rank ? "null," : "null]", 5);
    if (!rank) *out++ = ']';
    *out = 0;
}

static void slot(const unsigned char **at, struct stepc_slot *s, struct extents *x)
{
    s->name = text(at);
    s->role = *(*at)++;
    s->dtype = *(*at)++;
    s->rank = *(*at)++;
    unsigned bits = (unsigned)rt_packed_number(at);
    s->flags = (bits & STEPC_PACKED_FROZEN ? (uint32_t)STEP_FROZEN : 0) |
               (bits & STEPC_PACKED_SHARDED ? (uint32_t)STEP_SHARDED : 0);
    s->computed = (bits & STEPC_PACKED_COMPUTED) != 0;
    s->bits = (uint16_t)bits;
    s->used_by_infer = (bits & STEPC_PACKED_INFER) != 0;
    for (int32_t i = 0; i < s->rank; i++) x->shape[i] = x->local[i] = (int64_t)rt_packed_number(at);
    s->shape = x->shape;
    s->local = x->local;
    s->axes = x->axes;
    s->sharding = x->sharding;
    if (bits & STEPC_PACKED_SHARDED) {
        for (int32_t i = 0; i < s->rank; i++) {
            x->local[i] = (int64_t)rt_packed_number(at);
            x->axes[i] = (uint32_t)rt_packed_number(at);
        }
        s->sharding = text(at);
    } else whole_sharding(x->sharding, s->rank);
    s->offset = rt_packed_number(at);
    if (bits & STEPC_PACKED_LIMIT) s->index_limit = (int64_t)rt_packed_number(at);
    if (!(bits & STEPC_PACKED_INITIAL)) return;
    memcpy(&s->initial, *at, sizeof s->initial);
    *at += sizeof s->initial;
}

bool rt_unpack(struct step_instance *t)
{
    const struct stepc_program *p = t->program;
    const unsigned char *at = p->packed;
    if (!at) return true;
    uint64_t buffer_count = 0;
    for (uint32_t i = 0; i < p->entry_count; i++) buffer_count += p->entries[i].buffer_count;
    struct stepc_program *own = rt_alloc(t, sizeof *own);
    struct stepc_slot *slots = rt_alloc(t, p->slot_count * sizeof *slots);
    struct extents *extents = rt_alloc(t, p->slot_count * sizeof *extents);
    struct stepc_entry *entries = rt_alloc(t, p->entry_count * sizeof *entries);
    struct stepc_buffer *buffers = rt_alloc(t, buffer_count * sizeof *buffers);
    if (!own || !slots || !extents || !entries || !buffers) return false;
    *own = *p;
    own->slots = slots;
    own->entries = entries;
    memcpy(entries, p->entries, p->entry_count * sizeof *entries);
    for (uint32_t i = 0; i < p->slot_count; i++) slot(&at, &slots[i], &extents[i]);
    for (uint32_t e = 0; e < p->entry_count; e++) {
        entries[e].buffers = buffers;
        for (uint32_t i = 0; i < entries[e].buffer_count; i++, buffers++) {
            buffers->space = (uint32_t)rt_packed_number(&at);
            buffers->slot = (uint32_t)rt_packed_number(&at);
            buffers->offset = rt_packed_number(&at);
            buffers->bytes = rt_packed_number(&at);
        }
    }
    t->program = own;
    return !p->team || p->team->unpack(t, entries, at);
}
