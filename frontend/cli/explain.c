/* stepc explain: prints the report on a plan. The report is JSON (ir/report.c) whether it comes from a document or from
 * an object's note, so both read the same. */
#include "frontend/cli/explain.h"
#include "ir/plan.h"

#include <stdio.h>

/* ---------------------------------------------------------------- sections */

static void summary(struct cli_view *v)
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

static void flops_line(struct cli_view *v, node e)
{
    head(v, text_at(v, e, "name"));
    str_addf(&v->out, "%sFLOP, reads and writes %sB, ", scaled(v, number_at(e, "flops")),
             scaled(v, number_at(e, "bytes")));
    add_count(v, number_at(e, "kernels"), "kernel");
    str_add(&v->out, "\n");
}

/* What the optimizer and the averages move through memory, and what one pass would. */
static void update(struct cli_view *v, node e)
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

static void flops(struct cli_view *v, node e)
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

/* ---------------------------------------------------------------- commands */

static int open_report(struct cli_view *v, const char *report, size_t length)
{
    v->root = json_read(v->cli->arena, report, length);
    if (cJSON_IsObject(v->root)) return 0;
    return cli_failed(v->cli, EXIT_WRONG, "the manifest is damaged: it is no %s", v->root ? "object" : "JSON");
}

/* ---------------------------------------------------------------- on one screen */

static bool is_of_state(const char *role)
{
    static const char *const roles[] = {"ema", "opt_state", "state", "hyper"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0) return true;
    return false;
}

static bool is_of_tensors(const char *role) { return !is_of_state(role); }

static bool is_any(const char *kind) { return *kind != 0; }

/* "12 map, 8 dot; --fusion lists them": how many of a list there are of each kind. */
static void counted(struct cli_view *v, const char *name, node list, const char *key, bool (*takes)(const char *),
                    const char *flag)
{
    enum { KINDS = 32 };
    const char *kinds[KINDS], *comma = "";
    uint32_t counts[KINDS] = {0}, n = 0;
    for (node e = first(list); e; e = next(e)) {
        const char *kind = text_at(v, e, key);
        uint32_t i = 0;
        while (i < n && strcmp(kinds[i], kind) != 0) i++;
        if (!takes(kind) || i == KINDS) continue;
        if (i == n) kinds[n++] = kind;
        counts[i]++;
    }
    if (!n) {
        none_of(v, name);
        return;
    }
    head(v, name);
    for (uint32_t i = 0; i < n; i++, comma = ", ") str_addf(&v->out, "%s%u %s", comma, (unsigned)counts[i], kinds[i]);
    str_addf(&v->out, "; --%s lists %s\n", flag, n > 1 || counts[0] > 1 ? "them" : "it");
}

/* Lines that are wider than the terminal go on behind a comma, below the text. */
static const char *wrapped(struct cli_view *v, size_t width)
{
    struct str out = STR(v->cli->arena);
    const char *line = str_text(&v->out);
    bool below = false;
    while (*line) {
        const char *end = strchr(line, '\n'), *cut = NULL;
        size_t indent = below ? strlen("         ") : 0, length = end ? (size_t)(end - line) : strlen(line);
        for (size_t i = 1; i + indent < width && i < length; i++)
            if (line[i] == ' ' && strchr(",;:", line[i - 1])) cut = line + i;
        bool whole = length + indent <= width || !cut;
        str_addf(&out, "%*s%.*s\n", (int)indent, "", whole ? (int)length : (int)(cut - line), line);
        below = !whole;
        line = whole ? line + length + (end != NULL) : cut + 1;
    }
    return str_text(&out);
}

int cli_explain_report(struct cli *cli, const char *report, size_t length)
{
    if (cli_count(cli, "assert")) {
        struct cli_view all = {.cli = cli};
        int code = open_report(&all, report, length);
        if (!code) code = cli_explain_assert(&all);
        if (code || !cli_explain_lists(cli)) return code;
    }
    if (cli_count(cli, "json") && cli_count(cli, "state")) {
        struct cli_view state = {.cli = cli};
        int code = open_report(&state, report, length);
        if (code) return code;
        const char *text = cli_explain_state_json(&state);
        return cli_print(cli, text, strlen(text));
    }
    if (cli_count(cli, "json") && cli_count(cli, "link"))
        return cli_usage(cli, "--link is for the text: --json gives the bytes of every collective");
    if (cli_count(cli, "device") && !cli_count(cli, "link"))
        return cli_usage(cli, "--device says what hides communication: say also how fast the links are, by --link");
    if (cli_count(cli, "json")) {
        struct cli_view whole = {.cli = cli};
        int code = open_report(&whole, report, length);
        node of = entry(&whole, "step");
        if (!code && of && !at(whole.root, "memory")) { /* an object's: it stands in the entry alone */
            report = arena_format(cli->arena, "%.*s,\"memory\":%s}", (int)length - 1, report,
                                  cli_step_memory(&whole, of));
            length = strlen(report);
        }
        if (!code) code = cli_print(cli, report, length);
        return code ? code : cli_print(cli, "\n", 1);
    }
    struct cli_view v = {.cli = cli, .out = STR(cli->arena)};
    int code = open_report(&v, report, length);
    if (code) return code;
    node step = entry(&v, "step");
    bool m = cli_count(cli, "memory"), f = cli_count(cli, "flops"), g = cli_count(cli, "fusion"),
         c = cli_count(cli, "comm") || cli_count(cli, "link"), s = cli_count(cli, "state"),
         l = cli_count(cli, "sharding");
    bool t = cli_count(cli, "tensors"), k = cli_count(cli, "kernels"),
         all = !m && !f && !g && !c && !s && !l && !t && !k;
    if (cli_count(cli, "card") && !k) return cli_usage(cli, "--card needs --kernels");
    summary(&v);
    if (all)
        for (node e = first(at(v.root, "entries")); e; e = next(e)) flops_line(&v, e);
    if (f && step) flops_line(&v, step);
    if ((all || f) && step) update(&v, step);
    if (f) flops(&v, step);
    if (all || m) cli_explain_memory(&v, step, m);
    if (m) cli_explain_shared(&v);
    if (t) cli_explain_tensors(&v, false);
    if (t) cli_explain_tensors(&v, true);
    if (s) cli_explain_state(&v);
    if (g) cli_explain_fusion(&v, step);
    if (l) cli_explain_layouts(&v);
    if (c) code = cli_explain_comm(&v, step);
    if (k && !code) code = cli_explain_kernels(&v, step);
    if (all) {
        counted(&v, "tensors", at(v.root, "tensors"), "role", is_of_tensors, "tensors");
        counted(&v, "state", at(v.root, "tensors"), "role", is_of_state, "state");
        counted(&v, "fusion", at(step, "groups"), "kind", is_any, "fusion");
        counted(&v, "comm", at(step, "collectives"), "kind", is_any, "comm");
    }
    const char *text = all ? wrapped(&v, cli_columns(1, 160)) : str_text(&v.out);
    return code ? code : cli_print(cli, text, strlen(text));
}

const char *cli_headline(struct cli *cli, const char *report, size_t length)
{
    struct cli_view v = {.cli = cli, .out = STR(cli->arena)};
    if (open_report(&v, report, length)) return NULL;
    summary(&v);
    return str_text(&v.out);
}

const char *cli_report_name(struct cli *cli, const char *report)
{
    struct cli_view v = {.cli = cli, .root = json_read(cli->arena, report, strlen(report))};
    return text_at(&v, v.root, "name");
}

double cli_report_number(struct cli *cli, const char *report, const char *entry_name, const char *key)
{
    struct cli_view v = {.cli = cli, .root = json_read(cli->arena, report, strlen(report))};
    return number_at(entry_name ? entry(&v, entry_name) : v.root, key);
}

void cli_report_range(struct cli *cli, const char *report, const char *tensor, double range[2])
{
    struct cli_view v = {.cli = cli, .root = json_read(cli->arena, report, strlen(report))};
    node t;
    cJSON_ArrayForEach(t, at(v.root, "tensors"))
    {
        node r = at(t, "range");
        if (strcmp(text_at(&v, t, "name"), tensor) != 0 || cJSON_GetArraySize(r) != 2) continue;
        double least = cJSON_GetArrayItem(r, 0)->valuedouble, end = cJSON_GetArrayItem(r, 1)->valuedouble;
        if (end > least) range[0] = least, range[1] = end;
    }
}

int cli_summary(struct cli *cli, const struct plan_module *plans)
{
    struct cli_view v = {.cli = cli, .out = STR(cli->arena)};
    struct report_totals t = ir_report_totals(plans);
    str_addf(&v.out, "%s: %s parameters, %sFLOP per step, %s B of memory per device\n", plans->module->name,
             grouped(&v, (double)t.parameters), scaled(&v, t.flops), grouped(&v, (double)t.peak));
    return cli_print(cli, str_text(&v.out), v.out.length);
}
