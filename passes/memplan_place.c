/* Lifetimes of temporaries, memory taken over from an operand that dies, offsets (largest first, each at the lowest
 * place where it fits). */
#include "passes/memplan.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lifetimes */

static void touch(struct plan *plan, uint32_t b, uint32_t command)
{
    if (b == NO_BUFFER) return;
    struct plan_buffer *buffer = &plan->buffers.items[b];
    for (size_t i = 0; i < buffer->parts.count; i++) touch(plan, buffer->parts.items[i], command);
    if (buffer->first == UINT32_MAX) buffer->first = command;
    if (buffer->last < command) buffer->last = command;
}

static void lifetimes(struct plan *plan)
{
    for (size_t b = 0; b < plan->buffers.count; b++)
        plan->buffers.items[b].first = UINT32_MAX, plan->buffers.items[b].last = 0;
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        const struct plan_command *k = &plan->commands.items[c];
        for (size_t i = 0; i < k->reads.count; i++) touch(plan, k->reads.items[i], c);
        for (size_t i = 0; i < k->writes.count; i++) touch(plan, k->writes.items[i], c);
        if (k->kind == PLAN_LOOP_BEGIN || k->kind == PLAN_LOOP_END) {
            touch(plan, k->counter, c);
            touch(plan, k->limit, c);
            touch(plan, k->flag, c);
        }
    }
    /* What lives across a loop's border lives in all of its iterations; inner loops come first. */
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        const struct plan_command *k = &plan->commands.items[c];
        if (k->kind != PLAN_LOOP_END) continue;
        for (size_t i = 0; i < plan->buffers.count; i++) {
            struct plan_buffer *b = &plan->buffers.items[i];
            if (b->first == UINT32_MAX || b->last < k->other || b->first > c) continue;
            bool inside = b->first > k->other && b->last < c;
            if (inside) continue;
            b->first = b->first > k->other ? k->other : b->first;
            b->last = b->last < c ? c : b->last;
        }
    }
}

/* ---------------------------------------------------------------- taking over */

/* Where a buffer went: itself, or the one it took over. */
static uint32_t final(const uint32_t *taken, uint32_t b)
{
    while (b != NO_BUFFER && taken[b] != b) b = taken[b];
    return b;
}

static void rename_buffers(struct plan *plan, uint32_t *taken)
{
    for (uint32_t b = 0; b < plan->buffers.count; b++) taken[b] = final(taken, b); /* in one step from now on */
    for (size_t c = 0; c < plan->commands.count; c++) {
        struct plan_command *k = &plan->commands.items[c];
        for (size_t i = 0; i < k->reads.count; i++) k->reads.items[i] = final(taken, k->reads.items[i]);
        for (size_t i = 0; i < k->writes.count; i++) k->writes.items[i] = final(taken, k->writes.items[i]);
        k->limit = final(taken, k->limit);
        k->flag = final(taken, k->flag);
    }
}

struct taking {
    struct plan *plan;
    uint32_t *taken; /* by buffer: see final */
    uint32_t *reads; /* by buffer: how often the command at hand reads it */
    uint8_t *writes;
    const struct map *laid; /* buffers that stay where they are */
};

/* An output may stand where an input dies if both are indexed alike and the input is read nowhere else in the command.
 */
static void take_over_group(struct taking *t, uint32_t c, const struct plan_group *g, const uint32_t *reads,
                            uint32_t *writes)
{
    for (size_t o = 0; o < g->outputs.count && g->kind != GROUP_COPY; o++) {
        struct plan_buffer *out = &t->plan->buffers.items[writes[o]];
        if (out->space != PLAN_ARENA || out->first != c || !g->output_level.items[o] ||
            map_get_number(t->laid, writes[o]) != MAP_NONE)
            continue;
        for (size_t i = 0; i < g->inputs.count; i++) {
            uint32_t in_index = reads[i];
            struct plan_buffer *in = &t->plan->buffers.items[in_index];
            if (in->space != PLAN_ARENA || in->parts.count || map_get_number(t->laid, in_index) != MAP_NONE ||
                in->last != c || in->bytes != out->bytes || t->reads[in_index] != 1 ||
                g->input_level.items[i] != g->output_level.items[o] || t->writes[in_index])
                continue;
            in->last = out->last;
            out->first = UINT32_MAX; /* unused from now on */
            t->taken[writes[o]] = in_index;
            writes[o] = in_index;
            t->writes[in_index] = 1;
            break;
        }
    }
}

/* Whether a command while the collective at `c` is under way reads what it sums. */
static bool read_meanwhile(const struct taking *t, uint32_t c, uint32_t end, uint32_t in)
{
    for (uint32_t i = c + 1; i < end; i++) {
        const struct plan_command *k = &t->plan->commands.items[i];
        for (size_t r = 0; r < k->reads.count; r++)
            if (final(t->taken, k->reads.items[r]) == in) return true;
    }
    return false;
}

/* A sum may stand where its operand does. */
static void take_over_sums(struct taking *t, uint32_t c, struct plan_command *k)
{
    uint32_t end = k->other ? k->other : c;
    for (size_t i = 0; i < k->writes.count && ir_get(k->func, k->node)->op == OP_all_reduce; i++) {
        struct plan_buffer *in = &t->plan->buffers.items[k->reads.items[i]];
        struct plan_buffer *out = &t->plan->buffers.items[k->writes.items[i]];
        if (in->space != PLAN_ARENA || out->space != PLAN_ARENA || in->parts.count || out->parts.count ||
            out->first != c || in->last != end || t->reads[k->reads.items[i]] != 1 || t->writes[k->reads.items[i]] ||
            map_get_number(t->laid, k->reads.items[i]) != MAP_NONE ||
            map_get_number(t->laid, k->writes.items[i]) != MAP_NONE || read_meanwhile(t, c, end, k->reads.items[i]))
            continue;
        in->last = out->last;
        out->first = UINT32_MAX;
        t->taken[k->writes.items[i]] = k->reads.items[i];
        k->writes.items[i] = k->reads.items[i];
        t->writes[k->reads.items[i]] = 1;
    }
}

static void take_over(struct memplan *mp)
{
    struct plan *plan = mp->plan;
    struct taking t = {.plan = plan,
                       .taken = arena_new_array(mp->arena, uint32_t, plan->buffers.count + 1),
                       .reads = arena_new_array(mp->arena, uint32_t, plan->buffers.count + 1),
                       .writes = arena_new_array(mp->arena, uint8_t, plan->buffers.count + 1),
                       .laid = &mp->laid};
    for (uint32_t b = 0; b < plan->buffers.count; b++) t.taken[b] = b;
    for (uint32_t c = 0; c < plan->commands.count; c++) {
        struct plan_command *k = &plan->commands.items[c];
        if (k->kind != PLAN_KERNEL && k->kind != PLAN_COLLECTIVE) continue;
        for (size_t i = 0; i < k->reads.count; i++) t.reads[k->reads.items[i] = final(t.taken, k->reads.items[i])]++;
        for (size_t i = 0; i < k->writes.count; i++)
            t.writes[k->writes.items[i] = final(t.taken, k->writes.items[i])] = 1;
        if (k->kind == PLAN_COLLECTIVE) take_over_sums(&t, c, k);
        for (uint32_t m = 0; k->kind == PLAN_KERNEL && m < plan_members(k); m++) {
            const struct plan_group *g = &plan->groups.items[plan_member(k, m)];
            take_over_group(&t, c, g, g->inputs.count ? k->reads.items + m * g->inputs.count : NULL,
                            g->outputs.count ? k->writes.items + m * g->outputs.count : NULL);
        }
        for (size_t i = 0; i < k->reads.count; i++) t.reads[k->reads.items[i]] = 0;
        for (size_t i = 0; i < k->writes.count; i++) t.writes[k->writes.items[i]] = 0;
    }
    rename_buffers(plan, t.taken);
}

/* ---------------------------------------------------------------- offsets */

/* Buffers that lie one behind the other, or a single one: the chain from `buffer` on through `next`. */
struct item {
    uint64_t bytes, offset;
    uint32_t buffer, first, last;
};

/* Beyond so many, the smallest are not fitted against all others. */
enum { FITTED = 2048 };

static int by_size(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static int by_first(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : by_size(x, y);
}

static uint64_t align64(uint64_t n) { return memplan_begin(n, 0, false); }

/* By buffer: the one behind it + 1; not the first of its chain; nothing may lie between it and the one before it; the
 * list that it was last seen in. */
struct chains {
    uint32_t *next;
    bool *inner, *tight;
    uint32_t *seen, lists;
};

/* Where the buffers of a chain lie: close together, from `at` on. Returns the end. */
static uint64_t lay_down(struct plan *plan, uint32_t first, const struct chains *s, uint64_t at)
{
    for (uint32_t x = first + 1; x; x = s->next[x - 1]) {
        struct plan_buffer *b = &plan->buffers.items[x - 1];
        b->offset = s->tight[x - 1] ? at : memplan_begin(at, b->bytes, x != first + 1);
        at = b->offset + b->bytes;
    }
    return at;
}

static void extend_arena(struct plan *plan, const struct item *item)
{
    if (item->offset + item->bytes > plan->arena_bytes) plan->arena_bytes = item->offset + item->bytes;
}

/* The lowest place beside those that live at the same time; `placed` are all that have a place, by offset. */
static void place_one(struct item *item, const struct item **placed, uint32_t count)
{
    item->offset = 0;
    for (uint32_t i = 0; i < count && placed[i]->offset < item->offset + item->bytes; i++) {
        const struct item *o = placed[i];
        if (o->last >= item->first && o->first <= item->last && o->offset + o->bytes > item->offset)
            item->offset = o->offset + o->bytes;
    }
    uint32_t at = count;
    for (; at > 0 && placed[at - 1]->offset > item->offset; at--) placed[at] = placed[at - 1];
    placed[at] = item;
}

/* The many small ones: in the order of time behind everything else, each in a place of its size that is free again. */
static void sweep(struct memplan *mp, struct item *items, uint32_t count)
{
    struct plan *plan = mp->plan;
    uint32_t *dying = arena_new_array(mp->arena, uint32_t, plan->commands.count + 1); /* by last command: item + 1 */
    uint32_t *next = arena_new_array(mp->arena, uint32_t, count + 1), now = 0;
    struct map places = MAP(mp->arena); /* size -> item + 1 whose place is free */
    qsort(items, count, sizeof *items, by_first);
    for (uint32_t i = 0; i < count; i++) {
        struct item *item = &items[i];
        for (; now < item->first; now++)
            for (uint32_t d = dying[now], then; d; d = then) {
                uint32_t before = map_get_number(&places, items[d - 1].bytes);
                then = next[d - 1];
                next[d - 1] = before == MAP_NONE ? 0 : before;
                map_set_number(&places, items[d - 1].bytes, d);
            }
        uint32_t place = map_get_number(&places, item->bytes);
        if (place != MAP_NONE && place) {
            item->offset = items[place - 1].offset;
            map_set_number(&places, item->bytes, next[place - 1]);
        } else {
            item->offset = plan->arena_bytes;
        }
        extend_arena(plan, item);
        next[i] = dying[item->last];
        dying[item->last] = i + 1;
    }
}

/* What lives at once, summed: no plan can do with less. */
static void sum_living(struct memplan *mp, const uint32_t *next, const bool *inner)
{
    struct plan *plan = mp->plan;
    uint64_t *live = arena_new_array(mp->arena, uint64_t, plan->commands.count + 2), now = 0;
    for (size_t i = 0; i < plan->buffers.count; i++) {
        const struct plan_buffer *b = &plan->buffers.items[i];
        if (b->space != PLAN_ARENA || b->first == UINT32_MAX || b->parts.count) continue;
        uint64_t bytes = inner[i] || next[i] ? b->bytes : align64(b->bytes);
        live[b->first] += bytes;
        live[b->last + 1] -= bytes;
    }
    plan->arena_lower_bound = 0;
    for (size_t c = 0; c <= plan->commands.count; c++) {
        now += live[c];
        plan->arena_lower_bound = now > plan->arena_lower_bound ? now : plan->arena_lower_bound;
    }
}

/* Buffers one behind the other. False: some belong elsewhere, or stand in the list twice. */
static bool make_chain(const struct plan *plan, const uint32_t *list, uint32_t count, bool tight, struct chains *s)
{
    s->lists++;
    for (uint32_t m = 0; m < count; m++) {
        const struct plan_buffer *b = &plan->buffers.items[list[m]];
        bool alone = !s->next[list[m]] && !s->inner[list[m]] && s->seen[list[m]] != s->lists;
        if (b->space != PLAN_ARENA || b->first == UINT32_MAX || b->parts.count || !alone) return false;
        s->seen[list[m]] = s->lists;
    }
    for (uint32_t m = 1; m < count; m++) {
        s->next[list[m - 1]] = list[m] + 1;
        s->inner[list[m]] = true;
        s->tight[list[m]] = tight;
    }
    return true;
}

/* The temporaries that a command of many members reads or writes at one argument lie one behind the other, in the order
 * of the members: then one loop goes over all of them. A chain that would keep much more memory than its members need
 * apart is not made. */
static void make_chains(struct memplan *mp, struct chains *s)
{
    const struct plan *plan = mp->plan;
    uint32_t *list = arena_new_array(mp->arena, uint32_t, plan->buffers.count + plan->groups.count + 1);
    for (size_t b = 0; b < plan->buffers.count; b++) {
        const struct plan_buffer *whole = &plan->buffers.items[b];
        if (whole->space == PLAN_ARENA && whole->parts.count && whole->first != UINT32_MAX &&
            !make_chain(plan, whole->parts.items, (uint32_t)whole->parts.count, true, s))
            BUG("tensors of %s that should lie end to end belong together with others", plan->func->name);
    }
    for (size_t c = 0; c < plan->commands.count; c++) {
        const struct plan_command *k = &plan->commands.items[c];
        uint32_t members = plan_members(k);
        if (k->kind != PLAN_KERNEL || members < 2) continue;
        const struct plan_group *g = &plan->groups.items[k->group];
        const uint32_t *order = memplan_order(plan, k, mp->arena);
        for (size_t a = 0; a < g->inputs.count + g->outputs.count; a++) {
            bool in = a < g->inputs.count;
            const uint32_t *from = in ? k->reads.items + a : k->writes.items + (a - g->inputs.count);
            size_t step = in ? g->inputs.count : g->outputs.count;
            for (uint32_t m = 0; m < members; m++) list[m] = from[order[m] * step];
            make_chain(plan, list, members, false, s);
        }
    }
}

static void place_all(struct memplan *mp)
{
    struct plan *plan = mp->plan;
    struct item *items = arena_new_array(mp->arena, struct item, plan->buffers.count + 1);
    const struct item **placed = arena_new_array(mp->arena, const struct item *, FITTED + 1);
    uint32_t count = 0;
    struct chains chains = {.next = arena_new_array(mp->arena, uint32_t, plan->buffers.count + 1),
                            .inner = arena_new_array(mp->arena, bool, plan->buffers.count + 1),
                            .tight = arena_new_array(mp->arena, bool, plan->buffers.count + 1),
                            .seen = arena_new_array(mp->arena, uint32_t, plan->buffers.count + 1)};
    make_chains(mp, &chains);
    const uint32_t *next = chains.next;
    const bool *inner = chains.inner;
    for (uint32_t b = 0; b < plan->buffers.count; b++) {
        if (plan->buffers.items[b].space != PLAN_ARENA || plan->buffers.items[b].first == UINT32_MAX || inner[b] ||
            plan->buffers.items[b].parts.count)
            continue;
        struct item item = {.buffer = b, .first = UINT32_MAX};
        for (uint32_t x = b + 1; x; x = next[x - 1]) {
            const struct plan_buffer *buffer = &plan->buffers.items[x - 1];
            item.first = buffer->first < item.first ? buffer->first : item.first;
            item.last = buffer->last > item.last ? buffer->last : item.last;
        }
        item.bytes = align64(lay_down(plan, b, &chains, 0));
        items[count++] = item;
    }
    qsort(items, count, sizeof *items, by_size);
    plan->arena_bytes = 0;
    for (uint32_t i = 0; i < count && i < FITTED; i++) {
        place_one(&items[i], placed, i);
        extend_arena(plan, &items[i]);
    }
    if (count > FITTED) sweep(mp, items + FITTED, count - FITTED);
    for (uint32_t i = 0; i < count; i++) lay_down(plan, items[i].buffer, &chains, items[i].offset);
    for (size_t b = 0; b < plan->buffers.count; b++) {
        struct plan_buffer *whole = &plan->buffers.items[b];
        if (whole->space == PLAN_ARENA && whole->parts.count)
            whole->offset = plan->buffers.items[whole->parts.items[0]].offset;
    }
    sum_living(mp, next, inner);
}

/* ---------------------------------------------------------------- summary */

static void summarise(struct memplan *mp)
{
    struct plan *plan = mp->plan;
    const struct ir_module *m = plan->func->module;
    struct plan_memory *s = &plan->memory;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < plan->buffers.count; i++) {
        const struct plan_buffer *b = &plan->buffers.items[i];
        if (b->space == PLAN_CONSTANT) s->constants += b->bytes;
        if (b->space != PLAN_SLOT || b->parts.count) continue;
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
        for (size_t i = 0; i < k->writes.count && k->kind != PLAN_WAIT; i++)
            update |= plan_memory_of(plan->buffers.items[k->writes.items[i]].space) == PLAN_SLOT;
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

void memplan_place(struct memplan *mp)
{
    lifetimes(mp->plan);
    take_over(mp);
    lifetimes(mp->plan);
    place_all(mp);
    for (size_t c = 0; c < mp->plan->commands.count; c++) {
        struct plan_command *k = &mp->plan->commands.items[c];
        if (k->kind != PLAN_KERNEL || !k->more.count) continue;
        k->order.items = memplan_order(mp->plan, k, mp->keep);
        k->order.count = k->order.capacity = plan_members(k);
    }
    summarise(mp);
}
