/* What a checkpoint becomes: `stepc checkpoint export`, a file of parameters (run_names.c: as others read it);
 * `convert`, a checkpoint with other names, fewer tensors or floats of another width; and `import`, a checkpoint made
 * of a file, or of several (run_shards.c). */
#include "frontend/cli/run_names.h"
#include "frontend/cli/run_numbers.h"
#include "frontend/fe.h"
#include "ir/ir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ITEMS = 4 };
static const char *const item_names[ITEMS] = {"params", "ema", "opt_state", "state"};

static step_status read_one(const struct run_source *s, const struct run_exported *e, void *to, char error[ST_TEXT])
{
    step_status status = run_stoppable(error);
    if (status) return status;
    return s->c ? st_checkpoint_read(s->c, e->from, to, true, error)
                : st_read(e->file, e->from, 0, to, e->from->bytes, error);
}

static step_status fetch(void *user, uint32_t index, void *to, char error[ST_TEXT])
{
    const struct run_source *s = user;
    const struct run_exported *e = &s->all[index];
    bool cast = e->t.dtype != e->from->dtype;
    void *own = cast ? malloc(e->from->bytes + 1) : to;
    if (!own) return snprintf(error, ST_TEXT, "out of memory"), STEP_ENOMEM;
    step_status status = read_one(s, e, own, error);
    if (cast) {
        enum ir_dtype before = ir_dtype_of_abi(e->from->dtype), after = ir_dtype_of_abi(e->t.dtype);
        for (uint64_t i = 0; !status && i < e->from->bytes / ir_dtype_bytes(before); i++)
            status = run_number_set(after, to, i, ir_element_get(before, own, i), e->t.name, error);
        free(own);
    }
    return status;
}

static step_status fetch_for_file(void *user, uint32_t index, void *to)
{
    struct run_source *s = user;
    return fetch(user, index, to, s->error);
}

static int by_item(const void *a, const void *b)
{
    const struct run_exported *x = a, *y = b;
    return x->item != y->item ? (x->item > y->item) - (x->item < y->item) : st_by_name(a, b);
}

/* ---------------------------------------------------------------- other names, other dtypes */

/* The names on the left of --map for those on its right; what it leaves out is not written. Sorted by name. */
static int rename_all(struct cli *cli, struct run_exported *all, uint32_t *count)
{
    const char *text, *rule;
    char error[ST_TEXT], name[ST_MAPPED];
    step_status status;
    bool met;
    uint32_t kept = 0;
    int code = run_map(cli, &text);
    if (code || !text) return code;
    struct st_map *map = st_map_open(text, &status, error);
    if (!map) return cli_failed(cli, EXIT_WRONG, "--map: %s", error);
    for (uint32_t i = 0; i < *count && !code; i++) {
        int way = st_map_target(map, all[i].t.name, name);
        if (way == ST_NO_RULE) code = cli_failed(cli, EXIT_WRONG, "--map: no rule takes \"%s\"", all[i].t.name);
        if (way != ST_SOURCE) continue;
        all[kept] = all[i];
        all[kept++].t.name = arena_string_n(cli->arena, name, strlen(name));
    }
    *count = kept;
    if (kept) qsort(all, kept, sizeof *all, st_by_name);
    for (uint32_t i = 1; i < kept && !code; i++)
        if (strcmp(all[i - 1].t.name, all[i].t.name) == 0)
            code = cli_failed(cli, EXIT_WRONG, "--map: two tensors become \"%s\": \"%s\" and \"%s\"", all[i].t.name,
                              all[i - 1].from->name, all[i].from->name);
    if (!code && (rule = st_map_idle(map, 0, &met)))
        code = cli_failed(cli, EXIT_WRONG, "--map: \"%s\" takes no tensor of those that are there", rule);
    st_map_close(map);
    return code;
}

/* --dtype, of parameters and averages. */
static int cast_all(struct cli *cli, struct run_exported *all, uint32_t count)
{
    const char *name = cli_text(cli, "dtype", NULL);
    enum ir_dtype wanted = name ? ir_dtype_find(name) : IR_TUPLE;
    for (uint32_t i = 0; name && i < count; i++) {
        enum ir_dtype own = ir_dtype_of_abi(all[i].t.dtype);
        if (own == IR_TUPLE)
            return cli_failed(cli, EXIT_WRONG, "--dtype: \"%s\" is a float8, which is not converted", all[i].t.name);
        if (all[i].item > 1 || !ir_dtype_is_float(own)) continue;
        all[i].t.bytes = all[i].t.bytes / ir_dtype_bytes(own) * ir_dtype_bytes(wanted);
        all[i].t.dtype = ir_dtype_abi(wanted);
    }
    return 0;
}

static struct st_tensor *tensors_of(struct cli *cli, const struct run_exported *all, uint32_t count)
{
    struct st_tensor *tensors = arena_new_array(cli->arena, struct st_tensor, count + 1);
    for (uint32_t i = 0; i < count; i++) tensors[i] = all[i].t;
    return tensors;
}

static int output(struct cli *cli, const char *what, const char **to)
{
    bool folder = strcmp(what, "export") != 0 || cli_count(cli, "hf") || cli_count(cli, "names");
    *to = cli_output(cli, "output");
    if (!*to) return cli_usage(cli, "checkpoint %s: -o %s is missing", what, folder ? "DIR" : "FILE");
    return folder && strcmp(cli_text(cli, "output", NULL), "-") == 0
               ? cli_usage(cli, "checkpoint %s: -o -: a folder is written; name one", what)
               : 0;
}

/* A checkpoint that becomes something else, and where to. */
static int begin(struct cli *cli, const char *what, const char *path, struct run_source *s, struct run_exported **all,
                 const char **to)
{
    struct st_checkpoint *c = arena_new(cli->arena, struct st_checkpoint);
    int code = output(cli, what, to);
    if (!code) code = run_open_any(cli, c, path);
    if (code) return code;
    *all = arena_new_array(cli->arena, struct run_exported, c->all.count + 1);
    *s = (struct run_source){.c = c, .all = *all, .read = read_one};
    return 0;
}

/* ---------------------------------------------------------------- export */

/* Tensors by name, as --hf or --names calls them, into a folder; with --peft the adapters alone. */
static int export_named(struct cli *cli, struct run_source *s, const struct run_exported *all, uint32_t count,
                        const char *folder)
{
    struct run_naming n = {.cli = cli, .source = s, .all = all, .count = count};
    const char *most = cli_text(cli, "shard-size", "5GiB");
    uint64_t bytes;
    if (!fe_amount(most, true, &bytes) || !bytes)
        return cli_usage(cli, "--shard-size: expected a number of bytes, or as 5GiB, got \"%s\"", most);
    struct sigaction old[RUN_SIGNALS];
    run_signals_catch(old);
    int code = run_names_open(&n);
    if (!code) code = run_names_targets(&n);
    if (!code) code = cli_count(cli, "peft") ? run_export_peft(&n, folder) : run_names_write(&n, folder, bytes);
    run_names_close(&n);
    run_stoppable_end(old);
    return code;
}

/* By --map and --dtype; what takes nothing is not written. */
static int as_asked(struct cli *cli, struct run_exported *all, uint32_t *count)
{
    int code = rename_all(cli, all, count);
    if (!code && !*count) return cli_failed(cli, EXIT_WRONG, "checkpoint: no tensor is left to write");
    return code ? code : cast_all(cli, all, *count);
}

/* Parameters, or the averages in their place, and running statistics: what --init takes. */
int run_export(struct cli *cli, const char *path)
{
    char error[ST_TEXT];
    struct run_source s;
    struct run_exported *all;
    const char *to;
    bool averages = cli_count(cli, "ema") > 0;
    uint32_t count = 0, averaged = 0;
    bool named = cli_count(cli, "hf") || cli_count(cli, "names");
    if (!named && (cli_count(cli, "config") || cli_count(cli, "shard-size")))
        return cli_usage(cli, "checkpoint export: --config and --shard-size go with --hf or --names");
    if (!named && cli_count(cli, "peft"))
        return cli_usage(cli, "checkpoint export: --peft needs --hf or --names: how the model's layers are called");
    int code = begin(cli, "export", path, &s, &all, &to);
    if (code) return code;
    struct st_checkpoint *c = s.c;
    for (uint32_t i = 0; i < c->all.count; i++) {
        const struct st_tensor *t = &c->all.tensors[i], *other = NULL;
        const char *role = run_role_of(cli, c, t);
        bool statistic = strcmp(role, "state") == 0 && run_is_statistic(t->name, t->rank);
        if (strcmp(role, "params") != 0 && !statistic) continue;
        if (averages && !statistic) other = st_find(&c->all, arena_format(cli->arena, "ema.%s", t->name));
        if (other && strcmp(run_role_of(cli, c, other), "ema") != 0) other = NULL; /* a block may be called so */
        averaged += other != NULL;
        all[count] = (struct run_exported){.t = *t, .from = other ? other : t, .item = statistic ? 3 : 0};
        all[count++].t.role = statistic ? STEP_STATE : STEP_PARAM;
    }
    if (averages && !averaged) code = cli_failed(cli, EXIT_WRONG, "%s holds no averages", c->all.path);
    if (!code) code = as_asked(cli, all, &count);
    if (!code && named) code = export_named(cli, &s, all, count, to);
    struct st_tensor *tensors = tensors_of(cli, all, count);
    step_status status = code || named ? STEP_OK : st_write(to, tensors, count, c->step, fetch_for_file, &s, error);
    if (status) code = run_file_failed(cli, status, *s.error ? s.error : error);
    st_checkpoint_close(c);
    return code;
}

/* ---------------------------------------------------------------- convert, import */

static int write_checkpoint(struct cli *cli, struct run_source *s, struct run_exported *all, uint32_t count,
                            uint64_t step, const char *to)
{
    char error[ST_TEXT];
    struct st_new n = {.folder = to,
                       .model = s->c && s->c->model ? s->c->model : "",
                       .step = step,
                       .flags = run_save_flags(cli),
                       .fetch = fetch,
                       .user = s};
    int code = as_asked(cli, all, &count);
    if (code) return code;
    qsort(all, count, sizeof *all, by_item);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = all[i].item; k < ITEMS; k++) n.end[k + 1] = i + 1;
    n.tensors = tensors_of(cli, all, count);
    struct sigaction old[RUN_SIGNALS];
    run_signals_catch(old);
    step_status status = st_checkpoint_write(&n, s->c, error);
    run_stoppable_end(old);
    if (status) return run_file_failed(cli, status, error);
    const char *said = arena_format(cli->arena, "%s/step-%llu: %u tensors\n", to, (unsigned long long)step, count);
    return cli->quiet ? 0 : cli_print(cli, said, strlen(said));
}

/* The same step in another run directory, with the items and metrics that it has. */
int run_convert(struct cli *cli, const char *path)
{
    struct run_source s;
    struct run_exported *all;
    const char *to;
    int code = begin(cli, "convert", path, &s, &all, &to);
    if (code) return code;
    for (uint32_t i = 0; i < s.c->all.count; i++) {
        const char *role = run_role_of(cli, s.c, &s.c->all.tensors[i]);
        all[i] = (struct run_exported){.t = s.c->all.tensors[i], .from = &s.c->all.tensors[i]};
        while (all[i].item < ITEMS - 1 && strcmp(role, item_names[all[i].item]) != 0) all[i].item++;
    }
    code = write_checkpoint(cli, &s, all, s.c->all.count, s.c->step, to);
    st_checkpoint_close(s.c);
    return code;
}

/* A file; an index and its files; or a folder that holds one of both. */
static int open_files(struct cli *cli, const char *path, struct st_file **files, uint32_t *count)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
    char error[ST_TEXT];
    struct stat about;
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *inside = arena_format(cli->arena, "%s/%s", path, names[i]);
        if (access(inside, F_OK) == 0) return open_files(cli, inside, files, count);
    }
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return cli_failed(cli, EXIT_WRONG,
                          st_is_checkpoint(path)
                              ? "%s is a checkpoint already: convert copies it, by --map under other names"
                              : "%s is a folder: name a .safetensors file or its "
                                "model.safetensors.index.json",
                          path);
    if (n > 5 && strcmp(path + n - 5, ".json") == 0) return run_shards_open(cli, path, files, count);
    *files = arena_new(cli->arena, struct st_file);
    step_status status = st_open(*files, path, error);
    *count = !status;
    return status ? run_file_failed(cli, status, error) : 0;
}

/* All tensors of some files, by name. */
static struct st_file together(struct cli *cli, const struct st_file *files, uint32_t file_count)
{
    struct st_file f = {.path = files->path};
    for (uint32_t k = 0; k < file_count; k++) f.count += files[k].count;
    f.tensors = arena_new_array(cli->arena, struct st_tensor, f.count + 1);
    for (uint32_t k = 0, at = 0; k < file_count; at += files[k++].count)
        if (files[k].count) memcpy(f.tensors + at, files[k].tensors, files[k].count * sizeof *f.tensors);
    if (f.count) qsort(f.tensors, f.count, sizeof *f.tensors, st_by_name);
    return f;
}

/* As the file says what its tensors are. Of another one names and shapes tell; what they take for no parameter, which
 * `export` would leave out, is said. */
int run_import(struct cli *cli, const char *path)
{
    struct st_file *files;
    uint32_t file_count = 0, count = 0;
    uint64_t step = 0;
    const char *to;
    struct run_listed guessed = {STR(cli->arena), 0};
    int code = output(cli, "import", &to);
    if (code) return code;
    code = open_files(cli, path, &files, &file_count);
    if (!code && (cli_count(cli, "hf") || cli_count(cli, "names"))) {
        code = cli_count(cli, "map") || cli_count(cli, "dtype")
                   ? cli_usage(cli, "checkpoint import --hf, --names: names and dtypes are those of --like")
                   : run_names_import(cli, files, file_count, to);
        while (file_count) st_close(&files[--file_count]);
        return code;
    }
    for (int i = 0; i < 2 && !code; i++)
        if (cli_count(cli, i ? "define" : "like"))
            code = cli_usage(cli, "checkpoint import: --%s goes with --hf or --names", i ? "define" : "like");
    struct st_file whole = code ? (struct st_file){0} : together(cli, files, file_count);
    struct run_exported *all = arena_new_array(cli->arena, struct run_exported, whole.count + 1);
    struct run_source s = {.all = all, .read = read_one};
    for (const struct st_file *f = files; !code && f < files + file_count; f++)
        for (uint32_t i = 0; i < f->count; i++) {
            const struct st_tensor *t = &f->tensors[i];
            uint32_t item = st_role_of(&whole, t) - STEP_PARAM;
            all[count++] = (struct run_exported){*t, t, item, f};
            if (item && !t->role && strcmp(t->name, "step") != 0) run_listed_add(&guessed, t->name);
        }
    if (guessed.count && !cli->quiet)
        cli_show(arena_format(cli->arena,
                              "stepc: note: %s does not say which of its tensors are parameters; by their names these "
                              "are averages or state of a training, and not exported: %s\n",
                              path, run_listed(&guessed)));
    for (const char *c = code ? NULL : files->step; c && *c >= '0' && *c <= '9' && step < UINT64_C(1) << 53; c++)
        step = step * 10 + (uint64_t)(*c - '0');
    if (!code) code = write_checkpoint(cli, &s, all, count, step, to);
    while (file_count) st_close(&files[--file_count]);
    return code;
}
