/* read and write: single tensors between arrays of the host and the instance. */
#include "runtime/rt.h"

static step_status access(struct step_instance *t, const struct step_array *from, const char *call)
{
    struct step_array a;
    int64_t stride[RT_MAX_RANK + 1];
    const char *why = NULL;
    bool write = *call == 'w';
    if (!rt_take(&a, sizeof a, from) || !a.name)
        return rt_fail(t, STEP_EINVAL, "%s: wrong size field or no name", call);
    int32_t i = rt_slot_find(t, a.name);
    if (i < 0) return rt_fail(t, STEP_ENOTFOUND, "%s: no tensor \"%s\"", call, a.name);
    const struct stepc_slot *s = &t->program->slots[i];
    step_status status = s->role == STEP_INPUT ? STEP_OK : rt_array_check(t, &a, s, 0, stride, !write);
    if (s->role == STEP_INPUT) why = "an input, which is not kept";
    else if (!t->initialized) why = "call init or load first";
    else if (!rt_slot_stored(s) && write) why = "computed, not stored";
    if (!status && why) status = rt_fail(t, STEP_EINVAL, "%s: \"%s\": %s", call, a.name, why);
    if (t->ranks > 1 && s->role != STEP_INPUT) status = t->program->mesh->same(t, status, s, &a, stride, write);
    if (!status && !write && s->computed) status = rt_derive(t); /* with the other ranks */
    if (status) return status;
    if (!write) rt_fetch(t, s, a.data, a.shape, stride);
    if (!write) return STEP_OK;
    rt_state_changed(t);
    if (!rt_views_write(t, s, &a, stride, &status))
        rt_scatter(t, s, (char *)a.data + rt_part_shift(t, s, a.shape, stride), stride);
    if (i == t->step_slot) rt_step_counter(t);
    return status;
}

static step_status enter(struct step_instance *t, const struct step_array *array, const char *call)
{
    if (!t || !array) return rt_fail(t, STEP_EINVAL, "%s: null pointer", call);
    step_status status = rt_enter(t, false);
    return status ? status : rt_leave(t, access(t, array, call));
}

step_status rt_read(struct step_instance *t, const struct step_array *out) { return enter(t, out, "read"); }

step_status rt_write(struct step_instance *t, const struct step_array *in) { return enter(t, in, "write"); }
