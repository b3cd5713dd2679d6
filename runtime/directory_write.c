/* A checkpoint directory as it is written: under a temporary name, locked by its writer, every file synced; what is on
 * the disk gets its name by one rename, so that it is complete or not there.
 *
 * Each item of a checkpoint (parameters, averages, optimizer state, other state) is a file, or several (pieces.c). */
#include "runtime/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = RT_ITEMS, CHUNK = 1 << 22, NAME = RT_STEP_NAME };
static const char roles[ITEMS][12] = {"param", "ema", "opt_state", "state"};

void rt_drop_job(struct rt_job *j)
{
    if (!j || atomic_fetch_sub(&j->holders, 1) > 1) return;
    free(j->names.at);
    if (j->drop) j->drop(j);
    free(j->slots);
    free(j->documents.at);
    free(j->numbers.at);
    free(j->removed.at);
    free(j->files);
    free(j->packed);
    free(j);
}

bool rt_job_fails(struct rt_job *j, const char *doing, const char *name)
{
    j->status = STEP_EIO;
    snprintf(j->error, sizeof j->error, "%s/%s: %s: %s", j->folder, name, doing, strerror(errno));
    return false;
}

/* ---------------------------------------------------------------- what is written */

static int by_name_of(const void *a, const void *b)
{
    return st_by_name(*(const struct st_tensor *const *)a, *(const struct st_tensor *const *)b);
}

void *rt_zeroed(size_t bytes)
{
    void *at = malloc(bytes);
    return at ? memset(at, 0, bytes) : NULL;
}

bool rt_job_room(struct rt_job *j, uint32_t count)
{
    j->files = rt_zeroed((ITEMS + j->document_count + 1) * sizeof *j->files);
    j->tensors = j->slots = malloc((count + 1) * (sizeof *j->tensors + sizeof *j->in_order + sizeof *j->hashes));
    if (!j->files || !j->slots) return false;
    j->in_order = (const struct st_tensor **)(j->slots + count + 1);
    j->hashes = (char(*)[ST_HASH])(j->in_order + count + 1);
    return true;
}

void rt_job_files(struct rt_job *j)
{
    for (uint32_t item = 0, n = 0; item < ITEMS; item++, n = j->count) {
        if ((j->count = j->end[item + 1]) == n) continue;
        qsort(&j->slots[n], j->count - n, sizeof *j->slots, st_by_name);
        j->files[j->file_count++] = (struct rt_written){.name = rt_item_files[item], .begin = n, .end = j->count};
    }
    for (uint32_t i = 0; i < j->count; i++) j->in_order[i] = &j->slots[i];
    if (j->count) qsort(j->in_order, j->count, sizeof *j->in_order, by_name_of);
}

void rt_job_offsets(struct rt_job *j, uint64_t *bytes)
{
    for (uint32_t i = 0; i < j->count; i++) {
        j->slots[i].offset = *bytes;
        *bytes += j->slots[i].bytes;
    }
}

/* ---------------------------------------------------------------- the run directory */

/* Makes it and those around it; -1: the error is set. */
static int make_folder(struct rt_job *j)
{
    char *path = j->folder;
    int why = 0;
    if (strlen(path) > ST_FOLDER) return errno = ENAMETOOLONG, rt_job_fails(j, "cannot be opened", ""), -1;
    for (size_t i = 1; path[i - 1]; i++) {
        if ((path[i] && path[i] != '/') || path[i - 1] == '/') continue;
        char end = path[i];
        path[i] = 0;
        if (st_call(mkdirat, AT_FDCWD, path, 0777) && errno != EEXIST) why = errno;
        path[i] = end;
    }
    int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 && errno == ENOENT && why) errno = why;
    if (parent < 0) rt_job_fails(j, "cannot be opened", "");
    return parent;
}

/* The names of what make_folder may have made, now or in a process that was killed. The host waits for none of it, and
 * may have gone to another directory. What nobody may list is not ours. */
static bool sync_above(struct rt_job *j)
{
    int at = j->parent;
    bool good = true;
    for (const char *c = j->folder; good && at >= 0 && *c; c++) {
        if (*c == '/' || (c[1] && c[1] != '/')) continue; /* not the end of a name */
        int above = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        good = above >= 0 ? st_sync(above) : errno == EACCES;
        if (!good) rt_job_fails(j, "fsync", "..");
        if (at != j->parent) close(at);
        at = above;
    }
    if (at >= 0 && at != j->parent) close(at);
    return good;
}

bool rt_make_temporary(struct rt_job *j)
{
    struct stat s;
    struct statfs disk;
    uint64_t bytes = 0;
    if ((j->parent = make_folder(j)) < 0) return false;
    snprintf(j->target, sizeof j->target, "step-%" PRIu64, j->step);
    if (!st_call(newfstatat, j->parent, j->target, &s, AT_SYMLINK_NOFOLLOW)) {
        errno = EEXIST;
        return rt_job_fails(j, "exists already", j->target);
    }
    for (uint32_t i = 0; i < j->count; i++) bytes += j->tensors[i].bytes;
    bool known = !j->flags && !st_call(fstatfs, j->parent, &disk) &&
                 disk.f_blocks; /* what is compressed is not known */
    if (known && bytes / (uint64_t)disk.f_bsize > disk.f_bavail) {
        errno = ENOSPC;
        return rt_job_fails(j, "more than the disk has", j->target);
    }
    for (uint32_t i = 0; rt_new_name(j->name, "tmp", j->step, i); i++) {
        if (st_call(mkdirat, j->parent, j->name, 0777)) {
            if (errno == EEXIST) continue;
            return rt_job_fails(j, "mkdir", j->name);
        }
        j->at = rt_open_folder(j->parent, j->name);
        /* Who removes what others have left may have come before the lock: then it is another's, or gone. */
        if (j->at >= 0 && (!st_call(flock, j->at, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
            !st_call(newfstatat, j->parent, j->name, &s, AT_SYMLINK_NOFOLLOW))
            return true;
        if (j->at < 0 && errno != ENOENT) return rt_job_fails(j, "open", j->name);
        if (j->at >= 0) close(j->at);
        j->at = -1;
    }
    return rt_job_fails(j, "no free name", j->name);
}

/* ---------------------------------------------------------------- writing */

static bool write_part(struct rt_job *j, int fd, struct rt_written *w, struct st_hash *h, const void *data,
                       size_t bytes)
{
    enum { BEGIN = 2 }; /* SYNC_FILE_RANGE_WRITE: the disk works while the next part is added up; fsync still waits */
    st_hash_add(h, data, bytes);
    if (!st_put(fd, data, bytes)) return rt_job_fails(j, "write", w->name);
    if (bytes == CHUNK) st_call(sync_file_range, fd, w->bytes, bytes, BEGIN);
    w->bytes += bytes;
    return true;
}

static bool finish(struct rt_job *j, int fd, struct rt_written *w, struct st_hash *h, bool good)
{
    if (good && !st_sync(fd)) good = rt_job_fails(j, "fsync", w->name);
    if (close(fd) && good) good = rt_job_fails(j, "close", w->name);
    st_hash_end(h, w->hash);
    return good;
}

static int create(struct rt_job *j, struct rt_written *w, struct st_hash *h, const char *name)
{
    w->name = name;
    st_hash_begin(h);
    int fd = openat(j->at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) rt_job_fails(j, "cannot be made", name);
    return fd;
}

/* The bytes of a tensor; outside of objects nothing may hold all of them, then until they have been used. */
#ifdef STEPC_IN_OBJECT
static inline const char *bytes_of(struct rt_job *, const struct st_tensor *, char **) __attribute__((returns_nonnull));
#endif
static inline const char *bytes_of(struct rt_job *j, const struct st_tensor *t, char **own)
{
    *own = NULL;
#ifndef STEPC_IN_OBJECT
    if (j->fetch) {
        const struct st_tensor *whole = t;
        const struct rt_piece *p = NULL;
        for (uint32_t i = 0; j->pieces && !p && i < j->count; i++)
            if (j->in_order[i] == t) p = &j->pieces[i], whole = p->whole;
        errno = ENOMEM;
        if (!(*own = malloc(whole->bytes + 1))) return rt_job_fails(j, "tensor", t->name), NULL;
        if ((j->status = j->fetch(j->user, (uint32_t)(whole - j->slots), *own, j->error))) return NULL;
        return *own + (t->offset - whole->offset);
    }
#endif
    uint64_t at = t->offset & ~RT_IN_STATE;
    return (at == t->offset ? j->data : j->lent) + at;
}

/* Bytes of a tensor in the file. */
static uint64_t stored(const struct rt_job *j, uint32_t i)
{
    return j->packed && j->packed[i].stored ? j->packed[i].stored : j->tensors[i].bytes;
}

/* As the file describes them: what is compressed is a row of bytes. false: errno says why. */
static bool add_header(const struct rt_job *j, const struct rt_written *w, struct st_text *header)
{
    const struct st_tensor *plain = j->tensors + w->begin;
    uint32_t count = w->end - w->begin;
    struct st_tensor *own = j->packed ? malloc((count + 1) * sizeof *own) : NULL;
    if (j->packed && !own) return errno = ENOMEM, false;
    for (uint32_t i = 0; own && i < count; i++) {
        own[i] = plain[i];
        if (!j->packed[w->begin + i].stored) continue;
        own[i].dtype = STEP_U8, own[i].rank = 1;
        own[i].bytes = j->packed[w->begin + i].stored, own[i].shape[0] = (int64_t)own[i].bytes;
    }
    bool good = st_header(header, own ? own : plain, count, j->step);
    free(own);
    return good;
}

static bool write_item(struct rt_job *j, struct rt_written *w)
{
    struct st_text header = {0};
    struct st_hash h, piece;
    char digits[ST_SUM_SIZE + 1], *own;
    const char *data;
    const size_t behind = ST_SUM_DIGITS + ST_SUM_SIZE;
    if (!add_header(j, w, &header)) {
        rt_job_fails(j, "header", w->name);
        free(header.at);
        return false;
    }
    uint32_t sum = st_crc32(0, header.at + behind, header.length - behind);
    bool good = true;
    for (uint32_t i = w->begin; good && i < w->end; i++) {
        if ((good = (data = bytes_of(j, &j->tensors[i], &own)) != NULL)) sum = st_crc32(sum, data, stored(j, i));
        free(own);
    }
    snprintf(digits, sizeof digits, "%08" PRIx32, sum);
    memcpy(header.at + ST_SUM_DIGITS, digits, ST_SUM_SIZE);
    int fd = good ? create(j, w, &h, w->name) : -1;
    good = fd >= 0 && write_part(j, fd, w, &h, header.at, header.length);
    for (uint32_t i = w->begin; good && i < w->end; i++) {
        const struct st_tensor *t = &j->tensors[i];
        good = (data = bytes_of(j, t, &own)) != NULL;
        st_hash_begin(&piece);
        for (uint64_t at = 0, n, end = stored(j, i); good && at < end; at += n) {
            n = end - at < CHUNK ? end - at : CHUNK;
            st_hash_add(&piece, data + at, n);
            good = write_part(j, fd, w, &h, data + at, n);
        }
        st_hash_end(&piece, j->hashes[i]);
        free(own);
    }
    free(header.at);
    return fd >= 0 && finish(j, fd, w, &h, good);
}

static bool write_documents(struct rt_job *j)
{
    const char *name = j->documents.at;
    if (!j->document_count) return true;
    if (st_call(mkdirat, j->at, "items", 0777)) return rt_job_fails(j, "mkdir", "items");
    for (uint32_t i = 0; i < j->document_count; i++) {
        const char *text = name + strlen(name) + 1;
        struct rt_written *w = &j->files[j->file_count++];
        struct st_hash h;
        int fd = create(j, w, &h, name);
        if (fd < 0 || !finish(j, fd, w, &h, write_part(j, fd, w, &h, text, strlen(text)))) return false;
        name = text + strlen(text) + 1;
    }
    int fd = rt_open_folder(j->at, "items");
    bool good = fd >= 0 && st_sync(fd);
    if (!good) rt_job_fails(j, "fsync", "items");
    if (fd >= 0) close(fd);
    return good;
}

static void add_extents(struct st_text *m, const char *key, const int64_t *extents, int32_t rank)
{
    st_add(m, ",\"%s\":[", key);
    for (int32_t k = 0; k < rank; k++) st_add(m, "%s%" PRId64, k ? "," : "", extents ? extents[k] : 0);
    st_add(m, "]");
}

static void add_slots(struct rt_job *j, struct st_text *m)
{
    struct st_hash h; /* says whether two models have the same state */
    char sum[ST_HASH];
    st_hash_begin(&h);
    st_add(m, ",\"slots\":{");
    for (uint32_t i = 0; i < j->count; i++) {
        const struct st_tensor *t = j->in_order[i];
        const struct rt_piece *p = j->pieces ? &j->pieces[i] : NULL;
        const struct st_tensor *whole = p ? p->whole : t;
        uint32_t item = 0;
        while (whole - j->slots >= j->end[item + 1]) item++;
        if (!p || !i || p[-1].whole != whole) {
            st_add(m, i ? "]}," : "");
            size_t begin = m->length;
            st_add_quoted(m, whole->name);
            st_add(m, ":{\"role\":\"%s\",\"dtype\":\"%s\"", roles[item], rt_dtype_name(t->dtype));
            add_extents(m, "shape", whole->shape, t->rank);
            if (!m->lacking) st_hash_add(&h, m->at + begin, m->length - begin);
            st_add(m, whole->trained ? ",\"trained\":true,\"pieces\":[" : ",\"pieces\":[");
        } else st_add(m, ",");
        st_add(m, "{\"file\":\"%s\",\"key\":", p ? p->name : rt_item_files[item]);
        st_add_quoted(m, t->name);
        add_extents(m, "start", p ? p->start : NULL, t->rank);
        add_extents(m, "shape", t->shape, t->rank);
        const struct rt_packed *packed = j->packed ? &j->packed[t - j->tensors] : NULL;
        if (packed && packed->stored)
            st_add(m, ",\"stored\":%" PRIu64 ",\"chunked\":%" PRIu64, packed->stored, packed->chunked);
        st_add(m, ",\"hash\":\"%s\"}", j->hashes[t - j->tensors]);
    }
    st_add(m, j->count ? "]}" : "");
    st_hash_end(&h, sum);
    st_add(m, "},\"model\":{\"name\":");
    st_add_quoted(m, j->program->name ? j->program->name : "");
    st_add(m, ",\"state\":\"%s\"}", sum);
}

static bool is_packed(const struct rt_job *j)
{
    for (uint32_t i = 0; j->packed && i < j->count; i++)
        if (j->packed[i].stored) return true;
    return false;
}

static bool write_manifest(struct rt_job *j)
{
    struct st_text m = {0};
    struct st_hash h;
    struct rt_written *w = &j->files[j->file_count]; /* behind those that it lists */
    struct tm tm;
    struct timespec now;
    char sum[ST_HASH];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    qsort(j->files, j->file_count, sizeof *j->files, st_by_name);
    st_add(&m,
           "{\"stepc_checkpoint\":%d,\"step\":%" PRIu64
           ",\"created\":\"%04d-%02d-%02dT%02d:%02d:%02dZ\",\"seconds\":%lld",
           is_packed(j) ? ST_CHECKPOINT_PACKED : ST_CHECKPOINT, j->step, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
           tm.tm_hour, tm.tm_min, tm.tm_sec, (long long)now.tv_sec);
    st_add(&m, ",\"producer\":\"stepc " STEPC_VERSION "\",\"hash\":\"xxh3-128\"%s,\"files\":{",
           is_packed(j) ? ",\"compression\":\"zstd\"" : "");
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
    int fd = st_fits(&m, ST_MANIFEST_BYTES) ? create(j, w, &h, ST_MANIFEST)
                                            : (rt_job_fails(j, "manifest", ST_MANIFEST), -1);
    bool good = fd >= 0 && finish(j, fd, w, &h, write_part(j, fd, w, &h, m.at, m.length));
    free(m.at);
    return good;
}

/* A link for people; what is there and no link stays. */
static void point_latest(const struct rt_job *j)
{
    struct stat s;
    char name[NAME];
    if (!st_call(newfstatat, j->parent, "latest", &s, AT_SYMLINK_NOFOLLOW) && !S_ISLNK(s.st_mode)) return;
    rt_new_name(name, "tmp", j->step, 50);
    if (st_call(symlinkat, j->target, j->parent, name)) return;
    if (!rt_move(j->parent, name, "latest", 0)) st_call(unlinkat, j->parent, name, 0);
}

/* Whether all is there that was written, the manifest too: others than stepc remove files while the directory has no
 * name yet. */
static bool is_there(struct rt_job *j)
{
    struct stat s;
    for (const struct rt_written *w = j->files; w <= j->files + j->file_count; w++)
        if (st_call(newfstatat, j->at, w->name, &s, AT_SYMLINK_NOFOLLOW) || (uint64_t)s.st_size != w->bytes)
            return errno = ENOENT, rt_job_fails(j, "was removed by others", w->name);
    return true;
}

static bool commit(struct rt_job *j)
{
    if (!is_there(j)) return false;
    if (!st_sync(j->at)) return rt_job_fails(j, "fsync", j->name);
    /* never over another one: where the system cannot promise it, a directory that is not empty is in the way too */
    enum { NOREPLACE = 1 };
    if (!rt_move(j->parent, j->name, j->target, NOREPLACE) &&
        (errno != EINVAL || !rt_move(j->parent, j->name, j->target, 0)))
        return rt_job_fails(j, errno == EEXIST || errno == ENOTEMPTY ? "exists already" : "rename", j->target);
    memcpy(j->name, j->target, sizeof j->name);
    if (!st_sync(j->parent)) return rt_job_fails(j, "fsync", "");
    point_latest(j);
    return true;
}

void rt_end_job(struct rt_job *j, bool good)
{
    if (!j->rank && !good && strcmp(j->name, j->target) != 0) {
        rt_empty_folder(j->at, false, false);
        st_call(unlinkat, j->parent, j->name, AT_REMOVEDIR);
    }
    close(j->at); /* what is not open is -1 */
    close(j->parent);
    close(j->lock);
}

void *rt_write_job(void *user)
{
    struct rt_job *j = user;
    if (j->lent) j->program->lending->copy(j);
    bool good = !j->flags || j->program->compression->pack(j);
    for (uint32_t i = 0, files = j->file_count; good && i < files; i++)
        if (j->files[i].writer == j->rank) good = write_item(j, &j->files[i]);
    if (j->peers) good = j->several->meet(j, good);
    if (!j->rank) {
        good = good && write_documents(j) && write_manifest(j) && sync_above(j) && commit(j);
        if (good && j->keep) j->program->checkpoint->retention->run(j->parent, j->keep, &j->removed);
        st_remove_forsaken(j->parent);
    }
    rt_end_job(j, good);
    j->ns = rt_now() - j->begin_ns;
    atomic_store(&j->done, 1);
    st_call(futex, (uint32_t *)&j->done, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    rt_drop_job(j);
    return NULL;
}
