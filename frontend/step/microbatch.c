/* Functions that see a part of the batch: microbatches, groups of examples, single examples. Such a function takes its
 * rows of the batched inputs, the numbers of these rows (random tensors are parts of those of the whole batch), the
 * parameters, the other inputs, what else is captured, and last the state that goes from one microbatch to the next. */
#include "frontend/step/assemble.h"
#include "frontend/model/block.h"
#include <string.h>

bool fe_step_batch_rows(struct fe_step *s, fe_json json, int64_t *rows)
{
    const char *first = NULL;
    for (uint32_t i = 0; i < s->input_count; i++) {
        const struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
        if (!fe_input_batched(s->fe, i)) continue;
        if (slot->type.dim[0] >= INT32_MAX) { /* rows are numbered by int32 */
            fe_json shape = fe_member(s->fe, fe_member(s->fe, fe_member(s->fe, fe_root(s->fe), "inputs"), slot->name),
                                      "shape");
            return fe_wrong(s->fe, shape, "E0103", "a batch of %lld rows; at most %d can be split",
                            (long long)slot->type.dim[0], INT32_MAX - 1);
        }
        if (!first) {
            first = slot->name;
            *rows = slot->type.dim[0];
        } else if (slot->type.dim[0] != *rows)
            return fe_wrong(s->fe, json, "E0204",
                            "inputs have batches of different sizes: \"%s\" has %lld rows, \"%s\" has %lld", first,
                            (long long)*rows, slot->name, (long long)slot->type.dim[0]);
    }
    if (!first) fe_error(s->fe, json, "E0430", "no input has a batch to split: its \"axes\" begin with \"batch\"");
    return first != NULL;
}

/* Running statistics, and weights that are written back, change from one microbatch to the next; counters of random
 * numbers stand still within a step. */
static bool is_running(const struct fe_param *p)
{
    return (p->statistic || p->rewritten) && ir_dtype_is_float((enum ir_dtype)p->type.dtype);
}
static bool is_counter(const struct fe_param *p) { return p->statistic && !is_running(p); }

/* Whether the model draws random numbers, so that it must be known which rows a part has. */
static bool draws(const struct fe_step *s, bool train)
{
    bool counters = false;
    if (!train && !s->fe->state->draws_always) return false;
    for (uint32_t i = 0; i < s->param_count; i++) counters |= is_counter(&s->params[i]);
    return counters;
}

/* Traces the model once over the whole batch, to learn the shapes of its random tensors. */
static bool note_random(struct fe_step *s)
{
    struct fe *fe = s->fe;
    if (fe->state->random_calls.count) return true;
    size_t funcs = s->module->funcs.count;
    struct ir_builder b = {.f = ir_func_new(s->module, "masks", false)};
    struct fe_trace trace = {.b = &b, .train = true, .notes_random = true};
    trace.statistics = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    trace.inputs = fe_step_inputs(s, &b, NULL);
    bool good = fe_trace_model(fe, &trace);
    s->module->funcs.count = funcs;
    return good;
}

/* The numbers of the rows that `outer` sees. */
static ir_value row_numbers(struct fe_step *s, struct fe_trace *outer)
{
    int64_t rows = 0;
    if (outer->rows) return outer->rows->numbers;
    fe_step_batch_rows(s, NULL, &rows);
    return ir_iota(outer->b, ir_type_of(IR_I32, 1, &rows), 0);
}

static void take(struct fe_rows_part *p, ir_value outer) { p->args[p->count++] = outer; }

/* Rows of `whole`; for single examples whole becomes [rows, 1, ..]. */
static ir_value take_rows(struct fe_rows_part *p, struct ir_builder *outer, const char *name, ir_value whole)
{
    struct ir_type type = *ir_type(outer->f, whole), all = {.rank = (uint8_t)(type.rank + 1), .dim = {type.dim[0], 1}};
    for (uint32_t i = 1; p->level == PART_EXAMPLE && i < type.rank; i++) all.dim[i + 1] = type.dim[i];
    take(p, p->level == PART_EXAMPLE ? ir_reshape(outer, whole, all.rank, all.dim) : whole);
    type.dim[0] = p->rows.count;
    p->batched++;
    return ir_param_new(&p->b, name, type, -1);
}

static ir_value take_all(struct fe_rows_part *p, const char *name, const struct ir_type *type, ir_value outer)
{
    take(p, outer);
    return ir_param_new(&p->b, name, *type, -1);
}

/* Whether a parameter is carried from one part to the next: after everything else. */
static bool is_carried(const struct fe_rows_part *p, const struct fe_param *param)
{
    return p->trace.statistics && p->level != PART_EXAMPLE &&
           (is_counter(param) || (is_running(param) && p->level == PART_MICROBATCH));
}

bool fe_part_begin(struct fe_step *s, struct fe_rows_part *p, struct fe_trace *outer, enum fe_rows_level level,
                   int64_t rows, ir_value extra)
{
    static const char *const names[] = {"microbatch", "examples", "example"};
    struct fe *fe = s->fe;
    bool numbered = draws(s, outer->train);
    if (numbered && !note_random(s)) return false;
    ir_value numbers = numbered ? row_numbers(s, outer) : 0,
             *inputs = arena_new_array(fe->arena, ir_value, s->input_count + 1),
             *params = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    const char *name = arena_format(fe->arena, "%s.%zu", names[level], s->module->funcs.count);
    *p = (struct fe_rows_part){.level = level, .rows = {.count = rows}};
    p->b = (struct ir_builder){.f = ir_func_new(s->module, name, false)};
    p->trace = (struct fe_trace){
        .b = &p->b, .train = outer->train, .inputs = inputs, .params = params, .rows = &p->rows};
    if (outer->statistics) p->trace.statistics = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    p->args = arena_new_array(fe->arena, ir_value, s->input_count + 2 * s->param_count + 5);
    for (uint32_t i = 0; i < s->input_count; i++) {
        const struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
        if (!fe_input_batched(fe, i) || !outer->inputs[i]) continue; /* infer has not all of them */
        if (slot->type.rank == IR_MAX_RANK)
            return fe_wrong(fe, fe_member(fe, fe_root(fe), "inputs"), "E0111",
                            "splitting input \"%s\", a tensor of the highest rank, is not supported yet", slot->name);
        inputs[i] = take_rows(p, outer->b, slot->name, outer->inputs[i]);
    }
    if (numbers) p->rows.numbers = take_rows(p, outer->b, "row", numbers);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (!is_carried(p, &s->params[i]) || is_counter(&s->params[i]))
            params[i] = take_all(p, s->params[i].path, &s->params[i].type, fe_trace_param(fe, outer, i));
    for (uint32_t i = 0; i < s->input_count; i++) {
        const struct ir_slot *slot = &s->module->slots.items[s->inputs[i]];
        if (!inputs[i] && outer->inputs[i]) inputs[i] = take_all(p, slot->name, &slot->type, outer->inputs[i]);
    }
    if (outer->scale) p->trace.scale = take_all(p, "loss_scale", ir_type(outer->b->f, outer->scale), outer->scale);
    if (extra) p->extra = take_all(p, "extra", ir_type(outer->b->f, extra), extra);
    for (uint32_t i = 0; i < s->param_count; i++) {
        if (!is_carried(p, &s->params[i])) continue;
        ir_value carried = take_all(p, s->params[i].path, &s->params[i].type, fe_trace_param(fe, outer, i));
        if (!params[i]) params[i] = carried; /* a counter is the same for all parts: its first value */
    }
    return true;
}

/* Where what a part gives comes from: a metric, a parameter's block, else the model. */
static struct ir_place place_of(struct fe_step *s, const char *name)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (name == s->metrics[i].name) place = fe_place(s->fe, s->metrics[i].json);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (name == s->params[i].path) place = s->module->slots.items[s->params[i].slot].place;
    if (!place) place = fe_place(s->fe, fe_member(s->fe, fe_root(s->fe), "model"));
    return s->module->places.items[place];
}

uint32_t fe_part_result(struct fe_step *s, struct fe_rows_part *p, const char *name, ir_value value, int64_t kind)
{
    bool stacked = p->level == PART_EXAMPLE || kind == FE_CONCATENATE; /* with one dimension more */
    if (value && stacked && ir_type(p->b.f, value)->rank == IR_MAX_RANK) {
        struct ir_place at = place_of(s, name);
        struct diag *d = diag_error(s->fe->diags, at.span, "E0432",
                                    "\"%s\" is a tensor of the highest rank, which has no room for parts", name);
        d->pointer = at.pointer ? arena_string(s->fe->diags->arena, at.pointer) : NULL;
        const struct ir_type *t = ir_type(p->b.f, value);
        value = ir_number(&p->b, ir_type_of((enum ir_dtype)t->dtype, 1, t->dim), 0); /* goes on, for further errors */
    }
    ir_result_add(&p->b, name, value, -1);
    vec_push(s->fe->arena, &p->kinds, kind);
    return (uint32_t)p->kinds.count - 1;
}

/* The statistics that the part changed, as results; what is carried gives a result in any case. */
static void statistics_results(struct fe_step *s, struct fe_rows_part *p, uint32_t *result)
{
    for (uint32_t i = 0; p->trace.statistics && i < s->param_count; i++) {
        const struct fe_param *param = &s->params[i];
        bool carried = is_carried(p, param);
        ir_value now = p->trace.statistics[i];
        if (!now && !carried) continue;
        result[i] = 1 + fe_part_result(s, p, param->path, now ? now : p->trace.params[i],
                                       carried ? FE_CARRY : FE_RUNNING_MEAN);
    }
}

/* Statistics of examples, taken from the same old ones, are averaged. */
static ir_value of_examples(struct ir_builder *b, const struct fe_param *p, ir_value all)
{
    static const int64_t start[IR_MAX_RANK] = {0}, stride[IR_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct ir_type type = *ir_type(b->f, all);
    if (is_running(p)) return term_mean_rows(b, all);
    type.dim[0] = 1;
    return ir_reshape(b, ir_slice(b, all, start, type.dim, stride), p->type.rank, p->type.dim);
}

/* Of no examples at all there is no mean: what was there stays. */
static ir_value if_any(struct ir_builder *b, ir_value real, ir_value now, ir_value old)
{
    return term_where(b, term_lt(b, term_integer(0), term_tensor(real)), term_tensor(now), term_tensor(old)).v;
}

ir_value fe_part_end(struct fe_step *s, struct fe_rows_part *p, struct fe_trace *outer, ir_value real, int64_t count,
                     int64_t split)
{
    struct fe *fe = s->fe;
    struct ir_builder *b = outer->b;
    uint32_t *result = arena_new_array(fe->arena, uint32_t, s->param_count + 1);
    int64_t batched = p->batched;
    statistics_results(s, p, result);
    struct ir_node node = {.func = ir_func_index(p->b.f), .attr = {{&batched, 1}, {&count, 1}, {&split, 1}}};
    ir_value *args = arena_new_array(fe->arena, ir_value, p->count + 1u);
    args[0] = real;
    memcpy(args + 1, p->args, p->count * sizeof *args);
    node.attr[3] = (struct ir_ints){p->kinds.items, (uint32_t)p->kinds.count};
    node.op = p->level == PART_EXAMPLE ? OP_vmap : OP_accumulate;
    node.args = p->level == PART_EXAMPLE ? args + 1 : args;
    node.arg_count = p->count + (p->level != PART_EXAMPLE);
    ir_value tuple = ir_make(b, node);
    for (uint32_t i = 0; p->trace.statistics && i < s->param_count; i++) {
        if (!result[i] || !p->trace.statistics[i]) continue;
        ir_value now = ir_proj(b, tuple, result[i] - 1);
        if (p->level == PART_EXAMPLE) now = of_examples(b, &s->params[i], now);
        else if (p->level == PART_EXAMPLES && s->examples.real)
            now = if_any(b, real, now, fe_trace_param(fe, outer, i));
        outer->statistics[i] = now;
    }
    return tuple;
}

/* ---------------------------------------------------------------- what both kinds of parts read */

ir_value fe_step_real_parts(struct fe_step *s, struct fe_trace *trace, fe_json real, int64_t count)
{
    struct ir_builder *b = trace->b;
    if (!real) return ir_scalar(b, IR_I32, (double)count);
    b->place = fe_place(s->fe, real);
    return fe_real_parts(s->fe, trace, real, fe_step_outer_env(s, trace, 0), count);
}

const struct fe_env *fe_step_outer_env(struct fe_step *s, struct fe_trace *trace, ir_value loss)
{
    struct fe *fe = s->fe;
    const struct fe_env *env = NULL;
    for (uint32_t i = 0; i < s->input_count; i++) {
        const char *name = s->module->slots.items[s->inputs[i]].name;
        env = fe_bind_own(fe->arena, env, name, fe_input_value(trace->b, trace->inputs[i]));
    }
    ir_value *values = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++) values[i] = fe_trace_param(fe, trace, i);
    env = fe_bind(fe->arena, env, "params", fe_step_tree(s, values));
    return loss ? fe_bind(fe->arena, env, "loss", fe_val_tensor(loss)) : env;
}
