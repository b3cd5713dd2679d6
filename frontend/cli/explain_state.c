/* stepc explain --state: the tensors of a step, what of them is state, and what hosts may set. */
#include "frontend/cli/explain.h"
#include "ir/ir.h"

static bool is_state(const struct cli_view *v, node t)
{
    const char *role = text_at(v, t, "role");
    return strcmp(role, "ema") == 0 || strcmp(role, "opt_state") == 0 || strcmp(role, "state") == 0 ||
           strcmp(role, "hyper") == 0;
}

/* The widths of the columns of names and types; one long name does not push all others aside. */
static void widths(struct cli_view *v, bool (*shown)(const struct cli_view *, node), size_t widest, int *names,
                   int *types)
{
    *names = *types = 0;
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        size_t n = strlen(text_at(v, t, "name")), k = strlen(type_text(v, t));
        if (!shown(v, t)) continue;
        if ((int)n > *names && n <= widest) *names = (int)n;
        if ((int)k > *types && k <= widest) *types = (int)k;
    }
}

/* ", frozen, computed when read" */
static void add_role(struct cli_view *v, node t)
{
    str_addf(&v->out, "  %s%s%s", text_at(v, t, "role"), true_at(t, "frozen") ? ", frozen" : "",
             true_at(t, "computed") ? ", computed when read" : "");
    add_sharding(v, t);
}

static bool is_no_state(const struct cli_view *v, node t) { return !is_state(v, t); }

/* Slots: parameters, inputs and metrics as "tensors", the rest as "state"; in columns. */
void cli_explain_tensors(struct cli_view *v, bool state)
{
    const char *name = state ? "state" : "tensors";
    int names, types;
    widths(v, state ? is_state : is_no_state, 48, &names, &types);
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        if (is_state(v, t) != state) continue;
        head(v, name);
        str_addf(&v->out, "%-*s  %-*s", names, text_at(v, t, "name"), types, type_text(v, t));
        add_role(v, t);
        add_place(v, t);
        str_add(&v->out, "\n");
        name = "";
    }
    none_of(v, name);
}

/* ---------------------------------------------------------------- state */

enum { ALL_BYTES, DEVICE_BYTES };

static double element_bytes(const struct cli_view *v, node t)
{
    return (double)ir_dtype_bytes(ir_dtype_find(text_at(v, t, "dtype")));
}

/* Bytes of the whole tensor and of what one device holds of it: every mesh axis divides the dimension that it splits.
 */
static void count_bytes(const struct cli_view *v, node t, double bytes[2])
{
    node mesh = at(v->root, "mesh"), split = first(at(t, "sharding"));
    bytes[ALL_BYTES] = bytes[DEVICE_BYTES] = element_bytes(v, t);
    for (node d = first(at(t, "shape")); d; d = next(d)) {
        double parts = 1;
        for (node a = first(split); a; a = next(a)) parts *= number_at(mesh, a->valuestring);
        bytes[ALL_BYTES] *= d->valuedouble;
        bytes[DEVICE_BYTES] *= parts > 1 ? (double)(((int64_t)d->valuedouble + (int64_t)parts - 1) / (int64_t)parts)
                                         : d->valuedouble;
        if (split) split = next(split);
    }
}

/* Everything that a run keeps and saves. Of hyper-parameters those that follow a schedule are not stored. */
static bool is_kept(const struct cli_view *v, node t)
{
    const char *role = text_at(v, t, "role");
    if (strcmp(role, "hyper") == 0) return !true_at(t, "frozen");
    return is_state(v, t) || strcmp(role, "param") == 0;
}

static const char *const kept_roles[] = {"param", "ema", "opt_state", "state", "hyper"};
static const char *const kept_names[] = {"parameters", "averages", "optimizer_state", "other_state", "hyperparameters"};
enum { KEPT_ROLES = sizeof kept_roles / sizeof *kept_roles };

static uint32_t role_index(const struct cli_view *v, node t)
{
    uint32_t i = 0;
    while (i + 1 < KEPT_ROLES && strcmp(kept_roles[i], text_at(v, t, "role")) != 0) i++;
    return i;
}

/* The name that --set takes. */
static const char *hyper_name(const struct cli_view *v, node t)
{
    const char *name = text_at(v, t, "name"), *at_name = strstr(name, "hyperparameters.");
    if (at_name) return at_name + strlen("hyperparameters.");
    at_name = strstr(name, "hyperparams.");
    return at_name ? at_name + strlen("hyperparams.") : name;
}

static const char *hyper_text(struct cli_view *v, node t)
{
    struct str s = STR(v->cli->arena);
    node value = at(t, "initial");
    if (true_at(t, "frozen")) return "follows a schedule";
    if (!value || !cJSON_IsNumber(value)) return "follows a schedule until it is set";
    str_add(&s, "= ");
    str_add_number(&s, value->valuedouble, false);
    return str_text(&s);
}

static void settable(struct cli_view *v)
{
    const char *name = "set";
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        if (strcmp(text_at(v, t, "role"), "hyper") != 0) continue;
        head(v, name);
        str_addf(&v->out, "%s %s\n", hyper_name(v, t), hyper_text(v, t));
        name = "";
    }
    none_of(v, name);
}

/* Parameters that are not trained: no gradient and no state of the optimizer is kept for them. */
static double frozen(const struct cli_view *v)
{
    double count = 0, bytes[2];
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        if (strcmp(text_at(v, t, "role"), "param") != 0 || !true_at(t, "frozen")) continue;
        count_bytes(v, t, bytes);
        count += bytes[ALL_BYTES] / element_bytes(v, t);
    }
    return count;
}

static void state_table(struct cli_view *v)
{
    int names, types;
    double sums[KEPT_ROLES][2] = {{0}}, total[2] = {0}, bytes[2];
    const char *name = "state";
    bool mesh = number_at(v->root, "devices") > 1;
    widths(v, is_kept, 64, &names, &types);
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        if (!is_kept(v, t)) continue;
        bool computed = true_at(t, "computed");
        count_bytes(v, t, bytes);
        head(v, name);
        name = "";
        str_addf(&v->out, "%-*s  %-*s  %12s B", names, text_at(v, t, "name"), types, type_text(v, t),
                 computed ? "0" : grouped(v, bytes[ALL_BYTES]));
        if (mesh) str_addf(&v->out, "  %12s B per device", computed ? "0" : grouped(v, bytes[DEVICE_BYTES]));
        add_role(v, t);
        str_add(&v->out, "\n");
        for (int k = 0; k < 2 && !computed; k++) sums[role_index(v, t)][k] += bytes[k], total[k] += bytes[k];
    }
    none_of(v, name);
    for (uint32_t i = 0; i <= KEPT_ROLES; i++) {
        const double *sum = i < KEPT_ROLES ? sums[i] : total;
        if (i < KEPT_ROLES && !sum[0]) continue;
        head(v, i ? "" : "bytes");
        str_addf(&v->out, "%-*s  %-*s  %12s B", names, i < KEPT_ROLES ? kept_names[i] : "in all", types, "",
                 grouped(v, sum[ALL_BYTES]));
        if (mesh) str_addf(&v->out, "  %12s B per device", grouped(v, sum[DEVICE_BYTES]));
        str_add(&v->out, "\n");
    }
    if (frozen(v) == 0) return;
    head(v, "frozen");
    str_addf(&v->out, "%s of %s parameters are not trained: no gradient, no state of the optimizer\n",
             grouped(v, frozen(v)), grouped(v, number_at(v->root, "parameters")));
}

static void add_bytes(struct json_tree to, const double bytes[2])
{
    json_add_integer(to, "bytes", (int64_t)bytes[ALL_BYTES]);
    json_add_integer(to, "bytes_per_device", (int64_t)bytes[DEVICE_BYTES]);
}

/* {"schema":1,"name":..,"devices":..,"state":[..],"totals":{..},"frozen_parameters":..,"hyperparameters":[..]}: a
 * hyper-parameter's value is null where a schedule holds. */
const char *cli_explain_state_json(const struct cli_view *v)
{
    double sums[KEPT_ROLES][2] = {{0}}, total[2] = {0}, bytes[2];
    struct arena *arena = v->cli->arena;
    struct json_tree out = json_object(arena);
    json_add_integer(out, "schema", 1);
    json_add_text(out, "name", text_at(v, v->root, "name"));
    json_add_integer(out, "devices", (int64_t)number_at(v->root, "devices"));
    struct json_tree state = json_add_array(out, "state");
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        static const char *const same[] = {"name", "role", "dtype", "shape", "sharding", "frozen", "computed"};
        if (!is_kept(v, t)) continue;
        count_bytes(v, t, bytes);
        if (true_at(t, "computed")) bytes[0] = bytes[1] = 0;
        struct json_tree to = json_add_object(state, NULL);
        for (size_t i = 0; i < sizeof same / sizeof *same; i++)
            if (at(t, same[i])) json_add(to, same[i], json_copy(arena, at(t, same[i])));
        add_bytes(to, bytes);
        for (int k = 0; k < 2; k++) sums[role_index(v, t)][k] += bytes[k], total[k] += bytes[k];
    }
    struct json_tree totals = json_add_object(out, "totals");
    for (uint32_t i = 0; i < KEPT_ROLES; i++) add_bytes(json_add_object(totals, kept_names[i]), sums[i]);
    add_bytes(totals, total);
    json_add_integer(out, "frozen_parameters", (int64_t)frozen(v));
    struct json_tree hyper = json_add_array(out, "hyperparameters");
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        node value = at(t, "initial");
        bool fixed = true_at(t, "frozen");
        if (strcmp(text_at(v, t, "role"), "hyper") != 0) continue;
        struct json_tree to = json_add_object(hyper, NULL);
        json_add_text(to, "name", hyper_name(v, t));
        if (!fixed) json_add_text(to, "slot", text_at(v, t, "name"));
        json_add_bool(to, "settable", !fixed);
        if (!fixed && cJSON_IsNumber(value)) json_add_number(to, "value", value->valuedouble, false);
        else json_add_text(to, "value", NULL);
    }
    return arena_format(arena, "%s\n", json_print(out));
}

void cli_explain_state(struct cli_view *v)
{
    state_table(v);
    settable(v);
}
