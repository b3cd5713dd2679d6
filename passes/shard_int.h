/* Sharding: what the files shard*.c and spmd.c share. */
#ifndef PASSES_SHARD_INT_H
#define PASSES_SHARD_INT_H
#include "passes/common.h"

enum { SHARD_MAX_FACTORS = 32 };

/* What an op does to the dimensions of its operands, in terms of factors: dimensions that belong together have the
 * same factor and are split alike or not at all. */
struct shard_rule {
    uint32_t factor_count;
    int64_t size[SHARD_MAX_FACTORS];
    int8_t (*arg)[IR_MAX_RANK]; /* per operand and dimension: its factor, -1 = must be whole */
    int8_t result[IR_MAX_RANK];
    uint32_t summed;   /* factors that the op sums over: split, they make the result partial */
    uint32_t extremum; /* factors of which the op takes the largest or smallest: split, devices compare at once */
    uint32_t whole;    /* factors that must not be split */
    uint32_t blocks;   /* factors that are blocks of a dimension: split into equal parts or not at all */
    uint32_t linear;   /* operands in which, taken together, the op is linear: partial sums pass through */
    bool product;      /* linear in each of `linear` alone: at most one may be partial */
    uint32_t window;   /* factors along which the op slides or pads: windows on one side, parts on the other */
    enum { SHARD_NO_WINDOWS, SHARD_COPIES, SHARD_ADDENDS } windows; /* that may pass along other factors */
    int64_t leaves; /* of the tree over the factor that is summed: devices have equally many; 0: it is any sum */
};
static inline bool shard_is_linear(const struct shard_rule *r, uint32_t operand)
{
    return operand < 32 && (r->linear >> operand & 1); /* ops of more operands are never linear */
}

uint32_t shard_batch_axes(const struct ir_module *); /* shard.c */

/* shard_rules.c: the rule of a node by the shard column of the op table. */
void shard_rule_of(const struct ir_func *, const struct ir_node *, struct arena *, struct shard_rule *);
/* --numerics invariant: floats are summed over devices where that is the rest of their tree, and at once. */
void shard_keep_order(const struct ir_func *, const struct ir_node *, struct shard_rule *);
bool shard_is_zero(const struct ir_func *, ir_value);

/* Axes of one dimension: nibbles (axis + 1), outermost first; see struct ir_sharding. */
uint32_t shard_axes_mask(uint32_t axes);
static inline uint32_t shard_leading(uint32_t axes, uint32_t bits)
{
    return bits < 32 ? axes & ((1u << bits) - 1) : axes;
}
static inline uint32_t shard_list_bits(uint32_t axes)
{
    uint32_t bits = 0;
    while (bits < 32 && axes >> bits & 15) bits += 4;
    return bits;
}
bool shard_equal(const struct ir_sharding *, const struct ir_sharding *);
struct ir_type shard_local_type(const struct ir_mesh *, const struct ir_type *, const struct ir_sharding *);

/* What one node does: along which axes its factors are split, and over which ones partial sums pass through it. From
 * these follow the layouts in which it wants its operands and that of its result. */
struct shard_choice {
    uint32_t axes[SHARD_MAX_FACTORS];
    struct shard_lead {
        int64_t from, to; /* steps of the operands' windows and of the result's */
    } lead[SHARD_MAX_FACTORS];
    uint32_t passing;
};
struct shard_use {
    ir_value node;    /* 0: a result of the function, */
    uint32_t operand; /* then its number */
};
/* In bytes that are sent. */
struct shard_price {
    double cost;           /* all in all; */
    double sent, products; /* of it what is sent, and what contractions compute */
};
struct shard_func {
    const struct ir_func *func;
    struct ir_sharding *made;          /* per value: as its node makes it */
    struct ir_sharding *value;         /* per value: as it is held for all that read it */
    const struct ir_sharding **pinned; /* per value: it must be held so; NULL: as it costs the least */
    bool *dear;                        /* per value: by way of trial, sending it costs SHARD_DEAR times as much */
    struct ir_sharding **wanted;       /* per node: its operands; NULL: not chosen yet */
    struct shard_choice **choice;      /* per node; NULL: none yet */
    const struct shard_rule **rule;    /* per node */
    struct ir_sharding **tuple;        /* per loop: of its carried values */
    const struct ir_sharding *result;  /* of a loop body: how its carried results must lie; NULL: as they are */
    const struct shard_use *use;       /* of value v: use_begin[v] up to use_begin[v + 1] */
    uint32_t *use_begin;
    bool *live;
    bool *awake;   /* per node: what its choice depends on has changed */
    bool *stale;   /* per node: `price` is of another choice */
    bool *touched; /* per node: what was kept of it may be another choice */
    struct shard_price *price;
    uint8_t *free; /* per value: shard_freedom */
};
/* A conversion whose bytes were asked for, and so many of them: each stands where its hash says, until another one
 * does. */
enum { SHARD_KNOWN = 1024 };
struct shard_known {
    struct ir_type type;
    struct ir_sharding from, to;
    double bytes;
};
struct shard {
    struct ir_module *module; /* stage tensor: global shapes */
    struct arena *arena;
    uint32_t batch_axes;       /* what "as the batch" stands for */
    bool invariant;            /* sums have an order: see shard_keep_order */
    bool settled;              /* every node has chosen once */
    bool check_finite;         /* padding must not be the first that is not finite */
    struct shard_known *known; /* conversions that were priced */
    struct shard_func *funcs;  /* per function of the module */
    struct map layouts;        /* hash of a layout -> among those that the module reports */
};

/* shard_convert.c: from one layout to another, one step after the other. */
struct shard_step {
    enum shard_step_kind {
        SHARD_SLICE,
        SHARD_SCATTER,
        SHARD_REDUCE,
        SHARD_GATHER,
        SHARD_EXCHANGE,
        SHARD_TURN,
        SHARD_SPREAD,
        /* Windows of `step`: of parts, by rims of copies or by borders of zeros; of what is whole; of which each counts
         * once. Back to parts, where rims are added or copies dropped, and among zeros to a partial sum. */
        SHARD_SEND_RIMS,
        SHARD_BORDER,
        SHARD_WINDOW,
        SHARD_COUNT_ONCE,
        SHARD_ADD_RIMS,
        SHARD_OWN,
        SHARD_WIDEN
    } kind;
    uint32_t axes;       /* bit mask */
    int64_t over;        /* of windows: see shard_over */
    uint32_t dim, split; /* EXCHANGE: `split` is split from now on, `dim` no more; TURN: `split` devices in a row */
    int64_t step;
};
enum { SHARD_MAX_STEPS = 8 * IR_MAX_RANK + 4 };
/* Returns how many; `sent`: the bytes that every device sends in a ring. */
uint32_t shard_steps(const struct ir_mesh *, const struct ir_type *global, const struct ir_sharding *from,
                     const struct ir_sharding *to, bool ordered, struct shard_step *, double *sent);
/* What costs as much as sending a byte: elements that are made, products of a contraction. Whoever may choose between
 * more to send and more to compute, because devices do the same work, sends. SHARD_DEAR: how many bytes one counts for
 * where a trial has made sending dear. */
enum { SHARD_ELEMENTS = 4, SHARD_PRODUCTS = 4, SHARD_DEAR = 16 };
/* What devices send for value `v`, which lies as `from`, to lie as `to`. */
double shard_cost(const struct shard *, const struct shard_func *, ir_value v, const struct ir_sharding *from,
                  const struct ir_sharding *to);
/* What is made of little (repeated, or compared with a position) is never sent: whoever reads it has it made again, in
 * the layout that is wanted, from its operands. How many such nodes stand one behind the other; 0: it is not free. */
enum { SHARD_MAX_REMADE = 4 /* operands */, SHARD_MAX_DEPTH = 4 };
uint8_t shard_freedom(const struct shard_func *, ir_value);
void shard_operands_for(const struct shard_func *, ir_value, const struct ir_sharding *to, struct ir_sharding *wanted);

/* shard_window.c. A dimension of `extent` in `parts` equal parts; from `low` before it up to `high` behind it lie
 * windows, `step` elements apart (> 0). */
struct shard_rims {
    int64_t part, window;
    int64_t left, right;  /* what a device needs of its neighbours; false: that is more than they have */
    int64_t start, drift; /* where device i's window begins in left rim, part and right rim: start + i * drift */
};
bool shard_rims(int64_t extent, int64_t low, int64_t high, int64_t step, int64_t parts, struct shard_rims *);
/* `step` of a layout: how many elements windows are apart, and by how many the last one is over the end: what is made
 * of it is in parts that do not divide. Negative for windows of addends. */
static inline int64_t shard_apart(int64_t step) { return (step < 0 ? -step : step) & INT32_MAX; }
static inline int64_t shard_over(int64_t step) { return (step < 0 ? -step : step) >> 32; }
static inline int64_t shard_part(int64_t extent, int64_t parts) { return (extent + parts - 1) / parts; }
struct ir_sharding shard_in_parts(const struct ir_mesh *, const struct ir_type *, struct ir_sharding);
/* By how many devices the parts of what rolls move before rims do. */
int64_t shard_hops(const struct shard_func *, ir_value, uint32_t d, int64_t parts);
/* What a slice, pad or extend makes of dimension `d` along a factor of its rule's `window`: `lead` holds how the
 * operand, or the result, lies, and gets both; false: it cannot be split so. */
bool shard_lead(const struct shard_func *, ir_value, uint32_t d, int64_t parts, bool of_result,
                struct shard_lead *lead);
bool shard_windows_pass(const struct shard_func *, ir_value, uint32_t factor, int64_t step); /* along other factors */
enum shard_pad_kind { SHARD_LOCAL, SHARD_SEND, SHARD_ADD, SHARD_CUT };
enum shard_pad_kind shard_pad_rims(const struct ir_mesh *, const struct shard_func *, ir_value pad, uint32_t d,
                                   uint32_t axes, struct shard_lead, struct shard_rims *);
double shard_rims_sent(const struct shard *, const struct shard_func *, ir_value, const struct shard_choice *);

/* spmd_window.c */
ir_value shard_device_index(struct ir_builder *, uint32_t mask);
ir_value shard_window_step(struct ir_builder *, const struct ir_mesh *, ir_value, const struct shard_step *,
                           int64_t extent);
ir_value shard_window_pad(const struct shard *, const struct shard_func *, struct ir_builder *, ir_value pad,
                          const ir_value *args);

/* shard_choose.c: the choice of a node by what its operands are, what reads it wants, and what each choice costs. */
void shard_choose(struct shard *, struct shard_func *, ir_value);
void shard_wake(struct shard_func *, ir_value);         /* it chooses again in the next sweep, */
void shard_wake_readers(struct shard_func *, ir_value); /* or those that read it */
/* How a loop sees a value from outside. */
struct ir_sharding shard_captured(const struct shard *, const struct shard_func *, ir_value);
/* What the node itself costs, in bytes that are sent. */
double shard_work(const struct shard *, const struct shard_func *, ir_value, const struct shard_choice *);
/* Sets the layout in which a value is held; returns what making and handing it out costs. */
double shard_hold(const struct shard *, struct shard_func *, ir_value, double *sent); /* and what of it is sent */

/* The layouts that are wanted of a value, and axes over which somebody needs it summed. */
enum { SHARD_MOST_WANTED = 8 };
struct shard_wishes {
    struct ir_sharding of[SHARD_MOST_WANTED];
    uint32_t count, whole;
};
void shard_collect(const struct shard *, const struct shard_func *, ir_value, ir_value except, struct shard_wishes *);

/* shard_propagate.c: the layout of every value. */
void shard_propagate(struct shard *);
/* What was decided so far, per function. */
struct shard_decided {
    struct ir_sharding *made, *value, **wanted, **tuple;
    struct shard_choice *choice;
    const struct ir_sharding **pinned;
    struct shard_price *price;
};
void shard_keep(struct shard *, struct shard_decided *, bool back); /* a copy of all functions', or back from it */
bool shard_sweep(struct shard *, bool backwards);                   /* whether any node chose */
void shard_price_of(struct shard *, struct shard_func *, double times, struct shard_price *); /* adds what it costs */
double shard_trips(const struct shard_func *, const struct ir_node *loop);

/* shard_search.c: what costs less and no node finds alone. */
void shard_search(struct shard *);

/* spmd.c: the module with local shapes and collectives. */
struct ir_module *shard_partition(struct shard *);
#endif
