/* The time that has passed, whatever the calendar's clock does meanwhile. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H
#include <stdint.h>

uint64_t clock_ns(void);
static inline double clock_seconds(void) { return (double)clock_ns() * 1e-9; }
#endif
