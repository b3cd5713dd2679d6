/* Saves into checkpoint directories: the state is copied (the snapshot), then written (directory_write.c); and the
 * loading of such directories. A directory without a writer is removed by the next save. */
#include "ir/base/str.h"
#include "runtime/directory.h"
#include "runtime/load.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ITEMS = RT_ITEMS };

/* What an instance keeps for its saves, from the first one or load on. */
struct rt_saved {
    struct rt_job *job; /* the last one, until somebody knows how it ended */
    char *data;
    uint64_t room;
    struct rt_document {
        struct rt_document *next;
        char *text;
        char name[];
    } *documents; /* of the checkpoint that was loaded */
};

static step_status no_memory(const struct step_instance *t) { return rt_fail(t, STEP_ENOMEM, "save: out of memory"); }

/* ---------------------------------------------------------------- what is saved */

static bool collect(struct rt_job *j, const bool *wanted)
{
    const struct stepc_program *p = j->program;
    uint32_t n = 0;
    if (!rt_job_room(j, p->slot_count)) return false;
    for (uint32_t item = 0; item < ITEMS; item++) {
        for (uint32_t i = 0; i < p->slot_count; i++) {
            const struct stepc_slot *s = &p->slots[i];
            if (rt_slot_role(s) != item + 1 || s->computed || !wanted[i]) continue;
            struct st_tensor t = {
                .name = s->name, .dtype = s->dtype, .rank = s->rank, .bytes = rt_slot_bytes(s, false)};
            t.trained = !item && !(s->flags & STEP_FROZEN);
            for (int32_t k = 0; k < s->rank; k++) t.shape[k] = s->shape[k];
            j->slots[n++] = t;
        }
        j->end[item + 1] = n;
    }
    rt_job_files(j);
    return true;
}

static void copy_tensor(void *user, uint32_t i)
{
    const struct rt_job *j = user;
    const struct st_tensor *tensor = &j->slots[i];
    const struct stepc_slot *s = &j->program->slots[rt_slot_find(j->instance, tensor->name)];
    int64_t stride[RT_MAX_RANK];
    if (tensor->offset >= RT_LATER) return;
    rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
    rt_gather(j->instance, s, (char *)(uintptr_t)j->data + tensor->offset, stride);
}

static step_status snapshot(struct step_instance *t, struct rt_job *j, uint64_t bytes)
{
    bool apart = j->peers != NULL;
    rt_each(t, t->device_ops->shared ? bytes : 0, apart ? j->count : j->end[ITEMS],
            apart ? j->several->copy : copy_tensor, j);
    return (step_status)atomic_load(&t->failed);
}

/* Of an item: a name of letters, digits, '_', '-' and '.', not first. */
static bool is_name(const char *name)
{
    const char *at = name;
    for (; at && *at; at++)
        if (!(*at >= '0' && *at <= '9') && !((*at | 32) >= 'a' && (*at | 32) <= 'z') && *at != '_' && *at != '-' &&
            (*at != '.' || at == name))
            return false;
    return at && at > name && at - name <= 100;
}

static bool add_pair(struct st_text *to, const char *name, double value)
{
    for (size_t i = 0, n = name ? strlen(name) : 0, one; i < n || !name; i += one)
        if (!name || !(one = str_utf8((const unsigned char *)name + i, n - i))) return false;
    if (!to->lacking && to->at[to->length - 1] != '{') st_add(to, ",");
    st_add_quoted(to, name);
    st_add(to, ":");
    st_add_number(to, value);
    return true;
}

/* What the host lends until save returns. */
static step_status take_texts(struct step_instance *t, struct rt_job *j, const struct step_save *save)
{
    const char *at = (const char *)save->items;
    for (size_t i = 0; i < save->item_count; i++, at += save->items->size) {
        struct step_item item;
        if (!at || !rt_take(&item, sizeof item, at) || !item.json || !is_name(item.name))
            return rt_fail(t, STEP_EINVAL, "save: item %zu: wrong size, no text, or a name beyond letters, digits, _-.",
                           i);
        for (const char *name = j->documents.at; name && name < j->documents.at + j->documents.length;) {
            size_t n = strlen(item.name);
            if (strncmp(name + 6, item.name, n) == 0 && strcmp(name + 6 + n, ".json") == 0)
                return rt_fail(t, STEP_EINVAL, "save: item \"%s\" given twice", item.name);
            name += strlen(name) + 1;
            name += strlen(name) + 1;
        }
        st_add(&j->documents, "items/%s.json%c%s%c", item.name, 0, item.json, 0);
        j->document_count++;
    }
    st_add(&j->numbers, ",\"hyperparameters\":{");
    struct step_hyper h = {.size = sizeof h};
    for (size_t i = 0; !rt_hyper_at(t, i, &h); i++) add_pair(&j->numbers, h.name, h.value);
    st_add(&j->numbers, "},\"metrics\":{");
    at = (const char *)save->metrics;
    for (size_t i = 0; i < save->metric_count; i++, at += save->metrics->size) {
        bool good = i < ST_METRICS && at && rt_take(&h, sizeof h, at) && add_pair(&j->numbers, h.name, h.value);
        for (const char *k = (const char *)save->metrics; good && k < at; k += save->metrics->size)
            good = strcmp(((const struct step_hyper *)(const void *)k)->name, h.name) != 0;
        if (!good)
            return rt_fail(t, STEP_EINVAL, "save: metric %zu: wrong size, no UTF-8 name, given twice, or over %d", i,
                           ST_METRICS);
    }
    st_add(&j->numbers, "},\"layout\":{\"mesh\":{");
    for (uint32_t i = 0; i < t->program->axis_count; i++)
        add_pair(&j->numbers, t->program->axis_names[i], (double)t->program->axis_sizes[i]);
    st_add(&j->numbers, "},\"processes\":%u}", t->ranks);
    return j->numbers.lacking || j->documents.lacking ? no_memory(t) : STEP_OK;
}

/* ---------------------------------------------------------------- jobs */

static struct rt_saved *saved_of(struct step_instance *t)
{
    if (!t->saved) t->saved = rt_zeroed(sizeof *t->saved);
    return t->saved;
}

bool rt_job_sleep(struct rt_job *j, int64_t timeout_ms)
{
    uint64_t end = rt_now() + (uint64_t)rt_ns_of(timeout_ms);
    while (!atomic_load(&j->done)) {
        uint64_t now = rt_now(), left = end - now;
        if (timeout_ms >= 0 && now >= end) return false;
        struct timespec pause = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        st_call(futex, (uint32_t *)&j->done, FUTEX_WAIT_PRIVATE, 0, timeout_ms < 0 ? NULL : &pause, NULL, 0);
    }
    return true;
}

/* Waits for the save before and tells how it ended, if nobody was told. */
static step_status settle(struct step_instance *t)
{
    struct rt_job *j = t->saved ? t->saved->job : NULL;
    if (!j) return STEP_OK;
    rt_job_sleep(j, -1);
    if (j->threaded) pthread_join(j->thread, NULL);
    t->saved->job = NULL;
    t->lent = NULL;
    step_status status = j->told ? STEP_OK : j->status;
    if (status) rt_fail(t, status, "the save of step %" PRIu64 " failed: %s", j->step, j->error);
    else if (!j->status)
        rt_log(t, 2, "saved step %" PRIu64 " in %s: %u tensors, %" PRIu64 " ms", j->step, j->folder, j->end[ITEMS],
               j->ns / 1000000);
    if (j->removed.length) rt_log(t, 2, "%s", j->removed.at);
    rt_drop_job(j);
    return status;
}

static step_status wait_job(struct step_job *base, int64_t timeout_ms)
{
    struct rt_job *j = (struct rt_job *)base;
    if (!rt_job_sleep(j, timeout_ms))
        return rt_fail(j->instance, STEP_ETIMEOUT, "job_wait: step %" PRIu64 " is not saved yet", j->step);
    j->told = true;
    return j->status ? rt_fail(j->instance, j->status, "save: %s", j->error) : STEP_OK;
}

static void free_job(struct step_job *base) { rt_drop_job((struct rt_job *)base); }

static void forget(struct rt_document *d)
{
    for (struct rt_document *next; d; d = next) {
        next = d->next;
        free(d->text);
        free(d);
    }
}

static void end(struct step_instance *t)
{
    if (!t->saved) return;
    if (settle(t)) rt_log(t, 0, "%s", rt_last_error(t));
    forget(t->saved->documents);
    if (t->saved->room) rt_host_put(t, t->saved->data, t->saved->room);
    free(t->saved);
}

static step_status prepare(struct step_instance *t, struct rt_job *j, const struct step_save *save, const bool *wanted,
                           bool lends, uint64_t *bytes)
{
    struct rt_saved *kept = saved_of(t);
    const struct rt_retention *retention = t->program->checkpoint->retention;
    if (save->keep && !retention)
        return rt_fail(t, STEP_EUNSUPPORTED, "save: keep: object compiled --without retention");
    if (save->keep && !retention->check(save->keep, j->error))
        return rt_fail(t, STEP_EINVAL, "save: keep: %s", j->error);
    const struct stepc_compression *compression = t->program->compression;
    if (save->flags && !compression)
        return rt_fail(t, STEP_EUNSUPPORTED, "save: compress: object compiled --without compression");
    if (save->flags && compression->is_there(!(t->flags & STEP_NO_ENV), j->error))
        return rt_fail(t, STEP_EDEVICE, "save: %s", j->error);
    j->flags = save->flags;
    j->several = t->program->checkpoint->directories->pieces;
    step_status status = take_texts(t, j, save);
    if (status) return status;
    st_add(&j->names, "%s%c%s", save->directory, 0, save->keep ? save->keep : "");
    if (!kept || j->names.lacking || !collect(j, wanted)) return no_memory(t);
    if (!lends || !t->program->lending || !t->program->lending->lend(j, bytes)) rt_job_offsets(j, bytes);
    if ((j->several && !j->several->layout(t, j, bytes)) ||
        (j->flags && !(j->packed = rt_zeroed((j->count + 1) * sizeof *j->packed))))
        return j->status ? rt_fail(t, j->status, "save: %s", j->error) : no_memory(t);
    j->folder = j->names.at;
    j->keep = save->keep ? j->folder + strlen(j->folder) + 1 : NULL;
    if (kept->room < *bytes) {
        if (kept->room) rt_host_put(t, kept->data, kept->room);
        kept->room = 0;
        if (!(kept->data = rt_host_get(t, *bytes))) return no_memory(t);
        kept->room = *bytes;
    }
    j->data = kept->data;
    return t->rank || rt_make_temporary(j) ? STEP_OK : rt_fail(t, j->status, "save: %s", j->error);
}

static step_status save_directory(struct step_instance *t, const struct step_save *save, const bool *wanted,
                                  struct step_job **out)
{
    uint64_t bytes = 0;
    struct rt_job *j = rt_zeroed(sizeof *j);
    step_status status = settle(t);
    if (!status && !j) status = no_memory(t);
    if (j) {
        j->base = (struct step_job){wait_job, free_job};
        j->instance = t;
        j->program = t->program;
        j->step = t->steps;
        j->rank = t->rank;
        j->begin_ns = rt_now();
        j->parent = j->at = j->lock = -1;
        j->holders = 1;
        if (!status) status = prepare(t, j, save, wanted, out != NULL, &bytes);
    }
    status = rt_agree(t, status);
    if (!status && t->ranks > 1) status = j->several->open(t, j);
    if (!status) status = snapshot(t, j, bytes);
    if (status) {
        if (j) rt_end_job(j, false);
        rt_drop_job(j);
        return status;
    }
    j->holders = 2 + (out != NULL); /* this, the writer and the host each hold it */
    j->threaded = rt_start_thread(&j->thread, j->lent ? t->program->lending->write : rt_write_job, j);
    if (!j->threaded) rt_write_job(j);
    t->saved->job = j;
    t->lent = j->lent ? j : NULL;
    if (out) *out = &j->base;
    return out ? STEP_OK : settle(t);
}

/* ---------------------------------------------------------------- items of what was loaded */

static const char *item(const struct step_instance *t, const char *name)
{
    const struct rt_document *d = t->saved ? t->saved->documents : NULL;
    while (d && strcmp(d->name, name) != 0) d = d->next;
    return d ? d->text : NULL;
}

/* All of them, so that asking cannot fail. */
static step_status take_items(struct step_instance *t, const struct st_checkpoint *c, struct rt_document **list)
{
    char error[ST_TEXT];
    *list = NULL;
    for (const struct st_member *m = c->members; m < c->members + c->member_count; m++) {
        size_t n = strlen(m->name);
        if (strncmp(m->name, "items/", 6) != 0 || n < 12) continue;
        struct rt_document *d = malloc(sizeof *d + n);
        step_status status = d ? STEP_OK : STEP_ENOMEM;
        *error = 0;
        if (d && (d->text = st_checkpoint_item(c, m, &status, error))) {
            memcpy(d->name, m->name + 6, n); /* with its zero */
            d->name[n - 11] = 0;             /* of .json */
            d->next = *list;
            *list = d;
        }
        if (status) {
            if (d) free(d);
            return rt_fail(t, status, "load: %s", error);
        }
    }
    return STEP_OK;
}

/* ---------------------------------------------------------------- loading */

static step_status load_one(struct step_instance *t, const struct step_load *load, const char *path, rt_load_from *use)
{
    char error[ST_TEXT];
    struct st_checkpoint c;
    struct rt_document *items = NULL;
    struct rt_saved *kept = saved_of(t);
    step_status status = st_checkpoint_open(&c, path, true, error);
    c.compression = t->program->compression;
    c.environment = !(t->flags & STEP_NO_ENV);
    if (status) rt_fail(t, status, "load: %s", error);
    else status = kept ? take_items(t, &c, &items) : rt_fail(t, STEP_ENOMEM, "load: out of memory");
    if (t->ranks > 1) status = t->program->mesh->opened(t, status, &c.all, &c);
    if (!status) status = use(t, load, &c.all, &c);
    st_checkpoint_close(&c);
    if (!status) {
        struct rt_document *old = kept->documents;
        kept->documents = items;
        items = old;
    }
    forget(items);
    return status;
}

enum { NONE, ITSELF, OF_A_RUN }; /* what a path names: it is a checkpoint, or OF_A_RUN + N: step-N of its */

/* After the one that was tried and is damaged the next older one; the newest where it was removed meanwhile: then there
 * is another one. */
static step_status choose(struct step_instance *t, const char *path, step_status tried, uint64_t *found)
{
    char error[ST_TEXT];
    uint64_t *steps, last = *found;
    uint32_t count, i = 0;
    *found = ITSELF;
    if (!last && st_is_checkpoint(path)) return STEP_OK;
    *found = NONE;
    step_status status = st_steps(path, &steps, &count, error);
    if (status) return rt_fail(t, status, "load: %s", error);
    if (!count && !last)
        return rt_fail(t, STEP_ENOTFOUND, "load: %s holds no checkpoint (no " ST_MANIFEST ", no step-N)", path);
    while (i < count && OF_A_RUN + steps[i] != last) i++;
    if (i++ == count) i = 0;
    else if (tried != STEP_ECORRUPT) i = count;
    if (i < count) *found = OF_A_RUN + steps[i];
    free(steps);
    return STEP_OK;
}

/* The newest that is not damaged, as the first rank finds it; newer ones are named. */
static step_status load_directory(struct step_instance *t, const struct step_load *load, rt_load_from *use)
{
    char path[PATH_MAX + 32];
    step_status status = STEP_OK;
    for (uint64_t found = NONE, last = NONE; !last || status == STEP_ECORRUPT || status == STEP_EIO; last = found) {
        step_status chosen = t->rank ? STEP_OK : choose(t, load->path, status, &found);
        if (t->ranks > 1) chosen = t->program->mesh->first(t, chosen, &found);
        if (chosen || !found) return chosen ? chosen : status;
        if (found < last) rt_log(t, 1, "%s; the one before is taken", rt_last_error(t));
        snprintf(path, sizeof path, "%s/step-%" PRIu64, load->path, found - OF_A_RUN);
        status = load_one(t, load, found == ITSELF ? load->path : path, use);
        if (found == ITSELF) break;
    }
    return status;
}

static step_status read_whole(struct rt_load_plan *l, uint32_t slot, char *to, char *error)
{
    return st_checkpoint_read(l->checkpoint, l->items[slot].source, to, !(l->flags & STEP_LOAD_NO_VERIFY), error);
}

#define OF_ALL save_directory, load_directory, rt_each, item, end
const struct rt_directories rt_directories = {OF_ALL, read_whole, NULL};
const struct rt_directories rt_directories_pieces = {OF_ALL, rt_pieces_read, &rt_pieces};
