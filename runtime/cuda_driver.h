/* NVIDIA's driver as device_cuda.c uses it: its functions by the names that its library has had since CUDA 11.4, a name
 * with a number at its end where an older form has the plain one, so no header of CUDA is needed to build this. */
#ifndef RUNTIME_CUDA_DRIVER_H
#define RUNTIME_CUDA_DRIVER_H
#include "runtime/comm_rows.h"

#pragma GCC visibility push(hidden)

/* Rows of a copy (CUDA_MEMCPY2D), each `width` bytes long. */
enum { RT_CUDA_UNIFIED = 4 /* any device's address */ };
struct rt_cuda_rows {
    size_t from_x, from_y;
    int from_kind;
    const void *from_host, *from, *from_array;
    size_t from_pitch, to_x, to_y;
    int to_kind;
    void *to_host, *to, *to_array;
    size_t to_pitch, width, height;
};

/* X(member, name in the library, parameters). All return a status: 0 is success. Handles and addresses are pointers. */
/* clang-format off */
#define CUDA_FUNCTIONS(X) \
    X(init, "cuInit", (unsigned)) \
    X(version, "cuDriverGetVersion", (int *)) \
    X(error_name, "cuGetErrorName", (int, const char **)) \
    X(error_text, "cuGetErrorString", (int, const char **)) \
    X(device_count, "cuDeviceGetCount", (int *)) \
    X(device, "cuDeviceGet", (int *, int)) \
    X(device_name, "cuDeviceGetName", (char *, int, int)) \
    X(attribute, "cuDeviceGetAttribute", (int *, int, int)) \
    X(retain, "cuDevicePrimaryCtxRetain", (void **, int)) \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int)) \
    X(push, "cuCtxPushCurrent_v2", (void *)) \
    X(pop, "cuCtxPopCurrent_v2", (void **)) \
    X(can_access, "cuDeviceCanAccessPeer", (int *, int, int)) \
    X(enable_peer, "cuCtxEnablePeerAccess", (void *, unsigned)) \
    X(memory_info, "cuMemGetInfo_v2", (size_t *, size_t *)) \
    X(alloc, "cuMemAlloc_v2", (void **, size_t)) \
    X(free, "cuMemFree_v2", (void *)) \
    X(host_alloc, "cuMemHostAlloc", (void **, size_t, unsigned)) \
    X(host_free, "cuMemFreeHost", (void *)) \
    X(set_bytes, "cuMemsetD8Async", (void *, unsigned char, size_t, void *)) \
    X(set_words, "cuMemsetD32Async", (void *, unsigned, size_t, void *)) \
    X(to_device, "cuMemcpyHtoDAsync_v2", (void *, const void *, size_t, void *)) \
    X(from_device, "cuMemcpyDtoHAsync_v2", (void *, const void *, size_t, void *)) \
    X(between, "cuMemcpyAsync", (void *, const void *, size_t, void *)) \
    X(copy_rows, "cuMemcpy2DAsync_v2", (const struct rt_cuda_rows *, void *)) \
    X(stream_create, "cuStreamCreate", (void **, unsigned)) \
    X(stream_destroy, "cuStreamDestroy_v2", (void *)) \
    X(stream_wait, "cuStreamSynchronize", (void *)) \
    X(stream_query, "cuStreamQuery", (void *)) \
    X(stream_wait_event, "cuStreamWaitEvent", (void *, void *, unsigned)) \
    X(event_create, "cuEventCreate", (void **, unsigned)) \
    X(event_destroy, "cuEventDestroy_v2", (void *)) \
    X(event_record, "cuEventRecord", (void *, void *)) \
    X(event_wait, "cuEventSynchronize", (void *)) \
    X(module_load, "cuModuleLoadDataEx", (void **, const void *, unsigned, const int *, void *const *)) \
    X(module_unload, "cuModuleUnload", (void *)) \
    X(function, "cuModuleGetFunction", (void **, void *, const char *)) \
    X(function_set, "cuFuncSetAttribute", (void *, int, int)) \
    X(launch, "cuLaunchKernel", (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, \
                                 void **, void **)) \
    X(capture_begin, "cuStreamBeginCapture_v2", (void *, int)) \
    X(capture_end, "cuStreamEndCapture", (void *, void **)) \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", (void **, void *, unsigned long long)) \
    X(graph_launch, "cuGraphLaunch", (void *, void *)) \
    X(graph_destroy, "cuGraphDestroy", (void *)) \
    X(exec_destroy, "cuGraphExecDestroy", (void *))
/* Those that not every driver has: NULL. */
#define CUDA_LATER_FUNCTIONS(X) \
    X(function_load, "cuFuncLoad", (void *))
/* clang-format on */

#define CUDA_MEMBER(member, name, parameters) int(*member) parameters;
struct rt_cuda_driver {
    CUDA_FUNCTIONS(CUDA_MEMBER)
    CUDA_LATER_FUNCTIONS(CUDA_MEMBER)
};

enum { CUDA_MOST_DEVICES = 64, CUDA_TEXT = 320 };

/* Of an instance: step_instance.gpu. */
struct rt_cuda_host {
    struct rt_cuda_driver driver;
    int ordinals[CUDA_MOST_DEVICES]; /* of the devices asked for, in the order of the mesh */
    uint32_t asked;                  /* 0: whatever there is, from the first one on */
    int count;                       /* of the devices here */
    bool check_launches;             /* waits for each one, so that a failure has its name */
    void *library;                   /* of products: cublaslt.c */
};

/* Opens the driver and reads which devices are meant ("cuda:0,1"; NULL: any). */
step_status rt_cuda_open(struct step_instance *, const char *devices, struct rt_cuda_host *);
const char *rt_cuda_why(const struct rt_cuda_driver *, int status,
                        char text[CUDA_TEXT]); /* its name and what it means */
/* An image for device `ordinal`, whose others are those of the same architecture; NULL: rt_fail was called. */
const struct stepc_cuda_image *rt_cuda_image(const struct rt_cuda_driver *, const struct stepc_cuda *, int ordinal);

/* ---------------------------------------------------------------- what a device does, in the order of its stream */

struct rt_cuda_op {                         /* a kernel */
    const struct stepc_cuda_launch *launch; /* NULL: no command's */
    const struct rt_cuda_product *product;  /* a library does it in the kernel's place; its words are its own */
    uint64_t first;
    uint32_t count; /* its words, from `first` on: parameters of a kernel, eight bytes each */
    int32_t kernel;
    uint32_t blocks, table; /* table: words of the first parameter if it is one, else 0 */
};
struct rt_cuda_device;
struct rt_cuda_list {
    struct rt_cuda_op *ops;
    uint64_t *words;
    size_t op_count, op_room, word_count, word_room;
};
struct rt_cuda_graph {
    struct rt_cuda_list of;
    void *exec;
    uint64_t used;
};
enum {
    CUDA_GRAPHS = 256 /* of a step: one between any two collectives */,
    CUDA_MOST_WORDS = 1024 /* 4 KiB of parameters, and more */
};

/* Single numbers that the host asks for after every run (a loss, a flag): copied behind the run, so that one wait is
 * for all of them. What was not asked for CUDA_SEEN_IDLE times in a row is forgotten. Of steps that nobody waits for
 * they lie in several places, one for each step under way. */
enum { CUDA_SEEN = 32, CUDA_SEEN_BYTES = 8, CUDA_SEEN_IDLE = 16, CUDA_PLACES = 8 };
struct rt_cuda_seen {
    const void *at; /* NULL: free */
    uint32_t bytes, idle;
};
/* A brief step is bound by what the driver is asked for, so all of it is one graph for each of CUDA_PLACES batches,
 * with its inputs and what the host asks for. Of others the graph would be made that often for little, and inputs
 * travel while the kernels of the step before run. */
enum { CUDA_BATCHES = 2, CUDA_BRIEF_BYTES = 16 << 10 /* of inputs */, CUDA_BRIEF = 64 /* commands of an entry */ };
struct rt_cuda_batch { /* of inputs, in pinned memory and on the device */
    const char
        *copied; /* of the pinned memory: the last input that was put on its way; NULL: none, or all have arrived */
    bool posted, ready;   /* by the stream of copies; the kernels' stream waits for it */
    void *arrived, *read; /* events of posted ones: all of it is there; the kernels that read it have ended */
};

struct rt_cuda_products { /* a library's, on a device */
    void (*close)(struct rt_cuda_device *);
    /* Onto the device's stream: 0, or a status of its own below 0, which `why` names. */
    int (*issue)(const struct rt_cuda_device *, const struct rt_cuda_product *, const uint64_t *words);
    const char *(*why)(const struct rt_cuda_device *, int status);
};
struct rt_cuda_device { /* rt_device.handle */
    const struct rt_cuda_host *host;
    int ordinal;
    void *context, *stream, **modules, **functions; /* modules: those of the images for this device */
    uint32_t module_count;
    struct rt_cuda_products *products; /* NULL: every command is a kernel of the object */
    struct rt_cuda_list pending;       /* launched by the runtime, not yet given to the driver */
    struct rt_cuda_graph graphs[CUDA_GRAPHS];
    uint64_t clock;
    uint32_t refused; /* graphs, by the driver */
    char *pinned; /* memory of the host that the device copies from and to while the host goes on: seen, then inputs */
    void *copies; /* the stream of posted inputs */
    struct rt_cuda_batch batches[CUDA_BATCHES], *posted; /* posted: that of the run in progress; of brief steps none */
    bool brief;
    struct rt_cuda_seen seen[CUDA_SEEN];
    void *followed;           /* event: where the stream of a host was */
    void *ended[CUDA_PLACES]; /* events: all that was seen of a posted run has arrived */
    uint32_t place;           /* where `seen` is read */
    bool fresh;               /* what was seen is as the device has it, or had it when a posted run ended */
    bool missed;              /* something was asked for since the last run that had not come with it */
    bool past;                /* the host asks about a posted step, behind which others may have run */
    bool flags;               /* kernels raise flags */
    bool checked[RT_ENTRIES]; /* entries that ran once, each launch waited for */
    bool held;                /* its context stays current in the thread that posts steps */
};

/* cuda_driver.c. Whose context becomes current; NULL: the call fails. Whatever failed: rt_give_up is told. */
struct rt_cuda_device *rt_cuda_enter(struct rt_device *); /* one thread at a time */
int rt_cuda_begin(const struct rt_cuda_device *);         /* the same with a status, and nobody is told */
void rt_cuda_leave(const struct rt_cuda_device *);        /* behind either of them */
void rt_cuda_failed(struct rt_device *, int status, const char *what);

int rt_cuda_wait(struct rt_device *); /* for its stream, and meanwhile for what rt_comm_ops.watch says */

/* cuda_pieces.c. Whether a collective sums; its kernel, NULL: none; an operand (0) or result (1) of a region. */
enum { RT_CUDA_MOST_SUMMED = 128 };
bool rt_cuda_sums(const struct stepc_command *);
const struct stepc_cuda_kernel *rt_cuda_sum_kernel(const struct step_instance *, const struct stepc_entry *,
                                                   const struct stepc_command *);
char *rt_cuda_operand(const struct rt_worker *, const struct stepc_command *, const struct rt_device *, uint32_t which);
/* Elements [lo, hi) of the sums of `count` tensors, into `to`; `from`: which of theirs these are. */
int rt_cuda_sum(struct rt_worker *, const struct stepc_command *, const char *const *parts, uint32_t count, char *to,
                int64_t lo, int64_t hi, struct rt_spread from);
/* A piece of n elements from one tensor into another, cut alike, or one of them in one piece. */
int rt_cuda_copy_piece(struct rt_cuda_device *, char *to, struct rt_spread into, const char *from, struct rt_spread out,
                       int64_t n, uint32_t item);

/* cuda_words.c: of one set of buffers, or of a table of members, from `first` on; gives how many it is for. */
struct rt_cuda_words {
    const struct stepc_cuda_kernel *kernel;
    uint64_t word[CUDA_MOST_WORDS];
    uint32_t count, table, blocks;
};
uint32_t rt_cuda_words(struct rt_cuda_words *, const struct stepc_cuda_kernel *, const struct stepc_cuda_launch *,
                       const struct stepc_command *, void *const *arguments, uint32_t first, const char *scratch);

/* cuda_graph.c. What was not launched for a failure is told to rt_give_up. The device's context is current. */
void rt_cuda_do(struct rt_device *, const struct rt_cuda_op *, const uint64_t *words); /* now or with those behind it */
/* Onto its stream, several only if they are one launch; their words are from each one's `first` on. A status. */
int rt_cuda_issue(const struct rt_device *, const struct rt_cuda_op *, size_t count, const uint64_t *words);
/* The same with a piece between the host's pinned memory and the device's, at one time with those before it; `bytes`
 * may have what step_abi.h says of them. */
void rt_cuda_move(struct rt_device *, const void *to, const void *from, uint64_t bytes);
static inline int32_t rt_cuda_mover(const struct step_instance *t) /* the kernel */
{
    return (int32_t)t->program->cuda->kernel_count - 1;
}
void rt_cuda_flush(struct rt_device *);
void rt_cuda_graphs_free(struct rt_cuda_device *);

/* cuda_queue.c: what goes to the device before a run and comes back behind it, also of runs that nobody waits for. */
enum { CUDA_SEEN_PLACE = CUDA_SEEN * CUDA_SEEN_BYTES, CUDA_SEEN_ALL = CUDA_PLACES * CUDA_SEEN_PLACE };
uint32_t rt_cuda_batches(const struct step_instance *);
uint64_t rt_cuda_input_bytes(const struct step_instance *); /* of all batches, on the device and pinned */
step_status rt_cuda_queue_make(struct rt_device *, struct rt_cuda_device *);
void rt_cuda_queue_free(struct rt_cuda_device *);
/* Answers from what came with the last run, or remembers to bring it with the next one. */
bool rt_cuda_seen_read(struct rt_device *, void *to, const void *from, size_t bytes);
/* `far`: the array is the device's own, in C order. */
int rt_cuda_input(struct rt_device *, const struct stepc_slot *, char *at, char *host, const int64_t *stride, bool far);
void rt_cuda_follow(struct rt_device *, void *stream);
int rt_cuda_run_ends(struct rt_device *); /* behind the kernels: waits, or posts */
bool rt_cuda_ready(const struct rt_device *);
step_status rt_cuda_steps(struct step_instance *, uint64_t k, uint64_t n, struct step_result *);
#pragma GCC visibility pop
#endif
