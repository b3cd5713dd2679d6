/* `stepc plot METRICS...`: chooses series of what runs wrote, and where they are drawn. */
#include "frontend/cli/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SERIES = 24, TERMINAL_WIDTH = 80, MOST_WIDTH = 140, TERMINAL_HEIGHT = 16 };

/* ---------------------------------------------------------------- series */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A mean over the past in which the weight of a value fades by `smooth` a step, without the pull of its beginning. */
static void smoothen(struct plot_series *s, double smooth)
{
    double sum = 0, weight = 0;
    for (size_t i = 0; i < s->points.count; i++) {
        sum = smooth * sum + (1 - smooth) * s->points.items[i].y;
        weight = smooth * weight + (1 - smooth);
        s->points.items[i].smooth = sum / weight;
    }
}

static bool drawable(const struct plot_axis *a, double v)
{
    return fabs(v) <= PLOT_MOST && (!a->log || v >= PLOT_LEAST);
}

/* runs/a/metrics.jsonl and runs/b/metrics.jsonl are told apart by their folders. */
static const char *file_label(const struct plot_table *tables, size_t files, size_t i)
{
    const char *name = base_name(tables[i].path);
    for (size_t k = 0; k < files; k++)
        if (k != i && strcmp(base_name(tables[k].path), name) == 0) return tables[i].path;
    return name;
}

/* file: NULL where there is one alone. */
static void add_series(struct plot *p, const struct plot_table *t, const struct plot_column *x,
                       const struct plot_column *y, const char *file, bool names)
{
    struct arena *a = p->arena;
    struct plot_series s = {.file = t->path, .name = y->name};
    s.label = file && names ? arena_format(a, "%s: %s", file, y->name) : file ? file : y->name;
    bool far = false;
    for (size_t i = 0, k = 0; i < y->cells.count; i++) {
        size_t row = y->cells.items[i].row;
        while (k < x->cells.count && x->cells.items[k].row < row) k++;
        if (k == x->cells.count || x->cells.items[k].row != row) continue; /* no x in this line */
        struct plot_point at = {.x = x->cells.items[k].value, .y = y->cells.items[i].value};
        at.smooth = at.y;
        far |= (isfinite(at.x) && fabs(at.x) > PLOT_MOST) || (isfinite(at.y) && fabs(at.y) > PLOT_MOST);
        if (drawable(&p->x, at.x) && drawable(&p->y, at.y)) vec_push(a, &s.points, at);
        else s.lost++;
    }
    if (p->smooth > 0) smoothen(&s, p->smooth);
    if (s.lost && !p->cli->quiet)
        fprintf(stderr, "stepc: note: %s: %zu of %zu values of %s are not drawn: not finite%s%s\n", t->path, s.lost,
                s.lost + s.points.count, y->name, far ? ", or beyond 1e300" : "",
                p->x.log || p->y.log ? ", or not positive" : "");
    if (s.points.count) vec_push(a, &p->series, s);
}

static const struct plot_column *find(const struct plot_table *t, const char *name)
{
    for (size_t i = 0; i < t->columns.count; i++)
        if (strcmp(t->columns.items[i].name, name) == 0) return &t->columns.items[i];
    return NULL;
}

static int no_column(const struct plot_table *t, const char *option, const char *name)
{
    const char **names = arena_new_array(t->cli->arena, const char *, t->columns.count + 1);
    struct str there = STR(t->cli->arena);
    for (size_t i = 0; i < t->columns.count; i++) {
        names[i] = t->columns.items[i].name;
        str_addf(&there, "%s%s", i ? ", " : "", names[i]);
    }
    return cli_failed(t->cli, EXIT_WRONG, "%s: %s: no metric \"%s\"%s; there are %s", option, t->path, name,
                      cli_meant(t->cli, name, names, t->columns.count), str_text(&there));
}

static int choose(struct plot *p, const struct plot_table *tables, size_t files, const char *x,
                  const char *const *wanted, size_t n, bool given)
{
    for (size_t i = 0; i < files; i++) {
        const struct plot_column *over = find(&tables[i], x);
        if (!over) return no_column(&tables[i], "-x", x);
        for (size_t k = 0; k < n; k++) {
            const struct plot_column *y = find(&tables[i], wanted[k]);
            if (!y && !given) continue;
            if (!y) return no_column(&tables[i], "-y", wanted[k]);
            if (y->array && !y->cells.count)
                return cli_failed(p->cli, EXIT_WRONG, "-y: %s: \"%s\" is an array; a curve is of numbers",
                                  tables[i].path, wanted[k]);
            add_series(p, &tables[i], over, y, files > 1 ? file_label(tables, files, i) : NULL,
                       n > 1 && (given || find(&tables[i], wanted[1])));
        }
    }
    if (p->series.count > MOST_SERIES)
        return cli_failed(p->cli, EXIT_WRONG, "%zu curves; no more than %d can be told apart", p->series.count,
                          MOST_SERIES);
    return p->series.count ? 0
                           : cli_failed(p->cli, EXIT_WRONG, "nothing to draw: no value of %s is finite%s", p->y.title,
                                        p->y.log || p->x.log ? " and positive" : "");
}

/* ---------------------------------------------------------------- the command */

static int read_options(struct plot *p)
{
    const char *log = cli_text(p->cli, "log", ""), *smooth = cli_text(p->cli, "smooth", NULL);
    char *end;
    p->x.log = strchr(log, 'x') != NULL;
    p->y.log = strchr(log, 'y') != NULL;
    if (!smooth) return 0;
    p->smooth = strtod(smooth, &end);
    if (end == smooth || *end || !(p->smooth >= 0 && p->smooth < 1))
        return cli_usage(p->cli, "--smooth %s: expected a number from 0 on, below 1", smooth);
    return 0;
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static int write_to(struct plot *p, const char *path)
{
    bool html = ends_with(path, ".html") || ends_with(path, ".htm");
    if (!html && !ends_with(path, ".svg"))
        return cli_usage(p->cli, "-o %s: expected a name that ends in .svg or .html", path);
    const char *text = html ? plot_html(p) : plot_svg(p);
    return cli_write(p->cli, path, text, strlen(text));
}

int cli_plot(struct cli *cli)
{
    struct plot p = {.cli = cli, .arena = cli->arena};
    const char *wanted[MOST_SERIES] = {"loss", "eval_loss"}, *x = cli_text(cli, "x", "step"),
               *y = cli_text(cli, "y", NULL);
    const char *path = cli_text(cli, "output", NULL);
    size_t n = 2, files = cli->operands.count;
    int code = read_options(&p);
    struct plot_table *tables = arena_new_array(cli->arena, struct plot_table, files);
    for (size_t i = 0; i < files && !code; i++) {
        tables[i] = (struct plot_table){.cli = cli, .path = cli->operands.items[i]};
        code = plot_read(&tables[i]);
    }
    if (code) return code;
    if (y) {
        char *rest = arena_string(cli->arena, y), *word;
        for (n = 0; (word = strsep(&rest, ","));)
            if (n < MOST_SERIES) wanted[n++] = word;
            else return cli_usage(cli, "-y: more than %d metrics", MOST_SERIES);
    }
    p.x.title = x;
    struct str title = STR(cli->arena), drawn = STR(cli->arena);
    for (size_t i = 0; i < n && y; i++) str_addf(&drawn, "%s%s", i ? ", " : "", wanted[i]);
    p.y.title = y ? str_text(&drawn) : "loss";
    for (size_t i = 0; i < files; i++) str_addf(&title, "%s%s", i ? ", " : "", file_label(tables, files, i));
    p.title = str_text(&title);
    if ((code = choose(&p, tables, files, x, wanted, n, y != NULL))) return code;
    plot_place_axes(&p);
    if (path && strcmp(path, "-") != 0) return write_to(&p, path);
    size_t width = cli_columns(1, TERMINAL_WIDTH);
    const char *text = plot_text(&p, width > MOST_WIDTH ? MOST_WIDTH : width, TERMINAL_HEIGHT, cli_utf8(),
                                 cli_colors(cli, 1));
    return cli_print_painted(cli, text, strlen(text)); /* of names there are those of the command line alone */
}
