/* An instance: create allocates everything and starts the threads, init fills the state, destroy ends it. Also the
 * gate that every call passes: one caller at a time, not after fork, not when poisoned. */
#include "runtime/rt.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the gate */

step_status rt_enter(struct step_instance *t, bool even_if_poisoned)
{
    if (!*t->alive || (t->pid && t->pid != getpid()))
        return rt_fail(NULL, STEP_EINVAL, "the instance belongs to the process before fork");
    if (atomic_exchange_explicit(&t->busy, 1, memory_order_acquire))
        return rt_fail(t, STEP_EBUSY, "another thread is inside this instance");
    if (atomic_load_explicit(&t->poisoned, memory_order_relaxed) && !even_if_poisoned)
        return rt_leave(t, rt_fail(t, STEP_EPOISONED, "an earlier error left the state undefined: load or destroy"));
    return STEP_OK;
}

step_status rt_leave(struct step_instance *t, step_status status)
{
    atomic_store_explicit(&t->busy, 0, memory_order_release);
    return status;
}

/* A page that the kernel clears in the child of a fork: asking costs no system call. */
static bool fork_guard(struct step_instance *t)
{
    static const char always = 1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
#ifdef MADV_WIPEONFORK
    if (madvise(p, page, MADV_WIPEONFORK) == 0) {
        *p = 1;
        t->alive = p;
        return true;
    }
#endif
    munmap(p, page); /* an old kernel: ask for the process id instead */
    t->alive = &always;
    t->pid = getpid();
    return true;
}

/* ---------------------------------------------------------------- options and environment */

struct settings {
    struct step_options o;
    uint64_t max_memory;
};

static const char *variable(const struct settings *s, const char *name)
{
    const char *value = s->o.flags & STEP_NO_ENV ? NULL : getenv(name);
    return value && *value ? value : NULL;
}

static bool parse_number(const char *text, double *out, const char **end)
{
    char *stop;
    *out = strtod(text, &stop);
    *end = stop;
    return stop != text && *out >= 0;
}

static step_status bad_variable(const char *name, const char *value, const char *wanted)
{
    return rt_fail(NULL, STEP_EINVAL, "%s=%s: expected %s", name, value, wanted);
}

static step_status settings_read(struct step_instance *t, struct settings *s)
{
    static const char levels[][8] = {"error", "warning", "info", "debug"};
    const char *v, *end;
    double x;
    t->log_level = 1;
    if ((v = variable(s, "STEPC_LOG"))) {
        int level = 0;
        while (level < 4 && strcmp(v, levels[level]) != 0) level++;
        if (level == 4) return bad_variable("STEPC_LOG", v, "error, warning, info or debug");
        t->log_level = level;
    }
    if (!s->o.threads && (v = variable(s, "STEPC_THREADS"))) {
        if (!parse_number(v, &x, &end) || *end || x < 1 || x > 4096)
            return bad_variable("STEPC_THREADS", v, "a number of threads from 1 to 4096");
        s->o.threads = (uint32_t)x;
    }
    if (!s->o.timeout_ms && (v = variable(s, "STEPC_TIMEOUT"))) {
        if (!parse_number(v, &x, &end) || *end || x > 1e9)
            return bad_variable("STEPC_TIMEOUT", v, "seconds, 0 for none");
        s->o.timeout_ms = x > 0 ? (int64_t)(x * 1000 + 0.999) : -1;
    }
    if (!s->o.max_memory && (v = variable(s, "STEPC_MAX_MEMORY"))) {
        static const char units[][4] = {"", "KiB", "MiB", "GiB"};
        if (!parse_number(v, &x, &end)) return bad_variable("STEPC_MAX_MEMORY", v, "bytes, with KiB, MiB or GiB");
        size_t u = 0;
        for (; u < 4 && strcmp(end, units[u]) != 0; u++) x *= 1024;
        if (u == 4 || x >= 1.8e19) return bad_variable("STEPC_MAX_MEMORY", v, "bytes, with KiB, MiB or GiB");
        s->o.max_memory = (uint64_t)x;
    }
    if (!s->o.transport) s->o.transport = variable(s, "STEPC_TRANSPORT");
    if (!s->o.devices) s->o.devices = variable(s, "STEPC_DEVICES");
    if ((v = variable(s, "STEPC_PIN")) && strcmp(v, "1") == 0) s->o.flags |= STEP_PIN;
    v = variable(s, "STEPC_HUGEPAGES");
    t->huge_pages = !v || strcmp(v, "never") != 0;
    t->flags = s->o.flags;
    t->timeout_ns = s->o.timeout_ms < 0 ? 0 : (s->o.timeout_ms ? s->o.timeout_ms : 60000) * 1000000;
    return STEP_OK;
}

static step_status devices_check(struct step_instance *t, const struct settings *s)
{
    const struct step_options *o = &s->o;
    char name[64];
    if (t->program->version != STEPC_TABLES)
        return rt_fail(NULL, STEP_EVERSION, "tables of version %u, this runtime reads %d", t->program->version,
                       STEPC_TABLES);
    if (t->program->gpu) return t->program->gpu->check(t->program->cuda);
    const char *missing = rt_missing_feature(t->program->features, name, sizeof name);
    if (missing)
        return rt_fail(NULL, STEP_EDEVICE,
                       "this CPU lacks %s, which the object was compiled for (compile with --cpu x86-64-v3 or v2)",
                       missing);
    if (o->communicator) return rt_fail(NULL, STEP_EUNSUPPORTED, "communicator: not there yet");
    if (o->transport && strcmp(o->transport, "thread") != 0 && strcmp(o->transport, "self") != 0)
        return rt_fail(NULL,
                       strcmp(o->transport, "mpi") && strcmp(o->transport, "nccl") ? STEP_EINVAL : STEP_EUNSUPPORTED,
                       "transport \"%s\": expected \"thread\" or \"self\"", o->transport);
    if (o->transport && strcmp(o->transport, "self") == 0 && t->device_count != 1)
        return rt_fail(NULL, STEP_EDEVICE, "transport \"self\" has one device, the mesh has %u", t->device_count);
    if (o->devices && strcmp(o->devices, "cpu") != 0)
        return rt_fail(NULL, STEP_EDEVICE, "devices \"%s\": this object was compiled for the CPU", o->devices);
    if (o->seed) return rt_fail(NULL, STEP_EUNSUPPORTED, "seed: the seed is fixed by the document");
    return STEP_OK;
}

static void choose_threads(struct step_instance *t, uint32_t asked)
{
    t->threads = 1;
    t->worker_count = t->device_count;
    if (!t->program->team) return;
    cpu_set_t set;
    uint32_t cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    uint32_t most = asked ? asked : cores / t->device_count;
    if (most < 1) most = 1;
    t->threads = t->program->team->useful_workers(t->program, most);
    t->worker_count = t->threads * t->device_count;
    t->oversubscribed = t->worker_count > cores;
    t->tries = !asked && t->device_count == 1 && t->threads > 1;
}

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

static bool device_make(struct step_instance *t, uint32_t index, uint64_t staging_bytes)
{
    struct rt_device *d = &t->devices[index];
    const struct stepc_program *p = t->program;
    uint64_t scratch = (largest(p, true) + 2 * RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN; /* a line apart */
    d->index = index;
    int64_t rest = index;
    for (uint32_t a = p->axis_count; a-- > 0; rest /= p->axis_sizes[a]) d->coordinate[a] = rest % p->axis_sizes[a];
    for (uint32_t mask = 0; mask < 1u << p->axis_count; mask++) d->position[mask] = (int32_t)rt_mesh_index(t, d, mask);
    d->state = rt_alloc_device(t, p->state_bytes);
    d->arena = rt_alloc_device(t, largest(p, false));
    d->result = rt_alloc(t, p->result_bytes);
    d->scratch = rt_alloc(t, scratch * t->threads);
    d->staging = rt_alloc(t, staging_bytes);
    d->maps = rt_alloc(t, RT_ENTRIES * sizeof *d->maps);
    d->workers = rt_alloc(t, t->threads * sizeof *d->workers);
    if (!d->state || !d->arena || !d->result || !d->scratch || !d->staging || !d->maps || !d->workers) return false;
    d->barrier.total = t->threads;
    for (uint32_t w = 0; w < t->threads; w++)
        d->workers[w] = (struct rt_worker){.instance = t, .device = d, .index = w, .scratch = d->scratch + w * scratch};
    return true;
}

static bool slots_make(struct step_instance *t, uint64_t *staging_bytes)
{
    const struct stepc_program *p = t->program;
    t->loss_slot = t->step_slot = -1;
    t->input_slots = rt_alloc(t, p->slot_count * sizeof *t->input_slots);
    t->staging_offset = rt_alloc(t, p->slot_count * sizeof *t->staging_offset);
    t->metric_slots = rt_alloc(t, p->slot_count * sizeof *t->metric_slots);
    t->bound = rt_alloc(t, p->slot_count * sizeof *t->bound);
    t->bound_now = rt_alloc(t, (size_t)p->slot_count * t->device_count * sizeof *t->bound_now);
    if (!rt_slots_sort(t) || !t->input_slots || !t->staging_offset || !t->metric_slots || !t->bound || !t->bound_now)
        return false;
    for (uint32_t i = 0; i < p->slot_count; i++) {
        const struct stepc_slot *s = &p->slots[i];
        if (s->role == STEP_METRIC && strcmp(s->name, "loss") == 0 && s->rank == 0) t->loss_slot = (int32_t)i;
        if (s->role == STEP_STATE && strcmp(s->name, "step") == 0 && s->rank == 0) t->step_slot = (int32_t)i;
        if (s->role == STEP_METRIC && s->rank == 0) t->metric_slots[t->metric_count++] = i;
        if (s->role != STEP_INPUT) continue;
        t->staging_offset[t->input_count] = *staging_bytes;
        t->input_slots[t->input_count++] = i;
        *staging_bytes += (rt_slot_bytes(s, true) + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN;
    }
    return true;
}

static step_status build(struct step_instance *t, struct settings *s)
{
    const struct stepc_program *p = t->program;
    uint64_t staging = 0, bytes = p->state_bytes + p->result_bytes + largest(p, false) + largest(p, true) * t->threads;
    if (s->o.max_memory && bytes > s->o.max_memory)
        return rt_fail(NULL, STEP_ENOMEM, "device 0 needs %llu bytes, limit %llu (state %llu, arena %llu)",
                       (unsigned long long)bytes, (unsigned long long)s->o.max_memory,
                       (unsigned long long)p->state_bytes, (unsigned long long)largest(p, false));
    bool ok = fork_guard(t) && slots_make(t, &staging) &&
              (t->devices = rt_alloc(t, t->device_count * sizeof *t->devices)) != NULL;
    for (uint32_t d = 0; ok && d < t->device_count; d++) ok = device_make(t, d, staging);
    ok = ok && rt_plan(t);
    if (!ok)
        return rt_fail(NULL, STEP_ENOMEM, "out of memory: %llu bytes on each of %u devices", (unsigned long long)bytes,
                       t->device_count);
    if (p->mesh && !p->mesh->plan(t)) return STEP_EDEVICE;
    for (uint32_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].role == RT_HYPER) rt_hyper_store(t, &p->slots[i], p->slots[i].initial);
    if (p->blas) p->blas->open(t);
    if (t->sgemm) t->tries = false; /* its bits depend on how rows are split */
    return !p->team || p->team->start(t) ? STEP_OK : STEP_ENOMEM;
}

step_status rt_create(const struct stepc_program *program, const struct step_options *options,
                      struct step_instance **out)
{
    struct settings s = {0};
    if (!out) return rt_fail(NULL, STEP_EINVAL, "create: null pointer");
    *out = NULL;
    if (!rt_take(&s.o, sizeof s.o, options))
        return rt_fail(NULL, STEP_EINVAL, "create: options is NULL or has a wrong size field");
    void *memory = NULL;
    if (posix_memalign(&memory, RT_ALIGN, sizeof(struct step_instance)))
        return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    struct step_instance *t = memset(memory, 0, sizeof *t);
    t->program = program;
    t->created_ns = rt_now();
    t->device_count = 1;
    for (uint32_t a = 0; a < program->axis_count; a++) t->device_count *= (uint32_t)program->axis_sizes[a];
    pthread_mutex_init(&t->stage_lock, NULL);
    if (s.o.host) rt_take(&t->host, sizeof t->host, s.o.host);
    step_status status = settings_read(t, &s);
    if (!status) status = devices_check(t, &s);
    if (!status && !rt_unpack(t)) status = rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    if (!status) {
        choose_threads(t, s.o.threads);
        status = build(t, &s);
    }
    if (status) rt_destroy(t);
    else {
        rt_log(t, 2, "%s: %u device%s (cpu, %u thread%s each), %llu bytes of state and arena", program->name,
               t->device_count, t->device_count == 1 ? "" : "s", t->threads, t->threads == 1 ? "" : "s",
               (unsigned long long)t->measured_bytes);
        *out = t;
    }
    return status;
}

void rt_destroy(struct step_instance *t)
{
    if (!t) return;
    if (t->alive && (!*t->alive || (t->pid && t->pid != getpid())))
        return; /* the child of a fork has no threads to stop */
    if (t->devices && t->program->team && !t->program->team->stop(t)) {
        rt_log(t, 0, "destroy: a worker does not come back; its memory is left");
        return;
    }
    rt_release_all(t);
    free(t->staged);
    free(t->staged_live);
    if (t->alive && !t->pid) munmap((void *)(uintptr_t)t->alive, (size_t)sysconf(_SC_PAGESIZE));
    pthread_mutex_destroy(&t->stage_lock);
    free(t);
}

step_status rt_init(struct step_instance *t)
{
    if (!t) return rt_fail(NULL, STEP_EINVAL, "init: null pointer");
    step_status status = rt_enter(t, false);
    if (status) return status;
    if (!t->entries[RT_INIT].table)
        return rt_leave(t, rt_fail(t, STEP_EUNSUPPORTED, "this object has no initial values: load a file"));
    struct rt_fp fp = rt_fp_enter();
    status = rt_run_entry(t, RT_INIT);
    if (!status && t->entries[RT_RESTART].table) status = rt_run_entry(t, RT_RESTART);
    rt_fp_leave(fp);
    if (!status) {
        t->initialized = true;
        t->steps = 0;
        rt_step_counter(t);
    }
    return rt_leave(t, status);
}
