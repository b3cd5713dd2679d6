/* What is known of the indices of a scatter: sums of the beginning of a row and of a place inside of it, as those of
 * take_along_axis and of a sort, name elements of their own row only. */
#include "codegen/lower/lower.h"

enum { DEPTH = 16 };

/* Between which numbers the elements of an int32 tensor lie. */
static void bounds_of(const struct ir_func *f, ir_value v, uint32_t depth, int64_t bounds[2])
{
    const struct ir_node *n = ir_get(f, v);
    int64_t x[2], y[2];
    bounds[0] = INT32_MIN, bounds[1] = INT32_MAX;
    if (ir_is_number(n)) bounds[0] = bounds[1] = (int64_t)ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0);
    if (n->op == OP_iota) bounds[0] = 0, bounds[1] = n->type.dim[n->attr[0].v[0]] - 1;
    if (depth == DEPTH || !n->arg_count) return;
    bounds_of(f, n->args[n->op == OP_select ? 2 : 0], depth + 1, x);
    if (n->arg_count > 1) bounds_of(f, n->args[1], depth + 1, y);
    switch (n->op) {
    case OP_reshape:
    case OP_broadcast:
    case OP_transpose:
    case OP_slice: bounds[0] = x[0], bounds[1] = x[1]; break;
    case OP_select: bounds[0] = x[0] < y[0] ? x[0] : y[0], bounds[1] = x[1] > y[1] ? x[1] : y[1]; break;
    case OP_max: bounds[0] = x[0] > y[0] ? x[0] : y[0], bounds[1] = x[1] > y[1] ? x[1] : y[1]; break;
    case OP_min: bounds[0] = x[0] < y[0] ? x[0] : y[0], bounds[1] = x[1] < y[1] ? x[1] : y[1]; break;
    default: break;
    }
}

int64_t lower_scatter_groups(const struct lower *l, const struct ir_node *scatter)
{
    const struct ir_func *f = l->f;
    int64_t count = ir_type_elements(ir_type(f, scatter->args[1])), extent = scatter->type.dim[scatter->attr[0].v[0]];
    ir_value v = scatter->args[1];
    for (uint32_t i = 0; i < DEPTH; i++) { /* from what holds the sum inside of the dimension */
        const struct ir_node *n = ir_get(f, v);
        if (n->op == OP_add) break;
        int64_t with[2] = {0, 0};
        if (n->op != OP_reshape && n->op != OP_max && n->op != OP_min) return 1;
        if (n->op != OP_reshape) bounds_of(f, n->args[1], 0, with);
        if ((n->op == OP_max && with[1] > 0) || (n->op == OP_min && with[0] < extent - 1)) return 1;
        v = n->args[0];
    }
    const struct ir_node *sum = ir_get(f, v);
    for (uint32_t side = 0; side < 2 && sum->op == OP_add; side++) {
        const struct ir_node *first = ir_get(f, sum->args[side]), *rows = first;
        int64_t step[2] = {1, 1}, rest[2];
        if (first->op == OP_mul) rows = ir_get(f, first->args[0]), bounds_of(f, first->args[1], 0, step);
        if (rows->op != OP_iota || rows->attr[0].v[0] != 0 || ir_type_elements(&rows->type) != count) continue;
        bounds_of(f, sum->args[1 - side], 0, rest);
        int64_t groups = rows->type.dim[0];
        if (step[0] == step[1] && step[0] > 0 && rest[0] >= 0 && rest[1] < step[0] && groups * step[0] == extent)
            return groups;
    }
    return 1;
}
