/* Whether what a step stores into its next state is finite, seen where it is stored, so that nothing is read again: 0 *
 * x is added up, which is NaN from the first x on that is not finite. At the end of the function a sum that is NaN
 * raises the flag in front of the scratch (step_abi.h). */
#include "codegen/llvm/llvm_emit.h"
#include <stepc/step_abi.h>

void emit_check(struct emit *e, uint32_t way, LLVMValueRef stored, LLVMValueRef mask)
{
    LLVMTypeRef type = LLVMTypeOf(stored);
    LLVMValueRef zero = LLVMConstNull(type);
    uint32_t i = 0;
    while (i < e->check_count && (e->checks[i].copy != e->copy || e->checks[i].way != way || e->checks[i].zero != zero))
        i++;
    ASSERT(i < EMIT_MAX_CHECKS);
    if (i == e->check_count) { /* constants are unique: equal zeros, equal types */
        e->checks[e->check_count++].zero = zero;
        e->checks[i].copy = e->copy;
        e->checks[i].way = way;
        e->checks[i].sum = LLVMBuildAlloca(e->allocas, type, "");
        LLVMBuildStore(e->allocas, zero, e->checks[i].sum);
    }
    if (mask) stored = LLVMBuildSelect(e->b, mask, stored, zero, "");
    LLVMValueRef sum = LLVMBuildLoad2(e->b, type, e->checks[i].sum, "");
    LLVMBuildStore(e->b, emit_fma(e, stored, zero, sum), e->checks[i].sum);
}

void emit_flag(struct emit *e, LLVMValueRef scratch)
{
    LLVMValueRef bad = NULL;
    for (uint32_t i = 0; i < e->check_count; i++) {
        LLVMTypeRef type = LLVMTypeOf(e->checks[i].zero);
        LLVMValueRef sum = LLVMBuildLoad2(e->b, type, e->checks[i].sum, "");
        LLVMValueRef here = LLVMBuildFCmp(e->b, LLVMRealUNO, sum, e->checks[i].zero, "");
        if (emit_lane_count(type)) here = emit_call1(e, "llvm.vector.reduce.or", here);
        bad = bad ? LLVMBuildOr(e->b, bad, here, "") : here;
    }
    e->check_count = 0;
    if (!bad) return;
    struct emit_branch branch = emit_if(e, bad);
    LLVMBuildStore(e->b, LLVMConstInt(e->i32, 1, 0), emit_element(e, e->i8, scratch, -STEPC_FLAG_BEFORE));
    emit_endif(e, branch);
}
