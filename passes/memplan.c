/* The memory plan. Slots have their place in the state or result block, temporaries one arena per entry. */
#include "passes/memplan.h"

ir_value memplan_base(const struct ir_func *f, ir_value v) {
    while (ir_get(f, v)->op == OP_reshape)
        v = ir_get(f, v)->args[0];
    return v;
}

static uint64_t align64(uint64_t n) { return (n + 63) & ~(uint64_t)63; }

/* Types of all slots on one device: parameters and results of entries carry its extents. */
static struct ir_type *local_types(const struct ir_module *m, struct arena *scratch) {
    struct ir_type *type = arena_new_array(scratch, struct ir_type, m->slots.count + 1);
    bool *known = arena_new_array(scratch, bool, m->slots.count + 1);
    for (size_t i = 0; i < m->slots.count; i++)
        type[i] = m->slots.items[i].type;
    for (size_t i = 0; i < m->funcs.count; i++) {
        const struct ir_func *f = m->funcs.items[i];
        for (size_t j = 0; j < f->params.count && f->entry; j++) {
            int32_t slot = f->params.items[j].slot;
            if (slot >= 0 && !known[slot])
                type[slot] = f->params.items[j].type, known[slot] = true;
        }
        for (size_t j = 0; j < f->results.count && f->entry; j++) {
            int32_t slot = f->results.items[j].slot;
            if (slot >= 0 && !known[slot])
                type[slot] = *ir_type(f, f->results.items[j].value), known[slot] = true;
        }
    }
    return type;
}

static void place_slots(struct memplan *mp) {
    struct plan_module *pm = mp->plans;
    const struct ir_module *m = pm->module;
    pm->slot_offset = arena_new_array(mp->keep, uint64_t, m->slots.count + 1);
    pm->state_bytes = pm->result_bytes = pm->constant_bytes = 0;
    struct ir_type *types = local_types(m, mp->arena);
    for (uint32_t i = 0; i < m->slots.count; i++) {
        enum ir_role role = m->slots.items[i].role;
        struct ir_type type = types[i];
        uint64_t bytes = align64((uint64_t)ir_type_elements(&type) * ir_dtype_bytes((enum ir_dtype)type.dtype));
        bool result = role == IR_ROLE_METRIC || role == IR_ROLE_OUTPUT;
        if (role == IR_ROLE_INPUT)
            continue;
        uint64_t *total = result ? &pm->result_bytes : &pm->state_bytes;
        pm->slot_offset[i] = *total;
        *total += bytes;
    }
}

uint32_t memplan_new_buffer(struct memplan *mp, enum plan_space space, const struct ir_func *f, ir_value v) {
    const struct ir_type *type = ir_type(f, v);
    struct plan_buffer b = {.space = space, .func = f, .value = v, .slot = UINT32_MAX, .first = UINT32_MAX};
    b.bytes = (uint64_t)ir_type_elements(type) * ir_dtype_bytes((enum ir_dtype)type->dtype);
    vec_push(mp->keep, &mp->plan->buffers, b);
    return (uint32_t)mp->plan->buffers.count - 1;
}

struct ir_module *pass_memplan(struct pass *p, struct ir_module *m) {
    struct memplan mp = {.pass = p, .plans = p->plans, .arena = &p->scratch, .keep = p->keep, .placed = MAP(&p->scratch)};
    place_slots(&mp);
    for (size_t i = 0; i < p->plans->plans.count; i++) {
        mp.plan = p->plans->plans.items[i];
        mp.constants = MAP(&p->scratch);
        mp.out.items = NULL;
        mp.out.count = mp.out.capacity = 0;
        mp.plan->buffer_of = arena_new_array(p->keep, uint32_t *, m->funcs.count);
        for (size_t f = 0; f < m->funcs.count; f++) {
            mp.plan->buffer_of[f] = arena_new_array(p->keep, uint32_t, m->funcs.items[f]->count);
            for (uint32_t v = 0; v < m->funcs.items[f]->count; v++)
                mp.plan->buffer_of[f][v] = NO_BUFFER;
        }
        memplan_assign(&mp);
        memplan_place(&mp);
        memplan_barriers(mp.plan, &p->scratch);
    }
    return m;
}
