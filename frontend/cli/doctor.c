/* stepc doctor: what compiling and running need of this machine, and the package that is missing. */
#include "frontend/cli/cli.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report {
    struct cli *cli;
    struct str out;
    bool missing;
};

static void line(struct report *r, const char *what, const char *found, const char *need)
{
    str_addf(&r->out, "%-12s %s\n", what, found ? found : need);
}

/* The program's path, NULL: it is not in PATH. */
static const char *program(struct report *r, const char *name)
{
    const char *path = getenv("PATH");
    for (const char *at = path ? path : ""; *at;) {
        size_t n = strcspn(at, ":");
        const char *file = arena_format(r->cli->arena, "%.*s/%s", (int)n, at, name);
        if (n && access(file, X_OK) == 0) return file;
        at += n + (at[n] == ':');
    }
    return NULL;
}

static const char *library(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *found = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (found) return dlclose(found), names[i];
    }
    return NULL;
}

static void find_function(void *library, const char *name, void *to)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(to, &symbol, sizeof symbol);
}

/* "0: NVIDIA H100 80GB HBM3 (sm_90); driver for CUDA 13.0". NULL: there is no driver, or no device. */
static const char *devices(struct report *r, const char *driver)
{
    int (*init)(unsigned), (*version)(int *), (*count)(int *), (*name)(char *, int, int), (*attribute)(int *, int, int);
    int there = 0, number = 0;
    struct str out = STR(r->cli->arena);
    void *library = driver ? dlopen(driver, RTLD_LAZY | RTLD_LOCAL) : NULL; /* has threads of its own: stays open */
    find_function(library, "cuInit", &init);
    find_function(library, "cuDriverGetVersion", &version);
    find_function(library, "cuDeviceGetCount", &count);
    find_function(library, "cuDeviceGetName", &name);
    find_function(library, "cuDeviceGetAttribute", &attribute);
    if (!init || !version || !count || !name || !attribute || init(0) || count(&there) || version(&number)) return NULL;
    for (int i = 0; i < there; i++) {
        char text[100] = "";
        int major = 0, minor = 0;
        if (name(text, sizeof text, i) || attribute(&major, 75, i) || attribute(&minor, 76, i)) continue;
        str_addf(&out, "%d: %s (sm_%d%d); ", i, text, major, minor);
    }
    str_addf(&out, "driver for CUDA %d.%d", number / 1000, number % 1000 / 10);
    return there ? str_text(&out) : NULL;
}

static const char *instructions(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return "x86-64-v4 (AVX-512)";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "x86-64-v3 (AVX2)";
    return "x86-64-v2 (SSE4)";
#else
    return "no x86-64: objects for it can be compiled, not run";
#endif
}

static const char *const variables[][2] = {
    {"STEPC_THREADS", "worker threads of each device"},
    {"STEPC_LOG", "error, warning, info or debug"},
    {"STEPC_MAX_MEMORY", "limit per device"},
    {"STEPC_TIMEOUT", "seconds that a device waits for another"},
    {"STEPC_PIN", "1: a core for every thread"},
    {"STEPC_HUGEPAGES", "never: small pages"},
    {"STEPC_FILE_BYTES", "a file of a checkpoint of a mesh holds no more (8589934592)"},
    {"STEPC_OPENBLAS", "path of OpenBLAS"},
    {"STEPC_LLVM", "path of " STEPC_LLVM_LIBRARY},
    {"STEPC_TRANSPORT", "thread, mpi or self"},
    {"STEPC_PLUGIN_PATH", "folders where libstepc_mpi.so is looked for"},
    {"STEPC_DEVICES", "cpu; for objects compiled for CUDA a list like cuda:0,1"},
    {"STEPC_CUDA_DRIVER", "path of CUDA's driver"},
    {"STEPC_CUDA_CHECK", "1: wait for every kernel, so that one that fails is named"},
    {"STEPC_VERIFY_EACH", "1: verify the IR around every pass"},
    {"STEPC_LATE_ALWAYS", "1: updates wait for the decision wherever they may"}};

bool cli_variable(size_t index, const char **name, const char **doc)
{
    if (index >= sizeof variables / sizeof *variables) return false;
    *name = variables[index][0], *doc = variables[index][1];
    return true;
}

int cli_doctor(struct cli *cli)
{
    const char *given = getenv("STEPC_LLVM"), *const llvms[] = {given && *given ? given : STEPC_LLVM_LIBRARY};
    static const char *const blas[] = {"libopenblas.so.0"},
                             *const nvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                             *const usual[] = {"libcuda.so.1"};
    const char *own = getenv("STEPC_CUDA_DRIVER"), *const *driver = own && *own ? &own : usual;
    struct report r = {.cli = cli, .out = STR(cli->arena)};
    const char *llvm = library(llvms, 1), *linker = program(&r, "ld.lld"), *plain = linker ? NULL : program(&r, "ld");
    cpu_set_t set;
    line(&r, "version", STEPC_VERSION, NULL);
    line(&r, "processor", instructions(), NULL);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        line(&r, "cores", arena_format(cli->arena, "%d", CPU_COUNT(&set)), NULL);
    line(&r, "linker", linker ? linker : plain, "missing: install lld or binutils; compiling needs one");
    line(&r, "LLVM", llvm, "missing: install " STEPC_LLVM_LIBRARY " (libllvm16); compiling needs it");
    line(&r, "OpenBLAS", library(blas, 1), "not found: own kernels do the products (libopenblas0-pthread)");
    line(&r, "NVRTC", library(nvrtc, 3), "not found: needed by --target cuda (cuda-nvrtc of NVIDIA's repository)");
    line(&r, "MPI", program(&r, "mpirun"), "not found: meshes are threads of one process (openmpi-bin or mpich)");
    line(&r, "CUDA driver", library(driver, 1), "not found: objects for CUDA do not run here");
    line(&r, "CUDA devices", devices(&r, library(driver, 1)), "none");
    cli_limits_list(&r.out);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i][0]);
        str_addf(&r.out, "%-18s %s\n", variables[i][0],
                 value ? arena_format(cli->arena, "= %s", value)
                       : arena_format(cli->arena, "not set (%s)", variables[i][1]));
    }
    int code = cli_print(cli, str_text(&r.out), r.out.length);
    return code ? code : llvm && (linker || plain) ? 0 : EXIT_ENVIRONMENT;
}
