/* stepc explain: prints the report on a plan. The report is JSON (ir/report.c) whether it comes from a document or from
 * an object's note, so both read the same. */
#include "frontend/cli/cli.h"
#include "ir/base/json_tree.h"
#include "ir/ir.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct view {
    struct cli *cli;
    const struct cJSON *root;
    struct str out;
};
typedef const struct cJSON *node;

/* ---------------------------------------------------------------- the report */

static node first(node list) { return list ? list->child : NULL; }
static node next(node child) { return child->next; }
static uint32_t count_of(node list) { return list ? (uint32_t)cJSON_GetArraySize(list) : 0; }

/* Objects carry a brief report, in which groups and tensors alive are lists: the columns are those of ir/report.c. */
static const char *const group_columns[] = {"command", "kind",   "ops",   "count", "outputs",
                                            "place",   "reason", "flops", "bytes", "times"};
static const char *const alive_columns[] = {"bytes", "type", "op", "place"};

static node column(node list, const char *key)
{
    bool alive = count_of(list) == sizeof alive_columns / sizeof *alive_columns;
    const char *const *keys = alive ? alive_columns : group_columns;
    size_t count = alive ? sizeof alive_columns / sizeof *alive_columns : sizeof group_columns / sizeof *group_columns;
    node n = first(list);
    for (size_t i = 0; n && i < count; i++, n = next(n))
        if (strcmp(keys[i], key) == 0) return n;
    return NULL;
}

static node at(node object, const char *key)
{
    if (!object) return NULL;
    return cJSON_IsArray(object) ? column(object, key) : cJSON_GetObjectItemCaseSensitive(object, key);
}

/* In a brief report a number stands for an element of "texts". */
static const char *text_at(const struct view *v, node object, const char *key)
{
    node n = at(object, key);
    if (cJSON_IsNumber(n) && n->valuedouble >= 0) {
        double index = n->valuedouble;
        for (n = first(at(v->root, "texts")); n && index >= 1; index--) n = next(n);
    }
    return cJSON_IsString(n) ? n->valuestring : "";
}

static double number_at(node object, const char *key)
{
    node n = at(object, key);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static bool true_at(node object, const char *key) { return cJSON_IsTrue(at(object, key)); }

static node entry(const struct view *v, const char *name)
{
    for (node e = first(at(v->root, "entries")); e; e = next(e))
        if (strcmp(text_at(v, e, "name"), name) == 0) return e;
    return NULL;
}

/* ---------------------------------------------------------------- numbers for people */

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
    for (node d = first(at(object, "shape")); d; d = next(d), comma = ",")
        str_addf(&s, "%s%.0f", comma, d->valuedouble);
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
    node sharding = at(object, "sharding");
    if (!sharding) return;
    str_add(&v->out, "  sharding [");
    const char *comma = "";
    for (node d = first(sharding); d; d = next(d), comma = ", ") {
        str_addf(&v->out, "%s%s", comma, d->child ? "" : "-");
        const char *plus = "";
        for (node a = first(d); a; a = next(a), plus = "+") str_addf(&v->out, "%s%s", plus, a->valuestring);
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
    node root = v->root;
    double devices = number_at(root, "devices");
    str_addf(&v->out, "%s: ", text_at(v, root, "name"));
    add_count(v, number_at(root, "parameters"), "parameter");
    str_add(&v->out, " in ");
    add_count(v, number_at(root, "parameter_tensors"), "tensor");
    str_add(&v->out, ", ");
    add_count(v, devices, "device");
    node mesh = at(root, "mesh");
    const char *before = " (mesh ";
    for (node axis = first(mesh); axis; axis = next(axis), before = ", ")
        str_addf(&v->out, "%s%s=%.0f", before, axis->string, axis->valuedouble);
    if (first(mesh)) str_add(&v->out, ")");
    node target = at(root, "target");
    if (target) str_addf(&v->out, ", %s %s", text_at(v, target, "device"), text_at(v, target, "cpu"));
    str_add(&v->out, "\n");
}

static void flops_line(struct view *v, node e)
{
    head(v, text_at(v, e, "name"));
    str_addf(&v->out, "%sFLOP, reads and writes %sB, ", scaled(v, number_at(e, "flops")),
             scaled(v, number_at(e, "bytes")));
    add_count(v, number_at(e, "kernels"), "kernel");
    str_add(&v->out, "\n");
}

/* What the optimizer and the averages move through memory, and what one pass would. */
static void update(struct view *v, node e)
{
    node u = at(e, "update");
    double count = number_at(u, "parameters"), bytes = number_at(u, "bytes") / count,
           least = number_at(u, "least") / count;
    if (!u) return;
    head(v, "update");
    str_addf(&v->out, "reads and writes %.1f B per parameter, %.1f at least (%.2fx), ", bytes, least,
             least > 0 ? bytes / least : 1);
    add_count(v, number_at(u, "kernels"), "kernel");
    str_add(&v->out, "\n");
}

static void flops(struct view *v, node e)
{
    node groups = at(e, "groups");
    double total = number_at(e, "flops");
    for (node g = first(groups); g; g = next(g)) {
        double times = number_at(g, "times"), f = number_at(g, "flops") * times, b = number_at(g, "bytes") * times;
        str_addf(&v->out, "         #%-4.0f %-7s %9s %5.1f %%  %7s  %5.2g FLOP/B", number_at(g, "command"),
                 text_at(v, g, "kind"), arena_format(v->cli->arena, "%sFLOP", scaled(v, f)),
                 total > 0 ? f / total * 100 : 0, arena_format(v->cli->arena, "%sB", scaled(v, b)), b > 0 ? f / b : 0);
        if (times != 1) str_addf(&v->out, "  x%.0f", times);
        add_place(v, g);
        str_add(&v->out, "\n");
    }
}

static double arena_of(node e) { return number_at(at(e, "memory") ? at(e, "memory") : e, "arena"); }

/* Temporaries of the entry that needs most: there is one block of them. */
static double largest_arena(const struct view *v)
{
    double most = 0;
    for (node e = first(at(v->root, "entries")); e; e = next(e)) most = arena_of(e) > most ? arena_of(e) : most;
    return most;
}

/* The peak of a step, and what other entries need beyond it. */
static double peak_bytes(const struct view *v, node step)
{
    return number_at(at(step, "memory"), "peak") - arena_of(step) + largest_arena(v);
}

static void memory(struct view *v, node e, bool all)
{
    static const char *const classes[][2] = {
        {"parameters", "parameters"},   {"averages", "averages"},   {"optimizer_state", "optimizer state"},
        {"other_state", "other state"}, {"gradients", "gradients"}, {"activations", "activations"},
        {"workspace", "workspace"}};
    node m = at(e, "memory"), peak = at(e, "peak");
    head(v, "memory");
    str_addf(&v->out, "peak %s B on one device (lower bound %s):", grouped(v, peak_bytes(v, e)),
             grouped(v, number_at(m, "lower_bound")));
    const char *comma = " ";
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        double bytes = number_at(m, classes[i][0]);
        if (bytes == 0) continue;
        str_addf(&v->out, "%s%s %s", comma, classes[i][1], grouped(v, bytes));
        comma = ", ";
    }
    str_add(&v->out, "\n");
    if (!peak) return;
    str_addf(&v->out, "         temporaries need %s B of it, most at kernel #%.0f", grouped(v, number_at(m, "arena")),
             number_at(peak, "command"));
    add_place(v, peak);
    str_add(&v->out, "\n");
    for (node b = all ? first(at(peak, "alive")) : NULL; b; b = next(b)) {
        const char *type = at(b, "dtype") ? type_text(v, b) : text_at(v, b, "type");
        str_addf(&v->out, "         alive there: %13s B  %-24s %s", grouped(v, number_at(b, "bytes")), type,
                 text_at(v, b, "op"));
        add_place(v, b);
        str_add(&v->out, "\n");
    }
}

/* Wide products whose rows are computed a run at a time, and those that exist whole. */
static void chunks(struct view *v, bool all)
{
    const char *name = "chunks";
    for (node c = first(at(v->root, "chunks")); c; c = next(c)) {
        double rows = number_at(c, "rows"), size = number_at(c, "chunk");
        if (!size && !all) continue;
        head(v, name);
        name = "";
        if (size) str_addf(&v->out, "%.0f of %.0f rows: %.4g times less of ", rows / size, size, rows / size);
        else str_add(&v->out, "none of ");
        add_type(v, c);
        if (!size) str_addf(&v->out, ": %s", text_at(v, c, "why"));
        add_place(v, c);
        str_add(&v->out, "\n");
    }
}

/* State and temporaries are in an object once: its entries run one at a time. Of kernels those that are equal. */
static void shared(struct view *v)
{
    node root = v->root, code = at(root, "code");
    const char *comma = "";
    head(v, "shared");
    str_add(&v->out, "the state by all entries; temporaries of");
    for (node e = first(at(root, "entries")); e; e = next(e), comma = ",")
        str_addf(&v->out, "%s %s %s B", comma, text_at(v, e, "name"), grouped(v, arena_of(e)));
    str_addf(&v->out, ": one block of %s B\n", grouped(v, largest_arena(v)));
    if (!code) return;
    str_add(&v->out, "         kernels:");
    comma = "";
    for (node e = first(code); e; e = next(e), comma = ",") {
        node all = first(e), own = next(all);
        str_addf(&v->out, "%s %s ", comma, e->string);
        if (all->valuedouble == 0) str_add(&v->out, "in one function");
        else
            str_addf(&v->out, own->valuedouble == all->valuedouble ? "%.0f" : "%.0f, of its own %.0f", all->valuedouble,
                     own->valuedouble);
    }
    str_add(&v->out, "\n");
}

static bool is_state(const struct view *v, node t)
{
    const char *role = text_at(v, t, "role");
    return strcmp(role, "ema") == 0 || strcmp(role, "opt_state") == 0 || strcmp(role, "state") == 0 ||
           strcmp(role, "hyper") == 0;
}

/* The widths of the columns of names and types; one long name does not push all others aside. */
static void widths(struct view *v, bool (*shown)(const struct view *, node), size_t widest, int *names, int *types)
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
static void add_role(struct view *v, node t)
{
    str_addf(&v->out, "  %s%s%s", text_at(v, t, "role"), true_at(t, "frozen") ? ", frozen" : "",
             true_at(t, "computed") ? ", computed when read" : "");
    add_sharding(v, t);
}

static bool is_no_state(const struct view *v, node t) { return !is_state(v, t); }

/* Slots: parameters, inputs and metrics as "tensors", the rest as "state"; in columns. */
static void tensors(struct view *v, bool state)
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

static double element_bytes(const struct view *v, node t)
{
    return (double)ir_dtype_bytes(ir_dtype_find(text_at(v, t, "dtype")));
}

/* Bytes of the whole tensor and of what one device holds of it: every mesh axis divides the dimension that it splits.
 */
static void count_bytes(const struct view *v, node t, double bytes[2])
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
static bool is_kept(const struct view *v, node t)
{
    const char *role = text_at(v, t, "role");
    if (strcmp(role, "hyper") == 0) return !true_at(t, "frozen");
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
    node value = at(t, "initial");
    if (true_at(t, "frozen")) return "follows a schedule";
    if (!value || !cJSON_IsNumber(value)) return "follows a schedule until it is set";
    str_add(&s, "= ");
    str_add_number(&s, value->valuedouble, false);
    return str_text(&s);
}

static void settable(struct view *v)
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
static double frozen(const struct view *v)
{
    double count = 0, bytes[2];
    for (node t = first(at(v->root, "tensors")); t; t = next(t)) {
        if (strcmp(text_at(v, t, "role"), "param") != 0 || !true_at(t, "frozen")) continue;
        count_bytes(v, t, bytes);
        count += bytes[ALL_BYTES] / element_bytes(v, t);
    }
    return count;
}

static void state_table(struct view *v)
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
static const char *state_json(const struct view *v)
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

/* ---------------------------------------------------------------- */

enum { LINE_WIDTH = 160, LEAST_ROOM = 40 };

/* Columns of the terminal; where there is none, of a text that people read. */
static size_t line_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? LINE_WIDTH : size.ws_col;
}

/* As many of a list as there is room for, at least one; the others are counted. --json has all. */
static void add_list(struct view *v, const char *text, char separator, size_t room)
{
    size_t shown = 0, left = 1, depth = 0, length = strlen(text), last = 0;
    int more = 0, end = 0;
    for (size_t i = 0; i < length; i++) {
        depth += text[i] == '[';
        depth -= text[i] == ']';
        if (depth || text[i] != separator) continue;
        last = i + 1;
        if (!shown || i + strlen("+1000 more") <= room) shown = i;
        else left++;
    }
    if (separator == '+' && sscanf(text + last, "%d more%n", &more, &end) == 1 && end) left += (size_t)more - 1;
    if (length <= room || !shown) str_add(&v->out, text);
    else str_addf(&v->out, "%.*s%s+%zu more", (int)shown, text, separator == '+' ? "" : " ", left);
}

static const char *list_text(struct view *v, node list, const char *separator)
{
    struct str s = STR(v->cli->arena);
    for (node i = first(list); i; i = next(i)) str_addf(&s, "%s%s", i == first(list) ? "" : separator, i->valuestring);
    return str_text(&s);
}

static void fusion(struct view *v, node e)
{
    const char *name = "fusion";
    size_t width = line_width();
    for (node g = first(at(e, "groups")); g; g = next(g)) {
        const char *place = text_at(v, g, "place"), *reason = text_at(v, g, "reason");
        node list = at(g, "ops");
        bool brief = cJSON_IsNumber(list);
        const char *ops = brief ? text_at(v, g, "ops") : list_text(v, list, "+");
        const char *outputs = brief ? text_at(v, g, "outputs") : list_text(v, at(g, "outputs"), " ");
        size_t taken = strlen("fusion   #0    column   ->   at ") + strlen(place),
               ending = strlen("; ends: ") + strlen(reason);
        bool close = !*reason || taken + ending + LEAST_ROOM <= width; /* else on a line of its own */
        if (close) taken += ending;
        size_t room = width > taken + LEAST_ROOM ? width - taken : LEAST_ROOM, half = room / 2;
        size_t of_outputs = strlen(ops) < half ? room - strlen(ops) : half;
        head(v, name);
        name = "";
        str_addf(&v->out, "#%-4.0f %-7s ", number_at(g, "command"), text_at(v, g, "kind"));
        add_list(v, ops, '+', strlen(outputs) < half ? room - strlen(outputs) : half);
        str_add(&v->out, " -> ");
        add_list(v, outputs, ' ', of_outputs);
        add_place(v, g);
        if (*reason) str_addf(&v->out, "%s ends: %s", close ? ";" : "\n              ", reason);
        str_add(&v->out, "\n");
    }
    none_of(v, name);
}

/* Messages wait for each other in a sum: shares go to who finishes them and from there to all (runtime/comm_cross.c).
 */
static uint32_t rounds_of(const struct view *v, node collective)
{
    enum { FEW = 4096 /* bytes that everybody sums alone */ };
    return strcmp(text_at(v, collective, "kind"), "all_reduce") == 0 && number_at(collective, "payload") > FEW ? 2 : 1;
}

/* The step's kernels up to command `before`. */
static node add_kernels(node g, double before, struct cli_timed *list, uint32_t *n)
{
    for (; g && number_at(g, "command") < before; g = next(g))
        list[(*n)++] = (struct cli_timed){.command = (uint32_t)number_at(g, "command"),
                                          .flops = number_at(g, "flops"),
                                          .bytes = number_at(g, "bytes"),
                                          .times = number_at(g, "times")};
    return g;
}

static int comm(struct view *v, node e)
{
    const char *name = "comm", *axes[IR_MAX_AXES];
    node g = first(at(e, "groups"));
    struct cli_timed *list = arena_new_array(v->cli->arena, struct cli_timed,
                                             count_of(at(e, "groups")) + count_of(at(e, "collectives")) + 1);
    uint32_t count = 0, n = 0;
    int wide = 4;
    for (node c = first(at(e, "collectives")); c; c = next(c)) wide = at(c, "until") ? 9 : wide;
    for (node a = first(at(v->root, "mesh")); a && count < IR_MAX_AXES; a = next(a)) axes[count++] = a->string;
    for (node c = first(at(e, "collectives")); c; c = next(c)) {
        uint32_t mask = 0;
        head(v, name);
        name = "";
        char numbers[64];
        snprintf(numbers, sizeof numbers, at(c, "until") ? "%.0f-%.0f" : "%.0f", number_at(c, "command"),
                 at(c, "until") ? number_at(c, "until") : 0);
        str_addf(&v->out, "#%-*s %s over", wide, numbers, text_at(v, c, "kind"));
        for (node a = first(at(c, "axes")); a; a = next(a)) {
            str_addf(&v->out, " %s", a->valuestring);
            for (uint32_t i = 0; i < count; i++) mask |= (uint32_t)(strcmp(axes[i], a->valuestring) == 0) << i;
        }
        str_add(&v->out, " of ");
        add_type(v, c);
        str_addf(&v->out, ", %s B, ", grouped(v, number_at(c, "payload")));
        str_addf(&v->out, "%s B sent, %.0f times per step", grouped(v, number_at(c, "ring")), number_at(c, "times"));
        g = add_kernels(g, number_at(c, "command"), list, &n);
        if (!n || !list[n - 1].axes || list[n - 1].command != (uint32_t)number_at(c, "command"))
            list[n++] = (struct cli_timed){.command = (uint32_t)number_at(c, "command"),
                                           .until = (uint32_t)number_at(c, "until"),
                                           .axes = mask,
                                           .times = number_at(c, "times")};
        struct cli_timed *whole = &list[n - 1]; /* one command for several tensors */
        whole->bytes += number_at(c, "ring");
        whole->rounds = rounds_of(v, c) > whole->rounds ? rounds_of(v, c) : whole->rounds;
        add_place(v, c);
        str_add(&v->out, "\n");
    }
    none_of(v, name);
    add_kernels(g, HUGE_VAL, list, &n);
    return cli_links(v->cli, axes, count, list, n, &v->out);
}

static void layouts(struct view *v)
{
    static const char *const from[][2] = {
        {"default", "as nothing is said of it"}, {"document", "as the document says"},
        {"parameter", "as its parameter"},       {"constraint", "by the constraint"},
        {"operands", "as its operands"},         {"readers", "as what reads it wants"}};
    const char *name = "sharding";
    if (!at(v->root, "layouts")) {
        head(v, name);
        str_add(&v->out, number_at(v->root, "devices") > 1 ? "objects do not hold it: explain the document\n"
                                                           : "there is one device\n");
        return;
    }
    for (node l = first(at(v->root, "layouts")); l; l = next(l)) {
        head(v, name);
        name = "";
        str_addf(&v->out, "%s ", text_at(v, l, "op"));
        add_type(v, l);
        add_sharding(v, l);
        for (size_t i = 0; i < sizeof from / sizeof *from; i++)
            if (strcmp(text_at(v, l, "from"), from[i][0]) == 0) str_addf(&v->out, ", %s", from[i][1]);
        if (number_at(l, "count") > 1) str_addf(&v->out, ", %s of them", grouped(v, number_at(l, "count")));
        add_place(v, l);
        str_add(&v->out, "\n");
    }
}

/* ---------------------------------------------------------------- commands */

static int open_report(struct view *v, const char *report, size_t length)
{
    v->root = json_read(v->cli->arena, report, length);
    if (cJSON_IsObject(v->root)) return 0;
    return cli_failed(v->cli, EXIT_WRONG, "the manifest is damaged: it is no %s", v->root ? "object" : "JSON");
}

int cli_explain_report(struct cli *cli, const char *report, size_t length)
{
    if (cli_count(cli, "json") && cli_count(cli, "state")) {
        struct view state = {.cli = cli};
        int code = open_report(&state, report, length);
        if (code) return code;
        const char *text = state_json(&state);
        return cli_print(cli, text, strlen(text));
    }
    if (cli_count(cli, "json") && cli_count(cli, "link"))
        return cli_usage(cli, "--link is for the text: --json gives the bytes of every collective");
    if (cli_count(cli, "device") && !cli_count(cli, "link"))
        return cli_usage(cli, "--device says what hides communication: say also how fast the links are, by --link");
    if (cli_count(cli, "json")) {
        int code = cli_print(cli, report, length);
        return code ? code : cli_print(cli, "\n", 1);
    }
    struct view v = {.cli = cli, .out = STR(cli->arena)};
    int code = open_report(&v, report, length);
    if (code) return code;
    node step = entry(&v, "step");
    bool m = cli_count(cli, "memory"), f = cli_count(cli, "flops"), g = cli_count(cli, "fusion"),
         c = cli_count(cli, "comm") || cli_count(cli, "link"), s = cli_count(cli, "state"),
         l = cli_count(cli, "sharding");
    bool all = !m && !f && !g && !c && !s && !l;
    summary(&v);
    if (all)
        for (node e = first(at(v.root, "entries")); e; e = next(e)) flops_line(&v, e);
    if (f && step) flops_line(&v, step);
    if ((all || f) && step) update(&v, step);
    if (f) flops(&v, step);
    if ((all || m) && step) memory(&v, step, m);
    if (all || m) chunks(&v, m);
    if (m) shared(&v);
    if (all) tensors(&v, false);
    if (all) tensors(&v, true);
    if (s) state_table(&v);
    if (s) settable(&v);
    if (all || g) fusion(&v, step);
    if (l) layouts(&v);
    if (all || c) code = comm(&v, step);
    return code ? code : cli_print(cli, str_text(&v.out), v.out.length);
}

const char *cli_headline(struct cli *cli, const char *report, size_t length)
{
    struct view v = {.cli = cli, .out = STR(cli->arena)};
    if (open_report(&v, report, length)) return NULL;
    summary(&v);
    return str_text(&v.out);
}

const char *cli_report_name(struct cli *cli, const char *report)
{
    struct view v = {.cli = cli, .root = json_read(cli->arena, report, strlen(report))};
    return text_at(&v, v.root, "name");
}

double cli_report_number(struct cli *cli, const char *report, const char *entry_name, const char *key)
{
    struct view v = {.cli = cli, .root = json_read(cli->arena, report, strlen(report))};
    return number_at(entry_name ? entry(&v, entry_name) : v.root, key);
}

void cli_report_range(struct cli *cli, const char *report, const char *tensor, double range[2])
{
    struct view v = {.cli = cli, .root = json_read(cli->arena, report, strlen(report))};
    node t;
    cJSON_ArrayForEach(t, at(v.root, "tensors"))
    {
        node r = at(t, "range");
        if (strcmp(text_at(&v, t, "name"), tensor) != 0 || cJSON_GetArraySize(r) != 2) continue;
        double least = cJSON_GetArrayItem(r, 0)->valuedouble, end = cJSON_GetArrayItem(r, 1)->valuedouble;
        if (end > least) range[0] = least, range[1] = end;
    }
}

int cli_summary(struct cli *cli, const char *report, size_t length)
{
    struct view v = {.cli = cli, .out = STR(cli->arena)};
    int code = open_report(&v, report, length);
    if (code) return code;
    node step = entry(&v, "step");
    str_addf(&v.out, "%s: %s parameters, %sFLOP per step, %s B of memory per device\n", text_at(&v, v.root, "name"),
             grouped(&v, number_at(v.root, "parameters")), scaled(&v, number_at(step, "flops")),
             grouped(&v, peak_bytes(&v, step)));
    return cli_print(cli, str_text(&v.out), v.out.length);
}
