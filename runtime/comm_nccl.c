/* Transport "nccl": GPUs of one process or of several, each with an equal run of the mesh's. Collectives are NCCL's, in
 * the order of each device's stream; what is said on the host (who takes part, agreements, parts of tensors) goes as
 * messages, by the plug-in of MPI or by sockets of processes that met through a file (comm_socket.c).
 *
 * NCCL's calls do not wait here (its communicators are not blocking), and who waits for a device looks around meanwhile
 * (`watch`): at NCCL's state, at the links and notices of the other ranks, and at the time-out. Who gives up aborts its
 * communicators, because kernels of NCCL wait for their peers for ever.
 *
 * Sums have the order that NCCL chooses. Where it has no sum of a dtype, or one that means another thing (its maximum
 * leaves out NaN), all operands are gathered and summed by the object's own kernel. Pieces that do not lie in one run
 * are packed before and unpacked behind. */
#include "runtime/comm_ranks.h"
#include "runtime/cuda_driver.h"
#include "runtime/nccl_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_NS = 1000000, EXTRA_NS = 2000000000, PAUSE_NS = 20000 };
#define CONFIG_MAGIC 0xcafebeefu

struct device_side {
    void *comms[1 << RT_MAX_AXES]; /* by set of axes: NULL: no collective runs over it */
    void *world;
    char *room; /* pieces packed, then pieces received */
    uint64_t looked_ns;
};
struct nccl {
    struct rt_nccl_library library;
    struct device_side *devices;
};

static struct nccl *nccl_of(const struct step_instance *t) { return ((struct rt_ranks *)t->peers)->gpus; }
static struct device_side *side(const struct rt_device *d)
{
    return &nccl_of(d->instance)->devices[d - d->instance->devices];
}

/* ---------------------------------------------------------------- waiting */

static void abandon(struct rt_device *d)
{
    struct device_side *s = side(d);
    const struct rt_nccl_library *n = &nccl_of(d->instance)->library;
    for (uint32_t axes = 0; axes < 1u << d->instance->program->axis_count; axes++) {
        if (s->comms[axes] && s->comms[axes] != s->world) n->abort(s->comms[axes]);
        s->comms[axes] = NULL;
    }
    if (s->world) n->abort(s->world);
    s->world = NULL;
}

static void failed(struct rt_device *d, void *comm, int status, const char *what)
{
    struct step_instance *t = d->instance;
    const struct rt_nccl_library *n = &nccl_of(t)->library;
    const char *last = comm ? n->last_error(comm) : NULL;
    bool peer = status == 6; /* its word for a peer that is gone */
    rt_give_up(t, peer ? STEP_EPEER : STEP_EDEVICE, "device %u: NCCL, %s: %s%s%.300s", d->index, what,
               n->error_text(status), last && *last ? ": " : "", last && *last ? last : "");
    if (d == t->devices) rt_ranks_tell(t, STEPC_GONE, t->failure);
}

/* What NCCL has found meanwhile. */
static bool sound(struct rt_device *d)
{
    struct device_side *s = side(d);
    for (uint32_t axes = 0; axes < 1u << d->instance->program->axis_count; axes++) {
        int state = NCCL_SUCCESS;
        if (!s->comms[axes]) continue;
        int status = nccl_of(d->instance)->library.state(s->comms[axes], &state);
        if (!status) status = state;
        if (!status || status == NCCL_IN_PROGRESS) continue;
        failed(d, s->comms[axes], status, "a collective");
        return false;
    }
    return true;
}

/* Messages belong to the first worker; the others wait a little longer than it does. */
static bool watch(struct rt_device *d, uint64_t waited)
{
    struct step_instance *t = d->instance;
    struct device_side *s = side(d);
    uint64_t now = rt_now();
    bool first = d == t->devices;
    if (now - s->looked_ns < LOOK_NS) return true;
    s->looked_ns = now;
    bool ok = (first || !atomic_load(&t->failed)) && sound(d) &&
              (!first || (rt_ranks_look(t, waited) && rt_ranks_linked(t)));
    if (ok && !first && t->timeout_ns && waited > (uint64_t)t->timeout_ns + EXTRA_NS) {
        rt_give_up(t, STEP_ETIMEOUT, "device %u waited %llu ms for its peers at step %llu", d->index,
                   (unsigned long long)waited / 1000000, (unsigned long long)t->steps + 1);
        ok = false;
    }
    if (!ok) abandon(d);
    return ok;
}

/* Until a call that may go on in the background has ended. */
static bool settled(struct rt_device *d, void *comm, int status, const char *what)
{
    uint64_t begin = rt_now();
    while (status == NCCL_IN_PROGRESS) {
        int state = NCCL_SUCCESS;
        status = nccl_of(d->instance)->library.state(comm, &state);
        if (!status) status = state;
        if (status != NCCL_IN_PROGRESS) break;
        if (!watch(d, rt_now() - begin)) return false;
        if (rt_now() - begin > PAUSE_NS) nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    if (!status) return true;
    failed(d, comm, status, what);
    abandon(d);
    return false;
}

/* ---------------------------------------------------------------- meeting */

/* What launchers say of a process: which it is, of how many. */
static bool numbers(const struct step_instance *t, uint32_t *rank, uint32_t *ranks)
{
    static const char names[][2][24] = {{"STEPC_RANK", "STEPC_RANKS"},
                                        {"RANK", "WORLD_SIZE"},
                                        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                        {"PMI_RANK", "PMI_SIZE"},
                                        {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (size_t i = 0; !(t->flags & STEP_NO_ENV) && i < sizeof names / sizeof *names; i++) {
        const char *mine = getenv(names[i][0]), *all = getenv(names[i][1]);
        if (!mine || !all) continue;
        char *end[2];
        unsigned long k = strtoul(mine, &end[0], 10), n = strtoul(all, &end[1], 10);
        if (*end[0] || *end[1] || k >= n || n > 1 << 16) return false;
        *rank = (uint32_t)k;
        *ranks = (uint32_t)n;
        return true;
    }
    return false;
}

/* By a file, or alone. */
static step_status meet_by_file(struct step_instance *t, const char *path, uint32_t rank, uint32_t ranks)
{
    char why[400] = "";
    struct rt_ranks *r = t->peers = rt_alloc(t, sizeof *r);
    if (!r) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    r->rank = rank;
    r->ranks = ranks;
    r->plugin = rt_socket_open(path, rank, ranks, t->timeout_ns, &r->world, why, sizeof why);
    return r->plugin ? STEP_OK
                     : rt_fail(NULL, STEP_EPEER, "transport \"nccl\", rank %u of %u, by the file %s: %s", rank, ranks,
                               path, why);
}

static step_status open_nccl(struct step_instance *t, const void *communicator, uint32_t *rank, uint32_t *ranks)
{
    struct nccl *n = rt_alloc(t, sizeof *n);
    const char *path = t->flags & STEP_NO_ENV ? NULL : getenv("STEPC_NCCL_ID_FILE");
    uint32_t mine = 0, all = 1;
    char said[RT_TEXT / 2];
    if (!n) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    if (communicator)
        return rt_fail(NULL, STEP_EUNSUPPORTED,
                       "communicator: transport \"nccl\" makes its own so far; processes meet "
                       "by MPI, or by the file that STEPC_NCCL_ID_FILE names");
    step_status status = rt_nccl_open(t, &n->library);
    if (status) return status;
    bool known = numbers(t, &mine, &all);
    if (path && *path && !known)
        return rt_fail(NULL, STEP_EINVAL,
                       "STEPC_NCCL_ID_FILE=%s: which rank of how many this process is STEPC_RANK and "
                       "STEPC_RANKS say (or what torchrun, mpirun or srun set)",
                       path);
    bool by_mpi = !(path && *path) && (all > 1 || dlsym(RTLD_DEFAULT, "MPI_Init_thread"));
    if (by_mpi) {
        status = rt_comm_mpi.open(t, NULL, rank, ranks);
        snprintf(said, sizeof said, "%s", rt_last_error(NULL));
        if (status)
            return rt_fail(NULL, status, "%s\n  without MPI processes meet by a file: STEPC_NCCL_ID_FILE", said);
    } else {
        status = meet_by_file(t, path, mine, all);
        if (!status) status = rt_ranks_join(t, rank, ranks);
        if (status) return status;
    }
    ((struct rt_ranks *)t->peers)->gpus = n;
    return STEP_OK;
}

/* ---------------------------------------------------------------- communicators */

static bool by_kernel(const struct stepc_command *c)
{
    bool has = rt_nccl_dtype(c->dtype) != NCCL_NONE, real = c->dtype >= STEP_F8E4M3;
    return rt_cuda_sums(c) && (!has || (real && c->reduction != STEPC_SUM));
}

static bool in_one_run(struct rt_spread s, int64_t n) { return s.parts == 1 || s.inner == n; }

/* Bytes that a region needs beside its operand and result. */
static uint64_t room_of(const struct stepc_command *c, uint32_t members)
{
    int64_t n = rt_piece_count(c, members);
    uint64_t item = rt_dtype_bytes(c->dtype), all = (uint64_t)n * members * item;
    if (by_kernel(c)) return c->count * members * item;
    if (c->collective == STEPC_ALL_REDUCE || c->collective == STEPC_BROADCAST) return 0;
    uint32_t packed = !in_one_run(rt_piece_from(c, members, 0), n);
    return all * (packed + !in_one_run(rt_piece_into(c, members, 0), n));
}

/* False: rt_give_up was called, or rt_fail. */
static bool needs(struct step_instance *t, bool *used, uint64_t *room)
{
    for (const struct stepc_entry *e = t->program->entries; e < t->program->entries + t->program->entry_count; e++)
        for (const struct stepc_command *c = e->commands; c < e->commands + e->command_count; c++) {
            if (c->kind != STEPC_COLLECTIVE || c->half == STEPC_WAITS) continue;
            used[c->axes] = true;
            for (uint32_t i = 0; i < rt_regions(c); i++) {
                uint64_t bytes = room_of(rt_region(c, i), rt_group_of(t->devices, c->axes)->count);
                *room = bytes > *room ? bytes : *room;
            }
            if (by_kernel(c) && !rt_cuda_sum_kernel(t, e, c))
                return !rt_fail(NULL, STEP_EUNSUPPORTED,
                                "transport \"nccl\": %s has neither a sum of NCCL nor a kernel "
                                "of this object",
                                c->place);
        }
    return true;
}

/* Rank 0 makes it. */
static bool share_id(struct step_instance *t, struct rt_nccl_id *id)
{
    struct rt_ranks *r = t->peers;
    struct rt_nccl_id *all = malloc(r->ranks * sizeof *id);
    memset(id, 0, sizeof *id);
    if (!all) return !rt_fail(NULL, STEP_ENOMEM, "no memory to hear %u ranks", r->ranks);
    int status = r->rank ? 0 : nccl_of(t)->library.new_id(id);
    bool ok = !rt_ranks_gather(t, RT_NUMBER, id, sizeof *id, all);
    if (status) failed(t->devices, NULL, status, "a new communicator");
    *id = all[0];
    free(all);
    return ok && !status;
}

static bool make_world(struct step_instance *t, struct rt_nccl_id id)
{
    const struct nccl *n = nccl_of(t);
    struct rt_nccl_config config = {.size = sizeof config,
                                    .magic = CONFIG_MAGIC,
                                    .version = NCCL_OLDEST,
                                    .cga = INT_MIN,
                                    .least_blocks = INT_MIN,
                                    .most_blocks = INT_MIN,
                                    .share = INT_MIN,
                                    .traffic = INT_MIN};
    bool ok = true;
    int status = n->library.begin();
    for (RT_MINE(t, d)) {
        struct rt_cuda_device *g = status ? NULL : rt_cuda_enter(d);
        if (!g) continue;
        status = n->library.init(&side(d)->world, (int)t->mesh_count, id, (int)d->index, &config);
        if (status == NCCL_IN_PROGRESS) status = NCCL_SUCCESS;
        rt_cuda_leave(g);
    }
    int ended = n->library.end();
    if (!status) status = ended ? ended : NCCL_IN_PROGRESS; /* each is asked */
    for (RT_MINE(t, d)) ok = ok && settled(d, side(d)->world, status, "joining its communicator");
    return ok;
}

/* A communicator for each set of axes, of the devices that stand in a row along these. */
static bool divide(struct step_instance *t, uint32_t axes)
{
    const struct nccl *n = nccl_of(t);
    uint32_t every = (1u << t->program->axis_count) - 1;
    bool ok = true;
    if (rt_group_of(t->devices, axes)->count == t->mesh_count) {
        for (RT_MINE(t, d)) side(d)->comms[axes] = side(d)->world;
        return true;
    }
    int status = n->library.begin();
    for (RT_MINE(t, d)) {
        struct rt_cuda_device *g = status ? NULL : rt_cuda_enter(d); /* without a context it makes one on another */
        if (!g) continue;
        status = n->library.split(side(d)->world, d->position[every & ~axes], (int)d->index, &side(d)->comms[axes],
                                  NULL);
        if (status == NCCL_IN_PROGRESS) status = NCCL_SUCCESS;
        rt_cuda_leave(g);
    }
    int ended = n->library.end();
    if (!status) status = ended ? ended : NCCL_IN_PROGRESS; /* each is asked */
    for (RT_MINE(t, d))
        ok = ok && settled(d, side(d)->world, status, "dividing its communicator") &&
             settled(d, side(d)->comms[axes], status, "dividing its communicator");
    return ok;
}

static bool plan(struct step_instance *t)
{
    struct nccl *n = nccl_of(t);
    bool used[1 << RT_MAX_AXES] = {false};
    uint64_t room = 0;
    struct rt_nccl_id id;
    if (t->device_ops != &stepc_part_gpu.ops) return !rt_fail(NULL, STEP_EDEVICE, "transport \"nccl\" is for GPUs");
    n->devices = rt_alloc(t, t->local_count * sizeof *n->devices);
    if (!n->devices || !rt_groups_make(t)) return !rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    if (!needs(t, used, &room)) return false;
    bool ok = true;
    for (RT_MINE(t, d)) ok = ok && (!room || (side(d)->room = rt_alloc_device(d, room)));
    if (!ok)
        return !rt_fail(NULL, STEP_ENOMEM, "no memory for collectives: %llu bytes on each device",
                        (unsigned long long)room);
    struct rt_ranks *r = t->peers;
    ok = share_id(t, &id);
    r->doing = "joining of NCCL's communicators";
    ok = ok && make_world(t, id);
    for (uint32_t axes = 0; ok && axes < 1u << t->program->axis_count; axes++) ok = !used[axes] || divide(t, axes);
    r->doing = NULL;
    return ok;
}

/* Every communicator of a device once, the whole mesh's last; NULL: none. */
static void **comm_at(const struct step_instance *t, struct device_side *s, uint32_t i)
{
    uint32_t sets = 1u << t->program->axis_count;
    return i == sets ? &s->world : s->comms[i] == s->world ? NULL : &s->comms[i];
}

/* All are told before any is waited for, and all have ended before any is given back: a library waits for its peers. */
static bool leave(struct step_instance *t, struct rt_device *d, int stage)
{
    const struct rt_nccl_library *n = &nccl_of(t)->library;
    bool ok = true;
    for (uint32_t i = 0; ok && i <= 1u << t->program->axis_count; i++) {
        void **comm = comm_at(t, side(d), i);
        if (!comm || !*comm) continue;
        int status = stage == 0 ? n->finalize(*comm) : NCCL_IN_PROGRESS;
        if (stage == 0 && status == NCCL_IN_PROGRESS) status = NCCL_SUCCESS;
        if (stage < 2) ok = settled(d, *comm, status, "leaving its communicator");
        else n->destroy(*comm), *comm = NULL;
    }
    if (stage == 2) memset(side(d)->comms, 0, sizeof side(d)->comms);
    return ok;
}

static void close_nccl(struct step_instance *t)
{
    struct rt_ranks *r = t->peers;
    struct nccl *n = r->gpus;
    bool clean = !r->broken && !atomic_load(&t->failed) && !t->poisoned;
    for (int stage = 0; n && n->devices && stage < 4; stage++)
        for (RT_MINE(t, d)) {
            struct rt_cuda_device *g = d->handle;
            if (!g || rt_cuda_begin(g)) continue;
            if (stage == 3) abandon(d);
            else clean = clean && leave(t, d, stage);
            rt_cuda_leave(g);
        }
    rt_comm_mpi.close(t); /* messages, whatever carries them */
}

/* ---------------------------------------------------------------- collectives */

struct work {
    struct rt_device *d;
    struct rt_cuda_device *g;
    const struct rt_nccl_library *n;
    struct rt_worker *w;
    const struct stepc_command *c; /* a region */
    const struct rt_group *group;
    void *comm;
    char *from, *to;
    uint32_t me, item;
    int64_t piece;
    uint32_t open; /* regions of the group that is open */
    int cuda;      /* status of the driver, which is another one's */
};

/* Regions that need no room of their own are given at once: of each call the library makes a thread. */
enum { MOST_TOGETHER = 64 };

static bool end_together(struct work *x, int status)
{
    if (!x->open) return settled(x->d, x->comm, status, rt_comm_kind(x->c));
    int ended = x->n->end();
    x->open = 0;
    return settled(x->d, x->comm, status ? status : ended, rt_comm_kind(x->c));
}

/* What a call said, which is asked for where its group ends. */
static bool taken(struct work *x, int status)
{
    return x->open && (!status || status == NCCL_IN_PROGRESS) ? true : end_together(x, status);
}

static bool begin_together(struct work *x)
{
    bool alone = by_kernel(x->c) || room_of(x->c, x->group->count);
    if (x->open && (alone || x->open == MOST_TOGETHER) && !end_together(x, 0)) return false;
    if (alone || !x->piece) return true;
    int status = x->open++ ? 0 : x->n->begin();
    return !status || end_together(x, status);
}

static int dtype_of(const struct work *x) { return rt_nccl_dtype(x->c->dtype); }
static int op_of(const struct work *x)
{
    return x->c->reduction == STEPC_SUM ? NCCL_SUM : x->c->reduction == STEPC_MAX ? NCCL_MAX : NCCL_MIN;
}
static size_t bytes_of(const struct work *x) { return (size_t)x->piece * x->item; }

static bool copy(struct work *x, char *to, struct rt_spread into, const char *from, struct rt_spread out)
{
    x->cuda = rt_cuda_copy_piece(x->g, to, into, from, out, x->piece, x->item);
    return !x->cuda;
}

/* All pieces of the operand one behind another: where they lie so already, or packed into the room. */
static const char *packed(struct work *x)
{
    uint32_t all = x->group->count;
    struct rt_spread dense = {x->piece, 1, 0};
    if (in_one_run(rt_piece_from(x->c, all, 0), x->piece)) return x->from;
    for (uint32_t k = 0; k < all; k++)
        if (!copy(x, side(x->d)->room + k * bytes_of(x), dense, x->from, rt_piece_from(x->c, all, k))) return NULL;
    return side(x->d)->room;
}

static bool unpack(struct work *x, const char *from)
{
    struct rt_spread dense = {x->piece, 1, 0};
    for (uint32_t k = 0; k < x->group->count; k++)
        if (!copy(x, x->to, rt_piece_into(x->c, x->group->count, k), from + k * bytes_of(x), dense)) return false;
    return true;
}

/* Of members that all hold `count` elements: gathered, then summed by the kernel. */
static int own_sum(struct work *x)
{
    const char *parts[RT_CUDA_MOST_SUMMED];
    uint32_t all = x->group->count;
    size_t bytes = (size_t)x->c->count * x->item;
    int status = x->n->all_gather(x->from, side(x->d)->room, bytes, NCCL_BYTES, x->comm, x->g->stream);
    if (!taken(x, status)) return -1;
    for (uint32_t k = 0; k < all; k++) parts[k] = side(x->d)->room + k * bytes;
    bool whole = x->c->collective == STEPC_ALL_REDUCE;
    x->cuda = rt_cuda_sum(x->w, x->c, parts, all, x->to, 0, x->piece, rt_piece_from(x->c, all, whole ? 0 : x->me));
    return 0;
}

/* Pieces that go from some to some. */
static int exchange(struct work *x)
{
    uint32_t all = x->group->count;
    bool cut = rt_piece_from(x->c, all, 0).parts > 1, joined = rt_piece_into(x->c, all, 0).parts > 1;
    const char *from = cut ? packed(x) : x->from;
    bool apart = joined && !in_one_run(rt_piece_into(x->c, all, 0), x->piece);
    char *to = apart ? side(x->d)->room + (from == side(x->d)->room ? bytes_of(x) * all : 0) : x->to;
    int status = from ? x->n->begin() : 0;
    for (uint32_t k = 0; from && !status && k < all; k++) {
        size_t out = cut ? k * bytes_of(x) : 0, in = joined ? k * bytes_of(x) : 0;
        if (rt_piece_goes(x->c, all, x->me, k))
            status = x->n->send(from + out, bytes_of(x), NCCL_BYTES, (int)k, x->comm, x->g->stream);
        if (status == NCCL_IN_PROGRESS) status = NCCL_SUCCESS;
        if (!status && rt_piece_goes(x->c, all, k, x->me))
            status = x->n->receive(to + in, bytes_of(x), NCCL_BYTES, (int)k, x->comm, x->g->stream);
        if (status == NCCL_IN_PROGRESS) status = NCCL_SUCCESS;
    }
    int ended = from ? x->n->end() : 0;
    if (!taken(x, status ? status : ended)) return -1;
    if (from && apart) unpack(x, to);
    return 0;
}

/* 0, or -1: rt_give_up was called. What the driver says is left in x->cuda. */
static int region(struct work *x)
{
    const struct rt_nccl_library *n = x->n;
    void *stream = x->g->stream;
    int status = 0;
    if (!x->piece) return 0;
    if (by_kernel(x->c)) return own_sum(x);
    switch (x->c->collective) {
    case STEPC_ALL_REDUCE:
        status = n->all_reduce(x->from, x->to, (size_t)x->piece, dtype_of(x), op_of(x), x->comm, stream);
        break;
    case STEPC_REDUCE_SCATTER: {
        const char *from = packed(x);
        if (from) status = n->reduce_scatter(from, x->to, (size_t)x->piece, dtype_of(x), op_of(x), x->comm, stream);
        break;
    }
    case STEPC_ALL_GATHER: {
        bool direct = in_one_run(rt_piece_into(x->c, x->group->count, 0), x->piece);
        char *to = direct ? x->to : side(x->d)->room;
        status = n->all_gather(x->from, to, bytes_of(x), NCCL_BYTES, x->comm, stream);
        if (!taken(x, status)) return -1;
        if (!direct) unpack(x, to);
        return 0;
    }
    case STEPC_BROADCAST:
        status = n->broadcast(x->from, x->to, bytes_of(x), NCCL_BYTES, (int)x->c->inner, x->comm, stream);
        break;
    default: return exchange(x);
    }
    return taken(x, status) ? 0 : -1;
}

static int all_regions(struct rt_worker *w, const struct stepc_command *c)
{
    struct step_instance *t = w->instance;
    const struct rt_group *group = rt_group_of(w->device, c->axes);
    uint32_t me = (uint32_t)w->device->position[c->axes];
    struct work x = {.d = w->device,
                     .g = w->device->handle,
                     .n = &nccl_of(t)->library,
                     .w = w,
                     .group = group,
                     .comm = side(w->device)->comms[c->axes],
                     .me = me,
                     .item = rt_dtype_bytes(c->dtype)};
    rt_cuda_flush(w->device);
    x.g->fresh = false;
    for (uint32_t i = 0; i < rt_regions(c); i++) {
        if (atomic_load(&t->failed) || !x.comm) return -1;
        x.c = rt_region(c, i);
        x.from = rt_cuda_operand(w, x.c, w->device, 0);
        x.to = rt_cuda_operand(w, x.c, w->device, 1);
        x.piece = rt_piece_count(x.c, group->count);
        if (!begin_together(&x) || region(&x)) return -1;
        if (x.cuda) {
            rt_cuda_failed(w->device, x.cuda, rt_comm_kind(c));
            return -1;
        }
    }
    return end_together(&x, 0) ? 1 : -1;
}

static int advance(struct rt_worker *w, const struct stepc_command *c, bool wait)
{
    struct step_instance *t = w->instance;
    struct rt_ranks *r = t->peers;
    (void)wait; /* nobody waits: it is launched as a kernel is */
    if (w->flight.stage) return 1;
    w->flight.stage = 1;
    rt_comm_enter(w, c);
    if (w->device == t->devices) atomic_store(&r->at, c), r->number++;
    if (!rt_cuda_enter(w->device)) return -1;
    int state = all_regions(w, c);
    rt_cuda_leave(w->device->handle);
    return state;
}

static void abort_ranks(struct step_instance *t) { rt_comm_mpi.abort(t); }

const struct rt_comm_ops rt_comm_nccl = {.name = "nccl",
                                         .open = open_nccl,
                                         .plan = plan,
                                         .advance = advance,
                                         .watch = watch,
                                         .meet = rt_ranks_meet,
                                         .gather = rt_ranks_gather,
                                         .scatter = rt_ranks_scatter,
                                         .reset = rt_groups_reset,
                                         .abort = abort_ranks,
                                         .close = close_nccl};
