/* How an op is applied to all rows at once: dimensions move up by one, and dimension 0 is the rows. */
#include "passes/vmap.h"
#include <string.h>

/* Attribute lists with an entry for the rows in front. */
static struct ir_ints prepend(struct vmap *c, struct ir_ints list, int64_t first, int64_t add)
{
    int64_t *v = arena_new_array(&c->pass->scratch, int64_t, list.n + 1);
    v[0] = first;
    for (uint32_t i = 0; i < list.n; i++) v[i + 1] = list.v[i] + add;
    return (struct ir_ints){v, list.n + 1};
}

static struct ir_ints shifted(struct vmap *c, struct ir_ints list)
{
    struct ir_ints all = prepend(c, list, 0, 1);
    return (struct ir_ints){all.v + 1, list.n};
}

/* The node with other operands and attributes (its own where `attr` has none), for all rows. */
static ir_value remake(struct vmap *c, const ir_value *args, const struct ir_ints *attr, uint32_t attrs)
{
    struct ir_node n = *c->n;
    n.type = vmap_type(c, &c->n->type);
    for (uint32_t i = 0; i < attrs; i++) n.attr[i] = attr[i];
    return ir_remake(c->b, &n, args);
}

static ir_value *all_args(struct vmap *c)
{
    ir_value *args = arena_new_array(&c->pass->scratch, ir_value, c->n->arg_count + 1);
    for (uint32_t i = 0; i < c->n->arg_count; i++) args[i] = vmap_arg(c, i);
    return args;
}

ir_value vmap_same(struct vmap *c) { return remake(c, all_args(c), NULL, 0); }

/* Attribute 0 names dimensions of an operand. */
ir_value vmap_along(struct vmap *c)
{
    struct ir_ints dims = shifted(c, c->n->attr[0]);
    return remake(c, all_args(c), &dims, 1);
}

/* Attribute 0 has an entry for every dimension of an operand: a dimension. */
ir_value vmap_prepend(struct vmap *c)
{
    struct ir_ints dims = prepend(c, c->n->attr[0], 0, 1);
    return remake(c, all_args(c), &dims, 1);
}

/* A constraint on the batch is now one on the rows. */
ir_value vmap_constraint(struct vmap *c)
{
    struct ir_ints axes = prepend(c, c->n->attr[0], PASS_AS_BATCH, 0);
    int64_t *v = arena_copy(&c->pass->scratch, axes.v, axes.n * sizeof *v);
    for (uint32_t i = 1; i < axes.n; i++)
        if (v[i] == PASS_AS_BATCH) v[i] = 0;
    axes.v = v;
    return remake(c, all_args(c), &axes, 1);
}

/* ---------------------------------------------------------------- shapes */

ir_value vmap_slice(struct vmap *c)
{
    struct ir_ints attr[3] = {prepend(c, c->n->attr[0], 0, 0), prepend(c, c->n->attr[1], c->rows, 0),
                              prepend(c, c->n->attr[2], 1, 0)};
    return remake(c, all_args(c), attr, 3);
}

ir_value vmap_extend(struct vmap *c)
{
    struct ir_ints attr[2] = {prepend(c, c->n->attr[0], 0, 0), prepend(c, c->n->attr[1], 0, 0)};
    return remake(c, all_args(c), attr, 2);
}

/* A filling of its own for every row comes after the padding, where no element of x lies. */
ir_value vmap_pad(struct vmap *c)
{
    struct ir_builder *b = c->b;
    struct ir_ints attr[3];
    for (uint32_t i = 0; i < 3; i++) attr[i] = prepend(c, c->n->attr[i], 0, 0);
    ir_value x = vmap_arg(c, 0);
    if (!vmap_mapped(c, 1)) return remake(c, (ir_value[]){x, vmap_plain(c, 1)}, attr, 3);
    struct ir_type from = *ir_type(b->f, x), all = vmap_type(c, &c->n->type);
    const int64_t rows[] = {0};
    ir_value zero = ir_scalar(b, (enum ir_dtype)from.dtype, 0);
    ir_value padded = ir_pad(b, x, zero, attr[0].v, attr[1].v, attr[2].v);
    from.dtype = IR_BOOL;
    ir_value inside = ir_pad(b, ir_number(b, from, 1), ir_scalar(b, IR_BOOL, 0), attr[0].v, attr[1].v, attr[2].v);
    return ir_select(b, inside, padded, ir_broadcast(b, vmap_plain(c, 1), all.rank, all.dim, rows));
}

/* ---------------------------------------------------------------- gathers and scatters */

/* x with dimension `from` as dimension `to`; the others keep their order. */
static ir_value move_dim(struct ir_builder *b, ir_value x, uint32_t from, uint32_t to)
{
    int64_t perm[IR_MAX_RANK];
    uint32_t rank = ir_type(b->f, x)->rank, at = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (at == from) at++;
        perm[i] = i == to ? from : at++;
    }
    return ir_transpose(b, x, perm);
}

/* Number r along dimension 0 of something of this shape, int32. */
static ir_value row_numbers(struct ir_builder *b, const struct ir_type *like)
{
    struct ir_type type = *like;
    type.dtype = IR_I32;
    return ir_iota(b, type, 0);
}

static ir_value like(struct ir_builder *b, ir_value x, int64_t number) { return ir_number_like(b, x, (double)number); }

static ir_value clamp(struct ir_builder *b, ir_value x, int64_t high)
{
    return ir_binary(b, OP_max, ir_binary(b, OP_min, x, like(b, x, high)), like(b, x, 0));
}

/* Indices into the rows put one after another, each `extent` long; 0: too many. */
static ir_value flat_index(struct vmap *c, ir_value index, int64_t extent)
{
    struct ir_builder *b = c->b;
    struct ir_type type = *ir_type(b->f, index);
    if (extent && c->rows > INT32_MAX / extent) return vmap_fail(c, "an index into so large a tensor");
    ir_value first = row_numbers(b, &type);
    return ir_binary(b, OP_add, index, ir_binary(b, OP_mul, first, like(b, first, extent)));
}

/* [rows, extent, ..] as [rows * extent, ..] */
static ir_value join_rows(struct ir_builder *b, ir_value x)
{
    struct ir_type type = *ir_type(b->f, x);
    type.dim[0] *= type.dim[1];
    for (uint32_t i = 2; i < type.rank; i++) type.dim[i - 1] = type.dim[i];
    return ir_reshape(b, x, type.rank - 1u, type.dim);
}

/* Every row's x, indexed along `dim` (of x with its rows) by the row's own indices (int32). */
static ir_value take_own(struct vmap *c, ir_value x, ir_value indices, uint32_t dim)
{
    struct ir_builder *b = c->b;
    int64_t extent = ir_type(b->f, x)->dim[dim], perm[IR_MAX_RANK];
    uint32_t n = ir_type(b->f, indices)->rank - 1u, at = 0;
    ir_value index = flat_index(c, clamp(b, indices, extent - 1), extent);
    if (!index) return 0;
    ir_value taken = ir_take(b, join_rows(b, move_dim(b, x, dim, 1)), index, 0);
    uint32_t rank = ir_type(b->f, taken)->rank; /* rows, indices.., before.., after.. */
    perm[at++] = 0;
    for (uint32_t i = 0; i + 1 < dim; i++) perm[at++] = 1 + n + i;
    for (uint32_t i = 0; i < n; i++) perm[at++] = 1 + i;
    while (at < rank) perm[at] = at, at++;
    return ir_transpose(b, taken, perm);
}

static ir_value int32(struct ir_builder *b, ir_value x)
{
    /* an unsigned index beyond int32 is outside of any tensor */
    struct ir_type type = *ir_type(b->f, x);
    if (!ir_dtype_is_signed((enum ir_dtype)type.dtype) && ir_dtype_bytes((enum ir_dtype)type.dtype) >= 4)
        x = ir_binary(b, OP_min, x, ir_number(b, type, INT32_MAX));
    return ir_cast(b, x, IR_I32);
}

/* Same indices: one more dimension. Same x: the rows of the indices come to the front. */
ir_value vmap_take(struct vmap *c)
{
    struct ir_builder *b = c->b;
    uint32_t dim = (uint32_t)c->n->attr[0].v[0];
    if (!vmap_mapped(c, 1)) return ir_take(b, vmap_plain(c, 0), vmap_plain(c, 1), dim + 1);
    if (!vmap_mapped(c, 0)) return move_dim(b, ir_take(b, vmap_plain(c, 0), vmap_plain(c, 1), dim), dim, 0);
    return take_own(c, vmap_plain(c, 0), int32(b, vmap_plain(c, 1)), dim + 1);
}

/* Own indices: the rows lie one after another, and an index outside of its row is outside of all. */
ir_value vmap_scatter_add(struct vmap *c)
{
    struct ir_builder *b = c->b;
    uint32_t dim = (uint32_t)c->n->attr[0].v[0] + 1, at = 0;
    ir_value x = vmap_arg(c, 0), updates = vmap_arg(c, 2);
    if (!vmap_mapped(c, 1)) return ir_scatter_add(b, x, vmap_plain(c, 1), updates, dim);
    ir_value indices = int32(b, vmap_plain(c, 1));
    struct ir_type whole = *ir_type(b->f, x);
    uint32_t n = ir_type(b->f, indices)->rank - 1u, rank = ir_type(b->f, updates)->rank;
    int64_t extent = whole.dim[dim], perm[IR_MAX_RANK];
    perm[at++] = 0; /* rows, before.., indices.., after.. */
    for (uint32_t i = 0; i < n; i++) perm[at++] = dim + i;
    for (uint32_t i = 1; i < dim; i++) perm[at++] = i;
    while (at < rank) perm[at] = at, at++;
    ir_value inside = ir_binary(b, OP_and, ir_binary(b, OP_le, like(b, indices, 0), indices),
                                ir_binary(b, OP_lt, indices, like(b, indices, extent)));
    ir_value index = flat_index(c, indices, extent);
    if (!index) return 0;
    index = ir_select(b, inside, index, like(b, index, -1));
    ir_value moved = move_dim(b, x, dim, 1);
    struct ir_type shape = *ir_type(b->f, moved);
    ir_value sum = ir_scatter_add(b, join_rows(b, moved), index, ir_transpose(b, updates, perm), 0);
    return move_dim(b, ir_reshape(b, sum, shape.rank, shape.dim), 1, dim);
}

static bool starts_differ(const struct vmap *c, uint32_t first)
{
    for (uint32_t i = first; i < c->n->arg_count; i++)
        if (vmap_mapped(c, i)) return true;
    return false;
}

/* [rows, n]: the row's start and what follows. `start` [rows] or [] */
static ir_value own_positions(struct vmap *c, struct vmap_value start, int64_t highest, int64_t n, bool relative)
{
    struct ir_builder *b = c->b;
    const int64_t shape[2] = {c->rows, n}, rows[] = {0};
    ir_value first = vmap_spread(c, start), all = ir_iota(b, ir_type_of(IR_I32, 2, shape), 1);
    first = ir_broadcast(b, clamp(b, first, highest), 2, shape, rows);
    return ir_binary(b, relative ? OP_sub : OP_add, relative ? all : first, relative ? first : all);
}

/* Starts that all rows share make a slice of all; where they differ, the row's elements are gathered. */
ir_value vmap_dynamic_slice(struct vmap *c)
{
    struct ir_builder *b = c->b;
    ir_value x = vmap_arg(c, 0), starts[IR_MAX_RANK], zero = ir_scalar(b, IR_I32, 0);
    struct ir_type from = *ir_type(b->f, x);
    int64_t sizes[IR_MAX_RANK];
    sizes[0] = c->rows;
    starts[0] = zero;
    for (uint32_t i = 1; i < from.rank; i++) {
        starts[i] = vmap_mapped(c, i) ? zero : vmap_plain(c, i);
        sizes[i] = vmap_mapped(c, i) ? from.dim[i] : c->n->attr[0].v[i - 1];
    }
    x = ir_dynamic_slice(b, x, starts, sizes);
    for (uint32_t i = 1; i < from.rank && x; i++) {
        int64_t size = c->n->attr[0].v[i - 1];
        if (!vmap_mapped(c, i)) continue;
        x = take_own(c, x, own_positions(c, c->map[c->n->args[i]], from.dim[i] - size, size, false), i);
    }
    return x;
}

/* Where starts differ, every element asks which element of its row's update lies on it. */
ir_value vmap_dynamic_update(struct vmap *c)
{
    struct ir_builder *b = c->b;
    ir_value x = vmap_arg(c, 0), y = vmap_arg(c, 1), covered = 0;
    struct ir_type whole = *ir_type(b->f, x), part = *ir_type(b->f, y);
    if (!starts_differ(c, 2)) {
        ir_value starts[IR_MAX_RANK] = {ir_scalar(b, IR_I32, 0)};
        for (uint32_t i = 1; i < whole.rank; i++) starts[i] = vmap_plain(c, i + 1);
        return ir_dynamic_update(b, x, y, starts);
    }
    if (!ir_type_elements(&part)) return x;
    for (uint32_t i = 1; i < whole.rank; i++) {
        const int64_t dims[] = {0, i};
        if (part.dim[i] == whole.dim[i]) continue;
        ir_value at = own_positions(c, c->map[c->n->args[i + 1]], whole.dim[i] - part.dim[i], whole.dim[i], true);
        ir_value inside = ir_binary(b, OP_and, ir_binary(b, OP_le, like(b, at, 0), at),
                                    ir_binary(b, OP_lt, at, like(b, at, part.dim[i])));
        inside = ir_broadcast(b, inside, whole.rank, whole.dim, dims);
        covered = covered ? ir_binary(b, OP_and, covered, inside) : inside;
        y = take_own(c, y, at, i); /* outside: clamped, not used */
        if (!y) return 0;
    }
    return covered ? ir_select(b, covered, y, x) : y;
}

/* ---------------------------------------------------------------- contraction */

/* Rows on both sides are one more batch dimension; on one side they are a free dimension, so that a product with
 * weights that all rows share stays one product. The result's dimensions are batch, free of x, free of y. */
ir_value vmap_dot(struct vmap *c)
{
    struct ir_builder *b = c->b;
    ir_value x = vmap_plain(c, 0), y = vmap_plain(c, 1);
    bool in_x = vmap_mapped(c, 0), in_y = vmap_mapped(c, 1);
    struct ir_ints xb = in_x ? shifted(c, c->n->attr[0]) : c->n->attr[0],
                   yb = in_y ? shifted(c, c->n->attr[1]) : c->n->attr[1];
    struct ir_ints xc = in_x ? shifted(c, c->n->attr[2]) : c->n->attr[2],
                   yc = in_y ? shifted(c, c->n->attr[3]) : c->n->attr[3];
    if (in_x && in_y) return ir_dot(b, x, y, prepend(c, xb, 0, 0), prepend(c, yb, 0, 0), xc, yc);
    ir_value z = ir_dot(b, x, y, xb, yb, xc, yc);
    uint32_t rows_at = in_x ? xb.n : ir_type(b->f, x)->rank - xc.n;
    return move_dim(b, z, rows_at, 0);
}
