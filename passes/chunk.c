/* The last projection and its loss in chunks. A product of all rows (tokens) with a wide matrix, what is made of it row
 * by row (the loss and the gradient of the logits), and the products and sums that read that, become a loop over
 * runs of rows: logits exist for one run at a time. What is small and row by row (losses, predictions, the gradient of
 * the hidden rows) is put together, what is summed over rows (the gradients of weights) is added up in one
 * buffer. It needs no pattern of a loss: chunk_region.c finds what is between rows and sums, with masks, z-loss, soft
 * labels and metrics as they come. (Liger Kernel's fused linear cross-entropy does this for one loss by hand.)
 *
 * Sums over rows are added chunk by chunk, products of 16-bit floats in float32; --numerics invariant knows no
 * such order, and nothing is chunked there. */
#include "passes/chunk.h"
#include <string.h>

/* Automatic: rows of a chunk, with which products are as fast as whole ones and a gradient of weights is not added to
 * too often: on a GPU that takes as long as the product. */
enum { ROWS = 1024, ROWS_OF_BLOCKS = 4096 };

struct chunk {
    const struct chunk_region *r;
    struct ir_builder outer, inner;
    ir_value *map, *made; /* by value: in the outer function, and in the loop's body */
    ir_value *into;       /* by value: of a sum, the node outside that adds it to something */
    ir_value number;      /* of the chunk */
    VEC(ir_value) outputs, captured;
};

/* ---------------------------------------------------------------- parts */

static struct ir_type part_type(const struct chunk_region *r, ir_value v)
{
    struct ir_type part;
    if (!chunk_extents(ir_type(r->f, v), r->run[v], r->size, &part)) BUG("the rows of a chunk are no box");
    return part;
}

/* Parts of a value, seen with a dimension of so many chunks before its rows. */
static struct ir_type split_type(const struct chunk_region *r, ir_value v, int64_t chunks)
{
    struct ir_type part = part_type(r, v);
    int64_t shape[IR_MAX_RANK + 1];
    uint32_t at = r->run[v].first;
    for (uint32_t d = 0; d <= part.rank; d++) shape[d] = d == at ? chunks : part.dim[d < at ? d : d - 1];
    return ir_type_of((enum ir_dtype)part.dtype, part.rank + 1u, shape);
}

static void starts_at(struct chunk *c, ir_value v, ir_value *starts)
{
    for (uint32_t d = 0; d <= ir_type(c->r->f, v)->rank; d++)
        starts[d] = d == c->r->run[v].first ? c->number : ir_scalar(&c->inner, IR_I32, 0);
}

static ir_value read_part(struct chunk *c, ir_value v, ir_value whole)
{
    struct ir_type all = split_type(c->r, v, c->r->rows / c->r->size), one = split_type(c->r, v, 1);
    struct ir_type part = part_type(c->r, v);
    ir_value starts[IR_MAX_RANK + 1];
    starts_at(c, v, starts);
    ir_value rows = ir_dynamic_slice(&c->inner, ir_reshape(&c->inner, whole, all.rank, all.dim), starts, one.dim);
    return ir_reshape(&c->inner, rows, part.rank, part.dim);
}

static ir_value write_part(struct chunk *c, ir_value v, ir_value into)
{
    struct ir_type one = split_type(c->r, v, 1);
    ir_value starts[IR_MAX_RANK + 1];
    starts_at(c, v, starts);
    return ir_dynamic_update(&c->inner, into, ir_reshape(&c->inner, c->made[v], one.rank, one.dim), starts);
}

/* The numbers of a chunk's rows along one dimension of their run: those of a part, and where it begins. */
static ir_value row_numbers(struct chunk *c, ir_value v)
{
    const struct ir_node *n = ir_get(c->r->f, v);
    struct ir_builder *b = &c->inner;
    struct ir_type part = part_type(c->r, v);
    uint32_t dim = (uint32_t)n->attr[0].v[0], last = c->r->run[v].first + c->r->run[v].count;
    ir_value first = c->number;
    if (part.dim[dim] == n->type.dim[dim]) return ir_iota(b, part, dim);
    for (uint32_t d = last - 1; d > dim; d--)
        first = ir_binary(b, OP_div, first, ir_number_like(b, first, (double)(n->type.dim[d] / part.dim[d])));
    first = ir_binary(b, OP_rem, first, ir_number_like(b, first, (double)(n->type.dim[dim] / part.dim[dim])));
    first = ir_binary(b, OP_mul, first, ir_number_like(b, first, (double)part.dim[dim]));
    first = ir_broadcast_to(b, ir_cast(b, first, (enum ir_dtype)part.dtype), part.rank, part.dim);
    return ir_binary(b, OP_add, ir_iota(b, part, dim), first);
}

/* ---------------------------------------------------------------- the loop's body */

static bool is_narrow(const struct ir_node *n) { return n->type.dtype == IR_BF16 || n->type.dtype == IR_F16; }

static struct ir_type carried_type(const struct chunk_region *r, ir_value v)
{
    struct ir_type type = r->kind[v] == CHUNK_ROWS ? split_type(r, v, r->rows / r->size) : *ir_type(r->f, v);
    if (r->kind[v] == CHUNK_SUM && is_narrow(ir_get(r->f, v))) type.dtype = IR_F32;
    return type;
}

/* A node of the region for the rows of one chunk; `carry`: of a sum, what it was before. */
static ir_value remade(struct chunk *c, ir_value v, ir_value carry)
{
    const struct chunk_region *r = c->r;
    const struct ir_node *n = ir_get(r->f, v);
    struct ir_node made = *n;
    struct ir_builder *b = &c->inner;
    ir_value *args = arena_new_array(&r->pass->scratch, ir_value, n->arg_count + 1u);
    int64_t limit[IR_MAX_RANK];
    for (uint32_t i = 0; i < n->arg_count; i++) args[i] = c->made[n->args[i]];
    made.args = args;
    if (r->kind[v] == CHUNK_SUM) {
        if (n->op == OP_scatter_add) args[0] = carry;
        for (uint32_t i = 0; i < n->arg_count && is_narrow(n); i++) args[i] = ir_cast(b, args[i], IR_F32);
        ir_value sum = ir_make(b, made);
        return n->op == OP_scatter_add ? sum : ir_binary(b, OP_add, carry, sum);
    }
    made.type = part_type(r, v);
    if (n->op == OP_iota) return row_numbers(c, v);
    if (n->op == OP_slice || n->op == OP_dynamic_slice) { /* rows as they are */
        struct ir_ints *of = &made.attr[n->op == OP_slice];
        for (uint32_t d = 0; d < n->type.rank; d++)
            limit[d] = made.type.dim[d] == n->type.dim[d] ? of->v[d] : made.type.dim[d];
        of->v = limit;
    }
    return ir_make(b, made);
}

static bool is_read_outside(const struct chunk_region *r, const uint32_t *outside, ir_value v)
{
    return r->kind[v] && r->behind[v] && outside[v];
}

/* By value: how often it is read outside of the region. */
static uint32_t *reads_outside(const struct chunk_region *r)
{
    uint32_t *reads = arena_new_array(&r->pass->scratch, uint32_t, r->f->count);
    for (size_t i = 0; i < r->f->results.count; i++) reads[r->f->results.items[i].value]++;
    for (ir_value v = r->f->count;
         v-- > 1;) /* what is made inside once more is made outside only if it is read there */
        for (uint32_t i = 0;
             r->live[v] && (!r->kind[v] || (!r->behind[v] && reads[v])) && i < ir_get(r->f, v)->arg_count; i++)
            reads[ir_get(r->f, v)->args[i]]++;
    return reads;
}

/* What the region reads, but for numbers that it makes itself. */
static void capture(struct chunk *c)
{
    const struct chunk_region *r = c->r;
    bool *known = arena_new_array(&r->pass->scratch, bool, r->f->count);
    for (ir_value v = 1; v < r->f->count; v++)
        for (uint32_t i = 0; r->kind[v] && i < ir_get(r->f, v)->arg_count; i++) {
            ir_value a = ir_get(r->f, v)->args[i];
            if (r->kind[a] || known[a] || ir_is_number(ir_get(r->f, a))) continue;
            known[a] = true;
            vec_push(&r->pass->scratch, &c->captured, a);
        }
}

static ir_value initial(struct chunk *c, ir_value v)
{
    const struct ir_node *n = ir_get(c->r->f, v);
    if (c->r->kind[v] == CHUNK_SUM && n->op == OP_scatter_add) return c->map[n->args[0]];
    if (c->into[v]) {
        const struct ir_node *add = ir_get(c->r->f, c->into[v]);
        return c->map[add->args[add->args[0] == v]];
    }
    return ir_number(&c->outer, carried_type(c->r, v), 0);
}

static void make_loop(struct chunk *c)
{
    const struct chunk_region *r = c->r;
    struct arena *a = &r->pass->scratch;
    uint32_t n = (uint32_t)c->outputs.count;
    ir_value *first = arena_new_array(a, ir_value, n + 1), *carry = arena_new_array(a, ir_value, r->f->count),
             *captured = arena_new_array(a, ir_value, c->captured.count + 1);
    c->inner = (struct ir_builder){.f = pass_new_body(r->pass, c->outer.f->module, r->f, "chunks"),
                                   .place = c->outer.place};
    c->number = ir_param_new(&c->inner, "i", ir_type_scalar(IR_I32), -1);
    for (uint32_t i = 0; i < n; i++) {
        ir_value v = c->outputs.items[i];
        first[i] = initial(c, v);
        carry[v] = ir_param_new(&c->inner, "rows", carried_type(r, v), -1);
    }
    for (size_t i = 0; i < c->captured.count; i++) {
        ir_value v = c->captured.items[i];
        captured[i] = c->map[v];
        ir_value whole = ir_param_new(&c->inner, "captured", *ir_type(r->f, v), -1);
        c->made[v] = r->run[v].count ? read_part(c, v, whole) : whole;
    }
    for (ir_value v = 1; v < r->f->count; v++) {
        const struct ir_node *node = ir_get(r->f, v);
        c->inner.place = node->place;
        if (r->kind[v]) c->made[v] = remade(c, v, carry[v]);
        else if (ir_is_number(node)) c->made[v] = ir_remake(&c->inner, node, NULL);
    }
    for (uint32_t i = 0; i < n; i++) {
        ir_value v = c->outputs.items[i];
        c->inner.place = ir_get(r->f, v)->place;
        ir_result_add(&c->inner, "rows", r->kind[v] == CHUNK_SUM ? c->made[v] : write_part(c, v, carry[v]), -1);
    }
    ir_value chunks = ir_scalar(&c->outer, IR_I32, (double)(r->rows / r->size));
    ir_value loop = ir_loop(&c->outer, c->inner.f, chunks, first, n, false, captured, (uint32_t)c->captured.count);
    for (uint32_t i = 0; i < n; i++) {
        ir_value v = c->outputs.items[i], made = ir_proj(&c->outer, loop, i);
        const struct ir_type *type = ir_type(r->f, v);
        if (r->kind[v] == CHUNK_SUM) made = ir_cast(&c->outer, made, (enum ir_dtype)type->dtype);
        else made = ir_reshape(&c->outer, made, type->rank, type->dim);
        c->map[c->into[v] ? c->into[v] : v] = made;
    }
}

/* ---------------------------------------------------------------- the function around it */

/* The node outside that alone reads a sum, and adds it to what is there before the loop: the loop begins with that. */
static ir_value added_to(const struct chunk_region *r, const uint32_t *outside, ir_value v)
{
    if (r->kind[v] != CHUNK_SUM || outside[v] != 1 || is_narrow(ir_get(r->f, v)) ||
        ir_get(r->f, v)->op == OP_scatter_add)
        return 0;
    for (ir_value u = v + 1; u < r->f->count; u++) {
        const struct ir_node *n = ir_get(r->f, u);
        if (!r->live[u] || n->op != OP_add || (n->args[0] != v && n->args[1] != v)) continue;
        return r->behind[n->args[n->args[0] == v]] ? 0 : u;
    }
    return 0;
}

/* What has to stand before the loop: what it reads, and begins with. */
static void want_first(const struct chunk *c, bool *first)
{
    const struct ir_func *f = c->r->f;
    for (size_t i = 0; i < c->captured.count; i++) first[c->captured.items[i]] = true;
    for (size_t i = 0; i < c->outputs.count; i++) {
        ir_value v = c->outputs.items[i];
        const struct ir_node *n = ir_get(f, c->into[v] ? c->into[v] : v);
        for (uint32_t k = 0; k < n->arg_count && (c->into[v] || n->op == OP_scatter_add); k++)
            first[n->args[k]] |= !c->r->behind[n->args[k]];
    }
    for (ir_value v = f->count; v-- > 1;)
        for (uint32_t i = 0; first[v] && i < ir_get(f, v)->arg_count; i++) first[ir_get(f, v)->args[i]] = true;
}

/* What stands before the region and what its loop needs, the loop, then the rest. */
static void rebuild(const struct chunk_region *r, struct ir_func *to)
{
    struct arena *a = &r->pass->scratch;
    const struct ir_func *f = r->f;
    struct chunk c = {.r = r, .outer = {.f = to, .place = ir_get(f, r->seed)->place}};
    const uint32_t *outside = reads_outside(r);
    bool *wanted[2];
    for (uint32_t i = 0; i < 2; i++) wanted[i] = arena_new_array(a, bool, f->count);
    c.map = arena_new_array(a, ir_value, f->count);
    c.made = arena_new_array(a, ir_value, f->count);
    c.into = arena_new_array(a, ir_value, f->count);
    for (size_t i = 0; i < f->params.count; i++)
        c.map[f->params.items[i].value] = ir_param_new(&c.outer, f->params.items[i].name, f->params.items[i].type,
                                                       f->params.items[i].slot);
    capture(&c);
    for (ir_value v = 1; v < f->count; v++) {
        if (is_read_outside(r, outside, v)) {
            vec_push(a, &c.outputs, v);
            c.into[v] = added_to(r, outside, v);
        }
        wanted[1][v] = r->live[v] && !(r->kind[v] && r->behind[v]) && (!r->kind[v] || outside[v]) &&
                       ir_get(f, v)->op != OP_param;
    }
    want_first(&c, wanted[0]);
    for (ir_value v = 1; v < f->count; v++)
        wanted[0][v] = wanted[1][v] && !r->behind[v] && (wanted[0][v] || v < r->seed);
    pass_copy_nodes(&c.outer, f, wanted[0], c.map, pass_copy_node, r->pass);
    make_loop(&c);
    pass_copy_nodes(&c.outer, f, wanted[1], c.map, pass_copy_node, r->pass);
    for (size_t i = 0; i < f->results.count; i++)
        ir_result_add(&c.outer, f->results.items[i].name, c.map[f->results.items[i].value], f->results.items[i].slot);
}

/* ---------------------------------------------------------------- how many rows */

static bool fits(const struct chunk_region *r, int64_t size)
{
    struct ir_type part;
    bool good = r->rows % size == 0;
    for (ir_value v = 1; v < r->f->count && good; v++)
        good = !r->run[v].count || (chunk_extents(ir_type(r->f, v), r->run[v], size, &part) && part.rank < IR_MAX_RANK);
    return good;
}

/* The size near the wanted one into which rows can be cut: rather fewer rows than more. 0: there is none. */
static int64_t size_of(const struct chunk_region *r, int64_t wanted)
{
    for (int64_t size = wanted; size > wanted / 4 && size > 0; size--)
        if (size < r->rows && fits(r, size)) return size;
    for (int64_t size = wanted + 1; size <= 4 * wanted && 2 * size <= r->rows; size++)
        if (fits(r, size)) return size;
    return 0;
}

/* Notes what was done, or why not. */
static void report(struct ir_module *m, const struct chunk_region *r)
{
    const struct ir_type *wide = ir_type(r->f, r->seed);
    struct ir_chunks c = {.place = ir_get(r->f, r->seed)->place,
                          .blamed = r->why ? ir_get(r->f, r->blamed)->place : 0,
                          .rows = r->rows,
                          .size = r->why ? 0 : r->size,
                          .type = *wide,
                          .why = r->why};
    for (size_t i = 0; i < m->chunks.count; i++) /* evaluation computes the same */
        if (m->chunks.items[i].place == c.place && m->chunks.items[i].size == c.size) return;
    vec_push(&m->arena, &m->chunks, c);
}

/* The next region of the function, from a value on; false: there is none. */
static bool find(struct pass *p, struct ir_module *m, const struct ir_func *f, uint64_t least, struct chunk_region *r)
{
    const bool *live = ir_live(f, &p->scratch), *is_projection = chunk_projections(p, f);
    for (ir_value v = 1; v < f->count; v++) {
        if (!is_projection[v] || chunk_bytes(f, v) < least) continue;
        struct chunk_region side[2];
        for (uint32_t i = 0; i < 2; i++) {
            side[i] = (struct chunk_region){.pass = p, .f = f, .live = live, .seed = v};
            if (!chunk_region_of(&side[i], i)) continue;
            int64_t rows = p->options->blocks ? ROWS_OF_BLOCKS : ROWS;
            side[i].size = size_of(&side[i], p->options->chunk_rows ? p->options->chunk_rows : rows);
            *r = side[i];
            if (r->size) return true;
            side[i].why = "its rows cannot be cut into equal parts of about that size", side[i].blamed = v;
        }
        report(m, &side[0]);
    }
    return false;
}

/* The module with the region's function made anew. */
static struct ir_module *with_loop(struct pass *p, const struct ir_module *m, const struct chunk_region *r)
{
    struct ir_module *to = ir_module_like(m);
    const uint32_t *order = ir_func_order(m, &p->scratch);
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *from = m->funcs.items[order[i]];
        if (from == r->f) rebuild(r, to->funcs.items[order[i]]);
        else ir_rebuild(from, to->funcs.items[order[i]], NULL, NULL, &p->scratch);
    }
    report(to, r);
    return to;
}

struct ir_module *pass_chunk(struct pass *p, struct ir_module *m)
{
    struct ir_module *in = m;
    struct chunk_region r;
    if (p->options->invariant || p->options->chunk_rows < 0) return m;
    m = chunk_cut(p, m);
    for (size_t i = 0, count = m->funcs.count; i < count; i++) {
        uint64_t least = chunk_least_bytes(p, m->funcs.items[i]);
        while (find(p, m, m->funcs.items[i], least, &r)) {
            struct ir_module *next = with_loop(p, m, &r);
            if (m != in) ir_module_free(m);
            m = next;
        }
    }
    return m;
}
