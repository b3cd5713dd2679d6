/* For GPUs: what moves numbers of 16 bits that a contraction reads widened moves them as they are, and they are widened
 * behind it: the padded image of a convolution and its taps. So they take half of the memory, and the matrix unit
 * multiplies them (codegen/lower/lower_dot_grid.c). */
#include "passes/fuse.h"

struct widening {
    struct pass *pass;
    bool *
        *elsewhere; /* by function, of its values: something else reads it than contractions, and what moves for them */
};

static bool moves(const struct ir_node *n)
{
    return n->op == OP_reshape || n->op == OP_transpose || n->op == OP_slice || n->op == OP_concat || n->op == OP_pad;
}

static bool *find_elsewhere(const struct ir_func *f, struct arena *arena)
{
    bool *elsewhere = arena_new_array(arena, bool, f->count), *live = ir_live(f, arena);
    for (size_t i = 0; i < f->results.count; i++) elsewhere[f->results.items[i].value] = true;
    for (ir_value v = f->count; v-- > 1;) {
        const struct ir_node *n = ir_get(f, v);
        bool products = n->op == OP_dot || (moves(n) && !elsewhere[v]);
        for (uint32_t i = 0; i < n->arg_count && live[v]; i++) elsewhere[n->args[i]] |= !products;
    }
    return elsewhere;
}

/* The 16-bit number that a value is widened from; 0: it is not. */
static ir_value narrow(struct ir_builder *b, ir_value v, enum ir_dtype wanted)
{
    const struct ir_node *n = ir_get(b->f, v);
    if (ir_is_number(n) && wanted && ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0) == 0)
        return ir_cast(b, v, wanted);
    if (n->op != OP_cast || n->type.dtype != IR_F32) return 0;
    enum ir_dtype from = (enum ir_dtype)ir_type(b->f, n->args[0])->dtype;
    return (from == IR_BF16 || from == IR_F16) && (!wanted || from == wanted) ? n->args[0] : 0;
}

static ir_value rewrite(void *user, struct ir_builder *b, const struct ir_func *f, ir_value old, const ir_value *map)
{
    struct widening *w = user;
    const struct ir_node *node = ir_get(f, old);
    ir_value first = 0;
    if (moves(node) && !w->elsewhere[ir_func_index(f)][old]) first = narrow(b, map[node->args[0]], 0);
    if (!first) return pass_remake(w->pass, b, node, map);
    enum ir_dtype dtype = (enum ir_dtype)ir_type(b->f, first)->dtype;
    ir_value *args = arena_new_array(&w->pass->scratch, ir_value, node->arg_count);
    for (uint32_t i = 0; i < node->arg_count; i++)
        if (!(args[i] = narrow(b, map[node->args[i]], dtype))) return pass_remake(w->pass, b, node, map);
    return ir_cast(b, ir_remake(b, node, args), IR_F32);
}

static bool wants(const struct ir_func *f, const struct ir_node *n)
{
    const struct ir_node *x = moves(n) ? ir_get(f, n->args[0]) : NULL;
    return x && x->op == OP_cast && x->type.dtype == IR_F32 &&
           ir_dtype_bytes((enum ir_dtype)ir_type(f, x->args[0])->dtype) == 2;
}

struct ir_module *fuse_widen(struct pass *p, struct ir_module *m)
{
    struct widening w = {p, arena_new_array(&p->scratch, bool *, m->funcs.count)};
    bool any = false;
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[i];
        w.elsewhere[i] = find_elsewhere(f, &p->scratch);
        for (ir_value v = 1; v < f->count && !any; v++) any = !w.elsewhere[i][v] && wants(f, ir_get(f, v));
    }
    return any ? pass_rebuild(p, m, rewrite, &w) : m;
}
