/* Private to outline*.c. A region is a connected piece of element-wise work on tensors of one shape, such as the update
 * of one parameter; a class is all regions that do the same with other tensors of that shape, a family all classes that
 * differ in the shape only. */
#ifndef PASSES_OUTLINE_H
#define PASSES_OUTLINE_H
#include "passes/common.h"

/* What a region's node reads, or the node itself; the numbers are of the region. */
enum outline_source { OUTLINE_MEMBER, OUTLINE_INPUT, OUTLINE_NUMBER, OUTLINE_VIEW /* made again in every region */ };

/* Regions of single elements are flat: their functions know tensors of one dimension, and scalars that are the same in
 * all regions (a learning rate). So the code is that of larger tensors. */
struct outline_region {
    uint32_t class;
    VEC(ir_value) members; /* in the order of definition, with views in their places */
    VEC(ir_value) inputs;  /* values from outside */
    VEC(ir_value) numbers; /* constants of one repeated value */
    VEC(ir_value) outputs; /* members that are read outside */
    ir_value call;         /* in the function being made */
};

struct outline_family {
    uint32_t leader, count; /* the first region; how many there are */
    bool *varies;           /* by number: not the same in all regions, so it becomes an operand */
    uint32_t varying;
};

struct outline_class {
    uint32_t family, leader; /* the first region */
    bool flat;
    bool *uniform;        /* by input: the same value in all regions */
    struct ir_func *body; /* NULL: left in place */
};

struct outline {
    struct pass *pass;
    struct arena *arena;
    const struct ir_func *f;
    bool *live;
    uint32_t *uses;        /* by value: live ones */
    const bool *summed;    /* by value: an addition of a sum of very many scalars */
    const uint64_t *forms; /* by function that was outlined before */
    bool *position;      /* by value: element i is i, in C order, though it was made from several dimensions' indices */
    uint32_t *region_of; /* by value: region + 1 of a member that is arithmetic; 0 = none */
    VEC(struct outline_region) regions;
    VEC(struct outline_class) classes;
    VEC(struct outline_family) families;
    bool *chosen;       /* by class: it gets a function */
    ir_value **results; /* by value: what a call gives in the body being made */
};

enum {
    OUTLINE_LEAST = 16 /* regions of a family */,
    OUTLINE_SHARED = 32 /* uses of what belongs to no region */,
    OUTLINE_LARGEST = 16384 /* elements */,
    OUTLINE_NODES = 400,
    OUTLINE_OPERANDS = 40,
    OUTLINE_VARYING = 8
};

/* outline_regions.c: fills regions, and classes with what they have in common. */
void outline_find(struct outline *);
/* outline_position.c: fills `position`. */
void outline_find_positions(struct outline *);
#endif
