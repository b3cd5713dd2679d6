/* Order: groups, loops and collectives of a function become commands. A unit may run once what it reads is there;
 * among those that may, an update of state goes first (it ends the life of a gradient), then the earliest in the
 * program. Readers of a slot come before its writer where they can, so that the update can be made in place. */
#include "passes/common.h"
#include <string.h>

struct unit {
    uint32_t group; /* or UINT32_MAX: the node */
    ir_value node;  /* loop or collective */
    uint32_t key, hard, soft; /* order in the program; waiting for so many */
    bool done, writes_state;
    VEC(uint32_t) hard_users, soft_users;
};

struct schedule {
    struct pass *pass;
    struct plan *plan;
    const struct ir_func *f;
    VEC(struct unit) units;
    uint32_t *producer; /* by value: unit + 1 */
    VEC(uint32_t) ready[2]; /* heaps of units that may run: whose wishes are met, and all */
};

static ir_value base_of(const struct ir_func *f, ir_value v) {
    while (ir_get(f, v)->op == OP_reshape || ir_get(f, v)->op == OP_proj)
        v = ir_get(f, v)->args[0];
    return v;
}

static void collect_units(struct schedule *s) {
    const struct ir_func *f = s->f;
    for (size_t i = 0; i < s->plan->groups.count; i++) {
        const struct plan_group *g = &s->plan->groups.items[i];
        if (g->func != f)
            continue;
        struct unit u = {.group = (uint32_t)i, .key = g->nodes.items[g->nodes.count - 1]};
        vec_push(&s->pass->scratch, &s->units, u);
        for (size_t j = 0; j < g->outputs.count; j++)
            s->producer[g->outputs.items[j]] = (uint32_t)s->units.count;
    }
    bool *live = ir_live(f, &s->pass->scratch);
    for (ir_value v = 1; v < f->count; v++) {
        const struct ir_node *node = ir_get(f, v);
        if (!live[v] || (node->op != OP_loop && ir_ops[node->op].emit != EMIT_comm))
            continue;
        struct unit u = {.group = UINT32_MAX, .node = v, .key = v};
        vec_push(&s->pass->scratch, &s->units, u);
        s->producer[v] = (uint32_t)s->units.count;
    }
}

static uint32_t input_count(const struct schedule *s, const struct unit *u) {
    return u->group == UINT32_MAX ? ir_get(s->f, u->node)->arg_count
                                  : (uint32_t)s->plan->groups.items[u->group].inputs.count;
}

static ir_value input_of(const struct schedule *s, const struct unit *u, uint32_t i) {
    ir_value v = u->group == UINT32_MAX ? ir_get(s->f, u->node)->args[i] : s->plan->groups.items[u->group].inputs.items[i];
    return base_of(s->f, v);
}

static void connect(struct schedule *s) {
    const struct ir_func *f = s->f;
    uint32_t *writer = arena_new_array(&s->pass->scratch, uint32_t, f->count); /* of a parameter's slot: unit + 1 */
    ir_value *reader = arena_new_array(&s->pass->scratch, ir_value, f->module->slots.count + 1); /* by slot: its parameter */
    for (size_t j = 0; j < f->params.count; j++)
        if (f->params.items[j].slot >= 0)
            reader[f->params.items[j].slot] = f->params.items[j].value;
    for (size_t i = 0; i < f->results.count; i++) {
        uint32_t u = s->producer[base_of(f, f->results.items[i].value)];
        if (!u)
            continue;
        int32_t slot = f->results.items[i].slot;
        if (slot >= 0 && reader[slot]) {
            writer[reader[slot]] = u;
            s->units.items[u - 1].writes_state = true;
        }
        if (!f->entry && i + 1 < f->params.count)
            writer[f->params.items[i + 1].value] = u; /* carried value i is parameter 1 + i */
    }
    for (uint32_t u = 0; u < s->units.count; u++)
        for (uint32_t i = 0; i < input_count(s, &s->units.items[u]); i++) {
            ir_value v = input_of(s, &s->units.items[u], i);
            if (s->producer[v] && s->producer[v] != u + 1) {
                vec_push(&s->pass->scratch, &s->units.items[s->producer[v] - 1].hard_users, u);
                s->units.items[u].hard++;
            }
            if (writer[v] && writer[v] != u + 1) {
                vec_push(&s->pass->scratch, &s->units.items[u].soft_users, writer[v] - 1);
                s->units.items[writer[v] - 1].soft++;
            }
        }
}

static void command(struct schedule *s, struct plan_command c) {
    c.counter = c.limit = c.flag = UINT32_MAX;
    vec_push(s->plan->arena, &s->plan->commands, c);
}

static void schedule_function(struct pass *, struct plan *, const struct ir_func *);

static void emit(struct schedule *s, const struct unit *u) {
    if (u->group != UINT32_MAX) {
        command(s, (struct plan_command){.kind = PLAN_KERNEL, .group = u->group, .func = s->f});
        return;
    }
    const struct ir_node *node = ir_get(s->f, u->node);
    struct plan_command c = {.func = s->f, .node = u->node, .group = UINT32_MAX};
    if (node->op != OP_loop) {
        c.kind = PLAN_COLLECTIVE;
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
static bool before(const struct schedule *s, uint32_t x, uint32_t y) {
    const struct unit *a = &s->units.items[x], *b = &s->units.items[y];
    return a->writes_state != b->writes_state ? a->writes_state : a->key != b->key ? a->key < b->key : x < y;
}

static void heap_push(struct schedule *s, uint32_t heap, uint32_t unit) {
    vec_push(&s->pass->scratch, &s->ready[heap], unit);
    uint32_t *items = s->ready[heap].items;
    size_t at = s->ready[heap].count - 1;
    for (; at > 0 && before(s, unit, items[(at - 1) / 2]); at = (at - 1) / 2)
        items[at] = items[(at - 1) / 2];
    items[at] = unit;
}

static uint32_t heap_pop(struct schedule *s, uint32_t heap) {
    uint32_t *items = s->ready[heap].items, top = items[0];
    size_t count = --s->ready[heap].count, at = 0;
    uint32_t last = items[count];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && before(s, items[child + 1], items[child]))
            child++;
        if (!before(s, items[child], last))
            break;
        items[at] = items[child];
    }
    items[at] = last;
    return top;
}

/* Notes that a unit waits for less than before. */
static void update(struct schedule *s, uint32_t unit) {
    const struct unit *u = &s->units.items[unit];
    if (u->done || u->hard)
        return;
    if (!u->soft)
        heap_push(s, 0, unit);
    heap_push(s, 1, unit);
}

/* The best one whose wishes are met, else the best one that may run at all. */
static struct unit *next_unit(struct schedule *s) {
    for (uint32_t heap = 0; heap < 2; heap++)
        while (s->ready[heap].count) {
            struct unit *u = &s->units.items[heap_pop(s, heap)];
            if (!u->done)
                return u;
        }
    return NULL;
}

static void schedule_function(struct pass *p, struct plan *plan, const struct ir_func *f) {
    struct schedule s = {.pass = p, .plan = plan, .f = f};
    s.producer = arena_new_array(&p->scratch, uint32_t, f->count);
    collect_units(&s);
    connect(&s);
    for (uint32_t u = 0; u < s.units.count; u++)
        update(&s, u);
    for (size_t n = 0; n < s.units.count; n++) {
        struct unit *u = next_unit(&s);
        if (!u)
            BUG("the groups of %s depend on each other in a cycle", f->name);
        u->done = true;
        emit(&s, u);
        for (size_t i = 0; i < u->hard_users.count; i++)
            if (--s.units.items[u->hard_users.items[i]].hard == 0)
                update(&s, u->hard_users.items[i]);
        for (size_t i = 0; i < u->soft_users.count; i++)
            if (--s.units.items[u->soft_users.items[i]].soft == 0)
                update(&s, u->soft_users.items[i]);
    }
}

struct ir_module *pass_schedule(struct pass *p, struct ir_module *m) {
    for (size_t i = 0; i < p->plans->plans.count; i++) {
        struct plan *plan = p->plans->plans.items[i];
        schedule_function(p, plan, plan->func);
    }
    return m;
}
