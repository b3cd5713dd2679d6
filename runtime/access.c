/* read and write: single tensors between arrays of the host and the instance. */
#include "runtime/rt.h"

/* Whether a call has computed a metric or an output, which begins as zeros. */
static bool is_made(const struct step_instance *t, const struct stepc_slot *s)
{
    bool made = rt_slot_stored(s) || s->computed;
    for (uint32_t k = RT_STEP; !made && k < RT_ENTRIES; k++) /* not those that begin */
        made = t->ran >> k & 1 && rt_slot_made_by(t->entries[k].table, s);
    return made;
}

/* Written from a view of the instance itself, a tensor would change while it is read: a copy is written. */
static step_status write_of_view(struct step_instance *t, const struct stepc_slot *s, const struct step_array *a,
                                 const int64_t *stride)
{
    int64_t near[RT_MAX_RANK];
    size_t bytes = rt_dtype_bytes(s->dtype);
    rt_c_strides(near, a->shape, a->rank, bytes);
    for (int32_t i = 0; i < a->rank; i++) bytes *= (size_t)a->shape[i];
    char *copy = rt_host_get(t, bytes);
    if (!copy) return rt_fail(t, STEP_ENOMEM, "write: no memory for %zu bytes of \"%s\"", bytes, s->name);
    rt_copy(copy, near, a->data, stride, a->shape, a->rank, rt_dtype_bytes(s->dtype));
    rt_scatter(t, s, copy + rt_part_shift(t, s, a->shape, near), near);
    rt_host_put(t, copy, bytes);
    return STEP_OK;
}

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
    if (!status && !write && !is_made(t, s))
        status = rt_fail(t, STEP_EINVAL, "read: \"%s\" is not there yet: no call has computed it", a.name);
    if (t->ranks > 1) status = t->program->mesh->same(t, status, s, &a, stride, write);
    if (!status && !write && s->computed) status = rt_derive(t); /* with the other ranks */
    if (status) return status;
    if (write) rt_state_changed(t);
    if (!write) rt_fetch(t, s, a.data, a.shape, stride);
    else if (!rt_views_touch(t, a.data, stride, a.shape, a.rank, rt_dtype_bytes(s->dtype)))
        rt_scatter(t, s, (char *)a.data + rt_part_shift(t, s, a.shape, stride), stride);
    else status = write_of_view(t, s, &a, stride);
    if (write && i == t->step_slot) rt_step_counter(t);
    return status;
}

static step_status enter(struct step_instance *t, const struct step_array *array, bool write)
{
    if (!t || !array) return rt_fail(t, STEP_EINVAL, "%s: null pointer", write ? "write" : "read");
    step_status status = rt_enter(t, false);
    return status ? status : rt_leave(t, access(t, array, write));
}

step_status rt_read(struct step_instance *t, const struct step_array *out) { return enter(t, out, false); }

step_status rt_write(struct step_instance *t, const struct step_array *in) { return enter(t, in, true); }
