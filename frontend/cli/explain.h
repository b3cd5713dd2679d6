/* Private to explain*.c: a report on a plan, how it is read, and how numbers of it are written for people. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H
#include "frontend/cli/cli.h"
#include "ir/base/json_tree.h"

#include <cjson/cJSON.h>
#include <string.h>

struct cli_view {
    struct cli *cli;
    const struct cJSON *root;
    struct str out;
};
typedef const struct cJSON *node;

/* ---------------------------------------------------------------- the report */

static inline node first(node list) { return list ? list->child : NULL; }
static inline node next(node child) { return child->next; }
static inline uint32_t count_of(node list) { return list ? (uint32_t)cJSON_GetArraySize(list) : 0; }

/* Objects carry a brief report, in which groups and tensors alive are lists: the columns are those of ir/report.c. */
static const char *const group_columns[] = {"command", "kind",   "ops",   "count", "outputs",
                                            "place",   "reason", "flops", "bytes", "times"};
static const char *const alive_columns[] = {"bytes", "type", "op", "place"};

static inline node column(node list, const char *key)
{
    bool alive = count_of(list) == sizeof alive_columns / sizeof *alive_columns;
    const char *const *keys = alive ? alive_columns : group_columns;
    size_t count = alive ? sizeof alive_columns / sizeof *alive_columns : sizeof group_columns / sizeof *group_columns;
    node n = first(list);
    for (size_t i = 0; n && i < count; i++, n = next(n))
        if (strcmp(keys[i], key) == 0) return n;
    return NULL;
}

static inline node at(node object, const char *key)
{
    if (!object) return NULL;
    return cJSON_IsArray(object) ? column(object, key) : cJSON_GetObjectItemCaseSensitive(object, key);
}

/* In a brief report a number stands for an element of "texts". */
static inline const char *text_at(const struct cli_view *v, node object, const char *key)
{
    node n = at(object, key);
    if (cJSON_IsNumber(n) && n->valuedouble >= 0) {
        double index = n->valuedouble;
        for (n = first(at(v->root, "texts")); n && index >= 1; index--) n = next(n);
    }
    return cJSON_IsString(n) ? n->valuestring : "";
}

static inline double number_at(node object, const char *key)
{
    node n = at(object, key);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static inline bool true_at(node object, const char *key) { return cJSON_IsTrue(at(object, key)); }

static inline node entry(const struct cli_view *v, const char *name)
{
    for (node e = first(at(v->root, "entries")); e; e = next(e))
        if (strcmp(text_at(v, e, "name"), name) == 0) return e;
    return NULL;
}

/* ---------------------------------------------------------------- numbers for people */

static inline const char *grouped(struct cli_view *v, double x) { return cli_grouped(v->cli->arena, x); }

/* 5.1 k: three digits and the unit of a thousand */
static inline const char *scaled(struct cli_view *v, double x)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    int u = 0;
    while (x >= 999.5 && u < 6) x /= 1000, u++;
    return arena_format(v->cli->arena, u && x < 9.95 ? "%.1f %s" : "%.0f %s", x, units[u]);
}

static inline void head(struct cli_view *v, const char *name) { str_addf(&v->out, "%-9s", name); }

/* The end of a list whose first line takes the name away: what still has it is empty. */
static inline void none_of(struct cli_view *v, const char *name)
{
    if (!*name) return;
    head(v, name);
    str_add(&v->out, "none\n");
}

static inline const char *type_text(struct cli_view *v, node object)
{
    struct str s = STR(v->cli->arena);
    const char *comma = "";
    str_addf(&s, "%s[", text_at(v, object, "dtype"));
    for (node d = first(at(object, "shape")); d; d = next(d), comma = ",")
        str_addf(&s, "%s%.0f", comma, d->valuedouble);
    str_add(&s, "]");
    return str_text(&s);
}

static inline void add_type(struct cli_view *v, node object) { str_add(&v->out, type_text(v, object)); }

/* "1 kernel", "2,000 kernels" */
static inline void add_count(struct cli_view *v, double n, const char *what)
{
    str_addf(&v->out, "%s %s%s", grouped(v, n), what, n == 1 ? "" : "s");
}

static inline void add_sharding(struct cli_view *v, node object)
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

static inline void add_place(struct cli_view *v, node object)
{
    const char *place = text_at(v, object, "place");
    if (*place) str_addf(&v->out, "  at %s", place);
}

/* explain_memory.c: the peak and what lives there, chunks, what is made again; what entries share; the peak in bytes.
 */
void cli_explain_memory(struct cli_view *, node step, bool all);
void cli_explain_shared(struct cli_view *);
double cli_peak_bytes(const struct cli_view *, node step);
const char *cli_step_memory(const struct cli_view *, node step); /* as JSON: whole, also of an object */
/* explain_state.c: slots that are state, or the others; a table of all state with what hosts may set, the same as JSON.
 */
void cli_explain_tensors(struct cli_view *, bool state);
void cli_explain_state(struct cli_view *);
const char *cli_explain_state_json(const struct cli_view *);
/* explain_assert.c: what --assert says of the report. 0, 1 where it is not so, 2 after a message. */
int cli_explain_assert(struct cli_view *);
/* explain_kernels.c: how commands are run; for a GPU the least time that a card's published peaks allow. */
int cli_explain_kernels(struct cli_view *, node entry);
/* explain_fusion.c */
void cli_explain_fusion(struct cli_view *, node entry);
/* explain_comm.c: collectives, and where tensors of a mesh lie. */
int cli_explain_comm(struct cli_view *, node entry);
void cli_explain_layouts(struct cli_view *);
#endif
