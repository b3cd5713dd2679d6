/* Trains samples/digits/model.json from C: opens the compiled step, feeds shuffled batches of the training images,
 * shows progress, and measures the accuracy on every fifth digit, which it never trains on.
 *
 *   train step.so digits.csv [steps]
 *
 * Needs the headers stepc/step.h and stepc/step_open.h, and libdl: no compiler, no framework. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stepc/step.h"
#include "stepc/step_open.h"

enum { PIXELS = 64, CLASSES = 10, BATCH = 64, MOST_DIGITS = 4096, STEPS = 2000 };

struct digits {
    int count;
    float image[MOST_DIGITS][PIXELS];
    int32_t digit[MOST_DIGITS];
};

/* One image per line: 64 pixels of 0..16, then the digit. Every fifth one goes to `test`. */
static int read_digits(const char *path, struct digits *train, struct digits *test)
{
    FILE *file = fopen(path, "r");
    if (!file) return perror(path), 0;
    char line[1024];
    for (int row = 0; fgets(line, sizeof line, file); row++) {
        struct digits *to = row % 5 == 4 ? test : train;
        char *at = line;
        if (to->count == MOST_DIGITS) break;
        for (int i = 0; i < PIXELS; i++) {
            to->image[to->count][i] = (float)strtol(at, &at, 10) / 16.0f;
            if (*at++ != ',') return fprintf(stderr, "%s: line %d is not 65 numbers\n", path, row + 1), 0;
        }
        to->digit[to->count++] = (int32_t)strtol(at, NULL, 10);
    }
    fclose(file);
    return train->count >= BATCH && test->count > 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t random_next(uint64_t *state)
{ /* xorshift64*: Vigna 2016 */
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

static const int64_t image_shape[] = {BATCH, PIXELS}, digit_shape[] = {BATCH}, logit_shape[] = {BATCH, CLASSES};

static struct step_array array(const char *name, uint32_t dtype, int32_t rank, const int64_t *shape, void *data)
{
    struct step_array a = {.size = sizeof a, .name = name, .data = data, .dtype = dtype, .rank = rank, .shape = shape};
    return a;
}

static void shuffle(int *order, int count, uint64_t *seed)
{ /* Fisher-Yates */
    for (int i = count - 1; i > 0; i--) {
        int other = (int)(random_next(seed) % (uint64_t)(i + 1)), keep = order[i];
        order[i] = order[other], order[other] = keep;
    }
}

/* Runs `steps` steps on batches of an order that is shuffled anew for every epoch. */
static step_status train_on(const struct step_api *s, struct step_instance *t, struct digits *d, int steps)
{
    static float image[BATCH][PIXELS];
    static int32_t digit[BATCH];
    static int order[MOST_DIGITS];
    struct step_array in[] = {array("image", STEP_F32, 2, image_shape, image),
                              array("digit", STEP_I32, 1, digit_shape, digit)};
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 2};
    uint64_t seed = 42;
    int next = d->count;
    for (int i = 0; i < d->count; i++) order[i] = i;
    double start = now(), shown = start;
    for (int step = 1; step <= steps; step++) {
        for (int row = 0; row < BATCH; row++, next++) {
            if (next >= d->count) shuffle(order, d->count, &seed), next = 0;
            memcpy(image[row], d->image[order[next]], sizeof image[row]);
            digit[row] = d->digit[order[next]];
        }
        double accuracy = 0;
        struct step_result r = {.size = sizeof r, .metrics = &accuracy, .metric_capacity = 1};
        step_status status = s->step(t, &batch, &r);
        if (status != STEP_OK) return status;
        double time = now();
        if (step == 1 || step == steps || step % (steps >= 10 ? steps / 10 : 1) == 0 || time - shown > 1) {
            double rate = step / (time - start);
            printf("step %5d/%d  loss %.4f  %7.0f steps/s  ETA %.1f s\n", step, steps, r.loss, rate,
                   (steps - step) / rate);
            fflush(stdout);
            shown = time;
        }
    }
    printf("trained %d steps in %.2f s\n", steps, now() - start);
    return STEP_OK;
}

/* The share of `d` that the model names rightly. */
static step_status measure(const struct step_api *s, struct step_instance *t, const struct digits *d, double *accuracy)
{
    static float image[BATCH][PIXELS], logits[BATCH][CLASSES];
    int right = 0;
    for (int first = 0; first < d->count; first += BATCH) {
        int rows = d->count - first < BATCH ? d->count - first : BATCH;
        memset(image, 0, sizeof image);
        memcpy(image, d->image[first], (size_t)rows * sizeof image[0]);
        struct step_array in = array("image", STEP_F32, 2, image_shape, image);
        struct step_array out = array("model", STEP_F32, 2, logit_shape, logits);
        struct step_batch batch = {.size = sizeof batch, .inputs = &in, .input_count = 1};
        step_status status = s->infer(t, &batch, "params", &out, 1);
        if (status != STEP_OK) return status;
        for (int row = 0; row < rows; row++) {
            int best = 0;
            for (int c = 1; c < CLASSES; c++)
                if (logits[row][c] > logits[row][best]) best = c;
            right += best == d->digit[first + row];
        }
    }
    *accuracy = (double)right / d->count;
    return STEP_OK;
}

int main(int argc, char **argv)
{
    static struct digits train, test;
    if (argc < 3) return fprintf(stderr, "usage: %s step.so digits.csv [steps]\n", argv[0]), 2;
    if (!read_digits(argv[2], &train, &test)) return 1;
    char error[512];
    const struct step_api *s;
    if (step_open(argv[1], &s, error, sizeof error) != STEP_OK) return fprintf(stderr, "%s\n", error), 3;
    struct step_options options = {.size = sizeof options};
    struct step_instance *t = NULL;
    if (s->create(&options, &t) != STEP_OK) return fprintf(stderr, "%s\n", s->last_error(NULL)), 3;

    printf("%d digits to train on, %d to test\n", train.count, test.count);
    double accuracy = 0;
    step_status status = s->init(t);
    if (status == STEP_OK) status = train_on(s, t, &train, argc > 3 ? atoi(argv[3]) : STEPS);
    if (status == STEP_OK) status = measure(s, t, &test, &accuracy);
    if (status == STEP_OK) printf("accuracy on the %d digits not trained on: %.1f %%\n", test.count, 100 * accuracy);
    else fprintf(stderr, "%s: %s\n", s->status_name(status), s->last_error(t));
    s->destroy(t);
    return status == STEP_OK ? 0 : 1;
}
