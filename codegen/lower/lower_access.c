/* How a value stands in memory: what of it lies side by side, so that a GPU's thread may read it by one access. */
#include "codegen/lower/lower.h"

enum { DEPTH = 16 /* operations between a value and memory, at most */ };

static bool divides(int64_t few, const int64_t *n, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (n[i] % few) return false;
    return true;
}

static bool side_by_side(const struct lower *l, ir_value v, int64_t few, uint32_t depth);

/* The same of taps: runs, and what lies between them. */
static bool taps_side_by_side(const struct lower *l, ir_value v, int64_t few, uint32_t depth)
{
    const struct plan_taps *t = plan_taps_of(l->plan, l->f, v);
    return t && t->size % (uint64_t)few == 0 && t->start % (uint64_t)few == 0 &&
           divides(few, t->steps.items, t->steps.count) && side_by_side(l, t->base, few, depth);
}

static bool view_side_by_side(const struct lower *l, ir_value v, int64_t few, uint32_t depth)
{
    const struct ir_node *n = ir_get(l->f, v);
    const struct ir_type *from = n->arg_count ? ir_type(l->f, n->args[0]) : NULL;
    if (!from || !from->rank || !n->type.rank) return false;
    uint32_t in = from->rank - 1, out = n->type.rank - 1;
    bool whole = n->type.dim[out] % few == 0 && from->dim[in] % few == 0, same = false;
    switch (n->op) {
    case OP_reshape: same = true; break;
    case OP_transpose: same = whole && n->attr[0].v[out] == in; break;
    case OP_broadcast: same = whole && n->attr[0].v[in] == out && from->dim[in] == n->type.dim[out]; break;
    case OP_slice: same = whole && n->attr[0].v[in] % few == 0 && (!n->attr[2].n || n->attr[2].v[in] == 1); break;
    case OP_pad: same = whole && n->attr[0].v[in] % few == 0 && (!n->attr[2].n || n->attr[2].v[in] == 0); break;
    default: break;
    }
    return same && side_by_side(l, n->args[0], few, depth);
}

static bool side_by_side(const struct lower *l, ir_value v, int64_t few, uint32_t depth)
{
    const struct ir_node *n = ir_get(l->f, v);
    if (l->argument[v] || ir_is_number(n)) return true;
    if (!depth) return false;
    if (n->op == OP_concat) return taps_side_by_side(l, v, few, depth - 1);
    if (!ir_is_ewise((enum ir_op)n->op)) return view_side_by_side(l, v, few, depth - 1);
    for (uint32_t i = 0; i < n->arg_count; i++)
        if (!side_by_side(l, n->args[i], few, depth - 1)) return false;
    return true;
}

bool lower_side_by_side(const struct lower *l, ir_value v, int64_t few) { return side_by_side(l, v, few, DEPTH); }

bool lower_stands(const struct lower *l, ir_value v)
{
    const struct ir_node *n = ir_get(l->f, v);
    bool view = n->op == OP_reshape || n->op == OP_transpose || n->op == OP_slice;
    return l->argument[v] || (view && lower_stands(l, n->args[0]));
}

ir_value lower_narrow(const struct lower *l, ir_value v)
{
    const struct ir_node *n = ir_get(l->f, v);
    return !l->argument[v] && n->op == OP_cast && n->type.dtype == IR_F32 ? n->args[0] : v;
}
