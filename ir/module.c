/* Modules, functions, slots and places: what lives in a module's arena, and how to find it by name. */
#include "ir/ir.h"

#include <string.h>

struct ir_module *ir_module_new(const char *name)
{
    /* The module lies in its own arena. */
    struct arena arena = {0};
    struct ir_module *m = arena_new(&arena, struct ir_module);
    m->name = arena_string(&arena, name);
    m->stage = IR_AT_TENSOR;
    m->arena = arena;
    vec_push(&m->arena, &m->places, (struct ir_place){0});
    return m;
}

void ir_module_free(struct ir_module *m)
{
    if (!m) return;
    struct arena arena = m->arena;
    arena_free(&arena);
}

struct ir_func *ir_func_new(struct ir_module *m, const char *name, bool entry)
{
    struct ir_func *f = arena_new(&m->arena, struct ir_func);
    f->name = arena_string(&m->arena, name);
    f->entry = entry;
    f->module = m;
    f->shared = MAP(&m->arena);
    f->count = 1; /* value 0 is none */
    f->capacity = 16;
    f->nodes = arena_new_array(&m->arena, struct ir_node, f->capacity);
    vec_push(&m->arena, &m->funcs, f);
    return f;
}

struct ir_func *ir_func_find(const struct ir_module *m, const char *name)
{
    for (size_t i = 0; i < m->funcs.count; i++)
        if (strcmp(m->funcs.items[i]->name, name) == 0) return m->funcs.items[i];
    return NULL;
}

uint32_t ir_func_index(const struct ir_func *f)
{
    for (size_t i = 0; i < f->module->funcs.count; i++)
        if (f->module->funcs.items[i] == f) return (uint32_t)i;
    BUG("function %s is not one of its module", f->name);
}

uint32_t ir_slot_new(struct ir_module *m, struct ir_slot slot)
{
    slot.name = arena_string(&m->arena, slot.name);
    vec_push(&m->arena, &m->slots, slot);
    return (uint32_t)(m->slots.count - 1);
}

int32_t ir_slot_find(const struct ir_module *m, const char *name)
{
    for (size_t i = 0; i < m->slots.count; i++)
        if (strcmp(m->slots.items[i].name, name) == 0) return (int32_t)i;
    return -1;
}

uint32_t ir_axes_of_mask(uint32_t mask)
{
    uint32_t axes = 0, at = 0;
    for (uint32_t a = 0; a < IR_MAX_AXES; a++)
        if (mask >> a & 1) axes |= (a + 1) << (4 * at++);
    return axes;
}

int64_t ir_axes_size(const struct ir_mesh *mesh, uint32_t axes)
{
    int64_t size = 1;
    for (; axes; axes >>= 4) size *= mesh->size[(axes & 15) - 1];
    return size;
}

int64_t ir_part_extent(const struct ir_mesh *mesh, int64_t extent, uint32_t axes)
{
    int64_t parts = ir_axes_size(mesh, axes);
    return extent / parts + (extent % parts != 0);
}

int64_t ir_leaf(int64_t extent, int64_t rest)
{
    int64_t leaf = extent;
    while (leaf && leaf % 2 == 0) leaf /= 2;
    while (leaf && leaf * rest < IR_LEAF && leaf < extent) leaf *= 2;
    return leaf;
}

uint32_t ir_place_new(struct ir_module *m, struct diag_span span, const char *pointer)
{
    const char *copy = pointer ? arena_string(&m->arena, pointer) : NULL;
    vec_push(&m->arena, &m->places, ((struct ir_place){.span = span, .pointer = copy}));
    return (uint32_t)(m->places.count - 1);
}

const struct ir_node *ir_get(const struct ir_func *f, ir_value value)
{
    if (value >= f->count) BUG("value %u is not one of function %s", value, f->name);
    return &f->nodes[value];
}

const struct ir_type *ir_type(const struct ir_func *f, ir_value value) { return &ir_get(f, value)->type; }
