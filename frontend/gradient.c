/* Loss and gradients of one step: at once, or microbatch by microbatch through the accumulate marker, whose body holds
 * a grad marker of its own. Also the function that line searches call for the value and gradient at other parameters. */
#include "frontend/step.h"
#include <string.h>

/* Gradients of a loss by the trained parameters of a trace: one per parameter, 0 where not trained. */
static ir_value *gradients(struct step *s, struct fe_trace *trace, ir_value loss)
{
    struct fe *fe = s->fe;
    ir_value *wrt = arena_new_array(fe->arena, ir_value, s->param_count + 1),
             *grads = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    uint32_t n = 0, k = 0;
    for (uint32_t i = 0; i < s->param_count; i++)
        if (s->trained[i]) wrt[n++] = fe_trace_param(fe, trace, i);
    trace->b->place = fe_place(fe, fe_member(fe, fe_root(fe), "loss"));
    ir_value tuple = ir_grad(trace->b, loss, wrt, n);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (s->trained[i]) grads[i] = ir_proj(trace->b, tuple, k++);
    return grads;
}

/* Loss, early metrics and gradients with what the trace was given. */
static bool whole_batch(struct step *s, struct fe_trace *trace, bool grads, struct outcome *out)
{
    if (!fe_trace_model(s->fe, trace) || !fe_trace_loss(s->fe, trace)) return false;
    out->loss = trace->loss.tensor;
    out->env = trace->env;
    out->metrics = arena_new_array(s->fe->arena, ir_value, s->metric_count);
    out->metrics[0] = out->loss;
    if (grads) out->grads = gradients(s, trace, out->loss);
    return fe_step_metrics(s, trace, trace->env, false, out->metrics);
}

/* ---------------------------------------------------------------- accumulation: the document */

enum { ACC_SIZE, ACC_KIND, ACC_SPLIT, ACC_REAL, ACC_METRICS, ACC_COUNT };
static const struct fe_arg accumulate_rows[ACC_COUNT] = {
    {"microbatch_size", FE_INTEGER, FE_REQUIRED | FE_POSITIVE, NULL, NULL},
    {"accumulator", FE_ENUM, 0, "\"mean\"", "sum|mean|running_mean"},
    {"split", FE_ENUM, 0, "\"strided\"", "strided|contiguous"},
    {"num_real_microbatches", FE_EXPR, FE_NULLABLE, "null", NULL},
    {"metrics", FE_MAP, 0, NULL, NULL},
};
static const char *const accumulators[] = {"sum", "mean", "running_mean", "concat"};
enum { SUM, MEAN, RUNNING_MEAN, CONCATENATE };

/* The rows of the batch, which all batched inputs share. */
static bool batch_rows(struct step *s, fe_json json, int64_t *rows)
{
    const char *first = NULL;
    for (uint32_t i = 0; i < s->input_count; i++) {
        const struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
        if (!fe_input_batched(s->fe, i)) continue;
        if (!first) {
            first = slot->name;
            *rows = slot->type.dim[0];
        } else if (slot->type.dim[0] != *rows) {
            fe_error(s->fe, json, "E0204",
                     "inputs have batches of different sizes: \"%s\" has %lld rows, \"%s\" has %lld", first,
                     (long long)*rows, slot->name, (long long)slot->type.dim[0]);
            return false;
        }
    }
    if (!first) fe_error(s->fe, json, "E0430", "no input has a batch to split");
    return first != NULL;
}

/* accumulate.metrics: names of metrics that are computed per microbatch, with an accumulator each. */
static bool check_kinds(struct step *s, fe_json kinds)
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
        while (a <= CONCATENATE && (k->kind != JSON_STRING || strcmp(accumulators[a], k->string))) a++;
        if (a > CONCATENATE) {
            struct diag *d = fe_error(
                fe, k, "E0103", "expected an accumulator (sum, mean, running_mean, concat), found %s", fe_found(fe, k));
            if (k->kind == JSON_STRING) fe_suggest(fe, d, k->string, accumulators, CONCATENATE + 1);
            good = false;
        }
    }
    return good;
}

bool fe_step_accumulation(struct step *s, fe_json json)
{
    struct accumulation *a = &s->accumulate;
    struct fe_value v[ACC_COUNT] = {0};
    int64_t rows = 0;
    if (!json) return true;
    if (!fe_settings(s->fe, json, "\"accumulate\"", accumulate_rows, ACC_COUNT, NULL, v) || !batch_rows(s, json, &rows))
        return false;
    *a = (struct accumulation){.json = json,
                               .rows = v[ACC_SIZE].integer,
                               .real = v[ACC_REAL].null ? NULL : v[ACC_REAL].json,
                               .kinds = v[ACC_METRICS].json};
    while (strcmp(accumulators[a->kind], v[ACC_KIND].string)) a->kind++;
    a->split = strcmp(v[ACC_SPLIT].string, "contiguous") == 0;
    if (rows % a->rows) {
        fe_error(s->fe, v[ACC_SIZE].json, "E0431", "microbatches of %lld rows do not divide the batch of %lld rows",
                 (long long)a->rows, (long long)rows);
        return false;
    }
    a->microbatches = rows / a->rows;
    for (uint32_t i = 0; i < s->param_count; i++)
        if (s->params[i].statistic) {
            fe_error(s->fe, json, "E0111", "\"accumulate\" with running statistics (\"%s\") is not supported yet",
                     s->params[i].path);
            return false;
        }
    return !a->kinds || check_kinds(s, a->kinds);
}

/* ---------------------------------------------------------------- accumulation: the marker */

/* The body's trace: parts of the batched inputs first, then parameters, then the other inputs; `outer` gets the
 * operands in the same order. */
static uint32_t body_params(struct step *s, struct fe_trace *body, struct fe_trace *trace, ir_value *outer,
                            uint32_t *batched)
{
    struct fe *fe = s->fe;
    uint32_t n = 0;
    ir_value *inputs = arena_new_array(fe->arena, ir_value, s->input_count + 1),
             *params = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->input_count; i++) {
        struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
        struct ir_type type = slot->type;
        if (!fe_input_batched(fe, i)) continue;
        type.dim[0] = s->accumulate.rows;
        inputs[i] = ir_param_new(body->b, slot->name, type, -1);
        outer[n++] = trace->inputs[i];
    }
    *batched = n;
    for (uint32_t i = 0; i < s->param_count; i++) {
        params[i] = ir_param_new(body->b, s->params[i].path, s->params[i].type, -1);
        outer[n++] = fe_trace_param(fe, trace, i);
    }
    for (uint32_t i = 0; i < s->input_count; i++)
        if (!inputs[i]) {
            struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
            inputs[i] = ir_param_new(body->b, slot->name, slot->type, -1);
            outer[n++] = trace->inputs[i];
        }
    body->inputs = inputs;
    body->params = params;
    return n;
}

/* How a metric is accumulated: as accumulate.metrics says; rows are put together; else as the gradients are. */
static bool metric_kind(struct step *s, const struct metric *m, const struct ir_type *type, int64_t *kind)
{
    fe_json own = s->accumulate.kinds ? fe_member(s->fe, s->accumulate.kinds, m->name) : NULL;
    *kind = type->rank > 0 && type->dim[0] == s->accumulate.rows ? CONCATENATE : s->accumulate.kind;
    for (uint32_t a = 0; own && a <= CONCATENATE; a++)
        if (strcmp(accumulators[a], own->string) == 0) *kind = a;
    if (*kind == CONCATENATE && !type->rank) {
        fe_error(s->fe, own, "E0432", "metric \"%s\" is one number per microbatch: there are no rows to put together",
                 m->name);
        return false;
    }
    if (*kind == CONCATENATE || ir_dtype_is_float(type->dtype) || (*kind == SUM && type->dtype != IR_BOOL)) return true;
    fe_error(s->fe, own ? own : m->json, "E0432", "metric \"%s\" has type %s, which %s cannot accumulate", m->name,
             ir_type_text(s->fe->arena, type), accumulators[*kind]);
    return false;
}

/* The number of microbatches to run: an int32 scalar, at most all. */
static ir_value real_microbatches(struct step *s, struct fe_trace *trace, const struct fe_env *env)
{
    struct ir_builder *b = trace->b;
    fe_json real = s->accumulate.real;
    struct term all = term_integer(s->accumulate.microbatches);
    if (!real) return ir_scalar(b, IR_I32, all.number);
    b->place = fe_place(s->fe, real);
    struct fe_val v = fe_expr(s->fe, trace, real, env);
    ir_value n = v.bad ? 0 : fe_tensor(s->fe, trace, &v, real);
    if (!n) return 0;
    if (ir_type(b->f, n)->rank || !ir_dtype_is_integer(ir_type(b->f, n)->dtype)) {
        fe_error(s->fe, real, "E0432", "expected a number of microbatches, found %s",
                 ir_type_text(s->fe->arena, ir_type(b->f, n)));
        return 0;
    }
    return term_min(b, term_cast(b, term_tensor(n), IR_I32), all).v;
}

/* Inputs, constants' outer names and parameters: what expressions around the microbatches see. */
static const struct fe_env *outer_env(struct step *s, struct fe_trace *trace, ir_value loss)
{
    struct fe *fe = s->fe;
    const struct fe_env *env = NULL;
    for (uint32_t i = 0; i < s->input_count; i++) {
        struct fe_env *e = arena_new(fe->arena, struct fe_env);
        *e = (struct fe_env){env, s->module->slots.items[s->inputs[i]].name, fe_val_tensor(trace->inputs[i])};
        env = e;
    }
    struct fe_tree *tree = arena_new(fe->arena, struct fe_tree);
    const char **paths = arena_new_array(fe->arena, const char *, s->param_count + 1);
    ir_value *values = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++)
        paths[i] = s->params[i].path, values[i] = fe_trace_param(fe, trace, i);
    *tree = (struct fe_tree){paths, values, s->param_count};
    struct fe_env *params = arena_new(fe->arena, struct fe_env), *last = arena_new(fe->arena, struct fe_env);
    *params = (struct fe_env){env, "params", {.kind = FE_VAL_TREE, .tree = tree}};
    if (!loss) return params;
    *last = (struct fe_env){params, "loss", fe_val_tensor(loss)};
    return last;
}

static ir_value marker(struct step *s, struct ir_builder *b, struct ir_func *body, const ir_value *args, uint32_t count,
                       uint32_t batched, const int64_t *kinds)
{
    int64_t n = batched, microbatches = s->accumulate.microbatches, split = s->accumulate.split;
    struct ir_node node = {.op = OP_accumulate, .arg_count = count, .args = args, .func = ir_func_index(body)};
    node.attr[0] = (struct ir_ints){&n, 1};
    node.attr[1] = (struct ir_ints){&microbatches, 1};
    node.attr[2] = (struct ir_ints){&split, 1};
    node.attr[3] = (struct ir_ints){kinds, (uint32_t)body->results.count};
    return ir_make(b, node);
}

static bool by_microbatches(struct step *s, struct fe_trace *trace, bool grads, struct outcome *out)
{
    struct fe *fe = s->fe;
    struct ir_func *func = ir_func_new(s->module, grads ? "microbatch" : "microbatch_loss", false);
    struct ir_builder b = fe_step_builder(s, func), *outer_b = trace->b;
    struct fe_trace body = {.b = &b, .train = trace->train};
    ir_value *args = arena_new_array(fe->arena, ir_value, s->input_count + s->param_count + 2);
    uint32_t batched = 0, count = 1 + body_params(s, &body, trace, args + 1, &batched), n = 0;
    struct outcome part = {0};
    if (!whole_batch(s, &body, grads, &part)) return false;

    int64_t *kinds = arena_new_array(fe->arena, int64_t, s->param_count + s->metric_count + 1);
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (s->trained[i]) kinds[n++] = s->accumulate.kind, ir_result_add(&b, s->params[i].path, part.grads[i], -1);
    bool good = true;
    for (uint32_t i = 0; i < s->metric_count; i++) {
        if (!part.metrics[i]) continue;
        kinds[n] = s->accumulate.kind;
        if (i) good &= metric_kind(s, &s->metrics[i], ir_type(func, part.metrics[i]), &kinds[n]);
        ir_result_add(&b, s->metrics[i].name, part.metrics[i], -1);
        n++;
    }
    args[0] = real_microbatches(s, trace, outer_env(s, trace, 0));
    if (!good || !args[0]) return false;
    outer_b->place = fe_place(fe, s->accumulate.json);
    ir_value tuple = marker(s, outer_b, func, args, count, batched, kinds);

    ir_value *all = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    n = 0;
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (s->trained[i]) all[i] = ir_proj(outer_b, tuple, n++);
    if (grads) out->grads = all;
    out->metrics = arena_new_array(fe->arena, ir_value, s->metric_count);
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (part.metrics[i]) out->metrics[i] = ir_proj(outer_b, tuple, n++);
    out->loss = out->metrics[0];
    out->env = outer_env(s, trace, out->loss);
    return true;
}

bool fe_step_outcome(struct step *s, struct fe_trace *trace, bool grads, struct outcome *out)
{
    return s->accumulate.json ? by_microbatches(s, trace, grads, out) : whole_batch(s, trace, grads, out);
}

/* ---------------------------------------------------------------- value and gradient elsewhere */

/* (trained parameters.., other parameters.., inputs..) -> (loss, gradients of the trained ones..), over the whole batch;
 * what comes after the trained parameters is captured. NULL: errors were recorded. */
struct ir_func *fe_step_value_and_grad(struct fe_optim_state *o, const ir_value **captured, uint32_t *count)
{
    struct step *s = o->user;
    struct fe *fe = s->fe;
    if (!o->value_and_grad_func) {
        struct ir_func *func = ir_func_new(s->module, "value_and_grad", false);
        struct ir_builder b = fe_step_builder(s, func);
        ir_value *inputs = arena_new_array(fe->arena, ir_value, s->input_count + 1),
                 *params = arena_new_array(fe->arena, ir_value, s->param_count + 1);
        ir_value *outer = arena_new_array(fe->arena, ir_value, s->input_count + s->param_count + 1);
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
        struct fe_trace trace = {.b = &b, .train = true, .inputs = inputs, .params = params};
        trace.statistics = arena_new_array(fe->arena, ir_value, s->param_count + 1);
        if (!fe_trace_model(fe, &trace) || !fe_trace_loss(fe, &trace)) return NULL;
        const ir_value *grads = gradients(s, &trace, trace.loss.tensor);
        ir_result_add(&b, "loss", trace.loss.tensor, -1);
        for (uint32_t i = 0; i < s->param_count; i++)
            if (s->trained[i]) ir_result_add(&b, s->params[i].path, grads[i], -1);
        o->value_and_grad_func = func;
        o->captured = outer;
    }
    *captured = o->captured;
    *count = o->captured_count;
    return o->value_and_grad_func;
}
