/* Private to passes/: a function applied to all rows at once (vmap.c, vmap_rules.c, vmap_control.c). */
#ifndef PASSES_VMAP_H
#define PASSES_VMAP_H
#include "passes/common.h"

/* Puts `callee`, applied to every row of the first `batched` operands (their dimension 0; the others are the same for
 * all rows), into the builder's function. The results have the rows as their dimension 0. `callee` holds no grad or
 * vmap marker any more. */
void vmap_rows(struct pass *, struct ir_builder *, const struct ir_func *callee, uint32_t batched,
               const ir_value *operands, ir_value *results);

/* ---------------------------------------------------------------- what rules see */

/* A value of the function that is copied: the value that stands for it, which has the rows in front if `mapped`. */
struct vmap_value {
    ir_value v;
    bool mapped;
};

struct vmap {
    struct pass *pass;
    struct ir_builder *b;
    int64_t rows;
    const struct ir_func *from;   /* the function of one row */
    const struct ir_node *n;      /* the node at hand: at least one operand is mapped */
    const struct vmap_value *map; /* per value of `from` */
    struct vmap_value **tuples;   /* per value of `from`: the parts of a tuple that was mapped */
    ir_value value;               /* the number of n */
};

/* Gives the node for all rows: with the rows in front. */
typedef ir_value vmap_rule(struct vmap *);

/* vmap_value.c. An operand with the rows in front, repeated if it is the same for all. */
ir_value vmap_arg(struct vmap *, uint32_t i);
ir_value vmap_spread(struct vmap *, struct vmap_value);
static inline bool vmap_mapped(const struct vmap *c, uint32_t i) { return c->map[c->n->args[i]].mapped; }
static inline ir_value vmap_plain(const struct vmap *c, uint32_t i) { return c->map[c->n->args[i]].v; }
/* The type of one row's value with the rows in front. */
struct ir_type vmap_type(const struct vmap *, const struct ir_type *one);
/* vmap.c: the body of a row with mapped and plain operands; out[i] as it comes. */
void vmap_body(struct vmap *, struct ir_builder *, const struct ir_func *callee, const struct vmap_value *operands,
               struct vmap_value *out);
/* Not possible: records the error once; the rule then returns 0. */
ir_value vmap_fail(struct vmap *, const char *what);

#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) vmap_rule vmap_##vmap;
#include "ir/ops.def"
#undef X
#endif
