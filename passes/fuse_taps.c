/* Taps: a concatenation of slices of one tensor that lie at regular distances (of a convolution, unfolded) is an affine
 * view of that tensor. The number of a slice is written in mixed radix so that a step of each digit moves a constant
 * number of elements in the tensor. */
#include "passes/fuse.h"
#include <string.h>

enum { MAX_TAPS = 1024 };

static int64_t step_of(const struct ir_node *slice, uint32_t dim)
{
    return slice->attr[2].n ? slice->attr[2].v[dim] : 1;
}

static bool alike(const struct ir_node *a, const struct ir_node *b)
{
    bool same = a->args[0] == b->args[0] && ir_type_equal(&a->type, &b->type);
    for (uint32_t i = 0; same && i < a->type.rank; i++) same = step_of(a, i) == step_of(b, i) || a->type.dim[i] == 1;
    return same;
}

static int64_t first_element(const struct ir_type *base, const struct ir_node *slice)
{
    int64_t stride = 1, at = 0;
    for (uint32_t i = base->rank; i-- > 0; stride *= base->dim[i]) at += slice->attr[0].v[i] * stride;
    return at;
}

/* Where slice number k of the concatenation begins; -1: it is none, or not one like the first. */
static int64_t start_of(const struct ir_func *f, const struct ir_node *concat, uint32_t k, struct plan_taps *t)
{
    ir_value v = concat->args[k];
    while (ir_get(f, v)->op == OP_reshape) v = ir_get(f, v)->args[0];
    const struct ir_node *slice = ir_get(f, v);
    if (slice->op != OP_slice || (k && !alike(slice, ir_get(f, t->slice)))) return -1;
    if (!k) t->slice = v;
    return first_element(ir_type(f, slice->args[0]), slice);
}

/* start[k] = start[0] + the sum of digit * step over k's digits. */
static bool find_digits(struct plan_taps *t, const int64_t *start, uint32_t count, struct arena *arena)
{
    for (uint32_t unit = 1; unit < count;) {
        uint32_t r = 1;
        int64_t step = start[unit] - start[0];
        while (r * unit < count && start[r * unit] - start[0] == r * step) r++;
        if (r < 2 || count % (r * unit) || t->radix.count == IR_MAX_RANK) return false;
        vec_push(arena, &t->radix, r);
        vec_push(arena, &t->steps, step);
        unit *= r;
    }
    for (uint32_t k = 0; k < count; k++) {
        int64_t at = start[0], rest = k;
        for (size_t i = 0; i < t->radix.count; rest /= t->radix.items[i++])
            at += rest % t->radix.items[i] * t->steps.items[i];
        if (at != start[k]) return false;
    }
    return true;
}

/* The trailing dimensions of the base that make up runs of `size` elements, all taken whole. */
static bool find_run(struct plan_taps *t, const struct ir_type *slice, const struct ir_type *base, int64_t size)
{
    t->outer = base->rank;
    while (size > 1 && t->outer > 0 && slice->dim[t->outer - 1] == base->dim[t->outer - 1] &&
           size % base->dim[t->outer - 1] == 0)
        size /= base->dim[--t->outer];
    return size == 1;
}

bool fuse_find_taps(const struct ir_func *f, ir_value v, struct plan_taps *t, struct arena *arena)
{
    const struct ir_node *concat = ir_get(f, v);
    int64_t start[MAX_TAPS], size = 1;
    *t = (struct plan_taps){.func = f, .concat = v};
    if (concat->op != OP_concat || concat->arg_count < 2 || concat->arg_count > MAX_TAPS) return false;
    for (uint32_t k = 0; k < concat->arg_count; k++)
        if ((start[k] = start_of(f, concat, k, t)) < 0) return false;
    const struct ir_node *slice = ir_get(f, t->slice);
    const struct ir_type *part = ir_type(f, concat->args[0]);
    for (int64_t i = concat->attr[0].v[0]; i < part->rank; i++) size *= part->dim[i];
    t->base = slice->args[0];
    t->start = (uint64_t)start[0];
    t->size = (uint64_t)size;
    if (size <= 0 || !find_digits(t, start, concat->arg_count, arena) ||
        !find_run(t, &slice->type, ir_type(f, t->base), size))
        return false;
    for (uint32_t i = 0; i < t->outer; i++) vec_push(arena, &t->outer_steps, step_of(slice, i));
    return true;
}

bool fuse_of_taps(const struct ir_func *f, ir_value v, struct arena *scratch)
{
    struct plan_taps t;
    while (ir_get(f, v)->op == OP_reshape || ir_get(f, v)->op == OP_transpose) v = ir_get(f, v)->args[0];
    return fuse_find_taps(f, v, &t, scratch);
}
