/* Blocks of an instance: all allocated by create (the snapshot of a non-finite policy and the area of `stage` when
 * first used), freed together. Large ones ask for huge pages. */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RT_MAP_FROM = 1 << 20 }; /* smaller blocks come from the heap */

static void *block_get(struct step_instance *t, size_t bytes, bool *host)
{
    void *p = NULL;
    *host = t->host.alloc != NULL;
    if (*host) {
        p = t->host.alloc(t->host.user, bytes, RT_ALIGN);
        if (p) memset(p, 0, bytes);
    } else if (bytes < RT_MAP_FROM) {
        if (posix_memalign(&p, RT_ALIGN, bytes)) return NULL;
        memset(p, 0, bytes);
    } else {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
        if (t->huge_pages) madvise(p, bytes, MADV_HUGEPAGE);
#endif
    }
    return p;
}

static void block_put(struct step_instance *t, struct rt_block b)
{
    if (b.host) {
        if (t->host.release) t->host.release(t->host.user, b.data, b.bytes);
    } else if (b.bytes < RT_MAP_FROM) free(b.data);
    else munmap(b.data, b.bytes);
}

void *rt_alloc(struct step_instance *t, size_t bytes)
{
    if (t->block_count == t->block_capacity) {
        uint32_t grown = t->block_capacity ? t->block_capacity * 2 : 32;
        struct rt_block *more = realloc(t->blocks, grown * sizeof *more);
        if (!more) return NULL;
        t->blocks = more;
        t->block_capacity = grown;
    }
    if (bytes > SIZE_MAX - 2 * RT_ALIGN) return NULL;
    bytes = (bytes / RT_ALIGN + 1) * RT_ALIGN;
    struct rt_block b = {.bytes = bytes};
    b.data = block_get(t, bytes, &b.host);
    if (b.data) t->blocks[t->block_count++] = b;
    return b.data;
}

void *rt_alloc_device(struct step_instance *t, size_t bytes)
{
    void *p = rt_alloc(t, bytes);
    if (p) t->measured_bytes += bytes;
    return p;
}

void rt_release_all(struct step_instance *t)
{
    for (uint32_t i = 0; i < t->block_count; i++) block_put(t, t->blocks[i]);
    free(t->blocks);
    t->blocks = NULL;
    t->block_count = 0;
}

bool rt_take(void *to, size_t bytes, const void *from)
{
    size_t size;
    memset(to, 0, bytes);
    if (!from) return false;
    memcpy(&size, from, sizeof size);
    if (size < sizeof size) return false;
    memcpy(to, from, size < bytes ? size : bytes);
    return true;
}

void rt_give(void *to, const void *from, size_t bytes)
{
    size_t size;
    memcpy(&size, to, sizeof size);
    size_t n = size < bytes ? size : bytes;
    if (n > sizeof size) memcpy((char *)to + sizeof size, (const char *)from + sizeof size, n - sizeof size);
}
