/* LLVM is opened when machine code is wanted, not when the program starts: loading it takes longer than most commands.
 * It is the library of llvm_library.cc where that was built, else the system's. The functions of its C API that are
 * called (llvm_functions.def) are jumps through a table (llvm_stubs.S), which is filled here. */
#include "codegen/llvm/llvm_object.h"
#include "ir/base/own.h"
#include <dlfcn.h>
#include <llvm/Config/llvm-config.h>
#include <string.h>
#include <sys/mman.h>

extern void *cg_llvm_table[] __attribute__((visibility("hidden"))); /* the linker behind the functions */

static const char *const names[] = {
#define LLVM(name) "LLVM" #name,
#include "codegen/llvm/llvm_functions.def"
#undef LLVM
};

enum { COUNT = sizeof names / sizeof *names };

cg_linker *cg_llvm_linker(void)
{
    cg_linker *linker;
    memcpy(&linker, &cg_llvm_table[COUNT], sizeof linker);
    return linker;
}

const char *cg_llvm_open(struct arena *arena)
{
    if (cg_llvm_table[0]) return NULL;
    const char *path = own_library(arena, "STEPC_LLVM", STEPC_OWN_LIBRARY, STEPC_LLVM_LIBRARY);
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL); /* stays open */
    const char *fault = library ? NULL : dlerror();
    if (fault && (strstr(fault, "map ") || strstr(fault, "cannot allocate"))) arena_alloc(arena, SIZE_MAX);
    if (fault)
        return arena_format(
            arena,
            "compiling needs LLVM %d, which cannot be opened: %s; install it (apt-get install libllvm%d), "
            "or name its file: STEPC_LLVM=/path/%s",
            LLVM_VERSION_MAJOR, fault, LLVM_VERSION_MAJOR, STEPC_LLVM_LIBRARY);
    void *found[COUNT + 1];
    for (size_t i = 0; i < COUNT; i++)
        if (!(found[i] = dlsym(library, names[i])))
            return arena_format(arena, "%s is not LLVM %d, for which this program is made: it lacks %s", path,
                                LLVM_VERSION_MAJOR, names[i]);
    unsigned major = 0;
    void (*version)(unsigned *, unsigned *, unsigned *);
    *(void **)&version = dlsym(library, "LLVMGetVersion");
    version(&major, NULL, NULL);
    if (major != LLVM_VERSION_MAJOR)
        return arena_format(arena, "%s is LLVM %u; this program is made for LLVM %d", path, major, LLVM_VERSION_MAJOR);
    found[COUNT] = dlsym(library, "stepc_lld");
    memcpy(cg_llvm_table, found, sizeof found);
    mprotect(cg_llvm_table, (sizeof found + 4095) / 4096 * 4096, PROT_READ);
    return NULL;
}
