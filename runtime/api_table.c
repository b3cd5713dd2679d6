/* The entries of the table that concern no single file: what is not there yet, what needs no gate. */
#include "runtime/rt.h"

#include <stepc/step_tools.h>
#include <string.h>

const char *rt_item(const struct step_instance *t, const char *name)
{
    const struct rt_directories *directories = t && t->program->checkpoint ? t->program->checkpoint->directories : NULL;
    return directories && name ? directories->item(t, name) : NULL;
}

void rt_interrupt(struct step_instance *t)
{
    if (t) atomic_store(&t->interrupted, 1);
}

void rt_abort_peers(struct step_instance *t)
{
    if (t && t->comm && t->comm->abort) t->comm->abort(t);
}

step_status rt_memory(const struct step_instance *t, uint32_t device, struct step_memory *out)
{
    if (!t || !rt_sized(out)) return rt_fail(t, STEP_EINVAL, "%s: null pointer or wrong size field", "memory");
    if (device - t->first_local >= t->local_count)
        return rt_fail(t, STEP_ENOTFOUND, "memory: device %u of %u", device, t->mesh_count);
    const struct stepc_program *p = t->program;
    const struct rt_device *d = &t->devices[device - t->first_local];
    struct step_memory m = {.lower_bound = p->memory[7], .planned_peak = d->bytes, .measured_peak = d->bytes};
    memcpy(&m.parameters, p->memory, 7 * sizeof m.parameters); /* to `workspace`, in this order */
    rt_give(out, &m, sizeof m);
    return STEP_OK;
}

step_status rt_place(const struct step_instance *t, struct step_place *out)
{
    if (!t || !rt_sized(out)) return rt_fail(t, STEP_EINVAL, "%s: null pointer or wrong size field", "place");
    struct step_place p = {0, t->rank, t->ranks, t->mesh_count, t->first_local, t->local_count};
    rt_give(out, &p, sizeof p);
    return STEP_OK;
}

step_status rt_agree_number(struct step_instance *t, uint64_t mine, uint64_t *largest)
{
    if (!largest) return rt_fail(t, STEP_EINVAL, "%s: null pointer", "agree");
    step_status status = rt_enter(t, "agree");
    if (status) return status;
    *largest = mine;
    return rt_leave(t, t->ranks > 1 ? t->program->mesh->largest(t, largest) : STEP_OK);
}

step_status rt_trace(struct step_instance *t, const char *path)
{
    if (t && !t->program->trace)
        return path ? rt_fail(t, STEP_EUNSUPPORTED, "trace: one function, or compiled --without trace") : STEP_OK;
    step_status status = rt_enter(t, "trace");
    if (status) return status;
    return rt_leave(t, path ? t->program->trace->begin(t, path, false) : t->program->trace->stop(t));
}

/* Of objects without views. */
__attribute__((weak)) void rt_views_settle(struct step_instance *t) { (void)t; }

__attribute__((weak)) bool rt_views_keep(struct step_instance *t)
{
    (void)t;
    return false;
}

__attribute__((weak)) bool rt_views_touch(struct step_instance *t, const struct step_array *a, const int64_t *stride,
                                          size_t item)
{
    (void)t, (void)a, (void)stride, (void)item;
    return false;
}

__attribute__((weak)) bool rt_views_write(struct step_instance *t, const struct stepc_slot *s,
                                          const struct step_array *a, const int64_t *stride, step_status *status)
{
    (void)t, (void)s, (void)a, (void)stride, (void)status;
    return false;
}

__attribute__((weak)) step_status rt_dlpack(struct step_instance *t, const char *name,
                                            struct DLManagedTensorVersioned **out)
{
    (void)name, (void)out;
    return rt_fail(t, STEP_EUNSUPPORTED, "dlpack: needs compile --views");
}

__attribute__((weak)) step_status rt_dlpack_legacy(struct step_instance *t, const char *name,
                                                   struct DLManagedTensor **out)
{
    (void)name, (void)out;
    return rt_dlpack(t, NULL, NULL);
}

static const struct step_api tools_table = {
    .size = sizeof tools_table, .abi_major = STEP_ABI_MAJOR, .abi_minor = STEP_ABI_MINOR, RT_TABLE};

const struct step_api *rt_tools_api(void) { return &tools_table; }
