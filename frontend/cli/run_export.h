/* What run_export.c, which chooses the tensors of an export, and run_names.c, which writes them under names and in
 * layouts of others, share. */
#ifndef FRONTEND_CLI_RUN_EXPORT_H
#define FRONTEND_CLI_RUN_EXPORT_H
#include "frontend/cli/run.h"

struct run_exported {
    struct st_tensor t;           /* as it is called there, and of which dtype */
    const struct st_tensor *from; /* the one that is read */
    uint32_t item;
};

struct run_source {
    struct st_checkpoint *c; /* NULL: a file */
    const struct st_file *file;
    const struct run_exported *all;
    char error[ST_TEXT];
    /* The bytes of one, in its own dtype. */
    step_status (*read)(const struct run_source *, const struct run_exported *, void *to, char error[ST_TEXT]);
};

/* Tensors by name, as --hf or --names calls them, into a folder. 0 or an exit code after a message. */
int run_export_named(struct cli *, struct run_source *, const struct run_exported *, uint32_t count,
                     const char *folder);
#endif
