/* Target machine, optimisation and object emission. The pipeline is short on purpose: the printer chose the vectors and
 * the order, so what remains is dissolving allocas, common subexpressions, hoisting and clean-up. Neither LLVM's
 * loop vectoriser nor its SLP vectoriser runs. */
#include "codegen/llvm/llvm_object.h"
#include "codegen/llvm/llvm_emit.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct cg_object {
    const struct cg_target *target;
    struct arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    struct emit emit;
};

static const char triple[] = "x86_64-unknown-linux-gnu";

struct cg_object *cg_object_new(const struct cg_target *target, struct arena *arena)
{
    struct cg_object *object = arena_new(arena, struct cg_object);
    char *message = NULL;
    LLVMTargetRef llvm_target;
    object->target = target;
    object->arena = arena;
    const char *closed = cg_llvm_open(arena);
    if (closed) BUG("%s", closed);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    if (LLVMGetTargetFromTriple(triple, &llvm_target, &message)) BUG("LLVM has no target %s: %s", triple, message);
    LLVMCodeGenOptLevel level = target->level == 0   ? LLVMCodeGenLevelNone
                                : target->level == 1 ? LLVMCodeGenLevelLess
                                : target->level == 3 ? LLVMCodeGenLevelAggressive
                                                     : LLVMCodeGenLevelDefault;
    object->machine = LLVMCreateTargetMachine(llvm_target, triple, target->cpu, target->features, level, LLVMRelocPIC,
                                              LLVMCodeModelSmall);
    object->context = LLVMContextCreate();
    object->module = LLVMModuleCreateWithNameInContext("step", object->context);
    LLVMSetTarget(object->module, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(object->machine);
    LLVMSetModuleDataLayout(object->module, layout);
    LLVMDisposeTargetData(layout);
    emit_begin(&object->emit, target, arena, object->context, object->module);
    return object;
}

struct emit *cg_object_emit(struct cg_object *object) { return &object->emit; }

void cg_keep(struct arena *arena, const char *prefix, const char *suffix, const void *data, size_t size,
             const char **why)
{
    const char *path = arena_format(arena, "%s%s", prefix, suffix);
    FILE *file = fopen(path, "wb");
    bool whole = file && fwrite(data, 1, size, file) == size;
    if (file) whole = fclose(file) == 0 && whole;
    if (whole) return;
    if (!*why) *why = arena_format(arena, "--save-temps: cannot write %s: %s", path, strerror(errno));
    if (file) remove(path); /* no part of it stays */
}

static void save_text(const struct cg_object *object, const char *prefix, const char *suffix, const char **why)
{
    if (!prefix) return;
    char *text = LLVMPrintModuleToString(
        object->module); /* LLVM's own printing to a file ends the program on a full disk */
    cg_keep(object->arena, prefix, suffix, text, strlen(text), why);
    LLVMDisposeMessage(text);
}

static void optimise(const struct cg_object *object)
{
    static const char passes[] =
        "function(mem2reg,early-cse<memssa>,simplifycfg,instcombine,loop-simplify,lcssa,loop-mssa(licm),early-cse,"
        "instcombine,simplifycfg)";
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(options, 0);
    LLVMPassBuilderOptionsSetSLPVectorization(options, 0);
    LLVMErrorRef error = LLVMRunPasses(object->module, passes, object->machine, options);
    if (error) BUG("LLVM's passes: %s", LLVMGetErrorMessage(error));
    LLVMDisposePassBuilderOptions(options);
}

struct cg_bytes cg_object_finish(struct cg_object *object, const char *save_temps, const char **why)
{
    char *message = NULL;
    save_text(object, save_temps, ".ll", why);
    if (LLVMVerifyModule(object->module, LLVMReturnStatusAction, &message))
        BUG("the LLVM module is not valid: %s", message);
    LLVMDisposeMessage(message);
    if (object->target->level > 0) {
        optimise(object);
        save_text(object, save_temps, ".opt.ll", why);
    }
    LLVMMemoryBufferRef buffer = NULL;
    message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(object->machine, object->module, LLVMObjectFile, &message, &buffer))
        BUG("LLVM's code generator: %s", message);
    size_t size = LLVMGetBufferSize(buffer);
    struct cg_bytes bytes = {arena_copy(object->arena, LLVMGetBufferStart(buffer), size), size};
    LLVMDisposeMemoryBuffer(buffer);
    if (save_temps) cg_keep(object->arena, save_temps, ".o", bytes.data, bytes.size, why);
    return bytes;
}

void cg_object_free(struct cg_object *object)
{
    emit_end(&object->emit);
    LLVMDisposeModule(object->module);
    LLVMDisposeTargetMachine(object->machine);
    LLVMContextDispose(object->context);
}
