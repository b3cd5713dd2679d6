/* What the files of `stepc bench` share: bench.c (the rounds and what is said of them), bench_probe.c (the machine). */
#ifndef FRONTEND_CLI_BENCH_H
#define FRONTEND_CLI_BENCH_H
#include <stdint.h>

/* What `threads` threads reach at once, each for some milliseconds: float32 operations per second of independent fused
 * multiply-adds; bytes per second of passes that read and write memory in place: bench_probe_memory of
 * bench_probe_room() bytes. */
double bench_probe_flops(uint32_t threads);
double bench_probe_bytes(uint32_t threads, void *memory);
uint64_t bench_probe_room(void);
void *bench_probe_memory(void *room);

/* Of n numbers, which are sorted: one that the share `part` of them does not exceed; between which two of them the
 * median of what they are drawn from lies, 95 % (order statistics: no shape is assumed). */
double bench_quantile(double *x, uint32_t n, double part);
void bench_confidence(double *x, uint32_t n, double between[2]);
#endif
