/* Schedules: numbers that depend on a step counter, as formulas over an int32 scalar. Rows are in schedules.def; those
 * that are a formula alone have an entry in optimizers.step. The arithmetic is that of optax.schedules: what does not
 * depend on the step is formed in double. */
#include "frontend/document/arguments.h"
#include "frontend/optim/optim.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct schedule_row;
/* One schedule being built. */
struct schedule {
    struct fe *fe;
    struct ir_builder *b;
    const struct schedule_row *row;
    fe_json json;                /* its object */
    const struct fe_value *args; /* in the order of the row */
};
typedef struct fe_term schedule_rule(struct schedule *, struct fe_term step);

static schedule_rule schedule_formula;
#define X(name, arguments, doc) static schedule_rule schedule_##name;
#define FORMULA(name, arguments, doc)
#include "frontend/optim/schedules.def"
#undef X
#undef FORMULA
#define FORMULA(name, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#define X(name, arguments, doc) static const struct fe_arg name##_args[] = {arguments{0}};
#include "frontend/optim/schedules.def"
#undef X
#undef FORMULA

static const struct schedule_row {
    const char *name;
    schedule_rule *rule;
    const struct fe_arg *args;
    uint32_t count;
    const char *doc;
} rows[] = {
#define ROW(name, rule, doc) {#name, schedule_##rule, name##_args, sizeof name##_args / sizeof *name##_args - 1, doc},
#define X(name, arguments, doc) ROW(name, name, doc)
#define FORMULA(name, arguments, doc) ROW(name, formula, doc)
#include "frontend/optim/schedules.def"
#undef X
#undef FORMULA
#undef ROW
};
enum { ROW_COUNT = sizeof rows / sizeof *rows, MOST_ARGS = 12, MOST_BOUNDARIES = 4096 };

static const struct schedule_row *row_find(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

bool fe_schedule_row(uint32_t index, struct fe_row *out)
{
    if (index >= ROW_COUNT) return false;
    *out = (struct fe_row){rows[index].name, rows[index].args, rows[index].count, rows[index].doc};
    return true;
}

static const struct fe_value *given(const struct schedule *s, const char *name)
{
    for (uint32_t i = 0; i < s->row->count; i++)
        if (strcmp(s->row->args[i].name, name) == 0) return &s->args[i];
    BUG("schedule %s has no argument %s", s->row->name, name);
}
static double num(const struct schedule *s, const char *name) { return given(s, name)->number; }
static int64_t whole(const struct schedule *s, const char *name) { return given(s, name)->integer; }

/* The value of an error: formulas go on with it. */
static struct fe_term bad(void) { return term_number(0); }
static struct fe_term refused(const struct diag *said) { return (void)said, bad(); }

/* Reads the arguments of `json` by the row and computes the schedule at `step`. */
static struct fe_term run_row(struct fe *fe, struct ir_builder *b, const struct schedule_row *row, fe_json json,
                              struct fe_term step)
{
    struct fe_value values[MOST_ARGS] = {0};
    ASSERT(row->count <= MOST_ARGS);
    if (!fe_args(fe, json, arena_format(fe->arena, "schedule \"%s\"", row->name), row->args, row->count, NULL, values))
        return bad();
    struct schedule s = {.fe = fe, .b = b, .row = row, .json = json, .args = values};
    return row->rule(&s, step);
}

/* What Optax takes a function of the count for: an expression of `step`. */
static struct fe_term run_formula(struct fe *fe, struct ir_builder *b, fe_json json, struct fe_term step)
{
    const struct fe_parameters *parameters = fe->parameters;
    struct fe_trace trace = {.b = b};
    struct fe_env env = {.name = "step", .value = fe_val_tensor(term_value(b, step, IR_I32))};
    fe->parameters = NULL; /* a schedule does not see them */
    struct fe_val v = fe_expr(fe, &trace, json, &env);
    fe->parameters = parameters;
    if (v.bad) return bad();
    if (v.kind == FE_VAL_NUMBER) return term_number(v.number);
    ir_value x = fe_tensor(fe, &trace, &v, json);
    if (x && ir_type(b->f, x)->rank)
        return refused(fe_error(fe, json, "E0410", "a formula of a schedule gives one number, found %s",
                                ir_type_text(fe->arena, ir_type(b->f, x))));
    return x ? (struct fe_term){.v = ir_cast(b, x, IR_F32), .weak = v.weak} : bad();
}

static struct fe_term run_object(struct fe *fe, struct ir_builder *b, fe_json json, struct fe_term step)
{
    double number;
    if (json->kind == JSON_STRING) return run_formula(fe, b, json, step);
    if (json->kind == JSON_NUMBER) return fe_number(fe, json, &number) ? term_number(number) : bad(); /* in a list */
    const char *type = fe_type_of(fe, json);
    if (!type) return bad();
    const struct schedule_row *row = row_find(type);
    if (row) return run_row(fe, b, row, json, step);
    const char *names[ROW_COUNT];
    for (size_t i = 0; i < ROW_COUNT; i++) names[i] = rows[i].name;
    struct diag *d = fe_error(fe, fe_member(fe, json, "type"), "E0410", "unknown schedule \"%s\"", type);
    fe_suggest(fe, d, type, names, ROW_COUNT);
    return bad();
}

struct fe_term fe_schedule_term(struct fe *fe, struct ir_builder *b, const struct fe_value *value, ir_value step)
{
    bool runs = fe_is_schedule(value->json);
    struct fe_term x = runs ? run_object(fe, b, value->json, term_tensor(step)) : term_number(value->number);
    return (struct fe_term){.v = term_value(b, x, IR_F32), .weak = !x.v || x.weak};
}

ir_value fe_schedule(struct fe *fe, struct ir_builder *b, const struct fe_value *value, ir_value step)
{
    return fe_schedule_term(fe, b, value, step).v;
}

/* ---------------------------------------------------------------- formulas */

static struct fe_term by_entry(struct schedule *s, const char *words, const char *name, struct fe_term count)
{
    const struct fe_row row = {.name = name, .args = s->row->args, .count = s->row->count};
    return optim_formula_of_count(s->fe, s->b, words, name, &row, s->args, count);
}

static struct fe_term schedule_formula(struct schedule *s, struct fe_term step)
{
    return by_entry(s, "schedule", s->row->name, step);
}

static struct fe_term constant(double x) { return term_number(x); }
static struct fe_term sub(struct schedule *s, struct fe_term x, struct fe_term y) { return term_sub(s->b, x, y); }
static struct fe_term add(struct schedule *s, struct fe_term x, struct fe_term y) { return term_add(s->b, x, y); }
static struct fe_term mul(struct schedule *s, struct fe_term x, struct fe_term y) { return term_mul(s->b, x, y); }

/* Joined schedules: before the boundary the one, from it on the other, which counts from there. */
static struct fe_term after(struct schedule *s, struct fe_term step, int64_t boundary, struct fe_term before,
                            struct fe_term later)
{
    return term_where(s->b, term_lt(s->b, step, term_integer(boundary)), before, later);
}

static struct fe_term since(struct schedule *s, struct fe_term step, int64_t boundary)
{
    return sub(s, step, term_integer(boundary));
}

/* Boundaries and scales in ascending order; a later equal one replaces an earlier one. */
struct boundary {
    int64_t at;
    double scale;
};

static uint32_t boundary_put(struct boundary *list, uint32_t n, struct boundary new)
{
    uint32_t i = 0;
    while (i < n && list[i].at < new.at) i++;
    if (i < n && list[i].at == new.at) {
        list[i] = new;
        return n;
    }
    memmove(list + i + 1, list + i, (n - i) * sizeof *list);
    list[i] = new;
    return n + 1;
}

static bool boundaries_read(struct schedule *s, struct boundary **out, uint32_t *count)
{
    const struct fe_value *map = given(s, "boundaries_and_scales");
    *count = 0;
    if (map->null || !map->json) return true;
    *out = arena_new_array(s->fe->arena, struct boundary, map->json->count + 1);
    bool good = true;
    for (fe_json m = fe_first(s->fe, map->json); m; m = fe_next(s->fe, m)) {
        struct boundary b = {.at = strtoll(m->key, NULL, 10)};
        if (strcmp(m->key, "//") == 0) continue;
        /* As a number is written: "05" would be another key for the same step, and one of the two would be lost. */
        if (strcmp(arena_format(s->fe->arena, "%" PRId64, b.at), m->key) != 0 || b.at < INT32_MIN || b.at > INT32_MAX) {
            fe_error_key(s->fe, m, "E0411", "a boundary must be a step number, found \"%s\"", m->key);
            good = false;
        } else if (!fe_number(s->fe, m, &b.scale)) {
            good = false;
        } else if (b.at < 0) {
            fe_error_key(s->fe, m, "E0411", "a boundary must not be negative, found \"%s\"", m->key);
            good = false;
        } else if (b.scale < 0) {
            fe_error(s->fe, m, "E0411", "a scale must not be negative, found %g", b.scale);
            good = false;
        } else {
            *count = boundary_put(*out, *count, b);
        }
    }
    return good;
}

/* Values at the boundaries are products of scales in float32, as jnp.cumprod forms them. */
static struct fe_term interpolate(struct schedule *s, struct fe_term step, bool cosines, double init,
                                  const struct boundary *list, uint32_t n)
{
    float *values = arena_new_array(s->fe->arena, float, n + 1);
    values[0] = (float)init;
    for (uint32_t i = 0; i < n; i++) values[i + 1] = values[i] * (float)list[i].scale;
    struct fe_term result = term_tensor(ir_scalar(s->b, IR_F32, (double)values[n]));
    for (uint32_t i = n; i-- > 0;) {
        int64_t from = i ? list[i - 1].at : 0, size = list[i].at - from;
        struct fe_term part = term_div(s->b, since(s, step, from), term_integer(size > 1 ? size : 1)), value;
        struct fe_term start = constant((double)values[i]), end = constant((double)values[i + 1]);
        if (cosines) {
            struct fe_term wave = add(s, term_cos(s->b, mul(s, constant(acos(-1.0)), part)), term_integer(1));
            value = add(s, end, mul(s, constant((double)((values[i] - values[i + 1]) / 2)), wave));
        } else {
            value = add(s, mul(s, constant((double)(values[i + 1] - values[i])), part), start);
        }
        result = after(s, step, list[i].at, value, result);
    }
    return result;
}

/* ---------------------------------------------------------------- the rows */

/* An exponent that is written as an integer multiplies. */
static struct fe_term schedule_polynomial_schedule(struct schedule *s, struct fe_term step)
{
    const struct fe_value *power = given(s, "power");
    struct fe_arg args[MOST_ARGS];
    struct fe_value values[MOST_ARGS];
    struct schedule_row row = *s->row;
    struct schedule like = {.fe = s->fe, .b = s->b, .row = &row, .args = values};
    size_t i = (size_t)(power - s->args);
    memcpy(values, s->args, row.count * sizeof *values);
    row.args = memcpy(args, row.args, row.count * sizeof *args);
    if (power->json && power->json->kind == JSON_NUMBER && fabs(power->number) <= 0x1p53 &&
        !memchr(s->fe->json.text + power->json->offset, '.', power->json->length))
        args[i].kind = FE_INTEGER, values[i].integer = fe_whole(power->number);
    int64_t steps = whole(s, "transition_steps");
    float part = 1 / (float)steps;
    if (steps && 1 - (double)steps * (double)part < 0 && power->number != floor(power->number))
        fe_warning(s->fe, power->json, "W0410",
                   "the rate is NaN after %lld steps, as under jax.jit: the rest of the way is a little below 0 there",
                   (long long)steps)
            ->hint = "join_schedules with a constant_schedule from there on";
    return schedule_formula(&like, step);
}

static struct fe_term schedule_piecewise_constant_schedule(struct schedule *s, struct fe_term step)
{
    struct boundary *list = NULL;
    uint32_t n;
    if (!boundaries_read(s, &list, &n)) return bad();
    struct fe_term value = {.v = ir_scalar(s->b, IR_F32, num(s, "init_value")), .weak = true};
    for (uint32_t i = 0; i < n; i++) value = after(s, step, list[i].at, value, mul(s, constant(list[i].scale), value));
    return value;
}

static struct fe_term schedule_piecewise_interpolate_schedule(struct schedule *s, struct fe_term step)
{
    struct boundary *list = NULL;
    uint32_t n;
    if (!boundaries_read(s, &list, &n)) return bad();
    return interpolate(s, step, strcmp(given(s, "interpolate_type")->string, "cosine") == 0, num(s, "init_value"), list,
                       n);
}

static struct fe_term schedule_linear_onecycle_schedule(struct schedule *s, struct fe_term step)
{
    int64_t steps = whole(s, "transition_steps");
    double div = num(s, "div_factor");
    const struct fe_value *start = given(s, "pct_start"), *final = given(s, "pct_final");
    if (start->number > final->number)
        return refused(fe_error(s->fe, start->json ? start->json : final->json, "E0103",
                                "\"pct_start\" must be at most \"pct_final\""));
    struct boundary list[3];
    uint32_t n = boundary_put(list, 0, (struct boundary){(int64_t)(num(s, "pct_start") * (double)steps), div});
    n = boundary_put(list, n, (struct boundary){(int64_t)(num(s, "pct_final") * (double)steps), 1 / div});
    n = boundary_put(list, n, (struct boundary){steps, 1 / num(s, "final_div_factor")});
    return interpolate(s, step, false, num(s, "peak_value") / div, list, n);
}

static struct fe_term schedule_cosine_onecycle_schedule(struct schedule *s, struct fe_term step)
{
    int64_t steps = whole(s, "transition_steps");
    double div = num(s, "div_factor");
    struct boundary list[2];
    uint32_t n = boundary_put(list, 0, (struct boundary){(int64_t)(num(s, "pct_start") * (double)steps), div});
    n = boundary_put(list, n, (struct boundary){steps, 1 / (div * num(s, "final_div_factor"))});
    return interpolate(s, step, true, num(s, "peak_value") / div, list, n);
}

static struct fe_term schedule_warmup_cosine_decay_schedule(struct schedule *s, struct fe_term step)
{
    int64_t warmup = whole(s, "warmup_steps"), steps = whole(s, "decay_steps");
    if (steps <= warmup)
        return refused(fe_error(s->fe, given(s, "decay_steps")->json, "E0412",
                                "decay_steps counts all steps and must be greater than warmup_steps (%lld), found %lld",
                                (long long)warmup, (long long)steps));
    return schedule_formula(s, step);
}

static struct fe_term schedule_sgdr_schedule(struct schedule *s, struct fe_term step)
{
    const struct schedule_row *segment = row_find("warmup_cosine_decay_schedule");
    struct fe_term value = constant(0);
    int64_t begin = 0;
    bool first = true;
    for (fe_json e = fe_first(s->fe, given(s, "cosine_kwargs")->json); e; e = fe_next(s->fe, e)) {
        int64_t steps = 0;
        bool reached = begin <= INT32_MAX; /* counts stay there */
        struct fe_term part = run_row(s->fe, s->b, segment, e, reached ? since(s, step, begin) : step);
        if (reached) value = first ? part : after(s, step, begin, value, part);
        fe_json length = fe_member(s->fe, e, "decay_steps");
        if (!length || !fe_count32(s->fe, length, &steps)) return bad();
        begin += steps;
        first = false;
    }
    if (first) fe_error(s->fe, given(s, "cosine_kwargs")->json, "E0413", "cosine_kwargs must list at least one cycle");
    return value;
}

static struct fe_term schedule_join_schedules(struct schedule *s, struct fe_term step)
{
    fe_json schedules = given(s, "schedules")->json, boundaries = given(s, "boundaries")->json,
            boundary = fe_first(s->fe, boundaries);
    if (schedules->count == 0)
        return refused(fe_error(s->fe, schedules, "E0413", "join_schedules needs at least one schedule"));
    if (boundaries->count + 1 != schedules->count)
        return refused(fe_error(s->fe, boundaries, "E0413",
                                "expected %u boundaries, one between each two of the %u schedules, found %u",
                                schedules->count - 1, schedules->count, boundaries->count));
    fe_json e = fe_first(s->fe, schedules);
    struct fe_term value = run_object(s->fe, s->b, e, step);
    int64_t before = 0;
    for (e = fe_next(s->fe, e); e; e = fe_next(s->fe, e), boundary = fe_next(s->fe, boundary)) {
        int64_t at = 0;
        if (!fe_count32(s->fe, boundary, &at)) return bad();
        if (at < before)
            return refused(fe_error(s->fe, boundary, "E0413",
                                    "boundaries are steps in ascending order, found %lld after %lld", (long long)at,
                                    (long long)before));
        before = at;
        value = after(s, step, at, value, run_object(s->fe, s->b, e, since(s, step, at)));
    }
    return value;
}

/* ---------------------------------------------------------------- T5X: a product of named factors */

static const char *const factor_names[] = {"constant",    "linear_warmup",          "linear_decay",
                                           "rsqrt_decay", "rsqrt_normalized_decay", "decay_every",
                                           "cosine_decay"};
enum { FACTOR_COUNT = sizeof factor_names / sizeof *factor_names };

static struct fe_term schedule_t5x_learning_rate_scheduler(struct schedule *s, struct fe_term step)
{
    const struct fe_value *factors = given(s, "factors");
    const char *text = factors->string, *divided = NULL;
    struct fe_term rate = constant(1.0),
                   count = term_max(s->b, since(s, step, whole(s, "step_offset")), term_integer(0));
    for (const char *at = text, *next = text; next; at = next) { /* between stars, as T5X splits them */
        const char *star = strchr(at, '*');
        at += strspn(at, " \t\n");
        size_t n = strcspn(at, "*");
        next = star ? star + 1 : NULL;
        while (n && strchr(" \t\n", at[n - 1])) n--;
        const char *name = arena_string_n(s->fe->arena, at, n);
        uint32_t which = 0;
        while (which < FACTOR_COUNT && strcmp(name, factor_names[which])) which++;
        if (which == FACTOR_COUNT) {
            struct diag *d = fe_error_in(s->fe, factors->json, (uint32_t)(at - text), (uint32_t)n, "E0414",
                                         "unknown factor \"%s\"", name);
            fe_suggest(s->fe, d, name, factor_names, FACTOR_COUNT);
            return bad();
        }
        if (strstr(name, "linear") || strstr(name, "rsqrt")) divided = name;
        rate = mul(s, rate, by_entry(s, "factor", name, count));
    }
    if (divided && whole(s, "warmup_steps") == 0 && whole(s, "step_offset") >= 0)
        return refused(fe_error(s->fe, given(s, "warmup_steps")->json, "E0103",
                                "the factor \"%s\" divides by \"warmup_steps\" at step 0, found 0", divided));
    return term_cast(s->b, term_max(s->b, rate, constant(num(s, "min_learning_rate"))), IR_F32);
}
