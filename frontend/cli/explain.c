/* stepc explain: prints the report on a plan. The report is JSON (ir/report.c) whether it comes from a document or from
 * an object's note, so both read the same. */
#include "frontend/cli/cli.h"
#include "ir/base/json_scan.h"

#include <string.h>

struct view {
    struct cli *cli;
    struct json json;
    struct str out;
};
typedef const struct json_value *node;

/* ---------------------------------------------------------------- the report */

static node first(const struct view *v, node list) { return list && list->first ? &v->json.values[list->first] : NULL; }
static node next(const struct view *v, node child) { return child->next ? &v->json.values[child->next] : NULL; }

/* Objects carry a brief report, in which groups and tensors alive are lists: the columns are those of ir/report.c. */
static const char *const group_columns[] = {"command", "kind",   "ops",   "count", "outputs",
                                            "place",   "reason", "flops", "bytes", "times"};
static const char *const alive_columns[] = {"bytes", "type", "op", "place"};

static node column(const struct view *v, node list, const char *key)
{
    bool alive = list->count == sizeof alive_columns / sizeof *alive_columns;
    const char *const *keys = alive ? alive_columns : group_columns;
    size_t count = alive ? sizeof alive_columns / sizeof *alive_columns : sizeof group_columns / sizeof *group_columns;
    node n = first(v, list);
    for (size_t i = 0; n && i < count; i++, n = next(v, n))
        if (strcmp(keys[i], key) == 0) return n;
    return NULL;
}

static node at(const struct view *v, node object, const char *key)
{
    if (!object) return NULL;
    return object->kind == JSON_ARRAY ? column(v, object, key) : json_get(&v->json, object, key);
}

/* In a brief report a number stands for an element of "texts". */
static const char *text_at(const struct view *v, node object, const char *key)
{
    node n = at(v, object, key);
    if (n && n->kind == JSON_NUMBER && n->number >= 0) {
        double index = n->number;
        for (n = first(v, at(v, v->json.values, "texts")); n && index >= 1; index--) n = next(v, n);
    }
    return n && n->kind == JSON_STRING ? n->string : "";
}

static double number_at(const struct view *v, node object, const char *key)
{
    node n = at(v, object, key);
    return n && n->kind == JSON_NUMBER ? n->number : 0;
}

static bool true_at(const struct view *v, node object, const char *key)
{
    node n = at(v, object, key);
    return n && n->kind == JSON_TRUE;
}

static node entry(const struct view *v, const char *name)
{
    for (node e = first(v, at(v, v->json.values, "entries")); e; e = next(v, e))
        if (strcmp(text_at(v, e, "name"), name) == 0) return e;
    return NULL;
}

/* ---------------------------------------------------------------- numbers for people */

const char *cli_grouped(struct arena *arena, double x)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%.0f", x);
    struct str s = STR(arena);
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) str_add(&s, ",");
        str_add_n(&s, &digits[i], 1);
    }
    return str_text(&s);
}

static const char *grouped(struct view *v, double x) { return cli_grouped(v->cli->arena, x); }

/* 5.1 k: three digits and the unit of a thousand */
static const char *scaled(struct view *v, double x)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    int u = 0;
    while (x >= 999.5 && u < 6) x /= 1000, u++;
    return arena_format(v->cli->arena, u && x < 9.95 ? "%.1f %s" : "%.0f %s", x, units[u]);
}

static void head(struct view *v, const char *name) { str_addf(&v->out, "%-9s", name); }

/* The end of a list whose first line takes the name away: what still has it is empty. */
static void none_of(struct view *v, const char *name)
{
    if (!*name) return;
    head(v, name);
    str_add(&v->out, "none\n");
}

static const char *type_text(struct view *v, node object)
{
    struct str s = STR(v->cli->arena);
    const char *comma = "";
    str_addf(&s, "%s[", text_at(v, object, "dtype"));
    for (node d = first(v, at(v, object, "shape")); d; d = next(v, d), comma = ",")
        str_addf(&s, "%s%.0f", comma, d->number);
    str_add(&s, "]");
    return str_text(&s);
}

static void add_type(struct view *v, node object) { str_add(&v->out, type_text(v, object)); }

/* "1 kernel", "2,000 kernels" */
static void add_count(struct view *v, double n, const char *what)
{
    str_addf(&v->out, "%s %s%s", grouped(v, n), what, n == 1 ? "" : "s");
}

static void add_sharding(struct view *v, node object)
{
    node sharding = at(v, object, "sharding");
    if (!sharding) return;
    str_add(&v->out, "  sharding [");
    const char *comma = "";
    for (node d = first(v, sharding); d; d = next(v, d), comma = ", ") {
        str_addf(&v->out, "%s%s", comma, d->count ? "" : "-");
        const char *plus = "";
        for (node a = first(v, d); a; a = next(v, a), plus = "+") str_addf(&v->out, "%s%s", plus, a->string);
    }
    str_add(&v->out, "]");
}

static void add_place(struct view *v, node object)
{
    const char *place = text_at(v, object, "place");
    if (*place) str_addf(&v->out, "  at %s", place);
}

/* ---------------------------------------------------------------- sections */

static void summary(struct view *v)
{
    node root = v->json.values;
    double devices = number_at(v, root, "devices");
    str_addf(&v->out, "%s: ", text_at(v, root, "name"));
    add_count(v, number_at(v, root, "parameters"), "parameter");
    str_add(&v->out, " in ");
    add_count(v, number_at(v, root, "parameter_tensors"), "tensor");
    str_add(&v->out, ", ");
    add_count(v, devices, "device");
    node mesh = at(v, root, "mesh");
    const char *before = " (mesh ";
    for (node axis = first(v, mesh); axis; axis = next(v, axis), before = ", ")
        str_addf(&v->out, "%s%s=%.0f", before, axis->key, axis->number);
    if (first(v, mesh)) str_add(&v->out, ")");
    node target = at(v, root, "target");
    if (target) str_addf(&v->out, ", %s %s", text_at(v, target, "device"), text_at(v, target, "cpu"));
    str_add(&v->out, "\n");
}

static void flops_line(struct view *v, node e)
{
    head(v, text_at(v, e, "name"));
    str_addf(&v->out, "%sFLOP, reads and writes %sB, ", scaled(v, number_at(v, e, "flops")),
             scaled(v, number_at(v, e, "bytes")));
    add_count(v, number_at(v, e, "kernels"), "kernel");
    str_add(&v->out, "\n");
}

/* What the optimizer and the averages move through memory, and what one pass would. */
static void update(struct view *v, node e)
{
    node u = at(v, e, "update");
    double count = number_at(v, u, "parameters"), bytes = number_at(v, u, "bytes") / count,
           least = number_at(v, u, "least") / count;
    if (!u) return;
    head(v, "update");
    str_addf(&v->out, "reads and writes %.1f B per parameter, %.1f at least (%.2fx), ", bytes, least,
             least > 0 ? bytes / least : 1);
    add_count(v, number_at(v, u, "kernels"), "kernel");
    str_add(&v->out, "\n");
}

static void flops(struct view *v, node e)
{
    node groups = at(v, e, "groups");
    double total = number_at(v, e, "flops");
    for (node g = first(v, groups); g; g = next(v, g)) {
        double times = number_at(v, g, "times"), f = number_at(v, g, "flops") * times,
               b = number_at(v, g, "bytes") * times;
        str_addf(&v->out, "         #%-4.0f %-7s %9s %5.1f %%  %7s  %5.2g FLOP/B", number_at(v, g, "command"),
                 text_at(v, g, "kind"), arena_format(v->cli->arena, "%sFLOP", scaled(v, f)),
                 total > 0 ? f / total * 100 : 0, arena_format(v->cli->arena, "%sB", scaled(v, b)), b > 0 ? f / b : 0);
        if (times != 1) str_addf(&v->out, "  x%.0f", times);
        add_place(v, g);
        str_add(&v->out, "\n");
    }
}

static double arena_of(const struct view *v, node e)
{
    return number_at(v, at(v, e, "memory") ? at(v, e, "memory") : e, "arena");
}

/* Temporaries of the entry that needs most: there is one block of them. */
static double largest_arena(const struct view *v)
{
    double most = 0;
    for (node e = first(v, at(v, v->json.values, "entries")); e; e = next(v, e))
        most = arena_of(v, e) > most ? arena_of(v, e) : most;
    return most;
}

/* The peak of a step, and what other entries need beyond it. */
static double peak_bytes(const struct view *v, node step)
{
    return number_at(v, at(v, step, "memory"), "peak") - arena_of(v, step) + largest_arena(v);
}

static void memory(struct view *v, node e, bool all)
{
    static const char *const classes[][2] = {
        {"parameters", "parameters"},   {"averages", "averages"},   {"optimizer_state", "optimizer state"},
        {"other_state", "other state"}, {"gradients", "gradients"}, {"activations", "activations"},
        {"workspace", "workspace"}};
    node m = at(v, e, "memory"), peak = at(v, e, "peak");
    head(v, "memory");
    str_addf(&v->out, "peak %s B on one device (lower bound %s):", grouped(v, peak_bytes(v, e)),
             grouped(v, number_at(v, m, "lower_bound")));
    const char *comma = " ";
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        double bytes = number_at(v, m, classes[i][0]);
        if (bytes == 0) continue;
        str_addf(&v->out, "%s%s %s", comma, classes[i][1], grouped(v, bytes));
        comma = ", ";
    }
    str_add(&v->out, "\n");
    if (!peak) return;
    str_addf(&v->out, "         temporaries need %s B of it, most at kernel #%.0f",
             grouped(v, number_at(v, m, "arena")), number_at(v, peak, "command"));
    add_place(v, peak);
    str_add(&v->out, "\n");
    for (node b = all ? first(v, at(v, peak, "alive")) : NULL; b; b = next(v, b)) {
        const char *type = at(v, b, "dtype") ? type_text(v, b) : text_at(v, b, "type");
        str_addf(&v->out, "         alive there: %13s B  %-24s %s", grouped(v, number_at(v, b, "bytes")), type,
                 text_at(v, b, "op"));
        add_place(v, b);
        str_add(&v->out, "\n");
    }
}

/* State and temporaries are in an object once: its entries run one at a time. Of kernels those that are equal. */
static void shared(struct view *v)
{
    node root = v->json.values, code = at(v, root, "code");
    const char *comma = "";
    head(v, "shared");
    str_add(&v->out, "the state by all entries; temporaries of");
    for (node e = first(v, at(v, root, "entries")); e; e = next(v, e), comma = ",")
        str_addf(&v->out, "%s %s %s B", comma, text_at(v, e, "name"), grouped(v, arena_of(v, e)));
    str_addf(&v->out, ": one block of %s B\n", grouped(v, largest_arena(v)));
    if (!code) return;
    str_add(&v->out, "         kernels:");
    comma = "";
    for (node e = first(v, code); e; e = next(v, e), comma = ",") {
        node all = first(v, e), own = next(v, all);
        str_addf(&v->out, "%s %s ", comma, e->key);
        if (all->number == 0) str_add(&v->out, "in one function");
        else str_addf(&v->out, own->number == all->number ? "%.0f" : "%.0f, of its own %.0f", all->number, own->number);
    }
    str_add(&v->out, "\n");
}

static bool is_state(const struct view *v, node t)
{
    const char *role = text_at(v, t, "role");
    return strcmp(role, "ema") == 0 || strcmp(role, "opt_state") == 0 || strcmp(role, "state") == 0 ||
           strcmp(role, "hyper") == 0;
}

/* Slots: parameters, inputs and metrics as "tensors", the rest as "state"; in columns. */
static void tensors(struct view *v, bool state)
{
    enum { WIDEST = 48 }; /* one long name does not push all others aside */
    const char *name = state ? "state" : "tensors";
    size_t names = 0, types = 0;
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        size_t n = strlen(text_at(v, t, "name")), k = strlen(type_text(v, t));
        if (is_state(v, t) != state) continue;
        if (n > names && n <= WIDEST) names = n;
        if (k > types && k <= WIDEST) types = k;
    }
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        const char *role = text_at(v, t, "role");
        if (is_state(v, t) != state) continue;
        head(v, name);
        str_addf(&v->out, "%-*s  %-*s", (int)names, text_at(v, t, "name"), (int)types, type_text(v, t));
        str_addf(&v->out, "  %s%s%s", role, true_at(v, t, "frozen") ? ", frozen" : "",
                 true_at(v, t, "computed") ? ", computed when read" : "");
        add_sharding(v, t);
        add_place(v, t);
        str_add(&v->out, "\n");
        name = "";
    }
    none_of(v, name);
}

/* ---------------------------------------------------------------- state */

enum { ALL_BYTES, DEVICE_BYTES };

static uint64_t element_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        uint8_t bytes;
    } known[] = {
#define X(NAME, text, st, bytes, cls, abi) {text, bytes},
#include "kernels/dtypes.def"
#undef X
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, dtype) == 0) return known[i].bytes;
    return 0;
}

/* Bytes of the whole tensor and of what one device holds of it: every mesh axis divides the dimension that it splits.
 */
static void count_bytes(struct view *v, node t, double bytes[2])
{
    node mesh = at(v, v->json.values, "mesh"), split = first(v, at(v, t, "sharding"));
    bytes[ALL_BYTES] = bytes[DEVICE_BYTES] = (double)element_bytes(text_at(v, t, "dtype"));
    for (node d = first(v, at(v, t, "shape")); d; d = next(v, d)) {
        double parts = 1;
        for (node a = first(v, split); a; a = next(v, a)) parts *= number_at(v, mesh, a->string);
        bytes[ALL_BYTES] *= d->number;
        bytes[DEVICE_BYTES] *= parts > 1 ? (double)(((int64_t)d->number + (int64_t)parts - 1) / (int64_t)parts)
                                         : d->number;
        if (split) split = next(v, split);
    }
}

/* Everything that a run keeps and saves. Of hyper-parameters those that follow a schedule are not stored. */
static bool is_kept(const struct view *v, node t)
{
    const char *role = text_at(v, t, "role");
    if (strcmp(role, "hyper") == 0) return !true_at(v, t, "frozen");
    return is_state(v, t) || strcmp(role, "param") == 0;
}

static const char *const kept_roles[] = {"param", "ema", "opt_state", "state", "hyper"};
static const char *const kept_names[] = {"parameters", "averages", "optimizer_state", "other_state", "hyperparameters"};
enum { KEPT_ROLES = sizeof kept_roles / sizeof *kept_roles };

static uint32_t role_index(const struct view *v, node t)
{
    uint32_t i = 0;
    while (i + 1 < KEPT_ROLES && strcmp(kept_roles[i], text_at(v, t, "role")) != 0) i++;
    return i;
}

/* The name that --set takes. */
static const char *hyper_name(const struct view *v, node t)
{
    const char *name = text_at(v, t, "name"), *at_name = strstr(name, "hyperparameters.");
    if (at_name) return at_name + strlen("hyperparameters.");
    at_name = strstr(name, "hyperparams.");
    return at_name ? at_name + strlen("hyperparams.") : name;
}

static const char *hyper_text(struct view *v, node t)
{
    struct str s = STR(v->cli->arena);
    node value = at(v, t, "initial");
    if (true_at(v, t, "frozen")) return "follows a schedule";
    if (!value || value->kind != JSON_NUMBER) return "follows a schedule until it is set";
    str_add(&s, "= ");
    str_add_number(&s, value->number, false);
    return str_text(&s);
}

static void settable(struct view *v)
{
    const char *name = "set";
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        if (strcmp(text_at(v, t, "role"), "hyper") != 0) continue;
        head(v, name);
        str_addf(&v->out, "%s %s\n", hyper_name(v, t), hyper_text(v, t));
        name = "";
    }
    none_of(v, name);
}

/* Parameters that are not trained: no gradient and no state of the optimizer is kept for them. */
static double frozen(struct view *v)
{
    double count = 0, bytes[2];
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        if (strcmp(text_at(v, t, "role"), "param") != 0 || !true_at(v, t, "frozen")) continue;
        count_bytes(v, t, bytes);
        count += bytes[ALL_BYTES] / (double)element_bytes(text_at(v, t, "dtype"));
    }
    return count;
}

static void state_table(struct view *v)
{
    enum { WIDEST = 64 };
    size_t names = 0, types = 0;
    double sums[KEPT_ROLES][2] = {{0}}, total[2] = {0}, bytes[2];
    const char *name = "state";
    bool mesh = number_at(v, v->json.values, "devices") > 1;
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        size_t n = strlen(text_at(v, t, "name")), k = strlen(type_text(v, t));
        if (!is_kept(v, t)) continue;
        if (n > names && n <= WIDEST) names = n;
        if (k > types && k <= WIDEST) types = k;
    }
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        if (!is_kept(v, t)) continue;
        bool computed = true_at(v, t, "computed");
        count_bytes(v, t, bytes);
        head(v, name);
        name = "";
        str_addf(&v->out, "%-*s  %-*s  %12s B", (int)names, text_at(v, t, "name"), (int)types, type_text(v, t),
                 computed ? "0" : grouped(v, bytes[ALL_BYTES]));
        if (mesh) str_addf(&v->out, "  %12s B per device", computed ? "0" : grouped(v, bytes[DEVICE_BYTES]));
        str_addf(&v->out, "  %s%s%s", text_at(v, t, "role"), true_at(v, t, "frozen") ? ", frozen" : "",
                 computed ? ", computed when read" : "");
        add_sharding(v, t);
        str_add(&v->out, "\n");
        for (int k = 0; k < 2 && !computed; k++) sums[role_index(v, t)][k] += bytes[k], total[k] += bytes[k];
    }
    none_of(v, name);
    for (uint32_t i = 0; i <= KEPT_ROLES; i++) {
        const double *sum = i < KEPT_ROLES ? sums[i] : total;
        if (i < KEPT_ROLES && !sum[0]) continue;
        head(v, i ? "" : "bytes");
        str_addf(&v->out, "%-*s  %-*s  %12s B", (int)names, i < KEPT_ROLES ? kept_names[i] : "in all", (int)types, "",
                 grouped(v, sum[ALL_BYTES]));
        if (mesh) str_addf(&v->out, "  %12s B per device", grouped(v, sum[DEVICE_BYTES]));
        str_add(&v->out, "\n");
    }
    if (frozen(v) == 0) return;
    head(v, "frozen");
    str_addf(&v->out, "%s of %s parameters are not trained: no gradient, no state of the optimizer\n",
             grouped(v, frozen(v)), grouped(v, number_at(v, v->json.values, "parameters")));
}

static void add_bytes(struct view *v, const char *before, const double bytes[2])
{
    str_addf(&v->out, "%s\"bytes\":%.0f,\"bytes_per_device\":%.0f", before, bytes[ALL_BYTES], bytes[DEVICE_BYTES]);
}

/* {"schema":1,"name":..,"devices":..,"state":[..],"totals":{..},"frozen_parameters":..,"hyperparameters":[..]}: a
 * hyper-parameter's value is null where a schedule holds. */
static void state_json(struct view *v)
{
    double sums[KEPT_ROLES][2] = {{0}}, total[2] = {0}, bytes[2];
    const char *comma = "";
    str_add(&v->out, "{\"schema\":1,\"name\":");
    str_add_json(&v->out, text_at(v, v->json.values, "name"));
    str_addf(&v->out, ",\"devices\":%.0f,\"state\":[", number_at(v, v->json.values, "devices"));
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        if (!is_kept(v, t)) continue;
        count_bytes(v, t, bytes);
        if (true_at(v, t, "computed")) bytes[0] = bytes[1] = 0;
        str_addf(&v->out, "%s{\"name\":", comma);
        str_add_json(&v->out, text_at(v, t, "name"));
        str_addf(&v->out, ",\"role\":\"%s\",\"dtype\":\"%s\",\"shape\":[", text_at(v, t, "role"),
                 text_at(v, t, "dtype"));
        comma = "";
        for (node d = first(v, at(v, t, "shape")); d; d = next(v, d), comma = ",")
            str_addf(&v->out, "%s%.0f", comma, d->number);
        str_add(&v->out, "]");
        if (at(v, t, "sharding")) str_add(&v->out, ",\"sharding\":[");
        comma = "";
        for (node d = first(v, at(v, t, "sharding")); d; d = next(v, d), comma = ",") {
            str_addf(&v->out, "%s[", comma);
            for (node a = first(v, d), begin = a; a; a = next(v, a)) {
                if (a != begin) str_add(&v->out, ",");
                str_add_json(&v->out, a->string);
            }
            str_add(&v->out, "]");
        }
        if (at(v, t, "sharding")) str_add(&v->out, "]");
        if (true_at(v, t, "frozen")) str_add(&v->out, ",\"frozen\":true");
        if (true_at(v, t, "computed")) str_add(&v->out, ",\"computed\":true");
        add_bytes(v, ",", bytes);
        str_add(&v->out, "}");
        for (int k = 0; k < 2; k++) sums[role_index(v, t)][k] += bytes[k], total[k] += bytes[k];
        comma = ",";
    }
    str_add(&v->out, "],\"totals\":{");
    for (uint32_t i = 0; i < KEPT_ROLES; i++) {
        str_addf(&v->out, "\"%s\":", kept_names[i]);
        add_bytes(v, "{", sums[i]);
        str_add(&v->out, "},");
    }
    add_bytes(v, "", total);
    str_addf(&v->out, "},\"frozen_parameters\":%.0f,\"hyperparameters\":[", frozen(v));
    comma = "";
    for (node t = first(v, at(v, v->json.values, "tensors")); t; t = next(v, t)) {
        node value = at(v, t, "initial");
        bool fixed = true_at(v, t, "frozen");
        if (strcmp(text_at(v, t, "role"), "hyper") != 0) continue;
        str_addf(&v->out, "%s{\"name\":", comma);
        str_add_json(&v->out, hyper_name(v, t));
        if (!fixed) str_add(&v->out, ",\"slot\":");
        if (!fixed) str_add_json(&v->out, text_at(v, t, "name"));
        str_addf(&v->out, ",\"settable\":%s,\"value\":", fixed ? "false" : "true");
        if (!fixed && value && value->kind == JSON_NUMBER) str_add_number(&v->out, value->number, false);
        else str_add(&v->out, "null");
        str_add(&v->out, "}");
        comma = ",";
    }
    str_add(&v->out, "]}\n");
}

/* ---------------------------------------------------------------- */

static void fusion(struct view *v, node e)
{
    const char *name = "fusion";
    for (node g = first(v, at(v, e, "groups")); g; g = next(v, g)) {
        head(v, name);
        name = "";
        str_addf(&v->out, "#%-4.0f %-7s", number_at(v, g, "command"), text_at(v, g, "kind"));
        node ops = at(v, g, "ops");
        bool brief = ops && ops->kind == JSON_NUMBER;
        const char *plus = " ";
        if (brief) str_addf(&v->out, " %s -> %s", text_at(v, g, "ops"), text_at(v, g, "outputs"));
        for (node op = first(v, ops); op; op = next(v, op), plus = "+") str_addf(&v->out, "%s%s", plus, op->string);
        double hidden = number_at(v, g, "count") - (ops ? ops->count : 0);
        if (hidden > 0 && !brief) str_addf(&v->out, "+%.0f more", hidden);
        if (!brief) str_add(&v->out, " ->");
        for (node o = first(v, at(v, g, "outputs")); o; o = next(v, o)) str_addf(&v->out, " %s", o->string);
        add_place(v, g);
        if (*text_at(v, g, "reason")) str_addf(&v->out, "; ends: %s", text_at(v, g, "reason"));
        str_add(&v->out, "\n");
    }
    none_of(v, name);
}

static void comm(struct view *v, node e)
{
    const char *name = "comm";
    for (node c = first(v, at(v, e, "collectives")); c; c = next(v, c)) {
        head(v, name);
        name = "";
        str_addf(&v->out, "#%-4.0f %s over", number_at(v, c, "command"), text_at(v, c, "kind"));
        for (node a = first(v, at(v, c, "axes")); a; a = next(v, a)) str_addf(&v->out, " %s", a->string);
        str_add(&v->out, " of ");
        add_type(v, c);
        str_addf(&v->out, ", %s B, %.0f times per step", grouped(v, number_at(v, c, "bytes")),
                 number_at(v, c, "times"));
        add_place(v, c);
        str_add(&v->out, "\n");
    }
    none_of(v, name);
}

/* ---------------------------------------------------------------- commands */

static int open_report(struct view *v, const char *report, size_t length)
{
    static const struct json_limits limits = {(size_t)1 << 30, 128, 50000000};
    struct json_error error;
    if (json_scan(v->cli->arena, report, length, &limits, &v->json, &error) && v->json.values[0].kind == JSON_OBJECT)
        return 0;
    return cli_failed(v->cli, EXIT_WRONG, "the manifest is damaged: %s",
                      v->json.count ? "it is no object" : error.message);
}

int cli_explain_report(struct cli *cli, const char *report, size_t length)
{
    if (cli_count(cli, "json") && cli_count(cli, "state")) {
        struct view state = {.cli = cli, .out = STR(cli->arena)};
        int code = open_report(&state, report, length);
        if (code) return code;
        state_json(&state);
        return cli_print(cli, str_text(&state.out), state.out.length);
    }
    if (cli_count(cli, "json")) {
        int code = cli_print(cli, report, length);
        return code ? code : cli_print(cli, "\n", 1);
    }
    struct view v = {.cli = cli, .out = STR(cli->arena)};
    int code = open_report(&v, report, length);
    if (code) return code;
    node step = entry(&v, "step");
    bool m = cli_count(cli, "memory"), f = cli_count(cli, "flops"), g = cli_count(cli, "fusion"),
         c = cli_count(cli, "comm"), s = cli_count(cli, "state");
    bool all = !m && !f && !g && !c && !s;
    summary(&v);
    if (all)
        for (node e = first(&v, at(&v, v.json.values, "entries")); e; e = next(&v, e)) flops_line(&v, e);
    if (f && step) flops_line(&v, step);
    if ((all || f) && step) update(&v, step);
    if (f) flops(&v, step);
    if ((all || m) && step) memory(&v, step, m);
    if (m) shared(&v);
    if (all) tensors(&v, false);
    if (all) tensors(&v, true);
    if (s) state_table(&v);
    if (s) settable(&v);
    if (all || g) fusion(&v, step);
    if (all || c) comm(&v, step);
    return cli_print(cli, str_text(&v.out), v.out.length);
}

const char *cli_headline(struct cli *cli, const char *report, size_t length)
{
    struct view v = {.cli = cli, .out = STR(cli->arena)};
    if (open_report(&v, report, length)) return NULL;
    summary(&v);
    return str_text(&v.out);
}

int cli_summary(struct cli *cli, const char *report, size_t length)
{
    struct view v = {.cli = cli, .out = STR(cli->arena)};
    int code = open_report(&v, report, length);
    if (code) return code;
    node step = entry(&v, "step");
    str_addf(&v.out, "%s: %s parameters, %sFLOP per step, %s B of memory per device\n",
             text_at(&v, v.json.values, "name"), grouped(&v, number_at(&v, v.json.values, "parameters")),
             scaled(&v, number_at(&v, step, "flops")), grouped(&v, peak_bytes(&v, step)));
    return cli_print(cli, str_text(&v.out), v.out.length);
}
