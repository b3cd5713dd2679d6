/* Which float32 values of a nest are no denormals: what arithmetic gives, while steps run with denormals flushed to
 * zero, and what was kept of it in registers and locals. The CPU's conversion to bfloat16 takes denormals for zeros, so
 * it is for these. */
#include "codegen/llvm/llvm_emit.h"
#include <math.h>

/* By number; registers and locals are taken to hold none until something else is stored there. */
struct flushed {
    struct emit *e;
    bool *value, *reg, *buffer, changed;
};

static bool of_op(const struct flushed *f, const struct nest_stmt *s)
{
    switch (s->op) {
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div: return true;
    case OP_select: return f->value[s->args[1]] && f->value[s->args[2]];
    case OP_max:
    case OP_min: return f->value[s->args[0]] && f->value[s->args[1]];
    case OP_neg:
    case OP_abs:
    case OP_cast: return f->value[s->args[0]];
    default: return false;
    }
}

static bool of_result(const struct flushed *f, const struct nest_stmt *s)
{
    switch (s->kind) {
    case NEST_FMA: return true;
    case NEST_OP: return of_op(f, s);
    case NEST_NUMBER: return !(f->e->given && f->e->given[s->result]) && !(s->number && fabs(s->number) < 0x1p-126);
    case NEST_LOAD: return f->e->nest->buffers.items[s->buffer].local && f->buffer[s->buffer];
    case NEST_GET: return f->reg[s->reg];
    default: return false;
    }
}

static void keep(struct flushed *f, bool *in, bool is)
{
    f->changed |= *in && !is;
    *in &= is;
}

static void walk(struct flushed *f, struct nest_stmt *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        bool sum = s->op == OP_add || s->op == OP_mul;
        if (s->result) f->value[s->result] = of_result(f, s);
        if (s->kind == NEST_REG || s->kind == NEST_SET) keep(f, &f->reg[s->reg], f->value[s->args[0]]);
        if (s->kind == NEST_REDUCE) keep(f, &f->reg[s->reg], sum || f->value[s->args[0]]);
        if (s->kind == NEST_STORE) keep(f, &f->buffer[s->buffer], f->value[s->args[0]]);
        walk(f, s->body.items, s->body.count);
    }
}

bool *emit_find_flushed(struct emit *e)
{
    const struct nest *nest = e->nest;
    struct flushed f = {.e = e,
                        .value = arena_new_array(e->arena, bool, nest->value_count + 1),
                        .reg = arena_new_array(e->arena, bool, nest->reg_count + 1),
                        .buffer = arena_new_array(e->arena, bool, nest->buffers.count + 1),
                        .changed = true};
    for (uint32_t i = 0; i < nest->reg_count; i++) f.reg[i] = true;
    for (uint32_t i = 0; i < nest->buffers.count; i++) f.buffer[i] = true;
    while (f.changed) {
        f.changed = false;
        walk(&f, nest->body.items, nest->body.count);
    }
    return f.value;
}
