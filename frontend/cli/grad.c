/* stepc check --grad: the gradient of the loss against central differences of the loss, both in float64 by the
 * interpreter, at the document's initial values (or those of --weights) and random inputs (or those of --data). Of
 * every trained tensor the derivative along one random direction is compared. The document is read with plain SGD of
 * rate 1 in the place of its optimizer, so that a step subtracts the gradient. */
#include "frontend/cli/run.h"
#include "ir/base/json_tree.h"
#include "ir/ir.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Members that have no part in the loss. */
static const char *const left_out[] = {"optimizer", "ema", "per_example", "precision", "metrics", "mesh", "sharding"};

const char *cli_gradient_document(struct cli *cli, const char *text, size_t length)
{
    const struct cJSON *document = json_read(cli->arena, text, length);
    struct json_tree out = json_object(cli->arena);
    if (!cJSON_IsObject(document)) return NULL;
    for (const struct cJSON *v = document->child; v; v = v->next) {
        bool keep = true;
        for (size_t k = 0; k < sizeof left_out / sizeof *left_out; k++) keep &= strcmp(left_out[k], v->string) != 0;
        if (keep && strcmp(v->string, "accumulate") == 0 &&
            cJSON_IsObject(v)) { /* without the accumulators of metrics */
            struct json_tree accumulate = json_add_object(out, v->string);
            for (const struct cJSON *m = v->child; m; m = m->next)
                if (strcmp(m->string, "metrics") != 0) json_add(accumulate, m->string, json_copy(cli->arena, m));
        } else if (keep) json_add(out, v->string, json_copy(cli->arena, v));
    }
    struct json_tree optimizer = json_add_object(out, "optimizer");
    json_add_text(optimizer, "type", "sgd");
    json_add_integer(optimizer, "learning_rate", 1);
    return json_print(out);
}

int64_t cli_microbatch_size(struct cli *cli, const char *text, size_t length)
{
    const struct cJSON *document = json_read(cli->arena, text, length);
    const struct cJSON *size = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(document, "accumulate"), "microbatch_size");
    return cJSON_IsNumber(size) ? (int64_t)size->valuedouble : 0;
}

const char *cli_with_microbatches(struct cli *cli, const char *text, size_t length, int64_t size)
{
    const struct cJSON *document = json_read(cli->arena, text, length);
    struct json_tree out = json_object(cli->arena);
    if (!cJSON_IsObject(document)) return NULL;
    const struct cJSON *old = cJSON_GetObjectItemCaseSensitive(document, "accumulate");
    for (const struct cJSON *v = document->child; v; v = v->next)
        if (v != old) json_add(out, v->string, json_copy(cli->arena, v));
    struct json_tree accumulate = json_add_object(out, "accumulate");
    for (const struct cJSON *v = old ? old->child : NULL; v; v = v->next)
        if (strcmp(v->string, "microbatch_size") != 0) json_add(accumulate, v->string, json_copy(cli->arena, v));
    json_add_integer(accumulate, "microbatch_size", size);
    return json_print(out);
}

struct gradient {
    struct cli *cli;
    const struct ir_module *module;
    struct ir_func *step;
    double **slots; /* values by slot, NULL: none yet */
    double rate;    /* what a step subtracts of the gradient: it may change parameters besides */
    uint64_t random;
};

/* SplitMix64, and of it a number in [0, 1). */
static double uniform(struct gradient *g)
{
    uint64_t z = g->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double normal(struct gradient *g)
{
    return sqrt(-2 * log(1 - uniform(g))) * cos(6.283185307179586 * uniform(g));
}

static double *slot_values(struct gradient *g, int32_t slot, int64_t elements)
{
    if (!g->slots[slot]) g->slots[slot] = arena_new_array(g->cli->arena, double, (size_t)elements + 1);
    return g->slots[slot];
}

/* Whole numbers are indices or classes: where no limit is known, of two classes. */
static void random_inputs(struct gradient *g)
{
    for (uint32_t i = 0; i < g->module->slots.count; i++) {
        const struct ir_slot *s = &g->module->slots.items[i];
        int64_t n = ir_type_elements(&s->type),
                classes = s->index_limit > 0 && s->index_limit <= INT32_MAX ? s->index_limit : 2;
        if (s->role != IR_ROLE_INPUT || g->slots[i]) continue;
        double *v = slot_values(g, (int32_t)i, n);
        for (int64_t k = 0; k < n; k++)
            v[k] = ir_dtype_is_float((enum ir_dtype)s->type.dtype) ? normal(g) : floor(uniform(g) * (double)classes);
    }
}

/* A tensor of a file into its slot: the first step of an input of --data, or a value of --weights. */
static int read_tensor(struct gradient *g, const struct st_file *f, const char *option, uint32_t slot)
{
    const struct ir_slot *s = &g->module->slots.items[slot];
    bool input = s->role == IR_ROLE_INPUT;
    const struct st_tensor *t = st_find(f, s->name);
    uint64_t elements = (uint64_t)ir_type_elements(&s->type),
             bytes = elements * ir_dtype_bytes((enum ir_dtype)s->type.dtype);
    char error[ST_TEXT];
    if (!t) return 0;
    bool fits = t->rank == s->type.rank + input && (!input || t->shape[0] > 0) &&
                t->bytes == bytes * (input ? (uint64_t)t->shape[0] : 1);
    for (int32_t k = 0; fits && k < s->type.rank; k++) fits = t->shape[k + input] == s->type.dim[k];
    if (!fits)
        return cli_failed(g->cli, EXIT_WRONG, "%s: %s: tensor \"%s\": expected %s%s", option, f->path, s->name,
                          ir_type_text(g->cli->arena, &s->type), input ? " behind a dimension of steps" : "");
    char *raw = arena_alloc(g->cli->arena, bytes + 8);
    if (st_read(f, t, 0, raw, bytes, error)) return cli_failed(g->cli, EXIT_ENVIRONMENT, "%s: %s", option, error);
    double *v = slot_values(g, (int32_t)slot, (int64_t)elements);
    for (uint64_t k = 0; k < elements; k++) v[k] = ir_element_get((enum ir_dtype)s->type.dtype, raw, k);
    return 0;
}

static int read_files(struct gradient *g, const char *option, bool inputs)
{
    const char *const *paths;
    size_t n = cli_values(g->cli, option + 2, &paths);
    char error[ST_TEXT];
    int code = 0;
    for (size_t p = 0; p < n && !code; p++) {
        struct st_file f;
        step_status status = st_open(&f, paths[p], error);
        if (status)
            return cli_failed(g->cli, status == STEP_ECORRUPT ? EXIT_WRONG : EXIT_ENVIRONMENT, "%s: %s", option, error);
        for (uint32_t i = 0; i < g->module->slots.count && !code; i++) {
            enum ir_role role = g->module->slots.items[i].role;
            if (inputs ? role == IR_ROLE_INPUT : role == IR_ROLE_PARAM || role == IR_ROLE_STATE)
                code = read_tensor(g, &f, option, i);
        }
        st_close(&f);
    }
    return code;
}

static struct ir_tensor *run(struct gradient *g, const struct ir_func *f, struct arena *arena)
{
    struct ir_tensor *in = arena_new_array(arena, struct ir_tensor, f->params.count + 1),
                     *out = arena_new_array(arena, struct ir_tensor, f->results.count + 1);
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *p = &f->params.items[i];
        const struct ir_slot *s = &g->module->slots.items[p->slot];
        double *v = slot_values(g, p->slot, ir_type_elements(&p->type));
        if (s->role == IR_ROLE_HYPER) *v = g->rate;
        in[i] = (struct ir_tensor){.type = p->type, .v = v};
    }
    ir_eval(f, IR_EVAL_F64, in, out, arena);
    return out;
}

static bool is_loss(const struct gradient *g, const struct ir_result *r)
{
    const struct ir_slot *s = &g->module->slots.items[r->slot];
    return s->role == IR_ROLE_METRIC && strcmp(s->name, "loss") == 0;
}

static double loss(struct gradient *g)
{
    struct arena scratch = {0};
    double out = (double)NAN;
    const struct ir_tensor *results = run(g, g->step, &scratch);
    for (size_t i = 0; i < g->step->results.count; i++)
        if (is_loss(g, &g->step->results.items[i])) out = results[i].v[0];
    arena_free(&scratch);
    return out;
}

/* Whether the two derivatives along a random direction agree, relative to the larger one and to the gradient's size. */
static bool compare(struct gradient *g, const struct ir_slot *s, double *p, const double *with, const double *without,
                    double *by_gradient, double *by_loss)
{
    int64_t n = ir_type_elements(&s->type);
    double *direction = arena_new_array(g->cli->arena, double, (size_t)n + 1),
           *before = arena_new_array(g->cli->arena, double, (size_t)n + 1);
    double size = 0, length = 0, gradient = 0, h = 1e-6;
    memcpy(before, p, (size_t)n * sizeof *p);
    *by_gradient = 0;
    for (int64_t k = 0; k < n; k++) {
        direction[k] = normal(g);
        *by_gradient += (without[k] - with[k]) * direction[k];
        gradient += (without[k] - with[k]) * (without[k] - with[k]);
        size += before[k] * before[k], length += direction[k] * direction[k];
    }
    h *= fmax(1, sqrt(size)) / fmax(1, sqrt(length));
    for (int64_t k = 0; k < n; k++) p[k] = before[k] + h * direction[k];
    double up = loss(g);
    for (int64_t k = 0; k < n; k++) p[k] = before[k] - h * direction[k];
    double down = loss(g);
    memcpy(p, before, (size_t)n * sizeof *p);
    *by_loss = (up - down) / (2 * h);
    double noise = (fabs(up) + fabs(down)) * 1e-13 / h; /* of the loss itself */
    double difference = fabs(*by_loss - *by_gradient),
           scale = fmax(fabs(*by_loss), fabs(*by_gradient)) + 1e-3 * sqrt(gradient);
    return difference <= noise + 1e-4 * scale;
}

int cli_check_gradient(struct cli *cli, const struct ir_module *module)
{
    struct gradient g = {.cli = cli, .module = module, .step = ir_func_find(module, "step"), .random = 1};
    struct ir_func *init = ir_func_find(module, "init");
    struct arena scratch = {0};
    uint32_t tensors = 0, wrong = 0;
    struct str out = STR(cli->arena);
    if (!g.step || !init) return cli_failed(cli, EXIT_WRONG, "--grad needs a document with a loss");
    g.slots = arena_new_array(cli->arena, double *, module->slots.count + 1);
    int code = read_files(&g, "--data", true);
    if (code) return code;
    random_inputs(&g);
    const struct ir_tensor *initial = run(&g, init, &scratch);
    for (size_t i = 0; i < init->results.count; i++)
        memcpy(slot_values(&g, init->results.items[i].slot, ir_type_elements(&initial[i].type)), initial[i].v,
               (size_t)ir_type_elements(&initial[i].type) * sizeof(double));
    code = read_files(&g, "--weights", false);
    const struct ir_tensor *without = run(&g, g.step, &scratch);
    g.rate = 1;
    const struct ir_tensor *with = run(&g, g.step, &scratch);
    for (size_t i = 0; i < g.step->results.count; i++) {
        const struct ir_result *r = &g.step->results.items[i];
        const struct ir_slot *s = &module->slots.items[r->slot];
        double by_gradient, by_loss;
        if (!code && is_loss(&g, r) && !isfinite(with[i].v[0]))
            code = cli_failed(cli, EXIT_WRONG, "--grad: the loss is %g at these inputs; --data FILE gives others",
                              with[i].v[0]);
        if (code || s->role != IR_ROLE_PARAM || s->frozen || !g.slots[r->slot]) continue;
        tensors++;
        if (compare(&g, s, g.slots[r->slot], with[i].v, without[i].v, &by_gradient, &by_loss)) continue;
        wrong++;
        str_addf(&out, "%s: along a random direction the gradient says %.9g, differences of the loss %.9g\n", s->name,
                 by_gradient, by_loss);
    }
    arena_free(&scratch);
    if (code) return code;
    if (wrong)
        str_addf(&out,
                 "gradient: %u of %u tensors differ; stop_gradient, rounding and jumps of the loss are reasons that "
                 "are meant\n",
                 wrong, tensors);
    else if (!cli->quiet)
        str_addf(&out, "gradient: %u tensor%s agree%s with differences of the loss\n", tensors, tensors == 1 ? "" : "s",
                 tensors == 1 ? "s" : "");
    code = cli_print(cli, str_text(&out), out.length);
    return code ? code : wrong ? EXIT_WRONG : 0;
}
