/* The inputs of a call: checked by name, dtype, shape and range before anything runs, then bound to addresses. A
 * dense array is used in place (also a device's part of it where that is one run of memory) by devices that read the
 * host's memory; anything else is copied into the device's staging area, per step, and so is what is a view of this
 * instance's own tensors: a step writes them while it still reads its inputs. */
#include "runtime/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t input_find(const struct step_instance *t, const char *name, uint32_t guess)
{
    for (uint32_t k = 0; k < t->input_count; k++) {
        uint32_t i = (guess + k) % t->input_count;
        if (strcmp(t->program->slots[t->input_slots[i]].name, name) == 0) return (int32_t)i;
    }
    return -1;
}

static step_status bind_array(struct step_instance *t, struct rt_bound *bound, const struct step_array *from,
                              uint32_t guess, uint64_t steps)
{
    struct step_array a;
    int64_t stride[RT_MAX_RANK + 1];
    if (!rt_take(&a, sizeof a, from) || !a.name)
        return rt_fail(t, STEP_EINVAL, "%s %zu: wrong size field or no name", "input", (size_t)guess);
    int32_t i = input_find(t, a.name, guess);
    if (i < 0) return rt_fail(t, STEP_ENOTFOUND, "there is no input \"%s\"", a.name);
    const struct stepc_slot *s = &t->program->slots[t->input_slots[i]];
    struct rt_bound *b = &bound[i];
    if (b->given) return rt_fail(t, STEP_EINVAL, "input \"%s\" is given twice", a.name);
    step_status status = rt_array_check(t, &a, s, steps, stride, false);
    if (status) return status;
    bool far = a.device_type == 2;
    if (far && !rt_dense(stride, a.shape, a.rank, rt_dtype_bytes(s->dtype)))
        return rt_fail(t, STEP_EUNSUPPORTED, "input \"%s\": an array of a device has to be in C order", s->name);
    if (s->index_limit > 0 && !(t->flags & STEP_CHECK_INPUTS_OFF)) {
        status = t->program->indices->range(t, s, far, a.data, stride, a.shape, a.rank);
        if (status) return status;
    }
    int32_t extra = steps != 0;
    size_t item = rt_dtype_bytes(s->dtype);
    b->given = true;
    b->far = far;
    b->shape = a.shape + extra;
    b->step_stride = extra ? stride[0] : 0;
    for (int32_t k = 0; k < s->rank; k++) b->stride[k] = stride[k + extra];
    b->base = (const char *)a.data + rt_part_shift(t, s, b->shape, b->stride);
    b->dense = rt_dense(b->stride, b->shape, s->rank, item) && (uintptr_t)a.data % item == 0 &&
               (size_t)(b->step_stride < 0 ? -b->step_stride : b->step_stride) % item == 0 &&
               !rt_views_touch(t, &a, stride, item);
    return STEP_OK;
}

static step_status bind_arrays(struct step_instance *t, struct rt_bound *bound, const struct step_batch *batch,
                               bool infer, uint64_t steps)
{
    for (uint32_t i = 0; i < t->input_count; i++) bound[i].given = false;
    const char *at = (const char *)batch->inputs;
    for (uint32_t i = 0; i < batch->input_count; i++) {
        step_status status = bind_array(t, bound, (const struct step_array *)(const void *)at, i, steps);
        if (status) return status;
        at += batch->inputs->size; /* the caller's struct, of its version */
    }
    for (uint32_t i = 0; i < t->input_count; i++) {
        const struct stepc_slot *s = &t->program->slots[t->input_slots[i]];
        if (!bound[i].given && (!infer || s->used_by_infer)) {
            char text[200];
            return rt_fail(t, STEP_ENOTFOUND, "input \"%s\" is missing; expected %s", s->name,
                           rt_type_text(text, sizeof text, s->dtype, s->rank, s->shape));
        }
    }
    return STEP_OK;
}

static size_t staged_offset(const struct step_instance *t, uint32_t input)
{
    size_t at = 0;
    for (uint32_t i = 0; i < input; i++) at += rt_aligned(rt_slot_bytes(&t->program->slots[t->input_slots[i]], false));
    return at;
}

/* Takes what `stage` left: checked there. */
static bool bind_staged(struct step_instance *t)
{
    pthread_mutex_lock(&t->stage_lock);
    bool ready = t->staged_ready;
    if (ready) {
        char *live = t->staged_live;
        t->staged_live = t->staged;
        t->staged = live;
        t->staged_ready = false;
    }
    pthread_mutex_unlock(&t->stage_lock);
    for (uint32_t i = 0; ready && i < t->input_count; i++) {
        const struct stepc_slot *s = &t->program->slots[t->input_slots[i]];
        t->bound[i] = (struct rt_bound){
            .base = t->staged_live + staged_offset(t, i), .shape = s->shape, .given = true, .dense = true};
        rt_c_strides(t->bound[i].stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
    }
    return ready;
}

step_status rt_bind(struct step_instance *t, const struct step_batch *batch, enum rt_entry_kind kind, uint64_t steps,
                    step_status status)
{
    if (!status && !batch->inputs && batch->input_count) status = rt_fail(t, STEP_EINVAL, "batch: inputs is NULL");
    if (!status && batch->stream && (!t->device_ops->follow || t->local_count > 1)) /* it is of one device's context */
        status = rt_fail(t, STEP_EUNSUPPORTED, "batch: a stream is for one GPU");
    if (!status && batch->stream)
        for (RT_MINE(t, d)) t->device_ops->follow(d, batch->stream);
    if (!status && (batch->inputs || !t->input_count || steps || !bind_staged(t)))
        status = bind_arrays(t, t->bound, batch, kind == RT_INFER, steps);
    if (t->ranks > 1) {
        uint64_t how = kind + RT_ENTRIES * (uint64_t)(batch->flags * 2 + (batch->accept != NULL));
        status = t->program->mesh->agree(t, status, how + (batch->microbatches + (steps << 24)) * 1024);
    }
    return status || !t->program->indices ? status : t->program->indices->computed(t, kind, steps);
}

/* The device's part as one run of the host's array, or NULL. */
static const char *part_in_place(const struct step_instance *t, const struct rt_device *d, const struct stepc_slot *s,
                                 const struct rt_bound *b, const char *base)
{
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK];
    if (!b->dense || !t->device_ops->shared) return NULL;
    if (!rt_slot_sharded(s)) return base;
    if (!rt_shard(t, d->index, s, start, extent)) return NULL;
    bool inner = false; /* a dimension of more than one element was seen: the next ones must be whole */
    for (int32_t i = 0; i < s->rank; i++) {
        if (extent[i] != s->local[i] || (inner && extent[i] != b->shape[i])) return NULL;
        if (extent[i] > 1) inner = true;
        base += start[i] * b->stride[i];
    }
    return base;
}

void rt_bind_step(struct step_instance *t, uint64_t k)
{
    uint64_t place = t->post ? k % t->batches * t->staging_bytes : 0;
    for (uint32_t i = 0; i < t->input_count; i++) {
        const struct rt_bound *b = &t->bound[i];
        const struct stepc_slot *s = &t->program->slots[t->input_slots[i]];
        if (!b->given) continue;
        const char *base = b->base + (int64_t)k * b->step_stride;
        for (RT_MINE(t, d)) {
            const char *part = part_in_place(t, d, s, b, base);
            if (!part) { /* uneven parts end in the zeros that the area began with */
                char *staged = d->staging + place + t->staging_offset[i];
                rt_shard_copy(t, d->index, s, d, staged, (char *)(uintptr_t)base, b->stride,
                              b->far ? RT_BETWEEN : RT_TO_DEVICE);
                part = staged;
            }
            d->bound[t->input_slots[i]] = part;
        }
    }
}

static step_status stage_locked(struct step_instance *t, const struct step_batch *batch)
{
    struct rt_bound *bound = malloc((t->input_count + 1) * sizeof *bound);
    if (!bound) return rt_fail(t, STEP_ENOMEM, "stage: out of memory");
    step_status status = bind_arrays(t, bound, batch, false, 0);
    for (uint32_t i = 0; !status && i < t->input_count; i++)
        if (bound[i].far)
            status = rt_fail(t, STEP_EUNSUPPORTED, "stage: inputs of the host alone; others need no staging");
    size_t bytes = staged_offset(t, t->input_count) + RT_ALIGN;
    void *block = NULL;
    if (!status && !t->staged && !posix_memalign(&block, RT_ALIGN, bytes)) t->staged = block;
    if (!status && !t->staged) status = rt_fail(t, STEP_ENOMEM, "stage: out of memory (%zu bytes)", bytes);
    for (uint32_t i = 0; !status && i < t->input_count; i++) {
        const struct stepc_slot *s = &t->program->slots[t->input_slots[i]];
        int64_t stride[RT_MAX_RANK];
        rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
        const struct rt_bound *b = &bound[i];
        rt_copy(t->staged + staged_offset(t, i) - rt_part_shift(t, s, b->shape, stride), stride,
                b->base - rt_part_shift(t, s, b->shape, b->stride), b->stride, b->shape, s->rank,
                rt_dtype_bytes(s->dtype));
    }
    if (!status) t->staged_ready = true;
    free(bound);
    return status;
}

step_status rt_stage(struct step_instance *t, const struct step_batch *from)
{
    struct step_batch batch;
    if (!t || !from) return rt_fail(t, STEP_EINVAL, "%s: null pointer", "stage");
    if (!rt_take(&batch, sizeof batch, from)) return rt_fail(t, STEP_EINVAL, "stage: wrong size field");
    if (!rt_gate_here(t)) return rt_fail(t, STEP_EINVAL, "the instance belongs to the process before fork");
    if (atomic_load(&t->poisoned))
        return rt_fail(t, STEP_EPOISONED, "an earlier error left the state undefined: load or destroy");
    if (!batch.inputs && batch.input_count) return rt_fail(t, STEP_EINVAL, "batch: inputs is NULL");
    pthread_mutex_lock(&t->stage_lock);
    step_status status = stage_locked(t, &batch);
    pthread_mutex_unlock(&t->stage_lock);
    return status;
}
