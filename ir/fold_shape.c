/* Folding of ops that move elements: identities, two moves in one, and moves of one repeated number. All exact, since
 * no arithmetic is done. */
#include "ir/fold.h"

#include <string.h>

static bool is_identity(struct ir_ints list)
{
    for (uint32_t i = 0; i < list.n; i++)
        if (list.v[i] != i) return false;
    return true;
}

static bool all_equal(struct ir_ints list, int64_t value)
{
    for (uint32_t i = 0; i < list.n; i++)
        if (list.v[i] != value) return false;
    return true;
}

/* Of a reshape that only puts dimensions of extent 1 in (keepdims): which dimension of the result each one of x is. */
static bool adds_units(const struct ir_type *x, const struct ir_type *reshaped, int64_t *dims)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < reshaped->rank; i++) {
        if (at < x->rank && x->dim[at] == reshaped->dim[i]) dims[at++] = i;
        else if (reshaped->dim[i] != 1) return false;
    }
    return at == x->rank;
}

ir_value fold_broadcast(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    int64_t dims[IR_MAX_RANK];
    if (ir_type_equal(&x->type, &node->type)) return node->args[0]; /* to its own shape */
    if (x->op == OP_reshape && adds_units(&b->f->nodes[x->args[0]].type, &x->type, dims)) {
        for (uint32_t i = 0; i < b->f->nodes[x->args[0]].type.rank; i++) dims[i] = node->attr[0].v[dims[i]];
        return ir_broadcast(b, x->args[0], node->type.rank, node->type.dim, dims); /* B(x[:, None]) = B(x) */
    }
    if (x->op != OP_broadcast) return 0;
    for (uint32_t i = 0; i < x->attr[0].n; i++) dims[i] = node->attr[0].v[x->attr[0].v[i]];
    return ir_broadcast(b, x->args[0], node->type.rank, node->type.dim, dims); /* B(B(x)) = B(x) */
}

ir_value fold_reshape(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    if (ir_type_equal(&x->type, &node->type)) return node->args[0];                             /* to its own shape */
    if (x->op == OP_reshape) return ir_reshape(b, x->args[0], node->type.rank, node->type.dim); /* R(R(x)) = R(x) */
    if (x->op == OP_broadcast && x->attr[0].n == 0) /* R(B(s)) = B(s), s scalar */
        return ir_broadcast(b, x->args[0], node->type.rank, node->type.dim, NULL);
    return 0;
}

ir_value fold_transpose(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    int64_t perm[IR_MAX_RANK];
    if (is_identity(node->attr[0])) return node->args[0]; /* nothing moves */
    if (x->op == OP_broadcast && x->attr[0].n == 0)       /* T(B(s)) = B(s), s scalar */
        return ir_broadcast(b, x->args[0], node->type.rank, node->type.dim, NULL);
    if (x->op != OP_transpose) return 0;
    for (uint32_t i = 0; i < node->attr[0].n; i++) perm[i] = x->attr[0].v[node->attr[0].v[i]];
    return ir_transpose(b, x->args[0], perm); /* T(T(x)) = T(x) */
}

static ir_value slice_of_slice(struct ir_builder *b, const struct ir_node *node, const struct ir_node *x)
{
    int64_t start[IR_MAX_RANK], limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    const struct ir_type *whole = &b->f->nodes[x->args[0]].type;
    for (uint32_t i = 0; i < node->type.rank; i++) {
        int64_t n = node->type.dim[i];
        start[i] = n ? x->attr[0].v[i] + node->attr[0].v[i] * x->attr[2].v[i] : 0;
        stride[i] = 1;
        limit[i] = start[i] + (n ? 1 : 0);
        if (n <= 1) continue;
        if (!ir_size_multiply(x->attr[2].v[i], node->attr[2].v[i], &stride[i])) return 0;
        limit[i] = start[i] + (n - 1) * stride[i] + 1; /* at most the extent: these elements exist */
        if (limit[i] > whole->dim[i]) return 0;
    }
    return ir_slice(b, x->args[0], start, limit, stride);
}

/* Parts of one tensor, as they are or turned: what slides over them (a convolution around a ring) reads one tensor. */
static bool is_of_one_tensor(const struct ir_func *f, const struct ir_node *concat)
{
    ir_value one = 0;
    for (uint32_t k = 0; k < concat->arg_count; k++) {
        ir_value v = concat->args[k];
        while (f->nodes[v].op == OP_slice || f->nodes[v].op == OP_reverse) v = f->nodes[v].args[0];
        if (one && v != one) return false;
        one = v;
    }
    return true;
}

/* A slice that lies in one part of a concatenation. */
static ir_value slice_of_concat(struct ir_builder *b, const struct ir_node *node, const struct ir_node *x)
{
    int64_t start[IR_MAX_RANK], limit[IR_MAX_RANK], dim = x->attr[0].v[0], offset = 0;
    if (node->type.dim[dim] == 0 || is_of_one_tensor(b->f, x)) return 0;
    for (uint32_t i = 0; i < node->type.rank; i++) start[i] = node->attr[0].v[i], limit[i] = node->attr[1].v[i];
    for (uint32_t k = 0; k < x->arg_count; k++) {
        int64_t end = offset + b->f->nodes[x->args[k]].type.dim[dim];
        if (start[dim] >= offset && limit[dim] <= end) {
            start[dim] -= offset;
            limit[dim] -= offset;
            return ir_slice(b, x->args[k], start, limit, node->attr[2].v);
        }
        offset = end;
    }
    return 0;
}

/* A slice of dimensions along which all is equal. */
static ir_value slice_of_broadcast(struct ir_builder *b, const struct ir_node *node, const struct ir_node *x)
{
    const struct ir_type *from = &b->f->nodes[x->args[0]].type;
    for (uint32_t i = 0; i < from->rank; i++) {
        int64_t to = x->attr[0].v[i];
        if (from->dim[i] != 1 && node->type.dim[to] != x->type.dim[to]) return 0;
    }
    return ir_broadcast(b, x->args[0], node->type.rank, node->type.dim, x->attr[0].v);
}

ir_value fold_slice(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    if (ir_type_equal(&x->type, &node->type)) return node->args[0];   /* x[:] = x */
    if (x->op == OP_slice) return slice_of_slice(b, node, x);         /* x[a:][b:] = x[a + b:] */
    if (x->op == OP_concat) return slice_of_concat(b, node, x);       /* concat(x, y)[in x] = x[..] */
    if (x->op == OP_broadcast) return slice_of_broadcast(b, node, x); /* B(x)[:n] = B(x), along new dimensions */
    return 0;
}

ir_value fold_pad(struct ir_builder *b, const struct ir_node *node)
{
    (void)b;
    bool none = all_equal(node->attr[0], 0) && all_equal(node->attr[1], 0) && all_equal(node->attr[2], 0);
    return none ? node->args[0] : 0; /* nothing is added */
}

ir_value fold_concat(struct ir_builder *b, const struct ir_node *node)
{
    int64_t dim = node->attr[0].v[0];
    uint32_t kept = 0;
    if (node->arg_count == 1) return node->args[0]; /* concat(x) = x */
    for (uint32_t i = 0; i < node->arg_count; i++) kept += fold_arg(b, node, i)->type.dim[dim] != 0;
    if (kept == node->arg_count) return 0;
    if (kept == 0) return node->args[0]; /* all empty along dim */
    ir_value *parts = arena_new_array(&b->f->module->arena, ir_value, kept);
    kept = 0;
    for (uint32_t i = 0; i < node->arg_count; i++)
        if (fold_arg(b, node, i)->type.dim[dim] != 0) parts[kept++] = node->args[i];
    return ir_concat(b, parts, kept, (uint32_t)dim); /* concat(x, empty) = x */
}

ir_value fold_reverse(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    bool moves = false;
    for (uint32_t i = 0; i < node->attr[0].n; i++) moves |= node->type.dim[node->attr[0].v[i]] > 1;
    if (!moves) return node->args[0]; /* of single elements */
    bool same = x->op == OP_reverse && x->attr[0].n == node->attr[0].n;
    for (uint32_t i = 0; same && i < node->attr[0].n; i++) same = x->attr[0].v[i] == node->attr[0].v[i];
    return same ? x->args[0] : 0; /* backwards twice */
}

ir_value fold_cumulate(struct ir_builder *b, const struct ir_node *node)
{
    (void)b;
    bool single = node->type.dim[node->attr[0].v[0]] == 1 && node->attr[1].v[0] != IR_CUMULATE_LINEAR;
    return single || !ir_type_elements(&node->type) ? node->args[0] : 0;
}

/* A part of numbers along one dimension, which are the same wherever they are along the others. */
static ir_value part_of_iota(struct ir_builder *b, const struct ir_node *node)
{
    struct ir_node less = *fold_arg(b, node, 0), part = *node;
    int64_t dim = less.attr[0].v[0];
    ir_value args[1 + IR_MAX_RANK];
    memcpy(args, node->args, node->arg_count * sizeof *args);
    bool same = true;
    for (uint32_t i = 0; i < node->type.rank; i++) {
        same &= i == dim || less.type.dim[i] == node->type.dim[i];
        if (i != dim) less.type.dim[i] = node->type.dim[i];
    }
    if (same) return 0;
    less.sharding = node->sharding;
    args[0] = ir_make(b, less);
    part.args = args;
    return less.type.dim[dim] == node->type.dim[dim] ? args[0] : ir_make(b, part);
}

ir_value fold_dynamic_slice(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *x = fold_arg(b, node, 0);
    int64_t start[IR_MAX_RANK], limit[IR_MAX_RANK], stride[IR_MAX_RANK];
    if (ir_type_equal(&x->type, &node->type)) return node->args[0]; /* clamped to all of x */
    ir_value numbers = x->op == OP_iota ? part_of_iota(b, node) : 0;
    if (numbers) return numbers;
    for (uint32_t i = 0; i < node->type.rank; i++) {
        double v;
        int64_t last = x->type.dim[i] - node->type.dim[i];
        if (last == 0) v = 0;
        else if (!fold_number(fold_arg(b, node, 1 + i), &v)) return 0;
        start[i] = v < 0 ? 0 : (int64_t)v > last ? last : (int64_t)v;
        limit[i] = start[i] + node->type.dim[i];
        stride[i] = 1;
    }
    return ir_slice(b, node->args[0], start, limit, stride); /* constant starts */
}

/* Rows 0, 1, .. of no more than there are. */
static bool is_row_numbers(const struct ir_node *index, int64_t extent)
{
    int64_t count;
    return fold_numbers(index, &count) && index->type.rank == 1 && count <= extent;
}

ir_value fold_take(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_type *x = &fold_arg(b, node, 0)->type;
    int64_t start[IR_MAX_RANK] = {0}, stride[IR_MAX_RANK], dim = node->attr[0].v[0];
    if (!is_row_numbers(fold_arg(b, node, 1), x->dim[dim])) return 0;
    for (uint32_t i = 0; i < x->rank; i++) stride[i] = 1;
    return ir_slice(b, node->args[0], start, node->type.dim, stride);
}

ir_value fold_scatter_add(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *index = fold_arg(b, node, 1);
    int64_t extent = node->type.dim[node->attr[0].v[0]];
    bool all = is_row_numbers(index, extent) && index->type.dim[0] == extent;
    return all ? ir_binary(b, OP_add, node->args[0], node->args[2]) : 0;
}

ir_value fold_dynamic_update(struct ir_builder *b, const struct ir_node *node)
{
    const struct ir_node *y = fold_arg(b, node, 1);
    if (ir_type_equal(&y->type, &node->type)) return node->args[1]; /* all of x is replaced */
    return ir_type_elements(&y->type) == 0 ? node->args[0] : 0;     /* nothing is */
}

/* Moves of one repeated number: the same number in the new shape. */
ir_value fold_moved_number(struct ir_builder *b, const struct ir_node *node)
{
    uint32_t tensors = 1; /* operands that give elements; the rest are indices */
    switch (node->op) {
    case OP_concat: tensors = node->arg_count; break;
    case OP_pad:
    case OP_dynamic_update: tensors = 2; break;
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_reverse:
    case OP_dynamic_slice:
    case OP_take: break;
    default: return 0;
    }
    const struct ir_node *first = fold_arg(b, node, 0);
    size_t size = ir_dtype_bytes((enum ir_dtype)node->type.dtype);
    for (uint32_t i = 0; i < tensors; i++) {
        const struct ir_node *x = fold_arg(b, node, i);
        if (x->op != OP_constant || !x->splat || memcmp(x->data, first->data, size) != 0) return 0;
    }
    return ir_make(b, (struct ir_node){.op = OP_constant, .type = node->type, .data = first->data, .splat = true});
}
