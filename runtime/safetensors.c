/* safetensors, strict both ways. Layout: 8 bytes header length (little-endian), JSON header, data. On reading
 * everything is checked before a byte of data is used: the header's length and JSON, dtypes, shapes, ranges
 * without holes or overlaps that end exactly at the end of the file. On writing: names in ascending order, data in
 * the same order, the header padded with spaces so that data begins at a multiple of 64 bytes. */
#include "ir/base/json_scan.h"
#include "ir/base/str.h"
#include <stepc/step_tools.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ST_HEADER = 16 << 20, ST_TENSORS = 1000000, ST_NAME = 1024 };

static const struct { char name[8]; uint8_t dtype, bytes; } st_dtypes[] = {
    {"F8_E4M3", STEP_F8E4M3, 1}, {"F8_E5M2", STEP_F8E5M2, 1},
#define X(NAME, text, st, bytes, cls, abi) {st, abi, bytes},
#include "kernels/dtypes.def"
#undef X
};
enum { ST_DTYPES = sizeof st_dtypes / sizeof *st_dtypes };

struct st_check { struct st_file *file; struct json json; char *error; };

static step_status corrupt(struct st_check *c, const char *tensor, const char *format, ...) __attribute__((format(printf, 3, 4)));
static step_status corrupt(struct st_check *c, const char *tensor, const char *format, ...)
{
    char text[ST_TEXT / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (tensor) snprintf(c->error, ST_TEXT, "%s: tensor \"%.200s\": %s", c->file->path, tensor, text);
    else snprintf(c->error, ST_TEXT, "%s: %s", c->file->path, text);
    return STEP_ECORRUPT;
}

static bool read_at(int fd, void *to, uint64_t bytes, uint64_t offset)
{
    char *at = to;
    while (bytes) {
        ssize_t n = pread(fd, at, bytes < (uint64_t)1 << 30 ? bytes : (uint64_t)1 << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = 0; /* the file became shorter */
        if (n <= 0) return false;
        at += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

/* A JSON number that is a whole number in [0, 2^53). */
static bool whole_number(const struct json_value *v, uint64_t *out)
{
    if (v->kind != JSON_NUMBER || !(v->number >= 0) || v->number > 9007199254740991.0) return false;
    *out = (uint64_t)v->number;
    return (double)*out == v->number;
}

static const struct json_value *child(const struct json *j, uint32_t index) { return index ? &j->values[index] : NULL; }

static step_status check_shape(struct st_check *c, struct st_tensor *t, const struct json_value *shape)
{
    if (!shape || shape->kind != JSON_ARRAY) return corrupt(c, t->name, "expected a \"shape\" list");
    if (shape->count > 8) return corrupt(c, t->name, "rank %u; expected at most 8", shape->count);
    for (const struct json_value *v = child(&c->json, shape->first); v; v = child(&c->json, v->next)) {
        uint64_t n;
        if (!whole_number(v, &n)) return corrupt(c, t->name, "shape: expected whole numbers, found %.*s", (int)(v->length < 40 ? v->length : 40), c->json.text + v->offset);
        t->shape[t->rank++] = (int64_t)n;
    }
    return STEP_OK;
}

static step_status check_tensor(struct st_check *c, const struct json_value *v, uint64_t data_bytes, uint64_t data_at, struct st_tensor *t)
{
    const struct json_value *dtype = v->kind == JSON_OBJECT ? json_get(&c->json, v, "dtype") : NULL;
    const struct json_value *shape = v->kind == JSON_OBJECT ? json_get(&c->json, v, "shape") : NULL;
    const struct json_value *range = v->kind == JSON_OBJECT ? json_get(&c->json, v, "data_offsets") : NULL;
    *t = (struct st_tensor){.name = v->key};
    if (strlen(v->key) > ST_NAME) return corrupt(c, v->key, "a name of more than %d bytes", ST_NAME);
    if (v->kind != JSON_OBJECT || v->count != 3) return corrupt(c, v->key, "expected an object of dtype, shape and data_offsets");
    if (!dtype || dtype->kind != JSON_STRING) return corrupt(c, v->key, "expected a \"dtype\" string");
    uint64_t bytes = 0, begin, end;
    for (size_t i = 0; i < ST_DTYPES; i++)
        if (strcmp(st_dtypes[i].name, dtype->string) == 0) t->dtype = st_dtypes[i].dtype, bytes = st_dtypes[i].bytes;
    if (!t->dtype) return corrupt(c, v->key, "unknown dtype \"%.40s\"", dtype->string);
    step_status status = check_shape(c, t, shape);
    if (status) return status;
    for (int32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes) || bytes >> 52) return corrupt(c, v->key, "its size overflows");
    const struct json_value *first = range && range->kind == JSON_ARRAY && range->count == 2 ? child(&c->json, range->first) : NULL;
    if (!first || !whole_number(first, &begin) || !whole_number(child(&c->json, first->next), &end))
        return corrupt(c, v->key, "expected \"data_offsets\" of two whole numbers");
    if (begin > end || end > data_bytes)
        return corrupt(c, v->key, "data_offsets [%" PRIu64 ", %" PRIu64 "] lie outside the %" PRIu64 " bytes of data (truncated file?)", begin, end, data_bytes);
    if (end - begin != bytes)
        return corrupt(c, v->key, "dtype and shape need %" PRIu64 " bytes, data_offsets hold %" PRIu64, bytes, end - begin);
    t->offset = data_at + begin;
    t->bytes = bytes;
    return STEP_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

/* Ranges in order, one after the other, from the beginning of the data to the end of the file. */
static step_status check_ranges(struct st_check *c, uint64_t at, uint64_t file_bytes)
{
    struct st_file *f = c->file;
    if (f->count) qsort(f->tensors, f->count, sizeof *f->tensors, by_offset);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct st_tensor *t = &f->tensors[i];
        if (t->offset != at)
            return corrupt(c, t->name, "its data begin at byte %" PRIu64 " of the file, expected %" PRIu64 " (%s)", t->offset, at,
                           t->offset < at ? "overlaps the tensor before it" : "a hole before it");
        at += t->bytes;
    }
    if (at != file_bytes) return corrupt(c, NULL, "the file has %" PRIu64 " bytes, its header describes %" PRIu64, file_bytes, at);
    if (f->count) qsort(f->tensors, f->count, sizeof *f->tensors, by_name);
    return STEP_OK;
}

static step_status check_metadata(struct st_check *c, const struct json_value *m)
{
    if (m->kind != JSON_OBJECT) return corrupt(c, NULL, "\"__metadata__\" must be an object of strings");
    for (const struct json_value *v = child(&c->json, m->first); v; v = child(&c->json, v->next)) {
        if (v->kind != JSON_STRING) return corrupt(c, NULL, "\"__metadata__\" member \"%.100s\" must be a string", v->key);
        if (strcmp(v->key, "step") == 0) c->file->step = v->string;
    }
    return STEP_OK;
}

static step_status check_header(struct st_check *c, const char *text, uint64_t length, uint64_t file_bytes)
{
    struct json_limits limits = {.bytes = ST_HEADER, .depth = 8, .values = 12 * ST_TENSORS};
    struct json_error e;
    struct st_file *f = c->file;
    if (text[0] != '{') return corrupt(c, NULL, "the header must begin with '{'");
    if (!json_scan(&f->arena, text, length, &limits, &c->json, &e)) return corrupt(c, NULL, "header, byte %u: %s", e.offset + 8, e.message);
    const struct json_value *root = &c->json.values[0];
    if (root->kind != JSON_OBJECT) return corrupt(c, NULL, "the header must be an object");
    if (root->count > ST_TENSORS) return corrupt(c, NULL, "%u tensors; expected at most %d", root->count, ST_TENSORS);
    f->tensors = arena_new_array(&f->arena, struct st_tensor, root->count + 1);
    for (const struct json_value *v = child(&c->json, root->first); v; v = child(&c->json, v->next)) {
        step_status status = strcmp(v->key, "__metadata__") == 0 ? check_metadata(c, v)
                             : check_tensor(c, v, file_bytes - 8 - length, 8 + length, &f->tensors[f->count++]);
        if (status) return status;
    }
    return check_ranges(c, 8 + length, file_bytes);
}

static step_status open_checked(struct st_check *c)
{
    struct st_file *f = c->file;
    struct stat s;
    unsigned char head[8];
    uint64_t length = 0;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &s)) {
        snprintf(c->error, ST_TEXT, "%s: %s", f->path, strerror(errno));
        return STEP_EIO;
    }
    if (!S_ISREG(s.st_mode)) {
        snprintf(c->error, ST_TEXT, "%s: not a regular file", f->path);
        return STEP_EIO;
    }
    uint64_t file_bytes = (uint64_t)s.st_size;
    if (file_bytes < 8) return corrupt(c, NULL, "%" PRIu64 " bytes; a safetensors file begins with 8 bytes of header length", file_bytes);
    bool ok = read_at(f->fd, head, 8, 0);
    for (int i = 0; i < 8; i++) length |= (uint64_t)head[i] << (8 * i);
    if (ok && length > ST_HEADER) return corrupt(c, NULL, "header of %" PRIu64 " bytes; expected at most %d", length, ST_HEADER);
    if (ok && (length < 2 || length > file_bytes - 8))
        return corrupt(c, NULL, "header of %" PRIu64 " bytes in a file of %" PRIu64 " bytes (truncated?)", length, file_bytes);
    char *text = ok ? arena_alloc(&f->arena, length + 1) : NULL;
    if (!ok || !read_at(f->fd, text, length, 8)) {
        snprintf(c->error, ST_TEXT, "%s: read: %s", f->path, errno ? strerror(errno) : "unexpected end of file");
        return STEP_EIO;
    }
    return check_header(c, text, length, file_bytes);
}

step_status st_open(struct st_file *f, const char *path, char error[ST_TEXT])
{
    jmp_buf oom;
    struct st_check c = {.file = f, .error = error};
    *f = (struct st_file){.path = path, .fd = -1};
    step_status status;
    if (setjmp(oom)) {
        snprintf(error, ST_TEXT, "%s: out of memory", path);
        status = STEP_ENOMEM;
    } else {
        f->arena.on_oom = &oom;
        status = open_checked(&c);
    }
    f->arena.on_oom = NULL;
    if (status) st_close(f);
    return status;
}

void st_close(struct st_file *f)
{
    if (f->fd >= 0) close(f->fd);
    arena_free(&f->arena);
    f->fd = -1;
    f->count = 0;
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    struct st_tensor key = {.name = name};
    return f->count ? bsearch(&key, f->tensors, f->count, sizeof *f->tensors, by_name) : NULL;
}

step_status st_read(const struct st_file *f, const struct st_tensor *t, uint64_t offset, void *to, uint64_t bytes, char error[ST_TEXT])
{
    if (read_at(f->fd, to, bytes, t->offset + offset)) return STEP_OK;
    snprintf(error, ST_TEXT, "%s: tensor \"%s\": %s", f->path, t->name, errno ? strerror(errno) : "the file became shorter while it was read");
    return STEP_EIO;
}

/* ---------------------------------------------------------------- writing */

static void write_header(struct str *s, const struct st_tensor *tensors, uint32_t count, uint64_t step)
{
    uint64_t at = 0;
    str_add_n(s, "\0\0\0\0\0\0\0", 8);
    str_addf(s, "{\"__metadata__\":{\"step\":\"%" PRIu64 "\"}", step);
    for (uint32_t i = 0; i < count; i++) {
        const struct st_tensor *t = &tensors[i];
        const char *dtype = "";
        for (size_t k = 0; k < ST_DTYPES; k++)
            if (st_dtypes[k].dtype == t->dtype) dtype = st_dtypes[k].name;
        str_add(s, ",");
        str_add_json(s, t->name);
        str_addf(s, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
        for (int32_t k = 0; k < t->rank; k++) str_addf(s, k ? ",%" PRId64 : "%" PRId64, t->shape[k]);
        str_addf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + t->bytes);
        at += t->bytes;
    }
    str_add(s, "}");
    while (s->length % 64) str_add(s, " ");
    uint64_t length = s->length - 8;
    for (int i = 0; i < 8; i++) s->text[i] = (char)(length >> (8 * i));
}

static step_status write_data(struct st_output *o, const struct st_tensor *tensors, uint32_t count, st_fetch *fetch, void *user, char error[ST_TEXT])
{
    for (uint32_t i = 0; i < count; i++) {
        void *buffer = malloc(tensors[i].bytes ? tensors[i].bytes : 1);
        step_status status = buffer ? fetch(user, i, buffer) : STEP_ENOMEM;
        if (status) snprintf(error, ST_TEXT, "%s: tensor \"%s\": %s", o->path, tensors[i].name, buffer ? "cannot be read" : "out of memory");
        else if (!st_output_write(o, buffer, tensors[i].bytes, error)) status = STEP_EIO;
        free(buffer);
        if (status) return status;
    }
    return STEP_OK;
}

step_status st_write(const char *path, const struct st_tensor *tensors, uint32_t count, uint64_t step, st_fetch *fetch, void *user, char error[ST_TEXT])
{
    struct st_output o;
    struct arena arena = {0};
    jmp_buf oom;
    if (!st_output_open(&o, path, error)) return STEP_EIO;
    step_status status = STEP_ENOMEM;
    if (setjmp(oom) == 0) {
        arena.on_oom = &oom;
        struct str s = STR(&arena);
        write_header(&s, tensors, count, step);
        status = st_output_write(&o, s.text, s.length, error) ? STEP_OK : STEP_EIO;
    } else {
        status = STEP_ENOMEM;
        snprintf(error, ST_TEXT, "%s: out of memory", path);
    }
    arena_free(&arena);
    if (!status) status = write_data(&o, tensors, count, fetch, user, error);
    char ignored[ST_TEXT];
    if (!st_output_close(&o, !status, status ? ignored : error)) status = status ? status : STEP_EIO;
    return status;
}
