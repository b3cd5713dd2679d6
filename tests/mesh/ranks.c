/* A compiled step over several ranks: linked with the tables that stepc wrote for a recorded case, it trains in one
 * process, on devices whose memory the host cannot read, and as two and four ranks of one process (tests/unit/runtime/
 * rows.h). Losses, metrics and every tensor have to be those of the one process, bit for bit; the losses are printed.
 *
 * usage: ranks STEPS DATA.safetensors INIT.safetensors|- */
#include "tests/unit/runtime/rows.h"
#include <stepc/step_tools.h>

enum { MOST_INPUTS = 16 };

static struct test_world world;
static const char *init_path;
static struct st_file data;
static char *inputs[MOST_INPUTS]; /* by tensor of the file */
static uint64_t steps;

struct party {
    struct stepc_program program;
    struct stepc_mesh mesh;
    struct test_rank rank;
    struct step_options options;
    struct step_instance *t;
    pthread_t thread;
    char *text; /* what it found */
    size_t bytes;
};

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(const struct party *p, step_status status)
{
    if (status) give_up("ranks", rt_last_error(p->t));
}

static void put_tensor(struct party *p, FILE *out, const struct step_tensor *about)
{
    char *values = malloc(about->bytes_global + 1);
    struct step_array a = {.size = sizeof a,
                           .name = about->name,
                           .data = values,
                           .dtype = about->dtype,
                           .rank = about->rank,
                           .shape = about->shape};
    check(p, rt_read(p->t, &a));
    fprintf(out, "%s", about->name);
    for (uint64_t i = 0; i < about->bytes_global; i++) fprintf(out, " %02x", (unsigned char)values[i]);
    fprintf(out, "\n");
    free(values);
}

static void put_step(struct party *p, FILE *out, uint64_t k)
{
    struct step_array in[MOST_INPUTS];
    double metrics[64];
    struct step_result r = {.size = sizeof r, .metrics = metrics, .metric_capacity = 64};
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = data.count};
    for (uint32_t i = 0; i < data.count; i++) {
        const struct st_tensor *from = &data.tensors[i];
        uint64_t all = (uint64_t)from->shape[0];
        in[i] = (struct step_array){.size = sizeof in[i],
                                    .name = from->name,
                                    .data = inputs[i] + from->bytes / all * (k % all),
                                    .dtype = from->dtype,
                                    .rank = from->rank - 1,
                                    .shape = from->shape + 1};
    }
    check(p, rt_step(p->t, &batch, &r));
    fprintf(out, "%.17g", r.loss);
    for (uint32_t i = 0; i < r.metric_count; i++) fprintf(out, " %a", metrics[i]);
    fprintf(out, "\n");
}

static void *train(void *party)
{
    struct party *p = party;
    FILE *out = open_memstream(&p->text, &p->bytes);
    struct step_load load = {.size = sizeof load, .path = init_path};
    if (rt_create(&p->program, &p->options, &p->t)) give_up("create", rt_last_error(NULL));
    check(p, rt_init(p->t));
    if (init_path) check(p, rt_load(p->t, &load));
    for (uint64_t k = 0; k < steps; k++) put_step(p, out, k);
    for (uint32_t role = STEP_PARAM; role <= STEP_OUTPUT; role++)
        for (size_t i = 0; role != STEP_INPUT && i < rt_tensor_count(p->t, role); i++) {
            struct step_tensor about = {.size = sizeof about};
            check(p, rt_tensor_at(p->t, role, i, &about));
            put_tensor(p, out, &about);
        }
    rt_destroy(p->t);
    fclose(out);
    return p;
}

/* `ranks` 0: the threads of one process, as compiled. */
static char *run(uint32_t ranks, bool far)
{
    struct party parties[TEST_RANKS] = {{.text = NULL}};
    uint32_t count = ranks ? ranks : 1;
    test_world_begin(&world, ranks);
    for (uint32_t r = 0; r < count; r++) {
        struct party *p = &parties[r];
        p->program = stepc_program;
        test_place(&p->program, &p->mesh, far);
        p->rank = (struct test_rank){.world = &world, .rank = r};
        p->options = (struct step_options){.size = sizeof p->options, .threads = 1, .flags = STEP_NO_ENV};
        if (ranks) p->options.transport = "test", p->options.communicator = &p->rank;
        pthread_create(&p->thread, NULL, train, p);
    }
    for (uint32_t r = 0; r < count; r++) pthread_join(parties[r].thread, NULL);
    for (uint32_t r = 1; r < count; r++) {
        if (strcmp(parties[r].text, parties[0].text) != 0) give_up("ranks", "one differs from the first");
        free(parties[r].text);
    }
    test_world_begin(&world, 0);
    if (atomic_load(&far_blocks) || atomic_load(&far_open)) give_up("ranks", "memory of a device is left");
    return parties[0].text;
}

int main(int count, char **arguments)
{
    char error[ST_TEXT];
    if (count != 4) give_up("usage", "ranks STEPS DATA INIT|-");
    steps = strtoull(arguments[1], NULL, 10);
    if (st_open(&data, arguments[2], error)) give_up("data", error);
    if (data.count > MOST_INPUTS) give_up("data", "too many inputs");
    for (uint32_t i = 0; i < data.count; i++) {
        inputs[i] = malloc(data.tensors[i].bytes + 1);
        if (st_read(&data, &data.tensors[i], 0, inputs[i], data.tensors[i].bytes, error)) give_up("data", error);
    }
    init_path = strcmp(arguments[3], "-") ? arguments[3] : NULL;
    uint32_t devices = 1;
    for (uint32_t a = 0; a < stepc_program.axis_count; a++) devices *= (uint32_t)stepc_program.axis_sizes[a];
    char *whole = run(0, false);
    for (uint32_t ranks = 0; ranks <= TEST_RANKS; ranks += 2)
        for (int far = 0; far < 2; far++) {
            if (devices % (ranks ? ranks : 1) || (!ranks && !far)) continue;
            char *text = run(ranks, far);
            if (strcmp(text, whole) != 0) {
                fprintf(stderr, "%u ranks, %s devices: not the numbers of one process\n", ranks, far ? "far" : "near");
                return 1;
            }
            free(text);
        }
    char *end = whole;
    for (uint64_t k = 0; k < steps; k++) {
        printf("%.17g\n", strtod(end, &end));
        end = strchr(end, '\n');
    }
    free(whole);
    return 0;
}
