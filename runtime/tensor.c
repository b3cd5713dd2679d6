/* Tensors between host memory and the devices: strided copies, and the parts that devices of the mesh hold. A device is
 * meant by its number in the mesh where only its place counts, and by its struct rt_device where its memory does. */
#include "runtime/rt.h"

#include <string.h>

void rt_c_strides(int64_t *stride, const int64_t *shape, int32_t rank, size_t item)
{
    uint64_t s = item;
    for (int32_t i = rank; i-- > 0; s *= (uint64_t)shape[i]) stride[i] = (int64_t)s;
}

bool rt_dense(const int64_t *stride, const int64_t *shape, int32_t rank, size_t item)
{
    int64_t s = (int64_t)item;
    for (int32_t i = rank; i-- > 0; s *= shape[i])
        if (shape[i] != 1 && stride[i] != s) return false;
    return true;
}

void rt_copy(char *to, const int64_t *to_stride, const char *from, const int64_t *from_stride, const int64_t *shape,
             int32_t rank, size_t item)
{
    for (int32_t i = 0; i < rank; i++)
        if (shape[i] <= 0) return;
    /* trailing dimensions that are dense on both sides are one run of bytes */
    size_t run = item;
    while (rank > 0 && to_stride[rank - 1] == (int64_t)run && from_stride[rank - 1] == (int64_t)run)
        run *= (size_t)shape[--rank];
    int64_t at[RT_MAX_RANK + 1] = {0};
    for (;;) {
        memcpy(to, from, run);
        int32_t i = rank;
        while (i-- > 0) {
            to += to_stride[i];
            from += from_stride[i];
            if (++at[i] < shape[i]) break;
            to -= to_stride[i] * shape[i];
            from -= from_stride[i] * shape[i];
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

/* ---------------------------------------------------------------- parts */

bool rt_slot_sharded(const struct stepc_slot *s)
{
    for (int32_t i = 0; s->axes && i < s->rank; i++)
        if (s->axes[i]) return true;
    return false;
}

uint32_t rt_mesh_index(const struct step_instance *t, uint32_t device, uint32_t mask)
{
    uint32_t index = 0, scale = 1;
    for (uint32_t a = t->program->axis_count; a-- > 0;) { /* the last axis is the fastest */
        uint32_t size = (uint32_t)t->program->axis_sizes[a];
        if (mask >> a & 1) {
            index += device % size * scale;
            scale *= size;
        }
        device /= size;
    }
    return index;
}

bool rt_shard(const struct step_instance *t, uint32_t device, const struct stepc_slot *s, int64_t *start,
              int64_t *extent)
{
    bool some = true;
    for (int32_t i = 0; i < s->rank; i++) {
        int64_t index = 0, local = s->local ? s->local[i] : s->shape[i];
        for (uint32_t axes = s->axes ? s->axes[i] : 0; axes; axes >>= 4) {
            uint32_t a = (axes & 15) - 1;
            index = index * t->program->axis_sizes[a] + rt_mesh_index(t, device, 1u << a);
        }
        start[i] = index * local;
        int64_t left = s->shape[i] - start[i];
        extent[i] = left < local ? left : local;
        if (extent[i] <= 0) some = false;
    }
    return some;
}

bool rt_shard_owner(const struct step_instance *t, uint32_t device, const struct stepc_slot *s)
{
    uint32_t used = 0;
    for (int32_t i = 0; s->axes && i < s->rank; i++)
        for (uint32_t axes = s->axes[i]; axes; axes >>= 4) used |= 1u << ((axes & 15) - 1);
    return rt_mesh_index(t, device, ~used) == 0;
}

char *rt_slot_address(const struct rt_device *d, const struct stepc_slot *s)
{
    bool result = s->role == STEP_METRIC || s->role == STEP_OUTPUT ||
                  s->role == RT_INDEX; /* computed slots lie in the state block too */
    return (result ? d->result : d->state) + s->offset;
}

void rt_shard_copy(const struct step_instance *t, uint32_t device, const struct stepc_slot *s, struct rt_device *where,
                   char *part, char *host, const int64_t *stride, enum rt_direction direction)
{
    size_t item = rt_dtype_bytes(s->dtype);
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK], local[RT_MAX_RANK];
    if (where && t->device_ops->part) {
        t->device_ops->part(where, s, part, host, stride, direction);
        return;
    }
    if (!rt_shard(t, device, s, start, extent)) return;
    rt_c_strides(local, s->local ? s->local : s->shape, s->rank, item);
    for (int32_t i = 0; i < s->rank; i++) host += start[i] * stride[i];
    bool out = direction == RT_FROM_DEVICE;
    rt_copy(out ? host : part, out ? stride : local, out ? part : host, out ? local : stride, extent, s->rank, item);
}

/* Every device of this process that holds something to read, or all. */
static void local_copy(struct step_instance *t, const struct stepc_slot *s, char *host, const int64_t *stride,
                       enum rt_direction direction)
{
    for (RT_MINE(t, d))
        if (direction == RT_TO_DEVICE || (rt_slot_sharded(s) ? rt_shard_owner(t, d->index, s) : d == t->devices))
            rt_shard_copy(t, d->index, s, d, rt_slot_address(d, s), host, stride, direction);
}

bool rt_whole(const struct stepc_slot *s, const int64_t *shape)
{
    for (int32_t i = 0; i < s->rank; i++)
        if (shape[i] != s->shape[i]) return false;
    return true;
}

int64_t rt_part_shift(const struct step_instance *t, const struct stepc_slot *s, const int64_t *shape,
                      const int64_t *stride)
{
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK], shift = 0;
    if (t->ranks < 2 || !t->program->mesh->part(t, s, shape, start, extent)) return 0;
    for (int32_t i = 0; i < s->rank; i++) shift -= start[i] * stride[i]; /* from 0 on in all of the tensor */
    return shift;
}

void rt_gather(struct step_instance *t, const struct stepc_slot *s, char *to, const int64_t *stride)
{
    if (t->ranks > 1 && rt_slot_sharded(s)) t->program->mesh->exchange(t, s, to, stride, RT_FROM_DEVICE);
    else local_copy(t, s, to, stride, RT_FROM_DEVICE);
}

void rt_fetch(struct step_instance *t, const struct stepc_slot *s, char *to, const int64_t *shape,
              const int64_t *stride)
{
    if (rt_whole(s, shape)) rt_gather(t, s, to, stride);
    else
        for (RT_MINE(t, d))
            rt_shard_copy(t, d->index, s, d, rt_slot_address(d, s), to + rt_part_shift(t, s, shape, stride), stride,
                          RT_FROM_DEVICE);
}

void rt_scatter(struct step_instance *t, const struct stepc_slot *s, const char *from, const int64_t *stride)
{
    /* `host` is read here; the cast only gives both directions one signature */
    local_copy(t, s, (char *)(uintptr_t)from, stride, RT_TO_DEVICE);
}

/* ---------------------------------------------------------------- arrays of the host */

/* Whether no two elements lie at one place. Dimensions that reach into each other's steps without meeting do not occur.
 */
static bool apart(const int64_t *stride, const int64_t *shape, int32_t rank, size_t item)
{
    for (int32_t i = 0; i < rank; i++)
        if (!shape[i]) return true;
    for (int32_t i = 0; i < rank; i++) {
        int64_t mine = stride[i] < 0 ? -stride[i] : stride[i], reach = (int64_t)item;
        for (int32_t k = 0; k < rank; k++) {
            int64_t other = stride[k] < 0 ? -stride[k] : stride[k];
            if (k != i && shape[k] > 1 && (other < mine || (other == mine && k < i))) reach += other * (shape[k] - 1);
        }
        if (shape[i] > 1 && mine < reach) return false;
    }
    return true;
}

step_status rt_array_check(struct step_instance *t, const struct step_array *a, const struct stepc_slot *s,
                           uint64_t lead, int64_t *stride, bool fills)
{
    int32_t extra = lead != 0;
    bool fits = a->dtype == s->dtype && a->rank == s->rank + extra && (a->shape || !a->rank);
    if (fits && extra) fits = a->shape[0] >= 0 && (uint64_t)a->shape[0] == lead;
    bool whole = fits && rt_whole(s, a->shape + extra);
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK];
    fits = whole || (fits && t->ranks > 1 && t->program->mesh->part(t, s, a->shape + extra, start, extent));
    if (!fits) {
        char wanted[400], found[200];
        int64_t shape[RT_MAX_RANK + 1];
        if (extra) shape[0] = (int64_t)lead;
        for (int32_t i = 0; i < s->rank; i++) shape[i + extra] = s->shape[i];
        bool readable = a->rank >= 0 && a->rank <= RT_MAX_RANK + 1 && (a->shape || !a->rank);
        rt_type_text(wanted, 200, s->dtype, s->rank + extra, shape);
        if (t->ranks > 1) t->program->mesh->part_text(t, s, lead, wanted);
        rt_type_text(found, sizeof found, a->dtype, readable ? a->rank : 0, a->shape);
        return rt_fail(t, STEP_ESHAPE, "%s \"%s\": expected %s, found %s", s->role == STEP_INPUT ? "input" : "tensor",
                       s->name, wanted, readable ? found : "an array of rank beyond 8 or without a shape");
    }
    if (!a->data && rt_slot_bytes(s, false)) return rt_fail(t, STEP_EINVAL, "\"%s\": data is NULL", s->name);
    const struct rt_device_ops *ops = t->device_ops;
    if (a->device_type > 1 && a->device_type != 3 && (s->role != STEP_INPUT || !ops->takes || !ops->takes(t, a)))
        return rt_fail(
            t, STEP_EUNSUPPORTED, "\"%s\": memory of device type %d, number %d; expected memory of the host%s", s->name,
            a->device_type, a->device_id, ops->takes ? ", or for inputs of the one device of this instance" : "");
    size_t item = rt_dtype_bytes(s->dtype);
    rt_c_strides(stride, a->shape, a->rank, item);
    for (int32_t i = 0; a->strides && i < a->rank; i++) {
        int64_t most = a->shape[i] > 1 ? RT_FARTHEST / (int64_t)item / a->shape[i] : INT64_MAX;
        if (a->strides[i] > most || a->strides[i] < -most)
            return rt_fail(t, STEP_EINVAL, "\"%s\": strides beyond memory", s->name);
        stride[i] = a->shape[i] > 1 ? a->strides[i] * (int64_t)item : 0;
    }
    if (fills && !apart(stride, a->shape, a->rank, item))
        return rt_fail(t, STEP_EINVAL, "\"%s\": strides put several elements at one place", s->name);
    return STEP_OK;
}
