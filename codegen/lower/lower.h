/* What the lowering files share. A group is lowered by walking its iteration domain (a few axes, each a linear range)
 * and asking for its outputs at symbolic positions; a value at a position asks for its operands at positions mapped
 * through the op. A position is an affine expression of loop variables in the value's own C order, so element-wise
 * ops and reshapes pass it on unchanged. Where an op needs coordinates (a broadcast, a transposition), the position is
 * taken apart; if a loop variable straddles a dimension, the axis is split there and the lowering starts over. */
#ifndef CODEGEN_LOWER_H
#define CODEGEN_LOWER_H
#include "codegen/codegen.h"

enum { POS_TERMS = 16, POS_SCALED = 12, AXIS_PARTS = 10, LOWER_AXES = 10 };

struct lower_pos_scaled {
    nest_value value;
    int64_t scale, max;
}; /* an int32 in [0, max] */
struct lower_pos {
    int64_t offset;
    uint32_t term_count, scaled_count;
    struct nest_term term[POS_TERMS];
    struct lower_pos_scaled scaled[POS_SCALED];
};

/* A linear range of the domain, split into parts, outermost first. What stands in so many steps of a part differs (its
 * phases), so that they are lowered one by one; 0: in none. */
struct lower_axis {
    int64_t extent;
    uint32_t parts;
    int64_t part[AXIS_PARTS];
    int64_t phase[AXIS_PARTS];
};

enum lower_source { FROM_NODE, FROM_VALUE, FROM_BUFFER };
struct lower_override {
    uint8_t source;
    nest_value value; /* FROM_VALUE: what it is here */
    uint32_t buffer;  /* FROM_BUFFER: a local that holds it, at its position minus `base` */
    struct lower_pos base;
};

/* What a reduction knows of a member of its group. */
struct lower_reduced {
    uint32_t stage;  /* passes that must be complete before it can be computed */
    uint32_t marked; /* 1 + the last pass that was seen to need it */
    uint32_t reg;    /* register of a reduction */
    uint32_t local;  /* terms that are laid out, or sums that wait */
    bool keep;       /* in the local, from its pass on */
};

/* `unit`: steps of its axis part that one step of the variable is; `splits`: the part may be split on its behalf. */
struct lower_var_info {
    int64_t extent, unit;
    uint8_t axis, part, loop;
    bool splits;
};

/* Of nest.work: products count multiply-adds, of which a core does this many in the time of one step of an elementary
 * function (ops.def, cost) or of a load. */
enum { LOWER_WORK_OF_COST = 4 };

/* A value that was loaded, and from where. */
struct lower_loaded {
    nest_value value;
    uint32_t buffer;
    struct lower_pos at;
};

/* Of a map for a GPU (lower_turn.c), by argument: how far apart neighbours along each part of the domain lie there,
 * loads of an element, and the local through which it goes; 0: none. */
struct lower_turned {
    int64_t along[AXIS_PARTS];
    uint32_t loads, local;
};
enum lower_turn_mode { TURN_NONE, TURN_PROBE, TURN_FILL, TURN_USE };
struct lower_turn {
    enum lower_turn_mode mode;
    uint32_t parts; /* that the domain had when it was probed; 0: not yet */
    uint32_t part;
    struct lower_turned *of;
    struct nest_index at; /* in the locals */
};

struct lower {
    struct nest_builder b;
    struct arena *arena; /* nests and everything else */
    const struct plan *plan;
    const struct plan_group *group;
    const struct ir_func *f;
    const struct cg_target *target;
    const bool *checked;    /* by output of the group: see nest_buffer; NULL: none */
    struct cg_sites *sites; /* NULL: what is computed is not checked */
    size_t first_site; /* of the group; those of other members of its command have the numbers from `sites_as` on */
    size_t sites_as;
    uint32_t alike;
    uint32_t lanes;
    const uint32_t *argument;      /* by value: kernel argument + 1 of a group input, 0 = none */
    bool *member;                  /* by value */
    struct lower_override *from;   /* by value */
    struct lower_reduced *reduced; /* by value */
    bool rough;                    /* exponentials of what is kept are (nest_rough_exp) */
    ir_value inverted;             /* whose reciprocal stands instead of it, by which is multiplied; 0 = none */
    nest_value cond;               /* mask of the loads made now; 0 = none */
    nest_value tile_mask; /* lanes inside a tile that sticks out; loads that move with this axis part need it */
    uint32_t tile_axis, tile_part;
    int64_t tile_most;               /* what the tile's variables make of that part at most, in such lanes */
    VEC(struct lower_var_info) vars; /* by nest_var */
    /* the domain; kept when the lowering starts over */
    struct lower_axis axes[LOWER_AXES];
    uint32_t axis_count;
    bool retry;           /* an axis was split, or something was probed */
    bool phases;          /* parts may have phases */
    int64_t least_part;   /* steps of a part that what is asked for now may leave; 0: any */
    bool probed, probing; /* contractions: how far apart in memory neighbouring columns are */
    nest_var probe_var;
    int64_t lane_stride;
    struct lower_turn turn;
    uint32_t turned_part; /* maps: 1 + the part along which what is read lies, if the last one is not it; 0 */
    const char *failed;   /* what has no lowering; NULL: fine */
    ir_value failed_at;
    double cost; /* operations per evaluation, summed as nodes are first emitted */
    struct map memo;
    VEC(struct lower_loaded) loaded;
};

/* lower_pos.c */
void lower_fail(struct lower *, ir_value, const char *what); /* a group that has no code */
struct lower_pos lower_pos_constant(int64_t);
void lower_pos_add_term(struct lower *, struct lower_pos *, nest_var, int64_t scale);
void lower_pos_add(struct lower *, struct lower_pos *, const struct lower_pos *, int64_t scale); /* p += scale * q */
void lower_pos_add_scaled(struct lower *, struct lower_pos *, nest_value, int64_t scale, int64_t max);
/* p += scale * ((variable / by) % count), of a variable that counts to `extent`. */
void lower_pos_add_digit(struct lower *, struct lower_pos *, nest_var, int64_t extent, int64_t by, int64_t count,
                         int64_t scale);
/* The condition that a position is below `extent`, under which it may be taken to be so from here on; 0: always. */
nest_value lower_pos_inside(struct lower *, struct lower_pos *, int64_t extent);
int64_t lower_common_factor(int64_t, int64_t);
int64_t lower_pos_scale(const struct lower_pos *, uint32_t i); /* of a term, or of what is scaled behind them */
/* p = factor * high + low with low in [0, factor), without any division; false: it is not so. */
bool lower_pos_part(struct lower *, const struct lower_pos *p, int64_t factor, struct lower_pos *high,
                    struct lower_pos *low);
/* Asks for each step of a short part that the position has to be lowered by itself, and the lowering to start over. */
void lower_pos_ask_apart(struct lower *, const struct lower_pos *);
/* The same where low may go further, but passes only one multiple of the factor, `*multiple`, or none (`*none`): p is a
 * multiple of the factor where low is there. False: it passes several, and the lowering may start over. */
bool lower_pos_phase(struct lower *, const struct lower_pos *p, int64_t factor, struct lower_pos *high,
                     struct lower_pos *low, int64_t *multiple, bool *none);
void lower_pos_range(const struct lower *, const struct lower_pos *, int64_t *low, int64_t *high);
nest_value lower_pos_value(struct lower *, const struct lower_pos *); /* as int32 */
/* Of positions of any size: one as it is compared with a number, `*number`, and p = by * quotient + rest for p >= 0. */
nest_value lower_pos_beside(struct lower *, const struct lower_pos *, int64_t with, nest_value *number);
nest_value lower_pos_quotient(struct lower *, const struct lower_pos *, int64_t by);
nest_value lower_pos_rest(struct lower *, const struct lower_pos *, int64_t by);
struct nest_index lower_pos_index(struct lower *, const struct lower_pos *);
/* Strides of C order; what lies before and behind a dimension, and it between them. */
void lower_strides(const struct ir_type *, int64_t *stride);
void lower_around(const struct ir_type *, int64_t dim, int64_t shape[3]);
/* Coordinates of a position in a shape; the outermost may exceed its extent if the position does. */
void lower_pos_split(struct lower *, const struct lower_pos *, uint32_t rank, const int64_t *shape,
                     struct lower_pos *out);
struct lower_pos lower_pos_join(struct lower *, uint32_t rank, const int64_t *shape, const struct lower_pos *);

/* Coordinates of a position in a shape whose dimensions have steps of `scale` in another tensor: neighbours that stay
 * neighbours there are one, but for those that are to be kept `apart` from the one before (NULL: none). Returns how
 * many there are, `by`: their steps. */
uint32_t lower_pos_runs(struct lower *, const struct lower_pos *, uint32_t rank, const int64_t *shape,
                        const int64_t *scale, const bool *apart, struct lower_pos *at, int64_t *by);
nest_value lower_number(struct lower *, int64_t); /* int32 */
nest_value lower_binary(struct lower *, enum ir_op, enum ir_dtype, nest_value, nest_value);
nest_value lower_cast(struct lower *, nest_value, enum ir_dtype);

/* lower_loop.c */
/* The lanes of a tile that lie in an axis part: what the position has of the part, `offset` added, is below `extent`.
 * They are the tile_mask until that is cleared. */
nest_value lower_mask_tile(struct lower *, const struct lower_pos *, uint32_t axis, uint32_t part, int64_t offset,
                           int64_t extent);
nest_value lower_compare(struct lower *, enum ir_op, nest_var, int64_t with); /* a loop's variable with a number */
nest_var lower_open(struct lower *, enum nest_loop, int64_t extent);          /* a loop that is no part of an axis */
/* Opens what is done if there is a block so far behind this one, of `blocks`; its number. Of the next one, where that
 * begins, by `steps` each: whole blocks need no mask there. */
struct lower_pos lower_block_ahead(struct lower *, nest_var block, int64_t blocks, int64_t ahead);
struct lower_pos lower_next_block(struct lower *, nest_var block, int64_t blocks, int64_t steps);
nest_var lower_open_part(struct lower *, enum nest_loop, uint32_t axis, uint32_t part);
/* A loop over a piece of an axis part: `extent` steps of `unit` each. */
nest_var lower_open_piece(struct lower *, enum nest_loop, uint32_t axis, uint32_t part, int64_t extent, int64_t unit);
/* A part as serial loops go over it: `count` rounds of `steps` that are lowered one by one, and what is left. */
struct lower_stretch {
    int64_t first, count, steps;
};
uint32_t lower_stretches(const struct lower *, uint32_t axis, uint32_t part, struct lower_stretch stretch[2]);
/* Opens the loop over its rounds, unless there is one; where the first step of a round lies in the part. */
struct lower_pos lower_open_stretch(struct lower *, uint32_t axis, uint32_t part, const struct lower_stretch *);
/* Of two loops that workers could share out: is the one further inside worth the pieces of memory that lie apart? */
bool lower_shares_better(int64_t inner, int64_t outer);
int64_t lower_axis_stride(const struct lower_axis *,
                          uint32_t part); /* of one step of a part, in elements of the axis */
uint32_t lower_argument_of_output(const struct lower *, size_t output);

/* lower_check.c: the number of a value among the sites of checks. */
uint32_t lower_site(struct lower *, ir_value);
/* What `v` is at a position, made from these operands, will be checked, if that is asked for. */
void lower_check(struct lower *, ir_value v, nest_value is, const struct lower_pos *, const nest_value *operands,
                 uint32_t count);

/* lower_access.c: are `few` neighbours of a value, from a multiple of that on, made of neighbours in memory, from a
 * multiple on? Does it stand in memory as it is, but for its order? */
bool lower_side_by_side(const struct lower *, ir_value, int64_t few);
bool lower_stands(const struct lower *, ir_value);
/* What a value was before it was made wider. */
ir_value lower_narrow(const struct lower *, ir_value);

/* lower_value.c: a value at a position of its own C order. */
nest_value lower_value(struct lower *, ir_value, const struct lower_pos *);
bool lower_is_loaded(const struct lower *,
                     nest_value); /* for a GPU: by a load, which gives 0 where its mask does not hold */
const struct lower_loaded *lower_loaded_of(const struct lower *, nest_value); /* NULL: it is not */
/* What a value is read from, for every element one of its own: under broadcasts and reshapes. */
ir_value lower_root(const struct lower *, ir_value);
nest_value lower_halves(struct lower *, nest_value first, nest_value second); /* of 16 bits, as one uint32 */
/* Two elements of a bfloat16 value, `distance` apart, as one uint32: one load where they lie side by side. */
nest_value lower_pair(struct lower *, ir_value, const struct lower_pos *, int64_t distance);
nest_value lower_and(struct lower *, nest_value, nest_value); /* 0 = true */
/* lower_taps.c: an element of what plan_taps_of knows, at these two positions: outside the runs, and in what is
 * concatenated. False: that it is not, or the slices are stored. */
bool lower_taps(struct lower *, ir_value concat, const struct lower_pos *outer, const struct lower_pos *inner,
                nest_value *result);

/* What is known of a concatenation under reshapes; NULL: it is none of taps, or stored. */
const struct plan_taps *lower_taps_of(const struct lower *, ir_value);
/* Where an element of the concatenation stands: the buffer, UINT32_MAX if it is in none, and the position there. */
uint32_t lower_taps_place(struct lower *, const struct plan_taps *, const struct lower_pos *, struct lower_pos *at);

/* lower_tree.c: sums that are trees. A row of terms in a local becomes its sum, in element 0. */
void lower_tree_row(struct lower *, enum ir_dtype, uint32_t local, int64_t leaf, int64_t leaves);
/* Behind leaf number `leaf`: what is in registers waits at a level (add: false), or what waits there is added to it.
 * The last one leaves the whole sum at level `levels`. */
typedef void lower_tree_move(void *user, uint32_t level, bool add);
enum { LOWER_TREE_LEVELS = 13 };
uint32_t lower_tree_levels(int64_t leaves);
void lower_tree_join(struct lower *, const struct lower_pos *leaf, uint32_t levels, lower_tree_move *, void *user);

/* lower_turn.c: a map for a GPU that reads something across, false: it does not; what was loaded there, and what takes
 * its place. */
bool lower_turned(struct lower *);
nest_value lower_turn_load(struct lower *, uint32_t buffer, const struct lower_pos *, nest_value is);

/* One template each; called again after a split. */
void lower_map(struct lower *);
void lower_reduction(struct lower *);
void lower_dot(struct lower *, struct cg_gemm *);
void lower_winograd(struct lower *);
void lower_scatter(struct lower *);
void lower_scatter_rows(struct lower *, bool in_place); /* for GPUs */
/* In how many parts an indexed dimension and its indices fall, each of which stays among its own, as where every row of
 * a matrix is sorted; 1: nothing of the kind is known. */
int64_t lower_scatter_groups(const struct lower *, const struct ir_node *scatter);
void lower_attention(struct lower *);
void lower_cumulate(struct lower *);
void lower_order(struct lower *);

/* lower_window.c: outputs, which may be a row of a larger buffer: the type of what is stored, its element at a
 * position, and where that goes. */
const struct ir_type *lower_output_type(const struct lower *, ir_value);
/* All outputs of the group at a position, or those of a level (plan_group.output_level); then their stores: an output
 * may stand in the memory of an input, so all loads come before. */
enum { LOWER_ALL_LEVELS };
nest_value *lower_outputs(struct lower *, uint8_t level, const struct lower_pos *);
void lower_store_outputs(struct lower *, const nest_value *, const struct lower_pos *, nest_value cond);
/* Is a part of a tensor, of the same rank, one run of its elements? Where does it start? */
bool lower_is_run(const struct ir_type *whole, const struct ir_type *part);
void lower_add_start(struct lower *, struct lower_pos *, const struct ir_type *whole, const struct ir_type *part,
                     const ir_value *starts);
nest_value lower_clamped(struct lower *, nest_value index, int64_t most); /* int32 in [0, most] */
#endif
