/* stepc/step_open.h: opens a compiled step for hosts in C and C++, after its bytes were compared with the checksum in
 * it. Nothing to link but libdl (part of libc from glibc 2.34 on). C99 and C++11.
 *
 * The ELF note "stepc" of type 2 holds 12 bytes: the CRC-32 (that of zlib, PNG and gzip) of all other bytes of the
 * file, then what `stepc verify` needs: the state of the self-test, and the CRC-32 of its results. It is found by its
 * head, so that a damaged table of sections leads nowhere. It catches accidents and is no defence against forgery. */
#ifndef STEPC_STEP_OPEN_H
#define STEPC_STEP_OPEN_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stepc/step.h"

#define STEP_NOTE_HEAD "\6\0\0\0\14\0\0\0\2\0\0\0stepc\0\0\0" /* sizes of name and content, type, name */

/* The CRC-32 of what `crc` is the sum of (0: nothing), and of `size` more bytes. */
static inline uint32_t step_crc32(uint32_t crc, const void *data, size_t size)
{
    const unsigned char *at = (const unsigned char *)data;
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0u);
    }
    crc = ~crc;
    while (size--) crc = table[(crc ^ *at++) & 255u] ^ crc >> 8;
    return ~crc;
}

/* Where in the bytes of an object the content of its note begins; 0: it has none. */
static inline size_t step_note(const void *object, size_t size)
{
    const char *bytes = (const char *)object;
    const size_t head = sizeof STEP_NOTE_HEAD - 1;
    for (size_t at = 0; at + head + 12 <= size; at += 4)
        if (bytes[at] == 6 && memcmp(bytes + at, STEP_NOTE_HEAD, head) == 0) return at + head;
    return 0;
}

/* The sum of an object whose note is at `note`: of all bytes but the four that hold it. */
static inline uint32_t step_object_sum(const void *object, size_t size, size_t note)
{
    const char *bytes = (const char *)object;
    return step_crc32(step_crc32(0, bytes, note), bytes + note + 4, size - note - 4);
}

/* Whether an object is what was compiled; if not, why. */
static inline step_status step_object_check(const void *object, size_t size, const char **why)
{
    size_t note = step_note(object, size);
    uint32_t sum = 0;
    *why = "it has no checksum: no object of stepc, or damaged";
    if (!note) return STEP_ECORRUPT;
    memcpy(&sum, (const char *)object + note, sizeof sum);
    *why = "damaged: its bytes do not have the checksum that it was compiled with";
    return step_object_sum(object, size, note) == sum ? STEP_OK : STEP_ECORRUPT;
}

/* Opens the file once, compares its checksum, and loads what was compared. `error` says what is wrong. */
static inline step_status step_open(const char *path, const struct step_api **api, char *error, size_t error_size)
{
    struct stat about;
    const char *why = "";
    char *bytes = NULL, name[128] = "/proc/self/fd/";
    size_t size = 0, length = strlen(name);
    ssize_t n = 1;
    step_status status = STEP_EIO;
    *api = NULL;
#ifdef O_CLOEXEC
    int fd = open(path, O_RDONLY | O_CLOEXEC);
#else
    int fd = open(path, O_RDONLY);
#endif
    if (fd >= 0 && fstat(fd, &about) == 0 && (bytes = (char *)malloc((size_t)about.st_size + 1)) != NULL)
        while (size < (size_t)about.st_size && (n > 0 || (n < 0 && errno == EINTR))) {
            n = read(fd, bytes + size, (size_t)about.st_size - size);
            if (n > 0) size += (size_t)n;
        }
    if (!bytes || n < 0) why = strerror(errno);
    else status = step_object_check(bytes, size, &why);
    if (status == STEP_OK) {
        /* The loader takes a file of a name that it has seen for the one it knows, and numbers of files come back:
         * the checksum goes into the name, as "./" and "/". */
        uint32_t sum = step_crc32(0, bytes, size);
        void *object;
        step_query_fn *query = NULL;
        for (int i = 0; i < 32; i++) {
            if (sum >> i & 1u) name[length++] = '.';
            name[length++] = '/';
        }
        snprintf(name + length, sizeof name - length, "%d", fd);
        object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        void *symbol = object ? dlsym(object, "step_query") : NULL;
        if (symbol) memcpy(&query, &symbol, sizeof query);
        if (query) *api = query(STEP_ABI_MAJOR, STEP_ABI_MINOR);
        status = *api ? STEP_OK : query ? STEP_EVERSION : STEP_EIO;
        why = object ? "it exports no step_query" : dlerror();
        if (!object && why && strstr(why, ": ")) why = strstr(why, ": ") + 2; /* behind that name */
        if (query) why = "compiled for another version of the interface";
    }
    if (status != STEP_OK) snprintf(error, error_size, "%s: %s", path, why ? why : "cannot be loaded");
    free(bytes);
    if (fd >= 0) close(fd);
    return status;
}
#endif
