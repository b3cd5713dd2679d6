/* Products of one row, or of one column. Where what is contracted lies one step behind the other in the other operand
 * (one row by transposed weights: a gradient for one example, tied embeddings; a layer with one feature), each element
 * of the result is a sum over a line of memory, which the lanes of a vector walk: the product becomes a sum of
 * element-wise products. As a product its tile is as wide as a vector, and turns what it reads; on a GPU it has a
 * narrow one, and stays. */
#include "passes/fuse.h"

/* Steps of a line, and lines, below which a product is as good. */
enum { LEAST_STEPS = 64, LEAST_LINES = 16 };

/* Dimensions stand as they do in memory: batch, free, contracted. */
static bool is_lines(const struct ir_type *t, struct ir_ints batch, struct ir_ints contract)
{
    for (uint32_t i = 0; i < batch.n; i++)
        if (batch.v[i] != i) return false;
    for (uint32_t i = 0; i < contract.n; i++)
        if (contract.v[i] != t->rank - contract.n + i) return false;
    return true;
}

/* The operand with the lines, the other one having one for each batch. 2: none. */
static uint32_t lines_of(const struct ir_func *f, const struct ir_node *n)
{
    for (uint32_t lines = 2; lines-- > 0;) {
        const struct ir_type *t = ir_type(f, n->args[lines]), *one = ir_type(f, n->args[1 - lines]);
        int64_t steps = pass_extent(t, n->attr[2 + lines]), batch = pass_extent(t, n->attr[lines]);
        if (is_lines(t, n->attr[lines], n->attr[2 + lines]) && steps >= LEAST_STEPS &&
            ir_type_elements(one) == batch * steps && ir_type_elements(t) >= LEAST_LINES * batch * steps)
            return lines;
    }
    return 2;
}

bool fuse_wants_lines(uint32_t blocks, const struct ir_func *f, const struct ir_node *n, struct arena *scratch)
{
    if (blocks || n->op != OP_dot || (n->type.dtype != IR_F32 && n->type.dtype != IR_F64)) return false;
    if (n->attr[4].n || n->attr[5].n || n->attr[6].n || lines_of(f, n) == 2) return false;
    return !fuse_of_taps(f, n->args[0], scratch) && !fuse_of_taps(f, n->args[1], scratch); /* their lines are short */
}

ir_value fuse_lines(struct ir_builder *b, const struct ir_func *f, const struct ir_node *n, const ir_value *map)
{
    uint32_t lines = lines_of(f, n);
    struct ir_ints batch = n->attr[lines], contract = n->attr[2 + lines], of_batch = n->attr[1 - lines],
                   of_contract = n->attr[3 - lines];
    ir_value x = map[n->args[lines]], one = map[n->args[1 - lines]];
    struct ir_type t = *ir_type(b->f, x), from = *ir_type(b->f, one);
    struct pass_dims free = pass_free_dims(&from, of_batch, of_contract);
    int64_t order[IR_MAX_RANK], dims[IR_MAX_RANK], shape[IR_MAX_RANK];
    uint32_t rank = batch.n + contract.n;
    for (uint32_t i = 0; i < rank; i++) {
        order[i] = i < batch.n ? of_batch.v[i] : of_contract.v[i - batch.n];
        dims[i] = i < batch.n ? i : contract.v[i - batch.n];
        shape[i] = from.dim[order[i]];
    }
    for (uint32_t i = 0; i < free.n; i++) order[rank + i] = free.v[i];
    one = ir_reshape(b, ir_transpose(b, one, order), rank, shape);
    one = ir_broadcast(b, one, t.rank, t.dim, dims);
    ir_value sum = ir_reduce_plain(b, OP_reduce_sum, ir_binary(b, OP_mul, one, x), contract.v, contract.n);
    return ir_reshape(b, sum, n->type.rank, n->type.dim);
}
