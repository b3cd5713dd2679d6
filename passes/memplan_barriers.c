/* Barriers: workers meet where a command touches bytes that another one has touched since they last met, one of the two
 * writing. What was touched is kept as sorted intervals, so that a plan of many commands without a meeting is not
 * compared command by command. */
#include "ir/base/intervals.h"
#include "passes/memplan.h"
#include <string.h>

enum { INPUT_SHIFT = 48 };

/* Inputs are apart from each other; what is only read anyway needs no meeting. */
static bool place_of(const struct plan *plan, uint32_t buffer, enum plan_space *space, struct interval *out)
{
    const struct plan_buffer *b = &plan->buffers.items[buffer];
    uint64_t base = b->space == PLAN_INPUT ? (uint64_t)b->slot << INPUT_SHIFT : b->offset;
    *space = plan_memory_of(b->space);
    *out = (struct interval){base, base + b->bytes};
    return b->bytes && b->space != PLAN_CONSTANT && b->space != PLAN_DEVICE;
}

/* What a group in a loop's body reads of a value: rows of it, where nothing else is asked for; `whole` otherwise. */
static uint64_t bytes_read(const struct plan_group *g, ir_value v, uint64_t whole)
{
    const struct ir_func *f = g->func;
    uint64_t rows = 0;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const struct ir_node *n = ir_get(f, g->nodes.items[i]);
        for (uint32_t k = 0; k < n->arg_count; k++) {
            if (n->args[k] != v) continue;
            if (n->op == OP_dynamic_slice && !k) rows += memplan_bytes(&n->type);
            else if (k || !plan_is_window(g, g->nodes.items[i])) return whole;
        }
    }
    return rows < whole ? rows : whole;
}

/* Operand i of a command, reads before writes. */
static uint32_t operand(const struct plan_command *k, size_t i)
{
    return i < k->reads.count ? k->reads.items[i] : k->writes.items[i - k->reads.count];
}

/* The bytes that operand i of a kernel stands for; a loop's rows are not all of their buffer. */
static uint64_t bytes_touched(const struct plan *plan, const struct plan_command *k, size_t i)
{
    bool write = i >= k->reads.count;
    size_t at = write ? i - k->reads.count : i;
    uint64_t whole = plan->buffers.items[operand(k, i)].bytes;
    if (k->kind != PLAN_KERNEL || k->calls.count || k->more.count) return whole;
    const struct plan_group *g = &plan->groups.items[k->group];
    if (g->func->entry || g->kind == GROUP_COPY) return whole;
    ir_value v = write ? g->outputs.items[at] : g->inputs.items[at];
    if (write) return plan_is_window(g, v) ? memplan_bytes(ir_type(g->func, ir_get(g->func, v)->args[1])) : whole;
    return ir_get(g->func, v)->op == OP_param ? bytes_read(g, v, whole) : whole;
}

void memplan_barriers(struct plan *plan, struct arena *scratch)
{
    struct intervals touched[PLAN_SPACE_COUNT], written[PLAN_SPACE_COUNT];
    memset(touched, 0, sizeof touched);
    memset(written, 0, sizeof written);
    bool after = false; /* a loop's border or a collective stands before */
    for (size_t c = 0; c < plan->commands.count; c++) {
        struct plan_command *k = &plan->commands.items[c];
        bool meet = after || k->kind != PLAN_KERNEL;
        size_t total = k->reads.count + k->writes.count;
        enum plan_space space;
        struct interval x;
        for (size_t i = 0; i < total && !meet; i++)
            if (place_of(plan, operand(k, i), &space, &x))
                meet = intervals_meet(i < k->reads.count ? &written[space] : &touched[space], x);
        k->barrier_before = meet && c > 0;
        for (size_t i = 0; i < PLAN_SPACE_COUNT && meet; i++) touched[i].list.count = written[i].list.count = 0;
        for (size_t i = 0; i < total; i++) {
            if (k->kind != PLAN_WAIT) k->bytes += bytes_touched(plan, k, i);
            if (!place_of(plan, operand(k, i), &space, &x)) continue;
            intervals_add(&touched[space], x, scratch);
            if (i >= k->reads.count) intervals_add(&written[space], x, scratch);
        }
        after = k->kind != PLAN_KERNEL;
    }
}
