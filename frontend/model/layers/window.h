/* Arguments of layers with windows: shared by conv and pool. */
#ifndef FRONTEND_LAYERS_WINDOW_H
#define FRONTEND_LAYERS_WINDOW_H
#include "frontend/expr/sliding_window.h"
#include "frontend/model/block.h"

/* An integer for all axes, or a list; *count is the length of a list, 0 for an integer. */
bool window_ints(struct fe_block *, const struct fe_value *, int64_t preset, int64_t least, int64_t *out,
                 uint32_t *count);
bool window_per_axis(struct fe_block *, const struct fe_value *, int64_t preset, uint32_t rank, int64_t *out);
/* "SAME", "VALID", "CAUSAL", "CIRCULAR", "REFLECT", an integer, integers or pairs. */
bool window_padding(struct fe_block *, const struct fe_value *, const char *preset, struct fe_window *,
                    const struct ir_type *input);
#endif
