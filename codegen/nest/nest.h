/* Loop nests: the one form between fused groups and machine code. lower_*.c builds a nest for a group;
 * llvm_emit.c and cuda_emit.c only print nests.
 *
 * A nest is a tree of statements under loops. Scalars are SSA values that belong to the iteration they are computed
 * in; a value computed in a loop is visible in the loops inside it. Buffers are flat arrays; an index is affine in
 * the loop variables plus, where data decides, scaled int32 values.
 *
 *   parallel i0 < 768            (the range [lo, hi) of a call: workers on a CPU, blocks on a GPU)
 *     reg m[1] = -inf
 *     vector i1 < 65             (lanes on a CPU, threads on a GPU; tails are masked by the printer)
 *       v1 = load b0[65*i0 + i1]
 *       reduce m[0] max v1
 *     v2 = fold m[0] max         (across the lanes)
 *     ...
 */
#ifndef CODEGEN_NEST_H
#define CODEGEN_NEST_H
#include "ir/ir.h"

enum nest_loop {
    NEST_PARALLEL, /* outermost, at most one: its range is the kernel's arguments lo and hi. For GPUs others may stand
                      in it, with no other loop between: the range is that of all their iterations, the innermost first
                    */
    NEST_SERIAL,
    NEST_UNROLL, /* constant small extent, printed once per iteration; register indices may use its variable. The only
                    loop that may be in a vector loop */
    NEST_VECTOR  /* innermost data-parallel loop: iterations are independent but for `reduce`; the lane of
                      iteration i is i % nest.lanes */
};

/* Of what is checked: made by the nest or an earlier one; given to the step; a single number given to it that something
 * replaces before it counts, so it may be NaN. */
enum nest_given { NEST_MADE, NEST_GIVEN, NEST_PLACEHOLDER };

typedef uint32_t nest_value; /* SSA; 0 = none */
typedef uint32_t nest_var;   /* loop variable; numbered from 0 per nest */

struct nest_term {
    nest_var var;
    int64_t scale;
};
struct nest_scaled {
    nest_value value;
    int64_t scale;
}; /* an int32 value, sign-extended */
struct nest_index {
    int64_t offset;
    uint32_t term_count, scaled_count;
    const struct nest_term *terms;
    const struct nest_scaled *scaled;
};

enum nest_kind {
    NEST_FOR,      /* var, loop, extent, body */
    NEST_IF,       /* cond (bool, the same for all lanes: must not vary in an enclosing vector loop), body */
    NEST_OP,       /* result = op(args): an element-wise ir op, of dtype `dtype` (comparisons: the operands' dtype is
                     that of args[0]) */
    NEST_FMA,      /* result = args[0] * args[1] + args[2], one rounding. Of float32, where args[0] and args[1] are
                     pairs (below): the product of their second numbers is added first, then that of their first */
    NEST_NUMBER,   /* result = number, of `dtype` */
    NEST_POSITION, /* result = index as int32 */
    NEST_LOAD,     /* result = buffer[index]; `cond` (0 = always): where false the result is 0 and nothing is read.
                     `word`: of 16 bits, a pair: this element and the next one, which is the upper half of an uint32 */
    NEST_STORE,    /* buffer[index] = args[0]; `cond` as above; `word`: a pair */
    NEST_PREFETCH, /* what stands `extent` elements behind buffer[index], which may be outside of it, is wanted soon */
    NEST_ADD_TO,   /* buffer[index] += args[0], by one worker at a time (scatter inside a serial loop) */
    NEST_REG,      /* declares `reg`: an array of `extent` registers of `dtype`, each set to args[0] (a number).
                     `lanes`: one partial value per lane, for reductions over a vector loop or as a tile of
                     vectors whose lane is the vector loop's variable */
    NEST_GET,      /* result = reg[index]   (index: constant once unrolled) */
    NEST_SET,      /* reg[index] = args[0] */
    NEST_REDUCE,   /* reg[index] = reg[index] op args[0], per lane; masked lanes keep their value. op: OP_add, OP_mul,
                     OP_max, OP_min, OP_and, OP_or */
    NEST_FOLD,     /* result = all lanes of reg[index] combined by op, in a fixed order; outside the vector loop */
    NEST_TURN,     /* reg, of `extent` elements that are tiles of so many columns: lane i of element k and lane k of
                     element i change places. Outside of vector loops; not for GPUs */
    NEST_SPREAD,   /* lane l of each element of reg becomes lane [index] + l / `extent` * from[1] of that element of the
                      register from[0]. Outside of vector loops; not for GPUs */
    NEST_MATRIX, /* reg, of float32, gets the products of the tiles in from[0] and from[1] added, as a GPU's matrix unit
                    makes them: so many tiles of 16 rows by 16 steps of `dtype` (16 bits) times tiles of 16 steps by 8
                    columns, each held by 32 neighbouring lanes. Lane 4g + t has of a left tile rows g and g + 8 by
                    steps 2t and 2t + 8, four registers of a pair each, rows first; of a right one column g by the
                    same steps, two registers; of the sums, left tiles outermost, rows g and g + 8 by columns 2t and
                    2t + 1, four registers, columns first. Outside of vector loops; for GPUs only */
    NEST_WARPGROUP, /* reg, of float32, gets the product of two panels in locals added, as the warpgroups of a GPU make
                       it: the threads go on, and until NEST_WARPGROUP_WAIT nobody may touch what it reads, nor these
                       registers; see nest_panels. It reads what was stored and what has arrived before the last
                       NEST_ARRIVED. Lanes hold the sums as with NEST_MATRIX, of 16 rows for 32 of them: columns of 8
                       behind one another, four registers each. Outside of vector loops; for GPUs only */
    NEST_TAKE, /* reg, of uint32, gets what NEST_MATRIX wants of a panel, by each warp; see nest_take. Outside of vector
                  loops; for GPUs only */
    NEST_COPY, /* buffer[index], four words of a panel, gets the 16 bytes of buffer from[0] at `source` by a thread that
                  goes on; `cond`: where false zeros, and nothing is read. In a vector loop; for GPUs only */
    NEST_COPIES,  /* what each thread has begun to copy since the last such statement is a group */
    NEST_ARRIVED, /* all groups but the last `extent` ones have arrived, those of every thread: these meet here. Until
                     then nobody may touch what they write */
    NEST_WARPGROUP_WAIT, /* the thread's warpgroup is done with all products but the last `extent` ones (0, 1); reg has
                            them, if there are none. Others are where threads meet */
    NEST_TILES, /* a product of two matrices whose steps are pairs of bfloat16, in the tiles of a CPU's matrix unit:
                   buffer[index], float32, gets it or (`word`) gets it added; see nest_tiles. Of up to 16 pairs the
                   first numbers and the second ones are summed apart, then both sums added. Outside of vector loops;
                   for targets with tiles only */
    NEST_LOCAL, /* declares `buffer` as scratch of `extent` elements of `dtype`, private to a worker or block */
    NEST_CHECK  /* where args[0] is not finite, tells so: what `extent` is the number of (cg_site) made element
                  [index] from the operands args[1..]. `cond`, and with `lanes` the last operand: where false
                  nothing is told. `word`: enum nest_given. It
                  takes no part in what decides the code of everything else */
};

/* Of NEST_TILES: rows of pairs times steps of columns of pairs, at most NEST_TILE_EDGE rows and columns. Where a pair
 * is one element (uint32) or two (bfloat16), strides are those of the buffer's own elements. */
enum { NEST_TILE = 16, NEST_TILE_EDGE = 2 * NEST_TILE };
struct nest_tiles {
    uint32_t rows, columns, from[2]; /* buffers: left, right */
    int64_t steps, stride,
        apart[2]; /* between rows of the result and of the left one, between steps of the right one */
    struct nest_index at[2];
};

/* Of NEST_WARPGROUP: `columns` by half as many rows as the nest has lanes, by `steps` of 16 bits. A panel is of pairs
 * (uint32) in a local.
 * `steps_first`: of neighbouring steps, those of a row (or column) side by side, rows behind one another; otherwise of
 * neighbouring rows, by parts of so many as lie side by side (`swizzle`; NEST_PANEL for warpgroups): those of a step,
 * steps behind one another. */
enum { NEST_PANEL = 64 };
enum { NEST_UNIT_ROWS = 16, NEST_UNIT_COLUMNS = 8, NEST_UNIT_STEPS = 16 }; /* of tiles of NEST_MATRIX */
struct nest_panels {
    uint32_t columns, from[2]; /* buffers: left, right */
    int64_t steps;
    bool steps_first[2];
    struct nest_index at[2];
};

/* Of NEST_TAKE: NEST_UNIT_STEPS from `step` on, of a panel of `steps` in buffer `from` at `at`. A warp takes `size`
 * rows for a left operand, or as many columns: those of its digit (warp / by) % count. */
struct nest_take {
    bool left, steps_first;
    uint32_t from;
    int64_t size, by, count, steps, step;
    struct nest_index at;
};

struct nest_stmt {
    enum nest_kind kind;
    uint16_t op;   /* enum ir_op */
    uint8_t dtype; /* of the result, or of what is declared */
    uint8_t loop;  /* enum nest_loop */
    bool lanes;
    nest_value result;
    nest_value args[5];
    uint8_t arg_count;
    uint8_t word; /* threefry; pairs */
    nest_value cond;
    nest_var var;
    int64_t extent; /* NEST_FOR: iterations; -1: the vector loop of a flat nest (see nest.flat) */
    uint32_t buffer, reg;
    uint32_t from[2]; /* registers; of NEST_SPREAD one, and lanes; of NEST_COPY a buffer */
    struct nest_index index;
    const struct nest_index *source;
    const struct nest_tiles *tiles;
    const struct nest_panels *panels;
    const struct nest_take *take;
    double number;
    VEC(struct nest_stmt *) body;
};

/* BOUNDED: below STEPC_BOUND, CLOSE: below STEPC_BOUND_CLOSE (codegen/late/late.h). */
enum { NEST_ANY, NEST_FINITE, NEST_BOUNDED, NEST_CLOSE };
struct nest_buffer {
    uint8_t dtype;
    bool written, local;
    uint8_t checked; /* what is stored here and is not so raises the flag in front of the scratch (step_abi.h) */
    uint8_t level;   /* of an argument: an output may stand in the memory of an input of the same level; NEST_ALONE: of
                        none. 0: of any */
    uint8_t swizzle; /* of panels in a GPU's shared memory: bytes that lie side by side. A printer puts every 16 bytes
                        number p at p ^ p / 8 % (swizzle / 16), as the hardware reads them; indices do not show it.
                        0: none */
    int64_t extent;  /* of locals */
    const char *doc;
};
enum { NEST_ALONE = 1 };

struct nest {
    struct arena *arena;
    VEC(struct nest_buffer) buffers; /* the first `argument_count` are the kernel's arguments, in order */
    uint32_t argument_count;
    VEC(struct nest_stmt *) body; /* statements before, the parallel loop (if any), statements after */
    uint32_t value_count, var_count, reg_count;
    uint64_t scratch_bytes;  /* of all locals */
    int64_t parallel_extent; /* iterations of the parallel loops; 1 if there are none */
    int64_t grain;           /* workers get multiples of this many iterations */
    double work;             /* rough multiply-adds in all, to choose the number of workers */
    uint32_t lanes;          /* elements of a vector, whatever their dtype: vector bytes / 4. A vector loop that
                                        uses a lane register by get or set (a tile) has at most this many iterations */
    bool flat;               /* no parallel loop: one vector loop of extent -1 stands in its place and runs over
                                        [lo, hi); its index starts at lo; parallel_extent says how many there are */
};

/* The kernel that a nest becomes: void kernel(void *const *buffers, int64_t lo, int64_t hi, void *scratch).
 * Nests that print the same are one kernel: nest_hash covers everything but the doc strings, and the extent
 * of a flat map is taken from lo and hi, so all flat maps of one shape of code share a kernel. */
uint64_t nest_hash(const struct nest *);
const struct nest_stmt *nest_parallel_in(const struct nest_stmt *parallel); /* the parallel loop in it, NULL: none */
int64_t nest_inner(const struct nest_stmt *parallel);                       /* iterations of those inside of it */
/* How a flat nest goes through an argument, a set of these bits; whether there is a statement of that kind. */
enum { NEST_STAYS = 1 /* one element for all */, NEST_WALKS = 2 /* at the loop's own index */, NEST_JUMPS = 4 };
uint8_t nest_access(const struct nest *, uint32_t argument);
bool nest_has(const struct nest *, enum nest_kind);
double nest_instructions(const struct nest *, struct arena *); /* nest_count.c: of scalars, roughly */
uint64_t nest_shape(const struct nest *); /* as if all numbers were 0 and the parallel loop ran once */
/* nest_wide.c: what is made of 16 bits on the way to something else keeps float32's digits. */
void nest_keep_digits(struct nest *);
void nest_print(const struct nest *, struct str *); /* the form of the head of this file */
void nest_print_named(const struct nest *, const char *name, struct str *);
bool nest_verify(const struct nest *, struct str *faults);

/* Construction (nest.c). nest_open starts a loop and makes its body the place where the following statements go;
 * nest_close ends it. Pure statements (ops, numbers, positions, loads of buffers that are not written) go to the
 * outermost loop where their operands are visible, and equal ones are one. */
struct nest_value_info {
    uint8_t dtype, level;
    uint32_t scope;
};
enum { NEST_DEPTH = 24 };
struct nest_builder {
    struct nest *nest;
    struct nest_stmt *stack[NEST_DEPTH];
    uint32_t depth;
    /* of the builder itself */
    VEC(struct nest_value_info) values; /* by nest_value */
    VEC(uint8_t) var_level;             /* by nest_var: depth inside its loop */
    VEC(uint8_t) reg_dtype;             /* by register */
    uint32_t scope[NEST_DEPTH + 1], scope_count;
    struct map shared; /* hash of a pure statement -> value */
};
struct nest *nest_new(struct arena *);
void nest_builder_init(struct nest_builder *, struct nest *); /* before the first call */
enum ir_dtype nest_dtype(const struct nest_builder *, nest_value);
uint32_t nest_argument(struct nest_builder *, enum ir_dtype, bool written, const char *doc);
uint32_t nest_local(struct nest_builder *, enum ir_dtype, int64_t extent);
nest_var nest_open(struct nest_builder *, enum nest_loop, int64_t extent);
void nest_close(struct nest_builder *);
void nest_close_to(struct nest_builder *, uint32_t depth); /* all but that many */
void nest_open_if(struct nest_builder *, nest_value cond);
nest_value nest_op(struct nest_builder *, enum ir_op, enum ir_dtype, const nest_value *args, uint32_t n);
nest_value nest_fma(struct nest_builder *, enum ir_dtype, nest_value, nest_value, nest_value);
nest_value nest_number(struct nest_builder *, enum ir_dtype, double);
void nest_check(struct nest_builder *, uint32_t site, struct nest_index, const nest_value *args, uint32_t n,
                nest_value cond, nest_value mask, enum nest_given given);
/* int32, or float64 where it may be beyond that. */
nest_value nest_position(struct nest_builder *, enum ir_dtype, struct nest_index);
nest_value nest_load(struct nest_builder *, uint32_t buffer, struct nest_index, nest_value cond);
nest_value nest_load_pair(struct nest_builder *, uint32_t buffer, struct nest_index, nest_value cond);
/* An uint32 that goes to bfloat16 is a pair. */
void nest_store(struct nest_builder *, uint32_t buffer, struct nest_index, nest_value, nest_value cond);
void nest_prefetch(struct nest_builder *, uint32_t buffer, struct nest_index, int64_t ahead);
void nest_add_to(struct nest_builder *, uint32_t buffer, struct nest_index, nest_value);
uint32_t nest_reg(struct nest_builder *, enum ir_dtype, uint32_t count, bool lanes, double initial);
nest_value nest_get(struct nest_builder *, uint32_t reg, struct nest_index);
void nest_set(struct nest_builder *, uint32_t reg, struct nest_index, nest_value);
void nest_reduce(struct nest_builder *, enum ir_op, uint32_t reg, struct nest_index, nest_value);
void nest_turn(struct nest_builder *, uint32_t reg, uint32_t count);
void nest_spread(struct nest_builder *, uint32_t reg, uint32_t from, struct nest_index first, int64_t each,
                 int64_t apart);
void nest_matrix(struct nest_builder *, enum ir_dtype, uint32_t sums, uint32_t left, uint32_t right);
uint32_t nest_panel(struct nest_builder *, int64_t extent, int64_t beside); /* a local for some: so many side by side */
void nest_warpgroup(struct nest_builder *, enum ir_dtype, uint32_t sums, const struct nest_panels *);
void nest_warpgroup_wait(struct nest_builder *, uint32_t sums, int64_t but);
void nest_take(struct nest_builder *, uint32_t reg, const struct nest_take *);
void nest_copy(struct nest_builder *, uint32_t local, struct nest_index, uint32_t from, struct nest_index source,
               nest_value cond);
void nest_copies(struct nest_builder *);
void nest_arrived(struct nest_builder *, int64_t but);
/* `add`: to what the buffer has. */
void nest_tiles(struct nest_builder *, uint32_t buffer, struct nest_index, const struct nest_tiles *, bool add);
nest_value nest_fold(struct nest_builder *, enum ir_op, uint32_t reg, struct nest_index);
nest_value nest_threefry(struct nest_builder *, const nest_value *args, uint32_t word);
/* e to the power of a float, for what is rounded to 16 bits: an OP_exp with a word. For GPUs only. */
nest_value nest_rough_exp(struct nest_builder *, enum ir_dtype, nest_value);

/* The interpreter of nests (nest_eval.c): iterations [lo, hi) on buffers in their dtypes' own layout, lane by lane.
 * It is what the printers are compared with. False: an index was out of its loop's buffer (`bytes` per argument). */
bool nest_eval(const struct nest *, void *const *buffers, const size_t *bytes, int64_t lo, int64_t hi, struct arena *);
#endif
