/* Large products read their right operand in panels: as many columns as a tile of registers has stand one behind the
 * other for every step of the contraction, and the last panel is filled up with zeros (Goto and van de Geijn, Anatomy
 * of high-performance matrix multiplication). As a value of its own such a packed operand is made once for all
 * workers, and once for all products and steps of a loop that read it. */
#include "passes/fuse.h"
#include <string.h>

/* Elements of y from which on panels pay, by how wide these are: y that lies in rows, and y whose columns are rows in
 * memory. (Of narrow panels workers share out columns where there are fewer elements, of which so few lie side by side,
 * and what is done with the product would walk all rows for each of these.) */
static const int64_t least_elements[2][2] = {{4000, 100000}, {16000, 2000}};
/* Of sums of few steps the result is most of the memory: wide tiles write more of a row at a time. */
enum { NARROW_PANEL = 16 /* columns, with 16 registers */, FEW_STEPS = 96, PANEL_ELEMENTS = 100000 };
/* Steps, rows and columns at least of products whose operands get a step more for it to be an even number. */
enum { EVEN_LEAST = 32 };
/* The same of products in loops with weights that stay: rows of one round and elements. */
enum { ROUND_ROWS = 4, ROUND_ELEMENTS = 4096 };
/* Rows from which on packing in every round is cheap beside the product, and panels before the loop (of all weights of
 * a network, in a loop over microbatches) would only take memory. */
enum { MANY_ROWS = 512 };
/* Rows, and steps of k, of products that share x, and panels that they have. */
enum { SHARED_ROWS = 64, SHARED_PANELS = 8 };

/* A captured operand of a loop's body that lies in panels: a new one. */
struct packed {
    int64_t number; /* of the parameter that it stands for */
    struct ir_ints contract;
    ir_value param; /* of the new body */
};

struct fuse_loop {
    double times;
    int64_t captured; /* the first captured operand */
    VEC(struct packed) packed;
};

static void find_loops(struct fuse_panels *p, const struct ir_module *m)
{
    p->loops = arena_new_array(p->arena, struct fuse_loop, m->funcs.count);
    for (size_t i = 0; i < m->funcs.count; i++)
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++) {
            const struct ir_node *n = ir_get(m->funcs.items[i], v);
            if (n->op != OP_loop) continue;
            struct fuse_loop *loop = &p->loops[n->func];
            loop->captured = 1 + n->attr[0].v[0];
            if (!pass_number(m->funcs.items[i], n->args[0], &loop->times)) loop->times = 1;
        }
}

struct fuse_panels fuse_panels_of(struct pass *pass, const struct ir_module *m)
{
    const struct pass_options *o = pass->options;
    struct fuse_panels p = {
        .arena = &pass->scratch, .columns = o->panel_columns, .rows = o->panel_rows, .pairs = o->panel_pairs};
    find_loops(&p, m);
    return p;
}

static double rows_of(const struct ir_func *f, const struct ir_node *product)
{
    const struct ir_type *x = ir_type(f, product->args[0]);
    int64_t k = pass_extent(x, product->attr[2]);
    return k ? (double)ir_type_elements(x) / (double)k : 0;
}

/* The loop around f before which panels of a product's operand are made; NULL: none. */
static struct fuse_loop *loop_of(const struct fuse_panels *p, const struct ir_func *f, const struct ir_node *product)
{
    struct fuse_loop *loop = &p->loops[ir_func_index(f)];
    const struct ir_node *n = ir_get(f, product->args[1]);
    return rows_of(f, product) < MANY_ROWS && loop->captured && n->op == OP_param && n->attr[0].v[0] >= loop->captured
               ? loop
               : NULL;
}

/* What is computed element by element from several places is not for a copy. */
static bool is_plain(const struct ir_func *f, ir_value v)
{
    while (ir_ops[ir_get(f, v)->op].emit == EMIT_view) v = ir_get(f, v)->args[0];
    return ir_ops[ir_get(f, v)->op].emit != EMIT_index;
}

/* By value, of products: the last dimension that something cuts the columns of the result into, 0 if nothing does. */
static const int64_t *find_cuts(struct fuse_panels *p, const struct ir_func *f)
{
    if (p->f == f) return p->cut;
    p->f = f;
    p->attention = NULL;
    p->uses = ir_use_counts(f, p->arena);
    p->cut = arena_new_array(p->arena, int64_t, f->count);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_reshape && n->type.rank) p->cut[n->args[0]] = n->type.dim[n->type.rank - 1];
    }
    return p->cut;
}

/* Slices side by side, as the taps of a convolution: what reads these has tiles, and packs, by their lines. */
static bool is_slices(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_reshape) v = ir_get(f, v)->args[0];
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_concat) return false;
    v = n->args[0];
    while (ir_get(f, v)->op == OP_reshape) v = ir_get(f, v)->args[0];
    return ir_get(f, v)->op == OP_slice;
}

static bool is_paired(const struct fuse_panels *p, const struct ir_node *n)
{
    return n->type.dtype == IR_BF16 && p->pairs;
}

/* Is the last contracted dimension? */
static bool is_odd(const struct ir_func *f, const struct ir_node *n)
{
    return ir_type(f, n->args[1])->dim[n->attr[3].v[n->attr[3].n - 1]] % 2 != 0;
}

bool fuse_is_attention(struct fuse_panels *p, const struct ir_func *f, ir_value v)
{
    find_cuts(p, f);
    if (!p->attention) p->attention = fuse_mark_attention(f, true, p->arena);
    return p->attention[v];
}

/* The groups of a convolution, or heads: a product's batch that stands between rows and columns afterwards is stored
 * there. */
bool fuse_wants_rows_first(struct fuse_panels *p, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v), *dot = n->op == OP_transpose ? ir_get(f, n->args[0]) : NULL;
    if (!dot || dot->op != OP_dot || !dot->attr[0].n || dot->attr[5].n || dot->attr[6].n) return false;
    uint32_t batch = dot->attr[0].n, rows = ir_type(f, dot->args[0])->rank - batch - dot->attr[2].n;
    if (!rows || batch + rows == n->type.rank) return false;
    for (uint32_t i = 0; i < n->type.rank; i++)
        if (n->attr[0].v[i] != (i < rows ? batch + i : i < rows + batch ? i - rows : i)) return false;
    return !fuse_is_attention(p, f, n->args[0]) && p->uses[n->args[0]] == 1;
}

ir_value fuse_rows_first(struct ir_builder *b, const struct ir_func *f, const struct ir_node *node, const ir_value *map)
{
    struct ir_node dot = *ir_get(f, node->args[0]);
    static const int64_t one = 1;
    ir_value args[] = {map[dot.args[0]], map[dot.args[1]]};
    dot.args = args;
    dot.type = node->type;
    dot.attr[6] = (struct ir_ints){&one, 1};
    return ir_make(b, dot);
}

bool fuse_wants_even(struct fuse_panels *p, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_dot || !is_paired(p, n) || !n->attr[3].n || n->attr[4].n || n->attr[5].n || !is_odd(f, n))
        return false;
    const struct ir_type *x = ir_type(f, n->args[0]), *y = ir_type(f, n->args[1]);
    int64_t k = pass_extent(y, n->attr[3]), least = EVEN_LEAST * k * pass_extent(y, n->attr[1]);
    return k >= EVEN_LEAST && ir_type_elements(x) >= least && ir_type_elements(y) >= least &&
           !is_slices(f, n->args[0]) && is_plain(f, n->args[0]) && !fuse_is_attention(p, f, v);
}

static ir_value even(struct ir_builder *b, ir_value v, struct ir_ints contract)
{
    struct ir_type type = *ir_type(b->f, v);
    int64_t none[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0};
    high[contract.v[contract.n - 1]] = 1;
    return ir_pad(b, v, ir_number(b, ir_type_scalar((enum ir_dtype)type.dtype), 0), none, high, none);
}

ir_value fuse_even(struct ir_builder *b, const struct ir_node *node, const ir_value *map)
{
    ir_value x = even(b, map[node->args[0]], node->attr[2]), y = even(b, map[node->args[1]], node->attr[3]);
    return ir_dot(b, x, y, node->attr[0], node->attr[1], node->attr[2], node->attr[3]);
}

bool fuse_wants_panels(struct fuse_panels *p, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (!p->columns || n->op != OP_dot || n->attr[1].n || n->attr[4].n || n->attr[5].n) return false;
    const struct ir_type *x = ir_type(f, n->args[0]), *y = ir_type(f, n->args[1]);
    bool pairs = is_paired(p, n);
    if (n->type.dtype != IR_F32 && n->type.dtype != IR_BF16 && n->type.dtype != IR_F16) return false;
    if (pairs && (!n->attr[3].n || x->rank == IR_MAX_RANK)) return false;
    int64_t k = pass_extent(y, n->attr[3]), elements = ir_type_elements(y);
    const struct fuse_loop *loop = loop_of(p, f, n);
    double rows = rows_of(f, n);
    bool turned = n->attr[3].n && n->attr[3].v[n->attr[3].n - 1] + 1 == y->rank;
    int64_t least = least_elements[p->columns > NARROW_PANEL][turned];
    if (!turned && k < FEW_STEPS) least = PANEL_ELEMENTS;
    if (loop && rows >= ROUND_ROWS && rows * loop->times >= FUSE_PANEL_ROWS) {
        if (elements < ROUND_ELEMENTS || elements < k * p->columns) return false;
    } else if (elements < least || elements > ir_type_elements(x) || rows < FUSE_PANEL_ROWS ||
               elements < 2 * k * p->columns) {
        return false;
    }
    if (is_slices(f, n->args[0])) return false;
    struct pass_dims free = pass_free_dims(y, n->attr[1], n->attr[3]);
    int64_t inner = find_cuts(p, f)[v];
    if (!free.n || y->rank + 1u + pairs - (free.n - 1) > IR_MAX_RANK) return false;
    if (free.n > 1 && y->dim[free.v[free.n - 1]] % p->columns) return false;
    if ((inner && inner % p->columns && inner < elements / k) || !is_plain(f, n->args[1])) return false;
    return !fuse_is_attention(p, f, v);
}

/* More columns than rows: workers share the columns out, and each of them would pack rows of x for itself, which lie
 * k-major: gradients of weights. */
bool fuse_wants_rows(struct fuse_panels *p, const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (!p->columns || !p->rows || n->op != OP_dot || n->type.dtype != IR_F32) return false;
    if (n->attr[0].n || n->attr[4].n || n->attr[5].n || n->attr[2].n + 2 > IR_MAX_RANK) return false;
    const struct ir_type *x = ir_type(f, n->args[0]);
    struct pass_dims free = pass_free_dims(x, n->attr[0], n->attr[2]);
    if (!free.n || free.v[free.n - 1] + 1 != x->rank || x->dim[x->rank - 1] < SHARED_ROWS) return false;
    int64_t k = pass_extent(x, n->attr[2]), columns = k ? ir_type_elements(ir_type(f, n->args[1])) / k : 0;
    int64_t rows = k ? ir_type_elements(x) / k : 0, inner = find_cuts(p, f)[v];
    if (k < SHARED_ROWS || rows < SHARED_ROWS || columns <= rows || columns < SHARED_PANELS * p->columns) return false;
    if ((inner && inner % p->columns && inner < columns) || !is_plain(f, n->args[0]) || is_slices(f, n->args[0]))
        return false;
    return !fuse_is_attention(p, f, v);
}

/* [panel, contracted dimensions, column of the panel] of y; of bfloat16 with the steps of the last contracted dimension
 * in pairs, and the two of a pair last: [.., pair, column of the panel, 2]. */
static ir_value pack(struct ir_builder *b, ir_value y, struct ir_ints contract, int64_t columns)
{
    struct ir_type from = *ir_type(b->f, y);
    struct pass_dims free = pass_free_dims(&from, (struct ir_ints){NULL, 0}, contract);
    uint32_t rank = contract.n;
    int64_t order[IR_MAX_RANK], shape[IR_MAX_RANK], none[IR_MAX_RANK] = {0}, high[IR_MAX_RANK] = {0}, n = 1;
    for (uint32_t i = 0; i < rank; i++) order[i] = contract.v[i], shape[i] = from.dim[contract.v[i]];
    for (uint32_t i = 0; i < free.n; i++) order[rank + i] = free.v[i], n *= from.dim[free.v[i]];
    int64_t more = (columns - n % columns) % columns, panels = (n + more) / columns;
    bool first = free.n == 1; /* where it stands: then no position is found by division */
    ir_value zero = ir_number(b, ir_type_scalar((enum ir_dtype)from.dtype), 0);
    high[first ? free.v[0] : rank] = more;
    if (more && first) y = ir_pad(b, y, zero, none, high, none);
    shape[rank] = n + (first ? more : 0);
    y = ir_reshape(b, ir_transpose(b, y, order), rank + 1, shape);
    if (more && !first) y = ir_pad(b, y, zero, none, high, none);
    bool pairs = from.dtype == IR_BF16;
    if (pairs) shape[rank - 1] /= 2, shape[rank] = 2;
    shape[rank + pairs] = panels, shape[rank + pairs + 1] = columns;
    order[0] = rank + pairs;
    for (uint32_t i = 0; i < rank; i++) order[1 + i] = i;
    order[rank + 1] = rank + pairs + 1, order[rank + 2] = rank;
    return ir_transpose(b, ir_reshape(b, y, rank + 2 + pairs, shape), order);
}

/* x for a y in pairs: the last contracted dimension is two. */
static ir_value split(struct ir_builder *b, ir_value x, struct ir_ints *contract, int64_t *dims)
{
    struct ir_type type = *ir_type(b->f, x);
    int64_t last = contract->v[contract->n - 1];
    memmove(&type.dim[last + 1], &type.dim[last], (type.rank++ - (uint32_t)last) * sizeof type.dim[0]);
    type.dim[last] /= 2, type.dim[last + 1] = 2;
    for (uint32_t i = 0; i < contract->n; i++) dims[i] = contract->v[i] + (contract->v[i] > last);
    dims[contract->n] = last + 1;
    *contract = (struct ir_ints){dims, contract->n + 1};
    return ir_reshape(b, x, type.rank, type.dim);
}

/* An operand as it is multiplied: pairs of an even number of steps, or widened. */
static ir_value factor(const struct fuse_panels *p, struct ir_builder *b, ir_value v, struct ir_ints contract)
{
    const struct ir_type *type = ir_type(b->f, v);
    if (type->dtype != IR_BF16 || !p->pairs) return ir_cast(b, v, IR_F32);
    return type->dim[contract.v[contract.n - 1]] % 2 ? even(b, v, contract) : v;
}

static struct ir_type packed_type(const struct fuse_panels *p, const struct ir_type *y, struct ir_ints contract)
{
    bool pairs = y->dtype == IR_BF16 && p->pairs;
    int64_t shape[IR_MAX_RANK], n = ir_type_elements(y);
    for (uint32_t i = 0; i < contract.n; i++) shape[1 + i] = y->dim[contract.v[i]], n /= shape[1 + i];
    shape[0] = (n + p->columns - 1) / p->columns;
    if (pairs) shape[contract.n] = (shape[contract.n] + 1) / 2;
    shape[1 + contract.n] = p->columns, shape[2 + contract.n] = 2;
    return ir_type_of(pairs ? IR_BF16 : IR_F32, contract.n + 2 + pairs, shape);
}

/* The panels are made before the loop: a new parameter of its body, one for all products that read them. */
static ir_value take_packed(const struct fuse_panels *p, struct ir_builder *b, struct fuse_loop *loop,
                            const struct ir_node *weights, struct ir_ints contract)
{
    struct packed made = {.number = weights->attr[0].v[0], .contract = contract};
    for (size_t i = 0; i < loop->packed.count; i++) {
        const struct packed *k = &loop->packed.items[i];
        if (k->number == made.number && k->contract.n == contract.n &&
            memcmp(k->contract.v, contract.v, contract.n * sizeof *contract.v) == 0)
            return k->param;
    }
    made.param = ir_param_new(b, "panels", packed_type(p, &weights->type, contract), -1);
    vec_push(p->arena, &loop->packed, made);
    return made.param;
}

ir_value fuse_panels(const struct fuse_panels *p, struct ir_builder *b, const struct ir_func *from,
                     const struct ir_node *node, const ir_value *map)
{
    const struct ir_node *y = ir_get(from, node->args[1]);
    struct fuse_loop *loop = loop_of(p, from, node);
    int64_t dims[IR_MAX_RANK], of_x[IR_MAX_RANK], n = ir_type_elements(&y->type) / pass_extent(&y->type, node->attr[3]);
    ir_value args[] = {factor(p, b, map[node->args[0]], node->attr[2]),
                       loop ? take_packed(p, b, loop, y, node->attr[3])
                            : pack(b, factor(p, b, map[node->args[1]], node->attr[3]), node->attr[3], p->columns)};
    for (uint32_t i = 0; i < node->attr[3].n; i++) dims[i] = 1 + i;
    dims[node->attr[3].n] = 2 + node->attr[3].n; /* of pairs */
    struct ir_node dot = {.op = OP_dot, .arg_count = 2, .args = args, .place = node->place};
    dot.attr[2] = node->attr[2];
    if (is_paired(p, node)) args[0] = split(b, args[0], &dot.attr[2], of_x);
    dot.attr[3] = (struct ir_ints){dims, dot.attr[2].n};
    dot.attr[5] = (struct ir_ints){&n, 1};
    return ir_cast(b, ir_reshape(b, ir_make(b, dot), node->type.rank, node->type.dim), node->type.dtype);
}

ir_value fuse_loop(const struct fuse_panels *p, struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    const struct fuse_loop *loop = &p->loops[n->func];
    if (!loop->packed.count) return 0;
    uint32_t count = n->arg_count, carried = (uint32_t)n->attr[0].v[0];
    ir_value *args = arena_new_array(p->arena, ir_value, count + loop->packed.count);
    for (uint32_t i = 0; i < count; i++) args[i] = map[n->args[i]];
    for (size_t i = 0; i < loop->packed.count; i++) {
        const struct packed *k = &loop->packed.items[i];
        args[count++] = pack(b, factor(p, b, map[n->args[k->number]], k->contract), k->contract, p->columns);
    }
    return ir_loop(b, b->f->module->funcs.items[n->func], args[0], args + 1, carried, n->attr[1].v[0] != 0,
                   args + 1 + carried, count - 1 - carried);
}

ir_value fuse_rows(const struct fuse_panels *p, struct ir_builder *b, const struct ir_func *from,
                   const struct ir_node *node, const ir_value *map)
{
    struct ir_ints contract = node->attr[2];
    const struct ir_type *x = ir_type(from, node->args[0]);
    int64_t dims[IR_MAX_RANK], m = ir_type_elements(x) / pass_extent(x, contract), count = (m + p->rows - 1) / p->rows;
    int64_t numbers[] = {0, m};
    ir_value args[] = {pack(b, map[node->args[0]], contract, (m + count - 1) / count), map[node->args[1]]};
    for (uint32_t i = 0; i < contract.n; i++) dims[i] = 1 + i;
    struct ir_node dot = {.op = OP_dot, .arg_count = 2, .args = args, .place = node->place};
    dot.attr[2] = (struct ir_ints){dims, contract.n};
    dot.attr[3] = node->attr[3];
    dot.attr[5] = (struct ir_ints){numbers, 2};
    return ir_reshape(b, ir_make(b, dot), node->type.rank, node->type.dim);
}
