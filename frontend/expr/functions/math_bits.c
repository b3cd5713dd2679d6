/* Functions of expressions that look at bits or divide integers as the ops do. */
#include "frontend/expr/makers.h"

/* The same bits as another dtype of this width. */
struct fe_val make_bitcast(struct fe_call *c)
{
    enum ir_dtype d;
    return fe_get_dtype(c, 1, &d) ? fe_val_tensor(ir_bitcast(c->site->b, ARG(0).tensor, d)) : fe_bad();
}

/* Integers towards zero, floats as / does (jax.lax.div). */
struct fe_val make_div(struct fe_call *c)
{
    SITE;
    if (ARG(0).bad || ARG(1).bad) return fe_bad();
    bool floats = ir_dtype_is_float(fe_promote(fe_kind(s, &ARG(0)), fe_kind(s, &ARG(1))).dtype);
    return floats ? fe_div(s, ARG(0), ARG(1)) : fe_op2(s, OP_div, ARG(0), ARG(1));
}
