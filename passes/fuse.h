/* Private to fuse*.c. Every node is either material (computed once, in one cluster) or inlined (computed wherever it
 * is needed: views, and arithmetic cheaper than a trip through memory). Clusters of material nodes become groups. */
#ifndef PASSES_FUSE_H
#define PASSES_FUSE_H
#include "passes/common.h"

/* ORDER: from FUSE_REDUCE on a node is always stored. */
enum fuse_class {
    FUSE_LEAF,
    FUSE_VIEW,
    FUSE_INDEX,
    FUSE_EWISE,
    FUSE_REDUCE,
    FUSE_DOT,
    FUSE_SCATTER,
    FUSE_LINES,
    FUSE_CONTROL
};
/* How the index of an operand follows from that of its user. */
enum fuse_relation { FUSE_SAME, FUSE_SPREAD /* repeated along the reduced parts of a segmentation */, FUSE_OTHER };
enum fuse_level { FUSE_FULL, FUSE_ROW };
/* What a node does with tiles of scores (fuse_attention.c): contracts their columns, leaving rows, or their rows; takes
 * the maximum or the sum of a softmax. */
enum fuse_sink { FUSE_SINK_NONE, FUSE_SINK_ROWS, FUSE_SINK_COLUMNS, FUSE_SINK_STAT };
enum { FUSE_LONG = 250 };   /* inlined operations; more become a kernel of their own */
enum { FUSE_SMALL = 4096 }; /* elements that cost next to nothing to store and load again */

/* A shape cut into runs of dimensions that are kept or reduced (by a reduction), or mapped or repeated (by a
 * broadcast): dimensions of extent 1 are gone and neighbours of a kind are one. Numbered, so that equal ones have equal
 * numbers. */
struct fuse_segments {
    uint32_t n;
    int64_t extent[IR_MAX_RANK];
    bool reduced[IR_MAX_RANK];
    int64_t full, rows;
};

struct fuse_dep {
    ir_value value;
    uint8_t relation;
    uint32_t segments;
};

/* Products that tiles are made from; `full`: there are more. */
struct fuse_scores {
    ir_value v[PLAN_MOST_SCORES];
    uint32_t n;
    bool full;
};

struct fuse_node {
    uint8_t class, level;
    bool live, needs_buffer, material, multi, region,
        state;                /* state: stored to a parameter, an average or optimizer state */
    uint32_t uses, only_user; /* live ones */
    uint32_t cluster;         /* of material nodes */
    uint32_t segments;        /* of reductions and broadcasts */
    int64_t elements;
    double inline_cost;
    uint32_t inline_inputs; /* full-size values read when inlined */
    bool again;             /* on a GPU: made by whoever reads it, see reads_less */
    struct fuse_dep *deps;  /* material nodes and leaves it reads */
    uint32_t dep_count;
    VEC(ir_value) readers; /* material nodes that have it as a dependency */
    bool late;             /* whatever follows from it reads small values only */
    bool replaced;         /* a parameter whose slot gets another value */
    bool follows;          /* is made of tensors of the new state */
    bool decides;          /* a metric that is not: with these a step is accepted or refused */
    bool window;           /* see plan_group: its elements are those of the row that is written */
    bool turned;           /* a large transposition, which goes by blocks */
    bool tile;             /* scores, and what is element-wise with them: made where it is needed, however often */
    uint8_t sink;          /* enum fuse_sink */
    ir_value scores;       /* of a sink: the first product that it is made from */
    const struct fuse_scores *all; /* of a sink: all of them */
    ir_value beside;               /* of a sink: what of the same softmax it is made with; 0: nothing */
};

struct fuse_cluster {
    enum plan_group_kind kind;
    bool apart;                 /* a library's product, or a transposition by blocks: nothing is computed with it */
    bool lone, region, windows; /* windows: a member is one; then a map it stays */
    bool follows, decides;      /* a member does; never both: the new state is made when it is decided */
    int64_t full, rows;
    uint32_t segments; /* ROW, COLUMN */
    uint32_t merged;   /* the cluster it became part of, or itself */
    uint32_t reductions;
    uint32_t reads;    /* of tensors beside it, by its members: at least as many as those are */
    int64_t leaf;      /* of sums whose order is fixed; 0: there is none */
    double work;       /* what its members take with what is inlined into them */
    uint32_t height;   /* above that of all clusters it reads */
    uint32_t stamp[2]; /* of the last search that came here: down, up */
    ir_value root;
    const char *reason;
    VEC(ir_value) nodes;
};

/* Clusters that are looked at one after another (fuse_order.c): where it stands. */
struct fuse_search {
    VEC(uint32_t) queue;
    size_t head, node, edge;
};

struct fuse {
    struct pass *pass;
    struct arena *arena; /* scratch */
    struct arena *keep;
    const struct ir_func *f;
    struct fuse_node *node;
    VEC(struct fuse_cluster) clusters;
    VEC(struct fuse_segments) segments; /* [0] = none */
    uint32_t stamp;
    uint64_t edges; /* that searches for an order have followed */
    struct fuse_search sources, readers;
    ir_value placed;                           /* all that have a cluster come before it, or are it */
    uint32_t *depth, *depth_stamp, depth_turn; /* of find_depth */
    const bool *crowd; /* by value: one of very many reductions, or sums of scalars, that are alike */
};

/* What the sums of one function are made of. */
struct fuse_sums {
    struct arena *arena;
    const struct ir_func *f;
    bool *inner; /* by value: read by one such sum only */
    bool join;   /* see plan_join */
};

/* fuse_panels.c: operands of large products in panels of `columns` (0: none are). Of a module, with the loops that
 * there are; is the product one that reads them; the product that does; a loop with what its body takes in panels, 0:
 * nothing. */
enum { FUSE_PANEL_ROWS = 192 /* below which a product packs for itself what it reads */ };
struct fuse_loop;
struct fuse_panels {
    struct arena *arena;
    uint32_t columns, rows;
    bool pairs; /* of bfloat16, two steps of the contraction lie side by side */
    const struct ir_func *f;
    int64_t *cut;            /* of its values: see find_cuts */
    const bool *attention;   /* of its values; NULL: not looked for yet */
    const uint32_t *uses;    /* of its values */
    struct fuse_loop *loops; /* by function: the loop whose body it is */
};
struct fuse_panels fuse_panels_of(struct pass *, const struct ir_module *);
bool fuse_is_attention(struct fuse_panels *, const struct ir_func *, ir_value); /* which has tiles of its own */
/* A product whose pairs need a step more, of zeros; it. */
bool fuse_wants_even(struct fuse_panels *, const struct ir_func *, ir_value);
ir_value fuse_even(struct ir_builder *, const struct ir_node *, const ir_value *map);
bool fuse_wants_panels(struct fuse_panels *, const struct ir_func *, ir_value);
/* A product whose result is read with the batch behind the rows; it. */
bool fuse_wants_rows_first(struct fuse_panels *, const struct ir_func *, ir_value);
ir_value fuse_rows_first(struct ir_builder *, const struct ir_func *, const struct ir_node *, const ir_value *map);
/* The same of the left operand. */
bool fuse_wants_rows(struct fuse_panels *, const struct ir_func *, ir_value);
ir_value fuse_rows(const struct fuse_panels *, struct ir_builder *, const struct ir_func *, const struct ir_node *,
                   const ir_value *map);
ir_value fuse_panels(const struct fuse_panels *, struct ir_builder *, const struct ir_func *, const struct ir_node *,
                     const ir_value *map);
ir_value fuse_loop(const struct fuse_panels *, struct ir_builder *, const struct ir_node *, const ir_value *map);

/* fuse_transposed.c: sums over what the taps of a convolution give, as it finds them. Is a value one; the convolution
 * that makes it, or makes it without its border. 0: it is none. */
enum { FUSE_MOST_TAPS = 256 };
struct fuse_transposed {
    const struct pass_options *options;
    const struct ir_func *f;
    const struct ir_node *product; /* cotangent by kernel: [.., taps * columns]; NULL: `of` by numbers */
    ir_value of;
    uint32_t rank, count, rest_count;
    int64_t columns, groups, stride[IR_MAX_RANK]; /* columns: of all groups */
    struct {
        int64_t low[IR_MAX_RANK]; /* where it puts the first element */
        ir_value weight;          /* of a number for each column */
    } tap[FUSE_MOST_TAPS];        /* by number of the slice */
    bool found[FUSE_MOST_TAPS];
    ir_value rest[FUSE_MOST_TAPS]; /* what else is added */
};
bool fuse_is_transposed(struct fuse_transposed *, const struct ir_func *, ir_value);
bool *fuse_tap_products(const struct pass_options *, const struct ir_func *, struct arena *); /* by value: of these */
ir_value fuse_transpose(struct fuse_transposed *, struct ir_builder *, const struct ir_func *, ir_value,
                        const ir_value *map);

/* fuse_winograd.c: is a product a convolution that takes fewer multiplications; it, or the product itself. */
bool fuse_wants_winograd(const struct pass_options *, const struct ir_func *, ir_value);
ir_value fuse_winograd(const struct pass_options *, struct ir_builder *, ir_value);

/* fuse_pairs.c: may a product be one of taps; it in pairs of bfloat16, 0: it stays as it is. */
bool fuse_may_pair(const struct ir_func *, const struct ir_node *, struct arena *);
ir_value fuse_pair(struct ir_builder *, const struct ir_node *dot, const ir_value *map, struct arena *);

/* fuse_nodes.c */
void fuse_classify(struct fuse *);
void fuse_dependencies(struct fuse *);
/* fuse_masks.c: marks signs that are stored. */
void fuse_store_masks(struct fuse *);
/* fuse_prepare.c: rewrites what has no template of its own. */
struct ir_module *fuse_prepare(struct pass *, struct ir_module *);
/* fuse_taps.c: is a concatenation one of taps, and of which? Is an operand one, in whatever shape? */
bool fuse_find_taps(const struct ir_func *, ir_value concat, struct plan_taps *, struct arena *);
bool fuse_of_taps(const struct ir_func *, ir_value, struct arena *scratch);
/* fuse_attention.c: marks tiles and sinks; the cluster that a sink joins, UINT32_MAX: a new one. */
void fuse_find_attention(struct fuse *);
/* By value: scores of attention, which take no memory unless something else reads them too; `readers`: and products
 * that read them. */
bool *fuse_mark_attention(const struct ir_func *, bool readers, struct arena *);
uint32_t fuse_cluster_of_tiles(struct fuse *, ir_value);
/* A sum of a gradient along rows of scores, made from what has no columns. 0: it stays as it is. `numbers`: by value,
 * equal where what is made again is; NULL: nothing is. */
bool fuse_is_gradient_sum(const struct ir_func *, const struct ir_node *);
ir_value fuse_gradient_sum(struct ir_builder *, const struct ir_func *from, ir_value old, const ir_value *map,
                           const ir_value *numbers);
/* fuse_clusters.c: the cluster that one became part of; is a value computed in one; the one that makes it, UINT32_MAX
 * for what is there from the start. */
uint32_t fuse_find(struct fuse *, uint32_t cluster);
bool fuse_is_clustered(const struct fuse *, ir_value);
uint32_t fuse_maker(struct fuse *, ir_value);
/* fuse_groups.c */
void fuse_emit_groups(struct fuse *, struct plan *);
/* fuse_order.c: does anything that a node reads beside the cluster itself need it; would one cluster of the two need
 * its own result; keeping the heights. */
bool fuse_needs(struct fuse *, ir_value, uint32_t cluster);
bool fuse_makes_cycle(struct fuse *, uint32_t a, uint32_t b);
void fuse_raise(struct fuse *, uint32_t cluster, uint32_t height);
void fuse_lift(struct fuse *, uint32_t cluster, ir_value added);
/* fuse_phases.c: reductions that give few blocks work, in two phases. A cut makes parts of whole steps of one
 * dimension, and of all before it: the most that are no more than wanted. */
struct fuse_cut {
    uint32_t at;        /* the dimension */
    int64_t parts, all; /* of it; with those before it. all 1: there is none */
};
struct fuse_cut fuse_find_cut(const int64_t *extent, uint32_t count, int64_t wanted);
bool fuse_wants_phases(uint32_t blocks, const struct ir_func *, const struct ir_node *);
ir_value fuse_phases(uint32_t blocks, struct ir_builder *, const struct ir_node *, ir_value x);
/* fuse_split.c: products of few tiles, too. Are several products side by side, each of which reads so many inputs and
 * has so many columns, made in one vector (codegen/lower/lower_dot_groups.c)? */
bool fuse_is_narrow(const struct pass_options *, int64_t inputs, int64_t columns);
bool fuse_wants_split(const struct pass_options *, const struct ir_func *, ir_value, struct arena *scratch);
ir_value fuse_split(const struct pass_options *, struct ir_builder *, const struct ir_node *, const ir_value *map);
/* fuse_line.c: products of one row or column as sums along lines of memory. */
bool fuse_wants_lines(uint32_t blocks, const struct ir_func *, const struct ir_node *, struct arena *scratch);
ir_value fuse_lines(struct ir_builder *, const struct ir_func *from, const struct ir_node *, const ir_value *map);
/* fuse_widen.c: 16-bit numbers are widened where a GPU multiplies them, not before. The module, or a new one. */
struct ir_module *fuse_widen(struct pass *, struct ir_module *);
/* fuse_products.c: products of 16-bit numbers, or of few columns, as a CPU makes them. The module, or a new one. */
struct ir_module *fuse_products(struct pass *, struct ir_module *);
/* fuse_sums.c: sums of very many scalars become trees. */
ir_value fuse_sum(struct fuse_sums *, struct ir_builder *, const struct ir_func *from, ir_value old,
                  const ir_value *map);
bool fuse_is_scalar_sum(const struct ir_node *);
enum { FUSE_MANY_TERMS = 64, FUSE_FAN_IN = 16 };
/* fuse_alike.c: keeps groups alike where there are many of them. May clusters not be one; may a node not join one? */
void fuse_find_crowds(struct fuse *);
bool fuse_apart(const struct fuse *, uint32_t a, uint32_t b);
bool fuse_outsider(struct fuse *, ir_value, uint32_t cluster);
/* fuse_gates.c: does a cluster wait for large ones, and which large ones wait for it? By cluster. */
struct fuse_gate {
    bool behind;
    uint32_t first, last; /* + 1; 0: none waits */
};
struct fuse_gate *fuse_gates(struct fuse *);
bool fuse_same_gate(const struct fuse_gate *, const struct fuse_gate *);
/* Equal numbers: the same code on other tensors. 0: such groups are not looked for. */
uint64_t fuse_likeness(const struct fuse *, const struct plan_group *, uint32_t *number);
/* fuse_outlined.c: the one group of a function that is called. */
void fuse_outlined(struct pass *, const struct ir_func *body, struct plan *);
#endif
