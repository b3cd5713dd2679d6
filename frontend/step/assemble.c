/* Assembles a module from a document: the entry functions init (every slot from nothing), step (one training step),
 * eval (loss and metrics without an update) and infer (the model alone). The first tracing, in a probe that is thrown
 * away, declares the parameters and tells which inputs the model needs. */
#include "frontend/step/assemble.h"
#include "frontend/document/arguments.h"
#include <string.h>

static fe_json top(const struct fe_step *s, const char *key) { return fe_member(s->fe, fe_root(s->fe), key); }

/* ---------------------------------------------------------------- parameters: trained, averaged */

static bool read_trainable(struct fe_step *s)
{
    fe_json trainable = top(s, "trainable");
    uint32_t trained = 0;
    s->trained = arena_new_array(s->fe->arena, bool, s->param_count + 1);
    memset(s->trained, 1, s->param_count);
    if (trainable && !fe_patterns(s->fe, trainable, s->trained)) return false;
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct fe_param *p = &s->params[i];
        s->trained[i] = s->trained[i] && !p->statistic && !p->fixed && ir_dtype_is_float(p->type.dtype);
        s->module->slots.items[p->slot].frozen = !s->trained[i] && !p->statistic;
        trained += s->trained[i];
    }
    if (!s->param_count) fe_error(s->fe, top(s, "model"), "E0440", "the model has no parameter to train");
    else if (!trained) fe_error(s->fe, trainable ? trainable : top(s, "model"), "E0440", "no parameter is trained");
    return trained > 0;
}

static bool read_ema(struct fe_step *s)
{
    struct fe_value v[2] = {0};
    fe_json ema = top(s, "ema");
    if (!ema) return true;
    if (!fe_setting(s->fe, FE_SETTING_ema, ema, "\"ema\"", v)) return false;
    s->ema_decay = v[0].number;
    bool *in = arena_new_array(s->fe->arena, bool, s->param_count + 1);
    memset(in, 1, s->param_count);
    if (v[1].json && !fe_patterns(s->fe, v[1].json, in)) return false;
    s->averaged = in;
    s->ema_slots = arena_new_array(s->fe->arena, uint32_t, s->param_count + 1);
    bool any = false;
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct fe_param *p = &s->params[i];
        in[i] = in[i] && !p->statistic && !p->fixed;
        if (!in[i]) continue;
        any = true;
        struct ir_slot slot = {.name = arena_format(s->fe->arena, "ema.%s", p->path),
                               .role = IR_ROLE_EMA,
                               .type = p->type,
                               .place = fe_place(s->fe, ema),
                               .param = p->slot + 1};
        s->ema_slots[i] = ir_slot_new(s->module, slot);
    }
    if (!any) fe_warning(s->fe, v[1].json ? v[1].json : ema, "W0405", "no parameter is averaged");
    return true;
}

/* ---------------------------------------------------------------- infer */

struct output {
    const char *name;
    ir_value value;
};
typedef VEC(struct output) outputs;

/* What the model gives: one output, or its named parts. */
static void list_outputs(struct fe_step *s, const char *name, const struct fe_val *v, outputs *out)
{
    for (uint32_t i = 0; v->kind == FE_VAL_TUPLE && i < v->count; i++) {
        const char *part = v->names ? arena_format(s->fe->arena, "%s.%s", name, v->names[i])
                                    : arena_format(s->fe->arena, "%s.%u", name, i);
        list_outputs(s, part, &v->items[i], out);
    }
    if (v->kind == FE_VAL_TENSOR && v->tensor) vec_push(s->fe->arena, out, ((struct output){name, v->tensor}));
}

static void add_output(struct fe_step *s, struct ir_builder *b, const char *name, ir_value value)
{
    struct ir_slot slot = {
        .name = name, .role = IR_ROLE_OUTPUT, .type = *ir_type(b->f, value), .place = fe_place(s->fe, top(s, "model"))};
    ir_result_add(b, name, value, (int32_t)ir_slot_new(s->module, slot));
}

/* Which metrics have no dimension of rows: an extent may be a part's number of rows by chance, but not the batch's too.
 * What is wrong with them is said where the step traces them. */
static void probe_metrics(struct fe_step *s, struct fe_trace *trace)
{
    struct diags *diags = s->fe->diags, before = *diags;
    ir_value *values = arena_new_array(s->fe->arena, ir_value, s->metric_count);
    int64_t rows = 0;
    trace->notes = NULL;
    fe_step_batch_rows(s, NULL, &rows);
    fe_step_metrics(s, trace, trace->env, false, values);
    for (uint32_t i = 1; i < s->metric_count; i++) {
        const struct ir_type *type = values[i] ? ir_type(trace->b->f, values[i]) : NULL;
        s->metrics[i].summary = type && !(type->rank && type->dim[0] == rows);
    }
    diags->errors = before.errors, diags->list.count = before.list.count;
}

/* Traces model and loss once and takes the function away again. Declares the parameters; needed[i] tells whether the
 * model reads input i. Step and eval trace them again: the probe may spend a third of the values. */
static bool probe(struct fe_step *s, bool *needed)
{
    uint64_t most = s->fe->options->values / 3, *left = &s->fe->budget.left, later = *left > most ? *left - most : 0;
    *left -= later;
    size_t funcs = s->module->funcs.count, slots = s->module->slots.count;
    struct ir_func *f = ir_func_new(s->module, "probe", true);
    struct ir_builder b = {.f = f};
    struct fe_index_notes notes = {0};
    struct fe_trace trace = {.b = &b, .inputs = fe_step_inputs(s, &b, NULL), .notes = &notes};
    bool good = fe_trace_model(s->fe, &trace);
    if (good) {
        /* What the model needs: its outputs become results for a moment. */
        outputs list = {0};
        list_outputs(s, "model", &trace.model, &list);
        for (size_t i = 0; i < list.count; i++) add_output(s, &b, list.items[i].name, list.items[i].value);
        bool *live = ir_live(f, s->fe->arena);
        for (uint32_t i = 0; i < s->input_count; i++) needed[i] = live[trace.inputs[i]];
        for (size_t i = slots; i < s->module->slots.count; i++)
            if (s->module->slots.items[i].role == IR_ROLE_OUTPUT) s->module->slots.count = i; /* declared last */
        good = fe_trace_loss(s->fe, &trace);
    }
    s->indices.count = 0;
    for (int infer = 0; good && infer < 2; infer++) fe_step_indices_find(s, &trace, infer);
    s->probe = f, s->probe_loss = good ? trace.loss.tensor : 0;
    if (good) probe_metrics(s, &trace);
    s->module->funcs.count = funcs;
    *left += later;
    return good;
}

/* Where a step works through the batch in parts, so does infer, or the memory for a whole batch would be needed after
 * all. Rows of a part; 0: the batch at once. */
static int64_t infer_rows(const struct fe_step *s)
{
    if (s->accumulate.json) return s->accumulate.rows;
    return s->examples.json ? s->examples.rows : 0;
}

/* Whether every output has the batch's rows, and a part's rows in a part. */
static bool have_rows(const struct ir_func *whole, const outputs *all, const struct ir_func *f, const outputs *parts,
                      int64_t rows, int64_t part)
{
    bool good = all->count == parts->count;
    for (size_t i = 0; good && i < all->count; i++) {
        struct ir_type x = *ir_type(whole, all->items[i].value), y = *ir_type(f, parts->items[i].value);
        good = x.rank && x.dim[0] == rows && y.rank && y.dim[0] == part;
        x.dim[0] = y.dim[0];
        good = good && ir_type_equal(&x, &y);
    }
    return good;
}

/* The outputs part by part, put together; `list` has those of the batch at once in function `whole`. False: they cannot
 * be, or errors were recorded. */
static bool infer_parts(struct fe_step *s, struct fe_trace *trace, int64_t part_rows, const struct ir_func *whole,
                        outputs *list)
{
    int64_t rows = 0;
    struct fe_rows_part part;
    outputs parts = {0};
    if (!fe_step_batch_rows(s, top(s, "model"), &rows) || rows <= part_rows || rows % part_rows) return false;
    if (!fe_part_begin(s, &part, trace, PART_MICROBATCH, part_rows, 0) || !fe_trace_model(s->fe, &part.trace))
        return false;
    list_outputs(s, "model", &part.trace.model, &parts);
    if (!have_rows(whole, list, part.b.f, &parts, rows, part_rows)) return false;
    for (size_t i = 0; i < parts.count; i++)
        fe_part_result(s, &part, parts.items[i].name, parts.items[i].value, FE_CONCATENATE);
    int64_t count = rows / part_rows;
    /* On a mesh a part takes rows of every device. */
    int64_t contiguous = s->module->mesh.axis_count == 0;
    ir_value tuple = fe_part_end(s, &part, trace, ir_scalar(trace->b, IR_I32, (double)count), count, contiguous);
    for (uint32_t i = 0; i < parts.count; i++) list->items[i].value = ir_proj(trace->b, tuple, i);
    return true;
}

/* The function of the model alone, of the inputs that it reads. */
static void infer_begin(struct fe_step *s, const bool *needed, struct ir_builder *b, struct fe_trace *trace)
{
    *b = (struct ir_builder){.f = ir_func_new(s->module, "infer", true)};
    *trace = (struct fe_trace){.b = b, .inputs = fe_step_inputs(s, b, needed)};
}

static bool build_infer(struct fe_step *s, const bool *needed)
{
    size_t funcs = s->module->funcs.count, errors = s->fe->diags->errors;
    int64_t rows = infer_rows(s);
    struct ir_builder b;
    struct fe_trace trace;
    outputs list = {0};
    infer_begin(s, needed, &b, &trace);
    bool good = fe_trace_model(s->fe, &trace), parts = false;
    if (good) list_outputs(s, "model", &trace.model, &list);
    if (good && rows) { /* the function of the whole batch told the outputs' shapes */
        const struct ir_func *whole = b.f;
        s->module->funcs.count = funcs;
        infer_begin(s, needed, &b, &trace);
        parts = infer_parts(s, &trace, rows, whole, &list);
        good = s->fe->diags->errors == errors;
    }
    if (good && rows && !parts) {
        s->module->funcs.count = funcs;
        infer_begin(s, needed, &b, &trace);
        good = fe_trace_model(s->fe, &trace);
        list.count = 0;
        list_outputs(s, "model", &trace.model, &list);
    }
    for (size_t i = 0; good && i < list.count; i++) add_output(s, &b, list.items[i].name, list.items[i].value);
    return good;
}

static bool build_eval(struct fe_step *s)
{
    struct ir_func *f = ir_func_new(s->module, "eval", true);
    struct ir_builder b = {.f = f};
    struct fe_trace trace = {.b = &b, .inputs = fe_step_inputs(s, &b, NULL)};
    struct fe_outcome out = {0};
    if (!fe_step_outcome(s, &trace, false, &out)) return false;
    fe_step_metrics_results(s, &b, out.metrics);
    return true;
}

/* ---------------------------------------------------------------- step */

/* What the state holds after the step: a wrapper may keep what was there before. */
static const struct fe_env *env_hyperparams(struct fe_step *s, struct ir_builder *b, const struct fe_env *outer)
{
    struct fe_tree *tree = arena_new(s->fe->arena, struct fe_tree);
    const char **paths = arena_new_array(s->fe->arena, const char *, s->optim.hypers.count + 1);
    ir_value *values = arena_new_array(s->fe->arena, ir_value, s->optim.hypers.count + 1);
    for (size_t i = 0; i < s->optim.hypers.count; i++) {
        const struct optim_hyper *h = &s->optim.hypers.items[i];
        if (!h->value) continue; /* a schedule that cannot be set */
        paths[tree->count] = h->name;
        ir_value now = h->state ? s->optim.slots.items[map_get(&s->optim.by_name, h->state)].now : h->value;
        values[tree->count++] = ir_cast(b, now, IR_F32);
    }
    tree->paths = paths;
    tree->values = values;
    return fe_bind(s->fe->arena, outer, "hyperparams", (struct fe_val){.kind = FE_VAL_TREE, .tree = tree});
}

/* A parameter as the forward pass leaves it: normalised weights are written back (model/layers/weights.c). */
static ir_value left(struct fe_step *s, struct fe_trace *trace, uint32_t i)
{
    return trace->statistics[i] ? trace->statistics[i] : fe_trace_param(s->fe, trace, i);
}

/* x where the step counts, else what was there; `finite` 0: it does in any case. */
static ir_value where(struct ir_builder *b, ir_value finite, ir_value x, ir_value old)
{
    return finite && x != old ? term_where(b, term_tensor(finite), term_tensor(x), term_tensor(old)).v : x;
}

/* p + u in the parameter's dtype where the gradients are finite, and the averages: decay * e + (1 - decay) * p. */
static void update(struct fe_step *s, struct fe_trace *trace, const ir_value *updates, ir_value finite)
{
    struct ir_builder *b = trace->b;
    struct fe_term decay = term_number(s->ema_decay), rest = term_number(1 - s->ema_decay);
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct fe_param *p = &s->params[i];
        if (p->statistic) {
            if (trace->statistics[i]) ir_result_add(b, p->path, trace->statistics[i], (int32_t)p->slot);
            continue;
        }
        if (!updates[i] && !trace->statistics[i] && !(s->averaged && s->averaged[i])) continue;
        struct fe_term value = term_tensor(left(s, trace, i));
        if (updates[i]) value = term_cast(b, term_add(b, value, term_tensor(updates[i])), p->type.dtype);
        value.v = where(b, finite, value.v, fe_trace_param(s->fe, trace, i));
        if (updates[i] || trace->statistics[i]) ir_result_add(b, p->path, value.v, (int32_t)p->slot);
        if (!s->averaged || !s->averaged[i]) continue;
        const struct ir_slot *slot = &s->module->slots.items[s->ema_slots[i]];
        ir_value old = ir_param_new(b, slot->name, slot->type, (int32_t)s->ema_slots[i]);
        struct fe_term new = term_add(b, term_mul(b, decay, term_tensor(old)), term_mul(b, rest, value));
        ir_result_add(b, slot->name, term_cast(b, new, p->type.dtype).v, (int32_t)s->ema_slots[i]);
    }
}

static bool build_step(struct fe_step *s)
{
    struct fe *fe = s->fe;
    struct ir_func *f = ir_func_new(s->module, "step", true);
    struct ir_builder b = {.f = f};
    struct fe_trace trace = {.b = &b, .train = true, .inputs = fe_step_inputs(s, &b, NULL)};
    trace.statistics = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    struct fe_outcome out = {0};
    s->outcome = &out;
    fe_step_scale_begin(s, &trace);
    if (!fe_step_outcome(s, &trace, true, &out)) return false;
    out.grads = fe_step_rounded(s, &b, out.grads);

    fe_json optimizer = top(s, "optimizer");
    b.place = fe_place(fe, optimizer);
    ir_value *u = arena_new_array(fe->arena, ir_value, s->param_count + 1),
             *p = arena_new_array(fe->arena, ir_value, s->param_count + 1),
             *before = arena_new_array(fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++)
        if (s->trained[i]) u[i] = out.grads[i], p[i] = left(s, &trace, i), before[i] = fe_trace_param(fe, &trace, i);
    if (!trace.env) trace.env = out.env;
    struct ir_slot counter = {.name = "step", .role = IR_ROLE_STATE, .type = ir_type_scalar(IR_I32)};
    s->step_slot = ir_slot_new(s->module, counter);
    struct fe_term count = term_tensor(ir_param_new(&b, "step", counter.type, (int32_t)s->step_slot));
    s->optim = (struct fe_optim_state){.fe = fe,
                                       .trace = &trace,
                                       .b = &b,
                                       .count = s->param_count,
                                       .params = s->params,
                                       .by_name = MAP(fe->arena),
                                       .step = count.v,
                                       .value = out.loss,
                                       .grads = out.grads,
                                       .trained = p,
                                       .before = before,
                                       .value_and_grad = fe_step_value_and_grad,
                                       .clipped_sum = fe_step_clipped_sum,
                                       .user = s};
    fe->optim = &s->optim;
    size_t errors = fe->diags->errors;
    optim_rates(&s->optim, optimizer);
    optim_apply(&s->optim, optimizer, "opt_state", u, p);
    if (fe->diags->errors > errors) return false;

    ir_value finite = fe_step_scale_end(s, &b, out.grads);
    update(s, &trace, u, finite);
    for (size_t i = 0; i < s->optim.slots.count; i++) {
        struct optim_slot *slot = &s->optim.slots.items[i];
        slot->now = where(&b, finite, slot->now, slot->old);
        ir_result_add(&b, slot->name, slot->now, (int32_t)slot->slot);
    }
    ir_result_add(&b, "step", optim_increment(&b, count).v, (int32_t)s->step_slot);

    const struct fe_env *env = fe_step_scale_env(s, &trace, out.env);
    env = fe_bind(fe->arena, env, "grads", fe_step_tree(s, out.grads));
    env = fe_bind(fe->arena, env, "updates", fe_step_tree(s, u));
    if (!fe_step_metrics(s, &trace, env_hyperparams(s, &b, env), true, out.metrics)) return false;
    fe_step_metrics_results(s, &b, out.metrics);
    return fe_step_measures(s, &b);
}

/* ---------------------------------------------------------------- init */

static void build_init(struct fe_step *s)
{
    struct ir_func *f = ir_func_new(s->module, "init", true);
    struct ir_builder b = {.f = f};
    ir_value *initial = arena_new_array(s->fe->arena, ir_value, s->param_count + 1);
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct fe_param *p = &s->params[i];
        b.place = s->module->slots.items[p->slot].place;
        initial[i] = fe_initial(s->fe, &b, p);
        if (!initial[i]) continue;
        ir_result_add(&b, p->path, initial[i], (int32_t)p->slot);
        if (s->averaged && s->averaged[i])
            ir_result_add(&b, s->module->slots.items[s->ema_slots[i]].name, initial[i], (int32_t)s->ema_slots[i]);
    }
    b.place = fe_place(s->fe, top(s, "optimizer"));
    for (size_t i = 0; i < s->optim.slots.count; i++) {
        const struct optim_slot *slot = &s->optim.slots.items[i];
        ir_value value;
        if (slot->copy) value = initial[slot->parameter - 1];
        else if (slot->start.data) value = ir_constant(&b, slot->type, slot->start.data);
        else value = ir_number(&b, slot->type, slot->start.number);
        ir_result_add(&b, slot->name, value, (int32_t)slot->slot);
    }
    fe_step_scale_init(s, &b);
    ir_result_add(&b, "step", ir_scalar(&b, IR_I32, 0), (int32_t)s->step_slot);
}

/* ---------------------------------------------------------------- the whole */

/* What is saved has names of its own: a parameter may be called as the state of an optimizer is. */
static bool names_differ(struct fe_step *s)
{
    struct map seen = MAP(s->fe->arena);
    for (size_t i = 0; i < s->module->slots.count; i++) {
        const struct ir_slot *slot = &s->module->slots.items[i];
        bool kept = slot->role <= IR_ROLE_STATE || slot->role == IR_ROLE_HYPER;
        if (!kept || map_set(&seen, slot->name, 1)) continue;
        return fe_wrong(
            s->fe, top(s, "model"), "E0110",
            "\"%s\" is a name in the model and one of what is kept beside it; give the block another \"name\"",
            slot->name);
    }
    return true;
}

static bool read_memory(struct fe_step *s, fe_json json)
{
    struct fe_value v[4];
    struct ir_memory *m = &s->module->memory;
    if (!json) return true;
    if (!fe_setting(s->fe, FE_SETTING_memory, json, "\"memory\"", v)) return false;
    *m = (struct ir_memory){.microbatches = v[3].boolean, .place = fe_place(s->fe, json)};
    if (v[0].given && !v[0].null && !fe_amount(v[0].string, true, &m->most)) {
        struct diag *d = fe_error(s->fe, v[0].json, "E0111", "\"max\" is a whole number of bytes, as \"6GiB\"");
        d->hint = "the units are KiB, MiB, GiB and TiB";
        return false;
    }
    for (uint32_t i = 1; i < 3; i++)
        if (v[i].given && !v[i].null && (v[i].integer < 0 || v[i].integer > INT32_MAX)) {
            fe_error(s->fe, v[i].json, "E0111", "\"%s\" is 0 or more", i == 1 ? "chunk_rows" : "remat");
            return false;
        }
    if (v[1].given && !v[1].null) m->chunk_rows = v[1].integer ? v[1].integer : -1;
    if (v[2].given && !v[2].null) m->remat = v[2].integer ? (int)v[2].integer : -1;
    return true;
}

static bool build(struct fe_step *s)
{
    struct fe *fe = s->fe;
    s->module = fe->module;
    s->input_count = fe_inputs(fe, &s->inputs);
    bool *needed = arena_new_array(fe->arena, bool, s->input_count + 1);
    fe_json loss_scale;
    bool good = fe_read_precision(fe, top(s, "precision"), &loss_scale);
    good = fe_step_loss_scale(s, loss_scale) & good;
    good &= read_memory(s, top(s, "memory"));
    good &= fe_step_metrics_read(s, top(s, "metrics"));
    if (!probe(s, needed)) {
        optim_check(fe, top(s, "optimizer"));
        return false;
    }
    s->params = fe_params(fe, &s->param_count);
    good &= read_trainable(s);
    if (good && top(s, "adapters")) good = probe(s, needed); /* the first one knew none */
    if (good && !fe_step_reaches(s, s->probe, s->probe_loss)) {
        struct diag *d = fe_error(fe, top(s, "loss"), "E0440", "nothing that is trained has a gradient of this loss");
        d->hint = "does it use the model's output, outside of stop_gradient, comparisons and rounding?";
        good = false;
    }
    good &= fe_step_metrics_expand(s);
    good &= read_ema(s);
    good &= fe_step_accumulation(s, top(s, "accumulate"));
    good = good && fe_step_examples_read(s, top(s, "per_example"));
    if (!good || !build_step(s)) {
        optim_check(fe, top(s, "optimizer"));
        return false;
    }
    build_init(s);
    fe_check_streams(fe);
    fe_check_mentions(fe);
    good = names_differ(s) & build_eval(s) & build_infer(s, needed) & fe_sharding(fe);
    fe_step_indices_build(s);
    return good;
}

static bool compile(struct fe_step *s)
{
    jmp_buf end;
    if (setjmp(end)) return false; /* an error was recorded */
    bool good = fe_document(s->fe);
    fe_budget(s->fe, &end);
    good &= fe_check_definitions(s->fe);
    good = good && build(s);
    s->fe->module->budget = NULL;
    return good;
}

/* Of a document with partial batches: which of its numbers count rows. */
static void find_counted(struct fe_step *s)
{
    struct fe *fe = s->fe;
    struct fe_options options = *fe->options;
    struct diags unsaid = {.arena = fe->arena};
    const struct diag_source *source = &fe->diags->source;
    if (ir_slot_find(fe->module, IR_ROWS_INPUT) < 0 || options.twice) return;
    options.twice = true;
    struct ir_module *twice = fe_compile(source->name, source->text, source->length, &options, &unsaid);
    if (twice) fe_step_counted(fe, fe->module, twice);
    ir_module_free(twice);
}

struct ir_module *fe_compile(const char *file, const char *text, size_t length, const struct fe_options *options,
                             struct diags *diags)
{
    struct fe fe = {.arena = diags->arena,
                    .diags = diags,
                    .options = options,
                    .functions = &fe_losses,
                    .layers = &fe_layers,
                    .transforms = &optim_transforms};
    struct fe_step step = {.fe = &fe};
    diags->source = (struct diag_source){file, text, length};
    if (!fe_scan(&fe, text, length)) return NULL;
    if (compile(&step) && diags->errors == 0) return find_counted(&step), fe.module;
    fe_origins(&fe);
    ir_module_free(fe.module);
    return NULL;
}
