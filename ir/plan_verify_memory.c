/* The verifier of plans, second part: where everything lies, and where workers meet (rules 8 to 13 of plan_verify.c).
 */
#include "ir/base/intervals.h"
#include "ir/plan_verify.h"

#include <stdlib.h>
#include <string.h>

static bool is_temporary(const struct plan_buffer *b) { return b->space == PLAN_ARENA && b->first != UINT32_MAX; }

static bool slot_fits(const struct plan_check *c, const struct plan_buffer *b)
{
    enum plan_space space = plan_memory_of(b->space);
    if (space != PLAN_SLOT && b->space != PLAN_INPUT && b->space != PLAN_METRIC) return true;
    if (b->slot >= c->m->module->slots.count) return false;
    enum ir_role role = c->m->module->slots.items[b->slot].role;
    bool metric = ir_role_is_result(role);
    if (b->space == PLAN_INPUT) return role == IR_ROLE_INPUT;
    return metric == (b->space == PLAN_METRIC) && role != IR_ROLE_INPUT && b->offset >= c->m->slot_offset[b->slot];
}

static uint64_t space_bytes(const struct plan_check *c, const struct plan_buffer *b)
{
    switch (b->space) {
    case PLAN_ARENA: return c->plan->arena_bytes;
    case PLAN_NEXT:
    case PLAN_SLOT: return c->m->state_bytes;
    case PLAN_METRIC: return c->m->result_bytes;
    case PLAN_CONSTANT: return c->m->constant_bytes;
    default: return UINT64_MAX;
    }
}

static void check_parts(struct plan_check *c, const struct plan_buffer *b)
{
    uint64_t at = b->offset;
    for (size_t i = 0; i < b->parts.count; i++) {
        const struct plan_buffer *part = b->parts.items[i] < c->plan->buffers.count
                                             ? &c->plan->buffers.items[b->parts.items[i]]
                                             : NULL;
        if (!part || part->parts.count || part->space != b->space || part->offset != at ||
            (b->space == PLAN_ARENA && b->first != UINT32_MAX && (part->first > b->first || part->last < b->last))) {
            plan_fault(c, "part %zu does not lie and live where it should", i);
            return;
        }
        at += part->bytes;
    }
    if (b->parts.count && at != b->offset + b->bytes) plan_fault(c, "its parts do not fill it");
}

static void check_buffer(struct plan_check *c, const struct plan_buffer *b)
{
    if (!plan_known_func(c, b->func) || !plan_is_value(b->func, b->value) || (uint32_t)b->space >= PLAN_SPACE_COUNT) {
        plan_fault(c, "has no value of the module, or a space that does not exist");
        return;
    }
    uint64_t whole = space_bytes(c, b), size = ir_dtype_bytes((enum ir_dtype)ir_type(b->func, b->value)->dtype);
    bool used = b->space != PLAN_ARENA || b->first != UINT32_MAX;
    if (!slot_fits(c, b))
        plan_fault(c, "slot %u does not exist, or is none for space %s", b->slot, plan_space_names[b->space]);
    if (b->bytes != plan_value_bytes(b->func, b->value))
        plan_fault(c, "has %llu bytes, but its value has %llu", (unsigned long long)b->bytes,
                   (unsigned long long)plan_value_bytes(b->func, b->value));
    if (used && (b->offset > whole || b->bytes > whole - b->offset))
        plan_fault(c, "ends behind the %llu bytes of its space", (unsigned long long)whole);
    if (size && b->offset % size) plan_fault(c, "does not lie on a multiple of its elements");
    if (b->space == PLAN_CONSTANT && ir_get(b->func, b->value)->op != OP_constant)
        plan_fault(c, "%%%u is no constant", b->value);
    if (b->first != UINT32_MAX && (b->last < b->first || b->last >= c->plan->commands.count))
        plan_fault(c, "lives from command %u to %u", b->first, b->last);
    check_parts(c, b);
}

/* ---------------------------------------------------------------- what commands touch */

/* Reads, then writes, then what a loop counts with. NULL behind the last one. */
static const uint32_t *touched(const struct plan_command *k, size_t i, bool *write)
{
    const uint32_t *own[] = {&k->counter, &k->limit, &k->flag};
    *write = false;
    if (i < k->reads.count) return &k->reads.items[i];
    i -= k->reads.count;
    *write = true;
    if (i < k->writes.count) return &k->writes.items[i];
    i -= k->writes.count;
    *write = i == 0; /* the loop writes its counter */
    bool loop = k->kind == PLAN_LOOP_BEGIN || k->kind == PLAN_LOOP_END;
    return loop && i < 3 && *own[i] != UINT32_MAX ? own[i] : NULL;
}

static bool check_arguments(struct plan_check *c, const struct plan_command *k)
{
    const struct plan *plan = c->plan;
    size_t inputs = plan_exchanges(k), outputs = inputs, members = plan_joined(k);
    bool loop = k->kind == PLAN_LOOP_BEGIN || k->kind == PLAN_LOOP_END, write;
    if (k->kind == PLAN_JOIN) plan_fault(c, "tensors that should lie end to end have no memory");
    if (k->kind == PLAN_KERNEL) {
        inputs = plan->groups.items[k->group].inputs.count;
        outputs = plan->groups.items[k->group].outputs.count;
        members = plan_members(k);
    }
    if (k->reads.count != members * inputs || k->writes.count != members * outputs ||
        (loop && (k->counter == UINT32_MAX || k->limit == UINT32_MAX)))
        return plan_fault(c, "reads %zu and writes %zu buffers, expected %zu and %zu", k->reads.count, k->writes.count,
                          members * inputs, members * outputs);
    const uint32_t *b;
    for (size_t i = 0; (b = touched(k, i, &write)); i++)
        if (*b >= plan->buffers.count) return plan_fault(c, "buffer %u does not exist", *b);
    bool *placed = arena_new_array(c->scratch, bool, members + 1);
    for (size_t i = 0; i < k->order.count; i++)
        if (k->order.count != members || k->order.items[i] >= members || placed[k->order.items[i]])
            return plan_fault(c, "its order does not name each of its %zu members once", members);
        else {
            placed[k->order.items[i]] = true;
        }
    if (k->kind == PLAN_KERNEL && members > 1 && !k->order.count) plan_fault(c, "its members have no order");
    for (size_t i = 0; k->kind == PLAN_KERNEL && i < members * (inputs + outputs); i++) {
        bool out = i >= members * inputs;
        size_t at = out ? i - members * inputs : i, per = out ? outputs : inputs;
        const struct plan_group *g = &plan->groups.items[plan_member(k, (uint32_t)(at / per))];
        ir_value v = out ? g->outputs.items[at % per] : g->inputs.items[at % per];
        uint32_t buffer = out ? k->writes.items[at] : k->reads.items[at];
        if (plan->buffers.items[buffer].bytes < plan_value_bytes(g->func, v))
            plan_fault(c, "buffer %u is too small for %%%u", buffer, v);
    }
    return true;
}

/* Marks a buffer and its parts, and what it is part of: all are written, or the buffer is. */
static bool is_written(const struct plan *plan, const bool *written, uint32_t b)
{
    const struct plan_buffer *buffer = &plan->buffers.items[b];
    bool all = buffer->parts.count > 0;
    for (size_t i = 0; i < buffer->parts.count; i++) all &= written[buffer->parts.items[i]];
    return all || written[b] || buffer->space != PLAN_ARENA || !buffer->bytes;
}

/* Does a kernel store windows into a buffer, and read it for nothing else than what stands around them? */
static bool stores_window(const struct plan *plan, const struct plan_command *k, uint32_t b)
{
    size_t at = 0;
    for (uint32_t m = 0; k->kind == PLAN_KERNEL && m < plan_members(k); m++) {
        const struct plan_group *g = &plan->groups.items[plan_member(k, m)];
        for (size_t i = 0; i < g->outputs.count; i++, at++)
            if (k->writes.items[at] == b && plan_is_window(g, g->outputs.items[i])) return true;
    }
    return false;
}

static void check_live(struct plan_check *c, uint32_t buffer, uint32_t command)
{
    const struct plan_buffer *b = &c->plan->buffers.items[buffer];
    if (b->space == PLAN_ARENA && (b->first == UINT32_MAX || b->first > command || b->last < command))
        plan_fault(c, "touches buffer %u, which is not live", buffer);
}

/* What lives across a loop's border lives in all of its iterations. */
static void check_loop_lives(struct plan_check *c, uint32_t begin, uint32_t end)
{
    for (size_t i = 0; i < c->plan->buffers.count; i++) {
        const struct plan_buffer *b = &c->plan->buffers.items[i];
        bool apart = b->first == UINT32_MAX || b->last < begin || b->first > end;
        if (b->space == PLAN_ARENA && !apart && !(b->first > begin && b->last < end) &&
            !(b->first <= begin && b->last >= end))
            plan_fault(c, "buffer %zu lives across the border of the loop, but not in all of it", i);
    }
}

/* Whether a kernel need not wait, with all that was touched and written since workers last met. */
static void check_meeting(struct plan_check *c, const struct plan_command *k, bool after, struct intervals *touches,
                          struct intervals *writes)
{
    bool wait = (after || k->kind != PLAN_KERNEL) && c->at.index > 0, write;
    const uint32_t *b;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; (b = touched(k, i, &write)) && i < k->reads.count + k->writes.count; i++) {
            const struct plan_buffer *buffer = &c->plan->buffers.items[*b];
            uint64_t low = buffer->space == PLAN_INPUT ? (uint64_t)buffer->slot << 48 : buffer->offset;
            struct interval x = {low, low + buffer->bytes};
            enum plan_space space = plan_memory_of(buffer->space);
            if (!buffer->bytes || buffer->space == PLAN_CONSTANT || buffer->space == PLAN_DEVICE) continue;
            if (!turn) {
                wait |= intervals_meet(write ? &touches[space] : &writes[space], x);
            } else {
                intervals_add(&touches[space], x, c->scratch);
                if (write) intervals_add(&writes[space], x, c->scratch);
            }
        }
        if (!turn && wait && !k->barrier_before) plan_fault(c, "needs what stands before it, but does not wait for it");
        for (size_t i = 0; !turn && k->barrier_before && i < PLAN_SPACE_COUNT; i++)
            touches[i].list.count = writes[i].list.count = 0;
    }
}

/* ---------------------------------------------------------------- what is under way */

static bool share_bytes(const struct plan *plan, uint32_t x, uint32_t y)
{
    const struct plan_buffer *a = &plan->buffers.items[x], *b = &plan->buffers.items[y];
    return plan_memory_of(a->space) == plan_memory_of(b->space) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes && (a->space != PLAN_INPUT || a->slot == b->slot);
}

static void check_flight(struct plan_check *c, uint32_t start)
{
    const struct plan *plan = c->plan;
    const struct plan_command *k = &plan->commands.items[start], *end = &plan->commands.items[k->other];
    bool same = k->reads.count == end->reads.count && k->writes.count == end->writes.count, write;
    for (size_t i = 0; same && i < k->reads.count; i++) same = k->reads.items[i] == end->reads.items[i];
    for (size_t i = 0; same && i < k->writes.count; i++) same = k->writes.items[i] == end->writes.items[i];
    if (!same) plan_fault(c, "command %u waits for other buffers", k->other);
    for (uint32_t i = start + 1; same && i < k->other; i++) {
        const uint32_t *b;
        for (size_t t = 0; (b = touched(&plan->commands.items[i], t, &write)); t++) {
            bool meets = false;
            for (size_t j = 0; j < k->writes.count && !meets; j++) meets = share_bytes(plan, *b, k->writes.items[j]);
            for (size_t j = 0; j < k->reads.count && write && !meets; j++)
                meets = share_bytes(plan, *b, k->reads.items[j]);
            if (meets) plan_fault(c, "command %u touches buffer %u while it is under way", i, *b);
        }
    }
}

static void check_touching(struct plan_check *c)
{
    const struct plan *plan = c->plan;
    bool *written = arena_new_array(c->scratch, bool, plan->buffers.count + 1), write, after = false;
    struct intervals touches[PLAN_SPACE_COUNT], writes[PLAN_SPACE_COUNT];
    memset(touches, 0, sizeof touches);
    memset(writes, 0, sizeof writes);
    for (uint32_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *k = &plan->commands.items[i];
        const uint32_t *b;
        plan_at_line(c, PLAN_COMMAND_LINE, i);
        if (!check_arguments(c, k)) return;
        for (size_t t = 0; (b = touched(k, t, &write)); t++) {
            check_live(c, *b, i);
            if (!write && !is_written(plan, written, *b) && !stores_window(plan, k, *b))
                plan_fault(c, "reads buffer %u before it was written", *b);
        }
        for (size_t t = 0; (b = touched(k, t, &write)); t++) {
            const struct plan_buffer *buffer = &plan->buffers.items[*b];
            written[*b] |= write;
            for (size_t p = 0; write && p < buffer->parts.count; p++) written[buffer->parts.items[p]] = true;
        }
        check_meeting(c, k, after, touches, writes);
        if (k->kind == PLAN_LOOP_BEGIN) check_loop_lives(c, i, k->other);
        if (plan_starts(k)) check_flight(c, i);
        after = k->kind != PLAN_KERNEL;
    }
}

/* ---------------------------------------------------------------- sharing */

static int by_offset(const void *x, const void *y)
{
    const struct plan_buffer *a = *(const struct plan_buffer *const *)x, *b = *(const struct plan_buffer *const *)y;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void check_sharing(struct plan_check *c)
{
    const struct plan *plan = c->plan;
    const struct plan_buffer **list = arena_new_array(c->scratch, const struct plan_buffer *, plan->buffers.count + 1);
    size_t count = 0;
    for (size_t i = 0; i < plan->buffers.count; i++)
        if (is_temporary(&plan->buffers.items[i]) && !plan->buffers.items[i].parts.count &&
            plan->buffers.items[i].bytes)
            list[count++] = &plan->buffers.items[i];
    qsort(list, count, sizeof *list, by_offset);
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count && list[k]->offset < list[i]->offset + list[i]->bytes; k++)
            if (list[i]->first <= list[k]->last && list[k]->first <= list[i]->last) {
                plan_at_line(c, PLAN_BUFFER_LINE, (uint32_t)(list[k] - plan->buffers.items));
                plan_fault(c, "shares bytes with buffer %zu, which is live at the same time",
                           (size_t)(list[i] - plan->buffers.items));
            }
}

void plan_verify_memory(struct plan_check *c)
{
    const struct plan *plan = c->plan;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        plan_at_line(c, PLAN_BUFFER_LINE, i);
        check_buffer(c, &plan->buffers.items[i]);
    }
    if (!c->ok) return;
    check_touching(c);
    check_sharing(c);
}
