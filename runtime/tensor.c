/* Tensors between host memory and the devices: strided copies, the parts that devices hold, single numbers. */
#include "runtime/rt.h"

#include "kernels/num.h"
#include <string.h>

void rt_c_strides(int64_t *stride, const int64_t *shape, int32_t rank, size_t item)
{
    int64_t s = (int64_t)item;
    for (int32_t i = rank; i-- > 0; s *= shape[i]) stride[i] = s;
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

uint32_t rt_mesh_index(const struct step_instance *t, const struct rt_device *d, uint32_t mask)
{
    int64_t index = 0;
    for (uint32_t a = 0; a < t->program->axis_count; a++)
        if (mask >> a & 1) index = index * t->program->axis_sizes[a] + d->coordinate[a];
    return (uint32_t)index;
}

bool rt_shard(const struct step_instance *t, const struct rt_device *d, const struct stepc_slot *s, int64_t *start,
              int64_t *extent)
{
    bool some = true;
    for (int32_t i = 0; i < s->rank; i++) {
        int64_t index = 0, local = s->local ? s->local[i] : s->shape[i];
        for (uint32_t axes = s->axes ? s->axes[i] : 0; axes; axes >>= 4) {
            uint32_t a = (axes & 15) - 1;
            index = index * t->program->axis_sizes[a] + d->coordinate[a];
        }
        start[i] = index * local;
        int64_t left = s->shape[i] - start[i];
        extent[i] = left < local ? left : local;
        if (extent[i] <= 0) some = false;
    }
    return some;
}

/* Of equal parts the first device in mesh order is the one that is read. */
static bool shard_owner(const struct step_instance *t, const struct rt_device *d, const struct stepc_slot *s)
{
    uint32_t used = 0;
    for (int32_t i = 0; i < s->rank; i++)
        for (uint32_t axes = s->axes[i]; axes; axes >>= 4) used |= 1u << ((axes & 15) - 1);
    for (uint32_t a = 0; a < t->program->axis_count; a++)
        if (!(used >> a & 1) && d->coordinate[a]) return false;
    return true;
}

char *rt_slot_address(const struct step_instance *t, const struct rt_device *d, const struct stepc_slot *s)
{
    (void)t;
    bool result = s->role == STEP_METRIC || s->role == STEP_OUTPUT; /* computed slots lie in the state block too */
    return (result ? d->result : d->state) + s->offset;
}

static void shard_move(struct step_instance *t, struct rt_device *d, const struct stepc_slot *s, char *host,
                       const int64_t *stride, bool to_host)
{
    size_t item = rt_dtype_bytes(s->dtype);
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK], local[RT_MAX_RANK];
    if (!rt_shard(t, d, s, start, extent)) return;
    rt_c_strides(local, s->local ? s->local : s->shape, s->rank, item);
    for (int32_t i = 0; i < s->rank; i++) host += start[i] * stride[i];
    char *device = rt_slot_address(t, d, s);
    if (to_host) rt_copy(host, stride, device, local, extent, s->rank, item);
    else rt_copy(device, local, host, stride, extent, s->rank, item);
}

void rt_gather(struct step_instance *t, const struct stepc_slot *s, char *to, const int64_t *stride)
{
    bool sharded = rt_slot_sharded(s);
    for (uint32_t d = 0; d < (sharded ? t->device_count : 1); d++)
        if (!sharded || shard_owner(t, &t->devices[d], s)) shard_move(t, &t->devices[d], s, to, stride, true);
}

void rt_scatter(struct step_instance *t, const struct stepc_slot *s, const char *from, const int64_t *stride)
{
    /* shard_move copies from `host` here; the cast only gives both directions one signature */
    for (uint32_t d = 0; d < t->device_count; d++)
        shard_move(t, &t->devices[d], s, (char *)(uintptr_t)from, stride, false);
}

/* ---------------------------------------------------------------- numbers */

double rt_number_at(const void *data, uint32_t dtype, int64_t i)
{
    switch (dtype) {
    case STEP_BOOL:
    case STEP_U8: return ((const uint8_t *)data)[i];
    case STEP_I8: return ((const int8_t *)data)[i];
    case STEP_U16: return ((const uint16_t *)data)[i];
    case STEP_I16: return ((const int16_t *)data)[i];
    case STEP_U32: return ((const uint32_t *)data)[i];
    case STEP_I32: return ((const int32_t *)data)[i];
    case STEP_U64: return (double)((const uint64_t *)data)[i];
    case STEP_I64: return (double)((const int64_t *)data)[i];
    case STEP_F16: return (double)k_float_of_f16(((const uint16_t *)data)[i]);
    case STEP_BF16: return (double)k_float_of_bf16(((const uint16_t *)data)[i]);
    case STEP_F32: return (double)((const float *)data)[i];
    case STEP_F64: return ((const double *)data)[i];
    default: return 0;
    }
}

void rt_number_put(void *data, uint32_t dtype, int64_t i, double x)
{
    switch (dtype) {
    case STEP_BOOL: ((uint8_t *)data)[i] = x != 0; break;
    case STEP_U8: ((uint8_t *)data)[i] = (uint8_t)x; break;
    case STEP_I8: ((int8_t *)data)[i] = (int8_t)x; break;
    case STEP_U16: ((uint16_t *)data)[i] = (uint16_t)x; break;
    case STEP_I16: ((int16_t *)data)[i] = (int16_t)x; break;
    case STEP_U32: ((uint32_t *)data)[i] = (uint32_t)x; break;
    case STEP_I32: ((int32_t *)data)[i] = (int32_t)x; break;
    case STEP_U64: ((uint64_t *)data)[i] = (uint64_t)x; break;
    case STEP_I64: ((int64_t *)data)[i] = (int64_t)x; break;
    case STEP_F16: ((uint16_t *)data)[i] = k_f16_of_float(k_float_to_odd(x)); break;
    case STEP_BF16: ((uint16_t *)data)[i] = k_bf16_of_float(k_float_to_odd(x)); break;
    case STEP_F32: ((float *)data)[i] = (float)x; break;
    case STEP_F64: ((double *)data)[i] = x; break;
    default: break;
    }
}

/* ---------------------------------------------------------------- read and write */

step_status rt_array_check(struct step_instance *t, const struct step_array *a, const struct stepc_slot *s,
                           uint64_t lead, int64_t *stride)
{
    int32_t extra = lead != 0;
    bool fits = a->dtype == s->dtype && a->rank == s->rank + extra && (a->shape || !a->rank);
    if (fits && extra) fits = a->shape[0] >= 0 && (uint64_t)a->shape[0] == lead;
    for (int32_t i = 0; fits && i < s->rank; i++) fits = a->shape[i + extra] == s->shape[i];
    if (!fits) {
        char wanted[200], found[200];
        int64_t shape[RT_MAX_RANK + 1];
        if (extra) shape[0] = (int64_t)lead;
        for (int32_t i = 0; i < s->rank; i++) shape[i + extra] = s->shape[i];
        bool readable = a->rank >= 0 && a->rank <= RT_MAX_RANK + 1 && (a->shape || !a->rank);
        rt_type_text(wanted, sizeof wanted, s->dtype, s->rank + extra, shape);
        rt_type_text(found, sizeof found, a->dtype, readable ? a->rank : 0, a->shape);
        return rt_fail(t, STEP_ESHAPE, "%s \"%s\": expected %s, found %s", s->role == STEP_INPUT ? "input" : "tensor",
                       s->name, wanted, readable ? found : "an array of rank beyond 8 or without a shape");
    }
    if (!a->data && rt_slot_bytes(s, false)) return rt_fail(t, STEP_EINVAL, "\"%s\": data is NULL", s->name);
    if (a->device_type > 1 && a->device_type != 3)
        return rt_fail(t, STEP_EUNSUPPORTED, "\"%s\": memory of device type %d; this object runs on the CPU", s->name,
                       a->device_type);
    size_t item = rt_dtype_bytes(s->dtype);
    if (!a->strides) rt_c_strides(stride, a->shape, a->rank, item);
    else
        for (int32_t i = 0; i < a->rank; i++) stride[i] = a->strides[i] * (int64_t)item;
    return STEP_OK;
}

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
