/* The smallest pieces of the LLVM printer: types, constants in the shape of a type, intrinsic calls, blocks and
 * counting loops. Everything works on scalars and on vectors alike. */
#include "codegen/llvm/llvm_emit.h"
#include <math.h>
#include <string.h>

uint32_t emit_lane_count(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 0;
}

LLVMTypeRef emit_shaped(LLVMTypeRef like, LLVMTypeRef element)
{
    uint32_t lanes = emit_lane_count(like);
    return lanes ? LLVMVectorType(element, lanes) : element;
}

LLVMTypeRef emit_memory_type(const struct emit *e, enum ir_dtype dtype)
{
    switch (dtype) {
    case IR_BOOL:
    case IR_U8:
    case IR_I8: return e->i8;
    case IR_U16:
    case IR_I16:
    case IR_F16:
    case IR_BF16: return e->i16;
    case IR_U32:
    case IR_I32: return e->i32;
    case IR_U64:
    case IR_I64: return e->i64;
    case IR_F32: return e->f32;
    case IR_F64: return e->f64;
    default: BUG("no machine type for dtype %d", (int)dtype);
    }
}

LLVMTypeRef emit_register_type(const struct emit *e, enum ir_dtype dtype, uint32_t lanes)
{
    LLVMTypeRef type = dtype == IR_BOOL                      ? e->i1
                       : dtype == IR_F16 || dtype == IR_BF16 ? e->f32
                                                             : emit_memory_type(e, dtype);
    return lanes ? LLVMVectorType(type, lanes) : type;
}

static LLVMValueRef repeat(LLVMTypeRef type, LLVMValueRef element)
{
    LLVMValueRef all[EMIT_MAX_LANES];
    uint32_t lanes = emit_lane_count(type);
    if (!lanes) return element;
    for (uint32_t i = 0; i < lanes; i++) all[i] = element;
    return LLVMConstVector(all, lanes);
}

static LLVMTypeRef element_of(LLVMTypeRef type) { return emit_lane_count(type) ? LLVMGetElementType(type) : type; }

LLVMValueRef emit_real(LLVMTypeRef type, double number)
{
    LLVMTypeRef element = element_of(type);
    /* LLVM converts from double; round here first so that the constant is that of C. */
    if (LLVMGetTypeKind(element) == LLVMFloatTypeKind) number = (double)(float)number;
    return repeat(type, LLVMConstReal(element, number));
}

LLVMValueRef emit_int(LLVMTypeRef type, uint64_t number)
{
    return repeat(type, LLVMConstInt(element_of(type), number, 0));
}

LLVMValueRef emit_i64(const struct emit *e, int64_t number) { return LLVMConstInt(e->i64, (uint64_t)number, 1); }

LLVMValueRef emit_element(const struct emit *e, LLVMTypeRef type, LLVMValueRef array, int64_t index)
{
    LLVMValueRef at = emit_i64(e, index);
    return LLVMBuildInBoundsGEP2(e->b, type, array, &at, 1, "");
}

LLVMValueRef emit_splat(struct emit *e, LLVMValueRef scalar, uint32_t lanes)
{
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
    if (LLVMIsConstant(scalar) && !LLVMIsAGlobalValue(scalar)) return repeat(type, scalar);
    LLVMValueRef poison = LLVMGetPoison(type);
    LLVMValueRef first = LLVMBuildInsertElement(e->b, poison, scalar, LLVMConstInt(e->i32, 0, 0), "");
    return LLVMBuildShuffleVector(e->b, first, poison, LLVMConstNull(LLVMVectorType(e->i32, lanes)), "");
}

LLVMValueRef emit_spread(struct emit *e, const struct emit_value *value, bool lanes)
{
    if (lanes && !value->varies) return emit_splat(e, value->v, e->lanes);
    if (!lanes && value->varies) BUG("a value that varies over lanes where one for all is needed");
    return value->v;
}

LLVMValueRef emit_iota(struct emit *e, LLVMTypeRef element, int64_t scale)
{
    LLVMValueRef all[EMIT_MAX_LANES];
    for (uint32_t i = 0; i < e->lanes; i++) all[i] = LLVMConstInt(element, (uint64_t)(scale * (int64_t)i), 1);
    return LLVMConstVector(all, e->lanes);
}

LLVMValueRef emit_intrinsic(struct emit *e, const char *name, LLVMTypeRef *overloads, uint32_t overload_count,
                            LLVMValueRef *args, uint32_t arg_count)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    ASSERT(id != 0);
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(e->module, id, overloads, overload_count);
    return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->context, id, overloads, overload_count), callee, args,
                          arg_count, "");
}

LLVMValueRef emit_call1(struct emit *e, const char *intrinsic, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    return emit_intrinsic(e, intrinsic, &type, 1, &x, 1);
}

LLVMValueRef emit_call2(struct emit *e, const char *intrinsic, LLVMValueRef x, LLVMValueRef y)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef args[] = {x, y};
    return emit_intrinsic(e, intrinsic, &type, 1, args, 2);
}

LLVMValueRef emit_fma(struct emit *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z)
{
    if (!e->has_fma) return LLVMBuildFAdd(e->b, LLVMBuildFMul(e->b, x, y, ""), z, "");
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMValueRef args[] = {x, y, z};
    return emit_intrinsic(e, "llvm.fma", &type, 1, args, 3);
}

LLVMValueRef emit_half_of(struct emit *e, LLVMValueRef pair, int which)
{
    LLVMTypeRef type = LLVMTypeOf(pair);
    return emit_from_bits(e, which ? LLVMBuildAnd(e->b, pair, emit_int(type, 0xffff0000), "")
                                   : LLVMBuildShl(e->b, pair, emit_int(type, 16), ""));
}

/* x and y hold pairs of bfloat16. The instruction adds the upper products first, each sum rounded, as two
 * multiply-adds do; vectors that it has no form for, and CPUs that do not have it, get these. */
LLVMValueRef emit_fma_pairs(struct emit *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z)
{
    uint32_t lanes = emit_lane_count(LLVMTypeOf(x));
    if (!e->target->pairs || lanes < 4 || lanes > 16) {
        for (int half = 2; half-- > 0;) z = emit_fma(e, emit_half_of(e, x, half), emit_half_of(e, y, half), z);
        return z;
    }
    LLVMTypeRef halves = LLVMVectorType(LLVMBFloatTypeInContext(e->context), 2 * lanes);
    LLVMValueRef args[] = {z, LLVMBuildBitCast(e->b, x, halves, ""), LLVMBuildBitCast(e->b, y, halves, "")};
    e->has_pairs = true;
    return emit_intrinsic(e,
                          lanes == 16  ? "llvm.x86.avx512bf16.dpbf16ps.512"
                          : lanes == 8 ? "llvm.x86.avx512bf16.dpbf16ps.256"
                                       : "llvm.x86.avx512bf16.dpbf16ps.128",
                          NULL, 0, args, 3);
}

/* Vectors of f32 of AVX-512. */
bool emit_has_scale(const struct emit *e, LLVMTypeRef type)
{
    return e->target->vector_bytes == 64 && emit_lane_count(type) >= 4;
}

LLVMValueRef emit_scale(struct emit *e, LLVMValueRef x, LLVMValueRef n)
{
    uint32_t lanes = emit_lane_count(LLVMTypeOf(x));
    LLVMValueRef args[] = {x, n, x, LLVMConstAllOnes(lanes == 16 ? e->i16 : e->i8), emit_int(e->i32, 4)};
    return emit_intrinsic(e,
                          lanes == 16  ? "llvm.x86.avx512.mask.scalef.ps.512"
                          : lanes == 8 ? "llvm.x86.avx512.mask.scalef.ps.256"
                                       : "llvm.x86.avx512.mask.scalef.ps.128",
                          NULL, 0, args, lanes == 16 ? 5 : 4);
}

LLVMValueRef emit_bits(struct emit *e, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    bool wide = LLVMGetTypeKind(element_of(type)) == LLVMDoubleTypeKind;
    return LLVMBuildBitCast(e->b, x, emit_shaped(type, wide ? e->i64 : e->i32), "");
}

LLVMValueRef emit_from_bits(struct emit *e, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    bool wide = LLVMGetIntTypeWidth(element_of(type)) == 64;
    return LLVMBuildBitCast(e->b, x, emit_shaped(type, wide ? e->f64 : e->f32), "");
}

LLVMValueRef emit_pick(struct emit *e, LLVMValueRef condition, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildSelect(e->b, condition, x, y, "");
}

LLVMValueRef emit_libm(struct emit *e, const char *name, const LLVMValueRef *args, uint32_t count)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]), element = element_of(type), types[3] = {element, element, element};
    LLVMTypeRef function_type = LLVMFunctionType(element, types, count, 0);
    LLVMValueRef callee = LLVMGetNamedFunction(e->module, name);
    if (!callee) callee = LLVMAddFunction(e->module, name, function_type);
    uint32_t lanes = emit_lane_count(type);
    LLVMValueRef one[3], result = lanes ? LLVMGetPoison(type) : NULL;
    for (uint32_t lane = 0; lane < (lanes ? lanes : 1); lane++) {
        LLVMValueRef index = LLVMConstInt(e->i32, lane, 0);
        for (uint32_t i = 0; i < count; i++)
            one[i] = lanes ? LLVMBuildExtractElement(e->b, args[i], index, "") : args[i];
        LLVMValueRef r = LLVMBuildCall2(e->b, function_type, callee, one, count, "");
        result = lanes ? LLVMBuildInsertElement(e->b, result, r, index, "") : r;
    }
    return result;
}

LLVMBasicBlockRef emit_block(struct emit *e) { return LLVMAppendBasicBlockInContext(e->context, e->function, ""); }

bool emit_known(LLVMValueRef v, int64_t *number)
{
    if (!LLVMIsAConstantInt(v)) return false;
    *number = LLVMConstIntGetSExtValue(v);
    return true;
}

struct emit_branch emit_if(struct emit *e, LLVMValueRef condition)
{
    struct emit_branch branch = {LLVMGetInsertBlock(e->b), NULL};
    LLVMBasicBlockRef then = emit_block(e);
    branch.after = emit_block(e);
    LLVMBuildCondBr(e->b, condition, then, branch.after);
    LLVMPositionBuilderAtEnd(e->b, then);
    return branch;
}

void emit_endif(struct emit *e, struct emit_branch branch)
{
    LLVMBuildBr(e->b, branch.after);
    LLVMMoveBasicBlockAfter(branch.after, LLVMGetInsertBlock(e->b));
    LLVMPositionBuilderAtEnd(e->b, branch.after);
}

LLVMValueRef emit_endif_pick(struct emit *e, struct emit_branch branch, LLVMValueRef then, LLVMValueRef otherwise)
{
    LLVMBasicBlockRef from[] = {branch.before, LLVMGetInsertBlock(e->b)};
    emit_endif(e, branch);
    LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(then), ""), values[] = {otherwise, then};
    LLVMAddIncoming(phi, values, from, 2);
    return phi;
}

struct emit_loop emit_loop_begin(struct emit *e, LLVMValueRef from, LLVMValueRef to, int64_t step, bool once)
{
    struct emit_loop loop = {NULL, to, step, emit_block(e), emit_block(e)};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
    if (once) LLVMBuildBr(e->b, loop.body);
    else LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, to, ""), loop.body, loop.after);
    LLVMPositionBuilderAtEnd(e->b, loop.body);
    loop.index = LLVMBuildPhi(e->b, e->i64, "");
    LLVMAddIncoming(loop.index, &from, &before, 1);
    return loop;
}

void emit_loop_end(struct emit *e, struct emit_loop loop)
{
    LLVMValueRef next = LLVMBuildNSWAdd(e->b, loop.index, emit_i64(e, loop.step), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, loop.to, ""), loop.body, loop.after);
    LLVMAddIncoming(loop.index, &next, &latch, 1);
    LLVMMoveBasicBlockAfter(loop.after, latch);
    LLVMPositionBuilderAtEnd(e->b, loop.after);
}
