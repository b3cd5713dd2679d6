/* What accumulate.c and accumulate_rows.c share: an accumulation or a scan on its way to be a loop. */
#ifndef PASSES_ACCUMULATE_H
#define PASSES_ACCUMULATE_H
#include "passes/common.h"

enum { SUM, MEAN, RUNNING_MEAN, CONCATENATE, CARRY };
enum pass_role {
    CAPTURED,
    CARRIED,
    SPLIT,
    NUMBERS /* of the rows of what is split: computed, no operand of the loop */
};

struct pass_marker {
    struct pass *pass;
    const struct ir_node *n;
    struct ir_func *body; /* of one round, rebuilt */
    const ir_value *operands;
    uint32_t params, results;
    int64_t count;       /* rounds, nominally */
    bool batch, reverse; /* rounds have microbatches, not single rows; the last row comes first */
    bool tree;           /* sums of rounds are added as a tree: loops of two rounds in loops of two */
    uint32_t dim;        /* where the dimension of the rounds stands in what is split */
    uint32_t carried;    /* the first of the parameters that are carried */
    uint8_t *roles;      /* of parameters */
    const int64_t *kinds;
    const bool *used; /* by result: the loop makes it */
};

/* accumulate.c: fills in what an accumulation and a scan say in different ways. `old`: the node, in `from`; pass, n,
 * body, params and results are known. */
void pass_read_marker(struct pass_marker *, const struct ir_func *from, ir_value old);

/* accumulate_rows.c: --numerics invariant. Makes of a marker one whose results are sums over rows alone, and of these
 * what the marker gives. `limit`: of the rounds; 0: none. False: that cannot be, and a diagnostic says why. */
struct pass_rows;
struct pass_rows *pass_rows_of(const struct pass_marker *, struct ir_builder *, ir_value limit, struct pass_marker *to);
void pass_rows_finish(struct pass_rows *, struct ir_builder *, const ir_value *sums, ir_value *out);

/* inline.c: a body whose calls are replaced by what they call. */
struct ir_func *pass_flat(struct pass *, struct ir_module *, const struct ir_func *);
#endif
