/* Collectives over ranks (comm_cross.c, comm_ranks.c) without an MPI: a plug-in whose messages are queues of this
 * process, in which every rank is a thread. All kinds over all axes give the bytes of the threads of one process; who
 * is stopped is named, and who leaves is not waited for. */
#include "runtime/comm_ranks.h"
#include "tests/unit/runtime/toy.h"
#include "tests/unit/suite.h"
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 6, WAITING = 4096, MOST = 1 << 20 };

/* ---------------------------------------------------------------- the plug-in */

struct letter {
    struct letter *next;
    uint32_t from, tag;
    uint64_t bytes;
    char data[];
};
static struct post {
    pthread_mutex_t lock;
    struct letter *letters;
    struct stepc_notice notices[64];
    uint32_t told, heard;
} posts[RANKS];
struct fake_world {
    uint32_t rank, ranks, count, tag;
    struct stepc_message waiting[WAITING];
};
static _Atomic int small; /* a rank received less than it expected */

static bool fake_start(void *world, const struct stepc_message *m, uint32_t count, uint32_t tag)
{
    struct fake_world *w = world;
    w->count = 0;
    w->tag = tag;
    for (; count; m++, count--) {
        if (m->receive) {
            w->waiting[w->count++] = *m;
            continue;
        }
        struct letter *l = malloc(sizeof *l + m->bytes), **at = &posts[m->peer].letters;
        *l = (struct letter){NULL, w->rank, tag, m->bytes};
        memcpy(l->data, m->data, m->bytes);
        pthread_mutex_lock(&posts[m->peer].lock);
        while (*at) at = &(*at)->next;
        *at = l;
        pthread_mutex_unlock(&posts[m->peer].lock);
    }
    return true;
}

static int fake_poll(void *world)
{
    struct fake_world *w = world;
    struct post *p = &posts[w->rank];
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < w->count; i++) {
        struct letter **at = &p->letters, *l;
        while (*at && ((*at)->from != w->waiting[i].peer || (*at)->tag != w->tag)) at = &(*at)->next;
        if (!(l = *at)) {
            memmove(w->waiting, w->waiting + i, (w->count - i) * sizeof *w->waiting);
            w->count -= i;
            pthread_mutex_unlock(&p->lock);
            return 0;
        }
        if (l->bytes != w->waiting[i].bytes) atomic_store(&small, 1);
        memcpy(w->waiting[i].data, l->data, l->bytes);
        *at = l->next;
        free(l);
    }
    w->count = 0;
    pthread_mutex_unlock(&p->lock);
    return 1;
}

static bool fake_waits_for(void *world, uint32_t rank)
{
    const struct fake_world *w = world;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->waiting[i].peer == rank) return true;
    return false;
}

static const char *fake_why(void *world) { return world ? "" : NULL; }

static void fake_tell(void *world, const struct stepc_notice *n)
{
    struct fake_world *w = world;
    for (uint32_t r = 0; r < w->ranks; r++) {
        if (r == w->rank) continue;
        pthread_mutex_lock(&posts[r].lock);
        posts[r].notices[posts[r].told++ % 64] = *n;
        pthread_mutex_unlock(&posts[r].lock);
    }
}

static bool fake_heard(void *world, struct stepc_notice *n)
{
    struct post *p = &posts[((struct fake_world *)world)->rank];
    pthread_mutex_lock(&p->lock);
    bool some = p->heard < p->told;
    if (some) *n = p->notices[p->heard++ % 64];
    pthread_mutex_unlock(&p->lock);
    return some;
}

static const struct stepc_plugin fake = {.version = STEPC_PLUGIN,
                                         .start = fake_start,
                                         .poll = fake_poll,
                                         .waits_for = fake_waits_for,
                                         .why = fake_why,
                                         .tell = fake_tell,
                                         .heard = fake_heard};

static step_status ranks_open(struct step_instance *t, const void *communicator, uint32_t *rank, uint32_t *ranks)
{
    struct rt_ranks *r = t->peers = rt_alloc(t, sizeof *r);
    r->plugin = &fake;
    r->world = (void *)(uintptr_t)communicator;
    *rank = r->rank = ((struct fake_world *)r->world)->rank;
    *ranks = r->ranks = ((struct fake_world *)r->world)->ranks;
    return STEP_OK;
}

static void ranks_close(struct step_instance *t) { rt_cross_close(t->peers); }

static const struct rt_comm_ops row = {.name = "fake",
                                       .open = ranks_open,
                                       .plan = rt_cross_plan,
                                       .advance = rt_cross_advance,
                                       .meet = rt_ranks_meet,
                                       .gather = rt_ranks_gather,
                                       .scatter = rt_ranks_scatter,
                                       .close = ranks_close};
static const struct rt_comm_ops *const rows[] = {&rt_comm_thread, &row, NULL};

/* ---------------------------------------------------------------- a program of one collective */

static int64_t axes[] = {2, 3};
static const char *const names[] = {"a", "b"};
static struct stepc_command commands[5];
static bool apart; /* the collective begins, other commands run, it ends */
static uint32_t dtype, in_row, stopped = UINT32_MAX,
                               wrong_result = UINT32_MAX; /* the latter: a rank, and then all step */

/* Sums of these depend on their order. */
static void fill(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    uint32_t device = (uint32_t) * (const int32_t *)b[1];
    (void)lo, (void)hi, (void)scratch;
    for (uint64_t i = 0; i < commands[1].count; i++)
        rt_number_put(b[0], dtype, (int64_t)i,
                      (double)((device * 7919 + i * 104729) % 1013) / (dtype < STEP_F8E4M3 ? 9 : 7));
    if (device == stopped) usleep(1500000);
}

static const uint32_t fill_args[] = {0, 2}, comm_args[] = {0, 1};
static const struct stepc_buffer buffers[] = {
    {.space = STEPC_AT_ARENA}, {.space = STEPC_AT_ARENA, .offset = MOST}, {.space = STEPC_AT_DEVICE, .offset = 4 * 3}};
static struct stepc_entry entry = {.name = "init",
                                   .buffers = buffers,
                                   .buffer_count = 3,
                                   .commands = commands,
                                   .command_count = 2,
                                   .arena_bytes = 2 * MOST,
                                   .scratch_bytes = 1};

static void nothing(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    (void)b, (void)lo, (void)hi, (void)scratch;
}

/* What follows the collective at 1. */
static void end_apart(void)
{
    entry.command_count = apart ? 5 : 2;
    commands[1].half = apart ? STEPC_STARTS : 0;
    commands[2] = commands[3] = (struct stepc_command){
        .kind = STEPC_KERNEL, .kernel = nothing, .extent = 9, .grain = 1, .flag = UINT32_MAX};
    commands[4] = (struct stepc_command){
        .kind = STEPC_COLLECTIVE, .barrier = 1, .half = STEPC_WAITS, .other = 1, .flag = UINT32_MAX};
}

struct party {
    pthread_t thread;
    struct stepc_program program;
    struct stepc_mesh mesh;
    struct fake_world world;
    struct step_instance *t;
    step_status status;
    uint32_t threads;
};

static void *work(void *party)
{
    struct party *p = party;
    p->mesh = stepc_part_mesh;
    p->mesh.rows = rows;
    p->program = (struct stepc_program){.version = STEPC_TABLES,
                                        .name = "collective",
                                        .features = "",
                                        .entries = &entry,
                                        .entry_count = 1,
                                        .axis_count = 2,
                                        .axis_names = names,
                                        .axis_sizes = axes,
                                        .team = &stepc_part_team,
                                        .mesh = &p->mesh};
    struct step_options o = {.size = sizeof o,
                             .threads = p->threads,
                             .timeout_ms = stopped == UINT32_MAX ? 20000 : 300,
                             .flags = STEP_NO_ENV};
    if (p->world.ranks) o.transport = "fake", o.communicator = &p->world;
    p->status = rt_create(&p->program, &o, &p->t);
    if (!p->status) p->status = rt_init(p->t);
    if (p->status || wrong_result == UINT32_MAX) return p;
    struct step_batch batch = {.size = sizeof batch};
    struct step_result result = {.size = p->world.rank == wrong_result ? 0 : sizeof result};
    p->status = rt_step(p->t, &batch, &result);
    return p;
}

static struct party whole, ranks[RANKS];

/* Before the first rank starts: it may write to any other. What was left for one that was late goes. */
static void clear_posts(void)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        for (struct letter *l = posts[r].letters, *next; l; l = next) {
            next = l->next;
            free(l);
        }
        memset(&posts[r], 0, sizeof posts[r]);
        pthread_mutex_init(&posts[r].lock, NULL);
    }
}

static void together(uint32_t count, uint32_t threads)
{
    clear_posts();
    for (uint32_t r = 0; r < count; r++) {
        ranks[r].world = (struct fake_world){.rank = r, .ranks = count};
        ranks[r].threads = threads;
        pthread_create(&ranks[r].thread, NULL, work, &ranks[r]);
    }
    for (uint32_t r = 0; r < count; r++) pthread_join(ranks[r].thread, NULL);
}

static struct stepc_command filling(void)
{
    return (struct stepc_command){.kind = STEPC_KERNEL,
                                  .kernel = fill,
                                  .buffers = fill_args,
                                  .buffer_count = 2,
                                  .extent = 1,
                                  .grain = 1,
                                  .flag = UINT32_MAX};
}

static void compare_one(uint8_t kind, uint8_t reduction, uint32_t mask, int64_t outer, int64_t inner)
{
    int64_t members = mask == 3 ? 6 : mask == 2 ? 3 : 2;
    bool cut = kind == STEPC_REDUCE_SCATTER || kind == STEPC_ALL_TO_ALL;
    uint64_t count = (uint64_t)(outer * inner * (cut ? members : 1));
    uint64_t bytes = rt_dtype_bytes(dtype) * (kind == STEPC_ALL_GATHER       ? count * (uint64_t)members
                                              : kind == STEPC_REDUCE_SCATTER ? count / (uint64_t)members
                                                                             : count);
    ck_assert_uint_le(bytes, MOST);
    ck_assert_uint_le(count * rt_dtype_bytes(dtype), MOST);
    commands[0] = filling();
    commands[1] = (struct stepc_command){.kind = STEPC_COLLECTIVE,
                                         .barrier = 1,
                                         .collective = kind,
                                         .reduction = reduction,
                                         .dtype = (uint8_t)dtype,
                                         .buffers = comm_args,
                                         .buffer_count = 2,
                                         .axes = mask,
                                         .count = count,
                                         .inner = kind >= STEPC_PERMUTE ? 1 : (uint64_t)inner,
                                         .into = kind == STEPC_PERMUTE ? in_row : (uint64_t)outer,
                                         .place = "/test",
                                         .flag = UINT32_MAX};
    end_apart();
    whole.threads = 1;
    work(&whole);
    ck_assert_msg(!whole.status, "%s", rt_last_error(NULL));
    for (uint32_t n = 2; n <= RANKS; n += n == 2 ? 1 : 3) {
        together(n, n == 2 ? 2 : 1);
        for (uint32_t d = 0; d < RANKS; d++) {
            struct party *p = &ranks[d / (RANKS / n)];
            ck_assert_msg(!p->status, "rank %u: %s", d / (RANKS / n), p->t ? rt_last_error(p->t) : "create");
            const char *got = p->t->devices[d % (RANKS / n)].arena + MOST, *want = whole.t->devices[d].arena + MOST;
            ck_assert_msg(memcmp(got, want, bytes) == 0,
                          "kind %u reduction %u dtype %u mask %u [%lld, %lld], device %u of %u ranks", kind, reduction,
                          dtype, mask, (long long)outer, (long long)inner, d, n);
        }
        for (uint32_t r = 0; r < n; r++) rt_destroy(ranks[r].t);
    }
    rt_destroy(whole.t);
    ck_assert_int_eq(atomic_load(&small), 0);
}

static void compare(uint8_t kind, uint8_t reduction, uint32_t mask, int64_t outer, int64_t inner)
{
    for (int i = 0; i < 2; i++) {
        apart = i == 0;
        compare_one(kind, reduction, mask, outer, inner);
    }
}

START_TEST(as_one)
{
    static const uint32_t dtypes[] = {STEP_F32, STEP_BF16, STEP_F64, STEP_I32, STEP_U8};
    for (uint8_t kind = STEPC_ALL_REDUCE; kind <= STEPC_BROADCAST; kind++)
        for (uint32_t mask = 1; mask <= 3; mask++) {
            for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
                dtype = dtypes[i];
                compare(kind, (uint8_t)(i % 3), mask, 3, 5);
            }
            dtype = STEP_F32;
            compare(kind, STEPC_SUM, mask, 1, 1);
            compare(kind, STEPC_SUM, mask, 1, 7001);
            compare(kind, STEPC_SUM, mask, 33, 211);
            in_row = kind == STEPC_PERMUTE ? 2 : 0;
            compare(kind, STEPC_SUM, mask, 33, 211);
            in_row = 0;
        }
}
END_TEST

static void late(void)
{ /* device 4 of six: rank 2 of three */
    dtype = STEP_F32;
    stopped = 4;
    commands[0] = filling();
    commands[1] = (struct stepc_command){.kind = STEPC_COLLECTIVE,
                                         .barrier = 1,
                                         .dtype = STEP_F32,
                                         .buffers = comm_args,
                                         .buffer_count = 2,
                                         .axes = 3,
                                         .count = 9000,
                                         .place = "/late",
                                         .flag = UINT32_MAX};
    end_apart();
    together(3, 1);
    stopped = UINT32_MAX;
    for (uint32_t r = 0; r < 3; r++) {
        const char *text = rt_last_error(ranks[r].t);
        ck_assert_msg(ranks[r].status == STEP_ETIMEOUT || ranks[r].status == STEP_EPEER, "rank %u: %s", r, text);
        ck_assert_msg(r == 2 || strstr(text, "\n  rank 2 does not answer: stopped, gone or still computing"),
                      "rank %u: %s", r, text);
        ck_assert_msg(!strstr(text, "rank 1 does not answer") && !strstr(text, "rank 0 does not answer"), "%s", text);
    }
    for (uint32_t r = 0; r < 3; r++) rt_destroy(ranks[r].t);
}

START_TEST(one_late)
{
    for (int i = 0; i < 2; i++) {
        apart = i == 0;
        late();
    }
}
END_TEST

START_TEST(one_with_a_wrong_result)
{ /* nobody waits for it: the others end with what they find themselves, there is no step here */
    dtype = STEP_F32;
    wrong_result = 1;
    together(3, 1);
    wrong_result = UINT32_MAX;
    for (uint32_t r = 0; r < 3; r++) {
        const char *text = rt_last_error(ranks[r].t);
        ck_assert_msg(ranks[r].status == (r == 1 ? STEP_EINVAL : STEP_EUNSUPPORTED), "rank %u: %s", r, text);
        ck_assert_msg(r != 1 || strstr(text, "step: result has a wrong size field"), "rank %u: %s", r, text);
        rt_destroy(ranks[r].t);
    }
}
END_TEST

/* ---------------------------------------------------------------- weights that ranks compute together */

static struct toy toys[2];
static const uint32_t double_args[] = {B_W, B_G};
static const uint32_t together_args[] = {B_G, B_EVAL};
static struct stepc_command derive[2];
static struct derived {
    uint32_t faulty; /* the rank whose call is wrong; 2: none */
    enum { EVAL, READ, SAVE, WRITE, READ_PARTS } call;
    const char *path;     /* of what is saved */
    const char *of_other; /* the weights of the last rank, NULL: the same */
    uint64_t ns[2];
    float values[2][TOY_DIM];
} derived;

static void *derive_work(void *party)
{
    static const uint32_t split[] = {1};
    static const int64_t half[] = {(TOY_DIM + 1) / 2};
    struct party *p = party;
    uint32_t rank = p->world.rank;
    struct toy_data data;
    toy_build(&toys[rank], 2, false, false);
    toys[rank].entries[4].commands = derive;
    toys[rank].entries[4].command_count = 2;
    toys[rank].mesh = stepc_part_mesh;
    toys[rank].mesh.rows = rows;
    toys[rank].program.mesh = &toys[rank].mesh;
    toy_fill(&data, 1);
    struct step_options o = {.size = sizeof o,
                             .threads = 1,
                             .timeout_ms = 3000,
                             .flags = STEP_NO_ENV,
                             .transport = "fake",
                             .communicator = &p->world};
    p->status = rt_create(&toys[rank].program, &o, &p->t);
    if (!p->status) p->status = rt_init(p->t);
    if (p->status) return p;
    bool faulty = rank == derived.faulty;
    uint64_t begin = rt_now();
    struct step_result result = {.size = faulty ? 0 : sizeof result};
    struct step_array array = {.size = sizeof array,
                               .name = derived.call == READ ? "eval.w" : "w",
                               .data = derived.values[rank],
                               .dtype = faulty ? STEP_F64 : STEP_F32,
                               .rank = 1,
                               .shape = toy_shape_w};
    struct step_save save = {.size = sizeof save, .directory = derived.path, .keep = faulty ? "latest=1" : NULL};
    const char *weights = rank && derived.of_other ? derived.of_other : "eval";
    struct stepc_slot *w = (struct stepc_slot *)(uintptr_t)&p->t->program->slots[rt_slot_find(p->t, "w")];
    if (derived.call == READ_PARTS) w->axes = split, w->local = half; /* of what each device has of its own */
    p->status = derived.call == READ || derived.call == READ_PARTS ? rt_read(p->t, &array)
                : derived.call == WRITE                            ? rt_write(p->t, &array)
                : derived.call == SAVE                             ? rt_save(p->t, &save, NULL)
                                                                   : rt_eval(p->t, &data.batch, weights, &result);
    derived.ns[rank] = rt_now() - begin;
    return p;
}

/* Both calls end at once, whatever is wrong with one: nobody waits for the other until the deadline. */
static void derive_together(struct derived how)
{
    derived = how;
    derive[0] = TOY_KERNEL(toy_derive, double_args, 1, false);
    derive[1] = toy_collective(STEPC_ALL_REDUCE, together_args, TOY_DIM, "/eval");
    clear_posts();
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r].world = (struct fake_world){.rank = r, .ranks = 2};
        pthread_create(&ranks[r].thread, NULL, derive_work, &ranks[r]);
    }
    for (uint32_t r = 0; r < 2; r++) pthread_join(ranks[r].thread, NULL);
    for (uint32_t r = 0; r < 2; r++) {
        const char *text = rt_last_error(ranks[r].t);
        step_status expected = how.of_other                           ? STEP_ENOTFOUND
                               : how.faulty > 1                       ? STEP_OK
                               : how.call == SAVE || how.call == EVAL ? STEP_EINVAL
                                                                      : STEP_ESHAPE;
        ck_assert_msg(ranks[r].status == expected, "rank %u: %d %s", r, (int)ranks[r].status, text);
        ck_assert_msg(derived.ns[r] < 2000000000, "rank %u waited", r);
    }
    for (uint32_t r = 0; r < 2; r++) rt_destroy(ranks[r].t);
}

START_TEST(weights_together)
{
    char path[] = "/tmp/stepc-ranks-XXXXXX.safetensors";
    int file = mkstemps(path, 12);
    ck_assert(file >= 0 && close(file) == 0);
    for (uint32_t faulty = 0; faulty <= 2; faulty++) {
        derive_together((struct derived){.faulty = faulty, .call = EVAL});
        derive_together((struct derived){.faulty = faulty, .call = SAVE, .path = path});
        derive_together((struct derived){.faulty = faulty, .call = READ});
        derive_together((struct derived){.faulty = faulty, .call = WRITE});
        derive_together((struct derived){.faulty = faulty, .call = READ_PARTS});
    }
    unlink(path);
    ck_assert_float_eq(derived.values[0][0], derived.values[1][0]);
    derive_together((struct derived){.faulty = 2, .of_other = "none"});
}
END_TEST

int main(void) { return run_case("ranks", CASE_OF(240, one_with_a_wrong_result, weights_together, as_one, one_late)); }
