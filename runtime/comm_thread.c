/* Collectives between devices of one process: everybody's memory is within reach, so a collective is two meetings of
 * all workers of the group with a share of the work between them. Sums run over the devices in mesh order, element
 * by element, whatever the number of workers: the bits do not depend on timing.
 *
 *   all_reduce      [operand, result]   every worker owns a range of elements: reads all operands, writes all results;
 *                                       so operand and result may be the same memory
 *   all_gather      count: elements of the operand, inner: contiguous elements of one part
 *   reduce_scatter  count: elements of the operand, inner: contiguous elements of one part of the result
 */
#include "runtime/rt.h"

#include <string.h>

enum { RT_CHUNK = 512, RT_LEAST = 2048 /* elements that are worth another worker */ };

/* ---------------------------------------------------------------- groups */

struct rt_group {
    struct rt_barrier barrier;
    uint32_t count;
    uint32_t members[RT_MAX_GROUP]; /* devices of this process, which are all of the mesh */
};

/* Those along a set of axes, by their place along the other ones; NULL: no collective runs over them. */
static struct rt_group **groups_along(const struct step_instance *t, uint32_t axes)
{
    return (struct rt_group **)t->peers + axes;
}

static struct rt_group *group_of(const struct rt_device *d, uint32_t axes)
{
    uint32_t all = (1u << d->instance->program->axis_count) - 1;
    return *groups_along(d->instance, axes) + d->position[all & ~axes];
}

static bool groups_make(struct step_instance *t, uint32_t axes)
{
    uint32_t size = 1;
    struct rt_group **groups = groups_along(t, axes);
    if (*groups) return true;
    for (uint32_t a = 0; a < t->program->axis_count; a++)
        if (axes >> a & 1) size *= (uint32_t)t->program->axis_sizes[a];
    if (size > RT_MAX_GROUP || !(*groups = rt_alloc(t, t->mesh_count / size * sizeof **groups))) return false;
    for (RT_MINE(t, d)) {
        struct rt_group *g = group_of(d, axes);
        g->members[g->count++] = d->index; /* ascending: mesh order */
        g->barrier.total = g->count * t->threads;
    }
    return true;
}

static bool plan(struct step_instance *t)
{
    bool any = false, ok = (t->peers = rt_alloc(t, sizeof(struct rt_group *) << t->program->axis_count)) != NULL;
    for (uint32_t e = 0; ok && e < t->program->entry_count; e++)
        for (uint32_t i = 0; ok && i < t->program->entries[e].command_count; i++) {
            const struct stepc_command *c = &t->program->entries[e].commands[i];
            any |= c->kind == STEPC_COLLECTIVE;
            if (c->kind == STEPC_COLLECTIVE) ok = groups_make(t, c->axes);
        }
    if (!ok) rt_fail(NULL, STEP_EDEVICE, "a collective over more than %d devices, or out of memory", RT_MAX_GROUP);
    else if (any && !t->device_ops->shared) {
        rt_fail(NULL, STEP_EDEVICE, "transport \"thread\" needs devices whose memory every thread reads in place");
        ok = false;
    }
    return ok;
}

/* After a failed wait the barriers are half full. */
static void reset(struct step_instance *t)
{
    for (uint32_t axes = 0; axes < 1u << t->program->axis_count; axes++)
        for (RT_MINE(t, d))
            if (*groups_along(t, axes)) atomic_store(&group_of(d, axes)->barrier.arrived, 0);
}

/* ---------------------------------------------------------------- reductions */

static void add_f32(float *restrict acc, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) acc[i] += x[i];
}

static double combine(double a, double b, uint32_t reduction)
{
    if (reduction == STEPC_SUM) return a + b;
    if (a != a || b != b) return a + b; /* NaN stays, as in jnp.maximum */
    return reduction == STEPC_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

static int64_t integer_at(const void *data, uint32_t dtype, int64_t i)
{
    return dtype == STEP_I64 || dtype == STEP_U64 ? ((const int64_t *)data)[i] : (int64_t)rt_number_at(data, dtype, i);
}

/* Sums wrap, so they are done on the bits; the order of unsigned 64-bit numbers is that of the signed ones with the
 * top bit flipped. */
static int64_t combine_integer(int64_t a, int64_t b, uint32_t reduction, uint32_t dtype)
{
    if (reduction == STEPC_SUM) return (int64_t)((uint64_t)a + (uint64_t)b);
    uint64_t flip = dtype == STEP_U64 ? (uint64_t)1 << 63 : 0;
    bool greater = (int64_t)((uint64_t)a ^ flip) > (int64_t)((uint64_t)b ^ flip);
    return greater == (reduction == STEPC_MAX) ? a : b;
}

static void store_integer(void *to, uint32_t dtype, int64_t i, int64_t x)
{
    uint32_t bytes = rt_dtype_bytes(dtype);
    if (dtype == STEP_BOOL) x = x != 0;
    memcpy((char *)to + (size_t)i * bytes, &x, bytes); /* little-endian: the low bytes are the wrapped value */
}

/* One chunk (n <= RT_CHUNK elements from `at`) of the operands of a group, combined in order into `out`. */
static void reduce_chunk(const struct stepc_command *c, const void *const *operands, uint32_t count, int64_t at,
                         int64_t n, void *out)
{
    uint32_t bytes = rt_dtype_bytes(c->dtype);
    if (c->dtype == STEP_F32 && c->reduction == STEPC_SUM) {
        memcpy(out, (const float *)operands[0] + at, (size_t)n * sizeof(float));
        for (uint32_t k = 1; k < count; k++) add_f32(out, (const float *)operands[k] + at, n);
        return;
    }
    bool integer = c->dtype < STEP_F8E4M3;
    for (int64_t i = 0; i < n; i++) {
        const char *first = (const char *)operands[0] + (size_t)at * bytes;
        if (integer) {
            int64_t acc = integer_at(first, c->dtype, i);
            for (uint32_t k = 1; k < count; k++)
                acc = combine_integer(acc, integer_at((const char *)operands[k] + (size_t)at * bytes, c->dtype, i),
                                      c->reduction, c->dtype);
            store_integer(out, c->dtype, i, acc);
            continue;
        }
        double acc = rt_number_at(first, c->dtype, i);
        for (uint32_t k = 1; k < count; k++)
            acc = combine(acc, rt_number_at((const char *)operands[k] + (size_t)at * bytes, c->dtype, i), c->reduction);
        rt_number_put(out, c->dtype, i, acc);
    }
}

/* [lo, hi) of n elements for piece i of `pieces`, cut at multiples of 16 (a cache line of f32). */
static void share(int64_t n, uint32_t i, uint32_t pieces, int64_t *lo, int64_t *hi)
{
    int64_t most = n / RT_LEAST + 1, lines = (n + 15) / 16;
    if (pieces > most) pieces = (uint32_t)most;
    *lo = *hi = 0;
    if (i >= pieces) return;
    *lo = lines * i / pieces * 16;
    *hi = lines * (i + 1) / pieces * 16;
    if (*hi > n) *hi = n;
}

struct comm_call {
    struct rt_worker *w;
    const struct stepc_command *c;
    struct rt_group *g;
    uint32_t rank;     /* of the device in its group */
    uint32_t argument; /* offset of the command's arguments in the maps */
};

static void *peer_pointer(const struct comm_call *call, uint32_t member, uint32_t which)
{
    struct step_instance *t = call->w->instance;
    return t->devices[call->g->members[member]].maps[t->running].pointers[call->argument + which];
}

static void all_reduce(const struct comm_call *call)
{
    _Alignas(64) char sum[RT_CHUNK * 8];
    const void *operands[RT_MAX_GROUP];
    uint32_t n = call->g->count, threads = call->w->instance->threads, bytes = rt_dtype_bytes(call->c->dtype);
    int64_t lo, hi;
    for (uint32_t k = 0; k < n; k++) operands[k] = peer_pointer(call, k, 0);
    share((int64_t)call->c->count, call->rank * threads + call->w->index, n * threads, &lo, &hi);
    for (int64_t at = lo; at < hi; at += RT_CHUNK) {
        int64_t part = hi - at < RT_CHUNK ? hi - at : RT_CHUNK;
        reduce_chunk(call->c, operands, n, at, part, sum);
        for (uint32_t k = 0; k < n; k++)
            memcpy((char *)peer_pointer(call, k, 1) + (size_t)at * bytes, sum, (size_t)part * bytes);
    }
}

static void reduce_scatter(const struct comm_call *call)
{
    const void *operands[RT_MAX_GROUP];
    uint32_t n = call->g->count, bytes = rt_dtype_bytes(call->c->dtype);
    int64_t inner = (int64_t)call->c->inner, lo, hi, total = (int64_t)call->c->count / n;
    for (uint32_t k = 0; k < n; k++) operands[k] = peer_pointer(call, k, 0);
    char *to = peer_pointer(call, call->rank, 1);
    share(total, call->w->index, call->w->instance->threads, &lo, &hi);
    for (int64_t at = lo; at < hi;) {
        int64_t outer = at / inner, within = at % inner, part = inner - within;
        if (part > hi - at) part = hi - at;
        if (part > RT_CHUNK) part = RT_CHUNK;
        reduce_chunk(call->c, operands, n, (outer * n + call->rank) * inner + within, part, to + (size_t)at * bytes);
        at += part;
    }
}

static void all_gather(const struct comm_call *call)
{
    uint32_t n = call->g->count, bytes = rt_dtype_bytes(call->c->dtype);
    int64_t inner = (int64_t)call->c->inner, lo, hi, total = (int64_t)call->c->count * n;
    char *to = peer_pointer(call, call->rank, 1);
    share(total, call->w->index, call->w->instance->threads, &lo, &hi);
    for (int64_t at = lo; at < hi;) {
        int64_t slice = at / inner, within = at % inner, part = inner - within;
        if (part > hi - at) part = hi - at;
        const char *from = peer_pointer(call, (uint32_t)(slice % n), 0);
        memcpy(to + (size_t)at * bytes, from + (size_t)(slice / n * inner + within) * bytes, (size_t)part * bytes);
        at += part;
    }
}

/* ---------------------------------------------------------------- meeting with a deadline */

static bool meet(const struct comm_call *call)
{
    struct step_instance *t = call->w->instance;
    uint64_t deadline = t->timeout_ns > 0 ? rt_now() + (uint64_t)t->timeout_ns : 0;
    if (rt_meet(t, &call->g->barrier, deadline)) return true;
    rt_comm_late(call->w, call->c, call->g->members, call->g->count);
    return false;
}

static bool collective(struct rt_worker *w, const struct stepc_command *c, void *const *arguments)
{
    struct step_instance *t = w->instance;
    const struct rt_map *m = &w->device->maps[t->running];
    uint64_t begin = w->index == 0 && w->device->index == 0 ? rt_now() : 0;
    struct comm_call call = {.w = w,
                             .c = c,
                             .g = group_of(w->device, c->axes),
                             .rank = (uint32_t)w->device->position[c->axes],
                             .argument = (uint32_t)((void **)(uintptr_t)arguments - m->pointers)};
    rt_comm_enter(w, c);
    if (!meet(&call)) return false;
    if (c->collective == STEPC_ALL_REDUCE) all_reduce(&call);
    else if (c->collective == STEPC_ALL_GATHER) all_gather(&call);
    else reduce_scatter(&call);
    if (!meet(&call)) return false;
    if (begin) t->communication_ns += rt_now() - begin;
    return true;
}

const struct rt_comm_ops rt_comm_thread = {.name = "thread", .plan = plan, .collective = collective, .reset = reset};
