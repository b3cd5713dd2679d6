/* Collectives between devices of one process whose memory the host does not read in place: every operand is copied to
 * memory of the host, there the workers do what comm_thread.c does, and the results are copied back. */
#include "runtime/comm_rows.h"

/* Bytes of a member's operand (0) and result (1). */
static uint64_t bytes_of(const struct stepc_command *c, uint32_t members, int which)
{
    struct rt_spread into = rt_piece_into(c, members, 0);
    return rt_dtype_bytes(c->dtype) * (which ? (uint64_t)rt_piece_count(c, members) * into.parts : c->count);
}

static uint32_t group_size(const struct step_instance *t, const struct stepc_command *c)
{
    uint32_t n = 1;
    for (uint32_t a = 0; a < t->program->axis_count; a++)
        n *= c->axes >> a & 1 ? (uint32_t)t->program->axis_sizes[a] : 1;
    return n;
}

static uint64_t room(const struct step_instance *t, const struct stepc_command *c)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 2 * rt_regions(c); i++)
        bytes += rt_aligned(bytes_of(rt_region(c, i / 2), group_size(t, c), i % 2));
    return bytes;
}

/* `peers`: of each device the addresses of what it has of the collective under way, then a block for that. */
static bool plan(struct step_instance *t)
{
    uint64_t bytes = RT_ALIGN;
    uint32_t regions = 1;
    if (!rt_groups_make(t)) return false;
    for (uint32_t e = 0; e < t->program->entry_count; e++)
        for (uint32_t i = 0; i < t->program->entries[e].command_count; i++) {
            const struct stepc_command *c = &t->program->entries[e].commands[i];
            if (c->kind != STEPC_COLLECTIVE || c->half == STEPC_WAITS) continue;
            bytes = room(t, c) > bytes ? room(t, c) : bytes;
            regions = rt_regions(c) > regions ? rt_regions(c) : regions;
        }
    char ***all = t->peers = rt_alloc(t, t->local_count * sizeof *all);
    for (uint32_t d = 0; all && d < t->local_count; d++) {
        all[d] = rt_alloc(t, (2 * regions + 1) * sizeof **all);
        if (!all[d] || !(all[d][2 * regions] = rt_alloc(t, bytes))) all = NULL;
        else all[d][0] = all[d][2 * regions];
    }
    if (!all)
        rt_fail(NULL, STEP_ENOMEM, "no memory of the host for collectives between devices: %llu bytes for each",
                (unsigned long long)bytes);
    return all;
}

static void copy(struct rt_worker *w, const struct stepc_command *c, int which)
{
    struct step_instance *t = w->instance;
    const struct rt_entry *e = &t->entries[t->running];
    void *const *arguments = w->device->maps[t->running].pointers + e->commands[c - e->table->commands].arguments;
    char **at = ((char ***)t->peers)[w->device - t->devices], *next = at[0];
    for (uint32_t i = 0; i < 2 * rt_regions(c); i++) {
        uint64_t bytes = bytes_of(rt_region(c, i / 2), group_size(t, c), (int)i % 2);
        at[i] = next; /* the first one stays where the block begins */
        next += rt_aligned(bytes);
        if ((int)i % 2 != which || !bytes) continue;
        if (which) t->device_ops->copy(w->device, arguments[i], at[i], bytes, RT_TO_DEVICE);
        else t->device_ops->copy(w->device, at[i], arguments[i], bytes, RT_FROM_DEVICE);
    }
}

static int advance(struct rt_worker *w, const struct stepc_command *c, bool wait)
{
    struct step_instance *t = w->instance;
    struct rt_group *g = rt_group_of(w->device, c->axes);
    if (!wait) return 0;
    rt_comm_enter(w, c);
    if (!rt_meet(t, &w->device->barrier, 0)) return -1;
    if (!w->index) copy(w, c, 0);
    for (int stage = 0; stage < 2; stage++) {
        int met = rt_meeting(t, &g->barrier, &w->flight.meeting, (uint64_t)t->timeout_ns, true);
        if (met < 0) rt_comm_late(w, c, g->members, g->count);
        if (met <= 0) return -1;
        if (!stage) rt_comm_local(w, c, g); /* all operands are there; then all results */
    }
    if (!w->index) copy(w, c, 1);
    return rt_meet(t, &w->device->barrier, 0) ? 1 : -1;
}

const struct rt_comm_ops rt_comm_staged = {
    .name = "thread", .plan = plan, .advance = advance, .reset = rt_groups_reset};
