/* Checks of values (NEST_CHECK): a test beside what made the value, and where it fails, a call of the runtime with what
 * is known of the lanes (runtime/finite.c). Nothing else reads what is computed here. */
#include "codegen/llvm/llvm_emit.h"
#include <math.h>
#include <stepc/step_abi.h>

static LLVMValueRef not_finite(struct emit *e, LLVMValueRef x)
{
    LLVMValueRef size = emit_call1(e, "llvm.fabs", x);
    return LLVMBuildFCmp(e->b, LLVMRealUEQ, size, emit_real(LLVMTypeOf(x), HUGE_VAL), "");
}

/* Lane i is bit i. */
static LLVMValueRef as_bits(struct emit *e, LLVMValueRef condition)
{
    uint32_t lanes = emit_lane_count(LLVMTypeOf(condition));
    if (lanes) condition = LLVMBuildBitCast(e->b, condition, LLVMIntTypeInContext(e->context, lanes), "");
    return LLVMBuildZExt(e->b, condition, e->i64, "");
}

static LLVMValueRef recorder(struct emit *e, LLVMTypeRef *type)
{
    static const char name[] = "stepc_finite_record";
    LLVMTypeRef types[] = {e->ptr, e->i64, e->i64, e->i64, e->i64, e->i64, e->i64, e->i64};
    *type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 8, 0);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    if (function) return function;
    function = LLVMAddFunction(e->module, name, *type);
    LLVMSetVisibility(function, LLVMHiddenVisibility);
    return function;
}

static LLVMValueRef where_all(struct emit *e, LLVMValueRef x, LLVMValueRef y)
{
    return x && y ? LLVMBuildAnd(e->b, x, y, "") : x ? x : y;
}

void emit_finite(struct emit *e, const struct nest_stmt *s)
{
    uint32_t operands = s->arg_count - s->lanes;
    nest_value mask = s->lanes ? s->args[operands] : 0;
    bool lanes = s->cond && e->values[s->cond].varies;
    for (uint32_t i = 0; i < s->arg_count; i++) lanes = lanes || e->values[s->args[i]].varies;
    LLVMValueRef x = emit_spread(e, &e->values[s->args[0]], lanes), bad = not_finite(e, x);
    LLVMValueRef live = lanes ? emit_live(e, s->cond) : s->cond ? e->values[s->cond].v : NULL;
    if (mask) live = where_all(e, live, emit_spread(e, &e->values[mask], lanes));
    bad = where_all(e, bad, live);
    struct emit_branch branch = emit_if(e, lanes ? emit_call1(e, "llvm.vector.reduce.or", bad) : bad);
    LLVMValueRef inputs = emit_i64(e, 0), nans = inputs, nan = LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, "");
    for (uint32_t i = 1; i < operands; i++) {
        LLVMValueRef y = emit_spread(e, &e->values[s->args[i]], lanes);
        inputs = LLVMBuildOr(e->b, inputs, as_bits(e, not_finite(e, y)), "");
        nans = LLVMBuildOr(e->b, nans, as_bits(e, LLVMBuildFCmp(e->b, LLVMRealUNO, y, y, "")), "");
    }
    bool known = !s->index.scaled_count;
    uint64_t given[] = {
        [NEST_MADE] = operands == 1 ? STEPC_SITE_UNKNOWN : 0,
        [NEST_GIVEN] = STEPC_SITE_OUTER,
        [NEST_PLACEHOLDER] = STEPC_SITE_PLACEHOLDER,
    };
    uint64_t site = (uint64_t)s->extent | given[s->word];
    LLVMValueRef args[] = {e->scratch,
                           LLVMConstInt(e->i64, site, 0),
                           as_bits(e, bad),
                           as_bits(e, nan),
                           inputs,
                           nans,
                           known ? emit_affine(e, &s->index) : emit_i64(e, -1),
                           emit_i64(e, known && lanes ? emit_lane_scale(e, &s->index) : 0)};
    LLVMTypeRef type;
    LLVMValueRef function = recorder(e, &type);
    LLVMBuildCall2(e->b, type, function, args, 8, "");
    emit_endif(e, branch);
}
