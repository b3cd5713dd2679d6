/* Tiles of scores that count for nothing: above the diagonal of a causal mask, outside of a window. A value that is not
 * finite and that only such tiles would read is not read. */
#include "codegen/lower/lower_attention.h"
#include <math.h>

ir_value attention_without_casts(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_cast) v = ir_get(f, v)->args[0];
    return v;
}

static bool number_of(const struct ir_func *f, ir_value v, double *number)
{
    const struct ir_node *n = ir_get(f, v);
    if (n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_cast) return number_of(f, n->args[0], number);
    if (ir_is_number(n)) *number = ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0);
    return ir_is_number(n);
}

/* How often these may look at a value: sums and squares of themselves have no end. Then all tiles are made. */
enum { MOST_LOOKS = 1000 };

/* Integers that grow by as much with every row, and with every column, or do not. */
static bool is_even(const struct lower *l, ir_value v, uint32_t *looks)
{
    const struct ir_node *n = ir_get(l->f, v);
    if (n->type.dtype != IR_I32 && n->type.dtype != IR_I64) return false;
    if (ir_type_elements(&n->type) == 1 || ir_is_number(n) || n->op == OP_iota) return true;
    if (l->argument[v] || ++*looks > MOST_LOOKS) return false;
    switch (n->op) {
    case OP_broadcast:
    case OP_cast:
    case OP_neg: return is_even(l, n->args[0], looks);
    case OP_add:
    case OP_sub: return is_even(l, n->args[0], looks) && is_even(l, n->args[1], looks);
    default: return false;
    }
}

/* Parts of a condition that must all hold. */
static bool add_conditions(struct lower_attention_dead *d, const struct lower *l, ir_value v)
{
    const struct ir_node *n = ir_get(l->f, v);
    uint32_t looks = 0;
    bool inside = !l->argument[v];
    if (inside && n->op == OP_and) return add_conditions(d, l, n->args[0]) && add_conditions(d, l, n->args[1]);
    if (inside && (n->op == OP_broadcast || n->op == OP_transpose)) return add_conditions(d, l, n->args[0]);
    bool even = inside && (n->op == OP_lt || n->op == OP_le) && is_even(l, n->args[0], &looks) &&
                is_even(l, n->args[1], &looks);
    uint32_t *count = even ? &d->conditions : &d->others;
    if (*count == MOST_CONDITIONS) return false;
    (even ? d->condition : d->other)[(*count)++] = v;
    return true;
}

/* Is a value 0 where `e` is? */
static bool has_factor(const struct ir_func *f, ir_value v, ir_value e, uint32_t *looks)
{
    const struct ir_node *n = ir_get(f, v);
    double zero;
    if (v == e) return true;
    if (++*looks > MOST_LOOKS) return false;
    switch (n->op) {
    case OP_mul: return has_factor(f, n->args[0], e, looks) || has_factor(f, n->args[1], e, looks);
    case OP_cast:
    case OP_neg:
    case OP_div: return has_factor(f, n->args[0], e, looks);
    case OP_select: return number_of(f, n->args[2], &zero) && zero == 0 && has_factor(f, n->args[1], e, looks);
    default: return false;
    }
}

/* exp(select(mask, .., fill) - max): what the mask asks for. */
static bool find_masks(struct lower_attention *a, ir_value e)
{
    const struct lower *l = a->l;
    const struct ir_node *less = ir_get(l->f, attention_without_casts(l->f, ir_get(l->f, e)->args[0]));
    struct lower_attention_dead *d = &a->dead;
    if (less->op != OP_sub) return false;
    ir_value v = attention_without_casts(l->f, less->args[0]);
    d->max = less->args[1];
    d->fill = -INFINITY;
    while (!l->argument[d->max] && d->max != a->max && ir_get(l->f, d->max)->arg_count == 1)
        d->max = ir_get(l->f, d->max)->args[0];
    if (ir_get(l->f, d->max)->op != OP_reduce_max) return false;
    for (; ir_get(l->f, v)->op == OP_select; v = attention_without_casts(l->f, ir_get(l->f, v)->args[1])) {
        const struct ir_node *n = ir_get(l->f, v);
        double fill;
        if (!number_of(l->f, n->args[2], &fill) || d->masks == MOST_CONDITIONS || !add_conditions(d, l, n->args[0]))
            break;
        d->mask[d->masks++] = n->args[0];
        d->fill = fill > d->fill ? fill : d->fill;
    }
    return d->conditions > 0;
}

void attention_find_dead(struct lower_attention *a)
{
    const struct lower *l = a->l;
    ir_value e = 0;
    bool plain = a->s.row_dims == 1 && ir_type(l->f, a->source[0].product)->rank == a->s.batches + 2;
    for (size_t i = 0; i < l->group->nodes.count; i++) {
        ir_value v = l->group->nodes.items[i];
        if (ir_get(l->f, v)->op == OP_exp && l->reduced[v].keep) e = e ? UINT32_MAX : v;
    }
    bool all = plain && e && e != UINT32_MAX;
    for (uint32_t i = 0, looks = 0; i < a->sinks && all; i++, looks = 0)
        all = has_factor(l->f, a->sink[i].from, e, &looks);
    if (!all || !find_masks(a, e)) a->dead = (struct lower_attention_dead){0};
}

/* Does one condition hold at a corner, whatever the others say? */
static nest_value holds(struct lower_attention *a, uint32_t which, const struct lower_pos *p)
{
    struct lower *l = a->l;
    const struct lower_attention_dead *d = &a->dead;
    nest_value all = 0, yes = nest_number(&l->b, IR_BOOL, 1);
    struct map memo = l->memo;
    for (int turn = 0; turn < 2; turn++) {
        struct lower_override with = {0};
        if (!turn) with = (struct lower_override){.source = FROM_VALUE, .value = yes};
        for (uint32_t i = 0; i < d->others; i++) l->from[d->other[i]] = with;
        for (uint32_t i = 0; i < d->conditions; i++)
            if (i != which) l->from[d->condition[i]] = with;
        l->memo = turn ? memo : MAP(l->arena);
        for (uint32_t i = 0; i < d->masks && !turn; i++) all = lower_and(l, all, lower_value(l, d->mask[i], p));
    }
    return all;
}

/* The least maximum of so many rows from `first` on. */
nest_value attention_least_max(struct lower_attention *a, const struct lower_pos *first, int64_t rows)
{
    struct lower *l = a->l;
    struct nest_index zero = {0};
    uint32_t least = nest_reg(&l->b, a->sum, 1, true, INFINITY), depth = l->b.depth;
    struct lower_pos lane = attention_var(l, lower_open(l, NEST_VECTOR, rows), 1),
                     at = attention_plus(l, first, &lane, 1);
    nest_value inside = lower_pos_inside(l, &at, a->s.rows);
    lower_pos_add(l, &at, &a->batch, a->s.rows);
    l->cond = inside;
    nest_value m = a->max ? nest_load(&l->b, a->max_local, lower_pos_index(l, &lane), 0)
                          : lower_value(l, a->dead.max, &at);
    m = lower_cast(l, m, a->sum);
    nest_value args[] = {inside, m, nest_number(&l->b, a->sum, INFINITY)};
    nest_reduce(&l->b, OP_min, least, zero, inside ? nest_op(&l->b, OP_select, a->sum, args, 3) : m);
    l->cond = 0;
    nest_close_to(&l->b, depth);
    return nest_fold(&l->b, OP_min, least, zero);
}

/* The last of so many rows or columns from `first` on, of `extent`. */
static struct lower_pos last_of(struct lower *l, const struct lower_pos *first, int64_t count, int64_t extent)
{
    int64_t low, high;
    struct lower_pos at = *first, end = attention_zero();
    at.offset += count - 1;
    lower_pos_range(l, &at, &low, &high);
    if (high < extent) return at;
    nest_value least = lower_binary(l, OP_min, IR_I32, lower_pos_value(l, &at), lower_number(l, extent - 1));
    lower_pos_add_scaled(l, &end, least, 1, extent - 1);
    return end;
}

/* The condition under which a tile is made. 0: always. */
nest_value attention_is_live(struct lower_attention *a, int64_t steps)
{
    struct lower *l = a->l;
    nest_value live = 0, least = a->least;
    const struct lower_pos step[] = {a->step, last_of(l, &a->step, steps, a->walked)};
    const struct lower_pos lane[] = {a->first, last_of(l, &a->first, a->width, a->extent)};
    for (uint32_t i = 0; i < a->dead.conditions; i++) {
        nest_value any = 0;
        for (int corner = 0; corner < 4; corner++) {
            struct lower_pos p = attention_among_scores(a, &step[corner & 1], &lane[corner >> 1]);
            nest_value here = holds(a, i, &p);
            any = any ? lower_binary(l, OP_or, IR_BOOL, any, here) : here;
        }
        live = lower_and(l, live, any);
    }
    if (!live) return 0;
    if (a->max) least = attention_least_max(a, &a->first, a->width);
    else if (!a->rows) least = attention_least_max(a, &a->step, steps);
    nest_value over = lower_binary(l, OP_sub, a->sum, least, nest_number(&l->b, a->sum, a->dead.fill));
    nest_value underflow = nest_number(&l->b, a->sum, a->sum == IR_F64 ? 800 : 128);
    nest_value far = lower_binary(l, OP_lt, IR_BOOL, underflow, over);
    return lower_binary(l, OP_or, IR_BOOL, live, nest_op(&l->b, OP_not, IR_BOOL, &far, 1));
}
