/* Opens NVIDIA's library for collectives when transport "nccl" is asked for, so that objects load without it. */
#include "runtime/nccl_library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

step_status rt_nccl_open(const struct step_instance *t, struct rt_nccl_library *n)
{
#define NCCL_SYMBOL(member, name, parameters) {name, &n->member},
    const struct {
        const char *name;
        void *to;
    } symbols[] = {NCCL_FUNCTIONS(NCCL_SYMBOL){"ncclGetErrorString", &n->error_text},
                   {"ncclGetLastError", &n->last_error}};
    const char *path = t->flags & STEP_NO_ENV ? NULL : getenv("STEPC_NCCL");
    int version = 0;
    if (!path || !*path) path = "libnccl.so.2";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: it has threads of its own */
    if (!library)
        return rt_fail(NULL, STEP_EDEVICE,
                       "transport \"nccl\" needs NCCL, and there is none here (%s): install "
                       "libnccl2, or name the file in STEPC_NCCL",
                       path);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return rt_fail(NULL, STEP_EDEVICE, "the NCCL here (%s) is too old: it lacks %s; 2.18 or later is needed",
                           path, symbols[i].name);
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    int status = n->version(&version);
    if (status) return rt_fail(NULL, STEP_EDEVICE, "NCCL (%s) does not start: %s", path, n->error_text(status));
    if (version < NCCL_OLDEST)
        return rt_fail(NULL, STEP_EDEVICE, "the NCCL here (%s) is %d.%d, 2.18 or later is needed", path,
                       version / 10000, version % 10000 / 100);
    return STEP_OK;
}

int rt_nccl_dtype(uint32_t dtype)
{
    static const signed char numbers[] = {
        [STEP_U8] = 2,  [STEP_I8] = 1,  [STEP_I32] = 3, [STEP_U32] = 4, [STEP_I64] = 5,
        [STEP_U64] = 6, [STEP_F16] = 7, [STEP_F32] = 8, [STEP_F64] = 9, [STEP_BF16] = 10}; /* and one */
    return dtype < sizeof numbers ? numbers[dtype] - 1 : NCCL_NONE;
}
