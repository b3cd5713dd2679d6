/* Blocks of an instance, of the host and of its devices: all allocated by create (the snapshot of a non-finite policy
 * and the area of `stage` when first used), freed together. Large ones of the host ask for huge pages. */
#include "runtime/comm_rows.h"
#include <stepc/step_tools.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <sys/syscall.h>

enum { RT_MAP_FROM = 1 << 20 }; /* smaller blocks come from the heap */

void *rt_host_get(struct step_instance *t, size_t bytes)
{
    void *p = NULL;
    if (!t->host.alloc && bytes >= RT_MAP_FROM) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
        if (t->huge_pages) st_call(madvise, p, bytes, MADV_HUGEPAGE);
#endif
        return p;
    }
    if (t->host.alloc) p = t->host.alloc(t->host.user, bytes, RT_ALIGN);
    else if (posix_memalign(&p, RT_ALIGN, bytes)) return NULL;
    return p ? memset(p, 0, bytes) : NULL;
}

void rt_host_put(struct step_instance *t, void *data, size_t bytes)
{
    if (t->host.alloc) {
        if (t->host.release) t->host.release(t->host.user, data, bytes);
    } else if (bytes < RT_MAP_FROM) free(data);
    else munmap(data, bytes);
}

static void *block_add(struct step_instance *t, struct rt_device *d, size_t bytes)
{
    struct rt_block *b = bytes > SIZE_MAX - 2 * RT_ALIGN ? NULL : malloc(sizeof *b);
    if (!b) return NULL;
    bytes = (bytes / RT_ALIGN + 1) * RT_ALIGN;
    *b = (struct rt_block){t->blocks, d ? t->device_ops->alloc(d, bytes) : rt_host_get(t, bytes), bytes, d};
    if (!b->data) return free(b), NULL;
    t->blocks = b;
    return b->data;
}

void *rt_alloc(struct step_instance *t, size_t bytes) { return block_add(t, NULL, bytes); }

void *rt_alloc_device(struct rt_device *d, size_t bytes) { return block_add(d->instance, d, bytes); }

void rt_release_all(struct step_instance *t)
{
    const struct rt_device_ops *ops = t->device_ops;
    while (t->blocks) { /* the devices' lie behind those that know them */
        struct rt_block *b = t->blocks;
        if (b->device) ops->free(b->device, b->data, b->bytes);
        if (b->data == t->devices)
            while (ops->close && t->opened) ops->close(&t->devices[--t->opened]);
        if (!b->device) rt_host_put(t, b->data, b->bytes);
        t->blocks = b->before;
        free(b);
    }
    free(t->staged);
    free(t->staged_live);
    rt_gate_free(t);
    free(t);
}

const void *rt_view(struct rt_device *d, const void *at, void *buffer, size_t bytes)
{
    const struct rt_device_ops *ops = d->instance->device_ops;
    if (ops->shared) return at;
    ops->copy(d, buffer, at, bytes, RT_FROM_DEVICE);
    return buffer;
}

double rt_view_number(struct rt_device *d, const void *at, uint32_t dtype)
{
    const struct rt_device_ops *ops = d->instance->device_ops;
    uint64_t buffer = 0;
    if (!ops->shared) ops->copy(d, &buffer, at, rt_dtype_bytes(dtype), RT_FROM_DEVICE);
    return rt_number_at(ops->shared ? at : &buffer, dtype, 0);
}

size_t rt_sized(const void *from)
{
    size_t size = 0;
    if (from) memcpy(&size, from, sizeof size);
    return size % 8 || size > 4096 ? 0 : size;
}

bool rt_take(void *to, size_t bytes, const void *from)
{
    size_t size = rt_sized(from);
    memset(to, 0, bytes);
    if (size) memcpy(to, from, size < bytes ? size : bytes);
    return size > 0;
}

void rt_give(void *to, const void *from, size_t bytes)
{
    size_t size = rt_sized(to), n = size < bytes ? size : bytes;
    if (n > sizeof size) memcpy((char *)to + sizeof size, (const char *)from + sizeof size, n - sizeof size);
}
