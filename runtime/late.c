/* Steps that may be refused, where the object knows which of their commands may wait: those that update the state run
 * when it is decided that the step counts, and in place (codegen/late/late.h). That nothing infinite or NaN comes of it
 * is proved for a state within bounds; whether it is, kernels see from step to step, and here it is looked at where
 * hosts have written. */
#include "runtime/rt.h"

#include <string.h>

typedef int32_t lanes __attribute__((vector_size(16), aligned(4), may_alias));

/* Every step that waits asks this of its inputs, so it is not made as small as the rest. */
__attribute__((optimize("O3"))) static bool floats_within(const char *at, uint64_t bytes, int32_t most, int32_t least)
{
    /* As integers floats from 0 on are in order, and those below are below 0; the least of these is -0. */
    int32_t zero = least ? INT32_MAX : INT32_MIN;
    bool ordered = least > INT32_MIN;
    lanes bad = {0}, also = {0}, none = {0}, full = none + (least > 0 ? least : 0), rest[4] = {full, full, full, full};
    const lanes *x = (const void *)at;
    uint64_t tail = bytes % sizeof rest;
    memcpy(rest, at + bytes - tail, tail);
    for (const lanes *end = x + bytes / sizeof rest * 4;; x += 4) {
        if (x == end) x = rest;
        for (int i = 0; i < 4; i++) bad |= (x[i] & INT32_MAX) > most;
        for (int i = 0; i < 4 && ordered; i++) also |= (x[i] < least) & (x[i] != zero);
        if (x == rest) break;
    }
    bad |= also;
    return memcmp(&bad, &none, sizeof none) == 0;
}

static bool slot_within(const struct stepc_slot *s, const char *at)
{
    bool positive = s->bits & STEPC_PACKED_POSITIVE, hyper = s->role == RT_HYPER, close = s->bits & STEPC_PACKED_CLOSE;
    bool apart = !hyper && s->bits & STEPC_PACKED_FIXED;
    bool bounded = hyper || s->role == STEP_INPUT || (rt_dtype_float(s->dtype) && (s->rank || s->role <= STEP_EMA));
    uint64_t item = rt_dtype_bytes(s->dtype), count = rt_slot_bytes(s, true) / item;
    enum { UP_TO_2_30 = 0x4e7fffff, UP_TO_2_14 = 0x467fffff, FROM_2_MINUS_30 = 0x30800000 }; /* bits of floats */
    if (s->dtype == STEP_F32 && bounded && !hyper)
        return floats_within(at, item * count, close ? UP_TO_2_14 : UP_TO_2_30,
                             apart      ? FROM_2_MINUS_30
                             : positive ? 0
                                        : INT32_MIN);
    double most = hyper ? STEPC_BOUND_HYPER : close ? STEPC_BOUND_CLOSE : STEPC_BOUND, least = apart / STEPC_BOUND;
    for (uint64_t i = 0; i < count && (bounded || positive); i++) {
        double x = rt_number_at(at, s->dtype, (int64_t)i);
        if ((bounded && !(x > -most && x < most)) || (positive && !(x >= least))) return false;
        if (hyper && s->bits & STEPC_PACKED_FIXED && x != s->initial && x != (double)(float)s->initial) return false;
    }
    return true;
}

static bool state_within(struct step_instance *t)
{
    for (RT_MINE(t, d))
        for (const struct stepc_slot *s = t->program->slots; s < t->program->slots + t->program->slot_count; s++)
            if ((s->role == RT_HYPER || (t->unknown == RT_ALL && s->role < STEP_INPUT && !s->computed)) &&
                !slot_within(s, d->state + s->offset))
                return false;
    return true;
}

/* What a proof asks of the numbers of an optimizer, which may be anything. */
static bool number_within(const struct stepc_slot *s, const char *at)
{
    double x = rt_number_at(at, s->dtype, 0);
    double least = s->bits & STEPC_PACKED_FIXED ? 1 / STEPC_BOUND : rt_dtype_float(s->dtype) ? -STEPC_BOUND : 0;
    return x >= least && x <= STEPC_BOUND;
}

/* Of one that the first part of the step has written already, that one. */
static const char *number_at(const struct step_instance *t, const struct rt_device *d, const struct stepc_slot *s)
{
    const struct stepc_entry *e = t->entries[RT_STEP].table;
    for (uint32_t i = 0; i < e->buffer_count; i++)
        if (e->buffers[i].space == STEPC_AT_EARLY && e->buffers[i].offset == s->offset) return d->other + s->offset;
    return d->state + s->offset;
}

static bool step_within(struct step_instance *t)
{
    const struct stepc_slot *slots = t->program->slots;
    for (RT_MINE(t, d)) {
        for (uint32_t i = 0; i < t->program->slot_count; i++)
            if (slots[i].bits & STEPC_PACKED_BOUNDED && slots[i].role < STEP_INPUT &&
                !(number_within(&slots[i], d->state + slots[i].offset) &&
                  number_within(&slots[i], number_at(t, d, &slots[i]))))
                return false;
        for (uint32_t i = 0; i < t->input_count; i++) {
            const struct stepc_slot *s = &slots[t->input_slots[i]];
            if (s->bits & STEPC_PACKED_BOUNDED && !slot_within(s, d->bound[t->input_slots[i]])) return false;
        }
    }
    return true;
}

bool rt_late_ready(struct step_instance *t)
{
    if (!step_within(t)) return false;
    if (!t->unknown) return true;
    if (t->unknown_steps) return t->unknown_steps--, false; /* looking at all of it costs as much as a step */
    if (!state_within(t)) {
        t->unknown_wait = t->unknown_wait < 1024 ? 2 * t->unknown_wait + 1 : t->unknown_wait;
        t->unknown_steps = t->unknown_wait;
        return false;
    }
    t->unknown = RT_NOTHING;
    t->unknown_wait = 0;
    return true;
}

/* Of the buffers of a step that only late commands read, and those that others write of the next state. */
static bool held_make(struct step_instance *t)
{
    const struct stepc_entry *e = t->entries[RT_STEP].table;
    uint64_t bytes = 1, hypers = 0;
    for (uint32_t i = 0; i < e->buffer_count; i++) {
        const struct stepc_buffer *b = &e->buffers[i];
        if (b->space == STEPC_AT_HELD && b->slot + b->bytes > bytes) bytes = b->slot + b->bytes;
    }
    for (uint32_t i = 0; i < t->program->slot_count; i++) hypers += t->program->slots[i].role == RT_HYPER;
    for (RT_MINE(t, d)) {
        if (!d->held && !(d->held = rt_alloc_device(d, bytes + 8 * hypers))) return false;
        d->hypers = d->held + bytes;
    }
    return true;
}

/* Those of a step that waits are not those of the host, who may set them meanwhile and sets some for one call. */
static void hypers_exchange(struct step_instance *t, bool keep)
{
    for (RT_MINE(t, d)) {
        char *kept = d->hypers, other[8];
        for (const struct stepc_slot *s = t->program->slots; s < t->program->slots + t->program->slot_count; s++) {
            if (s->role != RT_HYPER) continue;
            uint64_t bytes = rt_slot_bytes(s, true);
            memcpy(other, kept, bytes);
            memcpy(kept, d->state + s->offset, bytes);
            if (!keep) memcpy(d->state + s->offset, other, bytes);
            kept += sizeof other;
        }
    }
}

/* What the caller may overwrite after the call. */
static bool inputs_keep(struct step_instance *t, bool keep)
{
    const struct stepc_slot *slots = t->program->slots;
    for (RT_MINE(t, d)) {
        uint64_t bytes = 1;
        for (uint32_t i = 0; i < t->input_count; i++)
            bytes += rt_slot_bytes(&slots[t->input_slots[i]], true) + RT_ALIGN;
        if (!d->inputs && !(d->inputs = rt_alloc_device(d, bytes))) return false;
        char *kept = d->inputs;
        for (uint32_t i = 0; i < t->input_count; i++) {
            const void **bound = &d->bound[t->input_slots[i]];
            bytes = rt_slot_bytes(&slots[t->input_slots[i]], true);
            if (keep && *bound) memcpy(kept, *bound, bytes);
            if (!keep) *bound = kept;
            kept += rt_aligned(bytes);
        }
    }
    return true;
}

bool rt_late_begin(struct step_instance *t)
{
    if (!t->devices[0].held && !held_make(t)) return false;
    if (t->late != RT_LATE_ALL && !rt_go_ahead(t)) return false;
    for (RT_MINE(t, d)) d->ahead = d->state;
    t->part = RT_FIRST;
    return true;
}

step_status rt_late_end(struct step_instance *t, enum rt_late_end how)
{
    const struct stepc_entry *e = t->entries[RT_STEP].table;
    bool in_place = how != RT_LATE_BESIDE;
    if (how >= RT_LATE_KEEP) hypers_exchange(t, how == RT_LATE_KEEP);
    if (t->late_inputs && how >= RT_LATE_KEEP && !inputs_keep(t, how == RT_LATE_KEEP))
        return rt_fail(t, STEP_ENOMEM, "out of memory");
    if (how == RT_LATE_KEEP) return STEP_OK;
    if (!in_place && t->late == RT_LATE_ALL && !rt_go_ahead(t)) return rt_fail(t, STEP_ENOMEM, "out of memory");
    for (RT_MINE(t, d)) d->ahead = in_place ? d->state : d->other;
    t->part = RT_LAST;
    step_status status = rt_run_entry(t, RT_STEP_LATE);
    if (status) return status;
    if (how == RT_LATE_KEPT) hypers_exchange(t, false);
    t->part = RT_WHOLE;
    for (uint32_t i = 0; in_place && t->late != RT_LATE_ALL && i < e->buffer_count; i++)
        for (RT_MINE(t, d))
            if (e->buffers[i].space == STEPC_AT_EARLY)
                memcpy(d->state + e->buffers[i].offset, d->other + e->buffers[i].offset, e->buffers[i].bytes);
    return STEP_OK;
}
