/* The seams that devices and transports are added at: two ranks in one process, each with its half of the mesh, give
 * the numbers and the files of one process, bit for bit, on devices of the CPU and on devices whose memory the host
 * cannot read; what is late, gone or broken is an error on every rank that is left. */
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, DEVICES = 4, STEPS = 20 };

/* One rank, or the whole mesh: its tables, its instance, what it found. */
struct party {
    struct toy toy;
    struct toy_data data;
    struct test_rank rank;
    struct step_instance *t;
    struct step_options options;
    pthread_t thread;
    step_status status;
    char file[64];
    double loss[STEPS], eval;
    float w[3], err[8], model[8], momentum[3];
};

static struct test_world world;
static struct party whole, ranks[RANKS];
static char folder[] = "/tmp/stepc-seams-XXXXXX";

static void build(struct party *p, bool far)
{
    toy_build(&p->toy, DEVICES, true, false);
    test_place(&p->toy.program, &p->toy.mesh, far);
    p->t = NULL;
    p->options = (struct step_options){
        .size = sizeof p->options, .threads = 2, .timeout_ms = 2000, .flags = STEP_NO_ENV};
    snprintf(p->file, sizeof p->file, "%s/%s.safetensors", folder, p == &whole ? "whole" : "ranks");
}

/* Each rank in a thread of its own, as its host would be. */
static void together(void *(*work)(void *), bool far)
{
    test_world_begin(&world, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        build(&ranks[r], far);
        ranks[r].rank = (struct test_rank){.world = &world, .rank = r};
        ranks[r].options.transport = "test";
        ranks[r].options.communicator = &ranks[r].rank;
        pthread_create(&ranks[r].thread, NULL, work, &ranks[r]);
    }
    for (uint32_t r = 0; r < RANKS; r++) pthread_join(ranks[r].thread, NULL);
}

static void all_well(void *(*work)(void *), bool far)
{
    together(work, far);
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_msg(ranks[r].status == STEP_OK, "rank %u: %s: %s", r, rt_status_name(ranks[r].status),
                      ranks[r].t ? rt_last_error(ranks[r].t) : "");
        rt_destroy(ranks[r].t);
    }
    test_world_begin(&world, 0);
}

static step_status start(struct party *p)
{
    step_status status = rt_create(&p->toy.program, &p->options, &p->t);
    return status ? status : rt_init(p->t);
}

/* Rows of this rank alone: of the same arrays, whose extents say so. */
static void own_rows(struct party *p)
{
    static const int64_t x[] = {TOY_ROWS / RANKS, TOY_DIM};
    for (int i = 0; i < 3; i++) {
        struct step_array *a = &p->data.arrays[i];
        a->data = (char *)a->data + p->rank.rank * TOY_ROWS / RANKS * (a->rank == 2 ? TOY_DIM : 1) * sizeof(float);
        a->shape = x;
    }
}

#define GO(call) \
    if ((p->status = (call))) return p

static void *train(void *party)
{
    struct party *p = party;
    struct step_result r = {.size = sizeof r};
    int64_t rows = 8;
    struct step_array model = {
        .size = sizeof model, .name = "model", .data = p->model, .dtype = STEP_F32, .rank = 1, .shape = &rows};
    GO(start(p));
    for (uint32_t i = 0; i < STEPS; i++) {
        toy_fill(&p->data, i);
        struct step_batch batch = p->data.batch;
        if (p->t->ranks > 1 && i % 2) own_rows(p);
        if (i == 3) { /* whole or in parts */
            GO(rt_stage(p->t, &batch));
            batch.inputs = NULL, batch.input_count = 0;
        }
        GO(rt_step(p->t, &batch, &r));
        p->loss[i] = r.loss;
    }
    toy_fill(&p->data, STEPS - 1);
    GO(toy_read(p->t, "err", p->err, 8));
    float own[TOY_ROWS];
    if (p->t->ranks > 1) { /* what this rank holds, without asking another one */
        GO(toy_read(p->t, "err", own, TOY_ROWS / RANKS));
        if (memcmp(own, p->err + p->rank.rank * TOY_ROWS / RANKS, TOY_ROWS / RANKS * sizeof(float)) != 0)
            GO(rt_fail(p->t, STEP_EINTERNAL, "own rows of \"err\" are others"));
    }
    struct step_save save = {.size = sizeof save, .directory = p->file};
    struct step_load load = {.size = sizeof load, .path = p->file};
    GO(rt_save(p->t, &save, NULL));
    GO(rt_step(p->t, &p->data.batch, NULL));
    GO(rt_load(p->t, &load)); /* the step is undone */
    struct step_batch batch = p->data.batch;
    batch.flags = STEP_ON_NONFINITE_SKIP;
    float good = p->data.y[0];
    p->data.y[0] = (float)INFINITY; /* a row of the first rank's */
    GO(rt_step(p->t, &batch, &r));
    if (r.flags != (STEP_NONFINITE | STEP_SKIPPED)) GO(rt_fail(p->t, STEP_EINTERNAL, "the step was not skipped"));
    p->data.y[0] = good;
    float rates[] = {0.1f, (float)INFINITY}; /* what only the other rank's parameters show stops the first one too */
    struct step_array rate = {.size = sizeof rate,
                              .name = "hyperparameters.learning_rate",
                              .data = rates + (p != &ranks[0]),
                              .dtype = STEP_F32};
    GO(rt_write(p->t, &rate));
    GO(rt_step(p->t, &batch, &r));
    if (r.flags != (STEP_NONFINITE | STEP_SKIPPED)) GO(rt_fail(p->t, STEP_EINTERNAL, "the ranks do not agree"));
    rate.data = rates;
    GO(rt_write(p->t, &rate));
    batch.flags = STEP_COMPUTE; /* one rank says no, then all say yes */
    GO(rt_step(p->t, &batch, &r));
    step_status answer = rt_commit(p->t, p == &ranks[0]);
    if (answer != (p == &ranks[0] ? STEP_ECANCELLED : STEP_OK))
        GO(rt_fail(p->t, STEP_EINTERNAL, "a step that one rank refuses: %s", rt_status_name(answer)));
    GO(rt_step(p->t, &batch, &r));
    GO(rt_commit(p->t, 1));
    GO(rt_eval(p->t, &p->data.batch, "ema", &r));
    p->eval = r.loss;
    GO(rt_infer(p->t, &p->data.batch, NULL, &model, 1));
    GO(toy_read(p->t, "w", p->w, 3));
    GO(toy_read(p->t, "opt_state.0.trace.w", p->momentum, 3));
    return p;
}

static size_t file_bytes(const char *path, char *to, size_t most)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, most, f) : 0;
    if (f) fclose(f);
    return n;
}

START_TEST(ranks_as_one)
{
    static char one[16384], two[16384];
    bool far = _i;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    build(&whole, false);
    train(&whole);
    ck_assert_msg(!whole.status, "%s", rt_last_error(whole.t));
    together(train, far);
    size_t n = file_bytes(whole.file, one, sizeof one);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct party *p = &ranks[r];
        ck_assert_msg(!p->status, "rank %u: %s", r, p->t ? rt_last_error(p->t) : "create");
        ck_assert_uint_eq(p->t->local_count, DEVICES / RANKS);
        ck_assert_uint_eq(p->t->devices[0].index, r * DEVICES / RANKS);
        ck_assert_mem_eq(p->loss, whole.loss, sizeof whole.loss);
        ck_assert_mem_eq(p->err, whole.err, sizeof whole.err);
        ck_assert_mem_eq(p->w, whole.w, sizeof whole.w);
        ck_assert_mem_eq(p->momentum, whole.momentum, sizeof whole.momentum);
        ck_assert_mem_eq(p->model, whole.model, sizeof whole.model);
        ck_assert_double_eq(p->eval, whole.eval);
        ck_assert_uint_eq(file_bytes(p->file, two, sizeof two), n);
        ck_assert_mem_eq(one, two, n);
    }
    ck_assert_uint_gt(n, 500);
    if (far) ck_assert_int_eq(atomic_load(&far_unmet), 0);
    struct step_memory m = {.size = sizeof m};
    ck_assert_int_eq(rt_memory(ranks[1].t, 2, &m), STEP_OK);
    ck_assert_int_eq(rt_memory(ranks[1].t, 1, &m), STEP_ENOTFOUND); /* another rank's */
    for (uint32_t r = 0; r < RANKS; r++) rt_destroy(ranks[r].t);
    test_world_begin(&world, 0);
    rt_destroy(whole.t);
    ck_assert_int_eq(atomic_load(&far_open) | atomic_load(&far_blocks), 0); /* everything was given back */
    unlink(ranks[0].file), unlink(whole.file), rmdir(folder);
}
END_TEST

START_TEST(sharded_flag)
{ /* STEP_SHARDED: this process holds a part; alone it holds all */
    struct step_tensor about = {.size = sizeof about};
    build(&whole, false);
    whole.toy.slots[S_X].flags = STEP_SHARDED;
    ck_assert_int_eq(start(&whole), STEP_OK);
    ck_assert_int_eq(rt_tensor_find(whole.t, "x", &about), STEP_OK);
    ck_assert_uint_eq(about.flags, 0);
    whole.t->ranks = 2;
    ck_assert_int_eq(rt_tensor_find(whole.t, "x", &about), STEP_OK);
    ck_assert_uint_eq(about.flags, STEP_SHARDED);
    whole.t->ranks = 1;
    rt_destroy(whole.t);
}
END_TEST

/* ---------------------------------------------------------------- what goes wrong */

static void *leave_early(void *party)
{ /* the last rank does not come to the second step */
    struct party *p = party;
    toy_fill(&p->data, 1);
    GO(start(p));
    GO(rt_step(p->t, &p->data.batch, NULL));
    if (p == &ranks[RANKS - 1]) return p;
    GO(rt_step(p->t, &p->data.batch, NULL));
    return p;
}

START_TEST(lost_rank)
{
    together(leave_early, _i);
    ck_assert_int_eq(ranks[0].status, STEP_ETIMEOUT);
    ck_assert_msg(strstr(rt_last_error(ranks[0].t), "a rank is late, seen from rank 0") != NULL, "%s",
                  rt_last_error(ranks[0].t));
    ck_assert_int_eq(rt_step(ranks[0].t, &ranks[0].data.batch, NULL), STEP_EPOISONED);
    ck_assert_int_eq(ranks[1].status, STEP_OK);
    rt_abort_peers(ranks[0].t);
    ck_assert_int_eq(atomic_load(&world.aborted), 1);
    for (uint32_t r = 0; r < RANKS; r++) rt_destroy(ranks[r].t);
    test_world_begin(&world, 0);
}
END_TEST

static void *one_lacks_memory(void *party)
{
    struct party *p = party;
    if (p == &ranks[1]) p->options.max_memory = 100;
    p->status = start(p);
    snprintf(p->file, sizeof p->file, "%.60s", rt_last_error(NULL));
    return p;
}

START_TEST(create_together)
{ /* what one rank cannot create, none has */
    together(one_lacks_memory, _i);
    ck_assert_int_eq(ranks[0].status | ranks[1].status, STEP_ENOMEM);
    ck_assert_msg(strstr(ranks[0].file, "rank 1 failed") != NULL, "%s", ranks[0].file);
    ck_assert_msg(strstr(ranks[1].file, "device 0 needs") != NULL, "%s", ranks[1].file);
    ck_assert(!ranks[0].t && !ranks[1].t);
    ck_assert_int_eq(atomic_load(&far_open) | atomic_load(&far_blocks), 0);
}
END_TEST

static void *load_nothing(void *party)
{ /* only one rank sees the file */
    struct party *p = party;
    struct step_load load = {.size = sizeof load, .path = p == &ranks[1] ? "/nowhere.safetensors" : whole.file};
    GO(start(p));
    GO(rt_load(p->t, &load));
    return p;
}

START_TEST(load_together)
{ /* the state is as before on both */
    float w[3], before[3] = {0.1f, 0.1f * 2.0f, 0.1f * 3.0f};
    char path[] = "/tmp/stepc-seams-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(path));
    build(&whole, false);
    snprintf(whole.file, sizeof whole.file, "%s/x.safetensors", path);
    toy_fill(&whole.data, 1);
    struct step_save save = {.size = sizeof save, .directory = whole.file};
    ck_assert_int_eq(start(&whole), STEP_OK);
    ck_assert_int_eq(rt_step(whole.t, &whole.data.batch, NULL) | rt_save(whole.t, &save, NULL), STEP_OK);
    together(load_nothing, _i);
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(ranks[r].status, STEP_EIO);
        ck_assert_int_eq(toy_read(ranks[r].t, "w", w, 3), STEP_OK);
        ck_assert_mem_eq(w, before, sizeof w);
        rt_destroy(ranks[r].t);
    }
    test_world_begin(&world, 0);
    rt_destroy(whole.t);
    unlink(whole.file), rmdir(path);
}
END_TEST

static void remove_all(char *path)
{
    pid_t child = fork();
    if (child == 0) execlp("rm", "rm", "-rf", path, (char *)NULL), _exit(1);
    while (child > 0 && waitpid(child, NULL, 0) < 0) {}
}

static char runs[64];

static void *save_directories(void *party)
{
    struct party *p = party;
    struct step_save save = {.size = sizeof save, .directory = runs};
    struct step_load load = {.size = sizeof load, .path = runs};
    struct step_job *job = NULL;
    GO(start(p));
    toy_fill(&p->data, 1);
    GO(rt_step(p->t, &p->data.batch, NULL));
    GO(rt_save(p->t, &save, &job));
    GO(rt_job_wait(job, -1));
    rt_job_free(job);
    GO(toy_read(p->t, "w", p->w, 3));
    GO(rt_step(p->t, &p->data.batch, NULL));
    GO(rt_save(p->t, &save, NULL));
    step_status again = rt_save(p->t, &save, &job); /* of both: what the first one finds */
    if (!again || job) GO(rt_fail(p->t, STEP_EINTERNAL, "a checkpoint was replaced"));
    GO(rt_step(p->t, &p->data.batch, NULL));
    GO(rt_load(p->t, &load));
    GO(p->t->steps == 2 ? STEP_OK : STEP_EINTERNAL);
    if (p == &ranks[0]) { /* the newest is damaged: both take the one before */
        char path[128];
        snprintf(path, sizeof path, "%s/step-2/params-00001-of-00002.safetensors", runs);
        FILE *f = fopen(path, "r+b"); /* a byte of data */
        if (!f) snprintf(path, sizeof path, "%s/step-2/params.safetensors", runs), f = fopen(path, "r+b");
        GO(f && !fseek(f, -2, SEEK_END) && fputc(77, f) == 77 && !fclose(f) ? STEP_OK : STEP_EIO);
    }
    GO(rt_read(p->t, &(struct step_array){.size = sizeof(struct step_array),
                                          .name = "w",
                                          .data = p->model,
                                          .dtype = STEP_F32,
                                          .rank = 1,
                                          .shape = toy_shape_w}));
    p->status = rt_agree(p->t, STEP_OK); /* nobody loads before that */
    GO(p->status);
    GO(rt_load(p->t, &load));
    float w[3];
    GO(toy_read(p->t, "w", w, 3));
    GO(p->t->steps == 1 && memcmp(w, p->w, sizeof w) == 0 ? STEP_OK : STEP_EINTERNAL);
    return p;
}

START_TEST(directories_together)
{
    snprintf(runs, sizeof runs, "/dev/shm/stepc-seams-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(runs));
    all_well(save_directories, _i);
    remove_all(runs);
}
END_TEST

static char views[3][80]; /* step-1 and -2; a third one, too; another step-2 */

static step_status load_view(struct party *p, int of_first, int of_other)
{
    struct step_load load = {.size = sizeof load, .path = views[p == ranks ? of_first : of_other]};
    return rt_load(p->t, &load);
}

/* Each rank sees something else, as if others saved or removed meanwhile: what the first one finds counts. */
static void *look_apart(void *party)
{
    struct party *p = party;
    float w[3], after[3];
    GO(start(p));
    for (int i = 0; i < 3; i++) {
        struct step_save save = {.size = sizeof save, .directory = views[i == 2]};
        toy_fill(&p->data, (uint32_t)i);
        GO(rt_step(p->t, &p->data.batch, NULL));
        GO(rt_save(p->t, &save, NULL));
        if (i == 1) GO(toy_read(p->t, "w", w, 3));
    }
    char from[512], to[512];
    for (int i = 0; p == ranks && i < 3; i++) {
        snprintf(from, sizeof from, "%s/step-%d", views[i == 2], i == 2 ? 3 : i + 1);
        snprintf(to, sizeof to, "%s/step-%d", views[i == 2 ? 2 : 1], i == 2 ? 2 : i + 1);
        GO(symlink(from, to) ? STEP_EIO : STEP_OK);
    }
    GO(rt_agree(p->t, STEP_OK));
    GO(load_view(p, 0, 1)); /* step-3 comes after the first one has looked */
    GO(toy_read(p->t, "w", after, 3));
    GO(p->t->steps == 2 && memcmp(w, after, sizeof w) == 0 ? STEP_OK : STEP_EINTERNAL);
    static const char *const said[] = {"rank 0 can read it, this one not: STEP_ECORRUPT: load: ",
                                       "step-2 is not what rank 0 has there: all ranks have to see the same files"};
    for (int i = 0; i < 2; i++) {
        step_status status = i ? load_view(p, 0, 2) : load_view(p, 1, 0);
        bool told = p == ranks || strstr(rt_last_error(p->t), said[i]);
        GO(status == STEP_EIO && told && p->t->steps == 2 ? STEP_OK : STEP_EINTERNAL);
    }
    GO(load_view(p, 1, 1));
    p->status = p->t->steps == 3 ? STEP_OK : STEP_EINTERNAL;
    return p;
}

START_TEST(ranks_that_look_apart)
{
    char at[] = "/dev/shm/stepc-seams-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(at));
    for (int i = 0; i < 3; i++) {
        snprintf(views[i], sizeof *views, "%s/%d", at, i);
        ck_assert_int_eq(mkdir(views[i], 0700), 0);
    }
    all_well(look_apart, _i);
    remove_all(at);
}
END_TEST

START_TEST(refused)
{
    struct test_world odd = {.ranks = 3};
    build(&whole, false);
    whole.options.transport = "test";
    ck_assert_int_eq(start(&whole), STEP_EINVAL); /* it wants a communicator */
    whole.rank = (struct test_rank){.world = &odd};
    whole.options.communicator = &whole.rank;
    ck_assert_int_eq(start(&whole), STEP_EDEVICE);
    ck_assert_ptr_nonnull(strstr(rt_last_error(NULL), "4 devices cannot be split evenly over 3 processes"));
    whole.options.transport = "thread";
    ck_assert_int_eq(start(&whole), STEP_EUNSUPPORTED); /* threads have no communicator */
    whole.options.communicator = NULL;
    whole.toy.program.gpu = &far_gpu;
    ck_assert_int_eq(start(&whole), STEP_EDEVICE); /* nor do they reach into such memory */
    ck_assert_ptr_nonnull(strstr(rt_last_error(NULL), "memory every thread reads in place"));
    ck_assert_ptr_null(whole.t);
}
END_TEST

START_TEST(broken_device)
{ /* the call ends with what the device says; a whole state heals the instance if the device is back */
    char path[] = "/tmp/stepc-seams-XXXXXX", file[64];
    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(file, sizeof file, "%s/state.safetensors", path);
    for (int form = 0; form < 2; form++) { /* commands, and the entry as one function */
        toy_build(&whole.toy, 1, false, form == 1);
        test_place(&whole.toy.program, &whole.toy.mesh, true);
        struct step_instance *t = toy_create(&whole.toy.program, 1);
        float w[3];
        toy_fill(&whole.data, 1);
        ck_assert_msg(t != NULL, "%s", rt_last_error(NULL));
        struct step_save save = {.size = sizeof save, .directory = file};
        struct step_load load = {.size = sizeof load, .path = file};
        ck_assert_int_eq(rt_init(t) | rt_step(t, &whole.data.batch, NULL) | rt_save(t, &save, NULL), STEP_OK);
        atomic_store(&far_breaks_in, 1);
        ck_assert_int_eq(rt_step(t, &whole.data.batch, NULL), STEP_EDEVICE);
        ck_assert_str_eq(rt_last_error(t), "STEP_EDEVICE: device 0 does not answer");
        ck_assert_int_eq(toy_read(t, "w", w, 3), STEP_EPOISONED);
        ck_assert_msg(rt_load(t, &load) == STEP_OK, "%s", rt_last_error(t));
        ck_assert_int_eq(rt_step(t, &whole.data.batch, NULL), STEP_OK);
        rt_destroy(t);
    }
    unlink(file), rmdir(path);
}
END_TEST

int main(void)
{
    TCase *all = CASE_OF(120, sharded_flag, refused, broken_device);
    const TTest *const both[] = {ranks_as_one,         lost_rank, create_together, load_together, directories_together,
                                 ranks_that_look_apart};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) tcase_add_loop_test(all, both[i], 0, 2); /* near, far */
    return run_case("seams", all);
}
