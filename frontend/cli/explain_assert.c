/* stepc explain --assert "comm.all_gather == 0": what a continuous build holds of a step. All numbers and texts of the
 * report have names: those of its members behind dots, entries and groups of collectives by their names, nothing in
 * front of the step's own. */
#include "frontend/cli/explain.h"

#include <ctype.h>
#include <stdlib.h>

struct fact {
    const char *path, *text; /* text NULL: a number */
    double number;
};
struct facts {
    struct cli_view *v;
    VEC(struct fact) list;
};

static struct fact *fact_of(struct facts *f, const char *path)
{
    for (size_t i = 0; i < f->list.count; i++)
        if (strcmp(f->list.items[i].path, path) == 0) return &f->list.items[i];
    return NULL;
}

static void add(struct facts *f, const char *path, double number, const char *text)
{
    struct fact *is = fact_of(f, path);
    if (is) is->number += number;
    else vec_push(f->v->cli->arena, &f->list, ((struct fact){path, text, number}));
}

static const char *joined(struct facts *f, const char *path, const char *name)
{
    return arena_format(f->v->cli->arena, "%s%s%s", path, *path ? "." : "", name);
}

/* Numbers and texts of an object, and of those inside; lists have a length. What is known stays. */
static void add_members(struct facts *f, const char *path, node object)
{
    for (node n = first(object); n; n = next(n)) {
        const char *name = joined(f, path, n->string);
        if (fact_of(f, name)) continue;
        if (cJSON_IsNumber(n)) add(f, name, n->valuedouble, NULL);
        else if (cJSON_IsString(n)) add(f, name, 0, n->valuestring);
        else if (cJSON_IsArray(n)) add(f, name, count_of(n), NULL);
        else if (cJSON_IsObject(n) && strcmp(name, "document") != 0) add_members(f, name, n);
    }
}

/* comm: collectives of a step; comm.sent: bytes that each device sends for them; comm.payload: bytes of the tensors. */
static void add_collective(struct facts *f, const char *path, double times, node c)
{
    add(f, path, times, NULL);
    add(f, joined(f, path, "sent"), c ? number_at(c, "ring") * times : 0, NULL);
    add(f, joined(f, path, "payload"), c ? number_at(c, "payload") * times : 0, NULL);
}

static void add_comm(struct facts *f, const char *path, node e)
{
    static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"};
    add_collective(f, path, 0, NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) add_collective(f, joined(f, path, kinds[i]), 0, NULL);
    for (node a = first(at(f->v->root, "mesh")); a; a = next(a)) add_collective(f, joined(f, path, a->string), 0, NULL);
    for (node c = first(at(e, "collectives")); c; c = next(c)) {
        double times = number_at(c, "times");
        add_collective(f, path, times, c);
        add_collective(f, joined(f, path, text_at(f->v, c, "kind")), times, c);
        for (node a = first(at(c, "axes")); a; a = next(a))
            add_collective(f, joined(f, path, a->valuestring), times, c);
    }
}

static void collect(struct facts *f)
{
    node step = entry(f->v, "step");
    add_comm(f, "comm", step);
    add(f, "kernels", number_at(step, "kernels"), NULL);
    add_members(f, "update", at(step, "update"));
    add(f, "memory.peak", cli_peak_bytes(f->v, step), NULL);
    const char *memory = cli_step_memory(f->v, step);
    if (step) add_members(f, "memory", json_read(f->v->cli->arena, memory, strlen(memory)));
    add_members(f, "", f->v->root);
    for (node e = first(at(f->v->root, "entries")); e; e = next(e)) {
        const char *name = text_at(f->v, e, "name");
        add_members(f, name, e);
        if (e != step) add_comm(f, joined(f, name, "comm"), e);
    }
}

/* ---------------------------------------------------------------- an assertion */

static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">"};
enum { EQUAL, UNEQUAL, MOST, LEAST, BELOW, ABOVE, OPERATORS };

static bool holds(int how, double x, double y)
{
    return how == EQUAL     ? x == y
           : how == UNEQUAL ? x != y
           : how == MOST    ? x <= y
           : how == LEAST   ? x >= y
           : how == BELOW   ? x < y
                            : x > y;
}

/* 20000, 1.5e6, 20MB, 6GiB */
static bool read_number(const char *text, double *out)
{
    static const char units[] = "kMGT";
    char *end;
    *out = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;
    bool binary = unit && end[1] == 'i';
    for (const char *u = units; unit && u <= unit; u++) *out *= binary ? 1024 : 1000;
    if (unit) end += 1 + binary;
    return end != text && (!*end || (unit && strcmp(end, "B") == 0));
}

static const char *trimmed(struct arena *a, const char *text, size_t length)
{
    while (length && isspace((unsigned char)*text)) text++, length--;
    while (length && isspace((unsigned char)text[length - 1])) length--;
    return arena_string_n(a, text, length);
}

static int test(struct facts *f, const char *said, bool *good)
{
    struct cli *cli = f->v->cli;
    size_t at = strcspn(said, "=!<>");
    int how = 0;
    while (how < OPERATORS && strncmp(said + at, operators[how], strlen(operators[how])) != 0) how++;
    if (how == OPERATORS)
        return cli_usage(cli,
                         "--assert \"%s\": expected NAME, one of == != <= >= < >, and a number, as "
                         "\"memory.peak <= 6GiB\"",
                         said);
    const char *path = trimmed(cli->arena, said, at), *wanted = said + at + strlen(operators[how]);
    wanted = trimmed(cli->arena, wanted, strlen(wanted));
    const struct fact *is = fact_of(f, path);
    if (!is) {
        const char **names = arena_new_array(cli->arena, const char *, f->list.count + 1);
        for (size_t i = 0; i < f->list.count; i++) names[i] = f->list.items[i].path;
        return cli_usage(cli, "--assert: the report has no number \"%s\"%s (stepc explain --json has them)", path,
                         cli_meant(cli, path, names, f->list.count));
    }
    double number = 0;
    size_t n = strlen(wanted);
    bool quoted = n > 1 && *wanted == '"' && wanted[n - 1] == '"';
    if (is->text ? !quoted || how > UNEQUAL : !read_number(wanted, &number))
        return cli_usage(cli,
                         is->text ? "--assert \"%s\": \"%s\" is a text: compare it by == or != with one in quotes"
                                  : "--assert \"%s\": what \"%s\" is compared with is no number",
                         said, path);
    bool same = is->text && strlen(is->text) == n - 2 && strncmp(is->text, wanted + 1, n - 2) == 0;
    bool well = is->text ? same == (how == EQUAL) : holds(how, is->number, number);
    *good &= well;
    const char *found = is->text                                    ? is->text
                        : is->number == (double)(int64_t)is->number ? cli_grouped(cli->arena, is->number)
                                                                    : arena_format(cli->arena, "%g", is->number);
    if (!well) fprintf(stderr, "stepc: error: --assert \"%s\": it is %s\n", said, found);
    else if (!cli->quiet && !cli_explain_lists(cli)) printf("holds    %s: it is %s\n", said, found);
    return 0;
}

int cli_explain_assert(struct cli_view *v)
{
    const char *const *said;
    size_t n = cli_values(v->cli, "assert", &said);
    struct facts facts = {.v = v};
    bool good = true;
    int code = 0;
    collect(&facts);
    for (size_t i = 0; i < n && !code; i++) code = test(&facts, said[i], &good);
    return code ? code : good ? 0 : EXIT_WRONG;
}
