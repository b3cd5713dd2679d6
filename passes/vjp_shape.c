/* Gradients of ops on shapes, gathers and scatters: each is the transpose of its op. */
#include "passes/vjp.h"
#include <string.h>

/* Windows of so many elements are summed at a time: the order of XLA on a CPU, which rounds 16-bit sums at every step.
 * Under --numerics invariant, what is rounded may not depend on how many there are. */
enum { SUM_WINDOW = 32 };

/* One round of 16-bit sums: every dimension in `dims` is cut into windows; `dims` are then those that are left. */
static ir_value sum_windows(struct ir_builder *b, ir_value x, struct pass_dims *dims)
{
    struct ir_type type = *ir_type(b->f, x), cut = {.dtype = type.dtype};
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, none[IR_MAX_RANK] = {0};
    struct pass_dims inner = {.n = 0}, left = {.n = 0};
    uint32_t next = 0, kept = 0;
    for (uint32_t i = 0; i < type.rank; i++) {
        bool reduced = next < dims->n && dims->v[next] == i;
        int64_t n = type.dim[i], window = n < SUM_WINDOW ? n : SUM_WINDOW,
                windows = window ? (n + window - 1) / window : 1;
        next += reduced;
        if (!reduced || n <= SUM_WINDOW) {
            if (reduced) pass_dims_add(&inner, cut.rank);
            else kept++;
            cut.dim[cut.rank++] = n;
            continue;
        }
        low[i] = (windows * window - n) / 2;
        high[i] = windows * window - n - low[i];
        pass_dims_add(&left, kept++);
        cut.dim[cut.rank++] = windows;
        pass_dims_add(&inner, cut.rank);
        cut.dim[cut.rank++] = window;
    }
    *dims = left;
    x = ir_pad(b, x, ir_scalar(b, (enum ir_dtype)type.dtype, 0), low, high, none);
    return ir_reduce_plain(b, OP_reduce_sum, ir_reshape(b, x, cut.rank, cut.dim), inner.v, inner.n);
}

/* The sum of the cotangent over some dimensions, as jax.lax. */
static ir_value sum_over(struct vjp *c, struct pass_dims dims)
{
    struct ir_builder *b = c->b;
    ir_value x = c->ct;
    enum ir_dtype dtype = (enum ir_dtype)ir_type(b->f, x)->dtype;
    bool narrow = (dtype == IR_BF16 || dtype == IR_F16) && !c->pass->options->invariant, wide = false;
    for (uint32_t i = 0; i < dims.n; i++) wide |= ir_type(b->f, x)->dim[dims.v[i]] > SUM_WINDOW;
    while (narrow && wide && ir_type(b->f, x)->rank + dims.n <= IR_MAX_RANK) {
        x = sum_windows(b, x, &dims);
        wide = false;
        for (uint32_t i = 0; i < dims.n; i++) wide |= ir_type(b->f, x)->dim[dims.v[i]] > SUM_WINDOW;
    }
    if (!dims.n) return x;
    return narrow && wide ? ir_reduce(b, OP_reduce_sum, x, dims.v, dims.n)
                          : ir_reduce_plain(b, OP_reduce_sum, x, dims.v, dims.n);
}

static ir_value zeros_of(struct vjp *c, const struct ir_type *type) { return ir_number(c->b, *type, 0); }

/* Sums over the dimensions that are new in the result, and over those where an extent of 1 was repeated. */
/* The cotangent lies as the value does. */
void vjp_constraint(struct vjp *c)
{
    struct ir_node same = {.op = c->node.op, .arg_count = 1, .args = &c->ct, .type = c->node.type};
    memcpy(same.attr, c->node.attr, sizeof same.attr);
    vjp_give(c, 0, ir_make(c->b, same));
}

void vjp_broadcast(struct vjp *c)
{
    const struct ir_type from = *vjp_type(c, 0), *to = &c->node.type;
    struct pass_dims summed = {.n = 0};
    uint32_t of_x = 0;
    for (uint32_t i = 0; i < to->rank; i++) {
        bool kept = of_x < from.rank && c->node.attr[0].v[of_x] == i;
        if (!kept || from.dim[of_x] != to->dim[i]) pass_dims_add(&summed, i);
        of_x += kept;
    }
    ir_value sum = sum_over(c, summed);
    vjp_give(c, 0, ir_reshape(c->b, sum, from.rank, from.dim));
}

void vjp_reshape(struct vjp *c)
{
    const struct ir_type from = *vjp_type(c, 0);
    vjp_give(c, 0, ir_reshape(c->b, c->ct, from.rank, from.dim));
}

void vjp_transpose(struct vjp *c)
{
    int64_t inverse[IR_MAX_RANK];
    for (uint32_t i = 0; i < c->node.attr[0].n; i++) inverse[c->node.attr[0].v[i]] = i;
    vjp_give(c, 0, ir_transpose(c->b, c->ct, inverse));
}

void vjp_slice(struct vjp *c)
{
    const struct ir_type *from = vjp_type(c, 0), *to = &c->node.type;
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK], interior[IR_MAX_RANK];
    for (uint32_t i = 0; i < from->rank; i++) {
        int64_t stride = c->node.attr[2].v[i], n = to->dim[i];
        low[i] = n ? c->node.attr[0].v[i] : 0;
        interior[i] = stride - 1;
        high[i] = from->dim[i] - low[i] - (n ? (n - 1) * stride + 1 : 0);
    }
    ir_value zero = ir_scalar(c->b, (enum ir_dtype)to->dtype, 0);
    vjp_give(c, 0, ir_pad(c->b, c->ct, zero, low, high, interior));
}

/* The padding is taken off again; what it was filled with gets the sum of the rest. */
void vjp_pad(struct vjp *c)
{
    const struct ir_type from = *vjp_type(c, 0), to = c->node.type;
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK], none[IR_MAX_RANK] = {0}, stride[IR_MAX_RANK], limit[IR_MAX_RANK];
    struct pass_dims all_x = {.n = 0}, all = {.n = 0};
    bool spread = false, whole = true;
    for (uint32_t i = 0; i < from.rank; i++) {
        low[i] = -c->node.attr[0].v[i];
        high[i] = -c->node.attr[1].v[i];
        stride[i] = c->node.attr[2].v[i] + 1;
        limit[i] = from.dim[i] ? (from.dim[i] - 1) * stride[i] + 1 : 0;
        spread |= stride[i] > 1;
        whole &= low[i] <= 0 && high[i] <= 0 && from.dim[i];
        pass_dims_add(&all_x, i);
        pass_dims_add(&all, i);
    }
    ir_value zero = ir_scalar(c->b, (enum ir_dtype)to.dtype, 0), inside;
    for (uint32_t i = 0; i < from.rank && spread && whole; i++) limit[i] -= low[i];
    if (spread && whole) inside = ir_slice(c->b, c->ct, c->node.attr[0].v, limit, stride); /* taps of one tensor */
    else inside = ir_slice(c->b, ir_pad(c->b, c->ct, zero, low, high, none), none, limit, stride);
    vjp_give(c, 0, inside);
    if (vjp_wants(c, 1))
        vjp_give(c, 1,
                 ir_binary(c->b, OP_sub, ir_reduce(c->b, OP_reduce_sum, c->ct, all.v, all.n),
                           ir_reduce(c->b, OP_reduce_sum, inside, all_x.v, all_x.n)));
}

/* What was put around goes back to where it came from. */
void vjp_extend(struct vjp *c)
{
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK];
    for (uint32_t i = 0; i < c->node.type.rank; i++) low[i] = -c->node.attr[0].v[i], high[i] = -c->node.attr[1].v[i];
    vjp_give(c, 0, ir_extend(c->b, c->ct, low, high, c->node.attr[2].v[0]));
}

void vjp_concat(struct vjp *c)
{
    int64_t start[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], stride[IR_MAX_RANK], dim = c->node.attr[0].v[0];
    for (uint32_t i = 0; i < c->node.type.rank; i++) {
        stride[i] = 1;
        limit[i] = c->node.type.dim[i];
    }
    for (uint32_t i = 0; i < c->node.arg_count; i++) {
        limit[dim] = start[dim] + vjp_type(c, i)->dim[dim];
        if (vjp_wants(c, i)) vjp_give(c, i, ir_slice(c->b, c->ct, start, limit, stride));
        start[dim] = limit[dim];
    }
}

void vjp_reverse(struct vjp *c) { vjp_give(c, 0, ir_reverse(c->b, c->ct, c->node.attr[0].v, c->node.attr[0].n)); }

void vjp_dynamic_slice(struct vjp *c)
{
    vjp_give(c, 0, ir_dynamic_update(c->b, zeros_of(c, vjp_type(c, 0)), c->ct, c->node.args + 1));
}

void vjp_dynamic_update(struct vjp *c)
{
    const ir_value *starts = c->node.args + 2;
    const struct ir_type part = *vjp_type(c, 1);
    if (vjp_wants(c, 0)) vjp_give(c, 0, ir_dynamic_update(c->b, c->ct, zeros_of(c, &part), starts));
    if (vjp_wants(c, 1)) vjp_give(c, 1, ir_dynamic_slice(c->b, c->ct, starts, part.dim));
}

/* Indices as take uses them: in 0..extent-1. */
static ir_value clamped(struct vjp *c, ir_value index, int64_t extent)
{
    enum ir_dtype dtype = (enum ir_dtype)ir_type(c->b->f, index)->dtype;
    if (ir_dtype_is_signed(dtype)) index = ir_binary(c->b, OP_max, index, ir_number_like(c->b, index, 0));
    if ((double)extent > ir_element_round(dtype, (double)extent)) /* every index of this dtype is inside */
        return index;
    return ir_binary(c->b, OP_min, index, ir_number_like(c->b, index, (double)(extent - 1)));
}

void vjp_take(struct vjp *c)
{
    const struct ir_type from = *vjp_type(c, 0);
    int64_t dim = c->node.attr[0].v[0];
    ir_value index = clamped(c, vjp_arg(c, 1), from.dim[dim]);
    vjp_give(c, 0, ir_scatter_add(c->b, zeros_of(c, &from), index, c->ct, (uint32_t)dim));
}

/* Updates at indices outside were dropped, so their cotangent is 0. */
void vjp_scatter_add(struct vjp *c)
{
    vjp_give(c, 0, c->ct);
    if (!vjp_wants(c, 2)) return;
    struct ir_builder *b = c->b;
    ir_value index = vjp_arg(c, 1);
    const struct ir_type indices = *ir_type(b->f, index), updates = *vjp_type(c, 2);
    int64_t dim = c->node.attr[0].v[0], extent = c->node.type.dim[dim], dims[IR_MAX_RANK];
    ir_value inside = ir_binary(b, OP_eq, index, clamped(c, index, extent));
    for (uint32_t i = 0; i < indices.rank; i++) dims[i] = dim + i;
    ir_value mask = ir_broadcast(b, inside, updates.rank, updates.dim, dims);
    ir_value taken = ir_take(b, c->ct, index, (uint32_t)dim);
    vjp_give(c, 2, ir_select(b, mask, taken, ir_number_like(b, taken, 0)));
}
