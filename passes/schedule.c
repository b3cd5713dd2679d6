/* Order: groups, loops and collectives of a function become commands. A unit may run once what it reads is there;
 * among those that may, an update of state goes first (it ends the life of a gradient), and so does what makes little
 * of much (the norm of one gradient, which its update waits for), then the earliest in the program. Readers of a slot
 * come before its writer where they can, so that the update can be made in place.
 *
 * Sums over devices wait for the first unit that reads them, and those of one kind that wait then become one command:
 * devices meet once for all. They wait no longer than until a bucket is full, so that those of a layer are made while
 * the layers before it are still computed backwards. What is gathered is joined where it is small.
 *
 * A collective that is not needed at once is under way while others run: a bucket until the next one is full, what is
 * gathered from the moment when what was gathered before it is first read. One is under way at a time, which is what
 * this costs in memory. */
#include "passes/common.h"
#include <stdlib.h>
#include <string.h>

/* One command for many tensors: at least how many, and elements at most, because their gradients live until it runs. */
enum { BATCH_LEAST = 16, BATCH_LEAST_LAUNCHES = 2, BATCH_ELEMENTS = 1 << 22, BATCH_ELEMENTS_LAUNCHES = 1 << 25 };
/* Bytes that are joined: of what is gathered; of sums at most, and what part of all of them. */
enum { SMALL_BYTES = 1 << 16, BUCKET_BYTES = 1 << 20, BUCKETS = 4 };
/* What a group makes is little if it reads so many times as much. */
enum { LITTLE = 64 };

struct unit {
    uint32_t group;           /* or UINT32_MAX: the node */
    ir_value node;            /* loop, collective, call */
    VEC(ir_value) calls;      /* of functions with the same code, none of which depends on another: one command */
    VEC(uint32_t) groups;     /* beside `group`: the same for what is not called */
    uint32_t key, hard, soft; /* order in the program; waiting for so many */
    uint32_t computed;        /* of `hard`: those that are not on demand */
    bool done, early, collective, waits; /* early: writes state, makes little of much, leads to such alone */
    bool on_demand, wanted;              /* collectives, joins: comes when one of its readers waits for nothing else */
    VEC(uint32_t) hard_users, soft_users;
    VEC(uint32_t) demanded; /* those on demand that it reads */
};

struct schedule {
    struct pass *pass;
    struct plan *plan;
    const struct ir_func *f;
    VEC(struct unit) units;
    uint32_t *producer;     /* by value: unit + 1 */
    uint32_t *writer;       /* by parameter: the unit that makes the new value of its slot, + 1 */
    uint32_t *group_of;     /* by function that is called: its group */
    VEC(uint32_t) ready[2]; /* heaps of units that may run: whose wishes are met, and all */
    VEC(uint32_t) waiting;  /* collectives that may run */
    uint32_t full;          /* one of those that fill a bucket, + 1 */
    uint64_t bucket;        /* bytes */
    VEC(uint32_t) flying;   /* the collective that is under way, and what is joined with it */
    uint32_t flight;        /* its command */
    VEC(uint32_t) ahead;    /* what is gathered or moved, by its order: those before `next` are done */
    size_t next;
};

static ir_value base_of(const struct ir_func *f, ir_value v)
{
    while (ir_get(f, v)->op == OP_reshape || ir_get(f, v)->op == OP_proj) v = ir_get(f, v)->args[0];
    return v;
}

/* Where a group stands in the program: where the first of its sums or outputs is made. What is done with them at the
 * end (a sum over microbatches that a gradient is added to, the norm of all gradients) does not put it off, or what it
 * reads would live until then. */
static uint32_t key_of(const struct plan_group *g)
{
    ir_value key = g->nodes.items[g->nodes.count - 1];
    for (size_t i = 0; i < g->outputs.count; i++)
        if (g->outputs.items[i] < key) key = g->outputs.items[i];
    for (size_t i = 0; i < g->nodes.count; i++) {
        enum ir_emit emit = (enum ir_emit)ir_ops[ir_get(g->func, g->nodes.items[i])->op].emit;
        bool sum = emit == EMIT_dot || emit == EMIT_scatter || emit == EMIT_reduce || emit == EMIT_lines;
        if (sum && g->nodes.items[i] < key) key = g->nodes.items[i];
    }
    return key;
}

static uint64_t bytes_of_all(const struct ir_func *f, const ir_value *items, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += (uint64_t)ir_type_elements(ir_type(f, items[i])) * ir_dtype_bytes(ir_type(f, items[i])->dtype);
    return bytes;
}

/* The norm of a tensor, means of its rows: takes next to no memory, and updates that wait for it alone end the life of
 * a gradient. */
static bool makes_little(const struct plan_group *g)
{
    return bytes_of_all(g->func, g->outputs.items, g->outputs.count) * LITTLE <
           bytes_of_all(g->func, g->inputs.items, g->inputs.count);
}

static void collect_units(struct schedule *s)
{
    const struct ir_func *f = s->f;
    for (size_t i = 0; i < s->plan->groups.count; i++) {
        const struct plan_group *g = &s->plan->groups.items[i];
        if (g->func != f) continue;
        struct unit u = {.group = (uint32_t)i, .key = key_of(g), .early = makes_little(g)};
        vec_push(&s->pass->scratch, &s->units, u);
        for (size_t j = 0; j < g->outputs.count; j++) s->producer[g->outputs.items[j]] = (uint32_t)s->units.count;
    }
    bool *live = ir_live(f, &s->pass->scratch);
    s->group_of = arena_new_array(&s->pass->scratch, uint32_t, f->module->funcs.count + 1);
    for (size_t i = 0; i < s->plan->groups.count; i++)
        s->group_of[ir_func_index(s->plan->groups.items[i].func)] = (uint32_t)i;
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *node = ir_get(f, v);
        bool join = plan_is_join(s->plan, f, v);
        if (!live[v] || (node->op != OP_loop && node->op != OP_call && ir_ops[node->op].emit != EMIT_comm && !join))
            continue;
        struct unit u = {.group = UINT32_MAX, .node = v, .key = v};
        u.collective = ir_ops[node->op].emit == EMIT_comm;
        u.on_demand = u.collective || join;
        if (node->op == OP_call) vec_push(&s->pass->scratch, &u.calls, v);
        vec_push(&s->pass->scratch, &s->units, u);
        s->producer[v] = (uint32_t)s->units.count;
    }
}

/* Tells of everything that a unit reads. */
static void for_inputs(struct schedule *s, uint32_t u, void (*tell)(struct schedule *, uint32_t u, ir_value))
{
    struct unit unit = s->units.items[u]; /* the list may move */
    bool kernel = unit.group != UINT32_MAX;
    for (size_t k = 0; kernel && k <= unit.groups.count; k++) {
        const struct plan_group *g = &s->plan->groups.items[k ? unit.groups.items[k - 1] : unit.group];
        for (size_t i = 0; i < g->inputs.count; i++) tell(s, u, base_of(s->f, g->inputs.items[i]));
    }
    for (size_t c = 0; !kernel && (c == 0 || c < unit.calls.count); c++) {
        const struct ir_node *node = ir_get(s->f, unit.calls.count ? unit.calls.items[c] : unit.node);
        for (uint32_t i = 0; i < node->arg_count; i++) tell(s, u, base_of(s->f, node->args[i]));
    }
}

static void needs(struct schedule *s, uint32_t u, ir_value v)
{
    if (s->producer[v] && s->producer[v] != u + 1) {
        vec_push(&s->pass->scratch, &s->units.items[s->producer[v] - 1].hard_users, u);
        s->units.items[u].hard++;
        if (!s->units.items[s->producer[v] - 1].on_demand) s->units.items[u].computed++;
        else vec_push(&s->pass->scratch, &s->units.items[u].demanded, s->producer[v] - 1);
    }
}

/* A unit would like to read a parameter before it is overwritten. */
static void wishes(struct schedule *s, uint32_t u, ir_value v)
{
    const struct ir_node *node = ir_get(s->f, v);
    for (uint32_t i = 0; i < node->arg_count && plan_is_join(s->plan, s->f, v);
         i++) /* it may be their memory that is read */
        wishes(s, u, base_of(s->f, node->args[i]));
    if (s->writer[v] && s->writer[v] != u + 1) {
        vec_push(&s->pass->scratch, &s->units.items[u].soft_users, s->writer[v] - 1);
        s->units.items[s->writer[v] - 1].soft++;
    }
}

/* ---------------------------------------------------------------- many that become one command */

/* All units, each behind what it needs. */
static uint32_t *in_order(struct schedule *s)
{
    uint32_t count = (uint32_t)s->units.count, done = 0, end = 0,
             *order = arena_new_array(&s->pass->scratch, uint32_t, count + 1),
             *left = arena_new_array(&s->pass->scratch, uint32_t, count + 1);
    for (uint32_t u = 0; u < count; u++)
        if (!(left[u] = s->units.items[u].hard)) order[end++] = u;
    for (; done < end; done++) {
        struct unit *u = &s->units.items[order[done]];
        for (size_t i = 0; i < u->hard_users.count; i++)
            if (--left[u->hard_users.items[i]] == 0) order[end++] = u->hard_users.items[i];
    }
    order[count] = end;
    return order;
}

/* How many units at most follow a unit, each needing the one before. Those of one height do not need each other. */
static uint32_t *heights(struct schedule *s)
{
    uint32_t count = (uint32_t)s->units.count, *order = in_order(s), done = order[count];
    uint32_t *height = arena_new_array(&s->pass->scratch, uint32_t, count + 1);
    while (done-- > 0) {
        const struct unit *u = &s->units.items[order[done]];
        for (size_t i = 0; i < u->hard_users.count; i++)
            if (height[order[done]] <= height[u->hard_users.items[i]])
                height[order[done]] = height[u->hard_users.items[i]] + 1;
    }
    return height;
}

/* Is it what pass remat makes once more? Of what was kept it could be made at any time. */
static bool is_made_again(const struct plan_group *g)
{
    bool is = g->func->turn && g->nodes.items[g->nodes.count - 1] >= g->func->turn;
    for (size_t i = 0; i < g->inputs.count && is; i++) is = base_of(g->func, g->inputs.items[i]) < g->func->turn;
    return is;
}

/* Element-wise work and reductions of which all leads to early units are early: the last steps of updates. */
static void hurry(struct schedule *s)
{
    const uint32_t *order = in_order(s);
    for (uint32_t k = order[s->units.count]; k-- > 0;) {
        struct unit *u = &s->units.items[order[k]];
        const struct plan_group *g = u->group == UINT32_MAX ? NULL : &s->plan->groups.items[u->group];
        bool leads = g && g->kind <= GROUP_COLUMN && !is_made_again(g);
        for (size_t i = 0; i < u->hard_users.count && leads; i++) leads = s->units.items[u->hard_users.items[i]].early;
        u->early |= leads && u->hard_users.count;
    }
}

/* The group of a unit that may be one of many, NULL: it is none. */
static const struct plan_group *group_of_unit(const struct schedule *s, const struct unit *u)
{
    if (u->group == UINT32_MAX && !u->calls.count) return NULL;
    const struct plan_group *g =
        &s->plan->groups.items[u->calls.count ? s->group_of[ir_get(s->f, u->node)->func] : u->group];
    return g->alike ? g : NULL;
}

/* Waits for nothing, and is read behind the turn: it may as well be made first. */
static bool is_first(const struct schedule *s, const struct unit *u)
{
    bool late = false;
    for (size_t i = 0; i < u->hard_users.count && !late; i++)
        late = s->f->turn && s->units.items[u->hard_users.items[i]].key >= s->f->turn;
    return late && !u->hard && u->key < s->f->turn && s->pass->options->blocks;
}

/* How many units of the same code and height there are, by unit. Those that come first need no others. */
static uint32_t *count_alike(struct schedule *s, const uint32_t *height, uint64_t *key)
{
    struct map counts = MAP(&s->pass->scratch);
    uint32_t *count = arena_new_array(&s->pass->scratch, uint32_t, s->units.count + 1);
    for (uint32_t u = 0; u < s->units.count; u++) {
        const struct plan_group *g = group_of_unit(s, &s->units.items[u]);
        if (!g) continue;
        key[u] = hash_u64(g->alike, is_first(s, &s->units.items[u]) ? UINT32_MAX : height[u]);
        uint32_t before = map_get_number(&counts, key[u]);
        map_set_number(&counts, key[u], before == MAP_NONE ? 1 : before + 1);
    }
    for (uint32_t u = 0; u < s->units.count; u++) count[u] = key[u] ? map_get_number(&counts, key[u]) : 0;
    return count;
}

static void add_to_batch(struct schedule *s, uint32_t into, uint32_t u)
{
    struct unit *unit = &s->units.items[u], *all = &s->units.items[into];
    if (unit->calls.count) {
        vec_push(&s->pass->scratch, &all->calls, unit->node);
        s->producer[unit->node] = into + 1;
    } else {
        const struct plan_group *g = &s->plan->groups.items[unit->group];
        vec_push(&s->pass->scratch, &all->groups, unit->group);
        for (size_t i = 0; i < g->outputs.count; i++) s->producer[g->outputs.items[i]] = into + 1;
    }
    unit->done = true;
}

/* Elements of the largest tensor that waits for a unit's command, or is made by it. */
static int64_t elements_of(const struct plan_group *g)
{
    int64_t most = ir_type_elements(ir_type(g->func, g->outputs.items[0]));
    for (size_t i = 0; i < g->inputs.count; i++) {
        int64_t here = ir_type_elements(ir_type(g->func, g->inputs.items[i]));
        if (here > most) most = here;
    }
    return most;
}

/* Puts units of the same code and height together, as long as not too much memory waits for the last of them. */
static void batch(struct schedule *s)
{
    struct map open = MAP(&s->pass->scratch); /* key -> unit */
    uint32_t count = (uint32_t)s->units.count;
    uint64_t *key = arena_new_array(&s->pass->scratch, uint64_t, count + 1);
    const uint32_t *alike = count_alike(s, heights(s), key);
    int64_t *elements = arena_new_array(&s->pass->scratch, int64_t, count + 1);
    bool launches = s->pass->options->blocks;
    uint32_t least = launches ? BATCH_LEAST_LAUNCHES : BATCH_LEAST;
    int64_t most = launches ? BATCH_ELEMENTS_LAUNCHES : BATCH_ELEMENTS;
    for (uint32_t u = 0; u < count; u++) {
        struct unit *unit = &s->units.items[u];
        unit->hard = unit->computed = 0;
        unit->hard_users.count = unit->demanded.count = 0;
        if (alike[u] < least) continue;
        const struct plan_group *g = group_of_unit(s, unit);
        uint32_t into = map_get_number(&open, key[u]);
        int64_t here = launches ? elements_of(g) : ir_type_elements(ir_type(g->func, g->outputs.items[0]));
        if (into == MAP_NONE || elements[into] + here > most) map_set_number(&open, key[u], into = u);
        else add_to_batch(s, into, u);
        elements[into] += here;
    }
}

/* ---------------------------------------------------------------- what waits for what */

static void connect(struct schedule *s)
{
    const struct ir_func *f = s->f;
    s->writer = arena_new_array(&s->pass->scratch, uint32_t, f->count);
    ir_value *reader = arena_new_array(&s->pass->scratch, ir_value,
                                       f->module->slots.count + 1); /* by slot: its parameter */
    for (size_t j = 0; j < f->params.count; j++)
        if (f->params.items[j].slot >= 0) reader[f->params.items[j].slot] = f->params.items[j].value;
    for (size_t i = 0; i < f->results.count; i++) {
        uint32_t u = s->producer[base_of(f, f->results.items[i].value)];
        if (!u) continue;
        int32_t slot = f->results.items[i].slot;
        if (slot >= 0 && reader[slot]) {
            s->writer[reader[slot]] = u;
            s->units.items[u - 1].early = true;
        }
        if (!f->entry && i + 1 < f->params.count)
            s->writer[f->params.items[i + 1].value] = u; /* carried value i is parameter 1 + i */
    }
    for (uint32_t u = 0; u < s->units.count; u++)
        if (!s->units.items[u].done) {
            for_inputs(s, u, needs);
            for_inputs(s, u, wishes);
        }
}

static const struct ir_node *node_of(const struct schedule *s, uint32_t unit)
{
    return ir_get(s->f, s->units.items[unit].node);
}

/* Of its operand, or of its result where that is more. */
static uint64_t bytes_of(const struct schedule *s, uint32_t unit)
{
    const struct ir_node *n = node_of(s, unit);
    uint64_t from = (uint64_t)ir_type_elements(ir_type(s->f, n->args[0])), to = (uint64_t)ir_type_elements(&n->type);
    return (from > to ? from : to) * ir_dtype_bytes((enum ir_dtype)n->type.dtype);
}

static bool is_sum(const struct ir_node *n) { return n->op == OP_all_reduce || n->op == OP_reduce_scatter; }

static int by_key(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

/* A collective comes where its result is read first: by then sums are joined, and what is gathered is not there before
 * it has to be. */
static void wait_for_readers(struct schedule *s)
{
    uint64_t *order = arena_new_array(&s->pass->scratch, uint64_t, s->units.count + 1);
    size_t ahead = 0;
    for (uint32_t u = (uint32_t)s->units.count; u-- > 0;) { /* readers first */
        struct unit *unit = &s->units.items[u];
        if (!unit->on_demand) continue;
        uint32_t needed = UINT32_MAX;
        for (size_t i = 0; i < unit->hard_users.count; i++)
            if (s->units.items[unit->hard_users.items[i]].key < needed)
                needed = s->units.items[unit->hard_users.items[i]].key;
        unit->key = needed;
        if (!unit->collective) continue;
        if (is_sum(node_of(s, u))) s->bucket += bytes_of(s, u) / BUCKETS;
        else order[ahead++] = (uint64_t)unit->key << 32 | u;
    }
    qsort(order, ahead, sizeof *order, by_key);
    for (size_t i = 0; i < ahead; i++) vec_push(&s->pass->scratch, &s->ahead, (uint32_t)order[i]);
    if (s->bucket > BUCKET_BYTES) s->bucket = BUCKET_BYTES;
    if (s->bucket < SMALL_BYTES) s->bucket = SMALL_BYTES;
}

static void command(struct schedule *s, struct plan_command c)
{
    c.counter = c.limit = c.flag = UINT32_MAX;
    vec_push(s->pass->keep, &s->plan->commands, c);
}

static void schedule_function(struct pass *, struct plan *, const struct ir_func *);

static void emit(struct schedule *s, const struct unit *u)
{
    if (u->group != UINT32_MAX) {
        struct plan_command k = {.kind = PLAN_KERNEL, .group = u->group, .func = s->f};
        for (size_t i = 0; i < u->groups.count; i++) vec_push(s->pass->keep, &k.more, u->groups.items[i]);
        command(s, k);
        return;
    }
    const struct ir_node *node = ir_get(s->f, u->node);
    struct plan_command c = {.func = s->f, .node = u->node, .group = UINT32_MAX};
    if (node->op == OP_call) {
        c.kind = PLAN_KERNEL;
        for (size_t i = 0; i < u->calls.count; i++) {
            uint32_t group = s->group_of[ir_get(s->f, u->calls.items[i])->func];
            vec_push(s->pass->keep, &c.calls, u->calls.items[i]);
            if (i) vec_push(s->pass->keep, &c.more, group);
            else c.group = group;
        }
        command(s, c);
        return;
    }
    if (node->op != OP_loop) {
        c.kind = node->op == OP_concat ? PLAN_JOIN : PLAN_COLLECTIVE;
        command(s, c);
        return;
    }
    uint32_t begin = (uint32_t)s->plan->commands.count;
    c.kind = PLAN_LOOP_BEGIN;
    command(s, c);
    schedule_function(s->pass, s->plan, s->f->module->funcs.items[node->func]);
    c.kind = PLAN_LOOP_END;
    c.other = begin;
    s->plan->commands.items[begin].other = (uint32_t)s->plan->commands.count;
    command(s, c);
}

/* ---------------------------------------------------------------- the next one */

/* Does unit x go before unit y? */
static bool before(const struct schedule *s, uint32_t x, uint32_t y)
{
    const struct unit *a = &s->units.items[x], *b = &s->units.items[y];
    return a->early != b->early ? a->early : a->key != b->key ? a->key < b->key : x < y;
}

static void heap_push(struct schedule *s, uint32_t heap, uint32_t unit)
{
    vec_push(&s->pass->scratch, &s->ready[heap], unit);
    uint32_t *items = s->ready[heap].items;
    size_t at = s->ready[heap].count - 1;
    for (; at > 0 && before(s, unit, items[(at - 1) / 2]); at = (at - 1) / 2) items[at] = items[(at - 1) / 2];
    items[at] = unit;
}

static uint32_t heap_pop(struct schedule *s, uint32_t heap)
{
    uint32_t *items = s->ready[heap].items, top = items[0];
    size_t count = --s->ready[heap].count, at = 0;
    uint32_t last = items[count];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(s, items[child + 1], items[child])) child++;
        if (!before(s, items[child], last)) break;
        items[at] = items[child];
    }
    items[at] = last;
    return top;
}

/* Sums take no more memory by it. */
static bool joins(const struct schedule *s, uint32_t unit, uint32_t with, uint64_t bytes)
{
    if (s->units.items[unit].done || unit == with || !plan_goes_with(node_of(s, unit), node_of(s, with))) return false;
    return is_sum(node_of(s, unit)) || bytes <= SMALL_BYTES;
}

static void wait(struct schedule *s, uint32_t unit)
{
    uint64_t bytes = bytes_of(s, unit);
    if (s->units.items[unit].waits) return;
    s->units.items[unit].waits = true;
    for (size_t i = 0; i < s->waiting.count; i++)
        if (joins(s, s->waiting.items[i], unit, 0)) bytes += bytes_of(s, s->waiting.items[i]);
    vec_push(&s->pass->scratch, &s->waiting, unit);
    if (bytes >= s->bucket && is_sum(node_of(s, unit))) s->full = unit + 1;
}

/* Notes that a unit waits for less than before. */
static void update(struct schedule *s, uint32_t unit)
{
    const struct unit *u = &s->units.items[unit];
    if (u->done || u->hard) return;
    if (u->collective && !u->soft) wait(s, unit);
    if (u->on_demand && !u->wanted) return;
    if (!u->soft) heap_push(s, 0, unit);
    heap_push(s, 1, unit);
}

/* The best one whose wishes are met, else the best one that may run at all. */
static struct unit *next_unit(struct schedule *s)
{
    if (s->full && !s->units.items[s->full - 1].done) return &s->units.items[s->full - 1];
    s->full = 0;
    while (s->next < s->ahead.count && s->units.items[s->ahead.items[s->next]].done) s->next++;
    struct unit *ahead = s->next < s->ahead.count ? &s->units.items[s->ahead.items[s->next]] : NULL;
    if (s->flying.count || (ahead && !ahead->waits)) ahead = NULL;
    for (uint32_t heap = 0; heap < 2; heap++)
        for (; s->ready[heap].count; heap_pop(s, heap)) {
            struct unit *u = &s->units.items[s->ready[heap].items[0]];
            if (!u->done) return ahead && !u->collective ? ahead : u;
        }
    return NULL;
}

/* Nothing that is computed is missing any more: now what is exchanged may come, and what that takes. */
static void want(struct schedule *s, uint32_t unit)
{
    const struct unit *u = &s->units.items[unit];
    if (u->computed || (u->on_demand && !u->wanted)) return;
    for (size_t i = 0; i < u->demanded.count; i++) {
        uint32_t from = u->demanded.items[i];
        if (s->units.items[from].wanted) continue;
        s->units.items[from].wanted = true;
        update(s, from);
        want(s, from);
    }
}

/* What waited for the unit waits for less. */
static void finish(struct schedule *s, struct unit *u)
{
    for (size_t i = 0; i < u->hard_users.count; i++) {
        uint32_t user = u->hard_users.items[i];
        if (!u->on_demand && --s->units.items[user].computed == 0) want(s, user);
        if (--s->units.items[user].hard == 0) update(s, user);
    }
    for (size_t i = 0; i < u->soft_users.count; i++)
        if (--s->units.items[u->soft_users.items[i]].soft == 0) update(s, u->soft_users.items[i]);
}

/* The collectives that wait and go with the one that stands in the last command are under way with it. */
static void emit_joined(struct schedule *s, uint32_t first)
{
    struct plan_command *c = &s->plan->commands.items[s->plan->commands.count - 1];
    uint64_t *order = arena_new_array(&s->pass->scratch, uint64_t, s->waiting.count + 1), bytes = bytes_of(s, first);
    size_t left = 0;
    s->flying.count = 0;
    s->flight = (uint32_t)s->plan->commands.count - 1;
    vec_push(&s->pass->scratch, &s->flying, first);
    for (size_t i = 0; i < s->waiting.count; i++) {
        uint32_t u = s->waiting.items[i];
        if (!s->units.items[u].done) order[left++] = (uint64_t)s->units.items[u].key << 32 | u;
    }
    qsort(order, left, sizeof *order, by_key); /* as they are read */
    s->waiting.count = 0;
    for (size_t i = 0; i < left; i++) {
        uint32_t u = (uint32_t)order[i];
        if (joins(s, u, first, bytes + bytes_of(s, u))) {
            bytes += bytes_of(s, u);
            vec_push(s->pass->keep, &c->joined, s->units.items[u].node);
            s->units.items[u].done = true;
            vec_push(&s->pass->scratch, &s->flying, u);
        } else vec_push(&s->pass->scratch, &s->waiting, u);
    }
}

/* What is under way ends here. */
static void land(struct schedule *s)
{
    if (!s->flying.count) return;
    if (s->flight + 1 < s->plan->commands.count) {
        struct plan_command wait = s->plan->commands.items[s->flight];
        wait.kind = PLAN_WAIT;
        wait.other = s->flight;
        s->plan->commands.items[s->flight].other = (uint32_t)s->plan->commands.count;
        vec_push(s->pass->keep, &s->plan->commands, wait);
    }
    for (size_t i = 0; i < s->flying.count; i++) finish(s, &s->units.items[s->flying.items[i]]);
    s->flying.count = 0;
}

static bool exchanges(const struct ir_func *f)
{
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *n = ir_get(f, v);
        if (ir_ops[n->op].emit == EMIT_comm || (n->op == OP_loop && exchanges(f->module->funcs.items[n->func])))
            return true;
    }
    return false;
}

/* Whether all that is exchanged for a unit could be so by now: the norm of all gradients has to wait anyway. */
static bool may_come(const struct schedule *s, const struct unit *u)
{
    if (u->done || (u->collective && u->waits)) return true;
    bool may = !u->collective && !u->computed;
    for (size_t i = 0; i < u->demanded.count && may; i++) may = may_come(s, &s->units.items[u->demanded.items[i]]);
    return may;
}

/* Whether a unit may run while something is under way: nothing that comes before it waits for that alone. */
static bool flies_on(const struct schedule *s, const struct unit *u)
{
    uint32_t needed = UINT32_MAX;
    for (size_t i = 0; i < s->flying.count; i++) {
        const struct unit *f = &s->units.items[s->flying.items[i]];
        for (size_t k = 0; k < f->hard_users.count; k++) {
            const struct unit *reader = &s->units.items[f->hard_users.items[k]];
            if (reader->key < needed && (!reader->on_demand || reader->wanted) && may_come(s, reader))
                needed = reader->key;
        }
    }
    if (u->collective || u->soft || !(u->early || u->key < needed)) return false;
    const struct ir_node *n = u->group == UINT32_MAX ? ir_get(s->f, u->node) : NULL;
    return !n || n->op != OP_loop || !exchanges(s->f->module->funcs.items[n->func]);
}

static void schedule_function(struct pass *p, struct plan *plan, const struct ir_func *f)
{
    struct schedule s = {.pass = p, .plan = plan, .f = f};
    s.producer = arena_new_array(&p->scratch, uint32_t, f->count);
    collect_units(&s);
    for (uint32_t u = 0; u < s.units.count; u++) for_inputs(&s, u, needs);
    batch(&s);
    connect(&s);
    wait_for_readers(&s);
    hurry(&s);
    for (uint32_t u = 0; u < s.units.count; u++) {
        s.units.items[u].wanted |= !s.units.items[u].hard_users.count; /* a result of the function alone */
        update(&s, u);
    }
    for (uint32_t u = 0; u < s.units.count; u++)
        if (!s.units.items[u].done) want(&s, u);
    for (struct unit *u; (u = next_unit(&s)) || s.flying.count;) {
        if (s.flying.count && (!u || !flies_on(&s, u))) {
            land(&s);
            continue; /* what waited for it may come first now */
        }
        u->done = true;
        emit(&s, u);
        if (u->collective) emit_joined(&s, (uint32_t)(u - s.units.items));
        else finish(&s, u);
    }
    for (uint32_t u = 0; u < s.units.count; u++)
        if (!s.units.items[u].done) BUG("the groups of %s depend on each other in a cycle", f->name);
}

struct ir_module *pass_schedule(struct pass *p, struct ir_module *m)
{
    for (size_t i = 0; i < m->plans->plans.count; i++) {
        struct plan *plan = m->plans->plans.items[i];
        schedule_function(p, plan, plan->func);
    }
    m->plans->stage = PLAN_COMMANDS;
    return m;
}
