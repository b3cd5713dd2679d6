/* Private to passes/: scans (scan.c, vjp_scan.c). */
#ifndef PASSES_SCAN_H
#define PASSES_SCAN_H
#include "passes/common.h"

/* A scan taken apart: operands are carried.., stacked.., captured.., as are the parameters of its body. */
struct scan {
    const struct ir_node *n;
    const struct ir_func *body;
    uint32_t carried, stacked, captured, results;
    int64_t times;
    bool reverse;
};
struct scan scan_of(const struct ir_module *, const struct ir_node *);

/* `one` with `times` rows in front. */
struct ir_type scan_rows(const struct ir_type *one, int64_t times);

/* scan.c: puts a loop in place of the node; out[i] are its results, 0 where `used` is false. `body` is the rebuilt one.
 */
void scan_expand(struct pass *, struct ir_builder *, const struct ir_node *, const ir_value *operands, const bool *used,
                 ir_value *out);
#endif
