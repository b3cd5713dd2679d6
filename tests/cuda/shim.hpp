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
#include <utility>

#define __global__
#define __device__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __cvta_global_to_generic(address) ((void *)(size_t)(address))
#define __launch_bounds__(n) __attribute__((visibility("default")))

struct dim3 {
    unsigned x, y, z;
};
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

namespace shim
{

enum { STACK = 64 * 1024, MOST = 1024 };

/* Puts the registers that a call keeps on the stack, leaves the stack's address in *from and goes on with the other
 * stack. */
extern "C" __attribute__((visibility("hidden"))) void shim_switch(void **from, void *to);
__asm__(".text\n.hidden shim_switch\n.globl shim_switch\nshim_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

/* A fiber lives as long as the program and runs one kernel after the other. */
struct fiber {
    void *stack;
    bool done;
    int waits;
};
static fiber fibers[MOST], *current;
static void *scheduler;
static unsigned fiber_count;
static void (*body)(void *);
static void *body_argument;

static void yield() { shim_switch(&current->stack, scheduler); }

static void resume(fiber *f)
{
    current = f;
    shim_switch(&scheduler, f->stack);
}

static void live()
{
    for (;;) {
        body(body_argument);
        current->done = true;
        yield();
    }
}

static void make_fiber()
{
    void **top = (void **)((char *)aligned_alloc(64, STACK) + STACK) - 8;
    top[6] = (void *)live; /* six registers, then where to go; the stack is as after a call */
    fibers[fiber_count++].stack = top;
}

/* One turn: every living thread runs to its next barrier or its end. 0: all have ended; -1: they disagree. */
static int turn(unsigned threads, bool backwards)
{
    int at = 0;
    unsigned alive = 0, ended = 0;
    for (unsigned k = 0; k < threads; k++) {
        unsigned i = backwards ? threads - 1 - k : k;
        fiber *f = &fibers[i];
        if (!f->done) {
            threadIdx = {i, 0, 0};
            resume(f);
        }
        if (f->done) {
            ended++;
        } else {
            if (alive++ && at != f->waits) return -1;
            at = f->waits;
        }
    }
    return alive && ended ? -1 : alive != 0;
}

/* Words by value, structures by their address. */
template <typename T> static T argument(void *from)
{
    if constexpr (std::is_class_v<T>) return *(const T *)from;
    else return (T)from;
}

template <typename... A> struct call {
    void (*kernel)(A...);
    void **arguments;
    template <size_t... I> void run(std::index_sequence<I...>) { kernel(argument<A>(arguments[I])...); }
    static void enter(void *self) { ((call *)self)->run(std::index_sequence_for<A...>()); }
};

/* 0, or -1: threads disagree about a barrier. */
template <typename... A>
static int launch(void (*kernel)(A...), unsigned blocks, unsigned threads, void **arguments, int backwards)
{
    call<A...> c = {kernel, arguments};
    body = call<A...>::enter;
    body_argument = &c;
    blockDim = {threads, 1, 1};
    gridDim = {blocks, 1, 1};
    while (fiber_count < threads) make_fiber();
    for (unsigned k = 0; k < blocks; k++) {
        int state = 1;
        blockIdx = {backwards ? blocks - 1 - k : k, 0, 0};
        for (unsigned i = 0; i < threads; i++) fibers[i].done = false;
        while (state == 1) state = turn(threads, backwards);
        if (state) return -1;
    }
    return 0;
}

} // namespace shim

static void shim_barrier(int line)
{
    shim::current->waits = line;
    shim::yield();
}
#define __syncthreads() shim_barrier(__LINE__)

/* The way in for the test: arguments as for cuLaunchKernel, but by value, each as wide as a pointer. */
#define SHIM_LAUNCHER(kernel) \
    extern "C" __attribute__((visibility("default"))) int launch_##kernel(unsigned blocks, unsigned threads, void **a, \
                                                                          int backwards) \
    { \
        return shim::launch(kernel, blocks, threads, a, backwards); \
    }
#endif
