/* Checkpoints in pieces: every process saves what its devices hold into files of its own, and reads what they need; and
 * no file is larger than a bound. An object has this if it has a mesh or if its state passes the bound.
 *
 * Who writes what follows from the tables alone, so every process knows it: a part that several hold is written by the
 * one of them that has the least to write so far. They meet in the temporary directory, not by messages, because the
 * step goes on meanwhile: who has written and synced its files leaves a note of their checksums beside them; the first
 * process waits for all notes, writes the manifest and gives the directory its name; the others look for that. A
 * process that holds its lock no more, or under whose hands nothing has grown for as long as one waits for a rank, is
 * gone: then nothing gets a name, and all say so. */
#include "runtime/directory.h"
#include "runtime/load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = RT_ITEMS, CHUNK = 1 << 20, FEW = 4096, NOTE = 40, PAUSE_NS = 5000000, LOOK_NS = 500000000 };
enum { BYTES_DIGITS = 20, HASH_DIGITS = ST_HASH - 1, TENSOR_DIGITS = HASH_DIGITS + 2 * BYTES_DIGITS };

/* ---------------------------------------------------------------- who writes what */

struct layout {
    const struct step_instance *t; /* NULL: one process, without an instance */
    struct rt_job *j;
    uint64_t bound, *load, *filled;  /* load: by writer; filled: of the last file, by item and writer */
    uint32_t *chunks, writers, room; /* files, by item and writer */
    struct st_text keys;
    bool lacking;
};

static bool file_bound(struct rt_job *j, uint32_t flags)
{
    const char *given = flags & STEP_NO_ENV ? NULL : getenv("STEPC_FILE_BYTES"), *at = given;
    uint64_t n = 0;
    while (at && *at >= '0' && *at <= '9' && n < UINT64_C(1) << 59) n = n * 10 + (uint64_t)(*at++ - '0');
    j->bound = given && *given ? n : STEPC_FILE_BYTES;
    if (j->bound && !(at && *at)) return true;
    j->status = STEP_EINVAL;
    snprintf(j->error, sizeof j->error, "STEPC_FILE_BYTES=%s: expected a number of bytes above 0", given);
    return false;
}

static uint32_t axes_of(const struct stepc_slot *s)
{
    uint32_t used = 0;
    for (int32_t i = 0; s->axes && i < s->rank; i++)
        for (uint32_t axes = s->axes[i]; axes; axes >>= 4) used |= 1u << ((axes & 15) - 1);
    return used;
}

/* Of the devices that hold the same as this one, which is the first of them, the one whose writer has least to do. */
static uint32_t least(const struct layout *l, const struct stepc_slot *s, uint32_t device)
{
    const struct stepc_program *p = l->t->program;
    uint32_t used = axes_of(s), best = device, local = l->t->local_count;
    for (uint32_t replica = 0;; replica++) {
        uint32_t at = device, scale = 1, left = replica;
        for (uint32_t a = p->axis_count; a-- > 0;) {
            uint32_t size = (uint32_t)p->axis_sizes[a];
            if (!(used >> a & 1)) at += left % size * scale, left /= size;
            scale *= size;
        }
        if (left) return best;
        if (l->load[at / local] < l->load[best / local]) best = at;
    }
}

static struct rt_piece *new_piece(struct layout *l)
{
    struct rt_job *j = l->j;
    if (j->count == l->room) {
        struct rt_piece *more = realloc(j->pieces, (l->room = 2 * l->room + 64) * sizeof *more);
        if (!more) return NULL;
        j->pieces = more;
    }
    return &j->pieces[j->count++];
}

/* A box of a tensor, in as many slices along its first dimension as the bound asks for. */
static void add_box(struct layout *l, const struct st_tensor *whole, uint32_t item, uint32_t device,
                    const int64_t *start, const int64_t *extent)
{
    uint32_t writer = l->t ? device / l->t->local_count : 0;
    uint64_t *filled = &l->filled[item * l->writers + writer];
    uint32_t *chunk = &l->chunks[item * l->writers + writer];
    int64_t rows = whole->rank ? extent[0] : 1, row = (int64_t)rt_dtype_bytes(whole->dtype);
    for (int32_t k = 1; k < whole->rank; k++) row *= extent[k];
    int64_t most = row && rows * row > (int64_t)l->bound ? (int64_t)l->bound / row : rows;
    if (most < 1) most = 1;
    for (int64_t at = 0; !at || at < rows; at += most) {
        struct rt_piece *p = new_piece(l);
        if (!p) {
            l->lacking = true;
            return;
        }
        *p = (struct rt_piece){
            .t = *whole, .whole = whole, .device = device, .writer = writer, .item = item, .first = !at};
        bool all = true;
        for (int32_t k = 0; k < whole->rank; k++) {
            p->start[k] = start[k] + (k ? 0 : at);
            p->t.shape[k] = k ? extent[k] : rows - at < most ? rows - at : most;
            all &= p->t.shape[k] == whole->shape[k];
        }
        p->t.bytes = (uint64_t)((whole->rank ? p->t.shape[0] : 1) * row);
        p->key = l->keys.length;
        st_add(&l->keys, "%s", whole->name);
        for (int32_t k = 0; !all && k < whole->rank; k++) st_add(&l->keys, "%c%" PRId64, k ? ',' : '@', p->start[k]);
        st_add(&l->keys, "%c", 0);
        if (!*chunk || (*filled && *filled + p->t.bytes > l->bound)) ++*chunk, *filled = 0;
        p->file = *chunk - 1;
        *filled += p->t.bytes;
        l->load[writer] += p->t.bytes;
    }
}

static void add_tensor(struct layout *l, const struct st_tensor *whole)
{
    static const int64_t zeros[8];
    uint32_t item = 0, before = l->j->count;
    while (whole - l->j->slots >= l->j->end[item + 1]) item++;
    if (l->writers > 1) {
        const struct step_instance *t = l->t;
        const struct stepc_slot *s = &t->program->slots[rt_slot_find(t, whole->name)];
        int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK];
        for (uint32_t d = 0; d < t->mesh_count; d++)
            if (rt_shard_owner(t, d, s) && rt_shard(t, d, s, start, extent))
                add_box(l, whole, item, least(l, s, d), start, extent);
    }
    if (l->j->count == before) add_box(l, whole, item, 0, zeros, whole->shape);
}

static int by_file(const void *a, const void *b)
{
    const struct rt_piece *x = *(struct rt_piece *const *)a, *y = *(struct rt_piece *const *)b;
    return x->file != y->file ? (x->file > y->file) - (x->file < y->file) : strcmp(x->t.name, y->t.name);
}

/* Files by item, writer and number get their names; pieces the number of theirs. */
static bool name_files(struct layout *l)
{
    struct rt_job *j = l->j;
    uint32_t n = 0, cells = ITEMS * l->writers;
    for (uint32_t k = 0; k < cells; k++) n += l->chunks[k];
    j->files = realloc(j->files, (n + j->document_count + 1) * sizeof *j->files + n * NOTE);
    if (!j->files) return false;
    memset(j->files, 0, (n + j->document_count + 1) * sizeof *j->files);
    char *names = (char *)(j->files + n + j->document_count + 1);
    j->file_count = n;
    n = 0;
    for (uint32_t item = 0; item < ITEMS; item++) {
        uint32_t all = 0, first = n, stem = (uint32_t)strcspn(rt_item_files[item], ".");
        for (uint32_t w = 0; w < l->writers; w++) all += l->chunks[item * l->writers + w];
        for (uint32_t w = 0; w < l->writers; w++) {
            uint32_t *chunks = &l->chunks[item * l->writers + w], many = *chunks;
            *chunks = n; /* from here on where its files begin */
            for (; many--; n++, names += NOTE) {
                j->files[n].name = names;
                j->files[n].writer = w;
                if (all == 1) memcpy(names, rt_item_files[item], sizeof *rt_item_files);
                else
                    snprintf(names, NOTE, "%.*s-%05u-of-%05u.safetensors", (int)stem, rt_item_files[item],
                             n - first + 1, all);
            }
        }
    }
    for (struct rt_piece *p = j->pieces; p < j->pieces + j->count; p++) {
        p->t.name = l->keys.at + p->key;
        p->file += l->chunks[p->item * l->writers + p->writer];
    }
    return true;
}

/* Pieces in the order of files, and where the snapshot of mine lies: slices of a box one after the other. */
static bool order(struct layout *l, uint32_t rank, uint64_t *bytes)
{
    struct rt_job *j = l->j;
    struct rt_piece **sorted = malloc((j->count + 1) * sizeof *sorted);
    j->tensors = malloc((j->count + 1) * (sizeof *j->tensors + sizeof *j->in_order + sizeof *j->hashes));
    if (!sorted || !j->tensors) return free(sorted), false;
    j->in_order = (const struct st_tensor **)(j->tensors + j->count + 1);
    j->hashes = (char(*)[ST_HASH])(j->in_order + j->count + 1);
    if (l->writers > 1) *bytes = 0;
    for (uint32_t i = 0; i < j->count; i++) {
        struct rt_piece *p = sorted[i] = &j->pieces[i];
        uint64_t row = p->whole->rank && p->t.shape[0] ? p->t.bytes / (uint64_t)p->t.shape[0] : 0;
        if (l->writers == 1) p->t.offset = p->whole->offset + (uint64_t)p->start[0] * row;
        else if (p->writer == rank) p->t.offset = *bytes, *bytes += p->t.bytes;
    }
    if (j->count) qsort(sorted, j->count, sizeof *sorted, by_file);
    for (uint32_t i = 0; i < j->count; i++) {
        struct rt_piece *p = sorted[i];
        struct rt_written *w = &j->files[p->file];
        if (!w->end) w->begin = i;
        w->end = i + 1;
        p->name = w->name;
        j->tensors[i] = p->t;
        j->in_order[p - j->pieces] = &j->tensors[i];
    }
    free(sorted);
    return true;
}

static void drop(struct rt_job *j)
{
    if (j->pieces) free(j->tensors);
    free(j->pieces);
    free(j->keys);
    free(j->peers);
}

static bool layout(const struct step_instance *t, struct rt_job *j, uint64_t *bytes)
{
    if (!file_bound(j, t ? t->flags : 0)) return false;
    struct layout l = {.t = t, .j = j, .bound = j->bound, .writers = t ? t->ranks : 1};
    bool large = l.writers > 1;
    for (uint32_t i = 0; i < j->file_count; i++) {
        uint64_t n = 0;
        for (uint32_t k = j->files[i].begin; k < j->files[i].end; k++) n += j->tensors[k].bytes;
        large |= n > l.bound;
    }
    if (!large) return true;
    j->drop = drop;
    size_t cells = (size_t)l.writers * ITEMS;
    uint32_t count = j->count;
    l.load = calloc(2 * cells + l.writers, sizeof *l.load);
    l.chunks = calloc(cells, sizeof *l.chunks);
    l.filled = l.load + l.writers;
    l.lacking = !l.load || !l.chunks;
    j->count = 0;
    for (uint32_t i = 0; i < count && !l.lacking; i++) add_tensor(&l, j->in_order[i]);
    j->keys = l.keys.at;
    bool good = !l.lacking && !l.keys.lacking && name_files(&l) && order(&l, t ? t->rank : 0, bytes);
    free(l.load);
    free(l.chunks);
    return good;
}

/* ---------------------------------------------------------------- the snapshot */

static void copy(void *user, uint32_t i)
{
    const struct rt_job *j = user;
    struct step_instance *t = j->instance;
    const struct rt_piece *p = &j->pieces[i];
    const struct stepc_slot *s = &t->program->slots[rt_slot_find(t, p->whole->name)];
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK], stride[RT_MAX_RANK];
    if (!p->first || p->writer != t->rank || !rt_shard(t, p->device, s, start, extent)) return;
    struct rt_device *d = &t->devices[p->device - t->first_local];
    char *to = (char *)(uintptr_t)j->data + p->t.offset;
    rt_c_strides(stride, extent, s->rank, rt_dtype_bytes(s->dtype));
    for (int32_t k = 0; k < s->rank; k++) to -= start[k] * stride[k];
    rt_shard_copy(t, p->device, s, d, rt_slot_address(d, s), to, stride, RT_FROM_DEVICE);
}

/* ---------------------------------------------------------------- processes meet */

static void note_name(char name[NOTE], uint32_t rank, bool over)
{
    snprintf(name, NOTE, ST_MANIFEST "-%05u%s", rank, over ? "" : ".new");
}

/* The directory of the first process; a file in it that is locked as long as this one writes. */
static step_status open_ranks(struct step_instance *t, struct rt_job *j)
{
    struct rt_peer mine = {.pid = t->pid, .bound = j->bound, .flags = j->flags};
    struct utsname about;
    char name[NOTE];
    step_status status = STEP_OK;
    memcpy(mine.name, j->name, sizeof mine.name);
    if (!uname(&about)) snprintf(mine.host, sizeof mine.host, "%.63s", about.nodename);
    if (!(j->peers = malloc(t->ranks * sizeof *j->peers))) status = rt_fail(t, STEP_ENOMEM, "save: out of memory");
    if ((status = rt_agree(t, status))) return status;
    if ((status = t->comm->gather(t, RT_NUMBER, &mine, sizeof mine, j->peers))) return status;
    for (uint32_t k = 1; k < t->ranks; k++) /* all see the same */
        if (j->peers[k].bound != j->peers->bound)
            return rt_fail(t, STEP_EINVAL,
                           "save: STEPC_FILE_BYTES is %" PRIu64 " on rank %u and %" PRIu64
                           " on rank 0: who writes what follows from it",
                           j->peers[k].bound, k, j->peers->bound);
    for (uint32_t k = 1; k < t->ranks; k++)
        if (j->peers[k].flags != j->peers->flags)
            return rt_fail(t, STEP_EINVAL, "save: rank %u asks for other flags than rank 0", k);
    if (t->rank) {
        memcpy(j->name, j->peers->name, sizeof j->name);
        snprintf(j->target, sizeof j->target, "step-%" PRIu64, j->step);
        j->parent = open(j->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        j->at = j->parent < 0 ? -1 : rt_open_folder(j->parent, j->name);
        note_name(name, t->rank, false);
        if (j->at >= 0) j->lock = openat(j->at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (j->lock < 0)
            status = rt_fail(t, STEP_EIO,
                             "save: %s/%s: %s: ranks save into a directory that all of them see and may write to",
                             j->folder, j->name, strerror(errno));
        else st_call(flock, j->lock, LOCK_EX | LOCK_NB);
    }
    return rt_agree(t, status);
}

static bool lost(struct rt_job *j, uint32_t rank, const char *why)
{
    j->status = STEP_EPEER;
    snprintf(j->error, sizeof j->error, "%s/%s: rank %u (host %s, pid %d) %s", j->folder, j->target, rank,
             j->peers[rank].host, j->peers[rank].pid, why);
    return false;
}

static const char GONE[] = "is gone", LATE[] = "has written nothing of its part for too long",
                  UNSAID[] = "did not commit it";

/* Whether files grow; asked again and again. */
struct watch {
    uint64_t bytes, since, looked;
};

static bool is_late(const struct rt_job *j, struct watch *w)
{
    uint64_t now = rt_now(), bytes = 0, patience = (uint64_t)j->instance->timeout_ns * (j->instance->rank ? 2 : 1);
    struct timespec pause = {0, PAUSE_NS};
    nanosleep(&pause, NULL);
    if (now - w->looked < LOOK_NS) return false;
    w->looked = now;
    DIR *folder = rt_list(j->at, ".");
    struct stat s;
    for (const struct dirent *e; folder && (e = readdir(folder));)
        if (!st_call(newfstatat, j->at, e->d_name, &s, AT_SYMLINK_NOFOLLOW)) bytes += (uint64_t)s.st_size + 1;
    if (folder) closedir(folder);
    if (bytes != w->bytes || !w->since) w->bytes = bytes, w->since = now;
    return patience && now - w->since > patience;
}

/* Of a process on this machine: nobody holds the lock of that file any more. */
static bool unlocked(const struct rt_job *j, uint32_t rank, const char *name)
{
    if (strcmp(j->peers[rank].host, j->peers[j->instance->rank].host) != 0) return false;
    int at = openat(j->at, name, O_RDONLY | O_CLOEXEC);
    bool free_now = at >= 0 && !st_call(flock, at, LOCK_SH | LOCK_NB);
    if (at >= 0) close(at);
    return free_now;
}

/* What a process has to tell the first one: 1, bytes and checksum of every file of its own, each with the checksums of
 * its tensors; or 0 and why not. */
static bool leave_note(struct rt_job *j, bool good)
{
    struct st_text text = {0};
    char from[NOTE], to[NOTE];
    if (good && !st_sync(j->at)) good = rt_job_fails(j, "fsync", j->name);
    st_add(&text, good ? "1" : "0%s", j->error);
    for (const struct rt_written *w = j->files; good && w < j->files + j->file_count; w++) {
        if (w->writer != j->instance->rank) continue;
        st_add(&text, "%0*" PRIu64 "%s", BYTES_DIGITS, w->bytes, w->hash);
        for (uint32_t i = w->begin; i < w->end; i++) {
            struct rt_packed p = j->packed ? j->packed[i] : (struct rt_packed){0};
            st_add(&text, "%s%0*" PRIu64 "%0*" PRIu64, j->hashes[i], BYTES_DIGITS, p.stored, BYTES_DIGITS, p.chunked);
        }
    }
    note_name(from, j->instance->rank, false);
    note_name(to, j->instance->rank, true);
    errno = ENOMEM;
    bool left = !text.lacking && st_put(j->lock, text.at, text.length) && rt_move(j->at, from, to, 0);
    if (!left && good) rt_job_fails(j, "cannot be told", to);
    free(text.at);
    return good && left;
}

static uint64_t take_number(const char **at)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < BYTES_DIGITS; i++) n = n * 10 + (uint64_t)(*(*at)++ - '0');
    return n;
}

static bool take(struct rt_job *j, uint32_t rank, const char *text, uint64_t length)
{
    const char *at = text + (length > 0);
    if (length && *text == '0') return lost(j, rank, at);
    for (struct rt_written *w = j->files; w < j->files + j->file_count; w++) {
        if (w->writer != rank) continue;
        uint64_t lines = w->end - w->begin, needed = BYTES_DIGITS + HASH_DIGITS + lines * TENSOR_DIGITS;
        if ((uint64_t)(text + length - at) < needed) return lost(j, rank, "left half a note");
        w->bytes = take_number(&at);
        snprintf(w->hash, ST_HASH, "%s", at);
        at += HASH_DIGITS;
        for (uint32_t i = w->begin; i < w->end; i++) {
            snprintf(j->hashes[i], ST_HASH, "%s", at);
            at += HASH_DIGITS;
            struct rt_packed p = {.stored = take_number(&at)};
            p.chunked = take_number(&at);
            if (j->packed) j->packed[i] = p;
        }
    }
    return true;
}

static bool hear(struct rt_job *j, uint32_t rank, struct watch *w)
{
    char name[NOTE], early[NOTE], *text = NULL;
    struct stat s;
    struct st_tensor all = {0};
    struct st_file f = {.path = name, .fd = -1};
    note_name(name, rank, true);
    note_name(early, rank, false);
    while ((f.fd = openat(j->at, name, O_RDONLY | O_CLOEXEC)) < 0) {
        bool gone = unlocked(j, rank, early) && (f.fd = openat(j->at, name, O_RDONLY | O_CLOEXEC)) < 0;
        if (gone || (f.fd < 0 && is_late(j, w))) return lost(j, rank, gone ? GONE : LATE);
        if (f.fd >= 0) break;
    }
    bool good = !fstat(f.fd, &s) && (text = malloc((size_t)s.st_size + 1)) &&
                !st_read(&f, &all, 0, text, (uint64_t)s.st_size, j->error);
    if (!good) rt_job_fails(j, "cannot be read", name);
    if (good) text[s.st_size] = 0, good = take(j, rank, text, (uint64_t)s.st_size);
    close(f.fd);
    free(text);
    st_call(unlinkat, j->at, name, 0);
    return good;
}

/* Until the directory has its name, or is no more. */
static bool await(struct rt_job *j)
{
    struct watch w = {0};
    struct stat mine, named;
    for (bool last = false;;) {
        bool there = !fstat(j->at, &mine) && mine.st_nlink;
        if (!st_call(newfstatat, j->parent, j->target, &named, AT_SYMLINK_NOFOLLOW) && there &&
            named.st_ino == mine.st_ino && named.st_dev == mine.st_dev)
            return st_sync(j->parent) ? true : rt_job_fails(j, "fsync", "");
        if (last || !there) return lost(j, 0, last ? GONE : UNSAID);
        last = unlocked(j, 0, ".");
        if (is_late(j, &w)) return lost(j, 0, LATE);
    }
}

static bool meet(struct rt_job *j, bool good)
{
    struct watch w = {0};
    if (!j->peers) return good;
    if (j->instance->rank) return leave_note(j, good) && await(j);
    for (uint32_t k = 1; k < j->instance->ranks && good; k++) good = hear(j, k, &w);
    return good;
}

/* ---------------------------------------------------------------- loading */

struct reading {
    const struct st_file *file;
    int64_t from[RT_MAX_RANK], into[RT_MAX_RANK]; /* strides of the piece in the file, of what is wanted */
    const int64_t *extent;
    int32_t rank;
    uint32_t item;
    char *room, *error; /* CHUNK bytes */
};

/* What lies close together is read at once, and what is between thrown away. */
static step_status read_box(const struct reading *r, int32_t dim, uint64_t offset, char *to)
{
    int64_t span = r->item, used = r->item;
    bool dense = true;
    for (int32_t k = r->rank; k-- > dim; used *= r->extent[k]) {
        dense &= r->extent[k] == 1 || r->into[k] == used;
        span += (r->extent[k] - 1) * r->from[k];
    }
    struct st_tensor at = {.offset = offset};
    if (span == used && dense) return st_read(r->file, &at, 0, to, (uint64_t)span, r->error);
    if (span <= CHUNK && (2 * used >= span || r->extent[r->rank - 1] * r->item < FEW)) {
        step_status status = st_read(r->file, &at, 0, r->room, (uint64_t)span, r->error);
        if (!status) rt_copy(to, r->into + dim, r->room, r->from + dim, r->extent + dim, r->rank - dim, r->item);
        return status;
    }
    step_status status = STEP_OK;
    for (int64_t i = 0; i < r->extent[dim] && !status; i++)
        status = read_box(r, dim + 1, offset + (uint64_t)(i * r->from[dim]), to + i * r->into[dim]);
    return status;
}

/* What of a piece lies in the box; `check`: all of it is compared with its checksum, which needs all of it. */
static step_status read_piece(struct reading *r, const struct st_checkpoint *c, const struct st_piece *p,
                              const int64_t *start, const int64_t *extent, char *to, bool check, bool verify)
{
    int64_t many[RT_MAX_RANK];
    uint64_t offset = p->offset;
    bool some = true, all = true, dense = true;
    int64_t run = r->item;
    rt_c_strides(r->from, p->shape, r->rank, r->item);
    for (int32_t k = r->rank; k-- > 0;) {
        int64_t lo = start[k] > p->start[k] ? start[k] : p->start[k], end = start[k] + extent[k],
                last = p->start[k] + p->shape[k];
        many[k] = (end < last ? end : last) - lo;
        some &= many[k] > 0;
        all &= many[k] == p->shape[k];
        dense &= many[k] == 1 || r->into[k] == run;
        run *= many[k];
        offset += (uint64_t)((lo - p->start[k]) * r->from[k]);
        to += (lo - start[k]) * r->into[k];
    }
    r->extent = many;
    r->file = &c->members[p->member].file;
    if (some && all && dense) return st_checkpoint_piece(c, p, to, verify, r->error);
    if ((verify && (check || (some && all))) || (some && p->stored)) {
        char *own = some ? malloc(p->bytes) : NULL;
        if (some && !own) return snprintf(r->error, ST_TEXT, "out of memory"), STEP_ENOMEM;
        step_status status = st_checkpoint_piece(c, p, own, verify, r->error);
        if (some && !status) rt_copy(to, r->into, own + (offset - p->offset), r->from, many, r->rank, r->item);
        free(own);
        return status;
    }
    return some ? read_box(r, 0, offset, to) : STEP_OK;
}

/* A piece into the parts of all devices of this process that hold something of it, while it is added up: a few rows at
 * a time, which stay in the cache. */
static step_status spread(const struct reading *r, struct step_instance *t, const struct stepc_slot *s,
                          const struct st_checkpoint *c, const struct st_piece *p, bool verify)
{
    int64_t from[RT_MAX_RANK], local[RT_MAX_RANK], start[RT_MAX_RANK], extent[RT_MAX_RANK],
        rows = r->rank ? p->shape[0] : 1;
    uint64_t row = rows ? p->bytes / (uint64_t)rows : 0, most = row ? CHUNK / row : 1;
    uint64_t needed = p->stored ? p->bytes : row; /* what is compressed is read at once */
    char sum[ST_HASH], *room = needed > CHUNK ? malloc(needed) : r->room;
    struct st_tensor at = {.offset = p->offset};
    struct st_hash h;
    if (!room) return snprintf(r->error, ST_TEXT, "out of memory"), STEP_ENOMEM;
    step_status status = p->stored ? st_checkpoint_piece(c, p, room, verify, r->error) : STEP_OK;
    st_hash_begin(&h);
    rt_c_strides(from, p->shape, r->rank, r->item);
    rt_c_strides(local, s->local ? s->local : s->shape, r->rank, r->item);
    for (int64_t done = 0, n; done < rows && row && !status; done += n) {
        n = rows - done < (int64_t)most ? rows - done : most ? (int64_t)most : 1;
        if (!p->stored) {
            status = st_read(&c->members[p->member].file, &at, (uint64_t)done * row, room, (uint64_t)n * row, r->error);
            if (verify && !status) st_hash_add(&h, room, (uint64_t)n * row);
        }
        for (struct rt_device *d = t->devices; !status && d < t->devices + t->local_count; d++) {
            const char *source = p->stored ? room + (uint64_t)done * row : room;
            char *to = rt_slot_address(d, s);
            bool some = rt_shard(t, d->index, s, start, extent);
            for (int32_t k = 0; k < r->rank && some; k++) {
                int64_t begin = p->start[k] + (k ? 0 : done), end = begin + (k ? p->shape[k] : n), lo = start[k],
                        hi = lo + extent[k];
                if (lo < begin) lo = begin;
                if (hi > end) hi = end;
                source += (lo - begin) * from[k];
                to += (lo - start[k]) * local[k];
                extent[k] = hi - lo;
                some = hi > lo;
            }
            if (some) rt_copy(to, local, source, from, extent, r->rank, r->item);
        }
    }
    if (room != r->room) free(room);
    st_hash_end(&h, sum);
    if (status || !verify || p->stored || strcmp(sum, p->hash) == 0) return status;
    status = st_checkpoint_piece(c, p, NULL, true, r->error); /* says what is wrong */
    if (!status) snprintf(r->error, ST_TEXT, "%s: changes while it is read", c->all.path);
    return status ? status : STEP_ECORRUPT;
}

/* This process's part of a tensor. What nobody reads whole one of the processes does, for its checksum. */
step_status rt_pieces_read(struct rt_load_plan *l, uint32_t slot, char *to, char *error)
{
    struct step_instance *t = l->t;
    struct rt_load_item *item = &l->items[slot];
    const struct stepc_slot *s = &t->program->slots[slot];
    const struct st_checkpoint *c = l->checkpoint;
    bool verify = !(l->flags & STEP_LOAD_NO_VERIFY);
    bool direct = to == item->place && t->local_count > 1;
    if (t->ranks == 1 && !direct) return st_checkpoint_read(c, item->source, to, verify, error);
    int64_t start[RT_MAX_RANK], extent[RT_MAX_RANK];
    struct reading r = {.rank = s->rank, .item = rt_dtype_bytes(item->source->dtype), .error = error};
    if (!(r.room = malloc(CHUNK))) return snprintf(error, ST_TEXT, "out of memory"), STEP_ENOMEM;
    t->program->mesh->part(t, s, NULL, start, extent);
    rt_c_strides(r.into, to == item->place && s->local ? s->local : extent, s->rank, r.item);
    item->count = 1;
    for (int32_t k = 0; k < s->rank; k++) item->count *= (uint64_t)extent[k];
    step_status status = STEP_OK;
    uint32_t index = (uint32_t)(item->source - c->all.tensors);
    for (uint64_t i = item->source->offset; i < c->piece_count && c->pieces[i].tensor == index && !status; i++) {
        const struct st_piece *p = &c->pieces[i];
        bool check = rt_slot_sharded(s) && i % t->ranks == t->rank, inside = true;
        for (int32_t k = 0; k < s->rank; k++)
            inside &= p->start[k] >= start[k] && p->start[k] + p->shape[k] <= start[k] + extent[k];
        if (!direct) status = read_piece(&r, c, p, start, extent, to, check, verify);
        else if (inside || (verify && check)) status = spread(&r, t, s, c, p, verify);
        else
            for (struct rt_device *d = t->devices; !status && d < t->devices + t->local_count; d++) {
                int64_t first[RT_MAX_RANK], many[RT_MAX_RANK];
                if (rt_shard(t, d->index, s, first, many))
                    status = read_piece(&r, c, p, first, many, rt_slot_address(d, s), false, false);
            }
    }
    free(r.room);
    return status;
}

static void store_part(struct step_instance *t, const struct stepc_slot *s, char *data)
{
    int64_t start[RT_MAX_RANK] = {0}, extent[RT_MAX_RANK], stride[RT_MAX_RANK];
    for (int32_t k = 0; k < s->rank; k++) extent[k] = s->shape[k];
    if (t->ranks > 1) t->program->mesh->part(t, s, NULL, start, extent);
    rt_c_strides(stride, extent, s->rank, rt_dtype_bytes(s->dtype));
    for (int32_t k = 0; k < s->rank; k++) data -= start[k] * stride[k];
    rt_scatter(t, s, data, stride);
}

const struct rt_pieces rt_pieces = {layout, open_ranks, copy, meet, store_part};
