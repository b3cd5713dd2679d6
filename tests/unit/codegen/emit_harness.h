/* Compiles nests to a shared object in a temporary folder, opens it and hands out the kernels. */
#ifndef EMIT_HARNESS_H
#define EMIT_HARNESS_H
#include "codegen/llvm/llvm_emit.h"
#include "codegen/llvm/llvm_object.h"
#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void kernel_fn(void *const *buffers, int64_t lo, int64_t hi, void *scratch);

struct harness {
    struct cg_bytes object;
    void *handle;
    kernel_fn *const *kernels;
};

static inline struct cg_bytes harness_object(struct arena *arena, const struct cg_target *target,
                                             struct nest *const *nests, size_t count)
{
    struct cg_object *object = cg_object_new(target, arena);
    struct emit *e = cg_object_emit(object);
    LLVMValueRef *functions = arena_new_array(arena, LLVMValueRef, count);
    struct str faults = STR(arena);
    for (size_t i = 0; i < count; i++) {
        if (!nest_verify(nests[i], &faults)) {
            nest_print(nests[i], &faults);
            ck_abort_msg("%s", str_text(&faults));
        }
        functions[i] = emit_kernel(e, nests[i], arena_format(arena, "k%zu", i), NULL, 0);
    }
    LLVMValueRef table = LLVMConstArray(e->ptr, functions, (unsigned)count);
    LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(table), "test_kernels");
    LLVMSetInitializer(global, table);
    const char *why = NULL;
    struct cg_bytes bytes = cg_object_finish(object, getenv("STEPC_TEST_TEMPS"), &why);
    cg_object_free(object);
    return bytes;
}

static inline struct harness harness_open(struct arena *arena, const struct cg_target *target,
                                          struct nest *const *nests, size_t count)
{
    struct harness h = {harness_object(arena, target, nests, count), NULL, NULL};
    char path[] = "/tmp/stepc-test-XXXXXX";
    int file = mkstemp(path);
    struct cg_link link = {.objects = &h.object, .object_count = 1, .export_symbol = "test_kernels"};
    struct cg_bytes linked = {0};
    const char *fault = cg_link(&link, arena, &linked);
    ck_assert_msg(!fault, "%s", fault);
    ck_assert(file >= 0 && write(file, linked.data, linked.size) == (ssize_t)linked.size && close(file) == 0);
    h.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(h.handle != NULL, "%s", dlerror());
    unlink(path);
    h.kernels = dlsym(h.handle, "test_kernels");
    ck_assert(h.kernels != NULL);
    return h;
}

static inline struct cg_target harness_target(struct arena *arena, const char *cpu, int level)
{
    struct cg_target target = {.level = level};
    const char *why = NULL, *simulated = getenv("STEPC_TEST_CPU"); /* what valgrind knows: x86-64-v2 */
    ck_assert_msg(cg_target_init(&target, simulated ? simulated : cpu, &why, arena), "%s", why);
    return target;
}

/* offset + sum of scale * var */
static inline struct nest_index at(struct arena *arena, int64_t offset, uint32_t count, const struct nest_term *terms)
{
    return (struct nest_index){
        .offset = offset, .term_count = count, .terms = count ? arena_copy(arena, terms, count * sizeof *terms) : NULL};
}
#define AT(arena, offset, ...) \
    at((arena), (offset), sizeof((struct nest_term[]){__VA_ARGS__}) / sizeof(struct nest_term), \
       (struct nest_term[]){__VA_ARGS__})
#endif
