/* "partial_batches": numbers that count rows. A document is a step for one number of rows; where it can be built for
 * twice as many, too, what differs counts them. Pass rows is told of extents and of what something is divided by, which
 * becomes the number of rows that count; all else would stay that of a full batch, and is refused here. */
#include "frontend/step/assemble.h"
#include "ir/plan.h"
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

static void compare(struct pair *, struct ir_func *, const struct ir_func *, int64_t rows);

/* Remembers what of an operand counts rows. */
static void note(struct pair *p, struct ir_func *f, ir_value v, uint32_t operand, unsigned what)
{
    struct arena *a = &p->module->arena;
    if (!what) return;
    if (!f->counts) f->counts = arena_new_array(a, uint16_t *, f->count);
    if (!f->counts[v]) f->counts[v] = arena_new_array(a, uint16_t, ir_get(f, v)->arg_count);
    f->counts[v][operand] |= (uint16_t)what;
}

static unsigned extents(const struct ir_type *x, const struct ir_type *y)
{
    unsigned found = 0;
    for (uint32_t d = 0; x->rank == y->rank && d < x->rank; d++)
        if (x->dim[d] != y->dim[d]) found |= (unsigned)IR_COUNTS_EXTENT << d;
    return found;
}

/* ---------------------------------------------------------------- what is made of constants alone */

struct side { /* a function, and which of its values are made of constants alone */
    const struct ir_func *f;
    bool *fixed;
};

enum { MOST_ELEMENTS = 1 << 20 }; /* of a value that is computed here */

static struct side side_of(struct pair *p, const struct ir_func *f)
{
    struct side s = {f, arena_new_array(p->fe->arena, bool, f->count)};
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        s.fixed[v] = n->op == OP_constant || n->op == OP_iota || n->arg_count > 0;
        for (uint32_t i = 0; i < n->arg_count; i++) s.fixed[v] &= s.fixed[n->args[i]];
    }
    return s;
}

/* The elements of such a value, by the interpreter; false: not by nodes alone, or too many. */
static bool computed(const struct side *s, ir_value v, struct arena *arena, struct ir_tensor *out)
{
    bool *needed = arena_new_array(arena, bool, v + 1);
    struct ir_tensor *made = arena_new_array(arena, struct ir_tensor, v + 1), args[IR_EVAL_OPERANDS];
    needed[v] = s->fixed[v];
    for (ir_value u = v; u > 0; u--)
        for (uint32_t i = 0; needed[u] && i < ir_get(s->f, u)->arg_count; i++) needed[ir_get(s->f, u)->args[i]] = true;
    for (ir_value u = 1; u <= v; u++) {
        struct ir_node n = *ir_get(s->f, u);
        if (!needed[u]) continue;
        if (ir_has_body((enum ir_op)n.op) || n.arg_count > IR_EVAL_OPERANDS || n.op == OP_proj ||
            n.type.dtype == IR_I64 || n.type.dtype == IR_U64 || ir_type_elements(&n.type) > MOST_ELEMENTS)
            return false;
        made[u] = (struct ir_tensor){n.type, arena_new_array(arena, double, ir_type_elements(&n.type))};
        for (uint32_t i = 0; i < n.arg_count; i++) args[i] = made[n.args[i]];
        if (n.op == OP_constant) ir_tensor_from_bytes(&made[u], plan_constant_data(&n, arena), arena);
        else ir_eval_node(&n, args, &made[u]);
    }
    *out = made[v];
    return needed[v];
}

static bool repeats(const struct ir_tensor *x, double *number)
{
    int64_t n = ir_type_elements(&x->type);
    for (int64_t i = 1; i < n; i++)
        if (differ(x->v[i], x->v[0])) return false;
    if (n) *number = x->v[0];
    return n > 0;
}

/* Whether its elements are those that the other one begins with along each dimension, as those of arange and eye are: a
 * table that is another one for another number of rows (of a transform over them) is none of rows. */
static bool begins_with(const struct ir_tensor *x, const struct ir_tensor *y)
{
    const struct ir_type *a = &x->type, *b = &y->type;
    if (a->rank != b->rank || a->dtype != b->dtype) return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dim[d] > b->dim[d]) return false;
    for (int64_t i = 0, n = ir_type_elements(a); i < n; i++) {
        int64_t at = 0, left = i, stride = 1;
        for (uint32_t d = a->rank; d-- > 0; stride *= b->dim[d], left /= a->dim[d]) at += left % a->dim[d] * stride;
        if (differ(x->v[i], y->v[at])) return false;
    }
    return true;
}

/* Whether two values of constants alone are the same as far as the first one goes. */
static bool same_table(const struct side *f, const struct side *g, ir_value v, ir_value w)
{
    struct ir_tensor a, b;
    struct arena scratch = {0};
    bool same = f->fixed[v] && g->fixed[w] && computed(f, v, &scratch, &a) && computed(g, w, &scratch, &b) &&
                begins_with(&a, &b);
    arena_free(&scratch);
    return same;
}

/* Are both sides' operands numbers that are known here? Where one is a constant and the other still has to be computed
 * (small ones are when they are made), or both are tables, by their elements. A table that is another one is refused.
 */
static bool numbers(struct pair *p, const struct side *f, const struct side *g, const struct ir_node *n,
                    const struct ir_node *m, uint32_t operand, double *x, double *y)
{
    ir_value v = n->args[operand], w = m->args[operand];
    bool one = literal(f->f, v, x), two = literal(g->f, w, y);
    bool given = ir_get(f->f, v)->op == OP_constant, other = ir_get(g->f, w)->op == OP_constant;
    struct ir_tensor a, b;
    struct arena scratch = {0};
    if ((one && two) || (!given && !other) || !f->fixed[v] || !g->fixed[w]) return one && two;
    bool known = computed(f, v, &scratch, &a) && computed(g, w, &scratch, &b),
         both = known && repeats(&a, x) && repeats(&b, y);
    if (!both && !has_own_count(f->f, n, operand) && !(known && begins_with(&a, &b)))
        refuse(p, n->place,
               "numbers that are others for another number of rows: they would stay those of a full batch");
    arena_free(&scratch);
    return both;
}

/* Operands of one node; what they are paired with goes into `other`. Of a single row nothing can be left out. */
static void compare_nodes(struct pair *p, struct ir_func *f, const struct side *here, const struct side *there,
                          ir_value v, const struct ir_node *m, int64_t rows, ir_value *other)
{
    const struct ir_func *g = there->f;
    const struct ir_node *n = ir_get(f, v);
    bool same = n->op == m->op && n->arg_count == m->arg_count;
    if (!same && rows > 1 && n->type.dtype != IR_U32 && !same_table(here, there, v, other[v]))
        refuse(p, n->place,
               arena_format(&p->module->arena, "what is computed otherwise for another number of rows than %lld",
                            (long long)rows));
    for (uint32_t i = 0; same && i < n->arg_count; i++) {
        double x = 0, y = 0;
        note(p, f, v, i, extents(ir_type(f, n->args[i]), ir_type(g, m->args[i])));
        if (!numbers(p, here, there, n, m, i, &x, &y)) other[n->args[i]] = m->args[i];
        else if (!differ(x, y) || has_own_count(f, n, i)) continue;
        else if (divides(n, i, x, y)) note(p, f, v, i, IR_COUNTS_DIVISOR);
        else refuse_number(p, n->place, x, y);
    }
    for (uint32_t i = 0; same && reduces(n) && here->fixed[n->args[0]] && i < n->attr[0].n; i++) {
        int64_t dim = n->attr[0].v[i], extent = ir_type(f, n->args[0])->dim[dim];
        if (i < m->attr[0].n && extent != ir_type(g, m->args[0])->dim[dim])
            refuse(p, n->place,
                   arena_format(&p->module->arena,
                                "what no input is in, over %lld rows: it would stay that of a full batch",
                                (long long)extent));
    }
    if (same && ir_has_body((enum ir_op)n->op))
        compare(p, p->module->funcs.items[n->func], p->twice->funcs.items[m->func],
                n->op == OP_accumulate ? rows / n->attr[1].v[0] : rows);
}

/* From the results on, along operands: constants that are equal for one number of rows are not for the other, so nodes
 * do not stand at the same places. */
static void compare(struct pair *p, struct ir_func *f, const struct ir_func *g, int64_t rows)
{
    if (!map_set_number(&p->done, ir_func_index(f), 1) || f->results.count != g->results.count) return;
    ir_value *other = arena_new_array(p->fe->arena, ir_value, f->count);
    struct side here = side_of(p, f), there = side_of(p, g);
    for (size_t i = 0; i < f->results.count; i++) {
        ir_value v = f->results.items[i].value, w = g->results.items[i].value;
        int32_t slot = f->entry ? f->results.items[i].slot : -1;
        double x = 0, y = 0;
        other[v] = w;
        if (literal(f, v, &x) && literal(g, w, &y) && differ(x, y))
            refuse_number(p, slot >= 0 ? p->module->slots.items[slot].place : ir_get(f, v)->place, x, y);
    }
    for (ir_value v = f->count; --v > 0;)
        if (other[v]) compare_nodes(p, f, &here, &there, v, ir_get(g, other[v]), rows, other);
}

void fe_step_counted(struct fe *fe, struct ir_module *module, const struct ir_module *twice)
{
    static const char *const entries[] = {"step", "eval"}; /* the others take whole batches */
    struct pair p = {.fe = fe, .module = module, .twice = twice, .done = MAP(fe->arena)};
    int64_t rows = 0; /* of a batch */
    for (size_t i = 0; i < module->slots.count && !rows; i++) {
        const struct ir_slot *s = &module->slots.items[i];
        if (s->role == IR_ROLE_INPUT && s->batch_dims) rows = s->type.dim[__builtin_ctz(s->batch_dims)];
    }
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        struct ir_func *f = ir_func_find(module, entries[i]);
        const struct ir_func *g = ir_func_find(twice, entries[i]);
        if (f && g) compare(&p, f, g, rows);
    }
}
