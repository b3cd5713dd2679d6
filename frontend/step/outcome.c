/* Loss and gradients of one step: at once, or microbatch by microbatch through the accumulate marker, whose body holds
 * a grad marker of its own, or the examples' (example.c). Also the function that line searches call for the value and
 * gradient at other parameters. */
#include "frontend/step/assemble.h"
#include <string.h>

/* ---------------------------------------------------------------- accumulation: the document */

enum { ACC_SIZE, ACC_KIND, ACC_SPLIT, ACC_REAL, ACC_METRICS, ACC_WEIGHT, ACC_COUNT };

/* accumulate.metrics: names of metrics that are computed per microbatch, with an accumulator each. */
static bool check_kinds(struct fe_step *s, fe_json kinds)
{
    struct fe *fe = s->fe;
    bool good = true;
    const char **names = arena_new_array(fe->arena, const char *, s->metric_count);
    for (uint32_t i = 1; i < s->metric_count; i++) names[i - 1] = s->metrics[i].name;
    for (fe_json k = fe_first(fe, kinds); k; k = fe_next(fe, k)) {
        uint32_t i = 1, a = 0;
        while (i < s->metric_count && strcmp(s->metrics[i].name, k->key)) i++;
        if (i == s->metric_count) {
            fe_suggest(fe, fe_error_key(fe, k, "E0108", "there is no metric \"%s\"", k->key), k->key, names,
                       s->metric_count - 1);
            good = false;
        }
        while (a <= FE_CONCATENATE && (k->kind != JSON_STRING || strcmp(fe_accumulators[a], k->string))) a++;
        if (a > FE_CONCATENATE) {
            struct diag *d = fe_error(
                fe, k, "E0103", "expected an accumulator (sum, mean, running_mean, concat), found %s", fe_found(fe, k));
            if (k->kind == JSON_STRING) fe_suggest(fe, d, k->string, fe_accumulators, FE_CONCATENATE + 1);
            good = false;
        }
    }
    return good;
}

bool fe_step_accumulation(struct fe_step *s, fe_json json)
{
    struct fe_accumulation *a = &s->accumulate;
    struct fe_value v[ACC_COUNT] = {0};
    int64_t rows = 0;
    if (!json) return true;
    if (!fe_setting(s->fe, FE_SETTING_accumulate, json, "\"accumulate\"", v) || !fe_step_batch_rows(s, json, &rows))
        return false;
    *a = (struct fe_accumulation){.json = json,
                                  .rows = v[ACC_SIZE].integer * (s->fe->options->twice ? 2 : 1),
                                  .real = v[ACC_REAL].null ? NULL : v[ACC_REAL].json,
                                  .weight = v[ACC_WEIGHT].null ? NULL : v[ACC_WEIGHT].json,
                                  .kinds = v[ACC_METRICS].json};
    while (strcmp(fe_accumulators[a->kind], v[ACC_KIND].string)) a->kind++;
    if (a->weight && a->kind == FE_SUM)
        return fe_wrong(s->fe, a->weight, "E0103", "\"weight\" is for means, not for \"accumulator\": \"sum\"");
    a->split = strcmp(v[ACC_SPLIT].string, "contiguous") == 0;
    if (rows % a->rows)
        return fe_wrong(s->fe, v[ACC_SIZE].json, "E0431",
                        "microbatches of %lld rows do not divide the batch of %lld rows", (long long)a->rows,
                        (long long)rows);
    a->microbatches = rows / a->rows;
    return !a->kinds || check_kinds(s, a->kinds);
}

/* ---------------------------------------------------------------- accumulation: the marker */

/* What a microbatch computes. */
static bool inner_outcome(struct fe_step *s, struct fe_trace *trace, bool grads, const struct optim_clipped *clipped,
                          struct fe_outcome *out)
{
    if (s->examples.json || s->examples.asked || clipped) return fe_step_examples(s, trace, grads, clipped, out);
    return fe_step_whole(s, trace, grads, out);
}

/* A microbatch's part of a weighted sum (one that counts for nothing adds nothing, whatever its loss is), and the mean
 * from the whole sum. The sum is of float32 at least: the weights of a batch, its tokens, are more than float16 can
 * hold or bfloat16 can count. */
static ir_value times_weight(struct ir_builder *b, ir_value v, struct fe_term weight)
{
    struct fe_term x = term_tensor(v), none = term_number(0);
    if (ir_dtype_bytes((enum ir_dtype)ir_type(b->f, v)->dtype) < ir_dtype_bytes(IR_F32)) x = term_cast(b, x, IR_F32);
    struct fe_term weighted = term_mul(b, x, term_cast_like(b, weight, x));
    return term_where(b, term_eq(b, weight, none), none, weighted).v;
}

static ir_value by_weight(struct ir_builder *b, ir_value sum, struct fe_term total, enum ir_dtype dtype)
{
    struct fe_term x = term_tensor(sum), none = term_number(0), mean = term_div(b, x, term_cast_like(b, total, x));
    return ir_cast(b, term_where(b, term_eq(b, total, none), none, mean).v, dtype);
}

/* How a result of this dtype was accumulated; a mean by weight is a sum of weighted parts first. A sum of bools says
 * whether any is true (jax.numpy: True + True is True): it is counted. */
struct accumulated {
    uint32_t at;
    enum ir_dtype dtype;
    bool weighted, any;
};

static struct accumulated add_result(struct fe_step *s, struct fe_rows_part *part, const char *name, ir_value v,
                                     int64_t kind, struct fe_term weight, const ir_value *by_share)
{
    static const int64_t one[] = {1};
    enum ir_dtype dtype = (enum ir_dtype)ir_type(part->b.f, v)->dtype;
    bool weighted = weight.v && (kind == FE_MEAN || kind == FE_RUNNING_MEAN);
    if (weighted && by_share) v = by_share[v], kind = FE_MEAN, weighted = false;
    if (kind == FE_CONCATENATE && !ir_type(part->b.f, v)->rank)
        v = ir_reshape(&part->b, v, 1, one); /* one per microbatch */
    bool any = kind == FE_SUM && dtype == IR_BOOL;
    if (weighted) v = times_weight(&part->b, v, weight), kind = FE_SUM;
    if (any) v = ir_cast(&part->b, v, IR_I32);
    return (struct accumulated){fe_part_result(s, part, name, v, kind), dtype, weighted, any};
}

static ir_value get_result(struct ir_builder *b, ir_value tuple, struct accumulated from, struct fe_term total)
{
    ir_value v = ir_proj(b, tuple, from.at);
    if (from.any) return ir_cast(b, v, IR_BOOL);
    return from.weighted ? by_weight(b, v, total, from.dtype) : v;
}

/* One microbatch, traced with so many rows. */
struct traced {
    struct fe_rows_part part;
    struct fe_outcome inner;
    struct fe_term weight;
    struct accumulated *at; /* by parameter, then by metric */
    uint32_t weights;
};

static bool trace_microbatch(struct fe_step *s, struct fe_trace *trace, bool grads, const struct optim_clipped *clipped,
                             ir_value share, int64_t rows, struct traced *t)
{
    const struct fe_accumulation *a = &s->accumulate;
    struct optim_clipped within = clipped ? *clipped : (struct optim_clipped){0};
    struct fe_rows_part *part = &t->part;
    *t = (struct traced){0};
    if (!fe_part_begin(s, part, trace, PART_MICROBATCH, rows, clipped ? within.norm.v : share)) return false;
    if (within.norm.v) within.norm.v = part->extra;
    if (!inner_outcome(s, &part->trace, grads, clipped ? &within : NULL, &t->inner)) return false;
    if (a->weight) t->weight = term_tensor(fe_step_weight(s, &part->trace, t->inner.env));
    if (a->weight && !t->weight.v) return false;
    const ir_value *by_share = share ? fe_step_by_share(s, part, t->weight.v) : NULL;

    t->at = arena_new_array(s->fe->arena, struct accumulated, s->param_count + s->metric_count + 1);
    int64_t kind = clipped ? FE_SUM : a->kind;
    bool good = true;
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (t->inner.grads[i])
            t->at[i] = add_result(s, part, s->params[i].path, t->inner.grads[i], kind, t->weight, by_share);
    for (uint32_t i = 0; i < s->metric_count; i++) {
        ir_value metric = t->inner.metrics[i];
        if (!metric) continue;
        kind = a->kind;
        if (i && !fe_step_metric_kind(s, &s->metrics[i], a->kinds, rows, a->kind, ir_type(part->b.f, metric), &kind)) {
            good = false;
            continue; /* what cannot be averaged cannot be weighed */
        }
        t->at[s->param_count + i] = add_result(s, part, s->metrics[i].name, metric, kind, t->weight, by_share);
    }
    t->weights = t->weight.v ? fe_part_result(s, part, "weight", t->weight.v, FE_SUM) : 0;
    return good;
}

/* What of the results is a mean of sums over examples, or a sum of means; NULL: none. */
static const char *scale_of_examples(const struct fe_step *s, const struct traced *t)
{
    for (uint32_t i = 0; i < s->param_count + s->metric_count; i++) {
        bool metric = i >= s->param_count;
        const ir_value *of = metric ? t->inner.metrics : t->inner.grads;
        uint32_t number = metric ? i - s->param_count : i;
        int64_t parts = of && of[number] ? t->part.kinds.items[t->at[i].at] : FE_CONCATENATE;
        if (parts == FE_CONCATENATE || (t->inner.kinds[i] == FE_SUM) == (parts == FE_SUM)) continue;
        return arena_format(s->fe->arena, "\"%s\" is no %s over rows",
                            metric ? s->metrics[number].name : s->params[number].path,
                            parts == FE_SUM ? "sum" : "mean");
    }
    return NULL;
}

static const char *scale_of_rows(struct fe_step *s, struct fe_trace *trace, bool grads, const struct fe_rows_part *part,
                                 const char **hint)
{
    struct diags *diags = s->fe->diags;
    size_t errors = diags->errors, recorded = diags->list.count, funcs = s->module->funcs.count;
    struct traced twice;
    bool traced = trace_microbatch(s, trace, grads, NULL, 0, 2 * part->rows.count, &twice);
    diags->errors = errors, diags->list.count = recorded;
    const char *why = traced ? fe_step_scales(s, &twice.part, part, hint) : NULL;
    s->module->funcs.count = funcs;
    return why;
}

/* --numerics invariant keeps the bits for any number of microbatches, but where a mean of them is of sums over rows, or
 * a number counts rows, what the document says depends on it: known of examples, and of rows by a microbatch of twice
 * as many, which need not be possible. Microbatches that were chosen to need less memory may not be so. */
static bool check_scale(struct fe_step *s, struct fe_trace *trace, bool grads, const struct traced *t)
{
    const char *hint = "\"accumulator\": \"sum\" is for sums over rows, \"mean\" for means over rows";
    const char *why = !t->inner.kinds         ? scale_of_rows(s, trace, grads, &t->part, &hint)
                      : !s->accumulate.weight ? scale_of_examples(s, t)
                                              : NULL;
    if (!why) return true;
    if (s->fe->options->regrouped) return fe_wrong(s->fe, s->accumulate.json, "E0434", "%s", why);
    struct diag *d = fe_warning(s->fe, s->accumulate.json, "W0437",
                                "--numerics invariant: %s: it depends on the number of microbatches", why);
    d->hint = hint;
    return true;
}

/* What a microbatch of so many rows is compared with: one as the document asks for it. Where that has a single row, or
 * as many, one that tells which numbers count rows. */
static int64_t rows_beside(const struct fe_accumulation *a, int64_t rows)
{
    if (a->rows > 1) return rows != a->rows ? a->rows : 2 * rows;
    return rows > 3 ? rows / 2 : 3 * rows;
}

static bool by_microbatches(struct fe_step *s, struct fe_trace *trace, bool grads, const struct optim_clipped *clipped,
                            struct fe_outcome *out)
{
    struct fe *fe = s->fe;
    const struct fe_accumulation *a = &s->accumulate;
    int64_t rows = fe_step_regrouped(s, clipped != NULL), count = a->rows * a->microbatches / rows;
    struct traced t, asked;
    struct fe_term total = {0};
    if (fe->options->invariant && fe_step_of_single_rows(s) && rows == 1)
        return fe_step_depends(s, a->json,
                               "microbatches of a single row cannot be where gradients are of single examples, or not "
                               "all microbatches run: sums over one row are not told from the row");
    bool weighs = fe->options->invariant && a->weight && !clipped && !s->examples.json && !s->examples.asked;
    if (weighs && !fe_step_weight_of_inputs(s)) return false;
    ir_value share = weighs ? fe_step_share_of_weight(s, trace, count) : 0;
    if (weighs && !share) return false;
    bool good = trace_microbatch(s, trace, grads, clipped, share, rows, &t);
    if (rows != a->rows || weighs) {
        size_t funcs = s->module->funcs.count;
        int64_t others = rows_beside(a, rows);
        if (!good && rows == a->rows) return false;
        bool alike = trace_microbatch(s, trace, grads, clipped, share, others, &asked);
        if (!alike && others == a->rows) return false;
        if (!alike)
            return fe_step_depends(s, a->json,
                                   arena_format(fe->arena, "%s have to be possible for microbatches of %lld rows, too",
                                                weighs ? "means by a weight" : "sums over single rows",
                                                (long long)others));
        if (!good)
            return fe_step_depends(s, a->json,
                                   arena_format(fe->arena,
                                                "the number of microbatches has to be a power of two where "
                                                "microbatches of %lld rows cannot be",
                                                (long long)rows));
        if (!fe_step_grows_alike(s, &asked.part, &t.part)) return false;
        if (rows >= 2 * a->rows) {
            const char *why = a->rows > 1 ? ", not of %lld: these hold no whole leaf of a sum over rows"
                                          : " or more, not of %lld: a sum over one row is not told from the row";
            struct diag *d = fe_warning(fe, a->json, "W0434", "--numerics invariant makes microbatches of %lld rows%s",
                                        (long long)rows, arena_format(fe->arena, why, (long long)a->rows));
            d->hint = arena_format(fe->arena, "\"microbatch_size\": %lld says so; memory is that of %lld rows",
                                   (long long)rows, (long long)rows);
        }
        s->module->funcs.count = funcs;
    } else if ((fe->options->invariant || fe->options->regrouped) && count > 1 && !clipped && !a->real)
        good = good && check_scale(s, trace, grads, &t);
    if (!good) return false;
    ir_value real = fe_step_real_parts(s, trace, a->real, count);
    if (!real) return false;
    trace->b->place = fe_place(fe, a->json);
    ir_value tuple = fe_part_end(s, &t.part, trace, real, count, a->split);
    if (t.weight.v) total = term_tensor(ir_proj(trace->b, tuple, t.weights));

    ir_value *all = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (t.inner.grads[i]) all[i] = get_result(trace->b, tuple, t.at[i], total);
    if (grads) out->grads = all;
    out->metrics = arena_new_array(fe->arena, ir_value, s->metric_count);
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (t.inner.metrics[i]) out->metrics[i] = get_result(trace->b, tuple, t.at[s->param_count + i], total);
    out->loss = out->metrics[0];
    out->env = fe_step_outer_env(s, trace, out->loss);
    return true;
}

bool fe_step_outcome(struct fe_step *s, struct fe_trace *trace, bool grads, struct fe_outcome *out)
{
    return s->accumulate.json ? by_microbatches(s, trace, grads, NULL, out) : inner_outcome(s, trace, grads, NULL, out);
}

/* Where an optimizer asks for clipped sums, loss, metrics and statistics are those of the same examples: what was
 * computed over the whole batch is not needed any more. */
bool fe_step_clipped_sum(struct fe_optim_state *o, const struct optim_clipped *clipped, ir_value *sums,
                         int64_t *examples)
{
    struct fe_step *s = o->user;
    struct fe_outcome out = {0};
    fe_json optimizer = fe_member(s->fe, fe_root(s->fe), "optimizer");
    if (!fe_step_batch_rows(s, optimizer, examples)) return false;
    memset(o->trace->statistics, 0, s->param_count * sizeof *o->trace->statistics);
    if (s->accumulate.json ? !by_microbatches(s, o->trace, true, clipped, &out)
                           : !inner_outcome(s, o->trace, true, clipped, &out))
        return false;
    s->scale.checked = out.grads = fe_step_rounded(s, o->b, out.grads);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (clipped->leaves[i]) sums[i] = out.grads[i];
    s->examples.asked = true;
    s->outcome->loss = out.loss;
    s->outcome->metrics = out.metrics;
    s->outcome->env = out.env;
    return true;
}

/* ---------------------------------------------------------------- value and gradient elsewhere */

/* Loss and rounded gradients of the batch as the step has them: in microbatches, by examples. Its metrics are not asked
 * for. */
static bool value_and_grad(struct fe_step *s, struct fe_trace *trace, ir_value *loss, const ir_value **grads)
{
    struct fe_outcome out = {0};
    uint32_t metrics = s->metric_count;
    s->metric_count = 1; /* the loss */
    bool good = fe_step_outcome(s, trace, true, &out);
    s->metric_count = metrics;
    if (!good) return false;
    *loss = out.loss;
    *grads = fe_step_rounded(s, trace->b, out.grads);
    return true;
}

/* (trained parameters.., other parameters.., inputs..) -> (loss, gradients of the trained ones..), over the whole
 * batch; what comes after the trained parameters is captured. NULL: errors were recorded. */
struct ir_func *fe_step_value_and_grad(struct fe_optim_state *o, const ir_value **captured, uint32_t *count)
{
    struct fe_step *s = o->user;
    struct fe *fe = s->fe;
    if (!o->value_and_grad_func) {
        struct fe_trace trace = {.train = true};
        struct ir_func *func = ir_func_new(s->module, "value_and_grad", false);
        struct ir_builder b = {.f = func};
        ir_value *inputs = arena_new_array(fe->arena, ir_value, s->input_count + 1),
                 *params = arena_new_array(fe->arena, ir_value, s->param_count + 1), loss;
        ir_value *outer = arena_new_array(fe->arena, ir_value, s->input_count + s->param_count + 2);
        const ir_value *grads;
        for (uint32_t i = 0; i < s->param_count; i++)
            if (s->trained[i]) params[i] = ir_param_new(&b, s->params[i].path, s->params[i].type, -1);
        for (uint32_t i = 0; i < s->param_count; i++)
            if (!s->trained[i]) {
                params[i] = ir_param_new(&b, s->params[i].path, s->params[i].type, -1);
                outer[o->captured_count++] = fe_trace_param(fe, o->trace, i);
            }
        for (uint32_t i = 0; i < s->input_count; i++) {
            const struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
            inputs[i] = ir_param_new(&b, slot->name, slot->type, -1);
            outer[o->captured_count++] = o->trace->inputs[i];
        }
        if (o->trace->scale) {
            trace.scale = ir_param_new(&b, "loss_scale", *ir_type(o->b->f, o->trace->scale), -1);
            outer[o->captured_count++] = o->trace->scale;
        }
        trace.b = &b, trace.inputs = inputs, trace.params = params;
        trace.statistics = arena_new_array(fe->arena, ir_value, s->param_count + 1);
        if (!value_and_grad(s, &trace, &loss, &grads)) return NULL;
        ir_result_add(&b, "loss", loss, -1);
        for (uint32_t i = 0; i < s->param_count; i++)
            if (s->trained[i]) ir_result_add(&b, s->params[i].path, grads[i], -1);
        o->value_and_grad_func = func;
        o->captured = outer;
    }
    *captured = o->captured;
    *count = o->captured_count;
    return o->value_and_grad_func;
}
