/* A save into a checkpoint directory: what directory.c prepares and directory_write.c writes, on a thread of its own if
 * the host does not wait. */
#ifndef STEPC_RUNTIME_DIRECTORY_H
#define STEPC_RUNTIME_DIRECTORY_H

#include "runtime/rt.h"
#include <stepc/step_tools.h>

#pragma GCC visibility push(hidden)

struct rt_written { /* a file of the checkpoint */
    const char *name;
    uint64_t bytes;
    char hash[ST_HASH];
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
    struct step_instance *instance; /* to log for, and as an address */
    const struct stepc_program *program;
    char *folder; /* the run directory, in `names` */
    const char *keep;
    int parent, at; /* the run directory and the temporary one, which is locked; -1: none */
    char name[RT_STEP_NAME], target[RT_STEP_NAME];
    const char *data;                  /* of the instance */
    struct st_tensor *tensors;         /* item after item, by name; `offset` in data */
    char (*hashes)[ST_HASH];           /* of each */
    const struct st_tensor **in_order; /* by name alone */
    uint32_t end[RT_ITEMS + 1];        /* of the tensors of each item */
    struct st_text names, documents, numbers,
        removed; /* items, each a name and a text with their zeros; metrics; of retention */
    uint32_t document_count;
    struct rt_written *files;
    uint32_t file_count;
};

/* The directory to write in, with its lock; false: the error is set. */
bool rt_make_temporary(struct rt_job *);
void *rt_write_job(void *job); /* what a thread runs */
void rt_drop_job(struct rt_job *);

/* threads.c: false: there are no more */
bool rt_start_thread(pthread_t *, void *(*work)(void *), void *user);
/* work(user, i) for every i, by several threads if it is about so many bytes. */
void rt_each(const struct step_instance *, uint64_t bytes, uint32_t count, void (*work)(void *user, uint32_t),
             void *user);

#pragma GCC visibility pop
#endif
