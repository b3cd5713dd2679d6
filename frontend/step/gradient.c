/* Loss, early metrics and gradients of all rows that a trace sees, at once, and how the metrics of parts of a batch
 * become those of the batch. */
#include "frontend/step/assemble.h"
#include <string.h>

const char *const fe_accumulators[] = {"sum", "mean", "running_mean", "concat"};

/* gradients of a loss by the trained parameters of a trace: one per parameter, 0 where not trained. */
static ir_value *fe_step_gradients(struct fe_step *s, struct fe_trace *trace, ir_value loss)
{
    struct fe *fe = s->fe;
    ir_value *wrt = arena_new_array(fe->arena, ir_value, s->param_count + 1),
             *grads = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    uint32_t n = 0, k = 0;
    for (uint32_t i = 0; i < s->param_count; i++)
        if (s->trained[i]) wrt[n++] = fe_trace_param(fe, trace, i);
    trace->b->place = fe_place(fe, fe_member(fe, fe_root(fe), "loss"));
    ir_value scale = fe_step_scale(s, trace);
    if (scale) loss = ir_binary(trace->b, OP_mul, loss, scale);
    ir_value tuple = ir_grad(trace->b, loss, wrt, n);
    for (uint32_t i = 0; i < s->param_count; i++) {
        if (!s->trained[i]) continue;
        grads[i] = ir_proj(trace->b, tuple, k++);
        if (scale) grads[i] = fe_step_unscaled(trace->b, scale, grads[i]);
    }
    return grads;
}

bool fe_step_whole(struct fe_step *s, struct fe_trace *trace, bool grads, struct fe_outcome *out)
{
    if (!fe_trace_model(s->fe, trace) || !fe_trace_loss(s->fe, trace)) return false;
    out->loss = trace->loss.tensor;
    out->env = trace->env;
    out->metrics = arena_new_array(s->fe->arena, ir_value, s->metric_count);
    out->metrics[0] = out->loss;
    if (grads) out->grads = fe_step_gradients(s, trace, out->loss);
    return fe_step_metrics(s, trace, trace->env, false, out->metrics);
}

bool fe_step_metric_kind(struct fe_step *s, const struct fe_metric *m, fe_json kinds, int64_t rows, int64_t preset,
                         const struct ir_type *type, int64_t *kind)
{
    fe_json own = kinds ? fe_member(s->fe, kinds, m->name) : NULL;
    bool by_row = type->rank > 0 && type->dim[0] == rows && !m->summary;
    *kind = m->example ? m->kind : by_row ? FE_CONCATENATE : preset;
    for (uint32_t a = 0; own && a <= FE_CONCATENATE; a++)
        if (strcmp(fe_accumulators[a], own->string) == 0) *kind = a;
    if (*kind == FE_CONCATENATE || *kind == FE_SUM || ir_dtype_is_float(type->dtype)) return true;
    return fe_wrong(s->fe, own ? own : m->json, "E0432", "metric \"%s\" has type %s, which %s cannot accumulate",
                    m->name, ir_type_text(s->fe->arena, type), fe_accumulators[*kind]);
}
