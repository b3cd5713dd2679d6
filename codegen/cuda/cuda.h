/* Inside codegen: loop nests as CUDA C (cuda_emit.c, cuda_op.c), compiled by NVRTC (cuda_nvrtc.c), all kernels of a
 * module as one text per architecture (cuda_share.c, cuda_module.c).
 *
 * The parallel loop becomes the grid (teams stride over [lo, hi)), a vector loop the threads of a team, everything else
 * is done by all threads alike: a value outside a vector loop is the same in every thread, a store there is thread 0's.
 * A lane register is one register array per thread; the lane of iteration i is thread i % threads. A team is a block,
 * or, where iterations are short, a warp, of which a block has several; `thread` is a thread's number in its team. */
#ifndef CODEGEN_CUDA_H
#define CODEGEN_CUDA_H
#include "codegen/codegen.h"
#include "codegen/llvm/llvm_object.h"
#include <stepc/step_abi.h>

enum {
    CUDA_LANES = 128,
    CUDA_WARP = 32,
    CUDA_SHARED_BYTES = 48 * 1024, /* that are static, at most */
    CUDA_MAX_THREADS = 1024,
    CUDA_REGISTERS = 65536,      /* of a multiprocessor */
    CUDA_ACCESS = 16,            /* bytes of the widest */
    CUDA_PANEL_ALIGNMENT = 1024, /* after which the swizzle repeats */
    CUDA_MOST_BLOCKS = INT32_MAX,
    CUDA_SEQUENCE_THREADS = 256,
    CUDA_SCRATCH_BYTES = 256 << 20 /* of a whole grid */
};

/* Of one printed nest. The kernel's parameters: a pointer per argument of the nest, then lo and hi (int64), or, if it
 * takes members, a table of them (step_abi.h); then, if scratch_bytes is not 0, a block of blocks * scratch_bytes for
 * locals that did not fit the shared memory, then, if it checks, where it says that it stored something that is not
 * finite; then the numbers (uint32) that differ between those who launch it. */
struct cuda_kernel {
    const char *name;
    uint32_t threads;        /* of a block */
    uint32_t teams;          /* that the threads are of: iterations of the parallel loop that a block does at once */
    uint32_t argument_count; /* of the nest */
    uint64_t shared_bytes;   /* static */
    uint64_t dynamic_bytes;  /* shared memory that every launch asks for beside it */
    uint64_t scratch_bytes;  /* per block */
    uint32_t members;        /* sets of buffers that one launch takes, at most; 0: it takes one, and no table */
    uint32_t number_count;   /* that every launch passes */
    uint32_t few;            /* iterations that a thread of a flat map does at once */
    bool flat;               /* [lo, hi) is shared out to threads, not to blocks */
    bool checks;             /* what it stores to some of its arguments (nest_buffer.checked) */
    bool part;               /* it is printed as a part of sequences alone */
};

/* What is known of the commands that call a kernel. */
struct cuda_calls {
    uint32_t members;    /* at most (cg_members) */
    bool *shares;        /* by argument: of some call in memory that another argument has, too, and that one of the two
                                  writes; NULL: all may */
    bool *aligned;       /* by argument: it begins at a multiple of CUDA_ACCESS bytes in every call; NULL: none does */
    nest_value *numbers; /* of the nest that are parameters */
    uint32_t number_count;
};

/* cuda_emit.c */
struct cuda_kernel cuda_emit(struct str *out, const struct nest *, const char *name, const struct cuda_calls *,
                             struct arena *);
/* The same as a part of a sequence: for the threads of its block, with parameters in `table` from `at` on and locals in
 * `shared`; gives how many bytes these take. */
uint64_t cuda_emit_part(struct str *out, const struct nest *, const struct cuda_calls *, struct arena *);
uint32_t cuda_blocks(const struct cuda_kernel *, int64_t extent); /* a grid for that many parallel iterations */
struct stepc_cuda_kernel cuda_table(const struct cuda_kernel *);  /* what an object says of it, but its name */

/* cuda_order.c: which threads touch which elements. One load, store or addition of a nest as the threads of a block do
 * it. Two that may meet at one element from different threads, one of them writing, need a barrier between them. */
struct cuda_access {
    const struct nest_stmt *stmt, *vector; /* vector: the loop around it; NULL: all threads read, thread 0 writes */
    bool solo;                             /* the vector loop is run by thread 0 alone */
    bool before;                           /* before the parallel loop */
    uint32_t few;                          /* neighbours in the vector loop that are one thread's */
};
/* What an int32 value is of a loop's variable: (variable / by) % count. count 0: it is not known to be that. */
struct cuda_digit {
    nest_var var;
    int64_t by, count;
};
struct cuda_order {
    const struct nest *nest;
    bool *varies;                  /* by value: computed inside a vector loop */
    int64_t *extent;               /* by variable; -1: not known */
    struct cuda_digit *digits;     /* by value */
    const struct nest_stmt **made; /* by value */
};
/* What a statement makes, told before those that use it. */
void cuda_learn(struct cuda_order *, const struct nest_stmt *);
bool cuda_conflict(const struct cuda_order *, const struct cuda_access *, const struct cuda_access *);
/* Lanes of the loop may add to one element: they have to go one after the other. */
bool cuda_collides(const struct cuda_order *, const struct nest_stmt *vector, const struct nest_stmt *add_to);

/* cuda_runs.c: loads of a vector loop's body that one access can make: of neighbours from a multiple of their number
 * on. The first one's result, and which of them it is; 0: a load for itself. Stores: the first one in memory, and
 * whether this one is the last in the body, which makes all of them. */
struct cuda_run {
    nest_value first;
    uint32_t at, count;
};
struct cuda_stored {
    const struct nest_stmt *stmt, *first;
    uint32_t at, count;
    bool last;
};
typedef VEC(struct cuda_stored) cuda_stores;
void cuda_find_runs(const struct nest *, const struct nest_stmt *loop, const struct cuda_calls *,
                    struct cuda_run *by_value);
void cuda_find_stores(const struct nest *, const struct nest_stmt *loop, const struct cuda_calls *, struct arena *,
                      cuda_stores *);

/* cuda_unroll.c: so often; the loop's extent where it has to vanish, 0: as the compiler likes. Of a vector loop that
 * takes each thread `steps` steps of `few` elements. */
enum { CUDA_STEPS = 8 /* of a thread, whose loads are then under way together */ };
int64_t cuda_unroll(const struct nest_stmt *);
int64_t cuda_unroll_steps(const struct nest_stmt *, int64_t steps, int64_t few);

/* cuda_op.c: types and expressions as text. */
const char *cuda_register_type(enum ir_dtype);
const char *cuda_memory_type(enum ir_dtype);
const char *cuda_number(struct arena *, enum ir_dtype, double);
const char *cuda_rounded(struct arena *, enum ir_dtype, const char *text); /* of 16 bits, as registers have them */
const char *cuda_from_memory(struct arena *, enum ir_dtype, const char *place);
const char *cuda_to_memory(struct arena *, enum ir_dtype, const char *value);
const char *cuda_op(struct arena *, enum ir_op, enum ir_dtype result, enum ir_dtype operand, uint8_t word,
                    const char *const *args);
const char *cuda_fma(struct arena *, enum ir_dtype, const char *const *args);

/* cuda_nvrtc.c: texts to cubins, for "compute_80" to PTX. Sources of one text (one pointer) share its PTX where it is
 * the same for their architectures. NULL, or what is wrong with the machine (no NVRTC, or one that does not know an
 * architecture). A text that does not compile is a defect: it is saved as <save> and the compiler stops. */
struct cuda_source {
    const char *text, *arch;
    struct cg_bytes code;
};
const char *cuda_nvrtc(struct cuda_source *, size_t count, const char *save, struct arena *);

/* cuda_ptx.c: a text whose kernels have this PTX, which NVVM made of it, as their bodies; those that need what is
 * declared beside them are left as they are. NULL: the PTX has another form. */
const char *cuda_with_ptx(const char *text, const char *ptx, struct arena *);

/* cuda_share.c: the kernels of all entries, and which one each group launches. Gives how many there are. */
struct cuda_shared {
    const struct nest *nest;
    struct cuda_calls calls;
};
struct cuda_use {
    uint32_t kernel;
    const uint32_t *numbers;
};
struct cg_cuda;
size_t cuda_share(struct cg_cuda *, const struct plan_module *, const struct cg_entry *, uint32_t count,
                  struct cuda_shared **out, struct arena *);

/* cuda_module.c: their text. Long ones are cut: each piece has its images. */
struct cuda_image {
    const char *arch;
    uint32_t first, count; /* of `kernels` */
    struct cg_bytes cubin;
};
struct cg_cuda {
    VEC(struct cuda_kernel) kernels;
    VEC(size_t) begins; /* by kernel: where its text begins */
    VEC(struct cuda_image) images;
    struct cuda_use **uses; /* by entry, then by group */
    uint32_t **sum_of;      /* by entry, then by command: of a collective that sums; UINT32_MAX: none */
    bool **small;           /* by entry, then by command: a part of sequences */
    bool *parts;            /* by kernel: what sequences have a part of */
    bool sequences;         /* there are some */
    const char *text;
    struct cuda_shared *shared; /* nests of the first `shares` kernels; then collectives', of sequences, `move` */
    size_t shares;
};
void cuda_target(struct cg_target *); /* the shape of nests that suits blocks of threads */
void cuda_print_module(struct cg_cuda *, const struct plan_module *, const struct cg_entry *, uint32_t count,
                       struct arena *);
/* An exit code: 0, 2 (bad list of architectures), 3, with *why. `temps`: NULL or a prefix for the text. */
int cuda_build(struct cg_cuda *, const struct cg_tables *, const struct cg_options *, const char *temps, struct arena *,
               const char **why);

/* cuda_sum.c: the kernel of a collective that sums, printed if need be; UINT32_MAX: it has none. */
uint32_t cuda_sum(struct cg_cuda *, struct str *out, const struct plan_command *, const struct ir_mesh *,
                  struct arena *);

/* cuda_sequence.c: which commands are parts of sequences, and which kernels are that alone; the kernel of sequences. */
void cuda_find_small(struct cg_cuda *, const struct cg_entry *, uint32_t count, struct arena *);
void cuda_sequence(struct cg_cuda *, struct str *out, struct arena *);

/* cuda_move.c: the kernel between the host and the device, the module's last one. */
void cuda_move(struct cg_cuda *, struct str *out, struct arena *);

extern const char cg_cuda_prelude[];
#endif
