/* A save into a checkpoint directory: what directory.c prepares and directory_write.c writes, on a thread of its own if
 * the host does not wait. */
#ifndef STEPC_RUNTIME_DIRECTORY_H
#define STEPC_RUNTIME_DIRECTORY_H

#include "runtime/rt.h"
#include <stepc/step_tools.h>

struct rt_load_plan;

#pragma GCC visibility push(hidden)

/* Added to the offset of a tensor that save does not copy (lending.c): it is an offset in the state, from where the
 * tensor is written; or one in rt_job.data, to where the writer copies it. Others are below both. */
#define RT_IN_STATE ((uint64_t)1 << 63)
#define RT_LATER ((uint64_t)1 << 62)

struct rt_written { /* a file of the checkpoint */
    const char *name;
    uint64_t bytes;
    char hash[ST_HASH];
    uint32_t begin, end; /* its tensors */
    uint32_t writer;     /* the rank that writes it */
};

struct rt_packed { /* as in st_piece; 0: it is not compressed */
    uint64_t stored, chunked;
};

struct rt_piece { /* of a tensor (pieces.c); those of one by their place, in the order of `in_order` */
    struct st_tensor t;
    const struct st_tensor *whole;
    int64_t start[8];
    const char *name; /* of its file */
    size_t key;
    uint32_t device, writer, item, file;
    bool first; /* slice of what the device holds */
};

struct rt_peer { /* a process that saves too */
    char host[64], name[RT_STEP_NAME];
    int32_t pid;
    uint32_t flags;
    uint64_t bound;
};

struct rt_job {
    struct step_job base;
    _Atomic uint32_t done, holders; /* done: what job_wait sleeps on */
    step_status status;
    _Atomic bool told;
    bool threaded;
    pthread_t thread;
    char error[ST_TEXT];

    uint64_t step, begin_ns, ns;
    uint32_t rank;
    struct step_instance *instance; /* to log for, and as an address */
    const struct stepc_program *program;
    char *folder; /* the run directory, in `names` */
    const char *keep;
    int parent, at; /* the run directory and the temporary one, which is locked; -1: none */
    char name[RT_STEP_NAME], target[RT_STEP_NAME];
    const char *data;           /* of the instance */
    const char *lent;           /* the state that tensors with RT_IN_STATE and RT_LATER lie in; NULL: there are none */
    struct st_tensor *slots;    /* item after item, by name; `offset` in data */
    uint32_t end[RT_ITEMS + 1]; /* of those of each item */
    struct st_tensor *tensors;  /* of files: `slots`, or pieces of them, file after file, by key */
    uint32_t count;             /* of `tensors` */
    char (*hashes)[ST_HASH];    /* of each */
    struct rt_packed *packed;   /* of each; NULL: nothing is compressed */
    uint32_t flags;             /* STEP_SAVE_* */
    const struct st_tensor **in_order; /* by name, then by place */
    struct rt_piece *pieces;           /* NULL: `tensors` are whole */
    char *keys;                        /* their names */
    const struct rt_pieces *several;   /* NULL: this object has none */
    struct rt_peer *peers;             /* NULL: one process */
    void (*drop)(struct rt_job *);     /* frees these four; NULL: there is none of them */
    uint64_t bound;                    /* of a file */
    int lock;                          /* a file that is locked while this process writes; -1: none */
    struct st_text names, documents, numbers,
        removed; /* items, each a name and a text with their zeros; metrics; of retention */
    uint32_t document_count;
    struct rt_written *files; /* those of tensors first */
    uint32_t file_count;
    step_status (*fetch)(void *user, uint32_t slot, void *to, char error[ST_TEXT]); /* NULL: `data` holds all */
    void *user;
};

/* Room for so many tensors, which are `slots`, their order and checksums; false: no memory. */
bool rt_job_room(struct rt_job *, uint32_t count);
/* `slots` are there: their order, and a file for each item; then their places in `data`, one behind the other. */
void rt_job_files(struct rt_job *);
void rt_job_offsets(struct rt_job *, uint64_t *bytes);
bool rt_job_sleep(struct rt_job *, int64_t timeout_ms); /* until it has ended, <0: forever; false: it has not */
bool rt_job_fails(struct rt_job *, const char *doing, const char *name); /* sets the error of errno; false */

struct rt_pieces { /* pieces.c */
    /* Which pieces and files there are; false: no memory, or the job says what. No instance: of one process. */
    bool (*layout)(const struct step_instance *, struct rt_job *, uint64_t *bytes);
    step_status (*open)(struct step_instance *, struct rt_job *); /* of all ranks, after the first one's directory */
    void (*copy)(void *job, uint32_t piece);                      /* the snapshot */
    bool (*meet)(struct rt_job *, bool good); /* the first rank: all have written; others: the first has committed */
    void (*store)(struct step_instance *, const struct stepc_slot *, char *data);
};
extern const struct rt_pieces rt_pieces;
step_status rt_pieces_read(struct rt_load_plan *, uint32_t slot, char *to, char *error); /* of rt_directories */

void *rt_zeroed(size_t bytes); /* of malloc; an import of calloc is larger */
/* The directory to write in, with its lock; false: the error is set. */
bool rt_make_temporary(struct rt_job *);
void *rt_write_job(void *job);               /* what a thread runs */
void rt_end_job(struct rt_job *, bool good); /* not good: what was written goes */
void rt_drop_job(struct rt_job *);

/* threads.c: false: there are no more */
bool rt_start_thread(pthread_t *, void *(*work)(void *), void *user);
/* work(user, i) for every i, by several threads if it is about so many bytes. */
void rt_each(const struct step_instance *, uint64_t bytes, uint32_t count, void (*work)(void *user, uint32_t),
             void *user);

#pragma GCC visibility pop
#endif
