/* The group of an outlined function: its body is one piece of element-wise work by construction, so nothing is left to
 * decide. Its number tells which other groups have the same code: the same operations on the same numbers, whatever
 * the shape of the tensors, because element i of everything is computed from element i of everything else. */
#include "passes/fuse.h"
#include <string.h>

/* What a value is to the code of a flat map. */
static uint64_t hash_value(const struct ir_func *f, ir_value v, const uint32_t *number) {
    const struct ir_node *n = ir_get(f, v);
    uint64_t h = hash_u64(hash_u64(n->op, n->type.dtype), ir_type_elements(&n->type) > 1);
    if (n->op == OP_constant)
        return hash_bytes(h, n->data, ir_dtype_bytes((enum ir_dtype)n->type.dtype));
    for (uint32_t i = 0; i < n->arg_count; i++)
        h = hash_u64(h, number[n->args[i]]);
    bool view = n->op == OP_reshape || n->op == OP_broadcast || n->op == OP_iota || n->op == OP_param;
    for (uint32_t i = 0; i < ir_ops[n->op].attr_count && !view; i++)
        for (uint32_t k = 0; k < n->attr[i].n; k++)
            h = hash_u64(h, (uint64_t)n->attr[i].v[k]);
    return h;
}

void fuse_outlined(struct pass *p, const struct ir_func *body, struct plan *plan) {
    struct plan_group g = {.kind = GROUP_MAP, .func = body, .reason = "many tensors get the same arithmetic"};
    uint32_t *number = arena_new_array(&p->scratch, uint32_t, body->count), next = 0;
    bool *live = ir_live(body, &p->scratch);
    for (ir_value v = 1; v < body->count; v++) {
        const struct ir_node *n = ir_get(body, v);
        if (!live[v])
            continue;
        number[v] = ++next;
        g.alike = hash_u64(g.alike, hash_value(body, v, number));
        if (n->op == OP_param) {
            vec_push(p->keep, &g.inputs, v);
            vec_push(p->keep, &g.input_level, ir_type_elements(&n->type) > 1);
        } else if (n->op != OP_constant) {
            vec_push(p->keep, &g.nodes, v);
        }
    }
    for (size_t i = 0; i < body->results.count; i++) {
        vec_push(p->keep, &g.outputs, body->results.items[i].value);
        vec_push(p->keep, &g.output_level, 1);
        g.alike = hash_u64(g.alike, number[body->results.items[i].value]);
    }
    g.alike |= 1; /* 0 means not known */
    vec_push(p->keep, &plan->groups, g);
}
