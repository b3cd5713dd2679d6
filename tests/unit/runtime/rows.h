/* Rows for the runtime's tables of devices and transports that hold it to the seam.
 *
 * far: a device of the same CPU whose addresses the host cannot follow (bit 62 is set: whoever tries is stopped), so
 * that whatever does not go through the table ends the test. Its kernels may only be given its own addresses.
 *
 * A transport that goes through the table of devices only and stages collectives in memory of the host: "test" for
 * instances in one process as ranks; communicator: a struct test_rank. */
#ifndef TEST_ROWS_H
#define TEST_ROWS_H
#include "runtime/comm_rows.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- far */

enum { FAR_BIT = 62, FAR_NULL = 1 << 20 /* inputs that an entry does not need: no address and an offset */ };

static _Atomic int far_open, far_blocks, far_unmet; /* devices; their blocks; launches that nobody waited for */
static _Atomic int far_breaks_in;                   /* the device dies at this launch, counted down; 0: never */

static inline void *far_at(const void *p)
{
    uintptr_t at = (uintptr_t)p;
    if (at >= FAR_NULL && !(at >> FAR_BIT & 1)) {
        fprintf(stderr, "an address of the host, %p, where one of the device belongs\n", p);
        abort();
    }
    return (void *)(at & ~((uintptr_t)1 << FAR_BIT));
}

static inline step_status far_check(struct step_instance *t, const char *devices)
{
    (void)t;
    return devices && strcmp(devices, "far") != 0 ? rt_fail(NULL, STEP_EDEVICE, "devices \"%s\": far", devices) : 0;
}

static inline step_status far_opens(struct rt_device *d)
{
    d->handle = &far_open;
    atomic_fetch_add(&far_open, 1);
    return STEP_OK;
}

static inline void far_close(struct rt_device *d)
{
    if (d->handle != &far_open) abort();
    atomic_fetch_sub(&far_open, 1);
}

static inline void *far_alloc(struct rt_device *d, size_t bytes)
{
    char *p = rt_host_get(d->instance, bytes);
    if (d->handle != &far_open) abort();
    atomic_fetch_add(&far_blocks, 1);
    return p ? (void *)((uintptr_t)p | (uintptr_t)1 << FAR_BIT) : NULL;
}

static inline void far_free(struct rt_device *d, void *data, size_t bytes)
{
    atomic_fetch_sub(&far_blocks, 1);
    rt_host_put(d->instance, far_at(data), bytes);
}

static inline void far_copy(struct rt_device *d, void *to, const void *from, size_t bytes, enum rt_direction direction)
{
    (void)d;
    memcpy(direction == RT_FROM_DEVICE ? to : far_at(to), direction == RT_TO_DEVICE ? from : far_at(from), bytes);
}

static inline bool far_breaks(struct rt_worker *w)
{
    atomic_fetch_add(&far_unmet, 1);
    if (!atomic_load(&far_breaks_in) || atomic_fetch_sub(&far_breaks_in, 1) != 1) return false;
    rt_give_up(w->instance, STEP_EDEVICE, "device %u does not answer", w->device->index);
    return true;
}

/* The worker and the addresses as a kernel on the device sees them. */
static inline void far_launch(struct rt_worker *w, const struct stepc_command *c, void *const *arguments,
                              uint32_t chunk, uint32_t chunks)
{
    struct rt_worker there = *w;
    void **own = malloc((c->buffer_count + 1) * sizeof *own);
    there.scratch = far_at(w->scratch);
    for (uint32_t i = 0; i < c->buffer_count; i++) own[i] = far_at(arguments[i]);
    if (!far_breaks(w)) rt_cpu_launch(&there, c, own, chunk, chunks);
    free(own);
}

static inline void far_launch_entry(struct rt_worker *w, const struct stepc_entry *e, void *const *buffers)
{
    void **own = malloc((e->buffer_count + 1) * sizeof *own);
    for (uint32_t i = 0; i < e->buffer_count; i++) own[i] = far_at(buffers[i]);
    if (!far_breaks(w)) e->whole(own, far_at(w->scratch));
    free(own);
}

static inline void far_meet(struct rt_device *d)
{
    (void)d;
    atomic_store(&far_unmet, 0);
}

static const struct stepc_gpu far_gpu = {{.name = "far",
                                          .check = far_check,
                                          .open = far_opens,
                                          .close = far_close,
                                          .workers = rt_cpu_workers,
                                          .alloc = far_alloc,
                                          .free = far_free,
                                          .copy = far_copy,
                                          .part = rt_staged_part,
                                          .constants = rt_staged_constants,
                                          .launch = far_launch,
                                          .launch_entry = far_launch_entry,
                                          .meet = far_meet}};

/* ---------------------------------------------------------------- transports */

enum { TEST_RANKS = 4, TEST_DEVICES = 64 };

struct test_barrier {
    _Atomic uint32_t arrived, generation;
};
struct test_world {
    uint32_t ranks;
    struct test_barrier of_devices, of_ranks;
    char *parts[TEST_DEVICES]; /* operands of a collective; kept, because who comes late may still read */
    _Atomic int broken;        /* somebody waited in vain */
    const void *host[TEST_RANKS];
    step_status status[TEST_RANKS];
    _Atomic int aborted;
};
struct test_rank {
    struct test_world *world;
    uint32_t rank;
};

static inline struct test_world *test_world(const struct step_instance *t)
{
    return ((const struct test_rank *)t->peers)->world;
}

static inline void test_world_begin(struct test_world *world, uint32_t ranks)
{
    for (uint32_t d = 0; d < TEST_DEVICES; d++) free(world->parts[d]);
    memset(world, 0, sizeof *world);
    world->ranks = ranks;
}

static inline bool test_wait(struct step_instance *t, struct test_barrier *b, uint32_t total)
{
    uint64_t deadline = t->timeout_ns ? rt_now() + (uint64_t)t->timeout_ns : UINT64_MAX;
    uint32_t generation = atomic_load(&b->generation);
    struct test_world *world = test_world(t);
    if (atomic_load(&world->broken)) return false;
    if (atomic_fetch_add(&b->arrived, 1) + 1 == total) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->generation, 1);
    }
    while (atomic_load(&b->generation) == generation) {
        if (rt_now() > deadline || atomic_load(&t->failed)) {
            atomic_store(&world->broken, 1);
            return false;
        }
        sched_yield();
    }
    return true;
}

static inline step_status test_ranks_meet(struct step_instance *t)
{
    if (test_wait(t, &test_world(t)->of_ranks, t->ranks)) return STEP_OK;
    rt_give_up(t, STEP_ETIMEOUT, "a rank is late, seen from rank %u", t->rank);
    return STEP_ETIMEOUT;
}

static inline step_status test_open(struct step_instance *t, const void *communicator, uint32_t *rank, uint32_t *ranks)
{
    if (!communicator) return rt_fail(NULL, STEP_EINVAL, "transport \"test\" needs a communicator");
    struct test_rank *r = malloc(sizeof *r);
    *r = *(const struct test_rank *)communicator;
    t->peers = r;
    *rank = r->rank;
    *ranks = r->world->ranks;
    return STEP_OK;
}

static inline bool test_plan(struct step_instance *t) { return t->peers; }

static inline void test_close(struct step_instance *t)
{
    free(t->peers);
    t->peers = NULL;
}

/* One element of a result from the operands of the group: two neighbours, two such sums, and so on. */
static inline double test_sum(const struct stepc_command *c, char *const *parts, const uint32_t *group, uint32_t n,
                              int64_t from)
{
    if (n == 1) return rt_number_at(parts[group[0]], c->dtype, from);
    uint32_t half = 1;
    while (2 * half < n) half *= 2;
    double a = test_sum(c, parts, group, half, from), b = test_sum(c, parts, group + half, n - half, from);
    if (c->reduction != STEPC_SUM) return (c->reduction == STEPC_MAX) == (b > a) ? b : a;
    return c->dtype == STEP_F64 || c->dtype < STEP_F8E4M3 ? a + b : (double)((float)a + (float)b);
}

static inline void test_reduce(const struct stepc_command *c, char *const *parts, const uint32_t *group, uint32_t n,
                               int64_t from, char *to, int64_t at)
{
    rt_number_put(to, c->dtype, at, test_sum(c, parts, group, n, from));
}

static inline void test_compute(const struct stepc_command *c, char *const *parts, const uint32_t *group, uint32_t n,
                                uint32_t rank, char *to)
{
    int64_t inner = (int64_t)c->inner, count = (int64_t)c->count;
    size_t item = rt_dtype_bytes(c->dtype);
    if (c->collective == STEPC_ALL_REDUCE)
        for (int64_t i = 0; i < count; i++) test_reduce(c, parts, group, n, i, to, i);
    else if (c->collective == STEPC_REDUCE_SCATTER)
        for (int64_t i = 0; i < count / n; i++)
            test_reduce(c, parts, group, n, (i / inner * n + rank) * inner + i % inner, to, i);
    else
        for (uint32_t k = 0; k < n; k++)
            if (rt_piece_goes(c, n, k, rank))
                rt_piece_copy(to, rt_piece_into(c, n, k), parts[group[k]], rt_piece_from(c, n, rank), 0,
                              rt_piece_count(c, n), (uint32_t)item);
}

static inline bool test_exchange(struct rt_worker *w, const struct stepc_command *c, void *const *arguments)
{
    struct step_instance *t = w->instance;
    struct test_world *world = test_world(t);
    uint32_t group[TEST_DEVICES], n = 0, rank = 0, me = w->device->index;
    for (uint32_t d = 0; d < t->mesh_count; d++)
        if (rt_mesh_index(t, d, ~c->axes) == rt_mesh_index(t, me, ~c->axes)) {
            if (d == me) rank = n;
            group[n++] = d;
        }
    size_t bytes = (size_t)c->count * rt_dtype_bytes(c->dtype);
    size_t result = c->collective == STEPC_ALL_GATHER       ? bytes * n
                    : c->collective == STEPC_REDUCE_SCATTER ? bytes / n
                                                            : bytes;
    char *to = malloc(result + 1);
    world->parts[me] = realloc(world->parts[me], bytes + 1);
    t->device_ops->copy(w->device, world->parts[me], arguments[0], bytes, RT_FROM_DEVICE);
    bool ok = test_wait(t, &world->of_devices, t->mesh_count);
    if (ok) test_compute(c, world->parts, group, n, rank, to);
    ok = ok && test_wait(t, &world->of_devices, t->mesh_count);
    if (ok) t->device_ops->copy(w->device, arguments[1], to, result, RT_TO_DEVICE);
    else rt_comm_late(w, c, group, n);
    free(to);
    return ok;
}

static inline int test_advance(struct rt_worker *w, const struct stepc_command *c, bool wait)
{
    const struct rt_entry *e = &w->instance->entries[w->instance->running];
    void *const *arguments = w->device->maps[w->instance->running].pointers +
                             e->commands[c - e->table->commands].arguments;
    if (!wait) return 0;
    rt_comm_enter(w, c);
    if (!rt_meet(w->instance, &w->device->barrier, 0)) return -1;
    for (uint32_t i = 0; w->index == 0 && i < rt_regions(c); i++)
        if (!test_exchange(w, rt_region(c, i), arguments + 2 * i)) return -1;
    return rt_meet(w->instance, &w->device->barrier, 0) ? 1 : -1;
}

static inline step_status test_meet(struct step_instance *t, step_status status, uint64_t call)
{
    (void)call;
    struct test_world *world = test_world(t);
    world->status[t->rank] = status;
    if (test_ranks_meet(t)) return STEP_ETIMEOUT;
    for (uint32_t r = 0; r < t->ranks; r++)
        if (world->status[r] > status) status = rt_fail(t, world->status[r], "rank %u failed", r);
    return test_ranks_meet(t) ? STEP_ETIMEOUT : status;
}

static inline step_status test_gather(struct step_instance *t, uint32_t what, const void *mine, size_t bytes, void *all)
{
    (void)what;
    struct test_world *world = test_world(t);
    world->host[t->rank] = mine;
    if (test_ranks_meet(t)) return STEP_ETIMEOUT;
    for (uint32_t r = 0; r < t->ranks; r++) memcpy((char *)all + r * bytes, world->host[r], bytes);
    return test_ranks_meet(t);
}

static inline step_status test_scatter(struct step_instance *t, uint32_t what, const void *all, size_t bytes,
                                       void *mine)
{
    (void)what;
    struct test_world *world = test_world(t);
    world->host[t->rank] = all;
    if (test_ranks_meet(t)) return STEP_ETIMEOUT;
    memcpy(mine, (const char *)world->host[0] + t->rank * bytes, bytes);
    return test_ranks_meet(t);
}

static inline void test_reset(struct step_instance *t)
{
    struct test_world *world = test_world(t);
    atomic_store(&world->of_devices.arrived, 0);
    atomic_store(&world->of_ranks.arrived, 0);
    atomic_store(&world->broken, 0);
}

static inline void test_abort(struct step_instance *t) { atomic_store(&test_world(t)->aborted, 1); }

#define TEST_ROW(text, how) \
    { \
        .name = text, .open = how, .plan = test_plan, .advance = test_advance, .meet = test_meet, \
        .gather = test_gather, .scatter = test_scatter, .reset = test_reset, .abort = test_abort, .close = test_close \
    }
static const struct rt_comm_ops test_comm_ranks = TEST_ROW("test", test_open);
static const struct rt_comm_ops *const test_rows_shared[] = {&rt_comm_thread, &test_comm_ranks, NULL};
static const struct rt_comm_ops *const test_rows_far[] = {&rt_comm_staged, &test_comm_ranks, NULL};

/* The program on devices of the CPU or far ones, with the transports above beside the runtime's own. The parts are the
 * caller's to keep. */
static inline void test_place(struct stepc_program *p, struct stepc_mesh *mesh, bool far)
{
    *mesh = stepc_part_mesh;
    mesh->rows = far ? test_rows_far : test_rows_shared;
    p->mesh = mesh;
    p->gpu = far ? &far_gpu : NULL;
}
#endif
