/* The CPU as a device: its memory is the host's, its kernels are functions of the object. What only a team does
 * (several workers, single commands) lies with the team (team.c), which small objects do not carry. */
#include "runtime/rt.h"

#include <string.h>

/* The highest level of x86-64 that does without a feature which some level has. */
static char level_without(const char *feature)
{
    if (strncmp(feature, "amx", 3) == 0) return '4';
    return strncmp(feature, "avx512", 6) != 0 ? '2' : feature[7] == 'f' ? '4' : '3'; /* avx512bf16 */
}

static step_status check(struct step_instance *t, const char *devices)
{
    char name[64];
    const char *missing = rt_missing_feature(t->program->features, name, sizeof name);
    if (missing)
        return rt_fail(NULL, STEP_EDEVICE, "this CPU or system lacks %s: compile with --cpu x86-64-v%c", missing,
                       level_without(missing));
    return devices && strcmp(devices, "cpu") != 0
               ? rt_fail(NULL, STEP_EDEVICE, "devices \"%s\": this object was compiled for the CPU", devices)
               : STEP_OK;
}

static void *get(struct rt_device *d, size_t bytes) { return rt_host_get(d->instance, bytes); }

static void put(struct rt_device *d, void *data, size_t bytes) { rt_host_put(d->instance, data, bytes); }

static void copy(struct rt_device *d, void *to, const void *from, size_t bytes, enum rt_direction direction)
{
    (void)d, (void)direction;
    memcpy(to, from, bytes);
}

static void launch_entry(struct rt_worker *w, const struct stepc_entry *e, void *const *buffers)
{
    e->whole(buffers, w->scratch);
}

const struct rt_device_ops rt_device_cpu = {.name = "cpu",
                                            .kind = 1,
                                            .shared = true,
                                            .check = check,
                                            .workers = rt_cpu_workers,
                                            .alloc = get,
                                            .free = put,
                                            .copy = copy,
                                            .launch = rt_cpu_launch,
                                            .launch_entry = launch_entry};
