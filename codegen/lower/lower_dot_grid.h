/* What the files of the contraction's template for GPUs share (see lower_dot_grid.c). */
#ifndef CODEGEN_LOWER_DOT_GRID_H
#define CODEGEN_LOWER_DOT_GRID_H
#include "codegen/lower/lower_dot.h"

enum { GRID_GROUP = 4 /* neighbours of a thread, at most: a load of 16 bytes */ };

/* The rows of a tile and one operand, or its columns and the other one. In shared memory it has words: elements, or
 * pairs of steps for the matrix unit, in panels of neighbours in memory. */
struct lower_dot_side {
    const struct lower_dot_operand *operand;
    uint32_t axis;
    int64_t extent;                        /* of the axis */
    int64_t size;                          /* of the tile */
    bool steps_first;                      /* neighbours in memory are steps of k */
    int64_t word_along, word_steps;        /* elements of a word */
    int64_t patch_along, patch_steps;      /* elements that a thread fetches at a time, neighbours of one access */
    bool copied;                           /* to shared memory by itself, as it stands in memory */
    uint32_t staged, local, reg, parts[2]; /* parts: of panels, for a product each */
    int64_t part;                          /* rows that lie together, all of them unless a panel is turned */
    int64_t part_apart, along_apart, step_apart; /* in shared memory, between parts, and words in them */
    int64_t step_group, group_apart;             /* groups of steps that lie apart from each other; 0: none */
    struct lower_pos start;                      /* of the tile */
    /* Where a thread's piece lies in the tile: two loops, and digits of the thread's number. */
    struct {
        int64_t extent, place, number /* of the sum's register */;
    } loop[2];
    struct {
        int64_t by, count, place;
    } digit[2];
};

struct lower_dot_grid {
    struct lower_dot_product *p;
    struct lower_dot_side rows, columns;
    int64_t threads;
    bool unit;                               /* by the matrix unit */
    bool panels;                             /* of panels in shared memory, which hold `stages` blocks of k */
    bool warpgroups;                         /* by warpgroups, which read these themselves */
    bool alone;                              /* no other block of threads has room beside it on a multiprocessor */
    int64_t across, warp_rows, warp_columns; /* warps side by side in a tile; what one has of it */
    int64_t steps, stages, blocks /* of k: in a block, in shared memory, in all */;
    uint32_t sum;
    nest_var thread;
};

/* Part of what the thread's number is, and positions that may be outside of their axis: loads there are masked from
 * here on. */
void grid_add_digit(struct lower_dot_grid *, struct lower_pos *, int64_t by, int64_t count, int64_t scale);
struct lower_pos grid_inside(struct lower *, const struct lower_pos *, int64_t extent);

/* lower_dot_grid_shape.c: all of it but registers, locals and where the tile begins; how many tiles a side has. */
void grid_choose_shape(struct lower_dot_grid *);
int64_t grid_tiles(const struct lower_dot_side *);

/* lower_dot_stage.c: how a side goes to shared memory, its registers; from memory to these, by the block of k that
 * begins at `from`; from them to shared memory, `to` words behind its begin; where a word stands there. */
void grid_choose_patch(struct lower_dot_grid *, struct lower_dot_side *);
int64_t grid_staged(const struct lower_dot_grid *, const struct lower_dot_side *);
void grid_fetch(struct lower_dot_grid *, const struct lower_dot_side *, const struct lower_pos *from);
void grid_put(struct lower_dot_grid *, const struct lower_dot_side *, const struct lower_pos *to);
/* May its panels be copied, 16 bytes by 16 bytes as they stand in memory? From there to `to`, by nobody's registers. */
bool grid_may_copy(const struct lower_dot_grid *, const struct lower_dot_side *);
void grid_copy(struct lower_dot_grid *, const struct lower_dot_side *, const struct lower_pos *from,
               const struct lower_pos *to);
struct lower_pos grid_shared(struct lower_dot_grid *, const struct lower_dot_side *, const struct lower_pos *along,
                             const struct lower_pos *step);
int64_t grid_words(const struct lower_dot_grid *, const struct lower_dot_side *); /* of shared memory, for one block */
#endif
