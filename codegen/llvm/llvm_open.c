/* LLVM is opened when machine code is wanted, not when the program starts: loading it takes longer than most commands.
 * The functions of its C API that are called (llvm_functions.def) are jumps through a table (llvm_stubs.S), which is
 * filled here. */
#include "codegen/llvm/llvm_object.h"
#include <dlfcn.h>
#include <llvm/Config/llvm-config.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void *cg_llvm_table[] __attribute__((visibility("hidden")));

static const char *const names[] = {
#define LLVM(name) "LLVM" #name,
#include "codegen/llvm/llvm_functions.def"
#undef LLVM
};

const char *cg_llvm_open(struct arena *arena)
{
    if (cg_llvm_table[0]) return NULL;
    const char *given = getenv("STEPC_LLVM"), *path = given && *given ? given : STEPC_LLVM_LIBRARY;
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL); /* stays open */
    const char *fault = library ? NULL : dlerror();
    if (fault && (strstr(fault, "map ") || strstr(fault, "cannot allocate"))) arena_alloc(arena, SIZE_MAX);
    if (fault)
        return arena_format(
            arena,
            "compiling needs LLVM %d, which cannot be opened: %s; install it (apt-get install libllvm%d), "
            "or name its file: STEPC_LLVM=/path/%s",
            LLVM_VERSION_MAJOR, fault, LLVM_VERSION_MAJOR, STEPC_LLVM_LIBRARY);
    void *found[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(found[i] = dlsym(library, names[i])))
            return arena_format(arena, "%s is not LLVM %d, for which this program is made: it lacks %s", path,
                                LLVM_VERSION_MAJOR, names[i]);
    unsigned major = 0;
    void (*version)(unsigned *, unsigned *, unsigned *);
    *(void **)&version = dlsym(library, "LLVMGetVersion");
    version(&major, NULL, NULL);
    if (major != LLVM_VERSION_MAJOR)
        return arena_format(arena, "%s is LLVM %u; this program is made for LLVM %d", path, major, LLVM_VERSION_MAJOR);
    memcpy(cg_llvm_table, found, sizeof found);
    mprotect(cg_llvm_table, (sizeof found + 4095) / 4096 * 4096, PROT_READ);
    return NULL;
}
