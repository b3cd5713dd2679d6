/* Before a library's product is relied on it is done once, in memory that is given back then: it must give what the
 * object's own kernel gives, to the bit. Operands are whole numbers whose sums of products are exact in float32, so
 * that no order of adding changes them; of float32 the left ones have more digits than TF32. The results begin as NaN,
 * so that what is not written is seen. */
#include "runtime/cublaslt.h"

#include <stdlib.h>
#include <string.h>

enum { PERIOD = 65521 /* a prime: rows begin elsewhere in it */, SMALL = 4, LONG_SUM = 1 << 18, APART = 256 };

struct check {
    struct rt_device *device;
    const struct rt_cuda_product *product;
    uint32_t item; /* bytes of an element */
    size_t bytes_a, bytes_b, bytes_c;
    char *block, *a, *b, *own, *library, *scratch; /* of the device */
    char *host, *seen[2];                          /* what both gave */
};

static size_t place(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end = (at + bytes + APART - 1) / APART * APART;
    return at;
}

static size_t bytes_of(const struct check *k, int64_t rows, int64_t length, int64_t ld, int64_t stride)
{
    const struct stepc_gemm *g = k->product->gemm;
    return (size_t)((g->batch - 1) * stride + (rows - 1) * ld + length) * k->item;
}

static bool get_memory(struct check *k, uint64_t workspace)
{
    const struct stepc_gemm *g = k->product->gemm;
    const struct rt_cuda_device *of = k->device->handle;
    void *block = NULL;
    size_t end = 0;
    k->bytes_a = bytes_of(k, g->trans_a ? g->k : g->m, g->trans_a ? g->m : g->k, g->lda, g->stride_a);
    k->bytes_b = bytes_of(k, g->trans_b ? g->n : g->k, g->trans_b ? g->k : g->n, g->ldb, g->stride_b);
    k->bytes_c = bytes_of(k, g->m, g->n, g->ldc, g->stride_c);
    size_t a = place(&end, k->bytes_a), b = place(&end, k->bytes_b), own = place(&end, k->bytes_c),
           library = place(&end, k->bytes_c), scratch = place(&end, workspace + 2 * APART);
    size_t most = k->bytes_a > k->bytes_b ? k->bytes_a : k->bytes_b;
    k->host = malloc(most), k->seen[0] = malloc(k->bytes_c), k->seen[1] = malloc(k->bytes_c);
    if (!k->host || !k->seen[0] || !k->seen[1] || of->host->driver.alloc(&block, end)) return false;
    k->block = block;
    k->a = k->block + a, k->own = k->block + own, k->library = k->block + library;
    k->b = g->a == g->b ? k->a : k->block + b;
    k->scratch = k->block + scratch + APART; /* the flag of kernels stands before it */
    return true;
}

/* Whole numbers of both signs up to `most`, or ones and zeros of both. */
static int fill(const struct check *k, char *to, size_t bytes, uint64_t random, int64_t most)
{
    const struct rt_cuda_device *of = k->device->handle;
    size_t period = (size_t)PERIOD * k->item, first = bytes < period ? bytes : period;
    for (size_t i = 0; i < first / k->item; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int64_t x = (int64_t)(random >> 33) % (2 * most + 1) - most;
        rt_number_put(k->host, k->product->gemm->dtype, (int64_t)i, (double)(most > SMALL ? x | 1 : x));
    }
    for (size_t at = first; at < bytes; at += period)
        memcpy(k->host + at, k->host, bytes - at < period ? bytes - at : period);
    int status = of->host->driver.to_device(to, k->host, bytes, of->stream);
    return status ? status : of->host->driver.stream_wait(of->stream);
}

static int multiply(struct check *k)
{
    const struct stepc_gemm *g = k->product->gemm;
    const struct rt_cuda_device *of = k->device->handle;
    const struct stepc_cuda_launch *l = k->product->launch;
    const struct stepc_cuda_kernel *kernel = &k->device->instance->program->cuda->kernels[l->kernel];
    struct stepc_command one = *k->product->command;
    uint32_t members = one.members > 1 ? one.members : 1;
    struct rt_cuda_words words;
    void *arguments[3] = {NULL};
    one.extent = members > 1 ? one.ends[0] : one.extent;
    one.buffer_count /= members, one.members = 1;
    arguments[g->a] = k->a, arguments[g->b] = k->b, arguments[g->c] = k->own;
    rt_cuda_words(&words, kernel, l, &one, arguments, 0, k->scratch);
    const struct rt_cuda_op own = {.launch = l,
                                   .kernel = (int32_t)l->kernel,
                                   .count = words.count,
                                   .blocks = words.blocks,
                                   .table = words.table},
                            by = {.launch = l, .count = 4, .product = k->product};
    uint64_t of_library[] = {(uintptr_t)k->a, (uintptr_t)k->b, (uintptr_t)k->library, (uintptr_t)k->scratch};
    int status = rt_cuda_issue(k->device, &own, 1, words.word);
    if (!status) status = rt_cuda_issue(k->device, &by, 1, of_library);
    if (status) return status;
    status = of->host->driver.from_device(k->seen[0], k->own, k->bytes_c, of->stream);
    if (!status) status = of->host->driver.from_device(k->seen[1], k->library, k->bytes_c, of->stream);
    return status ? status : of->host->driver.stream_wait(of->stream);
}

static int run(struct check *k)
{
    const struct stepc_gemm *g = k->product->gemm;
    const struct rt_cuda_driver *u = &((const struct rt_cuda_device *)k->device->handle)->host->driver;
    void *stream = ((const struct rt_cuda_device *)k->device->handle)->stream;
    unsigned char begin = g->accumulate ? 0 : 0xff;
    bool digits = g->dtype == STEP_F32 && g->a != g->b && g->k < LONG_SUM;
    int status = fill(k, k->a, k->bytes_a, 1, digits ? 4095 : SMALL);
    if (!status && k->b != k->a) status = fill(k, k->b, k->bytes_b, 2, digits ? 1 : SMALL);
    if (!status) status = u->set_bytes(k->own, begin, k->bytes_c, stream);
    if (!status) status = u->set_bytes(k->library, begin, k->bytes_c, stream);
    return status ? status : multiply(k);
}

static step_status compare(const struct check *k)
{
    const struct stepc_gemm *g = k->product->gemm;
    const struct rt_cuda_device *of = k->device->handle;
    const struct rt_lt_library *library = of->host->library;
    if (memcmp(k->seen[0], k->seen[1], k->bytes_c) == 0) return STEP_OK;
    for (int64_t i = 0; i < (int64_t)(k->bytes_c / k->item); i++) {
        double own = rt_number_at(k->seen[0], g->dtype, i), theirs = rt_number_at(k->seen[1], g->dtype, i);
        if (own == theirs) continue; /* zeros have two signs */
        return rt_fail(NULL, STEP_EDEVICE,
                       "cuda:%d: %s: cuBLASLt (%s) does not give the product of %s [%lld, %lld] and [%lld, %lld]: "
                       "element %lld of %lld is %.0f, the object's own kernel gives %.0f; STEPC_CUBLASLT=/dev/null, or "
                       "compiling with --blas own, does without it",
                       of->ordinal, k->product->launch->place, library->path, rt_dtype_name(g->dtype), (long long)g->m,
                       (long long)g->k, (long long)g->k, (long long)g->n, (long long)i,
                       (long long)(k->bytes_c / k->item), theirs, own);
    }
    return STEP_OK;
}

step_status rt_lt_check(struct rt_device *d, const struct rt_cuda_product *p, uint64_t workspace, const char **why)
{
    const struct rt_cuda_device *g = d->handle;
    struct check k = {.device = d, .product = p, .item = rt_dtype_bytes(p->gemm->dtype)};
    step_status result = STEP_OK;
    char text[CUDA_TEXT];
    bool room = get_memory(&k, workspace);
    int status = room ? run(&k) : 0;
    if (!room) *why = "no memory to try one";
    else if (status < 0) *why = g->products->why(g, status);
    else if (status)
        result = rt_fail(NULL, STEP_EDEVICE, "cuda:%d: %s: trying cuBLASLt's product: %s", g->ordinal, p->launch->place,
                         rt_cuda_why(&g->host->driver, status, text));
    else result = compare(&k);
    if (k.block) g->host->driver.free(k.block);
    free(k.host), free(k.seen[0]), free(k.seen[1]);
    return result;
}
