/* Collectives between devices of one process: everybody's memory is within reach, so one is two meetings of all workers
 * of the group with a share of the work between them: every worker fills a range of results, its own device's, or of an
 * all_reduce (whose operand and result may be the same memory) everybody's. */
#include "runtime/comm_rows.h"

enum { RT_LEAST = 2048 /* elements that are worth another worker */ };

/* ---------------------------------------------------------------- groups */

struct rt_group *rt_group_of(const struct rt_device *d, uint32_t axes)
{
    uint32_t all = (1u << d->instance->program->axis_count) - 1;
    return d->instance->groups[axes][d->position[all & ~axes]];
}

static struct rt_group *group_make(struct step_instance *t, uint32_t size, uint32_t others, uint32_t position)
{
    struct rt_group *g = rt_alloc(t, sizeof *g + size * sizeof *g->members);
    for (uint32_t d = 0; g && d < t->mesh_count; d++) {
        if (rt_mesh_index(t, d, others) != position) continue;
        if (d - t->first_local < t->local_count && !g->mine++) g->first = g->count;
        g->members[g->count++] = d; /* ascending: mesh order */
    }
    if (g) g->barrier.total = g->mine * t->threads;
    return g;
}

static bool along(struct step_instance *t, uint32_t axes)
{
    uint32_t size = 1, others = ((1u << t->program->axis_count) - 1) & ~axes;
    struct rt_group ***groups = &t->groups[axes];
    if (*groups) return true;
    for (uint32_t a = 0; a < t->program->axis_count; a++)
        if (axes >> a & 1) size *= (uint32_t)t->program->axis_sizes[a];
    if (!(*groups = rt_alloc(t, t->mesh_count / size * sizeof **groups))) return false;
    for (RT_MINE(t, d)) {
        struct rt_group **g = &(*groups)[d->position[others]];
        if (!*g && !(*g = group_make(t, size, others, (uint32_t)d->position[others]))) return false;
    }
    return true;
}

bool rt_groups_make(struct step_instance *t)
{
    bool ok = (t->groups = rt_alloc(t, sizeof *t->groups << t->program->axis_count)) != NULL;
    for (uint32_t e = 0; ok && e < t->program->entry_count; e++)
        for (uint32_t i = 0; ok && i < t->program->entries[e].command_count; i++) {
            const struct stepc_command *c = &t->program->entries[e].commands[i];
            if (c->kind == STEPC_COLLECTIVE) ok = along(t, c->axes);
        }
    if (!ok) rt_fail(NULL, STEP_ENOMEM, "no memory for the groups of collectives");
    return ok;
}

/* After a failed wait the barriers are half full. */
void rt_groups_reset(struct step_instance *t)
{
    for (uint32_t axes = 0; axes < 1u << t->program->axis_count; axes++)
        for (RT_MINE(t, d))
            if (t->groups[axes]) atomic_store(&rt_group_of(d, axes)->barrier.arrived, 0);
}

static bool plan(struct step_instance *t)
{
    bool any = false;
    if (!rt_groups_make(t)) return false;
    for (uint32_t axes = 0; axes < 1u << t->program->axis_count; axes++) any |= t->groups[axes] != NULL;
    if (any && !t->device_ops->shared)
        rt_fail(NULL, STEP_EDEVICE, "transport \"thread\" needs devices whose memory every thread reads in place");
    return !any || t->device_ops->shared;
}

/* ---------------------------------------------------------------- the work of a worker */

void rt_share(int64_t n, uint32_t i, uint32_t pieces, int64_t *lo, int64_t *hi)
{
    int64_t most = n / RT_LEAST + 1, lines = (n + 15) / 16;
    if (pieces > most) pieces = (uint32_t)most;
    *lo = *hi = 0;
    if (i >= pieces) return;
    *lo = lines * i / pieces * 16;
    *hi = lines * (i + 1) / pieces * 16;
    if (*hi > n) *hi = n;
}

void *rt_comm_operand(const struct rt_worker *w, const struct stepc_command *c, const struct rt_group *g,
                      uint32_t member, uint32_t which)
{
    struct step_instance *t = w->instance;
    const struct rt_entry *e = &t->entries[t->running];
    const struct rt_device *d = &t->devices[g->members[member] - t->first_local];
    const struct stepc_command *whole = c->whole ? c->whole : c;
    if (!t->device_ops->shared) return ((char ***)t->peers)[d - t->devices][2 * c->region + which]; /* comm_staged.c */
    return d->maps[t->running].pointers[e->commands[whole - e->table->commands].arguments + 2 * c->region + which];
}

struct operands {
    const struct rt_worker *w;
    const struct stepc_command *c;
    const struct rt_group *g;
    struct rt_spread from;
};

static struct rt_part operand(const void *context, uint32_t k, int64_t e)
{
    const struct operands *o = context;
    int64_t at;
    rt_spread_run(o->from, e, 1, &at);
    const char *data = rt_comm_operand(o->w, o->c, o->g, k, 0);
    return (struct rt_part){data + (size_t)at * rt_dtype_bytes(o->c->dtype), k, 1, false};
}

static void all_reduce(struct rt_worker *w, const struct stepc_command *c, struct rt_group *g, uint32_t rank)
{
    struct operands o = {w, c, g, rt_piece_from(c, g->count, 0)};
    uint32_t item = rt_dtype_bytes(c->dtype), threads = w->instance->threads;
    int64_t lo, hi;
    rt_share((int64_t)c->count, rank * threads + w->index, g->count * threads, &lo, &hi);
    char *first = rt_comm_operand(w, c, g, 0, 1);
    for (int64_t n; lo < hi; lo += n) { /* as long as it is in the cache */
        n = hi - lo < RT_LEAST ? hi - lo : RT_LEAST;
        rt_reduce(c, operand, &o, g->count, lo, n, first + (size_t)lo * item, false);
        for (uint32_t k = 1; k < g->count; k++)
            rt_piece_copy(rt_comm_operand(w, c, g, k, 1), o.from, first, o.from, lo, lo + n, item);
    }
}

static void reduce_scatter(struct rt_worker *w, const struct stepc_command *c, struct rt_group *g, uint32_t rank)
{
    struct operands o = {w, c, g, rt_piece_from(c, g->count, rank)};
    char *to = rt_comm_operand(w, c, g, rank, 1);
    int64_t lo, hi, at;
    rt_share(rt_piece_count(c, g->count), w->index, w->instance->threads, &lo, &hi);
    for (int64_t n; lo < hi; lo += n) {
        n = rt_spread_run(o.from, lo, hi - lo, &at);
        rt_reduce(c, operand, &o, g->count, lo, n, to + (size_t)lo * rt_dtype_bytes(c->dtype), false);
    }
}

uint32_t rt_regions(const struct stepc_command *c) { return c->members > 1 ? c->members : 1; }
const struct stepc_command *rt_region(const struct stepc_command *c, uint32_t i)
{
    return c->members > 1 ? &c->regions[i] : c;
}

static void local(struct rt_worker *w, const struct stepc_command *c, struct rt_group *g)
{
    uint32_t me = (uint32_t)w->device->position[c->axes];
    int64_t lo, hi;
    if (c->collective == STEPC_ALL_REDUCE) all_reduce(w, c, g, me);
    else if (c->collective == STEPC_REDUCE_SCATTER) reduce_scatter(w, c, g, me);
    else {
        rt_share(rt_piece_count(c, g->count), w->index, w->instance->threads, &lo, &hi);
        for (uint32_t k = 0; k < g->count; k++)
            if (rt_piece_goes(c, g->count, k, me))
                rt_piece_copy(rt_comm_operand(w, c, g, me, 1), rt_piece_into(c, g->count, k),
                              rt_comm_operand(w, c, g, k, 0), rt_piece_from(c, g->count, me), lo, hi,
                              rt_dtype_bytes(c->dtype));
    }
}

void rt_comm_local(struct rt_worker *w, const struct stepc_command *c, struct rt_group *g)
{
    for (uint32_t i = 0; i < rt_regions(c); i++) local(w, rt_region(c, i), g);
}

/* ---------------------------------------------------------------- meeting with a deadline */

static int advance(struct rt_worker *w, const struct stepc_command *c, bool wait)
{
    enum { ENTER, FILLED, TAKEN, ENDED };
    struct step_instance *t = w->instance;
    struct rt_group *g = rt_group_of(w->device, c->axes);
    for (struct rt_flight *f = &w->flight; f->stage < ENDED; f->stage++) {
        if (f->stage == ENTER) {
            rt_comm_enter(w, c);
            continue;
        }
        int met = rt_meeting(t, &g->barrier, &f->meeting, (uint64_t)t->timeout_ns, wait);
        if (met < 0) rt_comm_late(w, c, g->members, g->count);
        if (met <= 0) return met;
        if (f->stage == FILLED) rt_comm_local(w, c, g); /* all operands are there; then all results */
    }
    return 1;
}

const struct rt_comm_ops rt_comm_thread = {
    .name = "thread", .plan = plan, .advance = advance, .reset = rt_groups_reset};
