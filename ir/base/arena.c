/* Arenas: chunks that double. Under AddressSanitizer a byte beside an allocation is poisoned, and so is a list that was
 * moved to grow: what reads there ends at once, as with memory from malloc. */
#include "ir/base/arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
enum { ARENA_APART = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
enum { ARENA_APART = 0 };
#endif

struct arena_chunk {
    struct arena_chunk *next;
    size_t bytes;
};

enum { ARENA_ALIGN = 16, ARENA_FIRST = 16 * 1024, ARENA_LARGEST = 4 * 1024 * 1024 };

#ifndef STEPC_IN_OBJECT
/* Whether it is the limit on data (frontend/cli/limits.c) that so much more does not fit in, and not the machine's or
 * the shell's. */
static bool is_over_limit(size_t bytes)
{
    struct rlimit most;
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    bool known = f && fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) == 1;
    if (f) fclose(f);
    known = known && getrlimit(RLIMIT_DATA, &most) == 0 && most.rlim_cur != RLIM_INFINITY;
    size_t used = pages * (size_t)sysconf(_SC_PAGESIZE) + ARENA_LARGEST; /* malloc asks for more at a time */
    return known && (used > most.rlim_cur || bytes > most.rlim_cur - used);
}
#endif

static _Noreturn void arena_oom(size_t bytes)
{
#ifdef STEPC_IN_OBJECT /* an object never exits; nothing in it uses an arena, so this is for the linker only */
    (void)bytes;
    __builtin_trap();
#else
    bool limited = is_over_limit(bytes);
    char wanted[40] = "for what is asked";
    if (bytes != SIZE_MAX) snprintf(wanted, sizeof wanted, "%zu bytes wanted", bytes);
    fprintf(stderr, "stepc: error: out of memory (%s%s)\n", wanted,
            limited ? ", more than --limit memory= allows" : "");
    fflush(NULL); /* no more than that: other threads may be at work */
    _exit(3);
#endif
}

static void arena_add_chunk(struct arena *a, size_t bytes)
{
    size_t size = a->chunk ? a->chunk->bytes * 2 : ARENA_FIRST;
    if (size > ARENA_LARGEST) size = ARENA_LARGEST;
    if (bytes > SIZE_MAX - 2 * ARENA_ALIGN) arena_oom(bytes);
    if (size < bytes + ARENA_ALIGN) size = bytes + ARENA_ALIGN;
    struct arena_chunk *chunk = calloc(1, sizeof *chunk + size);
    if (!chunk) arena_oom(size);
    chunk->next = a->chunk;
    chunk->bytes = size;
    a->chunk = chunk;
    a->at = (char *)(chunk + 1);
    a->end = a->at + size;
    ASAN_POISON_MEMORY_REGION(a->at, size);
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - 2 * ARENA_ALIGN - ARENA_APART) arena_oom(bytes);
    size_t rounded = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN + ARENA_APART;
    if ((size_t)(a->end - a->at) < rounded || !a->at) arena_add_chunk(a, rounded);
    void *p = a->at;
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    a->at += rounded;
    a->total += rounded;
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) arena_oom(SIZE_MAX);
    return arena_alloc(a, bytes);
}

void *arena_copy(struct arena *a, const void *from, size_t bytes)
{
    void *p = arena_alloc(a, bytes);
    if (bytes) memcpy(p, from, bytes);
    return p;
}

char *arena_string_n(struct arena *a, const char *from, size_t length)
{
    char *p = arena_alloc(a, length + 1);
    if (length) memcpy(p, from, length);
    return p;
}

char *arena_string(struct arena *a, const char *from) { return arena_string_n(a, from, strlen(from)); }

char *arena_vformat(struct arena *a, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    char *at = a->at; /* it mostly fits there; where it does not, that end is left behind */
    size_t room = (size_t)(a->end - at);
    ASAN_UNPOISON_MEMORY_REGION(at, room);
    int n = vsnprintf(at, room, format, args);
    ASAN_POISON_MEMORY_REGION(at, room);
    char *p = arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
    if (n < 0) *p = 0;
    else if (p != at) vsnprintf(p, (size_t)n + 1, format, again);
    va_end(again);
    return p;
}

char *arena_format(struct arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *p = arena_vformat(a, format, args);
    va_end(args);
    return p;
}

void arena_free(struct arena *a)
{
    for (struct arena_chunk *c = a->chunk, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    memset(a, 0, sizeof *a);
}

void *arena_grow(struct arena *a, void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) return items;
    size_t grown = *capacity ? *capacity * 2 : 8;
    void *p = arena_array(a, grown, size);
    if (count) memcpy(p, items, count * size);
    if (count) ASAN_POISON_MEMORY_REGION(items, *capacity * size);
    *capacity = grown;
    return p;
}
