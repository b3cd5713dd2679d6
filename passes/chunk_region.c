/* Regions of pass chunk: from a large product of rows on, what reads it or leads from one large value to another.
 * Everything inside is row by row or a sum over rows; sums are read outside only. Rows are told from node to node by
 * the factors of the sharding rules (shard_rules.c): what may be split over devices may be split over time. */
#include "passes/chunk.h"
#include "passes/fuse.h"
#include "passes/shard_int.h"
#include <string.h>

/* Of a region: a whole network is for microbatches. Automatic: values of so many bytes are not to exist whole. */
/* Bytes of a product that is chunked, at least; of a GPU, where each chunk is launches. */
enum { MOST_PRODUCTS = 8, LARGE = 64 << 20, LARGE_OF_BLOCKS = 256 << 20 };

uint64_t chunk_bytes(const struct ir_func *f, ir_value v)
{
    const struct ir_type *t = ir_type(f, v);
    return t->dtype == IR_TUPLE ? 0 : (uint64_t)ir_type_elements(t) * ir_dtype_bytes((enum ir_dtype)t->dtype);
}

/* By value: products of rows with one matrix. Attention, which has one for each head, is no case for chunks; nor is
 * what a convolution's image gets from its taps, which fusing makes a convolution and never stores. */
bool *chunk_projections(struct pass *p, const struct ir_func *f)
{
    const bool *live = ir_live(f, &p->scratch), *of_taps = fuse_tap_products(p->options, f, &p->scratch);
    bool *is = arena_new_array(&p->scratch, bool, f->count);
    for (ir_value v = 1; v < f->count; v++)
        is[v] = live[v] && !of_taps[v] && ir_get(f, v)->op == OP_dot && !ir_get(f, v)->attr[0].n;
    return is;
}

/* The least bytes of a product that is to be chunked: where a number of rows is asked for, the largest ones are. */
uint64_t chunk_least_bytes(struct pass *p, const struct ir_func *f)
{
    uint64_t most = 0;
    if (!p->options->chunk_rows) return p->options->blocks ? LARGE_OF_BLOCKS : LARGE;
    const bool *is_projection = chunk_projections(p, f);
    for (ir_value v = 1; v < f->count; v++)
        if (is_projection[v] && chunk_bytes(f, v) > most) most = chunk_bytes(f, v);
    return most / 2 + 1;
}

bool chunk_extents(const struct ir_type *type, struct chunk_run run, int64_t size, struct ir_type *part)
{
    *part = *type;
    for (uint32_t d = run.first + run.count; d-- > run.first;) {
        int64_t extent = type->dim[d];
        if (size % extent != 0 && extent % size != 0) return false;
        part->dim[d] = size % extent == 0 ? extent : size;
        size /= part->dim[d];
    }
    return size == 1;
}

static bool fails(struct chunk_region *r, ir_value v, const char *why)
{
    if (!r->why) r->why = why, r->blamed = v;
    return false;
}

/* About as large as the product. */
static bool is_large(const struct chunk_region *r, ir_value v)
{
    const struct ir_type *t = ir_type(r->f, v);
    return t->dtype != IR_TUPLE && ir_type_elements(t) > ir_type_elements(ir_type(r->f, r->seed)) / 2;
}

static bool is_large_product(const struct chunk_region *r, ir_value v)
{
    return ir_get(r->f, v)->op == OP_dot && is_large(r, v) && r->kind[v] == CHUNK_ROWS;
}

/* ---------------------------------------------------------------- where rows lie */

/* Notes the rows of a value; two readers must agree. */
static bool lies(struct chunk_region *r, ir_value v, struct chunk_run run)
{
    const struct chunk_run *known = &r->run[v];
    const int64_t *dim = ir_type(r->f, v)->dim;
    for (; run.count > 1 && dim[run.first] == 1; run.count--) run.first++;
    while (run.count > 1 && dim[run.first + run.count - 1] == 1) run.count--;
    if (known->count && (known->first != run.first || known->count != run.count))
        return fails(r, v, "rows are read along different dimensions");
    r->run[v] = run;
    return true;
}

/* The dimensions that have these factors, in this order; count 0: none has one. False: some, or in another order. */
static bool find(const int8_t *factor, uint32_t rank, const int8_t *of, uint32_t n, struct chunk_run *run)
{
    uint32_t found = 0;
    *run = (struct chunk_run){0, 0};
    for (uint32_t d = 0; d < rank; d++)
        for (uint32_t i = 0; i < n; i++)
            if (factor[d] == of[i]) {
                if (!found) run->first = (uint8_t)d;
                if (i != found || d != run->first + found) return false;
                found++;
            }
    run->count = (uint8_t)found;
    return found == 0 || found == n;
}

/* The dimensions of `to` that hold the elements of a run of `from`. */
static bool reshaped(const struct ir_type *from, struct chunk_run run, const struct ir_type *to, struct chunk_run *out)
{
    int64_t before = 1, rows = 1, all = 1;
    for (uint32_t d = 0; d < run.first; d++) before *= from->dim[d];
    for (uint32_t d = run.first; d < run.first + (uint32_t)run.count; d++) rows *= from->dim[d];
    uint32_t first = 0, last;
    for (; first < to->rank && (before != 1 || to->dim[first] == 1); before /= to->dim[first++])
        if (before % to->dim[first]) return false;
    for (last = first; last < to->rank && all < rows; last++) all *= to->dim[last];
    *out = (struct chunk_run){(uint8_t)first, (uint8_t)(last - first)};
    return before == 1 && all == rows && last > first;
}

static bool relate_reshape(struct chunk_region *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    struct chunk_run run;
    bool forth = r->run[n->args[0]].count > 0;
    ir_value from = forth ? n->args[0] : v, to = forth ? v : n->args[0];
    if (!reshaped(ir_type(r->f, from), r->run[from], ir_type(r->f, to), &run))
        return fails(r, v, "rows are mixed with other dimensions");
    r->kind[v] = CHUNK_ROWS;
    return lies(r, to, run);
}

/* May sums of parts be added up? */
static bool is_sum(const struct ir_node *n)
{
    bool narrow = n->type.dtype == IR_BF16 || n->type.dtype == IR_F16;
    return (n->op == OP_dot && !n->attr[4].n) ||
           (!narrow && (n->op == OP_scatter_add || (n->op == OP_reduce_sum && !n->attr[1].n)));
}

static bool relate(struct chunk_region *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    struct shard_rule rule;
    struct chunk_run run = {0, 0};
    const int8_t *told = NULL;
    if (ir_is_number(n) || n->op == OP_iota) return r->kind[v] = CHUNK_ROWS, true;
    if (n->op == OP_reshape) return relate_reshape(r, v);
    shard_rule_of(r->f, n, &r->pass->scratch, &rule);
    if (n->op == OP_all_reduce)
        for (uint32_t d = 0; d < n->type.rank; d++) rule.arg[0][d] = rule.result[d] = (int8_t)d;
    if (r->run[v].count) run = r->run[v], told = rule.result + run.first;
    for (uint32_t i = 0; i < n->arg_count && !told; i++)
        if (r->kind[n->args[i]] == CHUNK_ROWS && r->run[n->args[i]].count)
            run = r->run[n->args[i]], told = rule.arg[i] + run.first;
    if (!told) return fails(r, v, "it has no rows");
    uint32_t rows = 0;
    for (uint32_t i = 0; i < run.count; i++) {
        if (told[i] < 0) return fails(r, v, "rows depend on each other");
        rows |= 1u << told[i];
    }
    int8_t factors[IR_MAX_RANK];
    memcpy(factors, told, run.count);
    uint32_t count = run.count;
    bool summed = (rule.summed & rows) == rows && is_sum(n);
    if ((rule.extremum | rule.whole | rule.window | (summed ? 0 : rule.summed)) & rows)
        return fails(r, v, "rows depend on each other");
    for (uint32_t i = 0; i < n->arg_count; i++) {
        if (!find(rule.arg[i], ir_type(r->f, n->args[i])->rank, factors, count, &run) ||
            (!run.count && r->run[n->args[i]].count) || (run.count && n->op == OP_scatter_add && i == 0))
            return fails(r, v, "rows depend on each other");
        if (run.count && !lies(r, n->args[i], run)) return false;
        if (r->kind[n->args[i]] == CHUNK_SUM) return fails(r, v, "rows depend on a sum over rows");
    }
    if (!find(rule.result, n->type.rank, factors, count, &run) || (!run.count && !summed))
        return fails(r, v, "rows depend on each other");
    r->kind[v] = run.count ? CHUNK_ROWS : CHUNK_SUM;
    return !run.count || lies(r, v, run);
}

/* ---------------------------------------------------------------- what belongs to it */

static bool reads_large(const struct chunk_region *r, const struct ir_node *n)
{
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (r->kind[n->args[i]] == CHUNK_ROWS && r->behind[n->args[i]] && is_large(r, n->args[i])) return true;
    return false;
}

/* Which values depend on large products of the region, and which lead to what is inside. */
static void look_around(const struct chunk_region *r, bool *leads)
{
    for (ir_value v = 1; v < r->f->count; v++) {
        const struct ir_node *n = ir_get(r->f, v);
        r->behind[v] = r->live[v] && is_large_product(r, v);
        for (uint32_t i = 0; r->live[v] && i < n->arg_count; i++) r->behind[v] |= r->behind[n->args[i]];
    }
    memset(leads, 0, r->f->count);
    for (ir_value v = r->f->count; v-- > 1;)
        if (r->live[v] && (leads[v] || (r->kind[v] && r->behind[v])))
            for (uint32_t i = 0; i < ir_get(r->f, v)->arg_count; i++) leads[ir_get(r->f, v)->args[i]] = true;
}

/* Is what is read by rows made inside, too? What is large, unless it is there anyway; what is only a view. */
static bool is_pulled_in(const struct chunk_region *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    enum ir_emit emit = (enum ir_emit)ir_ops[n->op].emit;
    if (r->kind[v] || !r->run[v].count || n->op == OP_param || n->op == OP_proj || emit == EMIT_control ||
        emit == EMIT_comm)
        return false;
    return is_large(r, v) || ir_is_number(n) || n->op == OP_iota || n->op == OP_broadcast;
}

static bool take_in(struct chunk_region *r, ir_value v)
{
    const struct ir_node *n = ir_get(r->f, v);
    bool good = relate(r, v);
    for (uint32_t i = 0; i < n->arg_count && good; i++)
        if (is_pulled_in(r, n->args[i])) good = take_in(r, n->args[i]);
    return good;
}

static bool grow(struct chunk_region *r)
{
    bool *leads = arena_new_array(&r->pass->scratch, bool, r->f->count), more = true;
    while (more) {
        more = false;
        look_around(r, leads);
        for (ir_value v = 1; v < r->f->count; v++) {
            if (!r->live[v] || r->kind[v] || !r->behind[v] || !(leads[v] || reads_large(r, ir_get(r->f, v)))) continue;
            if (!take_in(r, v)) return false;
            more = true;
        }
    }
    return true;
}

/* Sums are read outside, and nothing large is. */
static bool check(struct chunk_region *r)
{
    uint32_t products = 0;
    for (ir_value v = 1; v < r->f->count; v++) {
        const struct ir_node *n = ir_get(r->f, v);
        if (!r->kind[v]) continue;
        products += n->op == OP_dot;
        for (uint32_t i = 0; i < n->arg_count; i++)
            if (r->kind[n->args[i]] == CHUNK_SUM) return fails(r, v, "rows depend on a sum over rows");
        if (!relate(r, v)) return false; /* now that all is inside */
    }
    for (size_t i = 0; i < r->f->results.count; i++) {
        ir_value v = r->f->results.items[i].value;
        if (r->kind[v] == CHUNK_ROWS && r->behind[v] && is_large(r, v)) return fails(r, v, "it is a result");
    }
    return products <= MOST_PRODUCTS || fails(r, r->seed, "too much is computed row by row: microbatches are for that");
}

bool chunk_region_of(struct chunk_region *r, uint32_t side)
{
    struct arena *a = &r->pass->scratch;
    const struct ir_node *n = ir_get(r->f, r->seed);
    struct pass_dims dims[2];
    r->kind = arena_new_array(a, uint8_t, r->f->count);
    r->run = arena_new_array(a, struct chunk_run, r->f->count);
    r->behind = arena_new_array(a, bool, r->f->count);
    r->why = NULL;
    for (uint32_t i = 0; i < 2; i++) dims[i] = pass_free_dims(ir_type(r->f, n->args[i]), n->attr[i], n->attr[2 + i]);
    struct chunk_run run = {(uint8_t)(n->attr[0].n + (side ? dims[0].n : 0)), (uint8_t)dims[side].n};
    r->rows = 1;
    for (uint32_t d = run.first; d < run.first + (uint32_t)run.count; d++) r->rows *= n->type.dim[d];
    if (!run.count || r->rows < 2) return fails(r, r->seed, "it has no rows");
    return lies(r, r->seed, run) && take_in(r, r->seed) && grow(r) && check(r);
}
