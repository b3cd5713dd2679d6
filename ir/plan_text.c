/* Plans as data: the words of their kinds, the tables of their lines, copies. */
#include "ir/plan_text.h"
#include <stddef.h>
#include <string.h>

#define X(NAME, text) text,
const char *const plan_stage_names[] = {PLAN_STAGES(X)};
const char *const plan_space_names[] = {PLAN_SPACES(X)};
const char *const plan_group_names[] = {PLAN_GROUP_KINDS(X)};
const char *const plan_command_names[] = {PLAN_COMMAND_KINDS(X)};
#undef X

/* clang-format off */
static const struct plan_field buffer_fields[] = {
    {"value", FIELD_VALUE, offsetof(struct plan_buffer, value)},
    {"of", FIELD_INDEX, offsetof(struct plan_buffer, slot)},
    {"offset", FIELD_BYTES, offsetof(struct plan_buffer, offset)},
    {"bytes", FIELD_BYTES, offsetof(struct plan_buffer, bytes)},
    {"first", FIELD_INDEX, offsetof(struct plan_buffer, first)},
    {"last", FIELD_COUNT, offsetof(struct plan_buffer, last)},
    {"parts", FIELD_INDICES, offsetof(struct plan_buffer, parts)},
    {"windows", FIELD_FLAG, offsetof(struct plan_buffer, windows)},
};

static const struct plan_field group_fields[] = {
    {"nodes", FIELD_VALUES, offsetof(struct plan_group, nodes)},
    {"inputs", FIELD_VALUES, offsetof(struct plan_group, inputs)},
    {"input_levels", FIELD_LEVELS, offsetof(struct plan_group, input_level)},
    {"outputs", FIELD_VALUES, offsetof(struct plan_group, outputs)},
    {"output_levels", FIELD_LEVELS, offsetof(struct plan_group, output_level)},
    {"root", FIELD_VALUE, offsetof(struct plan_group, root)},
    {"alike", FIELD_CLASS, offsetof(struct plan_group, alike)},
    {"windows", FIELD_VALUES, offsetof(struct plan_group, windows)},
    {"reason", FIELD_TEXT, offsetof(struct plan_group, reason)},
};

static const struct plan_field taps_fields[] = {
    {"concat", FIELD_VALUE, offsetof(struct plan_taps, concat)},
    {"base", FIELD_VALUE, offsetof(struct plan_taps, base)},
    {"slice", FIELD_VALUE, offsetof(struct plan_taps, slice)},
    {"start", FIELD_BYTES, offsetof(struct plan_taps, start)},
    {"size", FIELD_BYTES, offsetof(struct plan_taps, size)},
    {"outer", FIELD_COUNT, offsetof(struct plan_taps, outer)},
    {"radix", FIELD_STEPS, offsetof(struct plan_taps, radix)},
    {"steps", FIELD_STEPS, offsetof(struct plan_taps, steps)},
    {"outer_steps", FIELD_STEPS, offsetof(struct plan_taps, outer_steps)},
};

static const struct plan_field join_fields[] = {
    {"concat", FIELD_VALUE, offsetof(struct plan_join, concat)},
};

static const struct plan_field command_fields[] = {
    {"node", FIELD_VALUE, offsetof(struct plan_command, node)},
    {"joined", FIELD_VALUES, offsetof(struct plan_command, joined)},
    {"computes", FIELD_INDEX, offsetof(struct plan_command, group)},
    {"more", FIELD_INDICES, offsetof(struct plan_command, more)},
    {"order", FIELD_INDICES, offsetof(struct plan_command, order)},
    {"calls", FIELD_VALUES, offsetof(struct plan_command, calls)},
    {"reads", FIELD_INDICES, offsetof(struct plan_command, reads)},
    {"writes", FIELD_INDICES, offsetof(struct plan_command, writes)},
    {"counter", FIELD_INDEX, offsetof(struct plan_command, counter)},
    {"limit", FIELD_INDEX, offsetof(struct plan_command, limit)},
    {"flag", FIELD_INDEX, offsetof(struct plan_command, flag)},
    {"other", FIELD_COUNT, offsetof(struct plan_command, other)},
    {"barrier", FIELD_FLAG, offsetof(struct plan_command, barrier_before)},
    {"flops", FIELD_NUMBER, offsetof(struct plan_command, flops)},
    {"bytes", FIELD_BYTES, offsetof(struct plan_command, bytes)},
};

const struct plan_field plan_module_fields[] = {
    {"launches", FIELD_FLAG, offsetof(struct plan_module, launches)},
    {"state_bytes", FIELD_BYTES, offsetof(struct plan_module, state_bytes)},
    {"result_bytes", FIELD_BYTES, offsetof(struct plan_module, result_bytes)},
    {"constant_bytes", FIELD_BYTES, offsetof(struct plan_module, constant_bytes)},
};

#define MEMORY(name) {#name, FIELD_BYTES, offsetof(struct plan, memory.name)}
const struct plan_field plan_fields[] = {
    {"arena_bytes", FIELD_BYTES, offsetof(struct plan, arena_bytes)},
    {"arena_lower_bound", FIELD_BYTES, offsetof(struct plan, arena_lower_bound)},
    MEMORY(parameters), MEMORY(averages), MEMORY(optimizer_state), MEMORY(other_state), MEMORY(gradients),
    MEMORY(activations), MEMORY(workspace), MEMORY(constants), MEMORY(peak), MEMORY(lower_bound),
};

#define COUNT(table) ((uint32_t)(sizeof(table) / sizeof (table)[0]))
#define LINE(word, T, kind, names, kinds) \
    {word, names, kinds, sizeof(struct T), offsetof(struct T, kind), offsetof(struct T, func)
const uint32_t plan_module_field_count = COUNT(plan_module_fields), plan_field_count = COUNT(plan_fields);
const struct plan_line plan_lines[PLAN_LINES] = {
    LINE("buffer", plan_buffer, space, plan_space_names, PLAN_SPACE_COUNT), buffer_fields, COUNT(buffer_fields)},
    LINE("group", plan_group, kind, plan_group_names, PLAN_GROUP_KIND_COUNT), group_fields, COUNT(group_fields)},
    {"taps", NULL, 0, sizeof(struct plan_taps), 0, offsetof(struct plan_taps, func), taps_fields, COUNT(taps_fields)},
    {"join", NULL, 0, sizeof(struct plan_join), 0, offsetof(struct plan_join, func), join_fields, COUNT(join_fields)},
    LINE("command", plan_command, kind, plan_command_names, PLAN_COMMAND_KIND_COUNT), command_fields,
     COUNT(command_fields)},
};
/* clang-format on */

struct plan_list *plan_list_of(const struct plan *plan, uint32_t line)
{
    static const size_t at[PLAN_LINES] = {offsetof(struct plan, buffers), offsetof(struct plan, groups),
                                          offsetof(struct plan, taps), offsetof(struct plan, joins),
                                          offsetof(struct plan, commands)};
    return (struct plan_list *)((char *)(uintptr_t)plan + at[line]);
}

bool plan_walks_one_run(const struct plan_group *g)
{
    int64_t all = g->kind == GROUP_MAP && !g->windows.count ? ir_type_elements(ir_type(g->func, g->outputs.items[0]))
                                                            : 1;
    if (all < 2) return false;
    for (size_t i = 0; i < g->inputs.count; i++) {
        int64_t elements = ir_type_elements(ir_type(g->func, g->inputs.items[i]));
        if (elements != all && elements != 1) return false;
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        const struct ir_node *n = ir_get(g->func, g->nodes.items[i]);
        int64_t elements = ir_type_elements(&n->type);
        bool spread = n->op == OP_broadcast && ir_type_elements(ir_type(g->func, n->args[0])) == 1;
        if (!(ir_ops[n->op].flags & IR_EWISE) && n->op != OP_reshape && !spread) return false;
        if (elements != all && elements != 1) return false;
    }
    return true;
}

bool plan_is_window(const struct plan_group *g, ir_value output)
{
    for (size_t i = 0; i < g->windows.count; i++)
        if (g->windows.items[i] == output) return true;
    return false;
}

const struct plan_taps *plan_taps_of(const struct plan *plan, const struct ir_func *f, ir_value concat)
{
    for (size_t i = 0; i < plan->taps.count; i++)
        if (plan->taps.items[i].func == f && plan->taps.items[i].concat == concat) return &plan->taps.items[i];
    return NULL;
}

bool plan_goes_with(const struct ir_node *x, const struct ir_node *y)
{
    return x->op == y->op && x->type.dtype == y->type.dtype && x->attr[0].v[0] == y->attr[0].v[0] &&
           (x->op != OP_all_reduce || x->attr[1].v[0] == y->attr[1].v[0]);
}

bool plan_is_join(const struct plan *plan, const struct ir_func *f, ir_value v)
{
    for (size_t i = 0; i < plan->joins.count; i++)
        if (plan->joins.items[i].func == f && plan->joins.items[i].concat == v) return true;
    return false;
}

/* What items of the lists point at is shared: lists in them are only added to, behind what the other one counts. */
struct plan_module *plan_copy(const struct plan_module *from, struct arena *arena)
{
    struct plan_module *to = arena_copy(arena, from, sizeof *from);
    to->plans.items = arena_copy(arena, from->plans.items, from->plans.count * sizeof *from->plans.items);
    for (size_t i = 0; i < from->plans.count; i++) {
        to->plans.items[i] = arena_copy(arena, from->plans.items[i], sizeof **from->plans.items);
        for (uint32_t k = 0; k < PLAN_LINES; k++) {
            struct plan_list *list = plan_list_of(to->plans.items[i], k);
            list->items = arena_copy(arena, list->items, list->count * plan_lines[k].size);
            list->capacity = list->count;
        }
    }
    return to;
}

const void *plan_constant_data(const struct ir_node *node, struct arena *arena)
{
    size_t n = (size_t)ir_type_elements(&node->type), size = ir_dtype_bytes((enum ir_dtype)node->type.dtype);
    if (!node->splat) return node->data;
    unsigned char *all = arena_alloc(arena, n * size + 1);
    for (size_t i = 0; i < n; i++) memcpy(all + i * size, node->data, size);
    return all;
}
bool plan_scores_of(const struct ir_func *f, ir_value v, struct plan_scores *s)
{
    const struct ir_node *n = ir_get(f, v);
    memset(s, 0, sizeof *s);
    if (n->op != OP_dot || !ir_dtype_is_float((enum ir_dtype)n->type.dtype) || n->attr[4].n || n->attr[5].n ||
        n->attr[6].n)
        return false;
    const struct ir_type *x = ir_type(f, n->args[0]);
    s->batches = n->attr[0].n;
    s->row_dims = x->rank - n->attr[0].n - n->attr[2].n;
    s->batch = s->rows = s->columns = s->depth = 1;
    for (uint32_t i = 0; i < n->type.rank; i++)
        *(i < s->batches ? &s->batch : i < s->batches + s->row_dims ? &s->rows : &s->columns) *= n->type.dim[i];
    for (uint32_t i = 0; i < n->attr[2].n; i++) s->depth *= x->dim[n->attr[2].v[i]];
    return true;
}
