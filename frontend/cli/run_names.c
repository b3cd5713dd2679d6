/* `stepc checkpoint export --hf MODEL` or `--names FILE`: parameters under the names and in the layouts of others, as
 * safetensors with an index where they are many, and a config.json, so that transformers reads the folder.
 *
 * A table of names is JSON: "tensors" says for each tensor there which ones here make it. A kernel is a matrix whose
 * first dimensions ("inputs") are its rows; several stand beside each other; "transpose" turns what is made. What
 * adapters (name.lora_a, name.lora_b, and name.lora_s, how often) have learnt is added to name.kernel, which is said.
 * Whatever has no place is an error, as what lacks is. samples/import/hf.py does the same from the files of the model
 * that was imported. */
#include "frontend/cli/run_names.h"
#include "frontend/cli/run_numbers.h"
#include "frontend/fe.h"
#include "ir/ir.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the table */

static int wrong_rule(const struct run_naming *n, const char *to, const char *why)
{
    return cli_failed(n->cli, EXIT_WRONG,
                      "%s: \"%s\": %s; expected a name, or {\"from\": a name or a list of up to %d, \"inputs\": N, "
                      "\"transpose\": true, \"optional\": true}",
                      n->what, to, why, RUN_PARTS);
}

static int read_rule(const struct run_naming *n, const cJSON *item, struct run_rule *r)
{
    const cJSON *from = item;
    *r = (struct run_rule){.to = item->string, .inputs = RUN_SAME};
    for (const cJSON *c = cJSON_IsObject(item) ? item->child : NULL; c; c = c->next) {
        if (strcmp(c->string, "from") == 0) from = c;
        else if (strcmp(c->string, "inputs") == 0 && cJSON_IsNumber(c) && c->valuedouble >= 0 && c->valuedouble <= 8 &&
                 c->valuedouble == floor(c->valuedouble))
            r->inputs = (int32_t)c->valuedouble;
        else if (strcmp(c->string, "transpose") == 0 && cJSON_IsBool(c)) r->transpose = cJSON_IsTrue(c);
        else if (strcmp(c->string, "optional") == 0 && cJSON_IsBool(c)) r->optional = cJSON_IsTrue(c);
        else return wrong_rule(n, r->to, arena_format(n->cli->arena, "\"%s\"", c->string));
    }
    for (const cJSON *c = cJSON_IsArray(from) ? from->child : from; c; c = from == c ? NULL : c->next) {
        if (!cJSON_IsString(c) || r->parts == RUN_PARTS) return wrong_rule(n, r->to, "no list of names");
        r->from[r->parts++] = c->valuestring;
    }
    if (!r->parts) return wrong_rule(n, r->to, "no name");
    return r->inputs == RUN_SAME && (r->parts > 1 || r->transpose) ? wrong_rule(n, r->to, "\"inputs\" is missing") : 0;
}

/* Names there -> the k-th name here, or the number of the rule. */
static int open_map(const struct run_naming *n, int k, struct st_map **map)
{
    struct json_tree text = json_object(n->cli->arena);
    char error[ST_TEXT];
    step_status status;
    for (uint32_t i = 0; i < n->rule_count; i++) {
        const struct run_rule *r = &n->rules[i];
        if (k < 0) json_add_text(text, r->to, arena_format(n->cli->arena, "%" PRIu32, i));
        else if ((uint32_t)k < r->parts) json_add_text(text, r->to, r->from[k]);
    }
    if (!(*map = st_map_open(json_print(text), &status, error)))
        return cli_failed(n->cli, status == STEP_ENOMEM ? EXIT_ENVIRONMENT : EXIT_WRONG, "%s: %s", n->what, error);
    return 0;
}

int run_names_open(struct run_naming *n)
{
    extern const char cli_names_gpt2[], cli_names_llama[];
    const char *hf = cli_text(n->cli, "hf", NULL), *path = cli_text(n->cli, "names", NULL), *text = NULL;
    char *read = NULL;
    size_t length = 0;
    if (hf && path) return cli_usage(n->cli, "--hf and --names: one of them says how tensors are called");
    n->what = hf ? arena_format(n->cli->arena, "--hf %s", hf) : arena_format(n->cli->arena, "--names %s", path);
    if (hf) text = strcmp(hf, "gpt2") == 0 ? cli_names_gpt2 : cli_names_llama, length = strlen(text);
    int code = hf ? 0 : cli_read(n->cli, path, 1 << 24, &read, &length);
    if (code) return code;
    n->root = json_read(n->cli->arena, hf ? text : read, length);
    const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(n->root, "tensors");
    if (!cJSON_IsObject(tensors) || !tensors->child)
        return cli_failed(n->cli, EXIT_WRONG, "%s: expected JSON, {\"tensors\": {name there: name here, ...}}",
                          n->what);
    n->rules = arena_new_array(n->cli->arena, struct run_rule, cJSON_GetArraySize(tensors));
    for (const cJSON *c = tensors->child; c && !code; c = c->next) code = read_rule(n, c, &n->rules[n->rule_count++]);
    if (!code) code = open_map(n, -1, &n->by_rule);
    for (int k = 0; k < RUN_PARTS && !code; k++) code = open_map(n, k, &n->by_part[k]);
    return code;
}

void run_names_close(struct run_naming *n)
{
    st_map_close(n->by_rule);
    for (int k = 0; k < RUN_PARTS; k++) st_map_close(n->by_part[k]);
}

/* ---------------------------------------------------------------- which tensors make which */

static const struct run_exported *find(struct run_naming *n, const char *name, bool use)
{
    struct run_exported key = {.t.name = name};
    const struct run_exported *e = n->count ? bsearch(&key, n->all, n->count, sizeof key, st_by_name) : NULL;
    if (e && use) n->used[e - n->all] = true;
    return e;
}

uint64_t run_product(const int64_t *shape, int32_t from, int32_t to)
{
    uint64_t all = 1;
    for (int32_t i = from; i < to; i++) all *= (uint64_t)shape[i];
    return all;
}

static uint64_t elements(const struct st_tensor *t) { return run_product(t->shape, 0, t->rank); }

/* The low-rank product beside a kernel: [inputs..., rank] and [rank, outputs...]. */
static int find_adapter(struct run_naming *n, struct run_part *p)
{
    const struct st_tensor *k = &p->e->t;
    size_t length = strlen(k->name);
    if (length < 8 || strcmp(k->name + length - 7, ".kernel") != 0) return 0;
    for (int i = 0; i < 3; i++)
        p->lora[i] = find(n, arena_format(n->cli->arena, "%.*s.lora_%c", (int)length - 7, k->name, "abs"[i]), true);
    if (!p->lora[0] && !p->lora[1] && !p->lora[2]) return 0;
    n->merged++;
    bool fits = !p->lora[2] || (!p->lora[2]->t.rank && ir_dtype_is_float(ir_dtype_of_abi(p->lora[2]->t.dtype)));
    fits = fits && p->lora[0] && p->lora[1] && ir_dtype_is_float(ir_dtype_of_abi(k->dtype));
    if (fits) {
        const struct st_tensor *a = &p->lora[0]->t, *b = &p->lora[1]->t;
        int32_t inputs = a->rank - 1;
        fits = inputs > 0 && b->rank > 1 && inputs + b->rank - 1 == k->rank && a->shape[inputs] == b->shape[0] &&
               run_product(a->shape, 0, inputs) == run_product(k->shape, 0, inputs) &&
               run_product(b->shape, 1, b->rank) == run_product(k->shape, inputs, k->rank);
    }
    return fits ? 0
                : cli_failed(n->cli, EXIT_WRONG,
                             "%s: the adapters \"%.*s.lora_a\" and \"lora_b\" make no kernel of \"%s\"", n->what,
                             (int)length - 7, k->name, k->name);
}

static int make_target(struct run_naming *n, const char *name, struct run_rule *r)
{
    struct run_target *t = &n->targets[n->target_count++];
    char source[ST_MAPPED];
    uint64_t rows = 0, columns = 0;
    *t = (struct run_target){.rule = r};
    for (uint32_t k = 0; k < r->parts; k++) {
        struct run_part *p = &t->parts[k];
        st_map_source(n->by_part[k], name, source);
        if (!(p->e = find(n, source, true)))
            return cli_failed(n->cli, EXIT_WRONG, "%s: \"%s\" needs \"%s\", which is not there", n->what, name, source);
        const struct st_tensor *s = &p->e->t;
        int code = find_adapter(n, p);
        if (code) return code;
        if (ir_dtype_of_abi(s->dtype) == IR_TUPLE)
            return cli_failed(n->cli, EXIT_WRONG, "%s: \"%s\" is a float8, which is not converted", n->what, s->name);
        if (!k) t->t = *s;
        int32_t inputs = r->inputs == RUN_SAME ? s->rank : r->inputs;
        p->rows = run_product(s->shape, 0, inputs < s->rank ? inputs : s->rank);
        p->columns = inputs < s->rank ? run_product(s->shape, inputs, s->rank) : 1;
        if (r->inputs > s->rank || (k && (p->rows != rows || s->dtype != t->t.dtype)))
            return cli_failed(n->cli, EXIT_WRONG, "%s: \"%s\" has another shape or dtype than \"%s\" asks for", n->what,
                              s->name, name);
        rows = p->rows;
        columns += p->columns;
    }
    t->t.name = arena_string(n->cli->arena, name);
    if (r->inputs != RUN_SAME) {
        int64_t shape[2] = {(int64_t)(r->transpose ? columns : rows), (int64_t)(r->transpose ? rows : columns)};
        t->t.rank = r->inputs ? 2 : 1;
        for (int32_t i = 0; i < t->t.rank; i++) t->t.shape[i] = shape[r->inputs ? i : 1];
        t->t.bytes = rows * columns * ir_dtype_bytes(ir_dtype_of_abi(t->t.dtype));
    }
    r->met++;
    return 0;
}

/* Rules of layers have to be met in all of them, the others once; optional ones so, or nowhere. */
static int check_rules(struct run_naming *n)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < n->rule_count; i++)
        if (strchr(n->rules[i].to, '*') && n->rules[i].met > layers) layers = n->rules[i].met;
    for (uint32_t i = 0; i < n->rule_count; i++) {
        const struct run_rule *r = &n->rules[i];
        uint32_t needed = strchr(r->to, '*') ? layers : 1;
        if (r->met == needed || (r->optional && !r->met)) continue;
        if (!strchr(r->to, '*') || !r->met)
            return cli_failed(n->cli, EXIT_WRONG, "%s: \"%s\" needs \"%s\", which is not there", n->what, r->to,
                              r->from[0]);
        return cli_failed(n->cli, EXIT_WRONG, "%s: \"%s\" is there %" PRIu32 " times, other tensors of layers %" PRIu32,
                          n->what, r->from[0], r->met, needed);
    }
    return 0;
}

int run_names_targets(struct run_naming *n)
{
    char name[ST_MAPPED], number[ST_MAPPED];
    const char *lost = NULL;
    uint32_t more = 0;
    int code = 0;
    n->used = arena_new_array(n->cli->arena, bool, n->count + 1);
    n->targets = arena_new_array(n->cli->arena, struct run_target, n->count + 1);
    memset(n->used, 0, n->count);
    for (uint32_t i = 0; i < n->count && !code; i++) {
        if (st_map_target(n->by_part[0], n->all[i].t.name, name) != ST_SOURCE) continue;
        st_map_source(n->by_rule, name, number);
        code = make_target(n, name, &n->rules[strtoul(number, NULL, 10)]);
    }
    if (code) return code;
    for (uint32_t i = 0; i < n->count; i++)
        if (!n->used[i] && !lost) lost = n->all[i].t.name;
        else more += !n->used[i];
    if (lost)
        return cli_failed(n->cli, EXIT_WRONG, "%s: no name for \"%s\"%s: it would be lost; --map renames or skips it",
                          n->what, lost, more ? arena_format(n->cli->arena, " and %" PRIu32 " more", more) : "");
    if (n->target_count) qsort(n->targets, n->target_count, sizeof *n->targets, st_by_name);
    for (uint32_t i = 1; i < n->target_count && !code; i++)
        if (strcmp(n->targets[i].t.name, n->targets[i - 1].t.name) == 0)
            code = cli_failed(n->cli, EXIT_WRONG, "%s: two tensors become \"%s\"", n->what, n->targets[i].t.name);
    return code ? code : check_rules(n);
}

/* ---------------------------------------------------------------- their bytes */

double *run_names_numbers(struct run_naming *n, const struct run_exported *e, step_status *status)
{
    uint64_t count = elements(&e->t);
    enum ir_dtype dtype = ir_dtype_of_abi(e->from->dtype);
    char *raw = malloc(e->from->bytes + 1);
    double *out = malloc((count + 1) * sizeof *out);
    *status = raw && out ? n->source->read(n->source, e, raw, n->source->error) : STEP_ENOMEM;
    for (uint64_t i = 0; !*status && i < count; i++) out[i] = ir_element_get(dtype, raw, i);
    free(raw);
    if (*status) free(out), out = NULL;
    return out;
}

/* A kernel with what its adapter adds, summed in float64 and rounded to float32 first, as others merge them. */
static step_status merge(struct run_naming *n, const struct run_part *p, double *to)
{
    step_status status;
    double *a = run_names_numbers(n, p->lora[0], &status), *b = a ? run_names_numbers(n, p->lora[1], &status) : NULL;
    double *scale = b && p->lora[2] ? run_names_numbers(n, p->lora[2], &status) : NULL;
    const struct st_tensor *second = &p->lora[1]->t;
    uint64_t rank = (uint64_t)second->shape[0], columns = run_product(second->shape, 1, second->rank);
    bool wide = ir_dtype_of_abi(p->e->from->dtype) == IR_F64;
    for (uint64_t i = 0; !status && i < elements(&p->e->t); i++) {
        double change = 0;
        for (uint64_t k = 0; k < rank; k++) change += a[i / columns * rank + k] * b[k * columns + i % columns];
        if (scale) change *= *scale;
        if (change != 0) to[i] = wide ? to[i] + change : (double)(float)(to[i] + change); /* -0 + 0 is 0 */
    }
    free(a);
    free(b);
    free(scale);
    return status;
}

static step_status fetch(void *user, uint32_t index, void *to)
{
    struct run_naming *n = user;
    const struct run_target *t = n->first + index;
    uint64_t columns = 0, before = 0;
    enum ir_dtype dtype = ir_dtype_of_abi(t->t.dtype);
    size_t item = ir_dtype_bytes(dtype);
    step_status status = STEP_OK;
    for (uint32_t k = 0; k < t->rule->parts; k++) columns += t->parts[k].columns;
    for (uint32_t k = 0; k < t->rule->parts && !status; before += t->parts[k++].columns) {
        const struct run_part *p = &t->parts[k];
        bool moves = p->e->from->dtype == t->t.dtype && !p->lora[0]; /* bit for bit */
        double *numbers = moves ? NULL : run_names_numbers(n, p->e, &status);
        char *raw = moves ? malloc(p->e->from->bytes + 1) : NULL;
        if (moves) status = raw ? n->source->read(n->source, p->e, raw, n->source->error) : STEP_ENOMEM;
        else if (!status && p->lora[0]) status = merge(n, p, numbers);
        for (uint64_t i = 0; !status && i < p->rows * p->columns; i++) {
            uint64_t row = i / p->columns, column = before + i % p->columns,
                     at = t->rule->transpose ? column * p->rows + row : row * columns + column;
            if (moves) memcpy((char *)to + at * item, raw + i * item, item);
            else status = run_number_set(dtype, to, at, numbers[i], t->t.name, n->source->error);
        }
        free(raw);
        free(numbers);
    }
    return status;
}

/* ---------------------------------------------------------------- config.json */

/* What a shape tells; item NULL: it tells nothing. */
static struct json_tree known(struct run_naming *n, const cJSON *value)
{
    struct json_tree box = json_object(n->cli->arena), none = {0};
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(value, "of"),
                *extent = cJSON_GetObjectItemCaseSensitive(value, "extent"),
                *count = cJSON_GetObjectItemCaseSensitive(value, "count"),
                *absent = cJSON_GetObjectItemCaseSensitive(value, "absent"),
                *present = cJSON_GetObjectItemCaseSensitive(value, "present");
    uint32_t met = 0;
    for (uint32_t i = 0; cJSON_IsString(count) && i < n->count; i++)
        met += glob_match(count->valuestring, n->all[i].t.name);
    if (cJSON_IsString(of) && cJSON_IsNumber(extent)) {
        const struct run_exported *e = find(n, of->valuestring, false);
        if (!e || !(extent->valuedouble >= 0 && extent->valuedouble < e->t.rank)) return none;
        json_add_integer(box, "x", e->t.shape[(int32_t)extent->valuedouble]);
    } else if (cJSON_IsString(count)) json_add_integer(box, "x", met);
    else if (cJSON_IsString(absent)) json_add_bool(box, "x", !find(n, absent->valuestring, false));
    else if (cJSON_IsString(present)) json_add_bool(box, "x", find(n, present->valuestring, false) != NULL);
    else return json_copy(n->cli->arena, value);
    return json_copy(n->cli->arena, cJSON_GetObjectItemCaseSensitive(box.item, "x"));
}

/* Of the model that it came from, checked by what shapes tell, or that and what holds for documents of the template,
 * which is said. */
static int make_config(struct run_naming *n, const char **out)
{
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(n->root, "config"), *given = NULL,
                *otherwise = cJSON_GetObjectItemCaseSensitive(n->root, "otherwise");
    const char *path = cli_text(n->cli, "config", NULL);
    struct json_tree made = json_object(n->cli->arena);
    struct str told = STR(n->cli->arena);
    char *text;
    size_t length;
    *out = NULL;
    if (path) {
        int code = cli_read(n->cli, path, 1 << 24, &text, &length);
        if (code) return code;
        if (!cJSON_IsObject(given = json_read(n->cli->arena, text, length)))
            return cli_failed(n->cli, EXIT_WRONG, "--config %s: no JSON object", path);
    }
    if (!given && !config) return 0;
    for (const cJSON *c = given ? given->child : NULL; c; c = c->next)
        if (strcmp(c->string, "dtype") != 0 && strcmp(c->string, "torch_dtype") != 0 &&
            !(cJSON_IsNull(c) && cJSON_GetObjectItemCaseSensitive(config, c->string)))
            json_add(made, c->string, json_copy(n->cli->arena, c));
    for (const cJSON *c = config ? config->child : NULL; c; c = c->next) {
        struct json_tree value = known(n, c);
        const cJSON *there = cJSON_GetObjectItemCaseSensitive(made.item, c->string);
        if (there && value.item && !cJSON_Compare(there, value.item, true) && strcmp(c->string, "architectures") != 0)
            return cli_failed(n->cli, EXIT_WRONG, "--config %s: \"%s\" is %s; these parameters have %s", path,
                              c->string, json_print(json_copy(n->cli->arena, there)), json_print(value));
        if (!there && value.item) json_add(made, c->string, value);
    }
    for (const cJSON *c = otherwise && !given ? otherwise->child : NULL; c; c = c->next) {
        str_addf(&told, "%s%s %s", told.length ? ", " : "", c->string, json_print(json_copy(n->cli->arena, c)));
        json_add(made, c->string, json_copy(n->cli->arena, c));
    }
    if (told.length && !n->cli->quiet)
        fprintf(
            stderr,
            "stepc: note: config.json: shapes do not tell %s: as in documents of `stepc init`; --config FILE says it "
            "otherwise\n",
            str_text(&told));
    if (n->target_count) json_add_text(made, "dtype", ir_dtype_name(ir_dtype_of_abi(n->targets[0].t.dtype)));
    *out = json_print_lines(made);
    return 0;
}

/* What a configuration has and shapes do not tell, where that is not what the table says. */
static void tell(struct str *told, const cJSON *there, const cJSON *table)
{
    if (cJSON_IsNull(there) || cJSON_Compare(there, table, true)) return;
    str_addf(told, "%s%s %s", told->length ? ", " : "", there->string, json_print(json_copy(told->arena, there)));
}

int run_names_compare(struct run_naming *n, const char *path)
{
    struct str told = STR(n->cli->arena);
    char *text;
    size_t length;
    int code = cli_read(n->cli, path, 1 << 24, &text, &length);
    if (code) return code;
    const cJSON *given = json_read(n->cli->arena, text, length), *there;
    if (!cJSON_IsObject(given)) return cli_failed(n->cli, EXIT_WRONG, "%s: no JSON object", path);
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(n->root, "config"),
                *others[] = {cJSON_GetObjectItemCaseSensitive(n->root, "otherwise"),
                             cJSON_GetObjectItemCaseSensitive(n->root, "plain")};
    for (const cJSON *c = config ? config->child : NULL; c; c = c->next) {
        there = cJSON_GetObjectItemCaseSensitive(given, c->string);
        struct json_tree value = cJSON_IsObject(c) ? known(n, c) : (struct json_tree){0}; /* others are words */
        if (cJSON_IsString(c) && there) tell(&told, there, c);
        if (!there || cJSON_IsNull(there) || !value.item) continue;
        struct json_tree said = json_copy(n->cli->arena, there);
        if (cJSON_Compare(said.item, value.item, true)) continue;
        return cli_failed(n->cli, EXIT_WRONG, "%s: \"%s\" is %s; the model of --like has %s", path, c->string,
                          json_print(said), json_print(value));
    }
    for (int i = 0; i < 2; i++)
        for (const cJSON *c = others[i] ? others[i]->child : NULL; c; c = c->next)
            if ((there = cJSON_GetObjectItemCaseSensitive(given, c->string))) tell(&told, there, c);
    if (told.length && !n->cli->quiet)
        fprintf(stderr, "stepc: note: %s: shapes do not tell %s: see that the document says so\n", path,
                str_text(&told));
    return 0;
}

/* ---------------------------------------------------------------- the folder */

/* Weights that are there would be read beside these, or in their place. */
int run_names_folder(struct run_naming *n, const char *folder)
{
    if (mkdir(folder, 0777) && errno != EEXIST)
        return cli_failed(n->cli, EXIT_ENVIRONMENT, "cannot make %s: %s", folder, strerror(errno));
    DIR *d = opendir(folder);
    if (!d) return cli_failed(n->cli, EXIT_ENVIRONMENT, "-o %s: %s", folder, strerror(errno));
    const char *there = NULL;
    for (const struct dirent *e; !there && (e = readdir(d));)
        if (strstr(e->d_name, ".safetensors") || strcmp(e->d_name, "config.json") == 0)
            there = arena_string(n->cli->arena, e->d_name);
    closedir(d);
    return there
               ? cli_failed(n->cli, EXIT_ENVIRONMENT, "-o %s holds %s already: export replaces no model", folder, there)
               : 0;
}

static const char *file_name(struct arena *arena, uint32_t file, uint32_t files)
{
    return files == 1 ? "model.safetensors"
                      : arena_format(arena, "model-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", file + 1, files);
}

int run_names_write(struct run_naming *n, const char *folder, uint64_t most)
{
    char error[ST_TEXT];
    struct json_tree index = json_object(n->cli->arena), map;
    uint64_t bytes = 0, total = 0;
    uint32_t *end = arena_new_array(n->cli->arena, uint32_t, n->target_count + 1), files = 0;
    for (uint32_t i = 0; i < n->target_count; i++) {
        uint64_t more = n->targets[i].t.bytes;
        total += more;
        if (i && bytes + more > most) end[files++] = i, bytes = 0;
        bytes += more;
    }
    end[files++] = n->target_count;
    int64_t whole = (int64_t)total;
    json_add_integer(json_add_object(index, "metadata"), "total_size", whole);
    map = json_add_object(index, "weight_map");
    struct st_tensor *tensors = arena_new_array(n->cli->arena, struct st_tensor, n->target_count + 1);
    for (uint32_t i = 0; i < n->target_count; i++) tensors[i] = n->targets[i].t;
    const char *config;
    int code = make_config(n, &config);
    if (!code) code = run_names_folder(n, folder);
    if (code) return code;
    uint32_t file = 0, begin = 0;
    for (; file < files && !code; begin = end[file++]) {
        const char *name = file_name(n->cli->arena, file, files);
        for (uint32_t i = begin; i < end[file]; i++) json_add_text(map, tensors[i].name, name);
        n->first = &n->targets[begin];
        step_status status = st_write(arena_format(n->cli->arena, "%s/%s", folder, name), tensors + begin,
                                      end[file] - begin, ST_FOREIGN, fetch, n, error);
        if (status == STEP_ENOMEM) snprintf(error, sizeof error, "out of memory");
        if (status) code = run_file_failed(n->cli, status, *n->source->error ? n->source->error : error);
    }
    const char *text = json_print_lines(index),
               *list = arena_format(n->cli->arena, "%s/model.safetensors.index.json", folder);
    if (!code && files > 1) code = cli_write(n->cli, list, text, strlen(text));
    if (!code && config)
        code = cli_write(n->cli, arena_format(n->cli->arena, "%s/config.json", folder), config, strlen(config));
    for (uint32_t i = 0; code && i < file; i++) /* a part of it would be in the way of another try */
        unlink(arena_format(n->cli->arena, "%s/%s", folder, file_name(n->cli->arena, i, files)));
    if (code) unlink(list);
    if (code || n->cli->quiet) return code;
    const char *merged = n->merged
                             ? arena_format(n->cli->arena, "; adapters are merged into %" PRIu32 " kernels", n->merged)
                             : "";
    const char *said = arena_format(n->cli->arena, "%s: %" PRIu32 " tensors in %" PRIu32 " file%s, %s bytes%s\n",
                                    folder, n->target_count, files, files > 1 ? "s" : "",
                                    cli_grouped(n->cli->arena, (double)total), merged);
    return cli_print(n->cli, said, strlen(said));
}
