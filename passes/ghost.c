/* Norms and weighted sums of the gradients of single examples without the gradients (Goodfellow 2015; Li et al. 2022).
 * The gradient of a matrix for example e is a product over few positions t, d[e] = sum_t x[e, t] (outer) y[e, t]. Then
 *
 *     sum(d[e]**2)      = sum_{t, t'} (x[e, t] . x[e, t']) (y[e, t] . y[e, t'])
 *     sum_e c[e] * d[e] = sum_{e, t} (c[e] * x[e, t]) (outer) y[e, t]     one ordinary product
 *
 * and d, as large as the matrix for every example, is never there. The first sum is over terms that may be far larger
 * than it is (gradients of positions that cancel), and over products of squares that alone may be too large or too
 * small for float32: it is made in float64, or nothing would be left of a small norm. Done where all that reads d is of
 * these two kinds and the positions are so few that it is less work. What lies between d and these, a factor that is
 * the same for all elements of an example (the scale of the loss), becomes a factor of x or y. A gradient in 16 bits
 * stays: its roundings, and where it overflows, are what the document means. */
#include "passes/common.h"

/* A batched dot as its readers see it. */
struct product {
    ir_value dot, seen;  /* the node; the value that is read, the dot or the last link */
    struct ir_node d;    /* the dot's node */
    VEC(ir_value) links; /* factors between them, in order */
};

/* What reads it. */
struct reader {
    ir_value root; /* the value that is made in another way */
    const struct product *of;
    ir_value weight; /* of a weighted sum: the broadcast factor; 0 = none */
    bool norm;
};

struct ghost {
    struct pass *pass;
    const struct ir_func *f;
    uint32_t *uses;
    const struct reader **of; /* per value: it is such a root */
};

static struct ir_ints batch_of(const struct ir_node *d) { return d->attr[0]; }

static bool is_wide(enum ir_dtype dtype) { return dtype == IR_F32 || dtype == IR_F64; }

/* Batch dimensions come first in both operands, contractions have one dimension of more than one position at most (then
 * positions need no sorting), and all is in one wide dtype. */
static bool is_plain_dot(const struct ir_func *f, const struct ir_node *d)
{
    const struct ir_type *x = ir_type(f, d->args[0]), *y = ir_type(f, d->args[1]);
    uint32_t long_dims = 0;
    if (d->op != OP_dot || !batch_of(d).n || x->dtype != d->type.dtype || y->dtype != d->type.dtype) return false;
    if (!is_wide((enum ir_dtype)d->type.dtype)) return false;
    for (uint32_t i = 0; i < batch_of(d).n; i++)
        if (d->attr[0].v[i] != i || d->attr[1].v[i] != i) return false;
    for (uint32_t i = 0; i < d->attr[2].n; i++) long_dims += x->dim[d->attr[2].v[i]] > 1;
    return long_dims <= 1 && x->rank + d->attr[2].n <= IR_MAX_RANK && y->rank + d->attr[3].n <= IR_MAX_RANK;
}

static bool reduces(const struct ir_node *n, uint32_t from, uint32_t to)
{
    if (n->op != OP_reduce_sum || n->attr[0].n != to - from) return false;
    for (uint32_t i = 0; i < n->attr[0].n; i++)
        if (n->attr[0].v[i] != from + i) return false;
    return true;
}

/* A sum over the examples; over a single one it is a reshape. */
static bool sums_examples(const struct ir_func *f, const struct ir_node *n, const struct ir_node *d)
{
    uint32_t batch = batch_of(d).n;
    struct ir_type rest = {.dtype = d->type.dtype, .rank = (uint8_t)(d->type.rank - batch)};
    int64_t examples = 1;
    if (reduces(n, 0, batch)) return true;
    for (uint32_t i = 0; i < d->type.rank; i++)
        if (i < batch) examples *= d->type.dim[i];
        else rest.dim[i - batch] = d->type.dim[i];
    return n->op == OP_reshape && examples == 1 &&
           ir_type_elements(ir_type(f, n->args[0])) == ir_type_elements(&d->type) && ir_type_equal(&n->type, &rest);
}

/* A factor that is the same for all elements of an example. */
static bool is_weight(const struct ir_func *f, ir_value v, uint32_t batch)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op == OP_constant) return n->splat;
    if (n->op != OP_broadcast) return false;
    for (uint32_t i = 0; i < n->attr[0].n; i++)
        if (n->attr[0].v[i] >= batch) return false;
    return true;
}

/* The only value that reads v; 0: there is none, or several. */
static ir_value only_reader(const struct ghost *g, ir_value v)
{
    if (g->uses[v] != 1) return 0;
    for (ir_value u = v + 1; u < g->f->count; u++)
        for (uint32_t i = 0; i < ir_get(g->f, u)->arg_count; i++)
            if (g->uses[u] && ir_get(g->f, u)->args[i] == v) return u;
    return 0;
}

/* Whether u is v times or by a factor of its example. */
static bool is_link(const struct ghost *g, ir_value v, ir_value u, uint32_t batch)
{
    const struct ir_node *n = ir_get(g->f, u);
    if (n->op == OP_div) return n->args[0] == v && is_weight(g->f, n->args[1], batch);
    return n->op == OP_mul && is_weight(g->f, n->args[n->args[0] == v], batch);
}

/* The dot with what its only reader, and the only reader of that, make of it. */
static const struct product *product_of(struct ghost *g, ir_value dot)
{
    struct product *p = arena_new(&g->pass->scratch, struct product);
    *p = (struct product){.dot = dot, .seen = dot, .d = *ir_get(g->f, dot)};
    for (ir_value u; (u = only_reader(g, p->seen)) && is_link(g, p->seen, u, batch_of(&p->d).n); p->seen = u)
        vec_push(&g->pass->scratch, &p->links, u);
    return p;
}

/* How `user` reads the product; false: in another way. */
static bool read_as(const struct ghost *g, const struct product *p, ir_value user, struct reader *out)
{
    const struct ir_node *d = &p->d, *n = ir_get(g->f, user);
    uint32_t batch = batch_of(d).n, rank = d->type.rank;
    *out = (struct reader){.root = user, .of = p};
    if (sums_examples(g->f, n, d)) return true;
    if (n->op != OP_mul) return false;
    ir_value next = only_reader(g, user), other = n->args[n->args[0] == p->seen];
    if (!next) return false;
    out->root = next;
    out->norm = other == p->seen;
    if (out->norm) return rank > batch && reduces(ir_get(g->f, next), batch, rank);
    out->weight = other;
    return sums_examples(g->f, ir_get(g->f, next), d) && is_weight(g->f, other, batch);
}

static int64_t extent(const struct ir_type *t, struct ir_ints dims)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < dims.n; i++) n *= t->dim[dims.v[i]];
    return n;
}

/* Whether norms cost less by positions than by elements. */
static bool pays(const struct ir_func *f, const struct ir_node *d)
{
    const struct ir_type *x = ir_type(f, d->args[0]), *y = ir_type(f, d->args[1]);
    int64_t batch = extent(x, d->attr[0]), positions = extent(x, d->attr[2]);
    if (!batch || !positions || !ir_type_elements(x) || !ir_type_elements(y)) return false;
    int64_t rows = ir_type_elements(x) / batch / positions, columns = ir_type_elements(y) / batch / positions;
    double work = positions == 1 ? 1 : 4 * (double)positions; /* in float64 */
    return work * (double)(rows + columns) < (double)rows * (double)columns;
}

/* Notes how a dot is read, if that is in these two ways alone. */
static void look_at(struct ghost *g, ir_value dot)
{
    struct arena *scratch = &g->pass->scratch;
    VEC(struct reader) readers = {0};
    if (!g->uses[dot] || !is_plain_dot(g->f, ir_get(g->f, dot)) || !pays(g->f, ir_get(g->f, dot))) return;
    const struct product *p = product_of(g, dot);
    uint32_t left = g->uses[p->seen];
    for (ir_value u = p->seen + 1; u < g->f->count; u++) {
        const struct ir_node *n = ir_get(g->f, u);
        struct reader r;
        bool reads = false;
        for (uint32_t i = 0; g->uses[u] && i < n->arg_count; i++)
            left -= n->args[i] == p->seen, reads |= n->args[i] == p->seen;
        if (!reads) continue;
        if (!read_as(g, p, u, &r)) return;
        vec_push(scratch, &readers, r);
    }
    if (left) return; /* it is a result */
    for (size_t i = 0; i < readers.count; i++) g->of[readers.items[i].root] = &readers.items[i];
}

/* ---------------------------------------------------------------- rewriting */

/* x[e, t] . x[e, t'] over the free dimensions: batch, positions, positions; with one position: batch. */
static ir_value products(struct ir_builder *b, ir_value x, struct ir_ints batch, struct ir_ints contract, bool one)
{
    const struct ir_type type = *ir_type(b->f, x);
    struct pass_dims summed = pass_free_dims(&type, batch, contract), all = {.n = 0};
    x = ir_cast(b, x, IR_F64); /* every product of two float32 is one of float64 */
    if (!one) return ir_dot(b, x, x, batch, batch, pass_ints(&summed), pass_ints(&summed));
    for (uint32_t i = batch.n; i < type.rank; i++) pass_dims_add(&all, i);
    return ir_reduce(b, OP_reduce_sum, ir_binary(b, OP_mul, x, x), all.v, all.n);
}

static ir_value norm_by_positions(struct ir_builder *b, const struct ir_node *d, ir_value x, ir_value y)
{
    struct pass_dims positions = {.n = 0};
    bool one = extent(ir_type(b->f, x), d->attr[2]) == 1;
    ir_value xx = products(b, x, d->attr[0], d->attr[2], one), yy = products(b, y, d->attr[1], d->attr[3], one);
    struct ir_type type = *ir_type(b->f, xx);
    /* positions of one element may stand elsewhere in y; with two sides of the others the order is the same */
    yy = ir_reshape(b, yy, type.rank, type.dim);
    ir_value both = ir_binary(b, OP_mul, xx, yy);
    for (uint32_t i = d->attr[0].n; i < type.rank; i++) pass_dims_add(&positions, i);
    ir_value sum = positions.n ? ir_reduce(b, OP_reduce_sum, both, positions.v, positions.n) : both;
    /* of gradients that cancel to nothing rounding may leave less than that */
    if (!one) sum = ir_binary(b, OP_max, sum, ir_number_like(b, sum, 0));
    return ir_cast(b, sum, (enum ir_dtype)d->type.dtype);
}

static struct ir_ints join(struct pass_dims *list, struct ir_ints batch, struct ir_ints contract)
{
    list->n = 0;
    for (uint32_t i = 0; i < batch.n; i++) pass_dims_add(list, batch.v[i]);
    for (uint32_t i = 0; i < contract.n; i++) pass_dims_add(list, contract.v[i]);
    return pass_ints(list);
}

/* x times or by `weight`, which is a broadcast (or a repeated number) over d's type: the same over the type of x. */
static ir_value weighted(struct ir_builder *b, const struct ir_func *from, enum ir_op op, ir_value weight,
                         const ir_value *map, ir_value x)
{
    const struct ir_node *w = ir_get(from, weight);
    struct ir_type type = *ir_type(b->f, x);
    ir_value all = w->op == OP_broadcast ? ir_broadcast(b, map[w->args[0]], type.rank, type.dim, w->attr[0].v)
                                         : ir_number(b, type, ir_element_get((enum ir_dtype)w->type.dtype, w->data, 0));
    return ir_binary(b, op, x, all);
}

/* The operands of a product with its links: factors of the one that is smaller. */
static void operands(struct ir_builder *b, const struct ir_func *from, const struct product *p, const ir_value *map,
                     ir_value *x, ir_value *y)
{
    *x = map[p->d.args[0]], *y = map[p->d.args[1]];
    ir_value *small = ir_type_elements(ir_type(b->f, *x)) <= ir_type_elements(ir_type(b->f, *y)) ? x : y,
             before = p->dot;
    for (size_t i = 0; i < p->links.count; before = p->links.items[i++]) {
        const struct ir_node *n = ir_get(from, p->links.items[i]);
        *small = weighted(b, from, n->op, n->args[n->args[0] == before], map, *small);
    }
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct ghost *g = user;
    const struct reader *r = g->of[old];
    struct pass_dims xs, ys;
    ir_value x, y;
    if (!r) return pass_remake(g->pass, b, ir_get(from, old), map);
    const struct ir_node *d = &r->of->d;
    operands(b, from, r->of, map, &x, &y);
    if (r->norm) return norm_by_positions(b, d, x, y);
    bool left = ir_type_elements(ir_type(b->f, x)) <= ir_type_elements(ir_type(b->f, y));
    if (r->weight && left) x = weighted(b, from, OP_mul, r->weight, map, x);
    if (r->weight && !left) y = weighted(b, from, OP_mul, r->weight, map, y);
    struct ir_ints none = {NULL, 0};
    return ir_dot(b, x, y, none, none, join(&xs, d->attr[0], d->attr[2]), join(&ys, d->attr[1], d->attr[3]));
}

/* What is made in another way, by value; NULL: nothing in this function. */
static const struct reader **find_readers(struct pass *p, const struct ir_func *f)
{
    struct ghost g = {.pass = p, .f = f};
    const bool *live = NULL;
    for (ir_value v = 1; v < f->count; v++) {
        if (ir_get(f, v)->op != OP_dot || !is_plain_dot(f, ir_get(f, v))) continue;
        if (!live) {
            live = ir_live(f, &p->scratch);
            g.uses = pass_live_uses(f, live, &p->scratch);
            g.of = arena_new_array(&p->scratch, const struct reader *, f->count);
        }
        if (live[v]) look_at(&g, v);
    }
    for (ir_value v = 1; g.of && v < f->count; v++)
        if (g.of[v]) return g.of;
    return NULL;
}

struct ir_module *pass_ghost(struct pass *p, struct ir_module *m)
{
    const struct reader ***of = arena_new_array(&p->scratch, const struct reader **, m->funcs.count + 1);
    bool any = false;
    for (size_t i = 0; i < m->funcs.count; i++) any |= (of[i] = find_readers(p, m->funcs.items[i])) != NULL;
    if (!any) return m;
    struct ir_module *to = ir_module_like(m);
    uint32_t *order = ir_func_order(m, &p->scratch);
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[order[i]];
        struct ghost g = {.pass = p, .f = f, .of = of[order[i]]};
        ir_rebuild(f, to->funcs.items[order[i]], g.of ? rewrite : NULL, &g, &p->scratch);
    }
    return to;
}
