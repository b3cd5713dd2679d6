/* Measures of the updates that the step reports as metrics. */
#include "frontend/optim/optim.h"
#include "frontend/document/arguments.h"
#include <string.h>

static ir_value measure(struct optim_transform *t, fe_json text)
{
    struct fe_env params = {t->o->trace->env, "params", optim_tree_value(t, t->p), false},
                  updates = {&params, "updates", optim_tree_value(t, t->u), false};
    return optim_evaluate(t, text, &updates);
}

/* Keeps a measure in the state, so that wrappers choose between its old and new value, and reports that. `begin`: what
 * it begins with; 0: zero. */
static void report(struct optim_transform *t, const char *slot, const char *name, fe_json where, struct fe_term value,
                   ir_value begin)
{
    const struct ir_type type = *ir_type(t->b->f, value.v);
    struct optim_measure m = {.name = name, .state = optim_path(t, slot), .json = where};
    (void)optim_state(t, slot, type, zero);
    if (begin) optim_begin_with(t, slot, begin);
    optim_state_set(t, slot, value);
    vec_push(t->fe->arena, &t->o->measures, m);
}

void transform_snapshot(struct optim_transform *t)
{
    const struct fe_value *text = arg(t, "measure"), *name = arg(t, "measure_name");
    struct optim_transform first = *t; /* before there are updates, Optax measures the parameters */
    first.u = optim_initial(t), first.p = first.u;
    ir_value value = measure(t, text->json), begin = value ? measure(&first, text->json) : 0;
    const char *slot = arena_format(t->fe->arena, "measurement.%s", name->string);
    if (value && begin) report(t, slot, name->string, name->json, T(value), begin);
}

/* An exponential moving average of a measure. False: an error was recorded. */
static bool smoothed(struct optim_transform *t, fe_json object, uint32_t index, struct fe_term *out)
{
    static const struct fe_arg rows[] = {{"measure", FE_EXPR, FE_REQUIRED, NULL, NULL},
                                         {"decay", FE_NUMBER, FE_REQUIRED, NULL, NULL},
                                         {"debias", FE_BOOL, 0, "true", NULL},
                                         {"accumulator_dtype", FE_DTYPE, FE_NULLABLE, "null", NULL}};
    struct fe_value v[4] = {0};
    struct ir_builder *b = t->b;
    const char *type = fe_type_of(t->fe, object), *known = "measure_with_ema";
    if (!type) return false;
    if (strcmp(type, known) != 0) {
        struct diag *d = fe_error(t->fe, fe_member(t->fe, object, "type"), "E0400", "unknown measure \"%s\"", type);
        fe_suggest(t->fe, d, type, &known, 1);
        return false;
    }
    if (!fe_args(t->fe, object, "measure \"measure_with_ema\"", rows, 4, NULL, v)) return false;
    ir_value now = measure(t, v[0].json);
    if (!now) return false;
    struct optim_transform inner = *t;
    inner.path = optim_path(t, arena_format(t->fe->arena, "measure_states.%u.1", index));
    struct ir_type kept = *ir_type(b->f, now);
    if (!v[3].null) kept.dtype = (uint8_t)v[3].dtype;
    struct fe_term count = optim_increment(b, counter(&inner, "count")), decay = term_number(v[1].number);
    struct fe_term ema = moment(b, T(now), optim_state(&inner, "ema", kept, zero), decay);
    *out = v[2].boolean ? corrected(b, ema, correction(b, decay, count)) : ema;
    optim_state_set(&inner, "count", count);
    optim_state_set(&inner, "ema", ema);
    return true;
}

void transform_monitor(struct optim_transform *t)
{
    fe_json measures = arg(t, "measures")->json;
    uint32_t index = 0;
    for (fe_json m = fe_first(t->fe, measures); m; m = fe_next(t->fe, m), index++) {
        struct fe_term value = {0};
        if (m->kind == JSON_OBJECT) {
            if (!smoothed(t, m, index, &value)) continue;
        } else {
            value = T(measure(t, m));
        }
        const char *slot = arena_format(t->fe->arena, "measurements.%s", m->key);
        if (value.v) report(t, slot, m->key, m, value, 0);
    }
}
