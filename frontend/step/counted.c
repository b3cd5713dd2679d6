/* "partial_batches": numbers that count rows. A document is a step for one number of rows; where it can be built for
 * twice as many, too, what differs beside extents counts them. What a sum is divided by becomes the number of rows that
 * count (pass rows, which refuses it where it is no mean's); all else would stay that of a full batch, and is refused
 * here. */
#include "frontend/step/assemble.h"
#include <string.h>

struct pair { /* the function for the rows of the document, and for twice as many */
    struct fe *fe;
    struct ir_module *module;
    const struct ir_module *twice;
    struct map done; /* functions that were compared, by index */
};

static bool literal(const struct ir_func *f, ir_value v, double *out)
{
    const struct ir_node *n = ir_get(f, v);
    while (n->op == OP_broadcast || n->op == OP_reshape) n = ir_get(f, n->args[0]);
    if (ir_is_number(n)) *out = ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0);
    return ir_is_number(n);
}

static bool differ(double x, double y) { return x != y && (x == x || y == y); } /* NaN is NaN */

static void refuse(struct pair *p, uint32_t place, const char *what)
{
    vec_push(&p->module->arena, &p->module->counted, ((struct ir_counted){place, what}));
}

static void refuse_number(struct pair *p, uint32_t place, double x, double y)
{
    refuse(p, place,
           arena_format(&p->module->arena,
                        "a number that counts rows, %.9g of a full batch and %.9g of one twice as large: it would stay "
                        "the first one; write mean(...)",
                        x, y));
}

/* Does the op divide by the number? Random numbers (uint32) are drawn for the whole batch, loops have their own limits.
 */
static bool divides(const struct ir_node *n, uint32_t operand, double x, double y)
{
    if (n->op == OP_div && operand == 1) return y == 2 * x;
    return n->op == OP_mul && x == 2 * y;
}

static bool has_own_count(const struct ir_func *f, const struct ir_node *n, uint32_t operand)
{
    return n->op == OP_loop || n->op == OP_scan || n->op == OP_accumulate ||
           ir_type(f, n->args[operand])->dtype == IR_U32;
}

static bool reduces(const struct ir_node *n)
{
    return n->op == OP_reduce_sum || n->op == OP_reduce_prod || n->op == OP_reduce_max || n->op == OP_reduce_min;
}

static void compare(struct pair *, const struct ir_func *, const struct ir_func *);

/* Operands of one node; what they are paired with goes into `other`. */
static void compare_nodes(struct pair *p, const struct ir_func *f, const struct ir_func *g, const struct ir_node *n,
                          const struct ir_node *m, const bool *fixed, ir_value *other)
{
    bool same = n->op == m->op && n->arg_count == m->arg_count; /* else it cannot be told */
    for (uint32_t i = 0; same && i < n->arg_count; i++) {
        double x = 0, y = 0;
        if (!literal(f, n->args[i], &x) || !literal(g, m->args[i], &y)) other[n->args[i]] = m->args[i];
        else if (differ(x, y) && !divides(n, i, x, y) && !has_own_count(f, n, i)) refuse_number(p, n->place, x, y);
    }
    for (uint32_t i = 0; same && reduces(n) && fixed[n->args[0]] && i < n->attr[0].n; i++) {
        int64_t dim = n->attr[0].v[i], rows = ir_type(f, n->args[0])->dim[dim];
        if (i < m->attr[0].n && rows != ir_type(g, m->args[0])->dim[dim])
            refuse(p, n->place,
                   arena_format(&p->module->arena,
                                "what no input is in, over %lld rows: it would stay that of a full batch",
                                (long long)rows));
    }
    if (same && ir_has_body((enum ir_op)n->op))
        compare(p, p->module->funcs.items[n->func], p->twice->funcs.items[m->func]);
}

/* From the results on, along operands: constants that are equal for one number of rows are not for the other, so nodes
 * do not stand at the same places. */
static void compare(struct pair *p, const struct ir_func *f, const struct ir_func *g)
{
    if (!map_set_number(&p->done, ir_func_index(f), 1) || f->results.count != g->results.count) return;
    ir_value *other = arena_new_array(p->fe->arena, ir_value, f->count);
    bool *fixed = arena_new_array(p->fe->arena, bool, f->count); /* made of constants alone */
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        fixed[v] = n->op == OP_constant || n->op == OP_iota || n->arg_count > 0;
        for (uint32_t i = 0; i < n->arg_count; i++) fixed[v] &= fixed[n->args[i]];
    }
    for (size_t i = 0; i < f->results.count; i++) {
        ir_value v = f->results.items[i].value, w = g->results.items[i].value;
        int32_t slot = f->entry ? f->results.items[i].slot : -1;
        double x = 0, y = 0;
        other[v] = w;
        if (literal(f, v, &x) && literal(g, w, &y) && differ(x, y))
            refuse_number(p, slot >= 0 ? p->module->slots.items[slot].place : ir_get(f, v)->place, x, y);
    }
    for (ir_value v = f->count; --v > 0;)
        if (other[v]) compare_nodes(p, f, g, ir_get(f, v), ir_get(g, other[v]), fixed, other);
}

void fe_step_counted(struct fe *fe, struct ir_module *module, const struct ir_module *twice)
{
    static const char *const entries[] = {"step", "eval"}; /* the others take whole batches */
    struct pair p = {.fe = fe, .module = module, .twice = twice, .done = MAP(fe->arena)};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const struct ir_func *f = ir_func_find(module, entries[i]), *g = ir_func_find(twice, entries[i]);
        if (f && g) compare(&p, f, g);
    }
}
