/* Reductions and running sums of expressions. Sums of 16-bit floats run in float32, as in JAX. */
#include "frontend/expr/makers.h"
#include <math.h>
#include <string.h>

struct fe_val make_reduction(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_axes(c, 1, fe_rank(s, &ARG(0)), axes, &n)) return fe_bad();
    if (ARG(0).bad || (ARG(0) = fe_as_dtype(c, 2, ARG(0))).bad) return fe_bad();
    struct fe_reduce_options o = {fe_truth(&ARG(3)), &ARG(5), &ARG(4)};
    return fe_reduce(s, (enum fe_reduction)c->data, ARG(0), axes, n, &o);
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
    if (!fe_as_tensor(s, &x) || (x = c->data < 2 ? fe_as_dtype(c, 2, x) : x).bad) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    if (t.dtype == IR_BOOL) x = fe_cast(s, x, IR_I32);
    if (c->data == 4) x = fe_inexact(s, x);
    if (fe_is_none(&ARG(1))) {
        if (c->data < 2) x = fe_reshape_val(s, x, 1, (int64_t[]){ir_type_elements(&t)});
    } else if (!fe_get_int(c, 1, &given) || !fe_get_axis(s, given, t.rank, &axis)) return fe_bad();
    if (x.bad || !fe_rank(s, &x)) return x;
    int64_t n = fe_type_at(s, &x).dim[axis];
    bool reverse = fe_truth(&ARG(c->data < 2 ? 3 : 2));
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
    for (uint32_t i = 3; i < 5 && n && !x.bad; i++) { /* what stands before and behind */
        struct fe_val more = ARG(i);
        if (fe_is_none(&more)) continue;
        if (!fe_as_tensor(s, &more)) return fe_bad();
        struct ir_type t = fe_type_at(s, &x);
        t.dim[axis] = fe_rank(s, &more) ? fe_type_at(s, &more).dim[axis] : 1;
        if (!fe_rank(s, &more)) more = fe_broadcast_val(s, more, t.rank, t.dim);
        struct fe_val both[] = {i == 3 ? more : x, i == 3 ? x : more};
        x = more.bad ? more : FE_APPLY(s, "concatenate", fe_tuple(s, both, 2), fe_int(axis));
    }
    for (int64_t i = 0; i < n && !x.bad; i++) {
        int64_t extent_now = fe_type_at(s, &x).dim[axis];
        if (extent_now < 1) return fe_fail(s, "E0212", "diff of an axis without elements");
        enum expr_operator op = fe_type_at(s, &x).dtype == IR_BOOL ? EXPR_OP_NE : EXPR_OP_SUB;
        x = fe_binary(s, op, fe_slice_axis(s, x, axis, 1, extent_now), fe_slice_axis(s, x, axis, 0, extent_now - 1));
    }
    return x;
}
