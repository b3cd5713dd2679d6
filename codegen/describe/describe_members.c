/* What a kernel command is called with. One over many tensors has a list of members: a set of buffers and a number of
 * iterations each. Members whose tensors lie one behind the other at every argument become one. */
#include "codegen/late/late.h"
#include "codegen/llvm/llvm_object.h"
#include "ir/plan.h"

static bool same_place(const struct plan_buffer *a, const struct plan_buffer *b)
{
    return a->space == b->space && a->offset == b->offset && a->slot == b->slot;
}

struct arguments {
    const struct plan *plan;
    const struct plan_command *c;
    size_t inputs, outputs;
    const uint32_t *held; /* NULL: nothing is */
};

/* Does b lie directly behind a? */
static bool behind(const struct arguments *arguments, uint32_t first, uint32_t then)
{
    const struct plan_buffer *a = &arguments->plan->buffers.items[first], *b = &arguments->plan->buffers.items[then];
    const uint32_t *held = arguments->held;
    return (!held || (held[first] == CG_NOT_HELD ? held[then] == CG_NOT_HELD : held[then] == held[first] + a->bytes)) &&
           a->space == b->space && a->space != PLAN_INPUT && a->space != PLAN_METRIC &&
           b->offset == a->offset + a->bytes;
}

static uint32_t argument(const struct arguments *a, uint32_t member, size_t i)
{
    return i < a->inputs ? a->c->reads.items[member * a->inputs + i]
                         : a->c->writes.items[member * a->outputs + (i - a->inputs)];
}

static const struct ir_type *argument_type(const struct arguments *a, uint32_t member, size_t i)
{
    const struct plan_group *g = &a->plan->groups.items[plan_member(a->c, member)];
    return ir_type(g->func, i < a->inputs ? g->inputs.items[i] : g->outputs.items[i - a->inputs]);
}

/* Of single numbers: is the argument a number of the member's own, rather than one that all read? */
static bool at_index(const struct arguments *a, uint32_t member, size_t i)
{
    const struct plan_group *g = &a->plan->groups.items[plan_member(a->c, member)];
    return i >= a->inputs || g->input_level.items[i] == 1;
}

/* Can two members be one? They are flat, go through what lies one behind the other element by element, and nothing
 * depends on where an element stands. */
static bool joined(const struct arguments *a, const struct nest *nest, uint32_t member, uint32_t then, int64_t elements)
{
    if (!nest->flat || nest_has(nest, NEST_POSITION)) return false;
    for (size_t i = 0; i < a->inputs + a->outputs; i++) {
        const struct plan_buffer *x = &a->plan->buffers.items[argument(a, member, i)];
        const struct plan_buffer *y = &a->plan->buffers.items[argument(a, then, i)];
        bool full = ir_type_elements(argument_type(a, member, i)) == elements &&
                    (elements > 1 || at_index(a, member, i));
        if (full ? !behind(a, argument(a, member, i), argument(a, then, i)) : !same_place(x, y)) return false;
        if (nest_access(nest, (uint32_t)i) & ~(full ? NEST_WALKS : NEST_STAYS)) return false;
    }
    return true;
}

void cg_members(const struct cg_entry *entry, const struct plan_command *c, struct arena *arena, struct cg_members *out)
{
    const struct plan *plan = entry->plan;
    const struct cg_kernel *kernels = entry->kernels;
    const struct plan_group *g = &plan->groups.items[c->group];
    struct arguments a = {plan, c, g->inputs.count, g->outputs.count, entry->late ? entry->late->held : NULL};
    uint32_t members = plan_members(c), per = (uint32_t)(a.inputs + a.outputs);
    *out = (struct cg_members){.buffers = arena_new_array(arena, uint32_t, (size_t)per * members + 1),
                               .ends = arena_new_array(arena, int64_t, members + 1)};
    int64_t before = 0; /* of the member at hand, from the start of its run */
    for (uint32_t k = 0; k < members; k++) {
        uint32_t m = members > 1 ? c->order.items[k] : k;
        const struct cg_kernel *kernel = &kernels[plan_member(c, m)];
        if (kernel->hash != kernels[c->group].hash) BUG("the members of a command do not have the same code");
        int64_t elements = kernel->nest->parallel_extent;
        for (size_t i = 0; i < per && !before; i++) out->buffers[out->count * per + i] = argument(&a, m, i);
        before += elements;
        out->work += kernel->nest->work;
        if (k + 1 < members && joined(&a, kernel->nest, m, c->order.items[k + 1], elements)) continue;
        out->extent += before;
        out->ends[out->count++] = out->extent;
        before = 0;
    }
}
