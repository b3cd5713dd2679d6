/* Probes of the machine that every round of a benchmark is measured against: one in-place pass over the arrays of
 * an AdamW update, and the fused multiply-add peak. gcc -O3 -march=native -shared -fPIC probe.c -o probe.so -lm -pthread */
#include <pthread.h>
#include <stddef.h>

struct pass { float *p, *m, *v; const float *g; size_t begin, end; };

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
        part[i] = (struct pass){p, m, v, g, n / (size_t)threads * (size_t)i, i == threads - 1 ? n : n / (size_t)threads * (size_t)(i + 1)};
        if (i) pthread_create(&thread[i], NULL, pass_run, &part[i]);
    }
    pass_run(&part[0]);
    for (int i = 1; i < threads; i++) pthread_join(thread[i], NULL);
}
