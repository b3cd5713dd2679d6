/* What run_names.c, which gives tensors names and layouts of others, and run_peft.c, which has adapters beside them,
 * share: a table of names, and which tensors make which. */
#ifndef FRONTEND_CLI_RUN_NAMES_H
#define FRONTEND_CLI_RUN_NAMES_H
#include "frontend/cli/run_export.h"

#include <cjson/cJSON.h>

enum { RUN_PARTS = 8, RUN_SAME = -1 };

struct run_rule {
    const char *to, *from[RUN_PARTS];
    uint32_t parts, met;
    int32_t inputs; /* RUN_SAME: one tensor, which keeps its shape */
    bool transpose, optional;
};

struct run_part {
    const struct run_exported *e, *lora[3]; /* lora: a, b, the scale; NULL, none */
    uint64_t rows, columns;
};

struct run_target {
    struct st_tensor t;
    struct run_rule *rule;
    struct run_part parts[RUN_PARTS];
};

struct run_naming {
    struct cli *cli;
    struct run_source *source;
    const char *what; /* the table, for messages */
    const cJSON *root;
    struct run_rule *rules;
    uint32_t rule_count, target_count, count;
    struct st_map *by_rule, *by_part[RUN_PARTS];
    const struct run_exported *all;
    bool *used;
    struct run_target *targets;
    const struct run_target *first; /* of the file that is written */
    uint32_t merged;                /* kernels with what adapters have learnt */
};

/* --hf or --names: the table of it. 0 or an exit code after a message; run_names_close in either case. */
int run_names_open(struct run_naming *);
void run_names_close(struct run_naming *);
/* The config.json of a model against what `all` has: what differs is wrong, what shapes do not tell is said. */
int run_names_compare(struct run_naming *, const char *path);
/* Which tensors make which: everything has its place, or what has none is named. */
int run_names_targets(struct run_naming *);
/* All of them into a folder, in files of at most so many bytes. */
int run_names_write(struct run_naming *, const char *folder, uint64_t most);
/* What e is, as numbers that the caller frees; NULL: see the status. */
double *run_names_numbers(struct run_naming *, const struct run_exported *e, step_status *);
/* Of the dimensions from, .., to - 1. */
uint64_t run_product(const int64_t *shape, int32_t from, int32_t to);
/* Makes the folder, in which there is no model yet. */
int run_names_folder(struct run_naming *, const char *folder);

/* run_names_import.c: the other way round, the parameters that --like has. 0 or an exit code after a message. */
int run_names_import(struct cli *, const struct st_file *files, uint32_t count, const char *to);
bool run_is_adapter(const char *name); /* the name of a parameter of one */

/* run_peft.c: the adapters alone, as PEFT reads them. */
int run_export_peft(struct run_naming *, const char *folder);
#endif
