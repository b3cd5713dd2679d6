/* Runs CUDA kernels on the CPU: what generated kernels use of CUDA C, and a launch that runs the blocks of a grid one
 * after the other, the threads of a block as fibers that change at barriers. Everything happens in one thread of the
 * machine in a fixed order, forwards or backwards, so a missing barrier shows as a wrong result in one of the two, the
 * same way in every run. The threads of a warp change at its own barriers, too, and at shuffles; some of the block's
 * warps may have barriers of their own. Threads that wait at different barriers, or end while others wait, are an
 * error. */
#ifndef CUDA_SHIM_HPP
#define CUDA_SHIM_HPP
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __cvta_global_to_generic(address) ((void *)(size_t)(address))
#define __launch_bounds__(...) __attribute__((visibility("default")))

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

#ifdef SHIM_TRAFFIC
#include "traffic.hpp"
/* As NVCC has it: places of the code are those of a kernel. */
#define __device__ inline __attribute__((always_inline))
#define __shared__ static SHIM_SHARED
#else
#define SHIM_UNSEEN
#define __device__
#define __shared__ static SHIM_SECTION
#endif

/* Of a kernel, where it has one of its own: before each block it holds no number. The comment leaves no zeros in the
 * file. */
#define SHIM_SECTION
#if defined __clang__ || !defined __x86_64__
#define SHIM_SECTION_OF(kernel) __attribute__((section("shared_" #kernel)))
#else
#define SHIM_SECTION_OF(kernel) __attribute__((section("shared_" #kernel ",\"aw\",@nobits#")))
#endif
#ifdef SHIM_TRAFFIC
static unsigned char stepc_dynamic[227 << 10] SHIM_SHARED __align__(1024);
#else
static unsigned char stepc_dynamic[227 << 10] __align__(1024);
#endif

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

enum { STACK = 256 * 1024 /* unoptimized, a sequence takes more than 64 KiB */, MOST = 1024 };

/* Puts the registers that a call keeps on the stack, leaves the stack's address in *from and goes on with the other
 * stack. */
extern "C" __attribute__((visibility("hidden"))) void shim_switch(void **from, void *to);
__asm__(".text\n.hidden shim_switch\n.globl shim_switch\nshim_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

/* A fiber lives as long as the program and runs one kernel after the other. */
struct fiber {
    void *stack, *memory;
    bool done;
    int waits;
    unsigned with; /* of the block's warps, from a multiple of that on; 0: all */
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
#ifdef SHIM_TRAFFIC
    traffic::own = (uintptr_t)f->memory, traffic::own_bytes = STACK;
    shim_switch(&scheduler, f->stack);
    traffic::own = 0;
#else
    shim_switch(&scheduler, f->stack);
#endif
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
    char *memory = (char *)aligned_alloc(64, STACK);
    void **top = (void **)(memory + STACK) - 8;
    top[6] = (void *)live; /* six registers, then where to go; the stack is as after a call */
    fibers[fiber_count++] = {top, memory, false, 0, 0};
}

enum { WARP = 32 };

/* Runs the living threads of a warp until all of them wait for the block: the barrier's line. 0: all have ended; -1:
 * they disagree. A warp's own barrier has a line below zero. */
static int run_warp(unsigned first, unsigned threads, bool backwards)
{
    for (;;) {
        unsigned alive = 0, with = 0;
        int at = 0;
        for (unsigned k = 0; k < threads; k++) {
            unsigned i = first + (backwards ? threads - 1 - k : k);
            fiber *f = &fibers[i];
            if (!f->done) {
                threadIdx = {i, 0, 0};
                resume(f);
            }
            if (f->done) continue;
            if (alive++ && (at != f->waits || with != f->with)) return -1;
            at = f->waits, with = f->with;
        }
#ifdef SHIM_TRAFFIC
        traffic::settle();
#endif
        if (alive && alive < threads) return -1;
        if (at >= 0) return at;
    }
}

/* One turn: every warp runs to the block's next barrier or its end; a barrier of some warps is open when all of them
 * are there. 0: all have ended; -1: they disagree. */
static int turn(unsigned threads, bool backwards)
{
    struct {
        bool waits;
        int at;
        unsigned with;
    } warps[MOST / WARP] = {};
    const unsigned count = (threads + WARP - 1) / WARP;
    for (bool opened = true; opened;) {
        for (unsigned k = 0; k < count; k++) {
            const unsigned i = backwards ? count - 1 - k : k, first = WARP * i;
            if (warps[i].waits) continue;
            const int at = run_warp(first, threads - first < WARP ? threads - first : WARP, backwards);
            if (at < 0) return -1;
            warps[i] = {true, at, at ? fibers[first].with : 0};
        }
        opened = false;
        for (unsigned i = 0; i < count; i++) {
            const unsigned with = warps[i].with, end = i + with;
            bool all = with && i % with == 0 && end <= count;
            for (unsigned k = i; all && k < end; k++) all = warps[k].at == warps[i].at && warps[k].with == with;
            for (unsigned k = i; all && k < end; k++) warps[k].waits = false, opened = true;
        }
    }
    for (unsigned i = 0; i < count; i++)
        if (warps[i].with || warps[i].at != warps[0].at) return -1;
    return warps[0].at != 0;
}

/* Words by value, structures by their address. */
template <typename T> SHIM_UNSEEN static T argument(void *from)
{
    if constexpr (std::is_class<T>::value) return *(const T *)from;
    else return (T)(unsigned long long)from;
}

template <typename... A> struct call {
    void (*kernel)(A...);
    void **arguments;
    template <size_t... I> SHIM_UNSEEN void run(std::index_sequence<I...>) { kernel(argument<A>(arguments[I])...); }
    static void enter(void *self) { ((call *)self)->run(std::index_sequence_for<A...>()); }
};

/* What the code of a thread does and a GPU leaves undefined. */
static const char *wrong;
static void fail(const char *what)
{
    if (!wrong) std::fprintf(stderr, "kernel: %s\n", what);
    wrong = what;
}

/* An access of several neighbours. */
template <typename To, typename T> SHIM_UNSEEN static To *place(T *at)
{
    if ((size_t)at % alignof(To)) fail("an access that does not begin at a multiple of its bytes");
    return (To *)at;
}

/* Has every thread said before the last barrier that the unit of products is to see what it stored? */
static bool fenced[MOST], seen;
static unsigned barriers = 1; /* of the block, and of those before it */
static void meet(unsigned threads)
{
    seen = true;
    barriers++;
    for (unsigned i = 0; i < threads; i++) seen = seen && fenced[i], fenced[i] = false;
}
static void end_block(unsigned threads);
static void end_copies(unsigned threads);

/* 0; -1: threads disagree about a barrier; -2: something else that stderr says. `shared`: bytes of shared memory beside
 * what the kernel has. */
static unsigned dynamic_bytes;
static struct {
    char *begin, *end;
} section;

/* A GPU leaves there what it held. */
SHIM_UNSEEN static void forget_shared()
{
    if (section.begin) std::memset(section.begin, 0xff, section.end - section.begin);
    std::memset(stepc_dynamic, 0xff, dynamic_bytes);
}

template <typename... A>
static int launch(void (*kernel)(A...), unsigned blocks, unsigned threads, unsigned shared, void **arguments,
                  int backwards)
{
    dynamic_bytes = shared;
    call<A...> c = {kernel, arguments};
    body = call<A...>::enter;
    body_argument = &c;
    wrong = nullptr;
    blockDim = {threads, 1, 1};
    gridDim = {blocks, 1, 1};
    while (fiber_count < threads) make_fiber();
    for (unsigned k = 0; k < blocks; k++) {
        int state = 1;
#ifdef SHIM_TRAFFIC
        if (!traffic::is_sample(k, blocks)) continue;
#endif
        blockIdx = {backwards ? blocks - 1 - k : k, 0, 0};
        for (unsigned i = 0; i < threads; i++) fibers[i].done = false;
        forget_shared();
        while (state == 1) state = turn(threads, backwards), meet(threads);
        if (state) return -1;
        end_block(threads);
        end_copies(threads);
    }
    return wrong ? -2 : 0;
}

} // namespace shim

static void shim_barrier(int line, unsigned threads = 0) /* of so many threads; 0: of the block, or a warp */
{
    shim::current->waits = line;
    shim::current->with = threads / shim::WARP;
    shim::yield();
}
#define __syncthreads() shim_barrier(__LINE__)
#define __syncwarp() shim_barrier(-__LINE__)
#define stepc_barrier(threads) shim_barrier(__LINE__, threads)
#define stepc_place shim::place

/* What is given is looked at behind a barrier, in one of two places in turn. */
static bool shim_any(bool x, bool block)
{
    static bool given[2][2][shim::MOST], turns[2][shim::MOST];
    bool turn = turns[block][threadIdx.x] = !turns[block][threadIdx.x], any = false;
    unsigned first = block ? 0 : threadIdx.x / shim::WARP * shim::WARP;
    given[block][turn][threadIdx.x] = x;
    if (block) __syncthreads();
    else __syncwarp();
    for (unsigned i = first; i < (block ? blockDim.x : first + shim::WARP); i++) any |= given[block][turn][i];
    return any;
}
#define __syncthreads_or(x) shim_any(x, true)
#define __any_sync(mask, x) shim_any(x, false)

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

#ifdef SHIM_INEXACT
typedef double shim_sum;
static double shim_add(float x, float y, double z) { return (double)x * y + z; }
#else
typedef float shim_sum;
static float shim_add(float x, float y, float z) { return std::fma(x, y, z); }
#endif

template <int rows, int columns>
static void shim_matrix(float *sum, const unsigned *left, const unsigned *right, bool wide)
{
    static unsigned lefts[shim::MOST][4 * rows], rights[shim::MOST][2 * columns];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
    std::memcpy(lefts[threadIdx.x], left, sizeof lefts[0]);
    std::memcpy(rights[threadIdx.x], right, sizeof rights[0]);
    __syncwarp();
    for (int at = 0; at < rows * columns * 4; at++) {
        const unsigned row = lane / 4, upper = at / 2 % 2, column = lane % 4 * 2 + at % 2;
        shim_sum all = sum[at];
        for (unsigned k = 0; k < 16; k++) {
            const unsigned of = k % 8 / 2, half = k % 2, late = k / 8;
            const unsigned x = lefts[warp + row * 4 + of][at / 4 / columns * 4 + upper + 2 * late];
            const unsigned y = rights[warp + column * 4 + of][at / 4 % columns * 2 + late];
            all = shim_add(shim_16_value(x, half, wide), shim_16_value(y, half, wide), all);
        }
#ifndef SHIM_INEXACT
        sum[at] = all;
#else
        const float near = (float)all;
        sum[at] = std::fabs((double)near) > std::fabs(all) ? std::nextafter(near, 0.0f) : near;
#endif
    }
    __syncwarp();
}
#define SHIM_MATRIX(type, wide) \
    template <int rows, int columns> \
    static void stepc_matrix_##type(float *sum, const unsigned *left, const unsigned *right) \
    { \
        shim_matrix<rows, columns>(sum, left, right, wide); \
    }
SHIM_MATRIX(bf16, true)
SHIM_MATRIX(f16, false)

/* ---- copies to shared memory that threads do not wait for (PTX ISA 9.7.9.25, cp.async): made as late as they may,
 * when their thread waits for their group. Of every 16 bytes of shared memory is known who writes and who reads them
 * between which barriers ---- */

namespace shim
{

enum { CHUNK = 16, MOST_CHUNKS = 1 << 14 /* 256 KiB */, MOST_COPIES = 256 };
struct copied {
    void *to;
    const void *from; /* NULL: zeros */
    int group;
};
struct copies {
    copied item[MOST_COPIES];
    int count, groups; /* groups: that have ended */
};
static copies copying[MOST];
static bool any_copies; /* in this block */
struct chunk {
    size_t at;
    bool under_way;
    unsigned written, read; /* how many barriers there were; 0: never */
    unsigned readers;       /* since the barrier: a bit for each warp */
};
static chunk chunks[MOST_CHUNKS];

SHIM_UNSEEN static chunk *chunk_at(const void *address)
{
    const size_t at = (size_t)address / CHUNK;
    chunk *c = &chunks[at % MOST_CHUNKS];
    const size_t asked = (size_t)address - (size_t)stepc_dynamic;
    if ((size_t)address % CHUNK) fail("16 bytes of shared memory that do not begin at a multiple of 16");
    if (asked < sizeof stepc_dynamic && asked >= dynamic_bytes) fail("more shared memory than the launch asks for");
    if (c->at != at) {
        if (c->under_way) fail("copies to more shared memory than there is");
        *c = {at, false, 0, 0, 0};
    }
    return c;
}

SHIM_UNSEEN static void begin_copy(void *to, const void *from)
{
    copies *own = &copying[threadIdx.x];
    chunk *c = chunk_at(to);
    if (own->count == MOST_COPIES) fail("more copies under way than are modelled");
    if (c->under_way) fail("a copy to where another one is under way to");
    if (c->read == barriers && c->readers & ~(1u << threadIdx.x / WARP))
        fail("a copy to what another warp may still read");
    if (wrong) return;
    any_copies = true;
    c->under_way = true;
    own->item[own->count++] = {to, from, own->groups};
}

SHIM_UNSEEN static void arrive(int but)
{
    copies *own = &copying[threadIdx.x];
    int left = 0;
    for (int i = 0; i < own->count; i++) {
        const copied *one = &own->item[i];
        if (one->group >= own->groups - but) {
            own->item[left++] = *one;
            continue;
        }
        chunk *c = chunk_at(one->to);
        if (one->from) std::memcpy(one->to, one->from, CHUNK);
        else std::memset(one->to, 0, CHUNK);
        c->under_way = false, c->written = barriers;
        fenced[threadIdx.x] = false;
    }
    own->count = left;
}

SHIM_UNSEEN static void note_read(const void *address)
{
    if (!any_copies) return;
    chunk *c = chunk_at(address);
    if (c->under_way) fail("what a copy brings is read before it has arrived");
    if (c->written == barriers) fail("what a copy has brought is read without a barrier between");
    if (c->read != barriers) c->read = barriers, c->readers = 0;
    c->readers |= 1u << threadIdx.x / WARP;
}

static void end_copies(unsigned threads)
{
    for (unsigned i = 0; any_copies && i < threads; i++) {
        if (copying[i].count) fail("a copy that nobody waits for");
        for (int k = 0; k < copying[i].count; k++) chunk_at(copying[i].item[k].to)->under_way = false;
        copying[i].count = copying[i].groups = 0;
    }
    any_copies = false;
    barriers++;
}

} // namespace shim

SHIM_UNSEEN static void stepc_copy(unsigned *to, const void *from, bool is)
{
#ifdef SHIM_TRAFFIC
    if (is) traffic::note(from, 16, false, __builtin_return_address(0));
    traffic::note(to, 16, true, __builtin_return_address(0));
#endif
    if ((size_t)from % shim::CHUNK)
        shim::fail("a copy from what does not begin at a multiple of 16 bytes"); /* or none */
    shim::begin_copy(to, is ? from : nullptr);
}
static void stepc_copies_end() { shim::copying[threadIdx.x].groups++; }
template <int but> static void stepc_copies_wait() { shim::arrive(but); }

template <bool turned> SHIM_UNSEEN static void stepc_load_tiles(unsigned *to, const unsigned *line)
{
    static const unsigned short *lines[shim::MOST];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane, row = lane / 4, column = lane % 4 * 2;
    lines[threadIdx.x] = (const unsigned short *)line;
    if ((size_t)line % 16) shim::fail("a line of a tile that does not begin at a multiple of 16 bytes");
    shim::note_read(line);
#ifdef SHIM_TRAFFIC
    traffic::note(line, 16, false, __builtin_return_address(0)); /* eight lines at a time */
#endif
    __syncwarp();
    for (unsigned tile = 0; tile < 4; tile++) {
        const unsigned short *const *of = lines + warp + tile * 8;
        const unsigned first = turned ? of[column][row] : of[row][column];
        to[tile] = first | (unsigned)(turned ? of[column + 1][row] : of[row][column + 1]) << 16;
    }
    __syncwarp();
}

/* ---- products by warpgroups (PTX ISA 9.7.15): asynchronous, so that they read shared memory as late as they may, when
 * their thread waits for their group. What has to be said before is looked after: of memory, by every thread before the
 * last barrier of the block; of registers, by the thread itself; the same descriptors by all threads of a warpgroup;
 * that no copy has begun to where one still reads ---- */

namespace shim
{

enum { GROUP = 128, MOST_PRODUCTS = 16, WINDOW = 1 << 18 };
struct product {
    float *sum;
    unsigned long long from[2];
    bool turned[2], wide;
    unsigned columns, met; /* met: how many barriers there were */
    int group;
};
struct products {
    product item[MOST_PRODUCTS];
    int count, committed, groups; /* committed: of those that are left; groups: that have ended */
    unsigned made;                /* of the block */
    bool ordered;                 /* its registers */
};
static products begun[MOST];
struct said { /* by the first thread of a warpgroup that comes to it */
    unsigned number;
    unsigned long long from[2];
};
static said saids[MOST / GROUP][MOST_PRODUCTS];
static bool any; /* in this block */
static size_t asked_last;

/* An address there has 18 bits: those of the host's, which is the nearest one to what was asked for last. */
static unsigned shared_address(const void *at)
{
    asked_last = (size_t)at;
    return (unsigned)(asked_last & (WINDOW - 1));
}

static const char *host_address(unsigned at)
{
    const size_t away = (at - asked_last + WINDOW / 2) & (WINDOW - 1);
    return (const char *)(asked_last + away - WINDOW / 2);
}

/* "Matrix Descriptor Format", "Strides", "Swizzling Modes": the 16 bits of a row (or column) and a step. 8 rows are a
 * pattern of rows of so many bytes; turned, 8 steps, each of which has that many bytes of rows. */
SHIM_UNSEEN static unsigned short element(const product *p, int side, unsigned row, unsigned step)
{
    const unsigned long long descriptor = p->from[side];
    const bool turned = p->turned[side];
    const unsigned mode = descriptor >> 62, apart = (descriptor >> 16 & 0x3fff) << 4,
                   stride = (descriptor >> 32 & 0x3fff) << 4;
    const unsigned bytes = mode == 0 ? 16 : 256 >> mode, along = turned ? row : step, across = turned ? step : row;
    unsigned at = (descriptor & 0x3fff) << 4;
    unsigned short bits;
    if (descriptor >> 49 & 7) fail("a panel that does not begin at a multiple of its pattern");
    if (mode == 0) at += turned ? along / 8 * stride + across / 8 * apart : along / 8 * apart + across / 8 * stride;
    else at += (turned ? along / (bytes / 2) * apart : 0) + across / 8 * stride;
    at += across % 8 * bytes + (mode == 0 ? along % 8 : turned ? along % (bytes / 2) : along) * 2;
    at ^= (at >> 7 & (bytes / 16 - 1)) << 4;
    const char *from = host_address(at);
    const chunk *c = any_copies ? chunk_at((const void *)((size_t)from / CHUNK * CHUNK)) : nullptr;
    if (c && c->under_way) fail("a copy to what a product may still read, or a product of what has not arrived");
    if (c && c->written >= p->met) fail("a product of what a copy has brought without a barrier between");
    std::memcpy(&bits, from, sizeof bits);
    return bits;
}

/* What the thread has of 64 rows by so many columns ("Matrix Fragments for wgmma.mma_async.m64nNk16"). */
static void multiply(const product *p)
{
    const unsigned lane = threadIdx.x % WARP, row = threadIdx.x % GROUP / WARP * 16 + lane / 4;
    float left[2][16];
    for (unsigned k = 0; k < 32; k++)
        left[k / 16][k % 16] = shim_16_value(element(p, 0, row + k / 16 * 8, k % 16), 0, p->wide);
    for (unsigned column = 0; column < p->columns / 4; column++)
        for (unsigned k = 0; k < 16; k++) {
            const unsigned of = column / 2 * 8 + lane % 4 * 2 + column % 2;
            const float right = shim_16_value(element(p, 1, of, k), 0, p->wide);
            for (unsigned i = 0; i < 2; i++) {
                float *sum = &p->sum[column / 2 * 4 + i * 2 + column % 2];
                *sum = std::fma(left[i][k], right, *sum);
            }
        }
}

static void begin(float *sum, unsigned long long left, unsigned long long right, bool turned_left, bool turned_right,
                  unsigned columns, bool wide)
{
    products *own = &begun[threadIdx.x];
    if (own->count == MOST_PRODUCTS) fail("more products than are modelled");
    if (blockDim.x % GROUP) fail("a warpgroup that is not whole");
    if (!own->ordered) fail("a product without wgmma.fence before it");
    if (!seen) fail("a product of what was stored without fence.proxy.async before the barrier");
    if (wrong) return;
    any = true;
    own->item[own->count++] = {sum, {left, right}, {turned_left, turned_right}, wide, columns, barriers, own->groups};
    said *of = &saids[threadIdx.x / GROUP][own->made++ % MOST_PRODUCTS];
    if (of->number != own->made) *of = {own->made, {left, right}};
    if (of->from[0] != left || of->from[1] != right) fail("descriptors differ in a warpgroup");
}

static void commit()
{
    products *own = &begun[threadIdx.x];
    own->committed = own->count, own->groups++;
}

static void wait(int but)
{
    products *own = &begun[threadIdx.x];
    int left = 0;
    if (own->committed != own->count) fail("a product without wgmma.commit_group behind it");
    for (int i = 0; i < own->count; i++)
        if (own->item[i].group >= own->groups - but) own->item[left++] = own->item[i];
        else multiply(&own->item[i]);
    own->count = own->committed = left;
    own->ordered = false;
}

static void end_block(unsigned threads)
{
    for (unsigned i = 0; any && i < threads; i++) {
        if (begun[i].count) fail("a product that nobody waits for");
        begun[i].count = begun[i].committed = begun[i].groups = 0, begun[i].made = 0;
        begun[i].ordered = false;
    }
    if (any) std::memset(saids, 0, sizeof saids);
    any = false;
}

} // namespace shim

#define STEPC_HAS_WGMMA
static unsigned stepc_shared_address(const void *at) { return shim::shared_address(at); }
static void stepc_async_fence() { shim::fenced[threadIdx.x] = true; }
static void stepc_wgmma_fence() { shim::begun[threadIdx.x].ordered = true; }
static void stepc_wgmma_commit() { shim::commit(); }
template <int sums, int but> static void stepc_wgmma_wait(float *) { shim::wait(but); }
#define SHIM_WGMMA(type, columns, wide) \
    template <int turned_left, int turned_right> \
    static void stepc_wgmma_##type##_##columns(float *d, unsigned long long left, unsigned long long right) \
    { \
        shim::begin(d, left, right, turned_left, turned_right, columns, wide); \
    }
SHIM_WGMMA(bf16, 128, true)
SHIM_WGMMA(f16, 128, false)
SHIM_WGMMA(bf16, 192, true)
SHIM_WGMMA(f16, 192, false)
SHIM_WGMMA(bf16, 256, true)
SHIM_WGMMA(f16, 256, false)

/* The way in for the test: arguments as for cuLaunchKernel, but by value, each as wide as a pointer. */
#ifdef SHIM_TRAFFIC
#define SHIM_TELL(kernel, blocks, threads) traffic::tell(#kernel, blocks, threads)
#else
#define SHIM_TELL(kernel, blocks, threads)
#endif
#define SHIM_LAUNCHER(kernel) \
    extern "C" __attribute__((weak, visibility("hidden"))) char __start_shared_##kernel[], __stop_shared_##kernel[]; \
    extern "C" __attribute__((visibility("default"))) int launch_##kernel(unsigned blocks, unsigned threads, \
                                                                          unsigned shared, void **a, int backwards) \
    { \
        shim::section = {__start_shared_##kernel, __stop_shared_##kernel}; \
        const int state = shim::launch(kernel, blocks, threads, shared, a, backwards); \
        SHIM_TELL(kernel, blocks, threads); \
        return state; \
    }

#ifdef SHIM_INEXACT
/* Functions as inexact as CUDA's may be (the largest errors that codegen/cuda/cuda_op.c names), by chance but always
 * the same; what is exact there (0, 1) is here. A unit of products may cut the sum of 16 products. */
template <typename Bits, typename T> static T shim_off(T y, int most)
{
    Bits bits;
    if (!(y - y == 0) || y == 0 || y == 1 || y == -1) return y;
    std::memcpy(&bits, &y, sizeof bits);
    const unsigned long long mixed = (bits ^ bits >> 31) * 0x9e3779b97f4a7c15ull;
    bits += (int)((mixed >> 33) % (2u * most + 1)) - most;
    std::memcpy(&y, &bits, sizeof y);
    return y;
}
static inline float shim_off_by(float y, int most) { return shim_off<unsigned>(y, most); }
static inline double shim_off_by(double y, int most) { return shim_off<unsigned long long>(y, most < 2 ? most : 2); }
#define expf(x) shim_off_by(::expf(x), 1)
#define exp(x) shim_off_by(::exp(x), 1)
#define expm1f(x) shim_off_by(::expm1f(x), 1)
#define expm1(x) shim_off_by(::expm1(x), 1)
#define logf(x) shim_off_by(::logf(x), 1)
#define log(x) shim_off_by(::log(x), 1)
#define log1pf(x) shim_off_by(::log1pf(x), 1)
#define log1p(x) shim_off_by(::log1p(x), 1)
#define log2f(x) shim_off_by(::log2f(x), 1)
#define log2(x) shim_off_by(::log2(x), 1)
#define rsqrtf(x) shim_off_by(::rsqrtf(x), 2)
#define rsqrt(x) shim_off_by(::rsqrt(x), 2)
#define tanhf(x) shim_off_by(::tanhf(x), 2)
#define tanh(x) shim_off_by(::tanh(x), 2)
#define sinf(x) shim_off_by(::sinf(x), 2)
#define sin(x) shim_off_by(::sin(x), 2)
#define cosf(x) shim_off_by(::cosf(x), 2)
#define cos(x) shim_off_by(::cos(x), 2)
#define erff(x) shim_off_by(::erff(x), 2)
#define erf(x) shim_off_by(::erf(x), 2)
#define powf(x, y) shim_off_by(::powf(x, y), 4)
#define pow(x, y) shim_off_by(::pow(x, y), 4)
#define atan2f(x, y) shim_off_by(::atan2f(x, y), 3)
#define atan2(x, y) shim_off_by(::atan2(x, y), 3)
#endif

#endif
