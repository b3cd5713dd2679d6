/* Loss objects: each argument is evaluated as an expression, what the function gives is reduced (the functions are
 * expr/library/losses.step and losses.def). The loss of a document is a float32 scalar. */
#include "frontend/expr/makers.h"
#include "frontend/losses/losses.h"
#include <string.h>

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
    struct diag *d = fe_error_key(fe, m, "E0107", "unknown key \"%s\" in loss \"%s\"", m->key, type);
    fe_suggest(fe, d, m->key, all, n);
    const char *foreign = fe_foreign("loss", m->key);
    if (d && foreign) d->hint = foreign;
    fe_note_meaning(fe, d, arena_format(fe->arena, "loss \"%s\"", type), "()", m->key, all, n);
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
