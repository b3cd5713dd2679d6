/* Whether a description of a transformation makes sense: its type, arguments, what they say together, masks, and what a
 * wrapper around it can give. All mistakes of a document are told in one run, so those inside of a transformation that
 * is itself in error, and so never runs, are looked for by optim_check. */
#include "frontend/optim/optim.h"
#include <string.h>

/* ---------------------------------------------------------------- what arguments say together */

struct reading {
    struct fe *fe;
    fe_json json;
    const struct optim_row *row;
    const struct fe_value *args;
};

static const struct fe_value *argument(const struct reading *r, const char *name)
{
    for (uint32_t i = 0; i < r->row->count; i++)
        if (strcmp(r->row->args[i].name, name) == 0) return &r->args[i];
    return NULL;
}

/* A number as it stands, not a schedule in its place. */
static bool is_plain(const struct fe_value *v) { return !fe_is_schedule(v->json); }

static bool check_verbose(const struct reading *r)
{
    const struct fe_value *verbose = argument(r, "verbose"), *every = argument(r, "print_win_rate_every_n_steps");
    bool prints = every && every->number != 0;
    if (!prints && (!verbose || !verbose->boolean)) return true;
    fe_error(r->fe, prints ? every->json : verbose->json, "E0111",
             "printing from inside a step (%s) is not supported yet",
             prints ? "\"print_win_rate_every_n_steps\"" : "\"verbose\": true");
    return false;
}

/* Optax: a plateau is found by one of the two. */
static bool check_tolerances(const struct reading *r)
{
    const struct fe_value *rtol = argument(r, "rtol"), *atol = argument(r, "atol");
    if (strcmp(r->row->name, "reduce_on_plateau") != 0 || rtol->number > 0 || atol->number > 0) return true;
    if (!is_plain(rtol) || !is_plain(atol)) return true;
    fe_error(r->fe, rtol->json, "E0103", "optimizer \"reduce_on_plateau\": \"rtol\" or \"atol\" must be more than 0");
    return false;
}

static bool check_betas(const struct reading *r)
{
    const struct fe_value *betas = argument(r, "betas");
    if (!betas || betas->rank == 2) return true;
    fe_error(r->fe, betas->json, "E0103", "optimizer \"%s\": \"betas\" are two numbers, found %u", r->row->name,
             (unsigned)betas->rank);
    return false;
}

static bool check_step_sizes(const struct reading *r)
{
    const struct fe_value *least = argument(r, "min_step_size"), *most = argument(r, "max_step_size");
    if (!least || !most || least->number <= most->number || !is_plain(least) || !is_plain(most)) return true;
    fe_error(r->fe, least->json ? least->json : most->json, "E0103",
             "optimizer \"%s\": \"min_step_size\" is larger than \"max_step_size\"", r->row->name);
    return false;
}

static bool check_masks(const struct reading *r)
{
    const struct fe_value *mask = argument(r, "mask"), *other = argument(r, "weight_decay_mask");
    if (!mask || !other || mask->null || other->null) return true;
    fe_error_key(r->fe, other->json, "E0103", "\"mask\" and \"weight_decay_mask\" are two names of one argument");
    return false;
}

/* What is kept in integers is lost: moments below 1 are 0. */
static bool check_dtypes(const struct reading *r)
{
    bool good = true;
    for (uint32_t i = 0; i < r->row->count; i++) {
        const struct fe_value *v = &r->args[i];
        if (r->row->args[i].kind != FE_DTYPE || !v->given || v->null || ir_dtype_is_float(v->dtype)) continue;
        fe_error(r->fe, v->json, "E0213", "\"%s\" must be a floating-point dtype, found %s", r->row->args[i].name,
                 ir_dtype_name(v->dtype));
        good = false;
    }
    return good;
}

static bool check_together(const struct reading *r)
{
    static bool (*const rules[])(const struct reading *) = {check_verbose,    check_tolerances, check_betas,
                                                            check_step_sizes, check_masks,      check_dtypes};
    bool good = true;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) good &= rules[i](r);
    return good;
}

/* ---------------------------------------------------------------- one object */

/* Reads the arguments of an object whose row is known. A number may be a schedule where it is a hyper-parameter. */
static bool read_arguments(const struct reading *r, struct fe_value *args, const bool *hyper)
{
    struct fe_arg kinds[OPTIM_MOST_ARGS];
    ASSERT(r->row->count <= OPTIM_MOST_ARGS);
    for (uint32_t i = 0; i < r->row->count; i++) {
        kinds[i] = r->row->args[i];
        if (hyper[i] && kinds[i].kind == FE_NUMBER) kinds[i].kind = FE_SCHEDULE;
    }
    const char *what = arena_format(r->fe->arena, "optimizer \"%s\"", r->row->name);
    return fe_args(r->fe, r->json, what, kinds, r->row->count, NULL, args) && check_together(r);
}

static const struct optim_row *row_of(struct fe *fe, fe_json json)
{
    const char *type = fe_type_of(fe, json);
    const struct optim_row *row = type ? optim_row_find(fe, type) : NULL;
    if (!type || row) return row;
    const struct optim_table *t = fe->transforms;
    const char **names = arena_new_array(fe->arena, const char *, t->count);
    for (uint32_t i = 0; i < t->count; i++) names[i] = t->rows[i].name;
    fe_suggest(fe, fe_error(fe, fe_member(fe, json, "type"), "E0400", "unknown optimizer \"%s\"", type), type, names,
               t->count);
    return NULL;
}

/* Inside `flatten` there are no parameters to choose from: false and an error if patterns are given. */
static bool is_everything(fe_json v) { return v->kind == JSON_STRING && strcmp(v->string, "**") == 0; }

static bool is_whole(struct fe *fe, const struct optim_row *row, const struct fe_value *args)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (args[i].json && !args[i].null &&
            (row->args[i].kind == FE_PATTERNS || strcmp(row->args[i].name, "optimizers") == 0)) {
            bool all = row->args[i].kind == FE_PATTERNS &&
                       (args[i].json->kind == JSON_ARRAY || is_everything(args[i].json));
            for (fe_json e = all && args[i].json->kind == JSON_ARRAY ? fe_first(fe, args[i].json) : NULL; e;
                 e = fe_next(fe, e))
                all &= is_everything(e);
            if (all && (args[i].json->kind != JSON_ARRAY || fe_first(fe, args[i].json))) continue;
            return optim_not_whole(fe, args[i].json);
        }
    return true;
}

/* Masks are checked where they stand, also those that nothing uses (the mask of a weight decay that is not asked for).
 */
static bool check_patterns(struct fe_optim_state *o, const struct optim_row *row, const struct fe_value *args)
{
    uint32_t count; /* of the document: inside flatten o->count is 1 */
    fe_params(o->fe, &count);
    bool good = true, *unused = arena_new_array(o->fe->arena, bool, count + 1);
    for (uint32_t i = 0; i < row->count; i++)
        if (row->args[i].kind == FE_PATTERNS && args[i].json && !args[i].null)
            good &= fe_patterns(o->fe, args[i].json, unused);
    return good;
}

/* Optimizers that look at the loss itself; some wrappers of Optax hand on gradients and parameters only. */
static bool check_value(struct fe_optim_state *o, fe_json json, const struct reading *r)
{
    const struct fe_value *search = argument(r, "linesearch"); /* of L-BFGS: its default needs one */
    static const char *const needs[] = {"polyak_sgd",
                                        "scale_by_polyak",
                                        "reduce_on_plateau",
                                        "momo",
                                        "momo_adam",
                                        "lbfgs",
                                        "scale_by_backtracking_linesearch",
                                        "scale_by_zoom_linesearch"};
    for (size_t i = 0; o->no_value && !(search && search->given) && i < sizeof needs / sizeof *needs; i++)
        if (strcmp(needs[i], r->row->name) == 0) {
            struct diag *d = fe_error(o->fe, json, "E0429",
                                      "\"%s\" needs the value of the loss, which \"%s\" does not hand on", r->row->name,
                                      o->no_value);
            d->hint = "put it around instead, or after it in a chain";
            return false;
        }
    return true;
}

/* ---------------------------------------------------------------- without running */

/* Arguments, then the schedules and transformations among them: objects, what `transforms` holds, `opt` in
 * `optimizers`. */
static void check(struct fe *fe, struct ir_builder *b, ir_value step, fe_json json, bool injected)
{
    struct fe_value args[OPTIM_MOST_ARGS] = {0};
    bool hyper[OPTIM_MOST_ARGS];
    memset(hyper, injected, sizeof hyper);
    struct reading r = {fe, json, row_of(fe, json), args};
    if (!r.row) return;
    (void)read_arguments(&r, args, hyper);
    if (strcmp(r.row->name, "custom") == 0) optim_custom_check(fe, json);
    for (uint32_t i = 0; i < r.row->count; i++) {
        const struct fe_arg *a = &r.row->args[i];
        fe_json value = args[i].json;
        if (!value) continue;
        bool schedule = a->kind == FE_SCHEDULE || (injected && a->kind == FE_NUMBER);
        if (schedule && fe_is_schedule(value)) (void)fe_schedule(fe, b, &args[i], step);
        if (a->kind == FE_OBJECT && a->flags & FE_REQUIRED && value->kind == JSON_OBJECT)
            check(fe, b, step, value, injected || optim_injects(r.row));
        bool plain = strcmp(a->name, "transforms") == 0, wrapped = strcmp(a->name, "optimizers") == 0;
        for (fe_json e = plain || wrapped ? fe_first(fe, value) : NULL; e; e = fe_next(fe, e)) {
            fe_json inner = plain ? e : e->kind == JSON_OBJECT ? fe_member(fe, e, "opt") : NULL;
            if (inner && inner->kind == JSON_OBJECT) check(fe, b, step, inner, injected);
        }
    }
}

void optim_check(struct fe *fe, fe_json json)
{
    struct ir_builder b = {.f = ir_func_new(fe->module, "unused", false)};
    check(fe, &b, ir_param_new(&b, "step", ir_type_scalar(IR_I32), -1), json, false);
}

static void warn_of_ascent(const struct reading *r)
{
    if (strcmp(r->row->name, "adadelta") != 0 || !argument(r, "learning_rate")->null) return;
    if (r->json != fe_member(r->fe, fe_root(r->fe), "optimizer")) return;
    struct diag *d = fe_warning(r->fe, r->json, "W0429", "adadelta without a learning rate ascends, as in Optax");
    d->hint = "\"learning_rate\": 1.0 descends";
}

const struct optim_row *optim_read(struct fe_optim_state *o, fe_json json, struct fe_value *args, const bool *hyper)
{
    struct fe *fe = o->fe;
    struct reading r = {fe, json, row_of(fe, json), args};
    bool good = r.row && read_arguments(&r, args, hyper) && (!o->outside || is_whole(fe, r.row, args)) &&
                check_patterns(o, r.row, args) && check_value(o, json, &r);
    if (good) warn_of_ascent(&r);
    return good ? r.row : NULL;
}
