/* A hostile host: calls in random order with arguments of which one is wrong, or none (tests/README.md,
 * STEPC_TEST_CALLS). No call crashes, writes where it must not, or leaves without a reason; what is refused changes no
 * bit of the state. */
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOST_BYTES = 1 << 14, STATES = 7, CALLS = 20000, CALLS_OF_ONE = 40 };

static struct toy toy;
static struct toy_data data;
static _Alignas(64) unsigned char host[HOST_BYTES], before[HOST_BYTES];
static char far_name[3000];
static uint64_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}
#define ONE_OF(list) (list)[draw(sizeof(list) / sizeof *(list))]

static const char *name(void)
{
    static const char *const names[] = {NULL,
                                        "",
                                        "x",
                                        "y",
                                        "label",
                                        "w",
                                        "b",
                                        "e",
                                        "ema.w",
                                        "opt_state.0.trace.w",
                                        "norm.mean",
                                        "step",
                                        "w ",
                                        "learning_rate",
                                        "hyperparameters.learning_rate",
                                        "loss",
                                        "err",
                                        "model",
                                        "\xff\xfe",
                                        far_name};
    return ONE_OF(names);
}

static const int64_t odd[] = {0, 1, -1, 2, 7, INT64_C(1) << 40, INT64_C(1) << 62, INT64_MAX, INT64_MIN};

/* ---------------------------------------------------------------- arguments */

struct argument {
    struct step_array array;
    int64_t shape[9], strides[9];
};

/* An array for the slot of that name in the middle of the host's memory, with a mistake in it or none. */
static void make_array(struct argument *a, const struct step_instance *t, const char *named, bool mistaken)
{
    struct step_tensor tensor = {.size = sizeof tensor};
    bool known = named && rt_tensor_find(t, named, &tensor) == STEP_OK;
    int32_t rank = known ? tensor.rank : (int32_t)draw(3);
    for (int32_t i = 0; i < 9; i++) a->shape[i] = known && i < rank ? tensor.shape[i] : 1;
    for (int32_t i = 0; i < 9; i++) a->strides[i] = (int64_t)draw(7) - 3;
    a->array = (struct step_array){.size = sizeof a->array,
                                   .name = named,
                                   .data = host + HOST_BYTES / 2 + (draw(4) ? 0 : draw(8)),
                                   .dtype = known ? tensor.dtype : draw(20),
                                   .rank = rank,
                                   .shape = a->shape,
                                   .strides = draw(3) ? NULL : a->strides};
    if (!mistaken) return;
    static const size_t sizes[] = {0, 1, 8, 24, sizeof a->array - 1};
    switch (draw(9)) {
    case 0: a->array.size = ONE_OF(sizes); break;
    case 1: a->array.name = name(); break;
    case 2: a->array.data = NULL; break;
    case 3: a->array.dtype = draw(3) ? draw(20) : UINT32_MAX; break;
    case 4: a->array.rank = draw(2) ? (int32_t)draw(10) : (int32_t)ONE_OF(odd); break;
    case 5: a->shape[draw(9)] = ONE_OF(odd); break;
    case 6: a->array.shape = NULL; break;
    case 7: a->array.strides = a->strides, a->strides[draw(2)] = draw(2) ? INT64_MAX : INT64_MIN; break;
    default: a->array.device_type = (int32_t)draw(5), a->array.device_id = (int32_t)draw(3) - 1;
    }
}

/* ---------------------------------------------------------------- calls */

struct call_state {
    struct step_instance *t;
    struct argument arrays[5];
    struct step_array inputs[5];
    struct step_batch batch;
    struct step_result result;
    double metrics[4];
    char path[200];
};

static const struct step_batch *make_batch(struct call_state *c)
{
    static const char *const inputs[] = {"x", "y", "label"};
    static const struct step_hyper hypers[] = {{sizeof(struct step_hyper), "learning_rate", 0.05},
                                               {sizeof(struct step_hyper), "nothing", 1},
                                               {0, "learning_rate", 1},
                                               {sizeof(struct step_hyper), NULL, 1}};
    bool mistaken = draw(2);
    c->batch = data.batch;
    if (mistaken) {
        for (uint32_t i = 0; i < 5; i++) {
            make_array(&c->arrays[i], c->t, i < 3 ? inputs[i] : name(), draw(3) == 0);
            c->inputs[i] = c->arrays[i].array;
        }
        c->batch.inputs = draw(20) ? c->inputs : NULL;
        c->batch.input_count = draw(6);
        if (draw(8) == 0) c->batch.size = draw(2) ? 8 : 0;
        if (draw(8) == 0) c->batch.microbatches = draw(4);
        if (draw(8) == 0) c->batch.flags = draw(10);
    }
    if (draw(3) == 0) c->batch.hypers = &ONE_OF(hypers), c->batch.hyper_count = 1;
    return draw(40) ? &c->batch : NULL;
}

static struct step_result *make_result(struct call_state *c)
{
    static const size_t sizes[] = {0, 8, 24, sizeof c->result - 1};
    c->result = (struct step_result){.size = draw(8) ? sizeof c->result : ONE_OF(sizes),
                                     .metrics = draw(2) ? c->metrics : NULL,
                                     .metric_capacity = draw(5)};
    return draw(8) ? &c->result : NULL;
}

static step_status call_init(struct call_state *c) { return rt_init(c->t); }
static step_status call_step(struct call_state *c) { return rt_step(c->t, make_batch(c), make_result(c)); }
static step_status call_compute(struct call_state *c)
{
    const struct step_batch *batch = make_batch(c);
    c->batch.flags |= STEP_COMPUTE;
    if (c->batch.size == 8) c->batch.size = sizeof c->batch; /* a host that knows of no flags */
    return rt_step(c->t, batch, make_result(c));
}
static step_status call_commit(struct call_state *c) { return rt_commit(c->t, (int)draw(3) - 1); }
static step_status call_step_n(struct call_state *c)
{
    return rt_step_n(c->t, make_batch(c), draw(20) ? draw(3) : UINT64_MAX, make_result(c));
}
static step_status call_stage(struct call_state *c) { return rt_stage(c->t, make_batch(c)); }
static const char *weights(void)
{
    static const char *const all[] = {NULL, "ema", "params", "eval", "", "nothing"};
    return ONE_OF(all);
}
static step_status call_eval(struct call_state *c) { return rt_eval(c->t, make_batch(c), weights(), make_result(c)); }
static step_status call_infer(struct call_state *c)
{
    struct argument out;
    make_array(&out, c->t, draw(4) ? "model" : name(), draw(3) == 0);
    return rt_infer(c->t, make_batch(c), weights(), draw(10) ? &out.array : NULL, draw(3));
}
static step_status call_read(struct call_state *c)
{
    struct argument a;
    make_array(&a, c->t, name(), draw(2));
    return rt_read(c->t, draw(20) ? &a.array : NULL);
}
static step_status call_write(struct call_state *c)
{
    struct argument a;
    make_array(&a, c->t, name(), draw(2));
    return rt_write(c->t, draw(20) ? &a.array : NULL);
}
static step_status call_tensor_at(struct call_state *c)
{
    struct step_tensor tensor = {.size = draw(5) ? sizeof tensor : draw(sizeof tensor)};
    return rt_tensor_at(c->t, draw(9), draw(4) ? draw(4) : SIZE_MAX, draw(9) ? &tensor : NULL);
}
static step_status call_tensor_find(struct call_state *c)
{
    struct step_tensor tensor = {.size = draw(5) ? sizeof tensor : draw(sizeof tensor)};
    return rt_tensor_find(c->t, name(), draw(9) ? &tensor : NULL);
}
static step_status call_hyper_at(struct call_state *c)
{
    struct step_hyper hyper = {.size = draw(5) ? sizeof hyper : draw(sizeof hyper)};
    return rt_hyper_at(c->t, draw(3), draw(9) ? &hyper : NULL);
}
static step_status call_hyper_get(struct call_state *c)
{
    double value;
    return rt_hyper_get(c->t, name(), draw(9) ? &value : NULL);
}
static step_status call_hyper_set(struct call_state *c)
{
    static const double values[] = {0.1, 0, -1, 1e300, NAN};
    return rt_hyper_set(c->t, name(), ONE_OF(values));
}
static step_status call_save(struct call_state *c)
{
    struct step_job *job = NULL;
    struct step_save save = {.size = draw(9) ? sizeof save : draw(sizeof save),
                             .directory = draw(9) ? c->path : name(),
                             .slots = draw(4) ? NULL : name()};
    step_status s = rt_save(c->t, draw(20) ? &save : NULL, draw(2) ? &job : NULL);
    if (job && draw(2)) (void)rt_job_wait(job, (int64_t)draw(3) - 1);
    rt_job_free(job);
    return s;
}
static step_status call_load(struct call_state *c)
{
    struct step_load load = {.size = draw(9) ? sizeof load : draw(sizeof load),
                             .path = draw(5) ? c->path : name(),
                             .map = draw(9) ? NULL : name(),
                             .flags = draw(3) ? 0 : draw(32)};
    return rt_load(c->t, draw(20) ? &load : NULL);
}
static step_status call_memory(struct call_state *c)
{
    struct step_memory memory = {.size = draw(5) ? sizeof memory : draw(sizeof memory)};
    return rt_memory(c->t, draw(6), draw(9) ? &memory : NULL);
}

/* Whether a call that succeeds may change the state. */
static const struct {
    const char *name;
    step_status (*call)(struct call_state *);
    bool changes, writes_host;
} calls[] = {
    {"init", call_init, true, false},
    {"step", call_step, true, false},
    {"step", call_step, true, false},
    {"compute", call_compute, false, false},
    {"commit", call_commit, true, false},
    {"step_n", call_step_n, true, false},
    {"stage", call_stage, false, false},
    {"eval", call_eval, true, false}, /* it fills what is computed for it */
    {"infer", call_infer, true, true},
    {"read", call_read, false, true},
    {"write", call_write, true, false},
    {"tensor_at", call_tensor_at, false, false},
    {"tensor_find", call_tensor_find, false, false},
    {"hyper_at", call_hyper_at, false, false},
    {"hyper_get", call_hyper_get, false, false},
    {"hyper_set", call_hyper_set, true, false},
    {"save", call_save, false, false},
    {"load", call_load, true, false},
    {"memory", call_memory, false, false},
};

/* Every tensor of the state, bit for bit; nothing before it exists. */
static void state_of(struct step_instance *t, float out[STATES][8])
{
    static const char *const tensors[STATES] = {"w", "b", "e", "ema.w", "opt_state.0.trace.w", "norm.mean", "step"};
    memset(out, 0, STATES * sizeof *out);
    for (int i = 0; i < STATES; i++) {
        struct step_tensor tensor = {.size = sizeof tensor};
        ck_assert_int_eq(rt_tensor_find(t, tensors[i], &tensor), STEP_OK);
        struct step_array a = {.size = sizeof a,
                               .name = tensors[i],
                               .data = out[i],
                               .dtype = tensor.dtype,
                               .rank = tensor.rank,
                               .shape = tensor.shape};
        (void)rt_read(t, &a);
    }
}

static void play(struct call_state *c, uint32_t count)
{
    float was[STATES][8], is[STATES][8];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = draw(sizeof calls / sizeof *calls);
        uint64_t drawn = seed;
        for (int k = 0; k < HOST_BYTES; k++) host[k] = (unsigned char)k;
        memcpy(before, host, HOST_BYTES);
        state_of(c->t, was);
        step_status s = calls[n].call(c);
        ck_assert_msg(s >= STEP_OK && s < STEP_EPOISONED, "%s: %s (%llu)", calls[n].name, rt_status_name(s),
                      (unsigned long long)drawn);
        if (s) {
            const char *why = rt_last_error(c->t), *status = rt_status_name(s);
            ck_assert_msg(why && !strncmp(why, status, strlen(status)) && strlen(why) > strlen(status) + 2,
                          "%s: %s, but \"%s\" (%llu)", calls[n].name, status, why ? why : "",
                          (unsigned long long)drawn);
        }
        state_of(c->t, is);
        ck_assert_msg((!s && calls[n].changes) || !memcmp(was, is, sizeof was),
                      "%s: %s, but the state is another (%llu)", calls[n].name, rt_status_name(s),
                      (unsigned long long)drawn);
        size_t near = !s && calls[n].writes_host ? 1024
                                                 : 0; /* eight elements of eight bytes, steps of three, both ways */
        size_t low = HOST_BYTES / 2 - near, high = HOST_BYTES / 2 + near;
        ck_assert_msg(!memcmp(host, before, low) && !memcmp(host + high, before + high, HOST_BYTES - high),
                      "%s: %s, but memory of the host was written (%llu)", calls[n].name, rt_status_name(s),
                      (unsigned long long)drawn);
    }
}

START_TEST(any_order)
{
    struct call_state c = {.t = NULL};
    const char *asked = getenv("STEPC_TEST_CALLS");
    uint64_t all = asked ? strtoull(asked, NULL, 10) : CALLS;
    memset(far_name, 'n', sizeof far_name - 1);
    toy_fill(&data, 1);
    /* Nothing here asks whether disks keep it. What is saved to a name becomes a directory there. */
    char folder[64];
    snprintf(folder, sizeof folder, "%s/stepc-calls-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    ck_assert(mkdtemp(folder) && !chdir(folder));
    snprintf(c.path, sizeof c.path, "%s/calls.safetensors", folder);
    for (uint64_t i = 0; i < all / CALLS_OF_ONE; i++) {
        seed = i;
        draw(2);
        int64_t devices = (int64_t[]){1, 1, 2, 4}[draw(4)];
        c.t = toy_create(toy_build(&toy, devices, false, false), 1);
        ck_assert_msg(c.t != NULL, "%s", rt_last_error(NULL));
        if (draw(4)) ck_assert_int_eq(rt_init(c.t), STEP_OK);
        play(&c, CALLS_OF_ONE);
        rt_destroy(c.t);
    }
    pid_t child = fork();
    if (child == 0) execlp("rm", "rm", "-rf", folder, (char *)NULL), _exit(1);
    while (child > 0 && waitpid(child, NULL, 0) < 0) {}
}
END_TEST

int main(void) { return run_case("calls", CASE_OF(0, any_order)); }
