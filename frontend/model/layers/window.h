/* Windows that slide over the spatial axes of [batch.., spatial.., features]: shared by conv and pool. */
#ifndef FRONTEND_LAYERS_WINDOW_H
#define FRONTEND_LAYERS_WINDOW_H
#include "frontend/model/block.h"

struct fe_window {
    uint32_t rank;  /* spatial axes */
    uint32_t first; /* the first of them in the input */
    int64_t size[IR_MAX_RANK], stride[IR_MAX_RANK], dilation[IR_MAX_RANK], input_dilation[IR_MAX_RANK];
    int64_t low[IR_MAX_RANK], high[IR_MAX_RANK];
    int64_t out[IR_MAX_RANK]; /* extents of the result, by window_place */
    const char *mode;         /* "constant", or pad's mode before the window slides: "wrap", "reflect" */
};

/* An integer for all axes, or a list; *count is the length of a list, 0 for an integer. */
bool window_ints(struct fe_block *, const struct fe_value *, int64_t preset, int64_t least, int64_t *out,
                 uint32_t *count);
bool window_per_axis(struct fe_block *, const struct fe_value *, int64_t preset, uint32_t rank, int64_t *out);
/* "SAME", "VALID", "CAUSAL", "CIRCULAR", "REFLECT", an integer, integers or pairs. */
bool window_padding(struct fe_block *, const struct fe_value *, const char *preset, struct fe_window *,
                    const struct ir_type *input);
/* Pads the input (with `fill`) and computes the result's extents. */
struct fe_val window_place(struct fe_block *, struct fe_window *, struct fe_val x, struct fe_val fill);
/* The result's extents, of these of the padded input. */
bool window_fits(struct fe_block *, struct fe_window *, const int64_t *padded);
int64_t window_taps(const struct fe_window *);
/* The elements that stand under tap number `tap` (row-major) as the window slides: [batch.., out.., features]. */
struct fe_val window_tap(struct fe_block *, const struct fe_window *, struct fe_val padded, int64_t tap);
#endif
