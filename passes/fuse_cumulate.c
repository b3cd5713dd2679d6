/* Running results where a command is a launch with a thread for every element: by doubling distances. After the step of
 * width k every element holds the result over the last 2k ones. Workers of a CPU walk them (lower_cumulate.c). */
#include "passes/fuse.h"

bool fuse_wants_doubling(uint32_t blocks, const struct ir_node *n) { return blocks && n->op == OP_cumulate; }

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

ir_value fuse_doubling(struct ir_builder *b, const struct ir_node *n, const ir_value *map)
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
