/* A stand-in for cuBLASLt (libcublasLt.so.13) on the stand-in for the driver: the part of its interface that the
 * runtime uses, as unforgiving as the interface allows.
 *
 *   - Products are made in the order of a stream, or by the graph that takes what it is given, and not before somebody
 *     waits for them (../driver/stand_in.h). Operands and results lie inside of blocks of the device.
 *   - What does not fit is reported: descriptors that are none, shapes, leading dimensions, dtypes and batches that
 *     differ, an algorithm that was found for another product, operands that lie elsewhere than was promised, results
 *     over operands, a workspace that is missing, too small, or not aligned, a handle of another device; and what
 *     nobody destroys.
 *   - The workspace is left full of rubbish. Sums go from the last step to the first one, by blocks: nobody relies on
 *     their order. A result that is not added to is not read.
 *
 * STAND_IN_LT_VERSION=130000; STAND_IN_LT_COUNTS: a file to which each process adds how many products were found,
 * called for and made; STAND_IN_LT_NONE=1: no algorithm is found; STAND_IN_LT_FAIL: a status of every product;
 * STAND_IN_LT_LIE=N: the Nth product that is made has a wrong last element; STAND_IN_LT_SHORT=1: float32 operands are
 * rounded as TF32; STAND_IN_LT_DIFFERS=1: every handle finds algorithms of its own. */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xmmintrin.h>

#define API __attribute__((visibility("default")))
enum { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15, WRONG = 86 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14, COMPUTE_32F = 68, BLOCK = 8 };
enum { TRANS_A = 3, TRANS_B = 4, BATCH_COUNT = 5, BATCH_STRIDE = 6 };
enum { WORKSPACE = 1, REDUCTION = 3, ALIGNMENT = 5 };
enum { REDUCE_IN_WORKSPACE = 2 };

/* The driver's: work in the order of a stream, what a device sees behind an address of it, the device that is current.
 */
int stand_in_enqueue(void *stream, int (*work)(void *), void (*end)(void *), void *of);
char *stand_in_place(const void *address, uint64_t bytes, const char *who);
int stand_in_device(void);

__extension__ typedef _Float16 f16;

enum kind { HANDLE = 1, OPERATION, LAYOUT, WANT };
static const char *const kinds[] = {"", "handle", "operation", "layout", "preference"};
struct thing {
    struct thing *next;
    enum kind kind;
    bool gone;
    int device, number;           /* HANDLE */
    int compute, scale, trans[2]; /* OPERATION */
    int dtype, batch;             /* LAYOUT */
    uint64_t rows, columns;
    int64_t ld, stride;
    uint64_t workspace; /* WANT */
    uint32_t mask, aligned[4];
};
struct algorithm {
    uint64_t shape, workspace, aligned[4], own, unused;
};
struct found {
    struct algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};
struct matrix {
    char *at;
    int dtype;
    int64_t stride, row, column; /* of an element, in elements */
};
struct work { /* lives as long as the process: graphs make it again */
    const struct thing *handle;
    int64_t m, n, k, batch;
    struct matrix a, b, c, d;
    uint64_t bytes[4]; /* of these */
    float alpha, beta;
    char *workspace;
    uint64_t workspace_bytes;
};

static struct thing *things;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool wrong;
static unsigned long finds, calls, made;
static int handles;

static void report(const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "stand-in cuBLASLt: %s\n", text);
    wrong = true;
}

static long setting(const char *name, long otherwise)
{
    const char *value = getenv(name);
    return value && *value ? atol(value) : otherwise;
}

__attribute__((destructor)) static void at_the_end(void)
{
    const char *path = getenv("STAND_IN_LT_COUNTS");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (file) fprintf(file, "found %lu\ncalled %lu\nmade %lu\n", finds, calls, made);
    if (file) fclose(file);
    for (struct thing *t = things; t; t = t->next)
        if (!t->gone) report("a %s was left", kinds[t->kind]);
    if (wrong) _exit(WRONG);
}

/* ---------------------------------------------------------------- descriptors */

static struct thing *make(enum kind kind, void **to)
{
    struct thing *t = calloc(1, sizeof *t);
    if (!t) abort();
    pthread_mutex_lock(&lock);
    t->next = things, t->kind = kind;
    *to = things = t;
    pthread_mutex_unlock(&lock);
    return t;
}

static struct thing *of(const char *who, const void *handle, enum kind kind)
{
    struct thing *t = things;
    while (t && (t != handle || t->kind != kind || t->gone)) t = t->next;
    if (!t) report("%s: %p is no %s", who, handle, kinds[kind]);
    return t;
}

static int end(const char *who, void *handle, enum kind kind)
{
    struct thing *t = of(who, handle, kind);
    if (t) t->gone = true;
    return t ? SUCCESS : INVALID_VALUE;
}

static int set(const char *who, void *to, const void *from, size_t bytes, size_t expected)
{
    if (bytes != expected) report("%s: an attribute of %zu bytes has %zu", who, expected, bytes);
    if (bytes == expected) memcpy(to, from, bytes);
    return bytes == expected ? SUCCESS : INVALID_VALUE;
}

API size_t cublasLtGetVersion(void) { return (size_t)setting("STAND_IN_LT_VERSION", 130000); }

API const char *cublasLtGetStatusName(int status)
{
    return status == NOT_SUPPORTED      ? "CUBLAS_STATUS_NOT_SUPPORTED"
           : status == INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                        : "CUBLAS_STATUS_INTERNAL_ERROR";
}

API int cublasLtCreate(void **handle)
{
    int device = stand_in_device();
    if (device < 0) report("cublasLtCreate: no context is current");
    if (device < 0 || setting("STAND_IN_LT_VERSION", 1) == 0) return 1;
    struct thing *t = make(HANDLE, handle);
    t->device = device, t->number = ++handles;
    return SUCCESS;
}

API int cublasLtDestroy(void *handle) { return end("cublasLtDestroy", handle, HANDLE); }

API int cublasLtMatmulDescCreate(void **operation, int compute, int scale)
{
    struct thing *t = make(OPERATION, operation);
    t->compute = compute, t->scale = scale;
    if (compute != COMPUTE_32F || scale != R_32F) report("cublasLtMatmulDescCreate: not of float32");
    return SUCCESS;
}

API int cublasLtMatmulDescSetAttribute(void *operation, int which, const void *value, size_t bytes)
{
    static const char who[] = "cublasLtMatmulDescSetAttribute";
    struct thing *t = of(who, operation, OPERATION);
    if (!t || (which != TRANS_A && which != TRANS_B)) return INVALID_VALUE;
    return set(who, &t->trans[which - TRANS_A], value, bytes, sizeof *t->trans);
}

API int cublasLtMatmulDescDestroy(void *operation) { return end("cublasLtMatmulDescDestroy", operation, OPERATION); }

API int cublasLtMatrixLayoutCreate(void **layout, int dtype, uint64_t rows, uint64_t columns, int64_t ld)
{
    if (!rows || !columns || ld < (int64_t)rows || (dtype != R_32F && dtype != R_16F && dtype != R_16BF)) {
        report("cublasLtMatrixLayoutCreate: %llu rows that are %lld apart, of type %d", (unsigned long long)rows,
               (long long)ld, dtype);
        return INVALID_VALUE;
    }
    struct thing *t = make(LAYOUT, layout);
    t->dtype = dtype, t->batch = 1, t->rows = rows, t->columns = columns, t->ld = ld;
    return SUCCESS;
}

API int cublasLtMatrixLayoutSetAttribute(void *layout, int which, const void *value, size_t bytes)
{
    static const char who[] = "cublasLtMatrixLayoutSetAttribute";
    struct thing *t = of(who, layout, LAYOUT);
    if (!t || (which != BATCH_COUNT && which != BATCH_STRIDE)) return INVALID_VALUE;
    return which == BATCH_COUNT ? set(who, &t->batch, value, bytes, sizeof t->batch)
                                : set(who, &t->stride, value, bytes, sizeof t->stride);
}

API int cublasLtMatrixLayoutDestroy(void *layout) { return end("cublasLtMatrixLayoutDestroy", layout, LAYOUT); }

API int cublasLtMatmulPreferenceCreate(void **want)
{
    struct thing *t = make(WANT, want);
    t->mask = 7;
    for (int i = 0; i < 4; i++) t->aligned[i] = 256;
    return SUCCESS;
}

API int cublasLtMatmulPreferenceSetAttribute(void *want, int which, const void *value, size_t bytes)
{
    static const char who[] = "cublasLtMatmulPreferenceSetAttribute";
    struct thing *t = of(who, want, WANT);
    if (t && which == WORKSPACE) return set(who, &t->workspace, value, bytes, sizeof t->workspace);
    if (t && which == REDUCTION) return set(who, &t->mask, value, bytes, sizeof t->mask);
    if (t && which >= ALIGNMENT && which < ALIGNMENT + 4)
        return set(who, &t->aligned[which - ALIGNMENT], value, bytes, sizeof *t->aligned);
    return INVALID_VALUE;
}

API int cublasLtMatmulPreferenceDestroy(void *want) { return end("cublasLtMatmulPreferenceDestroy", want, WANT); }

/* ---------------------------------------------------------------- what is multiplied */

static size_t item_of(int dtype) { return dtype == R_32F ? 4 : 2; }

static uint64_t bytes_of(const struct thing *l)
{
    uint64_t last = (uint64_t)((l->columns - 1) * (uint64_t)l->ld + l->rows - 1);
    return (last + (uint64_t)((l->batch - 1) * l->stride) + 1) * item_of(l->dtype);
}

/* Its shape, as a number; 0: what does not fit was reported. */
static uint64_t shape_of(const char *who, const struct thing *operation, const struct thing *const layouts[4],
                         struct work *w)
{
    const struct thing *a = layouts[0], *b = layouts[1], *c = layouts[2], *d = layouts[3];
    const int *trans = operation->trans;
    w->m = (int64_t)d->rows, w->n = (int64_t)d->columns, w->batch = d->batch;
    w->k = (int64_t)(trans[0] ? a->rows : a->columns);
    bool fits = (int64_t)(trans[0] ? a->columns : a->rows) == w->m &&
                (int64_t)(trans[1] ? b->columns : b->rows) == w->k &&
                (int64_t)(trans[1] ? b->rows : b->columns) == w->n && c->rows == d->rows && c->columns == d->columns;
    uint64_t shape = 0xcbf29ce484222325u;
    for (int i = 0; i < 4; i++) {
        const struct thing *l = layouts[i];
        fits = fits && l->batch == d->batch && l->dtype == d->dtype && (l->batch == 1 || i < 2 || l->stride >= l->ld);
        const uint64_t parts[] = {(uint64_t)l->dtype, (uint64_t)l->batch, l->rows,
                                  l->columns,         (uint64_t)l->ld,    (uint64_t)l->stride};
        for (int p = 0; p < 6; p++) shape = (shape ^ parts[p]) * 0x100000001b3u;
    }
    if (!fits) report("%s: shapes, batches or types that do not fit", who);
    return fits ? (shape ^ (uint64_t)(trans[0] + 2 * trans[1])) | 1 : 0;
}

API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *want,
                                       int asked, struct found *found, int *count)
{
    static const char who[] = "cublasLtMatmulAlgoGetHeuristic";
    const struct thing *h = of(who, handle, HANDLE), *o = of(who, operation, OPERATION), *p = of(who, want, WANT);
    const struct thing *layouts[] = {of(who, a, LAYOUT), of(who, b, LAYOUT), of(who, c, LAYOUT), of(who, d, LAYOUT)};
    struct work shape;
    *count = 0;
    finds++;
    for (int i = 0; i < 4; i++)
        if (!layouts[i]) return INVALID_VALUE;
    if (!h || !o || !p || asked < 1) return INVALID_VALUE;
    if (p->mask & ~(uint32_t)REDUCE_IN_WORKSPACE) report("%s: sums whose order is not fixed", who);
    if (setting("STAND_IN_LT_NONE", 0)) return NOT_SUPPORTED;
    memset(found, 0, sizeof *found);
    found->algorithm.shape = shape_of(who, o, layouts, &shape);
    if (!found->algorithm.shape) return INVALID_VALUE;
    uint64_t parts = (uint64_t)(shape.m * shape.n * shape.batch) * 8; /* two of float32 */
    found->workspace = parts <= p->workspace ? parts : 0;
    found->algorithm.workspace = found->workspace;
    for (int i = 0; i < 4; i++) found->algorithm.aligned[i] = p->aligned[i];
    if (setting("STAND_IN_LT_DIFFERS", 0)) found->algorithm.own = (uint64_t)h->number;
    *count = 1;
    return SUCCESS;
}

/* ---------------------------------------------------------------- multiplying */

static float get(const struct matrix *x, int64_t item, int64_t i, int64_t k)
{
    const char *at = x->at + (item * x->stride + i * x->row + k * x->column) * (int64_t)item_of(x->dtype);
    uint16_t half;
    uint32_t bits;
    float value;
    f16 f;
    if (x->dtype == R_32F) {
        memcpy(&bits, at, 4);
        if (setting("STAND_IN_LT_SHORT", 0)) bits = (bits + 0xfff + (bits >> 13 & 1)) & ~(uint32_t)0x1fff;
        memcpy(&value, &bits, 4);
        return value;
    }
    memcpy(&half, at, 2);
    if (x->dtype == R_16F) return memcpy(&f, &half, 2), (float)f;
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

static void put(const struct matrix *x, int64_t item, int64_t i, int64_t k, float value)
{
    char *at = x->at + (item * x->stride + i * x->row + k * x->column) * (int64_t)item_of(x->dtype);
    uint32_t bits;
    f16 f = (f16)value;
    memcpy(&bits, &value, 4);
    uint16_t half = (uint16_t)(isnan(value) ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (x->dtype == R_32F) memcpy(at, &value, 4);
    else memcpy(at, x->dtype == R_16F ? (const void *)&f : (const void *)&half, 2);
}

/* Dense, one row of steps behind another. */
static float *taken(const struct matrix *x, int64_t item, int64_t rows, int64_t steps)
{
    float *to = malloc((size_t)(rows * steps) * sizeof *to);
    if (!to) abort();
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < steps; k++) to[i * steps + k] = get(x, item, i, k);
    return to;
}

static float sum(const float *a, const float *b, int64_t steps)
{
    float all = 0;
    for (int64_t end_of = steps; end_of > 0; end_of -= BLOCK) {
        float part = 0;
        for (int64_t k = end_of > BLOCK ? end_of - BLOCK : 0; k < end_of; k++) part += a[k] * b[k];
        all += part;
    }
    return all;
}

static void multiply(const struct work *w)
{
    const struct matrix turned = {w->b.at, w->b.dtype, w->b.stride, w->b.column, w->b.row};
    for (int64_t item = 0; item < w->batch; item++) {
        float *a = taken(&w->a, item, w->m, w->k), *b = taken(&turned, item, w->n, w->k);
        for (int64_t i = 0; i < w->m; i++)
            for (int64_t j = 0; j < w->n; j++) {
                float x = w->alpha * sum(a + i * w->k, b + j * w->k, w->k);
                if (w->beta != 0) x += w->beta * get(&w->c, item, i, j);
                put(&w->d, item, i, j, x);
            }
        free(a);
        free(b);
    }
}

static int work(void *what)
{
    struct work here = *(const struct work *)what, *w = &here;
    struct matrix *const matrices[] = {&w->a, &w->b, &w->c, &w->d};
    if (w->handle->gone) report("a product of a handle that was destroyed");
    for (int i = 0; i < 4; i++)
        if (!(matrices[i]->at = stand_in_place(matrices[i]->at, w->bytes[i], "cublasLtMatmul"))) return 700;
    if (w->workspace_bytes) {
        char *space = stand_in_place(w->workspace, w->workspace_bytes, "the workspace of cublasLtMatmul");
        if (!space) return 700;
        memset(space, 0xa5, w->workspace_bytes);
    }
    unsigned control = _mm_getcsr();
    _mm_setcsr(0x1f80); /* a GPU keeps denormals */
    multiply(w);
    if ((long)++made == setting("STAND_IN_LT_LIE", 0))
        put(&w->d, w->batch - 1, w->m - 1, w->n - 1, 1 + get(&w->d, w->batch - 1, w->m - 1, w->n - 1));
    _mm_setcsr(control);
    return 0;
}

static struct matrix matrix_of(const void *at, const struct thing *l, bool turned)
{
    return (struct matrix){(char *)(uintptr_t)at, l->dtype, l->stride, turned ? l->ld : 1, turned ? 1 : l->ld};
}

static bool apart(const char *a, uint64_t bytes, const char *b, uint64_t others)
{
    return a + bytes <= b || b + others <= a;
}

API int cublasLtMatmul(void *handle, void *operation, const float *alpha, const void *a, void *a_layout, const void *b,
                       void *b_layout, const float *beta, const void *c, void *c_layout, void *d, void *d_layout,
                       const struct algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream)
{
    static const char who[] = "cublasLtMatmul";
    const struct thing *h = of(who, handle, HANDLE), *o = of(who, operation, OPERATION);
    const struct thing *layouts[] = {of(who, a_layout, LAYOUT), of(who, b_layout, LAYOUT), of(who, c_layout, LAYOUT),
                                     of(who, d_layout, LAYOUT)};
    const void *const places[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (!layouts[i]) return INVALID_VALUE;
    if (!h || !o) return INVALID_VALUE;
    calls++;
    if (setting("STAND_IN_LT_FAIL", 0)) return (int)setting("STAND_IN_LT_FAIL", 0);
    struct work *w = calloc(1, sizeof *w);
    if (!w) abort();
    if (h->device != stand_in_device()) report("%s: a handle of device %d", who, h->device);
    if (algorithm->shape != shape_of(who, o, layouts, w))
        report("%s: an algorithm that was found for another product", who);
    for (int i = 0; i < 4; i++) {
        w->bytes[i] = bytes_of(layouts[i]);
        if ((uintptr_t)places[i] % algorithm->aligned[i])
            report("%s: operand %d lies at %p, not at a multiple of %llu", who, i, places[i],
                   (unsigned long long)algorithm->aligned[i]);
        if (i < 2 && !apart(places[i], w->bytes[i], d, bytes_of(layouts[3])))
            report("%s: the result lies over operand %d", who, i);
    }
    if (workspace_bytes < algorithm->workspace || (workspace_bytes && (uintptr_t)workspace % 256))
        report("%s: a workspace of %zu bytes at %p, and %llu are needed", who, workspace_bytes, workspace,
               (unsigned long long)algorithm->workspace);
    w->handle = h, w->alpha = *alpha, w->beta = *beta;
    w->a = matrix_of(a, layouts[0], o->trans[0]), w->b = matrix_of(b, layouts[1], o->trans[1]);
    w->c = matrix_of(c, layouts[2], false), w->d = matrix_of(d, layouts[3], false);
    w->workspace = workspace, w->workspace_bytes = workspace_bytes;
    return stand_in_enqueue(stream, work, NULL, w) ? EXECUTION_FAILED : SUCCESS;
}
