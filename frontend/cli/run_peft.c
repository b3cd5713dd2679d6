/* LoRA adapters as PEFT has them: a folder with adapter_config.json and adapter_model.safetensors. Beside a module of
 * the model stand lora_A [rank, in] and lora_B [out, rank], added alpha / rank times. `checkpoint export --peft` writes
 * such a folder, `run --peft DIR` begins with one; a table of names (run_names.c) says which layers a module is. One
 * that is several layers here (GPT-2's c_attn: query, key and value) has one lora_A for all of them: coming in, each
 * layer gets a copy of its own, which is said, since training moves them apart, and its part of lora_B; going out,
 * ranks are put beside each other and lora_B has blocks, so that no number changes. What is in a folder and not used is
 * an error; samples/import/peft_adapters.py does the same. */
#include "frontend/cli/run_names.h"
#include "ir/ir.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BEGIN "base_model.model."
#define CONFIG "adapter_config.json"
#define WEIGHTS "adapter_model.safetensors"

/* ---------------------------------------------------------------- the model that PEFT stands around */

/* "peft" of the table: what is said of it there; NULL: nothing. */
static const char *said(const struct run_naming *n, const char *key)
{
    const cJSON *peft = cJSON_GetObjectItemCaseSensitive(n->root, "peft"),
                *value = cJSON_GetObjectItemCaseSensitive(peft, key);
    return cJSON_IsString(value) ? value->valuestring : NULL;
}

/* Files of a bare model have its names; PEFT has those of the model with its head, in which the bare one has a prefix,
 * and the head, which stands beside it, has none. */
static bool is_beside(const struct run_naming *n, const char *name)
{
    const cJSON *peft = cJSON_GetObjectItemCaseSensitive(n->root, "peft"),
                *beside = cJSON_GetObjectItemCaseSensitive(peft, "beside");
    for (const cJSON *c = cJSON_IsArray(beside) ? beside->child : NULL; c; c = c->next)
        if (cJSON_IsString(c) && strcmp(c->valuestring, name) == 0) return true;
    return !said(n, "prefix");
}

static const char *name_of(const struct run_naming *n, const char *there)
{
    return is_beside(n, there) ? there : arena_format(n->cli->arena, "%s%s", said(n, "prefix"), there);
}

/* The other way; NULL: it is no name of that model. */
static const char *name_there(const struct run_naming *n, const char *name)
{
    if (is_beside(n, name)) return name;
    size_t length = strlen(said(n, "prefix"));
    return strncmp(name, said(n, "prefix"), length) == 0 ? name + length : NULL;
}

/* ---------------------------------------------------------------- out */

struct module { /* of the file: its matrices, both of them */
    const struct run_target *target;
    const char *name;
    uint64_t rank, rows, columns;
    double scale;
};

struct matrices {
    struct run_naming *n;
    const struct module **of; /* of each tensor of the file; lora_A and lora_B by the name */
    const struct st_tensor *tensors;
};

/* Inputs and outputs of a part: a rule that keeps the kernel's shape does not divide it, its adapter does. */
static uint64_t rows_of(const struct run_part *p)
{
    return p->lora[0] ? run_product(p->lora[0]->t.shape, 0, p->lora[0]->t.rank - 1) : p->rows;
}

static uint64_t columns_of(const struct run_part *p)
{
    return p->lora[1] ? run_product(p->lora[1]->t.shape, 1, p->lora[1]->t.rank) : p->columns;
}

static step_status fetch(void *user, uint32_t index, void *to)
{
    const struct matrices *x = user;
    const struct module *m = x->of[index];
    const struct st_tensor *t = &x->tensors[index];
    enum ir_dtype dtype = ir_dtype_of_abi(t->dtype);
    bool second = strstr(t->name, ".lora_B.weight") != NULL;
    step_status status = STEP_OK;
    uint64_t rank = 0, column = 0;
    memset(to, 0, t->bytes);
    for (uint32_t k = 0; k < m->target->rule->parts && !status; column += columns_of(&m->target->parts[k++])) {
        const struct run_part *p = &m->target->parts[k];
        if (!p->lora[0]) continue;
        double *v = run_names_numbers(x->n, p->lora[second], &status);
        uint64_t own = (uint64_t)p->lora[1]->t.shape[0];
        for (uint64_t r = 0; v && r < own; r++)
            for (uint64_t i = 0; i < (second ? columns_of(p) : rows_of(p)); i++)
                if (second) ir_element_set(dtype, to, (column + i) * m->rank + rank + r, v[r * columns_of(p) + i]);
                else ir_element_set(dtype, to, (rank + r) * m->rows + i, v[i * own + r]);
        rank += own;
        free(v);
    }
    return status;
}

/* The adapters of a tensor there; name NULL: it has none. */
static int module_of(struct run_naming *n, const struct run_target *t, struct module *m)
{
    size_t length = strlen(t->t.name);
    step_status status = STEP_OK;
    *m = (struct module){.target = t};
    for (uint32_t k = 0; k < t->rule->parts; k++) {
        const struct run_part *p = &t->parts[k];
        m->columns += columns_of(p), m->rows = rows_of(p);
        if (!p->lora[0]) continue;
        double *given = p->lora[2] ? run_names_numbers(n, p->lora[2], &status) : NULL, scale = given ? *given : 1;
        free(given);
        if (status) return run_file_failed(n->cli, status, n->source->error);
        if (m->rank && scale != m->scale)
            return cli_failed(n->cli, EXIT_WRONG,
                              "--peft: the parts of \"%s\" are added %g and %g times: PEFT has one "
                              "scale for a module",
                              t->t.name, m->scale, scale);
        m->scale = scale;
        m->rank += (uint64_t)p->lora[1]->t.shape[0];
    }
    if (!m->rank) return 0;
    if (length < 8 || strcmp(t->t.name + length - 7, ".weight") != 0)
        return cli_failed(n->cli, EXIT_WRONG, "--peft: \"%s\" has adapters and is no weight of a module", t->t.name);
    const char *name = name_of(n, t->t.name);
    m->name = arena_format(n->cli->arena, "%.*s", (int)strlen(name) - 7, name);
    return 0;
}

/* As the table says, or by its configuration: that of a model of transformers which tells the next token. */
static const char *task_of(const struct run_naming *n)
{
    if (said(n, "task_type")) return said(n, "task_type");
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(n->root, "config"),
                *named = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(config, "architectures"), 0);
    bool causal = cJSON_IsString(named) &&
                  (strstr(named->valuestring, "ForCausalLM") || strstr(named->valuestring, "LMHead"));
    return causal ? "CAUSAL_LM" : NULL;
}

/* The folder of --config, or that which the table was made of. */
static const char *base_of(const struct run_naming *n)
{
    const char *config = cli_text(n->cli, "config", NULL), *slash = config ? strrchr(config, '/') : NULL;
    if (!config) return said(n, "base_model_name_or_path");
    char *folder = arena_format(n->cli->arena, "%.*s", slash ? (int)(slash + 1 - config) : 1, slash ? config : "."),
         *whole = realpath(folder, NULL);
    const char *out = arena_string(n->cli->arena, whole ? whole : folder);
    free(whole);
    return out;
}

static void write_config(struct run_naming *n, const struct module *all, uint32_t count, struct json_tree c)
{
    struct json_tree targets, ranks, alphas;
    json_add_text(c, "peft_type", "LORA");
    json_add(c, "task_type", json_text(n->cli->arena, task_of(n)));
    json_add(c, "base_model_name_or_path", json_text(n->cli->arena, base_of(n)));
    json_add_integer(c, "r", (int64_t)all->rank);
    json_add_number(c, "lora_alpha", all->scale * (double)all->rank, false);
    json_add_number(c, "lora_dropout", 0, false);
    json_add_text(c, "bias", "none");
    json_add_bool(c, "fan_in_fan_out", !all->target->rule->transpose);
    json_add_bool(c, "use_rslora", false);
    json_add_bool(c, "inference_mode", true);
    targets = json_add_array(c, "target_modules"), ranks = json_add_object(c, "rank_pattern");
    alphas = json_add_object(c, "alpha_pattern");
    for (const struct module *m = all; m < all + count; m++) {
        json_add(targets, NULL, json_text(n->cli->arena, m->name));
        if (m->rank != all->rank) json_add_integer(ranks, m->name, (int64_t)m->rank);
        if (m->scale * (double)m->rank != all->scale * (double)all->rank)
            json_add_number(alphas, m->name, m->scale * (double)m->rank, false);
    }
}

static const struct module *find_module(const struct module *all, uint32_t count, const char *tensor)
{
    for (const struct module *m = all; m < all + count; m++) {
        size_t length = strlen(m->name);
        if (!strncmp(tensor + strlen(BEGIN), m->name, length) && !strncmp(tensor + strlen(BEGIN) + length, ".lora_", 6))
            return m;
    }
    BUG("no module of %s", tensor);
}

/* A checkpoint that a run wrote says what is trained; one of a file (`checkpoint import`) does not. Of its tensors
 * those whose training the optimizer keeps something of: opt_state.PLACE.NAME, the longest NAME that there is. */
static const bool *find_trained(const struct run_naming *n)
{
    const struct st_file *all = &n->source->c->all;
    bool *trained = arena_new_array(n->cli->arena, bool, all->count + 1);
    for (uint32_t i = 0; i < all->count; i++) {
        const char *dot = all->tensors[i].name;
        const struct st_tensor *of = NULL;
        if (strcmp(run_role_of(n->cli, n->source->c, &all->tensors[i]), "opt_state") != 0) continue;
        while (!of && (dot = strchr(dot, '.'))) of = st_find(all, ++dot);
        if (of) trained[of - all->tensors] = true;
    }
    return trained;
}

/* What was trained, or is counted from the data, and is no adapter has no place in the folder. */
static int check_rest(const struct run_naming *n)
{
    const struct st_file *all = &n->source->c->all;
    const char *asked = cli_text(n->cli, "peft", ""), *lost = NULL;
    const bool *trained = find_trained(n);
    bool known = false;
    uint32_t more = 0;
    if (*asked && strcmp(asked, "adapters") != 0) return cli_usage(n->cli, "--peft=%s: expected adapters", asked);
    for (uint32_t i = 0; i < n->count; i++) {
        const struct run_exported *e = &n->all[i];
        const char *name = e->from->name;
        bool average = strcmp(run_role_of(n->cli, n->source->c, e->from), "ema") == 0;
        const struct st_tensor *own = st_find(all, average ? name + strlen("ema.") : name);
        bool changed = e->item || (own && (own->trained || trained[own - all->tensors]));
        known |= own && own->trained;
        if (!changed || run_is_adapter(e->t.name)) continue;
        if (lost) more++;
        else lost = e->t.name;
    }
    if (lost && !*asked)
        return cli_failed(
            n->cli, EXIT_WRONG,
            "--peft: \"%s\"%s changed in the training and is no adapter: it would be lost; without --peft "
            "all is written, --peft=adapters leaves out what is none",
            lost, more ? arena_format(n->cli->arena, " (and %u more)", more) : "");
    if (!known && !*asked && !n->cli->quiet)
        fprintf(stderr,
                "stepc: note: --peft: %s does not tell whether anything else was trained than the adapters, which "
                "alone are written\n",
                all->path);
    return 0;
}

int run_export_peft(struct run_naming *n, const char *folder)
{
    struct arena *arena = n->cli->arena;
    struct module *all = arena_new_array(arena, struct module, n->target_count + 1);
    struct st_tensor *tensors = arena_new_array(arena, struct st_tensor, 2 * n->target_count + 1);
    struct matrices x = {n, arena_new_array(arena, const struct module *, 2 * n->target_count + 1), tensors};
    struct json_tree config = json_object(arena);
    char error[ST_TEXT];
    uint32_t count = 0;
    int code = check_rest(n);
    for (uint32_t i = 0; i < n->target_count && !code; i++) {
        struct module *m = &all[count];
        code = module_of(n, &n->targets[i], m);
        if (code || !m->name) continue;
        const struct run_part *p = m->target->parts;
        while (!p->lora[0]) p++;
        for (int k = 0; k < 2; k++) {
            uint64_t rows = k ? m->columns : m->rank, columns = k ? m->rank : m->rows;
            struct st_tensor t = p->lora[0]->t;
            t.name = arena_format(arena, BEGIN "%s.lora_%c.weight", m->name, "AB"[k]);
            t.rank = 2, t.shape[0] = (int64_t)rows, t.shape[1] = (int64_t)columns;
            t.bytes = rows * columns * ir_dtype_bytes(ir_dtype_of_abi(t.dtype));
            tensors[2 * count + (uint32_t)k] = t;
        }
        if (m->target->rule->transpose != all->target->rule->transpose)
            code = cli_failed(n->cli, EXIT_WRONG,
                              "--peft: \"%s\" and \"%s\" lie differently: PEFT has one "
                              "\"fan_in_fan_out\" for all",
                              m->name, all->name);
        count++;
    }
    if (!code && !count) code = cli_failed(n->cli, EXIT_WRONG, "--peft: there are no adapters");
    if (!code) code = run_names_folder(n, folder);
    if (code) return code;
    qsort(tensors, 2 * count, sizeof *tensors, st_by_name);
    for (uint32_t i = 0; i < 2 * count; i++) x.of[i] = find_module(all, count, tensors[i].name);
    write_config(n, all, count, config);
    const char *text = json_print_lines(config);
    step_status status = st_write(arena_format(arena, "%s/" WEIGHTS, folder), tensors, 2 * count, ST_FOREIGN, fetch, &x,
                                  error);
    if (status) return run_file_failed(n->cli, status, *n->source->error ? n->source->error : error);
    code = cli_write(n->cli, arena_format(arena, "%s/" CONFIG, folder), text, strlen(text));
    if (code) unlink(arena_format(arena, "%s/" WEIGHTS, folder));
    if (code || n->cli->quiet) return code;
    if (cJSON_GetObjectItemCaseSensitive(n->root, "config") && !cJSON_GetObjectItemCaseSensitive(n->root, "peft"))
        fprintf(stderr,
                "stepc: note: --peft: %s does not say which names PEFT has for them (\"peft\"); they are those of the "
                "table\n",
                n->what);
    const char *done = arena_format(arena, "%s: adapters of %u modules\n", folder, count);
    return cli_print(n->cli, done, strlen(done));
}

/* ---------------------------------------------------------------- in */

struct given { /* a tensor of the step and its values */
    struct step_tensor t;
    double *numbers;
    uint64_t bytes;
};

struct incoming {
    struct run *r;
    VEC(struct given *) all;
    struct run_naming names;
    struct st_file file;
    const char *folder;
    const cJSON *config;
    bool *used;
    struct run_listed divided; /* modules that are several layers here */
};

static int wrong(const struct incoming *x, const char *text)
{
    return cli_failed(x->r->cli, EXIT_WRONG, "--peft %s: %s", x->folder, text);
}

/* Whether what is read here has the form that it should have. */
static bool has_form(const cJSON *c)
{
    bool pattern = !strcmp(c->string, "rank_pattern") || !strcmp(c->string, "alpha_pattern");
    if (!strcmp(c->string, "r") || !strcmp(c->string, "lora_alpha")) return cJSON_IsNumber(c) && c->valuedouble > 0;
    if (!strcmp(c->string, "use_rslora")) return cJSON_IsBool(c) || cJSON_IsNull(c);
    if (pattern && !cJSON_IsObject(c)) return cJSON_IsNull(c);
    for (const cJSON *e = pattern ? c->child : NULL; e; e = e->next)
        if (!cJSON_IsNumber(e) || !(e->valuedouble > 0)) return false;
    return strcmp(c->string, "peft_type") != 0 || cJSON_IsString(c);
}

/* Whether a key of the configuration is one that changes nothing, or is read here. */
static bool is_covered(struct arena *arena, const cJSON *c)
{
    const char *said[32];
    size_t count = str_choices(arena,
                               "r|lora_alpha|rank_pattern|alpha_pattern|use_rslora|lora_dropout|fan_in_fan_out|"
                               "target_modules|base_model_name_or_path|task_type|inference_mode|revision|auto_mapping|"
                               "layers_pattern|megatron_config|megatron_core|loftq_config|runtime_config|"
                               "qalora_group_size|peft_version",
                               said, 32);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(c->string, said[i])) return has_form(c);
    if (!strcmp(c->string, "init_lora_weights")) /* the others change the model's own weights */
        return !cJSON_IsString(c) || !strcmp(c->valuestring, "gaussian") || !strcmp(c->valuestring, "orthogonal") ||
               !strcmp(c->valuestring, "eva");
    if (cJSON_IsString(c))
        return (!strcmp(c->string, "peft_type") && !strcmp(c->valuestring, "LORA")) ||
               (!strcmp(c->string, "bias") && !strcmp(c->valuestring, "none"));
    return has_form(c) &&
           (cJSON_IsNull(c) || cJSON_IsFalse(c) || ((cJSON_IsArray(c) || cJSON_IsObject(c)) && !c->child));
}

static int read_config(struct incoming *x)
{
    struct cli *cli = x->r->cli;
    char *text;
    size_t length;
    int code = cli_read(cli, arena_format(cli->arena, "%s/" CONFIG, x->folder), 1 << 24, &text, &length);
    if (code) return code;
    x->config = json_read(cli->arena, text, length);
    if (!cJSON_IsObject(x->config)) return wrong(x, CONFIG " is no JSON object");
    for (const cJSON *c = x->config->child; c; c = c->next)
        if (!is_covered(cli->arena, c))
            return wrong(x, arena_format(cli->arena, CONFIG ": \"%s\": %s is not supported", c->string,
                                         json_print(json_copy(cli->arena, c))));
    const char *needed[] = {"peft_type", "r", "lora_alpha"};
    for (size_t i = 0; i < 3; i++)
        if (!cJSON_GetObjectItemCaseSensitive(x->config, needed[i]))
            return wrong(x, arena_format(cli->arena, CONFIG " lacks \"%s\"", needed[i]));
    return 0;
}

/* A regular expression of Python as one of POSIX; NULL: what it says there is another thing here. All of a name has to
 * match, so that it is one whether a quantifier takes much or little. */
static const char *posix_of(struct arena *arena, const char *python)
{
    struct str s = STR(arena);
    const char *set = NULL; /* of a set of characters what may end it: ] does not where it comes first */
    bool quantified = false;
    for (const char *at = python; *at; at++) {
        bool group = !set && at[0] == '(' && at[1] == '?', again = quantified;
        quantified = !set && strchr("*+?}", *at);
        if ((group && at[2] != ':') || (*at == '$' && at[1]) || (*at == '^' && at > python && at[-1] != '[') ||
            (again && *at == '+') || (set && (*at == '\\' || *at == '[')))
            return NULL;
        if (again && *at == '?') continue;
        if (!set && *at == '[') set = at + 1 + (at[1] == '^');
        else if (set && *at == ']' && at > set) set = NULL;
        if (*at != '\\') {
            str_addf(&s, "%c", *at);
            if (group) at += 2;
            continue;
        }
        if (*++at == 'd') str_add(&s, "[0-9]");
        else if (*at == 'D') str_add(&s, "[^0-9]");
        else if (*at && (strchr("wWsS", *at) || !isalnum((unsigned char)*at))) str_addf(&s, "\\%c", *at);
        else return NULL;
    }
    return str_text(&s);
}

/* A number of the configuration for a module: by the first pattern that its name or an end of it matches, as
 * re.match(r"(.*\.)?(PATTERN)$") does; one with ^ at its beginning matches all of it. */
static int number_for(const struct incoming *x, const char *key, const char *patterns, const char *module, double *out)
{
    struct arena *arena = x->r->cli->arena;
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(x->config, patterns);
    for (const cJSON *c = map ? map->child : NULL; c; c = c->next) {
        regex_t e;
        const char *own = posix_of(arena, c->string + (*c->string == '^')),
                   *before = *c->string == '^' ? "" : "(.*\\.)?";
        if (!own || (!*before && strchr(own, '|')) ||
            regcomp(&e, arena_format(arena, "^%s(%s)$", before, own), REG_EXTENDED | REG_NOSUB))
            return wrong(x, arena_format(arena, "\"%s\" of \"%s\" is a pattern that is not read here; name the module",
                                         c->string, patterns));
        bool met = !regexec(&e, module, 0, NULL, 0);
        regfree(&e);
        *out = c->valuedouble;
        if (met) return 0;
    }
    *out = cJSON_GetObjectItemCaseSensitive(x->config, key)->valuedouble;
    return 0;
}

static double *numbers_of(const struct incoming *x, const struct st_tensor *t)
{
    enum ir_dtype dtype = ir_dtype_of_abi(t->dtype);
    uint64_t count = t->bytes / ir_dtype_bytes(dtype);
    char error[ST_TEXT], *raw = malloc(t->bytes + 1);
    double *out = malloc((count + 1) * sizeof *out);
    step_status status = raw && out ? st_read(&x->file, t, 0, raw, t->bytes, error) : STEP_ENOMEM;
    for (uint64_t i = 0; !status && i < count; i++) out[i] = ir_element_get(dtype, raw, i);
    free(raw);
    if (status) free(out), out = NULL;
    return out;
}

/* What a tensor of the step begins with: [rows, columns] turned round, of which each row stands `stride` numbers on. */
static int put(struct incoming *x, const struct step_tensor *t, const double *v, uint64_t rows, uint64_t stride)
{
    uint64_t count = run_product(t->shape, 0, t->rank), columns = count / rows;
    struct given *g = arena_new(x->r->cli->arena, struct given);
    *g = (struct given){.t = *t, .bytes = count * sizeof *g->numbers};
    g->numbers = arena_new_array(x->r->cli->arena, double, count);
    for (uint64_t i = 0; i < count; i++) g->numbers[i] = v[i % columns * stride + i / columns];
    vec_push(x->r->cli->arena, &x->all, g);
    return 0;
}

static bool write_all(int fd, const void *bytes, size_t length)
{
    for (ssize_t n; length; bytes = (const char *)bytes + n, length -= (size_t)n)
        if ((n = write(fd, bytes, length)) < 0) return false;
    return true;
}

/* Loaded as a file is, so that what follows from parameters (averages, copies in an optimizer's state) follows from
 * these; the file has no name, and nothing stays of it. */
static int load_all(struct incoming *x)
{
    struct cli *cli = x->r->cli;
    struct json_tree header = json_object(cli->arena);
    uint64_t at = 0;
    for (size_t i = 0; i < x->all.count; i++) {
        const struct step_tensor *t = &x->all.items[i]->t;
        struct json_tree e = json_add_object(header, t->name), shape, offsets;
        json_add_text(e, "dtype", "F64"); /* to be cast: whatever a folder holds is exact in it */
        shape = json_add_array(e, "shape");
        for (int32_t k = 0; k < t->rank; k++) json_add_integer(shape, NULL, t->shape[k]);
        offsets = json_add_array(e, "data_offsets");
        json_add_integer(offsets, NULL, (int64_t)at);
        json_add_integer(offsets, NULL, (int64_t)(at += x->all.items[i]->bytes));
    }
    const char *text = json_print(header);
    uint64_t length = strlen(text);
    int fd = memfd_create("adapters", MFD_CLOEXEC);
    bool good = fd >= 0 && write_all(fd, &length, sizeof length) && write_all(fd, text, length);
    for (size_t i = 0; good && i < x->all.count; i++)
        good = write_all(fd, x->all.items[i]->numbers, x->all.items[i]->bytes);
    int code = good ? 0 : cli_failed(cli, EXIT_ENVIRONMENT, "--peft: %s", strerror(errno));
    struct step_load load = {.size = sizeof load,
                             .path = arena_format(cli->arena, "/proc/self/fd/%d", fd),
                             .flags = STEP_LOAD_PARAMS_ONLY | STEP_LOAD_PARTIAL | STEP_LOAD_CAST};
    step_status status = code ? STEP_OK : x->r->api->load(x->r->instance, &load);
    if (fd >= 0) close(fd);
    return status ? run_status(x->r, status, "--peft") : code;
}

static bool find(const struct incoming *x, const char *layer, char which, struct step_tensor *t)
{
    *t = (struct step_tensor){.size = sizeof *t};
    return !x->r->api->tensor_find(x->r->instance, arena_format(x->r->cli->arena, "%s.lora_%c", layer, which), t);
}

/* One layer of a module: all of lora_A, and from `at` on its part of lora_B, of which there are so many `outputs`. */
static int put_layer(struct incoming *x, const char *layer, const struct st_tensor *first, double *const v[2],
                     double alpha, uint64_t outputs, uint64_t *at)
{
    struct arena *arena = x->r->cli->arena;
    struct step_tensor a, b, s;
    uint64_t rank = (uint64_t)first->shape[0], in = (uint64_t)first->shape[1];
    bool rslora = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(x->config, "use_rslora"));
    double scale = (double)(float)(alpha / (rslora ? sqrt((double)rank) : (double)rank));
    const char *row = arena_format(arena,
                                   "{\"type\": \"lora\", \"rank\": %llu, \"alpha\": %.9g%s, \"match\": [\"%s\"]}",
                                   (unsigned long long)rank, alpha, rslora ? ", \"rslora\": true" : "", layer);
    if (!find(x, layer, 'a', &a) || !find(x, layer, 'b', &b))
        return wrong(x, arena_format(arena,
                                     "\"%s\" is for \"%s\", beside which the document has no adapters; it has "
                                     "them by \"adapters\": [%s]",
                                     first->name, layer, row));
    if ((uint64_t)b.shape[0] != rank)
        return wrong(x, arena_format(arena, "\"%s\" is of rank %llu, the adapters of \"%s\" are of rank %lld: %s",
                                     first->name, (unsigned long long)rank, layer, (long long)b.shape[0], row));
    if (run_product(a.shape, 0, a.rank - 1) != in)
        return wrong(x,
                     arena_format(arena, "\"%s\" takes %llu numbers, \"%s\" %llu", first->name, (unsigned long long)in,
                                  layer, (unsigned long long)run_product(a.shape, 0, a.rank - 1)));
    bool scaled = find(x, layer, 's', &s);
    if (!scaled && scale != 1)
        return wrong(x, arena_format(arena, "\"%s\" is added %.9g times, the adapters of \"%s\" once: %s", first->name,
                                     scale, layer, row));
    uint64_t width = run_product(b.shape, 1, b.rank), from = *at;
    if ((*at += width) > outputs) return 0; /* said when the layers of the module are counted */
    int code = put(x, &a, v[0], in, in);
    if (!code) code = put(x, &b, v[1] + from * rank, rank, rank);
    return !code && scaled ? put(x, &s, &scale, 1, 1) : code;
}

/* The layers that a module is, each with its part. */
static int put_module(struct incoming *x, const struct st_tensor *first)
{
    struct arena *arena = x->r->cli->arena;
    size_t end = strlen(first->name) - strlen(".lora_A.weight"), begin = strlen(BEGIN);
    const char *module = arena_format(arena, "%.*s", (int)(end - begin), first->name + begin);
    const char *other = arena_format(arena, BEGIN "%s.lora_B.weight", module);
    const struct st_tensor *second = st_find(&x->file, other);
    char number[ST_MAPPED], source[ST_MAPPED];
    const char *weight = name_there(&x->names, arena_format(arena, "%s.weight", module));
    if (!weight || st_map_source(x->names.by_rule, weight, number) != ST_SOURCE)
        return wrong(x, arena_format(arena, "\"%s\" stands beside no layer of %s", first->name, x->names.what));
    const struct run_rule *rule = &x->names.rules[strtoul(number, NULL, 10)];
    double rank = NAN, alpha = NAN;
    int unread = number_for(x, "r", "rank_pattern", module, &rank);
    if (!unread) unread = number_for(x, "lora_alpha", "alpha_pattern", module, &alpha);
    if (unread) return unread;
    if (!second) return wrong(x, arena_format(arena, WEIGHTS " lacks \"%s\"", other));
    for (int k = 0; k < 2; k++)
        if (!ir_dtype_is_float(ir_dtype_of_abi((k ? second : first)->dtype)))
            return wrong(x,
                         arena_format(arena, "\"%s\" holds no floats of 16 bits or more", (k ? second : first)->name));
    if (first->rank != 2 || second->rank != 2 || second->shape[1] != first->shape[0] || (double)first->shape[0] != rank)
        return wrong(x, arena_format(arena,
                                     "\"%s\" and \"%s\" are no adapter of the rank that " CONFIG " has for them, %g",
                                     first->name, other, rank));
    x->used[first - x->file.tensors] = x->used[second - x->file.tensors] = true;
    double *v[2] = {numbers_of(x, first), numbers_of(x, second)};
    uint64_t at = 0;
    if (rule->parts > 1) run_listed_add(&x->divided, module);
    int code = v[0] && v[1] ? 0 : wrong(x, arena_format(arena, "\"%s\" cannot be read", first->name));
    for (uint32_t k = 0; k < rule->parts && !code; k++) {
        st_map_source(x->names.by_part[k], weight, source);
        size_t length = strlen(source);
        if (length < 8 || strcmp(source + length - 7, ".kernel") != 0)
            code = wrong(x,
                         arena_format(arena, "\"%s\" stands beside \"%s\", which is no kernel", first->name, source));
        else
            code = put_layer(x, arena_format(arena, "%.*s", (int)length - 7, source), first, v, alpha,
                             (uint64_t)second->shape[0], &at);
    }
    if (!code && at != (uint64_t)second->shape[0])
        code = wrong(x, arena_format(arena, "\"%s\" gives %lld numbers, the layer %llu", other,
                                     (long long)second->shape[0], (unsigned long long)at));
    free(v[0]);
    free(v[1]);
    return code;
}

/* Whether the values of a tensor of the folder are those of a weight of the model, which may be several layers here. */
static bool is_weight(struct incoming *x, const struct st_tensor *t, const char *weight)
{
    char number[ST_MAPPED], source[ST_MAPPED];
    if (st_map_source(x->names.by_rule, weight, number) != ST_SOURCE || ir_dtype_of_abi(t->dtype) == IR_TUPLE)
        return false;
    const struct run_rule *rule = &x->names.rules[strtoul(number, NULL, 10)];
    struct step_tensor is[RUN_PARTS];
    uint64_t rows = 0, all = 0, before = 0;
    for (uint32_t k = 0; k < rule->parts; k++) {
        is[k] = (struct step_tensor){.size = sizeof *is};
        st_map_source(x->names.by_part[k], weight, source);
        if (x->r->api->tensor_find(x->r->instance, source, &is[k])) return false;
        int32_t inputs = rule->inputs == RUN_SAME || rule->inputs > is[k].rank ? is[k].rank : rule->inputs;
        rows = run_product(is[k].shape, 0, inputs), all += run_product(is[k].shape, inputs, is[k].rank);
    }
    bool same = rows * all == run_product(t->shape, 0, t->rank);
    double *v = same ? numbers_of(x, t) : NULL;
    for (uint32_t k = 0; v && same && k < rule->parts; k++) {
        enum ir_dtype dtype = ir_dtype_of_abi(is[k].dtype);
        void *raw = malloc(is[k].bytes_global + 1);
        struct step_array to = {.size = sizeof to,
                                .name = is[k].name,
                                .data = raw,
                                .dtype = is[k].dtype,
                                .rank = is[k].rank,
                                .shape = is[k].shape};
        uint64_t columns = run_product(is[k].shape, 0, is[k].rank) / (rows ? rows : 1);
        same = raw && !x->r->api->read(x->r->instance, &to);
        for (uint64_t i = 0; same && i < rows * columns; i++) {
            uint64_t row = i / columns, column = before + i % columns;
            same = ir_element_get(dtype, raw, i) == v[rule->transpose ? column * rows + row : row * all + column];
        }
        before += columns;
        free(raw);
    }
    same = same && v;
    free(v);
    return same;
}

/* PEFT writes the weight of a head beside its adapter. Nothing is lost of it where it is the model's. */
static int put_base(struct incoming *x, const struct st_tensor *t)
{
    static const char end[] = ".base_layer.weight";
    struct arena *arena = x->r->cli->arena;
    if (!glob_match(BEGIN "**.base_layer.weight", t->name))
        return wrong(x, arena_format(arena, "\"%s\" is not used: it would be lost", t->name));
    size_t length = strlen(t->name) - (sizeof end - 1) - strlen(BEGIN);
    const char *weight = arena_format(arena, "%.*s.weight", (int)length, t->name + strlen(BEGIN));
    const char *there = name_there(&x->names, weight);
    return there && is_weight(x, t, there)
               ? 0
               : wrong(x,
                       arena_format(arena, "\"%s\" is not the \"%s\" of the model: it would be lost", t->name, weight));
}

static int put_all(struct incoming *x)
{
    struct arena *arena = x->r->cli->arena;
    const struct st_file *f = &x->file;
    int code = 0;
    x->used = arena_new_array(arena, bool, f->count + 1);
    memset(x->used, 0, f->count);
    for (uint32_t i = 0; i < f->count && !code; i++)
        if (glob_match(BEGIN "**.lora_A.weight", f->tensors[i].name)) code = put_module(x, &f->tensors[i]);
    for (uint32_t i = 0; i < f->count && !code; i++)
        if (!x->used[i]) code = put_base(x, &f->tensors[i]);
    for (size_t i = 0; !code && i < x->r->api->tensor_count(x->r->instance, STEP_PARAM); i++) {
        struct step_tensor t = {.size = sizeof t};
        char target[ST_MAPPED];
        if (x->r->api->tensor_at(x->r->instance, STEP_PARAM, i, &t) || !glob_match("**.lora_a", t.name)) continue;
        bool met = false;
        const char *kernel = arena_format(arena, "%.*s.kernel", (int)strlen(t.name) - 7, t.name);
        for (int k = 0; k < RUN_PARTS && !met; k++)
            if (st_map_target(x->names.by_part[k], kernel, target) == ST_SOURCE) {
                const char *name = name_of(&x->names, target);
                met = st_find(f, arena_format(arena, BEGIN "%.*s.lora_A.weight", (int)strlen(name) - 7, name)) != NULL;
            }
        if (!met) code = wrong(x, arena_format(arena, "it holds nothing for \"%s\"", t.name));
    }
    return code;
}

int run_peft(struct run *r, const char *folder)
{
    struct incoming x = {.r = r, .names = {.cli = r->cli}, .folder = folder, .divided = {.text = STR(r->cli->arena)}};
    char error[ST_TEXT];
    if (!cli_count(r->cli, "hf") && !cli_count(r->cli, "names"))
        return cli_usage(r->cli,
                         "--peft needs --hf gpt2, --hf llama or --names FILE: how the model's layers are called");
    int code = read_config(&x);
    if (code) return code;
    step_status status = st_open(&x.file, arena_format(r->cli->arena, "%s/" WEIGHTS, folder), error);
    if (status) return run_file_failed(r->cli, status, error);
    code = run_names_open(&x.names);
    if (!code) code = put_all(&x);
    if (!code) code = load_all(&x);
    if (!code && x.divided.count && !r->cli->quiet)
        cli_show(arena_format(r->cli->arena,
                              "stepc: note: --peft %s: each of these is several layers here, with a lora_A of their "
                              "own: they compute the same, and are trained otherwise than one for all: %s\n",
                              folder, run_listed(&x.divided)));
    run_names_close(&x.names);
    st_close(&x.file);
    return code;
}
