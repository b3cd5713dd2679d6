/* GPUs of NVIDIA. A device is the primary context of a GPU, which other libraries of the process share, with one stream
 * that all work of the runtime goes through in order; blocks of memory are as large as the plan says. Kernels are those
 * of the image in the object that fits the GPU best. The context is current only while the runtime works with it. */
#include "runtime/cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JIT_ERRORS = 5, JIT_ERRORS_BYTES = 6, DYNAMIC_SHARED = 8 };

static step_status check(struct step_instance *t, const char *devices)
{
    struct rt_cuda_host *h = rt_alloc(t, sizeof *h);
    if (!h) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    t->gpu = h;
    step_status status = rt_cuda_open(t, devices, h);
    for (uint32_t i = 0; !status && i < (h->asked ? h->asked : 1); i++)
        if (!rt_cuda_image(&h->driver, t->program->cuda, h->ordinals[i])) status = STEP_EDEVICE;
    return status;
}

/* ---------------------------------------------------------------- a device */

/* All of it before the first block, so that the error can say what is wanted and what there is. */
static step_status check_memory(struct rt_device *d, const struct rt_cuda_device *g)
{
    const struct stepc_program *p = d->instance->program;
    uint64_t arena = 0, scratch = 0, inputs = rt_cuda_input_bytes(d->instance);
    size_t free = 0, all = 0;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        arena = p->entries[i].arena_bytes > arena ? p->entries[i].arena_bytes : arena;
        scratch = p->entries[i].scratch_bytes > scratch ? p->entries[i].scratch_bytes : scratch;
    }
    uint64_t bytes = p->state_bytes + p->result_bytes + p->constant_bytes + arena + scratch + inputs;
    if (g->host->driver.memory_info(&free, &all) || bytes <= free) return STEP_OK;
    return rt_fail(
        NULL, STEP_ENOMEM,
        "device %u (cuda:%d) needs %llu bytes (state %llu, arena %llu, scratch of kernels %llu), of its %llu "
        "bytes %llu are free; who has the others, of this and other processes, nvidia-smi shows",
        d->index, g->ordinal, (unsigned long long)bytes, (unsigned long long)p->state_bytes, (unsigned long long)arena,
        (unsigned long long)scratch, (unsigned long long)all, (unsigned long long)free);
}

static step_status load_image(struct rt_cuda_device *g, const struct stepc_cuda *cuda,
                              const struct stepc_cuda_image *image)
{
    const struct rt_cuda_driver *u = &g->host->driver;
    char log[400] = "", why[CUDA_TEXT];
    const int options[] = {JIT_ERRORS, JIT_ERRORS_BYTES};
    void *values[] = {log, (void *)sizeof log}, *module = NULL; /* the driver puts how much it wrote there */
    int status = u->module_load(&module, image->data, 2, options, values);
    const char *kernel = NULL;
    log[sizeof log - 1] = 0;
    if (!status) g->modules[g->module_count++] = module;
    for (uint32_t i = image->first_kernel; !status && i < image->first_kernel + image->kernel_count; i++) {
        kernel = cuda->kernels[i].name;
        if (!cuda->kernels[i].part) status = u->function(&g->functions[i], module, kernel);
        if (!status && cuda->kernels[i].dynamic_bytes)
            status = u->function_set(g->functions[i], DYNAMIC_SHARED, (int)cuda->kernels[i].dynamic_bytes);
        /* Not when it is launched first: that would wait for the device, whose kernels may wait for a peer's. */
        if (!status && g->functions[i] && u->function_load) status = u->function_load(g->functions[i]);
    }
    return status ? rt_fail(NULL, STEP_EDEVICE, "cuda:%d does not take this object's code for %s%s%s: %s%s%s",
                            g->ordinal, image->arch, kernel ? ", " : "", kernel ? kernel : "",
                            rt_cuda_why(u, status, why), *log ? "\n  " : "", log)
                  : STEP_OK;
}

static step_status load_images(struct rt_cuda_device *g, const struct stepc_cuda *cuda, const char *arch)
{
    step_status status = STEP_OK;
    g->modules = calloc(cuda->image_count + 1, sizeof *g->modules);
    g->functions = calloc(cuda->kernel_count + 1, sizeof *g->functions);
    if (!g->modules || !g->functions) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    for (uint32_t i = 0; !status && i < cuda->image_count; i++)
        if (strcmp(cuda->images[i].arch, arch) == 0) status = load_image(g, cuda, &cuda->images[i]);
    return status;
}

static step_status device_fill(struct rt_device *d, struct rt_cuda_device *g)
{
    const struct stepc_cuda *cuda = d->instance->program->cuda;
    const struct rt_cuda_driver *u = &g->host->driver;
    const struct stepc_cuda_image *image = rt_cuda_image(u, cuda, g->ordinal);
    char why[CUDA_TEXT];
    int device = 0;
    if (!image) return STEP_EDEVICE;
    int status = u->device(&device, g->ordinal);
    if (!status) status = u->retain(&g->context, device);
    if (status)
        return rt_fail(NULL, STEP_EDEVICE, "cuda:%d cannot be used: %s", g->ordinal, rt_cuda_why(u, status, why));
    status = u->push(g->context);
    if (status) return rt_fail(NULL, STEP_EDEVICE, "cuda:%d: %s", g->ordinal, rt_cuda_why(u, status, why));
    step_status result = check_memory(d, g);
    if (!result) result = load_images(g, cuda, image->arch);
    if (!result) result = rt_cuda_queue_make(d, g);
    if (!result && d->instance->program->blas) result = d->instance->program->blas->gpu->open(d);
    u->pop(&(void *){NULL});
    return result;
}

static void device_end(struct rt_cuda_device *g)
{
    const struct rt_cuda_driver *u = &g->host->driver;
    int device = 0;
    if (g->context && !u->push(g->context)) { /* after a failure that stays nothing can be given back one by one */
        rt_cuda_graphs_free(g);
        if (g->products) g->products->close(g);
        rt_cuda_queue_free(g);
        while (g->module_count) u->module_unload(g->modules[--g->module_count]);
        u->pop(&(void *){NULL});
    }
    if (g->context && !u->device(&device, g->ordinal)) u->release(device);
    free(g->modules);
    free(g->functions);
    free(g);
}

/* Which of the devices of this machine is the process's first: launchers count its processes, which may be any of all.
 */
static uint32_t first_here(const struct step_instance *t)
{
    static const char names[][28] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (size_t i = 0; t->ranks > 1 && !(t->flags & STEP_NO_ENV) && i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        char *end = NULL;
        unsigned long n = text ? strtoul(text, &end, 10) : 0;
        if (end && end > text && !*end && n < t->ranks) return (uint32_t)n * t->local_count;
    }
    return t->first_local;
}

static step_status open_device(struct rt_device *d)
{
    struct step_instance *t = d->instance;
    const struct rt_cuda_host *h = t->gpu;
    uint32_t mine = d->index - t->first_local;
    uint32_t there = h->asked ? h->asked : (uint32_t)h->count;
    if (t->ranks == 1 && mine >= there)
        return rt_fail(NULL, STEP_EDEVICE, "the mesh has %u devices, and there %s %u%s", t->local_count,
                       there == 1 ? "is" : "are", there, h->asked ? " in the list of devices" : " here");
    struct rt_cuda_device *g = calloc(1, sizeof *g);
    if (!g) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    g->host = h;
    g->ordinal = h->asked ? h->ordinals[mine % there] : (int)((first_here(t) + mine) % there);
    d->handle = g;
    step_status status = device_fill(d, g);
    if (status) device_end(g), d->handle = NULL;
    return status;
}

static void close_device(struct rt_device *d) { device_end(d->handle); }

static bool takes(const struct step_instance *t, const struct step_array *a)
{
    const struct rt_cuda_device *g = t->devices->handle;
    return t->mesh_count == 1 && a->device_type == stepc_part_gpu.ops.kind && a->device_id == g->ordinal;
}

static int32_t number(const struct rt_device *d) { return ((const struct rt_cuda_device *)d->handle)->ordinal; }

/* ---------------------------------------------------------------- memory */

static void *alloc(struct rt_device *d, size_t bytes)
{
    struct rt_cuda_device *g = rt_cuda_enter(d);
    void *data = NULL;
    char why[CUDA_TEXT];
    if (!g) return NULL;
    const struct rt_cuda_driver *u = &g->host->driver;
    int status = u->alloc(&data, bytes);
    if (status) rt_log(d->instance, 0, "cuda:%d: %zu bytes: %s", g->ordinal, bytes, rt_cuda_why(u, status, why));
    else status = u->set_bytes(data, 0, bytes, g->stream);
    if (!status) status = u->stream_wait(g->stream); /* before any collective */
    if (status && data) u->free(data);
    rt_cuda_leave(g);
    return status ? NULL : data;
}

static void release(struct rt_device *d, void *data, size_t bytes)
{
    struct rt_cuda_device *g = d->handle;
    (void)bytes;
    if (!data || rt_cuda_begin(g)) return;
    g->host->driver.free(data);
    rt_cuda_leave(g);
}

static void copy(struct rt_device *d, void *to, const void *from, size_t bytes, enum rt_direction direction)
{
    const struct stepc_program *p = d->instance->program;
    const char *constants = d->constants, *source = from;
    bool counter = direction == RT_TO_DEVICE && bytes == 4 && (uintptr_t)to % 4 == 0;
    if (direction == RT_FROM_DEVICE && constants && source >= constants &&
        source + bytes <= constants + p->constant_bytes) {
        memcpy(to, p->constants + (source - constants), bytes); /* the limit of a loop: nobody has to wait */
        return;
    }
    struct rt_cuda_device *g = d->handle;
    if (!bytes) return;
    if (direction == RT_FROM_DEVICE && rt_cuda_seen_read(d, to, from, bytes)) return;
    if (direction == RT_FROM_DEVICE) memset(to, 0, bytes); /* of a copy that fails: loops end */
    if (!rt_cuda_enter(d)) return;
    const struct rt_cuda_driver *u = &g->host->driver;
    int status = 0;
    if (direction != RT_FROM_DEVICE) g->fresh = false;
    if (counter) { /* in order, and its value is taken now */
        uint32_t value;
        memcpy(&value, from, sizeof value);
        if (g->pending.op_count) rt_cuda_move(d, to, (const void *)(uintptr_t)value, sizeof value | STEPC_CUDA_SETS);
        else status = u->set_words(to, value, 1, g->stream);
    } else {
        rt_cuda_flush(d);
        status = direction == RT_TO_DEVICE     ? u->to_device(to, from, bytes, g->stream)
                 : direction == RT_FROM_DEVICE ? u->from_device(to, from, bytes, g->stream)
                                               : u->between(to, from, bytes, g->stream);
        if (!status) status = rt_cuda_wait(d);
    }
    if (status) rt_cuda_failed(d, status, "a copy, or a kernel before it (STEPC_CUDA_CHECK=1 names it)");
    rt_cuda_leave(g);
}

static void part(struct rt_device *d, const struct stepc_slot *s, char *at, char *host, const int64_t *stride,
                 enum rt_direction direction)
{
    if (s->role != STEP_INPUT || direction == RT_FROM_DEVICE) {
        rt_staged_part(d, s, at, host, stride, direction);
        return;
    }
    struct rt_cuda_device *g = rt_cuda_enter(d);
    if (!g) return;
    int status = rt_cuda_input(d, s, at, host, stride, direction == RT_BETWEEN);
    if (status) rt_cuda_failed(d, status, "copying an input");
    rt_cuda_leave(g);
}

/* ---------------------------------------------------------------- launches */

static void launch(struct rt_worker *w, const struct stepc_command *c, void *const *arguments, uint32_t chunk,
                   uint32_t chunks)
{
    const struct step_instance *t = w->instance;
    const struct stepc_program *p = t->program;
    const struct stepc_entry *e = t->entries[t->running].table;
    const struct stepc_cuda_launch *l = &p->cuda->launches[e - p->entries][c - e->commands];
    const struct stepc_cuda_kernel *k = &p->cuda->kernels[l->kernel];
    uint32_t members = c->members > 1 ? c->members : 1, per = c->buffer_count / members;
    (void)chunk, (void)chunks; /* one worker launches all of it */
    if (per != k->argument_count || per + 4 + k->number_count > CUDA_MOST_WORDS) {
        rt_give_up(w->instance, STEP_EINTERNAL, "%s takes %u buffers, its command has %u", k->name, k->argument_count,
                   per);
        return;
    }
    struct rt_cuda_device *g = rt_cuda_enter(w->device);
    if (!g) return;
    g->fresh = false;
    if (c->gemm && p->blas->gpu->launch(w, c, l, arguments)) members = 0;
    for (uint32_t m = 0; m < members;) {
        struct rt_cuda_words words;
        m += rt_cuda_words(&words, k, l, c, arguments, m, w->scratch);
        rt_cuda_do(w->device,
                   &(struct rt_cuda_op){.launch = l,
                                        .kernel = (int32_t)l->kernel,
                                        .count = words.count,
                                        .blocks = words.blocks,
                                        .table = words.table},
                   words.word);
    }
    rt_cuda_leave(g);
}

static void meet(struct rt_device *d)
{
    struct step_instance *t = d->instance;
    struct rt_cuda_device *g = rt_cuda_enter(d);
    if (!g) return;
    int status = rt_cuda_run_ends(d);
    char what[120];
    snprintf(what, sizeof what, "a kernel of entry \"%s\" (STEPC_CUDA_CHECK=1 names it)",
             t->entries[t->running].table->name);
    if (status) rt_cuda_failed(d, status, what);
    g->checked[t->running] = true;
    rt_cuda_leave(g);
}

const struct stepc_gpu stepc_part_gpu = {{.name = "cuda",
                                          .kind = 2,
                                          .number = number,
                                          .check = check,
                                          .open = open_device,
                                          .close = close_device,
                                          .alloc = alloc,
                                          .free = release,
                                          .copy = copy,
                                          .part = part,
                                          .constants = rt_staged_constants,
                                          .launch = launch,
                                          .meet = meet,
                                          .takes = takes,
                                          .follow = rt_cuda_follow,
                                          .ready = rt_cuda_ready,
                                          .steps = rt_cuda_steps,
                                          .batches = rt_cuda_batches}};
