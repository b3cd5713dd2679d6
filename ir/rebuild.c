/* Rebuilding: how a pass makes a new module from an old one. Folding and sharing happen again on the way, and what is
 * not live is left behind. */
#include "ir/ir.h"

struct ir_module *ir_module_like(const struct ir_module *from)
{
    struct ir_module *to = ir_module_new(from->name);
    struct arena *arena = &to->arena;
    to->stage = from->stage;
    to->document = from->document ? arena_string(arena, from->document) : NULL;
    to->copies = from->copies;
    to->numerics = from->numerics ? arena_string(arena, from->numerics) : NULL;
    to->memory = from->memory;
    to->mesh = from->mesh;
    for (uint32_t i = 0; i < from->mesh.axis_count; i++) to->mesh.name[i] = arena_string(arena, from->mesh.name[i]);
    for (size_t i = 0; i < from->slots.count; i++) ir_slot_new(to, from->slots.items[i]);
    for (size_t i = 1; i < from->places.count; i++) {
        ir_place_new(to, from->places.items[i].span, from->places.items[i].pointer);
        to->places.items[i].again = from->places.items[i].again;
    }
    to->again = from->again;
    to->together = from->together;
    for (size_t i = 0; i < from->layouts.count; i++) vec_push(arena, &to->layouts, from->layouts.items[i]);
    for (size_t i = 0; i < from->chunks.count; i++) vec_push(arena, &to->chunks, from->chunks.items[i]);
    for (size_t i = 0; i < from->counted.count; i++)
        vec_push(arena, &to->counted,
                 ((struct ir_counted){from->counted.items[i].place, arena_string(arena, from->counted.items[i].what)}));
    for (size_t i = 0; i < from->layers.count; i++) {
        struct ir_layer l = from->layers.items[i];
        l.path = arena_string(arena, l.path);
        l.type = arena_string(arena, l.type);
        if (l.from.count) l.from.items = arena_copy(arena, l.from.items, l.from.count * sizeof *l.from.items);
        vec_push(arena, &to->layers, l);
    }
    for (size_t i = 0; i < from->funcs.count; i++)
        ir_func_new(to, from->funcs.items[i]->name, from->funcs.items[i]->entry);
    return to;
}

ir_value *ir_rebuild(const struct ir_func *from, struct ir_func *to, ir_rewrite *rewrite, void *user,
                     struct arena *scratch)
{
    struct ir_builder b = {.f = to};
    if (to->count == 1 &&
        to->capacity < from->count) { /* or some more: growing by copies would cost more than the rest */
        to->capacity = from->count + from->count / 16 + 16;
        to->nodes = arena_new_array(&to->module->arena, struct ir_node, to->capacity);
    }
    ir_value *map = arena_new_array(scratch, ir_value, from->count);
    bool *live = ir_live(from, scratch);
    uint32_t most = 1;
    for (ir_value v = 1; v < from->count; v++)
        if (from->nodes[v].arg_count > most) most = from->nodes[v].arg_count;
    ir_value *args = arena_new_array(scratch, ir_value, most);

    /* A signature stays, used or not; a pass that changes types has made the parameters before. */
    bool given = to->params.count > 0;
    if (given) ASSERT(to->params.count == from->params.count);
    for (size_t i = 0; i < from->params.count; i++) {
        const struct ir_param *p = &from->params.items[i];
        b.place = from->nodes[p->value].place;
        map[p->value] = given ? to->params.items[i].value : ir_param_new(&b, p->name, p->type, p->slot);
    }
    for (ir_value v = 1; v < from->count; v++) {
        const struct ir_node *node = &from->nodes[v];
        if (v == from->turn) to->turn = to->count;
        if (!live[v] || node->op == OP_param) continue;
        b.place = node->place;
        if (rewrite) {
            map[v] = rewrite(user, &b, from, v, map);
            continue;
        }
        for (uint32_t i = 0; i < node->arg_count; i++) args[i] = map[node->args[i]];
        map[v] = ir_remake(&b, node, args);
    }
    for (size_t i = 0; i < from->results.count; i++) {
        const struct ir_result *r = &from->results.items[i];
        ir_result_add(&b, r->name, map[r->value], r->slot);
    }
    return map;
}
