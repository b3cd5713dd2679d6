/* From the tables of the object to what a call needs: which entry is which, and the address of every argument on every
 * device. */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

static const char entry_names[RT_ENTRIES][8] = {"init",   "restart", "step", "eval",   "infer",
                                                "derive", "indices", "step", "lookup", "step"};

static void *buffer_address(const struct rt_device *d, const struct stepc_buffer *b, bool late)
{
    switch (b->space) {
    case STEPC_AT_ARENA: return d->arena + b->offset;
    case STEPC_AT_STATE: return d->state + b->offset;
    case STEPC_AT_NEXT: return d->ahead + b->offset;
    case STEPC_AT_EARLY:
        if (!late) return d->ahead + b->offset;
        return d->other ? d->other + b->offset : NULL;
    case STEPC_AT_HELD:
        if (!late) return d->arena + b->offset;
        return d->held ? d->held + b->slot : NULL; /* made when they are needed */
    case STEPC_AT_RESULT: return d->result + b->offset;
    case STEPC_AT_DEVICE: return d->positions + b->offset;
    case STEPC_AT_CONSTANT: return d->constants + b->offset;
    default: return NULL;
    }
}

/* Parameters by their place in the state block; there may be thousands. */
static int by_offset(const void *a, const void *b)
{
    uint64_t x = (*(const struct stepc_slot *const *)a)->offset, y = (*(const struct stepc_slot *const *)b)->offset;
    return x < y ? -1 : x > y;
}

static const struct stepc_slot **parameters_sorted(struct step_instance *t, uint32_t *count)
{
    const struct stepc_program *p = t->program;
    const struct stepc_slot **list = rt_alloc(t, (p->slot_count + 1) * sizeof *list);
    *count = 0;
    for (uint32_t i = 0; list && i < p->slot_count; i++)
        if (p->slots[i].role == STEP_PARAM) list[(*count)++] = &p->slots[i];
    if (list) qsort(list, *count, sizeof *list, by_offset);
    return list;
}

/* The parameter that a buffer of the state block lies in, NULL: none. */
static const struct stepc_slot *parameter_of(const struct stepc_slot **list, uint32_t count,
                                             const struct stepc_buffer *b)
{
    uint32_t low = 0, high = count;
    while (low < high) { /* the first that begins behind it */
        uint32_t middle = (low + high) / 2;
        if (list[middle]->offset <= b->offset) low = middle + 1;
        else high = middle;
    }
    if (b->space != STEPC_AT_STATE || !low) return NULL;
    const struct stepc_slot *s = list[low - 1];
    return b->offset - s->offset < rt_slot_bytes(s, true) ? s : NULL;
}

/* Buffer of each pointer: the entry's buffers, then the arguments of the commands. */
static uint32_t pointer_buffer(const struct rt_entry *e, uint32_t command, uint32_t argument)
{
    return e->table->commands[command].buffers[argument];
}

static void patch_add(struct rt_patch *list, uint32_t *count, uint32_t at, uint32_t slot, uint64_t offset)
{
    if (list) list[*count] = (struct rt_patch){at, slot, offset};
    ++*count;
}

/* Without parameters the pointers; else patches, which without arrays are only counted. */
static void map_fill(const struct step_instance *t, const struct rt_device *d, const struct rt_entry *e,
                     struct rt_map *m, const struct stepc_slot **parameters, uint32_t parameter_count)
{
    const struct stepc_entry *table = e->table;
    bool late = e == &t->entries[RT_STEP_LATE];
    if (parameters) m->input_count = m->weight_count = 0;
    for (uint32_t c = 0; c <= (e->commands ? table->command_count : 0); c++) {
        uint32_t n = c == 0 ? table->buffer_count : table->commands[c - 1].buffer_count;
        uint32_t first = c == 0 ? 0 : e->commands[c - 1].arguments;
        for (uint32_t k = 0; k < n; k++) {
            const struct stepc_buffer *b = &table->buffers[c == 0 ? k : pointer_buffer(e, c - 1, k)];
            if (!parameters) {
                m->pointers[first + k] = buffer_address(d, b, late);
                continue;
            }
            if (b->space == STEPC_AT_INPUT) patch_add(m->inputs, &m->input_count, first + k, b->slot, b->offset);
            const struct stepc_slot *s = parameter_of(parameters, parameter_count, b);
            if (s)
                patch_add(m->weights, &m->weight_count, first + k, (uint32_t)(s - t->program->slots),
                          b->offset - s->offset);
        }
        if (c == 0 && parameters) m->whole_input_count = m->input_count;
    }
}

static bool plan_map(struct step_instance *t, struct rt_device *d, const struct rt_entry *e, struct rt_map *m,
                     const struct stepc_slot **parameters, uint32_t parameter_count)
{
    map_fill(t, d, e, m, parameters, parameter_count);
    m->pointers = rt_alloc(t, e->pointer_count * sizeof *m->pointers);
    m->inputs = rt_alloc(t, m->input_count * sizeof *m->inputs);
    m->weights = rt_alloc(t, m->weight_count * sizeof *m->weights);
    if (!m->pointers || !m->inputs || !m->weights) return false;
    map_fill(t, d, e, m, parameters, parameter_count);
    return true;
}

bool rt_plan(struct step_instance *t)
{
    uint32_t count;
    const struct stepc_slot **parameters = parameters_sorted(t, &count);
    if (!parameters) return false;
    for (uint32_t k = 0; k < RT_ENTRIES; k++) {
        struct rt_entry *e = &t->entries[k];
        for (uint32_t i = 0; i < t->program->entry_count; i++)
            if (strcmp(t->program->entries[i].name, entry_names[k]) == 0 && (k != RT_STEP_LATE || t->late))
                e->table = &t->program->entries[i];
        if (!e->table) continue;
        e->pointer_count = e->table->buffer_count;
        if (!e->table->whole && !t->program->team->plan(t, e)) return false;
        for (RT_MINE(t, d))
            if (!plan_map(t, d, e, &d->maps[k], parameters, k == RT_EVALUATE || k == RT_INFER ? count : 0))
                return false;
    }
    return true;
}

/* Where the state lies changes with every step that might have been refused. */
static struct rt_map *map_of(const struct step_instance *t, const struct rt_device *d, enum rt_entry_kind kind)
{
    struct rt_map *m = &d->maps[kind];
    if (m->state == d->state && m->ahead == d->ahead) return m;
    m->state = d->state;
    m->ahead = d->ahead;
    m->weights_set = RT_PARAMS;
    map_fill(t, d, &t->entries[kind], m, NULL, 0);
    return m;
}

void rt_point_inputs(struct step_instance *t, enum rt_entry_kind kind, bool whole_only)
{
    for (RT_MINE(t, d)) {
        struct rt_map *m = map_of(t, d, kind);
        uint32_t n = whole_only ? m->whole_input_count : m->input_count;
        for (uint32_t i = 0; i < n; i++)
            m->pointers[m->inputs[i].at] = /* kernels only read it, and not where it is not given */
                (char *)((uintptr_t)d->bound[m->inputs[i].slot] + m->inputs[i].offset);
    }
}

/* The slot that stands for a parameter under other weights; the parameter itself where there is none. */
static const struct stepc_slot *weights_slot(const struct step_instance *t, uint32_t parameter, enum rt_weights weights)
{
    static const char prefixes[RT_WEIGHTS][6] = {"", "ema.", "slow.", "eval."};
    const struct stepc_slot *slots = t->program->slots;
    int32_t i = rt_slot_find_under(t, prefixes[weights], slots[parameter].name);
    return i >= 0 && slots[i].role <= STEP_STATE ? &slots[i] : &slots[parameter];
}

void rt_point_weights(struct step_instance *t, enum rt_entry_kind kind, enum rt_weights weights)
{
    for (RT_MINE(t, d)) {
        struct rt_map *m = map_of(t, d, kind);
        if (m->weights_set == (uint32_t)weights) continue;
        for (uint32_t i = 0; i < m->weight_count; i++) {
            const struct stepc_slot *s = weights_slot(t, m->weights[i].slot, weights);
            m->pointers[m->weights[i].at] = rt_slot_address(d, s) + m->weights[i].offset;
        }
        m->weights_set = (uint32_t)weights;
    }
}
