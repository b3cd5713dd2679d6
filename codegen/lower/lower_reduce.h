/* What the kernels of reductions (lower_reduce_rows.c, lower_reduce_columns.c) share; most of it is in
 * lower_reduce_loops.c. */
#ifndef CODEGEN_LOWER_REDUCE_H
#define CODEGEN_LOWER_REDUCE_H
#include "codegen/lower/lower.h"

struct lower_reduction {
    struct lower *l;
    uint32_t runs;
    bool reduced[IR_MAX_RANK + 1];
    int64_t full_stride[IR_MAX_RANK + 1], row_stride[IR_MAX_RANK + 1];
    int64_t columns, rows;
    bool by_rows;  /* the last run is reduced */
    bool in_order; /* by rows: one element after the other, as there are 16-bit sums, which are rounded at every step */
    bool laid_out; /* ... whose terms are computed by the lanes and laid out in a local row first */
    int64_t leaf;  /* of sums that are trees; 0: there are none */
    uint32_t passes;
    int64_t kept;               /* bytes of locals for values */
    VEC(ir_value) sums;         /* the reductions */
    struct lower_reduced *of;   /* by value */
    struct lower_pos full, row; /* of the loops open now */
    struct lower_pos first;     /* of a row */
    int64_t batch;              /* rows whose sums wait in locals, until a lane each does the rest; 0: none waits */
    struct lower_pos waiting;   /* the first of those that are walked now */
    uint32_t tile_axis;         /* of whose last part each lane has an element */
    /* columns: the tile */
    uint32_t vectors; /* registers of one block */
    int64_t width;    /* lanes used of each */
    nest_value mask;  /* of a block that sticks out */
};

/* A kept part as the loops over it are opened: the blocks of a column kernel's columns, or of rows that are walked
 * together, are loops over one of them. */
struct lower_kept {
    uint32_t axis, part;
};

typedef void lower_inside_loops(struct lower_reduction *, uint32_t pass);

/* Of a node: does it reduce; elements of a leaf of its tree, 0: it has none; is it rounded at every step, or a tree. */
bool reduction_is(const struct ir_node *node);
int64_t reduction_leaf(const struct ir_node *node);
bool reduction_is_stepwise(const struct ir_node *node);
/* Is this one element after the other; does it wait for its neighbour leaf by leaf. */
bool reduction_in_order(const struct lower_reduction *r, const struct ir_node *node);
bool reduction_is_tree(const struct lower_reduction *r, const struct ir_node *node);
/* In a column kernel: each lane has a whole row, as rows are short. */
bool reduction_of_lanes(const struct lower_reduction *r);
/* The last part that is kept of the run before the last. */
struct lower_kept reduction_last_kept(const struct lower_reduction *r);
/* Loops: a step of one, all kept parts, all reduced ones with what is inside. */
void reduction_add_part(struct lower_reduction *r, uint32_t axis, nest_var var, int64_t stride);
void reduction_open_kept(struct lower_reduction *r, const struct lower_kept *cut, int64_t blocks);
void reduction_walk(struct lower_reduction *r, uint32_t a, uint32_t p, uint32_t first, lower_inside_loops *inside,
                    uint32_t pass);
/* Registers of a tile, what is done for an element, what is stored of rows. */
struct nest_index reduction_tile_index(struct lower *l, nest_var unroll);
enum ir_op reduction_combines(const struct ir_node *node);
void reduction_declare(struct lower_reduction *r, uint32_t pass, bool trees);
void reduction_body(struct lower_reduction *r, uint32_t pass, struct nest_index reg);
void reduction_store_rows(struct lower_reduction *r);
/* Whether rows are for a column kernel, each a lane; the kernels. */
bool reduction_has_short_rows(const struct lower_reduction *r);
void reduction_by_rows(struct lower_reduction *r);
void reduction_by_columns(struct lower_reduction *r);
#endif
