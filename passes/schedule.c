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
    for (size_t i = 0; i < f->results.count; i++) {
        uint32_t u = s->producer[base_of(f, f->results.items[i].value)];
        if (!u)
            continue;
        for (size_t j = 0; j < f->params.count && f->results.items[i].slot >= 0; j++)
            if (f->params.items[j].slot == f->results.items[i].slot) {
                writer[f->params.items[j].value] = u;
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

static struct unit *next_unit(struct schedule *s) {
    struct unit *best = NULL;
    for (uint32_t pass = 0; pass < 2 && !best; pass++)
        for (size_t i = 0; i < s->units.count; i++) {
            struct unit *u = &s->units.items[i];
            if (u->done || u->hard || (pass == 0 && u->soft))
                continue;
            if (!best || u->writes_state > best->writes_state
                || (u->writes_state == best->writes_state && u->key < best->key))
                best = u;
        }
    return best;
}

static void schedule_function(struct pass *p, struct plan *plan, const struct ir_func *f) {
    struct schedule s = {.pass = p, .plan = plan, .f = f};
    s.producer = arena_new_array(&p->scratch, uint32_t, f->count);
    collect_units(&s);
    connect(&s);
    for (size_t n = 0; n < s.units.count; n++) {
        struct unit *u = next_unit(&s);
        if (!u)
            BUG("the groups of %s depend on each other in a cycle", f->name);
        u->done = true;
        emit(&s, u);
        for (size_t i = 0; i < u->hard_users.count; i++)
            s.units.items[u->hard_users.items[i]].hard--;
        for (size_t i = 0; i < u->soft_users.count; i++)
            s.units.items[u->soft_users.items[i]].soft--;
    }
}

struct ir_module *pass_schedule(struct pass *p, struct ir_module *m) {
    for (size_t i = 0; i < p->plans->plans.count; i++) {
        struct plan *plan = p->plans->plans.items[i];
        schedule_function(p, plan, plan->func);
    }
    return m;
}
