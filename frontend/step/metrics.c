/* Metrics: expressions that every step reports beside the loss. Those over gradients and updates come after the
 * update, the others are computed where the loss is, microbatch by microbatch if there are any. */
#include "frontend/step/assemble.h"
#include <ctype.h>
#include <string.h>

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool fe_step_names(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += n) {
        bool begins = at == text || (!is_word(at[-1]) && at[-1] != '.');
        if (begins && !is_word(at[n])) return true;
    }
    return false;
}

static bool is_late(fe_json json)
{
    static const char *const names[] = {"grads", "updates", "hyperparams", "loss_scale"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json->kind == JSON_STRING && fe_step_names(json->string, names[i])) return true;
    return false;
}

/* ---------------------------------------------------------------- metric objects */

/* What T5X's WeightMetricsComputer reports of every trained parameter after the update, as <name>/<path>; the norm is
 * that of all gradients. */
enum measure { WEIGHT_RMS, GRADIENT_RMS, UPDATE_RMS, RELATIVE_UPDATE_RMS, WEIGHT_MAX, GRADIENT_NORM, MEASURES };
static const char *const measure_names[MEASURES] = {"weight_rms",        "weight_gradient_rms",
                                                    "weight_update_rms", "weight_update_divided_by_weight_rms",
                                                    "weight_max",        "weight_gradient_norm"};

static bool read_object(struct fe *fe, fe_json json)
{
    static const char *const names[] = {"t5x_weight_metrics"};
    static const struct fe_arg rows[] = {{0}};
    struct fe_value none[1] = {0};
    const char *type = fe_type_of(fe, json);
    if (!type) return false;
    if (strcmp(type, names[0]) == 0) return fe_args(fe, json, "metric \"t5x_weight_metrics\"", rows, 0, NULL, none);
    struct diag *d = fe_error(fe, fe_member(fe, json, "type"), "E0105", "unknown metric \"%s\"", type);
    fe_suggest(fe, d, type, names, 1);
    return false;
}

bool fe_step_metrics_expand(struct fe_step *s)
{
    struct fe *fe = s->fe;
    uint32_t objects = 0, count = 0;
    for (uint32_t i = 0; i < s->metric_count; i++) objects += s->metrics[i].object;
    uint32_t most = s->metric_count + objects * (MEASURES * s->param_count + 1);
    struct fe_metric *all = arena_new_array(fe->arena, struct fe_metric, most + 1);
    for (uint32_t i = 0; i < s->metric_count; i++) {
        struct fe_metric m = s->metrics[i];
        if (!m.object) all[count++] = m;
        for (m.measure = 0; m.object && m.measure < GRADIENT_NORM; m.measure++)
            for (m.parameter = 0; m.parameter < s->param_count; m.parameter++) {
                if (!s->trained[m.parameter]) continue;
                m.name = arena_format(fe->arena, "%s/%s", measure_names[m.measure], s->params[m.parameter].path);
                all[count++] = m;
            }
        if (!m.object) continue;
        m.name = measure_names[m.measure];
        all[count++] = m;
    }
    struct map seen = MAP(fe->arena);
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        if (objects && good && map_get(&seen, all[i].name) != MAP_NONE) {
            fe_error_key(fe, all[i].json, "E0110", "metric \"%s\" is reported twice", all[i].name);
            good = false;
        }
        map_set(&seen, all[i].name, i);
    }
    s->metrics = all, s->metric_count = count;
    return good;
}

/* A parameter's entry of a tree that metrics see: grads, updates. */
static struct fe_term leaf_of(const struct fe_env *env, const char *tree, const char *path)
{
    while (env && strcmp(env->name, tree)) env = env->outer;
    const struct fe_tree *t = env ? env->value.tree : NULL;
    for (uint32_t i = 0; t && i < t->count; i++)
        if (strcmp(t->paths[i], path) == 0) return term_tensor(t->values[i]);
    BUG("%s of %s is not there", tree, path);
}

static struct fe_term root_mean_square(struct ir_builder *b, struct fe_term x)
{
    return term_sqrt(b, term_mean(b, term_square(b, x)));
}

static ir_value weight_metric(struct fe_step *s, struct fe_trace *trace, const struct fe_env *env,
                              const struct fe_metric *m)
{
    static const int64_t every[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct ir_builder *b = trace->b;
    struct fe_term sum = term_number(0);
    if (m->measure == GRADIENT_NORM) {
        for (uint32_t i = 0; i < s->param_count; i++)
            if (s->trained[i]) {
                struct fe_term g = term_cast(b, leaf_of(env, "grads", s->params[i].path), IR_F32);
                sum = term_add(b, sum, term_sum(b, term_square(b, g)));
            }
        return term_value(b, term_sqrt(b, sum), IR_F32);
    }
    const struct fe_param *p = &s->params[m->parameter];
    struct fe_term old = term_tensor(fe_trace_param(s->fe, trace, m->parameter)), u = leaf_of(env, "updates", p->path);
    struct fe_term new = term_cast(b, term_cast(b, term_add(b, old, u), (enum ir_dtype)p->type.dtype), IR_F32);
    old = term_cast(b, old, IR_F32), u = term_sub(b, new, old);
    switch ((enum measure)m->measure) {
    case WEIGHT_RMS: return root_mean_square(b, new).v;
    case GRADIENT_RMS: return root_mean_square(b, term_cast(b, leaf_of(env, "grads", p->path), IR_F32)).v;
    case UPDATE_RMS: return root_mean_square(b, u).v;
    case RELATIVE_UPDATE_RMS: return root_mean_square(b, term_div(b, u, old)).v;
    default: return ir_reduce(b, OP_reduce_max, term_abs(b, new).v, every, p->type.rank);
    }
}

/* ---------------------------------------------------------------- reading and computing */

bool fe_step_metrics_read(struct fe_step *s, fe_json map)
{
    struct fe *fe = s->fe;
    uint32_t count = map ? fe_count(fe, map) : 0;
    bool good = true;
    s->metrics = arena_new_array(fe->arena, struct fe_metric, count + 1);
    s->metrics[s->metric_count++] = (struct fe_metric){.name = "loss"};
    if (!map) return true;
    for (fe_json m = fe_first(fe, map); m; m = fe_next(fe, m)) {
        if (strcmp(m->key, "loss") == 0 || strcmp(m->key, "step") == 0) {
            fe_error_key(fe, m, "E0110", "\"%s\" is reported by every step: a metric needs another name", m->key);
            good = false;
        } else if (m->kind == JSON_OBJECT) {
            good &= read_object(fe, m);
            s->metrics[s->metric_count++] = (struct fe_metric){.name = m->key, .json = m, .late = true, .object = true};
        } else {
            s->metrics[s->metric_count++] = (struct fe_metric){.name = m->key, .json = m, .late = is_late(m)};
        }
    }
    return good;
}

bool fe_step_metrics(struct fe_step *s, struct fe_trace *trace, const struct fe_env *env, bool late, ir_value *out)
{
    bool good = true;
    for (uint32_t i = 1; i < s->metric_count; i++) {
        struct fe_metric *m = &s->metrics[i];
        if (m->late != late || m->example) continue;
        trace->b->place = fe_place(s->fe, m->json);
        if (m->object) {
            out[i] = weight_metric(s, trace, env, m);
            continue;
        }
        struct fe_val v = fe_expr(s->fe, trace, m->json, env);
        out[i] = v.bad ? 0 : fe_tensor(s->fe, trace, &v, m->json);
        good &= out[i] != 0;
    }
    return good;
}

void fe_step_metrics_results(struct fe_step *s, struct ir_builder *b, const ir_value *values)
{
    for (uint32_t i = 0; i < s->metric_count; i++) {
        struct fe_metric *m = &s->metrics[i];
        if (!values[i]) continue;
        if (!m->slot) {
            if (m->json && ir_type(b->f, values[i])->rank &&
                ir_slot_find(s->module, m->name) >= 0) /* an array is read by its name */
                fe_error_key(
                    s->fe, m->json, "E0110",
                    "metric \"%s\" is an array and needs a name of its own: there is an input or a state of that name",
                    m->name);
            struct ir_slot slot = {.name = m->name,
                                   .role = IR_ROLE_METRIC,
                                   .type = *ir_type(b->f, values[i]),
                                   .place = m->json ? fe_place(s->fe, m->json) : 0};
            m->slot = ir_slot_new(s->module, slot) + 1;
        }
        ir_result_add(b, m->name, values[i], (int32_t)m->slot - 1);
    }
}

bool fe_step_measures(struct fe_step *s, struct ir_builder *b)
{
    const struct fe_optim_state *o = &s->optim;
    size_t errors = s->fe->diags->errors;
    for (size_t i = 0; i < o->measures.count; i++) {
        const struct optim_measure *m = &o->measures.items[i];
        bool taken = strcmp(m->name, "step") == 0; /* its slot is the counter */
        for (uint32_t k = 0; k < s->metric_count; k++) taken |= strcmp(m->name, s->metrics[k].name) == 0;
        if (taken || ir_slot_find(s->module, m->name) >= 0) {
            fe_error(s->fe, m->json, "E0110", "a measure needs another name: \"%s\" is taken", m->name);
            continue;
        }
        ir_value now = o->slots.items[map_get(&o->by_name, m->state)].now;
        struct ir_slot slot = {
            .name = m->name, .role = IR_ROLE_METRIC, .type = *ir_type(b->f, now), .place = fe_place(s->fe, m->json)};
        ir_result_add(b, m->name, now, (int32_t)ir_slot_new(s->module, slot));
    }
    return s->fe->diags->errors == errors;
}
