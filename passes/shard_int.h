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
    uint32_t summed; /* factors that the op sums over: split, they make the result partial */
    uint32_t whole;  /* factors that must not be split */
    uint32_t linear; /* operands in which, taken together, the op is linear: partial sums pass through */
    bool product;    /* linear in each of `linear` alone: at most one may be partial */
};
static inline bool shard_is_linear(const struct shard_rule *r, uint32_t operand)
{
    return operand < 32 && (r->linear >> operand & 1); /* ops of more operands are never linear */
}

/* shard_rules.c: the rule of a node by the shard column of the op table. */
void shard_rule_of(const struct ir_func *, const struct ir_node *, struct arena *, struct shard_rule *);
bool shard_is_zero(const struct ir_func *, ir_value);

/* Axes of one dimension: nibbles (axis + 1), outermost first; see struct ir_sharding. */
uint32_t shard_axes_mask(uint32_t axes);
bool shard_equal(const struct ir_sharding *, const struct ir_sharding *);
struct ir_type shard_local_type(const struct ir_mesh *, const struct ir_type *, const struct ir_sharding *);

/* shard_propagate.c: the sharding of every value, decided front to back. */
struct shard_func {
    const struct ir_func *func;
    struct ir_sharding *value;        /* per value */
    struct ir_sharding **tuple;       /* per loop: of its carried values */
    const struct ir_sharding *result; /* of a loop body: how its carried results must lie; NULL: as they are */
    bool *settled;                    /* per value: a consumer needs the whole sum, so it is summed where it is made */
};
struct shard {
    struct ir_module *module; /* stage tensor: global shapes */
    struct arena *arena;
    uint32_t batch_axes;      /* what "as the batch" stands for */
    struct shard_func *funcs; /* per function of the module */
    bool changed;
};
/* The shardings in which a node wants its operands, and that of its result before it is settled. */
void shard_node(struct shard *, struct shard_func *, ir_value, struct ir_sharding *wanted, struct ir_sharding *result);
void shard_propagate(struct shard *);
bool shard_is_input(const struct shard *, const struct ir_func *, ir_value);

/* spmd.c: the module with local shapes and collectives. */
struct ir_module *shard_partition(struct shard *);
#endif
