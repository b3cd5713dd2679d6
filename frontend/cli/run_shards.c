/* Models in several files, as Hugging Face writes them: model.safetensors.index.json says in its weight_map which
 * tensor lies in which file beside it. All files are there, each tensor is in the one that the index names and in no
 * other, and no file holds one that the index does not know; else nothing is taken. */
#include "frontend/cli/run_export.h"
#include "ir/base/json_scan.h"

#include <stdlib.h>
#include <string.h>

struct placed {
    const char *name;
    uint32_t file;
};

static const struct placed *find(const struct placed *all, uint32_t count, const char *name)
{
    struct placed key = {.name = name};
    return count ? bsearch(&key, all, count, sizeof key, st_by_name) : NULL;
}

struct index {
    struct cli *cli;
    const char *path;
    struct placed *tensors; /* by name */
    const char **files;
    uint32_t tensor_count, file_count;
};

static int wrong(const struct index *x, const char *what)
{
    return cli_failed(x->cli, EXIT_WRONG, "%s: %s", x->path, what);
}

/* The N of model-00001-of-N.safetensors, 0: no such name. */
static unsigned long parts_of(const char *name)
{
    const char *at = strstr(name, "-of-");
    return at ? strtoul(at + 4, NULL, 10) : 0;
}

static int read_row(struct index *x, const char *name, const char *file)
{
    uint32_t k = 0;
    size_t n = strlen(file);
    if (strchr(file, '/') || *file == '.' || n < 13 || strcmp(file + n - 12, ".safetensors") != 0)
        return wrong(x, arena_format(x->cli->arena,
                                     "\"%s\" is in \"%s\": expected the name of a .safetensors file beside it", name,
                                     file));
    while (k < x->file_count && strcmp(x->files[k], file) != 0) k++;
    if (k == x->file_count) x->files[x->file_count++] = file;
    x->tensors[x->tensor_count++] = (struct placed){name, k};
    return 0;
}

static int read_index(struct index *x)
{
    struct arena *arena = x->cli->arena;
    char *text;
    size_t length;
    struct json json;
    struct json_error error;
    int code = cli_read(x->cli, x->path, 64 << 20, &text, &length);
    if (code) return code;
    if (!json_scan(arena, text, length, NULL, &json, &error))
        return wrong(x, arena_format(arena, "byte %u: %s", error.offset, error.message));
    const struct json_value *map = json.values->kind == JSON_OBJECT ? json_get(&json, json.values, "weight_map") : NULL;
    if (!map || map->kind != JSON_OBJECT || !map->count)
        return wrong(x, "expected {\"weight_map\": {\"tensor\": \"model-00001-of-00002.safetensors\", ...}}");
    x->tensors = arena_new_array(arena, struct placed, map->count);
    x->files = arena_new_array(arena, const char *, map->count);
    for (uint32_t i = map->first; i && !code; i = json.values[i].next) {
        const struct json_value *v = &json.values[i];
        code = v->kind == JSON_STRING ? read_row(x, v->key, v->string)
                                      : wrong(x, arena_format(arena, "\"%s\": expected the name of a file", v->key));
    }
    if (code) return code;
    qsort(x->tensors, x->tensor_count, sizeof *x->tensors, st_by_name);
    unsigned long parts = parts_of(*x->files);
    for (uint32_t k = 1; k < x->file_count; k++)
        if (parts_of(x->files[k]) != parts) parts = 0;
    return parts && parts != x->file_count
               ? wrong(x, arena_format(arena, "its weight_map names %u of %lu files", x->file_count, parts))
               : 0;
}

/* What of a file is not as the index says. */
static int check_file(struct index *x, uint32_t k, const struct st_file *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const struct placed *p = find(x->tensors, x->tensor_count, f->tensors[i].name);
        if (!p)
            return wrong(x, arena_format(x->cli->arena, "tensor \"%s\" of %s is not in its weight_map",
                                         f->tensors[i].name, x->files[k]));
        if (p->file != k)
            return wrong(x, arena_format(x->cli->arena, "tensor \"%s\" is in %s, and its weight_map names %s", p->name,
                                         x->files[k], x->files[p->file]));
    }
    for (uint32_t i = 0; i < x->tensor_count; i++)
        if (x->tensors[i].file == k && !st_find(f, x->tensors[i].name))
            return wrong(x, arena_format(x->cli->arena, "tensor \"%s\" is not in %s", x->tensors[i].name, x->files[k]));
    return 0;
}

int run_shards_open(struct cli *cli, const char *path, struct st_file **files, uint32_t *count)
{
    char error[ST_TEXT];
    struct index x = {.cli = cli, .path = path};
    int code = read_index(&x);
    const char *last = strrchr(path, '/');
    const char *folder = last ? arena_string_n(cli->arena, path, (size_t)(last + 1 - path)) : "";
    *files = arena_new_array(cli->arena, struct st_file, x.file_count + 1);
    for (*count = 0; !code && *count < x.file_count; ++*count) {
        struct st_file *f = &(*files)[*count];
        step_status status = st_open(f, arena_format(cli->arena, "%s%s", folder, x.files[*count]), error);
        if (status) return run_file_failed(cli, status, arena_format(cli->arena, "%s: %s", path, error));
        code = check_file(&x, *count, f);
    }
    return code;
}
