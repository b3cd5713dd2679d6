/* Collectives between GPUs of one process that reach each other's memory. A device takes part by its own stream: it
 * waits by events for what peers have launched before, reads their operands where they lie and says by another event
 * that it has; the host only meets in between, to know that events were recorded, and waits for no device. Who does
 * what, and the order of sums, are comm_thread.c's: same mesh, same bits. Where a device does not reach another one,
 * or the object has no kernel for a sum, everything goes through the host (comm_staged.c). */
#include "runtime/cuda_driver.h"

enum { ALREADY_ENABLED = 704, NO_TIMES = 2 };
enum { HERE, DONE, EVENTS };

struct peer {
    void *events[EVENTS]; /* what comes before the collective was launched; its own part of it */
    char *room;           /* for pieces that are cut otherwise than they are joined */
};

static bool cut_otherwise(const struct stepc_command *c)
{
    return c->collective == STEPC_ALL_TO_ALL && c->into != c->inner;
}

/* ---------------------------------------------------------------- begin and end */

/* Every device reaches every other one; the reason if not. */
static bool reach(struct step_instance *t)
{
    for (RT_MINE(t, d)) {
        const struct rt_cuda_device *g = d->handle;
        const struct rt_cuda_driver *u = &g->host->driver;
        bool ok = !u->push(g->context);
        for (const struct rt_device *o = t->devices; ok && o; o = o->next) {
            const struct rt_cuda_device *with = o->handle;
            int device = 0, peer = 0, can = 0;
            if (with->ordinal == g->ordinal) continue; /* one context */
            ok = !u->device(&device, g->ordinal) && !u->device(&peer, with->ordinal) &&
                 !u->can_access(&can, device, peer) && can;
            int status = ok ? u->enable_peer(with->context, 0) : 0;
            ok = ok && (!status || status == ALREADY_ENABLED);
            if (!ok)
                rt_log(t, 2, "cuda:%d does not reach the memory of cuda:%d: collectives go through the host",
                       g->ordinal, with->ordinal);
        }
        u->pop(&(void *){NULL});
        if (!ok) return false;
    }
    return true;
}

/* Whether all sums have kernels; *room: bytes for pieces on their way. */
static bool kernels_there(const struct step_instance *t, uint64_t *room)
{
    for (const struct stepc_entry *e = t->program->entries; e < t->program->entries + t->program->entry_count; e++)
        for (const struct stepc_command *c = e->commands; c < e->commands + e->command_count; c++) {
            if (c->kind != STEPC_COLLECTIVE || c->half == STEPC_WAITS) continue;
            if (rt_cuda_sums(c) && !rt_cuda_sum_kernel(t, e, c)) return false;
            for (uint32_t i = 0; i < rt_regions(c); i++) {
                const struct stepc_command *r = rt_region(c, i);
                uint64_t bytes = cut_otherwise(r) ? r->count * rt_dtype_bytes(c->dtype) : 0;
                *room = bytes > *room ? bytes : *room;
            }
        }
    return true;
}

static void close_peers(struct step_instance *t)
{
    struct peer *peers = t->peers;
    for (RT_MINE(t, d)) {
        struct rt_cuda_device *g = d->handle;
        if (!peers || !g || rt_cuda_begin(g)) continue;
        for (int i = 0; i < EVENTS; i++)
            if (peers[d - t->devices].events[i]) g->host->driver.event_destroy(peers[d - t->devices].events[i]);
        rt_cuda_leave(g);
    }
}

static bool plan(struct step_instance *t)
{
    uint64_t room = 0;
    if (t->device_ops != &stepc_part_gpu.ops || !reach(t) || !kernels_there(t, &room)) {
        t->comm = &rt_comm_staged;
        return t->comm->plan(t);
    }
    struct peer *peers = t->peers = rt_alloc(t, t->local_count * sizeof *peers);
    bool ok = rt_groups_make(t);
    if (!ok) return false;
    for (RT_MINE(t, d)) {
        struct rt_cuda_device *g = peers ? rt_cuda_enter(d) : NULL;
        ok = ok && g;
        for (int i = 0; ok && i < EVENTS; i++)
            ok = !g->host->driver.event_create(&peers[d - t->devices].events[i], NO_TIMES);
        if (g) rt_cuda_leave(g);
        ok = ok && (!room || (peers[d - t->devices].room = rt_alloc_device(d, room)));
    }
    if (!ok) rt_fail(NULL, STEP_ENOMEM, "no memory, or no events, for collectives between devices");
    return ok;
}

/* ---------------------------------------------------------------- the work of a device */

static char *operand(const struct rt_worker *w, const struct stepc_command *c, const struct rt_group *g,
                     uint32_t member, uint32_t which)
{
    struct step_instance *t = w->instance;
    return rt_cuda_operand(w, c, &t->devices[g->members[member] - t->first_local], which);
}

/* Elements [lo, hi) of the sums over a group, into `to`. */
static int sum(struct rt_worker *w, const struct stepc_command *c, const struct rt_group *g, char *to, int64_t lo,
               int64_t hi, struct rt_spread from)
{
    const char *parts[RT_CUDA_MOST_SUMMED];
    for (uint32_t k = 0; k < g->count; k++) parts[k] = operand(w, c, g, k, 0);
    return rt_cuda_sum(w, c, parts, g->count, to, lo, hi, from);
}

static int all_reduce(struct rt_worker *w, const struct stepc_command *c, const struct rt_group *g, uint32_t me)
{
    struct rt_cuda_device *device = w->device->handle;
    uint32_t item = rt_dtype_bytes(c->dtype);
    int64_t lo, hi;
    rt_share((int64_t)c->count, me, g->count, &lo, &hi);
    char *own = operand(w, c, g, me, 1);
    int status = sum(w, c, g, own, lo, hi, rt_piece_from(c, g->count, 0));
    for (uint32_t k = 0; !status && lo < hi && k < g->count; k++)
        if (k != me)
            status = device->host->driver.between(operand(w, c, g, k, 1) + (size_t)lo * item, own + (size_t)lo * item,
                                                  (size_t)(hi - lo) * item, device->stream);
    return status;
}

static int move(struct rt_worker *w, const struct stepc_command *c, const struct rt_group *g, uint32_t me, uint32_t k)
{
    struct rt_cuda_device *device = w->device->handle;
    const struct peer *own = &((struct peer *)w->instance->peers)[w->device - w->instance->devices];
    struct rt_spread out = rt_piece_from(c, g->count, me), into = rt_piece_into(c, g->count, k);
    int64_t n = rt_piece_count(c, g->count);
    struct rt_spread dense = {n, 1, 0};
    uint32_t item = rt_dtype_bytes(c->dtype);
    char *to = operand(w, c, g, me, 1), *from = operand(w, c, g, k, 0);
    if (!n) return 0;
    if (!cut_otherwise(c)) return rt_cuda_copy_piece(device, to, into, from, out, n, item);
    int status = rt_cuda_copy_piece(device, own->room, dense, from, out, n, item);
    return status ? status : rt_cuda_copy_piece(device, to, into, own->room, dense, n, item);
}

static int region(struct rt_worker *w, const struct stepc_command *c, const struct rt_group *g)
{
    uint32_t me = (uint32_t)w->device->position[c->axes];
    int status = 0;
    if (c->collective == STEPC_ALL_REDUCE) return all_reduce(w, c, g, me);
    if (c->collective == STEPC_REDUCE_SCATTER)
        return sum(w, c, g, operand(w, c, g, me, 1), 0, rt_piece_count(c, g->count), rt_piece_from(c, g->count, me));
    for (uint32_t k = 0; !status && k < g->count; k++)
        if (rt_piece_goes(c, g->count, k, me)) status = move(w, c, g, me, k);
    return status;
}

/* ---------------------------------------------------------------- events */

static int say(struct rt_worker *w, int which)
{
    struct rt_cuda_device *g = w->device->handle;
    return g->host->driver.event_record(
        ((struct peer *)w->instance->peers)[w->device - w->instance->devices].events[which], g->stream);
}

static int hear(struct rt_worker *w, const struct rt_group *g, int which)
{
    struct step_instance *t = w->instance;
    struct rt_cuda_device *device = w->device->handle;
    int status = 0;
    for (uint32_t k = 0; !status && k < g->count; k++) {
        uint32_t peer = g->members[k] - t->first_local;
        if (&t->devices[peer] != w->device)
            status = device->host->driver.stream_wait_event(device->stream,
                                                            ((struct peer *)t->peers)[peer].events[which], 0);
    }
    return status;
}

static int stage(struct rt_worker *w, const struct stepc_command *c, const struct rt_group *g, uint32_t number)
{
    struct rt_cuda_device *device = w->device->handle;
    int status = 0;
    switch (number) {
    case 0:
        rt_cuda_flush(w->device);
        device->fresh = false;
        return say(w, HERE);
    case 1:
        status = hear(w, g, HERE);
        for (uint32_t i = 0; !status && i < rt_regions(c); i++) status = region(w, rt_region(c, i), g);
        return status ? status : say(w, DONE);
    default: return hear(w, g, DONE); /* before anything overwrites an operand that they read */
    }
}

static int advance(struct rt_worker *w, const struct stepc_command *c, bool wait)
{
    enum { ENTER, FILLED, TAKEN, ENDED };
    struct step_instance *t = w->instance;
    struct rt_group *g = rt_group_of(w->device, c->axes);
    for (struct rt_flight *f = &w->flight; f->stage < ENDED; f->stage++) {
        int met = 1;
        if (f->stage == ENTER) rt_comm_enter(w, c);
        else met = rt_meeting(t, &g->barrier, &f->meeting, (uint64_t)t->timeout_ns, wait);
        if (met < 0) rt_comm_late(w, c, g->members, g->count);
        if (met <= 0) return met;
        if (!rt_cuda_enter(w->device)) return -1;
        int status = stage(w, c, g, f->stage);
        if (status) rt_cuda_failed(w->device, status, rt_comm_kind(c));
        rt_cuda_leave(w->device->handle);
        if (status) return -1;
    }
    return 1;
}

const struct rt_comm_ops rt_comm_peers = {
    .name = "thread", .plan = plan, .advance = advance, .reset = rt_groups_reset, .close = close_peers};
