/* Independent work of the compiler on all processors. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H
#include <stddef.h>

/* Calls `one` with each number below `count` by this thread and as many others as there are processors for; it returns
 * when all are done. Numbers are taken up in their order, so that one may wait for a smaller one. Others have stacks of
 * `stack` bytes (0: as the system gives them) and hold all signals. Threads that cannot be had are not missed: this one
 * does what is left. */
void parallel_each(size_t count, size_t stack, void (*one)(void *context, size_t number), void *context);
#endif
