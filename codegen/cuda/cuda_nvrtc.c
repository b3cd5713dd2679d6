/* CUDA C to cubins through NVRTC, which is opened when it is needed: building this program takes neither its headers
 * nor its library. Texts are compiled beside each other, as many at a time as there are cores; what comes out does not
 * depend on how many. Contraction of products and sums is off, so that a kernel rounds where the nest says; denormals
 * are kept, division and square root are exact. */
#include "codegen/cuda/cuda.h"
#include "ir/base/parallel.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opaque_program *nvrtc_program;
enum { NVRTC_COMPILATION = 6 /* the status of a text with errors */ };
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
    int major, minor; /* its version */
};

/* STEPC_NVRTC names one: code of a version's is for drivers of that version and later ones, so an older one than that
 * which is found first makes objects for older drivers. */
static void *open_library(struct arena *arena)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *given = getenv("STEPC_NVRTC");
    if (given && *given) return dlopen(given, RTLD_NOW | RTLD_LOCAL);
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
    const char *given = getenv("STEPC_NVRTC");
    if (!library && given && *given)
        return arena_format(arena, "--target cuda needs NVRTC, and STEPC_NVRTC=%s cannot be opened", given);
    if (!library)
        return "--target cuda needs NVRTC (libnvrtc.so.13 or .12), which was not found: install it from NVIDIA's "
               "repository "
               "(apt-get install cuda-nvrtc-13-0), set CUDA_HOME, or name its file in STEPC_NVRTC";
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol && !symbols[i].optional)
            return arena_format(arena, "the NVRTC found here is too old: it lacks %s (CUDA 12 or later is needed)",
                                symbols[i].name);
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    n->version(&n->major, &n->minor);
    return NULL;
}

/* NULL, or that this NVRTC does not know sm_<number>. */
static const char *check_arch(const struct nvrtc *n, const char *arch, struct arena *arena)
{
    int count = 0, wanted = atoi(strchr(arch, '_') + 1);
    if (!n->arch_count || !n->archs || n->arch_count(&count) || count <= 0) return NULL;
    int *known = arena_new_array(arena, int, count);
    struct str list = STR(arena);
    if (n->archs(known)) return NULL;
    for (int i = 0; i < count; i++) {
        if (known[i] == wanted) return NULL;
        str_addf(&list, "%ssm_%d", i ? ", " : "", known[i]);
    }
    return arena_format(arena, "NVRTC %d.%d does not compile for %s; it knows %s", n->major, n->minor, arch,
                        str_text(&list));
}

static bool is_ptx(const char *arch) { return strncmp(arch, "compute_", 8) == 0; }

/* 80 or 90, for which NVVM makes the same PTX but for the line that names one: their multiprocessors have as many
 * registers and warps, by which it decides what is computed again. Those of sm_86 and sm_89 do not. 0: another one. */
static int common_number(const char *arch)
{
    const char *number = strchr(arch, '_') + 1;
    return strcmp(number, "80") == 0 ? 80 : strcmp(number, "90") == 0 ? 90 : 0;
}

/* ---------------------------------------------------------------- several at a time */

struct job {
    const char *text, *arch;
    const struct job *of; /* this one's PTX is what code is made of; it is taken up before; NULL: of the text */
    int status;
    bool done;
    struct arena own; /* of the thread that does it */
    char *data;       /* of a text with errors: what NVRTC says */
    size_t size;
};
struct work {
    const struct nvrtc *nvrtc;
    VEC(struct job *) jobs;
    pthread_mutex_t lock; /* of what is done */
    pthread_cond_t more;
};

/* What one of two functions that ask for a size and its bytes gives. */
static int take(nvrtc_program program, int (*ask)(nvrtc_program, size_t *), int (*get)(nvrtc_program, char *),
                struct job *j)
{
    int status = ask(program, &j->size);
    if (status) return status;
    j->data = arena_alloc(&j->own, j->size + 1);
    return get(program, j->data);
}

static void compile(const struct nvrtc *n, struct job *j, const char *text)
{
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", j->arch);
    const char *options[] = {arch,
                             "--std=c++17",
                             "--fmad=false",
                             "--ftz=false",
                             "--prec-div=true",
                             "--prec-sqrt=true",
                             "--disable-warnings",
                             "--minimal" /* no declarations of the runtime's; the same code */};
    const int known = (int)(sizeof options / sizeof *options) - (n->major < 13);
    nvrtc_program program = NULL;
    j->status = n->create(&program, text, "step.cu", 0, NULL, NULL);
    if (j->status) return;
    j->status = n->compile(program, known, options);
    bool ptx = is_ptx(j->arch); /* its size counts a zero at the end */
    if (j->status == NVRTC_COMPILATION) take(program, n->log_size, n->log, j);
    else if (!j->status) j->status = take(program, ptx ? n->ptx_size : n->cubin_size, ptx ? n->ptx : n->cubin, j);
    n->destroy(&program);
}

/* PTX with another architecture's name. */
static bool rename_target(struct job *j, const char *ptx)
{
    static const char target[] = "\n.target sm_";
    const char *at = strstr(ptx, target);
    if (!at) return false;
    at += strlen(target);
    j->data = arena_format(&j->own, "%.*s%s%s", (int)(at - ptx), ptx, strchr(j->arch, '_') + 1,
                           at + strspn(at, "0123456789"));
    j->size = strlen(j->data) + 1;
    return true;
}

/* From PTX where there is some and NVRTC takes it, otherwise from the text. */
static void make(const struct nvrtc *n, struct job *j)
{
    const char *ptx = j->of && !j->of->status ? j->of->data : NULL;
    if (ptx && is_ptx(j->arch) && rename_target(j, ptx)) return;
    const char *text = ptx && !is_ptx(j->arch) ? cuda_with_ptx(j->text, ptx, &j->own) : NULL;
    if (text) compile(n, j, text);
    if (!text || j->status == NVRTC_COMPILATION) compile(n, j, j->text);
}

static void make_one(void *context, size_t i)
{
    struct work *w = context;
    struct job *j = w->jobs.items[i];
    pthread_mutex_lock(&w->lock);
    while (j->of && !j->of->done) pthread_cond_wait(&w->more, &w->lock);
    pthread_mutex_unlock(&w->lock);
    make(w->nvrtc, j);
    pthread_mutex_lock(&w->lock);
    j->done = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
}

/* A text for architectures that have its PTX in common; it is made for the least of them. */
struct group {
    const char *text;
    int least;
    size_t members;
    struct job ptx;
};

static struct group *find_group(struct group *groups, size_t *count, const struct cuda_source *source)
{
    int number = common_number(source->arch);
    size_t i = 0;
    while (i < *count && !(number && groups[i].least && groups[i].text == source->text)) i++;
    struct group *g = &groups[i];
    if (i == *count) *g = (struct group){.text = source->text, .least = number}, ++*count;
    g->least = number < g->least ? number : g->least;
    g->members++;
    return g;
}

/* First the PTX for several and what nobody shares, then the rest. */
static void make_sources(const struct nvrtc *n, const struct cuda_source *sources, struct job *jobs, size_t count,
                         struct arena *arena)
{
    struct work work = {.nvrtc = n, .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
    struct group *groups = arena_new_array(arena, struct group, count + 1);
    struct group **of = arena_new_array(arena, struct group *, count + 1);
    size_t group_count = 0;
    for (size_t i = 0; i < count; i++) of[i] = find_group(groups, &group_count, &sources[i]);
    for (size_t i = 0; i < group_count; i++) {
        struct group *g = &groups[i];
        if (g->members < 2) continue;
        g->ptx = (struct job){.text = g->text, .arch = arena_format(arena, "compute_%d", g->least)};
        vec_push(arena, &work.jobs, &g->ptx);
    }
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct job){.text = sources[i].text, .arch = sources[i].arch};
        if (of[i]->members > 1) jobs[i].of = &of[i]->ptx;
        else vec_push(arena, &work.jobs, &jobs[i]);
    }
    for (size_t i = 0; i < count; i++)
        if (jobs[i].of) vec_push(arena, &work.jobs, &jobs[i]);
    parallel_each(work.jobs.count, 0, make_one, &work);
    for (size_t i = 0; i < group_count; i++) arena_free(&groups[i].ptx.own);
}

static _Noreturn void rejected(const struct nvrtc *n, const struct job *j, const char *save)
{
    FILE *file = fopen(save, "w");
    bool saved = file && fputs(j->text, file) >= 0;
    if (file) saved = fclose(file) == 0 && saved;
    BUG("NVRTC does not compile the generated kernels (%s; text %s %s):\n%s", n->error(j->status),
        saved ? "saved as" : "could not be saved as", save, j->data ? j->data : "");
}

const char *cuda_nvrtc(struct cuda_source *sources, size_t count, const char *save, struct arena *arena)
{
    struct nvrtc n;
    const char *why = open_nvrtc(&n, arena);
    for (size_t i = 0; !why && i < count; i++) why = check_arch(&n, sources[i].arch, arena);
    if (why) return why;
    struct job *jobs = arena_new_array(arena, struct job, count + 1);
    make_sources(&n, sources, jobs, count, arena);
    for (size_t i = 0; i < count; i++) {
        struct job *j = &jobs[i];
        if (j->status == NVRTC_COMPILATION) rejected(&n, j, save);
        if (!why && (j->status || !j->size)) /* out of memory, parts of the library missing */
            why = arena_format(arena, "NVRTC made no code for %s: %s", sources[i].arch, n.error(j->status));
        if (j->data) sources[i].code = (struct cg_bytes){arena_copy(arena, j->data, j->size), j->size};
        arena_free(&j->own);
    }
    return why;
}
