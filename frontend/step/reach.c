/* Whether anything that is trained can change the loss: a loss that has no gradient at all trains nothing, whatever the
 * optimizer does. One parameter without a gradient is what JAX makes of it, zeros. */
#include "frontend/step/assemble.h"

#include <string.h>

/* How each op hands a gradient on; "zero": not at all. */
static const char *const rules[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) [OP_##name] = #vjp,
#include "ir/ops.def"
#undef X
};

/* By the trace of model and loss, which knows no gradients yet. */
bool fe_step_reaches(struct fe_step *s, const struct ir_func *f, ir_value loss)
{
    bool *moves = arena_new_array(s->fe->arena, bool, f->count);
    bool *trained = arena_new_array(s->fe->arena, bool, s->fe->module->slots.count); /* by slot */
    for (uint32_t k = 0; k < s->param_count; k++) trained[s->params[k].slot] = s->trained[k];
    for (size_t i = 0; i < f->params.count; i++)
        if (f->params.items[i].slot >= 0) moves[f->params.items[i].value] = trained[f->params.items[i].slot];
    for (ir_value v = 1; v <= loss; v++) {
        const struct ir_node *n = ir_get(f, v);
        bool real = ir_dtype_is_float((enum ir_dtype)n->type.dtype) || n->type.dtype == IR_TUPLE;
        for (uint32_t i = 0; real && strcmp(rules[n->op], "zero") != 0 && i < n->arg_count; i++)
            moves[v] |= moves[n->args[i]];
    }
    return moves[loss];
}
