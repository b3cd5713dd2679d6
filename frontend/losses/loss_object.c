/* Losses: the formulas of optax.losses (as functions of expressions) and loss objects, which evaluate each argument as
 * an expression and reduce. The loss of a document is a float32 scalar. */
#include "frontend/expr/makers.h"
#include "frontend/losses/losses.h"
#include <math.h>
#include <string.h>

/* Optax insists on floating point predictions. */
static bool floats(struct fe_call *c, uint32_t arg)
{
    if (!fe_as_tensor(c->site, &ARG(arg))) return false;
    if (ir_dtype_is_float((enum ir_dtype)fe_type_at(c->site, &ARG(arg)).dtype)) return true;
    fe_fail_at(c->site, &c->where[arg], "E0213", "%s needs floating point values such as float32, found %s",
               c->function, fe_describe(c->site, &ARG(arg)));
    return false;
}

static bool integers(struct fe_call *c, uint32_t arg)
{
    if (!fe_as_tensor(c->site, &ARG(arg))) return false;
    if (ir_dtype_is_integer((enum ir_dtype)fe_type_at(c->site, &ARG(arg)).dtype)) return true;
    fe_fail_at(c->site, &c->where[arg], "E0213", "%s needs labels of an integer dtype such as int32, found %s",
               c->function, fe_describe(c->site, &ARG(arg)));
    return false;
}

/* ---------------------------------------------------------------- regression */

static struct fe_val errors(struct fe_call *c, bool equal)
{
    if (!floats(c, 0)) return fe_bad();
    if (fe_is_none(&ARG(1))) return ARG(0);
    struct fe_val p = ARG(0), t = ARG(1);
    if (t.kind == FE_VAL_TENSOR && equal) { /* optax: equal shapes */
        struct ir_type tp = fe_type_at(c->site, &p), tt = fe_type_at(c->site, &t);
        if (tp.rank != tt.rank || memcmp(tp.dim, tt.dim, sizeof tp.dim))
            return fe_fail(c->site, "E0210", "%s: predictions are %s, targets %s", c->function,
                           fe_describe(c->site, &p), fe_describe(c->site, &t));
    }
    return fe_sub(c->site, p, t);
}

struct fe_val loss_squared_error(struct fe_call *c)
{ /* data 1: half of it */
    SITE;
    struct fe_val e = errors(c, true), square = fe_mul(s, e, e);
    return c->data ? fe_mul(s, fe_float(0.5), square) : square;
}
struct fe_val loss_huber(struct fe_call *c)
{
    SITE;
    struct fe_val a = fe_op1(s, OP_abs, errors(c, false)), quadratic = fe_op2(s, OP_min, a, ARG(2));
    struct fe_val linear = fe_sub(s, a, quadratic);
    return fe_add(s, fe_mul(s, fe_float(0.5), fe_mul(s, quadratic, quadratic)), fe_mul(s, ARG(2), linear));
}
struct fe_val loss_log_cosh(struct fe_call *c)
{
    SITE;
    struct fe_val e = errors(c, false);
    return e.bad ? e : fe_sub(s, FE_APPLY(s, "logaddexp", e, neg(s, e)), fe_float(log(2)));
}

static bool axes_of(struct fe_call *c, uint32_t axis_arg, uint32_t *axes, uint32_t *n)
{
    return floats(c, 0) && fe_get_axes(c, axis_arg, fe_rank(c->site, &ARG(0)), axes, n);
}

struct fe_val loss_cosine(struct fe_call *c)
{ /* data 1: distance */
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!axes_of(c, 3, axes, &n) || !floats(c, 1)) return fe_bad();
    struct fe_reduce_options keep = {.keepdims = true, .where = &ARG(4)}, plain = {.where = &ARG(4)};
    struct fe_val unit[2];
    for (int i = 0; i < 2; i++) {
        if (!fe_get_axes(c, 3, fe_rank(s, &ARG(i)), axes, &n)) return fe_bad();
        struct fe_val square = fe_reduce(s, FE_RED_SUM, fe_mul(s, ARG(i), ARG(i)), axes, n, &keep);
        unit[i] = fe_div(s, ARG(i), fe_op1(s, OP_sqrt, fe_op2(s, OP_max, ARG(2), square)));
    }
    struct fe_val product = fe_mul(s, unit[0], unit[1]);
    if (product.bad || !fe_get_axes(c, 3, fe_rank(s, &product), axes, &n)) return fe_bad();
    struct fe_val similarity = fe_reduce(s, FE_RED_SUM, product, axes, n, &plain);
    return c->data ? one_minus(s, similarity) : similarity;
}

/* ---------------------------------------------------------------- classification */

static struct fe_val binary_cross_entropy(struct fe_site *s, struct fe_val x, struct fe_val y)
{
    struct fe_val log_p = FE_APPLY(s, "log_sigmoid", x), log_q = FE_APPLY(s, "log_sigmoid", neg(s, x));
    return fe_sub(s, fe_mul(s, neg(s, y), log_p), fe_mul(s, one_minus(s, y), log_q));
}
struct fe_val loss_sigmoid_cross_entropy(struct fe_call *c)
{
    if (!floats(c, 0)) return fe_bad();
    return binary_cross_entropy(c->site, ARG(0),
                                fe_cast(c->site, ARG(1), (enum ir_dtype)fe_type_at(c->site, &ARG(0)).dtype));
}
struct fe_val loss_sigmoid_focal(struct fe_call *c)
{
    SITE;
    if (!floats(c, 0)) return fe_bad();
    struct fe_val x = ARG(0), y = fe_cast(s, ARG(1), (enum ir_dtype)fe_type_at(s, &x).dtype), rest = one_minus(s, y);
    struct fe_val logs[] = {FE_APPLY(s, "log_sigmoid", x), FE_APPLY(s, "log_sigmoid", neg(s, x))},
                  weights[] = {rest, y};
    if (y.bad || logs[0].bad) return fe_bad();
    struct fe_val miss = FE_APPLY(s, "logsumexp", FE_APPLY(s, "stack", fe_tuple(s, logs, 2), fe_int(-1)), fe_int(-1),
                                  FE_APPLY(s, "stack", fe_tuple(s, weights, 2), fe_int(-1)));
    struct fe_val loss = fe_mul(s, binary_cross_entropy(s, x, y), fe_op1(s, OP_exp, fe_mul(s, ARG(3), miss)));
    if (fe_is_none(&ARG(2))) return loss;
    return fe_mul(s, fe_add(s, fe_mul(s, ARG(2), y), fe_mul(s, one_minus(s, ARG(2)), rest)), loss);
}

static struct fe_val cross_entropy(struct fe_site *s, struct fe_val x, struct fe_val y, const uint32_t *axes,
                                   uint32_t n, const struct fe_val *where, bool safe)
{
    struct fe_val log_sum, shifted = fe_softmax_parts(s, x, axes, n, where, &log_sum);
    struct fe_val terms = fe_mul(s, y, fe_sub(s, shifted, log_sum));
    if (safe) terms = fe_where3(s, fe_binary(s, EXPR_OP_NE, y, fe_float(0)), terms, fe_float(0));
    return neg(s, fe_reduce(s, FE_RED_SUM, terms, axes, n, &(struct fe_reduce_options){.where = where}));
}
struct fe_val loss_softmax_cross_entropy(struct fe_call *c)
{ /* data 1: the safe form */
    uint32_t axes[IR_MAX_RANK], n;
    struct fe_val none = fe_none();
    if (!floats(c, 0)) return fe_bad();
    if (c->data) {
        if (!fe_rank(c->site, &ARG(0))) return fe_fail(c->site, "E0210", "%s needs one score per class", c->function);
        axes[0] = fe_rank(c->site, &ARG(0)) - 1;
        return cross_entropy(c->site, ARG(0), ARG(1), axes, 1, &none, true);
    }
    return axes_of(c, 2, axes, &n) ? cross_entropy(c->site, ARG(0), ARG(1), axes, n, &ARG(3), false) : fe_bad();
}
struct fe_val loss_poly(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!axes_of(c, 3, axes, &n) || !floats(c, 1)) return fe_bad();
    struct fe_val p = FE_APPLY(s, "softmax", ARG(0), ARG(3), ARG(4));
    struct fe_val miss = fe_reduce(s, FE_RED_SUM, fe_mul(s, ARG(1), one_minus(s, p)), axes, n,
                                   &(struct fe_reduce_options){.where = &ARG(4)});
    return fe_add(s, cross_entropy(s, ARG(0), ARG(1), axes, n, &ARG(4), false), fe_mul(s, ARG(2), miss));
}

/* The class axes become one last axis: labels are flat indices into it. */
static struct fe_val class_axes_last(struct fe_site *s, struct fe_val x, const uint32_t *axes, uint32_t n)
{
    struct ir_type t = fe_type_at(s, &x);
    uint32_t perm[IR_MAX_RANK], rank = 0;
    int64_t shape[IR_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        bool class = false;
        for (uint32_t j = 0; j < n; j++) class |= axes[j] == i;
        if (class) continue;
        shape[rank] = t.dim[i];
        perm[rank++] = i;
    }
    shape[rank] = 1;
    for (uint32_t j = 0; j < n; j++) {
        perm[rank + j] = axes[j];
        shape[rank] *= t.dim[axes[j]];
    }
    return fe_reshape_val(s, fe_transpose_val(s, x, perm), rank + 1, shape);
}

/* logsumexp(x) - x[label]; the label's logit is a masked sum over the classes, so that one pass over the row gives
 * all and the gradient needs no scatter. */
/* The labels as jnp.take_along_axis reads them: negative ones count from the end, and *inside is false where there is
 * no such class (the loss is not a number there). */
static struct fe_val wrap_labels(struct fe_site *s, struct fe_val labels, int64_t classes, struct fe_val *inside)
{
    struct fe_val n = fe_cast(s, labels, IR_I32), zero = fe_int(0), count = fe_int((double)classes);
    n = fe_where3(s, fe_binary(s, EXPR_OP_LT, n, zero), fe_add(s, n, count), n);
    *inside = fe_binary(s, EXPR_OP_AND, fe_binary(s, EXPR_OP_GE, n, zero), fe_binary(s, EXPR_OP_LT, n, count));
    return n;
}

/* Logits less the largest one, and the logarithm of the sum of their exponentials; an infinite one stays, as in
 * logsumexp. */
static struct fe_val shifted_logits(struct fe_site *s, struct fe_val x, uint32_t axis, struct fe_val *log_sum)
{
    struct fe_reduce_options keep = {.keepdims = true};
    struct fe_val top = fe_stop(s, fe_reduce(s, FE_RED_MAX, x, &axis, 1, &keep));
    struct fe_val shifted = fe_sub(s, x, fe_where3(s, fe_op1(s, OP_is_finite, top), top, fe_float(0)));
    *log_sum = fe_op1(s, OP_log, fe_reduce(s, FE_RED_SUM, fe_op1(s, OP_exp, shifted), &axis, 1, &keep));
    return shifted;
}

struct fe_val loss_integer_labels(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n, axis;
    if (!axes_of(c, 2, axes, &n) || !integers(c, 1)) return fe_bad();
    struct fe_val x = ARG(0), where = ARG(3);
    if (!fe_is_none(&where) && !fe_as_tensor(s, &where)) return fe_bad();
    if (!fe_is_none(&where) && fe_rank(s, &where) != fe_rank(s, &x)) where = FE_APPLY(s, "expand_dims", where, ARG(2));
    axis = axes[0];
    if (ARG(2).kind == FE_VAL_TUPLE) {
        struct ir_type t = fe_type_at(s, &x);
        if (!fe_is_none(&where)) where = class_axes_last(s, fe_broadcast_val(s, where, t.rank, t.dim), axes, n);
        x = class_axes_last(s, x, axes, n);
        axis = fe_rank(s, &x) - 1;
    }
    struct ir_type t = fe_type_at(s, &x), tl = fe_type_at(s, &ARG(1));
    bool fits = tl.rank + 1u == t.rank;
    for (uint32_t i = 0; fits && i < tl.rank; i++) fits = tl.dim[i] == t.dim[i < axis ? i : i + 1];
    if (!fits)
        return fe_fail(s, "E0210", "%s: labels %s do not fit logits %s", c->function, fe_describe(s, &ARG(1)),
                       ir_type_text(s->fe->arena, &t));
    bool masked = !fe_is_none(&where);
    struct fe_val inside, log_sum;
    struct fe_val hit = fe_one_hot_mask(s, wrap_labels(s, ARG(1), t.dim[axis], &inside), t.dim[axis], axis);
    struct fe_val shifted = masked ? x : shifted_logits(s, x, axis, &log_sum);
    struct fe_val logit = fe_reduce(s, FE_RED_SUM, fe_where3(s, hit, shifted, fe_int(0)), &axis, 1, NULL);
    if (logit.bad) return logit;
    struct ir_type out = fe_type_at(s, &logit);
    logit = fe_where3(s, inside, logit, fe_float(NAN));
    if (masked) log_sum = FE_APPLY(s, "logsumexp", x, fe_int(axis), fe_none(), fe_none(), where);
    struct fe_val loss = fe_sub(s, fe_reshape_val(s, log_sum, out.rank, out.dim), logit);
    if (!masked) return loss;
    struct fe_val any = fe_reduce(s, FE_RED_ANY, fe_broadcast_val(s, fe_boolean(s, where), t.rank, t.dim), &axis, 1,
                                  NULL);
    return fe_where3(s, any, loss, fe_float(0));
}

struct fe_val loss_kl(struct fe_call *c)
{ /* data 1: generalized, plus sum(exp(prediction) - target) */
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!axes_of(c, 2, axes, &n) || !floats(c, 1)) return fe_bad();
    struct fe_val x = ARG(0), y = ARG(1), zero = fe_binary(s, EXPR_OP_EQ, y, fe_float(0));
    struct fe_val log_y = fe_where3(s, zero, fe_float(0), fe_op1(s, OP_log, fe_where3(s, zero, fe_float(1), y)));
    struct fe_reduce_options o = {.where = &ARG(3)};
    struct fe_val kl = fe_reduce(s, FE_RED_SUM, fe_mul(s, y, fe_sub(s, log_y, x)), axes, n, &o);
    if (!c->data) return kl;
    return fe_add(s, kl, fe_reduce(s, FE_RED_SUM, fe_sub(s, fe_op1(s, OP_exp, x), y), axes, n, &o));
}
struct fe_val loss_kl_log(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!axes_of(c, 2, axes, &n) || !floats(c, 1)) return fe_bad();
    struct fe_val terms = fe_mul(s, fe_op1(s, OP_exp, ARG(1)), fe_sub(s, ARG(1), ARG(0)));
    return fe_reduce(s, FE_RED_SUM, terms, axes, n, &(struct fe_reduce_options){.where = &ARG(3)});
}
struct fe_val loss_hinge(struct fe_call *c)
{ /* max(0, margin - x y); data: the margin */
    SITE;
    if (!floats(c, 0)) return fe_bad();
    return fe_op2(s, OP_max, fe_int(0), fe_sub(s, fe_int(c->data), fe_mul(s, ARG(0), ARG(1))));
}
struct fe_val loss_multiclass(struct fe_call *c)
{ /* data: the margin */
    SITE;
    if (!floats(c, 0) || !integers(c, 1)) return fe_bad();
    struct ir_type t = fe_type_at(s, &ARG(0));
    if (!t.rank) return fe_fail(s, "E0210", "%s needs one score per class", c->function);
    uint32_t axis = t.rank - 1u;
    /* the one-hot labels are float32 and multiplied: infinite scores are NaN, 16-bit ones give a float32 loss */
    struct fe_val hit = fe_cast(s, fe_one_hot_mask(s, ARG(1), t.dim[axis], fe_rank(s, &ARG(1))), IR_F32);
    struct fe_val x = c->data ? fe_sub(s, fe_add(s, ARG(0), fe_float(1)), hit) : ARG(0);
    return fe_sub(s, fe_reduce_last(s, FE_RED_MAX, x, false),
                  fe_reduce_last(s, FE_RED_SUM, fe_mul(s, ARG(0), hit), false));
}
struct fe_val loss_smooth_labels(struct fe_call *c)
{
    SITE;
    uint32_t axes[IR_MAX_RANK], n;
    if (!axes_of(c, 2, axes, &n)) return fe_bad();
    struct ir_type t = fe_type_at(s, &ARG(0));
    double classes = 1;
    for (uint32_t i = 0; i < n; i++) classes *= (double)t.dim[axes[i]];
    struct fe_val count = fe_float(classes);
    if (!fe_is_none(&ARG(3)))
        count = fe_reduce(s, FE_RED_SUM, fe_boolean(s, ARG(3)), axes, n, &(struct fe_reduce_options){.keepdims = true});
    return fe_add(s, fe_mul(s, one_minus(s, ARG(1)), ARG(0)), fe_div(s, ARG(1), count));
}

/* ---------------------------------------------------------------- loss objects */

static const char *const object_keys[] = {"reduction", "weights"};

/* "mean" or "sum"; false: neither, an error was recorded. */
static bool read_reduction(struct fe *fe, fe_json reduction, bool *mean)
{
    static const char *const choices[] = {"mean", "sum"};
    const char *text = reduction->kind == JSON_STRING ? reduction->string : "";
    *mean = !strcmp(text, "mean");
    if (*mean || !strcmp(text, "sum")) return true;
    struct diag *d = fe_error(fe, reduction, "E0103", "\"reduction\" must be \"mean\" or \"sum\", found %s",
                              fe_found(fe, reduction));
    fe_suggest(fe, d, text, choices, 2);
    return false;
}

static struct fe_val reduce_loss(struct fe_site *s, const struct fe_function *f, fe_json object, struct fe_val loss,
                                 const struct fe_env *env)
{
    fe_json reduction = fe_member(s->fe, object, "reduction"), weights = fe_member(s->fe, object, "weights");
    bool mean = true;
    if (f->flags & FE_OWN_WEIGHTS) weights = NULL;
    if (f->flags & FE_OWN_REDUCTION && !weights) { /* what it leaves is reduced in the same way */
        bool sum = reduction && reduction->kind == JSON_STRING && !strcmp(reduction->string, "sum");
        return fe_reduce_all(s, sum ? FE_RED_SUM : FE_RED_MEAN, loss);
    }
    if (reduction && !read_reduction(s->fe, reduction, &mean)) return fe_bad();
    if (!weights) return reduction ? fe_reduce_all(s, mean ? FE_RED_MEAN : FE_RED_SUM, loss) : loss;
    struct fe_val w = fe_expr(s->fe, s->trace, weights, env);
    if (w.bad || !fe_as_tensor(s, &loss)) return fe_bad();
    struct ir_type t = fe_type_at(s, &loss);
    s->where.json = weights;
    w = fe_broadcast_val(s, w, t.rank, t.dim);
    struct fe_val sum = fe_reduce_all(s, FE_RED_SUM, fe_mul(s, loss, w));
    return mean ? fe_div(s, sum, fe_reduce_all(s, FE_RED_SUM, w)) : sum;
}

static bool known_key(struct fe *fe, fe_json m, const char *type, const char *const *known, size_t count)
{
    const char **all = arena_new_array(fe->arena, const char *, count + 2);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) all[n++] = known[i];
    for (size_t i = 0; i < 2; i++) all[n++] = object_keys[i];
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i], m->key)) return true;
    fe_suggest(fe, fe_error_key(fe, m, "E0107", "unknown key \"%s\" in loss \"%s\"", m->key, type), m->key, all, n);
    return false;
}

static struct fe_val loss_object(struct fe *fe, struct fe_trace *trace, fe_json object)
{
    struct fe_site s = {.fe = fe, .trace = trace, .b = trace->b, .where = {.json = object}};
    const char *type = fe_type_of(fe, object);
    if (!type) return fe_bad();
    const struct fe_function *f = fe_function_find(fe_library(fe), type);
    if (!f || !(f->flags & FE_LOSS)) {
        size_t count;
        const char *const *names = fe_function_names(fe_library(fe), FE_LOSS, &count);
        if (fe_function_later(type))
            fe_error(fe, fe_member(fe, object, "type"), "E0111", "loss \"%s\" is not supported yet", type);
        else
            fe_suggest(fe, fe_error(fe, fe_member(fe, object, "type"), "E0105", "unknown loss \"%s\"", type), type,
                       names, count);
        return fe_bad();
    }
    const char *const *known = fe_signature_names(fe->arena, f);
    size_t known_count = 0;
    while (known[known_count]) known_count++;
    struct fe_val args[FE_MAX_ARGS];
    const char *names[FE_MAX_ARGS];
    struct fe_where wheres[FE_MAX_ARGS];
    uint32_t n = 0;
    fe_json weights = fe_member(fe, object, "weights");
    bool bad = false, weighted = f->flags & FE_OWN_REDUCTION && weights;
    if (weighted)
        args[n] = fe_none(), names[n] = "reduction",
        wheres[n++] = (struct fe_where){.json = weights}; /* that is done here then */
    for (fe_json m = fe_first(fe, object); m; m = fe_next(fe, m)) {
        if (!strcmp(m->key, "type")) continue;
        if (!strcmp(m->key, "reduction") && !(f->flags & FE_OWN_REDUCTION)) continue;
        if (!strcmp(m->key, "weights") && !(f->flags & FE_OWN_WEIGHTS)) continue;
        if (!known_key(fe, m, type, known, known_count)) {
            bad = true;
            continue;
        }
        if (n == FE_MAX_ARGS) break;
        if (weighted && !strcmp(m->key, "reduction")) continue;
        args[n] = fe_literal(&s, m, trace->env, !fe_takes_word(f, m->key));
        names[n] = m->key;
        wheres[n] = (struct fe_where){.json = m};
        bad |= args[n++].bad;
    }
    if (bad) return fe_bad();
    struct fe_hook hook = fe_hook_set(&s);
    struct fe_val v = fe_call_function(&s, f, args, names, wheres, n);
    if (!v.bad) v = reduce_loss(&s, f, object, v, trace->env);
    fe_hook_reset(&s, hook);
    return v;
}

bool fe_trace_loss(struct fe *fe, struct fe_trace *trace)
{
    fe_json json = fe_member(fe, fe_root(fe), "loss");
    struct fe_site s = {.fe = fe, .trace = trace, .b = trace->b, .where = {.json = json}};
    struct fe_val v = json->kind == JSON_OBJECT ? loss_object(fe, trace, json) : fe_expr(fe, trace, json, trace->env);
    struct fe_hook hook = fe_hook_set(&s);
    bool number = v.kind == FE_VAL_NUMBER && v.python != FE_PY_BOOL; /* a constant loss may be an integer */
    if (!fe_as_tensor(&s, &v)) v = fe_bad();
    else if (!number && !ir_dtype_is_float((enum ir_dtype)fe_type_at(&s, &v).dtype))
        v = fe_fail(&s, "E0205", "the loss must be a scalar of a floating point dtype, found %s, which has no gradient",
                    fe_describe(&s, &v));
    else if (fe_rank(&s, &v))
        v = fe_fail(&s, "E0205", "the loss must be a scalar, found %s; reduce it %s", fe_describe(&s, &v),
                    json->kind == JSON_OBJECT ? "with \"reduction\": \"mean\" or \"sum\""
                                              : "with mean(...) or sum(...)");
    else v = fe_cast(&s, v, IR_F32);
    fe_hook_reset(&s, hook);
    trace->loss = v;
    if (v.bad) return false;
    trace->env = fe_bind(fe->arena, trace->env, "loss", v);
    return true;
}
