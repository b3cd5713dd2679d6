/* accumulate and scan markers become loops; scans in scan.c. The batch is never copied: each iteration reads its rows
 * through reshape and dynamic_slice, which are index maps. Microbatch i of M holds, as in optax.microbatching, the rows
 * i, i + M, i + 2M, ... (strided: column i of the batch seen as [rows, M]) or, as in T5X, the i-th run of rows
 * (contiguous: row i of [M, rows]). Concatenated results are written back to the same rows; what an early end does
 * not reach is 0. A sum is divided by the nominal M for a mean; a running mean is right wherever it stops. What is
 * carried begins as the operand that stands for it and goes from one microbatch to the next. */
#include "passes/accumulate_scan.h"
#include <string.h>

enum { CONTIGUOUS = 1 };
enum { SUM, MEAN, RUNNING_MEAN, CONCATENATE, CARRY };

struct marker {
    struct pass *pass;
    const struct ir_node *n;
    struct ir_func *body; /* of one microbatch, rebuilt */
    uint32_t batched, captured, results;
    uint32_t inputs; /* batched and captured ones; what is carried comes after them */
    int64_t count;   /* microbatches, nominally */
    bool contiguous;
    const int64_t *kinds;
    bool *numbers; /* per input: a batch of row numbers, no operand of the loop */
};

static struct ir_type result_type(const struct marker *k, uint32_t i)
{
    return *ir_type(k->body, k->body->results.items[i].value);
}

/* [rows * M, ...] seen as [rows, M, ...] or [M, rows, ...], and the place of M. */
static struct ir_type split_type(const struct marker *k, const struct ir_type *part, uint32_t *dim)
{
    int64_t shape[IR_MAX_RANK + 1] = {part->dim[0], k->count};
    *dim = 1;
    if (k->contiguous) {
        shape[0] = k->count;
        shape[1] = part->dim[0];
        *dim = 0;
    }
    for (uint32_t i = 1; i < part->rank; i++) shape[i + 1] = part->dim[i];
    return ir_type_of((enum ir_dtype)part->dtype, part->rank + 1u, shape);
}

/* Starts of microbatch `i` in a tensor of split_type. */
static void starts_at(struct ir_builder *b, ir_value i, uint32_t dim, uint32_t rank, ir_value *starts)
{
    for (uint32_t k = 0; k < rank; k++) starts[k] = k == dim ? i : ir_scalar(b, IR_I32, 0);
}

static ir_value read_part(const struct marker *k, struct ir_builder *b, ir_value whole, ir_value i,
                          const struct ir_type *part)
{
    uint32_t dim;
    struct ir_type split = split_type(k, part, &dim), one = split;
    ir_value starts[IR_MAX_RANK + 1];
    one.dim[dim] = 1;
    starts_at(b, i, dim, split.rank, starts);
    ir_value rows = ir_dynamic_slice(b, ir_reshape(b, whole, split.rank, split.dim), starts, one.dim);
    ir_value made = ir_reshape(b, rows, part->rank, part->dim);
    /* The devices of a mesh share every microbatch as they would share the batch. */
    int64_t axes[IR_MAX_RANK] = {PASS_AS_BATCH};
    return ir_make(
        b, (struct ir_node){.op = OP_sharding_constraint, .arg_count = 1, .args = &made, .attr = {{axes, part->rank}}});
}

static ir_value write_part(const struct marker *k, struct ir_builder *b, ir_value into, ir_value i, ir_value part)
{
    uint32_t dim;
    struct ir_type split = split_type(k, ir_type(b->f, part), &dim), one = split;
    ir_value starts[IR_MAX_RANK + 1];
    one.dim[dim] = 1;
    starts_at(b, i, dim, split.rank, starts);
    return ir_dynamic_update(b, into, ir_reshape(b, part, one.rank, one.dim), starts);
}

/* Row numbers 0, 1, .. of the whole batch: those of a microbatch are computed, not read. */
static bool is_row_numbers(const struct ir_func *f, ir_value whole)
{
    const struct ir_node *n = ir_get(f, whole);
    return n->op == OP_iota && n->attr[0].v[0] == 0;
}

static ir_value part_numbers(const struct marker *k, struct ir_builder *b, ir_value i, const struct ir_type *part)
{
    ir_value row = ir_iota(b, *part, 0), first = ir_cast(b, i, (enum ir_dtype)part->dtype);
    first = ir_broadcast_to(b, first, part->rank, part->dim);
    if (k->contiguous) first = ir_binary(b, OP_mul, first, ir_number(b, *part, (double)part->dim[0]));
    else row = ir_binary(b, OP_mul, row, ir_number(b, *part, (double)k->count));
    return ir_binary(b, OP_add, first, row);
}

/* A float32 scalar (float64 for float64) as every element of something like `like`. */
static ir_value spread(struct ir_builder *b, ir_value scalar, ir_value like)
{
    struct ir_type type = *ir_type(b->f, like);
    return ir_broadcast_to(b, ir_cast(b, scalar, (enum ir_dtype)type.dtype), type.rank, type.dim);
}

static ir_value running_mean(struct ir_builder *b, ir_value carry, ir_value value, ir_value i)
{
    enum ir_dtype wide = ir_type(b->f, carry)->dtype == IR_F64 ? IR_F64 : IR_F32;
    ir_value at = ir_cast(b, i, wide), next = ir_binary(b, OP_add, at, ir_scalar(b, wide, 1));
    ir_value keep = ir_binary(b, OP_div, at, next), weight = ir_binary(b, OP_sub, ir_scalar(b, wide, 1), keep);
    return ir_binary(b, OP_add, ir_binary(b, OP_mul, carry, spread(b, keep, carry)),
                     ir_binary(b, OP_mul, value, spread(b, weight, value)));
}

/* The loop's body: parts of the batch, one call of the microbatch, accumulators. */
static struct ir_func *make_body(const struct marker *k, struct ir_module *m, const struct ir_type *carried,
                                 const ir_value *operands, const struct ir_func *f)
{
    struct arena *scratch = &k->pass->scratch;
    struct ir_func *body = ir_func_new(m, arena_format(scratch, "%s.loop%zu", k->body->name, m->funcs.count), false);
    struct ir_builder b = {.f = body, .place = k->n->place};
    uint32_t inputs = k->inputs, all = k->batched + k->captured, last = inputs;
    ir_value *carry = arena_new_array(scratch, ir_value, k->results),
             *args = arena_new_array(scratch, ir_value, all + 1);
    ir_value i = ir_param_new(&b, "i", ir_type_scalar(IR_I32), -1);
    for (uint32_t r = 0; r < k->results; r++)
        carry[r] = ir_param_new(&b, k->body->results.items[r].name, carried[r], -1);
    for (uint32_t a = 0; a < inputs; a++)
        if (!k->numbers[a]) args[a] = ir_param_new(&b, k->body->params.items[a].name, *ir_type(f, operands[a]), -1);
    for (uint32_t a = 0; a < k->batched; a++)
        args[a] = k->numbers[a] ? part_numbers(k, &b, i, &k->body->params.items[a].type)
                                : read_part(k, &b, args[a], i, &k->body->params.items[a].type);
    for (uint32_t r = 0; r < k->results; r++)
        if (k->kinds[r] == CARRY) args[last++] = carry[r];
    ir_value values = ir_call(&b, k->body, args, all);
    for (uint32_t r = 0; r < k->results; r++) {
        ir_value value = ir_proj(&b, values, r), next;
        if (k->kinds[r] == CONCATENATE) next = write_part(k, &b, carry[r], i, value);
        else if (k->kinds[r] == RUNNING_MEAN) next = running_mean(&b, carry[r], value, i);
        else next = k->kinds[r] == CARRY ? value : ir_binary(&b, OP_add, carry[r], value);
        ir_result_add(&b, k->body->results.items[r].name, next, -1);
    }
    return body;
}

/* Results of the marker in `out`. */
static void expand(const struct marker *k, struct ir_builder *b, const ir_value *operands, ir_value *out)
{
    struct arena *scratch = &k->pass->scratch;
    struct ir_type *types = arena_new_array(scratch, struct ir_type, k->results);
    ir_value *initial = arena_new_array(scratch, ir_value, k->results);
    uint32_t last = 1 + k->inputs;
    for (uint32_t r = 0; r < k->results; r++) {
        uint32_t dim;
        struct ir_type type = result_type(k, r);
        types[r] = k->kinds[r] == CONCATENATE ? split_type(k, &type, &dim) : type;
        initial[r] = k->kinds[r] == CARRY ? operands[last++] : ir_number(b, types[r], 0);
    }
    struct ir_func *body = make_body(k, b->f->module, types, operands + 1, b->f);
    ir_value limit = ir_binary(b, OP_min, operands[0], ir_scalar(b, IR_I32, (double)k->count));
    ir_value *captured = arena_new_array(scratch, ir_value, k->inputs + 1u);
    uint32_t n = 0;
    for (uint32_t a = 0; a < k->inputs; a++)
        if (!k->numbers[a]) captured[n++] = operands[a + 1];
    ir_value loop = ir_loop(b, body, limit, initial, k->results, false, captured, n);
    for (uint32_t r = 0; r < k->results; r++) {
        struct ir_type type = result_type(k, r);
        out[r] = ir_proj(b, loop, r);
        if (k->kinds[r] == MEAN) out[r] = ir_binary(b, OP_div, out[r], ir_number_like(b, out[r], (double)k->count));
        if (k->kinds[r] == CONCATENATE) {
            type.dim[0] *= k->count;
            out[r] = ir_reshape(b, out[r], type.rank, type.dim);
        }
    }
}

/* One microbatch, always run: no loop. */
static bool is_plain(const struct marker *k, const struct ir_func *f, ir_value limit)
{
    double number;
    return k->count == 1 && pass_number(f, limit, &number) && number >= 1;
}

struct state {
    struct pass *pass;
    ir_value **results; /* per old value: of a marker that was expanded */
};

/* Which results of a tuple something reads. */
static bool *used_results(struct pass *p, const struct ir_func *f, ir_value tuple)
{
    bool *live = ir_live(f, &p->scratch), *used = arena_new_array(&p->scratch, bool, ir_tuple_count(f, tuple) + 1u);
    for (ir_value v = tuple + 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (live[v] && n->op == OP_proj && n->args[0] == tuple) used[n->attr[0].v[0]] = true;
    }
    return used;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct state *s = user;
    const struct ir_node *n = ir_get(from, old);
    if (n->op == OP_proj && s->results[n->args[0]]) return s->results[n->args[0]][n->attr[0].v[0]];
    if (n->op == OP_scan) {
        ir_value *args = arena_new_array(&s->pass->scratch, ir_value, n->arg_count + 1u);
        for (uint32_t i = 0; i < n->arg_count; i++) args[i] = map[n->args[i]];
        s->results[old] = arena_new_array(&s->pass->scratch, ir_value, ir_tuple_count(from, old) + 1u);
        scan_expand(s->pass, b, n, args, used_results(s->pass, from, old), s->results[old]);
        return 0;
    }
    if (n->op != OP_accumulate) return pass_remake(s->pass, b, n, map);
    struct marker k = {.pass = s->pass,
                       .n = n,
                       .body = b->f->module->funcs.items[n->func],
                       .batched = (uint32_t)n->attr[0].v[0],
                       .captured = n->arg_count - 1 - (uint32_t)n->attr[0].v[0],
                       .results = n->attr[3].n,
                       .count = n->attr[1].v[0],
                       .contiguous = n->attr[2].v[0] == CONTIGUOUS,
                       .kinds = n->attr[3].v};
    struct arena *scratch = &s->pass->scratch;
    k.inputs = k.batched + k.captured;
    for (uint32_t r = 0; r < k.results; r++) k.inputs -= k.kinds[r] == CARRY;
    ir_value *operands = arena_new_array(scratch, ir_value, n->arg_count);
    for (uint32_t i = 0; i < n->arg_count; i++) operands[i] = map[n->args[i]];
    k.numbers = arena_new_array(scratch, bool, n->arg_count);
    for (uint32_t a = 0; a < k.batched; a++) k.numbers[a] = is_row_numbers(b->f, operands[a + 1]);
    s->results[old] = arena_new_array(scratch, ir_value, k.results + 1u);
    if (is_plain(&k, b->f, operands[0])) {
        ir_value call = ir_call(b, k.body, operands + 1, n->arg_count - 1);
        for (uint32_t r = 0; r < k.results; r++) s->results[old][r] = ir_proj(b, call, r);
    } else {
        expand(&k, b, operands, s->results[old]);
    }
    return 0; /* a tuple that nobody reads any more */
}

static bool has_markers(const struct ir_module *m)
{
    for (size_t i = 0; i < m->funcs.count; i++)
        for (ir_value v = 1; v < m->funcs.items[i]->count; v++)
            if (m->funcs.items[i]->nodes[v].op == OP_accumulate || m->funcs.items[i]->nodes[v].op == OP_scan)
                return true;
    return false;
}

struct ir_module *pass_accumulate(struct pass *p, struct ir_module *m)
{
    if (!has_markers(m)) return m;
    struct ir_module *to = ir_module_like(m);
    uint32_t *order = ir_func_order(m, &p->scratch);
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[order[i]];
        struct state s = {p, arena_new_array(&p->scratch, ir_value *, f->count)};
        ir_rebuild(f, to->funcs.items[order[i]], rewrite, &s, &p->scratch);
    }
    return to;
}
