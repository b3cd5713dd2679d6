/* The interpreter of nests: a plain reading of nest.h, one lane after the other, so that lowering can be tested
 * without a back end and a back end against it. Numbers are doubles with the values of their dtype, as in the tensor
 * interpreter, whose rules do the arithmetic. Every access is checked against the size of its buffer. */
#include "codegen/nest/nest.h"
#include <math.h>
#include <string.h>

struct machine {
    const struct nest *nest;
    void **buffers;
    size_t *bytes;
    double *value;
    int64_t *var;
    double **reg; /* registers x lanes */
    int64_t *reg_count;
    uint32_t lane;
    int64_t lo, hi;
    bool ok;
    struct arena *arena;
    bool inside; /* a parallel loop, whose iteration it is, counted over those in it */
    int64_t iteration;
    struct ir_node node; /* scalars of the tensor interpreter, made once: an operation sets what differs */
    struct ir_tensor args[4], out;
};

/* ---------------------------------------------------------------- operations */

/* By the rules of the tensor interpreter. */
static double apply(struct machine *m, enum ir_op op, enum ir_dtype dtype, const enum ir_dtype *from, double *x,
                    uint32_t count, int64_t word)
{
    double result = 0;
    m->node.op = (uint16_t)op;
    m->node.arg_count = count;
    m->node.attr[0] = (struct ir_ints){&word, 1};
    m->node.type.dtype = m->out.type.dtype = (uint8_t)dtype;
    m->out.v = &result;
    for (uint32_t i = 0; i < count; i++) m->args[i].type.dtype = (uint8_t)from[i], m->args[i].v = &x[i];
    ir_eval_node(&m->node, m->args, &m->out);
    return result;
}

static double combine(struct machine *m, enum ir_op op, enum ir_dtype dtype, double x, double y)
{
    return apply(m, op, dtype, (enum ir_dtype[]){dtype, dtype}, (double[]){x, y}, 2, 0);
}

/* ---------------------------------------------------------------- statements */

static int64_t index_of(const struct machine *m, const struct nest_index *index)
{
    int64_t at = index->offset;
    for (uint32_t i = 0; i < index->term_count; i++) at += m->var[index->terms[i].var] * index->terms[i].scale;
    for (uint32_t i = 0; i < index->scaled_count; i++)
        at += (int64_t)m->value[index->scaled[i].value] * index->scaled[i].scale;
    return at;
}

/* The numbers of a pair. */
static double half_of(enum ir_dtype dtype, double pair, int which)
{
    uint16_t bits = (uint16_t)((uint32_t)pair >> 16 * which);
    return ir_element_get(dtype, &bits, 0);
}

static double fma_of(enum ir_dtype dtype, enum ir_dtype from, const double *x)
{
    if (dtype == IR_F64) return fma(x[0], x[1], x[2]);
    if (from != IR_U32) return ir_element_round(dtype, (double)fmaf((float)x[0], (float)x[1], (float)x[2]));
    float sum = (float)x[2];
    for (int which = 2; which-- > 0;)
        sum = fmaf((float)half_of(IR_BF16, x[0], which), (float)half_of(IR_BF16, x[1], which), sum);
    return (double)sum;
}

static unsigned char *address(struct machine *m, const struct nest_stmt *s)
{
    int64_t at = index_of(m, &s->index),
            size = (int64_t)ir_dtype_bytes((enum ir_dtype)m->nest->buffers.items[s->buffer].dtype);
    bool pair = s->word && (s->kind == NEST_LOAD || s->kind == NEST_STORE);
    if (at < 0 || (at + 1 + pair) * size > (int64_t)m->bytes[s->buffer]) {
        m->ok = false;
        return NULL;
    }
    return (unsigned char *)m->buffers[s->buffer] + at * size;
}

static double *reg_at(struct machine *m, const struct nest_stmt *s)
{
    return &m->reg[s->reg][index_of(m, &s->index) * m->nest->lanes + m->lane];
}

static void run(struct machine *, struct nest_stmt *const *items, size_t count, const uint8_t *dtypes);

static void run_loop(struct machine *m, const struct nest_stmt *s, const uint8_t *dtypes)
{
    if (s->loop == NEST_PARALLEL && m->inside) { /* where the outermost one is */
        m->var[s->var] = m->iteration / nest_inner(s) % s->extent;
        run(m, s->body.items, s->body.count, dtypes);
        return;
    }
    int64_t inner = s->loop == NEST_PARALLEL ? nest_inner(s) : 1;
    bool range = s->loop == NEST_PARALLEL || s->extent < 0;
    m->inside = m->inside || s->loop == NEST_PARALLEL;
    int64_t from = range ? m->lo : 0, to = range ? m->hi : s->extent;
    for (int64_t i = from; i < to && m->ok; i++) {
        m->var[s->var] = i / inner;
        if (s->loop == NEST_PARALLEL) m->iteration = i;
        if (s->loop == NEST_VECTOR) m->lane = (uint32_t)((i - from) % m->nest->lanes);
        run(m, s->body.items, s->body.count, dtypes);
    }
    if (s->loop == NEST_VECTOR) m->lane = 0;
    m->inside = m->inside && s->loop != NEST_PARALLEL;
}

static void declare(struct machine *m, const struct nest_stmt *s)
{
    if (s->kind == NEST_LOCAL) {
        m->bytes[s->buffer] = (size_t)s->extent * ir_dtype_bytes((enum ir_dtype)s->dtype);
        m->buffers[s->buffer] = arena_alloc(m->arena, m->bytes[s->buffer]);
        return;
    }
    size_t count = (size_t)s->extent * m->nest->lanes;
    m->reg_count[s->reg] = s->extent;
    if (!m->reg[s->reg]) m->reg[s->reg] = arena_new_array(m->arena, double, count);
    for (size_t i = 0; i < count; i++) m->reg[s->reg][i] = m->value[s->args[0]];
}

static void turn(double *x, int64_t count, uint32_t lanes)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < i; k++) {
            double kept = x[i * lanes + k];
            x[i * lanes + k] = x[k * lanes + i];
            x[k * lanes + i] = kept;
        }
}

static void spread(struct machine *m, const struct nest_stmt *s)
{
    int64_t lanes = m->nest->lanes, first = index_of(m, &s->index);
    for (int64_t i = 0; i < m->reg_count[s->reg]; i++)
        for (int64_t lane = 0; lane < lanes; lane++) {
            int64_t from = first + lane / s->extent * s->from[1];
            m->reg[s->reg][i * lanes + lane] = from < lanes ? m->reg[s->from[0]][i * lanes + from] : 0;
        }
}

/* Element (row, step) of left tile `tile`, element (column, step) of a right one: of `registers` a lane has so many of
 * each, `rows` of them for rows. */
static double factor_of(const struct machine *m, const struct nest_stmt *s, int which, uint32_t warp, int64_t tile,
                        uint32_t row, uint32_t step)
{
    uint32_t lane = 32 * warp + row % 8 * 4 + step % 8 / 2, rows = which ? 1 : 2;
    int64_t number = tile * 2 * rows + row / 8 + step / 8 * rows;
    return half_of((enum ir_dtype)s->dtype, m->reg[s->from[which]][number * m->nest->lanes + lane], (int)(step % 2));
}

static void matrix(struct machine *m, const struct nest_stmt *s)
{
    int64_t right = m->reg_count[s->from[1]] / 2;
    for (int64_t number = 0; number < m->reg_count[s->reg]; number++)
        for (uint32_t lane = 0; lane < m->nest->lanes; lane++) {
            uint32_t row = lane % 32 / 4 + (uint32_t)(number / 2 % 2) * 8,
                     column = lane % 4 * 2 + (uint32_t)(number % 2);
            double *sum = &m->reg[s->reg][number * m->nest->lanes + lane];
            for (uint32_t k = 0; k < 16; k++)
                *sum = (double)fmaf((float)factor_of(m, s, 0, lane / 32, number / 4 / right, row, k),
                                    (float)factor_of(m, s, 1, lane / 32, number / 4 % right, column, k), (float)*sum);
        }
}

/* An element of a panel: its bits, of a row (or column) and a step. */
static uint16_t panel_bits(struct machine *m, uint32_t from, const struct nest_index *first, bool steps_first,
                           int64_t steps, int64_t row, int64_t step)
{
    int64_t beside = m->nest->buffers.items[from].swizzle / 2;
    int64_t at = steps_first ? row * steps + step : (row / beside * steps + step) * beside + row % beside;
    int64_t pair = index_of(m, first) + at / 2;
    if (pair < 0 || (pair + 1) * 4 > (int64_t)m->bytes[from]) return m->ok = false;
    return (uint16_t)(((const uint32_t *)m->buffers[from])[pair] >> at % 2 * 16);
}

static double panel_of(struct machine *m, const struct nest_stmt *s, int which, int64_t row, int64_t step)
{
    const struct nest_panels *p = s->panels;
    uint16_t bits = panel_bits(m, p->from[which], &p->at[which], p->steps_first[which], p->steps, row, step);
    return half_of((enum ir_dtype)s->dtype, (double)bits, 0);
}

static void warpgroup(struct machine *m, const struct nest_stmt *s)
{
    for (int64_t number = 0; number < s->panels->columns / 2; number++)
        for (uint32_t lane = 0; lane < m->nest->lanes; lane++) {
            int64_t row = lane / 32 * 16 + lane % 32 / 4 + number / 2 % 2 * 8,
                    column = number / 4 * 8 + lane % 4 * 2 + number % 2;
            double *sum = &m->reg[s->reg][number * m->nest->lanes + lane];
            for (int64_t k = 0; k < s->panels->steps; k++)
                *sum = (double)fmaf((float)panel_of(m, s, 0, row, k), (float)panel_of(m, s, 1, column, k), (float)*sum);
        }
}

/* As NEST_MATRIX has it: of a left tile two rows and two pairs of steps, of a right one a column and these. */
static void take(struct machine *m, const struct nest_stmt *s)
{
    const struct nest_take *t = s->take;
    int64_t rows = t->left ? 2 : 1;
    for (int64_t number = 0; number < m->reg_count[s->reg]; number++)
        for (uint32_t lane = 0; lane < m->nest->lanes; lane++) {
            int64_t row = lane / 32 / t->by % t->count * t->size + number / (2 * rows) * 8 * rows + number % rows * 8 +
                          lane % 32 / 4,
                    step = t->step + number / rows % 2 * 8 + lane % 4 * 2;
            uint32_t pair = panel_bits(m, t->from, &t->at, t->steps_first, t->steps, row, step);
            pair |= (uint32_t)panel_bits(m, t->from, &t->at, t->steps_first, t->steps, row, step + 1) << 16;
            m->reg[s->reg][number * m->nest->lanes + lane] = (double)pair;
        }
}

/* At once, as early as it may be. */
static void copy(struct machine *m, const struct nest_stmt *s, bool live)
{
    size_t size = ir_dtype_bytes((enum ir_dtype)m->nest->buffers.items[s->from[0]].dtype);
    int64_t to = index_of(m, &s->index) * 4, from = index_of(m, s->source) * (int64_t)size;
    bool inside = to >= 0 && to + 16 <= (int64_t)m->bytes[s->buffer] &&
                  (!live || (from >= 0 && from + 16 <= (int64_t)m->bytes[s->from[0]]));
    m->ok = m->ok && inside;
    if (!inside) return;
    if (live) memcpy((char *)m->buffers[s->buffer] + to, (const char *)m->buffers[s->from[0]] + from, 16);
    else memset((char *)m->buffers[s->buffer] + to, 0, 16);
}

/* A pair of an operand: row (or column) and step. */
static bool pair_of(struct machine *m, const struct nest_tiles *t, int which, int64_t row, int64_t step, float *pair)
{
    enum ir_dtype dtype = (enum ir_dtype)m->nest->buffers.items[t->from[which]].dtype;
    int64_t size = (int64_t)ir_dtype_bytes(dtype), wide = 4 / size;
    int64_t at = index_of(m, &t->at[which]) +
                 (which ? step * t->apart[1] + row * wide : row * t->apart[0] + step * wide);
    if (at < 0 || (at + wide) * size > (int64_t)m->bytes[t->from[which]]) return m->ok = false;
    uint32_t bits;
    memcpy(&bits, (const char *)m->buffers[t->from[which]] + at * size, 4);
    for (int i = 0; i < 2; i++) pair[i] = (float)half_of(IR_BF16, bits, i);
    return true;
}

static void tiles(struct machine *m, const struct nest_stmt *s)
{
    const struct nest_tiles *t = s->tiles;
    float *sum = m->buffers[s->buffer], x[2], y[2];
    int64_t first = index_of(m, &s->index);
    for (int64_t row = 0; row < t->rows; row++)
        for (int64_t column = 0; column < t->columns; column++) {
            int64_t at = first + row * t->stride + column;
            if (at < 0 || (at + 1) * 4 > (int64_t)m->bytes[s->buffer]) {
                m->ok = false;
                return;
            }
            float all = s->word ? sum[at] : 0;
            for (int64_t from = 0; from < t->steps; from += NEST_TILE) {
                float half[2] = {0, 0};
                for (int64_t k = from; k < t->steps && k < from + NEST_TILE; k++) {
                    if (!pair_of(m, t, 0, row, k, x) || !pair_of(m, t, 1, column, k, y)) return;
                    for (int i = 0; i < 2; i++) half[i] = fmaf(x[i], y[i], half[i]);
                }
                all += half[0] + half[1];
            }
            sum[at] = all;
        }
}

static void step(struct machine *m, const struct nest_stmt *s, const uint8_t *dtypes)
{
    double x[5], result = 0;
    enum ir_dtype dtype = (enum ir_dtype)s->dtype, from[5];
    bool live = !s->cond || m->value[s->cond] != 0;
    void *at;
    for (uint32_t i = 0; i < s->arg_count; i++)
        x[i] = m->value[s->args[i]], from[i] = (enum ir_dtype)dtypes[s->args[i]];
    switch (s->kind) {
    case NEST_FOR: run_loop(m, s, dtypes); return;
    case NEST_IF:
        if (live) run(m, s->body.items, s->body.count, dtypes);
        return;
    case NEST_OP: result = apply(m, (enum ir_op)s->op, dtype, from, x, s->arg_count, s->word); break;
    case NEST_FMA: result = fma_of(dtype, from[0], x); break;
    case NEST_NUMBER: result = ir_element_round(dtype, s->number); break;
    case NEST_POSITION:
        result = dtype == IR_F64 ? (double)index_of(m, &s->index) : (int32_t)index_of(m, &s->index);
        break;
    case NEST_LOAD:
        if (live && (at = address(m, s))) result = ir_element_get(dtype, at, 0);
        break;
    case NEST_STORE:
        if (live && (at = address(m, s))) ir_element_set(dtype, at, 0, x[0]); /* of pairs: as it lies */
        return;
    case NEST_ADD_TO:
        if ((at = address(m, s)))
            ir_element_set(dtype, at, 0, combine(m, OP_add, dtype, ir_element_get(dtype, at, 0), x[0]));
        return;
    case NEST_REG:
    case NEST_LOCAL: declare(m, s); return;
    case NEST_MATRIX: matrix(m, s); return;
    case NEST_TAKE: take(m, s); return;
    case NEST_WARPGROUP: warpgroup(m, s); return;
    case NEST_COPY: copy(m, s, live); return;
    case NEST_COPIES:
    case NEST_ARRIVED:
    case NEST_WARPGROUP_WAIT: return;
    case NEST_TILES: tiles(m, s); return;
    case NEST_SPREAD: spread(m, s); return;
    case NEST_TURN: turn(m->reg[s->reg], s->extent, m->nest->lanes); return;
    case NEST_PREFETCH:
    case NEST_CHECK: return;
    case NEST_GET: result = *reg_at(m, s); break;
    case NEST_SET: *reg_at(m, s) = x[0]; return;
    case NEST_REDUCE: *reg_at(m, s) = combine(m, (enum ir_op)s->op, dtype, *reg_at(m, s), x[0]); return;
    case NEST_FOLD:
        result = reg_at(m, s)[0];
        for (uint32_t lane = 1; lane < m->nest->lanes; lane++)
            result = combine(m, (enum ir_op)s->op, dtype, result, reg_at(m, s)[lane]);
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
    m.node.type = m.out.type = ir_type_scalar(IR_F32);
    for (int i = 0; i < 4; i++) m.args[i].type = m.out.type;
    m.buffers = arena_new_array(arena, void *, nest->buffers.count);
    m.bytes = arena_new_array(arena, size_t, nest->buffers.count);
    for (uint32_t i = 0; i < nest->argument_count; i++) m.buffers[i] = buffers[i], m.bytes[i] = bytes[i];
    m.value = arena_new_array(arena, double, nest->value_count);
    m.var = arena_new_array(arena, int64_t, nest->var_count + 1);
    m.reg = arena_new_array(arena, double *, nest->reg_count + 1);
    m.reg_count = arena_new_array(arena, int64_t, nest->reg_count + 1);
    uint8_t *dtypes = arena_new_array(arena, uint8_t, nest->value_count);
    collect_dtypes(nest->body.items, nest->body.count, dtypes);
    run(&m, nest->body.items, nest->body.count, dtypes);
    return m.ok;
}
