/* The op table as data: ops.def expanded, with the attribute names counted and split. */
#include "ir/ir.h"

#include <string.h>

#define P IR_PURE
#define E IR_EWISE
#define C IR_COMMUTATIVE
#define L IR_LINEAR
#define M IR_MARKER
#define R IR_ROUNDS
#define STAGES_T IR_STAGE_TENSOR
#define STAGES_TS (IR_STAGE_TENSOR | IR_STAGE_SPMD)
#define STAGES_K IR_STAGE_KERNEL
#define STAGES_SK (IR_STAGE_SPMD | IR_STAGE_KERNEL)
#define STAGES_TSK (IR_STAGE_TENSOR | IR_STAGE_SPMD | IR_STAGE_KERNEL)

/* Blank-separated words of a literal of at most 64 characters, counted by the compiler (tests/unit/ir
 * counts them again). */
#define BLANK(s, i) ((i) < sizeof(s) - 1 && (s)[(i) < sizeof(s) ? (i) : 0] == ' ')
#define BLANKS4(s, i) (BLANK(s, i) + BLANK(s, (i) + 1) + BLANK(s, (i) + 2) + BLANK(s, (i) + 3))
#define BLANKS16(s, i) (BLANKS4(s, i) + BLANKS4(s, (i) + 4) + BLANKS4(s, (i) + 8) + BLANKS4(s, (i) + 12))
#define WORDS(s) (sizeof(s) == 1 ? 0 : 1 + BLANKS16(s, 0) + BLANKS16(s, 16) + BLANKS16(s, 32) + BLANKS16(s, 48))

const struct ir_op_info ir_ops[IR_OP_COUNT] = {
    [IR_NONE] = {"none", "", "", 0, 0, 0, 0, 0, 0},
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) \
    [OP_##name] = {#name, attrs, doc, args, WORDS(attrs), STAGES_##stages, flags, EMIT_##emit, cost},
#include "ir/ops.def"
#undef X
};

enum ir_op ir_op_find(const char *name)
{
    for (int op = IR_NONE + 1; op < IR_OP_COUNT; op++)
        if (strcmp(ir_ops[op].name, name) == 0) return (enum ir_op)op;
    return IR_NONE;
}

const char *ir_attr_name(enum ir_op op, uint32_t index, size_t *length)
{
    const char *at = ir_ops[op].attributes;
    for (; index && *at; at++)
        if (*at == ' ') index--;
    *length = strcspn(at, " ");
    return at;
}

int32_t ir_attr_find(enum ir_op op, const char *name)
{
    for (uint32_t i = 0; i < ir_ops[op].attr_count; i++) {
        size_t length;
        const char *other = ir_attr_name(op, i, &length);
        if (strlen(name) == length && memcmp(name, other, length) == 0) return (int32_t)i;
    }
    return -1;
}

bool ir_attr_may_lack(enum ir_op op, uint32_t index)
{
    return ir_attr_find(op, "leaf") == (int32_t)index || ir_attr_find(op, "columns") == (int32_t)index ||
           ir_attr_find(op, "rows_first") == (int32_t)index;
}
