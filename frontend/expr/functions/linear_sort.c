/* sort, argsort, top_k as jax.numpy; quantiles stand in library/reduce.step. There is no sorting op: indices are found
 * by counting or by a sorting network, and what they take has the gradient of a gather. NaN comes last, equal elements
 * keep their order. */
#include "frontend/expr/makers.h"
#include <math.h>

static struct fe_val word(const char *text) { return (struct fe_val){.kind = FE_VAL_STRING, .string = text}; }

static struct fe_val swap_last(struct fe_site *s, struct fe_val x, uint32_t axis)
{
    return axis + 1 == fe_rank(s, &x) ? x : FE_APPLY(s, "swapaxes", x, fe_int(axis), fe_int(-1));
}

/* int32 keys in the order of the elements: floats by their bits, with one zero and NaN last. */
static struct fe_val keys_of(struct fe_site *s, struct fe_val x, bool descending)
{
    enum ir_dtype d = (enum ir_dtype)fe_type_at(s, &x).dtype;
    struct fe_val key;
    if (ir_dtype_is_float(d)) {
        struct fe_val v = fe_cast(s, x, IR_F32), nan = FE_APPLY(s, "isnan", v);
        v = fe_where3(s, fe_binary(s, EXPR_OP_EQ, v, fe_float(0)), fe_float(0), v);
        struct fe_val bits = v.bad ? v : fe_val_tensor(ir_bitcast(s->b, v.tensor, IR_I32));
        struct fe_val negative = fe_op2(s, OP_and, fe_op2(s, OP_shr, bits, fe_int(31)), fe_int(2147483647));
        key = fe_where3(s, nan, fe_int(2147483647), fe_op2(s, OP_xor, bits, negative));
    } else if (d == IR_U32)
        key = fe_op2(s, OP_xor, fe_val_tensor(ir_bitcast(s->b, x.tensor, IR_I32)), fe_int(-2147483648.0));
    else key = fe_cast(s, x, IR_I32);
    return descending ? fe_op1(s, OP_not, key) : key;
}

/* Rows of a few elements: the place of each is the number of those that come before it, and the index of every place is
 * found by comparing places; n * n comparisons, none of which is kept. */
static struct fe_val by_counting(struct fe_site *s, struct fe_val key)
{
    struct ir_type t = fe_type_at(s, &key), pairs = t; /* [rows, n] */
    uint32_t last = 1, before_last = 2;
    pairs.rank = 3, pairs.dim[2] = t.dim[1];
    /* [row, i, j]: element j stands before element i */
    struct fe_val i = fe_expand(s, key, 2), j = fe_expand(s, key, 1), row = fe_iota(s, pairs, 1),
                  column = fe_iota(s, pairs, 2);
    struct fe_val earlier = fe_op2(s, OP_and, fe_binary(s, EXPR_OP_EQ, j, i), fe_binary(s, EXPR_OP_LT, column, row));
    struct fe_val before = fe_cast(s, fe_op2(s, OP_or, fe_binary(s, EXPR_OP_LT, j, i), earlier), IR_I32);
    struct fe_val place = fe_reduce(s, FE_RED_SUM, before, &before_last, 1, NULL);
    /* [row, i, k]: element i has place k */
    struct fe_val hit = place.bad ? place : fe_binary(s, EXPR_OP_EQ, fe_expand(s, place, 2), column);
    return hit.bad ? hit : fe_reduce(s, FE_RED_SUM, fe_where3(s, hit, row, fe_int(0)), &last, 1, NULL);
}

static struct ir_func *loop_body(struct fe_site *s, const char *name)
{
    const char *unique = name;
    for (int i = 1; ir_func_find(s->fe->module, unique); i++) unique = arena_format(s->fe->arena, "%s_%d", name, i);
    return ir_func_new(s->fe->module, unique, false);
}

/* Longer rows: Batcher's bitonic network, a loop over its stages. In a stage every element meets the one whose index
 * differs in the bits of `meets`; keys and indices together are never equal, so that equal keys keep their order. The
 * first stage of a block compares it with its own mirror image, so that all blocks are sorted upwards. */
static struct fe_val by_network(struct fe_site *s, struct fe_val key)
{
    struct ir_type t = fe_type_at(s, &key);
    int64_t n = t.dim[1], wide = 1, one = 1, zero[2] = {0}, stages = 0;
    while (wide < n) wide *= 2;
    int32_t *meets = arena_new_array(s->fe->arena, int32_t, 64 * 64);
    for (int64_t block = 2; block <= wide; block *= 2)
        for (int64_t step = block / 2; step > 0; step /= 2)
            meets[stages++] = (int32_t)(step == block / 2 ? block - 1 : step);
    struct ir_builder body = {.f = loop_body(s, "sort"), .place = s->b->place}, *b = &body;
    t.dim[1] = wide;
    ir_value stage = ir_param_new(b, "i", ir_type_scalar(IR_I32), -1), keys = ir_param_new(b, "keys", t, -1),
             order = ir_param_new(b, "order", t, -1);
    ir_value table = ir_param_new(b, "meets", ir_type_of(IR_I32, 1, &stages), -1),
             place = ir_iota(b, ir_type_of(IR_I32, 1, &wide), 0);
    ir_value bits = ir_broadcast(b, ir_reshape(b, ir_dynamic_slice(b, table, &stage, &one), 0, NULL), 1, &wide, NULL);
    ir_value other = ir_binary(b, OP_xor, place, bits),
             rows[2] = {ir_take(b, keys, other, 1), ir_take(b, order, other, 1)};
    ir_value tie = ir_binary(b, OP_and, ir_binary(b, OP_eq, rows[0], keys), ir_binary(b, OP_lt, rows[1], order));
    ir_value less = ir_binary(b, OP_or, ir_binary(b, OP_lt, rows[0], keys), tie);
    ir_value lower = ir_broadcast(b, ir_binary(b, OP_lt, place, other), 2, t.dim, (const int64_t[]){1});
    ir_value swap = ir_binary(b, OP_eq, less, lower);
    ir_result_add(b, "keys", ir_select(b, swap, rows[0], keys), -1);
    ir_result_add(b, "order", ir_select(b, swap, rows[1], order), -1);
    const int64_t more[2] = {0, wide - n}, limit[2] = {t.dim[0], n}, ones[2] = {1, 1};
    ir_value carried[2] = {ir_pad(s->b, key.tensor, ir_scalar(s->b, IR_I32, 2147483647), zero, more, zero),
                           ir_iota(s->b, t, 1)};
    ir_value captured = ir_constant(s->b, ir_type_of(IR_I32, 1, &stages), meets);
    ir_value sorted = ir_loop(s->b, body.f, ir_scalar(s->b, IR_I32, (double)stages), carried, 2, false, &captured, 1);
    return fe_val_tensor(ir_slice(s->b, ir_proj(s->b, sorted, 1), zero, limit, ones));
}

/* Indices that sort the last axis, of which there is one. */
static struct fe_val order(struct fe_site *s, struct fe_val x, bool descending)
{
    enum { FEW = 128 };
    struct ir_type t = fe_type_at(s, &x);
    int64_t n = t.dim[t.rank - 1], total = ir_type_elements(&t);
    t.dtype = IR_I32;
    if (total == 0 || n == 1) return fe_full(s, t, 0);
    struct fe_val key = fe_reshape_val(s, keys_of(s, fe_stop(s, x), descending), 2, (int64_t[]){total / n, n});
    struct fe_val index = key.bad ? key : n <= FEW ? by_counting(s, key) : by_network(s, key);
    return index.bad ? index : fe_reshape_val(s, index, t.rank, t.dim);
}

static struct fe_val sorted(struct fe_site *s, struct fe_val x)
{
    struct fe_val index = order(s, x, false);
    return index.bad ? index : FE_APPLY(s, "take_along_axis", x, index, fe_int(-1), word("clip"));
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
    x = swap_last(s, x, axis);
    if (x.bad) return x;
    bool descending = fe_get_flag(c, 2);
    struct fe_val y = c->data ? order(s, x, descending) : sorted(s, x);
    if (!c->data && descending && !y.bad) y = FE_APPLY(s, "flip", y, fe_int(-1)); /* the gradients of equal ones, too */
    return y.bad ? y : swap_last(s, y, axis);
}

/* ---------------------------------------------------------------- the largest, several keys */

static struct fe_val least_of(enum ir_dtype dtype)
{
    if (ir_dtype_is_float(dtype)) return fe_float(-(double)INFINITY);
    bool unsigned_type = dtype == IR_U8 || dtype == IR_U16 || dtype == IR_U32;
    return fe_int(unsigned_type ? 0 : -ldexp(1, 8 * (int)ir_dtype_bytes(dtype) - 1));
}

/* k rounds of: the first largest one, then without it. The values are sums over the masks, so they have a gradient. */
static struct fe_val rounds(struct fe_site *s, struct fe_val x, int64_t k)
{
    struct ir_type t = fe_type_at(s, &x);
    struct fe_val left = fe_stop(s, x), taken = {0}, values[8], indices[8], axis = fe_int(-1);
    uint32_t last = t.rank - 1u;
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
        struct fe_val least = least_of((enum ir_dtype)t.dtype);
        left = fe_where3(s, hit, least, left);
        taken = i ? fe_op2(s, OP_or, taken, hit) : hit;
        values[i] = fe_expand(s, value, last);
        indices[i] = fe_expand(s, index, last);
        if (values[i].bad || indices[i].bad) return fe_bad();
    }
    struct fe_val parts[] = {FE_APPLY(s, "concatenate", fe_tuple(s, values, (uint32_t)k), axis),
                             FE_APPLY(s, "concatenate", fe_tuple(s, indices, (uint32_t)k), axis)};
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
    parts[1] = order(s, x, true);
    parts[1] = parts[1].bad ? parts[1] : fe_slice_axis(s, parts[1], t.rank - 1u, 0, k);
    parts[0] = parts[1].bad ? parts[1] : FE_APPLY(s, "take_along_axis", x, parts[1], fe_int(-1), word("clip"));
    return fe_tuple(s, parts, 2);
}
