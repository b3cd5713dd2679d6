/* dropout. The layer takes one draw of the stream "dropout" for its fork, whatever its rate. */
#include "frontend/model.h"

static struct fe_val apply(struct fe_block *block, const struct fe_value *a)
{
    struct fe *fe = block->site.fe;
    uint32_t stream, draw;
    if (!fe->state->declared && !block->sharing) fe_draw(fe, "dropout", &stream, &draw);
    if (a[0].number <= 0 || a[2].boolean || !block->site.trace->train) return block->in[0];
    if (a[0].number >= 1) return fe_mul(&block->site, fe_stop(&block->site, block->in[0]), fe_int(0));
    return fe_block_fail(block, a[0].json, "E0111", "dropout with a rate above 0 is not supported yet");
}

static const struct fe_arg args[] = {{"rate", FE_NUMBER, FE_REQUIRED | FE_UNIT_CLOSED, NULL, NULL},
                                     {"broadcast_dims", FE_ANY, 0, "[]", NULL},
                                     {"deterministic", FE_BOOL, 0, "false", NULL},
                                     {"rng_collection", FE_STRING, 0, "\"dropout\"", NULL}};
const struct fe_layer fe_layer_dropout = {"dropout", args, 4, 1, apply};
