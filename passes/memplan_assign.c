/* Values to buffers. A result of the function (a slot, a metric, a carried value) is written where it belongs at once
 * if nobody can still want what stands there: every reader of the old value comes earlier, or is the writing
 * kernel itself and reads each element at the index it stores. Otherwise it is computed elsewhere and copied at the
 * end. */
#include "ir/winograd.h"
#include "passes/memplan.h"
#include <string.h>

enum { SEVERAL = UINT32_MAX, MANY_NUMBERS = 16 };

struct frame { /* one function being walked */
    const struct ir_func *f;
    uint32_t *buffer;         /* by value */
    uint32_t *last_read;      /* by value: the last command that reads it, +1; of this function's commands */
    uint32_t *producer;       /* by value: the command that makes it, +1 */
    uint32_t *reader, *maker; /* by value: which member of these commands; SEVERAL */
    ir_value *first_result, *next_result; /* by value: the projections of a call */
    uint32_t *target;                     /* by result: the buffer it belongs to */
    const ir_value *old;                  /* by result: the parameter that it replaces, 0 = none */
    bool *along;                          /* by result: a kernel that reads the value stores it where it belongs */
    bool *in_state;                       /* by value: tensors laid end to end that are slots which lie so */
    uint32_t begin, end;                  /* commands [begin, end) of plan->commands */
};

static void entry_params(struct memplan *mp, struct frame *fr)
{
    const struct ir_func *f = fr->f;
    for (size_t i = 0; i < f->params.count; i++) {
        const struct ir_param *p = &f->params.items[i];
        bool input = f->module->slots.items[p->slot].role == IR_ROLE_INPUT;
        uint32_t b = memplan_new_buffer(mp, input ? PLAN_INPUT : PLAN_SLOT, f, p->value);
        mp->plan->buffers.items[b].slot = (uint32_t)p->slot;
        mp->plan->buffers.items[b].offset = input ? 0 : mp->plans->slot_offset[p->slot];
        fr->buffer[p->value] = b;
    }
}

/* ---------------------------------------------------------------- readers */

static uint32_t matching_end(const struct plan *plan, uint32_t c)
{
    return plan->commands.items[c].kind == PLAN_LOOP_BEGIN ? plan->commands.items[c].other : c;
}

static void note_read(struct frame *fr, ir_value v, uint32_t command, uint32_t member)
{
    ir_value base = memplan_base(fr->f, v);
    const struct ir_node *node = ir_get(fr->f, base);
    for (uint32_t i = 0; i < node->arg_count && fr->in_state[base]; i++) note_read(fr, node->args[i], command, member);
    bool again = fr->last_read[base] == command + 1 && fr->reader[base] != member;
    fr->reader[base] = again ? (uint32_t)SEVERAL : member;
    fr->last_read[base] = command + 1;
}

/* ---------------------------------------------------------------- members of kernel commands */

static const struct plan_group *group_of(const struct memplan *mp, const struct plan_command *k, uint32_t member)
{
    return &mp->plan->groups.items[plan_member(k, member)];
}

/* What a member's group reads, in the function that the command stands in. */
static ir_value input_of(const struct frame *fr, const struct plan_command *k, const struct plan_group *g,
                         uint32_t member, size_t i)
{
    ir_value v = g->inputs.items[i];
    return k->calls.count ? ir_get(fr->f, k->calls.items[member])->args[ir_get(g->func, v)->attr[0].v[0]] : v;
}

/* What it makes; 0 if nobody reads that. Outputs of a call are in the order of its function's results. */
static ir_value output_of(const struct frame *fr, const struct plan_command *k, const struct plan_group *g,
                          uint32_t member, size_t o)
{
    if (!k->calls.count) return g->outputs.items[o];
    ir_value v = fr->first_result[k->calls.items[member]];
    while (v && ir_get(fr->f, v)->attr[0].v[0] != (int64_t)o) v = fr->next_result[v];
    return v;
}

static void scan_kernel(struct memplan *mp, struct frame *fr, const struct plan_command *k, uint32_t c)
{
    for (uint32_t m = 0; m < plan_members(k); m++) {
        const struct plan_group *g = group_of(mp, k, m);
        for (size_t i = 0; i < g->inputs.count; i++) note_read(fr, input_of(fr, k, g, m, i), c, m);
        for (size_t o = 0; o < g->outputs.count; o++) {
            ir_value v = output_of(fr, k, g, m, o);
            fr->producer[v] = c + 1;
            fr->maker[v] = m;
        }
    }
}

static void scan(struct memplan *mp, struct frame *fr)
{
    const struct plan *plan = mp->plan;
    for (uint32_t c = fr->begin; c < fr->end; c = matching_end(plan, c) + 1) {
        const struct plan_command *k = &plan->commands.items[c];
        if (k->kind == PLAN_KERNEL) {
            scan_kernel(mp, fr, k, c);
        } else {
            const struct ir_node *node = ir_get(fr->f, k->node);
            for (uint32_t i = 0; i < node->arg_count; i++) note_read(fr, node->args[i], matching_end(plan, c), 0);
            for (size_t i = 0; i < k->joined.count; i++)
                note_read(fr, ir_get(fr->f, k->joined.items[i])->args[0], c, 0);
            for (size_t i = 0; i < plan_joined(k) && k->kind != PLAN_WAIT; i++)
                fr->producer[plan_joined_node(k, i)] = c + 1;
        }
    }
}

/* May the command that makes value `v` overwrite what parameter `old` holds? */
static bool may_overwrite(struct memplan *mp, const struct frame *fr, ir_value v, ir_value old)
{
    uint32_t writer = fr->producer[v];
    if (!writer || fr->last_read[old] > writer) return false;
    if (fr->last_read[old] < writer) return true;
    const struct plan_command *k = &mp->plan->commands.items[writer - 1];
    uint32_t member = fr->maker[v];
    if (k->kind != PLAN_KERNEL || fr->reader[old] != member) return false;
    const struct plan_group *g = group_of(mp, k, member);
    uint8_t stored = 0;
    for (size_t i = 0; i < g->outputs.count; i++)
        if (output_of(fr, k, g, member, i) == v) stored = g->output_level.items[i];
    for (size_t i = 0; i < g->inputs.count; i++)
        if (memplan_base(fr->f, input_of(fr, k, g, member, i)) == old && (g->input_level.items[i] != stored || !stored))
            return false;
    return true;
}

/* ---------------------------------------------------------------- results */

static bool reads_only_at_index(const struct frame *fr, const struct plan_group *g, ir_value base)
{
    for (size_t i = 0; i < g->inputs.count; i++)
        if (memplan_base(fr->f, g->inputs.items[i]) == base && g->input_level.items[i] != 1) return false;
    return true;
}

/* A result that something else made or that came in (the last gradient, the parameters of before) is stored by the
 * kernel that reads it and is the last to read what it replaces: no copy of its own. */
static bool store_along(struct memplan *mp, struct frame *fr, size_t result, ir_value old)
{
    ir_value x = memplan_base(fr->f, fr->f->results.items[result].value);
    uint32_t reader = old && fr->last_read[old] ? fr->last_read[old] : fr->last_read[x];
    if (!reader || reader == UINT32_MAX || ir_get(fr->f, x)->op == OP_constant) return false;
    const struct plan_command *k = &mp->plan->commands.items[reader - 1];
    if (k->kind != PLAN_KERNEL || k->calls.count || k->more.count) return false;
    struct plan_group *g = &mp->plan->groups.items[k->group];
    if ((g->kind != GROUP_MAP && g->kind != GROUP_ROW) || (old && !reads_only_at_index(fr, g, old))) return false;
    for (size_t i = 0; i < g->inputs.count; i++) {
        ir_value v = g->inputs.items[i];
        if (memplan_base(fr->f, v) != x || g->input_level.items[i] != 1) continue;
        map_set_number(&mp->along, (uint64_t)k->group << 16 | g->outputs.count, fr->target[result]);
        vec_push(mp->keep, &g->outputs, v);
        vec_push(mp->keep, &g->output_level, 1);
        if (g->alike) g->alike = hash_u64(g->alike, i) | 1; /* it stores more than those it was like */
        fr->along[result] = true;
        return true;
    }
    return false;
}

/* `from_buffer`: NO_BUFFER if the value is a number to fill the buffer with. */
static void add_copy(struct memplan *mp, const struct ir_func *f, ir_value from, uint32_t from_buffer, uint32_t to)
{
    struct plan_group g = {
        .kind = GROUP_COPY, .func = f, .reason = "what stands there is still read, so the new value is copied in"};
    struct plan_command c = {
        .kind = PLAN_KERNEL, .func = f, .counter = NO_BUFFER, .limit = NO_BUFFER, .flag = NO_BUFFER};
    if (from_buffer != NO_BUFFER) { /* else a number */
        vec_push(mp->keep, &g.inputs, from);
        vec_push(mp->keep, &g.input_level, 1);
        vec_push(mp->keep, &c.reads, from_buffer);
    }
    vec_push(mp->keep, &g.outputs, from);
    vec_push(mp->keep, &g.output_level, 1);
    vec_push(mp->keep, &c.writes, to);
    vec_push(mp->keep, &mp->plan->groups, g);
    c.group = (uint32_t)mp->plan->groups.count - 1;
    vec_push(mp->keep, &mp->out, c);
}

/* A result that is filled with a number or copied. An initialisation has one per tensor of state: those of one number,
 * and the copies of one dtype, are one command. None reads what another one writes: see copy_results. */
static void add_result(struct memplan *mp, const struct ir_func *f, ir_value from, uint32_t from_buffer, uint32_t to,
                       struct map *alike)
{
    const struct ir_node *node = ir_get(f, from);
    uint64_t checked = mp->pass->options->check_finite ? ir_checked_as(f, from) : 0;
    uint64_t key = hash_u64(hash_u64(node->type.dtype, from_buffer == NO_BUFFER), checked);
    if (from_buffer == NO_BUFFER) key = hash_bytes(key, node->data, ir_dtype_bytes((enum ir_dtype)node->type.dtype));
    int64_t elements = ir_type_elements(&node->type);
    uint32_t known = map_get_number(alike, key);
    add_copy(mp, f, from, from_buffer, to);
    uint32_t last = (uint32_t)mp->out.count - 1;
    mp->plan->groups.items[mp->out.items[last].group].alike = hash_u64(key, (uint64_t)elements) | 1;
    if (known == MAP_NONE) {
        map_set_number(alike, key, last);
        return;
    }
    struct plan_command *all = &mp->out.items[known];
    vec_push(mp->keep, &all->more, mp->out.items[last].group);
    if (from_buffer != NO_BUFFER) vec_push(mp->keep, &all->reads, from_buffer);
    vec_push(mp->keep, &all->writes, to);
    mp->out.count--;
}

/* Gives results their final buffers where that is safe. */
static void place_results(struct memplan *mp, struct frame *fr, const ir_value *old)
{
    const struct ir_func *f = fr->f;
    bool *passed = arena_new_array(mp->arena, bool, f->count); /* parameters that become other results */
    fr->old = old;
    for (size_t i = 0; i < f->results.count; i++) {
        ir_value base = memplan_base(f, f->results.items[i].value);
        passed[base] |= ir_get(f, base)->op == OP_param && old[i] != base;
    }
    for (size_t i = 0; i < f->results.count; i++) { /* these are read at the end, if not along with something */
        ir_value base = memplan_base(f, f->results.items[i].value);
        if (ir_get(f, base)->op != OP_param || old[i] == base) continue;
        if (!f->entry || (old[i] && passed[old[i]]) || !store_along(mp, fr, i, old[i]))
            fr->last_read[base] = UINT32_MAX;
    }
    for (size_t i = 0; i < f->results.count; i++) {
        ir_value base = memplan_base(f, f->results.items[i].value);
        bool elsewhere = ir_get(f, base)->op == OP_loop ||
                         (fr->producer[base] && mp->plan->commands.items[fr->producer[base] - 1].kind == PLAN_JOIN);
        if (fr->buffer[base] != NO_BUFFER || !fr->producer[base] || elsewhere) continue;
        if (!old[i] || may_overwrite(mp, fr, base, old[i])) fr->buffer[base] = fr->target[i];
        else if (f->entry) store_along(mp, fr, i, old[i]);
    }
}

/* Single numbers that nearly all differ: copies of constants are one command, stores of each would be as many kernels.
 */
static bool many_numbers(const struct ir_func *f)
{
    size_t count = 0;
    for (size_t i = 0; i < f->results.count; i++) {
        const struct ir_node *node = ir_get(f, memplan_base(f, f->results.items[i].value));
        count += node->op == OP_constant && ir_type_elements(&node->type) == 1;
    }
    return count >= MANY_NUMBERS;
}

/* Results that are not where they belong; parameters that are overwritten by others go through a temporary. */
static void copy_results(struct memplan *mp, struct frame *fr)
{
    const struct ir_func *f = fr->f;
    uint32_t *from = arena_new_array(mp->arena, uint32_t, f->results.count);
    bool copied = many_numbers(f);
    struct map written = MAP(mp->arena);
    for (size_t i = 0; i < f->results.count; i++)
        map_set_number(&written, fr->old[i] ? fr->buffer[fr->old[i]] : fr->target[i], (uint32_t)i);
    for (size_t i = 0; i < f->results.count; i++) {
        ir_value v = f->results.items[i].value, base = memplan_base(f, v);
        bool number = ir_is_number(ir_get(f, base));
        number = number && !(copied && ir_type_elements(ir_type(f, base)) == 1);
        from[i] = number ? NO_BUFFER : memplan_buffer_of(mp, f, v);
        if (fr->along[i]) from[i] = fr->target[i];
        if (number || from[i] == fr->target[i] || ir_get(f, base)->op != OP_param) continue;
        if (map_get_number(&written, from[i]) != MAP_NONE) { /* by another result: its own target differs */
            uint32_t temporary = memplan_new_buffer(mp, PLAN_ARENA, f, base);
            add_copy(mp, f, base, from[i], temporary);
            from[i] = temporary;
        }
    }
    struct map alike = MAP(mp->arena);
    size_t first = mp->out.count;
    for (size_t i = 0; i < f->results.count; i++)
        if (from[i] != fr->target[i])
            add_result(mp, f, memplan_base(f, f->results.items[i].value), from[i], fr->target[i], &alike);
    for (size_t i = first; i < mp->out.count; i++) /* alone: nothing is gained by the code for many */
        if (!mp->out.items[i].more.count) mp->plan->groups.items[mp->out.items[i].group].alike = 0;
}

/* ---------------------------------------------------------------- tensors laid end to end */

/* Slots that lie so already. Where a host may put other tensors in the place of parameters they do not count. */
static bool lies_in_state(const struct memplan *mp, const struct ir_func *f, const struct ir_node *join)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < join->arg_count; i++) {
        ir_value base = memplan_base(f, join->args[i]);
        const struct ir_node *n = ir_get(f, base);
        int32_t slot = n->op == OP_param && f->entry ? f->params.items[n->attr[0].v[0]].slot : -1;
        if (slot < 0 || f->module->slots.items[slot].role == IR_ROLE_INPUT || (i && mp->plans->slot_offset[slot] != at))
            return false;
        at = mp->plans->slot_offset[slot] + memplan_bytes(&n->type);
    }
    return strcmp(f->name, "step") == 0;
}

/* Temporaries that nothing else lays end to end: the memory plan can. */
static bool can_be_laid(struct memplan *mp, const struct ir_func *f, const struct ir_node *join, const uint32_t *parts)
{
    for (uint32_t i = 0; i < join->arg_count; i++) {
        const struct plan_buffer *b = &mp->plan->buffers.items[parts[i]];
        bool whole = b->bytes == memplan_bytes(ir_type(f, join->args[i]));
        if (b->space != PLAN_ARENA || !whole || b->parts.count ||
            ir_get(f, memplan_base(f, join->args[i]))->op == OP_param || !map_set_number(&mp->laid, parts[i], 1))
            return false;
    }
    return true;
}

static void walk_join(struct memplan *mp, struct frame *fr, const struct plan_command *k)
{
    const struct ir_node *join = ir_get(fr->f, k->node);
    uint32_t *parts = arena_new_array(mp->keep, uint32_t, join->arg_count);
    for (uint32_t i = 0; i < join->arg_count; i++) parts[i] = memplan_buffer_of(mp, fr->f, join->args[i]);
    bool in_state = fr->in_state[k->node], copies = !in_state && !can_be_laid(mp, fr->f, join, parts);
    struct map alike = MAP(mp->arena);
    for (uint32_t i = 0; i < join->arg_count && copies; i++) {
        uint32_t copy = memplan_new_buffer(mp, PLAN_ARENA, fr->f, join->args[i]);
        map_set_number(&mp->laid, copy, 1);
        add_result(mp, fr->f, memplan_base(fr->f, join->args[i]), parts[i], copy, &alike);
        parts[i] = copy;
    }
    uint32_t b = memplan_new_buffer(mp, in_state ? PLAN_SLOT : PLAN_ARENA, fr->f, k->node);
    struct plan_buffer *buffer = &mp->plan->buffers.items[b];
    buffer->slot = mp->plan->buffers.items[parts[0]].slot;
    buffer->offset = mp->plan->buffers.items[parts[0]].offset;
    buffer->parts.items = parts;
    buffer->parts.count = buffer->parts.capacity = join->arg_count;
    fr->buffer[k->node] = b;
}

/* ---------------------------------------------------------------- commands */

static void walk(struct memplan *, struct frame *);

static void start_frame(struct memplan *mp, struct frame *fr, const struct ir_func *f, uint32_t begin, uint32_t end)
{
    *fr = (struct frame){.f = f, .buffer = memplan_buffers(mp, f), .begin = begin, .end = end};
    fr->last_read = arena_new_array(mp->arena, uint32_t, f->count);
    fr->producer = arena_new_array(mp->arena, uint32_t, f->count);
    fr->reader = arena_new_array(mp->arena, uint32_t, f->count);
    fr->maker = arena_new_array(mp->arena, uint32_t, f->count);
    fr->first_result = arena_new_array(mp->arena, ir_value, f->count);
    fr->next_result = arena_new_array(mp->arena, ir_value, f->count);
    for (ir_value v = 1; v < f->count; v++)
        if (ir_get(f, v)->op == OP_proj) {
            ir_value *first = &fr->first_result[ir_get(f, v)->args[0]];
            fr->next_result[v] = *first;
            *first = v;
        }
    fr->target = arena_new_array(mp->arena, uint32_t, f->results.count + 1);
    fr->along = arena_new_array(mp->arena, bool, f->results.count + 1);
    fr->in_state = arena_new_array(mp->arena, bool, f->count);
    for (uint32_t c = begin; c < end; c = matching_end(mp->plan, c) + 1) {
        const struct plan_command *k = &mp->plan->commands.items[c];
        if (k->kind == PLAN_JOIN) fr->in_state[k->node] = lies_in_state(mp, f, ir_get(f, k->node));
    }
    scan(mp, fr);
}

static uint32_t scalar_buffer(struct memplan *mp, const struct ir_func *body)
{
    return memplan_new_buffer(mp, PLAN_ARENA, body, body->params.items[0].value);
}

/* Is the result what the loop ends with, or what is then scattered into that, where it lies? */
static bool ends_as(struct memplan *mp, const struct frame *fr, size_t result, ir_value last)
{
    ir_value v = memplan_base(fr->f, fr->f->results.items[result].value);
    const struct ir_node *n = ir_get(fr->f, v);
    return v == last || (n->op == OP_scatter_add && memplan_base(fr->f, n->args[0]) == last &&
                         fr->buffer[v] == fr->target[result] && may_overwrite(mp, fr, v, last));
}

/* The buffer that carried value `i` of a loop may live in from the start: that of a parameter which it begins as, whose
 * new value it ends as, and which nothing but the loop reads from then on. */
static uint32_t carried_in_place(struct memplan *mp, const struct frame *fr, const struct plan_command *loop,
                                 uint32_t i)
{
    const struct ir_node *node = ir_get(fr->f, loop->node);
    ir_value initial = memplan_base(fr->f, node->args[1 + i]), last = fr->first_result[loop->node];
    uint32_t uses = 0;
    for (uint32_t k = 0; k < node->arg_count; k++) uses += memplan_base(fr->f, node->args[k]) == initial;
    while (last && ir_get(fr->f, last)->attr[0].v[0] != i) last = fr->next_result[last];
    if (!last || uses != 1 || ir_get(fr->f, initial)->op != OP_param || fr->last_read[initial] != loop->other + 1)
        return NO_BUFFER;
    for (size_t r = 0; r < fr->f->results.count; r++)
        if (fr->old[r] == initial && !fr->along[r] && ends_as(mp, fr, r, last)) {
            mp->plan->buffers.items[fr->buffer[initial]].space = mp->plan->buffers.items[fr->target[r]].space;
            return fr->target[r];
        }
    return NO_BUFFER;
}

/* The buffer of an output that carried value `i` ends as: rows of it are made where the host reads them. */
static uint32_t carried_as_output(struct memplan *mp, const struct frame *fr, const struct plan_command *loop,
                                  uint32_t i)
{
    ir_value last = fr->first_result[loop->node];
    while (last && ir_get(fr->f, last)->attr[0].v[0] != i) last = fr->next_result[last];
    for (size_t r = 0; last && fr->f->entry && r < fr->f->results.count; r++)
        if (memplan_base(fr->f, fr->f->results.items[r].value) == last && !fr->old[r] &&
            mp->plan->buffers.items[fr->target[r]].space == PLAN_METRIC)
            return fr->target[r];
    return NO_BUFFER;
}

/* Is a value of the function one that its group stores as a window? */
static bool is_window(const struct memplan *mp, const struct frame *fr, ir_value v)
{
    const struct plan_command *k = fr->producer[v] ? &mp->plan->commands.items[fr->producer[v] - 1] : NULL;
    return k && k->kind == PLAN_KERNEL && !k->calls.count && plan_is_window(group_of(mp, k, fr->maker[v]), v);
}

/* Is carried value `i` of a loop a buffer of rows of which the loop writes every one and reads none? */
static bool written_whole(const struct memplan *mp, const struct frame *outer, const struct frame *inner,
                          const struct ir_node *loop, uint32_t i)
{
    const struct ir_func *body = inner->f;
    ir_value p = body->params.items[1 + i].value, v = body->results.items[i].value,
             counter = body->params.items[0].value;
    const struct ir_node *n = ir_get(body, v), *limit = ir_get(outer->f, loop->args[0]);
    if (!is_window(mp, inner, v) || n->args[0] != p || limit->op != OP_constant || loop->attr[1].v[0]) return false;
    for (ir_value u = 1; u < body->count; u++)
        for (uint32_t k = 0; k < ir_get(body, u)->arg_count; k++)
            if (ir_get(body, u)->args[k] == p && (u != v || k)) return false;
    const struct ir_type *part = ir_type(body, n->args[1]);
    int64_t rows = n->type.dim[0];
    for (uint32_t d = 1; d < n->type.rank; d++)
        if (part->dim[d] != n->type.dim[d]) return false;
    if (part->dim[0] != 1 || (int64_t)ir_element_get(IR_I32, limit->data, 0) != rows) return false;
    const struct ir_node *start = ir_get(body, n->args[2]);
    if (start->op == OP_sub && start->args[1] == counter) { /* the last row first */
        const struct ir_node *last = ir_get(body, start->args[0]);
        return last->op == OP_constant && (int64_t)ir_element_get(IR_I32, last->data, 0) == rows - 1;
    }
    return n->args[2] == counter;
}

/* The operands fill the carried buffers; the body runs; its results are the next values; projections read them. */
static void walk_loop(struct memplan *mp, struct frame *outer, uint32_t begin)
{
    struct plan_command head = mp->plan->commands.items[begin], tail = mp->plan->commands.items[head.other];
    const struct ir_node *node = ir_get(outer->f, head.node);
    const struct ir_func *body = outer->f->module->funcs.items[node->func];
    uint32_t carried = (uint32_t)node->attr[0].v[0];
    bool has_flag = node->attr[1].n && node->attr[1].v[0];
    struct frame fr;
    start_frame(mp, &fr, body, begin + 1, head.other);
    fr.buffer[body->params.items[0].value] = head.counter = scalar_buffer(mp, body);
    head.limit = memplan_buffer_of(mp, outer->f, node->args[0]);
    ir_value *old = arena_new_array(mp->arena, ir_value, carried + 1);
    struct map alike = MAP(mp->arena); /* what is filled with one number, which is a launch each otherwise */
    for (uint32_t i = 0; i < carried; i++) {
        const struct ir_param *p = &body->params.items[1 + i];
        ir_value initial = memplan_base(outer->f, node->args[1 + i]);
        bool number = ir_is_number(ir_get(outer->f, initial));
        uint32_t b = carried_in_place(mp, outer, &head, i);
        if (b == NO_BUFFER) {
            b = carried_as_output(mp, outer, &head, i);
            if (b == NO_BUFFER) b = memplan_new_buffer(mp, PLAN_ARENA, body, p->value);
            mp->plan->buffers.items[b].windows = is_window(mp, &fr, body->results.items[i].value);
            bool filled = !written_whole(mp, outer, &fr, node, i);
            if (filled && number && mp->pass->options->blocks) add_result(mp, outer->f, initial, NO_BUFFER, b, &alike);
            else if (filled)
                add_copy(mp, outer->f, initial, number ? NO_BUFFER : memplan_buffer_of(mp, outer->f, initial), b);
        }
        fr.buffer[p->value] = fr.target[i] = b;
        old[i] = p->value;
    }
    for (uint32_t i = 1 + carried; i < node->arg_count; i++)
        fr.buffer[body->params.items[i].value] = memplan_buffer_of(mp, outer->f, node->args[i]);
    head.flag = has_flag ? fr.target[0] : NO_BUFFER;
    for (ir_value v = outer->first_result[head.node]; v; v = outer->next_result[v])
        outer->buffer[v] = fr.target[ir_get(outer->f, v)->attr[0].v[0]];
    place_results(mp, &fr, old);
    uint32_t at = (uint32_t)mp->out.count;
    vec_push(mp->keep, &mp->out, head);
    walk(mp, &fr);
    copy_results(mp, &fr);
    tail.counter = head.counter, tail.limit = head.limit, tail.flag = head.flag, tail.other = at;
    mp->out.items[at].other = (uint32_t)mp->out.count;
    vec_push(mp->keep, &mp->out, tail);
}

static double flops_of(const struct plan_group *g)
{
    double flops = 0;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const struct ir_node *node = ir_get(g->func, g->nodes.items[i]);
        enum ir_emit emit = (enum ir_emit)ir_ops[node->op].emit;
        if (emit == EMIT_ewise || emit == EMIT_lines) flops += (double)ir_type_elements(&node->type);
        else if (emit == EMIT_reduce) flops += (double)ir_type_elements(ir_type(g->func, node->args[0]));
        if (node->op == OP_winograd || node->op == OP_winograd_sum) {
            const struct ir_type *x = ir_type(g->func, node->args[0]), *y = ir_type(g->func, node->args[1]);
            flops += winograd_products(x, node->op == OP_winograd ? &node->type : y);
        } else if (node->op == OP_winograd_points) {
            flops += (double)ir_type_elements(&node->type);
        } else if (emit == EMIT_dot) {
            double k = 1;
            for (uint32_t j = 0; j < node->attr[2].n; j++)
                k *= (double)ir_type(g->func, node->args[0])->dim[node->attr[2].v[j]];
            flops += 2 * k * (double)ir_type_elements(&node->type);
        }
    }
    return flops;
}

static uint32_t output_buffer(struct memplan *mp, struct frame *fr, const struct plan_command *k,
                              const struct plan_group *g, uint32_t member, size_t o)
{
    uint32_t along = map_get_number(&mp->along, (uint64_t)k->group << 16 | o);
    if (along != MAP_NONE) return along;
    ir_value v = output_of(fr, k, g, member, o);
    if (!v) return memplan_new_buffer(mp, PLAN_ARENA, g->func, g->outputs.items[o]);
    if (fr->buffer[v] == NO_BUFFER) fr->buffer[v] = memplan_new_buffer(mp, PLAN_ARENA, fr->f, v);
    return fr->buffer[v];
}

/* A row is written into what stands there: where the carried buffer could not be the output's, its contents come first.
 */
static void fill_around_windows(struct memplan *mp, struct frame *fr, const struct plan_command *k)
{
    for (uint32_t m = 0; m < plan_members(k) && !k->calls.count && !fr->f->entry; m++) {
        const struct plan_group *g = group_of(mp, k, m);
        for (size_t o = 0; o < g->outputs.count; o++) {
            ir_value v = g->outputs.items[o];
            if (!plan_is_window(g, v)) continue;
            ir_value old = ir_get(fr->f, v)->args[0];
            uint32_t from = memplan_buffer_of(mp, fr->f, old), to = output_buffer(mp, fr, k, g, m, o);
            if (from != to) add_copy(mp, fr->f, old, ir_is_number(ir_get(fr->f, old)) ? NO_BUFFER : from, to);
        }
    }
}

static void walk_kernel(struct memplan *mp, struct frame *fr, struct plan_command c)
{
    double flops = 0;
    fill_around_windows(mp, fr, &c);
    for (uint32_t m = 0; m < plan_members(&c); m++) {
        const struct plan_group *g = group_of(mp, &c, m);
        for (size_t i = 0; i < g->inputs.count; i++)
            vec_push(mp->keep, &c.reads, memplan_buffer_of(mp, fr->f, input_of(fr, &c, g, m, i)));
        for (size_t i = 0; i < g->outputs.count; i++) vec_push(mp->keep, &c.writes, output_buffer(mp, fr, &c, g, m, i));
        if (m == 0 || plan_member(&c, m) != plan_member(&c, m - 1)) flops = flops_of(g);
        c.flops += flops;
    }
    vec_push(mp->keep, &mp->out, c);
}

static void walk(struct memplan *mp, struct frame *fr)
{
    for (uint32_t c = fr->begin; c < fr->end; c = matching_end(mp->plan, c) + 1) {
        struct plan_command k = mp->plan->commands.items[c];
        if (k.kind == PLAN_KERNEL) {
            walk_kernel(mp, fr, k);
        } else if (k.kind == PLAN_LOOP_BEGIN) {
            walk_loop(mp, fr, c);
        } else if (k.kind == PLAN_JOIN) {
            walk_join(mp, fr, &k);
        } else if (k.kind == PLAN_COLLECTIVE) {
            for (size_t i = 0; i < plan_joined(&k); i++) {
                ir_value v = plan_joined_node(&k, i);
                vec_push(mp->keep, &k.reads, memplan_buffer_of(mp, fr->f, ir_get(fr->f, v)->args[0]));
                if (fr->buffer[v] == NO_BUFFER) fr->buffer[v] = memplan_new_buffer(mp, PLAN_ARENA, fr->f, v);
                vec_push(mp->keep, &k.writes, fr->buffer[v]);
            }
            mp->flying = (uint32_t)mp->out.count;
            vec_push(mp->keep, &mp->out, k);
        } else if (k.kind == PLAN_WAIT) {
            struct plan_command *start = &mp->out.items[mp->flying];
            start->other = (uint32_t)mp->out.count;
            k.other = mp->flying;
            for (size_t i = 0; i < start->reads.count; i++) vec_push(mp->keep, &k.reads, start->reads.items[i]);
            for (size_t i = 0; i < start->writes.count; i++) vec_push(mp->keep, &k.writes, start->writes.items[i]);
            vec_push(mp->keep, &mp->out, k);
        }
    }
}

void memplan_assign(struct memplan *mp)
{
    const struct ir_func *f = mp->plan->func;
    struct frame fr;
    start_frame(mp, &fr, f, 0, (uint32_t)mp->plan->commands.count);
    bool step = strcmp(f->name, "step") == 0; /* the entry whose results may be refused */
    entry_params(mp, &fr);
    ir_value *old = arena_new_array(mp->arena, ir_value, f->results.count + 1);
    ir_value *parameter = arena_new_array(mp->arena, ir_value, f->module->slots.count + 1); /* by slot */
    for (size_t j = 0; j < f->params.count; j++) parameter[f->params.items[j].slot] = f->params.items[j].value;
    for (size_t i = 0; i < f->results.count; i++) {
        int32_t slot = f->results.items[i].slot;
        ASSERT(slot >= 0);
        enum ir_role role = f->module->slots.items[slot].role;
        old[i] = parameter[slot];
        if (old[i] && (!step || memplan_base(f, f->results.items[i].value) == old[i])) {
            fr.target[i] = fr.buffer[old[i]];
            continue;
        }
        enum plan_space space = ir_role_is_result(role) ? PLAN_METRIC : step ? PLAN_NEXT : PLAN_SLOT;
        fr.target[i] = memplan_new_buffer(mp, space, f, f->results.items[i].value);
        mp->plan->buffers.items[fr.target[i]].slot = (uint32_t)slot;
        mp->plan->buffers.items[fr.target[i]].offset = mp->plans->slot_offset[slot];
    }
    place_results(mp, &fr, old);
    walk(mp, &fr);
    copy_results(mp, &fr);
    mp->plan->commands.items = mp->out.items;
    mp->plan->commands.count = mp->out.count;
    mp->plan->commands.capacity = mp->out.capacity;
}
