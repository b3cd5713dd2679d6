/* Walks over functions: uses, liveness, and the order of functions by calls. */
#include "ir/ir.h"

uint32_t *ir_use_counts(const struct ir_func *f, struct arena *arena)
{
    uint32_t *uses = arena_new_array(arena, uint32_t, f->count);
    for (ir_value v = 1; v < f->count; v++)
        for (uint32_t i = 0; i < f->nodes[v].arg_count; i++) uses[f->nodes[v].args[i]]++;
    for (size_t i = 0; i < f->results.count; i++) uses[f->results.items[i].value]++;
    return uses;
}

bool *ir_live(const struct ir_func *f, struct arena *arena)
{
    bool *live = arena_new_array(arena, bool, f->count);
    for (size_t i = 0; i < f->results.count; i++) live[f->results.items[i].value] = true;
    for (ir_value v = f->count - 1; v > 0; v--) /* users come after what they use */
        if (live[v])
            for (uint32_t i = 0; i < f->nodes[v].arg_count; i++) live[f->nodes[v].args[i]] = true;
    return live;
}

bool ir_has_body(enum ir_op op)
{
    return op == OP_call || op == OP_loop || op == OP_accumulate || op == OP_scan || op == OP_vmap;
}

/* Depth first with its own stack: `next` is how far the nodes of a function were looked at. */
uint32_t *ir_func_order(const struct ir_module *m, struct arena *arena)
{
    uint32_t n = (uint32_t)m->funcs.count, done = 0, depth = 0;
    uint32_t *order = arena_new_array(arena, uint32_t, n), *next = arena_new_array(arena, uint32_t, n);
    uint32_t *stack = arena_new_array(arena, uint32_t, n);
    bool *seen = arena_new_array(arena, bool, n);
    for (uint32_t root = 0; root < n; root++) {
        if (seen[root]) continue;
        seen[root] = true;
        stack[depth++] = root;
        while (depth) {
            uint32_t at = stack[depth - 1];
            const struct ir_func *f = m->funcs.items[at];
            while (next[at] < f->count) {
                const struct ir_node *node = &f->nodes[next[at]++];
                if (!ir_has_body((enum ir_op)node->op) || node->func >= n || seen[node->func]) continue;
                seen[node->func] = true;
                stack[depth++] = node->func;
                break;
            }
            if (stack[depth - 1] != at) continue;
            order[done++] = at;
            depth--;
        }
    }
    return order;
}
