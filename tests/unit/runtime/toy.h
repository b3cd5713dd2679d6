/* A step written by hand in the tables that the compiler would write: linear regression with an embedded offset,
 * momentum SGD, an average, a running statistic, a step counter, over 1, 2 or 4 devices that split the 8 rows.
 *
 *   r = x w + b + e[label] - y;  loss = mean(r^2);  m = 0.9 m + g;  w -= lr m;  ema.w = 0.9 ema.w + 0.1 w
 *
 * eval runs a loop over the gathered rows, so that loops and all_gather are exercised too.
 *
 * With TOY_FAR=1 in the environment every toy runs on devices whose memory the host cannot read (rows.h). */
#ifndef TEST_TOY_H
#define TEST_TOY_H
#include "runtime/rt.h"
#include "tests/unit/runtime/rows.h"
#include <math.h>
#include <stepc/step_tools.h>
#include <string.h>

enum { TOY_ROWS = 8, TOY_DIM = 3, TOY_LABELS = 5, TOY_GRADS = 10 };
enum {
    S_X,
    S_Y,
    S_LABEL,
    S_W,
    S_B,
    S_E,
    S_EMA,
    S_EVAL,
    S_M,
    S_STAT,
    S_STEP,
    S_LOSS,
    S_NORM,
    S_ERR,
    S_MODEL,
    S_LR,
    TOY_SLOTS
};
enum {
    B_X,
    B_Y,
    B_LABEL,
    B_W,
    B_B,
    B_E,
    B_EMA,
    B_EVAL,
    B_M,
    B_STAT,
    B_STEP,
    B_LOSS,
    B_NORM,
    B_ERR,
    B_MODEL,
    B_LR,
    B_R,
    B_G,
    B_SUM,
    B_ERRS,
    B_COUNTER,
    B_LIMIT,
    B_FLAG,
    B_ACC,
    B_ROWS,
    TOY_BUFFERS
};
enum { TOY_STATE = 640, TOY_RESULT = 512, TOY_ARENA = 1024 };

struct toy {
    struct stepc_slot slots[TOY_SLOTS];
    struct stepc_buffer buffers[TOY_BUFFERS], step_buffers[TOY_BUFFERS];
    struct stepc_command step[4], eval[7], init[1], infer[1], derive[1];
    struct stepc_entry entries[5];
    int64_t axis[1];
    int64_t local_x[2], local_row[1];
    uint32_t axes_x[2], axes_row[1];
    int32_t constants[16];
    struct stepc_program program;
    struct stepc_mesh mesh;
};

static inline bool toy_far(void) { return getenv("TOY_FAR") != NULL; }

/* ---------------------------------------------------------------- kernels */

/* Set by tests: called by every device's backward kernel, and by its forward one. */
static void (*toy_hook)(const float *r), (*toy_forward_hook)(const float *r);

static inline void toy_forward(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    const float *x = b[0], *w = b[1], *bias = b[2], *e = b[3];
    const int32_t *label = b[4];
    float *out = b[5];
    (void)scratch;
    if (toy_forward_hook) toy_forward_hook(out);
    for (int64_t i = lo; i < hi; i++) {
        float sum = bias[0] + e[label[i]];
        for (int k = 0; k < TOY_DIM; k++) sum += x[i * TOY_DIM + k] * w[k];
        out[i] = sum;
    }
}

static inline void toy_residual(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    const float *model = b[0], *y = b[1];
    float *r = b[2], *err = b[3];
    (void)scratch;
    for (int64_t i = lo; i < hi; i++) {
        r[i] = model[i] - y[i];
        err[i] = r[i] * r[i];
    }
}

static inline void toy_rows(void *const *b, int64_t lo, int64_t hi, void *scratch)
{ /* forward and residual of the step */
    toy_forward(b, lo, hi, scratch);
    void *rest[] = {b[5], b[6], b[7], b[8]};
    toy_residual(rest, lo, hi, scratch);
}

static inline void toy_backward(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    const float *r = b[0], *x = b[1];
    const int32_t *label = b[2], *rows = b[3];
    float *g = b[4];
    (void)lo, (void)hi, (void)scratch;
    if (toy_hook) toy_hook(r);
    for (int k = 0; k < TOY_GRADS; k++) g[k] = 0;
    for (int i = 0; i < rows[0]; i++) {
        float d = 2 * r[i] / TOY_ROWS;
        for (int k = 0; k < TOY_DIM; k++) g[k] += d * x[i * TOY_DIM + k];
        g[3] += d;
        g[4 + label[i]] += d;
        g[9] += r[i] * r[i] / TOY_ROWS;
    }
}

static inline void toy_update(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    const float *g = b[0], *lr = b[1];
    float *w = b[2], *bias = b[3], *e = b[4], *m = b[5], *ema = b[6], *stat = b[7], *loss = b[8], *norm = b[9],
          square = 0;
    int32_t *step = b[10];
    (void)lo, (void)hi;
    *(uint32_t *)(void *)((char *)scratch - STEPC_FLAG_BEFORE) = 1; /* the runtime looks itself */
    for (int k = 0; k < TOY_DIM; k++) {
        m[k] = 0.9f * m[k] + g[k];
        w[k] -= lr[0] * m[k];
        ema[k] = 0.9f * ema[k] + 0.1f * w[k];
    }
    bias[0] -= lr[0] * g[3];
    for (int k = 0; k < TOY_LABELS; k++) e[k] -= lr[0] * g[4 + k];
    for (int k = 0; k < 9; k++) square += g[k] * g[k];
    norm[0] = sqrtf(square);
    loss[0] = g[9];
    stat[0] = 0.5f * stat[0] + 0.5f * g[9];
    step[0]++;
}

static inline void toy_copy_grads(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    (void)lo, (void)hi, (void)scratch;
    memcpy(b[1], b[0], TOY_GRADS * sizeof(float));
}

static inline void toy_copy_errs(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    (void)lo, (void)hi, (void)scratch;
    memcpy(b[1], b[0], TOY_ROWS * sizeof(float));
}

static inline void toy_zero(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    (void)lo, (void)hi, (void)scratch;
    *(float *)b[0] = 0;
    *(uint8_t *)b[1] = 1;
}

static inline void toy_add_row(void *const *b, int64_t lo, int64_t hi, void *scratch)
{ /* acc += errs[i]; the flag ends the loop after row 5 */
    int32_t i = *(const int32_t *)b[1];
    (void)lo, (void)hi, (void)scratch;
    *(float *)b[0] += ((const float *)b[2])[i] / TOY_ROWS;
    *(uint8_t *)b[3] = i < 5;
}

static inline void toy_finish(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    (void)lo, (void)hi, (void)scratch;
    *(float *)b[1] = *(const float *)b[0];
}

static inline void toy_init(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    float *w = b[0], *bias = b[1], *e = b[2], *m = b[3], *ema = b[4], *stat = b[5];
    (void)lo, (void)hi, (void)scratch;
    for (int k = 0; k < TOY_DIM; k++) w[k] = ema[k] = 0.1f * (float)(k + 1), m[k] = 0;
    for (int k = 0; k < TOY_LABELS; k++) e[k] = 0.01f * (float)k;
    bias[0] = stat[0] = 0;
    *(int32_t *)b[6] = 0;
}

static inline void toy_derive(void *const *b, int64_t lo, int64_t hi, void *scratch)
{
    (void)lo, (void)hi, (void)scratch;
    for (int k = 0; k < TOY_DIM; k++) ((float *)b[1])[k] = 2 * ((const float *)b[0])[k];
}

/* The whole step in one function, over all buffers of the entry. */
static inline void toy_whole(void *const *b, void *scratch)
{
    void *rows[] = {b[B_X], b[B_W], b[B_B], b[B_E], b[B_LABEL], b[B_MODEL], b[B_Y], b[B_R], b[B_ERR]};
    void *backward[] = {b[B_R], b[B_X], b[B_LABEL], b[B_ROWS], b[B_G]};
    void *update[] = {b[B_G],   b[B_LR],   b[B_W],    b[B_B],    b[B_E],   b[B_M],
                      b[B_EMA], b[B_STAT], b[B_LOSS], b[B_NORM], b[B_STEP]};
    toy_rows(rows, 0, TOY_ROWS, scratch);
    toy_backward(backward, 0, 1, scratch);
    toy_update(update, 0, 1, scratch);
}

static inline void toy_init_whole(void *const *b, void *scratch)
{
    void *init[] = {b[B_W], b[B_B], b[B_E], b[B_M], b[B_EMA], b[B_STAT], b[B_STEP]};
    toy_init(init, 0, 1, scratch);
}

/* ---------------------------------------------------------------- tables */

static const uint32_t toy_rows_args[] = {B_X, B_W, B_B, B_E, B_LABEL, B_MODEL, B_Y, B_R, B_ERR};
static const uint32_t toy_backward_args[] = {B_R, B_X, B_LABEL, B_ROWS, B_G};
static const uint32_t toy_reduce_args[] = {B_G, B_SUM};
static const uint32_t toy_update_args[] = {B_SUM, B_LR, B_W, B_B, B_E, B_M, B_EMA, B_STAT, B_LOSS, B_NORM, B_STEP};
static const uint32_t toy_gather_args[] = {B_ERR, B_ERRS};
static const uint32_t toy_zero_args[] = {B_ACC, B_FLAG};
static const uint32_t toy_row_args[] = {B_ACC, B_COUNTER, B_ERRS, B_FLAG};
static const uint32_t toy_finish_args[] = {B_ACC, B_LOSS};
static const uint32_t toy_init_args[] = {B_W, B_B, B_E, B_M, B_EMA, B_STAT, B_STEP};
static const uint32_t toy_derive_args[] = {B_W, B_EVAL};
static const char *const toy_axis_names[] = {"data"};
static const int64_t toy_shape_x[] = {TOY_ROWS, TOY_DIM}, toy_shape_row[] = {TOY_ROWS}, toy_shape_w[] = {TOY_DIM},
                     toy_shape_e[] = {TOY_LABELS};

#define TOY_ARGS(a) .buffers = a, .buffer_count = sizeof(a) / sizeof *(a)

static inline struct stepc_command toy_kernel(stepc_kernel_fn *kernel, const uint32_t *args, uint32_t n, int64_t extent,
                                              bool big)
{
    return (struct stepc_command){.kind = STEPC_KERNEL,
                                  .barrier = 1,
                                  .buffers = args,
                                  .buffer_count = n,
                                  .kernel = kernel,
                                  .extent = extent,
                                  .grain = 1,
                                  .work = big ? 1e7 : 10,
                                  .flag = UINT32_MAX};
}
#define TOY_KERNEL(kernel, args, extent, big) toy_kernel(kernel, args, sizeof(args) / sizeof *(args), extent, big)

static inline struct stepc_command toy_collective(uint8_t kind, const uint32_t *args, uint64_t count, const char *place)
{
    return (struct stepc_command){.kind = STEPC_COLLECTIVE,
                                  .barrier = 1,
                                  .collective = kind,
                                  .reduction = STEPC_SUM,
                                  .dtype = STEP_F32,
                                  .buffers = args,
                                  .buffer_count = 2,
                                  .axes = 1,
                                  .count = count,
                                  .inner = count,
                                  .place = place,
                                  .flag = UINT32_MAX};
}

static inline void toy_slots(struct toy *t, int64_t devices)
{
    const struct stepc_slot slots[TOY_SLOTS] = {
        [S_X] = {.name = "x",
                 .role = STEP_INPUT,
                 .dtype = STEP_F32,
                 .rank = 2,
                 .shape = toy_shape_x,
                 .local = t->local_x,
                 .axes = t->axes_x,
                 .sharding = "[\"data\", null]",
                 .used_by_infer = 1},
        [S_Y] = {.name = "y",
                 .role = STEP_INPUT,
                 .dtype = STEP_F32,
                 .rank = 1,
                 .shape = toy_shape_row,
                 .local = t->local_row,
                 .axes = t->axes_row},
        [S_LABEL] = {.name = "label",
                     .role = STEP_INPUT,
                     .dtype = STEP_I32,
                     .rank = 1,
                     .shape = toy_shape_row,
                     .local = t->local_row,
                     .axes = t->axes_row,
                     .index_limit = TOY_LABELS,
                     .used_by_infer = 1},
        [S_W] = {.name = "w", .role = STEP_PARAM, .dtype = STEP_F32, .rank = 1, .shape = toy_shape_w, .offset = 0},
        [S_B] = {.name = "b", .role = STEP_PARAM, .dtype = STEP_F32, .rank = 0, .offset = 64},
        [S_E] = {.name = "e", .role = STEP_PARAM, .dtype = STEP_F32, .rank = 1, .shape = toy_shape_e, .offset = 128},
        [S_EMA] =
            {.name = "ema.w", .role = STEP_EMA, .dtype = STEP_F32, .rank = 1, .shape = toy_shape_w, .offset = 192},
        [S_EVAL] = {.name = "eval.w",
                    .role = STEP_EMA,
                    .dtype = STEP_F32,
                    .rank = 1,
                    .shape = toy_shape_w,
                    .offset = 512,
                    .computed = 1},
        [S_M] = {.name = "opt_state.0.trace.w",
                 .role = STEP_OPT_STATE,
                 .dtype = STEP_F32,
                 .rank = 1,
                 .shape = toy_shape_w,
                 .offset = 256},
        [S_STAT] = {.name = "norm.mean", .role = STEP_STATE, .dtype = STEP_F32, .rank = 0, .offset = 320},
        [S_STEP] = {.name = "step", .role = STEP_STATE, .dtype = STEP_I32, .rank = 0, .offset = 384},
        [S_LOSS] = {.name = "loss", .role = STEP_METRIC, .dtype = STEP_F32, .rank = 0, .offset = 0},
        [S_NORM] = {.name = "grad_norm", .role = STEP_METRIC, .dtype = STEP_F32, .rank = 0, .offset = 64},
        [S_ERR] = {.name = "err",
                   .role = STEP_METRIC,
                   .dtype = STEP_F32,
                   .rank = 1,
                   .shape = toy_shape_row,
                   .local = t->local_row,
                   .axes = t->axes_row,
                   .offset = 128},
        [S_MODEL] = {.name = "model",
                     .role = STEP_OUTPUT,
                     .dtype = STEP_F32,
                     .rank = 1,
                     .shape = toy_shape_row,
                     .local = t->local_row,
                     .axes = t->axes_row,
                     .offset = 192},
        [S_LR] = {.name = "hyperparameters.learning_rate",
                  .role = RT_HYPER,
                  .dtype = STEP_F32,
                  .rank = 0,
                  .offset = 448,
                  .initial = 0.1},
    };
    memcpy(t->slots, slots, sizeof slots);
    t->local_x[0] = t->local_row[0] = TOY_ROWS / devices;
    t->local_x[1] = TOY_DIM;
    t->axes_x[0] = t->axes_row[0] = devices > 1 ? 1 : 0;
    for (uint32_t i = 0; i < TOY_SLOTS; i++) {
        const struct stepc_slot *s = &t->slots[i];
        uint32_t space = s->role == STEP_INPUT                              ? STEPC_AT_INPUT
                         : s->role == STEP_METRIC || s->role == STEP_OUTPUT ? STEPC_AT_RESULT
                                                                            : STEPC_AT_STATE;
        t->buffers[i] = (struct stepc_buffer){.space = space, .slot = i, .offset = s->offset, .bytes = 64};
    }
    for (uint32_t i = B_R; i < B_ROWS; i++)
        t->buffers[i] = (struct stepc_buffer){.space = STEPC_AT_ARENA, .offset = 64 * (i - B_R), .bytes = 64};
    t->buffers[B_ROWS] = (struct stepc_buffer){.space = STEPC_AT_CONSTANT, .offset = 0, .bytes = 4};
    t->buffers[B_LIMIT] = (struct stepc_buffer){.space = STEPC_AT_CONSTANT, .offset = 4, .bytes = 4};
    memcpy(t->step_buffers, t->buffers, sizeof t->buffers);
    for (uint32_t i = S_W; i <= S_STEP; i++) { /* the step changes them in place */
        if (i == S_EVAL) continue;
        t->step_buffers[i].space = STEPC_AT_NEXT;
        t->slots[i].bits = STEPC_PACKED_KEPT | (i == S_STEP ? 0 : STEPC_PACKED_WATCHED);
    }
    t->constants[0] = (int32_t)(TOY_ROWS / devices);
    t->constants[1] = TOY_ROWS;
}

/* Fills the tables. big: kernels claim enough work for several workers. whole: the step has its one-function form. */
static inline const struct stepc_program *toy_build(struct toy *t, int64_t devices, bool big, bool whole)
{
    int64_t rows = TOY_ROWS / devices;
    memset(t, 0, sizeof *t);
    toy_slots(t, devices);
    t->step[0] = TOY_KERNEL(toy_rows, toy_rows_args, rows, big);
    t->step[1] = TOY_KERNEL(toy_backward, toy_backward_args, 1, false);
    t->step[2] = devices > 1 ? toy_collective(STEPC_ALL_REDUCE, toy_reduce_args, TOY_GRADS, "/loss: gradients")
                             : TOY_KERNEL(toy_copy_grads, toy_reduce_args, 1, false);
    t->step[3] = TOY_KERNEL(toy_update, toy_update_args, 1, false);
    t->eval[0] = TOY_KERNEL(toy_rows, toy_rows_args, rows, big);
    t->eval[1] = devices > 1 ? toy_collective(STEPC_ALL_GATHER, toy_gather_args, (uint64_t)rows, "/metrics: rows")
                             : TOY_KERNEL(toy_copy_errs, toy_gather_args, 1, false);
    t->eval[2] = TOY_KERNEL(toy_zero, toy_zero_args, 1, false);
    t->eval[3] = (struct stepc_command){
        .kind = STEPC_LOOP_BEGIN, .barrier = 1, .counter = B_COUNTER, .limit = B_LIMIT, .flag = B_FLAG, .other = 5};
    t->eval[4] = TOY_KERNEL(toy_add_row, toy_row_args, 1, false);
    t->eval[5] = (struct stepc_command){
        .kind = STEPC_LOOP_END, .barrier = 1, .counter = B_COUNTER, .limit = B_LIMIT, .flag = B_FLAG, .other = 3};
    t->eval[6] = TOY_KERNEL(toy_finish, toy_finish_args, 1, false);
    t->init[0] = TOY_KERNEL(toy_init, toy_init_args, 1, false);
    t->infer[0] = (struct stepc_command){.kind = STEPC_KERNEL,
                                         .buffers = toy_rows_args,
                                         .buffer_count = 6,
                                         .kernel = toy_forward,
                                         .extent = rows,
                                         .grain = 1,
                                         .work = 10};
    t->derive[0] = TOY_KERNEL(toy_derive, toy_derive_args, 1, false);
#define TOY_ENTRY(text, list) \
    { \
        .name = text, .buffers = t->buffers, .buffer_count = TOY_BUFFERS, .commands = list, \
        .command_count = sizeof(list) / sizeof *(list), .arena_bytes = TOY_ARENA, .scratch_bytes = 64, \
        .work = big ? 1e9 : 100 \
    }
    const struct stepc_entry entries[5] = {TOY_ENTRY("init", t->init), TOY_ENTRY("step", t->step),
                                           TOY_ENTRY("eval", t->eval), TOY_ENTRY("infer", t->infer),
                                           TOY_ENTRY("derive", t->derive)};
    memcpy(t->entries, entries, sizeof entries);
    t->entries[1].buffers = t->step_buffers;
    if (whole && devices == 1) t->entries[1].whole = toy_whole;
    if (whole) { /* as compiled: one function and no kernels beside it */
        t->entries[0].whole = toy_init_whole;
        t->init[0].kernel = NULL;
    }
    t->axis[0] = devices;
    t->program = (struct stepc_program){.version = STEPC_TABLES,
                                        .name = "toy",
                                        .manifest = "{\"name\": \"toy\"}",
                                        .features = "",
                                        .slots = t->slots,
                                        .slot_count = TOY_SLOTS,
                                        .entries = t->entries,
                                        .entry_count = 5,
                                        .constants = (const unsigned char *)t->constants,
                                        .constant_bytes = sizeof t->constants,
                                        .state_bytes = TOY_STATE,
                                        .result_bytes = TOY_RESULT,
                                        .axis_count = 1,
                                        .axis_names = toy_axis_names,
                                        .axis_sizes = t->axis,
                                        .team = &stepc_part_team,
                                        .indices = &stepc_part_indices,
                                        .checkpoint = &stepc_part_checkpoint_pieces,
                                        .compression = &stepc_part_compression,
                                        .mesh = &stepc_part_mesh};
    if (toy_far()) test_place(&t->program, &t->mesh, true);
    return &t->program;
}

/* ---------------------------------------------------------------- data */

struct toy_data {
    float x[TOY_ROWS * TOY_DIM], y[TOY_ROWS];
    int32_t label[TOY_ROWS];
    struct step_array arrays[3];
    struct step_batch batch;
};

static inline void toy_fill(struct toy_data *d, uint32_t seed)
{
    for (int i = 0; i < TOY_ROWS; i++) {
        for (int k = 0; k < TOY_DIM; k++) {
            seed = seed * 1664525u + 1013904223u;
            d->x[i * TOY_DIM + k] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
        }
        d->label[i] = i % TOY_LABELS;
        d->y[i] = 1 + 2 * d->x[i * TOY_DIM] - d->x[i * TOY_DIM + 1] + 0.1f * (float)d->label[i];
    }
    d->arrays[0] = (struct step_array){.size = sizeof(struct step_array),
                                       .name = "x",
                                       .data = d->x,
                                       .dtype = STEP_F32,
                                       .rank = 2,
                                       .shape = toy_shape_x};
    d->arrays[1] = (struct step_array){.size = sizeof(struct step_array),
                                       .name = "y",
                                       .data = d->y,
                                       .dtype = STEP_F32,
                                       .rank = 1,
                                       .shape = toy_shape_row};
    d->arrays[2] = (struct step_array){.size = sizeof(struct step_array),
                                       .name = "label",
                                       .data = d->label,
                                       .dtype = STEP_I32,
                                       .rank = 1,
                                       .shape = toy_shape_row};
    d->batch = (struct step_batch){.size = sizeof d->batch, .inputs = d->arrays, .input_count = 3};
}

static inline struct step_instance *toy_create(const struct stepc_program *p, uint32_t threads)
{
    struct step_options options = {.size = sizeof options, .threads = threads, .flags = STEP_NO_ENV};
    struct step_instance *t = NULL;
    return rt_create(p, &options, &t) == STEP_OK ? t : NULL;
}

/* An instance that has begun, and the data of its first step; NULL: rt_last_error tells why. */
static inline struct step_instance *toy_ready(struct toy *toy, struct toy_data *data, int64_t devices, uint32_t threads)
{
    struct step_instance *t = toy_create(toy_build(toy, devices, true, false), threads);
    toy_fill(data, 1);
    return t && rt_init(t) == STEP_OK ? t : NULL;
}

static inline step_status toy_read(struct step_instance *t, const char *name, float *out, int64_t n)
{
    struct step_array a = {.size = sizeof a, .name = name, .data = out, .dtype = STEP_F32, .rank = n > 0, .shape = &n};
    return rt_read(t, &a);
}
#endif
