/* Prints nests as CUDA kernels, compiles the text for this CPU with tests/cuda/shim.hpp before it, and launches kernels
 * on host memory. All nests of a program are one text, because the host compiler is slow to start. */
#ifndef CUDA_HARNESS_H
#define CUDA_HARNESS_H
#include "codegen/cuda/cuda.h"
#include "tests/cuda/host_compiler.h"
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CUDA_MOST = 4000 };
typedef int cuda_launcher(unsigned blocks, unsigned threads, unsigned shared, void **arguments, int backwards);
struct cuda_harness {
    struct arena *arena;
    struct str text;
    uint32_t count;
    const struct nest *nests[CUDA_MOST];
    struct cuda_kernel kernels[CUDA_MOST];
    size_t begins[CUDA_MOST]; /* of their text */
    struct map known;
    void *handle;
};

static inline void cuda_harness_init(struct cuda_harness *h, struct arena *arena)
{
    h->arena = arena;
    h->text = STR(arena);
    h->known = MAP(arena);
    str_add(&h->text, cg_cuda_prelude);
    str_add(&h->text, "\n");
}

/* The number of the kernel; equal nests are one. */
static inline uint32_t cuda_harness_add(struct cuda_harness *h, const struct nest *nest)
{
    uint64_t hash = nest_hash(nest);
    uint32_t known = map_get_number(&h->known, hash);
    if (known != MAP_NONE) return known;
    ck_assert_uint_lt(h->count, CUDA_MOST);
    static const struct cuda_calls calls; /* of one set of buffers each */
    h->begins[h->count] = h->text.length;
    h->kernels[h->count] = cuda_emit(&h->text, nest, arena_format(h->arena, "kernel_%u", h->count), &calls, h->arena);
    h->nests[h->count] = nest;
    map_set_number(&h->known, hash, h->count);
    return h->count++;
}

/* False: there is no C++ compiler. A text that does not compile is a failure. */
static inline bool cuda_harness_compile(struct cuda_harness *h)
{
    char folder[] = "/tmp/stepc-cuda-XXXXXX";
    const char *keep = getenv("STEPC_TEST_TEMPS");
    ck_assert(mkdtemp(folder) != NULL);
    const char *source = arena_format(h->arena, "%s/kernels.cpp", keep ? keep : folder),
               *object = arena_format(h->arena, "%s/kernels.so", folder);
    FILE *file = fopen(source, "w");
    ck_assert(file != NULL);
    fprintf(file, "#include \"shim.hpp\"\n%s", str_text(&h->text));
    for (uint32_t i = 0; i < h->count; i++) fprintf(file, "SHIM_LAUNCHER(kernel_%u)\n", i);
    ck_assert_int_eq(fclose(file), 0);
    int status = host_compile(source, object, "tests/cuda", CUDA_PRECOMPILED);
    h->handle = status == 0 ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(object);
    if (!keep) unlink(source);
    rmdir(folder);
    if (status == NO_HOST_COMPILER) return false;
    ck_assert_msg(status == 0, "the host compiler does not take the kernels (STEPC_TEST_TEMPS=/tmp keeps them)");
    ck_assert_msg(h->handle != NULL, "%s", dlerror());
    return true;
}

/* Few blocks and threads in reverse order the second time: blocks take several iterations then. */
static inline void cuda_harness_launch(struct cuda_harness *h, uint32_t k, void *const *buffers, int64_t lo, int64_t hi,
                                       bool backwards)
{
    const struct cuda_kernel *kernel = &h->kernels[k];
    uint32_t blocks = cuda_blocks(kernel, hi - lo), most = backwards ? 2 : 100000, n = kernel->argument_count;
    blocks = blocks < most ? blocks : most;
    void **arguments = malloc((n + 4) * sizeof *arguments);
    unsigned flag = 0; /* nobody asks */
    unsigned char *scratch = malloc(kernel->scratch_bytes * blocks + 1);
    memset(scratch, 0xff, kernel->scratch_bytes * blocks + 1);
    for (uint32_t i = 0; i < n; i++) arguments[i] = buffers[i];
    arguments[n] = (void *)(intptr_t)lo;
    arguments[n + 1] = (void *)(intptr_t)hi;
    arguments[n + 2] = scratch;
    arguments[n + 2 + (kernel->scratch_bytes != 0)] = &flag;
    void *symbol = dlsym(h->handle, arena_format(h->arena, "launch_kernel_%u", k));
    cuda_launcher *launch;
    memcpy(&launch, &symbol, sizeof launch);
    ck_assert(launch != NULL);
    if (launch(blocks, kernel->threads, (unsigned)kernel->dynamic_bytes, arguments, backwards) != 0) {
        struct str text = STR(h->arena);
        nest_print(h->nests[k], &text);
        ck_abort_msg("threads disagree about a barrier in kernel_%u, or what it said before\n%s", k, str_text(&text));
    }
    free(arguments);
    free(scratch);
}

/* Code for the sources; false, and skipped, where there is no NVRTC. */
static inline bool cuda_harness_nvrtc(struct cuda_harness *h, struct cuda_source *sources, size_t count)
{
    const char *why = cuda_nvrtc(sources, count, "/tmp/stepc-rejected.cu", h->arena);
    if (why) printf("skipped: %s\n", why);
    for (size_t i = 0; !why && i < count; i++) {
        bool cubin = strncmp(sources[i].arch, "sm_", 3) == 0;
        ck_assert_uint_gt(sources[i].code.size, 64);
        ck_assert(memcmp(sources[i].code.data, cubin ? "\177ELF" : "//\n/", 4) == 0);
    }
    return !why;
}

/* All kernels for two architectures, in pieces for several cores. */
static inline void cuda_harness_cubins(struct cuda_harness *h)
{
    enum { PIECE = 40 };
    struct cuda_source sources[2 * (CUDA_MOST / PIECE + 1)];
    size_t count = 0, size = 0;
    for (uint32_t first = 0; first < h->count; first += PIECE) {
        size_t begin = h->begins[first], end = first + PIECE < h->count ? h->begins[first + PIECE] : h->text.length;
        const char *text = arena_format(h->arena, "%s\n%.*s", cg_cuda_prelude, (int)(end - begin),
                                        str_text(&h->text) + begin);
        sources[count++] = (struct cuda_source){text, "sm_80", {0}};
        sources[count++] = (struct cuda_source){text, "sm_90", {0}};
    }
    if (!cuda_harness_nvrtc(h, sources, count)) return;
    for (size_t i = 0; i < count; i++) size += sources[i].code.size;
    printf("%u kernels for sm_80 and sm_90: %zu bytes in %zu pieces\n", h->count, size, count);
}
#endif
