/* Functions of expressions whose arguments or results are lists, shapes and dtypes: what is known while compiling. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

/* The items of a list, or the parts of a tensor along its first axis. */
static bool items_of(struct fe_call *c, uint32_t arg, const struct fe_val **items, uint32_t *count)
{
    if (ARG(arg).kind == FE_VAL_TENSOR && fe_rank(c->site, &ARG(arg)))
        ARG(arg) = FE_APPLY(c->site, "unstack", ARG(arg));
    if (ARG(arg).bad) return false;
    if (ARG(arg).kind != FE_VAL_TUPLE || !ARG(arg).count)
        return fe_wrong_at(c->site, &c->where[arg], "E0310", "%s needs a list of tensors, found %s", c->function,
                           fe_describe(c->site, &ARG(arg)));
    *items = ARG(arg).items, *count = ARG(arg).count;
    return true;
}

/* ---------------------------------------------------------------- dtypes */

static struct fe_val word(const char *text) { return (struct fe_val){.kind = FE_VAL_STRING, .string = text}; }

struct fe_val make_dtype_of(struct fe_call *c)
{
    struct ir_type t;
    if (ARG(0).kind == FE_VAL_STRING) return ARG(0);
    return fe_get_tensor(c, 0, &t) ? word(ir_dtype_name((enum ir_dtype)t.dtype)) : fe_bad();
}

/* Static: whether the elements of a tensor, or of all in a list, are floats. */
struct fe_val make_is_float(struct fe_call *c)
{
    struct ir_type t;
    if (!fe_get_tensor(c, 0, &t)) return fe_bad();
    return (struct fe_val){
        .kind = FE_VAL_NUMBER, .python = FE_PY_BOOL, .number = ir_dtype_is_float((enum ir_dtype)t.dtype)};
}

struct fe_val make_needs_size(struct fe_call *c)
{
    int64_t n;
    if (fe_is_none(&ARG(0)))
        return fe_fail(c->site, "E0312",
                       "the shape of a result may not depend on values: give it size= (bincount: length=), and "
                       "fill_value= for what is left; where(mask, x, other) keeps the shape");
    return fe_get_int(c, 0, &n) ? ARG(0) : fe_bad();
}

/* For choices of formulas: what kind of value an argument is. */
struct fe_val make_kind_of(struct fe_call *c)
{
    const char *kind = "other";
    switch (ARG(0).kind) {
    case FE_VAL_NUMBER: kind = "number"; break;
    case FE_VAL_TENSOR: kind = "tensor"; break;
    case FE_VAL_TUPLE: kind = "tuple"; break;
    case FE_VAL_STRING: kind = "string"; break;
    default: break;
    }
    return (struct fe_val){.kind = FE_VAL_STRING, .string = kind};
}

struct fe_val make_axis_of(struct fe_call *c)
{ /* counted from the first one */
    struct ir_type t;
    uint32_t axis;
    return fe_get_tensor(c, 1, &t) && fe_get_axis_arg(c, 0, t.rank, &axis) ? fe_int(axis) : fe_bad();
}

struct fe_val make_range(struct fe_call *c)
{
    int64_t start = 0, stop;
    bool both = !fe_is_none(&ARG(1));
    if ((both && !fe_get_int(c, 0, &start)) || !fe_get_int(c, both, &stop)) return fe_bad();
    uint32_t n = stop > start ? (uint32_t)(stop - start) : 0;
    struct fe_val *items = arena_new_array(c->site->fe->arena, struct fe_val, n + 1);
    for (uint32_t i = 0; i < n; i++) items[i] = fe_int((double)(start + i));
    return fe_tuple(c->site, items, n);
}

struct fe_val make_leaves(struct fe_call *c)
{
    const struct fe_val *v = &ARG(0);
    if (v->kind == FE_VAL_TUPLE) return *v;
    uint32_t n = v->kind == FE_VAL_TREE ? v->tree->count : 1;
    struct fe_val *items = arena_new_array(c->site->fe->arena, struct fe_val, n + 1);
    for (uint32_t i = 0; i < n; i++) items[i] = v->kind == FE_VAL_TREE ? fe_val_tensor(v->tree->values[i]) : *v;
    return fe_tuple(c->site, items, n);
}

static bool kind_of_arg(struct fe_site *s, const struct fe_val *v, struct fe_kind_of *k)
{
    if (v->bad) return false;
    if (v->kind == FE_VAL_STRING) {
        enum ir_dtype d = ir_dtype_find(v->string);
        *k = (struct fe_kind_of){d, false};
        if (d == IR_TUPLE) fe_fail(s, "E0310", "'%s' is no dtype such as 'float32'", v->string);
        return d != IR_TUPLE;
    }
    struct fe_val x = *v;
    if (x.kind != FE_VAL_NUMBER && !fe_as_tensor(s, &x)) return false;
    *k = fe_kind(s, &x);
    return true;
}

struct fe_val make_result_type(struct fe_call *c)
{
    struct fe_kind_of all = {0}, k;
    const struct fe_val *list = c->rest_count ? c->rest : c->arg;
    uint32_t n = c->rest_count ? c->rest_count : c->given[0] ? 2 : 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!kind_of_arg(c->site, &list[i], &k)) return fe_bad();
        all = i ? fe_promote(all, k) : k;
    }
    return n ? word(ir_dtype_name(all.dtype)) : fe_fail(c->site, "E0312", "%s needs tensors or dtypes", c->function);
}

struct fe_val make_finfo(struct fe_call *c)
{ /* data 1: integers */
    SITE;
    static const char *const float_names[] = {"eps", "max", "min", "tiny", "smallest_normal", "bits"},
                             *const integer_names[] = {"max", "min", "bits"};
    struct fe_kind_of k;
    if (!kind_of_arg(s, &ARG(0), &k)) return fe_bad();
    if (k.dtype == IR_F64) k.dtype = IR_F32;
    double bits = 8 * (double)ir_dtype_bytes(k.dtype), top = 3.4028234663852886e38, eps = 0x1p-23, tiny = 0x1p-126;
    if (k.dtype == IR_BF16) top = 3.3895313892515355e38, eps = 0x1p-7;
    if (k.dtype == IR_F16) top = 65504, eps = 0x1p-10, tiny = 0x1p-14;
    if (c->data ? !ir_dtype_is_integer(k.dtype) : !ir_dtype_is_float(k.dtype))
        return fe_fail(s, "E0310", "%s needs %s dtype, found %s", c->function, c->data ? "an integer" : "a float",
                       ir_dtype_name(k.dtype));
    bool is_signed = ir_dtype_is_signed(k.dtype);
    double most = ldexp(1, (int)bits - is_signed) - 1;
    struct fe_val whole[] = {fe_int(most), fe_int(is_signed ? -most - 1 : 0), fe_int(bits)};
    struct fe_val real[] = {fe_float(eps), fe_float(top), fe_float(-top), fe_float(tiny), fe_float(tiny), fe_int(bits)};
    struct fe_val all = c->data ? fe_tuple(s, whole, 3) : fe_tuple(s, real, 6);
    all.names = c->data ? integer_names : float_names;
    return all;
}

/* ---------------------------------------------------------------- ranks, shapes, parts */

static bool common_shape(struct fe_call *c, struct ir_type *t)
{
    SITE;
    *t = ir_type_of(IR_I32, 0, NULL);
    for (uint32_t i = 0; i < c->rest_count; i++) {
        struct fe_val x = c->rest[i];
        struct ir_type one = *t;
        if (x.kind == FE_VAL_TUPLE && !strcmp(c->row->name, "broadcast_shapes")) {
            uint32_t rank;
            if (!fe_get_ints(s, &x, one.dim, IR_MAX_RANK, &rank, "shape")) return false;
            one = ir_type_of(IR_I32, rank, one.dim);
        } else if (!fe_as_tensor(s, &x)) return false;
        else one = fe_type_at(s, &x);
        if (!fe_broadcast_shapes(t, &one, t))
            return (void)fe_fail(s, "E0210", "%s: the shapes do not fit", c->function), false;
    }
    return true;
}

struct fe_val make_broadcast_arrays(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    if (!common_shape(c, &t)) return fe_bad();
    struct fe_val *all = arena_new_array(s->fe->arena, struct fe_val, c->rest_count + 1);
    for (uint32_t i = 0; i < c->rest_count; i++) all[i] = fe_broadcast_val(s, c->rest[i], t.rank, t.dim);
    return fe_tuple(s, all, c->rest_count);
}

struct fe_val make_broadcast_shapes(struct fe_call *c)
{
    struct ir_type t;
    struct fe_val dims[IR_MAX_RANK];
    if (!common_shape(c, &t)) return fe_bad();
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = fe_int((double)t.dim[i]);
    return fe_tuple(c->site, dims, t.rank);
}

struct fe_val make_unstack(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    uint32_t at;
    if (!fe_get_tensor(c, 0, &t) || !fe_get_axis_arg(c, 1, t.rank, &at)) return fe_bad();
    if (t.dim[at] > 4096) return fe_fail(s, "E0212", "unstack: more than 4096 parts");
    struct fe_val *all = arena_new_array(s->fe->arena, struct fe_val, t.dim[at] + 1);
    int64_t shape[IR_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i != at) shape[rank++] = t.dim[i];
    for (int64_t i = 0; i < t.dim[at]; i++)
        all[i] = fe_reshape_val(s, fe_slice_axis(s, ARG(0), at, i, i + 1), rank, shape);
    return fe_tuple(s, all, (uint32_t)t.dim[at]);
}

/* The axis of delete and insert, moved to the front of the flattened or the whole tensor. */
static struct fe_val opened(struct fe_call *c, uint32_t arg, uint32_t *at)
{
    struct ir_type t;
    *at = 0;
    if (!fe_get_tensor(c, 0, &t)) return fe_bad();
    if (fe_is_none(&ARG(arg))) return FE_APPLY(c->site, "ravel", ARG(0));
    return fe_get_axis_arg(c, arg, t.rank, at) ? ARG(0) : fe_bad();
}

struct fe_val make_delete(struct fe_call *c)
{ /* a number, a list of numbers, or a slice */
    SITE;
    uint32_t at, n, count = 0;
    struct fe_val x = opened(c, 2, &at);
    if (x.bad) return x;
    if (ARG(1).kind == FE_VAL_SLICE) { /* the places that it means */
        int64_t size = fe_type_at(s, &x).dim[at];
        struct fe_val *places = arena_new_array(s->fe->arena, struct fe_val, size + 1);
        for (int64_t i = 0; i < size; i++) places[i] = fe_int((double)i);
        ARG(1) = fe_index(s, fe_tuple(s, places, (uint32_t)size), &ARG(1), NULL, 1);
        if (ARG(1).bad) return ARG(1);
    }
    int64_t extent = fe_type_at(s, &x).dim[at], *gone = arena_new_array(s->fe->arena, int64_t, ARG(1).count + 1),
            next = 0;
    if (!fe_get_ints(s, &ARG(1), gone, ARG(1).kind == FE_VAL_TUPLE ? ARG(1).count : 1, &n, "delete")) return fe_bad();
    bool *is_gone = arena_new_array(s->fe->arena, bool, extent + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (gone[i] < -extent || gone[i] >= extent)
            return fe_fail(s, "E0212", "delete: index %lld is outside %lld elements", (long long)gone[i],
                           (long long)extent);
        is_gone[gone[i] < 0 ? gone[i] + extent : gone[i]] = true;
    }
    struct fe_val *parts = arena_new_array(s->fe->arena, struct fe_val, n + 2);
    for (int64_t i = 0; i <= extent; i++)
        if (i == extent || is_gone[i]) {
            if (i > next || (i == extent && !count)) parts[count++] = fe_slice_axis(s, x, at, next, i);
            next = i + 1;
        }
    return FE_APPLY(s, "concatenate", fe_tuple(s, parts, count), fe_int(at));
}

/* ---------------------------------------------------------------- indices */

static struct fe_val integers(struct fe_site *s, const int32_t *v, int64_t n)
{
    return fe_val_tensor(ir_constant(s->b, ir_type_of(IR_I32, 1, &n), v));
}

struct fe_val make_iota(struct fe_call *c)
{ /* data 1: of a shape, along a dimension */
    enum ir_dtype d;
    int64_t shape[IR_MAX_RANK];
    uint32_t rank, along = 0;
    if (!fe_get_dtype(c, 0, &d) || !fe_get_ints(c->site, &ARG(1), shape, IR_MAX_RANK, &rank, "shape")) return fe_bad();
    if (c->data && !fe_get_axis_arg(c, 2, rank, &along)) return fe_bad();
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] < 0 || !rank) return fe_fail(c->site, "E0212", "%s: a negative size", c->function);
    return rank ? fe_iota(c->site, ir_type_of(d, rank, shape), along) : fe_bad();
}

struct fe_val make_triangle_indices(struct fe_call *c)
{ /* data 1: the upper triangle; 2, 3: of a tensor */
    SITE;
    int64_t rows, columns, k;
    struct ir_type t;
    bool upper = c->data & 1;
    if (!fe_get_int(c, 1, &k)) return fe_bad();
    if (c->data > 1) {
        if (!fe_get_tensor(c, 0, &t)) return fe_bad();
        if (t.rank != 2)
            return fe_fail(s, "E0212", "%s needs a matrix, found %s", c->function, fe_describe(s, &ARG(0)));
        rows = t.dim[0], columns = t.dim[1];
    } else {
        if (!fe_get_int(c, 0, &rows)) return fe_bad();
        columns = rows;
        if (!fe_is_none(&ARG(2)) && !fe_get_int(c, 2, &columns)) return fe_bad();
    }
    if (rows < 0 || columns < 0 || rows > 1 << 14 || columns > 1 << 14)
        return fe_fail(s, "E0212", "%s: %lld rows and %lld columns", c->function, (long long)rows, (long long)columns);
    int32_t *first = arena_new_array(s->fe->arena, int32_t, rows * columns + 1),
            *second = arena_new_array(s->fe->arena, int32_t, rows * columns + 1);
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            if (upper ? j - i >= k : j - i <= k) first[n] = (int32_t)i, second[n++] = (int32_t)j;
    struct fe_val both[] = {integers(s, first, n), integers(s, second, n)};
    return fe_tuple(s, both, 2);
}

/* ---------------------------------------------------------------- slices that begin anywhere */

static struct fe_val sliced_at(struct fe_site *s, struct fe_val x, const struct fe_val *starts, const int64_t *sizes,
                               const struct fe_val *update)
{
    struct ir_type t = fe_type_at(s, &x);
    ir_value at[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        struct fe_val start = starts[i];
        if (!fe_as_tensor(s, &start)) return fe_bad();
        if (fe_rank(s, &start) || !ir_dtype_is_integer((enum ir_dtype)fe_type_at(s, &start).dtype))
            return fe_fail(s, "E0211", "a start must be an integer scalar, found %s", fe_describe(s, &start));
        if (sizes && (sizes[i] < 0 || sizes[i] > t.dim[i]))
            return fe_fail(s, "E0212", "%lld elements of an axis of %lld", (long long)sizes[i], (long long)t.dim[i]);
        start = fe_cast(s, start, IR_I32);
        start = fe_where3(s, fe_binary(s, EXPR_OP_LT, start, fe_int(0)), fe_add(s, start, fe_int((double)t.dim[i])),
                          start);
        if (start.bad) return start;
        at[i] = start.tensor;
    }
    return fe_tensor_val(update ? ir_dynamic_update(s->b, x.tensor, update->tensor, at)
                                : ir_dynamic_slice(s->b, x.tensor, at, sizes),
                         x.weak);
}

static bool starts_of(struct fe_call *c, uint32_t arg, uint32_t rank, const struct fe_val **starts)
{
    uint32_t n = 0;
    *starts = NULL;
    if (!rank) return true;
    if (!items_of(c, arg, starts, &n)) return false;
    if (n == rank) return true;
    fe_fail(c->site, "E0212", "%s: %u starts for a tensor of rank %u", c->function, (unsigned)n, (unsigned)rank);
    return false;
}

struct fe_val make_dynamic_slice(struct fe_call *c)
{
    SITE;
    struct ir_type t;
    const struct fe_val *starts;
    int64_t sizes[IR_MAX_RANK];
    uint32_t n;
    if (!fe_get_tensor(c, 0, &t) || !starts_of(c, 1, t.rank, &starts) ||
        !fe_get_ints(s, &ARG(2), sizes, IR_MAX_RANK, &n, "slice_sizes"))
        return fe_bad();
    return n == t.rank
               ? sliced_at(s, ARG(0), starts, sizes, NULL)
               : fe_fail(s, "E0212", "dynamic_slice: %u sizes for a tensor of rank %u", (unsigned)n, (unsigned)t.rank);
}

/* The update, of the tensor's dtype; false: it does not fit. */
static bool update_of(struct fe_call *c, uint32_t arg, const struct ir_type *t, struct fe_val *update)
{
    *update = fe_cast(c->site, ARG(arg), (enum ir_dtype)t->dtype);
    if (update->bad) return false;
    struct ir_type u = fe_type_at(c->site, update);
    bool fits = u.rank == t->rank;
    for (uint32_t i = 0; fits && i < t->rank; i++) fits = u.dim[i] <= t->dim[i];
    if (!fits)
        fe_fail(c->site, "E0210", "%s: the update %s does not fit into %s", c->function, fe_describe(c->site, update),
                fe_describe(c->site, &ARG(0)));
    return fits;
}

struct fe_val make_dynamic_update_slice(struct fe_call *c)
{
    struct ir_type t;
    const struct fe_val *starts;
    struct fe_val update;
    if (!fe_get_tensor(c, 0, &t) || !update_of(c, 1, &t, &update) || !starts_of(c, 2, t.rank, &starts)) return fe_bad();
    return sliced_at(c->site, ARG(0), starts, NULL, &update);
}

/* slice(stop), slice(start, stop), slice(start, stop, step): what stands in brackets as start:stop:step. */
struct fe_val make_slice(struct fe_call *c)
{
    struct fe_val parts[3] = {fe_none(), fe_none(), fe_none()};
    if (c->rest_count < 1 || c->rest_count > 3) return fe_fail(c->site, "E0312", "slice takes one to three integers");
    for (uint32_t i = 0; i < c->rest_count; i++) parts[c->rest_count == 1 ? 1 : i] = c->rest[i];
    struct fe_val v = fe_tuple(c->site, parts, 3);
    v.kind = FE_VAL_SLICE;
    return v;
}
