/* What chunk.c and chunk_region.c share: a region of a function that is computed in runs of rows. */
#ifndef PASSES_CHUNK_H
#define PASSES_CHUNK_H
#include "passes/common.h"

/* Adjacent dimensions of a value whose elements, in C order, are the rows of the region; count 0: none. */
struct chunk_run {
    uint8_t first, count;
};

enum chunk_kind { CHUNK_OUTSIDE, CHUNK_ROWS, CHUNK_SUM };

struct chunk_region {
    struct pass *pass;
    const struct ir_func *f;
    const bool *live;
    ir_value seed;
    int64_t rows, size; /* all of them; those of a chunk */
    /* By value: */
    uint8_t *kind;
    struct chunk_run *run; /* of what is inside, and of what is split to be read inside */
    bool *behind;          /* depends on a large product of the region; what is inside and does not is made once more */
    const char *why;       /* it is none, */
    ir_value blamed;       /* because of this value */
};

/* chunk_region.c. The region around a product, whose rows are the dimensions that it has of operand `side`; false:
 * there is none, `why` tells. */
bool chunk_region_of(struct chunk_region *, uint32_t side);
uint64_t chunk_bytes(const struct ir_func *, ir_value);
/* Is it a product of rows with one matrix; the least bytes of those that are chunked. */
bool *chunk_projections(struct pass *, const struct ir_func *);
uint64_t chunk_least_bytes(struct pass *, const struct ir_func *);
/* chunk_cut.c */
struct ir_module *chunk_cut(struct pass *, struct ir_module *);
/* Extents of a part of `size` rows along a run; false: such parts are no boxes. */
bool chunk_extents(const struct ir_type *, struct chunk_run, int64_t size, struct ir_type *part);
#endif
