/* What generated CUDA kernels call: operations whose meaning C leaves open (the op table gives it: integer division by
 * zero is -1, NaN wins in max and min, shifts by the width or more are defined, floats convert to integers with saturation
 * and NaN to 0), the 16-bit floats, random numbers, and the fold of one value per thread. This text stands before the
 * kernels; it needs no header, so that NVRTC compiles it without a toolkit around it. bf16 and f16 lie in memory as
 * unsigned short and are float in registers, rounded after every operation. */

template <typename To, typename From> static __device__ To stepc_bits(From x)
{
    union { From from; To to; } u;
    u.from = x;
    return u.to;
}

/* ---- integers ---- */

template <typename T> static __device__ bool stepc_is_signed() { return (T)-1 < (T)1; }

template <typename T> static __device__ T stepc_div(T x, T y)
{
    if (y == 0) return (T)-1;
    if (stepc_is_signed<T>() && y == (T)-1) return (T)(0 - (unsigned long long)x);
    return (T)(x / y);
}

template <typename T> static __device__ T stepc_rem(T x, T y)
{
    if (y == 0) return x;
    if (stepc_is_signed<T>() && y == (T)-1) return 0;
    return (T)(x % y);
}

template <typename T> static __device__ T stepc_pow(T x, T y)
{
    if (stepc_is_signed<T>() && y < (T)1 && y != 0) return x == 1 ? (T)1 : x == (T)-1 ? (y & 1 ? (T)-1 : (T)1) : (T)0;
    unsigned long long result = 1, base = (unsigned long long)x;
    for (unsigned long long left = (unsigned long long)y; left; left >>= 1, base *= base)
        if (left & 1) result *= base;
    return (T)result;
}

template <typename T> static __device__ T stepc_shl(T x, T y)
{
    return (unsigned long long)y < 8 * sizeof(T) ? (T)((unsigned long long)x << y) : (T)0;
}

template <typename T> static __device__ T stepc_shr(T x, T y)
{
    if ((unsigned long long)y < 8 * sizeof(T)) return (T)(x >> y);
    return stepc_is_signed<T>() && x < (T)1 && x != 0 ? (T)-1 : (T)0;
}

template <typename T> static __device__ T stepc_abs(T x)
{
    return stepc_is_signed<T>() && x < (T)1 ? (T)(0 - (unsigned long long)x) : x;
}

/* ---- both kinds ---- */

template <typename T> static __device__ T stepc_sign(T x) { return x > (T)0 ? (T)1 : x < (T)0 ? (T)-1 : x; }
template <typename T> static __device__ T stepc_max(T x, T y) { return x != x ? x : y != y ? y : x > y ? x : y; }
template <typename T> static __device__ T stepc_min(T x, T y) { return x != x ? x : y != y ? y : x < y ? x : y; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <> __device__ float stepc_max(float x, float y)
{
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
}

template <> __device__ float stepc_min(float x, float y)
{
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
}
#endif

template <typename T> static __device__ T stepc_saturate(double x)
{
    const int bits = 8 * (int)sizeof(T);
    const double end = (double)(1ull << (bits - 1)) * (stepc_is_signed<T>() ? 1.0 : 2.0); /* the first number beyond */
    const double least = stepc_is_signed<T>() ? -end : 0.0;
    if (x != x) return 0;
    if (x <= least) return stepc_is_signed<T>() ? (T)(1ull << (bits - 1)) : (T)0;
    if (x >= end) return stepc_is_signed<T>() ? (T)((1ull << (bits - 1)) - 1) : (T)-1;
    return (T)x;
}

template <typename T> static __device__ bool stepc_not_finite(T x) { return x - x != (T)0; }

/* ---- 16-bit floats: to nearest, ties to even; where there is no instruction for it in integer arithmetic ---- */

static __device__ float stepc_bf16_value(unsigned short bits) { return stepc_bits<float>((unsigned)bits << 16); }

/* Of a rounded number, whose other bits are zeros: what was read is the same again, with no instruction. */
static __device__ unsigned short stepc_bf16_bits(float x) { return (unsigned short)(stepc_bits<unsigned>(x) >> 16); }

/* e^x within 2^-17 of it where x > -90, and the nearer the less there is of x: "ex2.approx" is within 2^-22. */
static __device__ float stepc_rough_exp(float x)
{
    const float power = x * 1.44269504f;
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(power));
    return y;
#else
    return exp2f(power);
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
static __device__ float stepc_bf16_round(float x)
{
    unsigned both; /* x above 0 */
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x), "f"(0.0f));
    return stepc_bits<float>(both);
}

static __device__ float stepc_f16_value(unsigned short bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

static __device__ unsigned short stepc_f16_bits(float x)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#else
static __device__ float stepc_bf16_round(float x)
{
    const unsigned bits = stepc_bits<unsigned>(x), up = x != x ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    return stepc_bits<float>(up & 0xffff0000u);
}

static __device__ float stepc_f16_value(unsigned short bits)
{
    unsigned sign = (bits & 0x8000u) << 16, size = bits & 0x7fffu, wide;
    if (size >= 0x7c00u) wide = size << 13 | 0x7f800000u;
    else if (size < 0x400u) wide = stepc_bits<unsigned>((float)size * 5.9604644775390625e-8f); /* 2^-24 */
    else wide = (size << 13) + 0x38000000u;
    return stepc_bits<float>(wide | sign);
}

static __device__ unsigned short stepc_f16_bits(float x)
{
    unsigned bits = stepc_bits<unsigned>(x), sign = bits & 0x80000000u, size = bits ^ sign, r;
    if (size > 0x7f800000u) r = 0x7e00u;
    else if (size >= 0x477ff000u) r = 0x7c00u;
    /* Adding a half puts the last place of a denormal f16 where the sum's last place is. */
    else if (size < 0x38800000u) r = stepc_bits<unsigned>(stepc_bits<float>(size) + 0.5f) - 0x3f000000u;
    else r = (size + 0xc8000fffu + (size >> 13 & 1u)) >> 13;
    return (unsigned short)(r | sign >> 16);
}
#endif

/* x * y + z, of which one operation is exact, so that it is rounded once: the upper halves of floats are bfloat16. (As
 * pairs, with a lower half of 0, they would need no halves, but ptxas 13 then spills what an epilogue holds.) */
static __device__ float stepc_bf16_fma(float x, float y, float z)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float both;
    asm("{.reg .b16 none, a, b, c; mov.b32 {none, a}, %1; mov.b32 {none, b}, %2; mov.b32 {none, c}, %3; "
        "fma.rn.bf16 a, a, b, c; mov.b16 none, 0; mov.b32 %0, {none, a};}"
        : "=f"(both) : "f"(x), "f"(y), "f"(z));
    return both;
#else
    return stepc_bf16_round(x * y + z);
#endif
}
static __device__ float stepc_bf16_add(float x, float y) { return stepc_bf16_fma(x, 1.0f, y); }
static __device__ float stepc_bf16_sub(float x, float y) { return stepc_bf16_fma(y, -1.0f, x); }
static __device__ float stepc_bf16_mul(float x, float y) { return stepc_bf16_fma(x, y, -0.0f); }

/* ---- the matrix unit: see NEST_MATRIX. It and copies are asked of sm_80 and later ones only; a stand-in has its own
 * ---- */

#ifdef __CUDA_ARCH__
#define STEPC_MATRIX(type) \
    template <int rows, int columns> \
    static __device__ void stepc_matrix_##type(float *sum, const unsigned *left, const unsigned *right) \
    { \
        _Pragma("unroll") for (int i = 0; i < rows; i++) \
            _Pragma("unroll") for (int j = 0; j < columns; j++) { \
                float *d = sum + 4 * (i * columns + j); \
                const unsigned *x = left + 4 * i, *y = right + 2 * j; \
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
                    "{%0, %1, %2, %3};" \
                    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                    : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1])); \
            } \
    }
STEPC_MATRIX(bf16)
STEPC_MATRIX(f16)

/* Four tiles of 8 lines of 8 numbers in shared memory: of tile t the lanes from 8t on know where its lines are. A lane
 * gets two numbers of each, side by side in line lane / 4, or, turned, one behind the other in column lane / 4. */
template <bool turned> static __device__ void stepc_load_tiles(unsigned *to, const unsigned *line)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(line);
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

/* 16 bytes to shared memory, or zeros, by a thread that goes on: see NEST_COPY ("cp.async": bytes that are not read are
 * zeros there). */
static __device__ void stepc_copy(unsigned *to, const void *from, bool is)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(is ? 16 : 0) : "memory");
}

static __device__ void stepc_copies_end()
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Of this thread all groups but so many have arrived. */
template <int but> static __device__ void stepc_copies_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(but) : "memory");
}
#endif

/* The same number by number, where 16 bytes do not begin as one access wants it. */
static __device__ void stepc_copy_each(unsigned *to, const unsigned short *from, bool is)
{
    for (int i = 0; i < 4; i++) to[i] = is ? from[2 * i] | (unsigned)from[2 * i + 1] << 16 : 0;
}

/* ---- products of panels in shared memory ---- */

#ifdef __CUDA_ARCH__
extern __shared__ __align__(1024) unsigned char stepc_dynamic[]; /* what a launch asks for; a stand-in has its own */
#endif

/* Where a pair of a panel lies. Of 1024 bytes the 16 bytes number p are at p ^ p / 8, as far as these bits are within
 * the bytes that are side by side ("Swizzling Modes": address bits 4 to 6 by bits 7 to 9). */
template <unsigned bytes> static __device__ unsigned stepc_swizzled(unsigned word)
{
    return word ^ (word >> 3 & (bytes / 16 - 1) * 4);
}

/* Four tiles of 8 by 8 come at a time, two of neighbouring rows and of neighbouring steps each, of which `rows_first`
 * says which comes first. Where this lane has its line of the tiles at a row, a multiple of 16, and the first step.
 * `part`: rows that lie side by side; 0: steps do. */
template <int steps, int part, bool rows_first> static __device__ unsigned stepc_panel_line(unsigned row)
{
    const unsigned tile = threadIdx.x % 32 / 8, line = threadIdx.x % 8;
    const unsigned step = (rows_first ? tile / 2 : tile % 2) * 8 + (part ? line : 0);
    row += (rows_first ? tile % 2 : tile / 2) * 8 + (part ? 0 : line);
    if constexpr (part == 0) return stepc_swizzled<2 * steps>((row * steps + step) / 2);
    else return stepc_swizzled<2 * part>((row / part * steps * part + step * part + row % part) / 2);
}

/* The same `rows` and `step` further, multiples of 16: what stays within the bytes that are side by side changes bits
 * that the swizzle changes, too, and carries nothing; the rest is added, and known to the compiler. */
template <int steps, int part> static __device__ unsigned stepc_panel_further(unsigned line, unsigned rows, unsigned step)
{
    if constexpr (part == 0) return (line ^ step / 2) + rows * steps / 2;
    else return (line ^ rows % part / 2) + (rows / part * steps + step) * (part / 2);
}

/* What a warp takes of a panel: see NEST_TAKE. */
#define STEPC_TAKE(side, rows_first) \
    template <int size, int steps, int part, int step> \
    static __device__ void stepc_take_##side(unsigned *to, unsigned number, const unsigned *panel, unsigned from) \
    { \
        const unsigned line = from + stepc_panel_line<steps, part, rows_first>(number * size); \
        _Pragma("unroll") for (int i = 0; i < size; i += 16) \
            stepc_load_tiles<part != 0>(to + i / 4, panel + stepc_panel_further<steps, part>(line, i, step)); \
    }
STEPC_TAKE(left, true)
STEPC_TAKE(right, false)

/* ---- by warpgroups: see NEST_WARPGROUP ---- */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* The instructions, as PTX ISA 9.7.15 has them ("Asynchronous Warpgroup Level Matrix Multiply-Accumulate
 * Instructions"), whose sections are named here. A stand-in has a twin of each of these functions. */
#define STEPC_HAS_WGMMA
static __device__ unsigned stepc_shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

/* The unit sees what this thread has stored, once there was a barrier ("Async Proxy"). */
static __device__ void stepc_async_fence() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

/* Before the first product, and before those that follow a use of the sums ("wgmma.fence"). */
static __device__ void stepc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
static __device__ void stepc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }

/* All groups of products but the last `but` ones are done. If none is left, the sums are the thread's again: to the
 * compiler they change here, so that it neither uses nor moves them before. */
template <int sums, int but> static __device__ void stepc_wgmma_wait(float *sum)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(but) : "memory");
    if constexpr (but == 0)
        _Pragma("unroll") for (int i = 0; i < sums; i++) asm volatile("" : "+f"(sum[i]) : : "memory");
}

/* 64 rows by 16 steps of the left one by so many columns of the right one, added to half as many sums of a thread.
 * `turned`: neighbours are rows (or columns), not steps ("wgmma.mma_async": a predicate that is false for a sum from 0,
 * two signs, then these; "Matrix Fragments for wgmma.mma_async.m64nNk16"). */
#define STEPC_4(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define STEPC_16(d) STEPC_4(d), STEPC_4((d) + 4), STEPC_4((d) + 8), STEPC_4((d) + 12)
#define STEPC_64(d) STEPC_16(d), STEPC_16((d) + 16), STEPC_16((d) + 32), STEPC_16((d) + 48)
#define STEPC_96(d) STEPC_64(d), STEPC_16((d) + 64), STEPC_16((d) + 80)
#define STEPC_128(d) STEPC_96(d), STEPC_16((d) + 96), STEPC_16((d) + 112)
#define STEPC_NUMBERS_64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
    "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define STEPC_NUMBERS_96 \
    STEPC_NUMBERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
    "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define STEPC_NUMBERS_128 \
    STEPC_NUMBERS_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define STEPC_WGMMA(type, columns, sums, rest) \
    template <int turned_left, int turned_right> \
    static __device__ void stepc_wgmma_##type##_##columns(float *d, unsigned long long left, unsigned long long right) \
    { \
        asm volatile("{.reg .pred adds; setp.eq.u32 adds, 0, 0; " \
            "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "." #type " {" STEPC_NUMBERS_##sums "}, " rest ";}" \
            : STEPC_##sums(d) : "l"(left), "l"(right), "n"(turned_left), "n"(turned_right)); \
    }
#define STEPC_WGMMAS(type) \
    STEPC_WGMMA(type, 128, 64, "%64, %65, adds, 1, 1, %66, %67") \
    STEPC_WGMMA(type, 192, 96, "%96, %97, adds, 1, 1, %98, %99") \
    STEPC_WGMMA(type, 256, 128, "%128, %129, adds, 1, 1, %130, %131")
STEPC_WGMMAS(bf16)
STEPC_WGMMAS(f16)
#endif

#ifdef STEPC_HAS_WGMMA
/* "Matrix Descriptor Format", "Strides": the address; the distance of parts of 64 rows (1 where steps are side by side,
 * which have none); that of 8 rows, or of 8 steps; all in 16 bytes. The base is 0, as panels begin where the swizzle
 * does; the swizzle is 1 for 128 bytes, 2 for 64. */
template <int steps, bool steps_first> static __device__ unsigned long long stepc_panel(const unsigned *at)
{
    static_assert(steps == 32 || (steps == 64 && steps_first), "a panel that has no swizzle");
    const unsigned row = steps_first ? 2 * steps : 128, apart = steps_first ? 16 : 128 * steps;
    return (stepc_shared_address(at) & 0x3ffffu) >> 4 | (unsigned long long)(apart >> 4) << 16 |
           (unsigned long long)(8 * row >> 4) << 32 | (row == 128 ? 1ull : 2ull) << 62;
}

/* A warpgroup has 64 rows. 16 steps are 32 bytes of a row, or 16 rows of 128 bytes. */
#define STEPC_WARPGROUP(type) \
    template <int columns, int steps, bool left, bool right> \
    static __device__ void stepc_warpgroup_##type(float *sum, const unsigned *x, const unsigned *y) \
    { \
        const unsigned long long a = stepc_panel<steps, left>(x + threadIdx.x / 128 * (32 * steps)); \
        const unsigned long long b = stepc_panel<steps, right>(y); \
        stepc_wgmma_fence(); \
        _Pragma("unroll") for (int k = 0; k < steps / 16; k++) { \
            const unsigned long long of_a = a + k * (left ? 2 : 128), of_b = b + k * (right ? 2 : 128); \
            if constexpr (columns == 256) stepc_wgmma_##type##_256<!left, !right>(sum, of_a, of_b); \
            else if constexpr (columns == 192) stepc_wgmma_##type##_192<!left, !right>(sum, of_a, of_b); \
            else stepc_wgmma_##type##_128<!left, !right>(sum, of_a, of_b); \
        } \
        stepc_wgmma_commit(); \
    }

template <int sums, int but> static __device__ void stepc_warpgroup_wait(float *sum) { stepc_wgmma_wait<sums, but>(sum); }
static __device__ void stepc_warpgroup_ready() { stepc_async_fence(); } /* what it has stored, before threads meet */
#else
/* Where there is no such instruction: by the matrix unit, at once; a warp has 16 rows. */
#define STEPC_WARPGROUP(type) \
    template <int columns, int steps, bool left, bool right> \
    static __device__ void stepc_warpgroup_##type(float *sum, const unsigned *x, const unsigned *y) \
    { \
        const int part_x = left ? 0 : 64, part_y = right ? 0 : 64; \
        const unsigned of_x = stepc_panel_line<steps, part_x, true>(threadIdx.x / 32 * 16); \
        const unsigned of_y = stepc_panel_line<steps, part_y, false>(0); \
        _Pragma("unroll 1") for (int k = 0; k < steps; k += 16) { \
            unsigned a[4], b[4]; \
            stepc_load_tiles<!left>(a, x + stepc_panel_further<steps, part_x>(of_x, 0, k)); \
            _Pragma("unroll") for (int j = 0; j < columns; j += 16) { \
                stepc_load_tiles<!right>(b, y + stepc_panel_further<steps, part_y>(of_y, j, k)); \
                stepc_matrix_##type<1, 2>(sum + j / 2, a, b); \
            } \
        } \
    }
template <int sums, int but> static __device__ void stepc_warpgroup_wait(float *) {}
static __device__ void stepc_warpgroup_ready() {}
#endif
STEPC_WARPGROUP(bf16)
STEPC_WARPGROUP(f16)

static __device__ float stepc_f16_round(float x) { return stepc_f16_value(stepc_f16_bits(x)); }

/* ---- random numbers ---- */

static __device__ unsigned stepc_rotate(unsigned x, unsigned by) { return x << by | x >> (32 - by); }

/* Threefry-2x32, 20 rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. */
static __device__ unsigned stepc_threefry(unsigned k0, unsigned k1, unsigned x0, unsigned x1, int word)
{
    const unsigned key[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
    x0 += k0;
    x1 += k1;
#pragma unroll
    for (int group = 0; group < 5; group++) {
        x0 += x1; x1 = stepc_rotate(x1, group & 1 ? 17 : 13) ^ x0;
        x0 += x1; x1 = stepc_rotate(x1, group & 1 ? 29 : 15) ^ x0;
        x0 += x1; x1 = stepc_rotate(x1, group & 1 ? 16 : 26) ^ x0;
        x0 += x1; x1 = stepc_rotate(x1, group & 1 ? 24 : 6) ^ x0;
        x0 += key[(group + 1) % 3];
        x1 += key[(group + 2) % 3] + (unsigned)group + 1;
    }
    return word ? x1 : x0;
}

/* ---- a launch over several sets of buffers: the table (step_abi.h), and which member a block is of ---- */

template <unsigned words> struct stepc_table { unsigned long long word[words]; };
struct stepc_member {
    unsigned at, block, blocks; /* at: of its buffers in the table */
    long long extent;
};

static __device__ void *stepc_global(unsigned long long address) { return __cvta_global_to_generic(address); }

static __device__ stepc_member stepc_find_member(const unsigned long long *word, unsigned stride)
{
    unsigned from = 0, to = (unsigned)word[0] - 1;
    while (from < to) {
        const unsigned middle = (from + to) / 2;
        if (word[(middle + 1) * stride] <= blockIdx.x) from = middle + 1;
        else to = middle;
    }
    const unsigned end = (from + 1) * stride, begin = from ? (unsigned)word[end - stride] : 0;
    stepc_member m = {end - stride + 1, blockIdx.x - begin, (unsigned)word[end] - begin, (long long)word[end - 1]};
    return m;
}

/* Says that the address may be known elsewhere, at no instruction. NVRTC asks again and again, for each of the unrolled
 * stores of a tile and the calls beside them, whether that of a __restrict__ argument is, which takes half of its time
 * where a tile's end has a tanh; this is the first use that it looks at. */
template <typename T> static __device__ void stepc_escape(T *at)
{
#ifdef __CUDA_ARCH__
    asm volatile("" : : "l"(at));
#endif
}

/* ---- a few neighbours in one access of up to 16 bytes ---- */

template <typename T, unsigned n> struct alignas(n * sizeof(T)) stepc_few { T item[n]; };

/* Where such an access begins; a stand-in looks whether it may. */
#ifndef stepc_place
template <typename To, typename T> static __device__ To *stepc_place(T *at) { return (To *)at; }
#endif

template <unsigned n, typename T> static __device__ bool stepc_is_aligned(const T *at)
{
    return (unsigned long long)at % (n * sizeof(T)) == 0;
}

/* All of them, or zeros, each by itself: NVRTC 13.0 does not come to an end with `= {}` of one word, in a sequence. */
template <unsigned n, typename T> static __device__ stepc_few<T, n> stepc_load_whole(const T *from, bool is)
{
    stepc_few<T, n> few;
#pragma unroll
    for (int k = 0; k < n; k++) few.item[k] = 0;
    if (is) few = *stepc_place<const stepc_few<T, n>>(from);
    return few;
}

/* Numbers of 16 bits come as words, lest a compiler cuts these: the lower or upper half of one, or of two together. */
template <unsigned upper> static __device__ unsigned short stepc_half(unsigned word)
{
    return (unsigned short)(word >> 16 * upper);
}

template <unsigned x, unsigned y> static __device__ unsigned stepc_pair(unsigned a, unsigned b)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(a, b, (x ? 0x32u : 0x10u) | (y ? 0x7600u : 0x5400u)); /* one instruction, of four */
#else
    return (x ? a >> 16 : a & 0xffffu) | (y ? b & 0xffff0000u : b << 16);
#endif
}

template <typename T, unsigned n>
static __device__ void stepc_store_whole(T *to, const stepc_few<T, n> &few, bool is)
{
    if (is) *stepc_place<stepc_few<T, n>>(to) = few;
}

/* One of each `each`; those from `count` on are the last one again. */
template <unsigned n, typename T>
static __device__ stepc_few<T, n> stepc_load_few(const T *from, int count, int each, bool whole)
{
    stepc_few<T, n> few;
    if (whole) return *stepc_place<const stepc_few<T, n>>(from);
#pragma unroll
    for (int k = 0; k < n; k++) few.item[k] = from[(k < count ? k : count - 1) * each];
    return few;
}

template <typename T, unsigned n>
static __device__ void stepc_store_few(T *to, const stepc_few<T, n> &few, int count, int each, bool whole)
{
    if (whole) {
        *stepc_place<stepc_few<T, n>>(to) = few;
        return;
    }
#pragma unroll
    for (int k = 0; k < n; k++)
        if (k < count) to[k * each] = few.item[k];
}

/* ---- one value per thread to one for all, in the same order in every run: by shuffles in each warp, then over the warps'
 * results ---- */

/* A barrier of each `threads` threads of a block, one of whose teams they are: from a multiple of that on. */
#ifndef stepc_barrier
static __device__ void stepc_barrier(unsigned threads)
{
#ifdef __CUDA_ARCH__
    asm volatile("bar.sync %0, %1;" : : "r"(1 + threadIdx.x / threads), "r"(threads) : "memory"); /* 0: of the block */
#endif
}
#endif

/* That of the lane whose number differs in these bits. */
template <typename T> static __device__ T stepc_from_lane(T x, unsigned bits)
{
    if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)x, bits);
    else return __shfl_xor_sync(0xffffffffu, x, bits);
}

/* With that one, in the order of lanes: the same in both, which of two zeros or NaN as well. */
template <typename T, typename F> static __device__ T stepc_with_lane(T x, unsigned bits, F combine)
{
    const T y = stepc_from_lane(x, bits);
    return threadIdx.x & bits ? combine(y, x) : combine(x, y);
}

/* `teams`: a block has several of so many threads, and what they share is each one's own. */
template <unsigned threads, bool teams = false, typename T, typename F>
static __device__ T stepc_fold(void *shared, T x, F combine)
{
#pragma unroll
    for (unsigned bits = 16; bits > 0; bits /= 2) x = stepc_with_lane(x, bits, combine);
    if constexpr (threads > 32) {
        T *warps = (T *)shared;
        if (threadIdx.x % 32 == 0) warps[threadIdx.x % threads / 32] = x;
        if constexpr (teams) stepc_barrier(threads);
        else __syncthreads();
        x = warps[threadIdx.x % (threads / 32)];
#pragma unroll
        for (unsigned bits = threads / 64; bits > 0; bits /= 2) x = stepc_with_lane(x, bits, combine);
        if constexpr (teams) stepc_barrier(threads); /* the memory may be used again */
        else __syncthreads();
    }
    return x;
}

/* Of a block's threads, or a warp's: is it true in one of them? */
template <unsigned threads> static __device__ bool stepc_any(bool x)
{
    if constexpr (threads > 32) return __syncthreads_or(x);
    else return __any_sync(0xffffffff, x);
}

/* ---- pieces between the memory of the host and that of the device, by `all` threads, of which this is one: a table
 * (step_abi.h) ---- */

static __device__ void stepc_move(const unsigned long long *word, unsigned long long thread, unsigned long long all)
{
    typedef stepc_few<unsigned, 4> unit;
    enum { TOGETHER = 4 /* loads under way: from the host's memory each takes a microsecond */ };
    for (unsigned at = 1; at < 1 + 3 * word[0]; at += 3) {
        const bool clears = word[at + 2] >> 62 == 2, sets = word[at + 2] >> 62 == 3;
        const unsigned long long bytes = word[at + 2] << 2 >> 2;
        const bool wide = !sets && (word[at] | word[at + 1]) % sizeof(unit) == 0;
        const unsigned long long units = wide ? bytes / sizeof(unit) : 0;
        char *const to = (char *)stepc_global(word[at]);
        char *const from = (char *)stepc_global(word[at + 1]);
        if (sets && thread == 0) *(unsigned *)to = (unsigned)word[at + 1];
        if (sets) continue;
        for (unsigned long long i = thread; i < units; i += TOGETHER * all) {
            unit some[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) some[k] = stepc_load_whole<4>((const unsigned *)from + 4 * (i + k * all), i + k * all < units);
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) stepc_store_whole((unsigned *)to + 4 * (i + k * all), some[k], i + k * all < units);
        }
        for (unsigned long long i = units * sizeof(unit) + thread; i < bytes; i += all) {
            to[i] = from[i];
            if (clears) from[i] = 0;
        }
    }
}
