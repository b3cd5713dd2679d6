/* What the files of the contraction's template share (see lower_dot.c). */
#ifndef CODEGEN_LOWER_DOT_H
#define CODEGEN_LOWER_DOT_H
#include "codegen/lower/lower.h"

enum { AXIS_B, AXIS_M, AXIS_N, AXIS_K };
enum {
    LONG_K = 2048,
    BLOCK_K = 1024,
    BLOCK_FAR = 128, /* of y from memory that two tiles read one after the other: the first cache holds so many steps */
    CHUNK_ROWS = 128,
    DIRECT_BYTES = 64 * 1024,
    SELDOM_ROWS = 192, /* at most, that read what is not packed, and from one row of that to the next */
    SELDOM_BYTES = 1024,
    SELDOM_FAR_ROWS = 64, /* at least, where it is further */
    SELDOM_FAR_BYTES = 3584,
    COSTLY_EPILOGUE = 12,
    PACK_K = 64,
    LEAST_NARROW = 16, /* steps of k from which on 16-bit rows are widened before the tile */
    TEAM_CHUNKS = 16,
    LEAST_PACKED_ROWS = 4, /* from which on columns that are rows in memory are packed */
    TURNED_ROWS = 14,      /* up to which they are turned for each tile, with 32 registers */
    TURNED_ROWS_FEW = 6,   /* and with 16 */
    SMALL_STEPS = 32       /* of a product whose tiles go by their cost, at least */
};
/* Of products whose columns are shared out: rows and elements of y at least, bytes of x that are packed at a time; of
 * those whose k-major rows are, rows at least, or many steps. */
enum { FEW_BLOCKS = 4, APART_LEAST = 192, LEAST_ROWS = 64, LEAST_ELEMENTS = 100000, MANY_ROWS_BYTES = 2 << 20 };
/* Elements of y at least, where several are side by side. */
enum { LEAST_OF_SEVERAL = 8000 };
/* Of sums that go by blocks of k while the tiles wait: steps of a block about, elements that wait at most. */
enum {
    BLOCK_TALL = 512,
    GROUP_BYTES = 2 << 20 /* that are packed at a time */,
    PACKED_APART = 112 /* elements between packed blocks, for other cache sets */,
    WAITING_ELEMENTS = 1 << 19
};

/* Of the first cache, at least: what is so many bytes apart shares a set, which holds so many lines. Rows at such
 * distances are copied; those half as far apart, seven of a tile's 14 in a set, are faster read where they stand, and
 * so are FEW_MORE rows than a set holds lines: copies for each group of panels took up to a quarter of a product. */
enum { WAY_BYTES = 4096, WAYS = 8, FEW_MORE = 2 };

/* Steps of k that a load of the tile, and one of what is packed, is ahead. */
enum { CACHE_LINE = 64, LEAST_AHEAD = 4, LEAST_STEPS_AHEAD = 192 /* of a tile whose end is asked for */ };
enum { AHEAD_TILE = 64, AHEAD_PACKED = 16, AHEAD_TURNED = 64, AHEAD_TAPS = 24, AHEAD_FAR = 16 };

/* What it counts times that a tile has fewer rows: in a convolution; in a product, where the code of a tile takes along
 * what follows it, of many multiply-adds and of few, and with 32 registers; in a last panel, whose code is not shared.
 */
enum { MANY_STEPS = 1 << 25 };
#define RAGGED 1.01
#define RAGGED_CODE 1.1
#define RAGGED_FEW 1.25
#define RAGGED_MANY 1.02
#define LAST_RAGGED 1.15

struct lower_dot_run {
    int64_t extent, stride;
};
struct lower_dot_operand {
    ir_value value;
    uint32_t count[4];
    struct lower_dot_run run[4][IR_MAX_RANK];
    int64_t pair; /* elements between the two steps of k that are one; 0: no pairs */
};

struct lower_dot_product {
    struct lower *l;
    ir_value root;
    enum ir_dtype dtype, sum;
    enum ir_dtype factor; /* of what is packed, and multiplied: `sum`, or uint32 */
    bool pairs;           /* k counts pairs of bfloat16 */
    struct lower_dot_operand x, y;
    int64_t columns;      /* of y, if it lies in panels (fuse_panels.c); 0 */
    int64_t shared_rows;  /* of x, the same */
    bool rows_first;      /* in the result these stand before the batch */
    int64_t leaf;         /* steps of k that are a leaf, if the sum is a tree (lower_tree.c) of several; 0 */
    uint32_t tree_local;  /* sums that wait */
    int64_t m, n, k;      /* extents of the last parts, which the tile covers */
    int64_t lanes, width; /* columns of one vector */
    uint32_t vectors, rows;
    bool matrix; /* tiles are a matrix unit's */
    uint32_t matrix_local;
    bool even; /* x is a view whose rows change their distance between parts: no block of rows may
                                   stick out, or its elements would be found by division, step by step */
    int64_t panels, tail_columns;
    struct lower_pos group_start; /* column */
    int64_t group;                /* panels that a worker takes at once, where these are shared out */
    bool by_columns;              /* they are, because there are more columns than rows */
    bool tall;                    /* tiles are, two vectors wide */
    bool turned;                  /* blocks of y are in registers, for each tile */
    bool far;                     /* y comes from memory, or from the third cache */
    int64_t blocks, tail_rows;    /* whole row blocks */
    int64_t chunk;                /* row blocks of a chunk */
    int64_t chunks;
    int64_t block_k, blocks_k, tail_k;
    uint32_t outer_parts; /* lower_dot_parts.c: leading parts of k outside of the tile; steps of the others */
    int64_t packed_k;
    uint32_t outer_k;    /* where k has parts: the one whose steps are the blocks; UINT32_MAX: there are none */
    int64_t rows_stride; /* of packed rows that stay rows; 0: they go k-major */
    int64_t packed_rows; /* so many of a block are packed for a step of k: whole vectors if most of it is rows */
    bool pack, pack_rows, local_tile;
    bool narrow;                  /* rows of 16 bits, which are widened as they are packed */
    bool pack_group;              /* all panels of a group row by row, before the first tile */
    bool pack_once;               /* they are for all chunks of rows, whose loop is inside */
    struct lower_pos chunk_row;   /* where this one stands among all tiles that wait */
    struct lower_pos local_panel; /* inside the group */
    bool by_blocks;               /* all panels by one block of k, then by the next one */
    bool local_blocks;            /* k goes by blocks */
    uint32_t panel_local, rows_local, tile_local;
    int64_t panel_columns;  /* row length of the packed panel */
    bool wide;              /* the local tile holds whole rows, so that the epilogue streams through memory */
    int64_t tile_columns;   /* row length of the local tile */
    struct lower_pos at[4]; /* where the open loops stand on each axis */
    struct lower_pos local_k, local_row; /* inside the block of k, inside the chunk */
};

/* The loops of one column vector of the panel. */
struct lower_dot_column {
    nest_var vector, lane;
};

static inline uint32_t dot_last_index(const struct lower *l, uint32_t axis) { return l->axes[axis].parts - 1; }

/* Steps of k between two packings. */
static inline int64_t dot_packed_k(const struct lower_dot_product *p)
{
    const struct lower_axis *k = &p->l->axes[AXIS_K];
    return k->parts == 1 || p->matrix ? p->block_k
           : p->outer_k == UINT32_MAX ? k->extent
                                      : k->extent / k->part[p->outer_k];
}

/* Elements of a packed panel, of which a group has several. */
static inline int64_t dot_packed_panel(const struct lower_dot_product *p)
{
    return dot_packed_k(p) * p->panel_columns + (p->pack_group ? PACKED_APART : 0);
}

/* Rows of the tiles that wait for the next block of k. */
static inline int64_t dot_waiting_rows(const struct lower_dot_product *p)
{
    return (p->pack_once ? p->chunks : 1) * p->chunk * p->rows;
}

/* Elements of packed rows that are one block. */
static inline int64_t dot_packed_block(const struct lower_dot_product *p)
{
    return p->block_k * p->packed_rows + PACKED_APART;
}

/* Where the open loops stand, and how many there are. */
struct lower_dot_place {
    struct lower_pos at[4], local_k, local_row;
    uint32_t depth;
};
struct lower_dot_place dot_place(const struct lower_dot_product *);
void dot_return(struct lower_dot_product *, const struct lower_dot_place *); /* closes what was opened since */
/* Opens a loop of `extent` steps of `unit` over a part of an axis, and goes along: on the axis and, if not NULL, inside
 * its block. */
nest_var dot_open(struct lower_dot_product *, enum nest_loop, uint32_t axis, uint32_t part, int64_t extent,
                  int64_t unit, struct lower_pos *local);

/* lower_dot_shape.c, in the order of their calls */
void dot_choose_pairs(struct lower_dot_product *);
void dot_choose_way(struct lower_dot_product *);
void dot_choose_columns(struct lower_dot_product *);
void dot_choose_rows(struct lower_dot_product *);
void dot_choose_blocks(struct lower_dot_product *);
void dot_choose_chunks(struct lower_dot_product *, bool parallel);
void dot_choose_locals(struct lower_dot_product *, bool panels_parallel);
/* Rows of the tiles of panels of so many vectors that take the fewest cycles, which go to *cost; `ragged`: what it
 * counts times that some are left over, for which there is code of its own. */
int64_t dot_rows_of_small(const struct lower_dot_product *, int64_t vectors, double ragged, double *cost);
/* At most so many of `all` row blocks, or panels, that a worker takes at once, and not less than half of that, so that
 * two workers, who begin with half of the chunks each, have about as many of them. */
int64_t dot_balanced(int64_t all, int64_t most);
double dot_epilogue_cost(const struct lower_dot_product *); /* of an element, in operations */

/* lower_dot_matrix.c: tiles of a CPU's matrix unit, if it is to be made so: what it wants packed, packing, a tile. */
bool dot_wants_matrix(const struct lower_dot_product *);
void dot_choose_matrix(struct lower_dot_product *);
int64_t dot_matrix_rows(const struct lower_dot_product *);                     /* elements of the packed rows */
void dot_pack_matrix(struct lower_dot_product *, uint32_t rows, const void *); /* for all blocks of k */
void dot_matrix_tile(struct lower_dot_product *, uint32_t rows, uint32_t vectors, bool masked, int64_t steps,
                     bool first);

/* lower_dot_parts.c: is x a view of taps whose batches are parts of a sum (fuse_split.c), of whole images or lines? The
 * parts of axes, where it is a view; all loops, where axes have parts. */
bool dot_has_images(const struct lower_dot_product *);
void dot_find_parts(struct lower_dot_product *);
void dot_parts(struct lower_dot_product *);

/* lower_dot_groups.c: several products whose columns are side by side, of each at most as many as half of a vector has
 * lanes. */
int64_t dot_group_count(struct lower_dot_product *); /* 1: it is nothing of the kind */
/* The parts that one axis, `*axis`, is to have; returns how many, 0: it is nothing of the kind. */
uint32_t dot_group_parts(struct lower_dot_product *, int64_t *part, uint32_t *axis);
bool dot_by_groups(struct lower_dot_product *); /* all loops, if it is something of the kind that has its parts */

/* lower_dot_grid.c: the whole of it on a GPU, if it is to be made so. */
bool dot_wants_grid(const struct lower_dot_product *);
void dot_grid(struct lower_dot_product *);

/* lower_dot_tile.c */
/* How many lines that are so many bytes apart the first cache holds. */
int64_t dot_lines_apart(int64_t apart);
nest_value dot_multiply_add(struct lower_dot_product *, nest_value x, nest_value y, nest_value sum);
nest_value dot_operand_value(struct lower_dot_product *,
                             const struct lower_dot_operand *); /* where the open loops stand */
struct lower_pos dot_operand_pos(struct lower_dot_product *, const struct lower_dot_operand *); /* its own there */
struct lower_pos dot_packed_step(struct lower_dot_product *); /* where they stand in the packed panel */
void dot_pack_panel(struct lower_dot_product *, uint32_t vectors, bool masked, int64_t extent_k);
void dot_pack_row(struct lower_dot_product *, uint32_t vectors, bool masked); /* one step of k, of one panel */
void dot_open_steps(struct lower_dot_product *, int64_t extent_k);
void dot_pack_block(struct lower_dot_product *, uint32_t rows, const void *extent_k); /* rows of x, k-major */
/* What a tile's end writes, and reads beside the sums, where that leaves the second cache: rows far apart, which no
 * prefetcher of the CPU follows, come while the sums are made. */
void dot_prefetch_end(struct lower_dot_product *, uint32_t rows);
void dot_tile(struct lower_dot_product *, uint32_t rows, uint32_t vectors, bool masked, int64_t extent_k, bool first);
/* What becomes of a sum where the open loops stand, by output, and where it goes. */
struct lower_dot_end {
    const nest_value *value;
    struct lower_pos at;
    nest_value cond;
};
struct lower_dot_end dot_end(struct lower_dot_product *, nest_value sum);
void dot_store(struct lower_dot_product *, const struct lower_dot_end *);
void dot_finish(struct lower_dot_product *,
                nest_value sum); /* the epilogue on one vector of the product, and the stores */
void dot_finish_tile(struct lower_dot_product *, uint32_t rows, uint32_t vectors,
                     bool masked); /* the same on a tile that waits in the local */
struct lower_dot_column dot_open_column(struct lower_dot_product *, uint32_t vectors, bool masked);
struct lower_pos dot_tile_pos(struct lower_dot_product *,
                              const struct lower_dot_column *); /* where the open column stands in the local tile */
#endif
