/* Gradients against central differences in double precision: for every op of ops.def that has a gradient a table of
 * cases, over shapes with extents of 0 and 1, broadcasts, ties, zeros. An op without a row fails by its name. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "passes/pass.h"
#include "tests/unit/suite.h"

enum { MOST_ARGS = 3, MOST_ELEMENTS = 64 };
static const struct {
    const char *name, *vjp;
    int8_t args;
} ops[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) \
    [OP_##name] = {#name, #vjp, args},
#include "ir/ops.def"
#undef X
};

typedef ir_value build(struct ir_builder *, enum ir_op, const ir_value *);
struct shape {
    int rank;
    int64_t dim[4];
};
#define S(...) \
    { \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ } \
    }
#define SCALAR \
    { \
        0, { 0 } \
    }

/* `low`, `high`: the elements are spread over this range; `given` replaces those of operand 0 and 1. */
struct test {
    enum ir_op op;
    build *make;
    double low, high;
    struct shape x, y, z;
    const double *given_x, *given_y;
    bool one_sided;
};

/* ---------------------------------------------------------------- builders */

static ir_value ewise(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    return ir_make(b, (struct ir_node){.op = (uint16_t)op, .arg_count = (uint32_t)ops[op].args, .args = a});
}

static ir_value half(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_cast(b, ir_cast(b, a[0], IR_F32), IR_F64);
}

static ir_value constraint(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    int64_t axes[2] = {0, 0};
    return ir_make(b, (struct ir_node){
                          .op = (uint16_t)op, .arg_count = 1, .args = a, .attr = {{axes, ir_type(b->f, a[0])->rank}}});
}

static ir_value power_constant(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    return ir_binary(b, op, a[0], ir_number_like(b, a[0], 2.5));
}

static ir_value choose(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_select(b, ir_binary(b, OP_lt, a[2], ir_number_like(b, a[2], 1)), a[0], a[1]);
}

/* where(x > 1, log(x - 1), x): the branch that was not taken may be anything. */
static ir_value choose_safe(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    ir_value one = ir_number_like(b, a[0], 1), is_safe = ir_binary(b, OP_lt, one, a[0]);
    ir_value safe = ir_select(b, is_safe, a[0], ir_number_like(b, a[0], 2));
    return ir_select(b, is_safe, ir_unary(b, OP_log, ir_binary(b, OP_sub, safe, one)), a[0]);
}

static ir_value repeat(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_broadcast(b, a[0], 3, (int64_t[]){2, 3, 4}, (int64_t[]){0, 2});
}

static ir_value repeat_scalar(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_broadcast(b, a[0], 2, (int64_t[]){2, 3}, NULL);
}

static ir_value reshaped(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_reshape(b, a[0], 3, (int64_t[]){3, 1, ir_type_elements(ir_type(b->f, a[0])) / 3});
}

static ir_value transposed(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_transpose(b, a[0], (int64_t[]){2, 0, 1});
}

static ir_value sliced(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_slice(b, a[0], (int64_t[]){1, 0}, (int64_t[]){6, 3}, (int64_t[]){2, 1});
}

static ir_value sliced_empty(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_slice(b, a[0], (int64_t[]){2, 0}, (int64_t[]){2, 3}, (int64_t[]){2, 1});
}

static ir_value padded(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_pad(b, a[0], a[1], (int64_t[]){1, 0}, (int64_t[]){0, 2}, (int64_t[]){0, 1});
}

static ir_value cropped(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_pad(b, a[0], a[1], (int64_t[]){-1, -2}, (int64_t[]){2, -1}, (int64_t[]){1, 0});
}

static ir_value extended(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    ir_value wrapped = ir_extend(b, a[0], (int64_t[]){1, 2}, (int64_t[]){2, -2}, IR_EXTEND_WRAP);
    ir_value mirrored = ir_extend(b, wrapped, (int64_t[]){2, 0}, (int64_t[]){1, 1}, IR_EXTEND_REFLECT);
    ir_value edges = ir_extend(b, mirrored, (int64_t[]){0, 1}, (int64_t[]){2, 1}, IR_EXTEND_EDGE);
    return ir_extend(b, edges, (int64_t[]){-2, -1}, (int64_t[]){0, -2}, IR_EXTEND_SYMMETRIC);
}

static ir_value joined(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_concat(b, a, 3, 1);
}

static ir_value reversed(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_reverse(b, a[0], (int64_t[]){1}, 1);
}

static ir_value integer(struct ir_builder *b, double x) { return ir_scalar(b, IR_I32, x); }

/* That number, which only running finds out: a start that is known makes a slice. */
static ir_value computed(struct ir_builder *b, const ir_value *a, double x)
{
    const int64_t all[] = {0, 1};
    ir_value sum = ir_reduce(b, OP_reduce_sum, a[0], all, 2);
    ir_value zero = ir_cast(b, ir_binary(b, OP_mul, sum, ir_scalar(b, IR_F64, 0)), IR_I32);
    return ir_binary(b, OP_add, zero, integer(b, x));
}

static ir_value window(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_dynamic_slice(b, a[0], (ir_value[]){computed(b, a, 1), computed(b, a, 9)}, (int64_t[]){2, 2});
}

static ir_value updated(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_dynamic_update(b, a[0], a[1], (ir_value[]){computed(b, a, 1), computed(b, a, 9)});
}

static ir_value indices(struct ir_builder *b)
{
    static const int32_t v[2][3] = {{2, 0, 2}, {-1, 7, 1}};
    return ir_constant(b, ir_type_of(IR_I32, 2, (int64_t[]){2, 3}), v);
}

static ir_value taken(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_take(b, a[0], indices(b), 1);
}

static ir_value scattered(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_scatter_add(b, a[0], indices(b), a[1], 1);
}

#define CUMULATED(name, kind, reverse) \
    static ir_value cumulated_##name(struct ir_builder *b, enum ir_op op, const ir_value *a) \
    { \
        (void)op; \
        return ir_cumulate(b, IR_CUMULATE_##kind, a, 1, reverse); \
    }
CUMULATED(sum, SUM, false)
CUMULATED(prod, PROD, false)
CUMULATED(prod_back, PROD, true)
CUMULATED(max, MAX, false)
CUMULATED(min, MIN, true)
CUMULATED(log, LOGSUMEXP, false)
CUMULATED(linear, LINEAR, false)
CUMULATED(linear_back, LINEAR, true)

static ir_value reduced(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    return ir_reduce(b, op, a[0], (int64_t[]){1}, 1);
}

static ir_value reduced_all(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    return ir_reduce(b, op, a[0], (int64_t[]){0, 1}, 2);
}

#define LIST(...) ((struct ir_ints){(int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})
static const struct ir_ints nothing = {NULL, 0};

static ir_value dot_matrix(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_dot(b, a[0], a[1], nothing, nothing, LIST(1), LIST(0));
}

static ir_value dot_transposed(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_dot(b, a[0], a[1], nothing, nothing, LIST(0), LIST(1));
}

static ir_value dot_batch(struct ir_builder *b, enum ir_op op, const ir_value *a)
{ /* bqhd, bkhd -> bhqk */
    (void)op;
    return ir_dot(b, a[0], a[1], LIST(0, 2), LIST(0, 2), LIST(3), LIST(3));
}

static ir_value dot_two(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_dot(b, a[0], a[1], nothing, nothing, LIST(2, 0), LIST(0, 1));
}

static ir_value dot_outer(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return ir_dot(b, a[0], a[1], nothing, nothing, nothing, nothing);
}

static struct ir_func *callee(struct ir_module *m)
{
    struct ir_func *f = ir_func_new(m, "callee", false);
    struct ir_builder b = {.f = f};
    ir_value x = ir_param_new(&b, "x", ir_type_of(IR_F64, 1, (int64_t[]){3}), -1);
    ir_result_add(&b, "y", ir_unary(&b, OP_sin, x), -1);
    ir_result_add(&b, "z", ir_binary(&b, OP_mul, x, x), -1);
    return f;
}

static ir_value called(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    ir_value t = ir_call(b, callee(b->f->module), a, 1);
    return ir_binary(b, OP_mul, ir_proj(b, t, 0), ir_proj(b, t, 1));
}

/* ---------------------------------------------------------------- scans */

/* All results of a scan, one after the other. */
static ir_value scanned(struct ir_builder *b, struct ir_func *body, bool reverse, const ir_value *args,
                        const uint32_t *n)
{
    ir_value tuple = ir_scan(b, body, ir_type(b->f, args[n[0]])->dim[0], reverse, args, n[0], n[1], n[2]), parts[8];
    uint32_t count = ir_tuple_count(b->f, tuple), used = 0;
    for (uint32_t i = 0; i < count; i++) {
        ir_value y = ir_proj(b, tuple, i);
        int64_t elements = ir_type_elements(ir_type(b->f, y));
        if (ir_dtype_is_float((enum ir_dtype)ir_type(b->f, y)->dtype)) parts[used++] = ir_reshape(b, y, 1, &elements);
    }
    return ir_concat(b, parts, used, 0);
}

static ir_value like(struct ir_builder *b, const struct ir_builder *outer, ir_value x, bool row)
{
    struct ir_type t = *ir_type(outer->f, x);
    return ir_param_new(b, "p", row ? ir_type_of((enum ir_dtype)t.dtype, t.rank - 1u, t.dim + 1) : t, -1);
}

/* h = tanh(h @ w + x): the weights' gradient is one product behind the scan. */
static ir_value recurrent_way(struct ir_builder *b, const ir_value *a, bool reverse)
{
    struct ir_builder c = {.f = ir_func_new(b->f->module, "cell", false)};
    ir_value h = like(&c, b, a[0], false), x = like(&c, b, a[1], true), w = like(&c, b, a[2], false);
    ir_value y = ir_dot(&c, h, w, nothing, nothing, LIST(1), LIST(0)), next;
    next = ir_unary(&c, OP_tanh, ir_binary(&c, OP_add, x, y));
    ir_result_add(&c, "h", next, -1);
    ir_result_add(&c, "y", ir_binary(&c, OP_mul, next, h), -1);
    return scanned(b, c.f, reverse, a, (uint32_t[]){1, 1, 1});
}

static ir_value recurrent(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return recurrent_way(b, a, false);
}

static ir_value recurrent_back(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    return recurrent_way(b, a, true);
}

/* A gate of what all rows share: its gradient is summed up row by row. A number is carried, too, and what nothing
 * reads. */
static ir_value gated(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    struct ir_builder c = {.f = ir_func_new(b->f->module, "cell", false)};
    ir_value all[] = {a[0], ir_scalar(b, IR_I32, 1), a[0], a[1], a[2]}, h = like(&c, b, a[0], false);
    ir_value n = ir_param_new(&c, "n", ir_type_scalar(IR_I32), -1), idle = like(&c, b, a[0], false),
             x = like(&c, b, a[1], true), w = like(&c, b, a[2], false);
    ir_value gate = ir_unary(&c, OP_logistic, ir_binary(&c, OP_mul, x, w)), one = ir_number_like(&c, h, 1);
    const struct ir_type *t = ir_type(c.f, h);
    ir_value count = ir_broadcast_to(&c, ir_cast(&c, n, IR_F64), t->rank, t->dim);
    ir_value next = ir_binary(&c, OP_add, ir_binary(&c, OP_mul, gate, h),
                              ir_binary(&c, OP_mul, ir_binary(&c, OP_sub, one, gate), w));
    ir_result_add(&c, "h", next, -1);
    ir_result_add(&c, "n", ir_binary(&c, OP_add, n, ir_scalar(&c, IR_I32, 2)), -1);
    ir_result_add(&c, "idle", ir_unary(&c, OP_sin, idle), -1);
    ir_result_add(&c, "y", ir_binary(&c, OP_mul, ir_binary(&c, OP_mul, next, count), ir_binary(&c, OP_max, h, x)), -1);
    return scanned(b, c.f, false, all, (uint32_t[]){3, 1, 1});
}

/* Every row is itself walked over. */
static ir_value nested(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    (void)op;
    struct ir_builder c = {.f = ir_func_new(b->f->module, "inner", false)},
                      d = {.f = ir_func_new(b->f->module, "outer", false)};
    ir_value x = like(&d, b, a[0], false), rows = like(&d, b, a[1], true), w = like(&d, b, a[2], false);
    ir_value h = like(&c, &d, x, false), row = like(&c, &d, rows, true), v = like(&c, &d, w, false);
    h = ir_unary(&c, OP_sin, ir_binary(&c, OP_add, ir_binary(&c, OP_mul, h, v), row));
    ir_result_add(&c, "h", h, -1);
    ir_result_add(&c, "y", ir_binary(&c, OP_mul, h, h), -1);
    ir_value tuple = ir_scan(&d, c.f, ir_type(d.f, rows)->dim[0], true, (ir_value[]){x, rows, w}, 1, 1, 1);
    ir_value made = ir_reduce(&d, OP_reduce_sum, ir_proj(&d, tuple, 1), (int64_t[]){0}, 1);
    ir_result_add(&d, "h", ir_binary(&d, OP_add, ir_proj(&d, tuple, 0), ir_binary(&d, OP_mul, made, w)), -1);
    ir_result_add(&d, "y", made, -1);
    return scanned(b, d.f, false, a, (uint32_t[]){1, 1, 1});
}

static ir_value stood_for(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    return ir_binary(b, op, ir_unary(b, OP_sin, a[0]), ir_unary(b, OP_sin, a[0]));
}

/* sin(a), as the surrogate of itself with the slope cos(a). */
static ir_value known_slope(struct ir_builder *b, enum ir_op op, const ir_value *a)
{
    return ir_binary(b, OP_surrogate, ir_unary(b, OP_sin, a[0]), ir_binary(b, op, a[0], ir_unary(b, OP_cos, a[0])));
}

/* ---------------------------------------------------------------- cases */

static const double ties[] = {1, 3, 3, 2, 2, 2}, more_ties[] = {1, 2, 3, 4, 2, 1};
static const double no_zero[] = {1, 2, 3, -4, 2, 1}, one_zero[] = {1, 0, 3, -4, 2, 1},
                    two_zeros[] = {0, 0, 3, -4, 0, 1};

#define ANY(op, low, high) \
    {OP_##op, ewise, low, high, S(2, 3), S(2, 3), S(2, 3), 0, 0, 0}, \
        {OP_##op, ewise, low, high, SCALAR, SCALAR, SCALAR, 0, 0, 0}, \
    { \
        OP_##op, ewise, low, high, S(0, 3), S(0, 3), S(0, 3), 0, 0, 0 \
    }
/* clang-format off */
static const struct test tests[] = {
    ANY(neg, -2, 2), ANY(abs, -2, 2.1), ANY(exp, -2, 2), ANY(expm1, -2, 2), ANY(log, 0.1, 3), ANY(log1p, -0.5, 3), ANY(log2, 0.1, 3), ANY(sqrt, 0.1, 3),
    ANY(rsqrt, 0.2, 3), ANY(cbrt, 0.2, 3), ANY(tanh, -3, 3), ANY(logistic, -4, 4), ANY(sin, -3, 3), ANY(cos, -3, 3), ANY(erf, -2, 2),
    ANY(erf_inv, -0.95, 0.95), ANY(add, -2, 2), ANY(sub, -2, 2), ANY(mul, -2, 2), ANY(div, 0.5, 3), ANY(rem, 0.7, 3.05), ANY(pow, 0.5, 2.5),
    ANY(atan2, 0.3, 2), ANY(max, -2, 2), ANY(min, -2, 2),
    {OP_rem, ewise, 0, 0, S(3), S(3), S(0), (double[]){-5.5, 5.5, 7.3}, (double[]){2, -2, 3}, 0},
    {OP_max, ewise, 0, 0, S(6), S(6), S(0), ties, more_ties, true},
    {OP_min, ewise, 0, 0, S(6), S(6), S(0), ties, more_ties, true},
    {OP_pow, power_constant, 0.3, 3, S(2, 3), S(0), S(0), 0, 0, 0},
    {OP_cast, half, -2, 2, S(2, 3), S(0), S(0), 0, 0, 0},
    {OP_sharding_constraint, constraint, -2, 2, S(2, 3), S(0), S(0), 0, 0, 0},
    {OP_surrogate, stood_for, -2, 2, S(2, 3), S(0), S(0), 0, 0, 0},
    {OP_sloped, known_slope, -2, 2, S(2, 3), S(0), S(0), 0, 0, 0},
    {OP_select, choose, -1, 3, S(2, 3), S(2, 3), S(2, 3), 0, 0, 0},
    {OP_select, choose_safe, -1, 3, S(2, 3), S(0), S(0), 0, 0, 0},
    {OP_broadcast, repeat, -1, 3, S(2, 4), S(0), S(0), 0, 0, 0}, {OP_broadcast, repeat, -1, 3, S(1, 4), S(0), S(0), 0, 0, 0},
    {OP_broadcast, repeat, -1, 3, S(1, 1), S(0), S(0), 0, 0, 0}, {OP_broadcast, repeat_scalar, -1, 3, SCALAR, S(0), S(0), 0, 0, 0},
    {OP_reshape, reshaped, -1, 3, S(2, 3), S(0), S(0), 0, 0, 0}, {OP_reshape, reshaped, -1, 3, S(0, 3), S(0), S(0), 0, 0, 0},
    {OP_transpose, transposed, -1, 3, S(2, 3, 4), S(0), S(0), 0, 0, 0}, {OP_transpose, transposed, -1, 3, S(2, 1, 0), S(0), S(0), 0, 0, 0},
    {OP_slice, sliced, -1, 3, S(7, 3), S(0), S(0), 0, 0, 0}, {OP_slice, sliced, -1, 3, S(6, 3), S(0), S(0), 0, 0, 0},
    {OP_slice, sliced_empty, -1, 3, S(6, 3), S(0), S(0), 0, 0, 0},
    {OP_pad, padded, -1, 3, S(2, 3), SCALAR, S(0), 0, 0, 0}, {OP_pad, padded, -1, 3, S(0, 3), SCALAR, S(0), 0, 0, 0},
    {OP_pad, cropped, -1, 3, S(3, 5), SCALAR, S(0), 0, 0, 0}, {OP_pad, cropped, -1, 3, S(2, 3), SCALAR, S(0), 0, 0, 0},
    {OP_extend, extended, -1, 3, S(3, 4), S(0), S(0), 0, 0, 0},
    {OP_concat, joined, -1, 3, S(2, 3), S(2, 1), S(2, 0), 0, 0, 0},
    {OP_reverse, reversed, -1, 3, S(2, 3), S(0), S(0), 0, 0, 0},
    {OP_cumulate, cumulated_sum, -1, 3, S(2, 4), S(0), S(0), 0, 0, 0}, {OP_cumulate, cumulated_prod, 0.5, 3, S(2, 4, 2), S(0), S(0), 0, 0, 0},
    {OP_cumulate, cumulated_prod, 0, 0, S(2, 3), S(0), S(0), one_zero, 0, 0}, {OP_cumulate, cumulated_prod_back, 0, 0, S(2, 3), S(0), S(0), two_zeros, 0, 0},
    {OP_cumulate, cumulated_max, -1, 3, S(2, 4), S(0), S(0), 0, 0, 0}, {OP_cumulate, cumulated_min, -1, 3, S(2, 4), S(0), S(0), 0, 0, 0},
    {OP_cumulate, cumulated_log, -1, 3, S(2, 4), S(0), S(0), 0, 0, 0}, {OP_cumulate, cumulated_log, -1, 3, S(2, 2, 3), S(0), S(0), 0, 0, 0},
    {OP_cumulate, cumulated_linear, -1, 3, S(2, 4), S(2, 4), S(0), 0, 0, 0}, {OP_cumulate, cumulated_linear_back, -1, 3, S(2, 4), S(2, 4), S(0), 0, 0, 0},
    {OP_dynamic_slice, window, -1, 3, S(4, 3), S(0), S(0), 0, 0, 0},
    {OP_dynamic_update, updated, -1, 3, S(4, 3), S(2, 2), S(0), 0, 0, 0},
    {OP_take, taken, -1, 3, S(2, 4, 2), S(0), S(0), 0, 0, 0}, {OP_take, taken, -1, 3, S(3, 3), S(0), S(0), 0, 0, 0},
    {OP_scatter_add, scattered, -1, 3, S(2, 4), S(2, 2, 3), S(0), 0, 0, 0},
    {OP_scatter_add, scattered, -1, 3, S(1, 4, 2), S(1, 2, 3, 2), S(0), 0, 0, 0},
    {OP_reduce_sum, reduced, -1, 3, S(2, 3), S(0), S(0), 0, 0, 0}, {OP_reduce_sum, reduced, -1, 3, S(2, 0), S(0), S(0), 0, 0, 0},
    {OP_reduce_sum, reduced_all, -1, 3, S(2, 3, 2), S(0), S(0), 0, 0, 0},
    {OP_reduce_prod, reduced, 0, 0, S(2, 3), S(0), S(0), no_zero, 0, 0}, {OP_reduce_prod, reduced, 0, 0, S(2, 3), S(0), S(0), one_zero, 0, 0},
    {OP_reduce_prod, reduced_all, 0, 0, S(2, 3), S(0), S(0), one_zero, 0, 0},
    {OP_reduce_prod, reduced, 0, 0, S(2, 3), S(0), S(0), two_zeros, 0, 0},
    {OP_reduce_max, reduced, -1, 3, S(2, 3), S(0), S(0), 0, 0, 0}, {OP_reduce_max, reduced_all, 0, 0, S(2, 3), S(0), S(0), ties, 0, true},
    {OP_reduce_min, reduced, -1, 3, S(2, 3, 2), S(0), S(0), 0, 0, 0}, {OP_reduce_min, reduced, 0, 0, S(2, 3), S(0), S(0), ties, 0, true},
    {OP_dot, dot_matrix, -1, 1, S(2, 3), S(3, 4), S(0), 0, 0, 0}, {OP_dot, dot_matrix, -1, 1, S(1, 3), S(3, 1), S(0), 0, 0, 0},
    {OP_dot, dot_matrix, -1, 1, S(2, 0), S(0, 4), S(0), 0, 0, 0}, {OP_dot, dot_transposed, -1, 1, S(3, 2), S(4, 3), S(0), 0, 0, 0},
    {OP_dot, dot_batch, -1, 1, S(2, 2, 3, 2), S(2, 3, 3, 2), S(0), 0, 0, 0}, {OP_dot, dot_two, -1, 1, S(3, 2, 4), S(4, 3, 2), S(0), 0, 0, 0},
    {OP_dot, dot_outer, -1, 1, S(2), S(3), S(0), 0, 0, 0},
    {OP_call, called, -2, 2, S(3), S(0), S(0), 0, 0, 0},
    {OP_scan, recurrent, -1, 1, S(2, 3), S(4, 2, 3), S(3, 3), 0, 0, 0}, {OP_scan, recurrent_back, -1, 1, S(2, 3), S(4, 2, 3), S(3, 3), 0, 0, 0},
    {OP_scan, recurrent, -1, 1, S(2, 3), S(1, 2, 3), S(3, 3), 0, 0, 0}, {OP_scan, recurrent, -1, 1, S(2, 3), S(0, 2, 3), S(3, 3), 0, 0, 0},
    {OP_scan, recurrent, -1, 1, S(0, 3), S(4, 0, 3), S(3, 3), 0, 0, 0}, {OP_scan, recurrent_back, -1, 1, S(1, 1), S(4, 1, 1), S(1, 1), 0, 0, 0},
    {OP_scan, gated, -1, 2, S(3), S(4, 3), S(3), 0, 0, 0}, {OP_scan, gated, -1, 2, SCALAR, S(3), SCALAR, 0, 0, 0},
    {OP_scan, nested, -1, 1, S(3), S(2, 3, 3), S(3), 0, 0, 0}, {OP_scan, nested, -1, 1, S(2), S(3, 1, 2), S(2), 0, 0, 0},
};
/* clang-format on */
enum { TEST_COUNT = sizeof tests / sizeof tests[0] };

/* ---------------------------------------------------------------- comparison */

struct problem {
    struct ir_module *m;
    struct ir_tensor x[MOST_ARGS];
    uint32_t args;
};

static bool is_used(const struct test *t, uint32_t i)
{ /* S(0) after the first operand stands for none */
    const struct shape *s = i == 0 ? &t->x : i == 1 ? &t->y : &t->z;
    if (t->make == ewise) return i < (uint32_t)ops[t->op].args;
    return i == 0 || s->rank != 1 || s->dim[0] != 0;
}

static void fill(const struct test *t, uint32_t i, struct ir_tensor *x, struct arena *arena)
{
    const double *given = i == 0 ? t->given_x : i == 1 ? t->given_y : NULL;
    int64_t n = ir_type_elements(&x->type);
    x->v = arena_new_array(arena, double, n);
    for (int64_t k = 0; k < n; k++) {
        double u = fmod(0.618034 * (double)(k + 1) + 0.29 * (double)i + 0.137, 1);
        x->v[k] = given ? given[k] : t->low + (t->high - t->low) * u;
    }
}

/* The loss is a weighted sum of the op's result, or of its squares; results: loss, then the gradients. */
static struct problem make_problem(const struct test *t, bool squares, struct arena *arena)
{
    struct problem p = {.m = ir_module_new("test")};
    struct ir_builder b = {.f = ir_func_new(p.m, "main", true)};
    ir_value a[MOST_ARGS];
    double weights[MOST_ELEMENTS];
    int64_t all[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (; p.args < MOST_ARGS && is_used(t, p.args); p.args++) {
        const struct shape *s = p.args == 0 ? &t->x : p.args == 1 ? &t->y : &t->z;
        struct ir_type type = ir_type_of(IR_F64, (uint32_t)s->rank, s->dim);
        p.x[p.args].type = type;
        a[p.args] = ir_param_new(&b, "x", type, -1);
        fill(t, p.args, &p.x[p.args], arena);
    }
    ir_value y = t->make(&b, t->op, a);
    struct ir_type type = *ir_type(b.f, y);
    bool there = false; /* not folded to another op */
    for (ir_value v = 1; v < b.f->count; v++) there |= ir_get(b.f, v)->op == t->op;
    ck_assert_msg(there, "%s is not in its own test", ops[t->op].name);
    for (int i = 0; i < MOST_ELEMENTS; i++) weights[i] = cos(1.7 * i) + 0.3;
    ck_assert_int_le(ir_type_elements(&type), MOST_ELEMENTS);
    ir_value weighted = ir_binary(&b, OP_mul, squares ? ir_binary(&b, OP_mul, y, y) : y,
                                  ir_constant(&b, type, weights));
    ir_value loss = ir_reduce(&b, OP_reduce_sum, weighted, all, type.rank);
    ir_result_add(&b, "loss", loss, -1);
    ir_value grads = ir_grad(&b, loss, a, p.args);
    for (uint32_t i = 0; i < p.args; i++) ir_result_add(&b, "grad", ir_proj(&b, grads, i), -1);
    return p;
}

static double loss_at(const struct problem *p, const struct ir_func *f, struct ir_tensor *results, struct arena *arena)
{
    ir_eval(f, IR_EVAL_F64, p->x, results, arena);
    return results[0].v[0];
}

static struct ir_module *differentiate(struct ir_module *m, struct arena *arena)
{
    struct pass_options options = {.verify_each = true, .only = "autodiff"};
    struct diags diags = {.arena = arena};
    struct pass pass = {.options = &options, .diags = &diags, .keep = arena};
    struct ir_module *last;
    pass_run(&pass, m, &last);
    ck_assert_int_eq((int)diags.errors, 0);
    return last;
}

START_TEST(gradient)
{
    const struct test *t = &tests[_i];
    struct arena arena = {0};
    struct problem p = make_problem(t, false, &arena);
    struct ir_module *done = differentiate(p.m, &arena);
    const struct ir_func *f = ir_func_find(done, "main");
    struct ir_tensor found[1 + MOST_ARGS], other[1 + MOST_ARGS];
    loss_at(&p, f, found, &arena);
    bool rounds = t->op == OP_cast;
    double step = rounds ? 1e-4 : 1e-6, tolerance = rounds ? 1e-3 : 1e-6;
    for (uint32_t i = 0; i < p.args; i++) {
        ck_assert(ir_type_equal(&found[1 + i].type, &p.x[i].type));
        for (int64_t k = 0; k < ir_type_elements(&p.x[i].type); k++) {
            double x = p.x[i].v[k];
            p.x[i].v[k] = x + step;
            double above = loss_at(&p, f, other, &arena);
            p.x[i].v[k] = x - step;
            double below = loss_at(&p, f, other, &arena);
            p.x[i].v[k] = x;
            double expected = (above - below) / (2 * step), got = found[1 + i].v[k];
            if (t->one_sided && t->x.rank == 2) /* among n equal ones a difference sees one half, JAX gives 1 / n */
                continue;
            ck_assert_msg(fabs(got - expected) <= tolerance * (1 + fabs(expected)),
                          "%s (case %d), operand %u, element %d: %.9g, expected %.9g", ops[t->op].name, _i, i, (int)k,
                          got, expected);
        }
    }
    ir_module_free(done);
    ir_module_free(p.m);
    arena_free(&arena);
}
END_TEST

/* A function (x..) -> gradient of <gradients of `of`, direction> by x: the Hessian times a direction. */
static struct ir_func *hessian_product(struct problem *p, struct ir_func *of, const struct ir_tensor *direction)
{
    struct ir_builder b = {.f = ir_func_new(p->m, "product", true)};
    int64_t all[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    ir_value x[MOST_ARGS], along = ir_scalar(&b, IR_F64, 0);
    for (uint32_t i = 0; i < p->args; i++) x[i] = ir_param_new(&b, "x", p->x[i].type, -1);
    ir_value tuple = ir_call(&b, of, x, p->args);
    for (uint32_t i = 0; i < p->args; i++) {
        ir_value r = ir_constant(&b, p->x[i].type, direction[i].v);
        ir_value term = ir_binary(&b, OP_mul, ir_proj(&b, tuple, 1 + i), r);
        along = ir_binary(&b, OP_add, along, ir_reduce(&b, OP_reduce_sum, term, all, p->x[i].type.rank));
    }
    ir_value products = ir_grad(&b, along, x, p->args);
    for (uint32_t i = 0; i < p->args; i++) ir_result_add(&b, "product", ir_proj(&b, products, i), -1);
    return b.f;
}

/* Backward passes can be differentiated again: every op in them has a gradient too. */
START_TEST(second_order)
{
    const struct test *t = &tests[_i];
    struct arena arena = {0};
    if (t->one_sided || t->op == OP_cast || t->make == called) return; /* a kink, rounding, a function of two entries */
    struct problem p = make_problem(t, true, &arena);
    struct ir_tensor direction[MOST_ARGS], found[MOST_ARGS], above[1 + MOST_ARGS], below[1 + MOST_ARGS];
    const double step = 1e-6;
    for (uint32_t i = 0; i < p.args; i++) {
        direction[i] = p.x[i];
        int64_t n = ir_type_elements(&p.x[i].type);
        direction[i].v = arena_new_array(&arena, double, n);
        for (int64_t k = 0; k < n; k++) direction[i].v[k] = sin(2.3 * (double)k + i + 0.5);
    }
    hessian_product(&p, ir_func_find(p.m, "main"), direction);
    struct ir_module *done = differentiate(p.m, &arena);
    ir_eval(ir_func_find(done, "product"), IR_EVAL_F64, p.x, found, &arena);
    for (int side = -1; side <= 1; side += 2) {
        for (uint32_t i = 0; i < p.args; i++)
            for (int64_t k = 0; k < ir_type_elements(&p.x[i].type); k++)
                p.x[i].v[k] += (side < 0 ? -1 : 2) * step * direction[i].v[k];
        ir_eval(ir_func_find(done, "main"), IR_EVAL_F64, p.x, side < 0 ? below : above, &arena);
    }
    for (uint32_t i = 0; i < p.args; i++)
        for (int64_t k = 0; k < ir_type_elements(&p.x[i].type); k++) {
            double expected = (above[1 + i].v[k] - below[1 + i].v[k]) / (2 * step), got = found[i].v[k];
            ck_assert_msg(fabs(got - expected) <= 2e-6 * (1 + fabs(expected)),
                          "%s (case %d), operand %u, element %d: %.9g, expected %.9g", ops[t->op].name, _i, i, (int)k,
                          got, expected);
        }
    ir_module_free(done);
    ir_module_free(p.m);
    arena_free(&arena);
}
END_TEST

/* Ties of reductions share evenly. */
START_TEST(ties_share)
{
    struct arena arena = {0};
    struct test t = {OP_reduce_max, reduced_all, 0, 0, S(2, 3), S(0), S(0), ties, 0, true};
    struct problem p = make_problem(&t, false, &arena);
    struct ir_module *done = differentiate(p.m, &arena);
    struct ir_tensor found[2];
    loss_at(&p, ir_func_find(done, "main"), found, &arena);
    for (int i = 0; i < 6; i++) ck_assert_double_eq_tol(found[1].v[i], i == 1 || i == 2 ? 1.3 / 2 : 0, 1e-12);
    ir_module_free(done);
    ir_module_free(p.m);
    arena_free(&arena);
}
END_TEST

START_TEST(every_op_has_a_case)
{
    for (int op = 1; op < IR_OP_COUNT; op++) {
        bool found = strcmp(ops[op].vjp, "zero") == 0 || strcmp(ops[op].vjp, "none") == 0;
        found = found || op == OP_proj || op == OP_accumulate; /* in test_vmap.c */
        for (size_t i = 0; i < TEST_COUNT; i++) found = found || (int)tests[i].op == op;
        ck_assert_msg(found, "op %s has a gradient but no case here", ops[op].name);
    }
}
END_TEST

int main(void)
{
    TCase *all = CASE_OF(30, ties_share, every_op_has_a_case);
    tcase_add_loop_test(all, gradient, 0, TEST_COUNT);
    tcase_add_loop_test(all, second_order, 0, TEST_COUNT);
    return run_case("vjp", all);
}
