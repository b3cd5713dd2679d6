/* What accumulate_rows.c, accumulate_wide.c and together.c share: what values of a microbatch are. */
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

/* What is known of a marker. */
struct pass_rows {
    const struct pass_marker *k;
    bool exact;               /* the bits are to be those of the whole batch */
    struct ir_func *flat;     /* its body, without calls */
    int64_t rows;             /* of a microbatch, */
    int64_t times;            /* and how many of them are made together */
    struct pass_known *known; /* of flat */
    uint8_t *leaf;            /* by value: SUM, or CARRY for what is scattered; else UINT8_MAX */
    uint32_t *number;         /* by value: of a leaf, which result of the loop it is */
    VEC(ir_value) leaves;
    VEC(uint32_t) concatenated; /* results that are put together */
};
/* Fills in all but k, exact and times. */
void pass_rows_look(struct pass_rows *, struct ir_module *);
/* Why a result, by its number, depends on how many microbatches there are; NULL: it does not. */
const char *pass_rows_why(const struct pass_rows *, uint32_t number);

/* accumulate_wide.c: a function on its way to be one of so many times as many rows. */
struct pass_wide {
    struct pass *pass;
    const struct pass_known *in;
    int64_t times;
    struct ir_builder *b;
    const uint8_t *leaf; /* by value of in->f: not UINT8_MAX for sums over rows, which take float32 then; or NULL */
    ir_value *map;       /* by value of in->f: as it is made, with all rows */
};
/* Fills in `map`: makes the parameters of in->f, and all that is live. */
void pass_wide_nodes(struct pass_wide *);
/* The node of a value, with operands of `map`. */
struct ir_node pass_wide_node(struct pass_wide *, ir_value);
/* Is nothing in loops of the function unknown? */
bool pass_wide_can(const struct pass_known *, struct arena *);
#endif
