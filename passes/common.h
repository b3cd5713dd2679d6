/* Private to passes/: what several passes share. */
#ifndef PASSES_COMMON_H
#define PASSES_COMMON_H
#include "passes/pass.h"

/* A user's mistake at the place of the document that a node comes from. */
struct diag *pass_error(struct pass *, const struct ir_module *, uint32_t place, const char *code, const char *format,
                        ...) __attribute__((format(printf, 5, 6)));

struct diag *pass_warning(struct pass *, const struct ir_module *, uint32_t place, const char *code, const char *format,
                          ...) __attribute__((format(printf, 5, 6)));

/* Rebuilds every function of the module with `rewrite` (NULL: as it is, which drops dead nodes). */
struct ir_module *pass_rebuild(struct pass *, const struct ir_module *, ir_rewrite *, void *user);

/* Is nothing live in the module that `rewrites` would make anew, and may the module be used as it is? */
bool pass_keeps(struct pass *, const struct ir_module *,
                bool (*rewrites)(const struct ir_func *, const struct ir_node *));

/* Re-makes a node of another function with the operands that `map` gives. */
ir_value pass_remake(struct pass *, struct ir_builder *, const struct ir_node *old, const ir_value *map);

/* Re-makes a node: a rewrite for all that needs no other (the user is the pass). */
ir_rewrite pass_copy_node;

/* Puts the nodes that are `wanted` and not mapped yet into the builder's function, each by `rewrite` as in ir_rebuild.
 * Nodes without a place get the builder's. */
void pass_copy_nodes(struct ir_builder *, const struct ir_func *, const bool *wanted, ir_value *map, ir_rewrite *,
                     void *user);
/* Puts the live nodes of `callee` into the builder's function, with the operands in place of its parameters, in
 * the same way; its results go to `results`. */
void pass_copy_body(struct ir_builder *, const struct ir_func *callee, const ir_value *operands, ir_value *results,
                    ir_rewrite *, void *user, struct arena *scratch);

/* A function beside the others of a module that is being made: named after `like` and what it is for. */
struct ir_func *pass_new_body(struct pass *, struct ir_module *, const struct ir_func *like, const char *what);

/* By value: how often what is live, and the results, read it. */
uint32_t *pass_live_uses(const struct ir_func *, const bool *live, struct arena *);

/* The number of a constant whose elements are all the same. False: it is none. */
bool pass_number(const struct ir_func *, ir_value, double *number);
bool pass_is_zero(const struct ir_func *, ir_value); /* or -0 */

/* Functions that pass outline made: called for many sets of tensors, and never inlined. */
#define PASS_OUTLINED "each."
bool pass_is_outlined(const struct ir_func *);
/* Equal for two of them: the same arithmetic on the same numbers, whatever the shape of the tensors. */
uint64_t pass_outlined_form(const struct ir_func *, struct arena *);

/* Tensors of many sizes that lie end to end: those that fill lines of the cache (0) come first, so that all of them
 * begin on one; single numbers (2) come last. */
uint32_t pass_turn(int64_t elements);
enum { PASS_TURNS = 3 };

/* Frees what is kept of a module, which itself stays. */
void pass_forget(struct pass_fused *);

/* In a sharding_constraint: the axes along which the batch lies. */
enum { PASS_AS_BATCH = -1 };

/* extend.c: a node `extend` in shifted copies of x, along the dimensions of the set. */
ir_value pass_extend(struct ir_builder *, ir_value x, const struct ir_node *extend, uint32_t dims);
/* What it puts before x or behind it, and that added to zeros of x's extent where it comes from. */
ir_value pass_rim(struct ir_builder *, ir_value x, uint32_t dim, int64_t kind, int64_t count, bool before);
ir_value pass_rim_back(struct ir_builder *, ir_value rim, uint32_t dim, int64_t kind, int64_t extent, bool before);

/* Lists for the builder's calls. */
struct pass_dims {
    int64_t v[IR_MAX_RANK];
    uint32_t n;
};
static inline void pass_dims_add(struct pass_dims *list, int64_t dim) { list->v[list->n++] = dim; }
bool pass_has(struct ir_ints, int64_t dim);
/* Dimensions of a contraction's operand that are neither batch nor contracted, in order. */
int64_t pass_extent(const struct ir_type *, struct ir_ints dims); /* of all of them together */
struct pass_dims pass_free_dims(const struct ir_type *, struct ir_ints batch, struct ir_ints contract);
static inline uint64_t pass_hash_ints(uint64_t h, struct ir_ints list) /* and how many they are */
{
    return hash_bytes(h, list.v, list.n * sizeof *list.v);
}
static inline struct ir_ints pass_ints(const struct pass_dims *list) { return (struct ir_ints){list->v, list->n}; }
#endif
