/* Gradients of single examples (as optax.microbatching.micro_grad): the loss sees a batch of one; each example's
 * gradient is measured, transformed and accumulated. Examples come in groups: within a group the function of one
 * example is applied to all at once (the marker vmap), and the groups are accumulated, so memory holds the gradients of
 * one group. Also the clipped sums that differentially private optimizers ask for. */
#include "frontend/step/assemble.h"
#include <string.h>

/* ---------------------------------------------------------------- the document */

enum { EX_SIZE, EX_TRANSFORM, EX_METRICS, EX_KIND, EX_REAL, EX_COUNT };
enum { METRIC_EXPR, METRIC_KIND, METRIC_COUNT };
static const struct fe_arg metric_rows[METRIC_COUNT] = {
    {"expr", FE_EXPR, FE_REQUIRED, NULL, NULL},
    {"accumulator", FE_ENUM, 0, "\"concat\"", "sum|mean|running_mean|concat"},
};

static int64_t kind_of(const char *name)
{
    int64_t kind = 0;
    while (strcmp(fe_accumulators[kind], name)) kind++;
    return kind;
}

/* The metrics as the document gives them: trees are taken apart later. */
static bool read_metrics(struct fe_step *s, fe_json map, struct fe_metric *out, uint32_t *count)
{
    struct fe *fe = s->fe;
    bool good = true;
    for (fe_json m = fe_first(fe, map); m; m = fe_next(fe, m)) {
        struct fe_metric metric = {.name = m->key, .json = m, .example = true, .kind = FE_CONCATENATE};
        if (m->kind == JSON_OBJECT) {
            struct fe_value v[METRIC_COUNT] = {0};
            const char *what = arena_format(fe->arena, "metric \"%s\"", m->key);
            if (!fe_settings(fe, m, what, metric_rows, METRIC_COUNT, NULL, v)) {
                good = false;
                continue;
            }
            metric.json = v[METRIC_EXPR].json;
            metric.kind = kind_of(v[METRIC_KIND].string);
        }
        out[(*count)++] = metric;
    }
    return good;
}

/* ---------------------------------------------------------------- one example */

/* What metrics of an example see: also its gradients and their norms by parameter. */
static const struct fe_env *example_env(struct fe_step *s, struct fe_trace *trace, const ir_value *grads)
{
    ir_value *norms = arena_new_array(s->fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (grads[i])
            norms[i] = term_sqrt(trace->b, term_sum(trace->b, term_square(trace->b, term_tensor(grads[i])))).v;
    const struct fe_env *env = fe_bind(s->fe->arena, trace->env, "grads", fe_step_tree(s, grads));
    return fe_bind(s->fe->arena, env, "per_param_norm", fe_step_tree(s, norms));
}

/* Metrics of the example, one value each. */
static bool example_metrics(struct fe_step *s, struct fe_trace *trace, const ir_value *grads, ir_value *out)
{
    const struct fe_env *env = example_env(s, trace, grads);
    struct fe_val v = {0};
    fe_json last = NULL;
    for (uint32_t i = 0; i < s->metric_count; i++) {
        const struct fe_metric *m = &s->metrics[i];
        if (!m->example) continue;
        trace->b->place = fe_place(s->fe, m->json);
        if (m->json != last) v = fe_expr(s->fe, trace, m->json, env);
        last = m->json;
        if (v.bad) return false;
        out[i] = v.kind == FE_VAL_TREE ? v.tree->values[m->leaf] : fe_tensor(s->fe, trace, &v, m->json);
        if (!out[i]) return false;
    }
    return true;
}

/* An expression over `update` and `param`, or a transformation without state. */
static bool apply_transform(struct fe_step *s, struct fe_optim_state *o, fe_json json, uint32_t number, ir_value *u)
{
    struct fe *fe = s->fe;
    size_t errors = fe->diags->errors;
    if (json->kind == JSON_OBJECT)
        optim_apply(o, json, arena_format(fe->arena, "per_example.%u", number), u, o->trained);
    else optim_map(o, json, u, o->trained);
    if (fe->diags->errors == errors && o->slots.count)
        fe_error(fe, json, "E0433",
                 "this transformation keeps a state (\"%s\"): it cannot be applied to single examples",
                 o->slots.items[0].name);
    return fe->diags->errors == errors;
}

/* Means are of floats, and so are norms; of anything else there are only sums. */
static bool can_accumulate(struct fe_step *s, struct fe_trace *trace, fe_json list, bool clipped, const ir_value *u)
{
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct ir_type *type = u[i] ? ir_type(trace->b->f, u[i]) : NULL;
        if (!type || ir_dtype_is_float((enum ir_dtype)type->dtype) || (s->examples.kind == FE_SUM && !clipped))
            continue;
        return fe_wrong(s->fe, list, "E0433", "the gradient of an example by \"%s\" becomes %s, which cannot be %s",
                        s->params[i].path, ir_type_text(s->fe->arena, type), clipped ? "clipped" : "averaged");
    }
    return true;
}

/* The list `transform`, in order, on the gradients of one example. */
static bool transform_example(struct fe_step *s, struct fe_trace *trace, ir_value loss, const ir_value *grads,
                              bool clipped, ir_value *u)
{
    struct fe *fe = s->fe;
    fe_json list = s->examples.json ? s->examples.transform : NULL;
    ir_value *params = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (grads[i]) u[i] = grads[i], params[i] = fe_trace_param(fe, trace, i);
    struct fe_optim_state o = {.fe = fe,
                               .trace = trace,
                               .b = trace->b,
                               .count = s->param_count,
                               .params = s->params,
                               .by_name = MAP(fe->arena),
                               .example = true,
                               .value = loss,
                               .grads = grads,
                               .trained = params,
                               .before = params,
                               .user = s};
    uint32_t number = 0;
    for (fe_json t = list ? fe_first(fe, list) : NULL; t; t = fe_next(fe, t)) {
        trace->b->place = fe_place(fe, t);
        for (uint32_t i = 0; number && i < s->param_count; i++) /* from a comparison */
            if (u[i] && !ir_dtype_is_float((enum ir_dtype)ir_type(trace->b->f, u[i])->dtype))
                u[i] = ir_cast(trace->b, u[i], IR_F32);
        if (!apply_transform(s, &o, t, number++, u)) return false;
    }
    return !list || can_accumulate(s, trace, list, clipped, u);
}

/* Loss, gradients (0 where not trained) and metrics of one example. */
static bool example(struct fe_step *s, struct fe_trace *trace, bool grads, const struct optim_clipped *clipped,
                    struct fe_outcome *out)
{
    if (!fe_step_whole(s, trace, grads, out)) return false;
    if (!grads) return true;
    ir_value *u = arena_new_array(s->fe->arena, ir_value, s->param_count + 1);
    if (!example_metrics(s, trace, out->grads, out->metrics)) return false;
    if (!transform_example(s, trace, out->loss, out->grads, clipped != NULL, u)) return false;
    if (clipped) optim_clip_example(trace->b, s->param_count, clipped->leaves, clipped->norm, u);
    out->grads = u;
    return true;
}

/* ---------------------------------------------------------------- a group of examples */

/* One value for all examples of a group from one for each. */
static ir_value aggregate(struct ir_builder *b, ir_value all, int64_t kind)
{
    if (kind == FE_CONCATENATE) return all;
    return kind == FE_SUM ? term_sum_rows(b, all) : term_mean_rows(b, all);
}

/* Row metrics of a batch of one, [1, ..] each, as rows of the group. */
static ir_value join(struct ir_builder *b, ir_value all)
{
    struct ir_type type = *ir_type(b->f, all);
    for (uint32_t i = 2; i < type.rank; i++) type.dim[i - 1] = type.dim[i];
    return ir_reshape(b, all, type.rank - 1u, type.dim);
}

struct group {
    struct fe_rows_part part;
    int64_t *kinds;        /* per metric */
    struct fe_outcome out; /* in the group's function */
};

/* The group's function: all its examples, then one value for all of them. */
static bool make_group(struct fe_step *s, struct group *g, bool grads, const struct optim_clipped *clipped,
                       int64_t grads_kind)
{
    struct fe *fe = s->fe;
    struct ir_builder *b = &g->part.b;
    struct optim_clipped within = clipped ? *clipped : (struct optim_clipped){0};
    struct fe_outcome one = {0};
    struct fe_rows_part part;
    int64_t rows = g->part.rows.count;
    if (!fe_part_begin(s, &part, &g->part.trace, PART_EXAMPLE, 1, g->part.extra)) return false;
    if (part.extra) within.norm.v = part.extra;
    if (!example(s, &part.trace, grads, clipped ? &within : NULL, &one)) return false;
    uint32_t *at = arena_new_array(fe->arena, uint32_t, s->param_count + s->metric_count + 1);
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (one.grads[i]) at[i] = fe_part_result(s, &part, s->params[i].path, one.grads[i], 0);
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (one.metrics[i]) at[s->param_count + i] = fe_part_result(s, &part, s->metrics[i].name, one.metrics[i], 0);
    b->place = fe_place(fe, s->examples.json ? s->examples.json : fe_member(fe, fe_root(fe), "optimizer"));
    ir_value tuple = fe_part_end(s, &part, &g->part.trace, 0, rows, 0);

    ir_value *all = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    bool good = true;
    g->out.metrics = arena_new_array(fe->arena, ir_value, s->metric_count + 1);
    g->kinds = arena_new_array(fe->arena, int64_t, s->metric_count + 1);
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (one.grads[i]) all[i] = aggregate(b, ir_proj(b, tuple, at[i]), grads_kind);
    for (uint32_t i = 0; i < s->metric_count; i++) {
        if (!one.metrics[i]) continue;
        const struct fe_metric *m = &s->metrics[i];
        ir_value v = ir_proj(b, tuple, at[s->param_count + i]);
        struct ir_type type = m->example ? *ir_type(b->f, v) : *ir_type(part.b.f, one.metrics[i]);
        g->kinds[i] = s->examples.kind;
        if (i && !fe_step_metric_kind(s, m, NULL, 1, s->examples.kind, &type, &g->kinds[i])) {
            good = false;
            continue;
        }
        if (!m->example && g->kinds[i] == FE_CONCATENATE) v = join(b, v);
        g->out.metrics[i] = aggregate(b, v, g->kinds[i]);
    }
    g->out.grads = all;
    return good;
}

/* How many examples of `rows` are computed at once. Asked for by an optimizer alone: few, since the gradient of each is
 * there as a whole. */
static int64_t group_size(const struct fe_step *s, int64_t rows)
{
    int64_t size = 16;
    if (s->examples.json) return s->examples.rows ? s->examples.rows : rows;
    while (rows % size) size--;
    return size;
}

bool fe_step_examples(struct fe_step *s, struct fe_trace *trace, bool grads, const struct optim_clipped *clipped,
                      struct fe_outcome *out)
{
    struct fe *fe = s->fe;
    fe_json where = s->examples.json ? s->examples.json : fe_member(fe, fe_root(fe), "optimizer");
    struct group g = {0};
    int64_t rows = 0, grads_kind = clipped ? FE_SUM : s->examples.kind;
    if (trace->rows) rows = trace->rows->count;
    else if (!fe_step_batch_rows(s, where, &rows)) return false;
    int64_t size = group_size(s, rows), count = rows / size;
    if (!fe_part_begin(s, &g.part, trace, PART_EXAMPLES, size, clipped ? clipped->norm.v : 0)) return false;
    if (!make_group(s, &g, grads, clipped, grads_kind)) return false;
    uint32_t *at = arena_new_array(fe->arena, uint32_t, s->param_count + s->metric_count + 1);
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (g.out.grads[i]) at[i] = fe_part_result(s, &g.part, s->params[i].path, g.out.grads[i], grads_kind);
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (g.out.metrics[i])
            at[s->param_count + i] = fe_part_result(s, &g.part, s->metrics[i].name, g.out.metrics[i], g.kinds[i]);
    ir_value real = fe_step_real_parts(s, trace, s->examples.real, count);
    if (!real) return false;
    trace->b->place = fe_place(fe, where);
    ir_value tuple = fe_part_end(s, &g.part, trace, real, count, 0);

    ir_value *all = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    int64_t *kinds = arena_new_array(fe->arena, int64_t, s->param_count + s->metric_count + 1);
    out->metrics = arena_new_array(fe->arena, ir_value, s->metric_count + 1);
    out->kinds = kinds;
    for (uint32_t i = 0; i < s->param_count; i++) kinds[i] = grads_kind;
    memcpy(kinds + s->param_count, g.kinds, s->metric_count * sizeof *kinds);
    for (uint32_t i = 0; grads && i < s->param_count; i++)
        if (g.out.grads[i]) all[i] = ir_proj(trace->b, tuple, at[i]);
    for (uint32_t i = 0; grads && i < s->param_count; i++) /* counts, if a transformation compares */
        if (all[i] && !ir_dtype_is_float((enum ir_dtype)ir_type(trace->b->f, all[i])->dtype))
            all[i] = ir_cast(trace->b, all[i], IR_F32);
    if (grads) out->grads = all;
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (g.out.metrics[i]) out->metrics[i] = ir_proj(trace->b, tuple, at[s->param_count + i]);
    out->loss = out->metrics[0];
    out->env = fe_step_outer_env(s, trace, out->loss);
    return true;
}

/* ---------------------------------------------------------------- reading */

/* Metrics that are trees become one per value, named <name>.<path>: what they are shows a trace of one example. */
static bool take_trees_apart(struct fe_step *s, const struct fe_metric *given, uint32_t count)
{
    struct fe *fe = s->fe;
    size_t funcs = s->module->funcs.count;
    struct ir_builder b = {.f = ir_func_new(s->module, "probe", true)};
    struct fe_trace outer = {.b = &b, .inputs = fe_step_inputs(s, &b, NULL)};
    struct fe_outcome out = {0};
    struct fe_rows_part part;
    VEC(struct fe_metric) all = {0};
    struct map seen = MAP(fe->arena);
    bool good = fe_part_begin(s, &part, &outer, PART_EXAMPLE, 1, 0) && fe_step_whole(s, &part.trace, true, &out);
    const struct fe_env *env = good ? example_env(s, &part.trace, out.grads) : NULL;
    for (uint32_t i = 0; i < s->metric_count; i++) {
        vec_push(fe->arena, &all, s->metrics[i]);
        map_set(&seen, s->metrics[i].name, i);
    }
    map_set(&seen, "step", 0);
    for (uint32_t i = 0; good && i < count; i++) {
        struct fe_metric m = given[i];
        struct fe_val v = fe_expr(fe, &part.trace, m.json, env);
        uint32_t parts = v.kind == FE_VAL_TREE ? v.tree->count : 1;
        good &= !v.bad && (v.kind == FE_VAL_TREE || fe_tensor(fe, &part.trace, &v, m.json));
        for (m.leaf = 0; good && m.leaf < parts; m.leaf++) {
            m.name = given[i].name;
            if (v.kind == FE_VAL_TREE) m.name = arena_format(fe->arena, "%s.%s", m.name, v.tree->paths[m.leaf]);
            if (!map_set(&seen, m.name, 0)) {
                fe_error_key(fe, given[i].json, "E0110", "metric \"%s\" is reported twice", m.name);
                good = false;
            }
            vec_push(fe->arena, &all, m);
        }
    }
    s->module->funcs.count = funcs;
    s->metrics = all.items;
    s->metric_count = (uint32_t)all.count;
    return good;
}

bool fe_step_examples_read(struct fe_step *s, fe_json json)
{
    struct fe *fe = s->fe;
    struct fe_examples *e = &s->examples;
    struct fe_value v[EX_COUNT] = {0};
    struct fe_metric *metrics;
    uint32_t count = 0;
    int64_t rows = 0;
    bool any = false;
    *e = (struct fe_examples){.kind = FE_MEAN};
    if (!json) return true;
    for (uint32_t i = 0; i < s->input_count; i++) any |= fe_input_batched(fe, i);
    if (!any)
        return fe_wrong_key(fe, json, "E0430", "\"per_example\" needs an input whose \"axes\" begin with \"batch\"");
    if (!fe_setting(fe, FE_SETTING_per_example, json, "\"per_example\"", v) || !fe_step_batch_rows(s, json, &rows))
        return false;
    *e = (struct fe_examples){.json = json,
                              .rows = v[EX_SIZE].null ? 0 : v[EX_SIZE].integer,
                              .kind = (uint32_t)kind_of(v[EX_KIND].string),
                              .transform = v[EX_TRANSFORM].json,
                              .real = v[EX_REAL].null ? NULL : v[EX_REAL].json};
    if (s->accumulate.json) rows = s->accumulate.rows;
    if (e->rows && rows % e->rows)
        return fe_wrong(fe, v[EX_SIZE].json, "E0431", "microbatches of %lld rows do not divide the %s of %lld rows",
                        (long long)e->rows, s->accumulate.json ? "microbatch" : "batch", (long long)rows);
    if (!v[EX_METRICS].json) return true;
    metrics = arena_new_array(fe->arena, struct fe_metric, fe_count(fe, v[EX_METRICS].json) + 1);
    return read_metrics(s, v[EX_METRICS].json, metrics, &count) && take_trees_apart(s, metrics, count);
}
