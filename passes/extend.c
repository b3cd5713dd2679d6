/* Elements of a tensor put around it (op extend), in slices of it, and what is taken off added to where it comes from.
 */
#include "passes/common.h"

static ir_value cut(struct ir_builder *b, ir_value x, uint32_t dim, int64_t start, int64_t count)
{
    const struct ir_type t = *ir_type(b->f, x);
    int64_t first[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) limit[d] = t.dim[d], stride[d] = 1;
    first[dim] = start;
    limit[dim] = start + count;
    return ir_slice(b, x, first, limit, stride);
}

/* Element i of x at place i + shift of an extent, or nowhere; zeros where there is none. */
static ir_value shifted(struct ir_builder *b, ir_value x, uint32_t dim, int64_t shift, int64_t extent)
{
    const struct ir_type t = *ir_type(b->f, x);
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, none[IR_MAX_RANK] = {0};
    low[dim] = shift;
    high[dim] = extent - shift - t.dim[dim];
    return ir_pad(b, x, ir_scalar(b, (enum ir_dtype)t.dtype, 0), low, high, none);
}

/* Which elements stand before an extent, or behind it. */
static int64_t rim_start(int64_t kind, int64_t extent, int64_t count, bool before)
{
    if (kind == IR_EXTEND_EDGE) return before ? 0 : extent - 1;
    if (kind == IR_EXTEND_WRAP) return before ? extent - count : 0;
    int64_t edge = kind == IR_EXTEND_REFLECT;
    return before ? edge : extent - edge - count;
}

static ir_value turned(struct ir_builder *b, ir_value x, uint32_t dim, int64_t kind)
{
    return kind == IR_EXTEND_WRAP ? x : ir_reverse(b, x, (int64_t[]){dim}, 1);
}

/* The first or last element of x, `count` times. */
static ir_value repeated(struct ir_builder *b, ir_value x, uint32_t dim, int64_t count, bool before)
{
    struct ir_type t = *ir_type(b->f, x);
    int64_t dims[IR_MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) dims[d] = d;
    x = cut(b, x, dim, before ? 0 : t.dim[dim] - 1, 1);
    t.dim[dim] = count;
    return ir_broadcast(b, x, t.rank, t.dim, dims);
}

ir_value pass_rim(struct ir_builder *b, ir_value x, uint32_t dim, int64_t kind, int64_t count, bool before)
{
    if (kind == IR_EXTEND_EDGE) return repeated(b, x, dim, count, before);
    int64_t start = rim_start(kind, ir_type(b->f, x)->dim[dim], count, before);
    return turned(b, cut(b, x, dim, start, count), dim, kind);
}

ir_value pass_rim_back(struct ir_builder *b, ir_value rim, uint32_t dim, int64_t kind, int64_t extent, bool before)
{
    struct ir_type t = *ir_type(b->f, rim);
    int64_t count = t.dim[dim], start = rim_start(kind, extent, count, before), along = dim;
    t.dim[dim] = 1;
    if (kind != IR_EXTEND_EDGE) return shifted(b, turned(b, rim, dim, kind), dim, start, extent);
    struct ir_node sum = {.op = OP_reduce_sum, .arg_count = 1, .args = &rim}; /* one element after the other */
    sum.attr[0] = (struct ir_ints){&along, 1};
    sum.attr[1] = (struct ir_ints){&count, 1};
    return shifted(b, ir_reshape(b, ir_make(b, sum), t.rank, t.dim), dim, start, extent);
}

/* x at the places start..limit, y at the others. */
static ir_value chosen(struct ir_builder *b, uint32_t dim, int64_t start, int64_t limit, ir_value x, ir_value y)
{
    struct ir_type t = *ir_type(b->f, x);
    int64_t along = dim;
    ir_value place = ir_iota(b, ir_type_of(IR_I32, 1, &t.dim[dim]), 0);
    ir_value first = ir_number_like(b, place, (double)start), end = ir_number_like(b, place, (double)limit);
    ir_value here = start ? ir_binary(b, OP_le, first, place) : ir_binary(b, OP_lt, place, end);
    if (start && limit < t.dim[dim]) here = ir_binary(b, OP_and, here, ir_binary(b, OP_lt, place, end));
    return ir_select(b, ir_broadcast(b, here, t.rank, t.dim, &along), x, y);
}

/* Copies of the whole that are shifted: parts of it would be asked for element by element. */
static ir_value grown(struct ir_builder *b, ir_value x, uint32_t dim, int64_t low, int64_t high, int64_t kind)
{
    int64_t n = ir_type(b->f, x)->dim[dim], all = n + low + high, edge = kind == IR_EXTEND_REFLECT;
    int64_t shift[] = {low - n + edge, low + n - edge}, start[] = {0, low + n}, limit[] = {low, all};
    ir_value made = shifted(b, x, dim, low, all), y = kind == IR_EXTEND_EDGE ? x : turned(b, x, dim, kind);
    for (uint32_t i = 0; i < 2; i++) {
        if (limit[i] <= start[i]) continue;
        ir_value rim = kind == IR_EXTEND_EDGE ? repeated(b, x, dim, all, !i) : shifted(b, y, dim, shift[i], all);
        made = chosen(b, dim, start[i], limit[i], rim, made);
    }
    return made;
}

static ir_value shrunk(struct ir_builder *b, ir_value x, uint32_t dim, int64_t low, int64_t high, int64_t kind)
{
    int64_t n = ir_type(b->f, x)->dim[dim], rest = n - low - high, edge = kind == IR_EXTEND_REFLECT;
    int64_t shift[] = {edge + low - n, rest - edge - high}, count[] = {low, high};
    if (kind == IR_EXTEND_WRAP) shift[0] = rest - low, shift[1] = high - n;
    ir_value sum = cut(b, x, dim, low, rest), y = kind == IR_EXTEND_EDGE ? x : turned(b, x, dim, kind);
    for (uint32_t i = 0; i < 2; i++) {
        if (!count[i]) continue;
        ir_value rim = kind == IR_EXTEND_EDGE
                           ? pass_rim_back(b, cut(b, x, dim, i ? n - high : 0, count[i]), dim, kind, rest, !i)
                           : shifted(b, y, dim, shift[i], rest);
        if (edge) rim = chosen(b, dim, i ? 0 : edge, i ? rest - edge : rest, rim, ir_number_like(b, rim, 0));
        sum = ir_binary(b, OP_add, sum, rim);
    }
    return sum;
}

ir_value pass_extend(struct ir_builder *b, ir_value x, const struct ir_node *extend, uint32_t dims)
{
    for (uint32_t d = 0; d < extend->type.rank; d++) {
        int64_t low = extend->attr[0].v[d], high = extend->attr[1].v[d], kind = extend->attr[2].v[0];
        if (!(dims >> d & 1) || (!low && !high)) continue;
        x = low + high >= 0 ? grown(b, x, d, low, high, kind) : shrunk(b, x, d, -low, -high, kind);
    }
    return x;
}
