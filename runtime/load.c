/* What both ways to load share: a tensor of the file and the slot that gets it, and what is wrong about it. */
#include "runtime/directory.h"
#include "runtime/load.h"

#include <stdio.h>
#include <string.h>

void rt_load_fault(struct rt_load_plan *l, const char *format, ...)
{
    va_list args;
    size_t n = strlen(l->text);
    if (l->faults++ < 10 && n + 4 < sizeof l->text) {
        memcpy(l->text + n, l->faults > 1 ? "\n  " : "", l->faults > 1 ? 4 : 1);
        n += strlen(l->text + n);
        va_start(args, format);
        vsnprintf(l->text + n, sizeof l->text - n, format, args);
        va_end(args);
    }
}

/* Of a LoRA layer or adapter, by the last of its name. */
bool rt_slot_adapts(const struct stepc_slot *s)
{
    size_t n = strlen(s->name);
    return n > 7 && strncmp(s->name + n - 7, ".lora_", 6) == 0;
}

void rt_load_match(struct rt_load_plan *l, uint32_t i, const struct st_tensor *tensor)
{
    const struct stepc_slot *s = &l->t->program->slots[i];
    if ((l->flags & STEP_LOAD_PARAMS_ONLY) && s->role != STEP_PARAM) return;
    bool same = tensor->rank == s->rank,
         cast = (l->flags & STEP_LOAD_CAST) && rt_dtype_float(tensor->dtype) && rt_dtype_float(s->dtype);
    for (int32_t k = 0; same && k < s->rank; k++) same = tensor->shape[k] == s->shape[k];
    if (!same || (tensor->dtype != s->dtype && !cast)) {
        char want[200], found[200];
        rt_load_fault(l, "tensor \"%s\": expected %s, found %s", tensor->name,
                      rt_type_text(want, sizeof want, s->dtype, s->rank, s->shape),
                      rt_type_text(found, sizeof found, tensor->dtype, tensor->rank, tensor->shape));
        l->items[i].wrong = true;
        return;
    }
    if (rt_slot_role(s) == STEP_OPT_STATE || (rt_slot_role(s) == STEP_STATE && !rt_slot_statistic(s))) l->whole = true;
    l->adapts |= rt_slot_adapts(s);
    l->items[i].source = tensor;
}

char *rt_load_place(struct rt_load_plan *l, uint32_t i, char *to)
{
    const struct step_instance *t = l->t;
    const struct stepc_slot *s = &t->program->slots[i];
    bool direct = (l->pieces || t->mesh_count == 1) && !l->restarts && !t->initialized && t->device_ops->shared &&
                  l->items[i].source->dtype == s->dtype && s->role < STEP_STATE; /* no number of the host */
    return direct ? l->items[i].place = rt_slot_address(t->devices, s) : to;
}

void rt_load_store(struct rt_load_plan *l, const struct stepc_slot *s, char *data)
{
    struct step_instance *t = l->t;
    int64_t stride[RT_MAX_RANK];
    if (s->computed) return;
    rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
    if (l->pieces) l->pieces->store(t, s, data);
    else if (t->ranks > 1) t->program->mesh->exchange(t, s, data, stride, RT_TO_DEVICE);
    else rt_scatter(t, s, data, stride);
}
