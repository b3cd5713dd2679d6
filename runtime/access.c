/* read and write: single tensors between arrays of the host and the instance. */
#include "runtime/rt.h"

/* Finds the tensor of read and write and checks what both share; called after rt_enter. */
static step_status access_check(struct step_instance *t, const struct step_array *from, struct step_array *a,
                                const struct stepc_slot **slot, int64_t *stride, const char *call)
{
    if (!rt_take(a, sizeof *a, from) || !a->name)
        return rt_fail(t, STEP_EINVAL, "%s: wrong size field or no name", call);
    int32_t i = rt_slot_find(t, a->name);
    if (i < 0) return rt_fail(t, STEP_ENOTFOUND, "%s: no tensor \"%s\"", call, a->name);
    *slot = &t->program->slots[i];
    if ((*slot)->role == STEP_INPUT)
        return rt_fail(t, STEP_EINVAL, "%s: \"%s\" is an input; inputs are not kept", call, a->name);
    step_status status = rt_array_check(t, a, *slot, 0, stride);
    if (!status && !t->initialized) status = rt_fail(t, STEP_EINVAL, "%s: call init or load first", call);
    return status;
}

step_status rt_read(struct step_instance *t, const struct step_array *out)
{
    struct step_array a;
    const struct stepc_slot *slot = NULL;
    int64_t stride[RT_MAX_RANK + 1];
    if (!t || !out) return rt_fail(NULL, STEP_EINVAL, "read: null pointer");
    step_status status = rt_enter(t, false);
    if (status) return status;
    status = access_check(t, out, &a, &slot, stride, "read");
    if (!status && slot->computed) status = rt_derive(t);
    if (!status) rt_gather(t, slot, a.data, stride);
    return rt_leave(t, status);
}

step_status rt_write(struct step_instance *t, const struct step_array *in)
{
    struct step_array a;
    const struct stepc_slot *slot = NULL;
    int64_t stride[RT_MAX_RANK + 1];
    if (!t || !in) return rt_fail(NULL, STEP_EINVAL, "write: null pointer");
    step_status status = rt_enter(t, false);
    if (status) return status;
    status = access_check(t, in, &a, &slot, stride, "write");
    if (!status && !rt_slot_stored(slot))
        status = rt_fail(t, STEP_EINVAL, "write: \"%s\" is computed, not stored", a.name);
    if (!status) rt_scatter(t, slot, a.data, stride);
    if (!status && t->step_slot >= 0 && slot == &t->program->slots[t->step_slot]) rt_step_counter(t);
    return rt_leave(t, status);
}
