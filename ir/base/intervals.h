/* Sets of numbers as disjoint intervals in ascending order: bytes that were touched. */
#ifndef BASE_INTERVALS_H
#define BASE_INTERVALS_H
#include "ir/base/arena.h"
#include <stdbool.h>

struct interval {
    uint64_t low, high; /* low <= x < high */
};
struct intervals {
    VEC(struct interval) list;
};

bool intervals_meet(const struct intervals *, struct interval);
void intervals_add(struct intervals *, struct interval, struct arena *);
#endif
