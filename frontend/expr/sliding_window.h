/* Windows that slide over the spatial axes of [batch.., spatial.., features] (functions/linear_conv.c). */
#ifndef FRONTEND_EXPR_SLIDING_WINDOW_H
#define FRONTEND_EXPR_SLIDING_WINDOW_H
#include "frontend/expr/values.h"

struct fe_window {
    uint32_t rank;  /* spatial axes */
    uint32_t first; /* the first of them in the input */
    int64_t size[IR_MAX_RANK], stride[IR_MAX_RANK], dilation[IR_MAX_RANK], input_dilation[IR_MAX_RANK];
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK];
    int64_t out[IR_MAX_RANK]; /* extents of the result, by fe_window_place */
    const char *what;         /* for messages */
    const char *mode;         /* "constant", or pad's mode before the window slides: "wrap", "reflect" */
};

/* Pads the input (with `fill`) and computes the result's extents. */
struct fe_val fe_window_place(struct fe_site *, struct fe_window *, struct fe_val x, struct fe_val fill);
int64_t fe_window_taps(const struct fe_window *);
/* The elements that stand under tap number `tap` (row-major) as the window slides: [batch.., out.., features]. */
struct fe_val fe_window_tap(struct fe_site *, const struct fe_window *, struct fe_val padded, int64_t tap);
/* Padding "SAME", the odd element behind the input or (`lower`) before it, of one axis of `in` elements. */
void fe_window_same(struct fe_window *, uint32_t axis, int64_t in, bool lower);
/* Input [batch.., spatial.., in], kernel [spatial.., in / groups, out]. With 16-bit types all sums are float32. */
struct fe_val fe_convolve(struct fe_site *, struct fe_window *, struct fe_val x, struct fe_val kernel, int64_t groups);
#endif
