/* Checkpoints that are compressed: by Zstandard, which is opened when a save asks for it or what is loaded has it.
 *
 * Of floats the bytes of sign and exponent take few values, the others are noise. So a tensor is taken in chunks, the
 * bytes of a chunk are ordered by their place in an element, and each of these planes is a frame. Frames stand where
 * the snapshot stood, which takes no memory beside it. The first chunk whose frames are longer than what is free by
 * then ends it: from there on bytes are stored as they are. Zeros follow, if less than a 64th of the tensor is stored:
 * what is read takes no memory that its file does not justify. */
#include "runtime/directory.h"

#include <dlfcn.h>
#include <emmintrin.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LEAST: bytes of a tensor that is tried; WORTH: its first chunk becomes smaller by this part of it. */
enum { CHUNK = ST_PACKED_CHUNK, LEAST = 64, WORTH = 1024 };

struct zstd {
    void *(*writer)(void), *(*reader)(void);
    size_t (*drop_writer)(void *), (*drop_reader)(void *);
    size_t (*set)(void *writer, int what, int value);
    size_t (*compress)(void *writer, void *to, size_t room, const void *from, size_t bytes);
    size_t (*decompress)(void *reader, void *to, size_t room, const void *from, size_t bytes);
    size_t (*bound)(size_t), (*frame)(const void *, size_t);
    unsigned (*is_error)(size_t);
};

static step_status zstd_open(struct zstd *z, bool environment, char error[ST_TEXT])
{
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"ZSTD_createCCtx", &z->writer},
                   {"ZSTD_createDCtx", &z->reader},
                   {"ZSTD_freeCCtx", &z->drop_writer},
                   {"ZSTD_freeDCtx", &z->drop_reader},
                   {"ZSTD_CCtx_setParameter", &z->set},
                   {"ZSTD_compress2", &z->compress},
                   {"ZSTD_decompressDCtx", &z->decompress},
                   {"ZSTD_compressBound", &z->bound},
                   {"ZSTD_findFrameCompressedSize", &z->frame},
                   {"ZSTD_isError", &z->is_error}};
    const char *path = environment ? getenv("STEPC_ZSTD") : NULL;
    if (!path || !*path) path = "libzstd.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = library; /* stays open */
    for (size_t i = 0; symbol && i < sizeof symbols / sizeof *symbols; i++)
        if ((symbol = dlsym(library, symbols[i].name))) memcpy(symbols[i].to, &symbol, sizeof symbol);
    if (symbol) return STEP_OK;
    snprintf(error, ST_TEXT,
             "compressed checkpoints need Zstandard 1.4 or later, and there is none here (%s): install libzstd1, or "
             "name the file in STEPC_ZSTD",
             path);
    return STEP_EDEVICE;
}

static step_status is_there(bool environment, char error[ST_TEXT])
{
    struct zstd z;
    return zstd_open(&z, environment, error);
}

/* Bytes at even places, then those at odd ones: the lowest bit of a place becomes its highest. */
static void split(unsigned char *to, const unsigned char *from, size_t half)
{
    const __m128i low = _mm_set1_epi16(255);
    size_t i = 0;
    for (; i + 16 <= half; i += 16) {
        __m128i x = _mm_loadu_si128((const void *)(from + 2 * i)),
                y = _mm_loadu_si128((const void *)(from + 2 * i + 16));
        _mm_storeu_si128((void *)(to + i), _mm_packus_epi16(_mm_and_si128(x, low), _mm_and_si128(y, low)));
        _mm_storeu_si128((void *)(to + half + i), _mm_packus_epi16(_mm_srli_epi16(x, 8), _mm_srli_epi16(y, 8)));
    }
    for (; i < half; i++) to[i] = from[2 * i], to[half + i] = from[2 * i + 1];
}

static void join(unsigned char *to, const unsigned char *from, size_t half)
{
    size_t i = 0;
    for (; i + 16 <= half; i += 16) {
        __m128i x = _mm_loadu_si128((const void *)(from + i)), y = _mm_loadu_si128((const void *)(from + half + i));
        _mm_storeu_si128((void *)(to + 2 * i), _mm_unpacklo_epi8(x, y));
        _mm_storeu_si128((void *)(to + 2 * i + 16), _mm_unpackhi_epi8(x, y));
    }
    for (; i < half; i++) to[2 * i] = from[i], to[2 * i + 1] = from[half + i];
}

/* Elements to planes by splits, and back by joins, one for each bit of a place in an element; `room` for as much. */
static void turn(unsigned char *to, const unsigned char *from, unsigned char *room, size_t bytes, size_t item,
                 void (*pass)(unsigned char *, const unsigned char *, size_t))
{
    if (item == 1) memcpy(to, from, bytes);
    for (bool last = item == 2 || item == 8; item > 1; item /= 2, last = !last) {
        pass(last ? to : room, from, bytes / 2);
        from = last ? to : room;
    }
}

/* ---------------------------------------------------------------- saving */

struct packing {
    struct rt_job *job;
    const struct zstd *zstd;
    uint32_t first;
    _Atomic bool lacking;
};

/* The frames of a chunk; 0: the library has no memory. */
static size_t pack_chunk(const struct zstd *z, void *writer, unsigned char *to, size_t room, unsigned char *planes,
                         const unsigned char *from, size_t bytes, size_t item)
{
    size_t used = 0, count = bytes / item;
    turn(planes, from, to, bytes, item, split);
    for (size_t plane = 0; plane < item; plane++) {
        size_t n = z->compress(writer, to + used, room - used, planes + plane * count, count);
        if (z->is_error(n)) return 0;
        used += n;
    }
    return used;
}

/* Level 1 but for a small table of matches, of 7 bytes: planes have hardly any, and looking for them takes longer than
 * the code of single bytes, which all that is won comes from. */
static void *begin(const struct zstd *z)
{
    static const struct {
        int what, value; /* ZSTD_cParameter */
    } parameters[] = {{100, 1}, {102, 8}, {105, 7}};
    void *writer = z->writer();
    for (size_t i = 0; writer && i < sizeof parameters / sizeof *parameters; i++)
        z->set(writer, parameters[i].what, parameters[i].value);
    return writer;
}

static void pack_tensor(void *user, uint32_t i)
{
    struct packing *k = user;
    const struct st_tensor *t = &k->job->tensors[k->first + i];
    struct rt_packed *p = &k->job->packed[k->first + i];
    size_t item = rt_dtype_bytes(t->dtype), n = t->bytes < CHUNK ? t->bytes : CHUNK;
    if (n < LEAST) return;
    size_t room = item * k->zstd->bound(n / item);
    unsigned char *data = (unsigned char *)(uintptr_t)k->job->data + t->offset, *memory = malloc(room + n);
    void *writer = begin(k->zstd);
    uint64_t from = 0, to = 0;
    for (bool fits = memory && writer; fits && from < t->bytes; from += fits ? n : 0) {
        n = t->bytes - from < CHUNK ? t->bytes - from : CHUNK;
        size_t size = pack_chunk(k->zstd, writer, memory, room, memory + room, data + from, n, item);
        if (!size) k->lacking = true;
        fits = size && to + size <= from + n - (from ? 0 : n / WORTH);
        if (fits) memcpy(data + to, memory, size), to += size;
    }
    if (!memory || !writer) k->lacking = true;
    free(memory);
    k->zstd->drop_writer(writer);
    if (!from) return;
    memmove(data + to, data + from, t->bytes - from);
    *p = (struct rt_packed){.stored = to + t->bytes - from, .chunked = from};
    uint64_t least = (t->bytes + ST_PACKED_MOST - 1) / ST_PACKED_MOST;
    if (p->stored < least) memset(data + p->stored, 0, least - p->stored), p->stored = least;
}

/* What this process writes of the optimizer's state, or of all. */
static bool pack(struct rt_job *j)
{
    struct zstd z;
    struct packing k = {.job = j, .zstd = &z};
    const char *state = rt_item_files[STEP_OPT_STATE - 1];
    if ((j->status = zstd_open(&z, !(j->instance && j->instance->flags & STEP_NO_ENV), j->error))) return false;
    for (const struct rt_written *w = j->files; w < j->files + j->file_count && !k.lacking; w++) {
        uint64_t bytes = 0;
        if (w->writer != j->rank || !(j->flags & STEP_SAVE_COMPRESS_ALL || *w->name == *state)) continue;
        for (uint32_t i = w->begin; i < w->end; i++) bytes += j->tensors[i].bytes;
        k.first = w->begin;
        rt_each(j->instance, bytes, w->end - w->begin, pack_tensor, &k);
    }
    errno = ENOMEM;
    return k.lacking ? rt_job_fails(j, "compression", "") : true;
}

/* ---------------------------------------------------------------- loading */

static bool unpack(const struct zstd *z, void *reader, const struct st_piece *p, size_t item, const unsigned char *from,
                   unsigned char *to, unsigned char *planes)
{
    uint64_t at = 0;
    if (p->chunked > p->bytes || p->chunked % item) return false;
    for (uint64_t done = 0, n; done < p->chunked; done += n) {
        n = p->chunked - done < CHUNK ? p->chunked - done : CHUNK;
        for (size_t plane = 0, count = n / item; plane < item; plane++) {
            size_t bytes = z->frame(from + at, p->stored - at);
            if (z->is_error(bytes)) return false;
            if (z->decompress(reader, planes + plane * count, count, from + at, bytes) != count) return false;
            at += bytes;
        }
        turn(to + done, planes, planes + CHUNK, n, item, join);
    }
    if (p->stored - at < p->bytes - p->chunked) return false;
    memcpy(to + p->chunked, from + at, p->bytes - p->chunked);
    return true;
}

static step_status unpack_piece(const struct st_checkpoint *c, const struct st_piece *p, const void *from, void *to,
                                char error[ST_TEXT])
{
    struct zstd z;
    size_t item = rt_dtype_bytes(c->all.tensors[p->tensor].dtype);
    step_status status = zstd_open(&z, c->environment, error);
    if (status) return status;
    unsigned char *planes = malloc(2 * CHUNK);
    void *reader = z.reader();
    if (!planes || !reader) {
        snprintf(error, ST_TEXT, "%s: out of memory", c->all.path);
        status = STEP_ENOMEM;
    } else if (!unpack(&z, reader, p, item, from, to, planes)) {
        snprintf(error, ST_TEXT, "%s: %s is damaged: \"%.200s\" is not compressed as its manifest says", c->all.path,
                 c->members[p->member].name, p->key);
        status = STEP_ECORRUPT;
    }
    z.drop_reader(reader);
    free(planes);
    return status;
}

const struct stepc_compression stepc_part_compression = {is_there, pack, unpack_piece};
