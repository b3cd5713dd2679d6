/* A NumPy archive (.npz, np.savez): a ZIP file whose members NAME.npy are stored as they are, or compressed
 * (np.savez_compressed; where zlib was there to build with), which are unpacked into memory. Their places stand in the
 * central directory at the end of the file (APPNOTE.TXT of PKWARE, 4.3.12 to 4.3.16, and 4.5.3 for 64 bits). */
#include "frontend/cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef STEPC_ZLIB
#include <zlib.h>
#endif

enum { END = 22, LOCATOR = 20, END64 = 56, ENTRY = 46, LOCAL = 30, COMMENT = 65535, BLOCK = 1 << 20 };

struct zip {
    const struct cli *cli;
    struct st_file *f;
    int fd;
    uint64_t size, at, length, entries; /* of the file; the central directory */
    uint64_t unpacked;                  /* bytes in the file in memory, which is the one of tensors then */
};

static uint64_t number(const unsigned char *at, int bytes)
{
    uint64_t n = 0;
    for (int i = bytes - 1; i >= 0; i--) n = n << 8 | at[i];
    return n;
}

static int damaged(const struct zip *z, const char *why)
{
    return cli_failed(z->cli, EXIT_WRONG, "%s: no NumPy archive, or damaged: %s", z->f->path, why);
}

static bool get(const struct zip *z, uint64_t at, void *to, uint64_t bytes)
{
    return at <= z->size && bytes <= z->size - at && pread(z->fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

static int find_directory(struct zip *z)
{
    uint64_t room = z->size < END + COMMENT ? z->size : END + COMMENT;
    unsigned char *tail = arena_alloc(z->cli->arena, room + 1), end64[END64];
    const unsigned char *end = NULL;
    if (!get(z, z->size - room, tail, room)) return damaged(z, "it cannot be read");
    for (uint64_t i = 0; i + END <= room; i++)
        if (memcmp(tail + i, "PK\5\6", 4) == 0) end = tail + i;
    if (!end) return damaged(z, "it has no end (the file is cut off)");
    z->entries = number(end + 10, 2), z->length = number(end + 12, 4), z->at = number(end + 16, 4);
    if (end - tail >= LOCATOR && memcmp(end - LOCATOR, "PK\6\7", 4) == 0) {
        if (!get(z, number(end - LOCATOR + 8, 8), end64, END64) || memcmp(end64, "PK\6\6", 4) != 0)
            return damaged(z, "its directory is not where it says");
        z->entries = number(end64 + 32, 8), z->length = number(end64 + 40, 8), z->at = number(end64 + 48, 8);
    }
    if (z->at > z->size || z->length > z->size - z->at || z->entries > z->length / ENTRY)
        return damaged(z, "its directory is not where it says");
    return 0;
}

/* What does not fit into 32 bits stands behind the name, in this order. */
static bool widen(const unsigned char *extra, uint64_t length, uint64_t *values[3])
{
    for (uint64_t at = 0; at + 4 <= length; at += 4 + number(extra + at + 2, 2)) {
        uint64_t left = number(extra + at + 2, 2), from = at + 4;
        if (number(extra + at, 2) != 1 || left > length - from) continue;
        for (int i = 0; i < 3; i++) {
            if (*values[i] != UINT32_MAX) continue;
            if (left < 8) return false;
            *values[i] = number(extra + from, 8), from += 8, left -= 8;
        }
        return true;
    }
    return *values[0] != UINT32_MAX && *values[1] != UINT32_MAX && *values[2] != UINT32_MAX;
}

static int check_sum(const struct zip *z, const char *name, uint64_t begin, uint64_t bytes, uint64_t expected)
{
    unsigned char *block = malloc(BLOCK);
    uint32_t sum = 0;
    bool read = block != NULL;
    for (uint64_t at = 0; read && at < bytes; at += BLOCK) {
        uint64_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
        read = get(z, begin + at, block, n);
        if (read) sum = st_crc32(sum, block, n);
    }
    free(block);
    if (!read) return cli_failed(z->cli, EXIT_ENVIRONMENT, "%s: %s.npy cannot be read", z->f->path, name);
    return sum == expected ? 0
                           : cli_failed(z->cli, EXIT_WRONG, "%s: %s.npy is damaged: checksum %08x, expected %08llx",
                                        z->f->path, name, sum, (unsigned long long)expected);
}

static int refuse_compressed(const struct zip *z, const char *name)
{
    return cli_failed(
        z->cli, EXIT_WRONG,
        "%s: %s.npy is compressed, which this stepc was built without (zlib): np.savez(FILE, ...) instead "
        "of np.savez_compressed, or np.savez(\"plain.npz\", **np.load(\"%s\"))",
        z->f->path, name, z->f->path);
}

#ifdef STEPC_ZLIB
static bool put(struct zip *z, const unsigned char *from, uint64_t bytes)
{
    for (ssize_t n; bytes; from += n, bytes -= (uint64_t)n, z->unpacked += (uint64_t)n)
        if ((n = write(z->f->fd, from, bytes)) <= 0) return false;
    return true;
}

/* `bytes` of them behind what is unpacked already. */
static int unpack(struct zip *z, const char *name, uint64_t begin, uint64_t stored, uint64_t bytes, uint64_t expected)
{
    unsigned char *in = malloc(2 * (size_t)BLOCK), *out = in + BLOCK;
    z_stream s = {0};
    uint64_t made = 0, at = 0;
    uint32_t sum = 0;
    int done = Z_OK;
    bool written = z->f->fd != z->fd || (z->f->fd = memfd_create("stepc-npz", MFD_CLOEXEC)) >= 0, read = true;
    if (!in || !written || inflateInit2(&s, -MAX_WBITS) != Z_OK) {
        free(in);
        return cli_failed(z->cli, EXIT_ENVIRONMENT, "%s: out of memory", z->f->path);
    }
    while (done == Z_OK && written && read && made <= bytes) {
        uint64_t n = stored - at < BLOCK ? stored - at : BLOCK;
        if (!s.avail_in && n && (read = get(z, begin + at, in, n))) s.next_in = in, s.avail_in = (uInt)n, at += n;
        s.next_out = out, s.avail_out = BLOCK; /* of what was read last there may be more than one block */
        if (read) done = inflate(&s, Z_NO_FLUSH);
        uint64_t more = BLOCK - s.avail_out;
        sum = st_crc32(sum, out, more);
        made += more;
        written = put(z, out, more);
    }
    inflateEnd(&s);
    free(in);
    if (!written) return cli_failed(z->cli, EXIT_ENVIRONMENT, "%s: %s.npy: %s", z->f->path, name, strerror(errno));
    if (done != Z_STREAM_END || made != bytes || sum != expected)
        return cli_failed(z->cli, EXIT_WRONG, "%s: %s.npy is damaged: it does not unpack to %llu bytes of its checksum",
                          z->f->path, name, (unsigned long long)bytes);
    return 0;
}
#else
static int unpack(struct zip *z, const char *name, uint64_t begin, uint64_t stored, uint64_t bytes, uint64_t expected)
{
    (void)begin, (void)stored, (void)bytes, (void)expected;
    return refuse_compressed(z, name);
}
#endif

/* One entry of the directory, `left` bytes from its end. */
static int read_entry(struct zip *z, const unsigned char *e, uint64_t left, uint64_t *next)
{
    if (left < ENTRY || memcmp(e, "PK\1\2", 4) != 0) return damaged(z, "an entry of its directory is none");
    uint64_t length = number(e + 28, 2), extra = number(e + 30, 2), begin = number(e + 42, 4);
    uint64_t stored = number(e + 20, 4), bytes = number(e + 24, 4);
    *next = ENTRY + length + extra + number(e + 32, 2);
    if (*next > left || !widen(e + ENTRY + length, extra, (uint64_t *[]){&bytes, &stored, &begin}))
        return damaged(z, "an entry of its directory is cut off");
    const char *name = arena_string_n(z->cli->arena, (const char *)e + ENTRY, length);
    if (length < 5 || strcmp(name + length - 4, ".npy") != 0 || strlen(name) != length)
        return cli_failed(z->cli, EXIT_WRONG, "%s: \"%s\" is no array (NAME.npy)", z->f->path, name);
    name = arena_string_n(z->cli->arena, name, length - 4);
    if (number(e + 8, 2) & 1) return cli_failed(z->cli, EXIT_WRONG, "%s: %s.npy is encrypted", z->f->path, name);
    uint64_t method = number(e + 10, 2);
    if (method != 0 && method != 8) return refuse_compressed(z, name);
    unsigned char local[LOCAL];
    if (!get(z, begin, local, LOCAL) || memcmp(local, "PK\3\4", 4) != 0)
        return damaged(z, "a member is not where its directory says");
    begin += LOCAL + number(local + 26, 2) + number(local + 28, 2);
    if ((!method && stored != bytes) || begin > z->size || stored > z->size - begin)
        return damaged(z, "a member is cut off");
    bool packed = method || z->f->fd != z->fd; /* a file has all of its tensors, or none */
    if (packed && !method) return damaged(z, "some members are compressed and some are not");
    if (method && z->f->fd == z->fd && z->f->count) return damaged(z, "some members are compressed and some are not");
    int code = packed ? unpack(z, name, begin, stored, bytes, number(e + 16, 4))
                      : check_sum(z, name, begin, bytes, number(e + 16, 4));
    if (code) return code;
    if (packed) begin = z->unpacked - bytes;
    return run_npy_read(z->cli, z->f, name, begin, begin + bytes);
}

static int read_entries(struct zip *z)
{
    uint64_t next = 0;
    unsigned char *directory = arena_alloc(z->cli->arena, z->length + 1);
    if (!get(z, z->at, directory, z->length)) return damaged(z, "its directory cannot be read");
    if (!(z->f->tensors = calloc(z->entries + 1, sizeof *z->f->tensors)))
        return cli_failed(z->cli, EXIT_ENVIRONMENT, "%s: out of memory", z->f->path);
    int code = 0;
    for (uint64_t i = 0, at = 0; !code && i < z->entries; i++, at += next)
        code = read_entry(z, directory + at, z->length - at, &next);
    if (!code) qsort(z->f->tensors, z->f->count, sizeof *z->f->tensors, st_by_name);
    for (uint32_t i = 1; !code && i < z->f->count; i++)
        if (strcmp(z->f->tensors[i - 1].name, z->f->tensors[i].name) == 0)
            code = cli_failed(z->cli, EXIT_WRONG, "%s holds %s.npy twice", z->f->path, z->f->tensors[i].name);
    return code;
}

int run_npz_open(const struct cli *cli, struct st_file *f, const char *path)
{
    struct stat s;
    *f = (struct st_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (f->fd < 0 || fstat(f->fd, &s)) return cli_failed(cli, EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
    struct zip z = {.cli = cli, .f = f, .fd = f->fd, .size = (uint64_t)s.st_size};
    int code = find_directory(&z);
    if (!code) code = read_entries(&z);
    if (z.fd != f->fd) close(z.fd);
    if (code) st_close(f);
    return code;
}
