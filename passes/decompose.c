/* Ops without a kernel of their own become a few element-wise ones that have: the code generator then needs the
 * elementary functions alone. */
#include "passes/decompose.h"
#include <math.h>

static ir_value is_finite(struct ir_builder *b, ir_value x)
{
    const struct ir_type type = *ir_type(b->f, x);
    if (!ir_dtype_is_float((enum ir_dtype)type.dtype)) {
        struct ir_type mask = type;
        mask.dtype = IR_BOOL;
        return ir_number(b, mask, 1);
    }
    return ir_binary(b, OP_lt, ir_unary(b, OP_abs, x), ir_number_like(b, x, INFINITY)); /* false for NaN */
}

/* |x|**(1/3), one step of Newton's method for the digits that pow loses, and the sign again. 0, infinities and NaN are
 * their own cube roots. */
static ir_value cbrt_of(struct ir_builder *b, ir_value x)
{
    ir_value magnitude = ir_unary(b, OP_abs, x), start = ir_binary(b, OP_pow, magnitude, ir_number_like(b, x, 1.0 / 3));
    ir_value square = ir_binary(b, OP_mul, start, start);
    ir_value error = ir_binary(b, OP_sub, start, ir_binary(b, OP_div, magnitude, square));
    ir_value root = ir_binary(b, OP_sub, start, ir_binary(b, OP_div, error, ir_number_like(b, x, 3)));
    ir_value is_plain = ir_binary(b, OP_and, is_finite(b, x), ir_binary(b, OP_ne, x, ir_number_like(b, x, 0)));
    return ir_select(b, is_plain, ir_binary(b, OP_mul, root, ir_unary(b, OP_sign, x)), x);
}

/* Giles, Approximating the erfinv function (2011), the single-precision polynomials, as in XLA. */
static ir_value erf_inv(struct ir_builder *b, ir_value x)
{
    static const double near[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                  -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    static const double far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                 -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    ir_value w = ir_unary(b, OP_neg, ir_unary(b, OP_log1p, ir_unary(b, OP_neg, ir_binary(b, OP_mul, x, x))));
    ir_value is_near = ir_binary(b, OP_lt, w, ir_number_like(b, x, 5));
    w = ir_select(b, is_near, ir_binary(b, OP_sub, w, ir_number_like(b, x, 2.5)),
                  ir_binary(b, OP_sub, ir_unary(b, OP_sqrt, w), ir_number_like(b, x, 3)));
    ir_value p = ir_select(b, is_near, ir_number_like(b, x, near[0]), ir_number_like(b, x, far[0]));
    for (int i = 1; i < 9; i++)
        p = ir_binary(b, OP_add, ir_select(b, is_near, ir_number_like(b, x, near[i]), ir_number_like(b, x, far[i])),
                      ir_binary(b, OP_mul, p, w));
    ir_value is_end = ir_binary(b, OP_eq, ir_unary(b, OP_abs, x), ir_number_like(b, x, 1));
    return ir_select(b, is_end, ir_binary(b, OP_mul, x, ir_number_like(b, x, INFINITY)), ir_binary(b, OP_mul, p, x));
}

/* The first index whose element is the extremum; NaN is one, and the first NaN wins. */
static ir_value arg_of_extremum(struct ir_builder *b, ir_value x, const struct ir_node *n)
{
    const struct ir_type type = *ir_type(b->f, x);
    int64_t dim = n->attr[0].v[0], kept[IR_MAX_RANK];
    struct ir_type index = type;
    index.dtype = IR_I32;
    for (uint32_t i = 0, k = 0; i < type.rank; i++)
        if (i != dim) kept[k++] = i;
    ir_value best = ir_reduce(b, n->op == OP_argmax ? OP_reduce_max : OP_reduce_min, x, &dim, 1);
    ir_value is_best = ir_binary(b, OP_eq, x, ir_broadcast(b, best, type.rank, type.dim, kept));
    if (ir_dtype_is_float((enum ir_dtype)type.dtype)) is_best = ir_binary(b, OP_or, is_best, ir_binary(b, OP_ne, x, x));
    ir_value place = ir_iota(b, index, (uint32_t)dim);
    return ir_reduce(b, OP_reduce_min, ir_select(b, is_best, place, ir_number_like(b, place, (double)type.dim[dim])),
                     &dim, 1);
}

/* Half precision is computed in float32. */
static ir_value widened(struct ir_builder *b, ir_value x, ir_value (*rule)(struct ir_builder *, ir_value))
{
    enum ir_dtype dtype = (enum ir_dtype)ir_type(b->f, x)->dtype;
    if (ir_dtype_bytes(dtype) >= 4) return rule(b, x);
    return ir_cast(b, rule(b, ir_cast(b, x, IR_F32)), dtype);
}

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    return !(ir_ops[n->op].stages & IR_STAGE_KERNEL) || ir_ops[n->op].emit == EMIT_lines;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    const struct ir_node *n = ir_get(from, old);
    struct pass *p = user;
    switch (n->op) {
    case OP_cumulate:
    case OP_order: return decompose_lines(p, b, n, map);
    case OP_is_finite: return is_finite(b, map[n->args[0]]);
    case OP_cbrt: return widened(b, map[n->args[0]], cbrt_of);
    case OP_argmax:
    case OP_argmin: return arg_of_extremum(b, map[n->args[0]], n);
    case OP_erf_inv: return widened(b, map[n->args[0]], erf_inv);
    default: return pass_remake(p, b, n, map);
    }
}

struct ir_module *pass_decompose(struct pass *p, struct ir_module *m)
{
    struct ir_module *to = pass_keeps(p, m, rewrites) ? m : pass_rebuild(p, m, rewrite, p);
    to->stage = IR_AT_KERNEL;
    return to;
}
