/* Inference: the type of a node from its operands and attributes. One rule per name in the `infer` column of ops.def.
 * A rule that does not hold says what was expected and what was found, with the types as "float32[2, 3]". Rules read
 * only what was checked before: they are safe on any node whose operands are nodes of the function. The types of
 * tuples are in infer_control.c. */
#include "ir/infer.h"

#include <string.h>

static long long extent(const struct ir_type *type, int64_t dim) { return (long long)type->dim[dim]; }

/* A dimension of operand `i`. */
static bool attr_dim(struct infer *c, uint32_t index, uint32_t i, int64_t *dim)
{
    if (!infer_attr_length(c, index, 1)) return false;
    *dim = c->node->attr[index].v[0];
    if (*dim >= 0 && *dim < infer_arg(c, i)->rank) return true;
    return infer_fail(c, "dimension %lld is not one of %s", (long long)*dim, infer_arg_text(c, i));
}

/* Different dimensions of a type; adds them to *mask. */
static bool distinct_dims(struct infer *c, struct ir_ints list, const struct ir_type *type, uint32_t *mask)
{
    for (uint32_t i = 0; i < list.n; i++) {
        if (list.v[i] < 0 || list.v[i] >= type->rank)
            return infer_fail(c, "dimension %lld is not one of %s", (long long)list.v[i], infer_text(c, type));
        if (*mask >> list.v[i] & 1)
            return infer_fail(c, "dimension %lld of %s is named twice", (long long)list.v[i], infer_text(c, type));
        *mask |= 1u << list.v[i];
    }
    return true;
}

static bool ascending(struct infer *c, struct ir_ints list)
{
    for (uint32_t i = 1; i < list.n; i++)
        if (list.v[i] <= list.v[i - 1])
            return infer_fail(c, "expected different dimensions in ascending order, found %s",
                              infer_ints_text(c, list));
    return true;
}

static bool same_types(struct infer *c, uint32_t first, uint32_t end)
{
    for (uint32_t i = first + 1; i < end; i++)
        if (!ir_type_equal(infer_arg(c, i), infer_arg(c, first)))
            return infer_fail(c, "expected operands of one type, found %s and %s", infer_arg_text(c, first),
                              infer_arg_text(c, i));
    return true;
}

static bool same_shape(const struct ir_type *a, const struct ir_type *b)
{
    struct ir_type other = *b;
    other.dtype = a->dtype;
    return ir_type_equal(a, &other);
}

/* ---------------------------------------------------------------- leaves */

static bool infer_param(struct infer *c)
{
    int64_t index;
    if (!infer_attr_number(c, 0, 0, (int64_t)c->f->params.count, &index)) return false;
    c->node->type = c->f->params.items[index].type;
    return infer_sane(c, &c->node->type);
}

static bool mesh_axes(struct infer *c, int64_t *mask)
{
    return infer_attr_number(c, 0, 0, (int64_t)1 << c->f->module->mesh.axis_count, mask);
}

/* The next types are stated by the maker: checked only for what the op can be. */
static bool infer_constant(struct infer *c)
{
    const struct ir_type *type = &c->node->type;
    return infer_sane(c, type) && (c->node->data || !ir_type_elements(type) || infer_fail(c, "expected data"));
}

static bool infer_iota(struct infer *c)
{
    const struct ir_type *type = &c->node->type;
    int64_t dim;
    if (!infer_sane(c, type)) return false;
    if (type->dtype == IR_BOOL) return infer_fail(c, "expected a number type, found %s", infer_text(c, type));
    return infer_attr_number(c, 0, 0, type->rank, &dim);
}

static bool infer_device_index(struct infer *c)
{
    const struct ir_type *type = &c->node->type;
    int64_t mask;
    if (!infer_sane(c, type)) return false;
    if (!infer_is_index(type)) return infer_fail(c, "expected the type int32[], found %s", infer_text(c, type));
    return mesh_axes(c, &mask);
}

/* One dimension changes its extent. */
static bool infer_resize(struct infer *c)
{
    const struct ir_type *type = &c->node->type;
    int64_t dim, mask;
    if (!infer_sane(c, type) || !mesh_axes(c, &mask) || !attr_dim(c, 1, 0, &dim)) return false;
    if (type->dtype != infer_arg(c, 0)->dtype || type->rank != infer_arg(c, 0)->rank)
        return infer_fail(c, "expected a result like the operand %s, found %s", infer_arg_text(c, 0),
                          infer_text(c, type));
    for (int64_t i = 0; i < type->rank; i++)
        if (i != dim && type->dim[i] != infer_arg(c, 0)->dim[i])
            return infer_fail(c, "expected a change of dimension %lld only, found %s from %s", (long long)dim,
                              infer_text(c, type), infer_arg_text(c, 0));
    return true;
}

static int64_t along(const struct infer *c, int64_t mask)
{
    return ir_axes_size(&c->f->module->mesh, ir_axes_of_mask((uint32_t)mask));
}

/* One dimension is cut, another one grows by as much. */
static bool infer_all_to_all(struct infer *c)
{
    struct ir_type to = *infer_arg(c, 0);
    int64_t mask, split, dim;
    if (!mesh_axes(c, &mask) || !attr_dim(c, 1, 0, &split) || !attr_dim(c, 2, 0, &dim)) return false;
    if (split == dim || to.dim[split] % along(c, mask))
        return infer_fail(c, "dimension %lld of %s cannot be dealt out to %lld devices", (long long)split,
                          infer_arg_text(c, 0), (long long)along(c, mask));
    to.dim[split] /= along(c, mask);
    to.dim[dim] *= along(c, mask);
    return infer_result(c, to);
}

static bool infer_permute(struct infer *c)
{
    int64_t mask, by, row;
    if (!mesh_axes(c, &mask) || !infer_attr_number(c, 1, 0, along(c, mask), &by)) return false;
    if (!infer_attr_number(c, 2, 0, along(c, mask) + 1, &row)) return false;
    if (row && (by || along(c, mask) % row))
        return infer_fail(c, "%lld devices do not stand in rows of %lld", (long long)along(c, mask), (long long)row);
    return infer_result(c, *infer_arg(c, 0));
}

/* ---------------------------------------------------------------- element-wise */

static bool infer_same(struct infer *c)
{
    return same_types(c, 0, c->node->arg_count) && infer_result(c, *infer_arg(c, 0));
}

static bool same_of(struct infer *c, bool takes, const char *what)
{
    if (!same_types(c, 0, c->node->arg_count)) return false;
    return takes ? infer_result(c, *infer_arg(c, 0))
                 : infer_fail(c, "expected %s, found %s", what, infer_arg_text(c, 0));
}

#define SAME_OF(name, takes, what) \
    static bool infer_##name(struct infer *c) \
    { \
        enum ir_dtype dtype = (enum ir_dtype)infer_arg(c, 0)->dtype; \
        return same_of(c, takes, what); \
    }

SAME_OF(number, dtype != IR_BOOL, "numbers")
SAME_OF(float, ir_dtype_is_float(dtype), "floats")
SAME_OF(integer, ir_dtype_is_integer(dtype), "integers")
SAME_OF(bits, !ir_dtype_is_float(dtype), "bools or integers")

static bool infer_constraint(struct infer *c)
{
    if (!infer_attr_length(c, 0, infer_arg(c, 0)->rank)) return false;
    for (uint32_t i = 0; i < c->node->attr[0].n; i++)
        if (c->node->attr[0].v[i] != -1 &&
            c->node->attr[0].v[i] >> c->f->module->mesh.axis_count) /* -1: the axes of the batch */
            return infer_fail(c, "expected masks of mesh axes, found %s", infer_ints_text(c, c->node->attr[0]));
    return infer_same(c);
}

static bool infer_all_reduce(struct infer *c)
{
    int64_t number;
    return mesh_axes(c, &number) && infer_attr_number(c, 1, 0, 3, &number) && infer_same(c);
}

static bool infer_predicate(struct infer *c)
{
    struct ir_type type = *infer_arg(c, 0);
    type.dtype = IR_BOOL;
    return infer_result(c, type);
}

static bool infer_compare(struct infer *c) { return same_types(c, 0, 2) && infer_predicate(c); }

/* The dtype is stated, the shape is the operand's. */
static bool infer_cast(struct infer *c)
{
    struct ir_type type = *infer_arg(c, 0);
    enum ir_dtype to = (enum ir_dtype)c->node->type.dtype;
    if (to == IR_TUPLE || to >= IR_DTYPE_COUNT) return infer_fail(c, "expected an element type to convert to");
    if (c->node->op == OP_bitcast &&
        (ir_dtype_bytes(to) != ir_dtype_bytes((enum ir_dtype)type.dtype) || (to == IR_BOOL) != (type.dtype == IR_BOOL)))
        return infer_fail(c, "expected element types of one size, found %s to %s", infer_arg_text(c, 0),
                          ir_dtype_name(to));
    type.dtype = (uint8_t)to;
    return infer_result(c, type);
}

static bool infer_select(struct infer *c)
{
    if (infer_arg(c, 0)->dtype != IR_BOOL)
        return infer_fail(c, "expected a bool predicate, found %s", infer_arg_text(c, 0));
    if (!same_types(c, 1, 3)) return false;
    if (!same_shape(infer_arg(c, 0), infer_arg(c, 1)))
        return infer_fail(c, "expected a predicate of the shape of %s, found %s", infer_arg_text(c, 1),
                          infer_arg_text(c, 0));
    return infer_result(c, *infer_arg(c, 1));
}

static bool infer_threefry(struct infer *c)
{
    int64_t word;
    if (infer_arg(c, 0)->dtype != IR_U32) return infer_fail(c, "expected uint32, found %s", infer_arg_text(c, 0));
    return same_types(c, 0, 4) && infer_attr_number(c, 0, 0, 2, &word) && infer_result(c, *infer_arg(c, 0));
}

/* ---------------------------------------------------------------- shapes */

/* The shape is stated in the node's type, the dtype is the operand's. */
static bool infer_broadcast(struct infer *c)
{
    const struct ir_type *from = infer_arg(c, 0);
    struct ir_type *to = &c->node->type;
    struct ir_ints dims = c->node->attr[0];
    to->dtype = from->dtype;
    if (!infer_sane(c, to) || !infer_attr_length(c, 0, from->rank) || !ascending(c, dims)) return false;
    for (uint32_t i = 0; i < dims.n; i++) {
        if (dims.v[i] < 0 || dims.v[i] >= to->rank)
            return infer_fail(c, "dimension %lld is not one of the result %s", (long long)dims.v[i], infer_text(c, to));
        if (from->dim[i] != 1 && from->dim[i] != to->dim[dims.v[i]])
            return infer_fail(c, "cannot broadcast %s to %s: dimension %u has extent %lld, expected 1 or %lld",
                              infer_text(c, from), infer_text(c, to), i, extent(from, i), extent(to, dims.v[i]));
    }
    return true;
}

static bool infer_reshape(struct infer *c)
{
    struct ir_type *to = &c->node->type;
    to->dtype = infer_arg(c, 0)->dtype;
    if (!infer_sane(c, to)) return false;
    int64_t expected = ir_type_elements(infer_arg(c, 0)), found = ir_type_elements(to);
    if (expected == found) return true;
    return infer_fail(c, "cannot reshape %s to %s: expected %lld elements, found %lld", infer_arg_text(c, 0),
                      infer_text(c, to), (long long)expected, (long long)found);
}

static bool infer_transpose(struct infer *c)
{
    const struct ir_type *from = infer_arg(c, 0);
    uint32_t mask = 0;
    if (!infer_attr_length(c, 0, from->rank) || !distinct_dims(c, c->node->attr[0], from, &mask)) return false;
    struct ir_type type = *from;
    for (uint32_t i = 0; i < from->rank; i++) type.dim[i] = from->dim[c->node->attr[0].v[i]];
    return infer_result(c, type);
}

static bool infer_slice(struct infer *c)
{
    struct ir_type type = *infer_arg(c, 0);
    const struct ir_ints *a = c->node->attr;
    for (uint32_t i = 0; i < 3; i++)
        if (!infer_attr_length(c, i, type.rank)) return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t start = a[0].v[i], limit = a[1].v[i], stride = a[2].v[i];
        if (start < 0 || limit < start || limit > type.dim[i])
            return infer_fail(c, "expected 0 <= start <= limit <= %lld in dimension %u of %s, found %lld:%lld",
                              extent(&type, i), i, infer_arg_text(c, 0), (long long)start, (long long)limit);
        if (stride < 1) return infer_fail(c, "expected strides of at least 1, found %lld", (long long)stride);
        type.dim[i] = limit == start ? 0 : 1 + (limit - start - 1) / stride;
    }
    return infer_result(c, type);
}

static bool infer_pad(struct infer *c)
{
    struct ir_type type = *infer_arg(c, 0);
    const struct ir_ints *a = c->node->attr;
    if (infer_arg(c, 1)->dtype != type.dtype || infer_arg(c, 1)->rank)
        return infer_fail(c, "expected a scalar %s to fill with, found %s", ir_dtype_name((enum ir_dtype)type.dtype),
                          infer_arg_text(c, 1));
    for (uint32_t i = 0; i < 3; i++)
        if (!infer_attr_length(c, i, type.rank)) return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t low = a[0].v[i], high = a[1].v[i], interior = a[2].v[i], between;
        if (low < -IR_MAX_ELEMENTS || low > IR_MAX_ELEMENTS || high < -IR_MAX_ELEMENTS || high > IR_MAX_ELEMENTS ||
            interior < 0 || !ir_size_multiply(type.dim[i] ? type.dim[i] - 1 : 0, interior, &between))
            return infer_fail(c, "the padding %lld, %lld, %lld of dimension %u of %s is out of range", (long long)low,
                              (long long)high, (long long)interior, i, infer_arg_text(c, 0));
        type.dim[i] += low + high + between;
        if (type.dim[i] < 0)
            return infer_fail(c, "expected a result extent of at least 0 in dimension %u of %s, found %lld", i,
                              infer_arg_text(c, 0), extent(&type, i));
    }
    return infer_result(c, type);
}

/* Elements come from one copy of x at each side, and all dimensions grow or all shrink. */
static bool infer_extend(struct infer *c)
{
    struct ir_type type = *infer_arg(c, 0);
    const struct ir_ints *a = c->node->attr;
    int64_t kind, sign = 0;
    if (!infer_attr_length(c, 0, type.rank) || !infer_attr_length(c, 1, type.rank) ||
        !infer_attr_number(c, 2, 0, 4, &kind))
        return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t low = a[0].v[i], high = a[1].v[i], n = type.dim[i], more = low + high;
        int64_t least = n + (more < 0 ? more : 0) - (kind == IR_EXTEND_REFLECT);
        if (kind == IR_EXTEND_EDGE && least > 0) least = IR_MAX_ELEMENTS;
        bool rolls = kind == IR_EXTEND_WRAP && !more, outside = (low < 0) == (high < 0) || !low || !high;
        if (!low && !high) continue;
        if (low > least || low < -least || high > least || high < -least || !(rolls || outside) || more * sign < 0)
            return infer_fail(c, "%lld and %lld elements of dimension %u of %s cannot be put around it", (long long)low,
                              (long long)high, i, infer_arg_text(c, 0));
        if (more) sign = more < 0 ? -1 : 1;
        type.dim[i] += more;
        if (type.dim[i] < 1) return infer_fail(c, "nothing of dimension %u of %s is left", i, infer_arg_text(c, 0));
    }
    return infer_result(c, type);
}

static bool infer_concat(struct infer *c)
{
    int64_t dim;
    if (c->node->arg_count == 0) return infer_fail(c, "expected at least one operand, found none");
    if (!attr_dim(c, 0, 0, &dim)) return false;
    struct ir_type type = *infer_arg(c, 0);
    for (uint32_t i = 1; i < c->node->arg_count; i++) {
        struct ir_type other = *infer_arg(c, i);
        other.dim[dim] = infer_arg(c, 0)->dim[dim];
        if (!ir_type_equal(&other, infer_arg(c, 0)))
            return infer_fail(c, "expected operands that differ in dimension %lld only, found %s and %s",
                              (long long)dim, infer_arg_text(c, 0), infer_arg_text(c, i));
        if (type.dim[dim] <= IR_MAX_ELEMENTS) type.dim[dim] += infer_arg(c, i)->dim[dim];
    }
    return infer_result(c, type);
}

static bool infer_reverse(struct infer *c)
{
    uint32_t mask = 0;
    return distinct_dims(c, c->node->attr[0], infer_arg(c, 0), &mask) && ascending(c, c->node->attr[0]) &&
           infer_result(c, *infer_arg(c, 0));
}

/* Operands from `first` on are one start per dimension of operand 0. */
static bool starts(struct infer *c, uint32_t first)
{
    uint32_t rank = infer_arg(c, 0)->rank;
    if (c->node->arg_count != first + rank)
        return infer_fail(c, "expected %u starts for %s, found %u", rank, infer_arg_text(c, 0),
                          c->node->arg_count - first);
    for (uint32_t i = first; i < c->node->arg_count; i++)
        if (!infer_is_index(infer_arg(c, i)))
            return infer_fail(c, "expected starts of type int32[], found %s", infer_arg_text(c, i));
    return true;
}

static bool infer_dynamic_slice(struct infer *c)
{
    if (c->node->arg_count < 1) return infer_fail(c, "expected a tensor and its starts, found nothing");
    struct ir_type type = *infer_arg(c, 0);
    if (!starts(c, 1) || !infer_attr_length(c, 0, type.rank)) return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t size = c->node->attr[0].v[i];
        if (size < 0 || size > type.dim[i])
            return infer_fail(c, "expected sizes that fit in %s, found %s", infer_arg_text(c, 0),
                              infer_ints_text(c, c->node->attr[0]));
        type.dim[i] = size;
    }
    return infer_result(c, type);
}

static bool infer_dynamic_update(struct infer *c)
{
    if (c->node->arg_count < 2)
        return infer_fail(c, "expected a tensor, its update and starts, found %u operands", c->node->arg_count);
    const struct ir_type *x = infer_arg(c, 0), *y = infer_arg(c, 1);
    bool fits = x->dtype == y->dtype && x->rank == y->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++) fits = y->dim[i] <= x->dim[i];
    if (!fits) return infer_fail(c, "expected an update that fits in %s, found %s", infer_text(c, x), infer_text(c, y));
    return starts(c, 2) && infer_result(c, *x);
}

/* Places along a dimension are told by int32. */
static bool is_countable(struct infer *c, int64_t dim)
{
    return infer_arg(c, 0)->dim[dim] <= INT32_MAX ||
           infer_fail(c, "expected fewer than 2^31 elements along dimension %lld, found %s", (long long)dim,
                      infer_arg_text(c, 0));
}

/* x[.., y, ..] with y in place of dimension `dim`. */
static bool taken_type(struct infer *c, struct ir_type *type, int64_t *dim)
{
    const struct ir_type *x = infer_arg(c, 0), *y = infer_arg(c, 1);
    if (!ir_dtype_is_integer((enum ir_dtype)y->dtype))
        return infer_fail(c, "expected integer indices, found %s", infer_text(c, y));
    if (!attr_dim(c, 0, 0, dim) || !is_countable(c, *dim)) return false;
    if (x->rank - 1 + y->rank > IR_MAX_RANK)
        return infer_fail(c, "expected a result of at most %d dimensions, found %d", IR_MAX_RANK,
                          x->rank - 1 + y->rank);
    *type = ir_type_of((enum ir_dtype)x->dtype, 0, NULL);
    for (int64_t i = 0; i < *dim; i++) type->dim[type->rank++] = x->dim[i];
    for (int64_t i = 0; i < y->rank; i++) type->dim[type->rank++] = y->dim[i];
    for (int64_t i = *dim + 1; i < x->rank; i++) type->dim[type->rank++] = x->dim[i];
    return true;
}

static bool infer_take(struct infer *c)
{
    struct ir_type type;
    int64_t dim;
    if (!taken_type(c, &type, &dim)) return false;
    if (infer_arg(c, 0)->dim[dim] == 0 && ir_type_elements(infer_arg(c, 1)) != 0)
        return infer_fail(c, "cannot take from dimension %lld of %s, which is empty", (long long)dim,
                          infer_arg_text(c, 0));
    return infer_result(c, type);
}

static bool infer_scatter_add(struct infer *c)
{
    struct ir_type type;
    int64_t dim;
    if (!taken_type(c, &type, &dim)) return false;
    if (type.dtype == IR_BOOL) return infer_fail(c, "expected numbers, found %s", infer_arg_text(c, 0));
    if (!ir_type_equal(&type, infer_arg(c, 2)))
        return infer_fail(c, "expected updates of type %s, found %s", infer_text(c, &type), infer_arg_text(c, 2));
    return infer_result(c, *infer_arg(c, 0));
}

/* ---------------------------------------------------------------- reductions and contraction */

static struct ir_type without_dims(const struct ir_type *from, uint32_t mask)
{
    struct ir_type type = ir_type_scalar((enum ir_dtype)from->dtype);
    for (uint32_t i = 0; i < from->rank; i++)
        if (!(mask >> i & 1)) type.dim[type.rank++] = from->dim[i];
    return type;
}

/* What is summed in a fixed order: leaves of the first dimension. */
static bool has_leaves(struct infer *c, struct ir_ints leaf, const struct ir_type *x, struct ir_ints dims)
{
    bool fits = !leaf.n || (leaf.n == 1 && dims.n && leaf.v[0] > 0 && x->dim[dims.v[0]] % leaf.v[0] == 0);
    return fits || infer_fail(c, "expected a leaf that divides the first dimension that is summed, found %s",
                              infer_ints_text(c, leaf));
}

static bool infer_reduce(struct infer *c)
{
    uint32_t mask = 0;
    const struct ir_type *x = infer_arg(c, 0);
    if (x->dtype == IR_BOOL && (c->node->op == OP_reduce_sum || c->node->op == OP_reduce_prod))
        return infer_fail(c, "expected numbers, found %s", infer_text(c, x));
    return distinct_dims(c, c->node->attr[0], x, &mask) && ascending(c, c->node->attr[0]) &&
           has_leaves(c, c->node->attr[1], x, c->node->attr[0]) && infer_result(c, without_dims(x, mask));
}

static bool infer_cumulate(struct infer *c)
{
    int64_t dim, kind, reverse;
    if (c->node->arg_count < 1) return infer_fail(c, "expected a tensor, found nothing");
    if (!attr_dim(c, 0, 0, &dim) || !infer_attr_number(c, 1, 0, IR_CUMULATE_COUNT, &kind) ||
        !infer_attr_number(c, 2, 0, 2, &reverse))
        return false;
    const struct ir_type *x = infer_arg(c, 0);
    uint32_t expected = kind == IR_CUMULATE_LINEAR ? 2 : 1;
    if (c->node->arg_count != expected || !ir_type_equal(x, infer_arg(c, expected - 1)))
        return infer_fail(c, "expected %u operands of one type, found %u", expected, c->node->arg_count);
    if (x->dtype == IR_BOOL || (kind >= IR_CUMULATE_LOGSUMEXP && !ir_dtype_is_float((enum ir_dtype)x->dtype)))
        return infer_fail(c, "expected %s, found %s", x->dtype == IR_BOOL ? "numbers" : "floats", infer_text(c, x));
    return infer_result(c, *x);
}

static bool infer_order(struct infer *c)
{
    int64_t dim;
    if (!attr_dim(c, 0, 0, &dim)) return false;
    if (infer_arg(c, 0)->dtype != IR_I32) return infer_fail(c, "expected int32, found %s", infer_arg_text(c, 0));
    return infer_result(c, *infer_arg(c, 0));
}

static bool infer_argreduce(struct infer *c)
{
    int64_t dim;
    if (!attr_dim(c, 0, 0, &dim)) return false;
    if (infer_arg(c, 0)->dim[dim] == 0)
        return infer_fail(c, "expected at least one element along dimension %lld, found %s", (long long)dim,
                          infer_arg_text(c, 0));
    if (!is_countable(c, dim)) return false;
    struct ir_type type = without_dims(infer_arg(c, 0), 1u << dim);
    type.dtype = IR_I32;
    return infer_result(c, type);
}

/* Dimensions of x and y in two lists match pairwise. */
static bool matching(struct infer *c, struct ir_ints x_dims, struct ir_ints y_dims, const char *what)
{
    const struct ir_type *x = infer_arg(c, 0), *y = infer_arg(c, 1);
    if (x_dims.n != y_dims.n)
        return infer_fail(c, "expected as many %s dimensions on both sides, found %s and %s", what,
                          infer_ints_text(c, x_dims), infer_ints_text(c, y_dims));
    for (uint32_t i = 0; i < x_dims.n; i++)
        if (x->dim[x_dims.v[i]] != y->dim[y_dims.v[i]])
            return infer_fail(c,
                              "expected equal extents of the %s dimensions, found %lld (dimension %lld of %s) and %lld "
                              "(dimension %lld of %s)",
                              what, extent(x, x_dims.v[i]), (long long)x_dims.v[i], infer_text(c, x),
                              extent(y, y_dims.v[i]), (long long)y_dims.v[i], infer_text(c, y));
    return true;
}

/* Columns of y (of x: rows) in panels, of which the last one may be filled up, are one dimension. */
static bool has_columns(struct infer *c, struct ir_ints columns, uint32_t number, struct ir_type *free)
{
    if (columns.n <= number || (columns.n == 2 && !columns.v[number])) return true;
    int64_t all = free->rank == 2 ? free->dim[0] * free->dim[1] : 0, n = columns.v[number];
    if (columns.n > 2 || n < 1 || n > all || n <= all - free->dim[1])
        return infer_fail(c, "expected columns that fill the panels of %s, found %s", number ? "x" : "y",
                          infer_ints_text(c, columns));
    free->rank = 1;
    free->dim[0] = n;
    return true;
}

static bool infer_dot(struct infer *c)
{
    const struct ir_type *x = infer_arg(c, 0), *y = infer_arg(c, 1);
    const struct ir_ints *a = c->node->attr;
    uint32_t x_mask = 0, y_mask = 0;
    if (x->dtype != y->dtype || x->dtype == IR_BOOL)
        return infer_fail(c, "expected numbers of one type, found %s and %s", infer_text(c, x), infer_text(c, y));
    if (!distinct_dims(c, a[0], x, &x_mask) || !distinct_dims(c, a[2], x, &x_mask)) return false;
    if (!distinct_dims(c, a[1], y, &y_mask) || !distinct_dims(c, a[3], y, &y_mask)) return false;
    if (!matching(c, a[0], a[1], "batch") || !matching(c, a[2], a[3], "contracted")) return false;
    if (!has_leaves(c, a[4], x, a[2])) return false;
    struct ir_type x_free = without_dims(x, x_mask), y_free = without_dims(y, y_mask);
    if (!has_columns(c, a[5], 0, &y_free) || !has_columns(c, a[5], 1, &x_free)) return false;
    uint32_t rank = a[0].n + x_free.rank + y_free.rank;
    if (rank > IR_MAX_RANK)
        return infer_fail(c, "expected a result of at most %d dimensions, found %u", IR_MAX_RANK, rank);
    struct ir_type type = ir_type_scalar((enum ir_dtype)x->dtype);
    if (a[6].n > 1 || (a[6].n && a[6].v[0] != 1))
        return infer_fail(c, "expected rows_first to be 1 or not to be there");
    for (uint32_t i = 0; i < x_free.rank && a[6].n; i++) type.dim[type.rank++] = x_free.dim[i];
    for (uint32_t i = 0; i < a[0].n; i++) type.dim[type.rank++] = x->dim[a[0].v[i]];
    for (uint32_t i = 0; i < x_free.rank && !a[6].n; i++) type.dim[type.rank++] = x_free.dim[i];
    for (uint32_t i = 0; i < y_free.rank; i++) type.dim[type.rank++] = y_free.dim[i];
    return infer_result(c, type);
}

/* ---------------------------------------------------------------- table */

static infer_rule *const rules[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) [OP_##name] = infer_##infer,
#include "ir/ops.def"
#undef X
};

bool ir_infer(const struct ir_func *f, struct ir_node *node, struct arena *arena, const char **message)
{
    struct infer c = {f, node, arena, NULL};
    bool ok = node->op > IR_NONE && node->op < IR_OP_COUNT;
    if (!ok) {
        *message = arena_format(arena, "there is no op number %u", node->op);
        return false;
    }
    int wanted = ir_ops[node->op].args;
    if (wanted >= 0 && node->arg_count != (uint32_t)wanted)
        ok = infer_fail(&c, "expected %d operand%s, found %u", wanted, wanted == 1 ? "" : "s", node->arg_count);
    for (uint32_t i = 0; ok && i < node->arg_count; i++) {
        if (node->args[i] == 0 || node->args[i] >= f->count)
            ok = infer_fail(&c, "operand %u is not a value of the function", i);
        else if (ir_type_elements(infer_arg(&c, i)) < 0) ok = infer_fail(&c, "operand %u has no valid type", i);
        else if ((infer_arg(&c, i)->dtype == IR_TUPLE) != (node->op == OP_proj))
            ok = infer_fail(
                &c, node->op == OP_proj ? "expected a tuple, found %s" : "expected tensors, found a %s (see proj)",
                infer_arg_text(&c, i));
    }
    if (ok) ok = rules[node->op](&c);
    *message = c.message;
    return ok;
}
