// LLVM and lld in one library of this program's own (libstepc_llvm.so): what llvm_functions.def names, for one machine,
// and one entry to the linker. The system's library has all of LLVM for all machines, and relocating that takes longer
// than to compile a small document; lld as a program does it again. The same code, from the archives of the same
// packages.
#include <lld/Common/Driver.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>
#include <new>

#ifdef LLD_HAS_DRIVER // from 17 on
LLD_HAS_DRIVER(elf)
#endif

// Named here, by no type, they come out of the archives.
#define LLVM(name) extern "C" void stepc_##name() __asm__("LLVM" #name);
#include "codegen/llvm/llvm_functions.def"
#undef LLVM
extern "C" void (*const stepc_llvm[])() = {
#define LLVM(name) stepc_##name,
#include "codegen/llvm/llvm_functions.def"
#undef LLVM
};

// Where there is no memory LLVM aborts, of which the program's own handler says what happened; libstdc++ would say
// more.
static const std::new_handler before = std::set_new_handler(std::abort);

// lld as its program calls it: it ends the process, or returns what exit code it should end with.
extern "C" int stepc_lld(int count, const char *const *arguments)
{
    llvm::ArrayRef<const char *> all(arguments, static_cast<size_t>(count));
    return lld::elf::link(all, llvm::outs(), llvm::errs(), /*exitEarly=*/true, /*disableOutput=*/false) ? 0 : 1;
}

// lld can optimize modules of LLVM for every machine, which nothing asks for here: the other machines and what extends
// LLVM's passes stay out. The names of ours are others for these lines.
#define LLVMInitializeX86TargetInfo stepc_no_target_info
#define LLVMInitializeX86Target stepc_no_target
#define LLVMInitializeX86TargetMC stepc_no_target_mc
#define LLVMInitializeX86AsmPrinter stepc_no_printer
#define LLVMInitializeX86AsmParser stepc_no_parser
extern "C" {
#define LLVM_TARGET(name) \
    void LLVMInitialize##name##TargetInfo() {} \
    void LLVMInitialize##name##Target() {} \
    void LLVMInitialize##name##TargetMC() {} \
    void LLVMInitialize##name##AsmPrinter() {} \
    void LLVMInitialize##name##AsmParser() {}
#include <llvm/Config/Targets.def>
}
#define HANDLE_EXTENSION(name) \
    llvm::PassPluginLibraryInfo get##name##PluginInfo() \
    { \
        return {LLVM_PLUGIN_API_VERSION, #name, "", [](llvm::PassBuilder &) {}}; \
    }
#include <llvm/Support/Extension.def>

// Nor is anything here written to a terminal, whose colours LLVM would ask another library for.
extern "C" {
int setupterm(const char *, int, int *) { return -1; }
void *set_curterm(void *) { return nullptr; }
int del_curterm(void *) { return 0; }
int tigetnum(const char *) { return -1; }
}
