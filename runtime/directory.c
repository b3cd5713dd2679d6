/* Saves into checkpoint directories: the state is copied (the snapshot), then written by a thread of its own if the
 * host does not wait, under a temporary name; what is on the disk gets its name by one rename, so that it is complete
 * or not there. A directory being written is locked by its writer; one without a writer is removed by the next save.
 *
 * Each item of a checkpoint (parameters, averages, optimizer state, other state) is a file; `write_item` is what
 * several processes would each do for their own parts. */
#include "ir/base/str.h"
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = RT_ITEMS, CHUNK = 1 << 22, NAME = RT_STEP_NAME };
static const char roles[ITEMS][12] = {"param", "ema", "opt_state", "state"};

struct written { /* a file of the checkpoint */
    const char *name;
    uint64_t bytes;
    char hash[ST_HASH];
};

struct job {
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
    char name[NAME], target[NAME];
    const char *data;                  /* of the instance */
    struct st_tensor *tensors;         /* item after item, by name; `offset` in data */
    char (*hashes)[ST_HASH];           /* of each */
    const struct st_tensor **in_order; /* by name alone */
    uint32_t end[ITEMS + 1];           /* of the tensors of each item */
    struct st_text names, documents, numbers,
        removed; /* items, each a name and a text with their zeros; metrics; of retention */
    uint32_t document_count;
    struct written *files;
    uint32_t file_count;
};

/* What an instance keeps for its saves, from the first one or load on. */
struct rt_saved {
    struct job *job; /* the last one, until somebody knows how it ended */
    char *data;
    uint64_t room;
    struct rt_document {
        struct rt_document *next;
        char *text;
        char name[];
    } *documents; /* of the checkpoint that was loaded */
};

static void job_drop(struct job *j)
{
    if (!j || atomic_fetch_sub(&j->holders, 1) > 1) return;
    free(j->names.at);
    free(j->tensors);
    free(j->documents.at);
    free(j->numbers.at);
    free(j->removed.at);
    free(j->files);
    free(j);
}

static bool fails(struct job *j, const char *doing, const char *name)
{
    j->status = STEP_EIO;
    snprintf(j->error, sizeof j->error, "%s/%s: %s: %s", j->folder, name, doing, strerror(errno));
    return false;
}

/* ---------------------------------------------------------------- the run directory */

/* Makes it and those around it, each on the disk; -1: the error is set. */
static int make_folder(struct job *j)
{
    char *path = j->folder;
    int why = 0;
    for (size_t i = 1; path[i - 1]; i++) {
        if ((path[i] && path[i] != '/') || path[i - 1] == '/') continue;
        char end = path[i];
        path[i] = 0;
        bool made = mkdirat(AT_FDCWD, path, 0777) == 0;
        if (!made && errno != EEXIST) why = errno;
        path[i] = end;
        if (!made) continue;
        size_t n = i;
        while (n && path[n - 1] != '/') n--;
        char first = path[n];
        path[n] = 0;
        int above = open(n ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        path[n] = first;
        if (above >= 0) st_sync(above), close(above);
    }
    int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 && errno == ENOENT && why) errno = why;
    if (parent < 0) fails(j, "cannot be made or opened", "");
    return parent;
}

/* The directory to write in, with its lock. */
static bool make_temporary(struct job *j)
{
    struct stat s;
    struct statvfs disk;
    uint64_t bytes = 0;
    if ((j->parent = make_folder(j)) < 0) return false;
    snprintf(j->target, sizeof j->target, "step-%" PRIu64, j->step);
    if (!fstatat(j->parent, j->target, &s, AT_SYMLINK_NOFOLLOW)) {
        errno = EEXIST;
        return fails(j, "exists already", j->target);
    }
    for (uint32_t i = 0; i < j->end[ITEMS]; i++) bytes += j->tensors[i].bytes;
    bool known = !fstatvfs(j->parent, &disk) && disk.f_blocks;
    if (known && bytes / disk.f_frsize > disk.f_bavail) {
        errno = ENOSPC;
        return fails(j, "more than the disk has left", j->target);
    }
    for (uint32_t i = 0; rt_new_name(j->name, "tmp", j->step, i); i++) {
        if (mkdirat(j->parent, j->name, 0777)) {
            if (errno == EEXIST) continue;
            return fails(j, "mkdir", j->name);
        }
        j->at = rt_open_folder(j->parent, j->name);
        /* Who removes what others have left may have come before the lock: then it is another's, or gone. */
        if (j->at >= 0 && (!flock(j->at, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
            !fstatat(j->parent, j->name, &s, AT_SYMLINK_NOFOLLOW))
            return true;
        if (j->at < 0 && errno != ENOENT) return fails(j, "open", j->name);
        if (j->at >= 0) close(j->at);
        j->at = -1;
    }
    return fails(j, "no name is free", j->name);
}

/* ---------------------------------------------------------------- writing */

static bool write_part(struct job *j, int fd, struct written *w, struct st_hash *h, const void *data, size_t bytes)
{
    enum { BEGIN = 2 }; /* SYNC_FILE_RANGE_WRITE: the disk works while the next part is added up; fsync still waits */
    st_hash_add(h, data, bytes);
    if (!st_put(fd, data, bytes)) return fails(j, "write", w->name);
    if (bytes == CHUNK) syscall(SYS_sync_file_range, fd, w->bytes, bytes, BEGIN);
    w->bytes += bytes;
    return true;
}

static bool finish(struct job *j, int fd, struct written *w, struct st_hash *h, bool good)
{
    if (good && !st_sync(fd)) good = fails(j, "fsync", w->name);
    if (close(fd) && good) good = fails(j, "close", w->name);
    st_hash_end(h, w->hash);
    return good;
}

static int create(struct job *j, struct written *w, struct st_hash *h, const char *name)
{
    w->name = name;
    st_hash_begin(h);
    int fd = openat(j->at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) fails(j, "cannot be made", name);
    return fd;
}

static bool write_item(struct job *j, uint32_t item)
{
    const struct st_tensor *first = &j->tensors[j->end[item]];
    uint32_t count = j->end[item + 1] - j->end[item];
    struct written *w = &j->files[j->file_count];
    struct st_text header = {0};
    struct st_hash h, piece;
    char digits[ST_SUM_SIZE + 1];
    const size_t behind = ST_SUM_DIGITS + ST_SUM_SIZE;
    uint64_t bytes = 0;
    if (!count) return true;
    for (uint32_t i = 0; i < count; i++) bytes += first[i].bytes;
    st_header(&header, first, count, j->step);
    if (header.lacking) {
        free(header.at);
        errno = ENOMEM;
        return fails(j, "header", rt_item_files[item]);
    }
    const char *data = j->data + first->offset;
    uint32_t sum = st_crc32(st_crc32(0, header.at + behind, header.length - behind), data, bytes);
    snprintf(digits, sizeof digits, "%08" PRIx32, sum);
    memcpy(header.at + ST_SUM_DIGITS, digits, ST_SUM_SIZE);
    int fd = create(j, w, &h, rt_item_files[item]);
    bool good = fd >= 0 && write_part(j, fd, w, &h, header.at, header.length);
    for (uint32_t i = 0; good && i < count; i++) {
        st_hash_begin(&piece);
        for (uint64_t at = 0, n; good && at < first[i].bytes; at += n) {
            n = first[i].bytes - at < CHUNK ? first[i].bytes - at : CHUNK;
            st_hash_add(&piece, j->data + first[i].offset + at, n);
            good = write_part(j, fd, w, &h, j->data + first[i].offset + at, n);
        }
        st_hash_end(&piece, j->hashes[j->end[item] + i]);
    }
    free(header.at);
    j->file_count += fd >= 0;
    return fd >= 0 && finish(j, fd, w, &h, good);
}

static bool write_documents(struct job *j)
{
    const char *name = j->documents.at;
    if (!j->document_count) return true;
    if (mkdirat(j->at, "items", 0777)) return fails(j, "mkdir", "items");
    for (uint32_t i = 0; i < j->document_count; i++) {
        const char *text = name + strlen(name) + 1;
        struct written *w = &j->files[j->file_count++];
        struct st_hash h;
        int fd = create(j, w, &h, name);
        if (fd < 0 || !finish(j, fd, w, &h, write_part(j, fd, w, &h, text, strlen(text)))) return false;
        name = text + strlen(text) + 1;
    }
    int fd = rt_open_folder(j->at, "items");
    bool good = fd >= 0 && st_sync(fd);
    if (!good) fails(j, "fsync", "items");
    if (fd >= 0) close(fd);
    return good;
}

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct written *)a)->name, ((const struct written *)b)->name);
}

static void add_extents(struct st_text *m, const char *key, const int64_t *extents, int32_t rank)
{
    st_add(m, ",\"%s\":[", key);
    for (int32_t k = 0; k < rank; k++) st_add(m, "%s%" PRId64, k ? "," : "", extents ? extents[k] : 0);
    st_add(m, "]");
}

static void add_slots(struct job *j, struct st_text *m)
{
    uint32_t count = j->end[ITEMS];
    struct st_hash h; /* says whether two models have the same state */
    char sum[ST_HASH];
    st_hash_begin(&h);
    st_add(m, ",\"slots\":{");
    for (uint32_t i = 0; i < count; i++) {
        const struct st_tensor *t = j->in_order[i];
        uint32_t index = (uint32_t)(t - j->tensors), item = 0;
        while (index >= j->end[item + 1]) item++;
        st_add(m, i ? "," : "");
        size_t begin = m->length;
        st_add_quoted(m, t->name);
        st_add(m, ":{\"role\":\"%s\",\"dtype\":\"%s\"", roles[item], rt_dtype_name(t->dtype));
        add_extents(m, "shape", t->shape, t->rank);
        if (!m->lacking) st_hash_add(&h, m->at + begin, m->length - begin);
        st_add(m, ",\"pieces\":[{\"file\":\"%s\",\"key\":", rt_item_files[item]);
        st_add_quoted(m, t->name);
        add_extents(m, "start", NULL, t->rank);
        add_extents(m, "shape", t->shape, t->rank);
        st_add(m, ",\"hash\":\"%s\"}]}", j->hashes[index]);
    }
    st_hash_end(&h, sum);
    st_add(m, "},\"model\":{\"name\":");
    st_add_quoted(m, j->program->name ? j->program->name : "");
    st_add(m, ",\"state\":\"%s\"}", sum);
}

static bool write_manifest(struct job *j)
{
    struct st_text m = {0};
    struct st_hash h;
    struct written w = {0};
    struct tm tm;
    struct timespec now;
    char sum[ST_HASH];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    qsort(j->files, j->file_count, sizeof *j->files, by_file);
    st_add(&m,
           "{\"stepc_checkpoint\":%d,\"step\":%" PRIu64
           ",\"created\":\"%04d-%02d-%02dT%02d:%02d:%02dZ\",\"seconds\":%lld",
           ST_CHECKPOINT, j->step, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
           (long long)now.tv_sec);
    st_add(&m, ",\"producer\":\"stepc " STEPC_VERSION "\",\"hash\":\"xxh3-128\",\"files\":{");
    for (uint32_t i = 0; i < j->file_count; i++) {
        st_add(&m, i ? "," : "");
        st_add_quoted(&m, j->files[i].name);
        st_add(&m, ":{\"bytes\":%" PRIu64 ",\"hash\":\"%s\"}", j->files[i].bytes, j->files[i].hash);
    }
    st_add(&m, "}");
    add_slots(j, &m);
    st_add(&m, "%s,", j->numbers.at);
    st_hash_begin(&h);
    if (!m.lacking) st_hash_add(&h, m.at, m.length);
    st_hash_end(&h, sum);
    st_add(&m, "\"self\":\"%s\"}", sum);
    errno = ENOMEM;
    int fd = m.lacking ? (fails(j, "manifest", ST_MANIFEST), -1) : create(j, &w, &h, ST_MANIFEST);
    bool good = fd >= 0 && finish(j, fd, &w, &h, write_part(j, fd, &w, &h, m.at, m.length));
    free(m.at);
    return good;
}

/* A link for people; what is there and no link stays. */
static void point_latest(const struct job *j)
{
    struct stat s;
    char name[NAME];
    if (!fstatat(j->parent, "latest", &s, AT_SYMLINK_NOFOLLOW) && !S_ISLNK(s.st_mode)) return;
    rt_new_name(name, "tmp", j->step, 50);
    if (symlinkat(j->target, j->parent, name)) return;
    if (!rt_move(j->parent, name, "latest", 0)) unlinkat(j->parent, name, 0);
}

static bool commit(struct job *j)
{
    if (!st_sync(j->at)) return fails(j, "fsync", j->name);
    /* never over another one: where the system cannot promise it, a directory that is not empty is in the way too */
    enum { NOREPLACE = 1 };
    if (!rt_move(j->parent, j->name, j->target, NOREPLACE) &&
        (errno != EINVAL || !rt_move(j->parent, j->name, j->target, 0)))
        return fails(j, errno == EEXIST || errno == ENOTEMPTY ? "exists already" : "rename", j->target);
    memcpy(j->name, j->target, sizeof j->name);
    if (!st_sync(j->parent)) return fails(j, "fsync", "");
    point_latest(j);
    return true;
}

static void *write_all(void *user)
{
    struct job *j = user;
    bool good = true;
    for (uint32_t item = 0; good && item < ITEMS; item++) good = write_item(j, item);
    good = good && write_documents(j) && write_manifest(j) && commit(j);
    if (!good && strcmp(j->name, j->target) != 0) {
        rt_empty_folder(j->at, false, false);
        unlinkat(j->parent, j->name, AT_REMOVEDIR);
    }
    if (good && j->keep) j->program->checkpoint->retention->run(j->parent, j->keep, &j->removed);
    st_remove_forsaken(j->parent);
    close(j->at);
    close(j->parent);
    j->ns = rt_now() - j->begin_ns;
    atomic_store(&j->done, 1);
    syscall(SYS_futex, (uint32_t *)&j->done, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    job_drop(j);
    return NULL;
}

/* ---------------------------------------------------------------- what is saved */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

static int by_name_of(const void *a, const void *b)
{
    return by_name(*(const struct st_tensor *const *)a, *(const struct st_tensor *const *)b);
}

static bool wanted(const char *const *patterns, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (glob_match(patterns[i], name)) return true;
    return !patterns;
}

static bool collect(struct job *j, const char *const *patterns, uint32_t pattern_count, uint64_t *bytes)
{
    const struct stepc_program *p = j->program;
    size_t room = p->slot_count + 1;
    j->tensors = malloc(room * (sizeof *j->tensors + sizeof *j->in_order + sizeof *j->hashes));
    if (!j->tensors) return false;
    j->in_order = (const struct st_tensor **)(j->tensors + room);
    j->hashes = (char(*)[ST_HASH])(j->in_order + room);
    uint32_t n = 0;
    for (uint32_t item = 0; item < ITEMS; item++) {
        for (uint32_t i = 0; i < p->slot_count; i++) {
            const struct stepc_slot *s = &p->slots[i];
            if (rt_slot_role(s) != item + 1 || s->computed || !wanted(patterns, pattern_count, s->name)) continue;
            struct st_tensor t = {
                .name = s->name, .dtype = s->dtype, .rank = s->rank, .bytes = rt_slot_bytes(s, false)};
            for (int32_t k = 0; k < s->rank; k++) t.shape[k] = s->shape[k];
            j->tensors[n++] = t;
        }
        j->end[item + 1] = n;
        if (n > j->end[item]) qsort(&j->tensors[j->end[item]], n - j->end[item], sizeof *j->tensors, by_name);
    }
    for (uint32_t i = 0; i < n; i++) {
        j->tensors[i].offset = *bytes;
        *bytes += j->tensors[i].bytes;
        j->in_order[i] = &j->tensors[i];
    }
    if (n) qsort(j->in_order, n, sizeof *j->in_order, by_name_of);
    return true;
}

/* Other ranks follow the first, whose copy it is. */
static step_status snapshot(struct step_instance *t, struct job *j, char *to)
{
    for (uint32_t i = 0; i < j->end[ITEMS] && !atomic_load(&t->failed); i++) {
        const struct st_tensor *tensor = &j->tensors[i];
        const struct stepc_slot *s = &t->program->slots[rt_slot_find(t, tensor->name)];
        int64_t stride[RT_MAX_RANK];
        rt_c_strides(stride, s->shape, s->rank, rt_dtype_bytes(s->dtype));
        if (to || rt_slot_sharded(s)) rt_gather(t, s, to ? to + tensor->offset : NULL, stride);
    }
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
static step_status take_texts(struct step_instance *t, struct job *j, const struct step_save *save)
{
    const char *at = (const char *)save->items;
    for (size_t i = 0; i < save->item_count; i++, at += save->items->size) {
        struct step_item item;
        if (!at || !rt_take(&item, sizeof item, at) || !item.json || !is_name(item.name))
            return rt_fail(t, STEP_EINVAL,
                           "save: item %zu: wrong size field, no text, or a name not of letters, digits, _ - and .", i);
        for (const char *name = j->documents.at; name && name < j->documents.at + j->documents.length;) {
            size_t n = strlen(item.name);
            if (strncmp(name + 6, item.name, n) == 0 && strcmp(name + 6 + n, ".json") == 0)
                return rt_fail(t, STEP_EINVAL, "save: item \"%s\" is given twice", item.name);
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
    for (size_t i = 0; i < save->metric_count; i++, at += save->metrics->size)
        if (i == ST_METRICS || !at || !rt_take(&h, sizeof h, at) || !add_pair(&j->numbers, h.name, h.value))
            return rt_fail(t, STEP_EINVAL, "save: metric %zu: wrong size field, no name in UTF-8, or more than %d", i,
                           ST_METRICS);
    st_add(&j->numbers, "},\"layout\":{\"mesh\":{");
    for (uint32_t i = 0; i < t->program->axis_count; i++)
        add_pair(&j->numbers, t->program->axis_names[i], (double)t->program->axis_sizes[i]);
    st_add(&j->numbers, "},\"processes\":%u}", t->ranks);
    return j->numbers.lacking || j->documents.lacking ? rt_fail(t, STEP_ENOMEM, "save: out of memory") : STEP_OK;
}

/* ---------------------------------------------------------------- jobs */

static struct rt_saved *saved_of(struct step_instance *t)
{
    if (!t->saved && (t->saved = malloc(sizeof *t->saved))) memset(t->saved, 0, sizeof *t->saved);
    return t->saved;
}

static bool job_sleep(struct job *j, int64_t timeout_ms)
{
    uint64_t end = rt_now() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000u;
    while (!atomic_load(&j->done)) {
        uint64_t now = rt_now(), left = end - now;
        if (timeout_ms >= 0 && now >= end) return false;
        struct timespec pause = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        syscall(SYS_futex, (uint32_t *)&j->done, FUTEX_WAIT_PRIVATE, 0, timeout_ms < 0 ? NULL : &pause, NULL, 0);
    }
    return true;
}

/* Waits for the save before and tells how it ended, if nobody was told. */
static step_status settle(struct step_instance *t)
{
    struct job *j = t->saved ? t->saved->job : NULL;
    if (!j) return STEP_OK;
    job_sleep(j, -1);
    if (j->threaded) pthread_join(j->thread, NULL);
    t->saved->job = NULL;
    step_status status = j->told ? STEP_OK : j->status;
    if (status) rt_fail(t, status, "the save of step %" PRIu64 " failed: %s", j->step, j->error);
    else if (!j->status)
        rt_log(t, 2, "saved step %" PRIu64 " in %s: %u tensors, %" PRIu64 " ms", j->step, j->folder, j->end[ITEMS],
               j->ns / 1000000);
    if (j->removed.length) rt_log(t, 2, "%s", j->removed.at);
    job_drop(j);
    return status;
}

static step_status wait_job(struct step_job *base, int64_t timeout_ms)
{
    struct job *j = (struct job *)base;
    if (!job_sleep(j, timeout_ms))
        return rt_fail(j->instance, STEP_ETIMEOUT, "job_wait: step %" PRIu64 " is not saved yet", j->step);
    j->told = true;
    return j->status ? rt_fail(j->instance, j->status, "save: %s", j->error) : STEP_OK;
}

static void free_job(struct step_job *base) { job_drop((struct job *)base); }

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
    free(t->saved->data);
    free(t->saved);
}

static bool start_thread(struct job *j)
{
    sigset_t all, old; /* signals are for the threads of the host */
    memset(&all, 0xff, sizeof all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    j->threaded = pthread_create(&j->thread, NULL, write_all, j) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return j->threaded;
}

static step_status prepare(struct step_instance *t, struct job *j, const struct step_save *save,
                           const char *const *patterns, uint32_t pattern_count, uint64_t *bytes)
{
    struct rt_saved *kept = saved_of(t);
    size_t room = (ITEMS + save->item_count) * sizeof *j->files;
    const struct rt_retention *retention = t->program->checkpoint->retention;
    if (save->keep && !retention)
        return rt_fail(t, STEP_EUNSUPPORTED, "save: keep: this object was compiled --without retention");
    if (save->keep && !retention->check(save->keep, j->error))
        return rt_fail(t, STEP_EINVAL, "save: keep: %s", j->error);
    st_add(&j->names, "%s%c%s", save->directory, 0, save->keep ? save->keep : "");
    j->files = malloc(room);
    if (!kept || j->names.lacking || !j->files || !collect(j, patterns, pattern_count, bytes))
        return rt_fail(t, STEP_ENOMEM, "save: out of memory");
    memset(j->files, 0, room);
    j->folder = j->names.at;
    j->keep = save->keep ? j->folder + strlen(j->folder) + 1 : NULL;
    step_status status = take_texts(t, j, save);
    if (status || t->rank) return status;
    if (kept->room < *bytes) {
        free(kept->data);
        kept->room = 0;
        if (!(kept->data = malloc(*bytes)))
            return rt_fail(t, STEP_ENOMEM, "save: out of memory (%" PRIu64 " bytes)", *bytes);
        kept->room = *bytes;
    }
    j->data = kept->data;
    return make_temporary(j) ? STEP_OK : rt_fail(t, j->status, "save: %s", j->error);
}

static step_status save_directory(struct step_instance *t, const struct step_save *save, const char *const *patterns,
                                  uint32_t pattern_count, struct step_job **out)
{
    uint64_t bytes = 0;
    struct job *j = malloc(sizeof *j);
    step_status status = settle(t);
    if (!status && !j) status = rt_fail(t, STEP_ENOMEM, "save: out of memory");
    if (j) {
        memset(j, 0, sizeof *j);
        j->base = (struct step_job){wait_job, free_job};
        j->instance = t;
        j->program = t->program;
        j->step = t->steps;
        j->begin_ns = rt_now();
        j->parent = j->at = -1;
        j->holders = 1;
        if (!status) status = prepare(t, j, save, patterns, pattern_count, &bytes);
    }
    status = rt_agree(t, status);
    if (!status) status = rt_agree(t, snapshot(t, j, t->rank ? NULL : t->saved->data));
    if (status) {
        if (j && j->at >= 0) unlinkat(j->parent, j->name, AT_REMOVEDIR), close(j->at);
        if (j && j->parent >= 0) close(j->parent);
        job_drop(j);
        return status;
    }
    /* this, the writer and the host each hold it; the other ranks wait for the first */
    j->holders = 2 + (out != NULL);
    if (t->rank) job_drop(j), atomic_store(&j->done, 1);
    else if (!out || t->ranks > 1 || !start_thread(j)) write_all(j);
    t->saved->job = j;
    if (out) *out = &j->base;
    else {
        job_sleep(j, -1);
        status = settle(t);
    }
    if (t->ranks == 1) return status;
    if (out && j->status) status = rt_fail(t, j->status, "save: %s", j->error);
    status = rt_agree(t, status);
    if (status && out) { /* it is over, and save says how */
        j->told = true;
        *out = NULL;
        job_drop(j);
    }
    return status;
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
    if (status) return rt_agree(t, rt_fail(t, status, "load: %s", error));
    status = kept ? take_items(t, &c, &items) : rt_fail(t, STEP_ENOMEM, "load: out of memory");
    status = status ? rt_agree(t, status) : use(t, load, &c.all, &c);
    st_checkpoint_close(&c);
    if (!status) {
        struct rt_document *old = kept->documents;
        kept->documents = items;
        items = old;
    }
    forget(items);
    return status;
}

/* The newest that is not damaged; newer ones are named. */
static step_status load_directory(struct step_instance *t, const struct step_load *load, rt_load_from *use)
{
    char error[ST_TEXT];
    uint64_t *steps;
    uint32_t count;
    if (st_is_checkpoint(load->path)) return load_one(t, load, load->path, use);
    size_t room = strlen(load->path) + 32;
    char *path = malloc(room);
    step_status status = st_steps(load->path, &steps, &count, error);
    if (!path) status = STEP_ENOMEM;
    if (status) rt_fail(t, status, "load: %s", error);
    else if (!count)
        status = rt_fail(t, STEP_ENOTFOUND, "load: %s holds no checkpoint (no " ST_MANIFEST ", no step-N)", load->path);
    if (status) status = rt_agree(t, status);
    else
        for (uint32_t i = 0; i < count; i++) {
            snprintf(path, room, "%s/step-%" PRIu64, load->path, steps[i]);
            status = load_one(t, load, path, use);
            if (status != STEP_ECORRUPT) break;
            rt_log(t, 1, "%s%s", rt_last_error(t), i + 1 < count ? "; the one before it is taken" : "");
        }
    free(steps);
    free(path);
    return status;
}

const struct rt_directories rt_directories = {save_directory, load_directory, st_checkpoint_read, item, end};
