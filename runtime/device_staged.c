/* For devices whose memory the host cannot read: parts of tensors take one copy, and the host's block that it needs has
 * the layout of the device's. Only objects for such devices carry this. */
#include "runtime/rt.h"

void rt_staged_part(struct rt_device *d, const struct stepc_slot *s, char *part, char *host, const int64_t *stride,
                    enum rt_direction direction)
{
    struct step_instance *t = d->instance;
    size_t bytes = rt_slot_bytes(s, true);
    char *dense = rt_host_get(t, bytes + 1); /* zeroed: uneven parts end in zeros */
    if (!dense) {
        rt_give_up(t, STEP_ENOMEM, "no memory for tensor \"%s\" on its way (%zu bytes)", s->name, bytes);
        return;
    }
    if (direction == RT_FROM_DEVICE) t->device_ops->copy(d, dense, part, bytes, direction);
    rt_shard_copy(t, d->index, s, NULL, dense, host, stride, direction);
    if (direction == RT_TO_DEVICE) t->device_ops->copy(d, part, dense, bytes, direction);
    rt_host_put(t, dense, bytes + 1);
}

char *rt_staged_constants(struct rt_device *d, const void *data, size_t bytes)
{
    char *own = rt_alloc_device(d, bytes);
    if (!own) rt_give_up(d->instance, STEP_ENOMEM, "no memory for %zu bytes of constants", bytes);
    else if (bytes) d->instance->device_ops->copy(d, own, data, bytes, RT_TO_DEVICE);
    return own;
}
