/* Reductions and running sums of expressions. Sums of 16-bit floats run in float32, as in JAX. */
#include "frontend/expr/makers.h"

struct fe_val make_reduction(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!fe_as_tensor(s, &ARG(0)) || !fe_get_axes(c, 1, fe_rank(s, &ARG(0)), axes, &n)) return fe_bad();
    if (ARG(0).bad || (ARG(0) = fe_as_dtype(c, 2, ARG(0))).bad) return fe_bad();
    struct fe_reduce_options o = {fe_get_flag(c, 3), &ARG(5), &ARG(4)};
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &ARG(0)).dtype;
    struct fe_val v = fe_reduce(s, (enum fe_reduction)c->data, ARG(0), axes, n, &o);
    return fe_is_none(&ARG(2)) || v.bad ? v : fe_cast(s, v, d); /* what is asked for is the dtype of the result, too */
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
    if (!fe_get_flag(c, 2) || v.bad) return v;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i == axis || fe_is_none(&ARG(1))) t.dim[i] = 1;
    return fe_reshape_val(s, v, t.rank, t.dim);
}

/* ---------------------------------------------------------------- running sums, differences */

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
    bool reverse = fe_get_flag(c, c->data < 2 ? 3 : 2);
    return fe_val_tensor(ir_cumulate(s->b, (enum ir_cumulate)c->data, &x.tensor, axis, reverse)); /* never weak */
}
