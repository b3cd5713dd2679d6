/* Metrics: expressions that every step reports beside the loss. Those over gradients and updates come after the
 * update, the others are computed where the loss is, microbatch by microbatch if there are any. */
#include "frontend/step.h"
#include <ctype.h>
#include <string.h>

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether an expression uses a name (not as a part of a path). */
static bool uses(const char *text, const char *name)
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
    static const char *const names[] = {"grads", "updates", "hyperparams"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json->kind == JSON_STRING && uses(json->string, names[i])) return true;
    return false;
}

bool fe_step_metrics_read(struct step *s, fe_json map)
{
    struct fe *fe = s->fe;
    uint32_t count = map ? fe_count(fe, map) : 0;
    bool good = true;
    s->metrics = arena_new_array(fe->arena, struct metric, count + 1);
    s->metrics[s->metric_count++] = (struct metric){.name = "loss"};
    if (!map) return true;
    for (fe_json m = fe_first(fe, map); m; m = fe_next(fe, m)) {
        if (strcmp(m->key, "loss") == 0 || strcmp(m->key, "step") == 0) {
            fe_error_key(fe, m, "E0110", "\"%s\" is reported by every step: a metric needs another name", m->key);
            good = false;
        } else if (m->kind == JSON_OBJECT) {
            const char *type = fe_type_of(fe, m);
            if (type) fe_error(fe, m, "E0111", "metric \"%s\" is not supported yet", type);
            good = false;
        } else {
            s->metrics[s->metric_count++] = (struct metric){.name = m->key, .json = m, .late = is_late(m)};
        }
    }
    return good;
}

bool fe_step_metrics(struct step *s, struct fe_trace *trace, const struct fe_env *env, bool late, ir_value *out)
{
    bool good = true;
    for (uint32_t i = 1; i < s->metric_count; i++) {
        struct metric *m = &s->metrics[i];
        if (m->late != late) continue;
        trace->b->place = fe_place(s->fe, m->json);
        struct fe_val v = fe_expr(s->fe, trace, m->json, env);
        out[i] = v.bad ? 0 : fe_tensor(s->fe, trace, &v, m->json);
        good &= out[i] != 0;
    }
    return good;
}

void fe_step_metrics_results(struct step *s, struct ir_builder *b, const ir_value *values)
{
    for (uint32_t i = 0; i < s->metric_count; i++) {
        struct metric *m = &s->metrics[i];
        if (!values[i]) continue;
        if (!m->slot) {
            struct ir_slot slot = {.name = m->name,
                                   .role = IR_ROLE_METRIC,
                                   .type = *ir_type(b->f, values[i]),
                                   .place = m->json ? fe_place(s->fe, m->json) : 0};
            m->slot = ir_slot_new(s->module, slot) + 1;
        }
        ir_result_add(b, m->name, values[i], (int32_t)m->slot - 1);
    }
}

bool fe_step_measures(struct step *s, struct ir_builder *b)
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
        struct ir_slot slot = {.name = m->name,
                               .role = IR_ROLE_METRIC,
                               .type = *ir_type(b->f, now),
                               .place = fe_place(s->fe, m->json)};
        ir_result_add(b, m->name, now, (int32_t)ir_slot_new(s->module, slot));
    }
    return s->fe->diags->errors == errors;
}
