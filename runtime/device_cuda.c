/* Objects compiled for CUDA on this machine. The driver is opened when such an object is asked to run, so that the
 * object itself loads anywhere; what is missing is said in words: the driver, a device, code for the device. Launching
 * kernels is not supported yet. */
#include "runtime/rt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* numbers of the driver's attributes */

struct driver {
    int (*init)(unsigned);
    int (*device_count)(int *);
    int (*device)(int *, int);
    int (*attribute)(int *, int, int);
    int (*error_name)(int, const char **);
};

static bool open_driver(struct driver *d, void **library)
{
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"cuInit", &d->init},
                   {"cuDeviceGetCount", &d->device_count},
                   {"cuDeviceGet", &d->device},
                   {"cuDeviceGetAttribute", &d->attribute},
                   {"cuGetErrorName", &d->error_name}};
    *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; *library && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(*library, symbols[i].name);
        if (!symbol) return false;
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    return *library != NULL;
}

/* Code for sm_80 also runs on later devices of the same generation: sm_86, sm_89. */
static bool has_code(const struct stepc_cuda *cuda, int major, int minor)
{
    for (uint32_t i = 0; i < cuda->image_count; i++) {
        int number = 0;
        char letter = 0;
        int fields = sscanf(cuda->images[i].arch, "sm_%d%c", &number, &letter);
        if (fields >= 1 && number / 10 == major && (fields == 1 ? number % 10 <= minor : number % 10 == minor))
            return true;
    }
    return false;
}

static step_status describe_device(const struct stepc_cuda *cuda, const struct driver *d)
{
    int device = 0, major = 0, minor = 0;
    char archs[128] = "";
    for (uint32_t i = 0; i < cuda->image_count; i++) {
        size_t n = strlen(archs);
        snprintf(archs + n, sizeof archs - n, "%s%s", i ? "," : "", cuda->images[i].arch);
    }
    if (d->device(&device, 0) || d->attribute(&major, CAPABILITY_MAJOR, device) ||
        d->attribute(&minor, CAPABILITY_MINOR, device))
        return rt_fail(NULL, STEP_EDEVICE, "the CUDA driver does not describe its first device");
    if (!has_code(cuda, major, minor))
        return rt_fail(NULL, STEP_EDEVICE,
                       "this object has code for %s, the device here is sm_%d%d (compile with --cuda-arch sm_%d%d)",
                       archs, major, minor, major, minor);
    return rt_fail(NULL, STEP_EDEVICE, "this object was compiled for CUDA (%s): running on GPUs is not supported yet",
                   archs);
}

static step_status check(const struct stepc_program *p, const char *devices)
{
    const struct stepc_cuda *cuda = p->cuda;
    (void)devices; /* the first one tells what is missing */
    struct driver d;
    void *library;
    int count = 0;
    if (!open_driver(&d, &library)) {
        if (library) dlclose(library);
        return rt_fail(NULL, STEP_EDEVICE,
                       "this object was compiled for CUDA, and there is no CUDA driver here (libcuda.so.1)");
    }
    int status = d.init(0);
    if (!status) status = d.device_count(&count);
    step_status result;
    const char *name = NULL;
    if (status && d.error_name(status, &name)) name = NULL;
    if (status)
        result = rt_fail(NULL, STEP_EDEVICE,
                         "this object was compiled for CUDA, and the CUDA driver does not start: %s",
                         name ? name : "unknown error");
    else if (count == 0)
        result = rt_fail(NULL, STEP_EDEVICE, "this object was compiled for CUDA, and there is no CUDA device here");
    else result = describe_device(cuda, &d);
    return result; /* the driver stays open: it has threads of its own now */
}

/* check lets nothing through, so nothing else is asked for. */
const struct stepc_gpu stepc_part_gpu = {{.name = "cuda", .check = check}};
