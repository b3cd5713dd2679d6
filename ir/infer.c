/* Inference: the type of a node from its operands and attributes. One rule per name in the `infer` column of ops.def.
 * A rule that does not hold says what was expected and what was found, with the types as "float32[2, 3]". Rules read
 * only what was checked before: they are safe on any node whose operands are nodes of the function. The types of
 * tuples (call, loop, grad, accumulate) are not stored; they follow from the bodies and operands. */
#include "ir/ir.h"

#include <string.h>

struct infer {
    const struct ir_func *f;
    struct ir_node *node;
    struct arena *arena;
    const char *message;
};

static bool fail(struct infer *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct infer *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = arena_vformat(c->arena, format, list);
    va_end(list);
    c->message = arena_format(c->arena, "%s: %s", ir_ops[c->node->op].name, text);
    return false;
}

static const struct ir_type *arg(const struct infer *c, uint32_t i) { return &c->f->nodes[c->node->args[i]].type; }
static const char *text(const struct infer *c, const struct ir_type *type) { return ir_type_text(c->arena, type); }
static const char *arg_text(const struct infer *c, uint32_t i) { return text(c, arg(c, i)); }
static long long extent(const struct ir_type *type, int64_t dim) { return (long long)type->dim[dim]; }

static const char *ints_text(const struct infer *c, struct ir_ints list)
{
    struct str s = STR(c->arena);
    str_add(&s, "[");
    for (uint32_t i = 0; i < list.n; i++) str_addf(&s, i ? ", %lld" : "%lld", (long long)list.v[i]);
    str_add(&s, "]");
    return str_text(&s);
}

/* ---------------------------------------------------------------- checks that rules share */

static bool result(struct infer *c, struct ir_type type)
{
    if (ir_type_elements(&type) < 0)
        return fail(c, "the result %s is too large (expected fewer than 2^48 elements)", text(c, &type));
    c->node->type = type;
    return true;
}

/* A stated type that a node may have. */
static bool sane(struct infer *c, const struct ir_type *type)
{
    if (type->dtype == IR_TUPLE || type->dtype >= IR_DTYPE_COUNT) return fail(c, "expected a result of a tensor type");
    if (type->rank > IR_MAX_RANK)
        return fail(c, "expected at most %d dimensions, found %d", IR_MAX_RANK, type->rank);
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dim[i] < 0)
            return fail(c, "expected extents of at least 0, found %lld in %s", extent(type, i), text(c, type));
    for (uint32_t i = type->rank; i < IR_MAX_RANK; i++)
        if (type->dim[i]) return fail(c, "expected unused extents to be 0");
    if (ir_type_elements(type) < 0)
        return fail(c, "%s is too large (expected fewer than 2^48 elements)", text(c, type));
    return true;
}

static bool attr_length(struct infer *c, uint32_t index, uint32_t n)
{
    size_t length;
    const char *name = ir_attr_name((enum ir_op)c->node->op, index, &length);
    if (c->node->attr[index].n == n) return true;
    return fail(c, "expected %u number%s in `%.*s`, found %s", n, n == 1 ? "" : "s", (int)length, name,
                ints_text(c, c->node->attr[index]));
}

/* One number in [low, high). */
static bool attr_number(struct infer *c, uint32_t index, int64_t low, int64_t high, int64_t *value)
{
    if (!attr_length(c, index, 1)) return false;
    *value = c->node->attr[index].v[0];
    if (*value >= low && *value < high) return true;
    size_t length;
    const char *name = ir_attr_name((enum ir_op)c->node->op, index, &length);
    if (high <= low) return fail(c, "there is no valid `%.*s`, found %lld", (int)length, name, (long long)*value);
    return fail(c, "expected `%.*s` in %lld..%lld, found %lld", (int)length, name, (long long)low,
                (long long)high - 1, (long long)*value);
}

/* A dimension of operand `i`. */
static bool attr_dim(struct infer *c, uint32_t index, uint32_t i, int64_t *dim)
{
    if (!attr_length(c, index, 1)) return false;
    *dim = c->node->attr[index].v[0];
    if (*dim >= 0 && *dim < arg(c, i)->rank) return true;
    return fail(c, "dimension %lld is not one of %s", (long long)*dim, arg_text(c, i));
}

/* Different dimensions of a type; adds them to *mask. */
static bool distinct_dims(struct infer *c, struct ir_ints list, const struct ir_type *type, uint32_t *mask)
{
    for (uint32_t i = 0; i < list.n; i++) {
        if (list.v[i] < 0 || list.v[i] >= type->rank)
            return fail(c, "dimension %lld is not one of %s", (long long)list.v[i], text(c, type));
        if (*mask >> list.v[i] & 1)
            return fail(c, "dimension %lld of %s is named twice", (long long)list.v[i], text(c, type));
        *mask |= 1u << list.v[i];
    }
    return true;
}

static bool ascending(struct infer *c, struct ir_ints list)
{
    for (uint32_t i = 1; i < list.n; i++)
        if (list.v[i] <= list.v[i - 1])
            return fail(c, "expected different dimensions in ascending order, found %s", ints_text(c, list));
    return true;
}

static bool is_index_scalar(const struct ir_type *type) { return type->dtype == IR_I32 && type->rank == 0; }

static bool same_types(struct infer *c, uint32_t first, uint32_t end)
{
    for (uint32_t i = first + 1; i < end; i++)
        if (!ir_type_equal(arg(c, i), arg(c, first)))
            return fail(c, "expected operands of one type, found %s and %s", arg_text(c, first), arg_text(c, i));
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
    if (!attr_number(c, 0, 0, (int64_t)c->f->params.count, &index)) return false;
    c->node->type = c->f->params.items[index].type;
    return sane(c, &c->node->type);
}

static bool mesh_axes(struct infer *c, int64_t *mask)
{
    return attr_number(c, 0, 0, (int64_t)1 << IR_MAX_AXES, mask);
}

/* The type is stated by the maker: checked only for what the op can be. */
static bool infer_given(struct infer *c)
{
    const struct ir_type *type = &c->node->type;
    int64_t dim, mask;
    if (!sane(c, type)) return false;
    switch (c->node->op) {
    case OP_constant:
        return c->node->data || ir_type_elements(type) == 0 ? true : fail(c, "expected data");
    case OP_iota:
        if (type->dtype == IR_BOOL) return fail(c, "expected a number type, found %s", text(c, type));
        return attr_number(c, 0, 0, type->rank, &dim);
    case OP_device_index:
        if (!is_index_scalar(type)) return fail(c, "expected the type int32[], found %s", text(c, type));
        return mesh_axes(c, &mask);
    default: /* all_gather, reduce_scatter: one dimension changes its extent */
        if (!mesh_axes(c, &mask) || !attr_dim(c, 1, 0, &dim)) return false;
        if (type->dtype != arg(c, 0)->dtype || type->rank != arg(c, 0)->rank)
            return fail(c, "expected a result like the operand %s, found %s", arg_text(c, 0), text(c, type));
        for (int64_t i = 0; i < type->rank; i++)
            if (i != dim && type->dim[i] != arg(c, 0)->dim[i])
                return fail(c, "expected a change of dimension %lld only, found %s from %s", (long long)dim, text(c, type),
                            arg_text(c, 0));
        return true;
    }
}

/* ---------------------------------------------------------------- element-wise */

/* What an op of rule `same` computes on. */
static bool takes_dtype(enum ir_op op, enum ir_dtype dtype, const char **what)
{
    bool is_float = ir_dtype_is_float(dtype);
    switch (op) {
    case OP_floor: case OP_ceil: case OP_round: case OP_atan2: *what = "floats"; return is_float;
    case OP_not: case OP_and: case OP_or: case OP_xor: *what = "bools or integers"; return !is_float;
    case OP_shl: case OP_shr: *what = "integers"; return ir_dtype_is_integer(dtype);
    case OP_max: case OP_min: case OP_stop_gradient: case OP_sharding_constraint: case OP_all_reduce: return true;
    default: *what = "numbers"; return dtype != IR_BOOL;
    }
}

static bool infer_same(struct infer *c)
{
    const char *what = "";
    int64_t number;
    if (!same_types(c, 0, c->node->arg_count)) return false;
    if (!takes_dtype((enum ir_op)c->node->op, (enum ir_dtype)arg(c, 0)->dtype, &what))
        return fail(c, "expected %s, found %s", what, arg_text(c, 0));
    if (c->node->op == OP_sharding_constraint) {
        if (!attr_length(c, 0, arg(c, 0)->rank)) return false;
        for (uint32_t i = 0; i < c->node->attr[0].n; i++)
            if (c->node->attr[0].v[i] != -1 && c->node->attr[0].v[i] >> IR_MAX_AXES) /* -1: the axes of the batch */
                return fail(c, "expected masks of mesh axes, found %s", ints_text(c, c->node->attr[0]));
    }
    if (c->node->op == OP_all_reduce && (!mesh_axes(c, &number) || !attr_number(c, 1, 0, 3, &number))) return false;
    return result(c, *arg(c, 0));
}

static bool infer_float(struct infer *c)
{
    if (!ir_dtype_is_float((enum ir_dtype)arg(c, 0)->dtype)) return fail(c, "expected floats, found %s", arg_text(c, 0));
    return infer_same(c);
}

static bool infer_predicate(struct infer *c)
{
    struct ir_type type = *arg(c, 0);
    type.dtype = IR_BOOL;
    return result(c, type);
}

static bool infer_compare(struct infer *c) { return same_types(c, 0, 2) && infer_predicate(c); }

/* The dtype is stated, the shape is the operand's. */
static bool infer_cast(struct infer *c)
{
    struct ir_type type = *arg(c, 0);
    enum ir_dtype to = (enum ir_dtype)c->node->type.dtype;
    if (to == IR_TUPLE || to >= IR_DTYPE_COUNT) return fail(c, "expected an element type to convert to");
    if (c->node->op == OP_bitcast &&
        (ir_dtype_bytes(to) != ir_dtype_bytes((enum ir_dtype)type.dtype) || (to == IR_BOOL) != (type.dtype == IR_BOOL)))
        return fail(c, "expected element types of one size, found %s to %s", arg_text(c, 0), ir_dtype_name(to));
    type.dtype = (uint8_t)to;
    return result(c, type);
}

static bool infer_select(struct infer *c)
{
    if (arg(c, 0)->dtype != IR_BOOL) return fail(c, "expected a bool predicate, found %s", arg_text(c, 0));
    if (!same_types(c, 1, 3)) return false;
    if (!same_shape(arg(c, 0), arg(c, 1)))
        return fail(c, "expected a predicate of the shape of %s, found %s", arg_text(c, 1), arg_text(c, 0));
    return result(c, *arg(c, 1));
}

static bool infer_threefry(struct infer *c)
{
    int64_t word;
    if (arg(c, 0)->dtype != IR_U32) return fail(c, "expected uint32, found %s", arg_text(c, 0));
    return same_types(c, 0, 4) && attr_number(c, 0, 0, 2, &word) && result(c, *arg(c, 0));
}

/* ---------------------------------------------------------------- shapes */

/* The shape is stated in the node's type, the dtype is the operand's. */
static bool infer_broadcast(struct infer *c)
{
    const struct ir_type *from = arg(c, 0);
    struct ir_type *to = &c->node->type;
    struct ir_ints dims = c->node->attr[0];
    to->dtype = from->dtype;
    if (!sane(c, to) || !attr_length(c, 0, from->rank) || !ascending(c, dims)) return false;
    for (uint32_t i = 0; i < dims.n; i++) {
        if (dims.v[i] < 0 || dims.v[i] >= to->rank)
            return fail(c, "dimension %lld is not one of the result %s", (long long)dims.v[i], text(c, to));
        if (from->dim[i] != 1 && from->dim[i] != to->dim[dims.v[i]])
            return fail(c, "cannot broadcast %s to %s: dimension %u has extent %lld, expected 1 or %lld", text(c, from),
                        text(c, to), i, extent(from, i), extent(to, dims.v[i]));
    }
    return true;
}

static bool infer_reshape(struct infer *c)
{
    struct ir_type *to = &c->node->type;
    to->dtype = arg(c, 0)->dtype;
    if (!sane(c, to)) return false;
    int64_t expected = ir_type_elements(arg(c, 0)), found = ir_type_elements(to);
    if (expected == found) return true;
    return fail(c, "cannot reshape %s to %s: expected %lld elements, found %lld", arg_text(c, 0), text(c, to),
                (long long)expected, (long long)found);
}

static bool infer_transpose(struct infer *c)
{
    const struct ir_type *from = arg(c, 0);
    uint32_t mask = 0;
    if (!attr_length(c, 0, from->rank) || !distinct_dims(c, c->node->attr[0], from, &mask)) return false;
    struct ir_type type = *from;
    for (uint32_t i = 0; i < from->rank; i++) type.dim[i] = from->dim[c->node->attr[0].v[i]];
    return result(c, type);
}

static bool infer_slice(struct infer *c)
{
    struct ir_type type = *arg(c, 0);
    const struct ir_ints *a = c->node->attr;
    if (!attr_length(c, 0, type.rank) || !attr_length(c, 1, type.rank) || !attr_length(c, 2, type.rank)) return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t start = a[0].v[i], limit = a[1].v[i], stride = a[2].v[i];
        if (start < 0 || limit < start || limit > type.dim[i])
            return fail(c, "expected 0 <= start <= limit <= %lld in dimension %u of %s, found %lld:%lld", extent(&type, i), i,
                        arg_text(c, 0), (long long)start, (long long)limit);
        if (stride < 1) return fail(c, "expected strides of at least 1, found %lld", (long long)stride);
        type.dim[i] = limit == start ? 0 : 1 + (limit - start - 1) / stride;
    }
    return result(c, type);
}

static bool infer_pad(struct infer *c)
{
    struct ir_type type = *arg(c, 0);
    const struct ir_ints *a = c->node->attr;
    if (arg(c, 1)->dtype != type.dtype || arg(c, 1)->rank)
        return fail(c, "expected a scalar %s to fill with, found %s", ir_dtype_name((enum ir_dtype)type.dtype), arg_text(c, 1));
    if (!attr_length(c, 0, type.rank) || !attr_length(c, 1, type.rank) || !attr_length(c, 2, type.rank)) return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t low = a[0].v[i], high = a[1].v[i], interior = a[2].v[i], between;
        if (low < -IR_MAX_ELEMENTS || low > IR_MAX_ELEMENTS || high < -IR_MAX_ELEMENTS || high > IR_MAX_ELEMENTS ||
            interior < 0 || !ir_size_multiply(type.dim[i] ? type.dim[i] - 1 : 0, interior, &between))
            return fail(c, "the padding %lld, %lld, %lld of dimension %u of %s is out of range", (long long)low,
                        (long long)high, (long long)interior, i, arg_text(c, 0));
        type.dim[i] += low + high + between;
        if (type.dim[i] < 0)
            return fail(c, "expected a result extent of at least 0 in dimension %u of %s, found %lld", i, arg_text(c, 0),
                        extent(&type, i));
    }
    return result(c, type);
}

static bool infer_concat(struct infer *c)
{
    int64_t dim;
    if (c->node->arg_count == 0) return fail(c, "expected at least one operand, found none");
    if (!attr_dim(c, 0, 0, &dim)) return false;
    struct ir_type type = *arg(c, 0);
    for (uint32_t i = 1; i < c->node->arg_count; i++) {
        struct ir_type other = *arg(c, i);
        other.dim[dim] = arg(c, 0)->dim[dim];
        if (!ir_type_equal(&other, arg(c, 0)))
            return fail(c, "expected operands that differ in dimension %lld only, found %s and %s", (long long)dim,
                        arg_text(c, 0), arg_text(c, i));
        if (type.dim[dim] <= IR_MAX_ELEMENTS) type.dim[dim] += arg(c, i)->dim[dim];
    }
    return result(c, type);
}

static bool infer_reverse(struct infer *c)
{
    uint32_t mask = 0;
    return distinct_dims(c, c->node->attr[0], arg(c, 0), &mask) && ascending(c, c->node->attr[0]) && result(c, *arg(c, 0));
}

/* Operands from `first` on are one start per dimension of operand 0. */
static bool starts(struct infer *c, uint32_t first)
{
    uint32_t rank = arg(c, 0)->rank;
    if (c->node->arg_count != first + rank)
        return fail(c, "expected %u starts for %s, found %u", rank, arg_text(c, 0), c->node->arg_count - first);
    for (uint32_t i = first; i < c->node->arg_count; i++)
        if (!is_index_scalar(arg(c, i))) return fail(c, "expected starts of type int32[], found %s", arg_text(c, i));
    return true;
}

static bool infer_dynamic_slice(struct infer *c)
{
    if (c->node->arg_count < 1) return fail(c, "expected a tensor and its starts, found nothing");
    struct ir_type type = *arg(c, 0);
    if (!starts(c, 1) || !attr_length(c, 0, type.rank)) return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t size = c->node->attr[0].v[i];
        if (size < 0 || size > type.dim[i])
            return fail(c, "expected sizes that fit in %s, found %s", arg_text(c, 0), ints_text(c, c->node->attr[0]));
        type.dim[i] = size;
    }
    return result(c, type);
}

static bool infer_dynamic_update(struct infer *c)
{
    if (c->node->arg_count < 2)
        return fail(c, "expected a tensor, its update and starts, found %u operands", c->node->arg_count);
    const struct ir_type *x = arg(c, 0), *y = arg(c, 1);
    bool fits = x->dtype == y->dtype && x->rank == y->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++) fits = y->dim[i] <= x->dim[i];
    if (!fits) return fail(c, "expected an update that fits in %s, found %s", text(c, x), text(c, y));
    return starts(c, 2) && result(c, *x);
}

/* x[.., y, ..] with y in place of dimension `dim`. */
static bool taken_type(struct infer *c, struct ir_type *type, int64_t *dim)
{
    const struct ir_type *x = arg(c, 0), *y = arg(c, 1);
    if (!ir_dtype_is_integer((enum ir_dtype)y->dtype)) return fail(c, "expected integer indices, found %s", text(c, y));
    if (!attr_dim(c, 0, 0, dim)) return false;
    if (x->rank - 1 + y->rank > IR_MAX_RANK)
        return fail(c, "expected a result of at most %d dimensions, found %d", IR_MAX_RANK, x->rank - 1 + y->rank);
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
    if (arg(c, 0)->dim[dim] == 0 && ir_type_elements(arg(c, 1)) != 0)
        return fail(c, "cannot take from dimension %lld of %s, which is empty", (long long)dim, arg_text(c, 0));
    return result(c, type);
}

static bool infer_scatter_add(struct infer *c)
{
    struct ir_type type;
    int64_t dim;
    if (!taken_type(c, &type, &dim)) return false;
    if (type.dtype == IR_BOOL) return fail(c, "expected numbers, found %s", arg_text(c, 0));
    if (!ir_type_equal(&type, arg(c, 2)))
        return fail(c, "expected updates of type %s, found %s", text(c, &type), arg_text(c, 2));
    return result(c, *arg(c, 0));
}

/* ---------------------------------------------------------------- reductions and contraction */

static struct ir_type without_dims(const struct ir_type *from, uint32_t mask)
{
    struct ir_type type = ir_type_scalar((enum ir_dtype)from->dtype);
    for (uint32_t i = 0; i < from->rank; i++)
        if (!(mask >> i & 1)) type.dim[type.rank++] = from->dim[i];
    return type;
}

static bool infer_reduce(struct infer *c)
{
    uint32_t mask = 0;
    const struct ir_type *x = arg(c, 0);
    if (x->dtype == IR_BOOL && (c->node->op == OP_reduce_sum || c->node->op == OP_reduce_prod))
        return fail(c, "expected numbers, found %s", text(c, x));
    return distinct_dims(c, c->node->attr[0], x, &mask) && ascending(c, c->node->attr[0]) &&
           result(c, without_dims(x, mask));
}

static bool infer_argreduce(struct infer *c)
{
    int64_t dim;
    if (!attr_dim(c, 0, 0, &dim)) return false;
    if (arg(c, 0)->dim[dim] == 0)
        return fail(c, "expected at least one element along dimension %lld, found %s", (long long)dim, arg_text(c, 0));
    if (arg(c, 0)->dim[dim] > INT32_MAX)
        return fail(c, "expected fewer than 2^31 elements along dimension %lld, found %s", (long long)dim, arg_text(c, 0));
    struct ir_type type = without_dims(arg(c, 0), 1u << dim);
    type.dtype = IR_I32;
    return result(c, type);
}

/* Dimensions of x and y in two lists match pairwise. */
static bool matching(struct infer *c, struct ir_ints x_dims, struct ir_ints y_dims, const char *what)
{
    const struct ir_type *x = arg(c, 0), *y = arg(c, 1);
    if (x_dims.n != y_dims.n)
        return fail(c, "expected as many %s dimensions on both sides, found %s and %s", what, ints_text(c, x_dims),
                    ints_text(c, y_dims));
    for (uint32_t i = 0; i < x_dims.n; i++)
        if (x->dim[x_dims.v[i]] != y->dim[y_dims.v[i]])
            return fail(c, "expected equal extents of the %s dimensions, found %lld (dimension %lld of %s) and %lld (dimension %lld of %s)",
                        what, extent(x, x_dims.v[i]), (long long)x_dims.v[i], text(c, x), extent(y, y_dims.v[i]),
                        (long long)y_dims.v[i], text(c, y));
    return true;
}

static bool infer_dot(struct infer *c)
{
    const struct ir_type *x = arg(c, 0), *y = arg(c, 1);
    const struct ir_ints *a = c->node->attr;
    uint32_t x_mask = 0, y_mask = 0;
    if (x->dtype != y->dtype || x->dtype == IR_BOOL)
        return fail(c, "expected numbers of one type, found %s and %s", text(c, x), text(c, y));
    if (!distinct_dims(c, a[0], x, &x_mask) || !distinct_dims(c, a[2], x, &x_mask)) return false;
    if (!distinct_dims(c, a[1], y, &y_mask) || !distinct_dims(c, a[3], y, &y_mask)) return false;
    if (!matching(c, a[0], a[1], "batch") || !matching(c, a[2], a[3], "contracted")) return false;
    struct ir_type x_free = without_dims(x, x_mask), y_free = without_dims(y, y_mask);
    uint32_t rank = a[0].n + x_free.rank + y_free.rank;
    if (rank > IR_MAX_RANK) return fail(c, "expected a result of at most %d dimensions, found %u", IR_MAX_RANK, rank);
    struct ir_type type = ir_type_scalar((enum ir_dtype)x->dtype);
    for (uint32_t i = 0; i < a[0].n; i++) type.dim[type.rank++] = x->dim[a[0].v[i]];
    for (uint32_t i = 0; i < x_free.rank; i++) type.dim[type.rank++] = x_free.dim[i];
    for (uint32_t i = 0; i < y_free.rank; i++) type.dim[type.rank++] = y_free.dim[i];
    return result(c, type);
}

/* ---------------------------------------------------------------- control */

static bool tuple(struct infer *c)
{
    c->node->type = (struct ir_type){.dtype = IR_TUPLE};
    return true;
}

static const struct ir_func *body_of(const struct ir_func *f, const struct ir_node *node)
{
    return f->module && node->func < f->module->funcs.count ? f->module->funcs.items[node->func] : NULL;
}

static const struct ir_type *result_type(const struct ir_func *body, size_t i)
{
    ir_value value = body->results.items[i].value;
    return value < body->count ? &body->nodes[value].type : &body->nodes[0].type;
}

/* The operands from `first` on and the body's parameters from `from` on have the same types. */
static bool arguments_fit(struct infer *c, const struct ir_func *body, uint32_t first, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct ir_param *p = &body->params.items[from + i];
        if (!ir_type_equal(arg(c, first + i), &p->type))
            return fail(c, "expected %s for parameter %u (%s) of %s, found %s", text(c, &p->type), from + i,
                        p->name ? p->name : "", body->name, arg_text(c, first + i));
    }
    return true;
}

static bool body_takes(struct infer *c, const struct ir_func **body, uint64_t params)
{
    *body = body_of(c->f, c->node);
    if (!*body) return fail(c, "there is no function number %u", c->node->func);
    if (*body == c->f) return fail(c, "function %s may not call itself", c->f->name);
    if ((*body)->params.count == params) return true;
    return fail(c, "expected %zu operands for the parameters of %s, found %llu", (*body)->params.count, (*body)->name,
                (unsigned long long)params);
}

static bool infer_call(struct infer *c)
{
    const struct ir_func *body;
    return body_takes(c, &body, c->node->arg_count) && arguments_fit(c, body, 0, 0, c->node->arg_count) && tuple(c);
}

static bool infer_loop(struct infer *c)
{
    const struct ir_func *body;
    uint32_t args = c->node->arg_count;
    int64_t carried, flag;
    if (args < 1 || !is_index_scalar(arg(c, 0)))
        return fail(c, "expected a limit of type int32[], found %s", args ? arg_text(c, 0) : "nothing");
    if (!attr_number(c, 0, 0, args, &carried) || !attr_number(c, 1, 0, 2, &flag)) return false;
    if (!body_takes(c, &body, args)) return false;
    if (!is_index_scalar(&body->params.items[0].type))
        return fail(c, "expected parameter 0 of %s, the counter, to be int32[], found %s", body->name,
                    text(c, &body->params.items[0].type));
    if (!arguments_fit(c, body, 1, 1, args - 1)) return false;
    if (body->results.count != (uint64_t)carried)
        return fail(c, "expected %lld results of %s, one per carried value, found %zu", (long long)carried, body->name,
                    body->results.count);
    for (uint32_t i = 0; i < carried; i++)
        if (!ir_type_equal(result_type(body, i), arg(c, 1 + i)))
            return fail(c, "expected result %u of %s to be like the carried value, %s, found %s", i, body->name,
                        arg_text(c, 1 + i), text(c, result_type(body, i)));
    if (flag && (carried == 0 || arg(c, 1)->dtype != IR_BOOL || arg(c, 1)->rank))
        return fail(c, "expected the first carried value, the condition, to be bool[], found %s",
                    carried ? arg_text(c, 1) : "nothing");
    return tuple(c);
}

static bool infer_grad(struct infer *c)
{
    if (c->node->arg_count < 1 || !ir_dtype_is_float((enum ir_dtype)arg(c, 0)->dtype) || arg(c, 0)->rank)
        return fail(c, "expected a float scalar to differentiate, found %s", c->node->arg_count ? arg_text(c, 0) : "nothing");
    for (uint32_t i = 1; i < c->node->arg_count; i++)
        if (!ir_dtype_is_float((enum ir_dtype)arg(c, i)->dtype))
            return fail(c, "expected floats to differentiate by, found %s", arg_text(c, i));
    return tuple(c);
}

enum { KIND_SUM, KIND_MEAN, KIND_RUNNING_MEAN, KIND_CONCATENATE, KIND_COUNT };

/* One result of an accumulation from the result of its body. */
static bool accumulated_type(int64_t kind, int64_t microbatches, struct ir_type *type)
{
    if (kind != KIND_CONCATENATE) return true;
    return type->rank > 0 && ir_size_multiply(type->dim[0], microbatches, &type->dim[0]) && ir_type_elements(type) >= 0;
}

/* A whole batch is `microbatches` parts along dimension 0. */
static bool is_part(const struct ir_type *whole, const struct ir_type *part, int64_t microbatches)
{
    struct ir_type type = *part;
    return type.rank > 0 && ir_size_multiply(type.dim[0], microbatches, &type.dim[0]) && ir_type_equal(&type, whole);
}

static bool accumulate_results(struct infer *c, const struct ir_func *body, int64_t microbatches)
{
    struct ir_ints kinds = c->node->attr[3];
    if (kinds.n != body->results.count)
        return fail(c, "expected %zu kinds, one per result of %s, found %s", body->results.count, body->name, ints_text(c, kinds));
    for (uint32_t i = 0; i < kinds.n; i++) {
        struct ir_type type = *result_type(body, i);
        if (kinds.v[i] < 0 || kinds.v[i] >= KIND_COUNT) return fail(c, "there is no kind %lld", (long long)kinds.v[i]);
        if (type.dtype == IR_TUPLE || (kinds.v[i] != KIND_CONCATENATE && type.dtype == IR_BOOL))
            return fail(c, "cannot accumulate result %u of %s, found %s", i, body->name, text(c, &type));
        if (!accumulated_type(kinds.v[i], microbatches, &type))
            return fail(c, "cannot concatenate %lld times result %u of %s, found %s", (long long)microbatches, i,
                        body->name, text(c, result_type(body, i)));
    }
    return true;
}

static bool infer_accumulate(struct infer *c)
{
    const struct ir_func *body;
    uint32_t args = c->node->arg_count;
    int64_t batched, microbatches, split;
    if (args < 1 || !is_index_scalar(arg(c, 0)))
        return fail(c, "expected a number of microbatches of type int32[], found %s", args ? arg_text(c, 0) : "nothing");
    if (!attr_number(c, 0, 0, args, &batched) || !attr_number(c, 1, 1, INT32_MAX, &microbatches)) return false;
    if (!attr_number(c, 2, 0, 2, &split) || !body_takes(c, &body, args - 1)) return false;
    for (uint32_t i = 0; i < batched; i++)
        if (!is_part(arg(c, 1 + i), &body->params.items[i].type, microbatches))
            return fail(c, "expected a batch of %lld times %s for parameter %u of %s, found %s", (long long)microbatches,
                        text(c, &body->params.items[i].type), i, body->name, arg_text(c, 1 + i));
    uint32_t captured = args - 1 - (uint32_t)batched;
    return arguments_fit(c, body, 1 + (uint32_t)batched, (uint32_t)batched, captured) &&
           accumulate_results(c, body, microbatches) && tuple(c);
}

uint32_t ir_tuple_count(const struct ir_func *f, ir_value value)
{
    const struct ir_node *node = ir_get(f, value);
    if (node->op != OP_call && node->op != OP_loop && node->op != OP_grad && node->op != OP_accumulate) return 0;
    if (node->op == OP_grad) return node->arg_count ? node->arg_count - 1 : 0;
    const struct ir_func *body = body_of(f, node);
    return body ? (uint32_t)body->results.count : 0;
}

struct ir_type ir_tuple_type(const struct ir_func *f, ir_value value, uint32_t index)
{
    ASSERT(index < ir_tuple_count(f, value));
    const struct ir_node *node = ir_get(f, value);
    if (node->op == OP_grad) /* no operand list, or a value that does not exist: a malformed module is being verified */
        return f->nodes[node->args && node->args[1 + index] < f->count ? node->args[1 + index] : 0].type;
    struct ir_type type = *result_type(body_of(f, node), index);
    if (node->op == OP_accumulate && index < node->attr[3].n && node->attr[3].v && node->attr[1].n == 1 && node->attr[1].v)
        accumulated_type(node->attr[3].v[index], node->attr[1].v[0], &type);
    return type;
}

static bool infer_proj(struct infer *c)
{
    int64_t index;
    uint32_t count = ir_tuple_count(c->f, c->node->args[0]);
    if (!attr_length(c, 0, 1)) return false;
    index = c->node->attr[0].v[0];
    if (index < 0 || index >= count)
        return fail(c, "expected an index into %u results, found %lld", count, (long long)index);
    struct ir_type type = ir_tuple_type(c->f, c->node->args[0], (uint32_t)index);
    return sane(c, &type) && result(c, type);
}

/* ---------------------------------------------------------------- table */

typedef bool rule(struct infer *);
static rule *const rules[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, shard, emit, doc) [OP_##name] = infer_##infer,
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
        ok = fail(&c, "expected %d operand%s, found %u", wanted, wanted == 1 ? "" : "s", node->arg_count);
    for (uint32_t i = 0; ok && i < node->arg_count; i++) {
        if (node->args[i] == 0 || node->args[i] >= f->count) ok = fail(&c, "operand %u is not a value of the function", i);
        else if (ir_type_elements(arg(&c, i)) < 0) ok = fail(&c, "operand %u has no valid type", i);
        else if ((arg(&c, i)->dtype == IR_TUPLE) != (node->op == OP_proj))
            ok = fail(&c, node->op == OP_proj ? "expected a tuple, found %s" : "expected tensors, found a %s (see proj)", arg_text(&c, i));
    }
    if (ok) ok = rules[node->op](&c);
    *message = c.message;
    return ok;
}
