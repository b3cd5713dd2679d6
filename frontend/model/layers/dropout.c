/* dropout: zeros at the rate given, and the rest scaled up. */
#include "frontend/model/block.h"

static struct fe_val apply(struct fe_block *block, const struct fe_value *a)
{
    struct fe_site *s = &block->site;
    struct ir_type t = fe_type_at(s, &block->in[0]);
    struct fe_site at = *s;
    const char *stream = a[3].string;
    double rate = a[0].number;
    int64_t dims[IR_MAX_RANK];
    uint32_t count = 0, axis;
    bool used = rate > 0 && rate < 1 && !a[2].boolean;
    fe_block_fork(block, stream, used);
    if (a[1].given) {
        at.where.json = a[1].json;
        struct fe_val list = fe_literal(&at, a[1].json, NULL, false);
        if (list.bad || !fe_get_ints(&at, &list, dims, IR_MAX_RANK, &count, "broadcast_dims")) return fe_bad();
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!fe_get_axis(&at, dims[i], t.rank, &axis)) return fe_bad();
        t.dim[axis] = 1;
    }
    if (rate <= 0 || a[2].boolean || !s->trace->train) return block->in[0];
    if (!fe_block_float_input(block, 0)) return fe_bad();
    if (rate >= 1) return fe_full(s, fe_type_at(s, &block->in[0]), 0);
    struct fe_val keep = fe_block_mask(block, stream, &t, &block->in[0], rate);
    return fe_where3(s, keep, fe_div(s, block->in[0], fe_float(1 - rate)), fe_float(0));
}

static const struct fe_arg args[] = {{"rate", FE_NUMBER, FE_REQUIRED | FE_UNIT_CLOSED, NULL, NULL},
                                     {"broadcast_dims", FE_ANY, 0, "[]", NULL},
                                     {"deterministic", FE_BOOL, 0, "false", NULL},
                                     {"rng_collection", FE_STRING, 0, "\"dropout\"", NULL}};
const struct fe_layer fe_layer_dropout = {"dropout", args, 4, 1, apply};
