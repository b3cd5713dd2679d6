/* Gradient transformations and schedules against trajectories that optax gave (optim_cases.json, recorded by
 * record_optim.py). The document's loss is linear in the parameters, so its gradients are inputs of the step, and the
 * step is evaluated by the interpreter. */
#include "frontend/expr/library.h"
#include "frontend/optim/optim.h"
#include "tests/unit/frontend/recorded.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parameters p and inputs g of the same shapes; loss = sum of sum(p * g). */
static const char *document(const char *optimizer, const char *more)
{
    struct str s = STR(&arena), inputs = STR(&arena), nodes = STR(&arena), loss = STR(&arena);
    const char *between = "";
    for (const struct json_value *p = child(get(recorded.values, "shapes")); p; p = sibling(p), between = ", ") {
        char *name = arena_string(&arena, p->key);
        for (char *c = name; *c; c++)
            if (*c == '.') *c = '_';
        str_addf(&inputs, "%s\"g_%s\": {\"shape\": %s}", between, name, text_of(p));
        str_addf(&nodes, "%s{\"type\": \"param\", \"name\": \"%s\", \"shape\": %s}", between, p->key, text_of(p));
        str_addf(&loss, "%ssum(params.%s * g_%s)", *between ? " + " : "", p->key, name);
    }
    str_addf(&s,
             "{\"stepc\": 1, \"name\": \"test\", \"inputs\": {%s}, \"model\": {\"type\": \"graph\", \"nodes\": [%s], "
             "\"output\": \"scale\"},\n",
             str_text(&inputs), str_text(&nodes));
    str_addf(&s, "\"loss\": \"%s\", \"optimizer\": %s%s}", str_text(&loss), optimizer, more);
    return str_text(&s);
}

static struct ir_module *compile(const char *text)
{
    static const struct fe_options options;
    struct diags diags = {.arena = &arena};
    struct ir_module *m = fe_compile("test.json", text, strlen(text), &options, &diags);
    if (!m) diags_print(&diags, stderr, false, false);
    ck_assert_ptr_nonnull(m);
    return m;
}

/* The gradient of the loss by parameter p is input g_p. */
struct replace {
    const struct ir_func *from;
    const char *const *wrt;
};
static ir_value input_of(const struct ir_func *f, ir_value p, const ir_value *map)
{
    const char *name = NULL;
    for (size_t i = 0; i < f->params.count; i++)
        if (f->params.items[i].value == p) name = f->params.items[i].name;
    char *input = arena_format(&arena, "g_%s", name);
    for (char *c = input; *c; c++)
        if (*c == '.') *c = '_';
    for (size_t i = 0; i < f->params.count; i++)
        if (strcmp(f->params.items[i].name, input) == 0) return map[f->params.items[i].value];
    BUG("no input %s", input);
}

static ir_value without_grad(void *user, struct ir_builder *b, const struct ir_func *from, ir_value old,
                             const ir_value *map)
{
    (void)user;
    const struct ir_node *n = ir_get(from, old), *tuple = n->op == OP_proj ? ir_get(from, n->args[0]) : NULL;
    if (n->op == OP_grad) return map[n->args[0]];
    if (tuple && tuple->op == OP_grad) return input_of(from, tuple->args[1 + n->attr[0].v[0]], map);
    ir_value *args = arena_new_array(&arena, ir_value, n->arg_count + 1);
    for (uint32_t i = 0; i < n->arg_count; i++) args[i] = map[n->args[i]];
    return ir_remake(b, n, args);
}

/* Slots as doubles, by index. */
struct machine {
    struct ir_module *m;
    struct ir_func *step;
    double **slot;
};

static void run(struct machine *k, const struct ir_func *f)
{
    struct ir_tensor *in = arena_new_array(&arena, struct ir_tensor, f->params.count + 1);
    struct ir_tensor *out = arena_new_array(&arena, struct ir_tensor, f->results.count + 1);
    for (size_t i = 0; i < f->params.count; i++)
        in[i] = (struct ir_tensor){f->params.items[i].type, k->slot[f->params.items[i].slot]};
    ir_eval(f, IR_EVAL_EXACT_DTYPES, in, out, &arena);
    for (size_t i = 0; i < f->results.count; i++) k->slot[f->results.items[i].slot] = out[i].v;
}

static struct machine start(const char *text)
{
    struct machine k = {.m = compile(text)};
    struct str faults = STR(&arena);
    ck_assert_msg(ir_verify(k.m, &faults), "%s", str_text(&faults));
    k.slot = arena_new_array(&arena, double *, k.m->slots.count + 1);
    for (size_t i = 0; i < k.m->slots.count; i++) {
        const char *name = k.m->slots.items[i].name;
        int64_t n = ir_type_elements(&k.m->slots.items[i].type);
        ck_assert_msg(*name && name[strlen(name) - 1] != '.' && !strstr(name, ".."), "slot \"%s\"", name);
        k.slot[i] = arena_new_array(&arena, double, n);
        if (k.m->slots.items[i].role == IR_ROLE_HYPER) k.slot[i][0] = (double)(float)k.m->slots.items[i].initial;
    }
    run(&k, ir_func_find(k.m, "init"));
    k.step = ir_func_new(k.m, "flat", true);
    ir_rebuild(ir_func_find(k.m, "step"), k.step, without_grad, NULL, &arena);
    return k;
}

static double *slot(struct machine *k, const char *name)
{
    int32_t i = ir_slot_find(k->m, name);
    if (i < 0) BUG("no slot %s", name);
    return k->slot[i];
}

/* Copies a recorded tree to slots. */
static void put(struct machine *k, const struct json_value *tree, bool grads)
{
    for (const struct json_value *p = child(tree); p; p = sibling(p)) {
        char *name = grads ? arena_format(&arena, "g_%s", p->key) : arena_string(&arena, p->key);
        for (char *c = name; grads && *c; c++)
            if (*c == '.') *c = '_';
        char *copy = arena_format(&arena, "slow.%s", name); /* copies follow what is loaded */
        double *to = slot(k, name), *slow = ir_slot_find(k->m, copy) >= 0 ? slot(k, copy) : NULL;
        for (const struct json_value *x = child(p); x; x = sibling(x)) {
            *to++ = x->number;
            if (slow) *slow++ = x->number;
        }
    }
}

static void compare(struct machine *k, const struct json_value *tree, const char *what)
{
    for (const struct json_value *p = child(tree); p; p = sibling(p)) {
        const double *got = slot(k, p->key);
        for (const struct json_value *x = child(p); x; x = sibling(x), got++)
            ck_assert_msg(fabs(*got - x->number) <= 2e-6 + 5e-6 * fabs(x->number), "%s: %s is %.9g instead of %.9g",
                          what, p->key, *got, x->number);
    }
}

START_TEST(trajectories)
{
    for (const struct json_value *c = child(get(recorded.values, "cases")); c; c = sibling(c)) {
        const char *optimizer = text_of(get(c, "optimizer"));
        struct machine k = start(document(optimizer, ""));
        put(&k, get(recorded.values, "initial"), false);
        bool first = true;
        for (const struct json_value *g = child(get(recorded.values, "grads")); g; g = sibling(g)) {
            put(&k, g, true);
            run(&k, k.step);
            if (first) compare(&k, get(c, "first"), optimizer);
            first = false;
        }
        compare(&k, get(c, "last"), optimizer);
        ir_module_free(k.m);
    }
}
END_TEST

START_TEST(schedules)
{
    for (const struct json_value *c = child(get(recorded.values, "schedules")); c; c = sibling(c)) {
        const char *text = text_of(get(c, "schedule"));
        struct machine k = start(
            document(arena_format(&arena, "{\"type\": \"scale_by_schedule\", \"step_size_fn\": %s}", text), ""));
        const struct json_value *value = child(get(c, "values"));
        for (const struct json_value *s = child(get(recorded.values, "steps")); s;
             s = sibling(s), value = sibling(value)) {
            slot(&k, "scale")[0] = 0;
            slot(&k, "g_scale")[0] = 1;
            slot(&k, "opt_state.count")[0] = s->number;
            run(&k, k.step);
            double got = slot(&k, "scale")[0];
            ck_assert_msg(fabs(got - value->number) <= 1e-7 + 2e-6 * fabs(value->number),
                          "%s at %g is %.9g instead of %.9g", text, s->number, got, value->number);
            ck_assert_double_eq(slot(&k, "opt_state.count")[0], s->number + 1);
        }
        ir_module_free(k.m);
    }
}
END_TEST

START_TEST(names_of_state)
{
    static const char *const names[] = {"opt_state.0.0.trace.layers.0.kernel",
                                        "opt_state.1.inner_states.k.inner_state.0.mu.layers.1.kernel",
                                        "opt_state.1.inner_states.k.inner_state.0.count",
                                        "opt_state.2.acc_grads.scale",
                                        "opt_state.2.inner_opt_state.0.nu.scale",
                                        "opt_state.2.mini_step",
                                        "opt_state.3.inner_state.base_optimizer_state.1.count",
                                        "opt_state.4.inner_state.base_optimizer_state.1.1.count",
                                        "opt_state.5.0.inner_state.count",
                                        "opt_state.6.0.count",
                                        "step",
                                        "ema.scale"};
    struct machine k = start(document(
        "{\"type\": \"chain\", \"transforms\": ["
        "{\"type\": \"sgd\", \"learning_rate\": 0.1, \"momentum\": 0.5},"
        "{\"type\": \"partition\", \"transforms\": {\"k\": {\"type\": \"adam\", \"learning_rate\": 1}, \"b\": "
        "{\"type\": \"identity\"}},"
        " \"labels\": {\"**.kernel\": \"k\", \"**\": \"b\"}},"
        "{\"type\": \"multi_steps\", \"every_k_schedule\": 2, \"opt\": {\"type\": \"adam\", \"learning_rate\": 1}},"
        "{\"type\": \"masked\", \"mask\": [\"**.kernel\"], \"inner\": {\"type\": \"schedule_free_sgd\", "
        "\"warmup_steps\": 2}},"
        "{\"type\": \"masked\", \"mask\": [\"**.bias\"], \"inner\": {\"type\": \"schedule_free_sgd\", "
        "\"warmup_steps\": 2, \"weight_decay\": 0.1}},"
        "{\"type\": \"lars\", \"learning_rate\": 1, \"weight_decay\": \"0.1 / (step + 1)\"},"
        "{\"type\": \"lars\", \"learning_rate\": 1, \"weight_decay\": \"0.1 / (step + 1)\", "
        "\"weight_decay_mask\": null}]}",
        ", \"ema\": {\"decay\": 0.5}"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(ir_slot_find(k.m, names[i]) >= 0, "no slot %s", names[i]);
    ck_assert_int_lt(ir_slot_find(k.m, "opt_state.1.inner_states.k.inner_state.0.mu.scale"), 0);
    ir_module_free(k.m);
}
END_TEST

START_TEST(averages)
{
    struct machine k = start(
        document("{\"type\": \"sgd\", \"learning_rate\": 1}",
                 ", \"ema\": {\"decay\": 0.75, \"only\": [\"scale\"]}, \"trainable\": [\"scale\"],"
                 "\"metrics\": {\"norm\": \"global_norm(grads)\", \"size\": \"global_norm(updates)\"}"));
    ck_assert_int_lt(ir_slot_find(k.m, "ema.layers.0.bias"), 0);
    slot(&k, "scale")[0] = slot(&k, "ema.scale")[0] = 2;
    slot(&k, "g_scale")[0] = 1;
    for (int i = 0; i < 2; i++) run(&k, k.step);
    ck_assert_double_eq(slot(&k, "scale")[0], 0);
    ck_assert_double_eq(slot(&k, "ema.scale")[0], (2 * 0.75 + 0.25) * 0.75);
    ck_assert_double_eq(slot(&k, "norm")[0], 1);
    ck_assert_double_eq(slot(&k, "size")[0], 1);
    ir_module_free(k.m);
}
END_TEST

/* Every row has a recorded trajectory (line searches are tested with a loss that is not linear, rows for single
 * examples or the Hessian with a batch, former names: tests/parity). */
START_TEST(every_row_is_recorded)
{
    static const char *const elsewhere[] = {"linesearch", "per_example", "private", "dpsgd",
                                            "sophia",     "hessian",     "stateful"};
    uint32_t count;
    const struct optim_row *rows = optim_rows(&count);
    for (uint32_t i = 0; i < count; i++) {
        bool found = strstr(recorded.text, arena_format(&arena, "\"type\": \"%s\"", rows[i].name)) != NULL;
        for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
            found |= strstr(rows[i].name, elsewhere[k]) != NULL;
        ck_assert_msg(found, "%s has no recorded trajectory", rows[i].name);
    }
}
END_TEST

static bool is_schedule(const char *name)
{
    struct fe_row row = {0};
    for (uint32_t i = 0; fe_schedule_row(i, &row) && strcmp(row.name, name) != 0; i++) row = (struct fe_row){0};
    return row.name != NULL;
}

/* Every entry of optimizers.step is that of a row, and used: a function by another entry. */
START_TEST(every_formula_is_used)
{
    extern const char optim_formulas[];
    struct fe_reader r = {.file = "optimizers.step", .at = optim_formulas};
    struct fe_entry e;
    uint32_t entries = 0;
    for (; fe_entry_next(&r, &e); entries++) {
        const char *name = arena_string_n(&arena, e.name.text, e.name.length);
        const struct optim_row *row = optim_row_find(&(struct fe){.transforms = &optim_transforms}, name);
        const char *call = arena_format(&arena, "%s(", name), *first = strstr(optim_formulas, call);
        if (fe_span_is(e.words, "function")) ck_assert_msg(strstr(first + 1, call), "nobody calls %s", name);
        else if (fe_span_is(e.words, "schedule")) ck_assert_msg(is_schedule(name), "%s is no schedule", name);
        else if (fe_span_is(e.words, "transform"))
            ck_assert_msg(row && row->rule == optim_formula_run, "%s is no row that is a formula", name);
        else ck_assert_msg(fe_span_is(e.words, "part") || fe_span_is(e.words, "factor"), "what is %s?", name);
    }
    ck_assert_uint_gt(entries, 50);
}
END_TEST

static void refuse(const char *optimizer, const char *const *demands)
{
    static const struct fe_options options;
    struct diags diags = {.arena = &arena};
    const char *text = document(optimizer, "");
    ck_assert_msg(!fe_compile("test.json", text, strlen(text), &options, &diags), "%s was accepted", optimizer);
    char *printed = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&printed, &n);
    diags_print(&diags, f, false, false);
    fclose(f);
    for (; *demands; demands++)
        ck_assert_msg(strstr(printed, *demands) != NULL, "\"%s\" is not in:\n%s", *demands, printed);
    free(printed);
}
#define REFUSE(optimizer, ...) refuse(optimizer, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(refused)
{
    REFUSE("{\"type\": \"admaw\"}", "admaw", "\"adamw\"", "/optimizer/type");
    REFUSE("{\"type\": \"per_example_global_norm_clip\", \"l2_norm_clip\": 1}", "\"transform\" of \"per_example\"");
    REFUSE("{\"type\": \"chain\", \"transforms\": [{\"type\": \"scale\", \"step_size\": 2}, {\"type\": \"dpsgd\", "
           "\"learning_rate\": 1,"
           "\"l2_norm_clip\": 1, \"noise_multiplier\": 1, \"seed\": 1}]}",
           "must come first");
    REFUSE("{\"type\": \"galore\", \"learning_rate\": 1, \"rank\": 2, \"base_optimizer\": {\"type\": \"adamw\", "
           "\"learning_rate\": 1}}",
           "needs the parameters", "/optimizer/base_optimizer");
    REFUSE("{\"type\": \"scale_by_galore\", \"weight_dimension_numbers\": {\"**.kernel\": {\"reduction_axis\": [0, 1], "
           "\"output_axis\": 1}, "
           "\"**\": null}}",
           "axis 1 is named twice");
    REFUSE("{\"type\": \"muon\", \"learning_rate\": 1, \"ns_coeffs\": [1, 2]}", "three numbers",
           "/optimizer/ns_coeffs");
    REFUSE("{\"type\": \"muon\", \"learning_rate\": 1, \"ns_coeffs\": \"dino\"}", "\"dion\"", "/optimizer/ns_coeffs");
    REFUSE("{\"type\": \"scale_by_muon\"}", "is no matrix");
    REFUSE("{\"type\": \"muon\", \"learning_rate\": 1, \"muon_weight_dimension_numbers\": {\"**.kernel\": "
           "{\"output_axis\": 2}, "
           "\"**\": null}}",
           "axis 2", "[3, 4]", "output_axis");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"freeze\", \"mask\": [\"scale\"]}}",
           "/optimizer/inner/mask");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"partition\", \"transforms\": {\"a\": {\"type\": \"sgd\", "
           "\"learning_rate\": 1}}, \"labels\": {\"**.bias\": \"a\", \"**\": \"a\"}}}",
           "E0428", "/optimizer/inner/labels/**.bias");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"partition\", \"transforms\": {\"a\": {\"type\": \"sgd\", "
           "\"learning_rate\": 1}}, \"labels\": {}}}",
           "E0428", "/optimizer/inner/labels");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"muon\", \"learning_rate\": 1, "
           "\"muon_weight_dimension_numbers\": {\"**.kernel\": null, \"**\": null}}}",
           "E0428", "muon_weight_dimension_numbers/**.kernel");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"scale_by_amos\", \"learning_rate\": 1, \"eta_fn\": "
           "{\"**\": 1}, \"shape_fn\": "
           "{\"**.bias\": [], \"**\": null}}}",
           "E0428", "shape_fn/**.bias");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"t5x_adafactor\", \"learning_rate\": 1, "
           "\"multiply_by_parameter_scale\": {\"**.bias\": false, \"**\": true}}}",
           "E0428", "multiply_by_parameter_scale/**.bias");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"t5x_adafactor\", \"learning_rate\": 1, "
           "\"logical_factor_rules\": \"standard\"}}",
           "E0428", "logical_factor_rules");
    REFUSE("{\"type\": \"flatten\", \"inner\": {\"type\": \"lookahead\", \"fast_optimizer\": {\"type\": \"sgd\", "
           "\"learning_rate\": 1}, "
           "\"sync_period\": 2, \"slow_step_size\": 0.5}}",
           "E0428", "lookahead");
    REFUSE("{\"type\": \"lookahead\", \"fast_optimizer\": {\"type\": \"lookahead\", \"fast_optimizer\": {\"type\": "
           "\"sgd\", "
           "\"learning_rate\": 1}, \"sync_period\": 2, \"slow_step_size\": 0.5}, \"sync_period\": 2, "
           "\"slow_step_size\": 0.5}",
           "two \"lookahead\"", "layers.0.kernel", "at /optimizer");
    REFUSE("{\"type\": \"chain\", \"transforms\": [{\"type\": \"schedule_free_sgd\", \"learning_rate\": 1}, "
           "{\"type\": \"schedule_free_sgd\", \"learning_rate\": 1}]}",
           "two \"schedule_free_sgd\"", "layers.0.kernel", "at /optimizer/transforms/1");
    REFUSE("{\"type\": \"named_chain\", \"transforms\": {\"a\": {\"type\": \"named_chain\", \"transforms\": {\"b\": "
           "{\"type\": \"trace\", "
           "\"decay\": 0.9}}}, \"a.b\": {\"type\": \"trace\", \"decay\": 0.9}}}",
           "opt_state.a.b.trace.", "another transformation", "/optimizer/transforms/a.b");
    REFUSE("{\"type\": \"stateless\", \"f\": \"sum(update) + zeros((3, 5))\"}", "shape", "/optimizer/f");
    REFUSE("{\"type\": \"snapshot\", \"measure_name\": \"loss\", \"measure\": \"global_norm(updates)\"}",
           "/optimizer/measure_name", "\"loss\"");
    REFUSE("{\"type\": \"monitor\", \"measures\": {\"a\": {\"type\": \"measure_with_em\"}}}", "measure_with_ema",
           "/optimizer/measures/a/type");
    REFUSE("{\"type\": \"adam\", \"learning_rate\": 0.1, \"mu_dtype\": \"int32\"}", "floating-point",
           "/optimizer/mu_dtype");
    REFUSE("{\"type\": \"schedule_free_sgd\", \"b1\": 0}", "/optimizer/b1");
    REFUSE("{\"type\": \"sgd\", \"learning_rate\": 0.1, \"b1\": 1}", "/optimizer/b1", "sgd");
    REFUSE("{\"type\": \"adamw\"}", "learning_rate", "adamw");
    REFUSE("{\"type\": \"adam\", \"learning_rate\": {\"type\": \"cosine_decay_schedul\"}}", "cosine_decay_schedule\"",
           "/optimizer/learning_rate/type");
    REFUSE("{\"type\": \"adam\", \"learning_rate\": {\"type\": \"cosine_decay_schedule\", \"init_value\": 1, "
           "\"decay_steps\": 0}}",
           "/optimizer/learning_rate/decay_steps");
    REFUSE(
        "{\"type\": \"adam\", \"learning_rate\": {\"type\": \"linear_schedule\", \"init_value\": 1, \"end_value\": 0}}",
        "transition_steps", "/optimizer/learning_rate");
    REFUSE("{\"type\": \"adam\", \"learning_rate\": {\"type\": \"join_schedules\", \"schedules\": [], \"boundaries\": "
           "[1]}}",
           "/optimizer/learning_rate");
    REFUSE("{\"type\": \"adam\", \"learning_rate\": {\"type\": \"t5x_learning_rate_scheduler\", \"factors\": "
           "\"constant * linear_wormup\"}}",
           "linear_wormup", "linear_warmup");
    REFUSE("{\"type\": \"adam\", \"learning_rate\": {\"type\": \"t5x_learning_rate_scheduler\", \"warmup_steps\": 0}}",
           "/optimizer/learning_rate/warmup_steps", "rsqrt_decay");
    REFUSE("{\"type\": \"multi_steps\", \"opt\": {\"type\": \"sgd\", \"learning_rate\": 1}, \"every_k_schedule\": 0}",
           "/optimizer/every_k_schedule", "found 0");
    REFUSE("{\"type\": \"partition\", \"transforms\": {\"kernel\": {\"type\": \"identity\"}}, \"labels\": "
           "{\"**.kernel\": \"kernel\"}}",
           "/optimizer/labels", "layers.0.bias");
    REFUSE("{\"type\": \"partition\", \"transforms\": {\"kernel\": {\"type\": \"identity\"}}, \"labels\": "
           "{\"**.kernel\": \"kernel\", \"**\": \"bias\"}}",
           "/optimizer/labels/**", "bias", "kernel");
    REFUSE("{\"type\": \"adamw\", \"learning_rate\": 1, \"mask\": [\"third.*\"]}", "/optimizer/mask/0", "third.*");
}
END_TEST

int main(void)
{
    load("tests/unit/frontend/optim_cases.json");
    return run_case("optim", CASE_OF(120, trajectories, schedules, names_of_state, averages, every_row_is_recorded,
                                     every_formula_is_used, refused));
}
