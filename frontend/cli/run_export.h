/* What run_export.c, which chooses the tensors of an export, and run_names.c, which writes them under names and in
 * layouts of others, share. */
#ifndef FRONTEND_CLI_RUN_EXPORT_H
#define FRONTEND_CLI_RUN_EXPORT_H
#include "frontend/cli/run.h"

struct run_exported {
    struct st_tensor t;           /* as it is called there, and of which dtype */
    const struct st_tensor *from; /* the one that is read */
    uint32_t item;
    const struct st_file *file; /* that it is in; NULL: the source is a checkpoint */
};

struct run_source {
    struct st_checkpoint *c; /* NULL: files */
    const struct run_exported *all;
    char error[ST_TEXT];
    /* The bytes of one, in its own dtype. */
    step_status (*read)(const struct run_source *, const struct run_exported *, void *to, char error[ST_TEXT]);
};

/* run_shards.c: the files of a model.safetensors.index.json, which the caller closes, also after a failure. */
int run_shards_open(struct cli *, const char *path, struct st_file **files, uint32_t *count);
#endif
