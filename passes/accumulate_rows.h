/* What accumulate_rows.c and accumulate_wide.c share: what values of a microbatch are. */
#ifndef PASSES_ACCUMULATE_ROWS_H
#define PASSES_ACCUMULATE_ROWS_H
#include "passes/accumulate.h"

enum pass_rows_kind { SAME /* for all rows */, ROW, LINEAR /* in sums over rows */, AFFINE, OTHER };

/* What is known of the values of a function: the microbatch's, or the body of a loop in it. */
struct pass_known {
    const struct ir_func *f;
    const struct pass_known *outer; /* NULL: f is of the microbatch */
    ir_value loop;                  /* in outer */
    uint8_t *varies;                /* by parameter: dimensions along which a round has made it other than the same */
    struct pass_known **inner;      /* by value: of a loop's body */
    uint8_t *kind;                  /* by value */
    int8_t *dim;                    /* by value: of a row, the dimension along which rows lie */
    const char **why;               /* by value: what is OTHER */
    uint32_t *place;                /* and where */
};

/* accumulate_wide.c: a function on its way to be one of so many times as many rows. */
struct pass_wide {
    struct pass *pass;
    const struct pass_known *in;
    int64_t times;
    struct ir_builder *b;
    ir_value *map; /* by value of in->f: as it is made, with all rows */
};
/* The node of a value, with operands of `map`. */
struct ir_node pass_wide_node(struct pass_wide *, ir_value);
/* Is nothing in loops of the function unknown? */
bool pass_wide_can(const struct pass_known *, struct arena *);
#endif
