/* NVIDIA's library for matrix products as cublaslt.c uses it: its functions by name, so that no header of it is needed,
 * of versions 12 and 13. Descriptors are pointers, streams the driver's. Its matrices have columns one behind the
 * other: what it calls A is our B, read as its transpose, and what it gives is our C. */
#ifndef RUNTIME_CUBLASLT_H
#define RUNTIME_CUBLASLT_H
#include "runtime/cuda_driver.h"

#pragma GCC visibility push(hidden)

enum { LT_OLDEST = 12 /* major version */, LT_NOT_SUPPORTED = 15 /* a status */ };
enum { LT_R_32F = 0, LT_R_16F = 2, LT_R_16BF = 14, LT_COMPUTE_32F = 68 /* nothing of TF32 */ };
enum { LT_OPERATION_TRANS_A = 3, LT_OPERATION_TRANS_B = 4, LT_TRANSPOSED = 1 };
enum { LT_LAYOUT_BATCH_COUNT = 5, LT_LAYOUT_BATCH_STRIDE = 6 };
enum {
    LT_WANT_WORKSPACE_BYTES = 1,
    LT_WANT_REDUCTION_MASK = 3,
    LT_WANT_ALIGNMENT_A = 5,   /* then of B, C, D */
    LT_REDUCE_IN_WORKSPACE = 2 /* parts of a sum in float32, added in an order of their own: the same bits every time */
};

struct rt_lt_algorithm {
    uint64_t data[8];
};
struct rt_lt_found {
    struct rt_lt_algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

/* X(member, name in the library, parameters). All return a status: 0 is success. */
/* clang-format off */
#define LT_FUNCTIONS(X) \
    X(create, "cublasLtCreate", (void **)) \
    X(destroy, "cublasLtDestroy", (void *)) \
    X(operation_create, "cublasLtMatmulDescCreate", (void **, int compute, int scale)) \
    X(operation_set, "cublasLtMatmulDescSetAttribute", (void *, int, const void *, size_t)) \
    X(operation_destroy, "cublasLtMatmulDescDestroy", (void *)) \
    X(layout_create, "cublasLtMatrixLayoutCreate", (void **, int dtype, uint64_t rows, uint64_t columns, int64_t ld)) \
    X(layout_set, "cublasLtMatrixLayoutSetAttribute", (void *, int, const void *, size_t)) \
    X(layout_destroy, "cublasLtMatrixLayoutDestroy", (void *)) \
    X(want_create, "cublasLtMatmulPreferenceCreate", (void **)) \
    X(want_set, "cublasLtMatmulPreferenceSetAttribute", (void *, int, const void *, size_t)) \
    X(want_destroy, "cublasLtMatmulPreferenceDestroy", (void *)) \
    X(find, "cublasLtMatmulAlgoGetHeuristic", (void *, void *operation, void *a, void *b, void *c, void *d, void *want, \
                                               int count, struct rt_lt_found *, int *found)) \
    X(multiply, "cublasLtMatmul", (void *, void *operation, const void *alpha, const void *a, void *a_layout, \
                                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, \
                                   void *d, void *d_layout, const struct rt_lt_algorithm *, void *workspace, \
                                   size_t workspace_bytes, void *stream))
/* clang-format on */

#define LT_MEMBER(member, name, parameters) int(*member) parameters;
struct rt_lt_functions {
    LT_FUNCTIONS(LT_MEMBER)
    size_t (*version)(void);
    const char *(*status_name)(int);
};
struct rt_lt_library { /* rt_cuda_host.library */
    struct rt_lt_functions call;
    const char *path;
    bool usable;
    uint32_t count;                     /* products of the object: its gemms */
    bool *refused;                      /* by product: some device does it by its kernel, so all do */
    struct rt_lt_algorithm *algorithms; /* and of the first device that has one; all zero: none yet */
};

struct rt_cuda_product { /* on a device */
    const struct stepc_gemm *gemm;
    const struct stepc_command *command; /* the first of those that it stands for */
    const struct stepc_cuda_launch *launch;
    void *operation, *a, *b, *c; /* layouts: a of our A */
    uint32_t aligned;            /* to so many bytes its operands are, at least */
    struct rt_lt_found found;
};
struct rt_lt_device { /* rt_cuda_device.products */
    struct rt_cuda_products products;
    struct rt_lt_functions call;
    struct rt_lt_library *library; /* is gone when the device is closed */
    void *handle;
    struct rt_cuda_product *of; /* by number of gemm, `count` of them; command NULL: the kernel does it */
    uint32_t count;
};

/* cublaslt_check.c: the product of small whole numbers, which every order of adding gives alike, by the library and by
 * the object's own kernel. `workspace`: bytes that both may use. In *why: what kept it from being tried. */
step_status rt_lt_check(struct rt_device *, const struct rt_cuda_product *, uint64_t workspace, const char **why);
#pragma GCC visibility pop
#endif
