/* --numerics invariant: every sum of floats gets an order that does not depend on how the work is cut (Collange et al.
 * 2015 call such sums reproducible; the tree over aligned blocks is that of pairwise summation). The extent that is
 * summed is cut into leaves of a few steps, which are summed one after the other; sums of neighbouring leaves are
 * added, these sums again, and so on. Where devices, microbatches or kernels have whole, aligned runs of 2^k leaves
 * each, they compute whole subtrees, and the runtime's sums over devices, by neighbours too, are the rest of the tree:
 * not a bit differs.
 *
 * Leaves depend on the odd part of an extent only, so halves of it have the same ones. Contractions have their tree
 * over the rows of the batch if they sum these, else over the first contracted dimension that can be halved; other
 * reductions go dimension by dimension, the last one first but for the rows, which come behind all others and have
 * single ones as leaves. Sums of bfloat16 are sums of float32 here (widen.c); those of float16, and products, are taken
 * one after the other; what may not be cut then is kept whole (shard_keep_order). */
#include "passes/shard_int.h"
#include <string.h>

static bool is_wide(enum ir_dtype dtype) { return dtype == IR_F32 || dtype == IR_F64; }

static bool rewrites(const struct ir_func *f, const struct ir_node *n)
{
    (void)f;
    bool sum = n->op == OP_reduce_sum || n->op == OP_reduce_prod || n->op == OP_dot;
    return sum && is_wide((enum ir_dtype)n->type.dtype) && !n->attr[n->op == OP_dot ? 4 : 1].n;
}

/* ---------------------------------------------------------------- where the rows of the batch lie */

struct rows {
    struct pass *pass;
    const struct ir_module *module;
    int8_t **dim; /* per function and value: the dimension along which they lie, -1: there is none */
};

static void find_rows(struct rows *r, const struct ir_func *f);

/* What a function is given, and what a loop hands to the next round. Has anything changed? */
static bool enter(struct rows *r, const struct ir_func *f, const struct ir_node *n)
{
    const struct ir_func *body = r->module->funcs.items[n->func];
    int8_t *to = r->dim[ir_func_index(body)];
    bool loop = n->op == OP_loop, changed = false;
    for (uint32_t i = loop; i < n->arg_count; i++) {
        int8_t *param = &to[body->params.items[i].value], is = r->dim[ir_func_index(f)][n->args[i]];
        if (loop && is < 0 && i <= (uint32_t)n->attr[0].v[0]) is = to[body->results.items[i - 1].value];
        if (is < 0 || *param == is) continue;
        changed |= *param < 0;
        if (*param < 0) *param = is;
    }
    return changed;
}

static int8_t row_dim(struct rows *r, const struct ir_func *f, const struct ir_node *n)
{
    const int8_t *dim = r->dim[ir_func_index(f)];
    struct shard_rule rule;
    if (n->op == OP_sharding_constraint)
        for (uint32_t d = 0; d < n->attr[0].n; d++)
            if (n->attr[0].v[d] == PASS_AS_BATCH) return (int8_t)d;
    if (n->op == OP_proj) {
        const struct ir_node *of = ir_get(f, n->args[0]);
        const struct ir_func *body = of->func < r->module->funcs.count && (of->op == OP_loop || of->op == OP_call)
                                         ? r->module->funcs.items[of->func]
                                         : NULL;
        return body ? r->dim[ir_func_index(body)][body->results.items[n->attr[0].v[0]].value] : -1;
    }
    shard_rule_of(f, n, &r->pass->scratch, &rule);
    for (uint32_t i = 0; i < n->arg_count; i++)
        for (uint32_t d = 0; dim[n->args[i]] >= 0 && d < n->type.rank; d++)
            if (rule.result[d] >= 0 && rule.result[d] == rule.arg[i][dim[n->args[i]]]) return (int8_t)d;
    return -1;
}

/* From the parameters on. */
static void find_rows(struct rows *r, const struct ir_func *f)
{
    int8_t *dim = r->dim[ir_func_index(f)];
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_param) continue;
        if (n->op == OP_loop || n->op == OP_call)
            for (bool more = true; more;) {
                more = enter(r, f, n);
                find_rows(r, r->module->funcs.items[n->func]);
            }
        else dim[v] = row_dim(r, f, n);
    }
}

static void look_at(struct rows *r)
{
    const struct ir_module *m = r->module;
    r->dim = arena_new_array(&r->pass->scratch, int8_t *, m->funcs.count);
    for (size_t i = 0; i < m->funcs.count; i++) {
        r->dim[i] = arena_new_array(&r->pass->scratch, int8_t, m->funcs.items[i]->count);
        memset(r->dim[i], -1, m->funcs.items[i]->count);
    }
    bool named = false; /* a document that names no batch has the bits of one that names the first dimension */
    for (size_t i = 0; i < m->slots.count; i++)
        named |= m->slots.items[i].role == IR_ROLE_INPUT && m->slots.items[i].batch_dims;
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[i];
        for (size_t p = 0; f->entry && p < f->params.count; p++) {
            const struct ir_param *param = &f->params.items[p];
            const struct ir_slot *slot = param->slot < 0 ? NULL : &m->slots.items[param->slot];
            bool rows = slot && slot->role == IR_ROLE_INPUT && (named ? slot->batch_dims > 0 : slot->type.rank > 0);
            if (rows) r->dim[i][param->value] = 0;
        }
        if (f->entry) find_rows(r, f);
    }
}

/* ---------------------------------------------------------------- sums */

static ir_value reduce(struct ir_builder *b, const struct ir_node *n, ir_value x, int8_t rows)
{
    int64_t rest = 1, dims[IR_MAX_RANK]; /* what was summed before; the rows come first, and are summed last */
    uint32_t count = 0;
    if (rows >= 0 && pass_has(n->attr[0], rows)) dims[count++] = rows;
    for (uint32_t i = 0; i < n->attr[0].n; i++)
        if (!count || n->attr[0].v[i] != dims[0]) dims[count++] = n->attr[0].v[i];
    for (uint32_t i = n->attr[0].n; i-- > 0;) {
        int64_t dim = dims[i], extent;
        for (uint32_t done = i + 1; done < n->attr[0].n; done++) dim -= dims[done] < dims[i];
        extent = ir_type(b->f, x)->dim[dim];
        int64_t leaf = n->op != OP_reduce_sum ? extent
                                              : ir_leaf(extent, dims[i] == (rows < 0 ? 0 : rows) ? IR_LEAF : rest);
        rest *= extent > 0 ? extent : 1;
        x = ir_make(b,
                    (struct ir_node){.op = n->op, .arg_count = 1, .args = &x, .attr = {{&dim, 1}, {&leaf, leaf > 0}}});
    }
    return x;
}

static ir_value contract(struct ir_builder *b, const struct ir_node *n, const ir_value *map, int8_t rows)
{
    const struct ir_type *x = ir_type(b->f, map[n->args[0]]);
    struct ir_ints lhs = n->attr[2], rhs = n->attr[3];
    struct ir_node made = *n;
    ir_value args[] = {map[n->args[0]], map[n->args[1]]};
    int64_t first[2][IR_MAX_RANK], rest = 1, leaf = 0;
    uint32_t tree = 0;
    for (uint32_t i = lhs.n; i-- > 0;)
        if (x->dim[lhs.v[i]] % 2 == 0) tree = i;
    for (uint32_t i = 0; i < lhs.n; i++)
        if (lhs.v[i] == rows && x->dim[rows] % 2 == 0) tree = i;
    for (uint32_t i = 0; i < lhs.n; i++) {
        uint32_t from = i == 0 ? tree : i <= tree ? i - 1 : i;
        first[0][i] = lhs.v[from], first[1][i] = rhs.v[from];
        rest *= i ? x->dim[lhs.v[from]] : 1;
    }
    if (lhs.n && rest) leaf = ir_leaf(x->dim[first[0][0]], rest);
    made.args = args;
    made.attr[2].v = first[0], made.attr[3].v = first[1];
    made.attr[4] = (struct ir_ints){&leaf, leaf > 0};
    return ir_make(b, made);
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct rows *r = user;
    const struct ir_node *n = ir_get(from, old);
    if (!rewrites(from, n)) return pass_remake(r->pass, b, n, map);
    int8_t rows = r->dim[ir_func_index(from)][n->args[0]];
    return n->op == OP_dot ? contract(b, n, map, rows) : reduce(b, n, map[n->args[0]], rows);
}

struct ir_module *pass_invariant(struct pass *p, struct ir_module *m)
{
    struct rows r = {.pass = p, .module = m};
    if (!p->options->invariant || pass_keeps(p, m, rewrites)) return m;
    look_at(&r);
    return pass_rebuild(p, m, rewrite, &r);
}
