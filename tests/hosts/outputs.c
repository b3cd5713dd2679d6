/* Evaluation and inference from C, on a step.so made of outputs.json: several outputs of several dtypes, weights by
 * name, a file of parameters alone; then everything that may be wrong with a call, each refused with a status and a
 * text that names it. outputs STEP.SO SCRATCH-FILE */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepc/step.h"
#include "stepc/step_open.h"

#define CHECK(x) \
    ((x) ? (void)0 \
         : (fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, s && t ? s->last_error(t) : ""), exit(1)))

static const struct step_api *s;
static struct step_instance *t;
static const int64_t tokens_shape[] = {4, 3}, x_shape[] = {4, 2}, rows_shape[] = {4}, half_shape[] = {4, 6},
                     longer[] = {4, 3, 1}, negative[] = {-4, 3};
static int32_t tokens[12] = {0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4}, class_of[4];
static float x[8] = {1, 2, 3, 4, -1, -2, -3, -4}, y[4] = {1, 0, -1, 2}, score[4];
static uint16_t half[24];

static struct step_array array(const char *name, uint32_t dtype, int32_t rank, const int64_t *shape, void *data)
{
    struct step_array a = {.size = sizeof a, .name = name, .data = data, .dtype = dtype, .rank = rank, .shape = shape};
    return a;
}

/* A call of infer is refused with that status, and the text has that word. */
static void refused(step_status want, const char *word, const struct step_array *in, size_t inputs,
                    const struct step_array *out, size_t outputs)
{
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = inputs};
    step_status got = s->infer(t, &batch, NULL, out, outputs);
    if (got == want && strstr(s->last_error(t), word)) return;
    fprintf(stderr, "expected %s and \"%s\", found %s: %s\n", s->status_name(want), word, s->status_name(got),
            s->last_error(t));
    exit(1);
}

static void wrong_inputs(const struct step_array *good, const struct step_array *out)
{
    struct step_array in[3];
    const struct {
        step_status status;
        const char *word;
        int field;
    } cases[] = {{STEP_ESHAPE, "expected int32[4, 3], found int32[4, 3, 1]", 0},
                 {STEP_ESHAPE, "int32[4, 3]", 1},
                 {STEP_ESHAPE, "found float32", 2},
                 {STEP_ENOTFOUND, "\"tokns\"", 3},
                 {STEP_EINVAL, "name", 4},
                 {STEP_EINVAL, "data is NULL", 5},
                 {STEP_EINVAL, "size field", 6},
                 {STEP_ESHAPE, "without a shape", 7},
                 {STEP_ESHAPE, "rank beyond 8", 8},
                 {STEP_EUNSUPPORTED, "device type 2", 9},
                 {STEP_ESHAPE, "int32[4, 3]", 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(in, good, sizeof in);
        switch (cases[i].field) {
        case 0: in[0].rank = 3, in[0].shape = longer; break;
        case 1: in[0].shape = x_shape; break;
        case 2: in[0].dtype = STEP_F32; break;
        case 3: in[0].name = "tokns"; break;
        case 4: in[0].name = NULL; break;
        case 5: in[0].data = NULL; break;
        case 6: in[0].size = 3; break;
        case 7: in[0].shape = NULL; break;
        case 8: in[0].rank = 100; break;
        case 9: in[0].device_type = 2; break;
        default: in[0].shape = negative; break;
        }
        refused(cases[i].status, cases[i].word, in, 2, out, 3);
    }
    memcpy(in, good, sizeof in);
    in[1] = in[0];
    refused(STEP_EINVAL, "twice", in, 2, out, 3);
    refused(STEP_ENOTFOUND, "\"x\" is missing; expected float32[4, 2]", good, 1, out, 3);
    refused(STEP_EINVAL, "inputs is NULL", NULL, 2, out, 3);
    tokens[5] = 7;
    refused(STEP_ERANGE, "tokens", good, 2, out, 3);
    tokens[5] = -1;
    refused(STEP_ERANGE, "tokens", good, 2, out, 3);
    tokens[5] = 5;
}

static void wrong_outputs(const struct step_array *in, const struct step_array *good)
{
    struct step_array out[3];
    const struct {
        step_status status;
        const char *word;
        int field;
    } cases[] = {{STEP_ESHAPE, "expected bfloat16[4, 6], found bfloat16[4, 2]", 0},
                 {STEP_ESHAPE, "found float32[4, 6]", 1},
                 {STEP_ENOTFOUND, "\"model\"", 2},
                 {STEP_EINVAL, "no name", 3},
                 {STEP_EINVAL, "data is NULL", 4},
                 {STEP_ENOTFOUND, "\"rows\"", 5},
                 {STEP_ENOTFOUND, "\"head.kernel\"", 6}};
    memset(score, 0, sizeof score);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(out, good, sizeof out);
        switch (cases[i].field) {
        case 0: out[2].shape = x_shape; break; /* a buffer that is too small */
        case 1: out[2].dtype = STEP_F32; break;
        case 2: out[2].name = "model"; break;
        case 3: out[2].name = NULL; break;
        case 4: out[2].data = NULL; break;
        case 5: out[2].name = "rows"; break; /* a metric that only steps and evaluations compute */
        default: out[2].name = "head.kernel"; break;
        }
        refused(cases[i].status, cases[i].word, in, 2, out, 3);
    }
    refused(STEP_EINVAL, "outputs is NULL", in, 2, NULL, 3);
    for (int i = 0; i < 4; i++) CHECK(score[i] == 0); /* nothing was written before all was checked */
}

/* Outputs that write over each other are refused before any of them is written; those that lie between each other are
 * not, nor is one that an input has been read from. */
static void overlapping_outputs(const struct step_array *in, const struct step_array *good)
{
    union {
        float f[64];
        int32_t i[64];
        uint16_t h[128];
    } room, copy;
    static const int64_t every_other[] = {2}, back[] = {-2}, wide[] = {14, 2}, tight[] = {13, 2};
    float kept[8];
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 2};
    const struct {
        float *score;
        int32_t *class_of;
        uint16_t *half;
        const int64_t *score_strides, *class_strides, *half_strides;
        const char *pair;
    } cases[] = {
        {room.f, room.i + 4, room.h + 16, NULL, NULL, NULL, NULL},
        {room.f, room.i + 1, room.h + 16, every_other, every_other, NULL, NULL},
        {room.f + 6, room.i + 1, room.h + 16, back, every_other, NULL, NULL},
        {room.f + 6, room.i + 7, room.h + 16, back, back, NULL, NULL},
        {room.f + 60, room.i, room.h + 8, NULL, NULL, wide, NULL},
        {room.f + 10, room.i, room.h + 8, NULL, NULL, wide, "\"model.score\" and \"model.half\""},
        {room.f, room.i, room.h + 16, NULL, NULL, NULL, "\"model.score\" and \"model.class\""},
        {room.f, room.i + 3, room.h + 16, NULL, NULL, NULL, "\"model.score\" and \"model.class\""},
        {room.f + 3, room.i, room.h + 16, NULL, NULL, NULL, "\"model.score\" and \"model.class\""},
        {room.f, room.i + 2, room.h + 20, every_other, every_other, NULL, "\"model.score\" and \"model.class\""},
        {room.f + 6, room.i + 4, room.h + 22, back, every_other, NULL, "\"model.score\" and \"model.class\""},
        {room.f + 40, room.i, room.h + 7, NULL, NULL, NULL, "\"model.class\" and \"model.half\""},
        {room.f + 40, room.i + 8, room.h, NULL, NULL, tight, "\"model.class\" and \"model.half\""}};
    CHECK(s->infer(t, &batch, NULL, good, 3) == STEP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step_array out[3];
        memcpy(out, good, sizeof out);
        memset(&room, 77, sizeof room);
        out[0].data = cases[i].score, out[0].strides = cases[i].score_strides;
        out[1].data = cases[i].class_of, out[1].strides = cases[i].class_strides;
        out[2].data = cases[i].half, out[2].strides = cases[i].half_strides;
        if (cases[i].pair) {
            refused(STEP_EINVAL, cases[i].pair, in, 2, out, 3);
            memset(&copy, 77, sizeof copy);
            CHECK(memcmp(&room, &copy, sizeof room) == 0);
            continue;
        }
        CHECK(s->infer(t, &batch, NULL, out, 3) == STEP_OK);
        for (int k = 0; k < 4; k++) {
            CHECK(cases[i].score[k * (out[0].strides ? out[0].strides[0] : 1)] == score[k]);
            CHECK(cases[i].class_of[k * (out[1].strides ? out[1].strides[0] : 1)] == class_of[k]);
        }
        for (int k = 0; k < 24; k++)
            CHECK(cases[i].half[out[2].strides ? k / 6 * out[2].strides[0] + k % 6 * out[2].strides[1] : k] == half[k]);
    }
    memcpy(kept, x, sizeof kept);
    struct step_array over = good[0];
    over.data = x;
    CHECK(s->infer(t, &batch, NULL, &over, 1) == STEP_OK && memcmp(x, score, sizeof score) == 0);
    memcpy(x, kept, sizeof kept);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    char why[512];
    if (step_open(argv[1], &s, why, sizeof why) != STEP_OK) return fprintf(stderr, "%s\n", why), 1;
    CHECK(step_open(argv[0], &s, why, sizeof why) == STEP_ECORRUPT);
    CHECK(step_open("/no/such/file", &s, why, sizeof why) == STEP_EIO && strstr(why, "No such file"));
    CHECK(step_open(argv[1], &s, why, sizeof why) == STEP_OK);
    struct step_options options = {.size = sizeof options};
    CHECK(s->create(&options, &t) == STEP_OK);
    struct step_array in[] = {array("tokens", STEP_I32, 2, tokens_shape, tokens), array("x", STEP_F32, 2, x_shape, x),
                              array("y", STEP_F32, 1, rows_shape, y)};
    struct step_array out[] = {array("model.score", STEP_F32, 1, rows_shape, score),
                               array("model.class", STEP_I32, 1, rows_shape, class_of),
                               array("model.half", STEP_BF16, 2, half_shape, half)};
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 3},
                      two = {.size = sizeof two, .inputs = in, .input_count = 2};
    double numbers[3] = {0};
    struct step_result r = {.size = sizeof r, .metrics = numbers, .metric_capacity = 3},
                       small = {.size = sizeof small, .metrics = numbers, .metric_capacity = 1};

    refused(STEP_EINVAL, "init or load first", in, 2, out, 3);
    CHECK(s->eval(t, &batch, NULL, &r) == STEP_EINVAL && s->init(t) == STEP_OK);
    for (int i = 0; i < 3; i++) CHECK(s->step(t, &batch, &r) == STEP_OK);
    CHECK(r.metric_count == 3 && numbers[2] > 0); /* loss, error, grads */

    /* Evaluation twice is the same, and what infer gives is what it saw; metrics of a step alone are no numbers there.
     */
    double loss, sum = 0, error = 0;
    CHECK(s->eval(t, &batch, NULL, &r) == STEP_OK);
    loss = r.loss;
    CHECK(s->eval(t, &batch, "params", &r) == STEP_OK && r.loss == loss && r.step == 3 && numbers[0] == loss &&
          isnan(numbers[2]));
    CHECK(s->infer(t, &two, NULL, out, 3) == STEP_OK && s->infer(t, &batch, NULL, out + 1, 1) == STEP_OK &&
          s->infer(t, &two, NULL, NULL, 0) == STEP_OK);
    for (int i = 0; i < 4; i++) sum += (score[i] - y[i]) * (score[i] - y[i]) / 4, error += fabs(score[i] - y[i]) / 4;
    CHECK(fabs(sum - loss) < 1e-5 && fabs(error - numbers[1]) < 1e-5);
    numbers[1] = -1;
    CHECK(s->eval(t, &batch, NULL, &small) == STEP_OK && small.metric_count == 3 &&
          numbers[1] == -1); /* no more than there is room for */
    for (int i = 0; i < 4; i++) CHECK(class_of[i] >= 0 && class_of[i] < 3);
    for (int i = 0; i < 24; i++) CHECK(half[i] != 0);
    float rows[4];
    struct step_array rows_array = array("rows", STEP_F32, 1, rows_shape, rows);
    CHECK(s->eval(t, &batch, NULL, &r) == STEP_OK && s->read(t, &rows_array) == STEP_OK);
    for (int i = 0; i < 4; i++) CHECK(fabs(rows[i] - fabsf(score[i] - y[i])) < 1e-6f);
    CHECK(s->eval(t, &batch, "ema", &r) == STEP_OK && r.loss != loss);
    CHECK(s->infer(t, &two, "slow", out, 3) == STEP_ENOTFOUND && strstr(s->last_error(t), "slow") &&
          s->eval(t, &batch, "", &r) == STEP_ENOTFOUND);

    wrong_inputs(in, out);
    wrong_outputs(in, out);
    overlapping_outputs(in, out);
    struct step_batch no_size = two;
    no_size.size = 1;
    CHECK(s->infer(t, &no_size, NULL, out, 3) == STEP_EINVAL && s->infer(t, NULL, NULL, out, 3) == STEP_EINVAL &&
          s->infer(NULL, &two, NULL, out, 3) == STEP_EINVAL);
    CHECK(s->eval(t, NULL, NULL, &r) == STEP_EINVAL && s->eval(NULL, &batch, NULL, &r) == STEP_EINVAL &&
          s->eval(t, &two, NULL, &r) == STEP_ENOTFOUND);
    CHECK(s->eval(t, &batch, NULL, NULL) == STEP_OK);
    r.size = 4;
    CHECK(s->eval(t, &batch, NULL, &r) == STEP_EINVAL);
    r.size = sizeof r;

    /* A file of all state; of it what has the role of a parameter; a file that lacks a tensor. */
    struct step_save save = {.size = sizeof save, .directory = argv[2]};
    struct step_load load = {.size = sizeof load, .path = argv[2], .flags = STEP_LOAD_PARAMS_ONLY};
    CHECK(s->save(t, &save, NULL) == STEP_OK);
    CHECK(s->eval(t, &batch, NULL, &r) == STEP_OK && r.loss == loss); /* and none of this changed anything */
    s->destroy(t);
    CHECK(s->create(&options, &t) == STEP_OK && s->init(t) == STEP_OK && s->load(t, &load) == STEP_OK);
    CHECK(s->eval(t, &batch, NULL, &r) == STEP_OK && r.step == 0 &&
          r.loss != loss); /* running statistics are those of init */
    load.flags = 0;
    CHECK(s->load(t, &load) == STEP_OK && s->eval(t, &batch, NULL, &r) == STEP_OK && r.step == 3 && r.loss == loss);
    s->destroy(t);
    puts("C host, evaluation and inference: all checks passed");
    return 0;
}
