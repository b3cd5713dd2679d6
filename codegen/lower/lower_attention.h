/* What the files of the template for attention share (see lower_attention.c). */
#ifndef CODEGEN_LOWER_ATTENTION_H
#define CODEGEN_LOWER_ATTENTION_H
#include "codegen/lower/lower.h"

enum { MOST_SOURCES = PLAN_MOST_SCORES, MOST_SINKS = PLAN_MOST_SINKS, MOST_BLOCKS = MOST_SOURCES + MOST_SINKS };

struct lower_attention_run {
    uint32_t count;
    int64_t extent[IR_MAX_RANK], stride[IR_MAX_RANK];
};
/* An operand: its batch, its rows, and what is contracted with another one's or, of a sink, what is made. */
struct lower_attention_side {
    ir_value value;
    struct lower_attention_run batch, along, inner;
    int64_t length; /* of inner */
};
struct lower_attention_block { /* of an operand, in a local: [rows][columns], padded to whole vectors */
    struct lower_attention_side side;
    bool lanes;  /* its rows are those of the lanes, not steps */
    bool direct; /* it is read where it stands: nothing would be nearer by a copy */
    uint32_t local;
    int64_t columns;
};
struct lower_attention_source {
    ir_value product;
    struct lower_attention_side lanes;
    uint32_t block, packed, tile; /* packed: the lanes' side, [depth][width] */
};
struct lower_attention_sink {
    ir_value product, from;
    ir_value stored; /* the product, or what it is cast to */
    bool left;       /* the tile is the first operand */
    bool across; /* it contracts the lanes: what is made has the steps' rows, of which each block of lanes makes a part
                  */
    uint32_t block, tile, sums;
};

enum { MOST_CONDITIONS = 8 };
/* Which tiles count for nothing: all of their scores are `fill`, and no row's maximum is near it, so that all
 * exponentials are 0. A tile is all fill where one of the conditions, each a half plane, holds in none of its corners.
 */
struct lower_attention_dead {
    ir_value max;
    ir_value mask[MOST_CONDITIONS];      /* of select(mask, scores, fill) */
    ir_value condition[MOST_CONDITIONS]; /* comparisons of what grows evenly along rows and columns; all must hold */
    ir_value other[MOST_CONDITIONS];     /* what else must hold */
    uint32_t masks, conditions, others;
    double fill;
};

struct lower_attention {
    struct lower *l;
    struct plan_scores s;
    bool rows;   /* lanes are rows of scores, steps columns; or the other way round */
    bool across; /* one sink is: all blocks of a batch are one worker's */
    enum ir_dtype sum;
    int64_t width, blocks, steps, lanes, extent, walked; /* extents of the two sides */
    struct lower_attention_source source[MOST_SOURCES];
    struct lower_attention_sink sink[MOST_SINKS];
    struct lower_attention_block block[MOST_BLOCKS];
    uint32_t sources, sinks, block_count, tiles, tile[MOST_SOURCES + MOST_SINKS];
    ir_value max, total;              /* of the softmax that is made here; 0: none */
    ir_value score;                   /* what its maximum is of */
    struct lower_attention_dead dead; /* no conditions: none is known to be */
    uint32_t max_local, safe_local, sum_local, scale_local;
    struct lower_pos batch, first, step; /* where the open loops stand: batch, first lane, first step */
    nest_value least;                    /* maximum of the lanes, where these are rows whose softmax is known */
};

/* lower_attention_tile.c */
/* Vectors and rows of a register tile for so many vectors in all: most products for what is loaded, least padding;
 * `whole`: none. */
struct lower_attention_shape {
    uint32_t vectors, rows;
};
int64_t attention_padded(const struct lower_attention *, int64_t columns); /* whole register tiles */
/* out[row][column] (+)= left x right[k][column] over k; left lies by rows, or by k. */
struct lower_attention_product {
    uint32_t left, right, out;
    int64_t rows, columns, depth, left_row, left_k, width; /* width: row length of right and out */
    bool adds;
    uint32_t scale;           /* adds to what is there times scale[row]; 0: as it is */
    struct lower_pos out_row; /* of out */
    const struct lower_attention_block *left_block, *right_block; /* instead of a local */
};
/* A number of an operand. */
nest_value attention_operand(struct lower_attention *, const struct lower_attention_side *,
                             const struct lower_pos *along, const struct lower_pos *inner, enum ir_dtype);
void attention_multiply(struct lower_attention *, const struct lower_attention_product *);
/* Positions: 0, a variable's, x + y * scale; two coordinates in a local of rows of `columns`; a step and a lane among
 * the scores. */
struct lower_pos attention_zero(void);
struct lower_pos attention_var(struct lower *, nest_var, int64_t scale);
struct lower_pos attention_plus(struct lower *, const struct lower_pos *x, const struct lower_pos *y, int64_t scale);
struct nest_index attention_in_rows(struct lower *, const struct lower_pos *row, int64_t columns,
                                    const struct lower_pos *column);
/* The same of coordinates among all steps and all lanes. */
struct lower_pos attention_among_scores(struct lower_attention *, const struct lower_pos *step,
                                        const struct lower_pos *lane);
void attention_give(struct lower_attention *, ir_value, nest_value is); /* what it is here */
/* An element of what the group makes, if anybody reads it, under the mask of loads. */
void attention_store(struct lower_attention *, ir_value, const struct lower_pos *, nest_value is);
/* Products in the tiles become what the sinks contract; with the softmax of this group, or with what is known of it. */
void attention_weigh(struct lower_attention *, int64_t steps);
void attention_softmax(struct lower_attention *, int64_t steps);

/* lower_attention_dead.c: tiles that count for nothing; the condition under which one is made, 0: always; the least
 * maximum of so many rows from `first` on. */
void attention_find_dead(struct lower_attention *);
nest_value attention_is_live(struct lower_attention *, int64_t steps);
nest_value attention_least_max(struct lower_attention *, const struct lower_pos *first, int64_t rows);
ir_value attention_without_casts(const struct ir_func *, ir_value);

/* lower_attention_grid.c: the whole of it on a GPU. */
void attention_grid(struct lower_attention *);
#endif
