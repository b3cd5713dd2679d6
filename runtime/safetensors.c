/* safetensors, strict both ways. Layout: 8 bytes header length (little-endian), JSON header, data. On reading
 * everything is checked before a byte of data is used: the header's length and JSON, dtypes, shapes, ranges
 * without holes or overlaps that end exactly at the end of the file. On writing: names in ascending order, data in
 * the same order, the header padded with spaces so that data begins at a multiple of 64 bytes.
 *
 * What is written begins with a checksum, "stepc.crc32" in "__metadata__": the CRC-32 of all that stands behind its 8
 * hexadecimal digits. Who reads compares it where a file begins like that; files of others do not, and those that went
 * through a pipe have zeros. */
#include "runtime/header_scan.h"
#include <stepc/step_tools.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ST_HEADER = 100000000 }; /* as the reference implementation */

static const struct {
    char name[8];
    uint8_t dtype, bytes;
} st_dtypes[] = {
    {"F8_E4M3", STEP_F8E4M3, 1},
    {"F8_E5M2", STEP_F8E5M2, 1},
#define X(NAME, text, st, bytes, cls, abi) {st, abi, bytes},
#include "kernels/dtypes.def"
#undef X
};
enum { ST_DTYPES = sizeof st_dtypes / sizeof *st_dtypes };

/* The least text of a tensor. */
enum { ST_ENTRY = sizeof "\"\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,0]}" - 1 };
#define ST_SUM "{\"__metadata__\":{\"stepc.crc32\":\"" /* then the digits */
#define ST_ZEROS "00000000"
enum { ST_SUM_AT = sizeof ST_SUM - 1, ST_DIGITS = sizeof ST_ZEROS - 1, ST_BEHIND_SUM = 8 + ST_SUM_AT + ST_DIGITS };
_Static_assert(8 + ST_SUM_AT == (int)ST_SUM_DIGITS && ST_DIGITS == (int)ST_SUM_SIZE,
               "step_tools.h says where the checksum stands");

struct st_check {
    struct st_file *file;
    struct rt_scan scan;
    uint64_t data_at, file_bytes;
    char *error;
};

static step_status corrupt(struct st_check *c, const char *tensor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static step_status corrupt(struct st_check *c, const char *tensor, const char *format, ...)
{
    va_list args;
    int n = snprintf(c->error, ST_TEXT, tensor ? "%s: tensor \"%.200s\": " : "%s: ", c->file->path, tensor);
    va_start(args, format);
    if (n > 0 && n < ST_TEXT) vsnprintf(c->error + n, ST_TEXT - (size_t)n, format, args);
    va_end(args);
    return STEP_ECORRUPT;
}

/* What the scanner found wrong, with its place in the file. */
static step_status syntax(struct st_check *c)
{
    return corrupt(c, NULL, "header, byte %zu: %s", (size_t)(c->scan.at - c->file->text) + 8, c->scan.fault);
}

/* O_NONBLOCK: to open a pipe that lies in the place of a file would wait for its writer. */
static step_status read_at(const struct st_file *f, void *to, uint64_t bytes, uint64_t offset, char *error)
{
    char *at = to;
    int fd = f->fd < 0 ? open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : f->fd;
    step_status status = fd < 0 ? STEP_EIO : STEP_OK;
    while (!status && bytes) {
        ssize_t n = st_call(pread64, fd, at, bytes < (uint64_t)1 << 30 ? bytes : (uint64_t)1 << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = 0; /* the file became shorter */
        if (n <= 0) status = STEP_EIO;
        else at += n, bytes -= (uint64_t)n, offset += (uint64_t)n;
    }
    if (status) snprintf(error, ST_TEXT, "%s: read: %s", f->path, errno ? strerror(errno) : "unexpected end of file");
    if (fd != f->fd) close(fd);
    return status;
}

/* [2, 3]: numbers of at most 8 dimensions. */
static step_status check_shape(struct st_check *c, struct st_tensor *t)
{
    scan_open(&c->scan, '[');
    while (scan_more(&c->scan, ']')) {
        uint64_t n;
        if (t->rank == 8) return corrupt(c, t->name, "more than 8 dimensions");
        if (!scan_whole(&c->scan, &n)) return corrupt(c, t->name, "shape: %s", c->scan.fault);
        t->shape[t->rank++] = (int64_t)n;
    }
    return c->scan.fault ? syntax(c) : STEP_OK;
}

static step_status check_offsets(struct st_check *c, struct st_tensor *t, uint64_t *end)
{
    uint64_t range[3];
    uint32_t n = 0;
    scan_open(&c->scan, '[');
    while (scan_more(&c->scan, ']'))
        if (!scan_whole(&c->scan, &range[n]) || ++n == 3) break;
    if (c->scan.fault || n != 2) return corrupt(c, t->name, "expected \"data_offsets\" of two whole numbers");
    t->offset = range[0];
    *end = range[1];
    return STEP_OK;
}

/* Dtype, shape and range fit each other and the file. */
static step_status check_bytes(struct st_check *c, struct st_tensor *t, uint64_t bytes, uint64_t end)
{
    uint64_t data_bytes = c->file_bytes - c->data_at;
    for (int32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes) || bytes >> 52)
            return corrupt(c, t->name, "its size overflows");
    if (t->offset > end || end > data_bytes)
        return corrupt(c, t->name, "data_offsets [%" PRIu64 ", %" PRIu64 "] lie outside the %" PRIu64 " bytes of data",
                       t->offset, end, data_bytes);
    if (end - t->offset != bytes)
        return corrupt(c, t->name, "dtype and shape need %" PRIu64 " bytes, data_offsets hold %" PRIu64, bytes,
                       end - t->offset);
    t->offset += c->data_at;
    t->bytes = bytes;
    return STEP_OK;
}

static step_status check_tensor(struct st_check *c, const char *name, struct st_tensor *t)
{
    static const char keys[][13] = {"dtype", "shape", "data_offsets"};
    uint64_t bytes = 0, end = 0;
    uint32_t seen = 0;
    step_status status = STEP_OK;
    *t = (struct st_tensor){.name = name};
    if (!scan_open(&c->scan, '{')) return corrupt(c, name, "expected an object of dtype, shape and data_offsets");
    while (!status && scan_more(&c->scan, '}')) {
        const char *key = scan_key(&c->scan), *dtype;
        uint32_t k = 0;
        if (!key) return syntax(c);
        while (k < 3 && strcmp(keys[k], key) != 0) k++;
        if (k == 3 || seen >> k & 1)
            return corrupt(c, name, "\"%.40s\": expected an object of dtype, shape and data_offsets", key);
        seen |= 1u << k;
        if (k == 1) status = check_shape(c, t);
        else if (k == 2) status = check_offsets(c, t, &end);
        else if (!(dtype = scan_string(&c->scan))) status = corrupt(c, name, "expected a \"dtype\" string");
        else {
            for (size_t i = 0; i < ST_DTYPES; i++)
                if (strcmp(st_dtypes[i].name, dtype) == 0) t->dtype = st_dtypes[i].dtype, bytes = st_dtypes[i].bytes;
            if (!t->dtype) status = corrupt(c, name, "unknown dtype \"%.40s\"", dtype);
        }
    }
    if (status) return status;
    if (c->scan.fault) return syntax(c);
    return seen == 7 ? check_bytes(c, t, bytes, end)
                     : corrupt(c, name, "expected an object of dtype, shape and data_offsets");
}

static step_status check_metadata(struct st_check *c)
{
    if (!scan_open(&c->scan, '{')) return corrupt(c, NULL, "\"__metadata__\" must be an object of strings");
    while (scan_more(&c->scan, '}')) {
        const char *key = scan_key(&c->scan);
        char *value = key ? scan_string(&c->scan) : NULL;
        if (key && !value) return corrupt(c, NULL, "\"__metadata__\" must be an object of strings");
        if (key && strcmp(key, "step") == 0) c->file->step = value;
#ifndef STEPC_IN_OBJECT
        if (key && strcmp(key, "stepc.roles") == 0) c->file->roles = value;
#endif
    }
    return c->scan.fault ? syntax(c) : STEP_OK;
}

/* By their names, what of the tensors is no parameter. A name that is not there is one of a tensor that somebody took
 * out. An object knows the roles of its own tensors. */
#ifndef STEPC_IN_OBJECT
static const char *const st_roles[STEP_STATE + 1] = {
    [STEP_PARAM] = "params", [STEP_EMA] = "ema", [STEP_OPT_STATE] = "opt_state", [STEP_STATE] = "state"};

static step_status read_roles(struct st_check *c)
{
    struct st_file *f = c->file;
    struct rt_scan s = {.at = f->roles, .end = f->roles ? f->roles + strlen(f->roles) : NULL};
    if (!f->roles) return STEP_OK;
    for (uint32_t i = 0; i < f->count; i++) f->tensors[i].role = STEP_PARAM;
    bool good = scan_open(&s, '{');
    while (good && scan_more(&s, '}')) {
        const char *name = scan_key(&s), *said = name ? scan_string(&s) : NULL;
        uint32_t role = STEP_STATE;
        while (said && role && (!st_roles[role] || strcmp(st_roles[role], said) != 0)) role--;
        if (!(good = said && role)) break;
        const struct st_tensor *t = st_find(f, name);
        if (t) f->tensors[t - f->tensors].role = role;
    }
    return good && !s.fault && scan_end(&s)
               ? STEP_OK
               : corrupt(c, NULL, "\"stepc.roles\" must be the text of an object, {\"NAME\": \"ema\", ...}");
}

static void add_roles(struct st_text *h, const struct st_tensor *tensors, uint32_t count)
{
    struct st_text roles = {0};
    const char *comma = "";
    for (uint32_t i = 0; i < count; i++)
        if (!tensors[i].role) return;
    st_add(&roles, "{");
    for (uint32_t i = 0; i < count; i++) {
        if (tensors[i].role == STEP_PARAM) continue;
        st_add(&roles, "%s", comma), comma = ",";
        st_add_quoted(&roles, tensors[i].name);
        st_add(&roles, ":\"%s\"", st_roles[tensors[i].role]);
    }
    st_add(&roles, "}");
    st_add(h, ",\"stepc.roles\":");
    if (roles.lacking) h->lacking = true;
    else st_add_quoted(h, roles.at);
    free(roles.at);
}
#endif

static int by_offset(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int st_by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Ranges in order, one after the other, from the beginning of the data to the end of the file. */
static step_status check_ranges(struct st_check *c)
{
    struct st_file *f = c->file;
    uint64_t at = c->data_at;
    if (f->count) qsort(f->tensors, f->count, sizeof *f->tensors, by_offset);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct st_tensor *t = &f->tensors[i];
        if (t->offset != at)
            return corrupt(c, t->name, "its data begin at byte %" PRIu64 " of the file, expected %" PRIu64 " (%s)",
                           t->offset, at, t->offset < at ? "overlaps the tensor before it" : "a hole before it");
        at += t->bytes;
    }
    if (at != c->file_bytes)
        return corrupt(c, NULL, "the file has %" PRIu64 " bytes, its header describes %" PRIu64, c->file_bytes, at);
    if (f->count) qsort(f->tensors, f->count, sizeof *f->tensors, st_by_name);
    for (uint32_t i = 1; i < f->count; i++)
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            return corrupt(c, f->tensors[i].name, "is there twice");
    return STEP_OK;
}

static step_status check_header(struct st_check *c, uint64_t length)
{
    struct st_file *f = c->file;
    c->scan = (struct rt_scan){.at = f->text, .end = f->text + length};
    if (f->text[0] != '{') return corrupt(c, NULL, "the header must begin with '{'");
    f->tensors = malloc((length / ST_ENTRY + 1) * sizeof *f->tensors);
    if (!f->tensors) return STEP_ENOMEM;
    scan_open(&c->scan, '{');
    for (bool metadata = false; scan_more(&c->scan, '}');) {
        const char *key = scan_key(&c->scan);
        if (!key) return syntax(c);
        step_status status;
        if (strcmp(key, "__metadata__") == 0) {
            if (metadata) return corrupt(c, NULL, "\"__metadata__\" is there twice");
            metadata = true;
            status = check_metadata(c);
        } else {
            status = check_tensor(c, key, &f->tensors[f->count++]);
        }
        if (status) return status;
    }
    if (c->scan.fault || !scan_end(&c->scan)) return syntax(c);
#ifdef STEPC_IN_OBJECT
    return check_ranges(c);
#else
    step_status status = check_ranges(c);
    return status ? status : read_roles(c);
#endif
}

static step_status check_sum(struct st_check *c)
{
    char part[4096];
    const char *digits = c->file->text + ST_SUM_AT;
    uint32_t sum = 0;
    if (strncmp(c->file->text, ST_SUM, ST_SUM_AT) || !strncmp(digits, ST_ZEROS, ST_DIGITS)) return STEP_OK;
    for (uint64_t at = ST_BEHIND_SUM, n; at < c->file_bytes; at += n) {
        n = c->file_bytes - at < sizeof part ? c->file_bytes - at : sizeof part;
        if (read_at(c->file, part, n, at, c->error)) return STEP_EIO;
        sum = st_crc32(sum, part, n);
    }
    snprintf(part, sizeof part, "%08x", sum);
    return strncmp(part, digits, ST_DIGITS) == 0 ? STEP_OK
                                                 : corrupt(c, NULL, "damaged: its bytes do not have its checksum");
}

static step_status open_checked(struct st_check *c, bool verify)
{
    struct st_file *f = c->file;
    unsigned char head[8];
    uint64_t length = 0;
    f->fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    off_t end = f->fd < 0 ? -1 : st_call(lseek, f->fd, (off_t)0, SEEK_END);
    if (end < 0) { /* a pipe has no end either */
        snprintf(c->error, ST_TEXT, "%s: %s", f->path, strerror(errno));
        return STEP_EIO;
    }
    uint64_t file_bytes = (uint64_t)end;
    if (file_bytes < 8)
        return corrupt(c, NULL, "%" PRIu64 " bytes; a safetensors file begins with 8 of length", file_bytes);
    if (read_at(f, head, 8, 0, c->error)) return STEP_EIO;
    for (int i = 0; i < 8; i++) length |= (uint64_t)head[i] << (8 * i);
    if (length > ST_HEADER) return corrupt(c, NULL, "no safetensors file (a header of %" PRIu64 " bytes)", length);
    if (length < 2 || length > file_bytes - 8)
        return corrupt(c, NULL, "header of %" PRIu64 " bytes in a file of %" PRIu64 " bytes", length, file_bytes);
    if (!(f->text = malloc(length + 1))) return STEP_ENOMEM;
    if (read_at(f, f->text, length, 8, c->error)) return STEP_EIO;
    f->text[length] = 0;
    c->data_at = 8 + length;
    c->file_bytes = file_bytes;
    step_status status = verify ? check_sum(c) : STEP_OK;
    return status ? status : check_header(c, length);
}

step_status st_open_file(struct st_file *f, const char *path, bool verify, char error[ST_TEXT])
{
    struct st_check c = {.file = f, .error = error};
    *f = (struct st_file){.path = path, .fd = -1};
    step_status status = open_checked(&c, verify);
    if (status == STEP_ENOMEM) snprintf(error, ST_TEXT, "%s: out of memory", path);
    if (status) st_close(f);
    return status;
}

void st_close(struct st_file *f)
{
    if (f->fd >= 0) close(f->fd);
    free(f->text);
    free(f->tensors);
    *f = (struct st_file){.path = f->path, .fd = -1};
}

const void *st_search(const void *all, uint32_t count, size_t bytes, const char *name)
{
    for (uint32_t low = 0, middle; low < count;) {
        const char *at = (const char *)all + (middle = low + (count - low) / 2) * bytes;
        int order = st_by_name(&name, at);
        if (!order) return at;
        if (order > 0) low = middle + 1;
        else count = middle;
    }
    return NULL;
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    return st_search(f->tensors, f->count, sizeof *f->tensors, name);
}

step_status st_read(const struct st_file *f, const struct st_tensor *t, uint64_t offset, void *to, uint64_t bytes,
                    char error[ST_TEXT])
{
    return read_at(f, to, bytes, t->offset + offset, error);
}

/* ---------------------------------------------------------------- writing */

bool st_header(struct st_text *h, const struct st_tensor *tensors, uint32_t count, uint64_t step)
{
    uint64_t at = 0;
#ifdef STEPC_IN_OBJECT
    st_add(h, "12345678" ST_SUM ST_ZEROS "\",\"step\":\"%" PRIu64 "\"}", step);
#else
    if (step == ST_FOREIGN) st_add(h, "12345678" ST_SUM ST_ZEROS "\",\"format\":\"pt\"");
    else st_add(h, "12345678" ST_SUM ST_ZEROS "\",\"step\":\"%" PRIu64 "\"", step), add_roles(h, tensors, count);
    st_add(h, "}");
#endif
    for (uint32_t i = 0; i < count; i++) {
        const struct st_tensor *t = &tensors[i];
        const char *dtype = "";
        for (size_t k = 0; k < ST_DTYPES; k++)
            if (st_dtypes[k].dtype == t->dtype) dtype = st_dtypes[k].name;
        st_add(h, ",");
        st_add_quoted(h, t->name);
        st_add(h, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
        for (int32_t k = 0; k < t->rank; k++) st_add(h, k ? ",%" PRId64 : "%" PRId64, t->shape[k]);
        st_add(h, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + t->bytes);
        at += t->bytes;
    }
    st_add(h, "}");
    st_add(h, "%*s", (int)(-h->length % 64), "");
    uint64_t length = h->length - 8;
    if (!h->lacking) memcpy(h->at, &length, 8); /* little-endian, as every machine here */
    return st_fits(h, ST_HEADER + 8);
}

static step_status write_data(struct st_output *o, const struct st_tensor *tensors, uint32_t count, st_fetch *fetch,
                              void *user, char error[ST_TEXT])
{
    for (uint32_t i = 0; i < count; i++) {
        void *buffer = malloc(tensors[i].bytes ? tensors[i].bytes : 1);
        step_status status = buffer ? fetch(user, i, buffer) : STEP_ENOMEM;
        if (status)
            snprintf(error, ST_TEXT, "%s: tensor \"%s\": %s", o->path, tensors[i].name,
                     buffer ? "cannot be read" : "out of memory");
        else if (!st_output_write(o, buffer, tensors[i].bytes, error)) status = STEP_EIO;
        free(buffer);
        if (status) return status;
    }
    return STEP_OK;
}

step_status st_write(const char *path, const struct st_tensor *tensors, uint32_t count, uint64_t step, st_fetch *fetch,
                     void *user, char error[ST_TEXT])
{
    struct st_output o;
    struct st_text h = {0};
    char ignored[ST_TEXT], digits[ST_DIGITS + 1];
    if (!st_output_open(&o, path, error)) return STEP_EIO;
    step_status status = st_header(&h, tensors, count, step) ? STEP_OK : h.lacking ? STEP_ENOMEM : STEP_EIO;
    if (status) snprintf(error, ST_TEXT, "%s: header: %s", path, strerror(errno));
    else if (!st_output_write(&o, h.at, h.length, error)) status = STEP_EIO;
    else o.sum = st_crc32(0, h.at + ST_BEHIND_SUM, h.length - ST_BEHIND_SUM);
    free(h.at);
    if (!status) status = write_data(&o, tensors, count, fetch, user, error);
    snprintf(digits, sizeof digits, "%08x", o.sum);
    if (!status && !o.direct && /* in a pipe one cannot go back */
        (st_call(lseek, o.fd, (off_t)(8 + ST_SUM_AT), SEEK_SET) < 0 || !st_output_write(&o, digits, ST_DIGITS, error)))
        status = STEP_EIO;
    if (!st_output_close(&o, !status, status ? ignored : error)) status = status ? status : STEP_EIO;
    return status;
}
