/* Where barriers are needed. Threads of a block meet at the same element of a buffer in three ways: all of them read it
 * (outside vector loops), thread 0 writes it (there too), or a lane reads or writes it inside a vector loop. Lanes are
 * bound to threads by i % threads in every vector loop, so two lane accesses are by the same thread if the element
 * determines the lane and does so alike in both. Everything that is not proven safe is a conflict. */
#include "codegen/cuda/cuda.h"
#include <string.h>

static int64_t gcd(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a, b = b < 0 ? -b : b;
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* index = offset + lane_scale * lane + a multiple of `step` (0: nothing else). False: lanes go where data says. */
struct lane_form {
    int64_t lane_scale, step, offset, extent;
};

static bool lane_form(const struct cuda_order *o, const struct cuda_access *a, struct lane_form *out)
{
    const struct nest_index *index = &a->stmt->index;
    *out = (struct lane_form){.offset = index->offset, .extent = a->vector->extent};
    for (uint32_t i = 0; i < index->term_count; i++) {
        if (index->terms[i].var == a->vector->var) out->lane_scale += index->terms[i].scale;
        else out->step = gcd(out->step, index->terms[i].scale);
    }
    for (uint32_t i = 0; i < index->scaled_count; i++) {
        if (o->varies[index->scaled[i].value]) return false;
        out->step = gcd(out->step, index->scaled[i].scale);
    }
    return true;
}

/* The lanes fill the gaps of the steps. */
static bool lanes_between_steps(const struct lane_form *x, const struct lane_form *y)
{
    if (x->lane_scale != y->lane_scale || x->lane_scale == 0 || x->extent < 0 || y->extent < 0) return false;
    int64_t step = gcd(x->step, y->step), extent = x->extent > y->extent ? x->extent : y->extent;
    int64_t scale = x->lane_scale < 0 ? -x->lane_scale : x->lane_scale, apart = x->offset - y->offset;
    if (step == 0) return apart == 0;
    return apart % step == 0 && scale * extent <= step;
}

/* An index as digits of a mixed radix, smallest first. False: an element may have several indices. */
struct digit {
    int64_t scale, extent;
    bool lane;
};
struct digits {
    struct digit item[16];
    uint32_t count;
    int64_t offset;
};

static bool find_digits(const struct cuda_order *o, const struct cuda_access *a, struct digits *out)
{
    const struct nest_index *index = &a->stmt->index;
    int64_t reach = 0;
    memset(out, 0, sizeof *out);
    out->offset = index->offset;
    for (uint32_t i = 0; i < index->term_count; i++) {
        const struct nest_term *t = &index->terms[i];
        struct digit digit = {t->scale, o->extent[t->var], t->var == a->vector->var};
        if (digit.extent == 1) continue;
        if (digit.scale <= 0 || digit.extent < 0 || out->count == 16) return false;
        uint32_t at = out->count++;
        for (; at > 0 && out->item[at - 1].scale > digit.scale; at--) out->item[at] = out->item[at - 1];
        out->item[at] = digit;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        if (out->item[i].scale <= reach) return false;
        reach += out->item[i].scale * (out->item[i].extent - 1);
    }
    return index->scaled_count == 0;
}

static bool same_digits(const struct cuda_order *o, const struct cuda_access *a, const struct cuda_access *b)
{
    struct digits x, y;
    bool lane = a->vector->extent == 1;
    if (!find_digits(o, a, &x) || !find_digits(o, b, &y) || x.count != y.count || x.offset != y.offset) return false;
    for (uint32_t i = 0; i < x.count; i++) {
        const struct digit *d = &x.item[i], *e = &y.item[i];
        if (d->scale != e->scale || d->extent != e->extent || d->lane != e->lane) return false;
        lane = lane || d->lane;
    }
    return lane;
}

/* The element tells the lane, in the same way in both. */
static bool same_lanes(const struct cuda_order *o, const struct cuda_access *a, const struct cuda_access *b)
{
    struct lane_form x, y;
    if (!lane_form(o, a, &x) || !lane_form(o, b, &y)) return false;
    return lanes_between_steps(&x, &y) || same_digits(o, a, b);
}

static bool writes(const struct cuda_access *a) { return a->stmt->kind != NEST_LOAD; }
static bool by_thread_0(const struct cuda_access *a) { return a->solo || (!a->vector && writes(a)); }

/* An output may stand in the memory of an input of the same size of element. What is read before the parallel loop is
 * not such an input: another block could have overwritten it. */
static bool may_meet(const struct nest *nest, const struct cuda_access *a, const struct cuda_access *b)
{
    const struct nest_buffer *x = &nest->buffers.items[a->stmt->buffer], *y = &nest->buffers.items[b->stmt->buffer];
    if (x == y) return true;
    if (x->local || y->local || x->written == y->written || a->before || b->before) return false;
    return ir_dtype_bytes((enum ir_dtype)x->dtype) == ir_dtype_bytes((enum ir_dtype)y->dtype);
}

bool cuda_conflict(const struct cuda_order *o, const struct cuda_access *a, const struct cuda_access *b)
{
    if (!writes(a) && !writes(b)) return false;
    if (!may_meet(o->nest, a, b) || (by_thread_0(a) && by_thread_0(b))) return false;
    bool lanes = a->vector && b->vector && !a->solo && !b->solo;
    return !(lanes && same_lanes(o, a, b));
}

bool cuda_collides(const struct cuda_order *o, const struct nest_stmt *vector, const struct nest_stmt *add_to)
{
    struct cuda_access access = {.stmt = add_to, .vector = vector};
    struct lane_form form;
    return !lane_form(o, &access, &form) || form.lane_scale == 0;
}
