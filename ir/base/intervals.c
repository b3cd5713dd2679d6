/* Sets of numbers as disjoint intervals; one that is added swallows those that it meets or borders on. */
#include "ir/base/intervals.h"
#include <string.h>

/* The first interval that ends at or behind `low`. */
static size_t find(const struct intervals *s, uint64_t low)
{
    size_t from = 0, to = s->list.count;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (s->list.items[middle].high < low) from = middle + 1;
        else to = middle;
    }
    return from;
}

bool intervals_meet(const struct intervals *s, struct interval x)
{
    for (size_t i = find(s, x.low); i < s->list.count && s->list.items[i].low < x.high; i++)
        if (x.low < s->list.items[i].high) return true;
    return false;
}

void intervals_add(struct intervals *s, struct interval x, struct arena *arena)
{
    size_t at = find(s, x.low), end = at;
    for (; end < s->list.count && s->list.items[end].low <= x.high; end++) {
        x.low = s->list.items[end].low < x.low ? s->list.items[end].low : x.low;
        x.high = s->list.items[end].high > x.high ? s->list.items[end].high : x.high;
    }
    size_t rest = s->list.count - end;
    if (end == at) vec_push(arena, &s->list, x);
    memmove(s->list.items + at + 1, s->list.items + end, rest * sizeof *s->list.items);
    s->list.items[at] = x;
    s->list.count = at + 1 + rest;
}
