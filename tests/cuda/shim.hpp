/* Runs CUDA kernels on the CPU: what generated kernels use of CUDA C, and a launch that runs the blocks of a grid one
 * after the other, the threads of a block as fibers that change at barriers. Everything happens in one thread of the
 * machine in a fixed order, forwards or backwards, so a missing barrier shows as a wrong result in one of the two, the
 * same way in every run. Threads that wait at different barriers, or end while others wait, are an error. */
#ifndef CUDA_SHIM_HPP
#define CUDA_SHIM_HPP
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>
#include <utility>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(n) __attribute__((visibility("default")))

struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

/* ---- functions that CUDA has and C++ has not ---- */

static inline float rsqrtf(float x) { return (float)(1 / std::sqrt((double)x)); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline double erfinv(double x)
{
    if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? x * HUGE_VAL : NAN;
    double w = -std::log((1 - x) * (1 + x)), t = 2 / (M_PI * 0.147) - w / 2;
    double y = std::copysign(std::sqrt(std::sqrt(t * t + w / 0.147) - t), x);
    for (int i = 0; i < 4; i++) y -= (std::erf(y) - x) / (M_2_SQRTPI * std::exp(-y * y));
    return y;
}
static inline float erfinvf(float x) { return (float)erfinv(x); }

/* ---- fibers ---- */

namespace shim {

enum { STACK = 64 * 1024, MOST = 1024 };

struct fiber { ucontext_t context; bool done; int waits; };
static ucontext_t scheduler;
static fiber *fibers, *current;

template <typename... A> struct call {
    void (*kernel)(A...);
    void **arguments;
    template <size_t... I> void run(std::index_sequence<I...>) { kernel((A)arguments[I]...); }
    void operator()() { run(std::index_sequence_for<A...>()); }
};

template <typename C> static void enter(unsigned low, unsigned high)
{
    C *call = (C *)((unsigned long)high << 32 | low);
    (*call)();
    current->done = true;
    swapcontext(&current->context, &scheduler);
}

/* One turn: every living thread runs to its next barrier or its end. False: all have ended; -1: they disagree. */
static int turn(unsigned threads, bool backwards)
{
    int at = 0;
    unsigned alive = 0, ended = 0;
    for (unsigned k = 0; k < threads; k++) {
        unsigned i = backwards ? threads - 1 - k : k;
        current = &fibers[i];
        if (current->done) {
            ended++;
            continue;
        }
        threadIdx = {i, 0, 0};
        swapcontext(&scheduler, &current->context);
        if (current->done) {
            ended++;
            continue;
        }
        if (alive++ && at != current->waits) return -1;
        at = current->waits;
    }
    return alive && ended ? -1 : alive != 0;
}

template <typename C> static int run_block(C &call, unsigned threads, bool backwards)
{
    static char *stacks = (char *)malloc((size_t)STACK * MOST);
    if (!fibers) fibers = new fiber[MOST];
    unsigned long address = (unsigned long)&call;
    for (unsigned i = 0; i < threads; i++) {
        fibers[i].done = false;
        getcontext(&fibers[i].context);
        fibers[i].context.uc_stack.ss_sp = stacks + (size_t)STACK * i;
        fibers[i].context.uc_stack.ss_size = STACK;
        fibers[i].context.uc_link = nullptr;
        makecontext(&fibers[i].context, (void (*)())enter<C>, 2, (unsigned)address, (unsigned)(address >> 32));
    }
    int state;
    while ((state = turn(threads, backwards)) == 1) {}
    return state;
}

/* 0, or -1: threads disagree about a barrier. */
template <typename... A> static int launch(void (*kernel)(A...), unsigned blocks, unsigned threads, void **arguments, int backwards)
{
    call<A...> c = {kernel, arguments};
    blockDim = {threads, 1, 1};
    gridDim = {blocks, 1, 1};
    for (unsigned k = 0; k < blocks; k++) {
        blockIdx = {backwards ? blocks - 1 - k : k, 0, 0};
        if (run_block(c, threads, backwards)) return -1;
    }
    return 0;
}

} // namespace shim

static void shim_barrier(int line)
{
    shim::current->waits = line;
    swapcontext(&shim::current->context, &shim::scheduler);
}
#define __syncthreads() shim_barrier(__LINE__)

/* The way in for the test: arguments as for cuLaunchKernel, but by value, each as wide as a pointer. */
#define SHIM_LAUNCHER(kernel)                                                                                          \
    extern "C" __attribute__((visibility("default"))) int launch_##kernel(unsigned blocks, unsigned threads, void **a, int backwards) \
    {                                                                                                                  \
        return shim::launch(kernel, blocks, threads, a, backwards);                                                    \
    }
#endif
