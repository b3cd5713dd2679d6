/* Matrix products by cuBLASLt, opened when an object that prefers it is asked to run. What the library is asked is
 * asked once, when an instance is created: an algorithm for each product, whose result must then be that of the
 * object's own kernel (cublaslt_check.c). Where it is missing, has no algorithm, or one that differs between the
 * devices of an instance, own kernels run and a line says so. In a step a product is one call, like a launch. */
#include "runtime/cublaslt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_AT = 256, WIDEST = 16 /* bytes of an access */ };

static struct rt_lt_device *device_of(const struct rt_cuda_device *g) { return (struct rt_lt_device *)g->products; }

/* ---------------------------------------------------------------- the library */

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

static void *open_one(const struct step_instance *t, const char **path)
{
    const char *given = t->flags & STEP_NO_ENV ? NULL : getenv("STEPC_CUBLASLT");
    const struct rt_cuda_host *h = t->gpu;
    void *library = NULL;
    int version = 0;
    size_t first = !h->driver.version(&version) && version < 13000; /* no driver runs a later library */
    *path = given && *given ? given : names[first];
    if (given && *given) return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = first; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(*path = names[i], RTLD_NOW | RTLD_LOCAL); /* stays open: it has threads of its own */
    return library;
}

static bool open_library(struct step_instance *t, struct rt_lt_library *lt)
{
#define LT_SYMBOL(member, name, parameters) {name, &lt->call.member},
    const struct {
        const char *name;
        void *to;
    } symbols[] = {LT_FUNCTIONS(LT_SYMBOL){"cublasLtGetVersion", &lt->call.version},
                   {"cublasLtGetStatusName", &lt->call.status_name}};
    void *library = open_one(t, &lt->path);
    if (!library) {
        rt_log(t, 1, "cuBLASLt is not here (%s): own kernels do its products", lt->path);
        return false;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) rt_log(t, 1, "%s lacks %s: own kernels do its products", lt->path, symbols[i].name);
        if (!symbol) return false;
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    size_t version = lt->call.version(), major = version / 10000;
    if (major < LT_OLDEST)
        rt_log(t, 1, "%s is of version %zu, 12.0 or later is needed: own kernels do its products", lt->path, version);
    else rt_log(t, 2, "matrix products by %s, version %zu", lt->path, version);
    return major >= LT_OLDEST;
}

/* Products of all entries: one behind the last that a command names. */
static uint32_t count_products(const struct stepc_program *p)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t i = 0; i < p->entries[e].command_count; i++) {
            const struct stepc_gemm *g = p->entries[e].commands[i].gemm;
            if (g && g - p->gemms >= count) count = (uint32_t)(g - p->gemms) + 1;
        }
    return count;
}

static struct rt_lt_library *library_of(struct step_instance *t)
{
    struct rt_cuda_host *h = t->gpu;
    struct rt_lt_library *lt = h->library;
    if (lt) return lt;
    lt = h->library = rt_alloc(t, sizeof *lt);
    if (!lt) return NULL;
    lt->count = count_products(t->program);
    lt->refused = rt_alloc(t, (lt->count + 1) * sizeof *lt->refused);
    lt->algorithms = rt_alloc(t, (lt->count + 1) * sizeof *lt->algorithms);
    lt->usable = lt->refused && lt->algorithms && open_library(t, lt);
    return lt;
}

/* ---------------------------------------------------------------- a product */

static int dtype_of(const struct stepc_gemm *g)
{
    return g->dtype == STEP_F16 ? LT_R_16F : g->dtype == STEP_BF16 ? LT_R_16BF : LT_R_32F;
}

/* Of a matrix whose rows have `length` elements. */
static int make_layout(const struct rt_lt_functions *lt, void **layout, const struct stepc_gemm *g, int64_t rows,
                       int64_t length, int64_t ld, int64_t stride)
{
    int32_t batch = (int32_t)g->batch;
    if (g->batch > INT32_MAX) return LT_NOT_SUPPORTED;
    int status = lt->layout_create(layout, dtype_of(g), (uint64_t)length, (uint64_t)rows, ld);
    if (!status && batch > 1) status = lt->layout_set(*layout, LT_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (!status && batch > 1) status = lt->layout_set(*layout, LT_LAYOUT_BATCH_STRIDE, &stride, sizeof stride);
    return status;
}

static int make_operation(const struct rt_lt_functions *lt, struct rt_cuda_product *p)
{
    const int transposed = LT_TRANSPOSED;
    const struct stepc_gemm *g = p->gemm;
    int status = lt->operation_create(&p->operation, LT_COMPUTE_32F, LT_R_32F);
    if (!status && g->trans_b)
        status = lt->operation_set(p->operation, LT_OPERATION_TRANS_A, &transposed, sizeof transposed);
    if (!status && g->trans_a)
        status = lt->operation_set(p->operation, LT_OPERATION_TRANS_B, &transposed, sizeof transposed);
    if (!status)
        status = make_layout(lt, &p->a, g, g->trans_a ? g->k : g->m, g->trans_a ? g->m : g->k, g->lda, g->stride_a);
    if (!status)
        status = make_layout(lt, &p->b, g, g->trans_b ? g->n : g->k, g->trans_b ? g->k : g->n, g->ldb, g->stride_b);
    return status ? status : make_layout(lt, &p->c, g, g->m, g->n, g->ldc, g->stride_c);
}

static int find_algorithm(const struct rt_lt_device *lt, struct rt_cuda_product *p, uint64_t workspace)
{
    const struct rt_lt_functions *l = &lt->call;
    const uint32_t mask = LT_REDUCE_IN_WORKSPACE;
    void *want = NULL;
    int count = 0, status = l->want_create(&want);
    if (!status) status = l->want_set(want, LT_WANT_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (!status) status = l->want_set(want, LT_WANT_REDUCTION_MASK, &mask, sizeof mask);
    for (int i = 0; !status && i < 4; i++)
        status = l->want_set(want, LT_WANT_ALIGNMENT_A + i, &p->aligned, sizeof p->aligned);
    if (!status) status = l->find(lt->handle, p->operation, p->b, p->a, p->c, p->c, want, 1, &p->found, &count);
    if (want) l->want_destroy(want);
    if (!status) status = count ? p->found.status : LT_NOT_SUPPORTED;
    return !status && p->found.workspace > workspace ? LT_NOT_SUPPORTED : status;
}

static void forget(const struct rt_lt_functions *lt, struct rt_cuda_product *p)
{
    void *const layouts[] = {p->a, p->b, p->c};
    for (int i = 0; i < 3; i++)
        if (layouts[i]) lt->layout_destroy(layouts[i]);
    if (p->operation) lt->operation_destroy(p->operation);
    *p = (struct rt_cuda_product){.gemm = NULL};
}

/* ---------------------------------------------------------------- a device's */

static uint64_t planned(const struct stepc_program *p)
{
    uint64_t most = 0;
    for (uint32_t e = 0; e < p->entry_count; e++)
        most = p->entries[e].scratch_bytes > most ? p->entries[e].scratch_bytes : most;
    return most;
}

/* Who is asked for what, and how its operands lie in all commands that ask. Blocks of memory begin at multiples of more
 * than that; inputs of the host are copied to such places. */
static void note(struct rt_lt_device *lt, const struct stepc_program *p, const struct stepc_entry *e, uint32_t index)
{
    const struct stepc_command *c = &e->commands[index];
    struct rt_cuda_product *to = &lt->of[c->gemm - p->gemms];
    uint32_t item = c->gemm->dtype == STEP_F32 ? 4 : 2;
    if (!to->command)
        *to = (struct rt_cuda_product){
            .gemm = c->gemm, .command = c, .launch = &p->cuda->launches[e - p->entries][index], .aligned = WIDEST};
    for (uint32_t i = 0; i < c->buffer_count; i++)
        if (e->buffers[c->buffers[i]].offset % WIDEST) to->aligned = item;
}

static step_status make_product(struct rt_device *d, struct rt_lt_device *lt, struct rt_cuda_product *p)
{
    struct rt_lt_library *l = lt->library;
    const struct rt_cuda_device *g = d->handle;
    size_t number = (size_t)(p - lt->of);
    const struct rt_lt_algorithm none = {{0}};
    uint64_t workspace = planned(d->instance->program);
    int bad = make_operation(&lt->call, p);
    if (!bad) bad = find_algorithm(lt, p, workspace > WORKSPACE_AT ? workspace - WORKSPACE_AT : 0);
    const char *why = bad ? lt->call.status_name(bad) : NULL;
    step_status status = STEP_OK;
    if (!bad && memcmp(&l->algorithms[number], &none, sizeof none) == 0) l->algorithms[number] = p->found.algorithm;
    if (!bad && memcmp(&l->algorithms[number], &p->found.algorithm, sizeof none) != 0)
        why = "it is another one on another device";
    if (!why) status = rt_lt_check(d, p, workspace, &why);
    if (why)
        rt_log(d->instance, 1,
               "cuda:%d: %s (%lld x %lld x %lld): no algorithm of cuBLASLt (%s): the own kernel does it", g->ordinal,
               p->launch->place, (long long)p->gemm->m, (long long)p->gemm->n, (long long)p->gemm->k, why);
    if (why) l->refused[number] = true;
    return status;
}

static void close_products(struct rt_cuda_device *g)
{
    struct rt_lt_device *lt = device_of(g);
    for (uint32_t i = 0; lt->of && i < lt->count; i++) forget(&lt->call, &lt->of[i]);
    if (lt->handle) lt->call.destroy(lt->handle);
    free(lt->of);
    free(lt);
    g->products = NULL;
}

static int issue(const struct rt_cuda_device *g, const struct rt_cuda_product *p, const uint64_t *words)
{
    const struct rt_lt_device *lt = device_of(g);
    const float one = 1, before = p->gemm->accumulate ? 1 : 0;
    const void *a = (const void *)(uintptr_t)words[0], *b = (const void *)(uintptr_t)words[1];
    void *c = (void *)(uintptr_t)words[2], *workspace = (void *)(uintptr_t)words[3];
    return -lt->call.multiply(lt->handle, p->operation, &one, b, p->b, a, p->a, &before, c, p->c, c, p->c,
                              &p->found.algorithm, workspace, p->found.workspace, g->stream);
}

static const char *why(const struct rt_cuda_device *g, int status) { return device_of(g)->call.status_name(-status); }

static step_status open_products(struct rt_device *d)
{
    const struct stepc_program *p = d->instance->program;
    struct rt_cuda_device *g = d->handle;
    struct rt_lt_library *library = library_of(d->instance);
    if (!library) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    if (!library->usable) return STEP_OK;
    struct rt_lt_device *lt = calloc(1, sizeof *lt);
    if (!lt) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    lt->products = (struct rt_cuda_products){close_products, issue, why};
    lt->library = library, lt->call = library->call, lt->count = library->count;
    g->products = &lt->products;
    lt->of = calloc(library->count + 1, sizeof *lt->of);
    int bad = lt->of ? lt->call.create(&lt->handle) : 0;
    if (!lt->of) return rt_fail(NULL, STEP_ENOMEM, "create: out of memory");
    if (bad) {
        rt_log(d->instance, 1, "cuda:%d: cuBLASLt does not start (%s): own kernels do its products", g->ordinal,
               lt->call.status_name(bad));
        library->usable = false;
        return STEP_OK;
    }
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t i = 0; i < p->entries[e].command_count; i++)
            if (p->entries[e].commands[i].gemm) note(lt, p, &p->entries[e], i);
    step_status status = STEP_OK;
    for (uint32_t i = 0; !status && i < library->count; i++)
        if (lt->of[i].command && !library->refused[i]) status = make_product(d, lt, &lt->of[i]);
    return status;
}

static bool launch(struct rt_worker *w, const struct stepc_command *c, const struct stepc_cuda_launch *l,
                   void *const *arguments)
{
    const struct rt_cuda_device *g = w->device->handle;
    const struct rt_lt_device *lt = device_of(g);
    const struct stepc_gemm *gemm = c->gemm;
    size_t number = (size_t)(gemm - w->instance->program->gemms);
    if (!lt || !lt->library->usable || lt->library->refused[number]) return false;
    const struct rt_cuda_product *p = &lt->of[number];
    uint32_t members = c->members > 1 ? c->members : 1, per = c->buffer_count / members;
    uintptr_t workspace = ((uintptr_t)w->scratch + WORKSPACE_AT - 1) / WORKSPACE_AT * WORKSPACE_AT;
    for (uint32_t i = 0; i < c->buffer_count; i++)
        if ((uintptr_t)arguments[i] % p->aligned) return false; /* weights of another kind */
    for (uint32_t m = 0; m < members; m++, arguments += per)
        rt_cuda_do(w->device, &(struct rt_cuda_op){.launch = l, .count = 4, .product = p},
                   (const uint64_t[]){(uintptr_t)arguments[gemm->a], (uintptr_t)arguments[gemm->b],
                                      (uintptr_t)arguments[gemm->c], workspace});
    return true;
}

/* Ranks that would do other things do none of them by the library: what they all compute has to be the same. */
static void agree(struct step_instance *t)
{
    struct rt_cuda_host *h = t->gpu;
    struct rt_lt_library *lt = h->library;
    uint64_t mine = lt && lt->usable ? lt->call.version() : 0, most, least;
    if (t->ranks == 1) return;
    for (uint32_t i = 0; mine && i < lt->count; i++)
        for (size_t k = 0; k < 8; k++)
            mine = (mine ^ (lt->refused[i] ? 0 : lt->algorithms[i].data[k])) * UINT64_C(0x100000001b3);
    mine &= INT64_MAX;
    most = mine, least = INT64_MAX - mine;
    step_status status = t->program->mesh->largest(t, &most);
    if (!status) status = t->program->mesh->largest(t, &least);
    if (!status && most == INT64_MAX - least) return;
    if (lt) lt->usable = false;
    rt_log(t, 1, "cuBLASLt or its algorithms are not the same on all ranks: own kernels do its products");
}

static const struct rt_cuda_library gpu = {open_products, launch};
const struct stepc_blas stepc_part_cublaslt = {.open = agree, .gpu = &gpu};
