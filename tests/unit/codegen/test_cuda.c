/* Whole functions through the CUDA printer: the cases of the lowering and the entries of whole documents are planned
 * and printed as kernels, the kernels run on this CPU with their barriers in the memory that the plan lays out, and the
 * results are those of the interpreter of the IR. All kernels are one text: cases are collected first, then compiled
 * together. The same text goes through NVRTC where it is installed. An object for CUDA opens on any machine, describes
 * itself, and create says why it cannot run. */
#include "cuda_harness.h"
#include "frontend/fe.h"
#include "lower_harness.h"
#include "tests/unit/file.h"
#include "tests/unit/suite.h"
#include <stepc/step.h>

enum { MOST_JOBS = 400 };
struct job {
    const char *name;
    const struct plan_module *plans;
    const struct plan *plan;
    struct cg_kernel *kernels; /* by group */
    uint32_t *kernel_of;       /* by group */
    double tolerance;
    int64_t limit; /* of integers where the slot says none */
};
static struct arena arena;
static struct cuda_harness harness;
static struct job jobs[MOST_JOBS];
static uint32_t job_count;
static const struct plan_module *first_document;

/* ---------------------------------------------------------------- collecting */

static void add_job(const char *name, const struct plan_module *plans, const struct plan *plan, double tolerance,
                    int64_t limit)
{
    struct cg_kernel *kernels = arena_new_array(&arena, struct cg_kernel, plan->groups.count + 1);
    struct diags diags = {.arena = &arena};
    struct cg_target target = {.cpu = "x86-64-v3", .features = ""};
    cuda_target(&target);
    if (!cg_lower(plans, plan, &target, &arena, &diags, kernels))
        ck_abort_msg("%s: %s", name, diags.list.count ? diags.list.items[0].message : "not lowered");
    struct job job = {name,      plans, plan, kernels, arena_new_array(&arena, uint32_t, plan->groups.count + 1),
                      tolerance, limit};
    for (size_t i = 0; i < plan->groups.count; i++) job.kernel_of[i] = cuda_harness_add(&harness, kernels[i].nest);
    ck_assert_uint_lt(job_count, MOST_JOBS);
    jobs[job_count++] = job;
}

static void collect(struct fixture *x, const char *name, double tolerance, int64_t limit)
{
    struct planned *p = arena_new(&arena, struct planned);
    plan_module(p, x->m, (struct pass_options){.blocks = CG_CUDA_BLOCKS});
    add_job(name, p->plans, p->plans->plans.items[0], tolerance, limit);
}

/* The cases of test_lower.c are written against these two. */
#undef CHECK_BOTH
#undef CHECK_32
#define CHECK_BOTH(x, tolerance, limit) collect(&(x), __func__, tolerance, limit)
#define CHECK_32 CHECK_BOTH
#include "test_lower_cases.h"

static void collect_document(const char *path, const char *const *names, const char *const *values, double tolerance)
{
    struct fe_define defines[8];
    struct fe_options options = {.defines = defines};
    struct diags diags = {.arena = &arena};
    struct pass_options pass_options = {.blocks = CG_CUDA_BLOCKS, .verify_each = true};
    struct pass *pass = arena_new(&arena, struct pass);
    struct ir_module *last = NULL;
    const char *text = document_text(&arena, path);
    size_t length = strlen(text);
    for (; names && names[options.define_count]; options.define_count++)
        defines[options.define_count] = (struct fe_define){names[options.define_count], values[options.define_count]};
    diags.source = (struct diag_source){path, text, length};
    struct ir_module *module = fe_compile(path, text, length, &options, &diags);
    ck_assert_msg(module && !diags.errors, "%s: %s", path, diags.list.count ? diags.list.items[0].message : "?");
    *pass = (struct pass){.options = &pass_options, .diags = &diags, .keep = &arena};
    const struct plan_module *plans = pass_run(pass, module, &last);
    ck_assert_msg(plans && !diags.errors, "%s: %s", path, diags.list.count ? diags.list.items[0].message : "?");
    first_document = first_document ? first_document : plans;
    for (size_t i = 0; i < plans->plans.count; i++)
        add_job(arena_format(&arena, "%s: %s", path, plans->plans.items[i]->func->name), plans, plans->plans.items[i],
                tolerance, 10);
}

START_TEST(documents)
{
    collect_document("samples/cookbook/model.json", NULL, NULL, 1e-5);
    collect_document("samples/digits/model.json", NULL, NULL, 1e-5);
    static const char *const names[] = {"batch", "context", "width", "heads", "layers", NULL};
    static const char *const values[] = {"2", "16", "32", "2", "2", NULL};
    collect_document("samples/shakespeare/model.json", names, values, 1e-4);
    static const char *const more[] = {"accumulate/accumulate_transformer", "random/dropout_attention",
                                       "layer/layer_batch_norm_images", "layer/layer_conv2d",
                                       "model/model_rnn_language"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        collect_document(arena_format(&arena, "tests/parity/cases/%s.json", more[i]), NULL, NULL, 1e-4);
}
END_TEST

/* ---------------------------------------------------------------- running */

static bool backwards_now;

static void run_kernel(struct executor *x, const struct job *job, const struct plan_command *c)
{
    for (uint32_t m = 0; m < plan_members(c); m++) {
        const struct plan_group *g = &x->plan->groups.items[plan_member(c, m)];
        void *buffers[256];
        size_t reads = g->inputs.count, writes = g->outputs.count;
        ck_assert_uint_lt(reads + writes, 256);
        for (size_t i = 0; i < reads + writes; i++)
            buffers[i] = address_of(x, i < reads ? c->reads.items[m * reads + i]
                                                 : c->writes.items[m * writes + i - reads]);
        /* the number of iterations belongs to the group: flat kernels of different sizes are one kernel */
        cuda_harness_launch(&harness, job->kernel_of[plan_member(c, m)], buffers, 0,
                            x->kernels[plan_member(c, m)].nest->parallel_extent, backwards_now);
    }
}

static void run_plan(struct executor *x, const struct job *job)
{
    const struct plan *plan = job->plan;
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        const struct plan_command *k = &plan->commands.items[c];
        if (k->kind == PLAN_KERNEL) {
            run_kernel(x, job, k);
            continue;
        }
        ck_assert(k->kind == PLAN_LOOP_BEGIN || k->kind == PLAN_LOOP_END);
        int32_t *counter = address_of(x, k->counter), limit = *(int32_t *)address_of(x, k->limit);
        *counter = k->kind == PLAN_LOOP_BEGIN ? 0 : *counter + 1;
        bool go = *counter < limit && (k->flag == UINT32_MAX || *(unsigned char *)address_of(x, k->flag));
        if (k->kind == PLAN_LOOP_BEGIN ? !go : go) c = k->other;
    }
}

/* Moments and averages of squares are not negative. */
static struct ir_tensor some_tensor(const struct job *job, const struct ir_param *p, uint64_t *state, struct arena *a)
{
    const struct ir_slot *slot = &job->plans->module->slots.items[p->slot];
    struct ir_tensor t = random_tensor(p->type, slot->index_limit ? slot->index_limit : job->limit, state, a);
    for (int64_t i = 0; slot->role == IR_ROLE_OPT_STATE && i < ir_type_elements(&p->type); i++) t.v[i] = fabs(t.v[i]);
    return t;
}

static void compare(const struct job *job, const struct ir_result *r, const struct ir_tensor *want, const void *data,
                    struct arena *a)
{
    struct ir_tensor got = {.type = want->type};
    double largest = 1e-30;
    int64_t n = ir_type_elements(&got.type);
    ir_tensor_from_bytes(&got, data, a);
    for (int64_t j = 0; j < n; j++) largest = fmax(largest, isfinite(want->v[j]) ? fabs(want->v[j]) : 0);
    for (int64_t j = 0; j < n; j++) {
        bool same = got.v[j] == want->v[j] || (isnan(got.v[j]) && isnan(want->v[j])) ||
                    fabs(got.v[j] - want->v[j]) <= job->tolerance * largest;
        ck_assert_msg(same, "%s: element %lld of %s is %.9g, the interpreter says %.9g", job->name, (long long)j,
                      r->name, got.v[j], want->v[j]);
    }
}

static void run_job(const struct job *job)
{
    const struct plan *plan = job->plan;
    const struct ir_func *f = plan->func;
    struct arena a = {0};
    uint64_t state = 7;
    struct executor e = {.plan = plan, .pm = job->plans, .kernels = job->kernels, .a = &a};
    e.arena = arena_alloc(&a, plan->arena_bytes + 64);
    e.state = arena_alloc(&a, job->plans->state_bytes + 64);
    e.result = arena_alloc(&a, job->plans->result_bytes + 64);
    e.input = arena_new_array(&a, void *, job->plans->module->slots.count + 1);
    memset(e.arena, 0xff, plan->arena_bytes);
    struct ir_tensor *params = arena_new_array(&a, struct ir_tensor, f->params.count + 1);
    struct ir_tensor *results = arena_new_array(&a, struct ir_tensor, f->results.count + 1);
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *q = &f->params.items[i];
        params[i] = some_tensor(job, q, &state, &a);
        if (job->plans->module->slots.items[q->slot].role == IR_ROLE_INPUT)
            e.input[q->slot] = arena_alloc(
                &a, (size_t)ir_type_elements(&q->type) * ir_dtype_bytes((enum ir_dtype)q->type.dtype) + 1);
        ir_tensor_to_bytes(&params[i],
                           e.input[q->slot] ? e.input[q->slot] : e.state + job->plans->slot_offset[q->slot]);
    }
    run_plan(&e, job);
    ir_eval(f, IR_EVAL_EXACT_DTYPES, params, results, &a);
    for (size_t i = 0; i < f->results.count; i++) {
        int32_t slot = f->results.items[i].slot;
        enum ir_role role = job->plans->module->slots.items[slot].role;
        unsigned char *block = role == IR_ROLE_OUTPUT || role == IR_ROLE_METRIC ? e.result : e.state;
        compare(job, &f->results.items[i], &results[i], block + job->plans->slot_offset[slot], &a);
    }
    arena_free(&a);
}

START_TEST(cpu_agrees)
{
    ck_assert_uint_gt(job_count, 0);
    if (!cuda_harness_compile(&harness)) {
        printf("skipped: no C++ compiler\n");
        return;
    }
    for (uint32_t i = 0; i < 2 * job_count; i++) {
        backwards_now = i % 2 == 1;
        run_job(&jobs[i / 2]);
    }
}
END_TEST

/* Not under sanitizers, which look at our code and slow NVRTC down: test_cuda_emit.c calls it there. */
START_TEST(nvrtc_compiles)
{
#ifndef __SANITIZE_ADDRESS__
    cuda_harness_cubins(&harness);
#endif
}
END_TEST

/* ---------------------------------------------------------------- objects */

static int make_object(const char *path, const char *archs, const char **why)
{
    struct diags diags = {.arena = &arena};
    struct cg_options options = {.target = {.level = 2, .cuda = true, .cuda_arch = archs}, .output = path};
    ck_assert(cg_target_init(&options.target, "x86-64-v3", why, &arena));
    struct cg_bytes object;
    int code = cg_compile(first_document, &options, &arena, &diags, &object, why);
    FILE *file = code ? NULL : fopen(path, "wb");
    ck_assert(code || (file && fwrite(object.data, object.size, 1, file) == 1 && fclose(file) == 0));
    return code;
}

static struct cg_bytes contents(const char *path)
{
    size_t size = 0;
    const char *data = file_bytes(&arena, path, &size);
    ck_assert_msg(data != NULL, "%s", path);
    return (struct cg_bytes){data, size};
}

static void check_object(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = handle ? dlsym(handle, "step_query") : NULL;
    ck_assert_msg(symbol != NULL, "%s", dlerror());
    step_query_fn *query;
    memcpy(&query, &symbol, sizeof query);
    const struct step_api *api = query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
    ck_assert(api != NULL);
    ck_assert(strstr(api->describe(), "\"device\":\"cuda\"") != NULL);
    ck_assert(strstr(api->describe(), "sm_80,sm_90") != NULL);
    struct step_options options = {.size = sizeof options};
    struct step_instance *instance = NULL;
    ck_assert_int_eq(api->create(&options, &instance), STEP_EDEVICE);
    ck_assert(instance == NULL);
    ck_assert_msg(strstr(api->last_error(NULL), "CUDA") != NULL, "%s", api->last_error(NULL));
    dlclose(handle);
}

START_TEST(object)
{
    char folder[] = "/tmp/stepc-cuda-XXXXXX";
    const char *why = NULL;
    ck_assert(mkdtemp(folder) != NULL);
    const char *path = arena_format(&arena, "%s/step.so", folder), *again = arena_format(&arena, "%s/again.so", folder);
    ck_assert_int_eq(make_object(path, "sm_80,tensor", &why), 2);
    ck_assert(strstr(why, "--cuda-arch") != NULL);
    ck_assert_int_eq(make_object(path, "", &why), 2);
    int code = make_object(path, "sm_80,sm_90", &why);
    if (code == 3 && strstr(why, "NVRTC")) {
        printf("skipped: %s\n", why);
    } else {
        ck_assert_msg(code == 0, "%s", why);
        ck_assert_int_eq(make_object(again, "sm_80,sm_90", &why), 0);
        struct cg_bytes x = contents(path), y = contents(again);
        ck_assert_msg(x.size == y.size && memcmp(x.data, y.data, x.size) == 0, "two compilations differ");
        check_object(path);
        ck_assert_int_eq(make_object(again, "sm_10", &why), 3);
        ck_assert(strstr(why, "sm_10") != NULL);
    }
    unlink(path);
    unlink(again);
    rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *collecting = suite_create("cuda, collecting");
    TCase *models = tcase_create("documents");
    cuda_harness_init(&harness, &arena);
    lowered_alone = true; /* cases for other targets; test_lower.c carries them out */
    add_cases(collecting);
    tcase_add_test(models, documents);
    suite_add_tcase(collecting, models);
    SRunner *runner = srunner_create(collecting);
    srunner_set_fork_status(runner, CK_NOFORK); /* what is collected has to stay */
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return run_case("cuda", CASE_OF(240, cpu_agrees, nvrtc_compiles, object)) || failed;
}
