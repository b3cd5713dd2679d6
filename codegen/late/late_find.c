/* Which commands wait: those that write the next state, if it is proved to be finite then, and what depends on them.
 * What they read of the arena is held in a block of its own, so that the memory of a step that nobody may refuse stays
 * as it was planned. What an early command writes of the next state goes into the second block, as without all this,
 * and is copied when the step counts; so there should be little of it. */
#include "codegen/late/late.h"
#include <stepc/step_abi.h>
#include <string.h>

enum { LEAST_BYTES = 1 << 16, EARLY_PART = 16, MOST_ROUNDS = 16, MOST_TRIES = 16 };

/* `always`: also where it would not pay; `close`: of what lies below STEPC_BOUND_CLOSE. */
struct asked {
    bool always, close;
};

struct search {
    const struct plan *plan;
    const struct ir_func *f;
    struct arena *arena;
    struct cg_late *out;
    bool *may;          /* by command: it may wait */
    uint32_t *whole;    /* by buffer: the one that it is a part of, or itself */
    bool *in_loop;      /* by command */
    bool *slot_read;    /* by slot: a step reads it */
    bool *slot_written; /* and writes it elsewhere */
    bool numbers;       /* what kernels do not look at is proved to be finite */
    uint32_t *writer;   /* by buffer, while commands are walked: the last one that wrote it + 1 */
    bool *changed;      /* by buffer, while they are walked backwards: an early one writes it later on */
    bool *seen;         /* by value of the step: floats that early commands make for late ones */
    struct write {
        uint32_t command, index, before; /* the one before, from 1 */
    } *writes;
    uint32_t *last; /* by buffer: the last that writes it, from 1 */
};

static const struct plan_buffer *buffer(const struct search *s, uint32_t b) { return &s->plan->buffers.items[b]; }

/* What a command reads, in the order of its buffers, as a value of the step. */
static ir_value value_read(const struct search *s, const struct plan_command *c, size_t i)
{
    if (plan_exchanges(c)) return ir_get(s->f, plan_joined_node(c, i))->args[0];
    size_t inputs = c->reads.count / plan_members(c), member = i / inputs;
    const struct plan_group *g = NULL;
    if (c->kind == PLAN_KERNEL) g = &s->plan->groups.items[plan_member(c, (uint32_t)member)];
    ir_value v = g ? g->inputs.items[i % inputs] : ir_get(s->f, c->node)->args[i];
    if (c->calls.count) v = ir_get(s->f, c->calls.items[member])->args[ir_get(g->func, v)->attr[0].v[0]];
    while (ir_get(s->f, v)->op == OP_reshape) v = ir_get(s->f, v)->args[0];
    return v;
}

static bool held_here(const struct search *s, uint32_t b)
{
    uint32_t w = s->writer[s->whole[b]];
    return buffer(s, b)->space == PLAN_ARENA && w && !s->out->late[w - 1];
}

/* ---------------------------------------------------------------- what has to wait */

static bool writes(const struct search *s, const struct plan_command *c, enum plan_space space)
{
    bool found = false;
    for (size_t i = 0; i < c->writes.count; i++) found |= buffer(s, c->writes.items[i])->space == space;
    return found;
}

/* Marks as late what may be and writes the next state, and all that reads what such a command makes. False: one of them
 * must not wait; the command that it reads from is not asked again. */
static bool mark(struct search *s)
{
    const struct plan *plan = s->plan;
    bool good = true;
    memset(s->writer, 0, plan->buffers.count * sizeof *s->writer);
    for (uint32_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        s->out->late[i] = s->may[i] && writes(s, c, PLAN_NEXT);
        uint32_t decides[] = {c->limit, c->flag}; /* of a loop, whether it goes on */
        for (int k = 0; k < 2 && c->kind != PLAN_KERNEL && !plan_exchanges(c); k++) {
            uint32_t from = decides[k] == UINT32_MAX ? 0 : s->writer[s->whole[decides[k]]];
            if (from && s->out->late[from - 1]) good = s->may[from - 1] = false;
        }
        for (size_t k = 0; k < c->reads.count; k++) {
            uint32_t from = s->writer[s->whole[c->reads.items[k]]];
            if (!from || !s->out->late[from - 1]) continue;
            if (!s->may[i]) good = s->may[from - 1] = false;
            else s->out->late[i] = true;
        }
        if (c->kind == PLAN_WAIT && s->out->late[i] != s->out->late[c->other]) /* both or none */
            good = s->may[i] = s->may[c->other] = false;
        for (size_t k = 0; k < c->writes.count; k++) s->writer[s->whole[c->writes.items[k]]] = i + 1;
    }
    return good;
}

/* A late command would find what an early one has put there since. What a late one makes for others must not lie where
 * early ones wrote: unless it reads it there itself, all of it, so that it is held. */
static bool no_overwriting(struct search *s)
{
    const struct plan *plan = s->plan;
    bool good = true, *since = arena_new_array(s->arena, bool, plan->buffers.count + 1);
    uint32_t *reader = arena_new_array(s->arena, uint32_t, plan->buffers.count + 1); /* a command of those walked + 1 */
    memset(s->changed, 0, plan->buffers.count * sizeof *s->changed);
    for (uint32_t i = 0; i < plan->commands.count; i++)
        for (size_t k = 0; !s->out->late[i] && k < plan->commands.items[i].writes.count; k++)
            s->changed[s->whole[plan->commands.items[i].writes.items[k]]] = true;
    for (uint32_t i = (uint32_t)plan->commands.count; i-- > 0;) {
        const struct plan_command *c = &plan->commands.items[i];
        for (size_t k = 0; s->out->late[i] && k < c->reads.count; k++) {
            reader[c->reads.items[k]] = i + 1;
            if (since[s->whole[c->reads.items[k]]]) good = s->may[i] = false;
        }
        for (size_t k = 0; k < c->writes.count; k++) {
            uint32_t b = c->writes.items[k];
            bool in_place = !since[s->whole[b]] && s->whole[b] == b && !buffer(s, b)->parts.count && reader[b] == i + 1;
            if (!s->out->late[i]) since[s->whole[b]] = true;
            else if (buffer(s, b)->space == PLAN_ARENA && s->changed[s->whole[b]] && !in_place)
                good = s->may[i] = false;
        }
    }
    return good;
}

/* ---------------------------------------------------------------- what they must know */

static void list_writes(struct search *s)
{
    const struct plan *plan = s->plan;
    uint32_t count = 0;
    for (size_t i = 0; i < plan->commands.count; i++) count += (uint32_t)plan->commands.items[i].writes.count;
    s->writes = arena_new_array(s->arena, struct write, count + 1);
    s->last = arena_new_array(s->arena, uint32_t, plan->buffers.count + 1);
    count = 0;
    for (uint32_t i = 0; i < plan->commands.count; i++)
        for (uint32_t k = 0; k < plan->commands.items[i].writes.count; k++) {
            uint32_t *last = &s->last[plan->commands.items[i].writes.items[k]];
            s->writes[++count] = (struct write){i, k, *last};
            *last = count;
        }
}

static bool seen_can_be(const struct ir_type *t) { return ir_dtype_is_float((enum ir_dtype)t->dtype); }

static bool see(struct search *s, uint32_t b, uint32_t at);

/* What devices exchange is seen where it was made. A sum is not, being larger than what was added up; of a loop that
 * is not all: what is given in a turn may have been stored after the collective, in the one before. */
static bool see_exchanged(struct search *s, const struct plan_command *c, uint32_t index, uint32_t at)
{
    if (s->in_loop[at] || !see(s, c->reads.items[index], at)) return false;
    const struct ir_node *n = ir_get(s->f, plan_joined_node(c, index));
    bool sum = n->op == OP_reduce_scatter || (n->op == OP_all_reduce && n->attr[1].v[0] == 0);
    if (sum && seen_can_be(ir_type(s->f, n->args[0]))) s->seen[n->args[0]] = true;
    return !sum;
}

/* What stands in the buffer before command `at` is seen to be below the bound where it is stored: by the last command
 * that wrote it, in a loop by all of them. False: nobody stores it. */
static bool see(struct search *s, uint32_t b, uint32_t at)
{
    const struct plan *plan = s->plan;
    bool found = buffer(s, b)->parts.count > 0;
    if (buffer(s, b)->space != PLAN_ARENA) return false;
    for (size_t p = 0; p < buffer(s, b)->parts.count; p++) found &= see(s, buffer(s, b)->parts.items[p], at);
    for (uint32_t w = s->last[b]; w; w = s->writes[w].before) {
        uint32_t i = s->writes[w].command;
        const struct plan_command *c = &plan->commands.items[i];
        if (i >= at) continue;
        if (plan_exchanges(c)) return see_exchanged(s, c, s->writes[w].index, i);
        bool **seen = &s->out->seen[i];
        if (!*seen) *seen = arena_new_array(s->arena, bool, c->writes.count + 1);
        (*seen)[s->writes[w].index] = found = true;
        if (!s->in_loop[i]) break;
    }
    return found;
}

static void see_all(struct search *s)
{
    const struct plan *plan = s->plan;
    bool *seen = s->seen = arena_new_array(s->arena, bool, s->f->count + 1);
    memset(s->writer, 0, plan->buffers.count * sizeof *s->writer);
    s->out->seen = arena_new_array(s->arena, bool *, plan->commands.count + 1);
    for (uint32_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        for (size_t k = 0; s->out->late[i] && k < c->reads.count; k++) {
            ir_value v = value_read(s, c, k);
            if (held_here(s, c->reads.items[k]) && seen_can_be(ir_type(s->f, v)) && !seen[v])
                seen[v] = see(s, c->reads.items[k], i);
        }
        for (size_t k = 0; k < c->writes.count; k++) s->writer[s->whole[c->writes.items[k]]] = i + 1;
    }
}

/* What is expected of a single number, the runtime looks at also in what an early command has written there. */
static bool looked_at(const struct search *s, uint32_t b)
{
    const struct plan_buffer *at = buffer(s, b);
    const struct ir_slot *slot = &s->f->module->slots.items[at->slot];
    return s->out->expected[at->slot] && cg_is_number((enum ir_role)slot->role, &slot->type) && s->last[b] &&
           !s->out->late[s->writes[s->last[b]].command];
}

/* By value: does one kernel alone compute it? Others may come to other bits. */
static bool *made_once(const struct search *s)
{
    bool *once = arena_new_array(s->arena, bool, s->f->count + 1),
         *made = arena_new_array(s->arena, bool, s->f->count + 1);
    for (size_t i = 0; i < s->plan->groups.count; i++) {
        const struct plan_group *g = &s->plan->groups.items[i];
        for (size_t k = 0; k < g->nodes.count && g->func == s->f; k++) {
            ir_value v = g->nodes.items[k];
            once[v] = !made[v];
            made[v] = true;
        }
    }
    return once;
}

static void see_numbers(struct search *s)
{
    bool *looked = arena_new_array(s->arena, bool, s->f->module->slots.count + 1), *once = made_once(s);
    for (uint32_t b = 0; b < s->plan->buffers.count; b++)
        if (buffer(s, b)->space == PLAN_NEXT && looked_at(s, b)) looked[buffer(s, b)->slot] = true;
    for (size_t i = 0; i < s->f->results.count; i++) {
        const struct ir_result *r = &s->f->results.items[i];
        if (r->slot >= 0 && looked[r->slot] && seen_can_be(ir_type(s->f, r->value)) && once[r->value])
            s->seen[r->value] = true;
    }
}

/* Whether a tensor of the state begins with a number that is not below 1 / STEPC_BOUND. */
static bool begins_apart(const struct ir_func *init, const struct ir_result *r)
{
    const struct ir_slot *slot = &init->module->slots.items[r->slot];
    const struct ir_node *n = ir_get(init, r->value);
    while (n->op == OP_broadcast || n->op == OP_reshape) n = ir_get(init, n->args[0]);
    return cg_is_watched((enum ir_role)slot->role, &slot->type) && n->op == OP_constant &&
           (n->splat || ir_type_elements(&n->type) == 1) &&
           ir_element_get((enum ir_dtype)n->type.dtype, n->data, 0) >= 1 / STEPC_BOUND;
}

/* What may be known of the state, by slot, until a step does not keep it. */
static void suppose(struct search *s)
{
    const struct ir_module *m = s->f->module;
    for (size_t i = 0; i < m->slots.count; i++) s->out->least[i] = s->slot_written[i] ? CG_POSITIVE : CG_ANY;
    for (size_t f = 0; f < m->funcs.count; f++) {
        const struct ir_func *init = m->funcs.items[f];
        for (size_t i = 0; i < init->results.count && init->entry && strcmp(init->name, "init") == 0; i++) {
            uint8_t *least = &s->out->least[init->results.items[i].slot];
            if (*least && begins_apart(init, &init->results.items[i])) *least = CG_APART;
        }
    }
}

/* Whether all floats that late commands make of the state are finite; those of which it is not known do not wait. */
static bool prove(struct search *s)
{
    const struct plan *plan = s->plan;
    see_all(s);
    see_numbers(s);
    bool good = true, *proved = arena_new_array(s->arena, bool, s->f->module->slots.count + 1);
    suppose(s);
    struct cg_known known = {s->seen, s->out->least, s->out->expected, s->out->close ? STEPC_BOUND_CLOSE : STEPC_BOUND};
    const struct cg_bounds *bounds = cg_bounds_find(s->f, &known, s->arena);
    for (size_t i = 0; i < s->f->results.count; i++) {
        const struct ir_type *t = ir_type(s->f, s->f->results.items[i].value);
        struct cg_bounds b = bounds[s->f->results.items[i].value];
        proved[s->f->results.items[i].slot] = !ir_dtype_is_float((enum ir_dtype)t->dtype) || cg_bounds_finite(t, b);
    }
    s->numbers = true;
    for (size_t i = 0; i < plan->buffers.count; i++) {
        const struct plan_buffer *b = buffer(s, (uint32_t)i);
        if (b->space != PLAN_NEXT) continue;
        const struct ir_slot *slot = &s->f->module->slots.items[b->slot];
        s->numbers &= proved[b->slot] || cg_is_watched(slot->role, &slot->type) || looked_at(s, (uint32_t)i);
    }
    for (uint32_t i = 0; i < plan->commands.count; i++)
        for (size_t k = 0; s->out->late[i] && k < plan->commands.items[i].writes.count; k++) {
            const struct plan_buffer *b = buffer(s, plan->commands.items[i].writes.items[k]);
            if (b->space == PLAN_NEXT && !proved[b->slot]) good = s->may[i] = false;
        }
    return good;
}

/* ---------------------------------------------------------------- where it is held */

/* Tensors that lie end to end in the arena do so here. */
static bool hold(struct search *s)
{
    const struct plan *plan = s->plan;
    uint64_t at = 0;
    uint32_t before = UINT32_MAX, *held = s->out->held;
    for (size_t b = 0; b < plan->buffers.count; b++) held[b] = CG_NOT_HELD;
    memset(s->writer, 0, plan->buffers.count * sizeof *s->writer);
    for (uint32_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        uint32_t members = plan_members(c);
        size_t inputs = s->out->late[i] ? c->reads.count / members : 0;
        for (size_t k = 0; k < inputs; k++)
            for (uint32_t m = 0; m < members; m++) {
                uint32_t member = members > 1 ? c->order.items[m] : m;
                uint32_t read = c->reads.items[member * inputs + k], b = s->whole[read];
                if (!held_here(s, read) || held[b] != CG_NOT_HELD) continue;
                bool close = before != UINT32_MAX &&
                             buffer(s, b)->offset == buffer(s, before)->offset + buffer(s, before)->bytes;
                if (!close) at = (at + 63) & ~(uint64_t)63;
                held[before = b] = (uint32_t)at;
                at += buffer(s, b)->bytes;
                if (at > INT32_MAX) return false;
            }
        for (size_t k = 0; k < c->writes.count; k++) s->writer[s->whole[c->writes.items[k]]] = i + 1;
    }
    for (uint32_t b = 0; b < plan->buffers.count; b++) {
        uint32_t whole = s->whole[b];
        if (held[whole] != CG_NOT_HELD && b != whole)
            held[b] = held[whole] + (uint32_t)(buffer(s, b)->offset - buffer(s, whole)->offset);
    }
    return true;
}

/* Whether enough of the state is written late; nothing of it may begin as what it was (multi_steps: PACKED_KEPT). */
static bool pays(struct search *s, bool always)
{
    const struct plan *plan = s->plan;
    uint64_t late = 0, early = 0;
    for (size_t b = 0; b < plan->buffers.count; b++)
        if (buffer(s, (uint32_t)b)->space == PLAN_NEXT && !s->slot_read[buffer(s, (uint32_t)b)->slot]) return false;
    for (size_t i = 0; i < plan->commands.count; i++)
        for (size_t k = 0; k < plan->commands.items[i].writes.count; k++) {
            const struct plan_buffer *b = buffer(s, plan->commands.items[i].writes.items[k]);
            if (b->space != PLAN_NEXT) continue;
            *(s->out->late[i] ? &late : &early) += b->bytes;
            s->out->early[plan->commands.items[i].writes.items[k]] = !s->out->late[i];
        }
    return s->numbers && (always ? late > 0 : late >= LEAST_BYTES && early * EARLY_PART <= late);
}

/* ---------------------------------------------------------------- the whole */

static struct search start(const struct plan *plan, struct cg_late *out, struct arena *arena)
{
    size_t count = plan->commands.count, buffers = plan->buffers.count, slots = plan->func->module->slots.count;
    struct search s = {.plan = plan, .f = plan->func, .arena = arena, .out = out};
    *out = (struct cg_late){.late = arena_new_array(arena, bool, count + 1),
                            .early = arena_new_array(arena, bool, buffers + 1),
                            .held = arena_new_array(arena, uint32_t, buffers + 1),
                            .least = arena_new_array(arena, uint8_t, slots + 1),
                            .expected = out->expected,
                            .close = out->close};
    s.may = arena_new_array(arena, bool, count + 1);
    s.in_loop = arena_new_array(arena, bool, count + 1);
    s.whole = arena_new_array(arena, uint32_t, buffers + 1);
    s.writer = arena_new_array(arena, uint32_t, buffers + 1);
    s.changed = arena_new_array(arena, bool, buffers + 1);
    s.slot_read = arena_new_array(arena, bool, slots + 1);
    s.slot_written = arena_new_array(arena, bool, slots + 1);
    for (uint32_t b = 0; b < buffers; b++) s.whole[b] = b;
    for (uint32_t b = 0; b < buffers; b++)
        for (size_t p = 0; p < buffer(&s, b)->parts.count; p++) s.whole[buffer(&s, b)->parts.items[p]] = b;
    for (uint32_t b = 0; b < buffers; b++) {
        while (s.whole[s.whole[b]] != s.whole[b]) s.whole[b] = s.whole[s.whole[b]];
        if (buffer(&s, b)->space == PLAN_SLOT) s.slot_read[buffer(&s, b)->slot] = true;
        if (buffer(&s, b)->space == PLAN_NEXT) s.slot_written[buffer(&s, b)->slot] = true;
    }
    uint32_t depth = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        depth -= c->kind == PLAN_LOOP_END;
        s.in_loop[i] = depth > 0;
        s.may[i] = !depth && (c->kind == PLAN_KERNEL || plan_exchanges(c)) && !writes(&s, c, PLAN_METRIC);
        depth += c->kind == PLAN_LOOP_BEGIN;
    }
    list_writes(&s);
    return s;
}

static const struct cg_late *find(const struct plan *plan, uint8_t *expected, struct asked how, struct arena *arena)
{
    struct cg_late *out = arena_new(arena, struct cg_late);
    out->expected = expected;
    out->close = how.close;
    struct search s = start(plan, out, arena);
    for (uint32_t round = 0; round < MOST_ROUNDS; round++)
        if (mark(&s) && no_overwriting(&s) && prove(&s)) return pays(&s, how.always) && hold(&s) ? out : NULL;
    return NULL;
}

/* Kinds of what may be expected, from what costs most to look at on. Nothing is of what no step reads. */
enum { OF_INPUTS, OF_HYPERS, OF_NUMBERS_APART, OF_NUMBERS, KINDS };

static uint8_t *expect(const struct plan *plan, const bool *kinds, struct arena *arena)
{
    const struct ir_module *module = plan->func->module;
    uint8_t *expected = arena_new_array(arena, uint8_t, module->slots.count + 1);
    for (size_t b = 0; b < plan->buffers.count; b++) {
        const struct plan_buffer *at = &plan->buffers.items[b];
        if (at->space != PLAN_INPUT && at->space != PLAN_SLOT) continue;
        const struct ir_slot *slot = &module->slots.items[at->slot];
        bool number = cg_is_number((enum ir_role)slot->role, &slot->type);
        bool apart = number && kinds[OF_NUMBERS_APART] && ir_dtype_is_float((enum ir_dtype)slot->type.dtype);
        bool here = number                        ? kinds[OF_NUMBERS]
                    : slot->role == IR_ROLE_HYPER ? kinds[OF_HYPERS]
                                                  : kinds[OF_INPUTS] && at->space == PLAN_INPUT &&
                                                        slot->type.dtype != IR_F16 && seen_can_be(&slot->type);
        expected[at->slot] = apart ? CG_EXPECTED_APART : here ? CG_EXPECTED : CG_NOT_EXPECTED;
    }
    return expected;
}

/* First nothing is expected, then everything, and if that helps as little as will do. */
static const struct cg_late *find_least(const struct plan *plan, struct asked how, struct arena *arena)
{
    bool kinds[KINDS] = {false};
    uint8_t *expected = expect(plan, kinds, arena);
    const struct cg_late *found = find(plan, expected, how, arena);
    if (found) return found;
    memset(kinds, true, sizeof kinds);
    expected = expect(plan, kinds, arena);
    found = find(plan, expected, how, arena);
    for (int kind = 0; found && kind < KINDS; kind++) {
        kinds[kind] = false;
        uint8_t *fewer = expect(plan, kinds, arena);
        const struct cg_late *less = find(plan, fewer, how, arena);
        kinds[kind] = !less;
        if (less) found = less, expected = fewer;
    }
    uint32_t tries = 0;
    for (size_t i = 0; found && i < plan->func->module->slots.count; i++)
        while (expected[i] && tries++ < MOST_TRIES) {
            expected[i]--;
            const struct cg_late *less = find(plan, expected, how, arena);
            if (less) found = less;
            if (less) continue;
            expected[i]++;
            break;
        }
    return found;
}

const struct cg_late *cg_late_find(const struct plan *plan, bool always, struct arena *arena)
{
    const struct cg_late *found = find_least(plan, (struct asked){always, false}, arena);
    return found ? found : find_least(plan, (struct asked){always, true}, arena);
}

/* One pass over the commands: all members of one have the same code. Whether another one is needed, because groups
 * share their code with others. */
static bool watch(const struct plan *plan, const struct cg_late *late, struct cg_kernel *kernels)
{
    bool again = false;
    uint8_t bounded = late->close ? NEST_CLOSE : NEST_BOUNDED;
    for (size_t i = 0; i < plan->commands.count; i++) {
        const struct plan_command *c = &plan->commands.items[i];
        size_t outputs = c->kind == PLAN_KERNEL ? plan->groups.items[c->group].outputs.count : 0;
        for (size_t o = 0; o < outputs; o++)
            for (int set = 0, needed = 0; set < 2; set++)
                for (uint32_t m = 0; m < plan_members(c) && set <= needed; m++) {
                    struct cg_kernel *kernel = &kernels[plan_member(c, m)];
                    uint32_t argument = kernel->nest->argument_count - (uint32_t)(outputs - o);
                    struct nest_buffer *stored = &kernel->nest->buffers.items[argument];
                    uint8_t *checked = &stored->checked, wanted = stored->dtype == IR_F16 ? NEST_FINITE : bounded;
                    needed |= *checked || (late->seen[i] && late->seen[i][m * outputs + o]);
                    if (!set) continue;
                    again |= *checked != wanted;
                    *checked = wanted;
                    kernel->gemm.checked = bounded;
                }
    }
    return again;
}

void cg_late_watch(const struct plan *plan, const struct cg_late *late, struct cg_kernel *kernels)
{
    while (watch(plan, late, kernels)) continue;
    for (size_t g = 0; g < plan->groups.count; g++) kernels[g].hash = nest_hash(kernels[g].nest);
}
