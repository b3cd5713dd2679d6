/* Constants of roundings beside the tile of a product. LLVM loads them before the outermost loop and keeps them in
 * registers, of which the tile needs almost all: then it keeps sums of the tile in memory, where each step waits for
 * the one before (a GELU's gradient in bfloat16 behind a product, with AVX2: a third of its rate). So loops that round
 * to 16 bits beside a tile get their constants from a number that LLVM does not know to be 0, read where they begin.
 * Others do as well with memory operands, and short contractions, as attention's, would not earn it. */
#include "codegen/llvm/llvm_emit.h"

enum { LEAST_STEPS = 96 /* of a contraction */ };

static bool multiplies_and_adds(const struct nest_stmt *s)
{
    bool found = s->kind == NEST_FMA;
    for (size_t i = 0; i < s->body.count && !found; i++) found = multiplies_and_adds(s->body.items[i]);
    return found;
}

static void find_declared(const struct nest_stmt *s, bool *declared)
{
    if (s->kind == NEST_REG) declared[s->reg] = true;
    for (size_t i = 0; i < s->body.count; i++) find_declared(s->body.items[i], declared);
}

static bool sets_another(const struct nest_stmt *s, const bool *declared)
{
    bool found = s->kind == NEST_SET && !declared[s->reg];
    for (size_t i = 0; i < s->body.count && !found; i++) found = sets_another(s->body.items[i], declared);
    return found;
}

/* A loop over the steps of a contraction: it multiplies and adds into registers from before it. */
static bool contracts(struct emit *e, const struct nest_stmt *s)
{
    if (s->kind != NEST_FOR || s->loop != NEST_SERIAL || s->extent < LEAST_STEPS || !multiplies_and_adds(s))
        return false;
    bool *declared = arena_new_array(e->arena, bool, e->nest->reg_count + 1);
    find_declared(s, declared);
    return sets_another(s, declared);
}

static bool has_contraction(struct emit *e, const struct nest_stmt *s)
{
    bool found = contracts(e, s);
    for (size_t i = 0; i < s->body.count && !found; i++) found = has_contraction(e, s->body.items[i]);
    return found;
}

static bool rounds(const struct nest_stmt *s)
{
    bool found = s->kind == NEST_OP && (s->dtype == IR_BF16 || s->dtype == IR_F16);
    for (size_t i = 0; i < s->body.count && !found; i++) found = rounds(s->body.items[i]);
    return found;
}

void emit_apart_survey(struct emit *e)
{
    e->contracts = false;
    e->inside = false;
    for (size_t i = 0; i < e->nest->body.count; i++) e->contracts |= has_contraction(e, e->nest->body.items[i]);
}

struct emit_apart emit_apart_begin(struct emit *e, const struct nest_stmt *s)
{
    struct emit_apart a = {NULL, NULL, e->inside};
    if (e->inside || !e->contracts) return a;
    bool contraction = contracts(e, s);
    if (!contraction && has_contraction(e, s)) return a;
    e->inside = true;
    if (contraction || !rounds(s)) return a;
    if (!e->nothing) {
        e->nothing = LLVMBuildAlloca(e->allocas, e->i32, "");
        LLVMBuildStore(e->allocas, LLVMConstInt(e->i32, 0, 0), e->nothing);
    }
    a.zero = LLVMBuildLoad2(e->b, e->i32, e->nothing, "");
    LLVMSetVolatile(a.zero, 1);
    a.last = LLVMGetLastBasicBlock(e->function);
    return a;
}

/* Vectors of numbers of 32 and 64 bits that no instruction makes out of nothing. */
static bool is_loaded(LLVMValueRef v)
{
    if (!LLVMIsAConstantDataVector(v)) return false;
    LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(v));
    LLVMTypeKind kind = LLVMGetTypeKind(element);
    if (kind == LLVMIntegerTypeKind) return LLVMGetIntTypeWidth(element) >= 32 && v != LLVMConstAllOnes(LLVMTypeOf(v));
    return kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind;
}

static bool takes_any(LLVMValueRef instruction, uint32_t operand)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMPHI:
    case LLVMGetElementPtr:
    case LLVMExtractElement:
    case LLVMInsertElement: return false;
    case LLVMShl:
    case LLVMLShr:
    case LLVMAShr: return operand == 0;
    default: return true;
    }
}

enum { MOST = 64 /* constants of a loop */ };
struct made {
    LLVMValueRef of[MOST], as[MOST], anchor;
    uint32_t count;
};

static LLVMValueRef made_of(struct emit *e, struct made *m, LLVMValueRef zero, LLVMValueRef constant)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->of[i] == constant) return m->as[i];
    if (m->count == MOST) return constant;
    LLVMTypeRef type = LLVMTypeOf(constant), element = LLVMGetElementType(type);
    bool wide = LLVMGetTypeKind(element) == LLVMDoubleTypeKind ||
                (LLVMGetTypeKind(element) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(element) == 64);
    uint32_t lanes = LLVMGetVectorSize(type);
    LLVMPositionBuilderBefore(e->b, m->anchor);
    LLVMValueRef none = emit_splat(e, wide ? LLVMBuildZExt(e->b, zero, e->i64, "") : zero, lanes);
    LLVMTypeRef bits = LLVMVectorType(wide ? e->i64 : e->i32, lanes);
    LLVMValueRef made = LLVMBuildXor(e->b, LLVMBuildBitCast(e->b, constant, bits, ""), none, "");
    m->of[m->count] = constant;
    return m->as[m->count++] = LLVMBuildBitCast(e->b, made, type, "");
}

static void replace(struct emit *e, struct made *m, LLVMValueRef zero, LLVMValueRef instruction)
{
    for (; instruction; instruction = LLVMGetNextInstruction(instruction))
        for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(instruction); i++) {
            LLVMValueRef v = LLVMGetOperand(instruction, i);
            if (is_loaded(v) && takes_any(instruction, i)) LLVMSetOperand(instruction, i, made_of(e, m, zero, v));
        }
}

void emit_apart_end(struct emit *e, struct emit_apart a)
{
    e->inside = a.inside;
    if (!a.zero) return;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    struct made m = {.anchor = LLVMGetNextInstruction(a.zero), .count = 0};
    if (m.anchor) replace(e, &m, a.zero, m.anchor);
    for (LLVMBasicBlockRef block = LLVMGetNextBasicBlock(a.last); m.anchor && block;
         block = LLVMGetNextBasicBlock(block))
        replace(e, &m, a.zero, LLVMGetFirstInstruction(block));
    LLVMPositionBuilderAtEnd(e->b, here);
    if (!m.count) LLVMInstructionEraseFromParent(a.zero);
}
