/* Rows in their order, gathered into batches. Training takes a batch from where the one before it ended, over the end
 * of the data into their next round: each row is taken as often as every other one, and no row is made up. A step that
 * can leave out rows ("partial_batches") gets the rest of a round as its last batch, filled by copies of its first row.
 * What is evaluated or inferred is taken once; where rows cannot be left out, zeros fill the last batch. The order of
 * --shuffle follows from its seed and from the number of the round alone (Fisher and Yates' shuffle): a run that
 * continues, every mesh and every rank has the same. */
#include "frontend/cli/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED = 64 }; /* rows of a message */

/* splitmix64's finaliser. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void shuffle(uint64_t *order, uint64_t rows, uint64_t seed, uint64_t round)
{
    uint64_t state = mix(mix(seed + 0x9e3779b97f4a7c15u) + round);
    for (uint64_t i = 0; i < rows; i++) order[i] = i;
    for (uint64_t i = rows; i > 1; i--) {
        uint64_t at = mix(state += 0x9e3779b97f4a7c15u) % i, row = order[at];
        order[at] = order[i - 1];
        order[i - 1] = row;
    }
}

/* The row at a position of the training, whose rounds follow each other. */
static uint64_t row_at(struct run_data *d, uint64_t position)
{
    uint64_t round = position / d->rows;
    if (!d->order) return position % d->rows;
    if (round != d->round) shuffle(d->order, d->rows, d->seed, d->round = round);
    return d->order[position % d->rows];
}

static bool is_by_rounds(const struct run_data *d) { return d->once || d->partial; }

uint64_t run_rows_counted(const struct run_data *d, uint64_t k)
{
    uint64_t rest = d->rows - k % d->steps * d->batch;
    return is_by_rounds(d) && rest < d->batch ? rest : d->batch;
}

/* Where in the training the rows of batch k begin. */
static uint64_t first_of(const struct run_data *d, uint64_t k)
{
    return is_by_rounds(d) ? k / d->steps * d->rows + k % d->steps * d->batch : k * d->batch;
}

int run_rows_open(struct run *r, struct run_data *d)
{
    const char *seed = d->once ? NULL : cli_text(r->cli, "shuffle", NULL);
    d->round = UINT64_MAX;
    if (!seed) return 0;
    char *end;
    errno = 0;
    d->seed = strtoull(seed, &end, 10);
    if (*seed && (*seed < '0' || *seed > '9' || *end || errno))
        return cli_usage(r->cli, "--shuffle=%s: expected a whole number below 2^64 as seed", seed);
    if (!d->rows)
        return cli_usage(r->cli,
                         "--shuffle: %s holds batches, a leading dimension that counts steps; plain rows are "
                         "what can be shuffled",
                         d->option);
    if (!(d->order = calloc(d->rows, sizeof *d->order)))
        return cli_failed(r->cli, EXIT_ENVIRONMENT, "--shuffle: out of memory (%llu rows)",
                          (unsigned long long)d->rows);
    return 0;
}

int run_room(const struct run_tensor *t, char **room, char error[ST_TEXT])
{
    if (*room || (*room = calloc(1, t->bytes + 64))) return 0;
    snprintf(error, ST_TEXT, "%s: out of memory (%llu bytes)", t->file->path, (unsigned long long)t->bytes);
    return EXIT_ENVIRONMENT;
}

int run_rows_batch(struct run_data *d, struct run_tensor *t, uint64_t k, char **room, char **data, char error[ST_TEXT])
{
    uint64_t bytes = t->bytes / d->batch, first = first_of(d, k), counted = run_rows_counted(d, k), n;
    uint64_t at = first % d->rows;
    if (!d->streamed && !d->order && at + d->batch <= d->rows) return *data = t->memory + at * bytes, 0;
    int code = run_room(t, room, error);
    if (code) return code;
    *data = *room;
    for (uint64_t i = 0; !code && i < d->batch; i += n) {
        char *to = *room + i * bytes;
        if (i >= counted && !d->partial) return memset(to, 0, (d->batch - i) * bytes), 0;
        if (i >= counted) {
            memcpy(to, *room, (n = 1) * bytes);
            continue;
        }
        uint64_t row = row_at(d, first + i);
        for (n = 1; i + n < counted && row_at(d, first + i + n) == row + n;) n++;
        if (!d->streamed) memcpy(to, t->memory + row * bytes, n * bytes);
        else code = run_numbers_read(t, row * bytes, to, n * bytes, error);
    }
    return code;
}

const char *run_rows_text(struct run *r, struct run_data *d, uint64_t k)
{
    struct str s = STR(r->cli->arena);
    run_ahead_wait(d); /* it knows the order of another round, maybe */
    str_addf(&s, "step %llu", (unsigned long long)k + 1);
    for (uint64_t i = 0; d->rows && i < run_rows_counted(d, k); i++) {
        unsigned long long row = row_at(d, first_of(d, k) + i);
        if (i == NAMED) return str_add(&s, ", ..."), str_text(&s);
        str_addf(&s, i ? ", %llu" : ", of rows %llu", row);
    }
    return str_text(&s);
}

void run_rows_close(struct run_data *d)
{
    run_ahead_end(d);
    free(d->order);
    d->order = NULL;
}
