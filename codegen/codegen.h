/* From plans to an object: groups to nests (lower_*.c), nests to machine code (llvm_*.c) or CUDA (cuda_*.c), tables
 * of the object (describe.c), one shared object (link.c). */
#ifndef CODEGEN_CODEGEN_H
#define CODEGEN_CODEGEN_H
#include "codegen/nest/nest.h"
#include "ir/plan.h"

/* What makes a value that is checked (NEST_CHECK), in an order in which operands come first within a group. */
struct cg_site {
    const struct ir_func *func;
    ir_value value;
    uint32_t alike; /* tensors that its command computes at once: it is the first of them */
};
struct cg_sites {
    VEC(struct cg_site) list;
    const struct diag_source *source; /* of the document, NULL: it is not at hand */
};

enum {
    CG_CUDA_MULTIPROCESSORS = 132,
    CG_CUDA_BLOCKS = 2 * CG_CUDA_MULTIPROCESSORS, /* which keep a GPU busy */
    CG_CUDA_SHARED = 47 << 10                     /* bytes of shared memory that a block has, beside what folds need */
};

struct cg_target {
    const char *cpu;             /* LLVM's name, "native" resolved */
    const char *features;        /* LLVM's feature string */
    const char *tune;            /* the CPU whose timings are used, NULL: those of `cpu` */
    uint32_t vector_bytes;       /* 64, 32 or 16 */
    uint32_t vector_registers;   /* 32 or 16 */
    uint32_t l1_bytes, l2_bytes; /* for the blocking of contractions */
    bool pairs;                  /* bfloat16 is multiplied in pairs, which float32 accumulates (AVX512_BF16) */
    bool tiles;                  /* and in tiles of them (AMX) */
    int level;                   /* -O0 .. -O3 */
    int blas;                    /* a row of kernels/kernels.def (plan_product_row); 0: auto */
    bool invariant;              /* products and sums are rounded each, on all levels alike: no fused multiply-add */
    bool fast;                   /* what 16 bits make on the way to something else is not rounded (nest_wide.c) */
    bool cuda;
    bool warpgroups;        /* multiply 16 bits on a GPU, where it pays */
    bool warpgroups_always; /* wherever they may, if they do */
    bool unit;              /* a GPU has one for products of 16 bits, and copies that go on by themselves (sm_80) */
    const char *cuda_arch;  /* "sm_80,sm_90" */
    struct cg_sites *sites; /* NULL: values are not checked; else those that the lowering finds */
    bool views;             /* tensors can be read where they lie */
    const char *without;    /* parts of the runtime that are left out: names of cg_part_names between commas */
};

/* describe.c: parts of the runtime that an object can do without. */
enum { CG_PART_COUNT = 6 };
extern const char *const cg_part_names[CG_PART_COUNT];

/* A kernel command's code: the nest, and for a contraction what a library needs to do the same. */
struct cg_gemm { /* row-major, float32, on a GPU also of 16 bits: C[m,n] (+)= A op B, `batch` times */
    bool valid, trans_a, trans_b, accumulate;
    uint8_t dtype;
    uint8_t checked; /* 0; NEST_BOUNDED, NEST_CLOSE: what is made is seen to be */
    int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
    uint32_t a, b, c; /* which kernel arguments */
    uint32_t site;    /* of the product among cg_sites, from 1; 0: values are not checked */
};
struct cg_kernel {
    struct nest *nest;
    uint64_t hash;
    struct cg_gemm gemm;
    bool prefer_gemm; /* chosen by kernels/kernels.def for this shape, or by --blas */
};

/* What is not emitted yet is an error in the user's terms, with the place in the document. */
struct cg_options {
    struct cg_target target;
    const char *save_temps; /* folder, NULL: keep nothing */
    const char *output;     /* after which what is kept there has its names */
    const char *linker;
    const struct plan_module *cuda; /* an object for the CPU also has code for GPUs, of these plans; NULL: none */
    bool late_always;               /* the update waits wherever it may, whether it pays or not (late/late.h) */
};
struct cg_bytes {
    const void *data;
    size_t size;
};

/* llvm_object.c: a file of --save-temps. *why, unless it has a text: what could not be written. */
void cg_keep(struct arena *, const char *prefix, const char *suffix, const void *data, size_t size, const char **why);

/* lower.c: one kernel per group of the plan, in the order of plan->groups (equal hashes: equal code). */
bool cg_lower(const struct plan_module *, const struct plan *, const struct cg_target *, struct arena *, struct diags *,
              struct cg_kernel *out);
/* Fills the target from "native", "x86-64-v2|v3|v4" or an LLVM CPU name. False: unknown name (message in *why). */
/* Columns of a panel: those of a register tile of a product. */
uint32_t cg_panel_columns(const struct cg_target *);
uint32_t cg_panel_rows(const struct cg_target *); /* of a tile of so many columns, at most */
bool cg_target_init(struct cg_target *, const char *cpu, const char **why, struct arena *);
/* llvm_object.c, describe.c, link.c: the whole way; *object gets the bytes of the file, whose note has no checksum yet
 * (stepc/step_open.h). Returns an exit code (0, 1, 2 for a bad --cuda-arch, 3) with *why. */
int cg_compile(const struct plan_module *, const struct cg_options *, struct arena *, struct diags *,
               struct cg_bytes *object, const char **why);
/* describe_kernels.c: whether every group has code; else diags say what has none, as those of cg_compile do. */
bool cg_has_code(const struct plan_module *, const struct cg_target *, struct arena *, struct diags *);
/* How the commands of plans are run, as JSON, and the tile of products (llvm_object.h); NULL: diags say why not. */
const char *cg_kernels(const struct plan_module *, const struct cg_target *, struct arena *, struct diags *);
/* llvm_open.c: loads LLVM, once; cg_compile does it. NULL, or why it cannot. */
const char *cg_llvm_open(struct arena *);

/* runtime_image.S: the archive of the runtime that goes into every object, embedded by the build. */
extern const unsigned char cg_runtime_image[], cg_runtime_image_end[];
#endif
