/* Reads what `run --metrics` (JSON lines) or `--csv` wrote. */
#include "frontend/cli/plot.h"
#include "ir/base/json_tree.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30 };

static struct plot_column *column_of(struct plot_table *t, const char *name, size_t hint)
{
    if (hint < t->columns.count && strcmp(t->columns.items[hint].name, name) == 0) return &t->columns.items[hint];
    for (size_t i = 0; i < t->columns.count; i++)
        if (strcmp(t->columns.items[i].name, name) == 0) return &t->columns.items[i];
    vec_push(t->cli->arena, &t->columns, (struct plot_column){.name = arena_string(t->cli->arena, name)});
    return &t->columns.items[t->columns.count - 1];
}

static void add_cell(struct plot_table *t, struct plot_column *c, double value)
{
    vec_push(t->cli->arena, &c->cells, ((struct plot_cell){t->rows, value}));
}

static bool is_number_text(const char *text, double *value) /* as this program writes them, NaN and Infinity too */
{
    char *end;
    *value = strtod(text, &end);
    return *text && !*end;
}

static int read_json_line(struct plot_table *t, const char *line, size_t length, size_t number)
{
    struct arena scratch = {0};
    const struct cJSON *row = json_read(&scratch, line, length), *e;
    size_t at = 0;
    if (!cJSON_IsObject(row)) {
        arena_free(&scratch);
        return cli_failed(t->cli, EXIT_WRONG,
                          "%s:%zu: no JSON object: expected metrics as `stepc run --metrics` writes them", t->path,
                          number);
    }
    cJSON_ArrayForEach(e, row)
    {
        double value = e->valuedouble;
        struct plot_column *c = column_of(t, e->string, at++);
        c->array |= cJSON_IsArray(e);
        if (cJSON_IsNumber(e) || (cJSON_IsString(e) && is_number_text(e->valuestring, &value))) add_cell(t, c, value);
    }
    t->rows++;
    arena_free(&scratch);
    return 0;
}

/* The next word of a line of RFC 4180, which is cut off in place; NULL: there was none. */
static const char *next_word(char **at)
{
    char *word = *at, *to = word;
    if (!word) return NULL;
    if (*word != '"') {
        to = strchr(word, ',');
        *at = to ? to + 1 : NULL;
        if (to) *to = 0;
        return word;
    }
    for (char *c = word + 1;; *to++ = *c++) {
        if (*c == '"' && c[1] == '"') c++;
        else if (*c == '"' || !*c) {
            *at = *c && c[1] == ',' ? c + 2 : NULL;
            *to = 0;
            return word;
        }
    }
}

static int read_csv_line(struct plot_table *t, char *line, size_t number)
{
    size_t at = 0, columns = t->columns.count;
    for (const char *word; (word = next_word(&line)); at++) {
        double value;
        if (number == 1) column_of(t, word, SIZE_MAX);
        else if (at < columns && is_number_text(word, &value)) add_cell(t, &t->columns.items[at], value);
        else if (at >= columns || *word)
            return cli_failed(t->cli, EXIT_WRONG, "%s:%zu: column %zu: expected %s, found \"%s\"", t->path, number,
                              at + 1, at < columns ? "a number" : "no more columns", word);
    }
    t->rows += number > 1;
    return 0;
}

/* Where the line ends, NULL: it does not. A line of a table goes on behind line breaks in quotes. */
static char *end_of_line(char *line, bool json)
{
    bool quoted = false, begins = true; /* a cell: only there a quote opens */
    for (; !json && *line && (quoted || *line != '\n'); line++) {
        bool quote = *line == '"';
        if (quoted && quote && line[1] == '"') line++;
        else if (quote && (quoted || begins)) quoted = !quoted;
        begins = !quoted && *line == ',';
    }
    return quoted ? NULL : strchr(line, '\n');
}

int plot_read(struct plot_table *t)
{
    char *text;
    size_t length, number = 1;
    struct arena whole = {0};
    int code = cli_read(t->cli, t->path, MOST_BYTES, &text, &length);
    if (code) return code;
    if (memchr(text, 0, length))
        return cli_failed(t->cli, EXIT_WRONG, "%s: no metrics: it holds bytes of value 0", t->path);
    size_t blank = strspn(text, " \t\r\n");
    bool json = text[blank] == '{' || blank == length;
    for (char *line = text, *end; !code && line < text + length; line = end + 1, number++) {
        end = end_of_line(line, json);
        if (!end && !(json && json_read(&whole, line, strlen(line)))) { /* a killed run did not end it */
            if (!t->cli->quiet && line[strspn(line, " \t\r")])
                fprintf(stderr, "stepc: note: %s:%zu: the last line is not ended: it is left out\n", t->path, number);
            break;
        }
        if (!end) end = text + length;
        *end = 0;
        if (end > line && end[-1] == '\r') end[-1] = 0;
        size_t more = 0;
        for (const char *c = line; (c = strchr(c, '\n')); c++) more++;
        if (line[strspn(line, " \t")])
            code = json ? read_json_line(t, line, strlen(line), number) : read_csv_line(t, line, number);
        number += more;
    }
    arena_free(&whole);
    if (!code && !t->rows)
        code = cli_failed(t->cli, EXIT_WRONG, "%s: no line of metrics (`stepc run --metrics FILE` writes them)",
                          t->path);
    return code;
}
