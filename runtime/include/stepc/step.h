/* stepc/step.h: host interface of a compiled training step, ABI 1.3. C99 and C++11. */
#ifndef STEPC_STEP_H
#define STEPC_STEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEP_ABI_MAJOR 1u /* breaks: a field or entry removed, moved or retyped */
#define STEP_ABI_MINOR 3u /* grows: a table entry or a struct tail added */

struct step_instance; /* one trainer: state, threads, devices, transport */
struct step_job;      /* one background save */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

typedef int32_t step_status;
enum {
    STEP_OK = 0,
    STEP_EINVAL = 1,        /* null pointer, wrong size field, call out of order */
    STEP_ENOTFOUND = 2,     /* no tensor, hyper-parameter, output or item of that name */
    STEP_ESHAPE = 3,        /* rank, extent, dtype or byte count differs */
    STEP_ERANGE = 4,        /* an input value outside its range (token id, label, 64-bit integer) */
    STEP_ENOMEM = 5,        /* host or device memory, or over max_memory */
    STEP_EIO = 6,           /* open, read, write, fsync, rename; no space left */
    STEP_ECORRUPT = 7,      /* a file contradicts its checksum or its format */
    STEP_EVERSION = 8,      /* a file or object of a version this code cannot read */
    STEP_EDEVICE = 9,       /* no such device, driver failure, a library that is not installed */
    STEP_EPEER = 10,        /* a peer is gone or disagrees */
    STEP_ETIMEOUT = 11,     /* a peer or device did not answer in time */
    STEP_ENONFINITE = 12,   /* stopped by the non-finite policy; state as before the step */
    STEP_ECANCELLED = 13,   /* interrupt() was called */
    STEP_EBUSY = 14,        /* another thread is inside this instance */
    STEP_EUNSUPPORTED = 15, /* the object was compiled without it */
    STEP_EPOISONED = 16,    /* an earlier error left the state undefined: load or destroy */
    STEP_EINTERNAL = 17     /* a defect */
};

enum { /* step_tensor.dtype, step_array.dtype */
       STEP_BOOL = 1,
       STEP_U8 = 2,
       STEP_I8 = 3,
       STEP_U16 = 4,
       STEP_I16 = 5,
       STEP_U32 = 6,
       STEP_I32 = 7,
       STEP_U64 = 8,
       STEP_I64 = 9,
       STEP_F8E4M3 = 10,
       STEP_F8E5M2 = 11,
       STEP_F16 = 12,
       STEP_BF16 = 13,
       STEP_F32 = 14,
       STEP_F64 = 15
};

enum {                     /* step_tensor.role */
       STEP_PARAM = 1,     /* layers.0.kernel */
       STEP_EMA = 2,       /* ema.layers.0.kernel */
       STEP_OPT_STATE = 3, /* opt_state.0.mu.layers.0.kernel */
       STEP_STATE = 4,     /* running statistics, random state, counters, data cursor, hyper-parameters */
       STEP_INPUT = 5,     /* declared inputs of the document */
       STEP_METRIC = 6,    /* metrics of the last step, scalars and per-example arrays */
       STEP_OUTPUT = 7     /* "model" */
};

enum {                         /* step_tensor.flags */
       STEP_FROZEN = 1u,       /* not in `trainable` */
       STEP_SUMMED = 1u,       /* a metric: with "partial_batches" a sum over rows, no mean */
       STEP_SHARDED = 2u,      /* this process holds a part */
       STEP_PACKED = 4u,       /* stored in a kernel's layout: read and write convert, dlpack copies */
       STEP_NOT_EVALUATED = 8u /* a metric that eval does not compute (of gradients, updates or the optimizer) */
};

struct step_tensor { /* filled by the object; pointers live as long as the instance */
    size_t size;
    const char *name;
    uint32_t role, dtype;
    int32_t rank; /* 0..8 */
    uint32_t flags;
    const int64_t *shape; /* global extents */
    const char *sharding; /* JSON, one entry per dimension: ["data",null] */
    uint64_t bytes_global, bytes_local;
};

struct step_array { /* memory of the host, inputs of a step also of its GPU; never written when used as an input */
    size_t size;
    const char *name;
    void *data;
    uint32_t dtype;
    int32_t rank;
    const int64_t *shape;
    const int64_t *strides; /* in elements; NULL: C order */
    int32_t device_type;    /* DLPack codes: 0 or 1 CPU, 2 CUDA, 3 pinned host */
    int32_t device_id;
};

struct step_hyper {
    size_t size;
    const char *name;
    double value;
};
struct step_item {
    size_t size;
    const char *name, *json;
};

struct step_host { /* services of the host; any member may be NULL */
    size_t size;
    void *user;
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void (*log)(void *user, int level, const char *line); /* 0 error .. 3 debug */
};

struct step_options { /* zero everything but size for the defaults */
    size_t size;
    const struct step_host *host;
    const char *transport;    /* "thread" (default), "self", "mpi", "nccl" */
    const void *communicator; /* MPI_Comm * or ncclComm_t *; NULL: made by create */
    const char *devices;      /* "cpu", "cuda:0,1", in mesh order; NULL: as compiled */
    uint32_t threads;         /* per device; 0: cores of this process / its devices */
    uint32_t flags;           /* STEP_NO_ENV, STEP_PIN, STEP_CHECK_INPUTS_OFF */
    const uint64_t *seed;     /* NULL: the document's */
    int64_t timeout_ms;       /* one collective; 0: 60000, -1: none */
    uint64_t max_memory;      /* bytes per device; 0: none */
};
enum { STEP_NO_ENV = 1u, STEP_PIN = 2u, STEP_CHECK_INPUTS_OFF = 4u };

struct step_result;

struct step_batch { /* borrowed until the call returns; eval and infer refuse microbatches, flags and accept */
    size_t size;
    const struct step_array *inputs;
    size_t input_count;
    const struct step_hyper *hypers; /* for this call only, over the sticky values */
    size_t hyper_count;
    uint32_t microbatches; /* accumulate: run only the first k; 0: all */
    uint32_t flags;        /* STEP_ON_NONFINITE_*, STEP_COMPUTE */
    /* since 1.1: asked after a step was computed and before it counts, once per process; `flags` of the result says
     * whether it is finite. 0: the state stays as before the step, bit for bit, and so it does on every process of the
     * mesh if one of them says so. May not call the instance. NULL: every step counts */
    int (*accept)(void *user, const struct step_result *);
    void *user;
    /* since 1.3, on one GPU: what fills the inputs goes on there (CUstream); the call's work comes behind it, and has
     * ended when it returns. NULL: they are filled */
    void *stream;
};
enum { STEP_ON_NONFINITE_CONTINUE = 0u, STEP_ON_NONFINITE_STOP = 1u, STEP_ON_NONFINITE_SKIP = 2u };
enum { STEP_COMPUTE = 4u }; /* since 1.2, of `step`: with the above; the step counts when `commit` says so */

struct step_result { /* caller sets size, metrics and metric_capacity */
    size_t size;
    uint64_t step; /* steps done, this one included */
    double loss;
    uint32_t flags; /* STEP_NONFINITE, STEP_SKIPPED */
    uint32_t metric_capacity, metric_count;
    double *metrics; /* scalar metrics in the order of tensor_at(STEP_METRIC) */
    uint64_t ns_total, ns_communication;
};
enum { STEP_NONFINITE = 1u, STEP_SKIPPED = 2u };

struct step_save {
    size_t size;
    const char *directory; /* run directory; the checkpoint becomes directory/step-N. NAME.safetensors: one file */
    const char *slots;     /* JSON list of patterns, each for some (else STEP_ENOTFOUND); NULL: every slot */
    const struct step_item *items; /* JSON documents stored beside the tensors */
    size_t item_count;
    const struct step_hyper *metrics; /* recorded for the retention rule best= */
    size_t metric_count;
    const char *keep; /* "latest=3,every=1000,best=loss:min:2"; NULL: keep all */
    uint32_t flags;   /* STEP_SAVE_* */
};
/* The optimizer's state is compressed by Zstandard, which must be installed here (libzstd.so.1) and where it is read;
 * what others read, too, stays as it is; or all is compressed. An object of an older stepc refuses these flags. */
enum { STEP_SAVE_COMPRESS = 1u, STEP_SAVE_COMPRESS_ALL = 2u };

struct step_load {
    size_t size;
    const char *path; /* a checkpoint, a run directory (its newest good one) or a .safetensors file */
    const char *map;  /* JSON, see the checkpoint reference; NULL: identity */
    uint32_t flags;   /* STEP_LOAD_* */
};
enum { STEP_LOAD_PARTIAL = 1u, STEP_LOAD_CAST = 2u, STEP_LOAD_PARAMS_ONLY = 4u, STEP_LOAD_NO_VERIFY = 8u };

struct step_memory { /* bytes on one device */
    size_t size;
    uint64_t parameters, averages, optimizer_state, other_state, gradients, activations, workspace, communication, code;
    uint64_t planned_peak, lower_bound, measured_peak;
};

struct step_place { /* of this process among those of the mesh; its devices stand in a row */
    size_t size;
    uint32_t rank, ranks;
    uint32_t devices, first_device, device_count; /* of the mesh; the first of this process, and how many it has */
};

struct step_api {
    size_t size;
    uint32_t abi_major, abi_minor;

    const char *(*describe)(void);                           /* JSON manifest, static */
    const char *(*status_name)(step_status);                 /* "STEP_ESHAPE" */
    const char *(*last_error)(const struct step_instance *); /* NULL: of this thread */

    step_status (*create)(const struct step_options *, struct step_instance **out);
    void (*destroy)(struct step_instance *); /* waits for a call of another thread; in one of its own it does nothing */
    step_status (*init)(struct step_instance *);

    size_t (*tensor_count)(const struct step_instance *, uint32_t role);
    step_status (*tensor_at)(const struct step_instance *, uint32_t role, size_t index, struct step_tensor *out);
    step_status (*tensor_find)(const struct step_instance *, const char *name, struct step_tensor *out);
    step_status (*read)(struct step_instance *, const struct step_array *out); /* metrics: of the last call; 0 before */
    step_status (*write)(struct step_instance *, const struct step_array *in);
    /* a tensor where it lies, to be read only (the older form cannot say so), in objects of `compile --views`; it shows
     * what later calls write. Whoever has it calls its deleter, from any thread, also after destroy: the memory stays
     * until then. STEP_EUNSUPPORTED where it is split over several devices or is computed by read. On a GPU what calls
     * wrote is there when they return, for every stream */
    step_status (*dlpack)(struct step_instance *, const char *name, struct DLManagedTensorVersioned **out);
    step_status (*dlpack_legacy)(struct step_instance *, const char *name, struct DLManagedTensor **out);

    size_t (*hyper_count)(const struct step_instance *);
    step_status (*hyper_at)(const struct step_instance *, size_t index, struct step_hyper *out);
    step_status (*hyper_get)(const struct step_instance *, const char *name, double *out);
    step_status (*hyper_set)(struct step_instance *, const char *name, double value);

    step_status (*stage)(struct step_instance *, const struct step_batch *);
    step_status (*step)(struct step_instance *, const struct step_batch *, struct step_result *);
    /* n results, each with its size; NULL: none */
    step_status (*step_n)(struct step_instance *, const struct step_batch *, uint64_t n, struct step_result *);
    step_status (*eval)(struct step_instance *, const struct step_batch *, const char *weights, struct step_result *);
    /* an output's array may be that of an input, but not reach into another output's (STEP_EINVAL) */
    step_status (*infer)(struct step_instance *, const struct step_batch *, const char *weights,
                         const struct step_array *outputs, size_t output_count);

    /* out: save returns while a thread writes. Tensors of 64 KiB or more are then not copied, but written from where
     * they are: the next step puts its state beside them, into a second block; init, load, write and dlpack before that
     * step wait until they are written. */
    step_status (*save)(struct step_instance *, const struct step_save *, struct step_job **out);
    step_status (*job_wait)(struct step_job *, int64_t timeout_ms);
    void (*job_free)(struct step_job *);
    step_status (*load)(struct step_instance *, const struct step_load *);
    const char *(*item)(const struct step_instance *, const char *name);

    void (*interrupt)(struct step_instance *);
    void (*abort_peers)(struct step_instance *);
    step_status (*memory)(const struct step_instance *, uint32_t device, struct step_memory *out);
    /* from now on every worker notes when it ran, waited and communicated; NULL, or destroy, writes that to the path,
     * as Chrome's trace events. Steps of one function have nothing to note (STEP_EUNSUPPORTED) */
    step_status (*trace)(struct step_instance *, const char *path);

    /* since 1.2: a step that was computed with STEP_COMPUTE counts now; `accept` 0: never. Until then the state is as
     * before it, bit for bit, for every call that looks: read, eval, infer and save (metrics are of the last call).
     * hyper_set is kept whatever is decided. What else changes the state discards the step that waits: init, load,
     * write, and the next step (also another one computed); so committing is STEP_EINVAL where none waits, or where the
     * policy refused it (STEP_SKIPPED); discarding is not. On a mesh of processes all of them call it: the step counts
     * if all accept, and is STEP_ECANCELLED for who did where one does not. */
    step_status (*commit)(struct step_instance *, int accept);
    /* where this process is among those of the mesh; the largest of a number that each of them gives, collective */
    step_status (*place)(const struct step_instance *, struct step_place *out);
    step_status (*agree)(struct step_instance *, uint64_t mine, uint64_t *largest);
};

/* The only exported symbol. NULL: another major version, or an older minor one. */
const struct step_api *step_query(uint32_t abi_major, uint32_t abi_minor);
typedef const struct step_api *step_query_fn(uint32_t, uint32_t);

#ifdef __cplusplus
}
#endif
#endif
