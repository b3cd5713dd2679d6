/* Vectorisation: a function of one row becomes one of all rows. Every value that depends on a row gets the rows as a
 * new dimension 0; what is the same for all rows stays as it is. One rule per op (vmap_rules.c, vmap_control.c);
 * element-wise ops share one; what rules use is in
 * vmap_value.c. As jax.vmap: Frostig et al. 2018. */
#include "passes/vmap.h"
#include <string.h>

static vmap_rule *const rules[IR_OP_COUNT] = {
#define X(name, args, attrs, stages, flags, infer, eval, vjp, vmap, shard, emit, cost, doc) [OP_##name] = vmap_##vmap,
#include "ir/ops.def"
#undef X
};

/* ---------------------------------------------------------------- a function */

static bool any_mapped(const struct ir_node *n, const struct vmap_value *map)
{
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (map[n->args[i]].mapped) return true;
    return false;
}

/* After an error the value is a zero that is the same for all rows, so that the rest can be built. */
static struct vmap_value apply(struct vmap *c)
{
    bool tuple = c->n->type.dtype == IR_TUPLE;
    if (c->n->type.rank == IR_MAX_RANK) vmap_fail(c, "a tensor of the highest rank");
    ir_value v = c->n->type.rank == IR_MAX_RANK ? 0 : rules[c->n->op](c);
    if (v || tuple) return (struct vmap_value){v, true};
    return (struct vmap_value){ir_number(c->b, c->n->type, 0), false};
}

void vmap_body(struct vmap *outer, struct ir_builder *b, const struct ir_func *callee,
               const struct vmap_value *operands, struct vmap_value *out)
{
    struct arena *scratch = &outer->pass->scratch;
    bool *live = ir_live(callee, scratch);
    struct vmap_value *map = arena_new_array(scratch, struct vmap_value, callee->count);
    ir_value *plain = arena_new_array(scratch, ir_value, callee->count);
    struct vmap c = {.pass = outer->pass,
                     .b = b,
                     .rows = outer->rows,
                     .from = callee,
                     .map = map,
                     .tuples = arena_new_array(scratch, struct vmap_value *, callee->count)};
    uint32_t place = b->place;
    for (ir_value v = 1; v < callee->count; v++) {
        const struct ir_node *n = ir_get(callee, v);
        if (!live[v]) continue;
        b->place = n->place ? n->place : place;
        c.n = n;
        c.value = v;
        if (n->op == OP_param) map[v] = operands[n->attr[0].v[0]];
        else if (n->op == OP_proj && c.tuples[n->args[0]]) map[v] = c.tuples[n->args[0]][n->attr[0].v[0]];
        else if (any_mapped(n, map)) map[v] = apply(&c);
        else map[v] = (struct vmap_value){pass_remake(outer->pass, b, n, plain), false};
        plain[v] = map[v].v;
    }
    b->place = place;
    for (size_t i = 0; i < callee->results.count; i++) out[i] = map[callee->results.items[i].value];
}

void vmap_rows(struct pass *p, struct ir_builder *b, const struct ir_func *callee, uint32_t batched,
               const ir_value *operands, ir_value *results)
{
    uint32_t count = (uint32_t)callee->params.count, made = (uint32_t)callee->results.count;
    struct vmap c = {.pass = p, .b = b, .rows = ir_type(b->f, operands[0])->dim[0]};
    struct vmap_value *in = arena_new_array(&p->scratch, struct vmap_value, count + 1),
                      *out = arena_new_array(&p->scratch, struct vmap_value, made + 1);
    for (uint32_t i = 0; i < count; i++) in[i] = (struct vmap_value){operands[i], i < batched};
    vmap_body(&c, b, callee, in, out);
    for (uint32_t i = 0; i < made; i++) results[i] = vmap_spread(&c, out[i]);
}
