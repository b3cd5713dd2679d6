/* Moving what was traced in place into a function of its own: what depends on the stand-ins goes, what it uses from
 * outside becomes parameters. */
#include "frontend/model/body.h"
#include <string.h>

/* The results of a call, which is never looked into. */
void fe_stand_ins(struct fe *fe, struct ir_builder *b, const struct ir_type *types, uint32_t n, ir_value *out)
{
    struct ir_builder c = {
        .f = ir_func_new(fe->module, arena_format(fe->arena, "stand.in.%zu", fe->module->funcs.count), false)};
    for (uint32_t i = 0; i < n; i++) ir_result_add(&c, "x", ir_number(&c, types[i], 0), -1);
    ir_value tuple = ir_call(b, c.f, NULL, 0);
    for (uint32_t i = 0; i < n; i++) out[i] = ir_proj(b, tuple, i);
}

void fe_body_begin(struct fe_body *m, struct fe *fe, struct ir_func *from, const char *name, ir_value first)
{
    *m = (struct fe_body){.fe = fe, .from = from, .first = first};
    m->b.f = ir_func_new(fe->module, arena_format(fe->arena, "%s.%zu", name, fe->module->funcs.count), false);
    m->inside = arena_new_array(fe->arena, bool, from->count);
    m->map = arena_new_array(fe->arena, ir_value, from->count);
}

void fe_body_param(struct fe_body *m, ir_value stand_in)
{
    if (stand_in < m->first) m->first = stand_in;
    m->inside[stand_in] = true;
    m->map[stand_in] = ir_param_new(&m->b, "x", *ir_type(m->from, stand_in), -1);
}

/* Constants are made again, and what is repeated is repeated there; everything else from outside is captured. */
static ir_value moved(struct fe_body *m, ir_value v)
{
    const struct ir_node *n = ir_get(m->from, v);
    if (m->map[v]) return m->map[v];
    if (n->arg_count == 0 && n->op != OP_param && !ir_has_body((enum ir_op)n->op))
        return m->map[v] = ir_remake(&m->b, n, NULL);
    if (n->op == OP_broadcast && ir_type_elements(ir_type(m->from, n->args[0])) < ir_type_elements(&n->type)) {
        ir_value one = moved(m, n->args[0]);
        return m->map[v] = ir_remake(&m->b, ir_get(m->from, v), &one);
    }
    vec_push(m->fe->arena, &m->captured, v);
    return m->map[v] = ir_param_new(&m->b, "captured", n->type, -1);
}

/* Which values are needed for the results and depend on a stand-in (marked in `inside` already). */
static bool *mark(struct fe_body *m, const ir_value *results, uint32_t n)
{
    uint32_t count = m->from->count;
    bool *needed = arena_new_array(m->fe->arena, bool, count);
    for (ir_value v = m->first; v < count; v++) {
        const struct ir_node *node = ir_get(m->from, v);
        for (uint32_t i = 0; i < node->arg_count; i++) m->inside[v] |= m->inside[node->args[i]];
    }
    for (uint32_t i = 0; i < n; i++) needed[results[i]] = true;
    for (ir_value v = count; v-- > m->first;) {
        const struct ir_node *node = ir_get(m->from, v);
        for (uint32_t i = 0; needed[v] && m->inside[v] && i < node->arg_count; i++) needed[node->args[i]] = true;
    }
    return needed;
}

/* Parameters are made while nodes are copied: captured ones last, in the order of their first use. */
void fe_body_end(struct fe_body *m, const ir_value *results, uint32_t n)
{
    bool *needed = mark(m, results, n);
    for (ir_value v = m->first; v < m->from->count; v++) {
        const struct ir_node *node = ir_get(m->from, v);
        if (!needed[v] || !m->inside[v] || m->map[v]) continue;
        ir_value *args = arena_new_array(m->fe->arena, ir_value, node->arg_count + 1);
        for (uint32_t i = 0; i < node->arg_count; i++) args[i] = moved(m, node->args[i]);
        m->b.place = node->place;
        m->map[v] = ir_remake(&m->b, node, args);
    }
    for (uint32_t i = 0; i < n; i++) ir_result_add(&m->b, "y", moved(m, results[i]), -1);
}
