/* What the files of attention on a GPU share (see lower_attention_grid.c). */
#ifndef CODEGEN_LOWER_ATTENTION_GRID_H
#define CODEGEN_LOWER_ATTENTION_GRID_H
#include "codegen/lower/lower_attention.h"

enum { ATTENTION_THREADS = 128, ATTENTION_GROUP = 4 /* neighbours of a thread at most: a load of 16 bytes */ };

/* A thread's part of one side of a tile: groups of neighbours, `groups` of them, so far apart that the others stand
 * between them; of warps each has its own stretch, or (0) all have all. */
struct lower_attention_part {
    int64_t by, count; /* digit of the thread's number */
    int64_t groups, group, apart, warp_apart;
    uint32_t reg; /* what the thread takes of it for a product */
};
struct lower_attention_piece {
    nest_var outer, inner;
};

/* An operand on its way to shared memory. */
struct lower_attention_stage {
    const struct lower_attention_side *side;
    struct lower_pos first; /* of its rows */
    int64_t rows;           /* that it has */
    bool rows_kept;         /* its rows are kept, what is inside is contracted; or the other way round */
    bool fast_kept;         /* neighbours in memory are kept */
    int64_t kept, chunk;    /* numbers of both sides that are there at a time */
    int64_t apart;          /* rows of what is kept */
    uint32_t local, staged;
};

/* An operand in shared memory for the matrix unit: rows of pairs, in `parts` of so many columns as lie side by side. */
struct lower_attention_panel {
    const struct lower_attention_side *side;
    int64_t rows, part, parts;
    bool copied; /* by nobody's registers */
    uint32_t local;
};

enum { ATTENTION_KEPT = 4 /* steps of the matrix unit whose left operand a thread keeps */ };

struct lower_attention_grid {
    struct lower_attention *a;
    bool unit;          /* by the matrix unit: operands and weights have 16 bits */
    enum ir_dtype kind; /* of what is multiplied */
    nest_var thread;
    struct lower_attention_part lanes, steps, made[MOST_SINKS];
    struct lower_attention_part own; /* lanes whose softmax is the thread's, with `parts` - 1 others */
    int64_t parts, part_by;
    int64_t row;       /* numbers of a row of a tile in shared memory */
    uint32_t local[2]; /* what is staged, of lanes and of the others */
    uint32_t scores[MOST_SOURCES], sums[MOST_SINKS];
    struct lower_attention_panel lanes_panel[MOST_SOURCES], panel[MOST_BLOCKS]; /* with the matrix unit */
    int64_t stages;                              /* tiles of the steps that are in shared memory at a time */
    uint32_t kept[MOST_SOURCES][ATTENTION_KEPT]; /* pairs of the lanes' side, where it stays in registers */
    uint32_t weights[MOST_SINKS]; /* pairs in registers, by tile: the matrix unit's left operand, `pieces` of it */
    uint32_t pieces[MOST_SINKS];  /* 1, or of float32 three that make it up */
    uint32_t most, total, scale;  /* so far, of a thread's lanes */
    uint32_t inverse;             /* reciprocals of what the rows of a tile are divided by; 0: none */
};

/* Loops over a thread's piece, and over the threads in it; where it stands in the tile, which of its numbers it is. */
void attention_open_threads(struct lower_attention_grid *);
struct lower_attention_piece attention_open_piece(struct lower_attention_grid *, const struct lower_attention_part *);
void attention_digit(struct lower_attention_grid *, struct lower_pos *, int64_t by, int64_t count, int64_t scale);
struct lower_pos attention_place(struct lower_attention_grid *, const struct lower_attention_part *,
                                 struct lower_attention_piece);
void attention_add_number(struct lower_attention_grid *, struct lower_pos *, const struct lower_attention_part *,
                          struct lower_attention_piece, int64_t scale);
int64_t attention_size(const struct lower_attention_part *); /* of the tile */
int64_t attention_own(const struct lower_attention_part *);  /* of a thread */
/* Of the sums of lanes by another side: as NEST_MATRIX has them, or lane by lane; how far apart lanes are then. */
int64_t attention_lane_number(const struct lower_attention_grid *, const struct lower_attention_part *);
struct nest_index attention_sum(struct lower_attention_grid *, struct lower_attention_piece lane,
                                const struct lower_attention_part *, struct lower_attention_piece other);
/* The value where the mask of loads holds, else `otherwise`. */
nest_value attention_masked(struct lower_attention_grid *, nest_value, double otherwise);
void attention_leave(struct lower_attention_grid *, uint32_t depth); /* loops, and the mask of loads */

/* lower_attention_grid_shape.c: tile and parts, locals; registers, behind the loop over blocks. */
void attention_choose_shape(struct lower_attention_grid *);
void attention_declare(struct lower_attention_grid *);

/* lower_attention_stage.c, without the matrix unit. Numbers in shared memory for a side: of lanes, of the others. */
int64_t attention_shared_numbers(const struct lower_attention_grid *, bool lanes);
/* Scores = lanes x steps; sums += weights x what they are made with. */
void attention_make_scores(struct lower_attention_grid *, uint32_t source);
void attention_add_sums(struct lower_attention_grid *, uint32_t sink);

/* lower_attention_inverse.c: reciprocals for a tile, until they are taken away (lower.inverted). */
void attention_invert(struct lower_attention_grid *);

/* lower_attention_panel.c, with it. Panels for this tile, false: they do not fit beside so many other bytes; their
 * locals and registers. */
bool attention_choose_panels(struct lower_attention_grid *, int64_t others);
void attention_declare_panels(struct lower_attention_grid *);
/* On their way to shared memory: the lanes, a group of copies, and a tile of the steps, of one that is open. */
void attention_move_lanes(struct lower_attention_grid *);
void attention_move_steps(struct lower_attention_grid *, const struct lower_pos *tile);
/* Once the lanes have come; scores and sums of a tile that has. */
void attention_keep_lanes(struct lower_attention_grid *);
void attention_multiply_rows(struct lower_attention_grid *, uint32_t source, const struct lower_pos *tile);
void attention_add_columns(struct lower_attention_grid *, uint32_t sink, const struct lower_pos *tile);
#endif
