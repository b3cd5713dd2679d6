/* Storage of the interpreter's tensors: blocks by size class, given back to free lists. */
#include "ir/eval.h"
#include <string.h>

static unsigned size_class(int64_t count)
{
    unsigned k = 2;
    while ((INT64_C(1) << k) < count) k++;
    return k;
}

double *eval_new(struct eval *e, int64_t count)
{
    unsigned k = size_class(count);
    void *block = e->pool.free[k];
    if (block) {
        memcpy(&e->pool.free[k], block, sizeof(void *));
        return block;
    }
    return arena_new_array(&e->pool.arena, double, INT64_C(1) << k);
}

void eval_drop(struct eval *e, double *v, int64_t count)
{
    unsigned k = size_class(count);
    memcpy(v, &e->pool.free[k], sizeof(void *));
    e->pool.free[k] = v;
}

void eval_cell_new(struct eval *e, struct eval_cell *cell, const struct ir_type *types, uint32_t count)
{
    cell->t = arena_new_array(&e->pool.arena, struct ir_tensor, count);
    cell->count = count;
    cell->owned = true;
    for (uint32_t i = 0; i < count; i++)
        cell->t[i] = (struct ir_tensor){types[i], eval_new(e, ir_type_elements(&types[i]))};
}

void eval_cell_drop(struct eval *e, struct eval_cell *cell)
{
    if (cell->owned)
        for (uint32_t i = 0; i < cell->count; i++) eval_drop(e, cell->t[i].v, ir_type_elements(&cell->t[i].type));
    *cell = (struct eval_cell){0};
}
