/* For threads.py: threads SECONDS STEP.SO, the least time of a step among many on one worker and on two, in turn. */
#define _GNU_SOURCE
#include "stepc/step.h"
#include "stepc/step_open.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { INPUTS = 8, CLASSES = 10 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Floats in [-0.5, 0.5), or classes. */
static void *filled(const struct step_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->shape[i];
    void *data = calloc(n, 4);
    for (size_t i = 0; i < n && data; i++) {
        unsigned random = (unsigned)(i * 2654435761u) >> 8;
        if (t->dtype == STEP_F32) ((float *)data)[i] = (float)(random % 1000) / 1000 - 0.5f;
        else ((int32_t *)data)[i] = (int32_t)(random % CLASSES);
    }
    return data;
}

int main(int argc, char **argv)
{
    const struct step_api *s;
    struct step_instance *t[2];
    struct step_array in[INPUTS] = {{0}};
    struct step_batch batch = {.size = sizeof batch, .inputs = in};
    struct step_result r = {.size = sizeof r};
    double least[2] = {0};
    char error[512];
    cpu_set_t one;
    int core = 0;
    if (argc != 3 || step_open(argv[2], &s, error, sizeof error)) return 1;
    for (unsigned k = 0; k < 2; k++) {
        struct step_options options = {.size = sizeof options, .threads = k + 1, .flags = STEP_PIN};
        if (s->create(&options, &t[k]) || s->init(t[k])) return 1;
    }
    for (; batch.input_count < s->tensor_count(t[0], STEP_INPUT); batch.input_count++) {
        struct step_tensor d = {.size = sizeof d};
        if (batch.input_count == INPUTS || s->tensor_at(t[0], STEP_INPUT, batch.input_count, &d)) return 1;
        in[batch.input_count] = (struct step_array){sizeof *in, d.name, filled(&d), d.dtype, d.rank, d.shape};
    }
    sched_getaffinity(0, sizeof one, &one); /* workers have theirs by now: the caller takes the first core */
    while (!CPU_ISSET(core, &one)) core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (double end = now() + atof(argv[1]) * 1e6; now() < end;)
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 20; i++) {
                double begin = now();
                if (s->step(t[k], &batch, &r)) return 1;
                double took = now() - begin;
                if (i > 1 && (least[k] == 0 || took < least[k])) least[k] = took;
            }
    printf("%.1f %.1f\n", least[0], least[1]);
    for (int k = 0; k < 2; k++) s->destroy(t[k]);
    return 0;
}
