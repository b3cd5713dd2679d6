/* The rules of the interface, each with a test: struct sizes, one caller at a time, poisoned instances, texts, the
 * floating point environment, fork, interrupt, wrong pointers. What arrays must be is in test_arrays.c. */
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static struct toy toy, linked;
static struct toy_data data;

/* What an object would hold; the arrays are filled by main. */
const struct stepc_program stepc_program = {.version = STEPC_TABLES,
                                            .name = "toy",
                                            .manifest = "{\"name\": \"toy\"}",
                                            .features = "",
                                            .slots = linked.slots,
                                            .slot_count = TOY_SLOTS,
                                            .entries = linked.entries,
                                            .entry_count = 5,
                                            .constants = (const unsigned char *)linked.constants,
                                            .constant_bytes = sizeof linked.constants,
                                            .state_bytes = TOY_STATE,
                                            .result_bytes = TOY_RESULT,
                                            .axis_count = 1,
                                            .axis_names = toy_axis_names,
                                            .axis_sizes = linked.axis,
                                            .team = &stepc_part_team,
                                            .indices = &stepc_part_indices,
                                            .checkpoint = &stepc_part_checkpoint};

static struct step_instance *ready(int64_t devices, uint32_t threads)
{
    struct step_instance *t = toy_ready(&toy, &data, devices, threads);
    ck_assert_msg(t != NULL, "%s", rt_last_error(NULL));
    return t;
}

START_TEST(query)
{
    const struct step_api *api = step_query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
    ck_assert_ptr_nonnull(api);
    ck_assert_ptr_null(step_query(STEP_ABI_MAJOR + 1, 0));
    ck_assert_ptr_null(step_query(STEP_ABI_MAJOR, STEP_ABI_MINOR + 1));
    ck_assert_uint_eq(api->size, sizeof *api);
    ck_assert_str_eq(api->describe(), "{\"name\": \"toy\"}");
#define S(status) \
    { \
        status, #status \
    }
    static const struct {
        step_status status;
        const char *name;
    } names[] = {S(STEP_OK),           S(STEP_EINVAL),    S(STEP_ENOTFOUND),  S(STEP_ESHAPE),     S(STEP_ERANGE),
                 S(STEP_ENOMEM),       S(STEP_EIO),       S(STEP_ECORRUPT),   S(STEP_EVERSION),   S(STEP_EDEVICE),
                 S(STEP_EPEER),        S(STEP_ETIMEOUT),  S(STEP_ENONFINITE), S(STEP_ECANCELLED), S(STEP_EBUSY),
                 S(STEP_EUNSUPPORTED), S(STEP_EPOISONED), S(STEP_EINTERNAL)};
#undef S
    for (size_t i = 0; i <= STEP_EINTERNAL; i++) ck_assert_str_eq(api->status_name(names[i].status), names[i].name);
    ck_assert_str_eq(api->status_name(STEP_EINTERNAL + 1), "unknown status");
    ck_assert_str_eq(api->status_name(-1), "unknown status");
    void *const *entries = (void *const *)(const void *)&api->describe; /* every entry is there */
    for (size_t i = 0; i < (sizeof *api - offsetof(struct step_api, describe)) / sizeof(void *); i++)
        ck_assert_ptr_nonnull(entries[i]);
    struct step_options options = {.size = sizeof options, .threads = 1};
    struct step_instance *t;
    struct step_result r = {.size = sizeof r};
    toy_fill(&data, 1);
    ck_assert_int_eq(api->create(&options, &t), STEP_OK);
    ck_assert_int_eq(api->init(t) | api->step(t, &data.batch, &r), STEP_OK);
    ck_assert_uint_eq(r.step, 1);
    ck_assert_int_eq(api->dlpack(t, "w", NULL), STEP_EUNSUPPORTED);
    ck_assert_int_eq(api->trace(t, NULL), STEP_OK);
    ck_assert_ptr_null(api->item(t, "loader"));
    api->destroy(t);
}
END_TEST

START_TEST(struct_sizes)
{ /* rule 1: an older caller's structs are shorter, a newer one's longer */
    struct step_instance *t = ready(1, 1);
    struct {
        struct step_tensor base;
        char canary[16];
    } tensor;
    memset(&tensor, 0x5a, sizeof tensor);
    tensor.base.size = offsetof(struct step_tensor, shape); /* knows nothing behind flags */
    ck_assert_int_eq(rt_tensor_at(t, STEP_PARAM, 0, &tensor.base), STEP_OK);
    ck_assert_int_eq(tensor.base.rank, 1);
    ck_assert_int_eq(((char *)&tensor.base.shape)[0], 0x5a);
    tensor.base.size = sizeof tensor; /* newer: the tail is left alone */
    ck_assert_int_eq(rt_tensor_at(t, STEP_PARAM, 0, &tensor.base), STEP_OK);
    ck_assert_int_eq(tensor.canary[0], 0x5a);
    struct step_result r[3];
    memset(r, 0x5a, sizeof r);
    r[0].size = offsetof(struct step_result, flags);
    ck_assert_int_eq(rt_step(t, &data.batch, r), STEP_OK);
    ck_assert_uint_eq(r[0].step, 1);
    ck_assert_uint_eq(r[0].flags, 0x5a5a5a5au);
    struct {
        struct step_array base;
        char more[40];
    } wide[3]; /* arrays are walked by the caller's size */
    for (int i = 0; i < 3; i++) {
        memset(&wide[i], 0x77, sizeof wide[i]);
        wide[i].base = data.arrays[i];
        wide[i].base.size = sizeof wide[i];
    }
    struct step_batch batch = {
        .size = offsetof(struct step_batch, hypers), .inputs = &wide[0].base, .input_count = 3, .hyper_count = 99};
    ck_assert_msg(rt_step(t, &batch, NULL) == STEP_OK, "%s", rt_last_error(t));
    struct step_options options = {.size = sizeof options.size};
    struct step_instance *u;
    ck_assert_int_eq(rt_create(&toy.program, &options, &u), STEP_OK);
    rt_destroy(u);
    options.size = 0;
    ck_assert_int_eq(rt_create(&toy.program, &options, &u), STEP_EINVAL);
    ck_assert_ptr_null(u);
    struct step_host host = {.size = 0};
    options.size = sizeof options, options.host = &host; /* whose services would be lost */
    ck_assert_int_eq(rt_create(&toy.program, &options, &u), STEP_EINVAL);
    static const size_t wrong[] = {0, 3, offsetof(struct step_batch, inputs) + 4, SIZE_MAX - 7}; /* half of a pointer */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        batch.size = wrong[i];
        ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
        r[0].size = wrong[i]; /* numbers would be lost: before the step, not after */
        ck_assert_int_eq(rt_step(t, &data.batch, r), STEP_EINVAL);
        tensor.base.size = wrong[i];
        ck_assert_int_eq(rt_tensor_at(t, STEP_PARAM, 0, &tensor.base), STEP_EINVAL);
        ck_assert_ptr_nonnull(strstr(rt_last_error(t), "step_tensor: ")); /* queries leave a text as well */
    }
    ck_assert_uint_eq(t->steps, 2);
    rt_destroy(t);
}
END_TEST

/* ---------------------------------------------------------------- one caller */

static _Atomic int inside, go_on;
static void hold(const float *r)
{
    (void)r;
    atomic_store(&inside, 1);
    while (!atomic_load(&go_on)) usleep(100);
}

static void *step_in_thread(void *t)
{
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    return NULL;
}

START_TEST(busy)
{
    struct step_instance *t = ready(1, 1), *other = ready(1, 1);
    pthread_t thread;
    float w[3];
    atomic_store(&inside, 0), atomic_store(&go_on, 0);
    toy_hook = hold;
    pthread_create(&thread, NULL, step_in_thread, t);
    while (!atomic_load(&inside)) usleep(100);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_EBUSY);
    ck_assert_ptr_nonnull(strstr(rt_last_error(t), "another thread"));
    ck_assert_int_eq(toy_read(t, "w", w, 3), STEP_EBUSY);
    ck_assert_int_eq(rt_hyper_set(t, "learning_rate", 1), STEP_EBUSY);
    ck_assert_int_eq(rt_stage(t, &data.batch), STEP_OK); /* may be called during a step */
    ck_assert_int_eq(toy_read(other, "w", w, 3), STEP_OK);
    atomic_store(&go_on, 1);
    pthread_join(thread, NULL);
    toy_hook = NULL;
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    rt_destroy(t), rt_destroy(other);
}
END_TEST

/* ---------------------------------------------------------------- peers that do not come */

static _Atomic int late, back;
static void one_is_late(const float *r)
{
    (void)r;
    if (atomic_fetch_add(&late, 1) == 0) { /* whichever device comes first */
        usleep(5000000); /* far from the limit below, and that far from what a busy machine takes to run all threads
                            once */
        atomic_store(&back, 1);
    }
}

START_TEST(late_peer)
{
    char path[] = "/tmp/stepc-test-XXXXXX", file[64];
    struct step_options options = {.size = sizeof options, .threads = 1, .timeout_ms = 1500, .flags = STEP_NO_ENV};
    struct step_instance *t;
    struct step_result r = {.size = sizeof r};
    float w[3];
    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(file, sizeof file, "%s/state.safetensors", path);
    ck_assert_int_eq(rt_create(toy_build(&toy, 4, false, false), &options, &t), STEP_OK);
    toy_fill(&data, 1);
    ck_assert_int_eq(rt_init(t) | rt_step(t, &data.batch, NULL), STEP_OK);
    struct step_save save = {.size = sizeof save, .directory = file};
    ck_assert_msg(rt_save(t, &save, NULL) == STEP_OK, "%s", rt_last_error(t));
    atomic_store(&late, 0), atomic_store(&back, 0);
    toy_hook = one_is_late;
    step_status status = rt_step(t, &data.batch, &r);
    toy_hook = NULL;
    ck_assert_int_eq(status, STEP_ETIMEOUT);
    const char *text = rt_last_error(t);
    ck_assert_msg(strncmp(text, "STEP_ETIMEOUT: all_reduce #2 (/loss: gradients) waited 1500 ms at step 2", 63) == 0,
                  "%s", text);
    ck_assert_msg(strstr(text, "has not entered; last seen in #1 (all_reduce, /loss: gradients)") != NULL, "%s", text);
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_EPOISONED);
    ck_assert_int_eq(toy_read(t, "w", w, 3), STEP_EPOISONED);
    ck_assert_int_eq(rt_init(t), STEP_EPOISONED);
    while (!atomic_load(&back)) usleep(1000);
    usleep(300000);
    struct step_load load = {.size = sizeof load, .path = file};
    ck_assert_msg(rt_load(t, &load) == STEP_OK, "%s", rt_last_error(t)); /* heals */
    ck_assert_msg(rt_step(t, &data.batch, &r) == STEP_OK, "%s", rt_last_error(t));
    ck_assert_uint_eq(r.step, 2);
    rt_destroy(t);
    unlink(file), rmdir(path);
}
END_TEST

/* ---------------------------------------------------------------- environment of the caller */

static void (*keep_hook)(const float *);
static unsigned seen_control;
static void look(const float *r)
{
    (void)r, (void)keep_hook;
#if defined(__x86_64__)
    seen_control = _mm_getcsr();
#endif
}

START_TEST(floating_point)
{
    struct step_instance *t = ready(1, 1);
    toy_hook = look;
    fesetround(FE_UPWARD);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    ck_assert_int_eq(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    toy_hook = NULL;
#if defined(__x86_64__)
    ck_assert_uint_eq(seen_control & 0xe040u, 0x8040u); /* nearest, FTZ, DAZ inside */
    _mm_setcsr(0x1f80);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    ck_assert_uint_eq(_mm_getcsr() & 0xffc0u, 0x1f80);
#endif
    rt_destroy(t);
}
END_TEST

START_TEST(after_fork)
{
    struct step_instance *t = ready(2, 1);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    pid_t child = fork();
    if (child == 0) {
        int ok = rt_step(t, &data.batch, NULL) == STEP_EINVAL && strstr(rt_last_error(NULL), "fork") &&
                 rt_stage(t, &data.batch) == STEP_EINVAL;
        rt_destroy(t); /* neither hangs nor crashes */
        _exit(ok ? 7 : 8);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    rt_destroy(t);
}
END_TEST

static struct step_instance *to_interrupt;
static void interrupt_it(const float *r)
{
    (void)r;
    rt_interrupt(to_interrupt);
}

START_TEST(interrupted)
{
    enum { N = 4 };
    static float x[N][24], y[N][8];
    static int32_t label[N][8];
    struct step_instance *t = to_interrupt = ready(1, 1);
    struct step_result r = {.size = sizeof r};
    toy_hook = interrupt_it;
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_ECANCELLED);
    ck_assert_uint_eq(r.step, 1); /* the step was finished */
    toy_hook = NULL;
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_OK);
    rt_interrupt(t); /* between calls: the next one does nothing */
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_ECANCELLED);
    ck_assert_uint_eq(r.step, 2);
    for (int infer = 0; infer < 2; infer++) { /* so does the next evaluation; what comes then goes on */
        rt_interrupt(t);
        ck_assert_int_eq(infer ? rt_infer(t, &data.batch, NULL, NULL, 0) : rt_eval(t, &data.batch, NULL, &r),
                         STEP_ECANCELLED);
        ck_assert_ptr_nonnull(strstr(rt_last_error(t), "interrupted after step 2"));
        ck_assert_int_eq(rt_infer(t, &data.batch, NULL, NULL, 0), STEP_OK);
    }
    toy_forward_hook = interrupt_it;
    r.loss = 0;
    ck_assert_int_eq(rt_eval(t, &data.batch, NULL, &r), STEP_ECANCELLED);
    ck_assert(r.loss != 0); /* what it gives is there */
    toy_forward_hook = NULL;
    const int64_t sx[] = {N, 8, 3}, sr[] = {N, 8};
    struct step_array in[3] = {data.arrays[0], data.arrays[1], data.arrays[2]};
    in[0].data = x, in[0].rank = 3, in[0].shape = sx, in[1].data = y, in[1].rank = 2, in[1].shape = sr;
    in[2].data = label, in[2].rank = 2, in[2].shape = sr;
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 3};
    toy_hook = interrupt_it;
    ck_assert_int_eq(rt_step_n(t, &batch, N, NULL), STEP_ECANCELLED);
    toy_hook = NULL;
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_OK);
    ck_assert_uint_eq(r.step, 4); /* one of the N was done */
    rt_destroy(t);
}
END_TEST

START_TEST(order_and_null)
{ /* calls out of order and null pointers are errors, never crashes */
    struct step_instance *t = toy_create(toy_build(&toy, 1, false, false), 1);
    struct step_options options = {.size = sizeof options};
    float w[3];
    toy_fill(&data, 1);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(rt_last_error(t), "call init or load first"));
    ck_assert_int_eq(toy_read(t, "w", w, 3), STEP_EINVAL);
    rt_destroy(t);
    ck_assert_int_eq(rt_create(&toy.program, &options, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_create(&toy.program, NULL, &t), STEP_EINVAL);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(rt_init(NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_step(NULL, NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_step_n(NULL, NULL, 1, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_step_n(NULL, NULL, UINT64_MAX, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_eval(NULL, NULL, NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_infer(NULL, NULL, NULL, NULL, 0), STEP_EINVAL);
    ck_assert_int_eq(rt_read(NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_write(NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_save(NULL, NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_load(NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_memory(NULL, 0, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_hyper_get(NULL, NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_hyper_set(NULL, NULL, 0), STEP_EINVAL);
    ck_assert_int_eq(rt_job_wait(NULL, 0), STEP_EINVAL);
    ck_assert_uint_eq(rt_tensor_count(NULL, 1), 0);
    rt_interrupt(NULL), rt_destroy(NULL), rt_job_free(NULL), rt_abort_peers(NULL);
    ck_assert_ptr_nonnull(rt_last_error(NULL));
    t = ready(1, 1);
    ck_assert_int_eq(rt_step(t, NULL, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_read(t, NULL), STEP_EINVAL);
    ck_assert_int_eq(rt_load(t, &(struct step_load){.size = sizeof(struct step_load)}), STEP_EINVAL);
    rt_destroy(t);
}
END_TEST

START_TEST(refusing_create)
{
    struct step_options options = {.size = sizeof options, .flags = STEP_NO_ENV};
    struct step_instance *t;
    struct stepc_program p = *toy_build(&toy, 4, false, false);
    options.flags = STEP_NO_ENV | 8;
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EINVAL);
    options.flags = STEP_NO_ENV;
    options.transport = "nccl";
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EUNSUPPORTED);
    options.transport = "carrier pigeon";
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EINVAL);
    options.transport = "self";
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EDEVICE);
    options.transport = NULL, options.devices = "cuda:0";
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EDEVICE);
    options.devices = NULL, options.max_memory = 100;
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_ENOMEM);
    options.max_memory = 0;
    p.version = 99;
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EVERSION);
    p.version = STEPC_TABLES, p.cuda = &(const struct stepc_cuda){0}, p.gpu = &stepc_part_gpu;
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EDEVICE);
    p.cuda = NULL, p.gpu = NULL, p.features = "ssse3,amx-int8";
    if (rt_create(&p, &options, &t) != STEP_OK)
        ck_assert_ptr_nonnull(strstr(rt_last_error(NULL), "this CPU or system lacks a"));
    else rt_destroy(t);
    setenv("STEPC_THREADS", "many", 1);
    options.flags = 0, p.features = "";
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_EINVAL);
    ck_assert_str_eq(rt_last_error(NULL),
                     "STEP_EINVAL: STEPC_THREADS=many: expected a number of threads from 1 to 4096");
    setenv("STEPC_THREADS", "1", 1);
    setenv("STEPC_MAX_MEMORY", "1KiB", 1);
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_ENOMEM);
    setenv("STEPC_MAX_MEMORY", "1GiB", 1);
    ck_assert_int_eq(rt_create(&p, &options, &t), STEP_OK);
    rt_destroy(t);
    unsetenv("STEPC_THREADS"), unsetenv("STEPC_MAX_MEMORY");
}
END_TEST

START_TEST(variables)
{ /* numbers in the environment: digits with a point, nothing else, in whatever locale */
    static const struct {
        const char *name, *value;
        int64_t wanted; /* -1: refused */
    } rows[] = {{"STEPC_THREADS", "1", 0},
                {"STEPC_THREADS", "2.", 0},
                {"STEPC_THREADS", "1.5", -1},
                {"STEPC_THREADS", "0", -1},
                {"STEPC_THREADS", "-1", -1},
                {"STEPC_THREADS", "4097", -1},
                {"STEPC_THREADS", "1 ", -1},
                {"STEPC_THREADS", "0x2", -1},
                {"STEPC_THREADS", "nan", -1},
                {"STEPC_TIMEOUT", "0.5", 500},
                {"STEPC_TIMEOUT", ".25", 250},
                {"STEPC_TIMEOUT", "0.500000000000000000000000000000000000000000000001", 500},
                {"STEPC_TIMEOUT", "7", 7000},
                {"STEPC_TIMEOUT", "0", 0},
                {"STEPC_TIMEOUT", ".", -1},
                {"STEPC_TIMEOUT", "0,5", -1},
                {"STEPC_TIMEOUT", "0.5.5", -1},
                {"STEPC_TIMEOUT", "1e10", -1},
                {"STEPC_TIMEOUT", "inf", -1},
                {"STEPC_TIMEOUT", "99999999999", -1},
                {"STEPC_MAX_MEMORY", "0.5GiB", 0},
                {"STEPC_MAX_MEMORY", "1.5 GiB", -1},
                {"STEPC_MAX_MEMORY", "99999999999GiB", -1},
                {"STEPC_MAX_MEMORY", "GiB", -1},
                {"STEPC_MAX_MEMORY", "0", -1},
                {"STEPC_MAX_MEMORY", "0.5", -1},
                {"STEPC_PIN", "0", 0},
                {"STEPC_PIN", "1", 0},
                {"STEPC_PIN", "yes", -1},
                {"STEPC_PIN", "10", -1},
                {"STEPC_HUGEPAGES", "never", 0},
                {"STEPC_HUGEPAGES", "madvise", 0},
                {"STEPC_HUGEPAGES", "1", -1},
                {"STEPC_HUGEPAGES", "off", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct step_options options = {.size = sizeof options};
        struct step_instance *t;
        setenv(rows[i].name, rows[i].value, 1);
        step_status status = rt_create(toy_build(&toy, 2, false, false), &options, &t);
        unsetenv(rows[i].name);
        ck_assert_msg(status == (rows[i].wanted < 0 ? STEP_EINVAL : STEP_OK), "%s=%s: %d", rows[i].name, rows[i].value,
                      status);
        if (status) ck_assert_ptr_nonnull(strstr(rt_last_error(NULL), rows[i].value));
        else if (strcmp(rows[i].name, "STEPC_TIMEOUT") == 0) ck_assert_int_eq(t->timeout_ns, rows[i].wanted * 1000000);
        rt_destroy(t);
    }
}
END_TEST

START_TEST(destroyed_twice)
{ /* an error, and nothing that others have is touched */
    struct step_instance *a = ready(1, 1), *b = ready(1, 1), *c = ready(1, 1);
    struct step_instance *never = malloc(sizeof *never);
    const char *fault = "STEP_EINVAL: destroy: no such instance";
    rt_destroy(b), rt_destroy(b);
    ck_assert_str_eq(rt_last_error(NULL), fault);
    rt_destroy(a), rt_destroy(b), rt_destroy(a);
    ck_assert_int_eq(rt_step(c, &data.batch, NULL), STEP_OK);
    rt_destroy(c);
    rt_step(NULL, NULL, NULL); /* another text */
    rt_destroy(c);
    ck_assert_str_eq(rt_last_error(NULL), fault);
    rt_step(NULL, NULL, NULL);
    rt_destroy(never);
    ck_assert_str_eq(rt_last_error(NULL), fault);
    free(never);
}
END_TEST

/* ---------------------------------------------------------------- services of the host */

static size_t held, lines;
static void *host_alloc(void *user, size_t bytes, size_t alignment)
{
    void *p = NULL;
    if (user && held > 2000) return NULL; /* out of memory after a while */
    if (posix_memalign(&p, alignment, bytes)) return NULL;
    memset(p, 0xee, bytes);
    held += bytes;
    return p;
}
static void host_release(void *user, void *p, size_t bytes)
{
    (void)user;
    held -= bytes;
    free(p);
}
static void host_log(void *user, int level, const char *line)
{
    (void)user, (void)level;
    ck_assert_ptr_nonnull(line);
    lines++;
}

START_TEST(services)
{
    struct step_host host = {.size = sizeof host, .alloc = host_alloc, .release = host_release, .log = host_log};
    struct step_options options = {.size = sizeof options, .host = &host};
    struct step_instance *t;
    struct step_result r = {.size = sizeof r};
    setenv("STEPC_LOG", "debug", 1);
    ck_assert_int_eq(rt_create(toy_build(&toy, 2, false, false), &options, &t), STEP_OK);
    toy_fill(&data, 1);
    ck_assert_int_eq(rt_init(t) | rt_step(t, &data.batch, &r), STEP_OK);
    ck_assert(isfinite(r.loss));
    ck_assert_uint_gt(held, 0);
    ck_assert_uint_gt(lines, 0);
    rt_destroy(t);
    ck_assert_uint_eq(held, 0);
    host.user = &host;
    ck_assert_int_eq(rt_create(&toy.program, &options, &t), STEP_ENOMEM);
    ck_assert_uint_eq(held, 0);
    unsetenv("STEPC_LOG");
}
END_TEST

int main(void)
{
    toy_build(&linked, 1, false, true);
    return run_case("abi", CASE_OF(120, query, struct_sizes, busy, late_peer, floating_point, after_fork, interrupted,
                                   order_and_null, refusing_create, variables, destroyed_twice, services));
}
