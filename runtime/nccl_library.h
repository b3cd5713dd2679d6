/* NVIDIA's library for collectives as comm_nccl.c uses it: its functions by name, so that no header of it is needed.
 * Streams are the driver's. */
#ifndef RUNTIME_NCCL_LIBRARY_H
#define RUNTIME_NCCL_LIBRARY_H
#include "runtime/rt.h"

#pragma GCC visibility push(hidden)

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_OLDEST = 21800 /* communicators that are split */ };
enum { NCCL_BYTES = 0, NCCL_NONE = -1 };
enum { NCCL_SUM = 0, NCCL_MAX = 2, NCCL_MIN = 3 };

struct rt_nccl_id {
    char bytes[128];
};
/* As of the oldest version: later ones look at size and version, and fill in the rest. `traffic` stands where that
 * version has nothing; 2.26 takes it. */
struct rt_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga, least_blocks, most_blocks;
    const char *net;
    int share, traffic;
};

/* X(member, name in the library, parameters). All return a status. */
/* clang-format off */
#define NCCL_FUNCTIONS(X) \
    X(version, "ncclGetVersion", (int *)) \
    X(new_id, "ncclGetUniqueId", (struct rt_nccl_id *)) \
    X(init, "ncclCommInitRankConfig", (void **, int, struct rt_nccl_id, int, struct rt_nccl_config *)) \
    X(split, "ncclCommSplit", (void *, int color, int key, void **, struct rt_nccl_config *)) \
    X(finalize, "ncclCommFinalize", (void *)) \
    X(destroy, "ncclCommDestroy", (void *)) \
    X(abort, "ncclCommAbort", (void *)) \
    X(state, "ncclCommGetAsyncError", (void *, int *)) \
    X(count, "ncclCommCount", (void *, int *)) \
    X(rank, "ncclCommUserRank", (void *, int *)) \
    X(device, "ncclCommCuDevice", (void *, int *)) \
    X(all_reduce, "ncclAllReduce", (const void *, void *, size_t, int dtype, int op, void *, void *stream)) \
    X(reduce_scatter, "ncclReduceScatter", (const void *, void *, size_t, int dtype, int op, void *, void *stream)) \
    X(all_gather, "ncclAllGather", (const void *, void *, size_t, int dtype, void *, void *stream)) \
    X(broadcast, "ncclBroadcast", (const void *, void *, size_t, int dtype, int root, void *, void *stream)) \
    X(send, "ncclSend", (const void *, size_t, int dtype, int peer, void *, void *stream)) \
    X(receive, "ncclRecv", (void *, size_t, int dtype, int peer, void *, void *stream)) \
    X(begin, "ncclGroupStart", (void)) \
    X(end, "ncclGroupEnd", (void))
/* clang-format on */

#define NCCL_MEMBER(member, name, parameters) int(*member) parameters;
struct rt_nccl_library {
    NCCL_FUNCTIONS(NCCL_MEMBER)
    const char *(*error_text)(int);
    const char *(*last_error)(void *);
};

/* Opens it; where it is missing or too old one line says so. */
step_status rt_nccl_open(const struct step_instance *, struct rt_nccl_library *);
int rt_nccl_dtype(uint32_t dtype); /* NCCL_NONE: it sums none of these */
#pragma GCC visibility pop
#endif
