/* Batches from files of several formats: one tensor per input of the step, with a leading dimension that counts steps,
 * or rows, as many as there are, from which batches are taken (run_rows.c). Everything is checked before the first
 * step, all problems at once. Data that fit are read at the start, others step by step. */
#include "frontend/cli/run.h"
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_MEMORY ((uint64_t)1 << 30) /* above this the files are read step by step */

struct problems {
    struct str text;
    uint32_t count;
};

static void problem(struct problems *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void problem(struct problems *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *line = arena_vformat(p->text.arena, format, args);
    va_end(args);
    str_addf(&p->text, "%s%s", p->count++ ? "\n  " : "", line);
}

static const char *type_text(struct arena *a, uint32_t dtype, int32_t rank, const int64_t *shape, const char *leading)
{
    struct str s = STR(a);
    enum ir_dtype known = ir_dtype_of_abi(dtype);
    str_addf(&s, "%s[%s%s", known ? ir_dtype_name(known) : "float8", leading ? leading : "",
             leading && rank ? ", " : "");
    for (int32_t i = 0; i < rank; i++) str_addf(&s, i ? ", %lld" : "%lld", (long long)shape[i]);
    str_add(&s, "]");
    return str_text(&s);
}

/* Rows: the input's shape but for the first dimension. One of exactly the input's shape may also be what all batches
 * share. */
static bool is_rows(const struct st_tensor *t, const struct step_tensor *input)
{
    bool fits = run_numbers_fit(t->dtype, input->dtype) && t->rank == input->rank && t->rank > 0;
    for (int32_t k = 1; fits && k < t->rank; k++) fits = t->shape[k] == input->shape[k];
    return fits;
}

static bool is_whole_input(const struct st_tensor *t, const struct step_tensor *input)
{
    return is_rows(t, input) && t->shape[0] == input->shape[0];
}

/* Whether the tensors found are rows: none of them counts steps. */
static bool are_rows(const struct run *r, const struct run_data *d)
{
    size_t rows = 0;
    for (size_t i = 0; i < d->count; i++) {
        struct step_tensor input = {.size = sizeof input};
        if (!d->tensors[i].tensor) continue;
        r->api->tensor_at(r->instance, STEP_INPUT, i, &input);
        if (d->tensors[i].tensor->rank > input.rank) return false;
        rows += is_rows(d->tensors[i].tensor, &input);
    }
    return rows > 0;
}

static bool ends_with(const char *path, const char *end)
{
    size_t length = strlen(path), n = strlen(end);
    return length > n && strcmp(path + length - n, end) == 0;
}

/* Of FILE.bin+1, NULL: the path has no such end. */
static const char *late_tokens(const char *path)
{
    const char *plus = strrchr(path, '+');
    bool late = plus && plus - path > 4 && strncmp(plus - 4, ".bin", 4) == 0 && plus[1];
    return late && !plus[1 + strspn(plus + 1, "0123456789")] ? plus : NULL;
}

static int open_tokens(struct run *r, const char *option, const char *name, const char *path, struct st_file *f)
{
    const char *plus = late_tokens(path);
    size_t length = plus ? (size_t)(plus - path) : strlen(path);
    struct step_tensor input = {.size = sizeof input};
    if (!name)
        return cli_usage(r->cli,
                         "%s %s: a token file holds one input: %s NAME=%s, and NAME=%.*s+1 for the tokens after these",
                         option, path, option, path, (int)length, path);
    for (size_t i = 0; i < r->api->tensor_count(r->instance, STEP_INPUT); i++) {
        r->api->tensor_at(r->instance, STEP_INPUT, i, &input);
        if (strcmp(input.name, name) == 0)
            return run_tokens_open(r->cli, f, &input, arena_string_n(r->cli->arena, path, length),
                                   plus ? strtoull(plus + 1, NULL, 10) : 0);
    }
    return cli_failed(r->cli, EXIT_WRONG, "%s: \"%s\" is no input of this step", path, name);
}

/* FILE of safetensors, a NumPy archive or a table with a head; NAME=FILE of NumPy, tokens or a table. */
static int open_file(struct run *r, const char *option, const char *given, struct st_file *f)
{
    char error[ST_TEXT];
    const char *equals = strchr(given, '=');
    if (equals && access(given, F_OK) == 0 && access(equals + 1, F_OK) != 0)
        equals = NULL; /* it is a part of the path */
    const char *path = equals ? equals + 1 : given;
    const char *name = equals ? arena_string_n(r->cli->arena, given, (size_t)(equals - given)) : NULL;
    bool npy = run_is_npy(path) || ends_with(path, ".npy"); /* a damaged one, too */
    if (name && npy) return run_npy_open(r->cli, f, name, path);
    if (npy) return cli_usage(r->cli, "%s %s: a NumPy file holds one input: %s NAME=%s", option, given, option, given);
    if (ends_with(path, ".csv")) return run_csv_open(r, f, name, path);
    if (ends_with(path, ".bin") || late_tokens(path)) return open_tokens(r, option, name, path, f);
    if (ends_with(given, ".npz") && !equals) return run_npz_open(r->cli, f, given);
    if (ends_with(path, ".npz"))
        return cli_usage(r->cli, "%s %s: an archive names its arrays itself: %s %s", option, given, option, path);
    if (name && access(given, F_OK) && !access(path, F_OK))
        return cli_usage(r->cli,
                         "%s %s: one input is read of .npy, .csv and .bin files; .safetensors and .npz name theirs",
                         option, given);
    step_status status = st_open(f, given, error);
    bool other = status == STEP_ECORRUPT && !ends_with(given, ".safetensors");
    return status
               ? cli_failed(r->cli, status == STEP_ECORRUPT ? EXIT_WRONG : EXIT_ENVIRONMENT, "%s: %s%s", option, error,
                            other ? "; data are .safetensors, .npz or .csv, or NAME=FILE of .npy, .csv or .bin" : "")
               : 0;
}

static int open_files(struct run *r, struct run_data *d)
{
    const char *const *paths;
    size_t n = cli_values(r->cli, d->option + 2, &paths);
    for (size_t i = 0; i < n; i++) {
        struct st_file *f = arena_new(r->cli->arena, struct st_file);
        int code = open_file(r, d->option, paths[i], f);
        if (code) return code;
        vec_push(r->cli->arena, &d->files, f);
    }
    return 0;
}

/* The tensor of one input among the files; a name in two files is a problem. */
static void find_tensor(struct run_data *d, size_t i, const char *name, struct problems *p)
{
    struct run_tensor *t = &d->tensors[i];
    for (size_t k = 0; k < d->files.count; k++) {
        const struct st_tensor *found = st_find(d->files.items[k], name);
        if (found && t->tensor)
            problem(p, "tensor \"%s\" is in %s and in %s", name, t->file->path, d->files.items[k]->path);
        if (found) t->tensor = found, t->file = d->files.items[k];
    }
}

/* All rows are as many, but for tensors that all batches share. */
static void bind_rows(struct run_data *d, struct run_tensor *t, const struct step_tensor *input, struct problems *p)
{
    uint64_t rows = (uint64_t)t->tensor->shape[0], batch = (uint64_t)input->shape[0];
    if (!rows) problem(p, "%s: tensor \"%s\" holds no row", t->file->path, input->name);
    else if (is_whole_input(t->tensor, input) && d->rows && (rows != d->rows || batch != d->batch)) return;
    else if (d->rows && (rows != d->rows || batch != d->batch))
        problem(p, "%s: tensor \"%s\" has %llu rows in batches of %llu; others have %llu in batches of %llu",
                t->file->path, input->name, (unsigned long long)rows, (unsigned long long)batch,
                (unsigned long long)d->rows, (unsigned long long)d->batch);
    else if (!d->once && !d->partial && rows < batch)
        problem(p, "%s: tensor \"%s\" has %llu rows, fewer than a batch of %llu", t->file->path, input->name,
                (unsigned long long)rows, (unsigned long long)batch);
    else if (batch) d->rows = rows, d->batch = batch, d->steps = (rows + batch - 1) / batch, t->rows = true;
}

/* What makes numbers of another kind those of the input, where NumPy has its type. */
static const char *conversion(struct arena *a, const struct st_tensor *t, const struct step_tensor *input)
{
    enum ir_dtype wanted = ir_dtype_of_abi(input->dtype);
    return wanted && wanted != IR_BF16 && !run_numbers_fit(t->dtype, input->dtype)
               ? arena_format(a, " (NumPy: a.astype(np.%s))", ir_dtype_name(wanted))
               : "";
}

static void bind_input(struct run *r, struct run_data *d, size_t i, const struct step_tensor *input, bool rows,
                       struct problems *p)
{
    struct run_tensor *t = &d->tensors[i];
    struct arena *a = r->cli->arena;
    const char *wanted = type_text(a, input->dtype, input->rank, input->shape, "steps");
    if (input->rank)
        wanted = arena_format(a, "%s or %s", wanted,
                              type_text(a, input->dtype, input->rank - 1, input->shape + 1, "rows"));
    if (t->counts) {
        d->arrays[i] = (struct step_array){
            .size = sizeof(struct step_array), .name = input->name, .dtype = input->dtype};
        return;
    }
    if (!t->tensor && d->some) return;
    if (!t->tensor) {
        problem(p, "no tensor for input \"%s\"; expected %s", input->name, wanted);
        return;
    }
    t->bytes = input->bytes_global;
    t->dtype = input->dtype;
    d->arrays[i] = (struct step_array){.size = sizeof(struct step_array),
                                       .name = input->name,
                                       .dtype = input->dtype,
                                       .rank = input->rank,
                                       .shape = input->shape};
    bool fits = run_numbers_fit(t->tensor->dtype, input->dtype) && t->tensor->rank == input->rank + 1;
    for (int32_t k = 0; fits && k < input->rank; k++) fits = t->tensor->shape[k + 1] == input->shape[k];
    bool plain = is_rows(t->tensor, input);
    if (rows ? fits && !plain : plain && !fits)
        problem(p, "%s: tensor \"%s\" holds %s, %s; those of other inputs do not", t->file->path, input->name,
                rows ? "steps" : "rows", type_text(a, t->tensor->dtype, t->tensor->rank, t->tensor->shape, NULL));
    else if (rows ? !plain : !fits)
        problem(p, "%s: tensor \"%s\": expected %s, found %s%s", t->file->path, input->name, wanted,
                type_text(a, t->tensor->dtype, t->tensor->rank, t->tensor->shape, NULL),
                conversion(a, t->tensor, input));
    else if (rows) bind_rows(d, t, input, p);
    else if (t->tensor->shape[0] < 1) problem(p, "%s: tensor \"%s\" holds no step", t->file->path, input->name);
    else if ((uint64_t)t->tensor->shape[0] > d->steps) d->steps = (uint64_t)t->tensor->shape[0];
}

/* Those of other shapes than the batch's come first: they say how many rows there are. */
static void bind_inputs(struct run *r, struct run_data *d, struct problems *p)
{
    for (size_t i = 0; i < d->count; i++) {
        struct step_tensor input = {.size = sizeof input};
        r->api->tensor_at(r->instance, STEP_INPUT, i, &input);
        find_tensor(d, i, input.name, p);
        d->tensors[i].counts = !d->some && !d->tensors[i].tensor && strcmp(input.name, IR_ROWS_INPUT) == 0;
        d->partial |= d->tensors[i].counts;
    }
    bool rows = are_rows(r, d);
    for (int shared = 0; shared < 2; shared++)
        for (size_t i = 0; i < d->count; i++) {
            struct step_tensor input = {.size = sizeof input};
            r->api->tensor_at(r->instance, STEP_INPUT, i, &input);
            bool is_shared = rows && d->tensors[i].tensor && is_whole_input(d->tensors[i].tensor, &input);
            if (is_shared == (shared == 1)) bind_input(r, d, i, &input, rows, p);
        }
}

static void find_extra(const struct run *r, const struct run_data *d, struct problems *p)
{
    const char **names = arena_new_array(p->text.arena, const char *, d->count + 1);
    for (size_t i = 0; i < d->count; i++) {
        struct step_tensor input = {.size = sizeof input};
        r->api->tensor_at(r->instance, STEP_INPUT, i, &input);
        names[i] = input.name;
    }
    for (size_t k = 0; k < d->files.count; k++)
        for (uint32_t i = 0; i < d->files.items[k]->count; i++) {
            const char *name = d->files.items[k]->tensors[i].name;
            bool known = false;
            for (size_t n = 0; n < d->count; n++) known |= strcmp(names[n], name) == 0;
            if (!known)
                problem(p, "%s: tensor \"%s\" is no input of this step%s", d->files.items[k]->path, name,
                        cli_meant(r->cli, name, names, d->count));
        }
}

/* Inputs without a tensor. */
static void leave_out(struct run_data *d)
{
    size_t n = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (!d->tensors[i].tensor) continue; /* batch.rows, too: infer takes none */
        d->tensors[n] = d->tensors[i];
        d->arrays[n++] = d->arrays[i];
    }
    d->count = n;
}

/* malloc: data may be large and are not part of anything's arena. */
static int read_data(struct run *r, struct run_data *d)
{
    uint64_t total = 0;
    char error[ST_TEXT];
    for (size_t i = 0; i < d->count; i++) total += d->tensors[i].counts ? 0 : d->tensors[i].tensor->bytes;
    d->streamed = total > RUN_MEMORY;
    for (size_t i = 0; i < d->count; i++) {
        struct run_tensor *t = &d->tensors[i];
        if (t->counts || d->streamed) continue;
        uint64_t bytes = t->rows ? t->bytes / d->batch * d->rows
                                 : t->bytes * (d->rows ? 1 : (uint64_t)t->tensor->shape[0]);
        t->memory = malloc(bytes + 64);
        if (!t->memory)
            return cli_failed(r->cli, EXIT_ENVIRONMENT, "%s: out of memory (%llu bytes)", t->file->path,
                              (unsigned long long)bytes);
        int code = run_numbers_read(t, 0, t->memory, bytes, error);
        if (code) return cli_failed(r->cli, code, "%s", error);
    }
    return 0;
}

/* One step may stand for all; other numbers than the longest are rarely meant. */
static void warn_of_lengths(const struct run_data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        if (d->tensors[i].counts) continue;
        unsigned long long steps = (unsigned long long)d->tensors[i].tensor->shape[0];
        if (steps != d->steps && steps != 1)
            fprintf(stderr,
                    "stepc: warning: %s: tensor \"%s\" holds %llu steps, another one %llu; each begins again at its "
                    "own end\n",
                    d->tensors[i].file->path, d->arrays[i].name, steps, (unsigned long long)d->steps);
    }
}

static int fill(struct run_data *d, struct run_slot *slot, uint64_t k, char error[ST_TEXT])
{
    slot->counted = d->rows ? (int32_t)run_rows_counted(d, k) : INT32_MAX; /* steps are full */
    for (size_t i = 0; i < d->count; i++) {                                /* each tensor wraps around at its own end */
        struct run_tensor *t = &d->tensors[i];
        char *data = (char *)&slot->counted;
        uint64_t at = d->rows || t->counts ? 0 : k % (uint64_t)t->tensor->shape[0];
        int code = t->rows ? run_rows_batch(d, t, k, &slot->room[i], &data, error) : 0;
        if (!t->rows && !t->counts && !d->streamed) data = t->memory + at * t->bytes;
        if (!t->rows && !t->counts && d->streamed) {
            code = run_room(t, &slot->room[i], error);
            data = slot->room[i];
            if (!code) code = run_numbers_read(t, at * t->bytes, data, t->bytes, error);
        }
        if (code) return code;
        slot->arrays[i].data = data;
    }
    return 0;
}

/* The arrays as they are now, for each of two batches. */
static void make_slots(struct run *r, struct run_data *d)
{
    for (int i = 0; i < 2; i++) {
        d->slots[i].arrays = arena_copy(r->cli->arena, d->arrays, (d->count + 1) * sizeof *d->arrays);
        d->slots[i].room = arena_new_array(r->cli->arena, char *, d->count + 1);
    }
}

int run_data_open(struct run *r, struct run_data *d, const char *option)
{
    struct problems p = {.text = STR(r->cli->arena)};
    d->option = option;
    d->fill = fill;
    d->count = r->api->tensor_count(r->instance, STEP_INPUT);
    d->tensors = arena_new_array(r->cli->arena, struct run_tensor, d->count + 1);
    d->arrays = arena_new_array(r->cli->arena, struct step_array, d->count + 1);
    int code = open_files(r, d);
    if (code) return code;
    if (!d->files.count && d->count) {
        struct step_tensor first = {.size = sizeof first};
        r->api->tensor_at(r->instance, STEP_INPUT, 0, &first);
        bool one = d->count == 1;
        return cli_usage(r->cli, "%s is missing: the step has %zu input%s (\"%s\"%s)", option, d->count, one ? "" : "s",
                         first.name, one ? "" : ", ...");
    }
    bind_inputs(r, d, &p);
    find_extra(r, d, &p);
    if (d->some) leave_out(d);
    if (p.count) return cli_failed(r->cli, EXIT_WRONG, "%s: %s", option, str_text(&p.text));
    if (!d->rows && !r->cli->quiet) warn_of_lengths(d);
    make_slots(r, d);
    code = read_data(r, d);
    return code ? code : run_rows_open(r, d);
}

int run_data_batch(struct run *r, struct run_data *d, uint64_t k, struct step_batch *batch)
{
    char error[ST_TEXT];
    struct run_slot *slot;
    bool there = run_ahead_take(d, k, &slot), is_work = d->streamed || d->order,
         more = !d->once || (k + 1) % (d->steps ? d->steps : 1);
    int code = there ? 0 : fill(d, slot, k, error);
    if (code) return cli_failed(r->cli, code, "%s", error);
    if (is_work && more) run_ahead_ask(d, k + 1);
    *batch = (struct step_batch){
        .size = sizeof *batch, .inputs = d->count ? slot->arrays : NULL, .input_count = d->count};
    return 0;
}

void run_data_close(struct run_data *d)
{
    run_rows_close(d);
    for (size_t i = 0; d->tensors && i < d->count; i++) {
        free(d->tensors[i].memory);
        for (int k = 0; k < 2 && d->slots[k].room; k++) free(d->slots[k].room[i]);
    }
    for (size_t i = 0; i < d->files.count; i++) st_close(d->files.items[i]);
    d->files.count = 0;
    d->count = 0;
}
