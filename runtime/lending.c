/* Saves that copy little: where the host does not wait, a large tensor is written from where it lies in the state,
 * which is lent to the writer, and the next step puts its own state into the other block, as one does that may be
 * refused. What is to be compressed is copied by the writer. Whoever wants to change the state in place before the next
 * step waits for the writer; a step that may be refused, and finds the other block lent, takes a third one. */
#include "runtime/directory.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    GIVES_WAY = 10,   /* of 19: the writer gets a tenth of the time that a worker of a step does on the same core */
    AT_ONCE = 1 << 20 /* bytes that save may copy into a new block */
};

/* Small, or no step writes it. */
static bool is_left(const struct step_instance *t, const struct stepc_slot *s)
{
    const struct stepc_entry *e = t->entries[RT_STEP].table;
    uint64_t bytes = rt_slot_bytes(s, true);
    if (s->role >= STEP_INPUT && s->role != RT_HYPER) return false;
    for (uint32_t i = 0; bytes >= STEPC_LENT_FROM && e && i < e->buffer_count; i++) {
        const struct stepc_buffer *b = &e->buffers[i];
        bool next = b->space == STEPC_AT_NEXT || b->space == STEPC_AT_EARLY;
        if (next && b->offset == s->offset && b->bytes >= bytes) return false;
    }
    return true;
}

/* The next step would copy all of the state into a block that is new, although it writes most of it. What it does not
 * write, if that is little, is copied here. */
static void fill_new(struct step_instance *t)
{
    const struct stepc_slot *s, *end = t->program->slots + t->program->slot_count;
    uint64_t bytes = 0;
    for (s = t->program->slots; s < end; s++) bytes += is_left(t, s) ? rt_slot_bytes(s, true) : 0;
    if (bytes > AT_ONCE) return;
    for (s = t->program->slots; s < end; s++)
        for (RT_MINE(t, d))
            if (is_left(t, s)) memcpy(d->other + s->offset, d->state + s->offset, rt_slot_bytes(s, true));
    t->stale = RT_NOTHING;
}

/* Not where somebody looks at the state where it is, a step waits that may go on in place, or there is no memory. */
static bool other_block(struct step_instance *t)
{
    const struct rt_device_ops *ops = t->device_ops;
    bool new = !t->devices->other;
    if (t->ranks > 1 || !ops->shared || ops->part || atomic_load(&t->views) || t->waits) return false;
    for (RT_MINE(t, d)) {
        if (d->other) continue;
        t->stale = RT_ALL;
        if (!(d->other = rt_alloc_device(d, t->program->state_bytes))) return false;
    }
    if (new) fill_new(t);
    return true;
}

/* Large and in one piece. */
static bool lies_whole(const struct step_instance *t, const struct st_tensor *tensor, const struct stepc_slot *s)
{
    return tensor->bytes >= STEPC_LENT_FROM && (t->mesh_count == 1 || !rt_slot_sharded(s));
}

static bool lend(struct rt_job *j, uint64_t *bytes)
{
    struct step_instance *t = j->instance;
    uint64_t whole = 0, all = 0, to = 0;
    for (uint32_t i = 0; i < j->count; i++) {
        struct st_tensor *tensor = &j->slots[i];
        const struct stepc_slot *s = &t->program->slots[rt_slot_find(t, tensor->name)];
        bool packed = j->flags & STEP_SAVE_COMPRESS_ALL || (j->flags && rt_slot_role(s) == STEP_OPT_STATE);
        bool lies = lies_whole(t, tensor, s);
        tensor->offset = !lies ? to : packed ? to | RT_LATER : s->offset | RT_IN_STATE;
        if (!lies || packed) to += tensor->bytes;
        if (lies) whole += tensor->bytes;
        all += tensor->bytes;
    }
    if (2 * whole < all || !whole || !other_block(t)) return false;
    j->lent = t->devices->state;
    *bytes = to;
    return true;
}

static void copy(struct rt_job *j)
{
    for (const struct st_tensor *s = j->slots; s < j->slots + j->end[RT_ITEMS]; s++)
        if (s->offset & RT_LATER)
            memcpy((char *)(uintptr_t)j->data + (s->offset & ~RT_LATER),
                   j->lent + j->program->slots[rt_slot_find(j->instance, s->name)].offset, s->bytes);
    for (uint32_t i = 0; i < j->count; i++) j->tensors[i].offset &= ~RT_LATER;
}

static void *write_job(void *job)
{
    st_call(setpriority, PRIO_PROCESS, 0, GIVES_WAY); /* of this thread */
    return rt_write_job(job);
}

static bool lent(struct step_instance *t, enum rt_lent how)
{
    const struct rt_device *first = t->devices;
    const char *state = t->lent->lent;
    if (rt_job_sleep(t->lent, how == RT_LENT_WAITS && first->state == state ? -1 : 0)) t->lent = NULL;
    if (how == RT_LENT_OTHER && t->lent && first->other == state) {
        uint8_t stale = t->stale;
        t->stale = t->stale_spare < RT_HYPERS ? RT_HYPERS : t->stale_spare;
        t->stale_spare = stale;
        for (RT_MINE(t, d)) {
            char *other = d->other;
            d->other = d->spare;
            d->spare = other;
            d->maps[RT_STEP_LATE].state = NULL; /* points there too */
        }
    }
    return t->lent && first->state == state;
}

const struct stepc_lending stepc_part_lending = {lend, copy, write_job, lent};
