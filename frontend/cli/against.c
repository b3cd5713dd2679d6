/* `stepc check MODEL --against STEP.SO`: the steps of an object beside those of the interpreter, which defines what the
 * document means. Their initial values are compared, then both start every step from the object's state, so that each
 * step is judged alone. What they give may differ by rounding: by --rtol of the largest element of a tensor, and by a
 * few times what the interpreter's own results change by when parameters and inputs change in their last bits. */
#include "frontend/cli/draw.h"
#include "frontend/cli/run.h"
#include "ir/ir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, SHAKES = 10, SHOWN = 10, ROLES = 5 };
static const uint32_t roles[ROLES] = {STEP_METRIC, STEP_PARAM, STEP_EMA, STEP_OPT_STATE, STEP_STATE};

/* A tensor of both: what the object and the interpreter hold, and what the interpreter held before shaking. */
struct tensor {
    struct step_array object, plain, shaken, before; /* before: the step, of the object */
    struct step_tensor of;
    uint64_t elements;
    double noise; /* the largest change by shaking; 0: nobody shook */
};

struct against {
    struct cli *cli;
    struct run object, document;
    VEC(struct tensor) tensors;
    struct step_array *inputs;
    size_t input_count;
    double rtol, atol, rounding;
    double worst; /* of the largest element of its tensor */
    const char *worst_name;
    uint32_t loose; /* tensors that agree only within what shaking changes */
};

static struct step_array room(struct against *a, const struct step_tensor *of)
{
    return (struct step_array){.size = sizeof(struct step_array),
                               .name = of->name,
                               .data = arena_alloc(a->cli->arena, (size_t)of->bytes_global + 8),
                               .dtype = of->dtype,
                               .rank = of->rank,
                               .shape = of->shape};
}

static bool same_type(const struct step_tensor *x, const struct step_tensor *y)
{
    bool same = x->dtype == y->dtype && x->rank == y->rank;
    for (int32_t i = 0; same && i < x->rank; i++) same = x->shape[i] == y->shape[i];
    return same;
}

/* Every tensor of one has to be one of the other. */
static int pair(struct against *a, struct run *from, const struct run *other, uint32_t role, bool keep)
{
    for (size_t i = 0; i < from->api->tensor_count(from->instance, role); i++) {
        struct step_tensor of = {.size = sizeof of}, is = {.size = sizeof is};
        from->api->tensor_at(from->instance, role, i, &of);
        if (other->api->tensor_find(other->instance, of.name, &is))
            return cli_failed(a->cli, EXIT_WRONG, "--against: %s has a tensor \"%s\", %s has none: it is another step",
                              from->path, of.name, other->path);
        if (!same_type(&of, &is))
            return cli_failed(a->cli, EXIT_WRONG, "--against: \"%s\" has another type in %s than in %s", of.name,
                              from->path, other->path);
        struct tensor t = {.of = of, .elements = 1};
        for (int32_t k = 0; k < of.rank; k++) t.elements *= (uint64_t)of.shape[k];
        if (!keep) continue;
        t.object = room(a, &of), t.plain = room(a, &of), t.shaken = room(a, &of), t.before = room(a, &of);
        vec_push(a->cli->arena, &a->tensors, t);
    }
    return 0;
}

static int read_all(struct against *a, struct run *from, size_t into)
{
    for (size_t i = 0; i < a->tensors.count; i++) {
        const struct step_array *to = (const struct step_array *)(const void *)((char *)&a->tensors.items[i] + into);
        step_status status = from->api->read(from->instance, to);
        if (status) return run_status(from, status, from->path);
    }
    return 0;
}

/* The interpreter in the state that the object had, changed in the last bits (`shake` 0: not). */
static void shake(struct step_array *x, const struct step_array *from, size_t bytes, uint64_t elements, double by,
                  uint32_t seed)
{
    enum ir_dtype dtype = ir_dtype_of_abi(from->dtype);
    memcpy(x->data, from->data, bytes);
    for (uint64_t i = 0; by > 0 && ir_dtype_is_float(dtype) && i < elements; i++) {
        seed = seed * 1664525 + 1013904223;
        ir_element_set(dtype, x->data, i, ir_element_get(dtype, from->data, i) * (1 + (seed >> 31 ? by : -by)));
    }
}

static int set_state(struct against *a, double by, uint32_t seed)
{
    struct run *r = &a->document;
    for (size_t i = 0; i < a->tensors.count; i++) {
        struct tensor *t = &a->tensors.items[i];
        if (t->of.role == STEP_METRIC) continue;
        shake(&t->shaken, &t->before, (size_t)t->of.bytes_global, t->elements, t->of.role == STEP_PARAM ? by : 0,
              seed + (uint32_t)i);
        step_status status = r->api->write(r->instance, &t->shaken);
        bool computed = status == STEP_EINVAL && strstr(r->api->last_error(r->instance), "is computed");
        if (status && !computed) return run_status(r, status, r->path);
    }
    return 0;
}

static int interpret(struct against *a, const struct step_batch *batch, double by, uint32_t seed)
{
    struct run *r = &a->document;
    struct step_array *inputs = arena_new_array(a->cli->arena, struct step_array, batch->input_count + 1);
    struct step_batch own = *batch;
    int code = set_state(a, by, seed);
    own.inputs = inputs;
    for (size_t i = 0; i < batch->input_count; i++) {
        uint64_t elements = 1;
        inputs[i] = batch->inputs[i];
        if (by == 0) continue;
        for (int32_t k = 0; k < inputs[i].rank; k++) elements *= (uint64_t)inputs[i].shape[k];
        size_t bytes = (size_t)elements * ir_dtype_bytes(ir_dtype_of_abi(inputs[i].dtype));
        inputs[i].data = arena_alloc(a->cli->arena, bytes + 8);
        shake(&inputs[i], &batch->inputs[i], bytes, elements, by, ~seed - (uint32_t)i);
    }
    step_status status = code ? STEP_OK : r->api->step(r->instance, &own, NULL);
    return code ? code : status ? run_status(r, status, r->path) : 0;
}

/* ---------------------------------------------------------------- comparing */

struct difference {
    double most, largest; /* of two elements; of all elements */
    uint64_t at, beyond;
    double x, y;
};

static struct difference compare(const struct against *a, const struct tensor *t, const struct step_array *x,
                                 const struct step_array *y)
{
    enum ir_dtype dtype = ir_dtype_of_abi(x->dtype);
    struct difference d = {0};
    for (uint64_t i = 0; i < t->elements; i++) {
        double v = fabs(ir_element_get(dtype, y->data, i));
        if (isfinite(v) && v > d.largest) d.largest = v;
    }
    double within = a->atol + a->rtol * d.largest + 4 * t->noise;
    for (uint64_t i = 0; i < t->elements; i++) {
        double p = ir_element_get(dtype, x->data, i), q = ir_element_get(dtype, y->data, i), by = fabs(p - q);
        if (p == q || (isnan(p) && isnan(q))) continue;
        if (isnan(by)) by = INFINITY;
        d.beyond += !ir_dtype_is_float(dtype) ? t->noise <= 0 : by > within;
        if (by <= d.most) continue;
        d.most = by, d.at = i, d.x = p, d.y = q;
    }
    return d;
}

static uint64_t disagreeing(const struct against *a)
{
    uint64_t n = 0;
    for (size_t i = 0; i < a->tensors.count; i++) {
        const struct tensor *t = &a->tensors.items[i];
        n += compare(a, t, &t->object, &t->plain).beyond > 0;
    }
    return n;
}

/* What rounding alone may change: asked only where something differs by more, and by more bits where that does not
 * tell: sums of many elements round many times, and one element of them may pass a kink or win a maximum. */
static int learn_noise(struct against *a, const struct step_batch *batch)
{
    static const double bits[SHAKES] = {1, 1, 4, 16, 16, 16, 16, 16, 16, 16};
    for (uint32_t k = 0; k < SHAKES && disagreeing(a); k++) {
        int code = interpret(a, batch, a->rounding * bits[k], 2654435761u * (k + 1));
        if (!code) code = read_all(a, &a->document, offsetof(struct tensor, shaken));
        if (code) return code;
        for (size_t i = 0; i < a->tensors.count; i++) {
            struct tensor *t = &a->tensors.items[i];
            t->noise = fmax(t->noise, compare(a, t, &t->shaken, &t->plain).most);
        }
    }
    return 0;
}

/* Step 0: the initial values. */
static uint64_t say(struct against *a, uint64_t step, uint64_t said)
{
    for (size_t i = 0; i < a->tensors.count; i++) {
        const struct tensor *t = &a->tensors.items[i];
        if (!step && t->of.role == STEP_METRIC) continue;
        struct difference d = compare(a, t, &t->object, &t->plain);
        double part = d.largest > 0 && d.most > a->atol ? d.most / d.largest : 0;
        if (!d.beyond && t->noise > 0 && d.most > a->atol + a->rtol * d.largest) a->loose++;
        else if (!d.beyond && part > a->worst) a->worst = part, a->worst_name = t->of.name;
        if (!d.beyond || said++ >= SHOWN) continue;
        printf("%s: %s: %llu of %llu elements differ by more than rounding does (%.2g): [%llu] is %.9g, the document's "
               "%.9g\n",
               step ? arena_format(a->cli->arena, "step %llu", (unsigned long long)step) : "initial value", t->of.name,
               (unsigned long long)d.beyond, (unsigned long long)t->elements,
               a->atol + a->rtol * d.largest + 4 * t->noise, (unsigned long long)d.at, d.x, d.y);
    }
    return said;
}

static int one_step(struct against *a, uint64_t k, uint64_t *said)
{
    struct run *r = &a->object;
    struct step_batch batch = {.size = sizeof batch, .inputs = a->inputs, .input_count = a->input_count};
    int code = cli_count(a->cli, "data") ? run_data_batch(r, &r->data, k, &batch) : 0;
    if (!code) code = read_all(a, r, offsetof(struct tensor, before));
    step_status status = code ? STEP_OK : r->api->step(r->instance, &batch, NULL);
    if (status) return run_status(r, status, r->path);
    if (!code) code = read_all(a, r, offsetof(struct tensor, object));
    for (size_t i = 0; i < a->tensors.count; i++) a->tensors.items[i].noise = 0;
    if (!code) code = interpret(a, &batch, 0, 0);
    if (!code) code = read_all(a, &a->document, offsetof(struct tensor, plain));
    if (!code && disagreeing(a)) code = learn_noise(a, &batch);
    if (!code) *said = say(a, k + 1, *said);
    return code;
}

/* ---------------------------------------------------------------- both */

static int open_both(struct against *a, const char *document, const char *object)
{
    a->object = (struct run){.cli = a->cli, .path = object, .fits = true};
    a->document = (struct run){.cli = a->cli, .path = document};
    int code = run_open(&a->object);
    if (!code && !a->object.manifest)
        code = cli_usage(a->cli, "--against %s: expected an object, as `stepc compile` writes it", object);
    if (!code) code = cli_interpret(a->cli, document, &a->document.api, &a->document.instance, &a->document.name);
    for (int i = 0; i < ROLES && !code; i++) code = pair(a, &a->object, &a->document, roles[i], true);
    for (int i = 0; i < ROLES && !code; i++) code = pair(a, &a->document, &a->object, roles[i], false);
    if (!code) code = pair(a, &a->document, &a->object, STEP_INPUT, false);
    if (code) return code;
    struct cli_draw draw = {a->cli->arena, a->object.api, a->object.instance, a->cli, a->object.manifest, false};
    struct cli_draw other = {a->cli->arena, a->document.api, a->document.instance, a->cli, NULL, false};
    step_status status = cli_draw_state(&draw);
    if (status) return run_status(&a->object, status, object);
    if ((status = cli_draw_state(&other))) return run_status(&a->document, status, document);
    if (cli_count(a->cli, "data")) return run_data_open(&a->object, &a->object.data, "--data");
    a->inputs = cli_draw(&draw, STEP_INPUT, &a->input_count);
    return 0;
}

int cli_check_against(struct cli *cli, const char *document, const char *object, double rounding)
{
    struct against a = {.cli = cli, .rounding = rounding};
    uint64_t steps = (uint64_t)cli_integer(cli, "steps", STEPS), said = 0;
    int code = cli_tolerance(cli, "rtol", "1e-4", &a.rtol);
    if (!code) code = cli_tolerance(cli, "atol", "1e-12", &a.atol);
    if (!code) code = open_both(&a, document, object);
    if (!code) code = read_all(&a, &a.object, offsetof(struct tensor, object));
    if (!code) code = read_all(&a, &a.document, offsetof(struct tensor, plain));
    if (!code) said = say(&a, 0, said);
    for (uint64_t k = 0; k < steps && !code; k++) code = one_step(&a, k, &said);
    if (said > SHOWN) printf("and %llu more\n", (unsigned long long)(said - SHOWN));
    if (!code && !said && !cli->quiet) {
        printf("against   %s: %llu step%s, %zu tensors agree", object, (unsigned long long)steps, steps == 1 ? "" : "s",
               a.tensors.count);
        if (a.worst_name) printf(", within %.2g of the largest element (%s)", a.worst, a.worst_name);
        if (a.loose) printf("; %u only within what the last bits of inputs and parameters change", a.loose);
        printf("\n");
    }
    run_data_close(&a.object.data);
    run_close(&a.object);
    run_close(&a.document);
    return code ? code : said ? EXIT_WRONG : 0;
}
