/* What lines along a dimension give, where there is no kernel that walks them (codegen/lower/lower_lines.c): on a GPU,
 * whose commands have a thread for every element, and where lines are few or too long for the caches. */
#include "passes/decompose.h"

/* Lines that are walked: so many at least, no longer; runs of one that is too long. */
enum { LEAST_LINES = 4, LONG = 1 << 15, RUNS = 16 };

/* The dimension and the last one in each other's place. */
static ir_value swapped(struct ir_builder *b, ir_value x, uint32_t dim)
{
    uint32_t rank = ir_type(b->f, x)->rank;
    int64_t perm[IR_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    perm[dim] = rank - 1, perm[rank - 1] = dim;
    return ir_transpose(b, x, perm);
}

/* A few lines beside each other leave most lanes empty, which what takes long does not afford: with the last two
 * dimensions in each other's place they lie one behind the other. */
static bool lies_apart(const struct ir_node *n)
{
    enum { FEW = 4, LEAST_OUTER = 8 };
    int64_t outer = 1, inner = 1;
    for (uint32_t i = 0; i < n->type.rank; i++)
        if (i != n->attr[0].v[0]) *(i < n->attr[0].v[0] ? &outer : &inner) *= n->type.dim[i];
    bool slow = n->op == OP_order || n->attr[1].v[0] == IR_CUMULATE_LOGSUMEXP;
    return slow && inner > 1 && inner <= FEW && outer >= LEAST_OUTER && n->attr[0].v[0] + 2 == n->type.rank;
}

static ir_value as_last(struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    uint32_t dim = (uint32_t)n->attr[0].v[0], last = n->type.rank - 1u;
    ir_value x = swapped(b, map[n->args[0]], dim);
    x = n->op == OP_order ? ir_order(b, x, last)
                          : ir_cumulate(b, (enum ir_cumulate)n->attr[1].v[0], &x, last, n->attr[2].v[0] != 0);
    return swapped(b, x, dim);
}

/* ---------------------------------------------------------------- running results */

static ir_value part_of(struct ir_builder *b, ir_value x, uint32_t dim, int64_t start, int64_t limit)
{
    const struct ir_type type = *ir_type(b->f, x);
    int64_t from[IR_MAX_RANK] = {0}, to[IR_MAX_RANK], step[IR_MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) to[i] = type.dim[i], step[i] = 1;
    from[dim] = start, to[dim] = limit;
    return ir_slice(b, x, from, to, step);
}

/* most + log1p(e**(least - most)), but for infinities of one sign and NaN. */
static ir_value log_of_sum(struct ir_builder *b, ir_value x, ir_value y)
{
    ir_value apart = ir_binary(b, OP_sub, x, y), most = ir_binary(b, OP_max, x, y);
    ir_value less = ir_binary(b, OP_sub, ir_binary(b, OP_min, x, y), most);
    ir_value sum = ir_binary(b, OP_add, most, ir_unary(b, OP_log1p, ir_unary(b, OP_exp, less)));
    return ir_select(b, ir_binary(b, OP_ne, apart, apart), ir_binary(b, OP_add, x, y), sum);
}

static ir_value combined(struct ir_builder *b, enum ir_cumulate kind, ir_value before, ir_value x, ir_value y)
{
    static const enum ir_op ops[] = {[IR_CUMULATE_SUM] = OP_add,
                                     [IR_CUMULATE_PROD] = OP_mul,
                                     [IR_CUMULATE_MAX] = OP_max,
                                     [IR_CUMULATE_MIN] = OP_min};
    if (kind < IR_CUMULATE_LOGSUMEXP) return ir_binary(b, ops[kind], before, x);
    if (kind == IR_CUMULATE_LOGSUMEXP) return log_of_sum(b, before, x);
    return ir_binary(b, OP_add, ir_binary(b, OP_mul, before, y), x);
}

/* By doubling distances: after the step of width k every element holds the result over the last 2k ones. */
static ir_value by_doubling(struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    enum ir_cumulate kind = (enum ir_cumulate)n->attr[1].v[0];
    enum ir_dtype dtype = (enum ir_dtype)n->type.dtype;
    uint32_t dim = (uint32_t)n->attr[0].v[0];
    int64_t extent = n->type.dim[dim];
    bool reverse = n->attr[2].v[0], linear = kind == IR_CUMULATE_LINEAR,
         widens = ir_dtype_is_float(dtype) && ir_dtype_bytes(dtype) == 2;
    ir_value x = map[n->args[0]], y = linear ? map[n->args[1]] : 0;
    if (widens) x = ir_cast(b, x, IR_F32), y = linear ? ir_cast(b, y, IR_F32) : 0;
    for (int64_t k = 1; k < extent; k *= 2) {
        int64_t edge = reverse ? extent - k : k, from = reverse ? 0 : k, before = reverse ? k : 0;
        ir_value first[2] = {part_of(b, x, dim, reverse ? edge : 0, reverse ? extent : edge), 0};
        ir_value rest[2] = {part_of(b, x, dim, from, from + extent - k), 0};
        ir_value moved = part_of(b, x, dim, before, before + extent - k);
        if (linear) {
            first[1] = part_of(b, y, dim, reverse ? edge : 0, reverse ? extent : edge);
            rest[1] = part_of(b, y, dim, from, from + extent - k);
        }
        ir_value result[2] = {combined(b, kind, moved, rest[0], rest[1]), 0};
        if (linear) result[1] = ir_binary(b, OP_mul, part_of(b, y, dim, before, before + extent - k), rest[1]);
        x = ir_concat(b, reverse ? (ir_value[]){result[0], first[0]} : (ir_value[]){first[0], result[0]}, 2, dim);
        if (linear)
            y = ir_concat(b, reverse ? (ir_value[]){result[1], first[1]} : (ir_value[]){first[1], result[1]}, 2, dim);
    }
    return widens ? ir_cast(b, x, dtype) : x;
}

/* ---------------------------------------------------------------- order */

/* x of [rows, extent] along other dimensions. */
static ir_value repeated(struct ir_builder *b, ir_value x, const struct ir_type *pairs, int64_t first, int64_t second)
{
    return ir_broadcast(b, x, pairs->rank, pairs->dim, (int64_t[]){first, second});
}

/* Rows of a few elements: the place of each is the number of those that come before it, and the index of every place is
 * found by comparing places; extent * extent comparisons, none of which is kept. */
static ir_value by_counting(struct ir_builder *b, ir_value key)
{
    const struct ir_type t = *ir_type(b->f, key);
    const int64_t last = 2, middle = 1;
    struct ir_type pairs = ir_type_of(IR_I32, 3, (int64_t[]){t.dim[0], t.dim[1], t.dim[1]});
    /* [row, i, j]: element j stands before element i */
    ir_value i = repeated(b, key, &pairs, 0, 1), j = repeated(b, key, &pairs, 0, 2);
    ir_value row = ir_iota(b, pairs, 1), column = ir_iota(b, pairs, 2);
    ir_value tie = ir_binary(b, OP_and, ir_binary(b, OP_eq, j, i), ir_binary(b, OP_lt, column, row));
    ir_value before = ir_cast(b, ir_binary(b, OP_or, ir_binary(b, OP_lt, j, i), tie), IR_I32);
    ir_value place = ir_reduce(b, OP_reduce_sum, before, &last, 1);
    /* [row, i, k]: element i has place k */
    ir_value hit = ir_binary(b, OP_eq, repeated(b, place, &pairs, 0, 1), column);
    return ir_reduce(b, OP_reduce_sum, ir_select(b, hit, row, ir_number_like(b, row, 0)), &middle, 1);
}

/* Keys in runs that are sorted, and what their order is in the rows: runs are lines that are walked. */
static void sort_runs(struct ir_builder *b, int64_t run, ir_value *keys, ir_value *order)
{
    const struct ir_type t = *ir_type(b->f, *keys);
    int64_t all = t.dim[0] * t.dim[1];
    struct ir_type lines = ir_type_of(IR_I32, 2, (int64_t[]){all / run, run});
    ir_value places = ir_order(b, ir_reshape(b, *keys, 2, lines.dim), 1), number = ir_iota(b, lines, 0);
    places = ir_binary(b, OP_add, places, ir_binary(b, OP_mul, number, ir_number_like(b, number, (double)run)));
    places = ir_reshape(b, places, 1, &all);
    *keys = ir_reshape(b, ir_take(b, ir_reshape(b, *keys, 1, &all), places, 0), 2, t.dim);
    ir_value row = ir_iota(b, t, 0), first = ir_binary(b, OP_mul, row, ir_number_like(b, row, (double)t.dim[1]));
    *order = ir_binary(b, OP_sub, ir_reshape(b, places, 2, t.dim), first);
}

/* A stage: every element meets the one whose index differs in the bits of table[stage]. Keys and indices together are
 * never equal, so that equal keys keep their order. */
static void meet(struct ir_builder *b, ir_value table, ir_value stage, ir_value *keys, ir_value *order)
{
    const struct ir_type t = *ir_type(b->f, *keys);
    const int64_t one = 1, wide = t.dim[1];
    ir_value place = ir_iota(b, ir_type_of(IR_I32, 1, &wide), 0);
    ir_value bits = ir_broadcast(b, ir_reshape(b, ir_dynamic_slice(b, table, &stage, &one), 0, NULL), 1, &wide, NULL);
    ir_value other = ir_binary(b, OP_xor, place, bits),
             rows[2] = {ir_take(b, *keys, other, 1), ir_take(b, *order, other, 1)};
    ir_value tie = ir_binary(b, OP_and, ir_binary(b, OP_eq, rows[0], *keys), ir_binary(b, OP_lt, rows[1], *order));
    ir_value less = ir_binary(b, OP_or, ir_binary(b, OP_lt, rows[0], *keys), tie);
    ir_value lower = ir_broadcast(b, ir_binary(b, OP_lt, place, other), 2, t.dim, (const int64_t[]){1});
    ir_value swap = ir_binary(b, OP_eq, less, lower);
    *keys = ir_select(b, swap, rows[0], *keys);
    *order = ir_select(b, swap, rows[1], *order);
}

/* Longer rows: Batcher's bitonic network, a loop over its stages. The first stage of a block compares it with its own
 * mirror image, so that all blocks are sorted upwards. Two stages in a turn, so that the second one writes where the
 * first one has read, and nothing is copied. On a CPU blocks of a 16th of a row, or less, are lines. */
static ir_value by_network(struct pass *p, struct ir_builder *to, ir_value key)
{
    struct ir_type t = *ir_type(to->f, key);
    int64_t n = t.dim[1], wide = 1, zero[2] = {0}, stages = 0;
    while (wide < n) wide *= 2;
    int64_t run = p->options->blocks || wide < 16 * RUNS ? 1 : wide / RUNS < LONG ? wide / RUNS : LONG;
    int32_t *meets = arena_new_array(&p->scratch, int32_t, 64 * 64);
    for (int64_t block = 2 * run; block <= wide; block *= 2)
        for (int64_t step = block / 2; step > 0; step /= 2)
            meets[stages++] = (int32_t)(step == block / 2 ? block - 1 : step);
    const int64_t more[2] = {0, wide - n}, limit[2] = {t.dim[0], n}, ones[2] = {1, 1}, turns = (stages + 1) / 2;
    struct ir_type pairs = ir_type_of(IR_I32, 1, (int64_t[]){2 * turns}); /* of stages; one more changes nothing */
    struct ir_builder body = {.f = pass_new_body(p, to->f->module, to->f, "order"), .place = to->place}, *b = &body;
    t.dim[1] = wide;
    ir_value turn = ir_param_new(b, "i", ir_type_scalar(IR_I32), -1), keys = ir_param_new(b, "keys", t, -1),
             order = ir_param_new(b, "order", t, -1), table = ir_param_new(b, "meets", pairs, -1);
    ir_value stage = ir_binary(b, OP_add, turn, turn);
    meet(b, table, stage, &keys, &order);
    meet(b, table, ir_binary(b, OP_add, stage, ir_scalar(b, IR_I32, 1)), &keys, &order);
    ir_result_add(b, "keys", keys, -1);
    ir_result_add(b, "order", order, -1);
    ir_value carried[2] = {ir_pad(to, key, ir_scalar(to, IR_I32, 2147483647), zero, more, zero), ir_iota(to, t, 1)};
    if (run > 1) sort_runs(to, run, &carried[0], &carried[1]);
    ir_value captured = ir_constant(to, pairs, meets);
    ir_value sorted = ir_loop(to, body.f, ir_scalar(to, IR_I32, (double)turns), carried, 2, false, &captured, 1);
    return ir_slice(to, ir_proj(to, sorted, 1), zero, limit, ones);
}

static bool keeps_order(const struct pass *p, const struct ir_node *n)
{
    int64_t extent = n->type.dim[n->attr[0].v[0]];
    return !p->options->blocks && extent <= LONG && ir_type_elements(&n->type) >= LEAST_LINES * extent;
}

static ir_value order_of(struct pass *p, struct ir_builder *b, const struct ir_node *n, ir_value key)
{
    enum { FEW = 128 };
    struct ir_type type = n->type;
    uint32_t dim = (uint32_t)n->attr[0].v[0];
    int64_t extent = type.dim[dim], total = ir_type_elements(&type);
    if (extent < 2 || !total) return ir_number(b, type, 0);
    key = swapped(b, key, dim);
    type = *ir_type(b->f, key);
    key = ir_reshape(b, key, 2, (int64_t[]){total / extent, extent});
    ir_value index = extent <= FEW ? by_counting(b, key) : by_network(p, b, key);
    return swapped(b, ir_reshape(b, index, type.rank, type.dim), dim);
}

ir_value decompose_lines(struct pass *p, struct ir_builder *b, const struct ir_node *n, const ir_value *map)
{
    if (n->op == OP_cumulate && p->options->blocks) return by_doubling(b, n, map);
    if (n->op == OP_order && !keeps_order(p, n)) return order_of(p, b, n, map[n->args[0]]);
    return lies_apart(n) ? as_last(b, n, map) : pass_remake(p, b, n, map);
}
