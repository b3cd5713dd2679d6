/* Interval arithmetic over a step. Bounds are widened by what rounding can add; a bound beyond what the dtype holds
 * becomes infinite, and a number too small to divide by becomes 0 (it may have been flushed). What has no rule may be
 * anything that its dtype holds. */
#include "codegen/late/late_bounds.h"
#include <math.h>
#include <stepc/step_abi.h>

enum { REFINE_DEPTH = 12, MOST_ROUNDS = 8, MOST_ELEMENTS = 1 << 16, MOST_F16 = 65504 };

static const double infinite = (double)INFINITY;

static struct cg_bounds anything(const struct ir_type *t)
{
    enum ir_dtype d = (enum ir_dtype)t->dtype;
    if (d == IR_TUPLE) return (struct cg_bounds){-infinite, infinite, true};
    return (struct cg_bounds){ir_dtype_least(d), ir_dtype_greatest(d), ir_dtype_is_float(d)};
}

/* The largest number of a float, with room for a rounding. */
static double most_of(enum ir_dtype d) { return d == IR_F64 ? 0x1p1000 : d == IR_F16 ? 0x1p15 : 0x1p126; }

bool cg_bounds_finite(const struct ir_type *t, struct cg_bounds b)
{
    double most = t->dtype == IR_F16 ? MOST_F16 : most_of((enum ir_dtype)t->dtype);
    return !b.nan && b.low >= -most && b.high <= most;
}

/* What kernels see. */
static struct cg_bounds bounded(const struct ir_type *t, double bound)
{
    double most = t->dtype == IR_F16 ? MOST_F16 : bound;
    return (struct cg_bounds){-most, most, false};
}

bool cg_is_number(enum ir_role role, const struct ir_type *t)
{
    enum ir_dtype d = (enum ir_dtype)t->dtype;
    return (role == IR_ROLE_STATE || role == IR_ROLE_OPT_STATE) && !t->rank && d != IR_BOOL && ir_dtype_least(d) < 0;
}

bool cg_is_watched(enum ir_role role, const struct ir_type *t)
{
    return ir_dtype_is_float((enum ir_dtype)t->dtype) && (role == IR_ROLE_PARAM || role == IR_ROLE_EMA || t->rank);
}

/* A result of arithmetic as its dtype holds it. */
static struct cg_bounds rounded(const struct ir_type *t, double low, double high, bool nan)
{
    enum ir_dtype d = (enum ir_dtype)t->dtype;
    if (!(low <= high)) return anything(t); /* one of them is NaN */
    if (!ir_dtype_is_float(d))
        return low < ir_dtype_least(d) || high > ir_dtype_greatest(d) ? anything(t) : (struct cg_bounds){low, high, 0};
    double part = d == IR_F64 ? 0x1p-40 : d == IR_F32 ? 0x1p-18 : 0x1p-6, most = most_of(d), least = 0x1p-100;
    low = fmin(low, most), high = fmax(high, -most); /* the other one becomes infinite */
    low -= fabs(low) * part, high += fabs(high) * part;
    if (d == IR_F16) least = 0x1p-12;
    if (low > 0 && low < least) low = 0;
    if (high < 0 && high > -least) high = 0;
    return (struct cg_bounds){low < -most ? -infinite : low, high > most ? infinite : high, nan};
}

static struct cg_bounds either(struct cg_bounds a, struct cg_bounds b)
{
    return (struct cg_bounds){fmin(a.low, b.low), fmax(a.high, b.high), a.nan || b.nan};
}

static struct cg_bounds intersected(struct cg_bounds a, struct cg_bounds b)
{
    return (struct cg_bounds){fmax(a.low, b.low), fmin(a.high, b.high), a.nan && b.nan};
}

static bool has_zero(struct cg_bounds b) { return b.low <= 0 && b.high >= 0; }
static bool has_infinity(struct cg_bounds b) { return isinf(b.low) || isinf(b.high); }

/* The least and greatest of four products or the like, of which 0 * infinity is 0: NaN is told apart. */
static struct cg_bounds corners(const struct ir_type *t, double (*f)(double, double), struct cg_bounds a,
                                struct cg_bounds b, bool nan)
{
    double low = infinite, high = -infinite;
    for (int i = 0; i < 4; i++) {
        double v = f(i & 1 ? a.high : a.low, i & 2 ? b.high : b.low);
        if (isnan(v)) v = 0;
        low = fmin(low, v), high = fmax(high, v);
    }
    return rounded(t, low, high, nan);
}

static double times(double x, double y) { return x * y; }
static double over(double x, double y) { return x / y; }

static struct cg_bounds product(const struct ir_type *t, struct cg_bounds a, struct cg_bounds b)
{
    bool nan = a.nan || b.nan || (has_zero(a) && has_infinity(b)) || (has_zero(b) && has_infinity(a));
    return corners(t, times, a, b, nan);
}

static struct cg_bounds quotient_of(const struct ir_type *t, struct cg_bounds a, struct cg_bounds b)
{
    if (!ir_dtype_is_float((enum ir_dtype)t->dtype)) return anything(t);
    if (has_zero(b)) return anything(t);
    return corners(t, over, a, b, a.nan || b.nan || (has_infinity(a) && has_infinity(b)));
}

/* x * y where y is x, or x times what is not negative, in any order. */
static bool is_square(const struct cg_evaluation *e, ir_value x, ir_value y)
{
    if (x == y) return true;
    const struct ir_node *n = ir_get(e->f, y);
    if (n->op != OP_mul) return false;
    return (n->args[0] == x && e->of[n->args[1]].low >= 0) || (n->args[1] == x && e->of[n->args[0]].low >= 0);
}

static struct cg_bounds multiplied(const struct cg_evaluation *e, const struct ir_node *n, struct cg_bounds x,
                                   struct cg_bounds y)
{
    const struct ir_type *t = &n->type;
    struct cg_bounds out = product(t, x, y);
    if (!ir_dtype_is_float((enum ir_dtype)t->dtype)) return out;
    if (n->args[0] == n->args[1]) out.nan = x.nan;
    if (cg_bounds_finite(t, x) && cg_bounds_finite(t, y) && !cg_bounds_finite(t, out)) {
        double most = fmin(cg_order_product(e, n->args[0], n->args[1]), cg_order_product(e, n->args[1], n->args[0]));
        if (most < infinite) out = intersected(out, rounded(t, -most, most, false));
    }
    if (is_square(e, n->args[0], n->args[1]) || is_square(e, n->args[1], n->args[0])) out.low = fmax(out.low, 0);
    return out;
}

/* Divided by what is not negative, x may not be far above it. By 0 only 0 is divided then, which makes NaN. */
static struct cg_bounds divided(const struct cg_evaluation *e, const struct ir_node *n, struct cg_bounds x,
                                struct cg_bounds y)
{
    const struct ir_type *t = &n->type;
    struct cg_bounds out = quotient_of(t, x, y);
    if (!ir_dtype_is_float((enum ir_dtype)t->dtype)) return out;
    double part = cg_order_exponent(e, n->args[0], n->args[1]);
    if (part > 0 && part < 1 && x.low >= 0)
        return rounded(t, pow(x.low, 1 - part), pow(x.high, 1 - part), x.nan || x.low == 0 || x.high == infinite);
    bool small = !out.nan && out.low > -STEPC_BOUND && out.high < STEPC_BOUND;
    if (small || y.low < 0 || x.nan || y.nan || has_infinity(x) || y.high == infinite) return out;
    double most = cg_order_quotient(e, n->args[0], n->args[1], y.low);
    if (most == infinite) return out;
    struct cg_bounds bounds = rounded(t, x.low >= 0 ? 0 : -most, most, y.low == 0);
    return y.low > 0 ? intersected(out, bounds) : bounds;
}

static struct cg_bounds sum(const struct ir_type *t, struct cg_bounds a, struct cg_bounds b)
{
    bool nan = a.nan || b.nan || (a.high == infinite && b.low == -infinite) ||
               (a.low == -infinite && b.high == infinite);
    double low = a.low + b.low, high = a.high + b.high;
    return rounded(t, isnan(low) ? -infinite : low, isnan(high) ? infinite : high, nan);
}

/* x ** y for x not below 0, where it grows or shrinks in both; for y = 2 and the like through the square. */
static struct cg_bounds power(const struct ir_type *t, struct cg_bounds x, struct cg_bounds y)
{
    bool integral = y.low == y.high && y.low == floor(y.low);
    if (!ir_dtype_is_float((enum ir_dtype)t->dtype) || y.nan || has_infinity(y) || (x.low <= 0 && y.low < 0))
        return anything(t);
    if (x.low >= 0) return corners(t, pow, x, y, x.nan);
    if (!integral || y.low > 64) return anything(t);
    double most = fmax(fabs(x.low), fabs(x.high));
    return rounded(t, fmod(y.low, 2) != 0 ? -pow(most, y.low) : 0, pow(most, y.low), x.nan);
}

/* One that grows with its operand; the function of NaN is NaN. */
static struct cg_bounds growing(const struct ir_type *t, double (*f)(double), struct cg_bounds x, double domain)
{
    if (x.low < domain) return (struct cg_bounds){-infinite, infinite, true};
    return rounded(t, f(x.low), f(x.high), x.nan);
}

static struct cg_bounds constant(const struct ir_node *n)
{
    int64_t count = n->splat ? 1 : ir_type_elements(&n->type);
    struct cg_bounds b = {infinite, -infinite, false};
    if (!count || count > MOST_ELEMENTS) return anything(&n->type);
    for (int64_t i = 0; i < count; i++) {
        double v = ir_element_get((enum ir_dtype)n->type.dtype, n->data, (size_t)i);
        b = either(b, (struct cg_bounds){v, v, isnan(v)});
    }
    return b;
}

static struct cg_bounds cast(const struct ir_type *to, struct cg_bounds x)
{
    enum ir_dtype d = (enum ir_dtype)to->dtype;
    if (ir_dtype_is_float(d)) return rounded(to, x.low, x.high, x.nan);
    if (d == IR_BOOL || x.nan || x.low <= ir_dtype_least(d) || x.high >= ir_dtype_greatest(d)) return anything(to);
    return rounded(to, trunc(x.low), trunc(x.high), false);
}

/* ---------------------------------------------------------------- values */

static struct cg_bounds rule(struct cg_evaluation *e, ir_value v, int depth);

static bool passes_on(const struct ir_node *n)
{
    return n->op == OP_broadcast || n->op == OP_reshape || n->op == OP_transpose || n->op == OP_slice ||
           n->op == OP_reverse || n->op == OP_dynamic_slice || n->op == OP_take || n->op == OP_all_gather ||
           n->op == OP_all_to_all || n->op == OP_permute;
}

/* What every element of `v` is, if it is one number. */
static ir_value number_of(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_broadcast && ir_type(f, ir_get(f, v)->args[0])->rank == 0) v = ir_get(f, v)->args[0];
    return v;
}

/* Of a value; in a branch, made anew of what is known there. */
static struct cg_bounds look(struct cg_evaluation *e, ir_value v, int depth)
{
    if (!e->refined || !depth) return e->of[v];
    if (v == e->refined) return e->known;
    const struct ir_node *n = ir_get(e->f, v);
    bool number = ir_type(e->f, e->refined)->rank == 0; /* else only at the same index */
    if (!ir_is_ewise((enum ir_op)n->op) && !(number && n->op == OP_broadcast)) return e->of[v];
    if (e->there_turn[v] != e->turn) {
        e->there[v] = intersected(rule(e, v, depth - 1), e->of[v]);
        e->there_turn[v] = e->turn;
    }
    return e->there[v];
}

/* A branch of which nothing is known yet, where `x` is known to lie between the two and not to be NaN. */
static struct cg_bounds branch_where(struct cg_evaluation *e, ir_value branch, ir_value x, double low, double high)
{
    const struct ir_type *t = ir_type(e->f, branch);
    struct cg_bounds out = e->of[branch];
    bool is_float = ir_dtype_is_float((enum ir_dtype)t->dtype), number = is_float && t->rank == 0;
    bool known = !number && (is_float ? cg_bounds_finite(t, out) : out.low > anything(t).low);
    x = number_of(e->f, x);
    if (known || !x || ir_get(e->f, x)->op == OP_constant) return out;
    e->known = (struct cg_bounds){fmax(e->of[x].low, low), fmin(e->of[x].high, high), false};
    if (!(e->known.low <= e->known.high)) return out; /* it is never taken */
    e->refined = x;
    e->turn++;
    out = look(e, branch, REFINE_DEPTH);
    e->refined = 0;
    return out;
}

/* A value of the caller where it is given to the function; 0: nowhere. */
static ir_value given(const struct cg_evaluation *e, ir_value outer)
{
    for (uint32_t i = 0; i < e->call->arg_count; i++)
        if (number_of(e->caller->f, e->call->args[i]) == outer) return e->f->params.items[i].value;
    return 0;
}

/* A branch of a select, and what it is while more is learnt of its condition. */
struct branch {
    struct cg_evaluation *e;
    const struct cg_evaluation *from; /* where the condition is made: e, or who calls it */
    ir_value value;
    struct cg_bounds bounds;
};

static void where(struct branch *b, ir_value x, double low, double high)
{
    if (b->from != b->e) x = given(b->e, number_of(b->from->f, x));
    b->bounds = intersected(b->bounds, branch_where(b->e, b->value, x, low, high));
}

/* Above `low`; of floats the least that it may be then. */
static double next_above(const struct cg_evaluation *e, ir_value x, double low, bool equal)
{
    if (!ir_dtype_is_float((enum ir_dtype)ir_type(e->f, x)->dtype)) return equal ? low : low + 1;
    return equal || low != 0 ? low : cg_order_least(e, x);
}

/* x < y, or x <= y. */
static void where_below(struct branch *b, ir_value x, ir_value y, bool equal)
{
    struct cg_bounds low = b->from->of[x], high = b->from->of[y];
    bool integer = !ir_dtype_is_float((enum ir_dtype)ir_type(b->from->f, x)->dtype);
    where(b, x, -infinite, high.high - (integer && !equal));
    where(b, y, next_above(b->from, y, low.low, equal), infinite);
}

/* What a comparison that came out so says; with NaN it comes out false, and unequal. */
static void where_so(struct branch *b, ir_value condition, bool so, int depth)
{
    condition = number_of(b->from->f, condition);
    const struct ir_node *n = ir_get(b->from->f, condition);
    const struct cg_bounds *of = b->from->of;
    if (n->op == OP_not && depth) where_so(b, n->args[0], !so, depth - 1);
    if (n->op == (so ? OP_and : OP_or) && n->type.dtype == IR_BOOL && depth)
        for (int i = 0; i < 2; i++) where_so(b, n->args[i], so, depth - 1);
    else if ((n->op == OP_and || n->op == OP_or) && n->type.dtype == IR_BOOL && depth)
        for (int i = 0; i < 2; i++) /* one of them decides, if the other one cannot */
            if (so ? of[n->args[1 - i]].high == 0 : of[n->args[1 - i]].low == 1) where_so(b, n->args[i], so, depth - 1);
    if (n->arg_count != 2) return;
    ir_value x = n->args[0], y = n->args[1];
    bool ordered = !of[x].nan && !of[y].nan, less = n->op == OP_lt || n->op == OP_le;
    bool equal = (n->op == OP_eq && so) || (n->op == OP_ne && !so), other = n->op == OP_eq || n->op == OP_ne;
    if (less && so) where_below(b, x, y, n->op == OP_le);
    else if (less && ordered) where_below(b, y, x, n->op == OP_lt);
    else if (equal) where(b, x, of[y].low, of[y].high), where(b, y, of[x].low, of[x].high);
    else if (other && ordered && of[y].low == 0 && of[y].high == 0 && of[x].low == 0)
        where(b, x, next_above(b->from, x, 0, false), infinite);
}

/* p ? x : y. Each branch is computed where p came out so. */
static struct cg_bounds selected(struct cg_evaluation *e, const struct ir_node *n, struct cg_bounds yes,
                                 struct cg_bounds no)
{
    const struct cg_evaluation *from = e; /* where it compares */
    ir_value c = number_of(e->f, n->args[0]);
    if (e->caller && ir_get(e->f, c)->op == OP_param) {
        from = e->caller;
        c = e->call->args[ir_get(e->f, c)->attr[0].v[0]];
    }
    if (e->refined) return either(yes, no);
    struct branch then = {e, from, n->args[1], yes}, otherwise = {e, from, n->args[2], no};
    where_so(&then, c, true, REFINE_DEPTH);
    where_so(&otherwise, c, false, REFINE_DEPTH);
    return either(then.bounds, otherwise.bounds);
}

/* How many elements, or devices, are added up for one of the result. */
static double addends(const struct cg_evaluation *e, const struct ir_node *n)
{
    const struct ir_type *x = ir_type(e->f, n->args[0]);
    double count = 1;
    if (n->op == OP_dot)
        for (uint32_t i = 0; i < n->attr[2].n; i++) count *= (double)x->dim[n->attr[2].v[i]];
    else if (n->op == OP_reduce_sum)
        for (uint32_t i = 0; i < n->attr[0].n; i++) count *= (double)x->dim[n->attr[0].v[i]];
    else
        for (uint32_t i = 0; i < e->f->module->mesh.axis_count; i++) count *= (double)e->f->module->mesh.size[i];
    return count < 1 ? 1 : count;
}

static struct cg_bounds added_up(const struct ir_type *t, struct cg_bounds x, double count)
{
    struct cg_bounds n = {1, count, false};
    if (x.high <= 0) n.low = 1;
    struct cg_bounds out = product(t, x, n);
    out.nan = x.nan || (x.low == -infinite && x.high == infinite);
    double part = 1 + count * (t->dtype == IR_F64 ? 0x1p-40 : 0x1p-6) / 64; /* rounded after every addition */
    return rounded(t, fmin(out.low * part, x.low < 0 ? out.low : 0), fmax(out.high * part, 0), out.nan);
}

static double least_of(uint8_t least) { return least == CG_APART ? 1 / STEPC_BOUND : 0; }

static struct cg_bounds of_slot(const struct cg_evaluation *e, int32_t slot)
{
    const struct ir_slot *s = &e->f->module->slots.items[slot];
    struct cg_bounds any = anything(&s->type);
    uint8_t expected = e->known_before->expected[slot], least = e->known_before->least[slot];
    if (cg_is_number((enum ir_role)s->role, &s->type) && expected) {
        any = (struct cg_bounds){least || any.low > -infinite ? 0 : -STEPC_BOUND, STEPC_BOUND, false};
        if (expected == CG_EXPECTED_APART) any.low = 1 / STEPC_BOUND;
        return any;
    }
    if (s->role == IR_ROLE_HYPER && expected)
        return (struct cg_bounds){fmin(s->initial, (float)s->initial), fmax(s->initial, (float)s->initial), false};
    if (s->role == IR_ROLE_INPUT && !expected) return any;
    if (s->role == IR_ROLE_HYPER) return (struct cg_bounds){-STEPC_BOUND_HYPER, STEPC_BOUND_HYPER, false};
    if (s->role == IR_ROLE_INPUT || cg_is_watched(s->role, &s->type)) any = bounded(&s->type, e->known_before->bound);
    if (least) any.low = fmax(any.low, least_of(least));
    return any;
}

static void branches(struct cg_evaluation *e)
{
    e->there = arena_new_array(e->arena, struct cg_bounds, e->f->count + 1);
    e->there_turn = arena_new_array(e->arena, uint32_t, e->f->count + 1);
}

static void called(struct cg_evaluation *e, ir_value v)
{
    const struct ir_node *n = ir_get(e->f, v);
    const struct ir_func *body = e->f->module->funcs.items[n->func];
    struct cg_bounds *operands = arena_new_array(e->arena, struct cg_bounds, n->arg_count + 1);
    for (uint32_t i = 0; i < n->arg_count; i++) operands[i] = e->of[n->args[i]];
    struct cg_evaluation *inner = e->inner[v] = arena_new(e->arena, struct cg_evaluation);
    *inner = (struct cg_evaluation){.f = body,
                                    .of = arena_new_array(e->arena, struct cg_bounds, body->count + 1),
                                    .inner = arena_new_array(e->arena, struct cg_evaluation *, body->count + 1),
                                    .operands = operands,
                                    .caller = e,
                                    .call = n,
                                    .arena = e->arena};
    branches(inner);
    for (ir_value u = 1; u < body->count; u++) inner->of[u] = rule(inner, u, 0);
}

/* w + c * (v - w) between the two is not negative if they are not, but for what rounding adds. */
static bool is_between(const struct cg_evaluation *e, ir_value w, ir_value step)
{
    const struct ir_node *n = ir_get(e->f, step), *from = n->op == OP_mul ? ir_get(e->f, n->args[1]) : n;
    if (n->op != OP_mul || from->op != OP_sub || from->args[1] != w) return false;
    struct cg_bounds c = e->of[n->args[0]];
    return c.low >= 0 && c.high <= 1 - 0x1p-12 && (n->type.dtype == IR_F32 || n->type.dtype == IR_F64) &&
           e->of[from->args[0]].low >= 0;
}

static struct cg_bounds rule(struct cg_evaluation *e, ir_value v, int depth)
{
    const struct ir_node *n = ir_get(e->f, v);
    const struct ir_type *t = &n->type;
    struct cg_bounds x = n->arg_count > 0 ? look(e, n->args[0], depth) : (struct cg_bounds){0};
    struct cg_bounds y = n->arg_count > 1 ? look(e, n->args[1], depth) : x;
    if (passes_on(n)) return x;
    switch ((enum ir_op)n->op) {
    case OP_constant: return constant(n);
    case OP_iota: return (struct cg_bounds){0, (double)t->dim[n->attr[0].v[0]], false};
    case OP_param:
        return e->operands ? e->operands[n->attr[0].v[0]] : of_slot(e, e->f->params.items[n->attr[0].v[0]].slot);
    case OP_proj: {
        const struct cg_evaluation *inner = e->inner[n->args[0]];
        return inner ? inner->of[inner->f->results.items[n->attr[0].v[0]].value] : anything(t);
    }
    case OP_neg: return rounded(t, -x.high, -x.low, x.nan);
    case OP_abs: {
        double least = has_zero(x) ? 0 : fmin(fabs(x.low), fabs(x.high));
        double most = fmax(fabs(x.low), fabs(x.high));
        return ir_dtype_is_float((enum ir_dtype)t->dtype) ? (struct cg_bounds){least, most, x.nan}
                                                          : rounded(t, least, most, x.nan);
    }
    case OP_sign: return (struct cg_bounds){x.low < 0 ? -1 : 0, x.high > 0 ? 1 : 0, x.nan};
    case OP_add: {
        struct cg_bounds out = sum(t, x, y);
        bool between = (x.low >= 0 && is_between(e, n->args[0], n->args[1])) ||
                       (y.low >= 0 && is_between(e, n->args[1], n->args[0]));
        if (between && !out.nan) out.low = fmax(out.low, 0);
        return out;
    }
    case OP_sub: {
        struct cg_bounds out = sum(t, x, (struct cg_bounds){-y.high, -y.low, y.nan});
        if (ir_dtype_is_float((enum ir_dtype)t->dtype) && x.low >= 0 && out.low < 0 && !out.nan &&
            cg_order_above(e, n->args[0], n->args[1]))
            out.low = 0;
        return out;
    }
    case OP_mul: return multiplied(e, n, x, y);
    case OP_div: return divided(e, n, x, y);
    case OP_pow: return power(t, x, y);
    case OP_not: return t->dtype == IR_BOOL ? (struct cg_bounds){1 - x.high, 1 - x.low, false} : anything(t);
    case OP_ne: /* with itself: whether it is NaN */
        return n->args[0] == n->args[1] && !x.nan ? (struct cg_bounds){0, 0, false} : anything(t);
    case OP_max: return (struct cg_bounds){fmax(x.low, y.low), fmax(x.high, y.high), x.nan || y.nan};
    case OP_min: return (struct cg_bounds){fmin(x.low, y.low), fmin(x.high, y.high), x.nan || y.nan};
    case OP_sqrt: return growing(t, sqrt, x, 0);
    case OP_rsqrt: return quotient_of(t, (struct cg_bounds){1, 1, false}, growing(t, sqrt, x, 0));
    case OP_exp: return growing(t, exp, x, -infinite);
    case OP_expm1: return growing(t, expm1, x, -infinite);
    case OP_log: return growing(t, log, x, 0x1p-100);
    case OP_log1p: return growing(t, log1p, x, -0.5);
    case OP_tanh:
    case OP_erf: return (struct cg_bounds){-1.01, 1.01, x.nan};
    case OP_sin:
    case OP_cos: return (struct cg_bounds){-1.01, 1.01, x.nan || has_infinity(x)};
    case OP_logistic: return (struct cg_bounds){0, 1.01, x.nan};
    case OP_floor: return rounded(t, floor(x.low), floor(x.high), x.nan);
    case OP_ceil: return rounded(t, ceil(x.low), ceil(x.high), x.nan);
    case OP_round: return rounded(t, floor(x.low), ceil(x.high), x.nan);
    case OP_cast: return cast(t, x);
    case OP_select: return selected(e, n, y, look(e, n->args[2], depth));
    case OP_pad:
    case OP_dynamic_update: return either(x, y);
    case OP_concat: {
        struct cg_bounds out = x;
        for (uint32_t i = 1; i < n->arg_count; i++) out = either(out, look(e, n->args[i], depth));
        return out;
    }
    case OP_reduce_max:
    case OP_reduce_min: return ir_type_elements(ir_type(e->f, n->args[0])) ? x : anything(t);
    case OP_dot: return added_up(t, product(t, x, y), addends(e, n));
    case OP_reduce_sum:
    case OP_reduce_scatter: return added_up(t, x, addends(e, n));
    case OP_all_reduce: return n->attr[1].v[0] ? x : added_up(t, x, addends(e, n));
    default: return anything(t);
    }
}

/* ---------------------------------------------------------------- a step */

static void evaluate(struct cg_evaluation *e)
{
    const struct cg_known *known = e->known_before;
    for (ir_value v = 1; v < e->f->count; v++) {
        if (ir_get(e->f, v)->op == OP_call) called(e, v);
        else e->of[v] = rule(e, v, 0);
        if (known->seen[v]) e->of[v] = intersected(e->of[v], bounded(ir_type(e->f, v), known->bound));
    }
}

struct cg_bounds *cg_bounds_find(const struct ir_func *step, const struct cg_known *known, struct arena *arena)
{
    struct cg_evaluation e = {.f = step,
                              .of = arena_new_array(arena, struct cg_bounds, step->count + 1),
                              .inner = arena_new_array(arena, struct cg_evaluation *, step->count + 1),
                              .known_before = known,
                              .arena = arena};
    branches(&e);
    for (uint32_t round = 0;; round++) { /* until what is assumed of the state before a step holds after it */
        bool holds = true;
        evaluate(&e);
        for (size_t i = 0; i < step->results.count; i++) {
            uint8_t *least = &known->least[step->results.items[i].slot];
            double low = e.of[step->results.items[i].value].low;
            for (; *least && (low < least_of(*least) || round >= MOST_ROUNDS); --*least) holds = false;
        }
        if (holds) return e.of;
    }
}
