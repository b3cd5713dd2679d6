/* An instance: create allocates everything and starts the threads, init fills the state, destroy ends it. */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---------------------------------------------------------------- memory */

static uint64_t largest(const struct stepc_program *p, bool scratch)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        uint64_t bytes = scratch ? p->entries[i].scratch_bytes : p->entries[i].arena_bytes;
        if (bytes > n) n = bytes;
    }
    return n;
}

/* What kernels only read. */
static char *constants(struct rt_device *d, const void *data, size_t bytes)
{
    const struct rt_device_ops *ops = d->instance->device_ops;
    return ops->constants ? ops->constants(d, data, bytes) : (char *)(uintptr_t)data;
}

static bool device_make(struct step_instance *t, struct rt_device *d)
{
    const struct stepc_program *p = t->program;
    uint64_t scratch = rt_aligned(largest(p, true) + STEPC_FLAG_BEFORE);
    for (uint32_t mask = 0; mask < 1u << p->axis_count; mask++)
        d->position[mask] = (int32_t)rt_mesh_index(t, d->index, mask);
    d->bytes = p->state_bytes + largest(p, false);
    d->state = d->ahead = rt_alloc_device(d, p->state_bytes);
    d->arena = rt_alloc_device(d, largest(p, false));
    d->result = rt_alloc_device(d, p->result_bytes);
    d->scratch = rt_alloc_device(d, scratch * t->threads);
    d->staging = rt_alloc_device(d, t->staging_bytes * t->batches);
    d->positions = constants(d, d->position, sizeof d->position);
    d->constants = constants(d, p->constants, p->constant_bytes);
    d->maps = rt_alloc(t, RT_ENTRIES * sizeof *d->maps);
    d->workers = rt_alloc(t, t->threads * sizeof *d->workers);
    d->bound = rt_alloc(t, p->slot_count * sizeof *d->bound);
    if (!d->state || !d->arena || !d->result || !d->scratch || !d->staging || !d->maps || !d->workers || !d->bound)
        return false;
    d->barrier.total = t->threads;
    for (uint32_t w = 0; w < t->threads; w++)
        d->workers[w] = (struct rt_worker){
            .instance = t, .device = d, .index = w, .scratch = d->scratch + w * scratch + STEPC_FLAG_BEFORE};
    return true;
}

static bool slots_make(struct step_instance *t)
{
    const struct stepc_program *p = t->program;
    t->loss_slot = t->step_slot = -1;
    t->input_slots = rt_alloc(t, p->slot_count * sizeof *t->input_slots);
    t->staging_offset = rt_alloc(t, p->slot_count * sizeof *t->staging_offset);
    t->metric_slots = rt_alloc(t, p->slot_count * sizeof *t->metric_slots);
    t->bound = rt_alloc(t, p->slot_count * sizeof *t->bound);
    if (!rt_slots_sort(t) || !t->input_slots || !t->staging_offset || !t->metric_slots || !t->bound) return false;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        t->marks |= (uint8_t)(s->rank || s->role <= STEP_EMA ? s->bits & STEPC_PACKED_KEPT : s->bits);
        if (s->role == STEP_METRIC && strcmp(s->name, "loss") == 0 && s->rank == 0) t->loss_slot = (int32_t)i;
        if (s->role == STEP_STATE && strcmp(s->name, "step") == 0 && s->rank == 0) t->step_slot = (int32_t)i;
        if (s->role == STEP_METRIC && s->rank == 0) t->metric_slots[t->metric_count++] = i;
        if (s->role != STEP_INPUT) continue;
        t->staging_offset[t->input_count] = t->staging_bytes;
        t->input_slots[t->input_count++] = i;
        t->staging_bytes += rt_aligned(rt_slot_bytes(s, true));
    }
    t->batches = t->device_ops->batches ? t->device_ops->batches(t) : 1;
    return true;
}

static step_status build(struct step_instance *t, const struct rt_settings *s)
{
    const struct stepc_program *p = t->program;
    uint64_t bytes = p->state_bytes + p->result_bytes + largest(p, false) + largest(p, true) * t->threads;
    if (s->o.max_memory && bytes > s->o.max_memory)
        return rt_fail(NULL, STEP_ENOMEM, "device 0 needs %llu bytes, limit %llu (state %llu, arena %llu)",
                       (unsigned long long)bytes, (unsigned long long)s->o.max_memory,
                       (unsigned long long)p->state_bytes, (unsigned long long)largest(p, false));
    bool ok = rt_gate_make(t) && slots_make(t);
    for (RT_MINE(t, d)) ok = ok && device_make(t, d);
    ok = ok && rt_plan(t);
    if (!ok)
        return rt_fail(NULL, STEP_ENOMEM, "out of memory: %llu bytes on each of %u devices", (unsigned long long)bytes,
                       t->local_count);
    return STEP_OK;
}

/* STEPC_TRACE: from now on, until the host traces itself or destroys the instance. */
static step_status trace_begin(struct step_instance *t, const char *path)
{
    const struct stepc_trace *part = t->program->trace;
    if (path && !part) rt_log(t, 1, "trace: one function, or compiled --without trace"); /* as rt_trace says */
    return path && part ? part->begin(t, path, true) : STEP_OK;
}

/* With the other ranks, all of which have come so far. */
static step_status connect_all(struct step_instance *t, const struct rt_settings *s)
{
    const struct stepc_program *p = t->program;
    if (t->comm && !t->comm->plan(t)) return STEP_EDEVICE;
    for (uint32_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].role == RT_HYPER) rt_hyper_store(t, &p->slots[i], p->slots[i].initial);
    if (p->blas) p->blas->open(t);
    if (t->sgemm) t->tries = false; /* its bits depend on how rows are split */
    return !p->team || p->team->start(t) ? trace_begin(t, s->trace) : STEP_ENOMEM;
}

static step_status devices_open(struct step_instance *t)
{
    t->devices = rt_alloc(t, t->local_count * sizeof *t->devices);
    if (!t->devices) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    step_status status = STEP_OK;
    for (uint32_t i = 0; !status && i < t->local_count; i++) {
        struct rt_device *d = &t->devices[i];
        d->instance = t;
        d->index = t->first_local + i;
        d->next = i + 1 < t->local_count ? d + 1 : NULL;
        if (t->device_ops->open) status = t->device_ops->open(d);
        if (!status) t->opened++;
    }
    return status;
}

/* ---------------------------------------------------------------- create, destroy */

/* The instances that there are: a pointer to one that is gone tells nothing by itself. */
static struct step_instance *live;
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

static void end(struct step_instance *t)
{
    if (t->saved) t->program->checkpoint->directories->end(t);
    if (t->alive && t->program->team && !t->program->team->stop(t)) {
        rt_log(t, 0, "destroy: a worker does not come back; its memory is left");
        return;
    }
    if (t->trace) t->program->trace->end(t);
    if (t->comm && t->comm->close) t->comm->close(t);
    if (!rt_views_keep(t)) rt_release_all(t);
}

step_status rt_create(const struct stepc_program *program, const struct step_options *options,
                      struct step_instance **out)
{
    struct rt_settings s = {0};
    if (!out) return rt_fail(NULL, STEP_EINVAL, "%s: null pointer", "create");
    *out = NULL;
    if (!rt_take(&s.o, sizeof s.o, options) || s.o.flags >= 2 * STEP_CHECK_INPUTS_OFF)
        return rt_fail(NULL, STEP_EINVAL, "create: no options, or wrong size or flags");
    void *memory = NULL;
    if (posix_memalign(&memory, RT_ALIGN, sizeof(struct step_instance)))
        return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    struct step_instance *t = memset(memory, 0, sizeof *t);
    t->program = program;
    t->created_ns = rt_now();
    t->stage_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    step_status status = STEP_OK;
    if (s.o.host && !rt_take(&t->host, sizeof t->host, s.o.host))
        status = rt_fail(NULL, STEP_EINVAL, "create: host has a wrong size field");
    if (!status) status = rt_settings_read(t, &s);
    if (!status) status = rt_settings_apply(t, &s);
    if (!status && !rt_unpack(t)) status = rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    if (!status) status = devices_open(t);
    if (!status) {
        t->threads = t->device_ops->workers ? t->device_ops->workers(t, s.o.threads) : 1;
        t->worker_count = t->threads * t->local_count;
        status = build(t, &s);
    }
    status = rt_agree(t, status);
    if (!status) status = rt_agree(t, connect_all(t, &s));
    status = rt_leave(t, status);
    if (status) {
        end(t);
        return status;
    }
    rt_log(t, 2, "%s: %u device%s (%s, %u thread%s each), %llu bytes of state and arena", program->name, t->mesh_count,
           t->mesh_count == 1 ? "" : "s", t->device_ops->name, t->threads, t->threads == 1 ? "" : "s",
           (unsigned long long)(t->devices[0].bytes * t->local_count));
    pthread_mutex_lock(&live_lock);
    t->next = live;
    *out = live = t;
    pthread_mutex_unlock(&live_lock);
    return STEP_OK;
}

/* The child of a fork has no threads to stop, so what it destroys stays. */
void rt_destroy(struct step_instance *t)
{
    if (!t) return;
    pthread_mutex_lock(&live_lock);
    struct step_instance **at = &live;
    while (*at && *at != t) at = &(*at)->next;
    bool found = *at, here = found && rt_gate_here(t) && !rt_inside(t);
    if (here) *at = t->next;
    pthread_mutex_unlock(&live_lock);
    while (here && atomic_exchange(&t->busy, 1)) syscall(SYS_sched_yield); /* a call of another thread */
    if (here) end(t);
    else if (!found) rt_fail(NULL, STEP_EINVAL, "destroy: no such instance");
}

step_status rt_init_values(struct step_instance *t)
{
    if (!t->entries[RT_INIT].table)
        return rt_fail(t, STEP_EUNSUPPORTED, "this object has no initial values: load a file");
    struct rt_fp fp = rt_fp_enter();
    step_status status = rt_run_entry(t, RT_INIT);
    if (!status && t->entries[RT_RESTART].table) status = rt_run_entry(t, RT_RESTART);
    rt_fp_leave(fp);
    if (!status) {
        t->initialized = true;
        t->steps = 0;
        rt_step_counter(t);
    }
    return status;
}

step_status rt_init(struct step_instance *t)
{
    step_status status = rt_enter(t, "init");
    return status ? status : rt_leave(t, rt_init_values(t));
}
