/* The registers of a nest: allocas with constant indices, which mem2reg dissolves. One of lanes is a vector, or, where
 * a loop over vectors is unrolled, as many of them as it needs: the vectors of a tile, or partial sums. */
#include "codegen/llvm/llvm_emit.h"

LLVMValueRef emit_slot(struct emit *e, uint32_t r, int64_t element, uint32_t copy)
{
    struct emit_register *reg = &e->regs[r];
    uint32_t stride = reg->tile ? reg->copies : EMIT_MAX_COPIES;
    if (element < 0 || element >= (int64_t)reg->count)
        BUG("element %lld of a register of %u", (long long)element, reg->count);
    if (!reg->slots) reg->slots = arena_new_array(e->arena, LLVMValueRef, (size_t)reg->count * stride);
    LLVMValueRef *at = &reg->slots[(uint32_t)element * stride + copy];
    if (!*at) *at = LLVMBuildAlloca(e->allocas, emit_register_type(e, reg->dtype, reg->lanes ? e->lanes : 0), "");
    return *at;
}

/* The vector of the running iteration: of tiles the one it stands for, of partial sums its own. */
static LLVMValueRef current_slot(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    bool copies = e->in_vector && reg->lanes && !reg->in_vector;
    return emit_slot(e, s->reg, emit_constant_index(e, &s->index), copies ? e->copy : 0);
}

LLVMValueRef emit_register_load(struct emit *e, const struct emit_register *reg, LLVMValueRef at)
{
    return LLVMBuildLoad2(e->b, emit_register_type(e, reg->dtype, reg->lanes ? e->lanes : 0), at, "");
}

LLVMValueRef emit_identity(struct emit *e, enum ir_op op, enum ir_dtype dtype, uint32_t lanes)
{
    LLVMTypeRef type = emit_register_type(e, dtype, lanes);
    bool is_float = ir_dtype_is_float(dtype), is_signed = ir_dtype_is_signed(dtype);
    unsigned bits = (unsigned)ir_dtype_bytes(dtype) * 8;
    uint64_t top = (uint64_t)1 << (bits - 1);
    switch (op) {
    case OP_add: return is_float ? emit_real(type, -0.0) : LLVMConstNull(type);
    case OP_mul: return is_float ? emit_real(type, 1.0) : emit_int(type, 1);
    case OP_max: return is_float ? emit_real(type, -__builtin_inf()) : emit_int(type, is_signed ? top : 0);
    case OP_min: return is_float ? emit_real(type, __builtin_inf()) : emit_int(type, is_signed ? top - 1 : UINT64_MAX);
    case OP_and: return LLVMConstAllOnes(type);
    case OP_or:
    case OP_xor: return LLVMConstNull(type);
    default: BUG("%s is not a reduction", ir_ops[op].name);
    }
}

void emit_declare(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    LLVMValueRef initial = emit_spread(e, &e->values[s->args[0]], reg->lanes);
    for (int64_t i = 0; i < (int64_t)reg->count; i++)
        for (uint32_t copy = 0; copy < reg->copies; copy++)
            LLVMBuildStore(e->b, initial, emit_slot(e, s->reg, i, copy));
}

void emit_get(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    LLVMValueRef at;
    if (reg->lanes && !e->in_vector) BUG("a lane register is read outside a vector loop");
    if (reg->spilled) {
        LLVMValueRef index = emit_affine(e, &s->index);
        at = LLVMBuildInBoundsGEP2(e->b, emit_register_type(e, reg->dtype, reg->lanes ? e->lanes : 0), reg->spilled,
                                   &index, 1, "");
    } else {
        at = current_slot(e, s);
    }
    e->values[s->result] = (struct emit_value){emit_register_load(e, reg, at), reg->dtype, reg->lanes};
}

void emit_set(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    LLVMValueRef v = emit_spread(e, &e->values[s->args[0]], reg->lanes);
    if (reg->lanes && !e->in_vector)
        for (uint32_t copy = 0; copy < reg->copies; copy++)
            LLVMBuildStore(e->b, v, emit_slot(e, s->reg, emit_constant_index(e, &s->index), copy));
    else LLVMBuildStore(e->b, v, current_slot(e, s));
}

void emit_reduce(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    LLVMValueRef at = current_slot(e, s), v = emit_spread(e, &e->values[s->args[0]], reg->lanes);
    LLVMValueRef old = emit_register_load(e, reg, at);
    LLVMValueRef now = emit_combine(e, s->op, reg->dtype, old, v);
    if (e->mask && reg->lanes) now = emit_pick(e, e->mask, now, old);
    LLVMBuildStore(e->b, now, at);
}

/* Halves onto halves: the same tree whatever the optimisation level. */
void emit_fold(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    int64_t element = emit_constant_index(e, &s->index);
    LLVMValueRef all = emit_register_load(e, reg, emit_slot(e, s->reg, element, 0)), lower[EMIT_MAX_LANES],
                 upper[EMIT_MAX_LANES];
    if (!reg->lanes) {
        e->values[s->result] = (struct emit_value){all, reg->dtype, false};
        return;
    }
    for (uint32_t copy = 1; reg->tile && copy < reg->copies; copy++)
        all = emit_combine(e, s->op, reg->dtype, all, emit_register_load(e, reg, emit_slot(e, s->reg, element, copy)));
    for (uint32_t half = e->lanes / 2; half > 0; half /= 2) {
        for (uint32_t i = 0; i < half; i++) {
            lower[i] = LLVMConstInt(e->i32, i, 0);
            upper[i] = LLVMConstInt(e->i32, half + i, 0);
        }
        LLVMValueRef poison = LLVMGetPoison(LLVMTypeOf(all));
        LLVMValueRef x = LLVMBuildShuffleVector(e->b, all, poison, LLVMConstVector(lower, half), "");
        LLVMValueRef y = LLVMBuildShuffleVector(e->b, all, poison, LLVMConstVector(upper, half), "");
        all = emit_combine(e, s->op, reg->dtype, x, y);
    }
    LLVMValueRef one = LLVMBuildExtractElement(e->b, all, LLVMConstInt(e->i32, 0, 0), "");
    e->values[s->result] = (struct emit_value){one, reg->dtype, false};
}

/* Blocks of 1, 2, 4 .. lanes change places with those of the element so many further on: log2(lanes) shuffles each. */
static void turn_lanes(struct emit *e, LLVMValueRef *x)
{
    LLVMValueRef upper[EMIT_MAX_LANES], lower[EMIT_MAX_LANES];
    for (uint32_t size = 1; size < e->lanes; size *= 2) {
        for (uint32_t lane = 0; lane < e->lanes; lane++) {
            bool second = lane & size;
            upper[lane] = LLVMConstInt(e->i32, second ? e->lanes + lane - size : lane, 0);
            lower[lane] = LLVMConstInt(e->i32, second ? e->lanes + lane : lane + size, 0);
        }
        for (uint32_t i = 0; i < e->lanes; i++) {
            if (i & size) continue;
            LLVMValueRef a = x[i], b = x[i + size];
            x[i] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(upper, e->lanes), "");
            x[i + size] = LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(lower, e->lanes), "");
        }
    }
}

/* Of other numbers of elements than lanes, tiles of several vectors: blocks of lanes by lanes, filled up with zeros. */
void emit_turn(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    uint32_t blocks = ((uint32_t)s->extent + e->lanes - 1) / e->lanes, rows = blocks * e->lanes;
    LLVMValueRef *x = arena_new_array(e->arena, LLVMValueRef, (size_t)blocks * rows),
                 zero = LLVMConstNull(emit_register_type(e, reg->dtype, e->lanes));
    for (uint32_t to = 0; to < blocks; to++)
        for (uint32_t i = 0; i < rows; i++) { /* block [to, from] of rows and vectors goes to [from, to] */
            uint32_t row = to * e->lanes + i % e->lanes, copy = i / e->lanes;
            bool there = row < s->extent && copy < reg->copies;
            x[to * rows + i] = there ? emit_register_load(e, reg, emit_slot(e, s->reg, row, copy)) : zero;
        }
    for (uint32_t i = 0; i < blocks * blocks; i++) turn_lanes(e, x + (size_t)i * e->lanes);
    for (uint32_t row = 0; row < s->extent; row++)
        for (uint32_t copy = 0; copy < blocks && copy < reg->copies; copy++)
            LLVMBuildStore(e->b, x[copy * rows + row], emit_slot(e, s->reg, row, copy));
}

/* Vector number `copy`: of each vector of the source that it has lanes of, in turn. */
static LLVMValueRef spread_vector(struct emit *e, const struct nest_stmt *s, int64_t element, uint32_t copy)
{
    const struct emit_register *source = &e->regs[s->from[0]];
    int64_t first = emit_constant_index(e, &s->index), lanes = e->lanes;
    LLVMValueRef all = LLVMGetPoison(emit_register_type(e, source->dtype, e->lanes)), lane[EMIT_MAX_LANES];
    for (uint32_t from = 0; from < source->copies; from++) {
        bool any = false;
        for (int64_t i = 0; i < lanes; i++) {
            int64_t at = first + (copy * lanes + i) / s->extent * s->from[1];
            bool here = at / lanes == from;
            any |= here;
            lane[i] = LLVMConstInt(e->i32, (uint64_t)(here ? lanes + at % lanes : i), 0);
        }
        LLVMValueRef x = emit_register_load(e, source, emit_slot(e, s->from[0], element, from));
        if (any) all = LLVMBuildShuffleVector(e->b, all, x, LLVMConstVector(lane, e->lanes), "");
    }
    return all;
}

void emit_spread_lanes(struct emit *e, const struct nest_stmt *s)
{
    const struct emit_register *reg = &e->regs[s->reg];
    for (int64_t i = 0; i < (int64_t)reg->count; i++)
        for (uint32_t copy = 0; copy < reg->copies; copy++)
            LLVMBuildStore(e->b, spread_vector(e, s, i, copy), emit_slot(e, s->reg, i, copy));
}
