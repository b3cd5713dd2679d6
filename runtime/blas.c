/* OpenBLAS for the matrix products whose plan prefers it. It is opened at run time and only then; without it the
 * object's own kernels run. The library is asked for one thread: the team splits the work itself. */
#include "runtime/rt.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void blas_open(struct step_instance *t)
{
    const char *name = t->flags & STEP_NO_ENV ? NULL : getenv("STEPC_OPENBLAS");
    if (!name || !*name) name = "libopenblas.so.0";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        rt_log(t, 1, "%s: using the object's own matrix products", dlerror());
        return;
    }
    void (*threads)(int);
    *(void **)&threads = dlsym(library, "openblas_set_num_threads");
    *(void **)&t->sgemm = dlsym(library, "cblas_sgemm");
    if (threads) threads(1);
    if (!t->sgemm) rt_log(t, 1, "%s has no cblas_sgemm: using the object's own matrix products", name);
    else rt_log(t, 2, "matrix products by %s", name);
}

enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

/* What kernels see of what they store (STEPC_FLAG_LARGE), of a product. */
static void look_at(struct rt_worker *w, const float *c, int64_t rows, int64_t columns, int64_t ld, double bound)
{
    uint32_t *flag = (uint32_t *)(void *)((char *)w->scratch - STEPC_FLAG_BEFORE);
    float most = 0;
    bool nan = false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++) {
            float x = fabsf(c[r * ld + i]);
            nan |= x != x;
            most = x > most ? x : most;
        }
    if (nan || most >= (float)bound) *flag |= STEPC_FLAG_LARGE | (nan || isinf(most) ? STEPC_FLAG_NOT_FINITE : 0u);
}

/* Rows are cut at multiples of 8, so that a piece does not split the library's own tiles. */
static void blas_run(struct rt_worker *w, const struct stepc_gemm *g, void *const *arguments, uint32_t chunk,
                     uint32_t chunks)
{
    struct step_instance *t = w->instance;
    const float *a = arguments[g->a], *b = arguments[g->b];
    float *c = arguments[g->c];
    const struct stepc_finite *finite = t->program->finite;
    int64_t batch = g->batch > 0 ? g->batch : 1, blocks = (g->m + 7) / 8, all = batch * blocks;
    int64_t at = all * chunk / chunks, end = all * (chunk + 1) / chunks;
    while (at < end) {
        int64_t item = at / blocks, first = at % blocks, last = first + (end - at);
        if (last > blocks) last = blocks;
        int64_t row = first * 8, rows = (last * 8 < g->m ? last * 8 : g->m) - row;
        t->sgemm(CBLAS_ROW_MAJOR, g->trans_a ? CBLAS_TRANS : CBLAS_NO_TRANS, g->trans_b ? CBLAS_TRANS : CBLAS_NO_TRANS,
                 (int)rows, (int)g->n, (int)g->k, 1.0f, a + item * g->stride_a + (g->trans_a ? row : row * g->lda),
                 (int)g->lda, b + item * g->stride_b, (int)g->ldb, g->accumulate ? 1.0f : 0.0f,
                 c + item * g->stride_c + row * g->ldc, (int)g->ldc);
        if (finite)
            finite->product(w, g, a + item * g->stride_a, b + item * g->stride_b, c, item * g->stride_c + row * g->ldc,
                            rows);
        if (g->prefer > 1)
            look_at(w, c + item * g->stride_c + row * g->ldc, rows, g->n, g->ldc,
                    g->prefer > 2 ? STEPC_BOUND_CLOSE : STEPC_BOUND);
        at += last - first;
    }
}

const struct stepc_blas stepc_part_blas = {.open = blas_open, .run = blas_run};
