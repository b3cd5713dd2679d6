/* Element-wise operations of the op table as LLVM instructions, with the meaning that ops.def gives them: integer
 * division by zero is -1, NaN wins in max and min, shifts by the width or more are defined, floats convert to
 * integers with saturation and NaN to 0. bf16 and f16 compute in f32 and round after every operation. */
#include "codegen/llvm/llvm_emit.h"
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- rounding to 16 bits */

/* Is it what arithmetic gives, and so no denormal? (Steps run with these flushed to zero.) */
static bool is_flushed(LLVMValueRef x)
{
    LLVMOpcode op = LLVMIsAInstruction(x) ? LLVMGetInstructionOpcode(x) : LLVMRet;
    if (op == LLVMFAdd || op == LLVMFSub || op == LLVMFMul || op == LLVMFDiv) return true;
    size_t length = 0;
    const char *name = op == LLVMCall ? LLVMGetValueName2(LLVMGetCalledValue(x), &length) : "";
    return strncmp(name, "llvm.fma.", 9) == 0 || strncmp(name, "llvm.x86.avx512bf16.dpbf16ps.", 29) == 0;
}

/* To nearest, ties to even, on the bits; NaN stays NaN, one that is short without more ado. The CPU's conversion takes
 * denormals for zeros: it is for what has none. */
static LLVMValueRef round_bf16(struct emit *e, LLVMValueRef x)
{
    uint32_t lanes = emit_lane_count(LLVMTypeOf(x));
    if (e->target->pairs && !e->target->invariant && (lanes == 8 || lanes == 16) &&
        (e->known & EMIT_FLUSHED || is_flushed(x))) {
        const char *name = lanes == 16 ? "llvm.x86.avx512bf16.cvtneps2bf16.512"
                                       : "llvm.x86.avx512bf16.cvtneps2bf16.256";
        LLVMValueRef half = emit_intrinsic(e, name, NULL, 0, &x, 1);
        e->has_pairs = true;
        return emit_half_from_bits(e, IR_BF16, LLVMBuildBitCast(e->b, half, LLVMVectorType(e->i16, lanes), ""));
    }
    LLVMValueRef bits = emit_bits(e, x);
    LLVMTypeRef type = LLVMTypeOf(bits);
    LLVMValueRef odd = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, bits, emit_int(type, 16), ""), emit_int(type, 1), "");
    LLVMValueRef up = LLVMBuildAdd(e->b, bits, LLVMBuildAdd(e->b, odd, emit_int(type, 0x7fff), ""), "");
    if (!(e->known & EMIT_ROUNDS_SHORT)) {
        LLVMValueRef quiet = LLVMBuildOr(e->b, bits, emit_int(type, 0x400000), "");
        up = emit_pick(e, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), quiet, up);
    }
    return emit_from_bits(e, LLVMBuildAnd(e->b, up, emit_int(type, 0xffff0000), ""));
}

/* Bits of the nearest f16 of an f32, and back, in integer arithmetic where the hardware has no conversion: denormals
 * by adding a number whose last place is theirs. */
static LLVMValueRef f16_bits(struct emit *e, LLVMValueRef x)
{
    LLVMValueRef bits = emit_bits(e, x);
    LLVMTypeRef type = LLVMTypeOf(bits), real = LLVMTypeOf(x);
    LLVMValueRef sign = LLVMBuildAnd(e->b, bits, emit_int(type, 0x80000000), "");
    LLVMValueRef size = LLVMBuildXor(e->b, bits, sign, "");
    LLVMValueRef odd = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, size, emit_int(type, 13), ""), emit_int(type, 1), "");
    LLVMValueRef normal = LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, size, emit_int(type, 0xc8000fffu), ""), odd, "");
    normal = LLVMBuildLShr(e->b, normal, emit_int(type, 13), "");
    LLVMValueRef small = emit_bits(e, LLVMBuildFAdd(e->b, emit_from_bits(e, size), emit_real(real, 0.5), ""));
    small = LLVMBuildSub(e->b, small, emit_int(type, 0x3f000000), "");
    LLVMValueRef r = emit_pick(e, LLVMBuildICmp(e->b, LLVMIntULT, size, emit_int(type, 0x38800000), ""), small, normal);
    r = emit_pick(e, LLVMBuildICmp(e->b, LLVMIntUGE, size, emit_int(type, 0x477ff000), ""), emit_int(type, 0x7c00), r);
    r = emit_pick(e, LLVMBuildICmp(e->b, LLVMIntUGT, size, emit_int(type, 0x7f800000), ""), emit_int(type, 0x7e00), r);
    return LLVMBuildOr(e->b, r, LLVMBuildLShr(e->b, sign, emit_int(type, 16), ""), "");
}

static const char fence[] = "llvm.arithmetic.fence";

/* As f32, kept from LLVM, which would calculate with and compare f16 where that gives the same: without instructions
 * for that, element by element, and from f32 and back for each operation. */
static LLVMValueRef widened(struct emit *e, LLVMValueRef half, LLVMTypeRef real)
{
    LLVMValueRef x = LLVMBuildFPExt(e->b, half, real, "");
    return LLVMIsConstant(x) ? x : emit_intrinsic(e, fence, &real, 1, &x, 1);
}

/* What was widened; NULL: it is nothing of that kind. */
static LLVMValueRef half_under(LLVMValueRef x)
{
    size_t length = 0;
    bool calls = LLVMIsAInstruction(x) && LLVMGetInstructionOpcode(x) == LLVMCall;
    const char *name = calls ? LLVMGetValueName2(LLVMGetCalledValue(x), &length) : "";
    return strncmp(name, fence, sizeof fence - 1) == 0 ? LLVMGetOperand(LLVMGetOperand(x, 0), 0) : NULL;
}

LLVMValueRef emit_half_from_bits(struct emit *e, enum ir_dtype dtype, LLVMValueRef raw)
{
    LLVMTypeRef shape = LLVMTypeOf(raw), type = emit_shaped(shape, e->i32), real = emit_shaped(shape, e->f32);
    if (dtype == IR_BF16)
        return emit_from_bits(e, LLVMBuildShl(e->b, LLVMBuildZExt(e->b, raw, type, ""), emit_int(type, 16), ""));
    if (e->has_f16c) return widened(e, LLVMBuildBitCast(e->b, raw, emit_shaped(shape, e->f16), ""), real);
    LLVMValueRef bits = LLVMBuildZExt(e->b, raw, type, "");
    LLVMValueRef sign = LLVMBuildShl(e->b, LLVMBuildAnd(e->b, bits, emit_int(type, 0x8000), ""), emit_int(type, 16),
                                     "");
    LLVMValueRef size = LLVMBuildAnd(e->b, bits, emit_int(type, 0x7fff), "");
    LLVMValueRef wide = LLVMBuildShl(e->b, size, emit_int(type, 13), "");
    LLVMValueRef normal = LLVMBuildAdd(e->b, wide, emit_int(type, 0x38000000), "");
    LLVMValueRef small = emit_bits(
        e, LLVMBuildFMul(e->b, LLVMBuildUIToFP(e->b, size, real, ""), emit_real(real, 0x1p-24), ""));
    LLVMValueRef r = emit_pick(e, LLVMBuildICmp(e->b, LLVMIntULT, size, emit_int(type, 0x400), ""), small, normal);
    LLVMValueRef end = LLVMBuildOr(e->b, wide, emit_int(type, 0x7f800000), "");
    r = emit_pick(e, LLVMBuildICmp(e->b, LLVMIntUGE, size, emit_int(type, 0x7c00), ""), end, r);
    return emit_from_bits(e, LLVMBuildOr(e->b, r, sign, ""));
}

LLVMValueRef emit_half_bits(struct emit *e, enum ir_dtype dtype, LLVMValueRef x)
{
    LLVMTypeRef narrow = emit_shaped(LLVMTypeOf(x), e->i16), wide = emit_shaped(LLVMTypeOf(x), e->i32);
    if (dtype == IR_BF16)
        return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, emit_bits(e, x), emit_int(wide, 16), ""), narrow, "");
    if (!e->has_f16c) return LLVMBuildTrunc(e->b, f16_bits(e, x), narrow, "");
    LLVMValueRef half = half_under(x);
    if (half) return LLVMBuildBitCast(e->b, half, narrow, "");
    return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, x, emit_shaped(LLVMTypeOf(x), e->f16), ""), narrow, "");
}

LLVMValueRef emit_round_to(struct emit *e, enum ir_dtype dtype, LLVMValueRef x)
{
    if (dtype == IR_BF16) return round_bf16(e, x);
    if (dtype == IR_F16) return emit_half_from_bits(e, IR_F16, emit_half_bits(e, IR_F16, x));
    return x;
}

/* ---------------------------------------------------------------- helpers */

static LLVMValueRef zero_like(LLVMValueRef x) { return LLVMConstNull(LLVMTypeOf(x)); }

static bool is_number(LLVMValueRef x) /* a constant that is not NaN */
{
    LLVMBool lossy;
    if (LLVMIsAConstantFP(x)) {
        double v = LLVMConstRealGetDouble(x, &lossy);
        return v == v;
    }
    if (emit_lane_count(LLVMTypeOf(x)) && LLVMIsConstant(x)) {
        LLVMValueRef first = LLVMGetAggregateElement(x, 0);
        return first && LLVMIsAConstantFP(first) &&
               LLVMConstRealGetDouble(first, &lossy) == LLVMConstRealGetDouble(first, &lossy);
    }
    return false;
}

/* maxps and minps give their second operand where either is NaN; one more select makes the first one's NaN win. */
static LLVMValueRef extremum(const struct emit_scalar *c)
{
    struct emit *e = c->e;
    LLVMValueRef x = c->x[0], y = c->x[1];
    bool max = c->op == OP_max;
    if (c->operand == IR_BOOL) return max ? LLVMBuildOr(e->b, x, y, "") : LLVMBuildAnd(e->b, x, y, "");
    if (!ir_dtype_is_float(c->operand)) {
        const char *name = ir_dtype_is_signed(c->operand) ? (max ? "llvm.smax" : "llvm.smin")
                                                          : (max ? "llvm.umax" : "llvm.umin");
        return emit_call2(e, name, x, y);
    }
    if (is_number(y)) {
        LLVMValueRef swap = x;
        x = y;
        y = swap;
    }
    LLVMValueRef wins = LLVMBuildFCmp(e->b, max ? LLVMRealOGT : LLVMRealOLT, x, y, "");
    LLVMValueRef r = emit_pick(e, wins, x, y);
    if (is_number(x)) return r;
    return emit_pick(e, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), x, r);
}

static LLVMValueRef compare(const struct emit_scalar *c, LLVMRealPredicate real, LLVMIntPredicate is_signed,
                            LLVMIntPredicate is_unsigned)
{
    if (ir_dtype_is_float(c->operand)) return LLVMBuildFCmp(c->e->b, real, c->x[0], c->x[1], "");
    return LLVMBuildICmp(c->e->b, ir_dtype_is_signed(c->operand) ? is_signed : is_unsigned, c->x[0], c->x[1], "");
}

static LLVMValueRef divide(const struct emit_scalar *c)
{
    struct emit *e = c->e;
    LLVMValueRef x = c->x[0], y = c->x[1];
    LLVMTypeRef type = LLVMTypeOf(x);
    bool rem = c->op == OP_rem, is_signed = ir_dtype_is_signed(c->operand);
    if (ir_dtype_is_float(c->operand)) {
        if (!rem && e->known & EMIT_STEADY_DIVISOR && emit_can_divide_steady(c)) return emit_divide_steady(c);
        if (!rem) return LLVMBuildFDiv(e->b, x, y, "");
        LLVMValueRef args[] = {x, y};
        return emit_libm(e, c->operand == IR_F64 ? "fmod" : "fmodf", args, 2);
    }
    /* The hardware traps on x / 0 and on least / -1: divide by 1 there and put the defined result in. */
    LLVMValueRef by_zero = LLVMBuildICmp(e->b, LLVMIntEQ, y, zero_like(y), "");
    LLVMValueRef odd = by_zero, minus = LLVMConstAllOnes(type), by_minus = NULL;
    if (is_signed) {
        by_minus = LLVMBuildICmp(e->b, LLVMIntEQ, y, minus, "");
        odd = LLVMBuildOr(e->b, by_zero, by_minus, "");
    }
    LLVMValueRef safe = emit_pick(e, odd, emit_int(type, 1), y), r;
    if (rem) {
        r = is_signed ? LLVMBuildSRem(e->b, x, safe, "") : LLVMBuildURem(e->b, x, safe, "");
        return emit_pick(e, by_zero, x, r);
    }
    r = is_signed ? LLVMBuildSDiv(e->b, x, safe, "") : LLVMBuildUDiv(e->b, x, safe, "");
    if (is_signed) r = emit_pick(e, by_minus, LLVMBuildNeg(e->b, x, ""), r);
    return emit_pick(e, by_zero, minus, r);
}

static LLVMValueRef shift(const struct emit_scalar *c)
{
    struct emit *e = c->e;
    LLVMValueRef x = c->x[0], y = c->x[1];
    LLVMTypeRef type = LLVMTypeOf(x);
    uint64_t bits = ir_dtype_bytes(c->operand) * 8;
    bool arithmetic = c->op == OP_shr && ir_dtype_is_signed(c->operand);
    LLVMValueRef in = LLVMBuildICmp(e->b, LLVMIntULT, y, emit_int(type, bits), "");
    LLVMValueRef by = emit_pick(e, in, y, emit_int(type, arithmetic ? bits - 1 : 0));
    if (arithmetic) return LLVMBuildAShr(e->b, x, by, "");
    LLVMValueRef r = c->op == OP_shl ? LLVMBuildShl(e->b, x, by, "") : LLVMBuildLShr(e->b, x, by, "");
    return emit_pick(e, in, r, zero_like(x));
}

static LLVMValueRef cast_float(const struct emit_scalar *c, LLVMTypeRef to)
{
    struct emit *e = c->e;
    LLVMValueRef x = c->x[0];
    if (c->result == IR_BOOL) return LLVMBuildFCmp(e->b, LLVMRealUNE, x, zero_like(x), "");
    if (!ir_dtype_is_float(c->result)) {
        LLVMTypeRef types[] = {to, LLVMTypeOf(x)};
        return emit_intrinsic(e, ir_dtype_is_signed(c->result) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2, &x,
                              1);
    }
    bool wide = c->operand == IR_F64;
    if (wide && c->result != IR_F64) x = LLVMBuildFPTrunc(e->b, x, to, "");
    else if (!wide && c->result == IR_F64) x = LLVMBuildFPExt(e->b, x, to, "");
    return x;
}

LLVMValueRef emit_cast(const struct emit_scalar *c)
{
    struct emit *e = c->e;
    LLVMValueRef x = c->x[0];
    LLVMTypeRef to = emit_shaped(LLVMTypeOf(x), emit_register_type(e, c->result, 0));
    if (c->operand == c->result) return x;
    if (ir_dtype_is_float(c->operand)) return cast_float(c, to);
    if (c->result == IR_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, x, zero_like(x), "");
    bool is_signed = ir_dtype_is_signed(c->operand);
    if (ir_dtype_is_float(c->result))
        return is_signed ? LLVMBuildSIToFP(e->b, x, to, "") : LLVMBuildUIToFP(e->b, x, to, "");
    size_t from_bytes = ir_dtype_bytes(c->operand), to_bytes = ir_dtype_bytes(c->result);
    if (c->operand == IR_BOOL || to_bytes > from_bytes)
        return is_signed ? LLVMBuildSExt(e->b, x, to, "") : LLVMBuildZExt(e->b, x, to, "");
    return to_bytes < from_bytes ? LLVMBuildTrunc(e->b, x, to, "") : x;
}

LLVMValueRef emit_bitcast(const struct emit_scalar *c)
{
    struct emit *e = c->e;
    LLVMValueRef x = c->x[0];
    LLVMTypeRef type = LLVMTypeOf(x);
    bool half_in = c->operand == IR_F16 || c->operand == IR_BF16,
         half_out = c->result == IR_F16 || c->result == IR_BF16;
    if (half_in && half_out && c->operand != c->result) BUG("bitcast between two 16-bit floats");
    if (half_in && !half_out) return emit_half_bits(e, c->operand, x);
    if (half_out && !half_in) return emit_half_from_bits(e, c->result, x);
    if (c->operand == IR_BOOL)
        return LLVMBuildZExt(e->b, x, emit_shaped(type, emit_register_type(e, c->result, 0)), "");
    if (c->result == IR_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, x, zero_like(x), "");
    return LLVMBuildBitCast(e->b, x, emit_shaped(type, emit_register_type(e, c->result, 0)), "");
}

LLVMValueRef emit_sign(const struct emit_scalar *c)
{
    struct emit *e = c->e;
    LLVMValueRef x = c->x[0], zero = zero_like(x);
    LLVMTypeRef type = LLVMTypeOf(x);
    if (ir_dtype_is_float(c->operand)) {
        LLVMValueRef nonzero = LLVMBuildFCmp(e->b, LLVMRealONE, x, zero, "");
        LLVMValueRef none = LLVMBuildFMul(e->b, x, zero, ""); /* a zero of its sign, also of a denormal number; NaN */
        return emit_pick(e, nonzero, emit_call2(e, "llvm.copysign", emit_real(type, 1.0), x), none);
    }
    LLVMValueRef up = LLVMBuildZExt(e->b, LLVMBuildICmp(e->b, LLVMIntNE, x, zero, ""), type, "");
    if (!ir_dtype_is_signed(c->operand)) return up;
    return emit_pick(e, LLVMBuildICmp(e->b, LLVMIntSLT, x, zero, ""), LLVMConstAllOnes(type), up);
}

/* ---------------------------------------------------------------- random numbers */

/* A vector of which LLVM does not ask what bits are known. It does so of every sum and rotation, through what these are
 * made of, six deep: for the rounds of Threefry, where nothing is known, that was a fifth of a small document's time. A
 * fence of floats is no instruction. */
static LLVMValueRef unknown_bits(struct emit *e, LLVMValueRef x)
{
    if (!emit_lane_count(LLVMTypeOf(x))) return x; /* rotated by an instruction, which is looked through once */
    return emit_bits(e, emit_call1(e, "llvm.arithmetic.fence", emit_from_bits(e, x)));
}

/* Threefry-2x32, 20 rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. */
LLVMValueRef emit_threefry(const struct emit_scalar *c)
{
    static const uint8_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    struct emit *e = c->e;
    LLVMTypeRef type = LLVMTypeOf(c->x[0]);
    LLVMValueRef key[3] = {c->x[0], c->x[1], NULL}, x0, x1;
    key[2] = LLVMBuildXor(e->b, LLVMBuildXor(e->b, key[0], key[1], ""), emit_int(type, 0x1BD11BDA), "");
    x0 = LLVMBuildAdd(e->b, c->x[2], key[0], "");
    x1 = LLVMBuildAdd(e->b, c->x[3], key[1], "");
    for (uint32_t group = 0; group < 5; group++) {
        for (uint32_t round = 0; round < 4; round++) {
            x0 = LLVMBuildAdd(e->b, x0, x1, "");
            LLVMValueRef args[] = {x1, x1, emit_int(type, rotations[group % 2][round])};
            x1 = unknown_bits(e, LLVMBuildXor(e->b, emit_intrinsic(e, "llvm.fshl", &type, 1, args, 3), x0, ""));
        }
        x0 = unknown_bits(e, LLVMBuildAdd(e->b, x0, key[(group + 1) % 3], ""));
        x1 = LLVMBuildAdd(e->b, x1, LLVMBuildAdd(e->b, key[(group + 2) % 3], emit_int(type, group + 1), ""), "");
    }
    return c->word ? x1 : x0;
}

/* ---------------------------------------------------------------- the rest, and the table */

#define RULE(name, expression) \
    LLVMValueRef emit_##name(const struct emit_scalar *c) \
    { \
        LLVMBuilderRef b = c->e->b; \
        const LLVMValueRef *x = c->x; \
        bool is_float = ir_dtype_is_float(c->operand); \
        (void)b, (void)x, (void)is_float; \
        return expression; \
    }

RULE(neg, is_float ? LLVMBuildFNeg(b, x[0], "") : LLVMBuildNeg(b, x[0], ""))
RULE(abs, is_float                         ? emit_call1(c->e, "llvm.fabs", x[0])
          : ir_dtype_is_signed(c->operand) ? emit_pick(c->e, LLVMBuildICmp(b, LLVMIntSLT, x[0], zero_like(x[0]), ""),
                                                       LLVMBuildNeg(b, x[0], ""), x[0])
                                           : x[0])
RULE(floor, emit_call1(c->e, "llvm.floor", x[0]))
RULE(ceil, emit_call1(c->e, "llvm.ceil", x[0]))
RULE(round, emit_call1(c->e, "llvm.roundeven", x[0]))
RULE(not, LLVMBuildNot(b, x[0], ""))
RULE(add, is_float ? LLVMBuildFAdd(b, x[0], x[1], "") : LLVMBuildAdd(b, x[0], x[1], ""))
RULE(sub, is_float ? LLVMBuildFSub(b, x[0], x[1], "") : LLVMBuildSub(b, x[0], x[1], ""))
RULE(mul, is_float ? LLVMBuildFMul(b, x[0], x[1], "") : LLVMBuildMul(b, x[0], x[1], ""))
RULE(div, divide(c))
RULE(rem, divide(c))
RULE(max, extremum(c))
RULE(min, extremum(c))
RULE(and, LLVMBuildAnd(b, x[0], x[1], ""))
RULE(or, LLVMBuildOr(b, x[0], x[1], ""))
RULE(xor, LLVMBuildXor(b, x[0], x[1], ""))
RULE(shl, shift(c))
RULE(shr, shift(c))
RULE(eq, compare(c, LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ))
RULE(ne, compare(c, LLVMRealUNE, LLVMIntNE, LLVMIntNE))
RULE(lt, compare(c, LLVMRealOLT, LLVMIntSLT, LLVMIntULT))
RULE(le, compare(c, LLVMRealOLE, LLVMIntSLE, LLVMIntULE))
RULE(select, emit_pick(c->e, x[0], x[1], x[2]))

static emit_rule *const rules[IR_OP_COUNT] = {
#define EWISE(name) [OP_##name] = emit_##name,
#include "ir/emit.def"
};

/* 2^n or -2^n, in all lanes. */
static bool is_power_of_two(LLVMValueRef x)
{
    LLVMBool lossy;
    int exponent;
    if (emit_lane_count(LLVMTypeOf(x)) && LLVMIsConstant(x)) x = LLVMGetAggregateElement(x, 0);
    if (!x || !LLVMIsAConstantFP(x)) return false;
    return fabs(frexp(LLVMConstRealGetDouble(x, &lossy), &exponent)) == 0.5;
}

/* A product with a power of two has no more digits: it is a bfloat16 already, as denormals are flushed to zero. */
static bool is_exact(enum ir_op op, enum ir_dtype dtype, enum ir_dtype operand, const LLVMValueRef *args)
{
    return dtype == IR_BF16 && operand == dtype && op == OP_mul &&
           (is_power_of_two(args[0]) || is_power_of_two(args[1]));
}

LLVMValueRef emit_op(struct emit *e, enum ir_op op, enum ir_dtype result, enum ir_dtype operand, uint8_t word,
                     const LLVMValueRef *args)
{
    if (!rules[op]) BUG("no scalar code for op %s", ir_ops[op].name);
    LLVMValueRef v = rules[op](&(struct emit_scalar){e, op, result, operand, word, args});
    return ir_ops[op].flags & IR_ROUNDS && !is_exact(op, result, operand, args) ? emit_round_to(e, result, v) : v;
}

LLVMValueRef emit_combine(struct emit *e, enum ir_op op, enum ir_dtype dtype, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef args[] = {x, y};
    return emit_op(e, op, dtype, dtype, 0, args);
}
