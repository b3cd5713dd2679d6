/* Inside codegen: one LLVM module on its way to an object file in memory (llvm_object.c), the tables in it
 * (describe.c), the link (link.c). */
#ifndef CODEGEN_LLVM_OBJECT_H
#define CODEGEN_LLVM_OBJECT_H
#include "codegen/codegen.h"
#include <stddef.h>
#include <stdio.h>

struct emit;

/* An empty module for the target; the printer's state is ready for emit_kernel and tables. */
struct cg_object *cg_object_new(const struct cg_target *, struct arena *);
struct emit *cg_object_emit(struct cg_object *);
/* Verifies, optimises and emits; the bytes live in the arena. `save_temps`: NULL or a prefix for .ll, .opt.ll, .o. */
struct cg_bytes cg_object_finish(struct cg_object *, const char *save_temps, const char **why);
void cg_object_free(struct cg_object *);

/* One entry's lowered plan, as describe.c and compile.c see it. */
struct cg_entry {
    const struct plan *plan;
    const struct cg_kernel *kernels; /* by group */
    void **functions;                /* by group: LLVMValueRef of the kernel; NULL where `whole` stands for all */
    void *whole;                     /* LLVMValueRef, NULL: none */
    const struct cg_late *late;      /* NULL: no command may wait */
};
/* What one kind of device runs. */
struct cg_cuda;
struct cg_tables {
    const struct plan_module *plans;
    struct cg_target target;
    struct cg_entry *entries; /* by plan */
    uint32_t count;
    const struct cg_cuda *cuda; /* cuda.h; NULL: for the CPU */
};
/* describe.c: adds the constant `stepc_program` (step_abi.h) and all it points at, `gpus` (NULL: none) among it. */
void cg_describe(struct emit *, const struct cg_tables *, const struct cg_tables *gpus);
/* describe_kernels.c: how commands are run. "launches", by entry a list of [command, kernel, blocks, threads, bytes of
 * shared memory, bytes of scratch, launches, whether a library does it, whether tensor cores do, whether it is
 * a part of a sequence], or "products": [command, m, n, k, how many, whether a library does it]. */
struct json_tree;
struct stepc_cuda_launch cg_cuda_launch(const struct cg_cuda *, const struct cg_entry *entries, uint32_t entry,
                                        const struct plan_command *, struct arena *, uint32_t *launches);
void cg_add_kernels(const struct cg_tables *, struct json_tree);
uint64_t cg_library_workspace(const struct cg_gemm *); /* bytes that a GPU's library may use for a product */
/* describe_members.c: the sets of buffers that a kernel command is computed for. */
struct cg_members {
    uint32_t count;    /* 1 unless it is a command over many tensors */
    uint32_t *buffers; /* inputs and outputs of each */
    int64_t *ends;     /* iterations of each and those before it */
    int64_t extent;    /* of all */
    double work;
};
void cg_members(const struct cg_entry *, const struct plan_command *, struct arena *, struct cg_members *);
/* describe_pack.c: slots, buffers and commands as bytes; a dtype's number in tables. */
struct cg_packed {
    struct cg_bytes bytes;
    void **functions;               /* LLVMValueRef of the kernels that commands name by number */
    const struct cg_kernel **gemms; /* those that a library computes */
    uint32_t function_count, gemm_count;
};
struct cg_packed pack_tables(const struct plan_module *, const struct cg_entry *, uint32_t count, bool cuda,
                             struct arena *);
size_t cg_command_count(const struct cg_entry *, bool cuda); /* those that are in the tables */
/* describe_sites.c */
const char *cg_sites_text(const struct cg_sites *, struct arena *);
/* llvm_share.c: the distinct kernels of the entries that have no `whole`; the nests go to `log` as text, NULL: nowhere.
 * Into how many modules they are best printed; printed into so many, the entries' `functions` are of the first. */
enum { CG_MODULES = 16 /* at most */ };
struct cg_kernels;
struct cg_kernels *cg_kernels_find(const struct cg_entry *, uint32_t count, struct str *log, struct arena *);
uint32_t cg_kernels_modules(const struct cg_kernels *);
void cg_kernels_emit(struct cg_kernels *, struct emit *const *modules, uint32_t module_count, struct cg_entry *,
                     uint32_t count);
/* llvm_whole.c: a small entry (not too much work, no collectives) in one function, which calls the `functions` of its
 * groups; NULL: their code stands in it. */
bool cg_is_small(const struct plan *, const struct cg_kernel *);
void *cg_emit_whole(struct emit *, const struct plan *, const struct cg_kernel *, void **functions);
double cg_plan_work(const struct plan *, const struct cg_kernel *);
uint64_t cg_plan_scratch(const struct plan *, const struct cg_kernel *);

/* target.c: the CPU features of cg_target_init's levels, comma-separated, by LLVM's names; with those of code that
 * multiplies pairs of bfloat16, or tiles of them. */
const char *cg_target_needs(const struct cg_target *, bool pairs, bool tiles);

/* link.c: objects + archive -> the bytes of a shared object. Returns NULL or what went wrong. `archive` may be empty
 * (then the objects must define everything). */
struct cg_link {
    const struct cg_bytes *objects;
    uint32_t object_count; /* CG_MODULES at most */
    struct cg_bytes archive;
    const char *linker, *export_symbol;
    const char *asked[2]; /* NULL, or symbols whose files of the archive are taken in place of others' weak functions */
};
const char *cg_link(const struct cg_link *, struct arena *, struct cg_bytes *result);
/* llvm_open.c: the linker that is in the library which is open as LLVM, NULL: none is. It returns the exit code that
 * the process is to end with, or ends it. */
typedef int cg_linker(int count, const char *const *arguments);
cg_linker *cg_llvm_linker(void);
/* The runtime archive that is part of this program. */
struct cg_bytes cg_runtime_archive(void);
#endif
