/* Fails allocations of the program that it is preloaded into: LD_PRELOAD=liballocations.so.
 *
 *   FAULT_AT=N      the N-th allocation from 1 on fails, FAULT_FOREVER=1: and all that follow
 *   FAULT_COUNT=F   at the end the number of allocations is written to file F
 *
 * Only what stepc and a step.so ask for counts, directly or through libc (a FILE's buffer): LLVM and the C++ library
 * end the process when they have no memory, which nobody can change. Children, such as the linker, are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static _Atomic long calls;
static long at;
static bool forever, active;

static bool counts(const void *caller)
{
    struct dl_find_object found;
    if (!active || _dl_find_object((void *)caller, &found) || !found.dlfo_link_map) return false;
    const char *name = found.dlfo_link_map->l_name; /* "": the program */
    return !*name || strstr(name, "/libc.so") || !strstr(name, "/lib");
}

static bool fails(const void *caller)
{
    if (!counts(caller)) return false;
    long n = atomic_fetch_add(&calls, 1) + 1;
    bool now = at && (n == at || (forever && n > at));
    if (now) errno = ENOMEM;
    return now;
}

void *malloc(size_t n) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, n);
}
int posix_memalign(void **p, size_t alignment, size_t n)
{
    if (fails(__builtin_return_address(0))) return ENOMEM;
    *p = __libc_memalign(alignment, n);
    return *p ? 0 : ENOMEM;
}

__attribute__((constructor)) static void begin(void)
{
    char path[4096] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0 || strcmp(program_invocation_short_name, "stepc") != 0)
        return;
    at = getenv("FAULT_AT") ? atol(getenv("FAULT_AT")) : 0;
    forever = getenv("FAULT_FOREVER") != NULL;
    active = true;
}

__attribute__((destructor)) static void end(void)
{
    const char *file = getenv("FAULT_COUNT");
    if (!active || !file) return;
    active = false;
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls)),
        fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, (size_t)n) != n) _exit(99);
    close(fd);
}
