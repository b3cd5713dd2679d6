/* accumulate and scan markers become loops, whose rounds read their part of what is split through reshape and
 * dynamic_slice, which are index maps: nothing is copied. A round of a scan reads one row. Microbatch i of M holds, as
 * in optax.microbatching, the rows i, i + M, i + 2M, ... of the batch (strided: column i of the batch seen as [rows,
 * M]) or, as in T5X, the i-th run of rows (contiguous: row i of [M, rows]). Results that are put together are written
 * to the same places through dynamic_update, in a buffer that the loop carries: every place is written once, so the
 * updates are done in place; what an early end does not reach is 0. A sum is divided by the nominal M for a mean; a
 * running mean is right wherever it stops. What is carried begins as the operand that stands for it and goes from one
 * round to the next. Of a scan, buffers that nobody reads are left out; a single round needs no loop.
 *
 * --numerics invariant adds sums of microbatches as a tree (accumulate_rows.c): a loop of two rounds holds the sum of
 * each half, in which a loop of two rounds holds the sum of each quarter, and so on. */
#include "passes/accumulate.h"
#include <string.h>

enum { CONTIGUOUS = 1 };

static struct ir_type result_type(const struct pass_marker *k, uint32_t r)
{
    return *ir_type(k->body, k->body->results.items[r].value);
}

/* A part, seen with the dimension of so many rounds. */
static struct ir_type split_type(const struct pass_marker *k, const struct ir_type *part, int64_t rounds)
{
    int64_t shape[IR_MAX_RANK + 1];
    for (uint32_t i = 0; i <= part->rank; i++) shape[i] = i == k->dim ? rounds : part->dim[i < k->dim ? i : i - 1];
    return ir_type_of((enum ir_dtype)part->dtype, part->rank + 1u, shape);
}

/* Result r as the loop carries it, and as it is when all is done. */
static struct ir_type carried_type(const struct pass_marker *k, uint32_t r)
{
    struct ir_type type = result_type(k, r);
    return k->kinds[r] == CONCATENATE ? split_type(k, &type, k->count) : type;
}

static struct ir_type whole_type(const struct pass_marker *k, uint32_t r)
{
    struct ir_type type = result_type(k, r);
    if (k->kinds[r] != CONCATENATE) return type;
    if (!k->batch) return split_type(k, &type, k->count);
    type.dim[0] *= k->count;
    return type;
}

/* Starts of the part of round `i` in a tensor of split_type. */
static void starts_at(const struct pass_marker *k, struct ir_builder *b, ir_value i, uint32_t rank, ir_value *starts)
{
    for (uint32_t d = 0; d < rank; d++) starts[d] = d == k->dim ? i : ir_scalar(b, IR_I32, 0);
}

static ir_value read_part(const struct pass_marker *k, struct ir_builder *b, ir_value whole, ir_value i,
                          const struct ir_type *part)
{
    struct ir_type split = split_type(k, part, k->count), one = split_type(k, part, 1);
    ir_value starts[IR_MAX_RANK + 1];
    starts_at(k, b, i, split.rank, starts);
    ir_value rows = ir_dynamic_slice(b, ir_reshape(b, whole, split.rank, split.dim), starts, one.dim);
    ir_value made = ir_reshape(b, rows, part->rank, part->dim);
    if (!k->batch) return made;
    /* The devices of a mesh share every microbatch as they would share the batch. */
    int64_t axes[IR_MAX_RANK] = {PASS_AS_BATCH};
    return ir_make(
        b, (struct ir_node){.op = OP_sharding_constraint, .arg_count = 1, .args = &made, .attr = {{axes, part->rank}}});
}

static ir_value write_part(const struct pass_marker *k, struct ir_builder *b, ir_value into, ir_value i, ir_value part)
{
    struct ir_type one = split_type(k, ir_type(b->f, part), 1);
    ir_value starts[IR_MAX_RANK + 1];
    starts_at(k, b, i, one.rank, starts);
    return ir_dynamic_update(b, into, ir_reshape(b, part, one.rank, one.dim), starts);
}

/* Row numbers 0, 1, .. of the whole: those of a part are computed, not read. */
static bool is_row_numbers(const struct pass_marker *k, const struct ir_func *f, ir_value whole)
{
    const struct ir_node *n = ir_get(f, whole);
    return n->op == OP_iota && n->attr[0].v[0] == 0 && (k->batch || n->type.rank == 1);
}

static ir_value part_numbers(const struct pass_marker *k, struct ir_builder *b, ir_value i, const struct ir_type *part)
{
    if (!k->batch) return ir_cast(b, i, (enum ir_dtype)part->dtype);
    ir_value row = ir_iota(b, *part, 0), first = ir_cast(b, i, (enum ir_dtype)part->dtype);
    first = ir_broadcast_to(b, first, part->rank, part->dim);
    if (k->dim == 0) first = ir_binary(b, OP_mul, first, ir_number(b, *part, (double)part->dim[0]));
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

/* A loop of two rounds is in one that has made `before` rounds: its round i is round 2 * before + i of all. */
static ir_value round_in_tree(struct ir_builder *b, ir_value i)
{
    ir_value before = ir_param_new(b, "before", ir_type_scalar(IR_I32), -1);
    return ir_binary(b, OP_add, ir_binary(b, OP_add, before, before), i);
}

/* A sum of nothing that changes no other, not even -0. */
static ir_value no_sum(const struct pass_marker *k, struct ir_builder *b, uint32_t r)
{
    struct ir_type type = carried_type(k, r);
    return ir_number(b, type, k->tree && ir_dtype_is_float((enum ir_dtype)type.dtype) ? -0.0 : 0);
}

/* The body of a loop of two rounds, each of which is a loop of two with the body `inner`. */
static struct ir_func *make_level(const struct pass_marker *k, const struct ir_func *outer, struct ir_func *inner)
{
    struct arena *scratch = &k->pass->scratch;
    struct ir_builder b = {.f = pass_new_body(k->pass, outer->module, k->body, "half"), .place = k->n->place};
    ir_value *carry = arena_new_array(scratch, ir_value, k->results + 1),
             *initial = arena_new_array(scratch, ir_value, k->results + 1),
             *captured = arena_new_array(scratch, ir_value, k->params + 2);
    uint32_t n = 1;
    ir_value i = ir_param_new(&b, "i", ir_type_scalar(IR_I32), -1);
    for (uint32_t r = 0; r < k->results; r++) {
        carry[r] = ir_param_new(&b, k->body->results.items[r].name, carried_type(k, r), -1);
        initial[r] = k->kinds[r] == SUM ? no_sum(k, &b, r) : carry[r];
    }
    captured[0] = round_in_tree(&b, i);
    for (uint32_t a = 0; a < k->params; a++)
        if (k->roles[a] == SPLIT || k->roles[a] == CAPTURED)
            captured[n++] = ir_param_new(&b, k->body->params.items[a].name, *ir_type(outer, k->operands[a]), -1);
    ir_value loop = ir_loop(&b, inner, ir_scalar(&b, IR_I32, 2), initial, k->results, false, captured, n);
    for (uint32_t r = 0; r < k->results; r++) {
        ir_value made = ir_proj(&b, loop, r);
        ir_result_add(&b, k->body->results.items[r].name,
                      k->kinds[r] == SUM ? ir_binary(&b, OP_add, carry[r], made) : made, -1);
    }
    return b.f;
}

/* The loop's body, (i, carried.., what is split or captured..) -> carried..: parts, one call, accumulators. */
static struct ir_func *make_body(const struct pass_marker *k, const struct ir_func *outer)
{
    struct arena *scratch = &k->pass->scratch;
    struct ir_builder b = {.f = pass_new_body(k->pass, outer->module, k->body, "loop"), .place = k->n->place};
    uint32_t last = k->carried;
    ir_value *carry = arena_new_array(scratch, ir_value, k->results + 1),
             *args = arena_new_array(scratch, ir_value, k->params + 1);
    ir_value i = ir_param_new(&b, "i", ir_type_scalar(IR_I32), -1);
    if (k->reverse) i = ir_binary(&b, OP_sub, ir_scalar(&b, IR_I32, (double)k->count - 1), i);
    for (uint32_t r = 0; r < k->results; r++)
        if (k->used[r]) carry[r] = ir_param_new(&b, k->body->results.items[r].name, carried_type(k, r), -1);
    if (k->tree) i = round_in_tree(&b, i);
    for (uint32_t a = 0; a < k->params; a++)
        if (k->roles[a] == SPLIT || k->roles[a] == CAPTURED)
            args[a] = ir_param_new(&b, k->body->params.items[a].name, *ir_type(outer, k->operands[a]), -1);
    for (uint32_t a = 0; a < k->params; a++) {
        const struct ir_type *part = &k->body->params.items[a].type;
        if (k->roles[a] == SPLIT) args[a] = read_part(k, &b, args[a], i, part);
        if (k->roles[a] == NUMBERS) args[a] = part_numbers(k, &b, i, part);
    }
    for (uint32_t r = 0; r < k->results; r++)
        if (k->kinds[r] == CARRY) args[last++] = carry[r];
    ir_value values = ir_call(&b, k->body, args, k->params);
    for (uint32_t r = 0; r < k->results; r++) {
        if (!k->used[r]) continue;
        ir_value value = ir_proj(&b, values, r), next;
        if (k->kinds[r] == CONCATENATE) next = write_part(k, &b, carry[r], i, value);
        else if (k->kinds[r] == RUNNING_MEAN) next = running_mean(&b, carry[r], value, i);
        else next = k->kinds[r] == CARRY ? value : ir_binary(&b, OP_add, carry[r], value);
        ir_result_add(&b, k->body->results.items[r].name, next, -1);
    }
    return b.f;
}

/* Results of the marker in `out`. `limit`: of the rounds; 0: none. */
static void expand(const struct pass_marker *k, struct ir_builder *b, ir_value limit, ir_value *out)
{
    struct arena *scratch = &k->pass->scratch;
    ir_value *initial = arena_new_array(scratch, ir_value, k->results + 1),
             *captured = arena_new_array(scratch, ir_value, k->params + 2);
    uint32_t last = k->carried, carried = 0, n = 0;
    for (uint32_t r = 0; r < k->results; r++)
        if (k->used[r]) initial[carried++] = k->kinds[r] == CARRY ? k->operands[last++] : no_sum(k, b, r);
    struct ir_func *body = make_body(k, b->f);
    for (int64_t half = k->count; k->tree && half > 2; half /= 2) body = make_level(k, b->f, body);
    ir_value rounds = ir_scalar(b, IR_I32, k->tree ? 2 : (double)k->count);
    if (k->tree) captured[n++] = ir_scalar(b, IR_I32, 0);
    if (limit) rounds = ir_binary(b, OP_min, limit, rounds);
    for (uint32_t a = 0; a < k->params; a++)
        if (k->roles[a] == SPLIT || k->roles[a] == CAPTURED) captured[n++] = k->operands[a];
    ir_value loop = ir_loop(b, body, rounds, initial, carried, false, captured, n);
    carried = 0;
    for (uint32_t r = 0; r < k->results; r++) {
        struct ir_type whole = whole_type(k, r);
        if (!k->used[r]) continue;
        out[r] = ir_proj(b, loop, carried++);
        if (k->kinds[r] == MEAN) out[r] = ir_binary(b, OP_div, out[r], ir_number_like(b, out[r], (double)k->count));
        out[r] = ir_reshape(b, out[r], whole.rank, whole.dim);
    }
}

/* Is anything more than put together, as what is inferred? */
static bool has_sums(const struct pass_marker *k)
{
    bool any = false;
    for (uint32_t r = 0; r < k->results; r++) any |= k->kinds[r] != CONCATENATE;
    return any;
}

/* No round, or one that always runs: no loop. */
static void expand_plainly(const struct pass_marker *k, struct ir_builder *b, ir_value *out)
{
    ir_value *args = arena_new_array(&k->pass->scratch, ir_value, k->params + 1), tuple = 0;
    uint32_t last = k->carried;
    for (uint32_t a = 0; a < k->params; a++) {
        const struct ir_type *part = &k->body->params.items[a].type;
        args[a] = k->count && k->roles[a] >= SPLIT ? ir_reshape(b, k->operands[a], part->rank, part->dim)
                                                   : k->operands[a];
    }
    if (k->count) tuple = ir_call(b, k->body, args, k->params);
    for (uint32_t r = 0; r < k->results; r++) {
        struct ir_type whole = whole_type(k, r);
        if (tuple) out[r] = ir_reshape(b, ir_proj(b, tuple, r), whole.rank, whole.dim);
        else out[r] = k->kinds[r] == CARRY ? k->operands[last++] : ir_number(b, whole, 0);
    }
}

/* Results that do not depend on the number of rounds. */
static void expand_tree(const struct pass_marker *k, struct ir_builder *b, ir_value limit, ir_value *out)
{
    struct pass_marker sums;
    struct pass_rows *rows = pass_rows_of(k, b, limit, &sums);
    if (!rows) { /* which has been said */
        for (uint32_t r = 0; r < k->results; r++) out[r] = ir_number(b, whole_type(k, r), 0);
        return;
    }
    ir_value *made = arena_new_array(&k->pass->scratch, ir_value, sums.results + 1);
    if (sums.count > 1) expand(&sums, b, 0, made);
    else expand_plainly(&sums, b, made);
    pass_rows_finish(rows, b, made, out);
}

static bool is_plain(const struct pass_marker *k, const struct ir_func *f, ir_value limit)
{
    double number;
    return k->count <= 1 && (!limit || (pass_number(f, limit, &number) && number >= 1));
}

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

struct state {
    struct pass *pass;
    const struct ir_func *from;
    ir_value **results; /* per value of it: of a marker that was expanded */
};

void pass_read_marker(struct pass_marker *k, const struct ir_func *from, ir_value old)
{
    const struct ir_node *n = k->n;
    bool *used = arena_new_array(&k->pass->scratch, bool, k->results + 1);
    int64_t *kinds = arena_new_array(&k->pass->scratch, int64_t, k->results + 1);
    uint32_t split = 0, parts = 0, carries = 0;
    k->batch = n->op == OP_accumulate;
    if (k->batch) {
        parts = (uint32_t)n->attr[0].v[0];
        k->count = n->attr[1].v[0];
        k->dim = n->attr[2].v[0] != CONTIGUOUS;
        memset(used, true, k->results);
        memcpy(kinds, n->attr[3].v, k->results * sizeof *kinds);
        for (uint32_t r = 0; r < k->results; r++) carries += kinds[r] == CARRY;
        k->carried = k->params - carries;
    } else {
        carries = split = (uint32_t)n->attr[0].v[0];
        parts = (uint32_t)n->attr[1].v[0];
        k->count = n->attr[2].v[0];
        k->reverse = n->attr[3].v[0] != 0;
        used = used_results(k->pass, from, old);
        memset(used, true, carries);
        for (uint32_t r = 0; r < k->results; r++) kinds[r] = r < carries ? CARRY : CONCATENATE;
    }
    k->used = used;
    k->kinds = kinds;
    k->roles = arena_new_array(&k->pass->scratch, uint8_t, k->params + 1);
    memset(k->roles + split, SPLIT, parts);
    memset(k->roles + k->carried, CARRIED, carries);
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old, const ir_value *map)
{
    struct state *s = user;
    struct arena *scratch = &s->pass->scratch;
    const struct ir_node *n = ir_get(from, old);
    if (s->from != from) *s = (struct state){s->pass, from, arena_new_array(scratch, ir_value *, from->count)};
    if (n->op == OP_proj && s->results[n->args[0]]) return s->results[n->args[0]][n->attr[0].v[0]];
    if (n->op != OP_accumulate && n->op != OP_scan) return pass_remake(s->pass, b, n, map);
    bool limited = n->op == OP_accumulate;
    ir_value *operands = arena_new_array(scratch, ir_value, n->arg_count + 1u);
    for (uint32_t i = 0; i < n->arg_count; i++) operands[i] = map[n->args[i]];
    struct pass_marker k = {.pass = s->pass,
                            .n = n,
                            .body = b->f->module->funcs.items[n->func],
                            .operands = operands + limited,
                            .params = n->arg_count - limited,
                            .results = ir_tuple_count(from, old)};
    pass_read_marker(&k, from, old);
    for (uint32_t a = 0; a < k.params; a++)
        if (k.roles[a] == SPLIT && is_row_numbers(&k, b->f, k.operands[a])) k.roles[a] = NUMBERS;
    s->results[old] = arena_new_array(scratch, ir_value, k.results + 1u);
    ir_value limit = limited ? operands[0] : 0;
    if (is_plain(&k, b->f, limit)) expand_plainly(&k, b, s->results[old]);
    else if (limited && s->pass->options->microbatches && has_sums(&k)) expand_tree(&k, b, limit, s->results[old]);
    else expand(&k, b, limit, s->results[old]);
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
    struct state s = {.pass = p};
    return has_markers(m) ? pass_rebuild(p, m, rewrite, &s) : m;
}
