/* Reductions and running sums of expressions. Sums of 16-bit floats run in float32, as in JAX. */
#include "frontend/expr_makers.h"
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- static arguments */

bool fe_get_int(struct fe_call *c, uint32_t arg, int64_t *out)
{
    const struct fe_val *v = &c->arg[arg];
    if (v->kind != FE_VAL_NUMBER || v->python == FE_PY_FLOAT || fabs(v->number) > 9007199254740991.0) {
        if (!v->bad)
            fe_fail_at(c->site, &c->where[arg], "E0310", "%s: an integer expected, found %s", c->function,
                       v->kind == FE_VAL_NUMBER ? "a fraction" : fe_describe(c->site, v));
        return false;
    }
    *out = (int64_t)v->number;
    return true;
}

bool fe_get_ints(struct fe_site *s, const struct fe_val *v, int64_t *out, uint32_t limit, uint32_t *count,
                 const char *what)
{
    const struct fe_val *items = v->kind == FE_VAL_TUPLE ? v->items : v;
    uint32_t n = v->kind == FE_VAL_TUPLE ? v->count : 1;
    if (n > limit) {
        fe_fail(s, "E0310", "%s: at most %u integers expected, found %u", what, (unsigned)limit, (unsigned)n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].kind != FE_VAL_NUMBER || items[i].number != floor(items[i].number)) {
            if (!items[i].bad) fe_fail(s, "E0310", "%s: integers expected, found %s", what, fe_describe(s, &items[i]));
            return false;
        }
        out[i] = (int64_t)items[i].number;
    }
    *count = n;
    return true;
}

bool fe_get_axis(const struct fe_site *s, int64_t axis, uint32_t rank, uint32_t *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
        fe_fail(s, "E0212", "axis %lld is outside a tensor of rank %u", (long long)axis, (unsigned)rank);
        return false;
    }
    *out = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return true;
}

bool fe_get_axes(struct fe_call *c, uint32_t arg, uint32_t rank, uint32_t *axes, uint32_t *count)
{
    const struct fe_val *v = &c->arg[arg];
    int64_t list[IR_MAX_RANK];
    struct fe_site at = *c->site;
    if (fe_is_none(v)) {
        for (uint32_t i = 0; i < rank; i++) axes[i] = i;
        *count = rank;
        return true;
    }
    at.where = c->where[arg];
    if (!fe_get_ints(&at, v, list, IR_MAX_RANK, count, "axis")) return false;
    bool seen[IR_MAX_RANK] = {0};
    for (uint32_t i = 0; i < *count; i++) {
        if (!fe_get_axis(&at, list[i], rank, &axes[i])) return false;
        if (seen[axes[i]]) {
            fe_fail(&at, "E0212", "axis %lld is named twice", (long long)list[i]);
            return false;
        }
        seen[axes[i]] = true;
    }
    return true;
}

bool fe_get_dtype(struct fe_call *c, uint32_t arg, enum ir_dtype *out)
{
    const struct fe_val *v = &c->arg[arg];
    const char *name = v->kind == FE_VAL_STRING ? v->string : NULL;
    if (name && !strcmp(name, "float")) name = "float32";
    if (name && !strcmp(name, "int")) name = "int32";
    *out = name ? ir_dtype_find(name) : IR_TUPLE;
    if (*out == IR_TUPLE) {
        fe_fail_at(c->site, &c->where[arg], "E0310", "a dtype such as 'float32' expected, found %s",
                   name ? name : fe_describe(c->site, v));
        return false;
    }
    if (*out == IR_F64) *out = IR_F32; /* 64-bit types are off */
    if (*out == IR_I64) *out = IR_I32;
    if (*out == IR_U64) *out = IR_U32;
    return true;
}

/* ---------------------------------------------------------------- reductions */

static int64_t extent(const struct ir_type *t, const uint32_t *axes, uint32_t count)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < count; i++) n *= t->dim[axes[i]];
    return n;
}

static struct fe_val keep_dims(struct fe_site *s, struct fe_val v, struct ir_type t, const uint32_t *axes,
                               uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) t.dim[axes[i]] = 1;
    return v.bad ? v : fe_reshape_val(s, v, t.rank, t.dim);
}

/* The dtype a reduction works in: bool counts as int32, means are floats, 16-bit floats are summed in float32. */
static struct fe_val prepare(struct fe_site *s, enum fe_reduction kind, struct fe_val x)
{
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    if (kind == FE_RED_ANY || kind == FE_RED_ALL) return fe_boolean(s, x);
    if (kind == FE_RED_MEAN) x = fe_inexact(s, x);
    else if ((kind == FE_RED_SUM || kind == FE_RED_PROD) && !ir_dtype_is_float(d) && ir_dtype_bytes(d) < 4)
        x = fe_cast(s, x, d == IR_U8 || d == IR_U16 ? IR_U32 : IR_I32);
    if ((kind == FE_RED_SUM || kind == FE_RED_MEAN || kind == FE_RED_PROD) && (d == IR_BF16 || d == IR_F16))
        x = fe_cast(s, x, IR_F32);
    return x;
}

static double neutral(enum fe_reduction kind) { return kind == FE_RED_PROD || kind == FE_RED_ALL ? 1 : 0; }

static struct fe_val apply_initial(struct fe_site *s, enum fe_reduction kind, struct fe_val v,
                                   const struct fe_val *initial)
{
    static const enum ir_op ops[] = {OP_add, OP_add, OP_max, OP_min, OP_mul, OP_or, OP_and};
    if (!initial || fe_is_none(initial) || v.bad) return v;
    return fe_op2(s, ops[kind], v, fe_cast(s, *initial, (enum ir_dtype)fe_type_at(s, &v).dtype));
}

struct fe_val fe_reduce(struct fe_site *s, enum fe_reduction kind, struct fe_val x, const uint32_t *axes,
                        uint32_t count, const struct fe_reduce_options *o)
{
    static const enum ir_op ops[] = {OP_reduce_sum,  OP_reduce_sum, OP_reduce_max, OP_reduce_min,
                                     OP_reduce_prod, OP_reduce_max, OP_reduce_min};
    static const struct fe_reduce_options none = {0};
    if (!o) o = &none;
    if (!fe_as_tensor(s, &x)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    bool masked = o->where && !fe_is_none(o->where), extremum = kind == FE_RED_MAX || kind == FE_RED_MIN;
    bool initial = o->initial && !fe_is_none(o->initial);
    if (extremum && masked && !initial)
        return fe_fail(s, "E0312", "a maximum or minimum with \"where\" needs \"initial\"");
    if (extremum && !initial && extent(&t, axes, count) == 0)
        return fe_fail(s, "E0212", "an empty tensor has no maximum or minimum");
    struct fe_val v = prepare(s, kind, x);
    if (masked) {
        struct fe_val fill = extremum                                   ? *o->initial
                             : kind == FE_RED_ANY || kind == FE_RED_ALL ? fe_cast(s, fe_int(neutral(kind)), IR_BOOL)
                                                                        : fe_int(neutral(kind));
        v = fe_where3(s, *o->where, v, fill);
        if (v.bad) return v;
        t = fe_type_at(s, &v);
    }
    if (v.bad) return v;
    int64_t dims[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t.rank; i++) /* ascending */
        for (uint32_t j = 0; j < count; j++)
            if (axes[j] == i) dims[n++] = i;
    struct fe_val r = fe_tensor_val(n ? ir_reduce(s->b, ops[kind], v.tensor, dims, n) : v.tensor,
                                    x.weak && kind != FE_RED_ANY && kind != FE_RED_ALL);
    if (kind == FE_RED_MEAN && masked) {
        struct fe_val mask = fe_broadcast_val(s, fe_boolean(s, *o->where), t.rank, t.dim);
        r = fe_div(
            s, r,
            fe_reduce(s, FE_RED_SUM, fe_cast(s, mask, (enum ir_dtype)fe_type_at(s, &v).dtype), axes, count, NULL));
    } else if (kind == FE_RED_MEAN) r = fe_div(s, r, fe_float((double)extent(&t, axes, count)));
    r = apply_initial(s, kind, r, o->initial);
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    if (!r.bad && (d == IR_BF16 || d == IR_F16) && !extremum && kind != FE_RED_ANY && kind != FE_RED_ALL)
        r = fe_cast(s, r, d);
    return o->keepdims ? keep_dims(s, r, t, axes, count) : r;
}

struct fe_val fe_reduce_last(struct fe_site *s, enum fe_reduction kind, struct fe_val x, bool keepdims)
{
    if (!fe_as_tensor(s, &x)) return fe_bad();
    uint32_t rank = fe_rank(s, &x), axis = rank - 1;
    if (!rank) return fe_fail(s, "E0212", "a scalar has no last axis");
    return fe_reduce(s, kind, x, &axis, 1, &(struct fe_reduce_options){.keepdims = keepdims});
}

struct fe_val fe_reduce_all(struct fe_site *s, enum fe_reduction kind, struct fe_val x)
{
    uint32_t axes[IR_MAX_RANK];
    if (!fe_as_tensor(s, &x)) return fe_bad();
    for (uint32_t i = 0; i < IR_MAX_RANK; i++) axes[i] = i;
    return fe_reduce(s, kind, x, axes, fe_rank(s, &x), NULL);
}

struct fe_val make_reduction(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    enum ir_dtype d;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_axes(c, 1, fe_rank(s, &ARG(0)), axes, &n)) return fe_bad();
    if (!fe_is_none(&ARG(2))) {
        if (!fe_get_dtype(c, 2, &d)) return fe_bad();
        ARG(0) = fe_cast(s, ARG(0), d);
    }
    struct fe_reduce_options o = {fe_truth(&ARG(3)), &ARG(5), &ARG(4)};
    return fe_reduce(s, (enum fe_reduction)c->data, ARG(0), axes, n, &o);
}

struct fe_val make_nansum(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    struct fe_val x = fe_inexact(s, ARG(0));
    if (x.bad || !fe_get_axes(c, 1, fe_rank(s, &x), axes, &n)) return fe_bad();
    x = fe_where3(s, fe_binary(s, EXPR_OP_NE, x, x), fe_float(0), x);
    return fe_reduce(s, FE_RED_SUM, x, axes, n, &(struct fe_reduce_options){.keepdims = fe_truth(&ARG(2))});
}

struct fe_val make_count_nonzero(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_axes(c, 1, fe_rank(s, &ARG(0)), axes, &n)) return fe_bad();
    return fe_reduce(s, FE_RED_SUM, fe_boolean(s, ARG(0)), axes, n,
                     &(struct fe_reduce_options){.keepdims = fe_truth(&ARG(2))});
}

struct fe_val make_ptp(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_axes(c, 1, fe_rank(s, &ARG(0)), axes, &n)) return fe_bad();
    struct fe_reduce_options o = {.keepdims = fe_truth(&ARG(2))};
    return fe_sub(s, fe_reduce(s, FE_RED_MAX, ARG(0), axes, n, &o), fe_reduce(s, FE_RED_MIN, ARG(0), axes, n, &o));
}

struct fe_val make_average(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    struct fe_val x = fe_inexact(s, ARG(0));
    if (x.bad || !fe_get_axes(c, 1, fe_rank(s, &x), axes, &n)) return fe_bad();
    struct fe_reduce_options o = {.keepdims = fe_truth(&ARG(3))};
    if (fe_is_none(&ARG(2))) return fe_reduce(s, FE_RED_MEAN, x, axes, n, &o);
    struct ir_type t = fe_type_at(s, &x);
    struct fe_val w = ARG(2);
    if (!fe_as_tensor(s, &w)) return fe_bad();
    if (fe_rank(s, &w) == 1 && t.rank > 1 && n == 1) { /* one weight per index of the axis */
        int64_t shape[IR_MAX_RANK];
        for (uint32_t i = 0; i < t.rank; i++) shape[i] = i == axes[0] ? fe_type_at(s, &w).dim[0] : 1;
        w = fe_reshape_val(s, w, t.rank, shape);
    }
    w = fe_broadcast_val(s, w, t.rank, t.dim);
    return fe_div(s, fe_reduce(s, FE_RED_SUM, fe_mul(s, x, w), axes, n, &o), fe_reduce(s, FE_RED_SUM, w, axes, n, &o));
}

struct fe_val make_var(struct fe_call *c)
{ /* data 1: its square root */
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    struct fe_val x = fe_inexact(s, ARG(0));
    if (x.bad || !fe_get_axes(c, 1, fe_rank(s, &x), axes, &n)) return fe_bad();
    if (ARG(2).kind != FE_VAL_NUMBER) return fe_fail(s, "E0310", "ddof must be a number");
    struct ir_type t = fe_type_at(s, &x);
    struct fe_reduce_options keep = {.keepdims = true, .where = &ARG(4)},
                             o = {.keepdims = fe_truth(&ARG(3)), .where = &ARG(4)};
    struct fe_val centred = fe_sub(s, x, fe_reduce(s, FE_RED_MEAN, x, axes, n, &keep));
    struct fe_val sum = fe_reduce(s, FE_RED_SUM, fe_mul(s, centred, centred), axes, n, &o);
    struct fe_val count = fe_float((double)extent(&t, axes, n));
    if (!fe_is_none(&ARG(4))) {
        struct fe_val mask = fe_broadcast_val(s, fe_boolean(s, ARG(4)), t.rank, t.dim);
        count = fe_reduce(s, FE_RED_SUM, fe_cast(s, mask, (enum ir_dtype)t.dtype), axes, n,
                          &(struct fe_reduce_options){.keepdims = o.keepdims});
    }
    struct fe_val divisor = fe_sub(s, count, ARG(2)), v = fe_div(s, sum, divisor);
    if (divisor.kind != FE_VAL_NUMBER || divisor.number <= 0)
        v = fe_where3(s, fe_binary(s, EXPR_OP_GT, divisor, fe_float(0)), v, fe_float((double)NAN));
    return c->data ? fe_op1(s, OP_sqrt, v) : v;
}

struct fe_val make_argreduce(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0;
    int64_t given;
    if (!fe_as_tensor(s, &ARG(0))) return fe_bad();
    struct ir_type t = fe_type_at(s, &ARG(0));
    struct fe_val x = ARG(0);
    if (fe_is_none(&ARG(1))) x = fe_reshape_val(s, x, 1, (int64_t[]){ir_type_elements(&t)});
    else if (!fe_get_int(c, 1, &given) || !fe_get_axis(s, given, t.rank, &axis)) return fe_bad();
    struct fe_val v = fe_val_tensor(ir_argreduce(s->b, (enum ir_op)c->data, x.tensor, axis));
    if (!fe_truth(&ARG(2)) || v.bad) return v;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i == axis || fe_is_none(&ARG(1))) t.dim[i] = 1;
    return fe_reshape_val(s, v, t.rank, t.dim);
}

/* k rounds of: the first largest one, then without it. The values are sums over the masks, so they have a gradient. */
struct fe_val make_top_k(struct fe_call *c)
{
    SITE;
    int64_t k;
    struct fe_val x = ARG(0), left, values[64], indices[64];
    if (!fe_as_tensor(s, &x) || !fe_get_int(c, 1, &k)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    if (!t.rank || k < 1 || k > t.dim[t.rank - 1])
        return fe_fail(s, "E0212", "top_k: %lld of the last axis of %s", (long long)k, fe_describe(s, &x));
    if (k > 64) return fe_fail(s, "E0302", "top_k of more than 64 is not supported yet");
    uint32_t last = t.rank - 1u;
    left = fe_stop(s, x);
    struct fe_val taken = {0};
    for (int64_t i = 0; i < k && !left.bad; i++) {
        struct fe_val index = fe_val_tensor(ir_argreduce(s->b, OP_argmax, left.tensor, last));
        if (i) { /* all that are left are the least value: the first of them that is not taken yet */
            struct fe_val free = fe_op1(s, OP_not, taken), again = fe_one_hot_mask(s, index, t.dim[last], last);
            struct fe_val twice = fe_reduce_last(s, FE_RED_ANY, fe_op2(s, OP_and, again, taken), false);
            struct fe_val counted = fe_cast(s, free, IR_I32);
            if (twice.bad || counted.bad) return fe_bad();
            index = fe_where3(s, twice, fe_val_tensor(ir_argreduce(s->b, OP_argmax, counted.tensor, last)), index);
        }
        struct fe_val hit = fe_one_hot_mask(s, index, t.dim[last], last);
        struct fe_val value = fe_reduce_last(s, FE_RED_SUM, fe_where3(s, hit, x, fe_int(0)), false);
        struct fe_val least = ir_dtype_is_float((enum ir_dtype)t.dtype) ? fe_float(-INFINITY) : fe_int(-2147483648.0);
        left = fe_where3(s, hit, least, left);
        taken = i ? fe_op2(s, OP_or, taken, hit) : hit;
        values[i] = fe_expand(s, value, last);
        indices[i] = fe_expand(s, index, last);
    }
    struct fe_val axis = fe_int(-1), parts[2];
    struct fe_val list = fe_tuple(s, values, (uint32_t)k), list_of_indices = fe_tuple(s, indices, (uint32_t)k);
    if (left.bad || list.bad || list_of_indices.bad) return fe_bad();
    parts[0] = FE_APPLY(s, "concatenate", list, axis);
    parts[1] = FE_APPLY(s, "concatenate", list_of_indices, axis);
    return fe_tuple(s, parts, 2);
}

/* Order 1: the largest sum of a column, -1 the smallest; infinite: of a row. axes: the rows', the columns'. */
static struct fe_val matrix_norm(struct fe_site *s, struct fe_val x, const uint32_t *axes, double order, bool keepdims)
{
    struct fe_reduce_options keep = {.keepdims = true};
    uint32_t inner = isinf(order) ? 1 : 0;
    struct fe_val sums = fe_reduce(s, FE_RED_SUM, fe_op1(s, OP_abs, x), &axes[inner], 1, &keep);
    return fe_reduce(s, order > 0 ? FE_RED_MAX : FE_RED_MIN, sums, axes, 2, &(struct fe_reduce_options){.keepdims = keepdims});
}

struct fe_val make_norm(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    struct fe_val x = fe_inexact(s, ARG(0));
    if (x.bad || !fe_get_axes(c, 2, fe_rank(s, &x), axes, &n)) return fe_bad();
    struct fe_reduce_options o = {.keepdims = fe_truth(&ARG(3))};
    bool vector = n == 1;
    if (fe_is_none(&ARG(1)) || (vector && ARG(1).kind == FE_VAL_NUMBER && ARG(1).number == 2) ||
        (ARG(1).kind == FE_VAL_STRING && !strcmp(ARG(1).string, "fro")))
        return fe_op1(s, OP_sqrt, fe_reduce(s, FE_RED_SUM, fe_mul(s, x, x), axes, n, &o));
    double degree = ARG(1).kind == FE_VAL_NUMBER ? fabs(ARG(1).number) : 0;
    if (n == 2 && (degree == 1 || isinf(degree))) return matrix_norm(s, x, axes, ARG(1).number, o.keepdims);
    if (!vector || ARG(1).kind != FE_VAL_NUMBER)
        return fe_fail(s, "E0302", "this order of a matrix norm is not supported yet");
    struct fe_val a = fe_op1(s, OP_abs, x);
    if (ARG(1).number == INFINITY) return fe_reduce(s, FE_RED_MAX, a, axes, n, &o);
    if (ARG(1).number == -INFINITY) return fe_reduce(s, FE_RED_MIN, a, axes, n, &o);
    if (ARG(1).number == 1) return fe_reduce(s, FE_RED_SUM, a, axes, n, &o);
    if (ARG(1).number == 0) return fe_reduce(s, FE_RED_SUM, fe_cast(s, fe_boolean(s, x), (enum ir_dtype)fe_type_at(s, &x).dtype), axes, n, &o);
    return fe_binary(s, EXPR_OP_POW, fe_reduce(s, FE_RED_SUM, fe_binary(s, EXPR_OP_POW, a, ARG(1)), axes, n, &o),
                     fe_float(1 / ARG(1).number));
}

struct fe_val make_global_norm(struct fe_call *c)
{ /* over all leaves, in float32 at least */
    SITE;
    struct fe_val sum = fe_float(0);
    uint32_t n = ARG(0).kind == FE_VAL_TREE ? ARG(0).tree->count : ARG(0).kind == FE_VAL_TUPLE ? ARG(0).count : 1;
    for (uint32_t i = 0; i < n; i++) {
        struct fe_val x = ARG(0).kind == FE_VAL_TREE    ? fe_val_tensor(ARG(0).tree->values[i])
                          : ARG(0).kind == FE_VAL_TUPLE ? ARG(0).items[i]
                                                        : ARG(0);
        x = fe_inexact(s, x);
        struct fe_val square = fe_reduce_all(s, FE_RED_SUM, fe_mul(s, x, x));
        sum = i ? fe_add(s, sum, square) : square;
    }
    return fe_op1_float(s, OP_sqrt, sum);
}

/* ---------------------------------------------------------------- running sums, differences */

static struct fe_val combine(struct fe_site *s, int kind, struct fe_val a, struct fe_val b)
{
    switch (kind) {
    case 0: return fe_add(s, a, b);
    case 1: return fe_mul(s, a, b);
    case 2: return fe_op2(s, OP_max, a, b);
    case 3: return fe_op2(s, OP_min, a, b);
    default: return FE_APPLY(s, "logaddexp", a, b);
    }
}

/* Doubling: after the step of width k every element holds the result over the last 2k ones. */
struct fe_val make_scan(struct fe_call *c)
{
    SITE;
    uint32_t axis = 0;
    int64_t given;
    struct fe_val x = ARG(0);
    if (!fe_as_tensor(s, &x)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    if (t.dtype == IR_BOOL) x = fe_cast(s, x, IR_I32);
    if (c->data == 4) x = fe_inexact(s, x);
    if (fe_is_none(&ARG(1))) {
        if (c->data < 2) x = fe_reshape_val(s, x, 1, (int64_t[]){ir_type_elements(&t)});
    } else if (!fe_get_int(c, 1, &given) || !fe_get_axis(s, given, t.rank, &axis)) return fe_bad();
    if (x.bad || !fe_rank(s, &x)) return x;
    int64_t n = fe_type_at(s, &x).dim[axis];
    bool reverse = fe_truth(&ARG(2));
    for (int64_t k = 1; k < n && !x.bad; k *= 2) {
        struct fe_val head = fe_slice_axis(s, x, axis, 0, reverse ? n - k : k),
                      tail = fe_slice_axis(s, x, axis, reverse ? n - k : k, n);
        struct fe_val moved = combine(s, c->data, reverse ? head : tail,
                                      fe_slice_axis(s, x, axis, reverse ? k : 0, reverse ? n : n - k));
        struct fe_val parts[] = {reverse ? moved : head, reverse ? tail : moved};
        if (parts[0].bad || parts[1].bad) return fe_bad();
        ir_value both[] = {parts[0].tensor, parts[1].tensor};
        x = fe_tensor_val(ir_concat(s->b, both, 2, axis), x.weak);
    }
    return x;
}

struct fe_val make_diff(struct fe_call *c)
{
    SITE;
    int64_t n, given;
    uint32_t axis;
    struct fe_val x = ARG(0);
    if (!fe_as_tensor(s, &x) || !fe_get_int(c, 1, &n) || !fe_get_int(c, 2, &given) ||
        !fe_get_axis(s, given, fe_rank(s, &x), &axis))
        return fe_bad();
    for (int64_t i = 0; i < n && !x.bad; i++) {
        int64_t extent_now = fe_type_at(s, &x).dim[axis];
        if (extent_now < 1) return fe_fail(s, "E0212", "diff of an axis without elements");
        enum expr_operator op = fe_type_at(s, &x).dtype == IR_BOOL ? EXPR_OP_NE : EXPR_OP_SUB;
        x = fe_binary(s, op, fe_slice_axis(s, x, axis, 1, extent_now), fe_slice_axis(s, x, axis, 0, extent_now - 1));
    }
    return x;
}

struct fe_val make_ediff1d(struct fe_call *c)
{
    SITE;
    struct fe_val x = FE_APPLY(s, "ravel", ARG(0));
    if (x.bad) return x;
    int64_t n = fe_type_at(s, &x).dim[0];
    return n < 2 ? fe_slice_axis(s, x, 0, 0, 0) : fe_sub(s, fe_slice_axis(s, x, 0, 1, n), fe_slice_axis(s, x, 0, 0, n - 1));
}
