/* The rules of the interface, each with a test: struct sizes, one caller at a time, poisoned instances, names and
 * shapes, ranges, texts, the floating point environment, fork, interrupt, wrong pointers. */
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
    struct step_instance *t = toy_create(toy_build(&toy, devices, true, false), threads);
    ck_assert_msg(t != NULL, "%s", rt_last_error(NULL));
    ck_assert_int_eq(rt_init(t), STEP_OK);
    toy_fill(&data, 1);
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

/* ---------------------------------------------------------------- names, shapes, ranges */

static void refused(struct step_instance *t, size_t count, struct step_array *in, step_status want, const char *text)
{
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = count};
    step_status got = rt_step(t, &batch, NULL);
    ck_assert_msg(got == want && strstr(rt_last_error(t), text), "%s (wanted %s, %s)", rt_last_error(t),
                  rt_status_name(want), text);
}

START_TEST(inputs)
{
    struct step_instance *t = ready(1, 1);
    const int64_t wrong[] = {8, 2}, rank9[9] = {1};
    struct step_array in[4];
    memcpy(in, data.arrays, sizeof data.arrays);
    refused(t, 2, in, STEP_ENOTFOUND, "input \"label\" is missing; expected int32[8]");
    in[3] = in[0];
    refused(t, 4, in, STEP_EINVAL, "input \"x\" is given twice");
    in[0].name = "z";
    refused(t, 3, in, STEP_ENOTFOUND, "there is no input \"z\"");
    in[0] = data.arrays[0], in[0].shape = wrong;
    refused(t, 3, in, STEP_ESHAPE, "input \"x\": expected float32[8, 3], found float32[8, 2]");
    in[0] = data.arrays[0], in[0].dtype = STEP_F64;
    refused(t, 3, in, STEP_ESHAPE, "found float64[8, 3]");
    in[0] = data.arrays[0], in[0].dtype = 77;
    refused(t, 3, in, STEP_ESHAPE, "unknown dtype");
    in[0] = data.arrays[0], in[0].rank = 9, in[0].shape = rank9;
    refused(t, 3, in, STEP_ESHAPE, "expected float32[8, 3]");
    in[0] = data.arrays[0], in[0].rank = -1;
    refused(t, 3, in, STEP_ESHAPE, "expected float32[8, 3]");
    in[0] = data.arrays[0], in[0].shape = NULL;
    refused(t, 3, in, STEP_ESHAPE, "expected float32[8, 3]");
    in[0] = data.arrays[0], in[0].data = NULL;
    refused(t, 3, in, STEP_EINVAL, "data is NULL");
    in[0] = data.arrays[0], in[0].device_type = 2;
    refused(t, 3, in, STEP_EUNSUPPORTED, "runs on the CPU");
    in[0] = data.arrays[0];
    refused(t, 3, NULL, STEP_EINVAL, "inputs is NULL");
    refused(t, 0, NULL, STEP_ENOTFOUND, "is missing");
    data.label[5] = 5;
    refused(t, 3, in, STEP_ERANGE, "input \"label\"[5] is 5; expected 0 <= value < 5");
    data.label[5] = -1;
    refused(t, 3, in, STEP_ERANGE, "[5] is -1");
    data.label[5] = 4;
    struct step_array a = {
        .size = sizeof a, .name = "w", .data = data.x, .dtype = STEP_F32, .rank = 1, .shape = toy_shape_row};
    ck_assert_int_eq(rt_write(t, &a), STEP_ESHAPE);
    float room[17] = {0};
    struct step_array three = {
        .size = sizeof three, .name = "w", .data = room + 8, .dtype = STEP_F32, .rank = 1, .shape = (int64_t[]){3}};
    for (int64_t step = -4; step <= 4; step++) { /* read into elements that are one; written from them */
        three.strides = &step;
        ck_assert_int_eq(rt_read(t, &three), step ? STEP_OK : STEP_EINVAL);
        ck_assert_int_eq(rt_write(t, &three), STEP_OK);
    }
    a.name = "nope";
    ck_assert_int_eq(rt_write(t, &a), STEP_ENOTFOUND);
    a.name = "x";
    ck_assert_int_eq(rt_read(t, &a), STEP_EINVAL);
    a.name = "loss", a.rank = 0;
    ck_assert_int_eq(rt_write(t, &a), STEP_EINVAL);
    struct step_batch batch = data.batch;
    batch.microbatches = 2;
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EUNSUPPORTED);
    batch.microbatches = 0, batch.flags = 17;
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
    struct step_result r = {.size = sizeof r};
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_OK);
    ck_assert_uint_eq(r.step, 1); /* none of the refused ones counted */
    rt_destroy(t);
}
END_TEST

START_TEST(unaligned_and_strided)
{
    struct step_instance *t = ready(1, 1), *u = ready(1, 1);
    _Alignas(16) char bytes[sizeof data.x + 1];
    float spread[8], w[2][3];
    const int64_t none[] = {0};
    memcpy(bytes + 1, data.x, sizeof data.x);
    for (int i = 0; i < 8; i++) data.y[i] = 0.75f;
    spread[0] = 0.75f;
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    data.arrays[0].data = bytes + 1;
    data.arrays[1].data = spread, data.arrays[1].strides = none; /* broadcast */
    ck_assert_msg(rt_step(u, &data.batch, NULL) == STEP_OK, "%s", rt_last_error(u));
    toy_read(t, "w", w[0], 3), toy_read(u, "w", w[1], 3);
    ck_assert_mem_eq(w[0], w[1], sizeof w[0]);
    rt_destroy(t), rt_destroy(u);
}
END_TEST

START_TEST(write_and_read)
{ /* writing a parameter does not touch its average or optimizer state; strides both ways */
    struct step_instance *t = ready(4, 1);
    float w[6] = {9, 1, 9, 2, 9, 3}, got[3], ema[3];
    const int64_t stride[] = {-2};
    struct step_array a = {.size = sizeof a,
                           .name = "w",
                           .data = w + 5,
                           .dtype = STEP_F32,
                           .rank = 1,
                           .shape = toy_shape_w,
                           .strides = stride};
    ck_assert_int_eq(rt_write(t, &a), STEP_OK);
    toy_read(t, "w", got, 3), toy_read(t, "ema.w", ema, 3);
    ck_assert(got[0] == 3 && got[1] == 2 && got[2] == 1);
    ck_assert(ema[0] == 0.1f);
    memset(w, 0, sizeof w);
    ck_assert_int_eq(rt_read(t, &a), STEP_OK);
    ck_assert(w[5] == 3 && w[3] == 2 && w[1] == 1 && w[0] == 0);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK); /* all devices have it */
    rt_destroy(t);
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
    p.cuda = NULL, p.gpu = NULL, p.features = "sse3,amx-int8,avx512fp16";
    if (rt_create(&p, &options, &t) != STEP_OK) ck_assert_ptr_nonnull(strstr(rt_last_error(NULL), "this CPU lacks a"));
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
                {"STEPC_PIN", "0", -1},
                {"STEPC_PIN", "1", 0},
                {"STEPC_PIN", "yes", -1},
                {"STEPC_PIN", "10", -1},
                {"STEPC_HUGEPAGES", "never", 0},
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

START_TEST(wild_strides)
{ /* products that leave what can be addressed are refused before anything follows them */
    struct step_instance *t = ready(1, 1);
    float w[3] = {1, 2, 3}, was[3];
    static const int64_t wild[] = {INT64_MAX,           INT64_MIN,        INT64_MAX / 4,
                                   INT64_MIN / 4,       (int64_t)1 << 62, (int64_t)1 << 60,
                                   -((int64_t)1 << 60), (int64_t)1 << 55, ((int64_t)1 << 57) / 4 / 3 + 1};
    int64_t stride = 0, strides[2] = {3, 1};
    struct step_array a = {.size = sizeof a,
                           .name = "w",
                           .data = w,
                           .dtype = STEP_F32,
                           .rank = 1,
                           .shape = (int64_t[]){3},
                           .strides = &stride};
    struct step_array input[3];
    struct step_batch batch = data.batch;
    ck_assert_int_eq(toy_read(t, "w", was, 3), STEP_OK);
    memcpy(input, data.arrays, sizeof input);
    input[0].strides = strides, batch.inputs = input;
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        stride = strides[0] = wild[i];
        ck_assert_int_eq(rt_write(t, &a), STEP_EINVAL);
        ck_assert_msg(strstr(rt_last_error(t), "\"w\": strides") != NULL, "%s", rt_last_error(t));
        ck_assert_int_eq(rt_read(t, &a), STEP_EINVAL);
        ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
        ck_assert_msg(strstr(rt_last_error(t), "strides") != NULL, "%s", rt_last_error(t));
    }
    toy_read(t, "w", w, 3);
    ck_assert_mem_eq(w, was, sizeof w);
    rt_destroy(t);
}
END_TEST

/* A number of every dtype that holds it is read as it was written; what is not zero is true. */
START_TEST(numbers)
{
    static const double values[] = {0, 1, 2, 100, 0.5, -1, -100};
    for (uint32_t dtype = 0; dtype < 64; dtype++) {
        bool real = dtype == STEP_F16 || dtype == STEP_BF16 || dtype == STEP_F32 || dtype == STEP_F64;
        bool sign = real || dtype == STEP_I8 || dtype == STEP_I16 || dtype == STEP_I32 || dtype == STEP_I64;
        for (size_t i = 0; rt_dtype_bytes(dtype) && dtype != STEP_F8E4M3 && dtype != STEP_F8E5M2 &&
                           i < sizeof values / sizeof *values;
             i++) {
            if ((values[i] < 0 && !sign) || (values[i] != floor(values[i]) && !real && dtype != STEP_BOOL)) continue;
            uint64_t at[3] = {0};
            rt_number_put(at, dtype, 1, values[i]);
            double want = dtype == STEP_BOOL ? values[i] != 0 : values[i];
            ck_assert_double_eq(rt_number_at(at, dtype, 1), want);
            ck_assert_double_eq(rt_number_at(at, dtype, 0), 0);
            ck_assert_double_eq(rt_number_at(at, dtype, 2), 0);
        }
    }
}
END_TEST

START_TEST(dense)
{ /* strides in bytes; those of extent 1 do not matter */
    static const struct {
        int64_t shape[3], stride[3];
        bool dense;
    } rows[] = {{{2, 3, 4}, {48, 16, 4}, true},   {{2, 3, 4}, {48, 16, 8}, false}, {{2, 3, 4}, {4, 8, 24}, false},
                {{2, 1, 4}, {16, 999, 4}, true},  {{1, 1, 1}, {0, 0, 0}, true},    {{2, 3, 4}, {96, 16, 4}, false},
                {{2, 3, 4}, {-48, 16, 4}, false}, {{2, 3, 1}, {12, 4, 0}, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(rt_dense(rows[i].stride, rows[i].shape, 3, 4) == rows[i].dense, "row %zu", i);
}
END_TEST

START_TEST(memory)
{ /* small and large blocks are zero, and can be written from end to end */
    struct step_instance *t = ready(1, 1);
    for (size_t bytes = 64; bytes <= (size_t)4 << 20; bytes *= 4) {
        unsigned char *block = rt_host_get(t, bytes);
        ck_assert_msg(block != NULL, "no %zu bytes", bytes);
        for (size_t i = 0; i < bytes; i++) ck_assert(!block[i]);
        memset(block, 0xff, bytes);
        rt_host_put(t, block, bytes);
    }
    rt_destroy(t);
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
    return run_case("abi",
                    CASE_OF(120, query, struct_sizes, busy, late_peer, inputs, unaligned_and_strided, write_and_read,
                            floating_point, after_fork, interrupted, order_and_null, refusing_create, variables,
                            destroyed_twice, wild_strides, numbers, dense, memory, services));
}
