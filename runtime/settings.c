/* What the host's options and the environment say, and what it makes of this machine: which kind of devices, which
 * transport, which of the mesh's devices are this process's. */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- options and environment */

static const char *variable(const struct rt_settings *s, const char *name)
{
    const char *value = s->o.flags & STEP_NO_ENV ? NULL : getenv(name);
    return value && *value ? value : NULL;
}

/* Digits, with a point whatever the locale of the host says: strtod would ask for its comma. */
static bool parse_number(const char *text, double *out, const char **end)
{
    double x = 0, unit = 0;
    const char *p = text;
    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !unit); p++)
        if (*p == '.') unit = 1;
        else if (unit < 1e15) x = x * 10 + (*p - '0'), unit *= 10;
    *out = unit ? x / unit : x;
    *end = p;
    return p > text + (*text == '.');
}

static step_status bad_variable(const char *name, const char *value, const char *wanted)
{
    return rt_fail(NULL, STEP_EINVAL, "%s=%s: expected %s", name, value, wanted);
}

step_status rt_settings_read(struct step_instance *t, struct rt_settings *s)
{
    const char *v, *end;
    double x;
    t->log_level = 1;
    if ((v = variable(s, "STEPC_LOG"))) {
        int level = 0;
        while (level < 4 && strcmp(v, rt_log_levels[level]) != 0) level++;
        if (level == 4) return bad_variable("STEPC_LOG", v, "error, warning, info or debug");
        t->log_level = level;
    }
    if (!s->o.threads && (v = variable(s, "STEPC_THREADS"))) {
        if (!parse_number(v, &x, &end) || *end || x < 1 || x > 4096 || x != (uint32_t)x)
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
        if (u == 4 || !(x >= 1 && x < 1.8e19))
            return bad_variable("STEPC_MAX_MEMORY", v, "bytes, with KiB, MiB or GiB");
        s->o.max_memory = (uint64_t)x;
    }
    if (!s->o.transport) s->o.transport = variable(s, "STEPC_TRANSPORT");
    if (!s->o.devices) s->o.devices = variable(s, "STEPC_DEVICES");
    if ((v = variable(s, "STEPC_PIN"))) {
        if ((*v != '1' && *v != '0') || v[1]) return bad_variable("STEPC_PIN", v, "1 or 0");
        if (*v == '1') s->o.flags |= STEP_PIN;
    }
    t->huge_pages = !(v = variable(s, "STEPC_HUGEPAGES")) || strcmp(v, "madvise") == 0;
    if (!t->huge_pages && strcmp(v, "never") != 0) return bad_variable("STEPC_HUGEPAGES", v, "madvise or never");
    s->trace = variable(s, "STEPC_TRACE");
    t->flags = s->o.flags;
    t->timeout_ns = rt_ns_of(s->o.timeout_ms ? s->o.timeout_ms : 60000);
    return STEP_OK;
}

/* ---------------------------------------------------------------- devices and transport */

/* The row of the transport; none is needed where one process holds a mesh without collectives. */
static step_status transport_choose(struct step_instance *t, const char *name)
{
    const struct stepc_mesh *mesh = t->program->mesh;
    if (strcmp(name, "self") == 0) {
        name = "thread";
        if (t->mesh_count != 1)
            return rt_fail(NULL, STEP_EDEVICE, "transport \"self\" has one device, the mesh has %u", t->mesh_count);
    }
    for (const struct rt_comm_ops *const *row = mesh ? mesh->rows : NULL; row && *row && !t->comm; row++)
        if (strcmp((*row)->name, name) == 0) t->comm = *row;
    if (t->comm || strcmp(name, "thread") == 0) return STEP_OK;
    bool gpus = strcmp(name, "nccl") == 0;
    if (gpus || strcmp(name, "mpi") == 0)
        return rt_fail(NULL, gpus ? STEP_EUNSUPPORTED : STEP_EDEVICE,
                       "transport \"%s\" needs %sa mesh: compile %s--mesh data=N", name, gpus ? "GPUs of " : "",
                       gpus ? "--target cuda " : "");
    return rt_fail(NULL, STEP_EINVAL, "transport \"%s\": expected \"thread\", \"mpi\", \"nccl\" or \"self\"", name);
}

step_status rt_settings_apply(struct step_instance *t, const struct rt_settings *s)
{
    const struct stepc_program *p = t->program;
    if (p->choice) t->program = p = p->choice->choose(t, s->o.devices);
    if (p->version != STEPC_TABLES)
        return rt_fail(NULL, STEP_EVERSION, "tables of version %u, this runtime reads %d", p->version, STEPC_TABLES);
    t->ranks = t->mesh_count = 1;
    for (uint32_t a = 0; a < p->axis_count; a++) t->mesh_count *= (uint32_t)p->axis_sizes[a];
    t->device_ops = p->gpu ? &p->gpu->ops : &rt_device_cpu;
    step_status status = t->device_ops->check(t, s->o.devices);
    if (!status) status = transport_choose(t, s->o.transport ? s->o.transport : "thread");
    if (status) return status;
    if (s->o.seed) return rt_fail(NULL, STEP_EUNSUPPORTED, "seed: the seed is fixed by the document");
    t->local_count = t->mesh_count;
    if (t->comm && t->comm->open) return p->mesh->open(t, s->o.communicator);
    return s->o.communicator ? rt_fail(NULL, STEP_EUNSUPPORTED, "communicator: transport \"thread\" takes none")
                             : STEP_OK;
}
