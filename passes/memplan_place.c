/* Lifetimes of temporaries, memory taken over from an operand that dies, offsets (largest first, each at the lowest
 * place where it fits), and the barriers: workers meet where a command touches bytes that another one has touched
 * since they last met, one of the two writing. */
#include "passes/memplan.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lifetimes */

static void touch(struct plan *plan, uint32_t b, uint32_t command) {
    if (b == NO_BUFFER)
        return;
    struct plan_buffer *buffer = &plan->buffers.items[b];
    if (buffer->first == UINT32_MAX)
        buffer->first = command;
    if (buffer->last < command)
        buffer->last = command;
}

static void lifetimes(struct plan *plan) {
    for (size_t b = 0; b < plan->buffers.count; b++)
        plan->buffers.items[b].first = UINT32_MAX, plan->buffers.items[b].last = 0;
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        const struct plan_command *k = &plan->commands.items[c];
        for (size_t i = 0; i < k->reads.count; i++)
            touch(plan, k->reads.items[i], c);
        for (size_t i = 0; i < k->writes.count; i++)
            touch(plan, k->writes.items[i], c);
        if (k->kind == PLAN_LOOP_BEGIN || k->kind == PLAN_LOOP_END) {
            touch(plan, k->counter, c);
            touch(plan, k->limit, c);
            touch(plan, k->flag, c);
        }
    }
    /* What lives across a loop's border lives in all of its iterations; inner loops come first. */
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        const struct plan_command *k = &plan->commands.items[c];
        if (k->kind != PLAN_LOOP_END)
            continue;
        for (size_t i = 0; i < plan->buffers.count; i++) {
            struct plan_buffer *b = &plan->buffers.items[i];
            if (b->first == UINT32_MAX || b->last < k->other || b->first > c)
                continue;
            bool inside = b->first > k->other && b->last < c;
            if (inside)
                continue;
            b->first = b->first > k->other ? k->other : b->first;
            b->last = b->last < c ? c : b->last;
        }
    }
}

/* ---------------------------------------------------------------- taking over */

static bool listed(const uint32_t *items, size_t count, uint32_t x) {
    for (size_t i = 0; i < count; i++)
        if (items[i] == x)
            return true;
    return false;
}

static void replace(struct plan *plan, uint32_t from, uint32_t to) {
    for (size_t c = 0; c < plan->commands.count; c++) {
        struct plan_command *k = &plan->commands.items[c];
        for (size_t i = 0; i < k->reads.count; i++)
            k->reads.items[i] = k->reads.items[i] == from ? to : k->reads.items[i];
        for (size_t i = 0; i < k->writes.count; i++)
            k->writes.items[i] = k->writes.items[i] == from ? to : k->writes.items[i];
        k->limit = k->limit == from ? to : k->limit;
        k->flag = k->flag == from ? to : k->flag;
    }
    for (size_t f = 0; f < plan->func->module->funcs.count; f++)
        for (uint32_t v = 0; v < plan->func->module->funcs.items[f]->count; v++)
            if (plan->buffer_of[f][v] == from)
                plan->buffer_of[f][v] = to;
}

/* An output may stand where an input dies if both are indexed alike and the input is read nowhere else in the kernel. */
static void take_over(struct plan *plan) {
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        struct plan_command *k = &plan->commands.items[c];
        if (k->kind != PLAN_KERNEL)
            continue;
        const struct plan_group *g = &plan->groups.items[k->group];
        for (size_t o = 0; o < k->writes.count && g->kind != GROUP_COPY; o++) {
            struct plan_buffer *out = &plan->buffers.items[k->writes.items[o]];
            if (out->space != PLAN_ARENA || out->first != c || !g->output_level.items[o])
                continue;
            for (size_t i = 0; i < k->reads.count; i++) {
                uint32_t in_index = k->reads.items[i];
                struct plan_buffer *in = &plan->buffers.items[in_index];
                uint32_t times = 0;
                for (size_t j = 0; j < k->reads.count; j++)
                    times += k->reads.items[j] == in_index;
                if (in->space != PLAN_ARENA || in->last != c || in->bytes != out->bytes || times != 1
                    || g->input_level.items[i] != g->output_level.items[o]
                    || listed(k->writes.items, k->writes.count, in_index))
                    continue;
                uint32_t last = out->last;
                out->first = UINT32_MAX; /* unused from now on */
                replace(plan, k->writes.items[o], in_index);
                in->last = last;
                break;
            }
        }
    }
}

/* ---------------------------------------------------------------- offsets */

struct item { uint64_t bytes; uint32_t buffer; };

static int by_size(const void *x, const void *y) {
    const struct item *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static uint64_t align64(uint64_t n) { return (n + 63) & ~(uint64_t)63; }

static void place_one(struct plan *plan, const struct item *items, uint32_t count, struct plan_buffer *b,
                      struct item *near) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) { /* those that live at the same time, by offset */
        const struct plan_buffer *o = &plan->buffers.items[items[i].buffer];
        if (o->last < b->first || o->first > b->last)
            continue;
        uint32_t at = n++;
        for (; at > 0 && plan->buffers.items[near[at - 1].buffer].offset > o->offset; at--)
            near[at] = near[at - 1];
        near[at] = items[i];
    }
    uint64_t offset = 0, size = align64(b->bytes);
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_buffer *o = &plan->buffers.items[near[i].buffer];
        if (o->offset >= offset + size)
            break;
        uint64_t end = o->offset + align64(o->bytes);
        offset = end > offset ? end : offset;
    }
    b->offset = offset;
    if (offset + size > plan->arena_bytes)
        plan->arena_bytes = offset + size;
}

static void place_all(struct memplan *mp) {
    struct plan *plan = mp->plan;
    struct item *items = arena_new_array(mp->arena, struct item, plan->buffers.count + 1);
    struct item *near = arena_new_array(mp->arena, struct item, plan->buffers.count + 1);
    uint32_t count = 0;
    for (uint32_t b = 0; b < plan->buffers.count; b++) {
        const struct plan_buffer *buffer = &plan->buffers.items[b];
        if (buffer->space == PLAN_ARENA && buffer->first != UINT32_MAX)
            items[count++] = (struct item){buffer->bytes, b};
    }
    qsort(items, count, sizeof *items, by_size);
    plan->arena_bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        place_one(plan, items, i, &plan->buffers.items[items[i].buffer], near);
    /* what lives at once, summed: no plan can do with less */
    uint64_t *live = arena_new_array(mp->arena, uint64_t, plan->commands.count + 2);
    for (uint32_t i = 0; i < count; i++) {
        const struct plan_buffer *b = &plan->buffers.items[items[i].buffer];
        live[b->first] += align64(b->bytes);
        live[b->last + 1] -= align64(b->bytes);
    }
    uint64_t now = 0;
    plan->arena_lower_bound = 0;
    for (size_t c = 0; c <= plan->commands.count; c++) {
        now += live[c];
        plan->arena_lower_bound = now > plan->arena_lower_bound ? now : plan->arena_lower_bound;
    }
}

/* ---------------------------------------------------------------- barriers */

struct access { uint32_t buffer; bool write; };

static bool overlap(const struct plan *plan, uint32_t x, uint32_t y) {
    const struct plan_buffer *a = &plan->buffers.items[x], *b = &plan->buffers.items[y];
    if (x == y)
        return true;
    if (a->space != b->space || a->space == PLAN_CONSTANT)
        return false;
    if (a->space == PLAN_INPUT)
        return a->slot == b->slot;
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

void memplan_barriers(struct plan *plan, struct arena *scratch) {
    VEC(struct access) seen = {0};
    bool after = false; /* a loop's border or a collective stands before */
    for (size_t c = 0; c < plan->commands.count; c++) {
        struct plan_command *k = &plan->commands.items[c];
        bool meet = after || k->kind != PLAN_KERNEL;
        size_t total = k->reads.count + k->writes.count;
        for (size_t i = 0; i < total && !meet; i++) {
            bool write = i >= k->reads.count;
            uint32_t b = write ? k->writes.items[i - k->reads.count] : k->reads.items[i];
            for (size_t j = 0; j < seen.count && !meet; j++)
                meet = (write || seen.items[j].write) && overlap(plan, b, seen.items[j].buffer);
        }
        k->barrier_before = meet && c > 0;
        if (meet)
            seen.count = 0;
        for (size_t i = 0; i < total; i++) {
            bool write = i >= k->reads.count;
            struct access a = {write ? k->writes.items[i - k->reads.count] : k->reads.items[i], write};
            vec_push(scratch, &seen, a);
            k->bytes += plan->buffers.items[a.buffer].bytes;
        }
        after = k->kind != PLAN_KERNEL;
    }
}

/* ---------------------------------------------------------------- summary */

static void summarise(struct memplan *mp) {
    struct plan *plan = mp->plan;
    const struct ir_module *m = plan->func->module;
    struct plan_memory *s = &plan->memory;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < plan->buffers.count; i++) {
        const struct plan_buffer *b = &plan->buffers.items[i];
        if (b->space == PLAN_CONSTANT)
            s->constants += b->bytes;
        if (b->space != PLAN_SLOT)
            continue;
        switch (m->slots.items[b->slot].role) {
        case IR_ROLE_PARAM: s->parameters += b->bytes; break;
        case IR_ROLE_EMA: s->averages += b->bytes; break;
        case IR_ROLE_OPT_STATE: s->optimizer_state += b->bytes; break;
        default: s->other_state += b->bytes; break;
        }
    }
    for (size_t c = 0; c < plan->commands.count; c++) { /* temporaries that an update of state reads are gradients */
        const struct plan_command *k = &plan->commands.items[c];
        bool update = false;
        for (size_t i = 0; i < k->writes.count; i++)
            update |= plan->buffers.items[k->writes.items[i]].space == PLAN_SLOT;
        for (size_t i = 0; update && i < k->reads.count; i++) {
            const struct plan_buffer *b = &plan->buffers.items[k->reads.items[i]];
            s->gradients += b->space == PLAN_ARENA && b->bytes > 64 ? b->bytes : 0;
        }
    }
    s->gradients = s->gradients > plan->arena_bytes ? plan->arena_bytes : s->gradients;
    s->activations = plan->arena_bytes - s->gradients;
    s->peak = mp->plans->state_bytes + plan->arena_bytes;
    s->lower_bound = mp->plans->state_bytes + plan->arena_lower_bound;
}

void memplan_place(struct memplan *mp) {
    lifetimes(mp->plan);
    take_over(mp->plan);
    lifetimes(mp->plan);
    place_all(mp);
    summarise(mp);
}
