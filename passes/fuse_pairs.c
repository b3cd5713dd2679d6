/* Convolutions of bfloat16 where the CPU multiplies pairs of it (codegen/README.md): their taps stay where they are,
 * but in bfloat16, and two steps of a contraction lie side by side. Forward, and of the image's gradient, which is a
 * convolution by now (fuse_transposed.c), these are two channels. Of the kernel's gradient they are two images of the
 * batch, in a copy that has their elements in turn: wherever a tap is, it is there in both of them. Of an odd number
 * there is one more, of zeros. */
#include "passes/fuse.h"
#include <string.h>

enum { MOST_TAPS = FUSE_MOST_TAPS };

/* The bfloat16 of which a value is the widened view, of at most so many nodes. 0: it is none. */
static ir_value narrow(struct ir_builder *b, ir_value v, uint32_t *nodes)
{
    struct ir_node n = *ir_get(b->f, v);
    ir_value args[MOST_TAPS];
    uint32_t views = n.op == OP_pad ? 1 : n.arg_count;
    if (!*nodes) return 0;
    --*nodes;
    if (n.op == OP_cast) return ir_type(b->f, n.args[0])->dtype == IR_BF16 ? n.args[0] : 0;
    if (n.op != OP_reshape && n.op != OP_transpose && n.op != OP_slice && n.op != OP_concat && n.op != OP_pad) return 0;
    if (n.arg_count > MOST_TAPS || (n.op == OP_pad && !pass_is_zero(b->f, n.args[1]))) return 0;
    for (uint32_t i = 0; i < views; i++)
        if (!(args[i] = narrow(b, n.args[i], nodes))) return 0;
    if (n.op == OP_pad) args[1] = ir_scalar(b, IR_BF16, 0);
    n.type.dtype = IR_BF16;
    return ir_remake(b, &n, args);
}

/* One more step of a dimension, of zeros, if its extent is odd. */
static ir_value even(struct ir_builder *b, ir_value v, int64_t dim)
{
    struct ir_type type = *ir_type(b->f, v);
    int64_t low[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, none[IR_MAX_RANK] = {0};
    struct ir_node n = *ir_get(b->f, v);
    if (type.dim[dim] % 2 == 0) return v;
    bool again = n.op == OP_pad && pass_is_zero(b->f, n.args[1]) && n.attr[1].v[dim] >= 0;
    for (uint32_t i = 0; i < type.rank && again; i++)
        low[i] = n.attr[0].v[i], high[i] = n.attr[1].v[i], none[i] = n.attr[2].v[i];
    high[dim]++;
    return ir_pad(b, again ? n.args[0] : v, ir_scalar(b, IR_BF16, 0), low, high, none);
}

/* The dimension as two: steps of `inner`, and these. */
static ir_value split(struct ir_builder *b, ir_value v, int64_t dim, int64_t inner)
{
    struct ir_type type = *ir_type(b->f, v);
    int64_t shape[IR_MAX_RANK + 1];
    for (uint32_t i = 0; i < type.rank; i++) shape[i + (i > dim)] = type.dim[i];
    shape[dim] = type.dim[dim] / inner, shape[dim + 1] = inner;
    return ir_reshape(b, v, type.rank + 1, shape);
}

/* The taps of another base: longer in the last dimension, or with pairs of the first dimension behind it. */
static ir_value taps_of(struct ir_builder *b, ir_value concat, ir_value base, bool images)
{
    struct ir_node n = *ir_get(b->f, concat);
    struct ir_type type = *ir_type(b->f, base);
    ir_value part[MOST_TAPS];
    for (uint32_t k = 0; k < n.arg_count; k++) {
        struct ir_node slice = *ir_get(b->f, n.args[k]);
        int64_t start[IR_MAX_RANK] = {0}, limit[IR_MAX_RANK], by[IR_MAX_RANK];
        uint32_t last = slice.type.rank - 1u;
        for (uint32_t i = 0; i < type.rank; i++) {
            bool taken = i < last && !(images && !i);
            start[i] = taken ? slice.attr[0].v[i] : 0;
            limit[i] = taken ? slice.attr[1].v[i] : type.dim[i];
            by[i] = taken && slice.attr[2].n ? slice.attr[2].v[i] : 1;
        }
        part[k] = ir_slice(b, base, start, limit, by);
    }
    return ir_concat(b, part, n.arg_count, (uint32_t)n.attr[0].v[0]);
}

/* Slices of whole runs along the last dimension, one behind the other there. */
static bool find(struct plan_taps *t, const struct ir_func *f, ir_value v, struct arena *arena)
{
    while (ir_get(f, v)->op == OP_reshape) v = ir_get(f, v)->args[0];
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_concat || n->arg_count > MOST_TAPS || n->attr[0].v[0] + 1 != n->type.rank ||
        !fuse_find_taps(f, v, t, arena) || ir_type(f, t->slice)->rank != n->type.rank)
        return false;
    for (uint32_t k = 0; k < n->arg_count; k++)
        if (ir_get(f, n->args[k])->op != OP_slice) return false;
    const struct ir_type *base = ir_type(f, t->base), *slice = ir_type(f, t->slice);
    return base->dim[base->rank - 1u] == slice->dim[slice->rank - 1u];
}

static bool counts_up(struct ir_ints dims, uint32_t from)
{
    for (uint32_t i = 0; i < dims.n; i++)
        if (dims.v[i] != from + i) return false;
    return true;
}

/* Pairs of channels: contracted are taps and channels, as one dimension or two. */
static ir_value by_channels(struct ir_builder *b, const struct ir_node *dot, const struct plan_taps *t, ir_value base,
                            ir_value kernel)
{
    struct ir_type all = *ir_type(b->f, t->concat), type = *ir_type(b->f, kernel);
    int64_t outer = all.rank - 1, run = (int64_t)t->size, at = dot->attr[3].v[0], of_kernel[2] = {at, at + 1};
    int64_t taps = all.dim[outer] / run, of_x[2] = {outer, outer + 1};
    if (run < 2) return 0; /* twice the work */
    if (dot->attr[3].n == 2) of_kernel[1] = dot->attr[3].v[1];
    else kernel = split(b, kernel, at, run);
    if (dot->attr[3].n == 2 && (type.dim[at] != taps || type.dim[of_kernel[1]] != run)) return 0;
    ir_value x = taps_of(b, t->concat, even(b, base, outer), false);
    x = ir_cast(b, split(b, x, outer, run + run % 2), IR_F32);
    kernel = ir_cast(b, even(b, kernel, of_kernel[1]), IR_F32);
    struct ir_ints none = {NULL, 0};
    return ir_dot(b, x, kernel, none, none, (struct ir_ints){of_x, 2}, (struct ir_ints){of_kernel, 2});
}

/* Two images at a time, their elements in turn: [image / 2, .., 2]. What is around them comes last, so that no element
 * of a line asks whether it is in it. */
static ir_value side_by_side(struct ir_builder *b, ir_value images)
{
    struct ir_node n = *ir_get(b->f, images);
    uint32_t rank = n.type.rank;
    int64_t order[IR_MAX_RANK] = {0}, around[3][IR_MAX_RANK] = {{0}};
    bool padded = n.op == OP_pad && pass_is_zero(b->f, n.args[1]) && !n.attr[0].v[0] && !n.attr[1].v[0] &&
                  !n.attr[2].v[0];
    for (uint32_t i = 1; i < rank; i++) order[i] = i + 1;
    order[rank] = 1;
    ir_value pairs = ir_transpose(b, split(b, even(b, padded ? n.args[0] : images, 0), 0, 2), order);
    if (!padded) return pairs;
    for (uint32_t k = 0; k < 3; k++) memcpy(around[k], n.attr[k].v, rank * sizeof(int64_t));
    return ir_pad(b, pairs, ir_scalar(b, IR_BF16, 0), around[0], around[1], around[2]);
}

/* Pairs of images: contracted is all but taps and channels. */
static ir_value by_images(struct ir_builder *b, const struct ir_node *dot, const struct plan_taps *t, ir_value base,
                          ir_value y)
{
    uint32_t rank = ir_type(b->f, base)->rank, outer = rank - 1;
    int64_t images = ir_type(b->f, base)->dim[0], of_x[IR_MAX_RANK], of_y[IR_MAX_RANK];
    struct ir_node first = *ir_get(b->f, t->slice);
    if (rank == IR_MAX_RANK || ir_type(b->f, y)->rank == IR_MAX_RANK || first.type.dim[0] != images || images < 2)
        return 0;
    int64_t pairs = dot->attr[3].v[0];
    ir_value x = ir_cast(b, taps_of(b, t->concat, side_by_side(b, base), true), IR_F32);
    y = ir_cast(b, split(b, even(b, y, pairs), pairs, 2), IR_F32);
    for (uint32_t i = 0; i < outer; i++) of_x[i] = i, of_y[i] = dot->attr[3].v[i] + (dot->attr[3].v[i] > pairs);
    of_x[outer] = rank, of_y[outer] = pairs + 1;
    struct ir_ints none = {NULL, 0};
    ir_value product = ir_dot(b, x, y, none, none, (struct ir_ints){of_x, outer + 1},
                              (struct ir_ints){of_y, outer + 1});
    return ir_reshape(b, product, dot->type.rank, dot->type.dim);
}

/* A view of something widened, its first part at least. */
static bool is_wide(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    while (n->op == OP_reshape || n->op == OP_transpose || n->op == OP_slice || n->op == OP_concat || n->op == OP_pad)
        n = ir_get(f, n->args[0]);
    return n->op == OP_cast && ir_type(f, n->args[0])->dtype == IR_BF16;
}

bool fuse_may_pair(const struct ir_func *f, const struct ir_node *n, struct arena *arena)
{
    struct plan_taps t;
    return n->op == OP_dot && n->type.dtype == IR_F32 && n->attr[2].n && !n->attr[0].n && !n->attr[4].n &&
           !n->attr[5].n && !n->attr[6].n && is_wide(f, n->args[0]) && is_wide(f, n->args[1]) &&
           find(&t, f, n->args[0], arena);
}

ir_value fuse_pair(struct ir_builder *b, const struct ir_node *dot, const ir_value *map, struct arena *arena)
{
    struct plan_taps t;
    ir_value x = map[dot->args[0]], y = map[dot->args[1]];
    if (!find(&t, b->f, x, arena)) return 0;
    struct ir_type all = *ir_type(b->f, t.concat), type = *ir_type(b->f, x);
    uint32_t outer = all.rank - 1u, contracted = dot->attr[2].n;
    for (uint32_t i = 0; i < outer; i++) /* a reshape may part taps and channels, nothing else */
        if (type.dim[i] != all.dim[i]) return 0;
    bool channels = contracted <= 2 && outer + contracted == type.rank && counts_up(dot->attr[2], outer);
    bool images = contracted == outer && counts_up(dot->attr[2], 0);
    if (!channels && !images) return 0;
    uint32_t nodes = 2 * MOST_TAPS;
    ir_value base = narrow(b, t.base, &nodes), other = base ? narrow(b, y, &nodes) : 0;
    if (!other) return 0;
    return channels ? by_channels(b, dot, &t, base, other) : by_images(b, dot, &t, base, other);
}
