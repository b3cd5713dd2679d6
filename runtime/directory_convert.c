/* A checkpoint made of another one or of a file, without an instance: `stepc checkpoint convert` and `import`. No
 * object has this; the writing is that of every save. */
#include "runtime/directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct st_tensor *const *)a)->name, (*(const struct st_tensor *const *)b)->name);
}

/* Items and metrics of the one that it is made of. */
static void copy_texts(struct rt_job *j, const struct st_checkpoint *from)
{
    for (uint32_t i = 0; from && i < from->member_count && !j->status; i++) {
        const struct st_member *m = &from->members[i];
        if (strncmp(m->name, "items/", 6) != 0) continue;
        char *text = st_checkpoint_item(from, m, &j->status, j->error);
        if (text) st_add(&j->documents, "%s%c%s%c", m->name, 0, text, 0), j->document_count++;
        free(text);
    }
    st_add(&j->numbers, ",\"hyperparameters\":{},\"metrics\":{");
    for (uint32_t i = 0; from && i < from->metric_count; i++) {
        st_add(&j->numbers, i ? "," : "");
        st_add_quoted(&j->numbers, from->metrics[i].name);
        st_add(&j->numbers, ":");
        st_add_number(&j->numbers, from->metrics[i].value);
    }
    st_add(&j->numbers, "},\"layout\":{\"mesh\":{},\"processes\":1}");
}

static bool take(struct rt_job *j, const struct st_new *n, const struct st_checkpoint *from, char **data)
{
    uint32_t count = n->end[RT_ITEMS];
    uint64_t bytes = 0;
    memcpy(j->end, n->end, sizeof j->end);
    j->tensors = malloc((count + 1) * (sizeof *j->tensors + sizeof *j->in_order + sizeof *j->hashes));
    if (!j->tensors) return false;
    j->in_order = (const struct st_tensor **)(j->tensors + count + 1);
    j->hashes = (char(*)[ST_HASH])(j->in_order + count + 1);
    for (uint32_t i = 0; i < count; i++) {
        j->tensors[i] = n->tensors[i];
        j->tensors[i].offset = bytes;
        bytes += n->tensors[i].bytes;
        j->in_order[i] = &j->tensors[i];
    }
    if (count) qsort(j->in_order, count, sizeof *j->in_order, by_name);
    copy_texts(j, from);
    st_add(&j->names, "%s", n->folder);
    size_t room = (RT_ITEMS + j->document_count) * sizeof *j->files;
    j->files = malloc(room);
    j->data = *data = malloc(bytes + 1);
    if (!j->files || !*data || j->names.lacking || j->documents.lacking || j->numbers.lacking) return false;
    memset(j->files, 0, room);
    j->folder = j->names.at;
    for (uint32_t i = 0; i < count && !j->status; i++)
        j->status = n->fetch(n->user, i, *data + j->tensors[i].offset, j->error);
    return true;
}

step_status st_checkpoint_write(const struct st_new *n, const struct st_checkpoint *from, char error[ST_TEXT])
{
    const struct stepc_program program = {.name = n->model};
    struct rt_job *j = malloc(sizeof *j);
    char *data = NULL;
    step_status status = STEP_ENOMEM;
    snprintf(error, ST_TEXT, "out of memory");
    if (!j) return status;
    memset(j, 0, sizeof *j);
    j->program = &program;
    j->step = n->step;
    j->parent = j->at = -1;
    j->holders = 2; /* this and the writer */
    bool whole = take(j, n, from, &data);
    if (whole && !j->status && rt_make_temporary(j)) rt_write_job(j);
    else {
        if (j->parent >= 0) close(j->parent);
        rt_drop_job(j);
    }
    if (whole && !(status = j->status)) *error = 0;
    if (status && whole) snprintf(error, ST_TEXT, "%s", j->error);
    rt_drop_job(j);
    free(data);
    return status;
}
