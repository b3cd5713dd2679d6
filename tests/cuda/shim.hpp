/* Runs CUDA kernels on the CPU: what generated kernels use of CUDA C, and a launch that runs the blocks of a grid one
 * after the other, the threads of a block as fibers that change at barriers. Everything happens in one thread of the
 * machine in a fixed order, forwards or backwards, so a missing barrier shows as a wrong result in one of the two, the
 * same way in every run. The threads of a warp change at its own barriers, too, and at shuffles. Threads that wait at
 * different barriers, or end while others wait, are an error. */
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

enum { WARP = 32 };

/* Runs the living threads of a warp until all of them wait for the block: the barrier's line. 0: all have ended; -1:
 * they disagree. A warp's own barrier has a line below zero. */
static int run_warp(unsigned first, unsigned threads, bool backwards)
{
    for (;;) {
        unsigned alive = 0;
        int at = 0;
        for (unsigned k = 0; k < threads; k++) {
            unsigned i = first + (backwards ? threads - 1 - k : k);
            fiber *f = &fibers[i];
            if (!f->done) {
                threadIdx = {i, 0, 0};
                resume(f);
            }
            if (f->done) continue;
            if (alive++ && at != f->waits) return -1;
            at = f->waits;
        }
        if (alive && alive < threads) return -1;
        if (at >= 0) return at;
    }
}

/* One turn: every warp runs to the block's next barrier or its end. 0: all have ended; -1: they disagree. */
static int turn(unsigned threads, bool backwards)
{
    unsigned warps = (threads + WARP - 1) / WARP;
    int at = 0;
    for (unsigned k = 0; k < warps; k++) {
        unsigned first = WARP * (backwards ? warps - 1 - k : k);
        int here = run_warp(first, threads - first < WARP ? threads - first : WARP, backwards);
        if (here < 0 || (k && here != at)) return -1;
        at = here;
    }
    return at != 0;
}

/* Words by value, structures by their address. */
template <typename T> static T argument(void *from)
{
    if constexpr (std::is_class<T>::value) return *(const T *)from;
    else return (T)(unsigned long long)from;
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
#define __syncwarp() shim_barrier(-__LINE__)

/* What lanes give one another waits in one of two places each, in turn, so that one barrier is enough. */
template <typename T> static T __shfl_xor_sync(unsigned mask, T x, unsigned bits)
{
    static T given[2][shim::MOST];
    static bool turns[shim::MOST];
    bool turn = turns[threadIdx.x] = !turns[threadIdx.x];
    if (mask != 0xffffffffu || bits >= shim::WARP) abort();
    given[turn][threadIdx.x] = x;
    __syncwarp();
    return given[turn][threadIdx.x ^ bits];
}

/* ---- the matrix unit: the threads of a warp show each other what they hold ---- */

static float shim_16_value(unsigned pair, unsigned which, bool wide) /* wide: of bfloat16 */
{
    unsigned bits = pair >> 16 * which & 0xffffu, size = bits & 0x7fffu;
    float x;
    if (wide) bits <<= 16;
    else if (size < 0x400u) return (bits & 0x8000u ? -1 : 1) * (float)size * 0x1p-24f;
    else bits = (bits & 0x8000u) << 16 | (size >= 0x7c00u ? size << 13 | 0x7f800000u : (size << 13) + 0x38000000u);
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

template <int rows, int columns>
static void shim_matrix(float *sum, const unsigned *left, const unsigned *right, bool wide)
{
    static unsigned lefts[shim::MOST][4 * rows], rights[shim::MOST][2 * columns];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
    std::memcpy(lefts[threadIdx.x], left, sizeof lefts[0]);
    std::memcpy(rights[threadIdx.x], right, sizeof rights[0]);
    shim_barrier(__LINE__);
    for (int at = 0; at < rows * columns * 4; at++) {
        const unsigned row = lane / 4, upper = at / 2 % 2, column = lane % 4 * 2 + at % 2;
        for (unsigned k = 0; k < 16; k++) {
            const unsigned of = k % 8 / 2, half = k % 2, late = k / 8;
            const unsigned x = lefts[warp + row * 4 + of][at / 4 / columns * 4 + upper + 2 * late];
            const unsigned y = rights[warp + column * 4 + of][at / 4 % columns * 2 + late];
            sum[at] = std::fma(shim_16_value(x, half, wide), shim_16_value(y, half, wide), sum[at]);
        }
    }
    shim_barrier(__LINE__);
}
#define SHIM_MATRIX(type, wide) \
    template <int rows, int columns> \
    static void stepc_matrix_##type(float *sum, const unsigned *left, const unsigned *right) \
    { \
        shim_matrix<rows, columns>(sum, left, right, wide); \
    }
SHIM_MATRIX(bf16, true)
SHIM_MATRIX(f16, false)

/* The way in for the test: arguments as for cuLaunchKernel, but by value, each as wide as a pointer. */
#define SHIM_LAUNCHER(kernel) \
    extern "C" __attribute__((visibility("default"))) int launch_##kernel(unsigned blocks, unsigned threads, void **a, \
                                                                          int backwards) \
    { \
        return shim::launch(kernel, blocks, threads, a, backwards); \
    }
#endif
