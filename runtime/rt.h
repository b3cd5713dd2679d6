/* The runtime's own types. It is linked into every step.so, so it is small, has no constructors, never exits and
 * never prints except through the host's log. README.md says which file does what. */
#ifndef RUNTIME_RT_H
#define RUNTIME_RT_H
#include "runtime/comm.h"
#include "runtime/device.h"
#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stepc/step.h>
#include <stepc/step_abi.h>

#pragma GCC visibility push( \
        hidden) /* calls between files are direct: five bytes instead of six, no slot in the table of addresses */

#define RT_FARTHEST ((int64_t)1 << 57) /* bytes between two elements of an array: what x86-64 can address */

enum {
    RT_HYPER = 8, /* role of hyper-parameters in the tables; hosts see them as state too: rt_slot_role */
    RT_INDEX = 9, /* role of what entries "indices" and "lookup" compute; hosts do not see it */
    RT_MAX_RANK = 8,
    RT_MAX_AXES = 6,
    RT_MAX_DEPTH = 16, /* nested loops */
    RT_REPORTING = -1, /* step_instance.failed while the first to see the failure writes about it */
    RT_ALIGN = 64,
    RT_TEXT = 6144 /* a text of step_tools.h and what it is about */
};
static inline uint64_t rt_aligned(uint64_t bytes) { return (bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN; }

/* ---------------------------------------------------------------- waiting */

/* A number that threads wait for to change: they spin a little, then sleep in the kernel. */
struct rt_signal {
    _Atomic uint32_t value, sleepers;
};
/* What is taken and what is finished of a command. Workers begin with their own chunks and go on with those of others,
 * so that one that lost its core holds up the rest by one chunk at most. */
struct rt_progress {
    struct rt_signal done;
    _Atomic uint32_t next[]; /* per worker: chunks taken of its own */
};
struct rt_barrier {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) struct rt_signal generation;
    uint32_t total;
};
/* Devices that a collective runs over, in mesh order. Those of this process stand in a row, as its devices do. */
struct rt_group {
    struct rt_barrier barrier; /* of those of this process */
    uint32_t count;
    uint32_t first, mine; /* of this process: the first one's place in the group, and how many */
    uint32_t members[];   /* by number in the mesh */
};

/* ---------------------------------------------------------------- devices */

struct rt_block {
    struct rt_block *before;
    void *data;
    size_t bytes;
    struct rt_device *device; /* NULL: of the host */
};

/* Where an address has to be put before a call. `at`: into rt_map.pointers. */
struct rt_patch {
    uint32_t at, slot;
    uint64_t offset;
};

/* The addresses of one entry on one device: first those of all buffers, then the arguments of every command. */
struct rt_map {
    void **pointers;
    struct rt_patch *inputs, *weights; /* weights: pointers to parameters, of eval and infer */
    uint32_t input_count, whole_input_count, weight_count;
    uint32_t weights_set;      /* enum rt_weights that `weights` now point at */
    const char *state, *ahead; /* of the device when `pointers` were filled */
};

struct rt_fp { /* floating point control of a thread: cpu.c */
    uint32_t control;
};

enum rt_traced { RT_TRACED_CALL, RT_TRACED_COMMAND, RT_TRACED_WAIT };
struct rt_worker {
    struct step_instance *instance;
    struct rt_device *device;
    uint32_t index; /* in its device */
    bool started;
    pthread_t thread;
    void *scratch;
    uint64_t collectives;               /* entered so far */
    struct rt_flight {                  /* the collective that it has begun: see rt_comm_ops.advance */
        const struct stepc_command *of; /* NULL: none */
        uint32_t stage, phase, region;  /* these are the row's */
        int64_t at;
        struct rt_meeting {
            uint32_t generation;
            bool arrived;
        } meeting;
        bool sent;
    } flight;
};

struct rt_device { /* one of this process */
    struct step_instance *instance;
    struct rt_device *next; /* of this process, NULL: none */
    /* its memory; what kernels only read lies in the host's where they can */
    char *state, *result, *arena, *scratch, *staging, *positions, *constants;
    char *held;          /* what late commands read, where they run behind all others; NULL: none yet */
    char *ahead, *other; /* where a step puts its state: `state`, or another block that becomes it; NULL: none yet */
    char *spare;         /* a third one, where the other one was lent; NULL: none yet */
    struct rt_map *maps; /* per entry */
    const void **bound;  /* per slot: address of an input for this step */
    struct rt_worker *workers;
    uint64_t bytes; /* of state and arena */
    void *handle;   /* of its row in the table of devices */
    uint32_t index; /* in the mesh */
    struct rt_barrier barrier;
    bool loop_goes_on;            /* what the last one to arrive at a loop's begin or end found */
    char *inputs;                 /* of a step that waits; NULL: none yet */
    char *hypers;                 /* of a step that waits, while it does: 8 bytes each; behind `held` */
    char *progress;               /* per command of the entry that runs: struct rt_progress, progress_bytes apart */
    _Atomic uint64_t collectives; /* entered by its worker 0 */
    const struct stepc_command *_Atomic at; /* the last collective entered */
    int32_t position[1 << RT_MAX_AXES];     /* per set of axes: its place along them, row-major */
};

/* ---------------------------------------------------------------- instance */

/* How a command runs with this number of workers. */
struct rt_command {
    uint32_t arguments; /* index of the first one in rt_map.pointers */
    uint32_t workers;
    uint32_t chunks;   /* pieces of it that one worker takes at a time; 0: not shared */
    bool sync;         /* all commands before it must be finished */
    bool solo;         /* a loop that worker 0 runs alone */
    bool microbatches; /* the loop over microbatches */
    bool part_sync;    /* as sync, among those of its part of the step (rt_late_begin) */
};
/* Whether a team pays is found by trying, where the host did not say how many threads it wants: a few runs with it, a
 * few without, then the faster for a while that grows each time the answer is the same. */
struct rt_trial {
    uint64_t ns[2];
    uint32_t runs, hold;
    bool alone, chosen; /* the better way; that of the last run */
};
struct rt_entry {
    const struct stepc_entry *table;
    struct rt_command *commands;
    uint32_t pointer_count;
    struct rt_trial trial;
};

enum rt_carried { RT_NOTHING, RT_HYPERS, RT_ALL, RT_IN_PLACE, RT_SCALE };
enum rt_lent { RT_LENT, RT_LENT_OTHER, RT_LENT_WAITS };
enum { RT_LATE_NONE, RT_LATE_SOME, RT_LATE_ALL };
enum { RT_WHOLE, RT_FIRST, RT_LAST };
/* The last part: into the other block; in place now; in place later, and that */
enum rt_late_end { RT_LATE_BESIDE, RT_LATE_NOW, RT_LATE_KEEP, RT_LATE_KEPT };
enum { RT_WAITS_NOT, RT_WAITS_BESIDE, RT_WAITS_LATE }; /* its state lies in rt_device.other; it is still to be made */
enum rt_weights { RT_PARAMS, RT_EMA, RT_SLOW, RT_EVAL, RT_WEIGHTS };
enum rt_entry_kind {
    RT_INIT,
    RT_RESTART,
    RT_STEP,
    RT_EVALUATE,
    RT_INFER,
    RT_DERIVE,
    RT_INDICES,
    RT_STEP_BACK,
    RT_LOOKUP,
    RT_STEP_LATE,
    RT_ENTRIES
};

/* An input of the call in progress: the host's array (strides in bytes), and whether it can be used in place. */
struct rt_bound {
    const char *base;     /* of the whole tensor, of which the array may be this rank's part */
    const int64_t *shape; /* of the array */
    int64_t step_stride, stride[RT_MAX_RANK];
    bool given, dense, far; /* far: of the device's own memory */
};

typedef void rt_sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

/* A save: NULL entries where it is over when save returns. */
struct step_job {
    step_status (*wait)(struct step_job *, int64_t timeout_ms);
    void (*free)(struct step_job *);
};

/* What most of the code asks for stands in the first 128 bytes, here and in rt_device: further away every access is
 * three bytes longer. */
struct step_instance {
    const struct stepc_program *program;
    const struct rt_device_ops *device_ops;
    struct rt_device *devices;         /* mine: local_count of the mesh's, from number first_local on */
    const struct rt_comm_ops *comm;    /* NULL: nobody to talk to */
    const struct stepc_slot **by_name; /* slots that hosts see */
    uint32_t *input_slots;             /* slots of the declared inputs */
    uint32_t *metric_slots;            /* scalar metrics */
    struct rt_bound *bound;            /* per input, of the call in progress */
    uint64_t steps;
    uint32_t mesh_count, local_count; /* devices: of the whole mesh; of this process */
    uint32_t named, input_count, metric_count;
    int32_t loss_slot, step_slot; /* -1: none */
    uint32_t ranks;               /* processes of the mesh */
    uint32_t threads;             /* per device */
    _Atomic int failed, poisoned; /* failed: a status; workers leave when they see it */
    bool initialized, huge_pages, oversubscribed;
    bool nonfinite;   /* the last step that counts; with checks of values */
    uint8_t waits;    /* a step that was computed, for rt_commit: RT_WAITS_* */
    uint8_t late_not; /* STEP_COMPUTE: what may wait reads results, which are gone after the call */
    bool late_inputs; /* it reads inputs */
    bool alone;       /* the call in progress runs on the caller only */
    uint8_t part;     /* of the step that runs: RT_WHOLE, or what late.c says */
    uint8_t late;     /* whether the step has commands that may wait; RT_LATE_ALL: only they write the next state */
    uint8_t unknown;  /* enum rt_carried: what may be out of bounds (late.c) */
    uint8_t marks;    /* of slots: KEPT of any; WATCHED of single numbers of optimizers, which kernels do not check */
    uint8_t stale;    /* enum rt_carried: what rt_device.other lacks because the host wrote it */
    uint8_t stale_spare; /* the same of rt_device.spare */
    uint8_t
        post; /* nobody waits for the run in progress, whose numbers go to this place, from 1; 0: it is waited for */
    uint32_t unknown_steps, unknown_wait; /* until the state is looked at again, the last of these times */
    struct step_host host;
    struct rt_entry entries[RT_ENTRIES];
    bool tries;                 /* may leave the team asleep: see rt_trial */
    uint32_t rank, first_local; /* of this process; of its first device in the mesh */
    uint32_t worker_count;      /* of all devices of this process */
    uint32_t opened;            /* devices that have to be closed */
    uint32_t beside;            /* processes of the mesh that share the cores of this one; 0: nobody asked */
    uint32_t progress_bytes;
    void *peers;               /* of the row `comm` */
    struct rt_group ***groups; /* by set of axes that collectives run over, then by place along the other ones; NULL:
                                  none; none of mine */
    rt_sgemm_fn *sgemm;
    uint32_t flags;
    int64_t timeout_ns; /* 0: none */
    uint64_t created_ns;
    int log_level;
    uint32_t *by_role, role_end[RT_HYPER]; /* numbers of slots role after role, in the order of the table */
    uint64_t *staging_offset;              /* per input, in rt_device.staging */
    uint64_t staging_bytes;                /* of a batch there */
    uint32_t batches;                      /* that have room there */
    const char *alive;                     /* zero in a child after fork */
    int pid;
    struct step_instance *next; /* one that was created before */

    struct rt_block *blocks; /* the last one */

    /* the call in progress */
    _Atomic uintptr_t busy; /* the thread that is inside, 0: none */
    _Atomic int interrupted;
    enum rt_entry_kind running;
    uint32_t microbatches;
    struct rt_fp fp; /* of the caller of a step */
    struct rt_signal job, done;
    _Atomic uint32_t pending;
    _Atomic int stop;
    uint64_t communication_ns;

    char *index_room; /* for the tensors that indices.c looks at, NULL: not yet */

    /* batch staged by another thread */
    pthread_mutex_t stage_lock;
    bool staged_ready;
    char *staged, *staged_live; /* global inputs in C order: being filled, used by the step */

    void *gpu;              /* of the row `device_ops` */
    struct rt_trace *trace; /* of trace.c; NULL: nobody wants to know */
    struct rt_saved *saved; /* of directory.c; NULL: nothing was saved or loaded yet */
    struct rt_job *lent;    /* of lending.c: a save that may still read a state; NULL: none */
    _Atomic uint32_t views; /* of views.c */
    char *viewed;           /* where the first device's state lay when the first of them was made */

    char text[RT_TEXT];    /* of the last failing call */
    char failure[RT_TEXT]; /* of rt_give_up */
};

/* Before something else than a step writes into the state: init, load, write. */
void rt_state_changed(struct step_instance *);

/* for (RT_MINE(t, d)): the devices of this process. Those of the whole mesh are numbers below mesh_count. */
#define RT_MINE(t, d) \
    struct rt_device *d = (t)->devices; \
    d; \
    d = d->next

/* ---------------------------------------------------------------- status.c */

/* The text is this thread's until rt_leave gives it to the instance, whose last_error other threads read. */
step_status rt_fail(const struct step_instance *, step_status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rt_failed(struct step_instance *, step_status);
/* Ends the call in progress, from any of its threads: the first one's status and text become those of the call, and
 * the instance is poisoned. */
void rt_give_up(struct step_instance *, step_status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void rt_log(struct step_instance *, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
extern const char rt_log_levels[4][8];
const char *rt_status_name(step_status);
const char *rt_last_error(const struct step_instance *);
uint64_t rt_now(void);                     /* monotonic nanoseconds */
uint64_t rt_stood_still(uint64_t *looked); /* how long this process was stopped since; 0: it was not */
static inline int64_t rt_ns_of(int64_t ms) /* at most 73 years, so that moments behind it are numbers, too; < 0: 0 */
{
    const int64_t most = ((int64_t)1 << 61) / 1000000;
    return (ms < 0 ? 0 : ms > most ? most : ms) * 1000000;
}

/* ---------------------------------------------------------------- dtype.c */

const char *rt_dtype_name(uint32_t dtype);
uint32_t rt_dtype_bytes(uint32_t dtype); /* 0: unknown */
bool rt_dtype_float(uint32_t dtype);     /* of 16 bits and more */
/* "f32[2, 8]" into a buffer; returns it. */
const char *rt_type_text(char *out, size_t bytes, uint32_t dtype, int32_t rank, const int64_t *shape);
double rt_number_at(const void *data, uint32_t dtype, int64_t index);
void rt_number_put(void *data, uint32_t dtype, int64_t index, double);
/* The last of so many elements that is infinite or NaN and was finite before (NULL: whatever it was); -1: there is
 * none. */
int64_t rt_lost(const void *now, uint32_t dtype, const void *before, uint32_t dtype_before, int64_t count);

/* ---------------------------------------------------------------- gate.c */

bool rt_gate_make(struct step_instance *);
void rt_gate_free(struct step_instance *);
bool rt_gate_here(const struct step_instance *); /* not the child of a fork */
/* Calls that change or run: one at a time, not after fork, not when poisoned, but for the one without a name, which has
 * looked for a null pointer. rt_leave also ends what rt_give_up says. */
step_status rt_enter(struct step_instance *, const char *call);
bool rt_inside(const struct step_instance *); /* this thread is in a call of it */
step_status rt_leave(struct step_instance *, step_status);

/* ---------------------------------------------------------------- cpu.c */

/* NULL, or the first feature of the comma-separated list that this CPU lacks. */
const char *rt_missing_feature(const char *list, char *name, size_t bytes);
bool rt_other_feature(const char *name); /* that cpu.c does not know; AMX's also asks the system for it */
struct rt_fp rt_fp_enter(void);          /* round to nearest, FTZ and DAZ; returns the caller's */
void rt_fp_leave(struct rt_fp);

/* ---------------------------------------------------------------- device_cpu.c, team.c */

extern const struct rt_device_ops rt_device_cpu;
/* Entries of the CPU's row that only an object with a team has; elsewhere they are NULL. */
__attribute__((weak)) uint32_t rt_cpu_workers(struct step_instance *, uint32_t asked);
__attribute__((weak)) void rt_cpu_launch(struct rt_worker *, const struct stepc_command *, void *const *arguments,
                                         uint32_t chunk, uint32_t chunks);

/* ---------------------------------------------------------------- device_staged.c */

void rt_staged_part(struct rt_device *, const struct stepc_slot *, char *part, char *host, const int64_t *stride,
                    enum rt_direction);
char *rt_staged_constants(struct rt_device *, const void *data, size_t bytes);

/* ---------------------------------------------------------------- memory.c */

/* Zeroed, 64-byte aligned, freed with the instance. NULL: out of memory. */
void *rt_alloc(struct step_instance *, size_t bytes);
void *rt_alloc_device(struct rt_device *, size_t bytes); /* of the device */
void rt_release_all(struct step_instance *);             /* itself too */
void *rt_host_get(struct step_instance *, size_t bytes); /* what rt_alloc and the CPU's blocks are made of */
void rt_host_put(struct step_instance *, void *, size_t bytes);
/* `bytes` of a device for the host to read: in place, or copied to `buffer`. */
const void *rt_view(struct rt_device *, const void *at, void *buffer, size_t bytes);
double rt_view_number(struct rt_device *, const void *at, uint32_t dtype);

/* ---------------------------------------------------------------- slots.c */

size_t rt_tensor_count(const struct step_instance *, uint32_t role);
step_status rt_tensor_at(const struct step_instance *, uint32_t role, size_t index, struct step_tensor *);
step_status rt_tensor_find(const struct step_instance *, const char *name, struct step_tensor *);
size_t rt_hyper_count(const struct step_instance *);
step_status rt_hyper_at(const struct step_instance *, size_t, struct step_hyper *);
step_status rt_hyper_get(const struct step_instance *, const char *, double *);
step_status rt_hyper_set(struct step_instance *, const char *, double);
/* -1: the status and the text say why. */
int32_t rt_hyper_find(const struct step_instance *, const char *name, double value, step_status *);
double rt_hyper_load(const struct step_instance *, const struct stepc_slot *);
void rt_hyper_store(struct step_instance *, const struct stepc_slot *, double); /* on my devices */
/* Index of the slot of that name, -1: none. Hyper-parameters and tensors are separate name spaces. */
uint32_t rt_slot_role(const struct stepc_slot *); /* as hosts see it; 0: not at all */
bool rt_slots_sort(struct step_instance *);       /* so that names are found; false: no memory */
int32_t rt_slot_find(const struct step_instance *, const char *name);
int32_t rt_slot_find_under(const struct step_instance *, const char *prefix,
                           const char *name); /* of a name in two pieces */
uint64_t rt_slot_bytes(const struct stepc_slot *, bool local);
bool rt_slot_stored(const struct stepc_slot *); /* in the state block, part of a checkpoint */
bool rt_slot_made_by(const struct stepc_entry *,
                     const struct stepc_slot *);   /* a metric or output that the entry computes */
bool rt_slot_statistic(const struct stepc_slot *); /* a running statistic among the slots of role state */
bool rt_slot_sharded(const struct stepc_slot *);

/* ---------------------------------------------------------------- tensor.c */

char *rt_slot_address(const struct rt_device *, const struct stepc_slot *);
/* Copies `rank` dimensions; strides in bytes. */
void rt_copy(char *to, const int64_t *to_stride, const char *from, const int64_t *from_stride, const int64_t *shape,
             int32_t rank, size_t item);
void rt_c_strides(int64_t *stride, const int64_t *shape, int32_t rank, size_t item);
/* Devices of the mesh, mine or not, by number: place along the axes of a mask, row-major. */
uint32_t rt_mesh_index(const struct step_instance *, uint32_t device, uint32_t mask);
/* The part of a slot that it holds: first global index and extent per dimension. False: nothing. */
bool rt_shard(const struct step_instance *, uint32_t device, const struct stepc_slot *, int64_t *start,
              int64_t *extent);
/* Of equal parts the first device in mesh order is the one that is read. */
bool rt_shard_owner(const struct step_instance *, uint32_t device, const struct stepc_slot *);
/* The part of a device of the mesh, dense, at `part` in the memory of `where` (NULL: the host's), from or into the
 * whole tensor of the host (strides in bytes). */
void rt_shard_copy(const struct step_instance *, uint32_t device, const struct stepc_slot *, struct rt_device *where,
                   char *part, char *host, const int64_t *stride, enum rt_direction);
/* Into an array of the whole tensor, or of what this process holds of it (then no other one is asked). */
void rt_fetch(struct step_instance *, const struct stepc_slot *, char *to, const int64_t *shape, const int64_t *stride);
/* Whole tensors between host memory and all devices: read on every rank; given by every rank. */
void rt_gather(struct step_instance *, const struct stepc_slot *, char *to, const int64_t *stride);
void rt_scatter(struct step_instance *, const struct stepc_slot *, const char *from, const int64_t *stride);
/* Checks an array of the host against a slot and fills strides in bytes. `lead`: extent of an additional leading
 * dimension, 0 = none. `fills`: it is written to. */
step_status rt_array_check(struct step_instance *, const struct step_array *, const struct stepc_slot *, uint64_t lead,
                           int64_t *stride, bool fills);
bool rt_whole(const struct stepc_slot *, const int64_t *shape);
/* What to add to the address of an array to have that of the whole tensor, if it is this rank's part; else 0. */
int64_t rt_part_shift(const struct step_instance *, const struct stepc_slot *, const int64_t *shape,
                      const int64_t *stride);
bool rt_dense(const int64_t *stride, const int64_t *shape, int32_t rank, size_t item);

/* ---------------------------------------------------------------- access.c */

step_status rt_read(struct step_instance *, const struct step_array *);
step_status rt_write(struct step_instance *, const struct step_array *);

/* The size in a struct of the host. 0: NULL, or none that any version has, whose fields lie in units of eight bytes. */
size_t rt_sized(const void *);
/* Copies a struct of the host, whatever its version: what the caller lacks is zero. False: no or bad size. */
bool rt_take(void *to, size_t bytes, const void *from);
void rt_give(void *to, const void *from, size_t bytes);

/* ---------------------------------------------------------------- parts that an object may lack */

struct stepc_team { /* team.c, commands.c, late.c */
    bool (*unpack)(struct step_instance *, struct stepc_entry *,
                   const unsigned char *at);                 /* the commands; false: out of memory */
    bool (*plan)(struct step_instance *, struct rt_entry *); /* commands of an entry; false: out of memory */
    bool (*start)(struct step_instance *);                   /* threads; false: message was set */
    bool (*stop)(struct step_instance *);       /* false: a worker does not come back; its memory must stay */
    void (*reset)(struct step_instance *);      /* after a failed call, once every worker is back */
    void (*run)(struct step_instance *);        /* the entry that is `running`, on my devices */
    bool (*late_ready)(struct step_instance *); /* the state is within bounds */
    bool (*late_begin)(struct step_instance *); /* the next run of RT_STEP_LATE is its first part; false: no memory */
    step_status (*late_end)(struct step_instance *, enum rt_late_end); /* the last one */
};
struct st_file;
struct st_checkpoint;
struct stepc_mesh {                                                        /* comm.c */
    const struct rt_comm_ops *const *rows;                                 /* NULL after the last */
    step_status (*open)(struct step_instance *, const void *communicator); /* of the row `comm` */
    step_status (*agree)(struct step_instance *, step_status mine, uint64_t call);
    step_status (*largest)(struct step_instance *, uint64_t *number); /* of all ranks */
    /* What the first rank says, unless one fails. */
    step_status (*first)(struct step_instance *, step_status, uint64_t *number);
    /* Each rank has opened a file, or a checkpoint: its own status, or what the first one met, or that they are not the
     * same; ECORRUPT only where the first one says so. */
    step_status (*opened)(struct step_instance *, step_status, const struct st_file *, const struct st_checkpoint *);
    /* The parts of a tensor on several ranks: from all devices into the whole one (may be NULL) on every rank; from the
     * whole one on the first rank to all devices. */
    void (*exchange)(struct step_instance *, const struct stepc_slot *, char *whole, const int64_t *stride,
                     enum rt_direction);
    /* What the devices of this process hold of a tensor between them, as one box. False: not of that shape (NULL: any).
     */
    bool (*part)(const struct step_instance *, const struct stepc_slot *, const int64_t *shape, int64_t *start,
                 int64_t *extent);
    /* Behind the text of the whole, of 200 characters: the part, for which there are as many; `lead`: rt_array_check.
     */
    void (*part_text)(const struct step_instance *, const struct stepc_slot *, uint64_t lead, char *text);
    /* Before a tensor is read or written by all ranks: mine, or what is wrong with another rank's array, or with the
     * call, which has to be the same, of what is written to its bytes. Where others take no part: mine. */
    step_status (*same)(struct step_instance *, step_status mine, const struct stepc_slot *, const struct step_array *,
                        const int64_t *stride, bool write);
    bool (*go_on)(struct rt_worker *, const struct stepc_command *); /* rt_comm_go_on */
};
struct rt_cuda_library {                     /* of a program for GPUs: cublaslt.c */
    step_status (*open)(struct rt_device *); /* whose context is current, before its first block of memory */
    /* False: the command's kernel does it. */
    bool (*launch)(struct rt_worker *, const struct stepc_command *, const struct stepc_cuda_launch *,
                   void *const *arguments);
};
struct stepc_blas {                       /* blas.c */
    void (*open)(struct step_instance *); /* with the other ranks */
    void (*run)(struct rt_worker *, const struct stepc_gemm *, void *const *arguments, uint32_t chunk, uint32_t chunks);
    const struct rt_cuda_library *gpu; /* NULL: of the CPU. With it there is no `run` */
};
/* A tensor file, or the tensors of a checkpoint, into the instance. Ranks agree once, before anything changes. */
struct st_tensor;
struct st_checkpoint;
struct rt_load_plan;
struct rt_pieces;
typedef step_status rt_load_from(struct step_instance *, const struct step_load *, struct st_file *,
                                 const struct st_checkpoint *);
struct rt_directories { /* directory.c */
    step_status (*save)(struct step_instance *, const struct step_save *, const bool *wanted, struct step_job **);
    step_status (*load)(struct step_instance *, const struct step_load *, rt_load_from *);
    void (*each)(const struct step_instance *, uint64_t bytes, uint32_t count, void (*)(void *, uint32_t), void *user);
    const char *(*item)(const struct step_instance *, const char *name);
    void (*end)(struct step_instance *); /* waits for the save that runs */
    step_status (*read)(struct rt_load_plan *, uint32_t slot, char *to, char *error);
    const struct rt_pieces *pieces; /* NULL: of one process */
};
extern const struct rt_directories rt_directories, rt_directories_pieces;
struct st_text;
struct rt_retention { /* retention.c */
    bool (*check)(const char *rules, char *error);
    void (*run)(int parent, const char *rules, struct st_text *told);
};
extern const struct rt_retention rt_retention;
struct rt_maps; /* load_map.c */
extern const struct rt_maps rt_maps;
struct rt_job;
struct st_piece;
struct stepc_compression { /* compression.c; `environment`: it may name the library */
    step_status (*is_there)(bool environment, char *error);
    bool (*pack)(struct rt_job *); /* on its writer; false: the job says why */
    /* What is stored of a piece to its elements. */
    step_status (*unpack)(const struct st_checkpoint *, const struct st_piece *, const void *from, void *to,
                          char *error);
};
struct stepc_lending { /* lending.c */
    /* Which tensors of the job are not copied by save, and where the others go; false: it has to copy all, and nothing
     * was decided. */
    bool (*lend)(struct rt_job *, uint64_t *bytes);
    void (*copy)(struct rt_job *); /* on its writer */
    void *(*write)(void *job);     /* rt_write_job on a thread that gives way to steps */
    /* Whether the state is still read by the save that runs, so that nothing may be written there. RT_LENT_OTHER: nor
     * into the other block: then there is another one, or none. RT_LENT_WAITS: false, but only when it is free. */
    bool (*lent)(struct step_instance *, enum rt_lent);
};
struct stepc_checkpoint { /* checkpoint.c */
    step_status (*save)(struct step_instance *, const struct step_save *, struct step_job **);
    step_status (*load)(struct step_instance *, const struct step_load *);
    const struct rt_directories *directories; /* NULL: single files only */
    const struct rt_retention *retention;     /* NULL: all checkpoints stay */
    const struct rt_maps *maps;               /* NULL: tensors have the names of slots */
};
struct stepc_indices { /* indices.c */
    /* Values used as indices lie in [initial, index_limit). Generated code relies on it. */
    step_status (*range)(struct step_instance *, const struct stepc_slot *, bool far, const char *base,
                         const int64_t *stride, const int64_t *shape, int32_t rank);
    /* What an entry computes of the batch that is bound. */
    step_status (*computed)(struct step_instance *, enum rt_entry_kind, uint64_t steps);
};
struct stepc_finite { /* finite.c */
    void (*begin)(struct step_instance *);
    bool (*first)(struct step_instance *, char *text, size_t size); /* since then; false: all was finite */
    /* What a library made: `rows` of C from element `at` on, of two factors. */
    void (*product)(struct rt_worker *, const struct stepc_gemm *, const float *a, const float *b, const float *c,
                    int64_t at, int64_t rows);
    void (*told)(struct step_instance *, enum rt_entry_kind); /* of what eval or infer gives, if it is not finite */
};
struct rt_outputs { /* that a call of infer fills */
    const struct step_array *arrays;
    size_t count;
};
struct stepc_arrays {                                                        /* apart.c */
    step_status (*apart)(struct step_instance *, const struct rt_outputs *); /* each was checked by itself */
};
struct stepc_trace { /* trace.c */
    step_status (*begin)(struct step_instance *, const char *path, bool variable /* STEPC_TRACE's */);
    step_status (*stop)(struct step_instance *); /* writes the file */
    void (*note)(struct rt_worker *, enum rt_traced, uint32_t command, uint64_t begin);
    void (*end)(struct step_instance *); /* stop for which nobody asks */
};
struct stepc_choice { /* device_choice.c */
    const struct stepc_program *(*choose)(struct step_instance *, const char *devices);
};
struct stepc_gpu { /* device_cuda.c */
    struct rt_device_ops ops;
};

enum { RT_NUMBER = 1, RT_SLOT }; /* what host data are, from 1 on */

/* Tensors can be copied independently: no other rank takes part, and the host reads the memory of its devices. */
static inline bool rt_apart(const struct step_instance *t) { return t->ranks == 1 && t->device_ops->shared; }

/* Mine, or where another rank failed and this one did not, that one's. Called by all ranks. */
static inline step_status rt_agree(struct step_instance *t, step_status mine)
{
    return t->ranks > 1 ? t->program->mesh->agree(t, mine, 0) : mine;
}

/* ---------------------------------------------------------------- unpack.c, plan.c */

uint64_t rt_packed_number(const unsigned char **at);
bool rt_unpack(struct step_instance *);     /* tables of slots and buffers; false: out of memory */
bool rt_plan(struct step_instance *);       /* entries and address maps; false: out of memory */
bool rt_late_ready(struct step_instance *); /* late.c; see stepc_team */
bool rt_late_begin(struct step_instance *);
step_status rt_late_end(struct step_instance *, enum rt_late_end);
bool rt_go_ahead(struct step_instance *); /* step.c */
void rt_point_inputs(struct step_instance *, enum rt_entry_kind, bool whole_only);
void rt_point_weights(struct step_instance *, enum rt_entry_kind, enum rt_weights);

/* ---------------------------------------------------------------- input.c */

/* Checks and binds a batch for an entry; `steps`: leading extent of every input, 0 = none; `before`: what was wrong
 * already. All ranks leave with an error if one has. */
step_status rt_bind(struct step_instance *, const struct step_batch *, enum rt_entry_kind, uint64_t steps,
                    step_status before);
/* Addresses of step k of what rt_bind bound. */
void rt_bind_step(struct step_instance *, uint64_t k);
step_status rt_stage(struct step_instance *, const struct step_batch *);

/* ---------------------------------------------------------------- team.c, commands.c */

bool rt_meet(struct step_instance *, struct rt_barrier *, uint64_t deadline_ns);
/* The same in steps: 1: all have come, 0: not yet (never with `wait`), -1: the call failed elsewhere, or time is up. */
int rt_meeting(struct step_instance *, struct rt_barrier *, struct rt_meeting *, uint64_t timeout_ns, bool wait);
bool rt_unpack_commands(struct step_instance *, struct stepc_entry *, const unsigned char *at);
uint32_t rt_useful_workers(const struct stepc_program *, uint32_t most); /* of each device */
bool rt_plan_commands(struct step_instance *, struct rt_entry *);

/* ---------------------------------------------------------------- removal.c */

enum { RT_ITEMS = STEP_STATE, RT_STEP_NAME = 64 };
extern const char rt_item_files[RT_ITEMS][24]; /* by role, from 1 on */
DIR *rt_list(int parent, const char *path);    /* to be read by readdir */
int rt_open_folder(int parent, const char *name);
bool rt_move(int at, const char *from, const char *to, unsigned flags); /* flags of renameat2 */
/* ".kind-step-N-random"; false: tried often enough */
bool rt_new_name(char name[RT_STEP_NAME], const char *kind, uint64_t step, uint32_t attempt);
/* inside: of items. `try`: removes nothing. False: there are others, or it could not. */
bool rt_empty_folder(int at, bool inside, bool try);

/* ---------------------------------------------------------------- step.c */

step_status rt_step(struct step_instance *, const struct step_batch *, struct step_result *);
step_status rt_step_n(struct step_instance *, const struct step_batch *, uint64_t, struct step_result *);
step_status rt_commit(struct step_instance *, int accept);
step_status rt_eval(struct step_instance *, const struct step_batch *, const char *, struct step_result *);
step_status rt_infer(struct step_instance *, const struct step_batch *, const char *, const struct step_array *,
                     size_t);
step_status rt_run_entry(struct step_instance *, enum rt_entry_kind);
step_status rt_derive(struct step_instance *); /* fills computed slots */
void rt_step_counter(struct step_instance *);  /* reads the slot "step" where there is one */
/* What a step gave, into a result of the caller's version; *results moves on to the next one. */
void rt_result_put(const struct step_instance *, struct step_result **results, uint32_t flags, uint64_t ns);
step_status rt_interrupted(struct step_instance *, const char *when, uint64_t ahead);

/* ---------------------------------------------------------------- settings.c, instance.c, checkpoint.c */

struct rt_settings {
    struct step_options o;
    const char *trace; /* the environment's file; NULL: none */
};
/* What the host and the environment ask for; the devices and ranks there are: `local_count`, `device_ops`, `comm`. */
step_status rt_settings_read(struct step_instance *, struct rt_settings *);
step_status rt_settings_apply(struct step_instance *, const struct rt_settings *);

/* An instance over tables that need not be those of this object; also in step_tools.h. */
step_status rt_create(const struct stepc_program *, const struct step_options *, struct step_instance **);

/* ---------------------------------------------------------------- apart.c */

step_status rt_outputs_apart(struct step_instance *, const struct rt_outputs *);

/* ---------------------------------------------------------------- views.c, or the weak ones of api_table.c */

void rt_views_settle(struct step_instance *); /* the state may lie elsewhere than before */
bool rt_views_keep(struct step_instance *);   /* the memory is left to views, which free it */
/* Whether an array of the host reaches into memory that views show and calls write. Strides in bytes. */
bool rt_views_touch(struct step_instance *, const struct step_array *, const int64_t *stride, size_t item);
/* Writes a tensor from such an array; false: it is none, and nothing was written. */
bool rt_views_write(struct step_instance *, const struct stepc_slot *, const struct step_array *, const int64_t *stride,
                    step_status *);
void rt_destroy(struct step_instance *);
step_status rt_init(struct step_instance *);
step_status rt_init_values(struct step_instance *); /* within a call */
step_status rt_save(struct step_instance *, const struct step_save *, struct step_job **);
step_status rt_job_wait(struct step_job *, int64_t);
void rt_job_free(struct step_job *);
step_status rt_load(struct step_instance *, const struct step_load *);

/* ---------------------------------------------------------------- api_table.c */

const char *rt_item(const struct step_instance *, const char *name);
void rt_interrupt(struct step_instance *);
void rt_abort_peers(struct step_instance *);
step_status rt_memory(const struct step_instance *, uint32_t device, struct step_memory *);
step_status rt_trace(struct step_instance *, const char *path);
step_status rt_place(const struct step_instance *, struct step_place *);
step_status rt_agree_number(struct step_instance *, uint64_t mine, uint64_t *largest);
step_status rt_dlpack(struct step_instance *, const char *, struct DLManagedTensorVersioned **);
step_status rt_dlpack_legacy(struct step_instance *, const char *, struct DLManagedTensor **);

/* Everything of a step_api but `describe` and `create`, which name the tables of one program. */
#define RT_TABLE \
    .status_name = rt_status_name, .last_error = rt_last_error, .destroy = rt_destroy, .init = rt_init, \
    .tensor_count = rt_tensor_count, .tensor_at = rt_tensor_at, .tensor_find = rt_tensor_find, .read = rt_read, \
    .write = rt_write, .dlpack = rt_dlpack, .dlpack_legacy = rt_dlpack_legacy, .hyper_count = rt_hyper_count, \
    .hyper_at = rt_hyper_at, .hyper_get = rt_hyper_get, .hyper_set = rt_hyper_set, .stage = rt_stage, .step = rt_step, \
    .step_n = rt_step_n, .eval = rt_eval, .infer = rt_infer, .save = rt_save, .job_wait = rt_job_wait, \
    .job_free = rt_job_free, .load = rt_load, .item = rt_item, .interrupt = rt_interrupt, \
    .abort_peers = rt_abort_peers, .memory = rt_memory, .trace = rt_trace, .commit = rt_commit, .place = rt_place, \
    .agree = rt_agree_number

#pragma GCC visibility pop
#endif
