/* What is known of the floats of a nest, so that rounding them to bfloat16 is cheaper.
 *
 * Flushed: no denormals, as what arithmetic gives while steps run with these flushed to zero. The CPU's conversion
 * takes denormals for zeros, so it is for these.
 *
 * Short: where they are NaN, the lower half of their bits is 0, as in what was widened from bfloat16 and in what
 * arithmetic makes of such operands: a NaN has the bits of an operand that is one, else only that which makes it quiet.
 * Rounded as other numbers are it stays what it is; others could become anything. */
#include "codegen/llvm/llvm_emit.h"
#include <math.h>

/* By number; registers and locals are taken to have both until something else is stored there. */
struct facts {
    struct emit *e;
    uint8_t *value, *reg, *buffer;
    bool changed;
};

static uint8_t flushed_of_op(const struct facts *f, const struct nest_stmt *s)
{
    switch (s->op) {
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div: return EMIT_FLUSHED;
    case OP_select: return f->value[s->args[1]] & f->value[s->args[2]];
    case OP_max:
    case OP_min: return f->value[s->args[0]] & f->value[s->args[1]];
    case OP_neg:
    case OP_abs:
    case OP_cast: return f->value[s->args[0]];
    default: return 0;
    }
}

/* Integers are no NaN, but as bits they may become any. */
static uint8_t short_of_args(const struct facts *f, const struct nest_stmt *s)
{
    uint8_t all = EMIT_SHORT;
    for (uint32_t i = 0; i < s->arg_count; i++) all &= f->value[s->args[i]];
    return s->kind == NEST_OP && s->op == OP_bitcast ? 0 : all;
}

/* What is stored as so, and is computed in float32. */
static uint8_t short_of_dtype(enum ir_dtype dtype)
{
    return dtype == IR_BF16 || !ir_dtype_is_float(dtype) ? EMIT_SHORT : 0;
}

static uint8_t of_number(const struct facts *f, const struct nest_stmt *s)
{
    if (f->e->given && f->e->given[s->result]) return 0;
    uint8_t flushed = s->number && fabs(s->number) < 0x1p-126 ? 0 : EMIT_FLUSHED;
    return flushed | (s->number == s->number ? EMIT_SHORT : 0);
}

static uint8_t of_load(const struct facts *f, const struct nest_stmt *s)
{
    const struct nest_buffer *b = &f->e->nest->buffers.items[s->buffer];
    return (b->local ? f->buffer[s->buffer] : 0) | short_of_dtype((enum ir_dtype)b->dtype);
}

/* What arithmetic makes. Of a NaN of another width half of the bits is another half. */
static uint8_t of_op(const struct facts *f, const struct nest_stmt *s, uint8_t flushed)
{
    bool other = s->dtype == IR_F16 || s->dtype == IR_F64;
    return (flushed & EMIT_FLUSHED) | (other ? 0 : short_of_args(f, s)) | short_of_dtype(s->dtype);
}

static uint8_t of_result(const struct facts *f, const struct nest_stmt *s)
{
    switch (s->kind) {
    case NEST_FMA: return of_op(f, s, EMIT_FLUSHED);
    case NEST_OP: return of_op(f, s, flushed_of_op(f, s));
    case NEST_NUMBER: return of_number(f, s);
    case NEST_POSITION: return s->dtype == IR_F64 ? 0 : EMIT_SHORT;
    case NEST_LOAD: return of_load(f, s);
    case NEST_GET: return f->reg[s->reg];
    case NEST_FOLD: return f->reg[s->reg] & EMIT_SHORT;
    default: return 0;
    }
}

static void keep(struct facts *f, uint8_t *in, uint8_t is)
{
    f->changed |= (*in & ~is) != 0;
    *in &= is;
}

static void walk(struct facts *f, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        bool sum = s->op == OP_add || s->op == OP_mul;
        if (s->result) f->value[s->result] = of_result(f, s) | (short_of_args(f, s) ? EMIT_ROUNDS_SHORT : 0);
        if (s->kind == NEST_REG || s->kind == NEST_SET) keep(f, &f->reg[s->reg], f->value[s->args[0]]);
        if (s->kind == NEST_REDUCE) keep(f, &f->reg[s->reg], f->value[s->args[0]] | (sum ? EMIT_FLUSHED : 0));
        if (s->kind == NEST_STORE) keep(f, &f->buffer[s->buffer], f->value[s->args[0]]);
        if (s->kind == NEST_ADD_TO) keep(f, &f->buffer[s->buffer], f->value[s->args[0]] | EMIT_FLUSHED);
        walk(f, s->body.items, s->body.count);
    }
}

static uint8_t *all(struct emit *e, size_t count)
{
    uint8_t *marks = arena_new_array(e->arena, uint8_t, count + 1);
    for (size_t i = 0; i < count; i++) marks[i] = EMIT_FLUSHED | EMIT_SHORT;
    return marks;
}

const uint8_t *emit_find_facts(struct emit *e, int64_t flat_extent)
{
    const struct nest *nest = e->nest;
    struct facts f = {.e = e,
                      .value = arena_new_array(e->arena, uint8_t, nest->value_count + 1),
                      .reg = all(e, nest->reg_count),
                      .buffer = all(e, nest->buffers.count),
                      .changed = true};
    while (f.changed) {
        f.changed = false;
        walk(&f, nest->body.items, nest->body.count);
    }
    emit_find_steady(e, flat_extent, f.value);
    return f.value;
}
