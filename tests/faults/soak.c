/* A host that goes on for long: steps, evaluations, saves and loads, instances that come and go, and what this takes of
 * memory, file descriptors and threads. Inputs are what the object says that they are.
 *
 *   soak step.so FOLDER STEPS INSTANCES [leak|TRANSPORT]
 *
 * `leak` forgets 64 bytes every step: the control, which must be noticed. A transport, such as mpi: mpirun started this
 * as one of several. Exit 1: something grew. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepc/step.h"

enum { INPUTS = 16, RANK = 8 };
static const double slope = 1.0;      /* bytes of memory a step may add, on the average */
static const double touched = 262144; /* pages of stacks and of malloc's that threads touch late for the first time */

static long entries(const char *path)
{
    DIR *dir = opendir(path);
    long n = 0;
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

static long resident(void)
{
    long pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

struct levels {
    long bytes, files, threads;
};

static struct levels look(void)
{
    return (struct levels){resident(), entries("/proc/self/fd"), entries("/proc/self/task")};
}

static int grew(const char *what, struct levels from, struct levels to, double bytes)
{
    printf("%s: %+ld bytes, %+ld descriptors, %+ld threads\n", what, to.bytes - from.bytes, to.files - from.files,
           to.threads - from.threads);
    return (double)(to.bytes - from.bytes) > bytes || to.files != from.files || to.threads != from.threads;
}

static int failed(const struct step_api *s, const struct step_instance *t, const char *doing)
{
    fprintf(stderr, "%s: %s\n", doing, s->last_error(t));
    return 2;
}

/* Names and shapes are copied: they outlive the instance here. */
static int fill(const struct step_api *s, struct step_instance *t, struct step_array *in, size_t *count)
{
    static int64_t shapes[INPUTS][RANK];
    *count = s->tensor_count(t, STEP_INPUT);
    if (*count > INPUTS) return 0;
    for (size_t i = 0; i < *count; i++) {
        struct step_tensor tensor = {.size = sizeof tensor};
        if (s->tensor_at(t, STEP_INPUT, i, &tensor)) return 0;
        float *data = calloc(1, tensor.bytes_global + 64);
        for (uint64_t k = 0; data && tensor.dtype == STEP_F32 && k < tensor.bytes_global / 4; k++)
            data[k] = (float)(k % 7) / 7;
        memcpy(shapes[i], tensor.shape, (size_t)tensor.rank * sizeof *shapes[i]);
        in[i] = (struct step_array){.size = sizeof *in,
                                    .name = strdup(tensor.name),
                                    .data = data,
                                    .dtype = tensor.dtype,
                                    .rank = tensor.rank,
                                    .shape = shapes[i]};
    }
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 5) return fprintf(stderr, "usage: soak step.so FOLDER STEPS INSTANCES [leak|TRANSPORT]\n"), 2;
    const long steps = atol(argv[3]), instances = atol(argv[4]);
    const int leaks = argc > 5 && strcmp(argv[5], "leak") == 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/soak.safetensors", argv[2]);
    void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!so) return fprintf(stderr, "%s\n", dlerror()), 2;
    step_query_fn *query;
    *(void **)&query = dlsym(so, "step_query");
    const struct step_api *s = query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
    struct step_options options = {.size = sizeof options, .threads = 2};
    if (argc > 5 && !leaks) options.transport = argv[5], options.threads = 1;
    struct step_instance *t;
    struct step_array in[INPUTS] = {{0}};
    struct step_batch batch = {.size = sizeof batch, .inputs = in};
    struct step_result r = {.size = sizeof r};
    const struct step_save save = {.size = sizeof save, .directory = path};
    const struct step_load load = {.size = sizeof load, .path = path};
    if (s->create(&options, &t) || s->init(t)) return failed(s, NULL, "create");
    if (!fill(s, t, in, &batch.input_count)) return 2;
    struct levels from = {0};
    for (long i = 0; i < steps; i++) {
        if (i == steps / 10) from = look();
        if (s->step(t, &batch, &r)) return failed(s, t, "step");
        if (i % 1000 == 999 && s->eval(t, &batch, NULL, &r)) return failed(s, t, "eval");
        if (i % (steps / 20 + 1) == 0 && (s->save(t, &save, NULL) || s->load(t, &load)))
            return failed(s, t, "save and load");
        if (leaks && !malloc(64)) return 2;
    }
    int bad = grew("steps", from, look(), slope * (double)steps * 0.9 + touched);
    s->destroy(t);
    for (long i = 0; i < instances; i++) {
        if (i == instances / 10) from = look();
        if (s->create(&options, &t) || s->init(t) || s->step(t, &batch, &r)) return failed(s, NULL, "create again");
        s->destroy(t);
    }
    bad |= grew("instances", from, look(), touched + 16.0 * (double)instances);
    for (long i = 0; i < instances / 5; i++) {
        if (i == instances / 50) from = look();
        void *again = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!again || dlclose(again)) return fprintf(stderr, "%s\n", dlerror()), 2;
    }
    return bad | grew("opening", from, look(), touched);
}
