/* Integers of a batch that a step indexes with: values of inputs, when a batch is bound, and what entry "indices", or
 * "lookup" for infer, computes of the inputs, without the model, before anything else runs: labels that are expressions
 * or under a mask (where they do not matter there is one that fits). */
#include "runtime/rt.h"

#include <stdio.h>
#include <string.h>

static step_status range_error(struct step_instance *t, const struct stepc_slot *s, const int64_t *at, int32_t rank,
                               double value)
{
    char place[200] = "";
    int n = 0;
    for (int32_t i = 0; i < rank && n >= 0 && (size_t)n < sizeof place; i++)
        n += snprintf(place + n, sizeof place - (size_t)n, i ? ", %lld" : "%lld", (long long)at[i]);
    return rt_fail(t, STEP_ERANGE, "input \"%s\"%s%s%s is %.0f; expected %.0f <= value < %lld", s->name,
                   rank ? "[" : "", place, rank ? "]" : "", value, s->initial, (long long)s->index_limit);
}

static step_status near_range(struct step_instance *t, const struct stepc_slot *s, const char *base,
                              const int64_t *stride, const int64_t *shape, int32_t rank)
{
    int64_t at[RT_MAX_RANK + 1] = {0}, count = 1, least = (int64_t)s->initial;
    size_t item = rt_dtype_bytes(s->dtype);
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    if (count <= 0) return STEP_OK;
    if ((s->dtype == STEP_I32 || s->dtype == STEP_I64) && rt_dense(stride, shape, rank, item) &&
        (uintptr_t)base % item == 0) {
        int bad = 0;
        for (int64_t i = 0; i < count; i++) {
            const void *one = base + i * (int64_t)item;
            int64_t v = s->dtype == STEP_I32 ? *(const int32_t *)one : *(const int64_t *)one;
            bad |= v < least || v >= s->index_limit;
        }
        if (!bad) return STEP_OK;
    }
    for (;;) {
        union {
            char bytes[8];
            double aligned;
        } v; /* the host's array may lie at any address */
        memcpy(v.bytes, base, item);
        double x = rt_number_at(&v, s->dtype, 0);
        if (!(x >= s->initial && x < (double)s->index_limit)) return range_error(t, s, at, rank, x);
        int32_t i = rank;
        while (i-- > 0) {
            base += stride[i];
            if (++at[i] < shape[i]) break;
            base -= stride[i] * shape[i];
            at[i] = 0;
        }
        if (i < 0) return STEP_OK;
    }
}

static step_status range(struct step_instance *t, const struct stepc_slot *s, bool far, const char *base,
                         const int64_t *stride, const int64_t *shape, int32_t rank)
{
    size_t bytes = rt_dtype_bytes(s->dtype);
    for (int32_t i = 0; far && i < rank; i++) bytes *= (size_t)shape[i];
    if (!far || !bytes) return near_range(t, s, base, stride, shape, rank);
    char *near = rt_host_get(t, bytes); /* it is dense there */
    if (!near) return rt_fail(t, STEP_ENOMEM, "input \"%s\": no memory for %zu bytes to look at", s->name, bytes);
    t->device_ops->copy(t->devices, near, base, bytes, RT_FROM_DEVICE);
    step_status status = (step_status)atomic_load(&t->failed);
    if (!status) status = near_range(t, s, near, stride, shape, rank);
    rt_host_put(t, near, bytes);
    return status;
}

static bool make_room(struct step_instance *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->program->slot_count; i++) {
        const struct stepc_slot *s = &t->program->slots[i];
        if (s->role == RT_INDEX && rt_slot_bytes(s, false) > most) most = rt_slot_bytes(s, false);
    }
    return t->index_room || (t->index_room = rt_alloc(t, most));
}

static step_status check_step(struct step_instance *t, enum rt_entry_kind kind, uint64_t k)
{
    rt_bind_step(t, k);
    step_status status = rt_run_entry(t, kind);
    for (uint32_t i = 0; !status && i < t->program->slot_count; i++) {
        const struct stepc_slot *s = &t->program->slots[i];
        int64_t stride[RT_MAX_RANK];
        if (s->role != RT_INDEX || !rt_slot_made_by(t->entries[kind].table, s)) continue;
        rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
        rt_gather(t, s, t->index_room, stride);
        status = near_range(t, s, t->index_room, stride, s->shape, s->rank);
    }
    return status;
}

static step_status computed(struct step_instance *t, enum rt_entry_kind kind, uint64_t steps)
{
    step_status status = STEP_OK;
    enum rt_entry_kind entry = kind == RT_INFER ? RT_LOOKUP : RT_INDICES; /* infer has no loss */
    if (!t->entries[entry].table || t->flags & STEP_CHECK_INPUTS_OFF) return STEP_OK;
    if (!make_room(t)) return rt_fail(t, STEP_ENOMEM, "no memory to check indices");
    for (uint64_t k = 0; !status && k < (steps ? steps : 1); k++) status = check_step(t, entry, k);
    return status;
}
const struct stepc_indices stepc_part_indices = {range, computed};
