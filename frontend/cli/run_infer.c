/* stepc run --infer: the model's outputs over the batches of --infer-data (or of --data), by the weights that the run
 * ends with, as one safetensors file. Its tensors have a leading dimension that counts batches; of data that are rows,
 * a row each. */
#include "frontend/cli/run.h"

#include <stdlib.h>
#include <string.h>

struct outputs {
    struct st_tensor *tensors; /* with the leading dimension */
    struct step_array *arrays; /* of one batch */
    char **memory;             /* all batches */
    uint64_t *bytes;           /* of one batch */
    bool *rows;                /* by output: the rows of all batches one after another */
    size_t count;
};

/* Files have their tensors by name. */
static size_t position(struct run *r, size_t index)
{
    struct step_tensor t = {.size = sizeof t}, other = {.size = sizeof other};
    size_t before = 0, n = r->api->tensor_count(r->instance, STEP_OUTPUT);
    r->api->tensor_at(r->instance, STEP_OUTPUT, index, &t);
    for (size_t i = 0; i < n; i++) {
        r->api->tensor_at(r->instance, STEP_OUTPUT, i, &other);
        before += strcmp(other.name, t.name) < 0;
    }
    return before;
}

static step_status fetch(void *user, uint32_t index, void *to)
{
    struct outputs *o = user;
    memcpy(to, o->memory[index], o->tensors[index].bytes); /* without the rows that fill the last batch */
    return STEP_OK;
}

/* malloc: outputs may be as large as data. */
static int outputs_open(struct run *r, const struct run_data *data, struct outputs *o, uint64_t batches)
{
    o->count = r->api->tensor_count(r->instance, STEP_OUTPUT);
    o->tensors = arena_new_array(r->cli->arena, struct st_tensor, o->count + 1);
    o->arrays = arena_new_array(r->cli->arena, struct step_array, o->count + 1);
    o->memory = arena_new_array(r->cli->arena, char *, o->count + 1);
    o->bytes = arena_new_array(r->cli->arena, uint64_t, o->count + 1);
    o->rows = arena_new_array(r->cli->arena, bool, o->count + 1);
    if (!o->count) return cli_failed(r->cli, EXIT_WRONG, "--infer: the model has no output");
    for (size_t from = 0; from < o->count; from++) {
        struct step_tensor t = {.size = sizeof t};
        size_t i = position(r, from);
        struct st_tensor *to = &o->tensors[i];
        r->api->tensor_at(r->instance, STEP_OUTPUT, from, &t);
        o->rows[i] = data->rows && t.rank && (uint64_t)t.shape[0] == data->batch;
        *to = (struct st_tensor){
            .name = t.name, .dtype = t.dtype, .rank = t.rank + !o->rows[i], .bytes = t.bytes_global * batches};
        if (to->rank > (int32_t)(sizeof to->shape / sizeof *to->shape))
            return cli_failed(r->cli, EXIT_WRONG, "--infer: output \"%s\" has too many dimensions to be stacked",
                              t.name);
        for (int32_t k = 0; k < t.rank; k++) to->shape[k + !o->rows[i]] = t.shape[k];
        to->shape[0] = (int64_t)(o->rows[i] ? data->rows : batches);
        int64_t *shape = arena_new_array(r->cli->arena, int64_t, (size_t)t.rank + 1);
        memcpy(shape, t.shape, (size_t)t.rank * sizeof *shape);
        o->arrays[i] = (struct step_array){
            .size = sizeof(struct step_array), .name = t.name, .dtype = t.dtype, .rank = t.rank, .shape = shape};
        o->memory[i] = malloc(t.bytes_global * batches + 1);
        o->bytes[i] = t.bytes_global;
        if (o->rows[i]) to->bytes = t.bytes_global / data->batch * data->rows;
        if (!o->memory[i])
            return cli_failed(r->cli, EXIT_ENVIRONMENT, "--infer: out of memory (%llu bytes)",
                              (unsigned long long)to->bytes);
    }
    return 0;
}

/* The last batch is filled up with zeros. With other rows there the outputs of those that count have to be the same. */
static int check_alone(struct run *r, const struct run_data *data, struct outputs *o, struct step_batch *batch,
                       uint64_t counted)
{
    for (size_t i = 0; i < batch->input_count; i++) {
        const struct step_array *a = &batch->inputs[i];
        if (!data->tensors[i].rows) continue;
        uint64_t row = data->tensors[i].bytes / data->batch;
        char *rows = (char *)(uintptr_t)a->data; /* room of its own: no file ends with zeros for us */
        for (uint64_t k = counted; k < data->batch; k++) memcpy(rows + k * row, rows, row);
    }
    int code = 0;
    struct step_array *again = arena_copy(r->cli->arena, o->arrays, o->count * sizeof *again);
    for (size_t i = 0; i < o->count; i++)
        if (!(again[i].data = malloc(o->bytes[i] + 1)))
            code = cli_failed(r->cli, EXIT_ENVIRONMENT, "--infer: out of memory (%llu bytes)",
                              (unsigned long long)o->bytes[i]);
    step_status status = code ? STEP_OK : r->api->infer(r->instance, batch, r->eval_weights, again, o->count);
    if (status) code = run_status(r, status, "--infer");
    for (size_t i = 0; i < o->count; i++) {
        uint64_t bytes = o->rows[i] ? o->bytes[i] / data->batch * counted : o->bytes[i];
        if (!code && memcmp(again[i].data, o->arrays[i].data, bytes) != 0)
            code = cli_failed(r->cli, EXIT_WRONG,
                              "--infer: %llu rows do not fill batches of %llu, and output \"%s\" of a row depends on "
                              "the other rows of its batch: rows that fill batches are needed, or batches of another "
                              "size",
                              (unsigned long long)data->rows, (unsigned long long)data->batch, again[i].name);
        free(again[i].data);
    }
    return code;
}

static int outputs_compute(struct run *r, struct run_data *data, struct outputs *o, uint64_t batches)
{
    for (uint64_t k = 0; k < batches; k++) {
        struct step_batch batch;
        int code = run_agree(r, run_data_batch(r, data, k, &batch));
        if (code || run_stopped(r)) return code;
        for (size_t i = 0; i < o->count; i++) o->arrays[i].data = o->memory[i] + k * o->bytes[i];
        step_status status = r->api->infer(r->instance, &batch, r->eval_weights, o->arrays, o->count);
        if (status) return run_status(r, status, "--infer");
        uint64_t counted = data->rows ? run_rows_counted(data, k) : data->batch;
        if (counted < data->batch && (code = check_alone(r, data, o, &batch, counted))) return code;
    }
    return 0;
}

int run_infer(struct run *r, const char *path)
{
    struct run_data *data = cli_count(r->cli, "infer-data") ? &r->infer_data : &r->data;
    struct outputs o = {0};
    uint64_t batches = data->steps ? data->steps : 1;
    char error[ST_TEXT];
    run_rows_close(data);                     /* training is over: rows once, in their own order */
    data->once = true, data->partial = false; /* infer takes no number of rows that count */
    int code = outputs_open(r, data, &o, batches);
    if (!code) code = outputs_compute(r, data, &o, batches);
    if (!code && !run_stopped(r)) {
        step_status status = run_write(r, path, o.tensors, (uint32_t)o.count, fetch, &o, error);
        if (status)
            code = cli_failed(r->cli, status == STEP_EINTERNAL ? EXIT_DEFECT : EXIT_ENVIRONMENT, "--infer: %s", error);
    }
    for (size_t i = 0; i < o.count; i++) free(o.memory[i]);
    return code;
}
