/* The order of the members of a kernel command in memory: one loop goes over those that lie one behind the other. */
#include "passes/memplan.h"
#include <stdlib.h>

struct key {
    uint64_t offset;
    uint32_t turn, member;
};

static int by_offset(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
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
    const enum plan_space spaces[] = {PLAN_SLOT, PLAN_ARENA};
    for (uint32_t s = 0; s < 2; s++)
        for (size_t i = 0; i < inputs + outputs; i++) {
            uint32_t first = buffer_of(c, inputs, outputs, 0, i), second = buffer_of(c, inputs, outputs, 1, i);
            if (first != second && plan->buffers.items[first].space == spaces[s] &&
                plan->buffers.items[second].space == spaces[s])
                return i;
        }
    return SIZE_MAX;
}

uint32_t *memplan_order(const struct plan *plan, const struct plan_command *c, struct arena *arena)
{
    const struct plan_group *g = &plan->groups.items[c->group];
    uint32_t members = plan_members(c), *out = arena_new_array(arena, uint32_t, members);
    if (members < 2) return out;
    struct key *keys = arena_new_array(arena, struct key, members);
    size_t inputs = g->inputs.count, outputs = g->outputs.count, i = telling(plan, c, inputs, outputs);
    for (uint32_t m = 0; m < members; m++) {
        const struct plan_group *group = &plan->groups.items[plan_member(c, m)];
        keys[m].member = m;
        keys[m].turn = pass_turn(ir_type_elements(ir_type(group->func, group->outputs.items[0])));
        keys[m].offset = i == SIZE_MAX ? 0 : plan->buffers.items[buffer_of(c, inputs, outputs, m, i)].offset;
    }
    qsort(keys, members, sizeof *keys, by_offset);
    for (uint32_t m = 0; m < members; m++) out[m] = keys[m].member;
    return out;
}
