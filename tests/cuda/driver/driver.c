/* The functions of the driver. Parameters are as in its interface; a device's address and a handle are pointers. */
#include "stand_in.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_CURRENT = 16, PAGE = 4096, WRONG = 86 };

const char *const kind_names[] = {"",       "block of memory", "block of pinned memory", "stream", "event",
                                  "module", "graph",           "executable graph"};
struct thing *things;      /* that are there */
static struct thing *lost; /* that have gone, the last one first: a host may live for thousands of steps */
static struct context contexts[MOST_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct context *current[MOST_CURRENT];
static _Thread_local int depth;
static bool ready, wrong;
static pid_t user; /* the process that has called cuInit; its children cannot */
static struct {
    const char *name;
    unsigned long calls;
} counts[64];
static unsigned long most_graphs; /* that waited in one stream */

void report(const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "stand-in CUDA driver: %s\n", text);
    wrong = true;
}

const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

__attribute__((destructor)) static void at_the_end(void)
{
    if (user != getpid()) return;
    for (int i = 0; i < MOST_DEVICES; i++)
        if (contexts[i].retained && !contexts[i].failed) report("the context of device %d was not released", i);
    FILE *file = *setting("STAND_IN_COUNTS", "") ? fopen(getenv("STAND_IN_COUNTS"), "w") : NULL;
    for (int i = 0; file && counts[i].name; i++) fprintf(file, "%s %lu\n", counts[i].name, counts[i].calls);
    if (file) fprintf(file, "most_graphs_waiting %lu\n", most_graphs);
    if (file) fclose(file);
    if (wrong) _exit(WRONG);
}

int capability(void)
{
    int major = 8, minor = 0;
    sscanf(setting("STAND_IN_CAPABILITY", "8.0"), "%d.%d", &major, &minor);
    return 10 * major + minor;
}

/* ---------------------------------------------------------------- what every function begins with */

static int device_count(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int there = atoi(setting("STAND_IN_DEVICES", "1")), n = 0;
    if (!visible) return there < MOST_DEVICES ? there : MOST_DEVICES;
    if (strncmp(visible, "MIG-", 4) == 0) return there > 0; /* of slices of cards one is seen */
    for (const char *at = visible; *at; at += strcspn(at, ","), at += *at == ',') {
        if (*at < '0' || *at > '9' || atoi(at) >= there) break; /* what follows is not seen either */
        n++;
    }
    return n;
}

static size_t memory(void) { return (size_t)strtoull(setting("STAND_IN_MEMORY", "17179869184"), NULL, 10); }

/* STAND_IN_FAIL=NAME:N:STATUS */
static int told_to_fail(const char *name)
{
    static int calls;
    const char *what = setting("STAND_IN_FAIL", "");
    size_t n = strlen(name);
    int at = 0, status = 0;
    if (strncmp(what, name, n) != 0 || sscanf(what + n, ":%d:%d", &at, &status) != 2 || (++calls != at && at))
        return SUCCESS;
    return status;
}

int begin(const char *name, bool context)
{
    pthread_mutex_lock(&lock);
    int at = 0;
    while (counts[at].name && strcmp(counts[at].name, name) != 0) at++;
    counts[at].name = name;
    counts[at].calls++;
    if (!ready || user != getpid()) return NOT_INITIALIZED;
    struct context *c = depth ? current[depth - 1] : NULL;
    int status = told_to_fail(name);
    if (c && (status == 214 || status / 100 == 7)) c->failed = status; /* such errors stay */
    if (status || !context) return status;
    if (!c) report("%s: no context is current", name);
    return c ? c->failed : INVALID_CONTEXT;
}

int end(int status)
{
    pthread_mutex_unlock(&lock);
    return status;
}

const struct context *current_context(void) { return current[depth - 1]; }

void give_way(void)
{
    pthread_mutex_unlock(&lock);
    usleep(200);
    pthread_mutex_lock(&lock);
}

#define BEGIN_WITHOUT(name) \
    int status = begin(name, false); \
    if (status) return end(status)

struct thing *make(enum kind kind)
{
    struct thing *t = calloc(1, sizeof *t);
    if (!t) abort();
    *t = (struct thing){.next = things, .kind = kind, .context = depth ? current[depth - 1] : NULL};
    return things = t;
}

void end_thing(struct thing *t)
{
    if (t->gone) return; /* by another thread, while this one waited */
    struct thing **at = &things;
    while (*at && *at != t) at = &(*at)->next;
    if (*at) *at = t->next;
    t->gone = true;
    t->gone_before = lost;
    lost = t;
}

/* The handle, if it is one of that kind in the current context. Streams 0 and 1 are the context's own. */
struct thing *of(const char *name, void *handle, enum kind kind)
{
    struct context *c = current[depth - 1];
    if (kind == STREAM && (uintptr_t)handle <= 1) {
        if (!c->own) (c->own = make(STREAM))->unowned = true;
        return c->own;
    }
    for (struct thing *t = things; t; t = t->next) {
        if (t != handle || t->kind != kind) continue;
        if (t->context != current[depth - 1])
            report("%s: a %s of device %d, while device %d is current", name, kind_names[kind], t->context->ordinal,
                   current[depth - 1]->ordinal);
        else return t;
        return NULL;
    }
    struct thing *t = lost;
    while (t && (t != handle || t->kind != kind)) t = t->gone_before;
    if (t) report("%s: a %s that was destroyed", name, kind_names[kind]);
    else report("%s: %p is no %s", name, handle, kind_names[kind]);
    return NULL;
}

/* What may wait for a device, or for all of its work, is refused while a stream is captured, in whatever context: of a
 * capture that is local to a thread, to that thread. The graph is lost then ("cuThreadExchangeStreamCaptureMode"). */
bool capturing(const char *name)
{
    bool any = false;
    for (struct thing *t = things; t; t = t->next) {
        if (t->kind != STREAM || t->gone || !t->capture || t->capture_mode == RELAXED) continue;
        if (t->capture_mode == THREAD_LOCAL && !pthread_equal(t->capture_thread, pthread_self())) continue;
        report("%s: not while a stream is captured", name);
        any = t->capture->lost = true;
    }
    return any;
}

/* ---------------------------------------------------------------- devices and contexts */

API cuInit(unsigned flags)
{
    pthread_mutex_lock(&lock);
    if (!ready) user = getpid();
    ready = true;
    if (user != getpid()) return end(NOT_INITIALIZED);
    int status = told_to_fail("cuInit");
    return end(flags ? INVALID_VALUE : status ? status : device_count() ? SUCCESS : NO_DEVICE);
}

API cuDriverGetVersion(int *version)
{
    *version = atoi(setting("STAND_IN_VERSION", "13000"));
    return SUCCESS;
}

API cuGetErrorName(int status, const char **name)
{
    static const struct {
        int status;
        const char *name;
    } names[] = {{SUCCESS, "CUDA_SUCCESS"},
                 {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                 {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                 {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
                 {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
                 {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
                 {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
                 {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
                 {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
                 {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
                 {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
                 {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                 {INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
                 {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                 {999, "CUDA_ERROR_UNKNOWN"},
                 {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
                 {801, "CUDA_ERROR_NOT_SUPPORTED"},
                 {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                 {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                 {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"}};
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status) *name = names[i].name;
    return *name ? SUCCESS : INVALID_VALUE;
}

API cuGetErrorString(int status, const char **text)
{
    (void)status;
    *text = "as the stand-in was told, or found";
    return SUCCESS;
}

API cuDeviceGetCount(int *count)
{
    BEGIN_WITHOUT("cuDeviceGetCount");
    *count = device_count();
    return end(SUCCESS);
}

API cuDeviceGet(int *device, int ordinal)
{
    BEGIN_WITHOUT("cuDeviceGet");
    *device = ordinal;
    return end(ordinal >= 0 && ordinal < device_count() ? SUCCESS : INVALID_DEVICE);
}

API cuDeviceGetName(char *name, int bytes, int device)
{
    BEGIN_WITHOUT("cuDeviceGetName");
    bool slice = strncmp(setting("CUDA_VISIBLE_DEVICES", ""), "MIG-", 4) == 0;
    snprintf(name, (size_t)bytes, "stand-in %d%s", device, slice ? " MIG 1g.10gb" : "");
    return end(SUCCESS);
}

API cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    BEGIN_WITHOUT("cuDeviceTotalMem");
    (void)device;
    *bytes = memory();
    return end(SUCCESS);
}

API cuDeviceGetAttribute(int *value, int attribute, int device)
{
    BEGIN_WITHOUT("cuDeviceGetAttribute");
    *value = attribute == 75 ? capability() / 10 : attribute == 76 ? capability() % 10 : 0;
    (void)device;
    return end(attribute == 75 || attribute == 76 ? SUCCESS : INVALID_VALUE);
}

API cuDevicePrimaryCtxRetain(void **context, int device)
{
    BEGIN_WITHOUT("cuDevicePrimaryCtxRetain");
    if (device < 0 || device >= device_count()) return end(INVALID_DEVICE);
    struct context *c = &contexts[device];
    if (!c->retained++) *c = (struct context){.ordinal = device, .retained = 1};
    *context = c;
    return end(SUCCESS);
}

API cuDevicePrimaryCtxRelease_v2(int device)
{
    BEGIN_WITHOUT("cuDevicePrimaryCtxRelease");
    struct context *c = &contexts[device];
    if (!c->retained) return end(INVALID_CONTEXT);
    if (--c->retained) return end(SUCCESS);
    for (struct thing *t = things; t; t = t->next) {
        if (t->context != c || t->gone) continue;
        if (!c->failed && !t->unowned)
            report("device %d: a %s was left (%zu bytes)", device, kind_names[t->kind], t->bytes);
        end_thing(t);
        ops_free(&t->ops);
    }
    c->failed = 0;
    return end(SUCCESS);
}

API cuCtxPushCurrent_v2(void *context)
{
    BEGIN_WITHOUT("cuCtxPushCurrent");
    struct context *c = context;
    if (c < contexts || c >= contexts + MOST_DEVICES || !c->retained || depth == MOST_CURRENT) {
        report("cuCtxPushCurrent: a context that nobody retains, or too many");
        return end(INVALID_CONTEXT);
    }
    current[depth++] = c;
    return end(SUCCESS);
}

API cuCtxPopCurrent_v2(void **context)
{
    BEGIN_WITHOUT("cuCtxPopCurrent");
    if (!depth) return end(INVALID_CONTEXT);
    *context = current[--depth];
    return end(SUCCESS);
}

API cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    BEGIN_WITHOUT("cuDeviceCanAccessPeer");
    if (device < 0 || device >= device_count() || peer < 0 || peer >= device_count()) return end(INVALID_DEVICE);
    *can = device != peer && atoi(setting("STAND_IN_PEERS", "1"));
    return end(SUCCESS);
}

API cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    BEGIN("cuCtxEnablePeerAccess");
    struct context *own = current[depth - 1], *peer = context;
    if (flags || peer < contexts || peer >= contexts + MOST_DEVICES || !peer->retained || peer == own)
        return end(INVALID_VALUE);
    if (!atoi(setting("STAND_IN_PEERS", "1"))) return end(PEER_ACCESS_UNSUPPORTED);
    bool already = own->reaches[peer->ordinal];
    own->reaches[peer->ordinal] = true;
    return end(already ? PEER_ACCESS_ALREADY_ENABLED : SUCCESS);
}

/* ---------------------------------------------------------------- memory */

static size_t used(const struct context *c)
{
    size_t bytes = 0;
    for (struct thing *t = things; t; t = t->next)
        if (t->kind == BLOCK && !t->gone && t->context == c) bytes += t->bytes;
    return bytes;
}

/* STAND_IN_USED: what other processes have of it. */
static size_t free_memory(const struct context *c)
{
    size_t bytes = used(c) + (size_t)strtoull(setting("STAND_IN_USED", "0"), NULL, 10);
    return bytes < memory() ? memory() - bytes : 0;
}

API cuMemGetInfo_v2(size_t *left, size_t *all)
{
    BEGIN("cuMemGetInfo");
    *all = memory();
    *left = free_memory(current[depth - 1]);
    return end(SUCCESS);
}

/* It ends where nobody may touch, and begins behind such a place. */
static struct thing *make_guarded(enum kind kind, size_t bytes)
{
    size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    char *all = mmap(NULL, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || mprotect(all + PAGE, room, PROT_READ | PROT_WRITE)) return NULL;
    struct thing *b = make(kind);
    b->bytes = bytes;
    b->data = all + PAGE + (room - bytes) / 64 * 64;
    return b;
}

/* Its memory is never given out again. */
static void end_guarded(struct thing *b)
{
    char *first = (char *)((uintptr_t)b->data / PAGE * PAGE);
    end_thing(b);
    mmap(first, (size_t)(b->data + b->bytes - first), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

API cuMemAlloc_v2(void **address, size_t bytes)
{
    BEGIN("cuMemAlloc");
    if (capturing("cuMemAlloc")) return end(CAPTURE_UNSUPPORTED);
    if (!bytes) return end(INVALID_VALUE);
    if (bytes > free_memory(current[depth - 1])) return end(OUT_OF_MEMORY);
    struct thing *b = make_guarded(BLOCK, bytes);
    if (!b) return end(OUT_OF_MEMORY);
    memset(b->data, 0xff, bytes);
    *address = (void *)((uintptr_t)b->data | (uintptr_t)1 << ADDRESS_BIT);
    return end(SUCCESS);
}

API cuMemFree_v2(void *address)
{
    BEGIN("cuMemFree");
    if (capturing("cuMemFree")) return end(CAPTURE_UNSUPPORTED);
    struct context *c = current[depth - 1];
    struct thing *b = block_of(c, address, 0);
    if (!b || b->context != c || b->data != inside(address)) {
        report("cuMemFree: %p is no block of device %d", address, c->ordinal);
        return end(INVALID_VALUE);
    }
    status = drain_context(c);
    end_guarded(b);
    return end(status);
}

API cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    BEGIN("cuMemHostAlloc");
    if (capturing("cuMemHostAlloc")) return end(CAPTURE_UNSUPPORTED);
    (void)flags;
    struct thing *b = bytes ? make_guarded(PINNED, bytes) : NULL;
    if (!b) return end(bytes ? OUT_OF_MEMORY : INVALID_VALUE);
    *address = b->data;
    return end(SUCCESS);
}

API cuMemFreeHost(void *address)
{
    BEGIN("cuMemFreeHost");
    if (capturing("cuMemFreeHost")) return end(CAPTURE_UNSUPPORTED);
    for (struct thing *t = things; t; t = t->next)
        if (t->kind == PINNED && !t->gone && t->data == address) {
            status = drain_context(t->context);
            end_guarded(t);
            return end(status);
        }
    report("cuMemFreeHost: %p is no block of it", address);
    return end(INVALID_VALUE);
}

static bool pinned(const char *at, size_t bytes)
{
    for (struct thing *t = things; t; t = t->next)
        if (t->kind == PINNED && !t->gone && at >= t->data && at + bytes <= t->data + t->bytes) return true;
    return false;
}

/* ---------------------------------------------------------------- streams */

API cuStreamCreate(void **stream, unsigned flags)
{
    static int made;
    BEGIN("cuStreamCreate");
    (void)flags;
    struct thing *s = *stream = make(STREAM);
    s->eager = ++made == atoi(setting("STAND_IN_EAGER", "0"));
    return end(SUCCESS);
}

API cuStreamDestroy_v2(void *stream)
{
    BEGIN("cuStreamDestroy");
    struct thing *s = of("cuStreamDestroy", stream, STREAM);
    if (!s) return end(INVALID_HANDLE);
    status = drain(s, NULL, 0);
    end_thing(s);
    return end(status);
}

API cuStreamSynchronize(void *stream)
{
    BEGIN("cuStreamSynchronize");
    struct thing *s = of("cuStreamSynchronize", stream, STREAM);
    if (!s) return end(INVALID_HANDLE);
    return end(capturing("cuStreamSynchronize") ? CAPTURE_UNSUPPORTED : drain(s, NULL, 0));
}

API cuStreamQuery(void *stream)
{
    BEGIN("cuStreamQuery");
    struct thing *s = of("cuStreamQuery", stream, STREAM);
    if (s && capturing("cuStreamQuery")) return end(CAPTURE_UNSUPPORTED);
    return end(s ? drain_so_far(s) : INVALID_HANDLE);
}

int enqueue(const char *name, void *stream, const struct op *op)
{
    struct thing *s = of(name, stream, STREAM);
    if (!s) return INVALID_HANDLE;
    if (s->capture && op->kind != OP_KERNEL && op->kind != OP_OTHERS) { /* what came before is none of the graph's */
        report("%s: while the stream is captured", name);
        s->capture->lost = true;
        return CAPTURE_UNSUPPORTED;
    }
    op_add(s->capture ? &s->capture->ops : &s->ops, op);
    unsigned long graphs = 0;
    for (const struct op *one = s->ops.first; one && op->kind == OP_GRAPH; one = one->next)
        graphs += one->kind == OP_GRAPH;
    most_graphs = graphs > most_graphs ? graphs : most_graphs;
    int status = s->eager && !s->capture ? drain_so_far(s) : SUCCESS;
    return status == NOT_READY ? SUCCESS : status;
}

static void *kept(const void *from, size_t bytes)
{
    void *data = malloc(bytes + 1);
    if (!data) abort();
    return memcpy(data, from, bytes);
}

API cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream)
{
    BEGIN("cuMemsetD8Async");
    return end(enqueue("cuMemsetD8Async", stream,
                       &(struct op){.kind = OP_SET_BYTES, .to = to, .value = value, .bytes = bytes}));
}

API cuMemsetD32Async(void *to, unsigned value, size_t count, void *stream)
{
    BEGIN("cuMemsetD32Async");
    return end(enqueue("cuMemsetD32Async", stream,
                       &(struct op){.kind = OP_SET_WORDS, .to = to, .value = value, .bytes = 4 * count}));
}

API cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    BEGIN("cuMemcpyHtoDAsync");
    char *source = (char *)(uintptr_t)from; /* pageable memory is read before the function returns */
    return end(enqueue("cuMemcpyHtoDAsync", stream,
                       &(struct op){.kind = OP_TO_DEVICE,
                                    .to = to,
                                    .from = pinned(source, bytes) ? source : NULL,
                                    .data = kept(from, bytes),
                                    .bytes = bytes}));
}

API cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    BEGIN("cuMemcpyDtoHAsync");
    memset(to, 0xa5, bytes);
    return end(
        enqueue("cuMemcpyDtoHAsync", stream,
                &(struct op){.kind = OP_FROM_DEVICE, .to = to, .from = (char *)(uintptr_t)from, .bytes = bytes}));
}

API cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream)
{
    BEGIN("cuMemcpyAsync");
    return end(enqueue("cuMemcpyAsync", stream,
                       &(struct op){.kind = OP_BETWEEN, .to = to, .from = (char *)(uintptr_t)from, .bytes = bytes}));
}

struct rows { /* CUDA_MEMCPY2D */
    size_t from_x, from_y;
    int from_kind;
    const void *from_host, *from, *from_array;
    size_t from_pitch, to_x, to_y;
    int to_kind;
    void *to_host, *to, *to_array;
    size_t to_pitch, width, height;
};

API cuMemcpy2DAsync_v2(const struct rows *r, void *stream)
{
    enum { UNIFIED = 4 };
    BEGIN("cuMemcpy2DAsync");
    bool bad = r->from_x || r->from_y || r->to_x || r->to_y || r->from_kind != UNIFIED || r->to_kind != UNIFIED ||
               r->from_pitch > INT32_MAX || r->to_pitch > INT32_MAX; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
    if (bad || !r->width || !r->height || r->from_pitch < r->width || r->to_pitch < r->width) {
        report("cuMemcpy2DAsync: rows that there are not");
        return end(INVALID_VALUE);
    }
    return end(enqueue("cuMemcpy2DAsync", stream,
                       &(struct op){.kind = OP_ROWS,
                                    .to = r->to,
                                    .from = (char *)(uintptr_t)r->from,
                                    .bytes = r->width,
                                    .rows = r->height,
                                    .from_pitch = r->from_pitch,
                                    .to_pitch = r->to_pitch}));
}

/* ---------------------------------------------------------------- for stand-ins of other libraries */

int stand_in_enqueue(void *stream, int (*work)(void *), void (*end_of)(void *), void *of);
char *stand_in_place(const void *address, uint64_t bytes, const char *who);
int stand_in_device(void);

/* The one that is current in this thread; -1: none. */
API stand_in_device(void) { return depth ? current[depth - 1]->ordinal : -1; }

API stand_in_enqueue(void *stream, int (*work)(void *), void (*end_of)(void *), void *what)
{
    BEGIN("stand_in_enqueue");
    return end(
        enqueue("stand_in_enqueue", stream, &(struct op){.kind = OP_OTHERS, .work = work, .end = end_of, .of = what}));
}

/* Called by such work. */
__attribute__((visibility("default"))) char *stand_in_place(const void *address, uint64_t bytes, const char *who)
{
    if (block_of(NULL, address, bytes)) return inside(address);
    report("%s: %llu bytes at %p are not inside of a block", who, (unsigned long long)bytes, address);
    return NULL;
}

/* ---------------------------------------------------------------- events */

API cuEventCreate(void **event, unsigned flags)
{
    BEGIN("cuEventCreate");
    (void)flags;
    *event = make(EVENT);
    return end(SUCCESS);
}

API cuEventDestroy_v2(void *event)
{
    BEGIN("cuEventDestroy");
    struct thing *e = of("cuEventDestroy", event, EVENT);
    if (!e) return end(INVALID_HANDLE);
    if (e->done < e->asked) status = drain(e->on, e, e->asked);
    end_thing(e);
    return end(status);
}

API cuEventRecord(void *event, void *stream)
{
    BEGIN("cuEventRecord");
    struct thing *e = of("cuEventRecord", event, EVENT), *s = of("cuEventRecord", stream, STREAM);
    if (!e || !s) return end(INVALID_HANDLE);
    e->on = s;
    return end(enqueue("cuEventRecord", stream, &(struct op){.kind = OP_RECORD, .event = e, .generation = ++e->asked}));
}

API cuEventSynchronize(void *event)
{
    BEGIN("cuEventSynchronize");
    struct thing *e = of("cuEventSynchronize", event, EVENT);
    if (!e) return end(INVALID_HANDLE);
    if (capturing("cuEventSynchronize")) return end(CAPTURE_UNSUPPORTED);
    return end(e->done < e->asked ? drain(e->on, e, e->asked) : SUCCESS);
}

API cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    BEGIN("cuStreamWaitEvent");
    struct thing *e = things; /* of any device */
    while (e && (e != event || e->kind != EVENT || e->gone)) e = e->next;
    if (!e) report("cuStreamWaitEvent: %p is no event", event);
    (void)flags;
    if (!e) return end(INVALID_HANDLE);
    return end(enqueue("cuStreamWaitEvent", stream, &(struct op){.kind = OP_WAIT, .event = e, .generation = e->asked}));
}
