/* Tables (.csv, RFC 4180 with numbers in the cells), read into memory as tensors of rows. NAME=FILE.csv is one input,
 * all columns in their order, under a head or not. FILE.csv has a head: the column "y" is the input y, "x.0", "x.1",
 * ... are the numbers of a row of x. */
#include "frontend/cli/run.h"
#include "ir/ir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CELL = 64 };

struct csv {
    struct run *r;
    struct st_file *f;
    const char *at;      /* the next line */
    char *text, *memory; /* of the file; of the tensors */
    uint64_t line, rows, bytes;
    size_t count; /* columns */
    struct csv_column {
        const char *name; /* NULL: there is no head */
        uint32_t tensor;
        uint64_t position; /* among the numbers of a row */
    } *columns;
    uint64_t *widths; /* by tensor: numbers of a row */
    struct map bound; /* tensor and position: a column has it */
};

static int wrong(const struct csv *c, const char *why)
{
    return cli_failed(c->r->cli, EXIT_WRONG, "%s:%" PRIu64 ": %s", c->f->path, c->line, why);
}

/* The next cell of a line, without the quotes around it; false: the line is over. `*at` NULL: it ended with the cell.
 */
static bool next_cell(const char **at, const char **cell, size_t *length)
{
    const char *from = *at;
    if (!from) return false;
    from += strspn(from, " \t");
    bool quoted = *from == '"';
    size_t n = quoted ? strcspn(from + 1, "\"\n") : 0;
    const char *end = from + 1 + n;
    quoted = quoted && *end == '"' &&
             strchr(",\r\n", end[1 + strspn(end + 1, " \t")]); /* or the quote is a part of it */
    if (!quoted) n = strcspn(from, ",\r\n");
    end = from + quoted + n;
    end += strcspn(end, ",\r\n");
    *cell = from + quoted;
    while (!quoted && n && (from[n - 1] == ' ' || from[n - 1] == '\t')) n--;
    *length = n;
    *at = *end == ',' ? end + 1 : NULL;
    return true;
}

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at ? at + 1 : at;
}

static bool is_empty(const char *line) { return line[strspn(line, " \t\r")] == '\n' || !line[strspn(line, " \t\r")]; }

/* strtod takes more than numbers of tables: hexadecimal digits, names. */
static bool is_number(const char *text)
{
    char *end;
    if (!*text || text[strspn(text, "+-.0123456789eE")]) return false;
    strtod(text, &end);
    return !*end;
}

/* NULL, or what is wrong with the number. */
static const char *store(uint32_t dtype, const char *text, char *to)
{
    double value = strtod(text, NULL);
    float narrow = strtof(text, NULL); /* not rounded twice */
    int64_t whole;
    if (dtype == STEP_F64)
        return memcpy(to, &value, sizeof value), isfinite(value) ? NULL : "does not fit into float64";
    if (dtype == STEP_F32)
        return memcpy(to, &narrow, sizeof narrow), isfinite(narrow) ? NULL : "does not fit into float32";
    errno = 0;
    char *end;
    whole = strtoll(text, &end, 10);
    if (*end && (value != floor(value) || fabs(value) > 9007199254740992.0)) return "is no whole number";
    if (*end) whole = (int64_t)value; /* 3.0 */
    if (errno) return "does not fit into int64";
    if (dtype == STEP_I64) return memcpy(to, &whole, sizeof whole), NULL;
    if (dtype == STEP_I32)
        return memcpy(to, &(int32_t){(int32_t)whole}, sizeof(int32_t)),
               whole == (int32_t)whole ? NULL : "does not fit into int32";
    *to = (char)whole;
    return whole < 0 || whole > (dtype == STEP_BOOL ? 1 : 255)
               ? dtype == STEP_BOOL ? "is neither 0 nor 1" : "does not fit into uint8"
               : NULL;
}

/* The tensor of an input, in which the table has `columns` numbers of a row so far; -1: there is no such input. */
static int64_t tensor_of(struct csv *c, const char *name, size_t length)
{
    struct step_tensor input = {.size = sizeof input};
    for (uint32_t i = 0; i < c->f->count; i++)
        if (strlen(c->f->tensors[i].name) == length && memcmp(c->f->tensors[i].name, name, length) == 0) return i;
    for (size_t i = 0; i < c->r->api->tensor_count(c->r->instance, STEP_INPUT); i++) {
        c->r->api->tensor_at(c->r->instance, STEP_INPUT, i, &input);
        if (strlen(input.name) != length || memcmp(input.name, name, length) != 0 || !input.rank) continue;
        struct st_tensor *t = &c->f->tensors[c->f->count];
        *t = (struct st_tensor){.name = input.name, .dtype = input.dtype, .rank = input.rank};
        c->widths[c->f->count] = 1;
        for (int32_t k = 1; k < t->rank; k++) c->widths[c->f->count] *= (uint64_t)(t->shape[k] = input.shape[k]);
        return c->f->count++;
    }
    return -1;
}

/* The place is at a line that is empty, or at the end of the table, and `what` is missing there. */
static int missing(const struct csv *c, const char *what)
{
    return wrong(c, c->at[strspn(c->at, " \t\r\n")] ? "the line is empty, and more lines follow" : what);
}

static int no_input(const struct csv *c, const char *name)
{
    size_t n = c->r->api->tensor_count(c->r->instance, STEP_INPUT);
    const char **names = arena_new_array(c->r->cli->arena, const char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct step_tensor input = {.size = sizeof input};
        c->r->api->tensor_at(c->r->instance, STEP_INPUT, i, &input);
        names[i] = input.name;
    }
    const char *why = cli_meant(c->r->cli, name, names, n);
    if (strpbrk(name, ";\t|")) why = ": columns are separated by commas";
    else if (!*why) why = arena_format(c->r->cli->arena, "; columns are called as \"%s\" or \"%s.0\"", *names, *names);
    return cli_failed(c->r->cli, EXIT_WRONG, "%s: \"%s\" is no input of this step%s", c->f->path, name, why);
}

/* "x.12" is number 12 of x; an input of one number a row has its own name. */
static int bind_column(struct csv *c, struct csv_column *to)
{
    const char *dot = strrchr(to->name, '.');
    size_t length = strlen(to->name);
    char *end;
    int64_t tensor = tensor_of(c, to->name, length);
    if (tensor < 0 && dot && dot[1] >= '0' && dot[1] <= '9') {
        to->position = strtoull(dot + 1, &end, 10);
        if (!*end) tensor = tensor_of(c, to->name, (size_t)(dot - to->name));
    } else if (tensor >= 0 && c->widths[tensor] != 1)
        return wrong(c, arena_format(c->r->cli->arena,
                                     "column \"%s\": a row of this input has %" PRIu64
                                     " numbers, in columns %s.0, %s.1, ...; "
                                     "%s=%s takes all columns as one input",
                                     to->name, c->widths[tensor], to->name, to->name, to->name, c->f->path));
    if (tensor < 0) return no_input(c, to->name);
    to->tensor = (uint32_t)tensor;
    if (to->position >= c->widths[tensor])
        return wrong(c, arena_format(c->r->cli->arena, "column \"%s\": a row of this input has %" PRIu64 " number%s",
                                     to->name, c->widths[tensor], c->widths[tensor] == 1 ? "" : "s"));
    if (!map_set_number(&c->bound, (uint64_t)to->tensor << 48 | to->position, 1))
        return wrong(c, arena_format(c->r->cli->arena, "column \"%s\" is there twice", to->name));
    return 0;
}

/* Every number of a row has its column. */
static int check_widths(const struct csv *c)
{
    for (uint32_t i = 0; i < c->f->count; i++) {
        uint64_t found = 0;
        for (size_t k = 0; k < c->count; k++) found += c->columns[k].tensor == i;
        if (found != c->widths[i])
            return cli_failed(c->r->cli, EXIT_WRONG,
                              "%s: %" PRIu64 " column%s for input \"%s\", of which a row has %" PRIu64 " number%s",
                              c->f->path, found, found == 1 ? "" : "s", c->f->tensors[i].name, c->widths[i],
                              c->widths[i] == 1 ? "" : "s");
    }
    return 0;
}

/* A first line of 0,1,2,... is what pandas writes over columns without names. */
static bool counts_up(const struct csv *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->columns[i].name, arena_format(c->r->cli->arena, "%zu", i)) != 0) return false;
    return c->count > 1;
}

static int read_head(struct csv *c, const char *name)
{
    struct arena *a = c->r->cli->arena;
    const char *at = c->at, *cell;
    size_t length, inputs = c->r->api->tensor_count(c->r->instance, STEP_INPUT);
    bool head = false;
    c->line = 1;
    if (is_empty(c->at)) return missing(c, "the table is empty");
    while (next_cell(&at, &cell, &length)) c->count++;
    c->columns = arena_new_array(a, struct csv_column, c->count);
    c->widths = arena_new_array(a, uint64_t, inputs + 1);
    if (!(c->f->tensors = calloc(inputs + 1, sizeof *c->f->tensors)))
        return cli_failed(c->r->cli, EXIT_ENVIRONMENT, "%s: out of memory", c->f->path);
    at = c->at;
    for (size_t i = 0; i < c->count; i++) {
        next_cell(&at, &cell, &length);
        c->columns[i] = (struct csv_column){.name = arena_string_n(a, cell, length), .position = name ? i : 0};
        head |= !is_number(c->columns[i].name);
    }
    if (name && tensor_of(c, name, strlen(name)) < 0) return no_input(c, name);
    if (!name && !head)
        return wrong(
            c, arena_format(a, "the table has no head that names inputs; NAME=%s takes it as one input", c->f->path));
    if (!head && counts_up(c))
        fprintf(
            stderr,
            "stepc: warning: %s:1: 0,1,2,... is taken as a row of numbers; a head has names: pandas writes this one "
            "over columns without any (to_csv(..., header=False))\n",
            c->f->path);
    for (size_t i = 0; !name && i < c->count; i++) {
        int code = bind_column(c, &c->columns[i]);
        if (code) return code;
    }
    for (size_t i = 0; !head && i < c->count; i++) c->columns[i].name = NULL;
    if (head) c->at = next_line(c->at), c->line++;
    return check_widths(c);
}

static int read_line(struct csv *c, uint64_t row)
{
    struct arena *a = c->r->cli->arena;
    const char *at = c->at, *cell;
    size_t length, n = 0;
    while (next_cell(&at, &cell, &length)) {
        if (n >= c->count) return wrong(c, arena_format(a, "more cells than the %zu columns", c->count));
        const struct csv_column *column = &c->columns[n++];
        const struct st_tensor *t = &c->f->tensors[column->tensor];
        char text[CELL] = "";
        memcpy(text, cell, length < CELL ? length : CELL - 1);
        uint64_t bytes = ir_dtype_bytes(ir_dtype_of_abi(t->dtype));
        char *to = c->memory + t->offset + (row * c->widths[column->tensor] + column->position) * bytes;
        const char *why = length >= CELL || !is_number(text) ? length ? "is no number" : "the cell is empty"
                                                             : store(t->dtype, text, to);
        if (why)
            return wrong(c, arena_format(a, "column %zu%s: %s%s%s", n,
                                         column->name ? arena_format(a, " (\"%s\")", column->name) : "",
                                         length ? arena_format(a, "\"%s\"", text) : "", length ? " " : "", why));
    }
    if (n < c->count) return wrong(c, arena_format(a, "%zu cell%s for %zu columns", n, n == 1 ? "" : "s", c->count));
    c->at = next_line(c->at);
    return 0;
}

/* Where tensors of so many rows lie in the memory. */
static int place(struct csv *c)
{
    for (const char *at = c->at; *at && !is_empty(at); at = next_line(at)) c->rows++;
    for (uint32_t i = 0; i < c->f->count; i++) {
        struct st_tensor *t = &c->f->tensors[i];
        bool known = t->dtype == STEP_F32 || t->dtype == STEP_F64 || t->dtype == STEP_I32 || t->dtype == STEP_I64 ||
                     t->dtype == STEP_U8 || t->dtype == STEP_BOOL;
        if (!known)
            return cli_failed(
                c->r->cli, EXIT_WRONG,
                "%s: input \"%s\" is %s; tables are read as float32, float64, int32, int64, uint8 and bool", c->f->path,
                t->name, ir_dtype_name(ir_dtype_of_abi(t->dtype)));
        t->shape[0] = (int64_t)c->rows;
        t->offset = c->bytes;
        t->bytes = c->rows * c->widths[i] * ir_dtype_bytes(ir_dtype_of_abi(t->dtype));
        c->bytes += (t->bytes + 63) / 64 * 64;
    }
    if (!c->rows) return missing(c, "the table holds no row");
    close(c->f->fd);
    c->f->fd = memfd_create("table", MFD_CLOEXEC);
    if (c->f->fd >= 0 && ftruncate(c->f->fd, (off_t)c->bytes) == 0)
        c->memory = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->f->fd, 0);
    return c->memory && c->memory != MAP_FAILED
               ? 0
               : cli_failed(c->r->cli, EXIT_ENVIRONMENT, "%s: no memory for its rows: %s", c->f->path, strerror(errno));
}

/* What follows a carriage return alone would be dropped with the line that seems to end there. */
static int check_ends(struct csv *c)
{
    c->line = 1;
    for (const char *at = c->at; *at; at++) {
        c->line += *at == '\n';
        if (*at == '\r' && !strchr("\r\n", at[1]))
            return wrong(c, "a carriage return within the line; lines end with a line feed, or with both");
    }
    return 0;
}

static int read_table(struct csv *c, const char *name)
{
    struct stat s;
    if (c->f->fd < 0 || fstat(c->f->fd, &s))
        return cli_failed(c->r->cli, EXIT_ENVIRONMENT, "%s: %s", c->f->path, strerror(errno));
    uint64_t size = (uint64_t)s.st_size, got = 0;
    if (!(c->text = malloc(size + 1))) return cli_failed(c->r->cli, EXIT_ENVIRONMENT, "%s: out of memory", c->f->path);
    for (ssize_t n; got < size && (n = read(c->f->fd, c->text + got, size - got)) > 0;) got += (uint64_t)n;
    if (got < size) return cli_failed(c->r->cli, EXIT_ENVIRONMENT, "%s: it cannot be read to its end", c->f->path);
    c->text[size] = 0;
    if (memchr(c->text, 0, size))
        return cli_failed(c->r->cli, EXIT_WRONG, "%s: no table: it holds bytes of value 0", c->f->path);
    c->at = strncmp(c->text, "\xef\xbb\xbf", 3) == 0 ? c->text + 3 : c->text;
    int code = check_ends(c);
    if (!code) code = read_head(c, name);
    if (!code) code = place(c);
    for (uint64_t row = 0; !code && row < c->rows; row++, c->line++) code = read_line(c, row);
    if (!code && c->at[strspn(c->at, " \t\r\n")]) code = missing(c, "");
    if (!code) qsort(c->f->tensors, c->f->count, sizeof *c->f->tensors, st_by_name);
    return code;
}

int run_csv_open(struct run *r, struct st_file *f, const char *name, const char *path)
{
    *f = (struct st_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    struct csv c = {.r = r, .f = f, .bound = MAP(r->cli->arena)};
    int code = read_table(&c, name);
    free(c.text);
    if (c.memory && c.memory != MAP_FAILED) munmap(c.memory, c.bytes);
    if (code) st_close(f);
    return code;
}
