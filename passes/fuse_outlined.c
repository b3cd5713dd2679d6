/* The group of an outlined function: its body is one piece of element-wise work by construction, so nothing is left to
 * decide. Its number tells which other groups have the same code: the same operations on the same numbers, whatever
 * the shape of the tensors, because element i of everything is computed from element i of everything else. */
#include "passes/fuse.h"

static int64_t elements_of(const struct ir_func *f) { return ir_type_elements(ir_type(f, f->results.items[0].value)); }

/* One element per element? The others are scalars. */
static bool is_full(const struct ir_type *t, int64_t elements)
{
    return t->rank > 0 && ir_type_elements(t) == elements;
}

/* What a value is to the code of a flat map. */
static uint64_t hash_value(const struct ir_func *f, ir_value v, const uint64_t *hash, int64_t elements)
{
    const struct ir_node *n = ir_get(f, v);
    uint64_t h = hash_u64(hash_u64(n->op, n->type.dtype), is_full(&n->type, elements));
    if (n->op == OP_constant) return hash_bytes(h, n->data, ir_dtype_bytes((enum ir_dtype)n->type.dtype));
    for (uint32_t i = 0; i < n->arg_count; i++) h = hash_u64(h, hash[n->args[i]]);
    bool view = n->op == OP_broadcast || n->op == OP_iota;
    for (uint32_t i = 0; i < ir_ops[n->op].attr_count && !view; i++) /* of a parameter: which one it is */
        h = pass_hash_ints(h, n->attr[i]);
    return h;
}

uint64_t pass_outlined_form(const struct ir_func *f, struct arena *scratch)
{
    uint64_t *hash = arena_new_array(scratch, uint64_t, f->count), form = f->params.count;
    int64_t elements = elements_of(f);
    for (ir_value v = 1; v < f->count; v++) /* a reshape is what it reads */
        hash[v] = ir_get(f, v)->op == OP_reshape ? hash[ir_get(f, v)->args[0]] : hash_value(f, v, hash, elements);
    for (size_t i = 0; i < f->params.count; i++) /* used or not */
        form = hash_u64(form, hash[f->params.items[i].value]);
    for (size_t i = 0; i < f->results.count; i++) form = hash_u64(form, hash[f->results.items[i].value]);
    return form;
}

static bool is_result(const struct ir_func *f, ir_value v)
{
    bool is = false;
    for (size_t i = 0; i < f->results.count; i++) is |= f->results.items[i].value == v;
    return is;
}

void fuse_outlined(struct pass *p, const struct ir_func *body, struct plan *plan)
{
    struct plan_group g = {.kind = GROUP_MAP, .func = body, .reason = "many tensors get the same arithmetic"};
    bool *live = ir_live(body, &p->scratch);
    for (ir_value v = 1; v < body->count; v++) {
        const struct ir_node *n = ir_get(body, v);
        if (!live[v]) continue;
        if (n->op == OP_param) {
            vec_push(p->keep, &g.inputs, v);
            vec_push(p->keep, &g.input_level, is_full(&n->type, elements_of(body)));
        } else if (n->op != OP_constant || is_result(body, v)) {
            vec_push(p->keep, &g.nodes, v);
        }
    }
    for (size_t i = 0; i < body->results.count; i++) {
        vec_push(p->keep, &g.outputs, body->results.items[i].value);
        vec_push(p->keep, &g.output_level, 1);
    }
    g.alike = pass_outlined_form(body, &p->scratch) | 1; /* 0 means not known */
    vec_push(p->keep, &plan->groups, g);
}
