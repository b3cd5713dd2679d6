/* Which of two values is the larger, where intervals do not tell: no element is above the norm of its tensor, nor a
 * summand above a sum of what is not negative, nor an operand above a maximum. Values are compared where they are made,
 * through calls. A number is compared with all elements of a tensor, tensors element by element. */
#include "codegen/late/late_bounds.h"
#include <math.h>

enum { MOST_VALUES = 512 };
/* What may have been lost where squares are too small for their dtype, and what an operation may round. */
static const double tiny = 0x1p-60, rounding = 1 + 0x1p-6, infinite = (double)INFINITY;

/* A value of a step, or of a function where it is called. */
struct place {
    const struct cg_evaluation *e;
    ir_value v;
};
/* `all`: a number with all elements. `exact`: what is found holds without `tiny`, so nothing is squared. */
struct comparison {
    bool all, exact;
    struct place below, above; /* what is known from the start */
    uint32_t left;             /* values that are still looked at */
};

static const struct ir_node *node(struct place p) { return ir_get(p.e->f, p.v); }
static struct cg_bounds bounds(struct place p) { return p.e->of[p.v]; }
static struct place operand(struct place p, uint32_t i) { return (struct place){p.e, node(p)->args[i]}; }
static bool same(struct place a, struct place b) { return a.e == b.e && a.v == b.v; }
static double magnitude(struct place p) { return fmax(fabs(bounds(p).low), fabs(bounds(p).high)); }
static uint32_t dtype(struct place p) { return node(p)->type.dtype; }

static bool rounds(struct place p) /* a float to another */
{
    uint32_t from = dtype(operand(p, 0));
    return ir_dtype_is_float((enum ir_dtype)from) && from != IR_F16 && dtype(p) != IR_F16;
}

/* Where it is made, up to its sign; of all elements also before they were moved. */
static struct place made(struct place p, const struct comparison *c)
{
    for (;;) {
        const struct ir_node *n = node(p);
        const struct cg_evaluation *inner = n->op == OP_proj && p.e->inner ? p.e->inner[n->args[0]] : NULL;
        if (n->op == OP_param && p.e->caller) p = (struct place){p.e->caller, p.e->call->args[n->attr[0].v[0]]};
        else if (inner) p = (struct place){inner, inner->f->results.items[n->attr[0].v[0]].value};
        else if ((c->all && (n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_transpose)) ||
                 n->op == OP_abs || n->op == OP_neg || (n->op == OP_cast && !c->exact && rounds(p)))
            p = operand(p, 0);
        else return p;
    }
}

static double most(struct comparison *c, struct place x, struct place y, bool squared);

/* Of what y is made of, none of it negative: x is below one of them. */
static double below_part(struct comparison *c, struct place x, struct place y, bool squared)
{
    const struct ir_node *n = node(y);
    switch ((enum ir_op)n->op) {
    case OP_add:
    case OP_max:
        if (bounds(operand(y, 0)).low < 0 || bounds(operand(y, 1)).low < 0) return infinite;
        return fmin(most(c, x, operand(y, 0), squared), most(c, x, operand(y, 1), squared));
    case OP_sqrt: return squared || c->exact ? infinite : sqrt(most(c, x, operand(y, 0), true));
    case OP_mul:
        return squared && same(made(operand(y, 0), c), x) && same(made(operand(y, 1), c), x) ? rounding : infinite;
    case OP_reduce_sum: return c->all && bounds(operand(y, 0)).low >= 0 ? most(c, x, operand(y, 0), squared) : infinite;
    case OP_all_reduce:
        return c->all && !n->attr[1].v[0] && bounds(operand(y, 0)).low >= 0 ? most(c, x, operand(y, 0), squared)
                                                                            : infinite;
    default: return infinite;
    }
}

static double factor(struct place p, bool squared) { return squared ? magnitude(p) * magnitude(p) : magnitude(p); }

static double at_most(double a, double b) { return isnan(a * b) ? infinite : a * b * rounding; }

/* Of what x is made of. */
static double part_below(struct comparison *c, struct place x, struct place y, bool squared)
{
    switch ((enum ir_op)node(x)->op) {
    case OP_mul:
        return fmin(at_most(factor(operand(x, 0), squared), most(c, operand(x, 1), y, squared)),
                    at_most(factor(operand(x, 1), squared), most(c, operand(x, 0), y, squared)));
    case OP_select: return fmax(most(c, operand(x, 1), y, squared), most(c, operand(x, 2), y, squared));
    default: return infinite;
    }
}

/* The least k known with |x| <= k * (y + tiny), or x * x <= k * (y + tiny * tiny); infinite: none is. */
static double most(struct comparison *c, struct place x, struct place y, bool squared)
{
    x = made(x, c), y = made(y, c);
    if (!c->left || dtype(x) == IR_F16 || dtype(y) == IR_F16) return infinite;
    c->left--;
    if (!squared && same(x, y)) return 1;
    if (!squared && c->below.e && same(x, c->below) && same(y, c->above)) return 1;
    double k = below_part(c, x, y, squared);
    return k < infinite ? k : part_below(c, x, y, squared);
}

static struct comparison comparison(struct place y, bool exact)
{
    struct comparison c = {.all = true, .exact = exact, .left = MOST_VALUES};
    c.all = node(made(y, &c))->type.rank == 0;
    return c;
}

static const struct comparison of_all = {.all = true};

/* What is above 0 is a norm and not what stands for one that is 0. */
static struct place positive(struct place p)
{
    p = made(p, &of_all);
    while (node(p)->op == OP_select && node(p)->type.rank == 0) {
        bool first = bounds(operand(p, 1)).high > 0, second = bounds(operand(p, 2)).high > 0;
        if (first == second) break;
        p = made(operand(p, first ? 1 : 2), &of_all);
    }
    return p;
}

static double least_at(struct place p, uint32_t depth)
{
    const struct ir_node *n = node(p = positive(p));
    if (n->op == OP_sqrt && depth) return sqrt(least_at(operand(p, 0), depth - 1)) / rounding;
    return n->type.dtype == IR_F64 ? 0x1p-1022 : n->type.dtype == IR_F16 ? 0x1p-24 : 0x1p-126;
}

double cg_order_least(const struct cg_evaluation *e, ir_value v) { return least_at((struct place){e, v}, 4); }

/* |x| / y for y above 0. */
static double quotient(struct place x, struct place y, double least)
{
    struct place d = positive(y);
    if (node(d)->type.rank) d = y;
    struct comparison c = comparison(d, false);
    return at_most(most(&c, x, d, false), 1 + tiny / least);
}

double cg_order_quotient(const struct cg_evaluation *e, ir_value x, ir_value y, double least)
{
    if (least > 0) return quotient((struct place){e, x}, (struct place){e, y}, least);
    struct comparison c = comparison((struct place){e, y}, true);
    return most(&c, (struct place){e, x}, (struct place){e, y}, false);
}

/* |x * y| where y, which is finite, is a quotient by something that x is not above. */
static double scaled(struct place x, struct place y, uint32_t depth)
{
    y = made(y, &of_all);
    const struct ir_node *n = node(y);
    if (depth && n->op == OP_select)
        return fmax(scaled(x, operand(y, 1), depth - 1), scaled(x, operand(y, 2), depth - 1));
    if (depth && n->op == OP_mul)
        return fmin(at_most(magnitude(operand(y, 0)), scaled(x, operand(y, 1), depth - 1)),
                    at_most(magnitude(operand(y, 1)), scaled(x, operand(y, 0), depth - 1)));
    if (n->op == OP_div && n->type.rank == 0)
        return at_most(magnitude(operand(y, 0)), quotient(x, operand(y, 1), least_at(operand(y, 1), 4)));
    return at_most(magnitude(x), magnitude(y));
}

double cg_order_product(const struct cg_evaluation *e, ir_value x, ir_value y)
{
    return scaled((struct place){e, x}, (struct place){e, y}, 4);
}

static double exponent(const struct cg_evaluation *e, ir_value x, ir_value y, uint32_t depth)
{
    const struct ir_node *n = ir_get(e->f, y);
    if (n->op == OP_mul && depth) return exponent(e, x, n->args[0], depth - 1) + exponent(e, x, n->args[1], depth - 1);
    if (n->op != OP_pow || n->args[0] != x || n->type.dtype == IR_F16) return NAN;
    struct cg_bounds by = e->of[n->args[1]];
    return by.low == by.high && by.low > 0 ? by.low : NAN;
}

/* Products of powers by a number; between x and 1 none of them is too small or too large. */
double cg_order_exponent(const struct cg_evaluation *e, ir_value x, ir_value y) { return exponent(e, x, y, 2); }

/* (x - q) / c, where c is not below 1 and q not negative, in any order. */
static bool is_less(struct place x, struct place part, struct comparison *c)
{
    for (; node(part)->op == OP_div && bounds(operand(part, 1)).low >= 1; part = operand(part, 0)) continue;
    return node(part)->op == OP_sub && bounds(operand(part, 1)).low >= 0 && same(made(operand(part, 0), c), made(x, c));
}

/* Of x - y: y is a part of x, or of what is not above x where its sign is that of x - z. */
bool cg_order_above(const struct cg_evaluation *e, ir_value x, ir_value y)
{
    struct comparison c = {.exact = true, .left = MOST_VALUES};
    struct place part = {e, y}, at = part;
    if (is_less((struct place){e, x}, part, &c)) return true;
    for (int depth = 0; depth < 4 && node(at)->op == OP_mul; depth++) { /* c * sign * z, in any order */
        bool first = bounds(operand(at, 0)).low < 0, second = bounds(operand(at, 1)).low < 0;
        if (first == second) break; /* the others are not negative */
        at = operand(at, first ? 0 : 1);
        if (node(at)->op != OP_sign || node(operand(at, 0))->op != OP_sub) continue;
        at = operand(at, 0);
        if (bounds(operand(at, 0)).low < 0 || bounds(operand(at, 1)).low < 0) break;
        c.above = made(operand(at, 0), &c), c.below = made(operand(at, 1), &c);
        break;
    }
    return most(&c, part, (struct place){e, x}, false) <= 1;
}
