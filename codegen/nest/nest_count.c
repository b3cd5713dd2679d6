/* How many instructions a nest takes at least, roughly: those of scalars, as a GPU's threads issue them, if each loop
 * runs to its end and no branch is taken. What units for products do by themselves is not counted. */
#include "codegen/nest/nest.h"

enum {
    ROUNDING = 3, /* to 16 bits and back, by a unit of half the rate */
    FOLD = 40,    /* of all threads of a block, through shared memory */
    ANY = 4       /* by one barrier */
};

static double of_statement(const struct nest *nest, const struct nest_stmt *s)
{
    bool rounds = (s->dtype == IR_BF16 || s->dtype == IR_F16) &&
                  (s->kind == NEST_FMA || ir_ops[s->op].flags & IR_ROUNDS);
    switch (s->kind) {
    case NEST_OP: return (double)ir_ops[s->op].cost + (rounds ? ROUNDING : 0);
    case NEST_FMA: return 1 + (rounds ? ROUNDING : 0);
    case NEST_LOAD:
    case NEST_STORE:
    case NEST_REDUCE:
    case NEST_COPY: return 1;
    case NEST_ADD_TO: return 3;
    case NEST_FOLD: return (s->op == OP_or ? ANY : FOLD) * (double)nest->lanes;
    default: return 0;
    }
}

static double of_body(const struct nest *nest, struct nest_stmt *const *items, size_t count)
{
    double all = 0;
    for (size_t i = 0; i < count; i++) {
        const struct nest_stmt *s = items[i];
        double times = s->kind != NEST_FOR ? 0 : (double)(s->extent < 0 ? nest->parallel_extent : s->extent);
        all += of_statement(nest, s) + times * of_body(nest, s->body.items, s->body.count);
    }
    return all;
}

double nest_instructions(const struct nest *nest) { return of_body(nest, nest->body.items, nest->body.count); }
