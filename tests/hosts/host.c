/* A host in C: opens a step.so made of samples/cookbook/model.json, sets parameters, feeds batches, trains, reads loss
 * and parameters back, saves and loads, and asks for what must be refused. host STEP.SO SCRATCH-FILE */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepc/step.h"

#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), exit(1)))

static const int64_t x_shape[] = {32, 2}, y_shape[] = {32, 8}, kernel_shape[] = {2, 8};

static struct step_array array(const char *name, int32_t rank, const int64_t *shape, float *data)
{
    struct step_array a = {
        .size = sizeof a, .name = name, .data = data, .dtype = STEP_F32, .rank = rank, .shape = shape};
    return a;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!so) return fprintf(stderr, "%s\n", dlerror()), 1;
    step_query_fn *query;
    *(void **)&query = dlsym(so, "step_query");
    CHECK(query && !query(STEP_ABI_MAJOR + 1, 0) && !query(STEP_ABI_MAJOR, STEP_ABI_MINOR + 1));
    const struct step_api *s = query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
    struct step_options options = {.size = sizeof options};
    struct step_instance *t = NULL;
    CHECK(s && strstr(s->describe(), "layers.0.kernel"));
    CHECK(s->create(&options, &t) == STEP_OK);

    float x[32 * 2], y[32 * 8], kernel[2 * 8], again[2 * 8], average[2 * 8];
    for (int i = 0; i < 64; i++) x[i] = sinf((float)i);
    for (int i = 0; i < 256; i++) y[i] = cosf((float)i);
    struct step_array in[] = {array("x", 2, x_shape, x), array("y", 2, y_shape, y)};
    struct step_array w = array("layers.0.kernel", 2, kernel_shape, kernel),
                      w_again = array("layers.0.kernel", 2, kernel_shape, again);
    struct step_array e = array("ema.layers.0.kernel", 2, kernel_shape, average);
    struct step_batch batch = {.size = sizeof batch, .inputs = in, .input_count = 2};
    struct step_result r = {.size = sizeof r};

    CHECK(s->step(t, &batch, &r) == STEP_EINVAL); /* nothing is initialised yet */
    CHECK(s->init(t) == STEP_OK);
    CHECK(s->read(t, &w) == STEP_OK && s->read(t, &e) == STEP_OK && memcmp(kernel, average, sizeof kernel) == 0);
    for (int i = 0; i < 16; i++) kernel[i] = 0.1f * (float)(i - 8);
    CHECK(s->write(t, &w) == STEP_OK && s->read(t, &w_again) == STEP_OK && memcmp(kernel, again, sizeof kernel) == 0);

    CHECK(s->step(t, &batch, &r) == STEP_OK && r.step == 1);
    double first = r.loss;
    for (int i = 0; i < 200; i++) CHECK(s->step(t, &batch, &r) == STEP_OK);
    CHECK(r.step == 201 && r.loss < first && isfinite(r.loss));

    /* Outputs and loss without an update; the labels are not needed for outputs. */
    static float out[32 * 8];
    struct step_array y_out = array("model", 2, y_shape, out), missing = array("modle", 2, y_shape, out);
    struct step_batch only_x = {.size = sizeof only_x, .inputs = in, .input_count = 1},
                      only_y = {.size = sizeof only_y, .inputs = in + 1, .input_count = 1};
    struct step_result evaluated = {.size = sizeof evaluated};
    double squares = 0;
    CHECK(s->read(t, &w) == STEP_OK && s->infer(t, &only_x, "params", &y_out, 1) == STEP_OK &&
          s->eval(t, &batch, "params", &evaluated) == STEP_OK);
    for (int i = 0; i < 256; i++) squares += (out[i] - y[i]) * (out[i] - y[i]);
    CHECK(fabs(evaluated.loss - squares / 256) < 1e-5 * evaluated.loss);
    CHECK(s->read(t, &w_again) == STEP_OK && memcmp(kernel, again, sizeof kernel) == 0);
    CHECK(s->infer(t, &only_y, "params", &y_out, 1) == STEP_ENOTFOUND &&
          s->infer(t, &only_x, "params", &missing, 1) == STEP_ENOTFOUND);
    CHECK(s->infer(t, &only_x, "nothing", &y_out, 1) == STEP_ENOTFOUND &&
          s->infer(t, &only_x, "ema", &y_out, 1) == STEP_OK);

    /* Slots of the optimizer by name, and the learning rate, which is one of the state as well. */
    float mu[2 * 8], other[2 * 8];
    struct step_array m = array("opt_state.0.mu.layers.0.kernel", 2, kernel_shape, mu),
                      m_again = array("opt_state.0.mu.layers.0.kernel", 2, kernel_shape, other);
    int32_t count = 0;
    double rate = 0, stored = 0;
    struct step_array counter = {
        .size = sizeof counter, .name = "opt_state.0.count", .data = &count, .dtype = STEP_I32};
    struct step_array number = {
        .size = sizeof number, .name = "hyperparameters.learning_rate", .data = &stored, .dtype = STEP_F64};
    struct step_tensor about = {.size = sizeof about};
    CHECK(s->tensor_find(t, m.name, &about) == STEP_OK && about.role == STEP_OPT_STATE &&
          about.bytes_global == sizeof mu);
    CHECK(s->read(t, &counter) == STEP_OK && count == 201);
    CHECK(s->read(t, &m) == STEP_OK);
    for (int i = 0; i < 16; i++) mu[i] += 1;
    CHECK(s->write(t, &m) == STEP_OK && s->read(t, &m_again) == STEP_OK && memcmp(mu, other, sizeof mu) == 0);
    m.dtype = STEP_F64;
    CHECK(s->write(t, &m) == STEP_ESHAPE && strstr(s->last_error(t), "float32[2, 8]"));
    CHECK(s->hyper_count(t) == 1 && s->hyper_get(t, "learning_rate", &rate) == STEP_OK && rate == 1e-3);
    CHECK(s->hyper_set(t, "learning_rate", 0.25) == STEP_OK && s->read(t, &number) == STEP_OK && stored == 0.25);
    stored = 1e-3;
    CHECK(s->write(t, &number) == STEP_OK && s->hyper_get(t, "hyperparameters.learning_rate", &rate) == STEP_OK &&
          rate == 1e-3);
    CHECK(s->hyper_set(t, "learning_rte", 1) == STEP_ENOTFOUND && strstr(s->last_error(t), "learning_rte"));
    struct step_hyper once = {.size = sizeof once, .name = "learning_rate", .value = 0.5};
    batch.hypers = &once, batch.hyper_count = 1;
    CHECK(s->step(t, &batch, &r) == STEP_OK && s->hyper_get(t, "learning_rate", &rate) == STEP_OK && rate == 1e-3);
    batch.hypers = NULL, batch.hyper_count = 0;

    struct step_save save = {.size = sizeof save, .directory = argv[2]};
    struct step_load load = {.size = sizeof load, .path = argv[2]};
    struct step_result next = {.size = sizeof next};
    CHECK(s->save(t, &save, NULL) == STEP_OK);
    CHECK(s->step(t, &batch, &r) == STEP_OK);
    CHECK(s->load(t, &load) == STEP_OK);
    CHECK(s->step(t, &batch, &next) == STEP_OK && next.loss == r.loss && next.step == r.step);

    in[0].name = "z";
    CHECK(s->step(t, &batch, &r) == STEP_ENOTFOUND && strstr(s->last_error(t), "z"));
    in[0].name = "x", in[0].shape = y_shape;
    CHECK(s->step(t, &batch, &r) == STEP_ESHAPE && strstr(s->last_error(t), "x"));
    in[0].shape = x_shape, in[0].dtype = STEP_F64;
    CHECK(s->step(t, &batch, &r) == STEP_ESHAPE);
    in[0].dtype = STEP_F32, batch.input_count = 1;
    CHECK(s->step(t, &batch, &r) != STEP_OK);
    w.name = "layers.7.kernel";
    CHECK(s->read(t, &w) == STEP_ENOTFOUND);
    load.path = "/nonexistent/state.safetensors";
    CHECK(s->load(t, &load) == STEP_EIO);
    s->destroy(t);
    puts("C host: all checks passed");
    return 0;
}
