/* Line searches: how far to go along the updates, by probing the loss. A probe calls the value-and-gradient function of
 * the step in a loop. Formulas and their order are those of optax._src.linesearch. */
#include "frontend/optim/optim.h"
#include <math.h>

#define T(v) term_tensor(v)
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* The line x + a * u on which a search moves: what a probe needs, in the step. */
struct line {
    struct optim_transform *t;
    struct ir_func *f; /* (trained parameters.., captured..) -> (loss, gradients..) */
    const ir_value *captured;
    uint32_t captured_count;
    struct fe_term slope; /* <updates, gradient> */
};

static bool line_of(struct optim_transform *t, struct line *line)
{
    *line = (struct line){.t = t, .slope = optim_dot(t->b, t->count, t->u, t->o->grads)};
    line->f = t->o->value_and_grad(t->o, &line->captured, &line->captured_count);
    return line->f != NULL;
}

struct probe {
    struct fe_term value, slope;
    ir_value *grads;
};

/* Loss, slope and gradients at step size a, inside the loop's body. */
static struct probe probe_at(struct optim_loop *loop, const struct line *line, struct fe_term a)
{
    struct optim_transform *t = line->t;
    struct fe_optim_state *o = t->o;
    struct ir_builder *b = &loop->b;
    ir_value *args = arena_new_array(loop->arena, ir_value, o->count + line->captured_count + 1),
             *u = optim_new_tree(t);
    uint32_t n = 0, result = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        if (!o->grads[i]) continue; /* not trained: captured */
        struct fe_term p = T(optim_capture(loop, o->trained[i]));
        u[i] = optim_capture(loop, t->u[i]);
        args[n++] = u[i] ? term_cast_like(b, term_add(b, p, term_mul(b, a, T(u[i]))), p).v : p.v;
    }
    for (uint32_t i = 0; i < line->captured_count; i++) args[n++] = optim_capture(loop, line->captured[i]);
    ir_value tuple = ir_call(b, line->f, args, n);
    struct probe p = {.value = T(ir_proj(b, tuple, result++)), .grads = optim_new_tree(t)};
    for (uint32_t i = 0; i < o->count; i++)
        if (o->grads[i]) p.grads[i] = ir_proj(b, tuple, result++);
    p.slope = optim_dot(b, o->count, u, p.grads);
    return p;
}

static struct fe_term nan_to_infinity(struct ir_builder *b, struct fe_term x)
{
    return term_where(b, term_is_nan(b, x), term_number((double)INFINITY), x);
}
static struct fe_term is_infinite(struct ir_builder *b, struct fe_term x)
{
    return term_eq(b, term_abs(b, x), term_number((double)INFINITY));
}

/* Scales the updates by the step size found. */
static void scale_updates(struct optim_transform *t, struct fe_term rate)
{
    EACH_LEAF(t, i) t->u[i] = term_mul(t->b, rate, T(t->u[i])).v;
}

static const struct optim_start one = {.number = 1}, infinity = {.number = (double)INFINITY};

/* ---------------------------------------------------------------- backtracking */

/* Step sizes are numbers of the first parameter's dtype. */
static enum ir_dtype dtype_of_first(struct optim_transform *t)
{
    enum ir_dtype dtype = IR_F32;
    EACH_LEAF(t, i)
        if (optim_rank(t, i) == 0) dtype = (enum ir_dtype)t->o->params[i].type.dtype;
    return dtype;
}

void transform_scale_by_backtracking_linesearch(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    const struct ir_type scalar = ir_type_scalar(dtype_of_first(t));
    struct line line;
    if (!line_of(t, &line)) return;
    bool store = flag(t, "store_grad");
    struct fe_term rate = optim_state(t, "learning_rate", scalar, one), inf = term_number((double)INFINITY);
    (void)optim_state(t, "value", scalar, infinity);
    ir_value *grad = store ? optim_tree(t, "grad", IR_TUPLE, zero) : NULL;
    (void)counter(t, "info.num_linesearch_steps");
    (void)optim_state(t, "info.decrease_error", scalar, infinity);
    rate = term_min(b, term_mul(b, number(t, "increase_factor"), rate), number(t, "max_learning_rate"));

    enum { GO, RATE, VALUE, ERROR, ITERATION, GRADS };
    struct optim_loop loop = optim_loop(t, "backtracking");
    struct ir_builder *in = &loop.b;
    int64_t most = arg(t, "max_backtracking_steps")->integer;
    optim_carry(&loop, T(ir_scalar(b, IR_BOOL, 1)), IR_BOOL);
    optim_carry(&loop, rate, (enum ir_dtype)scalar.dtype);
    optim_carry(&loop, T(t->o->value), IR_F32);
    optim_carry(&loop, inf, IR_F32);
    optim_carry(&loop, term_integer(0), IR_I32);
    if (store)
        EACH_LEAF(t, i)
            optim_carry(&loop, T(ir_number_like(b, grad[i], 0)), (enum ir_dtype)ir_type(b->f, grad[i])->dtype);

    struct fe_term iteration = optim_now(&loop, ITERATION), a = optim_now(&loop, RATE), zero_number = term_integer(0);
    struct fe_term slope = optim_captured(&loop, line.slope), value = optim_captured(&loop, T(t->o->value)),
                   atol = optim_captured(&loop, number(t, "atol"));
    a = term_where(in, term_lt(in, zero_number, iteration),
                   term_mul(in, optim_captured(&loop, number(t, "decrease_factor")), a), a);
    struct probe p = probe_at(&loop, &line, a);
    struct fe_term limit = term_mul(in, term_add(in, term_number(1), optim_captured(&loop, number(t, "rtol"))), value);
    struct fe_term error = term_sub(
        in, term_sub(in, p.value, limit),
        term_mul(in, term_mul(in, a, optim_captured(&loop, number(t, "slope_rtol"))), slope));
    error = term_max(in, nan_to_infinity(in, error), term_number(0));
    struct fe_term fine = term_le(in, error, atol), last = term_le(in, term_integer(most), iteration);
    struct fe_term go = term_and(in, term_not(in, fine), term_not(in, last));
    ir_value *next = arena_new_array(t->fe->arena, ir_value, GRADS + t->count + 1);
    uint32_t n = GRADS;
    next[GO] = go.v, next[RATE] = a.v, next[VALUE] = p.value.v, next[ERROR] = error.v;
    next[ITERATION] = term_add(in, iteration, term_integer(1)).v;
    if (store)
        EACH_LEAF(t, i) {
            next[n] = term_where(in, go, optim_now(&loop, n), T(p.grads[i])).v;
            n++;
        }
    const ir_value *end = optim_loop_end(&loop, term_integer(most + 1), next);

    struct fe_term found = term_where(b, is_infinite(b, T(end[ERROR])), term_number(0), T(end[RATE]));
    optim_state_set(t, "learning_rate", found);
    optim_state_set(t, "value", T(end[VALUE]));
    optim_state_set(t, "info.num_linesearch_steps", T(end[ITERATION]));
    optim_state_set(t, "info.decrease_error", T(end[ERROR]));
    n = GRADS;
    if (store) {
        EACH_LEAF(t, i) grad[i] = end[n++];
        optim_tree_set(t, "grad", grad);
    }
    scale_updates(t, found);
}

/* ---------------------------------------------------------------- zoom */

/* What the search carries, after the flag that it goes on. The gradients at `stepsize` and at `safe` follow. */
enum {
    Z_GO,
    Z_COUNT,
    Z_STEPSIZE,
    Z_VALUE,
    Z_SLOPE,
    Z_DECREASE,
    Z_CURVATURE,
    Z_FOUND /* an interval */,
    Z_LOW,
    Z_VALUE_LOW,
    Z_SLOPE_LOW,
    Z_HIGH,
    Z_VALUE_HIGH,
    Z_SLOPE_HIGH,
    Z_REF,
    Z_VALUE_REF,
    Z_SAFE,
    Z_VALUE_SAFE,
    Z_TREES
};

/* Arguments of the search and the start of the line, inside the body. */
struct zoom {
    struct ir_builder *b;
    struct fe_term tol, increase, slope_rtol, curv_rtol, approx_rtol, precision, max_rate, guess, value_init,
        slope_init, s[Z_TREES];
    int64_t most;
    bool approximate, limited;
};

static struct fe_term decrease_error(const struct zoom *z, struct fe_term a, struct fe_term value, struct fe_term slope)
{
    struct ir_builder *b = z->b;
    struct fe_term error = term_sub(b, term_sub(b, value, z->value_init),
                                    term_mul(b, term_mul(b, z->slope_rtol, a), z->slope_init));
    if (z->approximate) {
        struct fe_term factor = term_sub(b, term_mul(b, term_integer(2), z->slope_rtol), term_number(1));
        struct fe_term near = term_sub(b, slope, term_mul(b, factor, z->slope_init));
        struct fe_term delta = term_sub(b, term_sub(b, value, z->value_init),
                                        term_mul(b, z->approx_rtol, term_abs(b, z->value_init)));
        error = term_min(b, term_max(b, near, delta), error);
    }
    return nan_to_infinity(b, term_max(b, error, term_number(0)));
}

static struct fe_term curvature_error(const struct zoom *z, struct fe_term slope)
{
    struct ir_builder *b = z->b;
    struct fe_term error = term_sub(b, term_abs(b, slope), term_mul(b, z->curv_rtol, term_abs(b, z->slope_init)));
    return nan_to_infinity(b, term_max(b, error, term_number(0)));
}

static struct fe_term positive(const struct zoom *z, struct fe_term x) { return term_lt(z->b, term_number(0), x); }
static struct fe_term not_negative(const struct zoom *z, struct fe_term x) { return term_le(z->b, term_number(0), x); }

/* The minimiser of the cubic through (a, fa) with slope fpa, (b, fb) and (c, fc). */
static struct fe_term cubic_minimum(struct ir_builder *e, struct fe_term a, struct fe_term fa, struct fe_term fpa,
                                    struct fe_term b, struct fe_term fb, struct fe_term c, struct fe_term fc)
{
    struct fe_term db = term_sub(e, b, a), dc = term_sub(e, c, a), two = term_integer(2), three = term_integer(3);
    struct fe_term denominator = term_mul(e, term_pow(e, term_mul(e, db, dc), two), term_sub(e, db, dc));
    struct fe_term rb = term_sub(e, term_sub(e, fb, fa), term_mul(e, fpa, db)),
                   rc = term_sub(e, term_sub(e, fc, fa), term_mul(e, fpa, dc));
    struct fe_term A = term_sub(e, term_mul(e, term_pow(e, dc, two), rb), term_mul(e, term_pow(e, db, two), rc));
    struct fe_term B = term_sub(e, term_mul(e, term_pow(e, db, three), rc), term_mul(e, term_pow(e, dc, three), rb));
    A = term_div(e, A, denominator), B = term_div(e, B, denominator);
    struct fe_term radical = term_sub(e, term_mul(e, B, B), term_mul(e, term_mul(e, term_number(3), A), fpa));
    return term_add(e, a, term_div(e, term_sub(e, term_sqrt(e, radical), B), term_mul(e, term_number(3), A)));
}

/* The minimiser of the parabola through (a, fa) with slope fpa and (b, fb). */
static struct fe_term quadratic_minimum(struct ir_builder *e, struct fe_term a, struct fe_term fa, struct fe_term fpa,
                                        struct fe_term b, struct fe_term fb)
{
    struct fe_term db = term_sub(e, b, a),
                   B = term_div(e, term_sub(e, term_sub(e, fb, fa), term_mul(e, fpa, db)), term_mul(e, db, db));
    return term_sub(e, a, term_div(e, fpa, term_mul(e, term_number(2), B)));
}

static struct fe_term inside(struct ir_builder *b, struct fe_term x, struct fe_term left, struct fe_term right,
                             struct fe_term margin)
{
    return term_and(b, term_lt(b, term_add(b, left, margin), x), term_lt(b, x, term_sub(b, right, margin)));
}

/* Where to probe inside the interval: the cubic's minimum, else the parabola's, else the middle. */
static struct fe_term candidate(const struct zoom *z, struct fe_term delta)
{
    struct ir_builder *b = z->b;
    const struct fe_term *s = z->s;
    struct fe_term left = term_min(b, s[Z_HIGH], s[Z_LOW]), right = term_max(b, s[Z_HIGH], s[Z_LOW]);
    struct fe_term cubic = cubic_minimum(b, s[Z_LOW], s[Z_VALUE_LOW], s[Z_SLOPE_LOW], s[Z_HIGH], s[Z_VALUE_HIGH],
                                         s[Z_REF], s[Z_VALUE_REF]);
    struct fe_term quad = quadratic_minimum(b, s[Z_LOW], s[Z_VALUE_LOW], s[Z_SLOPE_LOW], s[Z_HIGH], s[Z_VALUE_HIGH]);
    struct fe_term middle = term_div(b, term_add(b, s[Z_LOW], s[Z_HIGH]), term_number(2));
    struct fe_term by_quad = term_where(b, inside(b, quad, left, right, term_mul(b, term_number(0.1), delta)), quad,
                                        middle);
    return term_where(b, inside(b, cubic, left, right, term_mul(b, term_number(0.2), delta)), cubic, by_quad);
}

/* One of the two phases: the new scalars and whether the search is done or has failed. */
struct outcome {
    struct fe_term s[Z_TREES], done, failed, safe;
};

/* Chooses three values at once. */
static void choose(const struct zoom *z, struct fe_term condition, struct fe_term *to, const struct fe_term *yes,
                   const struct fe_term *no, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) to[i] = term_where(z->b, condition, yes[i], no[i]);
}

/* Phase 1: grow the step until an interval holds a good one. */
static struct outcome search_interval(const struct zoom *z, struct fe_term a, struct fe_term value,
                                      struct fe_term slope, struct fe_term decrease, struct fe_term error,
                                      struct fe_term max_reached, struct fe_term last)
{
    struct ir_builder *b = z->b;
    const struct fe_term *s = z->s;
    struct outcome o;
    struct fe_term no_first = term_lt(b, term_integer(0), s[Z_COUNT]);
    struct fe_term high = term_or(b, positive(z, decrease), term_and(b, term_le(b, s[Z_VALUE], value), no_first));
    struct fe_term low = term_and(b, not_negative(z, slope), term_not(b, high)), good = term_le(b, error, z->tol);
    const struct fe_term new[3] = {a, value, slope}, old[3] = {s[Z_STEPSIZE], s[Z_VALUE], s[Z_SLOPE]};
    choose(z, low, &o.s[Z_LOW], new, old, 3);
    choose(z, low, &o.s[Z_HIGH], old, new, 3);
    o.s[Z_REF] = o.s[Z_LOW], o.s[Z_VALUE_REF] = o.s[Z_VALUE_LOW];
    o.s[Z_FOUND] = term_or(b, term_or(b, high, low), good);
    o.done = term_or(b, good, term_and(b, max_reached, term_not(b, o.s[Z_FOUND])));
    o.failed = term_and(b, last, term_not(b, o.done));
    o.safe = term_le(b, decrease, z->tol);
    return o;
}

/* Phase 2: shrink the interval around the step. */
static struct outcome zoom_in(const struct zoom *z, struct fe_term a, struct fe_term value, struct fe_term slope,
                              struct fe_term decrease, struct fe_term error, struct fe_term delta, struct fe_term last)
{
    struct ir_builder *b = z->b;
    const struct fe_term *s = z->s;
    struct outcome o;
    o.safe = term_and(b, term_le(b, decrease, z->tol), term_lt(b, value, s[Z_VALUE_SAFE]));
    o.done = term_le(b, error, z->tol);
    struct fe_term high_to_middle = term_or(b, positive(z, decrease), term_le(b, s[Z_VALUE_LOW], value));
    struct fe_term secant = term_mul(b, slope, term_sub(b, s[Z_HIGH], s[Z_LOW]));
    struct fe_term high_to_low = term_and(b, not_negative(z, secant), term_not(b, high_to_middle));
    const struct fe_term new[3] = {a, value, slope};
    struct fe_term moved[3];
    choose(z, high_to_middle, moved, new, &s[Z_HIGH], 3);
    choose(z, high_to_low, &o.s[Z_HIGH], &s[Z_LOW], moved, 3);
    choose(z, high_to_middle, &o.s[Z_LOW], &s[Z_LOW], new, 3);
    choose(z, term_or(b, high_to_middle, high_to_low), &o.s[Z_REF], &s[Z_HIGH], &s[Z_LOW], 2);
    o.s[Z_FOUND] = s[Z_FOUND];
    struct fe_term safe = term_where(b, o.safe, a, s[Z_SAFE]);
    struct fe_term too_small = term_and(b, term_le(b, delta, z->precision), positive(z, safe));
    o.failed = term_and(b, term_or(b, last, too_small), term_not(b, o.done));
    return o;
}

static struct zoom zoom_of(struct optim_transform *t, struct optim_loop *loop, const struct line *line)
{
    struct zoom z = {.b = &loop->b, .most = arg(t, "max_linesearch_steps")->integer};
    z.tol = optim_captured(loop, number(t, "tol"));
    z.increase = optim_captured(loop, number(t, "increase_factor"));
    z.slope_rtol = optim_captured(loop, number(t, "slope_rtol"));
    z.curv_rtol = optim_captured(loop, number(t, "curv_rtol"));
    z.precision = optim_captured(loop, number(t, "stepsize_precision"));
    z.approximate = !absent(t, "approx_dec_rtol");
    if (z.approximate) z.approx_rtol = optim_captured(loop, number(t, "approx_dec_rtol"));
    z.limited = !absent(t, "max_learning_rate");
    if (z.limited) z.max_rate = optim_captured(loop, number(t, "max_learning_rate"));
    bool keep = arg(t, "initial_guess_strategy")->string[0] == 'k';
    z.guess = keep ? optim_captured(loop, optim_state(t, "learning_rate", ir_type_scalar(IR_F32), one))
                   : term_number(1);
    z.value_init = optim_captured(loop, T(t->o->value));
    z.slope_init = optim_captured(loop, line->slope);
    for (uint32_t i = 0; i < Z_TREES; i++) z.s[i] = optim_now(loop, i);
    return z;
}

/* One round: a probe by the phase that the search is in, and on failure the safe step, if there is one. */
static const ir_value *zoom_round(struct optim_transform *t, struct optim_loop *loop, const struct line *line)
{
    const struct zoom z = zoom_of(t, loop, line);
    struct ir_builder *b = z.b;
    struct fe_term phase_two = z.s[Z_FOUND], delta = term_abs(b, term_sub(b, z.s[Z_HIGH], z.s[Z_LOW])),
                   max_reached = T(ir_scalar(b, IR_BOOL, 0));
    struct fe_term a = term_where(b, term_eq(b, z.s[Z_COUNT], term_integer(0)), z.guess,
                                  term_mul(b, z.increase, z.s[Z_STEPSIZE]));
    if (z.limited) {
        max_reached = term_le(b, z.max_rate, a);
        a = term_min(b, a, z.max_rate);
    }
    a = term_where(b, phase_two, candidate(&z, delta), a);
    struct probe p = probe_at(loop, line, a);
    struct fe_term decrease = decrease_error(&z, a, p.value, p.slope), curvature = curvature_error(&z, p.slope),
                   error = term_max(b, decrease, curvature);
    struct fe_term last = term_le(b, term_integer(z.most), term_add(b, z.s[Z_COUNT], term_integer(1)));
    struct outcome one_ = search_interval(&z, a, p.value, p.slope, decrease, error, max_reached, last);
    struct outcome two = zoom_in(&z, a, p.value, p.slope, decrease, error, delta, last), o;
    choose(&z, phase_two, &o.s[Z_LOW], &two.s[Z_LOW], &one_.s[Z_LOW], Z_SAFE - Z_LOW);
    o.s[Z_FOUND] = term_or(b, phase_two, one_.s[Z_FOUND]);
    o.done = term_where(b, phase_two, two.done, one_.done);
    o.failed = term_where(b, phase_two, two.failed, one_.failed);
    o.safe = term_where(b, phase_two, two.safe, one_.safe);
    o.s[Z_COUNT] = term_add(b, z.s[Z_COUNT], term_integer(1));
    o.s[Z_SAFE] = term_where(b, o.safe, a, z.s[Z_SAFE]);
    o.s[Z_VALUE_SAFE] = term_where(b, o.safe, p.value, z.s[Z_VALUE_SAFE]);
    o.s[Z_SLOPE] = p.slope, o.s[Z_DECREASE] = decrease, o.s[Z_CURVATURE] = curvature;
    struct fe_term retreat = term_and(b, o.failed, term_or(b, positive(&z, o.s[Z_SAFE]), is_infinite(b, decrease)));
    o.s[Z_STEPSIZE] = term_where(b, retreat, o.s[Z_SAFE], a);
    o.s[Z_VALUE] = term_where(b, retreat, o.s[Z_VALUE_SAFE], p.value);
    o.s[Z_GO] = term_not(b, term_or(b, o.done, o.failed));

    ir_value *next = arena_new_array(t->fe->arena, ir_value, Z_TREES + 2 * t->count + 1);
    for (uint32_t i = 0; i < Z_TREES; i++) next[i] = o.s[i].v;
    uint32_t n = Z_TREES;
    EACH_LEAF(t, i) {
        struct fe_term safe = term_where(b, o.safe, T(p.grads[i]), optim_now(loop, n + 1));
        next[n++] = term_where(b, retreat, safe, T(p.grads[i])).v;
        next[n++] = safe.v;
    }
    return next;
}

void transform_scale_by_zoom_linesearch(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    const struct ir_type scalar = ir_type_scalar(IR_F32);
    static const char *const slots[] = {"learning_rate", "value", "info.num_linesearch_steps", "info.decrease_error",
                                        "info.curvature_error"};
    static const uint32_t values[] = {Z_STEPSIZE, Z_VALUE, Z_COUNT, Z_DECREASE, Z_CURVATURE};
    struct line line;
    if (!line_of(t, &line)) return;
    for (uint32_t i = 0; i < COUNT(slots); i++)
        (void)optim_state(t, slots[i], i == 2 ? ir_type_scalar(IR_I32) : scalar,
                          i == 0   ? one
                          : i == 2 ? zero
                                   : infinity);
    ir_value *grad = optim_tree(t, "grad", IR_TUPLE, zero);

    struct optim_loop loop = optim_loop(t, "zoom");
    struct fe_term initial[Z_TREES], value = T(t->o->value);
    for (uint32_t i = 0; i < Z_TREES; i++) initial[i] = term_number(0);
    initial[Z_GO] = term_number(1);
    initial[Z_DECREASE] = initial[Z_CURVATURE] = term_number((double)INFINITY);
    initial[Z_VALUE] = initial[Z_VALUE_LOW] = initial[Z_VALUE_HIGH] = initial[Z_VALUE_REF] = initial[Z_VALUE_SAFE] =
        value;
    initial[Z_SLOPE] = initial[Z_SLOPE_LOW] = initial[Z_SLOPE_HIGH] = line.slope;
    for (uint32_t i = 0; i < Z_TREES; i++)
        optim_carry(&loop, initial[i], i == Z_GO || i == Z_FOUND ? IR_BOOL : i == Z_COUNT ? IR_I32 : IR_F32);
    EACH_LEAF(t, i)
        for (int twice = 0; twice < 2; twice++)
            optim_carry(&loop, T(t->o->grads[i]), (enum ir_dtype)ir_type(b->f, t->o->grads[i])->dtype);
    const ir_value *next = zoom_round(t, &loop, &line);
    const ir_value *end = optim_loop_end(&loop, term_integer(arg(t, "max_linesearch_steps")->integer), next);

    for (uint32_t i = 0; i < COUNT(slots); i++) optim_state_set(t, slots[i], T(end[values[i]]));
    uint32_t n = Z_TREES;
    EACH_LEAF(t, i) grad[i] = end[n], n += 2;
    optim_tree_set(t, "grad", grad);
    scale_updates(t, T(end[Z_STEPSIZE]));
}
