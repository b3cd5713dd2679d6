/* Private to ir/infer*.c: a node being inferred, and the checks that the rules share. Every check that fails records
 * its message and returns false. */
#ifndef IR_INFER_H
#define IR_INFER_H
#include "ir/ir.h"

struct infer {
    const struct ir_func *f;
    struct ir_node *node; /* the rule fills its type */
    struct arena *arena;  /* for messages */
    const char *message;
};
typedef bool infer_rule(struct infer *);

/* infer_check.c */
bool infer_fail(struct infer *, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool infer_result(struct infer *, struct ir_type);       /* the type, if it is not too large */
bool infer_sane(struct infer *, const struct ir_type *); /* a tensor type that a node may have */
bool infer_attr_length(struct infer *, uint32_t index, uint32_t n);
bool infer_attr_number(struct infer *, uint32_t index, int64_t low, int64_t high,
                       int64_t *value); /* one, in [low, high) */
const char *infer_ints_text(const struct infer *, struct ir_ints);

static inline const struct ir_type *infer_arg(const struct infer *c, uint32_t i)
{
    return &c->f->nodes[c->node->args[i]].type;
}
static inline const char *infer_text(const struct infer *c, const struct ir_type *type)
{
    return ir_type_text(c->arena, type);
}
static inline const char *infer_arg_text(const struct infer *c, uint32_t i) { return infer_text(c, infer_arg(c, i)); }
static inline bool infer_is_index(const struct ir_type *type) { return type->dtype == IR_I32 && type->rank == 0; }

infer_rule infer_call, infer_loop, infer_grad, infer_accumulate, infer_scan, infer_vmap,
    infer_proj;                                                       /* infer_control.c */
infer_rule infer_winograd, infer_winograd_points, infer_winograd_sum; /* winograd.c */
#endif
