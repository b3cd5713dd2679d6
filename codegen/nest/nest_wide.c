/* --numerics fast: arithmetic of 16 bits that only more of it reads keeps the digits of float32, in which it is done
 * anyway, and what is stored, summed, compared or cast is rounded, once. XLA does so unless it is told not to
 * (xla_allow_excess_precision). A GELU of bfloat16 and its gradient are 26 roundings otherwise, which take longer than
 * the arithmetic. */
#include "codegen/nest/nest.h"

static bool rounds(const struct nest_stmt *s)
{
    return s->kind == NEST_OP && s->op != OP_cast && ir_ops[s->op].flags & IR_ROUNDS &&
           (s->dtype == IR_BF16 || s->dtype == IR_F16);
}

/* Marks the values that something else reads than arithmetic of their own dtype. */
static void mark(struct nest_stmt *const *items, size_t count, uint8_t *dtype, bool *rounded)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        if (s->result) dtype[s->result] = s->dtype;
        for (uint32_t k = 0; k < s->arg_count; k++)
            if (!rounds(s) || dtype[s->args[k]] != s->dtype) rounded[s->args[k]] = true;
        mark(s->body.items, s->body.count, dtype, rounded);
    }
}

static void widen(struct nest_stmt *const *items, size_t count, const bool *rounded)
{
    for (size_t i = 0; i < count; i++) {
        if (rounds(items[i]) && !rounded[items[i]->result]) items[i]->dtype = IR_F32;
        widen(items[i]->body.items, items[i]->body.count, rounded);
    }
}

void nest_keep_digits(struct nest *nest)
{
    uint8_t *dtype = arena_new_array(nest->arena, uint8_t, nest->value_count + 1u);
    bool *rounded = arena_new_array(nest->arena, bool, nest->value_count + 1u);
    mark(nest->body.items, nest->body.count, dtype, rounded);
    widen(nest->body.items, nest->body.count, rounded);
}
