/* CUDA C to a cubin through NVRTC, which is opened when it is needed: building this program takes neither its headers
 * nor its library. Contraction of products and sums is off, so that a kernel rounds where the nest says; denormals are
 * kept, division and square root are exact. */
#include "codegen/cuda/cuda.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opaque_program *nvrtc_program;
enum { NVRTC_COMPILATION = 6 }; /* the status of a text with errors */
struct nvrtc {
    int (*version)(int *major, int *minor);
    int (*create)(nvrtc_program *, const char *text, const char *name, int headers, const char *const *,
                  const char *const *);
    int (*compile)(nvrtc_program, int count, const char *const *options);
    int (*cubin_size)(nvrtc_program, size_t *);
    int (*cubin)(nvrtc_program, char *);
    int (*ptx_size)(nvrtc_program, size_t *);
    int (*ptx)(nvrtc_program, char *);
    int (*log_size)(nvrtc_program, size_t *);
    int (*log)(nvrtc_program, char *);
    int (*destroy)(nvrtc_program *);
    const char *(*error)(int);
    int (*arch_count)(int *);
    int (*archs)(int *);
};

static void *open_library(struct arena *arena)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *folders[] = {"", getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++)
        for (size_t n = 0; folders[f] && n < sizeof names / sizeof *names; n++) {
            const char *path = *folders[f] ? arena_format(arena, "%s/lib64/%s", folders[f], names[n]) : names[n];
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (library) return library;
        }
    return NULL;
}

static const char *open_nvrtc(struct nvrtc *n, struct arena *arena)
{
    /* clang-format off */
    const struct { const char *name; void *to; bool optional; } symbols[] = {
        {"nvrtcVersion", &n->version, false}, {"nvrtcCreateProgram", &n->create, false},
        {"nvrtcCompileProgram", &n->compile, false}, {"nvrtcGetCUBINSize", &n->cubin_size, false},
        {"nvrtcGetCUBIN", &n->cubin, false}, {"nvrtcGetPTXSize", &n->ptx_size, false},
        {"nvrtcGetPTX", &n->ptx, false}, {"nvrtcGetProgramLogSize", &n->log_size, false},
        {"nvrtcGetProgramLog", &n->log, false}, {"nvrtcDestroyProgram", &n->destroy, false},
        {"nvrtcGetErrorString", &n->error, false}, {"nvrtcGetNumSupportedArchs", &n->arch_count, true},
        {"nvrtcGetSupportedArchs", &n->archs, true}};
    /* clang-format on */
    memset(n, 0, sizeof *n);
    void *library = open_library(arena); /* stays open: it does not survive being closed and opened again */
    if (!library)
        return "--target cuda needs NVRTC (libnvrtc.so.13 or .12), which was not found: install it from NVIDIA's "
               "repository "
               "(apt-get install cuda-nvrtc-13-0) or set CUDA_HOME";
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol && !symbols[i].optional)
            return arena_format(arena, "the NVRTC found here is too old: it lacks %s (CUDA 12 or later is needed)",
                                symbols[i].name);
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    return NULL;
}

/* NULL, or that this NVRTC does not know sm_<number>. */
static const char *check_arch(const struct nvrtc *n, const char *arch, struct arena *arena)
{
    int count = 0, major = 0, minor = 0, wanted = atoi(strchr(arch, '_') + 1);
    if (!n->arch_count || !n->archs || n->arch_count(&count) || count <= 0) return NULL;
    int *known = arena_new_array(arena, int, count);
    struct str list = STR(arena);
    if (n->archs(known)) return NULL;
    for (int i = 0; i < count; i++) {
        if (known[i] == wanted) return NULL;
        str_addf(&list, "%ssm_%d", i ? ", " : "", known[i]);
    }
    n->version(&major, &minor);
    return arena_format(arena, "NVRTC %d.%d does not compile for %s; it knows %s", major, minor, arch, str_text(&list));
}

static _Noreturn void rejected(const struct nvrtc *n, nvrtc_program program, int status, const char *text,
                               const char *save, struct arena *arena)
{
    size_t size = 0;
    FILE *file = fopen(save, "w");
    bool saved = file && fputs(text, file) >= 0;
    if (file) saved = fclose(file) == 0 && saved;
    n->log_size(program, &size);
    char *log = arena_alloc(arena, size + 1);
    n->log(program, log);
    BUG("NVRTC does not compile the generated kernels (%s; text %s %s):\n%s", n->error(status),
        saved ? "saved as" : "could not be saved as", save, log);
}

const char *cuda_nvrtc(const char *text, const char *arch, const char *save, struct arena *arena,
                       struct cg_bytes *cubin)
{
    struct nvrtc n;
    const char *why = open_nvrtc(&n, arena);
    if (!why) why = check_arch(&n, arch, arena);
    if (why) return why;
    const char *options[] = {arena_format(arena, "--gpu-architecture=%s", arch),
                             "--std=c++17",
                             "--fmad=false",
                             "--ftz=false",
                             "--prec-div=true",
                             "--prec-sqrt=true",
                             "--disable-warnings"};
    nvrtc_program program = NULL;
    int status = n.create(&program, text, "step.cu", 0, NULL, NULL);
    if (status) return arena_format(arena, "NVRTC does not start: %s", n.error(status));
    status = n.compile(program, (int)(sizeof options / sizeof *options), options);
    if (status == NVRTC_COMPILATION) rejected(&n, program, status, text, save, arena);
    if (status) { /* out of memory, parts of the library missing */
        n.destroy(&program);
        return arena_format(arena, "NVRTC failed: %s", n.error(status));
    }
    size_t size = 0;
    bool ptx = strncmp(arch, "compute_", 8) == 0; /* its size counts a zero at the end */
    status = (ptx ? n.ptx_size : n.cubin_size)(program, &size);
    char *data = arena_alloc(arena, size + 1);
    if (!status) status = (ptx ? n.ptx : n.cubin)(program, data);
    n.destroy(&program);
    if (status || size == 0) return arena_format(arena, "NVRTC made no code for %s: %s", arch, n.error(status));
    *cubin = (struct cg_bytes){data, size};
    return NULL;
}
