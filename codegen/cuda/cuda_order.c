/* Where barriers are needed. Threads of a block meet at the same element of a buffer in three ways: all of them read it
 * (outside vector loops), thread 0 writes it (there too), or a lane reads or writes it inside a vector loop. Lanes are
 * bound to threads by i / few % threads in every vector loop, so two lane accesses are by the same thread if the
 * element determines the lane and does so alike in both. Everything that is not proven safe is a conflict. */
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

void cuda_learn(struct cuda_order *o, const struct nest_stmt *s)
{
    struct cuda_digit *digit = &o->digits[s->result];
    const struct nest_index *index = &s->index;
    o->made[s->result] = s;
    if (s->kind == NEST_POSITION && !index->offset && index->term_count + index->scaled_count == 1) {
        if (index->term_count && index->terms[0].scale == 1)
            *digit = (struct cuda_digit){index->terms[0].var, 1, o->extent[index->terms[0].var]};
        if (index->scaled_count && index->scaled[0].scale == 1) *digit = o->digits[index->scaled[0].value];
    }
    if (s->kind != NEST_OP || (s->op != OP_div && s->op != OP_rem) || s->dtype != IR_I32) return;
    const struct nest_stmt *with = o->made[s->args[1]];
    struct cuda_digit of = o->digits[s->args[0]];
    if (!with || with->kind != NEST_NUMBER || with->number < 1 || of.count < 1) return;
    int64_t number = (int64_t)with->number;
    if (s->op == OP_rem) of.count = of.count < number ? of.count : number;
    else if (of.count % number) return;
    else of.by *= number, of.count /= number;
    *digit = of;
}

/* An index as digits of a mixed radix, smallest first. False: an element may have several indices. */
struct digit {
    int64_t scale, extent;
    int64_t by;    /* of the lane, which it is a digit of; 0: of something else */
    nest_value of; /* with others of it, it makes at most `most` of the index; 0: nothing is known */
    int64_t most;
};
enum { MOST_DIGITS = 16, MOST_POSITIONS = 4 /* one in the other */ };
struct digits {
    struct digit item[MOST_DIGITS];
    uint32_t count;
    int64_t offset;
};

static bool add_digit(const struct cuda_access *a, struct digits *out, struct cuda_digit of, int64_t scale,
                      nest_value bounded)
{
    struct digit digit = {scale, of.count, of.var == a->vector->var ? of.by : 0, bounded, 0};
    if (of.count == 1) return true;
    if (scale <= 0 || of.count < 1 || out->count == MOST_DIGITS) return false;
    uint32_t at = out->count++;
    for (; at > 0 && out->item[at - 1].scale > scale; at--) out->item[at] = out->item[at - 1];
    out->item[at] = digit;
    return true;
}

/* The value is below it where the condition holds. */
static int64_t bound_of(const struct cuda_order *o, nest_value cond, nest_value v)
{
    const struct nest_stmt *s = cond ? o->made[cond] : NULL;
    if (!s || s->kind != NEST_OP || (s->op != OP_and && s->op != OP_lt)) return INT64_MAX;
    if (s->op == OP_and) {
        int64_t x = bound_of(o, s->args[0], v), y = bound_of(o, s->args[1], v);
        return x < y ? x : y;
    }
    const struct nest_stmt *with = o->made[s->args[1]];
    return s->args[0] == v && with && with->kind == NEST_NUMBER ? (int64_t)with->number : INT64_MAX;
}

static bool add_digits(const struct cuda_order *o, const struct cuda_access *a, struct digits *out,
                       const struct nest_index *index, int64_t scale, nest_value bounded, uint32_t depth)
{
    out->offset += index->offset * scale;
    for (uint32_t i = 0; i < index->term_count; i++) {
        struct cuda_digit whole = {index->terms[i].var, 1, o->extent[index->terms[i].var]};
        if (!add_digit(a, out, whole, index->terms[i].scale * scale, bounded)) return false;
    }
    for (uint32_t i = 0; i < index->scaled_count; i++) {
        nest_value v = index->scaled[i].value;
        const struct nest_stmt *made = o->made[v];
        int64_t by = index->scaled[i].scale * scale, bound = bound_of(o, a->stmt->cond, v), offset = out->offset;
        bool bounds = !bounded && bound != INT64_MAX;
        nest_value within = bounds ? v : bounded;
        bool known = o->digits[v].count ? add_digit(a, out, o->digits[v], by, within)
                                        : depth && made && made->kind == NEST_POSITION &&
                                              add_digits(o, a, out, &made->index, by, within, depth - 1);
        if (!known) return false;
        for (uint32_t d = 0; bounds && d < out->count; d++)
            if (out->item[d].of == v) out->item[d].most = (bound - 1) * by - (out->offset - offset);
    }
    return true;
}

/* What has to be 0 where the condition holds is left out. */
static void drop_none(struct digits *d)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->count; i++)
        if (!d->item[i].of || d->item[i].by || d->item[i].scale <= d->item[i].most) d->item[count++] = d->item[i];
    d->count = count;
}

/* Each is more than all before it can make. Of a row of a tile that sticks out of a tensor the last columns are
 * elements of the next row, but not where the condition holds. */
static bool find_digits(const struct cuda_order *o, const struct cuda_access *a, struct digits *out)
{
    int64_t before = 0, here = 0;
    memset(out, 0, sizeof *out);
    if (!add_digits(o, a, out, &a->stmt->index, 1, 0, MOST_POSITIONS)) return false;
    drop_none(out);
    for (uint32_t i = 0; i < out->count; i++) {
        const struct digit *d = &out->item[i];
        if (i && d->of != out->item[i - 1].of) before += here, here = 0;
        if (d->scale <= before + here) return false;
        here += d->scale * (d->extent - 1);
        if (d->of && here > d->most) here = d->most;
    }
    return true;
}

/* The digits of the lane that there are make up all of it. */
static bool tells_lane(const struct digits *d, int64_t lanes)
{
    int64_t told = 1;
    for (bool more = true; more && told < lanes;) {
        more = false;
        for (uint32_t i = 0; i < d->count && !more; i++)
            if (d->item[i].by == told) told *= d->item[i].extent, more = true;
    }
    return told >= lanes;
}

static bool same_digits(const struct cuda_order *o, const struct cuda_access *a, const struct cuda_access *b)
{
    struct digits x, y;
    if (!find_digits(o, a, &x) || !find_digits(o, b, &y) || x.count != y.count || x.offset != y.offset) return false;
    for (uint32_t i = 0; i < x.count; i++) {
        const struct digit *d = &x.item[i], *e = &y.item[i];
        if (d->scale != e->scale || d->extent != e->extent || d->by != e->by) return false;
    }
    return a->vector->extent >= 0 && a->vector->extent == b->vector->extent && tells_lane(&x, a->vector->extent);
}

/* What the digits below `scale` make at most, the common factor of the others below `end`. */
static int64_t reach(const struct digits *d, int64_t scale, int64_t end, int64_t *step)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < d->count && d->item[i].scale < end; i++) {
        if (d->item[i].scale < scale) most += d->item[i].scale * (d->item[i].extent - 1);
        else *step = gcd(*step, d->item[i].scale);
    }
    return most;
}

/* The offset as what is below `factor`, and what the digits below `end` make at most; false: together it may be more.
 */
static bool rest_of(const struct digits *d, int64_t end, int64_t factor, int64_t *offset, int64_t *most)
{
    int64_t before = 0, here = 0;
    for (uint32_t i = 0; i < d->count && d->item[i].scale < end; i++) {
        if (i && d->item[i].of != d->item[i - 1].of) before += here, here = 0;
        here += d->item[i].scale * (d->item[i].extent - 1);
        if (d->item[i].of && here > d->item[i].most) here = d->item[i].most;
    }
    *offset = factor ? (d->offset % factor + factor) % factor : d->offset;
    *most = before + here;
    return !factor || *offset + *most < factor;
}

/* Digits from `end` on are multiples of what the others do not reach, so equal elements are equal in those: what the
 * columns of a row are, say, whose length their group does not divide. */
static bool never_meet_below(const struct digits *x, const struct digits *y, int64_t end)
{
    int64_t factor = 0, in_x, in_y, most_x, most_y;
    reach(x, end, INT64_MAX, &factor);
    reach(y, end, INT64_MAX, &factor);
    if (!rest_of(x, end, factor, &in_x, &most_x) || !rest_of(y, end, factor, &in_y, &most_y)) return false;
    int64_t apart = in_x > in_y ? in_x - in_y : in_y - in_x;
    bool never = apart > most_x && apart > most_y;
    for (uint32_t i = 0; i < x->count && x->item[i].scale < end && !never; i++) {
        int64_t step = 0, scale = x->item[i].scale;
        int64_t of_x = reach(x, scale, end, &step), of_y = reach(y, scale, end, &step),
                most = of_x > of_y ? of_x : of_y;
        int64_t rest = apart % step;
        never = rest > most && step - rest > most;
    }
    return never;
}

/* Constants keep them apart: neighbours that a thread stores one by one lie between the steps that it goes. */
static bool never_meet(const struct cuda_order *o, const struct cuda_access *a, const struct cuda_access *b)
{
    struct digits x, y;
    if (!find_digits(o, a, &x) || !find_digits(o, b, &y)) return false;
    bool never = never_meet_below(&x, &y, INT64_MAX);
    for (uint32_t i = 0; i < x.count && !never; i++) never = never_meet_below(&x, &y, x.item[i].scale);
    return never;
}

/* The element tells the lane, in the same way in both. */
static bool same_lanes(const struct cuda_order *o, const struct cuda_access *a, const struct cuda_access *b)
{
    struct lane_form x, y;
    if (a->few != b->few) return false;
    bool forms = lane_form(o, a, &x) && lane_form(o, b, &y);
    return (forms && lanes_between_steps(&x, &y)) || same_digits(o, a, b);
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
    if (x->level && y->level && (x->level != y->level || x->level == NEST_ALONE)) return false;
    return ir_dtype_bytes((enum ir_dtype)x->dtype) == ir_dtype_bytes((enum ir_dtype)y->dtype);
}

bool cuda_conflict(const struct cuda_order *o, const struct cuda_access *a, const struct cuda_access *b)
{
    if (!writes(a) && !writes(b)) return false;
    if (!may_meet(o->nest, a, b) || (by_thread_0(a) && by_thread_0(b))) return false;
    bool lanes = a->vector && b->vector && !a->solo && !b->solo;
    return !(lanes && (same_lanes(o, a, b) || never_meet(o, a, b)));
}

bool cuda_collides(const struct cuda_order *o, const struct nest_stmt *vector, const struct nest_stmt *add_to)
{
    struct cuda_access access = {.stmt = add_to, .vector = vector};
    struct lane_form form;
    return !lane_form(o, &access, &form) || form.lane_scale == 0;
}
