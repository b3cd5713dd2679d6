/* --numerics invariant: means by the weight of microbatches. The mean of what was divided by the weight of its
 * microbatch is what is divided by the weight of the whole batch: in sum(w_i * (x_i / w_i)) / sum(w_i) every w_i is
 * gone but for the sum, which comes from the whole batch before the loop. So a microbatch divides by its share of that
 * instead, the same for all, and what it gives is averaged. That the weight is nothing but what sums over rows are
 * divided by is shown where microbatches of other sizes are compared (regroup.c). */
#include "frontend/step/assemble.h"
#include <string.h>

ir_value fe_step_weight(struct fe_step *s, struct fe_trace *trace, const struct fe_env *env)
{
    struct ir_builder *b = trace->b;
    fe_json json = s->accumulate.weight;
    b->place = fe_place(s->fe, json);
    struct fe_val v = fe_expr(s->fe, trace, json, env);
    ir_value w = v.bad ? 0 : fe_tensor(s->fe, trace, &v, json);
    if (!w) return 0;
    if (ir_type(b->f, w)->rank)
        return fe_error(s->fe, json, "E0432", "expected the weight of a microbatch, a number, found %s",
                        ir_type_text(s->fe->arena, ir_type(b->f, w))),
               0;
    return ir_cast(b, w, IR_F32);
}

bool fe_step_weight_of_inputs(struct fe_step *s)
{
    fe_json json = s->accumulate.weight;
    static const char *const names[] = {"model", "loss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json->kind == JSON_STRING && fe_step_names(json->string, names[i]))
            return fe_step_depends(s, json,
                                   arena_format(s->fe->arena,
                                                "the weight of a microbatch has to be a sum over rows of inputs, found "
                                                "one that depends on \"%s\"",
                                                names[i]));
    return true;
}

ir_value fe_step_share_of_weight(struct fe_step *s, struct fe_trace *trace, int64_t count)
{
    ir_value whole = fe_step_weight(s, trace, fe_step_outer_env(s, trace, 0));
    if (!whole) return 0;
    return term_div(trace->b, term_tensor(whole), term_number((double)count)).v;
}

const ir_value *fe_step_by_share(struct fe_step *s, struct fe_rows_part *part, ir_value weight)
{
    struct ir_builder *b = &part->b;
    uint32_t count = b->f->count;
    ir_value *map = arena_new_array(s->fe->arena, ir_value, count);
    for (ir_value v = 0; v < count; v++) map[v] = v;
    if (ir_is_number(ir_get(b->f, weight))) return map; /* other numbers are the same node */
    map[weight] = part->extra;
    for (ir_value v = weight + 1; v < count; v++) {
        struct ir_node n = *ir_get(b->f, v);
        ir_value *args = arena_new_array(s->fe->arena, ir_value, n.arg_count + 1u);
        bool other = false;
        for (uint32_t i = 0; i < n.arg_count; i++) args[i] = map[n.args[i]], other |= args[i] != n.args[i];
        b->place = n.place;
        if (other) map[v] = ir_remake(b, &n, args);
    }
    return map;
}
