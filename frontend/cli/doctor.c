/* stepc doctor: what compiling and running need of this machine, and the package that is missing. */
#include "frontend/cli/cli.h"
#include "ir/base/own.h"

#include <dlfcn.h>
#include <sched.h>
#include <stepc/step_tools.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report {
    struct cli *cli;
    struct str out;
    struct json_tree machine, lacks; /* what line writes, for --json */
};

static void line(struct report *r, const char *what, const char *found, const char *need)
{
    str_addf(&r->out, "%-12s %s\n", what, found ? found : need);
    json_add_text(r->machine, what, found);
    if (!found) json_add_text(r->lacks, what, need);
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

enum { BY_NAME = 1, OF_TOOLKIT = 4 /* folders */ };

/* Opened by the first of the names that there is, which is *found, as what asks for it at work does: the compiler also
 * looks where CUDA is installed, objects do not. It stays open: libraries of CUDA have threads of their own. */
static void *open_library(struct report *r, const char *const *names, size_t count, size_t places, const char **found)
{
    const char *folders[OF_TOOLKIT] = {"", getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    void *library = NULL;
    for (size_t f = 0; !library && f < places; f++)
        for (size_t n = 0; folders[f] && !library && n < count; n++) {
            *found = *folders[f] ? arena_format(r->cli->arena, "%s/lib64/%s", folders[f], names[n]) : names[n];
            library = dlopen(*found, RTLD_LAZY | RTLD_LOCAL);
        }
    if (!library) *found = NULL;
    return library;
}

static const char *library(struct report *r, const char *const *names, size_t count, const char *more)
{
    const char *found;
    return open_library(r, names, count, BY_NAME, &found) ? arena_format(r->cli->arena, "%s%s", found, more) : NULL;
}

static void find_function(void *from, const char *name, void *to)
{
    void *symbol = from ? dlsym(from, name) : NULL;
    memcpy(to, &symbol, sizeof symbol);
}

static const char *nvrtc(struct report *r)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *found, *given = getenv("STEPC_NVRTC");
    bool named = given && *given;
    int (*version)(int *, int *), major = 0, minor = 0;
    find_function(named ? open_library(r, &given, 1, BY_NAME, &found) : open_library(r, names, 3, OF_TOOLKIT, &found),
                  "nvrtcVersion", &version);
    if (!version || version(&major, &minor)) return found;
    return arena_format(r->cli->arena, "%s (%d.%d)", found, major, minor);
}

enum { OLDEST_DRIVER = 12000 };

/* What there is of CUDA: the driver, for which version; devices with architecture and memory, or why there are none. */
static void cuda(struct report *r, const char *const *driver)
{
    int (*init)(unsigned), (*version)(int *), (*count)(int *), (*name)(char *, int, int), (*attribute)(int *, int, int);
    int (*memory)(size_t *, int), (*error)(int, const char **);
    int there = 0, number = 0;
    struct arena *arena = r->cli->arena;
    struct str out = STR(arena);
    const char *found, *why = NULL, *visible = getenv("CUDA_VISIBLE_DEVICES");
    void *from = open_library(r, driver, 1, BY_NAME, &found);
    find_function(from, "cuInit", &init);
    find_function(from, "cuDriverGetVersion", &version);
    find_function(from, "cuDeviceGetCount", &count);
    find_function(from, "cuDeviceGetName", &name);
    find_function(from, "cuDeviceGetAttribute", &attribute);
    find_function(from, "cuDeviceTotalMem_v2", &memory);
    find_function(from, "cuGetErrorName", &error);
    bool whole = init && version && count && name && attribute && memory && error;
    if (whole && !version(&number))
        found = arena_format(arena, "%s (for CUDA %d.%d%s)", found, number / 1000, number % 1000 / 10,
                             number < OLDEST_DRIVER ? "; objects need one for 12.0 or later" : "");
    line(r, "CUDA driver", found, "not found: objects for CUDA do not run here");
    int status = whole ? init(0) : 0;
    if (whole && !status) status = count(&there);
    for (int i = 0; i < there; i++) {
        char text[100] = "";
        int major = 0, minor = 0;
        size_t bytes = 0;
        if (name(text, sizeof text, i) || attribute(&major, 75, i) || attribute(&minor, 76, i) || memory(&bytes, i))
            continue;
        str_addf(&out, "%s%d: %s (sm_%d%d, %.1f GiB)", out.length ? "; " : "", i, text, major, minor,
                 (double)bytes / (1 << 30));
    }
    if (!out.length) str_add(&out, "none");
    if (status) str_addf(&out, ": the driver says %d", status);
    if (status && !error(status, &why) && why) str_addf(&out, ", %s", why);
    if (visible) str_addf(&out, "; CUDA_VISIBLE_DEVICES=%s", visible);
    line(r, "CUDA devices", str_text(&out), NULL);
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
    {"STEPC_PIN", "1: a core for every thread; 0: none"},
    {"STEPC_HUGEPAGES", "madvise: large pages where the system has them; never: small ones"},
    {"STEPC_TRACE", "file for a trace of all that an instance does, as run --trace writes"},
    {"STEPC_FILE_BYTES", "a file of a checkpoint of a mesh holds no more (8589934592)"},
    {"STEPC_OPENBLAS", "path of OpenBLAS"},
    {"STEPC_ZSTD", "path of Zstandard"},
    {"STEPC_LLVM", "path of " STEPC_LLVM_LIBRARY},
    {"STEPC_TRANSPORT", "thread, mpi, nccl or self"},
    {"STEPC_PLUGIN_PATH", "folders where libstepc_mpi.so is looked for"},
    {"STEPC_DEVICES", "cpu; for objects compiled for CUDA a list like cuda:0,1"},
    {"STEPC_CUDA_DRIVER", "path of CUDA's driver"},
    {"STEPC_NVRTC", "path of NVRTC: one of CUDA 12 makes objects for drivers before 580, too"},
    {"STEPC_CUBLASLT", "path of cuBLASLt"},
    {"STEPC_NCCL", "path of NCCL"},
    {"STEPC_NCCL_ID_FILE", "file through which processes of transport nccl meet without MPI"},
    {"STEPC_RANK",
     "which of STEPC_RANKS processes this is, then; else RANK and WORLD_SIZE, or what mpirun or srun set"},
    {"STEPC_RANKS", "how many"},
    {"STEPC_CUDA_CHECK", "1: wait for every kernel, so that one that fails is named"},
    {"STEPC_VERIFY_EACH", "1: verify the IR around every pass"},
    {"STEPC_LATE_ALWAYS", "1: updates wait for the decision wherever they may"},
    {"STEPC_WARPGROUPS_ALWAYS", "1: for sm_90a products have wgmma also where they are too small for it to pay"}};

bool cli_variable(size_t index, const char **name, const char **doc)
{
    if (index >= sizeof variables / sizeof *variables) return false;
    *name = variables[index][0], *doc = variables[index][1];
    return true;
}

int cli_doctor(struct cli *cli)
{
    const char *wanted = own_library(cli->arena, "STEPC_LLVM", STEPC_OWN_LIBRARY, STEPC_LLVM_LIBRARY), *llvm;
    static const char *const blas[] = {"libopenblas.so.0"}, *const usual[] = {"libcuda.so.1"},
                             *const any[] = {"libnccl.so.2"},
                             *const products[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    const char *own = getenv("STEPC_CUDA_DRIVER"), *const *driver = own && *own ? &own : usual;
    const char *named = getenv("STEPC_NCCL"), *const *nccl = named && *named ? &named : any;
    const char *other = getenv("STEPC_ZSTD"), *const zstd[] = {other && *other ? other : "libzstd.so.1"};
    const char *asked = getenv("STEPC_CUBLASLT"), *const *lt = asked && *asked ? &asked : products;
    struct json_tree json = json_object(cli->arena), values;
    json_add_integer(json, "schema", 1);
    struct report r = {cli, STR(cli->arena), json_add_object(json, "machine"), json_add_object(json, "lacks")};
    void *lld;
    find_function(open_library(&r, &wanted, 1, BY_NAME, &llvm), "stepc_lld", &lld);
    const char *linker = lld ? arena_format(cli->arena, "lld in %s", llvm) : program(&r, "ld.lld");
    if (!linker) linker = program(&r, "ld");
    cpu_set_t set[RT_CPU_SETS];
    line(&r, "version", STEPC_VERSION, NULL);
    line(&r, "processor", instructions(), NULL);
    if (sched_getaffinity(0, sizeof set, set) == 0)
        line(&r, "cores", arena_format(cli->arena, "%d", CPU_COUNT_S(sizeof set, set)), NULL);
    line(&r, "linker", linker, "missing: install lld or binutils; compiling needs one");
    line(&r, "LLVM", llvm, "missing: install " STEPC_LLVM_LIBRARY " (libllvm16); compiling needs it");
    line(&r, "OpenBLAS", library(&r, blas, 1, ""), "not found: own kernels do the products (libopenblas0-pthread)");
    line(&r, "Zstandard", library(&r, zstd, 1, ""), "not found: checkpoints are not compressed (libzstd1)");
    line(&r, "MPI", program(&r, "mpirun"), "not found: meshes are threads of one process (openmpi-bin or mpich)");
    line(&r, "NVRTC", nvrtc(&r), "not found: needed by --target cuda (cuda-nvrtc of NVIDIA's repository)");
    line(&r, "cuBLASLt", library(&r, lt, lt == products ? 2 : 1, ""), "not found: own kernels do the products of GPUs");
    line(&r, "NCCL", library(&r, nccl, 1, ""),
         "not found: GPUs of a mesh are of one process (libnccl2 of NVIDIA's repository)");
    cuda(&r, driver);
    cli_limits_list(&r.out, json_add_object(json, "limits"));
    values = json_add_object(json, "variables");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i][0]);
        json_add_text(values, variables[i][0], value);
        str_addf(&r.out, "%-18s %s\n", variables[i][0],
                 value ? arena_format(cli->arena, "= %s", value)
                       : arena_format(cli->arena, "not set (%s)", variables[i][1]));
    }
    const char *text = cli_count(cli, "json") ? json_print_lines(json) : str_text(&r.out);
    int code = cli_print(cli, text, strlen(text));
    return code ? code : llvm && linker ? 0 : EXIT_ENVIRONMENT;
}
