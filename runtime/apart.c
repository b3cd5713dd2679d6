/* The arrays that a call of infer fills, of objects with several outputs: none may reach into another, whose numbers it
 * would write over. They may lie between each other, as columns of one table do. An array of an input may be filled:
 * inputs have been read by then. */
#include "runtime/rt.h"

struct lattice { /* the places of an array's elements from its lowest one on, dimensions by falling strides */
    uintptr_t low, reach;
    int64_t item, stride[RT_MAX_RANK], shape[RT_MAX_RANK];
    int32_t rank;
};

static struct lattice lattice(const struct step_array *a)
{
    int64_t dense[RT_MAX_RANK];
    struct lattice l = {.low = (uintptr_t)a->data, .item = rt_dtype_bytes(a->dtype)};
    rt_c_strides(dense, a->shape, a->rank, (size_t)l.item);
    l.reach = (uintptr_t)l.item;
    for (int32_t i = 0; i < a->rank; i++) {
        int64_t stride = a->strides ? a->strides[i] * l.item : dense[i], extent = a->shape[i];
        if (!extent) l.reach = 0;
        if (extent < 2) continue;
        if (stride < 0) l.low += (uintptr_t)(stride * (extent - 1)), stride = -stride;
        if (l.reach) l.reach += (uintptr_t)(stride * (extent - 1));
        int32_t k = l.rank++;
        for (; k && l.stride[k - 1] < stride; k--) l.stride[k] = l.stride[k - 1], l.shape[k] = l.shape[k - 1];
        l.stride[k] = stride, l.shape[k] = extent;
    }
    return l;
}

/* Whether an element of it covers one of the bytes from `at` on, counted from its lowest place. Each stride is longer
 * than all that lies below it (rt_array_check), so the last element that does not begin behind them is found from the
 * longest stride on. */
static bool covers(const struct lattice *l, int64_t at, int64_t bytes)
{
    int64_t left = at + bytes - 1;
    if (left < 0) return false;
    for (int32_t i = 0; i < l->rank; i++) {
        int64_t k = left / l->stride[i];
        left -= (k < l->shape[i] ? k : l->shape[i] - 1) * l->stride[i];
    }
    return left - (bytes - 1) < l->item;
}

static bool meet(const struct lattice *a, const struct lattice *b)
{
    int64_t index[RT_MAX_RANK] = {0}, at = (int64_t)(a->low - b->low);
    if (!a->reach || !b->reach || a->low >= b->low + b->reach || b->low >= a->low + a->reach) return false;
    for (;;) {
        if (covers(b, at, a->item)) return true;
        int32_t i = a->rank;
        while (i-- > 0) {
            at += a->stride[i];
            if (++index[i] < a->shape[i]) break;
            at -= a->stride[i] * a->shape[i];
            index[i] = 0;
        }
        if (i < 0) return false;
    }
}

step_status rt_outputs_apart(struct step_instance *t, const struct rt_outputs *o)
{
    struct step_array a, b;
    const char *at = (const char *)o->arrays;
    for (size_t i = 1; i < o->count; i++)
        for (size_t k = 0; k < i; k++) {
            rt_take(&a, sizeof a, at + i * o->arrays->size);
            rt_take(&b, sizeof b, at + k * o->arrays->size);
            struct lattice x = lattice(&a), y = lattice(&b);
            if (meet(&x, &y))
                return rt_fail(t, STEP_EINVAL, "infer: outputs \"%s\" and \"%s\" overlap in memory", b.name, a.name);
        }
    return STEP_OK;
}

const struct stepc_arrays stepc_part_outputs = {rt_outputs_apart};
