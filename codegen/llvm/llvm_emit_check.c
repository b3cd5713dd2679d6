/* Whether what a step stores into its next state is finite, seen where it is stored, so that nothing is read again: 0 *
 * x is added up, which is NaN from the first x on that is not finite. Where it has to be below a bound as well, x * x
 * is added up; where that is a close one, which the squares of many numbers below it would pass together, the largest
 * of the bits of |x| is kept, in whose order NaN is the last. At the end of the function what is too large or NaN
 * raises the flag in front of the scratch (step_abi.h). */
#include "codegen/llvm/llvm_emit.h"
#include <math.h>
#include <stepc/step_abi.h>

void emit_check(struct emit *e, uint32_t way, uint8_t kind, LLVMValueRef stored, LLVMValueRef mask)
{
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(stored)), none = kind == NEST_CLOSE ? emit_bits(e, zero) : zero;
    LLVMTypeRef type = LLVMTypeOf(none);
    uint32_t i = 0;
    while (i < e->check_count && (e->checks[i].copy != e->copy || e->checks[i].way != way ||
                                  e->checks[i].zero != zero || e->checks[i].kind != kind))
        i++;
    ASSERT(i < EMIT_MAX_CHECKS);
    if (i == e->check_count) { /* constants are unique: equal zeros, equal types */
        e->checks[e->check_count++].zero = zero;
        e->checks[i].copy = e->copy;
        e->checks[i].way = way;
        e->checks[i].kind = kind;
        e->checks[i].sum = LLVMBuildAlloca(e->allocas, type, "");
        LLVMBuildStore(e->allocas, none, e->checks[i].sum);
    }
    if (mask) stored = LLVMBuildSelect(e->b, mask, stored, zero, "");
    LLVMValueRef sum = LLVMBuildLoad2(e->b, type, e->checks[i].sum, ""), more;
    if (kind == NEST_CLOSE) {
        LLVMValueRef bits = emit_bits(e, emit_call1(e, "llvm.fabs", stored));
        more = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntUGT, bits, sum, ""), bits, sum, "");
    } else {
        more = emit_fma(e, stored, kind == NEST_FINITE ? zero : stored, sum);
    }
    LLVMBuildStore(e->b, more, e->checks[i].sum);
}

/* Whether a lane of the sum is not below the limit, as NaN is not. */
static LLVMValueRef not_below(struct emit *e, uint32_t check, double limit)
{
    LLVMTypeRef type = LLVMTypeOf(e->checks[check].zero);
    uint32_t lanes = emit_lane_count(type);
    bool bounded = e->checks[check].kind != NEST_FINITE, close = e->checks[check].kind == NEST_CLOSE;
    LLVMValueRef most = e->checks[check].zero, here;
    if (bounded) most = LLVMConstReal(lanes ? LLVMGetElementType(type) : type, limit);
    if (bounded && lanes) most = emit_splat(e, most, lanes);
    if (close) most = emit_bits(e, most);
    LLVMValueRef sum = LLVMBuildLoad2(e->b, LLVMTypeOf(most), e->checks[check].sum, "");
    if (close) here = LLVMBuildICmp(e->b, LLVMIntUGE, sum, most, "");
    else here = LLVMBuildFCmp(e->b, bounded ? LLVMRealUGE : LLVMRealUNO, sum, most, "");
    return lanes ? emit_call1(e, "llvm.vector.reduce.or", here) : here;
}

static LLVMValueRef any_not_below(struct emit *e, uint8_t kind, double limit)
{
    LLVMValueRef bad = NULL;
    for (uint32_t i = 0; i < e->check_count; i++) {
        if (e->checks[i].kind != kind) continue;
        LLVMValueRef here = not_below(e, i, limit);
        bad = bad ? LLVMBuildOr(e->b, bad, here, "") : here;
    }
    return bad;
}

void emit_flag(struct emit *e, LLVMValueRef scratch)
{
    for (uint8_t kind = NEST_FINITE; kind <= NEST_CLOSE; kind++) {
        bool bounded = kind != NEST_FINITE;
        LLVMValueRef bad = any_not_below(e, kind, kind == NEST_CLOSE ? STEPC_BOUND_CLOSE : STEPC_BOUND * STEPC_BOUND);
        if (!bad) continue;
        struct emit_branch branch = emit_if(e, bad);
        LLVMValueRef flag = emit_element(e, e->i8, scratch, -STEPC_FLAG_BEFORE);
        LLVMValueRef raised = LLVMConstInt(e->i32, bounded ? STEPC_FLAG_LARGE : STEPC_FLAG_NOT_FINITE, 0);
        if (bounded) { /* a square that is too large for its dtype looks like infinity */
            LLVMValueRef also = LLVMBuildZExt(e->b, any_not_below(e, kind, (double)INFINITY), e->i32, "");
            raised = LLVMBuildOr(e->b, LLVMBuildOr(e->b, raised, also, ""), LLVMBuildLoad2(e->b, e->i32, flag, ""), "");
        }
        LLVMBuildStore(e->b, raised, flag);
        emit_endif(e, branch);
    }
    e->check_count = 0;
}
