/* sort, argsort, top_k as jax.numpy; quantiles stand in library/reduce.step. Indices are found by op
 * order, and what they take has the gradient of a gather. NaN comes last, equal elements
 * keep their order. */
#include "frontend/expr/makers.h"

static struct fe_val word(const char *text) { return (struct fe_val){.kind = FE_VAL_STRING, .string = text}; }

/* What zeros are to each other: jnp.sort has one, lax.top_k takes 0 for larger than -0. */
enum zeros { ONE_ZERO, TWO_ZEROS };

/* int32 keys in the order of the elements: floats by their bits, with NaN last. */
static struct fe_val keys_of(struct fe_site *s, struct fe_val x, enum zeros zeros)
{
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    struct fe_val key;
    if (ir_dtype_is_float(d)) {
        struct fe_val v = fe_cast(s, x, IR_F32), nan = FE_APPLY(s, "isnan", v);
        if (zeros == ONE_ZERO) v = fe_where3(s, fe_binary(s, EXPR_OP_EQ, v, fe_float(0)), fe_float(0), v);
        struct fe_val bits = v.bad ? v : fe_val_tensor(ir_bitcast(s->b, v.tensor, IR_I32));
        struct fe_val negative = fe_op2(s, OP_and, fe_op2(s, OP_shr, bits, fe_int(31)), fe_int(2147483647));
        key = fe_where3(s, nan, fe_int(2147483647), fe_op2(s, OP_xor, bits, negative));
    } else if (d == IR_U32)
        key = fe_op2(s, OP_xor, fe_val_tensor(ir_bitcast(s->b, x.tensor, IR_I32)), fe_int(-2147483648.0));
    else key = fe_cast(s, x, IR_I32);
    return key;
}

/* Indices that sort along an axis. */
static struct fe_val order(struct fe_site *s, struct fe_val x, uint32_t axis, bool descending, enum zeros zeros)
{
    struct ir_type t = fe_type_at(s, &x);
    t.dtype = IR_I32;
    if (ir_type_elements(&t) == 0 || t.dim[axis] == 1) return fe_full(s, t, 0);
    struct fe_val key = keys_of(s, fe_stop(s, x), zeros);
    if (descending) key = fe_op1(s, OP_not, key);
    return key.bad ? key : fe_val_tensor(ir_order(s->b, key.tensor, axis));
}

static struct fe_val sorted(struct fe_site *s, struct fe_val x, uint32_t axis)
{
    struct fe_val index = order(s, x, axis, false, ONE_ZERO);
    return index.bad ? index : FE_APPLY(s, "take_along_axis", x, index, fe_int(axis), word("clip"));
}

/* data 0: the values, 1: their indices */
struct fe_val make_sort(struct fe_call *c)
{
    SITE;
    struct fe_val x = ARG(0);
    int64_t given = -1;
    uint32_t axis;
    if (!fe_as_tensor(s, &x)) return fe_bad();
    if (fe_is_none(&ARG(1))) x = FE_APPLY(s, "ravel", x);
    else if (!fe_get_int(c, 1, &given)) return fe_bad();
    if (x.bad || !fe_get_axis(s, given, fe_rank(s, &x), &axis)) return fe_bad();
    bool descending = fe_get_flag(c, 3), stable = fe_get_flag(c, 2), turned = descending && !(c->data && stable);
    struct fe_val y = c->data ? order(s, x, axis, descending && !turned, ONE_ZERO) : sorted(s, x, axis);
    if (turned && !y.bad) y = FE_APPLY(s, "flip", y, fe_int(axis)); /* the gradients of equal ones, too */
    return y;
}

/* ---------------------------------------------------------------- the largest, several keys */

/* k rounds of: the first largest one, then without it. The values are sums over the masks, so they have a gradient. */
static struct fe_val rounds(struct fe_site *s, struct fe_val x, int64_t k)
{
    struct ir_type t = fe_type_at(s, &x);
    struct fe_val left = keys_of(s, fe_stop(s, x), TWO_ZEROS), taken = {0}, values[8], indices[8], axis = fe_int(-1);
    uint32_t last = t.rank - 1u;
    if (left.bad) return left;
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
        struct fe_val value = fe_cast(s, fe_reduce_last(s, FE_RED_SUM, fe_where3(s, hit, x, fe_int(0)), false),
                                      (enum ir_dtype)t.dtype);
        left = fe_where3(s, hit, fe_int(-2147483648.0), left);
        taken = i ? fe_op2(s, OP_or, taken, hit) : hit;
        values[i] = fe_expand(s, value, last);
        indices[i] = fe_expand(s, index, last);
        if (values[i].bad || indices[i].bad) return fe_bad();
    }
    struct fe_val parts[] = {FE_APPLY(s, "concatenate", fe_tuple(s, values, (uint32_t)k), axis),
                             FE_APPLY(s, "concatenate", fe_tuple(s, indices, (uint32_t)k), axis)};
    parts[0].weak = x.weak;
    return left.bad ? left : fe_tuple(s, parts, 2);
}

struct fe_val make_top_k(struct fe_call *c)
{
    SITE;
    int64_t k;
    struct fe_val x = ARG(0), parts[2];
    if (!fe_as_tensor(s, &x) || !fe_get_int(c, 1, &k)) return fe_bad();
    struct ir_type t = fe_type_at(s, &x);
    if (!t.rank || k < 0 || k > t.dim[t.rank - 1])
        return fe_fail(s, "E0212", "top_k: %lld of the last axis of %s", (long long)k, fe_describe(s, &x));
    if (k >= 1 && k <= 8 && t.dtype != IR_BOOL) return rounds(s, x, k);
    parts[1] = order(s, x, t.rank - 1u, true, TWO_ZEROS);
    parts[1] = parts[1].bad ? parts[1] : fe_slice_axis(s, parts[1], t.rank - 1u, 0, k);
    parts[0] = parts[1].bad ? parts[1] : FE_APPLY(s, "take_along_axis", x, parts[1], fe_int(-1), word("clip"));
    return fe_tuple(s, parts, 2);
}
