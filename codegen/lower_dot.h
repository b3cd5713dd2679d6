/* What the files of the contraction's template share (see lower_dot.c). */
#ifndef CODEGEN_LOWER_DOT_H
#define CODEGEN_LOWER_DOT_H
#include "codegen/lower.h"

enum { AXIS_B, AXIS_M, AXIS_N, AXIS_K };
enum { LONG_K = 2048, BLOCK_K = 1024, CHUNK_ROWS = 128, DIRECT_BYTES = 64 * 1024, COSTLY_EPILOGUE = 12, PACK_K = 64 };

struct run {
    int64_t extent, stride;
};
struct operand {
    ir_value value;
    uint32_t count[4];
    struct run run[4][IR_MAX_RANK];
};

struct product {
    struct lower *l;
    ir_value root;
    enum ir_dtype dtype, sum;
    struct operand x, y;
    int64_t m, n, k;      /* extents of the last parts, which the tile covers */
    int64_t lanes, width; /* columns of one vector */
    uint32_t vectors, rows;
    bool even; /* x is a view whose rows change their distance between parts: no block of rows may
                                   stick out, or its elements would be found by division, step by step */
    int64_t panels, tail_columns;
    int64_t blocks, tail_rows; /* whole row blocks */
    int64_t chunk;             /* row blocks of a chunk */
    int64_t chunks;
    int64_t block_k, blocks_k, tail_k;
    uint32_t outer_k; /* where k has parts: the one whose steps are the blocks; UINT32_MAX: there are none */
    bool pack, pack_rows, local_tile;
    bool local_blocks; /* k goes by blocks */
    uint32_t panel_local, rows_local, tile_local;
    int64_t panel_columns;         /* row length of the packed panel */
    bool wide;                     /* the local tile holds whole rows, so that the epilogue streams through memory */
    int64_t tile_columns;          /* row length of the local tile */
    struct pos at[4];              /* where the open loops stand on each axis */
    struct pos local_k, local_row; /* inside the block of k, inside the chunk */
};

/* One column vector of the panel: its loops, its place on the axis before them. */
struct column {
    struct pos before;
    nest_var vector, lane;
};

static inline uint32_t dot_last_index(const struct lower *l, uint32_t axis) { return l->axes[axis].parts - 1; }

/* Steps of k between two packings. */
static inline int64_t dot_packed_k(const struct product *p)
{
    const struct axis *k = &p->l->axes[AXIS_K];
    return k->parts == 1 ? p->block_k : p->outer_k == UINT32_MAX ? k->extent : k->extent / k->part[p->outer_k];
}

/* lower_dot_tile.c */
nest_value dot_operand_value(struct product *, const struct operand *); /* where the open loops stand */
void dot_close_loops(struct lower *, uint32_t count);
void dot_pack_panel(struct product *, uint32_t vectors, bool masked, int64_t extent_k);
void dot_pack_block(struct product *, uint32_t rows, const void *extent_k); /* rows of x, k-major */
void dot_tile(struct product *, uint32_t rows, uint32_t vectors, bool masked, int64_t extent_k, bool first);
void dot_finish(struct product *, nest_value sum); /* the epilogue on one vector of the product, and the stores */
struct column dot_open_column(struct product *, uint32_t vectors, bool masked);
void dot_close_column(struct product *, const struct column *);
struct pos dot_tile_pos(struct product *, const struct column *); /* where the open column stands in the local tile */
#endif
