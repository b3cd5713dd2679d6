/* What the tools of this project share with the runtime beside the host interface: safetensors files, and instances
 * over tables in memory (the interpreter). No promise to hosts. */
#ifndef STEPC_STEP_TOOLS_H
#define STEPC_STEP_TOOLS_H
#include <stdbool.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>

enum { RT_CPU_SETS = 8 }; /* cpu_set_t of 1,024 in a row: Linux has at most 8,192 processors */

/* ---------------------------------------------------------------- safetensors */

enum {
    ST_TEXT = 5120,  /* a path and what is wrong with it */
    ST_FOLDER = 3776 /* the longest path of a run directory: those of files in it are no longer than Linux takes */
};

struct st_tensor {
    const char *name;
    uint32_t dtype; /* STEP_F32 .. */
    int32_t rank;
    int64_t shape[8];
    uint64_t offset, bytes; /* offset in the file */
    uint32_t trained;       /* of a checkpoint: a parameter that is */
    uint32_t role;          /* STEP_PARAM .. STEP_STATE, 0: not told */
};

struct st_file {
    const char *path;
    int fd;
    char *text;                /* the header; names point into it */
    struct st_tensor *tensors; /* by name, ascending */
    uint32_t count;
    const char *step; /* "__metadata__".step, NULL: none */
    char *roles;      /* and "stepc.roles" (not in objects): all its tensors have one */
};

/* CRC-32 as in zlib, of what `crc` is the sum of (0: nothing) and of more bytes. */
uint32_t st_crc32(uint32_t crc, const void *data, uint64_t bytes);

/* A text that grows; `at` is malloc's. */
struct st_text {
    char *at;
    size_t length, room;
    bool lacking; /* memory: what was added since is not there */
};
void st_add(struct st_text *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void st_add_quoted(struct st_text *, const char *); /* as a string of JSON; the text is UTF-8 */
void st_add_number(struct st_text *, double);       /* as JSON, exactly; "NaN", "Infinity", "-Infinity" */
/* Whether all of it is there, and no more than its readers take; else errno says why not. */
bool st_fits(const struct st_text *, size_t most);

/* XXH3 of 128 bits, of bytes that come in pieces; as text, in hexadecimal digits. */
enum { ST_HASH = 33, ST_HASH_BLOCK = 1024 };
struct st_hash {
    uint64_t sums[8], bytes;
    uint32_t pending;
    unsigned char held[64 + ST_HASH_BLOCK]; /* the end of the block before, and what was not taken yet */
};
void st_hash_begin(struct st_hash *);
void st_hash_add(struct st_hash *, const void *data, uint64_t bytes);
void st_hash_end(struct st_hash *, char text[ST_HASH]);
/* xxh3_blocks.h: as every CPU has it, or, where an object's has AVX2, with that; the program has both. */
void st_hash_stripes(uint64_t sums[8], const unsigned char *at, const unsigned char *end, const char *keys);
void st_hash_stripes_avx2(uint64_t sums[8], const unsigned char *at, const unsigned char *end, const char *keys);

/* Opens and checks the whole structure and, to `verify`, the checksum if there is one. Not STEP_OK: `error` says file,
 * tensor, expected, found; nothing is open. STEP_EIO: cannot be opened or read; STEP_ECORRUPT: contradicts the format
 * or its checksum; STEP_ENOMEM. */
step_status st_open_file(struct st_file *, const char *path, bool verify, char error[ST_TEXT]);
static inline step_status st_open(struct st_file *f, const char *path, char error[ST_TEXT])
{
    return st_open_file(f, path, true, error);
}
void st_close(struct st_file *);
/* Of things that begin with their name, which bytes order; the one of that name among so many bytes each, NULL: none
 * (an import of bsearch is larger). */
int st_by_name(const void *, const void *);
const void *st_search(const void *all, uint32_t count, size_t bytes, const char *name);
const struct st_tensor *st_find(const struct st_file *, const char *name); /* NULL: none */
/* `bytes` from `offset` within the tensor; of a file that is closed (fd -1), which is opened for that. */
step_status st_read(const struct st_file *, const struct st_tensor *, uint64_t offset, void *to, uint64_t bytes,
                    char error[ST_TEXT]);

/* Writes beside `path` and renames; whatever fails, `path` is as before. `tensors` must be sorted by name; `fetch`
 * fills the bytes of one (C order). */
typedef step_status st_fetch(void *user, uint32_t index, void *to);
step_status st_write(const char *path, const struct st_tensor *tensors, uint32_t count, uint64_t step, st_fetch *,
                     void *user, char error[ST_TEXT]);

/* The first bytes of such a file, up to the data, which follow one after the other; its checksum: the 8 digits at
 * ST_SUM_DIGITS are those of the CRC-32 of all that stands behind them. false: errno says why. */
enum { ST_SUM_DIGITS = 40, ST_SUM_SIZE = 8 };
bool st_header(struct st_text *, const struct st_tensor *tensors, uint32_t count, uint64_t step);
#define ST_FOREIGN UINT64_MAX /* as a step: of no training, but "format": "pt", without which others do not read it */

/* Whether a slot of role state is a running statistic of the model: counters, random state and the loss scale are not.
 */
bool st_is_statistic(const char *name, int32_t rank);
/* What a tensor of a file is, STEP_PARAM .. STEP_STATE (load_map.c): as the file says it. One that does not: an average
 * only beside what it would be one of, state only beside the counter that every whole state has. */
uint32_t st_role_of(const struct st_file *, const struct st_tensor *);

/* ---------------------------------------------------------------- files written beside and renamed */

/* What is saved to this path is one file, NAME.safetensors, not a directory. NULL: no. */
bool st_is_file_name(const char *path);

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
bool st_put(int fd, const void *, size_t); /* all of it; false: errno */
/* A system call by number: every import of a function costs an object 80 bytes. */
#define st_call(name, ...) syscall(SYS_##name, __VA_ARGS__)
bool st_sync(int fd); /* false: errno; true too where the file system cannot */
/* For files that others follow while they grow: from now on the file has its name, whatever becomes of the writer. */
bool st_output_publish(struct st_output *, char error[ST_TEXT]);
/* keep: sync, close, rename; else: close, remove. False: `error` is set and nothing was published. */
bool st_output_close(struct st_output *, bool keep, char error[ST_TEXT]);

/* ---------------------------------------------------------------- checkpoint directories */

#define ST_MANIFEST "manifest.json"
/* The version of manifests; how many metrics one may have; how long the text may be. */
enum { ST_CHECKPOINT = 1, ST_METRICS = 1024, ST_MANIFEST_BYTES = 1 << 30 };
/* The version of those with a tensor that is compressed, in chunks of so many bytes; how many times it may be larger
 * than what is stored. */
enum { ST_CHECKPOINT_PACKED = 2, ST_PACKED_CHUNK = 1 << 20, ST_PACKED_MOST = 64 };

/* A complete checkpoint: what its manifest says, and the files that it names. */
struct st_checkpoint {
    struct st_file all;     /* whole tensors by name, `offset`: their first piece; `text`: the manifest; `path` */
    uint64_t step, created; /* seconds since 1970 */
    struct st_member {
        const char *name, *hash;
        uint64_t bytes;
        struct st_file file; /* of tensors; with many members closed (fd -1) */
    } *members;              /* by name */
    struct st_piece {
        const char *hash, *key;
        uint32_t tensor, member;
        uint64_t offset, bytes;   /* in the file; of the elements */
        uint64_t stored, chunked; /* compressed to so many bytes in the file; how many of `bytes` are. 0: it is not */
        int64_t start[8], shape[8];
    } *pieces;                                   /* by tensor */
    const struct stepc_compression *compression; /* NULL: what is compressed is not read */
    bool environment;                            /* it may name the library */
    struct {
        const char *name;
        double value;
    } metrics[ST_METRICS];
    uint32_t member_count, piece_count, metric_count;
    uint32_t hyper_count; /* these only outside of objects: what a checkpoint of this one keeps */
    const char *model;
    struct st_hyper {
        const char *name;
        double value;
    } *hypers;
};
/* Reads the manifest and compares its own checksum; `files`: also opens what it names and compares their sizes and
 * headers with it. STEP_ECORRUPT: damaged, or not complete; STEP_EVERSION; STEP_EIO; STEP_ENOMEM. */
step_status st_checkpoint_open(struct st_checkpoint *, const char *path, bool files, char error[ST_TEXT]);
void st_checkpoint_close(struct st_checkpoint *);
/* The whole of a tensor, its pieces put together; `verify`: compared with their checksums. */
step_status st_checkpoint_read(const struct st_checkpoint *, const struct st_tensor *, void *to, bool verify,
                               char error[ST_TEXT]);
/* A piece as it lies in its file; NULL: nowhere, only its checksum is compared. */
step_status st_checkpoint_piece(const struct st_checkpoint *, const struct st_piece *, void *to, bool verify,
                                char error[ST_TEXT]);
/* Every byte of a file against its checksum. */
step_status st_checkpoint_verify(const struct st_checkpoint *, const struct st_member *, char error[ST_TEXT]);
/* The text of an item, malloc's; NULL: the status. */
char *st_checkpoint_item(const struct st_checkpoint *, const struct st_member *, step_status *, char error[ST_TEXT]);
bool st_is_checkpoint(const char *path); /* a directory with a manifest */
/* The numbers of all step-N in a run directory, the highest first; *steps is malloc's. STEP_EIO, STEP_ENOMEM. */
step_status st_steps(const char *path, uint64_t **steps, uint32_t *count, char error[ST_TEXT]);
/* A checkpoint folder/step-N of tensors that are given, item after item (params, ema, opt_state, state: `end` of the
 * one before), by name in each; items and metrics are those of `from`, if it is not NULL. Whole or not there, on the
 * disk. */
struct st_new {
    const char *folder, *model;
    uint64_t step;
    const struct st_tensor *tensors;
    uint32_t flags, end[5]; /* STEP_SAVE_*: what is compressed is in memory at once */
    step_status (*fetch)(void *user, uint32_t index, void *to, char error[ST_TEXT]); /* the bytes of one */
    void *user;
};
step_status st_checkpoint_write(const struct st_new *, const struct st_checkpoint *from, char error[ST_TEXT]);
/* Rules of retention (retention.c), at most ST_RULES; not valid: the error says what is. */
enum { ST_RULES = 16 };
bool st_rules_check(const char *rules, char error[ST_TEXT]);
/* The metric of the rule best=... of that number, NULL: there are no more. */
const char *st_rules_metric(const char *rules, uint32_t index, size_t *length);
struct st_kept {
    uint64_t step, created;
    bool whole;    /* its manifest is */
    bool complete; /* so are its files, which alone counts */
    bool keep;     /* by a rule, or since it is not complete */
    double value[ST_RULES];
};
/* All step-N of a run directory, the newest first, and which of them valid rules keep (NULL: all). *list is malloc's.
 */
step_status st_kept_list(const char *folder, const char *rules, struct st_kept **list, uint32_t *count,
                         char error[ST_TEXT]);
/* In an open run directory: removes a checkpoint, unless it holds files of others; what writers that are gone left. */
bool st_remove_step(int parent, uint64_t step, char error[ST_TEXT]);
void st_remove_forsaken(int parent);

/* ---------------------------------------------------------------- maps of names */

/* {"wanted": "source", ...} (load_map.c): the first rule that matches holds. */
enum { ST_NO_RULE, ST_SOURCE, ST_FRESH, ST_SKIP };
enum { ST_MAPPED = 2048 }; /* room for a name that a map makes */
struct st_map;
struct st_map *st_map_open(const char *text, step_status *, char error[ST_TEXT]); /* NULL: the status */
void st_map_close(struct st_map *);
/* Where a wanted tensor comes from; and, from the other side, what a source is called (ST_FRESH, ST_SKIP: nothing). */
int st_map_source(struct st_map *, const char *wanted, char source[ST_MAPPED]);
int st_map_target(struct st_map *, const char *source, char wanted[ST_MAPPED]);
bool st_map_drops(const struct st_map *, const char *name); /* its value is not taken, and the map says so */
/* The rules that held for nothing that was asked for, but "**"; met: an earlier one has taken it all. */
const char *st_map_idle(const struct st_map *, uint32_t index, bool *met);

/* ---------------------------------------------------------------- instances over other tables */

/* The table of functions with create and describe taken out, and create for given tables (which must outlive it). */
const struct step_api *rt_tools_api(void);
step_status rt_create(const struct stepc_program *, const struct step_options *, struct step_instance **);
#endif
