/* stepc/step_checkpoints.h: what a run directory holds, for hosts in C and C++ that choose a checkpoint before they
 * have a step to load it. Nothing to link. C99 and C++11.
 *
 *     struct step_checkpoint *list;
 *     size_t count;
 *     char error[256];
 *     step_status status = step_checkpoints("runs/a", &list, &count, error, sizeof error);
 *     ... list[count - 1].step is the newest ...
 *     step_checkpoints_free(list, count);
 *
 * A checkpoint is complete if its manifest has the checksum in it (XXH3-128, the xxHash specification 0.8) and every
 * file that the manifest names has the size that it says. The data have checksums too, which `load` and
 * `stepc checkpoint verify` compare. */
#ifndef STEPC_STEP_CHECKPOINTS_H
#define STEPC_STEP_CHECKPOINTS_H

#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stepc/step.h"

struct step_checkpoint {
    uint64_t step;
    char *path;
    const char *time;           /* "2027-03-01T12:00:00Z" in UTC; "": the manifest is damaged or not there */
    uint64_t bytes;             /* of all files but the manifest */
    struct step_hyper *metrics; /* what was recorded with it */
    size_t metric_count;
    int complete;
    char *text; /* what `time` and the names point into */
};

/* ---------------------------------------------------------------- the checksum */

static inline uint64_t step_hash_word(const void *at)
{
    uint64_t n;
    memcpy(&n, at, sizeof n);
    return n;
}

/* The bytes of the secret. */
static inline const char *step_hash_key(size_t offset)
{
    static const uint64_t secret[24] = {
        0xbe4ba423396cfeb8u, 0x1cad21f72c81017cu, 0xdb979083e96dd4deu, 0x1f67b3b7a4a44072u, 0x78e5c0cc4ee679cbu,
        0x2172ffcc7dd05a82u, 0x8e2443f7744608b8u, 0x4c263a81e69035e0u, 0xcb00c391bb52283cu, 0xa32e531b8b65d088u,
        0x4ef90da297486471u, 0xd8acdea946ef1938u, 0x3f349ce33f76faa8u, 0x1d4f0bc7c7bbdcf9u, 0x3159b4cd4be0518au,
        0x647378d9c97e9fc8u, 0xc3ebd33483acc5eau, 0xeb6313faffa081c5u, 0x49daf0b751dd0d17u, 0x9e68d429265516d3u,
        0xfca1477d58be162bu, 0xce31d07ad1b8f88fu, 0x280416958f3acb45u, 0x7e404bbbcafbd7afu};
    return (const char *)secret + offset;
}

static inline void step_hash_stripe(uint64_t sums[8], const char *at, size_t offset)
{
    for (size_t i = 0; i < 8; i++) {
        uint64_t data = step_hash_word(at + 8 * i), keyed = data ^ step_hash_word(step_hash_key(offset + 8 * i));
        sums[i ^ 1] += data;
        sums[i] += (keyed & 0xffffffffu) * (keyed >> 32);
    }
}

static inline uint64_t step_hash_merge(const uint64_t sums[8], size_t offset, uint64_t sum)
{
    __extension__ typedef unsigned __int128 wide;
    for (size_t i = 0; i < 8; i += 2) {
        wide product = (wide)(sums[i] ^ step_hash_word(step_hash_key(offset + 8 * i))) *
                       (sums[i + 1] ^ step_hash_word(step_hash_key(offset + 8 * i + 8)));
        sum += (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    sum = (sum ^ sum >> 37) * 0x165667919e3779f9u;
    return sum ^ sum >> 32;
}

/* XXH3-128 of more than 240 bytes. */
static inline void step_hash(const char *at, size_t n, char text[33])
{
    uint64_t sums[8] = {0xc2b2ae3du,         0x9e3779b185ebca87u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                        0x85ebca77c2b2ae63u, 0x85ebca77u,         0x27d4eb2f165667c5u, 0x9e3779b1u};
    for (size_t done = 0; done + 64 < n; done += 64) {
        step_hash_stripe(sums, at + done, done / 8 % 128);
        for (size_t i = 0; done % 1024 == 960 && i < 8; i++)
            sums[i] = (sums[i] ^ sums[i] >> 47 ^ step_hash_word(step_hash_key(128 + 8 * i))) * 0x9e3779b1u;
    }
    step_hash_stripe(sums, at + n - 64, 121);
    snprintf(text, 33, "%016llx%016llx",
             (unsigned long long)step_hash_merge(sums, 117, ~(n * (uint64_t)0xc2b2ae3d27d4eb4fu)),
             (unsigned long long)step_hash_merge(sums, 11, n * (uint64_t)0x9e3779b185ebca87u));
}

/* ---------------------------------------------------------------- the manifest */

struct step_manifest {
    char *at;  /* strings are unescaped where they stand; a byte 0 ends the text */
    int wrong; /* not as JSON says, or not a manifest: nothing is read any more */
};

static inline char step_manifest_next(struct step_manifest *m)
{
    m->at += strspn(m->at, " \t\r\n");
    return m->wrong ? '\0' : *m->at;
}

static inline int step_manifest_take(struct step_manifest *m, char wanted)
{
    if (step_manifest_next(m) == wanted && wanted) return m->at++, 1;
    return 0;
}

static inline char *step_manifest_string(struct step_manifest *m)
{
    static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char *begin, *to;
    if (!step_manifest_take(m, '"')) return m->wrong = 1, (char *)"";
    for (begin = to = m->at; *m->at != '"' && (unsigned char)*m->at >= 32;) {
        const char *known;
        unsigned code = 0;
        int length = 0;
        if (*m->at != '\\') *to++ = *m->at++;
        else if (m->at[1] && (known = strchr(from, m->at[1])) != NULL) *to++ = meant[known - from], m->at += 2;
        else if (strspn(m->at + 2, "0123456789abcdefABCDEF") >= 4 && sscanf(m->at, "\\u%4x%n", &code, &length) == 1 &&
                 length == 6 && code && (code < 0xd800 || code > 0xdfff)) {
            m->at += 6;
            if (code >= 0x800) *to++ = (char)(0xe0 | code >> 12), *to++ = (char)(0x80 | (code >> 6 & 63));
            else if (code >= 0x80) *to++ = (char)(0xc0 | code >> 6);
            *to++ = (char)(code < 0x80 ? code : 0x80 | (code & 63));
        } else break;
    }
    if (*m->at != '"') m->wrong = 1;
    else m->at++, *to = '\0';
    return begin;
}

/* A number, or "NaN", "Infinity", "-Infinity". */
static inline double step_manifest_number(struct step_manifest *m)
{
    char room[80], *end;
    const char *point = localeconv()->decimal_point;
    size_t n = 0;
    if (step_manifest_next(m) == '"') {
        const char *word = step_manifest_string(m), *infinity = word + (*word == '-');
        if (strcmp(word, "NaN") != 0 && strcmp(infinity, "Infinity") != 0) m->wrong = 1;
        return strtod(word, NULL);
    }
    for (; *m->at && strchr("+-.0123456789eE", *m->at) && n + strlen(point) < sizeof room - 1; m->at++)
        if (*m->at != '.') room[n++] = *m->at;
        else n += (size_t)snprintf(room + n, sizeof room - n, "%s", point);
    room[n] = '\0';
    double value = strtod(room, &end);
    if (!n || *end) m->wrong = 1;
    return value;
}

/* The next member of an object that was begun: its name; NULL: its end. */
static inline char *step_manifest_member(struct step_manifest *m, int *first)
{
    if (step_manifest_take(m, '}')) return NULL;
    if (!*first && !step_manifest_take(m, ',')) m->wrong = 1;
    *first = 0;
    char *name = step_manifest_string(m);
    if (!step_manifest_take(m, ':')) m->wrong = 1;
    return m->wrong ? NULL : name;
}

static inline int step_manifest_object(struct step_manifest *m)
{
    if (!step_manifest_take(m, '{')) m->wrong = 1;
    return 1;
}

/* Any value; brackets are counted, no more. */
static inline void step_manifest_skip(struct step_manifest *m)
{
    size_t depth = 0;
    do {
        char c = step_manifest_next(m);
        if (c == '"') step_manifest_string(m);
        else if (!c) m->wrong = 1;
        else if (m->at++, c == '{' || c == '[') depth++;
        else if (depth && (c == '}' || c == ']')) depth--;
        else if (!depth) m->at += strcspn(m->at, ",}] \t\r\n");
    } while (!m->wrong && depth);
}

/* The whole file with a byte 0 behind it; NULL: it cannot be read. */
static inline char *step_manifest_read(const char *path, size_t *size)
{
    struct stat about; /* asked by name: strict C has no fileno, and to open a pipe would wait for its writer */
    FILE *file = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "rb") : NULL;
    char *text = NULL;
    if (file && (text = (char *)malloc((size_t)about.st_size + 1)) != NULL) {
        *size = fread(text, 1, (size_t)about.st_size, file);
        text[*size] = '\0';
    }
    if (file) fclose(file);
    return text;
}

/* The files that the manifest names: their sizes together, and whether they have them. */
static inline void step_manifest_files(struct step_manifest *m, struct step_checkpoint *c)
{
    int first = step_manifest_object(m);
    for (const char *name; (name = step_manifest_member(m, &first)) != NULL;) {
        struct stat about;
        char path[4096];
        double bytes = -1;
        int inner = step_manifest_object(m);
        for (const char *key; (key = step_manifest_member(m, &inner)) != NULL;)
            if (strcmp(key, "bytes") == 0) bytes = step_manifest_number(m);
            else step_manifest_skip(m);
        if (!(bytes >= 0 && bytes < 9007199254740992.0)) m->wrong = 1;
        else c->bytes += (uint64_t)bytes;
        int length = snprintf(path, sizeof path, "%s/%s", c->path, name);
        if (length < 0 || length >= (int)sizeof path || stat(path, &about) || (double)about.st_size != bytes)
            c->complete = 0;
    }
}

static inline void step_manifest_metrics(struct step_manifest *m, struct step_checkpoint *c)
{
    size_t room = 0;
    int first = step_manifest_object(m);
    for (const char *name; (name = step_manifest_member(m, &first)) != NULL; c->metric_count++) {
        if (c->metric_count == room) {
            void *more = realloc(c->metrics, (room = 2 * room + 8) * sizeof *c->metrics);
            if (!more) {
                m->wrong = 1;
                return;
            }
            c->metrics = (struct step_hyper *)more;
        }
        struct step_hyper *metric = &c->metrics[c->metric_count];
        metric->size = sizeof *metric, metric->name = name, metric->value = step_manifest_number(m);
    }
}

/* What the manifest tells, if it is whole. */
static inline void step_checkpoint_read(struct step_checkpoint *c)
{
    enum { TAIL = sizeof "\"self\":\"\"}" - 1 + 32 }; /* behind what is summed */
    struct step_manifest m = {NULL, 0};
    char path[4096], sum[33], end[TAIL + 1];
    size_t size = 0;
    uint64_t version = 0;
    int first, length = snprintf(path, sizeof path, "%s/manifest.json", c->path);
    if (length > 0 && length < (int)sizeof path) c->text = step_manifest_read(path, &size);
    if (!c->text || size < 240 + TAIL || strlen(c->text) != size) return;
    step_hash(c->text, size - TAIL, sum);
    snprintf(end, sizeof end, "\"self\":\"%s\"}", sum);
    if (strcmp(c->text + size - TAIL, end) != 0) return;
    m.at = c->text;
    c->complete = 1;
    first = step_manifest_object(&m);
    for (const char *key; (key = step_manifest_member(&m, &first)) != NULL;)
        if (strcmp(key, "stepc_checkpoint") == 0) version = (uint64_t)step_manifest_number(&m);
        else if (strcmp(key, "created") == 0) c->time = step_manifest_string(&m);
        else if (strcmp(key, "files") == 0) step_manifest_files(&m, c);
        else if (strcmp(key, "metrics") == 0 && !c->metrics) step_manifest_metrics(&m, c);
        else step_manifest_skip(&m);
    if (!m.wrong && (version == 1 || version == 2) && !step_manifest_next(&m)) return;
    c->time = "", c->bytes = 0, c->metric_count = 0, c->complete = 0;
}

/* ---------------------------------------------------------------- the directory */

static inline int step_checkpoint_order(const void *a, const void *b)
{
    uint64_t x = ((const struct step_checkpoint *)a)->step, y = ((const struct step_checkpoint *)b)->step;
    return (x > y) - (x < y);
}

static inline void step_checkpoints_free(struct step_checkpoint *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].path);
        free(list[i].metrics);
        free(list[i].text);
    }
    free(list);
}

/* All of a run directory, the oldest first; those that are not complete are in the list, too. */
static inline step_status step_checkpoints(const char *folder, struct step_checkpoint **list, size_t *count,
                                           char *error, size_t error_size)
{
    DIR *directory = opendir(folder);
    size_t room = 0;
    step_status status = directory ? STEP_OK : STEP_EIO;
    *list = NULL;
    *count = 0;
    for (struct dirent *entry; status == STEP_OK;) {
        struct step_checkpoint *more = *list, *one;
        const char *digits;
        errno = 0;
        if ((entry = readdir(directory)) == NULL) break;
        digits = entry->d_name + 5;
        if (strncmp(entry->d_name, "step-", 5) != 0 || strspn(digits, "0123456789") != strlen(digits)) continue;
        if (!*digits || strlen(digits) > 19 || (*digits == '0' && digits[1])) continue;
        if (*count == room) more = (struct step_checkpoint *)realloc(*list, (room = 2 * room + 8) * sizeof **list);
        if (more) {
            size_t length = strlen(folder) + strlen(entry->d_name) + 2;
            *list = more;
            one = &more[*count];
            memset(one, 0, sizeof *one);
            if ((one->path = (char *)malloc(length)) != NULL) {
                snprintf(one->path, length, "%s/%s", folder, entry->d_name);
                one->step = strtoull(digits, NULL, 10), one->time = "";
                ++*count;
                step_checkpoint_read(one);
                continue;
            }
        }
        errno = ENOMEM;
        status = STEP_ENOMEM;
    }
    if (errno && status == STEP_OK) status = STEP_EIO;
    if (status != STEP_OK) {
        snprintf(error, error_size, "%s: %s", folder, strerror(errno));
        step_checkpoints_free(*list, *count);
        *list = NULL;
        *count = 0;
    } else if (*count) qsort(*list, *count, sizeof **list, step_checkpoint_order);
    if (directory) closedir(directory);
    return status;
}
#endif
