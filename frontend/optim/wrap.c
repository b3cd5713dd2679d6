/* Transformations around transformations: chains, masks, partitions, accumulation over calls, conditions. Inner ones
 * run in place with their state under a longer path; conditions choose between old and new state afterwards. */
#include "frontend/optim/optim.h"
#include <string.h>

/* ---------------------------------------------------------------- chains */

void transform_chain(struct optim_transform *t)
{
    uint32_t i = 0;
    for (fe_json e = fe_first(t->fe, arg(t, "transforms")->json); e; e = fe_next(t->fe, e), i++)
        optim_apply(t->o, e, arena_format(t->fe->arena, "%s.%u", t->path, i), t->u, t->p);
}

void transform_named_chain(struct optim_transform *t)
{
    for (fe_json e = fe_first(t->fe, arg(t, "transforms")->json); e; e = fe_next(t->fe, e))
        optim_apply(t->o, e, optim_path(t, e->key), t->u, t->p);
}

/* ---------------------------------------------------------------- masks */

/* Runs the transformation on the leaves that are in; the others pass unchanged. */
static void run_masked(struct optim_transform *t, fe_json inner, const char *path, const bool *in)
{
    ir_value *u = optim_new_tree(t), *p = optim_new_tree(t);
    EACH_LEAF(t, i)
        if (in[i]) u[i] = t->u[i], p[i] = t->p[i];
    if (t->row->rule == transform_multi_optimizer) optim_apply_without_value(t->o, inner, t->row->name, path, u, p);
    else optim_apply(t->o, inner, path, u, p);
    EACH_LEAF(t, i)
        if (in[i]) t->u[i] = u[i];
}

void transform_masked(struct optim_transform *t)
{
    bool *in = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (optim_mask(t, "mask", in)) run_masked(t, arg(t, "inner")->json, optim_path(t, "inner_state"), in);
}

void transform_freeze(struct optim_transform *t)
{
    bool *in = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (!optim_mask(t, "mask", in)) return;
    EACH_LEAF(t, i)
        if (in[i]) t->u[i] = ir_number_like(t->b, t->u[i], 0);
}

void transform_selective_transform(struct optim_transform *t)
{
    bool *frozen = arena_new_array(t->fe->arena, bool, t->count + 1),
         *in = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (!optim_mask(t, "freeze_mask", frozen)) return;
    for (uint32_t i = 0; i < t->count; i++) in[i] = !frozen[i];
    run_masked(t, arg(t, "optimizer")->json, optim_path(t, "inner_states.train.inner_state"), in);
    EACH_LEAF(t, i)
        if (frozen[i]) t->u[i] = ir_number_like(t->b, t->u[i], 0);
}

/* T5X's MultiOptimizer: every set of parameters has its optimizer; a parameter in two sets is an error. */
void transform_multi_optimizer(struct optim_transform *t)
{
    static const struct fe_arg rows[] = {{"match", FE_PATTERNS, FE_REQUIRED, NULL, NULL},
                                         {"opt", FE_OBJECT, FE_REQUIRED, NULL, NULL}};
    struct fe *fe = t->fe;
    fe_json list = arg(t, "optimizers")->json;
    bool *taken = arena_new_array(fe->arena, bool, t->count + 1), *in = arena_new_array(fe->arena, bool, t->count + 1);
    uint32_t number_of = 0;
    for (fe_json e = fe_first(fe, list); e; e = fe_next(fe, e), number_of++) {
        struct fe_value v[2] = {0};
        if (!fe_settings(fe, e, "an optimizer of \"multi_optimizer\"", rows, 2, NULL, v)) return;
        if (!fe_patterns(fe, v[0].json, in)) return;
        for (uint32_t i = 0; i < t->count; i++) {
            if (in[i] && taken[i]) {
                fe_error(fe, list, "E0424", "parameter \"%s\" is matched by two optimizers", t->o->params[i].path);
                return;
            }
            taken[i] = taken[i] || in[i];
        }
        run_masked(t, v[1].json, arena_format(fe->arena, "%s.%u", t->path, number_of), in);
    }
    EACH_LEAF(t, i)
        if (!taken[i]) t->u[i] = ir_number_like(t->b, t->u[i], 0);
}

/* ---------------------------------------------------------------- partition */

/* The label of every parameter by the first pattern that matches: an index into the transforms, -1 = none. */
static bool read_labels(struct optim_transform *t, fe_json transforms, fe_json labels, int32_t *label)
{
    struct fe *fe = t->fe;
    uint32_t known = fe_count(fe, transforms), k = 0;
    const char **names = arena_new_array(fe->arena, const char *, known + 1);
    for (fe_json e = fe_first(fe, transforms); e; e = fe_next(fe, e)) names[k++] = e->key;
    bool good = optim_patterns_match(t, labels), *used = arena_new_array(fe->arena, bool, known + 1);
    for (uint32_t i = 0; i < t->count; i++) label[i] = -1;
    for (fe_json e = fe_first(fe, labels); e; e = fe_next(fe, e)) {
        uint32_t which = 0;
        if (e->kind != JSON_STRING) {
            fe_error(fe, e, "E0101", "a label must be a string, found %s", fe_found(fe, e));
            good = false;
            continue;
        }
        while (which < known && strcmp(names[which], e->string)) which++;
        if (which == known) {
            struct str list = STR(fe->arena);
            for (uint32_t i = 0; i < known; i++) str_addf(&list, "%s\"%s\"", i ? ", " : "", names[i]);
            struct diag *d = fe_error(fe, e, "E0421", "label \"%s\" has no transformation; there are %s", e->string,
                                      str_text(&list));
            fe_suggest(fe, d, e->string, names, known);
            good = false;
        }
        used[which] = true;
        for (uint32_t i = 0; i < t->count; i++)
            if (label[i] < 0 && glob_match(e->key, t->o->params[i].path)) label[i] = (int32_t)which;
    }
    k = 0;
    for (fe_json e = fe_first(fe, transforms); e; e = fe_next(fe, e), k++)
        if (!used[k] && good) /* not beside a label that is misspelt */
            fe_warning_key(fe, e, "W0409", "transformation \"%s\" has no parameter: nothing in \"labels\" names it",
                           e->key);
    return good;
}

void transform_partition(struct optim_transform *t)
{
    struct fe *fe = t->fe;
    fe_json transforms = arg(t, "transforms")->json, labels = arg(t, "labels")->json;
    int32_t *label = arena_new_array(fe->arena, int32_t, t->count + 1), group = 0;
    bool *in = arena_new_array(fe->arena, bool, t->count + 1), good = read_labels(t, transforms, labels, label);
    EACH_LEAF(t, i)
        if (label[i] < 0 && good) {
            fe_error(fe, labels, "E0422", "parameter \"%s\" has no label: no pattern matches it", t->o->params[i].path);
            good = false;
        }
    for (fe_json e = fe_first(fe, transforms); e; e = fe_next(fe, e), group++) {
        for (uint32_t i = 0; i < t->count; i++) in[i] = label[i] == group;
        run_masked(t, e, arena_format(fe->arena, "%s.inner_states.%s.inner_state", t->path, e->key), in);
    }
}

void transform_multi_transform(struct optim_transform *t) { transform_partition(t); }

/* ---------------------------------------------------------------- over several calls */

/* How many calls make one update: an integer, a schedule or an expression over gradient_step; an int32 scalar or a
 * number. */
static bool steps_per_update(struct optim_transform *t, struct fe_term gradient_step, struct fe_term *k)
{
    fe_json every = arg(t, "every_k_schedule")->json;
    if (every->kind == JSON_OBJECT) {
        struct fe_value v = {.given = true, .json = every};
        *k = term_cast(t->b, T(fe_schedule(t->fe, t->b, &v, gradient_step.v)), IR_I32);
        return true;
    }
    if (every->kind == JSON_STRING && every->string[0] != '$') {
        if (!optim_of_counter(t, every, "gradient_step", gradient_step, k)) return false;
        *k = term_cast(t->b, *k, IR_I32);
        return true;
    }
    int64_t number;
    if (!fe_count32(t->fe, every, &number)) return false;
    if (number < 1)
        return fe_wrong(t->fe, every, "E0103", "\"every_k_schedule\" must be at least 1, found %lld",
                        (long long)number);
    *k = term_integer(number);
    return true;
}

/* Whether this call is to be skipped (multi_steps' should_skip_update_fn); its report is state. */
static bool skip_rule(struct optim_transform *t, fe_json rule, struct fe_term *skip)
{
    static const char *const names[] = {"skip_not_finite", "skip_large_updates"};
    static const struct fe_arg large[] = {{"max_squared_norm", FE_NUMBER, FE_REQUIRED, NULL, NULL}};
    struct ir_builder *b = t->b;
    struct optim_transform report = *t;
    report.path = optim_path(t, "skip_state");
    const char *type = fe_type_of(t->fe, rule);
    if (!type) return false;
    bool by_norm = strcmp(type, names[1]) == 0;
    if (!by_norm && strcmp(type, names[0])) {
        fe_suggest(t->fe, fe_error(t->fe, fe_member(t->fe, rule, "type"), "E0105", "unknown rule \"%s\"", type), type,
                   names, 2);
        return false;
    }
    struct fe_value limit = {0};
    if (!fe_args(t->fe, rule, type, large, by_norm, NULL, &limit)) return false;
    if (by_norm) {
        struct fe_term norm = optim_square_sum(t, t->u);
        *skip = term_not(b, term_lt(b, norm, term_number(limit.number)));
        (void)optim_state(&report, "norm_squared", ir_type_scalar(IR_F32), zero);
        optim_state_set(&report, "norm_squared", norm);
    } else {
        struct fe_term bad = term_integer(0);
        EACH_LEAF(t, i) {
            ir_value finite = ir_unary(b, OP_is_finite, t->u[i]);
            bad = term_add(b, bad, term_sum(b, term_cast(b, term_not(b, T(finite)), IR_I32)));
        }
        bad = term_cast(b, bad, IR_I32);
        *skip = term_lt(b, term_integer(0), bad);
        (void)optim_state(&report, "num_not_finite", ir_type_scalar(IR_I32), zero);
        optim_state_set(&report, "num_not_finite", bad);
    }
    (void)optim_state(&report, "should_skip", ir_type_scalar(IR_BOOL), zero);
    optim_state_set(&report, "should_skip", *skip);
    return true;
}

/* The inner transformation runs on the accumulated gradients at every call; its state and its update count at the
 * last call of k. A window that was begun with a larger k, in a checkpoint of another document, ends with the next
 * call: Optax's `==` and remainder would begin anew in the middle of it and weigh its gradients unequally. */
void transform_multi_steps(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct fe_term mini = counter(t, "mini_step"), step = counter(t, "gradient_step"), k, skip = {0};
    fe_json rule = arg(t, "should_skip_update_fn")->json;
    bool may_skip = rule && rule->kind == JSON_OBJECT;
    enum ir_dtype dtype = dtype_of(t, "accumulator_dtype");
    if (!steps_per_update(t, step, &k) || (may_skip && !skip_rule(t, rule, &skip))) return;
    ir_value *acc = optim_tree(t, "acc_grads", dtype, zero), *before = optim_snapshot(t->o), *u = optim_new_tree(t);
    struct fe_term kept = term_lt(b, mini, term_sub(b, k, term_integer(1)));
    struct fe_term emit = term_not(b, kept);
    EACH_LEAF(t, i) {
        struct fe_term g = T(t->u[i]), a = T(acc[i]);
        if (flag(t, "use_grad_mean"))
            a = term_add(b, a, term_div(b, term_sub(b, g, a), term_add(b, mini, term_integer(1))));
        else a = term_add(b, g, a);
        u[i] = term_cast_like(b, a, g).v;
        acc[i] = sent_or_zero(t, kept, a).v;
    }
    const char *inner = optim_path(t, "inner_opt_state");
    optim_apply(t->o, arg(t, "opt")->json, inner, u, t->p);
    optim_select(t->o, inner, emit, before, false);
    optim_tree_set(t, "acc_grads", acc);
    optim_state_set(t, "mini_step", term_where(b, emit, term_integer(0), optim_increment(b, mini)));
    optim_state_set(t, "gradient_step", term_where(b, emit, optim_increment(b, step), step));
    EACH_LEAF(t, i) t->u[i] = sent_or_zero(t, emit, T(u[i])).v;
    if (!may_skip) return;
    static const char *const own[] = {"mini_step", "gradient_step"};
    for (int i = 0; i < 2; i++)
        optim_state_set(t, own[i],
                        term_where(b, skip, i ? step : mini, optim_state(t, own[i], ir_type_scalar(IR_I32), zero)));
    optim_select(t->o, optim_path(t, "acc_grads"), term_not(b, skip), before, false);
    optim_select(t->o, inner, term_not(b, skip), before, false);
    EACH_LEAF(t, i) t->u[i] = term_where(b, skip, term_number(0), T(t->u[i])).v;
}

/* ---------------------------------------------------------------- conditions */

/* Runs the inner transformation; where `keep` is false its state stays and the update is `otherwise` (NULL: zero). */
static void run_if(struct optim_transform *t, const char *name, struct fe_term keep, const ir_value *otherwise)
{
    struct ir_builder *b = t->b;
    ir_value *before = optim_snapshot(t->o);
    const char *path = optim_path(t, name);
    optim_apply(t->o, arg(t, "inner")->json, path, t->u, t->p);
    optim_select(t->o, path, keep, before, false);
    EACH_LEAF(t, i) t->u[i] = term_where(b, keep, T(t->u[i]), otherwise ? T(otherwise[i]) : term_number(0)).v;
}

static void conditionally(struct optim_transform *t, const char *condition, bool pass)
{
    struct fe_term step = counter(t, "step"), keep;
    if (!optim_of_counter(t, arg(t, condition)->json, "step", step, &keep)) return;
    ir_value *given = optim_new_tree(t);
    EACH_LEAF(t, i) given[i] = t->u[i];
    run_if(t, "inner_state", term_cast(t->b, keep, IR_BOOL), pass ? given : NULL);
    optim_state_set(t, "step", optim_increment(t->b, step));
}

void transform_conditionally_transform(struct optim_transform *t) { conditionally(t, "should_transform_fn", true); }
void transform_conditionally_mask(struct optim_transform *t) { conditionally(t, "should_transform_fn", false); }
void transform_maybe_update(struct optim_transform *t) { conditionally(t, "should_update_fn", true); }

/* Parameters are real numbers. */
void transform_split_real_and_imaginary(struct optim_transform *t)
{
    optim_apply_without_value(t->o, arg(t, "inner")->json, t->row->name, optim_path(t, "inner_state"), t->u, t->p);
}

void transform_apply_if_finite(struct optim_transform *t)
{
    static const int64_t dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct ir_builder *b = t->b;
    struct fe_term finite = T(ir_scalar(b, IR_BOOL, 1)), one = term_integer(1);
    EACH_LEAF(t, i) {
        uint32_t rank = ir_type(b->f, t->u[i])->rank;
        ir_value leaf = ir_unary(b, OP_is_finite, t->u[i]);
        finite = term_and(b, finite, T(rank ? ir_reduce(b, OP_reduce_min, leaf, dims, rank) : leaf));
    }
    struct fe_term count = counter(t, "notfinite_count"), total = counter(t, "total_notfinite");
    (void)optim_state(t, "last_finite", ir_type_scalar(IR_BOOL), (struct optim_start){.number = 1});
    count = term_where(b, finite, term_integer(0), term_add(b, count, one));
    struct fe_term give_up = term_lt(b, term_integer(arg(t, "max_consecutive_errors")->integer), count);
    run_if(t, "inner_state", term_or(b, finite, give_up), NULL);
    optim_state_set(t, "notfinite_count", count);
    optim_state_set(t, "last_finite", finite);
    optim_state_set(t, "total_notfinite", term_where(b, finite, total, term_add(b, total, one)));
}

/* ---------------------------------------------------------------- hyper-parameters */

void transform_inject_stateful_hyperparams(struct optim_transform *t) { transform_inject_hyperparams(t); }

void transform_inject_hyperparams(struct optim_transform *t)
{
    if (optim_inject(t)) optim_apply(t->o, arg(t, "opt")->json, optim_path(t, "inner_state"), t->u, t->p);
}
