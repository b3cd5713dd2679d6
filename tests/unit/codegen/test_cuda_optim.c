/* Optimizers through the CUDA printer: recorded trajectories (tests/unit/frontend/optim_cases.json, from optax) are
 * replayed by the kernels of whole documents, which run on this CPU with their barriers. The document's loss is linear
 * in its parameters, so that the recorded gradients are its inputs. All kernels are one text: cases are collected
 * first, then compiled together. */
#include "cuda_harness.h"
#include "frontend/fe.h"
#include "lower_harness.h"
#include "tests/unit/frontend/recorded.h"
#include "tests/unit/suite.h"
#include <math.h>

/* One of every shape that an update has: element-wise alone, with one norm over all or per parameter, by rows and
 * columns, matrix products, state that begins with the parameters, wrappers that choose, noise, schedules. */
static const char *const wanted[] = {
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamw",
    "adan",
    "ademamix",
    "adopt",
    "amos",
    "amsgrad",
    "apply_if_finite",
    "centralize",
    "chain",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "cocob",
    "conditionally_mask",
    "dadapt_adamw",
    "dog",
    "flatten",
    "fromage",
    "inject_hyperparams",
    "lamb",
    "lars",
    "lion",
    "lookahead",
    "madgrad",
    "masked",
    "mechanize",
    "momo",
    "multi_steps",
    "muon",
    "noisy_sgd",
    "novograd",
    "partition",
    "prodigy",
    "radam",
    "rmsprop",
    "rprop",
    "sam",
    "schedule_free_adamw",
    "scale_by_lbfgs",
    "sgd",
    "t5x_adafactor",
    "yogi",
};
enum { WANTED = sizeof wanted / sizeof *wanted };

struct job {
    const struct json_value *recorded;
    const struct plan_module *plans;
    struct cg_kernel **kernels; /* by plan and group */
    uint32_t **kernel_of;
};
static struct cuda_harness harness;
static struct job jobs[WANTED];
static uint32_t job_count;

static const char *underlined(const char *path)
{
    char *name = arena_format(&arena, "g_%s", path);
    for (char *c = name; *c; c++)
        if (*c == '.') *c = '_';
    return name;
}

static const char *document(const char *optimizer)
{
    struct str s = STR(&arena), inputs = STR(&arena), nodes = STR(&arena), loss = STR(&arena);
    const char *comma = "", *plus = "";
    for (const struct json_value *p = child(get(recorded.values, "shapes")); p;
         p = sibling(p), comma = ", ", plus = " + ") {
        const char *name = underlined(p->key);
        str_addf(&inputs, "%s\"%s\": {\"shape\": %s}", comma, name, text_of(p));
        str_addf(&nodes, "%s{\"type\": \"param\", \"name\": \"%s\", \"shape\": %s}", comma, p->key, text_of(p));
        str_addf(&loss, "%ssum(params.%s * %s)", plus, p->key, name);
    }
    str_addf(&s,
             "{\"stepc\": 1, \"name\": \"test\", \"inputs\": {%s}, \"model\": {\"type\": \"graph\", \"nodes\": [%s], "
             "\"output\": \"scale\"},",
             str_text(&inputs), str_text(&nodes));
    str_addf(&s, "\"loss\": \"%s\", \"optimizer\": %s}", str_text(&loss), optimizer);
    return str_text(&s);
}

/* ---------------------------------------------------------------- collecting */

static void lower(struct job *job, uint32_t index)
{
    const struct plan *plan = job->plans->plans.items[index];
    struct diags diags = {.arena = &arena};
    struct cg_target target = {.cpu = "x86-64-v3", .features = ""};
    cuda_target(&target);
    job->kernels[index] = arena_new_array(&arena, struct cg_kernel, plan->groups.count + 1);
    job->kernel_of[index] = arena_new_array(&arena, uint32_t, plan->groups.count + 1);
    if (!cg_lower(job->plans, plan, &target, &arena, &diags, job->kernels[index]))
        ck_abort_msg("%s: not lowered", text_of(job->recorded));
    for (size_t i = 0; i < plan->groups.count; i++)
        job->kernel_of[index][i] = cuda_harness_add(&harness, job->kernels[index][i].nest);
}

static void collect(const struct json_value *c)
{
    static const struct fe_options options;
    struct pass_options pass_options = {.blocks = CG_CUDA_BLOCKS, .verify_each = true};
    struct diags diags = {.arena = &arena};
    struct pass *pass = arena_new(&arena, struct pass);
    struct ir_module *last = NULL;
    const char *text = document(text_of(get(c, "optimizer")));
    struct ir_module *module = fe_compile("test.json", text, strlen(text), &options, &diags);
    ck_assert_msg(module && !diags.errors, "%s: %s", text, diags.list.count ? diags.list.items[0].message : "?");
    *pass = (struct pass){.options = &pass_options, .diags = &diags, .keep = &arena};
    struct job job = {.recorded = c, .plans = pass_run(pass, module, &last)};
    ck_assert_msg(job.plans && !diags.errors, "%s", text);
    job.kernels = arena_new_array(&arena, struct cg_kernel *, job.plans->plans.count);
    job.kernel_of = arena_new_array(&arena, uint32_t *, job.plans->plans.count);
    for (uint32_t i = 0; i < job.plans->plans.count; i++) lower(&job, i);
    jobs[job_count++] = job;
}

/* The first case of every name that is wanted. */
static void collect_all(void)
{
    for (uint32_t i = 0; i < WANTED; i++) {
        const struct json_value *c = child(get(recorded.values, "cases"));
        while (c && strcmp(wanted[i], get(get(c, "optimizer"), "type")->string) != 0) c = sibling(c);
        ck_assert_msg(c != NULL, "no recorded case of %s", wanted[i]);
        collect(c);
    }
}

/* ---------------------------------------------------------------- running */

static bool backwards_now;

static void run_member(struct executor *x, const uint32_t *kernel_of, const struct plan_command *c, uint32_t member)
{
    void *buffers[256];
    uint32_t group = plan_member(c, member), n = 0;
    size_t inputs = x->plan->groups.items[group].inputs.count, outputs = x->plan->groups.items[group].outputs.count;
    ck_assert_uint_lt(inputs + outputs, 256);
    for (size_t i = 0; i < inputs; i++) buffers[n++] = address_of(x, c->reads.items[member * inputs + i]);
    for (size_t i = 0; i < outputs; i++) buffers[n++] = address_of(x, c->writes.items[member * outputs + i]);
    cuda_harness_launch(&harness, kernel_of[group], buffers, 0, x->kernels[group].nest->parallel_extent, backwards_now);
}

static void run_plan(struct executor *x, const uint32_t *kernel_of)
{
    for (uint32_t c = 0; c < x->plan->commands.count; c++) {
        const struct plan_command *k = &x->plan->commands.items[c];
        if (k->kind == PLAN_KERNEL) {
            for (uint32_t m = 0; m < plan_members(k); m++) run_member(x, kernel_of, k, m);
            continue;
        }
        ck_assert(k->kind == PLAN_LOOP_BEGIN || k->kind == PLAN_LOOP_END);
        int32_t *counter = address_of(x, k->counter), limit = *(int32_t *)address_of(x, k->limit);
        *counter = k->kind == PLAN_LOOP_BEGIN ? 0 : *counter + 1;
        bool go = *counter < limit && (k->flag == UINT32_MAX || *(unsigned char *)address_of(x, k->flag));
        if (k->kind == PLAN_LOOP_BEGIN ? !go : go) c = k->other;
    }
}

/* What a run of several steps keeps. */
struct machine {
    const struct job *job;
    struct executor e;
    struct arena a;
};

static void run_entry(struct machine *m, const char *name)
{
    for (uint32_t i = 0; i < m->job->plans->plans.count; i++) {
        const struct plan *plan = m->job->plans->plans.items[i];
        if (strcmp(plan->func->name, name) != 0) continue;
        m->e.plan = plan;
        m->e.kernels = m->job->kernels[i];
        m->e.arena = arena_alloc(&m->a, plan->arena_bytes + 64);
        memset(m->e.arena, 0xff, plan->arena_bytes);
        run_plan(&m->e, m->job->kernel_of[i]);
        return;
    }
    ck_abort_msg("no entry %s", name);
}

static float *slot(struct machine *m, const char *name)
{
    int32_t i = ir_slot_find(m->job->plans->module, name);
    if (i < 0) return NULL;
    return m->e.input[i] ? m->e.input[i] : (void *)(m->e.state + m->job->plans->slot_offset[i]);
}

static void put(float *to, const struct json_value *list)
{
    for (const struct json_value *x = to ? child(list) : NULL; x; x = sibling(x)) *to++ = (float)x->number;
}

static void start(struct machine *m)
{
    const struct ir_module *module = m->job->plans->module;
    m->e = (struct executor){.pm = m->job->plans, .a = &m->a};
    m->e.state = arena_alloc(&m->a, m->job->plans->state_bytes + 64);
    m->e.result = arena_alloc(&m->a, m->job->plans->result_bytes + 64);
    m->e.input = arena_new_array(&m->a, void *, module->slots.count + 1);
    for (size_t i = 0; i < module->slots.count; i++) {
        const struct ir_slot *s = &module->slots.items[i];
        struct ir_tensor value = {.type = s->type, .v = (double[1]){s->initial}};
        if (s->role == IR_ROLE_INPUT) m->e.input[i] = arena_alloc(&m->a, 4 * (size_t)ir_type_elements(&s->type) + 1);
        if (s->role == IR_ROLE_HYPER) ir_tensor_to_bytes(&value, m->e.state + m->job->plans->slot_offset[i]);
    }
    run_entry(m, "init");
    for (const struct json_value *p = child(get(recorded.values, "initial")); p; p = sibling(p)) {
        put(slot(m, p->key), p);
        put(slot(m, arena_format(&arena, "slow.%s", p->key)), p);
    }
}

static void compare(struct machine *m, const struct json_value *tree)
{
    for (const struct json_value *p = child(tree); p; p = sibling(p)) {
        const float *got = slot(m, p->key);
        for (const struct json_value *x = child(p); x; x = sibling(x), got++)
            ck_assert_msg(fabs((double)*got - x->number) <= 4e-6 + 2e-5 * fabs(x->number),
                          "%s: %s is %.9g instead of %.9g", text_of(get(m->job->recorded, "optimizer")), p->key,
                          (double)*got, x->number);
    }
}

static void replay(const struct job *job)
{
    struct machine m = {.job = job};
    bool first = true;
    start(&m);
    for (const struct json_value *g = child(get(recorded.values, "grads")); g; g = sibling(g)) {
        for (const struct json_value *p = child(g); p; p = sibling(p)) put(slot(&m, underlined(p->key)), p);
        run_entry(&m, "step");
        if (first) compare(&m, get(job->recorded, "first"));
        first = false;
    }
    compare(&m, get(job->recorded, "last"));
    arena_free(&m.a);
}

START_TEST(trajectories)
{
    collect_all();
    if (!cuda_harness_compile(&harness)) {
        printf("skipped: no C++ compiler\n");
        return;
    }
    for (uint32_t i = 0; i < 2 * job_count; i++) {
        backwards_now = i % 2 == 1;
        replay(&jobs[i / 2]);
    }
}
END_TEST

int main(void)
{
    load("tests/unit/frontend/optim_cases.json");
    cuda_harness_init(&harness, &arena);
    return run_case("cuda, optimizers", CASE_OF(240, trajectories));
}
