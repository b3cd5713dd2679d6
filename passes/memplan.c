/* The memory plan. Slots have their place in the state or result block, temporaries one arena per entry. */
#include "passes/memplan.h"
#include <string.h>

/* Types of all slots on one device: parameters and results of entries carry its extents. */
static struct ir_type *local_types(const struct ir_module *m, struct arena *scratch)
{
    struct ir_type *type = arena_new_array(scratch, struct ir_type, m->slots.count + 1);
    bool *known = arena_new_array(scratch, bool, m->slots.count + 1);
    for (size_t i = 0; i < m->slots.count; i++) type[i] = m->slots.items[i].type;
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[i];
        for (size_t j = 0; j < f->params.count && f->entry; j++) {
            int32_t slot = f->params.items[j].slot;
            if (slot >= 0 && !known[slot]) type[slot] = f->params.items[j].type, known[slot] = true;
        }
        for (size_t j = 0; j < f->results.count && f->entry; j++) {
            int32_t slot = f->results.items[j].slot;
            if (slot >= 0 && !known[slot]) type[slot] = *ir_type(f, f->results.items[j].value), known[slot] = true;
        }
    }
    return type;
}

/* ---------------------------------------------------------------- the order of slots */

/* `close`: by slot: lies directly behind the one before it. By value of the function looked at: its slot, -1: none; its
 * place among those that lie end to end, 0: none yet. */
struct order {
    uint32_t *slots, count;
    bool *listed, *close;
    int32_t *slot_of;
    uint32_t *place, places;
};

/* Returns whether the slot was not listed yet. */
static bool list_slot(struct order *o, int32_t slot, bool close)
{
    if (slot < 0 || o->listed[slot]) return false;
    o->listed[slot] = true;
    o->close[slot] = close;
    o->slots[o->count++] = (uint32_t)slot;
    return true;
}

static bool list_value(struct order *o, ir_value v, bool close)
{
    if (!o->place[v]) o->place[v] = ++o->places;
    return list_slot(o, o->slot_of[v], close);
}

/* Tensors that are read end to end. */
static void list_join(struct order *o, const struct ir_func *f, const struct ir_node *join)
{
    bool close = false;
    for (uint32_t i = 0; i < join->arg_count; i++) close = list_value(o, memplan_base(f, join->args[i]), close);
}

struct calls {
    const struct plan *plan;
    const struct plan_command *k;
};

static ir_value operand(struct calls c, uint32_t member, size_t argument)
{
    const struct plan_group *g = &c.plan->groups.items[plan_member(c.k, member)];
    const struct ir_node *call = ir_get(c.k->func, c.k->calls.items[member]);
    const struct ir_node *parameter = ir_get(g->func, g->inputs.items[argument]);
    return memplan_base(c.k->func, call->args[parameter->attr[0].v[0]]);
}

/* The slots that a command of many calls reads, argument by argument: all in the order in which one of them lies
 * already. */
static void list_calls(struct order *o, struct calls c, struct arena *scratch)
{
    uint32_t members = plan_members(c.k), known = 0;
    size_t arguments = c.plan->groups.items[c.k->group].inputs.count, telling = 0;
    uint64_t *place = arena_new_array(scratch, uint64_t, members);
    for (size_t a = 0; a < arguments && !known; a++)
        for (uint32_t m = 0; m < members && operand(c, 0, a) != operand(c, 1, a) && !known; m++)
            if ((known = o->place[operand(c, m, a)])) telling = a;
    for (uint32_t m = 0; m < members; m++) {
        uint32_t at = known ? o->place[operand(c, m, telling)] : 0;
        place[m] = at ? at : UINT64_MAX;
    }
    const uint32_t *order = memplan_by_place(c.plan, c.k, place, scratch);
    for (size_t a = 0; a < arguments; a++) {
        bool close = false;
        for (uint32_t m = 0; m < members && operand(c, 0, a) != operand(c, 1, a); m++)
            close = list_value(o, operand(c, order[m], a), close);
    }
}

static void list_plan(struct order *o, const struct plan *plan, struct arena *scratch)
{
    const struct ir_func *f = plan->func;
    o->slot_of = arena_new_array(scratch, int32_t, f->count);
    o->place = arena_new_array(scratch, uint32_t, f->count);
    for (ir_value v = 0; v < f->count; v++) o->slot_of[v] = -1;
    for (size_t i = 0; i < f->params.count; i++) o->slot_of[f->params.items[i].value] = f->params.items[i].slot;
    for (size_t c = 0; c < plan->commands.count; c++)
        if (plan->commands.items[c].kind == PLAN_JOIN && plan->commands.items[c].func == f)
            list_join(o, f, ir_get(f, plan->commands.items[c].node));
    for (size_t c = 0; c < plan->commands.count; c++)
        if (plan->commands.items[c].func == f && plan->commands.items[c].calls.count > 1)
            list_calls(o, (struct calls){plan, &plan->commands.items[c]}, scratch);
}

/* All slots, those first that a step's commands for many tensors go through: one behind the other, so that one loop
 * does. */
static struct order order_slots(struct memplan *mp)
{
    const struct ir_module *m = mp->plans->module;
    size_t room = m->slots.count + 1;
    struct order o = {.slots = arena_new_array(mp->arena, uint32_t, room),
                      .listed = arena_new_array(mp->arena, bool, room),
                      .close = arena_new_array(mp->arena, bool, room)};
    for (size_t i = 0; i < mp->plans->plans.count; i++)
        if (strcmp(mp->plans->plans.items[i]->func->name, "step") == 0)
            list_plan(&o, mp->plans->plans.items[i], mp->arena);
    for (uint32_t i = 0; i < m->slots.count; i++) list_slot(&o, (int32_t)i, false);
    return o;
}

static void place_slots(struct memplan *mp)
{
    struct plan_module *pm = mp->plans;
    const struct ir_module *m = pm->module;
    pm->slot_offset = arena_new_array(mp->keep, uint64_t, m->slots.count + 1);
    pm->state_bytes = pm->result_bytes = pm->constant_bytes = 0;
    struct ir_type *types = local_types(m, mp->arena);
    struct order order = order_slots(mp);
    for (uint32_t k = 0; k < order.count; k++) {
        uint32_t i = order.slots[k];
        enum ir_role role = m->slots.items[i].role;
        uint64_t bytes = memplan_bytes(&types[i]);
        bool result = ir_role_is_result(role);
        if (role == IR_ROLE_INPUT) continue;
        uint64_t *total = result ? &pm->result_bytes : &pm->state_bytes;
        pm->slot_offset[i] = memplan_begin(*total, bytes, order.close[i]);
        *total = pm->slot_offset[i] + bytes;
    }
    pm->state_bytes = memplan_begin(pm->state_bytes, 0, false);
    pm->result_bytes = memplan_begin(pm->result_bytes, 0, false);
}

/* What the host gives and gets has a name. Only a text can lack it: every entry of the frontend is bound. */
static bool is_bound(struct pass *p, const struct ir_func *f)
{
    for (size_t i = 0; i < f->params.count; i++)
        if (f->params.items[i].slot < 0)
            return diag_error(p->diags, (struct diag_span){0}, "E0050",
                              "parameter \"%s\" of entry \"%s\" has no slot, so nothing can be given for it",
                              f->params.items[i].name, f->name),
                   false;
    for (size_t i = 0; i < f->results.count; i++)
        if (f->results.items[i].slot < 0)
            return diag_error(p->diags, (struct diag_span){0}, "E0050",
                              "result \"%s\" of entry \"%s\" has no slot, so nobody could get it",
                              f->results.items[i].name, f->name),
                   false;
    return true;
}

struct ir_module *pass_memplan(struct pass *p, struct ir_module *m)
{
    for (size_t i = 0; i < m->plans->plans.count; i++)
        if (!is_bound(p, m->plans->plans.items[i]->func)) return NULL;
    struct memplan mp = {
        .pass = p, .plans = m->plans, .arena = &p->scratch, .keep = p->keep, .placed = MAP(&p->scratch)};
    place_slots(&mp);
    for (size_t i = 0; i < m->plans->plans.count; i++) {
        mp.plan = m->plans->plans.items[i];
        mp.constants = MAP(&p->scratch);
        mp.along = MAP(&p->scratch);
        mp.laid = MAP(&p->scratch);
        mp.out.items = NULL;
        mp.out.count = mp.out.capacity = 0;
        mp.buffer_of = arena_new_array(mp.arena, uint32_t *, m->funcs.count);
        for (size_t f = 0; f < m->funcs.count; f++) {
            mp.buffer_of[f] = arena_new_array(mp.arena, uint32_t, m->funcs.items[f]->count);
            for (uint32_t v = 0; v < m->funcs.items[f]->count; v++) mp.buffer_of[f][v] = NO_BUFFER;
        }
        memplan_assign(&mp);
        memplan_place(&mp);
        memplan_barriers(mp.plan, &p->scratch);
    }
    m->plans->stage = PLAN_MEMORY;
    return m;
}
