/* Sharding rules: per name of the op table's shard column, how dimensions map to factors (after Shardy: one rule per
 * op, propagation that knows no op) and in which operands partial sums may pass. */
#include "passes/shard_int.h"

#include <math.h>
#include <string.h>

struct rule_maker {
    const struct ir_func *f;
    const struct ir_node *n;
    struct shard_rule *r;
};

static const struct ir_type *arg_type(const struct rule_maker *k, uint32_t i) { return ir_type(k->f, k->n->args[i]); }

static int8_t new_factor(struct rule_maker *k, int64_t size)
{
    if (k->r->factor_count == SHARD_MAX_FACTORS) return -1; /* stays whole */
    k->r->size[k->r->factor_count] = size;
    return (int8_t)k->r->factor_count++;
}

/* A factor per dimension of the result, the same for every operand of the result's rank. */
static void rule_ewise(struct rule_maker *k)
{
    for (uint32_t d = 0; d < k->n->type.rank && d < IR_MAX_RANK; d++) { /* the bound is for GCC at -O3 */
        k->r->result[d] = new_factor(k, k->n->type.dim[d]);
        for (uint32_t i = 0; i < k->n->arg_count; i++)
            if (arg_type(k, i)->rank == k->n->type.rank) k->r->arg[i][d] = k->r->result[d];
    }
    if (k->n->arg_count == 1 && (ir_ops[k->n->op].flags & IR_LINEAR)) k->r->linear = 1;
    if (k->n->op == OP_cast && !(ir_dtype_is_float(arg_type(k, 0)->dtype) && ir_dtype_is_float(k->n->type.dtype)))
        k->r->linear = 0;
}

static void rule_add(struct rule_maker *k) { rule_ewise(k), k->r->linear = 3; }

/* Where factors could make parts of a sum infinite, whose sum is not, these would be NaN together. */
enum { MOST = 32 }; /* log2 of a moderate factor */

static void rule_mul(struct rule_maker *k)
{
    double x;
    rule_ewise(k);
    for (uint32_t i = 0; i < 2; i++) /* tensors are taken for moderate */
        if (!pass_number(k->f, k->n->args[1 - i], &x) || fabs(x) <= ldexp(1, MOST)) k->r->linear |= 1u << i;
    k->r->product = true;
}

static void rule_div(struct rule_maker *k)
{
    double x;
    rule_ewise(k);
    bool number = pass_number(k->f, k->n->args[1], &x) && fabs(x) >= ldexp(1, -MOST); /* a tensor may be 0 */
    if (ir_dtype_is_float(k->n->type.dtype) && number) k->r->linear = 1;
}
static void rule_select(struct rule_maker *k) { rule_ewise(k), k->r->linear = 6; }
static void rule_constraint(struct rule_maker *k) { rule_ewise(k); }

static void rule_replicated(struct rule_maker *k) { (void)k; }
static void rule_param(struct rule_maker *k) { (void)k; }
static void rule_iota(struct rule_maker *k) { (void)k; }
static void rule_proj(struct rule_maker *k) { (void)k; }
static void rule_none(struct rule_maker *k) { (void)k; }

static void rule_broadcast(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0);
    for (uint32_t d = 0; d < k->n->type.rank; d++) k->r->result[d] = new_factor(k, k->n->type.dim[d]);
    for (uint32_t i = 0; i < x->rank; i++) {
        uint32_t d = (uint32_t)k->n->attr[0].v[i];
        if (x->dim[i] == k->n->type.dim[d]) k->r->arg[0][i] = k->r->result[d];
    }
    k->r->linear = 1;
}

/* Blocks of dimensions with equal products; in each, the outermost dimensions of both sides share a factor of the
 * smaller extent: split along it, both sides hold the same contiguous part. */
static void rule_reshape(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0), *y = &k->n->type;
    k->r->linear = 1;
    for (uint32_t i = 0, j = 0; i < x->rank && j < y->rank;) {
        if (x->dim[i] == 1 && y->dim[j] != 1) {
            i++;
            continue;
        }
        if (y->dim[j] == 1 && x->dim[i] != 1) {
            j++;
            continue;
        }
        int64_t p = x->dim[i], q = y->dim[j], least = p < q ? p : q;
        if (p == 0 || q == 0) return;
        if (p % least == 0 && q % least == 0) {
            int8_t factor = k->r->arg[0][i] = k->r->result[j] = new_factor(k, least);
            if (p != q && factor >= 0) k->r->blocks |= 1u << factor;
        }
        i++, j++;
        while (p != q) {
            if (p < q && i < x->rank) p *= x->dim[i++];
            else if (q < p && j < y->rank) q *= y->dim[j++];
            else return;
        }
    }
}

static void rule_transpose(struct rule_maker *k)
{
    for (uint32_t d = 0; d < k->n->type.rank; d++)
        k->r->result[d] = k->r->arg[0][k->n->attr[0].v[d]] = new_factor(k, k->n->type.dim[d]);
    k->r->linear = 1;
}

/* Dimensions that pass whole through operand 0 keep a factor; the others are not split. */
static void pass_dimension(struct rule_maker *k, uint32_t d, bool untouched)
{
    if (untouched) k->r->arg[0][d] = k->r->result[d] = new_factor(k, k->n->type.dim[d]);
}

/* Here the others are split in windows. */
static void slide_dimension(struct rule_maker *k, uint32_t d, bool untouched)
{
    pass_dimension(k, d, true);
    if (!untouched && k->r->result[d] >= 0) k->r->window |= 1u << k->r->result[d];
}

static void rule_slice(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0);
    for (uint32_t d = 0; d < x->rank; d++)
        slide_dimension(k, d, k->n->attr[0].v[d] == 0 && k->n->attr[1].v[d] == x->dim[d] && k->n->attr[2].v[d] == 1);
    k->r->linear = 1;
}

static void rule_pad(struct rule_maker *k)
{
    for (uint32_t d = 0; d < k->n->type.rank; d++)
        slide_dimension(k, d, !k->n->attr[0].v[d] && !k->n->attr[1].v[d] && !k->n->attr[2].v[d]);
    if (shard_is_zero(k->f, k->n->args[1])) k->r->linear = 1;
}

static void rule_extend(struct rule_maker *k)
{
    for (uint32_t d = 0; d < k->n->type.rank; d++) slide_dimension(k, d, !k->n->attr[0].v[d] && !k->n->attr[1].v[d]);
    k->r->linear = 1;
}

static void rule_concat(struct rule_maker *k)
{
    rule_ewise(k);
    int8_t along = k->r->result[k->n->attr[0].v[0]];
    if (along >= 0) k->r->whole |= 1u << along;
    k->r->linear = k->n->arg_count < 32 ? (1u << k->n->arg_count) - 1 : 0;
}

static void rule_reverse(struct rule_maker *k)
{
    rule_ewise(k);
    for (uint32_t i = 0; i < k->n->attr[0].n; i++)
        if (k->r->result[k->n->attr[0].v[i]] >= 0) k->r->whole |= 1u << k->r->result[k->n->attr[0].v[i]];
}

static void rule_lines(struct rule_maker *k)
{
    rule_ewise(k);
    int8_t along = k->r->result[k->n->attr[0].v[0]];
    if (along >= 0) k->r->whole |= 1u << along;
    if (k->n->op == OP_cumulate && k->n->attr[1].v[0] == IR_CUMULATE_SUM) k->r->linear = 1;
}

static void rule_dynamic_slice(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0);
    for (uint32_t d = 0; d < x->rank; d++) pass_dimension(k, d, k->n->attr[0].v[d] == x->dim[d]);
    k->r->linear = 1;
}

static void rule_dynamic_update(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0), *y = arg_type(k, 1);
    for (uint32_t d = 0; d < x->rank; d++) {
        pass_dimension(k, d, x->dim[d] == y->dim[d]);
        if (x->dim[d] == y->dim[d]) k->r->arg[1][d] = k->r->result[d];
    }
    k->r->linear = 3;
}

/* A device that has some of the rows takes those, and zeros in place of the others: a partial sum. */
static void rule_take(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0), *y = arg_type(k, 1);
    uint32_t dim = (uint32_t)k->n->attr[0].v[0];
    int8_t rows = k->r->arg[0][dim] = new_factor(k, x->dim[dim]);
    if (rows >= 0) *(k->n->type.dtype != IR_BOOL ? &k->r->summed : &k->r->whole) |= 1u << rows;
    for (uint32_t d = 0; d < dim; d++) k->r->arg[0][d] = k->r->result[d] = new_factor(k, x->dim[d]);
    for (uint32_t d = 0; d < y->rank; d++) k->r->arg[1][d] = k->r->result[dim + d] = new_factor(k, y->dim[d]);
    for (uint32_t d = dim + 1; d < x->rank; d++)
        k->r->arg[0][d] = k->r->result[y->rank + d - 1] = new_factor(k, x->dim[d]);
}

/* Updates spread over devices are partial sums, which one device, or each to its own, adds to what is there. A device
 * that has some of the rows adds what goes there. */
static void rule_scatter_add(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0), *y = arg_type(k, 1);
    uint32_t dim = (uint32_t)k->n->attr[0].v[0];
    for (uint32_t d = 0; d < x->rank; d++) {
        k->r->arg[0][d] = k->r->result[d] = new_factor(k, x->dim[d]);
        if (d == dim) continue;
        k->r->arg[2][d < dim ? d : d + y->rank - 1] = k->r->result[d];
    }
    for (uint32_t d = 0; d < y->rank; d++) {
        int8_t factor = new_factor(k, y->dim[d]);
        k->r->arg[1][d] = k->r->arg[2][dim + d] = factor;
        if (factor >= 0) k->r->summed |= 1u << factor;
    }
    k->r->linear = 5;
}

static void reduce_dims(struct rule_maker *k, uint32_t *set)
{
    const struct ir_type *x = arg_type(k, 0);
    uint32_t to = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        int8_t factor = k->r->arg[0][d] = new_factor(k, x->dim[d]);
        if (!pass_has(k->n->attr[0], d)) k->r->result[to++] = factor;
        else if (factor >= 0) *set |= 1u << factor;
    }
}
static void rule_reduce_sum(struct rule_maker *k) { reduce_dims(k, &k->r->summed), k->r->linear = 1; }
static void rule_reduce(struct rule_maker *k)
{
    bool extremum = k->n->op == OP_reduce_max || k->n->op == OP_reduce_min;
    reduce_dims(k, extremum ? &k->r->extremum : &k->r->whole);
}

static void rule_dot(struct rule_maker *k)
{
    const struct ir_type *x = arg_type(k, 0);
    const struct ir_ints *a = k->n->attr; /* lhs_batch rhs_batch lhs_contract rhs_contract */
    uint32_t to = 0;
    for (uint32_t i = 0; i < a[0].n; i++)
        k->r->arg[0][a[0].v[i]] = k->r->arg[1][a[1].v[i]] = k->r->result[to++] = new_factor(k, x->dim[a[0].v[i]]);
    for (uint32_t side = 0; side < 2; side++) {
        const struct pass_dims dims = pass_free_dims(arg_type(k, side), a[side], a[2 + side]);
        for (uint32_t i = 0; i < dims.n; i++)
            k->r->arg[side][dims.v[i]] = k->r->result[to++] = new_factor(k, arg_type(k, side)->dim[dims.v[i]]);
    }
    for (uint32_t i = 0; i < a[2].n; i++) {
        int8_t factor = k->r->arg[0][a[2].v[i]] = k->r->arg[1][a[3].v[i]] = new_factor(k, x->dim[a[2].v[i]]);
        if (factor >= 0) k->r->summed |= 1u << factor;
    }
    /* Partial operands could pass too; summing an activation once before its products moves less. */
}

typedef void rule_fn(struct rule_maker *);
static rule_fn *const rules[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) [OP_##name] = rule_##shard,
#include "ir/ops.def"
#undef X
};

void shard_rule_of(const struct ir_func *f, const struct ir_node *n, struct arena *a, struct shard_rule *r)
{
    memset(r, 0, sizeof *r);
    r->arg = arena_array(a, n->arg_count ? n->arg_count : 1, sizeof *r->arg);
    memset(r->arg, -1, (n->arg_count ? n->arg_count : 1) * sizeof *r->arg);
    memset(r->result, -1, sizeof r->result);
    rules[n->op](&(struct rule_maker){f, n, r});
    bool moves = n->op == OP_transpose || n->op == OP_slice || n->op == OP_pad || n->op == OP_extend ||
                 n->op == OP_concat;
    if (n->op == OP_sharding_constraint || (!moves && n->op != OP_broadcast && !ir_is_ewise((enum ir_op)n->op))) return;
    uint32_t operands = n->op == OP_pad ? 1 : n->arg_count < 32 ? (1u << n->arg_count) - 1 : 0;
    r->windows = n->op != OP_broadcast && operands && r->linear == operands && !r->product ? SHARD_ADDENDS
                                                                                           : SHARD_COPIES;
}

void shard_keep_order(const struct ir_func *f, const struct ir_node *n, struct shard_rule *r)
{
    struct ir_ints leaf = n->op == OP_dot          ? n->attr[4]
                          : n->op == OP_reduce_sum ? n->attr[1]
                                                   : (struct ir_ints){NULL, 0};
    r->whole |= r->window; /* rims are added in no order of a tree */
    r->windows = SHARD_NO_WINDOWS;
    bool moves = ir_ops[n->op].emit == EMIT_view || n->op == OP_neg,
         floats = ir_dtype_is_float((enum ir_dtype)n->type.dtype);
    if (!moves) r->linear = 0;
    if (!floats || n->op == OP_take) return;
    int64_t dim = leaf.n ? n->attr[n->op == OP_dot ? 2 : 0].v[0] : 0;
    int8_t tree = leaf.n ? r->arg[0][dim] : -1;
    uint32_t kept = tree < 0 ? 0 : 1u << tree;
    r->whole |= r->summed & ~kept;
    r->summed &= kept;
    if (kept) r->leaves = ir_type(f, n->args[0])->dim[dim] / leaf.v[0];
}

bool shard_is_zero(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (!ir_is_number(n)) return false;
    static const char zero[16];
    return memcmp(n->data, zero, ir_dtype_bytes(n->type.dtype)) == 0;
}

uint32_t shard_axes_mask(uint32_t axes)
{
    uint32_t mask = 0;
    for (; axes; axes >>= 4) mask |= 1u << ((axes & 15) - 1);
    return mask;
}

bool shard_equal(const struct ir_sharding *a, const struct ir_sharding *b) { return memcmp(a, b, sizeof *a) == 0; }

struct ir_type shard_local_type(const struct ir_mesh *mesh, const struct ir_type *t, const struct ir_sharding *s)
{
    struct ir_type local = *t;
    for (uint32_t d = 0; d < t->rank; d++) {
        int64_t parts = ir_axes_size(mesh, s->dim[d]), step = s->step[d];
        local.dim[d] = step ? t->dim[d] + shard_over(step) - (parts - 1) * shard_apart(step)
                            : ir_part_extent(mesh, t->dim[d], s->dim[d]);
    }
    return local;
}
