/* The tensor IR: types, nodes, functions, modules, and every public call on them.
 *
 * A module is a set of functions over a set of named slots (parameters, averages, optimizer state, inputs,
 * metrics). A function is a flat list of nodes, definition before use; a value is the index of its node, 0 = none.
 * Loops and calls name other functions of the module. The builder is the only way to make a node: it infers the
 * type, folds, and returns an equal pure node if there is one. */
#ifndef IR_IR_H
#define IR_IR_H
#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/map.h"
#include "ir/base/str.h"

/* ---------------------------------------------------------------- types */

enum ir_dtype {
    IR_TUPLE, /* several results, taken apart by proj */
#define X(NAME, text, st, bytes, cls, abi) IR_##NAME,
#include "kernels/dtypes.def"
#undef X
    IR_DTYPE_COUNT
};

enum { IR_MAX_RANK = 8, IR_MAX_ATTR = 7, IR_MAX_AXES = 6 };
#define IR_MAX_ELEMENTS ((INT64_C(1) << 48) - 1) /* of one tensor */

/* How a value lies on the mesh (stage spmd). Axes are numbered in the order of the mesh; `dim[i]` lists the axes
 * that split dimension i in ascending order, the first outermost, as nibbles (axis + 1), lowest nibble first; 0 =
 * whole. `partial`: bit mask of the axes over which the value is still to be summed. `step`: dimension i lies in
 * windows that overlap (within pass shard only, see passes/shard_window.c); 0: in parts of equal size. */
struct ir_sharding {
    uint32_t dim[IR_MAX_RANK];
    uint32_t partial, none; /* none: 0, so that layouts compare as bytes */
    int64_t step[IR_MAX_RANK];
};

struct ir_type {
    uint8_t dtype; /* enum ir_dtype */
    uint8_t rank;
    int64_t dim[IR_MAX_RANK]; /* unused ones are 0, so types compare with ir_type_equal or memcmp */
};

size_t ir_dtype_bytes(enum ir_dtype);
const char *ir_dtype_name(enum ir_dtype);      /* "float32" */
enum ir_dtype ir_dtype_find(const char *name); /* IR_TUPLE if unknown */
uint32_t ir_dtype_abi(enum ir_dtype);          /* STEP_F32, ...: the code in step.h */
enum ir_dtype ir_dtype_of_abi(uint32_t);       /* IR_TUPLE if there is none */
bool ir_dtype_is_float(enum ir_dtype);
bool ir_dtype_is_integer(enum ir_dtype); /* bool is not */
bool ir_dtype_is_signed(enum ir_dtype);  /* signed integers and floats */
double ir_dtype_least(enum ir_dtype);    /* -infinity of floats, false of bool */
double ir_dtype_greatest(enum ir_dtype); /* of 64-bit integers the nearest double */
struct ir_type ir_type_scalar(enum ir_dtype);
struct ir_type ir_type_of(enum ir_dtype, uint32_t rank, const int64_t *dim);
bool ir_type_equal(const struct ir_type *, const struct ir_type *);
int64_t ir_type_elements(const struct ir_type *);                 /* -1: negative extents, or 2^48 and more */
const char *ir_type_text(struct arena *, const struct ir_type *); /* "float32[2, 3]" for people, as in diagnostics */
/* The one place where sizes are multiplied: false if a or b is negative or the product is over IR_MAX_ELEMENTS. */
bool ir_size_multiply(int64_t a, int64_t b, int64_t *product);

/* Element `index` of an array in the dtype's own layout (any alignment) as a double; 64-bit integers beyond 2^53 lose
 * their low bits. Setting rounds once: floats to nearest even, to integers toward zero into the range (NaN: 0). */
double ir_element_get(enum ir_dtype, const void *data, size_t index);
void ir_element_set(enum ir_dtype, void *data, size_t index, double value);
double ir_element_round(enum ir_dtype, double value); /* the value that setting stores */

/* ---------------------------------------------------------------- nodes */

enum ir_op {
    IR_NONE,
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) OP_##name,
#include "ir/ops.def"
#undef X
    IR_OP_COUNT
};

enum { IR_STAGE_TENSOR = 1, IR_STAGE_SPMD = 2, IR_STAGE_KERNEL = 4 };
enum { IR_PURE = 1, IR_EWISE = 2, IR_COMMUTATIVE = 4, IR_LINEAR = 8, IR_MARKER = 16, IR_ROUNDS = 32 };
enum ir_emit {
    EMIT_none,
    EMIT_leaf,
    EMIT_ewise,
    EMIT_view,
    EMIT_index,
    EMIT_reduce,
    EMIT_dot,
    EMIT_scatter,
    EMIT_lines,
    EMIT_control,
    EMIT_comm
};

struct ir_op_info {
    const char *name, *attributes, *doc;
    int8_t args; /* -1: any number */
    uint8_t attr_count, stages, flags, emit, cost;
};
extern const struct ir_op_info ir_ops[IR_OP_COUNT];
static inline bool ir_is_ewise(enum ir_op op) { return ir_ops[op].flags & IR_EWISE; }
/* Arithmetic that takes no longer than reading its result from memory would. */
static inline bool ir_is_cheap(enum ir_op op) { return ir_is_ewise(op) && ir_ops[op].cost <= 1; }
enum ir_op ir_op_find(const char *name);                              /* IR_NONE if unknown */
const char *ir_attr_name(enum ir_op, uint32_t index, size_t *length); /* not terminated */
int32_t ir_attr_find(enum ir_op, const char *name);                   /* index into attr; -1 if unknown */
bool ir_attr_may_lack(enum ir_op, uint32_t index);                    /* not written where it is empty */

typedef uint32_t ir_value; /* index into the function's nodes; 0 = none */

struct ir_ints {
    const int64_t *v;
    uint32_t n;
};

struct ir_node {
    uint16_t op;
    uint32_t arg_count;
    const ir_value *args;
    struct ir_type type;
    struct ir_ints attr[IR_MAX_ATTR]; /* in the order of the op's row */
    const void *data; /* OP_constant: `splat` ? one element : all elements, in the dtype's own layout, C order */
    bool splat;
    uint32_t func;               /* loop, call, accumulate, scan: index of the body in the module */
    uint32_t place;              /* index into the module's places; 0 = none */
    struct ir_sharding sharding; /* stage spmd and kernel; type.dim are then local extents */
};

/* ---------------------------------------------------------------- functions and modules */

enum ir_role { /* of a slot; numbers are those of the ABI. ORDER: saved state, then the rest, hyper-parameters last */
               IR_ROLE_PARAM = 1,
               IR_ROLE_EMA,
               IR_ROLE_OPT_STATE,
               IR_ROLE_STATE,
               IR_ROLE_INPUT,
               IR_ROLE_METRIC,
               IR_ROLE_OUTPUT,
               IR_ROLE_HYPER, /* float scalar that the host sets between steps; frozen: one that it cannot set */
               IR_ROLE_INDEX /* what entries "indices" and "lookup" compute of a batch: integers that a step will use as
                                indices */
};

/* The input that says how many rows of a batch count (pass rows); no input of a document has a dot in its name. */
#define IR_ROWS_INPUT "batch.rows"

struct ir_slot {
    const char *name; /* "layers.0.kernel", "opt_state.0.mu.layers.0.kernel"; unique among saved state (PARAM to
                       * STATE, hyper-parameters), inputs, metrics and outputs, each for itself. Hosts know a
                       * hyper-parameter by what stands behind "hyperparameters." or "hyperparams." */
    enum ir_role role;
    struct ir_type type;         /* global */
    struct ir_sharding sharding; /* as the document gives it; of all slots from pass shard on */
    bool sharding_given;         /* by the document, if only to say that it is whole */
    bool frozen;                 /* a parameter that is not trained; a metric that is a sum over rows */
    bool computed;               /* saved and read, but not stored: filled by function "derive" (eval.<path>) */
    int64_t index_limit; /* integers used as indices: values must lie in [initial, index_limit); 0 = not checked */
    double initial;      /* hyper-parameters: the value before the host sets one */
    uint32_t place;
    /* Which axes of the batch an input has: bit i set if dimension i is the batch ("axes" in the document). */
    uint32_t batch_dims;
    uint32_t param;      /* slots derived from a parameter (averages, moments): its slot index + 1; 0 = none */
    uint32_t param_dims; /* nibble per dimension: the parameter's dimension that it runs along + 1, 0 = none of them;
                          * 0 as a whole: the parameter's own dimensions if the shapes are equal, else none */
};

/* Parameters and results of a function. `slot` is an index into the module's slots, or -1 for plain values.
 * An entry function reads each slot at most once (a parameter) and writes it at most once (a result). */
static inline bool ir_role_is_result(enum ir_role role) /* kept apart from the state */
{
    return role == IR_ROLE_METRIC || role == IR_ROLE_OUTPUT || role == IR_ROLE_INDEX;
}
struct ir_param {
    const char *name;
    struct ir_type type;
    int32_t slot;
    ir_value value;
};
struct ir_result {
    const char *name;
    ir_value value;
    int32_t slot;
};

struct ir_func {
    const char
        *name; /* entries: "init", "step", "eval", "infer", "derive", "indices", "lookup"; bodies: any unique name */
    bool entry;
    struct ir_node *nodes; /* [0] is unused */
    uint32_t count, capacity;
    VEC(struct ir_param) params;
    VEC(struct ir_result) results;
    struct ir_module *module;
    struct map shared; /* hash of a pure node -> value */
    uint16_t *
        *counts;   /* per node and operand: what of it counts rows (enum ir_counts); NULL: nothing. Up to pass rows */
    ir_value turn; /* from pass remat on: what is made again comes behind it; 0: nothing is */
};

struct ir_place {
    struct diag_span span;
    const char *pointer;
    uint32_t again; /* block that is made again for gradients, by its number; 0: none */
};                  /* in the document */

struct ir_mesh {
    uint32_t axis_count;
    const char *name[IR_MAX_AXES];
    int64_t size[IR_MAX_AXES];
    bool explicit_layouts; /* every value's must follow from what is given: pass explicit */
};

/* How many values may still be made: what asks for one more goes to `over`, which does not return. */
struct ir_budget {
    uint64_t left, all;
    void (*over)(struct ir_budget *, uint32_t place);
};

/* How values of one place in the document lie on the mesh, of the step and its loops; for reports. */
struct ir_layout {
    uint32_t place, count; /* values that are alike */
    uint16_t op;
    enum {
        IR_LAYOUT_DEFAULT,
        IR_LAYOUT_DOCUMENT,
        IR_LAYOUT_PARAMETER,
        IR_LAYOUT_CONSTRAINT,
        IR_LAYOUT_OPERANDS,
        IR_LAYOUT_READERS,
        IR_LAYOUT_TRAFFIC
    } from;
    struct ir_type type;
    struct ir_sharding sharding;
};

/* A product of many rows that is computed, with what reads it, in chunks of rows, or why it is not; for reports. */
struct ir_chunks {
    struct ir_type type; /* whole */
    uint32_t place, blamed;
    int64_t rows, size; /* 0: it is not */
    const char *why;
};

/* What is made again instead of kept; for reports. */
struct ir_again {
    bool any;
    int level;       /* of pass remat */
    uint32_t blocks; /* that the document names */
};

/* A block of the model as the document names it, in the order in which they are computed; for reports. */
struct ir_layer {
    const char *path, *type; /* path: of its parameters, "" of the model's own block */
    uint32_t place, parent;  /* parent: 1 + the index of the block that it stands in, 0: none */
    struct ir_type output;   /* the first of `outputs` tensors */
    uint32_t outputs;
    /* Of blocks without others inside, and of those that make something of what blocks inside give: the blocks that
     * made what it reads, or ~slot; more: and others. */
    VEC(int32_t) from;
    bool more;
};

/* What the document says of memory, or the command line, and what was chosen. */
struct ir_memory {
    uint64_t most;      /* bytes on one device; 0: any */
    int64_t chunk_rows; /* as pass chunk takes it: 0 by size, -1 nothing is chunked */
    int remat;          /* level of pass remat */
    bool microbatches;  /* others may be tried */
    uint32_t place;
};

enum ir_counts { IR_COUNTS_EXTENT = 1 /* of dimension 0, shifted by others */, IR_COUNTS_DIVISOR = 1 << IR_MAX_RANK };

struct ir_counted { /* a number of rows that would stay that of a full batch (pass rows) */
    uint32_t place;
    const char *what;
};

struct ir_module {
    struct arena arena;
    struct ir_budget *budget; /* NULL: as many as there is memory for */
    const char *name;
    const char *document; /* canonical JSON text of the document, for the manifest */
    enum { IR_AT_TENSOR = IR_STAGE_TENSOR, IR_AT_SPMD = IR_STAGE_SPMD, IR_AT_KERNEL = IR_STAGE_KERNEL } stage;
    VEC(struct ir_func *) funcs;
    VEC(struct ir_slot) slots;
    VEC(struct ir_place) places; /* [0] = no place */
    struct ir_mesh mesh;
    VEC(struct ir_layout) layouts;  /* from pass shard on, if there are several devices; not in the text form */
    VEC(struct ir_chunks) chunks;   /* from pass chunk on; not in the text form */
    int64_t together;               /* most microbatches that pass together makes at a time; not in the text form */
    struct ir_again again;          /* from pass remat on */
    VEC(struct ir_layer) layers;    /* not in the text form */
    VEC(struct ir_counted) counted; /* up to pass rows; not in the text form */
    struct ir_memory memory;        /* not in the text form */
    bool copies;                    /* equal nodes before a turn and behind it stay two: pass remat made them */
    const char *after;              /* the pass whose result this is; NULL: none */
    const char *numerics;           /* --numerics with which it was made; NULL: as is usual */
    struct plan_module *plans;      /* ir/plan.h: from pass fuse on */
};

/* Axes of one dimension (struct ir_sharding): those of a mask, in the order of the mesh; into how many parts they
 * split. */
uint32_t ir_axes_of_mask(uint32_t mask);
int64_t ir_axes_size(const struct ir_mesh *, uint32_t axes);
/* The extent that every device holds of one that is split: rounded up, so the last parts are padded or all padding. */
int64_t ir_part_extent(const struct ir_mesh *, int64_t extent, uint32_t axes);

/* How many steps of an extent make a leaf of a sum that does not depend on how it is cut (passes/invariant.c); each of
 * them sums `rest` products. A leaf has IR_LEAF at least, if there are so many: what a tree costs beside them. */
enum { IR_LEAF = 8 };
int64_t ir_leaf(int64_t extent, int64_t rest);

struct ir_module *ir_module_new(const char *name);
void ir_module_free(struct ir_module *);
struct ir_func *ir_func_new(struct ir_module *, const char *name, bool entry);
struct ir_func *ir_func_find(const struct ir_module *, const char *name); /* NULL if there is none */
uint32_t ir_func_index(const struct ir_func *);
uint32_t ir_slot_new(struct ir_module *, struct ir_slot);         /* returns its index */
int32_t ir_slot_find(const struct ir_module *, const char *name); /* -1 if there is none */
uint32_t ir_place_new(struct ir_module *, struct diag_span, const char *pointer);

/* ---------------------------------------------------------------- builder (ir/build.c) */

struct ir_builder {
    struct ir_func *f;
    uint32_t place; /* given to every node that is made */
    /* A node whose types do not fit: the builder calls this (never returns a bad node; it returns 0 and the caller
     * passes the 0 on: every builder call with an operand 0 returns 0). NULL: BUG. */
    void (*reject)(void *user, const char *message);
    void *user;
};

/* The general maker. `node` holds op, args, attr, and type where the op's row says it is given. Copies what the
 * node points at into the module's arena. */
ir_value ir_make(struct ir_builder *, struct ir_node node);
/* Re-makes a node of another function with other operands: the way passes rebuild. Keeps attributes, stated type,
 * body number, place and sharding. Not for parameters (ir_param_new). */
ir_value ir_remake(struct ir_builder *, const struct ir_node *old, const ir_value *args);
/* Appends a node as it stands: no inference, no folding, no sharing. Only for the parser and tests of the verifier. */
ir_value ir_append_raw(struct ir_func *, const struct ir_node *);

const struct ir_node *ir_get(const struct ir_func *, ir_value);
/* [kind] of cumulate; those before LOGSUMEXP are one scalar operation, which is associative but for rounding. */
enum ir_cumulate {
    IR_CUMULATE_SUM,
    IR_CUMULATE_PROD,
    IR_CUMULATE_MAX,
    IR_CUMULATE_MIN,
    IR_CUMULATE_LOGSUMEXP,
    IR_CUMULATE_LINEAR,
    IR_CUMULATE_COUNT
};
enum { IR_EXTEND_WRAP, IR_EXTEND_REFLECT, IR_EXTEND_SYMMETRIC, IR_EXTEND_EDGE }; /* [kind] of extend */
static inline bool ir_is_number(const struct ir_node *n) { return n->op == OP_constant && n->splat; }
const struct ir_type *ir_type(const struct ir_func *, ir_value);

ir_value ir_param_new(struct ir_builder *, const char *name, struct ir_type, int32_t slot);
void ir_result_add(struct ir_builder *, const char *name, ir_value, int32_t slot);

/* One call for each way to make a node (ir/build.def). */
#define IR_MAKER_OF(...) (struct ir_builder * b, __VA_ARGS__)
#define X(name, parameters, ...) ir_value ir_##name IR_MAKER_OF parameters;
#include "ir/build.def"
#undef X

ir_value ir_number(struct ir_builder *, struct ir_type, double); /* one value repeated, rounded to the dtype */
ir_value ir_scalar(struct ir_builder *, enum ir_dtype, double);
ir_value ir_number_like(struct ir_builder *, ir_value shape_and_dtype, double);
ir_value ir_cast(struct ir_builder *, ir_value, enum ir_dtype); /* x itself if it has the dtype */
ir_value ir_bitcast(struct ir_builder *, ir_value, enum ir_dtype);
ir_value ir_broadcast_to(struct ir_builder *, ir_value, uint32_t rank, const int64_t *shape); /* NumPy: aligned right */
/* Sums and products of 16-bit floats are formed in float32, as jax.numpy does; plain: the op as it is, which rounds
 * after every step, as jax.lax does. */
ir_value ir_reduce(struct ir_builder *, enum ir_op, ir_value, const int64_t *dims, uint32_t n);
uint32_t ir_tuple_count(const struct ir_func *, ir_value tuple);

/* ---------------------------------------------------------------- rest of the folder */

/* infer.c: the type of a node from its operands and attributes. False: *message says what was expected and found. */
bool ir_infer(const struct ir_func *, struct ir_node *node, struct arena *, const char **message);
/* fold.c: an equal simpler value for a node about to be made, 0 = none. Exact in floating point. */
ir_value ir_fold(struct ir_builder *, const struct ir_node *);

/* verify.c: every invariant of this file, and of the plans if there are any; faults are collected, one per line. True
 * if there are none. */
bool ir_verify(const struct ir_module *, struct str *faults);
/* print.c, parse.c: the text form, plans included; see ir/LANG.md. parse(print(m)) prints the same. */
void ir_print(const struct ir_module *, struct str *);
struct ir_module *ir_parse(const char *text, size_t length, struct diags *); /* NULL: errors were recorded */
/* build.c: the same operation with the same attributes. */
bool ir_same_attributes(const struct ir_node *, const struct ir_node *);
/* hash.c: equal for functions that compute the same from the same text, whatever their names and places. */
uint64_t ir_hash_type(uint64_t, const struct ir_type *);
uint64_t ir_hash_func(const struct ir_func *);
uint64_t ir_hash_module(const struct ir_module *);
/* walk.c */
uint32_t *ir_use_counts(const struct ir_func *, struct arena *); /* per value; results count as uses */
bool *ir_live(const struct ir_func *, struct arena *);           /* reachable from results */
bool ir_has_body(enum ir_op); /* node.func names a function: call, loop, accumulate, scan, vmap */
/* Indices of all functions, bodies before those that use them: the order in which a pass rebuilds. */
uint32_t *ir_func_order(const struct ir_module *, struct arena *);
/* rebuild.c: an empty module with the same name, slots, places, mesh, stage and function names/kinds (no nodes). */
struct ir_module *ir_module_like(const struct ir_module *);
/* Copies `from` into the empty `to`, calling `rewrite` for every live node in order; rewrite returns the new value
 * (NULL: ir_remake). `map` (one entry per old value) is filled as it goes. Parameters are all copied, used or not, and
 * not rewritten; if `to` has them already (a pass that changes their types), those are taken. Results are copied.
 * Bodies come before their users: go by ir_func_order, a call is inferred from the new callee. */
typedef ir_value ir_rewrite(void *user, struct ir_builder *, const struct ir_func *from, ir_value old,
                            const ir_value *map);
ir_value *ir_rebuild(const struct ir_func *from, struct ir_func *to, ir_rewrite *, void *user, struct arena *scratch);

/* ---------------------------------------------------------------- interpreter (eval.c): the definition */

/* A tensor as doubles, C order. f32 mode rounds every result to its dtype; f64 mode keeps floats in double. */
struct ir_tensor {
    struct ir_type type;
    double *v;
};
enum ir_precision { IR_EVAL_EXACT_DTYPES, IR_EVAL_F64 };
/* Evaluates a function: params in, results out (arrays made in `arena`, one per result). Any stage that has no
 * collectives. BUG on a malformed module; never fails otherwise. */
void ir_eval(const struct ir_func *, enum ir_precision, const struct ir_tensor *params, struct ir_tensor *results,
             struct arena *arena);
/* The same, and `see` is told of every tensor of floats that holds a NaN or an infinity, when it is made: of the values
 * of bodies, too. An operand that is a tuple is NULL. */
typedef void ir_eval_see(void *user, const struct ir_func *, ir_value, const struct ir_tensor *made,
                         const struct ir_tensor *const *operands);
void ir_eval_watched(const struct ir_func *, const struct ir_tensor *params, struct ir_tensor *results,
                     struct arena *arena, ir_eval_see *see, void *user);
/* What a value is called in messages: op and place, or the slot that it is. `source` may be NULL. */
void ir_site_text(struct str *, const struct ir_func *, ir_value, const struct diag_source *source);
/* site.c: what --check-finite names where a value is read that is not finite, and whether it was only moved on the way.
 * Values of which the second gives one number are checked by the same code where a group reads them. */
ir_value ir_made_by(const struct ir_func *, ir_value, bool *moved);
uint64_t ir_checked_as(const struct ir_func *, ir_value);
/* One node that calls no function, with at most IR_EVAL_OPERANDS operands: op, arg_count, type and attr count, operands
 * are `args`, and its own are set to their numbers. Fills `out`, whose type is the node's. Floats are rounded to their
 * dtypes. */
enum { IR_EVAL_OPERANDS = 16 };
void ir_eval_node(struct ir_node *, struct ir_tensor *args, struct ir_tensor *out);
float ir_erf_inv(float);                                                          /* of float32 */
void ir_tensor_from_bytes(struct ir_tensor *, const void *bytes, struct arena *); /* type is set; fills v */
void ir_tensor_to_bytes(const struct ir_tensor *, void *bytes);
#endif
