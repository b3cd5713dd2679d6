/* The kernel-stage program: what the passes decide and codegen carries out. One plan per entry function.
 *
 * A plan is a list of commands in execution order. A kernel command computes one group (a set of nodes of the
 * function, its outputs stored to buffers); loops are bracketed by LOOP_BEGIN and LOOP_END; collectives
 * stand alone, or begin, and end at a WAIT behind other commands (one at a time). Calls were inlined, and every loop
 * body belongs to one loop only, so a (function, value) pair names one tensor. Functions that are still called are
 * outlined ones: one group each, computed for many sets of tensors. Of a loop, the body's parameters share the buffers
 * of what they stand for: parameter 0 is the counter, the carried ones live in one buffer each for all iterations
 * (before the loop it is filled with the initial value, at the end of an iteration it holds the new one, after the loop
 * it is the result), the captured ones are the buffers of the loop's operands. */
#ifndef IR_PLAN_H
#define IR_PLAN_H
#include "ir/ir.h"

/* What the plans of a module tell so far, and the words of the text form for it and for all kinds below. */
#define PLAN_STAGES(X) \
    X(GROUPS, "groups")     /* by pass fuse: what is computed together */ \
    X(COMMANDS, "commands") /* by pass schedule: in which order */ \
    X(MEMORY, "memory")     /* by pass memplan: where everything lies, and where workers meet */

#define PLAN_SPACES(X) \
    X(ARENA, "arena")       /* temporaries: offset in the arena of this entry */ \
    X(SLOT, "slot")         /* a slot of the module: storage that outlives the call (offset in the state block) */ \
    X(INPUT, "input")       /* an input slot: memory of the host or staging; the index is the slot */ \
    X(METRIC, "metric")     /* a metric or output slot (offset in the result block) */ \
    X(CONSTANT, "constant") /* read-only data of the object (offset in its constant block) */ \
    X(DEVICE, "device")     /* int32 positions of this device on the mesh (device_index): offset = 4 * mask of axes */ \
    X(NEXT, "next") /* what a step makes of a slot: the memory of SLOT or, where a step may still be refused, a \
                       second block laid out alike, in which carried values that begin as it come first */

/* What kind of nest a group becomes: which template of codegen/lower/lower_*.c. */
#define PLAN_GROUP_KINDS(X) \
    X(MAP, "map")         /* one output element per iteration; all outputs have the same extents */ \
    X(ROW, "row")         /* rows: reductions over trailing dimensions and element-wise work on the same rows */ \
    X(COLUMN, "column")   /* reductions over leading dimensions */ \
    X(DOT, "dot")         /* one contraction with element-wise prologues and epilogues */ \
    X(SCATTER, "scatter") /* scatter_add */ \
    X(COPY, "copy")       /* a buffer to another: loop-carried values, slots that could not be updated in place */ \
    X(LINES, "lines") /* what all lines along a dimension give, side by side, with element-wise pro- and epilogues */ \
    X(ATTENTION, "attention") /* contractions of scores, made tile by tile, and the softmax along their rows */

/* JOIN: until memory is planned. WAIT: the end of a collective; until then its operands and results are in use. */
#define PLAN_COMMAND_KINDS(X) \
    X(KERNEL, "kernel") \
    X(LOOP_BEGIN, "loop") X(LOOP_END, "end") X(COLLECTIVE, "collective") X(JOIN, "join") X(WAIT, "wait")

#define X(NAME, text) PLAN_##NAME,
enum plan_stage { PLAN_STAGES(X) };
enum plan_space { PLAN_SPACES(X) };
enum plan_command_kind { PLAN_COMMAND_KINDS(X) };
#undef X
#define X(NAME, text) GROUP_##NAME,
enum plan_group_kind { PLAN_GROUP_KINDS(X) };
#undef X
#define X(NAME, text) +1
enum {
    PLAN_STAGE_COUNT = 0 PLAN_STAGES(X),
    PLAN_SPACE_COUNT = 0 PLAN_SPACES(X),
    PLAN_GROUP_KIND_COUNT = 0 PLAN_GROUP_KINDS(X),
    PLAN_COMMAND_KIND_COUNT = 0 PLAN_COMMAND_KINDS(X)
};
#undef X
/* By number of the kind. */
extern const char *const plan_stage_names[], *const plan_space_names[], *const plan_group_names[],
                                                                            *const plan_command_names[];

/* SLOT and NEXT may be the same memory. */
static inline enum plan_space plan_memory_of(enum plan_space s) { return s == PLAN_NEXT ? PLAN_SLOT : s; }

struct plan_buffer {
    enum plan_space space;
    uint32_t slot; /* SLOT, INPUT, METRIC: index into the module's slots */
    const struct ir_func *func;
    ir_value value;         /* of `func`: whose contents it first holds; its type gives extent and layout (C order) */
    uint64_t offset, bytes; /* within its space; on a 64-byte boundary, unless it lies close behind another one */
    uint32_t first, last;   /* commands between which it is live (ARENA) */
    const void *data;       /* CONSTANT: all elements of the value */
    VEC(uint32_t) parts;    /* of tensors laid end to end: buffers that are this one together */
    bool windows;           /* a loop carries it and writes it part by part (plan_group) */
};

/* Rows of kernels/kernels.def by their numbers, which --blas also names: 0 is the table's choice. */
enum plan_product_row { PLAN_PRODUCT_AUTO, PLAN_PRODUCT_OWN, PLAN_PRODUCT_OPENBLAS, PLAN_PRODUCT_CUBLASLT };
struct plan_product { /* C[m, n] = op(A) op(B), `batch` times, of elements of so many bits */
    int64_t m, n, k, batch;
    bool trans_a, trans_b;
    uint32_t bits;
    int64_t lda, ldb, stride_a, stride_b; /* elements between rows, and between matrices */
};
/* plan_product.c: a contraction, if it is one of these, whatever is made of its operands and its result. */
bool plan_product_of(const struct ir_func *, ir_value, struct plan_product *);
/* That of a device; what is asked for and is another device's is as if the table were. */
int plan_product_row(const struct plan_product *, bool gpu, int asked);

/* A group's reductions that need one another's results: so many passes over its domain at most. */
enum { PLAN_MAX_PASSES = 16 };

struct plan_group {
    enum plan_group_kind kind;
    const struct ir_func *func; /* the function its values belong to */
    VEC(ir_value) nodes;        /* members in definition order, leaves excluded */
    VEC(ir_value) inputs;       /* values read from buffers */
    VEC(ir_value) outputs;      /* values stored */
    VEC(uint8_t)
    input_level, output_level; /* at which index of the domain an input is read, an output stored:
                               1 one element per element, 2 one per row, 0 others (not in place). Equal and not 0:
                               the output may take the input's memory */
    ir_value root;             /* DOT, SCATTER, LINES: the node that it is made for; else 0 */
    const char *reason;        /* why it ends here, for explain --fusion */
    uint64_t alike;            /* groups with equal numbers have the same code; 0: not known */
    VEC(ir_value)
    windows; /* outputs that are one part, a row say, of a buffer that a loop's body carries: the group
                stores the part, and nothing else of the buffer is touched; what stood in the carried
                buffer is in the output's */
};

/* A concatenation of slices of `base` at regular distances (a convolution's taps), each with runs of `size` elements of
 * the base. Element `start` + what the outer dimensions and the digits of the slice's number add + the place in the
 * run. */
struct plan_taps {
    const struct ir_func *func;
    ir_value concat, base, slice; /* slice: the first */
    uint64_t start, size;
    uint32_t outer; /* dimensions of the slice that are outside of the runs */
    VEC(int64_t)
    radix, steps;             /* the number of a slice in mixed radix, innermost digit first; elements of the base that
                                 a step of a digit moves */
    VEC(int64_t) outer_steps; /* the same of the slices along an outer dimension, in their own elements */
};

/* Tensors laid end to end: no kernel, but one piece of memory that holds them, if that can be; else they are copied.
 * Where a command computes one group, a concatenation is element-wise work like any other. */
struct plan_join {
    const struct ir_func *func;
    ir_value concat;
};

struct plan_command {
    enum plan_command_kind kind;
    uint32_t group; /* KERNEL: the first, or only, member */
    VEC(uint32_t)
    more;                /* KERNEL: further members, groups of the same code on other tensors; none depends on
                                                      another. See plan_members */
    VEC(uint32_t) order; /* KERNEL of several members, once memory is planned: as their tensors lie in memory */
    VEC(ir_value)
    calls;                       /* KERNEL: of outlined functions: the call in `func` that each member stands for; its
                                       operands and projections are the group's parameters and outputs */
    VEC(uint32_t) reads, writes; /* buffers, in the order of the group's inputs and outputs, member by member */
    bool barrier_before;         /* workers must meet: depends on something since the last barrier */
    /* loops */
    uint32_t counter, limit, flag; /* buffers: int32 scalar counter (written by the loop), int32 scalar limit;
                                       `while` flag (bool scalar) or UINT32_MAX */
    uint32_t other;                /* the matching BEGIN or END; COLLECTIVE and WAIT: one another, 0: it waits itself */
    /* collective: the node says kind, axes, dim; joined with it are others that differ in shape and dim alone */
    const struct ir_func *func;
    ir_value node;
    VEC(ir_value) joined;
    double flops;   /* estimate, for explain and for the choice of workers */
    uint64_t bytes; /* read and written */
};

/* The groups that a kernel command computes: all have as many inputs and outputs as the first one. */
static inline uint32_t plan_members(const struct plan_command *c) { return 1 + (uint32_t)c->more.count; }
static inline uint32_t plan_member(const struct plan_command *c, uint32_t i)
{
    return i ? c->more.items[i - 1] : c->group;
}

/* A collective that ends at a WAIT; either of the two. */
static inline bool plan_starts(const struct plan_command *c) { return c->kind == PLAN_COLLECTIVE && c->other; }
static inline bool plan_exchanges(const struct plan_command *c)
{
    return c->kind == PLAN_COLLECTIVE || c->kind == PLAN_WAIT;
}

/* What a collective does in one: reads and writes have one buffer for each. */
static inline size_t plan_joined(const struct plan_command *c) { return 1 + c->joined.count; }
static inline ir_value plan_joined_node(const struct plan_command *c, size_t i)
{
    return i ? c->joined.items[i - 1] : c->node;
}

/* Bytes on one device. The peak holds the state block and this entry's arena; inputs are the caller's. */
struct plan_memory {
    uint64_t parameters, averages, optimizer_state, other_state, gradients, activations, workspace, constants, peak,
        lower_bound;
};

struct plan {
    struct ir_func *func; /* the entry */
    VEC(struct plan_buffer) buffers;
    VEC(struct plan_group) groups;
    VEC(struct plan_taps) taps;
    VEC(struct plan_join) joins;
    VEC(struct plan_command) commands;
    uint64_t arena_bytes; /* size of the ARENA space, the predicted peak */
    uint64_t arena_lower_bound;
    struct plan_memory memory;
};

/* All entries of one module. The state block (SLOT) and the result block (METRIC) are common. */
struct plan_module {
    struct ir_module *module;
    enum plan_stage stage;
    bool launches;            /* for a GPU: groups and commands are as its launches want them */
    VEC(struct plan *) plans; /* in the order of the module's entry functions */
    uint64_t *slot_offset;    /* per slot: offset in its block (state or result) */
    uint64_t state_bytes, result_bytes, constant_bytes;
};

/* plan_text.c. Is an output one of the group's windows? What is known of a concatenation that consists of taps, NULL:
 * it does not. Is a concatenation a join? */
/* A product as scores: [batch.., rows.., columns..]. False: `v` is no product of floats, or one in a fixed order. */
struct plan_scores {
    uint32_t batches, row_dims; /* dimensions */
    int64_t batch, rows, columns, depth;
};
bool plan_scores_of(const struct ir_func *, ir_value v, struct plan_scores *);
/* Of a group of attention by tiles: products that it makes tiles of, and contractions that it stores, at most. */
enum { PLAN_MOST_SCORES = 8, PLAN_MOST_SINKS = 4 };
bool plan_is_window(const struct plan_group *, ir_value output);
/* Does a map walk its elements in one run, whatever their shape? Then it has one code for all shapes. */
bool plan_walks_one_run(const struct plan_group *);
const struct plan_taps *plan_taps_of(const struct plan *, const struct ir_func *, ir_value concat);
bool plan_is_join(const struct plan *, const struct ir_func *, ir_value);
/* May one command do both collectives? */
bool plan_goes_with(const struct ir_node *, const struct ir_node *);
/* Another one whose lists can be changed and added to. */
struct plan_module *plan_copy(const struct plan_module *, struct arena *);
/* All elements of a constant in C order. */
const void *plan_constant_data(const struct ir_node *, struct arena *);

/* plan_print.c, plan_parse.c: the text form (ir/LANG.md), which ir_print and ir_parse call. plan_verify.c: every
 * invariant of this file; faults are collected, one per line, and the place of the first one is told. Called by
 * ir_verify, after the module itself was found to be sound. */
struct plan_place {
    enum { PLAN_AT_MODULE, PLAN_AT_PLAN, PLAN_AT_LINE /* + which of plan_lines (ir/plan_text.h) */ } kind;
    uint32_t plan, index;
};
void plan_print(const struct plan_module *, struct str *);
bool plan_verify(const struct plan_module *, struct str *faults, struct plan_place *first);

/* report.c: the plan as JSON (schema 1): the manifest of an object, and what `stepc explain` reads. `more` adds members
 * that only the caller knows ("abi", "target"), and makes the report the brief one of objects; may be NULL. */
struct json_tree;
const char *ir_report(const struct plan_module *, struct arena *, void (*more)(void *user, struct json_tree),
                      void *user);
const char *ir_report_layers(const struct ir_module *, struct arena *); /* its "layers" alone */
struct report_totals {
    uint64_t parameters, peak; /* peak: bytes on one device */
    double flops;              /* of a step */
} ir_report_totals(const struct plan_module *);
#endif
