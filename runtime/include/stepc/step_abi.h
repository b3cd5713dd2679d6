/* The tables that generated code hands to the runtime linked into the same object. Not part of the promise to
 * hosts. One constant symbol, `stepc_program`, holds everything. */
#ifndef STEPC_STEP_ABI_H
#define STEPC_STEP_ABI_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Computes iterations [lo, hi) of its parallel loop. `buffers`: its arguments in order. Inputs of the host are used
 * in place and only aligned to their element; everything else is aligned to 64 bytes where its offset is. */
typedef void stepc_kernel_fn(void *const *buffers, int64_t lo, int64_t hi, void *scratch);
/* So many bytes in front of `scratch`; all but the flag only with checks of values (`finite`). */
enum { STEPC_FLAG_BEFORE = 192 };
enum {
    STEPC_FLAG_NOT_FINITE = 1, /* a float that is not finite, or whose square is not */
    STEPC_FLAG_LARGE = 2 /* one whose absolute value is STEPC_BOUND or more; in entries with commands that are `late` */
};
#define STEPC_BOUND 0x1p30
#define STEPC_BOUND_CLOSE 0x1p14 /* in its place, in entries whose late commands need a closer one */
#define STEPC_BOUND_HYPER 0x1p20
struct stepc_seen {  /* a value that is not finite */
    uint64_t at;     /* `now` of it */
    int64_t element; /* -1: not known */
    uint32_t site;   /* what it stands for in the list of sites, from 1; 0: there is none */
    uint32_t inputs; /* finite.c */
};
struct stepc_watch {
    uint32_t flag; /* STEPC_FLAG_*, of what kernels store AT_NEXT, or make there for others */
    uint32_t unused;
    uint64_t now;              /* grows with every command, alike for all workers */
    struct stepc_seen seen[5]; /* the first of each kind of finite.c */
};

enum {
    STEPC_AT_ARENA,
    STEPC_AT_STATE,
    STEPC_AT_INPUT,
    STEPC_AT_RESULT,
    STEPC_AT_CONSTANT,
    STEPC_AT_DEVICE, /* int32 positions of this device along each set of mesh axes: offset = 4 * bit mask of the axes */
    STEPC_AT_NEXT,   /* what a step makes of the state: as AT_STATE, in the same block or in a second one */
    /* In entries with commands that are `late`: */
    STEPC_AT_HELD, /* as AT_ARENA; where late commands run behind all others at `slot` of a block of its own */
    STEPC_AT_EARLY /* as AT_NEXT, but no late command writes it */
};
struct stepc_buffer {
    uint32_t space;  /* STEPC_AT_* */
    uint32_t slot;   /* INPUT: which slot; HELD: a second offset */
    uint64_t offset; /* in its space */
    uint64_t bytes;
};

enum { STEPC_KERNEL, STEPC_LOOP_BEGIN, STEPC_LOOP_END, STEPC_COLLECTIVE };
enum { STEPC_STARTS = 1, STEPC_WAITS }; /* of a collective in two commands: it begins; it must have ended */
enum { STEPC_ALL_REDUCE, STEPC_ALL_GATHER, STEPC_REDUCE_SCATTER, STEPC_ALL_TO_ALL, STEPC_PERMUTE, STEPC_BROADCAST };
enum { STEPC_SUM, STEPC_MAX, STEPC_MIN };

struct stepc_gemm { /* what a library needs to do a kernel's work: C (+)= op(A) op(B), row-major */
    int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
    uint32_t a, b, c;                             /* which of the command's buffers */
    uint8_t trans_a, trans_b, accumulate, prefer; /* prefer 2: C must be seen to be below STEPC_BOUND, 3: _CLOSE */
    uint32_t site;                                /* with checks of values: the product's, from 1 */
    uint32_t dtype;                               /* of all three: STEP_F32; on a GPU also of 16 bits */
};

struct stepc_command {
    uint8_t kind;
    uint8_t barrier; /* workers meet before this command */
    uint8_t late;    /* may run after all that are not, and then does not make anything infinite or NaN of what
                        is below the bounds (STEPC_BOUND) */
    uint8_t collective, reduction; /* STEPC_ALL_REDUCE.., STEPC_SUM.. */
    uint8_t dtype;                 /* of a collective's elements */
    uint8_t half;                  /* 0: it begins and ends here; STEPC_STARTS.. */
    uint32_t buffer_count;         /* of all members */
    const uint32_t *buffers;       /* indices into the entry's buffers */
    stepc_kernel_fn *kernel;
    int64_t extent, grain;         /* of the parallel loop */
    double work;                   /* rough operations */
    const struct stepc_gemm *gemm; /* NULL: the kernel only */
    /* loops: indices into the entry's buffers; flag UINT32_MAX = none; other = index of the matching command */
    uint32_t counter, limit, flag, other; /* of STEPC_WAITS: where it started */
    /* collectives */
    uint32_t axes;     /* bit mask of mesh axes */
    uint64_t count;    /* elements per device, of the operand */
    uint64_t inner;    /* all_gather, reduce_scatter: contiguous elements of one device's part: its extent of
                                      the dimension times the extents behind it; all_to_all: of the part of the operand
                                      that goes to one device. permute: device i sends to device i + inner of its group,
                                      which begins anew after the last; broadcast: the device that sends */
    uint64_t into;     /* all_to_all: contiguous elements of one device's part of the result; permute, if it is not 0:
                                      the group stands in rows of so many devices, and row i sends to column i */
    const char *place; /* "/model/layers/1: grad of dot", for messages; of the loop over microbatches:
                                      begins with "/accumulate" (the host may end that one early) */
    /* A kernel over many tensors: the same for several sets of buffers, which stand one after another in `buffers`.
     * Then `extent` is that of all, and the kernel's ranges are those of a member. */
    uint32_t members;    /* 0, 1: one */
    const int64_t *ends; /* by member: iterations of it and those before it */
    /* A collective over many tensors: each member, as a collective of `whole`, with its number. */
    const struct stepc_command *regions, *whole;
    uint32_t region;
    /* A collective's buffers are [operand, result]. Those of all_reduce may be the same memory; those of the other two
     * must not overlap, because peers read the operand while the result is written. */
};

/* A whole entry in one function, for steps too small for a team: same meaning as its commands run by one worker.
 * `buffers`: address of every buffer of the entry. */
typedef void stepc_program_fn(void *const *buffers, void *scratch);

struct stepc_entry {
    const char *name; /* "init", "step", "eval", "infer", "derive"; "restart" (optional): everything that
                                      starts from the parameters, run after init and when parameters were loaded;
                                      "indices", "lookup" (optional): what a batch gives to index with, before step
                                      and eval, before infer */
    const struct stepc_buffer *buffers;
    uint32_t buffer_count;
    const struct stepc_command *commands;
    uint32_t command_count;
    uint64_t arena_bytes, scratch_bytes;
    double work;
    stepc_program_fn *whole; /* NULL: too large, or it has collectives. With it the commands may be left out */
};

struct stepc_slot {
    const char *name;
    uint32_t role;  /* STEP_PARAM .. STEP_OUTPUT, 8: hyper-parameter, 9: result of "indices", "lookup" */
    uint32_t dtype; /* STEP_F32 .. */
    int32_t rank;
    uint32_t flags;       /* STEP_FROZEN, STEP_SHARDED */
    const int64_t *shape; /* global */
    const int64_t *local; /* per device */
    const uint32_t *axes; /* per dimension: mesh axes that split it, nibbles (axis + 1), outermost first */
    const char *sharding; /* JSON */
    uint64_t offset; /* metrics and outputs: in the result block; all others, computed ones too: in the state block */
    int64_t index_limit;   /* inputs, results of these: values in [initial, limit); 0 = not checked */
    double initial;        /* hyper-parameters; the least index */
    uint8_t computed;      /* read through entry "derive" */
    uint8_t used_by_infer; /* inputs that infer needs */
    uint16_t bits;         /* STEPC_PACKED_KEPT and on */
};

/* Objects for CUDA: their kernels as images, those of one architecture with different kernels. A kernel's parameters
 * are the addresses of its command's buffers, lo and hi (int64), if scratch_bytes is not 0 a block of blocks *
 * scratch_bytes, if it checks what it stores, the address of the flag (STEPC_FLAG_NOT_FINITE), and the numbers of the
 * launch (uint32), in which what is one kernel differs. In place of buffers, lo and hi those with `members` take a
 * table of so many members, a parameter of 1 + members * (argument_count + STEPC_CUDA_MEMBER_WORDS) words of eight
 * bytes: how many members there are; per member its buffers, its number of iterations, and the blocks of it and those
 * before it. */
enum { STEPC_CUDA_TABLE_WORDS = 508 /* at most; parameters are 4 KiB */, STEPC_CUDA_MEMBER_WORDS = 2 };
struct stepc_cuda_kernel {
    const char *name;        /* in the images that have it */
    uint32_t threads;        /* of a block */
    uint32_t argument_count; /* buffers */
    uint32_t members;        /* that one launch takes at most; 0: it takes no table */
    uint32_t iterations;     /* that a block is worth */
    uint32_t most_blocks;    /* of a set of buffers */
    uint8_t checks;          /* whether it raises the flag */
    uint8_t part;            /* it is in no image but as a part of sequences */
    uint16_t number_count;   /* of a launch */
    uint32_t shared_bytes;   /* static shared memory of a block */
    uint32_t dynamic_bytes;  /* and what a launch asks for beside it; the static memory is at most 48 KiB */
    uint64_t scratch_bytes;  /* global memory per block */
};
static inline uint32_t stepc_cuda_blocks(const struct stepc_cuda_kernel *kernel, int64_t extent)
{
    int64_t each = kernel->iterations, blocks = extent > 0 ? (extent - 1) / each + 1 : 1;
    return blocks < (int64_t)kernel->most_blocks ? (uint32_t)blocks : kernel->most_blocks;
}
static inline uint32_t stepc_cuda_words(const struct stepc_cuda_kernel *kernel) /* its parameters, a table whole */
{
    uint32_t member = kernel->argument_count + STEPC_CUDA_MEMBER_WORDS;
    return (kernel->members ? 1 + kernel->members * member : member) + (kernel->scratch_bytes != 0) + kernel->checks +
           kernel->number_count;
}
static inline int stepc_cuda_is_text(const char *arch) /* CUDA C, that of sm_90a or for all, for stand-in drivers */
{
    return strcmp(arch, "text") == 0 || strcmp(arch, "text_90a") == 0;
}
struct stepc_cuda_image {
    const char *arch;          /* "sm_80": a cubin; "compute_80": PTX; stepc_cuda_is_text */
    const unsigned char *data; /* a text ends with a zero */
    uint64_t bytes;
    uint32_t first_kernel, kernel_count;
};
struct stepc_cuda_launch {
    uint32_t kernel, blocks; /* kernel: UINT32_MAX for commands that are none; blocks of all its members */
    uint64_t small;          /* it may be a part of a sequence */
    const char *place;       /* "/model/layers/1: dot", for messages */
    const uint32_t *numbers;
};
/* The last kernel moves pieces between the host and the device: a table of how many there are, then of each where to,
 * where from, and its bytes: STEPC_CUDA_CLEARS where these are zeros then, STEPC_CUDA_SETS where four bytes become the
 * number that stands in place of where from. */
enum { STEPC_CUDA_MOVES = 40, STEPC_CUDA_MOVE_WORDS = 1 + 3 * STEPC_CUDA_MOVES };
#define STEPC_CUDA_CLEARS (UINT64_C(2) << 62)
#define STEPC_CUDA_SETS (UINT64_C(3) << 62)
/* Launches that follow one another, each too small for one of its own, and pieces that are moved between them are one
 * launch of the kernel before the last, whose block does one after the other. Its parameter is a table of
 * STEPC_CUDA_TABLE_WORDS words: where the parts end; then of each part the number of its kernel and its parameters (of
 * a move those that are there). */
struct stepc_cuda {
    const struct stepc_cuda_kernel *kernels;
    const struct stepc_cuda_image *images;
    const struct stepc_cuda_launch *const *launches; /* by entry, then by command */
    uint32_t kernel_count, image_count;
    uint64_t sequences; /* 0: no launch is a part of one; wide, as are all members behind narrow ones: no byte of a
                           table is left to chance */
};

/* Parts of the runtime that not every program needs. A program's tables name those that it does, so that the linker
 * leaves the others out. Types and members are the runtime's own. */
extern const struct stepc_team stepc_part_team;              /* an entry without `whole`, or several devices */
extern const struct stepc_mesh stepc_part_mesh;              /* collectives */
extern const struct stepc_mesh stepc_part_mesh_staged;       /* the same between devices that the host cannot read */
extern const struct stepc_blas stepc_part_blas;              /* a command with gemm->prefer */
extern const struct stepc_blas stepc_part_cublaslt;          /* the same in a program for GPUs */
extern const struct stepc_gpu stepc_part_gpu;                /* `cuda` is there */
extern const struct stepc_indices stepc_part_indices;        /* a slot with a limit */
extern const struct stepc_checkpoint stepc_part_checkpoint;  /* save and load of directories and files */
extern const struct stepc_checkpoint stepc_part_retention;   /* the same without maps */
extern const struct stepc_checkpoint stepc_part_directories; /* and without retention */
/* The same of objects whose checkpoints may have several pieces: of meshes, of states above the bound of a file */
extern const struct stepc_checkpoint stepc_part_checkpoint_pieces, stepc_part_retention_pieces,
    stepc_part_directories_pieces;
extern const struct stepc_checkpoint stepc_part_files; /* of files alone */
extern const struct stepc_compression stepc_part_compression;
extern const struct stepc_lending stepc_part_lending; /* a state of STEPC_LENT_FROM bytes or more on CPUs */
extern const struct stepc_finite stepc_part_finite;   /* `sites` is there */
extern const struct stepc_arrays stepc_part_outputs;  /* several outputs */
extern const struct stepc_choice stepc_part_choice;   /* `gpus` is there */
extern const struct stepc_arrays stepc_part_views;    /* asked for; its other functions stand for weak ones */
void stepc_finite_record(char *scratch, uint64_t site, uint64_t bad, uint64_t nan, uint64_t inputs, uint64_t nans,
                         int64_t element, int64_t scale);

struct stepc_program {
    uint32_t version; /* of these tables: STEPC_TABLES */
    const char *name;
    const char *manifest; /* JSON */
    const char *features; /* CPU features the code needs: "avx512f,avx512vl"; ends with a zero or a quotation mark */
    const struct stepc_slot *slots;
    uint32_t slot_count;
    const struct stepc_entry *entries;
    uint32_t entry_count;
    const unsigned char *constants;
    uint64_t constant_bytes, state_bytes, result_bytes;
    uint32_t axis_count;
    const char *const *axis_names;
    const int64_t *axis_sizes; /* product = devices */
    uint64_t memory[8];        /* planned bytes: parameters, averages, optimizer, other state, gradients, activations,
                                  workspace, lower bound */
    const struct stepc_cuda *cuda; /* NULL: CPU object */
    const struct stepc_team *team; /* NULL: not needed */
    const struct stepc_mesh *mesh;
    const struct stepc_blas *blas;
    const struct stepc_gpu *gpu;
    const struct stepc_indices *indices;
    const struct stepc_checkpoint *checkpoint;
    const struct stepc_compression *compression;
    const struct stepc_lending *lending;
    /* NULL, or slots and buffers as a stream of bytes, which stand for `slots` and the entries' `buffers` (NULL then):
     * every pointer of a table costs 32 bytes in the file. Numbers are LEB128. Per slot: name with its zero; role;
     * dtype; rank; STEPC_PACKED_* bits (a number); shape; if sharded per dimension local and axes, then the JSON text
     * with its zero; offset; limit and initial value (8 bytes) if their bit is set. Then per entry and buffer: space,
     * slot, offset, bytes. Then the commands of all entries that have some (whose `commands` are NULL): how many buffer
     * indices and ends there are in all; per command a byte, kind | barrier << 2 | late << 3 | half << 4. A kernel: its
     * number in `kernels` and in `gemms` (from 1, 0: none), buffers (their number first), extent, grain, work (a
     * float), and the number of its members with their ends if there are several. A loop: counter, limit, flag + 1,
     * other, place with its zero. A collective: its kind, reduction, dtype (bytes), axes, the number of its members,
     * for each the two buffers, count, inner, into; then place. */
    const unsigned char *packed;
    stepc_kernel_fn *const *kernels;
    const struct stepc_gemm *gemms;
    /* NULL: values are not checked. By site a line: STEPC_SITE_*, then what it is and its place. */
    const struct stepc_finite *finite;
    const char *sites;
    const struct stepc_trace *trace;
    const struct stepc_arrays *arrays;
    /* Of an object for several kinds of devices: the same for GPUs, and who chooses. NULL: none */
    const struct stepc_choice *choice;
    const struct stepc_program *gpus;
};
/* With the number of a site: whether its inputs are finite is not seen there; it is given to the step; and may be so
 * from the start. */
#define STEPC_SITE_UNKNOWN (UINT64_C(1) << 32)
#define STEPC_SITE_OUTER (UINT64_C(1) << 33)
#define STEPC_SITE_PLACEHOLDER (UINT64_C(1) << 34)
enum { STEPC_SITE_MADE = '=', STEPC_SITE_GIVEN = '<' };
enum {
    STEPC_PACKED_FROZEN = 1,
    STEPC_PACKED_SHARDED = 2,
    STEPC_PACKED_COMPUTED = 4,
    STEPC_PACKED_INFER = 8,
    STEPC_PACKED_LIMIT = 16,
    STEPC_PACKED_INITIAL = 32,
    STEPC_PACKED_KEPT = 64,      /* a step changes it in place: AT_NEXT begins as what is AT_STATE */
    STEPC_PACKED_WATCHED = 128,  /* floats that a step makes; kernels see whether they are finite but for single numbers
                                   (rank 0) of optimizers, which may be infinite from the start */
    STEPC_PACKED_POSITIVE = 256, /* late commands must find nothing here that is below 0 */
    STEPC_PACKED_BOUNDED = 512,  /* an input: nothing that is STEPC_BOUND or more; a number of the state: nor that,
                                    and, if it is an integer, not below 0 */
    STEPC_PACKED_FIXED = 1024,   /* a hyper-parameter: its initial value; others: not below 1 / STEPC_BOUND */
    STEPC_PACKED_CLOSE = 2048    /* tensors, inputs and parameters: STEPC_BOUND_CLOSE in place of STEPC_BOUND */
};
enum { STEPC_TABLES = 13, STEPC_LENT_FROM = 1 << 16 };
#define STEPC_FILE_BYTES (UINT64_C(8) << 30) /* of a file of a checkpoint; larger ones become several */

extern const struct stepc_program stepc_program;
#endif
