/* Kinds of devices. Everything that the runtime does to a device's memory or asks it to compute goes through a row of
 * this table; README.md says how to add one. The CPU's row is in every object (device_cpu.c); another is in objects
 * compiled for it, which name it in their tables (program->gpu: device_cuda.c).
 *
 * Addresses of a device are plain pointers that only its row may follow, unless `shared` says that the host may too.
 * Commands of one device run in the order of their launch, and a copy begins after those launched before it and has
 * ended when it returns. What fails on the way (a driver that is gone) is told to rt_give_up, and the call in progress
 * ends with it. A NULL entry means: nothing to do. */
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H
#include <stdbool.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>

struct rt_device;
struct step_instance;
struct rt_worker;

enum rt_direction { RT_TO_DEVICE, RT_FROM_DEVICE, RT_BETWEEN };

struct rt_device_ops {
    char name[7]; /* for messages: "cpu" */
    uint8_t kind; /* as DLPack numbers kinds of devices; 0: tensors are not shown where they lie */
    bool shared;  /* the host reads and writes its memory in place: then `part` and `constants` are NULL */
    /* Whether the program runs on the devices of that name here ("cuda:0,1", NULL: as compiled). */
    step_status (*check)(struct step_instance *, const char *devices);
    /* A device of this process before its first allocation and after its last block was freed. Failure: rt_fail(NULL,
     * ..) was called. */
    step_status (*open)(struct rt_device *);
    void (*close)(struct rt_device *);
    /* Threads of the host that work for each device, `asked` (0: open) or fewer; NULL: one. */
    uint32_t (*workers)(struct step_instance *, uint32_t asked);
    void *(*alloc)(struct rt_device *, size_t bytes); /* zeroed, 64-byte aligned; NULL: out of memory */
    void (*free)(struct rt_device *, void *, size_t bytes);
    int32_t (*number)(const struct rt_device *); /* among those of its kind; NULL: 0 */
    /* Of a device; between: also from another one of the same kind. */
    void (*copy)(struct rt_device *, void *to, const void *from, size_t bytes, enum rt_direction);
    /* The device's part of a tensor, dense at `part` in its memory, from or into the whole one of the host (strides in
     * bytes); and what kernels only read, put where they can. device_staged.c has both for rows with `copy`. */
    void (*part)(struct rt_device *, const struct stepc_slot *, char *part, char *host, const int64_t *stride,
                 enum rt_direction);
    char *(*constants)(struct rt_device *, const void *data, size_t bytes); /* NULL: out of memory */
    /* Piece `chunk` of `chunks` of a kernel, in an object with a team; an entry as one function. `arguments` and
     * `buffers` hold addresses of the worker's device. */
    void (*launch)(struct rt_worker *, const struct stepc_command *, void *const *arguments, uint32_t chunk,
                   uint32_t chunks);
    void (*launch_entry)(struct rt_worker *, const struct stepc_entry *, void *const *buffers);
    void (*meet)(struct rt_device *); /* until all that was launched has ended; with step_instance.post: see `steps` */
    /* Whether an input may be this array of the device's own memory: then `part` takes it by RT_BETWEEN. */
    bool (*takes)(const struct step_instance *, const struct step_array *);
    /* What was given to the stream of a host comes before what is given to the device from now on. */
    void (*follow)(struct rt_device *, void *stream);
    /* Steps k to n of a call that needs no decision of the host, which are launched one behind another; their results
     * come some steps later. `batches`: places at which their inputs may wait; NULL: one. `ready`: the step before
     * left nothing open that they would have to ask for. */
    bool (*ready)(const struct rt_device *);
    step_status (*steps)(struct step_instance *, uint64_t k, uint64_t n, struct step_result *results);
    uint32_t (*batches)(const struct step_instance *);
};
#endif
