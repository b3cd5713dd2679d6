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

/* What a part sees inside the body: arguments that the host sets are captured. */
static struct optim_transform in_body(struct optim_transform *t, struct optim_loop *loop)
{
    struct optim_transform inner = *t;
    ir_value *injected = arena_new_array(loop->arena, ir_value, t->row->count + 1);
    for (uint32_t i = 0; i < t->row->count; i++) injected[i] = optim_capture(loop, t->injected[i]);
    inner.b = &loop->b, inner.injected = injected;
    return inner;
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
    int64_t most = arg(t, "max_backtracking_steps")->integer;
    optim_carry(&loop, T(ir_scalar(b, IR_BOOL, 1)), IR_BOOL);
    optim_carry(&loop, rate, (enum ir_dtype)scalar.dtype);
    optim_carry(&loop, T(t->o->value), IR_F32);
    optim_carry(&loop, inf, IR_F32);
    optim_carry(&loop, term_integer(0), IR_I32);
    if (store)
        EACH_LEAF(t, i)
            optim_carry(&loop, T(ir_number_like(b, grad[i], 0)), (enum ir_dtype)ir_type(b->f, grad[i])->dtype);

    struct optim_transform inside = in_body(t, &loop);
    struct fe_term go = optim_now(&loop, GO), iteration = optim_now(&loop, ITERATION), a = optim_now(&loop, RATE),
                   slope = optim_captured(&loop, line.slope), start = optim_captured(&loop, T(t->o->value)),
                   error = term_number(0);
    optim_formula_given(&inside, "backtracking",
                        (const struct optim_given[]){{"iteration", &iteration, false}, {"rate", &a, false}, {0}});
    struct probe p = probe_at(&loop, &line, a);
    optim_formula_given(&inside, "backtracked",
                        (const struct optim_given[]){{"go", &go, false},
                                                     {"iteration", &iteration, false},
                                                     {"rate", &a, false},
                                                     {"slope", &slope, false},
                                                     {"start", &start, false},
                                                     {"new_loss", &p.value, false},
                                                     {"error", &error, false},
                                                     {0}});
    ir_value *next = arena_new_array(t->fe->arena, ir_value, GRADS + t->count + 1);
    uint32_t n = GRADS;
    next[GO] = go.v, next[RATE] = a.v, next[VALUE] = p.value.v, next[ERROR] = error.v, next[ITERATION] = iteration.v;
    if (store)
        EACH_LEAF(t, i) {
            next[n] = term_where(&loop.b, go, optim_now(&loop, n), T(p.grads[i])).v;
            n++;
        }
    const ir_value *end = optim_loop_end(&loop, term_integer(most + 1), next);

    struct fe_term found = term_where(b, term_eq(b, term_abs(b, T(end[ERROR])), inf), term_number(0), T(end[RATE]));
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

/* Their names in the parts of optimizers.step. */
static const char *const zoom_names[Z_TREES] = {
    "go",        "count",     "stepsize", "loss",       "slope",      "decrease", "curvature", "found", "low",
    "value_low", "slope_low", "high",     "value_high", "slope_high", "ref",      "value_ref", "safe",  "value_safe"};

/* One round: a probe by the phase that the search is in, and on failure the safe step, if there is one. */
static const ir_value *zoom_round(struct optim_transform *t, struct optim_loop *loop, const struct line *line)
{
    struct optim_transform inside = in_body(t, loop);
    bool keep = arg(t, "initial_guess_strategy")->string[0] == 'k';
    struct fe_term s[Z_TREES], a = term_number(0), delta = a, is_safe = a, retreats = a,
                               reached = T(ir_scalar(&loop->b, IR_BOOL, 0)), guess = term_number(1);
    if (keep) guess = optim_captured(loop, optim_state(t, "learning_rate", ir_type_scalar(IR_F32), one));
    struct fe_term value_init = optim_captured(loop, T(t->o->value)), slope_init = optim_captured(loop, line->slope);
    struct probe p = {0};
    struct optim_given given[Z_TREES + 16] = {
        {"rate", &a, false},           {"delta", &delta, false},           {"reached", &reached, false},
        {"guess", &guess, false},      {"value_init", &value_init, false}, {"slope_init", &slope_init, false},
        {"is_safe", &is_safe, false},  {"retreats", &retreats, false},     {"new_loss", &p.value, false},
        {"new_slope", &p.slope, false}};
    for (uint32_t i = 0; i < Z_TREES; i++) {
        s[i] = optim_now(loop, i);
        given[10 + i] = (struct optim_given){zoom_names[i], &s[i], false};
    }
    optim_formula_given(&inside, "zoom_probe", given);
    p = probe_at(loop, line, a);
    optim_formula_given(&inside, "zoom_round", given);

    ir_value *next = arena_new_array(t->fe->arena, ir_value, Z_TREES + 2 * t->count + 1);
    for (uint32_t i = 0; i < Z_TREES; i++) next[i] = s[i].v;
    uint32_t n = Z_TREES;
    EACH_LEAF(t, i) {
        struct fe_term safe = term_where(&loop->b, is_safe, T(p.grads[i]), optim_now(loop, n + 1));
        next[n++] = term_where(&loop->b, retreats, safe, T(p.grads[i])).v;
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
