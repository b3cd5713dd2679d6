/* The order of the members of a kernel command in memory: one loop goes over those that lie one behind the other. */
#include "passes/memplan.h"
#include <stdlib.h>

struct key {
    uint64_t place;
    uint32_t turn, member;
};

static int by_place(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    return a->member < b->member ? -1 : a->member > b->member;
}

static uint32_t buffer_of(const struct plan_command *c, size_t inputs, size_t outputs, uint32_t member, size_t i)
{
    return i < inputs ? c->reads.items[member * inputs + i] : c->writes.items[member * outputs + (i - inputs)];
}

/* The argument that tells the order: one of the state if there is one, else a temporary; SIZE_MAX: none. */
static size_t telling(const struct plan *plan, const struct plan_command *c, size_t inputs, size_t outputs)
{
    const enum plan_space spaces[] = {PLAN_SLOT, PLAN_NEXT, PLAN_ARENA};
    for (uint32_t s = 0; s < 3; s++)
        for (size_t i = 0; i < inputs + outputs; i++) {
            uint32_t first = buffer_of(c, inputs, outputs, 0, i), second = buffer_of(c, inputs, outputs, 1, i);
            if (first != second && plan->buffers.items[first].space == spaces[s] &&
                plan->buffers.items[second].space == spaces[s])
                return i;
        }
    return SIZE_MAX;
}

uint32_t *memplan_by_place(const struct plan *plan, const struct plan_command *c, const uint64_t *place,
                           struct arena *arena)
{
    uint32_t members = plan_members(c), *out = arena_new_array(arena, uint32_t, members);
    struct key *keys = arena_new_array(arena, struct key, members);
    for (uint32_t m = 0; m < members; m++) {
        const struct plan_group *g = &plan->groups.items[plan_member(c, m)];
        keys[m] = (struct key){place[m], pass_turn(ir_type_elements(ir_type(g->func, g->outputs.items[0]))), m};
    }
    qsort(keys, members, sizeof *keys, by_place);
    for (uint32_t m = 0; m < members; m++) out[m] = keys[m].member;
    return out;
}

uint32_t *memplan_order(const struct plan *plan, const struct plan_command *c, struct arena *arena)
{
    const struct plan_group *g = &plan->groups.items[c->group];
    uint32_t members = plan_members(c);
    uint64_t *offset = arena_new_array(arena, uint64_t, members);
    size_t inputs = g->inputs.count, outputs = g->outputs.count,
           i = members < 2 ? SIZE_MAX : telling(plan, c, inputs, outputs);
    for (uint32_t m = 0; m < members && i != SIZE_MAX; m++)
        offset[m] = plan->buffers.items[buffer_of(c, inputs, outputs, m, i)].offset;
    return memplan_by_place(plan, c, offset, arena);
}
