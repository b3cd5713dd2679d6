/* What the tools of this project share with the runtime beside the host interface: safetensors files, and instances
 * over tables in memory (the interpreter). No promise to hosts. */
#ifndef STEPC_STEP_TOOLS_H
#define STEPC_STEP_TOOLS_H
#include <stdbool.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>

/* ---------------------------------------------------------------- safetensors */

enum { ST_TEXT = 1024 };

struct st_tensor {
    const char *name;
    uint32_t dtype; /* STEP_F32 .. */
    int32_t rank;
    int64_t shape[8];
    uint64_t offset, bytes; /* offset in the file */
};

struct st_file {
    const char *path;
    int fd;
    char *text;                /* the header; names point into it */
    struct st_tensor *tensors; /* by name, ascending */
    uint32_t count;
    const char *step; /* "__metadata__".step, NULL: none */
};

/* CRC-32 as in zlib, of what `crc` is the sum of (0: nothing) and of more bytes. */
uint32_t st_crc32(uint32_t crc, const void *data, uint64_t bytes);

/* Opens and checks the whole structure and, to `verify`, the checksum if there is one. Not STEP_OK: `error` says file,
 * tensor, expected, found; nothing is open. STEP_EIO: cannot be opened or read; STEP_ECORRUPT: contradicts the format
 * or its checksum; STEP_ENOMEM. */
step_status st_open_file(struct st_file *, const char *path, bool verify, char error[ST_TEXT]);
static inline step_status st_open(struct st_file *f, const char *path, char error[ST_TEXT])
{
    return st_open_file(f, path, true, error);
}
void st_close(struct st_file *);
const struct st_tensor *st_find(const struct st_file *, const char *name); /* NULL: none */
/* `bytes` from `offset` within the tensor. */
step_status st_read(const struct st_file *, const struct st_tensor *, uint64_t offset, void *to, uint64_t bytes,
                    char error[ST_TEXT]);

/* Writes beside `path` and renames; whatever fails, `path` is as before. `tensors` must be sorted by name; `fetch`
 * fills the bytes of one (C order). */
typedef step_status st_fetch(void *user, uint32_t index, void *to);
step_status st_write(const char *path, const struct st_tensor *tensors, uint32_t count, uint64_t step, st_fetch *,
                     void *user, char error[ST_TEXT]);

/* Whether a slot of role state is a running statistic of the model: counters, random state and the loss scale are not.
 */
bool st_is_statistic(const char *name);

/* ---------------------------------------------------------------- files written beside and renamed */

struct st_output {
    int fd;
    bool direct;   /* what is there is written to */
    bool nameless; /* until it is published */
    bool published;
    char *temporary; /* `room` bytes for a name beside `path` */
    size_t room;
    uint32_t sum; /* CRC-32 of what was written */
    const char *path;
};
/* Names of files that are not complete yet: ST_TEMPORARY, the process, a number. */
#define ST_TEMPORARY ".tmp-stepc-"
/* Opens a temporary file in the same directory; a path that exists and is no regular file is written directly. */
bool st_output_open(struct st_output *, const char *path, char error[ST_TEXT]);
bool st_output_write(struct st_output *, const void *, size_t, char error[ST_TEXT]);
/* For files that others follow while they grow: from now on the file has its name, whatever becomes of the writer. */
bool st_output_publish(struct st_output *, char error[ST_TEXT]);
/* keep: sync, close, rename; else: close, remove. False: `error` is set and nothing was published. */
bool st_output_close(struct st_output *, bool keep, char error[ST_TEXT]);

/* ---------------------------------------------------------------- instances over other tables */

/* The table of functions with create and describe taken out, and create for given tables (which must outlive it). */
const struct step_api *rt_tools_api(void);
step_status rt_create(const struct stepc_program *, const struct step_options *, struct step_instance **);
#endif
