/* How often a loop is unrolled. One whose variable chooses registers, which have no addresses, has to vanish. Others
 * are unrolled as far as that is worth it: long texts take long to compile, and registers for what is loaded early.
 * Serial loops are left to the compiler while they are short. ptxas unrolls those of a product's blocks of k, where
 * these are few, although barriers stand between them: machine code of four times the size, which takes as long. */
#include "codegen/cuda/cuda.h"

enum {
    ENOUGH = 1024 /* statements: four steps of a product with 32 sums a thread */,
    LONG = 128 /* of a body whose iterations gain nothing by standing side by side */
};

static bool chooses_registers(const struct nest_stmt *s, nest_var var)
{
    bool reg = s->kind == NEST_GET || s->kind == NEST_SET || s->kind == NEST_REDUCE || s->kind == NEST_FOLD;
    if (reg && s->index.scaled_count) return true;
    for (uint32_t i = 0; reg && i < s->index.term_count; i++)
        if (s->index.terms[i].var == var && s->index.terms[i].scale) return true;
    for (size_t i = 0; i < s->body.count; i++)
        if (chooses_registers(s->body.items[i], var)) return true;
    return false;
}

/* Statements of an iteration once the loops in it are unrolled. */
static int64_t size_of(const struct nest_stmt *s)
{
    int64_t size = 0;
    for (size_t i = 0; i < s->body.count; i++) {
        const struct nest_stmt *one = s->body.items[i];
        if (one->kind == NEST_TAKE) size += LONG; /* of a product's blocks: one statement, of many instructions */
        size += one->body.count ? size_of(one) * (one->loop == NEST_UNROLL ? one->extent : 1) : 1;
    }
    return size;
}

/* The same in additions: of long functions few stand side by side. */
static int64_t weight_of(const struct nest_stmt *s)
{
    int64_t weight = 0;
    for (size_t i = 0; i < s->body.count; i++) {
        const struct nest_stmt *one = s->body.items[i];
        int64_t cost = one->kind == NEST_OP ? (int64_t)ir_ops[one->op].cost : 1;
        weight += one->body.count ? weight_of(one) * (one->extent > 1 ? one->extent : 1) : cost > 1 ? cost : 1;
    }
    return weight;
}

int64_t cuda_unroll_steps(const struct nest_stmt *s, int64_t steps, int64_t few)
{
    if (steps > CUDA_STEPS) return 0;
    while (steps > 1 && steps * few * weight_of(s) > ENOUGH) steps = (steps + 1) / 2;
    return steps;
}

int64_t cuda_unroll(const struct nest_stmt *s)
{
    int64_t times = s->extent, size = size_of(s);
    if (s->loop == NEST_SERIAL) return size < LONG ? 0 : 1;
    while (times > 1 && times * size > ENOUGH && !chooses_registers(s, s->var)) times = (times + 1) / 2;
    return times;
}
