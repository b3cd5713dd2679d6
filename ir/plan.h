/* The kernel-stage program: what the passes decide and codegen carries out. One plan per entry function.
 *
 * A plan is a list of commands in execution order. A kernel command computes one group (a set of nodes of the
 * function, its outputs stored to buffers); loops are bracketed by LOOP_BEGIN and LOOP_END; collectives
 * stand alone. Calls were inlined, and every loop body belongs to one loop only, so a (function, value) pair names
 * one tensor. Functions that are still called are outlined ones: one group each, computed for many sets of tensors. Of
 * a loop, the body's parameters share the buffers of what they stand for: parameter 0 is the counter, the carried ones
 * live in one buffer each for all iterations (before the loop it is filled with the initial value, at the end of an
 * iteration it holds the new one, after the loop it is the result), the captured ones are the buffers of the loop's
 * operands. */
#ifndef IR_PLAN_H
#define IR_PLAN_H
#include "ir/ir.h"

enum plan_space {
    PLAN_ARENA,    /* temporaries: offset in the arena of this entry */
    PLAN_SLOT,     /* a slot of the module: storage that outlives the call (offset in the state block) */
    PLAN_INPUT,    /* an input slot: memory of the host or staging; the index is the slot */
    PLAN_METRIC,   /* a metric or output slot (offset in the result block) */
    PLAN_CONSTANT, /* read-only data of the object (offset in its constant block) */
    PLAN_DEVICE    /* int32 positions of this device on the mesh (device_index): offset = 4 * mask of axes */
};

struct plan_buffer {
    enum plan_space space;
    uint32_t slot; /* SLOT, INPUT, METRIC: index into the module's slots */
    const struct ir_func *func;
    ir_value value;         /* of `func`: whose contents it first holds; its type gives extent and layout (C order) */
    uint64_t offset, bytes; /* within its space; on a 64-byte boundary, unless it lies close behind another one */
    uint32_t first, last;   /* commands between which it is live (ARENA) */
    const void *data;       /* CONSTANT */
    const uint32_t *parts;  /* of tensors laid end to end: buffers that are this one together; else NULL */
    uint32_t part_count;
};

/* What kind of nest a group becomes: which template of codegen/lower/lower_*.c. */
enum plan_group_kind {
    GROUP_MAP,     /* one output element per iteration; all outputs have the same extents */
    GROUP_ROW,     /* rows: reductions over trailing dimensions and element-wise work on the same rows */
    GROUP_COLUMN,  /* reductions over leading dimensions */
    GROUP_DOT,     /* one contraction with element-wise prologues and epilogues */
    GROUP_SCATTER, /* scatter_add */
    GROUP_COPY     /* a buffer to another: loop-carried values, slots that could not be updated in place */
};

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
    ir_value root;             /* DOT, SCATTER: the contraction or scatter; else 0 */
    const char *reason;        /* why it ends here, for explain --fusion */
    uint64_t alike;            /* groups with equal numbers have the same code; 0: not known */
};

/* A row that a loop's body writes into a buffer which it carries: a group that has it as an output stores the row, and
 * nothing else of the buffer is touched; what stood in the carried buffer is in the output's. */
static inline bool plan_is_window(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op != OP_dynamic_update || f->entry || ir_get(f, n->args[0])->op != OP_param) return false;
    for (size_t i = 0; i < f->results.count; i++)
        if (f->results.items[i].value == v) return true;
    return false;
}

/* Tensors laid end to end: no kernel, but one piece of memory that holds them, if that can be; else they are copied.
 * Where a command computes one group, a concatenation is element-wise work like any other. */
enum { PLAN_JOIN_LEAST = 16 };
static inline bool plan_is_join(const struct ir_func *f, ir_value v)
{
    const struct ir_node *n = ir_get(f, v);
    bool whole = n->op == OP_concat && n->arg_count >= PLAN_JOIN_LEAST;
    for (int64_t i = 0; whole && i < n->attr[0].v[0]; i++) whole = n->type.dim[i] == 1;
    return whole;
}

/* plan_taps.c: a concatenation of slices of `base` at regular distances (a convolution's taps), each with runs of
 * `size` elements of the base. Element `start` + what the outer dimensions and the digits of the slice's number add +
 * the place in the run. */
enum { PLAN_MAX_TAPS = 1024 };
struct plan_taps {
    ir_value base;
    const struct ir_node *slice; /* the first */
    int64_t start, size;
    uint32_t outer;                                /* dimensions of the slice that are outside of the runs */
    uint32_t digits;                               /* the number of a slice in mixed radix, innermost digit first */
    int64_t radix[IR_MAX_RANK], step[IR_MAX_RANK]; /* elements of the base that a step of a digit moves */
};
bool plan_find_taps(const struct ir_func *, ir_value concat, struct plan_taps *); /* false: that is not what it is */
int64_t plan_tap_step(const struct plan_taps *, uint32_t dim); /* of the slices along an outer dimension */

/* Tensors of many sizes that lie end to end: those that fill lines of the cache (0) come first, so that all of them
 * begin on one; single numbers (2) come last. */
uint32_t plan_turn(int64_t elements);
enum { PLAN_TURNS = 3 };

enum plan_command_kind {
    PLAN_KERNEL,
    PLAN_LOOP_BEGIN,
    PLAN_LOOP_END,
    PLAN_COLLECTIVE,
    PLAN_JOIN /* until memory is planned */
};

struct plan_command {
    enum plan_command_kind kind;
    uint32_t group; /* KERNEL: the first, or only, member */
    VEC(uint32_t)
    more; /* KERNEL: further members, groups of the same code on other tensors; none depends on
                                       another. See plan_members */
    VEC(ir_value)
    calls;                       /* KERNEL: of outlined functions: the call in `func` that each member stands for; its
                                       operands and projections are the group's parameters and outputs */
    VEC(uint32_t) reads, writes; /* buffers, in the order of the group's inputs and outputs, member by member */
    bool barrier_before;         /* workers must meet: depends on something since the last barrier */
    /* loops */
    uint32_t counter, limit, flag; /* buffers: int32 scalar counter (written by the loop), int32 scalar limit;
                                       `while` flag (bool scalar) or UINT32_MAX */
    uint32_t other;                /* the matching BEGIN or END */
    /* collective: the node says kind, axes, dim */
    const struct ir_func *func;
    ir_value node;
    double flops;   /* estimate, for explain and for the choice of workers */
    uint64_t bytes; /* read and written */
};

/* The groups that a kernel command computes: all have as many inputs and outputs as the first one. */
static inline uint32_t plan_members(const struct plan_command *c) { return 1 + (uint32_t)c->more.count; }
static inline uint32_t plan_member(const struct plan_command *c, uint32_t i)
{
    return i ? c->more.items[i - 1] : c->group;
}

/* Bytes on one device. The peak holds the state block and this entry's arena; inputs are the caller's. */
struct plan_memory {
    uint64_t parameters, averages, optimizer_state, other_state, gradients, activations, workspace, constants, peak,
        lower_bound;
};

struct plan {
    struct ir_func *func; /* the entry */
    struct arena *arena;
    VEC(struct plan_buffer) buffers;
    VEC(struct plan_group) groups;
    VEC(struct plan_command) commands;
    uint32_t **buffer_of; /* [function index][value]: its buffer, UINT32_MAX = lives only inside a group */
    uint64_t arena_bytes; /* size of the ARENA space, the predicted peak */
    uint64_t arena_lower_bound;
    struct plan_memory memory;
};

/* The members of a kernel command in the order in which their tensors lie in memory, as far as they have their places.
 */
uint32_t *plan_order(const struct plan *, const struct plan_command *, struct arena *);

/* All entries of one module. The state block (SLOT) and the result block (METRIC) are common. */
struct plan_module {
    struct ir_module *module;
    VEC(struct plan *) plans; /* in the order of the module's entry functions */
    uint64_t *slot_offset;    /* per slot: offset in its block (state or result) */
    uint64_t state_bytes, result_bytes, constant_bytes;
};

/* report.c: the plan as JSON (schema 1): the manifest of an object, and what `stepc explain` reads. `more` adds members
 * that only the caller knows ("abi", "target"), and makes the report the brief one of objects; may be NULL. */
struct json_tree;
const char *ir_report(const struct plan_module *, struct arena *, void (*more)(void *user, struct json_tree),
                      void *user);
#endif
