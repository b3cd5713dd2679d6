/* read and write: single tensors between arrays of the host and the instance. */
#include "runtime/rt.h"

static step_status access(struct step_instance *t, const struct step_array *from, bool write)
{
    struct step_array a;
    int64_t stride[RT_MAX_RANK + 1];
    const char *call = write ? "write" : "read";
    if (!rt_take(&a, sizeof a, from) || !a.name)
        return rt_fail(t, STEP_EINVAL, "%s: wrong size field or no name", call);
    int32_t i = rt_slot_find(t, a.name);
    if (i < 0) return rt_fail(t, STEP_ENOTFOUND, "%s: no tensor \"%s\"", call, a.name);
    const struct stepc_slot *s = &t->program->slots[i];
    if (s->role == STEP_INPUT)
        return rt_fail(t, STEP_EINVAL, "%s: \"%s\" is an input; inputs are not kept", call, a.name);
    step_status status = rt_array_check(t, &a, s, 0, stride, !write);
    if (!status && !t->initialized) status = rt_fail(t, STEP_EINVAL, "%s: call init or load first", call);
    if (!status && write && !rt_slot_stored(s))
        status = rt_fail(t, STEP_EINVAL, "write: \"%s\" is computed, not stored", a.name);
    if (t->ranks > 1) status = t->program->mesh->same(t, status, s, &a, stride, write);
    if (!status && !write && s->computed) status = rt_derive(t); /* with the other ranks */
    if (status) return status;
    if (write) rt_state_changed(t);
    if (!write) rt_fetch(t, s, a.data, a.shape, stride);
    else if (!rt_views_write(t, s, &a, stride, &status))
        rt_scatter(t, s, (char *)a.data + rt_part_shift(t, s, a.shape, stride), stride);
    if (write && i == t->step_slot) rt_step_counter(t);
    return status;
}

static step_status enter(struct step_instance *t, const struct step_array *array, bool write)
{
    if (!t || !array) return rt_fail(t, STEP_EINVAL, "%s: null pointer", write ? "write" : "read");
    step_status status = rt_enter(t, "read");
    return status ? status : rt_leave(t, access(t, array, write));
}

step_status rt_read(struct step_instance *t, const struct step_array *out) { return enter(t, out, false); }

step_status rt_write(struct step_instance *t, const struct step_array *in) { return enter(t, in, true); }
