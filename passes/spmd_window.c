/* Windows (shard_window.c) as nodes: rims come from neighbours by a permute, and go back to them. */
#include "passes/shard_int.h"

#include <string.h>

ir_value shard_device_index(struct ir_builder *b, uint32_t mask)
{
    int64_t axes = mask;
    return ir_make(b, (struct ir_node){.op = OP_device_index, .type = ir_type_scalar(IR_I32), .attr = {{&axes, 1}}});
}

struct windows {
    struct ir_builder *b;
    uint32_t axes, dim;
    int64_t parts;
    enum { BORDERED, AROUND, MIRRORED } ends; /* nothing lies beyond them; one behind the other; of themselves */
    int64_t kind;                             /* of extend */
};

/* The elements of x from `start` + index * drift on. */
static ir_value cut(const struct windows *w, ir_value x, int64_t start, int64_t drift, int64_t count)
{
    struct ir_type t = *ir_type(w->b->f, x);
    int64_t first[IR_MAX_RANK] = {0}, stride[IR_MAX_RANK];
    ir_value starts[IR_MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) stride[d] = 1, starts[d] = ir_scalar(w->b, IR_I32, 0);
    t.dim[w->dim] = drift ? count : start + count;
    first[w->dim] = start;
    if (!drift) return ir_slice(w->b, x, first, t.dim, stride);
    ir_value index = shard_device_index(w->b, w->axes);
    starts[w->dim] = ir_binary(w->b, OP_add, ir_scalar(w->b, IR_I32, (double)start),
                               ir_binary(w->b, OP_mul, index, ir_scalar(w->b, IR_I32, (double)drift)));
    return ir_dynamic_slice(w->b, x, starts, t.dim);
}

/* The reverse: x among zeros. */
static ir_value place(const struct windows *w, ir_value x, int64_t start, int64_t drift, int64_t count)
{
    struct ir_type t = *ir_type(w->b->f, x);
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, none[IR_MAX_RANK] = {0};
    ir_value starts[IR_MAX_RANK], zero = ir_scalar(w->b, (enum ir_dtype)t.dtype, 0);
    low[w->dim] = start;
    high[w->dim] = count - start - t.dim[w->dim];
    if (!drift) return ir_pad(w->b, x, zero, low, high, none);
    for (uint32_t d = 0; d < t.rank; d++) starts[d] = ir_scalar(w->b, IR_I32, 0);
    t.dim[w->dim] = count;
    ir_value index = shard_device_index(w->b, w->axes);
    starts[w->dim] = ir_binary(w->b, OP_add, ir_scalar(w->b, IR_I32, (double)start),
                               ir_binary(w->b, OP_mul, index, ir_scalar(w->b, IR_I32, (double)drift)));
    return ir_dynamic_update(w->b, ir_number(w->b, t, 0), x, starts);
}

static ir_value is_device(const struct windows *w, int64_t number)
{
    return ir_binary(w->b, OP_eq, shard_device_index(w->b, w->axes), ir_scalar(w->b, IR_I32, (double)number));
}

/* x of the device that stands so many places before this one in a ring, which may be itself. */
static ir_value moved_on(const struct windows *w, ir_value x, int64_t by)
{
    by %= w->parts;
    if (!by) return x;
    int64_t axes = w->axes, row = 0;
    return ir_make(w->b, (struct ir_node){.op = OP_permute,
                                          .arg_count = 1,
                                          .args = &x,
                                          .type = *ir_type(w->b->f, x),
                                          .attr = {{&axes, 1}, {&by, 1}, {&row, 1}}});
}

static ir_value neighbour(const struct windows *w, ir_value x, bool before)
{
    return moved_on(w, x, before ? 1 : w->parts - 1);
}

/* Among padding: it stays where there is no neighbour. A concatenation would be this too, but what is sliced of it
 * could be taken from its operands, and the taps of a convolution would not be known to be of one tensor. */
static ir_value fill_rim(const struct windows *w, ir_value x, ir_value rim, bool before, bool at_ends)
{
    const struct ir_type t = *ir_type(w->b->f, x);
    int64_t count = ir_type(w->b->f, rim)->dim[w->dim], rest = t.dim[w->dim] - count;
    struct ir_type row = t;
    row.dtype = IR_I32;
    ir_value position = ir_iota(w->b, row, w->dim);
    ir_value limit = ir_number_like(w->b, position, (double)(before ? count : rest));
    ir_value inside = before ? ir_binary(w->b, OP_lt, position, limit) : ir_binary(w->b, OP_le, limit, position);
    if (!at_ends) {
        ir_value has = ir_binary(w->b, OP_ne, shard_device_index(w->b, w->axes),
                                 ir_scalar(w->b, IR_I32, before ? 0 : (double)(w->parts - 1)));
        inside = ir_binary(w->b, OP_and, inside, ir_broadcast_to(w->b, has, t.rank, t.dim));
    }
    return ir_select(w->b, inside, place(w, rim, before ? 0 : rest, 0, t.dim[w->dim]), x);
}

static ir_value chosen_at_end(const struct windows *w, bool first, ir_value x, ir_value y)
{
    const struct ir_type t = *ir_type(w->b->f, x);
    return ir_select(w->b, ir_broadcast_to(w->b, is_device(w, first ? 0 : w->parts - 1), t.rank, t.dim), x, y);
}

/* What lies beyond a device's part: `count` elements of its neighbour, or at an end of its own ones. */
static ir_value beyond(const struct windows *w, ir_value x, int64_t part, int64_t count, bool before)
{
    ir_value rim = neighbour(w, cut(w, x, before ? part - count : 0, 0, count), before);
    if (w->ends != MIRRORED) return rim;
    return chosen_at_end(w, before, pass_rim(w->b, x, w->dim, w->kind, count, before), rim);
}

static ir_value send_rims(const struct windows *w, ir_value x, const struct shard_rims *r, ir_value fill)
{
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, none[IR_MAX_RANK] = {0};
    low[w->dim] = r->left;
    high[w->dim] = r->right;
    ir_value all = ir_pad(w->b, x, fill, low, high, none);
    if (r->left) all = fill_rim(w, all, beyond(w, x, r->part, r->left, true), true, w->ends != BORDERED);
    if (r->right) all = fill_rim(w, all, beyond(w, x, r->part, r->right, false), false, w->ends != BORDERED);
    return cut(w, all, r->start, r->drift, r->window);
}

static ir_value add_rims(const struct windows *w, ir_value x, const struct shard_rims *r)
{
    enum ir_op sum = ir_type(w->b->f, x)->dtype == IR_BOOL ? OP_or : OP_add; /* one of them counts */
    x = place(w, x, r->start, r->drift, r->left + r->part + r->right);
    ir_value own = cut(w, x, r->left, 0, r->part), zero = ir_number_like(w->b, own, 0);
    for (int before = 1; before >= 0; before--) { /* right rims come from the device before */
        int64_t count = before ? r->right : r->left;
        if (!count) continue;
        ir_value rim = neighbour(w, cut(w, x, before ? r->left + r->part : 0, 0, count), before);
        own = ir_binary(w->b, sum, own, fill_rim(w, zero, rim, before, w->ends == AROUND));
    }
    for (int before = 1; before >= 0 && w->ends == MIRRORED; before--) { /* and at the ends to own elements */
        int64_t count = before ? r->left : r->right;
        if (!count) continue;
        ir_value rim = cut(w, x, before ? 0 : r->left + r->part, 0, count);
        rim = pass_rim_back(w->b, rim, w->dim, w->kind, r->part, before);
        own = ir_binary(w->b, sum, own, chosen_at_end(w, before, rim, zero));
    }
    return own;
}

/* Every element counts on one device: the others' are zero. */
static ir_value count_once(const struct windows *w, ir_value x, int64_t step)
{
    struct ir_type t = *ir_type(w->b->f, x);
    t.dtype = IR_I32;
    ir_value position = ir_iota(w->b, t, w->dim);
    ir_value own = ir_binary(w->b, OP_lt, position, ir_number_like(w->b, position, (double)step));
    ir_value last = ir_broadcast_to(w->b, is_device(w, w->parts - 1), t.rank, t.dim);
    return ir_select(w->b, ir_binary(w->b, OP_or, own, last), x, ir_number_like(w->b, x, 0));
}

ir_value shard_window_step(struct ir_builder *b, const struct ir_mesh *mesh, ir_value x, const struct shard_step *k,
                           int64_t extent)
{
    struct windows w = {.b = b, .axes = k->axes, .dim = k->dim, .parts = ir_axes_size(mesh, ir_axes_of_mask(k->axes))};
    ir_value zero = ir_scalar(b, (enum ir_dtype)ir_type(b->f, x)->dtype, 0);
    int64_t part = shard_part(extent, w.parts), all = extent + k->over, window = all - (w.parts - 1) * k->step;
    int64_t end = (w.parts - 1) * (part - k->step) + part; /* of the last part, in its window */
    struct shard_rims r = {0};
    shard_rims(extent, 0, k->over, k->step, w.parts, &r);
    switch (k->kind) {
    case SHARD_SEND_RIMS: return send_rims(&w, x, &r, zero);
    case SHARD_BORDER: return cut(&w, place(&w, x, r.left, 0, r.left + r.part + r.right), r.start, r.drift, r.window);
    case SHARD_ADD_RIMS: return add_rims(&w, x, &r);
    case SHARD_WINDOW: return cut(&w, place(&w, x, 0, 0, all), 0, k->step, window);
    case SHARD_OWN: return cut(&w, end > window ? place(&w, x, 0, 0, end) : x, 0, part - k->step, part);
    case SHARD_WIDEN: return cut(&w, place(&w, x, 0, k->step, all), 0, 0, extent);
    default: return count_once(&w, x, k->step);
    }
}

static ir_value window_extend(const struct shard *s, const struct shard_func *f, struct ir_builder *b, ir_value v,
                              ir_value x)
{
    const struct ir_node *n = ir_get(f->func, v);
    uint32_t local = ~0u;
    for (uint32_t d = 0; d < n->type.rank; d++) {
        const uint32_t axes = f->made[v].dim[d];
        const struct shard_lead lead = {f->wanted[v][0].step[d], f->made[v].step[d]};
        struct shard_rims r;
        if (!axes || (!n->attr[0].v[d] && !n->attr[1].v[d])) continue;
        enum shard_pad_kind kind = shard_pad_rims(&s->module->mesh, f, v, d, axes, lead, &r);
        const struct windows w = {.b = b,
                                  .axes = shard_axes_mask(axes),
                                  .dim = d,
                                  .parts = ir_axes_size(&s->module->mesh, axes),
                                  .ends = n->attr[2].v[0] == IR_EXTEND_WRAP ? AROUND : MIRRORED,
                                  .kind = n->attr[2].v[0]};
        int64_t hops = shard_hops(f, v, d, w.parts);
        local &= ~(1u << d);
        if (hops) x = moved_on(&w, x, hops + w.parts);
        if (kind == SHARD_LOCAL) continue;
        x = kind == SHARD_ADD ? add_rims(&w, x, &r)
                              : send_rims(&w, x, &r, ir_scalar(b, (enum ir_dtype)n->type.dtype, 0));
    }
    return pass_extend(b, x, n, local);
}

ir_value shard_window_pad(const struct shard *s, const struct shard_func *f, struct ir_builder *b, ir_value v,
                          const ir_value *args)
{
    const struct ir_node *n = ir_get(f->func, v);
    int64_t pad[3][IR_MAX_RANK], crop[2][IR_MAX_RANK], none[IR_MAX_RANK] = {0};
    if (n->op == OP_extend) return window_extend(s, f, b, v, args[0]);
    for (uint32_t i = 0; i < 3; i++) memcpy(pad[i], n->attr[i].v, n->attr[i].n * sizeof **pad);
    for (uint32_t d = 0; d < n->type.rank; d++) /* what is cut off of other dimensions is not sent, nor computed */
        for (uint32_t i = 0; i < 2; i++) {
            crop[i][d] = pad[i][d] < 0 && !pad[2][d] && !f->made[v].dim[d] ? pad[i][d] : 0;
            pad[i][d] -= crop[i][d];
        }
    ir_value x = ir_pad(b, args[0], args[1], crop[0], crop[1], none);
    for (uint32_t d = 0; d < n->type.rank; d++) {
        const uint32_t axes = f->made[v].dim[d];
        const struct shard_lead lead = {f->wanted[v][0].step[d], f->made[v].step[d]};
        struct shard_rims r;
        if (!axes) continue;
        enum shard_pad_kind kind = shard_pad_rims(&s->module->mesh, f, v, d, axes, lead, &r);
        const struct windows w = {
            .b = b, .axes = shard_axes_mask(axes), .dim = d, .parts = ir_axes_size(&s->module->mesh, axes)};
        if (kind == SHARD_LOCAL) continue;
        if (kind == SHARD_SEND) x = send_rims(&w, x, &r, args[1]);
        else if (kind == SHARD_ADD) x = add_rims(&w, x, &r);
        else x = cut(&w, x, r.start, r.drift, r.part);
        pad[0][d] = pad[1][d] = 0;
    }
    return ir_pad(b, x, args[1], pad[0], pad[1], pad[2]);
}
