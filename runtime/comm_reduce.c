/* Sums over the members of a group, element by element, in an order that depends on the group alone: neighbours by two,
 * these sums by two, and so on (a binary counter), whoever computes them, so that threads, ranks and both at once give
 * the same bits. Floats of 16 bits and fewer are summed as float32 and rounded at the end; sums of integers wrap. */
#include "kernels/num.h"
#include "runtime/comm_rows.h"

#include <string.h>

enum { RT_CHUNK = 256, RT_LEVELS = 14 /* sums that wait for their neighbour: of up to 2^13 members */ };

enum kind { F32, F64, INTEGER };

static enum kind kind_of(uint32_t dtype) { return dtype == STEP_F64 ? F64 : dtype >= STEP_F8E4M3 ? F32 : INTEGER; }

uint32_t rt_sum_bytes(uint32_t dtype) { return kind_of(dtype) == F32 ? sizeof(float) : sizeof(double); }

uint32_t rt_block(uint32_t first, uint32_t end)
{
    uint32_t n = 1;
    while (first % (2 * n) == 0 && first + 2 * n <= end) n *= 2;
    return n;
}

union level {
    float f32[RT_CHUNK];
    double f64[RT_CHUNK];
    int64_t integer[RT_CHUNK];
};

static int64_t integer_at(const void *data, uint32_t dtype, int64_t i)
{
    return dtype == STEP_I64 || dtype == STEP_U64 ? ((const int64_t *)data)[i] : (int64_t)rt_number_at(data, dtype, i);
}

static void load(union level *to, enum kind kind, uint32_t dtype, const struct rt_part *p, int64_t n)
{
    if (p->summed || dtype == STEP_F32 || kind == F64) memcpy(to, p->data, (size_t)n * rt_sum_bytes(dtype));
    else if (dtype == STEP_BF16)
        for (int64_t i = 0; i < n; i++) to->f32[i] = k_float_of_bf16(((const uint16_t *)p->data)[i]);
    else if (kind == F32)
        for (int64_t i = 0; i < n; i++) to->f32[i] = (float)rt_number_at(p->data, dtype, i);
    else
        for (int64_t i = 0; i < n; i++) to->integer[i] = integer_at(p->data, dtype, i);
}

static double combine(double a, double b, uint32_t reduction)
{
    if (a != a || b != b) return a + b; /* NaN stays, as in jnp.maximum */
    return reduction == STEPC_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

/* Sums wrap; the order of unsigned 64-bit numbers is that of the signed ones with the top bit flipped. */
static int64_t combine_integer(int64_t a, int64_t b, uint32_t reduction, uint32_t dtype)
{
    if (reduction == STEPC_SUM) return (int64_t)((uint64_t)a + (uint64_t)b);
    uint64_t flip = dtype == STEP_U64 ? (uint64_t)1 << 63 : 0;
    bool greater = (int64_t)((uint64_t)a ^ flip) > (int64_t)((uint64_t)b ^ flip);
    return greater == (reduction == STEPC_MAX) ? a : b;
}

static void add_f32(float *to, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = a[i] + b[i];
}

/* a and b, either of which may lie where the result goes. */
static void merge(union level *to, const union level *a, const union level *b, enum kind kind,
                  const struct stepc_command *c, int64_t n)
{
    bool sum = c->reduction == STEPC_SUM;
    if (kind == F32 && sum) {
        add_f32(to->f32, a->f32, b->f32, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (kind == INTEGER) to->integer[i] = combine_integer(a->integer[i], b->integer[i], c->reduction, c->dtype);
        else if (kind == F64) to->f64[i] = sum ? a->f64[i] + b->f64[i] : combine(a->f64[i], b->f64[i], c->reduction);
        else to->f32[i] = (float)combine(a->f32[i], b->f32[i], c->reduction);
}

static void store(void *out, const union level *from, enum kind kind, uint32_t dtype, bool summed, int64_t n)
{
    uint32_t item = rt_dtype_bytes(dtype);
    if (summed || dtype == STEP_F32 || kind == F64) memcpy(out, from, (size_t)n * rt_sum_bytes(dtype));
    else if (dtype == STEP_BF16)
        for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i] = k_bf16_of_float(from->f32[i]);
    else if (kind == F32)
        for (int64_t i = 0; i < n; i++) rt_number_put(out, dtype, i, from->f32[i]);
    else
        for (int64_t i = 0; i < n; i++) { /* little-endian: the low bytes are the wrapped value */
            int64_t x = dtype == STEP_BOOL ? from->integer[i] != 0 : from->integer[i];
            memcpy((char *)out + (size_t)i * item, &x, item);
        }
}

static bool is_aligned(const void *data) { return (uintptr_t)data % _Alignof(union level) == 0; }

/* What is added, with how many members' sums it is and of whom the first. */
struct summand {
    const union level *data; /* in place, or the level */
    uint32_t first, count;
};

static void reduce_chunk(const struct stepc_command *c, rt_part_fn *part, const void *context, uint32_t parts,
                         int64_t at, int64_t n, void *out, bool summed)
{
    _Alignas(64) union level levels[RT_LEVELS];
    struct summand s[RT_LEVELS + 1];
    uint32_t depth = 0;
    enum kind kind = kind_of(c->dtype);
    bool direct = kind == F32 && (summed || c->dtype == STEP_F32) && is_aligned(out);
    for (uint32_t k = 0; k < parts; k++) {
        struct rt_part p = part(context, k, at);
        bool in_place = kind == F32 && (p.summed || c->dtype == STEP_F32) && is_aligned(p.data);
        if (!in_place) load(&levels[depth], kind, c->dtype, &p, n);
        s[depth] = (struct summand){in_place ? p.data : &levels[depth], p.first, p.count};
        for (depth++; depth > 1; depth--) {
            struct summand *a = &s[depth - 2], *b = a + 1;
            bool pair = a->count == b->count && a->first % (2 * b->count) == 0;
            if (!pair && k + 1 < parts) break; /* what is left at the end is added from the last one on */
            union level *to = direct && depth == 2 && k + 1 == parts ? out : &levels[depth - 2];
            merge(to, a->data, b->data, kind, c, n);
            a->data = to;
            a->count += b->count;
        }
    }
    if (s[0].data != out) store(out, s[0].data, kind, c->dtype, summed, n);
}

void rt_reduce(const struct stepc_command *c, rt_part_fn *part, const void *context, uint32_t parts, int64_t at,
               int64_t n, void *out, bool summed)
{
    uint32_t item = summed ? rt_sum_bytes(c->dtype) : rt_dtype_bytes(c->dtype);
    for (int64_t done = 0; done < n; done += RT_CHUNK) {
        int64_t some = n - done < RT_CHUNK ? n - done : RT_CHUNK;
        reduce_chunk(c, part, context, parts, at + done, some, (char *)out + (size_t)done * item, summed);
    }
}
