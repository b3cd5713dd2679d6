/* What the files of `stepc bench` share: bench.c (the rounds and what is said of them), bench_probe.c
 * (the machine), bench_by.c (kernels and layers). */
#ifndef FRONTEND_CLI_BENCH_H
#define FRONTEND_CLI_BENCH_H
#include "ir/base/arena.h"
#include "ir/base/str.h"
#include <stdbool.h>
#include <stdint.h>

/* What `threads` threads reach at once, each for some milliseconds: float32 operations per second of independent fused
 * multiply-adds; bytes per second of passes that read and write memory in place: bench_probe_memory of
 * bench_probe_room() bytes. */
double bench_probe_flops(uint32_t threads);
double bench_probe_bytes(uint32_t threads, void *memory);
uint64_t bench_probe_room(void);
void *bench_probe_memory(void *room);

/* bench_by.c: what the file of --compare says of the object of this name, else of its first one. 0 or an exit code
 * after a message. */
struct run_earlier {
    const char *path; /* NULL: not given */
    double seconds, peaks[2];
};
struct cli;
int bench_earlier(struct cli *, const char *name, struct run_earlier *);

/* Where the time of a step goes. */
struct run_row {
    double seconds;      /* of a step, as if all workers had shared it evenly */
    double flops, bytes; /* of a step on all devices */
    const char *name, *place, *kind;
    uint32_t command, kernels; /* kernels: of a layer */
};
struct run_parts {
    VEC(struct run_row) rows; /* the longest first */
    uint32_t workers;
    double seconds, waiting; /* of a step; of that, what a worker waits for others between kernels */
};
/* bench_by.c: what the text of a trace of so many steps says, with the work that the object's manifest tells. NULL, or
 * why not. */
enum { BENCH_TRACED_STEPS = 50 }; /* no more than that */
const char *bench_parts(struct arena *, const char *manifest, const char *trace, size_t length, uint64_t steps,
                        struct run_parts *);
struct run;
/* bench_by.c: traces what some_steps(user) runs, so many steps. 0 or an exit code after a message. */
int run_take_apart(struct run *, bool layers, int (*some_steps)(void *user), void *user, uint64_t steps,
                   struct run_parts *);

/* Of n numbers, which are sorted: one that the share `part` of them does not exceed; between which two of them the
 * median of what they are drawn from lies, 95 % (order statistics: no shape is assumed). */
double bench_quantile(double *x, uint32_t n, double part);
void bench_confidence(double *x, uint32_t n, double between[2]);
#endif
