/* The interpreter of nests: a plain reading of nest.h, one lane after the other, so that lowering can be tested
 * without a back end and a back end against it. Floats are kept in double and rounded to their dtype after every
 * operation; integers wrap. Every access is checked against the size of its buffer. */
#include "codegen/nest/nest.h"
#include <math.h>
#include <string.h>

struct scalar {
    double f;
    int64_t i;
};

struct machine {
    const struct nest *nest;
    void **buffers;
    size_t *bytes;
    struct scalar *value;
    int64_t *var;
    struct scalar **reg; /* registers x lanes */
    uint8_t *reg_dtype;
    uint32_t lane;
    int64_t lo, hi;
    bool ok;
    struct arena *arena;
};

/* ---------------------------------------------------------------- dtypes */

static float bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (isnan(x)) return x;
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&x, &bits, 4);
    return x;
}

static double f16_round(double x)
{
    if (!isfinite(x) || x == 0) return x;
    int exponent;
    frexp(x, &exponent);
    double unit = ldexp(1, (exponent < -13 ? -13 : exponent) - 11);
    double rounded = nearbyint(x / unit) * unit;
    return fabs(rounded) >= 65520 ? copysign(HUGE_VAL, x) : rounded;
}

static struct scalar from_double(enum ir_dtype dtype, double x)
{
    struct scalar s = {0};
    switch (dtype) {
    case IR_F64: s.f = x; break;
    case IR_F32: s.f = (float)x; break;
    case IR_BF16: s.f = bf16_round((float)x); break;
    case IR_F16: s.f = f16_round(x); break;
    default: s.i = isnan(x) ? 0 : x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x; break;
    }
    return s;
}

static int64_t wrap(enum ir_dtype dtype, int64_t x)
{
    switch (dtype) {
    case IR_BOOL: return x != 0;
    case IR_U8: return (uint8_t)x;
    case IR_U16: return (uint16_t)x;
    case IR_U32: return (uint32_t)x;
    case IR_I8: return (int8_t)x;
    case IR_I16: return (int16_t)x;
    case IR_I32: return (int32_t)x;
    default: return x;
    }
}

static struct scalar from_int(enum ir_dtype dtype, int64_t x)
{
    return ir_dtype_is_float(dtype) ? from_double(dtype, (double)x) : (struct scalar){.i = wrap(dtype, x)};
}

static struct scalar convert(enum ir_dtype to, enum ir_dtype from, struct scalar x)
{
    if (!ir_dtype_is_float(from))
        return to == IR_BOOL                             ? from_int(to, x.i != 0)
               : from == IR_U64 && ir_dtype_is_float(to) ? from_double(to, (double)(uint64_t)x.i)
                                                         : from_int(to, x.i);
    if (ir_dtype_is_float(to)) return from_double(to, x.f);
    if (to == IR_BOOL) return (struct scalar){.i = x.f != 0};
    static const struct {
        double low, high;
    } range[IR_DTYPE_COUNT] = {
        [IR_U8] = {0, 255},    [IR_U16] = {0, 65535},      [IR_U32] = {0, 4294967295.0},
        [IR_I8] = {-128, 127}, [IR_I16] = {-32768, 32767}, [IR_I32] = {-2147483648.0, 2147483647.0}};
    double t = isnan(x.f) ? 0 : trunc(x.f);
    if (to == IR_U64) return (struct scalar){.i = t <= 0 ? 0 : t >= 0x1p64 ? -1 : (int64_t)(uint64_t)t};
    if (range[to].high != 0) /* saturates, as XLA does */
        t = t < range[to].low ? range[to].low : t > range[to].high ? range[to].high : t;
    return from_double(to, t);
}

static struct scalar read_bytes(enum ir_dtype dtype, const unsigned char *at)
{
    struct ir_tensor t = {.type = ir_type_scalar(dtype)};
    struct scalar s = {0};
    size_t n = ir_dtype_bytes(dtype);
    if (dtype == IR_F64) {
        memcpy(&s.f, at, 8);
    } else if (dtype == IR_F32) {
        float f;
        memcpy(&f, at, 4);
        s.f = f;
    } else if (ir_dtype_is_float(dtype)) {
        struct arena scratch = {0};
        ir_tensor_from_bytes(&t, at, &scratch);
        s.f = t.v[0];
        arena_free(&scratch);
    } else {
        uint64_t bits = 0;
        memcpy(&bits, at, n);
        s.i = wrap(dtype, (int64_t)bits);
    }
    return s;
}

static void write_bytes(enum ir_dtype dtype, unsigned char *at, struct scalar s)
{
    if (dtype == IR_F64) {
        memcpy(at, &s.f, 8);
    } else if (dtype == IR_F32) {
        float f = (float)s.f;
        memcpy(at, &f, 4);
    } else if (ir_dtype_is_float(dtype)) {
        struct ir_tensor t = {.type = ir_type_scalar(dtype), .v = &s.f};
        ir_tensor_to_bytes(&t, at);
    } else {
        memcpy(at, &s.i, ir_dtype_bytes(dtype));
    }
}

/* ---------------------------------------------------------------- operations */

static double sign_of(double x) { return isnan(x) ? x : (double)((x > 0) - (x < 0)); }
static double max_of(double x, double y) { return isnan(x) || isnan(y) ? NAN : x > y ? x : y; }
static double min_of(double x, double y) { return isnan(x) || isnan(y) ? NAN : x < y ? x : y; }

static double erf_inv(double x)
{ /* Winitzki's approximation and three Newton steps */
    if (fabs(x) >= 1) return fabs(x) > 1 ? NAN : x * HUGE_VAL;
    double w = -log((1 - x) * (1 + x)), t = 2 / (3.14159265358979323846 * 0.147) - w / 2;
    double y = copysign(sqrt(sqrt(t * t + w / 0.147) - t), x);
    for (int i = 0; i < 3; i++) y -= (erf(y) - x) / (1.1283791670955126 * exp(-y * y));
    return y;
}

static double float_unary(enum ir_op op, double x)
{
    switch (op) {
    case OP_neg: return -x;
    case OP_abs: return fabs(x);
    case OP_sign: return sign_of(x);
    case OP_exp: return exp(x);
    case OP_expm1: return expm1(x);
    case OP_log: return log(x);
    case OP_log1p: return log1p(x);
    case OP_sqrt: return sqrt(x);
    case OP_rsqrt: return 1 / sqrt(x);
    case OP_cbrt: return cbrt(x);
    case OP_tanh: return tanh(x);
    case OP_logistic: return 1 / (1 + exp(-x));
    case OP_sin: return sin(x);
    case OP_cos: return cos(x);
    case OP_erf: return erf(x);
    case OP_erf_inv: return erf_inv(x);
    case OP_floor: return floor(x);
    case OP_ceil: return ceil(x);
    case OP_round: return nearbyint(x);
    default: BUG("nest_eval: no unary %s of floats", ir_ops[op].name);
    }
}

static double float_binary(enum ir_op op, double x, double y)
{
    switch (op) {
    case OP_add: return x + y;
    case OP_sub: return x - y;
    case OP_mul: return x * y;
    case OP_div: return x / y;
    case OP_rem: return fmod(x, y);
    case OP_pow: return pow(x, y);
    case OP_atan2: return atan2(x, y);
    case OP_max: return max_of(x, y);
    case OP_min: return min_of(x, y);
    default: BUG("nest_eval: no binary %s of floats", ir_ops[op].name);
    }
}

static int64_t int_power(int64_t x, int64_t y)
{
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t result = 1;
    for (uint64_t base = (uint64_t)x; y; y >>= 1, base *= base) result *= y & 1 ? base : 1;
    return (int64_t)result;
}

static int64_t int_op(enum ir_op op, enum ir_dtype dtype, int64_t x, int64_t y)
{
    int64_t bits = (int64_t)ir_dtype_bytes(dtype) * 8;
    bool is_signed = ir_dtype_is_signed(dtype);
    switch (op) {
    case OP_neg: return (int64_t)(0 - (uint64_t)x);
    case OP_abs: return x < 0 ? -x : x;
    case OP_sign: return (x > 0) - (x < 0);
    case OP_not: return dtype == IR_BOOL ? !x : ~x;
    case OP_floor:
    case OP_ceil:
    case OP_round: return x;
    case OP_add: return dtype == IR_BOOL ? x | y : (int64_t)((uint64_t)x + (uint64_t)y);
    case OP_sub: return (int64_t)((uint64_t)x - (uint64_t)y);
    case OP_mul: return (int64_t)((uint64_t)x * (uint64_t)y);
    case OP_div: return y == 0 ? -1 : is_signed ? (y == -1 ? -x : x / y) : (int64_t)((uint64_t)x / (uint64_t)y);
    case OP_rem: return y == 0 ? x : is_signed ? (y == -1 ? 0 : x % y) : (int64_t)((uint64_t)x % (uint64_t)y);
    case OP_pow: return int_power(x, y);
    case OP_max: return is_signed ? (x > y ? x : y) : ((uint64_t)x > (uint64_t)y ? x : y);
    case OP_min: return is_signed ? (x < y ? x : y) : ((uint64_t)x < (uint64_t)y ? x : y);
    case OP_and: return x & y;
    case OP_or: return x | y;
    case OP_xor: return x ^ y;
    case OP_shl: return (uint64_t)y >= (uint64_t)bits ? 0 : (int64_t)((uint64_t)x << y);
    case OP_shr:
        if (is_signed) return (uint64_t)y >= (uint64_t)bits ? (x < 0 ? -1 : 0) : x >> y;
        return (uint64_t)y >= (uint64_t)bits ? 0 : (int64_t)((uint64_t)x >> y);
    default: BUG("nest_eval: no %s of integers", ir_ops[op].name);
    }
}

static bool compare(enum ir_op op, enum ir_dtype dtype, struct scalar x, struct scalar y)
{
    if (ir_dtype_is_float(dtype))
        return op == OP_eq ? x.f == y.f : op == OP_ne ? x.f != y.f : op == OP_lt ? x.f < y.f : x.f <= y.f;
    bool less = ir_dtype_is_signed(dtype) ? x.i < y.i : (uint64_t)x.i < (uint64_t)y.i;
    return op == OP_eq ? x.i == y.i : op == OP_ne ? x.i != y.i : op == OP_lt ? less : less || x.i == y.i;
}

static uint32_t threefry(const struct scalar *a, uint32_t word)
{
    static const uint32_t turn[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t k[3] = {(uint32_t)a[0].i, (uint32_t)a[1].i, 0}, x[2] = {(uint32_t)a[2].i, (uint32_t)a[3].i};
    k[2] = k[0] ^ k[1] ^ 0x1BD11BDAu;
    x[0] += k[0], x[1] += k[1];
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t r = turn[round & 1][i];
            x[0] += x[1];
            x[1] = (x[1] << r | x[1] >> (32 - r)) ^ x[0];
        }
        x[0] += k[(round + 1) % 3];
        x[1] += k[(round + 2) % 3] + round + 1;
    }
    return x[word];
}

static struct scalar combine(enum ir_op op, enum ir_dtype dtype, struct scalar x, struct scalar y)
{
    if (ir_dtype_is_float(dtype)) return from_double(dtype, float_binary(op, x.f, y.f));
    if (dtype == IR_BOOL && (op == OP_max || op == OP_min)) op = op == OP_max ? OP_or : OP_and;
    return from_int(dtype, int_op(op, dtype, x.i, y.i));
}

static struct scalar apply(const struct nest_stmt *s, const struct scalar *x, enum ir_dtype from)
{
    enum ir_dtype to = (enum ir_dtype)s->dtype;
    switch ((enum ir_op)s->op) {
    case OP_cast: return convert(to, from, x[0]);
    case OP_bitcast: {
        unsigned char bytes[8];
        write_bytes(from, bytes, x[0]);
        return read_bytes(to, bytes);
    }
    case OP_is_finite: return (struct scalar){.i = !ir_dtype_is_float(from) || isfinite(x[0].f)};
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le: return (struct scalar){.i = compare((enum ir_op)s->op, from, x[0], x[1])};
    case OP_select: return x[0].i ? x[1] : x[2];
    case OP_threefry: return (struct scalar){.i = threefry(x, s->word)};
    default: break;
    }
    if (s->arg_count == 2) return combine((enum ir_op)s->op, to, x[0], x[1]);
    if (ir_dtype_is_float(to)) return from_double(to, float_unary((enum ir_op)s->op, x[0].f));
    return from_int(to, int_op((enum ir_op)s->op, to, x[0].i, 0));
}

/* ---------------------------------------------------------------- statements */

static int64_t index_of(const struct machine *m, const struct nest_index *index)
{
    int64_t at = index->offset;
    for (uint32_t i = 0; i < index->term_count; i++) at += m->var[index->terms[i].var] * index->terms[i].scale;
    for (uint32_t i = 0; i < index->scaled_count; i++)
        at += m->value[index->scaled[i].value].i * index->scaled[i].scale;
    return at;
}

static unsigned char *address(struct machine *m, const struct nest_stmt *s)
{
    int64_t at = index_of(m, &s->index),
            size = (int64_t)ir_dtype_bytes((enum ir_dtype)m->nest->buffers.items[s->buffer].dtype);
    if (at < 0 || (at + 1) * size > (int64_t)m->bytes[s->buffer]) {
        m->ok = false;
        return NULL;
    }
    return (unsigned char *)m->buffers[s->buffer] + at * size;
}

static struct scalar *reg_at(struct machine *m, const struct nest_stmt *s)
{
    return &m->reg[s->reg][index_of(m, &s->index) * m->nest->lanes + m->lane];
}

static void run(struct machine *, struct nest_stmt *const *items, size_t count, const uint8_t *dtypes);

static void run_loop(struct machine *m, const struct nest_stmt *s, const uint8_t *dtypes)
{
    bool range = s->loop == NEST_PARALLEL || s->extent < 0;
    int64_t from = range ? m->lo : 0, to = range ? m->hi : s->extent;
    for (int64_t i = from; i < to && m->ok; i++) {
        m->var[s->var] = i;
        if (s->loop == NEST_VECTOR) m->lane = (uint32_t)((i - from) % m->nest->lanes);
        run(m, s->body.items, s->body.count, dtypes);
    }
    m->lane = 0;
}

static void declare(struct machine *m, const struct nest_stmt *s)
{
    if (s->kind == NEST_LOCAL) {
        m->bytes[s->buffer] = (size_t)s->extent * ir_dtype_bytes((enum ir_dtype)s->dtype);
        m->buffers[s->buffer] = arena_alloc(m->arena, m->bytes[s->buffer]);
        return;
    }
    size_t count = (size_t)s->extent * m->nest->lanes;
    if (!m->reg[s->reg]) m->reg[s->reg] = arena_new_array(m->arena, struct scalar, count);
    m->reg_dtype[s->reg] = s->dtype;
    for (size_t i = 0; i < count; i++) m->reg[s->reg][i] = m->value[s->args[0]];
}

static void step(struct machine *m, const struct nest_stmt *s, const uint8_t *dtypes)
{
    struct scalar x[4], result = {0};
    enum ir_dtype dtype = (enum ir_dtype)s->dtype;
    unsigned char *at;
    for (uint32_t i = 0; i < s->arg_count; i++) x[i] = m->value[s->args[i]];
    switch (s->kind) {
    case NEST_FOR: run_loop(m, s, dtypes); return;
    case NEST_IF:
        if (m->value[s->cond].i) run(m, s->body.items, s->body.count, dtypes);
        return;
    case NEST_OP: result = apply(s, x, (enum ir_dtype)(s->arg_count ? dtypes[s->args[0]] : s->dtype)); break;
    case NEST_FMA:
        result = dtype == IR_F64 ? from_double(dtype, fma(x[0].f, x[1].f, x[2].f))
                                 : from_double(dtype, fmaf((float)x[0].f, (float)x[1].f, (float)x[2].f));
        break;
    case NEST_NUMBER: result = from_double(dtype, s->number); break;
    case NEST_POSITION: result.i = (int32_t)index_of(m, &s->index); break;
    case NEST_LOAD:
        if (s->cond && !m->value[s->cond].i) break;
        if ((at = address(m, s))) result = read_bytes(dtype, at);
        break;
    case NEST_STORE:
        if (!(s->cond && !m->value[s->cond].i) && (at = address(m, s))) write_bytes(dtype, at, x[0]);
        return;
    case NEST_ADD_TO:
        if ((at = address(m, s))) write_bytes(dtype, at, combine(OP_add, dtype, read_bytes(dtype, at), x[0]));
        return;
    case NEST_REG:
    case NEST_LOCAL: declare(m, s); return;
    case NEST_GET: result = *reg_at(m, s); break;
    case NEST_SET: *reg_at(m, s) = x[0]; return;
    case NEST_REDUCE: *reg_at(m, s) = combine((enum ir_op)s->op, dtype, *reg_at(m, s), x[0]); return;
    case NEST_FOLD:
        result = reg_at(m, s)[0];
        for (uint32_t lane = 1; lane < m->nest->lanes; lane++)
            result = combine((enum ir_op)s->op, dtype, result, reg_at(m, s)[lane]);
        break;
    }
    m->value[s->result] = result;
}

static void run(struct machine *m, struct nest_stmt *const *items, size_t count, const uint8_t *dtypes)
{
    for (size_t i = 0; i < count && m->ok; i++) step(m, items[i], dtypes);
}

static void collect_dtypes(struct nest_stmt *const *items, size_t count, uint8_t *dtypes)
{
    for (size_t i = 0; i < count; i++) {
        if (items[i]->result) dtypes[items[i]->result] = items[i]->dtype;
        collect_dtypes(items[i]->body.items, items[i]->body.count, dtypes);
    }
}

bool nest_eval(const struct nest *nest, void *const *buffers, const size_t *bytes, int64_t lo, int64_t hi,
               struct arena *arena)
{
    struct machine m = {.nest = nest, .lo = lo, .hi = hi, .ok = true, .arena = arena};
    m.buffers = arena_new_array(arena, void *, nest->buffers.count);
    m.bytes = arena_new_array(arena, size_t, nest->buffers.count);
    for (uint32_t i = 0; i < nest->argument_count; i++) m.buffers[i] = buffers[i], m.bytes[i] = bytes[i];
    m.value = arena_new_array(arena, struct scalar, nest->value_count);
    m.var = arena_new_array(arena, int64_t, nest->var_count + 1);
    m.reg = arena_new_array(arena, struct scalar *, nest->reg_count + 1);
    m.reg_dtype = arena_new_array(arena, uint8_t, nest->reg_count + 1);
    uint8_t *dtypes = arena_new_array(arena, uint8_t, nest->value_count);
    collect_dtypes(nest->body.items, nest->body.count, dtypes);
    run(&m, nest->body.items, nest->body.count, dtypes);
    return m.ok;
}
