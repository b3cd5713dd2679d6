/* Checkpoint directories as they are read: the manifest, the files that it names, the pieces of tensors in them. What
 * is not as the manifest says is damaged; nothing is allocated that the files do not justify. */
#include "runtime/header_scan.h"
#include "runtime/rt.h"
#include <stepc/step_tools.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KEPT_OPEN = 256, CHUNK = 1 << 18, DEPTH = 16, PIECES = 1 << 14 };
/* The least text of a file, a tensor and a piece, and the end of a manifest. */
enum {
    LEAST_MEMBER = sizeof "\"\":{\"bytes\":0,\"hash\":\"\"}" - 1,
    LEAST_PIECE = sizeof "{\"file\":\"\",\"key\":\"\",\"start\":[],\"shape\":[],\"hash\":\"\"}" - 1,
    LEAST_SLOT = sizeof "\"\":{\"role\":\"\",\"dtype\":\"\",\"shape\":[],\"pieces\":[]}" - 1,
};
#define SELF "\"self\":\""
enum { SELF_BYTES = sizeof SELF - 1 + ST_HASH - 1 + 2 };

struct reader {
    struct st_checkpoint *c;
    struct rt_scan scan;
    char *error;
    bool text_fits; /* the manifest's own checksum */
};

static step_status damaged(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static step_status damaged(struct reader *r, const char *format, ...)
{
    va_list args;
    int n = snprintf(r->error, ST_TEXT, "%s: ", r->c->all.path);
    va_start(args, format);
    if (n > 0 && n < ST_TEXT) vsnprintf(r->error + n, ST_TEXT - (size_t)n, format, args);
    va_end(args);
    return STEP_ECORRUPT;
}

static step_status no_memory(struct reader *r)
{
    damaged(r, "out of memory");
    return STEP_ENOMEM;
}

static step_status wrong(struct reader *r, const char *what)
{
    return damaged(r, ST_MANIFEST ", byte %td: %s", r->scan.at - r->c->all.text, r->scan.fault ? r->scan.fault : what);
}

/* [2,3]; the rank, -1: none. */
static int32_t read_extents(struct rt_scan *s, int64_t out[8])
{
    int32_t rank = 0;
    if (!scan_open(s, '[')) return -1;
    while (scan_more(s, ']')) {
        uint64_t n;
        if (rank == 8 || !scan_whole(s, &n)) return -1;
        out[rank++] = (int64_t)n;
    }
    return s->fault ? -1 : rank;
}

/* ---------------------------------------------------------------- files */

/* Names that the protocol makes: a file, or one in items. */
static bool is_safe(const char *name)
{
    const char *at = strncmp(name, "items/", 6) == 0 ? name + 6 : name;
    if (!*at || *at == '.') return false;
    while (*at && *at != '/') at++;
    return !*at;
}

static step_status read_member(struct reader *r, const char *name)
{
    struct st_member *m = &r->c->members[r->c->member_count];
    bool bytes = false;
    *m = (struct st_member){.name = name, .file = {.fd = -1}};
    if (!is_safe(name) || (r->c->member_count && strcmp(m[-1].name, name) >= 0)) return wrong(r, "name of a file");
    r->c->member_count++;
    scan_open(&r->scan, '{');
    while (scan_more(&r->scan, '}')) {
        const char *key = scan_key(&r->scan);
        if (!key) break;
        if (strcmp(key, "bytes") == 0) bytes = scan_whole(&r->scan, &m->bytes);
        else if (strcmp(key, "hash") == 0) m->hash = scan_string(&r->scan);
        else if (!scan_skip(&r->scan, DEPTH)) break;
    }
    return r->scan.fault || !bytes || !m->hash ? wrong(r, "bytes, hash of a file") : STEP_OK;
}

/* ---------------------------------------------------------------- slots */

static step_status read_piece(struct reader *r)
{
    struct st_piece *p = &r->c->pieces[r->c->piece_count++];
    int32_t start = -1, shape = -1;
    const char *file = NULL;
    *p = (struct st_piece){.tensor = r->c->all.count - 1};
    scan_open(&r->scan, '{');
    while (scan_more(&r->scan, '}')) {
        const char *key = scan_key(&r->scan);
        if (!key) break;
        if (strcmp(key, "file") == 0) file = scan_string(&r->scan);
        else if (strcmp(key, "key") == 0) p->key = scan_string(&r->scan);
        else if (strcmp(key, "hash") == 0) p->hash = scan_string(&r->scan);
        else if (strcmp(key, "stored") == 0) scan_whole(&r->scan, &p->stored);
        else if (strcmp(key, "chunked") == 0) scan_whole(&r->scan, &p->chunked);
        else if (strcmp(key, "start") == 0) start = read_extents(&r->scan, p->start);
        else if (strcmp(key, "shape") == 0) shape = read_extents(&r->scan, p->shape);
        else if (!scan_skip(&r->scan, DEPTH)) break;
    }
    if (r->scan.fault || !file || !p->key || !p->hash || start < 0 || start != shape)
        return wrong(r, "file, key, start, shape, hash of a piece");
    const struct st_member *m = st_search(r->c->members, r->c->member_count, sizeof *m, file);
    size_t n = strlen(file);
    if (!m || n < 12 || strcmp(file + n - 12, ".safetensors") != 0) return wrong(r, "file of a piece");
    p->member = (uint32_t)(m - r->c->members);
    p->bytes = (uint64_t)start; /* the rank, until it is compared with the tensor's */
    return STEP_OK;
}

static bool overlap(const struct st_piece *a, const struct st_piece *b, int32_t rank)
{
    for (int32_t i = 0; i < rank; i++)
        if (a->start[i] >= b->start[i] + b->shape[i] || b->start[i] >= a->start[i] + a->shape[i]) return false;
    return true;
}

static uint64_t volume(const int64_t *shape, int32_t rank)
{
    uint64_t n = 1;
    for (int32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, (uint64_t)shape[i], &n) || n >> 48) return UINT64_MAX;
    return n;
}

/* The pieces lie within the tensor, apart from each other, and fill it. */
static step_status check_pieces(struct reader *r, const struct st_tensor *t)
{
    struct st_piece *first = &r->c->pieces[t->offset];
    uint64_t count = r->c->piece_count - t->offset, filled = 0, all = volume(t->shape, t->rank);
    if (count > PIECES) all = UINT64_MAX; /* of no tensor */
    for (struct st_piece *p = first; p < first + count && all + 1; p++) {
        bool good = p->bytes == (uint64_t)t->rank;
        for (int32_t i = 0; good && i < t->rank; i++) good = p->start[i] + p->shape[i] <= t->shape[i];
        uint64_t n = volume(p->shape, t->rank);
        for (struct st_piece *q = first; good && n && q < p; q++) good = !overlap(p, q, t->rank);
        if (!good) all = UINT64_MAX;
        filled += n;
        p->bytes = n * rt_dtype_bytes(t->dtype);
        if (p->stored && (p->stored > p->bytes || p->stored < p->bytes / ST_PACKED_MOST)) all = UINT64_MAX;
    }
    return all >> 48 || filled != all
               ? damaged(r, "tensor \"%.200s\": pieces overlap, lie outside or do not fill it", t->name)
               : STEP_OK;
}

static step_status read_slot(struct reader *r, const char *name)
{
    struct st_tensor *t = &r->c->all.tensors[r->c->all.count];
    const char *dtype = NULL;
    bool pieces = false;
    *t = (struct st_tensor){.name = name, .rank = -1, .offset = r->c->piece_count};
    if (r->c->all.count && strcmp(t[-1].name, name) >= 0) return wrong(r, "slots are not in order");
    r->c->all.count++;
    scan_open(&r->scan, '{');
    while (scan_more(&r->scan, '}')) {
        const char *key = scan_key(&r->scan);
        if (!key) break;
        if (strcmp(key, "dtype") == 0) dtype = scan_string(&r->scan);
        else if (strcmp(key, "shape") == 0) t->rank = read_extents(&r->scan, t->shape);
#ifndef STEPC_IN_OBJECT
        else if (strcmp(key, "trained") == 0)
            t->trained = scan_skip(&r->scan, DEPTH) && strncmp(r->scan.at - 4, "true", 4) == 0;
#endif
        else if (!pieces && strcmp(key, "pieces") == 0) {
            pieces = scan_open(&r->scan, '[');
            while (scan_more(&r->scan, ']')) {
                step_status status = read_piece(r);
                if (status) return status;
            }
        } else if (!scan_skip(&r->scan, DEPTH)) break;
    }
    for (uint32_t d = STEP_BOOL; dtype && d <= STEP_F64; d++)
        if (strcmp(rt_dtype_name(d), dtype) == 0) t->dtype = d;
    if (r->scan.fault || !t->dtype || t->rank < 0 || !pieces) return wrong(r, "dtype, shape, pieces");
    step_status status = check_pieces(r, t);
    t->bytes = volume(t->shape, t->rank) * rt_dtype_bytes(t->dtype);
    return status;
}

/* An object of files or of slots. */
static step_status read_table(struct reader *r, step_status (*row)(struct reader *, const char *name))
{
    scan_open(&r->scan, '{');
    while (scan_more(&r->scan, '}')) {
        const char *name = scan_key(&r->scan);
        step_status status = name ? row(r, name) : STEP_ECORRUPT;
        if (status) return name ? status : wrong(r, "");
    }
    return r->scan.fault ? wrong(r, "") : STEP_OK;
}

static step_status read_metric(struct reader *r, const char *name)
{
    double value;
    if (!scan_number(&r->scan, &value)) return wrong(r, "");
    if (r->c->metric_count == ST_METRICS) return wrong(r, "too many metrics");
    r->c->metrics[r->c->metric_count].name = name;
    r->c->metrics[r->c->metric_count++].value = value;
    return STEP_OK;
}

#ifndef STEPC_IN_OBJECT
static step_status read_hyper(struct reader *r, const char *name)
{
    struct st_checkpoint *c = r->c;
    struct st_hyper *more = realloc(c->hypers, (c->hyper_count + 1) * sizeof *more);
    if (!more) return no_memory(r);
    c->hypers = more;
    more[c->hyper_count].name = name;
    return scan_number(&r->scan, &more[c->hyper_count++].value) ? STEP_OK : wrong(r, "");
}

static step_status read_model(struct reader *r, const char *name)
{
    if (strcmp(name, "name") == 0) return (r->c->model = scan_string(&r->scan)) ? STEP_OK : wrong(r, "");
    return scan_skip(&r->scan, DEPTH) ? STEP_OK : wrong(r, "");
}
#endif

/* ---------------------------------------------------------------- the manifest */

static step_status newer(struct reader *r, const char *what)
{
    damaged(r, "%s: of a newer stepc; this one reads version %d with xxh3-128 and zstd", what, ST_CHECKPOINT_PACKED);
    return STEP_EVERSION;
}

static step_status read_manifest(struct reader *r)
{
    bool step = false;
    uint64_t version = 0;
    step_status status = STEP_OK;
    scan_open(&r->scan, '{');
    while (!status && scan_more(&r->scan, '}')) {
        const char *key = scan_key(&r->scan), *text;
        if (!key) break;
        if (!version) {
            if (strcmp(key, "stepc_checkpoint") != 0 || !scan_whole(&r->scan, &version))
                return wrong(r, "expected \"stepc_checkpoint\"");
            if (version != ST_CHECKPOINT && version != ST_CHECKPOINT_PACKED) return newer(r, "its version");
            if (!r->text_fits) return damaged(r, ST_MANIFEST " does not have its checksum");
        } else if (strcmp(key, "step") == 0) {
            if ((step = scan_whole(&r->scan, &r->c->step)))
                for (r->c->all.step = r->scan.at; r->c->all.step[-1] >= '0' && r->c->all.step[-1] <= '9';)
                    r->c->all.step--;
        } else if (strcmp(key, "seconds") == 0) {
            scan_whole(&r->scan, &r->c->created);
        } else if (strcmp(key, "hash") == 0) {
            if ((text = scan_string(&r->scan)) && strcmp(text, "xxh3-128") != 0) return newer(r, "its checksums");
        } else if (strcmp(key, "compression") == 0) {
            if ((text = scan_string(&r->scan)) && strcmp(text, "zstd") != 0) return newer(r, "its compression");
        } else if (strcmp(key, "files") == 0 && !r->c->member_count) status = read_table(r, read_member);
        else if (strcmp(key, "slots") == 0 && !r->c->all.count) status = read_table(r, read_slot);
        else if (strcmp(key, "metrics") == 0) status = read_table(r, read_metric);
#ifndef STEPC_IN_OBJECT
        else if (strcmp(key, "hyperparameters") == 0) status = read_table(r, read_hyper);
        else if (strcmp(key, "model") == 0) status = read_table(r, read_model);
#endif
        else if (!scan_skip(&r->scan, DEPTH)) break;
    }
    if (status) return status;
    return r->scan.fault || !scan_end(&r->scan) || !step ? wrong(r, "expected a step") : STEP_OK;
}

static char *path_in(const struct st_checkpoint *c, const char *name)
{
    size_t room = strlen(c->all.path) + strlen(name) + 2;
    char *path = malloc(room);
    if (path) snprintf(path, room, "%s/%s", c->all.path, name);
    return path;
}

/* The path of a file, which is to be freed, and how many bytes it has; `said`: by the manifest, which is to be true. */
static step_status find_file(struct reader *r, const char *name, const uint64_t *said, char **path, uint64_t *bytes)
{
    struct stat s;
    if (!(*path = path_in(r->c, name))) return no_memory(r);
    if (st_call(newfstatat, AT_FDCWD, *path, &s, 0)) {
        step_status status = errno == ENOENT || errno == ENOTDIR ? STEP_ECORRUPT : STEP_EIO;
        damaged(r, "%s: %s", name, strerror(errno));
        return status;
    }
    *bytes = (uint64_t)s.st_size;
    if (!said || *said == *bytes) return STEP_OK;
    return damaged(r, "%s has %llu bytes, its manifest says %llu", name, (unsigned long long)*bytes,
                   (unsigned long long)*said);
}

/* A whole file, with a zero behind it; NULL and the status. `said`: as find_file has it. */
static char *read_whole(struct reader *r, const char *name, const uint64_t *said, uint64_t *bytes, step_status *status)
{
    char *path, *text = NULL;
    *status = find_file(r, name, said, &path, bytes);
    if (!*status && *bytes > ST_MANIFEST_BYTES)
        *status = damaged(r, "%s: %llu bytes", name, (unsigned long long)*bytes);
    if (!*status && !(text = malloc(*bytes + 1))) *status = no_memory(r);
    if (!*status) {
        struct st_file f = {.path = path, .fd = -1};
        struct st_tensor all = {0};
        *status = st_read(&f, &all, 0, text, *bytes, r->error);
        text[*bytes] = 0;
    }
    free(path);
    if (*status) free(text), text = NULL;
    return text;
}

static bool is_tensors(const struct st_member *m) { return strncmp(m->name, "items/", 6) != 0; }

static step_status open_member(struct reader *r, struct st_member *m)
{
    char *path;
    uint64_t bytes;
    step_status status = find_file(r, m->name, &m->bytes, &path, &bytes);
    if (!status && is_tensors(m)) status = st_open_file(&m->file, path, false, r->error);
    if (status || !is_tensors(m)) free(path), m->file = (struct st_file){.fd = -1}; /* else the file has the path */
    else if (r->c->member_count > KEPT_OPEN) { /* of so many the process may not hold all, and each is opened again */
        close(m->file.fd);
        m->file.fd = -1;
    }
    return status;
}

static step_status find_pieces(struct reader *r)
{
    for (uint32_t i = 0; i < r->c->piece_count; i++) {
        struct st_piece *p = &r->c->pieces[i];
        const struct st_tensor *t = &r->c->all.tensors[p->tensor];
        const struct st_member *m = &r->c->members[p->member];
        const struct st_tensor *found = st_find(&m->file, p->key);
        bool same = found && found->dtype == (p->stored ? STEP_U8 : t->dtype) &&
                    (p->stored ? found->bytes == p->stored : found->rank == t->rank);
        for (int32_t k = 0; same && !p->stored && k < t->rank; k++) same = found->shape[k] == p->shape[k];
        if (!same) return damaged(r, "%s: tensor \"%.200s\" is not there as its manifest says", m->name, p->key);
        p->offset = found->offset;
    }
    return STEP_OK;
}

step_status st_checkpoint_open(struct st_checkpoint *c, const char *path, bool files, char error[ST_TEXT])
{
    struct reader r = {.c = c, .error = error};
    struct st_hash h;
    char sum[ST_HASH];
    uint64_t n = 0;
    step_status status;
    memset(c, 0, sizeof *c);
    c->all = (struct st_file){.path = path, .fd = -1};
#ifndef STEPC_IN_OBJECT
    c->compression = &stepc_part_compression;
    c->environment = true;
#endif
    if (!(c->all.text = read_whole(&r, ST_MANIFEST, NULL, &n, &status))) return status;
    if (n > SELF_BYTES && strncmp(c->all.text + n - SELF_BYTES, SELF, sizeof SELF - 1) == 0) {
        st_hash_begin(&h);
        st_hash_add(&h, c->all.text, n - SELF_BYTES);
        st_hash_end(&h, sum);
        r.text_fits = strncmp(c->all.text + n - ST_HASH - 1, sum, ST_HASH - 1) == 0;
    }
    r.scan = (struct rt_scan){.at = c->all.text, .end = c->all.text + n};
    c->members = malloc((n / LEAST_MEMBER + 1) * sizeof *c->members);
    c->all.tensors = malloc((n / LEAST_SLOT + 1) * sizeof *c->all.tensors);
    c->pieces = malloc((n / LEAST_PIECE + 1) * sizeof *c->pieces);
    status = c->members && c->all.tensors && c->pieces ? read_manifest(&r) : no_memory(&r);
    for (uint32_t i = 0; files && !status && i < c->member_count; i++) status = open_member(&r, &c->members[i]);
    if (files && !status) status = find_pieces(&r);
    if (status) st_checkpoint_close(c);
    return status;
}

void st_checkpoint_close(struct st_checkpoint *c)
{
    for (uint32_t i = 0; i < c->member_count; i++) {
        struct st_file *f = &c->members[i].file;
        if (!f->path) continue;
        char *path = (char *)(uintptr_t)f->path;
        st_close(f);
        free(path);
    }
    free(c->members);
    free(c->pieces);
#ifndef STEPC_IN_OBJECT
    free(c->hypers);
#endif
    st_close(&c->all);
    *c = (struct st_checkpoint){.all = {.path = c->all.path, .fd = -1}};
}

/* ---------------------------------------------------------------- data */

static step_status compare(struct reader *r, struct st_hash *h, const char *expected, const struct st_member *m,
                           const struct st_piece *p)
{
    char sum[ST_HASH];
    st_hash_end(h, sum);
    if (strcmp(sum, expected) == 0) return STEP_OK;
    if (!p) return damaged(r, "%s is damaged: checksum %.32s expected, %s found", m->name, expected, sum);
    return damaged(r, "%s is damaged: \"%.200s\", bytes %llu to %llu: checksum %.32s expected, %s found", m->name,
                   p->key, (unsigned long long)p->offset,
                   (unsigned long long)(p->offset + (p->stored ? p->stored : p->bytes)), expected, sum);
}

/* Bytes of a file, to `to` or, NULL, to nowhere; `h`: NULL or what adds them up. */
static step_status read_bytes(const struct st_file *f, uint64_t offset, uint64_t bytes, char *to, struct st_hash *h,
                              char error[ST_TEXT])
{
    struct st_tensor at = {.offset = offset};
    char *own = to ? NULL : malloc(CHUNK);
    step_status status = to || own ? STEP_OK : STEP_ENOMEM;
    if (status) snprintf(error, ST_TEXT, "%s: out of memory", f->path);
    for (uint64_t done = 0, n; !status && done < bytes; done += n) {
        n = bytes - done < CHUNK ? bytes - done : CHUNK;
        char *into = to ? to + done : own;
        status = st_read(f, &at, done, into, n, error);
        if (h && !status) st_hash_add(h, into, n);
    }
    free(own);
    return status;
}

step_status st_checkpoint_piece(const struct st_checkpoint *c, const struct st_piece *p, void *to, bool verify,
                                char error[ST_TEXT])
{
    struct reader r = {.c = (struct st_checkpoint *)(uintptr_t)c, .error = error};
    const struct st_member *m = &c->members[p->member];
    struct st_hash h;
    char *stored = NULL;
    if (to && p->stored && !c->compression) {
        damaged(&r, "it is compressed; object compiled --without compression");
        return STEP_EUNSUPPORTED;
    }
    if (to && p->stored && !(stored = malloc(p->stored))) return no_memory(&r);
    st_hash_begin(&h);
    step_status status = read_bytes(&m->file, p->offset, p->stored ? p->stored : p->bytes, stored ? stored : to,
                                    verify ? &h : NULL, error);
    if (!status && verify) status = compare(&r, &h, p->hash, m, p);
    if (!status && stored) status = c->compression->unpack(c, p, stored, to, error);
    free(stored);
    return status;
}

step_status st_checkpoint_read(const struct st_checkpoint *c, const struct st_tensor *t, void *to, bool verify,
                               char error[ST_TEXT])
{
    struct reader r = {.c = (struct st_checkpoint *)(uintptr_t)c, .error = error};
    uint32_t index = (uint32_t)(t - c->all.tensors);
    size_t item = rt_dtype_bytes(t->dtype);
    int64_t stride[8], own[8];
    rt_c_strides(stride, t->shape, t->rank, item);
    for (uint64_t i = t->offset; i < c->piece_count && c->pieces[i].tensor == index; i++) {
        const struct st_piece *p = &c->pieces[i];
        bool whole = p->bytes == t->bytes;
        char *into = whole ? to : malloc(p->bytes + 1), *at = to;
        if (!into) return no_memory(&r);
        step_status status = st_checkpoint_piece(c, p, into, verify, error);
        rt_c_strides(own, p->shape, t->rank, item);
        for (int32_t k = 0; k < t->rank; k++) at += p->start[k] * stride[k];
        if (!status && !whole) rt_copy(at, stride, into, own, p->shape, t->rank, item);
        if (!whole) free(into);
        if (status) return status;
    }
    return STEP_OK;
}

step_status st_checkpoint_verify(const struct st_checkpoint *c, const struct st_member *m, char error[ST_TEXT])
{
    struct reader r = {.c = (struct st_checkpoint *)(uintptr_t)c, .error = error};
    struct st_hash h;
    char *path;
    uint64_t bytes;
    st_hash_begin(&h);
    step_status status = find_file(&r, m->name, &m->bytes, &path, &bytes);
    struct st_file f = {.path = path, .fd = -1};
    if (!status) status = read_bytes(&f, 0, bytes, NULL, &h, error);
    free(path);
    return status ? status : compare(&r, &h, m->hash, m, NULL);
}

char *st_checkpoint_item(const struct st_checkpoint *c, const struct st_member *m, step_status *status,
                         char error[ST_TEXT])
{
    struct reader r = {.c = (struct st_checkpoint *)(uintptr_t)c, .error = error};
    struct st_hash h;
    uint64_t n = 0;
    char *text = read_whole(&r, m->name, &m->bytes, &n, status);
    if (!text) return NULL;
    st_hash_begin(&h);
    st_hash_add(&h, text, n);
    if ((*status = compare(&r, &h, m->hash, m, NULL))) free(text), text = NULL;
    return text;
}

/* ---------------------------------------------------------------- run directories */

bool st_is_checkpoint(const char *path)
{
    struct stat s;
    struct st_checkpoint c = {.all.path = path};
    char *manifest = path_in(&c, ST_MANIFEST);
    bool there = manifest && st_call(newfstatat, AT_FDCWD, manifest, &s, 0) == 0;
    free(manifest);
    return there;
}

static int highest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

step_status st_steps(const char *path, uint64_t **steps, uint32_t *count, char error[ST_TEXT])
{
    DIR *folder = rt_list(AT_FDCWD, path);
    size_t room = 0;
    *count = 0;
    *steps = NULL;
    for (const struct dirent *e; folder && (errno = 0, e = readdir(folder));) {
        uint64_t step = 0;
        const char *at = e->d_name + 5;
        if (strncmp(e->d_name, "step-", 5) != 0 || (*at == '0' && at[1])) continue;
        while (*at >= '0' && *at <= '9' && step < UINT64_MAX / 10 - 1) step = step * 10 + (uint64_t)(*at++ - '0');
        if (*at || at == e->d_name + 5) continue;
        if (*count == room) {
            uint64_t *more = realloc(*steps, (room = 2 * room + 16) * sizeof **steps);
            if (!more) break;
            *steps = more;
        }
        (*steps)[(*count)++] = step;
    }
    int why = errno; /* of readdir: what it has not shown may be the newest */
    if (folder) closedir(folder);
    if (why) {
        free(*steps);
        *steps = NULL;
        *count = 0;
        snprintf(error, ST_TEXT, "%s: %s", path, strerror(why));
        return why == ENOMEM ? STEP_ENOMEM : STEP_EIO;
    }
    if (*count) qsort(*steps, *count, sizeof **steps, highest_first);
    return STEP_OK;
}
