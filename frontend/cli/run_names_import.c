/* `stepc checkpoint import FOLDER --hf MODEL | --names FILE --like MODEL.json|STEP.SO -o DIR`: the way back of
 * run_names.c. The parameters of the document or object, and the running statistics that the table names, say which
 * tensors of others are wanted, and their shapes how a matrix there falls into kernels here. Whatever is missing, has
 * another shape or would be left out is an error; what the table calls "unused" there is left out, and a tensor that it
 * calls "tied" to another must be equal to that one.
 */
#include "frontend/cli/run_names.h"
#include "frontend/cli/run_numbers.h"
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

/* A parameter, and the columns of a matrix there that it is. */
struct part {
    struct st_tensor t;
    const struct st_file *file;
    const struct st_tensor *from;
    const struct run_rule *rule;
    uint64_t rows, columns, before, all; /* before, all: columns of the matrix there */
};

struct import {
    struct run_naming names;
    const struct st_file *files;
    uint32_t file_count, count, parameters; /* count: with running statistics, which follow the parameters */
    struct run_listed unnamed;              /* statistics that the table leaves out */
    struct part *parts;
    bool **used;        /* per file and tensor */
    const char *prefix; /* of names there; "": files have none */
};

static const struct st_tensor *find(struct import *im, const char *name, const struct st_file **file, bool use)
{
    for (uint32_t k = 0; k < im->file_count; k++) {
        const struct st_tensor *t = st_find(&im->files[k], name);
        if (!t) continue;
        if (use) im->used[k][t - im->files[k].tensors] = true;
        return *file = &im->files[k], t;
    }
    return NULL;
}

/* The bare model's files have names without the first word that those of the model with its head have. */
static const struct st_tensor *find_either(struct import *im, const char *name, const struct st_file **file, bool use)
{
    const char *dot = strchr(name, '.');
    const struct st_tensor *t = find(im, name, file, use);
    return t || !dot ? t : find(im, dot + 1, file, use);
}

/* Which rule makes this parameter, and as which of its parts. */
static const struct run_rule *rule_of(struct import *im, const char *name, uint32_t *part, char there[ST_MAPPED])
{
    char number[ST_MAPPED];
    struct run_naming *n = &im->names;
    for (*part = 0; *part < RUN_PARTS; ++*part)
        if (st_map_target(n->by_part[*part], name, there) == ST_SOURCE) {
            st_map_source(n->by_rule, there, number);
            return &n->rules[strtoul(number, NULL, 10)];
        }
    return NULL;
}

static int shape_failed(const struct import *im, const struct part *p, const char *there, uint64_t rows,
                        uint64_t columns)
{
    struct cli *cli = im->names.cli;
    const char *wanted = p->rule->inputs == RUN_SAME
                             ? ""
                             : arena_format(
                                   cli->arena, p->rule->inputs ? "; [%llu, %llu] is needed" : "; [%llu] is needed",
                                   (unsigned long long)(!p->rule->inputs || p->rule->transpose ? columns : rows),
                                   (unsigned long long)(p->rule->transpose ? rows : columns));
    return cli_failed(cli, EXIT_WRONG, "%s: \"%s\" has not the shape that \"%s\" asks for%s", im->names.what, there,
                      p->t.name, wanted);
}

bool run_is_adapter(const char *name)
{
    size_t n = strlen(name);
    return n > 7 && strncmp(name + n - 7, ".lora_", 6) == 0 && strchr("abs", name[n - 1]);
}

static int place(struct import *im, const struct step_tensor *of, struct run *like)
{
    struct part *p = &im->parts[im->count++];
    struct cli *cli = im->names.cli;
    char there[ST_MAPPED], other[ST_MAPPED];
    uint32_t part;
    *p = (struct part){.t = {.name = arena_string(cli->arena, of->name),
                             .dtype = of->dtype,
                             .rank = of->rank,
                             .bytes = of->bytes_global},
                       .rule = rule_of(im, of->name, &part, there)};
    for (int32_t i = 0; i < of->rank; i++) p->t.shape[i] = of->shape[i];
    if (!p->rule)
        return cli_failed(cli, EXIT_WRONG, "%s: no tensor there is \"%s\" of %s", im->names.what, of->name, like->path);
    if (!(p->from = find_either(im, there, &p->file, true)))
        return cli_failed(cli, EXIT_WRONG, "%s: \"%s\" needs \"%s\", which is not there", im->names.what, of->name,
                          there);
    if (ir_dtype_of_abi(p->from->dtype) == IR_TUPLE || !ir_dtype_is_float(ir_dtype_of_abi(p->from->dtype)))
        return cli_failed(cli, EXIT_WRONG, "%s: \"%s\" holds no floats that are converted", im->names.what, there);
    int32_t inputs = p->rule->inputs == RUN_SAME || p->rule->inputs > of->rank ? of->rank : p->rule->inputs;
    p->rows = run_product(of->shape, 0, inputs), p->columns = run_product(of->shape, inputs, of->rank);
    for (uint32_t k = 0; k < p->rule->parts; k++) {
        struct step_tensor is = {.size = sizeof is};
        st_map_source(im->names.by_part[k], there, other);
        if (like->api->tensor_find(like->instance, other, &is) || is.rank < inputs)
            return cli_failed(cli, EXIT_WRONG, "%s: \"%s\" is made of \"%s\", which %s has not", im->names.what, there,
                              other, like->path);
        uint64_t columns = run_product(is.shape, inputs, is.rank);
        if (k < part) p->before += columns;
        p->all += columns;
    }
    const struct st_tensor *f = p->from;
    bool same = p->rule->inputs == RUN_SAME, fits = f->rank == (same ? of->rank : p->rule->inputs ? 2 : 1);
    for (int32_t i = 0; fits && same && i < f->rank; i++) fits = f->shape[i] == of->shape[i];
    if (fits && !same) {
        uint64_t first = p->rule->transpose ? p->all : p->rows, last = p->rule->transpose ? p->rows : p->all;
        fits = p->rule->inputs ? (uint64_t)f->shape[0] == first && (uint64_t)f->shape[1] == last
                               : (uint64_t)f->shape[0] == p->all;
    }
    return fits ? 0 : shape_failed(im, p, there, p->rows, p->all);
}

static step_status fetch(void *user, uint32_t index, void *to, char error[ST_TEXT])
{
    struct import *im = user;
    const struct part *p = &im->parts[index];
    enum ir_dtype from = ir_dtype_of_abi(p->from->dtype), into = ir_dtype_of_abi(p->t.dtype);
    size_t item = ir_dtype_bytes(from);
    char *raw = malloc(p->from->bytes + 1);
    if (!raw) return snprintf(error, ST_TEXT, "out of memory"), STEP_ENOMEM;
    step_status status = run_stoppable(error);
    if (!status) status = st_read(p->file, p->from, 0, raw, p->from->bytes, error);
    for (uint64_t i = 0; !status && i < p->rows * p->columns; i++) {
        uint64_t row = i / p->columns, column = p->before + i % p->columns,
                 at = p->rule->transpose ? column * p->rows + row : row * p->all + column;
        if (from == into) memcpy((char *)to + i * item, raw + at * item, item); /* bit for bit */
        else status = run_number_set(into, to, i, ir_element_get(from, raw, at), p->t.name, error);
    }
    free(raw);
    return status;
}

/* ---------------------------------------------------------------- what nobody asked for */

static int equal(struct import *im, const struct st_file *file, const struct st_tensor *t, const char *other)
{
    char error[ST_TEXT];
    const struct st_file *from;
    const struct st_tensor *is = find_either(im, other, &from, false);
    char *x = malloc(t->bytes + 1), *y = malloc(t->bytes + 1);
    bool same = x && y && is && is->bytes == t->bytes && is->dtype == t->dtype &&
                !st_read(file, t, 0, x, t->bytes, error) && !st_read(from, is, 0, y, t->bytes, error) &&
                memcmp(x, y, t->bytes) == 0;
    free(x);
    free(y);
    return same ? 0
                : cli_failed(
                      im->names.cli, EXIT_WRONG,
                      "%s: \"%s\" is not equal to \"%s\", as which it is used: the document has no head of its own",
                      im->names.what, t->name, other);
}

static int left_over(struct import *im, const struct st_file *file, const struct st_tensor *t)
{
    const cJSON *unused = cJSON_GetObjectItemCaseSensitive(im->names.root, "unused"),
                *tied = cJSON_GetObjectItemCaseSensitive(im->names.root, "tied");
    for (const cJSON *c = unused ? unused->child : NULL; c; c = c->next) {
        const char *dot = cJSON_IsString(c) ? strchr(c->valuestring, '.') : NULL;
        if (cJSON_IsString(c) && (glob_match(c->valuestring, t->name) || (dot && glob_match(dot + 1, t->name))))
            return 0;
    }
    for (const cJSON *c = tied ? tied->child : NULL; c; c = c->next)
        if (cJSON_IsString(c) && strcmp(c->string, t->name) == 0) return equal(im, file, t, c->valuestring);
    return cli_failed(im->names.cli, EXIT_WRONG, "%s: \"%s\" is no tensor of the model: it would be left out",
                      im->names.what, t->name);
}

/* ---------------------------------------------------------------- all of it */

static int place_all(struct import *im, struct run *like)
{
    struct cli *cli = im->names.cli;
    size_t count = like->api->tensor_count(like->instance, STEP_PARAM),
           states = like->api->tensor_count(like->instance, STEP_STATE);
    int code = 0;
    im->parts = arena_new_array(cli->arena, struct part, count + states + 1);
    im->used = arena_new_array(cli->arena, bool *, im->file_count + 1);
    for (uint32_t k = 0; k < im->file_count; k++)
        im->used[k] = arena_new_array(cli->arena, bool, im->files[k].count + 1);
    for (size_t i = 0; i < count && !code; i++) {
        struct step_tensor of = {.size = sizeof of};
        like->api->tensor_at(like->instance, STEP_PARAM, i, &of);
        if (!run_is_adapter(of.name)) code = place(im, &of, like); /* init makes what adapters add */
    }
    im->parameters = im->count;
    for (size_t i = 0; i < states && !code; i++) { /* running statistics that the table names */
        struct step_tensor of = {.size = sizeof of};
        uint32_t part;
        char there[ST_MAPPED];
        like->api->tensor_at(like->instance, STEP_STATE, i, &of);
        if (!run_is_statistic(of.name, of.rank)) continue;
        if (rule_of(im, of.name, &part, there)) code = place(im, &of, like);
        else run_listed_add(&im->unnamed, of.name);
    }
    for (uint32_t k = 0; k < im->file_count; k++)
        for (uint32_t i = 0; i < im->files[k].count && !code; i++)
            if (!im->used[k][i]) code = left_over(im, &im->files[k], &im->files[k].tensors[i]);
    return code;
}

/* The file beside the weights that says what a model of them computes, if there is one. */
static int check_config(struct import *im, struct run *like)
{
    struct cli *cli = im->names.cli;
    const char *path = im->files[0].path, *slash = strrchr(path, '/');
    path = arena_format(cli->arena, "%.*sconfig.json", (int)(slash ? slash + 1 - path : 0), path);
    if (access(path, F_OK)) return 0;
    uint32_t count = (uint32_t)like->api->tensor_count(like->instance, STEP_PARAM);
    struct run_exported *all = arena_new_array(cli->arena, struct run_exported, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        struct step_tensor of = {.size = sizeof of};
        like->api->tensor_at(like->instance, STEP_PARAM, i, &of);
        all[i].t = (struct st_tensor){.name = of.name, .rank = of.rank};
        memcpy(all[i].t.shape, of.shape, (size_t)of.rank * sizeof *of.shape);
    }
    qsort(all, count, sizeof *all, st_by_name);
    struct run_naming names = im->names;
    names.all = all, names.count = count;
    return run_names_compare(&names, path);
}

int run_names_import(struct cli *cli, const struct st_file *files, uint32_t count, const char *to)
{
    char error[ST_TEXT];
    struct import im = {.names = {.cli = cli}, .files = files, .file_count = count, .unnamed = {STR(cli->arena), 0}};
    struct run like = {.cli = cli, .path = cli_text(cli, "like", NULL), .fits = true};
    if (!like.path)
        return cli_usage(
            cli, "checkpoint import --hf, --names: --like MODEL.json or STEP.SO says which parameters are wanted");
    int code = run_open(&like);
    if (!code) code = run_names_open(&im.names);
    if (!code) code = place_all(&im, &like);
    if (!code) code = check_config(&im, &like);
    qsort(im.parts, code ? 0 : im.parameters, sizeof *im.parts, st_by_name);
    qsort(im.parts + im.parameters, code ? 0 : im.count - im.parameters, sizeof *im.parts, st_by_name);
    struct st_tensor *tensors = arena_new_array(cli->arena, struct st_tensor, im.count + 1);
    for (uint32_t i = 0; i < im.count; i++) tensors[i] = im.parts[i].t;
    struct st_new n = {
        .folder = to, .model = "", .tensors = tensors, .flags = run_save_flags(cli), .fetch = fetch, .user = &im};
    for (int k = 1; k < 5; k++) n.end[k] = k < 4 ? im.parameters : im.count;
    struct sigaction old[RUN_SIGNALS];
    run_signals_catch(old);
    step_status status = code ? STEP_OK : st_checkpoint_write(&n, NULL, error);
    run_stoppable_end(old);
    if (status) code = run_file_failed(cli, status, error);
    run_names_close(&im.names);
    run_close(&like);
    if (!code && im.unnamed.count && !cli->quiet)
        fprintf(stderr,
                "stepc: note: %s names no %s: run --init of this needs --init-partial, and they keep their initial "
                "values\n",
                im.names.what, run_listed(&im.unnamed));
    const char *said = arena_format(cli->arena, "%s/step-0: %u tensors\n", to, im.count);
    return code || cli->quiet ? code : cli_print(cli, said, strlen(said));
}
