/* A checkpoint made of another one or of a file, without an instance: `stepc checkpoint convert` and `import`. No
 * object has this; the writing is that of every save. */
#include "runtime/directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_pair(struct st_text *to, bool first, const char *name, double value)
{
    st_add(to, first ? "" : ",");
    st_add_quoted(to, name);
    st_add(to, ":");
    st_add_number(to, value);
}

/* Items, metrics and hyper-parameters of the one that it is made of. */
static void copy_texts(struct rt_job *j, const struct st_checkpoint *from)
{
    for (uint32_t i = 0; from && i < from->member_count && !j->status; i++) {
        const struct st_member *m = &from->members[i];
        if (strncmp(m->name, "items/", 6) != 0) continue;
        char *text = st_checkpoint_item(from, m, &j->status, j->error);
        if (text) st_add(&j->documents, "%s%c%s%c", m->name, 0, text, 0), j->document_count++;
        free(text);
    }
    st_add(&j->numbers, ",\"hyperparameters\":{");
    for (uint32_t i = 0; from && i < from->hyper_count; i++)
        add_pair(&j->numbers, !i, from->hypers[i].name, from->hypers[i].value);
    st_add(&j->numbers, "},\"metrics\":{");
    for (uint32_t i = 0; from && i < from->metric_count; i++)
        add_pair(&j->numbers, !i, from->metrics[i].name, from->metrics[i].value);
    st_add(&j->numbers, "},\"layout\":{\"mesh\":{},\"processes\":1}");
}

/* What is compressed is compressed where it lies. */
static bool take_all(struct rt_job *j, const struct st_new *n, uint64_t bytes, char **memory)
{
    j->flags = n->flags;
    j->packed = rt_zeroed((j->count + 1) * sizeof *j->packed);
    if (!j->packed || !(j->data = *memory = malloc(bytes + 1))) return false;
    for (uint32_t i = 0; i < n->end[RT_ITEMS] && !j->status; i++)
        j->status = n->fetch(n->user, i, *memory + j->slots[i].offset, j->error);
    j->fetch = NULL;
    return true;
}

static bool take(struct rt_job *j, const struct st_new *n, const struct st_checkpoint *from, char **memory)
{
    uint64_t bytes = 0;
    memcpy(j->end, n->end, sizeof j->end);
    copy_texts(j, from);
    st_add(&j->names, "%s", n->folder);
    if (j->names.lacking || j->documents.lacking || j->numbers.lacking || !rt_job_room(j, n->end[RT_ITEMS]))
        return false;
    memcpy(j->slots, n->tensors, n->end[RT_ITEMS] * sizeof *j->slots);
    rt_job_files(j);
    rt_job_offsets(j, &bytes);
    j->folder = j->names.at;
    j->fetch = n->fetch;
    j->user = n->user;
    return rt_pieces.layout(NULL, j, &bytes) && (!n->flags || j->status || take_all(j, n, bytes, memory));
}

step_status st_checkpoint_write(const struct st_new *n, const struct st_checkpoint *from, char error[ST_TEXT])
{
    const struct stepc_program program = {.name = n->model, .compression = &stepc_part_compression};
    char *memory = NULL;
    struct rt_job *j = malloc(sizeof *j);
    step_status status = STEP_ENOMEM;
    bool there = access(n->folder, F_OK) == 0;
    snprintf(error, ST_TEXT, "out of memory");
    if (!j) return status;
    memset(j, 0, sizeof *j);
    j->program = &program;
    j->step = n->step;
    j->parent = j->at = j->lock = -1;
    j->holders = 2; /* this and the writer */
    bool whole = take(j, n, from, &memory);
    if (whole && !j->status && rt_make_temporary(j)) rt_write_job(j);
    else {
        rt_end_job(j, false);
        rt_drop_job(j);
    }
    if (whole && !(status = j->status)) *error = 0;
    if (j->status) snprintf(error, ST_TEXT, "%s", j->error), status = j->status;
    rt_drop_job(j);
    free(memory);
    if (status && !there) rmdir(n->folder);
    return status;
}
