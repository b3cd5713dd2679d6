/* Rewrites before fusion: a full reduction of a large tensor goes by rows first, so that workers can share it; sums of
 * very many scalars become sums of a tensor, or trees; very many tensors are concatenated one behind the other in
 * memory (plan_join), where one kernel would ask for each element which of them it is from. */
#include "passes/fuse.h"

enum { LONG_ROW = 16384 /* elements that one worker sums */ };

struct preparing {
    struct pass *pass;
    struct fuse_sums sums;
    struct fuse_panels panels;
    struct fuse_transposed *transposed;
    ir_value **numbers; /* by function, of its values: equal where the same is made again; NULL: nothing is */
};

/* Rows that a full reduction is shared out by: about 256, each of whole steps of one dimension and all that follow it.
 * A border elsewhere would let what is read in another order (slices of an image, say) find its place by a division for
 * each element. 0: no such number. */
static int64_t rows_of(const struct ir_type *t)
{
    enum { FEW = 16, ENOUGH = 64, WANTED = 256, MOST = 1024 };
    int64_t outer = 1, below = 0, above = 0;
    for (uint32_t d = 0; d < t->rank && outer <= MOST; outer *= t->dim[d++])
        for (int64_t part = 1; part <= t->dim[d] && outer * part <= MOST; part++) {
            int64_t rows = outer * part;
            if (t->dim[d] % part || rows < FEW) continue;
            if (rows <= WANTED && rows > below) below = rows;
            if (rows > WANTED && (!above || rows < above)) above = rows;
        }
    return below >= ENOUGH || !above ? below : above;
}

/* The last dimensions first; then the rows. */
static ir_value rewrite_full(struct ir_builder *b, const struct ir_node *node, ir_value x)
{
    struct ir_type from = *ir_type(b->f, x);
    int64_t rows = rows_of(&from), shape[2] = {rows, 0}, last = 1, all[2] = {0, 1};
    if (!rows) return 0;
    shape[1] = ir_type_elements(&from) / rows;
    x = ir_reshape(b, x, 2, shape);
    return ir_reduce_plain(b, (enum ir_op)node->op, ir_reduce_plain(b, (enum ir_op)node->op, x, &last, 1), all, 1);
}

/* A sum that has a tree over contiguous elements: as rows, then over these, which is the same tree. */
static ir_value rewrite_tree(struct ir_builder *b, const struct ir_node *node, ir_value x)
{
    int64_t extent = ir_type(b->f, x)->dim[node->attr[0].v[0]], leaf = node->attr[1].v[0], rows = 1, one = 1;
    while (extent / leaf % (2 * rows) == 0 && (rows < 256 || extent / rows > LONG_ROW)) rows *= 2;
    if (rows < 2) return 0;
    int64_t shape[] = {ir_type_elements(ir_type(b->f, x)) / extent, rows, extent / rows}, dims[] = {2, 1};
    x = ir_reshape(b, x, 3, shape);
    struct ir_node sum = {.op = node->op, .arg_count = 1, .args = &x, .attr = {{&dims[0], 1}, {&leaf, 1}}};
    x = ir_make(b, sum);
    sum.attr[0].v = &dims[1], sum.attr[1].v = &one;
    return ir_reshape(b, ir_make(b, sum), node->type.rank, node->type.dim);
}

static bool is_large_reduction(const struct ir_func *f, const struct ir_node *n)
{
    if ((n->op == OP_reduce_sum || n->op == OP_reduce_prod) && n->attr[1].n) {
        const struct ir_type *x = ir_type(f, n->args[0]);
        int64_t behind = 1, extent = x->dim[n->attr[0].v[0]];
        for (uint32_t i = (uint32_t)n->attr[0].v[0] + 1; i < x->rank; i++) behind *= x->dim[i];
        return n->op == OP_reduce_sum && behind == 1 && extent > LONG_ROW && extent / n->attr[1].v[0] % 2 == 0;
    }
    bool halves = n->type.dtype == IR_F16 || n->type.dtype == IR_BF16; /* rounded at every step: in their order */
    bool reduce = (n->op == OP_reduce_sum && !halves) || n->op == OP_reduce_max || n->op == OP_reduce_min;
    return reduce && n->type.rank == 0 && ir_type_elements(ir_type(f, n->args[0])) >= 65536;
}

static bool is_rewritten(const struct ir_func *f, const struct ir_node *n)
{
    return is_large_reduction(f, n) || fuse_is_gradient_sum(f, n);
}

/* A concatenation of very many, with something before the dimension. */
static bool is_wide_join(const struct preparing *p, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    struct plan_taps taps;
    bool many = n->op == OP_concat && n->arg_count >= FUSE_MANY_TERMS && p->sums.join, before = false;
    for (int64_t i = 0; many && i < n->attr[0].v[0]; i++) before |= n->type.dim[i] > 1;
    return many && before && !fuse_find_taps(f, v, &taps, &p->pass->scratch);
}

/* Along the first dimension, and back. */
static ir_value rewrite_wide_join(struct preparing *p, struct ir_builder *b, const struct ir_node *node,
                                  const ir_value *map)
{
    uint32_t dim = (uint32_t)node->attr[0].v[0], rank = node->type.rank;
    int64_t to[IR_MAX_RANK] = {dim}, back[IR_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        if (i != dim) to[i + (i < dim)] = i;
    for (uint32_t i = 0; i < rank; i++) back[to[i]] = i;
    ir_value *part = arena_new_array(&p->pass->scratch, ir_value, node->arg_count);
    for (uint32_t i = 0; i < node->arg_count; i++) part[i] = ir_transpose(b, map[node->args[i]], to);
    return ir_transpose(b, ir_concat(b, part, node->arg_count, 0), back);
}

static bool wants_split(struct preparing *p, const struct ir_func *f, ir_value v)
{
    if (p->pass->options->invariant || !fuse_wants_split(p->pass->options, f, v, &p->pass->scratch)) return false;
    return !fuse_is_attention(&p->panels, f, v);
}

static bool wants_lines(struct preparing *p, const struct ir_func *f, ir_value v)
{
    return fuse_wants_lines(p->pass->options->blocks, f, ir_get(f, v), &p->pass->scratch) &&
           !fuse_is_attention(&p->panels, f, v);
}

static bool wants_rows_first(struct preparing *p, const struct ir_func *f, ir_value v)
{
    return fuse_wants_rows_first(&p->panels, f, v) && !wants_split(p, f, ir_get(f, v)->args[0]);
}

static bool has_many(struct preparing *p, const struct ir_module *m)
{
    bool any = false;
    for (size_t i = 0; i < m->funcs.count; i++) {
        uint32_t terms = 1;
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++) {
            terms += fuse_is_scalar_sum(ir_get(m->funcs.items[i], v));
            any |= fuse_wants_phases(p->pass->options->blocks, m->funcs.items[i], ir_get(m->funcs.items[i], v)) ||
                   wants_lines(p, m->funcs.items[i], v) || wants_split(p, m->funcs.items[i], v) ||
                   is_wide_join(p, m->funcs.items[i], v) || fuse_wants_panels(&p->panels, m->funcs.items[i], v) ||
                   fuse_wants_even(&p->panels, m->funcs.items[i], v) ||
                   fuse_wants_rows(&p->panels, m->funcs.items[i], v) || wants_rows_first(p, m->funcs.items[i], v) ||
                   fuse_wants_winograd(p->pass->options, m->funcs.items[i], v);
            any |= fuse_is_transposed(p->transposed, m->funcs.items[i], v);
        }
        any |= terms >= FUSE_MANY_TERMS;
    }
    return any;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct preparing *p = user;
    const struct ir_node *node = ir_get(from, old);
    ir_value sum = p->pass->options->invariant ? 0 : fuse_sum(&p->sums, b, from, old, map);
    if (!sum) sum = fuse_transpose(p->transposed, b, from, old, map);
    if (sum) return sum;
    if (fuse_wants_winograd(p->pass->options, from, old))
        return fuse_winograd(p->pass->options, b, pass_remake(p->pass, b, node, map));
    uint32_t blocks = p->pass->options->blocks;
    if (fuse_wants_phases(blocks, from, node)) return fuse_phases(blocks, b, node, map[node->args[0]]);
    if (wants_lines(p, from, old)) return fuse_lines(b, from, node, map);
    if (wants_split(p, from, old)) return fuse_split(p->pass->options, b, node, map);
    if (is_large_reduction(from, node)) {
        bool tree = node->op == OP_reduce_sum && node->attr[1].n;
        ir_value r = (tree ? rewrite_tree : rewrite_full)(b, node, map[node->args[0]]);
        if (r) return r;
    }
    ir_value row = fuse_gradient_sum(b, from, old, map, p->numbers ? p->numbers[ir_func_index(from)] : NULL);
    if (row) return row;
    if (fuse_wants_panels(&p->panels, from, old)) return fuse_panels(&p->panels, b, from, node, map);
    if (fuse_wants_even(&p->panels, from, old)) return fuse_even(b, node, map);
    if (fuse_wants_rows(&p->panels, from, old)) return fuse_rows(&p->panels, b, from, node, map);
    if (wants_rows_first(p, from, old)) return fuse_rows_first(b, from, node, map);
    if (node->op == OP_loop) {
        ir_value loop = fuse_loop(&p->panels, b, node, map);
        if (loop) return loop;
    }
    if (is_wide_join(p, from, old)) return rewrite_wide_join(p, b, node, map);
    return pass_remake(p->pass, b, node, map);
}

/* Sharing gives equal values one number. */
static void number(struct preparing *p, const struct ir_module *m)
{
    struct ir_module *shared = ir_module_like(m);
    const uint32_t *order = ir_func_order(m, &p->pass->scratch);
    p->numbers = arena_new_array(&p->pass->scratch, ir_value *, m->funcs.count);
    shared->copies = false;
    for (size_t i = 0; i < m->funcs.count; i++)
        p->numbers[order[i]] = ir_rebuild(m->funcs.items[order[i]], shared->funcs.items[order[i]], NULL, NULL,
                                          &p->pass->scratch);
    ir_module_free(shared);
}

static bool has_taps(struct pass *p, const struct ir_module *m)
{
    for (size_t i = 0; i < m->funcs.count; i++)
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++)
            if (fuse_may_pair(m->funcs.items[i], ir_get(m->funcs.items[i], v), &p->scratch)) return true;
    return false;
}

static ir_value rewrite_taps(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old,
                             const ir_value *map)
{
    struct pass *p = user;
    const struct ir_node *n = ir_get(from, old);
    ir_value pairs = fuse_may_pair(from, n, &p->scratch) ? fuse_pair(b, n, map, &p->scratch) : 0;
    return pairs ? pairs : pass_remake(p, b, n, map);
}

static struct ir_module *prepare(struct pass *p, struct ir_module *m)
{
    struct preparing user = {p,
                             {.arena = &p->scratch, .join = true},
                             fuse_panels_of(p, m),
                             arena_new(&p->scratch, struct fuse_transposed),
                             NULL};
    user.transposed->options = p->options;
    if (!has_many(&user, m) && pass_keeps(p, m, is_rewritten)) return m;
    if (m->copies) number(&user, m);
    return pass_rebuild(p, m, rewrite, &user);
}

struct ir_module *fuse_prepare(struct pass *p, struct ir_module *m)
{
    struct ir_module *made = p->options->panel_columns ? fuse_products(p, m) : m, *first = prepare(p, made),
                     *second = first;
    if (p->options->blocks) second = fuse_widen(p, first);
    else if (p->options->tap_pairs && has_taps(p, first)) second = pass_rebuild(p, first, rewrite_taps, p);
    if (first != second && first != made) ir_module_free(first);
    if (made != second && made != m) ir_module_free(made);
    return second;
}
