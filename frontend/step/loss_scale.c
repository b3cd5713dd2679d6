/* The scale of the loss, a part of "precision". The loss is multiplied by the scale before it is differentiated, its
 * gradients are divided by it in float32; the loss that is reported and that optimizers see is the unscaled one. A
 * dynamic scale is that of flax.training.dynamic_scale: a step whose gradients are not finite leaves parameters and
 * optimizer as they were and makes the scale smaller; so many finite steps in a row make it larger. */
#include "frontend/document/arguments.h"
#include "frontend/step/assemble.h"
#include <float.h>
#include <string.h>

/* ---------------------------------------------------------------- the document */

enum { SCALE, GROWTH, BACKOFF, INTERVAL, MINIMUM, SCALE_ROWS };
static const struct fe_arg static_rows[] = {POSITIVE_REQUIRED(scale)};
static const struct fe_arg dynamic_rows[SCALE_ROWS] = {
    [SCALE] = POSITIVE(scale, "65536")[GROWTH] = POSITIVE(growth_factor, "2")[BACKOFF] = POSITIVE(
        backoff_factor, "0.5")[INTERVAL] = AT_LEAST_ONE(growth_interval,
                                                        "2000")[MINIMUM] = POSITIVE_OR_NULL(minimum_scale)};
static const char *const scales[] = {"static", "dynamic_scale"};

/* A number that float32 has and that lies in its range. */
static bool check_number(struct fe *fe, const struct fe_value *v, const char *name, bool above_one, bool below_one)
{
    if (!v->json || v->null) return true;
    if ((float)v->number > FLT_MAX || (float)v->number < FLT_MIN)
        return fe_wrong(fe, v->json, "E0103", "\"%s\" must be a normal float32, found %s", name, fe_found(fe, v->json));
    if ((above_one && v->number < 1) || (below_one && v->number > 1))
        return fe_wrong(fe, v->json, "E0103", "\"%s\" must be at %s 1, found %s", name, above_one ? "least" : "most",
                        fe_found(fe, v->json));
    return true;
}

bool fe_step_loss_scale(struct fe_step *s, fe_json json)
{
    if (!json) return true;
    struct fe *fe = s->fe;
    struct fe_loss_scale *scale = &s->scale;
    struct fe_value v[SCALE_ROWS] = {0};
    const char *type = fe_type_of(fe, json);
    if (!type) return false;
    bool dynamic = strcmp(type, scales[1]) == 0;
    if (!dynamic && strcmp(type, scales[0]) != 0) {
        fe_suggest(fe, fe_error(fe, fe_member(fe, json, "type"), "E0105", "unknown loss scale \"%s\"", type), type,
                   scales, 2);
        return false;
    }
    const char *what = arena_format(fe->arena, "loss scale \"%s\"", type);
    if (!fe_args(fe, json, what, dynamic ? dynamic_rows : static_rows, dynamic ? SCALE_ROWS : 1, NULL, v)) return false;
    *scale = (struct fe_loss_scale){.json = json,
                                    .dynamic = dynamic,
                                    .initial = v[SCALE].number,
                                    .growth = v[GROWTH].number,
                                    .backoff = v[BACKOFF].number,
                                    .interval = v[INTERVAL].integer,
                                    .minimum = v[MINIMUM].null ? 0 : v[MINIMUM].number};
    bool good = check_number(fe, &v[SCALE], "scale", false, false);
    if (!dynamic) return good;
    good &= check_number(fe, &v[GROWTH], "growth_factor", true, false);
    good &= check_number(fe, &v[BACKOFF], "backoff_factor", false, true);
    good &= check_number(fe, &v[MINIMUM], "minimum_scale", false, false);
    return good;
}

/* ---------------------------------------------------------------- in a trace */

/* The state of a dynamic scale: the scale and how many steps in a row were finite. */
enum { STATE_SCALE, STATE_STEPS };
static const char *const state_names[] = {"loss_scale.scale", "loss_scale.fin_steps"};
static const enum ir_dtype state_dtypes[] = {IR_F32, IR_I32};

void fe_step_scale_begin(struct fe_step *s, struct fe_trace *trace)
{
    struct fe_loss_scale *scale = &s->scale;
    if (!scale->dynamic) return;
    for (int i = 0; i < 2; i++) {
        struct ir_slot slot = {.name = state_names[i],
                               .role = IR_ROLE_STATE,
                               .type = ir_type_scalar(state_dtypes[i]),
                               .place = fe_place(s->fe, scale->json)};
        scale->slots[i] = ir_slot_new(s->module, slot);
        scale->old[i] = ir_param_new(trace->b, slot.name, slot.type, (int32_t)scale->slots[i]);
    }
    trace->scale = scale->old[STATE_SCALE];
}

void fe_step_scale_init(struct fe_step *s, struct ir_builder *b)
{
    const double initial[] = {s->scale.initial, 0};
    for (int i = 0; s->scale.dynamic && i < 2; i++)
        ir_result_add(b, state_names[i], ir_scalar(b, state_dtypes[i], initial[i]), (int32_t)s->scale.slots[i]);
}

ir_value fe_step_scale(struct fe_step *s, const struct fe_trace *trace)
{
    if (!s->scale.json) return 0;
    return trace->scale ? trace->scale : ir_scalar(trace->b, IR_F32, s->scale.initial);
}

const struct fe_env *fe_step_scale_env(struct fe_step *s, const struct fe_trace *trace, const struct fe_env *outer)
{
    ir_value scale = fe_step_scale(s, trace);
    if (!scale) return outer;
    return fe_bind(s->fe->arena, outer, "loss_scale", fe_val_tensor(scale));
}

/* ---------------------------------------------------------------- gradients */

ir_value fe_step_unscaled(struct ir_builder *b, ir_value scale, ir_value grad)
{
    return term_div(b, term_cast(b, term_tensor(grad), IR_F32), term_tensor(scale)).v;
}

const ir_value *fe_step_rounded(struct fe_step *s, struct ir_builder *b, const ir_value *grads)
{
    enum ir_dtype dtype = s->fe->precision.gradients;
    if (!dtype) return grads;
    ir_value *rounded = arena_new_array(s->fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (grads[i]) rounded[i] = ir_cast(b, grads[i], dtype);
    return rounded;
}

/* ---------------------------------------------------------------- the next scale */

static struct fe_term all_finite(struct fe_step *s, struct ir_builder *b, const ir_value *grads)
{
    static const int64_t dims[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct fe_term finite = term_tensor(ir_scalar(b, IR_BOOL, 1));
    for (uint32_t i = 0; i < s->param_count; i++) {
        if (!grads[i]) continue;
        ir_value leaf = ir_unary(b, OP_is_finite, grads[i]);
        uint32_t rank = ir_type(b->f, leaf)->rank;
        finite = term_and(b, finite, term_tensor(rank ? ir_reduce(b, OP_reduce_min, leaf, dims, rank) : leaf));
    }
    return finite;
}

ir_value fe_step_scale_end(struct fe_step *s, struct ir_builder *b, const ir_value *grads)
{
    struct fe_loss_scale *scale = &s->scale;
    if (!scale->dynamic) return 0;
    struct fe_term finite = all_finite(s, b, scale->checked ? scale->checked : grads);
    struct fe_term old = term_tensor(scale->old[STATE_SCALE]), steps = term_tensor(scale->old[STATE_STEPS]);
    struct fe_term grow = term_eq(b, steps, term_integer(scale->interval));
    struct fe_term larger = term_min(b, term_mul(b, old, term_number(scale->growth)), term_number(FLT_MAX));
    struct fe_term smaller = term_mul(b, old, term_number(scale->backoff));
    if (scale->minimum > 0) smaller = term_max(b, smaller, term_number(scale->minimum));
    struct fe_term kept = term_where(b, term_and(b, grow, finite), larger, old);
    struct fe_term again = term_or(b, grow, term_not(b, finite));
    struct fe_term next[] = {term_where(b, finite, kept, smaller),
                             term_where(b, again, term_integer(0), term_add(b, steps, term_integer(1)))};
    for (int i = 0; i < 2; i++)
        ir_result_add(b, state_names[i], term_value(b, next[i], state_dtypes[i]), (int32_t)scale->slots[i]);
    return finite.v;
}
