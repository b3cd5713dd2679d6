/* Probes of the machine that every round of a benchmark is measured against: one in-place pass over the arrays of
 * an AdamW update, and the fused multiply-add peak. gcc -O3 -march=native -shared -fPIC probe.c -o probe.so -lm
 * -pthread */
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#include <pthread.h>
#include <stddef.h>

struct pass {
    float *p, *m, *v;
    const float *g;
    size_t begin, end;
};

/* 28 bytes per element: p, m, v read and written, g read; arithmetic so small that memory decides. */
static void *pass_run(void *argument)
{
    struct pass *a = argument;
    float *p = a->p, *m = a->m, *v = a->v;
    const float *g = a->g;
    for (size_t i = a->begin; i < a->end; i++) {
        float x = g[i];
        m[i] = 0.9f * m[i] + 0.1f * x;
        v[i] = 0.999f * v[i] + 0.001f * x;
        p[i] = p[i] - 0.001f * m[i];
    }
    return NULL;
}

void probe_stream(float *p, float *m, float *v, const float *g, size_t n, int threads)
{
    enum { MOST = 64 };
    pthread_t thread[MOST];
    struct pass part[MOST];
    if (threads > MOST) threads = MOST;
    for (int i = 0; i < threads; i++) {
        part[i] = (struct pass){
            p, m, v, g, n / (size_t)threads * (size_t)i, i == threads - 1 ? n : n / (size_t)threads * (size_t)(i + 1)};
        if (i) pthread_create(&thread[i], NULL, pass_run, &part[i]);
    }
    pass_run(&part[0]);
    for (int i = 1; i < threads; i++) pthread_join(thread[i], NULL);
}

/* ------------------------------------------------------------ the update's bytes, written as fast as we know how */

typedef float vector __attribute__((vector_size(64), aligned(4)));
enum { LANES = 16 };

struct update {
    float *const *a;
    const float *g;
    size_t begin, end;
    int count, variant;
    float sum;
};

static inline __attribute__((always_inline)) void block(float *const *a, int count, const float *g, size_t i,
                                                        int vectors, int ahead, int stream)
{
    vector x[8], y[8];
#pragma GCC unroll 8
    for (int u = 0; u < vectors; u++) {
        if (ahead) __builtin_prefetch((const char *)(g + i + u * LANES) + ahead);
        x[u] = *(const vector *)(g + i + u * LANES);
    }
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) {
        float *at = a[k] + i;
#pragma GCC unroll 8
        for (int u = 0; u < vectors; u++) {
            if (ahead) __builtin_prefetch((const char *)(at + u * LANES) + ahead);
            y[u] = *(vector *)(at + u * LANES) * 0.9f + x[u];
        }
#pragma GCC unroll 8
        for (int u = 0; u < vectors; u++) {
#if defined(__AVX512F__)
            if (stream) _mm512_stream_ps(at + u * LANES, (__m512)y[u]);
            else
#endif
                *(vector *)(at + u * LANES) = y[u];
        }
    }
}

#define PASS(count, vectors, ahead, stream) \
    for (size_t i = u->begin; i + vectors * LANES <= u->end; i += vectors * LANES) \
    block(u->a, count, u->g, i, vectors, ahead, stream)
#define VARIANT(number, vectors, ahead, stream) \
    case number: \
        if (u->count == 3) PASS(3, vectors, ahead, stream); \
        else PASS(4, vectors, ahead, stream); \
        break;

static void *update_run(void *argument)
{
    struct update *u = argument;
    switch (u->variant) {
        VARIANT(0, 1, 0, 0)
        VARIANT(1, 4, 0, 0)
        VARIANT(2, 8, 0, 0)
        VARIANT(3, 4, 1024, 0)
        VARIANT(4, 8, 0, 1)
    }
    return NULL;
}

static void *squares_run(void *argument)
{
    struct update *u = argument;
    vector s[4] = {{0}, {0}, {0}, {0}};
    for (size_t i = u->begin; i + 4 * LANES <= u->end; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            s[k] += *(const vector *)(u->g + i + k * LANES) * *(const vector *)(u->g + i + k * LANES);
    s[0] += s[1] + s[2] + s[3];
    u->sum = 0;
    for (int k = 0; k < LANES; k++) u->sum += s[0][k];
    return NULL;
}

static float share(void *(*run)(void *), struct update whole, size_t n, int threads)
{
    enum { MOST = 64, PIECE = 1024 }; /* what is left of the last piece is not worth code */
    pthread_t thread[MOST];
    struct update part[MOST];
    float sum = 0;
    if (threads > MOST) threads = MOST;
    for (int i = 0; i < threads; i++) {
        part[i] = whole;
        part[i].begin = n / PIECE * (size_t)i / (size_t)threads * PIECE;
        part[i].end = n / PIECE * (size_t)(i + 1) / (size_t)threads * PIECE;
        if (i) pthread_create(&thread[i], NULL, run, &part[i]);
    }
    run(&part[0]);
    for (int i = 1; i < threads; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < threads; i++) sum += part[i].sum;
    return sum;
}

/* One pass: `count` arrays (3 or 4) read and written in place, g read. */
void probe_update(float *const *a, int count, const float *g, size_t n, int threads, int variant)
{
    share(update_run, (struct update){.a = a, .g = g, .count = count, .variant = variant}, n, threads);
}

float probe_squares(const float *g, size_t n, int threads)
{
    return share(squares_run, (struct update){.g = g}, n, threads);
}
