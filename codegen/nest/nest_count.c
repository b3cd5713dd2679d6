/* How many instructions a nest takes, roughly: those of scalars, as a GPU's threads issue them, if each loop runs to
 * its end and those branches are taken that have products, as those of a causal mask are counted in full, too. Not
 * counted: what units for products do by themselves, positions, which compilers take out of loops, and what is a
 * register's other name. */
#include "codegen/nest/nest.h"

enum {
    ROUNDING = 3, /* to 16 bits and back, by a unit of half the rate */
    PLACE = 1,    /* of 16 bits in a register: what is rounded at once may have to move */
    ROUGH_EXP = 2,
    FOLD = 40, /* of all threads of a block, through shared memory */
    ANY = 4    /* by one barrier */
};

struct count {
    const struct nest *nest;
    bool *known; /* by value: it is made of positions and numbers alone */
};

static double of_op(const struct count *c, const struct nest_stmt *s)
{
    bool narrow = s->dtype == IR_BF16 || s->dtype == IR_F16, rounds = ir_ops[s->op].flags & IR_ROUNDS;
    c->known[s->result] = !ir_dtype_is_float((enum ir_dtype)s->dtype);
    for (uint32_t i = 0; i < s->arg_count; i++) c->known[s->result] &= c->known[s->args[i]];
    if (c->known[s->result]) return 0;
    if (s->op == OP_exp && s->word) return ROUGH_EXP;
    bool named = s->op == OP_cast && ir_dtype_is_float((enum ir_dtype)s->dtype);
    bool at_once = s->dtype == IR_BF16 && (s->op == OP_add || s->op == OP_sub || s->op == OP_mul);
    return (named ? 0 : (double)ir_ops[s->op].cost) + (narrow && rounds ? at_once ? PLACE : ROUNDING : 0);
}

static double of_statement(const struct count *c, const struct nest_stmt *s)
{
    switch (s->kind) {
    case NEST_OP: return of_op(c, s);
    case NEST_NUMBER:
    case NEST_POSITION: return c->known[s->result] = true, 0;
    case NEST_FMA: return 1 + (s->dtype == IR_BF16 || s->dtype == IR_F16 ? ROUNDING : 0);
    case NEST_LOAD:
    case NEST_STORE:
    case NEST_REDUCE:
    case NEST_COPY: return 1;
    case NEST_ADD_TO: return 3;
    case NEST_FOLD: return (s->op == OP_or ? ANY : FOLD) * (double)c->nest->lanes;
    default: return 0;
    }
}

static bool multiplies(const struct nest_stmt *s)
{
    bool any = s->kind == NEST_MATRIX;
    for (size_t i = 0; i < s->body.count && !any; i++) any = multiplies(s->body.items[i]);
    return any;
}

static double of_body(const struct count *c, struct nest_stmt *const *items, size_t count)
{
    double all = 0;
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        double times = s->kind == NEST_IF && multiplies(s) ? 1 : 0;
        if (s->kind == NEST_FOR) times = (double)(s->extent < 0 ? c->nest->parallel_extent : s->extent);
        all += of_statement(c, s) + times * of_body(c, s->body.items, s->body.count);
    }
    return all;
}

double nest_instructions(const struct nest *nest, struct arena *arena)
{
    struct count c = {nest, arena_new_array(arena, bool, nest->value_count + 1u)};
    return of_body(&c, nest->body.items, nest->body.count);
}
