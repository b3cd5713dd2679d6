/* NVIDIA's driver, opened when an object compiled for CUDA is asked to run, so that the object itself loads anywhere.
 * What is missing is said in words: the driver, a device, code for the device. */
#include "runtime/cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OLDEST = 12000 /* what the driver has to offer: CUDA 12.0 */ };
enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, NO_DEVICE = 100 }; /* the driver's numbers */

#define NVRTC \
    " with an NVRTC that the driver knows (NVRTC 12 for drivers before 580: STEPC_NVRTC), or update the driver"
#define NEWER "there is no code for this device that this driver knows: compile with --cuda-arch for it," NVRTC
/* What a failure means for whoever has to do something about it, where the driver's words do not say. */
static const struct {
    int first, last;
    const char *text;
} advice[] = {
    {3, 3, "the child of a fork behind which the driver was used cannot use it: fork sooner, or spawn"},
    {46, 46, "another process has the device for itself, as its compute mode or MPS allows one only"},
    {200, 200, NEWER},
    {209, 209, NEWER},
    {214, 214,
     "the card's memory is damaged, at least in this place; the system's log has an Xid, this process cannot use "
     "the card any more"},
    {218, 218, "the driver's compiler for PTX does not take it: compile with --cuda-arch for this device itself"},
    {220, 220, "a link between cards is broken; the system's log has an Xid"},
    {222, 222, "the PTX is newer than the driver: compile with --cuda-arch for this device itself, and" NVRTC},
    {701, 701, "the kernel wants more registers or parameters than the device has"},
    {704, 705, ""},
    {708, 708, ""},
    {709, 709, "the host has destroyed or reset the device's context"},
    {711, 713, ""},
    {702, 702, "a watchdog ends kernels that take long, as on cards with a display"},
    {700, 719, "the device's state is lost to this process: it goes on, but has to be started again to use the device"},
    {802, 802, "the driver is being started, or the fabric manager of the machine is not running"},
    {803, 803,
     "the driver's library and the kernel's module are of different versions: restart the machine, or give the "
     "container the driver of its host"},
    {804, 804, "the driver's library for later versions of CUDA does not support this card"},
    {900, 908, "a stream is being captured into a graph, which a step can be no part of"},
    {999, 999, "the system's log may have an Xid; nvidia-smi shows whether the card is still there"},
};

const char *rt_cuda_why(const struct rt_cuda_driver *d, int status, char text[CUDA_TEXT])
{
    const char *name = NULL, *what = NULL, *more = NULL;
    if (d->error_name(status, &name) || !name) name = "unknown error";
    if (d->error_text(status, &what) || !what) what = "of a newer driver";
    for (size_t i = 0; !more && i < sizeof advice / sizeof *advice; i++)
        if (status >= advice[i].first && status <= advice[i].last) more = advice[i].text;
    snprintf(text, CUDA_TEXT, "%s %d (%s)%s%s", name, status, what, more && *more ? "; " : "", more ? more : "");
    return text;
}

static step_status find_functions(struct rt_cuda_driver *d, void *library, const char *path)
{
#define CUDA_SYMBOL(member, name, parameters) {name, &d->member, true},
#define CUDA_LATER_SYMBOL(member, name, parameters) {name, &d->member, false},
    const struct {
        const char *name;
        void *to;
        bool needed;
    } symbols[] = {CUDA_FUNCTIONS(CUDA_SYMBOL) CUDA_LATER_FUNCTIONS(CUDA_LATER_SYMBOL)};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol && symbols[i].needed)
            return rt_fail(NULL, STEP_EDEVICE,
                           "the CUDA driver here (%s) is too old: it lacks %s; one for CUDA %d.0 or later is needed",
                           path, symbols[i].name, OLDEST / 1000);
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    return STEP_OK;
}

/* What hides devices: of those that there are a process sees the ones that this lists, of cards in MIG mode one slice.
 */
static const char *hidden(char text[CUDA_TEXT])
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    bool slice = visible && strncmp(visible, "MIG-", 4) == 0;
    if (!visible) return "";
    snprintf(text, CUDA_TEXT, ", CUDA_VISIBLE_DEVICES=%s%s", visible,
             slice ? " (of MIG slices a process sees one)" : "");
    return text;
}

/* "cuda", "cuda:0", "cuda:1,3" */
static step_status read_devices(const char *devices, struct rt_cuda_host *h)
{
    const char *at = devices ? devices : "cuda";
    bool good = strncmp(at, "cuda", 4) == 0 && (at[4] == 0 || at[4] == ':');
    for (at += good ? 4 : 0; good && *at;) {
        char *end = NULL;
        long n = *++at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        good = n >= 0 && n < 4096 && (*end == ',' || !*end) && h->asked < CUDA_MOST_DEVICES;
        if (good) h->ordinals[h->asked++] = (int)n;
        at = good ? end : at;
    }
    return good ? STEP_OK
                : rt_fail(NULL, STEP_EDEVICE,
                          "devices \"%s\": this object was compiled for CUDA; expected a list like "
                          "cuda:0,1",
                          devices);
}

step_status rt_cuda_open(struct step_instance *t, const char *devices, struct rt_cuda_host *h)
{
    bool ask = !(t->flags & STEP_NO_ENV);
    const char *path = ask ? getenv("STEPC_CUDA_DRIVER") : NULL, *check = ask ? getenv("STEPC_CUDA_CHECK") : NULL;
    char text[CUDA_TEXT];
    int version = 0;
    if (!path || !*path) path = "libcuda.so.1";
    if (check && *check && strcmp(check, "1") != 0)
        return rt_fail(NULL, STEP_EINVAL, "STEPC_CUDA_CHECK=%s: expected 1", check);
    h->check_launches = check && *check;
    step_status bad = read_devices(devices, h);
    if (bad) return bad;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: it has threads of its own */
    if (!library)
        return rt_fail(NULL, STEP_EDEVICE, "this object was compiled for CUDA, and there is no CUDA driver here (%s)",
                       path);
    bad = find_functions(&h->driver, library, path);
    if (bad) return bad;
    int status = h->driver.init(0);
    bool none = status == NO_DEVICE;
    if (!status || none) status = h->driver.version(&version);
    if (!status && !none) status = h->driver.device_count(&h->count);
    if (status)
        return rt_fail(NULL, STEP_EDEVICE, "this object was compiled for CUDA, and the CUDA driver does not start: %s",
                       rt_cuda_why(&h->driver, status, text));
    if (version < OLDEST)
        return rt_fail(NULL, STEP_EDEVICE,
                       "the CUDA driver here is too old: it is for CUDA %d.%d, %d.0 or later is needed", version / 1000,
                       version % 1000 / 10, OLDEST / 1000);
    if (h->count == 0)
        return rt_fail(NULL, STEP_EDEVICE, "this object was compiled for CUDA, and there is no CUDA device here%s",
                       hidden(text));
    for (uint32_t i = 0; i < h->asked; i++)
        if (h->ordinals[i] >= h->count)
            return rt_fail(NULL, STEP_EDEVICE, "devices \"%s\": there is no cuda:%d; the driver shows %d device%s%s",
                           devices, h->ordinals[i], h->count, h->count == 1 ? "" : "s", hidden(text));
    return STEP_OK;
}

/* Chips with a memory that they share with their host, whose code is their own. */
static bool is_tegra(int major, int minor)
{
    return (major == 5 && minor == 3) || (major == 6 && minor == 2) || (major == 7 && minor == 2) ||
           (major == 8 && minor == 7);
}

/* How well an image fits a device: 0, not at all. Code for sm_80 also runs on later devices of the same generation
 * (sm_86, sm_89), the driver compiles PTX for later ones, and a text fits none: what takes it stands in for a driver.
 */
static int fits(const char *arch, int major, int minor)
{
    int number = 0;
    char letter = 0;
    int cubin = sscanf(arch, "sm_%d%c", &number, &letter), own = number / 10, rest = number % 10;
    if (cubin >= 1 && is_tegra(own, rest) != is_tegra(major, minor)) return 0;
    if (cubin == 2) return own == major && (letter == 'a' ? rest == minor : rest <= minor) ? 4000 + number : 0;
    if (cubin == 1) return own == major && rest <= minor ? 3000 + number : 0;
    int ptx = sscanf(arch, "compute_%d%c", &number, &letter);
    if (ptx >= 1) return (ptx == 1 ? number <= 10 * major + minor : number == 10 * major + minor) ? 1000 + number : 0;
    return stepc_cuda_is_text(arch);
}

const struct stepc_cuda_image *rt_cuda_image(const struct rt_cuda_driver *d, const struct stepc_cuda *cuda, int ordinal)
{
    const struct stepc_cuda_image *best = NULL;
    int device = 0, major = 0, minor = 0, most = 0;
    char archs[128] = "", name[64] = "";
    if (d->device(&device, ordinal) || d->attribute(&major, CAPABILITY_MAJOR, device) ||
        d->attribute(&minor, CAPABILITY_MINOR, device) || d->device_name(name, sizeof name, device)) {
        rt_fail(NULL, STEP_EDEVICE, "the CUDA driver does not describe device cuda:%d", ordinal);
        return NULL;
    }
    for (uint32_t i = 0; i < cuda->image_count; i++) {
        if (cuda->images[i].first_kernel) continue; /* another one of an architecture */
        int fit = fits(cuda->images[i].arch, major, minor);
        size_t n = strlen(archs);
        snprintf(archs + n, sizeof archs - n, "%s%s", i ? "," : "", cuda->images[i].arch);
        if (fit > most) most = fit, best = &cuda->images[i];
    }
    if (!best)
        rt_fail(NULL, STEP_EDEVICE,
                "this object has code for %s, cuda:%d (%s) is sm_%d%d (compile with --cuda-arch sm_%d%d)", archs,
                ordinal, name, major, minor, major, minor);
    return best;
}

void rt_cuda_failed(struct rt_device *d, int status, const char *what)
{
    const struct rt_cuda_device *g = d->handle;
    char why[CUDA_TEXT];
    rt_give_up(d->instance, STEP_EDEVICE, "device %u (cuda:%d): %s: %s", d->index, g->ordinal, what,
               rt_cuda_why(&g->host->driver, status, why));
}

int rt_cuda_begin(const struct rt_cuda_device *g) { return g->held ? 0 : g->host->driver.push(g->context); }

struct rt_cuda_device *rt_cuda_enter(struct rt_device *d)
{
    struct rt_cuda_device *g = d->handle;
    int status = rt_cuda_begin(g);
    if (status) rt_cuda_failed(d, status, "its context");
    return status ? NULL : g;
}

int rt_cuda_wait(struct rt_device *d)
{
    enum { NOT_READY = 600, SPIN_NS = 1000000, PAUSE_NS = 20000 };
    struct step_instance *t = d->instance;
    struct rt_cuda_device *g = d->handle;
    const struct rt_cuda_driver *u = &g->host->driver;
    bool looks = t->comm && t->comm->watch && d->maps; /* collectives are planned */
    for (uint64_t begin = looks ? rt_now() : 0, now = begin; looks; now = rt_now()) {
        int status = u->stream_query(g->stream);
        if (status != NOT_READY) return status;
        looks = t->comm->watch(d, now - begin);
        if (now - begin > SPIN_NS) nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    return u->stream_wait(g->stream);
}

void rt_cuda_leave(const struct rt_cuda_device *g)
{
    if (!g->held) g->host->driver.pop(&(void *){NULL});
}
