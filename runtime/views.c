/* Views of objects compiled with --views: tensors as the structs of DLPack 1.1, which point at the
 * instance's own memory, on a GPU too. They are to be read: what writes past `write` the step would not know of; the
 * older struct cannot say so. An address stays the tensor's as long as its view is there: a step that put the next
 * state into the other block copies it back (rt_views_settle), and destroy stops everything but leaves the memory to
 * the last view (rt_views_keep). */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

enum { VIEWS_READ_ONLY = 1, VIEWS_MAJOR = 1, VIEWS_MINOR = 1 };
enum { VIEWS_ENDED = 1, VIEWS_ONE = 2 }; /* in step_instance.views: destroyed; that for each view */

struct dl_tensor {
    void *data;
    int32_t device_type, device_id, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements */
    uint64_t byte_offset;
};
struct DLManagedTensor {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *);
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};
struct view {
    union {
        struct DLManagedTensor legacy;
        struct DLManagedTensorVersioned versioned;
    } as;
    int64_t shape[RT_MAX_RANK], strides[RT_MAX_RANK];
};

/* kDLFloat8_e4m3fn, kDLFloat8_e5m2, kDLBool and kDLBfloat among integers, unsigned ones and floats; by STEP_*. */
static const uint8_t codes[] = {0, 6, 1, 0, 1, 0, 1, 0, 1, 0, 10, 12, 2, 4, 2, 2};

/* From any thread, at any time. */
static void drop(struct step_instance *t)
{
    if (atomic_fetch_sub(&t->views, VIEWS_ONE) == VIEWS_ONE + VIEWS_ENDED) rt_release_all(t);
}

static void drop_legacy(struct DLManagedTensor *self)
{
    drop(self->context);
    free(self);
}

static void drop_versioned(struct DLManagedTensorVersioned *self)
{
    drop(self->context);
    free(self);
}

static step_status find(struct step_instance *t, const char *name, const struct stepc_slot **out)
{
    int32_t i = rt_slot_find(t, name);
    if (i < 0) return rt_fail(t, STEP_ENOTFOUND, "dlpack: no tensor \"%s\"", name);
    const struct stepc_slot *s = *out = &t->program->slots[i];
    if (s->role == STEP_INPUT) return rt_fail(t, STEP_EINVAL, "dlpack: \"%s\" is an input; inputs are not kept", name);
    if (s->computed) return rt_fail(t, STEP_EUNSUPPORTED, "dlpack: \"%s\" is computed when it is read: use read", name);
    if (rt_slot_sharded(s) && t->mesh_count > 1)
        return rt_fail(t, STEP_EUNSUPPORTED, "dlpack: \"%s\" is split over the mesh of %u devices: use read", name,
                       t->mesh_count);
    if (!t->device_ops->kind)
        return rt_fail(t, STEP_EUNSUPPORTED, "dlpack: \"%s\" lies where nobody else can read: use read", name);
    return t->initialized ? STEP_OK : rt_fail(t, STEP_EINVAL, "dlpack: call init or load first");
}

/* One of the two is asked for. */
static step_status export(struct step_instance *t, const char *name, struct DLManagedTensorVersioned **versioned,
                          struct DLManagedTensor **legacy)
{
    const struct stepc_slot *s = NULL;
    if (!t || !name || (!versioned && !legacy)) return rt_fail(t, STEP_EINVAL, "dlpack: null pointer");
    step_status status = rt_enter(t, "dlpack");
    if (status) return status;
    status = find(t, name, &s);
    if (status) return rt_leave(t, status);
    if (t->lent) t->program->lending->lent(t, RT_LENT_WAITS);
    struct view *v = calloc(1, sizeof *v);
    if (!v) return rt_leave(t, rt_fail(t, STEP_ENOMEM, "dlpack: out of memory"));
    if (s->rank) memcpy(v->shape, s->shape, (size_t)s->rank * sizeof *v->shape);
    rt_c_strides(v->strides, v->shape, s->rank, 1);
    struct dl_tensor tensor = {.data = rt_slot_address(t->devices, s),
                               .device_type = t->device_ops->kind,
                               .device_id = t->device_ops->number ? t->device_ops->number(t->devices) : 0,
                               .rank = s->rank,
                               .code = codes[s->dtype],
                               .bits = (uint8_t)(8 * rt_dtype_bytes(s->dtype)),
                               .lanes = 1,
                               .shape = v->shape,
                               .strides = v->strides};
    if (versioned) {
        v->as.versioned = (struct DLManagedTensorVersioned){VIEWS_MAJOR,    VIEWS_MINOR,     t,
                                                            drop_versioned, VIEWS_READ_ONLY, tensor};
        *versioned = &v->as.versioned;
    } else {
        v->as.legacy = (struct DLManagedTensor){tensor, t, drop_legacy};
        *legacy = &v->as.legacy;
    }
    if (!(atomic_fetch_add(&t->views, VIEWS_ONE) / VIEWS_ONE)) t->viewed = t->devices->state;
    return rt_leave(t, STEP_OK);
}

void rt_views_settle(struct step_instance *t)
{
    struct rt_device *d = t->devices;
    if (!atomic_load(&t->views) || d->state == t->viewed) return;
    t->device_ops->copy(d, t->viewed, d->state, t->program->state_bytes, RT_BETWEEN);
    d->other = d->state;
    d->state = d->ahead = t->viewed;
}

bool rt_views_touch(struct step_instance *t, const struct step_array *a, const int64_t *stride, size_t item)
{
    if (!atomic_load(&t->views)) return false;
    uintptr_t low = (uintptr_t)a->data, high = low + item;
    for (int32_t i = 0; i < a->rank; i++) {
        if (a->shape[i] < 1) return false;
        int64_t reach = stride[i] * (a->shape[i] - 1);
        if (reach < 0) low += (uintptr_t)reach;
        else high += (uintptr_t)reach;
    }
    const struct rt_device *d = t->devices;
    uintptr_t state = (uintptr_t)d->state, result = (uintptr_t)d->result;
    return (low < state + t->program->state_bytes && high > state) ||
           (low < result + t->program->result_bytes && high > result);
}

/* Written from a view of the instance itself, a tensor would change while it is read: a copy is written. */
bool rt_views_write(struct step_instance *t, const struct stepc_slot *s, const struct step_array *a,
                    const int64_t *stride, step_status *status)
{
    int64_t near[RT_MAX_RANK];
    size_t item = rt_dtype_bytes(s->dtype), bytes = item;
    if (!rt_views_touch(t, a, stride, item)) return false;
    rt_c_strides(near, a->shape, a->rank, item);
    for (int32_t i = 0; i < a->rank; i++) bytes *= (size_t)a->shape[i];
    char *copy = rt_host_get(t, bytes);
    if (!copy) {
        *status = rt_fail(t, STEP_ENOMEM, "write: no memory for %zu bytes of \"%s\"", bytes, s->name);
        return true;
    }
    rt_copy(copy, near, a->data, stride, a->shape, a->rank, item);
    rt_scatter(t, s, copy + rt_part_shift(t, s, a->shape, near), near);
    rt_host_put(t, copy, bytes);
    return true;
}

bool rt_views_keep(struct step_instance *t) { return atomic_fetch_or(&t->views, VIEWS_ENDED) != 0; }

step_status rt_dlpack(struct step_instance *t, const char *name, struct DLManagedTensorVersioned **out)
{
    return export(t, name, out, NULL);
}

step_status rt_dlpack_legacy(struct step_instance *t, const char *name, struct DLManagedTensor **out)
{
    return export(t, name, NULL, out);
}

const struct stepc_arrays stepc_part_views = {rt_outputs_apart};
