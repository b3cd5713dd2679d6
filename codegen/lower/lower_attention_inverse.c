/* Reciprocals of what rows of scores are divided by, on a GPU. Where steps are rows, a thread would divide for each of
 * its own again: those of a tile are made once, for all threads. */
#include "codegen/lower/lower_attention_grid.h"
#include <string.h>

static bool same_extents(const struct ir_type *x, const struct ir_type *y)
{
    return x->rank == y->rank && !memcmp(x->dim, y->dim, x->rank * sizeof *x->dim);
}

/* Is something, laid as scores are, one number for each row? Of as many numbers may be other things, where there are as
 * many columns as rows, or as batches. */
static bool is_of_rows(const struct lower_attention *a, ir_value v)
{
    const struct ir_node *n = ir_get(a->l->f, v);
    const struct ir_type *from = n->op == OP_broadcast ? ir_type(a->l->f, n->args[0]) : NULL;
    uint32_t rows = a->s.batches + a->s.row_dims;
    bool is = from && from->rank >= rows;
    for (uint32_t i = 0; is && i < from->rank; i++)
        is = n->attr[0].v[i] == i && from->dim[i] == (i < rows ? n->type.dim[i] : 1);
    return is && ir_type_elements(from) == ir_type_elements(ir_type(a->l->f, lower_root(a->l, v)));
}

static bool divides(const struct ir_node *n, uint32_t k)
{
    return n->op == OP_div && k == 1 && n->type.dtype == IR_F32;
}

/* Is it read only by what divides by it, scores or numbers of rows, and are these laid as rows where scores read them?
 */
static bool only_divides(const struct lower_attention *a, ir_value divisor)
{
    const struct lower *l = a->l;
    const struct ir_type *rows = ir_type(l->f, divisor);
    bool *made = arena_new_array(l->arena, bool, l->f->count); /* numbers of rows that are divided by it */
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        const struct ir_node *n = ir_get(l->f, v);
        bool view = n->op == OP_broadcast || n->op == OP_reshape;
        for (uint32_t k = 0; k < n->arg_count; k++) {
            ir_value x = n->args[k];
            bool reads = !view && lower_root(l, x) == divisor;
            if (reads && !(divides(n, k) && (x == divisor || is_of_rows(a, x)))) return false;
            if (made[x] && view && !is_of_rows(a, v)) return false;
            made[v] |= !view && (made[x] || x == divisor);
        }
        if (made[v] && !(ir_is_ewise((enum ir_op)n->op) && same_extents(&n->type, rows))) return false;
    }
    return true;
}

/* A number for each row that scores are divided by: the sum of a softmax. 0: there is none. */
static ir_value find_divisor(const struct lower_attention *a)
{
    const struct lower *l = a->l;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        const struct ir_node *n = ir_get(l->f, v);
        if (!l->reduced[v].keep || !divides(n, 1) || !is_of_rows(a, n->args[1])) continue;
        ir_value root = lower_root(l, n->args[1]);
        if (l->argument[root]) return only_divides(a, root) ? root : 0;
    }
    return 0;
}

void attention_invert(struct lower_attention_grid *g)
{
    struct lower_attention *a = g->a;
    struct lower *l = a->l;
    uint32_t depth = l->b.depth;
    ir_value divisor = a->rows || a->sum != IR_F32 ? 0 : find_divisor(a);
    if (!divisor) return;
    if (!g->inverse) g->inverse = nest_local(&l->b, IR_F32, a->steps);
    struct lower_pos base = attention_zero(), step = attention_var(l, lower_open(l, NEST_VECTOR, a->steps), 1),
                     at = attention_plus(l, &a->step, &step, 1);
    l->cond = lower_pos_inside(l, &at, a->walked);
    lower_pos_add(l, &at, &a->batch, a->s.rows);
    nest_value one = nest_number(&l->b, IR_F32, 1), by = lower_value(l, divisor, &at);
    nest_store(&l->b, g->inverse, lower_pos_index(l, &step), lower_binary(l, OP_div, IR_F32, one, by), 0);
    attention_leave(g, depth);
    lower_pos_add(l, &base, &a->batch, a->s.rows);
    lower_pos_add(l, &base, &a->step, 1);
    l->from[divisor] = (struct lower_override){.source = FROM_BUFFER, .buffer = g->inverse, .base = base};
    l->inverted = divisor;
}
