/* Joins the ranks of a mesh: opens the plug-in of the MPI that they were started with, and finds out who they are. */
#include "runtime/comm_ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <stepc/step_tools.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the plug-in */

/* The folder of this object; it may have been loaded by a descriptor, so that the linker does not know. */
static void own_folder(char *folder, size_t size)
{
    char line[4096 + 128];
    uintptr_t here = (uintptr_t)&rt_comm_mpi;
    FILE *maps = fopen("/proc/self/maps", "r");
    *folder = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        char *end, *path = strchr(line, '/'), *last = strrchr(line, '/');
        uintptr_t from = strtoul(line, &end, 16), to = strtoul(end + (*end == '-'), NULL, 16);
        if (here < from || here >= to || !path) continue;
        *last = 0;
        snprintf(folder, size, "%s", *path ? path : "/");
    }
    if (maps) fclose(maps);
}

/* MPI implementations have no common binary interface: the plug-in has to be one for that which the host has loaded, or
 * whose launcher started this process; variables tell. */
static const struct {
    char family[8], library[9], ranks[22], symbol[22];
} mpis[] = {{"openmpi", "Open MPI", "OMPI_COMM_WORLD_SIZE", "ompi_mpi_comm_world"},
            {"mpich", "MPICH", "PMI_SIZE", "MPIR_Dup_fn"}};
enum { MPIS = sizeof mpis / sizeof *mpis };

static int family_wanted(void)
{
    for (int i = 0; i < MPIS; i++)
        if (dlsym(RTLD_DEFAULT, mpis[i].symbol)) return i;
    for (int i = 0; i < MPIS; i++)
        if (getenv(mpis[i].ranks)) return i;
    return -1;
}

static const struct stepc_plugin *plugin_at(const char *folder, size_t length, const char *family, char *why,
                                            size_t size)
{
    char path[4096 + 64];
    snprintf(path, sizeof path, "%.*s%slibstepc_mpi%s%s.so", (int)length, folder, length ? "/" : "", *family ? "." : "",
             family);
    if (length && access(path, F_OK)) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* components of MPI look for its symbols */
    stepc_plugin_fn *query = NULL;
    if (library) *(void **)&query = dlsym(library, STEPC_PLUGIN_QUERY);
    const struct stepc_plugin *p = query ? query() : NULL;
    if (p && p->version == STEPC_PLUGIN) return p;
    if (p) snprintf(why, size, "%.300s is of version %u, this object needs %d", path, p->version, STEPC_PLUGIN);
    else if (length || !*why) snprintf(why, size, "%.300s", library ? "it is no plug-in of stepc" : dlerror());
    return NULL;
}

static const struct stepc_plugin *plugin_find(uint32_t flags, int family, char *why, size_t size)
{
    char own[4096];
    own_folder(own, sizeof own);
    const char *named = family < 0 ? "" : mpis[family].family,
               *paths[] = {flags & STEP_NO_ENV ? NULL : getenv("STEPC_PLUGIN_PATH"), own};
    const struct stepc_plugin *p = NULL;
    for (int plain = !*named; !p && plain < 2; plain++) {
        const char *what = plain ? "" : named;
        for (int i = 0; i < 2; i++)
            for (const char *at = paths[i]; !p && at && *at; at += strcspn(at, ":"), at += *at == ':')
                if (*at != ':') p = plugin_at(at, strcspn(at, ":"), what, why, size);
        if (!p) p = plugin_at("", 0, what, why, size);
    }
    return p;
}

/* One that belongs to another MPI finds itself alone, and so does one that srun does not speak to. */
static bool fits(const struct stepc_plugin *p, int family, uint32_t ranks, char *why, size_t size)
{
    const char *started = family < 0 ? getenv("SLURM_STEP_NUM_TASKS") : getenv(mpis[family].ranks);
    if (!started || ranks > 1 || atoi(started) < 2) return true;
    snprintf(why, size, "%s ranks were started, but the plug-in, built with %s, finds itself alone: %s%s%s", started,
             p->library, family < 0 ? "" : "it has to be built with the MPI whose mpirun starts the ranks (",
             family < 0 ? "srun needs --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH" : mpis[family].library,
             family < 0 ? "" : ")");
    return false;
}

/* ---------------------------------------------------------------- begin and end */

static void introduce(const struct step_instance *t, struct rt_rank *me)
{
    const struct stepc_program *p = t->program;
    *me = (struct rt_rank){.pid = getpid(), .tables = p->version, .devices = t->mesh_count};
    if (gethostname(me->host, sizeof me->host - 1)) snprintf(me->host, sizeof me->host, "?");
    snprintf(me->name, sizeof me->name, "%s", p->name);
    size_t at = 0;
    for (uint32_t a = 0; a < p->axis_count && at < sizeof me->mesh; a++)
        at += (size_t)snprintf(me->mesh + at, sizeof me->mesh - at, "%s%s=%lld", a ? "," : "", p->axis_names[a],
                               (long long)p->axis_sizes[a]);
    uint64_t sizes[] = {p->state_bytes, p->result_bytes, p->constant_bytes, p->entry_count, p->slot_count};
    me->object = st_crc32(st_crc32(0, p->manifest, p->manifest ? strlen(p->manifest) : 0), sizes, sizeof sizes);
    sched_getaffinity(0, sizeof me->cores, me->cores);
}

/* Every rank comes to the same conclusion, because all have the same in hand. */
static step_status same_object(const struct rt_ranks *r)
{
    char who[120];
    for (uint32_t k = 1; k < r->ranks; k++) {
        const struct rt_rank *a = &r->about[0], *b = &r->about[k];
        if (a->object == b->object && a->tables == b->tables && a->devices == b->devices) continue;
        return rt_fail(NULL, STEP_EPEER,
                       "%s runs another object (%s, mesh %s) than rank 0 (%s, mesh %s): start all with the "
                       "same file",
                       rt_rank_text(r, k, who, sizeof who), b->name, b->mesh, a->name, a->mesh);
    }
    return STEP_OK;
}

/* Ranks of one host that may use the same cores share them. */
static uint32_t beside(const struct rt_ranks *r)
{
    const struct rt_rank *me = &r->about[r->rank];
    uint32_t n = 0;
    for (uint32_t k = 0; k < r->ranks; k++)
        n += !strcmp(r->about[k].host, me->host) && CPU_EQUAL_S(sizeof me->cores, r->about[k].cores, me->cores);
    return n;
}

step_status rt_ranks_join(struct step_instance *t, uint32_t *rank, uint32_t *ranks)
{
    struct rt_ranks *r = t->peers;
    *rank = r->rank;
    *ranks = r->ranks;
    struct rt_rank me;
    introduce(t, &me);
    struct rt_rank *about = rt_alloc(t, r->ranks * sizeof *about);
    if (!about) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    step_status status = rt_ranks_gather(t, 0, &me, sizeof me, about);
    r->about = about;
    if (status) return rt_leave(t, status);
    t->beside = beside(r);
    status = same_object(r);
    if (status) r->plugin->close(r->world, true);
    return status;
}

static step_status open_ranks(struct step_instance *t, const void *communicator, uint32_t *rank, uint32_t *ranks)
{
    char why[512] = "";
    int family = family_wanted();
    struct rt_ranks *r = t->peers = rt_alloc(t, sizeof *r);
    if (!r) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    if (!(r->plugin = plugin_find(t->flags, family, why, sizeof why)))
        return rt_fail(NULL, STEP_EDEVICE,
                       "transport \"mpi\" needs libstepc_mpi.so, which is built where mpicc is there (Debian: "
                       "libopenmpi-dev or libmpich-dev), beside the object or in a folder of STEPC_PLUGIN_PATH: %s",
                       why);
    int64_t patience = t->timeout_ns; /* all have to be started */
    r->world = r->plugin->open(communicator, patience, &r->rank, &r->ranks, why, sizeof why);
    if (!r->world) return rt_fail(NULL, STEP_EPEER, "transport \"mpi\" (%s): %s", r->plugin->library, why);
    if (!communicator && !fits(r->plugin, family, r->ranks, why, sizeof why))
        return rt_fail(NULL, STEP_EDEVICE, "transport \"mpi\": %s", why);
    return rt_ranks_join(t, rank, ranks);
}

static void close_ranks(struct step_instance *t)
{
    struct rt_ranks *r = t->peers;
    bool clean = !r->broken && !atomic_load(&t->failed);
    rt_cross_close(r);
    r->leaving = true;
    if (clean) rt_ranks_tell(t, STEPC_LEAVING, "by destroy");
    if (clean) clean = !rt_ranks_meet(t, STEP_OK, UINT64_MAX);
    struct stepc_notice n; /* what nobody takes, an MPI complains of */
    uint64_t until = rt_now() + 200000000;
    while (clean && r->left_count + 1 < r->ranks && rt_now() < until) r->left_count += r->plugin->heard(r->world, &n);
    r->plugin->close(r->world, clean);
}

static void abort_ranks(struct step_instance *t)
{
    struct rt_ranks *r = t->peers;
    r->plugin->abort(r->world, 3);
}

const struct rt_comm_ops rt_comm_mpi = {.name = "mpi",
                                        .open = open_ranks,
                                        .plan = rt_cross_plan,
                                        .advance = rt_cross_advance,
                                        .meet = rt_ranks_meet,
                                        .gather = rt_ranks_gather,
                                        .scatter = rt_ranks_scatter,
                                        .abort = abort_ranks,
                                        .close = close_ranks};
