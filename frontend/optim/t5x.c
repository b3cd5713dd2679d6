/* T5X's generalised Adafactor. Second moments are factored over sets of dimensions: every parameter has a rule that
 * calls each of its dimensions a row, a column, a batch dimension (never averaged over) or none of these. Rules come
 * from patterns (factor_map) or from the logical names of the parameters' dimensions (logical_factor_rules). */
#include "frontend/optim/factored.h"
#include <string.h>

enum factor { FACTOR_NONE, FACTOR_BATCH, FACTOR_ROW, FACTOR_COLUMN };

static const char *const factor_names[] = {"none", "batch", "row", "col", "column", "unfactorized"};
enum { FACTOR_NAMES = sizeof factor_names / sizeof *factor_names };

static bool read_factor(struct fe *fe, fe_json json, enum factor *out)
{
    static const enum factor values[] = {FACTOR_NONE,   FACTOR_BATCH,  FACTOR_ROW,
                                         FACTOR_COLUMN, FACTOR_COLUMN, FACTOR_NONE};
    for (int i = 0; json->kind == JSON_STRING && i < FACTOR_NAMES; i++)
        if (strcmp(json->string, factor_names[i]) == 0) {
            *out = values[i];
            return true;
        }
    struct diag *d = fe_error(fe, json, "E0425", "a dimension is \"row\", \"col\", \"batch\" or \"none\", found %s",
                              fe_found(fe, json));
    if (json->kind == JSON_STRING) fe_suggest(fe, d, json->string, factor_names, FACTOR_NAMES);
    return false;
}

/* ---------------------------------------------------------------- maps from patterns: the first that matches */

/* The entry of a parameter; NULL: an error was recorded. */
static fe_json entry_of(struct optim_transform *t, fe_json map, uint32_t leaf, const char *what)
{
    const char *path = t->o->params[leaf].path;
    fe_json e = fe_pattern_first(t->fe, map, path);
    if (e) return e;
    struct diag *d = fe_error(t->fe, map, "E0422", "no %s for parameter \"%s\": no pattern matches it", what, path);
    d->hint = "a last pattern \"**\" is for the rest";
    return NULL;
}

/* ---------------------------------------------------------------- rules */

static uint32_t all_dims(const struct ir_type *type) { return (1u << type->rank) - 1; }

/* Rows and columns of a matrix whose dimensions are both large enough; ties as in a stable sort. */
static void by_size(struct optim_transform *t, const struct ir_type *type, struct optim_factors *out)
{
    int64_t least = arg(t, "min_dim_size_to_factor")->integer;
    out->factored = flag(t, "factored") && type->rank == 2 && type->dim[0] >= least && type->dim[1] >= least;
    bool wide = type->rank == 2 && type->dim[0] <= type->dim[1];
    out->row = wide ? 1 : 2, out->column = wide ? 2 : 1;
}

static bool heuristic(struct optim_transform *t, uint32_t leaf, fe_json where, struct optim_factors *out)
{
    const struct fe_param *p = &t->o->params[leaf];
    out->averaged = all_dims(&p->type);
    by_size(t, &p->type, out);
    if (!flag(t, "factored") || p->type.rank <= 2) return true;
    struct diag *d = fe_error(t->fe, where, "E0426", "parameter \"%s\" has %u dimensions and needs a factor rule: %s",
                              p->path, p->type.rank, ir_type_text(t->fe->arena, &p->type));
    d->hint = "\"factor_map\" takes one entry per dimension, as in {\"**.kernel\": [\"batch\", \"row\", \"col\"], "
              "\"**\": \"heuristic\"}";
    return false;
}

/* A rule of one factor per dimension. One for a vector or a matrix without batch dimensions gives way to the test by
 * size, as in T5X. */
static void by_factors(struct optim_transform *t, const struct ir_type *type, const enum factor *factors,
                       struct optim_factors *out)
{
    uint32_t batch = 0;
    *out = (struct optim_factors){0};
    for (uint32_t i = 0; i < type->rank; i++) {
        if (factors[i] == FACTOR_ROW) out->row |= 1u << i;
        if (factors[i] == FACTOR_COLUMN) out->column |= 1u << i;
        if (factors[i] == FACTOR_BATCH) batch |= 1u << i;
    }
    out->averaged = all_dims(type) & ~batch;
    out->factored = (out->row | out->column) != 0;
    if (type->rank <= 2 && !batch) by_size(t, type, out);
}

static bool rule_of_entry(struct optim_transform *t, uint32_t leaf, fe_json entry, struct optim_factors *out)
{
    struct fe *fe = t->fe;
    const struct fe_param *p = &t->o->params[leaf];
    enum factor factors[IR_MAX_RANK] = {0};
    if (entry->kind == JSON_NULL) {
        *out = (struct optim_factors){.averaged = all_dims(&p->type)};
        return true;
    }
    if (entry->kind == JSON_STRING) return heuristic(t, leaf, entry, out);
    uint32_t n = fe_count(fe, entry), i = 0;
    if (n != p->type.rank)
        return fe_wrong(fe, entry, "E0427", "a rule for %u dimensions, but parameter \"%s\" has %u: %s", n, p->path,
                        p->type.rank, ir_type_text(fe->arena, &p->type));
    for (fe_json e = fe_first(fe, entry); e; e = fe_next(fe, e))
        if (!read_factor(fe, e, &factors[i++])) return false;
    by_factors(t, &p->type, factors, out);
    return true;
}

static bool check_map(struct optim_transform *t, fe_json map)
{
    static const char *const words[] = {"heuristic"};
    bool good = optim_patterns_match(t, map);
    for (fe_json e = fe_first(t->fe, map); e; e = fe_next(t->fe, e)) {
        enum factor ignored;
        if (e->kind == JSON_ARRAY)
            for (fe_json f = fe_first(t->fe, e); f; f = fe_next(t->fe, f)) good &= read_factor(t->fe, f, &ignored);
        bool word = e->kind == JSON_STRING && strcmp(e->string, words[0]) == 0;
        if (word || e->kind == JSON_ARRAY || e->kind == JSON_NULL) continue;
        struct diag *d = fe_error(t->fe, e, "E0425",
                                  "a factor rule is an array with one entry per dimension, "
                                  "\"heuristic\" or null, found %s",
                                  fe_found(t->fe, e));
        if (e->kind == JSON_STRING) fe_suggest(t->fe, d, e->string, words, 1);
        good = false;
    }
    return good;
}

/* ---------------------------------------------------------------- rules from logical names */

/* T5X's standard rules, with those of its mixture of experts. */
/* clang-format off */
static const struct { const char *name; enum factor factor; } standard[] = {
    {"vocab", FACTOR_COLUMN},           {"embed", FACTOR_ROW},           {"mlp", FACTOR_COLUMN},
    {"heads", FACTOR_COLUMN},           {"kv", FACTOR_COLUMN},           {"joined_kv", FACTOR_COLUMN},
    {"relpos_buckets", FACTOR_NONE},    {"layers", FACTOR_BATCH},        {"stack", FACTOR_BATCH},
    {"q_wi_fused", FACTOR_COLUMN},      {"o_wo_fused", FACTOR_COLUMN},   {"multiquery_heads", FACTOR_COLUMN},
    {"kv_fused", FACTOR_COLUMN},        {"layer_norm_scale", FACTOR_NONE}, {"mlp_activations", FACTOR_COLUMN},
    {"expert", FACTOR_BATCH},           {"expert_mlp", FACTOR_COLUMN},   {"unmodeled", FACTOR_NONE},
    {"mlp_embed", FACTOR_ROW},
};
/* clang-format on */
enum { STANDARD = sizeof standard / sizeof *standard };

struct logical {
    const char **names;
    enum factor *factors;
    uint32_t count;
};

static bool read_logical(struct optim_transform *t, fe_json json, struct logical *out)
{
    static const char *const words[] = {"standard"};
    struct fe *fe = t->fe;
    bool is_standard = json->kind == JSON_STRING && strcmp(json->string, words[0]) == 0, good = true;
    uint32_t most = json->kind == JSON_OBJECT ? fe_count(fe, json) : STANDARD;
    out->names = arena_new_array(fe->arena, const char *, most + 1);
    out->factors = arena_new_array(fe->arena, enum factor, most + 1);
    for (; is_standard && out->count < STANDARD; out->count++)
        out->names[out->count] = standard[out->count].name, out->factors[out->count] = standard[out->count].factor;
    if (is_standard) return true;
    if (json->kind != JSON_OBJECT) {
        struct diag *d = fe_error(fe, json, "E0425",
                                  "\"logical_factor_rules\" is \"standard\" or a map of logical "
                                  "names to \"row\", \"col\", \"batch\" or \"none\", found %s",
                                  fe_found(fe, json));
        if (json->kind == JSON_STRING) fe_suggest(fe, d, json->string, words, 1);
        return false;
    }
    for (fe_json e = fe_first(fe, json); e; e = fe_next(fe, e), out->count++) {
        out->names[out->count] = e->key;
        good &= read_factor(fe, e, &out->factors[out->count]);
    }
    return good;
}

static bool logical_factor(struct fe *fe, const struct logical *rules, fe_json name, enum factor *out)
{
    if (name->kind == JSON_NULL) return true;
    for (uint32_t i = 0; name->kind == JSON_STRING && i < rules->count; i++)
        if (strcmp(rules->names[i], name->string) == 0) {
            *out = rules->factors[i];
            return true;
        }
    struct diag *d = fe_error(fe, name, "E0425", "\"logical_factor_rules\" says nothing of %s", fe_found(fe, name));
    if (name->kind == JSON_STRING) fe_suggest(fe, d, name->string, rules->names, rules->count);
    return false;
}

static bool rule_of_names(struct optim_transform *t, uint32_t leaf, fe_json where, const struct logical *rules,
                          struct optim_factors *out)
{
    struct fe *fe = t->fe;
    const struct fe_param *p = &t->o->params[leaf];
    fe_json sharding = fe_member(fe, fe_root(fe), "sharding"),
            map = sharding ? fe_member(fe, sharding, "params") : NULL,
            names = map ? fe_pattern_first(t->fe, map, p->path) : NULL;
    enum factor factors[IR_MAX_RANK] = {0};
    bool seen[4] = {0};
    uint32_t i = 0;
    if (!names || fe_count(fe, names) != p->type.rank) {
        struct diag *d = names
                             ? fe_error(fe, names, "E0427", "%u logical names, but parameter \"%s\" has %u dimensions",
                                        fe_count(fe, names), p->path, p->type.rank)
                             : fe_error(fe, where, "E0422", "parameter \"%s\" has no logical names", p->path);
        d->hint = "\"logical_factor_rules\" needs a name or null for every dimension in \"sharding\", \"params\"";
        return false;
    }
    for (fe_json e = fe_first(fe, names); e; e = fe_next(fe, e), i++) {
        if (!logical_factor(fe, rules, e, &factors[i])) return false;
        seen[factors[i]] = true;
    }
    bool both = seen[FACTOR_ROW] && seen[FACTOR_COLUMN];
    if (both && seen[FACTOR_NONE])
        return fe_wrong(fe, names, "E0426",
                        "incomplete rule for parameter \"%s\": with rows and columns no other dimension may "
                        "be \"none\"",
                        p->path);
    for (i = 0; i < p->type.rank && !both; i++)
        if (factors[i] != FACTOR_BATCH) factors[i] = FACTOR_NONE;
    by_factors(t, &p->type, factors, out);
    return true;
}

/* The rules of all leaves; false: errors were recorded. */
static bool read_rules(struct optim_transform *t, struct optim_factors *rules)
{
    fe_json map = absent(t, "factor_map") ? NULL : arg(t, "factor_map")->json,
            names = absent(t, "logical_factor_rules") ? NULL : arg(t, "logical_factor_rules")->json;
    struct logical logical = {0};
    bool good = true;
    if ((map || names) && !flag(t, "factored"))
        return fe_wrong_key(t->fe, map ? map : names, "E0103", "\"factored\" is false: \"%s\" has no effect",
                            map ? map->key : names->key);
    if (map && names)
        return fe_wrong_key(t->fe, names, "E0103", "\"factor_map\" and \"logical_factor_rules\" exclude each other");
    if (map && !check_map(t, map)) return false;
    if (names && t->o->outside) return optim_not_whole(t->fe, names); /* they are those of parameters */
    if (names && !read_logical(t, names, &logical)) return false;
    EACH_LEAF(t, i) {
        if (names) good &= rule_of_names(t, i, names, &logical, &rules[i]);
        else if (!map) good &= heuristic(t, i, t->json, &rules[i]);
        else {
            fe_json entry = entry_of(t, map, i, "factor rule");
            good &= entry && rule_of_entry(t, i, entry, &rules[i]);
        }
    }
    return good;
}

/* multiply_by_parameter_scale: a bool, or one by pattern. */
static bool read_scaled(struct optim_transform *t, bool *scaled)
{
    fe_json json = arg(t, "multiply_by_parameter_scale")->json;
    bool map = json && json->kind == JSON_OBJECT, good = !map || optim_patterns_match(t, json);
    for (fe_json e = map ? fe_first(t->fe, json) : json; e; e = map ? fe_next(t->fe, e) : NULL)
        if (e->kind != JSON_TRUE && e->kind != JSON_FALSE) {
            fe_error(t->fe, e, "E0101",
                     "\"multiply_by_parameter_scale\" is true or false, or a map of patterns to these, "
                     "found %s",
                     fe_found(t->fe, e));
            good = false;
        }
    if (!good) return false;
    EACH_LEAF(t, i) {
        fe_json e = map ? entry_of(t, json, i, "\"multiply_by_parameter_scale\"") : json;
        good &= e || !map;
        scaled[i] = !e || e->kind == JSON_TRUE;
    }
    return good;
}

/* ---------------------------------------------------------------- the step */

static struct fe_term root_mean_square(struct ir_builder *b, struct fe_term x, uint32_t set)
{
    return term_sqrt(b, optim_mean_over(b, term_square(b, x), set));
}

/* What all leaves share. */
struct step_of {
    struct fe_term rate, decay, weight_decay; /* of the second moments; of the parameters */
    bool decayed, skip_nan;
};

static void update_leaf(struct optim_transform *t, const struct step_of *s, uint32_t leaf,
                        const struct optim_factors *rule, bool scaled, struct fe_term g)
{
    struct ir_builder *b = t->b;
    const struct ir_type type = t->o->params[leaf].type;
    struct fe_term p = term_cast(b, T(t->p[leaf]), IR_F32), y, scale = s->rate;
    y = optim_factored(t, leaf, rule, IR_F32, g, number(t, "epsilon1"), s->decay, s->skip_nan);
    if (!absent(t, "clipping_threshold")) {
        struct fe_term over = term_div(b, root_mean_square(b, y, rule->averaged), number(t, "clipping_threshold"));
        y = term_div(b, y, optim_along(b, term_max(b, term_number(1), over), &type, rule->averaged));
    }
    if (scaled) {
        struct fe_term size = term_max(b, root_mean_square(b, p, rule->averaged), number(t, "epsilon2"));
        if (!absent(t, "max_parameter_scale")) size = term_min(b, size, number(t, "max_parameter_scale"));
        scale = optim_along(b, term_mul(b, scale, size), &type, rule->averaged);
    }
    struct fe_term change = term_mul(b, scale, y);
    if (!absent(t, "beta1")) {
        struct ir_type momentum = type;
        momentum.dtype = (uint8_t)dtype_of(t, "dtype_momentum");
        struct fe_term m = optim_leaf(t, "m", leaf, momentum, zero);
        change = moment(b, change, m, number(t, "beta1"));
        struct fe_term new = term_cast(b, change, (enum ir_dtype)momentum.dtype);
        optim_leaf_set(t, "m", leaf, s->skip_nan ? term_where(b, term_is_nan(b, new), m, new) : new);
    }
    if (s->decayed) change = term_add(b, change, term_mul(b, s->weight_decay, p));
    change = term_neg(b, change);
    if (s->skip_nan) change = term_where(b, term_is_nan(b, change), term_number(0), change);
    t->u[leaf] = change.v; /* float32: T5X rounds the parameter that it makes, not what it changes it by */
}

/* What is taken from every parameter, as a part of it: weight_decay_rate, times the rate to a power if one is given. */
static void read_decay(struct optim_transform *t, struct step_of *s)
{
    struct ir_builder *b = t->b;
    struct fe_term power = number(t, "weight_decay_rate_lr_exponent");
    s->decayed = !absent(t, "weight_decay_rate");
    if (s->decayed) s->weight_decay = number(t, "weight_decay_rate");
    if (absent(t, "weight_decay_rate_lr_exponent") || (!power.v && power.number == 0)) return;
    bool given = s->decayed && (s->weight_decay.v || s->weight_decay.number != 0);
    struct fe_term by_rate = term_pow(b, s->rate, power);
    s->weight_decay = given ? term_mul(b, s->weight_decay, by_rate) : by_rate;
    s->decayed = true;
}

void transform_t5x_adafactor(struct optim_transform *t)
{
    struct ir_builder *b = t->b;
    struct optim_factors *rules = arena_new_array(t->fe->arena, struct optim_factors, t->count + 1);
    bool *scaled = arena_new_array(t->fe->arena, bool, t->count + 1);
    if (!(read_rules(t, rules) & read_scaled(t, scaled))) return;
    struct fe_term count = counter(t, "count"), clip = term_number(1);
    struct fe_term steps = term_sub(b, count, term_integer(arg(t, "step_offset")->integer));
    steps = term_add(b, term_cast(b, steps, IR_F32), term_number(1));
    struct step_of s = {.rate = at_count(t, "learning_rate", count), .skip_nan = flag(t, "skip_nan_updates")};
    s.decay = term_sub(b, term_number(1), term_pow(b, steps, term_neg(b, number(t, "decay_rate"))));
    read_decay(t, &s);
    if (!absent(t, "global_norm_clip_threshold")) {
        struct fe_term most = number(t, "global_norm_clip_threshold"), one = term_number(1);
        struct fe_term norm = term_sqrt(b, optim_square_sum(t, t->u));
        clip = term_mul(b, most, term_min(b, term_div(b, one, most), term_div(b, one, norm)));
    }
    EACH_LEAF(t, i) update_leaf(t, &s, i, &rules[i], scaled[i], term_mul(b, term_cast(b, T(t->u[i]), IR_F32), clip));
    optim_state_set(t, "count", optim_increment(b, count));
}
