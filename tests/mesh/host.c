/* A host that brings its own communicator, in which ranks stand in the opposite order: trains the step of
 * mesh/faults.py on global inputs, or alone on the threads of one process, and prints losses and every tensor; between
 * the steps it asks for what has to be refused on all ranks alike.
 *
 * usage: host STEP.SO ranks|alone */
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepc/step.h"

#define CHECK(x) \
    ((x) ? (void)0 \
         : (fprintf(stderr, "rank %u: line %d: %s: %s\n", place.rank, __LINE__, #x, t ? s->last_error(t) : ""), \
            exit(1)))
enum { ROWS = 22 /* over four devices 6, 6, 6 and 4 */, X = 64, Y = 8, STEPS = 4 };

static struct step_place place = {.size = sizeof place};
static const struct step_api *s;
static struct step_instance *t;

/* How many of the rows that are split over all devices this rank has, and the first of them. */
static int64_t own_rows(int64_t rows, int64_t *first)
{
    int64_t part = (rows + place.devices - 1) / place.devices * place.device_count, last = (place.rank + 1) * part;
    *first = place.rank * part;
    return (last < rows ? last : rows) - *first;
}

static void print_tensors(void)
{
    for (uint32_t role = STEP_PARAM; role <= STEP_METRIC; role++)
        for (size_t i = 0; i < s->tensor_count(t, role); i++) {
            struct step_tensor about = {.size = sizeof about};
            if (role == STEP_INPUT) continue;
            CHECK(s->tensor_at(t, role, i, &about) == STEP_OK);
            unsigned char *values = malloc(about.bytes_global + 1), *mine = malloc(about.bytes_global + 1);
            struct step_array a = {sizeof a, about.name, values, about.dtype, about.rank, about.shape, NULL, 0, 0};
            CHECK(s->read(t, &a) == STEP_OK);
            unsigned long long sum = 0;
            for (uint64_t k = 0; k < about.bytes_global; k++) sum = sum * 1099511628211u + values[k];
            printf("%s %llx\n", about.name, sum);
            /* rows that are split over all ranks: this one's, asked for by their extents */
            if (about.rank && strncmp(about.sharding, "[\"data\"", 7) == 0 && place.ranks > 1) {
                int64_t shape[8], first;
                memcpy(shape, about.shape, sizeof *shape * (size_t)about.rank);
                shape[0] = own_rows(about.shape[0], &first);
                a.data = mine;
                a.shape = shape;
                CHECK(s->read(t, &a) == STEP_OK);
                size_t row = about.bytes_global / (size_t)about.shape[0];
                CHECK(memcmp(mine, values + (size_t)first * row, (size_t)shape[0] * row) == 0);
                if (role != STEP_METRIC) CHECK(s->write(t, &a) == STEP_OK);
            }
            free(values);
            free(mine);
        }
}

int main(int argc, char **argv)
{
    static float x[STEPS][ROWS][X], y[STEPS][ROWS][Y];
    int rank = 0, ranks = 1;
    bool alone = argc > 2 && strcmp(argv[2], "alone") == 0;
    MPI_Comm turned = MPI_COMM_NULL;
    if (!alone) {
        int level;
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - rank, &turned);
    }
    void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    step_query_fn *query = NULL;
    if (so) *(void **)&query = dlsym(so, "step_query");
    if (!query || !(s = query(1, 2))) return fprintf(stderr, "%s\n", dlerror()), 1;
    struct step_options options = {.size = sizeof options, .threads = 1, .timeout_ms = 20000};
    if (!alone) options.transport = "mpi", options.communicator = &turned;
    if (s->create(&options, &t)) return fprintf(stderr, "%s\n", s->last_error(NULL)), 1;
    CHECK(s->place(t, &place) == STEP_OK);
    CHECK(place.ranks == (uint32_t)ranks && place.rank == (uint32_t)(ranks - 1 - rank));
    CHECK(place.device_count * place.ranks == place.devices && place.first_device == place.rank * place.device_count);
    for (int i = 0; i < STEPS * ROWS * X; i++) ((float *)x)[i] = sinf((float)i);
    for (int i = 0; i < STEPS * ROWS * Y; i++) ((float *)y)[i] = cosf((float)i);
    int64_t first, own = own_rows(ROWS, &first);
    const int64_t xs[] = {ROWS, X}, ys[] = {ROWS, Y}, bad[] = {ROWS + 1, X}, own_x[] = {own, X}, own_y[] = {own, Y};
    CHECK(s->init(t) == STEP_OK);
    for (int k = 0; k < STEPS; k++) {
        struct step_array in[] = {{sizeof *in, "x", x[k], STEP_F32, 2, xs, NULL, 0, 0},
                                  {sizeof *in, "y", y[k], STEP_F32, 2, ys, NULL, 0, 0}};
        struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 2};
        struct step_result r = {.size = sizeof r};
        bool last = place.rank + 1 == place.ranks;
        if (place.ranks > 1) { /* one that is wrong is the mistake of all, and what follows is as without it */
            char expected[120];
            snprintf(expected, sizeof expected,
                     "input \"x\": expected float32[%d, %d], or of this rank float32[%d, %d], found", ROWS, X, (int)own,
                     X);
            if (last) in[0].shape = bad;
            CHECK(s->step(t, &batch, &r) == STEP_ESHAPE);
            CHECK(strstr(s->last_error(t), last ? expected : "input \"x\": expected"));
            in[0].shape = xs;
            CHECK((last ? s->eval(t, &batch, NULL, &r) : s->step(t, &batch, &r)) == STEP_EPEER);
            CHECK(strstr(s->last_error(t), "makes another call"));
            if (last) s->interrupt(t);
            CHECK(s->step(t, &batch, &r) == STEP_ECANCELLED);
            batch.flags = last ? STEP_ON_NONFINITE_SKIP : 0;
            CHECK(s->step(t, &batch, &r) == STEP_EPEER);
            batch.flags = 0;
            double rate;
            CHECK(s->hyper_get(t, "learning_rate", &rate) == STEP_OK);
            CHECK(s->hyper_set(t, "learning_rate", last ? 0.5 : rate) == STEP_OK);
            CHECK(s->step(t, &batch, &r) == STEP_EPEER && s->hyper_set(t, "learning_rate", rate) == STEP_OK);
            float bias[Y];
            const int64_t extent = Y;
            struct step_array b = {sizeof b, "layers.4.bias", bias, STEP_F32, 1, &extent, NULL, 0, 0};
            CHECK(s->read(t, &b) == STEP_OK && s->write(t, &b) == STEP_OK);
            bias[3] += (float)last;
            CHECK(s->write(t, &b) == STEP_EPEER);
        }
        if (k && place.ranks > 1) { /* the rank's own rows alone, of one input or of all, staged or not */
            in[0].shape = own_x, in[0].data = x[k][first];
            if (k > 1) in[1].shape = own_y, in[1].data = y[k][first];
        }
        if (k == 1) CHECK(s->stage(t, &batch) == STEP_OK), batch.inputs = NULL, batch.input_count = 0;
        CHECK(s->step(t, &batch, &r) == STEP_OK && r.step == (uint64_t)k + 1);
        printf("%a\n", r.loss);
    }
    print_tensors();
    uint64_t most = 0;
    CHECK(s->agree(t, 7 + place.rank, &most) == STEP_OK && most == 6 + place.ranks);
    s->destroy(t);
    if (!alone) {
        MPI_Comm_free(&turned);
        MPI_Finalize();
    }
    return 0;
}
