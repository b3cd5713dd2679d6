/* One instance from create to destroy: numbers against the formula, reading and writing, weights, step_n, stage,
 * policies, and the same numbers on any team and mesh. */
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct toy toy;
static struct toy_data data;

/* The formulas of toy.h once more, in plain code. */
struct reference {
    float w[3], b, e[5], m[3], ema[3], loss;
};

static void reference_init(struct reference *s)
{
    memset(s, 0, sizeof *s);
    for (int k = 0; k < 3; k++) s->w[k] = s->ema[k] = 0.1f * (float)(k + 1);
    for (int k = 0; k < 5; k++) s->e[k] = 0.01f * (float)k;
}

static void reference_step(struct reference *s, const struct toy_data *d, float lr)
{
    float gw[3] = {0}, gb = 0, ge[5] = {0};
    s->loss = 0;
    for (int i = 0; i < 8; i++) {
        float r = s->b + s->e[d->label[i]] - d->y[i];
        for (int k = 0; k < 3; k++) r += d->x[i * 3 + k] * s->w[k];
        for (int k = 0; k < 3; k++) gw[k] += 2 * r / 8 * d->x[i * 3 + k];
        gb += 2 * r / 8;
        ge[d->label[i]] += 2 * r / 8;
        s->loss += r * r / 8;
    }
    for (int k = 0; k < 3; k++) {
        s->m[k] = 0.9f * s->m[k] + gw[k];
        s->w[k] -= lr * s->m[k];
        s->ema[k] = 0.9f * s->ema[k] + 0.1f * s->w[k];
    }
    s->b -= lr * gb;
    for (int k = 0; k < 5; k++) s->e[k] -= lr * ge[k];
}

static void near(double got, double want)
{
    ck_assert_msg(fabs(got - want) < 2e-6 * (1 + fabs(want)), "%.9g, expected %.9g", got, want);
}

static void train_and_compare(int64_t devices, uint32_t threads, bool big, bool whole)
{
    struct step_instance *t = toy_create(toy_build(&toy, devices, big, whole), threads);
    ck_assert_msg(t != NULL, "%s", rt_last_error(NULL));
    struct reference ref;
    reference_init(&ref);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    double metrics[4];
    for (uint32_t i = 1; i <= 30; i++) {
        struct step_result r = {.size = sizeof r, .metrics = metrics, .metric_capacity = 4};
        toy_fill(&data, i);
        reference_step(&ref, &data, 0.1f);
        ck_assert_msg(rt_step(t, &data.batch, &r) == STEP_OK, "%s", rt_last_error(t));
        near(r.loss, (double)ref.loss);
        ck_assert_uint_eq(r.step, i);
        ck_assert_uint_eq(r.metric_count, 2);
        ck_assert_double_eq(metrics[0], r.loss);
        ck_assert_uint_eq(r.flags, 0);
    }
    float w[3], e[5], ema[3], derived[3], err[8], sum = 0;
    ck_assert_int_eq(toy_read(t, "w", w, 3), STEP_OK);
    ck_assert_int_eq(toy_read(t, "e", e, 5), STEP_OK);
    ck_assert_int_eq(toy_read(t, "ema.w", ema, 3), STEP_OK);
    ck_assert_int_eq(toy_read(t, "eval.w", derived, 3), STEP_OK);
    ck_assert_int_eq(toy_read(t, "err", err, 8), STEP_OK);
    for (int k = 0; k < 3; k++)
        near((double)w[k], (double)ref.w[k]), near((double)ema[k], (double)ref.ema[k]),
            near((double)derived[k], 2 * (double)w[k]);
    for (int k = 0; k < 5; k++) near((double)e[k], (double)ref.e[k]);
    for (int k = 0; k < 8; k++) sum += err[k] / 8;
    near((double)sum, (double)ref.loss);
    rt_destroy(t);
}

START_TEST(single) { train_and_compare(1, 1, false, false); }
END_TEST
START_TEST(whole) { train_and_compare(1, 4, true, true); }
END_TEST
START_TEST(team) { train_and_compare(1, 4, true, false); }
END_TEST
START_TEST(mesh_of_two) { train_and_compare(2, 1, false, true); }
END_TEST
START_TEST(mesh_of_four_teams) { train_and_compare(4, 2, true, false); }
END_TEST

/* Who destroys waits for the call of another thread; from inside a call it is none. */
static int destroy_inside(void *user, const struct step_result *r)
{
    rt_destroy(*(struct step_instance **)user);
    return r != NULL;
}

static void *free_soon(void *user)
{
    struct step_instance *t = user;
    usleep(20000);
    void *early = atomic_load(&t->busy) == 1 ? NULL : t; /* destroyed, or another one is inside */
    atomic_store(&t->busy, 0);
    return early;
}

START_TEST(destroyed_while_busy)
{
    struct step_instance *t = toy_create(toy_build(&toy, 1, true, false), 2);
    toy_fill(&data, 3);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    struct step_batch batch = data.batch;
    batch.accept = destroy_inside, batch.user = &t;
    ck_assert_msg(rt_step(t, &batch, NULL) == STEP_OK, "%s", rt_last_error(t));
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK); /* it is still there */
    atomic_store(&t->busy, 1);                                /* a call of another thread, which takes a while */
    pthread_t other;
    void *end = &end;
    ck_assert_int_eq(pthread_create(&other, NULL, free_soon, t), 0);
    rt_destroy(t);
    pthread_join(other, &end);
    ck_assert_ptr_null(end);
}
END_TEST

/* eval: the loop stops by its flag after row 5; other weights; nothing of the state changes. */
static int accept_none(void *user, const struct step_result *r) { return user || r ? 0 : 1; }

static void evaluate(int64_t devices, uint32_t threads)
{
    struct step_instance *t = toy_create(toy_build(&toy, devices, true, false), threads);
    struct step_result r = {.size = sizeof r};
    toy_fill(&data, 3);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    static const char *const weights[] = {NULL, "params", "ema", "eval", "params"};
    float sets[5][3], b, e[5];
    ck_assert_int_eq(toy_read(t, "w", sets[0], 3), STEP_OK);
    ck_assert_int_eq(toy_read(t, "ema.w", sets[2], 3), STEP_OK);
    memcpy(sets[1], sets[0], sizeof sets[0]);
    memcpy(sets[4], sets[0], sizeof sets[0]);
    for (int k = 0; k < 3; k++) sets[3][k] = 2 * sets[0][k];
    ck_assert_int_eq(toy_read(t, "b", &b, 0), STEP_OK);
    ck_assert_int_eq(toy_read(t, "e", e, 5), STEP_OK);
    for (int n = 0; n < 5; n++) {
        double want = 0;
        float model[8];
        int64_t rows = 8;
        struct step_array out = {
            .size = sizeof out, .name = "model", .data = model, .dtype = STEP_F32, .rank = 1, .shape = &rows};
        ck_assert_msg(rt_eval(t, &data.batch, weights[n], &r) == STEP_OK, "%s", rt_last_error(t));
        ck_assert_msg(rt_infer(t, &data.batch, weights[n], &out, 1) == STEP_OK, "%s", rt_last_error(t));
        for (int i = 0; i < 8; i++) {
            double p = (double)b + (double)e[data.label[i]];
            for (int k = 0; k < 3; k++) p += (double)data.x[i * 3 + k] * (double)sets[n][k];
            near((double)model[i], p);
            if (i < 6) want += (p - (double)data.y[i]) * (p - (double)data.y[i]) / 8;
        }
        near(r.loss, want);
    }
    ck_assert_uint_eq(r.step, 5);
    ck_assert_int_eq(rt_eval(t, &data.batch, "slow", &r), STEP_ENOTFOUND);
    for (int of_a_step = 0; of_a_step < 3; of_a_step++) { /* nothing that would not be carried out */
        struct step_batch batch = data.batch;
        if (of_a_step == 0) batch.flags = STEP_ON_NONFINITE_STOP;
        if (of_a_step == 1) batch.accept = accept_none;
        if (of_a_step == 2) batch.microbatches = 1;
        ck_assert_int_eq(rt_eval(t, &batch, NULL, &r), STEP_EINVAL);
        ck_assert_ptr_nonnull(strstr(rt_last_error(t), "eval: flags, accept and microbatches"));
        ck_assert_int_eq(rt_infer(t, &batch, NULL, NULL, 0), STEP_EINVAL);
        ck_assert_ptr_nonnull(strstr(rt_last_error(t), "infer: flags"));
    }
    struct step_batch only_x = {.size = sizeof only_x, .inputs = data.arrays, .input_count = 1};
    ck_assert_int_eq(rt_infer(t, &only_x, NULL, NULL, 0), STEP_ENOTFOUND); /* label is missing */
    struct step_array some[2] = {data.arrays[2], data.arrays[0]};
    struct step_batch enough = {.size = sizeof enough, .inputs = some, .input_count = 2};
    ck_assert_int_eq(rt_infer(t, &enough, NULL, NULL, 0), STEP_OK); /* y is not needed */
    rt_destroy(t);
}

START_TEST(eval_single) { evaluate(1, 1); }
END_TEST
START_TEST(eval_team) { evaluate(1, 3); }
END_TEST
START_TEST(eval_mesh) { evaluate(4, 2); }
END_TEST

START_TEST(same_bits)
{ /* the same mesh and team give the same bits every time, whatever the timing */
    float first[3], again[3];
    for (int run = 0; run < 20; run++) {
        struct step_instance *t = toy_create(toy_build(&toy, 4, true, false), 2);
        toy_fill(&data, 9);
        ck_assert_int_eq(rt_init(t), STEP_OK);
        for (int i = 0; i < 50; i++) ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
        ck_assert_int_eq(toy_read(t, "w", run ? again : first, 3), STEP_OK);
        if (run) ck_assert_mem_eq(first, again, sizeof first);
        rt_destroy(t);
    }
}
END_TEST

START_TEST(team_on_trial)
{ /* where the host leaves the number of threads open, steps with and without the team give the same bits */
    struct step_instance *t = toy_create(toy_build(&toy, 1, true, false), 4), *u = toy_create(&toy.program, 1);
    float a[3], b[3];
    ck_assert_uint_eq(t->threads, 4);
    t->tries = true;
    toy_fill(&data, 5);
    ck_assert_int_eq(rt_init(t) | rt_init(u), STEP_OK);
    for (int i = 0; i < 600; i++)
        ck_assert_int_eq(rt_step(t, &data.batch, NULL) | rt_step(u, &data.batch, NULL), STEP_OK);
    toy_read(t, "w", a, 3), toy_read(u, "w", b, 3);
    ck_assert_mem_eq(a, b, sizeof a);
    rt_destroy(t), rt_destroy(u);
}
END_TEST

/* A loop whose iterations are small is one worker's, and so is a step that has little beside it. */
START_TEST(team_that_saves)
{
    static const struct {
        double inside, outside; /* work of two kernels of a loop each, and of one behind it */
        uint32_t workers;
        bool solo;
    } cases[] = {
        {2e5, 1e5, 1, true}, {2e5, 6e6, 2, true}, {4e5, 1e5, 1, true}, {6e5, 1e5, 2, false}, {6e5, 6e6, 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step_instance *t = toy_create(toy_build(&toy, 1, true, false), 2);
        struct stepc_command commands[] = {
            {.kind = STEPC_LOOP_BEGIN, .barrier = 1, .other = 3, .flag = UINT32_MAX},
            {.kind = STEPC_KERNEL, .barrier = 1, .extent = 64, .grain = 1, .work = cases[i].inside},
            {.kind = STEPC_KERNEL, .barrier = 1, .extent = 64, .grain = 1, .work = cases[i].inside},
            {.kind = STEPC_LOOP_END, .barrier = 1, .other = 0, .flag = UINT32_MAX},
            {.kind = STEPC_KERNEL, .barrier = 1, .extent = 64, .grain = 1, .work = cases[i].outside}};
        struct stepc_entry table = {.commands = commands, .command_count = 5, .work = 1e7};
        struct stepc_program program = {.entries = &table, .entry_count = 1};
        struct rt_entry entry = {.table = &table};
        ck_assert_uint_eq(rt_useful_workers(&program, 2), cases[i].workers);
        ck_assert(rt_plan_commands(t, &entry));
        ck_assert_msg(entry.commands[0].solo == cases[i].solo && entry.commands[3].solo == cases[i].solo, "%zu", i);
        ck_assert_uint_eq(entry.commands[1].chunks != 0, !cases[i].solo);
        rt_destroy(t);
    }
}
END_TEST

START_TEST(many_steps)
{ /* step_n over a leading dimension equals single steps; also with strides */
    enum { N = 5 };
    static float x[N][24], y[N][8], wide[N][8][6];
    static int32_t label[N][8];
    struct step_instance *one = toy_create(toy_build(&toy, 2, false, false), 1), *all = toy_create(&toy.program, 1),
                         *strided = toy_create(&toy.program, 1);
    ck_assert_int_eq(rt_init(one) | rt_init(all) | rt_init(strided), STEP_OK);
    for (uint32_t i = 0; i < N; i++) {
        toy_fill(&data, 100 + i);
        memcpy(x[i], data.x, sizeof x[i]);
        memcpy(y[i], data.y, sizeof y[i]);
        memcpy(label[i], data.label, sizeof label[i]);
        for (int r = 0; r < 8; r++)
            for (int k = 0; k < 3; k++) wide[i][r][2 * (2 - k)] = x[i][r * 3 + k]; /* reversed, every other */
        ck_assert_int_eq(rt_step(one, &data.batch, NULL), STEP_OK);
    }
    const int64_t sx[] = {N, 8, 3}, sr[] = {N, 8}, strides[] = {48, 6, -2};
    struct step_array in[3] = {data.arrays[0], data.arrays[1], data.arrays[2]};
    in[0].data = x, in[0].rank = 3, in[0].shape = sx;
    in[1].data = y, in[1].rank = 2, in[1].shape = sr;
    in[2].data = label, in[2].rank = 2, in[2].shape = sr;
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 3};
    struct step_result r[N];
    for (int i = 0; i < N; i++) r[i] = (struct step_result){.size = sizeof r[i]};
    ck_assert_msg(rt_step_n(all, &batch, N, r) == STEP_OK, "%s", rt_last_error(all));
    ck_assert_uint_eq(r[0].step, 1);
    ck_assert_uint_eq(r[4].step, 5);
    struct step_instance *lacking = toy_create(&toy.program, 1);
    ck_assert_int_eq(rt_init(lacking), STEP_OK);
    r[2].size = 0; /* two steps are told of, none is made whose result nobody sees */
    ck_assert_int_eq(rt_step_n(lacking, &batch, N, r), STEP_EINVAL);
    ck_assert_ptr_nonnull(strstr(rt_last_error(lacking), "result has a wrong size field"));
    r[2].size = sizeof r[2];
    ck_assert_int_eq(rt_step_n(lacking, &batch, UINT64_MAX, r), STEP_EINVAL); /* not "expected float32[-1, 8, 3]" */
    ck_assert_ptr_nonnull(strstr(rt_last_error(lacking), "step_n: more than 2^63-1 steps"));
    ck_assert_int_eq(rt_step(lacking, &data.batch, r), STEP_OK);
    ck_assert_uint_eq(r[0].step, 3);
    rt_destroy(lacking);
    in[0].data = &wide[0][0][4];
    in[0].strides = strides;
    ck_assert_msg(rt_step_n(strided, &batch, N, NULL) == STEP_OK, "%s", rt_last_error(strided));
    float w[3][3];
    toy_read(one, "w", w[0], 3), toy_read(all, "w", w[1], 3), toy_read(strided, "w", w[2], 3);
    ck_assert_mem_eq(w[0], w[1], sizeof w[0]);
    ck_assert_mem_eq(w[0], w[2], sizeof w[0]);
    rt_destroy(one), rt_destroy(all), rt_destroy(strided);
}
END_TEST

START_TEST(staged)
{
    struct step_instance *t = toy_create(toy_build(&toy, 1, false, false), 1), *u = toy_create(&toy.program, 1);
    struct step_batch nothing = {.size = sizeof nothing};
    ck_assert_int_eq(rt_init(t) | rt_init(u), STEP_OK);
    ck_assert_int_eq(rt_step(t, &nothing, NULL), STEP_ENOTFOUND); /* nothing staged */
    for (uint32_t i = 0; i < 3; i++) {
        toy_fill(&data, i);
        ck_assert_int_eq(rt_stage(t, &data.batch), STEP_OK);
        ck_assert_int_eq(rt_step(u, &data.batch, NULL), STEP_OK);
        memset(data.x, 0, sizeof data.x); /* the host's memory is not kept */
        ck_assert_msg(rt_step(t, &nothing, NULL) == STEP_OK, "%s", rt_last_error(t));
    }
    float a[3], b[3];
    toy_read(t, "w", a, 3), toy_read(u, "w", b, 3);
    ck_assert_mem_eq(a, b, sizeof a);
    rt_destroy(t), rt_destroy(u);
}
END_TEST

START_TEST(hypers)
{
    struct step_instance *t = toy_create(toy_build(&toy, 2, false, false), 1);
    double lr = 0;
    float before[3], after[3];
    struct step_hyper h = {.size = sizeof h};
    toy_fill(&data, 1);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    ck_assert_uint_eq(rt_hyper_count(t), 1);
    ck_assert_int_eq(rt_hyper_at(t, 0, &h), STEP_OK);
    ck_assert_str_eq(h.name, "learning_rate");
    ck_assert_int_eq(rt_hyper_at(t, 1, &h), STEP_ENOTFOUND);
    ck_assert_int_eq(rt_hyper_set(t, "learning_rate", 0), STEP_OK);
    toy_read(t, "w", before, 3);
    ck_assert_int_eq(rt_step(t, &data.batch, NULL), STEP_OK);
    toy_read(t, "w", after, 3);
    ck_assert_mem_eq(before, after, sizeof before);
    struct step_hyper call = {.size = sizeof call, .name = "learning_rate", .value = 0.5}, twice[2] = {call, call};
    struct step_batch batch = data.batch;
    batch.hypers = &call, batch.hyper_count = 1;
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_OK);
    toy_read(t, "w", after, 3);
    ck_assert_mem_ne(before, after, sizeof before);
    ck_assert_int_eq(rt_hyper_get(t, "learning_rate", &lr), STEP_OK);
    ck_assert_double_eq(lr, 0); /* sticky value is back */
    ck_assert_int_eq(rt_hyper_set(t, "learning_rate", 0.75), STEP_OK);
    ck_assert_int_eq(rt_hyper_set(t, "learning_rate", (double)NAN),
                     STEP_EINVAL); /* there is no schedule to go back to */
    ck_assert_msg(strstr(rt_last_error(t), "must be finite in float32") != NULL, "%s", rt_last_error(t));
    for (int i = 0; i < 3; i++) { /* nor anything that float32 does not hold */
        ck_assert_int_eq(rt_hyper_set(t, "learning_rate", (double[]){(double)INFINITY, (double)-INFINITY, 1e39}[i]),
                         STEP_EINVAL);
        ck_assert_msg(strstr(rt_last_error(t), "must be finite in float32") != NULL, "%s", rt_last_error(t));
    }
    call.value = (double)INFINITY;
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
    call.value = (double)NAN;
    toy_read(t, "w", before, 3);
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
    toy_read(t, "w", after, 3);
    ck_assert_mem_eq(before, after, sizeof before);
    rt_hyper_get(t, "learning_rate", &lr);
    ck_assert_double_eq(lr, 0.75);
    ck_assert_int_eq(rt_hyper_set(t, "lerning_rate", 1), STEP_ENOTFOUND);
    struct step_tensor about = {.size = sizeof about}; /* it is state as well */
    ck_assert_int_eq(rt_tensor_find(t, "hyperparameters.learning_rate", &about), STEP_OK);
    ck_assert_uint_eq(about.role, STEP_STATE);
    ck_assert_int_eq(rt_hyper_set(t, "hyperparameters.learning_rate", 0.25), STEP_OK);
    struct step_array number = {
        .size = sizeof number, .name = "hyperparameters.learning_rate", .data = after, .dtype = STEP_F32};
    ck_assert_int_eq(rt_read(t, &number), STEP_OK);
    ck_assert_float_eq(after[0], 0.25f);
    struct stepc_slot *slots = (struct stepc_slot *)(uintptr_t)t->program->slots;
    slots[S_LR].flags |= STEP_FROZEN; /* one that follows a schedule */
    struct step_instance *led = toy_create(t->program, 1);
    slots[S_LR].flags &= ~(uint32_t)STEP_FROZEN;
    ck_assert_int_eq(rt_tensor_find(led, "hyperparameters.learning_rate", &about), STEP_ENOTFOUND);
    slots[S_LR].flags |= STEP_FROZEN;
    ck_assert_int_eq(rt_hyper_set(led, "learning_rate", 1), STEP_EINVAL);
    ck_assert_msg(strstr(rt_last_error(led), "it follows a schedule") != NULL, "%s", rt_last_error(led));
    ck_assert_uint_eq(rt_hyper_count(led), 0);
    slots[S_LR].flags &= ~(uint32_t)STEP_FROZEN;
    rt_destroy(led);
    batch.hypers = twice, batch.hyper_count = 2;
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_EINVAL);
    rt_destroy(t);
}
END_TEST

START_TEST(non_finite)
{
    struct step_instance *t = toy_create(toy_build(&toy, 1, false, false), 1);
    float before[3], after[3];
    struct step_result r = {.size = sizeof r};
    struct step_batch batch;
    toy_fill(&data, 1);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_OK);
    toy_read(t, "w", before, 3);
    data.y[2] = (float)INFINITY;
    batch = data.batch;
    batch.flags = STEP_ON_NONFINITE_STOP;
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_ENONFINITE);
    ck_assert_uint_eq(r.step, 1);
    toy_read(t, "w", after, 3);
    ck_assert_mem_eq(before, after, sizeof before);
    batch.flags = STEP_ON_NONFINITE_SKIP;
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_OK);
    ck_assert_uint_eq(r.flags, STEP_NONFINITE | STEP_SKIPPED);
    ck_assert_uint_eq(r.step, 1);
    toy_read(t, "w", after, 3);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_int_eq(rt_step(t, &data.batch, &r), STEP_OK);
    ck_assert_uint_eq(r.flags, STEP_NONFINITE);
    ck_assert_uint_eq(r.step, 2);
    toy_read(t, "w", after, 3);
    ck_assert(!isfinite(after[0]));
    rt_destroy(t);
}
END_TEST

struct asked {
    uint32_t calls, yes;
    uint64_t step;
    uint32_t flags;
    struct step_instance *t;
};

static int asked_accept(void *user, const struct step_result *r)
{
    struct asked *a = user;
    struct step_array w = {.size = sizeof w, .name = "w"};
    a->step = r->step;
    a->flags = r->flags;
    ck_assert_int_eq(rt_read(a->t, &w), STEP_EBUSY);
    return a->calls++ < a->yes;
}

/* A host that says no: nothing of the step stays, and the next one is what it would have been. */
static void veto(int64_t devices)
{
    struct step_instance *t = toy_create(toy_build(&toy, devices, false, false), 1);
    struct asked asked = {.t = t, .yes = 1};
    float before[3], after[3], momentum[2][3];
    struct step_result r = {.size = sizeof r};
    toy_fill(&data, 1);
    struct step_batch batch = data.batch;
    batch.accept = asked_accept;
    batch.user = &asked;
    ck_assert_int_eq(rt_init(t), STEP_OK);
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_OK);
    ck_assert_uint_eq(r.flags, 0);
    ck_assert_uint_eq(r.step, 1);
    toy_read(t, "w", before, 3);
    toy_read(t, "opt_state.0.trace.w", momentum[0], 3);
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_OK);
    ck_assert_uint_eq(r.flags, STEP_SKIPPED);
    ck_assert_uint_eq(r.step, 1);
    ck_assert_uint_eq(asked.step, 2);
    toy_read(t, "w", after, 3);
    toy_read(t, "opt_state.0.trace.w", momentum[1], 3);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_mem_eq(momentum[0], momentum[1], sizeof momentum[0]);
    ck_assert_int_eq(rt_step(t, &batch, NULL), STEP_OK); /* without a result, too */
    ck_assert_uint_eq(asked.calls, 3);
    struct step_hyper rate = {.size = sizeof rate, .name = "learning_rate", .value = 3e38};
    batch.hypers = &rate, batch.hyper_count = 1; /* the host learns that it is not finite; a policy goes before it */
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_OK);
    ck_assert_uint_eq(asked.flags, STEP_NONFINITE);
    ck_assert_uint_eq(r.flags, STEP_NONFINITE | STEP_SKIPPED);
    batch.flags = STEP_ON_NONFINITE_SKIP;
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_OK);
    ck_assert_uint_eq(asked.calls, 4);
    toy_read(t, "w", after, 3);
    ck_assert_mem_eq(before, after, sizeof before);
    batch.size = offsetof(struct step_batch, accept); /* a host of before there was one */
    batch.flags = 0, batch.hyper_count = 0;
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_OK);
    ck_assert_uint_eq(asked.calls, 4);
    ck_assert_uint_eq(r.step, 2);
    rt_destroy(t);
}

START_TEST(veto_single) { veto(1); }
END_TEST

START_TEST(veto_mesh) { veto(4); }
END_TEST

/* A step in two calls: before `commit` nothing of it is seen, whatever is called, and afterwards all of it; what
 * changes the state in between discards it. `twin` takes the steps that count in one call. */
static void commits(int64_t devices)
{
    static struct toy other;
    struct step_instance *t = toy_create(toy_build(&toy, devices, false, false), 1),
                         *twin = toy_create(toy_build(&other, devices, false, false), 1);
    float before[3], after[3], want[3], momentum[2][3];
    struct step_result r = {.size = sizeof r}, one = r;
    toy_fill(&data, 1);
    struct step_hyper rate = {.size = sizeof rate, .name = "learning_rate", .value = 0.5};
    struct step_batch batch = data.batch, compute = data.batch;
    compute.flags = STEP_COMPUTE;
    ck_assert_int_eq(rt_init(t), STEP_OK);
    ck_assert_int_eq(rt_init(twin), STEP_OK);
    ck_assert_int_eq(rt_commit(t, 1), STEP_EINVAL);
    ck_assert_int_eq(rt_commit(t, 0), STEP_OK);
    for (int k = 0; k < 4; k++) { /* both blocks, with and without a rate for this call */
        compute.hypers = &rate, compute.hyper_count = k & 1;
        batch.hypers = &rate, batch.hyper_count = k & 1;
        toy_read(t, "w", before, 3);
        ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
        ck_assert_int_eq(rt_step(twin, &batch, &one), STEP_OK);
        ck_assert_uint_eq(r.step, one.step);
        ck_assert_uint_eq(r.flags, 0);
        ck_assert_mem_eq(&r.loss, &one.loss, sizeof r.loss);
        toy_read(t, "w", after, 3);
        ck_assert_mem_eq(before, after, sizeof before);
        ck_assert_int_eq(rt_eval(t, &data.batch, "ema", &r), STEP_OK); /* of what is still there */
        ck_assert_uint_eq(r.step, (uint64_t)k);
        ck_assert_int_eq(rt_hyper_set(t, "learning_rate", 0.25 + k), STEP_OK);
        ck_assert_int_eq(rt_hyper_set(twin, "learning_rate", 0.25 + k), STEP_OK);
        ck_assert_int_eq(rt_commit(t, 1), STEP_OK);
        ck_assert_int_eq(rt_commit(t, 1), STEP_EINVAL); /* once */
        toy_read(t, "w", after, 3);
        toy_read(twin, "w", want, 3);
        ck_assert_mem_eq(after, want, sizeof want);
        toy_read(t, "opt_state.0.trace.w", momentum[0], 3);
        toy_read(twin, "opt_state.0.trace.w", momentum[1], 3);
        ck_assert_mem_eq(momentum[0], momentum[1], sizeof momentum[0]);
        double set = 0;
        ck_assert_int_eq(rt_hyper_get(t, "learning_rate", &set), STEP_OK);
        ck_assert(set == 0.25 + k);
    }
    compute.hyper_count = batch.hyper_count = 0;
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
    ck_assert_int_eq(rt_commit(t, 0), STEP_OK);
    ck_assert_int_eq(rt_commit(t, 1), STEP_EINVAL);
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK); /* in its place */
    rt_interrupt(t);                                     /* does not come between the two calls */
    ck_assert_int_eq(rt_commit(t, 1), STEP_OK);
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_ECANCELLED);
    ck_assert_int_eq(rt_step(twin, &batch, &one), STEP_OK);
    toy_read(t, "w", after, 3);
    toy_read(twin, "w", want, 3);
    ck_assert_mem_eq(after, want, sizeof want);
    int64_t three = 3;
    struct step_array w = {.size = sizeof w, .name = "w", .data = want, .dtype = STEP_F32, .rank = 1, .shape = &three};
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
    ck_assert_int_eq(rt_write(t, &w), STEP_OK); /* the others of this table discard it, too */
    ck_assert_int_eq(rt_commit(t, 1), STEP_EINVAL);
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
    ck_assert_int_eq(rt_init(t), STEP_OK);
    ck_assert_int_eq(rt_commit(t, 1), STEP_EINVAL);
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
    ck_assert_int_eq(rt_step(t, &batch, &r), STEP_OK);
    ck_assert_int_eq(rt_commit(t, 1), STEP_EINVAL);
    ck_assert_int_eq(rt_step_n(t, &compute, 1, &r), STEP_EINVAL);
    rate.value = 3e38;
    compute.hypers = &rate, compute.hyper_count = 1, compute.flags |= STEP_ON_NONFINITE_SKIP;
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
    ck_assert_uint_eq(r.flags, STEP_NONFINITE | STEP_SKIPPED); /* the policy has decided */
    ck_assert_int_eq(rt_commit(t, 1), STEP_EINVAL);
    compute.hyper_count = 0;
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK); /* a policy that has nothing to say */
    ck_assert_int_eq(rt_commit(t, 1), STEP_OK);
    ck_assert_int_eq(rt_step(t, &compute, &r), STEP_OK);
    rt_destroy(t); /* with one that waits */
    rt_destroy(twin);
}

START_TEST(commits_single) { commits(1); }
END_TEST

START_TEST(commits_mesh) { commits(4); }
END_TEST

START_TEST(memory_and_tensors)
{
    struct step_instance *t = toy_create(toy_build(&toy, 4, false, false), 1);
    struct step_memory m = {.size = sizeof m};
    struct step_tensor s = {.size = sizeof s};
    ck_assert_int_eq(rt_memory(t, 3, &m), STEP_OK);
    ck_assert_int_eq(rt_memory(t, 4, &m), STEP_ENOTFOUND);
    ck_assert_uint_eq(m.planned_peak, m.measured_peak);
    ck_assert_uint_eq(rt_tensor_count(t, STEP_PARAM), 3);
    ck_assert_uint_eq(rt_tensor_count(t, STEP_EMA), 2);
    ck_assert_uint_eq(rt_tensor_count(t, 8), 0);
    ck_assert_int_eq(rt_tensor_at(t, STEP_INPUT, 0, &s), STEP_OK);
    ck_assert_str_eq(s.name, "x");
    ck_assert_str_eq(s.sharding, "[\"data\", null]");
    ck_assert_uint_eq(s.bytes_global, 96);
    ck_assert_uint_eq(s.bytes_local, 24);
    ck_assert_int_eq(rt_tensor_find(t, "opt_state.0.trace.w", &s), STEP_OK);
    ck_assert_uint_eq(s.role, STEP_OPT_STATE);
    ck_assert_int_eq(rt_tensor_find(t, "learning_rate", &s), STEP_ENOTFOUND);
    rt_destroy(t);
}
END_TEST

int main(void)
{
    return run_case("lifecycle", CASE_OF(120, single, whole, team, mesh_of_two, mesh_of_four_teams, eval_single,
                                         eval_team, eval_mesh, same_bits, team_on_trial, team_that_saves, many_steps,
                                         staged, hypers, non_finite, veto_single, veto_mesh, commits_single,
                                         commits_mesh, memory_and_tensors, destroyed_while_busy));
}
