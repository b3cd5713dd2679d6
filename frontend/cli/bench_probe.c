/* What the machine can do at best, measured in the same rounds as the steps: fused multiply-adds without memory, and
 * passes over memory without arithmetic. */
#include "frontend/cli/bench.h"
#include "ir/base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MOST_THREADS = 256, CHAINS = 12, ROUNDS = 400000, PASSES = 2 };
#define ROOM ((uint64_t)128 << 20)

/* ---------------------------------------------------------------- one thread */

#if defined(__x86_64__)
/* clang-format off */
/* Written out: compilers keep an array of chains in memory, and the probe would measure that. */
#define CHAIN(op, register, chain) op " %%" register "14, %%" register "15, %%" register #chain "\n\t"
#define CHAINS_OF(op, r) \
    CHAIN(op, r, 0) \
    CHAIN(op, r, 1) \
    CHAIN(op, r, 2) CHAIN(op, r, 3) CHAIN(op, r, 4) CHAIN(op, r, 5) CHAIN(op, r, 6) CHAIN(op, r, 7) CHAIN(op, r, 8) \
        CHAIN(op, r, 9) CHAIN(op, r, 10) CHAIN(op, r, 11)
#define LOOP(op, register, lanes) \
    long left = ROUNDS; \
    __asm__ volatile("vxorps %%xmm14, %%xmm14, %%xmm14\n\tvxorps %%xmm15, %%xmm15, %%xmm15\n1:\n\t" CHAINS_OF( \
                         op, register) "dec %0\n\tjnz 1b" \
                     : "+r"(left)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                       "xmm9", "xmm10", "xmm11", "xmm14", "xmm15"); \
    return 2.0 * lanes * CHAINS * ROUNDS
/* clang-format on */

__attribute__((target("avx512f"))) static double flops_512(void) { LOOP("vfmadd231ps", "zmm", 16); }
__attribute__((target("avx2,fma"))) static double flops_256(void) { LOOP("vfmadd231ps", "ymm", 8); }
#define SSE_MULTIPLY_ADD(x, a, b) _mm_add_ps(_mm_mul_ps(x, a), b)
static double flops_128(void)
{
    __m128 x[CHAINS];
    const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(0.001f);
    for (int k = 0; k < CHAINS; k++) x[k] = _mm_set1_ps((float)k);
    for (int i = 0; i < ROUNDS; i++) {
        _Pragma("GCC unroll 12") for (int k = 0; k < CHAINS; k++) x[k] = SSE_MULTIPLY_ADD(x[k], a, b);
        __asm__ volatile("" ::: "memory"); /* what is computed is not needed */
    }
    for (int k = 0; k < CHAINS; k++) __asm__ volatile("" ::"x"(x[k]));
    return 2.0 * 4 * CHAINS * ROUNDS;
}

static double flops(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return flops_512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return flops_256();
    return flops_128();
}
#else
static double flops(void)
{
    float x[CHAINS] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < CHAINS; k++) x[k] = __builtin_fmaf(x[k], 0.999f, 0.001f);
        __asm__ volatile("" ::: "memory");
    }
    for (int k = 0; k < CHAINS; k++) __asm__ volatile("" ::"w"(x[k]));
    return 2.0 * CHAINS * ROUNDS;
}
#endif

static double bytes(float *memory, uint64_t count)
{
    typedef float vector __attribute__((vector_size(64), may_alias));
    vector *x = (vector *)memory;
    for (int pass = 0; pass < PASSES; pass++) {
        for (uint64_t i = 0; i < count * sizeof *memory / sizeof *x; i++) x[i] = x[i] * 0.5f + 1;
        __asm__ volatile("" ::: "memory");
    }
    return 2.0 * PASSES * 4 * (double)count;
}

/* ---------------------------------------------------------------- all of them */

enum { WAIT, GO, LEAVE };
struct part {
    const _Atomic int *gate;
    float *memory; /* NULL: arithmetic */
    uint64_t count;
    double done;
};

static void *run(void *argument)
{
    struct part *p = argument;
    while (atomic_load(p->gate) == WAIT) sched_yield();
    if (atomic_load(p->gate) == GO) p->done = p->memory ? bytes(p->memory, p->count) : flops();
    return NULL;
}

/* 0: there are not that many threads. */
static double all(uint32_t threads, float *memory)
{
    pthread_t thread[MOST_THREADS];
    struct part part[MOST_THREADS];
    _Atomic int gate = WAIT;
    uint32_t n = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads, started = 1;
    uint64_t count = ROOM / sizeof *memory / n & ~UINT64_C(15);
    for (uint32_t k = 0; k < n; k++) part[k] = (struct part){&gate, memory ? memory + k * count : NULL, count, 0};
    while (started < n && !pthread_create(&thread[started], NULL, run, &part[started])) started++;
    uint64_t from = clock_ns();
    double done = 0;
    atomic_store(&gate, started == n ? GO : LEAVE);
    run(&part[0]);
    for (uint32_t k = 1; k < started; k++) pthread_join(thread[k], NULL);
    for (uint32_t k = 0; k < n; k++) done += part[k].done;
    return done / ((double)(clock_ns() - from) * 1e-9);
}

double bench_probe_flops(uint32_t threads) { return all(threads, NULL); }
double bench_probe_bytes(uint32_t threads, void *memory) { return all(threads, memory); }
uint64_t bench_probe_room(void) { return ROOM + 63; }

void *bench_probe_memory(void *room)
{
    char *aligned = (char *)room + (64 - (uintptr_t)room % 64) % 64;
    return memset(aligned, 1, ROOM);
}

/* ---------------------------------------------------------------- of many measurements */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *x, uint32_t n, double part)
{
    qsort(x, n, sizeof *x, compare);
    double at = part * (n - 1);
    uint32_t low = (uint32_t)at, high = low + (low + 1 < n);
    return x[low] + (at - low) * (x[high] - x[low]);
}

void bench_confidence(double *x, uint32_t n, double between[2])
{
    qsort(x, n, sizeof *x, compare);
    double root = __builtin_sqrt((double)n), low = (n - 1.96 * root) / 2;
    uint32_t k = low > 0 ? (uint32_t)low : 0;
    between[0] = x[k], between[1] = x[n - 1 - k];
}
